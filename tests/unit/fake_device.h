/* SPDX-License-Identifier: MIT
 *
 * An RDMA device without a network: endpoints in one process, joined by memory. It implements the whole of
 * device.h, so that the transport is tested without a socket, and lets a test interfere.
 *
 * What is queued is carried out, in order, at the doorbell, on the peer's memory; completions and received
 * messages can be polled from then on. A connection's state changes only inside the functions of its own
 * endpoint, and so in its progress() when the other side caused it. Every key, range, access right and buffer
 * is checked the way a strict adapter does it: what breaks a rule ends the connection on both sides, as it
 * would there; what breaks the rules of device.h itself (memory that is not registered, a queue that is over
 * its limit) is refused and counted in misuses.
 *
 * Several listeners may exist at a time, told apart by their port. Single-threaded.
 */
#ifndef FAKE_DEVICE_H
#define FAKE_DEVICE_H

#include "device.h"

extern const struct rdma_device fake_device; /* name "fake" */

/* The limits that endpoints opened from now on get; reset by fake_reset(). Defaults: max_sge 4, max_recv and
 * max_send 512, windows, window_bounds and remote_invalidate true. */
extern struct rdma_limits fake_limits;
/* Defaults everywhere; to be called at the start of each test. */
void fake_reset(void);
/* Endpoints, regions, windows and listeners that exist now, all together: 0 when nothing has leaked. */
unsigned int fake_living(void);

/* What an endpoint has done. */
enum fake_kind {
	FAKE_SEND,
	FAKE_SEND_INVALIDATE,
	FAKE_WRITE,
	FAKE_READ,
	FAKE_BIND,
	FAKE_INVALIDATE,
	FAKE_KINDS
};
struct fake_counts {
	uint64_t posts[FAKE_KINDS]; /* queued and not refused */
	uint64_t recvs;		    /* receives queued */
	uint64_t doorbells;	    /* that found something to hand over */
	uint64_t registrations, deregistrations;
	uint64_t windows;		    /* allocated, ever */
	uint64_t bytes_written, bytes_read; /* by RDMA Write and Read of this side */
	uint64_t max_queued;		    /* the most requests that were queued or under way */
	uint64_t misuses;		    /* see above: has to be 0 */
	uint64_t double_invalidates;	    /* of a window that was not bound */
};
const struct fake_counts *fake_counts(const struct rdma_ep *ep);
/* How many receives are posted and not used; how many windows are bound. */
unsigned int fake_posted_recvs(const struct rdma_ep *ep);
unsigned int fake_bound_windows(const struct rdma_ep *ep);

/* Holds completions of these kinds back, (1 << RDMA_WC_SEND) | … ; they come, in their order, when the mask
 * no longer has them. Those behind a held one are not held. Flushed ones always come. */
void fake_hold(struct rdma_ep *ep, unsigned int kinds);
/* Paused: doorbells are accepted and nothing is carried out. Ending the pause carries it out. */
void fake_pause(struct rdma_ep *ep, bool paused);
/* The n-th queue_*() from now (1: the next one), receives not counted, returns err. 0: none. */
void fake_fail_post(struct rdma_ep *ep, unsigned int n, int err);
/* The n-th doorbell from now returns err and ends the connection: this side's state is CLOSED at once. */
void fake_fail_doorbell(struct rdma_ep *ep, unsigned int n, int err);
/* The n-th request of that kind from now is not carried out: it completes with status (with ctx, even if
 * NULL) and ends the connection. */
void fake_fail_completion(struct rdma_ep *ep, enum fake_kind kind, unsigned int n, int status);
/* The connection breaks: both sides find out in their next progress(). */
void fake_drop(struct rdma_ep *ep, int error, const char *why);

/* The peer endpoint of the connection, or NULL. */
struct rdma_ep *fake_peer(const struct rdma_ep *ep);
/* What the connected peer of `ep` would get when it read or wrote ep's memory: 0, or -EACCES.
 * Nothing ends. */
int fake_touch(struct rdma_ep *ep, enum fmr_access access, uint32_t rkey, uint64_t offset, void *buf,
	       uint32_t len);

/* For tests that play one side by hand: an endpoint that sends raw bytes. Registers nothing, needs
 * no memory. */
int fake_send_raw(struct rdma_ep *ep, const void *bytes, uint32_t len_bytes, uint32_t invalidate_rkey);
/* Takes the oldest message received by ep into buf; its length, or -EAGAIN when there is none; *invalidated
 * is the key that came with it, or 0. For endpoints whose receives were posted by fake_post_raw(). */
int fake_recv_raw(struct rdma_ep *ep, void *buf, uint32_t size_bytes, uint32_t *invalidated);
/* Posts n receives of size_bytes each into memory of the fake's own. */
int fake_post_raw(struct rdma_ep *ep, unsigned int n, uint32_t size_bytes);
/* Opens [addr, +len) to the peer with exactly this access, without a window or a post: how a test plays a
 * client. The key ends when it is invalidated by the peer's Send, by fake_unexpose(), or with the connection.
 * The peer's offset is returned in *offset. */
uint32_t fake_expose(struct rdma_ep *ep, void *addr, uint32_t len_bytes, enum fmr_access access,
		     uint64_t *offset);
/* Ends it; false when it was no longer valid. */
bool fake_unexpose(struct rdma_ep *ep, uint32_t rkey);

#endif
