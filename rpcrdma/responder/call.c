/* SPDX-License-Identifier: MIT
 *
 * A call, from its message to on_call(): receive -> decode -> plan -> admit -> fetch -> deliver.
 */
#include "svc.h"

#include "arena.h"

#include <errno.h>

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
	struct rpcrdma_header header = req_reply_header(svc, req, RDMA_MSG);

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
		req_send_error(svc, req, ERR_CHUNK);
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
		struct rdma_sge sge = svc_sge(svc, to, seg->length);
		int err = svc->ep->ops->queue_read(svc->ep, &sge, seg->handle, seg->offset, req);
		if (err) {
			svc_fail(svc, err, "cannot queue an RDMA Read");
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
		req_send_error(svc, req, req->error);
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

void req_on_read(struct rpcrdma_svc *svc, struct req *req)
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

	if (overtakes && req_needs_memory(req))
		return false;
	if (svc->slots_used + req->slots + reserve > svc->ep->limits.max_send)
		return false;
	if (!req_alloc_runs(svc, req)) {
		if (arena_used_bytes(svc->arena, ARENA_REPLY))
			return false;
		req_forget_memory(req);
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

void svc_start_waiting(struct rpcrdma_svc *svc)
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
	req_forget_memory(req);
	req->call = (struct rpcrdma_svc_req){.svc = svc, .msg = r.pos, .msg_len = (uint32_t)xdr_left(&r)};
	/* Never answered: RFC 8166 §4.5, §4.6.2. */
	if (req->header.proc == RDMA_DONE || req->header.proc == RDMA_ERROR) {
		req_discard(svc, req);
		return;
	}
	if (err == -EPROTONOSUPPORT)
		take_error(req, ERR_VERS);
	else if (err || !plan_call(svc, req))
		take_error(req, ERR_CHUNK);
	admit_or_wait(svc, req);
}

void svc_start_received(struct rpcrdma_svc *svc)
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

void svc_on_recv(struct rpcrdma_svc *svc, struct recv *recv, uint32_t len_bytes)
{
	if (len_bytes < RPCRDMA_HDR_MIN) { /* RFC 8166 §4.5: not even its XID can be trusted */
		svc->stats.dropped++;
		svc_post_recv(svc, recv);
		return;
	}
	if (svc->unanswered == svc->credits) {
		svc_fail(svc, -EPROTO, "the client sent more calls than it has credits");
		return;
	}
	svc->unanswered++;
	recv->len_bytes = len_bytes;
	recv->next = NULL;
	*svc->received.end = recv;
	svc->received.end = &recv->next;
}
