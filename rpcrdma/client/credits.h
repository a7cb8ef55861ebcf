/* SPDX-License-Identifier: MIT
 *
 * Flow control (RFC 8166 §3.3.1-3.3.3): how many calls may be outstanding. A connection begins with one
 * credit; each reply carries the new absolute grant. A grant of 0 is illegal and taken as 1, so that a call
 * can go out and bring a better one; a grant above what we asked for is cut, because only so many receives
 * are posted.
 */
#ifndef CREDITS_H
#define CREDITS_H

#include <assert.h>
#include <stdbool.h>
#include <stdint.h>

struct credits {
	uint32_t limit; /* what we ask for, and the receives that we post */
	uint32_t granted;
	uint32_t in_use;
};

static inline void credits_reset(struct credits *c, uint32_t limit)
{
	*c = (struct credits){.limit = limit, .granted = 1};
}

static inline void credits_granted(struct credits *c, uint32_t granted)
{
	if (granted == 0)
		granted = 1;
	c->granted = granted < c->limit ? granted : c->limit;
}

/* After a shrunken grant in_use may exceed it: then nothing leaves until enough replies came. */
static inline bool credits_available(const struct credits *c)
{
	return c->in_use < c->granted;
}

static inline void credits_take(struct credits *c)
{
	assert(credits_available(c));
	c->in_use++;
}

static inline void credits_give(struct credits *c)
{
	assert(c->in_use > 0);
	c->in_use--;
}

#endif
