/* SPDX-License-Identifier: MIT
 *
 * NFSv3 replies, by our own bounded reader.
 *
 * Each decoder fills a result on its stack, asks once at the end whether everything was there and within its
 * limits, and only then hands it out. Refusals are decoded by the same path: their attributes come first or
 * alone.
 */
#include "nfs3.h"

#include "xdr.h"

#include <errno.h>

/* ---- statuses ---- */

int nfs3_errno(uint32_t status)
{
	switch (status) {
	case NFS3_OK:
		return 0;
	case NFS3ERR_PERM:
		return -EPERM;
	case NFS3ERR_NOENT:
		return -ENOENT;
	case NFS3ERR_NXIO:
		return -ENXIO;
	case NFS3ERR_ACCES:
		return -EACCES;
	case NFS3ERR_EXIST:
		return -EEXIST;
	case NFS3ERR_XDEV:
		return -EXDEV;
	case NFS3ERR_NODEV:
		return -ENODEV;
	case NFS3ERR_NOTDIR:
		return -ENOTDIR;
	case NFS3ERR_ISDIR:
		return -EISDIR;
	case NFS3ERR_INVAL:
		return -EINVAL;
	case NFS3ERR_FBIG:
		return -EFBIG;
	case NFS3ERR_NOSPC:
		return -ENOSPC;
	case NFS3ERR_ROFS:
		return -EROFS;
	case NFS3ERR_MLINK:
		return -EMLINK;
	case NFS3ERR_NAMETOOLONG:
		return -ENAMETOOLONG;
	case NFS3ERR_NOTEMPTY:
		return -ENOTEMPTY;
	case NFS3ERR_DQUOT:
		return -EDQUOT;
	case NFS3ERR_STALE:
	case NFS3ERR_BADHANDLE: /* we only send handles that the server gave us: it no longer knows them */
		return -ESTALE;
	case NFS3ERR_REMOTE:
		return -EREMOTE;
	case NFS3ERR_NOTSUPP:
	case NFS3ERR_BADTYPE: /* MKNOD of a type that the server does not have */
		return -EOPNOTSUPP;
	case NFS3ERR_SERVERFAULT: /* as the Linux client has it: the fault is not the network's */
		return -EREMOTEIO;
	case NFS3ERR_JUKEBOX:
		return -EAGAIN;
	default: /* IO; NOT_SYNC, BAD_COOKIE and TOOSMALL, which callers handle or never provoke; unknown ones
		  */
		return -EIO;
	}
}

/* ---- the RPC reply header, RFC 5531 section 9 ---- */

enum { RPC_REPLY = 1, RPC_ACCEPTED = 0, RPC_DENIED = 1, RPC_VERF_MAX = 400 };

static int accepted(struct xdr_reader *r)
{
	uint32_t verf_len;
	xdr_u32(r); /* flavor: our calls carry no verifier that the server could answer to */
	xdr_opaque(r, RPC_VERF_MAX, &verf_len);
	uint32_t stat = xdr_u32(r);
	if (!xdr_ok(r))
		return -EBADMSG;
	switch (stat) {
	case 0: /* SUCCESS */
		return 0;
	case 1: /* PROG_UNAVAIL */
	case 2: /* PROG_MISMATCH */
		return -EPROTONOSUPPORT;
	case 3: /* PROC_UNAVAIL */
		return -EOPNOTSUPP;
	case 4: /* GARBAGE_ARGS */
	case 5: /* SYSTEM_ERR */
		return -EIO;
	default:
		return -EBADMSG;
	}
}

static int denied(struct xdr_reader *r)
{
	uint32_t stat = xdr_u32(r);
	xdr_u32(r); /* auth_stat, or the lowest version that the server speaks */
	if (!xdr_ok(r) || stat > 1)
		return -EBADMSG;
	return stat == 1 /* AUTH_ERROR */ ? -EACCES : -EPROTONOSUPPORT;
}

