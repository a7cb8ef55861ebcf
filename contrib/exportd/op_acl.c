/* SPDX-License-Identifier: MIT
 *
 * Procedures of NFSACL. The file system below keeps the ACLs, and its kernel obeys them: in ACCESS, in every
 * open, and when something is made in a directory with a default ACL.
 */
#include "acl.h"
#include "op.h"

#include <errno.h>
#include <sys/xattr.h>

#define ACCESS_NAME "system.posix_acl_access"
#define DEFAULT_NAME "system.posix_acl_default"

/* 0 with acl->len 0: there is none, and there can be none. */
static int get_acl(const struct node *node, const char *name, struct acl *acl)
{
	char path[NODE_PATH_BYTES];
	uint8_t value[ACL_XATTR_MAX_BYTES];
	acl->len = 0;
	ssize_t len = getxattr(node_path(node, path), name, value, sizeof value);
	if (len < 0)
		return errno == ENODATA || errno == EOPNOTSUPP ? 0 : -errno;
	return acl_from_xattr(value, (size_t)len, acl) ? 0 : -EIO;
}

static int access_acl(const struct node *node, const struct stat *st, struct acl *acl)
{
	int err = get_acl(node, ACCESS_NAME, acl);
	if (!err && acl->len == 0)
		acl_from_mode(st->st_mode, acl);
	return err;
}

/* Status, attributes, mask, twice a count and an array. */
static bool reply_fits(const struct op *op, const struct acl *access, const struct acl *dflt)
{
	size_t entries = access->len + dflt->len + 2; /* a mask in each */
	return RPC_REPLY_HEAD_BYTES + 4 + 88 + 4 + 2 * 8 + entries * NFSACL_ENTRY_BYTES <=
	       op->call->reply_max_bytes;
}

enum nfs3_status op_getacl(struct op *op)
{
	struct acl access = {0}, dflt = {0};
	struct stat st;
	uint32_t mask = op->args.mask;
	if (mask & ~(uint32_t)NFSACL_MASK_ALL)
		return NFS3ERR_INVAL;
	int err = node_stat(op->obj, &st);
	if (!err && mask & (NFSACL_ACCESS | NFSACL_ACCESS_COUNT))
		err = access_acl(op->obj, &st, &access);
	if (!err && S_ISDIR(st.st_mode) && mask & (NFSACL_DFLT | NFSACL_DFLT_COUNT))
		err = get_acl(op->obj, DEFAULT_NAME, &dflt);
	if (err)
		return status_of(err);
	if (!reply_fits(op, &access, &dflt))
		return NFS3ERR_SERVERFAULT; /* the client made no room for it */
	xdr_put_u32(op->w, true);
	put_fattr(op->w, &st);
	xdr_put_u32(op->w, mask);
	acl_put(op->w, &access, mask & NFSACL_ACCESS, 0, st.st_uid, st.st_gid);
	acl_put(op->w, &dflt, mask & NFSACL_DFLT, NFSACL_DEFAULT, st.st_uid, st.st_gid);
	return NFS3_OK;
}

/* An empty one is taken away. */
static int set_acl(const struct node *node, const char *name, const struct acl *acl)
{
	char path[NODE_PATH_BYTES];
	uint8_t value[ACL_XATTR_MAX_BYTES];
	if (acl->len > 0)
		return setxattr(node_path(node, path), name, value, acl_to_xattr(acl, value), 0) < 0 ? -errno
												     : 0;
	if (removexattr(node_path(node, path), name) == 0 || errno == ENODATA)
		return 0;
	return -errno;
}

/* As the kernel's server has it: both are set, and what was not sent is taken away. */
enum nfs3_status op_setacl(struct op *op)
{
	struct acl access, dflt;
	if (!acl_from_wire(&op->args.acl, &access) || !acl_from_wire(&op->args.default_acl, &dflt))
		return NFS3ERR_INVAL;
	int err = set_acl(op->obj, ACCESS_NAME, &access);
	if (!err && S_ISDIR(op->obj->type))
		err = set_acl(op->obj, DEFAULT_NAME, &dflt);
	else if (!err && dflt.len > 0)
		err = -EACCES;
	node_files_close(op->obj);
	if (err)
		return status_of(err);
	put_post_op(op->w, op->obj);
	return NFS3_OK;
}
