/* SPDX-License-Identifier: MIT */
#include "log.h"

#include <stdio.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static const uint64_t start_ns = 1000000;

static uint32_t admitted(struct log_site *site, uint64_t now_ns, unsigned int lines, uint32_t *suppressed)
{
	uint32_t n = 0;
	while (lines--)
		n += log_site_admit(site, now_ns, suppressed);
	return n;
}

static void a_burst_goes_out_and_the_rest_is_counted(void **state)
{
	struct log_site site = {0};
	uint32_t suppressed = 99;
	assert_int_equal(admitted(&site, start_ns, 1000, &suppressed), LOG_BURST);
	assert_int_equal(suppressed, 0);
	assert_false(log_site_admit(&site, start_ns + LOG_REFILL_NS - 1, &suppressed));
	assert_true(log_site_admit(&site, start_ns + LOG_REFILL_NS, &suppressed));
	assert_int_equal(suppressed, 1000 - LOG_BURST + 1);
	assert_false(log_site_admit(&site, start_ns + LOG_REFILL_NS, &suppressed));
}

static void a_quiet_site_gets_its_burst_back_but_no_more(void **state)
{
	struct log_site site = {0};
	uint32_t suppressed;
	admitted(&site, start_ns, 100, &suppressed);
	assert_int_equal(admitted(&site, start_ns + 3 * LOG_REFILL_NS, 100, &suppressed), 3);
	assert_int_equal(admitted(&site, start_ns + 1000000 * LOG_REFILL_NS, 100, &suppressed), LOG_BURST);
}

static char lines[64][LOG_LINE_MAX];
static enum log_level levels[64];
static int nlines;

static void sink(enum log_level level, const char *line)
{
	if (nlines == 64)
		return;
	levels[nlines] = level;
	snprintf(lines[nlines++], LOG_LINE_MAX, "%s", line);
}

static int setup(void **state)
{
	nlines = 0;
	log_set_debug(0);
	log_set_sink(sink);
	return 0;
}

static int teardown(void **state)
{
	log_set_sink(NULL);
	return 0;
}

static void only_the_areas_that_were_asked_for_speak(void **state)
{
	log_debug(LOG_NFS, "d");
	log_info("i %d", 1);
	log_warning("w");
	log_error("e");
	assert_int_equal(nlines, 3);
	assert_string_equal(lines[0], "i 1");
	assert_int_equal(levels[2], LOG_LEVEL_ERROR);
	log_set_debug(LOG_NFS | LOG_FUSE);
	log_debug(LOG_NFS, "n");
	log_debug(LOG_TRANSPORT, "t");
	assert_int_equal(nlines, 4);
	assert_int_equal(levels[3], LOG_LEVEL_DEBUG);
}

static void debugging_messages_are_not_limited(void **state)
{
	log_set_debug(LOG_NFS);
	for (int i = 0; i < 60; i++)
		log_debug(LOG_NFS, "n");
	assert_int_equal(nlines, 60);
}

static void areas_have_names(void **state)
{
	assert_int_equal(log_areas_parse("nfs"), LOG_NFS);
	assert_int_equal(log_areas_parse("nfs:pool"), LOG_NFS | LOG_POOL);
	assert_int_equal(log_areas_parse("all") & LOG_LOCKS, LOG_LOCKS);
	static const char *const bad[] = {"", ":", "nfs:", ":nfs", "nfs,pool", "nf", "nfss", "NFS"};
	for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
		assert_int_equal(log_areas_parse(bad[i]), 0);
}

static void one_site_does_not_silence_another(void **state)
{
	for (int i = 0; i < 100; i++)
		log_error("noisy");
	log_error("rare");
	assert_int_equal(nlines, (int)LOG_BURST + 1);
	assert_string_equal(lines[nlines - 1], "rare");
}

static void a_line_is_one_line(void **state)
{
	log_info("name '%s'", "a\nb\x1b[2J\x7f\xc3\xa9");
	assert_string_equal(lines[0], "name 'a?b?[2J?\xc3\xa9'");
}

static void an_endless_line_is_cut(void **state)
{
	char text[4 * LOG_LINE_MAX];
	memset(text, 'x', sizeof text);
	text[sizeof text - 1] = 0;
	log_info("%s", text);
	assert_int_equal(strlen(lines[0]), LOG_LINE_MAX - 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_burst_goes_out_and_the_rest_is_counted),
		cmocka_unit_test(a_quiet_site_gets_its_burst_back_but_no_more),
		cmocka_unit_test_setup_teardown(only_the_areas_that_were_asked_for_speak, setup, teardown),
		cmocka_unit_test_setup_teardown(debugging_messages_are_not_limited, setup, teardown),
		cmocka_unit_test(areas_have_names),
		cmocka_unit_test_setup_teardown(one_site_does_not_silence_another, setup, teardown),
		cmocka_unit_test_setup_teardown(a_line_is_one_line, setup, teardown),
		cmocka_unit_test_setup_teardown(an_endless_line_is_cut, setup, teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
