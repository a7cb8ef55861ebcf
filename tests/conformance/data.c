/* SPDX-License-Identifier: MIT
 *
 * Data: read(2), write(2), truncate(2), mmap(2), files without a name, holes, and the ends of what can be
 * said.
 */
#include "check.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/uio.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>

static int new_file(int flags)
{
	return (int)OK(open("file", O_RDWR | O_CREAT | flags, 0644));
}

static off_t size_of(int fd)
{
	struct stat st;

	OK(fstat(fd, &st));
	return st.st_size;
}

static bool all_zero(const char *data, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if (data[i])
			return false;
	return true;
}

/* ---- read, write ---- */

CASE(read_at_the_end)
{
	char got[10];
	int fd = new_file(0);

	EQ(read(fd, got, 10), 0);
	EQ(write(fd, "12345", 5), 5);
	EQ(pread(fd, got, 10, 3), 2);
	EQ(pread(fd, got, 10, 5), 0);
	EQ(pread(fd, got, 10, 1000), 0);
	EQ(pread(fd, got, 0, 0), 0);
	FAILS(pread(fd, got, 1, -1), EINVAL);
	FAILS(pwrite(fd, got, 1, -1), EINVAL);
	EQ(lseek(fd, -2, SEEK_END), 3);
	EQ(read(fd, got, 10), 2);
	IS(memcmp(got, "45", 2) == 0);
	FAILS(lseek(fd, -1, SEEK_SET), EINVAL);
}

CASE(write_beyond_the_end_leaves_zeros)
{
	static char got[100000];
	int fd = new_file(0);

	EQ(write(fd, "start", 5), 5);
	EQ(pwrite(fd, "end", 3, 99997), 3);
	EQ(size_of(fd), 100000);
	EQ(pread(fd, got, sizeof got, 0), sizeof got);
	IS(memcmp(got, "start", 5) == 0);
	IS(all_zero(got + 5, 99992));
	IS(memcmp(got + 99997, "end", 3) == 0);
}

CASE(readv_and_writev)
{
	char a[3], b[5000], c[7];
	int fd = new_file(0);
	struct iovec out[] = {{(char *)(uintptr_t) "abc", 3},
			      {b, sizeof b},
			      {(char *)(uintptr_t) "1234567", 7}},
		     in[] = {{c, 7}, {b, sizeof b}, {a, 3}};

	memset(b, 'b', sizeof b);
	EQ(writev(fd, out, 3), 5010);
	EQ(preadv(fd, in, 3, 0), 5010);
	IS(memcmp(c, "abcbbbb", 7) == 0);
	IS(memcmp(a, "567", 3) == 0);
}

CASE(write_many_sizes)
{
	static char data[300000], got[300000];
	int fd = new_file(0);
	off_t at = 0;

	for (size_t i = 0; i < sizeof data; i++)
		data[i] = (char)(i * 31 + i / 251);
	for (size_t len = 1; at + (off_t)len <= (off_t)sizeof data; len = len * 3 / 2 + 1) {
		EQ(write(fd, data + at, len), len);
		at += (off_t)len;
	}
	EQ(size_of(fd), at);
	EQ(pread(fd, got, sizeof got, 0), at);
	IS(memcmp(got, data, (size_t)at) == 0);
	OK(close(fd));
	fd = (int)OK(open("file", O_RDONLY));
	EQ(read(fd, got, sizeof got), at);
	IS(memcmp(got, data, (size_t)at) == 0);
}

CASE(write_is_seen_by_other_descriptors)
{
	char got[8];
	int a = new_file(0), b = (int)OK(open("file", O_RDWR)), c = (int)OK(dup(a));

	for (int i = 0; i < 50; i++) {
		char text[8];

		snprintf(text, sizeof text, "%06d", i);
		EQ(pwrite(i % 2 ? a : b, text, 6, i * 4000), 6);
		EQ(pread(i % 2 ? b : a, got, 6, i * 4000), 6);
		IS(memcmp(got, text, 6) == 0);
	}
	EQ(lseek(a, 77, SEEK_SET), 77);
	EQ(lseek(c, 0, SEEK_CUR), 77);
	EQ(lseek(b, 0, SEEK_CUR), 0);
}

CASE(sync_calls)
{
	int fd = new_file(0);

	EQ(write(fd, "text", 4), 4);
	OK(fsync(fd));
	OK(fdatasync(fd));
	OK(syncfs(fd));
	OK(close(fd));
	fd = new_file(O_SYNC);
	EQ(pwrite(fd, "more", 4, 4), 4);
	OK(close(fd));
	fd = new_file(O_DSYNC);
	EQ(pwrite(fd, "most", 4, 8), 4);
	OK(close(fd));
	HOLDS("file", "textmoremost");
	EQ(posix_fadvise(fd = new_file(0), 0, 0, POSIX_FADV_DONTNEED), 0);
	HOLDS("file", "textmoremost");
}

