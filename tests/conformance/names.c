/* SPDX-License-Identifier: MIT
 *
 * Names: mkdir(2), rmdir(2), unlink(2), link(2), symlink(2), readlink(2), mknod(2), and what a directory
 * lists.
 */
#include "check.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/sysmacros.h>
#include <sys/un.h>
#include <unistd.h>

/* ---- mkdir, rmdir ---- */

CASE(mkdir_makes_an_empty_directory)
{
	make_dir("dir", 0751);
	struct stat st = stat_of("dir");

	EQ(st.st_mode, S_IFDIR | 0751);
	EQ(st.st_uid, geteuid());
	make_dir("sticky", 01777);
	EQ(mode_of("sticky"), 01777);
	make_dir("none", 0);
	EQ(mode_of("none"), 0);
}

CASE(mkdir_over_anything)
{
	for (enum kind k = 0; k < KINDS; k++) {
		if (!kind_possible(k))
			continue;
		check_about(kind_names[k]);
		make_kind(kind_names[k], k);
		FAILS(mkdir(kind_names[k], 0755), EEXIST);
		EQ(stat_of(kind_names[k]).st_mode & S_IFMT, kind_type(k));
	}
	check_about(NULL);
	FAILS(mkdir(".", 0755), EEXIST);
	FAILS(mkdir("..", 0755), EEXIST);
	FAILS(mkdir("directory/.", 0755), EEXIST);
}

CASE(mkdir_and_rmdir_change_times_of_parent)
{
	struct stat was = before(".");

	make_dir("dir", 0755);
	CHANGED(".", was, MTIME | CTIME);
	was = before(".");
	FAILS(mkdir("dir", 0755), EEXIST);
	FAILS(rmdir("none"), ENOENT);
	UNCHANGED(".", was);
	OK(rmdir("dir"));
	CHANGED(".", was, MTIME | CTIME);
}

/* Where the file system counts subdirectories. */
CASE(mkdir_and_rmdir_count_links_of_parent)
{
	make_dir("dir", 0755);
	nlink_t links = stat_of("dir").st_nlink;

	if (links != 2)
		check_skip("directories here do not count their subdirectories");
	make_dir("dir/a", 0755);
	make_dir("dir/b", 0755);
	make_file("dir/file", 0644);
	EQ(stat_of("dir").st_nlink, 4);
	OK(rmdir("dir/a"));
	EQ(stat_of("dir").st_nlink, 3);
	OK(rename("dir/b", "b"));
	EQ(stat_of("dir").st_nlink, 2);
}

CASE(rmdir_of_non_empty_directory)
{
	for (enum kind k = 0; k < KINDS; k++) {
		char name[64];

		if (!kind_possible(k))
			continue;
		check_about(kind_names[k]);
		make_dir("dir", 0755);
		snprintf(name, sizeof name, "dir/%s", kind_names[k]);
		make_kind(name, k);
		struct stat was = before("dir");

		FAILS(rmdir("dir"), ENOTEMPTY, EEXIST);
		UNCHANGED("dir", was);
		OK(k == KIND_DIR ? rmdir(name) : unlink(name));
		OK(rmdir("dir"));
		FAILS(rmdir("dir"), ENOENT);
	}
}

CASE(rmdir_of_what_is_no_directory)
{
	for (enum kind k = 0; k < KINDS; k++) {
		if (k == KIND_DIR || !kind_possible(k))
			continue;
		check_about(kind_names[k]);
		make_kind(kind_names[k], k);
		FAILS(rmdir(kind_names[k]), ENOTDIR);
	}
}

CASE(rmdir_of_dots)
{
	make_dir("dir", 0755);
	make_dir("dir/sub", 0755);
	FAILS(rmdir("dir/sub/."), EINVAL);
	FAILS(rmdir("dir/sub/.."), ENOTEMPTY, EINVAL, EEXIST);
	IS(exists("dir/sub"));
}

CASE(rmdir_of_open_directory)
{
	make_dir("dir", 0755);
	int fd = (int)OK(open("dir", O_RDONLY | O_DIRECTORY));

	OK(rmdir("dir"));
	FAILS(openat(fd, "new", O_WRONLY | O_CREAT, 0644), ENOENT, ESTALE);
	make_dir("dir", 0755);
	make_file("dir/file", 0644);
	FAILS(openat(fd, "file", O_RDONLY), ENOENT, ESTALE);
}

