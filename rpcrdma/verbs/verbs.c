/* SPDX-License-Identifier: MIT
 *
 * The operations of the device interface, requests and completions.
 *
 * Requests. A request takes a slot when it is queued, as a work request that is chained to the one before;
 * the doorbell posts the chain whole. Completions come only for requests that are signalled: one of them ends
 * its slot, and all unsignalled ones before it. Binds and what was queued without ctx are not signalled,
 * unless as many as a quarter of the queue have gone by.
 *
 * Normal operation. poll() reads the completion queue. Once the connection is over, what it had was collected
 * (verbs_ep_collect_flushed()) and poll() hands that out.
 *
 * Slots and rings suffice: what is queued, or complete and not yet polled, counts against max_send and
 * max_recv.
 */
#include "endpoint.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define DEFAULT_REQUESTS 256u
#define MAX_REQUESTS 16384u
#define DEFAULT_READ_DEPTH 16u
#define MAX_READ_DEPTH 255u /* rdma_cm has 8 bits for it */
#define FLUSH_WAIT_NS 1000000000ull
/* How long an event of rdma_cm, which says why, may come after the requests that it flushed. */
#define EVENT_WAIT_NS 200000000ull
#define POLL_BATCH 32

/* A completion's wr_id: the queue pair's generation, the slot, and which ring. */
#define WR_RECV 1u
static uint64_t wr_id(const struct endpoint *ep, uint32_t slot, unsigned int ring)
{
	return (uint64_t)ep->generation << 32 | (uint64_t)(slot & 0x7fffffffu) << 1 | ring;
}

static uint64_t now_monotonic(void)
{
	struct timespec ts;
	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
}

void verbs_ep_update_timeout(struct endpoint *ep)
{
	bool due = ep->completions.head != ep->completions.tail || ep->step == SETUP_REQUEST;

	ep->ep.timeout_ns = due ? 1 : ep->deadline_ns;
}

/* ---- open and close ---- */

static uint32_t wanted(uint32_t n, uint32_t otherwise, uint32_t most)
{
	if (!n)
		n = otherwise;
	return n < most ? n : most;
}

static uint32_t power_of_two(uint32_t at_least)
{
	uint32_t n = 1;

	while (n < at_least)
		n *= 2;
	return n;
}

static int allocate_rings(struct endpoint *ep)
{
	uint32_t nrecv = power_of_two(ep->want_recv);
	uint32_t ndone = power_of_two(ep->want_send + ep->want_recv);
	struct sends *s = &ep->sends;

	TAILQ_INIT(&s->free);
	TAILQ_INIT(&s->queued);
	TAILQ_INIT(&s->posted);
	s->nslots = ep->want_send;
	s->slots = calloc(s->nslots, sizeof *s->slots);
	for (uint32_t i = 0; s->slots && i < s->nslots; i++)
		TAILQ_INSERT_TAIL(&s->free, &s->slots[i], link);
	ep->recvs.ring = calloc(nrecv, sizeof *ep->recvs.ring);
	ep->completions.ring = calloc(ndone, sizeof *ep->completions.ring);
	ep->windows = calloc(WINDOW_BUCKETS, sizeof *ep->windows);
	ep->recvs.mask = nrecv - 1;
	ep->completions.mask = ndone - 1;
	return s->slots && ep->recvs.ring && ep->completions.ring && ep->windows ? 0 : -ENOMEM;
}

static void verbs_close(struct rdma_ep *base)
{
	struct endpoint *ep = endpoint(base);
	struct region *region;

	if (!ep)
		return;
	verbs_ep_end(ep, 0, "closed");
	for (unsigned int i = 0; ep->windows && i < WINDOW_BUCKETS; i++)
		while (!LIST_EMPTY(&ep->windows[i]))
			verbs_window_free(ep, LIST_FIRST(&ep->windows[i]));
	verbs_cm_release(ep);
	verbs_adapter_leave(ep);
	while ((region = LIST_FIRST(&ep->regions)))
		verbs_region_deregister(ep, region->pub);
	verbs_news_close(&ep->news);
	free(ep->windows);
	free(ep->completions.ring);
	free(ep->recvs.ring);
	free(ep->sends.slots);
	free(ep);
}

