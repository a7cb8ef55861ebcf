/* SPDX-License-Identifier: MIT
 *
 * An op: one FUSE request in progress, from its handler to its reply. Ops are preallocated, one per
 * rpcrdma_call of the lane, and a lane reads /dev/fuse only while it has a free one: op_begin() never fails.
 * An op stays on its lane, and all its callbacks run there.
 *
 *	void fs_getattr(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
 *	{
 *		struct op *op = op_begin(req);
 *		struct inode *inode = op_hold(op, inode_of(the_mount->inodes, ino));
 *		op_rpc(op, NFSPROC3_GETATTR, op_cred(op), &inode->fh, on_getattr);
 *	}
 *	static void on_getattr(struct op *op, int err, struct xdr_reader *results)
 *	{
 *		struct nfs3_attr_res res;
 *		if (!err)
 *			err = nfs3_decode_getattr(results, &res);
 *		if (!err)
 *			err = nfs3_errno(res.status);
 *		if (err)
 *			op_reply_err(op, err);
 *		else ...
 *	}
 *
 * What an op owns is listed in it and given back when it ends: held inodes, one run of the arena, its call.
 * A reply ends the op: it must not be touched afterwards. One RPC at a time; the next is started from the
 * callback of the one before, or from a resume function.
 *
 * A caller that is killed. On a hard mount, only a fatal signal ends a request early. The op's RPC is then
 * *abandoned*: its request is answered with EINTR, its callbacks are never called, and what it owns is given
 * back when the memory is safe. An operation that must run to its end once started (because it changes state
 * of ours) sets op->run_to_end: then the request is answered at once, the steps go on, and op_reply_*() only
 * end the op; they return -ENOENT, as they do when the kernel no longer knows the request.
 *
 * Errors: 0 or -errno everywhere; op_reply_err() takes that too.
 */
#ifndef OP_H
#define OP_H

#include "cred.h"
#include "dirty.h"
#include "lane.h"
#include "nfs3.h"

#define FUSE_USE_VERSION 312
#include <assert.h>
#include <fuse3/fuse_lowlevel.h>
#include <stdalign.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/uio.h>

struct inode;
struct open_file;
struct rpcrdma_call;
struct xdr_reader;

/* err: 0, or why there is no NFS result: soft time-out, the server refused or could not decode the call,
 * RDMA_ERROR; -EOPNOTSUPP: it lacks the procedure, or all of NFSACL; ready for op_reply_err(). With 0,
 * `results` stands at the procedure's result and its status is not JUKEBOX: that was waited out. `results`
 * and all that is decoded from it is lent for the callback. */
typedef void op_reply_fn(struct op *op, int err, struct xdr_reader *results);
typedef void op_resume_fn(struct op *op);

#define OP_INODES_MAX 4u
#define OP_STATE_BYTES 1024u /* an operation's own state: two names of NFS3_NAME_MAX and 480 bytes more */

struct op {
	struct lane *lane;
	fuse_req_t req;	 /* NULL: nobody waits (any more) */
	uint64_t unique; /* of the FUSE request: FUSE_INTERRUPT names it; 0 for the lane's own ops */
	uint64_t begun_ns;
	pid_t tid; /* of the caller; 0: the kernel itself */
	uid_t uid;
	gid_t gid;
	bool run_to_end; /* see above; set before the first RPC */
	bool outlives;	 /* others may wait for it when its thread is gone: asynchronous I/O */
	/* Not NULL: told once of the first signal to the caller, of any kind, on the lane; it need not end
	 * the op. For an op that waits for others as long as it takes: for a lock. */
	void (*interrupted)(struct op *op);

	/* Owned, given back by the end of the op. */
	struct inode *inodes[OP_INODES_MAX];
	unsigned int ninodes;
	char *run; /* of the lane's arena, ARENA_REPLY */
	size_t run_bytes;
	struct rpcrdma_call *call;
	struct open_file *parked_file; /* op_park()'s */
	void *parked;		       /* malloc'ed */

	/* Payload of the next RPC; op_rpc() takes and clears them. All memory of the lane's arena. */
	struct iovec out;   /* WRITE data, a symlink's text */
	struct iovec in;    /* where READ data or a link's text goes */
	struct iovec reply; /* for a listing: at least nfs3_reply_max(proc, count) bytes */
	uint32_t count; /* largest variable part of the reply: READ's and READDIR's count, a link's length */
	/* Set by op_rpc(), from the clock and not from the turn: what inode.h calls submitted_ns. */
	uint64_t submitted_ns;
	/* After an RPC: */
	bool sent_again;       /* the call was sent more than once: it may have been run more than once */
	uint32_t placed_bytes; /* of `in`, by RDMA; 0: the data is in the message */

	/* fs_may()'s, while it runs. */
	struct {
		void (*then)(struct op *op, int err);
		struct inode *inode;
		uint32_t asked;
		uint64_t stamp;
	} may;

	/* fs_acls()'s, while it runs. */
	struct {
		void (*then)(struct op *op, int err, const struct nfs3_getacl_res *acls);
		struct inode *inode;
	} acls;

