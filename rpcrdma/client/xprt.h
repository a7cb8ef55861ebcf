/* SPDX-License-Identifier: MIT
 *
 * The inside of the client transport, shared by its files:
 *
 *	client.c      the public interface: create, calls, submit
 *	send.c        plan -> map -> submit
 *	reply.c       poll -> match -> unmap -> finish
 *	connection.c  connecting, losing a connection, time-outs, calls carried over
 *
 * One lane's thread runs all of it.
 */
#ifndef XPRT_H
#define XPRT_H

#include "backoff.h"
#include "credits.h"
#include "header.h"
#include "plan.h"
#include "rpcrdma.h"
#include "trace.h"
#include "xdr.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

/* One per read segment, a long call, a write chunk and a reply chunk. */
#define CALL_MAX_FMRS (RPCRDMA_MAX_SEGS + 3)
/* Registrations per credit: a payload segment and a reply chunk. A call that needs more waits until others
 * have returned theirs. */
#define FMRS_PER_CREDIT 2u
/* So that a message that answers nothing finds a receive too. */
#define SPARE_RECVS 2u
#define HEADER_BYTES                                                                                         \
	1024u /* room per call for the transport header; the static_assert in plan.c says that it fits */

enum call_state {
	CALL_FREE,   /* in the free list */
	CALL_IDLE,   /* the caller's: being filled */
	CALL_QUEUED, /* submitted; leaves when there are a connection, a credit and enough fmrs; holds none of
			them */
	CALL_SENT,   /* its message was handed to the device; holds a credit and its fmrs, mapped */
	CALL_REPLIED,  /* its reply is here; waits until all fmrs are unmapped and its Send has completed */
	CALL_FINISHED, /* outcome known, nothing of it is at the device; done() is due or running */
};

/* A receive buffer; donated to the device from post_recv() until its completion. */
struct recv {
	uint8_t *buf;
	const struct fmr_region *region; /* that holds it; its key may change with the connection */
};

struct call {
	struct rpcrdma_call pub; /* first: the caller's pointer is ours */
	struct rpcrdma_xprt *x;
	enum call_state state;
	bool abandoned;
	bool send_pending; /* the Send has not completed: the message buffer is the device's */
	uint8_t *header; /* HEADER_BYTES of registered memory; the last word of it stays zero: XDR padding to
			    gather from */
	const struct fmr_region *header_region, *msg_region; /* their keys may change with the connection */
	struct plan plan;
	struct fmr *fmrs[CALL_MAX_FMRS]; /* plan.fmrs of them, from CALL_SENT on; in the order of
					    map_segments() */
	unsigned int unmapping;		 /* invalidates that have not completed */
	uint64_t replied_ns;		 /* by params.clock_ns; 0: it has none */
	struct recv *recv;		 /* the reply's buffer, ours until done() has returned */
	TAILQ_ENTRY(call) link;		 /* in queue, sent, finished or free */
	LIST_ENTRY(call) by_xid;	 /* all but CALL_FREE: nobody else gets its XID */
};

TAILQ_HEAD(call_list, call);
LIST_HEAD(call_bucket, call);

struct rpcrdma_xprt {
	struct rpcrdma_params params;
	struct rdma_ep *ep;
	struct fmrpool *pool;

	struct call *calls;
	unsigned int ncalls, nfree;
	struct call_list free;
	struct call_list queue;	   /* CALL_QUEUED, in the order in which they were submitted */
	struct call_list sent;	   /* CALL_SENT and CALL_REPLIED, in the order in which they were sent */
	struct call_list finished; /* CALL_FINISHED, outcome not delivered yet */
	struct call_bucket *by_xid;
	uint32_t xid_mask;	     /* buckets - 1 */
	uint32_t xid_next, xid_lane; /* low 28 bits count, the top four are the lane's */

	struct recv *recvs;
	unsigned int nrecvs;
	unsigned int nposted; /* of them the present connection's device takes so many */

	/* Of the present connection. */
	bool up;
	bool answered; /* a call: only then has the connection worked */
	bool lost;     /* must be ended at the next rpcrdma_progress(): lost_error, lost_why */
	int lost_error;
	char lost_why[160];
	struct credits credits;
	struct plan_limits limits;
	bool offered_invalidate;
	bool doorbell_due;

	/* Between connections. */
	bool connecting;
	bool stopped; /* one_shot has failed: no more attempts */
	struct backoff backoff;
	uint64_t retry_at_ns;
	unsigned int attempts;
	uint32_t random; /* jitter's generator */

	struct rpcrdma_stats *stats;
	struct rpcrdma_stats own_stats;
	struct rpcrdma_times *times;
	struct rpcrdma_times own_times;
	uint64_t polled_ns; /* when the completions at hand were polled, by params.clock_ns; 0: it has none */
};

/* The only place where a call's state changes. */
static inline void call_move(struct call *c, enum call_state to)
{
	TRACE3(call__state, c->pub.xid, c->state, to);
	c->state = to;
}

/* For the counted times; 0 when nobody counts them. */
static inline uint64_t clock_now(const struct rpcrdma_xprt *x)
{
	return x->params.clock_ns ? x->params.clock_ns() : 0;
}

/* The most requests that can be queued at once: for every fmr a bind and an invalidate, for every credit a
 * Send. */
static inline uint32_t send_queue_depth(uint32_t credits)
{
	return 2 * (credits * FMRS_PER_CREDIT + CALL_MAX_FMRS) + credits;
}

static inline struct call *call_of(struct rpcrdma_call *pub)
{
	return (struct call *)pub;
}

/* client.c */
struct call *call_by_xid(const struct rpcrdma_xprt *x, uint32_t xid); /* in any state; or NULL */
void call_finish(struct call *c,
		 int status);	   /* to CALL_FINISHED; done() follows in the same rpcrdma_progress() */
void call_release(struct call *c); /* to CALL_FREE, by way of release() */
bool deliver_finished(struct rpcrdma_xprt *x); /* done() for all that are due; true if there were any */

/* send.c */
bool ring_doorbell(struct rpcrdma_xprt *x); /* true if anything was due */

/* Shows the device's own figures to those who read the transport's. */
static inline void count_device(struct rpcrdma_xprt *x)
{
	x->stats->syscalls = x->ep->syscalls;
	x->stats->frames_out = x->ep->frames_out;
	x->stats->frames_in = x->ep->frames_in;
}

/* reply.c */
bool poll_completions(struct rpcrdma_xprt *x); /* true if there were any */
int post_recv(struct rpcrdma_xprt *x, struct recv *r);
void repost_recv(struct rpcrdma_xprt *x, struct recv *r); /* after its message was used */

/* connection.c */
bool advance_connection(struct rpcrdma_xprt *x, uint64_t now_ns); /* true when there is more to do at once */
/* Notes it; the first reason stays. If the device has already ended it, its reason is the first: what we
 * found is only what came of that. */
void connection_lost(struct rpcrdma_xprt *x, int error, const char *why);
uint64_t call_deadline(const struct call *c); /* of a soft mount */
/* The sent call with the earliest deadline: an abandoned one has none. */
const struct call *first_due(const struct rpcrdma_xprt *x);
void forget_recvs(struct rpcrdma_xprt *x);
void check_timeouts(struct rpcrdma_xprt *x, uint64_t now_ns);

#endif
