/* SPDX-License-Identifier: MIT
 *
 * POSIX ACLs in their two forms: the entries of NFSACL version 3 (program 100227, as Solaris and Linux have
 * it), and the extended attributes system.posix_acl_access and system.posix_acl_default
 * (linux/posix_acl_xattr.h). Pure.
 *
 * What differs: on the wire a minimal ACL has a fourth entry, a mask that repeats the owning group's
 * permissions; the entries are in any order; owner and owning group are named by their ids; a default ACL's
 * types have a bit more. In an extended attribute entries are in order of type and id.
 */
#ifndef EXPORTD_ACL_H
#define EXPORTD_ACL_H

#include "nfs3.h"

#include <linux/posix_acl.h>
#include <linux/posix_acl_xattr.h>

struct acl {
	uint32_t len;
	struct acl_entry {
		uint16_t tag, perm; /* ACL_USER_OBJ …; ACL_READ … */
		uint32_t id;	    /* of ACL_USER and ACL_GROUP */
	} entries[ACL_ENTRIES_MAX];
};

#define ACL_XATTR_MAX_BYTES                                                                                  \
	(sizeof(struct posix_acl_xattr_header) + ACL_ENTRIES_MAX * sizeof(struct posix_acl_xattr_entry))

/* From the wire. False: types or permissions that there are not. Whether it makes sense as a whole is the
 * kernel's to say. */
bool acl_from_wire(const struct nfs3_acl *wire, struct acl *acl);
/* Count and array of GETACL's result. `more` is added to types; with_entries: else the count alone. */
void acl_put(struct xdr_writer *w, const struct acl *acl, bool with_entries, uint32_t more, uint32_t uid,
	     uint32_t gid);

/* What getxattr(2) gave. False: of another kind, or too long. */
bool acl_from_xattr(const void *value, size_t len_bytes, struct acl *acl);
/* Bytes. */
size_t acl_to_xattr(const struct acl *acl, uint8_t value[ACL_XATTR_MAX_BYTES]);

/* What permission bits alone say. */
void acl_from_mode(uint32_t mode, struct acl *acl);

#endif
