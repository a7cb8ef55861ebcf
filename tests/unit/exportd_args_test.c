/* SPDX-License-Identifier: MIT
 *
 * What the server decodes from a client: the RPC header, the arguments of each procedure cut off at every
 * byte, payload that came by DDP, and the mapping of errno.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "nfs3.h"
#include "rpc.h"

struct msg {
	uint8_t bytes[1024];
	struct xdr_writer w;
};

static void msg_init(struct msg *m)
{
	m->w = xdr_writer(m->bytes, sizeof m->bytes);
}

static void put_fh(struct xdr_writer *w, uint32_t len)
{
	uint8_t fh[FH_MAX_BYTES + 4];
	memset(fh, 0xab, sizeof fh);
	xdr_put_opaque(w, fh, len);
}

static void put_sattr(struct xdr_writer *w)
{
	for (uint32_t i = 0; i < 3; i++) { /* mode, uid, gid */
		xdr_put_u32(w, 1);
		xdr_put_u32(w, 0644 + i);
	}
	xdr_put_u32(w, 1);
	xdr_put_u64(w, 0x123456789a);
	xdr_put_u32(w, SET_TO_SERVER_TIME);
	xdr_put_u32(w, SET_TO_CLIENT_TIME);
	xdr_put_u32(w, 11);
	xdr_put_u32(w, 12);
}

static void put_dirop(struct xdr_writer *w)
{
	put_fh(w, 28);
	xdr_put_opaque(w, "hello", 5);
}

static void put_setattr(struct xdr_writer *w)
{
	put_fh(w, 28);
	put_sattr(w);
	xdr_put_u32(w, 1);
	xdr_put_u64(w, 0x0000000500000006);
}

static void put_fh_u32(struct xdr_writer *w)
{
	put_fh(w, 28);
	xdr_put_u32(w, 0x3f);
}

static void put_fh_only(struct xdr_writer *w)
{
	put_fh(w, 64);
}

static void put_read(struct xdr_writer *w)
{
	put_fh(w, 28);
	xdr_put_u64(w, 1ull << 40);
	xdr_put_u32(w, 65536);
}

static void put_write(struct xdr_writer *w)
{
	put_read(w);
	w->pos -= 4;
	xdr_put_u32(w, 9);
	xdr_put_u32(w, FILE_SYNC);
	xdr_put_opaque(w, "nine byte", 9);
}

static void put_create(struct xdr_writer *w)
{
	put_dirop(w);
	xdr_put_u32(w, GUARDED);
	put_sattr(w);
}

static void put_exclusive(struct xdr_writer *w)
{
	put_dirop(w);
	xdr_put_u32(w, EXCLUSIVE);
	xdr_put_u64(w, 0x0102030405060708);
}

static void put_mkdir(struct xdr_writer *w)
{
	put_dirop(w);
	put_sattr(w);
}

static void put_symlink(struct xdr_writer *w)
{
	put_mkdir(w);
	xdr_put_opaque(w, "../target", 9);
}

static void put_mknod(struct xdr_writer *w)
{
	put_dirop(w);
	xdr_put_u32(w, NF3CHR);
	put_sattr(w);
	xdr_put_u32(w, 1);
	xdr_put_u32(w, 3);
}

static void put_rename(struct xdr_writer *w)
{
	put_dirop(w);
	put_dirop(w);
}

static void put_link(struct xdr_writer *w)
{
	put_fh(w, 28);
	put_dirop(w);
}

static void put_readdir(struct xdr_writer *w)
{
	put_fh(w, 28);
	xdr_put_u64(w, 42);
	xdr_put_u64(w, 0);
	xdr_put_u32(w, 8192);
}

static void put_readdirplus(struct xdr_writer *w)
{
	put_readdir(w);
	xdr_put_u32(w, 32768);
}

static void put_aces(struct xdr_writer *w, uint32_t n)
{
	xdr_put_u32(w, n);
	xdr_put_u32(w, n);
	for (uint32_t i = 0; i < 3 * n; i++)
		xdr_put_u32(w, i);
}

static void put_setacl(struct xdr_writer *w)
{
	put_fh(w, 28);
	xdr_put_u32(w, NFSACL_ACCESS | NFSACL_DFLT);
	put_aces(w, 5);
	put_aces(w, 4);
}

