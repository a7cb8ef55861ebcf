/* SPDX-License-Identifier: MIT
 *
 * Replies, made by libnfs's encoders as an independent peer, and then cut, bent and lied about.
 */
#include <sys/time.h>

#include <nfsc/libnfs-zdr.h>

#include <nfsc/libnfs-raw-nfs.h>

#include "nfs3.h"
#include "xdr.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

/* ---- messages ---- */

struct message {
	uint32_t words[2 * 3 * (ACL_ENTRIES_MAX + 2)];
	size_t len;
};

static struct message encoded(zdrproc_t proc, void *res)
{
	struct message m;
	ZDR z;
	zdrmem_create(&z, (char *)m.words, sizeof m.words, ZDR_ENCODE);
	assert_true(proc(&z, res));
	m.len = zdr_getpos(&z);
	return m;
}

static void patch(struct message *m, size_t word, uint32_t v)
{
	m->words[word] = htobe32(v);
}

/* The largest result that a decoder may write here. */
union result {
	uint8_t bytes[sizeof(struct nfs3_getacl_res)];
	uint64_t align;
};

typedef int (*decoder)(struct xdr_reader *r, void *out);

/* Decodes from a heap block of exactly len bytes, so that the sanitizer sees a read past the end. */
static int decode_exactly(decoder dec, const void *bytes, size_t len, void *out)
{
	uint8_t *copy = malloc(len ? len : 1);
	memcpy(copy, bytes, len);
	struct xdr_reader r = xdr_reader(copy, len);
	int err = dec(&r, out);
	free(copy);
	return err;
}

/* Whole, it decodes; cut after any byte it does not, and the output stays as it was. */
static void check_whole_and_cut(decoder dec, const struct message *m, void *out, size_t out_size)
{
	union result untouched, res;
	memset(&untouched, 0xa5, sizeof untouched);
	assert_true(out_size <= sizeof res);
	for (size_t len = 0; len < m->len; len++) {
		res = untouched;
		assert_int_equal(decode_exactly(dec, m->words, len, &res), -EBADMSG);
		assert_memory_equal(&res, &untouched, sizeof res);
	}
	assert_int_equal(decode_exactly(dec, m->words, m->len, out), 0);
}

static void check_bad(decoder dec, const struct message *m)
{
	union result untouched, res;
	memset(&untouched, 0xa5, sizeof untouched);
	res = untouched;
	assert_int_equal(decode_exactly(dec, m->words, m->len, &res), -EBADMSG);
	assert_memory_equal(&res, &untouched, sizeof res);
}

/* Decoders by one shape. Those with more arguments are asked for 64 bytes, inline. */
#define SHAPE(name, type, ...)                                                                               \
	static int dec_##name(struct xdr_reader *r, void *out)                                               \
	{                                                                                                    \
		return nfs3_decode_##name(r, ##__VA_ARGS__, (struct type *)out);                             \
	}
SHAPE(getattr, nfs3_attr_res)
SHAPE(setattr, nfs3_wcc_res)
SHAPE(lookup, nfs3_lookup_res)
SHAPE(access, nfs3_access_res, 0x1f)
SHAPE(readlink, nfs3_readlink_res, 0)
SHAPE(read, nfs3_read_res, 64, 0)
SHAPE(write, nfs3_write_res, 64)
SHAPE(create, nfs3_create_res)
SHAPE(remove, nfs3_wcc_res)
SHAPE(rename, nfs3_rename_res)
SHAPE(link, nfs3_link_res)
SHAPE(fsstat, nfs3_fsstat_res)
SHAPE(fsinfo, nfs3_fsinfo_res)
SHAPE(pathconf, nfs3_pathconf_res)
SHAPE(commit, nfs3_commit_res)
SHAPE(getacl, nfs3_getacl_res, 0xf)
SHAPE(setacl, nfs3_setacl_res)

static int dec_header(struct xdr_reader *r, void *out)
{
	return nfs3_reply_header(r);
}

/* ---- pieces that the peer sends ---- */

static const fattr3 fattr = {
	.type = NF3LNK,
	.mode = 0104755,
	.nlink = 3,
	.uid = 4000000000u,
	.gid = 6,
	.size = 0x8000000000000001ull,
	.used = 4096,
	.rdev = {259, 7},
	.fsid = 0xfeedfacecafebeefull,
	.fileid = 0xfffffffffffffffeull,
	.atime = {1, 2},
	.mtime = {0xffffffff, 999999999},
	.ctime = {5, 6},
};

static post_op_attr post(void)
{
	return (post_op_attr){.attributes_follow = 1, .post_op_attr_u.attributes = fattr};
}

static wcc_data wcc(void)
{
	return (wcc_data){
		.before = {.attributes_follow = 1, .pre_op_attr_u.attributes = {77, {8, 9}, {10, 11}}},
		.after = post()};
}

static void check_attr(const struct nfs3_attr *a)
{
	assert_int_equal(a->type, NFS3_LNK);
	assert_int_equal(a->mode, 04755); /* the file type, which old servers add, is left out */
	assert_int_equal(a->nlink, 3);
	assert_true(a->uid == 4000000000u && a->gid == 6);
	assert_true(a->size == 0x8000000000000001ull && a->used == 4096);
	assert_true(a->rdev_major == 259 && a->rdev_minor == 7);
	assert_true(a->fsid == 0xfeedfacecafebeefull && a->fileid == 0xfffffffffffffffeull);
	assert_true(a->atime.sec == 1 && a->atime.nsec == 2);
	assert_true(a->mtime.sec == 0xffffffff && a->mtime.nsec == 999999999);
	assert_true(a->ctime.sec == 5 && a->ctime.nsec == 6);
}

static void check_post(const struct nfs3_post_attr *p)
{
	assert_true(p->present);
	check_attr(&p->attr);
}

static void check_wcc(const struct nfs3_wcc *w)
{
	assert_true(w->before.present);
	assert_true(w->before.size == 77 && w->before.mtime.sec == 8 && w->before.mtime.nsec == 9);
	assert_true(w->before.ctime.sec == 10 && w->before.ctime.nsec == 11);
	check_post(&w->after);
}

static nfs_fh3 handle(uint32_t len)
{
	static char bytes[] = "handle-0123456789-0123456789-0123456789-0123456789-0123456789-01234567890";
	return (nfs_fh3){.data = {.data_len = len, .data_val = bytes}};
}

static void check_fh(const struct nfs3_fh *fh, uint32_t len)
{
	assert_int_equal(fh->len, len);
	assert_memory_equal(fh->data, handle(len).data.data_val, len);
}

/* ---- round trips ---- */

