/* SPDX-License-Identifier: MIT
 *
 * What every call that takes a path has in common: path_resolution(7) and the errnos that each of their man
 * pages lists for it.
 */
#include "check.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#define LAST_FOLLOWED 1 /* a symbolic link in the last place is followed */
#define MAKES 2		/* the last name must not be there */
#define NEEDS_DIR 4

static int call_open(const char *p)
{
	int fd = open(p, O_RDONLY | O_NONBLOCK);

	return fd < 0 ? -1 : close(fd);
}

static int call_creat(const char *p)
{
	int fd = open(p, O_WRONLY | O_CREAT | O_EXCL, 0644);

	return fd < 0 ? -1 : close(fd);
}

static int call_opendir(const char *p)
{
	int fd = open(p, O_RDONLY | O_DIRECTORY);

	return fd < 0 ? -1 : close(fd);
}

static int call_mkdir(const char *p)
{
	return mkdir(p, 0755);
}

static int call_mkfifo(const char *p)
{
	return mkfifo(p, 0644);
}

static int call_symlink(const char *p)
{
	return symlink("there", p);
}

static int call_link_from(const char *p)
{
	return link(p, "new");
}

static int call_link_to(const char *p)
{
	return link("file", p);
}

static int call_rename_from(const char *p)
{
	return rename(p, "new");
}

static int call_rename_to(const char *p)
{
	return rename("file", p);
}

static int call_readlink(const char *p)
{
	char text[PATH_MAX];

	return (int)readlink(p, text, sizeof text);
}

static int call_stat(const char *p)
{
	struct stat st;

	return stat(p, &st);
}

static int call_lstat(const char *p)
{
	struct stat st;

	return lstat(p, &st);
}

static int call_statvfs(const char *p)
{
	struct statvfs st;

	return statvfs(p, &st);
}

static int call_chmod(const char *p)
{
	return chmod(p, 0755);
}

static int call_chown(const char *p)
{
	return chown(p, (uid_t)-1, (gid_t)-1);
}

static int call_lchown(const char *p)
{
	return lchown(p, (uid_t)-1, (gid_t)-1);
}

static int call_truncate(const char *p)
{
	return truncate(p, 0);
}

static int call_utimensat(const char *p)
{
	return utimensat(AT_FDCWD, p, NULL, 0);
}

static int call_lutimens(const char *p)
{
	return utimensat(AT_FDCWD, p, NULL, AT_SYMLINK_NOFOLLOW);
}

static int call_access(const char *p)
{
	return access(p, F_OK);
}

static const struct call {
	const char *name;
	int (*run)(const char *path);
	unsigned int flags;
} calls[] = {
	{"open", call_open, LAST_FOLLOWED},
	{"open with O_CREAT and O_EXCL", call_creat, MAKES},
	{"open with O_DIRECTORY", call_opendir, LAST_FOLLOWED | NEEDS_DIR},
	{"mkdir", call_mkdir, MAKES},
	{"mkfifo", call_mkfifo, MAKES},
	{"symlink", call_symlink, MAKES},
	{"link, first path", call_link_from, 0},
	{"link, second path", call_link_to, MAKES},
	{"rename, first path", call_rename_from, 0},
	{"rename, second path", call_rename_to, 0},
	{"readlink", call_readlink, 0},
	{"stat", call_stat, LAST_FOLLOWED},
	{"lstat", call_lstat, 0},
	{"statvfs", call_statvfs, LAST_FOLLOWED},
	{"chmod", call_chmod, LAST_FOLLOWED},
	{"chown", call_chown, LAST_FOLLOWED},
	{"lchown", call_lchown, 0},
	{"truncate", call_truncate, LAST_FOLLOWED},
	{"utimensat", call_utimensat, LAST_FOLLOWED},
	{"utimensat with AT_SYMLINK_NOFOLLOW", call_lutimens, 0},
	{"access", call_access, LAST_FOLLOWED},
	{"unlink", unlink, 0},
	{"rmdir", rmdir, NEEDS_DIR},
	{"chdir", chdir, LAST_FOLLOWED | NEEDS_DIR},
};

#define EACH_CALL(c)                                                                                         \
	for (const struct call *c = calls;                                                                   \
	     c < calls + sizeof calls / sizeof calls[0] && (check_about(c->name), true); c++)

CASE(path_component_is_no_directory)
{
	make_file("file", 0644);
	EACH_CALL(c)
	{
		FAILS(c->run("file/name"), ENOTDIR);
		FAILS(c->run("file/a/b"), ENOTDIR);
		FAILS(c->run("file/."), ENOTDIR);
		FAILS(c->run("file/.."), ENOTDIR);
	}
}

