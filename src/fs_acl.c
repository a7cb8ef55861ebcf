/* SPDX-License-Identifier: MIT
 *
 * POSIX ACLs: the extended attributes system.posix_acl_access and system.posix_acl_default, by NFSACL. There
 * are no others.
 *
 * Normal operation. The kernel has the ACLs of what it checks the permissions of (FUSE_CAP_POSIX_ACL), and
 * asks for them here as often as for the attributes; GETACL is sent only when the inode's answer is none or
 * too old (acl_cache.h). What refuses or grants in the end is the server's ACCESS, as without ACLs. SETACL
 * replaces both ACLs of a directory, so the one that is not meant is asked for first.
 *
 * A server that does not speak NFSACL. It is asked once, at the mount; ENOSYS then makes the kernel answer by
 * itself from the first request of each kind on. The same when it no longer speaks it later: the kernel then
 * checks the mode alone.
 */
#include "data.h"
#include "fs.h"
#include "fs_entry.h"
#include "log.h"
#include "setup_choice.h"
#include "xdr.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include <linux/xattr.h>

static void no_acls_any_more(void)
{
	if (atomic_exchange(&the_mount->acls, false))
		log_warning("%s: the server does not serve ACLs (NFSACL) any more: the mode counts",
			    the_mount->source);
}

/* ---- asking ---- */

static uint32_t mask_for(const struct inode *inode)
{
	uint32_t mask = NFS3_ACL_ACCESS | NFS3_ACL_ACCESS_COUNT;

	return inode->type == NFS3_DIR ? mask | NFS3_ACL_DEFAULT | NFS3_ACL_DEFAULT_COUNT : mask;
}

/* Of a reply's entries: a run of the arena is no larger than a payload. */
static uint32_t entries_max_bytes(void)
{
	uint32_t room = (uint32_t)setup_max_io(the_mount->opts) - 1024; /* a reply's head */

	return room < NFS3_W_ACLS ? room : NFS3_W_ACLS;
}

/* Some files may be on a file system that has none. */
static bool has_none(const struct nfs3_getacl_res *res)
{
	return res->status == NFS3ERR_NOTSUPP;
}

/* An access ACL that says no more than the mode is none to who asks for it. */
static void on_getacl(struct op *op, int err, struct xdr_reader *results)
{
	struct inode *inode = op->acls.inode;
	struct nfs3_getacl_res res;
	int verdict = ATTR_DISCARDED;

	if (err == -EOPNOTSUPP)
		no_acls_any_more();
	if (!err)
		err = nfs3_decode_getacl(results, mask_for(inode), &res);
	op_run_put(op);
	if (!err && res.attr.present)
		verdict = inode_take_attr(inode, &res.attr.attr, op->submitted_ns, lane_now(op->lane));
	if (!err)
		err = fs_unasked(inode, verdict);
	if (!err && !has_none(&res))
		err = nfs3_errno(res.status);
	if (err) {
		op->acls.then(op, err, NULL);
		return;
	}
	if (acl_is_mode(&res.access))
		res.access.count = 0;
	if (verdict != ATTR_DISCARDED)
		inode_acls_store(inode, &res.attr.attr, &res.access, &res.dflt);
	op->acls.then(op, 0, &res);
}

static void getacl_send(struct op *op)
{
	struct inode *inode = op->acls.inode;

	op->count = entries_max_bytes();
	op->reply = (struct iovec){op->run, op->run_bytes};
	op_rpc(op, NFSPROC3_GETACL, op_cred(op),
	       &(struct nfs3_getacl_args){.object = &inode->fh, .mask = mask_for(inode)}, on_getacl);
}

void fs_acls(struct op *op, struct inode *inode, bool fresh, fs_acls_fn *then)
{
	struct nfs3_getacl_res known;

	op->acls.then = then;
	op->acls.inode = inode;
	if (!atomic_load(&the_mount->acls))
		then(op, -EOPNOTSUPP, NULL);
	else if (!fresh && inode_acls_known(inode, fs_clock(), &known.access, &known.dflt))
		then(op, 0, &known);
	else
		op_run_get(op, nfs3_reply_max(NFSPROC3_GETACL, entries_max_bytes()), getacl_send);
}

/* ---- GETXATTR, LISTXATTR ---- */

