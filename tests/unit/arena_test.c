/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "arena.h"
#include "fmrpool.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define MIB ((size_t)1 << 20)
#define PAGE ((size_t)ARENA_PAGE_BYTES)

static char *const base = (char *)(16 * MIB); /* never touched: the arena only does arithmetic with it */

static struct arena *new_arena(size_t len, size_t max_io)
{
	struct arena *a = NULL;

	assert_int_equal(arena_create(base, len, max_io, &a), 0);
	return a;
}

static void smallest_arena_has_two_slots(void **state)
{
	struct arena *a = NULL;

	assert_int_equal(arena_min_bytes(MIB), 2 * MIB);
	assert_int_equal(arena_min_bytes(5000), 4 * PAGE);
	assert_int_equal(arena_min_bytes(FMR_STRIPE_BYTES), 2 * FMR_STRIPE_BYTES);
	assert_int_equal(arena_create(base, 2 * MIB - 1, MIB, &a), -EINVAL);
	assert_int_equal(arena_create(base, 64 * MIB, FMR_STRIPE_BYTES + 1, &a), -EINVAL);
	assert_int_equal(arena_create(base, 64 * MIB, 0, &a), -EINVAL);
	assert_null(a);
	assert_int_equal(arena_create(base, 2 * MIB, MIB, &a), 0);
	arena_destroy(a);
}

static void consecutive_writes_lie_side_by_side(void **state)
{
	struct arena *a = new_arena(8 * MIB, MIB);
	char *first = arena_receive_area(a);

	arena_take(a, first, 100);
	char *second = arena_receive_area(a);
	arena_take(a, second, PAGE + 1);
	char *third = arena_receive_area(a);
	assert_ptr_equal(second, first + PAGE);
	assert_ptr_equal(third, second + 2 * PAGE);
	assert_int_equal(arena_used_bytes(a, ARENA_DIRTY), 3 * PAGE);
	arena_destroy(a);
}

static void receive_area_is_not_allocated(void **state)
{
	struct arena *a = new_arena(2 * MIB, MIB);

	assert_non_null(arena_receive_area(a));
	assert_non_null(arena_alloc(a, MIB, ARENA_REPLY));
	assert_non_null(arena_receive_area(a));
	assert_non_null(arena_alloc(a, MIB, ARENA_REPLY));
	assert_null(arena_receive_area(a));
	assert_null(arena_alloc(a, 1, ARENA_REPLY));
	arena_destroy(a);
}

static void dirty_data_keeps_to_half(void **state)
{
	struct arena *a = new_arena(4 * MIB, MIB);
	char *run[2];

	for (int i = 0; i < 2; i++) {
		assert_false(arena_dirty_full(a));
		run[i] = arena_receive_area(a);
		arena_take(a, run[i], MIB);
		assert_true(arena_wants_commit(a)); /* 1 MiB is a quarter */
	}
	assert_true(arena_dirty_full(a));
	assert_null(arena_receive_area(a));
	assert_non_null(arena_alloc(a, MIB, ARENA_REPLY)); /* the other half still serves */
	arena_free(a, run[0], MIB, ARENA_DIRTY);
	assert_non_null(arena_receive_area(a));
	arena_destroy(a);
}

static void runs_do_not_cross_a_stripe(void **state)
{
	struct arena *a = new_arena(8 * MIB, 768 * 1024);
	size_t len = 768 * 1024;
	char *p;

	while ((p = arena_alloc(a, len, ARENA_REPLY))) {
		size_t start = (size_t)(p - base);
		assert_int_equal(start / FMR_STRIPE_BYTES, (start + len - 1) / FMR_STRIPE_BYTES);
	}
	assert_int_equal(arena_used_bytes(a, ARENA_REPLY), 4 * 2 * len); /* two in each of four stripes */
	arena_destroy(a);
}

static void no_two_runs_overlap_under_churn(void **state)
{
	enum { RUNS = 200, STEPS = 50000 };
	struct arena *a = new_arena(8 * MIB + 3 * PAGE, 256 * 1024);
	struct {
		char *addr;
		size_t len;
		enum arena_use use;
	} run[RUNS] = {0};
	unsigned char *owner = calloc(1, arena_total_bytes(a) / PAGE);
	unsigned int seed = 1;

	for (int step = 0; step < STEPS; step++) {
		seed = seed * 1103515245u + 12345u;
		unsigned int i = (seed >> 8) % RUNS;
		size_t first, n;

		if (run[i].addr) {
			arena_free(a, run[i].addr, run[i].len, run[i].use);
			first = (size_t)(run[i].addr - base) / PAGE;
			n = (run[i].len + PAGE - 1) / PAGE;
			memset(owner + first, 0, n);
			run[i].addr = NULL;
			continue;
		}
		run[i].len = 1 + (seed >> 4) % (256 * 1024);
		run[i].use = seed & 1 << 20 ? ARENA_DIRTY : ARENA_REPLY;
		run[i].addr = run[i].use == ARENA_DIRTY ? arena_receive_area(a)
							: arena_alloc(a, run[i].len, ARENA_REPLY);
		if (!run[i].addr)
			continue;
		if (run[i].use == ARENA_DIRTY)
			arena_take(a, run[i].addr, run[i].len);
		first = (size_t)(run[i].addr - base) / PAGE;
		n = (run[i].len + PAGE - 1) / PAGE;
		assert_true(first + n <= arena_total_bytes(a) / PAGE);
		for (size_t p = first; p < first + n; p++) {
			assert_int_equal(owner[p], 0);
			owner[p] = 1;
		}
	}
	for (unsigned int i = 0; i < RUNS; i++)
		if (run[i].addr)
			arena_free(a, run[i].addr, run[i].len, run[i].use);
	assert_int_equal(arena_used_bytes(a, ARENA_DIRTY) + arena_used_bytes(a, ARENA_REPLY), 0);
	free(owner);
	arena_destroy(a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(smallest_arena_has_two_slots),
		cmocka_unit_test(consecutive_writes_lie_side_by_side),
		cmocka_unit_test(receive_area_is_not_allocated),
		cmocka_unit_test(dirty_data_keeps_to_half),
		cmocka_unit_test(runs_do_not_cross_a_stripe),
		cmocka_unit_test(no_two_runs_overlap_under_churn),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
