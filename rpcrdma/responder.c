/* SPDX-License-Identifier: MIT
 *
 * Normal operation. A message is received, decoded whole, and *planned*: what it needs of the arena (its read
 * chunks, the places from which its write and reply chunks will be filled) and of the send queue (its RDMA
 * Reads, later its RDMA Writes and one Send). It gets all of that at once, or waits in order holding none of
 * it; so whoever holds memory can always finish and give it back, and nothing can deadlock. Calls that need
 * no memory overtake those that wait for some. Then: RDMA Reads -> on_call() -> RDMA Writes and Send -> free.
 *
 * Ownership. A receive buffer belongs to its call until the reply is queued: msg may point into it. What the
 * RDMA Reads fetched is free from then on, too. The send buffer and what the RDMA Writes gather from belong
 * to the device until the Send's completion has been seen, which also covers the RDMA Writes before it.
 *
 * ORDER: a call's receive is posted again before the reply that lets the client send its next call.
 *
 * Recovery. There is none: whatever goes wrong on the connection ends it, and the client comes again.
 */
#include "responder.h"

#include "arena.h"
#include "header.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Receives beyond the credits, for messages that are no calls and get no answer (RFC 8166 §4.5). */
#define RECV_SPARE 4u
#define CREDITS_MAX 1024u
#define INLINE_UNIT 1024u
#define INLINE_MAX (256u * INLINE_UNIT) /* RFC 8797 §4.1: what its private data can say */
/* Beside a payload of the largest size, a long message holds its RPC and NFS headers. */
#define LONG_EXTRA_BYTES ARENA_PAGE_BYTES
/* The most requests that one call can have in the send queue: each segment of its write and reply chunks may
 * need one RDMA Write; a reply chunk is filled from three pieces (head, payload, tail), so that two more are
 * cut in two; and a Send. Its RDMA Reads are over before. */
#define CALL_SLOTS_MAX (2 * RPCRDMA_MAX_SEGS_DECODED + 2 + 1)
static_assert(CALL_SLOTS_MAX >= 2 * RPCRDMA_MAX_SEGS_DECODED, "the RDMA Reads of two chunks fit as well");
#define POLL_BATCH 16
#define PROGRESS_ROUNDS 16 /* a fair share: then other connections of the thread have their turn */

enum req_state {
	REQ_FREE,
	REQ_WAITING, /* planned; waits for memory and send-queue slots, holds neither */
	REQ_READING, /* its chunks are being fetched */
	REQ_CALLED,  /* the caller's, from on_call() to reply or drop */
	REQ_SENDING, /* the reply is queued; free when the Send has completed */
};

/* A run of the arena; addr NULL: none. */
struct run {
	uint8_t *addr;
	uint32_t len_bytes; /* as planned; the run itself is whole pages */
};

struct recv {
	struct recv *next; /* in the queue of received messages */
	uint8_t *addr;
	uint32_t len_bytes; /* of the message */
};

struct req {
	struct rpcrdma_svc_req call; /* what the caller sees; first, so that one is the other */
	enum req_state state;
	struct req *next; /* free, or waiting */
	struct rpcrdma_header header;
	uint32_t error; /* != 0: the message is to be answered with this RDMA_ERROR */
	struct recv *recv;
	struct run long_call, data; /* filled by RDMA Read */
	struct run write, reply;    /* RDMA Writes to the write and reply chunk come from here */
	uint32_t slots;		    /* of the send queue, held from admission to the end */
	unsigned int reads_left;
	uint8_t *send;	      /* inline_bytes: header and inline reply */
	uint8_t *small;	      /* inline_bytes: payload that goes inline */
	uint8_t *payload;     /* handed out by rpcrdma_svc_payload() */
	uint32_t payload_len; /* as asked for */
};

struct req_queue {
	struct req *head, **end;
};

struct recv_queue {
	struct recv *head, **end;
};

struct rpcrdma_svc {
	struct rpcrdma_svc_params params;
	struct rdma_ep *ep;
	struct fmrpool *pool; /* all registered memory: arena and buffers; no fmr of it is ever mapped */
	struct arena *arena;
	uint8_t *carve; /* the next free byte of the pool's buffers */

	bool accepted;
	bool over;
	bool queued;	     /* something waits for the doorbell */
	bool invalidate;     /* both sides set R: RFC 8797 §4.1 */
	uint32_t credits;    /* granted, constant */
	uint32_t send_max;   /* inline threshold towards the client: RFC 8797 §4.2 */
	uint32_t long_max;   /* largest run of the arena */
	uint32_t unanswered; /* calls received and not yet answered or dropped: <= credits */
	uint32_t slots_used;

