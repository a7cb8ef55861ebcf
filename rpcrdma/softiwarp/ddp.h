/* SPDX-License-Identifier: MIT
 *
 * The codec of DDP segments (RFC 5041 §4) with the RDMAP fields inside them (RFC 5040 §4), and the names of
 * what can be wrong with one. Pure: no I/O, no state. Callers check lengths first.
 */
#ifndef SOFTIWARP_DDP_H
#define SOFTIWARP_DDP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define DDP_VERSION 1u
#define RDMAP_VERSION 1u

#define DDP_CONTROL_BYTES 2u /* DDP and RDMAP control: enough to know which header it is */
#define DDP_TAGGED_BYTES 14u /* control 2, STag 4, offset 8 */
#define DDP_UNTAGGED_BYTES                                                                                   \
	18u /* control 2, Invalidate STag 4, queue 4, message sequence number 4, offset 4 */
#define DDP_HEADER_MAX DDP_UNTAGGED_BYTES

enum rdmap_opcode {
	RDMAP_WRITE,
	RDMAP_READ_REQUEST,
	RDMAP_READ_RESPONSE,
	RDMAP_SEND,
	RDMAP_SEND_INVALIDATE,
	RDMAP_SEND_SE, /* solicited event */
	RDMAP_SEND_SE_INVALIDATE,
	RDMAP_TERMINATE,
	RDMAP_OPCODES,
};

/* Queues of untagged messages (RFC 5040 §4.1). Sequence numbers start at 1 on each. */
enum ddp_queue {
	DDP_QUEUE_SEND,
	DDP_QUEUE_READ,
	DDP_QUEUE_TERMINATE,
	DDP_QUEUES,
};

/* One header, every field wide open: nothing here has been validated. */
struct ddp_header {
	bool tagged;
	bool last;
	uint8_t ddp_version;
	uint8_t rdmap_version;
	uint8_t opcode;	 /* 0-15 */
	uint32_t stag;	 /* tagged: where to; untagged: the Invalidate STag */
	uint64_t offset; /* tagged offset, or message offset */
	uint32_t queue;	 /* untagged */
	uint32_t msn;	 /* untagged */
};

static inline uint32_t ddp_header_bytes(uint8_t control)
{
	return control & 0x80 ? DDP_TAGGED_BYTES : DDP_UNTAGGED_BYTES;
}

void ddp_decode(const uint8_t *bytes, struct ddp_header *header);     /* ddp_header_bytes(*bytes) of them */
uint32_t ddp_encode(uint8_t *bytes, const struct ddp_header *header); /* how many; at most DDP_HEADER_MAX */

/* RDMA Read Request (RFC 5040 §4.4). */
#define RDMAP_READ_REQUEST_BYTES 28u
struct rdmap_read_request {
	uint32_t sink_stag;
	uint64_t sink_offset;
	uint32_t len_bytes;
	uint32_t source_stag;
	uint64_t source_offset;
};
void rdmap_read_request_decode(const uint8_t *bytes, struct rdmap_read_request *request);
void rdmap_read_request_encode(uint8_t *bytes, const struct rdmap_read_request *request);

/* What can be wrong, as a Terminate says it (RFC 5040 §4.8, RFC 5041 §7.2, RFC 5044 §8): layer, error type,
 * code. FAULT_NONE is none of them. */
#define FAULT(layer, type, code) (1u << 16 | (layer) << 12 | (type) << 8 | (code))
#define FAULT_LAYER(fault) ((fault) >> 12 & 15)
#define FAULT_TYPE(fault) ((fault) >> 8 & 15)
#define FAULT_CODE(fault) ((fault)&255)

#define FAULT_LAYER_RDMAP 0u
#define FAULT_LAYER_DDP 1u
#define FAULT_LAYER_MPA 2u

