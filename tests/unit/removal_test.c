/* SPDX-License-Identifier: MIT
 *
 * Adapters that are taken out of the machine: who has their contexts, and when these are closed. A context is
 * two pipes whose other ends tell whether it is still open; its place in sysfs is a directory.
 */
#include "verbs/endpoint.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

struct adapter_files {
	struct ibv_device device;
	struct ibv_context verbs;
	int cmd_end, async_end;
	char dir[64];
};

static int setup(void **state)
{
	struct adapter_files *a = calloc(1, sizeof *a);
	int cmd[2], async[2];

	*state = a;
	snprintf(a->dir, sizeof a->dir, "/tmp/removal_test.XXXXXX");
	assert_non_null(mkdtemp(a->dir));
	assert_int_equal(pipe(cmd), 0);
	assert_int_equal(pipe(async), 0);
	a->verbs.device = &a->device;
	a->verbs.cmd_fd = cmd[1];
	a->verbs.async_fd = async[1];
	a->cmd_end = cmd[0];
	a->async_end = async[0];
	snprintf(a->device.dev_path, sizeof a->device.dev_path, "%s/uverbs0", a->dir);
	return mkdir(a->device.dev_path, 0700);
}

static int teardown(void **state)
{
	struct adapter_files *a = *state;

	close(a->verbs.cmd_fd);
	close(a->verbs.async_fd);
	close(a->cmd_end);
	close(a->async_end);
	rmdir(a->device.dev_path);
	rmdir(a->dir);
	free(a);
	return 0;
}

static bool hung_up(int fd)
{
	struct pollfd p = {.fd = fd};

	return poll(&p, 1, 0) == 1 && p.revents & POLLHUP;
}

static bool is_closed(const struct adapter_files *a)
{
	assert_int_equal(hung_up(a->cmd_end), hung_up(a->async_end));
	return hung_up(a->cmd_end);
}

static void last_to_leave_closes_what_is_removed(void **state)
{
	struct adapter_files *a = *state;

	assert_int_equal(verbs_context_use(&a->verbs), 0);
	assert_int_equal(verbs_context_use(&a->verbs), 0);
	verbs_context_removed(&a->verbs);
	assert_false(is_closed(a));
	verbs_context_leave(&a->verbs);
	assert_false(is_closed(a));
	verbs_context_leave(&a->verbs);
	assert_true(is_closed(a));
}

/* librdmacm still knows the descriptors, and closes them in its time. */
static void closed_descriptors_stay_taken_and_refuse_requests(void **state)
{
	struct adapter_files *a = *state;

	assert_int_equal(verbs_context_use(&a->verbs), 0);
	verbs_context_removed(&a->verbs);
	verbs_context_leave(&a->verbs);
	assert_int_equal(write(a->verbs.cmd_fd, "x", 1), -1);
	assert_int_equal(errno, EBADF);
	assert_true(fcntl(a->verbs.cmd_fd, F_GETFD) & FD_CLOEXEC);
	assert_true(fcntl(a->verbs.async_fd, F_GETFD) & FD_CLOEXEC);
}

static void what_is_removed_takes_no_new_user(void **state)
{
	struct adapter_files *a = *state;

	assert_int_equal(verbs_context_use(&a->verbs), 0);
	assert_false(verbs_context_is_removed(&a->verbs));
	verbs_context_removed(&a->verbs);
	assert_true(verbs_context_is_removed(&a->verbs));
	assert_int_equal(verbs_context_use(&a->verbs), -ENODEV);
	verbs_context_leave(&a->verbs);
	assert_true(is_closed(a));
}

static void what_is_left_stays_open(void **state)
{
	struct adapter_files *a = *state;

	assert_int_equal(verbs_context_use(&a->verbs), 0);
	verbs_context_leave(&a->verbs);
	assert_false(is_closed(a));
	verbs_context_removed(&a->verbs); /* it is not known any more */
	assert_false(is_closed(a));
	assert_int_equal(verbs_context_use(&a->verbs), 0);
	verbs_context_leave(&a->verbs);
}

static void removal_is_seen_in_sysfs(void **state)
{
	struct adapter_files *a = *state;

	assert_int_equal(verbs_context_use(&a->verbs), 0);
	verbs_contexts_look();
	assert_false(verbs_context_is_removed(&a->verbs));
	rmdir(a->device.dev_path);
	verbs_contexts_look();
	assert_true(verbs_context_is_removed(&a->verbs));
	verbs_context_leave(&a->verbs);
	assert_true(is_closed(a));
}

static void another_adapter_in_its_place_is_another(void **state)
{
	struct adapter_files *a = *state;
	char other[80];

	assert_int_equal(verbs_context_use(&a->verbs), 0);
	snprintf(other, sizeof other, "%s/other", a->dir);
	assert_int_equal(mkdir(other, 0700), 0);
	assert_int_equal(rename(other, a->device.dev_path), 0);
	verbs_contexts_look();
	assert_true(verbs_context_is_removed(&a->verbs));
	verbs_context_leave(&a->verbs);
	assert_true(is_closed(a));
}

static void without_sysfs_only_rdma_cm_tells(void **state)
{
	struct adapter_files *a = *state;

	rmdir(a->device.dev_path);
	assert_int_equal(verbs_context_use(&a->verbs), 0);
	verbs_contexts_look();
	assert_false(verbs_context_is_removed(&a->verbs));
	verbs_context_removed(&a->verbs);
	verbs_context_leave(&a->verbs);
	assert_true(is_closed(a));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(last_to_leave_closes_what_is_removed, setup, teardown),
		cmocka_unit_test_setup_teardown(closed_descriptors_stay_taken_and_refuse_requests, setup,
						teardown),
		cmocka_unit_test_setup_teardown(what_is_removed_takes_no_new_user, setup, teardown),
		cmocka_unit_test_setup_teardown(what_is_left_stays_open, setup, teardown),
		cmocka_unit_test_setup_teardown(removal_is_seen_in_sysfs, setup, teardown),
		cmocka_unit_test_setup_teardown(another_adapter_in_its_place_is_another, setup, teardown),
		cmocka_unit_test_setup_teardown(without_sysfs_only_rdma_cm_tells, setup, teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
