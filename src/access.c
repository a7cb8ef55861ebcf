/* SPDX-License-Identifier: MIT */
#include "access.h"

#include <string.h>
#include <unistd.h>

uint32_t access_wanted(enum nfs3_type type, int mask)
{
	bool dir = type == NFS3_DIR;
	uint32_t wanted = 0;

	if (mask & R_OK)
		wanted |= NFS3_ACCESS_READ;
	if (mask & W_OK)
		wanted |= NFS3_ACCESS_MODIFY | NFS3_ACCESS_EXTEND | (dir ? NFS3_ACCESS_DELETE : 0);
	if (mask & X_OK)
		wanted |= dir ? NFS3_ACCESS_LOOKUP : NFS3_ACCESS_EXECUTE;
	return wanted;
}

static bool same_caller(const struct access_slot *slot, const struct cred *cred)
{
	return slot->uid == cred->uid && slot->gid == cred->gid && slot->ngids == cred->ngids &&
	       memcmp(slot->gids, cred->gids, cred->ngids * sizeof cred->gids[0]) == 0;
}

static bool same_rights(const struct access_slot *slot, const struct nfs3_attr *attr)
{
	return nfs3_time_cmp(slot->ctime, attr->ctime) == 0 && slot->mode == attr->mode &&
	       slot->owner == attr->uid && slot->group == attr->gid;
}

bool access_known(const struct access_cache *cache, const struct attr_cache *attr, const struct cred *cred,
		  uint32_t wanted, uint64_t now_ns, uint32_t *granted)
{
	if (!attr_valid_ns(attr, now_ns))
		return false;
	for (unsigned int i = 0; i < ACCESS_SLOTS; i++) {
		const struct access_slot *slot = &cache->slots[i];

		if (slot->asked && (slot->asked & wanted) == wanted && same_caller(slot, cred) &&
		    same_rights(slot, &attr->attr)) {
			*granted = slot->granted & wanted;
			return true;
		}
	}
	return false;
}

static struct access_slot *slot_for(struct access_cache *cache, const struct cred *cred)
{
	for (unsigned int i = 0; i < ACCESS_SLOTS; i++)
		if (cache->slots[i].asked && same_caller(&cache->slots[i], cred))
			return &cache->slots[i];
	return &cache->slots[cache->next++ % ACCESS_SLOTS];
}

void access_store(struct access_cache *cache, const struct nfs3_attr *attr, const struct cred *cred,
		  uint32_t asked, uint32_t granted)
{
	if (!asked)
		return;
	struct access_slot *slot = slot_for(cache, cred);

	slot->asked = asked;
	slot->granted = granted & asked;
	slot->uid = cred->uid;
	slot->gid = cred->gid;
	slot->ngids = cred->ngids;
	memcpy(slot->gids, cred->gids, cred->ngids * sizeof cred->gids[0]);
	slot->ctime = attr->ctime;
	slot->mode = attr->mode;
	slot->owner = attr->uid;
	slot->group = attr->gid;
}
