/* SPDX-License-Identifier: MIT
 *
 * WRITE. Normal operation: the payload is in the arena already. When write(2) must return with stable data
 * (O_SYNC, O_DSYNC, O_DIRECT, the option sync) it is sent FILE_SYNC, and the request is answered when the
 * server has answered. Otherwise the request is answered at once (write-behind), the payload is sent
 * UNSTABLE, and the bytes are kept until a COMMIT with the same verifier. What overlaps something in flight
 * waits.
 *
 * Gathering. A write-behind piece that is smaller than wsize is held back for GATHER_NS, with its op, so that
 * what follows it in the file can join it. It leaves earlier when it is full, when anybody asks for the file
 * (data_drain()), when something overlaps it, and when the lane is short of memory or ops: so no progress
 * depends on the timer. What joins lies behind it in the arena already; only a piece that ends within a page
 * has less than a page copied to it.
 *
 * Recovery. Short writes are continued. When a verifier has changed, commit.c makes ranges DIRTY_AGAIN and
 * tells their lanes, which send them from here, as the opener, with an op of the lane's own. What then fails
 * is lost: the error is kept for fsync() or close(), and the log has a line.
 */
#include "arena.h"
#include "data_priv.h"
#include "fs.h"
#include "fs_entry.h"
#include "log.h"
#include "mount.h"
#include "options.h"
#include "xdr.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#define GATHER_NS 50000000ull /* long for a program that writes in small pieces, nothing of `commit` */

struct write_state {
	/* Of the request, until its payload has come to the arena. */
	struct open_file *file; /* lent: the kernel has it open; parked, the op refers to it */
	uint64_t offset;
	size_t bytes;
	bool sync;
	/* Afterwards. */
	struct write_buf *wb;
};

struct write_buf *write_buf_of(struct dirty_range *range)
{
	return (struct write_buf *)(void *)range;
}

/* ---- pieces of data ---- */

static size_t whole_pages(size_t bytes)
{
	return (bytes + ARENA_PAGE_BYTES - 1) / ARENA_PAGE_BYTES * ARENA_PAGE_BYTES;
}

static struct write_buf *write_buf_get(struct lane *lane)
{
	struct write_buf *wb = lane->bufs_free;
	assert(wb); /* one for each page of the arena, and each needs a page */
	lane->bufs_free = wb->next;
	memset(wb, 0, sizeof *wb);
	wb->lane = lane;
	wb->origin = wb;
	atomic_store(&wb->pieces, 1);
	return wb;
}

static void memory_unref(struct write_buf *origin)
{
	struct lane *lane = origin->lane;
	if (atomic_fetch_sub(&origin->pieces, 1) > 1)
		return;
	arena_free(lane->arena, origin->base, origin->run_bytes, ARENA_DIRTY);
	origin->next = lane->bufs_free;
	lane->bufs_free = origin;
}

void write_buf_free(struct write_buf *wb)
{
	struct write_buf *origin = wb->origin;
	assert(wb->range.state == DIRTY_IDLE && wb->lane == lane_self());
	commit_forget(wb);
	open_file_unref(wb->file);
	wb->file = NULL;
	if (wb->heap)
		free(wb);
	memory_unref(origin);
}

static void on_given_back(struct lane_msg *msg)
{
	write_buf_free((struct write_buf *)((char *)msg - offsetof(struct write_buf, msg)));
}

void write_buf_give_back(struct write_buf *wb)
{
	if (wb->lane == lane_self())
		write_buf_free(wb);
	else
		lane_post(wb->lane, &wb->msg, on_given_back);
}

/* Under the file's lock, on any lane. Rare (the server has restarted), so it may allocate. */
struct dirty_range *write_buf_split(struct dirty_range *range)
{
	struct write_buf *wb = write_buf_of(range);
	struct write_buf *tail = malloc(sizeof *tail);
	if (!tail)
		return NULL;
	memset(tail, 0, sizeof *tail);
	tail->lane = wb->lane;
	tail->file = open_file_ref(wb->file);
	tail->base = wb->base;
	tail->base_offset = wb->base_offset;
	tail->origin = wb->origin;
	atomic_fetch_add(&wb->origin->pieces, 1);
	tail->sync = wb->sync;
	tail->heap = true;
	return &tail->range;
}

