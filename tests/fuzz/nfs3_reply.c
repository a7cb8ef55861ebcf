/* SPDX-License-Identifier: MIT
 *
 * The decoders of NFS and NFSACL replies, all procedures, with the RPC header before them. Input: the
 * procedure, 1 byte; a byte whose bit 0 says that data was placed by RDMA; how many bytes were, or were asked
 * for, 2 bytes; the reply.
 */
#include "acl.h"
#include "dirpage.h"
#include "nfs3.h"

#include "fuzz.h"

#include <errno.h>

static void check_attr(const struct nfs3_attr *a)
{
	require(a->type >= NFS3_REG && a->type <= NFS3_FIFO);
	require(a->mode <= 07777);
	require(a->atime.nsec < 1000000000 && a->mtime.nsec < 1000000000 && a->ctime.nsec < 1000000000);
}

static void check_post_attr(const struct nfs3_post_attr *p)
{
	if (p->present)
		check_attr(&p->attr);
}

static void check_fh(const struct nfs3_fh *fh)
{
	require(fh->len >= 1 && fh->len <= NFS3_FH_MAX);
}

static void check_post_fh(const struct nfs3_post_fh *p)
{
	if (p->present)
		check_fh(&p->fh);
}

static void try_getattr(struct xdr_reader *r)
{
	struct nfs3_attr_res res;
	if (nfs3_decode_getattr(r, &res) == 0 && res.status == NFS3_OK)
		check_attr(&res.attr);
}

static void try_lookup(struct xdr_reader *r)
{
	struct nfs3_lookup_res res;
	if (nfs3_decode_lookup(r, &res))
		return;
	if (res.status == NFS3_OK)
		check_fh(&res.fh);
	check_post_attr(&res.attr);
	check_post_attr(&res.dir_attr);
}

static void try_access(struct xdr_reader *r, uint32_t asked)
{
	struct nfs3_access_res res;
	if (nfs3_decode_access(r, asked, &res) == 0)
		require((res.access & ~asked) == 0);
}

static void try_readlink(struct xdr_reader *r, uint32_t placed)
{
	struct nfs3_readlink_res res;
	if (nfs3_decode_readlink(r, placed, &res) || res.status != NFS3_OK)
		return;
	require(res.len <= NFS3_PATH_MAX && (!placed || res.len == placed));
	if (!placed)
		require(nfs3_path_ok(res.path, res.len));
}

static void try_read(struct xdr_reader *r, uint32_t asked, uint32_t placed)
{
	struct nfs3_read_res res;
	if (nfs3_decode_read(r, asked, placed, &res) || res.status != NFS3_OK)
		return;
	require(res.count <= asked && (!placed || res.count == placed));
	require((res.data != NULL) == (!placed && res.count));
	if (res.data)
		touch(res.data, res.count);
}

static void try_write(struct xdr_reader *r, uint32_t asked)
{
	struct nfs3_write_res res;
	if (nfs3_decode_write(r, asked, &res) == 0 && res.status == NFS3_OK)
		require(res.count <= asked && res.committed <= NFS3_FILE_SYNC);
}

static void try_create(struct xdr_reader *r)
{
	struct nfs3_create_res res;
	if (nfs3_decode_create(r, &res))
		return;
	check_post_fh(&res.fh);
	check_post_attr(&res.attr);
	check_post_attr(&res.dir_wcc.after);
}

static void check_entry(const struct nfs3_entry *e)
{
	require(e->name_len >= 1 && e->name_len <= NFS3_NAME_MAX);
	require(!memchr(e->name, '/', e->name_len) && !memchr(e->name, 0, e->name_len));
	check_post_attr(&e->attr);
	check_post_fh(&e->fh);
}

/* The same reply as the page that an open directory keeps of it: read from the start, and from behind each
 * entry. */
static void try_page(const struct xdr_reader *r, bool plus)
{
	struct dirpage page = {0};
	struct nfs3_list_head head;
	struct nfs3_entry entry;
	unsigned int steps = 0;
	int err = dirpage_load(&page, r->pos, xdr_left(r), plus, 0, &head);
	require(err == 0 || err == -EBADMSG || err == -ELOOP);
	require(page.loaded == (!err && head.status == NFS3_OK));
	for (; steps < 8 && dirpage_peek(&page, &entry); steps++) {
		check_entry(&entry);
		dirpage_step(&page);
		require(dirpage_seek(&page, entry.cookie));
	}
	if (page.loaded)
		require(dirpage_seek(&page, 0) && dirpage_peek(&page, &entry) == (steps > 0));
	dirpage_fini(&page);
}

