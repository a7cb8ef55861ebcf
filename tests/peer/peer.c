/* SPDX-License-Identifier: MIT */
#include "peer.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <netinet/tcp.h>

#define PATIENCE_MS 5000
#define PATIENCE_TURNS 100000
#define SEGMENT 60000u

/* ---- bytes ---- */

static void put16(uint8_t *p, uint32_t v)
{
	p[0] = (uint8_t)(v >> 8);
	p[1] = (uint8_t)v;
}

static void put32(uint8_t *p, uint32_t v)
{
	put16(p, v >> 16);
	put16(p + 2, v);
}

static void put64(uint8_t *p, uint64_t v)
{
	put32(p, (uint32_t)(v >> 32));
	put32(p + 4, (uint32_t)v);
}

static uint32_t get16(const uint8_t *p)
{
	return (uint32_t)p[0] << 8 | p[1];
}

static uint32_t get32(const uint8_t *p)
{
	return get16(p) << 16 | get16(p + 2);
}

static uint64_t get64(const uint8_t *p)
{
	return (uint64_t)get32(p) << 32 | get32(p + 4);
}

uint32_t peer_crc32c(const void *bytes, size_t len)
{
	const uint8_t *p = bytes;
	uint32_t crc = 0xffffffff;
	for (size_t i = 0; i < len; i++) {
		crc ^= p[i];
		for (int bit = 0; bit < 8; bit++)
			crc = crc >> 1 ^ (crc & 1 ? 0x82f63b78 : 0);
	}
	return ~crc;
}

/* ---- sockets ---- */

void peer_init(struct peer *peer, void (*pump)(void *arg), void *pump_arg)
{
	*peer = (struct peer){.listen_fd = -1, .fd = -1, .pump = pump, .pump_arg = pump_arg, .crc = true};
	peer->msn[0] = peer->msn[1] = peer->msn[2] = 1;
}

void peer_hang_up(struct peer *peer)
{
	if (peer->fd >= 0)
		close(peer->fd);
	peer->fd = -1;
}

void peer_close(struct peer *peer)
{
	peer_hang_up(peer);
	if (peer->listen_fd >= 0)
		close(peer->listen_fd);
	peer->listen_fd = -1;
}

/* Until fd is ready: 0, or -ETIMEDOUT. */
static int wait_ready(struct peer *peer, int fd, short events)
{
	struct pollfd pfd = {.fd = fd, .events = events};
	if (!peer->pump)
		return poll(&pfd, 1, PATIENCE_MS) > 0 ? 0 : -ETIMEDOUT;
	for (int turn = 0; turn < PATIENCE_TURNS; turn++) {
		peer->pump(peer->pump_arg);
		if (poll(&pfd, 1, turn < 100 ? 0 : 1) > 0)
			return 0;
		if (turn > 100 + PATIENCE_MS)
			break;
	}
	return -ETIMEDOUT;
}

int peer_listen(struct peer *peer, struct sockaddr_in *addr)
{
	socklen_t len = sizeof *addr;
	*addr = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	peer->listen_fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (peer->listen_fd < 0 || bind(peer->listen_fd, (struct sockaddr *)addr, len) < 0 ||
	    listen(peer->listen_fd, 16) < 0 ||
	    getsockname(peer->listen_fd, (struct sockaddr *)addr, &len) < 0)
		return -errno;
	return 0;
}

static void fresh(struct peer *peer, int fd)
{
	int on = 1;
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
	peer_hang_up(peer);
	peer->fd = fd;
	peer->msn[0] = peer->msn[1] = peer->msn[2] = 1;
}

