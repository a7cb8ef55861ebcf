/* SPDX-License-Identifier: MIT
 *
 * What softiwarp makes of a peer that breaks the rules: each check of the receiving side with the Terminate
 * that it has to give, connection set-up with servers and clients that are no iWARP peers, and input in
 * pieces of every size. The victim is the endpoint; the peer is the scripted one of tests/peer.
 */
#include "peer.h"
#include "softiwarp/softiwarp.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#define MEMORY_BYTES ((size_t)8 << 20)
#define WINDOW_BYTES 1000u
#define WRITABLE_AT 4096u /* where the windows lie in the victim's memory */
#define READABLE_AT 8192u
#define RECV_AT 0u
#define RECV_BYTES 64u
#define READ_AT 12288u /* the sink of the victim's own Read */
#define READ_BYTES 100u
#define PATTERN 0x5a
#define DEPTH 4u

struct victim {
	struct rdma_ep *ep;
	struct rdma_listener *listener;
	struct sockaddr_in addr;
	int epoll_fd;
	struct peer peer;
	char *memory;
	struct fmr_region region;
	struct fmr writable, readable;
	struct rdma_wc wc[1024];
	unsigned int nwc;
	uint64_t now_ns;
};

/* Accepts for the victim when it is a listener, and moves everything that can move. */
static void pump(void *arg)
{
	struct victim *v = arg;
	struct rdma_ep_params params = {.epoll_fd = v->epoll_fd, .read_depth = DEPTH};
	if (v->listener && !v->ep)
		softiwarp_device.listener_accept(v->listener, &params, NULL, &v->ep);
	if (!v->ep)
		return;
	if (v->ep->state == RDMA_EP_REQUESTED && v->listener)
		v->ep->ops->accept(v->ep, "pd", 2);
	while (v->ep->ops->progress(v->ep, v->now_ns))
		;
	int n = v->ep->ops->poll(v->ep, v->wc + v->nwc, (int)(1024 - v->nwc));
	v->nwc += (unsigned int)n;
	assert_true(v->nwc < 1024);
}

/* What the peer sent is in the victim's socket by the time that send() returns: a few turns take it all. */
static void turns(struct victim *v)
{
	for (int i = 0; i < 20; i++)
		pump(v);
}

static struct rdma_sge sge_at(struct victim *v, size_t offset, uint32_t len)
{
	return (struct rdma_sge){v->memory + offset, len, v->region.lkey};
}

static void post_recv(struct victim *v, size_t offset, uint32_t len)
{
	struct rdma_sge sge = sge_at(v, offset, len);
	assert_int_equal(v->ep->ops->queue_recv(v->ep, &sge, v->memory + offset), 0);
}

static void map(struct victim *v, struct fmr *fmr, size_t offset, uint32_t len, enum fmr_access access)
{
	if (!fmr->window)
		assert_int_equal(v->ep->ops->fmr.window_alloc(v->ep, &fmr->window), 0);
	fmr->region = &v->region;
	fmr->addr = v->memory + offset;
	fmr->len_bytes = len;
	fmr->access = access;
	assert_int_equal(v->ep->ops->fmr.queue_bind(v->ep, fmr), 0);
}

static void give_memory(struct victim *v)
{
	v->region = (struct fmr_region){.addr = v->memory, .len_bytes = MEMORY_BYTES};
	assert_int_equal(v->ep->ops->fmr.region_register(v->ep, &v->region, 0), 0);
}

static int setup_bare(void **state)
{
	struct victim *v = calloc(1, sizeof *v);
	v->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	v->memory = aligned_alloc(4096, MEMORY_BYTES);
	memset(v->memory, PATTERN, (1 << 20) + 70000); /* as far as tests look */
	peer_init(&v->peer, pump, v);
	*state = v;
	return 0;
}

static void open_victim(struct victim *v)
{
	struct rdma_ep_params params = {.epoll_fd = v->epoll_fd, .read_depth = DEPTH};
	assert_int_equal(softiwarp_device.open(&params, &v->ep), 0);
}

static void start_connect(struct victim *v, const struct sockaddr_in *addr)
{
	assert_int_equal(v->ep->ops->connect(v->ep, (const struct sockaddr *)addr, sizeof *addr, "hi", 2), 0);
}

static void arm(struct victim *v)
{
	give_memory(v);
	map(v, &v->writable, WRITABLE_AT, WINDOW_BYTES, FMR_REMOTE_WRITE);
	map(v, &v->readable, READABLE_AT, WINDOW_BYTES, FMR_REMOTE_READ);
	post_recv(v, RECV_AT, RECV_BYTES);
}

/* The victim connects to the peer. */
static void victim_connects(struct victim *v)
{
	struct sockaddr_in addr;
	assert_int_equal(peer_listen(&v->peer, &addr), 0);
	open_victim(v);
	start_connect(v, &addr);
	assert_int_equal(peer_serve_mpa(&v->peer, NULL, 0), 0);
	while (v->ep->state == RDMA_EP_CONNECTING)
		pump(v);
	assert_int_equal(v->ep->state, RDMA_EP_ESTABLISHED);
}

static void victim_listens(struct victim *v)
{
	struct sockaddr_in addr = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	assert_int_equal(softiwarp_device.listen((struct sockaddr *)&addr, sizeof addr, &v->listener), 0);
	addr.sin_port = htons(softiwarp_device.listener_port(v->listener));
	v->addr = addr;
}

static int setup_client(void **state)
{
	setup_bare(state);
	victim_connects(*state);
	arm(*state);
	return 0;
}

static int setup_listener(void **state)
{
	setup_bare(state);
	victim_listens(*state);
	return 0;
}

static int setup_server(void **state)
{
	setup_listener(state);
	struct victim *v = *state;
	assert_int_equal(peer_join_mpa(&v->peer, &v->addr, NULL, 0), 0);
	assert_int_equal(v->ep->state, RDMA_EP_ESTABLISHED);
	arm(v);
	return 0;
}

static void close_victim(struct victim *v)
{
	if (v->ep)
		v->ep->ops->close(v->ep);
	v->ep = NULL;
	v->writable.window = v->readable.window = NULL;
	v->nwc = 0;
}

static int teardown(void **state)
{
	struct victim *v = *state;
	close_victim(v);
	softiwarp_device.listener_close(v->listener);
	peer_close(&v->peer);
	close(v->epoll_fd);
	free(v->memory);
	free(v);
	return 0;
}

static void expect_untouched(struct victim *v)
{
	for (size_t i = 0; i < READ_AT + 4096; i++)
		if (v->memory[i] != PATTERN)
			fail_msg("byte %zu of the victim's memory changed", i);
}

static void expect_end(struct victim *v, int error, const char *why)
{
	for (int i = 0; i < 5000 && v->ep->state != RDMA_EP_CLOSED; i++) {
		struct epoll_event event;
		pump(v);
		if (v->ep->state != RDMA_EP_CLOSED)
			epoll_wait(v->epoll_fd, &event, 1, 1);
	}
	assert_int_equal(v->ep->state, RDMA_EP_CLOSED);
	assert_int_equal(v->ep->error, error);
	if (!strstr(v->ep->why, why))
		fail_msg("why is \"%s\", without \"%s\"", v->ep->why, why);
}

static struct peer_terminate expect_terminate(struct victim *v, unsigned int layer, unsigned int type,
					      unsigned int code)
{
	struct peer_terminate t = {0};
	assert_int_equal(peer_recv_terminate(&v->peer, &t), 0);
	if (t.layer != layer || t.type != type || t.code != code)
		fail_msg("Terminate %u/%u/%#x, expected %u/%u/%#x", t.layer, t.type, t.code, layer, type,
			 code);
	assert_int_equal(peer_wait_closed(&v->peer), 0);
	assert_int_equal(v->ep->state, RDMA_EP_CLOSED);
	assert_int_equal(v->ep->error, -EPROTO);
	assert_int_equal(softiwarp_stats(v->ep)->terminates_out, 1);
	return t;
}

/* ---- one frame, one check ---- */

static char text[70000];

static void frame(struct victim *v, struct peer_fpdu *f, enum peer_opcode opcode, uint32_t len)
{
	peer_fpdu(f, &v->peer, opcode, text, len);
}

static void write_frame(struct victim *v, struct peer_fpdu *f, uint32_t stag, uint64_t offset, uint32_t len)
{
	frame(v, f, PEER_WRITE, len);
	f->stag = stag;
	f->offset = offset;
}

