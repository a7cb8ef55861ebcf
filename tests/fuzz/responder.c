/* SPDX-License-Identifier: MIT
 *
 * The server side of RPC-over-RDMA against a client that says anything: headers, chunks, keys, too many
 * calls, over the fake device. Input: 1 byte (bit 0: the client offers remote invalidation; bit 1: replies
 * come a turn later); then messages: length, 2 bytes, and the words.
 *
 * A word 0xffffff00 + f stands for something that the client has opened (enum field). What the client has
 * opened for reading, and what lies around what it has opened for writing, must not change; nothing may leak.
 */
#include "responder.h"
#include "fake_device.h"
#include "header.h"

#include "fuzz.h"

#include <errno.h>
#include <netinet/in.h>

enum field {
	FIELD_READ_KEY,
	FIELD_READ_HIGH, /* its offset */
	FIELD_READ_LOW,
	FIELD_WRITE_KEY,
	FIELD_WRITE_HIGH,
	FIELD_WRITE_LOW,
	FIELD_REPLY_KEY,
	FIELD_REPLY_HIGH,
	FIELD_REPLY_LOW,
	FIELDS,
};

#define KIB 1024u
#define PLACEHOLDER 0xffffff00u
#define MESSAGES_MAX 16u
#define CREDITS 4u
#define AREA_BYTES (8 * KIB)
#define PATTERN 0x5a

/* Each opened area has one behind it that is not. */
enum area { READABLE, READ_GUARD, WRITABLE, WRITE_GUARD, REPLY, REPLY_GUARD, AREAS };

static uint8_t memory[AREAS][AREA_BYTES];

static struct world {
	struct rdma_listener *listener;
	struct rdma_ep *client, *server;
	struct rpcrdma_svc *svc;
	struct rpcrdma_svc_req *held[CREDITS];
	unsigned int nheld;
	bool later;
	uint32_t fields[FIELDS];
} w;

/* ---- the upper layer ---- */

/* As much as there is room for. */
static void reply(struct rpcrdma_svc_req *req)
{
	static uint8_t head[AREA_BYTES];
	struct rpcrdma_svc_reply r = {.head = head};
	r.head_len = req->reply_max < sizeof head ? req->reply_max : sizeof head;
	memcpy(head, req->msg, 4);
	if (req->write_chunk_bytes) {
		uint8_t *payload = rpcrdma_svc_payload(req, req->write_chunk_bytes);
		require(payload);
		memset(payload, 1, req->write_chunk_bytes);
		r.payload = payload;
		r.payload_len = req->write_chunk_bytes;
	}
	int err = rpcrdma_svc_reply(req, &r);
	require(err == 0 || err == -EMSGSIZE);
}

static void on_call(void *ctx, struct rpcrdma_svc_req *req)
{
	require(req->msg_len >= 4);
	touch(req->msg, req->msg_len);
	if (req->data) {
		require(req->data_pos <= req->msg_len);
		touch(req->data, req->data_len);
	}
	if (!w.later) {
		reply(req);
		return;
	}
	require(w.nheld < CREDITS);
	w.held[w.nheld++] = req;
}

static void progress(void)
{
	for (int turn = 0; turn < 2; turn++)
		while (rpcrdma_svc_progress(w.svc, 0))
			;
	w.client->ops->progress(w.client, 0);
}

static void reply_to_held(void)
{
	for (unsigned int i = 0; i < w.nheld; i++)
		reply(w.held[i]);
	w.nheld = 0;
}

/* ---- the client ---- */

static void expose(enum area area, enum fmr_access access, enum field field)
{
	uint64_t offset;
	w.fields[field] = fake_expose(w.client, memory[area], AREA_BYTES, access, &offset);
	w.fields[field + 1] = (uint32_t)(offset >> 32);
	w.fields[field + 2] = (uint32_t)offset;
}

static uint32_t mend(uint32_t word)
{
	return word >= PLACEHOLDER && word < PLACEHOLDER + FIELDS ? w.fields[word - PLACEHOLDER] : word;
}

