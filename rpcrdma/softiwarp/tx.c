/* SPDX-License-Identifier: MIT
 *
 * Sending. A message waits in the ring until it is framed: cut into FPDUs, each a header and a trailer in a
 * slot of the frame ring around payload that stays where it is. What is framed hangs in one array of iovecs,
 * and one sendmsg() takes as much of it as the socket has room for. The rest waits for EPOLLOUT.
 *
 * A frame is framed only shortly before it is sent: its CRC covers the payload as it is then, and the pass
 * over it leaves it in the cache for the kernel's copy.
 *
 * ORDER: messages leave in the order in which they were queued, Read Responses among them; the segments of
 * two messages never mix. A request completes when the socket has taken its last byte: its memory is no
 * longer needed.
 */
#include "crc32c.h"
#include "endpoint.h"
#include "wire.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

static const struct {
	bool tagged;
	enum ddp_queue queue;
} shapes[] = {
	[TX_SEND] = {false, DDP_QUEUE_SEND},
	[TX_WRITE] = {true, 0},
	[TX_READ_REQUEST] = {false, DDP_QUEUE_READ},
	[TX_READ_RESPONSE] = {true, 0},
};

static void add_iovec(struct tx *tx, void *base, size_t len)
{
	if (len)
		tx->iov[tx->iov_tail++] = (struct iovec){base, len};
}

/* Appends the message's bytes [skip, skip + len) and carries the CRC on over them. */
static uint32_t add_payload(struct tx *tx, const struct tx_msg *msg, size_t skip, size_t len, bool crc_on,
			    uint32_t crc)
{
	for (unsigned int i = 0; i < msg->nsge && len; i++) {
		size_t have = msg->sge[i].iov_len;
		if (skip >= have) {
			skip -= have;
			continue;
		}
		char *base = (char *)msg->sge[i].iov_base + skip;
		size_t n = have - skip < len ? have - skip : len;
		add_iovec(tx, base, n);
		if (crc_on)
			crc = crc32c(crc, base, n);
		skip = 0;
		len -= n;
	}
	return crc;
}

static uint32_t encode_header(uint8_t *raw, const struct tx_msg *msg, uint32_t done, uint32_t payload,
			      bool last)
{
	struct ddp_header header = {
		.tagged = shapes[msg->kind].tagged,
		.last = last,
		.ddp_version = DDP_VERSION,
		.rdmap_version = RDMAP_VERSION,
		.opcode = msg->opcode,
		.stag = msg->stag,
		.offset = msg->offset + done,
		.queue = shapes[msg->kind].queue,
		.msn = msg->msn,
	};
	uint32_t len = ddp_encode(raw + MPA_LENGTH_BYTES, &header);
	put_be16(raw, (uint16_t)(len + payload));
	return MPA_LENGTH_BYTES + len;
}

/* Pad and CRC of an FPDU of so many bytes up to here. */
static uint32_t encode_trailer(uint8_t *trailer, uint32_t ulpdu_bytes, bool crc_on, uint32_t crc)
{
	uint32_t pad = mpa_pad_bytes(ulpdu_bytes);
	memset(trailer, 0, pad);
	put_le32(trailer + pad, crc_on ? crc32c(crc, trailer, pad) : 0);
	return pad + MPA_CRC_BYTES;
}

/* The next FPDU of the message under way. There is room for it. */
static uint32_t frame_one(struct endpoint *ep)
{
	struct tx *tx = &ep->tx;
	const struct tx_msg *msg = &tx->msgs[tx->next & tx->mask];
	struct tx_frame *frame = &tx->frames[tx->frame_tail++ % TX_FRAMES];
	uint32_t left = msg->len_bytes - tx->next_done;
	uint32_t payload = left < TX_SEGMENT_BYTES ? left : TX_SEGMENT_BYTES;
	frame->ends_message = payload == left;
	frame->start = tx->framed;

	uint32_t header_len = encode_header(frame->header, msg, tx->next_done, payload, frame->ends_message);
	add_iovec(tx, frame->header, header_len);
	uint32_t crc = ep->crc ? crc32c(0, frame->header, header_len) : 0;
	crc = add_payload(tx, msg, tx->next_done, payload, ep->crc, crc);
	uint32_t trailer_len =
		encode_trailer(frame->trailer, header_len - MPA_LENGTH_BYTES + payload, ep->crc, crc);
	add_iovec(tx, frame->trailer, trailer_len);

	tx->framed += header_len + payload + trailer_len;
	frame->end = tx->framed;
	tx->next_done += payload;
	if (frame->ends_message) {
		tx->next++;
		tx->next_done = 0;
	}
	return payload;
}

static void frame_more(struct endpoint *ep)
{
	struct tx *tx = &ep->tx;
	if (tx->iov_head == tx->iov_tail)
		tx->iov_head = tx->iov_tail = 0;
	while (tx->next != tx->tail && tx->frame_tail - tx->frame_head < TX_FRAMES &&
	       TX_IOVECS - tx->iov_tail >= TX_FRAME_IOVECS && tx->framed - tx->sent < TX_BATCH_BYTES)
		frame_one(ep);
}

static void finish_message(struct endpoint *ep)
{
	struct tx_msg *msg = &ep->tx.msgs[ep->tx.head++ & ep->tx.mask];
	switch (msg->kind) {
	case TX_SEND:
		ep_complete(ep, RDMA_WC_SEND, 0, msg->ctx);
		break;
	case TX_WRITE:
		ep_complete(ep, RDMA_WC_WRITE, 0, msg->ctx);
		break;
	case TX_READ_REQUEST:
		ep->reads.sent++;
		break;
	case TX_READ_RESPONSE:
		ep->answering--;
		if (msg->source)
			ep_release(msg->source, ep);
		break;
	}
}

