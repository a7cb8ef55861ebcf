/* SPDX-License-Identifier: MIT
 *
 * The FUSE operations, as the one table in session.c lists them. Each runs on a lane, never blocks, and ends
 * in one op_reply_*().
 */
#ifndef FS_H
#define FS_H

#define FUSE_USE_VERSION 312
#include <fuse3/fuse_lowlevel.h>
#include <stdbool.h>

struct inode;
struct nfs3_getacl_res;
struct op;
struct open_file;

/* Names, attributes and directories. */
void fs_access(fuse_req_t req, fuse_ino_t ino, int mask);
void fs_create(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode, struct fuse_file_info *fi);
void fs_forget(fuse_req_t req, fuse_ino_t ino, uint64_t nlookup);
void fs_forget_multi(fuse_req_t req, size_t count, struct fuse_forget_data *forgets);
void fs_getattr(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi);
void fs_getxattr(fuse_req_t req, fuse_ino_t ino, const char *name, size_t size);
void fs_link(fuse_req_t req, fuse_ino_t ino, fuse_ino_t newparent, const char *newname);
void fs_listxattr(fuse_req_t req, fuse_ino_t ino, size_t size);
void fs_lookup(fuse_req_t req, fuse_ino_t parent, const char *name);
void fs_mkdir(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode);
void fs_mknod(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode, dev_t rdev);
void fs_opendir(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi);
void fs_readdir(fuse_req_t req, fuse_ino_t ino, size_t size, off_t off, struct fuse_file_info *fi);
void fs_readdirplus(fuse_req_t req, fuse_ino_t ino, size_t size, off_t off, struct fuse_file_info *fi);
void fs_readlink(fuse_req_t req, fuse_ino_t ino);
void fs_releasedir(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi);
void fs_removexattr(fuse_req_t req, fuse_ino_t ino, const char *name);
void fs_rename(fuse_req_t req, fuse_ino_t parent, const char *name, fuse_ino_t newparent, const char *newname,
	       unsigned int flags);
void fs_rmdir(fuse_req_t req, fuse_ino_t parent, const char *name);
void fs_setattr(fuse_req_t req, fuse_ino_t ino, struct stat *attr, int to_set, struct fuse_file_info *fi);
void fs_setxattr(fuse_req_t req, fuse_ino_t ino, const char *name, const char *value, size_t size, int flags);
void fs_statfs(fuse_req_t req, fuse_ino_t ino);
void fs_symlink(fuse_req_t req, const char *target, fuse_ino_t parent, const char *name);
void fs_unlink(fuse_req_t req, fuse_ino_t parent, const char *name);

/* File data. */
void fs_flush(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi);
void fs_flock(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi, int how);
void fs_fsync(fuse_req_t req, fuse_ino_t ino, int datasync, struct fuse_file_info *fi);
void fs_getlk(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi, struct flock *lock);
void fs_open(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi);
void fs_read(fuse_req_t req, fuse_ino_t ino, size_t size, off_t off, struct fuse_file_info *fi);
void fs_release(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi);
void fs_setlk(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi, struct flock *lock, int wait);
void fs_write(fuse_req_t req, fuse_ino_t ino, const char *buf, size_t size, off_t off,
	      struct fuse_file_info *fi);

/* Asked by the data side at OPEN (and by fs_access itself): may the op's caller do this (NFS3_ACCESS_* bits)
 * to the inode? Answered from the cache of that credential, or by ACCESS. fresh: the attributes must come
 * from the server now (close-to-open), which the same reply brings; a GETATTR when ACCESS was cached.
 * then(op, 0 or -errno; -EACCES when not) on the op's lane. */
void fs_may(struct op *op, struct inode *inode, uint32_t access, bool fresh,
	    void (*then)(struct op *op, int err));

/* Asked by who makes a name in a directory (and by the extended attributes): both ACLs of the inode, an
 * access ACL only if it says more than the mode. Answered from its cache, unless fresh, or by GETACL as the
 * caller. Uses op->run meanwhile. then(op, 0 or -errno, acls) on the op's lane, perhaps at once, acls lent
 * for it. -EOPNOTSUPP: the server has none. */
typedef void fs_acls_fn(struct op *op, int err, const struct nfs3_getacl_res *acls);
void fs_acls(struct op *op, struct inode *inode, bool fresh, fs_acls_fn *then);

/* Asked by the data side at OPEN, once its file counts as open: calls resume when no name is being removed
 * any more by somebody who did not see that (perhaps at once). The server knows then whether the file is
 * still there. The op must run to its end. */
void fs_open_settle(struct op *op, void (*resume)(struct op *op));

/* Asked by the data side: the last open_file of an inode is gone (on a lane). Cleans up its silly rename, if
 * it has one. */
void fs_last_close(struct inode *inode);

/* FLUSH, when the data is dealt with: unlocks on the server what the closing process holds of the file, as
 * fcntl(2) has it, and replies err. wait: when that is done; else at once. */
void fs_flush_locks(struct op *op, struct open_file *file, uint64_t lock_owner, bool wait, int err);
/* RELEASE: unlocks what was locked through this open file, as flock(2) has it and fcntl(2) of OFD locks. */
void fs_release_locks(struct open_file *file);

#endif