static const struct {
	const char *name;
	nfs3_decode *decode;
	void (*put)(struct xdr_writer *w);
} decoders[] = {
	{"fh", nfs3_decode_fh, put_fh_only},
	{"SETATTR", nfs3_decode_setattr, put_setattr},
	{"LOOKUP", nfs3_decode_dirop, put_dirop},
	{"ACCESS", nfs3_decode_access, put_fh_u32},
	{"READ", nfs3_decode_read, put_read},
	{"WRITE", nfs3_decode_write, put_write},
	{"CREATE", nfs3_decode_create, put_create},
	{"CREATE exclusive", nfs3_decode_create, put_exclusive},
	{"MKDIR", nfs3_decode_mkdir, put_mkdir},
	{"SYMLINK", nfs3_decode_symlink, put_symlink},
	{"MKNOD", nfs3_decode_mknod, put_mknod},
	{"RENAME", nfs3_decode_rename, put_rename},
	{"LINK", nfs3_decode_link, put_link},
	{"READDIR", nfs3_decode_readdir, put_readdir},
	{"READDIRPLUS", nfs3_decode_readdirplus, put_readdirplus},
	{"COMMIT", nfs3_decode_commit, put_read},
	{"GETACL", nfs3_decode_getacl, put_fh_u32},
	{"SETACL", nfs3_decode_setacl, put_setacl},
};
#define DECODERS (sizeof decoders / sizeof *decoders)

/* In memory of exactly this size, so that a sanitizer sees a read behind it. */
static bool decode_cut(nfs3_decode *decode, const uint8_t *bytes, size_t len, struct nfs3_args *args)
{
	uint8_t *copy = malloc(len ? len : 1);
	struct nfs3_ddp none = {.msg = copy};
	memcpy(copy, bytes, len);
	struct xdr_reader r = xdr_reader(copy, len);
	bool ok = decode(&r, &none, args);
	free(copy);
	return ok;
}

static void arguments_cut_anywhere_are_refused(void **state)
{
	for (size_t i = 0; i < DECODERS; i++) {
		struct msg m;
		struct nfs3_args args = {0};
		msg_init(&m);
		decoders[i].put(&m.w);
		size_t len = xdr_written(&m.w);
		for (size_t cut = 0; cut < len; cut++)
			if (decode_cut(decoders[i].decode, m.bytes, cut, &args))
				fail_msg("%s cut to %zu of %zu bytes was accepted", decoders[i].name, cut,
					 len);
		if (!decode_cut(decoders[i].decode, m.bytes, len, &args))
			fail_msg("%s was not accepted whole", decoders[i].name);
	}
}

static void every_word_may_be_anything(void **state)
{
	static const uint32_t odd[] = {0, 1, 2, 64, 65, 0x7fffffff, 0x80000000, 0xfffffff0, 0xffffffff};
	for (size_t i = 0; i < DECODERS; i++) {
		struct msg m;
		msg_init(&m);
		decoders[i].put(&m.w);
		size_t len = xdr_written(&m.w);
		for (size_t at = 0; at + 4 <= len; at += 4)
			for (size_t o = 0; o < sizeof odd / sizeof *odd; o++) {
				struct nfs3_args args = {0};
				uint8_t bytes[sizeof m.bytes];
				uint32_t word = htobe32(odd[o]);
				memcpy(bytes, m.bytes, len);
				memcpy(bytes + at, &word, sizeof word);
				if (!decode_cut(decoders[i].decode, bytes, len, &args))
					continue;
				assert_true(args.fh.len_bytes <= FH_MAX_BYTES);
				assert_true(args.fh2.len_bytes <= FH_MAX_BYTES);
				assert_true(args.name.len_bytes <= len);
				assert_true(args.data.len_bytes <= len);
				assert_true(args.acl.len * NFSACL_ENTRY_BYTES <= len);
			}
	}
}

static void what_was_encoded_is_decoded(void **state)
{
	struct msg m;
	struct nfs3_args a = {0};
	msg_init(&m);
	put_setattr(&m.w);
	assert_true(decode_cut(nfs3_decode_setattr, m.bytes, xdr_written(&m.w), &a));
	assert_int_equal(a.fh.len_bytes, 28);
	assert_int_equal(a.attr.mode, 0644);
	assert_int_equal(a.attr.uid, 0645);
	assert_int_equal(a.attr.gid, 0646);
	assert_true(a.attr.size == 0x123456789a);
	assert_int_equal(a.attr.atime_how, SET_TO_SERVER_TIME);
	assert_int_equal(a.attr.mtime_how, SET_TO_CLIENT_TIME);
	assert_int_equal(a.attr.mtime.sec, 11);
	assert_int_equal(a.attr.mtime.nsec, 12);
	assert_true(a.guarded);
	assert_int_equal(a.guard.sec, 5);
	assert_int_equal(a.guard.nsec, 6);
}

static void a_handle_of_65_bytes_is_refused(void **state)
{
	struct msg m;
	struct nfs3_args a = {0};
	msg_init(&m);
	put_fh(&m.w, FH_MAX_BYTES + 1);
	assert_false(decode_cut(nfs3_decode_fh, m.bytes, xdr_written(&m.w), &a));
}