	struct req *reqs, *free;
	struct recv *recvs;
	struct recv_queue received; /* messages that wait for a free struct req */
	struct req_queue waiting;
	struct rpcrdma_svc_stats stats;
};

static struct req *req_of(struct rpcrdma_svc_req *call)
{
	return (struct req *)call;
}

static uint32_t min_u32(uint64_t a, uint32_t b)
{
	return a < b ? (uint32_t)a : b;
}

/* Nothing can be sent any more. */
static bool gone(const struct rpcrdma_svc *svc)
{
	return svc->over || svc->ep->state != RDMA_EP_ESTABLISHED;
}

/* The connection is over because of what we saw; if the device has already ended it, its reason stands. */
static void fail(struct rpcrdma_svc *svc, int error, const char *why)
{
	if (svc->over)
		return;
	svc->over = true;
	if (svc->ep->state == RDMA_EP_CLOSED)
		return;
	svc->ep->ops->disconnect(svc->ep);
	svc->ep->error = error;
	snprintf(svc->ep->why, sizeof svc->ep->why, "%s", why);
}

/* Memory. */

static struct rdma_sge sge_of(const struct rpcrdma_svc *svc, void *addr, uint32_t len_bytes)
{
	const struct fmr_region *region = fmrpool_region(svc->pool, addr, len_bytes);
	assert(region);
	return (struct rdma_sge){.addr = addr, .len_bytes = len_bytes, .lkey = region->lkey};
}

static bool run_alloc(struct rpcrdma_svc *svc, struct run *run)
{
	if (!run->len_bytes)
		return true;
	run->addr = arena_alloc(svc->arena, run->len_bytes, ARENA_REPLY);
	return run->addr;
}

static void run_free(struct rpcrdma_svc *svc, struct run *run)
{
	if (run->addr)
		arena_free(svc->arena, run->addr, run->len_bytes, ARENA_REPLY);
	run->addr = NULL;
}

static void free_runs(struct rpcrdma_svc *svc, struct req *req)
{
	run_free(svc, &req->long_call);
	run_free(svc, &req->data);
	run_free(svc, &req->write);
	run_free(svc, &req->reply);
}

/* All runs of a call, or none. */
static bool alloc_runs(struct rpcrdma_svc *svc, struct req *req)
{
	if (run_alloc(svc, &req->long_call) && run_alloc(svc, &req->data) && run_alloc(svc, &req->write) &&
	    run_alloc(svc, &req->reply))
		return true;
	free_runs(svc, req);
	return false;
}

static bool needs_memory(const struct req *req)
{
	return req->long_call.len_bytes || req->data.len_bytes || req->write.len_bytes ||
	       req->reply.len_bytes;
}

static void forget_memory(struct req *req)
{
	req->long_call = req->data = req->write = req->reply = (struct run){0};
}

/* Receives. */

static void post_recv(struct rpcrdma_svc *svc, struct recv *recv)
{
	struct rdma_sge sge = sge_of(svc, recv->addr, svc->params.inline_bytes);
	int err = svc->ep->ops->queue_recv(svc->ep, &sge, recv);
	if (err)
		fail(svc, err, "cannot post a receive");
}

/* The call is answered, or never will be: the client may send another one. */
static void return_credit(struct rpcrdma_svc *svc, struct req *req)
{
	assert(svc->unanswered > 0);
	svc->unanswered--;
	if (!gone(svc))
		post_recv(svc, req->recv);
	req->recv = NULL;
	req->call.msg = NULL;
}

static void release(struct rpcrdma_svc *svc, struct req *req)
{
	free_runs(svc, req);
	svc->slots_used -= req->slots;
	req->slots = 0;
	req->state = REQ_FREE;
	req->next = svc->free;
	svc->free = req;
}

static void discard(struct rpcrdma_svc *svc, struct req *req)
{
	svc->stats.dropped++;
	return_credit(svc, req);
	release(svc, req);
}

/* Sending. */

static struct rpcrdma_header reply_header(const struct rpcrdma_svc *svc, const struct req *req, uint32_t proc)
{
	return (struct rpcrdma_header){
		.xid = req->header.xid, .vers = req->header.vers, .credits = svc->credits, .proc = proc};
}

/* The last of a call: what has been laid out in its send buffer leaves. */
static void queue_send(struct rpcrdma_svc *svc, struct req *req, size_t len_bytes, uint32_t invalidate)
{
	struct rdma_sge sge = sge_of(svc, req->send, (uint32_t)len_bytes);

	return_credit(svc, req);
	req->state = REQ_SENDING;
	if (svc->over)
		return;
	int err = svc->ep->ops->queue_send(svc->ep, &sge, 1, invalidate, req);
	if (err) {
		fail(svc, err, "cannot queue a Send");
		return;
	}
	svc->queued = true;
	svc->stats.invalidates += invalidate != 0;
}