	/* fs_open_settle()'s, while it waits. */
	struct {
		struct op *next;
		uint64_t upto; /* removals that began up to here may not have seen the file open */
		op_resume_fn *resume;
	} settle;

	/* data_drain()'s, data_sync()'s and data_truncate_begin()'s, while they run. */
	struct {
		struct op *next;
		uint64_t upto; /* everything that arrived up to here must have been answered */
		op_resume_fn *resume;
	} drain;
	struct {
		struct op *next;
		struct inode *inode;
		uint64_t upto; /* everything answered up to here must be stable */
		op_resume_fn *resume;
	} sync;
	struct {
		struct dirty_range range;
		op_resume_fn *resume;
		struct lane_msg msg;
	} truncation;

	/* op.c's own. */
	struct op *next;
	struct cred cred;
	bool cred_known;
	bool in_done; /* its call has been answered and not yet been renewed */
	int phase;
	int refused;
	op_reply_fn *on_reply;
	op_resume_fn *resume;
	struct lane_msg msg;
	struct lane_timer timer;
	enum nfs3_proc proc;
	struct op_saved { /* of the call, for JUKEBOX: the same call with a new XID */
		uint32_t msg_len, reply_max;
		struct iovec out, in, reply;
	} saved;
	uint64_t asked_ns; /* when the RPC was begun; submitted_ns is its latest submission's */
	unsigned int retries;

	alignas(16) unsigned char state[OP_STATE_BYTES];
};

/* The operation's own state, zeroed by op_begin(). */
#define op_state(op, type)                                                                                   \
	__extension__({                                                                                      \
		static_assert(sizeof(type) <= OP_STATE_BYTES, "an operation's state is too big");            \
		(type *)(void *)(op)->state;                                                                 \
	})

/* For the request that the lane is just handling. */
struct op *op_begin(fuse_req_t req);

/* The caller's credential, for operations on names. Reads /proc on a miss: not for READ or WRITE, which use
 * their open_file's. NULL: this caller may not use the mount (a mount by an ordinary user serves only that
 * user): answer -EACCES. op_rpc() does that by itself when it is given NULL. */
const struct cred *op_cred(struct op *op);

/* Keeps an inode (adds a reference, dropped by the end of the op). Returns it. */
struct inode *op_hold(struct op *op, struct inode *inode);

/* Encodes and queues one RPC; on_reply is called later, never from inside. Names and handles in args are only
 * lent for the call. What cannot be sent (a name that is too long …) comes to on_reply as its error, too: by
 * a message, not from inside. */
void op_rpc(struct op *op, enum nfs3_proc proc, const struct cred *cred, const void *args,
	    op_reply_fn *on_reply);

/* Gets op->run, `bytes` of the lane's arena, then calls resume: at once, or when others have given memory
 * back (in order). */
void op_run_get(struct op *op, size_t bytes, op_resume_fn *resume);
void op_run_put(struct op *op);

/* For a WRITE that came when there was no memory for it: calls resume when arena_receive_area() has some for
 * it, in order. The op owns op->parked and op->parked_file meanwhile, and until its end. */
void op_park(struct op *op, op_resume_fn *resume);

/* Calls resume from the lane's loop, not before due_ns. */
void op_wait_until(struct op *op, uint64_t due_ns, op_resume_fn *resume);

/* From any thread: lets the op's lane call resume. For an op that waits for something that others do; its
 * owner keeps it in a list of his own meanwhile and must have set run_to_end. */
void op_resume(struct op *op, op_resume_fn *resume);

/* An op of the lane's own, with no request: COMMIT, sending data again, clean-up of a silly rename. NULL when
 * the lane's reserve for this is in use: try again from a later turn. Starts with run_to_end. */
struct op *op_begin_own(struct lane *lane);

/* Ends one of the lane's own that nobody misses: from the lane's loop, while its RPC is in flight or waits to
 * be sent again. Its callback is not called any more; the memory is given back when it is safe. */
void op_cancel(struct op *op);

/* ---- replies: each ends the op ----
 * 0, or -errno when the kernel did not take it: then lookups that it named do not count. */
int op_reply_err(struct op *op, int err); /* 0: done, without a result */
int op_reply_none(struct op *op);	  /* FORGET, or an op of the lane's own */
int op_reply_attr(struct op *op, const struct stat *attr, double timeout_s);
int op_reply_buf(struct op *op, const void *buf, size_t bytes);
int op_reply_create(struct op *op, const struct fuse_entry_param *entry, const struct fuse_file_info *fi);
int op_reply_entry(struct op *op, const struct fuse_entry_param *entry);
int op_reply_lock(struct op *op, const struct flock *lock);
int op_reply_open(struct op *op, const struct fuse_file_info *fi);
int op_reply_readlink(struct op *op, const char *path);
int op_reply_statfs(struct op *op, const struct statvfs *st);
int op_reply_write(struct op *op, size_t bytes);
int op_reply_xattr(struct op *op, size_t bytes); /* how long a value is */

/* Answers a WRITE before its data has gone to the server. The op, which must run to its end, goes on, and
 * what ends it is told to nobody. */
void op_answer_write(struct op *op, size_t bytes);

#endif
