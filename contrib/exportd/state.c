/* SPDX-License-Identifier: MIT */
#include "state.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#define KEY_NAME "key"

static int complain(const char *what, const char *path, int err)
{
	fprintf(stderr, "nfsrdma-exportd: %s %s: %s (--state DIR chooses another place)\n", what, path,
		strerror(-err));
	return err;
}

static int default_dir(char dir[PATH_MAX])
{
	const char *base = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
	int n;
	if (geteuid() == 0)
		n = snprintf(dir, PATH_MAX, "/var/lib/nfsrdma-exportd");
	else if (base && *base == '/')
		n = snprintf(dir, PATH_MAX, "%s/nfsrdma-exportd", base);
	else if (home && *home == '/')
		n = snprintf(dir, PATH_MAX, "%s/.local/state/nfsrdma-exportd", home);
	else
		return -ENOENT;
	return n < PATH_MAX ? 0 : -ENAMETOOLONG;
}

static int make_dirs(const char *dir)
{
	char path[PATH_MAX];
	if (strlen(dir) >= sizeof path)
		return -ENAMETOOLONG;
	strcpy(path, dir);
	for (char *p = strchr(path + 1, '/'); p; p = strchr(p + 1, '/')) {
		*p = 0;
		mkdir(path, 0755);
		*p = '/';
	}
	return mkdir(path, 0700) < 0 && errno != EEXIST ? -errno : 0;
}

/* -ENOENT: there is none. */
static int key_read(int dir, uint8_t key[SIPHASH_KEY_BYTES])
{
	struct stat st;
	int fd = openat(dir, KEY_NAME, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	int err = 0;
	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_uid != geteuid() || (st.st_mode & 077))
		err = -EPERM; /* others know it, or could have put it there */
	else if (read(fd, key, SIPHASH_KEY_BYTES) != SIPHASH_KEY_BYTES)
		err = -EBADMSG;
	close(fd);
	return err;
}

/* Whole or not at all: written aside, then linked. Another server may have been faster: then its
 * key counts. */
static int key_make(int dir)
{
	uint8_t key[SIPHASH_KEY_BYTES];
	char name[32];
	snprintf(name, sizeof name, KEY_NAME ".%d", (int)getpid());
	int fd = openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return -errno;
	int err = 0;
	if (getrandom(key, sizeof key, 0) != sizeof key || write(fd, key, sizeof key) != sizeof key ||
	    fsync(fd) < 0)
		err = errno ? -errno : -EIO;
	else if (linkat(dir, name, dir, KEY_NAME, 0) < 0 && errno != EEXIST)
		err = -errno;
	unlinkat(dir, name, 0);
	close(fd);
	return err;
}

int state_key(const char *dir, uint8_t key[SIPHASH_KEY_BYTES])
{
	char path[PATH_MAX];
	if (!dir) {
		int err = default_dir(path);
		if (err)
			return complain("no place for", "the key of file handles", err);
		dir = path;
	}
	int err = make_dirs(dir);
	if (err)
		return complain("cannot make", dir, err);
	int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return complain("cannot open", dir, -errno);
	err = key_read(fd, key);
	if (err == -ENOENT) {
		err = key_make(fd);
		if (!err)
			err = key_read(fd, key);
	}
	close(fd);
	return err ? complain("cannot use the key of file handles in", dir, err) : 0;
}