/* A file system whose directories lie elsewhere may say that it does not know this one any more. */
CASE(rmdir_of_working_directory)
{
	char cwd[PATH_MAX];
	struct stat st;

	make_dir("dir", 0755);
	make_file("file", 0644);
	OK(chdir("dir"));
	OK(rmdir("../dir"));
	IS(!getcwd(cwd, sizeof cwd) && errno == ENOENT);
	FAILS(open("new", O_WRONLY | O_CREAT, 0644), ENOENT, ESTALE);
	FAILS(open("none", O_RDONLY), ENOENT, ESTALE);
	FAILS(mkdir("new", 0755), ENOENT, ESTALE);
	FAILS(symlink("there", "new"), ENOENT, ESTALE);
	FAILS(mkfifo("new", 0644), ENOENT, ESTALE);
	FAILS(link("../file", "new"), ENOENT, ESTALE);
	FAILS(rename("../file", "new"), ENOENT, ESTALE);
	if (MAY(stat(".", &st), ESTALE))
		EQ(st.st_nlink, 0);
	/* Whether it still leads upwards is left open. */
	if (MAY(chdir(".."), ENOENT, ESTALE))
		IS(exists("file"));
}

/* ---- unlink ---- */

CASE(unlink_of_every_type)
{
	for (enum kind k = 0; k < KINDS; k++) {
		if (!kind_possible(k))
			continue;
		check_about(kind_names[k]);
		make_kind(kind_names[k], k);
		struct stat was = before(".");

		if (k == KIND_DIR) {
			FAILS(unlink(kind_names[k]), EISDIR, EPERM);
			UNCHANGED(".", was);
			continue;
		}
		OK(unlink(kind_names[k]));
		CHANGED(".", was, MTIME | CTIME);
		IS(!exists(kind_names[k]));
		FAILS(unlink(kind_names[k]), ENOENT);
	}
}

CASE(unlink_of_symlink_leaves_its_target)
{
	make_text("file", "text");
	OK(symlink("file", "link"));
	OK(unlink("link"));
	HOLDS("file", "text");
	OK(symlink("file", "link"));
	OK(unlink("file"));
	IS(exists("link"));
	FAILS(open("link", O_RDONLY), ENOENT);
}

CASE(unlink_of_one_of_two_names)
{
	make_text("a", "text");
	OK(link("a", "b"));
	struct stat was = before("b");

	EQ(was.st_nlink, 2);
	OK(unlink("a"));
	EQ(stat_of("b").st_nlink, 1);
	CHANGED("b", was, CTIME);
	HOLDS("b", "text");
}

CASE(unlinkat_flags)
{
	make_dir("dir", 0755);
	make_file("file", 0644);
	FAILS(unlinkat(AT_FDCWD, "dir", 0), EISDIR, EPERM);
	FAILS(unlinkat(AT_FDCWD, "file", AT_REMOVEDIR), ENOTDIR);
	OK(unlinkat(AT_FDCWD, "dir", AT_REMOVEDIR));
	OK(unlinkat(AT_FDCWD, "file", 0));
}

/* ---- link ---- */

CASE(link_makes_another_name)
{
	for (enum kind k = 0; k < KINDS; k++) {
		if (k == KIND_DIR || k == KIND_SYMLINK || !kind_possible(k))
			continue;
		char name[64], other[64];

		check_about(kind_names[k]);
		snprintf(name, sizeof name, "%s", kind_names[k]);
		snprintf(other, sizeof other, "%s.other", kind_names[k]);
		make_kind(name, k);
		struct stat was = before(name), dir = before(".");

		OK(link(name, other));
		CHANGED(name, was, CTIME);
		CHANGED(".", dir, MTIME | CTIME);
		struct stat a = stat_of(name), b = stat_of(other);

		EQ(a.st_nlink, 2);
		EQ(b.st_nlink, 2);
		EQ(a.st_ino, b.st_ino);
		EQ(a.st_mode, b.st_mode);
		OK(chmod(name, 0611));
		EQ(mode_of(other), 0611);
		OK(link(other, "third"));
		EQ(stat_of(name).st_nlink, 3);
		OK(unlink("third"));
		OK(unlink(name));
		EQ(stat_of(other).st_nlink, 1);
	}
}

CASE(link_shares_data)
{
	make_text("a", "text");
	OK(link("a", "b"));
	make_text("a", "longer text");
	HOLDS("b", "longer text");
	OK(truncate("b", 6));
	HOLDS("a", "longer");
}

CASE(link_over_anything)
{
	make_file("source", 0644);
	for (enum kind k = 0; k < KINDS; k++) {
		if (!kind_possible(k))
			continue;
		check_about(kind_names[k]);
		make_kind(kind_names[k], k);
		struct stat was = before("source");

		FAILS(link("source", kind_names[k]), EEXIST);
		UNCHANGED("source", was);
		EQ(stat_of("source").st_nlink, 1);
	}
	FAILS(link("source", "source"), EEXIST);
}

