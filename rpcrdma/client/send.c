/* SPDX-License-Identifier: MIT
 *
 * plan -> map -> submit: how a call leaves.
 *
 * Ordering. The binds of a call are queued before its Send, on one queue, so no key is on the wire before it
 * is valid. Ownership. From queue_send() until the Send's completion the header and the message are the
 * device's; the payload is the device's until its fmr is unmapped (chunks) or the Send has completed
 * (inline).
 */
#include "xprt.h"

#include <assert.h>
#include <errno.h>

static uint32_t lkey_of(const struct rpcrdma_xprt *x, const void *addr, size_t len_bytes)
{
	const struct fmr_region *region = fmrpool_region(x->pool, addr, len_bytes);

	return region ? region->lkey : 0;
}

static int map_segment(struct call *c, unsigned int *n, struct iovec seg, enum fmr_access access,
		       struct rpcrdma_chunk *chunk)
{
	struct fmr *fmr = c->fmrs[*n];
	int err = fmrpool_map(c->x->pool, fmr, seg.iov_base, (uint32_t)seg.iov_len, access);

	if (err)
		return err;
	++*n;
	chunk->segs[chunk->nsegs++] = (struct rpcrdma_segment){
		.handle = fmr->rkey, .length = fmr->len_bytes, .offset = fmr->remote_offset};
	return 0;
}

/* Maps every segment of the plan with the least access and notes it in the header. *n counts what
 * was mapped. */
static int map_segments(struct call *c, struct rpcrdma_header *h, unsigned int *n)
{
	const struct plan *plan = &c->plan;
	struct iovec msg = {c->pub.msg, c->pub.msg_len};
	struct iovec reply = {c->pub.reply_buf.iov_base, c->pub.reply_max};
	int err = 0;

	if (plan->long_call)
		err = map_segment(c, n, msg, FMR_REMOTE_READ, &h->call_chunk);
	h->read_pos = c->pub.out_pos;
	for (unsigned int i = 0; plan->read_chunk && i < c->pub.nout && !err; i++)
		err = map_segment(c, n, c->pub.out[i], FMR_REMOTE_READ, &h->read_chunk);
	if (plan->write_chunk && !err)
		err = map_segment(c, n, c->pub.in, FMR_REMOTE_WRITE, &h->write_chunk);
	if (plan->reply_chunk && !err)
		err = map_segment(c, n, reply, FMR_REMOTE_WRITE, &h->reply_chunk);
	return err;
}

static void add_sge(struct rdma_sge *sge, unsigned int *n, void *addr, uint32_t len_bytes, uint32_t lkey)
{
	if (len_bytes)
		sge[(*n)++] = (struct rdma_sge){addr, len_bytes, lkey};
}

/* What the Send gathers: the header, and whatever of the message is inline, payload in its place
 * and padded. */
static unsigned int gather(struct call *c, uint32_t header_len, struct rdma_sge *sge)
{
	struct rpcrdma_call *pub = &c->pub;
	unsigned int n = 0;

	add_sge(sge, &n, c->header, header_len, c->header_region->lkey);
	if (c->plan.long_call)
		return n;
	if (c->plan.read_chunk || !pub->nout) {
		add_sge(sge, &n, pub->msg, pub->msg_len, c->msg_region->lkey);
		return n;
	}
	add_sge(sge, &n, pub->msg, pub->out_pos, c->msg_region->lkey);
	for (unsigned int i = 0; i < pub->nout; i++)
		add_sge(sge, &n, pub->out[i].iov_base, (uint32_t)pub->out[i].iov_len,
			lkey_of(c->x, pub->out[i].iov_base, pub->out[i].iov_len));
	add_sge(sge, &n, c->header + HEADER_BYTES - 4, xdr_pad(c->plan.out_bytes), c->header_region->lkey);
	add_sge(sge, &n, pub->msg + pub->out_pos, pub->msg_len - pub->out_pos, c->msg_region->lkey);
	return n;
}

static void count_kind(const struct call *c)
{
	struct rpcrdma_kind_stats *kind = c->pub.kind;

	if (!kind)
		return;
	kind->sends++;
	kind->retransmits += c->pub.transmissions > 1;
	kind->sent_bytes += (uint64_t)c->pub.msg_len + xdr_padded(c->plan.out_bytes);
	if (c->x->params.clock_ns && c->pub.transmissions == 1)
		latency_add(&kind->queue,
			    c->pub.sent_ns > c->pub.submitted_ns ? c->pub.sent_ns - c->pub.submitted_ns : 0);
}

