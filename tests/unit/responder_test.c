/* SPDX-License-Identifier: MIT
 *
 * The server side of RPC-over-RDMA over the fake device. The test plays the client by hand: it exposes
 * memory, sends headers, legal and not, and looks at what was read, written, invalidated and answered.
 */
#include "responder.h"

#include "fake_device.h"
#include "fmrpool.h"
#include "header.h"

#include <errno.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define CREDITS 8u
#define INLINE 4096u
#define MAX_IO (64u << 10)
#define CALLS_MAX 64

struct fixture {
	struct rdma_listener *listener;
	struct rdma_ep *client;
	struct rdma_ep *server; /* the svc's: for interfering with it */
	struct rpcrdma_svc *svc;
	struct rpcrdma_svc_req *calls[CALLS_MAX];
	uint32_t xids[CALLS_MAX]; /* of calls[], which may be gone by then */
	unsigned int ncalls;
	void (*answer)(struct rpcrdma_svc_req *req); /* on_call answers with it, if set */
};

static struct fixture fx;

static uint32_t xid_of(const struct rpcrdma_svc_req *req)
{
	uint32_t xid;
	memcpy(&xid, req->msg, 4);
	return be32toh(xid);
}

static void on_call(void *ctx, struct rpcrdma_svc_req *req)
{
	assert_ptr_equal(ctx, &fx);
	assert_true(fx.ncalls < CALLS_MAX);
	fx.xids[fx.ncalls] = xid_of(req);
	fx.calls[fx.ncalls++] = req;
	if (fx.answer)
		fx.answer(req);
}

static struct rpcrdma_svc_params svc_params(void)
{
	return (struct rpcrdma_svc_params){.credits = CREDITS,
					   .inline_bytes = INLINE,
					   .arena_bytes = 1u << 20,
					   .max_io_bytes = MAX_IO,
					   .remote_invalidate = true,
					   .on_call = on_call,
					   .ctx = &fx};
}

/* Twice: the end of a connection is noticed in the turn after the one that caused it. */
static void progress(void)
{
	for (int turn = 0; turn < 2; turn++)
		while (rpcrdma_svc_progress(fx.svc, 0))
			;
	fx.client->ops->progress(fx.client, 0);
}

/* A connection to a responder with these parameters; priv NULL: the client has no private data. */
static void open_with(struct rpcrdma_svc_params params, const struct rpcrdma_private *priv)
{
	struct rdma_ep_params ep_params = {.epoll_fd = -1};
	struct sockaddr_in addr = {.sin_family = AF_INET};
	uint8_t bytes[RPCRDMA_PRIVATE_BYTES] = {0};

	memset(&fx, 0, sizeof fx);
	assert_int_equal(fake_device.listen((struct sockaddr *)&addr, sizeof addr, &fx.listener), 0);
	addr.sin_port = htons(fake_device.listener_port(fx.listener));
	assert_int_equal(fake_device.open(&ep_params, &fx.client), 0);
	if (priv)
		rpcrdma_private_encode(bytes, priv);
	fake_post_raw(fx.client, 2 * CREDITS, priv ? priv->recv_bytes : 1024);
	assert_int_equal(fx.client->ops->connect(fx.client, (struct sockaddr *)&addr, sizeof addr, bytes,
						 priv ? sizeof bytes : 0),
			 0);
	assert_int_equal(fake_device.listener_accept(fx.listener, &ep_params, NULL, &params.ep), 0);
	fx.server = params.ep;
	assert_int_equal(rpcrdma_svc_create(&params, &fx.svc), 0);
	progress();
}

static const struct rpcrdma_private usual = {
	.remote_invalidate = true, .send_bytes = INLINE, .recv_bytes = INLINE};

static int open_usual(void **state)
{
	fake_reset();
	open_with(svc_params(), &usual);
	assert_int_equal(fx.client->state, RDMA_EP_ESTABLISHED);
	assert_false(rpcrdma_svc_closed(fx.svc));
	return 0;
}

static int setup_none(void **state)
{
	fake_reset();
	return 0;
}

static int close_all(void **state)
{
	if (fx.svc) {
		assert_int_equal(fake_counts(fx.server)->misuses, 0);
		assert_int_equal(fake_counts(fx.client)->misuses, 0);
	}
	rpcrdma_svc_destroy(fx.svc);
	if (fx.client)
		fx.client->ops->close(fx.client);
	if (fx.listener)
		fake_device.listener_close(fx.listener);
	memset(&fx, 0, sizeof fx);
	assert_int_equal(fake_living(), 0);
	return 0;
}

/* Messages. */

static struct rpcrdma_header call_header(uint32_t xid)
{
	return (struct rpcrdma_header){.xid = xid, .vers = 1, .credits = 32, .proc = RDMA_MSG};
}

/* A message of `len` bytes: the XID, then bytes that tell their place. */
static void fill_message(uint8_t *msg, uint32_t len, uint32_t xid)
{
	for (uint32_t i = 0; i < len; i++)
		msg[i] = (uint8_t)(i * 7 + xid);
	uint32_t be = htobe32(xid);
	memcpy(msg, &be, 4);
}

static void put_word(uint8_t *at, uint32_t value)
{
	value = htobe32(value);
	memcpy(at, &value, 4);
}

static void send_message(const struct rpcrdma_header *h, const void *msg, uint32_t len)
{
	uint8_t buf[INLINE];
	struct xdr_writer w = xdr_writer(buf, sizeof buf);

	rpcrdma_header_encode(&w, h);
	uint8_t *to = xdr_reserve(&w, len);
	assert_non_null(to);
	if (len)
		memcpy(to, msg, len);
	assert_int_equal(fake_send_raw(fx.client, buf, (uint32_t)xdr_written(&w), 0), 0);
}

static void send_short(uint32_t xid)
{
	uint8_t msg[40];
	struct rpcrdma_header h = call_header(xid);
	fill_message(msg, sizeof msg, xid);
	send_message(&h, msg, sizeof msg);
}

/* A reply as the client sees it. */
struct answer {
	struct rpcrdma_header h;
	uint8_t bytes[INLINE];
	uint8_t msg[INLINE];
	uint32_t msg_len, invalidated;
};

static int receive(struct answer *a)
{
	int len = fake_recv_raw(fx.client, a->bytes, sizeof a->bytes, &a->invalidated);
	if (len < 0)
		return len;
	struct xdr_reader r = xdr_reader(a->bytes, (size_t)len);
	int err = rpcrdma_header_decode(&r, true, &a->h);
	a->msg_len = (uint32_t)xdr_left(&r);
	memcpy(a->msg, r.pos, a->msg_len);
	return err;
}

static struct answer expect_answer(uint32_t xid, uint32_t proc)
{
	struct answer a;
	assert_int_equal(receive(&a), 0);
	assert_int_equal(a.h.xid, xid);
	assert_int_equal(a.h.credits, CREDITS);
	assert_int_equal(a.h.proc, proc);
	return a;
}

static void expect_error(uint32_t xid, uint32_t error)
{
	struct answer a = expect_answer(xid, RDMA_ERROR);
	assert_int_equal(a.h.error, error);
	assert_int_equal(a.invalidated, 0);
}

static void expect_no_answer(void)
{
	struct answer a;
	assert_int_equal(receive(&a), -EAGAIN);
}

/* What the upper layer answers. */
static uint8_t head[MAX_IO + 4096];

