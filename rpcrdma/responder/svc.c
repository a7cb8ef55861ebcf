/* SPDX-License-Identifier: MIT
 *
 * Making and ending a responder, and what every end of a call has in common.
 */
#include "svc.h"

#include <errno.h>
#include <stdlib.h>

/* Nothing can be sent any more. */
bool svc_gone(const struct rpcrdma_svc *svc)
{
	return svc->over || svc->ep->state != RDMA_EP_ESTABLISHED;
}

void svc_post_recv(struct rpcrdma_svc *svc, struct recv *recv)
{
	struct rdma_sge sge = svc_sge(svc, recv->addr, svc->params.inline_bytes);
	int err = svc->ep->ops->queue_recv(svc->ep, &sge, recv);
	if (err)
		svc_fail(svc, err, "cannot post a receive");
}

/* The call is answered, or never will be: the client may send another one. */
void req_return_credit(struct rpcrdma_svc *svc, struct req *req)
{
	assert(svc->unanswered > 0);
	svc->unanswered--;
	if (!svc_gone(svc))
		svc_post_recv(svc, req->recv);
	req->recv = NULL;
	req->call.msg = NULL;
}

void req_release(struct rpcrdma_svc *svc, struct req *req)
{
	req_free_runs(svc, req);
	svc->slots_used -= req->slots;
	req->slots = 0;
	req->state = REQ_FREE;
	req->next = svc->free;
	svc->free = req;
}

void req_discard(struct rpcrdma_svc *svc, struct req *req)
{
	svc->stats.dropped++;
	req_return_credit(svc, req);
	req_release(svc, req);
}

bool rpcrdma_svc_closed(const struct rpcrdma_svc *svc)
{
	return svc->over || svc->ep->state == RDMA_EP_CLOSED || svc->ep->state == RDMA_EP_IDLE;
}

const struct rdma_ep *rpcrdma_svc_endpoint(const struct rpcrdma_svc *svc)
{
	return svc->ep;
}

uint64_t rpcrdma_svc_next_timeout(const struct rpcrdma_svc *svc)
{
	return svc->ep->timeout_ns && !rpcrdma_svc_closed(svc) ? svc->ep->timeout_ns : UINT64_MAX;
}

const struct rpcrdma_svc_stats *rpcrdma_svc_stats(const struct rpcrdma_svc *svc)
{
	return &svc->stats;
}

int rpcrdma_svc_create(const struct rpcrdma_svc_params *params, struct rpcrdma_svc **out)
{
	struct rpcrdma_svc *svc = calloc(1, sizeof *svc);

	if (!svc) {
		params->ep->ops->close(params->ep);
		return -ENOMEM;
	}
	svc->params = *params;
	svc->ep = params->ep;
	svc->credits = params->credits;
	svc->received.end = &svc->received.head;
	svc->waiting.end = &svc->waiting.head;
	int err = svc_params_are_good(params) ? svc_make_pool(svc) : -EINVAL;
	if (!err)
		err = svc_make_buffers(svc);
	if (err) {
		rpcrdma_svc_destroy(svc);
		return err;
	}
	*out = svc;
	return 0;
}

/* ORDER: the connection ends and what it had of our memory comes back, then the registrations go, then the
 * endpoint that they belong to, then the memory. */
void rpcrdma_svc_destroy(struct rpcrdma_svc *svc)
{
	struct rdma_wc wc[POLL_BATCH];

	if (!svc)
		return;
	svc->ep->ops->disconnect(svc->ep);
	while (svc->ep->ops->poll(svc->ep, wc, POLL_BATCH) > 0)
		;
	if (svc->pool)
		fmrpool_detach(svc->pool);
	svc->ep->ops->close(svc->ep);
	fmrpool_destroy(svc->pool);
	free(svc->recvs);
	free(svc->reqs);
	free(svc);
}
