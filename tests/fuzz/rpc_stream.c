/* SPDX-License-Identifier: MIT
 *
 * RPC over a byte stream: records that are cut anywhere, and what is in those of the lock manager, replies to
 * us and calls to us. Sockets are played here. Input: which stream, 1 byte; how many bytes come at a time, 1
 * byte (0: all that is wanted); and the stream.
 */
#include "nlm_conn.h"
#include "nlm_svc.h"
#include "rpctcp.h"

#include "fuzz.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <unistd.h>

ssize_t __wrap_recv(int fd, void *buf, size_t size, int flags);
ssize_t __wrap_recvfrom(int fd, void *buf, size_t size, int flags, struct sockaddr *addr, socklen_t *addrlen);
ssize_t __wrap_send(int fd, const void *buf, size_t size, int flags);
ssize_t __wrap_sendto(int fd, const void *buf, size_t size, int flags, const struct sockaddr *addr,
		      socklen_t addrlen);
int __wrap_socket(int domain, int type, int protocol);
int __wrap_connect(int fd, const struct sockaddr *addr, socklen_t addrlen);
int __wrap_accept4(int fd, struct sockaddr *addr, socklen_t *addrlen, int flags);
int __real_socket(int domain, int type, int protocol);

/* ---- the sockets ---- */

static struct xdr_reader stream;
static size_t at_a_time;
static bool playing;

static size_t give(void *buf, size_t size)
{
	size_t n = xdr_left(&stream) < size ? xdr_left(&stream) : size;
	if (at_a_time && n > at_a_time)
		n = at_a_time;
	if (n)
		memcpy(buf, xdr_bytes(&stream, n), n);
	return n;
}

/* 0 bytes at the end of the input: the peer has closed. */
ssize_t __wrap_recv(int fd, void *buf, size_t size, int flags)
{
	return (ssize_t)give(buf, size);
}

