/* SPDX-License-Identifier: MIT */
#include "nlm_conn.h"

#include "rpcbind.h"
#include "rpccall.h"

#include <endian.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#define CONNECT_MS 5000

/* A server that has restarted, or is gone, must be found out while its grace period lasts, although we may
 * have nothing to say. */
static void keep_alive(int fd)
{
	int on = 1, idle_s = 10, interval_s = 5, count = 3;
	setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof idle_s);
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval_s, sizeof interval_s);
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &count, sizeof count);
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

int nlm_conn_open(struct nlm_conn *conn, const struct sockaddr_storage *addr, socklen_t addrlen,
		  const struct cred *cred, bool resvport)
{
	struct rpctcp to = {.addr = *addr, .addrlen = addrlen, .timeout_ms = CONNECT_MS};
	uint16_t port;
	sockaddr_set_port(&to.addr, 0);
	int err = rpcbind_ask(&to, cred, NLM_PROG, NLM_VERS, &port);
	if (err)
		return err;
	sockaddr_set_port(&to.addr, port);
	to.resvport = resvport;
	int fd = rpctcp_connect(&to);
	if (fd < 0)
		return fd;
	keep_alive(fd);
	conn->fd = fd;
	conn->out_bytes = conn->in_bytes = 0;
	return 0;
}

void nlm_conn_close(struct nlm_conn *conn)
{
	if (conn->fd >= 0)
		close(conn->fd);
	conn->fd = -1;
}

bool nlm_conn_has_room(const struct nlm_conn *conn)
{
	return conn->fd >= 0 && sizeof conn->out - conn->out_bytes >= 4 + NLM_CALL_MAX;
}

void nlm_conn_put(struct nlm_conn *conn, const uint8_t *msg, size_t len)
{
	uint32_t mark = htobe32(0x80000000u | (uint32_t)len);
	memcpy(conn->out + conn->out_bytes, &mark, 4);
	memcpy(conn->out + conn->out_bytes + 4, msg, len);
	conn->out_bytes += 4 + len;
}

short nlm_conn_events(const struct nlm_conn *conn)
{
	return conn->out_bytes ? POLLIN | POLLOUT : POLLIN;
}

int nlm_conn_send(struct nlm_conn *conn)
{
	while (conn->out_bytes) {
		ssize_t n = send(conn->fd, conn->out, conn->out_bytes, MSG_NOSIGNAL);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return errno == EAGAIN ? 0 : -errno;
		conn->out_bytes -= (size_t)n;
		memmove(conn->out, conn->out + n, conn->out_bytes);
	}
	return 0;
}

/* Gives out the whole records that have come. */
static int take_records(struct nlm_conn *conn, nlm_conn_record_fn *fn, void *ctx)
{
	size_t at = 0;
	while (conn->in_bytes - at >= 4) {
		uint32_t mark;
		memcpy(&mark, conn->in + at, 4);
		mark = be32toh(mark);
		uint32_t len = mark & 0x7fffffffu;
		if (!(mark >> 31) || len > NLM_REPLY_MAX)
			return -EBADMSG; /* longer than any reply, or in fragments: nobody does that */
		if (conn->in_bytes - at < 4 + (size_t)len)
			break;
		fn(ctx, conn->in + at + 4, len);
		at += 4 + len;
	}
	conn->in_bytes -= at;
	memmove(conn->in, conn->in + at, conn->in_bytes);
	return 0;
}

int nlm_conn_receive(struct nlm_conn *conn, nlm_conn_record_fn *fn, void *ctx)
{
	ssize_t n = recv(conn->fd, conn->in + conn->in_bytes, sizeof conn->in - conn->in_bytes, 0);
	if (n < 0)
		return errno == EAGAIN || errno == EINTR ? 0 : -errno;
	if (n == 0)
		return -ECONNRESET;
	conn->in_bytes += (size_t)n;
	return take_records(conn, fn, ctx);
}
