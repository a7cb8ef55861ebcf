/* SPDX-License-Identifier: MIT
 *
 * What an inode holds for its file's data; embedded in struct inode as `data`. The operations on it are in
 * data.h; this header knows neither FUSE nor lanes, so that the inode table does not either.
 */
#ifndef FILE_DATA_H
#define FILE_DATA_H

#include "dirty.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct inode;
struct op;

struct file_data {
	pthread_mutex_t lock; /* covers everything here but `opens` and `server_locks`; held for a few
				 instructions only */
	struct dirty dirty;
	/* Data that was lost after its write(2) had returned: the latest reason (-errno), how often, and
	 * whether an fsync or close has told of the latest. Each open file is told, see data_lost(). */
	int error;
	unsigned int errors;
	bool error_told;
	bool commit_running;	  /* one COMMIT of a file at a time */
	struct op *drainers;	  /* who waits until the server has been told what was written */
	struct op *syncers;	  /* fsync and close, waiting until what is dirty is stable */
	struct inode *next_dirty; /* in a lane's queue of files to commit; commit_running is set meanwhile */
	uint64_t pages_foreign;	  /* inode_foreign_changes() as of the last OPEN that looked */
	uint64_t revalidated_ns; /* when the attributes were last asked for, revalidate.h; under open_file.c's
				  * lock */
	atomic_uint opens;	 /* open files of this inode: silly rename asks */
	atomic_bool server_locks; /* somebody has asked for a lock on the server: closing has to unlock */
};

/* In zeroed memory. */
void file_data_init(struct file_data *fd);
/* When the inode goes: nothing is dirty then (dirty data holds a reference to the inode). */
void file_data_fini(struct file_data *fd);

/* End of the data that the server does not have, or that one which restarted may have lost, or 0. The size to
 * report is the larger of the server's and this. *unanswered: the server does not have all of it, so that
 * what it says of the file's times is not the last word. */
uint64_t file_data_pending_end(struct file_data *fd, bool *unanswered);

/* More than 0 makes REMOVE a silly rename. */
static inline unsigned int file_data_opens(struct file_data *fd)
{
	return atomic_load(&fd->opens);
}

#endif
