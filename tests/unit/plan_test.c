/* SPDX-License-Identifier: MIT
 *
 * The small pure types of the client: chunk plan, credits, backoff.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "client/backoff.h"
#include "client/credits.h"
#include "client/plan.h"

#include <errno.h>

static const struct plan_limits k4 = {.send_bytes = 4096, .recv_bytes = 4096, .max_sge = 8};
static const struct plan_limits k1 = {.send_bytes = 1024, .recv_bytes = 1024, .max_sge = 8};
static char mem[1 << 20];

static struct plan planned(const struct rpcrdma_call *call, const struct plan_limits *limits)
{
	struct plan plan;

	assert_int_equal(plan_call(call, limits, &plan), 0);
	return plan;
}

static void small_calls_need_no_registration(void **state)
{
	struct rpcrdma_call call = {.msg_len = 200, .reply_max = 400};
	struct plan plan = planned(&call, &k1);

	assert_int_equal(plan.fmrs, 0);
	assert_false(plan.read_chunk || plan.long_call || plan.write_chunk || plan.reply_chunk);
}

static void write_data_is_inline_up_to_the_threshold(void **state)
{
	/* 28 header + 112 message + data = 4096 */
	struct rpcrdma_call call = {.msg_len = 112,
				    .nout = 1,
				    .out_pos = 112,
				    .out[0] = {mem, 4096 - 28 - 112},
				    .reply_max = 200};
	struct plan plan = planned(&call, &k4);

	assert_false(plan.read_chunk);
	assert_int_equal(plan.out_bytes, 4096 - 28 - 112);
	call.out[0].iov_len--; /* its padding still fits */
	assert_false(planned(&call, &k4).read_chunk);
	call.out[0].iov_len += 2;
	plan = planned(&call, &k4);
	assert_true(plan.read_chunk);
	assert_false(plan.long_call);
	assert_int_equal(plan.fmrs, 1);
}

static void each_segment_of_write_data_has_its_registration(void **state)
{
	struct rpcrdma_call call = {
		.msg_len = 112, .nout = RPCRDMA_MAX_SEGS, .out_pos = 112, .reply_max = 200};

	for (unsigned int i = 0; i < call.nout; i++)
		call.out[i] = (struct iovec){mem + i * 4096, 4096};
	assert_int_equal(planned(&call, &k4).fmrs, RPCRDMA_MAX_SEGS);
}

static void more_pieces_than_a_send_can_gather_go_by_chunk(void **state)
{
	struct rpcrdma_call call = {.msg_len = 112, .nout = 7, .out_pos = 112, .reply_max = 200};

	for (unsigned int i = 0; i < call.nout; i++)
		call.out[i] = (struct iovec){mem + i * 16, 16};
	assert_true(planned(&call, &k4).read_chunk);
	call.nout = 6;
	assert_false(planned(&call, &k4).read_chunk);
	call.out[5].iov_len = 15; /* padding takes one more */
	assert_true(planned(&call, &k4).read_chunk);
}

static void read_data_is_placed_unless_the_whole_reply_fits_inline(void **state)
{
	struct rpcrdma_call call = {.msg_len = 120, .reply_max = 128, .in = {mem, 4096 - 28 - 128}};
	struct plan plan = planned(&call, &k4);

	assert_false(plan.write_chunk);
	assert_int_equal(plan.fmrs, 0);
	call.in.iov_len++;
	plan = planned(&call, &k4);
	assert_true(plan.write_chunk);
	assert_false(plan.reply_chunk);
	assert_int_equal(plan.fmrs, 1);
}

static void long_replies_need_a_buffer(void **state)
{
	struct rpcrdma_call call = {.msg_len = 120, .reply_max = 65536, .reply_buf = {mem, 65536}};
	struct plan plan = planned(&call, &k4);

	assert_true(plan.reply_chunk);
	assert_int_equal(plan.fmrs, 1);
	call.reply_buf.iov_len--;
	assert_int_equal(plan_call(&call, &k4, &plan), -EMSGSIZE);
	call.reply_max = 4096 - 28;
	call.reply_buf.iov_len = 0;
	assert_false(planned(&call, &k4).reply_chunk);
	assert_int_equal(plan_call(&call, &k1, &plan), -EMSGSIZE);
}

