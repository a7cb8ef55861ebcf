/* SPDX-License-Identifier: MIT
 *
 * Both ends of RPC-over-RDMA against each other, over every device that needs no hardware: the client
 * transport, the responder, and between them nothing that a test makes up. The upper layer is a toy: a call
 * is [xid, operation, length, …] and a reply [xid, length, …].
 *
 * The suite runs a second time with a server that invalidates one key of each call with its reply, whether
 * the client has allowed it or not: see invalidating.
 *
 * Verbs needs an RDMA device: it is tested, and it alone, when END_TO_END_VERBS names an IPv4 address of this
 * machine that lies on one. Then time is the system's, for rdma_cm has time-outs of its own.
 */
#include "arena.h"
#include "fake_device.h"
#include "header.h"
#include "responder.h"
#include "responder/svc.h"
#include "rpcrdma.h"
#include "softiwarp/softiwarp.h"
#include "verbs/verbs.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#define KIB 1024u
#define MAX_IO (1024 * KIB)
#define CALLS 32u
#define CREDITS 16u
#define MS UINT64_C(1000000)
#define STUCK_MS 20000 /* nothing happens on either side for so long: it never will */

enum op {
	OP_ECHO,  /* the reply holds what came behind the length */
	OP_WRITE, /* the payload is checked; the reply holds its length */
	OP_READ,  /* the reply's payload is `length` bytes */
	OP_LIST,  /* the reply message is `length` bytes, none of it payload */
	OP_EMPTY, /* the reply is 8 bytes, whatever was asked for */
	OP_HUGE,  /* the reply is larger than any client makes room for */
	OP_HOLD,  /* not answered while world.hold is set; a write chunk that is not used */
	OP_BOTH,  /* OP_WRITE and OP_READ at once, in many segments, and a reply chunk that is not used */
};
#define BOTH_SEGS 6u

struct world {
	const struct rdma_device *device;
	struct rdma_listener *listener;
	struct rpcrdma_xprt *client;
	struct rpcrdma_svc *svc;
	struct rpcrdma_svc_params svc_params;
	int epoll_fd;
	uint64_t now_ns;
	unsigned int downs;
	struct rpcrdma_svc_req *held[CREDITS];
	unsigned int nheld, served;
	bool hold;
	unsigned int fmrs; /* registrations of the client's pool */
};

/* One call of the test. */
struct rpc {
	struct world *w;
	struct rpcrdma_call *call;
	enum op op;
	uint32_t len;
	void *memory; /* payload or room for it, in the client's arena */
	uint32_t memory_len;
	bool done;
	int status;
	uint8_t reply[256];
	uint32_t reply_len, in_len;
	bool in_placed;
};

/* Bytes that tell their place and whose they are. */
static void fill(uint8_t *p, uint32_t len, uint32_t seed)
{
	for (uint32_t i = 0; i < len; i++)
		p[i] = (uint8_t)(i * 13 + (i >> 8) + seed);
}

static bool filled(const uint8_t *p, uint32_t len, uint32_t seed)
{
	for (uint32_t i = 0; i < len; i++)
		if (p[i] != (uint8_t)(i * 13 + (i >> 8) + seed))
			return false;
	return true;
}

/* A server that invalidates where it was not asked to: its endpoint gets a table of operations in which the
 * Send of a reply takes one of the call's keys along, whichever is its turn, or the key in wrong_key. */

static bool invalidating;
static uint32_t wrong_key; /* != 0: for the next reply */
static const struct rdma_ep_ops *device_ops;
static struct rdma_ep_ops invalidating_ops;
static unsigned int invalidations; /* of the present world */

