/* SPDX-License-Identifier: MIT */
#include "rdma.h"
#include "aside.h"
#include "responder.h"
#include "rpcrdma.h"
#include "transport.h"
#include "workers.h"

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#define CREDITS 64 /* what Linux's server grants */
#define INLINE_BYTES 4096
#define ARENA_BYTES (32ull << 20) /* 32 calls of the largest size at a time; the others wait */
#define READ_DEPTH 16
/* Sends and RDMA Writes of all credits, up to two writes each on the way, and reads besides. */
#define MAX_SEND (4 * CREDITS)
#define MAX_RECV (CREDITS + 4)
/* A reply whose payload goes inline holds this much besides: RPC header, status, attributes, lengths. */
#define INLINE_HEAD_BYTES 160

struct rdma_conn {
	struct server *srv;
	int epoll;
	int wake; /* eventfd in epoll, edge-triggered and never read: a worker has put something into done */
	struct rdma_ep *ep; /* the svc's, once there is one */
	struct rpcrdma_svc *svc;
	struct aside *aside; /* NULL: calls are served on the connection's thread */
	pthread_mutex_t lock;
	struct slow_call *done; /* under lock: workers push, the connection's thread takes all */
	uint32_t slow; /* calls that workers have, or that are in done; the connection's thread only */
	uint8_t peer[16];
	uint8_t head[REPLY_HEAD_MAX_BYTES];
};

/* A call that a worker runs. The request, and with it the message, stays ours until the reply. */
struct slow_call {
	struct work work;
	struct slow_call *next;
	struct rdma_conn *conn;
	struct call call;
	bool has_reply;
	uint8_t head[1024]; /* COMMIT's takes 24 + 4 + 4+24+4+84 + 8 */
};

static uint64_t now_ns(void)
{
	struct timespec ts;
	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
}

static uint8_t *payload_buffer(struct call *call, uint32_t len_bytes)
{
	return rpcrdma_svc_payload(call->owner, len_bytes);
}

static uint32_t payload_max(const struct rpcrdma_svc_req *req)
{
	if (req->write_chunk_bytes)
		return req->write_chunk_bytes;
	return req->reply_max > INLINE_HEAD_BYTES ? (req->reply_max - INLINE_HEAD_BYTES) & ~3u : 0;
}

static struct call call_of(struct rdma_conn *c, struct rpcrdma_svc_req *req, uint8_t *head,
			   uint32_t head_bytes)
{
	struct call call = {
		.srv = c->srv,
		.msg = req->msg,
		.msg_len_bytes = req->msg_len,
		.data = req->data,
		.data_len_bytes = req->data_len,
		.data_pos = req->data_pos,
		.reply_max_bytes = req->reply_max < head_bytes ? req->reply_max : head_bytes,
		.payload_max_bytes = payload_max(req),
		.payload_buffer = payload_buffer,
		.owner = req,
		.head = xdr_writer(head, head_bytes),
	};
	memcpy(call.peer, c->peer, sizeof call.peer);
	return call;
}

static void reply_or_drop(const struct call *call, bool has_reply)
{
	struct rpcrdma_svc_req *req = call->owner;
	if (!has_reply) {
		rpcrdma_svc_drop(req);
		return;
	}
	struct rpcrdma_svc_reply reply = {
		.head = call->head.start,
		.head_len = (uint32_t)xdr_written(&call->head),
		.payload = call->payload_len_bytes ? call->payload : NULL,
		.payload_len = call->payload_len_bytes,
	};
	/* What does not fit was answered with ERR_CHUNK: the client asked for more than it made room for. */
	rpcrdma_svc_reply(req, &reply);
}

/* On a worker's thread. */
static void slow_run(struct work *work)
{
	struct slow_call *s = (struct slow_call *)work;
	struct rdma_conn *c = s->conn;
	uint64_t one = 1;
	s->has_reply = serve_call(&s->call);
	pthread_mutex_lock(&c->lock);
	s->next = c->done;
	c->done = s;
	/* ORDER: under the lock. Once the connection's thread has the call, conn may go at any time, and its
	 * descriptor's number become a file's. */
	if (write(c->wake, &one, sizeof one) < 0)
		abort(); /* an eventfd takes 2^64 - 2 of them */
	pthread_mutex_unlock(&c->lock);
}

/* True: a worker has it. */
static bool slow_submit(struct rdma_conn *c, struct rpcrdma_svc_req *req)
{
	static_assert(offsetof(struct slow_call, work) == 0, "slow_run() finds the call by its work");
	struct slow_call *s = malloc(sizeof *s);
	if (!s)
		return false;
	*s = (struct slow_call){.work.run = slow_run, .conn = c};
	s->call = call_of(c, req, s->head, sizeof s->head);
	if (!workers_submit(&s->work)) {
		free(s);
		return false;
	}
	c->slow++;
	return true;
}

/* Replies to what workers have done; true: to something. */
static bool slow_finish(struct rdma_conn *c)
{
	pthread_mutex_lock(&c->lock);
	struct slow_call *s = c->done;
	c->done = NULL;
	pthread_mutex_unlock(&c->lock);
	bool any = s;
	while (s) {
		struct slow_call *next = s->next;
		reply_or_drop(&s->call, s->has_reply);
		free(s);
		c->slow--;
		s = next;
	}
	return any;
}

static void on_call(void *ctx, struct rpcrdma_svc_req *req)
{
	struct rdma_conn *c = ctx;
	if (call_waits_for_disk(req->msg, req->msg_len) && slow_submit(c, req))
		return;
	struct call call = call_of(c, req, c->head, sizeof c->head);
	reply_or_drop(&call, c->aside ? aside_serve(c->aside, &call) : serve_call(&call));
}

