/* SPDX-License-Identifier: MIT
 *
 * One mount: what its lanes share. Filled before the lanes start and read-only from then on, but for what its
 * comment says. Owned by main().
 */
#ifndef MOUNT_H
#define MOUNT_H

#include "nfs3.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct fuse_session;
struct inode;
struct inode_table;
struct lane;
struct nlm;
struct notify;
struct options;
struct stats_file;

#define MOUNT_LANES_MAX 16u /* rpcrdma_xid_lane() gives four bits of the XID to the lane */

struct nfs_mount {
	const struct options *opts;
	const char *source;	/* "server:/export", as given */
	const char *mountpoint; /* absolute */
	char machine[64];	/* for AUTH_SYS */
	int proc_fd;		/* /proc, opened before anything is mounted */
	bool by_root;		/* else only `owner`'s ids are ever sent, and others get EACCES */
	uid_t owner;

	/* What the server said. */
	struct nfs3_fh root_fh;
	struct nfs3_attr root_attr;   /* as of the mount */
	uint32_t rsize, wsize;	      /* bytes of one READ and WRITE: options, FSINFO and the arena agreed */
	uint32_t read_max, write_max; /* bytes of one RPC: less when the server takes less than a page */
	uint32_t dtsize;	      /* bytes of one READDIR(PLUS) reply to ask for at most */
	uint32_t name_max;
	uint64_t maxfilesize;
	atomic_bool acls; /* it serves NFSACL, and the option acl is on; ends for good once it says that it
			     does not */

	struct inode_table *inodes;
	bool expires_names;    /* the kernel can be told to look a name up again */
	struct notify *notify; /* the thread that may send notifications to the kernel; no lane may */
	struct nlm *nlm;       /* locks on the server; NULL: all locks are local */
	struct fuse_session *session;
	struct stats_file *stats;
	int unpublished;	 /* why there is no file for the counters (-errno), or 0 */
	bool ready;		 /* the kernel's INIT was answered */
	bool mounted;		 /* main's */
	unsigned int connection; /* the kernel's number of it, in /sys/fs/fuse/connections; 0: unknown */
	atomic_uint losses; /* of connections, all lanes: what was kept before may be lost with the server */
	int ended_fd;	    /* eventfd: /dev/fuse said that the file system is no longer mounted */
	unsigned int nlanes;
	struct lane *lanes[MOUNT_LANES_MAX];
};

/* There is one mount in a process; FUSE operations find it here. */
extern struct nfs_mount *the_mount;

#endif