static uint32_t any_key(const struct rpcrdma_header *h)
{
	const struct rpcrdma_chunk *const chunks[] = {&h->call_chunk, &h->read_chunk, &h->write_chunk,
						      &h->reply_chunk};
	uint32_t keys[4 * RPCRDMA_MAX_SEGS_DECODED];
	unsigned int n = 0;

	for (unsigned int c = 0; c < 4; c++)
		for (uint32_t i = 0; i < chunks[c]->nsegs; i++)
			keys[n++] = chunks[c]->segs[i].handle;
	return n ? keys[h->xid % n] : 0;
}

static int send_invalidating(struct rdma_ep *ep, const struct rdma_sge *sge, unsigned int nsge,
			     uint32_t invalidate_rkey, void *ctx)
{
	const struct req *req = ctx;

	invalidate_rkey = wrong_key ? wrong_key : any_key(&req->header);
	wrong_key = 0;
	invalidations += invalidate_rkey != 0;
	return device_ops->queue_send(ep, sge, nsge, invalidate_rkey, ctx);
}

static void make_invalidating(struct rdma_ep *ep)
{
	device_ops = ep->ops;
	invalidating_ops = *ep->ops;
	invalidating_ops.queue_send = send_invalidating;
	ep->ops = &invalidating_ops;
}

/* The server's upper layer. */

static uint8_t long_head[MAX_IO];

static void answer(struct rpcrdma_svc_req *req, const void *head, uint32_t head_len, const uint8_t *payload,
		   uint32_t len, int want)
{
	struct rpcrdma_svc_reply reply = {
		.head = head, .head_len = head_len, .payload = payload, .payload_len = len};
	assert_int_equal(rpcrdma_svc_reply(req, &reply), want);
}

static void on_read(struct rpcrdma_svc_req *req, const uint32_t head[2], uint32_t len)
{
	uint8_t *p = rpcrdma_svc_payload(req, len);
	assert_non_null(p);
	fill(p, len, be32toh(head[0]));
	answer(req, head, 8, p, len, 0);
}

/* Payload that came by a read chunk, or in the message. */
static void check_data(const struct rpcrdma_svc_req *req, const struct xdr_reader *r, uint32_t xid,
		       uint32_t len)
{
	if (req->data)
		assert_int_equal(req->data_pos, 12);
	assert_true((req->data ? req->data_len : xdr_left(r) - xdr_pad(len)) == len);
	assert_true(filled(req->data ? req->data : r->pos, len, xid));
}

static void on_list(struct rpcrdma_svc_req *req, const uint32_t head[2], uint32_t len)
{
	assert_true(len <= req->reply_max && len >= 8);
	memcpy(long_head, head, 8);
	fill(long_head + 8, len - 8, be32toh(head[0]));
	answer(req, long_head, len, NULL, 0, 0);
}

static void on_call(void *ctx, struct rpcrdma_svc_req *req)
{
	struct world *w = ctx;
	struct xdr_reader r = xdr_reader(req->msg, req->msg_len);
	uint32_t xid = xdr_u32(&r), op = xdr_u32(&r), len = xdr_u32(&r);
	uint32_t head[2] = {htobe32(xid), htobe32(len)};

	assert_true(xdr_ok(&r));
	w->served++;
	switch ((enum op)op) {
	case OP_ECHO:
		assert_true(xdr_left(&r) == len);
		assert_true(filled(r.pos, len, xid));
		answer(req, head, 8, NULL, 0, 0);
		break;
	case OP_WRITE:
		check_data(req, &r, xid, len);
		answer(req, head, 8, NULL, 0, 0);
		break;
	case OP_BOTH:
		check_data(req, &r, xid, len);
		/* fallthrough */
	case OP_READ:
		on_read(req, head, len);
		break;
	case OP_LIST:
		on_list(req, head, len);
		break;
	case OP_EMPTY:
		answer(req, head, 8, NULL, 0, 0);
		break;
	case OP_HUGE:
		answer(req, long_head, req->reply_max + 1, NULL, 0, -EMSGSIZE);
		break;
	case OP_HOLD:
		if (w->hold)
			w->held[w->nheld++] = req;
		else
			answer(req, head, 8, NULL, 0, 0);
		break;
	}
}

