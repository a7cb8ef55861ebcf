/* SPDX-License-Identifier: MIT
 *
 * Whose rights the calling thread has on the file system. The kernel enforces them: fsuid, fsgid and
 * supplementary groups are per thread in Linux, and are set here by raw system calls, because glibc's
 * setgroups() would change every thread of the process.
 *
 * A thread begins as the server. While it is a caller whose uid is not 0 it has none of the capabilities that
 * override file permissions: the kernel takes them with the fsuid and gives them back.
 */
#ifndef EXPORTD_CRED_H
#define EXPORTD_CRED_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define AUTH_SYS_GROUPS_MAX 16
#define NOBODY_ID 65534

struct cred {
	uint32_t uid, gid;
	uint32_t groups_len;
	uint32_t groups[AUTH_SYS_GROUPS_MAX]; /* the rest is 0: equal credentials have equal bytes */
};

/* Once, before any thread: what this process may be. */
void cred_init(void);
/* False when the server is an ordinary user's: then it can only ever be that user. */
bool cred_can_switch(void);

/* root_squash: uid, gid and groups 0 become nobody. */
void cred_squash_root(struct cred *cred);
struct cred cred_nobody(void);

/* The thread has cred's rights from now on. -EACCES: an ordinary user's server cannot be somebody else. */
int cred_become(const struct cred *cred);

/* The server's rights for a short while, then what was before. Pairs nest. */
struct cred_hold {
	uid_t fsuid;
};
struct cred_hold cred_raise(void);
void cred_lower(struct cred_hold held);

#endif