void data_log_lost(struct inode *inode, uint64_t bytes, int err)
{
	char label[INODE_LABEL_BYTES];
	lane_self()->stats->fuse.write_errors++;
	pthread_mutex_lock(&inode->lock);
	inode_label(inode, label);
	pthread_mutex_unlock(&inode->lock);
	log_error("server %s: %s: %llu bytes could not be saved: %s; whoever has it open is told by "
		  "fsync(2) and close(2), and must write them again",
		  the_mount->source, label, (unsigned long long)bytes, strerror(-err));
}

/* ---- sending ---- */

static void on_write(struct op *op, int err, struct xdr_reader *results);

static void send_rest(struct write_buf *wb)
{
	struct op *op = wb->op;
	struct inode *inode = wb->file->inode;
	uint64_t offset = wb->range.offset + wb->done_bytes;
	uint64_t left = wb->range.len_bytes - wb->done_bytes;
	uint32_t most = wb->lane->mount->write_max;
	struct nfs3_write_args args = {.file = &inode->fh,
				       .offset = offset,
				       .count = left < most ? (uint32_t)left : most,
				       .stable = wb->sync ? NFS3_FILE_SYNC : NFS3_UNSTABLE};
	op_state(op, struct write_state)->wb = wb;
	if (wb->done_bytes == 0)
		wb->losses = atomic_load(&wb->lane->mount->losses);
	op->out = (struct iovec){wb->base + (offset - wb->base_offset), args.count};
	inode_change_begin(inode);
	op_rpc(op, NFSPROC3_WRITE, &wb->file->cred, &args, on_write);
}

static void enqueue_again(struct write_buf *wb)
{
	struct lane *lane = wb->lane;
	wb->next_again = NULL;
	if (lane->again_first)
		lane->again_last->next_again = wb;
	else
		lane->again_first = wb;
	lane->again_last = wb;
}

static void gather_remove(struct write_buf *wb);

/* Its range flies. On its own lane. */
static void fly(struct write_buf *wb)
{
	gather_remove(wb);
	if (!wb->op)
		wb->op = op_begin_own(wb->lane);
	if (!wb->op) {
		enqueue_again(wb);
		return;
	}
	wb->done_bytes = 0;
	wb->stable = true;
	send_rest(wb);
}

/* Takes a range that has nothing left, or was lost, out of its file, and goes on. */
static void drop(struct write_buf *wb)
{
	struct lane *lane = wb->lane;
	struct inode *inode = wb->file->inode;
	struct file_data *fd = &inode->data;
	inode_ref(inode);
	pthread_mutex_lock(&fd->lock);
	dirty_drop(&fd->dirty, &wb->range);
	data_post_ready(fd);
	pthread_mutex_unlock(&fd->lock);
	write_buf_free(wb);
	commit_advance(lane, inode);
	inode_unref(inode);
}

void data_resend_queued(struct lane *lane)
{
	while (lane->again_first && lane->ops_own_free.first) {
		struct write_buf *wb = lane->again_first;
		lane->again_first = wb->next_again;
		fly(wb);
	}
}

static void on_ready(struct lane_msg *msg)
{
	struct write_buf *wb = (struct write_buf *)((char *)msg - offsetof(struct write_buf, msg));
	if (wb->range.len_bytes == 0) /* it flies, so nobody cuts it any more; cut to nothing before */
		drop(wb);
	else
		fly(wb);
}

static void on_truncation_ready(struct lane_msg *msg)
{
	struct op *op = (struct op *)((char *)msg - offsetof(struct op, truncation.msg));
	op->truncation.resume(op);
}

static void post_flight(struct dirty_range *range)
{
	if (range->len_bytes == DIRTY_TO_END) {
		struct op *op = (struct op *)((char *)range - offsetof(struct op, truncation.range));
		lane_post(op->lane, &op->truncation.msg, on_truncation_ready);
	} else {
		struct write_buf *wb = write_buf_of(range);
		lane_post(wb->lane, &wb->msg, on_ready);
	}
}

static void drained(struct op *op)
{
	op->drain.resume(op);
}

