/* SPDX-License-Identifier: MIT
 *
 * What nfsrdma-probe makes of an error, and of times.
 */
#include "probe.h"

#include <errno.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static const struct probe_facts softiwarp = {0};
static const struct probe_facts verbs = {.verbs = true, .rdma_cm = true, .adapters = true};

static void says(int error, const struct probe_facts *facts, const char *part)
{
	const char *text = probe_likely(error, facts);
	if (!strstr(text, part))
		fail_msg("error %d: '%s' has not '%s'", error, text, part);
}

static void each_failure_has_its_likely_reason(void **state)
{
	says(-ECONNREFUSED, &softiwarp, "is it the right server and port");
	says(-ECONNREFUSED, &(struct probe_facts){.nfs_answers = true}, "RoCE or InfiniBand only");
	says(-ECONNREFUSED, &verbs, "portlist");
	says(-EPROTO, &softiwarp, "not NFS over iWARP");
	says(-EACCES, &softiwarp, "refused");
	says(-ETIMEDOUT, &softiwarp, "firewall");
	says(-ETIMEDOUT, &verbs, "UDP port 4791");
	says(-ENOMEM, &softiwarp, "arena");
	says(-ENOMEM, &verbs, "ulimit -l");
	says(-ENOBUFS, &verbs, "credits");
	says(-EPROTONOSUPPORT, &verbs, "NFS version 3");
	says(-EHOSTUNREACH, &verbs, "no way leads");
}

static void what_is_missing_here_is_said(void **state)
{
	struct probe_facts facts = {.verbs = true};
	says(-ENODEV, &facts, "has no RDMA device");
	facts.adapters = true;
	says(-ENODEV, &facts, "modprobe rdma_ucm");
	facts.rdma_cm = true;
	says(-ENODEV, &facts, "does not go through");
	facts.adapters = false;
	says(-ENODEV, &facts, "has no RDMA device");
}

static void an_error_without_a_known_reason_gets_none(void **state)
{
	assert_string_equal(probe_likely(-EXDEV, &verbs), "");
	assert_string_equal(probe_likely(-ENOBUFS, &softiwarp), "");
	assert_string_equal(probe_likely(0, &verbs), "");
}

static void times_are_summed_up(void **state)
{
	uint64_t odd[] = {9, 1, 5000000000, 3, 7}, even[] = {4, 2, 8, 6}, one[] = {5};
	struct probe_spread s = probe_spread(odd, 5);
	assert_int_equal(s.min_ns, 1);
	assert_int_equal(s.median_ns, 7);
	assert_int_equal(s.max_ns, 5000000000);
	s = probe_spread(even, 4);
	assert_int_equal(s.min_ns, 2);
	assert_int_equal(s.median_ns, 4);
	assert_int_equal(s.max_ns, 8);
	s = probe_spread(one, 1);
	assert_int_equal(s.min_ns, 5);
	assert_int_equal(s.median_ns, 5);
	assert_int_equal(s.max_ns, 5);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_failure_has_its_likely_reason),
		cmocka_unit_test(what_is_missing_here_is_said),
		cmocka_unit_test(an_error_without_a_known_reason_gets_none),
		cmocka_unit_test(times_are_summed_up),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
