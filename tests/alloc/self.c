/* SPDX-License-Identifier: MIT
 *
 * Takes memory in ways whose counts are known, to see that malloc_attr.so books them: with N as argument, N
 * times each.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(int argc, char **argv)
{
	int n = argc > 1 ? atoi(argv[1]) : 0;
	for (int i = 0; i < n; i++) {
		void *volatile a = malloc(10);
		void *volatile b = calloc(2, 10);
		a = realloc(a, 1000);
		char *volatile c = strdup("taken by the C library for us");
		void *d = NULL;
		if (posix_memalign(&d, 64, 100))
			return 1;
		free(a);
		free(b);
		free(c);
		free(d);
	}
	return 0;
}
