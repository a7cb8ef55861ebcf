/* SPDX-License-Identifier: MIT
 *
 * Who may do what: classes of users, supplementary groups, sticky directories, programs.
 */
#include "check.h"

#include <fcntl.h>
#include <grp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/fsuid.h>
#include <sys/wait.h>
#include <unistd.h>

#define GROUPS 16 /* AUTH_SYS carries so many (RFC 5531 appendix A) */
#define FIRST_GROUP 64700

ROOT_CASE(groups_each_of_16_counts)
{
	gid_t groups[GROUPS];
	const struct user member = {.uid = alice.uid, .gid = alice.gid, .ngroups = GROUPS, .groups = groups};
	char name[32];

	for (gid_t i = 0; i < GROUPS; i++) {
		groups[i] = FIRST_GROUP + (i * 7 % GROUPS) * 100; /* in no order */
		snprintf(name, sizeof name, "file%u", i);
		make_text(name, "text");
		OK(chown(name, 0, groups[i]));
		OK(chmod(name, 0060));
		snprintf(name, sizeof name, "dir%u", i);
		make_dir(name, 0070);
		OK(chown(name, 0, groups[i]));
	}
	make_text("foreign", "text");
	OK(chown("foreign", 0, FIRST_GROUP + 50));
	OK(chmod("foreign", 0060));
	AS(&member)
	{
		for (int i = 0; i < GROUPS; i++) {
			snprintf(name, sizeof name, "file%d", i);
			check_about(name);
			HOLDS(name, "text");
			OK(close((int)OK(open(name, O_RDWR))));
			OK(access(name, R_OK | W_OK));
			FAILS(access(name, X_OK), EACCES);
			snprintf(name, sizeof name, "dir%d/file", i);
			make_file(name, 0600);
			OK(unlink(name));
		}
		FAILS(open("foreign", O_RDONLY), EACCES);
	}
	AS(&bob)
	FAILS(open("file0", O_RDONLY), EACCES);
}

ROOT_CASE(groups_change_while_a_process_runs)
{
	make_text("file", "text");
	OK(chown("file", 0, FIRST_GROUP));
	OK(chmod("file", 0040));
	make_dir("dir", 0070);
	OK(chown("dir", 0, FIRST_GROUP));
	pid_t pid = check_fork();

	if (pid == 0) {
		for (int i = 0; i < 5; i++) {
			OK(setgroups(0, NULL));
			OK(setresuid(alice.uid, alice.uid, 0));
			OK(setfsgid(alice.gid));
			FAILS(open("file", O_RDONLY), EACCES);
			FAILS(open("dir/new", O_WRONLY | O_CREAT, 0600), EACCES);
			OK(setresuid(0, 0, 0));
			OK(setgroups(1, (gid_t[]){FIRST_GROUP}));
			OK(setresuid(alice.uid, alice.uid, 0));
			OK(setfsgid(alice.gid));
			HOLDS("file", "text");
			OK(close((int)OK(open("dir/new", O_WRONLY | O_CREAT, 0600))));
			OK(unlink("dir/new"));
			OK(setresuid(0, 0, 0));
		}
		_exit(0);
	}
	check_wait(pid);
}

ROOT_CASE(user_changes_while_a_process_runs)
{
	OK(chmod(".", 0777));
	pid_t pid = check_fork();

	if (pid == 0) {
		OK(seteuid(alice.uid));
		make_text("alices", "alice");
		OK(chmod("alices", 0600));
		OK(seteuid(0));
		OK(seteuid(bob.uid));
		FAILS(open("alices", O_RDONLY), EACCES);
		make_text("bobs", "bob");
		OK(seteuid(0));
		setfsuid(alice.uid);
		HOLDS("alices", "alice");
		make_file("alices too", 0600);
		setfsuid(0);
		make_file("roots", 0600);
		_exit(0);
	}
	check_wait(pid);
	EQ(stat_of("alices").st_uid, alice.uid);
	EQ(stat_of("alices too").st_uid, alice.uid);
	EQ(stat_of("bobs").st_uid, bob.uid);
	EQ(stat_of("roots").st_uid, 0);
}

/* What is open stays open to whoever holds it. */
ROOT_CASE(open_file_survives_dropped_privileges)
{
	make_text("file", "text");
	OK(chmod("file", 0600));
	int fd = (int)OK(open("file", O_RDWR));
	int dir = (int)OK(open(".", O_RDONLY | O_DIRECTORY));

	OK(chmod(".", 0700));
	AS(&alice)
	{
		char got[8];

		FAILS(open("file", O_RDONLY), EACCES);
		FAILS(openat(dir, "file", O_RDONLY), EACCES);
		EQ(pread(fd, got, sizeof got, 0), 4);
		EQ(pwrite(fd, "more", 4, 4), 4);
		OK(fsync(fd));
		OK(ftruncate(fd, 6));
		OK(close(fd));
	}
	HOLDS("file", "textmo");
}