CASE(link_of_directory)
{
	make_dir("dir", 0755);
	FAILS(link("dir", "new"), EPERM);
	FAILS(link(".", "new"), EPERM);
	IS(!exists("new"));
}

CASE(link_of_symlink)
{
	make_file("file", 0644);
	OK(symlink("file", "link"));
	OK(linkat(AT_FDCWD, "link", AT_FDCWD, "followed", AT_SYMLINK_FOLLOW));
	EQ(stat_of("followed").st_ino, stat_of("file").st_ino);
	if (!MAY(link("link", "same"), EPERM, ENOTSUP)) /* where symbolic links have one name */
		return;
	EQ(stat_of("same").st_ino, stat_of("link").st_ino);
	EQ(stat_of("link").st_nlink, 2);
}

/* ---- symlink, readlink ---- */

CASE(symlink_and_readlink)
{
	char target[1024], got[1024];

	for (size_t len = 1; len < sizeof target; len = len * 2 + 1) {
		memset(target, 't', len);
		target[len] = '\0';
		OK(symlink(target, "link"));
		struct stat st = stat_of("link");

		IS(S_ISLNK(st.st_mode));
		EQ(st.st_size, len);
		EQ(readlink("link", got, sizeof got), len);
		IS(memcmp(got, target, len) == 0);
		OK(unlink("link"));
	}
}

CASE(symlink_longest_and_too_long)
{
	char target[PATH_MAX + 1], got[PATH_MAX];

	memset(target, 't', PATH_MAX);
	target[PATH_MAX] = '\0';
	FAILS(symlink(target, "link"), ENAMETOOLONG);
	FAILS(symlink("", "link"), ENOENT);
	IS(!exists("link"));
	target[PATH_MAX - 1] = '\0';
	if (!MAY(symlink(target, "link"), ENAMETOOLONG)) /* some file systems keep less */
		return;
	EQ(stat_of("link").st_size, PATH_MAX - 1);
	EQ(readlink("link", got, sizeof got), PATH_MAX - 1);
	IS(memcmp(got, target, PATH_MAX - 1) == 0);
}

CASE(symlink_over_anything)
{
	for (enum kind k = 0; k < KINDS; k++) {
		if (!kind_possible(k))
			continue;
		check_about(kind_names[k]);
		make_kind(kind_names[k], k);
		FAILS(symlink("there", kind_names[k]), EEXIST);
		EQ(stat_of(kind_names[k]).st_mode & S_IFMT, kind_type(k));
	}
}

CASE(symlink_changes_times_of_directory)
{
	struct stat was = before(".");

	OK(symlink("there", "link"));
	CHANGED(".", was, MTIME | CTIME);
}

CASE(readlink_into_short_buffer)
{
	char got[8] = "xxxxxxx";

	OK(symlink("abcdef", "link"));
	EQ(readlink("link", got, 3), 3);
	IS(memcmp(got, "abcxxxx", 7) == 0);
}

CASE(readlink_of_what_is_no_link)
{
	char got[8];

	for (enum kind k = 0; k < KINDS; k++) {
		if (k == KIND_SYMLINK || !kind_possible(k))
			continue;
		check_about(kind_names[k]);
		make_kind(kind_names[k], k);
		FAILS(readlink(kind_names[k], got, sizeof got), EINVAL);
	}
}

/* A link's text is never that of the link which had its name before. */
CASE(readlink_after_replacement)
{
	char got[16], target[16];

	for (int i = 0; i < 20; i++) {
		int len = snprintf(target, sizeof target, "target %d", i);

		OK(symlink(target, "new"));
		OK(rename("new", "link"));
		EQ(readlink("link", got, sizeof got), len);
		IS(memcmp(got, target, (size_t)len) == 0);
	}
}

/* ---- mknod ---- */

CASE(mknod_of_fifo_and_socket_and_file)
{
	static const mode_t types[] = {S_IFIFO, S_IFSOCK, S_IFREG, 0};

	for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
		struct stat was = before(".");

		OK(mknod("node", types[i] | 0610, 0));
		CHANGED(".", was, MTIME | CTIME);
		EQ(stat_of("node").st_mode, (types[i] ? types[i] : S_IFREG) | 0610);
		EQ(stat_of("node").st_nlink, 1);
		FAILS(mknod("node", types[i] | 0600, 0), EEXIST);
		OK(unlink("node"));
	}
	FAILS(mknod("node", S_IFDIR | 0755, 0), EPERM, EINVAL);
}