/* Milliseconds until progress is due, rounded up: never early, which would spin. -1: no need. */
static int wait_ms(const struct rpcrdma_svc *svc)
{
	uint64_t at = rpcrdma_svc_next_timeout(svc), now = now_ns();
	if (at == UINT64_MAX)
		return -1;
	if (at <= now)
		return 0;
	uint64_t ms = (at - now + 999999) / 1000000;
	return ms < 60000 ? (int)ms : 60000;
}

static void serve_connection(struct rdma_conn *c)
{
	struct epoll_event event;
	for (;;) {
		bool more = c->slow && slow_finish(c);
		more |= rpcrdma_svc_progress(c->svc, now_ns());
		if (rpcrdma_svc_closed(c->svc))
			return;
		if (!more)
			epoll_wait(c->epoll, &event, 1, wait_ms(c->svc));
	}
}

/* ORDER: the workers' calls first: their messages lie in the svc. */
static void await_workers(struct rdma_conn *c)
{
	struct epoll_event event;
	while (c->slow) {
		if (!slow_finish(c))
			epoll_wait(c->epoll, &event, 1, -1);
	}
}

/* Before there is an svc. */
static void conn_free(struct rdma_conn *c)
{
	pthread_mutex_destroy(&c->lock);
	if (c->wake >= 0)
		close(c->wake);
	if (c->epoll >= 0)
		close(c->epoll);
	free(c);
}

static void conn_close(struct rdma_conn *c)
{
	await_workers(c);
	rpcrdma_svc_destroy(c->svc);
	aside_stop(c->aside);
	conn_free(c);
	connection_end();
}

static int conn_new(struct rdma_conn **conn)
{
	struct epoll_event event = {.events = EPOLLIN | EPOLLET};
	struct rdma_conn *c = calloc(1, sizeof *c);
	if (!c)
		return -ENOMEM;
	pthread_mutex_init(&c->lock, NULL);
	c->epoll = epoll_create1(EPOLL_CLOEXEC);
	c->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (c->epoll < 0 || c->wake < 0 || epoll_ctl(c->epoll, EPOLL_CTL_ADD, c->wake, &event) < 0) {
		int err = -errno;
		conn_free(c);
		return err;
	}
	*conn = c;
	return 0;
}

/* Not for each of the attempts that a client makes. */
static void tell_once(int err)
{
	static atomic_bool told;
	if (!atomic_exchange(&told, true))
		fprintf(stderr,
			"nfsrdma-exportd: a connection was refused, its memory cannot be registered: %s%s\n",
			strerror(-err),
			err == -ENOMEM ? " (is the limit of locked memory too low? see ulimit -l)" : "");
}

static void *conn_thread(void *arg)
{
	struct rdma_conn *c = arg;
	struct rpcrdma_svc_params params = {
		.ep = c->ep,
		.credits = CREDITS,
		.inline_bytes = INLINE_BYTES,
		.arena_bytes = ARENA_BYTES,
		.max_io_bytes = NFS3_IO_MAX_BYTES,
		.remote_invalidate = true,
		.on_call = on_call,
		.ctx = c,
	};
	int err = rpcrdma_svc_create(&params, &c->svc);
	if (err)
		tell_once(err);
	else
		serve_connection(c);
	conn_close(c);
	return NULL;
}

struct rdma_server {
	struct server *srv;
	const struct rdma_device *device;
	struct rdma_listener *listener;
};

/* 0: a connection was taken, or refused; -EAGAIN: none is waiting. */
static int accept_one(struct rdma_server *s)
{
	struct sockaddr_storage peer;
	struct rdma_conn *c = NULL;
	int err = conn_new(&c);
	if (err)
		return err;
	struct rdma_ep_params params = {
		.epoll_fd = c->epoll,
		.epoll_data = c,
		.max_recv = MAX_RECV,
		.max_send = MAX_SEND,
		.read_depth = READ_DEPTH,
	};
	err = s->device->listener_accept(s->listener, &params, &peer, &c->ep);
	if (err) {
		conn_free(c);
		return err;
	}
	c->srv = s->srv;
	peer_of(&peer, c->peer);
	bool may = connection_begin();
	if (s->device->fixed_credentials)
		c->aside = aside_start();
	if (may && !c->aside == !s->device->fixed_credentials && thread_start(conn_thread, c))
		return 0;
	if (may)
		connection_end();
	c->ep->ops->close(c->ep);
	aside_stop(c->aside);
	conn_free(c);
	return 0;
}

static void *listener_thread(void *arg)
{
	struct rdma_server *s = arg;
	for (;;) {
		struct pollfd p = {.fd = s->device->listener_fd(s->listener), .events = POLLIN};
		if (poll(&p, 1, -1) < 0)
			continue;
		int err;
		while ((err = accept_one(s)) == 0)
			;
		accept_pause(-err);
	}
	return NULL;
}

bool rdma_server_knows(const char *device)
{
	return rdma_device_by_name(device);
}

int rdma_server_start(struct server *srv, const char *device, const struct sockaddr_storage *addr,
		      uint16_t port, uint16_t *bound)
{
	struct sockaddr_storage sa;
	socklen_t len = address_with_port(addr, port, &sa);
	const struct rdma_device *dev = rdma_device_by_name(device);
	if (!dev)
		return -ENODEV;
	struct rdma_server *s = malloc(sizeof *s);
	if (!s)
		return -ENOMEM;
	*s = (struct rdma_server){.srv = srv, .device = dev};
	int err = dev->listen((struct sockaddr *)&sa, len, &s->listener);
	if (err) {
		free(s);
		return err;
	}
	*bound = dev->listener_port(s->listener);
	if (thread_start(listener_thread, s))
		return 0;
	dev->listener_close(s->listener);
	free(s);
	return -EAGAIN;
}
