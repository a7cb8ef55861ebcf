/* SPDX-License-Identifier: MIT
 *
 * The server's file handles: what was sealed is unsealed, and nothing else is.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <string.h>

#include "handle.h"

static const uint8_t key[SIPHASH_KEY_BYTES] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};

static struct fh_body body_of(uint8_t len)
{
	struct fh_body b = {.kind = FH_KERNEL, .type = 0x1234, .export_id = 0xdeadbeef, .len_bytes = len};
	for (uint8_t i = 0; i < len; i++)
		b.bytes[i] = (uint8_t)(i * 7 + 1);
	return b;
}

/* The vectors of the reference implementation, for the key 00 01 .. 0f and the input 00 01 02 ... */
static void siphash_gives_the_reference_vectors(void **state)
{
	static const uint8_t empty128[] = {0xa3, 0x81, 0x7f, 0x04, 0xba, 0x25, 0xa8, 0xe6,
					   0x6d, 0xf6, 0x72, 0x14, 0xc7, 0x55, 0x02, 0x93};
	uint8_t in[15], out[SIPHASH128_BYTES];
	for (uint8_t i = 0; i < sizeof in; i++)
		in[i] = i;
	siphash128(key, in, 0, out);
	assert_memory_equal(out, empty128, sizeof out);
	assert_true(siphash64(key, in, 0) == 0x726fdb47dd0e0e31);
	assert_true(siphash64(key, in, 15) == 0xa129ca6149be45e5);
}

static void what_was_sealed_is_unsealed(void **state)
{
	for (uint8_t len = 0; len <= FH_BODY_MAX_BYTES; len++) {
		struct fh_body in = body_of(len), out;
		struct fh fh;
		assert_int_equal(fh_seal(key, &in, &fh), 0);
		assert_true(fh.len_bytes <= FH_MAX_BYTES);
		assert_int_equal(fh_unseal(key, &fh, &out), 0);
		assert_int_equal(out.kind, in.kind);
		assert_int_equal(out.type, in.type);
		assert_int_equal(out.export_id, in.export_id);
		assert_int_equal(out.len_bytes, in.len_bytes);
		assert_memory_equal(out.bytes, in.bytes, len);
	}
}

static void a_body_that_is_too_long_is_refused(void **state)
{
	struct fh_body b = {.kind = FH_KERNEL, .len_bytes = FH_BODY_MAX_BYTES + 1};
	struct fh fh;
	assert_int_equal(fh_seal(key, &b, &fh), -EOVERFLOW);
}

static void any_altered_bit_is_noticed(void **state)
{
	struct fh_body in = body_of(12), out = {.len_bytes = 99};
	struct fh fh;
	assert_int_equal(fh_seal(key, &in, &fh), 0);
	for (uint32_t bit = 0; bit < fh.len_bytes * 8; bit++) {
		fh.bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
		assert_int_not_equal(fh_unseal(key, &fh, &out), 0);
		fh.bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
	}
	assert_int_equal(out.len_bytes, 99); /* written on success only */
	assert_int_equal(fh_unseal(key, &fh, &out), 0);
}

static void a_shorter_or_longer_handle_is_refused(void **state)
{
	struct fh_body in = body_of(12), out;
	struct fh fh;
	assert_int_equal(fh_seal(key, &in, &fh), 0);
	uint32_t right = fh.len_bytes;
	for (fh.len_bytes = 0; fh.len_bytes <= FH_MAX_BYTES + 8; fh.len_bytes++)
		if (fh.len_bytes != right)
			assert_int_not_equal(fh_unseal(key, &fh, &out), 0);
}

static void a_handle_of_another_key_is_stale(void **state)
{
	uint8_t other[SIPHASH_KEY_BYTES];
	struct fh_body in = body_of(8), out;
	struct fh fh;
	memcpy(other, key, sizeof other);
	other[15] ^= 1;
	assert_int_equal(fh_seal(other, &in, &fh), 0);
	assert_int_equal(fh_unseal(key, &fh, &out), -ESTALE);
}

static void a_body_moved_to_another_export_is_stale(void **state)
{
	struct fh_body in = body_of(8), out;
	struct fh a, b;
	assert_int_equal(fh_seal(key, &in, &a), 0);
	in.export_id++;
	assert_int_equal(fh_seal(key, &in, &b), 0);
	memcpy(b.bytes + b.len_bytes - SIPHASH128_BYTES, a.bytes + a.len_bytes - SIPHASH128_BYTES,
	       SIPHASH128_BYTES);
	assert_int_equal(fh_unseal(key, &b, &out), -ESTALE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(siphash_gives_the_reference_vectors),
		cmocka_unit_test(what_was_sealed_is_unsealed),
		cmocka_unit_test(a_body_that_is_too_long_is_refused),
		cmocka_unit_test(any_altered_bit_is_noticed),
		cmocka_unit_test(a_shorter_or_longer_handle_is_refused),
		cmocka_unit_test(a_handle_of_another_key_is_stale),
		cmocka_unit_test(a_body_moved_to_another_export_is_stale),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
