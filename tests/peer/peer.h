/* SPDX-License-Identifier: MIT
 *
 * A scripted iWARP peer, either side of a TCP connection, that sends whatever it is told to: legal frames,
 * and every illegal one. It shares no code with the device that it tests (its own CRC, its own encoders),
 * does not defend itself and remembers nothing but the sequence numbers that it would use next.
 *
 * All functions give 0 (or what they say) or -errno. When one would block it calls the pump, which drives
 * whatever is under test in the same thread; without a pump it waits. After 5 s in which nothing came, or
 * after 100,000 turns of the pump, it gives -ETIMEDOUT; -ECONNRESET when the other side has closed.
 */
#ifndef PEER_H
#define PEER_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct peer {
	int listen_fd;		 /* -1: none */
	int fd;			 /* -1: none */
	void (*pump)(void *arg); /* NULL: wait instead */
	void *pump_arg;
	bool crc;		/* generate and check; otherwise zero, unchecked */
	uint32_t msn[3];	/* the next to send on each untagged queue */
	uint32_t trickle_bytes; /* not 0: write at most so many bytes at a time, the pump between */
};

/* Nothing open, sequence numbers at 1, CRC on. */
void peer_init(struct peer *peer, void (*pump)(void *arg), void *pump_arg);
void peer_close(struct peer *peer);   /* both sockets */
void peer_hang_up(struct peer *peer); /* the connection only */

/* Listens on the loopback address, any port; addr gets it. */
int peer_listen(struct peer *peer, struct sockaddr_in *addr);
int peer_accept(struct peer *peer); /* the next connection; sequence numbers start again */
int peer_connect(struct peer *peer, const struct sockaddr_in *addr);

/* ---- raw bytes ---- */

int peer_send_raw(struct peer *peer, const void *bytes, size_t len);
int peer_recv_raw(struct peer *peer, void *bytes, size_t len); /* exactly so many */
int peer_wait_closed(struct peer *peer); /* reads on; 0 when the other side has closed */

/* ---- MPA ---- */

#define PEER_MPA_MARKERS 0x8000u
#define PEER_MPA_CRC 0x4000u
#define PEER_MPA_REJECT 0x2000u
#define PEER_MPA_ENHANCED 0x1000u

struct peer_mpa {
	bool reply;
	uint16_t flags;	   /* PEER_MPA_*, and the revision in the low byte */
	uint16_t ird, ord; /* with the control bits of RFC 6581 §9; sent only with PEER_MPA_ENHANCED */
	const void *private_data;
	uint16_t private_len;
	int32_t len_field;     /* not 0: the length to claim instead; -1 claims 0 */
	uint8_t received[512]; /* private data as received, IRD and ORD left out */
};
int peer_send_mpa(struct peer *peer, const struct peer_mpa *mpa);
int peer_recv_mpa(struct peer *peer, struct peer_mpa *mpa); /* -EPROTO when it is no MPA frame */

/* The usual set-up. As server: accepts TCP, takes the request, accepts it. As client: connects, requests,
 * takes the reply (which something else has to give: the pump). priv may be NULL. */
int peer_serve_mpa(struct peer *peer, const void *priv, uint16_t priv_len);
int peer_join_mpa(struct peer *peer, const struct sockaddr_in *addr, const void *priv, uint16_t priv_len);

/* ---- FPDUs ---- */

enum peer_opcode {
	PEER_WRITE,
	PEER_READ_REQUEST,
	PEER_READ_RESPONSE,
	PEER_SEND,
	PEER_SEND_INVALIDATE,
	PEER_SEND_SE,
	PEER_SEND_SE_INVALIDATE,
	PEER_TERMINATE,
};

struct peer_fpdu {
	bool tagged;
	bool last;
	uint8_t ddp_version, rdmap_version;
	uint8_t opcode;
	uint32_t stag;	 /* or Invalidate STag */
	uint64_t offset; /* tagged or message offset */
	uint32_t queue, msn;
	const void *payload;
	uint32_t len; /* of the payload */
	/* ways to be wrong, when sending */
	bool bad_crc;
	int32_t ulpdu_len; /* not 0: the length to claim; -1 claims 0 */
	/* when received: */
	uint8_t received[65536];
};

/* Fills in what a legal one has: versions, last, queue and the next sequence number for its opcode. */
void peer_fpdu(struct peer_fpdu *fpdu, struct peer *peer, enum peer_opcode opcode, const void *payload,
	       uint32_t len);
/* Encodes without sending; out holds at least len + 32 bytes. Returns the length. */
size_t peer_encode_fpdu(const struct peer *peer, const struct peer_fpdu *fpdu, uint8_t *out);
/* Sends as it is; a last segment of an untagged message moves the sequence number on. */
int peer_send_fpdu(struct peer *peer, const struct peer_fpdu *fpdu);
/* The next one; payload points to received. -EILSEQ when its CRC is wrong. */
int peer_recv_fpdu(struct peer *peer, struct peer_fpdu *fpdu);

/* ---- legal messages, in segments of at most 60,000 bytes ---- */

int peer_send(struct peer *peer, const void *bytes, uint32_t len, uint32_t invalidate_stag);
int peer_write(struct peer *peer, uint32_t stag, uint64_t offset, const void *bytes, uint32_t len);
int peer_read_request(struct peer *peer, uint32_t sink_stag, uint64_t sink_offset, uint32_t len,
		      uint32_t source_stag, uint64_t source_offset);
/* Asks and takes the whole response (nothing else may come meanwhile). */
int peer_read(struct peer *peer, uint32_t stag, uint64_t offset, void *bytes, uint32_t len);
/* A whole Send; its length, or -EPROTO when something else comes, -EREMOTEIO when that is a Terminate. */
int peer_recv_send(struct peer *peer, void *bytes, uint32_t size);

/* What a Terminate says; -EPROTO when the next FPDU is none. */
struct peer_terminate {
	uint8_t layer, type, code;
	bool has_length, has_ddp, has_rdmap;
	uint32_t segment_len;
	uint8_t headers[64]; /* DDP header, then RDMAP header, as far as they came */
	uint32_t headers_len;
};
/* Skips other FPDUs. */
int peer_recv_terminate(struct peer *peer, struct peer_terminate *terminate);

uint32_t peer_crc32c(const void *bytes, size_t len);

#endif