/* RFC 8166 §4.5. Plain Send: nothing of the call has been used, the client invalidates. */
static void send_error(struct rpcrdma_svc *svc, struct req *req, uint32_t error)
{
	struct rpcrdma_header header = reply_header(svc, req, RDMA_ERROR);
	struct xdr_writer w = xdr_writer(req->send, svc->params.inline_bytes);

	header.error = error;
	header.vers_low = header.vers_high = RPCRDMA_VERSION;
	rpcrdma_header_encode(&w, &header);
	assert(!w.stuck);
	svc->stats.errors_sent++;
	queue_send(svc, req, xdr_written(&w), 0);
}

/* A stretch of bytes on its way into a chunk. */
struct piece {
	uint8_t *addr;
	uint32_t len_bytes;
};

static bool queue_write(struct rpcrdma_svc *svc, const struct piece *piece, const struct rpcrdma_segment *seg)
{
	struct rdma_sge sge = sge_of(svc, piece->addr, piece->len_bytes);
	int err = svc->ep->ops->queue_write(svc->ep, &sge, 1, seg->handle, seg->offset + seg->length, NULL);
	if (err) {
		fail(svc, err, "cannot queue an RDMA Write");
		return false;
	}
	svc->queued = true;
	svc->stats.writes++;
	svc->stats.write_bytes += piece->len_bytes;
	return true;
}

/* Fills the segments in order and leaves in each length what was placed there, 0 in those that were not used
 * (RFC 8166 §3.4.6). The pieces fit, that has been checked. */
static void fill_chunk(struct rpcrdma_svc *svc, struct rpcrdma_chunk *chunk, struct piece *pieces,
		       unsigned int n)
{
	for (uint32_t i = 0; i < chunk->nsegs; i++) {
		struct rpcrdma_segment *seg = &chunk->segs[i];
		uint32_t room = seg->length;

		seg->length = 0;
		while (room && n) {
			struct piece part = {pieces->addr, min_u32(pieces->len_bytes, room)};
			if (part.len_bytes && !queue_write(svc, &part, seg))
				return;
			seg->length += part.len_bytes;
			room -= part.len_bytes;
			pieces->addr += part.len_bytes;
			pieces->len_bytes -= part.len_bytes;
			if (!pieces->len_bytes) {
				pieces++;
				n--;
			}
		}
	}
}

/* The key to invalidate: the only one that the call carried, or 0. More than one: the client would have to
 * invalidate the others anyway, and could not tell which one we took. */
static uint32_t only_handle(const struct rpcrdma_header *h)
{
	const struct rpcrdma_chunk *const chunks[] = {&h->call_chunk, &h->read_chunk, &h->write_chunk,
						      &h->reply_chunk};
	uint32_t handle = 0;
	bool any = false;

	for (unsigned int c = 0; c < sizeof chunks / sizeof chunks[0]; c++) {
		for (uint32_t i = 0; i < chunks[c]->nsegs; i++) {
			if (any && chunks[c]->segs[i].handle != handle)
				return 0;
			handle = chunks[c]->segs[i].handle;
			any = true;
		}
	}
	return handle;
}

/* How a reply travels. */
struct reply_plan {
	bool by_write_chunk; /* the payload does */
	bool by_reply_chunk; /* the rest does: RDMA_NOMSG */
	uint32_t header_len;
	uint32_t pad;	  /* XDR padding behind the payload, when it is in the message */
	uint8_t *staging; /* by_reply_chunk: head and tail are laid out here */
};

/* The runs are whole pages. */
static uint32_t run_room(const struct run *run)
{
	return run->addr ? (run->len_bytes + ARENA_PAGE_BYTES - 1) / ARENA_PAGE_BYTES * ARENA_PAGE_BYTES : 0;
}

/* Registered room for len bytes of a long reply's head and tail: behind the header in the send buffer, or in
 * the reply's run behind the payload, if that is there. */
static uint8_t *stage(struct rpcrdma_svc *svc, struct req *req, uint32_t header_len, uint64_t len)
{
	if (header_len + len <= svc->params.inline_bytes)
		return req->send + header_len;
	uint32_t used = 0;
	if (req->payload && req->payload == req->reply.addr)
		used = req->payload_len + xdr_pad(req->payload_len);
	if (len > run_room(&req->reply) - used)
		return NULL;
	return req->reply.addr + used;
}

/* False: there is no way for it. */
static bool plan_reply(struct rpcrdma_svc *svc, struct req *req, const struct rpcrdma_svc_reply *reply,
		       struct reply_plan *plan)
{
	struct rpcrdma_header header = reply_header(svc, req, RDMA_MSG);
	uint64_t ends = (uint64_t)reply->head_len + reply->tail_len, message = ends;