/* Driving. */

static void take_connection(struct world *w)
{
	struct rdma_ep_params params = {.epoll_fd = w->epoll_fd};

	if (w->svc && !rpcrdma_svc_closed(w->svc))
		return;
	int err = w->device->listener_accept(w->listener, &params, NULL, &w->svc_params.ep);
	if (err) {
		assert_int_equal(err, -EAGAIN);
		return;
	}
	rpcrdma_svc_destroy(w->svc);
	w->svc = NULL;
	if (invalidating)
		make_invalidating(w->svc_params.ep);
	assert_int_equal(rpcrdma_svc_create(&w->svc_params, &w->svc), 0);
}

static struct in_addr device_address;
static bool real_time;

static uint64_t clock_ns(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000 * MS + (uint64_t)t.tv_nsec;
}

static bool pump(struct world *w)
{
	if (real_time)
		w->now_ns = clock_ns();
	bool more = rpcrdma_progress(w->client, w->now_ns);
	rpcrdma_flush(w->client, w->now_ns);
	take_connection(w);
	if (w->svc)
		more |= rpcrdma_svc_progress(w->svc, w->now_ns);
	/* What a side would not sleep for. */
	more |= rpcrdma_next_timeout(w->client) <= w->now_ns;
	return more || (w->svc && rpcrdma_svc_next_timeout(w->svc) <= w->now_ns);
}

static void wait_in_real_time(struct world *w)
{
	uint64_t due = rpcrdma_next_timeout(w->client);
	uint64_t svc_due = w->svc ? rpcrdma_svc_next_timeout(w->svc) : UINT64_MAX;
	struct epoll_event ev;

	if (svc_due < due)
		due = svc_due;
	uint64_t wait_ms = due <= w->now_ns ? 0 : (due - w->now_ns) / MS + 1;
	if (epoll_wait(w->epoll_fd, &ev, 1, wait_ms < STUCK_MS ? (int)wait_ms : STUCK_MS) == 0 &&
	    wait_ms >= STUCK_MS)
		fail_msg("nothing happens any more");
}

/* Time is made up: it moves on when there is nothing else to wait for. */
static void wait_event(struct world *w)
{
	struct epoll_event ev;

	if (real_time) {
		wait_in_real_time(w);
		return;
	}
	if (!rpcrdma_is_up(w->client) && rpcrdma_next_timeout(w->client) != UINT64_MAX &&
	    epoll_wait(w->epoll_fd, &ev, 1, 0) == 0) {
		w->now_ns += 100 * MS;
		return;
	}
	if (rpcrdma_is_up(w->client) && epoll_wait(w->epoll_fd, &ev, 1, STUCK_MS) == 0)
		fail_msg("nothing happens any more");
}

#define PUMP_UNTIL(w, condition)                                                                             \
	while (!(condition))                                                                                 \
		if (!pump(w) && !(condition))                                                                \
	wait_event(w)

static void on_status(void *ctx, const struct rpcrdma_status *status)
{
	struct world *w = ctx;
	w->downs += status->event == RPCRDMA_DOWN;
}

static const struct rdma_device *device; /* under test */
static uint32_t inline_bytes;
static enum fmr_strategy strategy;
static size_t server_arena_bytes;

/* How many registrations the pool can lend: all of them, or some are lost. */
static unsigned int count_fmrs(struct world *w)
{
	struct fmrpool *pool = rpcrdma_pool(w->client);
	struct fmr *fmrs[1024];
	unsigned int n = 0;

	while (n < 1024 && !fmrpool_borrow(pool, 1, &fmrs[n], w))
		n++;
	assert_true(n < 1024);
	fmrpool_return(pool, n, fmrs);
	return n;
}

