/* SPDX-License-Identifier: MIT
 *
 * rdma_bridge RDMA-PORT: so that a client which speaks RPC over TCP can test a server's RPC over RDMA. Says
 * "port N", accepts TCP connections there, and carries each call over a connection of its own by the client
 * transport of rpcrdma/: WRITE data and a symlink's text as payload that may leave the message, READ data and
 * a link's text as payload that may be placed, listings with a reply chunk. The XID is the transport's on the
 * far side and the caller's on the near one.
 */
#include "arena.h"
#include "nfs3.h"
#include "rpcrdma.h"
#include "softiwarp/softiwarp.h"

#include <arpa/inet.h>
#include <err.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#define MESSAGE_MAX_BYTES (NFS3_IO_MAX_BYTES + 8192)
#define LONG_REPLY_BYTES (256 * 1024)

struct bridge {
	int tcp, epoll;
	struct rpcrdma_xprt *xprt;
	bool up, done;
	uint8_t call[MESSAGE_MAX_BYTES];
	uint8_t reply[4 + MESSAGE_MAX_BYTES];
	uint32_t reply_len;
	int status;
};

static uint64_t now_ns(void)
{
	struct timespec ts;
	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
}

static void on_status(void *ctx, const struct rpcrdma_status *status)
{
	struct bridge *b = ctx;
	b->up = status->event == RPCRDMA_UP;
	if (!b->up)
		errx(1, "connection over: %s (%s)", strerror(-status->error), status->why);
}

/* Turns the transport until *flag. */
static void turn_until(struct bridge *b, const bool *flag)
{
	while (!*flag) {
		struct epoll_event event;
		rpcrdma_flush(b->xprt, now_ns());
		if (rpcrdma_progress(b->xprt, now_ns()) || *flag)
			continue;
		uint64_t at = rpcrdma_next_timeout(b->xprt), now = now_ns();
		int ms = at == UINT64_MAX ? 1000 : at <= now ? 0 : (int)((at - now) / 1000000) + 1;
		epoll_wait(b->epoll, &event, 1, ms);
	}
}

static void on_done(struct rpcrdma_call *call)
{
	struct bridge *b = call->owner;
	b->done = true;
	b->status = call->status;
	if (call->status)
		return;
	memcpy(b->reply + 4, call->reply, call->reply_len);
	b->reply_len = call->reply_len;
	if (!call->in_placed)
		return;
	/* Nothing follows the payload in NFSv3. */
	uint32_t pad = xdr_pad(call->in_len);
	memcpy(b->reply + 4 + b->reply_len, call->in.iov_base, call->in_len);
	memset(b->reply + 4 + b->reply_len + call->in_len, 0, pad);
	b->reply_len += call->in_len + pad;
}

static bool receive(int fd, uint8_t *to, size_t len)
{
	while (len) {
		ssize_t n = recv(fd, to, len, MSG_WAITALL);
		if (n <= 0)
			return false;
		to += n;
		len -= (size_t)n;
	}
	return true;
}

/* One record of one fragment. 0: the client has gone. */
static uint32_t receive_call(struct bridge *b)
{
	uint32_t mark;
	if (!receive(b->tcp, (uint8_t *)&mark, sizeof mark))
		return 0;
	uint32_t len = be32toh(mark) & 0x7fffffff;
	if (len < 24 || len > sizeof b->call || !receive(b->tcp, b->call, len))
		return 0;
	return len;
}

/* Where the last opaque of WRITE's or SYMLINK's arguments begins, or NULL: what cannot be read goes
 * as it is. */
static const uint8_t *find_payload(struct xdr_reader *r, uint32_t proc, uint32_t *len)
{
	struct nfs3_ddp none = {0};
	struct nfs3_args args;
	nfs3_decode *decode = proc == NFS3_WRITE ? nfs3_decode_write : nfs3_decode_symlink;
	if (!decode(r, &none, &args) || args.data.len_bytes == 0)
		return NULL;
	*len = args.data.len_bytes;
	return args.data.bytes;
}

static void add_payload(struct bridge *b, struct rpcrdma_call *call, uint32_t len, const uint8_t *payload,
			uint32_t payload_len)
{
	void *memory = arena_alloc(rpcrdma_arena(b->xprt), payload_len, ARENA_REPLY);
	memcpy(memory, payload, payload_len);
	call->out[0] = (struct iovec){memory, payload_len};
	call->nout = 1;
	call->out_pos = (uint32_t)(payload - b->call);
	/* Nothing follows it, so the message ends where it began. */
	call->msg_len = call->out_pos;
	if (call->out_pos + payload_len + xdr_pad(payload_len) != len)
		errx(1, "payload is not the end of the call");
}

