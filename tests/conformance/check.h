/* SPDX-License-Identifier: MIT
 *
 * What the conformance suite's cases are written with.
 *
 * A case is a function CASE(name) { … }. It runs as a process of its own, in an empty directory of its own
 * that is its working directory and is removed afterwards, with umask 0. It fails at the first check that
 * does not hold: a check ends the process, and says which call gave what. It knows nothing of the file system
 * it runs on; where POSIX or the Linux man pages leave a choice, it takes either.
 */
#ifndef CHECK_H
#define CHECK_H

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <time.h>

struct check_case {
	const char *name;
	void (*run)(void);
	bool as_root; /* skipped for others */
	struct check_case *next;
};

void check_register(struct check_case *c);

#define CHECK_CASE(name_, root_)                                                                             \
	static void name_(void);                                                                             \
	__attribute__((constructor)) static void register_##name_(void)                                      \
	{                                                                                                    \
		static struct check_case c = {.name = #name_, .run = name_, .as_root = root_};               \
		check_register(&c);                                                                          \
	}                                                                                                    \
	static void name_(void)
#define CASE(name_) CHECK_CASE(name_, false)
#define ROOT_CASE(name_) CHECK_CASE(name_, true)

/* ---- checks ---- */

/* What the checks that follow are about, for their messages: in a loop over calls or types. NULL: nothing. */
void check_about(const char *what);

/* The case ends here: the file system or this machine lacks what it is about. */
void check_skip(const char *why) __attribute__((noreturn));

void check_failed(const char *file, int line, const char *format, ...)
	__attribute__((noreturn, format(printf, 3, 4)));
long long check_ok(long long result, const char *call, const char *file, int line);
void check_fails(const int *errors, long long result, const char *call, const char *file, int line);
bool check_may(const int *errors, long long result, const char *call, const char *file, int line);
void check_eq(long long got, long long want, const char *what, const char *file, int line);

/* The call succeeds; gives its result. */
#define OK(call) check_ok((long long)(call), #call, __FILE__, __LINE__)
/* The call gives -1 and one of the errnos. */
#define FAILS(call, ...)                                                                                     \
	check_fails((const int[]){__VA_ARGS__, 0}, (long long)(call), #call, __FILE__, __LINE__)
/* The call succeeds (true), or gives -1 and one of the errnos (false). */
#define MAY(call, ...) check_may((const int[]){__VA_ARGS__, 0}, (long long)(call), #call, __FILE__, __LINE__)
#define EQ(got, want) check_eq((long long)(got), (long long)(want), #got, __FILE__, __LINE__)
#define IS(condition)                                                                                        \
	do {                                                                                                 \
		if (!(condition))                                                                            \
			check_failed(__FILE__, __LINE__, "not so: %s", #condition);                          \
	} while (0)

/* ---- users ---- */

struct user {
	uid_t uid;
	gid_t gid;
	size_t ngroups;
	const gid_t *groups;
};

/* Nobody of this machine. */
extern const struct user alice, bob;

/* AS(&alice) { … } runs the block as that user in a child process, whose failure is the case's. */
#define AS(user)                                                                                             \
	if (!check_fork_as(user)) {                                                                          \
	} else                                                                                               \
		for (;; check_child_passed())
bool check_fork_as(const struct user *user); /* true: in the child */
void check_child_passed(void) __attribute__((noreturn));

/* The same for a child of the case's own user that goes on by itself: check_wait() is for its end. */
pid_t check_fork(void);
void check_wait(pid_t pid);

/* ---- files ---- */

struct stat stat_of(const char *path); /* lstat(2) */
mode_t mode_of(const char *path);      /* without the type */
void make_file(const char *path, mode_t mode);
void make_text(const char *path, const char *text); /* mode 0644 */
void make_dir(const char *path, mode_t mode);
void check_text(const char *path, const char *text, const char *file, int line);
#define HOLDS(path, text) check_text(path, text, __FILE__, __LINE__)
bool exists(const char *path);

/* Every type of file that can be made by name. */
enum kind { KIND_FILE, KIND_DIR, KIND_FIFO, KIND_SOCKET, KIND_CHAR, KIND_BLOCK, KIND_SYMLINK, KINDS };
extern const char *const kind_names[KINDS];
mode_t kind_type(enum kind kind);
bool kind_possible(enum kind kind); /* devices are for root */
void make_kind(const char *path, enum kind kind);

/* ---- times ---- */

/* lstat(2); returns when the file system's clock shows a later time than all of this file's. */
struct stat before(const char *path);

enum { ATIME = 1, MTIME = 2, CTIME = 4 };
void check_times(const char *path, const struct stat *was, int changed, int kept, const char *file, int line);
/* What has happened to the times of PATH since WAS = before(PATH): these are later, the others of mtime and
 * ctime as they were. */
#define CHANGED(path, was, which)                                                                            \
	check_times(path, &(was), which, (MTIME | CTIME) & ~(which), __FILE__, __LINE__)
#define UNCHANGED(path, was) CHANGED(path, was, 0)

#endif
