/* SPDX-License-Identifier: MIT
 *
 * The RPC-over-RDMA header against bytes written by hand from RFC 8166 §4.7, and against everything that may
 * be wrong with them.
 */
#include "header.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#define COUNT(a) (sizeof(a) / sizeof(a)[0])

/* A message as 32-bit words in host order, turned into wire bytes in a block of exactly its size, so that a
 * sanitizer sees any read past its end. */
struct message {
	uint8_t *bytes;
	size_t len;
};

static struct message message_cut(const uint32_t *words, size_t nwords, size_t len)
{
	uint8_t wire[1024];
	assert_true(nwords * 4 <= sizeof wire && len <= nwords * 4);
	for (size_t i = 0; i < nwords; i++) {
		uint32_t v = htobe32(words[i]);
		memcpy(wire + 4 * i, &v, 4);
	}
	struct message m = {malloc(len ? len : 1), len};
	assert_non_null(m.bytes);
	memcpy(m.bytes, wire, len);
	return m;
}

static int decode_cut(const uint32_t *words, size_t nwords, size_t len, bool reply, struct rpcrdma_header *h,
		      size_t *left)
{
	struct message m = message_cut(words, nwords, len);
	struct xdr_reader r = xdr_reader(m.bytes, m.len);
	int err = rpcrdma_header_decode(&r, reply, h);
	*left = xdr_left(&r);
	free(m.bytes);
	return err;
}

static int decode_words(const uint32_t *words, size_t nwords, bool reply)
{
	struct rpcrdma_header h;
	size_t left;
	return decode_cut(words, nwords, nwords * 4, reply, &h, &left);
}
#define DECODE(reply, ...)                                                                                   \
	decode_words((const uint32_t[]){__VA_ARGS__}, COUNT(((const uint32_t[]){__VA_ARGS__})), reply)

#define XID 0x12345678
#define CALL XID, 1, 32
#define SEG(h, l, o) h, l, 0, o

static void check_segment(const struct rpcrdma_segment *s, uint32_t handle, uint32_t length, uint64_t offset)
{
	assert_int_equal(s->handle, handle);
	assert_int_equal(s->length, length);
	assert_true(s->offset == offset);
}

/* Decodes the words, checks what is left behind the header, and that encoding gives the same bytes back. */
static void check_vector(const uint32_t *words, size_t nwords, size_t header_words, bool reply,
			 struct rpcrdma_header *h)
{
	size_t left;
	assert_int_equal(decode_cut(words, nwords, nwords * 4, reply, h, &left), 0);
	assert_int_equal(left, 4 * (nwords - header_words));
	assert_int_equal(rpcrdma_header_size(h), 4 * header_words);

	struct message want = message_cut(words, nwords, 4 * header_words);
	uint8_t got[1024];
	struct xdr_writer w = xdr_writer(got, sizeof got);
	rpcrdma_header_encode(&w, h);
	assert_false(w.stuck);
	assert_int_equal(xdr_written(&w), want.len);
	assert_memory_equal(got, want.bytes, want.len);
	free(want.bytes);
}

static void short_call_is_28_bytes(void **state)
{
	static const uint32_t words[] = {CALL, RDMA_MSG, 0, 0, 0, XID, 0};
	struct rpcrdma_header h;
	check_vector(words, COUNT(words), 7, false, &h);
	assert_int_equal(h.xid, XID);
	assert_int_equal(h.vers, 1);
	assert_int_equal(h.credits, 32);
	assert_int_equal(h.proc, RDMA_MSG);
	assert_int_equal(h.call_chunk.nsegs + h.read_chunk.nsegs, 0);
	assert_int_equal(h.write_chunk.nsegs + h.reply_chunk.nsegs, 0);
}

static void read_chunk_of_two_segments(void **state)
{
	static const uint32_t words[] = {CALL, RDMA_MSG, 1, 112, 0xaa,	 4096, 0x1, 0x2, 1,
					 112,  0xbb,	 3, 0,	 0x4000, 0,    0,   0,	 XID};
	struct rpcrdma_header h;
	check_vector(words, COUNT(words), COUNT(words) - 1, false, &h);
	assert_int_equal(h.read_pos, 112);
	assert_int_equal(h.read_chunk.nsegs, 2);
	check_segment(&h.read_chunk.segs[0], 0xaa, 4096, 0x100000002);
	check_segment(&h.read_chunk.segs[1], 0xbb, 3, 0x4000);
	assert_true(rpcrdma_chunk_bytes(&h.read_chunk) == 4099);
}

