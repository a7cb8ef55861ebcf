/* SPDX-License-Identifier: MIT */
#include "mountinfo.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static bool parse(const char *text, char *path, size_t size, struct mountinfo *info)
{
	char line[512];
	snprintf(line, sizeof line, "%s\n", text);
	return mountinfo_parse(line, path, size, info);
}

static void an_ordinary_line(void **state)
{
	char path[64];
	struct mountinfo info;
	(void)state;
	assert_true(parse("311 29 0:57 / /mnt rw,nosuid,nodev - fuse.nfsrdma server:/export rw,user_id=0",
			  path, sizeof path, &info));
	assert_string_equal(path, "/mnt");
	assert_int_equal(info.major, 0);
	assert_int_equal(info.minor, 57);
	assert_string_equal(info.type, "fuse.nfsrdma");
	assert_string_equal(info.source, "server:/export");
}

static void optional_fields_are_stepped_over(void **state)
{
	char path[64];
	struct mountinfo info;
	(void)state;
	assert_true(parse("36 35 98:0 /r /mnt2 rw shared:1 master:2 - ext3 /dev/root rw", path, sizeof path,
			  &info));
	assert_string_equal(info.type, "ext3");
}

static void spaces_and_backslashes_are_escaped(void **state)
{
	char path[64];
	struct mountinfo info;
	(void)state;
	assert_true(parse("1 2 3:4 / /a\\040b\\134c\\011 rw - fuse.nfsrdma s:/x\\040y rw", path, sizeof path,
			  &info));
	assert_string_equal(path, "/a b\\c\t");
	assert_string_equal(info.source, "s:/x y");
}

static void what_is_no_such_line_is_refused(void **state)
{
	static const char *const bad[] = {"",
					  "1",
					  "1 2 x / /mnt rw - t s o",
					  "1 2 3:4 / /mnt rw shared:1",
					  "1 2 3:4 / /mnt rw -",
					  "1 2 3:4 / /mnt rw - type"};
	char path[64];
	struct mountinfo info;
	(void)state;
	for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
		assert_false(parse(bad[i], path, sizeof path, &info));
	assert_false(parse("1 2 3:4 / /too/long rw - t s o", path, 5, &info));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_ordinary_line),
		cmocka_unit_test(optional_fields_are_stepped_over),
		cmocka_unit_test(spaces_and_backslashes_are_escaped),
		cmocka_unit_test(what_is_no_such_line_is_refused),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
