/* SPDX-License-Identifier: MIT
 *
 * The client transport against a server that the test plays by hand, message by message, over the fake
 * device.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "arena.h"
#include "client/xprt.h" /* to turn the XID counter */
#include "fake_device.h"
#include "header.h"
#include "rpcrdma.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define MIB ((size_t)1 << 20)
#define SEC UINT64_C(1000000000)
#define CALLS 16u

/* What the test sees of one call. */
struct seen {
	struct rpcrdma_call *call;
	struct world *w;
	int done, released, status;
	uint8_t reply[256];
	uint32_t reply_len, in_len, transmissions;
	bool in_placed;
	bool again;	      /* done() starts another RPC with the same call */
	uint32_t watched_key; /* done() looks whether the server can still use it */
	uint64_t watched_offset;
	int key_in_done; /* 0: it could */
};

struct world {
	struct rdma_listener *listener;
	struct rpcrdma_xprt *x;
	struct rdma_ep *server; /* the server's end, or NULL */
	struct rpcrdma_params params;
	uint64_t now;
	int ups, downs, down_error;
	uint64_t retry_ns;
	char why[160];
	uint8_t message[RPCRDMA_INLINE_DEFAULT]; /* what the server received last */
	int len;
	struct rpcrdma_header h; /* its header */
	const uint8_t *rpc;	 /* its RPC message, inline part */
	uint32_t rpc_len;
};

static void on_status(void *ctx, const struct rpcrdma_status *s)
{
	struct world *w = ctx;

	if (s->event == RPCRDMA_UP) {
		w->ups++;
		return;
	}
	w->downs++;
	w->down_error = s->error;
	w->retry_ns = s->retry_ns;
	strncpy(w->why, s->why, sizeof w->why - 1);
}

static void turn(struct world *w)
{
	rpcrdma_flush(w->x, w->now);
	for (int i = 0; i < 10; i++)
		rpcrdma_progress(w->x, w->now);
}

/* The server takes the connection that the client asks for. */
static void serve(struct world *w, const struct rpcrdma_private *offer)
{
	struct rdma_ep_params ep = {.epoll_fd = -1};
	uint8_t priv[RPCRDMA_PRIVATE_BYTES];

	w->now += w->retry_ns;
	w->retry_ns = 0;
	turn(w);
	assert_int_equal(fake_device.listener_accept(w->listener, &ep, NULL, &w->server), 0);
	for (int i = 0; i < 3 && w->server->state != RDMA_EP_REQUESTED; i++)
		w->server->ops->progress(w->server, w->now);
	assert_int_equal(w->server->state, RDMA_EP_REQUESTED);
	rpcrdma_private_encode(priv, offer);
	assert_int_equal(fake_post_raw(w->server, 100, RPCRDMA_INLINE_DEFAULT), 0);
	assert_int_equal(w->server->ops->accept(w->server, priv, offer ? sizeof priv : 0), 0);
	w->server->ops->progress(w->server, w->now);
	turn(w);
	assert_true(rpcrdma_is_up(w->x));
}

static const struct rpcrdma_private k4 = {.remote_invalidate = true, .send_bytes = 4096, .recv_bytes = 4096};
static const struct rpcrdma_private k1 = {.send_bytes = 1024, .recv_bytes = 1024};

static struct world *new_world_with(void (*adjust)(struct rpcrdma_params *))
{
	struct world *w = calloc(1, sizeof *w);
	struct sockaddr_in *sin = (struct sockaddr_in *)&w->params.addr;

	fake_reset();
	fake_limits.max_sge = RDMA_SGE_MAX;
	w->now = SEC;
	sin->sin_family = AF_INET;
	sin->sin_port = htons(RPCRDMA_PORT);
	sin->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	w->params.device = &fake_device;
	w->params.addr_len = sizeof *sin;
	w->params.epoll_fd = -1;
	w->params.strategy = FMR_WINDOW;
	w->params.credits = 4;
	w->params.inline_bytes = RPCRDMA_INLINE_DEFAULT;
	w->params.calls = CALLS;
	w->params.arena_bytes = 4 * MIB;
	w->params.max_io_bytes = MIB;
	w->params.xid_first = rpcrdma_xid_lane(0xfffffff0u, 3);
	w->params.timeo_ns = 60 * SEC;
	w->params.on_status = on_status;
	w->params.ctx = w;
	if (adjust)
		adjust(&w->params);
	assert_int_equal(fake_device.listen((struct sockaddr *)sin, sizeof *sin, &w->listener), 0);
	assert_int_equal(rpcrdma_create(&w->params, &w->x), 0);
	assert_int_equal(rpcrdma_connect(w->x, w->now), 0);
	return w;
}

static struct world *new_world(void)
{
	struct world *w = new_world_with(NULL);

	serve(w, &k4);
	return w;
}

static void drop_server(struct world *w)
{
	w->server->ops->close(w->server);
	w->server = NULL;
}

static void end_world(struct world *w)
{
	const struct fake_counts *counts = fake_counts(rpcrdma_endpoint(w->x));

	assert_int_equal(counts->misuses, 0);
	assert_int_equal(counts->double_invalidates, 0);
	rpcrdma_destroy(w->x);
	if (w->server)
		w->server->ops->close(w->server);
	fake_device.listener_close(w->listener);
	assert_int_equal(fake_living(), 0);
	free(w);
}

static void on_release(struct rpcrdma_call *call)
{
	((struct seen *)call->owner)->released++;
}

static void on_done(struct rpcrdma_call *call)
{
	struct seen *s = call->owner;
	uint8_t byte;

	s->done++;
	s->status = call->status;
	s->transmissions = call->transmissions;
	s->in_placed = call->in_placed;
	s->in_len = call->in_len;
	s->reply_len = 0;
	if (call->status == 0) {
		s->reply_len = call->reply_len;
		memcpy(s->reply, call->reply,
		       call->reply_len < sizeof s->reply ? call->reply_len : sizeof s->reply);
	}
	if (s->watched_key)
		s->key_in_done = fake_touch((struct rdma_ep *)rpcrdma_endpoint(s->w->x), FMR_REMOTE_WRITE,
					    s->watched_key, s->watched_offset, &byte, 1);
	if (s->again) {
		s->again = false;
		rpcrdma_call_renew(call);
		uint32_t xid = htonl(call->xid);
		memcpy(call->msg, &xid, 4);
		call->msg_len = 40;
		call->reply_max = 100;
		rpcrdma_submit(call, s->w->now);
	}
}

/* A call whose message is its XID and a pattern. */
static struct rpcrdma_call *new_call(struct world *w, struct seen *s, uint32_t msg_len)
{
	struct rpcrdma_call *call = rpcrdma_call_get(w->x);

	assert_non_null(call);
	*s = (struct seen){.call = call, .w = w};
	for (uint32_t i = 0; i < msg_len; i++)
		call->msg[i] = (uint8_t)i;
	uint32_t xid = htonl(call->xid);
	memcpy(call->msg, &xid, 4);
	call->msg_len = msg_len;
	call->reply_max = 128;
	call->done = on_done;
	call->release = on_release;
	call->owner = s;
	return call;
}

static void submit(struct world *w, struct seen *s, uint32_t msg_len)
{
	rpcrdma_submit(new_call(w, s, msg_len), w->now);
}

/* The server takes the next message, if there is one. */
static bool take(struct world *w)
{
	uint32_t invalidated;

	turn(w);
	w->server->ops->progress(w->server, w->now);
	w->len = fake_recv_raw(w->server, w->message, sizeof w->message, &invalidated);
	if (w->len < 0)
		return false;
	struct xdr_reader r = xdr_reader(w->message, (size_t)w->len);
	assert_int_equal(rpcrdma_header_decode(&r, false, &w->h), 0);
	w->rpc = r.pos;
	w->rpc_len = (uint32_t)xdr_left(&r);
	return true;
}

