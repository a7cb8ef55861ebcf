/* SPDX-License-Identifier: MIT
 *
 * All registered memory of a connection: one pool of arena and buffers, of which no fmr is ever mapped.
 */
#include "svc.h"

#include "arena.h"

#include <errno.h>
#include <stdlib.h>

#define CREDITS_MAX 1024u
#define INLINE_MAX (256u * INLINE_UNIT) /* RFC 8797 §4.1: what its private data can say */
/* Beside a payload of the largest size, a long message holds its RPC and NFS headers. */
#define LONG_EXTRA_BYTES ARENA_PAGE_BYTES

bool svc_params_are_good(const struct rpcrdma_svc_params *p)
{
	return p->credits && p->credits <= CREDITS_MAX && p->inline_bytes >= INLINE_UNIT &&
	       p->inline_bytes <= INLINE_MAX && p->inline_bytes % INLINE_UNIT == 0 && p->max_io_bytes &&
	       p->max_io_bytes <= FMR_STRIPE_BYTES;
}

static size_t pages(size_t len_bytes)
{
	return (len_bytes + ARENA_PAGE_BYTES - 1) / ARENA_PAGE_BYTES * ARENA_PAGE_BYTES;
}

/* Per credit: a receive, a send buffer, one for small payloads; and what may be lost at the end of each
 * stripe, because no buffer crosses one. */
static size_t buffers_bytes(const struct rpcrdma_svc_params *p)
{
	size_t bytes = (size_t)p->inline_bytes * (3 * p->credits + RECV_SPARE);

	return bytes + p->inline_bytes * (bytes / (FMR_STRIPE_BYTES - p->inline_bytes) + 2);
}

int svc_make_pool(struct rpcrdma_svc *svc)
{
	const struct rpcrdma_svc_params *p = &svc->params;
	size_t largest = pages(p->max_io_bytes) + LONG_EXTRA_BYTES;

	if (largest > FMR_STRIPE_BYTES)
		largest = FMR_STRIPE_BYTES;
	svc->long_max = (uint32_t)largest;
	size_t arena = pages(p->arena_bytes), least = arena_min_bytes(largest);
	struct fmrpool_params params = {.strategy = FMR_WINDOW,
					.arena_bytes = arena > least ? arena : least,
					.max_io_bytes = largest,
					.buffers_bytes = buffers_bytes(p)};
	int err = fmrpool_create(&params, &svc->pool);
	if (err)
		return err;
	svc->arena = fmrpool_arena(svc->pool);
	svc->carve = (uint8_t *)fmrpool_buffers(svc->pool);
	return fmrpool_attach(svc->pool, &svc->ep->ops->fmr, svc->ep);
}

/* The next buffer of inline_bytes that lies in one stripe. */
static uint8_t *carve(struct rpcrdma_svc *svc)
{
	while (!fmrpool_region(svc->pool, svc->carve, svc->params.inline_bytes))
		svc->carve += INLINE_UNIT;
	uint8_t *buffer = svc->carve;
	svc->carve += svc->params.inline_bytes;
	return buffer;
}

int svc_make_buffers(struct rpcrdma_svc *svc)
{
	svc->reqs = calloc(svc->credits, sizeof *svc->reqs);
	svc->recvs = calloc(svc->credits + RECV_SPARE, sizeof *svc->recvs);
	if (!svc->reqs || !svc->recvs)
		return -ENOMEM;
	for (uint32_t i = 0; i < svc->credits + RECV_SPARE; i++)
		svc->recvs[i].addr = carve(svc);
	for (uint32_t i = svc->credits; i-- > 0;) {
		svc->reqs[i].send = carve(svc);
		svc->reqs[i].small = carve(svc);
		svc->reqs[i].next = svc->free;
		svc->free = &svc->reqs[i];
	}
	return 0;
}

struct rdma_sge svc_sge(const struct rpcrdma_svc *svc, void *addr, uint32_t len_bytes)
{
	const struct fmr_region *region = fmrpool_region(svc->pool, addr, len_bytes);
	assert(region);
	return (struct rdma_sge){.addr = addr, .len_bytes = len_bytes, .lkey = region->lkey};
}

static bool run_alloc(struct rpcrdma_svc *svc, struct run *run)
{
	if (!run->len_bytes)
		return true;
	run->addr = arena_alloc(svc->arena, run->len_bytes, ARENA_REPLY);
	return run->addr;
}

void svc_run_free(struct rpcrdma_svc *svc, struct run *run)
{
	if (run->addr)
		arena_free(svc->arena, run->addr, run->len_bytes, ARENA_REPLY);
	run->addr = NULL;
}

void req_free_runs(struct rpcrdma_svc *svc, struct req *req)
{
	svc_run_free(svc, &req->long_call);
	svc_run_free(svc, &req->data);
	svc_run_free(svc, &req->write);
	svc_run_free(svc, &req->reply);
}

/* All runs of a call, or none. */
bool req_alloc_runs(struct rpcrdma_svc *svc, struct req *req)
{
	if (run_alloc(svc, &req->long_call) && run_alloc(svc, &req->data) && run_alloc(svc, &req->write) &&
	    run_alloc(svc, &req->reply))
		return true;
	req_free_runs(svc, req);
	return false;
}

bool req_needs_memory(const struct req *req)
{
	return req->long_call.len_bytes || req->data.len_bytes || req->write.len_bytes ||
	       req->reply.len_bytes;
}

void req_forget_memory(struct req *req)
{
	req->long_call = req->data = req->write = req->reply = (struct run){0};
}