int nfs3_reply_header(struct xdr_reader *r)
{
	xdr_u32(r); /* XID */
	uint32_t type = xdr_u32(r);
	uint32_t stat = xdr_u32(r);
	if (!xdr_ok(r) || type != RPC_REPLY)
		return -EBADMSG;
	if (stat == RPC_ACCEPTED)
		return accepted(r);
	return stat == RPC_DENIED ? denied(r) : -EBADMSG;
}

/* ---- pieces ---- */

static void stick_unless(struct xdr_reader *r, bool good)
{
	if (!good)
		r->stuck = true;
}

static struct nfs3_time get_time(struct xdr_reader *r)
{
	struct nfs3_time t = {.sec = xdr_u32(r)};
	t.nsec = xdr_u32(r);
	if (t.nsec >
	    999999999) /* a server's file system may hold nonsense; the file is readable all the same */
		t.nsec = 999999999;
	return t;
}

static void get_attr(struct xdr_reader *r, struct nfs3_attr *a)
{
	uint32_t type = xdr_u32(r);
	stick_unless(r, type >= NFS3_REG && type <= NFS3_FIFO);
	a->type = (enum nfs3_type)type;
	a->mode = xdr_u32(r) & 07777;
	a->nlink = xdr_u32(r);
	a->uid = xdr_u32(r);
	a->gid = xdr_u32(r);
	a->size = xdr_u64(r);
	a->used = xdr_u64(r);
	a->rdev_major = xdr_u32(r);
	a->rdev_minor = xdr_u32(r);
	a->fsid = xdr_u64(r);
	a->fileid = xdr_u64(r);
	a->atime = get_time(r);
	a->mtime = get_time(r);
	a->ctime = get_time(r);
}

static void get_post_attr(struct xdr_reader *r, struct nfs3_post_attr *p)
{
	p->present = xdr_bool(r);
	if (p->present)
		get_attr(r, &p->attr);
}

static void get_wcc(struct xdr_reader *r, struct nfs3_wcc *w)
{
	w->before.present = xdr_bool(r);
	if (w->before.present) {
		w->before.size = xdr_u64(r);
		w->before.mtime = get_time(r);
		w->before.ctime = get_time(r);
	}
	get_post_attr(r, &w->after);
}

static void get_fh(struct xdr_reader *r, struct nfs3_fh *fh)
{
	uint32_t len;
	const uint8_t *data = xdr_opaque(r, NFS3_FH_MAX, &len);
	stick_unless(r, len > 0);
	if (!xdr_ok(r))
		return;
	fh->len = len;
	memcpy(fh->data, data, len);
}

static void get_post_fh(struct xdr_reader *r, struct nfs3_post_fh *p)
{
	p->present = xdr_bool(r);
	if (p->present)
		get_fh(r, &p->fh);
}

static void get_verf(struct xdr_reader *r, uint8_t *verf)
{
	const uint8_t *p = xdr_bytes(r, NFS3_VERF_SIZE);
	if (p)
		memcpy(verf, p, NFS3_VERF_SIZE);
}

/*
 * Data that may have left the message by RDMA. Its length word stays; the bytes, and their padding, are here
 * or were placed, and both sides must agree on how many.
 */
static const uint8_t *get_payload(struct xdr_reader *r, uint32_t max_bytes, uint32_t placed_bytes,
				  uint32_t *len)
{
	if (placed_bytes == 0)
		return xdr_opaque(r, max_bytes, len);
	*len = xdr_u32(r);
	stick_unless(r, *len == placed_bytes && *len <= max_bytes);
	return NULL;
}

/* Outputs are written on success only. */
#define FINISH(r, res, out)                                                                                  \
	do {                                                                                                 \
		if (!xdr_ok(r))                                                                              \
			return -EBADMSG;                                                                     \
		*(out) = (res);                                                                              \
		return 0;                                                                                    \
	} while (0)

/* ---- one decoder per result ---- */

