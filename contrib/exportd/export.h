/* SPDX-License-Identifier: MIT
 *
 * An exported directory: from an object to its handle and back, never leading outside of it.
 *
 * Names are opened with openat2(2) beneath a directory that is known to lie in the export, through no
 * symbolic link and across no mount point: the directory may hold the very mount that is served from it, and
 * a look at that from here would wait for ourselves. So nothing here, or above, ever opens, stats or names
 * what is mounted below.
 *
 * Objects are held by O_PATH descriptors: they carry no access, so permissions are asked of the kernel when
 * something is done, as the caller.
 */
#ifndef EXPORTD_EXPORT_H
#define EXPORTD_EXPORT_H

#include "handle.h"
#include "paths.h"

#include <stdbool.h>

struct export
{
	char *path; /* absolute, as clients name it */
	int root;   /* O_RDONLY, for open_by_handle_at; owned */
	struct object_id root_id;
	uint32_t id;	     /* in handles: a keyed hash of path, so that it is the same after a restart */
	const uint8_t *key;  /* the server's; lent */
	struct paths *paths; /* NULL: handles are the kernel's */
	const char *no_handles_why; /* why not, where paths is used */
};

int export_open(struct export *x, const char *dir, const uint8_t key[SIPHASH_KEY_BYTES]);
void export_close(struct export *x);

/* One component below dir, by openat2. -EXDEV: a mount point; -ELOOP: a symbolic link where flags wanted
 * none. */
int open_beneath(int dir, const char *name, int flags, mode_t mode);

/* fd's handle. parent and name say where it was just found; NULL for "..", whose place is known already. */
int export_fh(const struct export *x, int fd, const struct stat *st, int parent, const char *name,
	      struct fh *fh);
/* The object of a handle of ours as an O_PATH descriptor, opened with the rights of the server. -ESTALE. */
int export_open_fh(const struct export *x, const struct fh_body *body);
/* The parent of a directory of the export; the root's is the root. */
int export_open_parent(const struct export *x, int dir);
bool export_is_root(const struct export *x, const struct stat *st);

#endif
