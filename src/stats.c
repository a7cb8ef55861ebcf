/* SPDX-License-Identifier: MIT */
#include "stats.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

struct stats_file {
	void *map;
	size_t bytes;
	char path[512]; /* "": there is no file */
	char dir[256];
	ino_t inode; /* its number: the name may become another's */
};

const char *stats_dir(unsigned int which, char *buf, size_t size)
{
	const char *base = which == 0 ? "/run" : getenv("XDG_RUNTIME_DIR");
	if (which > 1 || !base || base[0] != '/' || (size_t)snprintf(buf, size, "%s/nfsrdma", base) >= size)
		return NULL;
	return buf;
}

/* FNV-1a over all names in their order, and the size. */
uint64_t stats_layout(void)
{
	static const char names[] =
#define X(name, help) #name " "
		RPCRDMA_STATS(X) FMRPOOL_STATS(X) FUSE_STATS(X) RPCRDMA_KIND_STATS(X)
#undef X
#define X(number, NAME, name, args, reply, payload, idempotent) #NAME " "
			ALL_PROCS(X);
#undef X
	uint64_t h = 0xcbf29ce484222325u ^ sizeof(struct lane_stats) ^ sizeof(struct stats_header) << 32;

	for (size_t i = 0; i < sizeof names; i++)
		h = (h ^ (unsigned char)names[i]) * 0x100000001b3u;
	return h;
}

uint64_t stats_pid_namespace(void)
{
	struct stat st;
	return stat("/proc/self/ns/pid", &st) ? 0 : (uint64_t)st.st_ino;
}

/* An empty file of the right size under a name that only this process uses, or -errno. */
static int make_file(struct stats_file *file)
{
	if (!stats_dir(geteuid() == 0 ? 0 : 1, file->dir, sizeof file->dir))
		return -ENOENT;
	if (mkdir(file->dir, 0755) && errno != EEXIST)
		return -errno;
	snprintf(file->path, sizeof file->path, "%s/.starting.%d", file->dir, (int)getpid());
	unlink(file->path);
	int fd = open(file->path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0644);
	if (fd < 0) {
		file->path[0] = '\0';
		return -errno;
	}
	struct stat st;
	int err = fstat(fd, &st) ? errno : posix_fallocate(fd, 0, (off_t)file->bytes);
	file->inode = st.st_ino;
	if (err) {
		unlink(file->path);
		file->path[0] = '\0';
		close(fd);
		return -err;
	}
	return fd;
}

int stats_create(unsigned int nlanes, struct stats_file **out)
{
	struct stats_file *file = calloc(1, sizeof *file);
	if (!file)
		return -ENOMEM;
	file->bytes = sizeof(struct stats_header) + nlanes * sizeof(struct lane_stats);
	file->map = mmap(NULL, file->bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (file->map == MAP_FAILED) {
		free(file);
		return -ENOMEM;
	}
	struct stats_header *h = file->map;
	h->version = STATS_VERSION;
	h->nlanes = nlanes;
	h->lane_offset = sizeof *h;
	h->lane_bytes = sizeof(struct lane_stats);
	h->layout = stats_layout();
	h->pid = (uint64_t)getpid();
	h->pid_namespace = stats_pid_namespace();
	h->started_s = (uint64_t)time(NULL);
	memcpy(h->magic, STATS_MAGIC, sizeof h->magic);
	*out = file;
	return 0;
}

struct stats_header *stats_header(struct stats_file *file)
{
	return file->map;
}

struct lane_stats *stats_lane(struct stats_file *file, unsigned int lane)
{
	return (struct lane_stats *)((char *)file->map + sizeof(struct stats_header)) + lane;
}

/* Puts the file where the private memory was, with what has been counted so far. */
static int move_into(struct stats_file *file, int fd)
{
	ssize_t n = pwrite(fd, file->map, file->bytes, 0);
	if (n != (ssize_t)file->bytes)
		return n < 0 ? -errno : -ENOSPC;
	if (mmap(file->map, file->bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0) == MAP_FAILED)
		return -errno;
	return 0;
}

int stats_publish(struct stats_file *file, unsigned int major, unsigned int minor)
{
	char path[sizeof file->path];
	int fd = make_file(file);
	if (fd < 0)
		return fd;
	int err = move_into(file, fd);
	close(fd);
	snprintf(path, sizeof path, "%s/%u:%u", file->dir, major, minor);
	if (!err && rename(file->path, path))
		err = -errno;
	if (err)
		unlink(file->path);
	snprintf(file->path, sizeof file->path, "%s", err ? "" : path);
	return err;
}

/* A daemon may outlive its mount, whose device number another mount then has, and with it this name. */
static bool name_is_ours(const struct stats_file *file)
{
	struct stat st;
	return file->path[0] && lstat(file->path, &st) == 0 && st.st_ino == file->inode;
}

void stats_remove(struct stats_file *file)
{
	if (!file)
		return;
	if (name_is_ours(file))
		unlink(file->path);
	munmap(file->map, file->bytes);
	free(file);
}