static struct world *new_world(void)
{
	struct world *w = calloc(1, sizeof *w);
	struct sockaddr_in addr = {.sin_family = AF_INET, .sin_addr = device_address};
	struct epoll_event ev = {.events = EPOLLIN};

	assert_non_null(w);
	fake_reset();
	fake_limits.max_sge = RDMA_SGE_MAX;
	fake_limits.remote_invalidate = !invalidating;
	invalidations = 0;
	w->device = device;
	w->now_ns = real_time ? clock_ns() : 1000 * MS;
	w->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	assert_true(w->epoll_fd >= 0);
	assert_int_equal(device->listen((struct sockaddr *)&addr, sizeof addr, &w->listener), 0);
	assert_int_equal(epoll_ctl(w->epoll_fd, EPOLL_CTL_ADD, device->listener_fd(w->listener), &ev), 0);
	addr.sin_port = htons(device->listener_port(w->listener));
	w->svc_params = (struct rpcrdma_svc_params){.credits = CREDITS,
						    .inline_bytes = inline_bytes,
						    .arena_bytes = server_arena_bytes,
						    .max_io_bytes = MAX_IO,
						    .remote_invalidate = true,
						    .on_call = on_call,
						    .ctx = w};
	struct rpcrdma_params params = {.device = device,
					.addr_len = sizeof addr,
					.epoll_fd = w->epoll_fd,
					.strategy = strategy,
					.credits = CALLS,
					.inline_bytes = inline_bytes,
					.calls = CALLS,
					.arena_bytes = 40u << 20,
					.max_io_bytes = MAX_IO,
					.xid_first = rpcrdma_xid_lane(0xfffffff8, 1),
					.timeo_ns = 3600000 * MS,
					.on_status = on_status,
					.ctx = w};
	memcpy(&params.addr, &addr, sizeof addr);
	assert_int_equal(rpcrdma_create(&params, &w->client), 0);
	assert_int_equal(rpcrdma_connect(w->client, w->now_ns), 0);
	w->fmrs = count_fmrs(w);
	PUMP_UNTIL(w, rpcrdma_is_up(w->client));
	return w;
}

static void free_world(struct world *w)
{
	const struct fmrpool_stats *pool = fmrpool_stats(rpcrdma_pool(w->client));
	PUMP_UNTIL(w, pool->in_use == 0);
	assert_true(pool->unmapped_local + pool->unmapped_remote + pool->unmapped_lost == pool->mapped);
	assert_int_equal(count_fmrs(w), w->fmrs);
	assert_true(rpcrdma_calls_free(w->client) == CALLS);
	rpcrdma_destroy(w->client);
	rpcrdma_svc_destroy(w->svc);
	w->device->listener_close(w->listener);
	close(w->epoll_fd);
	free(w);
	assert_int_equal(fake_living(), 0);
}

/* The client's upper layer. */

static void on_done(struct rpcrdma_call *call)
{
	struct rpc *rpc = call->owner;

	assert_false(rpc->done);
	rpc->done = true;
	rpc->status = call->status;
	rpc->in_placed = call->in_placed;
	rpc->in_len = call->in_len;
	if (call->status)
		return;
	rpc->reply_len = call->reply_len;
	if (rpc->op == OP_LIST)
		assert_true(filled(call->reply + 8, call->reply_len - 8, call->xid));
	if (rpc->op == OP_READ || rpc->op == OP_BOTH)
		assert_true(call->in_placed ? filled(call->in.iov_base, rpc->len, call->xid)
					    : filled(call->reply + 8, rpc->len, call->xid));
	memcpy(rpc->reply, call->reply,
	       call->reply_len < sizeof rpc->reply ? call->reply_len : sizeof rpc->reply);
}

