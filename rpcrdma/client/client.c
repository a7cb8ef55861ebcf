/* SPDX-License-Identifier: MIT
 *
 * The transport's public face: making and ending it, and the calls' lives.
 *
 * Buffers, in the pool's memory beside the arena, each kind in pieces of a power of two so that no stripe
 * cuts one: [receives | messages | headers], the larger pieces first, so that each kind starts on a multiple
 * of its size.
 */
#include "xprt.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define XID_COUNT_MASK 0x0fffffffu

static_assert((RPCRDMA_MSG_BYTES & (RPCRDMA_MSG_BYTES - 1)) == 0, "a piece must divide a stripe");
static_assert((HEADER_BYTES & (HEADER_BYTES - 1)) == 0, "a piece must divide a stripe");

static uint32_t power_of_two(uint32_t at_least)
{
	uint32_t n = 1;

	while (n < at_least)
		n *= 2;
	return n;
}

static int make_pool(struct rpcrdma_xprt *x, uint32_t recv_stride)
{
	const struct rpcrdma_params *p = &x->params;
	struct fmrpool_params pool = {
		.strategy = p->strategy,
		.fmrs = p->credits * FMRS_PER_CREDIT + CALL_MAX_FMRS,
		.arena_bytes = p->arena_bytes,
		.max_io_bytes = p->max_io_bytes,
		.buffers_bytes = (size_t)x->nrecvs * recv_stride +
				 (size_t)x->ncalls * (RPCRDMA_MSG_BYTES + HEADER_BYTES),
		.stats = p->pool_stats,
	};
	int err = fmrpool_create(&pool, &x->pool);

	return err ? err : fmrpool_attach(x->pool, &x->ep->ops->fmr, x->ep);
}

static void place_buffers(struct rpcrdma_xprt *x, uint32_t recv_stride)
{
	uint8_t *at = (uint8_t *)fmrpool_buffers(x->pool);
	uint8_t *headers;

	for (unsigned int i = 0; i < x->nrecvs; i++, at += recv_stride) {
		struct recv *r = &x->recvs[i];
		r->buf = at;
		r->region = fmrpool_region(x->pool, at, recv_stride);
	}
	headers = at + (size_t)x->ncalls * RPCRDMA_MSG_BYTES;
	for (unsigned int i = 0; i < x->ncalls; i++) {
		struct call *c = &x->calls[i];
		c->x = x;
		c->pub.msg = at + (size_t)i * RPCRDMA_MSG_BYTES;
		c->msg_region = fmrpool_region(x->pool, c->pub.msg, RPCRDMA_MSG_BYTES);
		c->header = headers + (size_t)i * HEADER_BYTES;
		c->header_region = fmrpool_region(x->pool, c->header, HEADER_BYTES);
		TAILQ_INSERT_TAIL(&x->free, c, link);
	}
	x->nfree = x->ncalls;
}

int rpcrdma_create(const struct rpcrdma_params *params, struct rpcrdma_xprt **out)
{
	struct rpcrdma_xprt *x = calloc(1, sizeof *x);
	int err = -ENOMEM;

	if (!x)
		return -ENOMEM;
	assert(params->credits > 0 && params->credits <= RPCRDMA_CREDITS_MAX && params->calls > 0);
	x->params = *params;
	x->stats = params->stats ? params->stats : &x->own_stats;
	x->times = params->times ? params->times : &x->own_times;
	TAILQ_INIT(&x->free);
	TAILQ_INIT(&x->queue);
	TAILQ_INIT(&x->sent);
	TAILQ_INIT(&x->finished);
	x->xid_lane = params->xid_first & ~XID_COUNT_MASK;
	x->xid_next = params->xid_first & XID_COUNT_MASK;
	x->random = params->xid_first;
	x->stopped = true; /* until rpcrdma_connect() */
	x->ncalls = params->calls;
	x->nrecvs = params->credits + SPARE_RECVS;
	x->xid_mask = power_of_two(x->ncalls) - 1;
	x->calls = calloc(x->ncalls, sizeof *x->calls);
	x->recvs = calloc(x->nrecvs, sizeof *x->recvs);
	x->by_xid = calloc(x->xid_mask + 1, sizeof *x->by_xid);
	if (!x->calls || !x->recvs || !x->by_xid)
		goto fail;

	struct rdma_ep_params ep = {.epoll_fd = params->epoll_fd,
				    .epoll_data = params->epoll_data,
				    .max_recv = x->nrecvs,
				    .max_send = send_queue_depth(params->credits)};
	err = params->device->open(&ep, &x->ep);
	if (err)
		goto fail;
	uint32_t recv_stride = power_of_two(params->inline_bytes);
	if (recv_stride < RPCRDMA_MSG_BYTES)
		recv_stride = RPCRDMA_MSG_BYTES;
	err = make_pool(x, recv_stride);
	if (err)
		goto fail;
	place_buffers(x, recv_stride);
	*out = x;
	return 0;
fail:
	rpcrdma_destroy(x);
	return err;
}

