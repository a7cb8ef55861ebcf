/* SPDX-License-Identifier: MIT
 *
 * The STag table: what may be reached, through which key, for how long.
 */
#include "softiwarp/stag.h"

#include "fmrpool.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static char memory[1000];

static int setup(void **state)
{
	struct stag_table *t = malloc(sizeof *t);
	*state = t;
	return stag_table_init(t);
}

static int teardown(void **state)
{
	stag_table_fini(*state);
	free(*state);
	return 0;
}

static enum stag_verdict check(struct stag_table *t, uint32_t stag, uint64_t offset, uint32_t len,
			       unsigned int access)
{
	char *addr = NULL;
	struct stag_entry *entry = NULL;
	enum stag_verdict verdict = stag_check(t, stag, offset, len, access, &addr, &entry);
	if (verdict == STAG_OK)
		assert_ptr_equal(addr, memory + 100 + offset);
	else
		assert_null(addr);
	return verdict;
}

static struct stag_entry *window(struct stag_table *t, unsigned int access)
{
	struct stag_entry *e = stag_alloc(t, STAG_WINDOW);
	assert_non_null(e);
	assert_int_equal(e->stag, 0);
	stag_bind(t, e, memory + 100, 10, access);
	assert_int_not_equal(e->stag, 0);
	return e;
}

/* Two entries that were bound equally often: the keys of one do not tell those of the other. */
static void keys_of_two_entries_differ_in_more_than_their_index(void **state)
{
	struct stag_table *t = *state;
	struct stag_entry *a = window(t, FMR_REMOTE_WRITE), *b = window(t, FMR_REMOTE_WRITE);
	unsigned int alike = 0;
	for (int i = 0; i < 100; i++) {
		stag_bind(t, a, memory + 100, 10, FMR_REMOTE_WRITE);
		stag_bind(t, b, memory + 100, 10, FMR_REMOTE_WRITE);
		alike += (a->stag ^ b->stag) >> STAG_INDEX_BITS == 0;
	}
	assert_in_range(alike, 0, 2); /* by chance: once in 2^20 times */
}

static void bounds_are_exact(void **state)
{
	struct stag_table *t = *state;
	uint32_t stag = window(t, FMR_REMOTE_WRITE)->stag;
	assert_int_equal(check(t, stag, 0, 10, FMR_REMOTE_WRITE), STAG_OK);
	assert_int_equal(check(t, stag, 9, 1, FMR_REMOTE_WRITE), STAG_OK);
	assert_int_equal(check(t, stag, 0, 11, FMR_REMOTE_WRITE), STAG_BOUNDS);
	assert_int_equal(check(t, stag, 9, 2, FMR_REMOTE_WRITE), STAG_BOUNDS);
	assert_int_equal(check(t, stag, 10, 1, FMR_REMOTE_WRITE), STAG_BOUNDS);
	assert_int_equal(check(t, stag, 0, UINT32_MAX, FMR_REMOTE_WRITE), STAG_BOUNDS);
	assert_int_equal(check(t, stag, UINT64_MAX, 1, FMR_REMOTE_WRITE), STAG_WRAP);
	assert_int_equal(check(t, stag, UINT64_MAX, UINT32_MAX, FMR_REMOTE_WRITE), STAG_WRAP);
	assert_int_equal(check(t, stag, UINT64_MAX - 1, 1, FMR_REMOTE_WRITE), STAG_BOUNDS);
	assert_int_equal(check(t, stag, 1ull << 32, 1, FMR_REMOTE_WRITE), STAG_BOUNDS);
}

static void access_is_exact(void **state)
{
	struct stag_table *t = *state;
	uint32_t w = window(t, FMR_REMOTE_WRITE)->stag, r = window(t, FMR_REMOTE_READ)->stag;
	uint32_t both = window(t, FMR_REMOTE_READ | FMR_REMOTE_WRITE)->stag, none = window(t, 0)->stag;
	assert_int_equal(check(t, w, 0, 1, FMR_REMOTE_READ), STAG_ACCESS);
	assert_int_equal(check(t, r, 0, 1, FMR_REMOTE_WRITE), STAG_ACCESS);
	assert_int_equal(check(t, r, 0, 1, FMR_REMOTE_READ), STAG_OK);
	assert_int_equal(check(t, both, 0, 1, FMR_REMOTE_READ), STAG_OK);
	assert_int_equal(check(t, both, 0, 1, FMR_REMOTE_WRITE), STAG_OK);
	assert_int_equal(check(t, none, 0, 1, FMR_REMOTE_READ), STAG_ACCESS);
}

static void unbound_keys_are_invalid(void **state)
{
	struct stag_table *t = *state;
	struct stag_entry *e = window(t, FMR_REMOTE_WRITE);
	uint32_t stag = e->stag;
	assert_ptr_equal(stag_find(t, stag), e);
	stag_unbind(e);
	assert_null(stag_find(t, stag));
	assert_int_equal(check(t, stag, 0, 1, FMR_REMOTE_WRITE), STAG_INVALID);
	assert_null(stag_find(t, 0));
	for (uint32_t bit = 1; bit; bit <<= 1)
		assert_null(stag_find(t, stag ^ bit));
}

