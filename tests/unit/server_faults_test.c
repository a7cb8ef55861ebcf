/* SPDX-License-Identifier: MIT
 *
 * The client transport over softiwarp against a hostile or broken server: the scripted peer of tests/peer,
 * byte by byte. Each case is one fault, and its name says what has to come of it. Both sides run in this
 * thread. The client's time is a number in here, so that nothing waits for a clock: w->now starts at
 * CLOCK_MONOTONIC, which softiwarp looks at while it connects.
 *
 * After most faults the connection is over. What has to hold then is always the same (comes_back()): the
 * server can reach nothing of the client's memory, the calls leave once more on a new connection, with the
 * same XIDs and other keys, and each is answered once.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "arena.h"
#include "header.h"
#include "peer.h"
#include "rpcrdma.h"
#include "softiwarp/softiwarp.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define MIB ((size_t)1 << 20)
#define SEC UINT64_C(1000000000)
#define TIMEO_NS (60 * SEC)
#define CALLS 16u
#define CREDITS 4u
#define READ_BYTES 5000u /* too many for a reply inline */
#define RPC_BYTES 24u	 /* of an answer: XID, REPLY, accepted, verifier, SUCCESS */
#define DDP_LAYER 1u
#define RDMAP_LAYER 0u

/* What the test sees of one call. */
struct seen {
	struct rpcrdma_call *call;
	uint32_t xid;
	int done, released, status;
	uint32_t reply_len, in_len, transmissions;
	bool in_placed;
	uint8_t reply[8192];
	char *in;	      /* where READ data goes */
	struct iovec runs[2]; /* of the arena, other than `in` */
	struct rpcrdma_segment offered;
};

struct world {
	struct peer peer;
	struct rpcrdma_params params;
	struct rpcrdma_xprt *x;
	uint64_t now;
	int ups, downs, down_error;
	uint64_t retry_ns;
	char why[160];
	const void *priv;      /* what the server tells at each connection */
	uint8_t message[8192]; /* what the server received last */
	uint32_t len;
	struct rpcrdma_header h; /* its header */
	struct peer_fpdu fpdu;
};

/* ---- the world ---- */

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

static void turn(void *arg)
{
	struct world *w = arg;

	rpcrdma_flush(w->x, w->now);
	for (int i = 0; i < 10; i++)
		rpcrdma_progress(w->x, w->now);
}

