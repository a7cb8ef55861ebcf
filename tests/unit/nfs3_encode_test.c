/* SPDX-License-Identifier: MIT
 *
 * Calls, compared with messages that are written out by hand from RFC 5531 and RFC 1813, word for word.
 */
#include <nfsc/libnfs-zdr.h>

#include "cred.h"
#include "nfs3.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

/* ---- heap allocations are counted: the encoders must not make any ---- */

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define COUNTS_ALLOCATIONS 0
#else
#define COUNTS_ALLOCATIONS 1
static unsigned long allocations;
void *__libc_malloc(size_t size);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *p, size_t size);

void *malloc(size_t size)
{
	allocations++;
	return __libc_malloc(size);
}

void *calloc(size_t n, size_t size)
{
	allocations++;
	return __libc_calloc(n, size);
}

void *realloc(void *p, size_t size)
{
	allocations++;
	return __libc_realloc(p, size);
}
#endif

/* ---- what to expect, built word by word ---- */

struct want {
	uint8_t bytes[NFS3_CALL_MAX];
	size_t len;
};

static void w32(struct want *w, uint32_t v)
{
	const uint8_t b[4] = {(uint8_t)(v >> 24), (uint8_t)(v >> 16), (uint8_t)(v >> 8), (uint8_t)v};
	memcpy(w->bytes + w->len, b, 4);
	w->len += 4;
}

static void w64(struct want *w, uint64_t v)
{
	w32(w, (uint32_t)(v >> 32));
	w32(w, (uint32_t)v);
}

static void wbytes(struct want *w, const char *bytes, size_t len)
{
	memcpy(w->bytes + w->len, bytes, len);
	w->len += len;
	while (w->len & 3)
		w->bytes[w->len++] = 0;
}

static struct want header(uint32_t proc)
{
	struct want w = {.len = 0};
	w32(&w, 0x11223344); /* XID */
	w32(&w, 0);	     /* CALL */
	w32(&w, 2);	     /* RPC version */
	w32(&w, 100003);
	w32(&w, 3);
	w32(&w, proc);
	w32(&w, 1); /* AUTH_SYS */
	w32(&w, 28);
	w32(&w, 0); /* stamp */
	w32(&w, 2); /* machine name */
	wbytes(&w, "pc", 2);
	w32(&w, 1000);
	w32(&w, 100);
	w32(&w, 1); /* one group */
	w32(&w, 4);
	w32(&w, 0); /* AUTH_NONE */
	w32(&w, 0);
	return w;
}

static const struct nfs3_fh fh5 = {.len = 5, .data = "HANDL"};
static const struct nfs3_fh fh8 = {.len = 8, .data = "\xff\x01\x02\x03\x04\x05\x06\x07"};

static void wfh5(struct want *w)
{
	w32(w, 5);
	wbytes(w, "HANDL", 5);
}

static void wfh8(struct want *w)
{
	w32(w, 8);
	wbytes(w, "\xff\x01\x02\x03\x04\x05\x06\x07", 8);
}

static void wname(struct want *w, const char *name)
{
	w32(w, (uint32_t)strlen(name));
	wbytes(w, name, strlen(name));
}

static const struct nfs3_sattr no_sattr;
static const struct nfs3_sattr full_sattr = {
	.set_mode = true,
	.mode = 0640,
	.set_uid = true,
	.uid = 7,
	.set_gid = true,
	.gid = 8,
	.set_size = true,
	.size = 0x123456789ull,
	.atime_how = NFS3_TIME_SERVER,
	.mtime_how = NFS3_TIME_CLIENT,
	.mtime = {.sec = 0xf0000000, .nsec = 999999999},
};

static void wno_sattr(struct want *w)
{
	for (int i = 0; i < 6; i++)
		w32(w, 0);
}

static void wfull_sattr(struct want *w)
{
	w32(w, 1);
	w32(w, 0640);
	w32(w, 1);
	w32(w, 7);
	w32(w, 1);
	w32(w, 8);
	w32(w, 1);
	w64(w, 0x123456789ull);
	w32(w, 1); /* SET_TO_SERVER_TIME */
	w32(w, 2); /* SET_TO_CLIENT_TIME */
	w32(w, 0xf0000000);
	w32(w, 999999999);
}

static struct cred cred;

static int setup(void **state)
{
	cred_init(&cred, "pc", 1000, 100, (uint32_t[]){4}, 1);
	return 0;
}

