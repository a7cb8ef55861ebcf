/* SPDX-License-Identifier: MIT
 *
 * READ. A run of the arena, a READ whose data the server places there (or sends in the message, when it is
 * short), and one writev() to /dev/fuse from there. The mount's max_read is rsize, so one request is one
 * READ; a reply that is shorter than asked without being the end of the file is continued.
 */
#include "data_priv.h"
#include "fs.h"
#include "fs_entry.h"
#include "mount.h"
#include "xdr.h"

#include <errno.h>
#include <string.h>

struct read_state {
	struct open_file *file; /* lent: the kernel releases the handle after its READs */
	uint64_t offset;
	uint32_t want, got;
};

static void read_rest(struct op *op);

static void read_end(struct op *op, const void *data, size_t bytes)
{
	op->lane->stats->fuse.read_bytes += bytes;
	op_reply_buf(op, data, bytes);
}

static void on_read(struct op *op, int err, struct xdr_reader *results)
{
	struct read_state *s = op_state(op, struct read_state);
	struct nfs3_read_res res;

	if (!err)
		err = nfs3_decode_read(results, s->want - s->got, op->placed_bytes, &res);
	if (!err) {
		int stale = fs_take(op, s->file->inode, &res.attr);
		err = nfs3_errno(res.status);
		if (!err)
			err = stale;
	}
	if (err) {
		op_reply_err(op, err);
		return;
	}
	bool all = res.eof || res.count == 0 || s->got + res.count == s->want;
	if (all && res.data && s->got == 0) {
		read_end(op, res.data, res.count); /* from the message: no copy */
		return;
	}
	if (res.data)
		memcpy(op->run + s->got, res.data, res.count);
	s->got += res.count;
	if (all)
		read_end(op, op->run, s->got);
	else
		read_rest(op);
}

static void read_rest(struct op *op)
{
	struct read_state *s = op_state(op, struct read_state);
	struct nfs3_read_args args = {
		.file = &s->file->inode->fh, .offset = s->offset + s->got, .count = s->want - s->got};
	op->in = (struct iovec){op->run + s->got, args.count};
	op_rpc(op, NFSPROC3_READ, &s->file->cred, &args, on_read);
}

void fs_read(fuse_req_t req, fuse_ino_t ino, size_t size, off_t off, struct fuse_file_info *fi)
{
	struct op *op = op_begin(req);
	struct read_state *s = op_state(op, struct read_state);
	(void)ino;

	op->lane->stats->fuse.reads++;
	s->file = open_file_of(fi);
	op_hold(op, s->file->inode);
	s->offset = (uint64_t)off;
	s->want = size < op->lane->mount->rsize ? (uint32_t)size : op->lane->mount->rsize;
	if (s->want == 0)
		op_reply_buf(op, NULL, 0);
	else
		op_run_get(op, s->want, read_rest);
}
