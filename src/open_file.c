/* SPDX-License-Identifier: MIT
 *
 * Open files: OPEN, FLUSH, FSYNC, RELEASE.
 *
 * Close-to-open: OPEN asks the server for the attributes (with ACCESS as the caller, in one RPC), FLUSH
 * returns when what was written is stable. The kernel may keep its pages over an OPEN if nobody else has
 * changed the file since the last one.
 */
#include "data_priv.h"
#include "fs.h"
#include "fs_entry.h"
#include "mount.h"
#include "options.h"
#include "revalidate.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define OPEN_EXEC                                                                                            \
	0x20 /* the kernel's FMODE_EXEC: it comes with the flags of an open for execve(2) (Linux 6.18) */

/* ---- open_file ---- */

/* Of the whole mount. Shared by the lanes, which touch it at OPEN and RELEASE only. */
static LIST_HEAD(, open_file) open_files;
static unsigned int
	nopen_files; /* handles of the kernel's; some that it has given back live on in dirty data */
static bool watched; /* a lane's timer will look at them, see revalidate.h */
static uint64_t open_numbers;
static pthread_mutex_t open_files_lock = PTHREAD_MUTEX_INITIALIZER;

unsigned int data_open_files(void)
{
	pthread_mutex_lock(&open_files_lock);
	unsigned int n = nopen_files;
	pthread_mutex_unlock(&open_files_lock);
	return n;
}

bool data_still_open(void)
{
	pthread_mutex_lock(&open_files_lock);
	watched = nopen_files > 0;
	bool open = watched;
	pthread_mutex_unlock(&open_files_lock);
	return open;
}

/* Under the lock. */
static bool is_outdated(const struct open_file *file, uint64_t now_ns)
{
	struct inode *inode = file->inode;
	uint64_t asked_ns = inode->data.revalidated_ns;

	return (file->flags & O_ACCMODE) != O_WRONLY && inode_expired(inode, now_ns) &&
	       (!asked_ns || now_ns - asked_ns >= inode_limits(inode->table)->reg_min_ns);
}

unsigned int data_outdated_files(uint64_t now_ns, struct inode **files, unsigned int max, struct cred *cred)
{
	unsigned int n = 0;
	struct open_file *file;
	pthread_mutex_lock(&open_files_lock);
	LIST_FOREACH(file, &open_files, of_mount) {
		if (n == max)
			break;
		if (!is_outdated(file, now_ns))
			continue;
		file->inode->data.revalidated_ns = now_ns;
		files[n++] = inode_ref(file->inode);
		*cred = file->cred;
	}
	pthread_mutex_unlock(&open_files_lock);
	return n;
}

void data_forget_open_files(void)
{
	struct open_file *file;
	while ((file = LIST_FIRST(&open_files))) {
		LIST_REMOVE(file, of_mount);
		free(file);
	}
}

struct open_file *open_file_new(struct inode *inode, const struct cred *cred, int flags)
{
	struct open_file *file = calloc(1, sizeof *file);
	if (!file)
		return NULL;
	atomic_store(&file->refs, 1);
	inode_ref(inode);
	file->inode = inode;
	file->cred = *cred;
	file->flags = flags;
	pthread_mutex_lock(&inode->data.lock);
	file->errors_seen = inode->data.errors - (inode->data.errors && !inode->data.error_told);
	pthread_mutex_unlock(&inode->data.lock);
	atomic_fetch_add(&inode->data.opens, 1);
	pthread_mutex_lock(&open_files_lock);
	LIST_INSERT_HEAD(&open_files, file, of_mount);
	nopen_files++;
	bool first = !watched;
	watched = true;
	file->number = ++open_numbers;
	pthread_mutex_unlock(&open_files_lock);
	if (first)
		revalidate_start(lane_self());
	return file;
}

struct open_file *open_file_ref(struct open_file *file)
{
	atomic_fetch_add(&file->refs, 1);
	return file;
}

void open_file_unref(struct open_file *file)
{
	if (atomic_fetch_sub(&file->refs, 1) > 1)
		return;
	pthread_mutex_lock(&open_files_lock);
	LIST_REMOVE(file, of_mount);
	pthread_mutex_unlock(&open_files_lock);
	inode_unref(file->inode);
	free(file);
}

bool data_lost(struct file_data *fd, int err)
{
	if (err == -ESTALE && file_data_opens(fd) == 0)
		return false;
	fd->error = err;
	fd->errors++;
	fd->error_told = false;
	return true;
}

