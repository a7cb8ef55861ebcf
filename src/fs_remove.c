/* SPDX-License-Identifier: MIT
 *
 * Operations that take a name away: REMOVE, RMDIR, RENAME.
 *
 * The kernel names a victim only by its name. While any file of the mount is open, the name is looked up
 * first, and a victim that is open here is renamed instead (silly.h). When no file is open that costs
 * nothing.
 *
 * Normal operation:	REMOVE | RENAME
 * Files are open:	LOOKUP victim -> (it is open) [RENAME: LOOKUP source] -> RENAME victim to its
 *			silly name -> the RENAME itself
 * Recovery: if that last RENAME fails, the victim gets its name back.
 *
 * ORDER: an OPEN that comes while a name is being removed. A removal first enters itself among those in
 * flight and then looks at what is open; an OPEN first counts its file as open and then looks at the removals
 * in flight (fs_open_settle()). So either the removal sees the open file, or the OPEN waits for the removal's
 * end before it asks the server for the file, which may be gone then.
 */
#include "data.h"
#include "fs.h"
#include "fs_entry.h"
#include "options.h"
#include "silly.h"
#include "xdr.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>

struct removal {
	struct removal *next, *prev;
	uint64_t seq; /* order of their beginnings; 0: not in flight */
};

struct take_away {
	struct fs_entry victim; /* first: the name that goes, or that RENAME replaces */
	struct removal removal;
	bool rename;
	struct inode *from_dir; /* RENAME */
	char from_name[NFS3_NAME_MAX + 1];
	struct inode *file;  /* the victim's, when it is open */
	struct silly *silly; /* its new name; ours until it is attached */
	int err;	     /* of a RENAME that is being undone */
};

/* ---- removals in flight, and OPENs that wait for them ---- */

/* Shared by the lanes; the lock is held for a few instructions only. */
static struct {
	pthread_mutex_t lock;
	struct removal *first, *last; /* by seq */
	uint64_t seq;
	struct op *waiting; /* OPENs, by op->settle.next */
} removals = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void removal_begin(struct removal *r)
{
	pthread_mutex_lock(&removals.lock);
	r->seq = ++removals.seq;
	r->prev = removals.last;
	r->next = NULL;
	*(r->prev ? &r->prev->next : &removals.first) = r;
	removals.last = r;
	pthread_mutex_unlock(&removals.lock);
}

static bool settled(const struct op *op)
{
	return !removals.first || removals.first->seq > op->settle.upto;
}

/* Under the lock: takes those out that need not wait any longer. */
static struct op *take_settled(void)
{
	struct op **at = &removals.waiting, *taken = NULL;

	while (*at) {
		struct op *op = *at;

		if (!settled(op)) {
			at = &op->settle.next;
			continue;
		}
		*at = op->settle.next;
		op->settle.next = taken;
		taken = op;
	}
	return taken;
}

static void removal_end(struct removal *r)
{
	if (!r->seq)
		return;
	pthread_mutex_lock(&removals.lock);
	*(r->prev ? &r->prev->next : &removals.first) = r->next;
	*(r->next ? &r->next->prev : &removals.last) = r->prev;
	struct op *op = take_settled();
	pthread_mutex_unlock(&removals.lock);
	while (op) {
		struct op *next = op->settle.next;

		op_resume(op, op->settle.resume);
		op = next;
	}
}

void fs_open_settle(struct op *op, op_resume_fn *resume)
{
	pthread_mutex_lock(&removals.lock);
	op->settle.upto = removals.seq;
	op->settle.resume = resume;
	bool wait = !settled(op);
	if (wait) {
		op->settle.next = removals.waiting;
		removals.waiting = op;
	}
	pthread_mutex_unlock(&removals.lock);
	if (!wait)
		resume(op);
}

/* Ends the op. */
static void take_away_end(struct op *op, int err)
{
	removal_end(&op_state(op, struct take_away)->removal);
	op_reply_err(op, err);
}

/* ---- what all have in common ---- */

static struct nfs3_dirop victim_name(const struct take_away *t)
{
	return (struct nfs3_dirop){.dir = &t->victim.dir->fh, .name = t->victim.name};
}

static struct nfs3_dirop silly_place(const struct take_away *t)
{
	return (struct nfs3_dirop){.dir = &t->victim.dir->fh, .name = t->silly->name};
}