#define FAULTS(X)                                                                                            \
	X(FAULT_RDMAP_CATASTROPHIC, FAULT(0u, 0u, 0x00u), "RDMAP: local catastrophic error")                 \
	X(FAULT_RDMAP_INVALID_STAG, FAULT(0u, 1u, 0x00u), "RDMAP: invalid STag")                             \
	X(FAULT_RDMAP_BOUNDS, FAULT(0u, 1u, 0x01u), "RDMAP: base or bounds violation")                       \
	X(FAULT_RDMAP_ACCESS, FAULT(0u, 1u, 0x02u), "RDMAP: access rights violation")                        \
	X(FAULT_RDMAP_STREAM, FAULT(0u, 1u, 0x03u), "RDMAP: STag not associated with this stream")           \
	X(FAULT_RDMAP_WRAP, FAULT(0u, 1u, 0x04u), "RDMAP: tagged offset wraps")                              \
	X(FAULT_RDMAP_INVALIDATE, FAULT(0u, 1u, 0x09u), "RDMAP: STag cannot be invalidated")                 \
	X(FAULT_RDMAP_PROTECTION, FAULT(0u, 1u, 0xffu), "RDMAP: protection error")                           \
	X(FAULT_RDMAP_VERSION, FAULT(0u, 2u, 0x05u), "RDMAP: invalid version")                               \
	X(FAULT_RDMAP_OPCODE, FAULT(0u, 2u, 0x06u), "RDMAP: unexpected opcode")                              \
	X(FAULT_RDMAP_STREAM_ERROR, FAULT(0u, 2u, 0x07u), "RDMAP: catastrophic error of this stream")        \
	X(FAULT_RDMAP_GLOBAL_ERROR, FAULT(0u, 2u, 0x08u), "RDMAP: catastrophic global error")                \
	X(FAULT_RDMAP_INVALIDATE_OP, FAULT(0u, 2u, 0x09u), "RDMAP: STag cannot be invalidated")              \
	X(FAULT_RDMAP_UNSPECIFIED, FAULT(0u, 2u, 0xffu), "RDMAP: unspecified error of an operation")         \
	X(FAULT_DDP_CATASTROPHIC, FAULT(1u, 0u, 0x00u), "DDP: local catastrophic error")                     \
	X(FAULT_DDP_INVALID_STAG, FAULT(1u, 1u, 0x00u), "DDP: invalid STag")                                 \
	X(FAULT_DDP_BOUNDS, FAULT(1u, 1u, 0x01u), "DDP: base or bounds violation")                           \
	X(FAULT_DDP_STREAM, FAULT(1u, 1u, 0x02u), "DDP: STag not associated with this stream")               \
	X(FAULT_DDP_WRAP, FAULT(1u, 1u, 0x03u), "DDP: tagged offset wraps")                                  \
	X(FAULT_DDP_TAGGED_VERSION, FAULT(1u, 1u, 0x04u), "DDP: invalid version in a tagged segment")        \
	X(FAULT_DDP_QUEUE, FAULT(1u, 2u, 0x01u), "DDP: invalid queue number")                                \
	X(FAULT_DDP_NO_BUFFER, FAULT(1u, 2u, 0x02u), "DDP: no buffer for the message")                       \
	X(FAULT_DDP_MSN, FAULT(1u, 2u, 0x03u), "DDP: message sequence number out of range")                  \
	X(FAULT_DDP_OFFSET, FAULT(1u, 2u, 0x04u), "DDP: invalid message offset")                             \
	X(FAULT_DDP_TOO_LONG, FAULT(1u, 2u, 0x05u), "DDP: message too long for its buffer")                  \
	X(FAULT_DDP_UNTAGGED_VERSION, FAULT(1u, 2u, 0x06u), "DDP: invalid version in an untagged segment")   \
	X(FAULT_MPA_CLOSED, FAULT(2u, 0u, 0x01u), "MPA: TCP connection lost")                                \
	X(FAULT_MPA_CRC, FAULT(2u, 0u, 0x02u), "MPA: CRC error")                                             \
	X(FAULT_MPA_MARKER, FAULT(2u, 0u, 0x03u), "MPA: marker and length disagree")                         \
	X(FAULT_MPA_FRAME, FAULT(2u, 0u, 0x04u), "MPA: invalid request or reply")                            \
	X(FAULT_MPA_CATASTROPHIC, FAULT(2u, 0u, 0x05u), "MPA: local catastrophic error")                     \
	X(FAULT_MPA_IRD, FAULT(2u, 0u, 0x06u), "MPA: insufficient IRD resources")                            \
	X(FAULT_MPA_RTR, FAULT(2u, 0u, 0x07u), "MPA: no matching RTR option")

enum {
	FAULT_NONE = 0,
#define X(name, value, text) name = value,
	FAULTS(X)
#undef X
};

/* In words; NULL for a combination that no RFC names. */
const char *fault_text(uint32_t fault);

/* Terminate (RFC 5040 §4.8): control 4, then, if known, length 2 and header of the segment that was at fault,
 * then, for a Read Request, its 28 bytes. */
#define RDMAP_TERMINATE_MIN 4u
#define RDMAP_TERMINATE_MAX (4u + 2u + DDP_HEADER_MAX + RDMAP_READ_REQUEST_BYTES)
_Static_assert(RDMAP_TERMINATE_MAX == 52, "a Terminate that fills its buffer");

struct rdmap_terminate {
	uint32_t fault;
	const uint8_t *segment; /* MPA length and DDP header of the segment, as received; NULL: not known */
	uint32_t segment_len;
	const uint8_t *read_request; /* its 28 bytes, or NULL */
};
uint32_t rdmap_terminate_encode(uint8_t *bytes, const struct rdmap_terminate *terminate);
/* Of a received one only the fault is of use. len >= RDMAP_TERMINATE_MIN. */
uint32_t rdmap_terminate_fault(const uint8_t *bytes);

#endif