int data_error(struct open_file *file)
{
	struct file_data *fd = &file->inode->data;
	pthread_mutex_lock(&fd->lock);
	int err = file->errors_seen != fd->errors ? fd->error : 0;
	file->errors_seen = fd->errors;
	if (err)
		fd->error_told = true;
	pthread_mutex_unlock(&fd->lock);
	return err;
}

/* May the kernel keep its pages of this file? Not once after others have changed it: OPEN then drops them. */
static bool keep_pages(struct inode *inode)
{
	struct file_data *fd = &inode->data;
	uint64_t foreign = inode_foreign_changes(inode);
	pthread_mutex_lock(&fd->lock);
	bool keep = fd->pages_foreign == foreign;
	fd->pages_foreign = foreign;
	pthread_mutex_unlock(&fd->lock);
	return keep;
}

/* What the reply to OPEN and CREATE lets the kernel do. Who only reads has nothing to save at a close: no
 * FLUSH, unless it ends locks on the server. It would cost a round trip, and older kernels let it wait for
 * the writes of others to the same file, so that on a dead server a reader who was killed could not go (seen,
 * Linux 6.1 and 6.12). */
static void tell_kernel(const struct options *opts, struct inode *inode, struct fuse_file_info *fi)
{
	struct fuse_stats *stats = &lane_self()->stats->fuse;
	fi->keep_cache = keep_pages(inode);
	if (fi->keep_cache)
		stats->opens_kept++;
	else
		stats->opens_dropped++;
	fi->noflush = (fi->flags & O_ACCMODE) == O_RDONLY && !options_posix_locks_are_servers(opts);
}

static int open_with(const struct options *opts, struct inode *inode, const struct cred *cred,
		     struct fuse_file_info *fi)
{
	struct open_file *file = open_file_new(inode, cred, fi->flags);
	if (!file)
		return -ENOMEM;
	fi->fh = (uint64_t)(uintptr_t)file;
	tell_kernel(opts, inode, fi);
	return 0;
}

int data_open_created(struct op *op, struct inode *inode, const struct cred *cred, struct fuse_file_info *fi)
{
	return open_with(op->lane->mount->opts, inode, cred, fi);
}

/* The kernel's handle is gone. The caller holds the inode. True: it was the file's last. */
static bool close_handle(struct open_file *file)
{
	struct inode *inode = file->inode;
	open_file_unref(file);
	pthread_mutex_lock(&open_files_lock);
	nopen_files--;
	pthread_mutex_unlock(&open_files_lock);
	return atomic_fetch_sub(&inode->data.opens, 1) == 1;
}

void data_open_undo(struct fuse_file_info *fi)
{
	struct open_file *file = open_file_of(fi);
	struct inode *inode = file->inode;
	inode_ref(inode);
	if (close_handle(file))
		fs_last_close(inode);
	inode_unref(inode);
}

/* ---- OPEN ---- */

struct open_state {
	struct inode *inode;
	struct open_file *file;
	struct fuse_file_info fi;
};

/* The kernel takes no attributes from an OPEN. If others have changed the file, it would append at, and read
 * up to, the old size: -ESTALE makes it repeat the open with a LOOKUP, whose reply tells it. */
static void on_may_open(struct op *op, int err)
{
	struct open_state *s = op_state(op, struct open_state);
	if (!err && inode_kernel_is_behind(s->inode, op->tid))
		err = -ESTALE;
	if (err) {
		if (close_handle(s->file))
			fs_last_close(s->inode);
		op_reply_err(op, err);
		return;
	}
	struct fuse_file_info fi = s->fi; /* the op ends with its reply */
	fi.fh = (uint64_t)(uintptr_t)s->file;
	tell_kernel(op->lane->mount->opts, s->inode, &fi);
	if (op_reply_open(op, &fi))
		data_open_undo(&fi);
}

static uint32_t access_for(int flags)
{
	if (flags & OPEN_EXEC)
		return NFS3_ACCESS_EXECUTE;
	switch (flags & O_ACCMODE) {
	case O_RDONLY:
		return NFS3_ACCESS_READ;
	case O_WRONLY:
		return NFS3_ACCESS_MODIFY | NFS3_ACCESS_EXTEND;
	default:
		return NFS3_ACCESS_READ | NFS3_ACCESS_MODIFY | NFS3_ACCESS_EXTEND;
	}
}

