/* SPDX-License-Identifier: MIT */
#include "notify.h"

#include "inode.h"

#define FUSE_USE_VERSION 312
#include <errno.h>
#include <fuse3/fuse_lowlevel.h>
#include <linux/fuse.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>

#define QUEUE_MAX 4096u /* beyond it, hints are dropped */

enum hint_kind { HINT_INODE, HINT_ATTR, HINT_ENTRY, HINT_EXPIRE };

struct hint {
	struct hint *next;
	struct inode *inode; /* holds a reference */
	enum hint_kind kind;
	void (*done)(void *ctx); /* NULL: nobody waits */
	void *ctx;
	char name[]; /* HINT_ENTRY, HINT_EXPIRE */
};

struct notify {
	struct fuse_session *session;
	void (*begin)(void *ctx);
	void *ctx;
	pthread_t thread;
	pthread_mutex_t lock; /* covers what follows; no other is taken under it */
	pthread_cond_t wake;
	struct hint *first, **last;
	unsigned int queued;
	bool stop;
};

/* By hand: the function of libfuse 3.14.0 for this has got other arguments since. */
static void expire_entry(struct notify *notify, uint64_t parent, const char *name)
{
	struct fuse_notify_inval_entry_out entry = {
		.parent = parent, .namelen = (uint32_t)strlen(name), .flags = FUSE_EXPIRE_ONLY};
	struct fuse_out_header head = {.error = FUSE_NOTIFY_INVAL_ENTRY};
	struct iovec iov[] = {
		{&head, sizeof head}, {&entry, sizeof entry}, {(char *)(uintptr_t)name, entry.namelen + 1}};

	head.len = (uint32_t)(sizeof head + sizeof entry + entry.namelen + 1);
	ssize_t n = writev(fuse_session_fd(notify->session), iov, 3); /* a hint, as all of them */
	(void)n;
}

static void tell_kernel(struct notify *notify, const struct hint *hint)
{
	uint64_t ino = inode_number(hint->inode);

	switch (hint->kind) {
	case HINT_ENTRY:
		fuse_lowlevel_notify_inval_entry(notify->session, ino, hint->name, strlen(hint->name));
		break;
	case HINT_EXPIRE:
		expire_entry(notify, ino, hint->name);
		break;
	case HINT_ATTR:
		fuse_lowlevel_notify_inval_inode(notify->session, ino, -1, 0);
		break;
	case HINT_INODE:
		fuse_lowlevel_notify_inval_inode(notify->session, ino, 0, 0);
		break;
	}
}

static void hint_free(struct hint *hint)
{
	if (hint->done)
		hint->done(hint->ctx);
	inode_unref(hint->inode);
	free(hint);
}

/* Under the queue's lock. */
static struct hint *take_first(struct notify *notify)
{
	struct hint *hint = notify->first;

	if (hint) {
		notify->first = hint->next;
		if (!notify->first)
			notify->last = &notify->first;
		notify->queued--;
	}
	return hint;
}

static struct hint *next_hint(struct notify *notify)
{
	pthread_mutex_lock(&notify->lock);
	while (!notify->first && !notify->stop)
		pthread_cond_wait(&notify->wake, &notify->lock);
	struct hint *hint = notify->stop ? NULL : take_first(notify);
	pthread_mutex_unlock(&notify->lock);
	return hint;
}

/* Of what nobody is told any more. The lock: lanes still ask for room. */
static struct hint *next_left_over(struct notify *notify)
{
	pthread_mutex_lock(&notify->lock);
	struct hint *hint = take_first(notify);
	pthread_mutex_unlock(&notify->lock);
	return hint;
}

/* ORDER: the mark goes before the kernel is told, so that what happens meanwhile is queued again. */
static void unmark(struct inode *inode)
{
	pthread_mutex_lock(&inode->lock);
	inode->inval_queued = false;
	pthread_mutex_unlock(&inode->lock);
}