static void long_call_with_a_read_chunk(void **state)
{
	static const uint32_t words[] = {CALL, RDMA_NOMSG, 1, 0, SEG(1, 2000, 0), 1, 96, SEG(2, 8192, 16),
					 0,    0,	   0};
	struct rpcrdma_header h;
	check_vector(words, COUNT(words), COUNT(words), false, &h);
	assert_int_equal(h.call_chunk.nsegs, 1);
	check_segment(&h.call_chunk.segs[0], 1, 2000, 0);
	assert_int_equal(h.read_chunk.nsegs, 1);
	check_segment(&h.read_chunk.segs[0], 2, 8192, 16);
}

static void positions_may_come_in_any_order(void **state)
{
	static const uint32_t words[] = {CALL, RDMA_NOMSG, 1, 96, SEG(2, 8192, 16), 1, 0, SEG(1, 2000, 0),
					 0,    0,	   0};
	struct rpcrdma_header h;
	size_t left;
	assert_int_equal(decode_cut(words, COUNT(words), sizeof words, false, &h, &left), 0);
	check_segment(&h.call_chunk.segs[0], 1, 2000, 0);
	check_segment(&h.read_chunk.segs[0], 2, 8192, 16);
	assert_int_equal(h.read_pos, 96);
}

/* RFC 8166 §4.7: "1 3 HLOO HLOO HLOO 0" and "1 2 HLOO HLOO". */
static void write_list_and_reply_chunk(void **state)
{
	static const uint32_t words[] = {CALL,
					 RDMA_MSG,
					 0,
					 1,
					 3,
					 SEG(7, 10, 0),
					 SEG(8, 20, 1),
					 SEG(9, 30, 2),
					 0,
					 1,
					 2,
					 SEG(5, 1024, 3),
					 SEG(6, 2048, 4),
					 XID};
	struct rpcrdma_header h;
	check_vector(words, COUNT(words), COUNT(words) - 1, false, &h);
	assert_int_equal(h.write_chunk.nsegs, 3);
	check_segment(&h.write_chunk.segs[2], 9, 30, 2);
	assert_int_equal(h.reply_chunk.nsegs, 2);
	check_segment(&h.reply_chunk.segs[1], 6, 2048, 4);
	assert_true(rpcrdma_chunk_bytes(&h.write_chunk) == 60);
}

static void reply_with_unused_segments(void **state)
{
	static const uint32_t words[] = {CALL, RDMA_MSG, 0, 1, 2, SEG(7, 10, 0), SEG(8, 0, 0), 0, 0, XID};
	struct rpcrdma_header h;
	check_vector(words, COUNT(words), COUNT(words) - 1, true, &h);
	assert_int_equal(h.write_chunk.nsegs, 2);
	assert_int_equal(h.write_chunk.segs[1].length, 0);
	assert_int_equal(decode_words(words, COUNT(words), false), -EBADMSG);
}

static void long_reply(void **state)
{
	static const uint32_t words[] = {CALL, RDMA_NOMSG, 0, 0, 1, 1, SEG(7, 5000, 0)};
	struct rpcrdma_header h;
	check_vector(words, COUNT(words), COUNT(words), true, &h);
	check_segment(&h.reply_chunk.segs[0], 7, 5000, 0);
}

static void errors_both_kinds(void **state)
{
	static const uint32_t vers[] = {CALL, RDMA_ERROR, ERR_VERS, 1, 1};
	static const uint32_t chunk[] = {CALL, RDMA_ERROR, ERR_CHUNK};
	struct rpcrdma_header h;
	check_vector(vers, COUNT(vers), 7, true, &h);
	assert_int_equal(h.vers_low, 1);
	assert_int_equal(h.vers_high, 1);
	check_vector(chunk, COUNT(chunk), 5, true, &h);
	assert_int_equal(h.error, ERR_CHUNK);
	assert_int_equal(DECODE(true, CALL, RDMA_ERROR, 0), -EBADMSG);
	assert_int_equal(DECODE(true, CALL, RDMA_ERROR, 3, 1, 1), -EBADMSG);
	assert_int_equal(DECODE(true, CALL, RDMA_ERROR, ERR_VERS, 1), -EBADMSG);
}

