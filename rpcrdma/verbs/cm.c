/* SPDX-License-Identifier: MIT
 *
 * Connection set-up and end: rdma_cm, whose events come by a channel of the endpoint's own (news.c).
 *
 * Active side: resolve the address (now the adapter is known) -> resolve the route -> queue pair, receives ->
 * connect. Passive side: the listener hands over an id with its request -> accept() makes queue pair and
 * receives, and answers. One table says what each event does in which step; an event that is not expected
 * where it comes is dropped.
 *
 * An event is copied and acknowledged before it is looked at: rdma_cm does not let an id go that has one
 * unacknowledged.
 */
#include "endpoint.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <time.h>

#define MS_NS 1000000ull
#define RESOLVE_MS 5000 /* as Linux's NFS client */
#define CONNECT_MS 10000
#define RETRY_COUNT 6	       /* transport retries, as Linux's NFS client */
#define RNR_RETRY_COUNT 0      /* credits see to it that a receive is posted */
#define IB_REJECT_NO_SERVICE 8 /* InfiniBand Architecture, vol. 1, table 110: invalid service id */
#define IB_REJECT_CONSUMER 28  /* the peer's software said no */

static uint64_t now_monotonic(void)
{
	struct timespec ts;
	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
}

static void enter_step(struct endpoint *ep, enum setup_step step, unsigned int timeout_ms)
{
	ep->step = step;
	ep->deadline_ns = timeout_ms ? now_monotonic() + timeout_ms * MS_NS : 0;
}

int verbs_cm_watch(struct endpoint *ep)
{
	struct epoll_event event = {.events = EPOLLIN | EPOLLET, .data.ptr = ep->epoll_data};

	int err = verbs_news_open(&ep->news);

	if (!err && epoll_ctl(ep->epoll_fd, EPOLL_CTL_ADD, ep->news.fd, &event) < 0)
		err = -errno;
	return err;
}

/* ---- the end ---- */

void verbs_ep_end(struct endpoint *ep, int error, const char *why, ...)
{
	bool was_up = ep->ep.state == RDMA_EP_ESTABLISHED, flushes = false;
	va_list args;

	if (ep->ep.state == RDMA_EP_CLOSED || ep->ep.state == RDMA_EP_IDLE)
		return;
	va_start(args, why);
	vsnprintf(ep->ep.why, sizeof ep->ep.why, why, args);
	va_end(args);
	ep->ep.error = error;
	ep->ep.state = RDMA_EP_CLOSED;
	ep->step = SETUP_NONE;
	ep->deadline_ns = 0;
	if (ep->id && ep->id->qp) {
		struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};
		if (was_up)
			rdma_disconnect(ep->id); /* also tells the peer */
		int err = ibv_modify_qp(ep->id->qp, &attr, IBV_QP_STATE);
		flushes = err != EIO && err != ENODEV; /* what has been pulled out takes no command */
	}
	verbs_ep_collect_flushed(ep, flushes);
	verbs_ep_update_timeout(ep);
}

/* ORDER: windows before the queue pair that they may be bound to; what we have of an adapter before the last
 * id that is bound to it. */
void verbs_cm_release(struct endpoint *ep)
{
	struct rdma_cm_id *id = ep->id;

	if (!id || ep->nwindows)
		return;
	if (id->qp)
		rdma_destroy_qp(id);
	ep->id = NULL;
	if (id->verbs && verbs_context_keep(id))
		return;
	if (id->verbs && id->verbs == ep->adapter.context)
		verbs_adapter_leave(ep);
	rdma_destroy_id(id);
}

static bool adapter_is_removed(const struct endpoint *ep)
{
	return ep->adapter.context && verbs_context_is_removed(ep->adapter.context);
}

/* ---- active side ---- */

static const char *no_route(int error)
{
	switch (error) {
	case ENODEV:
		return "no RDMA device on the route to the server";
	case ETIMEDOUT:
		return "no answer to the question for the server's hardware address";
	default:
		return strerror(error);
	}
}

