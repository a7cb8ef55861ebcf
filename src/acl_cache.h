/* SPDX-License-Identifier: MIT
 *
 * What the server's GETACL said of one file. A pure type but for its memory: the inode's lock is the
 * caller's, time is an argument.
 *
 * An answer is believed for as long as the file's attributes are (attr.h), and its ctime, mode, owner and
 * group are still those that came with the answer. A change of ours whose reply tells that it found that
 * ctime moves it on: a file that is made in a directory changes the directory's ctime, but not its ACLs.
 * (SETACL's does not tell; acl_cache_drop().)
 */
#ifndef ACL_CACHE_H
#define ACL_CACHE_H

#include "acl.h"
#include "attr.h"

struct acl_kept; /* both ACLs, and the attributes that came with them */

struct acl_cache {
	struct acl_kept *kept; /* NULL: nothing is known */
};

/* Remembers an answer, or without memory nothing. attr: what came with it. */
void acl_cache_store(struct acl_cache *cache, const struct nfs3_attr *attr, const struct acl *access,
		     const struct acl *dflt);
/* True when the answer is known, which it then copies. */
bool acl_cache_known(const struct acl_cache *cache, const struct attr_cache *attr, uint64_t now_ns,
		     struct acl *access, struct acl *dflt);
/* A call of ours that leaves ACLs as they are has changed the file. */
void acl_cache_moved(struct acl_cache *cache, const struct nfs3_wcc *wcc);
void acl_cache_drop(struct acl_cache *cache);

#endif
