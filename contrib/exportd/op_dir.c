/* SPDX-License-Identifier: MIT
 *
 * READDIR and READDIRPLUS. The cookie is the file system's own d_off: it stays good while entries come and go
 * and when the server starts again, so the cookie verifier is always 0. A mount point is listed without
 * handle or attributes: looking at it is what could wait for ourselves.
 */
#include "op.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define DENTS_BYTES (32 * 1024)
#define DENTS_MIN_BYTES 1024 /* an entry is at most 24 + 256 */
/* Of a reply besides its entries: status, attributes, verifier, end of list, eof. */
#define DIR_FIXED_BYTES (4 + 88 + 8 + 4 + 4)

struct dent {
	uint64_t ino;
	int64_t off; /* where the next begins */
	uint16_t reclen;
	uint8_t type;
	char name[];
};

struct listing {
	struct op *op;
	int fd;
	bool plus;
	uint32_t left;	   /* of count: bytes of the whole result */
	uint32_t dir_left; /* of dircount: bytes of names, fileids and cookies */
	uint32_t entries;
	bool full;
};

static uint32_t name_len(const struct dent *d)
{
	return (uint32_t)strlen(d->name);
}

/* fileid, name, cookie: what dircount counts; and the boolean before it. */
static uint32_t entry_bytes(const struct dent *d)
{
	uint32_t len = name_len(d);
	return 8 + 4 + len + xdr_pad(len) + 8;
}

/* Attributes and handle of an entry, or two "no": for a mount point, and for what may not be looked at. */
static bool look_at(const struct listing *l, const struct dent *d, struct stat *st, struct fh *fh)
{
	const struct node *dir = l->op->obj;
	/* ".." leads upwards: its handle is LOOKUP's business. */
	if (strcmp(d->name, "..") == 0)
		return false;
	int fd = open_beneath(dir->fd, d->name, O_PATH | O_NOFOLLOW, 0);
	if (fd < 0)
		return false;
	const char *name = strcmp(d->name, ".") == 0 ? NULL : d->name;
	bool ok = fstat(fd, st) == 0 && st->st_nlink > 0 &&
		  export_fh(dir->export, fd, st, dir->fd, name, fh) == 0;
	close(fd);
	return ok;
}

static void put_entry(struct listing *l, const struct dent *d, uint64_t fileid)
{
	xdr_put_u32(l->op->w, true);
	xdr_put_u64(l->op->w, fileid);
	xdr_put_opaque(l->op->w, d->name, name_len(d));
	xdr_put_u64(l->op->w, (uint64_t)d->off);
}

static void put_entry_plus(struct listing *l, const struct dent *d, const struct stat *st,
			   const struct fh *fh)
{
	xdr_put_u32(l->op->w, st != NULL);
	if (st)
		put_fattr(l->op->w, st);
	xdr_put_u32(l->op->w, fh != NULL);
	if (fh)
		put_fh(l->op->w, fh);
}

/* The root's ".." is the root: what is above it is nobody's business. */
static uint64_t fileid_of(const struct listing *l, const struct dent *d)
{
	struct stat st;
	const struct node *dir = l->op->obj;
	if (strcmp(d->name, "..") == 0 && fstat(dir->fd, &st) == 0 && export_is_root(dir->export, &st))
		return st.st_ino;
	return d->ino;
}

/* False: no room any more, and nothing of the entry was written. */
static bool add_entry(struct listing *l, const struct dent *d)
{
	struct stat st;
	struct fh fh;
	uint32_t bytes = entry_bytes(d);
	/* RFC 1813 §3.3.17: dircount is a hint; one entry at least. */
	if (l->entries > 0 && bytes > l->dir_left)
		return false;
	bool looked = l->plus && look_at(l, d, &st, &fh);
	uint32_t total = 4 + bytes;
	if (l->plus)
		total += looked ? 4 + 84 + 4 + 4 + fh.len_bytes + xdr_pad(fh.len_bytes) : 4 + 4;
	if (total > l->left)
		return false;
	put_entry(l, d, looked ? st.st_ino : fileid_of(l, d));
	if (l->plus)
		put_entry_plus(l, d, looked ? &st : NULL, looked ? &fh : NULL);
	l->left -= total;
	l->dir_left -= bytes < l->dir_left ? bytes : l->dir_left;
	l->entries++;
	return true;
}

