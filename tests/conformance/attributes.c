/* SPDX-License-Identifier: MIT
 *
 * Attributes: stat(2), chmod(2), chown(2), utimensat(2), access(2), statvfs(3).
 */
#include "check.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

/* ---- stat ---- */

CASE(stat_of_open_file_is_that_of_its_name)
{
	make_text("file", "some text");
	int fd = (int)OK(open("file", O_RDONLY));
	struct stat a = stat_of("file"), b;

	OK(fstat(fd, &b));
	EQ(a.st_ino, b.st_ino);
	EQ(a.st_dev, b.st_dev);
	EQ(a.st_mode, b.st_mode);
	EQ(a.st_size, 9);
	EQ(b.st_size, 9);
	EQ(a.st_nlink, 1);
	IS(a.st_blksize > 0);
	EQ(a.st_mtim.tv_sec, b.st_mtim.tv_sec);
	EQ(a.st_mtim.tv_nsec, b.st_mtim.tv_nsec);
	EQ(a.st_ctim.tv_nsec, b.st_ctim.tv_nsec);
}

CASE(stat_numbers_are_different)
{
	char name[16];
	ino_t seen[50];

	for (int i = 0; i < 50; i++) {
		snprintf(name, sizeof name, "%d", i);
		make_file(name, 0644);
		seen[i] = stat_of(name).st_ino;
		for (int j = 0; j < i; j++)
			IS(seen[i] != seen[j]);
	}
	for (int i = 0; i < 50; i++) {
		snprintf(name, sizeof name, "%d", i);
		EQ(stat_of(name).st_ino, seen[i]);
	}
}

CASE(stat_sees_what_was_just_written)
{
	int fd = (int)OK(open("file", O_WRONLY | O_CREAT, 0644));

	for (int i = 1; i <= 100; i++) {
		EQ(write(fd, "x", 1), 1);
		EQ(stat_of("file").st_size, i);
	}
	struct stat was = before("file");

	EQ(write(fd, "x", 1), 1);
	CHANGED("file", was, MTIME | CTIME);
	was = before("file");
	EQ(write(fd, "x", 0), 0);
	UNCHANGED("file", was);
}

/* ---- chmod ---- */

CASE(chmod_sets_every_bit)
{
	for (enum kind k = 0; k < KINDS; k++) {
		if (k == KIND_SYMLINK || !kind_possible(k))
			continue;
		check_about(kind_names[k]);
		make_kind("node", k);
		for (mode_t bit = 1; bit <= 04000; bit <<= 1) {
			OK(chmod("node", bit));
			EQ(stat_of("node").st_mode, kind_type(k) | bit);
		}
		OK(chmod("node", 07777));
		EQ(mode_of("node"), 07777);
		struct stat was = before("node");

		OK(chmod("node", 0750));
		CHANGED("node", was, CTIME);
		OK(remove("node"));
	}
}

CASE(chmod_follows_symlinks)
{
	make_file("file", 0644);
	OK(symlink("file", "link"));
	struct stat was = before("link");

	OK(chmod("link", 0611));
	EQ(mode_of("file"), 0611);
	UNCHANGED("link", was);
}

CASE(fchmod_of_open_file)
{
	int fd = (int)OK(open("file", O_RDWR | O_CREAT, 0644));

	OK(fchmod(fd, 0));
	EQ(mode_of("file"), 0);
	EQ(write(fd, "x", 1), 1); /* what is open stays open */
	OK(fchmod(fd, 0600));
	EQ(mode_of("file"), 0600);
	EQ(stat_of("file").st_size, 1);
}

ROOT_CASE(chmod_is_for_the_owner)
{
	make_file("file", 0666);
	make_dir("dir", 0777);
	OK(chown("file", alice.uid, alice.gid));
	OK(chown("dir", alice.uid, alice.gid));
	struct stat was = before("file");

	AS(&bob)
	{
		FAILS(chmod("file", 0600), EPERM);
		FAILS(chmod("dir", 0700), EPERM);
		FAILS(chmod("file", 0666), EPERM);
	}
	UNCHANGED("file", was);
	AS(&alice)
	{
		OK(chmod("file", 0600));
		OK(chmod("dir", 01700));
		OK(chmod("file", 04711));
	}
	EQ(mode_of("file"), 04711);
	EQ(mode_of("dir"), 01700);
}

/* The set-group-id bit is for members of the group. */
ROOT_CASE(chmod_drops_set_gid_of_foreign_group)
{
	make_file("file", 0644);
	OK(chown("file", alice.uid, bob.gid));
	AS(&alice)
	OK(chmod("file", 02755));
	EQ(mode_of("file"), 0755);
	OK(chown("file", alice.uid, alice.gid));
	AS(&alice)
	OK(chmod("file", 02755));
	EQ(mode_of("file"), 02755);
}

