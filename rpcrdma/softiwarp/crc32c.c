/* SPDX-License-Identifier: MIT
 *
 * Three ways to the same value.
 *
 * The CPU's instruction takes 8 bytes at a time but has a latency of 3 cycles and a throughput of one: so
 * three neighbouring blocks are done side by side and joined. Joining is a multiplication: the CRC of a block
 * that n more bytes follow is multiplied by x^(8n) modulo the polynomial. With PCLMULQDQ that costs a few
 * cycles (carry-less product, reduced by the crc32 instruction itself); elsewhere a loop of 32 steps, so
 * blocks are longer there.
 *
 * The portable way is a table look-up for each of 8 bytes ("slicing by 8").
 *
 * Polynomials are bit-reflected: bit 31 is x^0, bit 0 is x^31.
 */
#include "crc32c.h"

#include <endian.h>
#include <string.h>

#define POLY 0x82F63B78u /* x^32 left out */

/* A block that is long and one that is short; three of each at a time. */
#define LONG_BYTES 2048u
#define SHORT_BYTES 256u

static uint32_t table[8][256];
static uint32_t (*best)(uint32_t crc, const void *data, size_t len_bytes);

static uint64_t load64(const uint8_t *p)
{
	uint64_t v;
	memcpy(&v, p, sizeof v);
	return v;
}

static void table_init(void)
{
	for (unsigned int i = 0; i < 256; i++) {
		uint32_t c = i;
		for (int bit = 0; bit < 8; bit++)
			c = c >> 1 ^ (c & 1 ? POLY : 0);
		table[0][i] = c;
	}
	for (unsigned int i = 0; i < 256; i++)
		for (int k = 1; k < 8; k++)
			table[k][i] = table[k - 1][i] >> 8 ^ table[0][table[k - 1][i] & 255];
}

static uint32_t extend_table(uint32_t crc, const void *data, size_t len)
{
	const uint8_t *p = data;
	crc = ~crc;
	for (; len >= 8; len -= 8, p += 8) {
		uint64_t v = le64toh(load64(p)) ^ crc;
		crc = table[7][v & 255] ^ table[6][v >> 8 & 255] ^ table[5][v >> 16 & 255] ^
		      table[4][v >> 24 & 255] ^ table[3][v >> 32 & 255] ^ table[2][v >> 40 & 255] ^
		      table[1][v >> 48 & 255] ^ table[0][v >> 56];
	}
	for (; len; len--, p++)
		crc = crc >> 8 ^ table[0][(crc ^ *p) & 255];
	return ~crc;
}

static bool always(void)
{
	return true;
}

#if defined(__x86_64__) || defined(__aarch64__)

static uint32_t shift_long[2]; /* what joins: [0] over one block, [1] over two */

/* a * b modulo the polynomial. */
static uint32_t multiply(uint32_t a, uint32_t b)
{
	uint32_t product = 0;
	for (uint32_t bit = 1u << 31; bit; bit >>= 1) {
		if (a & bit)
			product ^= b;
		b = b >> 1 ^ (b & 1 ? POLY : 0);
	}
	return product;
}

/* x^n modulo the polynomial. */
static uint32_t x_to_the(uint64_t n)
{
	uint32_t result = 1u << 31; /* x^0 */
	uint32_t square = 1u << 30; /* x^1 */
	for (; n; n >>= 1) {
		if (n & 1)
			result = multiply(result, square);
		square = multiply(square, square);
	}
	return result;
}

#endif

#ifdef __x86_64__

#include <immintrin.h>

static uint32_t shift_short[2];

static bool has_sse42(void)
{
	return __builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("pclmul");
}

/* The carry-less product of two reflected 32-bit polynomials stands one place too low in 64 bits, and crc32
 * multiplies by x^32: so what joins over n bytes is x^(8n - 33). */
static void join_init(void)
{
	for (unsigned int i = 0; i < 2; i++) {
		shift_long[i] = x_to_the(8ull * LONG_BYTES * (i + 1) - 33);
		shift_short[i] = x_to_the(8ull * SHORT_BYTES * (i + 1) - 33);
	}
}

