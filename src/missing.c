/* SPDX-License-Identifier: MIT */
#include "missing.h"

#include <stdlib.h>
#include <string.h>

static void drop_oldest(struct missing *missing)
{
	struct missing_name *oldest = missing->first;

	missing->first = oldest->next;
	if (!missing->first)
		missing->last = NULL;
	missing->count--;
	free(oldest);
}

void missing_add(struct missing *missing, const char *name)
{
	size_t bytes = strlen(name) + 1;
	struct missing_name *new = malloc(sizeof *new + bytes);

	if (!new)
		return;
	if (missing->count == MISSING_MAX)
		drop_oldest(missing);
	new->next = NULL;
	memcpy(new->name, name, bytes);
	if (missing->last)
		missing->last->next = new;
	else
		missing->first = new;
	missing->last = new;
	missing->count++;
}

struct missing missing_take(struct missing *missing)
{
	struct missing taken = *missing;

	*missing = (struct missing){0};
	return taken;
}

void missing_free(struct missing *missing)
{
	while (missing->first)
		drop_oldest(missing);
}