/* ---- O_APPEND ---- */

CASE(append_goes_to_the_end)
{
	char got[16];
	int fd = new_file(O_APPEND), other = (int)OK(open("file", O_WRONLY));

	EQ(write(fd, "one", 3), 3);
	EQ(pwrite(other, "two", 3, 3), 3);
	OK(lseek(fd, 0, SEEK_SET));
	EQ(write(fd, "three", 5), 5);
	EQ(lseek(fd, 0, SEEK_CUR), 11);
	EQ(pread(fd, got, sizeof got, 0), 11);
	IS(memcmp(got, "onetwothree", 11) == 0);
	OK(ftruncate(other, 3));
	EQ(write(fd, "four", 4), 4);
	EQ(pread(fd, got, sizeof got, 0), 7);
	IS(memcmp(got, "onefour", 7) == 0);
	OK(fcntl(other, F_SETFL, O_APPEND));
	OK(lseek(other, 0, SEEK_SET));
	EQ(write(other, "five", 4), 4);
	EQ(size_of(fd), 11);
}

CASE(append_from_several_processes)
{
	enum { WRITERS = 4, RECORDS = 100 };
	char record[64];
	int seen[WRITERS] = {0};

	OK(close(new_file(0)));
	for (int w = 0; w < WRITERS; w++) {
		if (check_fork())
			continue;
		int fd = (int)OK(open("file", O_WRONLY | O_APPEND));

		memset(record, 'a' + w, sizeof record);
		for (int i = 0; i < RECORDS; i++)
			EQ(write(fd, record, sizeof record), sizeof record);
		_exit(0);
	}
	for (int w = 0; w < WRITERS; w++)
		check_wait(-1);
	int fd = (int)OK(open("file", O_RDONLY));

	EQ(size_of(fd), (off_t)sizeof record * WRITERS * RECORDS);
	while (read(fd, record, sizeof record) == sizeof record) {
		for (size_t i = 1; i < sizeof record; i++)
			EQ(record[i], record[0]);
		IS(record[0] >= 'a' && record[0] < 'a' + WRITERS);
		seen[record[0] - 'a']++;
	}
	for (int w = 0; w < WRITERS; w++)
		EQ(seen[w], RECORDS);
}

/* ---- truncate ---- */

CASE(truncate_shrinks_and_grows)
{
	static char got[20000];
	int fd = new_file(0);

	memset(got, 'x', sizeof got);
	EQ(write(fd, got, 10000), 10000);
	struct stat was = before("file");

	OK(truncate("file", 5000));
	CHANGED("file", was, MTIME | CTIME);
	EQ(size_of(fd), 5000);
	EQ(pread(fd, got, sizeof got, 0), 5000);
	OK(ftruncate(fd, 20000));
	EQ(stat_of("file").st_size, 20000);
	EQ(pread(fd, got, sizeof got, 0), 20000);
	IS(got[4999] == 'x');
	IS(all_zero(got + 5000, 15000));
	OK(ftruncate(fd, 0));
	EQ(pread(fd, got, sizeof got, 0), 0);
}

/* POSIX: ftruncate() marks the times whatever the size was; truncate() when the size changes. */
CASE(ftruncate_to_the_same_size_changes_times)
{
	make_text("file", "text");
	struct stat was = before("file");
	int fd = (int)OK(open("file", O_RDWR));

	OK(ftruncate(fd, 4));
	CHANGED("file", was, MTIME | CTIME);
	was = before("file");
	OK(ftruncate(fd, 9));
	CHANGED("file", was, MTIME | CTIME);
	was = before("file");
	FAILS(ftruncate(fd, -1), EINVAL);
	UNCHANGED("file", was);
	EQ(stat_of("file").st_size, 9);
}

CASE(truncate_of_what_is_no_file)
{
	for (enum kind k = 0; k < KINDS; k++) {
		if (!kind_possible(k))
			continue;
		check_about(kind_names[k]);
		make_kind(kind_names[k], k);
		if (k == KIND_FILE)
			FAILS(truncate(kind_names[k], -1), EINVAL);
		else
			FAILS(truncate(kind_names[k], 0), k == KIND_DIR	      ? EISDIR
							  : k == KIND_SYMLINK ? ENOENT
									      : EINVAL);
	}
}

