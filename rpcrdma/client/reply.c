/* SPDX-License-Identifier: MIT
 *
 * poll -> match -> unmap -> finish: how a reply is believed.
 *
 * ORDER: a reply is decoded and checked first, then every fmr of its call is unmapped, and done() is called
 * only after the last of those completions: what the caller reads can no longer be changed by the server (RFC
 * 8166 §4.4.1). The receive buffer goes back to the device before the credit is used again, so a receive is
 * always posted for every call that is outstanding.
 *
 * Distrust. The number of segments, their lengths and the kind of message must be those that the call asked
 * for. A message that belongs to no call, or is too short to be one, is dropped; one that matches a call and
 * breaks the protocol fails that call (RFC 8166 §4.5 would have it dropped too: the call would then keep its
 * credit and end the connection by its time-out, only to be answered in the same way); one that invalidated
 * memory which is not its call's ends the connection.
 */
#include "xprt.h"

#include <assert.h>
#include <errno.h>

int post_recv(struct rpcrdma_xprt *x, struct recv *r)
{
	struct rdma_sge sge = {r->buf, x->params.inline_bytes, r->region->lkey};

	return x->ep->ops->queue_recv(x->ep, &sge, r);
}

void repost_recv(struct rpcrdma_xprt *x, struct recv *r)
{
	if (!x->up || x->lost)
		return; /* the next connection posts them all */
	int err = post_recv(x, r);
	if (err)
		connection_lost(x, err, "a receive could not be posted");
}

/* A chunk that the server returns: absent, or one segment of at most what we offered. *used gets
 * its bytes. */
static int check_returned(bool offered, size_t offered_bytes, const struct rpcrdma_chunk *chunk,
			  uint32_t *used)
{
	*used = 0;
	if (chunk->nsegs == 0)
		return 0;
	if (!offered || chunk->nsegs != 1 || chunk->segs[0].length > offered_bytes)
		return -EPROTO;
	*used = chunk->segs[0].length;
	return 0;
}

static int accept_message(struct call *c, const struct rpcrdma_header *h, struct xdr_reader *r)
{
	struct rpcrdma_call *pub = &c->pub;
	uint32_t placed, long_reply;
	int err = check_returned(c->plan.write_chunk, pub->in.iov_len, &h->write_chunk, &placed);

	if (!err)
		err = check_returned(c->plan.reply_chunk, pub->reply_max, &h->reply_chunk, &long_reply);
	if (!err && (h->proc == RDMA_NOMSG) != (long_reply > 0))
		err = -EPROTO;
	if (err)
		return err;

	if (h->proc == RDMA_NOMSG) {
		pub->reply = pub->reply_buf.iov_base;
		pub->reply_len = long_reply;
		c->x->stats->long_replies++;
	} else {
		pub->reply = r->pos;
		pub->reply_len = (uint32_t)xdr_left(r);
		c->x->stats->in_inline_bytes += pub->reply_len;
	}
	pub->in_placed = placed > 0;
	pub->in_len = placed;
	c->x->stats->in_rdma_bytes += (uint64_t)placed + long_reply;
	return 0;
}

/* What the message says about its call: 0 and the reply noted, or the call's failure. */
static int read_reply(struct call *c, const struct rpcrdma_header *h, struct xdr_reader *r)
{
	struct rpcrdma_stats *s = c->x->stats;

	if (h->proc == RDMA_ERROR) {
		s->rdma_errors++;
		return h->error == ERR_CHUNK ? -EIO : -EPROTONOSUPPORT;
	}
	int err = accept_message(c, h, r);
	if (err)
		s->bad_replies++;
	return err;
}

/* It answers the latest transmission: none is repeated on the same connection. */
static void count_reply(const struct call *c)
{
	struct rpcrdma_kind_stats *kind = c->pub.kind;

	if (!kind)
		return;
	kind->replies++;
	kind->received_bytes += (uint64_t)c->pub.reply_len + xdr_padded(c->pub.in_len);
	if (c->replied_ns)
		latency_add(&kind->rtt, c->replied_ns > c->pub.sent_ns ? c->replied_ns - c->pub.sent_ns : 0);
}

static void maybe_finish(struct call *c)
{
	if (c->state == CALL_REPLIED && c->unmapping == 0 && !c->send_pending)
		call_finish(c, c->pub.status);
}

