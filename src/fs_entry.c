/* SPDX-License-Identifier: MIT */
#include "fs_entry.h"

#include "log.h"
#include "notify.h"
#include "options.h"
#include "xdr.h"

#include <errno.h>
#include <string.h>
#include <time.h>

#define NS_PER_S 1e9

uint64_t fs_clock(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

struct inode *fs_inode(struct op *op, fuse_ino_t ino)
{
	return op_hold(op, inode_of(the_mount->inodes, ino));
}

bool fs_may_enter(struct inode *dir)
{
	if (!dir->foreign)
		return true;
	pthread_mutex_lock(&dir->lock);
	bool told = dir->told_foreign;
	dir->told_foreign = true;
	pthread_mutex_unlock(&dir->lock);
	if (!told)
		log_warning(
			"%s: directory with fileid %llu is another file system of the server's (fsid %llx); "
			"not entered: mount it by itself",
			the_mount->source, (unsigned long long)dir->fileid, (unsigned long long)dir->fsid);
	return false;
}

struct inode *fs_dir(struct op *op, fuse_ino_t ino)
{
	struct inode *dir = fs_inode(op, ino);

	if (fs_may_enter(dir))
		return dir;
	op_reply_err(op, -EXDEV);
	return NULL;
}

bool fs_copy_name(struct op *op, char copy[NFS3_NAME_MAX + 1], const char *name)
{
	size_t len = strlen(name);

	if (len > NFS3_NAME_MAX) {
		op_reply_err(op, -ENAMETOOLONG);
		return false;
	}
	memcpy(copy, name, len + 1);
	return true;
}

void fs_give(struct op *op, struct inode *inode)
{
	op_hold(op, inode);
	inode_unref(inode);
}

static void expire_missing(struct inode *dir)
{
	struct missing missing = inode_take_missing(dir);

	for (struct missing_name *m = missing.first; m; m = m->next)
		notify_expire_entry(the_mount->notify, dir, m->name);
	missing_free(&missing);
}

int fs_verdict(struct inode *inode, int verdict)
{
	if (verdict < 0)
		return verdict;
	if (verdict == ATTR_FOREIGN && inode->type == NFS3_REG)
		notify_inval_inode(the_mount->notify, inode);
	else if (verdict == ATTR_FOREIGN && inode->type == NFS3_DIR)
		expire_missing(inode);
	return 0;
}

int fs_unasked(struct inode *inode, int verdict)
{
	if (verdict == ATTR_RIGHTS)
		notify_inval_attr(the_mount->notify, inode);
	return fs_verdict(inode, verdict);
}

int fs_take(struct op *op, struct inode *inode, const struct nfs3_post_attr *attr)
{
	return fs_unasked(inode, inode_take_post_attr(inode, attr, op->submitted_ns, lane_now(op->lane)));
}

int fs_changed(struct op *op, struct inode *inode, const struct nfs3_wcc *wcc)
{
	return fs_unasked(inode, inode_change_end(inode, wcc, op->submitted_ns, lane_now(op->lane)));
}

double fs_entry_timeout(struct inode *dir, bool negative)
{
	uint32_t mode = the_mount->opts->lookupcache;

	if (mode == LOOKUPCACHE_NONE || (negative && mode != LOOKUPCACHE_ALL))
		return 0;
	return (double)inode_names_valid_ns(dir, fs_clock()) / NS_PER_S;
}

void fs_fill_entry(struct inode *dir, struct inode *inode, struct fuse_entry_param *entry)
{
	uint64_t valid_ns = 0;

	*entry = (struct fuse_entry_param){.ino = inode_number(inode), .generation = inode->generation};
	inode_told(inode);
	inode_stat(inode, fs_clock(), &entry->attr, &valid_ns);
	entry->attr_timeout = (double)valid_ns / NS_PER_S;
	entry->entry_timeout = fs_entry_timeout(dir, false);
}

/* ORDER: counted before the reply leaves, for the kernel may forget it on another lane at once. */
void fs_reply_entry(struct op *op, struct inode *dir, struct inode *inode)
{
	struct fuse_entry_param entry;

	fs_fill_entry(dir, inode, &entry);
	inode_remember(inode);
	if (op_reply_entry(op, &entry))
		inode_forget(inode, 1);
}

void fs_reply_attr(struct op *op, struct inode *inode)
{
	struct stat st;
	uint64_t valid_ns;

	inode_told(inode);
	if (!inode_stat(inode, fs_clock(), &st, &valid_ns))
		op_reply_err(op, -EIO);
	else
		op_reply_attr(op, &st, (double)valid_ns / NS_PER_S);
}

struct nfs3_sattr fs_mode_only(mode_t mode)
{
	return (struct nfs3_sattr){.set_mode = true, .mode = mode & 07777};
}

/* ---- from a reply to an inode ---- */

static void found(struct op *op, const struct nfs3_attr *attr)
{
	struct fs_entry *entry = op_state(op, struct fs_entry);
	enum attr_verdict verdict;
	struct inode *inode = inode_get(the_mount->inodes, &entry->fh, attr, op->submitted_ns,
					lane_now(op->lane), &verdict);

	if (!inode) {
		entry->found(op, -ENOMEM, NULL);
		return;
	}
	fs_verdict(inode, verdict);
	fs_give(op, inode);
	entry->found(op, 0, inode);
}

static void on_getattr(struct op *op, int err, struct xdr_reader *results)
{
	struct fs_entry *entry = op_state(op, struct fs_entry);
	struct nfs3_attr_res res;

	if (!err)
		err = nfs3_getattr_verdict(results, &res);
	if (err)
		entry->found(op, err, NULL);
	else
		found(op, &res.attr);
}

static void on_lookup(struct op *op, int err, struct xdr_reader *results)
{
	struct fs_entry *entry = op_state(op, struct fs_entry);
	struct nfs3_lookup_res res;

	if (!err)
		err = nfs3_decode_lookup(results, &res);
	if (err) {
		entry->found(op, err, NULL);
		return;
	}
	err = fs_take(op, entry->dir, &res.dir_attr);
	if (!err)
		err = nfs3_errno(res.status);
	if (err) {
		entry->found(op, err, NULL);
		return;
	}
	struct nfs3_post_fh fh = {.present = true, .fh = res.fh};

	fs_entry_resolve(op, &fh, &res.attr);
}

void fs_entry_lookup(struct op *op)
{
	struct fs_entry *entry = op_state(op, struct fs_entry);

	op_rpc(op, NFSPROC3_LOOKUP, op_cred(op),
	       &(struct nfs3_dirop){.dir = &entry->dir->fh, .name = entry->name}, on_lookup);
}

void fs_entry_resolve(struct op *op, const struct nfs3_post_fh *fh, const struct nfs3_post_attr *attr)
{
	struct fs_entry *entry = op_state(op, struct fs_entry);

	if (!fh->present) {
		fs_entry_lookup(op);
		return;
	}
	entry->fh = fh->fh;
	if (attr->present)
		found(op, &attr->attr);
	else
		op_rpc(op, NFSPROC3_GETATTR, op_cred(op), &entry->fh, on_getattr);
}