static void resume_drained(struct file_data *fd)
{
	struct op **at = &fd->drainers;
	while (*at) {
		struct op *op = *at;
		if (dirty_unanswered(&fd->dirty, op->drain.upto)) {
			at = &op->drain.next;
			continue;
		}
		*at = op->drain.next;
		op_resume(op, drained);
	}
}

void data_post_ready(struct file_data *fd)
{
	struct dirty_range *range;
	while ((range = dirty_next_ready(&fd->dirty)))
		post_flight(range);
	resume_drained(fd);
}

static void on_again(struct lane_msg *msg)
{
	struct write_buf *wb = (struct write_buf *)((char *)msg - offsetof(struct write_buf, msg));
	struct file_data *fd = &wb->file->inode->data;
	if (!wb->linked) /* a piece that was cut off */
		commit_kept(wb->lane, wb);
	pthread_mutex_lock(&fd->lock);
	wb->posted = false;
	bool nothing = wb->range.len_bytes == 0;
	bool flies = !nothing && dirty_send_again(&fd->dirty, &wb->range);
	pthread_mutex_unlock(&fd->lock);
	if (nothing)
		drop(wb);
	else if (flies)
		fly(wb);
}

void data_post_again(struct file_data *fd)
{
	if (!fd->dirty.nagain)
		return;
	for (struct dirty_range *r = fd->dirty.again.first; r; r = r->next) {
		struct write_buf *wb = write_buf_of(r);
		if (wb->posted)
			continue;
		wb->posted = true;
		lane_post(wb->lane, &wb->msg, on_again);
	}
}

/* ---- answers ---- */

static void write_failed(struct write_buf *wb, int err)
{
	struct op *op = wb->op;
	struct inode *inode = wb->file->inode;
	if (wb->range.again || wb->range.behind) { /* write(2) has been answered long ago */
		pthread_mutex_lock(&inode->data.lock);
		bool lost = data_lost(&inode->data, err);
		pthread_mutex_unlock(&inode->data.lock);
		if (lost)
			data_log_lost(inode, wb->range.len_bytes, err);
	}
	wb->op = NULL;
	op_hold(op, inode);
	drop(wb);
	op_reply_err(op, err);
}

/* All of it was answered. */
static void write_done(struct write_buf *wb)
{
	struct op *op = wb->op;
	struct lane *lane = wb->lane;
	struct inode *inode = op_hold(op, wb->file->inode);
	struct file_data *fd = &inode->data;
	bool again = wb->range.again, stable = wb->stable;
	size_t bytes = wb->range.len_bytes;

	wb->op = NULL;
	pthread_mutex_lock(&fd->lock);
	bool ok = stable ? dirty_stable(&fd->dirty, &wb->range, write_buf_split)
			 : dirty_answered(&fd->dirty, &wb->range, wb->range.verf, write_buf_split);
	if (!ok)
		data_lost(fd, -EIO);
	if (again)
		for (struct op *s = fd->syncers; s; s = s->sync.next)
			s->sync.upto = fd->dirty.answers; /* what they wait for has got a later place */
	data_post_again(fd);
	data_post_ready(fd);
	pthread_mutex_unlock(&fd->lock);
	if (!stable)
		commit_kept(lane, wb);
	else
		write_buf_free(wb);
	if (again) {
		lane->stats->fuse.resent++;
		commit_advance(lane, inode);
		op_reply_none(op);
		return;
	}
	if (op->req)
		lane->stats->fuse.write_bytes += bytes;
	op_reply_write(op, bytes);
}

static void on_write(struct op *op, int err, struct xdr_reader *results)
{
	struct write_buf *wb = op_state(op, struct write_state)->wb;
	struct inode *inode = wb->file->inode;
	uint64_t left = wb->range.len_bytes - wb->done_bytes;
	uint32_t most = op->lane->mount->write_max;
	struct nfs3_write_res res;

	if (!err)
		err = nfs3_decode_write(results, left < most ? (uint32_t)left : most, &res);
	int stale = fs_changed(op, inode, err ? NULL : &res.wcc);
	if (!err)
		err = nfs3_errno(res.status);
	if (!err)
		err = stale;
	if (!err && res.count == 0)
		err = -EIO; /* no progress: would go on for ever */
	if (err) {
		write_failed(wb, err);
		return;
	}
	/* Of a write that was answered in parts the first part's verifier counts: if the server restarted
	 * between them, COMMIT brings another and all of it is sent again. */
	if (wb->done_bytes == 0)
		memcpy(wb->range.verf, res.verf, sizeof wb->range.verf);
	if (res.committed == NFS3_UNSTABLE)
		wb->stable = false;
	wb->done_bytes += res.count;
	if (wb->done_bytes < wb->range.len_bytes)
		send_rest(wb);
	else
		write_done(wb);
}

