/* SPDX-License-Identifier: MIT
 *
 * Who asks: AUTH_SYS credentials (RFC 5531 appendix A) and the supplementary groups of a calling thread.
 *
 * A credential is canonical: its groups are sorted, without duplicates and without the primary group (which
 * the server knows anyway). Two callers with equal rights therefore have equal credentials, and whoever
 * interns them needs only cred_hash() and cred_equal(). AUTH_SYS carries 16 groups; of a caller in more, the
 * 16 with the lowest numbers go, beside the primary one. That is defined behaviour: such a caller may be
 * refused what only a higher-numbered group gives, and never gets too much.
 *
 * The credential's body is encoded once, when it is made, and copied into each call.
 */
#ifndef CRED_H
#define CRED_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define CRED_GIDS_MAX 16u
#define CRED_MACHINE_MAX 64u /* longer host names are cut: servers do not look at it */
/* stamp, machine name, uid, gid, count and groups; RFC 5531 allows 400 */
#define CRED_BODY_MAX (4 + (4 + CRED_MACHINE_MAX) + 4 + 4 + (4 + 4 * CRED_GIDS_MAX))
static_assert(CRED_BODY_MAX == 148, "credential body");

struct cred {
	uint32_t uid;
	uint32_t gid;
	uint32_t ngids;
	uint32_t gids[CRED_GIDS_MAX]; /* ascending, no duplicates, without gid */
	uint32_t body_len;
	uint8_t body[CRED_BODY_MAX]; /* the XDR of authsys_parms: what follows flavor and length */
};

/* Fills a credential. gids: any order, any number (lent for the call). machine: NULL for none. */
void cred_init(struct cred *cred, const char *machine, uint32_t uid, uint32_t gid, const uint32_t *gids,
	       size_t ngids);

/* Over uid, gid and groups; the machine name does not count: there is one per mount. */
uint64_t cred_hash(const struct cred *cred);
bool cred_equal(const struct cred *a, const struct cred *b);

/*
 * Collects a canonical group list one number at a time: at most CRED_GIDS_MAX, the lowest ones, never `gid`.
 */
struct cred_groups {
	uint32_t gid;
	uint32_t n;
	uint32_t gids[CRED_GIDS_MAX];
};
void cred_groups_add(struct cred_groups *groups, uint32_t gid);

/*
 * Reads the groups of a thread from the text of /proc/TID/status in fd ("Groups:" line of any length). 0,
 * -ENODATA when it has no such line, or read's error; groups is complete only on 0.
 */
int cred_groups_read(int fd, struct cred_groups *groups);

/*
 * The credential of the thread that sent a FUSE request. proc_fd: a descriptor of /proc (tests give another
 * directory). tid 0 (the kernel itself, or a process of another PID namespace) has no supplementary groups,
 * nor has a thread that is gone: less rights, never more. Always succeeds.
 *
 * Nothing is remembered: a thread may call setgroups() at any time, and to see that it is still the same
 * thread costs as much as to read its groups (some 30 us). So it is nothing for a READ or WRITE.
 */
void cred_of_caller(int proc_fd, const char *machine, pid_t tid, uint32_t uid, uint32_t gid,
		    struct cred *cred);

#endif
