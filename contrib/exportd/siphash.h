/* SPDX-License-Identifier: MIT
 *
 * SipHash-2-4 (Aumasson and Bernstein): a keyed hash of short inputs. With 128 bits of output it is the MAC
 * of file handles; its first 64 bits are the hash of tables whose keys a client chooses.
 */
#ifndef EXPORTD_SIPHASH_H
#define EXPORTD_SIPHASH_H

#include <stddef.h>
#include <stdint.h>

#define SIPHASH_KEY_BYTES 16
#define SIPHASH128_BYTES 16

void siphash128(const uint8_t key[SIPHASH_KEY_BYTES], const void *bytes, size_t len_bytes,
		uint8_t out[SIPHASH128_BYTES]);
uint64_t siphash64(const uint8_t key[SIPHASH_KEY_BYTES], const void *bytes, size_t len_bytes);

#endif