/* ---- gathering ---- */

static void on_gather_timer(struct lane_timer *timer);

static void gather_add(struct write_buf *wb)
{
	struct lane *lane = wb->lane;
	wb->since_ns = lane->now_ns;
	wb->gathering = true;
	wb->next = NULL;
	wb->prev = lane->gather_last;
	if (lane->gather_last)
		lane->gather_last->next = wb;
	else
		lane->gather_first = wb;
	lane->gather_last = wb;
	if (!lane->gather_timer.armed)
		lane_timer_set(lane, &lane->gather_timer, lane->now_ns + GATHER_NS, on_gather_timer);
}

static void gather_remove(struct write_buf *wb)
{
	struct lane *lane = wb->lane;
	if (!wb->gathering)
		return;
	if (wb->prev)
		wb->prev->next = wb->next;
	else
		lane->gather_first = wb->next;
	if (wb->next)
		wb->next->prev = wb->prev;
	else
		lane->gather_last = wb->prev;
	wb->gathering = false;
}

/* If another lane was faster, a message is on its way, or it waits. */
static void send_gathered(struct write_buf *wb)
{
	struct file_data *fd = &wb->file->inode->data;
	gather_remove(wb);
	pthread_mutex_lock(&fd->lock);
	bool flies = wb->range.state == DIRTY_FRESH && dirty_send_fresh(&fd->dirty, &wb->range);
	pthread_mutex_unlock(&fd->lock);
	if (flies)
		fly(wb);
}

void data_send_gathered(struct lane *lane)
{
	while (lane->gather_first)
		send_gathered(lane->gather_first);
}

static void on_gather_timer(struct lane_timer *timer)
{
	struct lane *lane = (struct lane *)((char *)timer - offsetof(struct lane, gather_timer));
	while (lane->gather_first && lane->gather_first->since_ns + GATHER_NS <= lane->now_ns)
		send_gathered(lane->gather_first);
	if (lane->gather_first)
		lane_timer_set(lane, timer, lane->gather_first->since_ns + GATHER_NS, on_gather_timer);
}

/* Would `bytes` at `payload` lie, in the arena, right behind what wb has? */
static bool lies_behind(const struct write_buf *wb, const char *payload, size_t bytes)
{
	return wb->range.len_bytes == wb->run_bytes && payload == wb->base + wb->run_bytes &&
	       wb->run_bytes + bytes <= wb->lane->mount->wsize &&
	       arena_is_one_run(wb->lane->arena, wb->base, wb->run_bytes + bytes);
}

static bool fits_behind(const struct write_buf *wb, size_t bytes)
{
	return bytes <= wb->run_bytes - wb->range.len_bytes;
}

/* Under the file's lock: the piece that a WRITE of this file, from this lane, continues; it has grown. */
static struct write_buf *grown(struct file_data *fd, const struct open_file *file, uint64_t offset,
			       size_t bytes, const struct incoming *in)
{
	for (struct dirty_range *r = fd->dirty.fresh.first; r; r = r->next) {
		struct write_buf *wb = write_buf_of(r);
		if (r->offset + r->len_bytes != offset || wb->lane != lane_self() || wb->file != file ||
		    !wb->gathering)
			continue;
		if ((lies_behind(wb, in->payload, bytes) || fits_behind(wb, bytes)) &&
		    dirty_grow(&fd->dirty, r, bytes))
			return wb;
	}
	return NULL;
}