/* The server sends a header and an RPC message of rpc_len bytes that begins with rpc_xid. */
static void say(struct world *w, const struct rpcrdma_header *h, uint32_t rpc_xid, uint32_t rpc_len,
		uint32_t invalidate)
{
	uint8_t out[RPCRDMA_INLINE_DEFAULT] = {0};
	struct xdr_writer xw = xdr_writer(out, sizeof out);

	rpcrdma_header_encode(&xw, h);
	if (rpc_len) {
		xdr_put_u32(&xw, rpc_xid);
		memset(xdr_reserve(&xw, rpc_len - 4), 0xab, rpc_len - 4);
	}
	assert_false(xw.stuck);
	assert_int_equal(fake_send_raw(w->server, out, (uint32_t)xdr_written(&xw), invalidate), 0);
	turn(w);
}

/* The plain answer to what was taken last: chunks returned as used. */
static struct rpcrdma_header answer_header(struct world *w, uint32_t credits)
{
	struct rpcrdma_header h = {.xid = w->h.xid, .vers = 1, .credits = credits, .proc = RDMA_MSG};

	h.write_chunk = w->h.write_chunk;
	h.reply_chunk = w->h.reply_chunk;
	for (uint32_t i = 0; i < h.reply_chunk.nsegs; i++)
		h.reply_chunk.segs[i].length = 0;
	return h;
}

static void answer(struct world *w, uint32_t credits)
{
	struct rpcrdma_header h = answer_header(w, credits);

	say(w, &h, h.xid, 24, 0);
}

static int touch(struct world *w, enum fmr_access access, const struct rpcrdma_segment *seg, void *buf,
		 uint32_t len)
{
	return fake_touch((struct rdma_ep *)rpcrdma_endpoint(w->x), access, seg->handle, seg->offset, buf,
			  len);
}

/* ---- normal operation ---- */

static void a_small_call_goes_and_comes_inline(void **state)
{
	struct world *w = new_world();
	struct seen s;

	submit(w, &s, 44);
	assert_true(take(w));
	assert_int_equal(w->h.xid, s.call->xid);
	assert_int_equal(w->h.xid >> 28, 3); /* the lane's */
	assert_int_equal(w->h.proc, RDMA_MSG);
	assert_int_equal(w->h.credits, 4);
	assert_int_equal(w->rpc_len, 44);
	assert_int_equal(w->rpc[43], 43);
	assert_int_equal(s.done, 0);
	answer(w, 4);
	assert_int_equal(s.done, 1);
	assert_int_equal(s.released, 1);
	assert_int_equal(s.status, 0);
	assert_int_equal(s.reply_len, 24);
	assert_int_equal(s.transmissions, 1);
	assert_int_equal(fmrpool_stats(rpcrdma_pool(w->x))->borrowed, 0);
	assert_int_equal(rpcrdma_calls_free(w->x), CALLS);
	end_world(w);
}

static void small_write_data_is_gathered_in_place_and_padded(void **state)
{
	struct world *w = new_world();
	struct seen s;
	struct rpcrdma_call *call = new_call(w, &s, 48);
	char *data = arena_alloc(rpcrdma_arena(w->x), 4096, ARENA_REPLY);

	memcpy(data, "hello", 5);
	call->out[0] = (struct iovec){data, 5};
	call->nout = 1;
	call->out_pos = 40;
	rpcrdma_submit(call, w->now);
	assert_true(take(w));
	assert_int_equal(w->rpc_len, 56);
	assert_memory_equal(w->rpc + 40, "hello\0\0\0", 8);
	assert_int_equal(w->rpc[48], 40); /* the rest of the message follows */
	answer(w, 4);
	assert_int_equal(s.done, 1);
	end_world(w);
}

static void write_data_can_be_read_and_nothing_else(void **state)
{
	struct world *w = new_world();
	struct seen s;
	struct rpcrdma_call *call = new_call(w, &s, 112);
	char *data = arena_alloc(rpcrdma_arena(w->x), 9000, ARENA_REPLY), got[9000];

	memset(data, 'x', 9000);
	call->out[0] = (struct iovec){data, 8999};
	call->nout = 1;
	call->out_pos = 112;
	rpcrdma_submit(call, w->now);
	assert_true(take(w));
	struct rpcrdma_segment *seg = &w->h.read_chunk.segs[0], next = *seg;
	assert_int_equal(w->h.read_chunk.nsegs, 1);
	assert_int_equal(w->h.read_pos, 112);
	assert_int_equal(seg->length, 8999); /* no padding in the chunk */
	assert_int_equal(w->rpc_len, 112);
	assert_int_equal(touch(w, FMR_REMOTE_READ, seg, got, 8999), 0);
	assert_memory_equal(got, data, 8999);
	assert_int_equal(touch(w, FMR_REMOTE_WRITE, seg, got, 1), -EACCES);
	next.offset += 8999;
	assert_int_equal(touch(w, FMR_REMOTE_READ, &next, got, 1), -EACCES);
	answer(w, 4);
	assert_int_equal(s.done, 1);
	assert_int_equal(touch(w, FMR_REMOTE_READ, seg, got, 1), -EACCES);
	assert_int_equal(rpcrdma_stats(w->x)->out_rdma_bytes, 8999);
	end_world(w);
}

/* Submits a READ of len bytes; on return the server has the call. */
static char *start_read(struct world *w, struct seen *s, uint32_t len)
{
	struct rpcrdma_call *call = new_call(w, s, 100);
	char *in = arena_alloc(rpcrdma_arena(w->x), len, ARENA_REPLY);

	memset(in, 0, len);
	call->in = (struct iovec){in, len};
	rpcrdma_submit(call, w->now);
	assert_true(take(w));
	assert_int_equal(w->h.write_chunk.nsegs, 1);
	assert_int_equal(w->h.write_chunk.segs[0].length, len);
	s->watched_key = w->h.write_chunk.segs[0].handle;
	s->watched_offset = w->h.write_chunk.segs[0].offset;
	return in;
}

static void read_data_is_placed_and_then_out_of_reach(void **state)
{
	struct world *w = new_world();
	struct seen s;
	char *in = start_read(w, &s, 100000), data[5000];

	memset(data, 'r', sizeof data);
	assert_int_equal(touch(w, FMR_REMOTE_READ, &w->h.write_chunk.segs[0], data, 1), -EACCES);
	assert_int_equal(touch(w, FMR_REMOTE_WRITE, &w->h.write_chunk.segs[0], data, sizeof data), 0);
	struct rpcrdma_header h = answer_header(w, 4);
	h.write_chunk.segs[0].length = sizeof data; /* a short read */
	say(w, &h, h.xid, 128, 0);
	assert_int_equal(s.done, 1);
	assert_int_equal(s.status, 0);
	assert_true(s.in_placed);
	assert_int_equal(s.in_len, sizeof data);
	assert_memory_equal(in, data, sizeof data);
	assert_int_equal(s.key_in_done, -EACCES);
	assert_int_equal(fmrpool_stats(rpcrdma_pool(w->x))->unmapped_local, 1);
	assert_int_equal(fmrpool_stats(rpcrdma_pool(w->x))->in_use, 0);
	end_world(w);
}

static void a_reply_waits_for_its_invalidate(void **state)
{
	struct world *w = new_world();
	struct rdma_ep *ep = (struct rdma_ep *)rpcrdma_endpoint(w->x);
	struct seen s;

	start_read(w, &s, 5000);
	fake_hold(ep, 1u << RDMA_WC_INVALIDATE);
	answer(w, 4);
	assert_int_equal(s.done, 0);
	turn(w);
	assert_int_equal(s.done, 0);
	fake_hold(ep, 0);
	turn(w);
	assert_int_equal(s.done, 1);
	assert_int_equal(s.key_in_done, -EACCES);
	end_world(w);
}