static const struct rdma_ep_ops verbs_ops;

/* What can be said before the adapter is known. */
static void limits_at_open(struct endpoint *ep)
{
	ep->ep.limits = (struct rdma_limits){.max_sge = RDMA_SGE_MAX,
					     .max_recv = ep->want_recv,
					     .max_send = ep->want_send,
					     .read_depth_in = ep->want_depth,
					     .read_depth_out = ep->want_depth,
					     .windows = true,
					     .remote_invalidate = ep->may_invalidate};
}

int verbs_ep_open(const struct rdma_ep_params *params, bool passive, struct endpoint **result)
{
	struct endpoint *ep = calloc(1, sizeof *ep);

	if (!ep)
		return -ENOMEM;
	ep->ep.ops = &verbs_ops;
	ep->epoll_fd = params->epoll_fd;
	ep->epoll_data = params->epoll_data;
	ep->want_send = wanted(params->max_send, DEFAULT_REQUESTS, MAX_REQUESTS);
	ep->want_recv = wanted(params->max_recv, DEFAULT_REQUESTS, MAX_REQUESTS);
	ep->want_depth = wanted(params->read_depth, DEFAULT_READ_DEPTH, MAX_READ_DEPTH);
	ep->news = NEWS_NONE;
	LIST_INIT(&ep->regions);
	int err = allocate_rings(ep);
	if (!err)
		err = verbs_cm_watch(ep);
	if (err) {
		verbs_close(&ep->ep);
		return err;
	}
	ep->passive = passive;
	ep->may_invalidate = !passive && verbs_probe_all_invalidate();
	limits_at_open(ep);
	*result = ep;
	return 0;
}

static int verbs_open(const struct rdma_ep_params *params, struct rdma_ep **result)
{
	struct endpoint *ep;
	int err = verbs_ep_open(params, false, &ep);

	if (!err)
		*result = &ep->ep;
	return err;
}

/* ---- requests ---- */

static int may_send(const struct endpoint *ep)
{
	if (ep->ep.state != RDMA_EP_ESTABLISHED)
		return -ENOTCONN;
	return ep->sends.used < ep->ep.limits.max_send ? 0 : -ENOBUFS;
}

/* Takes the next slot and chains its work request, of which opcode and what belongs to it are for the caller
 * to fill. */
static struct ibv_send_wr *add_request(struct endpoint *ep, enum rdma_wc_kind kind, void *ctx, bool signalled)
{
	struct sends *s = &ep->sends;
	struct sent *sent = TAILQ_FIRST(&s->free), *before = TAILQ_LAST(&s->queued, sent_list);
	bool silent = false;

	if (!signalled && ++s->unsignalled > ep->ep.limits.max_send / 4)
		signalled = silent = true;
	if (signalled)
		s->unsignalled = 0;
	TAILQ_REMOVE(&s->free, sent, link);
	sent->kind = kind;
	sent->signalled = signalled;
	sent->silent = silent;
	sent->posted = false;
	sent->ctx = ctx;
	sent->window = NULL;
	sent->wr = (struct ibv_send_wr){.wr_id = wr_id(ep, (uint32_t)(sent - s->slots), 0),
					.sg_list = sent->sge,
					.send_flags = signalled ? IBV_SEND_SIGNALED : 0};
	if (before)
		before->wr.next = &sent->wr;
	TAILQ_INSERT_TAIL(&s->queued, sent, link);
	s->used++;
	return &sent->wr;
}

static bool gathers(const struct endpoint *ep, const struct rdma_sge *sge, unsigned int nsge)
{
	uint64_t total = 0;

	for (unsigned int i = 0; i < nsge; i++)
		total += sge[i].len_bytes;
	return nsge <= ep->ep.limits.max_sge && total <= UINT32_MAX;
}

