/* SPDX-License-Identifier: MIT
 *
 * The codecs of MPA frames and of DDP and RDMAP headers, against bytes written down by hand from the RFCs.
 */
#include "softiwarp/ddp.h"
#include "softiwarp/mpa.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* ---- MPA ---- */

static const uint8_t request[] = "MPA ID Req Frame\x50\x02\x00\x06\xc0\x10\x80\x20pd";
#define REQUEST_BYTES (sizeof request - 1)

static void mpa_request_is_encoded(void **state)
{
	uint8_t out[MPA_FRAME_MAX];
	struct mpa_frame f = {.crc = true,
			      .enhanced = true,
			      .revision = 2,
			      .ird = 16,
			      .ord = 32,
			      .peer_to_peer = true,
			      .rtr = MPA_RTR_SEND | MPA_RTR_WRITE,
			      .private_data = (const uint8_t *)"pd",
			      .private_len = 2};
	assert_int_equal(mpa_encode(out, &f), REQUEST_BYTES);
	assert_memory_equal(out, request, REQUEST_BYTES);
}

static void mpa_request_is_decoded(void **state)
{
	struct mpa_frame f;
	assert_int_equal(mpa_decode(request, REQUEST_BYTES, &f), 0);
	assert_false(f.reply);
	assert_true(f.crc);
	assert_false(f.markers);
	assert_true(f.enhanced);
	assert_int_equal(f.revision, 2);
	assert_int_equal(f.ird, 16);
	assert_int_equal(f.ord, 32);
	assert_true(f.peer_to_peer);
	assert_int_equal(f.rtr, MPA_RTR_SEND | MPA_RTR_WRITE);
	assert_int_equal(f.private_len, 2);
	assert_memory_equal(f.private_data, "pd", 2);
}

static void mpa_flags_of_revision_1_have_no_s(void **state)
{
	struct mpa_frame f;
	assert_int_equal(mpa_decode((const uint8_t *)"MPA ID Rep Frame\xf0\x01\x00\x00", 20, &f), 0);
	assert_true(f.reply && f.markers && f.crc && f.rejected);
	assert_false(f.enhanced);
	assert_int_equal(f.revision, 1);
}

static void mpa_reject_bit_of_a_request_is_not_looked_at(void **state)
{
	struct mpa_frame f;
	assert_int_equal(mpa_decode((const uint8_t *)"MPA ID Req Frame\x20\x01\x00\x00", 20, &f), 0);
	assert_false(f.rejected);
}

static void malformed_mpa_is_refused(void **state)
{
	uint8_t frame[MPA_FRAME_MAX + 1] = "MPA ID Req Frame\x50\x02\x00\x06\0\1\0\1pd";
	struct mpa_frame f = {.revision = 77};
	for (uint32_t len = 0; len < REQUEST_BYTES; len++)
		assert_int_equal(mpa_decode(frame, len, &f), -EPROTO);
	assert_int_equal(mpa_decode(frame, REQUEST_BYTES + 1, &f), -EPROTO);
	for (unsigned int i = 0; i < MPA_KEY_BYTES; i++) {
		frame[i] ^= 0x20;
		assert_int_equal(mpa_decode(frame, REQUEST_BYTES, &f), -EPROTO);
		frame[i] ^= 0x20;
	}
	frame[19] = 3; /* S, but no room for its data */
	assert_int_equal(mpa_decode(frame, 23, &f), -EPROTO);
	frame[18] = 2; /* 513 bytes */
	frame[19] = 1;
	assert_int_equal(mpa_decode(frame, 20 + 513, &f), -EPROTO);
	assert_int_equal(f.revision, 77); /* written on success only */
}

static void key_is_told_apart_at_the_first_wrong_byte(void **state)
{
	assert_true(mpa_key_matches((const uint8_t *)"", 0, true));
	assert_true(mpa_key_matches((const uint8_t *)"MPA", 3, true));
	assert_false(mpa_key_matches((const uint8_t *)"MPB", 3, true));
	assert_true(mpa_key_matches((const uint8_t *)"MPA ID Re", 9, true));
	assert_false(mpa_key_matches((const uint8_t *)"MPA ID Req", 10, true));
	assert_true(mpa_key_matches((const uint8_t *)"MPA ID Req Framexyz", 19, false));
}

static void pads_make_multiples_of_four(void **state)
{
	for (uint32_t ulpdu = 0; ulpdu <= MPA_ULPDU_MAX; ulpdu++) {
		assert_in_range(mpa_pad_bytes(ulpdu), 0, 3);
		assert_int_equal((MPA_LENGTH_BYTES + ulpdu + mpa_pad_bytes(ulpdu)) % 4, 0);
	}
}

/* ---- DDP ---- */

static const uint8_t tagged[] = {0xc1, 0x40, 0x11, 0x22, 0x33, 0x44, 1, 2, 3, 4, 5, 6, 7, 8};
static const uint8_t untagged[] = {0x01, 0x44, 0xde, 0xad, 0xbe, 0xef, 0, 0, 0, 0, 0, 0, 0, 9, 0, 1, 0, 0};

