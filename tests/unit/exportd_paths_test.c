/* SPDX-License-Identifier: MIT
 *
 * The server's table of paths.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <limits.h>
#include <string.h>

#include "paths.h"

static const struct object_id root = {1, 2, 3};

static struct object_id object(uint64_t ino)
{
	return (struct object_id){.dev = 1, .ino = ino, .birth_ns = 100};
}

static int record(struct paths *p, uint64_t ino, const struct object_id *parent, const char *name)
{
	struct object_id id = object(ino);
	return paths_record(p, &id, parent, name);
}

static void assert_path(struct paths *p, const struct object_id *id, const char *want)
{
	char buf[PATH_MAX];
	const char *path;
	assert_int_equal(paths_find(p, id, &root, buf, sizeof buf, &path), 0);
	assert_string_equal(path, want);
}

static void a_path_is_built_from_the_root(void **state)
{
	struct paths *p = paths_create(8);
	struct object_id a = object(10), b = object(11);
	record(p, 10, &root, "a");
	record(p, 11, &a, "b");
	assert_path(p, &root, ".");
	assert_path(p, &a, "a");
	assert_path(p, &b, "a/b");
	paths_destroy(p);
}

static void a_rename_moves_what_is_below(void **state)
{
	struct paths *p = paths_create(8);
	struct object_id a = object(10), b = object(11);
	record(p, 10, &root, "a");
	record(p, 11, &a, "b");
	record(p, 10, &root, "longer");
	assert_path(p, &b, "longer/b");
	paths_destroy(p);
}

static void an_inode_born_later_is_another_object(void **state)
{
	struct paths *p = paths_create(8);
	char buf[PATH_MAX];
	const char *path;
	struct object_id reborn = object(10);
	reborn.birth_ns++;
	record(p, 10, &root, "a");
	assert_int_equal(paths_find(p, &reborn, &root, buf, sizeof buf, &path), -ESTALE);
	paths_destroy(p);
}

static void a_ring_of_parents_is_stale(void **state)
{
	struct paths *p = paths_create(8);
	char buf[PATH_MAX];
	const char *path;
	struct object_id a = object(10), b = object(11);
	record(p, 10, &b, "a");
	record(p, 11, &a, "b");
	int err = paths_find(p, &a, &root, buf, sizeof buf, &path);
	assert_true(err == -ESTALE || err == -ENAMETOOLONG);
	paths_destroy(p);
}

static void a_path_longer_than_the_buffer_is_refused(void **state)
{
	struct paths *p = paths_create(8);
	char buf[8];
	const char *path;
	struct object_id a = object(10), b = object(11);
	record(p, 10, &root, "abc");
	record(p, 11, &a, "def");
	assert_int_equal(paths_find(p, &a, &root, buf, 5, &path), 0);
	assert_int_equal(paths_find(p, &a, &root, buf, 4, &path), -ENAMETOOLONG);
	assert_int_equal(paths_find(p, &b, &root, buf, sizeof buf, &path), -ENAMETOOLONG);
	paths_destroy(p);
}

static void a_full_table_forgets_the_first(void **state)
{
	struct paths *p = paths_create(3);
	char buf[PATH_MAX];
	const char *path;
	for (uint64_t ino = 10; ino < 14; ino++)
		record(p, ino, &root, "x");
	struct object_id first = object(10), second = object(11), last = object(13);
	assert_int_equal(paths_find(p, &first, &root, buf, sizeof buf, &path), -ESTALE);
	assert_path(p, &second, "x");
	assert_path(p, &last, "x");
	paths_destroy(p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_path_is_built_from_the_root),
		cmocka_unit_test(a_rename_moves_what_is_below),
		cmocka_unit_test(an_inode_born_later_is_another_object),
		cmocka_unit_test(a_ring_of_parents_is_stale),
		cmocka_unit_test(a_path_longer_than_the_buffer_is_refused),
		cmocka_unit_test(a_full_table_forgets_the_first),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
