/* SPDX-License-Identifier: MIT
 *
 * What the server's ACCESS said about one file, per credential. A pure type: the inode's lock is the
 * caller's, time is an argument.
 *
 * An answer is believed for as long as the file's attributes are (attr.h), and its ctime, mode, owner and
 * group are still those that came with the answer: a chmod, chown or ACL change sets a new ctime, except
 * within the same tick of the server's clock, which is several milliseconds long.
 */
#ifndef ACCESS_H
#define ACCESS_H

#include "attr.h"
#include "cred.h"

#define ACCESS_SLOTS 4u /* credentials remembered per file; the oldest answer gives way */

struct access_cache {
	struct access_slot {
		uint32_t asked;	  /* NFS3_ACCESS_* bits that were asked for; 0: empty */
		uint32_t granted; /* of those */
		uint32_t uid, gid, ngids;
		uint32_t gids[CRED_GIDS_MAX];
		struct nfs3_time ctime; /* of the file, as are these */
		uint32_t mode, owner, group;
	} slots[ACCESS_SLOTS];
	unsigned int next;
};

/* What to ask the server for, for an access(2) mask (R_OK, W_OK, X_OK) on a file of that type. */
uint32_t access_wanted(enum nfs3_type type, int mask);

/* True when the answer to all of `wanted` is known; *granted has those of the wanted bits that are
 * allowed. */
bool access_known(const struct access_cache *cache, const struct attr_cache *attr, const struct cred *cred,
		  uint32_t wanted, uint64_t now_ns, uint32_t *granted);
/* Remembers an answer. attr: the attributes that came with it. */
void access_store(struct access_cache *cache, const struct nfs3_attr *attr, const struct cred *cred,
		  uint32_t asked, uint32_t granted);

#endif