static void try_list(struct xdr_reader *r, bool plus)
{
	try_page(r, plus);
	struct nfs3_list list;
	struct nfs3_list_head head;
	struct nfs3_entry entry;
	size_t left = xdr_left(r), entries = 0;
	int ret = nfs3_list_begin(&list, r, plus, &head);
	if (ret)
		require(nfs3_list_next(&list, &entry) == 0);
	while (!ret && (ret = nfs3_list_next(&list, &entry)) == 1) {
		check_entry(&entry);
		entries++;
		ret = 0;
	}
	require(entries <= left / 24); /* what the shortest takes of the message */
	if (ret == -EBADMSG && !list.done)
		require(nfs3_list_next(&list, &entry) == -EBADMSG);
}

/* As the attribute that a program reads, and back. */
static void check_acl(const struct acl *acl)
{
	static uint8_t value[4 + 8 * ACL_ENTRIES_MAX];
	static struct acl again;
	require(acl->count <= ACL_ENTRIES_MAX);
	if (acl->count == 0)
		return;
	require(acl_valid(acl));
	require(acl_wire_count(acl) >= acl->count);
	ssize_t len = acl_to_xattr(acl, value, sizeof value);
	require(len > 0 && (size_t)len <= sizeof value);
	require(acl_from_xattr(&again, value, (size_t)len) == 0);
	require(again.count == acl->count);
	require(memcmp(again.entries, acl->entries, acl->count * sizeof *acl->entries) == 0);
	require((acl_create_mode(acl, 0777) & ~0777u) == 0);
	acl_is_mode(acl);
}

static void try_getacl(struct xdr_reader *r, uint32_t asked)
{
	static struct nfs3_getacl_res res;
	if (nfs3_decode_getacl(r, asked, &res))
		return;
	check_post_attr(&res.attr);
	check_acl(&res.access);
	check_acl(&res.dflt);
}

/* The rest have nothing in them that a caller must be able to rely on. */
static void try_others(struct xdr_reader *r, uint8_t proc)
{
	union {
		struct nfs3_wcc_res wcc;
		struct nfs3_rename_res rename;
		struct nfs3_link_res link;
		struct nfs3_fsstat_res fsstat;
		struct nfs3_fsinfo_res fsinfo;
		struct nfs3_pathconf_res pathconf;
		struct nfs3_commit_res commit;
		struct nfs3_setacl_res setacl;
	} res;
	switch (proc) {
	case NFSPROC3_SETATTR:
		nfs3_decode_setattr(r, &res.wcc);
		break;
	case NFSPROC3_REMOVE:
	case NFSPROC3_RMDIR:
		nfs3_decode_remove(r, &res.wcc);
		break;
	case NFSPROC3_RENAME:
		nfs3_decode_rename(r, &res.rename);
		break;
	case NFSPROC3_LINK:
		nfs3_decode_link(r, &res.link);
		break;
	case NFSPROC3_FSSTAT:
		nfs3_decode_fsstat(r, &res.fsstat);
		break;
	case NFSPROC3_FSINFO:
		nfs3_decode_fsinfo(r, &res.fsinfo);
		break;
	case NFSPROC3_PATHCONF:
		nfs3_decode_pathconf(r, &res.pathconf);
		break;
	case NFSPROC3_COMMIT:
		nfs3_decode_commit(r, &res.commit);
		break;
	case NFSPROC3_SETACL:
		nfs3_decode_setacl(r, &res.setacl);
		break;
	default: /* NULL */
		break;
	}
}

static void try_result(struct xdr_reader *r, uint8_t proc, uint32_t asked, uint32_t placed)
{
	switch (proc) {
	case NFSPROC3_GETATTR:
		try_getattr(r);
		break;
	case NFSPROC3_LOOKUP:
		try_lookup(r);
		break;
	case NFSPROC3_ACCESS:
		try_access(r, asked);
		break;
	case NFSPROC3_READLINK:
		try_readlink(r, placed);
		break;
	case NFSPROC3_READ:
		try_read(r, asked, placed);
		break;
	case NFSPROC3_WRITE:
		try_write(r, asked);
		break;
	case NFSPROC3_CREATE:
	case NFSPROC3_MKDIR:
	case NFSPROC3_SYMLINK:
	case NFSPROC3_MKNOD:
		try_create(r);
		break;
	case NFSPROC3_GETACL:
		try_getacl(r, asked);
		break;
	case NFSPROC3_READDIR:
	case NFSPROC3_READDIRPLUS:
		try_list(r, proc == NFSPROC3_READDIRPLUS);
		break;
	default:
		try_others(r, proc);
		break;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	struct xdr_reader in = xdr_reader(data, len);
	uint8_t proc = take_u8(&in) % NFSPROC3_COUNT;
	bool is_placed = take_u8(&in) & 1;
	uint32_t asked = take_u16(&in);
	struct xdr_reader r = xdr_reader(in.pos, xdr_left(&in));
	if (nfs3_reply_header(&r) == 0) {
		require(xdr_ok(&r));
		try_result(&r, proc, asked, is_placed ? asked : 0);
	}
	return 0;
}