/* Entries of no bytes are left out: a length of 0 means 2 GiB to some adapters. */
static void gather(struct ibv_send_wr *wr, const struct rdma_sge *sge, unsigned int nsge)
{
	for (unsigned int i = 0; i < nsge; i++)
		if (sge[i].len_bytes)
			wr->sg_list[wr->num_sge++] =
				(struct ibv_sge){(uintptr_t)sge[i].addr, sge[i].len_bytes, sge[i].lkey};
}

static int verbs_queue_send(struct rdma_ep *base, const struct rdma_sge *sge, unsigned int nsge,
			    uint32_t invalidate_rkey, void *ctx)
{
	struct endpoint *ep = endpoint(base);
	int err = may_send(ep);

	if (err)
		return err;
	if (!gathers(ep, sge, nsge))
		return -EINVAL;
	struct ibv_send_wr *wr = add_request(ep, RDMA_WC_SEND, ctx, ctx);
	wr->opcode = invalidate_rkey ? IBV_WR_SEND_WITH_INV : IBV_WR_SEND;
	if (invalidate_rkey) {
		wr->invalidate_rkey = invalidate_rkey;
		wr->wr.rdma.rkey = invalidate_rkey; /* where siw looks for it: see quirks.h */
	}
	gather(wr, sge, nsge);
	return 0;
}

static int verbs_queue_write(struct rdma_ep *base, const struct rdma_sge *sge, unsigned int nsge,
			     uint32_t rkey, uint64_t offset, void *ctx)
{
	struct endpoint *ep = endpoint(base);
	int err = may_send(ep);

	if (err)
		return err;
	if (!gathers(ep, sge, nsge))
		return -EINVAL;
	struct ibv_send_wr *wr = add_request(ep, RDMA_WC_WRITE, ctx, ctx);
	wr->opcode = IBV_WR_RDMA_WRITE;
	wr->wr.rdma.remote_addr = offset;
	wr->wr.rdma.rkey = rkey;
	gather(wr, sge, nsge);
	return 0;
}

static int verbs_queue_read(struct rdma_ep *base, const struct rdma_sge *sge, uint32_t rkey, uint64_t offset,
			    void *ctx)
{
	struct endpoint *ep = endpoint(base);
	int err = may_send(ep);

	if (err)
		return err;
	if (!base->limits.read_depth_out)
		return -EOPNOTSUPP;
	struct ibv_send_wr *wr = add_request(ep, RDMA_WC_READ, ctx, true);
	wr->opcode = IBV_WR_RDMA_READ;
	wr->wr.rdma.remote_addr = offset;
	wr->wr.rdma.rkey = rkey;
	gather(wr, sge, 1);
	return 0;
}

static int verbs_queue_bind(void *dev, struct fmr *fmr)
{
	struct endpoint *ep = dev;
	struct window *window = fmr->window;
	const struct region *region = fmr->region->handle;
	uintptr_t offset = (uintptr_t)fmr->addr - (uintptr_t)fmr->region->addr;
	int err = may_send(ep);

	if (err)
		return err;
	if (window->bound)
		return -EBUSY;
	if (!fmr->len_bytes || (fmr->access != FMR_REMOTE_READ && fmr->access != FMR_REMOTE_WRITE) ||
	    offset > fmr->region->len_bytes || fmr->len_bytes > fmr->region->len_bytes - offset ||
	    !window->mw)
		return -EINVAL;
	struct ibv_send_wr *wr = add_request(ep, RDMA_WC_INVALIDATE, NULL, false);
	TAILQ_LAST(&ep->sends.queued, sent_list)->window = window;
	window->rkey = ibv_inc_rkey(window->rkey);
	window->bound = true;
	wr->opcode = IBV_WR_BIND_MW;
	wr->bind_mw.mw = window->mw;
	wr->bind_mw.rkey = window->rkey;
	wr->bind_mw.bind_info.mr = region->mr;
	wr->bind_mw.bind_info.addr = (uintptr_t)fmr->addr;
	wr->bind_mw.bind_info.length = fmr->len_bytes;
	wr->bind_mw.bind_info.mw_access_flags =
		fmr->access == FMR_REMOTE_READ ? IBV_ACCESS_REMOTE_READ : IBV_ACCESS_REMOTE_WRITE;
	fmr->rkey = window->rkey;
	fmr->remote_offset = (uintptr_t)fmr->addr;
	return 0;
}