	header.write_chunk.nsegs = req->header.write_chunk.nsegs;
	header.reply_chunk.nsegs = req->header.reply_chunk.nsegs;
	*plan = (struct reply_plan){.header_len = rpcrdma_header_size(&header)};
	if (reply->payload_len && header.write_chunk.nsegs) {
		plan->by_write_chunk = true;
		if (reply->payload_len > rpcrdma_chunk_bytes(&req->header.write_chunk))
			return false;
	} else {
		plan->pad = xdr_pad(reply->payload_len);
		message += (uint64_t)reply->payload_len + plan->pad;
	}
	if (plan->header_len + message <= svc->send_max)
		return true;
	plan->by_reply_chunk = true;
	if (message > rpcrdma_chunk_bytes(&req->header.reply_chunk))
		return false;
	plan->staging = stage(svc, req, plan->header_len, ends);
	return plan->staging;
}

static uint8_t *put(uint8_t *to, const void *from, uint32_t len_bytes)
{
	if (len_bytes)
		memcpy(to, from, len_bytes);
	return to + len_bytes;
}

/* Lays head, payload and tail out behind the header; the length of it all. */
static size_t lay_out_inline(struct req *req, const struct rpcrdma_svc_reply *reply,
			     const struct reply_plan *plan)
{
	uint8_t *to = req->send + plan->header_len;

	to = put(to, reply->head, reply->head_len);
	if (!plan->by_write_chunk) {
		to = put(to, reply->payload, reply->payload_len);
		to = put(to, "\0\0\0", plan->pad);
	}
	to = put(to, reply->tail, reply->tail_len);
	return (size_t)(to - req->send);
}

/* Queues the RDMA Writes of a long reply. The padding is written where it belongs, behind the payload: the
 * memory of rpcrdma_svc_payload() always has room for it. */
static void fill_reply_chunk(struct rpcrdma_svc *svc, struct req *req, const struct rpcrdma_svc_reply *reply,
			     const struct reply_plan *plan)
{
	struct piece pieces[3] = {{plan->staging, reply->head_len}};
	unsigned int n = 1;

	uint8_t *tail = put(plan->staging, reply->head, reply->head_len);
	put(tail, reply->tail, reply->tail_len);
	if (reply->payload_len && !plan->by_write_chunk) {
		uint8_t *payload = req->payload + (reply->payload - req->payload);
		put(payload + reply->payload_len, "\0\0\0", plan->pad);
		pieces[n++] = (struct piece){payload, reply->payload_len + plan->pad};
	}
	pieces[n++] = (struct piece){tail, reply->tail_len};
	fill_chunk(svc, &req->header.reply_chunk, pieces, n);
}

static void send_reply(struct rpcrdma_svc *svc, struct req *req, const struct rpcrdma_svc_reply *reply,
		       const struct reply_plan *plan)
{
	uint32_t invalidate = svc->invalidate ? only_handle(&req->header) : 0;
	struct rpcrdma_header header = reply_header(svc, req, plan->by_reply_chunk ? RDMA_NOMSG : RDMA_MSG);
	size_t len = plan->header_len;

	if (plan->by_write_chunk) {
		struct piece piece = {req->payload + (reply->payload - req->payload), reply->payload_len};
		fill_chunk(svc, &req->header.write_chunk, &piece, 1);
	} else {
		fill_chunk(svc, &req->header.write_chunk, NULL, 0);
	}
	if (plan->by_reply_chunk) {
		fill_reply_chunk(svc, req, reply, plan);
	} else {
		fill_chunk(svc, &req->header.reply_chunk, NULL, 0);
		len = lay_out_inline(req, reply, plan);
	}
	header.write_chunk = req->header.write_chunk;
	header.reply_chunk = req->header.reply_chunk;
	struct xdr_writer w = xdr_writer(req->send, plan->header_len);
	rpcrdma_header_encode(&w, &header);
	assert(!w.stuck && xdr_written(&w) == plan->header_len);
	svc->stats.replies++;
	queue_send(svc, req, len, invalidate);
}

/* The caller's side. */

uint8_t *rpcrdma_svc_payload(struct rpcrdma_svc_req *call, uint32_t len_bytes)
{
	struct req *req = req_of(call);

	assert(req->state == REQ_CALLED && !req->payload);
	if (req->header.write_chunk.nsegs)
		req->payload = len_bytes <= req->write.len_bytes ? req->write.addr : NULL;
	else if (len_bytes <= call->svc->params.inline_bytes)
		req->payload = req->small;
	else if (len_bytes <= req->reply.len_bytes)
		req->payload = req->reply.addr;
	req->payload_len = len_bytes;
	return req->payload;
}

