/* SPDX-License-Identifier: MIT
 *
 * Operations that find a name or make one: LOOKUP, CREATE, MKDIR, MKNOD, SYMLINK, LINK.
 *
 * Whatever changes a directory runs to its end once started, even if its caller is killed: the directory's
 * attributes are bracketed by inode_change_begin() and inode_change_end(), see attr.h.
 */
#include "data.h"
#include "fs.h"
#include "fs_entry.h"
#include "xdr.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/sysmacros.h>

/* ---- LOOKUP ---- */

static void on_looked_up(struct op *op, int err, struct inode *inode)
{
	struct fs_entry *entry = op_state(op, struct fs_entry);
	double timeout = err == -ENOENT ? fs_entry_timeout(entry->dir, true) : 0;

	if (timeout > 0) { /* node id 0: the kernel may remember that there is none */
		if (the_mount->expires_names)
			inode_told_missing(entry->dir, entry->name);
		op_reply_entry(op, &(struct fuse_entry_param){.entry_timeout = timeout});
	} else if (err) {
		op_reply_err(op, err);
	} else {
		inode_called(inode, entry->name, strlen(entry->name));
		fs_reply_entry(op, entry->dir, inode);
	}
}

void fs_lookup(fuse_req_t req, fuse_ino_t parent, const char *name)
{
	struct op *op = op_begin(req);
	struct fs_entry *entry = op_state(op, struct fs_entry);

	entry->dir = fs_dir(op, parent);
	if (!entry->dir || !fs_copy_name(op, entry->name, name))
		return;
	entry->found = on_looked_up;
	fs_entry_lookup(op);
}

/* ---- making names ---- */

struct make {
	struct fs_entry entry;	  /* first */
	struct fuse_file_info fi; /* CREATE */
	struct nfs3_sattr attr;	  /* EXCLUSIVE: for the SETATTR that follows */
	enum nfs3_create_mode how;
	bool opens; /* CREATE, not MKNOD of a regular file */
	mode_t umask;
	enum nfs3_type type; /* MKNOD */
	dev_t rdev;
	op_resume_fn *send; /* once the mode is known */
	uint32_t target_len;
	struct inode *created;
};

/* Begins an operation that makes parent/name; NULL: it has been answered. */
static struct make *make_begin(struct op *op, fuse_ino_t parent, const char *name, fs_found_fn *made)
{
	struct make *m = op_state(op, struct make);

	m->entry.dir = fs_dir(op, parent);
	if (!m->entry.dir || !fs_copy_name(op, m->entry.name, name))
		return NULL;
	m->entry.found = made;
	op->run_to_end = true;
	return m;
}

static struct nfs3_dirop make_where(const struct make *m)
{
	return (struct nfs3_dirop){.dir = &m->entry.dir->fh, .name = m->entry.name};
}

static void make_send(struct op *op, enum nfs3_proc proc, const void *args, op_reply_fn *on_reply)
{
	inode_change_begin(op_state(op, struct make)->entry.dir);
	op_rpc(op, proc, op_cred(op), args, on_reply);
}

/* The directory's default ACL takes the place of the umask. */
static void on_dir_acls(struct op *op, int err, const struct nfs3_getacl_res *acls)
{
	struct make *m = op_state(op, struct make);

	if (err && err != -EOPNOTSUPP) {
		op_reply_err(op, err);
		return;
	}
	if (!err && acls->dflt.count)
		m->attr.mode = acl_create_mode(&acls->dflt, m->attr.mode);
	else
		m->attr.mode &= ~m->umask;
	m->send(op);
}

/* Calls send with m->attr being what the new object shall have. The server would give it the right ACL
 * without our help, but not after EXCLUSIVE, which brings no mode. */
static void make_with_mode(struct op *op, const struct fuse_ctx *caller, mode_t mode, op_resume_fn *send)
{
	struct make *m = op_state(op, struct make);

	m->attr = fs_mode_only(mode);
	m->umask = caller->umask & 0777;
	m->send = send;
	fs_acls(op, m->entry.dir, false, on_dir_acls);
}

/* The common end of CREATE, MKDIR, SYMLINK and MKNOD: directory's change, then the new object. 0 or -errno;
 * then the operation is over. */
static int make_result(struct op *op, int err, struct xdr_reader *results, struct nfs3_create_res *res)
{
	struct make *m = op_state(op, struct make);

	if (!err)
		err = nfs3_decode_create(results, res);
	int stale = fs_changed(op, m->entry.dir, err ? NULL : &res->dir_wcc);

	if (!err)
		err = nfs3_errno(res->status);
	return err ? err : stale;
}

static void on_made(struct op *op, int err, struct xdr_reader *results)
{
	struct nfs3_create_res res;

	err = make_result(op, err, results, &res);
	if (err)
		op_reply_err(op, err);
	else
		fs_entry_resolve(op, &res.fh, &res.attr);
}

static void made(struct op *op, int err, struct inode *inode)
{
	if (err)
		op_reply_err(op, err);
	else
		fs_reply_entry(op, op_state(op, struct make)->entry.dir, inode);
}

