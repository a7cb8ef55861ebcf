/* SPDX-License-Identifier: MIT
 *
 * What /proc/self/mountinfo says of a mount point. The mount itself is never touched, so this works while it
 * hangs.
 */
#ifndef MOUNTINFO_H
#define MOUNTINFO_H

#include <stdbool.h>
#include <stddef.h>

struct mountinfo {
	unsigned int major, minor;
	char type[64];	  /* "fuse.nfsrdma" */
	char source[512]; /* "server:/export" */
};

/* The topmost mount at the path (absolute, no symbolic links, as mountinfo writes it once unescaped). False:
 * nothing is mounted there. */
bool mountinfo_find(const char *path, struct mountinfo *info);

/* One line's fields, for tests. False: not such a line. path gets the mount point. */
bool mountinfo_parse(char *line, char *path, size_t path_size, struct mountinfo *info);

#endif
