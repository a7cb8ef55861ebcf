/* SPDX-License-Identifier: MIT
 *
 * Each test runs a program of its own in a forked process, with its output in pipes, and looks at what a
 * shell would see.
 */
#include "start.h"

#include "log.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

struct outcome {
	int status;	  /* exit status, or -signal */
	char out[4096];	  /* standard output and error, together */
	char report[256]; /* what the program wrote to its report descriptor, until all its processes were
			     gone */
};

static void read_all(int fd, char *text, size_t size)
{
	size_t len = 0;
	ssize_t n;
	while ((n = read(fd, text + len, size - 1 - len)) > 0)
		len += (size_t)n;
	text[len] = 0;
	close(fd);
}

/* The standard output and error of the program are closed by its last process, or by its detaching. */
static struct outcome run(void (*program)(int report_fd))
{
	struct outcome o;
	int out[2], report[2], status;
	assert_int_equal(pipe(out), 0);
	assert_int_equal(pipe(report), 0);
	pid_t pid = fork();
	if (pid == 0) {
		dup2(out[1], STDOUT_FILENO);
		dup2(out[1], STDERR_FILENO);
		close(out[0]);
		close(out[1]);
		close(report[0]);
		program(report[1]);
		_exit(99);
	}
	assert_true(pid > 0);
	close(out[1]);
	close(report[1]);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	o.status = WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
	read_all(out[0], o.out, sizeof o.out);
	read_all(report[0], o.report, sizeof o.report);
	return o;
}

static void fails(int report_fd)
{
	start_begin(false);
	start_verdict(START_FAILED, "server x: refused\nand more");
	_exit(START_FAILED);
}

static void a_failure_is_the_parent_s_status_and_line(void **state)
{
	struct outcome o = run(fails);
	assert_int_equal(o.status, START_FAILED);
	assert_string_equal(o.out, "nfsrdma: server x: refused?and more\n");
}

static bool is_null_device(int fd)
{
	struct stat a, b;
	return fstat(fd, &a) == 0 && stat("/dev/null", &b) == 0 && a.st_rdev == b.st_rdev &&
	       S_ISCHR(a.st_mode);
}

static void succeeds(int report_fd)
{
	char cwd[64];
	pid_t before = getpid();
	start_begin(false);
	start_verdict(START_OK, "mounted");
	dprintf(report_fd, "child %d session %d cwd %s null %d%d%d", getpid() != before,
		getsid(0) == getpid(), getcwd(cwd, sizeof cwd), is_null_device(0), is_null_device(1),
		is_null_device(2));
	start_verdict(START_FAILED, "too late");
	_exit(0);
}

static void after_a_good_verdict_the_child_is_a_daemon(void **state)
{
	struct outcome o = run(succeeds);
	assert_int_equal(o.status, START_OK);
	assert_string_equal(o.out, "nfsrdma: mounted\n");
	assert_string_equal(o.report, "child 1 session 1 cwd / null 111");
}

static void succeeds_silently(int report_fd)
{
	start_begin(false);
	start_verdict(START_OK, NULL);
	_exit(7);
}

static void success_needs_no_line(void **state)
{
	struct outcome o = run(succeeds_silently);
	assert_int_equal(o.status, START_OK);
	assert_string_equal(o.out, "");
}

static void crashes(int report_fd)
{
	start_begin(false);
	signal(SIGKILL, SIG_DFL);
	raise(SIGKILL);
}

static void a_crash_is_told(void **state)
{
	struct outcome o = run(crashes);
	assert_int_equal(o.status, START_FAILED);
	assert_string_equal(o.out, "nfsrdma: ended by signal 9 (Killed) before anything was mounted\n");
}

static void leaves(int report_fd)
{
	start_begin(false);
	_exit(5);
}

static void leaving_without_a_verdict_is_told(void **state)
{
	struct outcome o = run(leaves);
	assert_int_equal(o.status, START_FAILED);
	assert_string_equal(o.out, "nfsrdma: ended with status 5 before anything was mounted\n");
}

static void stays_in_front(int report_fd)
{
	pid_t before = getpid(), session = getsid(0);
	start_begin(true);
	start_verdict(START_OK, NULL);
	log_info("still on standard error");
	dprintf(report_fd, "same %d session %d", getpid() == before, getsid(0) == session);
	_exit(3);
}

static void in_the_foreground_nothing_is_forked(void **state)
{
	struct outcome o = run(stays_in_front);
	assert_int_equal(o.status, 3);
	assert_string_equal(o.out, "nfsrdma: still on standard error\n");
	assert_string_equal(o.report, "same 1 session 1");
}