static void short_nothing(struct victim *v, struct peer_fpdu *f)
{
	frame(v, f, PEER_SEND, 4);
	f->ulpdu_len = -1;
}
static void short_untagged(struct victim *v, struct peer_fpdu *f)
{
	frame(v, f, PEER_SEND, 4);
	f->ulpdu_len = 17;
}
static void short_tagged(struct victim *v, struct peer_fpdu *f)
{
	write_frame(v, f, v->writable.rkey, 0, 4);
	f->ulpdu_len = 13;
}
static void ddp_version_tagged(struct victim *v, struct peer_fpdu *f)
{
	write_frame(v, f, v->writable.rkey, 0, 4);
	f->ddp_version = 2;
}
static void ddp_version_untagged(struct victim *v, struct peer_fpdu *f)
{
	frame(v, f, PEER_SEND, 4);
	f->ddp_version = 0;
}
static void rdmap_version_tagged(struct victim *v, struct peer_fpdu *f)
{
	write_frame(v, f, v->writable.rkey, 0, 4);
	f->rdmap_version = 0;
}
static void rdmap_version_untagged(struct victim *v, struct peer_fpdu *f)
{
	frame(v, f, PEER_SEND, 4);
	f->rdmap_version = 2;
}
static void opcode_8(struct victim *v, struct peer_fpdu *f)
{
	frame(v, f, PEER_SEND, 4);
	f->opcode = 8;
}
static void opcode_15_tagged(struct victim *v, struct peer_fpdu *f)
{
	write_frame(v, f, v->writable.rkey, 0, 4);
	f->opcode = 15;
}
static void send_tagged(struct victim *v, struct peer_fpdu *f)
{
	write_frame(v, f, v->writable.rkey, 0, 4);
	f->opcode = PEER_SEND;
}
static void write_untagged(struct victim *v, struct peer_fpdu *f)
{
	frame(v, f, PEER_SEND, 4);
	f->opcode = PEER_WRITE;
}
static void queue_3(struct victim *v, struct peer_fpdu *f)
{
	frame(v, f, PEER_SEND, 4);
	f->queue = 3;
}
static void queue_huge(struct victim *v, struct peer_fpdu *f)
{
	frame(v, f, PEER_SEND, 4);
	f->queue = UINT32_MAX;
}
static void ddp_is_checked_before_rdmap(struct victim *v, struct peer_fpdu *f)
{
	frame(v, f, PEER_SEND, 4);
	f->queue = 3;
	f->rdmap_version = 2;
	f->opcode = 12;
}

static void send_on_the_read_queue(struct victim *v, struct peer_fpdu *f)
{
	frame(v, f, PEER_SEND, 4);
	f->queue = 1;
}
static void read_request_on_the_send_queue(struct victim *v, struct peer_fpdu *f)
{
	frame(v, f, PEER_READ_REQUEST, 28);
	f->queue = 0;
}
static void terminate_on_the_send_queue(struct victim *v, struct peer_fpdu *f)
{
	frame(v, f, PEER_TERMINATE, 4);
	f->queue = 0;
}
static void msn_0(struct victim *v, struct peer_fpdu *f)
{
	frame(v, f, PEER_SEND, 4);
	f->msn = 0;
}
static void msn_2(struct victim *v, struct peer_fpdu *f)
{
	frame(v, f, PEER_SEND, 4);
	f->msn = 2;
}
static void read_request_msn_2(struct victim *v, struct peer_fpdu *f)
{
	frame(v, f, PEER_READ_REQUEST, 28);
	f->msn = 2;
}
static void terminate_msn_2(struct victim *v, struct peer_fpdu *f)
{
	frame(v, f, PEER_TERMINATE, 4);
	f->msn = 2;
}
static void message_offset_4(struct victim *v, struct peer_fpdu *f)
{
	frame(v, f, PEER_SEND, 4);
	f->offset = 4;
}
static void message_offset_huge(struct victim *v, struct peer_fpdu *f)
{
	frame(v, f, PEER_SEND, 4);
	f->offset = UINT32_MAX;
}
static void send_too_long(struct victim *v, struct peer_fpdu *f)
{
	frame(v, f, PEER_SEND, RECV_BYTES + 1);
}
static void send_huge(struct victim *v, struct peer_fpdu *f)
{
	frame(v, f, PEER_SEND, 65517);
}
static void read_request_too_long(struct victim *v, struct peer_fpdu *f)
{
	frame(v, f, PEER_READ_REQUEST, 29);
}
static void read_request_too_short(struct victim *v, struct peer_fpdu *f)
{
	frame(v, f, PEER_READ_REQUEST, 27);
}
static void terminate_too_long(struct victim *v, struct peer_fpdu *f)
{
	frame(v, f, PEER_TERMINATE, 53);
}
static void write_stag_0(struct victim *v, struct peer_fpdu *f)
{
	write_frame(v, f, 0, 0, 4);
}
static void write_unknown_stag(struct victim *v, struct peer_fpdu *f)
{
	write_frame(v, f, v->writable.rkey ^ 0x10000, 0, 4);
}
static void write_other_index(struct victim *v, struct peer_fpdu *f)
{
	write_frame(v, f, v->writable.rkey ^ 0x800, 0, 4);
}
static void write_local_key(struct victim *v, struct peer_fpdu *f)
{
	write_frame(v, f, v->region.lkey, 0, 4);
}
static void write_readable(struct victim *v, struct peer_fpdu *f)
{
	write_frame(v, f, v->readable.rkey, 0, 4);
}
static void write_before(struct victim *v, struct peer_fpdu *f)
{
	write_frame(v, f, v->writable.rkey, (uint64_t)-1, 1);
}
static void write_wraps(struct victim *v, struct peer_fpdu *f)
{
	write_frame(v, f, v->writable.rkey, (uint64_t)-4, 8);
}
static void write_ends_at_the_last_offset(struct victim *v, struct peer_fpdu *f)
{
	write_frame(v, f, v->writable.rkey, (uint64_t)-5, 4);
}
static void write_after(struct victim *v, struct peer_fpdu *f)
{
	write_frame(v, f, v->writable.rkey, WINDOW_BYTES, 1);
}
static void write_across(struct victim *v, struct peer_fpdu *f)
{
	write_frame(v, f, v->writable.rkey, WINDOW_BYTES - 3, 4);
}
static void write_far(struct victim *v, struct peer_fpdu *f)
{
	write_frame(v, f, v->writable.rkey, 1ull << 32, 4);
}
static void response_to_nothing(struct victim *v, struct peer_fpdu *f)
{
	frame(v, f, PEER_READ_RESPONSE, 4);
	f->stag = 1;
}
static void bad_crc_send(struct victim *v, struct peer_fpdu *f)
{
	frame(v, f, PEER_SEND, 0);
	f->bad_crc = true;
}
static void bad_crc_read_request(struct victim *v, struct peer_fpdu *f)
{
	frame(v, f, PEER_READ_REQUEST, 28);
	f->bad_crc = true;
}
static void bad_crc_zero_write(struct victim *v, struct peer_fpdu *f)
{
	write_frame(v, f, 0, 0, 0);
	f->bad_crc = true;
}
static void invalidate_nothing(struct victim *v, struct peer_fpdu *f)
{
	frame(v, f, PEER_SEND_INVALIDATE, 0);
}
static void invalidate_unknown(struct victim *v, struct peer_fpdu *f)
{
	frame(v, f, PEER_SEND_INVALIDATE, 0);
	f->stag = v->writable.rkey ^ 0x10000;
}
static void invalidate_region(struct victim *v, struct peer_fpdu *f)
{
	frame(v, f, PEER_SEND_SE_INVALIDATE, 0);
	f->stag = v->region.lkey;
}

#define CASE(name, layer, type, code)                                                                        \
	{                                                                                                    \
#name, name, layer, type, code                                                               \
	}
