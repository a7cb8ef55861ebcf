/* SPDX-License-Identifier: MIT
 *
 * When to try to connect again: at once after a connection that answered calls, then 0.1 s doubling to 3 s,
 * with jitter so that a thousand clients of a server that restarts do not come back in step.
 */
#ifndef BACKOFF_H
#define BACKOFF_H

#include <stdint.h>

#define BACKOFF_FIRST_NS UINT64_C(100000000)
#define BACKOFF_MAX_NS UINT64_C(3000000000)

struct backoff {
	unsigned int failures; /* in a row */
};

static inline void backoff_reset(struct backoff *b)
{
	b->failures = 0;
}

/* How long to wait after one more failure; random is any 32 bits. 3/4 to 5/4 of the nominal delay. */
static inline uint64_t backoff_next(struct backoff *b, uint32_t random)
{
	uint64_t delay = BACKOFF_MAX_NS;

	if (b->failures < 5) /* 0.1 s << 5 is past 3 s */
		delay = BACKOFF_FIRST_NS << b->failures;
	b->failures++;
	return delay * 3 / 4 + delay / 2 * (random & 0xffff) / 0xffff;
}

#endif