static void tagged_header(void **state)
{
	struct ddp_header h = {.tagged = true,
			       .last = true,
			       .ddp_version = 1,
			       .rdmap_version = 1,
			       .opcode = RDMAP_WRITE,
			       .stag = 0x11223344,
			       .offset = 0x0102030405060708};
	uint8_t out[DDP_HEADER_MAX];
	assert_int_equal(sizeof tagged, DDP_TAGGED_BYTES);
	assert_int_equal(ddp_header_bytes(tagged[0]), DDP_TAGGED_BYTES);
	assert_int_equal(ddp_encode(out, &h), sizeof tagged);
	assert_memory_equal(out, tagged, sizeof tagged);
	struct ddp_header back;
	ddp_decode(tagged, &back);
	assert_true(back.tagged && back.last);
	assert_int_equal(back.opcode, RDMAP_WRITE);
	assert_int_equal(back.stag, h.stag);
	assert_true(back.offset == h.offset);
}

static void untagged_header(void **state)
{
	struct ddp_header h = {.ddp_version = 1,
			       .rdmap_version = 1,
			       .opcode = RDMAP_SEND_INVALIDATE,
			       .stag = 0xdeadbeef,
			       .offset = 0x10000,
			       .msn = 9};
	uint8_t out[DDP_HEADER_MAX];
	assert_int_equal(sizeof untagged, DDP_UNTAGGED_BYTES);
	assert_int_equal(ddp_header_bytes(untagged[0]), DDP_UNTAGGED_BYTES);
	assert_int_equal(ddp_encode(out, &h), sizeof untagged);
	assert_memory_equal(out, untagged, sizeof untagged);
	struct ddp_header back;
	ddp_decode(untagged, &back);
	assert_false(back.tagged || back.last);
	assert_int_equal(back.opcode, RDMAP_SEND_INVALIDATE);
	assert_int_equal(back.stag, 0xdeadbeef);
	assert_int_equal(back.queue, 0);
	assert_int_equal(back.msn, 9);
	assert_int_equal(back.offset, 0x10000);
}

static void reserved_bits_are_ignored(void **state)
{
	uint8_t bytes[DDP_HEADER_MAX];
	struct ddp_header h;
	memcpy(bytes, untagged, sizeof untagged);
	bytes[0] |= 0x3c;
	bytes[1] |= 0x30;
	ddp_decode(bytes, &h);
	assert_int_equal(h.ddp_version, 1);
	assert_int_equal(h.rdmap_version, 1);
	assert_int_equal(h.opcode, RDMAP_SEND_INVALIDATE);
}

static void read_request(void **state)
{
	static const uint8_t bytes[RDMAP_READ_REQUEST_BYTES] = {0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0,
								0, 3, 0, 0, 0, 4, 0, 0, 0, 1, 0, 0, 0, 5};
	struct rdmap_read_request r = {1, 2, 3, 4, 0x100000005}, back;
	uint8_t out[RDMAP_READ_REQUEST_BYTES];
	rdmap_read_request_encode(out, &r);
	assert_memory_equal(out, bytes, sizeof bytes);
	rdmap_read_request_decode(bytes, &back);
	assert_memory_equal(&back.sink_stag, &r.sink_stag, sizeof r.sink_stag);
	assert_int_equal(back.sink_offset, 2);
	assert_int_equal(back.len_bytes, 3);
	assert_int_equal(back.source_stag, 4);
	assert_true(back.source_offset == 0x100000005);
}

static void terminate(void **state)
{
	uint8_t out[RDMAP_TERMINATE_MAX], segment[2 + DDP_TAGGED_BYTES] = {0, 18, 0xc1, 0x40};
	struct rdmap_terminate t = {
		.fault = FAULT_DDP_BOUNDS, .segment = segment, .segment_len = sizeof segment};
	assert_int_equal(rdmap_terminate_encode(out, &t), 4 + 16);
	assert_memory_equal(out, "\x11\x01\xc0\x00", 4);
	assert_memory_equal(out + 4, segment, sizeof segment);
	assert_int_equal(rdmap_terminate_fault(out), FAULT_DDP_BOUNDS);
	t = (struct rdmap_terminate){.fault = FAULT_MPA_CRC};
	assert_int_equal(rdmap_terminate_encode(out, &t), 4);
	assert_memory_equal(out, "\x20\x02\x00\x00", 4);
}

static void faults_have_words(void **state)
{
	assert_string_equal(fault_text(FAULT_RDMAP_ACCESS), "RDMAP: access rights violation");
	assert_null(fault_text(FAULT_NONE));
	assert_null(fault_text(FAULT(15u, 1u, 1u)));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(mpa_request_is_encoded),
		cmocka_unit_test(mpa_request_is_decoded),
		cmocka_unit_test(mpa_flags_of_revision_1_have_no_s),
		cmocka_unit_test(mpa_reject_bit_of_a_request_is_not_looked_at),
		cmocka_unit_test(malformed_mpa_is_refused),
		cmocka_unit_test(key_is_told_apart_at_the_first_wrong_byte),
		cmocka_unit_test(pads_make_multiples_of_four),
		cmocka_unit_test(tagged_header),
		cmocka_unit_test(untagged_header),
		cmocka_unit_test(reserved_bits_are_ignored),
		cmocka_unit_test(read_request),
		cmocka_unit_test(terminate),
		cmocka_unit_test(faults_have_words),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