static void getattr_reply(void **state)
{
	GETATTR3res peer = {.status = NFS3_OK, .GETATTR3res_u.resok.obj_attributes = fattr};
	struct message m = encoded((zdrproc_t)zdr_GETATTR3res, &peer);
	struct nfs3_attr_res res;
	assert_int_equal(m.len, 4 + NFS3_W_FATTR);
	check_whole_and_cut(dec_getattr, &m, &res, sizeof res);
	assert_int_equal(res.status, NFS3_OK);
	check_attr(&res.attr);

	peer.status = NFS3ERR_STALE;
	m = encoded((zdrproc_t)zdr_GETATTR3res, &peer);
	check_whole_and_cut(dec_getattr, &m, &res, sizeof res);
	assert_int_equal(res.status, NFS3ERR_STALE);
}

static void file_types_outside_the_protocol_are_bad(void **state)
{
	GETATTR3res peer = {.status = NFS3_OK, .GETATTR3res_u.resok.obj_attributes = fattr};
	struct message m = encoded((zdrproc_t)zdr_GETATTR3res, &peer);
	static const uint32_t types[] = {0, 8, 0x80000001, 0xffffffff};
	for (size_t i = 0; i < 4; i++) {
		patch(&m, 1, types[i]);
		check_bad(dec_getattr, &m);
	}
}

static void nanoseconds_beyond_a_second_are_clamped(void **state)
{
	GETATTR3res peer = {.status = NFS3_OK, .GETATTR3res_u.resok.obj_attributes = fattr};
	peer.GETATTR3res_u.resok.obj_attributes.ctime.nseconds = 1000000000;
	struct message m = encoded((zdrproc_t)zdr_GETATTR3res, &peer);
	struct nfs3_attr_res res;
	assert_int_equal(decode_exactly(dec_getattr, m.words, m.len, &res), 0);
	assert_int_equal(res.attr.ctime.nsec, 999999999);
}

static void setattr_and_remove_replies(void **state)
{
	for (int status = 0; status < 2; status++) {
		SETATTR3res peer = {.status = status ? NFS3ERR_ACCES : NFS3_OK};
		peer.SETATTR3res_u.resok.obj_wcc = wcc(); /* the same layout in a refusal */
		struct message m = encoded((zdrproc_t)zdr_SETATTR3res, &peer);
		struct nfs3_wcc_res res;
		assert_int_equal(m.len, nfs3_procs[NFSPROC3_SETATTR].reply_bytes);
		check_whole_and_cut(dec_setattr, &m, &res, sizeof res);
		assert_int_equal(res.status, peer.status);
		check_wcc(&res.wcc);

		REMOVE3res gone = {.status = peer.status, .REMOVE3res_u.resok.dir_wcc = wcc()};
		m = encoded((zdrproc_t)zdr_REMOVE3res, &gone);
		check_whole_and_cut(dec_remove, &m, &res, sizeof res);
		assert_int_equal(res.status, peer.status);
		check_wcc(&res.wcc);
	}
}

static void attributes_may_be_missing(void **state)
{
	SETATTR3res peer = {.status = NFS3_OK};
	struct message m = encoded((zdrproc_t)zdr_SETATTR3res, &peer);
	struct nfs3_wcc_res res;
	check_whole_and_cut(dec_setattr, &m, &res, sizeof res);
	assert_false(res.wcc.before.present);
	assert_false(res.wcc.after.present);
}

static void a_boolean_is_zero_or_one(void **state)
{
	SETATTR3res peer = {.status = NFS3_OK};
	struct message m = encoded((zdrproc_t)zdr_SETATTR3res, &peer);
	patch(&m, 1, 2);
	check_bad(dec_setattr, &m);
}

static LOOKUP3res lookup_peer(uint32_t fh_len)
{
	return (LOOKUP3res){.status = NFS3_OK,
			    .LOOKUP3res_u.resok = {.object = handle(fh_len),
						   .obj_attributes = post(),
						   .dir_attributes = post()}};
}

static void lookup_reply(void **state)
{
	static const uint32_t lens[] = {1, 28, 63, 64};
	struct nfs3_lookup_res res;
	for (size_t i = 0; i < 4; i++) {
		LOOKUP3res peer = lookup_peer(lens[i]);
		struct message m = encoded((zdrproc_t)zdr_LOOKUP3res, &peer);
		check_whole_and_cut(dec_lookup, &m, &res, sizeof res);
		check_fh(&res.fh, lens[i]);
		check_post(&res.attr);
		check_post(&res.dir_attr);
		assert_true(m.len <= nfs3_procs[NFSPROC3_LOOKUP].reply_bytes);
		assert_true(lens[i] < 64 || m.len == nfs3_procs[NFSPROC3_LOOKUP].reply_bytes);
	}
	LOOKUP3res no = {.status = NFS3ERR_NOENT, .LOOKUP3res_u.resfail.dir_attributes = post()};
	struct message m = encoded((zdrproc_t)zdr_LOOKUP3res, &no);
	check_whole_and_cut(dec_lookup, &m, &res, sizeof res);
	assert_int_equal(res.status, NFS3ERR_NOENT);
	check_post(&res.dir_attr);
}

static void handles_of_no_or_too_many_bytes_are_bad(void **state)
{
	static const uint32_t lens[] = {0, 65, 72};
	for (size_t i = 0; i < 3; i++) {
		LOOKUP3res peer = lookup_peer(lens[i]);
		struct message m = encoded((zdrproc_t)zdr_LOOKUP3res, &peer);
		check_bad(dec_lookup, &m);
	}
	LOOKUP3res peer = lookup_peer(8);
	struct message m = encoded((zdrproc_t)zdr_LOOKUP3res, &peer);
	static const uint32_t lies[] = {0xfffffff0, 0xfffffffd, 0xffffffff, 0x80000000, 0x7fffffff};
	for (size_t i = 0; i < 5; i++) {
		patch(&m, 1, lies[i]);
		check_bad(dec_lookup, &m);
	}
}

static void access_reply_grants_nothing_unasked(void **state)
{
	ACCESS3res peer = {.status = NFS3_OK, .ACCESS3res_u.resok = {post(), 0xffffffff}};
	struct message m = encoded((zdrproc_t)zdr_ACCESS3res, &peer);
	struct nfs3_access_res res;
	assert_int_equal(m.len, nfs3_procs[NFSPROC3_ACCESS].reply_bytes);
	check_whole_and_cut(dec_access, &m, &res, sizeof res);
	assert_int_equal(res.access, 0x1f);
	check_post(&res.attr);
	peer.status = NFS3ERR_IO;
	m = encoded((zdrproc_t)zdr_ACCESS3res, &peer);
	check_whole_and_cut(dec_access, &m, &res, sizeof res);
	assert_int_equal(res.status, NFS3ERR_IO);
	assert_int_equal(res.access, 0);
}

/* ---- READ and READLINK, inline and reduced ---- */

static READ3res read_peer(uint32_t count, uint32_t len)
{
	static char data[128] = "0123456789abcdef";
	return (READ3res){.status = NFS3_OK,
			  .READ3res_u.resok = {
				  .file_attributes = post(), .count = count, .eof = 1, .data = {len, data}}};
}

