/* SPDX-License-Identifier: MIT */
#include "start.h"

#include "log.h"
#include "sdnotify.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* What travels through the pipe; at most PIPE_BUF, so it arrives whole or not at all. */
struct verdict {
	int status; /* or STEP: not the end yet, the line says what is being done */
	char line[START_LINE_MAX];
};
#define STEP (-1)
static_assert(sizeof(struct verdict) <= PIPE_BUF, "a verdict could arrive in pieces");

static int verdict_fd = -1; /* of who starts, until the verdict */
static bool pronounced;
static pthread_t teller; /* in the foreground, until the verdict: tells of steps */
static int teller_fd = -1;

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

static uint64_t now_ms(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000u + (uint64_t)t.tv_nsec / 1000000u;
}

/* Reads what comes, until it is the verdict. Whoever waits long hears which step it is that takes so long,
 * and again later and later. False: the other end was closed without a verdict. */
static bool await(int fd, struct verdict *v)
{
	struct verdict step = {.status = STEP};
	struct pollfd input = {.fd = fd, .events = POLLIN};
	uint64_t begin = now_ms(), pause = START_PATIENCE_MS, speak = begin + pause;
	for (;;) {
		uint64_t now = now_ms();
		if (now >= speak) {
			if (step.line[0])
				fprintf(stderr, "nfsrdma: still %s (%u s)\n", step.line,
					(unsigned int)((now - begin) / 1000));
			pause = pause * 3 < START_PATIENCE_MAX_MS ? pause * 3 : START_PATIENCE_MAX_MS;
			speak = now + pause;
		}
		if (poll(&input, 1, (int)(speak - now)) <= 0)
			continue;
		ssize_t n = read(fd, v, sizeof *v);
		if (n < 0 && errno == EINTR)
			continue;
		if (n != (ssize_t)sizeof *v)
			return false;
		v->line[sizeof v->line - 1] = 0;
		if (v->status != STEP)
			return true;
		step = *v;
	}
}

static void await_verdict(int fd, pid_t child)
{
	struct verdict v;
	if (!await(fd, &v))
		explain(child, &v);
	print(&v);
	_exit(v.status);
}

static void *tell(void *arg)
{
	struct verdict v;
	(void)arg;
	await(teller_fd, &v);
	return NULL;
}

/* In the foreground nobody else waits: a thread does. Signals are not its business. */
static int start_teller(int fds[2])
{
	sigset_t all, before;
	teller_fd = fds[0];
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	int error = pthread_create(&teller, NULL, tell, NULL);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (error) {
		teller_fd = -1;
		close(fds[0]);
		close(fds[1]);
		return 0; /* does without */
	}
	verdict_fd = fds[1];
	return 0;
}

int start_begin(bool foreground)
{
	int fds[2];
	int err = open_standard_fds();
	if (err)
		return err;
	signal(SIGPIPE, SIG_IGN);
	if (pipe2(fds, O_CLOEXEC) < 0)
		return -errno;
	if (foreground)
		return start_teller(fds);
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

static void send_on(const struct verdict *v)
{
	ssize_t n;
	do {
		n = write(verdict_fd, v, sizeof *v);
	} while (n < 0 && errno == EINTR);
}

void start_step(const char *format, ...)
{
	struct verdict v = {.status = STEP};
	va_list ap;
	if (pronounced)
		return;
	va_start(ap, format);
	vsnprintf(v.line, sizeof v.line, format, ap);
	va_end(ap);
	log_one_line(v.line);
	sdnotify("STATUS=%s", v.line);
	if (verdict_fd >= 0)
		send_on(&v);
}

void start_verdict(int status, const char *line)
{
	struct verdict v = {.status = status};
	bool foreground = verdict_fd < 0 || teller_fd >= 0;
	if (pronounced)
		return;
	pronounced = true;
	snprintf(v.line, sizeof v.line, "%s", line ? line : "");
	log_one_line(v.line);
	/* ORDER: detached before the parent is told. Once it has exited its terminal may close, and take us
	 * along. */
	if (!foreground && status == 0)
		detach();
	if (verdict_fd >= 0) {
		send_on(&v);
		close(verdict_fd);
		verdict_fd = -1;
	}
	if (teller_fd >= 0) {
		pthread_join(teller, NULL);
		close(teller_fd);
		teller_fd = -1;
	}
	if (foreground)
		print(&v);
	if (status == 0)
		sdnotify("READY=1\nSTATUS=Mounted%s%s", v.line[0] ? "; " : "", v.line);
	else
		sdnotify("STATUS=%s", v.line);
}