/* Never for a window that is not bound: see quirks.h. */
static int verbs_queue_invalidate(void *dev, struct fmr *fmr)
{
	struct endpoint *ep = dev;
	struct window *window = fmr->window;
	int err = may_send(ep);

	if (err)
		return err;
	if (!window->bound || window->rkey != fmr->rkey)
		return -EINVAL;
	window->bound = false;
	struct ibv_send_wr *wr = add_request(ep, RDMA_WC_INVALIDATE, fmr, true);
	wr->opcode = IBV_WR_LOCAL_INV;
	wr->invalidate_rkey = window->rkey;
	return 0;
}

/* Of what was posted from `sent` on. */
static void store_keys(const struct sent *sent)
{
	for (; sent; sent = TAILQ_NEXT(sent, link))
		if (sent->window)
			sent->window->mw->rkey = sent->wr.bind_mw.rkey;
}

static int verbs_doorbell(struct rdma_ep *base)
{
	struct endpoint *ep = endpoint(base);
	struct sends *s = &ep->sends;
	struct ibv_send_wr *bad = NULL;
	struct sent *first = TAILQ_FIRST(&s->queued), *sent;

	if (base->state != RDMA_EP_ESTABLISHED)
		return base->error ? base->error : -ENOTCONN;
	if (!first)
		return 0;
	TAILQ_FOREACH(sent, &s->queued, link) {
		sent->posted = true;
		s->signalled += sent->signalled;
	}
	TAILQ_CONCAT(&s->posted, &s->queued, link);
	int err = ibv_post_send(ep->id->qp, &first->wr, &bad);
	if (err) {
		err = err < 0 ? err : -err; /* providers differ in the sign */
		verbs_ep_end(ep, err, "the adapter refused a request: %s", strerror(-err));
		return err;
	}
	store_keys(first);
	return 0;
}

/* Of a receive that was queued before the adapter was known, and with it the key. */
static uint32_t key_of(const struct endpoint *ep, const struct ibv_sge *sge)
{
	const struct region *region;

	LIST_FOREACH(region, &ep->regions, link)
		if (sge->addr - (uintptr_t)region->pub->addr < region->pub->len_bytes)
			return region->pub->lkey;
	return 0;
}

int verbs_ep_post_recvs(struct endpoint *ep)
{
	struct recvs *r = &ep->recvs;

	for (; r->posted != r->tail; r->posted++) {
		struct recv_req *req = &r->ring[r->posted & r->mask];
		struct ibv_recv_wr *bad, wr = {.wr_id = wr_id(ep, r->posted, WR_RECV),
					       .sg_list = &req->sge,
					       .num_sge = req->sge.length ? 1 : 0};
		if (!req->sge.lkey)
			req->sge.lkey = key_of(ep, &req->sge);
		int err = ibv_post_recv(ep->id->qp, &wr, &bad);
		if (err)
			return err < 0 ? err : -err;
	}
	return 0;
}

static int verbs_queue_recv(struct rdma_ep *base, const struct rdma_sge *sge, void *ctx)
{
	struct endpoint *ep = endpoint(base);
	struct recvs *r = &ep->recvs;

	if (base->state == RDMA_EP_CLOSED)
		return -ENOTCONN;
	if (r->used >= base->limits.max_recv)
		return -ENOBUFS;
	r->ring[r->tail & r->mask] =
		(struct recv_req){.sge = {(uintptr_t)sge->addr, sge->len_bytes, sge->lkey}, .ctx = ctx};
	r->tail++;
	r->used++;
	int err = ep->id && ep->id->qp ? verbs_ep_post_recvs(ep) : 0;
	if (err) { /* not lent after all */
		r->tail--;
		r->used--;
	}
	return err;
}

/* ---- completions ---- */