int peer_accept(struct peer *peer)
{
	int rc = wait_ready(peer, peer->listen_fd, POLLIN);
	if (rc < 0)
		return rc;
	int fd = accept4(peer->listen_fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
	if (fd < 0)
		return -errno;
	fresh(peer, fd);
	return 0;
}

int peer_connect(struct peer *peer, const struct sockaddr_in *addr)
{
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	if (connect(fd, (const struct sockaddr *)addr, sizeof *addr) < 0 && errno != EINPROGRESS) {
		int rc = -errno;
		close(fd);
		return rc;
	}
	fresh(peer, fd);
	return wait_ready(peer, fd, POLLOUT);
}

int peer_send_raw(struct peer *peer, const void *bytes, size_t len)
{
	const uint8_t *p = bytes;
	while (len) {
		size_t want = peer->trickle_bytes && peer->trickle_bytes < len ? peer->trickle_bytes : len;
		ssize_t n = send(peer->fd, p, want, MSG_NOSIGNAL | MSG_DONTWAIT);
		if (n < 0 && errno == EAGAIN) {
			int rc = wait_ready(peer, peer->fd, POLLOUT);
			if (rc < 0)
				return rc;
			continue;
		}
		if (n < 0)
			return errno == EPIPE ? -ECONNRESET : -errno;
		p += n;
		len -= (size_t)n;
		if (peer->trickle_bytes && peer->pump)
			peer->pump(peer->pump_arg);
	}
	return 0;
}

int peer_recv_raw(struct peer *peer, void *bytes, size_t len)
{
	uint8_t *p = bytes;
	while (len) {
		ssize_t n = recv(peer->fd, p, len, MSG_DONTWAIT);
		if (n < 0 && errno == EAGAIN) {
			int rc = wait_ready(peer, peer->fd, POLLIN);
			if (rc < 0)
				return rc;
			continue;
		}
		if (n <= 0)
			return n < 0 ? -errno : -ECONNRESET;
		p += n;
		len -= (size_t)n;
	}
	return 0;
}

int peer_wait_closed(struct peer *peer)
{
	uint8_t byte;
	int rc;
	do
		rc = peer_recv_raw(peer, &byte, 1);
	while (rc == 0);
	return rc == -ECONNRESET ? 0 : rc;
}

/* ---- MPA ---- */

int peer_send_mpa(struct peer *peer, const struct peer_mpa *mpa)
{
	uint8_t frame[1024];
	uint32_t extra = mpa->flags & PEER_MPA_ENHANCED ? 4 : 0;
	uint32_t len = extra + mpa->private_len;
	if (20 + len > sizeof frame)
		return -EINVAL;
	memcpy(frame, mpa->reply ? "MPA ID Rep Frame" : "MPA ID Req Frame", 16);
	put16(frame + 16, mpa->flags);
	put16(frame + 18, mpa->len_field > 0 ? (uint32_t)mpa->len_field : mpa->len_field < 0 ? 0 : len);
	if (extra) {
		put16(frame + 20, mpa->ird);
		put16(frame + 22, mpa->ord);
	}
	if (mpa->private_len)
		memcpy(frame + 20 + extra, mpa->private_data, mpa->private_len);
	return peer_send_raw(peer, frame, 20 + len);
}

int peer_recv_mpa(struct peer *peer, struct peer_mpa *mpa)
{
	uint8_t header[20], enhanced[4];
	int rc = peer_recv_raw(peer, header, sizeof header);
	if (rc < 0)
		return rc;
	*mpa = (struct peer_mpa){.reply = memcmp(header, "MPA ID Rep Frame", 16) == 0};
	if (!mpa->reply && memcmp(header, "MPA ID Req Frame", 16) != 0)
		return -EPROTO;
	mpa->flags = (uint16_t)get16(header + 16);
	uint32_t len = get16(header + 18);
	if (mpa->flags & PEER_MPA_ENHANCED) {
		if (len < 4)
			return -EPROTO;
		rc = peer_recv_raw(peer, enhanced, 4);
		if (rc < 0)
			return rc;
		mpa->ird = (uint16_t)get16(enhanced);
		mpa->ord = (uint16_t)get16(enhanced + 2);
		len -= 4;
	}
	if (len > sizeof mpa->received)
		return -EPROTO;
	mpa->private_data = mpa->received;
	mpa->private_len = (uint16_t)len;
	return peer_recv_raw(peer, mpa->received, len);
}

static struct peer_mpa usual_mpa(const struct peer *peer, bool reply, const void *priv, uint16_t priv_len)
{
	return (struct peer_mpa){
		.reply = reply,
		.flags = (uint16_t)(PEER_MPA_ENHANCED | (peer->crc ? PEER_MPA_CRC : 0) | 2),
		.ird = 16,
		.ord = 16,
		.private_data = priv,
		.private_len = priv_len,
	};
}

int peer_serve_mpa(struct peer *peer, const void *priv, uint16_t priv_len)
{
	struct peer_mpa request, reply = usual_mpa(peer, true, priv, priv_len);
	int rc = peer_accept(peer);
	if (rc == 0)
		rc = peer_recv_mpa(peer, &request);
	if (rc < 0 || request.reply)
		return rc < 0 ? rc : -EPROTO;
	reply.ird = request.ord & 0x3fff;
	reply.ord = request.ird & 0x3fff;
	return peer_send_mpa(peer, &reply);
}

int peer_join_mpa(struct peer *peer, const struct sockaddr_in *addr, const void *priv, uint16_t priv_len)
{
	struct peer_mpa request = usual_mpa(peer, false, priv, priv_len), reply;
	int rc = peer_connect(peer, addr);
	if (rc == 0)
		rc = peer_send_mpa(peer, &request);
	if (rc == 0)
		rc = peer_recv_mpa(peer, &reply);
	if (rc == 0 && (!reply.reply || reply.flags & PEER_MPA_REJECT))
		rc = -EPROTO;
	return rc;
}

/* ---- FPDUs ---- */

void peer_fpdu(struct peer_fpdu *f, struct peer *peer, enum peer_opcode opcode, const void *payload,
	       uint32_t len)
{
	static const uint32_t queues[] = {[PEER_READ_REQUEST] = 1, [PEER_TERMINATE] = 2};
	memset(f, 0, offsetof(struct peer_fpdu, received));
	f->tagged = opcode == PEER_WRITE || opcode == PEER_READ_RESPONSE;
	f->last = true;
	f->ddp_version = f->rdmap_version = 1;
	f->opcode = (uint8_t)opcode;
	if (!f->tagged) {
		f->queue = queues[opcode];
		f->msn = peer->msn[f->queue];
	}
	f->payload = payload;
	f->len = len;
}

size_t peer_encode_fpdu(const struct peer *peer, const struct peer_fpdu *f, uint8_t *out)
{
	uint32_t header = f->tagged ? 14 : 18, ulpdu = header + f->len;
	put16(out, f->ulpdu_len > 0 ? (uint32_t)f->ulpdu_len : f->ulpdu_len < 0 ? 0 : ulpdu);
	out[2] = (uint8_t)((f->tagged ? 0x80 : 0) | (f->last ? 0x40 : 0) | f->ddp_version);
	out[3] = (uint8_t)(f->rdmap_version << 6 | f->opcode);
	put32(out + 4, f->stag);
	if (f->tagged) {
		put64(out + 8, f->offset);
	} else {
		put32(out + 8, f->queue);
		put32(out + 12, f->msn);
		put32(out + 16, (uint32_t)f->offset);
	}
	if (f->len)
		memcpy(out + 2 + header, f->payload, f->len);
	size_t len = 2 + ulpdu;
	while (len % 4)
		out[len++] = 0;
	uint32_t crc = peer->crc ? peer_crc32c(out, len) : 0;
	if (f->bad_crc)
		crc ^= 0x10;
	for (int i = 0; i < 4; i++)
		out[len++] = (uint8_t)(crc >> 8 * i);
	return len;
}

int peer_send_fpdu(struct peer *peer, const struct peer_fpdu *f)
{
	uint8_t *out = malloc(f->len + 32u);
	if (!out)
		return -ENOMEM;
	int rc = peer_send_raw(peer, out, peer_encode_fpdu(peer, f, out));
	free(out);
	if (!f->tagged && f->last && f->queue < 3)
		peer->msn[f->queue] = f->msn + 1;
	return rc;
}

static void decode_header(struct peer_fpdu *f, const uint8_t *p)
{
	f->last = p[0] & 0x40;
	f->ddp_version = p[0] & 3;
	f->rdmap_version = p[1] >> 6;
	f->opcode = p[1] & 15;
	f->stag = get32(p + 2);
	if (f->tagged) {
		f->offset = get64(p + 6);
		return;
	}
	f->queue = get32(p + 6);
	f->msn = get32(p + 10);
	f->offset = get32(p + 14);
}

int peer_recv_fpdu(struct peer *peer, struct peer_fpdu *f)
{
	uint8_t *frame = malloc(2 + 65535 + 3 + 4);
	if (!frame)
		return -ENOMEM;
	memset(f, 0, offsetof(struct peer_fpdu, received));
	int rc = peer_recv_raw(peer, frame, 4);
	if (rc < 0)
		goto out;
	uint32_t ulpdu = get16(frame), body = 2 + ulpdu + (-(2 + ulpdu) & 3);
	f->tagged = frame[2] & 0x80;
	uint32_t header = f->tagged ? 14 : 18;
	rc = -EPROTO;
	if (ulpdu < header)
		goto out;
	rc = peer_recv_raw(peer, frame + 4, body + 4 - 4);
	if (rc < 0)
		goto out;
	decode_header(f, frame + 2);
	f->len = ulpdu - header;
	memcpy(f->received, frame + 2 + header, f->len);
	f->payload = f->received;
	uint32_t crc = 0;
	for (int i = 0; i < 4; i++)
		crc |= (uint32_t)frame[body + (uint32_t)i] << 8 * i;
	rc = peer->crc && crc != peer_crc32c(frame, body) ? -EILSEQ : 0;
out:
	free(frame);
	return rc;
}

/* ---- legal messages ---- */

static int send_segments(struct peer *peer, struct peer_fpdu *f, const void *bytes, uint32_t len)
{
	uint64_t base = f->offset;
	uint32_t done = 0;
	int rc;
	do {
		uint32_t n = len - done < SEGMENT ? len - done : SEGMENT;
		f->offset = base + done;
		f->payload = (const uint8_t *)bytes + done;
		f->len = n;
		done += n;
		f->last = done == len;
		rc = peer_send_fpdu(peer, f);
	} while (rc == 0 && done < len);
	return rc;
}

/* A struct peer_fpdu is large: on the heap for those who call in deep stacks. */
static int send_message(struct peer *peer, enum peer_opcode opcode, uint32_t stag, uint64_t offset,
			const void *bytes, uint32_t len)
{
	struct peer_fpdu *f = malloc(sizeof *f);
	if (!f)
		return -ENOMEM;
	peer_fpdu(f, peer, opcode, NULL, 0);
	f->stag = stag;
	f->offset = offset;
	int rc = send_segments(peer, f, bytes, len);
	free(f);
	return rc;
}

int peer_send(struct peer *peer, const void *bytes, uint32_t len, uint32_t invalidate_stag)
{
	return send_message(peer, invalidate_stag ? PEER_SEND_INVALIDATE : PEER_SEND, invalidate_stag, 0,
			    bytes, len);
}

int peer_write(struct peer *peer, uint32_t stag, uint64_t offset, const void *bytes, uint32_t len)
{
	return send_message(peer, PEER_WRITE, stag, offset, bytes, len);
}

int peer_read_request(struct peer *peer, uint32_t sink_stag, uint64_t sink_offset, uint32_t len,
		      uint32_t source_stag, uint64_t source_offset)
{
	uint8_t body[28];
	put32(body, sink_stag);
	put64(body + 4, sink_offset);
	put32(body + 12, len);
	put32(body + 16, source_stag);
	put64(body + 20, source_offset);
	return send_message(peer, PEER_READ_REQUEST, 0, 0, body, sizeof body);
}

static int recv_response(struct peer *peer, struct peer_fpdu *f, uint8_t *bytes, uint32_t len)
{
	uint32_t done = 0;
	do {
		int rc = peer_recv_fpdu(peer, f);
		if (rc < 0)
			return rc;
		if (f->opcode == PEER_TERMINATE)
			return -EREMOTEIO;
		if (f->opcode != PEER_READ_RESPONSE || f->stag != 0x51a6 || f->offset != done ||
		    f->len > len - done)
			return -EPROTO;
		memcpy(bytes + done, f->payload, f->len);
		done += f->len;
	} while (!f->last);
	return done == len ? 0 : -EPROTO;
}

int peer_read(struct peer *peer, uint32_t stag, uint64_t offset, void *bytes, uint32_t len)
{
	struct peer_fpdu *f = malloc(sizeof *f);
	if (!f)
		return -ENOMEM;
	int rc = peer_read_request(peer, 0x51a6, 0, len, stag, offset);
	if (rc == 0)
		rc = recv_response(peer, f, bytes, len);
	free(f);
	return rc;
}

int peer_recv_send(struct peer *peer, void *bytes, uint32_t size)
{
	struct peer_fpdu *f = malloc(sizeof *f);
	uint32_t done = 0;
	int rc = f ? 0 : -ENOMEM;
	while (rc == 0) {
		rc = peer_recv_fpdu(peer, f);
		if (rc < 0)
			break;
		rc = f->opcode == PEER_TERMINATE ? -EREMOTEIO : 0;
		if (rc == 0 && (f->opcode < PEER_SEND || f->opcode > PEER_SEND_SE_INVALIDATE ||
				f->offset != done || f->len > size - done))
			rc = -EPROTO;
		if (rc < 0)
			break;
		memcpy((uint8_t *)bytes + done, f->payload, f->len);
		done += f->len;
		if (f->last)
			break;
	}
	free(f);
	return rc < 0 ? rc : (int)done;
}

int peer_recv_terminate(struct peer *peer, struct peer_terminate *t)
{
	struct peer_fpdu *f = malloc(sizeof *f);
	int rc = f ? 0 : -ENOMEM;
	while (rc == 0) {
		rc = peer_recv_fpdu(peer, f);
		if (rc == 0 && f->opcode == PEER_TERMINATE)
			break;
	}
	if (rc == 0 && (f->len < 4 || f->queue != 2 || f->msn != 1 || !f->last))
		rc = -EPROTO;
	if (rc == 0) {
		const uint8_t *p = f->payload;
		uint32_t at = 4;
		*t = (struct peer_terminate){.layer = p[0] >> 4,
					     .type = p[0] & 15,
					     .code = p[1],
					     .has_length = p[2] & 0x80,
					     .has_ddp = p[2] & 0x40,
					     .has_rdmap = p[2] & 0x20};
		if (t->has_length && f->len >= 6) {
			t->segment_len = get16(p + 4);
			at = 6;
		}
		t->headers_len = f->len - at < sizeof t->headers ? f->len - at : sizeof t->headers;
		memcpy(t->headers, p + at, t->headers_len);
	}
	free(f);
	return rc;
}