/* All lists full: 16 segments in each chunk. Also the longest header there is. */
static void fill_chunk(struct rpcrdma_chunk *c)
{
	c->nsegs = RPCRDMA_MAX_SEGS_DECODED;
	for (uint32_t i = 0; i < c->nsegs; i++)
		c->segs[i] = (struct rpcrdma_segment){
			.handle = 0x01020304 * (i + 1), .length = UINT32_MAX - i, .offset = UINT64_MAX << 32};
}

static size_t encode_largest(uint8_t *buf, size_t size, struct rpcrdma_header *h)
{
	*h = (struct rpcrdma_header){
		.xid = XID, .vers = 1, .credits = 5, .proc = RDMA_NOMSG, .read_pos = UINT32_MAX - 3};
	fill_chunk(&h->call_chunk);
	fill_chunk(&h->read_chunk);
	fill_chunk(&h->write_chunk);
	fill_chunk(&h->reply_chunk);
	struct xdr_writer w = xdr_writer(buf, size);
	rpcrdma_header_encode(&w, h);
	return w.stuck ? 0 : xdr_written(&w);
}

static void largest_header_round_trips(void **state)
{
	uint8_t buf[2048];
	struct rpcrdma_header h, back;
	size_t len = encode_largest(buf, sizeof buf, &h);
	assert_int_equal(len, 28 + 2 * 16 * 24 + 8 + 16 * 16 + 4 + 16 * 16);
	assert_int_equal(len, rpcrdma_header_size(&h));
	struct xdr_reader r = xdr_reader(buf, len);
	assert_int_equal(rpcrdma_header_decode(&r, false, &back), 0);
	assert_memory_equal(&back, &h, sizeof h);
	assert_true(rpcrdma_chunk_bytes(&back.call_chunk) == 16 * (uint64_t)UINT32_MAX - 120);
}

static void every_truncation_is_refused(void **state)
{
	uint8_t buf[2048];
	struct rpcrdma_header h, back;
	size_t len = encode_largest(buf, sizeof buf, &h);
	for (size_t cut = 0; cut < len; cut++) {
		uint8_t *exact = malloc(cut ? cut : 1);
		assert_non_null(exact);
		memcpy(exact, buf, cut);
		struct xdr_reader r = xdr_reader(exact, cut);
		assert_int_equal(rpcrdma_header_decode(&r, false, &back), cut < 4 ? -ENODATA : -EBADMSG);
		assert_int_equal(back.xid, cut < 4 ? 0 : XID);
		assert_true(back.proc == (cut < 16 ? UINT32_MAX : RDMA_NOMSG));
		free(exact);
	}
}

static void encoder_sticks_when_it_does_not_fit(void **state)
{
	uint8_t buf[2048];
	struct rpcrdma_header h;
	size_t len = encode_largest(buf, sizeof buf, &h);
	for (size_t size = 0; size < len; size++) {
		uint8_t *exact = malloc(size ? size : 1);
		assert_non_null(exact);
		assert_int_equal(encode_largest(exact, size, &h), 0);
		free(exact);
	}
}

static void other_versions_leave_xid_and_credits(void **state)
{
	static const uint32_t words[] = {XID, 2, 17, 99};
	struct rpcrdma_header h;
	size_t left;
	for (size_t len = 12; len <= sizeof words; len++) {
		assert_int_equal(decode_cut(words, COUNT(words), len, false, &h, &left), -EPROTONOSUPPORT);
		assert_int_equal(h.xid, XID);
		assert_int_equal(h.vers, 2);
		assert_int_equal(h.credits, 17);
	}
	assert_int_equal(DECODE(false, XID, 0, 17, RDMA_MSG, 0, 0, 0), -EPROTONOSUPPORT);
}

static void unknown_procedures_are_refused(void **state)
{
	static const uint32_t bad[] = {RDMA_MSGP, RDMA_DONE, 5, UINT32_MAX};
	for (size_t i = 0; i < COUNT(bad); i++) {
		const uint32_t words[] = {CALL, bad[i], 0, 0, 0, 0, 0};
		struct rpcrdma_header h;
		size_t left;
		assert_int_equal(decode_cut(words, COUNT(words), sizeof words, false, &h, &left), -EBADMSG);
		assert_true(h.proc == bad[i]);
	}
}

