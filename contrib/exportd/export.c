/* SPDX-License-Identifier: MIT */
#include "export.h"
#include "cred.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#define PATHS_ENTRIES (512 * 1024) /* about 130 bytes each with the name: 64 MiB when full */
#define DEPTH_MAX 4096

struct kernel_handle {
	struct file_handle fh;
	uint8_t bytes[FH_BODY_MAX_BYTES];
};

static int openat2_(int dir, const char *path, uint64_t flags, mode_t mode, uint64_t resolve)
{
	struct open_how how = {.flags = flags | O_CLOEXEC, .mode = mode, .resolve = resolve};
	int fd;
	/* EAGAIN: a rename somewhere made ".." or the beneath check undecidable; the kernel asks to try
	 * again. */
	do {
		fd = (int)syscall(SYS_openat2, dir, path, &how, sizeof how);
	} while (fd < 0 && (errno == EAGAIN || errno == EINTR));
	return fd < 0 ? -errno : fd;
}

int open_beneath(int dir, const char *name, int flags, mode_t mode)
{
	return openat2_(dir, name, (uint64_t)flags, mode,
			RESOLVE_BENEATH | RESOLVE_NO_XDEV | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS);
}

/* One level up, unbounded by the export: the caller checks. */
static int open_dotdot(int dir)
{
	return openat2_(dir, "..", O_PATH | O_DIRECTORY, 0, RESOLVE_NO_XDEV | RESOLVE_NO_SYMLINKS);
}

static int identify(int fd, struct object_id *id)
{
	struct statx sx;
	if (statx(fd, "", AT_EMPTY_PATH, STATX_INO | STATX_BTIME, &sx) < 0)
		return -errno;
	*id = (struct object_id){
		.dev = (uint64_t)sx.stx_dev_major << 32 | sx.stx_dev_minor,
		.ino = sx.stx_ino,
	};
	if (sx.stx_mask & STATX_BTIME)
		id->birth_ns = (uint64_t)sx.stx_btime.tv_sec * 1000000000 + sx.stx_btime.tv_nsec;
	return 0;
}

static bool same(const struct object_id *a, const struct object_id *b)
{
	return memcmp(a, b, sizeof *a) == 0;
}

bool export_is_root(const struct export *x, const struct stat *st)
{
	return st->st_ino == x->root_id.ino &&
	       ((uint64_t)major(st->st_dev) << 32 | minor(st->st_dev)) == x->root_id.dev;
}

/* Whether dir is the root or lies below it: walks up until it meets the root, or the end. */
static int contains(const struct export *x, int dir)
{
	struct object_id id;
	int fd = dir, err = 0;
	for (int depth = 0; depth < DEPTH_MAX; depth++) {
		struct object_id above = id;
		err = identify(fd, &id);
		if (err || same(&id, &x->root_id))
			break;
		if (depth > 0 && same(&id, &above)) {
			err = -ESTALE; /* the root of the file system: not below our root */
			break;
		}
		int up = open_dotdot(fd);
		if (fd != dir)
			close(fd);
		if (up < 0)
			return -ESTALE;
		fd = up;
	}
	if (fd != dir)
		close(fd);
	return err || !same(&id, &x->root_id) ? -ESTALE : 0;
}

int export_open_parent(const struct export *x, int dir)
{
	struct object_id id;
	int err = identify(dir, &id);
	if (err)
		return err;
	if (same(&id, &x->root_id))
		return fcntl(dir, F_DUPFD_CLOEXEC, 0);
	int up = open_dotdot(dir);
	if (up < 0)
		return up;
	/* Only now: dir may have been moved out of the export meanwhile. */
	struct cred_hold held = cred_raise();
	err = contains(x, up);
	cred_lower(held);
	if (err) {
		close(up);
		return err;
	}
	return up;
}

static int kernel_fh(int fd, struct fh_body *body)
{
	struct kernel_handle h = {.fh.handle_bytes = sizeof h.bytes};
	int mount_id;
	if (name_to_handle_at(fd, "", &h.fh, &mount_id, AT_EMPTY_PATH) < 0)
		return -errno;
	if (h.fh.handle_type < 0 || h.fh.handle_type > UINT16_MAX)
		return -EOVERFLOW;
	body->kind = FH_KERNEL;
	body->type = (uint16_t)h.fh.handle_type;
	body->len_bytes = (uint8_t)h.fh.handle_bytes;
	memcpy(body->bytes, h.fh.f_handle, body->len_bytes);
	return 0;
}

static int table_fh(const struct export *x, int fd, int parent, const char *name, struct fh_body *body)
{
	struct object_id id, parent_id;
	static_assert(sizeof id <= sizeof body->bytes, "an identity fits a handle");
	int err = identify(fd, &id);
	if (!err && name)
		err = identify(parent, &parent_id);
	if (!err && name)
		err = paths_record(x->paths, &id, &parent_id, name);
	if (err)
		return err;
	body->kind = FH_TABLE;
	body->len_bytes = sizeof id;
	memcpy(body->bytes, &id, sizeof id);
	return 0;
}