/* Joins a WRITE to one that is held back. It is sent by this lane only, so not before the bytes are there. */
static bool join(struct lane *lane, struct open_file *file, uint64_t offset, size_t bytes)
{
	struct incoming *in = &lane->incoming;
	struct file_data *fd = &file->inode->data;
	pthread_mutex_lock(&fd->lock);
	struct write_buf *wb = fd->dirty.fresh.first ? grown(fd, file, offset, bytes, in) : NULL;
	pthread_mutex_unlock(&fd->lock);
	if (!wb)
		return false;
	if (wb->range.len_bytes <= wb->run_bytes) {
		memcpy(wb->base + wb->range.len_bytes - bytes, in->payload, bytes);
		arena_free(lane->arena, in->payload, in->payload_bytes, ARENA_DIRTY);
	} else {
		wb->run_bytes += whole_pages(in->payload_bytes);
	}
	in->payload = NULL;
	lane->stats->fuse.gathered++;
	if (wb->range.len_bytes >= lane->mount->wsize)
		send_gathered(wb);
	return true;
}

/* ---- the request ---- */

/* Adds a new piece to its file, and sends it unless it has to wait or more may come. */
static void begin(struct write_buf *wb)
{
	struct file_data *fd = &wb->file->inode->data;
	bool gather = wb->range.behind && wb->range.len_bytes < wb->lane->mount->wsize;
	pthread_mutex_lock(&fd->lock);
	bool goes = gather ? dirty_gather(&fd->dirty, &wb->range) : dirty_add(&fd->dirty, &wb->range);
	if (!goes)
		data_post_ready(fd);
	pthread_mutex_unlock(&fd->lock);
	if (!goes)
		wb->lane->stats->fuse.overlap_waits++;
	else if (gather)
		gather_add(wb);
	else
		fly(wb);
}

/* The payload is in the arena, and lane->incoming has it. */
static void write_arrived(struct op *op)
{
	struct lane *lane = op->lane;
	struct incoming *in = &lane->incoming;
	struct write_state s = *op_state(op, struct write_state);
	if (!s.sync && join(lane, s.file, s.offset, s.bytes)) {
		lane->stats->fuse.write_bytes += s.bytes;
		op_reply_write(op, s.bytes);
		return;
	}
	struct write_buf *wb = write_buf_get(lane);
	wb->base = in->payload;
	wb->run_bytes = whole_pages(in->payload_bytes);
	in->payload = NULL; /* ours now */
	wb->base_offset = wb->range.offset = s.offset;
	wb->range.len_bytes = s.bytes;
	wb->file = open_file_ref(s.file);
	wb->sync = s.sync;
	wb->range.behind = !s.sync;
	/* What is behind must not take all ops: it may be long until they come back, and others want some,
	 * too.
	 */
	bool keeps_op = s.sync || lane->ops_busy <= lane->nops * 3 / 4;
	wb->op = keeps_op ? op : NULL;
	op->run_to_end = true;
	begin(wb);
	/* ORDER: it is among the file's ranges before its writer goes on: what he does next may come to
	 * another lane. */
	if (s.sync)
		return;
	lane->stats->fuse.write_bytes += s.bytes;
	if (keeps_op)
		op_answer_write(op, s.bytes);
	else
		op_reply_write(op, s.bytes);
}

/* There is memory for a WRITE that had to wait for it. */
static void write_unparked(struct op *op)
{
	struct lane *lane = op->lane;
	size_t bytes = op_state(op, struct write_state)->bytes;
	char *area = arena_receive_area(lane->arena);
	arena_take(lane->arena, area, bytes);
	lane->incoming = (struct incoming){.payload = area, .payload_bytes = bytes};
	memcpy(area, op->parked, bytes);
	free(op->parked);
	op->parked = NULL;
	write_arrived(op);
}

static void write_park(struct op *op, const char *payload)
{
	struct write_state *s = op_state(op, struct write_state);
	op->parked = malloc(s->bytes);
	if (!op->parked) {
		op_reply_err(op, -ENOMEM);
		return;
	}
	memcpy(op->parked, payload, s->bytes);
	op->parked_file = open_file_ref(s->file);
	op_park(op, write_unparked);
}

void fs_write(fuse_req_t req, fuse_ino_t ino, const char *buf, size_t size, off_t off,
	      struct fuse_file_info *fi)
{
	struct op *op = op_begin(req);
	struct lane *lane = op->lane;
	struct incoming *in = &lane->incoming;
	struct open_file *file = open_file_of(fi);
	(void)ino, (void)buf; /* the payload is where the channel says, not where libfuse thinks */

