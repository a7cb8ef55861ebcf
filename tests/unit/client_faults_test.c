/* SPDX-License-Identifier: MIT
 *
 * The responder over softiwarp against a hostile or broken client: the scripted peer of tests/peer, where
 * what matters is what is on the wire. (Headers and chunk lists that are wrong, message by message:
 * responder_test.) Each case is one fault, and its name says what has to come of it. Whatever it is, it costs
 * the client its connection at most: the next one is served, and nothing of the last one is left.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "header.h"
#include "peer.h"
#include "responder.h"
#include "softiwarp/softiwarp.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#define CREDITS 4u
#define INLINE 4096u
#define MAX_IO (1u << 20)
#define CALL_BYTES 40u	/* of an RPC message: its XID and zeros */
#define READ_BYTES 500u /* of a read chunk */
#define CLIENT_STAG 0x5a5a5a5au

struct world {
	struct rdma_listener *listener;
	struct sockaddr_in addr;
	int epoll_fd;
	struct rpcrdma_svc *svc;
	struct peer peer;
	bool hold; /* calls are not answered, but kept in held */
	struct rpcrdma_svc_req *held;
	unsigned int ncalls;
	uint32_t data_len, data_sum; /* of the latest call's read chunk */
	uint32_t xid;
	struct peer_fpdu fpdu;
	uint8_t message[8192];
};

/* ---- the server ---- */

static void answer(struct rpcrdma_svc_req *req)
{
	uint8_t head[24] = {0};
	struct rpcrdma_svc_reply reply = {.head = head, .head_len = sizeof head};

	memcpy(head, req->msg, 4);
	if (req->write_chunk_bytes) {
		uint8_t *payload = rpcrdma_svc_payload(req, req->write_chunk_bytes);
		assert_non_null(payload);
		memset(payload, 'p', req->write_chunk_bytes);
		reply.payload = payload;
		reply.payload_len = req->write_chunk_bytes;
	}
	assert_int_equal(rpcrdma_svc_reply(req, &reply), 0);
}

static void on_call(void *ctx, struct rpcrdma_svc_req *req)
{
	struct world *w = ctx;

	w->ncalls++;
	w->data_len = req->data ? req->data_len : 0;
	w->data_sum = 0;
	for (uint32_t i = 0; i < w->data_len; i++)
		w->data_sum += req->data[i];
	if (w->hold)
		w->held = req;
	else
		answer(req);
}

static void pump(void *arg)
{
	struct world *w = arg;
	struct rdma_ep_params ep = {.epoll_fd = w->epoll_fd};
	struct rpcrdma_svc_params params = {.credits = CREDITS,
					    .inline_bytes = INLINE,
					    .arena_bytes = 8 * MAX_IO,
					    .max_io_bytes = MAX_IO,
					    .remote_invalidate = true,
					    .on_call = on_call,
					    .ctx = w};

	if (!w->svc && softiwarp_device.listener_accept(w->listener, &ep, NULL, &params.ep) == 0)
		assert_int_equal(rpcrdma_svc_create(&params, &w->svc), 0);
	for (int i = 0; w->svc && i < 10; i++)
		rpcrdma_svc_progress(w->svc, 1);
}