static void a_reply_waits_for_its_send(void **state)
{
	struct world *w = new_world();
	struct rdma_ep *ep = (struct rdma_ep *)rpcrdma_endpoint(w->x);
	struct seen s;

	fake_hold(ep, 1u << RDMA_WC_SEND);
	submit(w, &s, 44);
	assert_true(take(w));
	answer(w, 4);
	assert_int_equal(s.done, 0);
	fake_hold(ep, 0);
	turn(w);
	assert_int_equal(s.done, 1);
	end_world(w);
}

static void remote_invalidation_is_recognised(void **state)
{
	struct world *w = new_world();
	struct seen s;

	start_read(w, &s, 5000);
	struct rpcrdma_header h = answer_header(w, 4);
	say(w, &h, h.xid, 128, w->h.write_chunk.segs[0].handle);
	assert_int_equal(s.done, 1);
	assert_int_equal(s.status, 0);
	assert_int_equal(s.key_in_done, -EACCES);
	assert_int_equal(fmrpool_stats(rpcrdma_pool(w->x))->unmapped_remote, 1);
	assert_int_equal(fmrpool_stats(rpcrdma_pool(w->x))->unmapped_local, 0);
	assert_int_equal(fake_counts(rpcrdma_endpoint(w->x))->posts[FAKE_INVALIDATE], 0);
	end_world(w);
}

static void a_long_reply_comes_by_the_reply_chunk(void **state)
{
	struct world *w = new_world();
	struct seen s;
	struct rpcrdma_call *call = new_call(w, &s, 100);
	uint8_t text[200];

	call->reply_max = 30000;
	call->reply_buf = (struct iovec){arena_alloc(rpcrdma_arena(w->x), 32768, ARENA_REPLY), 32768};
	rpcrdma_submit(call, w->now);
	assert_true(take(w));
	assert_int_equal(w->h.reply_chunk.segs[0].length, 30000);
	memset(text, 7, sizeof text);
	uint32_t xid = htonl(w->h.xid);
	memcpy(text, &xid, 4);
	assert_int_equal(touch(w, FMR_REMOTE_WRITE, &w->h.reply_chunk.segs[0], text, sizeof text), 0);
	struct rpcrdma_header h = answer_header(w, 4);
	h.proc = RDMA_NOMSG;
	h.reply_chunk.segs[0].length = sizeof text;
	say(w, &h, 0, 0, 0);
	assert_int_equal(s.done, 1);
	assert_int_equal(s.status, 0);
	assert_int_equal(s.reply_len, sizeof text);
	assert_memory_equal(s.reply, text, sizeof text);
	end_world(w);
}

static void a_short_reply_may_leave_the_reply_chunk_unused(void **state)
{
	struct world *w = new_world();
	struct seen s;
	struct rpcrdma_call *call = new_call(w, &s, 100);

	call->reply_max = 30000;
	call->reply_buf = (struct iovec){arena_alloc(rpcrdma_arena(w->x), 32768, ARENA_REPLY), 32768};
	rpcrdma_submit(call, w->now);
	assert_true(take(w));
	answer(w, 4);
	assert_int_equal(s.done, 1);
	assert_int_equal(s.status, 0);
	assert_int_equal(s.reply_len, 24);
	end_world(w);
}

static void a_long_call_is_fetched(void **state)
{
	struct world *w = new_world_with(NULL);
	struct seen s;
	uint8_t got[2000];

	serve(w, &k1);
	submit(w, &s, 2000);
	uint8_t sent[2000];
	memcpy(sent, s.call->msg, sizeof sent);
	assert_true(take(w));
	assert_int_equal(w->h.proc, RDMA_NOMSG);
	assert_int_equal(w->rpc_len, 0);
	assert_int_equal(w->h.call_chunk.nsegs, 1);
	assert_int_equal(w->h.call_chunk.segs[0].length, 2000);
	assert_int_equal(touch(w, FMR_REMOTE_READ, &w->h.call_chunk.segs[0], got, 2000), 0);
	assert_memory_equal(got, sent, 2000);
	answer(w, 4);
	assert_int_equal(s.done, 1);
	assert_int_equal(s.status, 0);
	assert_int_equal(touch(w, FMR_REMOTE_READ, &w->h.call_chunk.segs[0], got, 1), -EACCES);
	end_world(w);
}

static void credits_bound_what_is_outstanding(void **state)
{
	struct world *w = new_world();
	struct seen s[6];

	for (int i = 0; i < 6; i++)
		submit(w, &s[i], 44);
	assert_true(take(w));
	assert_int_equal(w->h.xid, s[0].call->xid);
	assert_false(take(w)); /* one credit until a reply says more */
	answer(w, 3);
	for (int i = 1; i < 4; i++) {
		assert_true(take(w));
		assert_int_equal(w->h.xid, s[i].call->xid); /* in order */
	}
	assert_false(take(w));
	answer(w, 100); /* cut to the four that we asked for */
	assert_int_equal(rpcrdma_stats(w->x)->credits, 4);
	assert_true(take(w));
	assert_true(take(w));
	assert_int_equal(rpcrdma_stats(w->x)->outstanding_peak, 4);
	assert_int_equal(fake_posted_recvs(rpcrdma_endpoint(w->x)),
			 6); /* always one for each that is out, and two */
	end_world(w);
}

static void fewer_credits_than_are_in_use_stop_the_rest(void **state)
{
	struct world *w = new_world();
	struct seen s[7];

	for (int i = 0; i < 7; i++)
		submit(w, &s[i], 44);
	assert_true(take(w));
	answer(w, 4);
	for (int i = 1; i < 5; i++)
		assert_true(take(w));
	/* Four are out, two wait; then the server has one credit left for us, and none at all. */
	for (int i = 1; i < 4; i++) {
		struct rpcrdma_header h = {
			.xid = s[i].call->xid, .vers = 1, .credits = (uint32_t)i & 1, .proc = RDMA_MSG};
		say(w, &h, h.xid, 24, 0);
		assert_int_equal(s[i].done, 1);
		assert_false(take(w)); /* while one is out */
	}
	struct rpcrdma_header last = {.xid = s[4].call->xid, .vers = 1, .credits = 0, .proc = RDMA_MSG};
	say(w, &last, last.xid, 24, 0);
	assert_true(take(w));
	assert_int_equal(w->h.xid, s[5].call->xid);
	assert_false(take(w));
	answer(w, 1);
	assert_true(take(w));
	answer(w, 1);
	assert_int_equal(s[6].done, 1);
	assert_int_equal(rpcrdma_stats(w->x)->outstanding, 0);
	end_world(w);
}

static void one_doorbell_serves_all_that_leaves_together(void **state)
{
	struct world *w = new_world();
	struct seen first, s[3];

	submit(w, &first, 44);
	assert_true(take(w));
	answer(w, 4);
	uint64_t before = fake_counts(rpcrdma_endpoint(w->x))->doorbells;
	for (int i = 0; i < 3; i++)
		submit(w, &s[i], 44);
	turn(w);
	assert_int_equal(fake_counts(rpcrdma_endpoint(w->x))->doorbells, before + 1);
	end_world(w);
}

static void few(struct rpcrdma_params *p)
{
	p->credits = 1;
}

static void calls_that_need_many_registrations_wait_in_order_holding_none(void **state)
{
	struct world *w = new_world();
	struct seen s[4];
	char *data = arena_alloc(rpcrdma_arena(w->x), MIB, ARENA_REPLY);
	struct seen first;

	submit(w, &first, 44);
	assert_true(take(w));
	answer(w, 4);
	/* 4 credits, 4 * 2 + 19 = 27 registrations: one call of 16 leaves, the next finds 11 */
	for (int i = 0; i < 2; i++) {
		struct rpcrdma_call *call = new_call(w, &s[i], 100);
		for (unsigned int n = 0; n < 16; n++)
			call->out[n] = (struct iovec){data + n * 4096, 4096};
		call->nout = 16;
		call->out_pos = 100;
		rpcrdma_submit(call, w->now);
	}
	submit(w, &s[2], 44); /* does not overtake */
	assert_true(take(w));
	assert_int_equal(w->h.xid, s[0].call->xid);
	assert_int_equal(w->h.read_chunk.nsegs, 16);
	assert_false(take(w));
	assert_int_equal(fmrpool_stats(rpcrdma_pool(w->x))->in_use, 16);
	answer(w, 4);
	assert_int_equal(s[0].done, 1);
	assert_true(take(w));
	assert_int_equal(w->h.xid, s[1].call->xid);
	answer(w, 4);
	assert_true(take(w));
	assert_int_equal(w->h.xid, s[2].call->xid);
	end_world(w);
}

