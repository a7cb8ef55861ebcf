/* SPDX-License-Identifier: MIT
 *
 * What becomes of an adapter's word about itself: its peculiarities by its vendor, and limits that are
 * smaller than what we ask for.
 */
#include "verbs/quirks.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#define RXE 0xffffffu
#define SIW 0x626d74u
#define MELLANOX 0x02c9u

/* An adapter that has plenty of everything. */
static struct ibv_device_attr adapter(uint32_t vendor_id)
{
	return (struct ibv_device_attr){.vendor_id = vendor_id,
					.max_qp_wr = 32768,
					.device_cap_flags = IBV_DEVICE_MEM_WINDOW_TYPE_2B,
					.max_sge = 30,
					.max_cqe = 1 << 22,
					.max_mw = 1 << 20,
					.max_qp_rd_atom = 16,
					.max_qp_init_rd_atom = 16};
}

/* What is asked for. */
static struct rdma_limits limits_of(const struct ibv_device_attr *attr)
{
	struct rdma_limits limits = {
		.max_recv = 66, .max_send = 358, .read_depth_in = 16, .read_depth_out = 16};
	verbs_limits(attr, &limits);
	return limits;
}

static void an_unknown_adapter_has_no_quirks(void **state)
{
	struct ibv_device_attr attr = adapter(MELLANOX);
	const struct quirks *quirks = verbs_quirks_of(&attr);
	assert_string_equal(quirks->adapter, "");
	assert_false(quirks->no_remote_invalidate);
	assert_false(quirks->no_window_bounds);
	assert_int_equal(quirks->invalidated_flag, 0);
	struct rdma_limits limits = limits_of(&attr);
	assert_true(limits.windows);
	assert_true(limits.window_bounds);
	assert_true(limits.remote_invalidate);
}

static void rxe_is_known(void **state)
{
	struct ibv_device_attr attr = adapter(RXE);
	const struct quirks *quirks = verbs_quirks_of(&attr);
	assert_string_equal(quirks->adapter, "soft-RoCE (rxe)");
	assert_int_equal(quirks->invalidated_flag, 4);
	struct rdma_limits limits = limits_of(&attr);
	assert_true(limits.windows);
	assert_false(limits.window_bounds);
	assert_false(limits.remote_invalidate);
}

static void siw_has_no_windows(void **state)
{
	struct ibv_device_attr attr = adapter(SIW);
	attr.max_mw = 0;
	assert_string_equal(verbs_quirks_of(&attr)->adapter, "software iWARP (siw)");
	struct rdma_limits limits = limits_of(&attr);
	assert_false(limits.windows);
	assert_false(limits.window_bounds);
	assert_false(limits.remote_invalidate);
}

/* Type 1 is bound by another call, and is not tied to a queue pair. */
static void only_type_2_windows_count(void **state)
{
	static const struct {
		unsigned int flags;
		int max_mw;
		bool windows;
	} rows[] = {
		{IBV_DEVICE_MEM_WINDOW_TYPE_2A, 1, true},
		{IBV_DEVICE_MEM_WINDOW_TYPE_2B, 1, true},
		{IBV_DEVICE_MEM_WINDOW, 1, false},
		{IBV_DEVICE_MEM_WINDOW_TYPE_2B, 0, false},
		{0, 1, false},
	};
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		struct ibv_device_attr attr = adapter(MELLANOX);
		attr.device_cap_flags = rows[i].flags;
		attr.max_mw = rows[i].max_mw;
		assert_int_equal(limits_of(&attr).windows, rows[i].windows);
	}
}

static void what_is_asked_for_is_not_raised(void **state)
{
	struct ibv_device_attr attr = adapter(MELLANOX);
	struct rdma_limits limits = limits_of(&attr);
	assert_int_equal(limits.max_recv, 66);
	assert_int_equal(limits.max_send, 358);
	assert_int_equal(limits.read_depth_in, 16);
	assert_int_equal(limits.read_depth_out, 16);
	assert_int_equal(limits.max_sge, RDMA_SGE_MAX);
}

static void smaller_limits_are_taken(void **state)
{
	struct ibv_device_attr attr = adapter(MELLANOX);
	attr.max_qp_wr = 64;
	attr.max_sge = 3;
	attr.max_qp_rd_atom = 1;
	attr.max_qp_init_rd_atom = 2;
	struct rdma_limits limits = limits_of(&attr);
	assert_int_equal(limits.max_recv, 64);
	assert_int_equal(limits.max_send, 64);
	assert_int_equal(limits.max_sge, 3);
	assert_int_equal(limits.read_depth_in, 1);
	assert_int_equal(limits.read_depth_out, 2);
}

/* Each in proportion, none of them all. */
static void a_short_completion_queue_shortens_the_others(void **state)
{
	for (int max_cqe = 8; max_cqe < 424; max_cqe++) {
		struct ibv_device_attr attr = adapter(MELLANOX);
		attr.max_cqe = max_cqe;
		struct rdma_limits limits = limits_of(&attr);
		assert_int_equal(limits.max_recv + limits.max_send, max_cqe);
		assert_in_range(limits.max_recv, 1, 66);
		assert_in_range(limits.max_send, 1, 358);
	}
	struct ibv_device_attr attr = adapter(MELLANOX);
	attr.max_cqe = 424;
	assert_int_equal(limits_of(&attr).max_recv, 66);
	assert_int_equal(limits_of(&attr).max_send, 358);
}

static void limits_that_are_not_told_are_none(void **state)
{
	struct ibv_device_attr attr = {.max_sge = 0, .max_qp_wr = -1};
	struct rdma_limits limits = limits_of(&attr);
	assert_int_equal(limits.max_recv, 66);
	assert_int_equal(limits.max_send, 358);
	assert_int_equal(limits.max_sge, RDMA_SGE_MAX);
	assert_int_equal(limits.read_depth_in, 16);
}

/* The largest number stands for "whatever it has". */
static void all_that_an_adapter_has_can_be_asked_for(void **state)
{
	struct ibv_device_attr attr = adapter(MELLANOX);
	struct rdma_limits limits = {.max_recv = UINT32_MAX, .max_send = UINT32_MAX};
	verbs_limits(&attr, &limits);
	assert_int_equal(limits.max_recv, 32768);
	assert_int_equal(limits.max_send, 32768);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_unknown_adapter_has_no_quirks),
		cmocka_unit_test(rxe_is_known),
		cmocka_unit_test(siw_has_no_windows),
		cmocka_unit_test(only_type_2_windows_count),
		cmocka_unit_test(what_is_asked_for_is_not_raised),
		cmocka_unit_test(smaller_limits_are_taken),
		cmocka_unit_test(a_short_completion_queue_shortens_the_others),
		cmocka_unit_test(limits_that_are_not_told_are_none),
		cmocka_unit_test(all_that_an_adapter_has_can_be_asked_for),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
