/* SPDX-License-Identifier: MIT
 *
 * What the operations on names, attributes and directories share: inodes of a request, replies' attributes on
 * their way into the cache and to the kernel, and the way from what a server says of a new or found file to
 * the entry that the kernel is given.
 *
 * On a lane, from FUSE operations and their callbacks only.
 */
#ifndef FS_ENTRY_H
#define FS_ENTRY_H

#include "inode.h"
#include "mount.h"
#include "nfs3.h"
#include "op.h"

#include <stdbool.h>

uint64_t fs_clock(void); /* CLOCK_MONOTONIC ns, read now: for inode_change_end() */

/* The inode that a request names, held by the op. */
struct inode *fs_inode(struct op *op, fuse_ino_t ino);
/* The same for the directory of a name. NULL: it may not be entered (another file system of the server's),
 * and the op has been answered. */
struct inode *fs_dir(struct op *op, fuse_ino_t ino);
/* False: a directory that may not be entered; the first time it says so in the log. */
bool fs_may_enter(struct inode *dir);
/* Copies a name. False: it is too long, and the op has been answered. */
bool fs_copy_name(struct op *op, char copy[NFS3_NAME_MAX + 1], const char *name);
/* Gives the op a reference that the caller has. */
void fs_give(struct op *op, struct inode *inode);

/* What came of attributes: tells the kernel when others have changed a file's contents. Returns 0
 * or -ESTALE. */
int fs_verdict(struct inode *inode, int verdict);
/* The same for attributes that the kernel has not asked for: it is told of another mode or owner, too. */
int fs_unasked(struct inode *inode, int verdict);
/* post_op_attr and wcc_data of the op's latest RPC. */
int fs_take(struct op *op, struct inode *inode, const struct nfs3_post_attr *attr);
int fs_changed(struct op *op, struct inode *inode, const struct nfs3_wcc *wcc); /* NULL: unknown */

/* How long the kernel may believe a name in this directory, or that there is none. */
double fs_entry_timeout(struct inode *dir, bool negative);
void fs_fill_entry(struct inode *dir, struct inode *inode, struct fuse_entry_param *entry);
/* Ends the op. */
void fs_reply_entry(struct op *op, struct inode *dir, struct inode *inode);
void fs_reply_attr(struct op *op, struct inode *inode);

/*
 * From a reply to an inode. The handle of a new object, or a found one's attributes, may be missing: then
 * they are asked for, LOOKUP by name or GETATTR by handle. In the end `found` is called with the inode, held
 * by the op, or with an error.
 *
 * An operation that uses it has a struct fs_entry at the beginning of its state.
 */
typedef void fs_found_fn(struct op *op, int err, struct inode *inode);
struct fs_entry {
	char name[NFS3_NAME_MAX + 1];
	struct inode *dir;
	struct nfs3_fh fh;
	fs_found_fn *found;
};
void fs_entry_resolve(struct op *op, const struct nfs3_post_fh *fh, const struct nfs3_post_attr *attr);
/* Starts with LOOKUP of entry->name in entry->dir; -ENOENT when there is none. */
void fs_entry_lookup(struct op *op);

/* sattr3 of a new object's mode; and dev_t. */
struct nfs3_sattr fs_mode_only(mode_t mode);

#endif