static void reply_with(struct rpcrdma_svc_req *req, uint32_t head_len, const void *payload, uint32_t len,
		       const char *tail, int want)
{
	memcpy(head, req->msg, 4);
	for (uint32_t i = 4; i < head_len; i++)
		head[i] = (uint8_t)(i * 3);
	struct rpcrdma_svc_reply reply = {.head = head,
					  .head_len = head_len,
					  .payload = payload,
					  .payload_len = len,
					  .tail = (const uint8_t *)tail,
					  .tail_len = tail ? (uint32_t)strlen(tail) : 0};
	assert_int_equal(rpcrdma_svc_reply(req, &reply), want);
}

static void answer_short(struct rpcrdma_svc_req *req)
{
	reply_with(req, 24, NULL, 0, NULL, 0);
}

static uint8_t *payload_of(struct rpcrdma_svc_req *req, uint32_t len)
{
	uint8_t *p = rpcrdma_svc_payload(req, len);
	assert_non_null(p);
	for (uint32_t i = 0; i < len; i++)
		p[i] = (uint8_t)(i * 11 + 1);
	return p;
}

static void check_payload(const uint8_t *p, uint32_t from, uint32_t len)
{
	for (uint32_t i = 0; i < len; i++)
		assert_int_equal(p[i], (uint8_t)((from + i) * 11 + 1));
}

/* The client's memory, in segments. */
static struct rpcrdma_segment expose(void *addr, uint32_t len, enum fmr_access access)
{
	struct rpcrdma_segment seg = {.length = len};
	seg.handle = fake_expose(fx.client, addr, len, access, &seg.offset);
	return seg;
}

static void add_segment(struct rpcrdma_chunk *chunk, void *addr, uint32_t len, enum fmr_access access)
{
	chunk->segs[chunk->nsegs++] = expose(addr, len, access);
}

static uint8_t memory[3 * MAX_IO];

/* The connection still serves, and every receive is posted. */
static void check_alive(void)
{
	send_short(0x99999999);
	fx.ncalls = 0;
	fx.answer = answer_short;
	progress();
	fx.answer = NULL;
	assert_int_equal(fx.ncalls, 1);
	expect_answer(0x99999999, RDMA_MSG);
	assert_int_equal(fake_posted_recvs(fx.server), CREDITS + 4);
	fx.ncalls = 0;
}

/* Connecting. */

static void accepts_and_says_what_it_can(void **state)
{
	struct rpcrdma_private p;
	assert_true(rpcrdma_private_decode(fx.client->peer_private, fx.client->peer_private_len, &p));
	assert_true(p.remote_invalidate);
	assert_int_equal(p.send_bytes, INLINE);
	assert_int_equal(p.recv_bytes, INLINE);
	assert_int_equal(fake_posted_recvs(fx.server), CREDITS + 4);
	assert_ptr_equal(rpcrdma_svc_endpoint(fx.svc), fx.server);
	check_alive();
}

static void bad_parameters_close_the_endpoint(void **state)
{
	struct rpcrdma_svc *svc;
	for (int i = 0; i < 6; i++) {
		struct rpcrdma_svc_params p = svc_params();
		p.credits = i == 0 ? 0 : i == 1 ? 1u << 20 : p.credits;
		p.inline_bytes = i == 2 ? 0 : i == 3 ? 1000 : p.inline_bytes;
		p.max_io_bytes = i == 4 ? 0 : i == 5 ? FMR_STRIPE_BYTES + 1 : p.max_io_bytes;
		assert_int_equal(fake_device.open(&(struct rdma_ep_params){.epoll_fd = -1}, &p.ep), 0);
		assert_int_equal(rpcrdma_svc_create(&p, &svc), -EINVAL);
		assert_int_equal(fake_living(), 0);
	}
}

static void buffers_of_any_size_stay_inside_stripes(void **state)
{
	struct rpcrdma_svc_params p = svc_params();
	p.credits = 300;
	for (p.inline_bytes = 1024; p.inline_bytes <= 262144;
	     p.inline_bytes += p.inline_bytes / 3 / 1024 * 1024 + 1024) {
		open_with(p, NULL); /* every buffer is registered by one key, or the device refuses it */
		assert_false(rpcrdma_svc_closed(fx.svc));
		close_all(state);
	}
}

static void small_device_means_fewer_credits(void **state)
{
	fake_limits.max_recv = 6;
	open_with(svc_params(), &usual);
	send_short(1);
	fx.answer = answer_short;
	progress();
	struct answer a;
	assert_int_equal(receive(&a), 0);
	assert_int_equal(a.h.credits, 2);
}

static void too_small_a_device_ends_it(void **state)
{
	fake_limits.max_send = 20;
	open_with(svc_params(), &usual);
	assert_true(rpcrdma_svc_closed(fx.svc));
	assert_int_equal(rpcrdma_svc_endpoint(fx.svc)->error, -ENOBUFS);
}

/* Short messages. */

static void short_call_and_reply(void **state)
{
	send_short(0x1234);
	progress();
	assert_int_equal(fx.ncalls, 1);
	const struct rpcrdma_svc_req *req = fx.calls[0];
	uint8_t want[40];
	fill_message(want, sizeof want, 0x1234);
	assert_int_equal(req->msg_len, 40);
	assert_memory_equal(req->msg, want, 40);
	assert_null(req->data);
	assert_int_equal(req->write_chunk_bytes, 0);
	assert_int_equal(req->reply_max, INLINE - 28);
	expect_no_answer();
	reply_with(fx.calls[0], 100, NULL, 0, "tail", 0);
	progress();
	struct answer a = expect_answer(0x1234, RDMA_MSG);
	assert_int_equal(a.msg_len, 104);
	assert_memory_equal(a.msg, head, 100);
	assert_memory_equal(a.msg + 100, "tail", 4);
	assert_int_equal(a.invalidated, 0);
	check_alive();
	assert_int_equal(rpcrdma_svc_stats(fx.svc)->calls, 2);
	assert_int_equal(rpcrdma_svc_stats(fx.svc)->replies, 2);
}

static void replies_share_a_doorbell(void **state)
{
	for (uint32_t xid = 1; xid <= CREDITS; xid++)
		send_short(xid);
	fx.answer = answer_short;
	progress();
	assert_int_equal(fake_counts(fx.server)->doorbells, 1);
	for (uint32_t xid = 1; xid <= CREDITS; xid++)
		expect_answer(xid, RDMA_MSG);
	check_alive();
}

static void largest_inline_reply_fits_and_one_more_does_not(void **state)
{
	send_short(1);
	send_short(2);
	progress();
	reply_with(fx.calls[0], fx.calls[0]->reply_max, NULL, 0, NULL, 0);
	reply_with(fx.calls[1], fx.calls[1]->reply_max + 1, NULL, 0, NULL, -EMSGSIZE);
	progress();
	struct answer a = expect_answer(1, RDMA_MSG);
	assert_int_equal(a.msg_len, INLINE - 28);
	assert_memory_equal(a.msg + 4, head + 4, INLINE - 32);
	expect_error(2, ERR_CHUNK);
	check_alive();
}

static void client_without_private_data_gets_at_most_1024(void **state)
{
	open_with(svc_params(), NULL);
	send_short(1);
	send_short(2);
	progress();
	assert_int_equal(fx.calls[0]->reply_max, 1024 - 28);
	reply_with(fx.calls[0], 1024 - 28, NULL, 0, NULL, 0);
	reply_with(fx.calls[1], 1024 - 24, NULL, 0, NULL, -EMSGSIZE);
	progress();
	expect_answer(1, RDMA_MSG);
	expect_error(2, ERR_CHUNK);
	check_alive();
}

