/* SPDX-License-Identifier: MIT
 *
 * A device decorator that counts: linked into a second build of the program, between the transport and
 * softiwarp, by
 *
 *	--wrap=rdma_device_by_name	every endpoint gets a table of operations that counts and passes on
 *	--wrap=rpcrdma_submit		every call's done() is looked at, before the caller gets its answer
 *
 * It believes nothing that the transport says of itself. What it has seen is in the file that
 * COUNTING_DEVICE_FILE names (mapped, so that it can be read while the program runs): struct counts,
 * which counts.py prints.
 *
 * A registration that was bound for a call is *live* until the completion of its invalidate has been polled,
 * or a message that says that the server has invalidated it, or the connection was ended. done() of a call
 * with a live one is a violation.
 */
#include "rpcrdma.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* The order is that of COLUMNS in counts.py. */
struct counts {
	atomic_uint_fast64_t registrations, deregistrations, windows_made, windows_freed;
	atomic_uint_fast64_t binds, invalidates, remote_invalidates, sends, doorbells_with_sends,
		doorbells_without;
	atomic_uint_fast64_t answers, violations, live_peak;
};

#define LIVE_MAX 4096u

/* One per endpoint, found by its address. Only its own lane touches it. */
struct counted {
	struct rdma_ep *ep;
	const struct rdma_ep_ops *inner;
	struct rdma_ep_ops ops;
	struct fmr *live[LIVE_MAX];
	unsigned int nlive;
	unsigned int sends_queued;
};

static struct counts *counts;
static struct counted *endpoints[64];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static _Thread_local struct counted *mine; /* of this lane */

