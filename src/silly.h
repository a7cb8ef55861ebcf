/* SPDX-License-Identifier: MIT
 *
 * Silly rename: NFSv3 has no notion of an open file, so a file that is removed while it is open here gets
 * another name in the same directory instead, .nfs<fileid><counter>, and is removed under that name at its
 * last close, as whoever removed it. The names can be seen, as with other NFS clients.
 *
 * Ownership: between silly_attach() and the last close, a struct silly is its inode's (inode->silly, under
 * inode->lock); then it is the clean-up's. Whoever takes the pointer out cleans up: exactly one does.
 */
#ifndef SILLY_H
#define SILLY_H

#include "cred.h"
#include "lane.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct inode;

#define SILLY_PREFIX ".nfs"
#define SILLY_NAME_BYTES (4 + 16 + 8 + 1) /* prefix, fileid and counter in hexadecimal, NUL */

struct silly {
	struct inode *dir; /* holds a reference */
	char name[SILLY_NAME_BYTES];
	struct cred cred;	 /* who removed it */
	struct lane_timer timer; /* for the clean-up to come again when the lane has no op to spare */
	struct lane *lane;
	struct silly *next; /* silly_sweep() */
};

static inline void silly_name(char name[SILLY_NAME_BYTES], uint64_t fileid, uint32_t counter)
{
	snprintf(name, SILLY_NAME_BYTES, SILLY_PREFIX "%016" PRIx64 "%08" PRIx32, fileid, counter);
}

/* With a name that no silly rename of this mount has had, nor, in all likelihood, one of another client:
 * counters start at random. NULL: out of memory. */
struct silly *silly_new(struct inode *dir, uint64_t fileid, const struct cred *cred);
void silly_free(struct silly *silly);

/* The file has that name now. If it has been closed meanwhile, the clean-up starts. On a lane. */
void silly_attach(struct inode *inode, struct silly *silly);
/* Takes it back, if it is still there. */
struct silly *silly_detach(struct inode *inode);
/* At the end of the mount, when nothing can close a file any more: cleans up after all that were still open,
 * or whose close the kernel did not get round to telling. On a lane. */
void silly_sweep(struct lane *lane);
/* Whether it has one, and whether `name` is it. */
bool silly_has(struct inode *inode, const char *name, bool *same_name);

#endif
