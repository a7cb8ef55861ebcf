/* SPDX-License-Identifier: MIT */
#include "acl_cache.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#define S 1000000000ull /* ns */

static const struct attr_limits limits = {
	.reg_min_ns = 3 * S, .reg_max_ns = 60 * S, .dir_min_ns = 30 * S, .dir_max_ns = 60 * S};
static const struct nfs3_attr dir = {.type = NFS3_DIR, .mode = 0750, .ctime = {100, 5}};

struct fixture {
	struct attr_cache attr;
	struct acl_cache acls;
};

static struct fixture fixture(void)
{
	struct fixture f = {0};
	struct acl access = {.count = 0}, dflt;

	acl_of_mode(&dflt, 0751);
	attr_take(&f.attr, &limits, &dir, 0, 0);
	acl_cache_store(&f.acls, &dir, &access, &dflt);
	return f;
}

static bool known(const struct fixture *f, uint64_t now_ns)
{
	struct acl access = {.count = 99}, dflt = {.count = 99}, want;
	bool is = acl_cache_known(&f->acls, &f->attr, now_ns, &access, &dflt);

	acl_of_mode(&want, 0751);
	if (is) {
		assert_int_equal(access.count, 0);
		assert_int_equal(dflt.count, 3);
		assert_memory_equal(dflt.entries, want.entries, 3 * sizeof want.entries[0]);
	}
	return is;
}

static void it_lives_as_long_as_the_attributes(void **state)
{
	struct fixture f = fixture();

	assert_true(known(&f, 30 * S - 1));
	assert_false(known(&f, 30 * S));
	acl_cache_drop(&f.acls);
	assert_false(known(&f, 1));
}

static void other_attributes_make_us_ask_again(void **state)
{
	struct nfs3_attr changed[4] = {dir, dir, dir, dir};

	changed[0].ctime.nsec++;
	changed[1].mode = 0700;
	changed[2].uid = 1000;
	changed[3].gid = 27;
	for (int i = 0; i < 4; i++) {
		struct fixture f = fixture();

		attr_take(&f.attr, &limits, &changed[i], 1, 1);
		assert_false(known(&f, 2));
		acl_cache_drop(&f.acls);
	}
}

/* A change of ours: what is known before it, and found at the server, is known after it. */
static bool known_after(struct nfs3_time found, uint32_t mode, bool before_present)
{
	struct fixture f = fixture();
	struct nfs3_wcc wcc = {.before = {.present = before_present, .ctime = found},
			       .after = {.present = true, .attr = dir}};

	wcc.after.attr.ctime = (struct nfs3_time){200, 0};
	wcc.after.attr.mode = mode;
	attr_change_begin(&f.attr);
	attr_change_end(&f.attr, &limits, &wcc, 1, 2);
	acl_cache_moved(&f.acls, &wcc);
	bool is = known(&f, 3);

	acl_cache_drop(&f.acls);
	return is;
}

static void making_names_in_a_directory_keeps_its_acls(void **state)
{
	assert_true(known_after(dir.ctime, dir.mode, true));
}

static void a_change_of_others_between_does_not(void **state)
{
	assert_false(known_after((struct nfs3_time){150, 0}, dir.mode, true));
	assert_false(known_after(dir.ctime, dir.mode, false));
}

static void a_change_of_the_mode_does_not(void **state)
{
	assert_false(known_after(dir.ctime, 0700, true));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(it_lives_as_long_as_the_attributes),
		cmocka_unit_test(other_attributes_make_us_ask_again),
		cmocka_unit_test(making_names_in_a_directory_keeps_its_acls),
		cmocka_unit_test(a_change_of_others_between_does_not),
		cmocka_unit_test(a_change_of_the_mode_does_not),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
