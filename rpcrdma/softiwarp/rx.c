/* SPDX-License-Identifier: MIT
 *
 * Receiving, the side that faces a hostile peer. An FPDU takes three steps: its header is collected and
 * everything in it is checked (one function per kind of message, in a table); its payload goes straight from
 * the socket to where the header said; its trailer is checked, and only then is it delivered: a request
 * answered, a receive completed, a window invalidated. Placing before the CRC has been seen is what RFC 5044
 * allows, delivering is not.
 *
 * Reading. Between messages one recv() fills the stage, with many small FPDUs perhaps; payload that lies
 * there is copied out. While payload is missing, one readv() takes it to its place and a few bytes more to
 * the stage: this FPDU's trailer and the next one's header; behind the last segment of a message, more, since
 * something small is likely to follow.
 *
 * ORDER: between two reads the upper layer may have invalidated the window that is being written (its STag
 * changed), so this is asked again before each placement. Once it has changed the rest of the segment is
 * dropped: the segment was right when it began, and the next one that names the old STag ends the stream.
 *
 * A violation ends the stream at once (ep_violation), so no step goes on after one.
 */
#include "crc32c.h"
#include "endpoint.h"
#include "wire.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

static uint32_t staged(const struct rx *rx)
{
	return rx->stage_tail - rx->stage_head;
}

/* ---- header: what each kind of message must satisfy before a byte is placed. FAULT_NONE, rx->place set; or
 * the fault. ---- */

static uint32_t check_write(struct endpoint *ep)
{
	static const uint32_t faults[] = {
		[STAG_OK] = FAULT_NONE,
		[STAG_INVALID] = FAULT_DDP_INVALID_STAG,
		[STAG_ACCESS] =
			FAULT_DDP_INVALID_STAG, /* DDP has no code for access; siw gives this one too */
		[STAG_WRAP] = FAULT_DDP_WRAP,
		[STAG_BOUNDS] = FAULT_DDP_BOUNDS,
	};
	struct rx *rx = &ep->rx;
	if (!rx->payload_len)
		return FAULT_NONE; /* nothing to place: nothing to check (RFC 5041 §7.1) */
	rx->target_stag = rx->header.stag;
	return faults[stag_check(&ep->stags, rx->header.stag, rx->header.offset, rx->payload_len,
				 FMR_REMOTE_WRITE, &rx->place, &rx->target)];
}

static uint32_t check_read_response(struct endpoint *ep)
{
	struct rx *rx = &ep->rx;
	struct reads *reads = &ep->reads;
	if (reads->head == reads->sent)
		return FAULT_RDMAP_OPCODE; /* nothing was asked for */
	const struct read_req *read = &reads->ring[reads->head & reads->mask];
	if (rx->header.stag != read->sink_stag)
		return FAULT_DDP_INVALID_STAG;
	if (rx->header.offset != reads->placed)
		return FAULT_DDP_BOUNDS;
	uint32_t left = read->len_bytes - reads->placed;
	if (rx->payload_len > left)
		return FAULT_DDP_BOUNDS;
	if (rx->header.last && rx->payload_len < left)
		return FAULT_RDMAP_UNSPECIFIED; /* shorter than what was asked for */
	rx->place = read->addr + reads->placed;
	return FAULT_NONE;
}

static bool carries_invalidate(const struct ddp_header *h)
{
	return h->opcode == RDMAP_SEND_INVALIDATE || h->opcode == RDMAP_SEND_SE_INVALIDATE;
}

/* What all untagged messages have in common: sequence number, offset, one kind per message. The Invalidate
 * STag is ignored where it means nothing (RFC 5040 §4.1). */
static uint32_t check_sequence(struct endpoint *ep)
{
	const struct ddp_header *h = &ep->rx.header;
	const struct rx_queue *q = &ep->rx.queues[h->queue];
	if (h->msn != q->msn)
		return FAULT_DDP_MSN;
	if (h->offset != q->done)
		return FAULT_DDP_OFFSET;
	if (q->under_way && (h->opcode != q->opcode || (carries_invalidate(h) && h->stag != q->stag)))
		return FAULT_RDMAP_OPCODE;
	return FAULT_NONE;
}

static uint32_t check_fits(struct rx *rx, char *buffer, uint32_t size)
{
	const struct rx_queue *q = &rx->queues[rx->header.queue];
	if (rx->payload_len > size - q->done)
		return FAULT_DDP_TOO_LONG;
	rx->place = buffer + q->done;
	return FAULT_NONE;
}

static uint32_t check_send(struct endpoint *ep)
{
	uint32_t fault = check_sequence(ep);
	if (fault)
		return fault;
	if (ep->recvs.head == ep->recvs.tail)
		return FAULT_DDP_NO_BUFFER;
	const struct recv_req *recv = &ep->recvs.ring[ep->recvs.head & ep->recvs.mask];
	return check_fits(&ep->rx, recv->addr, recv->len_bytes);
}