ROOT_CASE(truncate_needs_write_permission)
{
	make_text("file", "text");
	OK(chown("file", alice.uid, alice.gid));
	OK(chmod("file", 0444));
	struct stat was = before("file");

	AS(&alice)
	FAILS(truncate("file", 0), EACCES);
	AS(&bob)
	FAILS(truncate("file", 0), EACCES);
	UNCHANGED("file", was);
	OK(chmod("file", 0222));
	AS(&bob)
	OK(truncate("file", 2));
	EQ(stat_of("file").st_size, 2);
}

/* ---- mmap ---- */

CASE(mmap_shared_and_read_and_write)
{
	char got[8];
	int fd = new_file(0);

	OK(ftruncate(fd, 10000));
	char *map = mmap(NULL, 10000, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	IS(map != MAP_FAILED);
	EQ(pwrite(fd, "by write", 8, 4094), 8);
	IS(memcmp(map + 4094, "by write", 8) == 0);
	memcpy(map + 8190, "by mmap", 7);
	EQ(pread(fd, got, 7, 8190), 7);
	IS(memcmp(got, "by mmap", 7) == 0);
	OK(close(fd));
	map[0] = 'm';
	OK(msync(map, 10000, MS_SYNC));
	fd = (int)OK(open("file", O_RDONLY));
	EQ(pread(fd, got, 1, 0), 1);
	EQ(got[0], 'm');
	map[1] = 'n'; /* and what munmap finds dirty gets there, too */
	OK(munmap(map, 10000));
	EQ(pread(fd, got, 2, 0), 2);
	EQ(got[1], 'n');
}

CASE(mmap_private_stays_private)
{
	make_text("file", "text");
	int fd = (int)OK(open("file", O_RDONLY));
	char *map = mmap(NULL, 4, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);

	IS(map != MAP_FAILED);
	memcpy(map, "TEXT", 4);
	OK(munmap(map, 4));
	HOLDS("file", "text");
	IS(mmap(NULL, 4, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) == MAP_FAILED && errno == EACCES);
	fd = (int)OK(open("file", O_WRONLY));
	IS(mmap(NULL, 4, PROT_READ, MAP_SHARED, fd, 0) == MAP_FAILED && errno == EACCES);
}

/* The rest of the last page reads as zeros, and what is stored there never becomes part of the file. */
CASE(mmap_beyond_the_end)
{
	char got[16];
	int fd = new_file(0);
	struct statfs fs;

	EQ(write(fd, "text", 4), 4);
	char *map = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	IS(map != MAP_FAILED);
	IS(all_zero(map + 4, 4092));
	memset(map + 4, 'x', 100);
	OK(msync(map, 4096, MS_SYNC));
	EQ(size_of(fd), 4);
	OK(munmap(map, 4096));
	OK(fstatfs(fd, &fs));
	if (fs.f_type == TMPFS_MAGIC)
		check_skip("tmpfs keeps what is stored behind the end, against POSIX");
	OK(ftruncate(fd, 16));
	EQ(pread(fd, got, 16, 0), 16);
	IS(all_zero(got + 4, 12));
}

CASE(mmap_after_truncate)
{
	int fd = new_file(0), status;
	char *map;

	OK(ftruncate(fd, 20000));
	map = mmap(NULL, 20000, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	IS(map != MAP_FAILED);
	memset(map, 'x', 20000);
	OK(ftruncate(fd, 4096));
	pid_t pid = check_fork();

	if (pid == 0) {
		setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
		_exit(map[8192]);
	}
	OK(waitpid(pid, &status, 0));
	IS(WIFSIGNALED(status) && WTERMSIG(status) == SIGBUS);
	OK(ftruncate(fd, 20000));
	IS(map[4095] == 'x');
	IS(all_zero(map + 4096, 20000 - 4096));
}

CASE(mmap_between_processes)
{
	int fd = new_file(0);

	OK(ftruncate(fd, 8192));
	volatile char *map = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	pid_t pid = check_fork();

	if (pid == 0) {
		int own = (int)OK(open("file", O_RDWR));
		volatile char *m = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, own, 0);

		while (m[0] != 1)
			;
		m[5000] = 2;
		_exit(0);
	}
	map[0] = 1;
	check_wait(pid);
	EQ(map[5000], 2);
}

/* ---- O_DIRECT ---- */

/* Sizes and places that are no multiple of a block work, or give EINVAL; never other data. */
CASE(direct_unaligned)
{
	static char data[100000], got[100000];
	int plain = new_file(0), fd = open("file", O_RDWR | O_DIRECT);

	if (fd < 0 && errno == EINVAL)
		check_skip("no O_DIRECT here");
	OK(fd);
	for (size_t i = 0; i < sizeof data; i++)
		data[i] = (char)(i * 7 + i / 256);
	EQ(write(plain, data, sizeof data), sizeof data);
	OK(fsync(plain));
	for (size_t i = 0; i < 40; i++) {
		size_t len = 1 + i * 1237 % 9000, at = i * 2311 % 90000;

		memset(data + at, (int)i, len);
		if (!MAY(pwrite(fd, data + at, len, (off_t)at), EINVAL))
			EQ(pwrite(plain, data + at, len, (off_t)at), len);
		if (MAY(pread(fd, got, len, (off_t)at), EINVAL))
			IS(memcmp(got, data + at, len) == 0);
		EQ(pread(plain, got, len, (off_t)at), len);
		IS(memcmp(got, data + at, len) == 0);
	}
	EQ(pread(plain, got, sizeof got, 0), sizeof got);
	IS(memcmp(got, data, sizeof data) == 0);
}

CASE(direct_and_the_end)
{
	char *block = aligned_alloc(4096, 8192);
	int fd = open("file", O_RDWR | O_CREAT | O_DIRECT, 0644);

	IS(block != NULL);
	if (fd < 0 && errno == EINVAL)
		check_skip("no O_DIRECT here");
	OK(fd);
	memset(block, 'x', 8192);
	EQ(pwrite(fd, block, 8192, 0), 8192);
	EQ(size_of(fd), 8192);
	EQ(pread(fd, block, 8192, 4096), 4096);
	EQ(pread(fd, block, 8192, 8192), 0);
	OK(ftruncate(fd, 4100));
	EQ(pread(fd, block, 8192, 4096), 4);
	EQ(pwrite(fd, block, 4096, 1 << 20), 4096);
	EQ(size_of(fd), (1 << 20) + 4096);
	EQ(pread(fd, block, 8192, 8192), 8192);
	IS(all_zero(block, 8192));
	free(block);
}

/* ---- holes ---- */

CASE(hole_reads_as_zeros_and_takes_no_room)
{
	static char got[65536];
	int fd = new_file(0);

	EQ(pwrite(fd, "x", 1, 100 << 20), 1);
	OK(fsync(fd));
	EQ(pread(fd, got, sizeof got, 50 << 20), sizeof got);
	IS(all_zero(got, sizeof got));
	struct stat st = stat_of("file");

	EQ(st.st_size, (100 << 20) + 1);
	IS(st.st_blocks < 2048); /* of 512 bytes */
}

CASE(hole_is_found_by_lseek)
{
	int fd = new_file(0);

	EQ(pwrite(fd, "x", 1, 1 << 20), 1);
	off_t data = lseek(fd, 0, SEEK_DATA), hole = lseek(fd, 1 << 20, SEEK_HOLE);

	IS(data >= 0 && data <= 1 << 20);
	IS(hole > 1 << 20 && hole <= (1 << 20) + 4096);
	FAILS(lseek(fd, (1 << 20) + 1, SEEK_DATA), ENXIO);
	FAILS(lseek(fd, (1 << 20) + 1, SEEK_HOLE), ENXIO);
}

/* ---- large offsets ---- */

CASE(offset_beyond_4_gib)
{
	static const off_t places[] = {INT32_MAX, INT32_MAX + 1ll,    UINT32_MAX,
				       1ll << 32, (1ll << 32) + 4095, (1ll << 33) + 12345};
	int fd = new_file(0);
	char got[16];

	for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
		EQ(pwrite(fd, "here", 4, places[i]), 4);
		EQ(size_of(fd), places[i] + 4);
	}
	OK(fsync(fd));
	posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
	for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
		EQ(pread(fd, got, 1, places[i]), 1);
		EQ(got[0], 'h');
	}
	EQ(pread(fd, got, 4, 1ll << 31), 4);
	EQ(pread(fd, got, 16, 0), 16);
	IS(all_zero(got, 16));
	OK(ftruncate(fd, (1ll << 32) + 1));
	EQ(stat_of("file").st_size, (1ll << 32) + 1);
	EQ(lseek(fd, 0, SEEK_END), (1ll << 32) + 1);
}

