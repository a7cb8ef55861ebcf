/* SPDX-License-Identifier: MIT
 *
 * The client transport against a server that says anything at any time: what is made of a header, its chunks,
 * its credits and its invalidation, over the fake device. Input: steps, of 1 byte each (enum step) and for
 * some one more; a message has its length, 2 bytes, and its words behind it.
 *
 * A word 0xffffff00 + 16 * n + f stands for field f (enum field) of the n-th call that the server has
 * received.
 *
 * Whatever comes, each call ends once and is released once, nothing leaks, and no rule of the device is
 * broken.
 */
#include "arena.h"
#include "fake_device.h"
#include "header.h"
#include "rpcrdma.h"

#include "fuzz.h"

#include <errno.h>
#include <netinet/in.h>

enum step {
	STEP_CALL,	 /* and its kind, enum kind */
	STEP_MESSAGE,	 /* from the server */
	STEP_INVALIDATE, /* the same, with the key that the first word is or stands for */
	STEP_ABANDON,	 /* and which call */
	STEP_TIME,	 /* and how many seconds go by */
	STEP_DROP,
	STEPS,
};

enum kind { KIND_INLINE, KIND_READ, KIND_WRITE, KIND_LIST, KIND_LONG, KINDS };

enum field {
	FIELD_XID,
	FIELD_WRITE_HANDLE,
	FIELD_WRITE_LENGTH,
	FIELD_WRITE_OFFSET_HIGH,
	FIELD_WRITE_OFFSET_LOW,
	FIELD_REPLY_HANDLE,
	FIELD_REPLY_LENGTH,
	FIELD_REPLY_OFFSET_HIGH,
	FIELD_REPLY_OFFSET_LOW,
	FIELD_READ_HANDLE,
};

#define CALLS 8u
#define STEPS_MAX 40u
#define KIB 1024u
#define SECOND UINT64_C(1000000000)
#define FIELDS 0xffffff00u

struct one {
	struct rpcrdma_call *call;
	unsigned int done, released;
	bool abandoned;
	uint32_t in_max;
	enum kind kind;
};

static struct world {
	struct rdma_listener *listener;
	struct rpcrdma_xprt *x;
	struct rdma_ep *server;
	uint64_t now_ns, retry_ns;
	struct one calls[CALLS];
	unsigned int ncalls;
	struct rpcrdma_header taken[CALLS];
	unsigned int ntaken;
} w;

static void on_status(void *ctx, const struct rpcrdma_status *status)
{
	if (status->event == RPCRDMA_DOWN)
		w.retry_ns = status->retry_ns;
}

static void turn(void)
{
	rpcrdma_flush(w.x, w.now_ns);
	for (int i = 0; i < 6; i++)
		rpcrdma_progress(w.x, w.now_ns);
}

/* ---- the upper layer ---- */

static void on_done(struct rpcrdma_call *call)
{
	struct one *one = call->owner;
	one->done++;
	require(!one->abandoned && !one->released);
	require(call->status <= 0);
	if (call->status)
		return;
	require(call->reply_len >= 4 && call->in_len <= one->in_max);
	require(call->in_placed || call->in_len == 0);
	require(memcmp(call->reply, &(uint32_t){htonl(call->xid)}, 4) == 0);
	touch(call->reply, call->reply_len);
}

static void on_release(struct rpcrdma_call *call)
{
	((struct one *)call->owner)->released++;
}

static void describe(struct rpcrdma_call *call, struct one *one, char *memory)
{
	switch (one->kind) {
	case KIND_READ:
		call->in = (struct iovec){memory, 8 * KIB};
		one->in_max = 8 * KIB;
		break;
	case KIND_WRITE:
		call->out[0] = (struct iovec){memory, 8 * KIB};
		call->nout = 1;
		call->out_pos = call->msg_len;
		break;
	case KIND_LIST:
		call->reply_max = 6000;
		call->reply_buf = (struct iovec){memory, 8 * KIB};
		break;
	case KIND_LONG:
		call->msg_len = 1500;
		break;
	default:
		break;
	}
}

