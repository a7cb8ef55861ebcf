/* SPDX-License-Identifier: MIT */
#include "cred.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static void body_has_the_bytes_of_authsys_parms(void **state)
{
	static const uint8_t want[] = {
		0, 0, 0, 0,					/* stamp */
		0, 0, 0, 3,    'b', 'o', 'x', 0,		/* machine name */
		0, 0, 3, 0xe8, 0,   0,	 0,   100,		/* uid 1000, gid 100 */
		0, 0, 0, 2,    0,   0,	 0,   4,   0, 0, 0, 27, /* groups 4, 27 */
	};
	struct cred c;
	cred_init(&c, "box", 1000, 100, (uint32_t[]){27, 4}, 2);
	assert_int_equal(c.body_len, sizeof want);
	assert_memory_equal(c.body, want, sizeof want);
}

static void equal_rights_are_equal_credentials(void **state)
{
	struct cred a, b, c;
	cred_init(&a, "m", 1, 2, (uint32_t[]){9, 5, 7}, 3);
	cred_init(&b, "m", 1, 2, (uint32_t[]){7, 7, 2, 5, 9, 9}, 6);
	cred_init(&c, "m", 1, 2, (uint32_t[]){7, 5}, 2);
	assert_true(cred_equal(&a, &b));
	assert_true(cred_hash(&a) == cred_hash(&b));
	assert_int_equal(a.body_len, b.body_len);
	assert_memory_equal(a.body, b.body, a.body_len);
	assert_false(cred_equal(&a, &c));
	assert_true(cred_hash(&a) != cred_hash(&c));
}

static void ids_tell_credentials_apart(void **state)
{
	struct cred a, b, c;
	cred_init(&a, NULL, 1, 2, NULL, 0);
	cred_init(&b, NULL, 2, 2, NULL, 0);
	cred_init(&c, NULL, 1, 1, NULL, 0);
	assert_false(cred_equal(&a, &b));
	assert_false(cred_equal(&a, &c));
}

static void of_many_groups_the_lowest_sixteen_are_kept(void **state)
{
	uint32_t gids[40];
	struct cred c;
	for (uint32_t i = 0; i < 40; i++)
		gids[i] = 1000 - 10 * i; /* 1000 down to 610 */
	cred_init(&c, NULL, 5, 630, gids, 40);
	assert_int_equal(c.ngids, 16);
	uint32_t want = 610;
	for (uint32_t i = 0; i < 16; i++, want += 10) {
		if (want == 630) /* the primary group does not take a place */
			want += 10;
		assert_int_equal(c.gids[i], want);
	}
}

static void largest_body_fits(void **state)
{
	char machine[200];
	uint32_t gids[20];
	struct cred c;
	memset(machine, 'm', sizeof machine);
	machine[sizeof machine - 1] = 0;
	for (uint32_t i = 0; i < 20; i++)
		gids[i] = i + 1;
	cred_init(&c, machine, 0xffffffff, 0xfffffffe, gids, 20);
	assert_int_equal(c.body_len, CRED_BODY_MAX);
}

/* A descriptor that reads as the given text. */
static int text_fd(const char *text, size_t len)
{
	int fd = memfd_create("text", MFD_CLOEXEC);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, len), (ssize_t)len);
	assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
	return fd;
}

static int read_text(const char *text, struct cred_groups *g)
{
	int fd = text_fd(text, strlen(text));
	int err = cred_groups_read(fd, g);
	close(fd);
	return err;
}

static void groups_line_is_found_and_read(void **state)
{
	struct cred_groups g = {.gid = 100};
	assert_int_equal(
		read_text("Name:\tx\nUid:\t1 2 3 4\nGroups:\t4 100 24 4294967294 \nNStgid:\t7 8\n", &g), 0);
	assert_int_equal(g.n, 3);
	assert_int_equal(g.gids[0], 4);
	assert_int_equal(g.gids[1], 24);
	assert_true(g.gids[2] == 4294967294u);
}

static void empty_groups_line_is_no_groups(void **state)
{
	struct cred_groups g = {.gid = 1};
	assert_int_equal(read_text("Groups:\t \nNgid:\t5\n", &g), 0);
	assert_int_equal(g.n, 0);
}

static void a_name_that_looks_like_the_key_is_not_it(void **state)
{
	struct cred_groups g = {.gid = 1};
	assert_int_equal(read_text("Name:\tGroups: 5\nGroup:\t7\nXGroups:\t8\nGroups:\t9\n", &g), 0);
	assert_int_equal(g.n, 1);
	assert_int_equal(g.gids[0], 9);
}

static void a_status_without_groups_is_an_error(void **state)
{
	struct cred_groups g = {.gid = 1};
	assert_int_equal(read_text("Name:\tx\n", &g), -ENODATA);
	assert_int_equal(read_text("Groups:\t5", &g), -ENODATA); /* cut short */
}