static void a_long_call_is_fetched_from_position_zero(void **state)
{
	struct rpcrdma_call call = {.msg_len = 1024 - 28, .reply_max = 200};
	struct plan plan = planned(&call, &k1);

	assert_false(plan.long_call);
	call.msg_len += 4;
	plan = planned(&call, &k1);
	assert_true(plan.long_call);
	assert_int_equal(plan.fmrs, 1);
	/* with a payload beside it, which keeps its own chunk */
	call.nout = 1;
	call.out[0] = (struct iovec){mem, 4000};
	call.out_pos = call.msg_len;
	plan = planned(&call, &k1);
	assert_true(plan.long_call && plan.read_chunk);
	assert_int_equal(plan.fmrs, 2);
}

static void nonsense_is_refused(void **state)
{
	struct plan plan;
	struct rpcrdma_call call = {
		.msg_len = 100, .nout = 1, .out_pos = 98, .out[0] = {mem, 8}, .reply_max = 100};

	assert_int_equal(plan_call(&call, &k4, &plan), -EINVAL); /* not on a word */
	call.out_pos = 104;
	assert_int_equal(plan_call(&call, &k4, &plan), -EINVAL); /* past the message */
	call.out_pos = 100;
	call.out[0].iov_len = 0;
	assert_int_equal(plan_call(&call, &k4, &plan), -EINVAL);
	call.out[0].iov_len = 8;
	call.nout = RPCRDMA_MAX_SEGS + 1;
	assert_int_equal(plan_call(&call, &k4, &plan), -EINVAL);
	call.nout = 1;
	call.msg_len = RPCRDMA_MSG_BYTES + 4;
	assert_int_equal(plan_call(&call, &k4, &plan), -EINVAL);
}

static void credits_start_at_one_and_follow_the_grant(void **state)
{
	struct credits c;

	credits_reset(&c, 64);
	assert_true(credits_available(&c));
	credits_take(&c);
	assert_false(credits_available(&c));
	credits_granted(&c, 32);
	for (int i = 1; i < 32; i++)
		credits_take(&c);
	assert_false(credits_available(&c));
	credits_granted(&c, 1000000); /* cut to what we have receives for */
	assert_int_equal(c.granted, 64);
	credits_granted(&c, 8); /* shrinks below what is in use */
	for (int i = 0; i < 24; i++) {
		assert_false(credits_available(&c));
		credits_give(&c);
	}
	assert_false(credits_available(&c));
	credits_give(&c);
	assert_true(credits_available(&c));
	credits_granted(&c, 0);
	assert_int_equal(c.granted, 1);
}

static void backoff_doubles_up_to_three_seconds(void **state)
{
	struct backoff b = {0};
	uint64_t nominal[] = {100, 200, 400, 800, 1600, 3000, 3000, 3000};

	for (unsigned int i = 0; i < sizeof nominal / sizeof nominal[0]; i++) {
		struct backoff twin = b;
		uint64_t low = backoff_next(&twin, 0), high = backoff_next(&b, UINT32_MAX);
		assert_int_equal(low, nominal[i] * 1000000 * 3 / 4);
		assert_int_equal(high, nominal[i] * 1000000 * 5 / 4);
	}
	b.failures = 1000000;
	assert_in_range(backoff_next(&b, 1), BACKOFF_MAX_NS * 3 / 4, BACKOFF_MAX_NS * 5 / 4);
	backoff_reset(&b);
	assert_in_range(backoff_next(&b, 1), BACKOFF_FIRST_NS * 3 / 4, BACKOFF_FIRST_NS * 5 / 4);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(small_calls_need_no_registration),
		cmocka_unit_test(write_data_is_inline_up_to_the_threshold),
		cmocka_unit_test(each_segment_of_write_data_has_its_registration),
		cmocka_unit_test(more_pieces_than_a_send_can_gather_go_by_chunk),
		cmocka_unit_test(read_data_is_placed_unless_the_whole_reply_fits_inline),
		cmocka_unit_test(long_replies_need_a_buffer),
		cmocka_unit_test(a_long_call_is_fetched_from_position_zero),
		cmocka_unit_test(nonsense_is_refused),
		cmocka_unit_test(credits_start_at_one_and_follow_the_grant),
		cmocka_unit_test(backoff_doubles_up_to_three_seconds),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