static void payload_without_write_chunk_goes_inline_with_padding(void **state)
{
	send_short(7);
	progress();
	uint8_t *p = payload_of(fx.calls[0], 100);
	reply_with(fx.calls[0], 28, p, 13, "tail", 0);
	progress();
	struct answer a = expect_answer(7, RDMA_MSG);
	assert_int_equal(a.msg_len, 28 + 16 + 4);
	check_payload(a.msg + 28, 0, 13);
	assert_memory_equal(a.msg + 41, "\0\0\0tail", 7);
	check_alive();
}

/* Read chunks. */

static void send_with_read_chunk(uint32_t xid, uint32_t opaque_len, uint32_t chunk_len, unsigned int nsegs)
{
	uint8_t msg[64];
	struct rpcrdma_header h = call_header(xid);
	uint32_t each = chunk_len / nsegs;

	fill_message(msg, sizeof msg, xid);
	put_word(msg + 56, opaque_len);
	for (uint32_t i = 0; i < chunk_len; i++)
		memory[i] = (uint8_t)(i * 11 + 1);
	for (unsigned int i = 0; i < nsegs; i++)
		add_segment(&h.read_chunk, memory + i * each, i + 1 < nsegs ? each : chunk_len - each * i,
			    FMR_REMOTE_READ);
	h.read_pos = 60;
	send_message(&h, msg, sizeof msg);
}

static void check_data(uint32_t len)
{
	assert_int_equal(fx.ncalls, 1);
	const struct rpcrdma_svc_req *req = fx.calls[0];
	assert_int_equal(req->msg_len, 64);
	assert_int_equal(req->data_pos, 60);
	assert_int_equal(req->data_len, len);
	check_payload(req->data, 0, len);
}

static void read_chunk_of_many_segments_is_one_run(void **state)
{
	send_with_read_chunk(5, 10001, 10001, 7);
	progress();
	check_data(10001);
	assert_int_equal(rpcrdma_svc_stats(fx.svc)->reads, 7);
	assert_int_equal(rpcrdma_svc_stats(fx.svc)->read_bytes, 10001);
	assert_int_equal(fake_counts(fx.server)->doorbells, 1);
	answer_short(fx.calls[0]);
	progress();
	struct answer a = expect_answer(5, RDMA_MSG);
	assert_int_equal(a.h.read_chunk.nsegs, 0);
	assert_int_equal(a.invalidated, 0); /* seven keys */
	check_alive();
}

static void padding_in_the_chunk_is_stripped(void **state)
{
	for (uint32_t len = 4096; len < 4100; len++) {
		fx.ncalls = 0;
		send_with_read_chunk(len, len, (len + 3) & ~3u, 1);
		progress();
		check_data(len);
		answer_short(fx.calls[0]);
		progress();
		expect_answer(len, RDMA_MSG);
	}
}

static void padding_in_a_segment_of_its_own(void **state)
{
	send_with_read_chunk(5, 8, 8, 1);
	progress();
	answer_short(fx.calls[0]);
	fx.ncalls = 0;
	progress();
	expect_answer(5, RDMA_MSG);
	send_with_read_chunk(6, 7, 8, 8); /* the last of eight is the padding */
	progress();
	check_data(7);
	answer_short(fx.calls[0]);
	progress();
	expect_answer(6, RDMA_MSG);
	check_alive();
}

/* A length word that does not go with the chunk is for the upper layer to refuse: it gets all of
 * the bytes. */
static void length_word_that_disagrees_is_left_to_the_caller(void **state)
{
	static const uint32_t words[] = {0, 1, 4091, 4097, 5000, UINT32_MAX, UINT32_MAX - 2};
	for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
		fx.ncalls = 0;
		send_with_read_chunk(3, words[i], 4096, 1);
		progress();
		check_data(4096);
		answer_short(fx.calls[0]);
		progress();
		expect_answer(3, RDMA_MSG);
	}
}

static void largest_read_chunk_and_one_more(void **state)
{
	send_with_read_chunk(1, MAX_IO, MAX_IO, 16);
	progress();
	check_data(MAX_IO);
	answer_short(fx.calls[0]);
	progress();
	expect_answer(1, RDMA_MSG);
	send_with_read_chunk(2, MAX_IO + 1, MAX_IO + 1, 1);
	progress();
	expect_error(2, ERR_CHUNK);
	check_alive();
}

static void send_long_call(uint32_t xid, uint32_t len, uint32_t data_at, uint32_t data_bytes)
{
	struct rpcrdma_header h = call_header(xid);
	uint8_t *msg = memory + MAX_IO;

	h.proc = RDMA_NOMSG;
	fill_message(msg, len, xid);
	add_segment(&h.call_chunk, msg, len / 2, FMR_REMOTE_READ);
	add_segment(&h.call_chunk, msg + len / 2, len - len / 2, FMR_REMOTE_READ);
	if (data_bytes) {
		put_word(msg + data_at - 4, data_bytes);
		for (uint32_t i = 0; i < data_bytes; i++)
			memory[i] = (uint8_t)(i * 11 + 1);
		add_segment(&h.read_chunk, memory, data_bytes, FMR_REMOTE_READ);
		h.read_pos = data_at;
	}
	send_message(&h, NULL, 0);
}

static void long_call_is_fetched(void **state)
{
	send_long_call(0xabcd, 9001, 0, 0);
	progress();
	assert_int_equal(fx.ncalls, 1);
	assert_int_equal(fx.calls[0]->msg_len, 9001);
	assert_memory_equal(fx.calls[0]->msg, memory + MAX_IO, 9001);
	assert_null(fx.calls[0]->data);
	answer_short(fx.calls[0]);
	progress();
	expect_answer(0xabcd, RDMA_MSG);
	check_alive();
}

static void long_call_with_a_read_chunk_as_well(void **state)
{
	send_long_call(0xabcd, 6000, 5000, 3333);
	progress();
	assert_int_equal(fx.ncalls, 1);
	assert_int_equal(fx.calls[0]->msg_len, 6000);
	assert_memory_equal(fx.calls[0]->msg, memory + MAX_IO, 6000);
	assert_int_equal(fx.calls[0]->data_pos, 5000);
	assert_int_equal(fx.calls[0]->data_len, 3333);
	check_payload(fx.calls[0]->data, 0, 3333);
	answer_short(fx.calls[0]);
	progress();
	expect_answer(0xabcd, RDMA_MSG);
	check_alive();
}

/* Write chunks. */

static struct rpcrdma_header write_chunk_call(uint32_t xid, uint32_t each, unsigned int nsegs)
{
	struct rpcrdma_header h = call_header(xid);

	memset(memory, 0xee, sizeof memory);
	for (unsigned int i = 0; i < nsegs; i++)
		add_segment(&h.write_chunk, memory + i * (each + 16), each, FMR_REMOTE_WRITE);
	return h;
}

static void send_with_header(const struct rpcrdma_header *h)
{
	uint8_t msg[40];
	fill_message(msg, sizeof msg, h->xid);
	send_message(h, msg, sizeof msg);
}

