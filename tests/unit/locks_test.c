/* SPDX-License-Identifier: MIT
 *
 * The table of locks: by hand, and against a model that knows the holder of each byte.
 */
#include "locks.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static struct lock_table table;
static struct lock_owner alice, bob;
static const struct nfs3_fh file = {.len = 4, .data = "file"}, other = {.len = 5, .data = "other"};

static int setup(void **state)
{
	memset(&table, 0, sizeof table);
	alice.held = bob.held = 0;
	return 0;
}

static int teardown(void **state)
{
	locks_fini(&table);
	assert_int_equal(table.n, 0);
	assert_int_equal(alice.held + bob.held, 0);
	return 0;
}

/* "0-9r 20-29w ": what the owner holds, in order. */
static const char *held(const struct nfs3_fh *fh, const struct lock_owner *owner)
{
	static char text[512];
	uint64_t at = 0;
	text[0] = 0;
	for (;;) {
		uint64_t end = LOCKS_END;
		const struct held_lock *lock = locks_at(&table, fh, owner, at, &end);
		if (lock && end == LOCKS_END)
			sprintf(text + strlen(text), "%llu-end%c ", (unsigned long long)at,
				lock->exclusive ? 'w' : 'r');
		else if (lock)
			sprintf(text + strlen(text), "%llu-%llu%c ", (unsigned long long)at,
				(unsigned long long)end, lock->exclusive ? 'w' : 'r');
		if (end == LOCKS_END)
			return text;
		at = end + 1;
	}
}

static void set(struct lock_owner *owner, uint64_t start, uint64_t end, bool exclusive)
{
	assert_int_equal(locks_set(&table, &file, owner, 1, start, end, exclusive), 0);
}

static void neighbours_of_one_kind_are_joined(void **state)
{
	set(&alice, 0, 9, false);
	set(&alice, 20, 29, false);
	set(&alice, 10, 19, false);
	assert_string_equal(held(&file, &alice), "0-29r ");
	assert_int_equal(table.n, 1);
	set(&alice, 30, LOCKS_END, true);
	assert_string_equal(held(&file, &alice), "0-29r 30-endw ");
}

static void what_is_set_replaces_what_was_there(void **state)
{
	set(&alice, 0, 99, false);
	set(&alice, 40, 49, true);
	assert_string_equal(held(&file, &alice), "0-39r 40-49w 50-99r ");
	set(&alice, 45, 120, true);
	assert_string_equal(held(&file, &alice), "0-39r 40-120w ");
	set(&alice, 0, LOCKS_END, false);
	assert_string_equal(held(&file, &alice), "0-endr ");
}

static void unset_cuts_out_and_says_whether_there_was_anything(void **state)
{
	set(&alice, 10, 29, true);
	assert_int_equal(locks_unset(&table, &file, &alice, 0, 9), 0);
	assert_int_equal(locks_unset(&table, &file, &bob, 0, 99), 0);
	assert_int_equal(locks_unset(&table, &other, &alice, 0, 99), 0);
	assert_int_equal(locks_unset(&table, &file, &alice, 15, 19), 1);
	assert_string_equal(held(&file, &alice), "10-14w 20-29w ");
	assert_int_equal(locks_unset(&table, &file, &alice, 0, LOCKS_END), 1);
	assert_string_equal(held(&file, &alice), "");
	assert_int_equal(table.n, 0);
}

static void owners_and_files_are_kept_apart(void **state)
{
	set(&alice, 0, 9, false);
	set(&bob, 5, 14, false);
	assert_int_equal(locks_set(&table, &other, &alice, 1, 7, 7, true), 0);
	assert_string_equal(held(&file, &alice), "0-9r ");
	assert_string_equal(held(&file, &bob), "5-14r ");
	assert_string_equal(held(&other, &alice), "7-7w ");
	assert_int_equal(alice.held, 2);
}

