/* SPDX-License-Identifier: MIT
 *
 * COMMIT. Normal operation: one COMMIT of a whole file makes stable all that was answered before it was sent,
 * on whichever lane; so one runs at a time for a file, on the lane that first wanted it. It is wanted by
 * fsync(2) and close(2); by a lane a quarter of whose arena is dirty, or whose readers wait for memory; when
 * data has been kept for a while (sync(2) and umount(2) tell a FUSE file system nothing); and after a
 * reconnect, when the server may have lost what it had not committed.
 *
 * Recovery. Ranges whose verifier is not the one that COMMIT brings are DIRTY_AGAIN: their lanes send them
 * again (data_write.c), and a later COMMIT covers them; but not for ever on a server whose verifier never
 * settles (RESENDS_MAX). A COMMIT that fails loses the ranges that it was for: an error that fsync() or
 * close() reports, once to each who has the file open.
 *
 * Progress. A COMMIT needs an op of the lane's own. When all are in use the file waits in the lane's queue;
 * those in use end without any request that was not yet read.
 */
#include "arena.h"
#include "data_priv.h"
#include "fs_entry.h"
#include "log.h"
#include "mount.h"
#include "options.h"
#include "xdr.h"

#include <errno.h>
#include <string.h>

#define RESENDS_MAX 64	/* of one piece: more than a server restarts between a WRITE and its COMMIT */
#define LOOK_AT_MAX 256 /* kept pieces, when a turn looks for files to commit */

struct commit_state {
	struct inode *inode; /* held by the op */
	uint64_t upto;
};

/* ---- the lane's list of pieces that are not stable: kept, or to be sent again ---- */

static void on_keep_timer(struct lane_timer *timer);

/* The option says by when data is stable by itself. Of that time it is gathered for GATHER_NS (data_write.c),
 * kept for three fifths, and the rest is COMMIT's. */
static uint64_t keep_ns(const struct lane *lane)
{
	return lane->mount->opts->commit * UINT64_C(600000000);
}

void commit_kept(struct lane *lane, struct write_buf *wb)
{
	/* Another lane's COMMIT may have taken it out of the file already; then a message is on its way. */
	commit_forget(wb);
	wb->since_ns = lane->now_ns;
	wb->linked = true;
	wb->next = NULL;
	wb->prev = lane->kept_last;
	if (lane->kept_last)
		lane->kept_last->next = wb;
	else
		lane->kept_first = wb;
	lane->kept_last = wb;
	if (!lane->commit_timer.armed)
		lane_timer_set(lane, &lane->commit_timer, lane->now_ns + keep_ns(lane), on_keep_timer);
}

void commit_forget(struct write_buf *wb)
{
	struct lane *lane = wb->lane;
	if (!wb->linked)
		return;
	if (wb->prev)
		wb->prev->next = wb->next;
	else
		lane->kept_first = wb->next;
	if (wb->next)
		wb->next->prev = wb->prev;
	else
		lane->kept_last = wb->prev;
	wb->linked = false;
}

/* Wants a COMMIT of the files whose pieces have been kept since before `since_ns`, oldest first. */
static void commit_older(struct lane *lane, uint64_t since_ns)
{
	struct inode *last = NULL;
	unsigned int looked = 0;
	for (struct write_buf *wb = lane->kept_first; wb && wb->since_ns <= since_ns && looked < LOOK_AT_MAX;
	     wb = wb->next, looked++) {
		if (wb->file->inode == last)
			continue;
		last = wb->file->inode;
		commit_want(lane, last);
	}
}

static void on_keep_timer(struct lane_timer *timer)
{
	struct lane *lane = (struct lane *)((char *)timer - offsetof(struct lane, commit_timer));
	if (!lane->kept_first)
		return;
	uint64_t keep = keep_ns(lane);
	commit_older(lane, lane->now_ns - keep);
	uint64_t due = lane->kept_first->since_ns + keep;
	if (due < lane->now_ns + keep / 16)
		due = lane->now_ns + keep / 16; /* it is being committed, or waits for another lane's */
	lane_timer_set(lane, timer, due, on_keep_timer);
}

/* ---- waiting for stability ---- */

static void resume_syncer(struct op *op)
{
	op->sync.resume(op);
}

