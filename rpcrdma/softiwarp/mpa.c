/* SPDX-License-Identifier: MIT */
#include "mpa.h"

#include "wire.h"

#include <assert.h>
#include <errno.h>

#define FLAG_MARKERS 0x8000u
#define FLAG_CRC 0x4000u
#define FLAG_REJECTED 0x2000u
#define FLAG_ENHANCED 0x1000u

#define IRD_PEER_TO_PEER 0x8000u
#define IRD_RTR_SEND 0x4000u
#define ORD_RTR_WRITE 0x8000u
#define ORD_RTR_READ 0x4000u
#define DEPTH_MASK 0x3fffu

static const char keys[2][MPA_KEY_BYTES + 1] = {"MPA ID Req Frame", "MPA ID Rep Frame"};

bool mpa_key_matches(const uint8_t *bytes, uint32_t len, bool reply)
{
	return memcmp(bytes, keys[reply], len < MPA_KEY_BYTES ? len : MPA_KEY_BYTES) == 0;
}

int mpa_frame_len(const uint8_t *header, uint32_t *len_bytes)
{
	uint32_t private_len = get_be16(header + 18);
	if (private_len > MPA_PRIVATE_MAX)
		return -EPROTO;
	*len_bytes = MPA_HEADER_BYTES + private_len;
	return 0;
}

static void decode_enhanced(const uint8_t *p, struct mpa_frame *frame)
{
	uint16_t ird = get_be16(p), ord = get_be16(p + 2);
	frame->ird = ird & DEPTH_MASK;
	frame->ord = ord & DEPTH_MASK;
	frame->peer_to_peer = ird & IRD_PEER_TO_PEER;
	if (frame->peer_to_peer) /* without it the others are to be ignored, RFC 6581 §9.2 */
		frame->rtr = (ird & IRD_RTR_SEND ? MPA_RTR_SEND : 0) |
			     (ord & ORD_RTR_WRITE ? MPA_RTR_WRITE : 0) |
			     (ord & ORD_RTR_READ ? MPA_RTR_READ : 0);
}

int mpa_decode(const uint8_t *bytes, uint32_t len, struct mpa_frame *frame)
{
	struct mpa_frame f = {0};
	uint32_t want;
	if (len < MPA_HEADER_BYTES || mpa_frame_len(bytes, &want) < 0 || len != want)
		return -EPROTO;
	f.reply = mpa_key_matches(bytes, MPA_KEY_BYTES, true);
	if (!f.reply && !mpa_key_matches(bytes, MPA_KEY_BYTES, false))
		return -EPROTO;
	uint16_t flags = get_be16(bytes + 16);
	f.markers = flags & FLAG_MARKERS;
	f.crc = flags & FLAG_CRC;
	f.rejected = f.reply && (flags & FLAG_REJECTED);
	f.revision = flags & 0xff;
	f.enhanced = f.revision >= 2 && (flags & FLAG_ENHANCED);
	f.private_data = bytes + MPA_HEADER_BYTES;
	f.private_len = len - MPA_HEADER_BYTES;
	if (f.enhanced) {
		if (f.private_len < MPA_ENHANCED_BYTES)
			return -EPROTO;
		decode_enhanced(f.private_data, &f);
		f.private_data += MPA_ENHANCED_BYTES;
		f.private_len -= MPA_ENHANCED_BYTES;
	}
	*frame = f;
	return 0;
}

uint32_t mpa_encode(uint8_t *bytes, const struct mpa_frame *f)
{
	uint32_t enhanced = f->enhanced ? MPA_ENHANCED_BYTES : 0;
	assert(f->private_len <= MPA_PRIVATE_MAX - enhanced);
	memcpy(bytes, keys[f->reply], MPA_KEY_BYTES);
	put_be16(bytes + 16, (f->markers ? FLAG_MARKERS : 0) | (f->crc ? FLAG_CRC : 0) |
				     (f->rejected ? FLAG_REJECTED : 0) | (f->enhanced ? FLAG_ENHANCED : 0) |
				     f->revision);
	put_be16(bytes + 18, (uint16_t)(enhanced + f->private_len));
	if (enhanced) {
		put_be16(bytes + 20, (f->ird & DEPTH_MASK) | (f->peer_to_peer ? IRD_PEER_TO_PEER : 0) |
					     (f->rtr & MPA_RTR_SEND ? IRD_RTR_SEND : 0));
		put_be16(bytes + 22, (f->ord & DEPTH_MASK) | (f->rtr & MPA_RTR_WRITE ? ORD_RTR_WRITE : 0) |
					     (f->rtr & MPA_RTR_READ ? ORD_RTR_READ : 0));
	}
	if (f->private_len)
		memcpy(bytes + MPA_HEADER_BYTES + enhanced, f->private_data, f->private_len);
	return MPA_HEADER_BYTES + enhanced + f->private_len;
}
