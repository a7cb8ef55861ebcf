/* SPDX-License-Identifier: MIT */
#include "acl.h"

static bool get_entry(struct xdr_reader *r, struct acl_entry *e)
{
	uint32_t tag = xdr_u32(r) & ~(uint32_t)NFSACL_DEFAULT, id = xdr_u32(r), perm = xdr_u32(r);
	bool named = tag == ACL_USER || tag == ACL_GROUP;
	switch (tag) {
	case ACL_MASK:
		perm &= ACL_READ | ACL_WRITE | ACL_EXECUTE; /* Solaris sets more there */
		break;
	case ACL_USER_OBJ:
	case ACL_USER:
	case ACL_GROUP_OBJ:
	case ACL_GROUP:
	case ACL_OTHER:
		break;
	default:
		return false;
	}
	*e = (struct acl_entry){
		.tag = (uint16_t)tag, .perm = (uint16_t)perm, .id = named ? id : (uint32_t)ACL_UNDEFINED_ID};
	return perm <= (ACL_READ | ACL_WRITE | ACL_EXECUTE);
}

static bool is_before(const struct acl_entry *a, const struct acl_entry *b)
{
	return a->tag != b->tag ? a->tag < b->tag : a->id < b->id;
}

/* By insertion: what comes is in order as a rule. */
static void insert(struct acl *acl, const struct acl_entry *e)
{
	uint32_t at = acl->len++;
	for (; at > 0 && is_before(e, &acl->entries[at - 1]); at--)
		acl->entries[at] = acl->entries[at - 1];
	acl->entries[at] = *e;
}

/* In order now: USER_OBJ, GROUP_OBJ, MASK, OTHER. */
static void drop_repeated_mask(struct acl *acl)
{
	struct acl_entry *e = acl->entries;
	if (acl->len != 4 || e[1].tag != ACL_GROUP_OBJ || e[2].tag != ACL_MASK || e[1].perm != e[2].perm)
		return;
	e[2] = e[3];
	acl->len = 3;
}

bool acl_from_wire(const struct nfs3_acl *wire, struct acl *acl)
{
	struct xdr_reader r = xdr_reader(wire->entries, (size_t)wire->len * NFSACL_ENTRY_BYTES);
	acl->len = 0;
	for (uint32_t i = 0; i < wire->len; i++) {
		struct acl_entry e;
		if (!get_entry(&r, &e))
			return false;
		insert(acl, &e);
	}
	drop_repeated_mask(acl);
	return true;
}

static uint32_t wire_id(const struct acl_entry *e, uint32_t uid, uint32_t gid)
{
	switch (e->tag) {
	case ACL_USER_OBJ:
		return uid;
	case ACL_GROUP_OBJ:
		return gid;
	case ACL_USER:
	case ACL_GROUP:
		return e->id;
	default:
		return 0;
	}
}

static void put_entry(struct xdr_writer *w, const struct acl_entry *e, uint32_t more, uint32_t id)
{
	xdr_put_u32(w, e->tag | more);
	xdr_put_u32(w, id);
	xdr_put_u32(w, e->perm);
}

void acl_put(struct xdr_writer *w, const struct acl *acl, bool with_entries, uint32_t more, uint32_t uid,
	     uint32_t gid)
{
	uint32_t repeated_mask = acl->len == 3;
	xdr_put_u32(w, acl->len + repeated_mask);
	xdr_put_u32(w, with_entries ? acl->len + repeated_mask : 0);
	for (uint32_t i = 0; with_entries && i < acl->len; i++) {
		const struct acl_entry *e = &acl->entries[i];
		put_entry(w, e, more, wire_id(e, uid, gid));
		if (repeated_mask && e->tag == ACL_GROUP_OBJ)
			put_entry(w, &(struct acl_entry){.tag = ACL_MASK, .perm = e->perm}, more, 0);
	}
}

bool acl_from_xattr(const void *value, size_t len_bytes, struct acl *acl)
{
	struct posix_acl_xattr_header head;
	struct posix_acl_xattr_entry e;
	const uint8_t *at = value;
	if (len_bytes < sizeof head || len_bytes > ACL_XATTR_MAX_BYTES ||
	    (len_bytes - sizeof head) % sizeof e)
		return false;
	memcpy(&head, at, sizeof head);
	if (le32toh(head.a_version) != POSIX_ACL_XATTR_VERSION)
		return false;
	acl->len = (uint32_t)((len_bytes - sizeof head) / sizeof e);
	at += sizeof head;
	for (uint32_t i = 0; i < acl->len; i++, at += sizeof e) {
		memcpy(&e, at, sizeof e);
		acl->entries[i] = (struct acl_entry){
			.tag = le16toh(e.e_tag), .perm = le16toh(e.e_perm), .id = le32toh(e.e_id)};
	}
	return true;
}

size_t acl_to_xattr(const struct acl *acl, uint8_t value[ACL_XATTR_MAX_BYTES])
{
	struct posix_acl_xattr_header head = {.a_version = htole32(POSIX_ACL_XATTR_VERSION)};
	uint8_t *at = value;
	memcpy(at, &head, sizeof head);
	at += sizeof head;
	for (uint32_t i = 0; i < acl->len; i++) {
		const struct acl_entry *from = &acl->entries[i];
		struct posix_acl_xattr_entry e = {.e_tag = htole16(from->tag),
						  .e_perm = htole16(from->perm),
						  .e_id = htole32(from->id)};
		memcpy(at, &e, sizeof e);
		at += sizeof e;
	}
	return (size_t)(at - value);
}

void acl_from_mode(uint32_t mode, struct acl *acl)
{
	static const uint16_t tags[] = {ACL_USER_OBJ, ACL_GROUP_OBJ, ACL_OTHER};
	acl->len = 3;
	for (int i = 0; i < 3; i++)
		acl->entries[i] = (struct acl_entry){.tag = tags[i],
						     .perm = (uint16_t)(mode >> (6 - 3 * i) & 07),
						     .id = (uint32_t)ACL_UNDEFINED_ID};
}
