/* SPDX-License-Identifier: MIT
 *
 * Client and responder together, over each pair of real endpoints that needs no network but loopback: every
 * kind of chunk, byte-checked, with several calls outstanding, several inline sizes and connections that end
 * in the middle.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "arena.h"
#include "responder.h"
#include "rpcrdma.h"
#include "xdr.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>

#define MIB ((size_t)1 << 20)
#define CALL_WORDS 5u /* xid, kind, bytes to return, reply padding, a length word for payload */

/* What the message asks of the server of this test. */
enum kind { ECHO_NOTHING, TAKE_DATA, RETURN_DATA, LONG_REPLY };

struct world {
	const struct rdma_device *device;
	int epoll_fd;
	struct rdma_listener *listener;
	struct rpcrdma_xprt *x;
	struct rpcrdma_svc *svc;
	uint32_t server_inline;
	uint64_t taken_bytes, taken_sum;
	int connections;
};

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static uint8_t pattern(uint32_t seed, size_t i)
{
	return (uint8_t)((seed + i) * 2654435761u >> 13);
}

static void on_status(void *ctx, const struct rpcrdma_status *status)
{
}

static void on_call(void *ctx, struct rpcrdma_svc_req *req)
{
	struct world *w = ctx;
	struct xdr_reader r = xdr_reader(req->msg, req->msg_len);
	uint32_t xid = xdr_u32(&r), kind = xdr_u32(&r), bytes = xdr_u32(&r), seed = xdr_u32(&r);
	static uint8_t head[65536]; /* the longest reply, and its XID */
	struct xdr_writer writer = xdr_writer(head, sizeof head);
	struct rpcrdma_svc_reply reply = {.head = head};

	xdr_put_u32(&writer, xid);
	switch (kind) {
	case TAKE_DATA: {
		uint32_t len = xdr_u32(&r);
		const uint8_t *data = req->data ? req->data : xdr_bytes(&r, len);
		assert_int_equal(len, bytes);
		if (req->data) {
			assert_int_equal(req->data_len, len);
			assert_int_equal(req->data_pos, CALL_WORDS * 4);
		}
		assert_non_null(data);
		for (uint32_t i = 0; i < len; i++)
			assert_int_equal(data[i], pattern(seed, i));
		w->taken_bytes += len;
		break;
	}
	case RETURN_DATA: {
		uint8_t *payload = rpcrdma_svc_payload(req, bytes);
		assert_non_null(payload);
		for (uint32_t i = 0; i < bytes; i++)
			payload[i] = pattern(seed, i);
		xdr_put_u32(&writer, bytes);
		reply.payload = payload;
		reply.payload_len = bytes;
		break;
	}
	case LONG_REPLY: {
		uint8_t *p = xdr_reserve(&writer, bytes);
		for (uint32_t i = 0; i < bytes; i++)
			p[i] = pattern(seed, i);
		break;
	}
	}
	reply.head_len = (uint32_t)xdr_written(&writer);
	assert_int_equal(rpcrdma_svc_reply(req, &reply), 0);
}

static void accept_one(struct world *w)
{
	struct rdma_ep_params ep = {.epoll_fd = w->epoll_fd};
	struct rdma_ep *passive = NULL;

	if (w->device->listener_accept(w->listener, &ep, NULL, &passive))
		return;
	struct rpcrdma_svc_params svc = {.ep = passive,
					 .credits = 8,
					 .inline_bytes = w->server_inline,
					 .arena_bytes = 8 * MIB,
					 .max_io_bytes = MIB,
					 .remote_invalidate = w->connections % 2 == 0,
					 .on_call = on_call,
					 .ctx = w};
	rpcrdma_svc_destroy(w->svc);
	w->svc = NULL;
	assert_int_equal(rpcrdma_svc_create(&svc, &w->svc), 0);
	w->connections++;
}