static void locks_are_found_by_the_open_file_that_they_were_taken_through(void **state)
{
	assert_int_equal(locks_set(&table, &file, &alice, 1, 0, 9, true), 0);
	assert_int_equal(locks_set(&table, &file, &alice, 2, 10, 19, true), 0);
	assert_int_equal(table.n, 2); /* not joined */
	assert_ptr_equal(locks_through(&table, &file, 2), &alice);
	assert_int_equal(locks_set(&table, &file, &alice, 1, 10, 19, true), 0);
	assert_null(locks_through(&table, &file, 2));
	assert_null(locks_through(&table, &other, 1));
}

static void holding_a_range_means_all_of_it_in_that_way(void **state)
{
	assert_int_equal(locks_set(&table, &file, &alice, 1, 0, 9, true), 0);
	assert_int_equal(locks_set(&table, &file, &alice, 2, 10, 19, true), 0);
	assert_true(locks_hold(&table, &file, &alice, 0, 19, true));
	assert_true(locks_hold(&table, &file, &alice, 5, 12, true));
	assert_false(locks_hold(&table, &file, &alice, 5, 12, false));
	assert_false(locks_hold(&table, &file, &alice, 5, 20, true));
	assert_false(locks_hold(&table, &file, &bob, 0, 9, true));
}

static void stale_locks_are_dealt_with_one_by_one(void **state)
{
	const struct nfs3_fh *fh;
	set(&alice, 0, 9, true);
	set(&bob, 10, 19, true);
	assert_null(locks_stale(&table, &fh));
	locks_make_stale(&table);
	set(&alice, 20, 29, true); /* taken after the restart */
	int n = 0;
	for (const struct held_lock *lock; (lock = locks_stale(&table, &fh)); n++) {
		assert_true(lock->end < 20);
		locks_fresh(&table, fh, lock->owner, lock->start, lock->end);
	}
	assert_int_equal(n, 2);
}

#define MODEL_BYTES 24u

static void random_locks_agree_with_a_model(void **state)
{
	static char model[2][MODEL_BYTES]; /* 0, 'r', 'w' */
	struct lock_owner *owners[] = {&alice, &bob};
	srand(11);
	for (int i = 0; i < 50000; i++) {
		unsigned int who = (unsigned int)rand() % 2, start = (unsigned int)rand() % MODEL_BYTES,
			     what = (unsigned int)rand() % 3;
		unsigned int end = start + (unsigned int)rand() % (MODEL_BYTES - start);
		bool any = false;
		for (unsigned int b = start; b <= end; b++)
			any |= model[who][b] != 0;
		if (what == 2)
			assert_int_equal(locks_unset(&table, &file, owners[who], start, end), any);
		else
			assert_int_equal(locks_set(&table, &file, owners[who], 1, start, end, what), 0);
		memset(&model[who][start], what == 2 ? 0 : what ? 'w' : 'r', end - start + 1);
		unsigned int runs = 0;
		for (unsigned int w = 0; w < 2; w++)
			for (unsigned int b = 0; b < MODEL_BYTES; b++) {
				uint64_t upto = b;
				const struct held_lock *lock = locks_at(&table, &file, owners[w], b, &upto);
				assert_int_equal(lock ? lock->exclusive ? 'w' : 'r' : 0, model[w][b]);
				runs += model[w][b] && (b == 0 || model[w][b] != model[w][b - 1]);
			}
		assert_int_equal(table.n, runs); /* as few as can be */
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(neighbours_of_one_kind_are_joined, setup, teardown),
		cmocka_unit_test_setup_teardown(what_is_set_replaces_what_was_there, setup, teardown),
		cmocka_unit_test_setup_teardown(unset_cuts_out_and_says_whether_there_was_anything, setup,
						teardown),
		cmocka_unit_test_setup_teardown(owners_and_files_are_kept_apart, setup, teardown),
		cmocka_unit_test_setup_teardown(locks_are_found_by_the_open_file_that_they_were_taken_through,
						setup, teardown),
		cmocka_unit_test_setup_teardown(holding_a_range_means_all_of_it_in_that_way, setup, teardown),
		cmocka_unit_test_setup_teardown(stale_locks_are_dealt_with_one_by_one, setup, teardown),
		cmocka_unit_test_setup_teardown(random_locks_agree_with_a_model, setup, teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