static void a_write_of_less_data_than_its_count_is_refused(void **state)
{
	struct msg m;
	struct nfs3_args a = {0};
	msg_init(&m);
	put_write(&m.w);
	m.bytes[4 + 28 + 8 + 3]++; /* count: 10 */
	assert_false(decode_cut(nfs3_decode_write, m.bytes, xdr_written(&m.w), &a));
}

static bool decode_setacl(uint32_t mask, uint32_t count, uint32_t len, struct nfs3_args *a)
{
	static uint8_t bytes[64 + 2 * (ACL_ENTRIES_MAX + 1) * NFSACL_ENTRY_BYTES];
	struct xdr_writer w = xdr_writer(bytes, sizeof bytes);
	put_fh(&w, 28);
	xdr_put_u32(&w, mask);
	xdr_put_u32(&w, count);
	xdr_put_u32(&w, len);
	for (uint32_t i = 0; i < 3 * len && !w.stuck; i++)
		xdr_put_u32(&w, 1);
	put_aces(&w, 0);
	*a = (struct nfs3_args){0};
	return decode_cut(nfs3_decode_setacl, bytes, xdr_written(&w), a);
}

static void acls_have_at_most_1024_entries_and_as_many_as_they_say(void **state)
{
	struct nfs3_args a;
	assert_true(decode_setacl(NFSACL_ACCESS, ACL_ENTRIES_MAX, ACL_ENTRIES_MAX, &a));
	assert_int_equal(a.acl.len, ACL_ENTRIES_MAX);
	assert_false(decode_setacl(NFSACL_ACCESS, ACL_ENTRIES_MAX + 1, ACL_ENTRIES_MAX + 1, &a));
	assert_false(decode_setacl(NFSACL_ACCESS, 3, 4, &a));
	assert_true(decode_setacl(NFSACL_DFLT, 3, 4, &a)); /* of what is not set a count may come alone */
	assert_int_equal(a.acl.len, 0);
	assert_false(decode_setacl(16, 0, 0, &a));
}

/* A WRITE whose data was taken out of the message: its length word is the last of it. */
static bool decode_ddp(uint32_t chunk_len, uint32_t pos_off, struct nfs3_args *a, const uint8_t **data)
{
	static uint8_t chunk[64];
	struct msg m;
	msg_init(&m);
	put_write(&m.w);
	uint32_t pos = (uint32_t)xdr_written(&m.w) - 12;
	struct nfs3_ddp ddp = {m.bytes, chunk, chunk_len, pos + pos_off};
	struct xdr_reader r = xdr_reader(m.bytes, pos);
	*data = chunk;
	return nfs3_decode_write(&r, &ddp, a);
}

static void data_that_came_by_ddp_is_found(void **state)
{
	struct nfs3_args a = {0};
	const uint8_t *data;
	assert_true(decode_ddp(9, 0, &a, &data));
	assert_ptr_equal(a.data.bytes, data);
	assert_int_equal(a.data.len_bytes, 9);
	assert_true(decode_ddp(12, 0, &a, &data)); /* padding in the chunk is legal */
	assert_int_equal(a.data.len_bytes, 9);
}

static void a_chunk_that_is_short_or_elsewhere_is_refused(void **state)
{
	struct nfs3_args a = {0};
	const uint8_t *data;
	assert_false(decode_ddp(8, 0, &a, &data));
	assert_false(decode_ddp(9, 4, &a, &data));
	assert_false(decode_ddp(9, -4u, &a, &data));
}

static void errno_becomes_the_status_that_means_it(void **state)
{
	assert_int_equal(nfs3_status_of(0), NFS3_OK);
	assert_int_equal(nfs3_status_of(ENOENT), NFS3ERR_NOENT);
	assert_int_equal(nfs3_status_of(ENOTEMPTY), NFS3ERR_NOTEMPTY);
	assert_int_equal(nfs3_status_of(ESTALE), NFS3ERR_STALE);
	assert_int_equal(nfs3_status_of(EBADF), NFS3ERR_BADHANDLE);
	assert_int_equal(nfs3_status_of(EDQUOT), NFS3ERR_DQUOT);
	assert_int_equal(nfs3_status_of(ENAMETOOLONG), NFS3ERR_NAMETOOLONG);
	assert_int_equal(nfs3_status_of(EXDEV), NFS3ERR_XDEV);
	assert_int_equal(nfs3_status_of(EOPNOTSUPP), NFS3ERR_NOTSUPP);
	assert_int_equal(nfs3_status_of(EIDRM), NFS3ERR_IO); /* nothing better */
}

