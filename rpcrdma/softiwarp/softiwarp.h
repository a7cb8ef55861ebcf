/* SPDX-License-Identifier: MIT
 *
 * softiwarp: iWARP in user space, an RDMA device (device.h) that needs no adapter, no kernel module and no
 * root, only a TCP socket. Wire-compatible with the Linux siw driver: MPA revision 2 without markers (RFC
 * 5044, 6581), DDP (RFC 5041), RDMAP (RFC 5040).
 *
 * Things that the device interface leaves open, and how they are here:
 * - Regions and windows are zero-based: fmr->remote_offset is 0 for a window; with the persistent strategy
 * the offset of addr is addr - region->addr, under region->rkey.
 * - A bind and an invalidate take effect as they are queued. An invalidate completes at once unless a Read
 * Response that is queued or half sent still reads the memory; then when it is sent. An RDMA Write whose
 * window is invalidated halfway stops placing.
 * - queue_invalidate() of a window that is not bound (or was already invalidated by the peer) gives -EINVAL.
 * - Freeing a window that a Read Response still reads ends the connection.
 * - A Read beyond the peer's read depth waits by itself; Sends and Writes queued behind it do not.
 * - Requests may complete in doorbell() itself, and an invalidate in queue_invalidate(): poll() afterwards.
 * Until that is done timeout_ns is 1, so that who sleeps by it does not sleep.
 * - A request with ctx NULL has no completion, not even when it is flushed.
 * - The passive side sends nothing before the first message of the active side is here (RFC 5044 §7.1.2).
 * - queue_*() give -ENOTCONN when there is no connection, -ENOBUFS when max_send or max_recv are used up
 * (until their completions have been polled), -EINVAL for memory that its lkey does not cover.
 */
#ifndef SOFTIWARP_H
#define SOFTIWARP_H

#include "device.h"

extern const struct rdma_device softiwarp_device;

/* Counted since open(), over all connections of the endpoint; FPDUs are in struct rdma_ep. */
struct softiwarp_stats {
	uint64_t bytes_in, bytes_out; /* of the TCP stream, set-up left out */
	uint64_t receives, sends;     /* system calls that moved them (or found nothing to move) */
	uint64_t doorbells;
	uint64_t crc_errors;
	uint64_t terminates_in, terminates_out;
};
const struct softiwarp_stats *softiwarp_stats(const struct rdma_ep *ep);

/* Whether to ask for CRCs in connections to come. On by default; they are off only when neither side asks
 * (RFC 5044 §4.4: at the explicit request of an administrator). */
void softiwarp_want_crc(struct rdma_ep *ep, bool want);

#endif