int rpcrdma_svc_reply(struct rpcrdma_svc_req *call, const struct rpcrdma_svc_reply *reply)
{
	struct req *req = req_of(call);
	struct rpcrdma_svc *svc = call->svc;
	struct reply_plan plan;

	assert(req->state == REQ_CALLED);
	assert(!reply->payload_len ||
	       (req->payload && reply->payload >= req->payload &&
		reply->payload + reply->payload_len <= req->payload + req->payload_len));
	if (gone(svc)) {
		discard(svc, req);
		return 0;
	}
	run_free(svc, &req->long_call);
	run_free(svc, &req->data);
	if (!plan_reply(svc, req, reply, &plan)) {
		send_error(svc, req, ERR_CHUNK);
		return -EMSGSIZE;
	}
	send_reply(svc, req, reply, &plan);
	return 0;
}

void rpcrdma_svc_drop(struct rpcrdma_svc_req *call)
{
	assert(req_of(call)->state == REQ_CALLED);
	discard(call->svc, req_of(call));
}

/* Calls. */

/* Bytes of the opaque whose length word stands before its place in the message. The chunk may or may not hold
 * the XDR padding (RFC 8166 §3.4.5.2); whatever else it holds is for the caller to refuse. */
static uint32_t data_len(const struct req *req)
{
	struct xdr_reader r = xdr_reader(req->call.msg + req->header.read_pos - 4, 4);
	uint32_t len = xdr_u32(&r), chunk = req->data.len_bytes;

	return chunk - len <= 3 && chunk == len + xdr_pad(len) ? len : chunk;
}

/* The largest message that can be returned to this call. */
static uint32_t reply_max(const struct rpcrdma_svc *svc, const struct req *req)
{
	struct rpcrdma_header header = reply_header(svc, req, RDMA_MSG);

	header.write_chunk.nsegs = req->header.write_chunk.nsegs;
	header.reply_chunk.nsegs = req->header.reply_chunk.nsegs;
	uint32_t size = rpcrdma_header_size(&header);
	uint32_t room = svc->send_max > size ? svc->send_max - size : 0;
	return room > req->reply.len_bytes ? room : req->reply.len_bytes;
}

/* The message is whole: hands it to the caller, who may answer at once. */
static void deliver(struct rpcrdma_svc *svc, struct req *req)
{
	struct rpcrdma_svc_req *call = &req->call;

	if (req->long_call.addr) {
		call->msg = req->long_call.addr;
		call->msg_len = req->long_call.len_bytes;
	}
	struct xdr_reader r = xdr_reader(call->msg, call->msg_len);
	if (xdr_u32(&r) != req->header.xid || !xdr_ok(&r)) { /* RFC 8166 §4.5.2 */
		send_error(svc, req, ERR_CHUNK);
		return;
	}
	if (req->data.addr) {
		call->data = req->data.addr;
		call->data_pos = req->header.read_pos;
		call->data_len = data_len(req);
	}
	call->write_chunk_bytes = req->write.len_bytes;
	call->reply_max = reply_max(svc, req);
	req->state = REQ_CALLED;
	svc->stats.calls++;
	svc->params.on_call(svc->params.ctx, call);
}

static bool queue_reads(struct rpcrdma_svc *svc, struct req *req, const struct rpcrdma_chunk *chunk,
			const struct run *run)
{
	uint8_t *to = run->addr;

	for (uint32_t i = 0; i < chunk->nsegs; i++) {
		const struct rpcrdma_segment *seg = &chunk->segs[i];
		struct rdma_sge sge = sge_of(svc, to, seg->length);
		int err = svc->ep->ops->queue_read(svc->ep, &sge, seg->handle, seg->offset, req);
		if (err) {
			fail(svc, err, "cannot queue an RDMA Read");
			return false;
		}
		to += seg->length;
		req->reads_left++;
		svc->queued = true;
		svc->stats.reads++;
		svc->stats.read_bytes += seg->length;
	}
	return true;
}

/* The call has all that it needs. */
static void start(struct rpcrdma_svc *svc, struct req *req)
{
	if (req->error) {
		send_error(svc, req, req->error);
		return;
	}
	if (!req->header.call_chunk.nsegs && !req->header.read_chunk.nsegs) {
		deliver(svc, req);
		return;
	}
	req->state = REQ_READING;
	if (queue_reads(svc, req, &req->header.call_chunk, &req->long_call))
		queue_reads(svc, req, &req->header.read_chunk, &req->data);
}

static void on_read(struct rpcrdma_svc *svc, struct req *req)
{
	assert(req->state == REQ_READING && req->reads_left > 0);
	if (--req->reads_left == 0)
		deliver(svc, req);
}

/* Memory and send-queue slots, all or nothing. One that overtakes leaves room for whoever waits in front. A
 * call that finds even the empty arena too small could wait forever: it is refused. */