static uint64_t clock_at; /* what the transport's clock says */
static uint64_t clock_step;

static uint64_t the_clock(void)
{
	return clock_at += clock_step;
}

static void with_clock(struct rpcrdma_params *params)
{
	clock_at = SEC;
	clock_step = 0;
	params->clock_ns = the_clock;
}

static void the_pool_and_the_queue_can_be_looked_at(void **state)
{
	struct world *w = new_world();
	const struct rpcrdma_stats *stats = rpcrdma_stats(w->x);
	const struct fmrpool_stats *pool = fmrpool_stats(rpcrdma_pool(w->x));
	struct seen s[2];

	assert_int_equal(stats->state, RPCRDMA_STATE_UP);
	assert_int_equal(pool->fmrs, 4 * 2 + 19);
	start_read(w, &s[0], 5000);
	assert_int_equal(pool->mapped_now, 1);
	submit(w, &s[1], 44);
	turn(w);
	assert_int_equal(stats->queued, 1); /* one credit before the first reply */
	assert_int_equal(stats->waits_for, RPCRDMA_WAITS_FOR_CREDIT);
	fake_hold((struct rdma_ep *)rpcrdma_endpoint(w->x), 1u << RDMA_WC_INVALIDATE);
	answer(w, 1);
	assert_int_equal(pool->mapped_now, 0);
	assert_int_equal(pool->unmapping_now, 1);
	fake_hold((struct rdma_ep *)rpcrdma_endpoint(w->x), 0);
	turn(w);
	assert_int_equal(pool->unmapping_now, 0);
	fake_drop(w->server, -ECONNRESET, "lost");
	turn(w);
	rpcrdma_flush(w->x, w->now);
	assert_int_equal(stats->waits_for, RPCRDMA_WAITS_FOR_CONNECTION);
	assert_int_not_equal(stats->state, RPCRDMA_STATE_UP);
	end_world(w);
}

static void calls_are_counted_by_their_kind(void **state)
{
	struct world *w = new_world_with(with_clock);
	static struct rpcrdma_kind_stats kind;
	struct seen s;

	kind = (struct rpcrdma_kind_stats){0};
	serve(w, &k4);
	struct rpcrdma_call *call = new_call(w, &s, 46);
	call->out[0] = (struct iovec){arena_alloc(rpcrdma_arena(w->x), 4096, ARENA_REPLY), 5};
	call->nout = 1;
	call->out_pos = 40;
	call->kind = &kind;
	rpcrdma_submit(call, clock_at);
	clock_at += 3000;
	assert_true(take(w));
	assert_int_equal(kind.calls, 1);
	assert_int_equal(kind.sends, 1);
	assert_int_equal(kind.sent_bytes, 46 + 8);
	assert_int_equal(kind.queue.sum_ns, 3000);
	fake_drop(w->server, -ECONNRESET, "lost");
	turn(w);
	drop_server(w);
	clock_at += 1000000;
	serve(w, &k4);
	assert_true(take(w));
	assert_int_equal(kind.sends, 2);
	assert_int_equal(kind.retransmits, 1);
	clock_at += 7000;
	answer(w, 4);
	assert_int_equal(s.done, 1);
	assert_int_equal(kind.calls, 1);
	assert_int_equal(kind.replies, 1);
	assert_int_equal(kind.received_bytes, 24);
	assert_int_equal(latency_count(&kind.queue), 1); /* until it was sent first */
	assert_int_equal(kind.rtt.sum_ns, 7000);	 /* since it was sent last */
	end_world(w);
}

static struct rpcrdma_times times;

static void with_times(struct rpcrdma_params *params)
{
	with_clock(params);
	times = (struct rpcrdma_times){0};
	params->times = &times;
}

static void mapping_and_unmapping_are_timed(void **state)
{
	struct world *w = new_world_with(with_times);
	struct seen s;

	serve(w, &k4);
	struct rdma_ep *ep = (struct rdma_ep *)rpcrdma_endpoint(w->x);
	clock_step = 2000; /* each look at the clock */
	start_read(w, &s, 5000);
	assert_int_equal(latency_count(&times.map), 1);
	assert_int_equal(times.map.sum_ns, 2000);
	fake_hold(ep, 1u << RDMA_WC_INVALIDATE);
	clock_step = 0;
	answer(w, 4);
	assert_int_equal(latency_count(&times.unmap), 0);
	clock_at += 9000;
	fake_hold(ep, 0);
	turn(w);
	assert_int_equal(s.done, 1);
	assert_int_equal(latency_count(&times.unmap), 1);
	assert_int_equal(times.unmap.sum_ns, 9000);
	end_world(w);
}

static void a_call_may_be_renewed_in_done(void **state)
{
	struct world *w = new_world();
	struct seen s;

	submit(w, &s, 44);
	uint32_t first = s.call->xid;
	s.again = true;
	assert_true(take(w));
	answer(w, 4);
	assert_int_equal(s.done, 1);
	assert_int_equal(s.released, 0);
	assert_true(take(w));
	assert_int_equal(w->h.xid, rpcrdma_xid_lane(first + 1, 3));
	answer(w, 4);
	assert_int_equal(s.done, 2);
	assert_int_equal(s.released, 1);
	end_world(w);
}

static void persistent(struct rpcrdma_params *p)
{
	p->strategy = FMR_PERSISTENT;
}

/* RFC 8797 §4.2, as a report shows it. */
static void what_was_agreed_can_be_told(void **state)
{
	static const struct rpcrdma_private lopsided = {.send_bytes = 1024, .recv_bytes = 8192};
	struct world *w = new_world();
	struct rpcrdma_agreed a;

	assert_true(rpcrdma_agreed(w->x, &a));
	assert_int_equal(a.send_bytes, 4096);
	assert_int_equal(a.recv_bytes, 4096);
	assert_true(a.peer_told);
	assert_true(a.offers_invalidate);
	assert_true(a.peer_invalidates);
	fake_drop(w->server, -ECONNRESET, "the cable was pulled");
	turn(w);
	assert_false(rpcrdma_agreed(w->x, &a));
	drop_server(w);
	serve(w, &lopsided);
	assert_true(rpcrdma_agreed(w->x, &a));
	assert_int_equal(a.send_bytes, 4096);
	assert_int_equal(a.recv_bytes, 1024);
	assert_false(a.peer_invalidates);
	end_world(w);
}

static void the_persistent_strategy_binds_nothing(void **state)
{
	struct world *w = new_world_with(persistent);
	struct seen s;

	serve(w, &k4);
	start_read(w, &s, 5000);
	answer(w, 4);
	assert_int_equal(s.done, 1);
	assert_int_equal(s.key_in_done, 0); /* that is what is not safe about it */
	assert_int_equal(fake_counts(rpcrdma_endpoint(w->x))->posts[FAKE_BIND], 0);
	end_world(w);
}

/* ---- distrust ---- */

static void unknown_xids_are_dropped_and_cost_no_receive(void **state)
{
	struct world *w = new_world();
	struct rpcrdma_header h = {.xid = 12345, .vers = 1, .credits = 4, .proc = RDMA_MSG};
	unsigned int recvs = fake_posted_recvs(rpcrdma_endpoint(w->x));
	struct seen s;

	for (int i = 0; i < 20; i++)
		say(w, &h, h.xid, 24, 0);
	assert_int_equal(rpcrdma_stats(w->x)->unknown_replies, 20);
	assert_int_equal(fake_posted_recvs(rpcrdma_endpoint(w->x)), recvs);
	submit(w, &s, 44);
	assert_true(take(w));
	answer(w, 4);
	assert_int_equal(s.done, 1);
	answer(w, 4); /* the same answer again */
	assert_int_equal(s.done, 1);
	assert_int_equal(rpcrdma_stats(w->x)->unknown_replies, 21);
	assert_true(rpcrdma_is_up(w->x));
	end_world(w);
}