/* Both ends take a turn; waits for an event when neither had anything to do. */
static void turn(struct world *w)
{
	bool more = false;

	rpcrdma_flush(w->x, now_ns());
	more |= rpcrdma_progress(w->x, now_ns());
	accept_one(w);
	if (w->svc) {
		more |= rpcrdma_svc_progress(w->svc, now_ns());
		if (rpcrdma_svc_closed(w->svc)) {
			rpcrdma_svc_destroy(w->svc);
			w->svc = NULL;
		}
	}
	struct epoll_event ev[8];
	epoll_wait(w->epoll_fd, ev, 8, more ? 0 : 1);
}

struct job {
	struct world *w;
	enum kind kind;
	uint32_t bytes, seed;
	uint8_t *memory; /* of the arena */
	uint32_t memory_bytes;
	int *left;
};

static void on_done(struct rpcrdma_call *call)
{
	struct job *job = call->owner;
	struct xdr_reader r = xdr_reader(call->reply, call->reply_len);

	assert_int_equal(call->status, 0);
	assert_int_equal(xdr_u32(&r), call->xid);
	if (job->kind == RETURN_DATA) {
		uint32_t len = xdr_u32(&r);
		assert_int_equal(len, job->bytes);
		if (call->in_placed)
			assert_int_equal(call->in_len, len);
		const uint8_t *data = call->in_placed ? job->memory : xdr_bytes(&r, len);
		for (uint32_t i = 0; i < len; i++)
			assert_int_equal(data[i], pattern(job->seed, i));
	}
	if (job->kind == LONG_REPLY) {
		const uint8_t *text = xdr_bytes(&r, job->bytes);
		assert_true(text || !job->bytes);
		for (uint32_t i = 0; i < job->bytes; i++)
			assert_int_equal(text[i], pattern(job->seed, i));
	}
	if (job->memory)
		arena_free(rpcrdma_arena(job->w->x), job->memory, job->memory_bytes, ARENA_REPLY);
	--*job->left;
	free(job);
}

/* False when there is no call or no memory now. */
static bool start(struct world *w, enum kind kind, uint32_t bytes, uint32_t seed, int *left)
{
	uint32_t room = kind == ECHO_NOTHING ? 0 : kind == LONG_REPLY ? bytes + 4 : bytes;
	uint8_t *run = room ? arena_alloc(rpcrdma_arena(w->x), room, ARENA_REPLY) : NULL;
	if (room && !run)
		return false;
	struct rpcrdma_call *call = rpcrdma_call_get(w->x);
	if (!call) {
		if (run)
			arena_free(rpcrdma_arena(w->x), run, room, ARENA_REPLY);
		return false;
	}
	struct job *job = calloc(1, sizeof *job);
	*job = (struct job){w, kind, bytes, seed, run, room, left};
	const uint32_t words[CALL_WORDS] = {htonl(call->xid), htonl(kind), htonl(bytes), htonl(seed),
					    htonl(kind == TAKE_DATA ? bytes : 0)};

	memcpy(call->msg, words, sizeof words);
	/* Some calls carry more than fits inline themselves. */
	call->msg_len = CALL_WORDS * 4 + (kind == ECHO_NOTHING ? bytes : 0);
	call->reply_max = 64;
	if (run && kind == TAKE_DATA) {
		for (uint32_t i = 0; i < bytes; i++)
			run[i] = pattern(seed, i);
		call->out[0] = (struct iovec){run, bytes};
		call->nout = 1;
		call->out_pos = CALL_WORDS * 4;
	}
	if (kind == RETURN_DATA)
		call->in = (struct iovec){run, bytes};
	if (kind == LONG_REPLY) {
		call->reply_buf = (struct iovec){run, room};
		call->reply_max = room;
	}
	call->done = on_done;
	call->owner = job;
	++*left;
	rpcrdma_submit(call, now_ns());
	return true;
}

static void open_world(struct world *w, const char *device, uint32_t client_inline, uint32_t server_inline,
		       enum fmr_strategy strategy)
{
	struct sockaddr_in any = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	struct rpcrdma_params p = {.strategy = strategy,
				   .credits = 16,
				   .inline_bytes = client_inline,
				   .calls = 32,
				   .arena_bytes = 8 * MIB,
				   .max_io_bytes = MIB,
				   .xid_first = 77,
				   .timeo_ns = UINT64_C(60000000000),
				   .on_status = on_status,
				   .addr_len = sizeof any};