/* A file system may end earlier; it says EFBIG then, and the file is as it was. A write that is behind may be
 * refused later. */
CASE(offset_at_the_limit)
{
	int fd = new_file(0);
	char c = 'x';

	EQ(write(fd, "text", 4), 4);
	EQ(pread(fd, &c, 1, INT64_MAX - 1), 0);
	EQ(pread(fd, &c, 1, INT64_MAX - 4096), 0);
	FAILS(pread(fd, &c, 1, INT64_MAX), EINVAL, EOVERFLOW);
	FAILS(pwrite(fd, "x", 1, INT64_MAX), EFBIG, EINVAL, EOVERFLOW);
	FAILS(pwrite(fd, "xy", 2, INT64_MAX - 1), EFBIG, EINVAL, EOVERFLOW);
	EQ(size_of(fd), 4);
	FAILS(ftruncate(fd, INT64_MIN), EINVAL);
	if (MAY(ftruncate(fd, INT64_MAX), EFBIG, EINVAL))
		EQ(size_of(fd), INT64_MAX);
	else
		EQ(size_of(fd), 4);
	OK(ftruncate(fd, 4));
	if (MAY(pwrite(fd, "x", 1, INT64_MAX - 4097), EFBIG, EINVAL) && MAY(fsync(fd), EFBIG))
		EQ(size_of(fd), INT64_MAX - 4096);
	OK(ftruncate(fd, 4));
	HOLDS("file", "text");
}