/* Each breaks a READ's reply; the call fails, the memory is unmapped, the connection stays. */
static void spoil_longer(struct rpcrdma_header *h, uint32_t *xid, uint32_t *len)
{
	h->write_chunk.segs[0].length++;
}
static void spoil_two_segments(struct rpcrdma_header *h, uint32_t *xid, uint32_t *len)
{
	h->write_chunk.nsegs = 2;
	h->write_chunk.segs[1] = h->write_chunk.segs[0];
}
static void spoil_reply_chunk(struct rpcrdma_header *h, uint32_t *xid, uint32_t *len)
{
	h->reply_chunk = h->write_chunk;
}
static void spoil_read_chunk(struct rpcrdma_header *h, uint32_t *xid, uint32_t *len)
{
	h->read_chunk = h->write_chunk;
	h->read_pos = 4;
}
static void spoil_nomsg(struct rpcrdma_header *h, uint32_t *xid, uint32_t *len)
{
	h->proc = RDMA_NOMSG;
	*len = 0;
}
static void spoil_xid(struct rpcrdma_header *h, uint32_t *xid, uint32_t *len)
{
	++*xid;
}
static void spoil_empty(struct rpcrdma_header *h, uint32_t *xid, uint32_t *len)
{
	*len = 0;
}
static void spoil_version(struct rpcrdma_header *h, uint32_t *xid, uint32_t *len)
{
	h->vers = 2;
}
static void spoil_procedure(struct rpcrdma_header *h, uint32_t *xid, uint32_t *len)
{
	h->proc = 9;
}

static void broken_replies_fail_their_call_only(void **state)
{
	static void (*const spoil[])(struct rpcrdma_header *, uint32_t *, uint32_t *) = {
		spoil_longer, spoil_two_segments, spoil_reply_chunk, spoil_read_chunk, spoil_nomsg,
		spoil_xid,    spoil_empty,	  spoil_version,     spoil_procedure};

	for (unsigned int i = 0; i < sizeof spoil / sizeof spoil[0]; i++) {
		struct world *w = new_world();
		struct seen s, next;

		start_read(w, &s, 5000);
		struct rpcrdma_header h = answer_header(w, 4);
		uint32_t xid = h.xid, len = 128;
		spoil[i](&h, &xid, &len);
		say(w, &h, xid, len, 0);
		assert_int_equal(s.done, 1);
		assert_int_equal(s.status, -EPROTO);
		assert_int_equal(s.key_in_done, -EACCES);
		assert_int_equal(fmrpool_stats(rpcrdma_pool(w->x))->in_use, 0);
		assert_int_equal(w->downs, 0);
		submit(w, &next, 44);
		assert_true(take(w));
		answer(w, 4);
		assert_int_equal(next.status, 0);
		assert_int_equal(next.done, 1);
		end_world(w);
	}
}

static void rdma_errors_fail_their_call(void **state)
{
	static const struct {
		uint32_t error;
		int status;
	} rows[] = {{ERR_CHUNK, -EIO}, {ERR_VERS, -EPROTONOSUPPORT}};

	for (unsigned int i = 0; i < 2; i++) {
		struct world *w = new_world();
		struct seen s;

		start_read(w, &s, 5000);
		struct rpcrdma_header h = {.xid = w->h.xid,
					   .vers = 1,
					   .credits = 4,
					   .proc = RDMA_ERROR,
					   .error = rows[i].error,
					   .vers_low = 1,
					   .vers_high = 1};
		say(w, &h, 0, 0, 0);
		assert_int_equal(s.done, 1);
		assert_int_equal(s.status, rows[i].status);
		assert_int_equal(s.key_in_done, -EACCES);
		end_world(w);
	}
}

static void invalidating_what_is_not_the_calls_ends_the_connection(void **state)
{
	struct world *w = new_world();
	struct seen warm, read, other;

	submit(w, &warm, 44);
	assert_true(take(w));
	answer(w, 4);
	start_read(w, &read, 5000);
	uint32_t key = w->h.write_chunk.segs[0].handle;
	submit(w, &other, 44);
	assert_true(take(w));
	struct rpcrdma_header h = answer_header(w, 4);
	say(w, &h, h.xid, 24, key);
	assert_int_equal(w->downs, 1);
	assert_int_equal(w->down_error, -EPROTO);
	assert_int_equal(other.done, 0); /* not believed: both are sent again */
	assert_int_equal(read.done, 0);
	drop_server(w);
	serve(w, &k4);
	assert_true(take(w));
	assert_int_equal(w->h.xid, read.call->xid);
	answer(w, 4);
	assert_true(take(w));
	assert_int_equal(w->h.xid, other.call->xid);
	answer(w, 4);
	assert_int_equal(read.done + other.done, 2);
	end_world(w);
}

/* ---- recovery ---- */

static void calls_are_sent_again_in_order_with_their_xids(void **state)
{
	struct world *w = new_world();
	struct seen warm, s[6];

	submit(w, &warm, 44);
	assert_true(take(w));
	answer(w, 4);
	start_read(w, &s[0], 5000);
	uint32_t old_key = s[0].watched_key;
	for (int i = 1; i < 6; i++)
		submit(w, &s[i], 44);
	for (int i = 1; i < 4; i++)
		assert_true(take(w));
	fake_drop(w->server, -ECONNRESET, "the cable was pulled");
	turn(w);
	assert_int_equal(w->downs, 1);
	assert_int_equal(w->down_error, -ECONNRESET);
	assert_string_equal(w->why, "the cable was pulled");
	assert_int_equal(w->retry_ns, 0); /* it worked: at once */
	assert_int_equal(fmrpool_stats(rpcrdma_pool(w->x))->in_use, 0);
	drop_server(w);
	serve(w, &k4);
	for (int i = 0; i < 6; i++) {
		assert_true(take(w));
		assert_int_equal(w->h.xid, s[i].call->xid);
		if (i == 0)
			assert_int_not_equal(w->h.write_chunk.segs[0].handle, old_key);
		if (i == 0) {
			assert_false(take(w)); /* one credit again */
		}
		answer(w, 4);
		assert_int_equal(s[i].done, 1);
	}
	assert_int_equal(s[0].transmissions, 2);
	assert_int_equal(rpcrdma_stats(w->x)->retransmits, 4);
	end_world(w);
}

/* What went inline goes by a chunk, and a reply that would have come inline has its reply chunk. */
static void a_call_is_planned_anew_for_each_connection(void **state)
{
	struct world *w = new_world();
	struct seen s;
	struct rpcrdma_call *call = new_call(w, &s, 48);

	call->out[0] = (struct iovec){arena_alloc(rpcrdma_arena(w->x), 4096, ARENA_REPLY), 2000};
	call->nout = 1;
	call->out_pos = 48;
	call->reply_max = 3000;
	call->reply_buf = (struct iovec){arena_alloc(rpcrdma_arena(w->x), 4096, ARENA_REPLY), 4096};
	rpcrdma_submit(call, w->now);
	assert_true(take(w));
	assert_int_equal(w->rpc_len, 2048);
	assert_int_equal(w->h.read_chunk.nsegs + w->h.reply_chunk.nsegs, 0);
	fake_drop(w->server, -ECONNRESET, "");
	turn(w);
	drop_server(w);
	serve(w, &k1);
	assert_true(take(w));
	assert_int_equal(w->h.xid, call->xid);
	assert_int_equal(w->rpc_len, 48);
	assert_int_equal(w->h.read_chunk.nsegs, 1);
	assert_int_equal(w->h.read_chunk.segs[0].length, 2000);
	assert_int_equal(w->h.read_pos, 48);
	assert_int_equal(w->h.reply_chunk.nsegs, 1);
	assert_int_equal(w->h.reply_chunk.segs[0].length, 3000);
	answer(w, 4);
	assert_int_equal(s.done, 1);
	assert_int_equal(s.status, 0);
	assert_int_equal(fmrpool_stats(rpcrdma_pool(w->x))->in_use, 0);
	end_world(w);
}