static void loopback(struct sockaddr *addr)
{
	*(struct sockaddr_in *)addr =
		(struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
}

ssize_t __wrap_recvfrom(int fd, void *buf, size_t size, int flags, struct sockaddr *addr, socklen_t *addrlen)
{
	loopback(addr);
	*addrlen = sizeof(struct sockaddr_in);
	return (ssize_t)give(buf, size);
}

ssize_t __wrap_send(int fd, const void *buf, size_t size, int flags)
{
	touch(buf, size);
	return (ssize_t)size;
}

ssize_t __wrap_sendto(int fd, const void *buf, size_t size, int flags, const struct sockaddr *addr,
		      socklen_t addrlen)
{
	touch(buf, size);
	return (ssize_t)size;
}

static int any_fd(void)
{
	int fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	require(fd >= 0);
	return fd;
}

int __wrap_socket(int domain, int type, int protocol)
{
	return playing ? any_fd() : __real_socket(domain, type, protocol);
}

int __wrap_connect(int fd, const struct sockaddr *addr, socklen_t addrlen)
{
	return 0;
}

int __wrap_accept4(int fd, struct sockaddr *addr, socklen_t *addrlen, int flags)
{
	loopback(addr);
	*addrlen = sizeof(struct sockaddr_in);
	return any_fd();
}

/* ---- one call and its reply: MOUNT, rpcbind, the status monitor ---- */

static void try_call(void)
{
	static const uint8_t call[64] = {1, 2, 3, 4};
	struct rpctcp to = {
		.addr.ss_family = AF_INET, .addrlen = sizeof(struct sockaddr_in), .timeout_ms = 1000};
	size_t max = 512;
	uint8_t *reply = malloc(max);
	int len = rpctcp_call(&to, call, sizeof call, reply, max, NULL);
	require(len == -ECONNRESET || len == -EBADMSG || (len >= 4 && (size_t)len <= max));
	if (len > 0)
		require(memcmp(reply, call, 4) == 0);
	free(reply);
}

/* ---- the lock manager's replies ---- */

static void on_reply(void *ctx, const uint8_t *reply, size_t len)
{
	struct xdr_reader r = xdr_reader(reply, len);
	uint32_t status;
	struct nlm_holder holder;
	require(len <= NLM_REPLY_MAX);
	if (nfs3_reply_header(&r))
		return;
	struct xdr_reader test = r;
	if (nlm_get_status(&r, &status) == 0)
		require(nlm_errno(status) <= 0);
	if (nlm_get_test(&test, &status, &holder) == 0 && status == NLM_DENIED)
		require(holder.start <= holder.end && holder.end <= INT64_MAX);
}

static void try_replies(void)
{
	struct nlm_conn *conn = calloc(1, sizeof *conn);
	conn->fd = any_fd();
	while (nlm_conn_receive(conn, on_reply, NULL) == 0)
		;
	nlm_conn_close(conn);
	free(conn);
}

/* ---- calls to us ---- */

static uint32_t on_granted(void *ctx, const struct nlm_granted *granted)
{
	require(granted->cookie_bytes <= NLM_COOKIE_MAX && granted->fh.len <= NFS3_FH_MAX);
	require(granted->start <= granted->end && granted->end <= INT64_MAX);
	return NLM_GRANTED;
}

static void on_granted_res(void *ctx, const struct nlm_granted *granted, uint32_t status)
{
	struct cred cred;
	uint8_t msg[NLM_CALL_MAX];
	cred_init(&cred, "box", 0, 0, NULL, 0);
	require(nlm_put_granted_res(msg, 1, &cred, granted->cookie, granted->cookie_bytes, status) > 0);
}

static void on_notify(void *ctx, const struct nsm_notify *notify)
{
	touch(notify->priv, sizeof notify->priv);
}

static const struct nlm_svc_calls calls = {on_granted, on_granted_res, on_notify};

/* Places in what nlm_svc_poll() fills. When all are free, a new connection takes the last. */
enum { LISTENER = 0, DATAGRAMS = 1, CONNECTION = NLM_SVC_FDS - 1 };

/* False: there is no such connection. */
static bool serve(struct nlm_svc *svc, unsigned int place)
{
	struct pollfd fds[NLM_SVC_FDS];
	nlm_svc_poll(svc, fds);
	if (fds[place].fd < 0)
		return false;
	fds[place].revents = POLLIN;
	nlm_svc_serve(svc, fds);
	return true;
}

static struct nlm_svc *open_svc(void)
{
	static struct nlm_svc *svc;
	struct sockaddr_storage server;
	loopback((struct sockaddr *)&server);
	if (svc)
		return svc;
	playing = false;
	require(nlm_svc_open(&server, &calls, NULL, &svc) == 0);
	playing = true;
	return svc;
}

static void try_datagrams(void)
{
	struct nlm_svc *svc = open_svc();
	while (xdr_left(&stream))
		serve(svc, DATAGRAMS);
}

static void try_connection(void)
{
	struct nlm_svc *svc = open_svc();
	serve(svc, LISTENER);
	while (serve(svc, CONNECTION)) /* to the end of the stream, or of the connection */
		;
}

/* One call in memory that is exactly as long. */
static void try_answer(void)
{
	uint8_t *reply = malloc(NLM_SVC_REPLY_MAX);
	size_t len;
	uint8_t *call = take_copy(&stream, NLM_SVC_CALL_MAX, &len);
	require(nlm_svc_answer(&calls, NULL, NLM_PEER_SERVER | NLM_PEER_LOCAL, call, len, reply) <=
		NLM_SVC_REPLY_MAX);
	free(call);
	free(reply);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	stream = xdr_reader(data, len);
	uint8_t kind = take_u8(&stream) % 5;
	at_a_time = take_u8(&stream);
	playing = true;
	switch (kind) {
	case 0:
		try_call();
		break;
	case 1:
		try_replies();
		break;
	case 2:
		try_connection();
		break;
	case 3:
		try_datagrams();
		break;
	default:
		try_answer();
		break;
	}
	playing = false;
	return 0;
}
