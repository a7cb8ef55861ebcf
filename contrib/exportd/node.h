/* SPDX-License-Identifier: MIT
 *
 * Objects that are in use: from a handle to an O_PATH descriptor, and to descriptors of its data, one for
 * each caller, so that a READ costs one pread and not open_by_handle_at, open and close besides.
 *
 * What may be trusted, and for how long: a data descriptor was opened with the rights of exactly the
 * credential that it is kept for, and serves it for at most FILE_AGE_MAX_S; a directory was seen to lie in
 * the export within NODE_AGE_MAX_S. What nobody uses is closed after IDLE_MAX_S, so a removed file's space
 * comes back by then at the latest; nodes_forget() is for giving it back at once.
 *
 * Any thread may call. A node is referenced from node_get() to node_put(), a file likewise; references are
 * counted under the lock of the node's shard.
 */
#ifndef EXPORTD_NODE_H
#define EXPORTD_NODE_H

#include "cred.h"
#include "export.h"

#include <stdbool.h>
#include <sys/stat.h>

#define IDLE_MAX_S 8
#define NODE_AGE_MAX_S 5
#define FILE_AGE_MAX_S 10

struct nodes;
struct node_file;

struct node {
	const struct export *export;
	int fd;	     /* O_PATH */
	mode_t type; /* S_IFMT bits: an object never changes them */
	struct fh fh;
	/* node.c's own, under the shard's lock */
	struct node_shard *shard;
	struct node *chain, *newer, *older;
	struct node_file *files;
	uint32_t refs;
	bool gone; /* in no chain any more: freed with its last reference */
	int64_t opened_s, used_s;
};

enum file_access { FILE_READ = 1, FILE_WRITE = 2 };

/* max: how many nodes at most, a third of the descriptors that there are. */
struct nodes *nodes_create(size_t max);
/* Closes what was not used for long; call about once a second. */
void nodes_sweep(struct nodes *nodes);

/* exports: where handles may lead; key: their seal. -ESTALE, -EBADF (nfs3_status_of() knows both). */
int node_get(struct nodes *nodes, const struct export *exports, size_t exports_len, const struct fh *fh,
	     struct node **node);
/* For an object that was just opened: takes fd over, also on failure. */
int node_adopt(struct nodes *nodes, const struct export *x, const struct fh *fh, int fd, mode_t mode,
	       struct node **node);
void node_put(struct node *node); /* NULL is fine */
/* -ESTALE for what has no name any more. */
int node_stat(struct node *node, struct stat *st);
/* Drops the node of a handle: later calls find out anew whether the object exists. */
void nodes_forget(struct nodes *nodes, const struct fh *fh);

/* A descriptor of a regular file's data for cred, which the thread has become. The owner of a file may always
 * read and write it, and who may execute it may read it: NFS has no open, and the mode may have changed since
 * the client's. (RFC 1813 §4.4) */
int node_file_get(struct node *node, const struct cred *cred, enum file_access access,
		  struct node_file **file, int *fd);
void node_file_put(struct node *node, struct node_file *file);
/* Gives the node a descriptor that creating it opened; takes fd over. */
void node_file_adopt(struct node *node, const struct cred *cred, enum file_access access, int fd);
/* After a change of mode or owner: access is decided anew. */
void node_files_close(struct node *node);

/* Opens /proc/self/fd, by which O_PATH descriptors are opened for data; after the last fork. */
int node_init(void);
/* Another descriptor of fd's object, O_PATH. */
int node_path_of(int fd);
/* "/proc/self/fd/N" as a path of the object itself, for the calls that have no form for O_PATH
 * descriptors. */
#define NODE_PATH_BYTES 32
const char *node_path(const struct node *node, char path[NODE_PATH_BYTES]);

#endif