static const struct hostile {
	const char *name;
	void (*make)(struct victim *v, struct peer_fpdu *f);
	uint8_t layer, type, code;
} hostile[] = {
	CASE(short_nothing, 1, 0, 0),
	CASE(short_untagged, 1, 0, 0),
	CASE(short_tagged, 1, 0, 0),
	CASE(ddp_version_tagged, 1, 1, 4),
	CASE(ddp_version_untagged, 1, 2, 6),
	CASE(rdmap_version_tagged, 0, 2, 5),
	CASE(rdmap_version_untagged, 0, 2, 5),
	CASE(opcode_8, 0, 2, 6),
	CASE(opcode_15_tagged, 0, 2, 6),
	CASE(send_tagged, 0, 2, 6),
	CASE(write_untagged, 0, 2, 6),
	CASE(queue_3, 1, 2, 1),
	CASE(queue_huge, 1, 2, 1),
	CASE(ddp_is_checked_before_rdmap, 1, 2, 1),
	CASE(send_on_the_read_queue, 1, 2, 1),
	CASE(read_request_on_the_send_queue, 1, 2, 1),
	CASE(terminate_on_the_send_queue, 1, 2, 1),
	CASE(msn_0, 1, 2, 3),
	CASE(msn_2, 1, 2, 3),
	CASE(read_request_msn_2, 1, 2, 3),
	CASE(terminate_msn_2, 1, 2, 3),
	CASE(message_offset_4, 1, 2, 4),
	CASE(message_offset_huge, 1, 2, 4),
	CASE(send_too_long, 1, 2, 5),
	CASE(send_huge, 1, 2, 5),
	CASE(read_request_too_long, 1, 2, 5),
	CASE(read_request_too_short, 0, 2, 0xff),
	CASE(terminate_too_long, 1, 2, 5),
	CASE(write_stag_0, 1, 1, 0),
	CASE(write_unknown_stag, 1, 1, 0),
	CASE(write_other_index, 1, 1, 0),
	CASE(write_local_key, 1, 1, 0),
	CASE(write_readable, 1, 1, 0),
	CASE(write_before, 1, 1, 3),
	CASE(write_wraps, 1, 1, 3),
	CASE(write_ends_at_the_last_offset, 1, 1, 1),
	CASE(write_after, 1, 1, 1),
	CASE(write_across, 1, 1, 1),
	CASE(write_far, 1, 1, 1),
	CASE(response_to_nothing, 0, 2, 6),
	CASE(bad_crc_send, 2, 0, 2),
	CASE(bad_crc_read_request, 2, 0, 2),
	CASE(bad_crc_zero_write, 2, 0, 2),
	CASE(invalidate_nothing, 0, 1, 9),
	CASE(invalidate_unknown, 0, 1, 9),
	CASE(invalidate_region, 0, 1, 9),
};
#define HOSTILE_CASES (sizeof hostile / sizeof *hostile)

static struct peer_fpdu fpdu; /* large */

static void run_hostile(struct victim *v, const struct hostile *h)
{
	uint8_t raw[2 + 18];
	print_message("  %s\n", h->name);
	memset(text, 'x', sizeof text);
	h->make(v, &fpdu);
	memset(raw, 0, sizeof raw);
	assert_int_equal(peer_send_fpdu(&v->peer, &fpdu), 0);
	struct peer_terminate t = expect_terminate(v, h->layer, h->type, h->code);
	bool with_header = h->layer != 2 && h->type != 0;
	assert_int_equal(t.has_ddp, with_header);
	assert_int_equal(t.has_length, with_header);
	assert_false(t.has_rdmap);
	if (with_header) {
		assert_int_equal(t.segment_len, fpdu.len + (fpdu.tagged ? 14 : 18));
		assert_int_equal(t.headers_len, fpdu.tagged ? 14 : 18);
		assert_int_equal(t.headers[1] & 15, fpdu.opcode);
	}
	expect_untouched(v);
	turns(v);
	assert_int_equal(v->nwc, 1); /* the receive, flushed */
	assert_int_equal(v->wc[0].status, -ECANCELED);
}

static void hostile_frames_against_a_client(void **state)
{
	for (size_t i = 0; i < HOSTILE_CASES; i++) {
		setup_client(state);
		run_hostile(*state, &hostile[i]);
		teardown(state);
	}
}

static void hostile_frames_against_a_server(void **state)
{
	for (size_t i = 0; i < HOSTILE_CASES; i++) {
		setup_server(state);
		run_hostile(*state, &hostile[i]);
		teardown(state);
	}
}

/* ---- checks that need more than one frame ---- */

static void stale_invalidate_is_refused(void **state)
{
	struct victim *v = *state;
	assert_int_equal(v->ep->ops->fmr.queue_invalidate(v->ep, &v->writable), 0);
	assert_int_equal(peer_send(&v->peer, "x", 1, v->writable.rkey), 0);
	expect_terminate(v, 0, 1, 9);
}

static void opcode_changes_within_a_message(void **state)
{
	struct victim *v = *state;
	frame(v, &fpdu, PEER_SEND, 4);
	fpdu.last = false;
	assert_int_equal(peer_send_fpdu(&v->peer, &fpdu), 0);
	frame(v, &fpdu, PEER_SEND_SE, 4);
	fpdu.offset = 4;
	assert_int_equal(peer_send_fpdu(&v->peer, &fpdu), 0);
	expect_terminate(v, 0, 2, 6);
}

static void stag_to_invalidate_changes_within_a_message(void **state)
{
	struct victim *v = *state;
	frame(v, &fpdu, PEER_SEND_INVALIDATE, 4);
	fpdu.stag = v->writable.rkey;
	fpdu.last = false;
	assert_int_equal(peer_send_fpdu(&v->peer, &fpdu), 0);
	fpdu.stag = v->readable.rkey;
	fpdu.offset = 4;
	fpdu.last = true;
	assert_int_equal(peer_send_fpdu(&v->peer, &fpdu), 0);
	expect_terminate(v, 0, 2, 6);
}

static void second_segment_repeats_the_offset(void **state)
{
	struct victim *v = *state;
	frame(v, &fpdu, PEER_SEND, 4);
	fpdu.last = false;
	assert_int_equal(peer_send_fpdu(&v->peer, &fpdu), 0);
	assert_int_equal(peer_send_fpdu(&v->peer, &fpdu), 0);
	expect_terminate(v, 1, 2, 4);
}

static void second_segment_overflows_the_receive(void **state)
{
	struct victim *v = *state;
	frame(v, &fpdu, PEER_SEND, RECV_BYTES);
	fpdu.last = false;
	assert_int_equal(peer_send_fpdu(&v->peer, &fpdu), 0);
	frame(v, &fpdu, PEER_SEND, 1);
	fpdu.offset = RECV_BYTES;
	assert_int_equal(peer_send_fpdu(&v->peer, &fpdu), 0);
	expect_terminate(v, 1, 2, 5);
	assert_int_equal(v->memory[RECV_BYTES], PATTERN);
}

static void send_without_a_receive(void **state)
{
	struct victim *v = *state;
	assert_int_equal(peer_send(&v->peer, "one", 3, 0), 0);
	assert_int_equal(peer_send(&v->peer, "two", 3, 0), 0);
	expect_terminate(v, 1, 2, 2);
	turns(v);
	assert_int_equal(v->nwc, 1);
	assert_int_equal(v->wc[0].status, 0);
	assert_int_equal(v->wc[0].len_bytes, 3);
}

static void corrupt_payload_is_not_delivered(void **state)
{
	struct victim *v = *state;
	frame(v, &fpdu, PEER_SEND, 8);
	fpdu.bad_crc = true;
	assert_int_equal(peer_send_fpdu(&v->peer, &fpdu), 0);
	expect_terminate(v, 2, 0, 2);
	assert_int_equal(softiwarp_stats(v->ep)->crc_errors, 1);
	turns(v);
	assert_int_equal(v->wc[0].status, -ECANCELED);
}

struct bad_read {
	const char *name;
	uint32_t len;
	uint64_t sink_offset;
	bool writable, unknown; /* the window meant for writing; no window at all */
	uint64_t offset;
	uint8_t code; /* of layer 0, type 1 */
};

static const struct bad_read bad_reads[] = {
	{"unknown STag", 4, 0, false, true, 0, 0},
	{"writable window", 4, 0, true, false, 0, 2},
	{"one byte before", 1, 0, false, false, (uint64_t)-1, 4},
	{"wraps", 8, 0, false, false, (uint64_t)-4, 4},
	{"one byte after", 1, 0, false, false, WINDOW_BYTES, 1},
	{"across the end", 4, 0, false, false, WINDOW_BYTES - 3, 1},
	{"longest", UINT32_MAX, 0, false, false, 0, 1},
	{"far away", 1, 0, false, false, 1ull << 40, 1},
	{"the sink wraps", 8, (uint64_t)-4, false, false, 0, 4},
};

static void bad_read_requests(void **state)
{
	for (size_t i = 0; i < sizeof bad_reads / sizeof *bad_reads; i++) {
		const struct bad_read *b = &bad_reads[i];
		print_message("  %s\n", b->name);
		setup_client(state);
		struct victim *v = *state;
		uint32_t stag = b->unknown ? 0x12345678 : b->writable ? v->writable.rkey : v->readable.rkey;
		assert_int_equal(peer_read_request(&v->peer, 7, b->sink_offset, b->len, stag, b->offset), 0);
		struct peer_terminate t = expect_terminate(v, 0, 1, b->code);
		assert_true(t.has_length && t.has_ddp && t.has_rdmap);
		assert_int_equal(t.headers_len, 18 + 28); /* the request comes back */
		assert_int_equal(t.headers[18 + 3], 7);
		teardown(state);
	}
}