/* The files whose names were changed have new ctimes and link counts. */
static void names_changed(struct op *op)
{
	inode_names_changed(the_mount->inodes, lane_now(op->lane));
}

/* ---- REMOVE and RMDIR ---- */

/* A server without a duplicate request cache runs a call again that was sent again: then the name is gone
 * already. Never guessed: see the option. */
static int verdict_of(const struct op *op, uint32_t status)
{
	if (status == NFS3ERR_NOENT && op->sent_again && the_mount->opts->nodrc)
		return 0;
	return nfs3_errno(status);
}

static int removed(struct op *op, int err, struct xdr_reader *results)
{
	struct take_away *t = op_state(op, struct take_away);
	struct nfs3_wcc_res res;

	if (!err)
		err = nfs3_decode_remove(results, &res);
	fs_changed(op, t->victim.dir, err ? NULL : &res.wcc);
	names_changed(op);
	return err ? err : verdict_of(op, res.status);
}

static void on_remove(struct op *op, int err, struct xdr_reader *results)
{
	take_away_end(op, removed(op, err, results));
}

static void on_rmdir(struct op *op, int err, struct xdr_reader *results)
{
	err = removed(op, err, results);
	take_away_end(op, err == -EEXIST ? -ENOTEMPTY : err); /* some servers say it so */
}

static void remove_send(struct op *op, enum nfs3_proc proc, op_reply_fn *on_reply)
{
	struct take_away *t = op_state(op, struct take_away);
	struct nfs3_dirop args = victim_name(t);

	inode_change_begin(t->victim.dir);
	op_rpc(op, proc, op_cred(op), &args, on_reply);
}

/* ---- RENAME ---- */

static void rename_send(struct op *op, struct nfs3_rename_args args, struct inode *from, struct inode *to,
			op_reply_fn *on_reply)
{
	inode_change_begin(from);
	if (to != from)
		inode_change_begin(to);
	op_rpc(op, NFSPROC3_RENAME, op_cred(op), &args, on_reply);
}

static int renamed(struct op *op, int err, struct xdr_reader *results, struct inode *from, struct inode *to)
{
	struct nfs3_rename_res res;

	if (!err)
		err = nfs3_decode_rename(results, &res);
	fs_changed(op, from, err ? NULL : &res.from_wcc);
	if (to != from)
		fs_changed(op, to, err ? NULL : &res.to_wcc);
	names_changed(op);
	return err ? err : verdict_of(op, res.status);
}

static void on_undone(struct op *op, int err, struct xdr_reader *results)
{
	struct take_away *t = op_state(op, struct take_away);

	if (renamed(op, err, results, t->victim.dir, t->victim.dir))
		silly_attach(t->file, t->silly); /* it keeps that name until its last close */
	else
		silly_free(t->silly);
	take_away_end(op, t->err);
}

/* ORDER: the silly name becomes the file's only now. Before, its last close would have removed a file that
 * may yet get its name back. */
static void on_rename(struct op *op, int err, struct xdr_reader *results)
{
	struct take_away *t = op_state(op, struct take_away);

	err = renamed(op, err, results, t->from_dir, t->victim.dir);
	if (err && t->silly) {
		t->err = err;
		rename_send(op, (struct nfs3_rename_args){.from = silly_place(t), .to = victim_name(t)},
			    t->victim.dir, t->victim.dir, on_undone);
		return;
	}
	if (t->silly)
		silly_attach(t->file, t->silly);
	take_away_end(op, err);
}

static void rename_step(struct op *op)
{
	struct take_away *t = op_state(op, struct take_away);
	struct nfs3_rename_args args = {.from = {.dir = &t->from_dir->fh, .name = t->from_name},
					.to = victim_name(t)};

	rename_send(op, args, t->from_dir, t->victim.dir, on_rename);
}

/* ---- an open victim ---- */

static void on_silly(struct op *op, int err, struct xdr_reader *results)
{
	struct take_away *t = op_state(op, struct take_away);

	err = renamed(op, err, results, t->victim.dir, t->victim.dir);
	if (err) {
		silly_free(t->silly);
		take_away_end(op, err);
		return;
	}
	if (t->rename) {
		rename_step(op);
	} else {
		silly_attach(t->file, t->silly);
		take_away_end(op, 0);
	}
}