struct xattr {
	struct inode *inode;
	bool dflt;
	size_t size; /* of the caller's buffer; 0: he wants to know how much it takes */
};

/* 0: one of ours. Else what becomes of a request for it. */
static int acl_named(const char *name, bool *dflt)
{
	if (!atomic_load(&the_mount->acls))
		return -ENOSYS;
	*dflt = strcmp(name, XATTR_NAME_POSIX_ACL_DEFAULT) == 0;
	return *dflt || strcmp(name, XATTR_NAME_POSIX_ACL_ACCESS) == 0 ? 0 : -EOPNOTSUPP;
}

/* EOPNOTSUPP from the kernel's own question would make it refuse everything. */
static int xattr_error(int err)
{
	return err == -EOPNOTSUPP && !atomic_load(&the_mount->acls) ? -ENOSYS : err;
}

static void reply_value(struct op *op, size_t size, const void *value, size_t len)
{
	if (size == 0)
		op_reply_xattr(op, len);
	else if (len > size)
		op_reply_err(op, -ERANGE);
	else
		op_reply_buf(op, value, len);
}

static void on_acl_to_get(struct op *op, int err, const struct nfs3_getacl_res *acls)
{
	struct xattr *x = op_state(op, struct xattr);
	char value[sizeof(uint32_t) + ACL_ENTRIES_MAX * sizeof(struct acl_entry)];
	const struct acl *acl = err ? NULL : x->dflt ? &acls->dflt : &acls->access;

	if (acl && acl->count == 0)
		err = -ENODATA;
	if (err)
		op_reply_err(op, xattr_error(err));
	else
		reply_value(op, x->size, value, (size_t)acl_to_xattr(acl, value, sizeof value));
}

static void fs_xattr(struct op *op, fuse_ino_t ino, bool dflt, size_t size, fs_acls_fn *then)
{
	struct xattr *x = op_state(op, struct xattr);

	x->inode = fs_inode(op, ino);
	x->dflt = dflt;
	x->size = size;
	if (x->inode->type == NFS3_LNK)
		op_reply_err(op, -EOPNOTSUPP);
	else
		fs_acls(op, x->inode, false, then);
}

void fs_getxattr(fuse_req_t req, fuse_ino_t ino, const char *name, size_t size)
{
	struct op *op = op_begin(req);
	bool dflt;
	int err = acl_named(name, &dflt);

	if (err)
		op_reply_err(op, err);
	else
		fs_xattr(op, ino, dflt, size, on_acl_to_get);
}

static void on_acls_to_list(struct op *op, int err, const struct nfs3_getacl_res *acls)
{
	struct xattr *x = op_state(op, struct xattr);
	char names[sizeof XATTR_NAME_POSIX_ACL_ACCESS + sizeof XATTR_NAME_POSIX_ACL_DEFAULT];
	size_t len = 0;

	if (err) {
		op_reply_err(op, xattr_error(err));
		return;
	}
	if (acls->access.count) {
		memcpy(names, XATTR_NAME_POSIX_ACL_ACCESS, sizeof XATTR_NAME_POSIX_ACL_ACCESS);
		len += sizeof XATTR_NAME_POSIX_ACL_ACCESS;
	}
	if (acls->dflt.count) {
		memcpy(names + len, XATTR_NAME_POSIX_ACL_DEFAULT, sizeof XATTR_NAME_POSIX_ACL_DEFAULT);
		len += sizeof XATTR_NAME_POSIX_ACL_DEFAULT;
	}
	reply_value(op, x->size, names, len);
}

/* A symbolic link has none. */
void fs_listxattr(fuse_req_t req, fuse_ino_t ino, size_t size)
{
	struct op *op = op_begin(req);

	if (!atomic_load(&the_mount->acls))
		op_reply_err(op, -ENOSYS);
	else if (inode_of(the_mount->inodes, ino)->type == NFS3_LNK)
		reply_value(op, size, "", 0);
	else
		fs_xattr(op, ino, false, size, on_acls_to_list);
}

/* ---- SETXATTR, REMOVEXATTR ---- */

struct setacl {
	struct inode *inode;
	bool dflt;
	struct acl *acl; /* the new one, owned; count 0: none */
};

static void setacl_end(struct op *op, int err)
{
	free(op_state(op, struct setacl)->acl);
	op_reply_err(op, err);
}

