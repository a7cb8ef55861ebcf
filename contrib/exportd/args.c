/* SPDX-License-Identifier: MIT
 *
 * Arguments of the NFSv3 procedures. Names may be longer here than a name may be: that is
 * NFS3ERR_NAMETOOLONG, an answer, not a message that cannot be decoded.
 */
#include "nfs3.h"

#define NAME_DECODE_MAX_BYTES 65536

static void get_fh(struct xdr_reader *r, struct fh *fh)
{
	const uint8_t *p = xdr_opaque(r, FH_MAX_BYTES, &fh->len_bytes);
	if (p)
		memcpy(fh->bytes, p, fh->len_bytes);
}

static void get_name(struct xdr_reader *r, struct nfs3_name *name)
{
	name->bytes = xdr_opaque(r, NAME_DECODE_MAX_BYTES, &name->len_bytes);
}

static void get_dirop(struct xdr_reader *r, struct fh *fh, struct nfs3_name *name)
{
	get_fh(r, fh);
	get_name(r, name);
}

static uint32_t get_enum(struct xdr_reader *r, uint32_t max)
{
	uint32_t v = xdr_u32(r);
	if (v > max)
		r->stuck = true;
	return r->stuck ? 0 : v;
}

static void get_verf(struct xdr_reader *r, uint8_t verf[NFS3_VERF_BYTES])
{
	const uint8_t *p = xdr_bytes(r, NFS3_VERF_BYTES);
	if (p)
		memcpy(verf, p, NFS3_VERF_BYTES);
}

static struct nfs3_time get_time(struct xdr_reader *r)
{
	struct nfs3_time t;
	t.sec = xdr_u32(r);
	t.nsec = xdr_u32(r);
	return t;
}

static enum nfs3_time_how get_time_how(struct xdr_reader *r, struct nfs3_time *t)
{
	enum nfs3_time_how how = get_enum(r, SET_TO_CLIENT_TIME);
	if (how == SET_TO_CLIENT_TIME)
		*t = get_time(r);
	return how;
}

static void get_sattr(struct xdr_reader *r, struct nfs3_sattr *a)
{
	if ((a->set_mode = xdr_bool(r)))
		a->mode = xdr_u32(r);
	if ((a->set_uid = xdr_bool(r)))
		a->uid = xdr_u32(r);
	if ((a->set_gid = xdr_bool(r)))
		a->gid = xdr_u32(r);
	if ((a->set_size = xdr_bool(r)))
		a->size = xdr_u64(r);
	a->atime_how = get_time_how(r, &a->atime);
	a->mtime_how = get_time_how(r, &a->mtime);
}

/* An opaque whose bytes may have left the message by DDP; its length word never does. The rest of the message
 * then follows at once: neither bytes nor padding are in it. */
static void get_data(struct xdr_reader *r, const struct nfs3_ddp *ddp, uint32_t max_bytes,
		     struct nfs3_data *data)
{
	if (!ddp->data) {
		data->bytes = xdr_opaque(r, max_bytes, &data->len_bytes);
		return;
	}
	uint32_t len = xdr_u32(r);
	/* The chunk may carry the padding too (RFC 8166 §3.4.5.2). */
	if (r->stuck || len > max_bytes || len > ddp->data_len_bytes || r->pos != ddp->msg + ddp->data_pos) {
		r->stuck = true;
		return;
	}
	*data = (struct nfs3_data){.bytes = ddp->data, .len_bytes = len};
}

bool nfs3_decode_fh(struct xdr_reader *r, const struct nfs3_ddp *ddp, struct nfs3_args *args)
{
	get_fh(r, &args->fh);
	return xdr_ok(r);
}

bool nfs3_decode_setattr(struct xdr_reader *r, const struct nfs3_ddp *ddp, struct nfs3_args *args)
{
	get_fh(r, &args->fh);
	get_sattr(r, &args->attr);
	if ((args->guarded = xdr_bool(r)))
		args->guard = get_time(r);
	return xdr_ok(r);
}

bool nfs3_decode_dirop(struct xdr_reader *r, const struct nfs3_ddp *ddp, struct nfs3_args *args)
{
	get_dirop(r, &args->fh, &args->name);
	return xdr_ok(r);
}

bool nfs3_decode_access(struct xdr_reader *r, const struct nfs3_ddp *ddp, struct nfs3_args *args)
{
	get_fh(r, &args->fh);
	args->access = xdr_u32(r);
	return xdr_ok(r);
}

bool nfs3_decode_read(struct xdr_reader *r, const struct nfs3_ddp *ddp, struct nfs3_args *args)
{
	get_fh(r, &args->fh);
	args->offset = xdr_u64(r);
	args->count = xdr_u32(r);
	return xdr_ok(r);
}

