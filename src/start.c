/* SPDX-License-Identifier: MIT */
#include "start.h"

#include "log.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* What travels through the pipe; at most PIPE_BUF, so it arrives whole or not at all. */
struct verdict {
	int status;
	char line[START_LINE_MAX];
};
static_assert(sizeof(struct verdict) <= PIPE_BUF, "a verdict could arrive in pieces");

static int verdict_fd = -1; /* in the child, until the verdict */
static bool pronounced;

static void print(const struct verdict *v)
{
	if (v->line[0])
		fprintf(v->status ? stderr : stdout, "nfsrdma: %s\n", v->line);
	fflush(NULL);
}

/* A program may be started with its standard descriptors closed: files of ours must not get their numbers. */
static int open_standard_fds(void)
{
	int fd;
	do {
		fd = open("/dev/null", O_RDWR | O_CLOEXEC);
		if (fd < 0)
			return -errno;
	} while (fd <= STDERR_FILENO);
	close(fd);
	return 0;
}

/* The child is gone without a word: say what became of it. */
static void explain(pid_t child, struct verdict *v)
{
	int status = 0;
	while (waitpid(child, &status, 0) < 0 && errno == EINTR)
		;
	v->status = START_FAILED;
	if (WIFSIGNALED(status))
		snprintf(v->line, sizeof v->line, "ended by signal %d (%s) before anything was mounted",
			 WTERMSIG(status), strsignal(WTERMSIG(status)));
	else
		snprintf(v->line, sizeof v->line, "ended with status %d before anything was mounted",
			 WEXITSTATUS(status));
}

static void await_verdict(int fd, pid_t child)
{
	struct verdict v;
	ssize_t n;
	do {
		n = read(fd, &v, sizeof v);
	} while (n < 0 && errno == EINTR);
	if (n == (ssize_t)sizeof v)
		v.line[sizeof v.line - 1] = 0;
	else
		explain(child, &v);
	print(&v);
	_exit(v.status);
}

int start_begin(bool foreground)
{
	int fds[2];
	int err = open_standard_fds();
	if (err)
		return err;
	signal(SIGPIPE, SIG_IGN);
	if (foreground)
		return 0;
	if (pipe2(fds, O_CLOEXEC) < 0)
		return -errno;
	fflush(NULL); /* or both processes would print what is buffered */
	pid_t child = fork();
	if (child < 0) {
		err = -errno;
		close(fds[0]);
		close(fds[1]);
		return err;
	}
	if (child > 0) {
		close(fds[1]);
		await_verdict(fds[0], child);
	}
	close(fds[0]);
	verdict_fd = fds[1];
	return 0;
}

static void detach(void)
{
	setsid();
	if (chdir("/") < 0)
		log_warning("cannot change to /: %s", strerror(errno));
	log_to_syslog();
	int fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	for (int std = STDIN_FILENO; fd >= 0 && std <= STDERR_FILENO; std++)
		dup2(fd, std);
	if (fd >= 0)
		close(fd);
}

void start_verdict(int status, const char *line)
{
	struct verdict v = {.status = status};
	if (pronounced)
		return;
	pronounced = true;
	snprintf(v.line, sizeof v.line, "%s", line ? line : "");
	log_one_line(v.line);
	if (verdict_fd < 0) {
		print(&v);
		return;
	}
	/* ORDER: detached before the parent is told. Once it has exited its terminal may close, and take us
	 * along. */
	if (status == 0)
		detach();
	ssize_t n;
	do {
		n = write(verdict_fd, &v, sizeof v);
	} while (n < 0 && errno == EINTR);
	close(verdict_fd);
	verdict_fd = -1;
}
