/* SPDX-License-Identifier: MIT
 *
 * The duplicate request cache (RFC 1813 §4.5): a call that is not idempotent and comes twice is run once, and
 * the second is answered with the first's reply.
 *
 * A call is known by the client's address *without its port* (a client that reconnects comes from another),
 * its XID, its procedure and a checksum of the start of the call. A second that comes while the first is
 * still running waits for it. Memory is taken once; the oldest finished reply makes room for a new call. Safe
 * to call from any thread.
 */
#ifndef EXPORTD_DRC_H
#define EXPORTD_DRC_H

#include "siphash.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define DRC_REPLY_MAX_BYTES 512 /* the longest is CREATE's: 24 + 4 + 4+4+64 + 4+84 + 4+24 + 4+84 = 304 */
#define DRC_CHECKSUM_BYTES 256U /* of the start of a call */

struct drc;
struct drc_entry;

struct drc_key {
	uint8_t addr[16]; /* IPv6, or IPv4 mapped into it */
	uint32_t xid;
	uint32_t proc;
	uint64_t checksum;
};

struct drc *drc_create(size_t entries); /* NULL: no memory */
void drc_destroy(struct drc *drc);	/* no call may be running */

/* True: new; run it, and hand *entry to drc_finish. False: a duplicate, its reply is in reply[0..*len).
 * *entry may be NULL for a new call when every entry is in use by a running one: then it is simply not
 * remembered. */
bool drc_begin(struct drc *drc, const struct drc_key *key, struct drc_entry **entry, uint8_t *reply,
	       uint32_t *len_bytes);
/* A reply of 0 bytes, or one that is too long, is forgotten at once: a duplicate would run again. */
void drc_finish(struct drc *drc, struct drc_entry *entry, const uint8_t *reply, uint32_t len_bytes);

#endif
