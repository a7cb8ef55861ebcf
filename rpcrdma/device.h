/* SPDX-License-Identifier: MIT
 *
 * The RDMA device interface: what the transport needs from softiwarp, from verbs, and from the decorators
 * that tests put around them. One suite (tests/unit/device_test.c) runs over every implementation.
 *
 * An *endpoint* is a protection domain and at most one connection at a time (a queue pair). Regions
 * registered with it live until it is closed, but their keys may be others with each connection (they are
 * those of the adapter that it goes through): read them when they are used. Windows live no longer than the
 * connection they were allocated on. An endpoint belongs to one thread; it has no thread of its own, never
 * blocks, and allocates only in open, accept and connect.
 *
 * Queue, then flush: queue_*() only append to the send queue; doorbell() hands the queue to the device (one
 * post, or one gathering writev). What is queued takes effect in order: a bind before a later Send on the
 * same endpoint.
 *
 * Events. The endpoint adds its descriptors to params.epoll_fd with params.epoll_data, edge-triggered, for
 * reading and writing. When one fires, and whenever poll() or progress() said that there is more, call
 * progress() and then poll(). Requests may complete in doorbell() or queue_invalidate() themselves, and no
 * event tells of that: poll() after them (until it was done, timeout_ns is in the past).
 *
 * Ownership: memory named by a queued request or a posted receive is lent to the device until its completion
 * has been polled. After disconnect(), or when the state becomes RDMA_EP_CLOSED, the peer can reach nothing;
 * every request that had not completed completes with -ECANCELED.
 */
#ifndef DEVICE_H
#define DEVICE_H

#include "fmrpool.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

/* Bytes of private data either side may send at connection set-up; over InfiniBand and RoCE a request carries
 * 56, and more arrives than was sent: zeros. */
#define RDMA_PRIVATE_MAX 192u
#define RDMA_SGE_MAX 8u /* gather entries in one Send or RDMA Write */

struct rdma_ep;

enum rdma_ep_state {
	RDMA_EP_IDLE,	    /* opened, or closed and cleaned up: connect() is legal */
	RDMA_EP_CONNECTING, /* resolving, connecting, negotiating (either side) */
	RDMA_EP_REQUESTED, /* passive side: the peer's request and private data are here; accept() or reject()
			      is due */
	RDMA_EP_ESTABLISHED, /* Sends may flow */
	RDMA_EP_CLOSED, /* over, see error and why; poll() still hands out what was flushed, then disconnect()
			   makes it IDLE */
};

struct rdma_sge {
	void *addr;
	uint32_t len_bytes;
	uint32_t lkey; /* of the region that holds addr */
};

enum rdma_wc_kind {
	RDMA_WC_SEND,
	RDMA_WC_RECV,
	RDMA_WC_WRITE,
	RDMA_WC_READ,
	RDMA_WC_INVALIDATE, /* ctx is the struct fmr */
};

/* One completion. */
struct rdma_wc {
	enum rdma_wc_kind kind;
	int status;	    /* 0, or -errno: -ECANCELED when flushed by the end of the connection */
	uint32_t len_bytes; /* RECV: bytes of the message */
	bool invalidated;   /* RECV: by Send-with-Invalidate; invalidated_rkey is no longer valid here */
	uint32_t invalidated_rkey;
	void *ctx; /* as given when it was queued */
};

/* Limits of the device or of the connection. */
struct rdma_limits {
	uint32_t max_sge;	/* at most RDMA_SGE_MAX */
	uint32_t max_recv;	/* receives that can be posted */
	uint32_t max_send;	/* requests that can be queued or under way: binds, sends, invalidates, reads,
				   writes */
	uint32_t read_depth_in; /* RDMA Reads of the peer's that may be outstanding here (IRD) */
	uint32_t read_depth_out; /* RDMA Reads of ours that may be outstanding there (ORD); the device queues
				    the rest */
	bool windows;		 /* type-2 memory windows */
	bool window_bounds;	 /* the device itself enforces a window's exact range */
	bool remote_invalidate;	 /* Send-with-Invalidate may be offered to the peer */
};

struct rdma_ep_params {
	int epoll_fd;
	void *epoll_data;	     /* comes back as epoll_event.data.ptr */
	uint32_t max_recv, max_send; /* wanted; 0 takes the device's default */
	uint32_t read_depth;	     /* wanted, both ways; 0 takes the device's default */
};