static void more_reads_than_the_depth(void **state)
{
	struct victim *v = *state;
	uint8_t all[1024],
		request[28] = {0}; /* zero-length Reads, in one write: none is answered in between */
	size_t len = 0;
	for (unsigned int i = 0; i < DEPTH + 1; i++) {
		peer_fpdu(&fpdu, &v->peer, PEER_READ_REQUEST, request, sizeof request);
		fpdu.msn = i + 1;
		len += peer_encode_fpdu(&v->peer, &fpdu, all + len);
	}
	assert_int_equal(peer_send_raw(&v->peer, all, len), 0);
	expect_terminate(v, 1, 2, 2);
}

static void invalidate_while_reading_is_refused(void **state)
{
	struct victim *v = *state;
	uint8_t all[1024];
	uint8_t request[28] = {0};
	uint32_t stag = v->readable.rkey;
	request[15] = 10; /* length */
	for (int i = 0; i < 4; i++)
		request[16 + i] = (uint8_t)(stag >> (24 - 8 * i));
	peer_fpdu(&fpdu, &v->peer, PEER_READ_REQUEST, request, sizeof request);
	size_t len = peer_encode_fpdu(&v->peer, &fpdu, all);
	frame(v, &fpdu, PEER_SEND_INVALIDATE, 0);
	fpdu.stag = stag;
	len += peer_encode_fpdu(&v->peer, &fpdu, all + len);
	assert_int_equal(peer_send_raw(&v->peer, all, len), 0);
	expect_terminate(v, 0, 1, 9);
}

/* ---- Read Responses to the victim's own Read ---- */

static uint32_t victim_reads(struct victim *v)
{
	struct rdma_sge sge = sge_at(v, READ_AT, READ_BYTES);
	assert_int_equal(v->ep->ops->queue_read(v->ep, &sge, 0xabc, 5, v), 0);
	assert_int_equal(v->ep->ops->doorbell(v->ep), 0);
	assert_int_equal(peer_recv_fpdu(&v->peer, &fpdu), 0);
	assert_int_equal(fpdu.opcode, PEER_READ_REQUEST);
	assert_int_equal(fpdu.len, 28);
	const uint8_t *p = fpdu.payload;
	assert_int_equal(p[15], READ_BYTES);
	assert_int_equal(p[27], 5);
	return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static void response(struct victim *v, uint32_t stag, uint64_t offset, uint32_t len, bool last)
{
	frame(v, &fpdu, PEER_READ_RESPONSE, len);
	fpdu.stag = stag;
	fpdu.offset = offset;
	fpdu.last = last;
	assert_int_equal(peer_send_fpdu(&v->peer, &fpdu), 0);
}

static void response_with_another_stag(void **state)
{
	struct victim *v = *state;
	response(v, victim_reads(v) + 1, 0, READ_BYTES, true);
	expect_terminate(v, 1, 1, 0);
	expect_untouched(v);
}

static void response_at_another_offset(void **state)
{
	struct victim *v = *state;
	response(v, victim_reads(v), 1, READ_BYTES - 1, true);
	expect_terminate(v, 1, 1, 1);
	expect_untouched(v);
}

static void response_too_long(void **state)
{
	struct victim *v = *state;
	response(v, victim_reads(v), 0, READ_BYTES + 1, true);
	expect_terminate(v, 1, 1, 1);
	expect_untouched(v);
}

static void response_too_long_in_parts(void **state)
{
	struct victim *v = *state;
	uint32_t stag = victim_reads(v);
	response(v, stag, 0, READ_BYTES, false);
	response(v, stag, READ_BYTES, 1, true);
	expect_terminate(v, 1, 1, 1);
	assert_int_equal(v->memory[READ_AT + READ_BYTES], PATTERN);
}

static void response_too_short(void **state)
{
	struct victim *v = *state;
	response(v, victim_reads(v), 0, READ_BYTES - 1, true);
	expect_terminate(v, 0, 2, 0xff);
}

static void write_to_the_sink_of_a_read(void **state)
{
	struct victim *v = *state;
	uint32_t stag = victim_reads(v);
	assert_int_equal(peer_write(&v->peer, stag, 0, text, 4), 0);
	expect_terminate(v, 1, 1, 0);
	expect_untouched(v);
}

static void response_in_parts_is_taken(void **state)
{
	struct victim *v = *state;
	memset(text, 'r', READ_BYTES);
	uint32_t stag = victim_reads(v);
	response(v, stag, 0, 1, false);
	response(v, stag, 1, 0, false);
	response(v, stag, 1, READ_BYTES - 1, true);
	turns(v);
	assert_int_equal(v->nwc, 1);
	assert_int_equal(v->wc[0].kind, RDMA_WC_READ);
	assert_int_equal(v->wc[0].status, 0);
	assert_memory_equal(v->memory + READ_AT, text, READ_BYTES);
	response(v, stag, 0, READ_BYTES, true); /* once more: nothing is outstanding */
	expect_terminate(v, 0, 2, 6);
}

/* ---- Terminates from the peer ---- */

static void receive_terminate(struct victim *v, const void *body, uint32_t len, const char *why)
{
	peer_fpdu(&fpdu, &v->peer, PEER_TERMINATE, body, len);
	assert_int_equal(peer_send_fpdu(&v->peer, &fpdu), 0);
	expect_end(v, -EREMOTEIO, why);
	assert_int_equal(softiwarp_stats(v->ep)->terminates_in, 1);
	assert_int_equal(softiwarp_stats(v->ep)->terminates_out, 0);
	assert_int_equal(peer_wait_closed(&v->peer), 0);
}

static void terminate_is_told_in_words(void **state)
{
	receive_terminate(*state, "\x11\x01\x00\x00", 4, "DDP: base or bounds violation");
}
static void terminate_with_headers_is_understood(void **state)
{
	char body[52] = "\x01\x02\xe0\x00";
	receive_terminate(*state, body, sizeof body, "RDMAP: access rights violation");
}
static void unknown_terminate_is_told_in_numbers(void **state)
{
	receive_terminate(*state, "\xf3\x77\x00\x00", 4, "layer 15, type 3, code 119");
}
static void short_terminate_is_one(void **state)
{
	receive_terminate(*state, "\x11", 1, "Terminate");
}
static void terminate_is_read_even_when_sending_fails(void **state)
{
	struct victim *v = *state;
	struct rdma_sge sge = sge_at(v, 0, 1 << 20);
	peer_fpdu(&fpdu, &v->peer, PEER_TERMINATE, "\x12\x02\x00\x00", 4);
	assert_int_equal(peer_send_fpdu(&v->peer, &fpdu), 0);
	peer_hang_up(&v->peer);
	for (int i = 0; i < 20; i++)
		assert_int_equal(v->ep->ops->queue_send(v->ep, &sge, 1, 0, NULL), 0);
	while (v->ep->state == RDMA_EP_ESTABLISHED)
		v->ep->ops->doorbell(v->ep);
	assert_int_equal(v->ep->error, -EREMOTEIO);
	assert_non_null(strstr(v->ep->why, "no buffer"));
}

/* The stream stays in frames: what was half sent is finished before the Terminate. */
static void terminate_follows_a_whole_frame(void **state)
{
	struct victim *v = *state;
	struct rdma_sge sge = sge_at(v, 1 << 20, 7 << 20);
	for (int i = 0; i < 4; i++)
		assert_int_equal(v->ep->ops->queue_send(v->ep, &sge, 1, 0, v), 0);
	assert_int_equal(v->ep->ops->doorbell(v->ep), 0);
	turns(v); /* until the sockets are full */
	assert_true(softiwarp_stats(v->ep)->bytes_out < 28u << 20);
	assert_int_equal(peer_write(&v->peer, 1, 0, text, 4), 0);
	v->peer.pump = NULL;
	uint64_t taken = 0, out = softiwarp_stats(v->ep)->bytes_out;
	uint8_t *sink = malloc(out);
	assert_int_equal(peer_recv_raw(&v->peer, sink, out), 0); /* all of it, so that there is room again */
	while (taken < out) { /* walk over its frames; the last may be cut off */
		uint32_t ulpdu = (uint32_t)sink[taken] << 8 | sink[taken + 1];
		taken += 2 + ulpdu + (-(2 + ulpdu) & 3) + 4;
	}
	free(sink);
	v->peer.pump = pump;
	size_t rest = taken - out;
	if (rest)
		assert_int_equal(peer_recv_raw(&v->peer, text, rest), 0);
	expect_terminate(v, 1, 1, 0);
	turns(v);
	for (unsigned int i = 0; i < v->nwc; i++)
		assert_true(v->wc[i].status == 0 || v->wc[i].status == -ECANCELED);
}

/* ---- windows that go away while they are written ---- */

static void half_a_write(struct victim *v, uint32_t len, uint32_t sent, uint8_t *whole, size_t *whole_len)
{
	memset(text, 'w', len);
	write_frame(v, &fpdu, v->writable.rkey, 0, len);
	*whole_len = peer_encode_fpdu(&v->peer, &fpdu, whole);
	assert_int_equal(peer_send_raw(&v->peer, whole, 16 + sent), 0);
	turns(v);
}

static void invalidated_window(struct victim *v, uint32_t len, uint32_t sent)
{
	static uint8_t whole[70000];
	size_t whole_len;
	assert_int_equal(v->ep->ops->fmr.queue_invalidate(v->ep, &v->writable), 0);
	map(v, &v->writable, 1 << 20, len, FMR_REMOTE_WRITE);
	turns(v);
	v->nwc = 0;
	half_a_write(v, len, sent, whole, &whole_len);
	if (sent)
		assert_int_equal(v->memory[(1 << 20) + sent - 1], 'w');
	assert_int_equal(v->ep->ops->fmr.queue_invalidate(v->ep, &v->writable), 0);
	turns(v);
	assert_int_equal(v->nwc, 1);
	assert_int_equal(v->wc[0].kind, RDMA_WC_INVALIDATE);
	memset(v->memory + (1 << 20), 'm', len); /* it is the upper layer's again */
	assert_int_equal(peer_send_raw(&v->peer, whole + 16 + sent, whole_len - 16 - sent), 0);
	assert_int_equal(peer_send(&v->peer, "after", 5, 0), 0);
	turns(v);
	for (uint32_t i = 0; i < len; i++)
		assert_int_equal(v->memory[(1 << 20) + i], 'm');
	assert_int_equal(v->ep->state, RDMA_EP_ESTABLISHED); /* the segment was right when it began */
	assert_int_equal(v->nwc, 2);
	assert_int_equal(v->wc[1].kind, RDMA_WC_RECV);
	assert_memory_equal(v->memory, "after", 5);
	assert_int_equal(peer_write(&v->peer, v->writable.rkey, 0, text, 1), 0);
	expect_terminate(v, 1, 1, 0);
}

static void invalidated_window_is_written_no_further(void **state)
{
	static const uint32_t sizes[][2] = {
		{1000, 1}, {1000, 999}, {60000, 0}, {60000, 20000}, {65521, 65520}};
	for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
		setup_client(state);
		invalidated_window(*state, sizes[i][0], sizes[i][1]);
		teardown(state);
	}
}

