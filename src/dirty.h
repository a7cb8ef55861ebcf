/* SPDX-License-Identifier: MIT
 *
 * A file's dirty ranges: a pure type without I/O, lock or clock; struct file_data's lock covers it.
 *
 * A range is the payload of one WRITE, from its arrival until the server has it on stable storage:
 *
 *	dirty_gather() -> DIRTY_FRESH ---+ (more bytes join it; then it is sent)
 *	                                 v
 *	dirty_add() -> DIRTY_WAITING -> DIRTY_FLYING -> DIRTY_KEPT -> (COMMIT, same verifier) gone
 *	                    ^                                |
 *	                    +------ DIRTY_AGAIN <------------+ (COMMIT, other verifier: cut by newer
 *	                                                        bytes, then sent again)
 *
 * Rules. No two overlapping ranges fly at once; the older that waits goes first. A fresh one overlaps no
 * other that is fresh, waits or flies for the first time: whatever comes and overlaps it makes it wait or fly
 * before. What is sent again gives way to newer bytes: whatever a newer WRITE has been answered for is cut
 * out of it, and it waits while a newer one flies. A COMMIT counts for the ranges that were answered before
 * it was sent.
 */
#ifndef DIRTY_H
#define DIRTY_H

#include <stdbool.h>
#include <stdint.h>

#define DIRTY_VERF_BYTES 8u
#define DIRTY_TO_END UINT64_MAX /* as a length: from the offset to the end of everything */

enum dirty_state {
	DIRTY_IDLE,    /* in no file */
	DIRTY_FRESH,   /* its writer has been answered; not sent yet, so that more can join it */
	DIRTY_WAITING, /* overlaps one that flies, or one that waits before it */
	DIRTY_FLYING,  /* sent, not answered; or a SETATTR of the size, which flies over all of the file */
	DIRTY_KEPT,    /* answered UNSTABLE: the bytes are kept */
	DIRTY_AGAIN,   /* the server may have lost it: to be sent again by the lane that owns the memory */
};

/* Embedded in what the caller knows about the WRITE. Owned by the caller; the file only links it. */
struct dirty_range {
	struct dirty_range *next, *prev;
	enum dirty_state state;
	bool behind; /* its writer was answered when it arrived: the size to report counts it from then on */
	bool again;  /* it waits, or flies, to be sent again */
	unsigned int resends; /* how often a COMMIT has brought another verifier than its WRITE */
	uint64_t offset;
	uint64_t len_bytes; /* may be cut down to 0: nothing is left to be sent again */
	uint64_t seq;	    /* order of arrival in the file: the higher is the newer */
	uint64_t answered;  /* KEPT: order of answers in the file */
	uint8_t verf[DIRTY_VERF_BYTES];
};

struct dirty_list {
	struct dirty_range *first, *last;
};

struct dirty {
	struct dirty_list fresh;
	struct dirty_list waiting; /* in order of arrival */
	struct dirty_list flying;
	struct dirty_list kept; /* in order of answers */
	struct dirty_list again;
	unsigned int nagain; /* ranges to be sent again: in `again`, waiting or flying */
	uint64_t seq;
	uint64_t answers;
	uint64_t pending_end; /* no range that is kept, behind or to be sent again ends behind it; 0: there is
				 none */
};

/* A range is cut in two: gives a second struct over the same memory (the callee copies what is his), or NULL:
 * out of memory. Then the part behind the cut is lost: the function that asked for it gives false, and its
 * caller owes the file an error. */
typedef struct dirty_range *dirty_split_fn(struct dirty_range *range);

/* A new WRITE, or a truncation: offset and len_bytes are set. True: it flies; false: it waits and will come
 * from dirty_next_ready(). */
bool dirty_add(struct dirty *d, struct dirty_range *range);

/* The same for one that need not leave yet. True: it is FRESH; false: it waits, as above. After a false of
 * either ask dirty_next_ready(): what it waits for may have been fresh. */
bool dirty_gather(struct dirty *d, struct dirty_range *range);

/* `bytes` more have come for the end of a range. True: it is FRESH and has them now; false: they must be a
 * range of their own. */
bool dirty_grow(struct dirty *d, struct dirty_range *range, uint64_t bytes);

/* A FRESH range is to leave. The same answer as dirty_add(). */
bool dirty_send_fresh(struct dirty *d, struct dirty_range *range);

/* All that is FRESH is to leave: it waits from here on, and comes from dirty_next_ready(). */
void dirty_release(struct dirty *d);

/* Of the ranges that arrived up to `upto` (a d->seq), has one that is behind not been answered by the server?
 */
bool dirty_unanswered(const struct dirty *d, uint64_t upto);

/* An AGAIN range is about to be sent: the same answer. Not for one that has nothing left:
 * dirty_drop() that. */
bool dirty_send_again(struct dirty *d, struct dirty_range *range);

/* A waiting range that may fly now, and does from here on; NULL: none. Ask after everything that ends a
 * flight. */
struct dirty_range *dirty_next_ready(struct dirty *d);

/* The flight ended with an UNSTABLE answer: its bytes are kept, and cut out of what is older and waits to be
 * sent again. False if a split failed (see dirty_split_fn). */
bool dirty_answered(struct dirty *d, struct dirty_range *range, const uint8_t verf[DIRTY_VERF_BYTES],
		    dirty_split_fn *split);

/* The flight ended with its bytes stable already. Nothing older may overwrite them later. False if a
 * split failed. */
bool dirty_stable(struct dirty *d, struct dirty_range *range, dirty_split_fn *split);

/* Takes a range out, whatever its state: it failed, it was a truncation, or it has nothing left. */
void dirty_drop(struct dirty *d, struct dirty_range *range);

/* The file was cut at `size`: nothing of what is kept beyond it will be sent again. */
void dirty_truncate(struct dirty *d, uint64_t size);

/* A COMMIT that was sent when d->answers was `upto` came back with `verf`. Takes out the ranges that are
 * stable now and returns them, linked by `next`; makes AGAIN those with another verifier, cut by newer bytes.
 * *ok is false if a split failed. */
struct dirty_range *dirty_committed(struct dirty *d, uint64_t upto, const uint8_t verf[DIRTY_VERF_BYTES],
				    dirty_split_fn *split, bool *ok);

/* Is everything answered up to `upto` stable? False also while anything is to be sent again. */
bool dirty_is_stable(const struct dirty *d, uint64_t upto);

/* All that is not stable, of WRITEs whose writers have been answered; what overlaps counts twice. */
uint64_t dirty_bytes(const struct dirty *d);

static inline bool dirty_none(const struct dirty *d)
{
	return !d->fresh.first && !d->waiting.first && !d->flying.first && !d->kept.first && !d->again.first;
}

#endif