static void read_reply_with_inline_data(void **state)
{
	static const uint32_t counts[] = {0, 1, 13, 64};
	for (size_t i = 0; i < 4; i++) {
		READ3res peer = read_peer(counts[i], counts[i]);
		struct message m = encoded((zdrproc_t)zdr_READ3res, &peer);
		struct nfs3_read_res res;
		check_whole_and_cut(dec_read, &m, &res, sizeof res);

		struct xdr_reader r = xdr_reader(m.words, m.len);
		assert_int_equal(nfs3_decode_read(&r, 64, 0, &res), 0);
		assert_int_equal(res.count, counts[i]);
		assert_true(res.eof);
		check_post(&res.attr);
		if (counts[i])
			assert_ptr_equal(res.data,
					 (uint8_t *)m.words + nfs3_procs[NFSPROC3_READ].reply_bytes);
		else
			assert_null(res.data);
	}
}

/* What a server sends whose data left by RDMA Write: the length word stays and nothing follows. */
static struct message reduced_read(uint32_t count, uint32_t len)
{
	READ3res peer = read_peer(count, 0);
	struct message m = encoded((zdrproc_t)zdr_READ3res, &peer);
	patch(&m, m.len / 4 - 1, len);
	return m;
}

static int decode_read(const struct message *m, uint32_t asked, uint32_t placed, struct nfs3_read_res *res)
{
	uint8_t *copy = malloc(m->len);
	memcpy(copy, m->words, m->len);
	struct xdr_reader r = xdr_reader(copy, m->len);
	int err = nfs3_decode_read(&r, asked, placed, res);
	free(copy);
	return err;
}

static void read_reply_with_placed_data(void **state)
{
	struct message m = reduced_read(1000, 1000);
	struct nfs3_read_res res;
	assert_int_equal(decode_read(&m, 4096, 1000, &res), 0);
	assert_int_equal(res.count, 1000);
	assert_null(res.data);
	m = reduced_read(1048576, 1048576);
	assert_int_equal(decode_read(&m, 1048576, 1048576, &res), 0);
}

static void read_replies_that_do_not_add_up_are_bad(void **state)
{
	static const struct {
		uint32_t count, len, asked, placed;
	} cases[] = {
		{1000, 1000, 999, 1000},	   /* more than asked */
		{1000, 1000, 4096, 1004},	   /* more placed than said */
		{1000, 1000, 4096, 996},	   /* less placed */
		{1000, 996, 4096, 1000},	   /* the words differ */
		{1000, 996, 4096, 996},		   /* count and length differ */
		{996, 1000, 4096, 1000},	   /* the other way round */
		{0, 0, 4096, 8},		   /* placed, but said none */
		{8, 8, 4096, 0},		   /* said, but neither placed nor in the message */
		{8, 0, 4096, 0},		   /* counted, but no data */
		{0xfffffff0, 0xfffffff0, 4096, 0}, /* absurd */
		{0xfffffff0, 0xfffffff0, 4096, 0xfffffff0},
	};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct message m = reduced_read(cases[i].count, cases[i].len);
		struct nfs3_read_res res;
		assert_int_equal(decode_read(&m, cases[i].asked, cases[i].placed, &res), -EBADMSG);
	}
	READ3res peer = read_peer(65, 65); /* inline, one byte more than asked */
	struct message m = encoded((zdrproc_t)zdr_READ3res, &peer);
	check_bad(dec_read, &m);
	peer = read_peer(8, 4);
	m = encoded((zdrproc_t)zdr_READ3res, &peer);
	check_bad(dec_read, &m);
}

static void refused_read(void **state)
{
	READ3res peer = {.status = NFS3ERR_JUKEBOX, .READ3res_u.resfail.file_attributes = post()};
	struct message m = encoded((zdrproc_t)zdr_READ3res, &peer);
	struct nfs3_read_res res;
	check_whole_and_cut(dec_read, &m, &res, sizeof res);
	assert_int_equal(nfs3_errno(res.status), -EAGAIN);
	check_post(&res.attr);
}

static void readlink_reply(void **state)
{
	READLINK3res peer = {.status = NFS3_OK, .READLINK3res_u.resok = {post(), (char *)"../some/where"}};
	struct message m = encoded((zdrproc_t)zdr_READLINK3res, &peer);
	struct nfs3_readlink_res res;
	check_whole_and_cut(dec_readlink, &m, &res, sizeof res);
	struct xdr_reader r = xdr_reader(m.words, m.len);
	assert_int_equal(nfs3_decode_readlink(&r, 0, &res), 0);
	assert_int_equal(res.len, 13);
	assert_memory_equal(res.path, "../some/where", 13);

	size_t len_word = nfs3_procs[NFSPROC3_READLINK].reply_bytes / 4 - 1;
	m.len = (len_word + 1) * 4; /* reduced */
	r = xdr_reader(m.words, m.len);
	assert_int_equal(nfs3_decode_readlink(&r, 13, &res), 0);
	assert_int_equal(res.len, 13);
	assert_null(res.path);
	r = xdr_reader(m.words, m.len);
	assert_int_equal(nfs3_decode_readlink(&r, 12, &res), -EBADMSG);
	patch(&m, len_word, 4096);
	r = xdr_reader(m.words, m.len);
	assert_int_equal(nfs3_decode_readlink(&r, 4096, &res), -EBADMSG);
}

static void paths_that_no_link_holds_are_bad(void **state)
{
	READLINK3res peer = {.status = NFS3_OK, .READLINK3res_u.resok = {post(), (char *)""}};
	struct message m = encoded((zdrproc_t)zdr_READLINK3res, &peer);
	check_bad(dec_readlink, &m); /* empty */
	peer.READLINK3res_u.resok.data = (char *)"aXcd";
	m = encoded((zdrproc_t)zdr_READLINK3res, &peer);
	((char *)m.words)[m.len - 3] = 0;
	check_bad(dec_readlink, &m); /* a NUL within */
	assert_false(nfs3_path_ok("", 0));
	assert_false(nfs3_path_ok("a\0b", 3));
	assert_true(nfs3_path_ok("a", 1));
}

/* ---- the others ---- */

static WRITE3res write_peer(uint32_t count, uint32_t committed)
{
	return (WRITE3res){.status = NFS3_OK,
			   .WRITE3res_u.resok = {.file_wcc = wcc(),
						 .count = count,
						 .committed = (stable_how)committed,
						 .verf = "VERIFIE"}};
}

