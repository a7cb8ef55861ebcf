/* SPDX-License-Identifier: MIT
 *
 * The RPC-over-RDMA version 1 transport header, RFC 8166 §4.1.2, and the private data of RFC 8797 §4.
 *
 * Decoding goes word by word through the bounded reader and fills a plain struct; nothing is believed before
 * the last check. What is legal for XDR but not for us is refused here too, so that no later code has to ask:
 * a long call in RDMA_MSG (two messages in one), RDMA_NOMSG without the chunk that holds the message, a read
 * list in a reply (§4.3.1).
 */
#include "header.h"

#include <assert.h>
#include <errno.h>

/* Words of each item, RFC 8166 §4.7. */
#define WORDS_FIXED 4u		  /* xid, vers, credit, proc */
#define WORDS_SEGMENT 4u	  /* handle, length, two of offset */
#define WORDS_READ_SEGMENT 6u	  /* "one more follows", position, segment */
#define WORDS_EMPTY_LISTS 3u	  /* read list, write list, reply chunk: all absent */
#define WORDS_ERROR_VERS 3u	  /* err, low, high */
#define WORDS_ERROR_CHUNK 1u	  /* err */
#define WORDS_WRITE_CHUNK 2u	  /* "one more follows", count; then the segments */
#define WORDS_REPLY_CHUNK 1u	  /* count; then the segments ("present" is one of the three above) */
#define PRIVATE_MAGIC 0xf6ab0e18u /* RFC 8797 §4.1 */
#define PRIVATE_VERSION 1u
#define PRIVATE_FLAG_R 1u /* can take a Send with Invalidate */
#define PRIVATE_UNIT 1024u

static_assert(4 * (WORDS_FIXED + WORDS_EMPTY_LISTS) == RPCRDMA_HDR_MIN, "RFC 8166 §4.5: 28 bytes");
static_assert(4 * (WORDS_FIXED + WORDS_ERROR_CHUNK) == RPCRDMA_HDR_ERROR_MIN,
	      "an RDMA_ERROR is 20 bytes or more");

static uint32_t error_words(uint32_t error)
{
	return error == ERR_VERS ? WORDS_ERROR_VERS : WORDS_ERROR_CHUNK;
}

uint32_t rpcrdma_header_size(const struct rpcrdma_header *h)
{
	if (h->proc == RDMA_ERROR)
		return 4 * (WORDS_FIXED + error_words(h->error));
	uint32_t words = WORDS_FIXED + WORDS_EMPTY_LISTS;
	words += WORDS_READ_SEGMENT * (h->call_chunk.nsegs + h->read_chunk.nsegs);
	if (h->write_chunk.nsegs)
		words += WORDS_WRITE_CHUNK + WORDS_SEGMENT * h->write_chunk.nsegs;
	if (h->reply_chunk.nsegs)
		words += WORDS_REPLY_CHUNK + WORDS_SEGMENT * h->reply_chunk.nsegs;
	return 4 * words;
}

static void put_segment(struct xdr_writer *w, const struct rpcrdma_segment *seg)
{
	xdr_put_u32(w, seg->handle);
	xdr_put_u32(w, seg->length);
	xdr_put_u64(w, seg->offset);
}

static void put_read_chunk(struct xdr_writer *w, const struct rpcrdma_chunk *chunk, uint32_t position)
{
	for (uint32_t i = 0; i < chunk->nsegs; i++) {
		xdr_put_u32(w, 1);
		xdr_put_u32(w, position);
		put_segment(w, &chunk->segs[i]);
	}
}

/* Present, count, segments: one entry of the write list, or the reply chunk. */
static void put_counted_chunk(struct xdr_writer *w, const struct rpcrdma_chunk *chunk)
{
	if (!chunk->nsegs)
		return;
	xdr_put_u32(w, 1);
	xdr_put_u32(w, chunk->nsegs);
	for (uint32_t i = 0; i < chunk->nsegs; i++)
		put_segment(w, &chunk->segs[i]);
}

static void put_error(struct xdr_writer *w, const struct rpcrdma_header *h)
{
	xdr_put_u32(w, h->error);
	if (h->error != ERR_VERS)
		return;
	xdr_put_u32(w, h->vers_low);
	xdr_put_u32(w, h->vers_high);
}

static void put_lists(struct xdr_writer *w, const struct rpcrdma_header *h)
{
	put_read_chunk(w, &h->call_chunk, 0);
	put_read_chunk(w, &h->read_chunk, h->read_pos);
	xdr_put_u32(w, 0);
	put_counted_chunk(w, &h->write_chunk);
	xdr_put_u32(w, 0);
	put_counted_chunk(w, &h->reply_chunk);
	if (!h->reply_chunk.nsegs)
		xdr_put_u32(w, 0);
}

void rpcrdma_header_encode(struct xdr_writer *w, const struct rpcrdma_header *h)
{
	xdr_put_u32(w, h->xid);
	xdr_put_u32(w, h->vers);
	xdr_put_u32(w, h->credits);
	xdr_put_u32(w, h->proc);
	if (h->proc == RDMA_ERROR)
		put_error(w, h);
	else
		put_lists(w, h);
}

/* Appends one segment; false: no room for it, or it cannot be right. */
static bool get_segment(struct xdr_reader *r, bool reply, struct rpcrdma_chunk *chunk)
{
	if (chunk->nsegs == RPCRDMA_MAX_SEGS_DECODED)
		return false;
	struct rpcrdma_segment *seg = &chunk->segs[chunk->nsegs++];
	seg->handle = xdr_u32(r);
	seg->length = xdr_u32(r);
	seg->offset = xdr_u64(r);
	return xdr_ok(r) && (seg->length || reply) && seg->offset <= UINT64_MAX - seg->length;
}