/* ---- chown ---- */

ROOT_CASE(chown_sets_owner_and_group)
{
	for (enum kind k = 0; k < KINDS; k++) {
		check_about(kind_names[k]);
		make_kind("node", k);
		struct stat was = before("node");

		OK(lchown("node", 1234, 5678));
		CHANGED("node", was, CTIME);
		EQ(stat_of("node").st_uid, 1234);
		EQ(stat_of("node").st_gid, 5678);
		OK(lchown("node", 4000000000, (gid_t)-1));
		EQ(stat_of("node").st_uid, 4000000000);
		EQ(stat_of("node").st_gid, 5678);
		OK(lchown("node", (uid_t)-1, 65536));
		EQ(stat_of("node").st_uid, 4000000000);
		EQ(stat_of("node").st_gid, 65536);
		OK(remove("node"));
	}
}

ROOT_CASE(chown_follows_symlinks_and_lchown_does_not)
{
	make_file("file", 0644);
	OK(symlink("file", "link"));
	OK(chown("link", 11, 12));
	EQ(stat_of("file").st_uid, 11);
	EQ(stat_of("link").st_uid, 0);
	OK(lchown("link", 13, 14));
	EQ(stat_of("file").st_uid, 11);
	EQ(stat_of("link").st_uid, 13);
	int fd = (int)OK(open("file", O_RDONLY));

	OK(fchown(fd, 15, 16));
	EQ(stat_of("file").st_gid, 16);
}

ROOT_CASE(chown_by_users)
{
	static const gid_t groups[] = {64601, 64602};
	const struct user member = {.uid = alice.uid, .gid = alice.gid, .ngroups = 2, .groups = groups};

	make_file("file", 0666);
	OK(chown("file", alice.uid, alice.gid));
	AS(&member)
	{
		OK(chown("file", (uid_t)-1, 64601));
		OK(chown("file", alice.uid, 64602));
		OK(chown("file", (uid_t)-1, alice.gid));
		FAILS(chown("file", (uid_t)-1, 64603), EPERM);
		FAILS(chown("file", bob.uid, (gid_t)-1), EPERM);
		FAILS(chown("file", 0, 0), EPERM);
		OK(chown("file", alice.uid, alice.gid));
	}
	AS(&bob)
	{
		FAILS(chown("file", bob.uid, (gid_t)-1), EPERM);
		FAILS(chown("file", (uid_t)-1, bob.gid), EPERM);
	}
	EQ(stat_of("file").st_uid, alice.uid);
	EQ(stat_of("file").st_gid, alice.gid);
}

ROOT_CASE(chown_clears_set_id_bits)
{
	static const gid_t group = 64601;
	const struct user member = {.uid = alice.uid, .gid = alice.gid, .ngroups = 1, .groups = &group};

	make_file("file", 0755);
	make_dir("dir", 0755);
	OK(chown("file", alice.uid, alice.gid));
	OK(chown("dir", alice.uid, alice.gid));
	OK(chmod("file", 06755));
	OK(chmod("dir", 06755));
	AS(&member)
	{
		OK(chown("file", (uid_t)-1, group));
		OK(chown("dir", (uid_t)-1, group));
	}
	EQ(mode_of("file"), 0755);
	EQ(mode_of("dir"), 06755); /* on a directory they mean something else */
	EQ(stat_of("file").st_gid, group);
}

/* ---- set-id bits and data ---- */

ROOT_CASE(write_by_another_clears_set_id_bits)
{
	make_text("file", "program");
	OK(chmod("file", 06777));
	AS(&alice)
	{
		int fd = (int)OK(open("file", O_WRONLY));

		EQ(write(fd, "P", 1), 1);
		OK(close(fd));
		EQ(mode_of("file"), 0777);
	}
	EQ(mode_of("file"), 0777);
	HOLDS("file", "Program");
}

/* ---- times ---- */

static void set_times(const char *path, time_t as, long ans, time_t ms, long mns)
{
	OK(utimensat(AT_FDCWD, path, (const struct timespec[]){{as, ans}, {ms, mns}}, AT_SYMLINK_NOFOLLOW));
}

static void check_time(struct timespec got, time_t s, long ns)
{
	EQ(got.tv_sec, s);
	EQ(got.tv_nsec, ns);
}

CASE(utimensat_keeps_nanoseconds)
{
	for (enum kind k = 0; k < KINDS; k++) {
		if (!kind_possible(k))
			continue;
		check_about(kind_names[k]);
		make_kind("node", k);
		struct stat was = before("node");

		set_times("node", 1000000000, 123456789, 1234567890, 1);
		struct stat st = stat_of("node");

		check_time(st.st_atim, 1000000000, 123456789);
		check_time(st.st_mtim, 1234567890, 1);
		check_times("node", &was, CTIME, 0, __FILE__, __LINE__);
		OK(remove("node"));
	}
}

