/* SPDX-License-Identifier: MIT */
#include "endpoint.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#define BACKLOG 128

struct rdma_listener {
	struct rdma_event_channel *events;
	struct rdma_cm_id *id;
};

void verbs_listener_close(struct rdma_listener *listener)
{
	if (!listener)
		return;
	if (listener->id)
		rdma_destroy_id(listener->id);
	if (listener->events)
		rdma_destroy_event_channel(listener->events);
	free(listener);
}

static int start(struct rdma_listener *l, const struct sockaddr *addr, socklen_t addr_len)
{
	struct sockaddr_storage at = {0};

	memcpy(&at, addr, addr_len);
	if (!verbs_present())
		return -ENODEV;
	l->events = rdma_create_event_channel();
	if (!l->events)
		return -errno;
	if (fcntl(l->events->fd, F_SETFL, fcntl(l->events->fd, F_GETFL) | O_NONBLOCK) < 0 ||
	    rdma_create_id(l->events, &l->id, NULL, RDMA_PS_TCP) ||
	    rdma_bind_addr(l->id, (struct sockaddr *)&at) || rdma_listen(l->id, BACKLOG))
		return -errno;
	return 0;
}

int verbs_listener_listen(const struct sockaddr *addr, socklen_t addr_len, struct rdma_listener **result)
{
	struct rdma_listener *l = calloc(1, sizeof *l);

	if (!l)
		return -ENOMEM;
	int err = start(l, addr, addr_len);
	if (err)
		verbs_listener_close(l);
	else
		*result = l;
	return err;
}

int verbs_listener_fd(const struct rdma_listener *listener)
{
	return listener->events->fd;
}

uint16_t verbs_listener_port(const struct rdma_listener *listener)
{
	return ntohs(rdma_get_src_port(listener->id));
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

	while (!found && rdma_get_cm_event(l->events, &event) == 0) {
		found = event->event == RDMA_CM_EVENT_CONNECT_REQUEST;
		if (found)
			take_request(event, request);
		rdma_ack_cm_event(event);
	}
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

	if (!next_request(listener, &request))
		return -EAGAIN;
	if (peer)
		keep_peer(request.id, peer);
	int err = verbs_ep_open(params, true, &ep);
	if (err) {
		turn_away(request.id);
		return err;
	}
	err = rdma_migrate_id(request.id, ep->events) ? -errno : verbs_adapter_use(ep, request.id->verbs);
	if (err) {
		turn_away(request.id);
		ep->ep.ops->close(&ep->ep);
		return err;
	}
	adopt(ep, &request);
	*result = &ep->ep;
	return 0;
}