static void on_setacl(struct op *op, int err, struct xdr_reader *results)
{
	struct setacl *s = op_state(op, struct setacl);
	struct nfs3_setacl_res res;

	if (err == -EOPNOTSUPP)
		no_acls_any_more();
	if (err == -EMSGSIZE) /* was not sent: more entries than a call has room for */
		err = -E2BIG;
	if (!err)
		err = nfs3_decode_setacl(results, &res);
	struct nfs3_wcc wcc = {.after = err ? (struct nfs3_post_attr){.present = false} : res.attr};
	int stale = fs_changed(op, s->inode, &wcc);

	/* ORDER: what the reply's attributes have made of the caches is not what it did to the ACLs. */
	inode_rights_forget(s->inode);
	if (!err)
		err = nfs3_errno(res.status);
	setacl_end(op, err ? xattr_error(err) : stale);
}

/* acls: what is set now; of a regular file that gets a new one it is not needed. */
static void setacl_send(struct op *op, const struct nfs3_getacl_res *acls)
{
	struct setacl *s = op_state(op, struct setacl);
	struct acl from_mode;
	struct stat st = {0};
	uint64_t valid_ns;
	const struct acl *access = s->dflt ? &acls->access : s->acl;
	const struct acl *dflt = s->dflt ? s->acl : acls ? &acls->dflt : NULL;

	inode_stat(s->inode, fs_clock(), &st, &valid_ns);
	if (access->count == 0) {
		acl_of_mode(&from_mode, st.st_mode);
		access = &from_mode;
	}
	struct nfs3_setacl_args args = {.object = &s->inode->fh,
					.owner = st.st_uid,
					.group = st.st_gid,
					.access = access,
					.dflt = s->inode->type == NFS3_DIR ? dflt : NULL};

	inode_change_begin(s->inode);
	op_rpc(op, NFSPROC3_SETACL, op_cred(op), &args, on_setacl);
}

static void on_acls_to_set(struct op *op, int err, const struct nfs3_getacl_res *acls)
{
	if (err)
		setacl_end(op, xattr_error(err));
	else
		setacl_send(op, acls);
}

/* A directory's other ACL is sent with the new one; what takes an ACL away sends the mode as it is now. */
static void setacl_synced(struct op *op)
{
	struct setacl *s = op_state(op, struct setacl);

	if (s->inode->type == NFS3_DIR || s->acl->count == 0)
		fs_acls(op, s->inode, true, on_acls_to_set);
	else
		setacl_send(op, NULL);
}

/* Only a directory has a default ACL, and none is what all others have. */
static int setacl_refused(const struct setacl *s)
{
	if (s->inode->type == NFS3_LNK)
		return -EOPNOTSUPP;
	return s->dflt && s->inode->type != NFS3_DIR && s->acl->count > 0 ? -EACCES : 0;
}

/* value NULL: none. ORDER: data first, as for a change of the mode: see setattr_synced(). */
static void setacl(struct op *op, fuse_ino_t ino, const char *name, const void *value, size_t len)
{
	struct setacl *s = op_state(op, struct setacl);
	int err = acl_named(name, &s->dflt);

	if (err) {
		op_reply_err(op, err);
		return;
	}
	op->run_to_end = true;
	s->inode = fs_inode(op, ino);
	s->acl = malloc(sizeof *s->acl);
	if (!s->acl) {
		op_reply_err(op, -ENOMEM);
		return;
	}
	s->acl->count = 0;
	err = value ? acl_from_xattr(s->acl, value, len) : 0;
	if (!err)
		err = setacl_refused(s);
	if (err || (s->dflt && s->inode->type != NFS3_DIR))
		setacl_end(op, err);
	else if (s->inode->type == NFS3_REG)
		data_sync(op, s->inode, setacl_synced);
	else
		setacl_synced(op);
}

void fs_setxattr(fuse_req_t req, fuse_ino_t ino, const char *name, const char *value, size_t size, int flags)
{
	(void)flags; /* as in the kernel's file systems: an ACL is there, or is made */
	setacl(op_begin(req), ino, name, value, size);
}

void fs_removexattr(fuse_req_t req, fuse_ino_t ino, const char *name)
{
	setacl(op_begin(req), ino, name, NULL, 0);
}
