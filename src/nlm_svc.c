/* SPDX-License-Identifier: MIT */
#include "nlm_svc.h"

#include "xdr.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- one call ---- */

#define AUTH_BODY_MAX 400u /* RFC 5531 section 8.2 */
enum {
	MSG_CALL = 0,
	MSG_REPLY = 1,
	MSG_ACCEPTED = 0,
	MSG_DENIED = 1,
	RPC_MISMATCH = 0,
	RPC_VERSION = 2,
	AUTH_NONE = 0
};
enum accept_stat { SUCCESS = 0, PROG_UNAVAIL = 1, PROG_MISMATCH = 2, PROC_UNAVAIL = 3, GARBAGE_ARGS = 4 };

struct head {
	uint32_t rpcvers, prog, vers, proc;
};

static void get_head(struct xdr_reader *r, struct head *head)
{
	uint32_t len;
	head->rpcvers = xdr_u32(r);
	head->prog = xdr_u32(r);
	head->vers = xdr_u32(r);
	head->proc = xdr_u32(r);
	for (int i = 0; i < 2; i++) { /* credential and verifier: nobody here asks who it is */
		xdr_u32(r);
		xdr_opaque(r, AUTH_BODY_MAX, &len);
	}
}

static enum accept_stat on_granted(const struct nlm_svc_calls *calls, void *ctx, uint32_t proc,
				   unsigned int peer, struct xdr_reader *r, struct xdr_writer *w)
{
	struct nlm_granted granted;
	if (nlm_get_granted(r, &granted))
		return GARBAGE_ARGS;
	uint32_t status = peer & NLM_PEER_SERVER ? calls->granted(ctx, &granted) : NLM_DENIED;
	if (proc == NLM_PROC_GRANTED) {
		xdr_put_opaque(w, granted.cookie, granted.cookie_bytes);
		xdr_put_u32(w, status);
	} else if (peer & NLM_PEER_SERVER) {
		calls->granted_res(ctx, &granted, status);
	}
	return SUCCESS;
}

static enum accept_stat on_notify(const struct nlm_svc_calls *calls, void *ctx, unsigned int peer,
				  struct xdr_reader *r)
{
	struct nsm_notify notify;
	if (nlm_get_notify(r, &notify))
		return GARBAGE_ARGS;
	if (peer & NLM_PEER_LOCAL)
		calls->notify(ctx, &notify);
	return SUCCESS;
}

/* Does the procedure, and writes its result behind what w holds. */
static enum accept_stat run(const struct nlm_svc_calls *calls, void *ctx, unsigned int peer,
			    const struct head *head, struct xdr_reader *r, struct xdr_writer *w)
{
	if (head->prog != NLM_PROG)
		return PROG_UNAVAIL;
	if (head->vers != NLM_VERS)
		return PROG_MISMATCH;
	switch (head->proc) {
	case NLM_PROC_NULL:
		return SUCCESS;
	case NLM_PROC_GRANTED:
	case NLM_PROC_GRANTED_MSG:
		return on_granted(calls, ctx, head->proc, peer, r, w);
	case NLM_PROC_NSM_NOTIFY:
		return on_notify(calls, ctx, peer, r);
	default:
		return PROC_UNAVAIL;
	}
}

static void put_words(struct xdr_writer *w, const uint32_t *words, size_t n)
{
	for (size_t i = 0; i < n; i++)
		xdr_put_u32(w, words[i]);
}

size_t nlm_svc_answer(const struct nlm_svc_calls *calls, void *ctx, unsigned int peer, const void *call,
		      size_t len, uint8_t *reply)
{
	struct xdr_reader r = xdr_reader(call, len);
	struct xdr_writer w = xdr_writer(reply, NLM_SVC_REPLY_MAX);
	struct head head;
	uint32_t xid = xdr_u32(&r), type = xdr_u32(&r);
	get_head(&r, &head);
	if (!xdr_ok(&r) || type != MSG_CALL)
		return 0;
	if (head.rpcvers != RPC_VERSION) {
		const uint32_t denied[] = {xid,		 MSG_REPLY,   MSG_DENIED,
					   RPC_MISMATCH, RPC_VERSION, RPC_VERSION};
		put_words(&w, denied, sizeof denied / sizeof *denied);
		return xdr_written(&w);
	}
	const uint32_t accepted[] = {xid, MSG_REPLY, MSG_ACCEPTED, AUTH_NONE, 0 /* bytes of verifier */};
	put_words(&w, accepted, sizeof accepted / sizeof *accepted);
	uint8_t *stat = xdr_reserve(&w, 4);
	uint32_t result = htobe32(run(calls, ctx, peer, &head, &r, &w));
	memcpy(stat, &result, 4);
	if (result == htobe32(PROG_MISMATCH)) {
		xdr_put_u32(&w, NLM_VERS);
		xdr_put_u32(&w, NLM_VERS);
	}
	return xdr_written(&w);
}

