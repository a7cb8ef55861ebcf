/* SPDX-License-Identifier: MIT
 *
 * CRC32C: the vectors of RFC 3720 B.4, and every way that this CPU has against one bit at a time.
 */
#include "softiwarp/crc32c.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static uint32_t one_bit_at_a_time(uint32_t crc, const uint8_t *p, size_t len)
{
	crc = ~crc;
	for (size_t i = 0; i < len; i++) {
		crc ^= p[i];
		for (int bit = 0; bit < 8; bit++)
			crc = crc >> 1 ^ (crc & 1 ? 0x82f63b78 : 0);
	}
	return ~crc;
}

static void check(const void *data, size_t len, uint32_t expected)
{
	assert_int_equal(crc32c(0, data, len), expected);
	for (unsigned int i = 0; i < crc32c_nways; i++)
		if (crc32c_ways[i].usable())
			assert_int_equal(crc32c_ways[i].extend(0, data, len), expected);
}

static void vectors_of_rfc_3720(void **state)
{
	uint8_t bytes[32] = {0};
	static const uint8_t read10[48] = {0x01, 0xc0, 0, 0, 0, 0, 0, 0, 0,    0, 0, 0,	   0, 0, 0, 0,
					   0x14, 0,    0, 0, 0, 0, 4, 0, 0,    0, 0, 0x14, 0, 0, 0, 0x18,
					   0x28, 0,    0, 0, 0, 0, 0, 0, 0x02, 0, 0, 0,	   0, 0, 0, 0};
	check(bytes, 32, 0x8a9136aa);
	memset(bytes, 0xff, 32);
	check(bytes, 32, 0x62a8ab43);
	for (uint8_t i = 0; i < 32; i++)
		bytes[i] = i;
	check(bytes, 32, 0x46dd794e);
	for (uint8_t i = 0; i < 32; i++)
		bytes[i] = 31 - i;
	check(bytes, 32, 0x113fdb5c);
	check(read10, 48, 0xd9963a56);
	check("123456789", 9, 0xe3069283);
	check("", 0, 0);
}

static void all_ways_agree(void **state)
{
	uint8_t *data = malloc(100000);
	unsigned int seed = 1;
	for (size_t i = 0; i < 100000; i++)
		data[i] = (uint8_t)((seed = seed * 1103515245u + 12345u) >> 16);
	for (unsigned int i = 0; i < crc32c_nways; i++) {
		if (!crc32c_ways[i].usable())
			continue;
		print_message("  %s\n", crc32c_ways[i].name);
		for (size_t len = 0; len < 1000; len++) /* every length, every alignment */
			assert_int_equal(crc32c_ways[i].extend(len, data + len % 17, len),
					 one_bit_at_a_time((uint32_t)len, data + len % 17, len));
		for (size_t len = 1000; len < 90000; len = len * 9 / 8 + 1)
			assert_int_equal(crc32c_ways[i].extend(7, data + len % 64, len),
					 one_bit_at_a_time(7, data + len % 64, len));
	}
	free(data);
}

static void parts_chain(void **state)
{
	uint8_t data[20000];
	for (size_t i = 0; i < sizeof data; i++)
		data[i] = (uint8_t)(i * 31);
	uint32_t whole = crc32c(0, data, sizeof data);
	for (size_t cut = 0; cut <= sizeof data; cut += 997)
		assert_int_equal(crc32c(crc32c(0, data, cut), data + cut, sizeof data - cut), whole);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(vectors_of_rfc_3720),
		cmocka_unit_test(all_ways_agree),
		cmocka_unit_test(parts_chain),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