static void write_reply(void **state)
{
	WRITE3res peer = write_peer(64, FILE_SYNC);
	struct message m = encoded((zdrproc_t)zdr_WRITE3res, &peer);
	struct nfs3_write_res res;
	assert_int_equal(m.len, nfs3_procs[NFSPROC3_WRITE].reply_bytes);
	check_whole_and_cut(dec_write, &m, &res, sizeof res);
	assert_int_equal(res.count, 64);
	assert_int_equal(res.committed, NFS3_FILE_SYNC);
	assert_memory_equal(res.verf, "VERIFIE", 8);
	check_wcc(&res.wcc);

	peer = write_peer(65, UNSTABLE); /* more than asked */
	m = encoded((zdrproc_t)zdr_WRITE3res, &peer);
	check_bad(dec_write, &m);
	peer = write_peer(64, 3);
	m = encoded((zdrproc_t)zdr_WRITE3res, &peer);
	check_bad(dec_write, &m);
	peer = write_peer(0xfffffff0, UNSTABLE);
	m = encoded((zdrproc_t)zdr_WRITE3res, &peer);
	check_bad(dec_write, &m);

	WRITE3res full = {.status = NFS3ERR_NOSPC, .WRITE3res_u.resfail.file_wcc = wcc()};
	m = encoded((zdrproc_t)zdr_WRITE3res, &full);
	check_whole_and_cut(dec_write, &m, &res, sizeof res);
	check_wcc(&res.wcc);
	assert_int_equal(res.count, 0);
}

static void create_reply(void **state)
{
	CREATE3res peer = {
		.status = NFS3_OK,
		.CREATE3res_u.resok = {.obj = {1, {handle(64)}}, .obj_attributes = post(), .dir_wcc = wcc()}};
	struct message m = encoded((zdrproc_t)zdr_CREATE3res, &peer);
	struct nfs3_create_res res;
	assert_int_equal(m.len, nfs3_procs[NFSPROC3_CREATE].reply_bytes);
	check_whole_and_cut(dec_create, &m, &res, sizeof res);
	assert_true(res.fh.present);
	check_fh(&res.fh.fh, 64);
	check_post(&res.attr);
	check_wcc(&res.dir_wcc);

	peer.CREATE3res_u.resok.obj.handle_follows =
		0; /* a server need not say: then the client looks it up */
	m = encoded((zdrproc_t)zdr_CREATE3res, &peer);
	check_whole_and_cut(dec_create, &m, &res, sizeof res);
	assert_false(res.fh.present);

	CREATE3res no = {.status = NFS3ERR_EXIST, .CREATE3res_u.resfail.dir_wcc = wcc()};
	m = encoded((zdrproc_t)zdr_CREATE3res, &no);
	check_whole_and_cut(dec_create, &m, &res, sizeof res);
	assert_int_equal(res.status, NFS3ERR_EXIST);
	check_wcc(&res.dir_wcc);
}

static void rename_and_link_replies(void **state)
{
	for (int status = 0; status < 2; status++) {
		RENAME3res peer = {.status = status ? NFS3ERR_XDEV : NFS3_OK,
				   .RENAME3res_u.resok = {.fromdir_wcc = wcc(), .todir_wcc = wcc()}};
		struct message m = encoded((zdrproc_t)zdr_RENAME3res, &peer);
		struct nfs3_rename_res res;
		assert_int_equal(m.len, nfs3_procs[NFSPROC3_RENAME].reply_bytes);
		check_whole_and_cut(dec_rename, &m, &res, sizeof res);
		assert_int_equal(res.status, peer.status);
		check_wcc(&res.from_wcc);
		check_wcc(&res.to_wcc);

		LINK3res link = {.status = peer.status,
				 .LINK3res_u.resok = {.file_attributes = post(), .linkdir_wcc = wcc()}};
		struct nfs3_link_res lres;
		m = encoded((zdrproc_t)zdr_LINK3res, &link);
		assert_int_equal(m.len, nfs3_procs[NFSPROC3_LINK].reply_bytes);
		check_whole_and_cut(dec_link, &m, &lres, sizeof lres);
		check_post(&lres.attr);
		check_wcc(&lres.dir_wcc);
	}
}

static void file_system_replies(void **state)
{
	FSSTAT3res stat = {.status = NFS3_OK, .FSSTAT3res_u.resok = {post(), UINT64_MAX, 2, 3, 4, 5, 6, 7}};
	struct message m = encoded((zdrproc_t)zdr_FSSTAT3res, &stat);
	struct nfs3_fsstat_res sres;
	assert_int_equal(m.len, nfs3_procs[NFSPROC3_FSSTAT].reply_bytes);
	check_whole_and_cut(dec_fsstat, &m, &sres, sizeof sres);
	assert_true(sres.total_bytes == UINT64_MAX && sres.free_bytes == 2 && sres.avail_bytes == 3);
	assert_true(sres.total_files == 4 && sres.free_files == 5 && sres.avail_files == 6 &&
		    sres.invarsec == 7);

	FSINFO3res info = {.status = NFS3_OK,
			   .FSINFO3res_u.resok = {post(), 1, 2, 3, 4, 5, 6, 7, 1ull << 62, {0, 1}, 0x1b}};
	struct nfs3_fsinfo_res ires;
	m = encoded((zdrproc_t)zdr_FSINFO3res, &info);
	assert_int_equal(m.len, nfs3_procs[NFSPROC3_FSINFO].reply_bytes);
	check_whole_and_cut(dec_fsinfo, &m, &ires, sizeof ires);
	assert_true(ires.rtmax == 1 && ires.rtpref == 2 && ires.rtmult == 3 && ires.wtmax == 4 &&
		    ires.wtpref == 5);
	assert_true(ires.wtmult == 6 && ires.dtpref == 7 && ires.maxfilesize == 1ull << 62 &&
		    ires.time_delta.nsec == 1);
	assert_int_equal(ires.properties, 0x1b);

	PATHCONF3res conf = {.status = NFS3_OK, .PATHCONF3res_u.resok = {post(), 32000, 255, 1, 1, 0, 1}};
	struct nfs3_pathconf_res cres;
	m = encoded((zdrproc_t)zdr_PATHCONF3res, &conf);
	assert_int_equal(m.len, nfs3_procs[NFSPROC3_PATHCONF].reply_bytes);
	check_whole_and_cut(dec_pathconf, &m, &cres, sizeof cres);
	assert_true(cres.linkmax == 32000 && cres.name_max == 255);
	assert_true(cres.no_trunc && cres.chown_restricted && !cres.case_insensitive && cres.case_preserving);
}

static void commit_reply(void **state)
{
	COMMIT3res peer = {.status = NFS3_OK, .COMMIT3res_u.resok = {.file_wcc = wcc(), .verf = "BOOTVER"}};
	struct message m = encoded((zdrproc_t)zdr_COMMIT3res, &peer);
	struct nfs3_commit_res res;
	assert_int_equal(m.len, nfs3_procs[NFSPROC3_COMMIT].reply_bytes);
	check_whole_and_cut(dec_commit, &m, &res, sizeof res);
	assert_memory_equal(res.verf, "BOOTVER", 8);
	check_wcc(&res.wcc);
	COMMIT3res no = {.status = NFS3ERR_IO, .COMMIT3res_u.resfail.file_wcc = wcc()};
	m = encoded((zdrproc_t)zdr_COMMIT3res, &no);
	check_whole_and_cut(dec_commit, &m, &res, sizeof res);
	check_wcc(&res.wcc);
}