static void count_sent(struct rpcrdma_xprt *x, struct call *c)
{
	struct rpcrdma_stats *s = x->stats;

	s->sends++;
	s->retransmits += c->pub.transmissions > 1;
	s->long_calls += c->plan.long_call;
	if (c->plan.read_chunk)
		s->out_rdma_bytes += c->plan.out_bytes;
	else
		s->out_inline_bytes += c->plan.out_bytes;
	s->outstanding = x->credits.in_use;
	if (s->outstanding > s->outstanding_peak)
		s->outstanding_peak = s->outstanding;
	count_kind(c);
}

/* Map and queue one call that has its credit and its fmrs. Any failure here ends the connection: what was
 * queued cannot be taken back. */
static int send_call(struct rpcrdma_xprt *x, struct call *c, uint64_t now_ns)
{
	struct rpcrdma_header h = {.xid = c->pub.xid,
				   .vers = RPCRDMA_VERSION,
				   .credits = x->credits.limit,
				   .proc = c->plan.long_call ? RDMA_NOMSG : RDMA_MSG};
	struct rdma_sge sge[RDMA_SGE_MAX];
	unsigned int mapped = 0;

	int err = map_segments(c, &h, &mapped);
	if (err)
		return err;
	if (x->params.clock_ns && mapped > 0) {
		uint64_t mapped_ns = clock_now(x);
		latency_add(&x->times->map, mapped_ns - now_ns);
		now_ns = mapped_ns;
	}
	struct xdr_writer w = xdr_writer(c->header, HEADER_BYTES - 4);
	rpcrdma_header_encode(&w, &h);
	assert(!w.stuck);
	unsigned int nsge = gather(c, (uint32_t)xdr_written(&w), sge);
	err = x->ep->ops->queue_send(x->ep, sge, nsge, 0, c);
	if (err)
		return err;
	c->send_pending = true;
	c->pub.sent_ns = now_ns;
	c->pub.transmissions++;
	x->doorbell_due = true;
	count_sent(x, c);
	return 0;
}

bool ring_doorbell(struct rpcrdma_xprt *x)
{
	if (!x->doorbell_due || !x->up || x->lost)
		return false;
	x->doorbell_due = false;
	x->stats->doorbells++;
	int err = x->ep->ops->doorbell(x->ep);
	if (err)
		connection_lost(x, err, x->ep->why[0] ? x->ep->why : "the device refused the send queue");
	return true;
}

static enum rpcrdma_waits waits_for(const struct rpcrdma_xprt *x)
{
	if (TAILQ_EMPTY(&x->queue))
		return RPCRDMA_WAITS_FOR_NOTHING;
	if (!x->up || x->lost)
		return RPCRDMA_WAITS_FOR_CONNECTION;
	return credits_available(&x->credits) ? RPCRDMA_WAITS_FOR_REGISTRATIONS : RPCRDMA_WAITS_FOR_CREDIT;
}

void rpcrdma_flush(struct rpcrdma_xprt *x, uint64_t now_ns)
{
	struct call *c;

	while (x->up && !x->lost && (c = TAILQ_FIRST(&x->queue)) && credits_available(&x->credits)) {
		int err = plan_call(&c->pub, &x->limits, &c->plan);
		if (err) {
			TAILQ_REMOVE(&x->queue, c, link);
			x->stats->queued--;
			call_finish(c, err);
			continue;
		}
		if (fmrpool_borrow(x->pool, c->plan.fmrs, c->fmrs, c))
			break;
		credits_take(&x->credits);
		TAILQ_REMOVE(&x->queue, c, link);
		x->stats->queued--;
		call_move(c, CALL_SENT);
		TAILQ_INSERT_TAIL(&x->sent, c, link);
		err = send_call(x, c, x->params.clock_ns ? clock_now(x) : now_ns);
		if (err)
			connection_lost(x, err, "a call could not be queued on the device");
	}
	x->stats->waits_for = waits_for(x);
	ring_doorbell(x);
	count_device(x);
	fmrpool_stats(x->pool); /* brings the arena's figures up to date for those who read along */
}