static void fails_in_front(int report_fd)
{
	start_begin(true);
	start_verdict(START_FAILED, "no");
	_exit(START_FAILED);
}

static void a_failure_in_the_foreground_is_printed_too(void **state)
{
	struct outcome o = run(fails_in_front);
	assert_int_equal(o.status, START_FAILED);
	assert_string_equal(o.out, "nfsrdma: no\n");
}

static void warns_before_the_verdict(int report_fd)
{
	start_begin(false);
	log_warning("memreg=persistent is not safe");
	start_verdict(START_OK, NULL);
	_exit(0);
}

static void warnings_before_the_verdict_reach_the_terminal(void **state)
{
	struct outcome o = run(warns_before_the_verdict);
	assert_int_equal(o.status, START_OK);
	assert_string_equal(o.out, "nfsrdma: memreg=persistent is not safe\n");
}

static void starts_with_closed_descriptors(int report_fd)
{
	close(0);
	close(1);
	close(2);
	start_begin(false);
	int fd = open("/dev/null", O_RDONLY);
	dprintf(report_fd, "%d", fd > 2);
	start_verdict(START_OK, "x");
	_exit(0);
}

static void closed_standard_descriptors_are_filled(void **state)
{
	struct outcome o = run(starts_with_closed_descriptors);
	assert_int_equal(o.status, START_OK);
	assert_string_equal(o.report, "1");
}

static void says_too_much(int report_fd)
{
	char line[3 * START_LINE_MAX];
	memset(line, 'y', sizeof line);
	line[sizeof line - 1] = 0;
	start_begin(false);
	start_verdict(START_USAGE, line);
	_exit(0);
}

static void a_long_line_is_cut(void **state)
{
	struct outcome o = run(says_too_much);
	assert_int_equal(o.status, START_USAGE);
	assert_int_equal(strlen(o.out), strlen("nfsrdma: \n") + START_LINE_MAX - 1);
}

static void has_steps(int report_fd)
{
	start_begin(false);
	start_step("connecting");
	start_step("mounting");
	start_verdict(START_OK, NULL);
	start_step("too late");
	_exit(0);
}

static void steps_that_do_not_take_long_are_not_told(void **state)
{
	struct outcome o = run(has_steps);
	assert_int_equal(o.status, START_OK);
	assert_string_equal(o.out, "");
}

/* What the service manager gets: the datagrams of one start, in one line. */
static void manager_hears(void (*program)(int report_fd), char *text, size_t size)
{
	struct sockaddr_un addr = {.sun_family = AF_UNIX};
	char name[64];
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0);
	/* An abstract name that the kernel chooses. */
	socklen_t len = sizeof(sa_family_t);
	assert_int_equal(bind(fd, (struct sockaddr *)&addr, len), 0);
	len = sizeof addr;
	assert_int_equal(getsockname(fd, (struct sockaddr *)&addr, &len), 0);
	snprintf(name, sizeof name, "@%.*s", (int)(len - sizeof(sa_family_t) - 1), addr.sun_path + 1);
	setenv("NOTIFY_SOCKET", name, 1);
	run(program);
	unsetenv("NOTIFY_SOCKET");
	ssize_t n;
	size_t used = 0;
	while ((n = recv(fd, text + used, size - used - 2, 0)) > 0) {
		used += (size_t)n;
		text[used++] = '|';
	}
	text[used] = 0;
	close(fd);
}

static void the_service_manager_hears_of_steps_and_the_end(void **state)
{
	char text[512];
	manager_hears(has_steps, text, sizeof text);
	assert_string_equal(text, "STATUS=connecting|STATUS=mounting|READY=1\nSTATUS=Mounted|");
	manager_hears(fails_in_front, text, sizeof text);
	assert_string_equal(text, "STATUS=no|");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_failure_is_the_parent_s_status_and_line),
		cmocka_unit_test(after_a_good_verdict_the_child_is_a_daemon),
		cmocka_unit_test(success_needs_no_line),
		cmocka_unit_test(a_crash_is_told),
		cmocka_unit_test(leaving_without_a_verdict_is_told),
		cmocka_unit_test(in_the_foreground_nothing_is_forked),
		cmocka_unit_test(a_failure_in_the_foreground_is_printed_too),
		cmocka_unit_test(warnings_before_the_verdict_reach_the_terminal),
		cmocka_unit_test(closed_standard_descriptors_are_filled),
		cmocka_unit_test(a_long_line_is_cut),
		cmocka_unit_test(steps_that_do_not_take_long_are_not_told),
		cmocka_unit_test(the_service_manager_hears_of_steps_and_the_end),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