CASE(offset_over_the_resource_limit)
{
	int fd = new_file(0);

	signal(SIGXFSZ, SIG_IGN);
	OK(setrlimit(RLIMIT_FSIZE, &(struct rlimit){1000, 1000}));
	EQ(pwrite(fd, "12345678", 8, 996), 4);
	FAILS(pwrite(fd, "x", 1, 1000), EFBIG);
	FAILS(ftruncate(fd, 1001), EFBIG);
	EQ(size_of(fd), 1000);
}

/* ---- files without a name ---- */

CASE(unlinked_file_lives_on)
{
	char got[16];
	int fd = new_file(0), other = (int)OK(open("file", O_RDONLY));
	struct stat st;

	EQ(write(fd, "text", 4), 4);
	OK(unlink("file"));
	IS(!exists("file"));
	OK(fstat(fd, &st));
	EQ(st.st_nlink, 0);
	EQ(st.st_size, 4);
	EQ(pwrite(fd, " and more", 9, 4), 9);
	EQ(pread(other, got, sizeof got, 0), 13);
	IS(memcmp(got, "text and more", 13) == 0);
	OK(ftruncate(fd, 6));
	EQ(size_of(other), 6);
	OK(fchmod(fd, 0600));
	OK(futimens(fd, (const struct timespec[]){{1, 2}, {3, 4}}));
	OK(fstat(other, &st));
	EQ(st.st_mode, S_IFREG | 0600);
	EQ(st.st_mtim.tv_nsec, 4);
	EQ(st.st_nlink, 0);
	OK(fsync(fd));
	/* Its name is free. */
	make_text("file", "new");
	EQ(pread(fd, got, sizeof got, 0), 6);
	HOLDS("file", "new");
	OK(close(fd));
	EQ(pread(other, got, sizeof got, 0), 6);
}

CASE(unlinked_file_has_another_name)
{
	int fd = new_file(0);
	struct stat st;

	OK(link("file", "other"));
	OK(unlink("file"));
	OK(fstat(fd, &st));
	EQ(st.st_nlink, 1);
	EQ(write(fd, "text", 4), 4);
	HOLDS("other", "text");
	OK(unlink("other"));
	OK(fstat(fd, &st));
	EQ(st.st_nlink, 0);
	EQ(pwrite(fd, "T", 1, 0), 1);
	EQ(size_of(fd), 4);
}

CASE(unlinked_file_stays_mapped)
{
	int fd = new_file(0);

	OK(ftruncate(fd, 8192));
	char *map = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	IS(map != MAP_FAILED);
	OK(unlink("file"));
	OK(close(fd));
	memset(map, 'x', 8192);
	OK(msync(map, 8192, MS_SYNC));
	OK(madvise(map, 8192, MADV_DONTNEED));
	IS(map[0] == 'x' && map[8191] == 'x');
}

CASE(unlinked_file_of_another_process)
{
	int ready[2];
	char c;

	OK(pipe(ready));
	make_text("file", "text");
	pid_t pid = check_fork();

	if (pid == 0) {
		char got[8];
		int fd = (int)OK(open("file", O_RDONLY));

		EQ(write(ready[1], "x", 1), 1);
		while (exists("file"))
			;
		EQ(pread(fd, got, sizeof got, 0), 4);
		IS(memcmp(got, "text", 4) == 0);
		_exit(0);
	}
	EQ(read(ready[0], &c, 1), 1);
	OK(unlink("file"));
	check_wait(pid);
}