static void encode(struct rpcrdma_call *call, enum op op, uint32_t len)
{
	uint32_t words[3] = {htobe32(call->xid), htobe32(op), htobe32(len)};

	memcpy(call->msg, words, sizeof words);
	call->msg_len = sizeof words;
	if (op != OP_ECHO)
		return;
	assert_true(len <= RPCRDMA_MSG_BYTES - sizeof words);
	fill(call->msg + sizeof words, len, call->xid);
	call->msg_len += len;
}

/* Payload of len bytes at rpc->memory, in n segments that are as long as each other, but for the last. */
static void lend_out(struct rpc *rpc, unsigned int n)
{
	struct rpcrdma_call *call = rpc->call;
	uint32_t piece = rpc->len / n + 1, at = 0;

	fill(rpc->memory, rpc->len, call->xid);
	for (; at < rpc->len; at += piece)
		call->out[call->nout++] = (struct iovec){(char *)rpc->memory + at,
							 piece < rpc->len - at ? piece : rpc->len - at};
	call->out_pos = 12;
}

/* In place, for the call points to it. */
static void submit_into(struct rpc *rpc, struct world *w, enum op op, uint32_t len)
{
	struct rpcrdma_call *call = rpcrdma_call_get(w->client);

	assert_non_null(call);
	*rpc = (struct rpc){.w = w, .call = call, .op = op, .len = len};
	encode(call, op, len);
	call->reply_max = 8;
	call->owner = rpc;
	call->done = on_done;
	rpc->memory_len = op == OP_BOTH ? 3 * len : op == OP_ECHO || op == OP_HUGE ? 0 : len;
	if (rpc->memory_len)
		rpc->memory = arena_alloc(rpcrdma_arena(w->client), rpc->memory_len, ARENA_REPLY);
	if (op == OP_WRITE)
		lend_out(rpc, 2);
	if (op == OP_READ || op == OP_HOLD)
		call->in = (struct iovec){rpc->memory, len};
	if (op == OP_BOTH) {
		lend_out(rpc, BOTH_SEGS);
		call->in = (struct iovec){(char *)rpc->memory + len, len};
		call->reply_buf = (struct iovec){(char *)rpc->memory + 2 * (size_t)len, len};
		call->reply_max = len;
	}
	if (op == OP_LIST) {
		call->reply_buf = (struct iovec){rpc->memory, len};
		call->reply_max = len;
	}
	rpcrdma_submit(call, w->now_ns);
}

static void finish(struct rpc *rpc)
{
	PUMP_UNTIL(rpc->w, rpc->done);
	if (rpc->memory)
		arena_free(rpcrdma_arena(rpc->w->client), rpc->memory, rpc->memory_len, ARENA_REPLY);
}

static struct rpc run(struct world *w, enum op op, uint32_t len)
{
	struct rpc rpc;
	submit_into(&rpc, w, op, len);
	finish(&rpc);
	return rpc;
}

static void check_ok(const struct rpc *rpc)
{
	uint32_t len;
	assert_int_equal(rpc->status, 0);
	memcpy(&len, rpc->reply + 4, 4);
	assert_int_equal(be32toh(len), rpc->len);
}

/* Tests. */

static const uint32_t sizes[] = {1,    2,    3,	   4,	 100,	900,   980,   1000,   1024,    2000,
				 4000, 4064, 4096, 5001, 65536, 65537, 99999, 524288, 1048573, MAX_IO};
#define FOR_SIZES(len) for (const uint32_t *len = sizes; len < sizes + sizeof sizes / sizeof sizes[0]; len++)

static void writes_of_every_size_arrive(void **state)
{
	struct world *w = new_world();
	FOR_SIZES(len)
	{
		struct rpc rpc = run(w, OP_WRITE, *len);
		check_ok(&rpc);
	}
	assert_true(rpcrdma_stats(w->client)->out_rdma_bytes > 0);
	assert_true(rpcrdma_svc_stats(w->svc)->read_bytes == rpcrdma_stats(w->client)->out_rdma_bytes);
	free_world(w);
}