static void rebound_window_does_not_take_the_rest(void **state)
{
	struct victim *v = *state;
	static uint8_t whole[70000];
	size_t whole_len;
	half_a_write(v, WINDOW_BYTES, 10, whole, &whole_len);
	assert_int_equal(v->ep->ops->fmr.queue_invalidate(v->ep, &v->writable), 0);
	map(v, &v->writable, 1 << 20, 4096, FMR_REMOTE_WRITE);
	assert_int_equal(peer_send_raw(&v->peer, whole + 26, whole_len - 26), 0);
	turns(v);
	assert_int_equal(v->memory[WRITABLE_AT + 9], 'w');
	assert_int_equal(v->memory[WRITABLE_AT + 10], PATTERN);
	for (size_t i = 0; i < 4096; i++)
		assert_int_equal(v->memory[(1 << 20) + i], PATTERN);
	assert_int_equal(v->ep->state, RDMA_EP_ESTABLISHED);
}

/* ---- input in pieces ---- */

/* Legal traffic of every kind; its effects are checked after it. */
static void legal_traffic(struct victim *v)
{
	static uint8_t big[150000], got[WINDOW_BYTES];
	for (size_t i = 0; i < sizeof big; i++)
		big[i] = (uint8_t)(i * 7);
	for (size_t i = 0; i < WINDOW_BYTES; i++)
		v->memory[READABLE_AT + i] = (char)(i * 3);
	post_recv(v, 1 << 20, sizeof big);
	post_recv(v, 64, 64);
	assert_int_equal(peer_write(&v->peer, v->writable.rkey, 1, big, WINDOW_BYTES - 1), 0);
	assert_int_equal(peer_write(&v->peer, 0, 0, NULL, 0), 0);
	assert_int_equal(peer_send(&v->peer, "first", 5, 0), 0);
	assert_int_equal(peer_send(&v->peer, big, sizeof big, 0), 0);
	assert_int_equal(peer_read(&v->peer, v->readable.rkey, 3, got, WINDOW_BYTES - 3), 0);
	assert_memory_equal(got, v->memory + READABLE_AT + 3, WINDOW_BYTES - 3);
	assert_int_equal(peer_send(&v->peer, "third", 5, v->writable.rkey), 0);
	turns(v);
	assert_int_equal(v->ep->state, RDMA_EP_ESTABLISHED);
	assert_int_equal(v->nwc, 3);
	assert_memory_equal(v->memory + WRITABLE_AT + 1, big, WINDOW_BYTES - 1);
	assert_int_equal(v->memory[WRITABLE_AT], PATTERN);
	assert_memory_equal(v->memory, "first", 5);
	assert_int_equal(v->wc[1].len_bytes, sizeof big);
	assert_memory_equal(v->memory + (1 << 20), big, sizeof big);
	assert_true(v->wc[2].invalidated);
	assert_int_equal(v->wc[2].invalidated_rkey, v->writable.rkey);
	assert_memory_equal(v->memory + 64, "third", 5);
}

static void traffic_in_pieces_of_any_size(void **state)
{
	static const uint32_t pieces[] = {1,   2,    3,	    5,	   17,	  27,	 28, 29,
					  100, 1000, 16383, 16384, 16385, 61000, 0};
	for (size_t i = 0; i < sizeof pieces / sizeof *pieces; i++) {
		setup_server(state);
		struct victim *v = *state;
		v->peer.trickle_bytes = pieces[i];
		legal_traffic(v);
		teardown(state);
	}
}

/* One turn takes in a fair share and says that there is more: other endpoints of the thread get theirs. */
static void a_turn_has_an_end(void **state)
{
	struct victim *v = *state;
	static uint8_t whole[60100];
	uint64_t share = 0, before = 0, queued = 0;
	bool more = true;
	memset(text, 'w', 60000);
	assert_int_equal(v->ep->ops->fmr.queue_invalidate(v->ep, &v->writable), 0);
	map(v, &v->writable, 1 << 20, 60000, FMR_REMOTE_WRITE);
	write_frame(v, &fpdu, v->writable.rkey, 0, 60000);
	size_t len = peer_encode_fpdu(&v->peer, &fpdu, whole);
	ssize_t n = (ssize_t)len;
	while (n == (ssize_t)len) { /* as much as the sockets hold while nobody reads */
		n = send(v->peer.fd, whole, len, MSG_DONTWAIT | MSG_NOSIGNAL);
		queued += n > 0 ? (uint64_t)n : 0;
	}
	if (queued < 3 << 19) /* the kernel's buffers are small here */
		skip();
	while (more) {
		more = v->ep->ops->progress(v->ep, 0);
		uint64_t taken = softiwarp_stats(v->ep)->bytes_in - before;
		before += taken;
		share = taken > share ? taken : share;
	}
	assert_true(before > 1 << 20);
	assert_true(share <= (1 << 20) + 70000);
}

/* RFC 5040 §4.1: where it means nothing, the Invalidate STag is ignored. */
static void a_plain_send_may_carry_any_invalidate_stag(void **state)
{
	struct victim *v = *state;
	memset(text, 't', 8);
	frame(v, &fpdu, PEER_SEND, 4);
	fpdu.last = false;
	fpdu.stag = v->writable.rkey;
	assert_int_equal(peer_send_fpdu(&v->peer, &fpdu), 0);
	frame(v, &fpdu, PEER_SEND, 4);
	fpdu.offset = 4;
	fpdu.stag = 7;
	assert_int_equal(peer_send_fpdu(&v->peer, &fpdu), 0);
	turns(v);
	assert_int_equal(v->nwc, 1);
	assert_int_equal(v->wc[0].len_bytes, 8);
	assert_false(v->wc[0].invalidated);
	assert_int_equal(v->ep->state, RDMA_EP_ESTABLISHED);
}

static void set_up_in_single_bytes(void **state)
{
	struct victim *v = *state;
	v->peer.trickle_bytes = 1;
	assert_int_equal(peer_join_mpa(&v->peer, &v->addr, "private", 7), 0);
	assert_int_equal(v->ep->state, RDMA_EP_ESTABLISHED);
	assert_int_equal(v->ep->peer_private_len, 7);
	assert_memory_equal(v->ep->peer_private, "private", 7);
}

/* A client that does not wait for the reply. Its message came, and gave its event, before accept(): no other
 * event tells of it, and the poll() that follows every turn must not forget it. */