static void open_file(void)
{
	const char *name = getenv("COUNTING_DEVICE_FILE");
	int fd = name ? open(name, O_RDWR | O_CREAT | O_CLOEXEC, 0600) : -1;

	if (fd < 0 || ftruncate(fd, sizeof *counts)) {
		fprintf(stderr,
			"counting device: COUNTING_DEVICE_FILE does not name a file that can be written\n");
		exit(3);
	}
	counts = mmap(NULL, sizeof *counts, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (counts == MAP_FAILED)
		exit(3);
	close(fd);
}

static struct counted *of(const struct rdma_ep *ep)
{
	if (mine && mine->ep == ep)
		return mine;
	pthread_mutex_lock(&lock);
	for (size_t i = 0; i < sizeof endpoints / sizeof endpoints[0]; i++)
		if (endpoints[i] && endpoints[i]->ep == ep)
			mine = endpoints[i];
	pthread_mutex_unlock(&lock);
	return mine;
}

static void add_live(struct counted *c, struct fmr *fmr)
{
	if (c->nlive == LIVE_MAX)
		abort();
	c->live[c->nlive++] = fmr;
	if (c->nlive > counts->live_peak)
		counts->live_peak = c->nlive;
}

static void drop_live(struct counted *c, unsigned int i)
{
	c->live[i] = c->live[--c->nlive];
}

static int region_register(void *dev, struct fmr_region *region, unsigned int remote)
{
	counts->registrations++;
	return of(dev)->inner->fmr.region_register(dev, region, remote);
}

static void region_deregister(void *dev, struct fmr_region *region)
{
	counts->deregistrations++;
	of(dev)->inner->fmr.region_deregister(dev, region);
}

static int window_alloc(void *dev, void **window)
{
	counts->windows_made++;
	return of(dev)->inner->fmr.window_alloc(dev, window);
}

static void window_free(void *dev, void *window)
{
	counts->windows_freed++;
	of(dev)->inner->fmr.window_free(dev, window);
}

static int queue_bind(void *dev, struct fmr *fmr)
{
	int err = of(dev)->inner->fmr.queue_bind(dev, fmr);

	if (!err) {
		counts->binds++;
		add_live(of(dev), fmr);
	}
	return err;
}

static int queue_invalidate(void *dev, struct fmr *fmr)
{
	counts->invalidates++;
	return of(dev)->inner->fmr.queue_invalidate(dev, fmr);
}

static int queue_send(struct rdma_ep *ep, const struct rdma_sge *sge, unsigned int nsge,
		      uint32_t invalidate_rkey, void *ctx)
{
	counts->sends++;
	of(ep)->sends_queued++;
	return of(ep)->inner->queue_send(ep, sge, nsge, invalidate_rkey, ctx);
}

static int doorbell(struct rdma_ep *ep)
{
	if (of(ep)->sends_queued)
		counts->doorbells_with_sends++;
	else
		counts->doorbells_without++;
	of(ep)->sends_queued = 0;
	return of(ep)->inner->doorbell(ep);
}

static int poll_counted(struct rdma_ep *ep, struct rdma_wc *wc, int n)
{
	struct counted *c = of(ep);

	n = c->inner->poll(ep, wc, n);
	for (int i = 0; i < n; i++) {
		if (wc[i].status)
			continue;
		for (unsigned int k = 0; k < c->nlive; k++) {
			if (wc[i].kind == RDMA_WC_INVALIDATE && c->live[k] == wc[i].ctx)
				drop_live(c, k--);
			else if (wc[i].kind == RDMA_WC_RECV && wc[i].invalidated &&
				 c->live[k]->rkey == wc[i].invalidated_rkey) {
				counts->remote_invalidates++;
				drop_live(c, k--);
			}
		}
	}
	return n;
}

static void disconnect(struct rdma_ep *ep)
{
	of(ep)->inner->disconnect(ep);
	of(ep)->nlive = 0;
	of(ep)->sends_queued = 0;
}

static void close_counted(struct rdma_ep *ep)
{
	struct counted *c = of(ep);

	pthread_mutex_lock(&lock);
	for (size_t i = 0; i < sizeof endpoints / sizeof endpoints[0]; i++)
		if (endpoints[i] == c)
			endpoints[i] = NULL;
	pthread_mutex_unlock(&lock);
	mine = NULL;
	c->inner->close(ep);
	free(c);
}

static const struct rdma_device *inner_device;

static int open_counted(const struct rdma_ep_params *params, struct rdma_ep **ep)
{
	struct counted *c = calloc(1, sizeof *c);
	int err = c ? inner_device->open(params, ep) : -12;

	if (err) {
		free(c);
		return err;
	}
	c->ep = *ep;
	c->inner = (*ep)->ops;
	c->ops = *c->inner;
	c->ops.close = close_counted;
	c->ops.disconnect = disconnect;
	c->ops.doorbell = doorbell;
	c->ops.poll = poll_counted;
	c->ops.queue_send = queue_send;
	c->ops.fmr = (struct fmr_ops){.region_register = region_register,
				      .region_deregister = region_deregister,
				      .window_alloc = window_alloc,
				      .window_free = window_free,
				      .queue_bind = queue_bind,
				      .queue_invalidate = queue_invalidate};
	(*ep)->ops = &c->ops;
	pthread_mutex_lock(&lock);
	for (size_t i = 0; i < sizeof endpoints / sizeof endpoints[0]; i++)
		if (!endpoints[i]) {
			endpoints[i] = c;
			break;
		}
	pthread_mutex_unlock(&lock);
	return 0;
}

const struct rdma_device *__real_rdma_device_by_name(const char *name);
const struct rdma_device *__wrap_rdma_device_by_name(const char *name);
const struct rdma_device *__wrap_rdma_device_by_name(const char *name)
{
	static struct rdma_device counting;

	inner_device = __real_rdma_device_by_name(name);
	if (!inner_device)
		return NULL;
	if (!counts)
		open_file();
	counting = *inner_device;
	counting.open = open_counted;
	return &counting;
}

/* The caller's done(), by call. A lane's calls are few, and the table is the lane's. */
#define CALLS_MAX 4096u
static _Thread_local struct {
	struct rpcrdma_call *call;
	rpcrdma_call_fn *done;
} asked[CALLS_MAX];

static unsigned int slot_of(const struct rpcrdma_call *call)
{
	unsigned int i = (unsigned int)((uintptr_t)call >> 4) % CALLS_MAX;

	while (asked[i].call && asked[i].call != call)
		i = (i + 1) % CALLS_MAX;
	return i;
}

static void look_and_answer(struct rpcrdma_call *call)
{
	struct counted *c = mine;

	counts->answers++;
	for (unsigned int i = 0; c && i < c->nlive; i++)
		if (c->live[i]->owner == call)
			counts->violations++;
	call->done = asked[slot_of(call)].done;
	call->done(call);
}

void __real_rpcrdma_submit(struct rpcrdma_call *call, uint64_t now_ns);
void __wrap_rpcrdma_submit(struct rpcrdma_call *call, uint64_t now_ns);
void __wrap_rpcrdma_submit(struct rpcrdma_call *call, uint64_t now_ns)
{
	unsigned int i = slot_of(call);

	asked[i].call = call;
	asked[i].done = call->done;
	call->done = look_and_answer;
	__real_rpcrdma_submit(call, now_ns);
}
