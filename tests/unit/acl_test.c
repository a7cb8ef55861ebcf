/* SPDX-License-Identifier: MIT
 *
 * ACLs between their forms. What the kernel takes and gives was written down by hand, from acl(5) and
 * linux/posix_acl_xattr.h.
 */
#include "acl.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define VALUE_MAX (4 + 8 * (ACL_ENTRIES_MAX + 1))

/* u::rwx, u:9:r, u:64531:rw, g::rx, g:7:r, m::rwx, o::- */
static const uint8_t value[] = {
	2,    0, 0, 0,			       /* version */
	1,    0, 7, 0, 0xff, 0xff, 0xff, 0xff, /* owner */
	2,    0, 4, 0, 9,    0,	   0,	 0,    /* */
	2,    0, 6, 0, 0x13, 0xfc, 0,	 0,    /* 64531 */
	4,    0, 5, 0, 0xff, 0xff, 0xff, 0xff, /* owning group */
	8,    0, 4, 0, 7,    0,	   0,	 0,    /* */
	0x10, 0, 7, 0, 0xff, 0xff, 0xff, 0xff, /* mask */
	0x20, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, /* others */
};

static struct acl seven(void)
{
	return (struct acl){.count = 7,
			    .entries = {{ACL_TAG_USER_OBJ, 7, ACL_NO_ID},
					{ACL_TAG_USER, 4, 9},
					{ACL_TAG_USER, 6, 64531},
					{ACL_TAG_GROUP_OBJ, 5, ACL_NO_ID},
					{ACL_TAG_GROUP, 4, 7},
					{ACL_TAG_MASK, 7, ACL_NO_ID},
					{ACL_TAG_OTHER, 0, ACL_NO_ID}}};
}

static void check_acl(const struct acl *got, const struct acl *want)
{
	assert_int_equal(got->count, want->count);
	assert_memory_equal(got->entries, want->entries, want->count * sizeof want->entries[0]);
}

/* From a heap block of exactly that size, so that a sanitizer sees a read behind it. */
static int from_exactly(struct acl *acl, const void *bytes, size_t len)
{
	void *copy = malloc(len ? len : 1);
	memcpy(copy, bytes, len);
	int err = acl_from_xattr(acl, copy, len);
	free(copy);
	return err;
}

static void an_extended_attribute_goes_both_ways(void **state)
{
	struct acl acl, want = seven();
	uint8_t back[sizeof value + 1];
	assert_int_equal(from_exactly(&acl, value, sizeof value), 0);
	check_acl(&acl, &want);
	assert_int_equal(acl_to_xattr(&acl, NULL, 0), sizeof value);
	assert_int_equal(acl_to_xattr(&acl, back, sizeof value - 1), -ERANGE);
	back[sizeof value] = 0xa5;
	assert_int_equal(acl_to_xattr(&acl, back, sizeof back), sizeof value);
	assert_memory_equal(back, value, sizeof value);
	assert_int_equal(back[sizeof value], 0xa5);
}

static void a_value_of_another_length_or_version_is_refused(void **state)
{
	struct acl acl;
	uint8_t other[sizeof value];
	for (size_t len = 0; len < sizeof value; len++)
		assert_int_equal(from_exactly(&acl, value, len), len == 4 ? 0 : -EINVAL);
	assert_int_equal(acl_from_xattr(&acl, value, 4), 0); /* none */
	assert_int_equal(acl.count, 0);
	memcpy(other, value, sizeof value);
	other[0] = 1;
	assert_int_equal(from_exactly(&acl, other, sizeof other), -EOPNOTSUPP);
}

static void more_than_1024_entries_are_refused(void **state)
{
	static uint8_t many[VALUE_MAX];
	static struct acl acl;
	memcpy(many, value, 4);
	for (size_t i = 0; i <= ACL_ENTRIES_MAX; i++) {
		many[4 + 8 * i] = ACL_TAG_USER;
		many[4 + 8 * i + 4] = (uint8_t)i;
		many[4 + 8 * i + 5] = (uint8_t)(i >> 8);
	}
	assert_int_equal(from_exactly(&acl, many, VALUE_MAX), -E2BIG);
	assert_int_equal(from_exactly(&acl, many, VALUE_MAX - 8), -EINVAL);
}