static uint32_t check_read_request(struct endpoint *ep)
{
	uint32_t fault = check_sequence(ep);
	if (fault)
		return fault;
	if (ep->answering >= ep->ep.limits.read_depth_in)
		return FAULT_DDP_NO_BUFFER; /* more than the IRD that we gave */
	return check_fits(&ep->rx, ep->rx.read_request, sizeof ep->rx.read_request);
}

static uint32_t check_terminate(struct endpoint *ep)
{
	uint32_t fault = check_sequence(ep);
	return fault ? fault : check_fits(&ep->rx, ep->rx.terminate, sizeof ep->rx.terminate);
}

/* ---- delivery: the segment is whole and its CRC is right ---- */

static void deliver_write(struct endpoint *ep)
{
}

static void deliver_read_response(struct endpoint *ep)
{
	struct reads *reads = &ep->reads;
	reads->placed += ep->rx.payload_len;
	if (!ep->rx.header.last)
		return;
	reads->placed = 0;
	ep_complete(ep, RDMA_WC_READ, 0, reads->ring[reads->head++ & reads->mask].ctx);
	tx_ask_reads(ep);
}

/* Counts the segment; true when it was the message's last, of so many bytes. */
static bool ends_message(struct rx *rx, uint32_t *len_bytes)
{
	struct rx_queue *q = &rx->queues[rx->header.queue];
	q->done += rx->payload_len;
	q->under_way = !rx->header.last;
	q->opcode = rx->header.opcode;
	q->stag = rx->header.stag;
	if (q->under_way)
		return false;
	*len_bytes = q->done;
	q->done = 0;
	q->msn++;
	return true;
}

/* The peer gives a window back. It must not still be reading from it: we have not sent what it asked for. */
static uint32_t remote_invalidate(struct endpoint *ep, uint32_t stag)
{
	struct stag_entry *window = stag_find(&ep->stags, stag);
	if (!window || window->kind != STAG_WINDOW || window->readers)
		return FAULT_RDMAP_INVALIDATE;
	stag_unbind(window);
	return FAULT_NONE;
}

static void deliver_send(struct endpoint *ep)
{
	struct rx *rx = &ep->rx;
	struct rdma_wc wc = {.kind = RDMA_WC_RECV};
	if (!ends_message(rx, &wc.len_bytes))
		return;
	if (carries_invalidate(&rx->header)) {
		uint32_t fault = remote_invalidate(ep, rx->header.stag);
		if (fault) {
			ep_violation(ep, fault, true);
			return;
		}
		wc.invalidated = true;
		wc.invalidated_rkey = rx->header.stag;
	}
	wc.ctx = ep->recvs.ring[ep->recvs.head++ & ep->recvs.mask].ctx;
	ep_complete_wc(ep, &wc);
}

/* Where the answer to a Read Request is, or why there is none (RFC 5040 §7.2). */
static uint32_t find_source(struct endpoint *ep, const struct rdmap_read_request *r, char **addr,
			    struct stag_entry **source)
{
	static const uint32_t faults[] = {
		[STAG_OK] = FAULT_NONE,
		[STAG_INVALID] = FAULT_RDMAP_INVALID_STAG,
		[STAG_ACCESS] = FAULT_RDMAP_ACCESS,
		[STAG_WRAP] = FAULT_RDMAP_WRAP,
		[STAG_BOUNDS] = FAULT_RDMAP_BOUNDS,
	};
	if (r->sink_offset + r->len_bytes < r->sink_offset)
		return FAULT_RDMAP_WRAP;
	return faults[stag_check(&ep->stags, r->source_stag, r->source_offset, r->len_bytes, FMR_REMOTE_READ,
				 addr, source)];
}

static void deliver_read_request(struct endpoint *ep)
{
	uint32_t len;
	if (!ends_message(&ep->rx, &len))
		return;
	if (len != RDMAP_READ_REQUEST_BYTES) {
		ep_violation(ep, FAULT_RDMAP_UNSPECIFIED, true);
		return;
	}
	struct rdmap_read_request r;
	rdmap_read_request_decode((const uint8_t *)ep->rx.read_request, &r);
	char *addr = NULL;
	struct stag_entry *source = NULL; /* an empty one names no memory: not validated, RFC 5040 §5.2.1 */
	uint32_t fault = r.len_bytes ? find_source(ep, &r, &addr, &source) : FAULT_NONE;
	if (fault) {
		ep_violation(ep, fault, true);
		return;
	}
	*tx_slot(ep) = (struct tx_msg){
		.kind = TX_READ_RESPONSE,
		.opcode = RDMAP_READ_RESPONSE,
		.stag = r.sink_stag,
		.offset = r.sink_offset,
		.len_bytes = r.len_bytes,
		.source = source,
		.nsge = 1,
		.sge[0] = {addr, r.len_bytes},
	};
	ep->tx.tail++;
	ep->answering++;
	if (source)
		source->readers++;
}