static void reads_of_every_size_arrive(void **state)
{
	struct world *w = new_world();
	FOR_SIZES(len)
	{
		struct rpc rpc = run(w, OP_READ, *len);
		check_ok(&rpc);
		if (rpc.in_placed)
			assert_int_equal(rpc.in_len, *len);
	}
	assert_true(rpcrdma_stats(w->client)->in_rdma_bytes > 0);
	assert_true(rpcrdma_svc_stats(w->svc)->write_bytes == rpcrdma_stats(w->client)->in_rdma_bytes);
	struct rpcrdma_agreed agreed;
	assert_true(rpcrdma_agreed(w->client, &agreed));
	assert_int_equal(fmrpool_stats(rpcrdma_pool(w->client))->unmapped_remote > 0,
			 agreed.offers_invalidate || invalidating);
	free_world(w);
}

static void replies_of_every_size_arrive(void **state)
{
	struct world *w = new_world();
	FOR_SIZES(len)
	{
		if (*len < 8)
			continue;
		struct rpc rpc = run(w, OP_LIST, *len);
		assert_int_equal(rpc.status, 0);
		assert_int_equal(rpc.reply_len, *len);
	}
	assert_true(rpcrdma_stats(w->client)->long_replies > 0);
	free_world(w);
}

static void calls_of_every_size_arrive(void **state)
{
	struct world *w = new_world();
	for (uint32_t len = 0; len <= RPCRDMA_MSG_BYTES - 12; len += 68) {
		struct rpc rpc = run(w, OP_ECHO, len);
		check_ok(&rpc);
	}
	struct rpc rpc = run(w, OP_ECHO, RPCRDMA_MSG_BYTES - 12);
	check_ok(&rpc);
	assert_true(rpcrdma_stats(w->client)->long_calls > 0);
	free_world(w);
}

static void unused_chunks_come_back_empty(void **state)
{
	struct world *w = new_world();
	struct rpcrdma_call *call = rpcrdma_call_get(w->client);
	struct rpc rpc = {.w = w, .call = call, .op = OP_EMPTY, .len = 5 * KIB, .memory_len = 5 * KIB};

	rpc.memory = arena_alloc(rpcrdma_arena(w->client), rpc.len, ARENA_REPLY);
	encode(call, OP_EMPTY, rpc.len);
	call->reply_max = 8;
	call->in = (struct iovec){rpc.memory, rpc.len};
	call->owner = &rpc;
	call->done = on_done;
	rpcrdma_submit(call, w->now_ns);
	finish(&rpc);
	check_ok(&rpc);
	assert_int_equal(rpc.in_len, 0);
	free_world(w);
}

static void reply_that_does_not_fit_is_an_error_for_its_call_alone(void **state)
{
	struct world *w = new_world();
	struct rpc rpc = run(w, OP_HUGE, 0);
	assert_int_equal(rpc.status, -EIO);
	rpc = run(w, OP_READ, 100000);
	check_ok(&rpc);
	assert_int_equal(w->downs, 0);
	free_world(w);
}

/* Everything at once, with far less memory at the server than is asked for. */
static void mixed_load_in_a_small_arena(void **state)
{
	static const enum op ops[] = {OP_READ, OP_WRITE, OP_LIST, OP_ECHO, OP_READ};
	struct rpc rpcs[CALLS];
	struct world *w = new_world();
	uint32_t next = 1;

	for (int turn = 0; turn < 8; turn++) {
		for (unsigned int i = 0; i < CALLS; i++) {
			enum op op = ops[(i + (unsigned int)turn) % 5];
			next = next * 1664525 + 1013904223;
			uint32_t len = 8 + (next >> 8) % (op == OP_ECHO ? 2000 : MAX_IO - 8);
			submit_into(&rpcs[i], w, op, len);
		}
		for (unsigned int i = 0; i < CALLS; i++) {
			finish(&rpcs[i]);
			assert_int_equal(rpcs[i].status, 0);
		}
	}
	assert_int_equal(w->served, 8 * CALLS);
	assert_int_equal(w->downs, 0);
	free_world(w);
}

