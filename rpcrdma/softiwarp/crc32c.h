/* SPDX-License-Identifier: MIT
 *
 * CRC32C (Castagnoli), the check of every FPDU (RFC 5044 §4.4) and of iSCSI (RFC 3720 §12.1, test vectors in
 * B.4).
 *
 * The fastest way that this CPU has is chosen once, before main(). All give the same values. Any thread.
 */
#ifndef SOFTIWARP_CRC32C_H
#define SOFTIWARP_CRC32C_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Extends the CRC of what came before (0 for nothing) by len_bytes at data. Calls chain:
 * crc32c(crc32c(0, a, n), b, m) is the CRC of a and b joined. */
uint32_t crc32c(uint32_t crc, const void *data, size_t len_bytes);

/* The ways, best first, for tests and for those who want to say which is in use. The last one works
 * everywhere. */
struct crc32c_way {
	const char *name;
	bool (*usable)(void); /* on this CPU */
	uint32_t (*extend)(uint32_t crc, const void *data, size_t len_bytes);
};
extern const struct crc32c_way crc32c_ways[];
extern const unsigned int crc32c_nways;

#endif