int verbs_cm_connect(struct endpoint *ep, const struct sockaddr *addr, const void *priv, uint32_t priv_len)
{
	struct sockaddr_storage to = {0};
	size_t len = addr->sa_family == AF_INET6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in);

	if (ep->nwindows)
		return -EBUSY; /* they hold on to the connection before */
	verbs_cm_release(ep);
	verbs_contexts_look();
	if (adapter_is_removed(ep))
		verbs_adapter_leave(ep);
	memcpy(&to, addr, len);
	if (priv_len)
		memcpy(ep->priv, priv, priv_len);
	ep->priv_len = priv_len;
	ep->passive = false;
	if (rdma_create_id(ep->news.cm, &ep->id, ep, RDMA_PS_TCP))
		return -errno;
	if (rdma_resolve_addr(ep->id, NULL, (struct sockaddr *)&to, RESOLVE_MS)) {
		int err = errno;
		snprintf(ep->ep.why, sizeof ep->ep.why, "%s", no_route(err));
		verbs_cm_release(ep);
		return -err;
	}
	ep->ep.state = RDMA_EP_CONNECTING;
	enter_step(ep, SETUP_ADDR, 2 * RESOLVE_MS);
	return 0;
}

static void on_addr_resolved(struct endpoint *ep, const struct rdma_cm_event *event)
{
	bool offered = ep->ep.limits.remote_invalidate;
	int err = verbs_adapter_use(ep, ep->id->verbs);

	if (err) {
		char why[sizeof ep->ep.why];
		memcpy(why, ep->ep.why, sizeof why);
		verbs_ep_end(ep, err, "%s", why);
		return;
	}
	if (offered && !ep->ep.limits.remote_invalidate) { /* it came after the endpoint was opened */
		ep->may_invalidate = false;
		verbs_ep_end(ep, -EAGAIN, "the RDMA device is another one than before");
		return;
	}
	ep->ep.limits.remote_invalidate = offered;
	if (rdma_resolve_route(ep->id, RESOLVE_MS))
		verbs_ep_end(ep, -errno, "no route: %s", strerror(errno));
	else
		enter_step(ep, SETUP_ROUTE, 2 * RESOLVE_MS);
}

static void on_route_resolved(struct endpoint *ep, const struct rdma_cm_event *event)
{
	struct rdma_conn_param param = {.private_data = ep->priv,
					.private_data_len = (uint8_t)ep->priv_len,
					.responder_resources = (uint8_t)ep->ep.limits.read_depth_in,
					.initiator_depth = (uint8_t)ep->ep.limits.read_depth_out,
					.retry_count = RETRY_COUNT,
					.rnr_retry_count = RNR_RETRY_COUNT};
	int err = verbs_adapter_make_qp(ep);

	if (err) {
		verbs_ep_end(ep, err, "no queue pair: %s", strerror(-err));
		return;
	}
	enter_step(ep, SETUP_CONNECT, CONNECT_MS);
	if (rdma_connect(ep->id, &param))
		verbs_ep_end(ep, -errno, "cannot connect: %s", strerror(errno));
}

static void keep_private(struct endpoint *ep, const struct rdma_cm_event *event)
{
	uint32_t len = event->param.conn.private_data_len;

	if (len > sizeof ep->ep.peer_private)
		len = sizeof ep->ep.peer_private;
	if (len)
		memcpy(ep->ep.peer_private, event->param.conn.private_data, len);
	ep->ep.peer_private_len = len;
}

static void on_connected(struct endpoint *ep, const struct rdma_cm_event *event)
{
	struct rdma_limits *limits = &ep->ep.limits;

	keep_private(ep, event);
	if (event->param.conn.responder_resources < limits->read_depth_in)
		limits->read_depth_in = event->param.conn.responder_resources;
	if (event->param.conn.initiator_depth < limits->read_depth_out)
		limits->read_depth_out = event->param.conn.initiator_depth;
	enter_step(ep, SETUP_NONE, 0);
	ep->ep.state = RDMA_EP_ESTABLISHED;
}

