/* SPDX-License-Identifier: MIT */
#include "ddp.h"

#include "wire.h"

#include <assert.h>

#define TAGGED 0x80u
#define LAST 0x40u

void ddp_decode(const uint8_t *p, struct ddp_header *h)
{
	*h = (struct ddp_header){
		.tagged = p[0] & TAGGED,
		.last = p[0] & LAST,
		.ddp_version = p[0] & 3,
		.rdmap_version = p[1] >> 6,
		.opcode = p[1] & 15,
		.stag = get_be32(p + 2),
	};
	if (h->tagged) {
		h->offset = get_be64(p + 6);
		return;
	}
	h->queue = get_be32(p + 6);
	h->msn = get_be32(p + 10);
	h->offset = get_be32(p + 14);
}

uint32_t ddp_encode(uint8_t *p, const struct ddp_header *h)
{
	p[0] = (uint8_t)((h->tagged ? TAGGED : 0) | (h->last ? LAST : 0) | (h->ddp_version & 3));
	p[1] = (uint8_t)(h->rdmap_version << 6 | (h->opcode & 15));
	put_be32(p + 2, h->stag);
	if (h->tagged) {
		put_be64(p + 6, h->offset);
		return DDP_TAGGED_BYTES;
	}
	put_be32(p + 6, h->queue);
	put_be32(p + 10, h->msn);
	put_be32(p + 14, (uint32_t)h->offset);
	return DDP_UNTAGGED_BYTES;
}

void rdmap_read_request_decode(const uint8_t *p, struct rdmap_read_request *r)
{
	*r = (struct rdmap_read_request){
		.sink_stag = get_be32(p),
		.sink_offset = get_be64(p + 4),
		.len_bytes = get_be32(p + 12),
		.source_stag = get_be32(p + 16),
		.source_offset = get_be64(p + 20),
	};
}

void rdmap_read_request_encode(uint8_t *p, const struct rdmap_read_request *r)
{
	put_be32(p, r->sink_stag);
	put_be64(p + 4, r->sink_offset);
	put_be32(p + 12, r->len_bytes);
	put_be32(p + 16, r->source_stag);
	put_be64(p + 20, r->source_offset);
}

const char *fault_text(uint32_t fault)
{
	switch (fault) {
#define X(name, value, text)                                                                                 \
	case value:                                                                                          \
		return text;
		FAULTS(X)
#undef X
	default:
		return NULL;
	}
}

#define SEGMENT_LENGTH_VALID 0x80u
#define DDP_HEADER_INCLUDED 0x40u
#define RDMAP_HEADER_INCLUDED 0x20u

uint32_t rdmap_terminate_encode(uint8_t *p, const struct rdmap_terminate *t)
{
	uint32_t len = RDMAP_TERMINATE_MIN;
	p[0] = (uint8_t)(FAULT_LAYER(t->fault) << 4 | FAULT_TYPE(t->fault));
	p[1] = (uint8_t)FAULT_CODE(t->fault);
	p[2] = (uint8_t)((t->segment ? SEGMENT_LENGTH_VALID | DDP_HEADER_INCLUDED : 0) |
			 (t->read_request ? RDMAP_HEADER_INCLUDED : 0));
	p[3] = 0;
	if (t->segment) {
		assert(t->segment_len <= 2 + DDP_HEADER_MAX);
		memcpy(p + len, t->segment, t->segment_len);
		len += t->segment_len;
	}
	if (t->read_request) {
		memcpy(p + len, t->read_request, RDMAP_READ_REQUEST_BYTES);
		len += RDMAP_READ_REQUEST_BYTES;
	}
	return len;
}

uint32_t rdmap_terminate_fault(const uint8_t *p)
{
	return FAULT((uint32_t)p[0] >> 4, (uint32_t)p[0] & 15, (uint32_t)p[1]);
}
