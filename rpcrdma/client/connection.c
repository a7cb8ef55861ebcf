/* SPDX-License-Identifier: MIT
 *
 * Connecting, and losing a connection.
 *
 * Normal operation. A connection starts with one credit, the smaller of both ends' inline thresholds, a
 * window for every fmr and a receive for every credit.
 *
 * Recovery, in this order, because each step is what makes the next one safe:
 *	1. the endpoint is disconnected and drained: the server can reach nothing, and nothing of ours is at
 *	   the device;
 *	2. the windows are freed, so every fmr is unmapped (RFC 8166 §4.4.1 by way of the connection's end);
 *	3. calls without a reply give their fmrs back and wait again, in their old order, before all others;
 *	   calls whose reply had come are finished: their memory can no longer change;
 *	4. the next attempt is scheduled: at once if this connection has answered a call. One that was made
 *	   and answered nothing is no reason for haste: the server may hang up on the very call that is sent
 *	   first on the next one.
 * It happens in one place only, end_connection(), which rpcrdma_progress() calls; whoever finds a reason
 * notes it by connection_lost().
 */
#include "xprt.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

void connection_lost(struct rpcrdma_xprt *x, int error, const char *why)
{
	if (x->lost)
		return;
	if (x->ep->state == RDMA_EP_CLOSED && x->ep->error) {
		error = x->ep->error;
		why = x->ep->why;
	}
	x->lost = true;
	x->lost_error = error;
	snprintf(x->lost_why, sizeof x->lost_why, "%s", why);
}

static uint32_t next_random(struct rpcrdma_xprt *x)
{
	x->random = x->random * 1664525u + 1013904223u;
	return x->random >> 8;
}

static uint32_t min_u32(uint32_t a, uint32_t b)
{
	return a < b ? a : b;
}

static void start_connecting(struct rpcrdma_xprt *x)
{
	x->offered_invalidate = x->ep->limits.remote_invalidate && x->params.strategy == FMR_WINDOW;
	struct rpcrdma_private offer = {.remote_invalidate = x->offered_invalidate,
					.send_bytes = x->params.inline_bytes,
					.recv_bytes = x->params.inline_bytes};
	uint8_t priv[RPCRDMA_PRIVATE_BYTES];

	rpcrdma_private_encode(priv, &offer);
	x->connecting = true;
	x->stats->state = RPCRDMA_STATE_CONNECTING;
	int err = x->ep->ops->connect(x->ep, (const struct sockaddr *)&x->params.addr, x->params.addr_len,
				      priv, sizeof priv);
	if (err)
		connection_lost(x, err, x->ep->why[0] ? x->ep->why : strerror(-err));
}

/* RFC 8797 §4.2: each direction has the smaller of what one side sends and the other receives. */
static void agree_on_limits(struct rpcrdma_xprt *x)
{
	struct rpcrdma_private peer;

	rpcrdma_private_decode(x->ep->peer_private, x->ep->peer_private_len, &peer);
	x->limits = (struct plan_limits){.send_bytes = min_u32(x->params.inline_bytes, peer.recv_bytes),
					 .recv_bytes = min_u32(x->params.inline_bytes, peer.send_bytes),
					 .max_sge = min_u32(x->ep->limits.max_sge, RDMA_SGE_MAX)};
}

bool rpcrdma_agreed(const struct rpcrdma_xprt *x, struct rpcrdma_agreed *agreed)
{
	struct rpcrdma_private peer;

	if (!x->up)
		return false;
	bool told = rpcrdma_private_decode(x->ep->peer_private, x->ep->peer_private_len, &peer);
	*agreed = (struct rpcrdma_agreed){.send_bytes = x->limits.send_bytes,
					  .recv_bytes = x->limits.recv_bytes,
					  .peer_told = told,
					  .offers_invalidate = x->offered_invalidate,
					  .peer_invalidates = peer.remote_invalidate};
	return true;
}

/* A device may hold less than was asked for: then fewer credits are used. */
static int fit_queues(struct rpcrdma_xprt *x)
{
	const struct rdma_limits *limits = &x->ep->limits;
	uint32_t credits = min_u32(x->nrecvs, limits->max_recv);

	if (credits <= SPARE_RECVS)
		return -ENOBUFS;
	credits -= SPARE_RECVS;
	while (credits && send_queue_depth(credits) > limits->max_send)
		credits--;
	x->nposted = credits + SPARE_RECVS;
	return credits ? 0 : -ENOBUFS;
}

static void on_established(struct rpcrdma_xprt *x)
{
	int err = fmrpool_connected(x->pool);

	if (err) {
		connection_lost(x, err, "no memory windows could be allocated");
		return;
	}
	agree_on_limits(x);
	err = fit_queues(x);
	if (err) {
		connection_lost(x, err, "the device's queues are too short");
		return;
	}
	credits_reset(&x->credits, x->nposted - SPARE_RECVS);
	for (unsigned int i = 0; i < x->nposted; i++) {
		err = post_recv(x, &x->recvs[i]);
		if (err) {
			connection_lost(x, err, "receives could not be posted");
			return;
		}
	}
	x->connecting = false;
	x->up = true;
	x->attempts = 0;
	x->answered = false;
	x->stats->state = RPCRDMA_STATE_UP;
	x->stats->failures = 0;
	x->stats->connects++;
	x->stats->credits = 1;
	x->params.on_status(x->params.ctx, &(struct rpcrdma_status){.event = RPCRDMA_UP});
}

