/* SPDX-License-Identifier: MIT */
#include "latency.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static void every_time_lies_in_its_bucket(void **state)
{
	(void)state;
	for (unsigned int log2 = 0; log2 < 64; log2++) {
		for (int off = -1; off <= 1; off++) {
			uint64_t ns = (UINT64_C(1) << log2) + (uint64_t)(int64_t)off;
			unsigned int b = latency_bucket(ns);

			assert_true(b < LATENCY_BUCKETS);
			assert_true(ns < latency_bound_ns(b) || b == LATENCY_BUCKETS - 1);
			assert_true(b == 0 || ns >= latency_bound_ns(b - 1));
		}
	}
}

static void bounds_rise_by_a_quarter_at_most(void **state)
{
	(void)state;
	assert_int_equal(latency_bound_ns(0), 1024);
	assert_int_equal(latency_bound_ns(1), 1024 + 256);
	for (unsigned int b = 1; b < LATENCY_BUCKETS - 1; b++) {
		uint64_t low = latency_bound_ns(b - 1), high = latency_bound_ns(b);

		assert_true(high > low && high - low <= low / LATENCY_PARTS);
		assert_int_equal(latency_bucket(low), b);
		assert_int_equal(latency_bucket(high - 1), b);
	}
	assert_int_equal(latency_bound_ns(LATENCY_BUCKETS - 2), UINT64_C(1) << LATENCY_END_LOG2);
}

static void nothing_has_no_percentile(void **state)
{
	struct latency l = {0};

	(void)state;
	assert_true(latency_count(&l) == 0 && latency_mean_ns(&l) == 0 &&
		    latency_percentile_ns(&l, 0.99) == 0);
}

static void percentiles_are_right_to_an_eighth(void **state)
{
	struct latency l = {0};

	(void)state;
	for (uint64_t us = 1; us <= 10000; us++)
		latency_add(&l, us * 1000);
	assert_int_equal(latency_count(&l), 10000);
	assert_int_equal(l.sum_ns, UINT64_C(10000) * 10001 / 2 * 1000);
	assert_int_equal(l.max_ns, 10000000);
	static const double shares[] = {0.01, 0.5, 0.9, 0.99, 1};
	for (unsigned int i = 0; i < sizeof shares / sizeof shares[0]; i++) {
		double is = latency_percentile_ns(&l, shares[i]), want = shares[i] * 1e7;

		assert_true(is > want * 7 / 8 && is < want * 9 / 8);
	}
}

static void no_percentile_is_above_the_longest(void **state)
{
	struct latency l = {0};

	(void)state;
	latency_add(&l, 100);
	latency_add(&l, UINT64_C(1) << 50);
	assert_true(latency_percentile_ns(&l, 1) == (double)(UINT64_C(1) << 50));
	assert_true(latency_percentile_ns(&l, 0.5) <= 1024);
}

static void differences_are_what_came_between(void **state)
{
	struct latency all = {0}, early, other = {0};

	(void)state;
	for (int i = 0; i < 100; i++)
		latency_add(&all, 1000000);
	early = all;
	for (int i = 0; i < 10; i++)
		latency_add(&all, 5000000);
	latency_add(&other, 9000000);
	latency_subtract(&all, &early);
	assert_int_equal(latency_count(&all), 10);
	assert_int_equal(all.sum_ns, 50000000);
	assert_true(latency_percentile_ns(&all, 0.01) > 4e6);
	latency_merge(&all, &other);
	assert_int_equal(latency_count(&all), 11);
	assert_int_equal(all.sum_ns, 59000000);
	assert_int_equal(all.max_ns, 9000000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_time_lies_in_its_bucket),
		cmocka_unit_test(bounds_rise_by_a_quarter_at_most),
		cmocka_unit_test(nothing_has_no_percentile),
		cmocka_unit_test(percentiles_are_right_to_an_eighth),
		cmocka_unit_test(no_percentile_is_above_the_longest),
		cmocka_unit_test(differences_are_what_came_between),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
