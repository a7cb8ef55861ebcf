/* SPDX-License-Identifier: MIT
 *
 * The codec of the MPA Request and Reply (RFC 5044 §7.1.1, enhanced by RFC 6581 §6 and §9) and the sums of an
 * FPDU (RFC 5044 §4.1). Pure: no I/O, no state.
 *
 * We speak revision 2 with the enhanced data (S) and without markers (M), as the Linux siw driver does.
 */
#ifndef SOFTIWARP_MPA_H
#define SOFTIWARP_MPA_H

#include <stdbool.h>
#include <stdint.h>

#define MPA_KEY_BYTES 16u
#define MPA_HEADER_BYTES 20u /* key, flags and revision, length of the private data */
#define MPA_PRIVATE_MAX 512u /* with the enhanced data */
#define MPA_ENHANCED_BYTES 4u
#define MPA_FRAME_MAX (MPA_HEADER_BYTES + MPA_PRIVATE_MAX)
#define MPA_REVISION 2u

#define MPA_MANUAL_DEPTH 0x3fffu /* as IRD or ORD: not negotiated here (RFC 6581 §9.1) */

/* FPDU: length, ULPDU, 0-3 bytes of pad, CRC. */
#define MPA_LENGTH_BYTES 2u
#define MPA_CRC_BYTES 4u
#define MPA_ULPDU_MAX 65535u

static inline uint32_t mpa_pad_bytes(uint32_t ulpdu_bytes)
{
	return -(MPA_LENGTH_BYTES + ulpdu_bytes) & 3;
}

/* Flags for the peer-to-peer model (RFC 6581 §9.2): which first message ("ready to receive") is offered or
 * chosen. */
enum mpa_rtr {
	MPA_RTR_SEND = 1,
	MPA_RTR_WRITE = 2,
	MPA_RTR_READ = 4,
};

struct mpa_frame {
	bool reply;
	bool markers;  /* M: the sender wants markers in what it receives */
	bool crc;      /* C */
	bool rejected; /* R, in a reply */
	bool enhanced; /* S: ird, ord and what follows are there */
	uint8_t revision;
	uint16_t ird, ord;
	bool peer_to_peer;	     /* A */
	unsigned int rtr;	     /* mask of enum mpa_rtr, 0 unless peer_to_peer */
	const uint8_t *private_data; /* the upper layer's, enhanced data left out; points into the frame */
	uint32_t private_len;
};

/* Do the first len bytes look like a Request (or Reply)? False as soon as one byte is wrong. */
bool mpa_key_matches(const uint8_t *bytes, uint32_t len, bool reply);
/* How long the whole frame is, from its first MPA_HEADER_BYTES. -EPROTO: more private data than is
 * allowed. */
int mpa_frame_len(const uint8_t *header, uint32_t *len_bytes);
/* A whole frame, key included. -EPROTO when it is malformed. What we make of its values is the caller's
 * business. */
int mpa_decode(const uint8_t *bytes, uint32_t len, struct mpa_frame *frame);
/* Writes at most MPA_FRAME_MAX bytes, returns how many. frame->private_len is at most MPA_PRIVATE_MAX, less
 * the enhanced data. */
uint32_t mpa_encode(uint8_t *bytes, const struct mpa_frame *frame);

#endif