/*
 * The message is exactly this; it needs exactly this much room, and with any less, to the byte, it is refused
 * and nothing is written behind the room that there was; and no heap is used.
 */
static void check(enum nfs3_proc proc, const void *args, const struct want *want)
{
	uint32_t words[NFS3_CALL_MAX / 4 + 4];
	uint8_t *buf = (uint8_t *)words;
#if COUNTS_ALLOCATIONS
	unsigned long before = allocations;
#endif
	int len = nfs3_encode(buf, NFS3_CALL_MAX, 0x11223344, &cred, proc, args);
#if COUNTS_ALLOCATIONS
	assert_int_equal(allocations - before, 0);
#endif
	assert_int_equal(len, (int)want->len);
	assert_memory_equal(buf, want->bytes, want->len);

	for (size_t room = 0; room <= want->len; room++) {
		memset(words, 0xa5, sizeof words);
		len = nfs3_encode(buf, room, 0x11223344, &cred, proc, args);
		assert_int_equal(len, room == want->len ? (int)want->len : -EMSGSIZE);
		for (size_t i = room; i < want->len + 8; i++)
			assert_int_equal(buf[i], 0xa5);
	}
}

static void the_allocation_counter_sees_libnfs(void **state)
{
#if COUNTS_ALLOCATIONS
	unsigned long before = allocations;
	libnfs_auth_destroy(libnfs_authnone_create());
	assert_true(allocations > before);
#else
	skip();
#endif
}

static void null_call(void **state)
{
	struct want w = header(0);
	check(NFSPROC3_NULL, NULL, &w);
}

static void calls_on_a_handle(void **state)
{
	static const enum nfs3_proc procs[] = {NFSPROC3_GETATTR, NFSPROC3_READLINK, NFSPROC3_FSSTAT,
					       NFSPROC3_FSINFO, NFSPROC3_PATHCONF};
	static const uint32_t numbers[] = {1, 5, 18, 19, 20};
	for (size_t i = 0; i < 5; i++) {
		struct want w = header(numbers[i]);
		wfh5(&w);
		check(procs[i], &fh5, &w);
	}
}

static void calls_on_a_name(void **state)
{
	static const enum nfs3_proc procs[] = {NFSPROC3_LOOKUP, NFSPROC3_REMOVE, NFSPROC3_RMDIR};
	static const uint32_t numbers[] = {3, 12, 13};
	static const char *const names[] = {"a", "ab", "abc", "abcd", "\xff\xfe"};
	for (size_t i = 0; i < 3; i++) {
		for (size_t n = 0; n < 5; n++) {
			struct want w = header(numbers[i]);
			wfh5(&w);
			wname(&w, names[n]);
			check(procs[i], &(struct nfs3_dirop){&fh5, names[n]}, &w);
		}
	}
}

static void setattr_call(void **state)
{
	struct want w = header(2);
	wfh8(&w);
	wfull_sattr(&w);
	w32(&w, 0);
	check(NFSPROC3_SETATTR, &(struct nfs3_setattr_args){.object = &fh8, .attr = full_sattr}, &w);

	w = header(2);
	wfh8(&w);
	wno_sattr(&w);
	w32(&w, 1);
	w32(&w, 5);
	w32(&w, 6);
	check(NFSPROC3_SETATTR,
	      &(struct nfs3_setattr_args){
		      .object = &fh8, .attr = no_sattr, .guard = true, .guard_ctime = {5, 6}},
	      &w);
}

static void access_call(void **state)
{
	struct want w = header(4);
	wfh8(&w);
	w32(&w, 0x3f);
	check(NFSPROC3_ACCESS, &(struct nfs3_access_args){&fh8, 0x3f}, &w);
}

static void read_call(void **state)
{
	struct want w = header(6);
	wfh5(&w);
	w64(&w, 0xfedcba9876543210ull);
	w32(&w, 1048576);
	check(NFSPROC3_READ, &(struct nfs3_read_args){&fh5, 0xfedcba9876543210ull, 1048576}, &w);
}

static void write_call_stops_where_its_data_belongs(void **state)
{
	struct want w = header(7);
	wfh8(&w);
	w64(&w, 4096);
	w32(&w, 1000);
	w32(&w, 2); /* FILE_SYNC */
	w32(&w, 1000);
	check(NFSPROC3_WRITE, &(struct nfs3_write_args){&fh8, 4096, 1000, NFS3_FILE_SYNC}, &w);
	/* 6 words, credential, verifier, handle, offset, count, stable, length */
	assert_int_equal(w.len, 24 + (8 + 28) + 8 + (4 + 8) + 8 + 4 + 4 + 4);
}