/* ---- ACLs ---- */

static nfsacl_ace ace(uint32_t type, uint32_t id, uint32_t perm)
{
	return (nfsacl_ace){.type = (nfsacl_type)type, .id = id, .perm = perm};
}

#define ACL_WORD (1 + 22) /* of the mask, behind status and attributes */

static struct message acl_message(nfsacl_ace *access, u_int naccess, nfsacl_ace *dflt, u_int ndflt)
{
	GETACL3res peer = {.status = NFS3_OK,
			   .GETACL3res_u.resok = {.attr = post(),
						  .mask = 15,
						  .ace_count = naccess,
						  .ace = {naccess, access},
						  .default_ace_count = ndflt,
						  .default_ace = {ndflt, dflt}}};
	return encoded((zdrproc_t)zdr_GETACL3res, &peer);
}

static void check_entry(const struct acl_entry *e, uint32_t tag, uint32_t id, uint32_t perm)
{
	assert_int_equal(e->tag, tag);
	assert_int_equal(e->id, id);
	assert_int_equal(e->perm, perm);
}

/* In any order, with the owner's ids, a default ACL that says no more than a mode. */
static void getacl_reply(void **state)
{
	nfsacl_ace access[] = {ace(32, 0, 0),  ace(16, 0, 0xffffffff), ace(8, 7, 4),   ace(2, 64531, 6),
			       ace(4, 100, 5), ace(2, 9, 1),	       ace(1, 1000, 7)};
	nfsacl_ace dflt[] = {ace(0x1001, 1000, 7), ace(0x1004, 100, 5), ace(0x1010, 0, 5), ace(0x1020, 0, 1)};
	struct message m = acl_message(access, 7, dflt, 4);
	struct nfs3_getacl_res res;
	assert_int_equal(m.len, nfs3_procs[NFSPROC3_GETACL].reply_bytes + 11 * NFS3_W_ACE);
	check_whole_and_cut(dec_getacl, &m, &res, sizeof res);
	check_post(&res.attr);
	assert_int_equal(res.access.count, 7);
	check_entry(&res.access.entries[0], ACL_TAG_USER_OBJ, ACL_NO_ID, 7);
	check_entry(&res.access.entries[1], ACL_TAG_USER, 9, 1);
	check_entry(&res.access.entries[2], ACL_TAG_USER, 64531, 6);
	check_entry(&res.access.entries[3], ACL_TAG_GROUP_OBJ, ACL_NO_ID, 5);
	check_entry(&res.access.entries[4], ACL_TAG_GROUP, 7, 4);
	check_entry(&res.access.entries[5], ACL_TAG_MASK, ACL_NO_ID, 7); /* Solaris sets more bits */
	check_entry(&res.access.entries[6], ACL_TAG_OTHER, ACL_NO_ID, 0);
	assert_int_equal(res.dflt.count, 3); /* without the mask that repeats */
	check_entry(&res.dflt.entries[2], ACL_TAG_OTHER, ACL_NO_ID, 1);
}

static void refused_getacl_and_setacl(void **state)
{
	struct message m = acl_message(NULL, 0, NULL, 0);
	struct nfs3_getacl_res res;
	struct nfs3_setacl_res set;
	patch(&m, 0, NFS3ERR_STALE);
	m.len = 4 * ACL_WORD;
	check_whole_and_cut(dec_getacl, &m, &res, sizeof res);
	assert_int_equal(res.status, NFS3ERR_STALE);
	check_post(&res.attr);
	assert_int_equal(m.len, nfs3_procs[NFSPROC3_SETACL].reply_bytes);
	check_whole_and_cut(dec_setacl, &m, &set, sizeof set);
	assert_int_equal(set.status, NFS3ERR_STALE);
	check_post(&set.attr);
}

static void an_acl_that_was_not_asked_for_may_be_missing(void **state)
{
	nfsacl_ace access[] = {ace(1, 0, 6), ace(4, 0, 4), ace(16, 0, 4), ace(32, 0, 4)};
	struct message m = acl_message(access, 4, NULL, 0);
	struct xdr_reader r = xdr_reader(m.words, m.len);
	struct nfs3_getacl_res res;
	patch(&m, ACL_WORD, 3);
	check_bad(dec_getacl, &m);
	assert_int_equal(nfs3_decode_getacl(&r, 3, &res), 0);
	assert_int_equal(res.access.count, 3);
	assert_int_equal(res.dflt.count, 0);
}

static void acls_that_do_not_add_up_are_bad(void **state)
{
	nfsacl_ace good[] = {ace(1, 0, 6), ace(2, 7, 4), ace(4, 0, 4), ace(16, 0, 4), ace(32, 0, 4)};
	const struct message whole = acl_message(good, 5, NULL, 0);
	const size_t first = ACL_WORD + 3; /* entry: type, id, permissions */
	const struct {
		size_t word;
		uint32_t value;
	} lies[] = {
		{ACL_WORD + 1, 4}, /* the count says another number than the array */
		{ACL_WORD + 2, 4},    {ACL_WORD + 2, 0xffffffff},
		{first, 0}, /* no type */
		{first, 3},	      {first, 64},
		{first, 0x10001},     {first, 4},		   /* no owner, two owning groups */
		{first + 2, 8},					   /* permissions that there are not */
		{first + 2, 0x10007}, {first + 3 + 1, 0xffffffff}, /* who is nobody */
		{first + 9, 8},					   /* no mask, though somebody is named */
		{first + 12, 16},				   /* two masks, no others */
	};
	for (size_t i = 0; i < sizeof lies / sizeof *lies; i++) {
		struct message m = whole;
		patch(&m, lies[i].word, lies[i].value);
		check_bad(dec_getacl, &m);
	}
}

/* As many as there may be, backwards; and one more. */
static void an_acl_has_at_most_1024_entries(void **state)
{
	nfsacl_ace many[ACL_ENTRIES_MAX + 1];
	for (u_int i = 0; i < ACL_ENTRIES_MAX + 1; i++)
		many[i] = ace(2, ACL_ENTRIES_MAX - i, 4);
	many[0] = ace(32, 0, 0);
	many[1] = ace(16, 0, 7);
	many[2] = ace(4, 0, 5);
	many[3] = ace(1, 0, 7);
	struct message m = acl_message(many, ACL_ENTRIES_MAX, NULL, 0);
	struct nfs3_getacl_res res;
	assert_int_equal(decode_exactly(dec_getacl, m.words, m.len, &res), 0);
	assert_int_equal(res.access.count, ACL_ENTRIES_MAX);
	check_entry(&res.access.entries[1], ACL_TAG_USER, 1, 4);
	check_entry(&res.access.entries[ACL_ENTRIES_MAX - 4], ACL_TAG_USER, ACL_ENTRIES_MAX - 4, 4);
	m = acl_message(many, ACL_ENTRIES_MAX + 1, NULL, 0);
	check_bad(dec_getacl, &m);
}

