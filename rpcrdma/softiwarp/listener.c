/* SPDX-License-Identifier: MIT */
#include "listener.h"

#include "endpoint.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#define BACKLOG 128

struct rdma_listener {
	int fd;
	uint16_t port;
};

static uint16_t bound_port(int fd)
{
	union {
		struct sockaddr sa;
		struct sockaddr_in in;
		struct sockaddr_in6 in6;
	} addr = {0};
	socklen_t len = sizeof addr;
	if (getsockname(fd, &addr.sa, &len) < 0)
		return 0;
	return ntohs(addr.sa.sa_family == AF_INET6 ? addr.in6.sin6_port : addr.in.sin_port);
}

static int open_socket(const struct sockaddr *addr, socklen_t addr_len)
{
	int on = 1;
	int fd = socket(addr->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
	if (bind(fd, addr, addr_len) < 0 || listen(fd, BACKLOG) < 0) {
		int rc = -errno;
		close(fd);
		return rc;
	}
	return fd;
}

int listener_listen(const struct sockaddr *addr, socklen_t addr_len, struct rdma_listener **result)
{
	struct rdma_listener *listener = calloc(1, sizeof *listener);
	if (!listener)
		return -ENOMEM;
	listener->fd = open_socket(addr, addr_len);
	if (listener->fd < 0) {
		int rc = listener->fd;
		free(listener);
		return rc;
	}
	listener->port = bound_port(listener->fd);
	*result = listener;
	return 0;
}

int listener_fd(const struct rdma_listener *listener)
{
	return listener->fd;
}

uint16_t listener_port(const struct rdma_listener *listener)
{
	return listener->port;
}

/* A connection that was gone before we came to it is not an error of the listener. */
static int accept_one(int fd, struct sockaddr_storage *peer)
{
	for (;;) {
		socklen_t len = sizeof *peer;
		int conn = accept4(fd, (struct sockaddr *)peer, &len, SOCK_NONBLOCK | SOCK_CLOEXEC);
		if (conn >= 0)
			return conn;
		if (errno != EINTR && errno != ECONNABORTED)
			return errno == EWOULDBLOCK ? -EAGAIN : -errno;
	}
}

int listener_accept(struct rdma_listener *listener, const struct rdma_ep_params *params,
		    struct sockaddr_storage *peer, struct rdma_ep **result)
{
	struct sockaddr_storage from;
	struct endpoint *ep;
	int fd = accept_one(listener->fd, peer ? peer : &from);
	if (fd < 0)
		return fd;
	int rc = ep_open(params, &ep);
	if (rc < 0) {
		close(fd);
		return rc;
	}
	rc = ep_attach_socket(ep, fd);
	if (rc < 0) {
		ep->ep.ops->close(&ep->ep);
		return rc;
	}
	setup_listen(ep);
	ep_update_timeout(ep);
	*result = &ep->ep;
	return 0;
}

void listener_close(struct rdma_listener *listener)
{
	if (!listener)
		return;
	close(listener->fd);
	free(listener);
}
