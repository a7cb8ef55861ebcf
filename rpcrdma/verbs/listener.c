/* SPDX-License-Identifier: MIT
 *
 * Normal operation. An id listens; its requests come by the news, and each becomes an endpoint.
 *
 * Recovery. An id that listens on one address belongs to the adapter of that address, and goes with it: from
 * then on it is tried once a second to listen there again, until the adapter is back. One that listens on all
 * addresses belongs to none; rdma_cm takes adapters in and out below it.
 */
#include "endpoint.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#define BACKLOG 128
#define RETRY_S 1

struct rdma_listener {
	struct news news;
	struct rdma_cm_id *id;	     /* NULL: its adapter has gone */
	struct ibv_context *context; /* in use; NULL: of no adapter */
	int timer;		     /* runs while there is no id; -1: none yet */
	struct sockaddr_storage at;  /* with the port that it got */
};

static void stop(struct rdma_listener *l)
{
	if (l->context)
		verbs_context_leave(l->context);
	l->context = NULL;
	if (l->id)
		rdma_destroy_id(l->id);
	l->id = NULL;
}

void verbs_listener_close(struct rdma_listener *listener)
{
	if (!listener)
		return;
	stop(listener);
	if (listener->timer >= 0)
		close(listener->timer);
	verbs_news_close(&listener->news);
	free(listener);
}

static int use_adapter(struct rdma_listener *l)
{
	int err = l->id->verbs ? verbs_context_use(l->id->verbs) : 0;

	if (!err)
		l->context = l->id->verbs;
	return err;
}

static int start(struct rdma_listener *l)
{
	int err = 0;

	if (rdma_create_id(l->news.cm, &l->id, NULL, RDMA_PS_TCP) ||
	    rdma_bind_addr(l->id, (struct sockaddr *)&l->at) || rdma_listen(l->id, BACKLOG))
		err = -errno;
	if (!err)
		err = use_adapter(l);
	if (err)
		stop(l);
	return err;
}

static void run_timer(struct rdma_listener *l, time_t every_s)
{
	struct itimerspec spec = {.it_value.tv_sec = every_s, .it_interval.tv_sec = every_s};

	timerfd_settime(l->timer, 0, &spec, NULL);
}

/* Stops when the adapter is being removed, and starts when it is back. */
static void follow_adapter(struct rdma_listener *l)
{
	if (l->context && verbs_context_is_removed(l->context)) {
		stop(l);
		run_timer(l, RETRY_S);
	} else if (!l->id && start(l) == 0) {
		run_timer(l, 0);
	}
}

static int make_timer(struct rdma_listener *l)
{
	struct epoll_event event = {.events = EPOLLIN, .data.u32 = NEWS_TIMER};

	l->timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
	if (l->timer < 0 || epoll_ctl(l->news.fd, EPOLL_CTL_ADD, l->timer, &event) < 0)
		return -errno;
	return 0;
}

static uint16_t *port_of(struct sockaddr_storage *addr)
{
	return addr->ss_family == AF_INET6 ? &((struct sockaddr_in6 *)addr)->sin6_port
					   : &((struct sockaddr_in *)addr)->sin_port;
}

int verbs_listener_listen(const struct sockaddr *addr, socklen_t addr_len, struct rdma_listener **result)
{
	struct rdma_listener *l = calloc(1, sizeof *l);

	if (!l)
		return -ENOMEM;
	l->timer = -1;
	memcpy(&l->at, addr, addr_len);
	int err = verbs_news_open(&l->news);
	if (!err)
		err = make_timer(l);
	if (!err)
		err = start(l);
	if (err) {
		verbs_listener_close(l);
		return err;
	}
	*port_of(&l->at) = rdma_get_src_port(l->id);
	*result = l;
	return 0;
}

int verbs_listener_fd(const struct rdma_listener *listener)
{
	return listener->news.fd;
}

uint16_t verbs_listener_port(const struct rdma_listener *listener)
{
	struct sockaddr_storage at = listener->at;

	return ntohs(*port_of(&at));
}

/* What a request says; its event is acknowledged by then, which an id needs before it may change channels. */
struct request {
	struct rdma_cm_id *id;
	uint32_t reads_in, reads_out, priv_len;
	uint8_t priv[256];
};

static void take_request(const struct rdma_cm_event *event, struct request *request)
{
	const struct rdma_conn_param *param = &event->param.conn;

	*request = (struct request){.id = event->id,
				    .reads_in = param->responder_resources,
				    .reads_out = param->initiator_depth,
				    .priv_len = param->private_data ? param->private_data_len : 0};
	if (request->priv_len)
		memcpy(request->priv, param->private_data, request->priv_len);
}

static bool next_request(struct rdma_listener *l, struct request *request)
{
	struct rdma_cm_event *event;
	bool found = false;

	while (!found && rdma_get_cm_event(l->news.cm, &event) == 0) {
		found = event->event == RDMA_CM_EVENT_CONNECT_REQUEST;
		if (found)
			take_request(event, request);
		else if (event->event == RDMA_CM_EVENT_DEVICE_REMOVAL && event->id == l->id && l->context)
			verbs_context_removed(l->context);
		rdma_ack_cm_event(event);
	}
	return found;
}

static void clear_timer(struct rdma_listener *l)
{
	uint64_t expirations;

	while (read(l->timer, &expirations, sizeof expirations) > 0)
		;
}

/* True: one of them is a request, and there may be more news. */
static bool take_news(struct rdma_listener *l, struct request *request)
{
	unsigned int news = verbs_news_take(&l->news);
	bool found = news & NEWS_CM && next_request(l, request);

	if (news & NEWS_TIMER)
		clear_timer(l);
	if (news)
		follow_adapter(l);
	return found;
}

static void keep_peer(struct rdma_cm_id *id, struct sockaddr_storage *peer)
{
	const struct sockaddr *addr = rdma_get_peer_addr(id);

	memset(peer, 0, sizeof *peer);
	memcpy(peer, addr,
	       addr->sa_family == AF_INET6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in));
}

static void turn_away(struct rdma_cm_id *id)
{
	rdma_reject(id, NULL, 0);
	if (!id->verbs || !verbs_context_keep(id))
		rdma_destroy_id(id);
}

static void adopt(struct endpoint *ep, const struct request *request)
{
	memcpy(ep->ep.peer_private, request->priv, request->priv_len);
	ep->ep.peer_private_len = request->priv_len;
	ep->peer_reads_in = request->reads_in;
	ep->peer_reads_out = request->reads_out;
	ep->id = request->id;
	ep->id->context = ep;
	ep->ep.state = RDMA_EP_CONNECTING;
	ep->step = SETUP_REQUEST;
	verbs_ep_update_timeout(ep);
}

int verbs_listener_accept(struct rdma_listener *listener, const struct rdma_ep_params *params,
			  struct sockaddr_storage *peer, struct rdma_ep **result)
{
	struct request request;
	struct endpoint *ep;

	if (!take_news(listener, &request))
		return -EAGAIN;
	if (peer)
		keep_peer(request.id, peer);
	int err = verbs_ep_open(params, true, &ep);
	if (err) {
		turn_away(request.id);
		return err;
	}
	err = rdma_migrate_id(request.id, ep->news.cm) ? -errno : verbs_adapter_use(ep, request.id->verbs);
	if (err) {
		turn_away(request.id);
		ep->ep.ops->close(&ep->ep);
		return err;
	}
	adopt(ep, &request);
	*result = &ep->ep;
	return 0;
}