	*w = (struct world){.device = rdma_device_by_name(device),
			    .epoll_fd = epoll_create1(EPOLL_CLOEXEC),
			    .server_inline = server_inline};
	assert_non_null(w->device);
	assert_int_equal(w->device->listen((struct sockaddr *)&any, sizeof any, &w->listener), 0);
	any.sin_port = htons(w->device->listener_port(w->listener));
	memcpy(&p.addr, &any, sizeof any);
	p.device = w->device;
	p.epoll_fd = w->epoll_fd;
	assert_int_equal(rpcrdma_create(&p, &w->x), 0);
	assert_int_equal(rpcrdma_connect(w->x, now_ns()), 0);
	while (!rpcrdma_is_up(w->x))
		turn(w);
}

static void close_world(struct world *w)
{
	const struct fmrpool_stats *pool = fmrpool_stats(rpcrdma_pool(w->x));

	assert_int_equal(pool->in_use, 0);
	assert_int_equal(pool->mapped, pool->unmapped_local + pool->unmapped_remote + pool->unmapped_lost);
	rpcrdma_destroy(w->x);
	rpcrdma_svc_destroy(w->svc);
	w->device->listener_close(w->listener);
	close(w->epoll_fd);
}

/* Every kind and many sizes, as many at a time as there is room for; every `drop` calls the connection is
 * dropped. */
static void run_all(struct world *w, int drop)
{
	static const uint32_t sizes[] = {
		0,	    1,	  3,	4,    100,  900,  1000,	 1023,	1024,	3900,
		4000,	    4095, 4096, 4097, 8192, 9999, 65535, 65536, 200001, 1024 * 1024 - 3,
		1024 * 1024};
	int left = 0, started = 0;

	for (uint32_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
		for (uint32_t kind = ECHO_NOTHING; kind <= LONG_REPLY; kind++) {
			uint32_t bytes = sizes[i];
			if (kind == ECHO_NOTHING)
				bytes = bytes % 4000 & ~3u;
			if (kind == LONG_REPLY && bytes > 60000)
				bytes = 60000;
			if (kind == LONG_REPLY)
				bytes &= ~3u;
			while (!start(w, kind, bytes, i * 7 + kind, &left))
				turn(w);
			if (drop && ++started % drop == 0) {
				turn(w);
				rpcrdma_drop_connection(w->x, -ECONNRESET, "the test drops it", now_ns());
			}
		}
	while (left)
		turn(w);
}

static const char *const devices[] = {"softiwarp"};
#define FOR_EACH_DEVICE(d) for (size_t d = 0; d < sizeof devices / sizeof devices[0]; d++)

static void every_kind_of_chunk_arrives(void **state)
{
	static const struct {
		uint32_t client, server;
	} inlines[] = {{4096, 4096}, {1024, 4096}, {4096, 1024}, {1024, 1024}, {65536, 65536}};

	FOR_EACH_DEVICE(d)
	for (size_t i = 0; i < sizeof inlines / sizeof inlines[0]; i++) {
		struct world w;
		open_world(&w, devices[d], inlines[i].client, inlines[i].server, FMR_WINDOW);
		run_all(&w, 0);
		assert_true(fmrpool_stats(rpcrdma_pool(w.x))->mapped > 0);
		close_world(&w);
	}
}

static void persistent_works_too(void **state)
{
	FOR_EACH_DEVICE(d)
	{
		struct world w;
		open_world(&w, devices[d], 4096, 4096, FMR_PERSISTENT);
		run_all(&w, 0);
		close_world(&w);
	}
}

static void connections_may_end_at_any_time(void **state)
{
	FOR_EACH_DEVICE(d)
	{
		struct world w;
		open_world(&w, devices[d], 4096, 4096, FMR_WINDOW);
		run_all(&w, 3);
		assert_true(rpcrdma_stats(w.x)->connects > 5);
		close_world(&w);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_kind_of_chunk_arrives),
		cmocka_unit_test(persistent_works_too),
		cmocka_unit_test(connections_may_end_at_any_time),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