static void create_calls(void **state)
{
	for (uint32_t mode = 0; mode < 2; mode++) {
		struct want w = header(8);
		wfh5(&w);
		wname(&w, "new");
		w32(&w, mode);
		wfull_sattr(&w);
		struct nfs3_create_args a = {{&fh5, "new"}, (enum nfs3_create_mode)mode, full_sattr, {0}};
		check(NFSPROC3_CREATE, &a, &w);
	}
	struct want w = header(8);
	wfh5(&w);
	wname(&w, "new");
	w32(&w, 2);
	wbytes(&w, "VERIFIER", 8);
	struct nfs3_create_args a = {{&fh5, "new"}, NFS3_EXCLUSIVE, full_sattr, "VERIFIER"};
	check(NFSPROC3_CREATE, &a, &w);
}

static void mkdir_call(void **state)
{
	struct want w = header(9);
	wfh5(&w);
	wname(&w, "dir");
	wfull_sattr(&w);
	check(NFSPROC3_MKDIR, &(struct nfs3_mkdir_args){{&fh5, "dir"}, full_sattr}, &w);
}

static void symlink_call_stops_where_its_path_belongs(void **state)
{
	struct want w = header(10);
	wfh5(&w);
	wname(&w, "link");
	wno_sattr(&w);
	w32(&w, 17);
	check(NFSPROC3_SYMLINK, &(struct nfs3_symlink_args){{&fh5, "link"}, no_sattr, 17}, &w);
}

static void mknod_calls(void **state)
{
	for (uint32_t type = NFS3_BLK; type <= NFS3_FIFO; type++) {
		if (type == NFS3_LNK)
			continue;
		struct want w = header(11);
		wfh5(&w);
		wname(&w, "node");
		w32(&w, type);
		wfull_sattr(&w);
		if (type == NFS3_BLK || type == NFS3_CHR) {
			w32(&w, 8);
			w32(&w, 17);
		}
		struct nfs3_mknod_args a = {{&fh5, "node"}, (enum nfs3_type)type, full_sattr, 8, 17};
		check(NFSPROC3_MKNOD, &a, &w);
	}
}

static void rename_call(void **state)
{
	struct want w = header(14);
	wfh5(&w);
	wname(&w, "from");
	wfh8(&w);
	wname(&w, "to");
	check(NFSPROC3_RENAME, &(struct nfs3_rename_args){{&fh5, "from"}, {&fh8, "to"}}, &w);
}

static void link_call(void **state)
{
	struct want w = header(15);
	wfh8(&w);
	wfh5(&w);
	wname(&w, "name");
	check(NFSPROC3_LINK, &(struct nfs3_link_args){&fh8, {&fh5, "name"}}, &w);
}

static void listing_calls(void **state)
{
	struct want w = header(16);
	wfh5(&w);
	w64(&w, 0xffffffffffffffffull);
	wbytes(&w, "COOKIEVF", 8);
	w32(&w, 32768);
	check(NFSPROC3_READDIR, &(struct nfs3_readdir_args){&fh5, UINT64_MAX, "COOKIEVF", 32768}, &w);

	w = header(17);
	wfh5(&w);
	w64(&w, 3);
	wbytes(&w, "COOKIEVF", 8);
	w32(&w, 8192);
	w32(&w, 65536);
	check(NFSPROC3_READDIRPLUS, &(struct nfs3_readdirplus_args){&fh5, 3, "COOKIEVF", 8192, 65536}, &w);
}

static void commit_call(void **state)
{
	struct want w = header(21);
	wfh5(&w);
	w64(&w, 1ull << 40);
	w32(&w, 0);
	check(NFSPROC3_COMMIT, &(struct nfs3_commit_args){&fh5, 1ull << 40, 0}, &w);
}

static struct want acl_header(uint32_t proc)
{
	struct want w = header(proc);
	memcpy(w.bytes + 12, "\x00\x01\x87\x83", 4); /* 100227 */
	return w;
}

static void w_ace(struct want *w, uint32_t type, uint32_t id, uint32_t perm)
{
	w32(w, type);
	w32(w, id);
	w32(w, perm);
}