static const struct {
	enum ibv_wc_status status;
	int error;
	const char *why;
} failures[] = {
	{IBV_WC_WR_FLUSH_ERR, -ECANCELED, "flushed"},
	{IBV_WC_RETRY_EXC_ERR, -ETIMEDOUT, "the peer's adapter does not answer any more"},
	{IBV_WC_RNR_RETRY_EXC_ERR, -EPROTO, "the peer has no receive for a message"},
	{IBV_WC_REM_ACCESS_ERR, -EREMOTEIO, "the peer refused an access to its memory"},
	{IBV_WC_REM_INV_REQ_ERR, -EREMOTEIO, "the peer refused a request as invalid"},
	{IBV_WC_REM_OP_ERR, -EREMOTEIO, "the peer could not complete a request"},
	{IBV_WC_LOC_LEN_ERR, -EPROTO, "a message is longer than its receive"},
	{IBV_WC_LOC_PROT_ERR, -EINVAL, "memory was named that is not registered so"},
	{IBV_WC_MW_BIND_ERR, -EINVAL, "a memory window could not be bound"},
};

static int failure(enum ibv_wc_status status, const char **why)
{
	for (size_t i = 0; i < sizeof failures / sizeof *failures; i++)
		if (failures[i].status == status) {
			*why = failures[i].why;
			return failures[i].error;
		}
	*why = ibv_wc_status_str(status);
	return -EIO;
}

static bool is_told(const struct sent *sent)
{
	return sent->signalled && !sent->silent;
}

/* It is complete. What is told counts as used until it is polled. */
static void retire(struct sends *s, struct sent_list *from, struct sent *sent)
{
	s->used -= !is_told(sent);
	s->signalled -= sent->posted && sent->signalled;
	sent->posted = false;
	TAILQ_REMOVE(from, sent, link);
	TAILQ_INSERT_TAIL(&s->free, sent, link);
}

/* One of the send queue's: it is complete, and so are the unsignalled ones before it. True if somebody is to
 * be told. */
static bool on_sent(struct endpoint *ep, uint32_t slot, int status, struct rdma_wc *out)
{
	struct sends *s = &ep->sends;

	if (slot >= s->nslots || !s->slots[slot].posted)
		return false; /* no request of ours */
	struct sent *sent = &s->slots[slot], *before = TAILQ_FIRST(&s->posted), *next;
	for (; before != sent; before = next) {
		next = TAILQ_NEXT(before, link);
		if (!before->signalled)
			retire(s, &s->posted, before);
	}
	retire(s, &s->posted, sent);
	*out = (struct rdma_wc){.kind = sent->kind, .status = status, .ctx = sent->ctx};
	return is_told(sent);
}

static bool on_received(struct endpoint *ep, const struct ibv_wc *wc, int status, struct rdma_wc *out)
{
	struct recvs *r = &ep->recvs;
	const struct quirks *quirks = ep->adapter.quirks;

	if (r->head == r->posted)
		return false;
	*out = (struct rdma_wc){
		.kind = RDMA_WC_RECV, .status = status, .ctx = r->ring[r->head++ & r->mask].ctx};
	if (status)
		return true;
	out->len_bytes = wc->byte_len;
	if (wc->wc_flags & (IBV_WC_WITH_INV | quirks->invalidated_flag)) {
		struct window *window = verbs_window_find(ep, wc->invalidated_rkey);
		out->invalidated = true;
		out->invalidated_rkey = wc->invalidated_rkey;
		if (window)
			window->bound = false;
	}
	return true;
}

/* What the adapter says, as the interface says it; false if there is nothing to tell. */
static bool translate(struct endpoint *ep, const struct ibv_wc *wc, struct rdma_wc *out, const char **why)
{
	uint32_t slot = (uint32_t)(wc->wr_id >> 1) & 0x7fffffffu;
	int status = wc->status == IBV_WC_SUCCESS ? 0 : failure(wc->status, why);

	if (wc->wr_id >> 32 != ep->generation)
		return false;
	return wc->wr_id & WR_RECV ? on_received(ep, wc, status, out) : on_sent(ep, slot, status, out);
}

