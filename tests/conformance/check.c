/* SPDX-License-Identifier: MIT
 *
 * conformance DIR [CASE…]: runs the cases, all or those named (a name that ends with '*' names several), in
 * DIR.
 *
 * Prints "ok NAME", "not ok NAME: why" or "skip NAME: why" for each. Exit status: 0 when none failed, 1 when
 * one did, 2 when nothing could be run. The environment's TIME_FACTOR lengthens the time that a case may
 * take.
 */
#include "check.h"

#include <fcntl.h>
#include <fnmatch.h>
#include <ftw.h>
#include <grp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/sysmacros.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#define CASE_LIMIT_S 60u
#define EXIT_SKIPPED 77
#define MESSAGE_FD 9 /* where a case says why it ends */

static struct check_case *cases, **cases_end = &cases;
static const char *about;

void check_register(struct check_case *c)
{
	*cases_end = c;
	cases_end = &c->next;
}

/* ---- checks ---- */

void check_about(const char *what)
{
	about = what;
}

void check_skip(const char *why)
{
	dprintf(MESSAGE_FD, "%s", why);
	_exit(EXIT_SKIPPED);
}

void check_failed(const char *file, int line, const char *format, ...)
{
	char text[1024];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof text, format, args);
	va_end(args);
	const char *base = strrchr(file, '/');
	dprintf(MESSAGE_FD, "%s:%d: %s%s%s", base ? base + 1 : file, line, about ? about : "",
		about ? ": " : "", text);
	_exit(1);
}

long long check_ok(long long result, const char *call, const char *file, int line)
{
	if (result == -1)
		check_failed(file, line, "%s: %s", call, strerrorname_np(errno));
	return result;
}

static bool one_of(const int *errors, int error)
{
	for (; *errors; errors++)
		if (*errors == error)
			return true;
	return false;
}

void check_fails(const int *errors, long long result, const char *call, const char *file, int line)
{
	if (result != -1)
		check_failed(file, line, "%s: succeeded, must be %s", call, strerrorname_np(errors[0]));
	if (!one_of(errors, errno))
		check_failed(file, line, "%s: %s, must be %s", call, strerrorname_np(errno),
			     strerrorname_np(errors[0]));
}

bool check_may(const int *errors, long long result, const char *call, const char *file, int line)
{
	if (result != -1)
		return true;
	check_fails(errors, result, call, file, line);
	return false;
}

void check_eq(long long got, long long want, const char *what, const char *file, int line)
{
	if (got != want)
		check_failed(file, line, "%s is %lld (0%llo), must be %lld (0%llo)", what, got, got, want,
			     want);
}

/* ---- users ---- */

const struct user alice = {.uid = 64531, .gid = 64531}, bob = {.uid = 64532, .gid = 64532};

pid_t check_fork(void)
{
	pid_t pid = (pid_t)OK(fork());

	return pid;
}

void check_wait(pid_t pid)
{
	int status;

	OK(waitpid(pid, &status, 0));
	if (WIFSIGNALED(status))
		check_failed(__FILE__, __LINE__, "a child was ended by signal %d", WTERMSIG(status));
	if (WEXITSTATUS(status))
		_exit(WEXITSTATUS(status)); /* it has said why */
}

bool check_fork_as(const struct user *user)
{
	pid_t pid = check_fork();

	if (pid) {
		check_wait(pid);
		return false;
	}
	OK(setgroups(user->ngroups, user->groups));
	OK(setresgid(user->gid, user->gid, user->gid));
	OK(setresuid(user->uid, user->uid, user->uid));
	return true;
}

void check_child_passed(void)
{
	_exit(0);
}

/* ---- files ---- */

struct stat stat_of(const char *path)
{
	struct stat st;

	if (lstat(path, &st))
		check_failed(__FILE__, __LINE__, "lstat %s: %s", path, strerrorname_np(errno));
	return st;
}

mode_t mode_of(const char *path)
{
	return stat_of(path).st_mode & 07777;
}

bool exists(const char *path)
{
	struct stat st;

	return !lstat(path, &st);
}

void make_file(const char *path, mode_t mode)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_EXCL, mode);

	if (fd < 0)
		check_failed(__FILE__, __LINE__, "making the file %s: %s", path, strerrorname_np(errno));
	OK(close(fd));
}

