/* SPDX-License-Identifier: MIT
 *
 * Directories: OPENDIR, READDIR, READDIRPLUS, RELEASEDIR.
 *
 * Normal operation. The kernel asks for entries behind an offset, which is the cookie of the entry before.
 * They come from the page that the open directory keeps (dirpage.h), or else a page is fetched: the reply is
 * placed in a run of the arena, copied, and the run given back, so an idle open directory holds no registered
 * memory. Pages begin small, for most directories are, and double. Offset 0 always asks the server:
 * rewinddir() sees the directory as it is.
 *
 * The server is asked by READDIRPLUS even if the kernel wants names only: it brings the files' types, without
 * which find(1) and its like would look up every name. Inodes are made only when the kernel wants attributes,
 * and only entries that lie in the buffer that it takes count as looked up. A page that is given bit by bit
 * grows old: once a name of the directory has changed, the rest of it is given as names only, or a name that
 * is gone would come back to life in the kernel.
 *
 * Recovery. Without READDIRPLUS on the server, or when it finds no room for one entry with attributes,
 * READDIR. A cookie that the server no longer likes is tried once with a zero verifier; then the listing is
 * gone through again from its beginning, up to the entry with that cookie. When there is none any more, the
 * place is lost: EIO rather than an end that is none. A listing that is broken or goes round in a circle is
 * EIO as well. Each has its line in the log.
 *
 * Ownership. The kernel asks for one piece of an open directory at a time (it holds its position's lock),
 * from whatever lane; struct open_dir needs no lock.
 */
#include "dirpage.h"
#include "fs.h"
#include "fs_entry.h"
#include "log.h"
#include "options.h"
#include "xdr.h"

#include <errno.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define FETCH_FIRST_BYTES 8192u
#define FILEID_UNKNOWN 0xffffffffu /* shown in place of a fileid of 0, which RFC 1813 §3.3.16 says to map */

struct open_dir {
	struct inode *dir; /* holds a reference */
	struct cred cred;  /* the opener's */
	uint8_t verf[NFS3_VERF_SIZE];
	uint32_t fetch_bytes;
	bool plain; /* READDIRPLUS has no room here */
	struct dirpage page;
	uint64_t page_submitted_ns, page_heard_ns;
};

/* What is being given to the kernel. Not the open directory's: once the reply has left, the kernel may close
 * that on another lane. */
struct listing {
	char *out;
	struct inode **given; /* each with the reference that becomes the kernel's lookup */
	size_t ngiven, given_size;
};

struct list_op {
	struct open_dir *d;
	size_t size;
	uint64_t cookie; /* where the kernel, or the fetch for it, goes on */
	bool plus;	 /* the kernel wants attributes */
	bool fetch_plus; /* the page is asked for by READDIRPLUS */
	bool fetched;
	bool zero_verf;
	bool searching; /* from the beginning, for `place` */
	uint64_t place; /* where the listing has come to */
	unsigned int searches;
};

#define SEARCHES_MAX 3u /* of a directory that changes meanwhile, and makes its cookies invalid each time */

/* A server that lacks READDIRPLUS is not asked again. */
static atomic_bool plus_lacking;

static struct open_dir *open_dir_of(const struct fuse_file_info *fi)
{
	return (struct open_dir *)(uintptr_t)fi->fh;
}

static void open_dir_free(struct open_dir *d)
{
	dirpage_fini(&d->page);
	inode_unref(d->dir);
	free(d);
}

/* ---- OPENDIR ---- */

struct opendir {
	struct inode *dir;
	struct fuse_file_info fi;
};

static void on_may_open(struct op *op, int err)
{
	struct opendir *o = op_state(op, struct opendir);
	struct open_dir *d = err ? NULL : calloc(1, sizeof *d);

	if (!d) {
		op_reply_err(op, err ? err : -ENOMEM);
		return;
	}
	struct fuse_file_info fi = o->fi;

	d->dir = inode_ref(o->dir);
	d->cred = *op_cred(op);
	d->fetch_bytes = FETCH_FIRST_BYTES;
	fi.fh = (uintptr_t)d;
	if (op_reply_open(op, &fi))
		open_dir_free(d); /* nobody will close it */
}

/* The server is asked, as the caller: the mode bits that the kernel checks are not all that counts there. */
void fs_opendir(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	struct op *op = op_begin(req);
	struct opendir *o = op_state(op, struct opendir);

	o->fi = *fi;
	o->dir = fs_dir(op, ino);
	if (o->dir)
		fs_may(op, o->dir, NFS3_ACCESS_READ, false, on_may_open);
}

void fs_releasedir(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	struct op *op = op_begin(req);

	open_dir_free(open_dir_of(fi));
	op_reply_err(op, 0);
}

/* ---- from the page to the kernel's buffer ---- */

static bool room_for_one_more(struct listing *listing)
{
	if (listing->ngiven < listing->given_size)
		return true;
	size_t n = listing->given_size ? 2 * listing->given_size : 64;
	struct inode **given = realloc(listing->given, n * sizeof(struct inode *));

	if (!given)
		return false;
	listing->given = given;
	listing->given_size = n;
	return true;
}