static void entries_that_make_no_acl_are_refused(void **state)
{
	static const struct {
		unsigned int entry;
		struct acl_entry is;
	} wrong[] = {
		{0, {ACL_TAG_OTHER, 7, ACL_NO_ID}},
		{0, {0, 7, ACL_NO_ID}},
		{0, {3, 7, ACL_NO_ID}},
		{0, {64, 7, ACL_NO_ID}},
		{0, {ACL_TAG_USER_OBJ, 8, ACL_NO_ID}},
		{1, {ACL_TAG_USER_OBJ, 7, ACL_NO_ID}},
		{1, {ACL_TAG_USER, 7, 64532}}, /* out of order */
		{1, {ACL_TAG_USER, 7, ACL_NO_ID}},
		{3, {ACL_TAG_USER, 7, 70000}}, /* no owning group */
		{4, {ACL_TAG_GROUP_OBJ, 7, ACL_NO_ID}},
		{5, {ACL_TAG_GROUP, 7, 8}}, /* no mask */
		{6, {ACL_TAG_MASK, 7, ACL_NO_ID}},
	};
	struct acl acl = seven();
	assert_true(acl_valid(&acl));
	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
		acl = seven();
		acl.entries[wrong[i].entry] = wrong[i].is;
		assert_false(acl_valid(&acl));
	}
	acl.count = 0;
	assert_false(acl_valid(&acl));
	acl.count = ACL_ENTRIES_MAX + 1;
	assert_false(acl_valid(&acl));
}

static void entries_of_the_wire_come_into_order(void **state)
{
	struct acl want = seven(), acl = {.count = 7};
	static const int order[] = {6, 2, 4, 0, 5, 1, 3};
	for (uint32_t i = 0; i < 7; i++) {
		acl.entries[i] = want.entries[order[i]];
		if (acl.entries[i].id == ACL_NO_ID)
			acl.entries[i].id = 1000 + i; /* the owner's, or anything */
	}
	assert_true(acl_from_wire(&acl));
	check_acl(&acl, &want);
	assert_int_equal(acl_wire_count(&acl), 7);
}

/* The first of them counts, so their order is kept. */
static void an_id_may_be_named_twice(void **state)
{
	struct acl acl = seven();
	acl.entries[1] = (struct acl_entry){ACL_TAG_USER, 1, 64531};
	assert_true(acl_from_wire(&acl));
	assert_int_equal(acl.count, 7);
	assert_int_equal(acl.entries[1].perm, 1);
	assert_int_equal(acl.entries[2].perm, 6);
}

static void a_mask_that_repeats_is_dropped(void **state)
{
	struct acl acl = {.count = 4,
			  .entries = {{ACL_TAG_OTHER, 1, 0},
				      {ACL_TAG_MASK, 5, 0},
				      {ACL_TAG_GROUP_OBJ, 5, 100},
				      {ACL_TAG_USER_OBJ, 7, 1000}}};
	struct acl want;
	acl_of_mode(&want, 0751);
	assert_true(acl_from_wire(&acl));
	check_acl(&acl, &want);
	assert_true(acl_is_mode(&acl));
	assert_int_equal(acl_wire_count(&acl), 4);
}

static void a_mask_that_says_something_stays(void **state)
{
	struct acl acl = {.count = 4,
			  .entries = {{ACL_TAG_USER_OBJ, 7, 1000},
				      {ACL_TAG_GROUP_OBJ, 5, 100},
				      {ACL_TAG_MASK, 4, 0},
				      {ACL_TAG_OTHER, 1, 0}}};
	assert_true(acl_from_wire(&acl));
	assert_int_equal(acl.count, 4);
	assert_false(acl_is_mode(&acl));
}

static void what_the_wire_brings_is_none_or_valid(void **state)
{
	struct acl acl = {.count = 0};
	assert_true(acl_from_wire(&acl));
	acl = (struct acl){.count = 1, .entries = {{ACL_TAG_USER_OBJ, 7, 0}}};
	assert_false(acl_from_wire(&acl));
	acl = seven();
	acl.entries[3].tag = 0x1004;
	assert_false(acl_from_wire(&acl));
	acl = seven();
	acl.entries[3].perm = 0xfff8;
	assert_false(acl_from_wire(&acl));
}

static void a_default_acl_takes_the_umasks_place(void **state)
{
	struct acl masked = seven(), plain;
	acl_of_mode(&plain, 0751);
	masked.entries[5].perm = 6;
	assert_int_equal(acl_create_mode(&masked, 0666), 0660);
	assert_int_equal(acl_create_mode(&masked, 0777), 0760);
	assert_int_equal(acl_create_mode(&masked, 07640), 07640);
	assert_int_equal(acl_create_mode(&plain, 0777), 0751);
	assert_int_equal(acl_create_mode(&plain, 0640), 0640);
	for (uint32_t mode = 0; mode <= 07777; mode++)
		assert_int_equal(acl_create_mode(&masked, acl_create_mode(&masked, mode)),
				 acl_create_mode(&masked, mode));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_extended_attribute_goes_both_ways),
		cmocka_unit_test(a_value_of_another_length_or_version_is_refused),
		cmocka_unit_test(more_than_1024_entries_are_refused),
		cmocka_unit_test(entries_that_make_no_acl_are_refused),
		cmocka_unit_test(entries_of_the_wire_come_into_order),
		cmocka_unit_test(an_id_may_be_named_twice),
		cmocka_unit_test(a_mask_that_repeats_is_dropped),
		cmocka_unit_test(a_mask_that_says_something_stays),
		cmocka_unit_test(what_the_wire_brings_is_none_or_valid),
		cmocka_unit_test(a_default_acl_takes_the_umasks_place),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
