/* SPDX-License-Identifier: MIT
 *
 * open(2): its flags, and what it makes.
 */
#include "check.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

CASE(open_creates_an_empty_file)
{
	int fd = (int)OK(open("file", O_RDWR | O_CREAT, 0640));
	struct stat st;

	OK(fstat(fd, &st));
	EQ(st.st_mode, S_IFREG | 0640);
	EQ(st.st_size, 0);
	EQ(st.st_nlink, 1);
	EQ(st.st_uid, geteuid());
	EQ(st.st_ino, stat_of("file").st_ino);
	EQ(st.st_dev, stat_of(".").st_dev);
}

CASE(open_creates_with_every_mode)
{
	char name[16];

	for (mode_t mode = 0; mode <= 0777; mode += 013) {
		snprintf(name, sizeof name, "%o", mode);
		make_file(name, mode);
		EQ(mode_of(name), mode);
	}
	make_file("set-id", 06711);
	EQ(mode_of("set-id"), 06711);
}

CASE(open_applies_umask)
{
	umask(027);
	make_file("file", 0777);
	make_dir("dir", 0777);
	OK(mkfifo("fifo", 0666));
	umask(0);
	EQ(mode_of("file"), 0750);
	EQ(mode_of("dir"), 0750);
	EQ(mode_of("fifo"), 0640);
}

CASE(open_creating_changes_times_of_directory)
{
	struct stat was = before(".");

	make_file("file", 0644);
	CHANGED(".", was, MTIME | CTIME);
	was = before(".");
	OK(close((int)OK(open("file", O_RDWR | O_CREAT, 0644))));
	FAILS(open("file", O_RDWR | O_CREAT | O_EXCL, 0644), EEXIST);
	FAILS(open("none", O_RDWR), ENOENT);
	UNCHANGED(".", was);
}

CASE(open_of_existing_file_keeps_it)
{
	make_text("file", "text");
	OK(chmod("file", 0604));
	struct stat was = before("file");

	OK(close((int)OK(open("file", O_RDWR | O_CREAT, 0777))));
	UNCHANGED("file", was);
	EQ(mode_of("file"), 0604);
	HOLDS("file", "text");
}

CASE(open_excl_finds_every_type)
{
	for (enum kind k = 0; k < KINDS; k++) {
		if (!kind_possible(k))
			continue;
		check_about(kind_names[k]);
		make_kind(kind_names[k], k);
		FAILS(open(kind_names[k], O_WRONLY | O_CREAT | O_EXCL, 0644), EEXIST);
		FAILS(open(kind_names[k], O_RDONLY | O_CREAT | O_EXCL | O_TRUNC, 0644), EEXIST);
	}
}

CASE(open_creat_follows_dangling_symlink)
{
	OK(symlink("target", "link"));
	FAILS(open("link", O_WRONLY | O_CREAT | O_EXCL, 0644), EEXIST);
	OK(close((int)OK(open("link", O_WRONLY | O_CREAT, 0640))));
	EQ(stat_of("target").st_mode, S_IFREG | 0640);
	IS(S_ISLNK(stat_of("link").st_mode));
}

CASE(open_trunc)
{
	make_text("file", "text");
	struct stat was = before("file");

	OK(close((int)OK(open("file", O_WRONLY | O_TRUNC))));
	EQ(stat_of("file").st_size, 0);
	CHANGED("file", was, MTIME | CTIME);
	/* POSIX, open(): on success the times are marked, whatever the size was. */
	was = before("file");
	OK(close((int)OK(open("file", O_WRONLY | O_TRUNC))));
	CHANGED("file", was, MTIME | CTIME);
}

CASE(open_trunc_is_seen_by_others)
{
	make_text("file", "some text");
	int fd = (int)OK(open("file", O_RDWR));
	char c;
	struct stat st;

	EQ(pread(fd, &c, 1, 5), 1);
	OK(close((int)OK(open("file", O_WRONLY | O_TRUNC))));
	EQ(pread(fd, &c, 1, 5), 0);
	OK(fstat(fd, &st));
	EQ(st.st_size, 0);
	EQ(pwrite(fd, "x", 1, 2), 1);
	EQ(pread(fd, &c, 1, 0), 1);
	EQ(c, 0);
}

