/* SPDX-License-Identifier: MIT */
#include "endpoint.h"
#include "rpcrdma.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#define ACK_BATCH 64u

/* Bytes that this process has registered, over all endpoints: the system's limit counts them together. */
static _Atomic uint64_t registered_bytes;

/* ---- registrations ---- */

/* An RDMA Read writes to its own side's memory in the peer's name on iWARP: RFC 5040 §5.4 has the sink named
 * by an STag on the wire. Only the passive side reads. */
static bool is_read_sink(const struct endpoint *ep)
{
	return ep->adapter.iwarp && ep->passive;
}

static int access_of(const struct endpoint *ep, unsigned int remote)
{
	int access = IBV_ACCESS_LOCAL_WRITE;

	if (ep->ep.limits.windows && !remote)
		access |= IBV_ACCESS_MW_BIND;
	if (remote & FMR_REMOTE_READ)
		access |= IBV_ACCESS_REMOTE_READ;
	if (remote & FMR_REMOTE_WRITE || is_read_sink(ep))
		access |= IBV_ACCESS_REMOTE_WRITE;
	return access;
}

static struct ibv_mr *reg_mr(const struct endpoint *ep, const struct region *region)
{
	return ibv_reg_mr(ep->adapter.pd, region->pub->addr, region->pub->len_bytes,
			  access_of(ep, region->remote));
}

static int register_now(struct endpoint *ep, struct region *region)
{
	struct fmr_region *pub = region->pub;

	region->mr = reg_mr(ep, region);
	if (!region->mr && errno == ENOMEM) { /* check_memlock() does not know what a call will register */
		rdma_raise_memlock();
		region->mr = reg_mr(ep, region);
	}
	if (!region->mr)
		return -errno;
	registered_bytes += pub->len_bytes;
	pub->lkey = region->mr->lkey;
	pub->rkey = region->remote ? region->mr->rkey : 0;
	pub->remote_base = (uintptr_t)pub->addr;
	return 0;
}

static void deregister_now(struct region *region)
{
	if (!region->mr)
		return;
	ibv_dereg_mr(region->mr);
	region->mr = NULL;
	region->pub->lkey = region->pub->rkey = 0;
	registered_bytes -= region->pub->len_bytes;
}

int verbs_region_register(void *dev, struct fmr_region *pub, unsigned int remote)
{
	struct endpoint *ep = dev;
	struct region *region = calloc(1, sizeof *region);

	if (!region)
		return -ENOMEM;
	region->pub = pub;
	region->remote = remote;
	pub->lkey = pub->rkey = 0;
	int err = ep->adapter.context && !ep->adapter.gone ? register_now(ep, region) : 0;
	if (err) {
		free(region);
		return err;
	}
	pub->handle = region;
	LIST_INSERT_HEAD(&ep->regions, region, link);
	return 0;
}

void verbs_region_deregister(void *dev, struct fmr_region *pub)
{
	struct region *region = pub->handle;

	deregister_now(region);
	LIST_REMOVE(region, link);
	free(region);
	pub->handle = NULL;
	pub->lkey = pub->rkey = 0;
}

static bool may_lock_any_amount(void)
{
	struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
	struct __user_cap_data_struct data[2] = {{0}};

	return syscall(SYS_capget, &header, data) == 0 && data[0].effective & 1u << CAP_IPC_LOCK;
}

/* Registered memory is locked memory. */
static int check_memlock(struct endpoint *ep)
{
	uint64_t need = registered_bytes;
	struct rlimit limit;
	struct region *region;

	LIST_FOREACH(region, &ep->regions, link)
		need += region->mr ? 0 : region->pub->len_bytes;
	if (getrlimit(RLIMIT_MEMLOCK, &limit) < 0)
		return 0;
	if (need > limit.rlim_cur)
		limit = rdma_raise_memlock();
	if (need <= limit.rlim_cur || may_lock_any_amount()) /* RLIM_INFINITY is the largest number */
		return 0;
	snprintf(ep->ep.why, sizeof ep->ep.why,
		 "%llu KiB of memory have to be locked, the limit is %llu KiB: raise it (ulimit -l) or make "
		 "the "
		 "arena smaller",
		 (unsigned long long)need / 1024, (unsigned long long)limit.rlim_cur / 1024);
	return -ENOMEM;
}

static int register_all(struct endpoint *ep)
{
	struct region *region;
	int err = check_memlock(ep);

	if (err)
		return err;
	LIST_FOREACH(region, &ep->regions, link)
		if (!region->mr) {
			err = register_now(ep, region);
			if (err) {
				snprintf(ep->ep.why, sizeof ep->ep.why,
					 "memory cannot be registered with %s: %s",
					 ibv_get_device_name(ep->adapter.context->device), strerror(-err));
				return err;
			}
		}
	return 0;
}

/* ---- the adapter ---- */

static int watch_channel(struct endpoint *ep)
{
	struct epoll_event event = {.events = EPOLLIN | EPOLLET, .data.ptr = ep->epoll_data};
	int fd = ep->adapter.channel->fd;

	if (fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK) < 0 ||
	    epoll_ctl(ep->epoll_fd, EPOLL_CTL_ADD, fd, &event) < 0)
		return -errno;
	return 0;
}

