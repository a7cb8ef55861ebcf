/* SPDX-License-Identifier: MIT
 *
 * READ. A run of the arena, a READ whose data the server places there (or sends in the message, when it is
 * short), and one writev() to /dev/fuse from there. What was written here and has not been answered is with
 * the server before. The mount's max_read is rsize, so one request is one
 * READ; a reply that is shorter than asked without being the end of the file is continued.
 */
#include "data_priv.h"
#include "fs.h"
#include "fs_entry.h"
#include "mount.h"
#include "xdr.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

struct read_state {
	struct open_file *file; /* lent: the kernel releases the handle after its READs; but see `held` */
	bool held;		/* the op runs to its end, even after the handle was released */
	uint64_t offset;
	uint32_t want, got, asked; /* asked: by the latest READ */
};

static void read_rest(struct op *op);

static void read_end(struct op *op, int err, const void *data, size_t bytes)
{
	struct read_state *s = op_state(op, struct read_state);
	struct open_file *held = s->held ? s->file : NULL;
	op->lane->stats->fuse.read_bytes += bytes;
	if (err)
		op_reply_err(op, err);
	else
		op_reply_buf(op, data, bytes);
	if (held)
		open_file_unref(held);
}

static void on_read(struct op *op, int err, struct xdr_reader *results)
{
	struct read_state *s = op_state(op, struct read_state);
	struct nfs3_read_res res;

	if (!err)
		err = nfs3_decode_read(results, s->asked, op->placed_bytes, &res);
	if (!err) {
		int stale = fs_take(op, s->file->inode, &res.attr);
		err = nfs3_errno(res.status);
		if (!err)
			err = stale;
		if (!err && res.count == 0 && !res.eof)
			err = -EIO; /* a short answer would be taken for the end of the file */
	}
	if (err) {
		read_end(op, err, NULL, 0);
		return;
	}
	bool all = res.eof || s->got + res.count == s->want;
	if (all && res.data && s->got == 0) {
		read_end(op, 0, res.data, res.count); /* from the message: no copy */
		return;
	}
	if (res.data)
		memcpy(op->run + s->got, res.data, res.count);
	s->got += res.count;
	if (all)
		read_end(op, 0, op->run, s->got);
	else
		read_rest(op);
}

static void read_rest(struct op *op)
{
	struct read_state *s = op_state(op, struct read_state);
	uint32_t left = s->want - s->got, most = op->lane->mount->read_max;
	s->asked = left < most ? left : most;
	struct nfs3_read_args args = {
		.file = &s->file->inode->fh, .offset = s->offset + s->got, .count = s->asked};
	op->in = (struct iovec){op->run + s->got, args.count};
	op_rpc(op, NFSPROC3_READ, &s->file->cred, &args, on_read);
}

/*
 * A server that restarted may have lost what it had answered and not committed. Until that is found out (by
 * COMMIT) and made good, a READ would bring bytes from before the WRITE, although write(2) has returned. So
 * after a lost connection, of any lane, a READ of a file with kept data first has it committed.
 */
static bool may_be_lost(struct nfs_mount *mount, struct file_data *fd)
{
	pthread_mutex_lock(&fd->lock);
	struct dirty_range *oldest = fd->dirty.kept.first;
	bool lost =
		fd->dirty.nagain || (oldest && write_buf_of(oldest)->losses != atomic_load(&mount->losses));
	pthread_mutex_unlock(&fd->lock);
	return lost;
}

static void read_first(struct op *op)
{
	op_run_get(op, op_state(op, struct read_state)->want, read_rest);
}

static void read_answered(struct op *op)
{
	struct inode *inode = op_state(op, struct read_state)->file->inode;
	if (may_be_lost(op->lane->mount, &inode->data))
		data_sync(op, inode, read_first);
	else
		read_first(op);
}

void fs_read(fuse_req_t req, fuse_ino_t ino, size_t size, off_t off, struct fuse_file_info *fi)
{
	struct op *op = op_begin(req);
	struct read_state *s = op_state(op, struct read_state);
	(void)ino;

	op->lane->stats->fuse.reads++;
	s->file = open_file_of(fi);
	op_hold(op, s->file->inode);
	op->outlives = fi->flags & O_DIRECT;
	s->offset = (uint64_t)off;
	s->want = size < op->lane->mount->rsize ? (uint32_t)size : op->lane->mount->rsize;
	if (s->want == 0) {
		op_reply_buf(op, NULL, 0);
	} else if (data_unanswered(s->file->inode) || may_be_lost(op->lane->mount, &s->file->inode->data)) {
		open_file_ref(s->file);
		s->held = true;
		data_drain(op, s->file->inode, read_answered);
	} else {
		read_first(op);
	}
}
