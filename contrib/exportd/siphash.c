/* SPDX-License-Identifier: MIT */
#include "siphash.h"

#include <endian.h>
#include <string.h>

struct sip {
	uint64_t v0, v1, v2, v3;
};

static uint64_t rotl(uint64_t x, int n)
{
	return x << n | x >> (64 - n);
}

static uint64_t load64(const uint8_t *p)
{
	uint64_t v;
	memcpy(&v, p, sizeof v);
	return le64toh(v);
}

static void store64(uint8_t *p, uint64_t v)
{
	v = htole64(v);
	memcpy(p, &v, sizeof v);
}

static void rounds(struct sip *s, int n)
{
	while (n--) {
		s->v0 += s->v1;
		s->v1 = rotl(s->v1, 13) ^ s->v0;
		s->v0 = rotl(s->v0, 32);
		s->v2 += s->v3;
		s->v3 = rotl(s->v3, 16) ^ s->v2;
		s->v0 += s->v3;
		s->v3 = rotl(s->v3, 21) ^ s->v0;
		s->v2 += s->v1;
		s->v1 = rotl(s->v1, 17) ^ s->v2;
		s->v2 = rotl(s->v2, 32);
	}
}

static void absorb(struct sip *s, uint64_t word)
{
	s->v3 ^= word;
	rounds(s, 2);
	s->v0 ^= word;
}

static struct sip sip_init(const uint8_t key[SIPHASH_KEY_BYTES])
{
	uint64_t k0 = load64(key), k1 = load64(key + 8);
	return (struct sip){
		.v0 = k0 ^ 0x736f6d6570736575,
		.v1 = k1 ^ 0x646f72616e646f6d,
		.v2 = k0 ^ 0x6c7967656e657261,
		.v3 = k1 ^ 0x7465646279746573,
	};
}

static void absorb_all(struct sip *s, const uint8_t *p, size_t len_bytes)
{
	uint64_t last = (uint64_t)len_bytes << 56;
	for (; len_bytes >= 8; p += 8, len_bytes -= 8)
		absorb(s, load64(p));
	for (size_t i = 0; i < len_bytes; i++)
		last |= (uint64_t)p[i] << 8 * i;
	absorb(s, last);
}

static uint64_t fold(const struct sip *s)
{
	return s->v0 ^ s->v1 ^ s->v2 ^ s->v3;
}

void siphash128(const uint8_t key[SIPHASH_KEY_BYTES], const void *bytes, size_t len_bytes,
		uint8_t out[SIPHASH128_BYTES])
{
	struct sip s = sip_init(key);
	s.v1 ^= 0xee;
	absorb_all(&s, bytes, len_bytes);
	s.v2 ^= 0xee;
	rounds(&s, 4);
	store64(out, fold(&s));
	s.v1 ^= 0xdd;
	rounds(&s, 4);
	store64(out + 8, fold(&s));
}

uint64_t siphash64(const uint8_t key[SIPHASH_KEY_BYTES], const void *bytes, size_t len_bytes)
{
	struct sip s = sip_init(key);
	absorb_all(&s, bytes, len_bytes);
	s.v2 ^= 0xff;
	rounds(&s, 4);
	return fold(&s);
}