__attribute__((target("sse4.2,pclmul"))) static inline uint64_t join(uint64_t crc, uint32_t by)
{
	__m128i product =
		_mm_clmulepi64_si128(_mm_cvtsi64_si128((long long)crc), _mm_cvtsi32_si128((int)by), 0);
	return _mm_crc32_u64(0, (uint64_t)_mm_cvtsi128_si64(product));
}

/* Three blocks side by side. */
__attribute__((target("sse4.2,pclmul"))) static inline uint64_t three(uint64_t crc, const uint8_t *p,
								      size_t block, const uint32_t *shift)
{
	uint64_t b = 0, c = 0;
	for (const uint8_t *end = p + block; p < end; p += 8) {
		crc = _mm_crc32_u64(crc, load64(p));
		b = _mm_crc32_u64(b, load64(p + block));
		c = _mm_crc32_u64(c, load64(p + 2 * block));
	}
	return join(crc, shift[1]) ^ join(b, shift[0]) ^ c;
}

__attribute__((target("sse4.2,pclmul"))) static uint32_t extend_sse42(uint32_t crc32, const void *data,
								      size_t len)
{
	const uint8_t *p = data;
	uint64_t crc = (uint32_t)~crc32;
	for (; len >= 3 * LONG_BYTES; len -= 3 * LONG_BYTES, p += 3 * LONG_BYTES)
		crc = three(crc, p, LONG_BYTES, shift_long);
	for (; len >= 3 * SHORT_BYTES; len -= 3 * SHORT_BYTES, p += 3 * SHORT_BYTES)
		crc = three(crc, p, SHORT_BYTES, shift_short);
	for (; len >= 8; len -= 8, p += 8)
		crc = _mm_crc32_u64(crc, load64(p));
	for (; len; len--, p++)
		crc = _mm_crc32_u8((uint32_t)crc, *p);
	return ~(uint32_t)crc;
}

#elif defined(__aarch64__)

#include <arm_acle.h>
#include <sys/auxv.h>

#ifndef HWCAP_CRC32
#define HWCAP_CRC32 (1 << 7)
#endif

static bool has_arm_crc(void)
{
	return getauxval(AT_HWCAP) & HWCAP_CRC32;
}

static void join_init(void)
{
	for (unsigned int i = 0; i < 2; i++)
		shift_long[i] = x_to_the(8ull * LONG_BYTES * (i + 1));
}

__attribute__((target("+crc"))) static uint32_t extend_arm(uint32_t crc, const void *data, size_t len)
{
	const uint8_t *p = data;
	crc = ~crc;
	for (; len >= 3 * LONG_BYTES; len -= 3 * LONG_BYTES, p += 2 * LONG_BYTES) {
		uint32_t b = 0, c = 0;
		for (const uint8_t *end = p + LONG_BYTES; p < end; p += 8) {
			crc = __crc32cd(crc, load64(p));
			b = __crc32cd(b, load64(p + LONG_BYTES));
			c = __crc32cd(c, load64(p + 2 * LONG_BYTES));
		}
		crc = multiply(crc, shift_long[1]) ^ multiply(b, shift_long[0]) ^ c;
	}
	for (; len >= 8; len -= 8, p += 8)
		crc = __crc32cd(crc, load64(p));
	for (; len; len--, p++)
		crc = __crc32cb(crc, *p);
	return ~crc;
}

#endif

const struct crc32c_way crc32c_ways[] = {
#ifdef __x86_64__
	{"sse4.2", has_sse42, extend_sse42},
#elif defined(__aarch64__)
	{"armv8-crc", has_arm_crc, extend_arm},
#endif
	{"table", always, extend_table},
};
const unsigned int crc32c_nways = sizeof crc32c_ways / sizeof *crc32c_ways;

__attribute__((constructor)) static void crc32c_init(void)
{
	table_init();
#ifdef __x86_64__
	__builtin_cpu_init();
#endif
#if defined(__x86_64__) || defined(__aarch64__)
	join_init();
#endif
	unsigned int i = 0;
	while (!crc32c_ways[i].usable())
		i++;
	best = crc32c_ways[i].extend;
}

uint32_t crc32c(uint32_t crc, const void *data, size_t len)
{
	return best(crc, data, len);
}
