/* SPDX-License-Identifier: MIT
 *
 * Cached attributes of one file: how long they may be believed, which replies are too old to be taken, and
 * whether somebody else has changed the file. A pure type: no lock (the inode's lock is held by the caller),
 * no I/O, time is an argument.
 *
 * How long (nfs(5), "attribute caching"): ac*min after a change, doubled each time the attributes turn out
 * unchanged after that long, at most ac*max; `noac` makes every answer expire at once.
 *
 * Which replies. Servers run RPCs in any order and lanes hear the replies in any order. Each reply is
 * judged by when its call was *submitted*: what was submitted before the latest known change had completed
 * may show the file as it was before that change, and is discarded unless its ctime proves it newer.
 *
 * Whose change (weak cache consistency, RFC 1813 §2.6, wcc_data). A call of ours that changes a file is
 * bracketed by attr_change_begin() and attr_change_end(). When size and mtime before the change are those
 * that we have, the change is ours alone. (Not the ctime: a rename or link of ours has changed that, and its
 * reply did not tell.) While several changes of ours overlap nobody can tell, and, as the Linux client does,
 * we take them all for ours: close-to-open consistency asks the server at the next open.
 *
 * Times are CLOCK_MONOTONIC in nanoseconds.
 */
#ifndef ATTR_H
#define ATTR_H

#include "nfs3.h"

#include <stdbool.h>
#include <stdint.h>

/* What the options acregmin, acregmax, acdirmin, acdirmax and noac come to. */
struct attr_limits {
	uint64_t reg_min_ns, reg_max_ns;
	uint64_t dir_min_ns, dir_max_ns;
	bool noac;
};

enum attr_verdict {
	ATTR_DISCARDED, /* the reply is older than what we know */
	ATTR_SAME,	/* nothing changed */
	ATTR_CHANGED,	/* taken; what the kernel caches of the contents is still good */
	ATTR_RIGHTS,	/* taken; likewise, but mode, owner or group are others */
	ATTR_FOREIGN,	/* taken; somebody else changed the contents: cached pages or entries are stale (and
			 * mode and owner may be others) */
};

struct attr_cache {
	struct nfs3_attr attr; /* meaningful when known */
	bool known;
	bool overlapped; /* changes of ours have overlapped since there were none in flight */
	unsigned int changes_in_flight;
	uint64_t as_of_ns;	  /* a reply to a call submitted before this may be out of date */
	uint64_t expires_ns;	  /* believed until then; 0: ask first */
	uint64_t timeo_ns;	  /* how long an unchanged answer is believed */
	uint64_t timeo_since_ns;  /* since when it is this long */
	uint64_t contents_ns;	  /* who asked about the contents before this may have the old ones */
	uint64_t foreign_changes; /* how often ATTR_FOREIGN was given: compare to learn whether caches held */
};

/* Takes an attribute reply of a call that changes nothing. */
enum attr_verdict attr_take(struct attr_cache *c, const struct attr_limits *limits,
			    const struct nfs3_attr *attr, uint64_t submitted_ns, uint64_t now_ns);

/* A call of ours that changes this file is about to be submitted. */
void attr_change_begin(struct attr_cache *c);
/* ... and has been answered (or was abandoned: then wcc is NULL). */
enum attr_verdict attr_change_end(struct attr_cache *c, const struct attr_limits *limits,
				  const struct nfs3_wcc *wcc, uint64_t submitted_ns, uint64_t now_ns);

/* Are the contents, as far as is known, still those that a call submitted then has seen? */
bool attr_contents_since(const struct attr_cache *c, uint64_t submitted_ns);

/* Ask the server before believing them again. */
void attr_expire(struct attr_cache *c);
/* How much longer they may be believed; 0: ask first. */
uint64_t attr_valid_ns(const struct attr_cache *c, uint64_t now_ns);

/* -1, 0, 1 as a is before, the same as, or after b. */
int nfs3_time_cmp(struct nfs3_time a, struct nfs3_time b);

#endif