/* ---- the sockets ---- */

struct svc_conn {
	int fd; /* -1: free */
	unsigned int peer;
	size_t have;
	uint8_t in[4 + NLM_SVC_CALL_MAX]; /* a record mark, and what it announces */
};

struct nlm_svc {
	const struct nlm_svc_calls *calls;
	void *ctx;
	struct sockaddr_storage server;
	int tcp_fd, udp_fd;
	uint16_t tcp_port, udp_port;
	unsigned int next; /* connection that gives way to a new one */
	struct svc_conn conns[NLM_SVC_CONNS];
};

static bool is_loopback(const struct sockaddr_storage *addr)
{
	if (addr->ss_family == AF_INET)
		return ntohl(((const struct sockaddr_in *)addr)->sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
	const struct in6_addr *in6 = &((const struct sockaddr_in6 *)addr)->sin6_addr;
	return IN6_IS_ADDR_LOOPBACK(in6) || (IN6_IS_ADDR_V4MAPPED(in6) && in6->s6_addr[12] == IN_LOOPBACKNET);
}

static bool same_host(const struct sockaddr_storage *a, const struct sockaddr_storage *b)
{
	if (a->ss_family != b->ss_family)
		return false;
	if (a->ss_family == AF_INET)
		return ((const struct sockaddr_in *)a)->sin_addr.s_addr ==
		       ((const struct sockaddr_in *)b)->sin_addr.s_addr;
	return IN6_ARE_ADDR_EQUAL(&((const struct sockaddr_in6 *)a)->sin6_addr,
				  &((const struct sockaddr_in6 *)b)->sin6_addr);
}

static unsigned int peer_of(const struct nlm_svc *svc, const struct sockaddr_storage *addr)
{
	return (same_host(addr, &svc->server) ? NLM_PEER_SERVER : 0u) |
	       (is_loopback(addr) ? NLM_PEER_LOCAL : 0u);
}

static void drop(struct svc_conn *conn)
{
	if (conn->fd >= 0)
		close(conn->fd);
	conn->fd = -1;
}

static void accept_one(struct nlm_svc *svc)
{
	struct sockaddr_storage addr;
	socklen_t len = sizeof addr;
	int fd = accept4(svc->tcp_fd, (struct sockaddr *)&addr, &len, SOCK_NONBLOCK | SOCK_CLOEXEC);
	if (fd < 0)
		return;
	unsigned int peer = peer_of(svc, &addr);
	if (!peer) {
		close(fd);
		return;
	}
	struct svc_conn *conn = &svc->conns[svc->next];
	for (unsigned int i = 0; i < NLM_SVC_CONNS; i++)
		if (svc->conns[i].fd < 0)
			conn = &svc->conns[i];
	svc->next = (svc->next + 1) % NLM_SVC_CONNS;
	drop(conn);
	conn->fd = fd;
	conn->peer = peer;
	conn->have = 0;
}

/* A whole record has come. The reply is short: if the peer does not even take that, it is dropped. */
static void serve_record(struct nlm_svc *svc, struct svc_conn *conn, size_t len)
{
	uint8_t reply[4 + NLM_SVC_REPLY_MAX];
	size_t n = nlm_svc_answer(svc->calls, svc->ctx, conn->peer, conn->in + 4, len, reply + 4);
	uint32_t mark = htobe32(0x80000000u | (uint32_t)n);
	memcpy(reply, &mark, 4);
	if (n == 0 || send(conn->fd, reply, 4 + n, MSG_NOSIGNAL) != (ssize_t)(4 + n))
		drop(conn);
}

/* How many bytes the record at the start has, with its mark; 0: not yet known. -1: none that we take: calls
 * of this program are short, and come in one fragment. */
static ssize_t record_bytes(const struct svc_conn *conn)
{
	uint32_t mark;
	if (conn->have < 4)
		return 0;
	memcpy(&mark, conn->in, 4);
	mark = be32toh(mark);
	uint32_t len = mark & 0x7fffffffu;
	return mark >> 31 && len <= NLM_SVC_CALL_MAX ? (ssize_t)(4 + len) : -1;
}

static void serve_conn(struct nlm_svc *svc, struct svc_conn *conn)
{
	ssize_t n = recv(conn->fd, conn->in + conn->have, sizeof conn->in - conn->have, 0);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0) {
		drop(conn);
		return;
	}
	conn->have += (size_t)n;
	ssize_t record;
	while (conn->fd >= 0 && (record = record_bytes(conn)) && (size_t)record <= conn->have) {
		serve_record(svc, conn, (size_t)record - 4);
		conn->have -= (size_t)record;
		memmove(conn->in, conn->in + record, conn->have);
	}
	if (conn->fd >= 0 && record_bytes(conn) < 0)
		drop(conn);
}

