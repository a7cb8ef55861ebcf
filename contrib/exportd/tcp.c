/* SPDX-License-Identifier: MIT */
#include "tcp.h"
#include "record.h"
#include "transport.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

/* A WRITE of the largest size, with all that can stand before the data: RPC header with AUTH_SYS (24 + 8 +
 * 400 + 8 + 400), handle, offsets and lengths: well below 4096. */
#define RECORD_MAX_BYTES (NFS3_IO_MAX_BYTES + 4096)
#define RECV_BYTES (RECORD_MAX_BYTES + 64 * 1024)
#define HEAD_BYTES (4 + REPLY_HEAD_MAX_BYTES)
#define SEND_TIMEOUT_S 60 /* a client that takes no reply for so long is given up */

struct tcp_conn {
	struct server *srv;
	int fd;
	uint8_t peer[16];
	struct record_buf record;
	/* One mapping, whose pages cost nothing before they are used. */
	uint8_t *recv, *payload, *head;
};

#define CONN_BYTES (RECV_BYTES + NFS3_IO_MAX_BYTES + HEAD_BYTES)
static_assert(RECV_BYTES % 4096 == 0, "payload is page-aligned behind it");

static uint8_t *payload_buffer(struct call *call, uint32_t len_bytes)
{
	struct tcp_conn *c = call->owner;
	return c->payload;
}

static bool send_all(int fd, struct iovec *iov, int iov_len)
{
	while (iov_len > 0) {
		struct msghdr msg = {.msg_iov = iov, .msg_iovlen = (size_t)iov_len};
		ssize_t n = sendmsg(fd, &msg, MSG_NOSIGNAL);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return false;
		for (; iov_len > 0 && (size_t)n >= iov->iov_len; iov++, iov_len--)
			n -= (ssize_t)iov->iov_len;
		if (iov_len > 0) {
			iov->iov_base = (uint8_t *)iov->iov_base + n;
			iov->iov_len -= (size_t)n;
		}
	}
	return true;
}

static bool send_reply(struct tcp_conn *c, const struct call *call)
{
	static uint8_t zero[4];
	uint32_t head = (uint32_t)xdr_written(&call->head), pad = xdr_pad(call->payload_len_bytes);
	uint32_t mark = htobe32(RECORD_LAST_FRAGMENT | (head + call->payload_len_bytes + pad));
	memcpy(c->head, &mark, sizeof mark);
	struct iovec iov[] = {
		{c->head, 4 + head},
		{(void *)call->payload, call->payload_len_bytes},
		{zero, pad},
	};
	return send_all(c->fd, iov, call->payload_len_bytes ? 3 : 1);
}

static bool serve_record(struct tcp_conn *c, const uint8_t *msg, size_t len_bytes)
{
	struct call call = {
		.srv = c->srv,
		.msg = msg,
		.msg_len_bytes = (uint32_t)len_bytes,
		.reply_max_bytes = REPLY_HEAD_MAX_BYTES,
		.payload_max_bytes = NFS3_IO_MAX_BYTES,
		.payload_buffer = payload_buffer,
		.owner = c,
		.head = xdr_writer(c->head + 4, REPLY_HEAD_MAX_BYTES),
	};
	memcpy(call.peer, c->peer, sizeof call.peer);
	/* What is no call has lost its way in the stream, or never was RPC. */
	return serve_call(&call) && send_reply(c, &call);
}

static void serve_connection(struct tcp_conn *c)
{
	for (;;) {
		size_t room, len;
		const uint8_t *msg;
		uint8_t *to = record_room(&c->record, &room);
		ssize_t n = recv(c->fd, to, room, 0);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return;
		record_filled(&c->record, (size_t)n);
		int r;
		while ((r = record_next(&c->record, &msg, &len)) == 1)
			if (!serve_record(c, msg, len))
				return;
		if (r < 0)
			return;
	}
}

static void conn_close(struct tcp_conn *c)
{
	if (c->recv)
		munmap(c->recv, CONN_BYTES);
	close(c->fd);
	free(c);
	connection_end();
}

static void *conn_thread(void *arg)
{
	struct tcp_conn *c = arg;
	serve_connection(c);
	conn_close(c);
	return NULL;
}

static void set_options(int fd)
{
	int on = 1;
	struct timeval timeout = {.tv_sec = SEND_TIMEOUT_S};
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
	setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof timeout);
}

/* Takes fd over. */
static void conn_open(struct server *srv, int fd, const struct sockaddr_storage *sa)
{
	struct tcp_conn *c = connection_begin() ? calloc(1, sizeof *c) : NULL;
	if (!c) {
		close(fd);
		return;
	}
	c->srv = srv;
	c->fd = fd;
	peer_of(sa, c->peer);
	set_options(fd);
	void *memory = mmap(NULL, CONN_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (memory != MAP_FAILED) {
		c->recv = memory;
		c->payload = c->recv + RECV_BYTES;
		c->head = c->payload + NFS3_IO_MAX_BYTES;
		record_init(&c->record, c->recv, RECV_BYTES);
	}
	if (!c->recv || !thread_start(conn_thread, c))
		conn_close(c);
}

struct tcp_listener {
	struct server *srv;
	int fd;
};

static void *listener_thread(void *arg)
{
	struct tcp_listener *l = arg;
	for (;;) {
		struct sockaddr_storage sa;
		socklen_t len = sizeof sa;
		int fd = accept4(l->fd, (struct sockaddr *)&sa, &len, SOCK_CLOEXEC);
		if (fd >= 0)
			conn_open(l->srv, fd, &sa);
		else
			accept_pause(errno);
	}
	return NULL;
}

static int listen_at(const struct sockaddr_storage *addr, uint16_t port, uint16_t *bound)
{
	struct sockaddr_storage sa;
	socklen_t len = address_with_port(addr, port, &sa);
	int on = 1;
	int fd = socket(sa.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
	if (bind(fd, (struct sockaddr *)&sa, len) < 0 || listen(fd, 128) < 0 ||
	    getsockname(fd, (struct sockaddr *)&sa, &len) < 0) {
		int err = -errno;
		close(fd);
		return err;
	}
	*bound = address_port(&sa);
	return fd;
}

int tcp_listen(struct server *srv, const struct sockaddr_storage *addr, uint16_t port, uint16_t *bound)
{
	struct tcp_listener *l = malloc(sizeof *l);
	if (!l)
		return -ENOMEM;
	int fd = listen_at(addr, port, bound);
	if (fd < 0) {
		free(l);
		return fd;
	}
	*l = (struct tcp_listener){.srv = srv, .fd = fd};
	if (thread_start(listener_thread, l))
		return 0;
	close(fd);
	free(l);
	return -EAGAIN;
}