static int make_objects(struct endpoint *ep)
{
	struct adapter *a = &ep->adapter;
	int entries = (int)(ep->ep.limits.max_send + ep->ep.limits.max_recv);

	a->pd = ibv_alloc_pd(a->context);
	if (a->pd)
		a->channel = ibv_create_comp_channel(a->context);
	if (a->channel)
		a->cq = ibv_create_cq(a->context, entries, NULL, a->channel, 0);
	if (!a->cq)
		return -errno;
	return watch_channel(ep);
}

static int enter(struct endpoint *ep, struct ibv_context *context)
{
	struct adapter *a = &ep->adapter;
	int err = verbs_context_use(context);

	if (err)
		return err;
	a->context = context;
	if (ibv_query_device(context, &a->attr))
		return -EIO;
	a->quirks = verbs_quirks_of(&a->attr);
	a->iwarp = context->device->transport_type == IBV_TRANSPORT_IWARP;
	return 0;
}

int verbs_adapter_use(struct endpoint *ep, struct ibv_context *context)
{
	struct adapter *a = &ep->adapter;

	if (a->context != context || a->gone)
		verbs_adapter_leave(ep);
	int err = a->context ? 0 : enter(ep, context);
	if (!err) {
		verbs_limits(&a->attr, &ep->ep.limits);
		err = a->cq ? 0 : make_objects(ep);
	}
	if (err)
		snprintf(ep->ep.why, sizeof ep->ep.why, "%s: %s", ibv_get_device_name(context->device),
			 strerror(-err));
	if (!err)
		err = register_all(ep);
	if (err)
		verbs_adapter_leave(ep);
	return err;
}

void verbs_adapter_leave(struct endpoint *ep)
{
	struct adapter *a = &ep->adapter;
	struct region *region;
	struct window *window;

	for (unsigned int i = 0; ep->windows && i < WINDOW_BUCKETS; i++)
		LIST_FOREACH(window, &ep->windows[i], by_key)
			if (window->mw) {
				ibv_dealloc_mw(window->mw);
				window->mw = NULL;
				window->bound = false;
			}
	LIST_FOREACH(region, &ep->regions, link)
		deregister_now(region);
	if (a->cq) {
		ibv_ack_cq_events(a->cq, a->unacked);
		ibv_destroy_cq(a->cq);
	}
	if (a->channel) {
		epoll_ctl(ep->epoll_fd, EPOLL_CTL_DEL, a->channel->fd, NULL);
		ibv_destroy_comp_channel(a->channel);
	}
	if (a->pd)
		ibv_dealloc_pd(a->pd);
	if (a->context)
		verbs_context_leave(a->context);
	*a = (struct adapter){0};
}

int verbs_adapter_make_qp(struct endpoint *ep)
{
	const struct rdma_limits *limits = &ep->ep.limits;
	struct ibv_qp_init_attr attr = {.send_cq = ep->adapter.cq,
					.recv_cq = ep->adapter.cq,
					.qp_type = IBV_QPT_RC,
					.cap = {.max_send_wr = limits->max_send,
						.max_recv_wr = limits->max_recv,
						.max_send_sge = limits->max_sge,
						.max_recv_sge = 1}};

	ep->generation++;
	if (rdma_create_qp(ep->id, ep->adapter.pd, &attr))
		return -errno;
	int err = verbs_ep_post_recvs(ep);
	if (!err && ibv_req_notify_cq(ep->adapter.cq, 0))
		err = -EIO;
	ep->adapter.armed = true;
	return err;
}

bool verbs_adapter_rearm(struct endpoint *ep)
{
	struct adapter *a = &ep->adapter;
	struct ibv_cq *cq;
	void *context;
	bool told = false;

	while (ibv_get_cq_event(a->channel, &cq, &context) == 0) {
		told = true;
		if (++a->unacked == ACK_BATCH) {
			ibv_ack_cq_events(a->cq, a->unacked);
			a->unacked = 0;
		}
	}
	/* ORDER: armed before the last poll, so that no completion falls between. */
	if (told)
		ibv_req_notify_cq(a->cq, 0);
	return told;
}

/* ---- windows ---- */

static struct window_list *bucket(struct endpoint *ep, uint32_t rkey)
{
	return &ep->windows[(rkey >> 8) % WINDOW_BUCKETS];
}

struct window *verbs_window_find(struct endpoint *ep, uint32_t rkey)
{
	struct window *window;

	LIST_FOREACH(window, bucket(ep, rkey), by_key)
		if (window->rkey == rkey)
			return window;
	return NULL;
}

int verbs_window_alloc(void *dev, void **result)
{
	struct endpoint *ep = dev;
	struct window *window;

	if (!ep->adapter.pd || !ep->ep.limits.windows)
		return -EOPNOTSUPP;
	window = calloc(1, sizeof *window);
	if (!window)
		return -ENOMEM;
	window->mw = ibv_alloc_mw(ep->adapter.pd, IBV_MW_TYPE_2);
	if (!window->mw) {
		int err = -errno;
		free(window);
		return err;
	}
	window->rkey = window->mw->rkey;
	LIST_INSERT_HEAD(bucket(ep, window->rkey), window, by_key);
	ep->nwindows++;
	*result = window;
	return 0;
}

void verbs_window_free(void *dev, void *handle)
{
	struct endpoint *ep = dev;
	struct window *window = handle;

	if (window->mw)
		ibv_dealloc_mw(window->mw);
	LIST_REMOVE(window, by_key);
	free(window);
	ep->nwindows--;
	if (ep->ep.state == RDMA_EP_IDLE)
		verbs_cm_release(ep);
}