static void serve_datagram(struct nlm_svc *svc)
{
	uint8_t call[NLM_SVC_CALL_MAX], reply[NLM_SVC_REPLY_MAX];
	struct sockaddr_storage addr;
	socklen_t addrlen = sizeof addr;
	ssize_t n =
		recvfrom(svc->udp_fd, call, sizeof call, MSG_DONTWAIT, (struct sockaddr *)&addr, &addrlen);
	unsigned int peer = n > 0 ? peer_of(svc, &addr) : 0;
	if (!peer)
		return;
	size_t len = nlm_svc_answer(svc->calls, svc->ctx, peer, call, (size_t)n, reply);
	if (len)
		sendto(svc->udp_fd, reply, len, MSG_DONTWAIT, (struct sockaddr *)&addr, addrlen);
}

void nlm_svc_poll(const struct nlm_svc *svc, struct pollfd *fds)
{
	fds[0] = (struct pollfd){.fd = svc->tcp_fd, .events = POLLIN};
	fds[1] = (struct pollfd){.fd = svc->udp_fd, .events = POLLIN};
	for (unsigned int i = 0; i < NLM_SVC_CONNS; i++)
		fds[2 + i] = (struct pollfd){.fd = svc->conns[i].fd, .events = POLLIN};
}

void nlm_svc_serve(struct nlm_svc *svc, const struct pollfd *fds)
{
	for (unsigned int i = 0; i < NLM_SVC_CONNS; i++)
		if (fds[2 + i].revents && svc->conns[i].fd == fds[2 + i].fd && svc->conns[i].fd >= 0)
			serve_conn(svc, &svc->conns[i]);
	if (fds[1].revents)
		serve_datagram(svc);
	if (fds[0].revents) /* ORDER: last, for it may take the place of a connection */
		accept_one(svc);
}

/* ---- making and ending ---- */

/* Any address: the one that the server knows us by may change. Over IPv6 for both families, since the status
 * monitor calls over IPv4. */
static int open_socket(int family, int type, uint16_t *port)
{
	struct sockaddr_storage addr = {.ss_family = (sa_family_t)family};
	socklen_t len = family == AF_INET6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in);
	int off = 0, fd = socket(family, type | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	if (family == AF_INET6)
		setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
	if (bind(fd, (struct sockaddr *)&addr, len) || (type == SOCK_STREAM && listen(fd, 8)) ||
	    getsockname(fd, (struct sockaddr *)&addr, &len)) {
		int err = -errno;
		close(fd);
		return err;
	}
	*port = ntohs(((struct sockaddr_in *)&addr)->sin_port); /* IPv6 has it there too */
	return fd;
}

int nlm_svc_open(const struct sockaddr_storage *server, const struct nlm_svc_calls *calls, void *ctx,
		 struct nlm_svc **out)
{
	struct nlm_svc *svc = calloc(1, sizeof *svc);
	if (!svc)
		return -ENOMEM;
	svc->calls = calls;
	svc->ctx = ctx;
	svc->server = *server;
	for (unsigned int i = 0; i < NLM_SVC_CONNS; i++)
		svc->conns[i].fd = -1;
	svc->tcp_fd = open_socket(server->ss_family, SOCK_STREAM, &svc->tcp_port);
	svc->udp_fd = open_socket(server->ss_family, SOCK_DGRAM, &svc->udp_port);
	int err = svc->tcp_fd < 0 ? svc->tcp_fd : svc->udp_fd < 0 ? svc->udp_fd : 0;
	if (err) {
		nlm_svc_close(svc);
		return err;
	}
	*out = svc;
	return 0;
}

void nlm_svc_close(struct nlm_svc *svc)
{
	if (!svc)
		return;
	for (unsigned int i = 0; i < NLM_SVC_CONNS; i++)
		drop(&svc->conns[i]);
	if (svc->tcp_fd >= 0)
		close(svc->tcp_fd);
	if (svc->udp_fd >= 0)
		close(svc->udp_fd);
	free(svc);
}

uint16_t nlm_svc_tcp_port(const struct nlm_svc *svc)
{
	return svc->tcp_port;
}

uint16_t nlm_svc_udp_port(const struct nlm_svc *svc)
{
	return svc->udp_port;
}