ROOT_CASE(mknod_of_devices)
{
	static const unsigned int numbers[][2] = {{0, 0},   {1, 3},	  {7, 255},
						  {8, 256}, {300, 70000}, {4095, 0xfffff}};

	for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
		dev_t dev = makedev(numbers[i][0], numbers[i][1]);

		for (int block = 0; block < 2; block++) {
			OK(mknod("node", (block ? S_IFBLK : S_IFCHR) | 0640, dev));
			EQ(stat_of("node").st_mode, (block ? S_IFBLK : S_IFCHR) | 0640);
			EQ(major(stat_of("node").st_rdev), numbers[i][0]);
			EQ(minor(stat_of("node").st_rdev), numbers[i][1]);
			OK(unlink("node"));
		}
	}
	OK(chmod(".", 0777));
	AS(&alice)
	{
		FAILS(mknod("node", S_IFCHR | 0644, makedev(1, 3)), EPERM);
		FAILS(mknod("node", S_IFBLK | 0644, makedev(1, 3)), EPERM);
		OK(mkfifo("alices", 0644));
	}
}

CASE(mknod_over_anything)
{
	for (enum kind k = 0; k < KINDS; k++) {
		if (!kind_possible(k))
			continue;
		check_about(kind_names[k]);
		make_kind(kind_names[k], k);
		FAILS(mkfifo(kind_names[k], 0644), EEXIST);
		FAILS(mknod(kind_names[k], S_IFREG | 0644, 0), EEXIST);
	}
}

CASE(fifo_carries_data)
{
	char got[8];

	OK(mkfifo("fifo", 0600));
	pid_t pid = check_fork();

	if (pid == 0) {
		int fd = (int)OK(open("fifo", O_WRONLY));

		EQ(write(fd, "through", 7), 7);
		_exit(0);
	}
	int fd = (int)OK(open("fifo", O_RDONLY));

	EQ(read(fd, got, sizeof got), 7);
	EQ(read(fd, got, sizeof got), 0);
	check_wait(pid);
	EQ(stat_of("fifo").st_size, 0);
}

CASE(socket_is_connected_by_its_name)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX, .sun_path = "socket"};
	int listener = (int)OK(socket(AF_UNIX, SOCK_STREAM, 0)),
	    fd = (int)OK(socket(AF_UNIX, SOCK_STREAM, 0));

	OK(bind(listener, (struct sockaddr *)&address, sizeof address));
	FAILS(bind(fd, (struct sockaddr *)&address, sizeof address), EADDRINUSE, EINVAL);
	FAILS(connect(fd, (struct sockaddr *)&address, sizeof address), ECONNREFUSED);
	OK(listen(listener, 1));
	OK(connect(fd, (struct sockaddr *)&address, sizeof address));
	IS(S_ISSOCK(stat_of("socket").st_mode));
	OK(unlink("socket"));
	FAILS(connect(fd, (struct sockaddr *)&address, sizeof address), ENOENT, EISCONN);
}

/* ---- listing ---- */

CASE(listing_tells_names_types_and_numbers)
{
	int seen = 0, dots = 0;

	make_dir("dir", 0755);
	OK(chdir("dir"));
	for (enum kind k = 0; k < KINDS; k++)
		if (kind_possible(k))
			make_kind(kind_names[k], k);
	DIR *dir = opendir(".");
	struct dirent *e;

	IS(dir != NULL);
	while ((e = readdir(dir))) {
		struct stat st = stat_of(e->d_name);

		check_about(e->d_name);
		if (e->d_type != DT_UNKNOWN)
			EQ(e->d_type, IFTODT(st.st_mode));
		if (strcmp(e->d_name, "..") != 0)
			EQ(e->d_ino, st.st_ino);
		if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, ".."))
			dots++;
		else
			seen |= IFTODT(st.st_mode) ? 1 << IFTODT(st.st_mode) : 0;
	}
	check_about(NULL);
	EQ(dots, 2);
	for (enum kind k = 0; k < KINDS; k++)
		if (kind_possible(k))
			IS(seen & 1 << IFTODT(kind_type(k)));
	closedir(dir);
}

static int count_names(DIR *dir)
{
	int n = 0;

	while (readdir(dir))
		n++;
	return n;
}

CASE(listing_after_changes)
{
	char name[16];

	make_dir("dir", 0755);
	DIR *dir = opendir("dir");

	IS(dir != NULL);
	EQ(count_names(dir), 2);
	OK(chdir("dir"));
	for (int i = 0; i < 300; i++) {
		snprintf(name, sizeof name, "%d", i);
		make_file(name, 0644);
	}
	rewinddir(dir);
	EQ(count_names(dir), 302);
	for (int i = 0; i < 300; i += 2) {
		snprintf(name, sizeof name, "%d", i);
		OK(unlink(name));
	}
	rewinddir(dir);
	EQ(count_names(dir), 152);
	closedir(dir);
}