static void cancel_queue(struct rpcrdma_xprt *x)
{
	struct call *c;

	while ((c = TAILQ_FIRST(&x->queue))) {
		TAILQ_REMOVE(&x->queue, c, link);
		x->stats->queued--;
		call_finish(c, -ECANCELED);
	}
}

void rpcrdma_destroy(struct rpcrdma_xprt *x)
{
	struct call *c;

	if (!x)
		return;
	if (x->ep && x->pool) {
		x->ep->ops->disconnect(x->ep);
		x->up = false;
		x->stopped = true;
		fmrpool_disconnected(x->pool);
		while ((c = TAILQ_FIRST(&x->sent))) {
			call_move(c, CALL_REPLIED);
			call_finish(c, -ECANCELED);
		}
		forget_recvs(x);
		do
			cancel_queue(x);
		while (deliver_finished(x)); /* which may have submitted more */
		fmrpool_detach(x->pool);
	}
	if (x->ep)
		x->ep->ops->close(x->ep);
	fmrpool_destroy(x->pool);
	free(x->by_xid);
	free(x->recvs);
	free(x->calls);
	free(x);
}

int rpcrdma_connect(struct rpcrdma_xprt *x, uint64_t now_ns)
{
	x->stopped = false;
	x->retry_at_ns = now_ns;
	advance_connection(x, now_ns);
	return 0;
}

struct call *call_by_xid(const struct rpcrdma_xprt *x, uint32_t xid)
{
	struct call *c;

	LIST_FOREACH(c, &x->by_xid[xid & x->xid_mask], by_xid) {
		if (c->pub.xid == xid)
			break;
	}
	return c;
}

/* Round once in 2^28 calls: a call that waits for as long keeps its XID to itself. */
static uint32_t next_xid(struct rpcrdma_xprt *x)
{
	uint32_t xid;

	do
		xid = x->xid_lane | (x->xid_next++ & XID_COUNT_MASK);
	while (call_by_xid(x, xid));
	return xid;
}

/* Zeroes what the caller fills and gives the next XID. */
static void prepare(struct call *c)
{
	struct rpcrdma_xprt *x = c->x;
	struct rpcrdma_call fresh = {.msg = c->pub.msg,
				     .xid = next_xid(x),
				     .done = c->pub.done,
				     .release = c->pub.release,
				     .owner = c->pub.owner};

	c->pub = fresh;
	LIST_INSERT_HEAD(&x->by_xid[fresh.xid & x->xid_mask], c, by_xid);
	call_move(c, CALL_IDLE);
	c->abandoned = false;
}

struct rpcrdma_call *rpcrdma_call_get(struct rpcrdma_xprt *x)
{
	struct call *c = TAILQ_FIRST(&x->free);

	if (!c)
		return NULL;
	TAILQ_REMOVE(&x->free, c, link);
	x->nfree--;
	c->pub.done = NULL;
	c->pub.release = NULL;
	c->pub.owner = NULL;
	prepare(c);
	return &c->pub;
}

void rpcrdma_call_put(struct rpcrdma_call *pub)
{
	struct call *c = call_of(pub);

	assert(c->state == CALL_IDLE);
	LIST_REMOVE(c, by_xid);
	call_move(c, CALL_FREE);
	TAILQ_INSERT_HEAD(&c->x->free, c, link);
	c->x->nfree++;
}

void rpcrdma_call_renew(struct rpcrdma_call *pub)
{
	struct call *c = call_of(pub);

	assert(c->state == CALL_FINISHED);
	LIST_REMOVE(c, by_xid);
	prepare(c);
}

void rpcrdma_submit(struct rpcrdma_call *pub, uint64_t now_ns)
{
	struct call *c = call_of(pub);
	struct rpcrdma_xprt *x = c->x;

	assert(c->state == CALL_IDLE && pub->done);
	pub->submitted_ns = now_ns;
	call_move(c, CALL_QUEUED);
	TAILQ_INSERT_TAIL(&x->queue, c, link);
	x->stats->calls++;
	x->stats->queued++;
	if (pub->kind)
		pub->kind->calls++;
}