static void what_came_before_the_answer_is_not_forgotten(void **state)
{
	struct victim *v = *state;
	struct peer_mpa request = {.flags = PEER_MPA_CRC | PEER_MPA_ENHANCED | 2, .ird = 1, .ord = 1};
	struct rdma_ep_params params = {.epoll_fd = v->epoll_fd};
	v->peer.pump = NULL;
	assert_int_equal(peer_connect(&v->peer, &v->addr), 0);
	assert_int_equal(peer_send_mpa(&v->peer, &request), 0);
	assert_int_equal(peer_send(&v->peer, "early", 5, 0), 0);
	assert_int_equal(softiwarp_device.listener_accept(v->listener, &params, NULL, &v->ep), 0);
	for (int i = 0; i < 3; i++)
		v->ep->ops->progress(v->ep, v->now_ns);
	assert_int_equal(v->ep->state, RDMA_EP_REQUESTED);
	give_memory(v);
	post_recv(v, RECV_AT, RECV_BYTES);
	assert_int_equal(v->ep->ops->accept(v->ep, NULL, 0), 0);
	assert_int_equal(v->ep->ops->poll(v->ep, v->wc, 1024), 0);
	assert_in_range(v->ep->timeout_ns, 1, v->now_ns + 1);
	v->ep->ops->progress(v->ep, v->now_ns);
	assert_int_equal(v->ep->ops->poll(v->ep, v->wc, 1024), 1);
	assert_memory_equal(v->memory + RECV_AT, "early", 5);
	assert_int_equal(v->ep->timeout_ns, 0);
}

/* A whole conversation of the peer's, cut off after each of its bytes. */
static void input_cut_off_anywhere(void **state)
{
	static uint8_t script[1024];
	size_t total = 1;
	for (size_t cut = 0; cut < total; cut++) {
		setup_server(state);
		struct victim *v = *state;
		size_t len = 0, first;
		memset(text, 't', 64);
		write_frame(v, &fpdu, v->writable.rkey, 0, 61);
		len += peer_encode_fpdu(&v->peer, &fpdu, script + len);
		frame(v, &fpdu, PEER_SEND, 30);
		len += peer_encode_fpdu(&v->peer, &fpdu, script + len);
		first = len;
		uint8_t request[28] = {0};
		peer_fpdu(&fpdu, &v->peer, PEER_READ_REQUEST, request, sizeof request);
		len += peer_encode_fpdu(&v->peer, &fpdu, script + len);
		total = len;
		assert_int_equal(peer_send_raw(&v->peer, script, cut), 0);
		peer_hang_up(&v->peer);
		turns(v);
		expect_end(v, -ECONNRESET, "closed the connection");
		assert_int_equal(v->nwc, 1);
		assert_int_equal(v->wc[0].status, cut < first ? -ECANCELED : 0);
		assert_int_equal(v->memory[WRITABLE_AT + 61], PATTERN);
		teardown(state);
	}
}

static void crc_may_be_off(void **state)
{
	struct victim *v = *state;
	struct sockaddr_in addr;
	v->peer.crc = false;
	assert_int_equal(peer_listen(&v->peer, &addr), 0);
	open_victim(v);
	softiwarp_want_crc(v->ep, false);
	start_connect(v, &addr);
	assert_int_equal(peer_serve_mpa(&v->peer, NULL, 0), 0);
	while (v->ep->state == RDMA_EP_CONNECTING)
		pump(v);
	arm(v);
	frame(v, &fpdu, PEER_SEND, 5);
	fpdu.bad_crc = true; /* nobody looks */
	assert_int_equal(peer_send_fpdu(&v->peer, &fpdu), 0);
	turns(v);
	assert_int_equal(v->nwc, 1);
	assert_int_equal(v->wc[0].status, 0);
	struct rdma_sge sge = sge_at(v, 0, 5);
	assert_int_equal(v->ep->ops->queue_send(v->ep, &sge, 1, 0, v), 0);
	assert_int_equal(v->ep->ops->doorbell(v->ep), 0);
	assert_int_equal(peer_recv_send(&v->peer, text, 100), 5);
}

static void crc_is_on_when_one_side_wants_it(void **state)
{
	struct victim *v = *state;
	struct sockaddr_in addr;
	struct peer_mpa request, reply = {.reply = true, .flags = PEER_MPA_ENHANCED | 2, .ird = 1, .ord = 1};
	assert_int_equal(peer_listen(&v->peer, &addr), 0);
	open_victim(v);
	start_connect(v, &addr);
	assert_int_equal(peer_accept(&v->peer), 0);
	assert_int_equal(peer_recv_mpa(&v->peer, &request), 0);
	assert_int_equal(request.flags, PEER_MPA_ENHANCED | PEER_MPA_CRC | 2);
	assert_int_equal(request.ird & 0x3fff, DEPTH);
	assert_int_equal(request.ord & 0x3fff, DEPTH);
	assert_int_equal((request.ird | request.ord) & 0xc000, 0); /* no peer-to-peer */
	assert_int_equal(request.private_len, 2);
	assert_int_equal(peer_send_mpa(&v->peer, &reply), 0); /* without C */
	while (v->ep->state == RDMA_EP_CONNECTING)
		pump(v);
	arm(v);
	assert_int_equal(v->ep->limits.read_depth_out, 1);
	frame(v, &fpdu, PEER_SEND, 5);
	fpdu.bad_crc = true;
	assert_int_equal(peer_send_fpdu(&v->peer, &fpdu), 0);
	expect_terminate(v, 2, 0, 2);
}

/* ---- frames made at random ---- */

static unsigned int dice_state;
static unsigned int dice(unsigned int sides)
{
	dice_state = dice_state * 1103515245u + 12345u;
	return (dice_state >> 16) % sides;
}

static void random_frame(struct victim *v, struct peer_fpdu *f)
{
	static const uint64_t offsets[] = {
		0, 0, 0, 1, 4, WINDOW_BYTES - 1, WINDOW_BYTES, UINT32_MAX, (uint64_t)-1, -4, 1ull << 32};
	static const uint32_t lens[] = {
		0, 1, 4, 4, 27, 28, 28, 29, RECV_BYTES, RECV_BYTES + 1, WINDOW_BYTES, 60000};
	uint32_t stags[] = {0,		v->writable.rkey, v->writable.rkey, v->readable.rkey, v->region.lkey,
			    dice(65536)};
	uint32_t len = lens[dice(12)];
	for (uint32_t i = 0; i < 28; i++) /* may be a Read Request: give it a known STag */
		text[i] = (char)dice(4);
	for (int i = 0; i < 4; i++)
		text[16 + i] = (char)(v->readable.rkey >> (24 - 8 * i));
	frame(v, f, dice(8), len);
	f->stag = stags[dice(6)];
	if (dice(3) == 0)
		f->offset = offsets[dice(11)];
	f->last = dice(4) != 0;
	switch (dice(12)) {
	case 0:
		f->opcode = (uint8_t)dice(16);
		break;
	case 1:
		f->queue = dice(5);
		break;
	case 2:
		f->msn += dice(3) - 1;
		break;
	case 3:
		f->tagged = !f->tagged;
		break;
	case 4:
		f->bad_crc = true;
		break;
	case 5:
		f->ulpdu_len = (int32_t)dice(65536);
		break;
	case 6:
		f->ddp_version = (uint8_t)dice(4);
		break;
	}
}

static void random_frames_do_no_harm(void **state)
{
	for (unsigned int seed = 0; seed < 400; seed++) {
		setup_client(state);
		struct victim *v = *state;
		dice_state = seed;
		if (seed % 3 == 0) {
			victim_reads(v);
			v->peer.trickle_bytes = 1 + seed;
		}
		for (int i = 0; i < 30 && v->ep->state == RDMA_EP_ESTABLISHED; i++) {
			random_frame(v, &fpdu);
			if (peer_send_fpdu(&v->peer, &fpdu) < 0)
				break;
			pump(v);
		}
		for (size_t i = RECV_BYTES; i < READ_AT + 4096; i++)
			if (v->memory[i] != PATTERN && (i < WRITABLE_AT || i >= WRITABLE_AT + WINDOW_BYTES) &&
			    (i < READ_AT || i >= READ_AT + READ_BYTES))
				fail_msg("seed %u: byte %zu of the victim's memory changed", seed, i);
		v->ep->ops->disconnect(v->ep);
		pump(v);
		assert_int_equal(v->ep->state, RDMA_EP_IDLE);
		teardown(state);
	}
}

/* ---- set-up: the victim connects to something strange ---- */

struct strange {
	const char *name;
	const char *bytes;
	size_t len;
	bool hang_up;
	int error;
	const char *why;
};