static void malformed_read_lists(void **state)
{
	/* a position that is no multiple of 4 */
	assert_int_equal(DECODE(false, CALL, RDMA_MSG, 1, 113, SEG(1, 8, 0), 0, 0, 0), -EBADMSG);
	/* two positions above 0 */
	assert_int_equal(DECODE(false, CALL, RDMA_MSG, 1, 112, SEG(1, 8, 0), 1, 116, SEG(1, 8, 0), 0, 0, 0),
			 -EBADMSG);
	/* a segment of no bytes */
	assert_int_equal(DECODE(false, CALL, RDMA_MSG, 1, 112, SEG(1, 0, 0), 0, 0, 0), -EBADMSG);
	/* offset + length beyond 2^64 */
	assert_int_equal(DECODE(false, CALL, RDMA_MSG, 1, 112, 1, 8, UINT32_MAX, UINT32_MAX - 6, 0, 0, 0),
			 -EBADMSG);
	assert_int_equal(DECODE(false, CALL, RDMA_MSG, 1, 112, 1, 8, UINT32_MAX, UINT32_MAX - 8, 0, 0, 0), 0);
	/* "one more follows" that is neither 0 nor 1 */
	assert_int_equal(DECODE(false, CALL, RDMA_MSG, 2, 112, SEG(1, 8, 0), 0, 0, 0), -EBADMSG);
	/* a long call in RDMA_MSG, and RDMA_NOMSG without one */
	assert_int_equal(DECODE(false, CALL, RDMA_MSG, 1, 0, SEG(1, 8, 0), 0, 0, 0), -EBADMSG);
	assert_int_equal(DECODE(false, CALL, RDMA_NOMSG, 0, 0, 0), -EBADMSG);
	assert_int_equal(DECODE(false, CALL, RDMA_NOMSG, 1, 112, SEG(1, 8, 0), 0, 0, 0), -EBADMSG);
	/* a read list in a reply */
	assert_int_equal(DECODE(true, CALL, RDMA_MSG, 1, 112, SEG(1, 8, 0), 0, 0, 0), -EBADMSG);
	/* a long reply without its chunk */
	assert_int_equal(DECODE(true, CALL, RDMA_NOMSG, 0, 0, 0), -EBADMSG);
}

static void seventeen_read_segments_are_refused(void **state)
{
	for (uint32_t n = 16; n <= 17; n++) {
		uint32_t words[4 + 17 * 6 + 3] = {CALL, RDMA_MSG};
		for (uint32_t i = 0; i < n; i++) {
			const uint32_t seg[] = {1, 112, SEG(1, 8, 0)};
			memcpy(words + 4 + 6 * i, seg, sizeof seg);
		}
		assert_int_equal(decode_words(words, 4 + 6 * n + 3, false), n == 16 ? 0 : -EBADMSG);
	}
}

static void malformed_counted_chunks(void **state)
{
	/* no segments: write list, reply chunk */
	assert_int_equal(DECODE(false, CALL, RDMA_MSG, 0, 1, 0, 0, 0), -EBADMSG);
	assert_int_equal(DECODE(false, CALL, RDMA_MSG, 0, 0, 1, 0), -EBADMSG);
	/* more than there can be */
	assert_int_equal(DECODE(false, CALL, RDMA_MSG, 0, 1, UINT32_MAX, SEG(1, 8, 0), 0, 0), -EBADMSG);
	assert_int_equal(DECODE(false, CALL, RDMA_MSG, 0, 0, 1, 17, SEG(1, 8, 0)), -EBADMSG);
	/* no bytes, overflow */
	assert_int_equal(DECODE(false, CALL, RDMA_MSG, 0, 1, 1, SEG(1, 0, 0), 0, 0), -EBADMSG);
	assert_int_equal(DECODE(false, CALL, RDMA_MSG, 0, 0, 1, 1, SEG(1, 0, 0)), -EBADMSG);
	assert_int_equal(DECODE(false, CALL, RDMA_MSG, 0, 0, 1, 1, 1, 9, UINT32_MAX, UINT32_MAX), -EBADMSG);
	/* presence that is neither 0 nor 1 */
	assert_int_equal(DECODE(false, CALL, RDMA_MSG, 0, 3, 1, SEG(1, 8, 0), 0, 0), -EBADMSG);
	assert_int_equal(DECODE(false, CALL, RDMA_MSG, 0, 0, 2, 1, SEG(1, 8, 0)), -EBADMSG);
	/* a second write chunk */
	assert_int_equal(DECODE(false, CALL, RDMA_MSG, 0, 1, 1, SEG(1, 8, 0), 1, 1, SEG(1, 8, 0), 0, 0),
			 -EBADMSG);
	assert_int_equal(DECODE(false, CALL, RDMA_MSG, 0, 1, 1, SEG(1, 8, 0), 0, 0), 0);
}