/* Turns until it holds; input that is still under way is waited for. */
#define until(w, condition)                                                                                  \
	do {                                                                                                 \
		for (int i_ = 0; !(condition); i_++) {                                                       \
			struct epoll_event event_;                                                           \
			turn(w);                                                                             \
			if (i_ == 5000)                                                                      \
				fail_msg("never: %s (%s)", #condition, (w)->why);                            \
			if (!(condition))                                                                    \
				epoll_wait((w)->params.epoll_fd, &event_, 1, 1);                             \
		}                                                                                            \
	} while (0)

static const uint8_t k4[] = {0xf6, 0xab, 0x0e, 0x18,
			     1,	   1,	 3,    3}; /* RFC 8797 §4: 4096 bytes each way, invalidates */
static const uint8_t k1[] = {0xf6, 0xab, 0x0e, 0x18, 1, 0, 0, 0}; /* 1024 bytes each way */

/* The server takes the connection that the client asks for. */
static void serve(struct world *w)
{
	w->now += w->retry_ns;
	w->retry_ns = 0;
	assert_int_equal(peer_serve_mpa(&w->peer, w->priv, sizeof k4), 0);
	until(w, rpcrdma_is_up(w->x));
}

static struct world *unserved_world(void (*adjust)(struct rpcrdma_params *))
{
	struct world *w = calloc(1, sizeof *w);
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	w->now = (uint64_t)ts.tv_sec * SEC + (uint64_t)ts.tv_nsec;
	peer_init(&w->peer, turn, w);
	assert_int_equal(peer_listen(&w->peer, (struct sockaddr_in *)&w->params.addr), 0);
	w->priv = k4;
	w->params.addr_len = sizeof(struct sockaddr_in);
	w->params.device = &softiwarp_device;
	w->params.epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	w->params.strategy = FMR_WINDOW;
	w->params.credits = CREDITS;
	w->params.inline_bytes = 4096;
	w->params.calls = CALLS;
	w->params.arena_bytes = 4 * MIB;
	w->params.max_io_bytes = MIB;
	w->params.xid_first = rpcrdma_xid_lane(0xfffffff0u, 3);
	w->params.timeo_ns = TIMEO_NS;
	w->params.on_status = on_status;
	w->params.ctx = w;
	if (adjust)
		adjust(&w->params);
	assert_int_equal(rpcrdma_create(&w->params, &w->x), 0);
	assert_int_equal(rpcrdma_connect(w->x, w->now), 0);
	return w;
}

static struct world *world_with(void (*adjust)(struct rpcrdma_params *))
{
	struct world *w = unserved_world(adjust);

	serve(w);
	return w;
}

static struct world *new_world(void)
{
	return world_with(NULL);
}

/* Nothing is mapped, no call is lost. */
static void end_world(struct world *w)
{
	assert_int_equal(fmrpool_stats(rpcrdma_pool(w->x))->in_use, 0);
	assert_int_equal(rpcrdma_calls_free(w->x), CALLS);
	rpcrdma_destroy(w->x);
	peer_close(&w->peer);
	close(w->params.epoll_fd);
	free(w);
}

/* ---- calls ---- */

static void on_release(struct rpcrdma_call *call)
{
	((struct seen *)call->owner)->released++;
}

static void on_done(struct rpcrdma_call *call)
{
	struct seen *s = call->owner;

	s->done++;
	s->status = call->status;
	s->transmissions = call->transmissions;
	s->in_placed = call->in_placed;
	s->in_len = call->in_len;
	if (call->status)
		return;
	s->reply_len = call->reply_len;
	assert_true(call->reply_len <= sizeof s->reply);
	memcpy(s->reply, call->reply, call->reply_len);
}

/* A call whose message is its XID and zeros. */
static struct rpcrdma_call *new_call(struct world *w, struct seen *s)
{
	struct rpcrdma_call *call = rpcrdma_call_get(w->x);

	assert_non_null(call);
	memset(s, 0, sizeof *s);
	s->call = call;
	s->xid = call->xid;
	memset(call->msg, 0, 100);
	uint32_t xid = htonl(call->xid);
	memcpy(call->msg, &xid, 4);
	call->msg_len = 100;
	call->reply_max = 128;
	call->done = on_done;
	call->release = on_release;
	call->owner = s;
	return call;
}

static void submit(struct world *w, struct seen *s)
{
	rpcrdma_submit(new_call(w, s), w->now);
	turn(w);
}

/* With a write chunk of READ_BYTES, in memory of zeros. */
static void submit_read(struct world *w, struct seen *s)
{
	struct rpcrdma_call *call = new_call(w, s);

	s->in = arena_alloc(rpcrdma_arena(w->x), READ_BYTES, ARENA_REPLY);
	assert_non_null(s->in);
	memset(s->in, 0, READ_BYTES);
	call->in = (struct iovec){s->in, READ_BYTES};
	rpcrdma_submit(call, w->now);
	turn(w);
}

/* With a reply chunk of 30,000 bytes. */
static void submit_long(struct world *w, struct seen *s)
{
	struct rpcrdma_call *call = new_call(w, s);

	call->reply_max = 30000;
	call->reply_buf = s->runs[0] =
		(struct iovec){arena_alloc(rpcrdma_arena(w->x), 32768, ARENA_REPLY), 32768};
	rpcrdma_submit(call, w->now);
	turn(w);
}

/* With a read chunk of two segments, len_bytes each. */
static void submit_write(struct world *w, struct seen *s, uint32_t len_bytes)
{
	struct rpcrdma_call *call = new_call(w, s);

	for (call->nout = 0; call->nout < 2; call->nout++) {
		char *data = arena_alloc(rpcrdma_arena(w->x), len_bytes, ARENA_REPLY);
		assert_non_null(data);
		memset(data, 'w', len_bytes);
		call->out[call->nout] = s->runs[call->nout] = (struct iovec){data, len_bytes};
	}
	call->out_pos = 100;
	rpcrdma_submit(call, w->now);
	turn(w);
}

static void give_back(struct world *w, struct seen *s)
{
	if (s->in)
		arena_free(rpcrdma_arena(w->x), s->in, READ_BYTES, ARENA_REPLY);
	for (int i = 0; i < 2; i++)
		if (s->runs[i].iov_len)
			arena_free(rpcrdma_arena(w->x), s->runs[i].iov_base, s->runs[i].iov_len, ARENA_REPLY);
}

/* A Write of nothing is the client's question whether the server is awake (softiwarp/wake.c). */
static bool is_wake(const struct peer_fpdu *f)
{
	return f->opcode == PEER_WRITE && f->len == 0;
}

/* The server receives the next call. */
static void take(struct world *w)
{
	w->len = 0;
	do {
		assert_int_equal(peer_recv_fpdu(&w->peer, &w->fpdu), 0);
		if (is_wake(&w->fpdu))
			continue;
		assert_int_equal(w->fpdu.opcode, PEER_SEND);
		assert_true(w->fpdu.len <= sizeof w->message - w->len);
		memcpy(w->message + w->len, w->fpdu.payload, w->fpdu.len);
		w->len += w->fpdu.len;
	} while (!w->fpdu.last || !w->len);
	struct xdr_reader r = xdr_reader(w->message, w->len);
	assert_int_equal(rpcrdma_header_decode(&r, false, &w->h), 0);
}

static void take_call(struct world *w, const struct seen *s)
{
	take(w);
	assert_int_equal(w->h.xid, s->xid);
}

static void take_read(struct world *w, struct seen *s)
{
	take_call(w, s);
	assert_int_equal(w->h.write_chunk.nsegs, 1);
	s->offered = w->h.write_chunk.segs[0];
	assert_int_equal(s->offered.length, READ_BYTES);
}

/* The client has sent nothing that the server has not taken. */
static bool is_silent(struct world *w)
{
	uint8_t byte;

	turn(w);
	return recv(w->peer.fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) < 0 && errno == EAGAIN;
}

/* ---- answers ---- */

static struct rpcrdma_header answer_header(const struct world *w)
{
	struct rpcrdma_header h = {.xid = w->h.xid, .vers = 1, .credits = CREDITS, .proc = RDMA_MSG};

	h.write_chunk = w->h.write_chunk;
	h.reply_chunk = w->h.reply_chunk;
	for (uint32_t i = 0; i < h.reply_chunk.nsegs; i++)
		h.reply_chunk.segs[i].length = 0;
	return h;
}

static void put_rpc(struct xdr_writer *xw, uint32_t xid, uint32_t len_bytes)
{
	if (!len_bytes)
		return;
	xdr_put_u32(xw, xid);
	memset(xdr_reserve(xw, len_bytes - 4), 0xab, len_bytes - 4);
}

/* A header and an RPC message of rpc_len bytes; its length. */
static uint32_t build(const struct rpcrdma_header *h, uint32_t rpc_xid, uint32_t rpc_len, uint8_t *out,
		      size_t size)
{
	struct xdr_writer xw = xdr_writer(out, size);

	rpcrdma_header_encode(&xw, h);
	put_rpc(&xw, rpc_xid, rpc_len);
	assert_false(xw.stuck);
	return (uint32_t)xdr_written(&xw);
}

static void say(struct world *w, const struct rpcrdma_header *h, uint32_t rpc_xid, uint32_t rpc_len,
		uint32_t invalidate)
{
	uint8_t out[8192];

	assert_int_equal(peer_send(&w->peer, out, build(h, rpc_xid, rpc_len, out, sizeof out), invalidate),
			 0);
	turn(w);
}

static void grant(struct world *w, uint32_t credits)
{
	struct rpcrdma_header h = answer_header(w);

	h.credits = credits;
	say(w, &h, h.xid, RPC_BYTES, 0);
}

static void answer(struct world *w)
{
	grant(w, CREDITS);
}

static void expect(struct world *w, const struct seen *s, int status)
{
	until(w, s->done);
	assert_int_equal(s->done, 1);
	assert_int_equal(s->status, status);
	until(w, s->released);
}

/* The connection has ended for that reason, and nothing is mapped any more. */
static void expect_down(struct world *w, int downs, int error)
{
	until(w, w->downs == downs);
	assert_int_equal(w->down_error, error);
	assert_int_equal(fmrpool_stats(rpcrdma_pool(w->x))->in_use, 0);
}

/* The call leaves once more on a new connection, and only there, and is answered. */
static void comes_back(struct world *w, struct seen *s)
{
	int done = s->done;

	assert_int_equal(done, 0);
	serve(w);
	take_call(w, s);
	if (s->in) {
		assert_int_equal(w->h.write_chunk.nsegs, 1);
		assert_int_not_equal(w->h.write_chunk.segs[0].handle, s->offered.handle);
	}
	answer(w);
	expect(w, s, 0);
}

static void expect_terminate(struct world *w, unsigned int layer, unsigned int type, unsigned int code)
{
	struct peer_terminate t = {0};

	assert_int_equal(peer_recv_terminate(&w->peer, &t), 0);
	if (t.layer != layer || t.type != type || t.code != code)
		fail_msg("Terminate %u/%u/%#x, expected %u/%u/%#x", t.layer, t.type, t.code, layer, type,
			 code);
	assert_int_equal(peer_wait_closed(&w->peer), 0);
}

/* The connection works: a call is answered on it. */
static void still_works(struct world *w)
{
	struct seen s;
	int downs = w->downs;

	submit(w, &s);
	take_call(w, &s);
	answer(w);
	expect(w, &s, 0);
	assert_int_equal(w->downs, downs);
}

static void expect_zeros(const struct seen *s)
{
	for (size_t i = 0; i < READ_BYTES; i++)
		if (s->in[i])
			fail_msg("byte %zu of the client's memory has changed", i);
}

/* ---- grants ---- */

static void grant_of_0_lets_one_call_out_at_a_time(void **state)
{
	struct world *w = new_world();
	struct seen s[3];

	for (int i = 0; i < 3; i++)
		submit(w, &s[i]);
	for (int i = 0; i < 3; i++) {
		take_call(w, &s[i]);
		assert_true(is_silent(w));
		grant(w, 0);
		expect(w, &s[i], 0);
	}
	end_world(w);
}

static void grant_of_1_lets_one_call_out_at_a_time(void **state)
{
	struct world *w = new_world();
	struct seen s[3];

	for (int i = 0; i < 3; i++)
		submit(w, &s[i]);
	for (int i = 0; i < 3; i++) {
		take_call(w, &s[i]);
		assert_true(is_silent(w));
		grant(w, 1);
		expect(w, &s[i], 0);
	}
	end_world(w);
}

static void say_to(struct world *w, const struct seen *s, uint32_t credits)
{
	struct rpcrdma_header h = {.xid = s->xid, .vers = 1, .credits = credits, .proc = RDMA_MSG};

	say(w, &h, h.xid, RPC_BYTES, 0);
}

static void shrinking_grants_hold_back_what_is_beyond_them(void **state)
{
	struct world *w = new_world();
	struct seen s[8];

	for (int i = 0; i < 8; i++)
		submit(w, &s[i]);
	take_call(w, &s[0]);
	grant(w, 4);
	for (int i = 1; i < 5; i++)
		take_call(w, &s[i]);
	say_to(w, &s[1], 3); /* three are out */
	assert_true(is_silent(w));
	say_to(w, &s[2], 2); /* two */
	assert_true(is_silent(w));
	say_to(w, &s[3], 1); /* one */
	assert_true(is_silent(w));
	say_to(w, &s[4], 1);
	take_call(w, &s[5]);
	assert_true(is_silent(w));
	say_to(w, &s[5], 2);
	take_call(w, &s[6]);
	take_call(w, &s[7]);
	say_to(w, &s[6], 1);
	say_to(w, &s[7], 1);
	for (int i = 0; i < 8; i++)
		expect(w, &s[i], 0);
	end_world(w);
}

static void huge_grant_is_cut_to_what_was_asked_for(void **state)
{
	struct world *w = new_world();
	struct seen s[CREDITS + 3];

	for (unsigned int i = 0; i < CREDITS + 3; i++)
		submit(w, &s[i]);
	take_call(w, &s[0]);
	grant(w, UINT32_MAX);
	for (unsigned int i = 1; i <= CREDITS; i++)
		take_call(w, &s[i]);
	assert_true(is_silent(w)); /* a receive is posted for each that is out */
	for (unsigned int i = 1; i <= CREDITS; i++)
		say_to(w, &s[i], UINT32_MAX);
	take_call(w, &s[CREDITS + 1]);
	take_call(w, &s[CREDITS + 2]);
	say_to(w, &s[CREDITS + 1], UINT32_MAX);
	say_to(w, &s[CREDITS + 2], UINT32_MAX);
	for (unsigned int i = 0; i < CREDITS + 3; i++)
		expect(w, &s[i], 0);
	end_world(w);
}

static void grant_is_forgotten_with_its_connection(void **state)
{
	struct world *w = new_world();
	struct seen warm, s[3];

	submit(w, &warm);
	take_call(w, &warm);
	grant(w, 4);
	peer_hang_up(&w->peer);
	expect_down(w, 1, -ECONNRESET);
	for (int i = 0; i < 3; i++)
		submit(w, &s[i]);
	serve(w);
	take_call(w, &s[0]);
	assert_true(is_silent(w));
	grant(w, 4);
	take_call(w, &s[1]);
	take_call(w, &s[2]);
	say_to(w, &s[1], 4);
	say_to(w, &s[2], 4);
	for (int i = 0; i < 3; i++)
		expect(w, &s[i], 0);
	end_world(w);
}

/* ---- what is late ---- */

/* Nothing but silence on a connection that is over, until it closes: in particular no call. */
static void expect_no_more_calls(struct world *w)
{
	int rc;

	while ((rc = peer_recv_fpdu(&w->peer, &w->fpdu)) == 0)
		assert_true(is_wake(&w->fpdu));
	assert_int_equal(rc, -ECONNRESET);
}

static void time_out(struct world *w)
{
	int downs = w->downs;

	w->now += TIMEO_NS;
	expect_down(w, downs + 1, -ETIMEDOUT);
}

static void reply_after_the_timeout_finds_nobody(void **state)
{
	struct world *w = new_world();
	struct seen s;
	uint8_t late[1024];

	submit(w, &s);
	take_call(w, &s);
	struct rpcrdma_header h = answer_header(w);
	time_out(w);
	peer_send(&w->peer, late, build(&h, h.xid, RPC_BYTES, late, sizeof late), 0); /* may be refused */
	turn(w);
	assert_int_equal(s.done, 0);
	comes_back(w, &s);
	assert_int_equal(s.transmissions, 2);
	end_world(w);
}

static void rdma_write_after_the_timeout_reaches_nothing(void **state)
{
	struct world *w = new_world();
	struct seen s;
	char data[READ_BYTES];

	memset(data, 'x', sizeof data);
	submit_read(w, &s);
	take_read(w, &s);
	time_out(w);
	peer_write(&w->peer, s.offered.handle, s.offered.offset, data, sizeof data);
	turn(w);
	expect_zeros(&s);
	comes_back(w, &s);
	expect_zeros(&s);
	end_world(w);
}

static void rdma_write_with_a_key_of_the_last_connection_is_refused(void **state)
{
	struct world *w = new_world();
	struct seen s;
	char data[READ_BYTES];

	memset(data, 'x', sizeof data);
	submit_read(w, &s);
	take_read(w, &s);
	struct rpcrdma_segment old = s.offered;
	time_out(w);
	serve(w);
	take_read(w, &s);
	assert_int_equal(peer_write(&w->peer, old.handle, old.offset, data, sizeof data), 0);
	expect_terminate(w, DDP_LAYER, 1, 0);
	expect_down(w, 2, -EPROTO);
	expect_zeros(&s);
	comes_back(w, &s);
	end_world(w);
}

static void rdma_read_with_a_key_of_the_last_connection_is_refused(void **state)
{
	struct world *w = new_world();
	struct seen s;

	submit_write(w, &s, 5000);
	take_call(w, &s);
	struct rpcrdma_segment old = w->h.read_chunk.segs[0];
	time_out(w);
	serve(w);
	take_call(w, &s);
	assert_int_equal(peer_read_request(&w->peer, 1, 0, 5000, old.handle, old.offset), 0);
	expect_terminate(w, RDMAP_LAYER, 1, 0);
	expect_down(w, 2, -EPROTO);
	comes_back(w, &s);
	end_world(w);
}

static void rdma_write_after_the_reply_is_refused(void **state)
{
	struct world *w = new_world();
	struct seen s;

	submit_read(w, &s);
	take_read(w, &s);
	answer(w);
	expect(w, &s, 0);
	assert_int_equal(peer_write(&w->peer, s.offered.handle, s.offered.offset, "late", 4), 0);
	expect_terminate(w, DDP_LAYER, 1, 0);
	expect_down(w, 1, -EPROTO);
	expect_zeros(&s);
	serve(w);
	still_works(w);
	end_world(w);
}

static void rdma_read_after_the_reply_is_refused(void **state)
{
	struct world *w = new_world();
	struct seen s;

	submit_write(w, &s, 5000);
	take_call(w, &s);
	struct rpcrdma_segment old = w->h.read_chunk.segs[0];
	answer(w);
	expect(w, &s, 0);
	assert_int_equal(peer_read_request(&w->peer, 1, 0, 5000, old.handle, old.offset), 0);
	expect_terminate(w, RDMAP_LAYER, 1, 0);
	expect_down(w, 1, -EPROTO);
	serve(w);
	still_works(w);
	end_world(w);
}

static void one_timeout(struct rpcrdma_params *p)
{
	p->soft = true;
	p->retrans = 0;
}

/* A soft call has failed, and another uses its memory: the failed one's key opens it to nobody. */
static void memory_used_again_is_out_of_reach_of_the_old_key(void **state)
{
	struct world *w = world_with(one_timeout);
	struct seen s, next;

	submit_read(w, &s);
	take_read(w, &s);
	struct rpcrdma_segment old = s.offered;
	time_out(w);
	expect(w, &s, -ETIMEDOUT);
	give_back(w, &s);
	submit_read(w, &next);
	assert_ptr_equal(next.in, s.in);
	serve(w);
	take_read(w, &next);
	assert_int_equal(peer_write(&w->peer, old.handle, old.offset, "late", 4), 0);
	expect_terminate(w, DDP_LAYER, 1, 0);
	expect_down(w, 1 + 1, -EPROTO);
	expect_zeros(&next);
	comes_back(w, &next);
	end_world(w);
}

/* Nobody waits for it any more, but its memory is kept for the server until it answers. */
static void rdma_write_for_an_abandoned_call_lands_in_its_own_memory(void **state)
{
	struct world *w = new_world();
	struct seen s, next;

	submit(w, &next);
	take_call(w, &next);
	answer(w); /* for the credits */
	submit_read(w, &s);
	take_read(w, &s);
	rpcrdma_call_abandon(s.call);
	turn(w);
	submit_read(w, &next);
	assert_ptr_not_equal(next.in, s.in);
	take_read(w, &next);
	assert_int_equal(peer_write(&w->peer, s.offered.handle, s.offered.offset, "late", 4), 0);
	say_to(w, &s, CREDITS);
	until(w, s.released);
	assert_int_equal(s.done, 0);
	assert_memory_equal(s.in, "late", 4);
	answer(w);
	expect(w, &next, 0);
	expect_zeros(&next);
	assert_int_equal(peer_write(&w->peer, s.offered.handle, s.offered.offset, "more", 4), 0);
	expect_terminate(w, DDP_LAYER, 1, 0);
	expect_down(w, 1, -EPROTO);
	serve(w);
	still_works(w);
	end_world(w);
}

static void reply_to_a_call_that_has_not_left_is_dropped(void **state)
{
	struct world *w = new_world();
	struct seen s, waits;

	submit(w, &s);
	submit_read(w, &waits);
	take_call(w, &s);
	say_to(w, &waits, CREDITS); /* its XID is easy to guess */
	assert_int_equal(waits.done, 0);
	assert_true(is_silent(w)); /* nor is its grant believed */
	answer(w);
	take_read(w, &waits);
	answer(w);
	expect(w, &s, 0);
	expect(w, &waits, 0);
	assert_int_equal(rpcrdma_stats(w->x)->unknown_replies, 1);
	end_world(w);
}

/* ---- chunks that come back otherwise than they were offered ---- */

struct chunks {
	void (*submit)(struct world *w, struct seen *s);
	/* Writes read list, write list and reply chunk; w->h is the call's header. */
	void (*lists)(struct xdr_writer *xw, const struct world *w);
	uint32_t proc, rpc_bytes;
	int status;
};

static void put_words(struct xdr_writer *xw, unsigned int n, ...)
{
	va_list words;

	va_start(words, n);
	while (n--)
		xdr_put_u32(xw, va_arg(words, uint32_t));
	va_end(words);
}

static void put_segment(struct xdr_writer *xw, const struct rpcrdma_segment *seg, uint32_t length)
{
	xdr_put_u32(xw, seg->handle);
	xdr_put_u32(xw, length);
	xdr_put_u64(xw, seg->offset);
}

/* So many segments of the write chunk's, as a chunk that claims `count`. */
static void put_chunk(struct xdr_writer *xw, const struct rpcrdma_segment *seg, uint32_t count, uint32_t n,
		      uint32_t length)
{
	put_words(xw, 2, 1, count);
	while (n--)
		put_segment(xw, seg, length);
}

static const struct rpcrdma_segment *offered(const struct world *w)
{
	return &w->h.write_chunk.segs[0];
}

static void put_write_list(struct xdr_writer *xw, const struct world *w, uint32_t count, uint32_t n,
			   uint32_t length)
{
	put_words(xw, 1, 0);
	put_chunk(xw, offered(w), count, n, length);
	put_words(xw, 2, 0, 0);
}

static void lists_short(struct xdr_writer *xw, const struct world *w)
{
	put_write_list(xw, w, 1, 1, 100);
}
static void lists_unused(struct xdr_writer *xw, const struct world *w)
{
	put_write_list(xw, w, 1, 1, 0);
}
static void lists_absent(struct xdr_writer *xw, const struct world *w)
{
	put_words(xw, 3, 0, 0, 0);
}
static void lists_longer(struct xdr_writer *xw, const struct world *w)
{
	put_write_list(xw, w, 1, 1, READ_BYTES + 1);
}
static void lists_longest(struct xdr_writer *xw, const struct world *w)
{
	put_write_list(xw, w, 1, 1, UINT32_MAX);
}
static void lists_of_another_key(struct xdr_writer *xw, const struct world *w)
{
	struct rpcrdma_segment other = {.handle = ~offered(w)->handle, .offset = 0x1000};

	put_words(xw, 1, 0);
	put_chunk(xw, &other, 1, 1, READ_BYTES);
	put_words(xw, 2, 0, 0);
}
static void lists_repeated(struct xdr_writer *xw, const struct world *w)
{
	put_words(xw, 1, 0);
	put_chunk(xw, offered(w), 1, 1, 100);
	put_chunk(xw, offered(w), 1, 1, 100);
	put_words(xw, 2, 0, 0);
}
static void lists_two_segments(struct xdr_writer *xw, const struct world *w)
{
	put_write_list(xw, w, 2, 2, 100);
}
static void lists_sixteen_segments(struct xdr_writer *xw, const struct world *w)
{
	put_write_list(xw, w, 16, 16, 1);
}
static void lists_seventeen_segments(struct xdr_writer *xw, const struct world *w)
{
	put_write_list(xw, w, 17, 17, 1);
}
static void lists_no_segment(struct xdr_writer *xw, const struct world *w)
{
	put_write_list(xw, w, 0, 0, 0);
}
static void lists_more_segments_than_said(struct xdr_writer *xw, const struct world *w)
{
	put_write_list(xw, w, 1, 2, 100);
}
static void lists_fewer_segments_than_said(struct xdr_writer *xw, const struct world *w)
{
	put_write_list(xw, w, 2, 1, 100);
}
static void lists_endless_segments(struct xdr_writer *xw, const struct world *w)
{
	put_write_list(xw, w, UINT32_MAX, 1, 100);
}
static void lists_presence_is_two(struct xdr_writer *xw, const struct world *w)
{
	put_words(xw, 3, 0, 2, 1);
	put_segment(xw, offered(w), 100);
	put_words(xw, 2, 0, 0);
}
static void lists_reply_chunk_unasked(struct xdr_writer *xw, const struct world *w)
{
	put_words(xw, 2, 0, 0);
	put_chunk(xw, offered(w), 1, 1, 100);
}
static void lists_read_chunk(struct xdr_writer *xw, const struct world *w)
{
	put_words(xw, 2, 1, 4);
	put_segment(xw, offered(w), 100);
	put_words(xw, 3, 0, 0, 0);
}
static void lists_write_chunk_unasked(struct xdr_writer *xw, const struct world *w)
{
	struct rpcrdma_segment made_up = {.handle = 0x1234};

	put_words(xw, 1, 0);
	put_chunk(xw, &made_up, 1, 1, 100);
	put_words(xw, 2, 0, 0);
}
static void put_reply_chunk(struct xdr_writer *xw, const struct world *w, uint32_t n, uint32_t length)
{
	put_words(xw, 2, 0, 0);
	put_chunk(xw, &w->h.reply_chunk.segs[0], n, n, length);
}
static void lists_reply_chunk_unused(struct xdr_writer *xw, const struct world *w)
{
	put_reply_chunk(xw, w, 1, 0);
}
static void lists_reply_chunk_used(struct xdr_writer *xw, const struct world *w)
{
	put_reply_chunk(xw, w, 1, 100);
}
static void lists_reply_chunk_longer(struct xdr_writer *xw, const struct world *w)
{
	put_reply_chunk(xw, w, 1, 30001);
}
static void lists_reply_chunk_twice(struct xdr_writer *xw, const struct world *w)
{
	put_reply_chunk(xw, w, 2, 100);
}

#define ROW(name, how, what, with_proc, rpc, outcome)                                                        \
	static const struct chunks name##_row = {submit_##how, lists_##what, with_proc, rpc, outcome};

#define CHUNK_CASES(X)                                                                                       \
	/* what a server may do */                                                                           \
	X(write_chunk_of_fewer_bytes_is_a_short_answer, read, short, RDMA_MSG, RPC_BYTES, 0)                 \
	X(write_chunk_unused_is_an_answer_inline, read, unused, RDMA_MSG, RPC_BYTES, 0)                      \
	X(write_chunk_left_out_is_an_answer_inline, read, absent, RDMA_MSG, RPC_BYTES, 0)                    \
	X(reply_chunk_unused_is_an_answer_inline, long, reply_chunk_unused, RDMA_MSG, RPC_BYTES, 0)          \
	X(reply_chunk_left_out_is_an_answer_inline, long, absent, RDMA_MSG, RPC_BYTES, 0)                    \
	/* what it says of keys is not used */                                                               \
	X(write_chunk_of_another_key_is_not_believed, read, of_another_key, RDMA_MSG, RPC_BYTES, 0)          \
	/* what it must not do */                                                                            \
	X(write_chunk_one_byte_longer_fails_its_call, read, longer, RDMA_MSG, RPC_BYTES, -EPROTO)            \
	X(write_chunk_of_4_gigabytes_fails_its_call, read, longest, RDMA_MSG, RPC_BYTES, -EPROTO)            \
	X(write_chunk_repeated_fails_its_call, read, repeated, RDMA_MSG, RPC_BYTES, -EPROTO)                 \
	X(two_segments_for_one_fail_their_call, read, two_segments, RDMA_MSG, RPC_BYTES, -EPROTO)            \
	X(sixteen_segments_for_one_fail_their_call, read, sixteen_segments, RDMA_MSG, RPC_BYTES, -EPROTO)    \
	X(seventeen_segments_fail_their_call, read, seventeen_segments, RDMA_MSG, RPC_BYTES, -EPROTO)        \
	X(chunk_of_no_segment_fails_its_call, read, no_segment, RDMA_MSG, RPC_BYTES, -EPROTO)                \
	X(more_segments_than_counted_fail_their_call, read, more_segments_than_said, RDMA_MSG, RPC_BYTES,    \
	  -EPROTO)                                                                                           \
	X(fewer_segments_than_counted_fail_their_call, read, fewer_segments_than_said, RDMA_MSG, RPC_BYTES,  \
	  -EPROTO)                                                                                           \
	X(four_billion_segments_fail_their_call, read, endless_segments, RDMA_MSG, RPC_BYTES, -EPROTO)       \
	X(presence_that_is_no_boolean_fails_its_call, read, presence_is_two, RDMA_MSG, RPC_BYTES, -EPROTO)   \
	X(reply_chunk_unasked_fails_its_call, read, reply_chunk_unasked, RDMA_NOMSG, 0, -EPROTO)             \
	X(read_chunk_in_a_reply_fails_its_call, read, read_chunk, RDMA_MSG, RPC_BYTES, -EPROTO)              \
	X(write_chunk_unasked_fails_its_call, long, write_chunk_unasked, RDMA_MSG, RPC_BYTES, -EPROTO)       \
	X(reply_chunk_one_byte_longer_fails_its_call, long, reply_chunk_longer, RDMA_NOMSG, 0, -EPROTO)      \
	X(reply_chunk_of_two_segments_fails_its_call, long, reply_chunk_twice, RDMA_NOMSG, 0, -EPROTO)       \
	X(reply_chunk_used_beside_a_message_fails_its_call, long, reply_chunk_used, RDMA_MSG, RPC_BYTES,     \
	  -EPROTO)                                                                                           \
	X(no_message_without_a_reply_chunk_fails_its_call, long, absent, RDMA_NOMSG, 0, -EPROTO)             \
	X(no_message_in_an_unused_reply_chunk_fails_its_call, long, reply_chunk_unused, RDMA_NOMSG, 0,       \
	  -EPROTO)                                                                                           \
	X(reply_chunk_that_nothing_was_written_to_fails_its_call, long, reply_chunk_used, RDMA_NOMSG, 0,     \
	  -EPROTO)

CHUNK_CASES(ROW)

/* Whatever comes of the call, its memory is out of reach and the connection goes on. */
static void chunks_that_come_back(void **state)
{
	const struct chunks *row = *state;
	struct world *w = new_world();
	struct seen s;
	uint8_t out[1024];
	struct xdr_writer xw = xdr_writer(out, sizeof out);

	row->submit(w, &s);
	take_call(w, &s);
	put_words(&xw, 4, s.xid, 1, CREDITS, row->proc);
	row->lists(&xw, w);
	put_rpc(&xw, s.xid, row->rpc_bytes);
	assert_false(xw.stuck);
	assert_int_equal(peer_send(&w->peer, out, (uint32_t)xdr_written(&xw), 0), 0);
	expect(w, &s, row->status);
	assert_int_equal(fmrpool_stats(rpcrdma_pool(w->x))->in_use, 0);
	still_works(w);
	end_world(w);
}

static void write_chunk_of_fewer_bytes_says_how_many(void **state)
{
	struct world *w = new_world();
	struct seen s;

	submit_read(w, &s);
	take_read(w, &s);
	assert_int_equal(peer_write(&w->peer, s.offered.handle, s.offered.offset, "short", 5), 0);
	struct rpcrdma_header h = answer_header(w);
	h.write_chunk.segs[0].length = 5;
	say(w, &h, h.xid, RPC_BYTES, 0);
	expect(w, &s, 0);
	assert_true(s.in_placed);
	assert_int_equal(s.in_len, 5);
	assert_memory_equal(s.in, "short", 6);
	end_world(w);
}

static void rdma_write_one_byte_beyond_its_chunk_is_refused(void **state)
{
	struct world *w = new_world();
	struct seen s;
	char data[READ_BYTES + 1];

	memset(data, 'x', sizeof data);
	submit_read(w, &s);
	take_read(w, &s);
	assert_int_equal(peer_write(&w->peer, s.offered.handle, s.offered.offset, data, sizeof data), 0);
	expect_terminate(w, DDP_LAYER, 1, 1);
	expect_down(w, 1, -EPROTO);
	expect_zeros(&s);
	comes_back(w, &s);
	end_world(w);
}

/* ---- XIDs and headers ---- */

static void unknown_xid_is_dropped(void **state)
{
	struct world *w = new_world();
	struct seen s, unknown = {.xid = 12345};

	submit(w, &s);
	take_call(w, &s);
	for (int i = 0; i < 100; i++)
		say_to(w, &unknown, CREDITS);
	until(w, rpcrdma_stats(w->x)->unknown_replies == 100);
	assert_int_equal(s.done, 0);
	answer(w);
	expect(w, &s, 0);
	still_works(w);
	end_world(w);
}

static void second_reply_to_a_call_is_dropped(void **state)
{
	struct world *w = new_world();
	struct seen s;

	submit_read(w, &s);
	take_read(w, &s);
	answer(w);
	answer(w);
	answer(w);
	expect(w, &s, 0);
	until(w, rpcrdma_stats(w->x)->unknown_replies == 2);
	still_works(w);
	assert_int_equal(s.done, 1);
	end_world(w);
}

static void second_reply_in_the_same_packet_is_dropped(void **state)
{
	struct world *w = new_world();
	struct seen s;
	uint8_t message[256], frames[1024];
	size_t len = 0;

	submit_read(w, &s);
	take_read(w, &s);
	struct rpcrdma_header h = answer_header(w);
	uint32_t message_len = build(&h, h.xid, RPC_BYTES, message, sizeof message);
	for (int i = 0; i < 2; i++) {
		peer_fpdu(&w->fpdu, &w->peer, PEER_SEND, message, message_len);
		w->peer.msn[0]++;
		len += peer_encode_fpdu(&w->peer, &w->fpdu, frames + len);
	}
	assert_int_equal(peer_send_raw(&w->peer, frames, len), 0);
	until(w, rpcrdma_stats(w->x)->unknown_replies == 1);
	expect(w, &s, 0);
	still_works(w);
	end_world(w);
}

/* A reply that is a header, spoiled in one way, before an RPC message. */
struct spoiled {
	void (*spoil)(struct rpcrdma_header *h, uint32_t *rpc_xid, uint32_t *rpc_len);
	int status;
};

static void spoil_rpc_xid(struct rpcrdma_header *h, uint32_t *rpc_xid, uint32_t *rpc_len)
{
	++*rpc_xid;
}
static void spoil_no_rpc(struct rpcrdma_header *h, uint32_t *rpc_xid, uint32_t *rpc_len)
{
	*rpc_len = 0;
}
static void spoil_version(struct rpcrdma_header *h, uint32_t *rpc_xid, uint32_t *rpc_len)
{
	h->vers = 2;
}
static void spoil_msgp(struct rpcrdma_header *h, uint32_t *rpc_xid, uint32_t *rpc_len)
{
	h->proc = RDMA_MSGP;
}
static void spoil_done(struct rpcrdma_header *h, uint32_t *rpc_xid, uint32_t *rpc_len)
{
	h->proc = RDMA_DONE;
}
static void spoil_procedure(struct rpcrdma_header *h, uint32_t *rpc_xid, uint32_t *rpc_len)
{
	h->proc = 5;
}
static void spoil_err_vers(struct rpcrdma_header *h, uint32_t *rpc_xid, uint32_t *rpc_len)
{
	h->proc = RDMA_ERROR;
	h->error = ERR_VERS;
	h->vers_low = h->vers_high = 2;
	*rpc_len = 0;
}
static void spoil_err_chunk(struct rpcrdma_header *h, uint32_t *rpc_xid, uint32_t *rpc_len)
{
	h->proc = RDMA_ERROR;
	h->error = ERR_CHUNK;
	*rpc_len = 0;
}
static void spoil_err_unknown(struct rpcrdma_header *h, uint32_t *rpc_xid, uint32_t *rpc_len)
{
	h->proc = RDMA_ERROR;
	h->error = 3;
	*rpc_len = 0;
}

#define HEADER_CASES(X)                                                                                      \
	X(err_vers_fails_its_call_with_EPROTONOSUPPORT, err_vers, -EPROTONOSUPPORT)                          \
	X(err_chunk_fails_its_call_with_EIO, err_chunk, -EIO)                                                \
	X(error_of_an_unknown_kind_fails_its_call, err_unknown, -EPROTO)                                     \
	X(message_of_another_xid_than_its_header_fails_its_call, rpc_xid, -EPROTO)                           \
	X(header_without_its_message_fails_its_call, no_rpc, -EPROTO)                                        \
	X(header_of_version_2_fails_its_call, version, -EPROTO)                                              \
	X(rdma_msgp_fails_its_call, msgp, -EPROTO)                                                           \
	X(rdma_done_fails_its_call, done, -EPROTO)                                                           \
	X(unknown_procedure_fails_its_call, procedure, -EPROTO)

#define SPOILED(name, how, outcome) static const struct spoiled name##_row = {spoil_##how, outcome};
HEADER_CASES(SPOILED)

static void spoiled_header(void **state)
{
	const struct spoiled *row = *state;
	struct world *w = new_world();
	struct seen s;

	submit_read(w, &s);
	take_read(w, &s);
	struct rpcrdma_header h = answer_header(w);
	uint32_t rpc_xid = h.xid, rpc_len = RPC_BYTES;
	row->spoil(&h, &rpc_xid, &rpc_len);
	say(w, &h, rpc_xid, rpc_len, 0);
	expect(w, &s, row->status);
	assert_int_equal(fmrpool_stats(rpcrdma_pool(w->x))->in_use, 0);
	still_works(w);
	end_world(w);
}

static void error_for_an_unknown_xid_is_dropped(void **state)
{
	struct world *w = new_world();
	struct seen s;
	struct rpcrdma_header h = {
		.xid = 12345, .vers = 1, .credits = CREDITS, .proc = RDMA_ERROR, .error = ERR_CHUNK};

	submit(w, &s);
	take_call(w, &s);
	say(w, &h, 0, 0, 0);
	until(w, rpcrdma_stats(w->x)->unknown_replies == 1);
	assert_int_equal(s.done, 0);
	answer(w);
	expect(w, &s, 0);
	end_world(w);
}

/* Shorter than any header it is dropped, not even its XID can be trusted; else its call fails. */
static void reply_cut_short_at_every_length_fails_at_most_its_call(void **state)
{
	struct world *w = new_world();
	struct seen s;
	uint8_t out[256];
	uint32_t whole = 1, cut = 0;

	for (; cut < whole; cut++) {
		uint64_t unknown = rpcrdma_stats(w->x)->unknown_replies;
		submit_read(w, &s);
		take_read(w, &s);
		struct rpcrdma_header h = answer_header(w);
		whole = build(&h, h.xid, 4, out, sizeof out);
		assert_int_equal(peer_send(&w->peer, out, cut, 0), 0);
		if (cut < RPCRDMA_HDR_ERROR_MIN) {
			until(w, rpcrdma_stats(w->x)->unknown_replies == unknown + 1);
			assert_int_equal(s.done, 0);
			answer(w);
			expect(w, &s, 0);
		} else {
			expect(w, &s, -EPROTO);
		}
		give_back(w, &s);
	}
	assert_int_equal(cut, RPCRDMA_HDR_MIN + 24 + 4);
	assert_int_equal(w->downs, 0);
	still_works(w);
	end_world(w);
}

/* ---- the inline size ---- */

static uint32_t send_reply_of(struct world *w, struct seen *s, uint32_t whole_bytes)
{
	submit_long(w, s);
	take_call(w, s);
	struct rpcrdma_header h = answer_header(w);
	uint32_t rpc_len = whole_bytes - rpcrdma_header_size(&h);
	say(w, &h, h.xid, rpc_len, 0);
	return rpc_len;
}

static void reply_of_exactly_the_inline_size_arrives_whole(void **state)
{
	struct world *w = new_world();
	struct seen s;
	uint32_t rpc_len = send_reply_of(w, &s, 4096);

	expect(w, &s, 0);
	assert_int_equal(s.reply_len, rpc_len);
	assert_int_equal(s.reply[rpc_len - 1], 0xab);
	still_works(w);
	end_world(w);
}

static void reply_of_one_byte_more_ends_the_connection(void **state)
{
	struct world *w = new_world();
	struct seen s;

	submit_long(w, &s);
	take_call(w, &s);
	struct rpcrdma_header h = answer_header(w);
	uint8_t out[8192];
	uint32_t whole = build(&h, h.xid, 4096 + 4 - rpcrdma_header_size(&h), out, sizeof out);
	assert_int_equal(whole, 4096 + 4);
	assert_int_equal(peer_send(&w->peer, out, 4096 + 1, 0), 0);
	expect_terminate(w, DDP_LAYER, 2, 5);
	expect_down(w, 1, -EPROTO);
	assert_true(w->retry_ns > 0); /* it has answered nothing: not at once */
	comes_back(w, &s);
	end_world(w);
}

/* The threshold is what the server must keep to; the receives are as large as they always are. */
static void reply_of_one_word_more_than_a_smaller_agreement_arrives_whole(void **state)
{
	struct world *w = unserved_world(NULL);
	struct seen s;

	w->priv = k1;
	serve(w);
	uint32_t rpc_len = send_reply_of(w, &s, 1024 + 4);
	expect(w, &s, 0);
	assert_int_equal(s.reply_len, rpc_len);
	end_world(w);
}

static void more_replies_than_receives_end_the_connection(void **state)
{
	struct world *w = new_world();
	struct seen s;
	uint8_t message[256], frames[8192];
	struct rpcrdma_header h = {.xid = 12345, .vers = 1, .credits = CREDITS, .proc = RDMA_MSG};
	uint32_t message_len = build(&h, h.xid, RPC_BYTES, message, sizeof message);
	size_t len = 0;

	submit(w, &s);
	take_call(w, &s);
	for (unsigned int i = 0; i < CREDITS + 20; i++) {
		peer_fpdu(&w->fpdu, &w->peer, PEER_SEND, message, message_len);
		w->peer.msn[0]++;
		len += peer_encode_fpdu(&w->peer, &w->fpdu, frames + len);
	}
	assert_int_equal(peer_send_raw(&w->peer, frames, len), 0);
	expect_terminate(w, DDP_LAYER, 2, 2);
	expect_down(w, 1, -EPROTO);
	comes_back(w, &s);
	end_world(w);
}

/* ---- invalidation ---- */

static void its_own_key_may_be_invalidated(void **state)
{
	struct world *w = new_world();
	struct seen s;

	submit_read(w, &s);
	take_read(w, &s);
	struct rpcrdma_header h = answer_header(w);
	say(w, &h, h.xid, RPC_BYTES, s.offered.handle);
	expect(w, &s, 0);
	assert_int_equal(fmrpool_stats(rpcrdma_pool(w->x))->unmapped_remote, 1);
	still_works(w);
	end_world(w);
}

static void one_of_its_two_keys_may_be_invalidated(void **state)
{
	struct world *w = new_world();
	struct seen s;

	submit_write(w, &s, 5000);
	take_call(w, &s);
	assert_int_equal(w->h.read_chunk.nsegs, 2);
	struct rpcrdma_segment *segs = w->h.read_chunk.segs;
	struct rpcrdma_header h = answer_header(w);
	say(w, &h, h.xid, RPC_BYTES, segs[1].handle);
	expect(w, &s, 0);
	assert_int_equal(fmrpool_stats(rpcrdma_pool(w->x))->unmapped_remote, 1);
	assert_int_equal(fmrpool_stats(rpcrdma_pool(w->x))->unmapped_local, 1);
	still_works(w);
	end_world(w);
}

/* A Send with an STag that cannot be invalidated is refused by softiwarp itself. */
static void invalidates_nothing_of_ours(struct world *w, struct seen *s, uint32_t stag)
{
	struct rpcrdma_header h = answer_header(w);

	say(w, &h, h.xid, RPC_BYTES, stag);
	expect_terminate(w, RDMAP_LAYER, 1, 9);
	expect_down(w, 1, -EPROTO);
	comes_back(w, s);
}

static void invalidation_of_a_made_up_key_ends_the_connection(void **state)
{
	struct world *w = new_world();
	struct seen s;

	submit_read(w, &s);
	take_read(w, &s);
	invalidates_nothing_of_ours(w, &s, ~s.offered.handle);
	end_world(w);
}

static void invalidation_of_the_neighbouring_key_ends_the_connection(void **state)
{
	struct world *w = new_world();
	struct seen s;

	submit_read(w, &s);
	take_read(w, &s);
	invalidates_nothing_of_ours(w, &s, s.offered.handle ^ 1);
	end_world(w);
}

static void invalidation_of_another_calls_key_ends_the_connection(void **state)
{
	struct world *w = new_world();
	struct seen warm, read, other;

	submit(w, &warm);
	take_call(w, &warm);
	answer(w);
	submit_read(w, &read);
	take_read(w, &read);
	submit(w, &other);
	take_call(w, &other);
	struct rpcrdma_header h = answer_header(w);
	say(w, &h, h.xid, RPC_BYTES, read.offered.handle);
	expect_down(w, 1, -EPROTO);
	assert_int_equal(read.done + other.done, 0); /* neither is believed */
	serve(w);
	take_read(w, &read);
	answer(w);
	take_call(w, &other);
	answer(w);
	expect(w, &read, 0);
	expect(w, &other, 0);
	end_world(w);
}

static void invalidation_by_a_reply_to_nobody_ends_the_connection(void **state)
{
	struct world *w = new_world();
	struct seen s;
	struct rpcrdma_header h = {.xid = 12345, .vers = 1, .credits = CREDITS, .proc = RDMA_MSG};

	submit_read(w, &s);
	take_read(w, &s);
	say(w, &h, h.xid, RPC_BYTES, s.offered.handle);
	expect_down(w, 1, -EPROTO);
	comes_back(w, &s);
	end_world(w);
}

static void invalidation_of_an_invalid_key_ends_the_connection(void **state)
{
	struct world *w = new_world();
	struct seen s;

	submit_read(w, &s);
	take_read(w, &s);
	struct rpcrdma_header h = answer_header(w);
	say(w, &h, h.xid, RPC_BYTES, s.offered.handle);
	expect(w, &s, 0);
	say(w, &h, h.xid, RPC_BYTES, s.offered.handle);
	expect_terminate(w, RDMAP_LAYER, 1, 9);
	expect_down(w, 1, -EPROTO);
	assert_int_equal(s.done, 1);
	serve(w);
	still_works(w);
	end_world(w);
}

static void invalidation_of_a_key_that_we_have_invalidated_ends_the_connection(void **state)
{
	struct world *w = new_world();
	struct seen s, next;

	submit_read(w, &s);
	take_read(w, &s);
	answer(w);
	expect(w, &s, 0);
	submit_read(w, &next);
	take_read(w, &next);
	invalidates_nothing_of_ours(w, &next, s.offered.handle);
	assert_int_equal(s.done, 1);
	end_world(w);
}

static void invalidation_of_the_last_connections_key_ends_the_connection(void **state)
{
	struct world *w = new_world();
	struct seen s;

	submit_read(w, &s);
	take_read(w, &s);
	struct rpcrdma_segment old = s.offered;
	peer_hang_up(&w->peer);
	expect_down(w, 1, -ECONNRESET);
	serve(w);
	take_read(w, &s);
	struct rpcrdma_header h = answer_header(w);
	say(w, &h, h.xid, RPC_BYTES, old.handle);
	expect_terminate(w, RDMAP_LAYER, 1, 9);
	expect_down(w, 2, -EPROTO);
	comes_back(w, &s);
	end_world(w);
}

/* ---- Terminate at every point ---- */

/* RFC 5040 §4.8: RDMAP, remote operation error, catastrophic error of this stream. */
static const uint8_t terminate_words[] = {0x02, 0x07, 0, 0};

static void send_terminate(struct world *w)
{
	peer_fpdu(&w->fpdu, &w->peer, PEER_TERMINATE, terminate_words, sizeof terminate_words);
	assert_int_equal(peer_send_fpdu(&w->peer, &w->fpdu), 0);
}

static void expect_terminated(struct world *w)
{
	expect_down(w, 1, -EREMOTEIO);
	if (!strstr(w->why, "Terminate"))
		fail_msg("the reason is \"%s\"", w->why);
}

/* Points in the life of a READ, or of a WRITE, at which the server gives up. */
static void at_rest(struct world *w, struct seen *s)
{
	send_terminate(w); /* before the client has said a word */
	expect_terminated(w);
	submit_read(w, s);
}
static void with_a_call_out(struct world *w, struct seen *s)
{
	submit_read(w, s);
	take_read(w, s);
	send_terminate(w);
}
static void within_an_rdma_write(struct world *w, struct seen *s)
{
	submit_read(w, s);
	take_read(w, s);
	peer_fpdu(&w->fpdu, &w->peer, PEER_WRITE, "half", 4);
	w->fpdu.last = false;
	w->fpdu.stag = s->offered.handle;
	w->fpdu.offset = s->offered.offset;
	assert_int_equal(peer_send_fpdu(&w->peer, &w->fpdu), 0);
	send_terminate(w);
}
static void behind_an_rdma_write(struct world *w, struct seen *s)
{
	submit_read(w, s);
	take_read(w, s);
	assert_int_equal(peer_write(&w->peer, s->offered.handle, s->offered.offset, "whole", 5), 0);
	send_terminate(w);
}
static void within_a_reply(struct world *w, struct seen *s)
{
	uint8_t out[256];

	submit_read(w, s);
	take_read(w, s);
	struct rpcrdma_header h = answer_header(w);
	build(&h, h.xid, RPC_BYTES, out, sizeof out);
	peer_fpdu(&w->fpdu, &w->peer, PEER_SEND, out, 30);
	w->fpdu.last = false;
	assert_int_equal(peer_send_fpdu(&w->peer, &w->fpdu), 0);
	send_terminate(w);
}
static void instead_of_fetching(struct world *w, struct seen *s)
{
	submit_write(w, s, 5000);
	take_call(w, s);
	send_terminate(w);
}
static void with_a_read_request_out(struct world *w, struct seen *s)
{
	submit_write(w, s, 5000);
	take_call(w, s);
	struct rpcrdma_segment *seg = &w->h.read_chunk.segs[0];
	assert_int_equal(peer_read_request(&w->peer, 1, 0, 5000, seg->handle, seg->offset), 0);
	send_terminate(w);
}
static void behind_a_read_response(struct world *w, struct seen *s)
{
	char got[5000];

	submit_write(w, s, 5000);
	take_call(w, s);
	struct rpcrdma_segment *seg = &w->h.read_chunk.segs[0];
	assert_int_equal(peer_read(&w->peer, seg->handle, seg->offset, got, 5000), 0);
	send_terminate(w);
}

#define TERMINATE_CASES(X)                                                                                   \
	X(terminate_at_rest_ends_the_connection, at_rest)                                                    \
	X(terminate_with_a_call_out_sends_it_again, with_a_call_out)                                         \
	X(terminate_within_an_rdma_write_sends_the_call_again, within_an_rdma_write)                         \
	X(terminate_behind_an_rdma_write_sends_the_call_again, behind_an_rdma_write)                         \
	X(terminate_within_a_reply_sends_the_call_again, within_a_reply)                                     \
	X(terminate_instead_of_fetching_sends_the_call_again, instead_of_fetching)                           \
	X(terminate_with_a_read_request_out_sends_the_call_again, with_a_read_request_out)                   \
	X(terminate_behind_a_read_response_sends_the_call_again, behind_a_read_response)

struct point {
	void (*reach)(struct world *w, struct seen *s);
};
#define POINT(name, where) static const struct point name##_row = {where};
TERMINATE_CASES(POINT)

static void terminate_at(void **state)
{
	const struct point *row = *state;
	struct world *w = new_world();
	struct seen s;

	row->reach(w, &s);
	expect_terminated(w);
	comes_back(w, &s);
	end_world(w);
}

static void terminate_behind_a_reply_loses_nothing(void **state)
{
	struct world *w = new_world();
	struct seen s;
	uint8_t message[256], frames[1024];

	submit(w, &s);
	take_call(w, &s);
	struct rpcrdma_header h = answer_header(w);
	uint32_t message_len = build(&h, h.xid, RPC_BYTES, message, sizeof message);
	peer_fpdu(&w->fpdu, &w->peer, PEER_SEND, message, message_len);
	size_t len = peer_encode_fpdu(&w->peer, &w->fpdu, frames);
	peer_fpdu(&w->fpdu, &w->peer, PEER_TERMINATE, terminate_words, sizeof terminate_words);
	len += peer_encode_fpdu(&w->peer, &w->fpdu, frames + len);
	assert_int_equal(peer_send_raw(&w->peer, frames, len), 0);
	expect_terminated(w);
	expect(w, &s, 0);
	assert_int_equal(s.transmissions, 1);
	serve(w);
	still_works(w);
	end_world(w);
}

static void terminate_without_words_ends_the_connection(void **state)
{
	struct world *w = new_world();
	struct seen s;

	submit_read(w, &s);
	take_read(w, &s);
	peer_fpdu(&w->fpdu, &w->peer, PEER_TERMINATE, NULL, 0);
	assert_int_equal(peer_send_fpdu(&w->peer, &w->fpdu), 0);
	expect_terminated(w);
	comes_back(w, &s);
	end_world(w);
}

static void words_behind_a_terminate_are_not_heard(void **state)
{
	struct world *w = new_world();
	struct seen s;
	uint8_t message[256], frames[1024];

	submit_read(w, &s);
	take_read(w, &s);
	struct rpcrdma_header h = answer_header(w);
	uint32_t message_len = build(&h, h.xid, RPC_BYTES, message, sizeof message);
	peer_fpdu(&w->fpdu, &w->peer, PEER_TERMINATE, terminate_words, sizeof terminate_words);
	size_t len = peer_encode_fpdu(&w->peer, &w->fpdu, frames);
	peer_fpdu(&w->fpdu, &w->peer, PEER_WRITE, "late", 4);
	w->fpdu.stag = s.offered.handle;
	len += peer_encode_fpdu(&w->peer, &w->fpdu, frames + len);
	peer_fpdu(&w->fpdu, &w->peer, PEER_SEND, message, message_len);
	len += peer_encode_fpdu(&w->peer, &w->fpdu, frames + len);
	assert_int_equal(peer_send_raw(&w->peer, frames, len), 0);
	expect_terminated(w);
	expect_zeros(&s);
	comes_back(w, &s);
	end_world(w);
}

/* ---- closed at every byte ---- */

/* The server's whole answer as it is on the wire: its length. */
typedef size_t wire_fn(struct world *w, struct seen *s, uint8_t *frames);

static size_t wire_inline(struct world *w, struct seen *s, uint8_t *frames)
{
	uint8_t message[256];

	submit(w, s);
	take_call(w, s);
	struct rpcrdma_header h = answer_header(w);
	peer_fpdu(&w->fpdu, &w->peer, PEER_SEND, message,
		  build(&h, h.xid, RPC_BYTES, message, sizeof message));
	return peer_encode_fpdu(&w->peer, &w->fpdu, frames);
}

/* An RDMA Write of a few bytes, and a reply in two segments that invalidates the key. */
static size_t wire_placed(struct world *w, struct seen *s, uint8_t *frames)
{
	uint8_t message[256];
	size_t len;

	submit_read(w, s);
	take_read(w, s);
	struct rpcrdma_header h = answer_header(w);
	h.write_chunk.segs[0].length = 6;
	uint32_t message_len = build(&h, h.xid, RPC_BYTES, message, sizeof message);
	peer_fpdu(&w->fpdu, &w->peer, PEER_WRITE, "placed", 6);
	w->fpdu.stag = s->offered.handle;
	w->fpdu.offset = s->offered.offset;
	len = peer_encode_fpdu(&w->peer, &w->fpdu, frames);
	for (uint32_t at = 0; at < message_len; at += 40) {
		peer_fpdu(&w->fpdu, &w->peer, PEER_SEND_INVALIDATE, message + at,
			  message_len - at < 40 ? message_len - at : 40);
		w->fpdu.last = at + 40 >= message_len;
		w->fpdu.stag = s->offered.handle;
		w->fpdu.offset = at;
		len += peer_encode_fpdu(&w->peer, &w->fpdu, frames + len);
	}
	return len;
}

/* The reply itself is placed, and the message only says so. */
static size_t wire_long(struct world *w, struct seen *s, uint8_t *frames)
{
	uint8_t message[256], reply[RPC_BYTES] = {0};
	size_t len;

	submit_long(w, s);
	take_call(w, s);
	struct rpcrdma_header h = answer_header(w);
	struct rpcrdma_segment *seg = &h.reply_chunk.segs[0];
	uint32_t xid = htonl(h.xid);
	memcpy(reply, &xid, 4);
	peer_fpdu(&w->fpdu, &w->peer, PEER_WRITE, reply, sizeof reply);
	w->fpdu.stag = seg->handle;
	w->fpdu.offset = seg->offset;
	len = peer_encode_fpdu(&w->peer, &w->fpdu, frames);
	seg->length = sizeof reply;
	h.proc = RDMA_NOMSG;
	peer_fpdu(&w->fpdu, &w->peer, PEER_SEND, message, build(&h, 0, 0, message, sizeof message));
	return len + peer_encode_fpdu(&w->peer, &w->fpdu, frames + len);
}

/* The server fetches the first segment, does not wait for it, and replies. */
static size_t wire_fetching(struct world *w, struct seen *s, uint8_t *frames)
{
	uint8_t message[256], request[28];
	struct xdr_writer xw = xdr_writer(request, sizeof request);
	size_t len;

	submit_write(w, s, 5000);
	take_call(w, s);
	struct rpcrdma_segment *seg = &w->h.read_chunk.segs[0];
	struct rpcrdma_header h = answer_header(w);
	put_words(&xw, 5, 1, 0, 0, seg->length, seg->handle);
	xdr_put_u64(&xw, seg->offset);
	peer_fpdu(&w->fpdu, &w->peer, PEER_READ_REQUEST, request, sizeof request);
	len = peer_encode_fpdu(&w->peer, &w->fpdu, frames);
	peer_fpdu(&w->fpdu, &w->peer, PEER_SEND, message,
		  build(&h, h.xid, RPC_BYTES, message, sizeof message));
	return len + peer_encode_fpdu(&w->peer, &w->fpdu, frames + len);
}

static void hang_up(struct world *w)
{
	peer_hang_up(&w->peer);
	expect_down(w, w->downs + 1, -ECONNRESET);
}

static void close_at_every_byte(wire_fn *wire)
{
	struct world *w = new_world();
	uint8_t frames[1024];
	struct seen s;
	size_t whole = 1;

	for (size_t cut = 0; cut <= whole; cut++) {
		whole = wire(w, &s, frames);
		assert_int_equal(peer_send_raw(&w->peer, frames, cut), 0);
		peer_hang_up(&w->peer);
		until(w, !rpcrdma_is_up(w->x));
		if (cut == whole) {
			expect(w, &s, 0);
			assert_int_equal(s.transmissions, 1);
		} else {
			comes_back(w, &s);
			assert_int_equal(s.transmissions, 2);
			hang_up(w);
		}
		give_back(w, &s);
		serve(w);
	}
	assert_true(whole > 60);
	still_works(w);
	end_world(w);
}

static void connection_closed_at_every_byte_of_an_inline_reply_loses_nothing(void **state)
{
	close_at_every_byte(wire_inline);
}

static void connection_closed_at_every_byte_of_placed_data_and_reply_loses_nothing(void **state)
{
	close_at_every_byte(wire_placed);
}

static void connection_closed_at_every_byte_of_a_long_reply_loses_nothing(void **state)
{
	close_at_every_byte(wire_long);
}

static void connection_closed_at_every_byte_while_fetching_loses_nothing(void **state)
{
	close_at_every_byte(wire_fetching);
}

static void connection_closed_at_every_byte_of_the_set_up_is_tried_again(void **state)
{
	struct world *w = unserved_world(NULL);
	struct seen s;
	uint8_t reply[20 + 4 + sizeof k4] = "MPA ID Rep Frame\x50\x02\0\x0c\0\x10\0\x10";
	struct peer_mpa request;

	memcpy(reply + 24, k4, sizeof k4);
	submit(w, &s);
	for (size_t cut = 0; cut < sizeof reply; cut++) {
		w->now += w->retry_ns;
		assert_int_equal(peer_accept(&w->peer), 0);
		assert_int_equal(peer_recv_mpa(&w->peer, &request), 0);
		assert_int_equal(peer_send_raw(&w->peer, reply, cut), 0);
		peer_hang_up(&w->peer);
		until(w, w->downs == (int)cut + 1);
		assert_true(w->retry_ns > 0);
		assert_int_equal(w->ups, 0);
	}
	serve(w);
	take_call(w, &s);
	answer(w);
	expect(w, &s, 0);
	assert_int_equal(s.transmissions, 1);
	end_world(w);
}

/* ---- stalls: the connection stays up, and nothing comes ---- */

static void silence_ends_the_connection_after_the_timeout(void **state)
{
	struct world *w = new_world();
	struct seen s;

	submit(w, &s);
	take_call(w, &s);
	w->now += TIMEO_NS - 1;
	turn(w);
	assert_int_equal(w->downs, 0);
	w->now++;
	expect_down(w, 1, -ETIMEDOUT);
	comes_back(w, &s);
	end_world(w);
}

static void silence_brings_no_retransmission_on_the_same_connection(void **state)
{
	struct world *w = new_world();
	struct seen s;

	submit_read(w, &s);
	take_read(w, &s);
	for (int i = 1; i < 60; i++) { /* as long as it lasts */
		w->now += SEC;
		turn(w);
	}
	assert_int_equal(w->downs, 0);
	w->now += SEC;
	expect_down(w, 1, -ETIMEDOUT);
	expect_no_more_calls(w);
	comes_back(w, &s);
	assert_int_equal(s.transmissions, 2);
	end_world(w);
}

static void silence_in_the_middle_of_a_reply_ends_the_connection(void **state)
{
	struct world *w = new_world();
	struct seen s;
	uint8_t frames[1024];
	size_t len = wire_placed(w, &s, frames);

	assert_int_equal(peer_send_raw(&w->peer, frames, len - 1), 0);
	turn(w);
	time_out(w);
	assert_int_equal(s.done, 0);
	comes_back(w, &s);
	end_world(w);
}

/* Bytes that trickle in are no answer. */
static void reply_that_trickles_does_not_stretch_the_timeout(void **state)
{
	struct world *w = new_world();
	struct seen s;
	uint8_t frames[1024];
	size_t len = wire_placed(w, &s, frames);

	assert_true(len > 60);
	for (size_t i = 0; i < 59; i++) {
		assert_int_equal(peer_send_raw(&w->peer, frames + i, 1), 0);
		w->now += SEC;
		turn(w);
		assert_int_equal(w->downs, 0);
	}
	w->now += SEC;
	expect_down(w, 1, -ETIMEDOUT);
	comes_back(w, &s);
	end_world(w);
}

static void other_answers_do_not_stretch_the_timeout(void **state)
{
	struct world *w = new_world();
	struct seen s, warm, other;

	submit(w, &warm);
	take_call(w, &warm);
	answer(w);
	submit(w, &s);
	take_call(w, &s);
	for (int i = 0; i < 59; i++) {
		w->now += SEC;
		submit(w, &other);
		take_call(w, &other);
		answer(w);
		expect(w, &other, 0);
	}
	assert_int_equal(w->downs, 0);
	w->now += SEC;
	expect_down(w, 1, -ETIMEDOUT);
	comes_back(w, &s);
	end_world(w);
}

/* The client's Read Responses fill the sockets. */
static void server_that_reads_no_more_is_left_after_the_timeout(void **state)
{
	struct world *w = new_world();
	struct seen s;

	submit_write(w, &s, MIB);
	take_call(w, &s);
	for (int round = 0; round < 8; round++)
		for (int i = 0; i < 2; i++) {
			struct rpcrdma_segment *seg = &w->h.read_chunk.segs[i];
			assert_int_equal(peer_read_request(&w->peer, 1, 0, MIB, seg->handle, seg->offset), 0);
		}
	turn(w);
	assert_int_equal(w->downs, 0);
	assert_true(softiwarp_stats(rpcrdma_endpoint(w->x))->bytes_out < 16 * MIB);
	time_out(w);
	comes_back(w, &s);
	end_world(w);
}

static void silence_at_the_set_up_is_tried_again(void **state)
{
	struct world *w = unserved_world(NULL);
	struct seen s;
	struct peer_mpa request;

	submit(w, &s);
	assert_int_equal(peer_accept(&w->peer), 0);
	assert_int_equal(peer_recv_mpa(&w->peer, &request), 0);
	turn(w);
	assert_int_equal(w->downs, 0);
	w->now = rpcrdma_next_timeout(w->x);
	expect_down(w, 1, -ETIMEDOUT);
	comes_back(w, &s);
	assert_int_equal(s.transmissions, 1);
	end_world(w);
}

static void silence_fails_a_soft_call_in_time(void **state)
{
	struct world *w = world_with(one_timeout);
	struct seen s;

	submit_read(w, &s);
	take_read(w, &s);
	time_out(w);
	expect(w, &s, -ETIMEDOUT);
	expect_no_more_calls(w);
	serve(w);
	still_works(w);
	end_world(w);
}

static void silence_for_an_hour_loses_no_hard_call(void **state)
{
	struct world *w = new_world();
	struct seen s;

	submit_read(w, &s);
	take_read(w, &s);
	for (int minute = 0; minute < 60; minute++) {
		time_out(w);
		serve(w);
		take_read(w, &s);
	}
	answer(w);
	expect(w, &s, 0);
	assert_int_equal(s.transmissions, 61);
	end_world(w);
}

/* ---- all of them ---- */

#define CASE(f)                                                                                              \
	{                                                                                                    \
#f, f, NULL, NULL, NULL                                                                      \
	}
#define CHUNKS(name, how, what, with_proc, rpc, outcome)                                                     \
	{#name, chunks_that_come_back, NULL, NULL, (void *)&name##_row},
#define HEADER(name, how, outcome) {#name, spoiled_header, NULL, NULL, (void *)&name##_row},
#define TERMINATE(name, where) {#name, terminate_at, NULL, NULL, (void *)&name##_row},

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(grant_of_0_lets_one_call_out_at_a_time),
		CASE(grant_of_1_lets_one_call_out_at_a_time),
		CASE(shrinking_grants_hold_back_what_is_beyond_them),
		CASE(huge_grant_is_cut_to_what_was_asked_for),
		CASE(grant_is_forgotten_with_its_connection),
		CASE(reply_after_the_timeout_finds_nobody),
		CASE(rdma_write_after_the_timeout_reaches_nothing),
		CASE(rdma_write_with_a_key_of_the_last_connection_is_refused),
		CASE(rdma_read_with_a_key_of_the_last_connection_is_refused),
		CASE(rdma_write_after_the_reply_is_refused),
		CASE(rdma_read_after_the_reply_is_refused),
		CASE(memory_used_again_is_out_of_reach_of_the_old_key),
		CASE(rdma_write_for_an_abandoned_call_lands_in_its_own_memory),
		CASE(reply_to_a_call_that_has_not_left_is_dropped),
		CHUNK_CASES(CHUNKS) CASE(write_chunk_of_fewer_bytes_says_how_many),
		CASE(rdma_write_one_byte_beyond_its_chunk_is_refused),
		CASE(unknown_xid_is_dropped),
		CASE(second_reply_to_a_call_is_dropped),
		CASE(second_reply_in_the_same_packet_is_dropped),
		HEADER_CASES(HEADER) CASE(error_for_an_unknown_xid_is_dropped),
		CASE(reply_cut_short_at_every_length_fails_at_most_its_call),
		CASE(reply_of_exactly_the_inline_size_arrives_whole),
		CASE(reply_of_one_byte_more_ends_the_connection),
		CASE(reply_of_one_word_more_than_a_smaller_agreement_arrives_whole),
		CASE(more_replies_than_receives_end_the_connection),
		CASE(its_own_key_may_be_invalidated),
		CASE(one_of_its_two_keys_may_be_invalidated),
		CASE(invalidation_of_a_made_up_key_ends_the_connection),
		CASE(invalidation_of_the_neighbouring_key_ends_the_connection),
		CASE(invalidation_of_another_calls_key_ends_the_connection),
		CASE(invalidation_by_a_reply_to_nobody_ends_the_connection),
		CASE(invalidation_of_an_invalid_key_ends_the_connection),
		CASE(invalidation_of_a_key_that_we_have_invalidated_ends_the_connection),
		CASE(invalidation_of_the_last_connections_key_ends_the_connection),
		TERMINATE_CASES(TERMINATE) CASE(terminate_behind_a_reply_loses_nothing),
		CASE(terminate_without_words_ends_the_connection),
		CASE(words_behind_a_terminate_are_not_heard),
		CASE(connection_closed_at_every_byte_of_an_inline_reply_loses_nothing),
		CASE(connection_closed_at_every_byte_of_placed_data_and_reply_loses_nothing),
		CASE(connection_closed_at_every_byte_of_a_long_reply_loses_nothing),
		CASE(connection_closed_at_every_byte_while_fetching_loses_nothing),
		CASE(connection_closed_at_every_byte_of_the_set_up_is_tried_again),
		CASE(silence_ends_the_connection_after_the_timeout),
		CASE(silence_brings_no_retransmission_on_the_same_connection),
		CASE(silence_in_the_middle_of_a_reply_ends_the_connection),
		CASE(reply_that_trickles_does_not_stretch_the_timeout),
		CASE(other_answers_do_not_stretch_the_timeout),
		CASE(server_that_reads_no_more_is_left_after_the_timeout),
		CASE(silence_at_the_set_up_is_tried_again),
		CASE(silence_fails_a_soft_call_in_time),
		CASE(silence_for_an_hour_loses_no_hard_call),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