static void calls_survive_the_death_of_the_server(void **state)
{
	struct rpc rpcs[CREDITS / 2];
	struct world *w = new_world();

	w->hold = true;
	for (unsigned int i = 0; i < CREDITS / 2; i++)
		submit_into(&rpcs[i], w, i & 1 ? OP_HOLD : OP_READ, 50000);
	PUMP_UNTIL(w, w->nheld == CREDITS / 4);
	rpcrdma_svc_destroy(w->svc);
	w->svc = NULL;
	w->hold = false;
	for (unsigned int i = 0; i < CREDITS / 2; i++) {
		finish(&rpcs[i]);
		assert_int_equal(rpcs[i].status, 0);
	}
	assert_int_equal(w->downs, 1);
	assert_true(rpcrdma_stats(w->client)->retransmits >= CREDITS / 4);
	free_world(w);
}

/* The client drops its connection again and again with all kinds of calls under way; none is lost or answered
 * wrongly. */
static void connections_may_end_at_any_time(void **state)
{
	static const enum op ops[] = {OP_READ, OP_WRITE, OP_LIST, OP_ECHO};
	struct rpc rpcs[CALLS];
	struct world *w = new_world();

	for (unsigned int turn = 0; turn < 12; turn++) {
		for (unsigned int i = 0; i < CALLS; i++)
			submit_into(&rpcs[i], w, ops[i % 4], 8 + i * (ops[i % 4] == OP_ECHO ? 60 : 5000));
		for (unsigned int i = 0; i < turn; i++)
			pump(w);
		rpcrdma_drop_connection(w->client, -ECONNRESET, "the test drops it");
		PUMP_UNTIL(w, w->downs == turn + 1);
		for (unsigned int i = 0; i < CALLS; i++) {
			finish(&rpcs[i]);
			assert_int_equal(rpcs[i].status, 0);
		}
	}
	free_world(w);
}

/* Calls of every kind, always many under way, of most of which the server takes one key away and the client
 * the others: who takes away one that the other has already taken ends the connection, or worse. */
static unsigned int many;
static void one_key_of_each_call_is_invalidated_unasked(void **state)
{
	static const enum op ops[] = {OP_BOTH, OP_READ, OP_WRITE, OP_LIST, OP_ECHO};
	struct rpc rpcs[CALLS];
	struct world *w = new_world();
	const struct fmrpool_stats *pool = fmrpool_stats(rpcrdma_pool(w->client));

	for (unsigned int i = 0; i < many + CALLS; i++) {
		struct rpc *rpc = &rpcs[i % CALLS];
		enum op op = ops[i % 5];
		if (i >= CALLS) {
			finish(rpc);
			assert_int_equal(rpc->status, 0);
		}
		if (i < many)
			submit_into(rpc, w, op, op == OP_ECHO ? 4080 : 4200 + i * 37 % 8192);
	}
	assert_int_equal(w->downs, 0);
	assert_true(invalidations >= many * 4 / 5);
	assert_int_equal(pool->unmapped_remote, invalidations);
	assert_int_equal(pool->unmapped_lost, 0);
	assert_true(pool->unmapped_local > pool->unmapped_remote);
	free_world(w);
}

/* The key in the reply to one call is that of another one, plus `off`. */
static void invalidate_wrongly(uint32_t off)
{
	struct world *w = new_world();
	struct rpc held, rpc = run(w, OP_EMPTY, 0); /* for more credits than the first */
	const struct rpcrdma_chunk *chunk;

	w->hold = true;
	submit_into(&held, w, OP_HOLD, 5000);
	PUMP_UNTIL(w, w->nheld == 1);
	chunk = &((const struct req *)w->held[0])->header.write_chunk;
	assert_int_equal(chunk->nsegs, 1);
	wrong_key = chunk->segs[0].handle ^ off;
	w->hold = false;
	submit_into(&rpc, w, OP_READ, 5000);
	finish(&rpc);
	check_ok(&rpc);
	finish(&held);
	check_ok(&held);
	assert_int_equal(w->downs, 1);
	assert_int_equal(w->served, 1 + 4); /* both a second time */
	assert_int_equal(rpcrdma_stats(w->client)->bad_replies, !off);
	free_world(w);
}