static void a_line_longer_than_any_buffer_is_read_whole(void **state)
{
	size_t size = 700000, len = 0;
	char *text = malloc(size);
	struct cred_groups g = {.gid = 0};
	len += (size_t)sprintf(text, "Groups:\t");
	for (uint32_t gid = 65536; gid > 0; gid--)
		len += (size_t)sprintf(text + len, "%u ", 100000 + gid);
	len += (size_t)sprintf(text + len, "\n");
	assert_true(len < size);
	int fd = text_fd(text, len);
	assert_int_equal(cred_groups_read(fd, &g), 0);
	close(fd);
	free(text);
	assert_int_equal(g.n, 16);
	for (uint32_t i = 0; i < 16; i++)
		assert_int_equal(g.gids[i], 100001 + i);
}

/* ---- callers, over a directory that plays /proc ---- */

struct proc {
	char path[64];
	int fd;
};

static void proc_thread(struct proc *p, const char *status)
{
	char path[128];
	snprintf(path, sizeof path, "%s/9", p->path);
	mkdir(path, 0700);
	strcat(path, "/status");
	FILE *f = fopen(path, "w");
	assert_non_null(f);
	fputs(status, f);
	fclose(f);
}

static int proc_setup(void **state)
{
	struct proc *p = calloc(1, sizeof *p);
	strcpy(p->path, "/tmp/cred_test.XXXXXX");
	if (!mkdtemp(p->path))
		return -1;
	p->fd = open(p->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	*state = p;
	return p->fd < 0 ? -1 : 0;
}

static int proc_teardown(void **state)
{
	struct proc *p = *state;
	char path[128];
	snprintf(path, sizeof path, "%s/9/status", p->path);
	unlink(path);
	snprintf(path, sizeof path, "%s/9", p->path);
	rmdir(path);
	rmdir(p->path);
	close(p->fd);
	free(p);
	return 0;
}

static struct cred caller(const struct proc *p, pid_t tid, uint32_t uid, uint32_t gid)
{
	struct cred c;
	cred_of_caller(p->fd, "m", tid, uid, gid, &c);
	return c;
}

static void a_caller_has_the_groups_of_now(void **state)
{
	struct proc *p = *state;
	proc_thread(p, "Name:\tx\nGroups:\t5 6 \n");
	assert_int_equal(caller(p, 9, 1, 1).ngids, 2);
	assert_int_equal(caller(p, 9, 1, 6).ngids, 1);
	proc_thread(p, "Name:\tx\nGroups:\t7 \n"); /* setgroups() */
	struct cred c = caller(p, 9, 1, 1);
	assert_int_equal(c.ngids, 1);
	assert_int_equal(c.gids[0], 7);
}

static void the_kernel_and_the_dead_have_no_groups(void **state)
{
	struct proc *p = *state;
	assert_int_equal(caller(p, 0, 0, 0).ngids, 0);
	struct cred c = caller(p, 12345, 7, 8);
	assert_int_equal(c.ngids, 0);
	assert_int_equal(c.uid, 7);
	assert_int_equal(c.gid, 8);
	proc_thread(p, "Name:\tx\n");
	assert_int_equal(caller(p, 9, 7, 8).ngids, 0);
}

static void our_own_groups_are_what_getgroups_says(void **state)
{
	int proc_fd = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	gid_t mine[NGROUPS_MAX];
	int n = getgroups(NGROUPS_MAX, mine);
	struct cred want, got;
	assert_true(proc_fd >= 0 && n >= 0);
	cred_init(&want, "m", getuid(), getgid(), mine, (size_t)n);
	cred_of_caller(proc_fd, "m", gettid(), getuid(), getgid(), &got);
	close(proc_fd);
	assert_true(cred_equal(&want, &got));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(body_has_the_bytes_of_authsys_parms),
		cmocka_unit_test(equal_rights_are_equal_credentials),
		cmocka_unit_test(ids_tell_credentials_apart),
		cmocka_unit_test(of_many_groups_the_lowest_sixteen_are_kept),
		cmocka_unit_test(largest_body_fits),
		cmocka_unit_test(groups_line_is_found_and_read),
		cmocka_unit_test(empty_groups_line_is_no_groups),
		cmocka_unit_test(a_name_that_looks_like_the_key_is_not_it),
		cmocka_unit_test(a_status_without_groups_is_an_error),
		cmocka_unit_test(a_line_longer_than_any_buffer_is_read_whole),
		cmocka_unit_test_setup_teardown(a_caller_has_the_groups_of_now, proc_setup, proc_teardown),
		cmocka_unit_test_setup_teardown(the_kernel_and_the_dead_have_no_groups, proc_setup,
						proc_teardown),
		cmocka_unit_test(our_own_groups_are_what_getgroups_says),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
