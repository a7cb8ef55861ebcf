/* SPDX-License-Identifier: MIT
 *
 * The connection: accepting it, completions, the doorbell, the end.
 */
#include "svc.h"

#include <errno.h>
#include <stdio.h>

#define PROGRESS_ROUNDS 16 /* a fair share: then other connections of the thread have their turn */

/* The connection is over because of what we saw; if the device has already ended it, its reason stands. */
void svc_fail(struct rpcrdma_svc *svc, int error, const char *why)
{
	if (svc->over)
		return;
	svc->over = true;
	if (svc->ep->state == RDMA_EP_CLOSED)
		return;
	svc->ep->ops->disconnect(svc->ep);
	svc->ep->error = error;
	snprintf(svc->ep->why, sizeof svc->ep->why, "%s", why);
}

static void on_completion(struct rpcrdma_svc *svc, const struct rdma_wc *wc)
{
	if (wc->status) {
		if (svc->ep->state == RDMA_EP_ESTABLISHED)
			svc_fail(svc, wc->status, "a request failed at the device");
		return;
	}
	switch (wc->kind) {
	case RDMA_WC_RECV:
		svc_on_recv(svc, wc->ctx, wc->len_bytes);
		break;
	case RDMA_WC_READ:
		req_on_read(svc, wc->ctx);
		break;
	case RDMA_WC_SEND:
		req_release(svc, wc->ctx);
		break;
	case RDMA_WC_WRITE:
	case RDMA_WC_INVALIDATE:
		break; /* none is asked for */
	}
}

static int poll_some(struct rpcrdma_svc *svc)
{
	struct rdma_wc wc[POLL_BATCH];
	int n = svc->ep->ops->poll(svc->ep, wc, POLL_BATCH);

	for (int i = 0; i < n && !svc->over; i++)
		on_completion(svc, &wc[i]);
	return n;
}

/* One doorbell for all replies and RDMA Reads that were queued; false when there was nothing. */
static bool flush(struct rpcrdma_svc *svc)
{
	if (!svc->queued || svc->over)
		return false;
	svc->queued = false;
	int err = svc->ep->ops->doorbell(svc->ep);
	if (err)
		svc_fail(svc, err, "cannot send");
	return true;
}

/* The device may hold fewer receives than asked for: then fewer credits are granted. */
static int set_limits(struct rpcrdma_svc *svc)
{
	const struct rdma_limits *limits = &svc->ep->limits;

	if (limits->max_recv <= RECV_SPARE || limits->max_send < CALL_SLOTS_MAX + 1)
		return -ENOBUFS;
	if (svc->credits > limits->max_recv - RECV_SPARE)
		svc->credits = limits->max_recv - RECV_SPARE;
	return 0;
}

/* RFC 8797 §4: both sides say what they can take; the lesser of what one sends and the other takes holds. */
static void accept_connection(struct rpcrdma_svc *svc)
{
	struct rdma_ep *ep = svc->ep;
	struct rpcrdma_private theirs, ours = {.remote_invalidate = svc->params.remote_invalidate,
					       .send_bytes = svc->params.inline_bytes,
					       .recv_bytes = svc->params.inline_bytes};
	uint8_t priv[RPCRDMA_PRIVATE_BYTES];

	svc->accepted = true;
	rpcrdma_private_decode(ep->peer_private, ep->peer_private_len, &theirs);
	svc->send_max = min_u32(theirs.recv_bytes, svc->params.inline_bytes);
	svc->invalidate = svc->params.remote_invalidate && theirs.remote_invalidate;
	if (set_limits(svc)) {
		svc_fail(svc, -ENOBUFS, "the device's queues are too short");
		return;
	}
	/* ORDER: before accept(), for the client may send as soon as it hears of it. */
	for (uint32_t i = 0; i < svc->credits + RECV_SPARE && !svc->over; i++)
		svc_post_recv(svc, &svc->recvs[i]);
	if (svc->over)
		return;
	rpcrdma_private_encode(priv, &ours);
	int err = ep->ops->accept(ep, priv, sizeof priv);
	if (err)
		svc_fail(svc, err, "cannot accept the connection");
}

bool rpcrdma_svc_progress(struct rpcrdma_svc *svc, uint64_t now_ns)
{
	if (svc->over)
		return false;
	bool more = svc->ep->ops->progress(svc->ep, now_ns);
	if (svc->ep->state == RDMA_EP_REQUESTED && !svc->accepted)
		accept_connection(svc);
	for (int round = 0; round < PROGRESS_ROUNDS && !rpcrdma_svc_closed(svc); round++) {
		int polled = poll_some(svc);
		svc_start_waiting(svc);
		svc_start_received(svc);
		if (!flush(svc) && !polled)
			return more;
	}
	return !rpcrdma_svc_closed(svc);
}