static void mkdir_send(struct op *op)
{
	struct make *m = op_state(op, struct make);

	make_send(op, NFSPROC3_MKDIR, &(struct nfs3_mkdir_args){.where = make_where(m), .attr = m->attr},
		  on_made);
}

void fs_mkdir(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode)
{
	struct op *op = op_begin(req);

	if (make_begin(op, parent, name, made))
		make_with_mode(op, fuse_req_ctx(req), mode, mkdir_send);
}

/* ---- SYMLINK ---- */

static void symlink_send(struct op *op)
{
	struct make *m = op_state(op, struct make);
	struct nfs3_symlink_args args = {
		.where = make_where(m), .attr = fs_mode_only(0777), .path_len = m->target_len};

	op->out = (struct iovec){op->run, m->target_len};
	make_send(op, NFSPROC3_SYMLINK, &args, on_made);
}

/* The text goes by RDMA, so it must lie in the arena; a run is free as a rule, and the text is still the
 * request's. Else it waits on the heap. */
struct symlink_wait {
	struct make make; /* first */
	char *text;
};

static void symlink_run(struct op *op)
{
	struct symlink_wait *w = op_state(op, struct symlink_wait);

	memcpy(op->run, w->text, w->make.target_len);
	free(w->text);
	symlink_send(op);
}

void fs_symlink(fuse_req_t req, const char *target, fuse_ino_t parent, const char *name)
{
	struct op *op = op_begin(req);
	struct make *m = make_begin(op, parent, name, made);
	size_t len = strlen(target);

	if (!m)
		return;
	if (len > NFS3_PATH_MAX || len == 0) {
		op_reply_err(op, len ? -ENAMETOOLONG : -ENOENT);
		return;
	}
	struct symlink_wait *w = op_state(op, struct symlink_wait);

	m->target_len = (uint32_t)len;
	w->text = strdup(target);
	if (!w->text)
		op_reply_err(op, -ENOMEM);
	else
		op_run_get(op, len, symlink_run);
}

/* ---- CREATE ---- */

/* Once a server has said that it lacks EXCLUSIVE, it is not asked again. */
static atomic_bool exclusive_lacking;

static void create_send(struct op *op);

static void create_reply(struct op *op, struct inode *inode)
{
	struct make *m = op_state(op, struct make);
	struct fuse_entry_param entry;
	struct fuse_file_info fi = m->fi;
	int err = data_open_created(op, inode, op_cred(op), &fi);

	if (err) {
		op_reply_err(op, err);
		return;
	}
	fs_fill_entry(m->entry.dir, inode, &entry);
	inode_remember(inode);
	if (op_reply_create(op, &entry, &fi)) { /* nobody will close it */
		data_open_undo(&fi);
		inode_forget(inode, 1);
	}
}

static void create_finish(struct op *op, struct inode *inode)
{
	struct make *m = op_state(op, struct make);

	inode_called(inode, m->entry.name, strlen(m->entry.name));
	if (m->opens)
		create_reply(op, inode);
	else
		fs_reply_entry(op, m->entry.dir, inode);
}

static void on_create_setattr(struct op *op, int err, struct xdr_reader *results)
{
	struct make *m = op_state(op, struct make);
	struct nfs3_wcc_res res;

	if (!err)
		err = nfs3_decode_setattr(results, &res);
	int stale = fs_changed(op, m->created, err ? NULL : &res.wcc);

	if (!err)
		err = nfs3_errno(res.status);
	if (!err)
		err = stale;
	if (err)
		op_reply_err(op, err);
	else
		create_finish(op, m->created);
}

/* After EXCLUSIVE the attributes are not to be relied upon: the server may have kept the verifier there (RFC
 * 1813 §3.3.8). So they are set, the times too, as the Linux client does. */
static void created(struct op *op, int err, struct inode *inode)
{
	struct make *m = op_state(op, struct make);

	if (err) {
		op_reply_err(op, err);
		return;
	}
	if (inode->type != NFS3_REG) { /* between two replies somebody put something else there */
		op_reply_err(op, -ESTALE);
		return;
	}
	if (m->how != NFS3_EXCLUSIVE) {
		create_finish(op, inode);
		return;
	}
	struct nfs3_setattr_args args = {.object = &inode->fh, .attr = m->attr};

	args.attr.atime_how = args.attr.mtime_how = NFS3_TIME_SERVER;
	m->created = inode;
	inode_change_begin(inode);
	op_rpc(op, NFSPROC3_SETATTR, op_cred(op), &args, on_create_setattr);
}

/* Without O_EXCL, a file that is there already is to be opened as it is, under its own permissions; but the
 * kernel believed that there was none. -ESTALE makes it look again (it repeats the whole open with
 * LOOKUP_REVAL), find the file, and check and OPEN it like any other; a symbolic link it will follow. */
static int create_error(const struct op *op, const struct make *m, int err)
{
	if (err != -EEXIST || !m->opens || (m->fi.flags & O_EXCL))
		return err;
	inode_sent_back(the_mount->inodes, op->tid);
	return -ESTALE;
}