/* Step 1. Completions of what was flushed are taken so that nobody waits for them later. */
static void drain(struct rpcrdma_xprt *x)
{
	x->up = false;
	x->connecting = false;
	x->doorbell_due = false;
	x->ep->ops->disconnect(x->ep);
	while (poll_completions(x))
		;
}

/* Step 3, for one call. */
static void carry_over(struct rpcrdma_xprt *x, struct call *c)
{
	c->send_pending = false;
	c->unmapping = 0;
	if (c->state == CALL_REPLIED) {
		call_finish(c, c->pub.status);
		return;
	}
	TAILQ_REMOVE(&x->sent, c, link);
	fmrpool_return(x->pool, c->plan.fmrs, c->fmrs);
	if (c->abandoned) {
		call_release(c);
		return;
	}
	call_move(c, CALL_QUEUED);
	TAILQ_INSERT_HEAD(&x->queue, c, link);
	x->stats->queued++;
}

static void schedule_retry(struct rpcrdma_xprt *x, bool was_up, uint64_t now_ns)
{
	uint64_t delay = was_up && x->answered ? 0 : backoff_next(&x->backoff, next_random(x));

	x->retry_at_ns = now_ns + delay;
	x->attempts = was_up ? 0 : x->attempts + 1;
	x->stats->state = RPCRDMA_STATE_DOWN;
	x->stats->failures = x->attempts;
	x->stopped = x->params.one_shot && x->stats->connects == 0;
	x->params.on_status(x->params.ctx, &(struct rpcrdma_status){.event = RPCRDMA_DOWN,
								    .error = x->lost_error,
								    .why = x->lost_why,
								    .retry_ns = delay,
								    .attempts = x->attempts});
}

static void end_connection(struct rpcrdma_xprt *x, uint64_t now_ns)
{
	struct call *c;
	bool was_up = x->up;

	drain(x);
	fmrpool_disconnected(x->pool);
	while ((c = TAILQ_LAST(&x->sent, call_list)))
		carry_over(x, c);
	forget_recvs(x);
	x->credits.in_use = 0;
	x->stats->outstanding = 0;
	x->stats->credits = 0;
	if (was_up)
		x->stats->disconnects++;
	x->lost = false;
	schedule_retry(x, was_up, now_ns);
}

bool advance_connection(struct rpcrdma_xprt *x, uint64_t now_ns)
{
	bool more = false;

	if (!x->up && !x->connecting && !x->lost && !x->stopped && now_ns >= x->retry_at_ns)
		start_connecting(x);
	if (x->ep->state != RDMA_EP_IDLE && !x->lost)
		more = x->ep->ops->progress(x->ep, now_ns);
	if (x->connecting && x->ep->state == RDMA_EP_ESTABLISHED && !x->lost)
		on_established(x);
	/* Replies that came before the end are worth having: take them first. Their invalidates share a
	 * doorbell, and on some devices have completed when it returns. */
	do
		while (poll_completions(x))
			;
	while (ring_doorbell(x));
	if (x->ep->state == RDMA_EP_CLOSED)
		connection_lost(x, x->ep->error, x->ep->why);
	if (x->lost) {
		end_connection(x, now_ns);
		more = true;
	}
	return more;
}

/* The receives that finished calls still hold, and their credits, are not those of the next connection. */
void forget_recvs(struct rpcrdma_xprt *x)
{
	struct call *c;

	TAILQ_FOREACH(c, &x->finished, link)
		c->recv = NULL;
}

uint64_t call_deadline(const struct call *c)
{
	const struct rpcrdma_params *p = &c->x->params;

	return c->pub.submitted_ns + ((uint64_t)p->retrans + 1) * p->timeo_ns;
}

const struct call *first_due(const struct rpcrdma_xprt *x)
{
	const struct call *c;

	TAILQ_FOREACH(c, &x->sent, link) {
		if (!c->abandoned)
			break;
	}
	return c;
}

/* Calls of a soft mount that have used up their time and hold nothing at the device fail. Those of one lane
 * are queued in the order of their deadlines, but for the few that a lost connection brought back. */
static void fail_overdue(struct rpcrdma_xprt *x, uint64_t now_ns)
{
	struct call *c;

	while ((c = TAILQ_FIRST(&x->queue)) && now_ns >= call_deadline(c)) {
		TAILQ_REMOVE(&x->queue, c, link);
		x->stats->queued--;
		call_finish(c, -ETIMEDOUT);
	}
}

/* An unanswered call ends the connection: a retransmission never goes on the same one, and only its end makes
 * the memory of a call that has used up its time safe. */
void check_timeouts(struct rpcrdma_xprt *x, uint64_t now_ns)
{
	const struct call *oldest = TAILQ_FIRST(&x->sent);
	bool soft = x->params.soft;
	const struct call *due = soft ? first_due(x) : NULL;

	if ((oldest && now_ns >= oldest->pub.sent_ns + x->params.timeo_ns) ||
	    (due && now_ns >= call_deadline(due))) {
		x->stats->timeouts++;
		connection_lost(x, -ETIMEDOUT, "the server did not answer in time");
		end_connection(x, now_ns);
	}
	if (soft)
		fail_overdue(x, now_ns);
}