/* ---- directory listings ---- */

static entryplus3 plus_entry(uint64_t n, const char *name)
{
	return (entryplus3){.fileid = n,
			    .name = (char *)name,
			    .cookie = 100 + n,
			    .name_attributes = post(),
			    .name_handle = {1, {handle(28)}}};
}

static struct message plus_message(entryplus3 *entries, size_t n, bool eof)
{
	for (size_t i = 0; i + 1 < n; i++)
		entries[i].nextentry = &entries[i + 1];
	READDIRPLUS3res peer = {.status = NFS3_OK,
				.READDIRPLUS3res_u.resok = {.dir_attributes = post(),
							    .cookieverf = "COOKIEV",
							    .reply = {n ? entries : NULL, eof}}};
	return encoded((zdrproc_t)zdr_READDIRPLUS3res, &peer);
}

/* Walks a listing of len bytes to its end or its break; returns how many entries came, or the error. */
static int walk(const struct message *m, size_t len, bool plus, struct nfs3_list *list,
		struct nfs3_list_head *head)
{
	uint8_t *copy = malloc(len ? len : 1);
	memcpy(copy, m->words, len);
	struct xdr_reader r = xdr_reader(copy, len);
	struct nfs3_entry e;
	int n = 0, err = nfs3_list_begin(list, &r, plus, head);
	while (!err && (err = nfs3_list_next(list, &e)) == 1) {
		assert_true(e.name_len > 0 && memchr(copy, e.name[0], len));
		err = 0;
		n++;
	}
	if (err)
		assert_int_equal(nfs3_list_next(list, &e), list->done ? 0 : err);
	free(copy);
	return err ? err : n;
}

static void readdirplus_listing(void **state)
{
	entryplus3 e[] = {plus_entry(1, "."), plus_entry(2, ".."), plus_entry(3, "file"),
			  plus_entry(4, "...")};
	e[2].name_attributes.attributes_follow = 0;
	e[3].name_handle.handle_follows = 0;
	struct message m = plus_message(e, 4, true);
	struct xdr_reader r = xdr_reader(m.words, m.len);
	struct nfs3_list list;
	struct nfs3_list_head head;
	struct nfs3_entry got;
	assert_int_equal(nfs3_list_begin(&list, &r, true, &head), 0);
	check_post(&head.dir_attr);
	assert_memory_equal(head.verf, "COOKIEV", 8);
	static const char *const names[] = {".", "..", "file", "..."};
	for (uint64_t i = 0; i < 4; i++) {
		assert_int_equal(nfs3_list_next(&list, &got), 1);
		assert_int_equal(got.name_len, strlen(names[i]));
		assert_memory_equal(got.name, names[i], got.name_len);
		assert_int_equal(got.fileid, i + 1);
		assert_int_equal(got.cookie, 101 + i);
		assert_int_equal(got.dot, i < 2);
		assert_int_equal(got.attr.present, i != 2);
		assert_int_equal(got.fh.present, i != 3);
		if (got.attr.present)
			check_attr(&got.attr.attr);
		if (got.fh.present)
			check_fh(&got.fh.fh, 28);
	}
	assert_int_equal(nfs3_list_next(&list, &got), 0);
	assert_int_equal(nfs3_list_next(&list, &got), 0);
	assert_true(list.eof);
	assert_int_equal(list.cookie, 104);
	assert_int_equal(list.skipped, 0);
}

static void readdir_listing(void **state)
{
	entry3 second = {.fileid = 2, .name = (char *)"b", .cookie = 20};
	entry3 first = {.fileid = 1, .name = (char *)"a", .cookie = 10, .nextentry = &second};
	READDIR3res peer = {.status = NFS3_OK,
			    .READDIR3res_u.resok = {.dir_attributes = post(), .reply = {&first, 0}}};
	struct message m = encoded((zdrproc_t)zdr_READDIR3res, &peer);
	struct nfs3_list list;
	struct nfs3_list_head head;
	assert_int_equal(walk(&m, m.len, false, &list, &head), 2);
	assert_false(list.eof);
	assert_int_equal(list.cookie, 20);
	for (size_t len = 0; len < m.len; len++)
		assert_int_equal(walk(&m, len, false, &list, &head), -EBADMSG);
}

static void empty_listing_and_refusal(void **state)
{
	struct nfs3_list list;
	struct nfs3_list_head head;
	struct message m = plus_message(NULL, 0, true);
	assert_int_equal(walk(&m, m.len, true, &list, &head), 0);
	assert_true(list.eof);
	READDIRPLUS3res no = {.status = NFS3ERR_BAD_COOKIE,
			      .READDIRPLUS3res_u.resfail.dir_attributes = post()};
	m = encoded((zdrproc_t)zdr_READDIRPLUS3res, &no);
	assert_int_equal(walk(&m, m.len, true, &list, &head), 0);
	assert_false(list.eof);
	assert_int_equal(head.status, NFS3ERR_BAD_COOKIE);
	check_post(&head.dir_attr);
}

static void a_listing_cut_anywhere_is_broken(void **state)
{
	entryplus3 e[] = {plus_entry(1, "one"), plus_entry(2, "three")};
	struct message m = plus_message(e, 2, true);
	struct nfs3_list list;
	struct nfs3_list_head head;
	for (size_t len = 0; len < m.len; len++) {
		assert_int_equal(walk(&m, len, true, &list, &head), -EBADMSG);
		assert_false(list.eof);
	}
	assert_int_equal(walk(&m, m.len, true, &list, &head), 2);
}

static void names_that_linux_cannot_hold_are_skipped_and_counted(void **state)
{
	char longest[256], too_long[257];
	memset(longest, 'n', 255);
	longest[255] = 0;
	memset(too_long, 'n', 256);
	too_long[256] = 0;
	entryplus3 e[] = {plus_entry(1, "good"), plus_entry(2, ""),	 plus_entry(3, too_long),
			  plus_entry(4, "a/b"),	 plus_entry(5, longest), plus_entry(6, "/"),
			  plus_entry(7, "nXl")};
	struct message m = plus_message(e, 7, false);
	char *nul = memmem(m.words, m.len, "nXl", 3);
	nul[1] = 0;
	struct nfs3_list list;
	struct nfs3_list_head head;
	assert_int_equal(walk(&m, m.len, true, &list, &head), 2);
	assert_int_equal(list.skipped, 5);
	assert_int_equal(list.cookie, 107); /* and yet the next call goes on behind them */
}