CASE(open_nofollow)
{
	make_file("file", 0644);
	make_dir("dir", 0755);
	OK(symlink("file", "link"));
	OK(symlink("dir", "to-dir"));
	FAILS(open("link", O_RDONLY | O_NOFOLLOW), ELOOP);
	FAILS(open("link", O_RDONLY | O_NOFOLLOW | O_CREAT, 0644), ELOOP);
	FAILS(open("to-dir", O_RDONLY | O_NOFOLLOW | O_DIRECTORY), ENOTDIR, ELOOP);
	OK(open("file", O_RDONLY | O_NOFOLLOW));
	int fd = (int)OK(open("link", O_PATH | O_NOFOLLOW));
	struct stat st;

	OK(fstat(fd, &st));
	IS(S_ISLNK(st.st_mode));
}

CASE(open_directory)
{
	make_file("file", 0644);
	make_dir("dir", 0755);
	FAILS(open("file", O_RDONLY | O_DIRECTORY), ENOTDIR);
	FAILS(open("dir", O_WRONLY), EISDIR);
	FAILS(open("dir", O_RDWR), EISDIR);
	FAILS(open("dir", O_RDONLY | O_CREAT, 0644), EISDIR);
	FAILS(open("dir", O_WRONLY | O_TRUNC), EISDIR);
	int fd = (int)OK(open("dir", O_RDONLY | O_DIRECTORY));
	char c;

	FAILS(read(fd, &c, 1), EISDIR);
	FAILS(write(fd, &c, 1), EBADF);
	OK(fchmod(fd, 0700));
	OK(fsync(fd));
	EQ(mode_of("dir"), 0700);
	OK(close((int)OK(openat(fd, "inside", O_WRONLY | O_CREAT, 0644))));
	IS(exists("dir/inside"));
}

CASE(open_without_reader_or_listener)
{
	make_kind("fifo", KIND_FIFO);
	make_kind("socket", KIND_SOCKET);
	FAILS(open("fifo", O_WRONLY | O_NONBLOCK), ENXIO);
	FAILS(open("socket", O_RDONLY), ENXIO);
	FAILS(open("socket", O_WRONLY | O_NONBLOCK), ENXIO);
}

CASE(open_access_modes)
{
	char c = 'x';
	int fd = (int)OK(open("file", O_WRONLY | O_CREAT, 0644));

	EQ(write(fd, &c, 1), 1);
	FAILS(pread(fd, &c, 1, 0), EBADF);
	OK(close(fd));
	FAILS(write(fd, &c, 1), EBADF);
	fd = (int)OK(open("file", O_RDONLY));
	FAILS(write(fd, &c, 1), EBADF);
	FAILS(ftruncate(fd, 0), EINVAL, EBADF);
	EQ(read(fd, &c, 1), 1);
	fd = (int)OK(open("file", O_PATH));
	FAILS(read(fd, &c, 1), EBADF);
	struct stat st;

	OK(fstat(fd, &st));
	EQ(st.st_size, 1);
}

/* The mode says who may open it next, and nothing of the descriptor that made it: git, tar and cp rely on it.
 */
ROOT_CASE(open_creates_what_its_mode_forbids)
{
	OK(chmod(".", 0777));
	AS(&alice)
	{
		char text[8];
		int fd = (int)OK(open("closed", O_RDWR | O_CREAT | O_EXCL, 0));

		EQ(write(fd, "text", 4), 4);
		OK(fsync(fd));
		EQ(pread(fd, text, 8, 0), 4);
		EQ(write(fd, "more", 4), 4);
		OK(close(fd));
		FAILS(open("closed", O_RDONLY), EACCES);
		FAILS(open("closed", O_WRONLY), EACCES);
		fd = (int)OK(open("read-only", O_WRONLY | O_CREAT, 0444));
		EQ(write(fd, "text", 4), 4);
		OK(close(fd));
		HOLDS("read-only", "text");
		FAILS(open("read-only", O_WRONLY), EACCES);
	}
	EQ(stat_of("closed").st_size, 8);
}

ROOT_CASE(open_checks_permission)
{
	static const struct {
		mode_t mode;
		bool read, write;
	} modes[] = {{0, 0, 0},	   {0400, 1, 0}, {0200, 0, 1}, {0600, 1, 1}, {0100, 0, 0},
		     {0077, 0, 0}, {0377, 0, 1}, {0477, 1, 0}, {0777, 1, 1}};

	make_text("file", "x");
	OK(chown("file", alice.uid, alice.gid));
	for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++) {
		OK(chmod("file", modes[i].mode));
		AS(&alice)
		{
			for (int how = 0; how < 4; how++) {
				int flags = how == 0 ? O_RDONLY : how == 1 ? O_WRONLY : O_RDWR;
				bool may = how == 0   ? modes[i].read
					   : how == 1 ? modes[i].write
						      : modes[i].read && modes[i].write;

				if (how == 3)
					flags |= O_CREAT;
				if (may)
					OK(close((int)OK(open("file", flags, 0644))));
				else
					FAILS(open("file", flags, 0644), EACCES);
			}
			if (!modes[i].write)
				FAILS(open("file", O_RDONLY | O_TRUNC), EACCES);
		}
		EQ(stat_of("file").st_size, 1);
	}
}

