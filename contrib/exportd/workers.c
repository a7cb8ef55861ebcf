/* SPDX-License-Identifier: MIT */
#include "workers.h"
#include "transport.h"

#include <pthread.h>
#include <stddef.h>

static struct {
	pthread_mutex_t lock;
	pthread_cond_t submitted;
	struct work *first, **last;
	int threads;
	int free; /* threads that are idle, less the works that wait for one */
} pool = {
	.lock = PTHREAD_MUTEX_INITIALIZER,
	.submitted = PTHREAD_COND_INITIALIZER,
	.last = &pool.first,
};

static struct work *take(void)
{
	pthread_mutex_lock(&pool.lock);
	while (!pool.first)
		pthread_cond_wait(&pool.submitted, &pool.lock);
	struct work *w = pool.first;
	pool.first = w->next;
	if (!pool.first)
		pool.last = &pool.first;
	pthread_mutex_unlock(&pool.lock);
	return w;
}

static void *worker_thread(void *arg)
{
	for (;;) {
		struct work *w = take();
		w->run(w);
		pthread_mutex_lock(&pool.lock);
		pool.free++;
		pthread_mutex_unlock(&pool.lock);
	}
	return NULL;
}

bool workers_submit(struct work *work)
{
	pthread_mutex_lock(&pool.lock);
	if (pool.free <= 0 && pool.threads < WORKERS_MAX && thread_start(worker_thread, NULL)) {
		pool.threads++;
		pool.free++;
	}
	bool ok = pool.threads > 0;
	if (ok) {
		pool.free--;
		work->next = NULL;
		*pool.last = work;
		pool.last = &work->next;
		pthread_cond_signal(&pool.submitted);
	}
	pthread_mutex_unlock(&pool.lock);
	return ok;
}
