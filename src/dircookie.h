/* SPDX-License-Identifier: MIT
 *
 * Finds out that a server's directory listing goes round in a circle (its cookies repeat), in constant space:
 * Brent's method. A pure type, one per open directory.
 *
 * A cookie names the place behind an entry, and the listing goes on from the last one. If a cookie comes
 * again, everything behind it will too, for ever. Each cookie is compared with a *mark*; the mark moves up to
 * the present cookie after 1, 2, 4, 8 … entries. So a circle of n entries is found at the latest after 3n
 * entries or three times the way to its beginning.
 */
#ifndef DIRCOOKIE_H
#define DIRCOOKIE_H

#include <stdbool.h>
#include <stdint.h>

struct cookie_loop {
	uint64_t mark;
	uint64_t steps; /* since the mark was set */
	uint64_t limit; /* steps at which it moves */
};

/* A listing begins behind the entry that `cookie` names; 0: at the start. */
static inline void cookie_loop_start(struct cookie_loop *loop, uint64_t cookie)
{
	*loop = (struct cookie_loop){.mark = cookie, .limit = 1};
}

/* The next entry's cookie; true: it goes round in a circle. Cookie 0 would begin anew and is one too. */
static inline bool cookie_loop_step(struct cookie_loop *loop, uint64_t cookie)
{
	if (cookie == loop->mark || cookie == 0)
		return true;
	if (++loop->steps == loop->limit) {
		loop->mark = cookie;
		loop->steps = 0;
		loop->limit *= 2;
	}
	return false;
}

#endif