static void put_call(struct xdr_writer *w, uint32_t groups)
{
	xdr_put_u32(w, 7);
	xdr_put_u32(w, 0);
	xdr_put_u32(w, 2);
	xdr_put_u32(w, NFS_PROGRAM);
	xdr_put_u32(w, 3);
	xdr_put_u32(w, 1);
	xdr_put_u32(w, 1); /* AUTH_SYS */
	xdr_put_u32(w, 4 + 4 + 4 + 4 + 4 + 4 + 4 * groups);
	xdr_put_u32(w, 99);
	xdr_put_opaque(w, "me", 2);
	xdr_put_u32(w, 1000);
	xdr_put_u32(w, 1001);
	xdr_put_u32(w, groups);
	for (uint32_t i = 0; i < groups; i++)
		xdr_put_u32(w, 2000 + i);
	xdr_put_u64(w, 0); /* verifier: AUTH_NONE */
}

static enum rpc_call_kind decode_call(struct msg *m, size_t len, struct rpc_call *call)
{
	uint8_t *copy = malloc(len ? len : 1);
	memcpy(copy, m->bytes, len);
	struct xdr_reader r = xdr_reader(copy, len);
	enum rpc_call_kind kind = rpc_decode_call(&r, call);
	free(copy);
	return kind;
}

static void a_call_says_who_calls(void **state)
{
	struct msg m;
	struct rpc_call call;
	msg_init(&m);
	put_call(&m.w, 16);
	assert_int_equal(decode_call(&m, xdr_written(&m.w), &call), RPC_CALL_OK);
	assert_int_equal(call.xid, 7);
	assert_int_equal(call.prog, NFS_PROGRAM);
	assert_int_equal(call.cred.uid, 1000);
	assert_int_equal(call.cred.gid, 1001);
	assert_int_equal(call.cred.groups_len, 16);
	assert_int_equal(call.cred.groups[15], 2015);
	for (size_t cut = 0; cut < xdr_written(&m.w); cut++)
		assert_int_not_equal(decode_call(&m, cut, &call), RPC_CALL_OK);
}

static void seventeen_groups_are_a_bad_credential(void **state)
{
	struct msg m;
	struct rpc_call call;
	msg_init(&m);
	put_call(&m.w, 17);
	assert_int_equal(decode_call(&m, xdr_written(&m.w), &call), RPC_CALL_BAD_AUTH);
	assert_int_equal(call.auth_stat, RPC_AUTH_BADCRED);
}

static void an_unknown_flavor_is_rejected(void **state)
{
	struct msg m;
	struct rpc_call call;
	msg_init(&m);
	put_call(&m.w, 0);
	m.bytes[24 + 3] = 6; /* RPCSEC_GSS */
	assert_int_equal(decode_call(&m, xdr_written(&m.w), &call), RPC_CALL_BAD_AUTH);
	assert_int_equal(call.auth_stat, RPC_AUTH_REJECTEDCRED);
}

static void a_reply_is_not_a_call(void **state)
{
	struct msg m;
	struct rpc_call call;
	msg_init(&m);
	put_call(&m.w, 0);
	m.bytes[7] = 1;
	assert_int_equal(decode_call(&m, xdr_written(&m.w), &call), RPC_CALL_NOT_A_CALL);
}

static void root_is_squashed_wherever_it_stands(void **state)
{
	struct cred c = {.uid = 0, .gid = 0, .groups_len = 2, .groups = {0, 5}};
	cred_squash_root(&c);
	assert_int_equal(c.uid, NOBODY_ID);
	assert_int_equal(c.gid, NOBODY_ID);
	assert_int_equal(c.groups[0], NOBODY_ID);
	assert_int_equal(c.groups[1], 5);
	assert_int_equal(c.groups[2], 0); /* beyond the list: stays zero, credentials are compared as bytes */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(arguments_cut_anywhere_are_refused),
		cmocka_unit_test(every_word_may_be_anything),
		cmocka_unit_test(what_was_encoded_is_decoded),
		cmocka_unit_test(a_handle_of_65_bytes_is_refused),
		cmocka_unit_test(a_write_of_less_data_than_its_count_is_refused),
		cmocka_unit_test(acls_have_at_most_1024_entries_and_as_many_as_they_say),
		cmocka_unit_test(data_that_came_by_ddp_is_found),
		cmocka_unit_test(a_chunk_that_is_short_or_elsewhere_is_refused),
		cmocka_unit_test(errno_becomes_the_status_that_means_it),
		cmocka_unit_test(a_call_says_who_calls),
		cmocka_unit_test(seventeen_groups_are_a_bad_credential),
		cmocka_unit_test(an_unknown_flavor_is_rejected),
		cmocka_unit_test(a_reply_is_not_a_call),
		cmocka_unit_test(root_is_squashed_wherever_it_stands),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