void rpcrdma_call_abandon(struct rpcrdma_call *pub)
{
	struct call *c = call_of(pub);
	struct rpcrdma_xprt *x = c->x;

	assert(c->state != CALL_FREE && c->state != CALL_IDLE);
	c->abandoned = true;
	if (c->state == CALL_QUEUED) {
		TAILQ_REMOVE(&x->queue, c, link);
		x->stats->queued--;
		call_release(c);
	}
}

/* The RPC message must be of the same XID as the header that brought it. Only now can a long reply be looked
 * at. */
static int check_xid(const struct rpcrdma_call *pub)
{
	struct xdr_reader r = xdr_reader(pub->reply, pub->reply_len);
	uint32_t xid = xdr_u32(&r);

	return xdr_ok(&r) && xid == pub->xid ? 0 : -EPROTO;
}

void call_finish(struct call *c, int status)
{
	struct rpcrdma_xprt *x = c->x;

	if (c->state == CALL_REPLIED) {
		TAILQ_REMOVE(&x->sent, c, link);
		fmrpool_return(x->pool, c->plan.fmrs, c->fmrs); /* insists that they are unmapped */
		if (status == 0)
			status = check_xid(&c->pub);
	}
	c->pub.status = status;
	call_move(c, CALL_FINISHED);
	TAILQ_INSERT_TAIL(&x->finished, c, link);
}

void call_release(struct call *c)
{
	call_move(c, CALL_IDLE);
	if (c->pub.release)
		c->pub.release(&c->pub);
	rpcrdma_call_put(&c->pub);
}

bool deliver_finished(struct rpcrdma_xprt *x)
{
	bool any = !TAILQ_EMPTY(&x->finished);
	struct call *c;

	while ((c = TAILQ_FIRST(&x->finished))) {
		struct recv *recv = c->recv;

		TAILQ_REMOVE(&x->finished, c, link);
		c->recv = NULL;
		if (!c->abandoned)
			c->pub.done(&c->pub);
		if (c->state == CALL_FINISHED) /* done() did not renew it */
			call_release(c);
		if (recv) {
			repost_recv(x, recv);
			credits_give(&x->credits);
			x->stats->outstanding = x->credits.in_use;
		}
	}
	return any;
}

bool rpcrdma_progress(struct rpcrdma_xprt *x, uint64_t now_ns)
{
	bool more = advance_connection(x, now_ns);

	check_timeouts(x, now_ns);
	deliver_finished(x);
	count_device(x);
	return more;
}

uint64_t rpcrdma_next_timeout(const struct rpcrdma_xprt *x)
{
	uint64_t next = x->ep->timeout_ns ? x->ep->timeout_ns : UINT64_MAX;
	const struct call *oldest = TAILQ_FIRST(&x->sent), *waiting = TAILQ_FIRST(&x->queue);
	const struct call *due = x->params.soft ? first_due(x) : NULL;
	uint64_t at;

	if (x->lost || !TAILQ_EMPTY(&x->finished))
		return 0;
	if (!x->up && !x->connecting && !x->stopped && x->retry_at_ns < next)
		next = x->retry_at_ns;
	if (oldest && (at = oldest->pub.sent_ns + x->params.timeo_ns) < next)
		next = at;
	if (due && (at = call_deadline(due)) < next)
		next = at;
	if (x->params.soft && waiting && (at = call_deadline(waiting)) < next)
		next = at;
	return next;
}

void rpcrdma_drop_connection(struct rpcrdma_xprt *x, int error, const char *why)
{
	if (x->up || x->connecting)
		connection_lost(x, error, why);
}

struct fmrpool *rpcrdma_pool(struct rpcrdma_xprt *x)
{
	return x->pool;
}

struct arena *rpcrdma_arena(struct rpcrdma_xprt *x)
{
	return fmrpool_arena(x->pool);
}

bool rpcrdma_is_up(const struct rpcrdma_xprt *x)
{
	return x->up && !x->lost;
}

unsigned int rpcrdma_calls_free(const struct rpcrdma_xprt *x)
{
	return x->nfree;
}

const struct rpcrdma_stats *rpcrdma_stats(const struct rpcrdma_xprt *x)
{
	return x->stats;
}

const struct rdma_ep *rpcrdma_endpoint(const struct rpcrdma_xprt *x)
{
	return x->ep;
}

uint32_t rpcrdma_xid_lane(uint32_t random, unsigned int lane)
{
	return (random & XID_COUNT_MASK) | (uint32_t)lane << 28;
}