CASE(utimensat_of_far_times)
{
	make_file("file", 0644);
	set_times("file", 0, 0, 1, 999999999);
	check_time(stat_of("file").st_atim, 0, 0);
	check_time(stat_of("file").st_mtim, 1, 999999999);
	set_times("file", INT32_MAX, 5, INT32_MAX + 1ll, 6); /* 2038 */
	check_time(stat_of("file").st_atim, INT32_MAX, 5);
	check_time(stat_of("file").st_mtim, INT32_MAX + 1ll, 6);
	set_times("file", 4102444800, 7, 4200000000, 8); /* 2100, 2103 */
	check_time(stat_of("file").st_atim, 4102444800, 7);
	check_time(stat_of("file").st_mtim, 4200000000, 8);
}

CASE(utimensat_omit_and_now)
{
	const struct timespec omit = {.tv_nsec = UTIME_OMIT}, now = {.tv_nsec = UTIME_NOW},
			      set = {1234, 5678};

	make_file("file", 0644);
	struct stat made = stat_of("file");

	set_times("file", 1, 2, 3, 4);
	OK(utimensat(AT_FDCWD, "file", (const struct timespec[]){omit, set}, 0));
	check_time(stat_of("file").st_atim, 1, 2);
	check_time(stat_of("file").st_mtim, 1234, 5678);
	OK(utimensat(AT_FDCWD, "file", (const struct timespec[]){set, omit}, 0));
	check_time(stat_of("file").st_atim, 1234, 5678);
	check_time(stat_of("file").st_mtim, 1234, 5678);
	OK(utimensat(AT_FDCWD, "file", (const struct timespec[]){now, omit}, 0));
	IS(stat_of("file").st_atim.tv_sec >= made.st_atim.tv_sec - 1);
	check_time(stat_of("file").st_mtim, 1234, 5678);
	OK(utimensat(AT_FDCWD, "file", (const struct timespec[]){set, now}, 0));
	check_time(stat_of("file").st_atim, 1234, 5678);
	IS(stat_of("file").st_mtim.tv_sec >= made.st_mtim.tv_sec - 1);
	struct stat was = before("file");

	OK(utimensat(AT_FDCWD, "file", (const struct timespec[]){omit, omit}, 0));
	UNCHANGED("file", was);
	was = before("file");
	OK(utimensat(AT_FDCWD, "file", NULL, 0));
	CHANGED("file", was, MTIME | CTIME);
	FAILS(utimensat(AT_FDCWD, "file", (const struct timespec[]){{1, 1000000000}, set}, 0), EINVAL);
	FAILS(utimensat(AT_FDCWD, "file", (const struct timespec[]){set, {1, -1}}, 0), EINVAL);
}

CASE(futimens_of_open_file)
{
	int fd = (int)OK(open("file", O_RDWR | O_CREAT, 0644));

	EQ(write(fd, "x", 1), 1);
	OK(futimens(fd, (const struct timespec[]){{10, 11}, {12, 13}}));
	check_time(stat_of("file").st_mtim, 12, 13);
	OK(fsync(fd));
	OK(close(fd)); /* writing back may not bring another time */
	check_time(stat_of("file").st_atim, 10, 11);
	check_time(stat_of("file").st_mtim, 12, 13);
	fd = (int)OK(open("file", O_RDONLY));
	OK(futimens(fd, (const struct timespec[]){{20, 21}, {22, 23}}));
	check_time(stat_of("file").st_mtim, 22, 23);
}

CASE(lutimens_of_symlink)
{
	make_file("file", 0644);
	OK(symlink("file", "link"));
	struct stat was = before("file");

	set_times("link", 1, 2, 3, 4);
	check_time(stat_of("link").st_mtim, 3, 4);
	UNCHANGED("file", was);
	OK(utimensat(AT_FDCWD, "link", (const struct timespec[]){{5, 6}, {7, 8}}, 0));
	check_time(stat_of("file").st_mtim, 7, 8);
	check_time(stat_of("link").st_mtim, 3, 4);
}