bool nfs3_decode_write(struct xdr_reader *r, const struct nfs3_ddp *ddp, struct nfs3_args *args)
{
	get_fh(r, &args->fh);
	args->offset = xdr_u64(r);
	args->count = xdr_u32(r);
	args->stable = get_enum(r, FILE_SYNC);
	get_data(r, ddp, NFS3_IO_MAX_BYTES, &args->data);
	/* RFC 1813 §3.3.7: count is the length of data; more of it than there is cannot be written. */
	return xdr_ok(r) && args->count <= args->data.len_bytes;
}

bool nfs3_decode_create(struct xdr_reader *r, const struct nfs3_ddp *ddp, struct nfs3_args *args)
{
	get_dirop(r, &args->fh, &args->name);
	args->how = get_enum(r, EXCLUSIVE);
	if (args->how == EXCLUSIVE)
		get_verf(r, args->verf);
	else
		get_sattr(r, &args->attr);
	return xdr_ok(r);
}

bool nfs3_decode_mkdir(struct xdr_reader *r, const struct nfs3_ddp *ddp, struct nfs3_args *args)
{
	get_dirop(r, &args->fh, &args->name);
	get_sattr(r, &args->attr);
	return xdr_ok(r);
}

bool nfs3_decode_symlink(struct xdr_reader *r, const struct nfs3_ddp *ddp, struct nfs3_args *args)
{
	get_dirop(r, &args->fh, &args->name);
	get_sattr(r, &args->attr);
	get_data(r, ddp, NAME_DECODE_MAX_BYTES, &args->data);
	return xdr_ok(r);
}

bool nfs3_decode_mknod(struct xdr_reader *r, const struct nfs3_ddp *ddp, struct nfs3_args *args)
{
	get_dirop(r, &args->fh, &args->name);
	args->type = xdr_u32(r);
	switch (args->type) {
	case NF3BLK:
	case NF3CHR:
		get_sattr(r, &args->attr);
		args->major = xdr_u32(r);
		args->minor = xdr_u32(r);
		break;
	case NF3SOCK:
	case NF3FIFO:
		get_sattr(r, &args->attr);
		break;
	default: /* void: the procedure answers BADTYPE */
		break;
	}
	return xdr_ok(r);
}

bool nfs3_decode_rename(struct xdr_reader *r, const struct nfs3_ddp *ddp, struct nfs3_args *args)
{
	get_dirop(r, &args->fh, &args->name);
	get_dirop(r, &args->fh2, &args->name2);
	return xdr_ok(r);
}

bool nfs3_decode_link(struct xdr_reader *r, const struct nfs3_ddp *ddp, struct nfs3_args *args)
{
	get_fh(r, &args->fh);
	get_dirop(r, &args->fh2, &args->name);
	return xdr_ok(r);
}

bool nfs3_decode_readdir(struct xdr_reader *r, const struct nfs3_ddp *ddp, struct nfs3_args *args)
{
	get_fh(r, &args->fh);
	args->cookie = xdr_u64(r);
	get_verf(r, args->verf);
	args->count = xdr_u32(r);
	args->dircount = args->count;
	return xdr_ok(r);
}

bool nfs3_decode_readdirplus(struct xdr_reader *r, const struct nfs3_ddp *ddp, struct nfs3_args *args)
{
	get_fh(r, &args->fh);
	args->cookie = xdr_u64(r);
	get_verf(r, args->verf);
	args->dircount = xdr_u32(r);
	args->count = xdr_u32(r);
	return xdr_ok(r);
}

bool nfs3_decode_commit(struct xdr_reader *r, const struct nfs3_ddp *ddp, struct nfs3_args *args)
{
	get_fh(r, &args->fh);
	args->offset = xdr_u64(r);
	args->count = xdr_u32(r);
	return xdr_ok(r);
}

bool nfs3_decode_getacl(struct xdr_reader *r, const struct nfs3_ddp *ddp, struct nfs3_args *args)
{
	get_fh(r, &args->fh);
	args->mask = xdr_u32(r);
	return xdr_ok(r);
}

/* A count, and an array; which must agree where the array is what the call is about. */
static void get_acl(struct xdr_reader *r, bool meant, struct nfs3_acl *acl)
{
	uint32_t count = xdr_u32(r), len = xdr_u32(r);
	if (len > ACL_ENTRIES_MAX || (meant && count != len))
		r->stuck = true;
	const uint8_t *entries = xdr_bytes(r, (size_t)len * NFSACL_ENTRY_BYTES);
	if (entries && meant)
		*acl = (struct nfs3_acl){.entries = entries, .len = len};
}

bool nfs3_decode_setacl(struct xdr_reader *r, const struct nfs3_ddp *ddp, struct nfs3_args *args)
{
	get_fh(r, &args->fh);
	args->mask = xdr_u32(r);
	get_acl(r, args->mask & NFSACL_ACCESS, &args->acl);
	get_acl(r, args->mask & NFSACL_DFLT, &args->default_acl);
	return xdr_ok(r) && !(args->mask & ~(uint32_t)NFSACL_MASK_ALL);
}