static void listing_lengths_are_not_believed(void **state)
{
	static const uint32_t lies[] = {0xfffffff0, 0xfffffffd, 0xffffffff, 0x80000000, 4096};
	entryplus3 e[] = {plus_entry(1, "name")};
	struct message m = plus_message(e, 1, true);
	size_t name_len =
		1 + NFS3_W_POST_ATTR / 4 + 2 + 1 + 2; /* status, attributes, verifier, follows, fileid */
	size_t fh_len = name_len + 1 + 1 + 2 + NFS3_W_POST_ATTR / 4 + 1;
	struct nfs3_list list;
	struct nfs3_list_head head;
	assert_int_equal(be32toh(m.words[name_len]), 4);
	assert_int_equal(be32toh(m.words[fh_len]), 28);
	for (size_t i = 0; i < 5; i++) {
		patch(&m, name_len, lies[i]);
		assert_int_equal(walk(&m, m.len, true, &list, &head), -EBADMSG);
		patch(&m, name_len, 4);
		patch(&m, fh_len, lies[i]);
		assert_int_equal(walk(&m, m.len, true, &list, &head), -EBADMSG);
		patch(&m, fh_len, 28);
	}
	patch(&m, fh_len, 0);
	assert_int_equal(walk(&m, m.len, true, &list, &head), -EBADMSG);
}

static void a_very_long_listing_needs_no_stack(void **state)
{
	enum { N = 1000000 };
	const size_t words = 1 + 1 + 2 + (size_t)N * 7 + 2;
	uint32_t *msg = malloc(words * 4), *p = msg;
	struct nfs3_list list;
	struct nfs3_list_head head;
	struct nfs3_entry e;
	int n = 0;
	*p++ = 0;
	*p++ = 0;
	*p++ = 0;
	*p++ = 0;
	for (uint32_t i = 0; i < N; i++) { /* follows, fileid, name "x", cookie */
		*p++ = htobe32(1);
		*p++ = 0;
		*p++ = htobe32(i);
		*p++ = htobe32(1);
		memcpy(p++, "x\0\0", 4);
		*p++ = 0;
		*p++ = htobe32(i);
	}
	*p++ = 0;
	*p++ = htobe32(1);
	struct xdr_reader r = xdr_reader(msg, words * 4);
	assert_int_equal(nfs3_list_begin(&list, &r, false, &head), 0);
	while (nfs3_list_next(&list, &e) == 1)
		n++;
	assert_int_equal(n, N);
	assert_true(list.eof);
	free(msg);
}

/* ---- noise: words replaced at random (the same ones in each run), lengths cut at random ---- */

static uint32_t noise_state = 2463534242u;

static uint32_t noise(void)
{
	noise_state ^= noise_state << 13;
	noise_state ^= noise_state >> 17;
	return noise_state ^= noise_state << 5;
}

/* A word of the kinds that matter: small numbers, limits and their neighbours, anything. */
static uint32_t noise_word(void)
{
	static const uint32_t edges[] = {0,	     1,		 2,	     7,		8,    63,
					 64,	     65,	 255,	     256,	4095, 4096,
					 0x7fffffff, 0x80000000, 0xfffffff0, 0xffffffff};
	return noise() & 1 ? edges[noise() % 16] : noise() % 4 ? noise() % 100 : noise();
}

static struct message bent(const struct message *m)
{
	struct message b = *m;
	for (uint32_t n = noise() % 4; n > 0; n--)
		patch(&b, noise() % (m->len / 4), noise_word());
	if (noise() % 4 == 0)
		b.len = noise() % (m->len + 1);
	return b;
}

/* Whatever comes, a decoder either refuses or hands out what keeps its promises; the sanitizers watch the
 * rest. */
static void bent_replies_are_refused_or_keep_the_limits(void **state)
{
	READ3res read = read_peer(64, 64);
	LOOKUP3res lookup = lookup_peer(64);
	READLINK3res link = {.status = NFS3_OK, .READLINK3res_u.resok = {post(), (char *)"../some/where"}};
	CREATE3res create = {.status = NFS3_OK, .CREATE3res_u.resok = {{1, {handle(64)}}, post(), wcc()}};
	struct message reads = encoded((zdrproc_t)zdr_READ3res, &read);
	struct message lookups = encoded((zdrproc_t)zdr_LOOKUP3res, &lookup);
	struct message links = encoded((zdrproc_t)zdr_READLINK3res, &link);
	struct message creates = encoded((zdrproc_t)zdr_CREATE3res, &create);
	nfsacl_ace aces[] = {ace(1, 0, 6), ace(2, 7, 4), ace(4, 0, 4), ace(16, 0, 4), ace(32, 0, 4)};
	struct message acls = acl_message(aces, 5, aces, 0);
	unsigned int good = 0, bad = 0;
	for (int i = 0; i < 20000; i++) {
		struct nfs3_getacl_res a;
		struct nfs3_read_res r;
		struct nfs3_lookup_res l;
		struct nfs3_readlink_res rl;
		struct nfs3_create_res c;
		struct message m = bent(&reads);
		int err = decode_exactly(dec_read, m.words, m.len, &r);
		assert_true(err == 0 || err == -EBADMSG);
		assert_true(err || r.count <= 64);
		m = bent(&lookups);
		err = decode_exactly(dec_lookup, m.words, m.len, &l);
		assert_true(err == 0 || err == -EBADMSG);
		assert_true(err || l.status || (l.fh.len >= 1 && l.fh.len <= 64));
		m = bent(&acls);
		err = decode_exactly(dec_getacl, m.words, m.len, &a);
		assert_true(err == 0 || err == -EBADMSG);
		assert_true(err || a.access.count == 0 || acl_valid(&a.access));
		m = bent(&links);
		err = decode_exactly(dec_readlink, m.words, m.len, &rl);
		assert_true(err == 0 || err == -EBADMSG);
		assert_true(err || rl.len <= NFS3_PATH_MAX);
		m = bent(&creates);
		err = decode_exactly(dec_create, m.words, m.len, &c);
		assert_true(err == 0 || err == -EBADMSG);
		assert_true(err || !c.fh.present || (c.fh.fh.len >= 1 && c.fh.fh.len <= 64));
		good += err == 0;
		bad += err != 0;
	}
	assert_true(good > 1000 && bad > 1000); /* the noise reaches both */
}

static void bent_listings_end(void **state)
{
	entryplus3 e[] = {plus_entry(1, "one"), plus_entry(2, "three"), plus_entry(3, "fifteen letters")};
	struct message listing = plus_message(e, 3, true);
	unsigned int good = 0, bad = 0;
	for (int i = 0; i < 20000; i++) {
		struct nfs3_list list;
		struct nfs3_list_head head;
		struct message m = bent(&listing);
		int n = walk(&m, m.len, noise() % 8 != 0, &list, &head);
		assert_true(n >= 0 || n == -EBADMSG);
		good += n >= 0;
		bad += n < 0;
	}
	assert_true(good > 1000 && bad > 1000);
}