#define until(w, condition)                                                                                  \
	do {                                                                                                 \
		for (int i_ = 0; !(condition); i_++) {                                                       \
			struct epoll_event event_;                                                           \
			pump(w);                                                                             \
			if (i_ == 5000)                                                                      \
				fail_msg("never: %s", #condition);                                           \
			if (!(condition))                                                                    \
				epoll_wait((w)->epoll_fd, &event_, 1, 1);                                    \
		}                                                                                            \
	} while (0)

static const uint8_t k4[] = {0xf6, 0xab, 0x0e, 0x18, 1, 1, 3, 3}; /* RFC 8797 §4 */

static void join(struct world *w)
{
	assert_int_equal(peer_join_mpa(&w->peer, &w->addr, k4, sizeof k4), 0);
	until(w, w->svc);
}

static int setup(void **state)
{
	struct world *w = calloc(1, sizeof *w);

	w->addr = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	assert_int_equal(softiwarp_device.listen((struct sockaddr *)&w->addr, sizeof w->addr, &w->listener),
			 0);
	w->addr.sin_port = htons(softiwarp_device.listener_port(w->listener));
	w->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	w->xid = 1000;
	peer_init(&w->peer, pump, w);
	join(w);
	*state = w;
	return 0;
}

static int teardown(void **state)
{
	struct world *w = *state;

	rpcrdma_svc_destroy(w->svc);
	softiwarp_device.listener_close(w->listener);
	peer_close(&w->peer);
	close(w->epoll_fd);
	free(w);
	return 0;
}

/* ---- the client ---- */

static struct rpcrdma_header call_header(struct world *w)
{
	return (struct rpcrdma_header){.xid = ++w->xid, .vers = 1, .credits = 32, .proc = RDMA_MSG};
}

/* With a read chunk that the server fetches before the call is one. */
static struct rpcrdma_header write_header(struct world *w)
{
	struct rpcrdma_header h = call_header(w);

	h.read_pos = CALL_BYTES;
	h.read_chunk.nsegs = 1;
	h.read_chunk.segs[0] = (struct rpcrdma_segment){.handle = CLIENT_STAG, .length = READ_BYTES};
	return h;
}

static uint32_t build(struct world *w, const struct rpcrdma_header *h, uint32_t rpc_bytes)
{
	struct xdr_writer xw = xdr_writer(w->message, sizeof w->message);

	rpcrdma_header_encode(&xw, h);
	xdr_put_u32(&xw, h->xid);
	memset(xdr_reserve(&xw, rpc_bytes - 4), 0, rpc_bytes - 4);
	assert_false(xw.stuck);
	return (uint32_t)xdr_written(&xw);
}

static void call(struct world *w, const struct rpcrdma_header *h)
{
	uint32_t len = build(w, h, CALL_BYTES);

	assert_int_equal(peer_send(&w->peer, w->message, len, 0), 0);
	pump(w);
}

static void expect_reply(struct world *w)
{
	struct rpcrdma_header h;
	int len = peer_recv_send(&w->peer, w->message, sizeof w->message);

	assert_true(len > 0);
	struct xdr_reader r = xdr_reader(w->message, (size_t)len);
	assert_int_equal(rpcrdma_header_decode(&r, true, &h), 0);
	assert_int_equal(h.xid, w->xid);
	assert_int_equal(h.proc, RDMA_MSG);
}

static void still_serves(struct world *w)
{
	struct rpcrdma_header h = call_header(w);

	call(w, &h);
	expect_reply(w);
}

/* The connection is over for the server, and the next one is served. */
static void next_one_is_served(struct world *w)
{
	until(w, rpcrdma_svc_closed(w->svc));
	rpcrdma_svc_destroy(w->svc);
	w->svc = NULL;
	w->held = NULL;
	w->hold = false;
	join(w);
	still_serves(w);
}

static void expect_terminate(struct world *w, unsigned int layer, unsigned int type, unsigned int code)
{
	struct peer_terminate t = {0};

	assert_int_equal(peer_recv_terminate(&w->peer, &t), 0);
	if (t.layer != layer || t.type != type || t.code != code)
		fail_msg("Terminate %u/%u/%#x, expected %u/%u/%#x", t.layer, t.type, t.code, layer, type,
			 code);
}

static uint32_t get_be32(const void *at)
{
	uint32_t word;

	memcpy(&word, at, sizeof word);
	return ntohl(word);
}

/* The server's question for the read chunk; the STag that the answer has to go to. */
static uint32_t expect_read_request(struct world *w)
{
	const uint8_t *body = w->fpdu.received;

	assert_int_equal(peer_recv_fpdu(&w->peer, &w->fpdu), 0);
	assert_int_equal(w->fpdu.opcode, PEER_READ_REQUEST);
	assert_int_equal(w->fpdu.len, 28);
	assert_int_equal(get_be32(body + 12), READ_BYTES);
	assert_int_equal(get_be32(body + 16), CLIENT_STAG);
	return get_be32(body);
}

/* A Read Response of len bytes, encoded. */
static size_t read_response(struct world *w, uint32_t stag, uint32_t len, uint8_t *frame)
{
	uint8_t ones[READ_BYTES + 1];

	memset(ones, 1, sizeof ones);
	peer_fpdu(&w->fpdu, &w->peer, PEER_READ_RESPONSE, ones, len);
	w->fpdu.stag = stag;
	return peer_encode_fpdu(&w->peer, &w->fpdu, frame);
}

static void respond(struct world *w, uint32_t stag, uint32_t len)
{
	uint8_t frame[1024];

	assert_int_equal(peer_send_raw(&w->peer, frame, read_response(w, stag, len, frame)), 0);
	pump(w);
}

static uint32_t start_write(struct world *w)
{
	struct rpcrdma_header h = write_header(w);

	call(w, &h);
	return expect_read_request(w);
}

/* ---- what is right ---- */

static void read_chunk_is_fetched_and_its_call_served(void **state)
{
	struct world *w = *state;
	uint32_t sink = start_write(w);

	assert_int_equal(w->ncalls, 0);
	respond(w, sink, READ_BYTES);
	expect_reply(w);
	assert_int_equal(w->data_len, READ_BYTES);
	assert_int_equal(w->data_sum, READ_BYTES);
}

/* ---- the end at any point ---- */

static void connection_closed_at_every_byte_of_a_call_costs_nobody_else(void **state)
{
	struct world *w = *state;
	uint8_t frame[512];
	size_t whole = 1;

	for (size_t cut = 0; cut < whole; cut++) {
		struct rpcrdma_header h = call_header(w);
		unsigned int before = w->ncalls;
		uint32_t len = build(w, &h, CALL_BYTES);
		peer_fpdu(&w->fpdu, &w->peer, PEER_SEND, w->message, len);
		whole = peer_encode_fpdu(&w->peer, &w->fpdu, frame);
		assert_int_equal(peer_send_raw(&w->peer, frame, cut), 0);
		peer_hang_up(&w->peer);
		next_one_is_served(w);
		assert_int_equal(w->ncalls, before + 1); /* the next one's: half a call is none */
	}
	assert_true(whole > CALL_BYTES);
}

static void connection_closed_at_every_byte_of_a_read_response_serves_no_call(void **state)
{
	struct world *w = *state;
	uint8_t frame[1024];
	size_t whole = 1;

	for (size_t cut = 0; cut < whole; cut += 3) {
		unsigned int before = w->ncalls;
		whole = read_response(w, start_write(w), READ_BYTES, frame);
		assert_int_equal(peer_send_raw(&w->peer, frame, cut), 0);
		peer_hang_up(&w->peer);
		next_one_is_served(w);
		assert_int_equal(w->ncalls, before + 1);
	}
	assert_true(whole > READ_BYTES);
}

static void send_terminate(struct world *w)
{
	static const uint8_t words[] = {0x02, 0x07, 0,
					0}; /* RFC 5040 §4.8: catastrophic error of this stream */

	peer_fpdu(&w->fpdu, &w->peer, PEER_TERMINATE, words, sizeof words);
	assert_int_equal(peer_send_fpdu(&w->peer, &w->fpdu), 0);
}

static void terminate_at_rest_costs_nobody_else(void **state)
{
	send_terminate(*state);
	next_one_is_served(*state);
}

static void terminate_instead_of_a_read_response_serves_no_call(void **state)
{
	struct world *w = *state;

	start_write(w);
	send_terminate(w);
	until(w, rpcrdma_svc_closed(w->svc));
	assert_int_equal(w->ncalls, 0);
	next_one_is_served(w);
}

static void answer_to_a_client_that_has_gone_goes_nowhere(void **state)
{
	struct world *w = *state;
	struct rpcrdma_header h = call_header(w);

	w->hold = true;
	call(w, &h);
	until(w, w->held);
	send_terminate(w);
	until(w, rpcrdma_svc_closed(w->svc));
	answer(w->held);
	next_one_is_served(w);
}

/* ---- Read Responses that are none ---- */

static void read_response_of_fewer_bytes_is_refused(void **state)
{
	struct world *w = *state;

	respond(w, start_write(w), READ_BYTES - 1);
	expect_terminate(w, 0, 2, 0xff);
	assert_int_equal(w->ncalls, 0);
	next_one_is_served(w);
}

static void read_response_of_one_byte_more_is_refused(void **state)
{
	struct world *w = *state;

	respond(w, start_write(w), READ_BYTES + 1);
	expect_terminate(w, 1, 1, 1);
	assert_int_equal(w->ncalls, 0);
	next_one_is_served(w);
}

static void read_response_to_another_key_is_refused(void **state)
{
	struct world *w = *state;

	respond(w, start_write(w) ^ 1, READ_BYTES);
	expect_terminate(w, 1, 1, 0);
	assert_int_equal(w->ncalls, 0);
	next_one_is_served(w);
}

static void second_read_response_is_refused(void **state)
{
	struct world *w = *state;
	uint32_t sink = start_write(w);

	respond(w, sink, READ_BYTES);
	expect_reply(w);
	respond(w, sink, READ_BYTES);
	expect_terminate(w, 0, 2, 6);
	assert_int_equal(w->ncalls, 1);
	next_one_is_served(w);
}

/* ---- the server's memory ---- */

static void rdma_write_to_where_a_read_response_goes_is_refused(void **state)
{
	struct world *w = *state;
	uint32_t sink = start_write(w);

	assert_int_equal(peer_write(&w->peer, sink, 0, "mine", 4), 0);
	expect_terminate(w, 1, 1, 0);
	next_one_is_served(w);
}

static void rdma_read_from_where_a_read_response_goes_is_refused(void **state)
{
	struct world *w = *state;
	uint32_t sink = start_write(w);

	assert_int_equal(peer_read_request(&w->peer, 1, 0, 4, sink, 0), 0);
	expect_terminate(w, 0, 1, 0);
	next_one_is_served(w);
}

static void rdma_write_with_a_made_up_key_is_refused(void **state)
{
	struct world *w = *state;

	for (uint32_t stag = 0; stag < 8; stag++) {
		assert_int_equal(peer_write(&w->peer, stag, 0, "mine", 4), 0);
		expect_terminate(w, 1, 1, 0);
		next_one_is_served(w);
	}
}

static void invalidation_of_a_key_is_refused(void **state)
{
	struct world *w = *state;
	struct rpcrdma_header h = call_header(w);
	uint32_t len = build(w, &h, CALL_BYTES);

	assert_int_equal(peer_send(&w->peer, w->message, len, CLIENT_STAG), 0);
	expect_terminate(w, 0, 1, 9);
	assert_int_equal(w->ncalls, 0);
	next_one_is_served(w);
}

/* ---- too much, and too little ---- */

static void call_of_exactly_the_inline_size_is_served(void **state)
{
	struct world *w = *state;
	struct rpcrdma_header h = call_header(w);
	uint32_t len = build(w, &h, INLINE - rpcrdma_header_size(&h));

	assert_int_equal(len, INLINE);
	assert_int_equal(peer_send(&w->peer, w->message, len, 0), 0);
	expect_reply(w);
}

static void call_of_one_byte_more_is_refused(void **state)
{
	struct world *w = *state;
	struct rpcrdma_header h = call_header(w);

	build(w, &h, INLINE + 4 - rpcrdma_header_size(&h));
	assert_int_equal(peer_send(&w->peer, w->message, INLINE + 1, 0), 0);
	expect_terminate(w, 1, 2, 5);
	assert_int_equal(w->ncalls, 0);
	next_one_is_served(w);
}

static void more_calls_than_credits_end_the_connection(void **state)
{
	struct world *w = *state;

	w->hold = true;
	for (unsigned int i = 0; i <= CREDITS; i++) {
		struct rpcrdma_header h = call_header(w);
		call(w, &h);
	}
	until(w, rpcrdma_svc_closed(w->svc));
	assert_int_equal(w->ncalls, CREDITS);
	next_one_is_served(w);
}

/* What is under way stays so, without a thread that waits; the end of the connection frees it. */
static void silence_instead_of_a_read_response_holds_one_call(void **state)
{
	struct world *w = *state;

	start_write(w);
	still_serves(w);
	assert_int_equal(w->ncalls, 1);
	peer_hang_up(&w->peer);
	next_one_is_served(w);
}

/* Its replies fill the sockets. */
static void client_that_reads_no_more_is_not_waited_for(void **state)
{
	struct world *w = *state;
	int small = 4096;

	assert_int_equal(setsockopt(w->peer.fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof small), 0);
	for (unsigned int i = 0; i < CREDITS; i++) {
		struct rpcrdma_header h = call_header(w);
		h.write_chunk.nsegs = 16;
		for (int n = 0; n < 16; n++)
			h.write_chunk.segs[n] =
				(struct rpcrdma_segment){.handle = CLIENT_STAG, .length = MAX_IO / 16};
		call(w, &h);
	}
	assert_false(rpcrdma_svc_closed(w->svc));
	assert_int_equal(w->ncalls, CREDITS);
	assert_true(softiwarp_stats(rpcrdma_svc_endpoint(w->svc))->bytes_out < CREDITS * MAX_IO);
	peer_hang_up(&w->peer);
	next_one_is_served(w);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(read_chunk_is_fetched_and_its_call_served),
		CASE(connection_closed_at_every_byte_of_a_call_costs_nobody_else),
		CASE(connection_closed_at_every_byte_of_a_read_response_serves_no_call),
		CASE(terminate_at_rest_costs_nobody_else),
		CASE(terminate_instead_of_a_read_response_serves_no_call),
		CASE(answer_to_a_client_that_has_gone_goes_nowhere),
		CASE(read_response_of_fewer_bytes_is_refused),
		CASE(read_response_of_one_byte_more_is_refused),
		CASE(read_response_to_another_key_is_refused),
		CASE(second_read_response_is_refused),
		CASE(rdma_write_to_where_a_read_response_goes_is_refused),
		CASE(rdma_read_from_where_a_read_response_goes_is_refused),
		CASE(rdma_write_with_a_made_up_key_is_refused),
		CASE(invalidation_of_a_key_is_refused),
		CASE(call_of_exactly_the_inline_size_is_served),
		CASE(call_of_one_byte_more_is_refused),
		CASE(more_calls_than_credits_end_the_connection),
		CASE(silence_instead_of_a_read_response_holds_one_call),
		CASE(client_that_reads_no_more_is_not_waited_for),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