static bool admit(struct rpcrdma_svc *svc, struct req *req, bool overtakes)
{
	uint32_t reserve = overtakes ? CALL_SLOTS_MAX : 0;

	if (overtakes && needs_memory(req))
		return false;
	if (svc->slots_used + req->slots + reserve > svc->ep->limits.max_send)
		return false;
	if (!alloc_runs(svc, req)) {
		if (arena_used_bytes(svc->arena, ARENA_REPLY))
			return false;
		forget_memory(req);
		req->error = ERR_CHUNK;
		req->slots = 1;
	}
	svc->slots_used += req->slots;
	return true;
}

static void admit_or_wait(struct rpcrdma_svc *svc, struct req *req)
{
	if (admit(svc, req, svc->waiting.head != NULL)) {
		start(svc, req);
		return;
	}
	req->state = REQ_WAITING;
	req->next = NULL;
	*svc->waiting.end = req;
	svc->waiting.end = &req->next;
}

static void start_waiting(struct rpcrdma_svc *svc)
{
	while (!svc->over && svc->waiting.head && admit(svc, svc->waiting.head, false)) {
		struct req *req = svc->waiting.head;
		svc->waiting.head = req->next;
		if (!svc->waiting.head)
			svc->waiting.end = &svc->waiting.head;
		start(svc, req);
	}
}

/* What the call needs; false: more than it can have, or chunks that cannot be right. */
static bool plan_call(struct rpcrdma_svc *svc, struct req *req)
{
	const struct rpcrdma_header *h = &req->header;
	uint64_t call = rpcrdma_chunk_bytes(&h->call_chunk), data = rpcrdma_chunk_bytes(&h->read_chunk);
	uint64_t message = h->proc == RDMA_MSG ? req->call.msg_len : call;

	if (call > svc->long_max ||
	    data > svc->params.max_io_bytes + xdr_pad((uint32_t)svc->params.max_io_bytes))
		return false;
	if (h->read_chunk.nsegs && h->read_pos > message)
		return false;
	req->long_call.len_bytes = (uint32_t)call;
	req->data.len_bytes = (uint32_t)data;
	req->write.len_bytes =
		min_u32(rpcrdma_chunk_bytes(&h->write_chunk), (uint32_t)svc->params.max_io_bytes);
	req->reply.len_bytes = min_u32(rpcrdma_chunk_bytes(&h->reply_chunk), svc->long_max);
	uint32_t reads = h->call_chunk.nsegs + h->read_chunk.nsegs;
	uint32_t sends = h->write_chunk.nsegs + (h->reply_chunk.nsegs ? h->reply_chunk.nsegs + 2 : 0) + 1;
	req->slots = reads > sends ? reads : sends;
	return true;
}

static void take_error(struct req *req, uint32_t error)
{
	req->error = error;
	req->slots = 1;
}

/* A message, decoded whole before anything is done about it. */
static void begin(struct rpcrdma_svc *svc, struct req *req, struct recv *recv)
{
	struct xdr_reader r = xdr_reader(recv->addr, recv->len_bytes);
	int err = rpcrdma_header_decode(&r, false, &req->header);

	req->recv = recv;
	req->error = 0;
	req->slots = 0;
	req->reads_left = 0;
	req->payload = NULL;
	req->payload_len = 0;
	forget_memory(req);
	req->call = (struct rpcrdma_svc_req){.svc = svc, .msg = r.pos, .msg_len = (uint32_t)xdr_left(&r)};
	/* Never answered: RFC 8166 §4.5, §4.6.2. */
	if (req->header.proc == RDMA_DONE || req->header.proc == RDMA_ERROR) {
		discard(svc, req);
		return;
	}
	if (err == -EPROTONOSUPPORT)
		take_error(req, ERR_VERS);
	else if (err || !plan_call(svc, req))
		take_error(req, ERR_CHUNK);
	admit_or_wait(svc, req);
}

static void start_received(struct rpcrdma_svc *svc)
{
	while (!svc->over && svc->received.head && svc->free) {
		struct recv *recv = svc->received.head;
		struct req *req = svc->free;

		svc->received.head = recv->next;
		if (!svc->received.head)
			svc->received.end = &svc->received.head;
		svc->free = req->next;
		begin(svc, req, recv);
	}
}

static void on_recv(struct rpcrdma_svc *svc, struct recv *recv, uint32_t len_bytes)
{
	if (len_bytes < RPCRDMA_HDR_MIN) { /* RFC 8166 §4.5: not even its XID can be trusted */
		svc->stats.dropped++;
		post_recv(svc, recv);
		return;
	}
	if (svc->unanswered == svc->credits) {
		fail(svc, -EPROTO, "the client sent more calls than it has credits");
		return;
	}
	svc->unanswered++;
	recv->len_bytes = len_bytes;
	recv->next = NULL;
	*svc->received.end = recv;
	svc->received.end = &recv->next;
}