static void on_create(struct op *op, int err, struct xdr_reader *results)
{
	struct make *m = op_state(op, struct make);
	struct nfs3_create_res res = {.status = NFS3_OK};

	err = make_result(op, err, results, &res);
	if (err && res.status == NFS3ERR_NOTSUPP && m->how == NFS3_EXCLUSIVE) {
		atomic_store(&exclusive_lacking, true);
		m->how = NFS3_GUARDED;
		create_send(op);
	} else if (err) {
		op_reply_err(op, create_error(op, m, err));
	} else {
		fs_entry_resolve(op, &res.fh, &res.attr);
	}
}

static void create_send(struct op *op)
{
	struct make *m = op_state(op, struct make);
	struct nfs3_create_args args = {.where = make_where(m), .mode = m->how};

	if (m->how == NFS3_EXCLUSIVE) {
		if (getrandom(args.verf, sizeof args.verf, GRND_NONBLOCK) != sizeof args.verf)
			memcpy(args.verf, &(uint64_t){fs_clock() ^ (uintptr_t)op}, sizeof args.verf);
	} else {
		args.attr = m->attr;
	}
	make_send(op, NFSPROC3_CREATE, &args, on_create);
}

static void create_begin(struct op *op, const struct fuse_ctx *caller, mode_t mode, bool exclusive)
{
	struct make *m = op_state(op, struct make);

	m->how = exclusive && !atomic_load(&exclusive_lacking) ? NFS3_EXCLUSIVE : NFS3_GUARDED;
	make_with_mode(op, caller, mode, create_send);
}

/* Without O_EXCL GUARDED and not UNCHECKED, for see create_error(). */
void fs_create(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode, struct fuse_file_info *fi)
{
	struct op *op = op_begin(req);
	struct make *m = make_begin(op, parent, name, created);

	if (!m)
		return;
	m->opens = true;
	m->fi = *fi;
	create_begin(op, fuse_req_ctx(req), mode, fi->flags & O_EXCL);
}

/* ---- MKNOD ---- */

static bool mknod_type(mode_t mode, enum nfs3_type *type)
{
	switch (mode & S_IFMT) {
	case S_IFCHR:
		*type = NFS3_CHR;
		return true;
	case S_IFBLK:
		*type = NFS3_BLK;
		return true;
	case S_IFSOCK:
		*type = NFS3_SOCK;
		return true;
	case S_IFIFO:
		*type = NFS3_FIFO;
		return true;
	}
	return false;
}

static void mknod_send(struct op *op)
{
	struct make *m = op_state(op, struct make);

	make_send(op, NFSPROC3_MKNOD,
		  &(struct nfs3_mknod_args){.where = make_where(m),
					    .type = m->type,
					    .attr = m->attr,
					    .major = major(m->rdev),
					    .minor = minor(m->rdev)},
		  on_made);
}

void fs_mknod(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode, dev_t rdev)
{
	struct op *op = op_begin(req);
	struct make *m = make_begin(op, parent, name, S_ISREG(mode) ? created : made);

	if (!m)
		return;
	m->rdev = rdev;
	if (S_ISREG(mode))
		create_begin(op, fuse_req_ctx(req), mode, true);
	else if (mknod_type(mode, &m->type))
		make_with_mode(op, fuse_req_ctx(req), mode, mknod_send);
	else
		op_reply_err(op, -EINVAL);
}

/* ---- LINK ---- */

struct link {
	struct fs_entry entry; /* first */
	struct inode *file;
};

static void linked(struct op *op, int err, struct inode *inode)
{
	if (err)
		op_reply_err(op, err);
	else
		fs_reply_entry(op, op_state(op, struct link)->entry.dir, inode);
}

static void on_link(struct op *op, int err, struct xdr_reader *results)
{
	struct link *l = op_state(op, struct link);
	struct nfs3_link_res res;

	if (!err)
		err = nfs3_decode_link(results, &res);
	struct nfs3_wcc file_wcc = {.after = err ? (struct nfs3_post_attr){.present = false} : res.attr};
	int stale = fs_changed(op, l->file, &file_wcc);

	fs_changed(op, l->entry.dir, err ? NULL : &res.dir_wcc);
	if (!err)
		err = nfs3_errno(res.status);
	if (!err)
		err = stale;
	if (err) {
		op_reply_err(op, err);
		return;
	}
	fs_entry_resolve(op, &(struct nfs3_post_fh){.present = true, .fh = l->file->fh}, &res.attr);
}

void fs_link(fuse_req_t req, fuse_ino_t ino, fuse_ino_t newparent, const char *newname)
{
	struct op *op = op_begin(req);
	struct link *l = op_state(op, struct link);

	l->entry.dir = fs_dir(op, newparent);
	if (!l->entry.dir || !fs_copy_name(op, l->entry.name, newname))
		return;
	l->entry.found = linked;
	l->file = fs_inode(op, ino);
	op->run_to_end = true;
	inode_change_begin(l->file);
	inode_change_begin(l->entry.dir);
	op_rpc(op, NFSPROC3_LINK, op_cred(op),
	       &(struct nfs3_link_args){.file = &l->file->fh,
					.link = {.dir = &l->entry.dir->fh, .name = l->entry.name}},
	       on_link);
}