static void getacl_call(void **state)
{
	struct want w = acl_header(1);
	wfh5(&w);
	w32(&w, 15);
	check(NFSPROC3_GETACL, &(struct nfs3_getacl_args){&fh5, 15}, &w);
}

static struct acl three(void)
{
	struct acl acl;
	acl_of_mode(&acl, 0751);
	return acl;
}

static void setacl_call_of_a_file(void **state)
{
	struct acl acl = {.count = 5,
			  .entries = {{ACL_TAG_USER_OBJ, 7, ACL_NO_ID},
				      {ACL_TAG_USER, 6, 64531},
				      {ACL_TAG_GROUP_OBJ, 5, ACL_NO_ID},
				      {ACL_TAG_MASK, 7, ACL_NO_ID},
				      {ACL_TAG_OTHER, 1, ACL_NO_ID}}};
	struct want w = acl_header(2);
	wfh5(&w);
	w32(&w, 1); /* the access ACL */
	w32(&w, 5);
	w32(&w, 5);
	w_ace(&w, 1, 1000, 7);
	w_ace(&w, 2, 64531, 6);
	w_ace(&w, 4, 100, 5);
	w_ace(&w, 16, 0, 7);
	w_ace(&w, 32, 0, 1);
	w32(&w, 0);
	w32(&w, 0);
	check(NFSPROC3_SETACL, &(struct nfs3_setacl_args){&fh5, 1000, 100, &acl, NULL}, &w);
}

/* What says no more than a mode has four entries. */
static void setacl_call_of_a_directory(void **state)
{
	struct acl access = three(), dflt = three(), none = {.count = 0};
	struct want w = acl_header(2);
	wfh5(&w);
	w32(&w, 5); /* both */
	for (uint32_t bit = 0; bit <= 0x1000; bit += 0x1000) {
		w32(&w, 4);
		w32(&w, 4);
		w_ace(&w, bit | 1, 1000, 7);
		w_ace(&w, bit | 4, 100, 5);
		w_ace(&w, bit | 16, 0, 5);
		w_ace(&w, bit | 32, 0, 1);
	}
	check(NFSPROC3_SETACL, &(struct nfs3_setacl_args){&fh5, 1000, 100, &access, &dflt}, &w);
	w.len -= 4 * 12 + 8;
	w32(&w, 0);
	w32(&w, 0);
	check(NFSPROC3_SETACL, &(struct nfs3_setacl_args){&fh5, 1000, 100, &access, &none}, &w);
}

static int encode(enum nfs3_proc proc, const void *args)
{
	uint32_t buf[NFS3_CALL_MAX / 4];
	return nfs3_encode(buf, sizeof buf, 1, &cred, proc, args);
}

static void largest_call_fits_call_max(void **state)
{
	char name[NFS3_NAME_MAX + 2];
	struct nfs3_fh fh = {.len = NFS3_FH_MAX};
	struct cred small = cred;
	uint32_t gids[16];
	for (uint32_t i = 0; i < 16; i++)
		gids[i] = i + 1;
	memset(name, 'n', sizeof name);
	name[NFS3_NAME_MAX] = 0;
	cred_init(&cred, "0123456789012345678901234567890123456789012345678901234567890123", 1, 0, gids, 16);
	int len = encode(NFSPROC3_RENAME, &(struct nfs3_rename_args){{&fh, name}, {&fh, name}});
	cred = small;
	assert_int_equal(len, NFS3_CALL_MAX);
}