static void on_rejected(struct endpoint *ep, const struct rdma_cm_event *event)
{
	switch (event->status) {
	case IB_REJECT_CONSUMER:
	case -ECONNRESET: /* what iWARP makes of it */
		verbs_ep_end(ep, -EACCES, "the server rejected the connection");
		break;
	case IB_REJECT_NO_SERVICE:
	case -ECONNREFUSED:
		verbs_ep_end(ep, -ECONNREFUSED, "nothing listens on that RDMA port");
		break;
	default:
		verbs_ep_end(ep, -ECONNREFUSED, "the connection was rejected, reason %d", event->status);
	}
}

static void on_resolve_error(struct endpoint *ep, const struct rdma_cm_event *event)
{
	int error = event->status < 0 ? -event->status : EHOSTUNREACH;

	verbs_ep_end(ep, -error, "%s", no_route(error));
}

static void on_connect_error(struct endpoint *ep, const struct rdma_cm_event *event)
{
	int error = event->status < 0 ? -event->status : EHOSTUNREACH;

	verbs_ep_end(ep, -error, "cannot connect: %s", strerror(error));
}

static void on_unreachable(struct endpoint *ep, const struct rdma_cm_event *event)
{
	verbs_ep_end(ep, -ETIMEDOUT, "no answer");
}

/* ---- passive side ---- */

int verbs_cm_accept(struct endpoint *ep, const void *priv, uint32_t priv_len)
{
	struct rdma_limits *limits = &ep->ep.limits;

	if (ep->peer_reads_in < limits->read_depth_in)
		limits->read_depth_in = ep->peer_reads_in;
	if (ep->peer_reads_out < limits->read_depth_out)
		limits->read_depth_out = ep->peer_reads_out;
	struct rdma_conn_param param = {.private_data = priv,
					.private_data_len = (uint8_t)priv_len,
					.responder_resources = (uint8_t)limits->read_depth_in,
					.initiator_depth = (uint8_t)limits->read_depth_out,
					.rnr_retry_count = RNR_RETRY_COUNT};
	int err = verbs_adapter_make_qp(ep);
	if (!err && rdma_accept(ep->id, &param))
		err = -errno;
	if (err) {
		verbs_ep_end(ep, err, "cannot accept: %s", strerror(-err));
		return err;
	}
	ep->ep.state = RDMA_EP_CONNECTING;
	enter_step(ep, SETUP_ACCEPT, CONNECT_MS);
	return 0;
}

int verbs_cm_reject(struct endpoint *ep)
{
	rdma_reject(ep->id, NULL, 0);
	verbs_ep_end(ep, -ECONNABORTED, "rejected");
	return 0;
}

static void on_accepted(struct endpoint *ep, const struct rdma_cm_event *event)
{
	enter_step(ep, SETUP_NONE, 0);
	ep->ep.state = RDMA_EP_ESTABLISHED;
}

static void on_client_gone(struct endpoint *ep, const struct rdma_cm_event *event)
{
	verbs_ep_end(ep, -ECONNRESET, "the client closed the connection during set-up");
}

/* ---- at any time ---- */

static void on_disconnected(struct endpoint *ep, const struct rdma_cm_event *event)
{
	verbs_ep_end(ep, -ECONNRESET, "the peer closed the connection");
}

static void on_removal(struct endpoint *ep, const struct rdma_cm_event *event)
{
	if (ep->id->verbs)
		verbs_context_removed(ep->id->verbs);
	verbs_ep_end(ep, -ENODEV, "the RDMA device has gone");
}

#define STEP(s) (1u << SETUP_##s)
#define ANY_STEP ~0u

