/* SPDX-License-Identifier: MIT
 *
 * The inside of the responder, shared by its files:
 *
 *	svc.c         the public interface: create, destroy; what every end of a call has in common
 *	connection.c  accepting, completions, the doorbell, the end
 *	call.c        receive -> decode -> plan -> admit -> fetch -> deliver
 *	reply.c       plan -> RDMA Writes -> Send; RDMA_ERROR
 *	memory.c      the pool, the buffers, runs of the arena
 *
 * Normal operation. A message is received, decoded whole, and *planned*: what it needs of the arena (its read
 * chunks, the places from which its write and reply chunks will be filled) and of the send queue (its RDMA
 * Reads, later its RDMA Writes and one Send). It gets all of that at once, or waits in order holding none of
 * it; so whoever holds memory can always finish and give it back, and nothing can deadlock. Calls that need
 * no memory overtake those that wait for some. Then: RDMA Reads -> on_call() -> RDMA Writes and Send -> free.
 *
 * Ownership. A receive buffer belongs to its call until the reply is queued: msg may point into it. What the
 * RDMA Reads fetched is free from then on, too. The send buffer and what the RDMA Writes gather from belong
 * to the device until the Send's completion has been seen, which also covers the RDMA Writes before it.
 *
 * ORDER: a call's receive is posted again before the reply that lets the client send its next call.
 *
 * Recovery. There is none: whatever goes wrong on the connection ends it, and the client comes again.
 */
#ifndef SVC_H
#define SVC_H

#include "header.h"
#include "responder.h"

#include <assert.h>
#include <stdbool.h>
#include <stdint.h>

/* Receives beyond the credits, for messages that are no calls and get no answer (RFC 8166 §4.5). */
#define RECV_SPARE 4u
#define INLINE_UNIT 1024u
#define POLL_BATCH 16
/* The most requests that one call can have in the send queue: each segment of its write and reply chunks may
 * need one RDMA Write; a reply chunk is filled from three pieces (head, payload, tail), so that two more are
 * cut in two; and a Send. Its RDMA Reads are over before. */
#define CALL_SLOTS_MAX (2 * RPCRDMA_MAX_SEGS_DECODED + 2 + 1)
static_assert(CALL_SLOTS_MAX >= 2 * RPCRDMA_MAX_SEGS_DECODED, "the RDMA Reads of two chunks fit as well");

enum req_state {
	REQ_FREE,
	REQ_WAITING, /* planned; waits for memory and send-queue slots, holds neither */
	REQ_READING, /* its chunks are being fetched */
	REQ_CALLED,  /* the caller's, from on_call() to reply or drop */
	REQ_SENDING, /* the reply is queued; free when the Send has completed */
};

/* A run of the arena; addr NULL: none. */
struct run {
	uint8_t *addr;
	uint32_t len_bytes; /* as planned; the run itself is whole pages */
};

struct recv {
	struct recv *next; /* in the queue of received messages */
	uint8_t *addr;
	uint32_t len_bytes; /* of the message */
};

struct req {
	struct rpcrdma_svc_req call; /* what the caller sees; first, so that one is the other */
	enum req_state state;
	struct req *next; /* free, or waiting */
	struct rpcrdma_header header;
	uint32_t error; /* != 0: the message is to be answered with this RDMA_ERROR */
	struct recv *recv;
	struct run long_call, data; /* filled by RDMA Read */
	struct run write, reply;    /* RDMA Writes to the write and reply chunk come from here */
	uint32_t slots;		    /* of the send queue, held from admission to the end */
	unsigned int reads_left;
	uint8_t *send;	      /* inline_bytes: header and inline reply */
	uint8_t *small;	      /* inline_bytes: payload that goes inline */
	uint8_t *payload;     /* handed out by rpcrdma_svc_payload() */
	uint32_t payload_len; /* as asked for */
};

struct req_queue {
	struct req *head, **end;
};