static void collect(struct endpoint *ep, const struct rdma_wc *wc)
{
	ep->completions.ring[ep->completions.tail++ & ep->completions.mask] = *wc;
}

static bool collect_some(struct endpoint *ep)
{
	struct ibv_wc wc[POLL_BATCH];
	int n = ibv_poll_cq(ep->adapter.cq, POLL_BATCH, wc);
	const char *why;
	struct rdma_wc out;

	for (int i = 0; i < n; i++)
		if (translate(ep, &wc[i], &out, &why)) {
			if (out.status)
				out.status = -ECANCELED;
			collect(ep, &out);
		}
	return n > 0;
}

static void flush_sends(struct endpoint *ep, struct sent_list *list)
{
	struct sent *sent;

	while ((sent = TAILQ_FIRST(list))) {
		if (is_told(sent))
			collect(ep, &(struct rdma_wc){sent->kind, .status = -ECANCELED, .ctx = sent->ctx});
		retire(&ep->sends, list, sent);
	}
}

/* What never reached the adapter, or what it does not give back. */
static void flush_the_rest(struct endpoint *ep)
{
	struct recvs *r = &ep->recvs;

	flush_sends(ep, &ep->sends.posted);
	flush_sends(ep, &ep->sends.queued);
	ep->sends.unsignalled = 0;
	for (; r->head != r->tail; r->head++)
		collect(ep, &(struct rdma_wc){RDMA_WC_RECV, .status = -ECANCELED,
					      .ctx = r->ring[r->head & r->mask].ctx});
	r->posted = r->tail;
}

static bool all_flushed(const struct endpoint *ep)
{
	return !ep->sends.signalled && ep->recvs.head == ep->recvs.posted;
}

/* The last receive to be flushed is also the sign that the adapter places nothing any more. */
void verbs_ep_collect_flushed(struct endpoint *ep, bool flushes)
{
	uint64_t give_up = now_monotonic() + FLUSH_WAIT_NS;

	while (flushes && !all_flushed(ep)) {
		if (collect_some(ep))
			continue;
		if (now_monotonic() >= give_up)
			break;
		sched_yield();
	}
	flush_the_rest(ep);
}

static int poll_collected(struct endpoint *ep, struct rdma_wc *wc, int n)
{
	struct completions *c = &ep->completions;
	int taken = 0;

	for (; taken < n && c->head != c->tail; taken++)
		wc[taken] = c->ring[c->head++ & c->mask];
	return taken;
}

/* A request has failed. One that was flushed says only that the queue pair has ended; an event may come that
 * says why. */
static void on_failure(struct endpoint *ep, int error, const char *why)
{
	if (error != -ECANCELED)
		verbs_ep_end(ep, error, "%s", why);
	else if (!ep->deadline_ns)
		ep->deadline_ns = now_monotonic() + EVENT_WAIT_NS;
}

/* *more: there may be more, and no event will tell. */
static int poll_adapter(struct endpoint *ep, struct rdma_wc *out, int n, bool *more)
{
	struct ibv_wc wc[POLL_BATCH];
	int told = 0;
	const char *why;

	int got = ibv_poll_cq(ep->adapter.cq, n < POLL_BATCH ? n : POLL_BATCH, wc);
	for (int i = 0; i < got; i++) {
		bool ours = wc[i].wr_id >> 32 == ep->generation;
		int error = wc[i].status == IBV_WC_SUCCESS ? 0 : failure(wc[i].status, &why);
		if (translate(ep, &wc[i], &out[told], &why))
			told++;
		if (error && ours && ep->ep.state == RDMA_EP_ESTABLISHED)
			on_failure(ep, error, why);
	}
	*more = got == n || got == POLL_BATCH;
	return told;
}

static void becomes_idle(struct endpoint *ep)
{
	if (!ep->disconnecting || ep->completions.head != ep->completions.tail)
		return;
	ep->disconnecting = false;
	ep->ep.state = RDMA_EP_IDLE;
	limits_at_open(ep);
	verbs_cm_release(ep);
}

