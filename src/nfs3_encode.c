/* SPDX-License-Identifier: MIT
 *
 * NFSv3 calls, by libnfs's codecs.
 *
 * What was tried out about those encoders (4.0.0): they never allocate. They check words and counted opaques
 * against the end of the buffer, but not opaques of fixed length, the verifiers: fits() does, before. And
 * they overrun the end by up to three bytes when they pad the last opaque and the size is no multiple of
 * four: the size that they are told is rounded down. Our side also checks what they do not, the lengths of
 * handles and names and the ranges of enumerations.
 */
#include <sys/time.h> /* libnfs 4.0.0's header uses timeval without it */

#include <nfsc/libnfs-zdr.h>

#include <nfsc/libnfs-raw-nfs.h>

#include "cred.h"
#include "nfs3.h"
#include "rpcmsg.h"
#include "xdr.h"

#include <errno.h>
#include <limits.h>

static_assert(NFS3_CRED_BODY_MAX == CRED_BODY_MAX, "NFS3_CALL_MAX would be too short");
static_assert(NFS3_FH_MAX == NFS3_FHSIZE && NFS3_VERF_SIZE == NFS3_WRITEVERFSIZE, "same protocol");

const struct nfs3_proc_info nfs3_procs[NFSPROC3_COUNT] = {
#define X(number, NAME, name, args, reply, payload, idempotent)                                              \
	[number] = {#NAME, reply, payload, idempotent},
	ALL_PROCS(X)
#undef X
};

uint32_t nfs3_reply_max(enum nfs3_proc proc, uint32_t variable_bytes)
{
	return NFS3_W_RPC_REPLY + nfs3_procs[proc].reply_bytes + variable_bytes + xdr_pad(variable_bytes);
}

/* ---- from our plain structures to libnfs's; the encoders only read through the pointers that they are lent
 * ---- */

static int put(bool_t fitted)
{
	return fitted ? 0 : -EMSGSIZE;
}

static bool fits(const ZDR *z, int len_bytes)
{
	return z->size - z->pos >= len_bytes;
}

static int put_fh(ZDR *z, const struct nfs3_fh *fh)
{
	if (fh->len == 0 || fh->len > NFS3_FH_MAX)
		return -EINVAL;
	nfs_fh3 h = {.data = {.data_len = fh->len, .data_val = (char *)fh->data}};
	return put(zdr_nfs_fh3(z, &h));
}

static int put_dirop(ZDR *z, const struct nfs3_dirop *dirop)
{
	size_t len = strnlen(dirop->name, NFS3_NAME_MAX + 1);
	if (len == 0)
		return -EINVAL;
	if (len > NFS3_NAME_MAX)
		return -ENAMETOOLONG;
	int err = put_fh(z, dirop->dir);
	if (err)
		return err;
	filename3 name = (char *)dirop->name;
	return put(zdr_filename3(z, &name));
}

static nfstime3 to_time(struct nfs3_time t)
{
	return (nfstime3){.seconds = t.sec, .nseconds = t.nsec};
}

static int to_sattr(const struct nfs3_sattr *s, sattr3 *out)
{
	if (s->atime_how > NFS3_TIME_CLIENT || s->mtime_how > NFS3_TIME_CLIENT)
		return -EINVAL;
	*out = (sattr3){
		.mode = {.set_it = s->set_mode, .set_mode3_u.mode = s->mode},
		.uid = {.set_it = s->set_uid, .set_uid3_u.uid = s->uid},
		.gid = {.set_it = s->set_gid, .set_gid3_u.gid = s->gid},
		.size = {.set_it = s->set_size, .set_size3_u.size = s->size},
		.atime = {.set_it = (time_how)s->atime_how, .set_atime_u.atime = to_time(s->atime)},
		.mtime = {.set_it = (time_how)s->mtime_how, .set_mtime_u.mtime = to_time(s->mtime)},
	};
	return 0;
}

static int put_sattr(ZDR *z, const struct nfs3_sattr *s)
{
	sattr3 attr;
	int err = to_sattr(s, &attr);
	return err ? err : put(zdr_sattr3(z, &attr));
}

/* ---- one encoder per argument list ---- */

static int put_void(ZDR *z, const void *args)
{
	return 0;
}

static int put_fh_only(ZDR *z, const void *args)
{
	return put_fh(z, args);
}

static int put_dirop_only(ZDR *z, const void *args)
{
	return put_dirop(z, args);
}

static int put_setattr(ZDR *z, const void *args)
{
	const struct nfs3_setattr_args *a = args;
	int err = put_fh(z, a->object);
	if (!err)
		err = put_sattr(z, &a->attr);
	if (err)
		return err;
	sattrguard3 guard = {.check = a->guard, .sattrguard3_u.obj_ctime = to_time(a->guard_ctime)};
	return put(zdr_sattrguard3(z, &guard));
}

static int put_access(ZDR *z, const void *args)
{
	const struct nfs3_access_args *a = args;
	uint32_t access = a->access;
	int err = put_fh(z, a->object);
	return err ? err : put(zdr_u_int(z, &access));
}

static int put_read(ZDR *z, const void *args)
{
	const struct nfs3_read_args *a = args;
	offset3 offset = a->offset;
	count3 count = a->count;
	if (count > NFS3_COUNT_MAX)
		return -EINVAL;
	int err = put_fh(z, a->file);
	return err ? err : put(zdr_offset3(z, &offset) && zdr_count3(z, &count));
}

/* Up to and including the length word of the opaque data: the payload follows by its own way. */
static int put_write(ZDR *z, const void *args)
{
	const struct nfs3_write_args *a = args;
	offset3 offset = a->offset;
	count3 count = a->count;
	stable_how stable = (stable_how)a->stable;
	u_int data_len = a->count;
	if (count > NFS3_COUNT_MAX || a->stable > NFS3_FILE_SYNC)
		return -EINVAL;
	int err = put_fh(z, a->file);
	if (err)
		return err;
	return put(zdr_offset3(z, &offset) && zdr_count3(z, &count) && zdr_stable_how(z, &stable) &&
		   zdr_u_int(z, &data_len));
}

static int put_create(ZDR *z, const void *args)
{
	const struct nfs3_create_args *a = args;
	createhow3 how = {.mode = (createmode3)a->mode};
	int err = 0;
	if (a->mode == NFS3_EXCLUSIVE)
		memcpy(how.createhow3_u.verf, a->verf, NFS3_VERF_SIZE);
	else if (a->mode == NFS3_GUARDED)
		err = to_sattr(&a->attr, &how.createhow3_u.g_obj_attributes);
	else if (a->mode == NFS3_UNCHECKED)
		err = to_sattr(&a->attr, &how.createhow3_u.obj_attributes);
	else
		return -EINVAL;
	if (!err)
		err = put_dirop(z, &a->where);
	if (err)
		return err;
	return put(fits(z, 4 + NFS3_VERF_SIZE) && zdr_createhow3(z, &how)); /* attributes are no shorter */
}

static int put_mkdir(ZDR *z, const void *args)
{
	const struct nfs3_mkdir_args *a = args;
	int err = put_dirop(z, &a->where);
	return err ? err : put_sattr(z, &a->attr);
}

/* Up to and including the length word of the path, as for WRITE. */
static int put_symlink(ZDR *z, const void *args)
{
	const struct nfs3_symlink_args *a = args;
	u_int path_len = a->path_len;
	if (path_len == 0 || path_len > NFS3_PATH_MAX)
		return -EINVAL;
	int err = put_dirop(z, &a->where);
	if (!err)
		err = put_sattr(z, &a->attr);
	return err ? err : put(zdr_u_int(z, &path_len));
}

static int put_mknod(ZDR *z, const void *args)
{
	const struct nfs3_mknod_args *a = args;
	mknoddata3 what = {.type = (ftype3)a->type};
	devicedata3 *device = &what.mknoddata3_u.chr_device; /* one layout for both kinds of device */
	int err;
	if (a->type == NFS3_CHR || a->type == NFS3_BLK) {
		err = to_sattr(&a->attr, &device->dev_attributes);
		device->spec = (specdata3){.specdata1 = a->major, .specdata2 = a->minor};
	} else if (a->type == NFS3_SOCK || a->type == NFS3_FIFO) {
		err = to_sattr(&a->attr, &what.mknoddata3_u.pipe_attributes);
	} else {
		return -EINVAL;
	}
	if (!err)
		err = put_dirop(z, &a->where);
	return err ? err : put(zdr_mknoddata3(z, &what));
}

static int put_rename(ZDR *z, const void *args)
{
	const struct nfs3_rename_args *a = args;
	int err = put_dirop(z, &a->from);
	return err ? err : put_dirop(z, &a->to);
}

static int put_link(ZDR *z, const void *args)
{
	const struct nfs3_link_args *a = args;
	int err = put_fh(z, a->file);
	return err ? err : put_dirop(z, &a->link);
}

static int put_cookie(ZDR *z, uint64_t cookie, const uint8_t *verf)
{
	cookieverf3 v;
	memcpy(v, verf, sizeof v);
	return put(zdr_cookie3(z, &cookie) && fits(z, NFS3_VERF_SIZE) && zdr_cookieverf3(z, v));
}

static int put_readdir(ZDR *z, const void *args)
{
	const struct nfs3_readdir_args *a = args;
	count3 count = a->count;
	int err = put_fh(z, a->dir);
	if (!err)
		err = put_cookie(z, a->cookie, a->verf);
	return err ? err : put(zdr_count3(z, &count));
}

static int put_readdirplus(ZDR *z, const void *args)
{
	const struct nfs3_readdirplus_args *a = args;
	count3 dircount = a->dircount, maxcount = a->maxcount;
	int err = put_fh(z, a->dir);
	if (!err)
		err = put_cookie(z, a->cookie, a->verf);
	return err ? err : put(zdr_count3(z, &dircount) && zdr_count3(z, &maxcount));
}

static int put_commit(ZDR *z, const void *args)
{
	const struct nfs3_commit_args *a = args;
	offset3 offset = a->offset;
	count3 count = a->count;
	int err = put_fh(z, a->file);
	return err ? err : put(zdr_offset3(z, &offset) && zdr_count3(z, &count));
}

static int put_getacl(ZDR *z, const void *args)
{
	const struct nfs3_getacl_args *a = args;
	u_int mask = a->mask;
	int err = put_fh(z, a->object);
	return err ? err : put(zdr_u_int(z, &mask));
}

static u_int wire_id(const struct nfs3_setacl_args *a, const struct acl_entry *e)
{
	switch (e->tag) {
	case ACL_TAG_USER_OBJ:
		return a->owner;
	case ACL_TAG_GROUP_OBJ:
		return a->group;
	case ACL_TAG_USER:
	case ACL_TAG_GROUP:
		return e->id;
	default:
		return 0;
	}
}

/* To libnfs's entries, with the mask that the wire wants; how many there are. */
static u_int to_aces(const struct nfs3_setacl_args *a, const struct acl *acl, u_int more, nfsacl_ace *aces)
{
	u_int n = 0;
	for (uint32_t i = 0; i < acl->count; i++) {
		const struct acl_entry *e = &acl->entries[i];
		aces[n++] = (nfsacl_ace){
			.type = (nfsacl_type)(e->tag | more), .id = wire_id(a, e), .perm = e->perm};
		if (acl->count == 3 && e->tag == ACL_TAG_GROUP_OBJ)
			aces[n++] = (nfsacl_ace){.type = (nfsacl_type)(ACL_TAG_MASK | more), .perm = e->perm};
	}
	return n;
}

static int put_setacl(ZDR *z, const void *args)
{
	const struct nfs3_setacl_args *a = args;
	nfsacl_ace access[ACL_ENTRIES_MAX + 1], dflt[ACL_ENTRIES_MAX + 1];
	SETACL3args s = {.mask = NFS3_ACL_ACCESS | (a->dflt ? NFS3_ACL_DEFAULT : 0)};
	if (a->object->len == 0 || a->object->len > NFS3_FH_MAX || !acl_valid(a->access) ||
	    (a->dflt && a->dflt->count && !acl_valid(a->dflt)))
		return -EINVAL;
	s.dir.data.data_len = a->object->len;
	s.dir.data.data_val = (char *)a->object->data;
	s.ace_count = s.ace.ace_len = to_aces(a, a->access, 0, access);
	s.ace.ace_val = access;
	if (a->dflt)
		s.default_ace_count = s.default_ace.default_ace_len =
			to_aces(a, a->dflt, NFSACL_TYPE_DEFAULT, dflt);
	s.default_ace.default_ace_val = dflt;
	return put(zdr_SETACL3args(z, &s));
}

static int (*const put_args[NFSPROC3_COUNT])(ZDR *, const void *) = {
	[NFSPROC3_NULL] = put_void,	    [NFSPROC3_GETATTR] = put_fh_only,
	[NFSPROC3_SETATTR] = put_setattr,   [NFSPROC3_LOOKUP] = put_dirop_only,
	[NFSPROC3_ACCESS] = put_access,	    [NFSPROC3_READLINK] = put_fh_only,
	[NFSPROC3_READ] = put_read,	    [NFSPROC3_WRITE] = put_write,
	[NFSPROC3_CREATE] = put_create,	    [NFSPROC3_MKDIR] = put_mkdir,
	[NFSPROC3_SYMLINK] = put_symlink,   [NFSPROC3_MKNOD] = put_mknod,
	[NFSPROC3_REMOVE] = put_dirop_only, [NFSPROC3_RMDIR] = put_dirop_only,
	[NFSPROC3_RENAME] = put_rename,	    [NFSPROC3_LINK] = put_link,
	[NFSPROC3_READDIR] = put_readdir,   [NFSPROC3_READDIRPLUS] = put_readdirplus,
	[NFSPROC3_FSSTAT] = put_fh_only,    [NFSPROC3_FSINFO] = put_fh_only,
	[NFSPROC3_PATHCONF] = put_fh_only,  [NFSPROC3_COMMIT] = put_commit,
	[NFSPROC3_GETACL] = put_getacl,	    [NFSPROC3_SETACL] = put_setacl,
};

int nfs3_encode(void *buf, size_t size_bytes, uint32_t xid, const struct cred *cred, enum nfs3_proc proc,
		const void *args)
{
	if ((unsigned)proc >= NFSPROC3_COUNT)
		return -EINVAL;
	size_t size = size_bytes > INT_MAX ? INT_MAX & ~3u : size_bytes & ~(size_t)3;

	struct xdr_writer w = xdr_writer(buf, size);
	if (nfs3_is_acl_proc(proc))
		rpcmsg_put_call(&w, xid, NFSACL_PROGRAM, NFSACL_VERSION, proc - NFSPROC3_COMMIT, cred);
	else
		rpcmsg_put_call(&w, xid, NFS3_PROGRAM, NFS3_VERSION, proc, cred);
	if (w.stuck)
		return -EMSGSIZE;

	ZDR z;
	zdrmem_create(&z, (char *)w.pos, (uint32_t)(size - xdr_written(&w)), ZDR_ENCODE);
	int err = put_args[proc](&z, args);
	return err ? err : (int)(xdr_written(&w) + zdr_getpos(&z));
}