struct recv_queue {
	struct recv *head, **end;
};

struct rpcrdma_svc {
	struct rpcrdma_svc_params params;
	struct rdma_ep *ep;
	struct fmrpool *pool; /* all registered memory: arena and buffers; no fmr of it is ever mapped */
	struct arena *arena;
	uint8_t *carve; /* the next free byte of the pool's buffers */

	bool accepted;
	bool over;
	bool queued;	     /* something waits for the doorbell */
	bool invalidate;     /* both sides set R: RFC 8797 §4.1 */
	uint32_t credits;    /* granted, constant */
	uint32_t send_max;   /* inline threshold towards the client: RFC 8797 §4.2 */
	uint32_t long_max;   /* largest run of the arena */
	uint32_t unanswered; /* calls received and not yet answered or dropped: <= credits */
	uint32_t slots_used;

	struct req *reqs, *free;
	struct recv *recvs;
	struct recv_queue received; /* messages that wait for a free struct req */
	struct req_queue waiting;
	struct rpcrdma_svc_stats stats;
};

static inline struct req *req_of(struct rpcrdma_svc_req *call)
{
	return (struct req *)call;
}

static inline uint32_t min_u32(uint64_t a, uint32_t b)
{
	return a < b ? (uint32_t)a : b;
}

/* svc.c */
/* Nothing can be sent any more. */
bool svc_gone(const struct rpcrdma_svc *svc);
/* Gives a receive buffer to the device. */
void svc_post_recv(struct rpcrdma_svc *svc, struct recv *recv);
/* The call is answered, or never will be: the client may send another one. */
void req_return_credit(struct rpcrdma_svc *svc, struct req *req);
/* Nothing of the call is in use any more: memory and slots go to those who wait. */
void req_release(struct rpcrdma_svc *svc, struct req *req);
/* Both at once: no answer. */
void req_discard(struct rpcrdma_svc *svc, struct req *req);

/* connection.c */
/* The connection is over because of what we saw; if the device has already ended it, its reason stands. */
void svc_fail(struct rpcrdma_svc *svc, int error, const char *why);

/* call.c */
/* A message is here; it is started by svc_start_received(). */
void svc_on_recv(struct rpcrdma_svc *svc, struct recv *recv, uint32_t len_bytes);
/* One of the call's RDMA Reads is done; delivers the call after the last. */
void req_on_read(struct rpcrdma_svc *svc, struct req *req);
/* Admits those that wait for memory, in order, as far as there is some. */
void svc_start_waiting(struct rpcrdma_svc *svc);
void svc_start_received(struct rpcrdma_svc *svc);

/* reply.c */
/* What every reply to the call begins with: no chunks yet. */
struct rpcrdma_header req_reply_header(const struct rpcrdma_svc *svc, const struct req *req, uint32_t proc);
/* RFC 8166 §4.5. Plain Send: nothing of the call has been used, the client invalidates. */
void req_send_error(struct rpcrdma_svc *svc, struct req *req, uint32_t error);

/* memory.c */
bool svc_params_are_good(const struct rpcrdma_svc_params *p);
/* Allocates and registers; then cuts it up. 0 or -errno; rpcrdma_svc_destroy() undoes both. */
int svc_make_pool(struct rpcrdma_svc *svc);
int svc_make_buffers(struct rpcrdma_svc *svc);
/* A stretch of the pool, inside one stripe, as the device wants it named. */
struct rdma_sge svc_sge(const struct rpcrdma_svc *svc, void *addr, uint32_t len_bytes);
void svc_run_free(struct rpcrdma_svc *svc, struct run *run);
void req_free_runs(struct rpcrdma_svc *svc, struct req *req);
/* All runs of a call, or none. */
bool req_alloc_runs(struct rpcrdma_svc *svc, struct req *req);
bool req_needs_memory(const struct req *req);
void req_forget_memory(struct req *req);

#endif