static int verbs_poll(struct rdma_ep *base, struct rdma_wc *wc, int n)
{
	struct endpoint *ep = endpoint(base);
	bool more = false;
	int taken = poll_collected(ep, wc, n);

	if (taken < n && base->state == RDMA_EP_ESTABLISHED)
		taken += poll_adapter(ep, wc + taken, n - taken, &more);
	for (int i = 0; i < taken; i++) {
		if (wc[i].kind == RDMA_WC_RECV)
			ep->recvs.used--;
		else
			ep->sends.used--;
	}
	becomes_idle(ep);
	verbs_ep_update_timeout(ep);
	if (more)
		base->timeout_ns = 1;
	return taken;
}

static bool verbs_progress(struct rdma_ep *base, uint64_t now_ns)
{
	struct endpoint *ep = endpoint(base);

	verbs_cm_run(ep, now_ns);
	if (ep->adapter.channel && verbs_adapter_rearm(ep) && base->state == RDMA_EP_ESTABLISHED)
		ep->ep.timeout_ns = 1;
	else
		verbs_ep_update_timeout(ep);
	return false;
}

/* ---- connections ---- */

static int verbs_connect(struct rdma_ep *base, const struct sockaddr *addr, socklen_t addr_len,
			 const void *priv, uint32_t priv_len)
{
	struct endpoint *ep = endpoint(base);

	if (base->state != RDMA_EP_IDLE || priv_len > RDMA_PRIVATE_MAX)
		return -EINVAL;
	base->error = 0;
	base->why[0] = '\0';
	base->peer_private_len = 0;
	limits_at_open(ep);
	int err = verbs_cm_connect(ep, addr, priv, priv_len);
	verbs_ep_update_timeout(ep);
	return err;
}

static int verbs_accept(struct rdma_ep *base, const void *priv, uint32_t priv_len)
{
	struct endpoint *ep = endpoint(base);

	if (base->state != RDMA_EP_REQUESTED || priv_len > RDMA_PRIVATE_MAX)
		return -EINVAL;
	int err = verbs_cm_accept(ep, priv, priv_len);
	verbs_ep_update_timeout(ep);
	return err;
}

static int verbs_reject(struct rdma_ep *base)
{
	struct endpoint *ep = endpoint(base);

	if (base->state != RDMA_EP_REQUESTED)
		return -EINVAL;
	int err = verbs_cm_reject(ep);
	verbs_ep_update_timeout(ep);
	return err;
}

static void verbs_disconnect(struct rdma_ep *base)
{
	struct endpoint *ep = endpoint(base);

	if (base->state == RDMA_EP_IDLE) { /* receives that waited for a connection come back too */
		flush_the_rest(ep);
		base->state = RDMA_EP_CLOSED;
	}
	verbs_ep_end(ep, 0, "disconnected");
	ep->disconnecting = true;
	becomes_idle(ep);
	verbs_ep_update_timeout(ep);
}

static const struct rdma_ep_ops verbs_ops = {
	.name = "verbs",
	.accept = verbs_accept,
	.close = verbs_close,
	.connect = verbs_connect,
	.disconnect = verbs_disconnect,
	.doorbell = verbs_doorbell,
	.poll = verbs_poll,
	.progress = verbs_progress,
	.queue_read = verbs_queue_read,
	.queue_recv = verbs_queue_recv,
	.queue_send = verbs_queue_send,
	.queue_write = verbs_queue_write,
	.reject = verbs_reject,
	.fmr =
		{
			.region_register = verbs_region_register,
			.region_deregister = verbs_region_deregister,
			.window_alloc = verbs_window_alloc,
			.window_free = verbs_window_free,
			.queue_bind = verbs_queue_bind,
			.queue_invalidate = verbs_queue_invalidate,
		},
};

const struct rdma_device verbs_device = {
	.name = "verbs",
	.fixed_credentials = true,
	.open = verbs_open,
	.listen = verbs_listener_listen,
	.listener_fd = verbs_listener_fd,
	.listener_port = verbs_listener_port,
	.listener_accept = verbs_listener_accept,
	.listener_close = verbs_listener_close,
	.probe = verbs_probe_peer,
};