/* All of them, once around; and not in an order that shows. */
static void keys_of_an_entry_differ_for_a_million_binds(void **state)
{
	struct stag_table *t = *state;
	struct stag_entry *e = stag_alloc(t, STAG_WINDOW);
	uint8_t *seen = calloc(1, 1u << STAG_BIND_BITS);
	uint32_t before = 0, first = 0, steps_repeated = 0, step = 0;

	/* One index has the key that would be 0 and is left out. */
	uint32_t keys =
		(1u << STAG_BIND_BITS) - ((t->mask & (STAG_ENTRIES - 1)) == (uint32_t)(e - t->entries));

	for (uint32_t i = 0; i < keys; i++) {
		stag_bind(t, e, memory, 1, 1);
		assert_int_equal((e->stag ^ t->mask) & (STAG_ENTRIES - 1), e - t->entries);
		uint32_t number = (e->stag ^ t->mask) >> STAG_INDEX_BITS;
		assert_int_equal(seen[number]++, 0);
		steps_repeated += e->stag - before == step;
		step = e->stag - before;
		before = e->stag;
		if (i == 0)
			first = e->stag;
	}
	assert_in_range(steps_repeated, 0, 100); /* by chance about one */
	stag_bind(t, e, memory, 1, 1);
	assert_int_equal(e->stag, first);
	free(seen);
}

static void sinks_are_no_keys(void **state)
{
	struct stag_table *t = *state;
	uint32_t last = 0;
	for (int i = 0; i < 10000; i++) {
		uint32_t sink = stag_sink(t);
		assert_true(sink != 0 && sink != last);
		assert_null(stag_find(t, sink));
		last = sink;
	}
}

static void keys_of_an_entry_given_back_stay_dead(void **state)
{
	struct stag_table *t = *state;
	struct stag_entry *e = window(t, FMR_REMOTE_WRITE);
	uint32_t stag = e->stag;
	stag_free(t, e);
	struct stag_entry *again = stag_alloc(t, STAG_WINDOW);
	assert_ptr_equal(again, e);
	assert_null(stag_find(t, stag));
	stag_bind(t, again, memory, 1, 1);
	assert_int_not_equal(again->stag, stag);
	assert_null(stag_find(t, stag));
}

static void tables_do_not_share_keys(void **state)
{
	struct stag_table *other = malloc(sizeof *other);
	unsigned int same = 0;
	assert_int_equal(stag_table_init(other), 0);
	for (int i = 0; i < 100; i++)
		same += stag_find(other, window(*state, 1)->stag) != NULL;
	for (int i = 0; i < 100; i++)
		window(other, 1);
	for (uint32_t i = 1; i < other->used; i++)
		same += stag_find(*state, other->entries[i].stag) != NULL;
	assert_in_range(same, 0, 1); /* each match has a chance of 2^-20 */
	stag_table_fini(other);
	free(other);
}

static void table_fills_up_and_empties(void **state)
{
	struct stag_table *t = *state;
	static struct stag_entry *entries[STAG_ENTRIES];
	unsigned int n = 0;
	while ((entries[n] = stag_alloc(t, STAG_REGION)))
		n++;
	assert_int_equal(n, STAG_ENTRIES - 1);
	for (unsigned int i = 0; i < n; i++)
		stag_free(t, entries[i]);
	for (unsigned int i = 0; i < n; i++)
		assert_non_null(stag_alloc(t, STAG_REGION));
	assert_null(stag_alloc(t, STAG_REGION));
}

static void local_memory_is_checked_too(void **state)
{
	struct stag_table *t = *state;
	struct stag_entry *e = stag_alloc(t, STAG_REGION);
	stag_bind(t, e, memory + 100, 10, 0);
	assert_true(stag_local(t, e->stag, memory + 100, 10));
	assert_true(stag_local(t, e->stag, memory + 110, 0));
	assert_false(stag_local(t, e->stag, memory + 100, 11));
	assert_false(stag_local(t, e->stag, memory + 99, 1));
	assert_false(stag_local(t, e->stag, memory + 109, UINT32_MAX));
	assert_false(stag_local(t, e->stag ^ 1, memory + 100, 1));
	assert_false(stag_local(t, window(t, 1)->stag, memory + 100, 1)); /* a window is no region */
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(bounds_are_exact),
		TEST(keys_of_two_entries_differ_in_more_than_their_index),
		TEST(access_is_exact),
		TEST(unbound_keys_are_invalid),
		TEST(keys_of_an_entry_differ_for_a_million_binds),
		TEST(sinks_are_no_keys),
		TEST(keys_of_an_entry_given_back_stay_dead),
		TEST(tables_do_not_share_keys),
		TEST(table_fills_up_and_empties),
		TEST(local_memory_is_checked_too),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