int nfs3_decode_getattr(struct xdr_reader *r, struct nfs3_attr_res *out)
{
	struct nfs3_attr_res res = {.status = xdr_u32(r)};
	if (res.status == NFS3_OK)
		get_attr(r, &res.attr);
	FINISH(r, res, out);
}

int nfs3_getattr_verdict(struct xdr_reader *r, struct nfs3_attr_res *res)
{
	int err = nfs3_decode_getattr(r, res);
	return err ? err : nfs3_errno(res->status);
}

static int decode_wcc_only(struct xdr_reader *r, struct nfs3_wcc_res *out)
{
	struct nfs3_wcc_res res = {.status = xdr_u32(r)};
	get_wcc(r, &res.wcc);
	FINISH(r, res, out);
}

int nfs3_decode_setattr(struct xdr_reader *r, struct nfs3_wcc_res *out)
{
	return decode_wcc_only(r, out);
}

int nfs3_decode_remove(struct xdr_reader *r, struct nfs3_wcc_res *out)
{
	return decode_wcc_only(r, out);
}

int nfs3_decode_lookup(struct xdr_reader *r, struct nfs3_lookup_res *out)
{
	struct nfs3_lookup_res res = {.status = xdr_u32(r)};
	if (res.status == NFS3_OK) {
		get_fh(r, &res.fh);
		get_post_attr(r, &res.attr);
	}
	get_post_attr(r, &res.dir_attr);
	FINISH(r, res, out);
}

int nfs3_decode_access(struct xdr_reader *r, uint32_t asked, struct nfs3_access_res *out)
{
	struct nfs3_access_res res = {.status = xdr_u32(r)};
	get_post_attr(r, &res.attr);
	if (res.status == NFS3_OK)
		res.access = xdr_u32(r) & asked;
	FINISH(r, res, out);
}

bool nfs3_path_ok(const char *path, uint32_t len_bytes)
{
	return len_bytes > 0 && len_bytes <= NFS3_PATH_MAX && !memchr(path, 0, len_bytes);
}

int nfs3_decode_readlink(struct xdr_reader *r, uint32_t placed_bytes, struct nfs3_readlink_res *out)
{
	struct nfs3_readlink_res res = {.status = xdr_u32(r)};
	get_post_attr(r, &res.attr);
	if (res.status == NFS3_OK) {
		res.path = (const char *)get_payload(r, NFS3_PATH_MAX, placed_bytes, &res.len);
		if (xdr_ok(r) && placed_bytes == 0)
			stick_unless(r, nfs3_path_ok(res.path, res.len));
	}
	FINISH(r, res, out);
}

int nfs3_decode_read(struct xdr_reader *r, uint32_t asked, uint32_t placed_bytes, struct nfs3_read_res *out)
{
	struct nfs3_read_res res = {.status = xdr_u32(r)};
	get_post_attr(r, &res.attr);
	if (res.status == NFS3_OK) {
		uint32_t len;
		res.count = xdr_u32(r);
		res.eof = xdr_bool(r);
		res.data = get_payload(r, asked, placed_bytes, &len);
		stick_unless(r, len == res.count);
		if (len == 0)
			res.data = NULL;
	}
	FINISH(r, res, out);
}

int nfs3_decode_write(struct xdr_reader *r, uint32_t asked, struct nfs3_write_res *out)
{
	struct nfs3_write_res res = {.status = xdr_u32(r)};
	get_wcc(r, &res.wcc);
	if (res.status == NFS3_OK) {
		res.count = xdr_u32(r);
		uint32_t committed = xdr_u32(r);
		res.committed = (enum nfs3_stable)committed;
		get_verf(r, res.verf);
		stick_unless(r, res.count <= asked && committed <= NFS3_FILE_SYNC);
	}
	FINISH(r, res, out);
}

int nfs3_decode_create(struct xdr_reader *r, struct nfs3_create_res *out)
{
	struct nfs3_create_res res = {.status = xdr_u32(r)};
	if (res.status == NFS3_OK) {
		get_post_fh(r, &res.fh);
		get_post_attr(r, &res.attr);
	}
	get_wcc(r, &res.dir_wcc);
	FINISH(r, res, out);
}