static void on_settled(struct op *op)
{
	struct open_state *s = op_state(op, struct open_state);
	fs_may(op, s->inode, access_for(s->fi.flags), op->lane->mount->opts->cto, on_may_open);
}

/* A file that is being opened counts as open: whoever removes its name meanwhile keeps the file, see
 * fs_remove.c. */
void fs_open(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	struct op *op = op_begin(req);
	struct open_state *s = op_state(op, struct open_state);
	const struct cred *cred = op_cred(op);
	s->inode = op_hold(op, inode_of(the_mount->inodes, ino));
	s->fi = *fi;
	s->file = cred ? open_file_new(s->inode, cred, fi->flags) : NULL;
	if (!s->file) {
		op_reply_err(op, cred ? -ENOMEM : -EACCES);
		return;
	}
	op->run_to_end = true;
	fs_open_settle(op, on_settled);
}

/* ---- FLUSH, FSYNC, RELEASE ---- */

struct sync_state {
	struct open_file *file; /* referenced: its caller may be killed, and the kernel close it */
	uint64_t lock_owner;	/* FLUSH */
};

static void on_synced(struct op *op)
{
	struct open_file *file = op_state(op, struct sync_state)->file;
	op_reply_err(op, data_error(file));
	open_file_unref(file);
}

/* ORDER: what was written under a lock is with the server before others can have the lock. */
static void on_flushed(struct op *op)
{
	struct sync_state s = *op_state(op, struct sync_state);
	fs_flush_locks(op, s.file, s.lock_owner, true, data_error(s.file));
	open_file_unref(s.file);
}

static void sync_then(struct op *op, struct open_file *file, op_resume_fn *resume)
{
	struct inode *inode = op_hold(op, file->inode);
	op_state(op, struct sync_state)->file = open_file_ref(file);
	data_sync(op, inode, resume);
}

void fs_fsync(fuse_req_t req, fuse_ino_t ino, int datasync, struct fuse_file_info *fi)
{
	(void)ino, (void)datasync;
	sync_then(op_begin(req), open_file_of(fi), on_synced);
}

/* Is the caller on its way out? Then nobody hears an error, and a dead server must not keep it from going. A
 * thread that exits gives up its memory before its files, and /proc/TID/status then has no line about memory.
 * Not /proc/TID/stat, which would tell it plainly: its reader waits for an execve(2) of that thread to end,
 * and that may be waiting for our answer to this very request, because it closes the descriptors that are
 * marked close-on-exec (a deadlock: seen, Linux 6.18). */
static bool is_exiting(const struct op *op)
{
	char path[32], text[4096];
	snprintf(path, sizeof path, "%d/status", (int)op->tid);
	int fd = op->tid ? openat(op->lane->mount->proc_fd, path, O_RDONLY | O_CLOEXEC) : -1;
	if (fd < 0)
		return false;
	ssize_t n = read(fd, text, sizeof text - 1);
	close(fd);
	if (n <= 0)
		return false;
	text[n] = '\0';
	return !strstr(text, "\nVmSize:");
}

static bool needs_sync(const struct open_file *file)
{
	struct file_data *fd = &file->inode->data;
	pthread_mutex_lock(&fd->lock);
	bool needs = file->errors_seen != fd->errors || dirty_unanswered(&fd->dirty, UINT64_MAX) ||
		     !dirty_is_stable(&fd->dirty, fd->dirty.answers);
	pthread_mutex_unlock(&fd->lock);
	return needs;
}

void fs_flush(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	struct op *op = op_begin(req);
	struct open_file *file = open_file_of(fi);
	(void)ino;
	if ((file->flags & O_ACCMODE) == O_RDONLY || !needs_sync(file)) {
		fs_flush_locks(op, file, fi->lock_owner, true, 0);
	} else if (is_exiting(op)) {
		commit_want(op->lane, file->inode);
		fs_flush_locks(op, file, fi->lock_owner, false, 0);
	} else {
		op_state(op, struct sync_state)->lock_owner = fi->lock_owner;
		sync_then(op, file, on_flushed);
	}
}

void fs_release(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	struct op *op = op_begin(req);
	struct open_file *file = open_file_of(fi);
	struct inode *inode = op_hold(op, file->inode);
	(void)ino;
	fs_release_locks(file);
	if (close_handle(file))
		fs_last_close(inode);
	op_reply_err(op, 0);
}