static void another_calls_key_ends_the_connection(void **state)
{
	invalidate_wrongly(0);
}

/* Of a window that is bound, and not by this key. (One that is not bound at all makes rxe panic.) */
static void a_key_that_is_not_valid_ends_the_connection(void **state)
{
	invalidate_wrongly(0x80);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(writes_of_every_size_arrive),
	cmocka_unit_test(reads_of_every_size_arrive),
	cmocka_unit_test(replies_of_every_size_arrive),
	cmocka_unit_test(calls_of_every_size_arrive),
	cmocka_unit_test(unused_chunks_come_back_empty),
	cmocka_unit_test(reply_that_does_not_fit_is_an_error_for_its_call_alone),
	cmocka_unit_test(mixed_load_in_a_small_arena),
	cmocka_unit_test(calls_survive_the_death_of_the_server),
	cmocka_unit_test(connections_may_end_at_any_time),
};

static const struct CMUnitTest invalidating_tests[] = {
	cmocka_unit_test(one_key_of_each_call_is_invalidated_unasked),
	cmocka_unit_test(another_calls_key_ends_the_connection),
	cmocka_unit_test(a_key_that_is_not_valid_ends_the_connection),
};

static int run_suite(const struct rdma_device *d, uint32_t bytes, size_t arena)
{
	device = d;
	inline_bytes = bytes;
	server_arena_bytes = arena;
	return cmocka_run_group_tests_name(d->name, tests, NULL, NULL);
}

static int run_invalidating(const struct rdma_device *d, unsigned int ncalls)
{
	many = ncalls;
	invalidating = true;
	int failed = run_suite(d, 4096, 16u << 20);
	failed += cmocka_run_group_tests_name(d->name, invalidating_tests, NULL, NULL);
	invalidating = false;
	return failed;
}

static int run_verbs(const char *address)
{
	struct sockaddr_in addr = {.sin_family = AF_INET};
	struct rdma_probe probe;

	if (inet_pton(AF_INET, address, &addr.sin_addr) != 1)
		return 2;
	int err = verbs_device.probe((struct sockaddr *)&addr, sizeof addr, &probe);
	if (err) {
		fprintf(stderr, "no RDMA device at %s: %s\n", address, strerror(-err));
		return 2;
	}
	device_address = addr.sin_addr;
	real_time = true;
	strategy = probe.limits.windows ? FMR_WINDOW : FMR_DYNAMIC;
	int failed = run_suite(&verbs_device, 4096, 16u << 20);
	return strategy == FMR_WINDOW ? failed + run_invalidating(&verbs_device, 5000) : failed;
}

int main(void)
{
	const char *outside = getenv("END_TO_END_VERBS");
	int failed = 0;

	if (outside)
		return run_verbs(outside);
	device_address.s_addr = htonl(INADDR_LOOPBACK);
	failed += run_suite(&fake_device, 1024, 3u << 20);
	failed += run_suite(&fake_device, 4096, 16u << 20);
	failed += run_suite(&softiwarp_device, 1024, 3u << 20);
	failed += run_suite(&softiwarp_device, 4096, 16u << 20);
	failed += run_invalidating(&fake_device, 1000);
	failed += run_invalidating(&softiwarp_device, 1000);
	strategy = FMR_PERSISTENT;
	failed += run_suite(&softiwarp_device, 4096, 16u << 20);
	return failed;
}
