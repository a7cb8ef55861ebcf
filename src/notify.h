/* SPDX-License-Identifier: MIT
 *
 * The notifier: one thread that is no lane and holds no lock of ours while it tells the kernel to drop what
 * it caches. From a lane that deadlocks: the kernel may wait, inside the notification, for a page or a
 * directory whose request that very lane would have to answer.
 *
 * Any thread may queue. A request for an inode that is queued already is the same request. Notifications are
 * hints about caches: one that cannot be queued or that the kernel refuses is dropped, and the time-outs that
 * were given with each reply bound how long the kernel believes the old.
 */
#ifndef NOTIFY_H
#define NOTIFY_H

#include <stdint.h>

struct fuse_session;
struct inode;
struct notify;

/* Starts the thread. begin, if not NULL, is called on it first (to give it a /dev/fuse descriptor).
 * -errno. */
int notify_start(struct fuse_session *session, void (*begin)(void *ctx), void *ctx, struct notify **notify);
/* Drops what is queued, waits for what the kernel is just being told, and ends the thread. The lanes must
 * still run. What is queued afterwards is dropped. NULL is fine. */
void notify_stop(struct notify *notify);
/* When nobody queues any more. NULL is fine. */
void notify_free(struct notify *notify);

/* The file's pages and attributes. notify NULL: not running (yet), nothing is done. */
void notify_inval_inode(struct notify *notify, struct inode *inode);
/* The same, and done(ctx) when the kernel has dropped them, with what was changed in its pages written first.
 * Always called, on any thread, perhaps at once: at the latest when the notifier stops, or when there is no
 * room for it (then nothing was dropped). */
void notify_inval_inode_then(struct notify *notify, struct inode *inode, void (*done)(void *ctx), void *ctx);
/* Its attributes only. */
void notify_inval_attr(struct notify *notify, struct inode *inode);
/* A name that is not there in a directory, as far as the kernel knows: it is to look it up again. Not before
 * mount->expires_names. */
void notify_expire_entry(struct notify *notify, struct inode *dir, const char *name);
/* A name in a directory. */
void notify_inval_entry(struct notify *notify, struct inode *dir, const char *name);

#endif
