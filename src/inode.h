/* SPDX-License-Identifier: MIT
 *
 * Inodes: one per (fsid, fileid, handle) that the kernel or we ourselves know, shared by the lanes.
 *
 * This is what the data side needs; the name side owns the file and adds the rest (table, identity, attribute
 * cache).
 */
#ifndef INODE_H
#define INODE_H

#include "data.h"
#include "nfs3.h"

#include <stdbool.h>
#include <stdint.h>

struct inode {
	/* Never change after the inode was made: any lane may read them without a lock. */
	struct nfs3_fh fh;
	uint64_t fsid;
	uint64_t fileid;
	enum nfs3_type type;

	struct file_data data;
};

/* The inode of a node id that the kernel gave us (FUSE_ROOT_ID is the root). The kernel's lookups keep it
 * alive. */
struct inode *inode_of(uint64_t ino);
uint64_t inode_ino(const struct inode *inode); /* and back */

/* Any thread. The kernel's lookups are counted apart from these. */
struct inode *inode_ref(struct inode *inode);
void inode_unref(struct inode *inode);

/*
 * Attributes and the order of replies. inode_stamp() before a call is sent; the attributes that its reply
 * carries are taken only if no change of ours (inode_changed()) was answered in between: a reply that is
 * older than a later change is discarded.
 */
uint64_t inode_stamp(struct inode *inode);
void inode_update(struct inode *inode, const struct nfs3_attr *attr, uint64_t stamp, uint64_t now_ns);
/* The same with weak cache consistency data, of a change that we made ourselves (WRITE, COMMIT, SETATTR): if
 * the attributes before it are those we know, our page cache stays good, else others have changed the file.
 * Counts as a change. */
void inode_update_wcc(struct inode *inode, const struct nfs3_wcc *wcc, uint64_t stamp, uint64_t now_ns);
/* Attributes unknown from now on: a change of ours failed half-way, or its reply brought none. */
void inode_expire(struct inode *inode);

/* OPEN: may the kernel keep its pages of this file? False once after others have changed it; asking clears
 * that, since OPEN then drops the pages. */
bool inode_keep_pages(struct inode *inode);
uint64_t
inode_size(struct inode *inode); /* as reported: the server's, or the end of pending data if that is larger */

#endif