static void send_message(struct xdr_reader *in)
{
	uint8_t out[4 * KIB];
	struct xdr_writer o = xdr_writer(out, sizeof out);
	uint32_t len = take_u16(in) % (4 * KIB + 1);
	for (uint32_t at = 0; at + 4 <= len && xdr_left(in) >= 4; at += 4)
		xdr_put_u32(&o, mend(xdr_u32(in)));
	uint32_t odd = len & 3; /* bytes that make no word */
	if (odd && xdr_left(in) >= odd && xdr_written(&o) + odd <= sizeof out)
		memcpy(xdr_reserve(&o, odd), xdr_bytes(in, odd), odd);
	if (xdr_written(&o))
		fake_send_raw(w.client, out, (uint32_t)xdr_written(&o), 0);
}

/* Takes replies: always sound, whatever was asked. */
static void take_replies(void)
{
	static uint8_t message[4 * KIB];
	uint32_t key;
	int len;
	while ((len = fake_recv_raw(w.client, message, sizeof message, &key)) >= 0) {
		struct rpcrdma_header h;
		struct xdr_reader r = xdr_reader(message, (size_t)len);
		int err = rpcrdma_header_decode(&r, true, &h);
		require(err == 0 || err == -EPROTONOSUPPORT); /* ERR_VERS has the version of the call */
		require(h.credits >= 1);
	}
}

/* ---- the whole ---- */

static void open_world(bool invalidate)
{
	struct rdma_ep_params params = {.epoll_fd = -1};
	struct sockaddr_in addr = {.sin_family = AF_INET};
	const struct rpcrdma_private offer = {
		.remote_invalidate = invalidate, .send_bytes = 4 * KIB, .recv_bytes = 4 * KIB};
	uint8_t priv[RPCRDMA_PRIVATE_BYTES];
	fake_reset();
	require(fake_device.listen((struct sockaddr *)&addr, sizeof addr, &w.listener) == 0);
	addr.sin_port = htons(fake_device.listener_port(w.listener));
	require(fake_device.open(&params, &w.client) == 0);
	rpcrdma_private_encode(priv, &offer);
	fake_post_raw(w.client, MESSAGES_MAX + CREDITS, 4 * KIB);
	require(w.client->ops->connect(w.client, (struct sockaddr *)&addr, sizeof addr, priv, sizeof priv) ==
		0);
	require(fake_device.listener_accept(w.listener, &params, NULL, &w.server) == 0);
	const struct rpcrdma_svc_params svc = {.ep = w.server,
					       .credits = CREDITS,
					       .inline_bytes = 4 * KIB,
					       .arena_bytes = 128 * KIB,
					       .max_io_bytes = 16 * KIB,
					       .remote_invalidate = true,
					       .on_call = on_call};
	require(rpcrdma_svc_create(&svc, &w.svc) == 0);
	progress();
	require(w.client->state == RDMA_EP_ESTABLISHED);
	expose(READABLE, FMR_REMOTE_READ, FIELD_READ_KEY);
	expose(WRITABLE, FMR_REMOTE_WRITE, FIELD_WRITE_KEY);
	expose(REPLY, FMR_REMOTE_WRITE, FIELD_REPLY_KEY);
}

static void close_world(void)
{
	require(fake_counts(w.server)->misuses == 0);
	rpcrdma_svc_destroy(w.svc);
	w.client->ops->close(w.client);
	fake_device.listener_close(w.listener);
	require(fake_living() == 0);
}

static void check_area(enum area area)
{
	require(memory[area][0] == PATTERN);
	require(memcmp(memory[area], memory[area] + 1, AREA_BYTES - 1) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	struct xdr_reader in = xdr_reader(data, len);
	uint8_t how = take_u8(&in);
	memset(memory, PATTERN, sizeof memory);
	w = (struct world){.later = how & 2};
	open_world(how & 1);
	for (unsigned int i = 0; i < MESSAGES_MAX && xdr_left(&in) && !rpcrdma_svc_closed(w.svc); i++) {
		send_message(&in);
		progress();
		if (i & 1)
			reply_to_held();
		progress();
		take_replies();
	}
	reply_to_held();
	progress();
	close_world();
	check_area(READABLE);
	check_area(READ_GUARD);
	check_area(WRITE_GUARD);
	check_area(REPLY_GUARD);
	return 0;
}