CASE(path_component_is_special_file)
{
	OK(mkfifo("fifo", 0644));
	make_file("file", 0644);
	EACH_CALL(c)
	FAILS(c->run("fifo/name"), ENOTDIR);
}

CASE(path_component_is_missing)
{
	make_file("file", 0644);
	EACH_CALL(c)
	{
		FAILS(c->run("none/name"), ENOENT);
		FAILS(c->run("none/a/b"), ENOENT);
	}
}

CASE(path_component_is_dangling_symlink)
{
	make_file("file", 0644);
	OK(symlink("none", "dangling"));
	EACH_CALL(c)
	FAILS(c->run("dangling/name"), ENOENT);
}

CASE(path_name_is_missing)
{
	make_file("file", 0644);
	EACH_CALL(c)
	if (!(c->flags & MAKES) && c->run != call_rename_to)
		FAILS(c->run("none"), ENOENT);
}

CASE(path_last_is_dangling_symlink)
{
	OK(symlink("none", "dangling"));
	EACH_CALL(c)
	if (c->flags & LAST_FOLLOWED)
		FAILS(c->run("dangling"), ENOENT);
}

CASE(path_empty)
{
	make_file("file", 0644);
	EACH_CALL(c)
	FAILS(c->run(""), ENOENT);
}

CASE(path_name_too_long)
{
	char name[257], deep[300];

	memset(name, 'n', 256);
	name[256] = '\0';
	make_file("file", 0644);
	make_dir("dir", 0755);
	snprintf(deep, sizeof deep, "dir/%s", name);
	EACH_CALL(c)
	{
		FAILS(c->run(name), ENAMETOOLONG);
		FAILS(c->run(deep), ENAMETOOLONG);
		strcat(deep, "/x");
		FAILS(c->run(deep), ENAMETOOLONG);
		deep[strlen(deep) - 2] = '\0';
	}
}

CASE(path_longest_name)
{
	char name[256];

	memset(name, 'n', 255);
	name[255] = '\0';
	EACH_CALL(c)
	{
		make_file("file", 0644);
		if (c->flags & NEEDS_DIR)
			make_dir(name, 0755);
		else if (c->run == call_readlink)
			OK(symlink("there", name));
		else if (!(c->flags & MAKES))
			make_file(name, 0644);
		OK(c->run(name));
		if (c->run == chdir)
			OK(chdir(".."));
		if (remove(name) && errno != ENOENT)
			IS(!"its name goes");
		if (unlink("new") && errno != ENOENT)
			IS(!"the other name goes");
		if (unlink("file") && errno != ENOENT)
			IS(!"the file goes");
	}
}

/* A path of len bytes to the name "last" in the directory "d". */
static char *padded_path(size_t len, const char *last)
{
	char *path = malloc(len + 1), *to = path;

	IS(path != NULL);
	*to++ = 'd';
	while (to < path + len - strlen(last))
		*to++ = '/';
	strcpy(to, last);
	return path;
}

/* PATH_MAX counts the NUL. */
CASE(path_too_long)
{
	char *path = padded_path(PATH_MAX, "last");

	make_dir("d", 0755);
	make_file("file", 0644);
	EACH_CALL(c)
	FAILS(c->run(path), ENAMETOOLONG);
	free(path);
}

CASE(path_longest)
{
	char *path = padded_path(PATH_MAX - 1, "last");

	make_dir("d", 0755);
	make_text("d/last", "here");
	HOLDS(path, "here");
	OK(unlink(path));
	OK(mkdir(path, 0755));
	OK(rmdir(path));
	OK(symlink("there", path));
	OK(rename(path, "d/other"));
	free(path);
}

CASE(path_loop_of_symlinks)
{
	OK(symlink("b", "a"));
	OK(symlink("a", "b"));
	OK(symlink("self", "self"));
	make_file("file", 0644);
	EACH_CALL(c)
	{
		FAILS(c->run("a/name"), ELOOP);
		FAILS(c->run("self/name"), ELOOP);
		if (c->flags & LAST_FOLLOWED)
			FAILS(c->run("a"), ELOOP);
	}
}

/* Linux follows 40 (path_resolution(7)); POSIX wants at least 8. */
CASE(path_chain_of_symlinks)
{
	char name[16], target[16];

	make_text("link0", "the end");
	for (int i = 1; i <= 41; i++) {
		snprintf(name, sizeof name, "link%d", i);
		snprintf(target, sizeof target, "link%d", i - 1);
		OK(symlink(target, name));
	}
	HOLDS("link40", "the end");
	FAILS(open("link41", O_RDONLY), ELOOP);
}

