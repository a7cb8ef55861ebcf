/* SPDX-License-Identifier: MIT
 *
 * Locks on the server: fcntl(2) and flock(2), for the kinds that are not local (then the kernel does them,
 * and nothing of it comes here). A lane asks the lock manager (nlm.h) and is told.
 *
 * A lock is a point where caches meet, as with the kernel's client: before an unlock everything that was
 * written is stable on the server, pages of mmap(2) included; with a lock, the kernel's pages and what we
 * know of the attributes are dropped, so that what is read then is the server's.
 *
 * flock(2) is a lock over the whole file, of an owner of its own: it and a fcntl(2) lock are in each other's
 * way, and an exclusive one needs a file that is open for writing.
 */
#include "data_priv.h"
#include "fs.h"
#include "locks.h"
#include "mount.h"
#include "nlm.h"
#include "notify.h"
#include "xdr.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>

struct lock_state {
	struct open_file *file; /* referenced */
	uint64_t owner;
	uint64_t start, end;
	short type; /* F_RDLCK, F_WRLCK, F_UNLCK */
	bool wait;
	pid_t pid;
	uint64_t id; /* nlm_interrupt()'s */
	int err;
	struct nlm_conflict conflict;
};

static struct lock_state *state_of(struct op *op)
{
	return op_state(op, struct lock_state);
}

static struct nlm_request request_for(const struct lock_state *s, enum nlm_what what)
{
	return (struct nlm_request){.what = what,
				    .fh = &s->file->inode->fh,
				    .cred = &s->file->cred,
				    .owner = s->owner,
				    .open = s->file->number,
				    .pid = s->pid,
				    .start = s->start,
				    .end = s->end,
				    .exclusive = s->type == F_WRLCK,
				    .wait = s->wait};
}

/* NULL: it has been refused, and answered. */
static struct op *begin(fuse_req_t req, struct fuse_file_info *fi)
{
	struct op *op = op_begin(req);
	struct lock_state *s = state_of(op);
	struct open_file *file = open_file_of(fi);
	if (!the_mount->nlm) { /* the kernel was told not to ask */
		op_reply_err(op, -ENOLCK);
		return NULL;
	}
	op_hold(op, file->inode);
	s->file = open_file_ref(file);
	s->owner = fi->lock_owner;
	s->end = LOCKS_END;
	s->pid = op->tid;
	op->run_to_end = true;
	return op;
}

static void set_range(struct lock_state *s, const struct flock *lock)
{
	s->start = (uint64_t)lock->l_start;
	if (lock->l_len > 0 && (uint64_t)lock->l_len <= LOCKS_END - s->start)
		s->end = s->start + (uint64_t)lock->l_len - 1;
	s->type = lock->l_type;
	if (lock->l_pid)
		s->pid = lock->l_pid;
}

static void end(struct op *op, int err)
{
	open_file_unref(state_of(op)->file);
	op_reply_err(op, err);
}

/* ---- the lock manager's answer, and the notifier's ---- */

static op_resume_fn on_locked, on_unlocked, on_tested;

static void answered(struct op *op, int err, op_resume_fn *resume)
{
	state_of(op)->err = err;
	op_resume(op, resume);
}

static void lock_done(void *ctx, int err, const struct nlm_conflict *conflict)
{
	(void)conflict;
	answered(ctx, err, on_locked);
}

static void unlock_done(void *ctx, int err, const struct nlm_conflict *conflict)
{
	(void)conflict;
	answered(ctx, err, on_unlocked);
}

static void test_done(void *ctx, int err, const struct nlm_conflict *conflict)
{
	struct op *op = ctx;
	if (!err)
		state_of(op)->conflict = *conflict;
	answered(op, err, on_tested);
}

static void submit(struct op *op, enum nlm_what what, nlm_done_fn *done)
{
	struct lock_state *s = state_of(op);
	struct nlm_request q = request_for(s, what);
	q.done = done;
	q.ctx = op;
	int err = nlm_submit(the_mount->nlm, &q, &s->id);
	if (err)
		end(op, err);
}

/* ---- lock ---- */

static void on_interrupted(struct op *op)
{
	nlm_interrupt(the_mount->nlm, state_of(op)->id);
}

/* If the caller has been killed meanwhile nobody holds it: his files may be closed already. */
static void on_lock_coherent(struct op *op)
{
	struct lock_state s = *state_of(op);
	uint64_t id;
	if (op_reply_err(op, 0)) {
		struct nlm_request q = request_for(&s, NLM_WHAT_UNLOCK);
		nlm_submit(the_mount->nlm, &q, &id);
	}
	open_file_unref(s.file);
}

static void lock_caches_dropped(void *ctx)
{
	op_resume(ctx, on_lock_coherent);
}

/* ORDER: first the attributes, then the kernel is told to ask for them. If what we learn when it asks made us
 * tell it something, it would discard the answer. */
