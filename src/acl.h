/* SPDX-License-Identifier: MIT
 *
 * POSIX ACLs in their forms: the entries that NFSACL version 3 carries (program 100227, as Solaris and Linux
 * have it), the extended attributes system.posix_acl_access and system.posix_acl_default that the kernel and
 * programs speak (linux/posix_acl_xattr.h), and permission bits. Pure: no state, no allocation.
 *
 * An ACL here is what the kernel takes for a valid one: entries in order of type and id (acl_valid()), and
 * none that only repeats others. On the wire entries may be in any order, and an ACL that says no more than
 * permission bits has four: a mask, too, that repeats the owning group's permissions.
 */
#ifndef ACL_H
#define ACL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define ACL_ENTRIES_MAX 1024u /* of one ACL: what servers give and take */

/* The types of linux/posix_acl.h and of NFSACL alike. */
enum acl_tag {
	ACL_TAG_USER_OBJ = 0x01,
	ACL_TAG_USER = 0x02,
	ACL_TAG_GROUP_OBJ = 0x04,
	ACL_TAG_GROUP = 0x08,
	ACL_TAG_MASK = 0x10,
	ACL_TAG_OTHER = 0x20,
};
#define ACL_NO_ID UINT32_MAX /* of entries that name nobody */

struct acl_entry {
	uint16_t tag;
	uint16_t perm; /* 4 read, 2 write, 1 execute */
	uint32_t id;
};

struct acl {
	uint32_t count; /* 0: there is none */
	struct acl_entry entries[ACL_ENTRIES_MAX];
};

/* Copies what is there, not the room for more. */
void acl_copy(struct acl *to, const struct acl *from);

/* One of each of USER_OBJ, GROUP_OBJ and OTHER, a mask if anybody is named, at most one, all in order,
 * permissions of three bits, ids that are some. An id may be named twice: the first counts, as in the kernel.
 */
bool acl_valid(const struct acl *acl);

/* Entries as they came, with tags that may be any: into order, ids of those who are named only, without a
 * mask that repeats. False: what is left is neither empty nor valid. */
bool acl_from_wire(struct acl *acl);
/* How many entries go on the wire: one more for an ACL of three. */
uint32_t acl_wire_count(const struct acl *acl);

/* From the value of an extended attribute: 0 (count 0: it says that there is none), -EINVAL, -EOPNOTSUPP for
 * another version, -E2BIG for more than ACL_ENTRIES_MAX. */
int acl_from_xattr(struct acl *acl, const void *value, size_t len_bytes);
/* Bytes of the value; it is written if value is not NULL: -ERANGE if it is longer than size_bytes. */
ssize_t acl_to_xattr(const struct acl *acl, void *value, size_t size_bytes);

/* Does it say no more than permission bits do? */
bool acl_is_mode(const struct acl *acl);
void acl_of_mode(struct acl *acl, uint32_t mode);
/* The mode of what is made with `mode` in a directory whose default ACL this is (acl(5), "object creation and
 * default ACLs"): no umask. Once more gives the same. */
uint32_t acl_create_mode(const struct acl *dflt, uint32_t mode);

#endif