static void add_dents(struct listing *l, const char *buf, size_t len)
{
	size_t at = 0;
	while (at < len && !l->full) {
		const struct dent *d = (const struct dent *)(buf + at);
		at += d->reclen;
		l->full = !add_entry(l, d);
	}
}

/* How much to read at once: what does not fit the reply was read in vain. An entry takes about as much here
 * as in a READDIR reply, and about a fifth of what it takes in a READDIRPLUS reply. */
static size_t dents_bytes(const struct listing *l)
{
	size_t want = l->plus ? l->left / 5 : l->left;
	return want < DENTS_MIN_BYTES ? DENTS_MIN_BYTES : want < DENTS_BYTES ? want : DENTS_BYTES;
}

/* 1: the end of the directory was reached. */
static int add_all(struct listing *l)
{
	char buf[DENTS_BYTES] __attribute__((aligned(8)));
	while (!l->full) {
		long n = syscall(SYS_getdents64, l->fd, buf, dents_bytes(l));
		if (n < 0)
			return -errno;
		if (n == 0)
			return 1;
		add_dents(l, buf, (size_t)n);
	}
	return 0;
}

static int open_listing(struct op *op)
{
	static const uint8_t zero[NFS3_VERF_BYTES];
	if (!S_ISDIR(op->obj->type))
		return -ENOTDIR;
	if (op->args.cookie != 0 && memcmp(op->args.verf, zero, sizeof zero) != 0)
		return -EBADE; /* a cookie that is not from here */
	int fd = open_beneath(op->obj->fd, ".", O_RDONLY | O_DIRECTORY, 0);
	if (fd < 0)
		return fd;
	if (op->args.cookie != 0 && lseek(fd, (off_t)op->args.cookie, SEEK_SET) < 0) {
		close(fd);
		return -EBADE;
	}
	return fd;
}

static enum nfs3_status list(struct op *op, bool plus)
{
	uint32_t count = op->args.count;
	if (count > DIR_REPLY_MAX_BYTES)
		count = DIR_REPLY_MAX_BYTES;
	if (op->call->reply_max_bytes < RPC_REPLY_HEAD_BYTES + DIR_FIXED_BYTES)
		return NFS3ERR_TOOSMALL;
	if (count > op->call->reply_max_bytes - RPC_REPLY_HEAD_BYTES)
		count = op->call->reply_max_bytes - RPC_REPLY_HEAD_BYTES;
	if (count < DIR_FIXED_BYTES)
		return NFS3ERR_TOOSMALL;
	int fd = open_listing(op);
	if (fd < 0)
		return fd == -EBADE ? NFS3ERR_BAD_COOKIE : status_of(fd);
	struct listing l = {
		.op = op,
		.fd = fd,
		.plus = plus,
		.left = count - DIR_FIXED_BYTES,
		.dir_left = op->args.dircount,
	};
	put_post_op(op->w, op->obj);
	xdr_put_u64(op->w, 0); /* cookie verifier */
	int end = add_all(&l);
	close(fd);
	if (end < 0)
		return status_of(end);
	if (!end && l.entries == 0)
		return NFS3ERR_TOOSMALL;
	xdr_put_u32(op->w, false);
	xdr_put_u32(op->w, (uint32_t)end);
	return NFS3_OK;
}

enum nfs3_status op_readdir(struct op *op)
{
	return list(op, false);
}

enum nfs3_status op_readdirplus(struct op *op)
{
	return list(op, true);
}
