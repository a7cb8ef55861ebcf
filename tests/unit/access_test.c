/* SPDX-License-Identifier: MIT */
#include "access.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <unistd.h>

#include <cmocka.h>

#define S 1000000000ull /* ns */

static const struct attr_limits limits = {.reg_min_ns = 3 * S, .reg_max_ns = 60 * S};
static const struct nfs3_attr file = {.type = NFS3_REG, .ctime = {100, 5}};

struct fixture {
	struct attr_cache attr;
	struct access_cache access;
	struct cred alice, bob;
};

static struct fixture fixture(void)
{
	struct fixture f = {0};

	attr_take(&f.attr, &limits, &file, 0, 0);
	cred_init(&f.alice, NULL, 1000, 1000, (uint32_t[]){4, 27}, 2);
	cred_init(&f.bob, NULL, 1001, 1001, NULL, 0);
	return f;
}

static void an_answer_is_remembered_for_its_credential_only(void **state)
{
	struct fixture f = fixture();
	uint32_t granted = 0;

	access_store(&f.access, &file, &f.alice, NFS3_ACCESS_READ | NFS3_ACCESS_MODIFY, NFS3_ACCESS_READ);
	assert_true(access_known(&f.access, &f.attr, &f.alice, NFS3_ACCESS_READ, 1, &granted));
	assert_int_equal(granted, NFS3_ACCESS_READ);
	assert_false(access_known(&f.access, &f.attr, &f.bob, NFS3_ACCESS_READ, 1, &granted));
}

static void a_refusal_is_an_answer_too(void **state)
{
	struct fixture f = fixture();
	uint32_t granted = 99;

	access_store(&f.access, &file, &f.alice, NFS3_ACCESS_READ | NFS3_ACCESS_MODIFY, NFS3_ACCESS_READ);
	assert_true(access_known(&f.access, &f.attr, &f.alice, NFS3_ACCESS_MODIFY, 1, &granted));
	assert_int_equal(granted, 0);
}

static void what_was_not_asked_is_not_known(void **state)
{
	struct fixture f = fixture();
	uint32_t granted;

	access_store(&f.access, &file, &f.alice, NFS3_ACCESS_READ, NFS3_ACCESS_READ | NFS3_ACCESS_MODIFY);
	assert_false(access_known(&f.access, &f.attr, &f.alice, NFS3_ACCESS_READ | NFS3_ACCESS_MODIFY, 1,
				  &granted));
}

static void other_groups_are_another_caller(void **state)
{
	struct fixture f = fixture();
	struct cred dropped;
	uint32_t granted;

	cred_init(&dropped, NULL, 1000, 1000, (uint32_t[]){4}, 1);
	access_store(&f.access, &file, &f.alice, NFS3_ACCESS_READ, NFS3_ACCESS_READ);
	assert_false(access_known(&f.access, &f.attr, &dropped, NFS3_ACCESS_READ, 1, &granted));
}

static void it_lives_as_long_as_the_attributes(void **state)
{
	struct fixture f = fixture();
	uint32_t granted;

	access_store(&f.access, &file, &f.alice, NFS3_ACCESS_READ, NFS3_ACCESS_READ);
	assert_true(access_known(&f.access, &f.attr, &f.alice, NFS3_ACCESS_READ, 3 * S - 1, &granted));
	assert_false(access_known(&f.access, &f.attr, &f.alice, NFS3_ACCESS_READ, 3 * S, &granted));
}

static void a_new_ctime_makes_us_ask_again(void **state)
{
	struct fixture f = fixture();
	struct nfs3_attr changed = file;
	uint32_t granted;

	access_store(&f.access, &file, &f.alice, NFS3_ACCESS_READ, NFS3_ACCESS_READ);
	changed.ctime.nsec++;
	attr_take(&f.attr, &limits, &changed, 1, 1);
	assert_false(access_known(&f.access, &f.attr, &f.alice, NFS3_ACCESS_READ, 2, &granted));
}

/* Within a tick of the server's clock: as often as not for who changes a mode and opens the file. */
static void other_rights_at_the_same_ctime_make_us_ask_again(void **state)
{
	struct nfs3_attr changed[3] = {file, file, file};

	changed[0].mode = 0400;
	changed[1].uid = 1000;
	changed[2].gid = 27;
	for (int i = 0; i < 3; i++) {
		struct fixture f = fixture();
		uint32_t granted;

		access_store(&f.access, &file, &f.alice, NFS3_ACCESS_READ, 0);
		attr_take(&f.attr, &limits, &changed[i], 1, 1);
		assert_false(access_known(&f.access, &f.attr, &f.alice, NFS3_ACCESS_READ, 2, &granted));
	}
}

/* It was given before a change of ours that we have heard of meanwhile. */
static void an_answer_that_a_change_has_outrun_is_not_believed(void **state)
{
	struct fixture f = fixture();
	struct nfs3_attr changed = file;
	uint32_t granted;

	changed.mode = 0400;
	changed.ctime.nsec++;
	attr_take(&f.attr, &limits, &changed, 1, 1);
	access_store(&f.access, &file, &f.alice, NFS3_ACCESS_READ, NFS3_ACCESS_READ);
	assert_false(access_known(&f.access, &f.attr, &f.alice, NFS3_ACCESS_READ, 2, &granted));
}

static void the_oldest_credential_gives_way(void **state)
{
	struct fixture f = fixture();
	struct cred c;
	uint32_t granted;

	for (uint32_t uid = 0; uid <= ACCESS_SLOTS; uid++) {
		cred_init(&c, NULL, uid, 0, NULL, 0);
		access_store(&f.access, &file, &c, NFS3_ACCESS_READ, NFS3_ACCESS_READ);
	}
	for (uint32_t uid = 0; uid <= ACCESS_SLOTS; uid++) {
		cred_init(&c, NULL, uid, 0, NULL, 0);
		assert_int_equal(access_known(&f.access, &f.attr, &c, NFS3_ACCESS_READ, 1, &granted),
				 uid != 0);
	}
}

static void masks_mean_what_the_server_is_asked(void **state)
{
	assert_int_equal(access_wanted(NFS3_REG, R_OK), NFS3_ACCESS_READ);
	assert_int_equal(access_wanted(NFS3_REG, W_OK), NFS3_ACCESS_MODIFY | NFS3_ACCESS_EXTEND);
	assert_int_equal(access_wanted(NFS3_REG, X_OK), NFS3_ACCESS_EXECUTE);
	assert_int_equal(access_wanted(NFS3_DIR, X_OK), NFS3_ACCESS_LOOKUP);
	assert_int_equal(access_wanted(NFS3_DIR, W_OK),
			 NFS3_ACCESS_MODIFY | NFS3_ACCESS_EXTEND | NFS3_ACCESS_DELETE);
	assert_int_equal(access_wanted(NFS3_REG, F_OK), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_answer_is_remembered_for_its_credential_only),
		cmocka_unit_test(a_refusal_is_an_answer_too),
		cmocka_unit_test(what_was_not_asked_is_not_known),
		cmocka_unit_test(other_groups_are_another_caller),
		cmocka_unit_test(it_lives_as_long_as_the_attributes),
		cmocka_unit_test(a_new_ctime_makes_us_ask_again),
		cmocka_unit_test(other_rights_at_the_same_ctime_make_us_ask_again),
		cmocka_unit_test(an_answer_that_a_change_has_outrun_is_not_believed),
		cmocka_unit_test(the_oldest_credential_gives_way),
		cmocka_unit_test(masks_mean_what_the_server_is_asked),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