static void *notifier(void *arg)
{
	struct notify *notify = arg;
	struct hint *hint;

	if (notify->begin)
		notify->begin(notify->ctx);
	while ((hint = next_hint(notify))) {
		if (hint->kind == HINT_INODE && !hint->done)
			unmark(hint->inode);
		tell_kernel(notify, hint);
		hint_free(hint);
	}
	return NULL;
}

int notify_start(struct fuse_session *session, void (*begin)(void *ctx), void *ctx, struct notify **out)
{
	struct notify *notify = calloc(1, sizeof *notify);

	if (!notify)
		return -ENOMEM;
	notify->session = session;
	notify->begin = begin;
	notify->ctx = ctx;
	notify->last = &notify->first;
	pthread_mutex_init(&notify->lock, NULL);
	pthread_cond_init(&notify->wake, NULL);
	int err = pthread_create(&notify->thread, NULL, notifier, notify);

	if (err) {
		free(notify);
		return -err;
	}
	*out = notify;
	return 0;
}

void notify_stop(struct notify *notify)
{
	struct hint *hint;

	if (!notify)
		return;
	pthread_mutex_lock(&notify->lock);
	notify->stop = true;
	pthread_cond_signal(&notify->wake);
	pthread_mutex_unlock(&notify->lock);
	pthread_join(notify->thread, NULL);
	while ((hint = next_left_over(notify)))
		hint_free(hint);
}

void notify_free(struct notify *notify)
{
	if (!notify)
		return;
	pthread_cond_destroy(&notify->wake);
	pthread_mutex_destroy(&notify->lock);
	free(notify);
}

static struct hint *hint_new(struct inode *inode, enum hint_kind kind, const char *name)
{
	size_t len = strlen(name) + 1;
	struct hint *hint = calloc(1, sizeof *hint + len);

	if (!hint)
		return NULL;
	hint->inode = inode_ref(inode);
	hint->kind = kind;
	memcpy(hint->name, name, len);
	return hint;
}

/* False: there was no room, and it is gone. */
static bool queue_hint(struct notify *notify, struct hint *hint)
{
	pthread_mutex_lock(&notify->lock);
	/* Names are many, and matter less than pages. */
	bool room = notify->queued < (hint->kind == HINT_EXPIRE ? QUEUE_MAX / 2 : QUEUE_MAX) && !notify->stop;
	if (room) {
		*notify->last = hint;
		notify->last = &hint->next;
		notify->queued++;
		pthread_cond_signal(&notify->wake);
	}
	pthread_mutex_unlock(&notify->lock);
	if (!room)
		hint_free(hint);
	return room;
}

static bool queue(struct notify *notify, struct inode *inode, enum hint_kind kind, const char *name)
{
	struct hint *hint = hint_new(inode, kind, name);

	return hint && queue_hint(notify, hint);
}

void notify_inval_inode_then(struct notify *notify, struct inode *inode, void (*done)(void *ctx), void *ctx)
{
	struct hint *hint = notify ? hint_new(inode, HINT_INODE, "") : NULL;

	if (!hint) {
		done(ctx);
		return;
	}
	hint->done = done;
	hint->ctx = ctx;
	queue_hint(notify, hint);
}

void notify_inval_inode(struct notify *notify, struct inode *inode)
{
	if (!notify)
		return;
	pthread_mutex_lock(&inode->lock);
	bool queued = inode->inval_queued;
	inode->inval_queued = true;
	pthread_mutex_unlock(&inode->lock);
	if (!queued && !queue(notify, inode, HINT_INODE, ""))
		unmark(inode);
}

void notify_inval_attr(struct notify *notify, struct inode *inode)
{
	if (notify)
		queue(notify, inode, HINT_ATTR, "");
}

void notify_expire_entry(struct notify *notify, struct inode *dir, const char *name)
{
	if (notify)
		queue(notify, dir, HINT_EXPIRE, name);
}

void notify_inval_entry(struct notify *notify, struct inode *dir, const char *name)
{
	if (notify)
		queue(notify, dir, HINT_ENTRY, name);
}