#define REP "MPA ID Rep Frame"
#define BYTES(s) s, sizeof s - 1
static const struct strange strange_servers[] = {
	{"ssh", BYTES("SSH-2.0-OpenSSH_9.2p1\r\n"), false, -EPROTO, "not an iWARP server"},
	{"TLS", BYTES("\x15\x03\x03\x00\x02\x02\x46"), false, -EPROTO, "not an iWARP server"},
	{"one wrong byte", BYTES("M\0"), false, -EPROTO, "not an iWARP server"},
	{"hangs up", BYTES(""), true, -EPROTO, "not an iWARP server"},
	{"hangs up halfway", BYTES("MPA ID Rep"), true, -EPROTO, "not an iWARP server"},
	{"a request", BYTES("MPA ID Req Frame\x50\x02\x00\x04\0\1\0\1"), false, -EPROTO,
	 "not an iWARP server"},
	{"revision 1", BYTES(REP "\x40\x01\x00\x00"), false, -EPROTO, "revision 1"},
	{"revision 3", BYTES(REP "\x50\x03\x00\x04\0\1\0\1"), false, -EPROTO, "revision 3"},
	{"not enhanced", BYTES(REP "\x40\x02\x00\x00"), false, -EPROTO, "revision 2"},
	{"markers", BYTES(REP "\xd0\x02\x00\x04\0\1\0\1"), false, -EPROTO, "markers"},
	{"enhanced without data", BYTES(REP "\x50\x02\x00\x03\0\1\0"), false, -EPROTO, "malformed"},
	{"too much private data", BYTES(REP "\x50\x02\x02\x01\0\1\0\1"), false, -EPROTO, "too much"},
	{"rejected", BYTES(REP "\x70\x02\x00\x04\0\1\0\1"), false, -EACCES, "rejected"},
	{"rejected, old", BYTES(REP "\x20\x01\x00\x00"), false, -EACCES, "rejected"},
	{"rejected, with a reason", BYTES(REP "\x70\x02\x00\x08\0\1\0\1full"), false, -EACCES,
	 "rejected the connection: full"},
	{"rejected, with bytes", BYTES(REP "\x70\x02\x00\x06\0\1\0\1\x1b["), false, -EACCES, "(MPA reply)"},
};

static void strange_servers_are_named(void **state)
{
	for (size_t i = 0; i < sizeof strange_servers / sizeof *strange_servers; i++) {
		const struct strange *s = &strange_servers[i];
		struct sockaddr_in addr;
		print_message("  %s\n", s->name);
		setup_bare(state);
		struct victim *v = *state;
		assert_int_equal(peer_listen(&v->peer, &addr), 0);
		open_victim(v);
		start_connect(v, &addr);
		assert_int_equal(peer_accept(&v->peer), 0);
		turns(v);
		assert_int_equal(peer_send_raw(&v->peer, s->bytes, s->len), 0);
		if (s->hang_up)
			peer_hang_up(&v->peer);
		expect_end(v, s->error, s->why);
		v->ep->ops->disconnect(v->ep);
		assert_int_equal(v->ep->state, RDMA_EP_IDLE);
		teardown(state);
	}
}

static void silent_server_is_given_up(void **state)
{
	struct victim *v = *state;
	struct sockaddr_in addr;
	assert_int_equal(peer_listen(&v->peer, &addr), 0);
	open_victim(v);
	start_connect(v, &addr);
	assert_int_equal(peer_accept(&v->peer), 0);
	turns(v);
	assert_int_equal(v->ep->state, RDMA_EP_CONNECTING);
	v->now_ns = v->ep->timeout_ns - 1;
	turns(v);
	assert_int_equal(v->ep->state, RDMA_EP_CONNECTING);
	v->now_ns++;
	expect_end(v, -ETIMEDOUT, "not an iWARP server");
}

/* The next message of the victim's is an empty RDMA Write. */
static void expect_empty_write(struct victim *v)
{
	struct peer_fpdu *got = malloc(sizeof *got);
	assert_int_equal(peer_recv_fpdu(&v->peer, got), 0);
	assert_true(got->tagged && got->last);
	assert_int_equal(got->opcode, PEER_WRITE);
	assert_int_equal(got->len, 0);
	free(got);
}

/* See rpcrdma/softiwarp/wake.c. */
static void silent_peer_is_woken_until_it_speaks(void **state)
{
	struct victim *v = *state;
	struct rdma_sge sge;
	char message[8];
	victim_connects(v);
	arm(v);
	assert_int_equal(v->ep->timeout_ns, 0); /* nothing was sent: nothing is waited for */
	sge = sge_at(v, 0, 4);
	assert_int_equal(v->ep->ops->queue_send(v->ep, &sge, 1, 0, NULL), 0);
	assert_int_equal(v->ep->ops->doorbell(v->ep), 0);
	assert_int_equal(peer_recv_send(&v->peer, message, sizeof message), 4);
	for (int i = 0; i < 2; i++) {
		turns(v);
		v->now_ns = v->ep->timeout_ns;
		turns(v);
		expect_empty_write(v);
	}
	assert_int_equal(peer_send(&v->peer, "hi", 2, 0), 0);
	turns(v);
	assert_int_equal(v->ep->state, RDMA_EP_ESTABLISHED);
	assert_int_equal(v->ep->timeout_ns, 0);
}

static void a_peer_that_stays_silent_is_let_be(void **state)
{
	struct victim *v = *state;
	struct rdma_sge sge;
	int woken = 0;
	victim_connects(v);
	arm(v);
	sge = sge_at(v, 0, 4);
	assert_int_equal(v->ep->ops->queue_send(v->ep, &sge, 1, 0, NULL), 0);
	assert_int_equal(v->ep->ops->doorbell(v->ep), 0);
	turns(v);
	for (; v->ep->timeout_ns; woken++) {
		v->now_ns = v->ep->timeout_ns;
		turns(v);
	}
	assert_in_range(woken, 4, 8);
	assert_int_equal(v->ep->state, RDMA_EP_ESTABLISHED);
}

static void server_that_wants_more_reads_than_we_can(void **state)
{
	struct victim *v = *state;
	struct sockaddr_in addr;
	struct peer_mpa request, reply = {.reply = true,
					  .flags = PEER_MPA_CRC | PEER_MPA_ENHANCED | 2,
					  .ird = 1,
					  .ord = DEPTH + 1};
	assert_int_equal(peer_listen(&v->peer, &addr), 0);
	open_victim(v);
	start_connect(v, &addr);
	assert_int_equal(peer_accept(&v->peer), 0);
	assert_int_equal(peer_recv_mpa(&v->peer, &request), 0);
	assert_int_equal(peer_send_mpa(&v->peer, &reply), 0);
	expect_terminate(v, 2, 0, 6);
}

/* ---- set-up: something strange connects to the victim ---- */

#define REQ "MPA ID Req Frame"
static const struct strange strange_clients[] = {
	{"HTTP", BYTES("GET / HTTP/1.1\r\n\r\n"), false, -EPROTO, "does not speak MPA"},
	{"a reply", BYTES(REP "\x50\x02\x00\x04\0\1\0\1"), false, -EPROTO, "does not speak MPA"},
	{"hangs up", BYTES(""), true, -ECONNRESET, "closed"},
	{"hangs up halfway", BYTES("MPA ID Req Fram"), true, -ECONNRESET, "closed"},
	{"hangs up in the private data", BYTES(REQ "\x50\x02\x00\x0c\0\1\0\1abc"), true, -ECONNRESET,
	 "closed"},
	{"too much private data", BYTES(REQ "\x50\x02\xff\xff\0\1\0\1"), false, -EPROTO, "too much"},
	{"enhanced without data", BYTES(REQ "\x50\x02\x00\x00"), false, -EPROTO, "malformed"},
};

static void strange_clients_are_dropped(void **state)
{
	for (size_t i = 0; i < sizeof strange_clients / sizeof *strange_clients; i++) {
		const struct strange *s = &strange_clients[i];
		print_message("  %s\n", s->name);
		setup_listener(state);
		struct victim *v = *state;
		assert_int_equal(peer_connect(&v->peer, &v->addr), 0);
		assert_int_equal(peer_send_raw(&v->peer, s->bytes, s->len), 0);
		turns(v);
		if (s->hang_up)
			peer_hang_up(&v->peer);
		while (!v->ep)
			pump(v);
		expect_end(v, s->error, s->why);
		teardown(state);
	}
}

static const struct refused {
	const char *name;
	uint16_t flags;
	const char *reason;
} refused[] = {
	{"revision 0", 0, "revision 2"},
	{"revision 1", PEER_MPA_CRC | 1, "revision 2"},
	{"not enhanced", PEER_MPA_CRC | 2, "revision 2"},
	{"markers", PEER_MPA_MARKERS | PEER_MPA_ENHANCED | 2, "markers"},
};

