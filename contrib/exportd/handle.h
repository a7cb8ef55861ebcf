/* SPDX-License-Identifier: MIT
 *
 * The NFSv3 file handle of this server (RFC 1813 §2.3.3: opaque, up to 64 bytes), sealed with a MAC.
 *
 *   0      kind << 4 | version
 *   1      length of the body
 *   2..3   handle type of the kernel, big-endian (name_to_handle_at(2))
 *   4..7   export
 *   8..    body
 *   then   MAC over all that is before it
 *
 * A handle that does not carry our MAC was not made by us: nothing in it is looked at. So a client reaches
 * exactly the objects that it was given a handle of, and no inode number can be guessed. Pure: no I/O, no
 * state.
 */
#ifndef EXPORTD_HANDLE_H
#define EXPORTD_HANDLE_H

#include "siphash.h"

#include <assert.h>
#include <stdint.h>

#define FH_MAX_BYTES 64 /* NFS3_FHSIZE */
#define FH_HEAD_BYTES 8
#define FH_BODY_MAX_BYTES (FH_MAX_BYTES - FH_HEAD_BYTES - SIPHASH128_BYTES)
static_assert(FH_BODY_MAX_BYTES == 40,
	      "overlayfs needs up to 37 bytes over ext4, btrfs 40 in its longest form");

enum fh_kind {
	FH_ROOT = 1,   /* the root of the export, whatever its inode: the body is empty */
	FH_KERNEL = 2, /* a handle of name_to_handle_at(2): survives renames and restarts */
	FH_TABLE = 3, /* an identity in our table of paths: survives renames made through us, not a restart */
};

struct fh {
	uint32_t len_bytes;
	uint8_t bytes[FH_MAX_BYTES];
};

struct fh_body {
	enum fh_kind kind;
	uint16_t type; /* FH_KERNEL only */
	uint32_t export_id;
	uint8_t len_bytes;
	uint8_t bytes[FH_BODY_MAX_BYTES];
};

/* -EOVERFLOW: the body is longer than a handle can hold. */
int fh_seal(const uint8_t key[SIPHASH_KEY_BYTES], const struct fh_body *body, struct fh *fh);
/* -EBADF: not the form of a handle; -ESTALE: the form, but not our seal. *body is written on success only. */
int fh_unseal(const uint8_t key[SIPHASH_KEY_BYTES], const struct fh *fh, struct fh_body *body);

#endif