static void write_chunk_is_filled_in_order(void **state)
{
	struct rpcrdma_header h = write_chunk_call(9, 1000, 4);
	send_with_header(&h);
	progress();
	assert_int_equal(fx.calls[0]->write_chunk_bytes, 4000);
	uint8_t *p = payload_of(fx.calls[0], 4000);
	reply_with(fx.calls[0], 128, p, 2345, "tail", 0);
	progress();
	struct answer a = expect_answer(9, RDMA_MSG);
	assert_int_equal(a.msg_len, 132);
	assert_memory_equal(a.msg, head, 128);
	assert_memory_equal(a.msg + 128, "tail", 4);
	static const uint32_t lengths[4] = {1000, 1000, 345, 0};
	assert_int_equal(a.h.write_chunk.nsegs, 4);
	for (uint32_t i = 0; i < 4; i++) {
		assert_int_equal(a.h.write_chunk.segs[i].length, lengths[i]);
		assert_int_equal(a.h.write_chunk.segs[i].handle, h.write_chunk.segs[i].handle);
		assert_true(a.h.write_chunk.segs[i].offset == h.write_chunk.segs[i].offset);
		check_payload(memory + i * 1016, i * 1000, lengths[i]);
		for (uint32_t j = lengths[i]; j < 1016; j++)
			assert_int_equal(memory[i * 1016 + j], 0xee);
	}
	assert_int_equal(rpcrdma_svc_stats(fx.svc)->writes, 3);
	assert_int_equal(rpcrdma_svc_stats(fx.svc)->write_bytes, 2345);
	assert_int_equal(fake_counts(fx.server)->doorbells, 1);
	check_alive();
}

static void write_chunk_of_a_failed_read_is_unused(void **state)
{
	struct rpcrdma_header h = write_chunk_call(9, 1000, 3);
	send_with_header(&h);
	progress();
	payload_of(fx.calls[0], 3000);
	reply_with(fx.calls[0], 120, NULL, 0, NULL, 0);
	progress();
	struct answer a = expect_answer(9, RDMA_MSG);
	assert_int_equal(a.h.write_chunk.nsegs, 3);
	assert_true(rpcrdma_chunk_bytes(&a.h.write_chunk) == 0);
	assert_int_equal(a.h.write_chunk.segs[2].handle, h.write_chunk.segs[2].handle);
	assert_int_equal(fake_counts(fx.server)->posts[FAKE_WRITE], 0);
	check_alive();
}

static void payload_that_exceeds_the_write_chunk(void **state)
{
	struct rpcrdma_header h = write_chunk_call(9, 1000, 1);
	send_with_header(&h);
	progress();
	assert_null(rpcrdma_svc_payload(fx.calls[0], 1001));
	uint8_t *p = payload_of(fx.calls[0], 1000);
	reply_with(fx.calls[0], 120, p, 1000, NULL, 0);
	progress();
	struct answer a = expect_answer(9, RDMA_MSG);
	assert_int_equal(a.h.write_chunk.segs[0].length, 1000);
	check_alive();
}

static void oversized_write_chunk_is_used_in_part(void **state)
{
	struct rpcrdma_header h = write_chunk_call(9, MAX_IO + 4096, 1);
	send_with_header(&h);
	progress();
	assert_int_equal(fx.calls[0]->write_chunk_bytes, MAX_IO);
	uint8_t *p = payload_of(fx.calls[0], MAX_IO);
	reply_with(fx.calls[0], 120, p, MAX_IO, NULL, 0);
	progress();
	struct answer a = expect_answer(9, RDMA_MSG);
	assert_int_equal(a.h.write_chunk.segs[0].length, MAX_IO);
	check_payload(memory, 0, MAX_IO);
	check_alive();
}

/* Reply chunks. */

static void send_with_reply_chunk(uint32_t xid, uint32_t each, unsigned int nsegs, struct rpcrdma_header *h)
{
	*h = call_header(xid);
	memset(memory, 0xee, sizeof memory);
	for (unsigned int i = 0; i < nsegs; i++)
		add_segment(&h->reply_chunk, memory + i * each, each, FMR_REMOTE_WRITE);
	send_with_header(h);
}

static void short_reply_leaves_the_reply_chunk_unused(void **state)
{
	struct rpcrdma_header h;
	send_with_reply_chunk(3, 4096, 2, &h);
	progress();
	reply_with(fx.calls[0], 200, NULL, 0, NULL, 0);
	progress();
	struct answer a = expect_answer(3, RDMA_MSG);
	assert_int_equal(a.msg_len, 200);
	assert_int_equal(a.h.reply_chunk.nsegs, 2);
	assert_true(rpcrdma_chunk_bytes(&a.h.reply_chunk) == 0);
	check_alive();
}

static void long_reply_goes_to_the_reply_chunk(void **state)
{
	struct rpcrdma_header h;
	send_with_reply_chunk(3, 4096, 4, &h);
	progress();
	assert_int_equal(fx.calls[0]->reply_max, 4 * 4096);
	reply_with(fx.calls[0], 9000, NULL, 0, "tailtail", 0);
	progress();
	struct answer a = expect_answer(3, RDMA_NOMSG);
	assert_int_equal(a.msg_len, 0);
	assert_memory_equal(memory, head, 9000);
	assert_memory_equal(memory + 9000, "tailtail", 8);
	assert_int_equal(memory[9008], 0xee);
	static const uint32_t lengths[4] = {4096, 4096, 816, 0};
	for (uint32_t i = 0; i < 4; i++)
		assert_int_equal(a.h.reply_chunk.segs[i].length, lengths[i]);
	check_alive();
}

static void largest_long_reply_and_one_more(void **state)
{
	struct rpcrdma_header h;
	send_with_reply_chunk(3, 5000, 2, &h);
	progress();
	reply_with(fx.calls[0], fx.calls[0]->reply_max, NULL, 0, NULL, 0);
	progress();
	struct answer a = expect_answer(3, RDMA_NOMSG);
	assert_true(rpcrdma_chunk_bytes(&a.h.reply_chunk) == 10000);
	assert_memory_equal(memory, head, 10000);
	send_with_reply_chunk(4, 5000, 2, &h);
	progress();
	reply_with(fx.calls[1], 10001, NULL, 0, NULL, -EMSGSIZE);
	progress();
	expect_error(4, ERR_CHUNK);
	check_alive();
}

static void payload_in_the_reply_chunk_is_padded(void **state)
{
	static const uint32_t asked[] = {4097, 9001, 12280}; /* the last leaves no room behind it */
	for (size_t i = 0; i < sizeof asked / sizeof asked[0]; i++) {
		struct rpcrdma_header h;
		fx.ncalls = 0;
		send_with_reply_chunk(3, 12288, 1, &h);
		progress();
		uint8_t *p = payload_of(fx.calls[0], asked[i]);
		reply_with(fx.calls[0], 128, p, 4097, "tail", 0);
		progress();
		struct answer a = expect_answer(3, RDMA_NOMSG);
		assert_int_equal(a.h.reply_chunk.segs[0].length, 128 + 4100 + 4);
		assert_memory_equal(memory, head, 128);
		check_payload(memory + 128, 0, 4097);
		assert_memory_equal(memory + 128 + 4097, "\0\0\0tail", 7);
		assert_int_equal(memory[128 + 4100 + 4], 0xee);
	}
	check_alive();
}

static void long_head_behind_a_long_payload(void **state)
{
	struct rpcrdma_header h;
	send_with_reply_chunk(0x03030303, 20000, 1, &h);
	progress();
	uint8_t *p = payload_of(fx.calls[0], 5001);
	reply_with(fx.calls[0], 8000, p, 5001, "tail", 0);
	progress();
	expect_answer(0x03030303, RDMA_NOMSG);
	assert_memory_equal(memory, head, 8000);
	check_payload(memory + 8000, 0, 5001);
	assert_memory_equal(memory + 13001, "\0\0\0tail", 7);
	check_alive();
}