static void plan(struct bridge *b, struct rpcrdma_call *call, uint32_t len)
{
	struct arena *arena = rpcrdma_arena(b->xprt);
	struct xdr_reader r = xdr_reader(b->call, len);
	uint32_t words[6], flavor_len;
	for (int i = 0; i < 6; i++)
		words[i] = xdr_u32(&r);
	for (int i = 0; i < 2; i++) {
		xdr_u32(&r);
		xdr_opaque(&r, 400, &flavor_len);
	}
	uint32_t proc = words[3] == NFS_PROGRAM ? words[5] : UINT32_MAX, payload_len;
	const uint8_t *payload = NULL;
	call->msg_len = len;
	call->reply_max = 1024;
	if (proc == NFS3_WRITE || proc == NFS3_SYMLINK)
		payload = find_payload(&r, proc, &payload_len);
	if (payload)
		add_payload(b, call, len, payload, payload_len);
	if (proc == NFS3_READ || proc == NFS3_READLINK) {
		size_t room = proc == NFS3_READ ? NFS3_IO_MAX_BYTES : 4096;
		call->in = (struct iovec){arena_alloc(arena, room, ARENA_REPLY), room};
	}
	if (proc == NFS3_READDIR || proc == NFS3_READDIRPLUS || words[3] == MOUNT_PROGRAM) {
		call->reply_buf =
			(struct iovec){arena_alloc(arena, LONG_REPLY_BYTES, ARENA_REPLY), LONG_REPLY_BYTES};
		call->reply_max = LONG_REPLY_BYTES;
	}
	if (call->msg_len > RPCRDMA_MSG_BYTES)
		errx(1, "a call of %u bytes is too long for this bridge", call->msg_len);
	memcpy(call->msg, b->call, call->msg_len);
	uint32_t xid = htobe32(call->xid);
	memcpy(call->msg, &xid, sizeof xid);
}

static void give_back(struct bridge *b, struct iovec *iov)
{
	if (iov->iov_base)
		arena_free(rpcrdma_arena(b->xprt), iov->iov_base, iov->iov_len, ARENA_REPLY);
}

static bool carry(struct bridge *b)
{
	uint32_t len = receive_call(b);
	if (!len)
		return false;
	struct rpcrdma_call *call = rpcrdma_call_get(b->xprt);
	plan(b, call, len);
	struct iovec memory[3] = {call->out[0], call->in, call->reply_buf};
	call->done = on_done;
	call->owner = b;
	b->done = false;
	rpcrdma_submit(call, now_ns());
	turn_until(b, &b->done);
	for (int i = 0; i < 3; i++)
		give_back(b, &memory[i]);
	if (b->status)
		errx(1, "call failed: %s", strerror(-b->status));
	uint32_t mark = htobe32(0x80000000 | b->reply_len);
	memcpy(b->reply, &mark, 4);
	memcpy(b->reply + 4, b->call, 4);
	return send(b->tcp, b->reply, 4 + b->reply_len, MSG_NOSIGNAL) == (ssize_t)(4 + b->reply_len);
}

static void serve(int tcp, uint16_t rdma_port)
{
	static struct bridge b;
	struct sockaddr_in sa = {.sin_family = AF_INET,
				 .sin_port = htons(rdma_port),
				 .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	struct rpcrdma_params params = {
		.device = &softiwarp_device,
		.addr_len = sizeof sa,
		.strategy = FMR_WINDOW,
		.credits = 8,
		.inline_bytes = RPCRDMA_INLINE_DEFAULT,
		.calls = 4,
		.arena_bytes = 16 << 20,
		.max_io_bytes = NFS3_IO_MAX_BYTES,
		.timeo_ns = 30ull * 1000000000,
		.one_shot = true,
		.on_status = on_status,
		.ctx = &b,
	};
	memcpy(&params.addr, &sa, sizeof sa);
	b.tcp = tcp;
	b.epoll = params.epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (getrandom(&params.xid_first, sizeof params.xid_first, 0) < 0)
		err(1, "getrandom");
	int rc = rpcrdma_create(&params, &b.xprt);
	if (!rc)
		rc = rpcrdma_connect(b.xprt, now_ns());
	if (rc)
		errx(1, "transport: %s", strerror(-rc));
	turn_until(&b, &b.up);
	while (carry(&b))
		;
	rpcrdma_destroy(b.xprt);
}

int main(int argc, char **argv)
{
	struct sockaddr_in sa = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t len = sizeof sa;
	int fd = socket(AF_INET, SOCK_STREAM, 0), on = 1;
	if (argc != 2 || bind(fd, (struct sockaddr *)&sa, sizeof sa) < 0 || listen(fd, 64) < 0 ||
	    getsockname(fd, (struct sockaddr *)&sa, &len) < 0)
		errx(2, "usage: rdma_bridge RDMA-PORT");
	signal(SIGCHLD, SIG_IGN);
	printf("port %u\n", ntohs(sa.sin_port));
	fflush(stdout);
	for (;;) {
		int conn = accept(fd, NULL, NULL);
		if (conn < 0)
			continue;
		if (fork() == 0) {
			close(fd);
			setsockopt(conn, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
			serve(conn, (uint16_t)atoi(argv[1]));
			return 0;
		}
		close(conn);
	}
}
