/* SPDX-License-Identifier: MIT
 *
 * Letting an adapter go that is taken out of the machine.
 *
 * A context is librdmacm's: it opens an adapter once for the whole process, whoever asks first, and closes it
 * only when it looks at the list of devices, does not find this one, but finds another, and no id is bound to
 * it (rdma-core 44 to 64). rxe and siw cannot part from a context that is open (they have no
 * disassociate_ucontext, Linux 6.1.192 and 6.12.117): `rdma link delete` waits in the kernel until every
 * process has closed it.
 *
 * So all endpoints and listeners of the process say here which context they use; when the last of them has
 * left one that is being removed, its descriptors are closed behind librdmacm's back: others are put in their
 * place, to which every request fails. librdmacm closes these when it next finds a new device.
 *
 * How a removal is noticed. By rdma_cm's event, where rdma_cm is told before the kernel waits for us; or by
 * the adapter's missing in sysfs, where it is not (the last to be loaded of rdma_cm and ib_uverbs is told
 * first) and where there is no id to have an event. The kernel's uevents say when to look, see news.c.
 */
#include "endpoint.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

struct context {
	struct ibv_context *verbs;
	ino_t inode; /* of its directory in sysfs, never used again; 0: it has none */
	/* Whose connection is over: as long as an id is bound to it, librdmacm does not close the context.
	 * Those that connections have serve until the first of these ends. */
	struct rdma_cm_id *holder;
	unsigned int users;
	bool removed;
	LIST_ENTRY(context) link;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* over contexts, and what they hold */
static LIST_HEAD(, context) contexts = LIST_HEAD_INITIALIZER(contexts);

static ino_t sysfs_inode(const struct ibv_context *verbs)
{
	struct stat st;

	return stat(verbs->device->dev_path, &st) == 0 ? st.st_ino : 0;
}

static struct context *find(const struct ibv_context *verbs)
{
	struct context *c;

	LIST_FOREACH(c, &contexts, link)
		if (c->verbs == verbs)
			return c;
	return NULL;
}

static struct context *find_or_add(struct ibv_context *verbs)
{
	struct context *c = find(verbs);

	if (c)
		return c;
	c = calloc(1, sizeof *c);
	if (!c)
		return NULL;
	c->verbs = verbs;
	c->inode = sysfs_inode(verbs);
	LIST_INSERT_HEAD(&contexts, c, link);
	return c;
}

/* Read-only: libibverbs tries write() where ioctl() is not known, and /dev/null would take it. */
static void close_behind(struct ibv_context *verbs)
{
	int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);

	if (nothing < 0)
		return;
	dup3(nothing, verbs->async_fd, O_CLOEXEC);
	dup3(nothing, verbs->cmd_fd, O_CLOEXEC);
	close(nothing);
}

/* What is to be done once something about c has changed. ORDER: the context may be freed with the last id. */
static void settle(struct context *c)
{
	if (c->users || (c->holder && !c->removed))
		return;
	if (c->removed)
		close_behind(c->verbs);
	if (c->holder)
		rdma_destroy_id(c->holder);
	LIST_REMOVE(c, link);
	free(c);
}

int verbs_context_use(struct ibv_context *verbs)
{
	int err = -ENOMEM;

	pthread_mutex_lock(&lock);
	struct context *c = find_or_add(verbs);
	if (c)
		err = c->removed ? -ENODEV : 0;
	if (!err)
		c->users++;
	pthread_mutex_unlock(&lock);
	return err;
}

void verbs_context_leave(struct ibv_context *verbs)
{
	pthread_mutex_lock(&lock);
	struct context *c = find(verbs);
	c->users--;
	settle(c);
	pthread_mutex_unlock(&lock);
}

bool verbs_context_keep(struct rdma_cm_id *id)
{
	bool kept = false, spare = false;

	pthread_mutex_lock(&lock);
	struct context *c = find_or_add(id->verbs);
	if (c && !c->removed) {
		spare = c->holder;
		kept = spare || rdma_migrate_id(id, NULL) == 0; /* the channel that it has is the caller's */
		if (kept && !spare)
			c->holder = id;
	}
	if (c)
		settle(c);
	pthread_mutex_unlock(&lock);
	if (spare)
		rdma_destroy_id(id);
	return kept;
}

void verbs_context_removed(struct ibv_context *verbs)
{
	pthread_mutex_lock(&lock);
	struct context *c = find(verbs);
	if (c) {
		c->removed = true;
		settle(c);
	}
	pthread_mutex_unlock(&lock);
}

bool verbs_context_is_removed(const struct ibv_context *verbs)
{
	pthread_mutex_lock(&lock);
	const struct context *c = find(verbs);
	bool removed = c && c->removed;
	pthread_mutex_unlock(&lock);
	return removed;
}

void verbs_contexts_look(void)
{
	struct context *c, *next;

	pthread_mutex_lock(&lock);
	for (c = LIST_FIRST(&contexts); c; c = next) {
		next = LIST_NEXT(c, link);
		if (c->inode && sysfs_inode(c->verbs) != c->inode) {
			c->removed = true;
			settle(c);
		}
	}
	pthread_mutex_unlock(&lock);
}