void make_text(const char *path, const char *text)
{
	int fd = (int)OK(open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644));

	EQ(write(fd, text, strlen(text)), strlen(text));
	OK(close(fd));
}

void make_dir(const char *path, mode_t mode)
{
	if (mkdir(path, mode))
		check_failed(__FILE__, __LINE__, "mkdir %s: %s", path, strerrorname_np(errno));
}

void check_text(const char *path, const char *text, const char *file, int line)
{
	char got[4096];
	int fd = (int)OK(open(path, O_RDONLY));
	ssize_t n = OK(read(fd, got, sizeof got - 1));

	got[n] = '\0';
	OK(close(fd));
	if ((size_t)n != strlen(text) || memcmp(got, text, (size_t)n))
		check_failed(file, line, "%s holds \"%.100s\", must be \"%.100s\"", path, got, text);
}

const char *const kind_names[KINDS] = {
	"file", "directory", "fifo", "socket", "character device", "block device", "symlink",
};

mode_t kind_type(enum kind kind)
{
	static const mode_t types[KINDS] = {S_IFREG, S_IFDIR, S_IFIFO, S_IFSOCK, S_IFCHR, S_IFBLK, S_IFLNK};

	return types[kind];
}

bool kind_possible(enum kind kind)
{
	return (kind != KIND_CHAR && kind != KIND_BLOCK) || geteuid() == 0;
}

static void make_socket(const char *path)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int fd = (int)OK(socket(AF_UNIX, SOCK_STREAM, 0));

	IS(strlen(path) < sizeof address.sun_path);
	strcpy(address.sun_path, path);
	OK(bind(fd, (struct sockaddr *)&address, sizeof address));
	OK(close(fd));
}

void make_kind(const char *path, enum kind kind)
{
	switch (kind) {
	case KIND_FILE:
		make_file(path, 0644);
		break;
	case KIND_DIR:
		make_dir(path, 0755);
		break;
	case KIND_FIFO:
		OK(mkfifo(path, 0644));
		break;
	case KIND_SOCKET:
		make_socket(path);
		break;
	case KIND_CHAR:
		OK(mknod(path, S_IFCHR | 0644, makedev(1, 3)));
		break;
	case KIND_BLOCK:
		OK(mknod(path, S_IFBLK | 0644, makedev(7, 300)));
		break;
	case KIND_SYMLINK:
		OK(symlink("target of no meaning", path));
		break;
	case KINDS:
		break;
	}
}

/* ---- times ---- */

static bool later(struct timespec a, struct timespec b)
{
	return a.tv_sec > b.tv_sec || (a.tv_sec == b.tv_sec && a.tv_nsec > b.tv_nsec);
}

static bool same(struct timespec a, struct timespec b)
{
	return a.tv_sec == b.tv_sec && a.tv_nsec == b.tv_nsec;
}

/* Times on a file system go on in ticks of several milliseconds. A file beside the case's directory shows
 * them. */
struct stat before(const char *path)
{
	struct stat was = stat_of(path), now;
	static int clock_fd = -1;

	if (clock_fd < 0) {
		char name[64];

		snprintf(name, sizeof name, "../clock.%d", (int)getpid());
		clock_fd = (int)OK(open(name, O_RDWR | O_CREAT | O_EXCL, 0600));
		OK(unlink(name));
	}
	do {
		OK(fchmod(clock_fd, 0600));
		OK(fstat(clock_fd, &now));
	} while (!later(now.st_ctim, was.st_ctim) ||
		 (was.st_mtim.tv_sec <= now.st_ctim.tv_sec + 1 && !later(now.st_ctim, was.st_mtim)));
	return was;
}

void check_times(const char *path, const struct stat *was, int changed, int kept, const char *file, int line)
{
	struct stat now = stat_of(path);
	const struct {
		int which;
		const char *name;
		struct timespec was, now;
	} times[] = {{ATIME, "atime", was->st_atim, now.st_atim},
		     {MTIME, "mtime", was->st_mtim, now.st_mtim},
		     {CTIME, "ctime", was->st_ctim, now.st_ctim}};

	for (size_t i = 0; i < sizeof times / sizeof times[0]; i++) {
		if ((changed & times[i].which) && !later(times[i].now, times[i].was))
			check_failed(file, line, "%s of %s did not go on", times[i].name, path);
		if ((kept & times[i].which) && !same(times[i].now, times[i].was))
			check_failed(file, line, "%s of %s has changed", times[i].name, path);
	}
}

