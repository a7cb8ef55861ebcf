/* SPDX-License-Identifier: MIT
 *
 * The RPC-over-RDMA version 1 transport header (RFC 8166 §4): pure encoding and decoding, no I/O, no state.
 *
 * Decoding is complete before anything is acted upon: a header is turned into a plain struct or refused. Both
 * ends use it.
 */
#ifndef HEADER_H
#define HEADER_H

#include "xdr.h"

#include <stdbool.h>
#include <stdint.h>

#define RPCRDMA_VERSION 1u
#define RPCRDMA_MAX_SEGS_DECODED 16u /* per chunk; RFC 8267 §6.4.2 */
#define RPCRDMA_HDR_MIN 28u	     /* xid, vers, credit, proc, three empty lists */
#define RPCRDMA_HDR_ERROR_MIN 20u

enum rpcrdma_proc { RDMA_MSG = 0, RDMA_NOMSG = 1, RDMA_MSGP = 2, RDMA_DONE = 3, RDMA_ERROR = 4 };
enum rpcrdma_errcode { ERR_VERS = 1, ERR_CHUNK = 2 };

struct rpcrdma_segment {
	uint32_t handle; /* STag, R_key */
	uint32_t length; /* bytes */
	uint64_t offset;
};

/* A counted array of segments: write chunk, reply chunk; also all read segments of one position. */
struct rpcrdma_chunk {
	uint32_t nsegs; /* 0: there is none */
	struct rpcrdma_segment segs[RPCRDMA_MAX_SEGS_DECODED];
};

struct rpcrdma_header {
	uint32_t xid;
	uint32_t vers;
	uint32_t credits;
	uint32_t proc;
	/* RDMA_MSG, RDMA_NOMSG: */
	struct rpcrdma_chunk call_chunk; /* the read chunk at position 0: a long call */
	struct rpcrdma_chunk read_chunk; /* the one read chunk at a position > 0 */
	uint32_t read_pos;
	struct rpcrdma_chunk write_chunk; /* the first of the write list; NFSv3 never needs a second */
	struct rpcrdma_chunk reply_chunk;
	/* RDMA_ERROR: */
	uint32_t error;
	uint32_t vers_low, vers_high;
};

/* Bytes that the header will take. */
uint32_t rpcrdma_header_size(const struct rpcrdma_header *h);
/* Writes it; sticks if it does not fit. */
void rpcrdma_header_encode(struct xdr_writer *w, const struct rpcrdma_header *h);

/* Reads a header; on success r stands at the RPC message (RDMA_MSG) or at the end (else). Refuses with
 * -EPROTONOSUPPORT a version other than 1 (xid, vers, credits are valid), with -EBADMSG anything malformed:
 * truncated, unknown procedure, too many segments or chunks, a zero-segment chunk, a segment of zero length
 * (in a call) or one whose offset + length overflows, read segments of more than one position > 0, a position
 * that is not a multiple of 4, RDMA_MSG with a long call or RDMA_NOMSG without the chunk that holds its
 * message, a read list in a reply. xid is valid if at least 4 bytes were there (else -ENODATA), proc if 16
 * were (else UINT32_MAX). In a reply, segments of length 0 are legal (unused ones): say so with `reply`. */
int rpcrdma_header_decode(struct xdr_reader *r, bool reply, struct rpcrdma_header *h);

/* Sum of the segments' lengths; cannot overflow with 16 segments. */
uint64_t rpcrdma_chunk_bytes(const struct rpcrdma_chunk *chunk);

/* RFC 8797 §4 private data, 8 bytes. */
#define RPCRDMA_PRIVATE_BYTES 8u
struct rpcrdma_private {
	bool remote_invalidate;
	uint32_t send_bytes; /* multiples of 1024, 1024 … 262144 */
	uint32_t recv_bytes;
};
void rpcrdma_private_encode(uint8_t out[RPCRDMA_PRIVATE_BYTES], const struct rpcrdma_private *p);
/* Finds it at any offset (§5.2). False: not there, or another version; then *p holds the defaults (1024,
 * 1024, no). */
bool rpcrdma_private_decode(const uint8_t *data, uint32_t len_bytes, struct rpcrdma_private *p);

#endif