/* The socket has taken n more bytes. */
static void advance(struct endpoint *ep, size_t n)
{
	struct tx *tx = &ep->tx;
	tx->sent += n;
	ep->stats.bytes_out += n;
	while (n) {
		struct iovec *iov = &tx->iov[tx->iov_head];
		if (n < iov->iov_len) {
			iov->iov_base = (char *)iov->iov_base + n;
			iov->iov_len -= n;
			break;
		}
		n -= iov->iov_len;
		tx->iov_head++;
	}
	while (tx->frame_head != tx->frame_tail) {
		struct tx_frame *frame = &tx->frames[tx->frame_head % TX_FRAMES];
		if (frame->end > tx->sent)
			break;
		tx->frame_head++;
		ep->ep.frames_out++;
		if (frame->ends_message)
			finish_message(ep);
	}
}

/* The socket takes nothing more, ever. The peer may have said why: what has arrived is read first. */
static void on_broken_slow(struct endpoint *ep, int error)
{
	while (ep->ep.state == RDMA_EP_ESTABLISHED && rx_run(ep))
		;
	if (ep->ep.state == RDMA_EP_ESTABLISHED)
		ep_end(ep, -error, "the connection was lost while sending: %s", strerror(error));
}

void tx_push(struct endpoint *ep)
{
	struct tx *tx = &ep->tx;
	if (ep->setup.passive && !ep->rx.heard)
		return; /* RFC 5044 §7.1.2 rule 4 */
	for (;;) {
		frame_more(ep);
		if (tx->iov_head == tx->iov_tail)
			return;
		size_t want = tx->framed - tx->sent;
		struct msghdr msg = {.msg_iov = tx->iov + tx->iov_head,
				     .msg_iovlen = tx->iov_tail - tx->iov_head};
		ssize_t n = sendmsg(ep->fd, &msg, MSG_NOSIGNAL | MSG_DONTWAIT);
		ep->stats.sends++;
		ep->ep.syscalls++;
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno != EAGAIN) {
			on_broken_slow(ep, errno);
			return;
		}
		if (n < 0)
			return;
		advance(ep, (size_t)n);
		if ((size_t)n < want)
			return; /* full: EPOLLOUT follows */
	}
}

void tx_ask_reads(struct endpoint *ep)
{
	struct reads *reads = &ep->reads;
	while (reads->asked != reads->tail && reads->asked - reads->head < ep->ep.limits.read_depth_out) {
		const struct read_req *read = &reads->ring[reads->asked++ & reads->mask];
		struct tx_msg *msg = tx_slot(ep);
		*msg = (struct tx_msg){
			.kind = TX_READ_REQUEST,
			.opcode = RDMAP_READ_REQUEST,
			.msn = ep->tx.msn[DDP_QUEUE_READ]++,
			.len_bytes = RDMAP_READ_REQUEST_BYTES,
			.nsge = 1,
		};
		struct rdmap_read_request request = {
			.sink_stag = read->sink_stag,
			.sink_offset = 0,
			.len_bytes = read->len_bytes,
			.source_stag = read->rkey,
			.source_offset = read->offset,
		};
		rdmap_read_request_encode(msg->read_request, &request);
		msg->sge[0] = (struct iovec){msg->read_request, sizeof msg->read_request};
		ep->tx.tail++;
	}
}

/* The iovecs that complete the FPDU of which a part was sent; none when the stream stands between two. */
static unsigned int rest_of_frame(struct tx *tx, struct iovec *iov)
{
	if (tx->frame_head == tx->frame_tail)
		return 0;
	const struct tx_frame *frame = &tx->frames[tx->frame_head % TX_FRAMES];
	if (tx->sent == frame->start)
		return 0;
	size_t left = frame->end - tx->sent;
	unsigned int n = 0;
	for (uint32_t i = tx->iov_head; left; i++) {
		iov[n++] = tx->iov[i];
		left -= tx->iov[i].iov_len;
	}
	return n;
}

void tx_terminate(struct endpoint *ep, const struct rdmap_terminate *terminate)
{
	uint8_t raw[RAW_HEADER_MAX + RDMAP_TERMINATE_MAX + 3 + MPA_CRC_BYTES];
	uint8_t *payload = raw + RAW_HEADER_MAX;
	uint32_t payload_len = rdmap_terminate_encode(payload, terminate);
	struct ddp_header header = {
		.last = true,
		.ddp_version = DDP_VERSION,
		.rdmap_version = RDMAP_VERSION,
		.opcode = RDMAP_TERMINATE,
		.queue = DDP_QUEUE_TERMINATE,
		.msn = 1,
	};
	uint32_t ulpdu = ddp_encode(raw + MPA_LENGTH_BYTES, &header) + payload_len;
	put_be16(raw, (uint16_t)ulpdu);
	uint32_t len = MPA_LENGTH_BYTES + ulpdu;
	len += encode_trailer(raw + len, ulpdu, ep->crc, ep->crc ? crc32c(0, raw, len) : 0);

	struct iovec iov[TX_FRAME_IOVECS + 1];
	unsigned int n = rest_of_frame(&ep->tx, iov);
	size_t want = len;
	for (unsigned int i = 0; i < n; i++)
		want += iov[i].iov_len;
	iov[n++] = (struct iovec){raw, len};
	struct msghdr msg = {.msg_iov = iov, .msg_iovlen = n};
	ssize_t sent = sendmsg(ep->fd, &msg, MSG_NOSIGNAL | MSG_DONTWAIT);
	ep->stats.sends++;
	ep->ep.syscalls++;
	if (sent > 0)
		ep->stats.bytes_out += (uint64_t)sent;
	if (sent == (ssize_t)want) {
		ep->ep.frames_out++;
		ep->stats.terminates_out++;
	}
}