static void bad_arguments_are_refused(void **state)
{
	static const struct nfs3_fh none = {.len = 0}, long_fh = {.len = 65};
	char name[NFS3_NAME_MAX + 2];
	memset(name, 'n', sizeof name);
	name[NFS3_NAME_MAX + 1] = 0;
	assert_int_equal(encode(NFSPROC3_GETATTR, &none), -EINVAL);
	assert_int_equal(encode(NFSPROC3_GETATTR, &long_fh), -EINVAL);
	assert_int_equal(encode(NFSPROC3_LOOKUP, &(struct nfs3_dirop){&none, "x"}), -EINVAL);
	assert_int_equal(encode(NFSPROC3_LOOKUP, &(struct nfs3_dirop){&fh5, ""}), -EINVAL);
	assert_int_equal(encode(NFSPROC3_LOOKUP, &(struct nfs3_dirop){&fh5, name}), -ENAMETOOLONG);
	assert_int_equal(encode(NFSPROC3_READ, &(struct nfs3_read_args){&fh5, 0, NFS3_COUNT_MAX + 1}),
			 -EINVAL);
	assert_int_equal(
		encode(NFSPROC3_WRITE, &(struct nfs3_write_args){&fh5, 0, NFS3_COUNT_MAX + 1, NFS3_UNSTABLE}),
		-EINVAL);
	assert_int_equal(encode(NFSPROC3_WRITE, &(struct nfs3_write_args){&fh5, 0, 1, (enum nfs3_stable)3}),
			 -EINVAL);
	assert_int_equal(encode(NFSPROC3_SYMLINK, &(struct nfs3_symlink_args){{&fh5, "x"}, no_sattr, 0}),
			 -EINVAL);
	assert_int_equal(encode(NFSPROC3_SYMLINK,
				&(struct nfs3_symlink_args){{&fh5, "x"}, no_sattr, NFS3_PATH_MAX + 1}),
			 -EINVAL);
	assert_int_equal(
		encode(NFSPROC3_MKNOD, &(struct nfs3_mknod_args){{&fh5, "x"}, NFS3_REG, no_sattr, 0, 0}),
		-EINVAL);
	struct acl good = three(), bad = three();
	bad.entries[1].perm = 8;
	assert_int_equal(encode(NFSPROC3_GETACL, &(struct nfs3_getacl_args){&long_fh, 15}), -EINVAL);
	assert_int_equal(encode(NFSPROC3_SETACL, &(struct nfs3_setacl_args){&none, 0, 0, &good, NULL}),
			 -EINVAL);
	assert_int_equal(encode(NFSPROC3_SETACL, &(struct nfs3_setacl_args){&fh5, 0, 0, &bad, NULL}),
			 -EINVAL);
	assert_int_equal(encode(NFSPROC3_SETACL, &(struct nfs3_setacl_args){&fh5, 0, 0, &good, &bad}),
			 -EINVAL);
	assert_int_equal(encode((enum nfs3_proc)24, NULL), -EINVAL);
}

static void table_agrees_with_the_rfc(void **state)
{
	assert_string_equal(nfs3_procs[NFSPROC3_NULL].name, "NULL");
	assert_string_equal(nfs3_procs[21].name, "COMMIT");
	assert_int_equal(nfs3_procs[NFSPROC3_READ].payload, NFS3_PAYLOAD_DATA);
	assert_int_equal(nfs3_procs[NFSPROC3_SYMLINK].payload, NFS3_PAYLOAD_CALL);
	/* by hand: status, handle, two post_op_attr */
	assert_int_equal(nfs3_reply_max(NFSPROC3_LOOKUP, 0), 24 + 4 + 68 + 88 + 88);
	assert_int_equal(nfs3_reply_max(NFSPROC3_READ, 0), 24 + 104);
	assert_int_equal(nfs3_reply_max(NFSPROC3_READ, 5), 24 + 104 + 8);
	assert_int_equal(nfs3_reply_max(NFSPROC3_CREATE, 0), 24 + 4 + 72 + 88 + 116);
	assert_int_equal(nfs3_reply_max(NFSPROC3_READDIRPLUS, 65536), 24 + 256 + 65536);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_allocation_counter_sees_libnfs),
		cmocka_unit_test(null_call),
		cmocka_unit_test(calls_on_a_handle),
		cmocka_unit_test(calls_on_a_name),
		cmocka_unit_test(setattr_call),
		cmocka_unit_test(access_call),
		cmocka_unit_test(read_call),
		cmocka_unit_test(write_call_stops_where_its_data_belongs),
		cmocka_unit_test(create_calls),
		cmocka_unit_test(mkdir_call),
		cmocka_unit_test(symlink_call_stops_where_its_path_belongs),
		cmocka_unit_test(mknod_calls),
		cmocka_unit_test(rename_call),
		cmocka_unit_test(link_call),
		cmocka_unit_test(listing_calls),
		cmocka_unit_test(commit_call),
		cmocka_unit_test(getacl_call),
		cmocka_unit_test(setacl_call_of_a_file),
		cmocka_unit_test(setacl_call_of_a_directory),
		cmocka_unit_test(largest_call_fits_call_max),
		cmocka_unit_test(bad_arguments_are_refused),
		cmocka_unit_test(table_agrees_with_the_rfc),
	};
	return cmocka_run_group_tests(tests, setup, NULL);
}
