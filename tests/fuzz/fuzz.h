/* SPDX-License-Identifier: MIT
 *
 * What the fuzz targets have in common. A target is a libFuzzer program: the function below is called with
 * one input after the other, in a process of its own. It may find an error by crashing, by a sanitizer's
 * word, by a leak, by taking too long, or by require(), which states what must hold whatever the input was.
 *
 * A target must do the same for the same input, whatever came before it: what it keeps between inputs is set
 * back first. How inputs are made up is said at the top of each target; seeds.py makes the first of them.
 */
#ifndef FUZZ_H
#define FUZZ_H

#include "xdr.h"

#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len_bytes);

#define require(what)                                                                                        \
	do {                                                                                                 \
		if (!(what)) {                                                                               \
			fprintf(stderr, "%s:%d: does not hold: %s\n", __FILE__, __LINE__, #what);            \
			abort();                                                                             \
		}                                                                                            \
	} while (0)

/* What the input is taken apart with: the reader itself gives zeros when there is no more. */
static inline uint8_t take_u8(struct xdr_reader *in)
{
	const uint8_t *p = xdr_left(in) ? xdr_bytes(in, 1) : NULL;
	return p ? *p : 0;
}

static inline uint16_t take_u16(struct xdr_reader *in)
{
	uint16_t high = take_u8(in);
	return (uint16_t)(high << 8 | take_u8(in));
}

/* At most len_bytes of what is left, as memory of its own, exactly that long: a byte read behind it is found.
 * free() it. */
static inline uint8_t *take_copy(struct xdr_reader *in, size_t len_bytes, size_t *got_bytes)
{
	size_t n = xdr_left(in) < len_bytes ? xdr_left(in) : len_bytes;
	uint8_t *copy = malloc(n);
	if (n)
		memcpy(copy, xdr_bytes(in, n), n);
	*got_bytes = n;
	return copy;
}

/* Reads every byte, so that one that must not be read is found. */
static inline void touch(const void *bytes, size_t len_bytes)
{
	static volatile uint8_t sink;
	const volatile uint8_t *p = bytes;
	for (size_t i = 0; i < len_bytes; i++)
		sink = p[i];
	(void)sink;
}

#endif