ROOT_CASE(open_makes_files_of_the_caller)
{
	static const gid_t group = 64600;
	const struct user member = {.uid = alice.uid, .gid = alice.gid, .ngroups = 1, .groups = &group};

	make_dir("plain", 0777);
	make_dir("set-gid", 0777);
	OK(chown("set-gid", 0, group));
	OK(chmod("set-gid", 02777));
	AS(&member)
	{
		for (enum kind k = 0; k < KINDS; k++) {
			char name[64];

			if (!kind_possible(k))
				continue;
			check_about(kind_names[k]);
			snprintf(name, sizeof name, "plain/%s", kind_names[k]);
			make_kind(name, k);
			EQ(stat_of(name).st_uid, alice.uid);
			EQ(stat_of(name).st_gid, alice.gid);
			snprintf(name, sizeof name, "set-gid/%s", kind_names[k]);
			make_kind(name, k);
			EQ(stat_of(name).st_uid, alice.uid);
			EQ(stat_of(name).st_gid, group);
			EQ(mode_of(name) & 02000, k == KIND_DIR ? 02000 : 0);
		}
		make_file("set-gid/excl", 0640);
		OK(close((int)OK(open("set-gid/plain", O_WRONLY | O_CREAT, 0640))));
		EQ(mode_of("set-gid/excl"), 0640);
		EQ(stat_of("set-gid/excl").st_gid, group);
		EQ(stat_of("set-gid/plain").st_gid, group);
	}
}

CASE(open_of_a_running_program)
{
	char copy[] = "cp /bin/sleep program", c;
	int status, running[2];

	OK(system(copy));
	OK(pipe2(running, O_CLOEXEC));
	pid_t pid = check_fork();

	if (pid == 0) {
		execl("./program", "program", "1000", NULL);
		check_failed(__FILE__, __LINE__, "execve: %s", strerrorname_np(errno));
	}
	OK(close(running[1]));
	EQ(read(running[0], &c, 1), 0); /* it is closed by execve(2) */
	FAILS(open("program", O_WRONLY), ETXTBSY);
	FAILS(open("program", O_RDONLY | O_TRUNC), ETXTBSY);
	FAILS(truncate("program", 0), ETXTBSY);
	OK(close((int)OK(open("program", O_RDONLY))));
	OK(kill(pid, SIGKILL));
	OK(waitpid(pid, &status, 0));
	OK(close((int)OK(open("program", O_WRONLY))));
}

CASE(open_many_at_once)
{
	char name[16];
	int fds[64];
	struct stat st;

	for (int i = 0; i < 64; i++) {
		snprintf(name, sizeof name, "%d", i);
		fds[i] = (int)OK(open(name, O_RDWR | O_CREAT | O_EXCL, 0600));
		EQ(write(fds[i], name, strlen(name)), strlen(name));
	}
	for (int i = 0; i < 64; i++) {
		snprintf(name, sizeof name, "%d", i);
		OK(fstat(fds[i], &st));
		EQ(st.st_size, strlen(name));
		EQ(st.st_ino, stat_of(name).st_ino);
		OK(close(fds[i]));
	}
}

CASE(open_excl_has_one_winner)
{
	int wins[2];

	OK(pipe(wins));
	for (int child = 0; child < 4; child++) {
		if (check_fork())
			continue;
		for (int i = 0; i < 50; i++) {
			char name[16];

			snprintf(name, sizeof name, "lock%d", i);
			int fd = open(name, O_WRONLY | O_CREAT | O_EXCL, 0644);

			if (fd < 0)
				EQ(errno, EEXIST);
			else
				EQ(write(wins[1], "x", 1), 1);
		}
		_exit(0);
	}
	for (int child = 0; child < 4; child++)
		check_wait(-1);
	char got[1000];

	EQ(read(wins[0], got, sizeof got), 50);
}
