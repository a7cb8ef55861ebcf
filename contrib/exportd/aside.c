/* SPDX-License-Identifier: MIT */
#include "aside.h"

#include <pthread.h>
#include <stdlib.h>

struct aside {
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	struct call *call; /* under lock, like all below: to be served; NULL: none */
	bool has_reply;
	bool stop;
};

static void *aside_run(void *arg)
{
	struct aside *a = arg;

	pthread_mutex_lock(&a->lock);
	for (;;) {
		while (!a->call && !a->stop)
			pthread_cond_wait(&a->changed, &a->lock);
		if (a->stop)
			break;
		/* The lock stays held: whose call it is waits for this alone. */
		a->has_reply = serve_call(a->call);
		a->call = NULL;
		pthread_cond_broadcast(&a->changed);
	}
	pthread_mutex_unlock(&a->lock);
	return NULL;
}

struct aside *aside_start(void)
{
	struct aside *a = calloc(1, sizeof *a);

	if (!a)
		return NULL;
	pthread_mutex_init(&a->lock, NULL);
	pthread_cond_init(&a->changed, NULL);
	if (pthread_create(&a->thread, NULL, aside_run, a)) {
		free(a);
		return NULL;
	}
	return a;
}

bool aside_serve(struct aside *a, struct call *call)
{
	pthread_mutex_lock(&a->lock);
	a->call = call;
	pthread_cond_broadcast(&a->changed);
	while (a->call)
		pthread_cond_wait(&a->changed, &a->lock);
	bool has_reply = a->has_reply;
	pthread_mutex_unlock(&a->lock);
	return has_reply;
}

void aside_stop(struct aside *a)
{
	if (!a)
		return;
	pthread_mutex_lock(&a->lock);
	a->stop = true;
	pthread_cond_broadcast(&a->changed);
	pthread_mutex_unlock(&a->lock);
	pthread_join(a->thread, NULL);
	pthread_cond_destroy(&a->changed);
	pthread_mutex_destroy(&a->lock);
	free(a);
}