static void new_call(enum kind kind)
{
	if (w.ncalls == CALLS)
		return;
	struct rpcrdma_call *call = rpcrdma_call_get(w.x);
	char *memory = arena_alloc(rpcrdma_arena(w.x), 8 * KIB, ARENA_REPLY);
	require(call && memory);
	struct one *one = &w.calls[w.ncalls++];
	one->call = call;
	one->kind = kind;
	memset(call->msg, 0, RPCRDMA_MSG_BYTES);
	memcpy(call->msg, &(uint32_t){htonl(call->xid)}, 4);
	call->msg_len = 44;
	call->reply_max = 128;
	call->done = on_done;
	call->release = on_release;
	call->owner = one;
	describe(call, one, memory);
	rpcrdma_submit(call, w.now_ns);
}

static void abandon(unsigned int i)
{
	if (i >= w.ncalls || w.calls[i].abandoned || w.calls[i].done || w.calls[i].released)
		return;
	w.calls[i].abandoned = true;
	rpcrdma_call_abandon(w.calls[i].call);
}

/* ---- the server ---- */

static void accept_client(void)
{
	struct rdma_ep_params params = {.epoll_fd = -1};
	const struct rpcrdma_private offer = {
		.remote_invalidate = true, .send_bytes = KIB, .recv_bytes = KIB};
	uint8_t priv[RPCRDMA_PRIVATE_BYTES];
	w.now_ns += w.retry_ns;
	w.retry_ns = 0;
	turn();
	require(fake_device.listener_accept(w.listener, &params, NULL, &w.server) == 0);
	for (int i = 0; i < 3 && w.server->state != RDMA_EP_REQUESTED; i++)
		w.server->ops->progress(w.server, w.now_ns);
	rpcrdma_private_encode(priv, &offer);
	require(fake_post_raw(w.server, 64, KIB) == 0);
	require(w.server->ops->accept(w.server, priv, sizeof priv) == 0);
	w.server->ops->progress(w.server, w.now_ns);
	turn();
	require(rpcrdma_is_up(w.x));
	w.ntaken = 0;
}

/* Takes what the client has sent: always a sound header. */
static void take_calls(void)
{
	uint8_t message[KIB];
	uint32_t key;
	int len;
	w.server->ops->progress(w.server, w.now_ns);
	while ((len = fake_recv_raw(w.server, message, sizeof message, &key)) >= 0) {
		struct rpcrdma_header h;
		struct xdr_reader r = xdr_reader(message, (size_t)len);
		require(rpcrdma_header_decode(&r, false, &h) == 0);
		if (w.ntaken < CALLS)
			w.taken[w.ntaken++] = h;
	}
}

static uint32_t field_of(const struct rpcrdma_header *h, enum field field)
{
	const struct rpcrdma_segment *write = &h->write_chunk.segs[0], *reply = &h->reply_chunk.segs[0];
	const struct rpcrdma_segment *read = h->read_chunk.nsegs ? h->read_chunk.segs : h->call_chunk.segs;
	const uint32_t fields[16] = {
		[FIELD_XID] = h->xid,
		[FIELD_WRITE_HANDLE] = write->handle,
		[FIELD_WRITE_LENGTH] = write->length,
		[FIELD_WRITE_OFFSET_HIGH] = (uint32_t)(write->offset >> 32),
		[FIELD_WRITE_OFFSET_LOW] = (uint32_t)write->offset,
		[FIELD_REPLY_HANDLE] = reply->handle,
		[FIELD_REPLY_LENGTH] = reply->length,
		[FIELD_REPLY_OFFSET_HIGH] = (uint32_t)(reply->offset >> 32),
		[FIELD_REPLY_OFFSET_LOW] = (uint32_t)reply->offset,
		[FIELD_READ_HANDLE] = read->handle,
	};
	return fields[field & 15];
}

