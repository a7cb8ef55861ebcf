/* SPDX-License-Identifier: MIT
 *
 * The server side of RPC-over-RDMA version 1 (RFC 8166): one accepted endpoint, driven by one thread.
 *
 * Life of a call: receive -> decode and check the header -> fetch read chunks by RDMA Read (WRITE data, a
 * symlink's text, a long call) into the connection's arena -> on_call(). Life of a reply: rpcrdma_svc_reply()
 * -> payload by RDMA Write into the client's write chunk, a long reply into its reply chunk, the rest inline,
 * by Send with Invalidate when both sides offer it and the call carried exactly one key -> all memory of the
 * call is free again when the Send has completed. Replies leave together, by one doorbell, at the end of
 * rpcrdma_svc_progress(): who replies outside of on_call() calls it next.
 *
 * A call whose chunks need memory waits, in order and holding none, until all that it needs is free.
 *
 * Everything from the client is hostile. A malformed header is answered with RDMA_ERROR (ERR_VERS, ERR_CHUNK)
 * where RFC 8166 §4.5 asks for it, or ends the connection. Credits granted are constant; a client that
 * exceeds them finds no receive posted.
 *
 * One thread per connection: no lock. on_call() may keep the request and reply later from the same thread.
 */
#ifndef RESPONDER_H
#define RESPONDER_H

#include "device.h"

#include <stdbool.h>
#include <stdint.h>

struct rpcrdma_svc;

struct rpcrdma_svc_req {
	/* The RPC call message (from its XID on). A payload that came by a read chunk has been taken out of
	 * it at data_pos: its length word is still there, its bytes and padding are not. */
	const uint8_t *msg;
	uint32_t msg_len;
	const uint8_t *data; /* NULL: the message is whole */
	uint32_t data_len;
	uint32_t data_pos; /* offset in msg where data belongs */
	/* How much payload the client's write chunk can take; 0: it gave none, payload must go inline. */
	uint32_t write_chunk_bytes;
	/* The most bytes of reply message (without payload that goes to the write chunk) that can be returned
	 * to this client. */
	uint32_t reply_max;
	struct rpcrdma_svc *svc;
	void *owner; /* the caller's, for its own use */
};

struct rpcrdma_svc_reply {
	const uint8_t *head; /* the RPC reply message up to the place where payload belongs; copied */
	uint32_t head_len;
	/* READ data or a link's text: memory from rpcrdma_svc_payload(), or NULL. Goes by RDMA Write when
	 * there is a write chunk (no padding), else inline with padding. The length word is part of head. */
	const uint8_t *payload;
	uint32_t payload_len;
	const uint8_t *tail; /* what follows the payload, if anything; copied */
	uint32_t tail_len;
};

struct rpcrdma_svc_params {
	struct rdma_ep *ep;    /* in state CONNECTING, from listener_accept(); owned by the svc from now on */
	uint32_t credits;      /* granted, constant */
	uint32_t inline_bytes; /* both ways, a multiple of 1024 */
	size_t arena_bytes;  /* registered memory for payloads; calls wait in order when it is used up; raised
			      * to what max_io_bytes needs */
	size_t max_io_bytes; /* the largest payload of one call, at most FMR_STRIPE_BYTES; larger read chunks
			      * are refused with ERR_CHUNK, of larger write chunks only so much is used */
	bool remote_invalidate; /* use Send with Invalidate when the client offers it */
	void (*on_call)(void *ctx, struct rpcrdma_svc_req *req);
	void *ctx;
};

struct rpcrdma_svc_stats {
	uint64_t calls, replies, errors_sent, dropped; /* messages */
	uint64_t read_bytes, write_bytes;	       /* by our RDMA Reads and RDMA Writes */
	uint64_t reads, writes;			       /* RDMA operations */
	uint64_t invalidates;			       /* Sends with Invalidate */
};

/* Takes over the endpoint, whose device should allow max_recv >= credits + 4 (else fewer credits are granted)
 * and max_send of some more than the credits: 36 at least. -EINVAL, -ENOMEM or what registering the memory
 * gave: the endpoint is closed all the same. */
int rpcrdma_svc_create(const struct rpcrdma_svc_params *params, struct rpcrdma_svc **svc);
/* Ends the connection at once; NULL is fine. Not from inside on_call(). */
void rpcrdma_svc_destroy(struct rpcrdma_svc *svc);
/* Input, completions, deferred calls, output; true when there is more to do at once. */
bool rpcrdma_svc_progress(struct rpcrdma_svc *svc, uint64_t now_ns);
/* The connection is over (error and words in *ep): destroy the svc. Requests still held may be replied to or
 * dropped until then, to no effect, and not afterwards. */
bool rpcrdma_svc_closed(const struct rpcrdma_svc *svc);
const struct rdma_ep *rpcrdma_svc_endpoint(const struct rpcrdma_svc *svc);
/* When progress must be called next even if no descriptor fires; UINT64_MAX: never. */
uint64_t rpcrdma_svc_next_timeout(const struct rpcrdma_svc *svc);
const struct rpcrdma_svc_stats *rpcrdma_svc_stats(const struct rpcrdma_svc *svc);

/* Registered memory of len_bytes for the reply's payload, freed with the request; one per request. NULL when
 * the arena is used up: cannot happen for a request with a write chunk or a reply of up to max_io_bytes,
 * because its share was set aside before on_call(). */
uint8_t *rpcrdma_svc_payload(struct rpcrdma_svc_req *req, uint32_t len_bytes);
/* Answers; req is gone afterwards. 0, or -EMSGSIZE: does not fit what the client provided (then RDMA_ERROR
 * ERR_CHUNK was sent). */
int rpcrdma_svc_reply(struct rpcrdma_svc_req *req, const struct rpcrdma_svc_reply *reply);
/* No answer (a duplicate under way, an undecodable message). */
void rpcrdma_svc_drop(struct rpcrdma_svc_req *req);

#endif
