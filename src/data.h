/* SPDX-License-Identifier: MIT
 *
 * File data: what of a file's content is under way or not yet stable, its open files, and the order of its
 * WRITEs.
 *
 * Who calls it: the FUSE operations on data (data_*.c), and, for the functions below that say so, the
 * operations on names and attributes. struct file_data is embedded in each inode; its lock is short and
 * named: no RPC, no reply and no other lock is waited for while it is held.
 *
 * Ordering on one file (servers run RPCs in any order): never two overlapping WRITEs in flight; a SETATTR of
 * the size waits for all WRITEs and holds later ones back; what must be sent again because
 * the server's verifier changed never overwrites newer bytes.
 */
#ifndef DATA_H
#define DATA_H

#include "cred.h"
#include "file_data.h"
#include "op.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

struct inode;

/* An open file: what fuse_file_info.fh points to. It is the opener's identity for READ, WRITE, COMMIT and
 * SETATTR through the handle. Counted: the kernel's handle, each piece of dirty data, each op that uses it.
 */
struct open_file {
	atomic_uint refs;
	struct inode *inode; /* holds a reference */
	struct cred cred;    /* the opener's */
	uint64_t number;     /* unique in this mount */
	int flags;	     /* as opened: O_ACCMODE, O_APPEND, O_DSYNC, O_DIRECT … */
	LIST_ENTRY(open_file) of_mount;
	unsigned int errors_seen; /* of file_data.errors, told to who has this file open; under that lock */
};
/* NULL: out of memory. The reference it returns is the kernel's, dropped by fs_release(). */
struct open_file *open_file_new(struct inode *inode, const struct cred *cred, int flags);
struct open_file *open_file_ref(struct open_file *file);
void open_file_unref(struct open_file *file);
static inline struct open_file *open_file_of(const struct fuse_file_info *fi)
{
	return fi ? (struct open_file *)(uintptr_t)fi->fh : NULL;
}
/* For CREATE: sets fi->fh and the reply's flags (cache decisions) as OPEN does. 0 or -ENOMEM. */
int data_open_created(struct op *op, struct inode *inode, const struct cred *cred, struct fuse_file_info *fi);
/* The kernel did not take the reply that fi was for: there will be no RELEASE. */
void data_open_undo(struct fuse_file_info *fi);

/* Open files of the whole mount. 0: no name that is removed can be that of an open file, and nobody
 * need ask. */
unsigned int data_open_files(void);
/* For revalidate.h. Whether any file is open; after a no, revalidate_start() is called for the next one. */
bool data_still_open(void);
/* Files that are open for reading and whose attributes' time is over, at most `max`, each given with a
 * reference to the inode; not again within acregmin. *cred: of who has the last one open. */
unsigned int data_outdated_files(uint64_t now_ns, struct inode **files, unsigned int max, struct cred *cred);
/* Gives up: a line in the log for each file with data that is not stable. Their bytes. From any thread. */
uint64_t data_log_unsaved(void);
/* When all lanes have ended: frees what the kernel still had open; inodes are not touched any more. */
void data_forget_open_files(void);

/* ---- for the operations on attributes ---- */

/* Before a SETATTR of the size: waits for all WRITEs and holds back later ones, then calls resume (perhaps at
 * once). Those below the new size, too: what their answers say of the size would be taken for the newer word,
 * see attr_change_end(). The op runs to its end from here on. Pair with data_truncate_end(). */
void data_truncate_begin(struct op *op, struct inode *inode, op_resume_fn *resume);
/* After the SETATTR's reply, before the reply to the kernel. done: the server has cut or extended the file,
 * so what is kept beyond new_size will never be sent again. */
void data_truncate_end(struct op *op, struct inode *inode, uint64_t new_size, bool done);

/* Has the server yet to answer for anything that write(2) was answered for? */
bool data_unanswered(struct inode *inode);
/* Sends what is held back, then resumes when the server has answered for all that had been written when this
 * was called: it then says of the file's data, size and times what programs here expect. Perhaps at once. The
 * op runs to its end from here on. */
void data_drain(struct op *op, struct inode *inode, op_resume_fn *resume);

/* Makes the file's data stable, or finds out that it is lost, then resumes. For fsync and close, and whoever
 * needs the server's mtime to be final (a SETATTR). The op runs to its end from here on. */
void data_sync(struct op *op, struct inode *inode, op_resume_fn *resume);

/* Data of the file is lost (err: -errno) though write(2) has returned. Under the file's lock. False: the file
 * was removed and nobody has it open, so that it need not be saved. */
bool data_lost(struct file_data *fd, int err);
/* For fsync and close: 0 or the error that `file` has not been told of yet. As with other Linux file systems
 * each open file is told once, and one that is opened later too if nobody has been. */
int data_error(struct open_file *file);

#endif
