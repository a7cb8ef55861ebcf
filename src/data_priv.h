/* SPDX-License-Identifier: MIT
 *
 * The inside of the data side: pieces of WRITE data, from /dev/fuse until they are stable.
 *
 * Ownership. A write_buf belongs to the lane whose arena holds its bytes: only that lane sends it and frees
 * it. While it is linked into its file (range.state is not DIRTY_IDLE) its range, and nothing else of it, is
 * covered by the file's lock. Another lane that takes it out of the file (it ran the COMMIT) hands it back by
 * a message. It keeps its open_file, and so the inode.
 */
#ifndef DATA_PRIV_H
#define DATA_PRIV_H

#include "data.h"
#include "inode.h"
#include "lane_priv.h"

struct write_buf {
	struct dirty_range range; /* first: a range with a finite length is one of a write_buf's */
	struct lane *lane;
	struct open_file *file;
	struct op *op;		  /* sends it; NULL while it is kept */
	uint64_t done_bytes;	  /* of range.len_bytes, answered already (short writes) */
	uint64_t base_offset;	  /* in the file, of base */
	char *base;		  /* in the arena */
	struct write_buf *origin; /* whose memory this is: itself, or of the piece that it was cut from */
	atomic_uint pieces;	  /* of an origin: how many still use the memory */
	size_t run_bytes;	  /* of an origin: what was taken of the arena */
	bool stable;		  /* so far each answer said that it is stable already */
	bool sync;		  /* asked to be; under the file's lock while its range is FRESH */
	bool heap;		  /* a piece that was cut off; not from the lane's preallocated ones */
	bool gathering;		  /* in the lane's list of those that more may join */
	bool posted;		  /* under the file's lock: its lane has been told to send it again */
	bool linked;		  /* in the lane's list of those that are not stable */
	unsigned int losses;	  /* mount->losses when it was last sent */
	uint64_t since_ns;	  /* gathering, or kept */
	/* In the lane's list of free ones, of those that gather, or of those that are not stable. */
	struct write_buf *next, *prev;
	struct write_buf *next_again; /* in the lane's queue of those that wait for an op of its own */
	struct lane_msg msg;
};

/* ---- data_write.c ---- */
struct write_buf *write_buf_of(struct dirty_range *range);
void write_buf_free(struct write_buf *wb);	/* its own lane; range is idle */
void write_buf_give_back(struct write_buf *wb); /* any lane; range is idle */
dirty_split_fn write_buf_split;
/* Under the file's lock: tells their lanes to send again what must be. */
void data_post_again(struct file_data *fd);
/* Under the file's lock: lets fly what may, after a flight has ended or something was told to wait; and
 * resumes those in data_drain(). */
void data_post_ready(struct file_data *fd);
/* All that the lane holds back leaves. */
void data_send_gathered(struct lane *lane);
void data_resend_queued(struct lane *lane);
/* What data_lost() has said yes to: a line in the log, and the statistics. On a lane. */
void data_log_lost(struct inode *inode, uint64_t bytes, int err);

/* ---- commit.c ---- */
/* Starts a COMMIT of the file from this lane if it has anything to commit and none is running. */
void commit_want(struct lane *lane, struct inode *inode);
/* Something became stable, or was lost: resumes those who wait for that, or goes on. On a lane. */
void commit_advance(struct lane *lane, struct inode *inode);
void commit_kept(struct lane *lane,
		 struct write_buf *wb); /* into the lane's list of what is not stable, at its end */
void commit_forget(struct write_buf *wb);

#endif
