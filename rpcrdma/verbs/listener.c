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
	l->events = rdma_create_event_channel();
	if (!l->events)
		return errno == ENOENT ? -ENODEV : -errno;
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

/* The id of the next request, its event acknowledged, which an id has to be before it may change channels. */
static struct rdma_cm_id *next_request(struct rdma_listener *l, struct endpoint *ep)
{
	struct rdma_cm_event *event;

	while (rdma_get_cm_event(l->events, &event) == 0) {
		struct rdma_cm_id *id = NULL;
		if (event->event == RDMA_CM_EVENT_CONNECT_REQUEST) {
			const struct rdma_conn_param *param = &event->param.conn;
			uint32_t len = param->private_data ? param->private_data_len : 0;
			id = event->id;
			if (len)
				memcpy(ep->ep.peer_private, param->private_data, len);
			ep->ep.peer_private_len = len;
			ep->peer_reads_in = param->responder_resources;
			ep->peer_reads_out = param->initiator_depth;
		}
		rdma_ack_cm_event(event);
		if (id)
			return id;
	}
	return NULL;
}

static void keep_peer(struct rdma_cm_id *id, struct sockaddr_storage *peer)
{
	const struct sockaddr *addr = rdma_get_peer_addr(id);

	memset(peer, 0, sizeof *peer);
	memcpy(peer, addr,
	       addr->sa_family == AF_INET6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in));
}

int verbs_listener_accept(struct rdma_listener *listener, const struct rdma_ep_params *params,
			  struct sockaddr_storage *peer, struct rdma_ep **result)
{
	struct endpoint *ep;
	int err = verbs_ep_open(params, &ep);

	if (err)
		return err;
	struct rdma_cm_id *id = next_request(listener, ep);
	if (!id) {
		ep->ep.ops->close(&ep->ep);
		return -EAGAIN;
	}
	if (peer)
		keep_peer(id, peer);
	ep->passive = true;
	ep->id = id;
	id->context = ep;
	ep->ep.state = RDMA_EP_CONNECTING;
	ep->step = SETUP_REQUEST;
	err = rdma_migrate_id(id, ep->events) ? -errno : verbs_adapter_use(ep, id->verbs);
	if (err) {
		rdma_reject(id, NULL, 0);
		ep->ep.ops->close(&ep->ep);
		return err;
	}
	verbs_ep_update_timeout(ep);
	*result = &ep->ep;
	return 0;
}