/* ---- the RPC reply header ---- */

static struct message words(size_t n, const uint32_t *w)
{
	struct message m = {.len = n * 4};
	for (size_t i = 0; i < n; i++)
		patch(&m, i, w[i]);
	return m;
}
#define WORDS(...) words(sizeof((uint32_t[]){__VA_ARGS__}) / 4, (uint32_t[]){__VA_ARGS__})

static int header_of(struct message m)
{
	return decode_exactly(dec_header, m.words, m.len, NULL);
}

static void accepted_headers(void **state)
{
	struct message ok = WORDS(7, 1, 0, 0, 0, 0, 0xabcd);
	struct xdr_reader r = xdr_reader(ok.words, ok.len);
	assert_int_equal(nfs3_reply_header(&r), 0);
	assert_int_equal(xdr_u32(&r), 0xabcd); /* left at the result */
	for (size_t len = 0; len < NFS3_W_RPC_REPLY; len++)
		assert_int_equal(decode_exactly(dec_header, ok.words, len, NULL), -EBADMSG);
	assert_int_equal(header_of(WORDS(7, 1, 0, 1, 5, 0x61626364, 0x65000000, 0)),
			 0); /* a verifier of 5 bytes */
	assert_int_equal(header_of(WORDS(7, 1, 0, 0, 0, 1)), -EPROTONOSUPPORT);
	assert_int_equal(header_of(WORDS(7, 1, 0, 0, 0, 2, 2, 2)), -EPROTONOSUPPORT);
	assert_int_equal(header_of(WORDS(7, 1, 0, 0, 0, 3)), -EOPNOTSUPP);
	assert_int_equal(header_of(WORDS(7, 1, 0, 0, 0, 4)), -EIO);
	assert_int_equal(header_of(WORDS(7, 1, 0, 0, 0, 5)), -EIO);
	assert_int_equal(header_of(WORDS(7, 1, 0, 0, 0, 6)), -EBADMSG);
}

static void denied_and_broken_headers(void **state)
{
	for (uint32_t why = 1; why < 15; why++)
		assert_int_equal(header_of(WORDS(7, 1, 1, 1, why)), -EACCES);
	assert_int_equal(header_of(WORDS(7, 1, 1, 0, 2, 2)), -EPROTONOSUPPORT);
	assert_int_equal(header_of(WORDS(7, 1, 1, 2, 1)), -EBADMSG);
	assert_int_equal(header_of(WORDS(7, 1, 1, 1)), -EBADMSG);
	assert_int_equal(header_of(WORDS(7, 1, 2, 1, 1, 1)), -EBADMSG);
	assert_int_equal(header_of(WORDS(7, 0, 0, 0, 0, 0)), -EBADMSG); /* a call */
	static const uint32_t lies[] = {401, 404, 0xfffffff0, 0xffffffff, 8};
	for (size_t i = 0; i < 5; i++)
		assert_int_equal(header_of(WORDS(7, 1, 0, 0, lies[i], 0)), -EBADMSG);
}

/* ---- statuses ---- */

static void statuses_become_errno(void **state)
{
	static const struct {
		uint32_t status;
		int err;
	} cases[] = {
		{0, 0},
		{1, -EPERM},
		{2, -ENOENT},
		{5, -EIO},
		{6, -ENXIO},
		{13, -EACCES},
		{17, -EEXIST},
		{18, -EXDEV},
		{19, -ENODEV},
		{20, -ENOTDIR},
		{21, -EISDIR},
		{22, -EINVAL},
		{27, -EFBIG},
		{28, -ENOSPC},
		{30, -EROFS},
		{31, -EMLINK},
		{63, -ENAMETOOLONG},
		{66, -ENOTEMPTY},
		{69, -EDQUOT},
		{70, -ESTALE},
		{71, -EREMOTE},
		{10001, -ESTALE},
		{10002, -EIO},
		{10003, -EIO},
		{10004, -EOPNOTSUPP},
		{10005, -EIO},
		{10006, -EREMOTEIO},
		{10007, -EOPNOTSUPP},
		{10008, -EAGAIN},
		{3, -EIO},
		{11, -EIO},
		{10009, -EIO},
		{0xffffffff, -EIO},
	};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
		assert_int_equal(nfs3_errno(cases[i].status), cases[i].err);
}

static void only_jukebox_says_try_again(void **state)
{
	for (uint32_t status = 0; status < 20000; status++)
		assert_int_equal(nfs3_errno(status) == -EAGAIN, status == NFS3ERR_JUKEBOX);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(getattr_reply),
		cmocka_unit_test(file_types_outside_the_protocol_are_bad),
		cmocka_unit_test(nanoseconds_beyond_a_second_are_clamped),
		cmocka_unit_test(setattr_and_remove_replies),
		cmocka_unit_test(attributes_may_be_missing),
		cmocka_unit_test(a_boolean_is_zero_or_one),
		cmocka_unit_test(lookup_reply),
		cmocka_unit_test(handles_of_no_or_too_many_bytes_are_bad),
		cmocka_unit_test(access_reply_grants_nothing_unasked),
		cmocka_unit_test(read_reply_with_inline_data),
		cmocka_unit_test(read_reply_with_placed_data),
		cmocka_unit_test(read_replies_that_do_not_add_up_are_bad),
		cmocka_unit_test(refused_read),
		cmocka_unit_test(readlink_reply),
		cmocka_unit_test(paths_that_no_link_holds_are_bad),
		cmocka_unit_test(write_reply),
		cmocka_unit_test(create_reply),
		cmocka_unit_test(rename_and_link_replies),
		cmocka_unit_test(file_system_replies),
		cmocka_unit_test(commit_reply),
		cmocka_unit_test(getacl_reply),
		cmocka_unit_test(refused_getacl_and_setacl),
		cmocka_unit_test(an_acl_that_was_not_asked_for_may_be_missing),
		cmocka_unit_test(acls_that_do_not_add_up_are_bad),
		cmocka_unit_test(an_acl_has_at_most_1024_entries),
		cmocka_unit_test(readdirplus_listing),
		cmocka_unit_test(readdir_listing),
		cmocka_unit_test(empty_listing_and_refusal),
		cmocka_unit_test(a_listing_cut_anywhere_is_broken),
		cmocka_unit_test(names_that_linux_cannot_hold_are_skipped_and_counted),
		cmocka_unit_test(listing_lengths_are_not_believed),
		cmocka_unit_test(a_very_long_listing_needs_no_stack),
		cmocka_unit_test(bent_replies_are_refused_or_keep_the_limits),
		cmocka_unit_test(bent_listings_end),
		cmocka_unit_test(accepted_headers),
		cmocka_unit_test(denied_and_broken_headers),
		cmocka_unit_test(statuses_become_errno),
		cmocka_unit_test(only_jukebox_says_try_again),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