int nfs3_decode_rename(struct xdr_reader *r, struct nfs3_rename_res *out)
{
	struct nfs3_rename_res res = {.status = xdr_u32(r)};
	get_wcc(r, &res.from_wcc);
	get_wcc(r, &res.to_wcc);
	FINISH(r, res, out);
}

int nfs3_decode_link(struct xdr_reader *r, struct nfs3_link_res *out)
{
	struct nfs3_link_res res = {.status = xdr_u32(r)};
	get_post_attr(r, &res.attr);
	get_wcc(r, &res.dir_wcc);
	FINISH(r, res, out);
}

int nfs3_decode_fsstat(struct xdr_reader *r, struct nfs3_fsstat_res *out)
{
	struct nfs3_fsstat_res res = {.status = xdr_u32(r)};
	get_post_attr(r, &res.attr);
	if (res.status == NFS3_OK) {
		res.total_bytes = xdr_u64(r);
		res.free_bytes = xdr_u64(r);
		res.avail_bytes = xdr_u64(r);
		res.total_files = xdr_u64(r);
		res.free_files = xdr_u64(r);
		res.avail_files = xdr_u64(r);
		res.invarsec = xdr_u32(r);
	}
	FINISH(r, res, out);
}

int nfs3_decode_fsinfo(struct xdr_reader *r, struct nfs3_fsinfo_res *out)
{
	struct nfs3_fsinfo_res res = {.status = xdr_u32(r)};
	get_post_attr(r, &res.attr);
	if (res.status == NFS3_OK) {
		res.rtmax = xdr_u32(r);
		res.rtpref = xdr_u32(r);
		res.rtmult = xdr_u32(r);
		res.wtmax = xdr_u32(r);
		res.wtpref = xdr_u32(r);
		res.wtmult = xdr_u32(r);
		res.dtpref = xdr_u32(r);
		res.maxfilesize = xdr_u64(r);
		res.time_delta = get_time(r);
		res.properties = xdr_u32(r);
	}
	FINISH(r, res, out);
}

int nfs3_decode_pathconf(struct xdr_reader *r, struct nfs3_pathconf_res *out)
{
	struct nfs3_pathconf_res res = {.status = xdr_u32(r)};
	get_post_attr(r, &res.attr);
	if (res.status == NFS3_OK) {
		res.linkmax = xdr_u32(r);
		res.name_max = xdr_u32(r);
		res.no_trunc = xdr_bool(r);
		res.chown_restricted = xdr_bool(r);
		res.case_insensitive = xdr_bool(r);
		res.case_preserving = xdr_bool(r);
	}
	FINISH(r, res, out);
}

int nfs3_decode_commit(struct xdr_reader *r, struct nfs3_commit_res *out)
{
	struct nfs3_commit_res res = {.status = xdr_u32(r)};
	get_wcc(r, &res.wcc);
	if (res.status == NFS3_OK)
		get_verf(r, res.verf);
	FINISH(r, res, out);
}

/* ---- ACLs ---- */

/* A count, and an array; they agree where the entries were asked for. */
static void get_acl(struct xdr_reader *r, bool asked, struct acl *acl)
{
	uint32_t count = xdr_u32(r), len = xdr_u32(r);
	stick_unless(r, len <= ACL_ENTRIES_MAX && (!asked || count == len));
	acl->count = 0;
	for (uint32_t i = 0; i < len && xdr_ok(r); i++) {
		uint32_t tag = xdr_u32(r) & ~NFS3_ACL_DEFAULT_TYPES, id = xdr_u32(r), perm = xdr_u32(r);
		stick_unless(r, !asked || (tag <= UINT16_MAX && (perm <= UINT16_MAX || tag == ACL_TAG_MASK)));
		if (asked)
			acl->entries[acl->count++] =
				(struct acl_entry){.tag = (uint16_t)tag, .perm = (uint16_t)perm, .id = id};
	}
	stick_unless(r, acl_from_wire(acl));
}

