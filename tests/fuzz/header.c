/* SPDX-License-Identifier: MIT
 *
 * The RPC-over-RDMA header, in calls and replies, and the private data of connection set-up. Input: one byte
 * (bit 0: it is a reply; bit 1: private data instead), and the message.
 */
#include "header.h"

#include "fuzz.h"

#include <errno.h>

/* What a decoded header promises to those who act on it. */
static void check_chunk(const struct rpcrdma_chunk *chunk, bool reply)
{
	require(chunk->nsegs <= RPCRDMA_MAX_SEGS_DECODED);
	for (uint32_t i = 0; i < chunk->nsegs; i++) {
		const struct rpcrdma_segment *seg = &chunk->segs[i];
		require(seg->length || reply);
		require(seg->offset + seg->length >= seg->offset);
	}
	require(rpcrdma_chunk_bytes(chunk) <= UINT64_C(16) * UINT32_MAX);
}

static void check_header(const struct rpcrdma_header *h, bool reply)
{
	require(h->vers == RPCRDMA_VERSION);
	if (h->proc == RDMA_ERROR) {
		require(h->error == ERR_VERS || h->error == ERR_CHUNK);
		return;
	}
	require(h->proc == RDMA_MSG || h->proc == RDMA_NOMSG);
	require(h->read_pos % 4 == 0);
	check_chunk(&h->call_chunk, reply);
	check_chunk(&h->read_chunk, reply);
	check_chunk(&h->write_chunk, reply);
	check_chunk(&h->reply_chunk, reply);
	if (reply)
		require(!h->call_chunk.nsegs && !h->read_chunk.nsegs);
	if (h->proc == RDMA_NOMSG)
		require(reply ? h->reply_chunk.nsegs : h->call_chunk.nsegs);
}

/* Encoded again and decoded again it says the same. */
static void check_round_trip(const struct rpcrdma_header *h, bool reply)
{
	uint8_t bytes[4096];
	struct rpcrdma_header again;
	struct xdr_writer w = xdr_writer(bytes, sizeof bytes);
	rpcrdma_header_encode(&w, h);
	require(!w.stuck && xdr_written(&w) == rpcrdma_header_size(h));
	struct xdr_reader r = xdr_reader(bytes, xdr_written(&w));
	require(rpcrdma_header_decode(&r, reply, &again) == 0);
	require(xdr_left(&r) == 0);
	require(memcmp(h, &again, sizeof again) == 0);
}

static void try_header(const uint8_t *msg, size_t len, bool reply)
{
	struct rpcrdma_header h;
	struct xdr_reader r = xdr_reader(msg, len);
	int err = rpcrdma_header_decode(&r, reply, &h);
	require(err == 0 || err == -ENODATA || err == -EBADMSG || err == -EPROTONOSUPPORT);
	require((err == -ENODATA) == (len < 4));
	if (err)
		return;
	require(h.proc == RDMA_MSG || xdr_left(&r) == 0);
	check_header(&h, reply);
	check_round_trip(&h, reply);
}

static void try_private(const uint8_t *msg, size_t len)
{
	struct rpcrdma_private p;
	rpcrdma_private_decode(msg, (uint32_t)len, &p);
	require(p.send_bytes >= 1024 && p.send_bytes <= 262144 && p.send_bytes % 1024 == 0);
	require(p.recv_bytes >= 1024 && p.recv_bytes <= 262144 && p.recv_bytes % 1024 == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	struct xdr_reader in = xdr_reader(data, len);
	uint8_t kind = take_u8(&in);
	if (kind & 2)
		try_private(in.pos, xdr_left(&in));
	else
		try_header(in.pos, xdr_left(&in), kind & 1);
	return 0;
}
