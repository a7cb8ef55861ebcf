/* SPDX-License-Identifier: MIT
 *
 * Where the objects of an export were last seen: a table from identity (device, inode, birth time) to parent
 * and name. It stands in for open_by_handle_at(2) where the file system has no handles or the server may not
 * use them. A rename made through the server moves a whole subtree by changing one entry. The table begins
 * empty with each start of the server, and whoever uses a path from it must check that it still leads to the
 * same object.
 *
 * Bounded: when it is full the entry that was recorded longest ago goes. Safe to call from any thread.
 */
#ifndef EXPORTD_PATHS_H
#define EXPORTD_PATHS_H

#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

struct object_id {
	uint64_t dev, ino;
	uint64_t birth_ns; /* tells a new object from the one whose inode number it took; 0 where unknown */
};

struct paths;

struct paths *paths_create(size_t entries); /* NULL: no memory */
void paths_destroy(struct paths *paths);
/* name is one component, terminated. -ENOMEM. */
int paths_record(struct paths *paths, const struct object_id *id, const struct object_id *parent,
		 const char *name);
/* The path below root, built at the end of buf; *path points into buf. -ESTALE: not in the table;
 * -ENAMETOOLONG. */
int paths_find(struct paths *paths, const struct object_id *id, const struct object_id *root, char *buf,
	       size_t size_bytes, const char **path);

#endif