static void write_chunk_and_reply_chunk_together(void **state)
{
	struct rpcrdma_header h = write_chunk_call(9, 3000, 2);
	add_segment(&h.reply_chunk, memory + MAX_IO, 9000, FMR_REMOTE_WRITE);
	send_with_header(&h);
	progress();
	uint8_t *p = payload_of(fx.calls[0], 6000);
	reply_with(fx.calls[0], 7000, p, 5555, NULL, 0);
	progress();
	struct answer a = expect_answer(9, RDMA_NOMSG);
	assert_int_equal(a.h.write_chunk.segs[0].length, 3000);
	assert_int_equal(a.h.write_chunk.segs[1].length, 2555);
	assert_int_equal(a.h.reply_chunk.segs[0].length, 7000);
	check_payload(memory, 0, 3000);
	check_payload(memory + 3016, 3000, 2555);
	assert_memory_equal(memory + MAX_IO, head, 7000);
	check_alive();
}

/* Send with Invalidate. */

static uint32_t invalidated_by(bool server, bool client, unsigned int keys)
{
	struct rpcrdma_svc_params p = svc_params();
	struct rpcrdma_private priv = usual;
	p.remote_invalidate = server;
	priv.remote_invalidate = client;
	open_with(p, &priv);
	struct rpcrdma_header h = call_header(9);
	if (keys)
		add_segment(&h.write_chunk, memory, 100, FMR_REMOTE_WRITE);
	if (keys == 2)
		add_segment(&h.reply_chunk, memory + 100, 100, FMR_REMOTE_WRITE);
	if (keys == 3) { /* two segments, one key */
		h.write_chunk.segs[1] = h.write_chunk.segs[0];
		h.write_chunk.segs[0].length = 50;
		h.write_chunk.segs[1].length = 50;
		h.write_chunk.segs[1].offset += 50;
		h.write_chunk.nsegs = 2;
	}
	send_with_header(&h);
	fx.answer = answer_short;
	progress();
	struct answer a = expect_answer(9, RDMA_MSG);
	uint32_t key = h.write_chunk.nsegs ? h.write_chunk.segs[0].handle : 0;
	assert_true(a.invalidated == 0 || a.invalidated == key);
	assert_true(fake_bound_windows(fx.client) == (keys == 3 ? 1 : keys) - (a.invalidated != 0));
	assert_int_equal(rpcrdma_svc_stats(fx.svc)->invalidates, a.invalidated != 0);
	close_all(NULL);
	return a.invalidated;
}

static void invalidates_exactly_when_both_agree_and_one_key_came(void **state)
{
	assert_int_not_equal(invalidated_by(true, true, 1), 0);
	assert_int_not_equal(invalidated_by(true, true, 3), 0);
	assert_int_equal(invalidated_by(true, true, 0), 0);
	assert_int_equal(invalidated_by(true, true, 2), 0);
	assert_int_equal(invalidated_by(false, true, 1), 0);
	assert_int_equal(invalidated_by(true, false, 1), 0);
}

/* What a client must not send. */

static void send_words(const uint32_t *words, size_t n)
{
	uint8_t buf[INLINE];
	for (size_t i = 0; i < n; i++)
		put_word(buf + 4 * i, words[i]);
	assert_int_equal(fake_send_raw(fx.client, buf, (uint32_t)n * 4, 0), 0);
	progress();
	assert_int_equal(fx.ncalls, 0);
}
#define SEND_WORDS(...)                                                                                      \
	send_words((const uint32_t[]){__VA_ARGS__},                                                          \
		   sizeof((const uint32_t[]){__VA_ARGS__}) / sizeof(uint32_t))

static void messages_too_short_are_discarded(void **state)
{
	uint8_t buf[RPCRDMA_HDR_MIN] = {0};
	for (uint32_t len = 0; len < sizeof buf; len++) {
		assert_int_equal(fake_send_raw(fx.client, buf, len, 0), 0);
		progress();
		expect_no_answer();
	}
	assert_int_equal(rpcrdma_svc_stats(fx.svc)->dropped, sizeof buf);
	check_alive();
}

static void other_versions_get_err_vers(void **state)
{
	uint8_t bytes[64];
	uint32_t key;
	SEND_WORDS(0x77, 2, 32, RDMA_MSG, 0, 0, 0, 0x77);
	static const uint32_t want[] = {0x77, 2, CREDITS, RDMA_ERROR, ERR_VERS, 1, 1};
	assert_int_equal(fake_recv_raw(fx.client, bytes, sizeof bytes, &key), sizeof want);
	for (size_t i = 0; i < 7; i++) {
		uint32_t word;
		memcpy(&word, bytes + 4 * i, 4);
		assert_int_equal(be32toh(word), want[i]);
	}
	check_alive();
}

static void malformed_headers_get_err_chunk(void **state)
{
	SEND_WORDS(1, 1, 32, RDMA_MSGP, 0, 0, 0, 0, 0);
	expect_error(1, ERR_CHUNK);
	SEND_WORDS(2, 1, 32, 77, 0, 0, 0);
	expect_error(2, ERR_CHUNK);
	SEND_WORDS(3, 1, 32, RDMA_NOMSG, 0, 0, 0);
	expect_error(3, ERR_CHUNK);
	SEND_WORDS(4, 1, 32, RDMA_MSG, 1, 8, 1, 1, 0, 0);
	expect_error(4, ERR_CHUNK);
	SEND_WORDS(5, 1, 32, RDMA_MSG, 0, 1, 0, 0, 0, 5);
	expect_error(5, ERR_CHUNK);
	assert_int_equal(rpcrdma_svc_stats(fx.svc)->errors_sent, 5);
	check_alive();
}

static void xid_that_does_not_match_gets_err_chunk(void **state)
{
	SEND_WORDS(6, 1, 32, RDMA_MSG, 0, 0, 0, 7, 0);
	expect_error(6, ERR_CHUNK);
	SEND_WORDS(7, 1, 32, RDMA_MSG, 0, 0, 0);
	expect_error(7, ERR_CHUNK);
	struct rpcrdma_header h = call_header(8);
	h.proc = RDMA_NOMSG;
	memset(memory, 0, 100);
	add_segment(&h.call_chunk, memory, 100, FMR_REMOTE_READ);
	send_message(&h, NULL, 0);
	progress();
	assert_int_equal(fx.ncalls, 0);
	expect_error(8, ERR_CHUNK);
	h = call_header(9);
	h.proc = RDMA_NOMSG;
	add_segment(&h.call_chunk, memory, 3, FMR_REMOTE_READ);
	send_message(&h, NULL, 0);
	progress();
	expect_error(9, ERR_CHUNK);
	check_alive();
}

static void position_behind_the_message_gets_err_chunk(void **state)
{
	SEND_WORDS(1, 1, 32, RDMA_MSG, 1, 8, 5, 8, 0, 0, 0, 0, 0, 1);
	expect_error(1, ERR_CHUNK);
	SEND_WORDS(1, 1, 32, RDMA_MSG, 1, 0xfffffffc, 5, 8, 0, 0, 0, 0, 0, 1);
	expect_error(1, ERR_CHUNK);
	assert_int_equal(fake_counts(fx.server)->posts[FAKE_READ], 0);
	check_alive();
}

static void chunks_larger_than_any_call_get_err_chunk(void **state)
{
	SEND_WORDS(1, 1, 32, RDMA_MSG, 1, 4, 5, UINT32_MAX, 0, 0, 0, 0, 0, 1);
	expect_error(1, ERR_CHUNK);
	SEND_WORDS(2, 1, 32, RDMA_NOMSG, 1, 0, 5, UINT32_MAX, 0, 0, 0, 0, 0);
	expect_error(2, ERR_CHUNK);
	SEND_WORDS(3, 1, 32, RDMA_MSG, 1, 4, 5, 0x80000000, 0, 0, 1, 4, 5, 0x80000000, 0, 0, 0, 0, 0, 3);
	expect_error(3, ERR_CHUNK);
	check_alive();
}

