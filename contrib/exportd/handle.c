/* SPDX-License-Identifier: MIT */
#include "handle.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#define FH_VERSION 1

int fh_seal(const uint8_t key[SIPHASH_KEY_BYTES], const struct fh_body *body, struct fh *fh)
{
	if (body->len_bytes > FH_BODY_MAX_BYTES)
		return -EOVERFLOW;
	uint8_t *p = fh->bytes;
	p[0] = (uint8_t)(body->kind << 4 | FH_VERSION);
	p[1] = body->len_bytes;
	p[2] = (uint8_t)(body->type >> 8);
	p[3] = (uint8_t)body->type;
	for (int i = 0; i < 4; i++)
		p[4 + i] = (uint8_t)(body->export_id >> (24 - 8 * i));
	memcpy(p + FH_HEAD_BYTES, body->bytes, body->len_bytes);
	size_t sealed = FH_HEAD_BYTES + body->len_bytes;
	siphash128(key, p, sealed, p + sealed);
	fh->len_bytes = (uint32_t)sealed + SIPHASH128_BYTES;
	return 0;
}

/* In constant time: how much of a forged MAC was right must not be told by the clock. */
static bool mac_equal(const uint8_t *a, const uint8_t *b)
{
	uint8_t diff = 0;
	for (int i = 0; i < SIPHASH128_BYTES; i++)
		diff |= a[i] ^ b[i];
	return diff == 0;
}

int fh_unseal(const uint8_t key[SIPHASH_KEY_BYTES], const struct fh *fh, struct fh_body *body)
{
	const uint8_t *p = fh->bytes;
	if (fh->len_bytes < FH_HEAD_BYTES + SIPHASH128_BYTES || fh->len_bytes > FH_MAX_BYTES)
		return -EBADF;
	size_t sealed = fh->len_bytes - SIPHASH128_BYTES;
	if ((p[0] & 0xf) != FH_VERSION || p[1] != sealed - FH_HEAD_BYTES)
		return -EBADF;
	uint8_t mac[SIPHASH128_BYTES];
	siphash128(key, p, sealed, mac);
	if (!mac_equal(mac, p + sealed))
		return -ESTALE;
	*body = (struct fh_body){
		.kind = p[0] >> 4,
		.type = (uint16_t)(p[2] << 8 | p[3]),
		.export_id = (uint32_t)p[4] << 24 | (uint32_t)p[5] << 16 | (uint32_t)p[6] << 8 | p[7],
		.len_bytes = p[1],
	};
	memcpy(body->bytes, p + FH_HEAD_BYTES, body->len_bytes);
	return 0;
}
