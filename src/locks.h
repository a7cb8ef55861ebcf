/* SPDX-License-Identifier: MIT
 *
 * The locks that we hold on the server, in the way of fcntl(2): of one owner, ranges of one file never
 * overlap; what is set replaces what was there, and is joined with what it touches. Locks of different owners
 * do not know each other here: the server decides about conflicts.
 *
 * A pure type, for one thread: the lock manager's (nlm.h). It is what must be unlocked when a file is closed
 * and reclaimed when the server has restarted. Ends are inclusive; LOCKS_END is the end of every file, as in
 * struct flock's l_len of 0.
 */
#ifndef LOCKS_H
#define LOCKS_H

#include "nfs3.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LOCKS_END ((uint64_t)INT64_MAX)
#define LOCKS_BUCKETS 256u

/* Whoever holds locks: an fcntl(2) owner (a process) or an open file description (flock(2), OFD locks). Part
 * of what the caller keeps for him. */
struct lock_owner {
	unsigned int held; /* ranges in the table: it must not go before they do */
};

struct held_lock {
	struct held_lock *next; /* of the same file, in no order */
	struct lock_owner *owner;
	uint64_t open; /* the open file that it was taken through; its end ends the lock */
	uint64_t start, end;
	bool exclusive;
	bool stale; /* held with a server that has restarted: to be reclaimed */
};

struct lock_file {
	struct lock_file *next; /* in the bucket */
	struct nfs3_fh fh;
	struct held_lock *locks; /* never NULL */
};

struct lock_table { /* zeroed: empty */
	struct lock_file *buckets[LOCKS_BUCKETS];
	unsigned int n;
};

void locks_fini(struct lock_table *table);

/* The owner now holds exactly this on [start, end]. -ENOMEM: nothing has changed. */
int locks_set(struct lock_table *table, const struct nfs3_fh *fh, struct lock_owner *owner, uint64_t open,
	      uint64_t start, uint64_t end, bool exclusive);
/* The owner no longer holds anything on [start, end]. 1: he held something; 0: nothing; -ENOMEM: nothing has
 * changed (not when start is 0 or end is LOCKS_END: then nothing is split). */
int locks_unset(struct lock_table *table, const struct nfs3_fh *fh, struct lock_owner *owner, uint64_t start,
		uint64_t end);

/* What the owner holds at `start`: NULL with *end at the last byte before what he holds next, or the lock
 * with *end at its end; *end is at most what it was. */
const struct held_lock *locks_at(const struct lock_table *table, const struct nfs3_fh *fh,
				 const struct lock_owner *owner, uint64_t start, uint64_t *end);
/* Does he hold all of [start, end] in that way? */
bool locks_hold(const struct lock_table *table, const struct nfs3_fh *fh, const struct lock_owner *owner,
		uint64_t start, uint64_t end, bool exclusive);
/* An owner who has taken locks on the file through that open file, or NULL. */
struct lock_owner *locks_through(const struct lock_table *table, const struct nfs3_fh *fh, uint64_t open);

/* Reclaim: all are stale; one that is, or NULL (with its file's handle); and this range of the owner's has
 * been dealt with. */
void locks_make_stale(struct lock_table *table);
const struct held_lock *locks_stale(const struct lock_table *table, const struct nfs3_fh **fh);
void locks_fresh(struct lock_table *table, const struct nfs3_fh *fh, const struct lock_owner *owner,
		 uint64_t start, uint64_t end);

#endif