/* Makes the entry's inode, if the server gave all that it takes, and counts its lookup. "." and ".." never:
 * the kernel does not count them. Without an inode the kernel looks the name up when it needs it. */
static void give_inode(struct op *op, struct listing *listing, const struct nfs3_entry *e,
		       struct fuse_entry_param *entry)
{
	const struct open_dir *d = op_state(op, struct list_op)->d;
	struct inode *dir = d->dir;
	enum attr_verdict verdict;

	if (e->dot || !e->attr.present || !e->fh.present || !inode_names_since(dir, d->page_submitted_ns) ||
	    !room_for_one_more(listing))
		return;
	struct inode *inode = inode_get(the_mount->inodes, &e->fh.fh, &e->attr.attr, d->page_submitted_ns,
					d->page_heard_ns, &verdict);
	if (!inode)
		return;
	fs_verdict(inode, verdict);
	listing->given[listing->ngiven++] = inode;
	inode_called(inode, e->name, e->name_len);
	fs_fill_entry(dir, inode, entry);
}

/* The same number as stat(2) shows, where it is known: the server's own entry for a place where it has
 * mounted something is that of the directory below. */
static ino_t entry_number(const struct nfs3_entry *e)
{
	if (e->attr.present && !e->dot)
		return inode_file_number(the_mount->inodes, &e->attr.attr);
	return e->fileid ? e->fileid : FILEID_UNKNOWN;
}

/* Adds one entry at out; returns its size, or 0 when it does not fit. */
static size_t add_entry(struct op *op, struct listing *listing, const struct nfs3_entry *e, char *out,
			size_t room)
{
	bool plus = op_state(op, struct list_op)->plus;
	struct fuse_entry_param entry = {.ino = 0};
	char name[NFS3_NAME_MAX + 1];
	size_t need;

	memcpy(name, e->name, e->name_len);
	name[e->name_len] = '\0';
	need = plus ? fuse_add_direntry_plus(op->req, NULL, 0, name, NULL, 0)
		    : fuse_add_direntry(op->req, NULL, 0, name, NULL, 0);
	if (need > room)
		return 0;
	if (e->attr.present)
		attr_to_stat(&e->attr.attr, &entry.attr);
	if (plus)
		give_inode(op, listing, e, &entry);
	if (!entry.ino)
		entry.attr.st_ino = entry_number(e);
	if (plus)
		fuse_add_direntry_plus(op->req, out, room, name, &entry, (off_t)e->cookie);
	else
		fuse_add_direntry(op->req, out, room, name, &entry.attr, (off_t)e->cookie);
	return need;
}

static size_t fill(struct op *op, struct listing *listing)
{
	const struct list_op *l = op_state(op, struct list_op);
	struct nfs3_entry entry;
	size_t used = 0, n;

	while (dirpage_peek(&l->d->page, &entry)) {
		n = add_entry(op, listing, &entry, listing->out + used, l->size - used);
		if (!n)
			break;
		used += n;
		dirpage_step(&l->d->page);
	}
	return used;
}

static void list_reply(struct op *op, struct listing *listing, size_t bytes)
{
	if (op_reply_buf(op, listing->out, bytes))
		for (size_t i = 0; i < listing->ngiven; i++)
			inode_forget(listing->given[i], 1);
}

static void list_fetch(struct op *op, uint64_t cookie);
static void list_serve(struct op *op);

static void list_search(struct op *op)
{
	struct list_op *l = op_state(op, struct list_op);
	struct dirpage *page = &l->d->page;

	if (dirpage_seek(page, l->place)) {
		l->searching = false;
		l->cookie = l->place;
		list_serve(op);
	} else if (!page->eof) {
		list_fetch(op, page->end);
	} else {
		log_warning("%s: the listing of the directory with fileid %" PRIu64
			    " cannot go on: the server has lost the place, for the directory has changed",
			    the_mount->source, l->d->dir->fileid);
		op_reply_err(op, -EIO);
	}
}

static void list_serve(struct op *op)
{
	struct list_op *l = op_state(op, struct list_op);
	struct dirpage *page = &l->d->page;

	if ((l->cookie == 0 && !l->fetched) || !dirpage_seek(page, l->cookie)) {
		list_fetch(op, l->cookie);
		return;
	}
	struct listing listing = {.out = malloc(l->size)};
	struct nfs3_entry entry;
	size_t bytes = listing.out ? fill(op, &listing) : 0;

	if (!listing.out)
		op_reply_err(op, -ENOMEM);
	else if (bytes || (page->eof && !dirpage_peek(page, &entry)))
		list_reply(op, &listing, bytes);
	else if (dirpage_peek(page, &entry)) /* not even one fits */
		op_reply_err(op, -EINVAL);
	else
		list_fetch(op, page->end);
	free(listing.given);
	free(listing.out);
}

/* ---- from the server to the page ---- */

static void list_send(struct op *op);