ROOT_CASE(utimensat_permissions)
{
	const struct timespec now[] = {{.tv_nsec = UTIME_NOW}, {.tv_nsec = UTIME_NOW}},
			      omit[] = {{.tv_nsec = UTIME_OMIT}, {.tv_nsec = UTIME_OMIT}},
			      mixed[] = {{.tv_nsec = UTIME_NOW}, {.tv_nsec = UTIME_OMIT}},
			      set[] = {{1, 2}, {3, 4}};

	make_file("writable", 0666);
	make_file("readable", 0644);
	make_file("alices", 0400);
	OK(chown("alices", alice.uid, alice.gid));
	struct stat was = before("readable");

	AS(&alice)
	{
		OK(utimensat(AT_FDCWD, "writable", NULL, 0));
		OK(utimensat(AT_FDCWD, "writable", now, 0));
		OK(utimensat(AT_FDCWD, "writable", omit, 0));
		FAILS(utimensat(AT_FDCWD, "writable", mixed, 0), EPERM);
		FAILS(utimensat(AT_FDCWD, "writable", set, 0), EPERM);
		FAILS(utimensat(AT_FDCWD, "readable", NULL, 0), EACCES);
		FAILS(utimensat(AT_FDCWD, "readable", now, 0), EACCES);
		OK(utimensat(AT_FDCWD, "readable", omit, 0));
		FAILS(utimensat(AT_FDCWD, "readable", mixed, 0), EPERM);
		FAILS(utimensat(AT_FDCWD, "readable", set, 0), EPERM);
		OK(utimensat(AT_FDCWD, "alices", set, 0));
		OK(utimensat(AT_FDCWD, "alices", mixed, 0));
		OK(utimensat(AT_FDCWD, "alices", NULL, 0));
		/* What was opened for writing gives no right to set times. */
		int fd = (int)OK(open("writable", O_WRONLY));

		FAILS(futimens(fd, set), EPERM);
		OK(futimens(fd, NULL));
	}
	UNCHANGED("readable", was);
}

/* ---- access ---- */

ROOT_CASE(access_as_owner_group_and_other)
{
	static const int modes[] = {F_OK, R_OK, W_OK, X_OK, R_OK | W_OK, R_OK | X_OK, R_OK | W_OK | X_OK};
	static const gid_t group = 64601;
	const struct user owner = alice,
			  member = {.uid = bob.uid, .gid = bob.gid, .ngroups = 1, .groups = &group},
			  other = bob;
	const struct {
		const char *name;
		const struct user *user;
		int shift;
	} who[] = {{"owner", &owner, 6}, {"member of the group", &member, 3}, {"other", &other, 0}};

	for (int dir = 0; dir < 2; dir++) {
		make_kind("node", dir ? KIND_DIR : KIND_FILE);
		OK(chown("node", alice.uid, group));
		for (size_t w = 0; w < 3; w++)
			for (mode_t bits = 0; bits < 8; bits++) {
				/* What the others get is the opposite: only the own class counts. */
				OK(chmod("node",
					 bits << who[w].shift | ((7 - bits) * 0111 & ~(7u << who[w].shift))));
				check_about(who[w].name);
				AS(who[w].user)
				for (size_t m = 0; m < sizeof modes / sizeof modes[0]; m++) {
					if ((bits & (mode_t)modes[m]) == (mode_t)modes[m])
						OK(access("node", modes[m]));
					else
						FAILS(access("node", modes[m]), EACCES);
				}
			}
		OK(remove("node"));
	}
}

ROOT_CASE(access_as_root)
{
	make_file("file", 0);
	make_dir("dir", 0);
	OK(access("file", R_OK | W_OK));
	FAILS(access("file", X_OK), EACCES);
	OK(access("dir", R_OK | W_OK | X_OK));
	OK(chmod("file", 0001));
	OK(access("file", X_OK));
	FAILS(access("file", 8), EINVAL);
}

/* access(2) asks for the real user, faccessat(2) with AT_EACCESS for the effective one. */
ROOT_CASE(access_real_and_effective)
{
	make_file("file", 0600);
	pid_t pid = check_fork();

	if (pid == 0) {
		OK(setresuid(alice.uid, 0, 0));
		FAILS(access("file", R_OK), EACCES);
		OK(faccessat(AT_FDCWD, "file", R_OK, AT_EACCESS));
		OK(setresuid(0, alice.uid, 0));
		OK(access("file", R_OK));
		FAILS(faccessat(AT_FDCWD, "file", R_OK, AT_EACCESS), EACCES);
		_exit(0);
	}
	check_wait(pid);
}

/* ---- statvfs ---- */

CASE(statvfs_makes_sense)
{
	struct statvfs st, of_file;

	make_file("file", 0644);
	OK(statvfs(".", &st));
	IS(st.f_bsize > 0 && st.f_frsize > 0);
	IS(st.f_blocks >= st.f_bfree && st.f_bfree >= st.f_bavail);
	IS(st.f_files >= st.f_ffree && st.f_ffree >= st.f_favail);
	EQ(st.f_namemax, 255);
	int fd = (int)OK(open("file", O_RDONLY));

	OK(fstatvfs(fd, &of_file));
	EQ(of_file.f_frsize, st.f_frsize);
	EQ(of_file.f_blocks, st.f_blocks);
	EQ(pathconf(".", _PC_NAME_MAX), 255);
	EQ(pathconf(".", _PC_NO_TRUNC) > 0, 1);
	EQ(pathconf(".", _PC_CHOWN_RESTRICTED) > 0, 1);
}