ROOT_CASE(path_without_search_permission)
{
	make_dir("closed", 0600);
	make_file("closed/name", 0666);
	make_dir("closed/dir", 0777);
	make_file("file", 0666);
	OK(chown("closed", alice.uid, alice.gid));
	OK(chown("file", alice.uid, alice.gid));
	OK(chmod(".", 0777));
	AS(&alice)
	EACH_CALL(c)
	{
		FAILS(c->run("closed/name"), EACCES);
		FAILS(c->run("closed/none"), EACCES);
		FAILS(c->run("closed/dir/name"), EACCES);
		FAILS(c->run("closed/.."), EACCES);
	}
}

ROOT_CASE(path_without_write_permission)
{
	make_dir("dir", 0755);
	make_file("dir/file", 0666);
	make_dir("dir/sub", 0777);
	OK(symlink("there", "dir/link"));
	make_file("file", 0666);
	OK(chown("file", alice.uid, alice.gid));
	OK(chmod(".", 0777));
	AS(&alice)
	{
		EACH_CALL(c)
		if ((c->flags & MAKES) || c->run == call_rename_to)
			FAILS(c->run("dir/new"), EACCES);
		FAILS(unlink("dir/file"), EACCES);
		FAILS(unlink("dir/link"), EACCES);
		FAILS(rmdir("dir/sub"), EACCES);
		FAILS(rename("dir/file", "elsewhere"), EACCES);
		FAILS(rename("dir/sub", "elsewhere"), EACCES);
		FAILS(rename("file", "dir/file"), EACCES);
	}
	IS(exists("dir/file") && exists("dir/sub") && exists("dir/link") && exists("file"));
}

CASE(path_trailing_slash)
{
	make_file("file", 0644);
	make_dir("dir", 0755);
	OK(symlink("file", "to-file"));
	OK(symlink("dir", "to-dir"));
	EACH_CALL(c)
	if (c->flags & LAST_FOLLOWED) {
		FAILS(c->run("file/"), ENOTDIR);
		FAILS(c->run("to-file/"), ENOTDIR);
	}
	FAILS(unlink("file/"), ENOTDIR);
	FAILS(unlink("to-dir/"), ENOTDIR, EISDIR);
	FAILS(rmdir("to-dir/"), ENOTDIR);
	FAILS(link("file/", "new"), ENOTDIR);
	FAILS(rename("file/", "new"), ENOTDIR);
	FAILS(rename("file", "new/"), ENOTDIR);
	FAILS(open("new/", O_WRONLY | O_CREAT, 0644), EISDIR, ENOENT);
	OK(mkdir("new///", 0755));
	OK(rename("new//", "newer/"));
	OK(rmdir("newer/"));
	IS(S_ISDIR(stat_of("to-dir/").st_mode));
	IS(S_ISLNK(stat_of("to-dir").st_mode));
}

CASE(path_dot_and_dot_dot)
{
	make_dir("dir", 0755);
	make_dir("dir/sub", 0755);
	EQ(stat_of("dir/.").st_ino, stat_of("dir").st_ino);
	EQ(stat_of("dir/sub/..").st_ino, stat_of("dir").st_ino);
	EQ(stat_of("dir/sub/../..").st_ino, stat_of(".").st_ino);
	EQ(stat_of("dir/./sub/.././../dir").st_ino, stat_of("dir").st_ino);
	OK(symlink("dir/sub", "link"));
	EQ(stat_of("link/..").st_ino, stat_of("dir").st_ino);
}

CASE(path_names_are_bytes)
{
	char name[8];

	for (int b = 1; b < 256; b++) {
		if (b == '/' || b == '.')
			continue;
		snprintf(name, sizeof name, "%c", b);
		make_file(name, 0644);
		snprintf(name, sizeof name, "x%c.", b);
		make_file(name, 0644);
		IS(exists(name));
	}
	IS(exists("A") && exists("a"));
	OK(unlink("A"));
	IS(exists("a"));
}

/* Deeper than any path can say: reached step by step. */
CASE(path_deeper_than_path_max)
{
	char name[201], cwd[PATH_MAX];
	const int depth = 30; /* 30 * 201 bytes > PATH_MAX */

	memset(name, 'd', 200);
	name[200] = '\0';
	for (int i = 0; i < depth; i++) {
		make_dir(name, 0755);
		OK(chdir(name));
	}
	make_text("file", "deep");
	HOLDS("file", "deep");
	if (getcwd(cwd, sizeof cwd))
		IS(!"getcwd told a path longer than PATH_MAX");
	OK(unlink("file"));
	for (int i = 0; i < depth; i++) {
		OK(chdir(".."));
		OK(rmdir(name));
	}
}