/* ---- running the cases ---- */

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)st, (void)type, (void)ftw;
	return remove(path) && errno != ENOENT ? -1 : 0;
}

/* What a process had open when it ended, a file system may close a moment later, and keep a name for it till
 * then. */
static bool remove_tree(const char *path)
{
	for (int tries = 0; tries < 500; tries++) {
		if (!nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS) || errno == ENOENT)
			return true;
		nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
	}
	return false;
}

static void child(const struct check_case *c, int message)
{
	dup2(message, MESSAGE_FD);
	umask(0);
	setpgid(0, 0);
	OK(mkdir(c->name, 0755));
	OK(chdir(c->name));
	c->run();
	_exit(0);
}

static void say(const struct check_case *c, const char *verdict, const char *why)
{
	printf("%s %s%s%s\n", verdict, c->name, *why ? ": " : "", why);
	fflush(stdout);
}

static volatile sig_atomic_t out_of_time;

static void on_alarm(int signal)
{
	(void)signal;
	out_of_time = 1;
}

static int wait_for(pid_t pid)
{
	int status;

	const char *factor = getenv("TIME_FACTOR");

	out_of_time = 0;
	alarm(CASE_LIMIT_S * (factor ? (unsigned int)atoi(factor) : 1));
	while (waitpid(pid, &status, 0) < 0)
		if (out_of_time)
			kill(-pid, SIGKILL);
	alarm(0);
	kill(-pid, SIGKILL); /* what the case has left running */
	return status;
}

/* True unless it failed. */
static bool run_case(const struct check_case *c)
{
	char why[1200] = "";
	int message[2];
	bool passed = false;

	if (pipe2(message, O_CLOEXEC))
		return false;
	pid_t pid = fork();

	if (pid == 0)
		child(c, message[1]);
	int status = pid < 0 ? -1 : wait_for(pid);

	close(message[1]);
	ssize_t n = read(message[0], why, sizeof why - 1);

	why[n > 0 ? n : 0] = '\0';
	close(message[0]);
	if (!remove_tree(c->name) && !*why)
		snprintf(why, sizeof why, "its directory cannot be removed: %s", strerrorname_np(errno));
	else if (out_of_time)
		snprintf(why, sizeof why, "not done in time");
	else if (status && !*why)
		snprintf(why, sizeof why, "ended with status 0x%x", (unsigned int)status);
	else
		passed = status == 0;
	if (WIFEXITED(status) && WEXITSTATUS(status) == EXIT_SKIPPED) {
		say(c, "skip", why);
		return true;
	}
	say(c, passed ? "ok" : "not ok", why);
	return passed;
}

static bool wanted(const struct check_case *c, char **names)
{
	if (!*names)
		return true;
	for (; *names; names++)
		if (fnmatch(*names, c->name, 0) == 0)
			return true;
	return false;
}

/* Runs those wanted in the working directory; the number of those that failed, -1 if none was wanted. */
static int run_cases(char **names)
{
	int failed = 0, count = 0;

	for (const struct check_case *c = cases; c; c = c->next) {
		if (!wanted(c, names))
			continue;
		count++;
		if (c->as_root && geteuid() != 0)
			say(c, "skip", "not root");
		else
			failed += !run_case(c);
	}
	return count ? failed : -1;
}

int main(int argc, char **argv)
{
	char work[4096];

	if (argc < 2 || snprintf(work, sizeof work, "%s/conformance.XXXXXX", argv[1]) >= (int)sizeof work) {
		fprintf(stderr, "usage: conformance DIR [CASE…]\n");
		return 2;
	}
	int home = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (!mkdtemp(work) || chmod(work, 0755) || chdir(work)) {
		fprintf(stderr, "conformance: %s: %s\n", work, strerror(errno));
		return 2;
	}
	sigaction(SIGALRM, &(struct sigaction){.sa_handler = on_alarm}, NULL);
	int failed = run_cases(argv + 2);

	if (fchdir(home) || !remove_tree(work)) {
		fprintf(stderr, "conformance: %s cannot be removed: %s\n", work, strerror(errno));
		return 1;
	}
	if (failed < 0)
		fprintf(stderr, "conformance: no case is called so\n");
	return failed < 0 ? 2 : failed > 0;
}
