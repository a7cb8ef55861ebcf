/* SPDX-License-Identifier: MIT */
#include "acl_cache.h"

#include <stdlib.h>
#include <string.h>

struct acl_kept {
	struct nfs3_time ctime; /* of the file, as are these */
	uint32_t mode, owner, group;
	uint32_t naccess, ndflt;
	struct acl_entry entries[]; /* of both, in this order */
};

void acl_cache_drop(struct acl_cache *cache)
{
	free(cache->kept);
	cache->kept = NULL;
}

void acl_cache_store(struct acl_cache *cache, const struct nfs3_attr *attr, const struct acl *access,
		     const struct acl *dflt)
{
	size_t access_bytes = access->count * sizeof access->entries[0];
	size_t dflt_bytes = dflt->count * sizeof dflt->entries[0];

	acl_cache_drop(cache);
	struct acl_kept *kept = malloc(sizeof *kept + access_bytes + dflt_bytes);

	if (!kept)
		return;
	*kept = (struct acl_kept){.ctime = attr->ctime,
				  .mode = attr->mode,
				  .owner = attr->uid,
				  .group = attr->gid,
				  .naccess = access->count,
				  .ndflt = dflt->count};
	memcpy(kept->entries, access->entries, access_bytes);
	memcpy(kept->entries + access->count, dflt->entries, dflt_bytes);
	cache->kept = kept;
}

static bool same_rights(const struct acl_kept *kept, const struct nfs3_attr *attr)
{
	return kept->mode == attr->mode && kept->owner == attr->uid && kept->group == attr->gid;
}

bool acl_cache_known(const struct acl_cache *cache, const struct attr_cache *attr, uint64_t now_ns,
		     struct acl *access, struct acl *dflt)
{
	const struct acl_kept *kept = cache->kept;

	if (!kept || !attr_valid_ns(attr, now_ns) || !same_rights(kept, &attr->attr) ||
	    nfs3_time_cmp(kept->ctime, attr->attr.ctime) != 0)
		return false;
	access->count = kept->naccess;
	dflt->count = kept->ndflt;
	memcpy(access->entries, kept->entries, kept->naccess * sizeof kept->entries[0]);
	memcpy(dflt->entries, kept->entries + kept->naccess, kept->ndflt * sizeof kept->entries[0]);
	return true;
}

/* Another mode, owner or group is found out by acl_cache_known(). */
void acl_cache_moved(struct acl_cache *cache, const struct nfs3_wcc *wcc)
{
	struct acl_kept *kept = cache->kept;

	if (kept && wcc->before.present && wcc->after.present &&
	    nfs3_time_cmp(kept->ctime, wcc->before.ctime) == 0)
		kept->ctime = wcc->after.attr.ctime;
}