/* All that was written has been answered. */
static void sync_answered(struct op *op)
{
	struct inode *inode = op->sync.inode;
	struct file_data *fd = &inode->data;
	pthread_mutex_lock(&fd->lock);
	bool stable = dirty_is_stable(&fd->dirty, fd->dirty.answers);
	if (!stable) {
		op->sync.upto = fd->dirty.answers;
		op->sync.next = fd->syncers;
		fd->syncers = op;
	}
	pthread_mutex_unlock(&fd->lock);
	if (stable)
		op->sync.resume(op);
	else
		commit_want(op->lane, inode);
}

/* Of a file all of whose unstable data is one piece that was not sent yet, that goes stable at once: a small
 * file needs no COMMIT. Under the file's lock. */
static void send_stable(struct file_data *fd)
{
	const struct dirty *d = &fd->dirty;
	struct dirty_range *fresh = d->fresh.first;
	if (fresh && !fresh->next && !d->waiting.first && !d->flying.first && !d->kept.first &&
	    !d->again.first)
		write_buf_of(fresh)->sync = true; /* its lane reads it when it is told to send it */
}

void data_sync(struct op *op, struct inode *inode, op_resume_fn *resume)
{
	struct file_data *fd = &inode->data;
	pthread_mutex_lock(&fd->lock);
	send_stable(fd);
	pthread_mutex_unlock(&fd->lock);
	op->sync.inode = inode;
	op->sync.resume = resume;
	data_drain(op, inode, sync_answered);
}

void commit_advance(struct lane *lane, struct inode *inode)
{
	struct file_data *fd = &inode->data;
	pthread_mutex_lock(&fd->lock);
	struct op **at = &fd->syncers;
	while (*at) {
		struct op *op = *at;
		if (!dirty_is_stable(&fd->dirty, op->sync.upto)) {
			at = &op->sync.next;
			continue;
		}
		*at = op->sync.next;
		op_resume(op, resume_syncer);
	}
	bool more = fd->syncers && !fd->dirty.nagain;
	pthread_mutex_unlock(&fd->lock);
	if (more)
		commit_want(lane, inode);
}

/* ---- the RPC ---- */

static void give_back_all(struct dirty_range *first)
{
	while (first) {
		struct dirty_range *next = first->next;
		write_buf_give_back(write_buf_of(first));
		first = next;
	}
}

/* Takes out what the COMMIT was for. Under the file's lock. */
static struct dirty_range *lose(struct file_data *fd, uint64_t upto, uint64_t *bytes)
{
	struct dirty_range *lost = NULL, *r;
	while ((r = fd->dirty.kept.first) && r->answered <= upto) {
		*bytes += r->len_bytes;
		dirty_drop(&fd->dirty, r);
		r->next = lost;
		lost = r;
	}
	return lost;
}

static void commit_failed(struct inode *inode, uint64_t upto, int err)
{
	struct file_data *fd = &inode->data;
	uint64_t bytes = 0;
	pthread_mutex_lock(&fd->lock);
	struct dirty_range *lost = lose(fd, upto, &bytes);
	bool told = data_lost(fd, err);
	fd->commit_running = false;
	pthread_mutex_unlock(&fd->lock);
	if (told)
		data_log_lost(inode, bytes, err);
	give_back_all(lost);
}

/* Takes out what was sent so often, and always in vain, that there is no hope. Under the file's lock. */
static struct dirty_range *give_up(struct file_data *fd, uint64_t *bytes)
{
	struct dirty_range *lost = NULL;
	for (struct dirty_range *r = fd->dirty.again.first, *next; r; r = next) {
		next = r->next;
		if (r->resends <= RESENDS_MAX || write_buf_of(r)->posted)
			continue;
		*bytes += r->len_bytes;
		dirty_drop(&fd->dirty, r);
		r->next = lost;
		lost = r;
	}
	return lost;
}