static void silly_step(struct op *op)
{
	struct take_away *t = op_state(op, struct take_away);
	const struct cred *cred = op_cred(op);

	t->silly = cred ? silly_new(t->victim.dir, t->file->fileid, cred) : NULL;
	if (!t->silly)
		take_away_end(op, cred ? -ENOMEM : -EACCES);
	else
		rename_send(op, (struct nfs3_rename_args){.from = victim_name(t), .to = silly_place(t)},
			    t->victim.dir, t->victim.dir, on_silly);
}

/* Two names of one file: RENAME between them does nothing, and must be left to do so. */
static void on_source(struct op *op, int err, struct xdr_reader *results)
{
	struct take_away *t = op_state(op, struct take_away);
	struct nfs3_lookup_res res;

	if (!err)
		err = nfs3_decode_lookup(results, &res);
	if (!err) {
		fs_take(op, t->from_dir, &res.dir_attr);
		err = nfs3_errno(res.status);
	}
	if (err) {
		take_away_end(op, err);
		return;
	}
	if (res.fh.len == t->file->fh.len && memcmp(res.fh.data, t->file->fh.data, res.fh.len) == 0) {
		t->file = NULL;
		rename_step(op);
	} else {
		silly_step(op);
	}
}

static void source_lookup(struct op *op)
{
	struct take_away *t = op_state(op, struct take_away);

	op_rpc(op, NFSPROC3_LOOKUP, op_cred(op),
	       &(struct nfs3_dirop){.dir = &t->from_dir->fh, .name = t->from_name}, on_source);
}

static void plain_step(struct op *op)
{
	if (op_state(op, struct take_away)->rename)
		rename_step(op);
	else
		remove_send(op, NFSPROC3_REMOVE, on_remove);
}

/* What the victim is. A file that has a silly name already keeps living under it: its other names just go. */
static void on_victim(struct op *op, int err, struct inode *inode)
{
	struct take_away *t = op_state(op, struct take_away);
	bool is_silly_name;

	if (err && !(t->rename && err == -ENOENT)) {
		take_away_end(op, err);
	} else if (err || inode->type == NFS3_DIR || file_data_opens(&inode->data) == 0) {
		plain_step(op);
	} else if (silly_has(inode, t->victim.name, &is_silly_name)) {
		if (is_silly_name)
			take_away_end(op, -EBUSY);
		else
			plain_step(op);
	} else {
		t->file = inode;
		if (t->rename)
			source_lookup(op);
		else
			silly_step(op);
	}
}

static void victim_step(struct op *op)
{
	struct take_away *t = op_state(op, struct take_away);

	t->victim.found = on_victim;
	removal_begin(&t->removal);
	if (data_open_files() > 0)
		fs_entry_lookup(op);
	else
		plain_step(op);
}

/* ---- the FUSE operations ---- */

static struct take_away *take_away_begin(struct op *op, fuse_ino_t parent, const char *name)
{
	struct take_away *t = op_state(op, struct take_away);

	t->victim.dir = fs_dir(op, parent);
	if (!t->victim.dir || !fs_copy_name(op, t->victim.name, name))
		return NULL;
	op->run_to_end = true;
	return t;
}

void fs_unlink(fuse_req_t req, fuse_ino_t parent, const char *name)
{
	struct op *op = op_begin(req);

	if (take_away_begin(op, parent, name))
		victim_step(op);
}

void fs_rmdir(fuse_req_t req, fuse_ino_t parent, const char *name)
{
	struct op *op = op_begin(req);

	if (take_away_begin(op, parent, name))
		remove_send(op, NFSPROC3_RMDIR, on_rmdir);
}

/* NFSv3 can neither exchange nor refuse to replace: programs fall back when they hear EINVAL. */
void fs_rename(fuse_req_t req, fuse_ino_t parent, const char *name, fuse_ino_t newparent, const char *newname,
	       unsigned int flags)
{
	struct op *op = op_begin(req);

	if (flags) {
		op_reply_err(op, -EINVAL);
		return;
	}
	struct take_away *t = take_away_begin(op, newparent, newname);

	if (!t || !fs_copy_name(op, t->from_name, name))
		return;
	t->rename = true;
	t->from_dir = fs_dir(op, parent);
	if (t->from_dir)
		victim_step(op);
}