static void nomsg_leaves_nothing_to_read(void **state)
{
	static const uint32_t words[] = {CALL, RDMA_NOMSG, 1, 0, SEG(1, 8, 0), 0, 0, 0, XID, XID};
	struct rpcrdma_header h;
	size_t left;
	assert_int_equal(decode_cut(words, COUNT(words), sizeof words, false, &h, &left), 0);
	assert_int_equal(left, 0);
}

static void private_data_bytes(void **state)
{
	static const uint8_t knfsd[] = {0xf6, 0xab, 0x0e, 0x18, 1, 0, 3, 3};
	uint8_t out[RPCRDMA_PRIVATE_BYTES];
	rpcrdma_private_encode(out, &(struct rpcrdma_private){.send_bytes = 4096, .recv_bytes = 4096});
	assert_memory_equal(out, knfsd, sizeof out);
	static const uint8_t extremes[] = {0xf6, 0xab, 0x0e, 0x18, 1, 1, 0, 255};
	rpcrdma_private_encode(out, &(struct rpcrdma_private){true, 1024, 262144});
	assert_memory_equal(out, extremes, sizeof out);
	struct rpcrdma_private p;
	assert_true(rpcrdma_private_decode(extremes, sizeof extremes, &p));
	assert_true(p.remote_invalidate);
	assert_int_equal(p.send_bytes, 1024);
	assert_int_equal(p.recv_bytes, 262144);
}

static void private_data_is_found_at_any_offset(void **state)
{
	for (uint32_t at = 0; at < 32; at++) {
		uint8_t data[40];
		memset(data, 0xf6, sizeof data);
		rpcrdma_private_encode(data + at, &(struct rpcrdma_private){true, 8192, 2048});
		struct rpcrdma_private p;
		assert_true(rpcrdma_private_decode(data, at + 8, &p));
		assert_true(p.remote_invalidate);
		assert_int_equal(p.send_bytes, 8192);
		assert_int_equal(p.recv_bytes, 2048);
	}
}

static void private_data_missing_means_defaults(void **state)
{
	static const uint8_t other_version[] = {0xf6, 0xab, 0x0e, 0x18, 2, 1, 3, 3};
	struct rpcrdma_private p;
	for (uint32_t len = 0; len <= sizeof other_version; len++) {
		p = (struct rpcrdma_private){true, 4096, 4096};
		assert_false(rpcrdma_private_decode(other_version, len, &p));
		assert_false(p.remote_invalidate);
		assert_int_equal(p.send_bytes, 1024);
		assert_int_equal(p.recv_bytes, 1024);
	}
	uint8_t whole[RPCRDMA_PRIVATE_BYTES];
	rpcrdma_private_encode(whole, &(struct rpcrdma_private){true, 4096, 4096});
	for (uint32_t len = 0; len < sizeof whole; len++)
		assert_false(rpcrdma_private_decode(whole, len, &p));
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(short_call_is_28_bytes),
		cmocka_unit_test(read_chunk_of_two_segments),
		cmocka_unit_test(long_call_with_a_read_chunk),
		cmocka_unit_test(positions_may_come_in_any_order),
		cmocka_unit_test(write_list_and_reply_chunk),
		cmocka_unit_test(reply_with_unused_segments),
		cmocka_unit_test(long_reply),
		cmocka_unit_test(errors_both_kinds),
		cmocka_unit_test(largest_header_round_trips),
		cmocka_unit_test(every_truncation_is_refused),
		cmocka_unit_test(encoder_sticks_when_it_does_not_fit),
		cmocka_unit_test(other_versions_leave_xid_and_credits),
		cmocka_unit_test(unknown_procedures_are_refused),
		cmocka_unit_test(malformed_read_lists),
		cmocka_unit_test(seventeen_read_segments_are_refused),
		cmocka_unit_test(malformed_counted_chunks),
		cmocka_unit_test(nomsg_leaves_nothing_to_read),
		cmocka_unit_test(private_data_bytes),
		cmocka_unit_test(private_data_is_found_at_any_offset),
		cmocka_unit_test(private_data_missing_means_defaults),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
