/* SPDX-License-Identifier: MIT
 *
 * A reply, from the caller's words to the Send: plan -> RDMA Writes -> Send.
 */
#include "svc.h"

#include "arena.h"

#include <errno.h>
#include <string.h>

struct rpcrdma_header req_reply_header(const struct rpcrdma_svc *svc, const struct req *req, uint32_t proc)
{
	return (struct rpcrdma_header){
		.xid = req->header.xid, .vers = req->header.vers, .credits = svc->credits, .proc = proc};
}

/* The last of a call: what has been laid out in its send buffer leaves. */
static void queue_send(struct rpcrdma_svc *svc, struct req *req, size_t len_bytes, uint32_t invalidate)
{
	struct rdma_sge sge = svc_sge(svc, req->send, (uint32_t)len_bytes);

	req_return_credit(svc, req);
	req->state = REQ_SENDING;
	if (svc->over)
		return;
	int err = svc->ep->ops->queue_send(svc->ep, &sge, 1, invalidate, req);
	if (err) {
		svc_fail(svc, err, "cannot queue a Send");
		return;
	}
	svc->queued = true;
	svc->stats.invalidates += invalidate != 0;
}

/* RFC 8166 §4.5. Plain Send: nothing of the call has been used, the client invalidates. */
void req_send_error(struct rpcrdma_svc *svc, struct req *req, uint32_t error)
{
	struct rpcrdma_header header = req_reply_header(svc, req, RDMA_ERROR);
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
	struct rdma_sge sge = svc_sge(svc, piece->addr, piece->len_bytes);
	int err = svc->ep->ops->queue_write(svc->ep, &sge, 1, seg->handle, seg->offset + seg->length, NULL);
	if (err) {
		svc_fail(svc, err, "cannot queue an RDMA Write");
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
	struct rpcrdma_header header = req_reply_header(svc, req, RDMA_MSG);
	uint64_t ends = (uint64_t)reply->head_len + reply->tail_len, message = ends;

	header.write_chunk.nsegs = req->header.write_chunk.nsegs;
	header.reply_chunk.nsegs = req->header.reply_chunk.nsegs;
	*plan = (struct reply_plan){.header_len = rpcrdma_header_size(&header)};
	if (reply->payload_len && header.write_chunk.nsegs) {
		plan->by_write_chunk = true; /* and fits: rpcrdma_svc_payload() gave no more */
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
	struct rpcrdma_header header =
		req_reply_header(svc, req, plan->by_reply_chunk ? RDMA_NOMSG : RDMA_MSG);
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
	if (svc_gone(svc)) {
		req_discard(svc, req);
		return 0;
	}
	svc_run_free(svc, &req->long_call);
	svc_run_free(svc, &req->data);
	if (!plan_reply(svc, req, reply, &plan)) {
		req_send_error(svc, req, ERR_CHUNK);
		return -EMSGSIZE;
	}
	send_reply(svc, req, reply, &plan);
	return 0;
}

void rpcrdma_svc_drop(struct rpcrdma_svc_req *call)
{
	assert(req_of(call)->state == REQ_CALLED);
	req_discard(call->svc, req_of(call));
}