	op->outlives = fi->flags & O_DIRECT;
	lane->stats->fuse.writes++;
	if (size == 0 || size != in->payload_bytes) {
		op_reply_err(op, size ? -EIO : 0);
		return;
	}
	uint64_t most = lane->mount->maxfilesize;
	if ((uint64_t)off >= most) {
		op_reply_err(op, -EFBIG);
		return;
	}
	if (size > most - (uint64_t)off)
		size = (size_t)(most - (uint64_t)off);
	*op_state(op, struct write_state) =
		(struct write_state){.file = file,
				     .offset = (uint64_t)off,
				     .bytes = size,
				     .sync = ((file->flags | fi->flags) & (O_DSYNC | O_SYNC | O_DIRECT)) ||
					     lane->mount->opts->sync};
	if (in->parked)
		write_park(op, in->payload);
	else
		write_arrived(op);
}

/* ---- who needs the server to have been told ---- */

bool data_unanswered(struct inode *inode)
{
	struct file_data *fd = &inode->data;
	pthread_mutex_lock(&fd->lock);
	bool unanswered = dirty_unanswered(&fd->dirty, UINT64_MAX);
	pthread_mutex_unlock(&fd->lock);
	return unanswered;
}

void data_drain(struct op *op, struct inode *inode, op_resume_fn *resume)
{
	struct file_data *fd = &inode->data;
	op->run_to_end = true;
	pthread_mutex_lock(&fd->lock);
	op->drain.upto = fd->dirty.seq;
	op->drain.resume = resume;
	dirty_release(&fd->dirty);
	data_post_ready(fd);
	bool wait = dirty_unanswered(&fd->dirty, op->drain.upto);
	if (wait) {
		op->drain.next = fd->drainers;
		fd->drainers = op;
	}
	pthread_mutex_unlock(&fd->lock);
	if (!wait)
		resume(op);
}

/* ---- truncation ---- */

void data_truncate_begin(struct op *op, struct inode *inode, op_resume_fn *resume)
{
	struct file_data *fd = &inode->data;
	op->run_to_end = true;
	op->truncation.range = (struct dirty_range){.offset = 0, .len_bytes = DIRTY_TO_END};
	op->truncation.resume = resume;
	pthread_mutex_lock(&fd->lock);
	bool flies = dirty_add(&fd->dirty, &op->truncation.range);
	if (!flies)
		data_post_ready(fd);
	pthread_mutex_unlock(&fd->lock);
	if (flies)
		resume(op);
}

void data_truncate_end(struct op *op, struct inode *inode, uint64_t new_size, bool done)
{
	struct file_data *fd = &inode->data;
	pthread_mutex_lock(&fd->lock);
	dirty_drop(&fd->dirty, &op->truncation.range);
	if (done)
		dirty_truncate(&fd->dirty, new_size);
	data_post_ready(fd);
	pthread_mutex_unlock(&fd->lock);
}

/* ---- at the end ---- */

static void log_unsaved(struct inode *inode, void *ctx)
{
	char label[INODE_LABEL_BYTES];
	pthread_mutex_lock(&inode->data.lock);
	uint64_t bytes = dirty_bytes(&inode->data.dirty);
	pthread_mutex_unlock(&inode->data.lock);
	if (bytes > 0)
		log_error("server %s: %s: %llu bytes are not saved", the_mount->source,
			  inode_label(inode, label), (unsigned long long)bytes);
	*(uint64_t *)ctx += bytes;
}

uint64_t data_log_unsaved(void)
{
	uint64_t bytes = 0;
	inode_each(the_mount->inodes, log_unsaved, &bytes);
	return bytes;
}

/* ---- making and ending ---- */

int data_create(struct lane *lane)
{
	size_t n = arena_total_bytes(lane->arena) / ARENA_PAGE_BYTES;
	lane->bufs = calloc(n, sizeof *lane->bufs);
	if (!lane->bufs)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++) {
		lane->bufs[i].next = lane->bufs_free;
		lane->bufs_free = &lane->bufs[i];
	}
	return 0;
}

void data_destroy(struct lane *lane)
{
	free(lane->bufs);
}
