/* SPDX-License-Identifier: MIT
 *
 * The watchdog: which call has had no answer for too long, and what to say of it. A pure type: time is an
 * argument. A lane keeps one, and looks each second.
 *
 * It speaks of one call, the oldest, when it is as old as the limit, and again each time its age has doubled;
 * and once more when that call has its answer. All others are a number in that line.
 */
#ifndef WATCHDOG_H
#define WATCHDOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define WATCHDOG_LIMIT_NS UINT64_C(10000000000) /* at most; half of timeo if that is less, but a second */

struct watchdog {
	uint64_t since_ns; /* when the call that it last spoke of, or would, was asked; 0: none */
	uint64_t next_age_ns;
	bool spoke;
};

/* Until when a call needs no word, with that time-out for an unanswered one. */
uint64_t watchdog_limit_ns(uint64_t timeo_ns);

enum watchdog_word {
	WATCHDOG_SILENT,
	WATCHDOG_LATE,	   /* the oldest call has waited for too long (again) */
	WATCHDOG_ANSWERED, /* the one that it spoke of has its answer: *age_ns says how old it had become */
};
/* since_ns: when the call was asked that has waited longest; 0 when none waits. */
enum watchdog_word watchdog_look(struct watchdog *w, uint64_t since_ns, uint64_t limit_ns, uint64_t now_ns,
				 uint64_t *age_ns);

/* What is known of a call that waits. */
struct watchdog_call {
	const char *source, *server, *mountpoint, *proc;
	uint32_t xid;
	unsigned int lane, others; /* calls of the lane that wait, too */
	uint64_t age_ns;
	unsigned int sends;	       /* 0: it has not left yet */
	unsigned int refused;	       /* how often the server said NFS3ERR_JUKEBOX: "not now" */
	unsigned int state, waits_for; /* of the lane: enum rpcrdma_state, enum rpcrdma_waits */
};
/* One line: which call, where it stands, what to do. */
void watchdog_line(const struct watchdog_call *call, char *line, size_t size);

#endif
