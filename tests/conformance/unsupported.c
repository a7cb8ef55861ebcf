/* SPDX-License-Identifier: MIT
 *
 * What not every file system can do: it works, or gives one of the errnos that tell programs to do it another
 * way. Never anything else, and never half.
 */
#include "check.h"

#include <fcntl.h>
#include <linux/fs.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/sendfile.h>
#include <sys/syscall.h>
#include <sys/xattr.h>
#include <unistd.h>

static int new_text(const char *path, const char *text)
{
	make_text(path, text);
	return (int)OK(open(path, O_RDWR));
}

CASE(fallocate_works_or_says_so)
{
	int fd = new_text("file", "text");

	if (MAY(fallocate(fd, 0, 0, 100000), EOPNOTSUPP))
		EQ(stat_of("file").st_size, 100000);
	else
		EQ(stat_of("file").st_size, 4);
	OK(ftruncate(fd, 4));
	MAY(fallocate(fd, FALLOC_FL_KEEP_SIZE, 0, 100000), EOPNOTSUPP);
	EQ(stat_of("file").st_size, 4);
	HOLDS("file", "text");
	if (MAY(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 2), EOPNOTSUPP)) {
		char got[4];

		EQ(pread(fd, got, 4, 0), 4);
		IS(memcmp(got, "\0\0xt", 4) == 0);
	} else {
		HOLDS("file", "text");
	}
}

/* The C library writes where fallocate(2) is lacking. */
CASE(posix_fallocate_works)
{
	char got[16];
	int fd = new_text("file", "text");

	EQ(posix_fallocate(fd, 2, 9998), 0);
	EQ(stat_of("file").st_size, 10000);
	EQ(pread(fd, got, 8, 0), 8);
	IS(memcmp(got, "text\0\0\0\0", 8) == 0);
	EQ(posix_fallocate(fd, 0, 0), EINVAL);
}

CASE(xattr_works_or_says_so)
{
	char got[64];

	make_file("file", 0644);
	FAILS(getxattr("file", "user.none", got, sizeof got), ENODATA, EOPNOTSUPP);
	if (MAY(setxattr("file", "user.name", "value", 5, 0), EOPNOTSUPP)) {
		EQ(getxattr("file", "user.name", got, sizeof got), 5);
		IS(memcmp(got, "value", 5) == 0);
		OK(removexattr("file", "user.name"));
	}
	MAY(listxattr("file", got, sizeof got), EOPNOTSUPP);
	FAILS(removexattr("file", "user.none"), ENODATA, EOPNOTSUPP);
	FAILS(getxattr("file", "system.posix_acl_access", got, sizeof got), ENODATA, EOPNOTSUPP);
	FAILS(getxattr("none", "user.none", got, sizeof got), ENOENT);
}

CASE(copy_file_range_works_or_says_so)
{
	int from = new_text("from", "0123456789"), to = new_text("to", "");
	loff_t at = 2;
	ssize_t n = copy_file_range(from, &at, to, NULL, 5, 0);

	if (MAY(n, EXDEV, EOPNOTSUPP, ENOSYS, EINVAL)) {
		IS(n > 0 && n <= 5);
		EQ(at, 2 + n);
		EQ(stat_of("to").st_size, n);
		char got[8];

		EQ(pread(to, got, 8, 0), n);
		IS(memcmp(got, "23456", (size_t)n) == 0);
	} else {
		EQ(stat_of("to").st_size, 0);
	}
}

CASE(clone_works_or_says_so)
{
	int from = new_text("from", "0123456789"), to = new_text("to", "");

	if (MAY(ioctl(to, FICLONE, from), EOPNOTSUPP, EXDEV, ENOTTY, EINVAL, ENOSYS))
		HOLDS("to", "0123456789");
	else
		EQ(stat_of("to").st_size, 0);
	int flags;

	MAY(ioctl(from, FS_IOC_GETFLAGS, &flags), ENOTTY, EOPNOTSUPP, ENOSYS);
}

CASE(sendfile_works)
{
	int from = new_text("from", "0123456789"), to = new_text("to", "");
	off_t at = 3;

	EQ(sendfile(to, from, &at, 100), 7);
	HOLDS("to", "3456789");
}

CASE(tmpfile_works_or_says_so)
{
	int fd = open(".", O_TMPFILE | O_RDWR, 0600);

	if (!MAY(fd, EOPNOTSUPP, EISDIR))
		return;
	struct stat st;

	OK(fstat(fd, &st));
	EQ(st.st_nlink, 0);
	EQ(write(fd, "text", 4), 4);
}

CASE(statx_tells_what_stat_does)
{
	struct statx sx;

	make_text("file", "text");
	OK(statx(AT_FDCWD, "file", AT_STATX_FORCE_SYNC, STATX_BASIC_STATS, &sx));
	struct stat st = stat_of("file");

	EQ(sx.stx_mask & STATX_BASIC_STATS, STATX_BASIC_STATS);
	EQ(sx.stx_size, 4);
	EQ(sx.stx_ino, st.st_ino);
	EQ(sx.stx_mode, st.st_mode);
	EQ(sx.stx_mtime.tv_nsec, st.st_mtim.tv_nsec);
	OK(statx(AT_FDCWD, "file", AT_STATX_DONT_SYNC, STATX_BASIC_STATS, &sx));
	EQ(sx.stx_size, 4);
}