static void on_lock_attr(struct op *op, int err, struct xdr_reader *results)
{
	struct inode *inode = state_of(op)->file->inode;
	struct nfs3_attr_res res;
	if (!err)
		err = nfs3_getattr_verdict(results, &res);
	if (err)
		inode_expire(inode);
	else
		inode_take_attr(inode, &res.attr, op->submitted_ns, lane_clock_ns());
	notify_inval_inode_then(the_mount->notify, inode, lock_caches_dropped, op);
}

static void on_locked(struct op *op)
{
	struct lock_state *s = state_of(op);
	op->interrupted = NULL;
	if (s->err) {
		end(op, s->err);
		return;
	}
	op_rpc(op, NFSPROC3_GETATTR, &s->file->cred, &s->file->inode->fh, on_lock_attr);
}

static void lock(struct op *op)
{
	struct lock_state *s = state_of(op);
	atomic_store(&s->file->inode->data.server_locks, true);
	op->interrupted = on_interrupted;
	submit(op, NLM_WHAT_LOCK, lock_done);
}

/* ---- unlock ---- */

static void on_unlocked(struct op *op)
{
	end(op, state_of(op)->err);
}

static void on_unlock_synced(struct op *op)
{
	submit(op, NLM_WHAT_UNLOCK, unlock_done);
}

static void on_unlock_coherent(struct op *op)
{
	data_sync(op, state_of(op)->file->inode, on_unlock_synced);
}

static void unlock_pages_written(void *ctx)
{
	op_resume(ctx, on_unlock_coherent);
}

/* That data may be lost is for fsync and close to say. */
static void unlock(struct op *op)
{
	notify_inval_inode_then(the_mount->notify, state_of(op)->file->inode, unlock_pages_written, op);
}

/* ---- the operations ---- */

void fs_setlk(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi, struct flock *how, int wait)
{
	struct op *op = begin(req, fi);
	(void)ino;
	if (!op)
		return;
	set_range(state_of(op), how);
	state_of(op)->wait = wait;
	if (how->l_type == F_UNLCK)
		unlock(op);
	else
		lock(op);
}

static bool mode_allows(const struct open_file *file, short type)
{
	return type == F_UNLCK || (file->flags & O_ACCMODE) != (type == F_WRLCK ? O_RDONLY : O_WRONLY);
}

void fs_flock(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi, int how)
{
	struct op *op = begin(req, fi);
	(void)ino;
	if (!op)
		return;
	struct lock_state *s = state_of(op);
	s->wait = !(how & LOCK_NB);
	s->type = (how & ~LOCK_NB) == LOCK_SH ? F_RDLCK : (how & ~LOCK_NB) == LOCK_EX ? F_WRLCK : F_UNLCK;
	if (!mode_allows(s->file, s->type))
		end(op, -EBADF);
	else if (s->type == F_UNLCK)
		unlock(op);
	else
		lock(op);
}

static void on_tested(struct op *op)
{
	struct lock_state *s = state_of(op);
	struct flock found = {.l_type = F_UNLCK, .l_whence = SEEK_SET};
	if (s->err) {
		end(op, s->err);
		return;
	}
	if (s->conflict.any) {
		found.l_type = s->conflict.exclusive ? F_WRLCK : F_RDLCK;
		found.l_start = (off_t)s->conflict.start;
		found.l_len =
			s->conflict.end == LOCKS_END ? 0 : (off_t)(s->conflict.end - s->conflict.start + 1);
		found.l_pid = s->conflict.pid;
	}
	open_file_unref(s->file);
	op_reply_lock(op, &found);
}

void fs_getlk(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi, struct flock *how)
{
	struct op *op = begin(req, fi);
	(void)ino;
	if (!op)
		return;
	set_range(state_of(op), how);
	submit(op, NLM_WHAT_TEST, test_done);
}

/* ---- closing ---- */

static bool may_hold_locks(const struct open_file *file)
{
	return the_mount->nlm && atomic_load(&file->inode->data.server_locks);
}

static void on_flush_unlocked(struct op *op)
{
	op_reply_err(op, state_of(op)->err);
}

/* Whatever it says: the descriptor is closed, and the data's error is what close(2) tells. */
static void flush_done(void *ctx, int err, const struct nlm_conflict *conflict)
{
	(void)err, (void)conflict;
	op_resume(ctx, on_flush_unlocked);
}

void fs_flush_locks(struct op *op, struct open_file *file, uint64_t lock_owner, bool wait, int err)
{
	struct lock_state s = {.file = file, .owner = lock_owner};
	struct nlm_request q;
	if (!may_hold_locks(file)) {
		op_reply_err(op, err);
		return;
	}
	op_hold(op, file->inode);
	q = request_for(&s, NLM_WHAT_CLOSE_OWNER);
	if (wait) {
		op->run_to_end = true;
		state_of(op)->err = err;
		q.done = flush_done;
		q.ctx = op;
	}
	if (nlm_submit(the_mount->nlm, &q, &s.id) || !wait)
		op_reply_err(op, err);
}

void fs_release_locks(struct open_file *file)
{
	struct lock_state s = {.file = file};
	if (!may_hold_locks(file))
		return;
	struct nlm_request q = request_for(&s, NLM_WHAT_CLOSE_OPEN);
	nlm_submit(the_mount->nlm, &q, &s.id);
}
