/* SPDX-License-Identifier: MIT
 *
 * rename(2).
 */
#include "check.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

CASE(rename_keeps_the_file)
{
	for (enum kind k = 0; k < KINDS; k++) {
		if (!kind_possible(k))
			continue;
		check_about(kind_names[k]);
		make_kind("old", k);
		struct stat was = stat_of("old");

		OK(rename("old", "new"));
		IS(!exists("old"));
		struct stat now = stat_of("new");

		EQ(now.st_ino, was.st_ino);
		EQ(now.st_mode, was.st_mode);
		EQ(now.st_nlink, was.st_nlink);
		EQ(now.st_rdev, was.st_rdev);
		FAILS(rename("old", "other"), ENOENT);
		OK(remove("new"));
	}
}

CASE(rename_changes_times)
{
	make_dir("from", 0755);
	make_dir("to", 0755);
	make_text("from/file", "text");
	struct stat from = before("from"), to = before("to"), file = before("from/file");

	OK(rename("from/file", "to/file"));
	CHANGED("from", from, MTIME | CTIME);
	CHANGED("to", to, MTIME | CTIME);
	check_times("to/file", &file, 0, MTIME, __FILE__, __LINE__); /* its ctime may change or not */
	from = before("from");
	to = before("to");
	FAILS(rename("from/none", "to/none"), ENOENT);
	FAILS(rename("to", "to/file"), EINVAL, ENOTDIR);
	UNCHANGED("from", from);
	UNCHANGED("to", to);
}

/* The four combinations of directory and other, for every type of each. */
CASE(rename_over_every_type)
{
	for (enum kind from = 0; from < KINDS; from++)
		for (enum kind to = 0; to < KINDS; to++) {
			char what[64];

			if (!kind_possible(from) || !kind_possible(to))
				continue;
			snprintf(what, sizeof what, "%s over %s", kind_names[from], kind_names[to]);
			check_about(what);
			make_kind("from", from);
			make_kind("to", to);
			ino_t ino = stat_of("from").st_ino;

			if ((from == KIND_DIR) == (to == KIND_DIR)) {
				OK(rename("from", "to"));
				EQ(stat_of("to").st_ino, ino);
				IS(!exists("from"));
			} else {
				FAILS(rename("from", "to"), to == KIND_DIR ? EISDIR : ENOTDIR);
				OK(remove("from"));
			}
			OK(remove("to"));
		}
}

CASE(rename_over_file_frees_it)
{
	make_text("old", "old");
	make_text("new", "new");
	OK(link("old", "second"));
	struct stat was = before("second");

	OK(rename("new", "old"));
	HOLDS("old", "new");
	HOLDS("second", "old");
	EQ(stat_of("second").st_nlink, 1);
	CHANGED("second", was, CTIME);
}

CASE(rename_over_directories)
{
	make_dir("dir", 0700);
	make_text("dir/file", "inside");
	make_dir("empty", 0755);
	make_dir("full", 0755);
	make_file("full/file", 0644);
	FAILS(rename("dir", "full"), ENOTEMPTY, EEXIST);
	HOLDS("dir/file", "inside");
	OK(rename("dir", "empty"));
	HOLDS("empty/file", "inside");
	EQ(mode_of("empty"), 0700);
	IS(!exists("dir"));
}

CASE(rename_into_itself)
{
	make_dir("dir", 0755);
	make_dir("dir/sub", 0755);
	FAILS(rename("dir", "dir/sub"), EINVAL);
	FAILS(rename("dir", "dir/new"), EINVAL);
	FAILS(rename("dir", "dir/sub/new"), EINVAL);
	FAILS(rename("dir/sub", "dir"), ENOTEMPTY, EEXIST);
	OK(rename("dir", "dir"));
	IS(exists("dir/sub"));
}

CASE(rename_of_dots)
{
	make_dir("dir", 0755);
	make_dir("dir/sub", 0755);
	FAILS(rename("dir/.", "new"), EBUSY, EINVAL);
	FAILS(rename("dir/sub/..", "new"), EBUSY, EINVAL);
	FAILS(rename("dir", "dir/sub/."), EBUSY, EINVAL);
	make_dir("other", 0755);
	FAILS(rename("other", "dir/sub/.."), EBUSY, EINVAL, ENOTEMPTY, EEXIST);
	IS(exists("dir/sub") && exists("other"));
}

CASE(rename_between_names_of_one_file)
{
	make_text("a", "text");
	OK(link("a", "b"));
	OK(rename("a", "a"));
	OK(rename("a", "b"));
	IS(exists("a") && exists("b"));
	EQ(stat_of("a").st_nlink, 2);
	int fd = (int)OK(open("b", O_RDONLY));

	OK(rename("a", "b"));
	IS(exists("a") && exists("b"));
	EQ(stat_of("a").st_nlink, 2);
	OK(close(fd));
	HOLDS("b", "text");
}