struct rdma_ep_ops {
	const char *name; /* as in the option device=NAME */
	/* Passive side, in state REQUESTED: answer. priv_len <= RDMA_PRIVATE_MAX. */
	int (*accept)(struct rdma_ep *ep, const void *priv, uint32_t priv_len);
	/* Ends everything, frees windows and regions that are left, and frees ep. Polled completions only
	 * before. */
	void (*close)(struct rdma_ep *ep);
	/* Active side, in state IDLE. 0: under way, watch the state. */
	int (*connect)(struct rdma_ep *ep, const struct sockaddr *addr, socklen_t addr_len, const void *priv,
		       uint32_t priv_len);
	/* Ends the connection now, from any state, and waits for nothing. Afterwards: state IDLE when every
	 * flushed completion has been polled (poll() is to be called until it gives 0), no access by the
	 * peer. */
	void (*disconnect)(struct rdma_ep *ep);
	/* Hands everything queued to the device. 0, or -errno: then the connection is over. */
	int (*doorbell)(struct rdma_ep *ep);
	/* Takes up to n completions. */
	int (*poll)(struct rdma_ep *ep, struct rdma_wc *wc, int n);
	/* Moves input and output and the connection's set-up along as far as goes without blocking, or until
	 * a fair share is used up; true when there is more to do at once. now_ns: CLOCK_MONOTONIC, for set-up
	 * time-outs. */
	bool (*progress)(struct rdma_ep *ep, uint64_t now_ns);
	/* RDMA Read of len_bytes at (rkey, offset) into one local buffer. */
	int (*queue_read)(struct rdma_ep *ep, const struct rdma_sge *sge, uint32_t rkey, uint64_t offset,
			  void *ctx);
	/* Receives complete in the order in which they were queued. Takes effect at once. */
	int (*queue_recv)(struct rdma_ep *ep, const struct rdma_sge *sge, void *ctx);
	/* A Send; invalidate_rkey != 0 makes it a Send with Invalidate. ctx NULL: no completion on
	 * success. */
	int (*queue_send)(struct rdma_ep *ep, const struct rdma_sge *sge, unsigned int nsge,
			  uint32_t invalidate_rkey, void *ctx);
	/* RDMA Write to (rkey, offset). ctx NULL: no completion on success (a later Send's completion covers
	 * it). */
	int (*queue_write)(struct rdma_ep *ep, const struct rdma_sge *sge, unsigned int nsge, uint32_t rkey,
			   uint64_t offset, void *ctx);
	int (*reject)(struct rdma_ep *ep);
	struct fmr_ops fmr; /* for fmrpool_attach(pool, &ep->ops->fmr, ep) */
};

/* The part of an endpoint that every device has in common: the device embeds it first and keeps it true. */
struct rdma_ep {
	const struct rdma_ep_ops *ops;
	enum rdma_ep_state state;
	/* Why CLOSED: -ECONNREFUSED, -ETIMEDOUT, -ECONNRESET, -EPROTO (the peer does not speak this
	 * protocol), -EACCES (the peer refused us), -EREMOTEIO (the peer sent a Terminate) … */
	int error;
	/* The same for people: what was seen, no trailing newline; "" when there is nothing to say. */
	char why[160];
	struct rdma_limits limits; /* the device's, as far as known; of the connection once ESTABLISHED */
	uint32_t peer_private_len;
	uint8_t peer_private[512]; /* what the peer sent at set-up; valid from REQUESTED/ESTABLISHED on */
	uint64_t timeout_ns;	   /* progress() wants to be called at this time at the latest; 0: no need */
	/* Frames of the device's own protocol (iWARP: FPDUs) since open(), over all connections; 0 for a
	 * device that cannot tell. */
	uint64_t frames_in, frames_out;
	/* System calls since open() that moved the connection's bytes; 0 for a device that makes none, or
	 * whose library makes them. */
	uint64_t syscalls;
};

/* What a connection to some peer would go through: struct rdma_device.probe(). */
struct rdma_probe {
	char adapter[96]; /* for people */
	struct rdma_limits limits;
};

/* A passive endpoint's source. */
struct rdma_listener;
struct rdma_device {
	const char *name;
	/* The threads that open, listen, and drive endpoints must all keep the credentials that the process
	 * had at the first of it: Linux refuses requests to an RDMA device by a thread whose credentials were
	 * changed, and changed back. */
	bool fixed_credentials;
	int (*open)(const struct rdma_ep_params *params, struct rdma_ep **ep);
	/* Listens on addr (port 0: any). The listener's descriptor is for the caller to watch:
	 * listener_fd(). */
	int (*listen)(const struct sockaddr *addr, socklen_t addr_len, struct rdma_listener **listener);
	int (*listener_fd)(const struct rdma_listener *listener);
	uint16_t (*listener_port)(const struct rdma_listener *listener);
	/* Takes the next incoming connection as an endpoint in state CONNECTING, to be driven by the thread
	 * that waits on params->epoll_fd. -EAGAIN when there is none. peer (may be NULL) gets the client's
	 * address. */
	int (*listener_accept)(struct rdma_listener *listener, const struct rdma_ep_params *params,
			       struct sockaddr_storage *peer, struct rdma_ep **ep);
	void (*listener_close)(struct rdma_listener *listener);
	/* Which adapter would carry a connection to addr. May wait for two seconds, so never on a lane.
	 * -errno: none, -ENODEV when there is none on the route. NULL: the device reaches whatever the
	 * network reaches, and its limits are those of an endpoint that was opened. */
	int (*probe)(const struct sockaddr *addr, socklen_t addr_len, struct rdma_probe *probe);
};

#endif