static void deliver_terminate(struct endpoint *ep)
{
	uint32_t len;
	if (!ends_message(&ep->rx, &len))
		return;
	ep->stats.terminates_in++;
	uint32_t fault = len >= RDMAP_TERMINATE_MIN ? rdmap_terminate_fault((uint8_t *)ep->rx.terminate) : 0;
	const char *text = fault_text(fault);
	if (text)
		ep_end(ep, -EREMOTEIO, "the peer ended the connection with a Terminate: %s", text);
	else
		ep_end(ep, -EREMOTEIO,
		       "the peer ended the connection with a Terminate: layer %u, type %u, code %u",
		       FAULT_LAYER(fault), FAULT_TYPE(fault), FAULT_CODE(fault));
}

/* ---- the kinds of message (RFC 5040 §4.1) ---- */

static const struct message_kind {
	bool tagged;
	uint32_t queue; /* untagged */
	uint32_t (*check)(struct endpoint *ep);
	void (*deliver)(struct endpoint *ep);
} kinds[RDMAP_OPCODES] = {
	[RDMAP_WRITE] = {true, 0, check_write, deliver_write},
	[RDMAP_READ_REQUEST] = {false, DDP_QUEUE_READ, check_read_request, deliver_read_request},
	[RDMAP_READ_RESPONSE] = {true, 0, check_read_response, deliver_read_response},
	[RDMAP_SEND] = {false, DDP_QUEUE_SEND, check_send, deliver_send},
	[RDMAP_SEND_INVALIDATE] = {false, DDP_QUEUE_SEND, check_send, deliver_send},
	[RDMAP_SEND_SE] = {false, DDP_QUEUE_SEND, check_send, deliver_send},
	[RDMAP_SEND_SE_INVALIDATE] = {false, DDP_QUEUE_SEND, check_send, deliver_send},
	[RDMAP_TERMINATE] = {false, DDP_QUEUE_TERMINATE, check_terminate, deliver_terminate},
};

/* What every segment must satisfy. */
static uint32_t check_segment(struct endpoint *ep)
{
	const struct ddp_header *h = &ep->rx.header;
	if (h->ddp_version != DDP_VERSION)
		return h->tagged ? FAULT_DDP_TAGGED_VERSION : FAULT_DDP_UNTAGGED_VERSION;
	if (!h->tagged && h->queue >= DDP_QUEUES)
		return FAULT_DDP_QUEUE;
	if (h->rdmap_version != RDMAP_VERSION)
		return FAULT_RDMAP_VERSION;
	if (h->opcode >= RDMAP_OPCODES || kinds[h->opcode].tagged != h->tagged)
		return FAULT_RDMAP_OPCODE;
	if (!h->tagged && kinds[h->opcode].queue != h->queue)
		return FAULT_DDP_QUEUE;
	return kinds[h->opcode].check(ep);
}

/* ---- the steps: true when they moved on, false when they need more input (or the connection is
 * over) ---- */

static bool step_header(struct endpoint *ep)
{
	struct rx *rx = &ep->rx;
	const uint8_t *p = rx->stage + rx->stage_head;
	if (staged(rx) < MPA_LENGTH_BYTES + DDP_CONTROL_BYTES) /* the smallest FPDU is longer */
		return false;
	uint32_t ulpdu = get_be16(p);
	uint32_t header_len = ddp_header_bytes(p[MPA_LENGTH_BYTES]);
	if (ulpdu < header_len) {
		ep_violation(ep, FAULT_DDP_CATASTROPHIC, false);
		return false;
	}
	rx->raw_len = MPA_LENGTH_BYTES + header_len;
	if (staged(rx) < rx->raw_len)
		return false;
	memcpy(rx->raw, p, rx->raw_len);
	rx->stage_head += rx->raw_len;
	ddp_decode(rx->raw + MPA_LENGTH_BYTES, &rx->header);
	rx->payload_len = ulpdu - header_len;
	rx->payload_done = 0;
	rx->trailer_len = mpa_pad_bytes(ulpdu) + MPA_CRC_BYTES;
	rx->place = NULL;
	rx->target = NULL;
	uint32_t fault = check_segment(ep);
	if (fault) {
		ep_violation(ep, fault, true);
		return false;
	}
	if (ep->crc)
		rx->crc = crc32c(0, rx->raw, rx->raw_len);
	rx->step = RX_PAYLOAD;
	return true;
}

