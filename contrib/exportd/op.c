/* SPDX-License-Identifier: MIT */
#include "op.h"

#include <errno.h>
#include <string.h>
#include <sys/sysmacros.h>

enum nfs3_status status_of(int err)
{
	return nfs3_status_of(-err);
}

int op_second(struct op *op)
{
	struct server *srv = op->srv;
	int err = node_get(srv->nodes, srv->exports, srv->exports_len, &op->args.fh2, &op->obj2);
	if (err)
		return err;
	wcc_before(&op->wcc[1], op->obj2);
	return op->obj2->export == op->obj->export ? 0 : -EXDEV;
}

int op_become(struct op *op)
{
	return cred_become(op->cred);
}

void wcc_before(struct wcc *wcc, struct node *node)
{
	wcc->node = node;
	wcc->have_before = node_stat(node, &wcc->before) == 0;
}

enum nfs3_status name_check(const struct nfs3_name *name, struct name *out)
{
	if (name->len_bytes == 0)
		return NFS3ERR_INVAL;
	if (name->len_bytes > NFS3_NAME_MAX_BYTES)
		return NFS3ERR_NAMETOOLONG;
	if (memchr(name->bytes, 0, name->len_bytes) || memchr(name->bytes, '/', name->len_bytes))
		return NFS3ERR_INVAL;
	memcpy(out->s, name->bytes, name->len_bytes);
	out->s[name->len_bytes] = 0;
	return NFS3_OK;
}

bool name_is_dots(const struct name *name)
{
	return strcmp(name->s, ".") == 0 || strcmp(name->s, "..") == 0;
}

static void put_time(struct xdr_writer *w, const struct timespec *ts)
{
	xdr_put_u32(w, (uint32_t)ts->tv_sec);
	xdr_put_u32(w, (uint32_t)ts->tv_nsec);
}

void put_fattr(struct xdr_writer *w, const struct stat *st)
{
	xdr_put_u32(w, nfs3_type_of(st->st_mode));
	xdr_put_u32(w, st->st_mode & 07777);
	xdr_put_u32(w, (uint32_t)st->st_nlink);
	xdr_put_u32(w, st->st_uid);
	xdr_put_u32(w, st->st_gid);
	xdr_put_u64(w, (uint64_t)st->st_size);
	xdr_put_u64(w, (uint64_t)st->st_blocks * 512);
	xdr_put_u32(w, major(st->st_rdev));
	xdr_put_u32(w, minor(st->st_rdev));
	xdr_put_u64(w, st->st_dev);
	xdr_put_u64(w, st->st_ino);
	put_time(w, &st->st_atim);
	put_time(w, &st->st_mtim);
	put_time(w, &st->st_ctim);
}

void put_post_op(struct xdr_writer *w, struct node *node)
{
	struct stat st;
	bool have = node && node_stat(node, &st) == 0;
	xdr_put_u32(w, have);
	if (have)
		put_fattr(w, &st);
}

void put_wcc(struct xdr_writer *w, const struct wcc *wcc)
{
	xdr_put_u32(w, wcc->have_before);
	if (wcc->have_before) {
		xdr_put_u64(w, (uint64_t)wcc->before.st_size);
		put_time(w, &wcc->before.st_mtim);
		put_time(w, &wcc->before.st_ctim);
	}
	put_post_op(w, wcc->node);
}

void put_fh(struct xdr_writer *w, const struct fh *fh)
{
	xdr_put_opaque(w, fh->bytes, fh->len_bytes);
}
