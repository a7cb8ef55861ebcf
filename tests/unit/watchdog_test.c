/* SPDX-License-Identifier: MIT */
#include "rpcrdma.h"
#include "watchdog.h"

#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <setjmp.h>

#include <cmocka.h>

#define SECOND UINT64_C(1000000000)
#define LIMIT (10 * SECOND)
#define ASKED (100 * SECOND)

static uint64_t age;

static void the_limit_follows_the_time_out(void **state)
{
	(void)state;
	assert_int_equal(watchdog_limit_ns(60 * SECOND), WATCHDOG_LIMIT_NS);
	assert_int_equal(watchdog_limit_ns(6 * SECOND), 3 * SECOND);
	assert_int_equal(watchdog_limit_ns(SECOND / 10), SECOND);
}

static void it_speaks_when_the_age_has_doubled(void **state)
{
	struct watchdog w = {0};
	unsigned int words = 0;

	(void)state;
	for (uint64_t s = 0; s < 100; s++) {
		enum watchdog_word word = watchdog_look(&w, ASKED, LIMIT, ASKED + s * SECOND, &age);
		bool due = s == 10 || s == 20 || s == 40 || s == 80;

		assert_int_equal(word, due ? WATCHDOG_LATE : WATCHDOG_SILENT);
		if (due)
			assert_int_equal(age, s * SECOND);
		words += due;
	}
	assert_int_equal(words, 4);
	assert_int_equal(watchdog_look(&w, 0, LIMIT, ASKED + 100 * SECOND, &age), WATCHDOG_ANSWERED);
	assert_int_equal(age, 100 * SECOND);
	assert_int_equal(watchdog_look(&w, 0, LIMIT, ASKED + 101 * SECOND, &age), WATCHDOG_SILENT);
}

static void calls_that_come_and_go_are_not_spoken_of(void **state)
{
	struct watchdog w = {0};

	(void)state;
	for (uint64_t s = 0; s < 100; s++)
		assert_int_equal(watchdog_look(&w, ASKED + s * SECOND, LIMIT, ASKED + (s + 9) * SECOND, &age),
				 WATCHDOG_SILENT);
}

static void the_next_call_is_spoken_of_by_itself(void **state)
{
	struct watchdog w = {0};

	(void)state;
	assert_int_equal(watchdog_look(&w, ASKED, LIMIT, ASKED + 30 * SECOND, &age), WATCHDOG_LATE);
	uint64_t next = ASKED + SECOND;
	assert_int_equal(watchdog_look(&w, next, LIMIT, ASKED + 31 * SECOND, &age), WATCHDOG_ANSWERED);
	assert_int_equal(age, 31 * SECOND);
	assert_int_equal(watchdog_look(&w, next, LIMIT, ASKED + 32 * SECOND, &age), WATCHDOG_LATE);
	assert_int_equal(age, 31 * SECOND);
}

static void the_line_says_what_to_do(void **state)
{
	struct watchdog_call call = {.source = "s:/e",
				     .server = "s",
				     .mountpoint = "/m",
				     .proc = "READ",
				     .xid = 0xabc,
				     .lane = 2,
				     .age_ns = 12 * SECOND,
				     .sends = 1,
				     .state = RPCRDMA_STATE_UP};
	char line[512];

	(void)state;
	watchdog_line(&call, line, sizeof line);
	assert_string_equal(
		line, "server s:/e lane 2: READ (XID 0x00000abc) without an answer for 12 s: sent 1 time, "
		      "the connection is up: look at the load, the disks and the log of the server; "
		      "'nfsrdma-stat /m' shows the lane");
	call.others = 3;
	call.state = RPCRDMA_STATE_DOWN;
	watchdog_line(&call, line, sizeof line);
	assert_non_null(strstr(line, "and 3 more"));
	assert_non_null(strstr(line, "nfsrdma-probe s"));
	call.state = RPCRDMA_STATE_UP;
	call.sends = 0;
	call.waits_for = RPCRDMA_WAITS_FOR_CREDIT;
	watchdog_line(&call, line, sizeof line);
	assert_non_null(strstr(line, "no credit"));
	call.waits_for = RPCRDMA_WAITS_FOR_REGISTRATIONS;
	watchdog_line(&call, line, sizeof line);
	assert_non_null(strstr(line, "credits="));
	call.refused = 4;
	watchdog_line(&call, line, sizeof line);
	assert_non_null(strstr(line, "JUKEBOX) 4 times"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_limit_follows_the_time_out),
		cmocka_unit_test(it_speaks_when_the_age_has_doubled),
		cmocka_unit_test(calls_that_come_and_go_are_not_spoken_of),
		cmocka_unit_test(the_next_call_is_spoken_of_by_itself),
		cmocka_unit_test(the_line_says_what_to_do),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