/* Where payload goes now: NULL when its window has been invalidated since. */
static char *place_now(struct rx *rx)
{
	if (rx->target && rx->target->stag != rx->target_stag)
		rx->place = NULL;
	return rx->place ? rx->place + rx->payload_done : NULL;
}

static bool step_payload(struct endpoint *ep)
{
	struct rx *rx = &ep->rx;
	uint32_t left = rx->payload_len - rx->payload_done;
	uint32_t n = staged(rx) < left ? staged(rx) : left;
	if (n) {
		const uint8_t *from = rx->stage + rx->stage_head;
		char *to = place_now(rx);
		if (to)
			memcpy(to, from, n);
		if (ep->crc)
			rx->crc = crc32c(rx->crc, from, n);
		rx->stage_head += n;
		rx->payload_done += n;
	}
	if (rx->payload_done < rx->payload_len)
		return false;
	rx->step = RX_TRAILER;
	return true;
}

static bool step_trailer(struct endpoint *ep)
{
	struct rx *rx = &ep->rx;
	if (staged(rx) < rx->trailer_len)
		return false;
	const uint8_t *trailer = rx->stage + rx->stage_head;
	uint32_t pad = rx->trailer_len - MPA_CRC_BYTES;
	rx->stage_head += rx->trailer_len;
	if (ep->crc && crc32c(rx->crc, trailer, pad) != get_le32(trailer + pad)) {
		ep->stats.crc_errors++;
		ep_violation(ep, FAULT_MPA_CRC, false);
		return false;
	}
	ep->ep.frames_in++;
	rx->heard = true;
	rx->step = RX_HEADER;
	kinds[rx->header.opcode].deliver(ep);
	return ep->ep.state == RDMA_EP_ESTABLISHED;
}

static bool (*const steps[RX_STEPS])(struct endpoint *ep) = {
	[RX_HEADER] = step_header,
	[RX_PAYLOAD] = step_payload,
	[RX_TRAILER] = step_trailer,
};

/* ---- reading ---- */

/* Payload that goes to its place without a stop, and a little behind it to the stage. */
static unsigned int payload_iovecs(struct rx *rx, struct iovec *iov)
{
	char *to = rx->step == RX_PAYLOAD ? place_now(rx) : NULL;
	if (!to) {
		iov[0] = (struct iovec){rx->stage + rx->stage_tail, RX_STAGE_BYTES - rx->stage_tail};
		return 1;
	}
	iov[0] = (struct iovec){to, rx->payload_len - rx->payload_done};
	iov[1] = (struct iovec){rx->stage, rx->header.last ? RX_STAGE_BYTES : RX_LOOKAHEAD_BYTES};
	return 2;
}

static void took(struct endpoint *ep, const struct iovec *iov, unsigned int niov, size_t n)
{
	struct rx *rx = &ep->rx;
	ep->stats.bytes_in += n;
	if (niov == 2) {
		size_t placed = n < iov[0].iov_len ? n : iov[0].iov_len;
		if (ep->crc)
			rx->crc = crc32c(rx->crc, iov[0].iov_base, placed);
		rx->payload_done += (uint32_t)placed;
		n -= placed;
	}
	rx->stage_tail += (uint32_t)n;
}

static void on_read_error_slow(struct endpoint *ep, ssize_t n)
{
	if (n == 0)
		ep_end(ep, -ECONNRESET, "the peer closed the connection");
	else
		ep_end(ep, -errno, "the connection was lost: %s", strerror(errno));
}

/* One read. Bytes taken; 0 when there is nothing now, or the connection is over. */
static size_t fill(struct endpoint *ep)
{
	struct rx *rx = &ep->rx;
	if (rx->stage_head) { /* what is left is less than a header or a trailer */
		memmove(rx->stage, rx->stage + rx->stage_head, staged(rx));
		rx->stage_tail = staged(rx);
		rx->stage_head = 0;
	}
	struct iovec iov[2];
	unsigned int niov = payload_iovecs(rx, iov);
	ssize_t n;
	do {
		n = readv(ep->fd, iov, (int)niov);
		ep->stats.receives++;
		ep->ep.syscalls++;
	} while (n < 0 && errno == EINTR);
	if (n > 0) {
		took(ep, iov, niov, (size_t)n);
		return (size_t)n;
	}
	if (n == 0 || errno != EAGAIN)
		on_read_error_slow(ep, n);
	return 0;
}

bool rx_run(struct endpoint *ep)
{
	size_t taken = 0;
	for (;;) {
		while (steps[ep->rx.step](ep))
			;
		if (ep->ep.state != RDMA_EP_ESTABLISHED)
			return false;
		if (taken >= RX_BUDGET_BYTES)
			return true;
		size_t n = fill(ep);
		if (!n)
			return false;
		taken += n;
	}
}
