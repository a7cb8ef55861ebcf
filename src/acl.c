/* SPDX-License-Identifier: MIT */
#include "acl.h"

#include <assert.h>
#include <endian.h>
#include <errno.h>
#include <string.h>

#include <linux/posix_acl.h>
#include <linux/posix_acl_xattr.h>

static_assert(ACL_TAG_USER_OBJ == ACL_USER_OBJ && ACL_TAG_USER == ACL_USER &&
		      ACL_TAG_GROUP_OBJ == ACL_GROUP_OBJ && ACL_TAG_GROUP == ACL_GROUP &&
		      ACL_TAG_MASK == ACL_MASK && ACL_TAG_OTHER == ACL_OTHER,
	      "the kernel's numbers");

#define PERM_BITS 07u

void acl_copy(struct acl *to, const struct acl *from)
{
	to->count = from->count;
	memcpy(to->entries, from->entries, from->count * sizeof from->entries[0]);
}

static bool is_named(uint32_t tag)
{
	return tag == ACL_TAG_USER || tag == ACL_TAG_GROUP;
}

static bool is_tag(uint32_t tag)
{
	return tag != 0 && (tag & (tag - 1)) == 0 && tag <= ACL_TAG_OTHER;
}

static bool is_before(const struct acl_entry *a, const struct acl_entry *b)
{
	return a->tag != b->tag ? a->tag < b->tag : is_named(a->tag) && a->id < b->id;
}

bool acl_valid(const struct acl *acl)
{
	uint32_t once = 0, seen = 0;

	if (acl->count > ACL_ENTRIES_MAX)
		return false;
	for (uint32_t i = 0; i < acl->count; i++) {
		const struct acl_entry *e = &acl->entries[i];
		bool twice = (seen & e->tag) && !is_named(e->tag);

		if (!is_tag(e->tag) || e->perm > PERM_BITS || (is_named(e->tag) && e->id == ACL_NO_ID) ||
		    twice || (i > 0 && is_before(e, e - 1)))
			return false;
		seen |= e->tag;
	}
	once = ACL_TAG_USER_OBJ | ACL_TAG_GROUP_OBJ | ACL_TAG_OTHER;
	if (seen & (ACL_TAG_USER | ACL_TAG_GROUP))
		once |= ACL_TAG_MASK;
	return (seen & once) == once;
}

/* By insertion, for entries come in order as a rule; those with equal ids stay as they came. */
static void sort(struct acl *acl)
{
	for (uint32_t i = 1; i < acl->count; i++) {
		struct acl_entry e = acl->entries[i];
		uint32_t at = i;

		for (; at > 0 && is_before(&e, &acl->entries[at - 1]); at--)
			acl->entries[at] = acl->entries[at - 1];
		acl->entries[at] = e;
	}
}

/* In order, the four are USER_OBJ, GROUP_OBJ, MASK and OTHER, or there is no such mask. */
static void drop_repeated_mask(struct acl *acl)
{
	struct acl_entry *e = acl->entries;

	if (acl->count != 4 || e[1].tag != ACL_TAG_GROUP_OBJ || e[2].tag != ACL_TAG_MASK ||
	    e[1].perm != e[2].perm)
		return;
	e[2] = e[3];
	acl->count = 3;
}

bool acl_from_wire(struct acl *acl)
{
	for (uint32_t i = 0; i < acl->count; i++) {
		struct acl_entry *e = &acl->entries[i];

		if (!is_named(e->tag))
			e->id = ACL_NO_ID;
		if (e->tag == ACL_TAG_MASK) /* Solaris sets more bits there */
			e->perm &= PERM_BITS;
	}
	sort(acl);
	drop_repeated_mask(acl);
	return acl->count == 0 || acl_valid(acl);
}

uint32_t acl_wire_count(const struct acl *acl)
{
	return acl->count == 3 ? 4 : acl->count;
}

int acl_from_xattr(struct acl *acl, const void *value, size_t len_bytes)
{
	struct posix_acl_xattr_header head;
	struct posix_acl_xattr_entry e;
	const uint8_t *at = value;

	if (len_bytes < sizeof head || (len_bytes - sizeof head) % sizeof e)
		return -EINVAL;
	memcpy(&head, at, sizeof head);
	if (le32toh(head.a_version) != POSIX_ACL_XATTR_VERSION)
		return -EOPNOTSUPP;
	size_t count = (len_bytes - sizeof head) / sizeof e;
	if (count > ACL_ENTRIES_MAX)
		return -E2BIG;
	acl->count = (uint32_t)count;
	at += sizeof head;
	for (size_t i = 0; i < count; i++, at += sizeof e) {
		memcpy(&e, at, sizeof e);
		uint16_t tag = le16toh(e.e_tag);

		acl->entries[i] = (struct acl_entry){.tag = tag,
						     .perm = le16toh(e.e_perm),
						     .id = is_named(tag) ? le32toh(e.e_id) : ACL_NO_ID};
	}
	return count == 0 || acl_valid(acl) ? 0 : -EINVAL;
}

ssize_t acl_to_xattr(const struct acl *acl, void *value, size_t size_bytes)
{
	struct posix_acl_xattr_header head = {.a_version = htole32(POSIX_ACL_XATTR_VERSION)};
	size_t len = sizeof head + acl->count * sizeof(struct posix_acl_xattr_entry);
	uint8_t *at = value;

	if (!value)
		return (ssize_t)len;
	if (len > size_bytes)
		return -ERANGE;
	memcpy(at, &head, sizeof head);
	at += sizeof head;
	for (uint32_t i = 0; i < acl->count; i++) {
		const struct acl_entry *from = &acl->entries[i];
		struct posix_acl_xattr_entry e = {.e_tag = htole16(from->tag),
						  .e_perm = htole16(from->perm),
						  .e_id = htole32(from->id)};

		memcpy(at, &e, sizeof e);
		at += sizeof e;
	}
	return (ssize_t)len;
}

bool acl_is_mode(const struct acl *acl)
{
	return acl->count <= 3; /* a valid one */
}

void acl_of_mode(struct acl *acl, uint32_t mode)
{
	static const uint16_t tags[] = {ACL_TAG_USER_OBJ, ACL_TAG_GROUP_OBJ, ACL_TAG_OTHER};

	acl->count = 3;
	for (uint32_t i = 0; i < 3; i++)
		acl->entries[i] = (struct acl_entry){
			.tag = tags[i], .perm = (uint16_t)(mode >> (6 - 3 * i) & PERM_BITS), .id = ACL_NO_ID};
}

/* The mask is what the group bits stand for, where there is one. */
uint32_t acl_create_mode(const struct acl *dflt, uint32_t mode)
{
	uint32_t owner = PERM_BITS, group = PERM_BITS, mask = PERM_BITS, other = PERM_BITS;
	bool masked = false;

	for (uint32_t i = 0; i < dflt->count; i++) {
		const struct acl_entry *e = &dflt->entries[i];

		if (e->tag == ACL_TAG_USER_OBJ)
			owner = e->perm;
		else if (e->tag == ACL_TAG_GROUP_OBJ)
			group = e->perm;
		else if (e->tag == ACL_TAG_OTHER)
			other = e->perm;
		else if (e->tag == ACL_TAG_MASK) {
			mask = e->perm;
			masked = true;
		}
	}
	return mode & (~0777u | owner << 6 | (masked ? mask : group) << 3 | other);
}