static void a_reply_that_came_before_the_end_is_not_lost(void **state)
{
	struct world *w = new_world();
	struct seen s;

	start_read(w, &s, 5000);
	fake_pause((struct rdma_ep *)rpcrdma_endpoint(w->x), true); /* the invalidate gets no further */
	answer(w, 4);
	assert_int_equal(s.done, 0);
	fake_drop(w->server, -ECONNRESET, "");
	turn(w);
	assert_int_equal(s.done, 1);
	assert_int_equal(s.status, 0);
	assert_int_equal(s.transmissions, 1);
	assert_int_equal(fmrpool_stats(rpcrdma_pool(w->x))->unmapped_lost, 1);
	end_world(w);
}

static void a_failed_invalidate_ends_the_connection(void **state)
{
	struct world *w = new_world();
	struct seen s;

	start_read(w, &s, 5000);
	fake_fail_post((struct rdma_ep *)rpcrdma_endpoint(w->x), 1, -EIO);
	answer(w, 4);
	assert_int_equal(w->downs, 1);
	assert_int_equal(s.done, 1); /* finished once the end of the connection has unmapped it */
	assert_int_equal(s.key_in_done, -EACCES);
	assert_int_equal(fmrpool_stats(rpcrdma_pool(w->x))->unmapped_lost, 1);
	end_world(w);
}

static void an_unanswered_call_ends_the_connection(void **state)
{
	struct world *w = new_world();
	struct seen s;

	submit(w, &s, 44);
	assert_true(take(w));
	assert_int_equal(rpcrdma_next_timeout(w->x), w->now + 60 * SEC);
	w->now += 60 * SEC - 1;
	turn(w);
	assert_int_equal(w->downs, 0);
	w->now++;
	turn(w);
	assert_int_equal(w->downs, 1);
	assert_int_equal(w->down_error, -ETIMEDOUT);
	drop_server(w);
	serve(w, &k4);
	assert_true(take(w));
	assert_int_equal(w->h.xid, s.call->xid);
	answer(w, 4);
	assert_int_equal(s.status, 0);
	assert_int_equal(s.done, 1);
	end_world(w);
}

static void soft(struct rpcrdma_params *p)
{
	p->soft = true;
	p->retrans = 1;
	p->timeo_ns = 10 * SEC;
}

static void a_soft_call_fails_in_bounded_time(void **state)
{
	struct world *w = new_world_with(soft);
	struct seen warm, s, waiting;

	serve(w, &k4);
	submit(w, &warm, 44);
	assert_true(take(w));
	answer(w, 1); /* so that it is made again at once */
	start_read(w, &s, 5000);
	submit(w, &waiting, 44);
	w->now += 10 * SEC;
	turn(w);
	assert_int_equal(w->downs, 1);
	assert_int_equal(s.done, 0);
	drop_server(w);
	serve(w, &k4);
	assert_true(take(w));
	assert_int_equal(rpcrdma_next_timeout(w->x), w->now + 10 * SEC);
	w->now += 10 * SEC;
	turn(w);
	assert_int_equal(s.done, 1);
	assert_int_equal(s.status, -ETIMEDOUT);
	assert_int_equal(s.key_in_done, -EACCES);
	assert_int_equal(waiting.status, -ETIMEDOUT);
	end_world(w);
}

static void connecting_is_retried_with_growing_pauses(void **state)
{
	struct world *w = new_world_with(NULL);

	fake_device.listener_close(w->listener);
	turn(w);
	for (int i = 1; i <= 3; i++) {
		assert_int_equal(w->downs, i);
		assert_int_equal(w->down_error, -ECONNREFUSED);
		assert_in_range(w->retry_ns, 75000000u << (i - 1), 125000000u << (i - 1));
		assert_int_equal(rpcrdma_next_timeout(w->x), w->now + w->retry_ns);
		w->now += w->retry_ns;
		turn(w);
	}
	assert_int_equal(
		fake_device.listen((struct sockaddr *)&w->params.addr, w->params.addr_len, &w->listener), 0);
	w->now += 3 * SEC;
	serve(w, &k4);
	assert_int_equal(w->ups, 1);
	end_world(w);
}

static void one_shot(struct rpcrdma_params *p)
{
	p->one_shot = true;
}

static void one_shot_tries_once(void **state)
{
	struct world *w = new_world_with(one_shot);

	fake_device.listener_close(w->listener);
	turn(w);
	w->now += 100 * SEC;
	turn(w);
	assert_int_equal(w->downs, 1);
	assert_int_equal(rpcrdma_next_timeout(w->x), UINT64_MAX);
	assert_int_equal(
		fake_device.listen((struct sockaddr *)&w->params.addr, w->params.addr_len, &w->listener), 0);
	end_world(w);
}

static void an_abandoned_call_keeps_its_memory_until_the_reply(void **state)
{
	struct world *w = new_world();
	struct seen s, next;

	start_read(w, &s, 5000);
	rpcrdma_call_abandon(s.call);
	turn(w);
	assert_int_equal(s.released, 0);
	assert_int_equal(fmrpool_stats(rpcrdma_pool(w->x))->in_use, 1);
	submit(w, &next, 44);
	assert_false(take(w)); /* it keeps its credit, too */
	answer(w, 4);
	assert_int_equal(s.done, 0);
	assert_int_equal(s.released, 1);
	assert_int_equal(fmrpool_stats(rpcrdma_pool(w->x))->in_use, 0);
	assert_true(take(w));
	rpcrdma_call_abandon(next.call);
	fake_drop(w->server, -ECONNRESET, "");
	turn(w);
	assert_int_equal(next.released,
			 1); /* the end of the connection serves as well; it is not sent again */
	assert_int_equal(next.done, 0);
	assert_int_equal(rpcrdma_calls_free(w->x), CALLS);
	end_world(w);
}

static void an_abandoned_call_that_has_not_left_is_released_at_once(void **state)
{
	struct world *w = new_world();
	struct seen first, s;

	submit(w, &first, 44);
	submit(w, &s, 44);
	assert_true(take(w));
	rpcrdma_call_abandon(s.call);
	assert_int_equal(s.released, 1);
	answer(w, 4);
	assert_false(take(w));
	end_world(w);
}

static void destroying_cancels_what_is_there(void **state)
{
	struct world *w = new_world();
	struct seen sent, queued;

	start_read(w, &sent, 5000);
	submit(w, &queued, 44);
	turn(w);
	end_world(w);
	assert_int_equal(sent.status, -ECANCELED);
	assert_int_equal(queued.status, -ECANCELED);
	assert_int_equal(sent.released + queued.released, 2);
}

/* What a soft call waits for is its own deadline, whoever was sent before it. */
static void no_retrans(struct rpcrdma_params *p)
{
	soft(p);
	p->retrans = 0;
}

static void an_abandoned_call_has_no_deadline_and_hides_none(void **state)
{
	struct world *w = new_world_with(no_retrans);
	struct seen first, abandoned, s;

	serve(w, &k4);
	submit(w, &first, 44);
	submit(w, &abandoned, 44);
	assert_true(take(w));
	w->now += 2 * SEC;
	submit(w, &s, 44);
	w->now += 6 * SEC;
	answer(w, 4); /* 8 s after the two, 6 s after the third, which now leave */
	assert_int_equal(first.done, 1);
	assert_true(take(w));
	assert_true(take(w));
	rpcrdma_call_abandon(abandoned.call);
	w->now += 2 * SEC; /* its deadline, which nobody waits for */
	turn(w);
	assert_int_equal(w->downs, 0);
	assert_int_equal(rpcrdma_next_timeout(w->x), w->now + 2 * SEC);
	w->now += 2 * SEC;
	turn(w);
	assert_int_equal(s.done, 1);
	assert_int_equal(s.status, -ETIMEDOUT);
	assert_int_equal(abandoned.released, 1);
	end_world(w);
}