CASE(rename_does_not_follow_symlinks)
{
	make_text("file", "text");
	make_dir("dir", 0755);
	OK(symlink("file", "link"));
	OK(symlink("dir", "to-dir"));
	OK(rename("link", "moved"));
	IS(S_ISLNK(stat_of("moved").st_mode));
	make_text("other", "other");
	OK(rename("other", "moved"));
	IS(S_ISREG(stat_of("moved").st_mode));
	HOLDS("file", "text");
	make_dir("another", 0755);
	FAILS(rename("another", "to-dir"), ENOTDIR);
	OK(rename("another", "to-dir/inside"));
	IS(exists("dir/inside"));
}

CASE(rename_moves_a_tree)
{
	make_dir("a", 0755);
	make_dir("a/tree", 0755);
	make_dir("a/tree/sub", 0755);
	make_text("a/tree/sub/file", "leaf");
	make_dir("b", 0755);
	OK(rename("a/tree", "b/moved"));
	HOLDS("b/moved/sub/file", "leaf");
	IS(!exists("a/tree/sub/file"));
	EQ(stat_of("b/moved/..").st_ino, stat_of("b").st_ino);
	OK(rmdir("a"));
}

CASE(rename_of_working_directory)
{
	char cwd[PATH_MAX];

	make_dir("dir", 0755);
	make_dir("dir/sub", 0755);
	make_dir("other", 0755);
	OK(chdir("dir/sub"));
	OK(rename("../../dir", "../../other/moved"));
	make_text("file", "here");
	IS(getcwd(cwd, sizeof cwd) != NULL);
	IS(strstr(cwd, "/other/moved/sub") != NULL);
	OK(chdir("../../.."));
	HOLDS("other/moved/sub/file", "here");
}

CASE(rename_under_open_files)
{
	make_text("source", "source");
	make_text("target", "target");
	int source = (int)OK(open("source", O_RDWR)), target = (int)OK(open("target", O_RDWR));
	char got[16];
	struct stat st;

	OK(rename("source", "target"));
	EQ(pread(source, got, sizeof got, 0), 6);
	IS(memcmp(got, "source", 6) == 0);
	EQ(pread(target, got, sizeof got, 0), 6);
	IS(memcmp(got, "target", 6) == 0);
	OK(fstat(target, &st));
	EQ(st.st_nlink, 0);
	EQ(pwrite(target, "x", 1, 6), 1);
	OK(ftruncate(target, 3));
	OK(close(target));
	OK(fstat(source, &st));
	EQ(st.st_nlink, 1);
	HOLDS("target", "source");
}

/* What replaces a file replaces it at once: a reader finds the one or the other. */
CASE(rename_replaces_atomically)
{
	make_text("file", "text 0");
	pid_t pid = check_fork();

	if (pid == 0) {
		for (int i = 1; i < 40; i++) {
			char text[16];

			snprintf(text, sizeof text, "text %d", i % 10);
			make_text("new", text);
			OK(rename("new", "file"));
		}
		make_file("done", 0644);
		_exit(0);
	}
	do {
		char got[16];
		int fd = (int)OK(open("file", O_RDONLY));

		EQ(read(fd, got, sizeof got), 6);
		IS(memcmp(got, "text ", 5) == 0);
		OK(close(fd));
	} while (!exists("done"));
	check_wait(pid);
}

/* renameat2(2): a file system that cannot says EINVAL, and nothing has changed then. */
CASE(rename_noreplace)
{
	make_text("a", "a");
	make_text("b", "b");
	make_dir("dir", 0755);
	FAILS(renameat2(AT_FDCWD, "a", AT_FDCWD, "b", RENAME_NOREPLACE), EEXIST, EINVAL);
	FAILS(renameat2(AT_FDCWD, "a", AT_FDCWD, "dir", RENAME_NOREPLACE), EEXIST, EINVAL);
	HOLDS("a", "a");
	HOLDS("b", "b");
	bool can = MAY(renameat2(AT_FDCWD, "a", AT_FDCWD, "new", RENAME_NOREPLACE), EINVAL);

	HOLDS(can ? "new" : "a", "a");
	IS(!exists(can ? "a" : "new"));
}

CASE(rename_exchange)
{
	make_text("a", "a");
	make_dir("b", 0755);
	FAILS(renameat2(AT_FDCWD, "a", AT_FDCWD, "none", RENAME_EXCHANGE), ENOENT, EINVAL);
	bool can = MAY(renameat2(AT_FDCWD, "a", AT_FDCWD, "b", RENAME_EXCHANGE), EINVAL);

	HOLDS(can ? "b" : "a", "a");
	IS(S_ISDIR(stat_of(can ? "a" : "b").st_mode));
	FAILS(renameat2(AT_FDCWD, "a", AT_FDCWD, "b", RENAME_EXCHANGE | RENAME_NOREPLACE), EINVAL);
}

/* A directory that gets another parent must be writable: its ".." changes. */
ROOT_CASE(rename_of_directory_that_is_not_writable)
{
	OK(chmod(".", 0777));
	AS(&alice)
	{
		make_dir("dir", 0555);
		make_dir("parent", 0755);
		FAILS(rename("dir", "parent/dir"), EACCES);
		OK(rename("dir", "renamed"));
		OK(chmod("renamed", 0755));
		OK(rename("renamed", "parent/dir"));
	}
}