static void done_and_errors_are_discarded(void **state)
{
	SEND_WORDS(1, 1, 32, RDMA_DONE, 0, 0, 0);
	SEND_WORDS(1, 1, 32, RDMA_ERROR, ERR_VERS, 1, 1);
	SEND_WORDS(1, 1, 32, RDMA_ERROR, 17, 1, 1);
	expect_no_answer();
	assert_int_equal(rpcrdma_svc_stats(fx.svc)->dropped, 3);
	check_alive();
}

static void every_prefix_of_a_large_header_is_survived(void **state)
{
	struct rpcrdma_header h = call_header(1);
	uint8_t buf[INLINE];
	for (int i = 0; i < 4; i++) {
		add_segment(&h.read_chunk, memory + i * 8, 8, FMR_REMOTE_READ);
		add_segment(&h.write_chunk, memory + i * 8, 8, FMR_REMOTE_WRITE);
		add_segment(&h.reply_chunk, memory + i * 8, 8, FMR_REMOTE_WRITE);
	}
	h.read_pos = 8;
	struct xdr_writer w = xdr_writer(buf, sizeof buf);
	rpcrdma_header_encode(&w, &h);
	for (uint32_t len = RPCRDMA_HDR_MIN; len < xdr_written(&w); len++) {
		assert_int_equal(fake_send_raw(fx.client, buf, len, 0), 0);
		progress();
		expect_error(1, ERR_CHUNK);
	}
	assert_int_equal(fx.ncalls, 0);
	check_alive();
}

/* A legal message with every kind of chunk, in which a few words were changed, cut off somewhere. */
static uint32_t next_random(uint32_t *seed)
{
	*seed = *seed * 1664525 + 1013904223;
	return *seed >> 8;
}

static uint32_t scramble(uint8_t *buf, uint32_t *seed)
{
	static const uint32_t words[] = {0,  1,	 2,	     3,		 4,	     16,
					 17, 60, 0x7fffffff, 0x80000000, 0xfffffffc, UINT32_MAX};
	struct rpcrdma_header h = call_header(1);

	for (uint32_t n = next_random(seed) % 4; n; n--) {
		add_segment(&h.read_chunk, memory, 2048, FMR_REMOTE_READ);
		add_segment(&h.write_chunk, memory + 4096, 2048, FMR_REMOTE_WRITE);
		add_segment(&h.reply_chunk, memory + 8192, 8192, FMR_REMOTE_WRITE);
		if (next_random(seed) & 1) {
			h.proc = RDMA_NOMSG;
			add_segment(&h.call_chunk, memory, 2048, FMR_REMOTE_READ);
		}
	}
	h.read_pos = 8;
	struct xdr_writer w = xdr_writer(buf, INLINE);
	rpcrdma_header_encode(&w, &h);
	fill_message(xdr_reserve(&w, 64), 64, 1);
	assert_false(w.stuck);
	uint32_t len = (uint32_t)xdr_written(&w);
	for (uint32_t n = next_random(seed) % 3; n; n--)
		put_word(buf + next_random(seed) % (len / 4) * 4, words[next_random(seed) % 12]);
	return next_random(seed) % 4 ? len : next_random(seed) % (len + 1);
}

static void answer_with_all_that_fits(struct rpcrdma_svc_req *req)
{
	uint32_t len = req->write_chunk_bytes;
	uint32_t sum = 0; /* reads all that it was given: a sanitizer sees whether it may */
	for (uint32_t i = 0; i < req->msg_len; i++)
		sum += req->msg[i];
	for (uint32_t i = 0; i < req->data_len; i++)
		sum += req->data[i];
	assert_true(sum < UINT32_MAX);
	assert_true(!req->data || req->data_pos <= req->msg_len);
	reply_with(req, req->reply_max, len ? payload_of(req, len) : NULL, len, NULL, 0);
}

static void scrambled_messages_are_survived(void **state)
{
	uint8_t buf[INLINE], answer[INLINE];
	uint32_t seed = 1, key, answered = 0, ended = 0;

	for (int turn = 0; turn < 4000; turn++) {
		uint32_t len = scramble(buf, &seed);
		fx.ncalls = 0;
		fx.answer = answer_with_all_that_fits;
		assert_int_equal(fake_send_raw(fx.client, buf, len, 0), 0);
		progress();
		while (fake_recv_raw(fx.client, answer, sizeof answer, &key) >= 0)
			answered++;
		if (!rpcrdma_svc_closed(fx.svc) && turn % 20)
			continue;
		ended += rpcrdma_svc_closed(fx.svc);
		if (!rpcrdma_svc_closed(fx.svc))
			check_alive();
		close_all(state);
		open_with(svc_params(), &usual);
	}
	assert_true(answered > 2000);
	assert_true(ended > 50); /* the keys that were scrambled */
}

static void more_calls_than_credits_end_the_connection(void **state)
{
	for (uint32_t xid = 0; xid < CREDITS; xid++)
		send_short(xid);
	progress();
	assert_int_equal(fx.ncalls, CREDITS);
	assert_false(rpcrdma_svc_closed(fx.svc));
	send_short(CREDITS);
	progress();
	assert_int_equal(fx.ncalls, CREDITS);
	assert_true(rpcrdma_svc_closed(fx.svc));
	assert_int_equal(rpcrdma_svc_endpoint(fx.svc)->error, -EPROTO);
	assert_int_not_equal(rpcrdma_svc_endpoint(fx.svc)->why[0], 0);
	assert_int_equal(fx.client->state, RDMA_EP_CLOSED);
}

static void a_reply_returns_its_credit_before_its_send_completes(void **state)
{
	fake_hold(fx.server, 1 << RDMA_WC_SEND);
	fx.answer = answer_short;
	for (uint32_t xid = 0; xid < CREDITS; xid++)
		send_short(xid);
	progress();
	for (uint32_t xid = 0; xid < CREDITS; xid++)
		expect_answer(xid, RDMA_MSG);
	send_short(77); /* legal: all are answered. It waits for a completion. */
	progress();
	assert_int_equal(fx.ncalls, CREDITS);
	assert_false(rpcrdma_svc_closed(fx.svc));
	fake_hold(fx.server, 0);
	progress();
	expect_answer(77, RDMA_MSG);
	check_alive();
}

static void dropped_call_gets_no_answer_and_costs_nothing(void **state)
{
	for (uint32_t i = 0; i < 3 * CREDITS; i++) {
		fx.ncalls = 0;
		send_with_read_chunk(i, MAX_IO, MAX_IO, 2);
		progress();
		assert_int_equal(fx.ncalls, 1);
		rpcrdma_svc_drop(fx.calls[0]);
	}
	progress();
	expect_no_answer();
	check_alive();
}

/* Memory. */

/* An arena that holds exactly two of the largest READs at a time. */
static void open_with_two_slots(void)
{
	struct rpcrdma_svc_params p = svc_params();
	p.arena_bytes = 2 * (MAX_IO + 4096);
	open_with(p, &usual);
}

static void send_read(uint32_t xid)
{
	struct rpcrdma_header h = call_header(xid);
	add_segment(&h.write_chunk, memory + (xid & 1) * MAX_IO, MAX_IO, FMR_REMOTE_WRITE);
	send_with_header(&h);
}

static void answer_read(struct rpcrdma_svc_req *req)
{
	uint8_t *p = payload_of(req, MAX_IO);
	reply_with(req, 128, p, MAX_IO, NULL, 0);
}