/* A server that accepts and hangs up, for instance at the very call that is sent again each time. */
static void a_connection_that_answered_nothing_is_not_made_again_at_once(void **state)
{
	struct world *w = new_world();
	struct seen s;

	submit(w, &s, 44);
	for (int i = 0; i < 3; i++) {
		assert_true(take(w));
		fake_drop(w->server, -ECONNRESET, "");
		turn(w);
		assert_int_equal(w->downs, i + 1);
		assert_in_range(w->retry_ns, 75000000u << i, 125000000u << i);
		drop_server(w);
		serve(w, &k4);
	}
	assert_true(take(w));
	answer(w, 4);
	assert_int_equal(s.done, 1);
	fake_drop(w->server, -ECONNRESET, "");
	turn(w);
	assert_int_equal(w->retry_ns, 0);
	end_world(w);
}

static void the_reason_of_the_device_stands(void **state)
{
	struct world *w = new_world();
	struct seen s;

	start_read(w, &s, 5000);
	struct rpcrdma_header h = answer_header(w, 4);
	uint8_t out[256] = {0};
	struct xdr_writer xw = xdr_writer(out, sizeof out);
	rpcrdma_header_encode(&xw, &h);
	xdr_put_u32(&xw, h.xid);
	assert_int_equal(fake_send_raw(w->server, out, (uint32_t)xdr_written(&xw) + 20, 0), 0);
	fake_drop(w->server, -ECONNRESET, "the cable was pulled");
	turn(w); /* finds the reply and the end at once: its window cannot be invalidated any more */
	assert_int_equal(s.done, 1);
	assert_int_equal(s.status, 0);
	assert_int_equal(w->down_error, -ECONNRESET);
	assert_string_equal(w->why, "the cable was pulled");
	end_world(w);
}

/* 2^28 calls later, the number of a call that is still there is not given out again. */
static void xids_that_are_in_use_are_passed_over(void **state)
{
	struct world *w = new_world();
	struct seen sent, queued, s;

	submit(w, &sent, 44);
	submit(w, &queued, 44);
	assert_true(take(w));
	uint32_t xid = sent.call->xid;
	assert_int_equal(queued.call->xid, xid + 1);
	w->x->xid_next = xid; /* round once */
	new_call(w, &s, 44);
	assert_int_equal(s.call->xid, xid + 2);
	rpcrdma_call_put(s.call);
	w->x->xid_next = xid;
	answer(w, 4);
	assert_int_equal(sent.done, 1);
	new_call(w, &s, 44);
	assert_int_equal(s.call->xid, xid); /* free again */
	rpcrdma_call_put(s.call);
	end_world(w);
}

static void destroying_cancels_what_done_submits_too(void **state)
{
	struct world *w = new_world();
	struct seen s;

	submit(w, &s, 44);
	s.again = true;
	end_world(w);
	assert_int_equal(s.done, 2);
	assert_int_equal(s.status, -ECANCELED);
	assert_int_equal(s.released, 1);
}

/* RFC 8166 §4.5: not even the XID of what is shorter than any header can be trusted. */
static void a_message_without_a_header_is_dropped(void **state)
{
	struct world *w = new_world();
	struct seen s;

	submit(w, &s, 44);
	assert_true(take(w));
	uint32_t words[4] = {htonl(s.call->xid), htonl(1), htonl(4), htonl(RDMA_ERROR)};
	assert_int_equal(fake_send_raw(w->server, words, sizeof words, 0), 0);
	turn(w);
	assert_int_equal(s.done, 0);
	assert_int_equal(rpcrdma_stats(w->x)->unknown_replies, 1);
	answer(w, 4);
	assert_int_equal(s.done, 1);
	assert_int_equal(s.status, 0);
	end_world(w);
}

/* Fail the n-th post, raise n until a whole READ needs no more: each time the call is answered on a second
 * connection. */
static void any_post_may_fail(void **state)
{
	for (unsigned int n = 1;; n++) {
		struct world *w = new_world();
		struct seen s;
		struct rpcrdma_call *call = new_call(w, &s, 100);

		call->in = (struct iovec){arena_alloc(rpcrdma_arena(w->x), 8192, ARENA_REPLY), 8192};
		fake_fail_post((struct rdma_ep *)rpcrdma_endpoint(w->x), n, -ENOMEM);
		rpcrdma_submit(call, w->now);
		if (take(w))
			answer(w, 4);
		int downs = w->downs;
		if (!s.done) {
			assert_int_equal(downs, 1);
			drop_server(w);
			serve(w, &k4);
			assert_true(take(w));
			answer(w, 4);
		}
		assert_int_equal(s.done, 1);
		assert_int_equal(s.status, 0);
		assert_int_equal(fmrpool_stats(rpcrdma_pool(w->x))->in_use, 0);
		end_world(w);
		if (downs == 0) {
			assert_int_equal(n, 4); /* bind, Send, invalidate were each hit */
			return;
		}
	}
}

static void any_request_may_fail_on_the_device(void **state)
{
	static const enum fake_kind kinds[] = {FAKE_BIND, FAKE_SEND, FAKE_INVALIDATE};

	for (unsigned int i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
		struct world *w = new_world();
		struct seen s;
		struct rpcrdma_call *call = new_call(w, &s, 100);

		call->in = (struct iovec){arena_alloc(rpcrdma_arena(w->x), 8192, ARENA_REPLY), 8192};
		fake_fail_completion((struct rdma_ep *)rpcrdma_endpoint(w->x), kinds[i], 1, -EIO);
		rpcrdma_submit(call, w->now);
		if (take(w))
			answer(w, 4);
		turn(w);
		assert_int_equal(w->downs, 1);
		if (!s.done) {
			drop_server(w);
			serve(w, &k4);
			assert_true(take(w));
			answer(w, 4);
		}
		assert_int_equal(s.done, 1);
		assert_int_equal(s.status, 0);
		end_world(w);
	}
}

/* ---- making it ---- */

static void tiny_arena(struct rpcrdma_params *p)
{
	p->arena_bytes = MIB;
}

static void too_small_an_arena_is_refused_and_nothing_is_left(void **state)
{
	struct rpcrdma_params p = {.device = &fake_device,
				   .epoll_fd = -1,
				   .credits = 1,
				   .inline_bytes = 4096,
				   .calls = 1,
				   .max_io_bytes = MIB};
	struct rpcrdma_xprt *x = NULL;

	fake_reset();
	tiny_arena(&p);
	assert_int_equal(rpcrdma_create(&p, &x), -EINVAL);
	assert_null(x);
	assert_int_equal(fake_living(), 0);
}

static void the_smallest_inline_size_and_one_credit_work(void **state)
{
	struct world *w = new_world_with(few);
	struct seen s[3];

	serve(w, &k1);
	for (int i = 0; i < 3; i++)
		submit(w, &s[i], 44);
	for (int i = 0; i < 3; i++) {
		assert_true(take(w));
		answer(w, 0); /* illegal, and taken as 1 */
		assert_int_equal(s[i].done, 1);
	}
	end_world(w);
}

/* ---- anything at all ---- */

/* A made-up history, the same each time for the same seed. */
struct history {
	struct world *w;
	uint32_t random;
	struct seen seen[CALLS];
	bool abandoned[CALLS];
	unsigned int ncalls;
	struct rpcrdma_header taken[CALLS]; /* of calls that this connection's server has received */
	unsigned int ntaken;
};

static uint32_t pick(struct history *y, uint32_t n)
{
	y->random = y->random * 1664525u + 1013904223u;
	return (y->random >> 8) % n;
}