/* Ends by itself: each turn takes 24 bytes of the message, and no chunk takes more than 16 segments. */
static bool get_read_list(struct xdr_reader *r, struct rpcrdma_header *h)
{
	while (xdr_bool(r)) {
		uint32_t position = xdr_u32(r);
		if (position & 3)
			return false;
		if (position && h->read_chunk.nsegs && position != h->read_pos)
			return false;
		if (position)
			h->read_pos = position;
		if (!get_segment(r, false, position ? &h->read_chunk : &h->call_chunk))
			return false;
	}
	return xdr_ok(r);
}

static bool get_counted_chunk(struct xdr_reader *r, bool reply, struct rpcrdma_chunk *chunk)
{
	uint32_t nsegs = xdr_u32(r);
	if (!nsegs || nsegs > RPCRDMA_MAX_SEGS_DECODED)
		return false;
	for (uint32_t i = 0; i < nsegs; i++)
		if (!get_segment(r, reply, chunk))
			return false;
	return true;
}

static bool get_lists(struct xdr_reader *r, bool reply, struct rpcrdma_header *h)
{
	if (!get_read_list(r, h))
		return false;
	if (xdr_bool(r)) {
		if (!get_counted_chunk(r, reply, &h->write_chunk) || xdr_bool(r))
			return false;
	}
	if (xdr_bool(r) && !get_counted_chunk(r, reply, &h->reply_chunk))
		return false;
	return xdr_ok(r);
}

/* Do the chunks make sense for where the RPC message is said to be? */
static bool lists_fit(const struct rpcrdma_header *h, bool reply)
{
	if (reply && (h->call_chunk.nsegs || h->read_chunk.nsegs))
		return false;
	if (h->proc == RDMA_MSG)
		return h->call_chunk.nsegs == 0;
	return reply ? h->reply_chunk.nsegs > 0 : h->call_chunk.nsegs > 0;
}

static bool get_error(struct xdr_reader *r, struct rpcrdma_header *h)
{
	h->error = xdr_u32(r);
	if (h->error == ERR_VERS) {
		h->vers_low = xdr_u32(r);
		h->vers_high = xdr_u32(r);
	}
	return xdr_ok(r) && (h->error == ERR_VERS || h->error == ERR_CHUNK);
}

static bool get_body(struct xdr_reader *r, bool reply, struct rpcrdma_header *h)
{
	switch (h->proc) {
	case RDMA_MSG:
	case RDMA_NOMSG:
		return get_lists(r, reply, h) && lists_fit(h, reply);
	case RDMA_ERROR:
		return get_error(r, h);
	default:
		return false;
	}
}

int rpcrdma_header_decode(struct xdr_reader *r, bool reply, struct rpcrdma_header *h)
{
	*h = (struct rpcrdma_header){.proc = UINT32_MAX};
	h->xid = xdr_u32(r);
	if (!xdr_ok(r))
		return -ENODATA;
	h->vers = xdr_u32(r);
	h->credits = xdr_u32(r);
	if (!xdr_ok(r))
		return -EBADMSG;
	if (h->vers != RPCRDMA_VERSION)
		return -EPROTONOSUPPORT;
	uint32_t proc = xdr_u32(r);
	if (!xdr_ok(r))
		return -EBADMSG;
	h->proc = proc;
	if (!get_body(r, reply, h))
		return -EBADMSG;
	if (h->proc != RDMA_MSG)
		xdr_bytes(r, xdr_left(r));
	return 0;
}

uint64_t rpcrdma_chunk_bytes(const struct rpcrdma_chunk *chunk)
{
	uint64_t bytes = 0;
	for (uint32_t i = 0; i < chunk->nsegs; i++)
		bytes += chunk->segs[i].length;
	return bytes;
}

/* RFC 8797 §4.1: sizes travel as (bytes / 1024) - 1. */
static uint8_t private_size_encode(uint32_t bytes)
{
	assert(bytes >= PRIVATE_UNIT && bytes <= 256 * PRIVATE_UNIT && bytes % PRIVATE_UNIT == 0);
	return (uint8_t)(bytes / PRIVATE_UNIT - 1);
}

void rpcrdma_private_encode(uint8_t out[RPCRDMA_PRIVATE_BYTES], const struct rpcrdma_private *p)
{
	struct xdr_writer w = xdr_writer(out, RPCRDMA_PRIVATE_BYTES);
	xdr_put_u32(&w, PRIVATE_MAGIC);
	out[4] = PRIVATE_VERSION;
	out[5] = p->remote_invalidate ? PRIVATE_FLAG_R : 0;
	out[6] = private_size_encode(p->send_bytes);
	out[7] = private_size_encode(p->recv_bytes);
}

bool rpcrdma_private_decode(const uint8_t *data, uint32_t len_bytes, struct rpcrdma_private *p)
{
	*p = (struct rpcrdma_private){.send_bytes = PRIVATE_UNIT, .recv_bytes = PRIVATE_UNIT};
	for (uint32_t at = 0; len_bytes >= RPCRDMA_PRIVATE_BYTES && at <= len_bytes - RPCRDMA_PRIVATE_BYTES;
	     at++) {
		const uint8_t *d = data + at;
		struct xdr_reader r = xdr_reader(d, RPCRDMA_PRIVATE_BYTES);
		if (xdr_u32(&r) != PRIVATE_MAGIC || d[4] != PRIVATE_VERSION)
			continue;
		p->remote_invalidate = d[5] & PRIVATE_FLAG_R;
		p->send_bytes = (d[6] + 1u) * PRIVATE_UNIT;
		p->recv_bytes = (d[7] + 1u) * PRIVATE_UNIT;
		return true;
	}
	return false;
}
