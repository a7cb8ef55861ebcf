/* SPDX-License-Identifier: MIT
 *
 * The server's ACLs: from the entries of a call to an extended attribute, and back into a reply.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>

#include "acl.h"

#define WORDS_MAX (3 * (ACL_ENTRIES_MAX + 1) + 2)

static uint8_t bytes[4 * WORDS_MAX];

/* n entries of three words each. */
static bool from_words(const uint32_t *words, uint32_t n, struct acl *acl)
{
	uint8_t *copy = malloc(12 * n);
	struct xdr_writer w = xdr_writer(copy, 12 * n);
	for (uint32_t i = 0; i < 3 * n; i++)
		xdr_put_u32(&w, words[i]);
	bool ok = acl_from_wire(&(struct nfs3_acl){.entries = copy, .len = n}, acl);
	free(copy);
	return ok;
}

static void entries_come_into_order(void **state)
{
	static const uint32_t words[] = {32, 0,	  0, 16, 0, 0xffffffff, 2, 64531, 6,
					 4,  100, 5, 2,	 9, 1,		1, 1000,  7};
	static const uint8_t want[] = {
		2,    0, 0, 0,			       /* version */
		1,    0, 7, 0, 0xff, 0xff, 0xff, 0xff, /* */
		2,    0, 1, 0, 9,    0,	   0,	 0,    /* */
		2,    0, 6, 0, 0x13, 0xfc, 0,	 0,    /* 64531 */
		4,    0, 5, 0, 0xff, 0xff, 0xff, 0xff, /* */
		0x10, 0, 7, 0, 0xff, 0xff, 0xff, 0xff, /* */
		0x20, 0, 0, 0, 0xff, 0xff, 0xff, 0xff,
	};
	struct acl acl, back;
	uint8_t value[ACL_XATTR_MAX_BYTES];
	assert_true(from_words(words, 6, &acl));
	assert_int_equal(acl_to_xattr(&acl, value), sizeof want);
	assert_memory_equal(value, want, sizeof want);
	assert_true(acl_from_xattr(value, sizeof want, &back));
	assert_int_equal(back.len, acl.len);
	assert_memory_equal(back.entries, acl.entries, acl.len * sizeof acl.entries[0]);
}

static void a_mask_that_repeats_comes_and_goes(void **state)
{
	static const uint32_t words[] = {0x1001, 1000, 7, 0x1004, 100, 5, 0x1010, 0, 5, 0x1020, 0, 1};
	struct acl acl, want;
	acl_from_mode(0751, &want);
	assert_true(from_words(words, 4, &acl));
	assert_int_equal(acl.len, 3);
	assert_memory_equal(acl.entries, want.entries, 3 * sizeof want.entries[0]);

	struct xdr_writer w = xdr_writer(bytes, sizeof bytes);
	acl_put(&w, &acl, true, NFSACL_DEFAULT, 1000, 100);
	struct xdr_reader r = xdr_reader(bytes, xdr_written(&w));
	assert_int_equal(xdr_u32(&r), 4);
	assert_int_equal(xdr_u32(&r), 4);
	for (int i = 0; i < 12; i++)
		assert_int_equal(xdr_u32(&r), words[i]);
	assert_int_equal(xdr_left(&r), 0);

	w = xdr_writer(bytes, sizeof bytes);
	acl_put(&w, &acl, false, 0, 1000, 100); /* the count alone */
	r = xdr_reader(bytes, xdr_written(&w));
	assert_int_equal(xdr_u32(&r), 4);
	assert_int_equal(xdr_u32(&r), 0);
	assert_int_equal(xdr_left(&r), 0);
}

static void types_and_permissions_that_there_are_not_are_refused(void **state)
{
	struct acl acl;
	assert_false(from_words((uint32_t[]){0, 0, 7}, 1, &acl));
	assert_false(from_words((uint32_t[]){3, 0, 7}, 1, &acl));
	assert_false(from_words((uint32_t[]){64, 0, 7}, 1, &acl));
	assert_false(from_words((uint32_t[]){0x10001, 0, 7}, 1, &acl));
	assert_false(from_words((uint32_t[]){1, 0, 8}, 1, &acl));
	assert_false(from_words((uint32_t[]){1, 0, 0x10007}, 1, &acl));
}

static void values_of_another_kind_are_refused(void **state)
{
	struct acl acl;
	uint8_t value[ACL_XATTR_MAX_BYTES + 8] = {2};
	assert_true(acl_from_xattr(value, 4, &acl));
	assert_int_equal(acl.len, 0);
	assert_true(acl_from_xattr(value, ACL_XATTR_MAX_BYTES, &acl));
	assert_int_equal(acl.len, ACL_ENTRIES_MAX);
	assert_false(acl_from_xattr(value, ACL_XATTR_MAX_BYTES + 8, &acl));
	assert_false(acl_from_xattr(value, 3, &acl));
	assert_false(acl_from_xattr(value, 11, &acl));
	value[0] = 1;
	assert_false(acl_from_xattr(value, 12, &acl));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(entries_come_into_order),
		cmocka_unit_test(a_mask_that_repeats_comes_and_goes),
		cmocka_unit_test(types_and_permissions_that_there_are_not_are_refused),
		cmocka_unit_test(values_of_another_kind_are_refused),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