static void unsuitable_clients_are_refused_with_a_reason(void **state)
{
	for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
		struct peer_mpa request = {.flags = refused[i].flags, .ird = 1, .ord = 1}, reply;
		print_message("  %s\n", refused[i].name);
		setup_listener(state);
		struct victim *v = *state;
		assert_int_equal(peer_connect(&v->peer, &v->addr), 0);
		assert_int_equal(peer_send_mpa(&v->peer, &request), 0);
		assert_int_equal(peer_recv_mpa(&v->peer, &reply), 0);
		assert_true(reply.reply);
		assert_true(reply.flags & PEER_MPA_REJECT);
		assert_int_equal(reply.flags & 0xff, refused[i].flags & 0xff);
		assert_non_null(memmem(reply.private_data, reply.private_len, refused[i].reason,
				       strlen(refused[i].reason)));
		assert_int_equal(peer_wait_closed(&v->peer), 0);
		expect_end(v, -ECONNABORTED, refused[i].reason);
		teardown(state);
	}
}

static void silent_client_is_given_up(void **state)
{
	struct victim *v = *state;
	assert_int_equal(peer_connect(&v->peer, &v->addr), 0);
	while (!v->ep)
		pump(v);
	v->now_ns = v->ep->timeout_ns;
	expect_end(v, -ETIMEDOUT, "no MPA request");
}

static const struct depths {
	uint16_t ird, ord; /* of the request, with control bits */
	uint16_t reply_ird, reply_ord;
	uint32_t in, out;
} depths[] = {
	{1, 2, 2, 1, 2, 1},
	{100, 100, DEPTH, DEPTH, DEPTH, DEPTH},
	{0, 0, 0, 0, 0, 0},
	{0x3fff, 0x3fff, 0x3fff, 0x3fff, DEPTH, DEPTH},
	/* peer to peer (A), ready to receive by: Write (C), Read (D), both, Send (B) */
	{0x8000 | 2, 0x8000 | 2, 0x8000 | 2, 0x8000 | 2, 2, 2},
	{0x8000 | 2, 0x4000 | 0, 0x8000 | 1, 0x4000 | 2, 1, 2},
	{0x8000 | 2, 0xc000 | 2, 0x8000 | 2, 0x8000 | 2, 2, 2},
	{0xc000 | 2, 2, 0x8000 | 2, 0x8000 | 2, 2, 2},
	/* without A the others mean nothing */
	{0x4000 | 2, 0xc000 | 2, 2, 2, 2, 2},
};

static void depths_and_ready_messages_are_negotiated(void **state)
{
	for (size_t i = 0; i < sizeof depths / sizeof *depths; i++) {
		struct peer_mpa reply, request = {.flags = PEER_MPA_ENHANCED | PEER_MPA_CRC | 2,
						  .ird = depths[i].ird,
						  .ord = depths[i].ord};
		setup_listener(state);
		struct victim *v = *state;
		assert_int_equal(peer_connect(&v->peer, &v->addr), 0);
		assert_int_equal(peer_send_mpa(&v->peer, &request), 0);
		assert_int_equal(peer_recv_mpa(&v->peer, &reply), 0);
		assert_int_equal(reply.flags, PEER_MPA_ENHANCED | PEER_MPA_CRC | 2);
		assert_int_equal(reply.ird, depths[i].reply_ird);
		assert_int_equal(reply.ord, depths[i].reply_ord);
		assert_int_equal(v->ep->limits.read_depth_in, depths[i].in);
		assert_int_equal(v->ep->limits.read_depth_out, depths[i].out);
		teardown(state);
	}
}

/* The passive side is silent until it has heard the active one; an empty RDMA Write, or Read, is enough. */
static void first_message_opens_the_passive_side(struct victim *v, bool read)
{
	uint8_t byte;
	struct rdma_sge sge = sge_at(v, 0, 5);
	assert_int_equal(v->ep->ops->queue_send(v->ep, &sge, 1, 0, v), 0);
	assert_int_equal(v->ep->ops->doorbell(v->ep), 0);
	turns(v);
	assert_int_equal(softiwarp_stats(v->ep)->bytes_out, 0);
	assert_int_equal(v->nwc, 0);
	if (read)
		assert_int_equal(peer_read_request(&v->peer, 0, 0, 0, 0, 0), 0);
	else
		assert_int_equal(peer_write(&v->peer, 0, 0, NULL, 0), 0);
	assert_int_equal(peer_recv_send(&v->peer, text, 100), 5);
	if (read)
		assert_int_equal(peer_read(&v->peer, 0, 0, &byte, 0),
				 -EPROTO); /* the first answer: to sink STag 0 */
	turns(v);
	assert_int_equal(v->nwc, 1);
}

static void empty_write_opens_the_passive_side(void **state)
{
	first_message_opens_the_passive_side(*state, false);
}

static void empty_read_opens_the_passive_side(void **state)
{
	first_message_opens_the_passive_side(*state, true);
}

static void client_that_does_not_wait_for_the_reply_is_served(void **state)
{
	struct victim *v = *state;
	struct peer_mpa request = {.flags = PEER_MPA_ENHANCED | PEER_MPA_CRC | 2, .ird = 1, .ord = 1}, reply;
	assert_int_equal(peer_connect(&v->peer, &v->addr), 0);
	assert_int_equal(peer_send_mpa(&v->peer, &request), 0);
	assert_int_equal(peer_write(&v->peer, 0, 0, NULL, 0), 0);
	assert_int_equal(peer_recv_mpa(&v->peer, &reply), 0);
	turns(v);
	assert_int_equal(v->ep->state, RDMA_EP_ESTABLISHED);
	assert_int_equal(v->ep->frames_in, 1);
}

#define BARE(f) cmocka_unit_test_setup_teardown(f, setup_bare, teardown)
#define CLIENT(f) cmocka_unit_test_setup_teardown(f, setup_client, teardown)
#define LISTENER(f) cmocka_unit_test_setup_teardown(f, setup_listener, teardown)
#define SERVER(f) cmocka_unit_test_setup_teardown(f, setup_server, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(hostile_frames_against_a_client),
		cmocka_unit_test(hostile_frames_against_a_server),
		CLIENT(stale_invalidate_is_refused),
		CLIENT(opcode_changes_within_a_message),
		CLIENT(stag_to_invalidate_changes_within_a_message),
		CLIENT(second_segment_repeats_the_offset),
		CLIENT(second_segment_overflows_the_receive),
		CLIENT(send_without_a_receive),
		CLIENT(corrupt_payload_is_not_delivered),
		cmocka_unit_test(bad_read_requests),
		CLIENT(more_reads_than_the_depth),
		CLIENT(invalidate_while_reading_is_refused),
		CLIENT(response_with_another_stag),
		CLIENT(response_at_another_offset),
		CLIENT(response_too_long),
		CLIENT(response_too_long_in_parts),
		CLIENT(response_too_short),
		CLIENT(write_to_the_sink_of_a_read),
		CLIENT(response_in_parts_is_taken),
		CLIENT(terminate_is_told_in_words),
		SERVER(terminate_with_headers_is_understood),
		CLIENT(unknown_terminate_is_told_in_numbers),
		CLIENT(short_terminate_is_one),
		CLIENT(terminate_is_read_even_when_sending_fails),
		CLIENT(terminate_follows_a_whole_frame),
		cmocka_unit_test(invalidated_window_is_written_no_further),
		CLIENT(rebound_window_does_not_take_the_rest),
		cmocka_unit_test(traffic_in_pieces_of_any_size),
		SERVER(a_turn_has_an_end),
		SERVER(a_plain_send_may_carry_any_invalidate_stag),
		LISTENER(set_up_in_single_bytes),
		LISTENER(what_came_before_the_answer_is_not_forgotten),
		cmocka_unit_test(input_cut_off_anywhere),
		cmocka_unit_test(random_frames_do_no_harm),
		BARE(crc_may_be_off),
		BARE(crc_is_on_when_one_side_wants_it),
		cmocka_unit_test(strange_servers_are_named),
		BARE(silent_server_is_given_up),
		BARE(server_that_wants_more_reads_than_we_can),
		BARE(silent_peer_is_woken_until_it_speaks),
		BARE(a_peer_that_stays_silent_is_let_be),
		cmocka_unit_test(strange_clients_are_dropped),
		cmocka_unit_test(unsuitable_clients_are_refused_with_a_reason),
		LISTENER(silent_client_is_given_up),
		cmocka_unit_test(depths_and_ready_messages_are_negotiated),
		SERVER(empty_write_opens_the_passive_side),
		SERVER(empty_read_opens_the_passive_side),
		LISTENER(client_that_does_not_wait_for_the_reply_is_served),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