/* True if the refusal has a remedy, which is under way. */
static bool remedy(struct op *op, int err, uint32_t status)
{
	struct list_op *l = op_state(op, struct list_op);
	struct open_dir *d = l->d;

	if (l->fetch_plus && (err == -EOPNOTSUPP || status == NFS3ERR_NOTSUPP)) {
		atomic_store(&plus_lacking, true);
	} else if (status == NFS3ERR_BAD_COOKIE && !l->zero_verf) {
		l->zero_verf = true;
	} else if (status == NFS3ERR_BAD_COOKIE && l->cookie && l->searches < SEARCHES_MAX) {
		if (!l->searching)
			l->place = l->cookie;
		l->searching = true;
		l->searches++;
		l->cookie = 0;
	} else if (status == NFS3ERR_TOOSMALL && d->fetch_bytes < the_mount->dtsize) {
		d->fetch_bytes = the_mount->dtsize;
	} else if (status == NFS3ERR_TOOSMALL && l->fetch_plus) {
		d->plain = true;
	} else {
		return false;
	}
	list_fetch(op, l->cookie);
	return true;
}

static int list_take(struct op *op, struct xdr_reader *results, uint32_t *status)
{
	struct list_op *l = op_state(op, struct list_op);
	struct open_dir *d = l->d;
	struct nfs3_list_head head = {.status = NFS3_OK};
	int err = dirpage_load(&d->page, results->pos, xdr_left(results), l->fetch_plus, l->cookie, &head);

	if (err == -ELOOP || err == -EBADMSG) {
		log_warning("%s: the server's listing of the directory with fileid %" PRIu64 " %s",
			    the_mount->source, d->dir->fileid,
			    err == -ELOOP ? "goes round in a circle" : "is malformed");
		return -EIO;
	}
	if (err)
		return err;
	err = fs_take(op, d->dir, &head.dir_attr);
	if (head.status == NFS3_OK)
		memcpy(d->verf, head.verf, sizeof d->verf);
	*status = head.status;
	return err;
}

static void on_listing(struct op *op, int err, struct xdr_reader *results)
{
	struct list_op *l = op_state(op, struct list_op);
	uint32_t status = NFS3_OK;

	if (!err)
		err = list_take(op, results, &status);
	op_run_put(op);
	if ((err || status != NFS3_OK) && remedy(op, err, status))
		return;
	if (!err)
		err = nfs3_errno(status);
	if (err) {
		op_reply_err(op, err);
		return;
	}
	l->fetched = true;
	l->zero_verf = false;
	l->d->page_submitted_ns = op->submitted_ns;
	l->d->page_heard_ns = fs_clock();
	if (l->d->fetch_bytes < the_mount->dtsize)
		l->d->fetch_bytes *= 2;
	if (l->searching)
		list_search(op);
	else
		list_serve(op);
}

static void list_send(struct op *op)
{
	struct list_op *l = op_state(op, struct list_op);
	struct open_dir *d = l->d;
	uint32_t count = op->count;
	struct nfs3_readdirplus_args plus = {
		.dir = &d->dir->fh, .cookie = l->cookie, .dircount = count, .maxcount = count};
	struct nfs3_readdir_args plain = {.dir = &d->dir->fh, .cookie = l->cookie, .count = count};

	if (l->cookie && !l->zero_verf) {
		memcpy(plus.verf, d->verf, sizeof plus.verf);
		memcpy(plain.verf, d->verf, sizeof plain.verf);
	}
	op->reply = (struct iovec){op->run, op->run_bytes};
	if (l->fetch_plus)
		op_rpc(op, NFSPROC3_READDIRPLUS, &d->cred, &plus, on_listing);
	else
		op_rpc(op, NFSPROC3_READDIR, &d->cred, &plain, on_listing);
}

static void list_fetch(struct op *op, uint64_t cookie)
{
	struct list_op *l = op_state(op, struct list_op);
	struct open_dir *d = l->d;

	l->cookie = cookie;
	l->fetch_plus = the_mount->opts->rdirplus && !d->plain && !atomic_load(&plus_lacking);
	op->count = d->fetch_bytes < the_mount->dtsize ? d->fetch_bytes : the_mount->dtsize;
	op_run_get(op, nfs3_reply_max(l->fetch_plus ? NFSPROC3_READDIRPLUS : NFSPROC3_READDIR, op->count),
		   list_send);
}

/* ---- the FUSE operations ---- */

static void list_begin(fuse_req_t req, size_t size, off_t off, struct fuse_file_info *fi, bool plus)
{
	struct op *op = op_begin(req);
	struct list_op *l = op_state(op, struct list_op);

	*l = (struct list_op){.d = open_dir_of(fi), .size = size, .cookie = (uint64_t)off, .plus = plus};
	op_hold(op, l->d->dir);
	list_serve(op);
}

void fs_readdir(fuse_req_t req, fuse_ino_t ino, size_t size, off_t off, struct fuse_file_info *fi)
{
	list_begin(req, size, off, fi, false);
}

void fs_readdirplus(fuse_req_t req, fuse_ino_t ino, size_t size, off_t off, struct fuse_file_info *fi)
{
	list_begin(req, size, off, fi, true);
}
