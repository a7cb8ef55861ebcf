/* SPDX-License-Identifier: MIT */
#include "missing.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

static void names_are_kept_in_their_order(void **state)
{
	struct missing m = {0};
	char name[] = "a";

	missing_add(&m, name);
	name[0] = 'b'; /* copied: the caller's may change */
	missing_add(&m, name);
	assert_int_equal(m.count, 2);
	assert_string_equal(m.first->name, "a");
	assert_string_equal(m.first->next->name, "b");
	assert_ptr_equal(m.last, m.first->next);
	missing_free(&m);
	assert_null(m.first);
	assert_null(m.last);
	assert_int_equal(m.count, 0);
}

static void of_too_many_the_latest_stay(void **state)
{
	struct missing m = {0};
	char name[16];

	for (unsigned int i = 0; i < MISSING_MAX + 10; i++) {
		snprintf(name, sizeof name, "%u", i);
		missing_add(&m, name);
	}
	assert_int_equal(m.count, MISSING_MAX);
	assert_string_equal(m.first->name, "10");
	assert_string_equal(m.last->name, name);
	missing_free(&m);
}

static void what_is_taken_is_there_no_more(void **state)
{
	struct missing m = {0};

	missing_add(&m, "a");
	struct missing taken = missing_take(&m);

	assert_null(m.first);
	missing_add(&m, "b");
	assert_string_equal(m.last->name, "b");
	assert_string_equal(taken.first->name, "a");
	missing_free(&taken);
	missing_free(&m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(names_are_kept_in_their_order),
		cmocka_unit_test(of_too_many_the_latest_stay),
		cmocka_unit_test(what_is_taken_is_there_no_more),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