static void some_call(struct history *y)
{
	if (y->ncalls == CALLS)
		return;
	struct rpcrdma_call *call = new_call(y->w, &y->seen[y->ncalls++], 44 + 4 * pick(y, 200));
	struct iovec memory = {arena_alloc(rpcrdma_arena(y->w->x), 8192, ARENA_REPLY), 1 + pick(y, 8192)};
	switch (pick(y, 4)) {
	case 0:
		call->in = memory;
		break;
	case 1:
		call->out[0] = memory;
		call->nout = 1;
		call->out_pos = call->msg_len;
		break;
	case 2:
		call->reply_max = 6000;
		call->reply_buf = (struct iovec){memory.iov_base, 8192};
		break;
	}
	rpcrdma_submit(call, y->w->now);
}

static void some_abandon(struct history *y)
{
	unsigned int i = pick(y, CALLS);
	if (i >= y->ncalls || y->abandoned[i] || y->seen[i].done || y->seen[i].released)
		return;
	y->abandoned[i] = true;
	rpcrdma_call_abandon(y->seen[i].call);
}

/* An answer to a call that may have its answer already, right or wrong in all its parts. */
static void some_answer(struct history *y)
{
	uint8_t out[1024] = {0};
	struct xdr_writer xw = xdr_writer(out, sizeof out);

	if (!y->ntaken)
		return;
	const struct rpcrdma_header *call = &y->taken[pick(y, y->ntaken)];
	struct rpcrdma_header h = {.xid = call->xid,
				   .vers = 1,
				   .credits = pick(y, 6),
				   .proc = call->reply_chunk.nsegs && pick(y, 2) ? RDMA_NOMSG : RDMA_MSG,
				   .write_chunk = call->write_chunk,
				   .reply_chunk = call->reply_chunk};
	if (h.proc == RDMA_MSG)
		h.reply_chunk.segs[0].length = 0;
	if (pick(y, 12) == 0) {
		h.proc = RDMA_ERROR;
		h.error = 1 + pick(y, 2);
	}
	rpcrdma_header_encode(&xw, &h);
	xdr_put_u32(&xw, h.xid);
	memset(xdr_reserve(&xw, 100), (int)pick(y, 2), 100);
	uint32_t len = (uint32_t)xdr_written(&xw);
	if (pick(y, 4) == 0)
		out[pick(y, len)] ^= (uint8_t)(1u << pick(y, 8));
	if (pick(y, 10) == 0)
		len = pick(y, len) + 1;
	uint32_t key =
		call->read_chunk.nsegs ? call->read_chunk.segs[0].handle : call->write_chunk.segs[0].handle;
	fake_send_raw(y->w->server, out, len, pick(y, 3) ? 0 : key); /* which may end the connection */
	turn(y->w);
}

static void some_step(struct history *y)
{
	struct world *w = y->w;

	switch (pick(y, 8)) {
	case 0:
	case 1:
		some_call(y);
		break;
	case 2:
	case 3:
		if (y->ntaken < CALLS && take(w))
			y->taken[y->ntaken++] = w->h;
		break;
	case 4:
	case 5:
		some_answer(y);
		break;
	case 6:
		some_abandon(y);
		break;
	case 7:
		if (pick(y, 6) == 0)
			fake_drop(w->server, -ECONNRESET, "");
		else
			w->now += pick(y, 4) * SEC;
		break;
	}
	turn(w);
	if (rpcrdma_is_up(w->x)) {
		assert_true(rpcrdma_next_timeout(w->x) > w->now);
		return;
	}
	drop_server(w);
	y->ntaken = 0;
	serve(w, &k4);
}

/* Each call ends once and is released once, no credit, registration or receive is lost, no lane spins. */
static void whatever_the_server_does_each_call_ends_once(void **state)
{
	unsigned int answered = 0;

	for (uint32_t seed = 1; seed <= 400; seed++) {
		struct history y = {.w = new_world_with(seed & 1 ? soft : NULL),
				    .random = seed * 2654435761u};

		serve(y.w, &k4);
		for (int step = 0; step < 60; step++)
			some_step(&y);
		assert_true(fmrpool_stats(rpcrdma_pool(y.w->x))->in_use <= 2 * y.ncalls);
		end_world(y.w);
		for (unsigned int i = 0; i < y.ncalls; i++) {
			assert_int_equal(y.seen[i].done, y.abandoned[i] ? 0 : 1);
			assert_int_equal(y.seen[i].released, 1);
			answered += y.seen[i].done && y.seen[i].status == 0;
		}
	}
	assert_true(answered > 400); /* or it has not tried much */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_small_call_goes_and_comes_inline),
		cmocka_unit_test(small_write_data_is_gathered_in_place_and_padded),
		cmocka_unit_test(write_data_can_be_read_and_nothing_else),
		cmocka_unit_test(read_data_is_placed_and_then_out_of_reach),
		cmocka_unit_test(a_reply_waits_for_its_invalidate),
		cmocka_unit_test(a_reply_waits_for_its_send),
		cmocka_unit_test(remote_invalidation_is_recognised),
		cmocka_unit_test(a_long_reply_comes_by_the_reply_chunk),
		cmocka_unit_test(a_short_reply_may_leave_the_reply_chunk_unused),
		cmocka_unit_test(a_long_call_is_fetched),
		cmocka_unit_test(credits_bound_what_is_outstanding),
		cmocka_unit_test(fewer_credits_than_are_in_use_stop_the_rest),
		cmocka_unit_test(one_doorbell_serves_all_that_leaves_together),
		cmocka_unit_test(calls_that_need_many_registrations_wait_in_order_holding_none),
		cmocka_unit_test(the_pool_and_the_queue_can_be_looked_at),
		cmocka_unit_test(calls_are_counted_by_their_kind),
		cmocka_unit_test(mapping_and_unmapping_are_timed),
		cmocka_unit_test(a_call_may_be_renewed_in_done),
		cmocka_unit_test(the_persistent_strategy_binds_nothing),
		cmocka_unit_test(unknown_xids_are_dropped_and_cost_no_receive),
		cmocka_unit_test(broken_replies_fail_their_call_only),
		cmocka_unit_test(rdma_errors_fail_their_call),
		cmocka_unit_test(invalidating_what_is_not_the_calls_ends_the_connection),
		cmocka_unit_test(calls_are_sent_again_in_order_with_their_xids),
		cmocka_unit_test(a_call_is_planned_anew_for_each_connection),
		cmocka_unit_test(a_reply_that_came_before_the_end_is_not_lost),
		cmocka_unit_test(a_failed_invalidate_ends_the_connection),
		cmocka_unit_test(an_unanswered_call_ends_the_connection),
		cmocka_unit_test(a_soft_call_fails_in_bounded_time),
		cmocka_unit_test(connecting_is_retried_with_growing_pauses),
		cmocka_unit_test(one_shot_tries_once),
		cmocka_unit_test(an_abandoned_call_keeps_its_memory_until_the_reply),
		cmocka_unit_test(an_abandoned_call_that_has_not_left_is_released_at_once),
		cmocka_unit_test(destroying_cancels_what_is_there),
		cmocka_unit_test(an_abandoned_call_has_no_deadline_and_hides_none),
		cmocka_unit_test(a_connection_that_answered_nothing_is_not_made_again_at_once),
		cmocka_unit_test(the_reason_of_the_device_stands),
		cmocka_unit_test(xids_that_are_in_use_are_passed_over),
		cmocka_unit_test(destroying_cancels_what_done_submits_too),
		cmocka_unit_test(a_message_without_a_header_is_dropped),
		cmocka_unit_test(what_was_agreed_can_be_told),
		cmocka_unit_test(any_post_may_fail),
		cmocka_unit_test(any_request_may_fail_on_the_device),
		cmocka_unit_test(too_small_an_arena_is_refused_and_nothing_is_left),
		cmocka_unit_test(the_smallest_inline_size_and_one_credit_work),
		cmocka_unit_test(whatever_the_server_does_each_call_ends_once),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