/* The connection. */

static void on_completion(struct rpcrdma_svc *svc, const struct rdma_wc *wc)
{
	if (wc->status) {
		if (svc->ep->state == RDMA_EP_ESTABLISHED)
			fail(svc, wc->status, "a request failed at the device");
		return;
	}
	switch (wc->kind) {
	case RDMA_WC_RECV:
		on_recv(svc, wc->ctx, wc->len_bytes);
		break;
	case RDMA_WC_READ:
		on_read(svc, wc->ctx);
		break;
	case RDMA_WC_SEND:
		release(svc, wc->ctx);
		break;
	case RDMA_WC_WRITE:
	case RDMA_WC_INVALIDATE:
		break; /* none is asked for */
	}
}

static int poll_some(struct rpcrdma_svc *svc)
{
	struct rdma_wc wc[POLL_BATCH];
	int n = svc->ep->ops->poll(svc->ep, wc, POLL_BATCH);

	for (int i = 0; i < n && !svc->over; i++)
		on_completion(svc, &wc[i]);
	return n;
}

/* One doorbell for all replies and RDMA Reads that were queued; false when there was nothing. */
static bool flush(struct rpcrdma_svc *svc)
{
	if (!svc->queued || svc->over)
		return false;
	svc->queued = false;
	int err = svc->ep->ops->doorbell(svc->ep);
	if (err)
		fail(svc, err, "cannot send");
	return true;
}

/* The device may hold fewer receives than asked for: then fewer credits are granted. */
static int set_limits(struct rpcrdma_svc *svc)
{
	const struct rdma_limits *limits = &svc->ep->limits;

	if (limits->max_recv <= RECV_SPARE || limits->max_send < CALL_SLOTS_MAX + 1)
		return -ENOBUFS;
	if (svc->credits > limits->max_recv - RECV_SPARE)
		svc->credits = limits->max_recv - RECV_SPARE;
	return 0;
}

/* RFC 8797 §4: both sides say what they can take; the lesser of what one sends and the other takes holds. */
static void accept_connection(struct rpcrdma_svc *svc)
{
	struct rdma_ep *ep = svc->ep;
	struct rpcrdma_private theirs, ours = {.remote_invalidate = svc->params.remote_invalidate,
					       .send_bytes = svc->params.inline_bytes,
					       .recv_bytes = svc->params.inline_bytes};
	uint8_t priv[RPCRDMA_PRIVATE_BYTES];

	svc->accepted = true;
	rpcrdma_private_decode(ep->peer_private, ep->peer_private_len, &theirs);
	svc->send_max = min_u32(theirs.recv_bytes, svc->params.inline_bytes);
	svc->invalidate = svc->params.remote_invalidate && theirs.remote_invalidate;
	if (set_limits(svc)) {
		fail(svc, -ENOBUFS, "the device's queues are too short");
		return;
	}
	/* ORDER: before accept(), for the client may send as soon as it hears of it. */
	for (uint32_t i = 0; i < svc->credits + RECV_SPARE && !svc->over; i++)
		post_recv(svc, &svc->recvs[i]);
	if (svc->over)
		return;
	rpcrdma_private_encode(priv, &ours);
	int err = ep->ops->accept(ep, priv, sizeof priv);
	if (err)
		fail(svc, err, "cannot accept the connection");
}

bool rpcrdma_svc_progress(struct rpcrdma_svc *svc, uint64_t now_ns)
{
	if (svc->over)
		return false;
	bool more = svc->ep->ops->progress(svc->ep, now_ns);
	if (svc->ep->state == RDMA_EP_REQUESTED && !svc->accepted)
		accept_connection(svc);
	for (int round = 0; round < PROGRESS_ROUNDS && !rpcrdma_svc_closed(svc); round++) {
		int polled = poll_some(svc);
		start_waiting(svc);
		start_received(svc);
		if (!flush(svc) && !polled)
			return more;
	}
	return !rpcrdma_svc_closed(svc);
}

bool rpcrdma_svc_closed(const struct rpcrdma_svc *svc)
{
	return svc->over || svc->ep->state == RDMA_EP_CLOSED || svc->ep->state == RDMA_EP_IDLE;
}

const struct rdma_ep *rpcrdma_svc_endpoint(const struct rpcrdma_svc *svc)
{
	return svc->ep;
}

uint64_t rpcrdma_svc_next_timeout(const struct rpcrdma_svc *svc)
{
	return svc->ep->timeout_ns && !svc->over ? svc->ep->timeout_ns : UINT64_MAX;
}