/* Takes the server's access away. invalidated: the key that the reply itself has invalidated, 0 for none. */
static void unmap_all(struct call *c, uint32_t invalidated)
{
	struct rpcrdma_xprt *x = c->x;

	c->unmapping = 0;
	for (unsigned int i = 0; i < c->plan.fmrs; i++) {
		struct fmr *fmr = c->fmrs[i];

		if (invalidated && fmr->rkey == invalidated) {
			fmrpool_unmapped(x->pool, fmr, true);
			continue;
		}
		int err = fmrpool_unmap(x->pool, fmr);
		if (err) {
			c->unmapping++; /* never completes: the end of the connection unmaps it */
			connection_lost(x, err, "a registration could not be invalidated");
		} else if (fmr->state == FMR_UNMAPPING) {
			c->unmapping++;
			x->doorbell_due = true;
		}
	}
}

static bool owns_key(const struct call *c, uint32_t rkey)
{
	for (unsigned int i = 0; i < c->plan.fmrs; i++)
		if (c->fmrs[i]->rkey == rkey)
			return true;
	return false;
}

static void on_message(struct rpcrdma_xprt *x, struct recv *recv, const struct rdma_wc *wc)
{
	struct xdr_reader r = xdr_reader(recv->buf, wc->len_bytes);
	struct rpcrdma_header h;
	int err = rpcrdma_header_decode(&r, true, &h);

	/* RFC 8166 §4.5: not even the XID of what is shorter than any header can be trusted. */
	struct call *c = wc->len_bytes < RPCRDMA_HDR_ERROR_MIN ? NULL : call_by_xid(x, h.xid);
	if (c && c->state != CALL_SENT)
		c = NULL;
	if (wc->invalidated && (!c || !owns_key(c, wc->invalidated_rkey))) {
		x->stats->bad_replies++;
		connection_lost(x, -EPROTO,
				"the server invalidated a key that is not of the call it answered");
		return;
	}
	if (!c) {
		x->stats->unknown_replies++;
		repost_recv(x, recv);
		return;
	}
	call_move(c, CALL_REPLIED);
	c->recv = recv;
	c->replied_ns = x->polled_ns;
	x->stats->replies++;
	x->answered = true;
	backoff_reset(&x->backoff);
	if (err) {
		x->stats->bad_replies++;
		c->pub.status = -EPROTO;
	} else {
		credits_granted(&x->credits, h.credits);
		x->stats->credits = x->credits.granted;
		c->pub.status = read_reply(c, &h, &r);
	}
	count_reply(c);
	unmap_all(c, wc->invalidated ? wc->invalidated_rkey : 0);
	maybe_finish(c);
}

static void on_completion(struct rpcrdma_xprt *x, const struct rdma_wc *wc)
{
	struct recv *recv = wc->kind == RDMA_WC_RECV ? wc->ctx : NULL;
	struct call *c = NULL;

	if (wc->kind == RDMA_WC_SEND)
		c = wc->ctx;
	else if (wc->kind == RDMA_WC_INVALIDATE)
		c = ((struct fmr *)wc->ctx)->owner;

	if (c && wc->kind == RDMA_WC_SEND)
		c->send_pending = false;
	if (wc->status) {
		if (wc->status != -ECANCELED) /* flushed: the endpoint's state tells why */
			connection_lost(x, wc->status,
					x->ep->why[0] ? x->ep->why : "a request failed on the device");
		return;
	}
	if (recv) {
		on_message(x, recv, wc);
		return;
	}
	if (wc->kind == RDMA_WC_INVALIDATE) {
		fmrpool_unmapped(x->pool, wc->ctx, false);
		if (--c->unmapping == 0 && c->replied_ns)
			latency_add(&x->times->unmap, x->polled_ns - c->replied_ns);
	}
	if (c)
		maybe_finish(c);
}

bool poll_completions(struct rpcrdma_xprt *x)
{
	struct rdma_wc wc[32];
	int n = x->ep->ops->poll(x->ep, wc, sizeof wc / sizeof wc[0]);

	if (n > 0)
		x->polled_ns = clock_now(x);
	for (int i = 0; i < n; i++)
		on_completion(x, &wc[i]);
	return n > 0;
}
