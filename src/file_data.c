/* SPDX-License-Identifier: MIT */
#include "file_data.h"

#include <assert.h>

void file_data_init(struct file_data *fd)
{
	pthread_mutex_init(&fd->lock, NULL);
}

void file_data_fini(struct file_data *fd)
{
	assert(dirty_none(&fd->dirty));
	pthread_mutex_destroy(&fd->lock);
}

uint64_t file_data_pending_end(struct file_data *fd, bool *unanswered)
{
	pthread_mutex_lock(&fd->lock);
	uint64_t end = fd->dirty.pending_end;
	*unanswered = dirty_unanswered(&fd->dirty, UINT64_MAX);
	pthread_mutex_unlock(&fd->lock);
	return end;
}