int export_fh(const struct export *x, int fd, const struct stat *st, int parent, const char *name,
	      struct fh *fh)
{
	struct fh_body body = {.kind = FH_ROOT, .export_id = x->id};
	int err = 0;
	/* The root has one handle, by whatever way it is reached: a client compares handles. */
	if (!export_is_root(x, st))
		err = x->paths ? table_fh(x, fd, parent, name, &body) : kernel_fh(fd, &body);
	return err ? err : fh_seal(x->key, &body, fh);
}

static int open_kernel(const struct export *x, const struct fh_body *body)
{
	struct kernel_handle h = {.fh = {.handle_bytes = body->len_bytes, .handle_type = body->type}};
	struct stat st;
	memcpy(h.fh.f_handle, body->bytes, body->len_bytes);
	int fd = open_by_handle_at(x->root, &h.fh, O_PATH | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0)
		return errno == EMFILE || errno == ENFILE || errno == ENOMEM ? -errno : -ESTALE;
	/* A directory knows its place, and may have been moved out of the export. What is no directory may
	 * have names in several places; that the handle was given out says that it had one in here. */
	int err = fstat(fd, &st) < 0 ? -errno : 0;
	if (!err && S_ISDIR(st.st_mode))
		err = contains(x, fd);
	if (err) {
		close(fd);
		return err;
	}
	return fd;
}

static int open_table(const struct export *x, const struct fh_body *body)
{
	struct object_id id, found;
	char buf[PATH_MAX];
	const char *path;
	if (!x->paths || body->len_bytes != sizeof id)
		return -ESTALE;
	memcpy(&id, body->bytes, sizeof id);
	int err = paths_find(x->paths, &id, &x->root_id, buf, sizeof buf, &path);
	if (err)
		return err;
	int fd = open_beneath(x->root, path, O_PATH | O_NOFOLLOW, 0);
	if (fd < 0)
		return fd == -EMFILE || fd == -ENFILE || fd == -ENOMEM ? fd : -ESTALE;
	err = identify(fd, &found);
	if (err || !same(&id, &found)) {
		close(fd);
		return -ESTALE;
	}
	return fd;
}

int export_open_fh(const struct export *x, const struct fh_body *body)
{
	struct cred_hold held = cred_raise();
	int fd = -ESTALE;
	switch (body->kind) {
	case FH_ROOT:
		fd = open_beneath(x->root, ".", O_PATH | O_DIRECTORY, 0);
		break;
	case FH_KERNEL:
		/* Not in table mode: a handle from before may name anything in the file system by now. */
		fd = x->paths ? -ESTALE : open_kernel(x, body);
		break;
	case FH_TABLE:
		fd = open_table(x, body);
		break;
	}
	cred_lower(held);
	return fd;
}

/* Tries what will be needed: a handle of the root, and the root by that handle. */
static const char *why_no_handles(int root)
{
	struct fh_body body = {.kind = FH_KERNEL};
	int err = kernel_fh(root, &body);
	if (err == -EOPNOTSUPP)
		return "its file system has no handles";
	if (err)
		return "handles of its file system are too long";
	struct kernel_handle h = {.fh = {.handle_bytes = body.len_bytes, .handle_type = body.type}};
	memcpy(h.fh.f_handle, body.bytes, body.len_bytes);
	int fd = open_by_handle_at(root, &h.fh, O_PATH | O_CLOEXEC);
	if (fd < 0)
		return errno == EPERM ? "opening by handle needs CAP_DAC_READ_SEARCH"
				      : "its file system cannot open by handle";
	close(fd);
	return NULL;
}

int export_open(struct export *x, const char *dir, const uint8_t key[SIPHASH_KEY_BYTES])
{
	*x = (struct export){.key = key, .root = -1};
	int err;
	x->path = realpath(dir, NULL);
	if (!x->path)
		return -errno;
	x->root = open(x->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (x->root < 0) {
		err = -errno;
		goto close;
	}
	err = identify(x->root, &x->root_id);
	if (err)
		goto close;
	x->id = (uint32_t)siphash64(key, x->path, strlen(x->path));
	x->no_handles_why = why_no_handles(x->root);
	if (x->no_handles_why && !(x->paths = paths_create(PATHS_ENTRIES))) {
		err = -ENOMEM;
		goto close;
	}
	return 0;
close:
	export_close(x);
	return err;
}

void export_close(struct export *x)
{
	paths_destroy(x->paths);
	if (x->root >= 0)
		close(x->root);
	free(x->path);
	*x = (struct export){.root = -1};
}
