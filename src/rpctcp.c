/* SPDX-License-Identifier: MIT */
#include "rpctcp.h"

#include "xdr.h"

#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

/* ---- a socket that waits no longer than the deadline ---- */

struct stream {
	int fd;
	int64_t deadline_ms;
};

static int64_t now_ms(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static int await(const struct stream *s, short events)
{
	struct pollfd p = {.fd = s->fd, .events = events};
	for (;;) {
		int64_t left = s->deadline_ms - now_ms();
		int n = poll(&p, 1, left > 0 ? (int)left : 0);
		if (n > 0)
			return 0;
		if (n == 0)
			return -ETIMEDOUT;
		if (errno != EINTR)
			return -errno;
	}
}

static int ended(int err)
{
	return err == EPIPE || err == ECONNRESET ? -ECONNRESET : -err;
}

static int send_all(const struct stream *s, const uint8_t *bytes, size_t len)
{
	while (len) {
		ssize_t n = send(s->fd, bytes, len, MSG_NOSIGNAL);
		if (n >= 0) {
			bytes += n;
			len -= (size_t)n;
		} else if (errno == EAGAIN) {
			int err = await(s, POLLOUT);
			if (err)
				return err;
		} else if (errno != EINTR) {
			return ended(errno);
		}
	}
	return 0;
}

static int receive_all(const struct stream *s, uint8_t *bytes, size_t len)
{
	while (len) {
		ssize_t n = recv(s->fd, bytes, len, 0);
		if (n > 0) {
			bytes += n;
			len -= (size_t)n;
		} else if (n == 0) {
			return -ECONNRESET;
		} else if (errno == EAGAIN) {
			int err = await(s, POLLIN);
			if (err)
				return err;
		} else if (errno != EINTR) {
			return ended(errno);
		}
	}
	return 0;
}

/* ---- connecting, from a port below 1024 if that is wanted and allowed ---- */

enum { RESERVED_FIRST = 665, RESERVED_LAST = 1023 }; /* the range that the kernel's client uses */

static int bind_port(int fd, int family, uint16_t port)
{
	struct sockaddr_in6 any6 = {.sin6_family = AF_INET6, .sin6_port = htons(port)};
	struct sockaddr_in any4 = {.sin_family = AF_INET, .sin_port = htons(port)};
	if (family == AF_INET6)
		return bind(fd, (struct sockaddr *)&any6, sizeof any6) ? -errno : 0;
	return bind(fd, (struct sockaddr *)&any4, sizeof any4) ? -errno : 0;
}

/* From a random place on, so that ports of connections that have just ended are not met again at once. 1:
 * bound, 0: not. */
static int bind_reserved(int fd, int family)
{
	const unsigned int ports = RESERVED_LAST - RESERVED_FIRST + 1;
	unsigned int start = 0;
	if (getrandom(&start, sizeof start, GRND_NONBLOCK) < 0)
		start = (unsigned int)getpid();
	for (unsigned int i = 0; i < ports; i++) {
		int err = bind_port(fd, family, (uint16_t)(RESERVED_FIRST + (start + i) % ports));
		if (!err)
			return 1;
		if (err != -EADDRINUSE)
			return 0;
	}
	return 0;
}

static int connect_once(struct stream *s, const struct rpctcp *to, bool *reserved)
{
	int err = 0;
	socklen_t len = sizeof err;
	s->fd = socket(to->addr.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (s->fd < 0)
		return -errno;
	*reserved = to->resvport && bind_reserved(s->fd, to->addr.ss_family);
	if (connect(s->fd, (const struct sockaddr *)&to->addr, to->addrlen) == 0)
		return 0;
	if (errno != EINPROGRESS)
		return -errno;
	int ret = await(s, POLLOUT);
	if (ret)
		return ret;
	if (getsockopt(s->fd, SOL_SOCKET, SO_ERROR, &err, &len) < 0)
		return -errno;
	return -err;
}

/* A reserved port may still be taken by a connection to this very server that has ended: then another one. */
static int connect_to(struct stream *s, const struct rpctcp *to, bool *reserved)
{
	for (int tries = 0;; tries++) {
		int err = connect_once(s, to, reserved);
		if (!err)
			return 0;
		if (s->fd >= 0)
			close(s->fd);
		if (!*reserved || tries == 10 || (err != -EADDRNOTAVAIL && err != -EADDRINUSE))
			return err;
	}
}

/* ---- records ---- */

#define LAST_FRAGMENT 0x80000000u

static int send_record(const struct stream *s, const void *call, size_t len)
{
	uint8_t record[4 + RPCTCP_CALL_MAX];
	uint32_t mark = htobe32(LAST_FRAGMENT | (uint32_t)len);
	if (len > RPCTCP_CALL_MAX)
		return -EMSGSIZE;
	memcpy(record, &mark, 4);
	memcpy(record + 4, call, len);
	return send_all(s, record, 4 + len);
}

static int receive_record(const struct stream *s, uint8_t *reply, size_t max)
{
	size_t len = 0;
	uint32_t mark;
	do {
		int err = receive_all(s, (uint8_t *)&mark, sizeof mark);
		if (err)
			return err;
		mark = be32toh(mark);
		size_t fragment = mark & ~LAST_FRAGMENT;
		if (fragment > max - len || (fragment == 0 && !(mark & LAST_FRAGMENT)))
			return -EBADMSG;
		err = receive_all(s, reply + len, fragment);
		if (err)
			return err;
		len += fragment;
	} while (!(mark & LAST_FRAGMENT));
	return (int)len;
}

int rpctcp_connect(const struct rpctcp *to)
{
	struct stream s = {.deadline_ms = now_ms() + to->timeout_ms};
	bool reserved;
	int err = connect_to(&s, to, &reserved);
	return err ? err : s.fd;
}

int rpctcp_call(const struct rpctcp *to, const void *call, size_t len, void *reply, size_t max,
		bool *reserved)
{
	struct stream s = {.deadline_ms = now_ms() + to->timeout_ms};
	bool from_reserved;
	int ret = connect_to(&s, to, &from_reserved);
	if (reserved)
		*reserved = from_reserved;
	if (ret)
		return ret;
	ret = send_record(&s, call, len);
	if (!ret)
		ret = receive_record(&s, reply, max < INT32_MAX ? max : INT32_MAX);
	close(s.fd);
	if (ret >= 0 && (ret < 4 || memcmp(reply, call, 4)))
		return -EBADMSG;
	return ret;
}