static void calls_wait_in_order_for_memory(void **state)
{
	open_with_two_slots();
	for (uint32_t xid = 1; xid <= 5; xid++)
		send_read(xid);
	progress();
	assert_int_equal(fx.ncalls, 2);
	send_short(6); /* needs no memory: overtakes */
	progress();
	assert_int_equal(fx.ncalls, 3);
	assert_int_equal(fx.xids[2], 6);

	fake_hold(fx.server, 1 << RDMA_WC_SEND);
	answer_read(fx.calls[0]);
	progress();
	assert_int_equal(fx.ncalls, 3); /* the memory is still the device's */
	expect_answer(1, RDMA_MSG);
	fake_hold(fx.server, 0);
	progress();
	assert_int_equal(fx.ncalls, 4);
	assert_int_equal(fx.xids[3], 3);

	fx.answer = answer_read;
	answer_read(fx.calls[1]);
	answer_short(fx.calls[2]);
	answer_read(fx.calls[3]);
	progress();
	assert_int_equal(fx.ncalls, 6);
	assert_int_equal(fx.xids[4], 4);
	assert_int_equal(fx.xids[5], 5);
	static const uint32_t order[] = {2, 6, 3, 4, 5};
	for (size_t i = 0; i < 5; i++)
		expect_answer(order[i], RDMA_MSG);
	check_alive();
}

/* Each needs both slots, one for what it sends and one for what it gets: taken one by one, all would wait. */
static void calls_that_need_two_runs_do_not_deadlock(void **state)
{
	open_with_two_slots();
	for (uint32_t xid = 0; xid < CREDITS; xid++) {
		struct rpcrdma_header h = call_header(xid);
		uint8_t msg[64];
		fill_message(msg, sizeof msg, xid);
		add_segment(&h.read_chunk, memory, MAX_IO, FMR_REMOTE_READ);
		h.read_pos = 64;
		add_segment(&h.write_chunk, memory + MAX_IO, MAX_IO, FMR_REMOTE_WRITE);
		send_message(&h, msg, sizeof msg);
	}
	fx.answer = answer_read;
	progress();
	assert_int_equal(fx.ncalls, CREDITS);
	for (uint32_t xid = 0; xid < CREDITS; xid++)
		expect_answer(xid, RDMA_MSG);
	check_alive();
}

static void fetched_data_is_free_at_the_reply(void **state)
{
	open_with_two_slots();
	fake_hold(fx.server, 1 << RDMA_WC_SEND);
	for (uint32_t xid = 1; xid <= CREDITS; xid++) {
		fx.ncalls = 0;
		send_with_read_chunk(xid, MAX_IO, MAX_IO, 1);
		progress();
		check_data(MAX_IO);
		answer_short(fx.calls[0]);
		progress();
		expect_answer(xid, RDMA_MSG);
	}
	fake_hold(fx.server, 0);
	check_alive();
}

static void overtaking_leaves_slots_for_who_waits(void **state)
{
	fake_limits.max_send = 40;
	open_with(svc_params(), &usual);
	for (uint32_t xid = 1; xid <= 3; xid++) {
		struct rpcrdma_header h = write_chunk_call(xid, 64, 16);
		send_with_header(&h); /* 17 slots each: the third waits */
	}
	send_short(4);
	progress();
	assert_int_equal(fx.ncalls, 2);
	rpcrdma_svc_drop(fx.calls[0]);
	progress();
	assert_int_equal(fx.ncalls, 4);
	assert_int_equal(fx.xids[2], 3);
	assert_int_equal(fx.xids[3], 4);
	for (unsigned int i = 1; i < 4; i++)
		rpcrdma_svc_drop(fx.calls[i]);
	check_alive();
}

static void call_that_can_never_fit_is_refused(void **state)
{
	open_with_two_slots();
	struct rpcrdma_header h = call_header(1);
	h.proc = RDMA_NOMSG;
	fill_message(memory, MAX_IO, 1);
	add_segment(&h.call_chunk, memory, MAX_IO, FMR_REMOTE_READ);
	add_segment(&h.read_chunk, memory, MAX_IO, FMR_REMOTE_READ);
	h.read_pos = 64;
	add_segment(&h.write_chunk, memory, MAX_IO, FMR_REMOTE_WRITE);
	send_read(3);
	progress();
	send_message(&h, NULL, 0);
	send_read(5);
	progress();
	assert_int_equal(fx.ncalls, 1); /* the others wait for the first one */
	fx.answer = answer_read;
	answer_read(fx.calls[0]);
	progress();
	expect_answer(3, RDMA_MSG);
	expect_error(1, ERR_CHUNK);
	expect_answer(5, RDMA_MSG);
	check_alive();
}

static void answer_whole_chunk(struct rpcrdma_svc_req *req)
{
	uint32_t len = req->write_chunk_bytes;
	reply_with(req, 100, payload_of(req, len), len, NULL, 0);
}

static void send_queue_is_never_overrun(void **state)
{
	fake_limits.max_send = 40;
	open_with(svc_params(), &usual);
	for (int turn = 0; turn < 5; turn++) {
		fx.ncalls = 0;
		for (uint32_t xid = 0; xid < CREDITS; xid++) {
			struct rpcrdma_header h = write_chunk_call(xid, 64, xid & 1 ? 16 : 1);
			if (xid & 1)
				for (unsigned int i = 0; i < 16; i++)
					add_segment(&h.read_chunk, memory + 4096 + i * 64, 64,
						    FMR_REMOTE_READ);
			h.read_pos = 40;
			send_with_header(&h);
		}
		fx.answer = answer_whole_chunk;
		fake_hold(fx.server, 1 << RDMA_WC_SEND | 1 << RDMA_WC_READ);
		progress();
		assert_true(fx.ncalls < CREDITS);
		fake_hold(fx.server, 0);
		progress();
		assert_int_equal(fx.ncalls, CREDITS);
		for (uint32_t i = 0; i < CREDITS; i++) {
			struct answer a;
			assert_int_equal(receive(&a), 0);
			assert_int_equal(a.h.proc, RDMA_MSG);
		}
	}
	assert_true(fake_counts(fx.server)->max_queued <= 40);
	check_alive();
}

/* The end of a connection. */

static void replies_after_the_end_have_no_effect(void **state)
{
	send_short(1);
	send_read(2);
	send_with_read_chunk(3, 100, 100, 1);
	progress();
	assert_int_equal(fx.ncalls, 3);
	uint8_t *p = payload_of(fx.calls[1], 100);
	fake_drop(fx.server, -ETIMEDOUT, "the cable");
	progress();
	assert_true(rpcrdma_svc_closed(fx.svc));
	assert_int_equal(rpcrdma_svc_endpoint(fx.svc)->error, -ETIMEDOUT);
	assert_string_equal(rpcrdma_svc_endpoint(fx.svc)->why, "the cable");
	assert_int_equal(rpcrdma_svc_next_timeout(fx.svc), UINT64_MAX); /* nothing will come of a turn */
	reply_with(fx.calls[0], 24, NULL, 0, NULL, 0);
	reply_with(fx.calls[1], 24, p, 100, NULL, 0);
	rpcrdma_svc_drop(fx.calls[2]);
	assert_false(rpcrdma_svc_progress(fx.svc, 0));
	assert_string_equal(rpcrdma_svc_endpoint(fx.svc)->why, "the cable");
	assert_int_equal(rpcrdma_svc_stats(fx.svc)->replies, 0);
}

static void calls_may_be_held_when_it_is_destroyed(void **state)
{
	open_with_two_slots();
	fake_hold(fx.server, 1 << RDMA_WC_READ | 1 << RDMA_WC_SEND);
	send_short(1);
	send_with_read_chunk(2, 100, 100, 1); /* reading */
	for (uint32_t xid = 3; xid < 6; xid++)
		send_read(xid); /* called, waiting */
	send_short(7);
	progress();
	answer_short(fx.calls[0]); /* sending */
	progress();
	assert_true(fx.ncalls >= 2);
}