ROOT_CASE(directory_bits)
{
	make_dir("dir", 0755);
	make_text("dir/file", "text");
	OK(chown("dir", alice.uid, alice.gid));
	OK(chmod("dir", 0400)); /* list, not search */
	AS(&alice)
	{
		OK(close((int)OK(open("dir", O_RDONLY | O_DIRECTORY))));
		FAILS(open("dir/file", O_RDONLY), EACCES);
		FAILS(chdir("dir"), EACCES);
	}
	OK(chmod("dir", 0100)); /* search, not list */
	AS(&alice)
	{
		FAILS(open("dir", O_RDONLY | O_DIRECTORY), EACCES);
		HOLDS("dir/file", "text");
		OK(chdir("dir"));
		HOLDS("file", "text");
		FAILS(unlink("file"), EACCES);
		FAILS(mkdir("new", 0755), EACCES);
	}
	OK(chmod("dir", 0300)); /* search and change, not list */
	AS(&alice)
	{
		make_file("dir/new", 0644);
		OK(rename("dir/new", "dir/newer"));
		OK(unlink("dir/newer"));
	}
	OK(chmod("dir", 0200)); /* change alone is of no use */
	AS(&alice)
	FAILS(open("dir/new", O_WRONLY | O_CREAT, 0644), EACCES);
}

ROOT_CASE(root_passes_every_mode)
{
	make_dir("dir", 0);
	make_text("dir/file", "text");
	OK(chmod("dir/file", 0));
	OK(chown("dir/file", alice.uid, alice.gid));
	OK(chown("dir", alice.uid, alice.gid));
	HOLDS("dir/file", "text");
	OK(close((int)OK(open("dir/file", O_RDWR | O_TRUNC))));
	OK(unlink("dir/file"));
}

/* In a sticky directory a name belongs to the file's owner and to the directory's. */
ROOT_CASE(sticky_directory)
{
	make_dir("dir", 0777);
	OK(chown("dir", bob.uid, bob.gid));
	OK(chmod("dir", 01777));
	OK(chmod(".", 0777));
	const struct user carol = {.uid = 64533, .gid = 64533};

	AS(&alice)
	{
		make_file("dir/a", 0666);
		make_file("dir/b", 0666);
		make_file("dir/c", 0666);
		make_dir("dir/d", 0777);
		OK(symlink("there", "dir/l"));
	}
	AS(&carol)
	{
		make_file("dir/carols", 0666);
		make_dir("dir/carols dir", 0777);
		FAILS(unlink("dir/a"), EPERM, EACCES);
		FAILS(unlink("dir/l"), EPERM, EACCES);
		FAILS(rmdir("dir/d"), EPERM, EACCES);
		FAILS(rename("dir/a", "dir/x"), EPERM, EACCES);
		FAILS(rename("dir/a", "x"), EPERM, EACCES);
		FAILS(rename("dir/d", "dir/x"), EPERM, EACCES);
		FAILS(rename("dir/carols", "dir/a"), EPERM, EACCES);
		FAILS(rename("dir/carols dir", "dir/d"), EPERM, EACCES);
		OK(link("dir/carols", "dir/carols too"));
		OK(unlink("dir/carols too"));
		OK(rename("dir/carols", "dir/renamed"));
		OK(unlink("dir/renamed"));
	}
	AS(&alice)
	{
		OK(rename("dir/a", "dir/x"));
		OK(unlink("dir/x"));
	}
	AS(&bob)
	{
		OK(unlink("dir/b"));
		OK(rename("dir/c", "dir/y"));
		OK(rmdir("dir/d"));
	}
	OK(unlink("dir/y"));
}

/* A program that may be run and not be read. */
ROOT_CASE(program_that_is_only_executable)
{
	char copy[] = "cp /bin/true program";
	int status;

	OK(system(copy));
	OK(chmod("program", 0711));
	pid_t pid = check_fork();

	if (pid == 0) {
		OK(setgroups(0, NULL));
		OK(setresgid(alice.gid, alice.gid, alice.gid));
		OK(setresuid(alice.uid, alice.uid, alice.uid));
		FAILS(open("program", O_RDONLY), EACCES);
		execl("./program", "program", NULL);
		check_failed(__FILE__, __LINE__, "execve: %s", strerrorname_np(errno));
	}
	OK(waitpid(pid, &status, 0));
	EQ(status, 0);
	OK(chmod("program", 0644));
	FAILS(execl("./program", "program", NULL), EACCES);
	OK(chmod("program", 0700));
	AS(&alice)
	FAILS(execl("./program", "program", NULL), EACCES);
}

CASE(script_runs)
{
	int status;

	make_text("script", "#!/bin/sh\nexit 7\n");
	OK(chmod("script", 0755));
	pid_t pid = check_fork();

	if (pid == 0) {
		execl("./script", "script", NULL);
		_exit(126);
	}
	OK(waitpid(pid, &status, 0));
	EQ(WEXITSTATUS(status), 7);
}