static void on_commit(struct op *op, int err, struct xdr_reader *results)
{
	struct commit_state *state = op_state(op, struct commit_state);
	struct inode *inode = state->inode;
	struct file_data *fd = &inode->data;
	struct nfs3_commit_res res;

	if (!err)
		err = nfs3_decode_commit(results, &res);
	if (!err)
		fs_take(op, inode, &res.wcc.after);
	if (!err)
		err = nfs3_errno(res.status);
	if (err) {
		commit_failed(inode, state->upto, err);
	} else {
		bool ok;
		uint64_t bytes = 0;
		pthread_mutex_lock(&fd->lock);
		struct dirty_range *stable =
			dirty_committed(&fd->dirty, state->upto, res.verf, write_buf_split, &ok);
		if (!ok)
			data_lost(fd, -EIO);
		struct dirty_range *lost = give_up(fd, &bytes);
		bool told = lost && data_lost(fd, -EIO);
		bool again = fd->dirty.again.first;
		data_post_again(fd);
		fd->commit_running = false;
		pthread_mutex_unlock(&fd->lock);
		if (again)
			log_warning(
				"server %s restarted: sending again what it had not committed of file %llu",
				op->lane->mount->source, (unsigned long long)inode->fileid);
		op->lane->stats->fuse.commits++;
		if (told)
			data_log_lost(inode, bytes, -EIO);
		log_debug(LOG_POOL, "lane %u: file %llu is stable up to its %lluth answer", op->lane->id,
			  (unsigned long long)inode->fileid, (unsigned long long)state->upto);
		give_back_all(lost);
		give_back_all(stable);
	}
	commit_advance(op->lane, inode);
	op_reply_none(op);
}

static void commit_send(struct op *op, struct inode *inode)
{
	struct file_data *fd = &inode->data;
	struct commit_state *state = op_state(op, struct commit_state);
	state->inode = op_hold(op, inode);
	pthread_mutex_lock(&fd->lock);
	struct dirty_range *first = fd->dirty.kept.first;
	state->upto = fd->dirty.answers;
	if (first)
		op->cred = write_buf_of(first)->file->cred;
	else
		fd->commit_running = false;
	pthread_mutex_unlock(&fd->lock);
	if (!first) {
		commit_advance(op->lane, inode);
		op_reply_none(op);
		return;
	}
	struct nfs3_commit_args args = {.file = &inode->fh}; /* all of the file */
	op_rpc(op, NFSPROC3_COMMIT, &op->cred, &args, on_commit);
}

void commit_want(struct lane *lane, struct inode *inode)
{
	struct file_data *fd = &inode->data;
	pthread_mutex_lock(&fd->lock);
	bool start = !fd->commit_running && fd->dirty.kept.first;
	if (start)
		fd->commit_running = true;
	pthread_mutex_unlock(&fd->lock);
	if (!start)
		return;
	struct op *op = op_begin_own(lane);
	if (op) {
		commit_send(op, inode);
		return;
	}
	inode_ref(inode); /* the queue's */
	fd->next_dirty = NULL;
	if (lane->commit_first)
		lane->commit_last->data.next_dirty = inode;
	else
		lane->commit_first = inode;
	lane->commit_last = inode;
}

/* ---- once per turn ---- */

void data_turn(struct lane *lane)
{
	data_resend_queued(lane);
	bool wanted = arena_wants_commit(lane->arena) || lane->run_waiters.first ||
		      atomic_load(&lane->stop) || !arena_receive_area(lane->arena);
	if (lane->gather_first && (wanted || !lane->ops_free.first))
		data_send_gathered(lane);
	while (lane->commit_first && lane->ops_own_free.first) {
		struct inode *inode = lane->commit_first;
		lane->commit_first = inode->data.next_dirty;
		commit_send(op_begin_own(lane), inode);
		inode_unref(inode);
	}
	if (lane->kept_first && wanted)
		commit_older(lane, UINT64_MAX);
	const struct write_buf *oldest = lane->kept_first ? lane->kept_first : lane->gather_first;
	lane->stats->fuse.kept_since_ns = oldest ? oldest->since_ns : 0;
	lane->stats->fuse.kept_bytes = arena_used_bytes(lane->arena, ARENA_DIRTY);
}

bool data_all_stable(const struct lane *lane)
{
	return !lane->gather_first && !lane->kept_first && !lane->again_first && !lane->commit_first;
}

void data_connection_up(struct lane *lane)
{
	commit_older(lane, UINT64_MAX);
}