static void read_of_a_bad_key_ends_the_connection(void **state)
{
	SEND_WORDS(1, 1, 32, RDMA_MSG, 1, 4, 0xbad, 100, 0, 0, 0, 0, 0, 1);
	assert_true(rpcrdma_svc_closed(fx.svc));
	assert_int_equal(fx.ncalls, 0);
}

static void write_to_a_bad_key_ends_the_connection(void **state)
{
	struct rpcrdma_header h = call_header(1);
	add_segment(&h.write_chunk, memory, 100, FMR_REMOTE_WRITE);
	h.write_chunk.segs[0].length = 101; /* one more than there is */
	send_with_header(&h);
	progress();
	uint8_t *p = payload_of(fx.calls[0], 101);
	reply_with(fx.calls[0], 100, p, 101, NULL, 0);
	progress();
	assert_true(rpcrdma_svc_closed(fx.svc));
	expect_no_answer();
}

/* A call that uses everything; the n-th request of it fails. Gives whether the connection survived. */
static bool survives_failure(unsigned int post, unsigned int doorbell, int kind)
{
	open_with(svc_params(), &usual);
	if (post)
		fake_fail_post(fx.server, post, -EIO);
	if (doorbell)
		fake_fail_doorbell(fx.server, doorbell, -EIO);
	if (kind >= 0)
		fake_fail_completion(fx.server, (enum fake_kind)kind, 1, -EIO);
	struct rpcrdma_header h = call_header(1);
	h.proc = RDMA_NOMSG;
	fill_message(memory, 5000, 1);
	add_segment(&h.call_chunk, memory, 5000, FMR_REMOTE_READ);
	add_segment(&h.read_chunk, memory + 5000, 1000, FMR_REMOTE_READ);
	h.read_pos = 64;
	add_segment(&h.write_chunk, memory + MAX_IO, 500, FMR_REMOTE_WRITE);
	add_segment(&h.write_chunk, memory + MAX_IO + 500, 500, FMR_REMOTE_WRITE);
	add_segment(&h.reply_chunk, memory + 2 * MAX_IO, 9000, FMR_REMOTE_WRITE);
	send_message(&h, NULL, 0);
	progress();
	if (fx.ncalls) {
		uint8_t *p = payload_of(fx.calls[0], 1000);
		reply_with(fx.calls[0], 8000, p, 1000, "tail", 0);
		progress();
	}
	bool alive = !rpcrdma_svc_closed(fx.svc);
	if (alive) {
		expect_answer(1, RDMA_NOMSG);
		fake_fail_post(fx.server, 0, 0);
		check_alive();
	} else {
		expect_no_answer();
		assert_int_equal(rpcrdma_svc_endpoint(fx.svc)->error, -EIO);
		assert_int_not_equal(rpcrdma_svc_endpoint(fx.svc)->why[0], 0);
		if (doorbell) /* what the device said stands */
			assert_string_equal(rpcrdma_svc_endpoint(fx.svc)->why, "the doorbell failed");
	}
	close_all(NULL);
	return alive;
}

static void any_failed_post_ends_the_connection_cleanly(void **state)
{
	/* two RDMA Reads, two RDMA Writes to the write chunk, two to the reply chunk, a Send */
	for (unsigned int n = 1; n <= 7; n++)
		assert_false(survives_failure(n, 0, -1));
	assert_true(survives_failure(8, 0, -1));
	assert_false(survives_failure(0, 1, -1));
	assert_false(survives_failure(0, 2, -1));
	assert_true(survives_failure(0, 0, -1));
}

static void any_failed_completion_ends_the_connection_cleanly(void **state)
{
	assert_false(survives_failure(0, 0, FAKE_READ));
	assert_false(survives_failure(0, 0, FAKE_WRITE));
	assert_false(survives_failure(0, 0, FAKE_SEND));
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, open_usual, close_all)
#define TEST_OWN_SETUP(f) cmocka_unit_test_setup_teardown(f, setup_none, close_all)

int main(void)
{
	static const struct CMUnitTest tests[] = {
		TEST(accepts_and_says_what_it_can),
		TEST_OWN_SETUP(bad_parameters_close_the_endpoint),
		TEST_OWN_SETUP(buffers_of_any_size_stay_inside_stripes),
		TEST_OWN_SETUP(small_device_means_fewer_credits),
		TEST_OWN_SETUP(too_small_a_device_ends_it),
		TEST(short_call_and_reply),
		TEST(replies_share_a_doorbell),
		TEST(largest_inline_reply_fits_and_one_more_does_not),
		TEST_OWN_SETUP(client_without_private_data_gets_at_most_1024),
		TEST(payload_without_write_chunk_goes_inline_with_padding),
		TEST(read_chunk_of_many_segments_is_one_run),
		TEST(padding_in_the_chunk_is_stripped),
		TEST(padding_in_a_segment_of_its_own),
		TEST(length_word_that_disagrees_is_left_to_the_caller),
		TEST(largest_read_chunk_and_one_more),
		TEST(long_call_is_fetched),
		TEST(long_call_with_a_read_chunk_as_well),
		TEST(write_chunk_is_filled_in_order),
		TEST(write_chunk_of_a_failed_read_is_unused),
		TEST(payload_that_exceeds_the_write_chunk),
		TEST(oversized_write_chunk_is_used_in_part),
		TEST(short_reply_leaves_the_reply_chunk_unused),
		TEST(long_reply_goes_to_the_reply_chunk),
		TEST(largest_long_reply_and_one_more),
		TEST(payload_in_the_reply_chunk_is_padded),
		TEST(long_head_behind_a_long_payload),
		TEST(write_chunk_and_reply_chunk_together),
		TEST_OWN_SETUP(invalidates_exactly_when_both_agree_and_one_key_came),
		TEST(messages_too_short_are_discarded),
		TEST(other_versions_get_err_vers),
		TEST(malformed_headers_get_err_chunk),
		TEST(xid_that_does_not_match_gets_err_chunk),
		TEST(position_behind_the_message_gets_err_chunk),
		TEST(chunks_larger_than_any_call_get_err_chunk),
		TEST(done_and_errors_are_discarded),
		TEST(every_prefix_of_a_large_header_is_survived),
		TEST(scrambled_messages_are_survived),
		TEST(more_calls_than_credits_end_the_connection),
		TEST(a_reply_returns_its_credit_before_its_send_completes),
		TEST(dropped_call_gets_no_answer_and_costs_nothing),
		TEST_OWN_SETUP(calls_wait_in_order_for_memory),
		TEST_OWN_SETUP(calls_that_need_two_runs_do_not_deadlock),
		TEST_OWN_SETUP(fetched_data_is_free_at_the_reply),
		TEST_OWN_SETUP(overtaking_leaves_slots_for_who_waits),
		TEST_OWN_SETUP(call_that_can_never_fit_is_refused),
		TEST_OWN_SETUP(send_queue_is_never_overrun),
		TEST(replies_after_the_end_have_no_effect),
		TEST_OWN_SETUP(calls_may_be_held_when_it_is_destroyed),
		TEST(read_of_a_bad_key_ends_the_connection),
		TEST(write_to_a_bad_key_ends_the_connection),
		TEST_OWN_SETUP(any_failed_post_ends_the_connection_cleanly),
		TEST_OWN_SETUP(any_failed_completion_ends_the_connection_cleanly),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
