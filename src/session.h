/* SPDX-License-Identifier: MIT
 *
 * The FUSE session: the table of operations, what we want of the kernel, mounting and unmounting. main()
 * calls it. Errors are one line for people in err.
 */
#ifndef SESSION_H
#define SESSION_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

struct nfs_mount;

#define SESSION_ERR_SIZE 1024
#define SESSION_OPTIONS_MAX (4 * PATH_MAX)

/* Is the mount point there, a directory, and not ours already? mountpoint: as given; path gets it absolute
 * and without symbolic links. -errno. */
int session_check_mountpoint(const char *mountpoint, const char *source, char *path, size_t path_size,
			     char *err);

/* The options of the mount as libfuse and the kernel get them, SESSION_OPTIONS_MAX bytes. */
void session_options(const struct nfs_mount *mount, char *list);

/* Mounts, and answers the kernel's first message (on lane 0, in the calling thread). -errno, with nothing
 * mounted. */
int session_mount(struct nfs_mount *mount, char *err);

/* Takes the mount away, also while it is in use (then what is open goes on until it is closed). */
void session_unmount(struct nfs_mount *mount);

/* Ends with an error whatever is in progress in the kernel: also a notification of ours that waits there,
 * which would keep this process from ending. Does what it can. */
void session_abort(struct nfs_mount *mount);

/* Has the kernel told a lane that the file system is no longer mounted? Then nobody waits for an answer. */
bool session_was_unmounted(const struct nfs_mount *mount);

/* After the lanes have ended. The descriptors are closed, and what was in progress in the kernel ends with
 * ENOTCONN. */
void session_destroy(struct nfs_mount *mount);

#endif
