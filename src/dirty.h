/* SPDX-License-Identifier: MIT
 *
 * A file's dirty ranges: a pure type without I/O, lock or clock; struct file_data's lock covers it.
 *
 * A range is the payload of one WRITE, from its arrival until the server has it on stable storage:
 *
 *	dirty_add() -> DIRTY_WAITING -> DIRTY_FLYING -> DIRTY_KEPT -> (COMMIT, same verifier) gone
 *	                    ^                                |
 *	                    +------ DIRTY_AGAIN <------------+ (COMMIT, other verifier: cut by newer bytes,
 *then sent again)
 *
 * Rules. No two overlapping ranges fly at once; the older that waits goes first. What is sent again gives way
 *to newer bytes: whatever a newer WRITE has been answered for is cut out of it, and it waits while a newer
 *one flies. A COMMIT counts for the ranges that were answered before it was sent.
 */
#ifndef DIRTY_H
#define DIRTY_H

#include <stdbool.h>
#include <stdint.h>

#define DIRTY_VERF_BYTES 8u

enum dirty_state {
	DIRTY_IDLE,    /* in no file */
	DIRTY_WAITING, /* overlaps one that flies, or an older one that waits */
	DIRTY_FLYING,  /* sent, not answered; or a SETATTR of the size, which flies over [size, end of
			  everything) */
	DIRTY_KEPT,    /* answered UNSTABLE: the bytes are kept */
	DIRTY_AGAIN,   /* the server may have lost it: to be sent again by the lane that owns the memory */
};

/* Embedded in what the caller knows about the WRITE. Owned by the caller; the file only links it. */
struct dirty_range {
	struct dirty_range *next, *prev;
	enum dirty_state state;
	uint64_t offset;
	uint64_t len_bytes;
	uint64_t seq;	   /* order of arrival in the file: the higher is the newer */
	uint64_t answered; /* order of answers in the file */
	uint8_t verf[DIRTY_VERF_BYTES];
	bool again; /* it flies, or waits, to be sent again */
};

struct dirty_list {
	struct dirty_range *first, *last;
};

struct dirty {
	struct dirty_list waiting; /* in order of arrival */
	struct dirty_list flying;
	struct dirty_list kept;	 /* in order of answers */
	struct dirty_list again; /* in order of arrival */
	uint64_t seq;
	uint64_t answers;
	uint64_t pending_end; /* no kept or again range ends behind it; 0 when there are none */
};

#endif