static const struct {
	enum rdma_cm_event_type type;
	unsigned int steps;
	void (*handle)(struct endpoint *ep, const struct rdma_cm_event *event);
} transitions[] = {
	{RDMA_CM_EVENT_ADDR_RESOLVED, STEP(ADDR), on_addr_resolved},
	{RDMA_CM_EVENT_ADDR_ERROR, STEP(ADDR), on_resolve_error},
	{RDMA_CM_EVENT_ROUTE_RESOLVED, STEP(ROUTE), on_route_resolved},
	{RDMA_CM_EVENT_ROUTE_ERROR, STEP(ROUTE), on_resolve_error},
	{RDMA_CM_EVENT_ESTABLISHED, STEP(CONNECT), on_connected},
	{RDMA_CM_EVENT_ESTABLISHED, STEP(ACCEPT), on_accepted},
	{RDMA_CM_EVENT_REJECTED, STEP(CONNECT), on_rejected},
	{RDMA_CM_EVENT_UNREACHABLE, STEP(CONNECT), on_unreachable},
	{RDMA_CM_EVENT_CONNECT_ERROR, STEP(CONNECT), on_connect_error},
	{RDMA_CM_EVENT_CONNECT_ERROR, STEP(ACCEPT) | STEP(REQUEST) | STEP(ANSWER), on_client_gone},
	{RDMA_CM_EVENT_UNREACHABLE, STEP(ACCEPT), on_client_gone},
	{RDMA_CM_EVENT_REJECTED, STEP(ACCEPT) | STEP(REQUEST) | STEP(ANSWER), on_client_gone},
	{RDMA_CM_EVENT_DISCONNECTED, ANY_STEP, on_disconnected},
	{RDMA_CM_EVENT_DEVICE_REMOVAL, ANY_STEP, on_removal},
};

static void on_event(struct endpoint *ep, const struct rdma_cm_event *event)
{
	for (size_t i = 0; i < sizeof transitions / sizeof *transitions; i++)
		if (transitions[i].type == event->event && transitions[i].steps & 1u << ep->step) {
			transitions[i].handle(ep, event);
			return;
		}
}

static void take_events(struct endpoint *ep)
{
	struct rdma_cm_event *event;

	while (rdma_get_cm_event(ep->news.cm, &event) == 0) {
		struct rdma_cm_event copy = *event;
		uint8_t priv[sizeof ep->ep.peer_private];
		size_t len = event->param.conn.private_data_len;
		bool conn = event->event == RDMA_CM_EVENT_ESTABLISHED && event->param.conn.private_data;

		if (len > sizeof priv)
			len = sizeof priv;
		if (conn)
			memcpy(priv, event->param.conn.private_data, len);
		copy.param.conn.private_data = priv;
		copy.param.conn.private_data_len = conn ? (uint8_t)len : 0;
		rdma_ack_cm_event(event);
		if (copy.id == ep->id)
			on_event(ep, &copy);
	}
}

static void on_deadline(struct endpoint *ep)
{
	static const char *const whys[] = {
		[SETUP_ADDR] = "the server's address could not be resolved in time",
		[SETUP_ROUTE] = "the route to the server could not be resolved in time",
		[SETUP_CONNECT] = "no answer",
		[SETUP_ACCEPT] = "the client did not confirm the connection in time",
	};

	if (ep->ep.state == RDMA_EP_ESTABLISHED)
		verbs_ep_end(ep, -EPROTO, "the adapter ended the connection: the peer broke the protocol");
	else if (ep->step < sizeof whys / sizeof *whys && whys[ep->step])
		verbs_ep_end(ep, -ETIMEDOUT, "%s", whys[ep->step]);
}

void verbs_cm_run(struct endpoint *ep, uint64_t now_ns)
{
	if (ep->step == SETUP_REQUEST && ep->ep.state == RDMA_EP_CONNECTING) {
		ep->step = SETUP_ANSWER;
		ep->ep.state = RDMA_EP_REQUESTED;
	}
	unsigned int news = verbs_news_take(&ep->news);
	if (news & NEWS_CM)
		take_events(ep);
	if (news && adapter_is_removed(ep)) {
		ep->adapter.gone = true;
		verbs_ep_end(ep, -ENODEV, "the RDMA device has gone");
	}
	if (ep->deadline_ns && now_ns >= ep->deadline_ns)
		on_deadline(ep);
}