static uint32_t mend(uint32_t word)
{
	uint32_t call = word >> 4 & 15;
	return word >= FIELDS && call < w.ntaken ? field_of(&w.taken[call], word & 15) : word;
}

static void send_message(struct xdr_reader *in, bool invalidate)
{
	uint8_t out[KIB];
	struct xdr_writer o = xdr_writer(out, sizeof out);
	uint32_t len = take_u16(in) % (KIB + 1), key = 0;
	if (invalidate && xdr_left(in) >= 4)
		key = mend(xdr_u32(in));
	for (uint32_t at = 0; at + 4 <= len && xdr_left(in) >= 4; at += 4)
		xdr_put_u32(&o, mend(xdr_u32(in)));
	uint32_t odd = len & 3; /* bytes that make no word */
	if (xdr_left(in) >= odd && odd && (xdr_written(&o) + odd <= KIB))
		memcpy(xdr_reserve(&o, odd), xdr_bytes(in, odd), odd);
	if (xdr_written(&o))
		fake_send_raw(w.server, out, (uint32_t)xdr_written(&o),
			      key); /* which may end the connection */
}

/* ---- the whole ---- */

static void one_step(struct xdr_reader *in)
{
	switch (take_u8(in) % STEPS) {
	case STEP_CALL:
		new_call(take_u8(in) % KINDS);
		break;
	case STEP_MESSAGE:
		send_message(in, false);
		break;
	case STEP_INVALIDATE:
		send_message(in, true);
		break;
	case STEP_ABANDON:
		abandon(take_u8(in));
		break;
	case STEP_TIME:
		w.now_ns += take_u8(in) % 40 * SECOND;
		break;
	default:
		fake_drop(w.server, -ECONNRESET, "");
		break;
	}
	turn();
	if (rpcrdma_is_up(w.x)) {
		require(rpcrdma_next_timeout(w.x) > w.now_ns);
		take_calls();
		return;
	}
	w.server->ops->close(w.server);
	accept_client();
	take_calls();
}

static void open_world(bool soft)
{
	struct rpcrdma_params params = {
		.device = &fake_device,
		.addr_len = sizeof(struct sockaddr_in),
		.epoll_fd = -1,
		.strategy = FMR_WINDOW,
		.credits = 4,
		.inline_bytes = KIB,
		.calls = CALLS,
		.arena_bytes = 256 * KIB,
		.max_io_bytes = 16 * KIB,
		.xid_first = 7,
		.timeo_ns = 20 * SECOND,
		.retrans = 1,
		.soft = soft,
		.on_status = on_status,
	};
	struct sockaddr_in *in = (struct sockaddr_in *)&params.addr;
	*in = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons(RPCRDMA_PORT)};
	fake_reset();
	w = (struct world){.now_ns = SECOND};
	require(fake_device.listen((struct sockaddr *)in, sizeof *in, &w.listener) == 0);
	require(rpcrdma_create(&params, &w.x) == 0);
	require(rpcrdma_connect(w.x, w.now_ns) == 0);
	accept_client();
}

static void close_world(void)
{
	require(fmrpool_stats(rpcrdma_pool(w.x))->in_use <= 2 * w.ncalls);
	require(fake_counts(rpcrdma_endpoint(w.x))->misuses == 0);
	require(fake_counts(rpcrdma_endpoint(w.x))->double_invalidates == 0);
	rpcrdma_destroy(w.x);
	w.server->ops->close(w.server);
	fake_device.listener_close(w.listener);
	require(fake_living() == 0);
	for (unsigned int i = 0; i < w.ncalls; i++) {
		require(w.calls[i].done == (w.calls[i].abandoned ? 0 : 1));
		require(w.calls[i].released == 1);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	struct xdr_reader in = xdr_reader(data, len);
	open_world(take_u8(&in) & 1);
	for (unsigned int i = 0; i < STEPS_MAX && xdr_left(&in); i++)
		one_step(&in);
	close_world();
	return 0;
}