int nfs3_decode_getacl(struct xdr_reader *r, uint32_t asked, struct nfs3_getacl_res *out)
{
	struct nfs3_getacl_res res;
	res.status = xdr_u32(r);
	res.access.count = res.dflt.count = 0;
	get_post_attr(r, &res.attr);
	if (res.status == NFS3_OK) {
		stick_unless(r, (xdr_u32(r) & asked) == asked);
		get_acl(r, asked & NFS3_ACL_ACCESS, &res.access);
		get_acl(r, asked & NFS3_ACL_DEFAULT, &res.dflt);
	}
	if (!xdr_ok(r))
		return -EBADMSG;
	out->status = res.status;
	out->attr = res.attr;
	acl_copy(&out->access, &res.access);
	acl_copy(&out->dflt, &res.dflt);
	return 0;
}

int nfs3_decode_setacl(struct xdr_reader *r, struct nfs3_setacl_res *out)
{
	struct nfs3_setacl_res res = {.status = xdr_u32(r)};
	get_post_attr(r, &res.attr);
	FINISH(r, res, out);
}

/* ---- directory listings ---- */

int nfs3_list_begin(struct nfs3_list *list, struct xdr_reader *r, bool plus, struct nfs3_list_head *out)
{
	struct nfs3_list_head head = {.status = xdr_u32(r)};
	*list = (struct nfs3_list){.plus = plus, .done = true};
	get_post_attr(r, &head.dir_attr);
	if (head.status == NFS3_OK)
		get_verf(r, head.verf);
	if (!xdr_ok(r))
		return -EBADMSG;
	if (head.status == NFS3_OK) {
		list->pos = r->pos;
		list->end = r->end;
		list->done = false;
	}
	*out = head;
	return 0;
}

static bool name_ok(const char *name, uint32_t len)
{
	return len > 0 && len <= NFS3_NAME_MAX && !memchr(name, '/', len) && !memchr(name, 0, len);
}

static bool name_is_dot(const char *name, uint32_t len)
{
	return name[0] == '.' && (len == 1 || (len == 2 && name[1] == '.'));
}

static void get_entry(struct xdr_reader *r, bool plus, struct nfs3_entry *e)
{
	e->fileid = xdr_u64(r);
	e->name = (const char *)xdr_opaque(r, UINT32_MAX,
					   &e->name_len); /* as long as the message has it: judged later */
	e->cookie = xdr_u64(r);
	if (plus) {
		get_post_attr(r, &e->attr);
		get_post_fh(r, &e->fh);
	}
}

static int list_broken(struct nfs3_list *list)
{
	list->end = list->pos;
	list->eof = false;
	list->done = false; /* the next call finds an empty message and fails again */
	return -EBADMSG;
}

/* The end of the list: a word that says whether the directory ends too. */
static int list_end(struct nfs3_list *list, struct xdr_reader *r)
{
	bool eof = xdr_bool(r);
	if (!xdr_ok(r))
		return list_broken(list);
	list->eof = eof;
	list->done = true;
	return 0;
}

int nfs3_list_next(struct nfs3_list *list, struct nfs3_entry *out)
{
	if (list->done)
		return 0;
	struct xdr_reader r = xdr_reader(list->pos, (size_t)(list->end - list->pos));
	while (xdr_bool(&r)) {
		struct nfs3_entry e = {0};
		get_entry(&r, list->plus, &e);
		if (!xdr_ok(&r))
			return list_broken(list);
		list->pos = r.pos;
		list->cookie = e.cookie;
		if (!name_ok(e.name, e.name_len)) {
			list->skipped++;
			continue;
		}
		e.dot = name_is_dot(e.name, e.name_len);
		*out = e;
		return 1;
	}
	return xdr_ok(&r) ? list_end(list, &r) : list_broken(list);
}