const struct rpcrdma_svc_stats *rpcrdma_svc_stats(const struct rpcrdma_svc *svc)
{
	return &svc->stats;
}

/* Making and ending. */

static bool params_are_good(const struct rpcrdma_svc_params *p)
{
	return p->credits && p->credits <= CREDITS_MAX && p->inline_bytes >= INLINE_UNIT &&
	       p->inline_bytes <= INLINE_MAX && p->inline_bytes % INLINE_UNIT == 0 && p->max_io_bytes &&
	       p->max_io_bytes <= FMR_STRIPE_BYTES;
}

static size_t pages(size_t len_bytes)
{
	return (len_bytes + ARENA_PAGE_BYTES - 1) / ARENA_PAGE_BYTES * ARENA_PAGE_BYTES;
}

/* Per credit: a receive, a send buffer, one for small payloads; and what may be lost at the end of each
 * stripe, because no buffer crosses one. */
static size_t buffers_bytes(const struct rpcrdma_svc_params *p)
{
	size_t bytes = (size_t)p->inline_bytes * (3 * p->credits + RECV_SPARE);

	return bytes + p->inline_bytes * (bytes / (FMR_STRIPE_BYTES - p->inline_bytes) + 2);
}

static int make_pool(struct rpcrdma_svc *svc)
{
	const struct rpcrdma_svc_params *p = &svc->params;
	size_t largest = pages(p->max_io_bytes) + LONG_EXTRA_BYTES;

	if (largest > FMR_STRIPE_BYTES)
		largest = FMR_STRIPE_BYTES;
	svc->long_max = (uint32_t)largest;
	size_t arena = pages(p->arena_bytes), least = arena_min_bytes(largest);
	struct fmrpool_params params = {.strategy = FMR_WINDOW,
					.arena_bytes = arena > least ? arena : least,
					.max_io_bytes = largest,
					.buffers_bytes = buffers_bytes(p)};
	int err = fmrpool_create(&params, &svc->pool);
	if (err)
		return err;
	svc->arena = fmrpool_arena(svc->pool);
	svc->carve = (uint8_t *)fmrpool_buffers(svc->pool);
	return fmrpool_attach(svc->pool, &svc->ep->ops->fmr, svc->ep);
}

/* The next buffer of inline_bytes that lies in one stripe. */
static uint8_t *carve(struct rpcrdma_svc *svc)
{
	while (!fmrpool_region(svc->pool, svc->carve, svc->params.inline_bytes))
		svc->carve += INLINE_UNIT;
	uint8_t *buffer = svc->carve;
	svc->carve += svc->params.inline_bytes;
	return buffer;
}

static int make_buffers(struct rpcrdma_svc *svc)
{
	svc->reqs = calloc(svc->credits, sizeof *svc->reqs);
	svc->recvs = calloc(svc->credits + RECV_SPARE, sizeof *svc->recvs);
	if (!svc->reqs || !svc->recvs)
		return -ENOMEM;
	for (uint32_t i = 0; i < svc->credits + RECV_SPARE; i++)
		svc->recvs[i].addr = carve(svc);
	for (uint32_t i = svc->credits; i-- > 0;) {
		svc->reqs[i].send = carve(svc);
		svc->reqs[i].small = carve(svc);
		svc->reqs[i].next = svc->free;
		svc->free = &svc->reqs[i];
	}
	return 0;
}

int rpcrdma_svc_create(const struct rpcrdma_svc_params *params, struct rpcrdma_svc **out)
{
	struct rpcrdma_svc *svc = calloc(1, sizeof *svc);

	if (!svc) {
		params->ep->ops->close(params->ep);
		return -ENOMEM;
	}
	svc->params = *params;
	svc->ep = params->ep;
	svc->credits = params->credits;
	svc->received.end = &svc->received.head;
	svc->waiting.end = &svc->waiting.head;
	int err = params_are_good(params) ? make_pool(svc) : -EINVAL;
	if (!err)
		err = make_buffers(svc);
	if (err) {
		rpcrdma_svc_destroy(svc);
		return err;
	}
	*out = svc;
	return 0;
}

/* ORDER: the connection ends and what it had of our memory comes back, then the registrations go, then the
 * endpoint that they belong to, then the memory. */
void rpcrdma_svc_destroy(struct rpcrdma_svc *svc)
{
	struct rdma_wc wc[POLL_BATCH];

	if (!svc)
		return;
	svc->ep->ops->disconnect(svc->ep);
	while (svc->ep->ops->poll(svc->ep, wc, POLL_BATCH) > 0)
		;
	if (svc->pool)
		fmrpool_detach(svc->pool);
	svc->ep->ops->close(svc->ep);
	fmrpool_destroy(svc->pool);
	free(svc->recvs);
	free(svc->reqs);
	free(svc);
}
