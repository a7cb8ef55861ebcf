/* SPDX-License-Identifier: MIT
 *
 * The client transport: RPC-over-RDMA version 1 (RFC 8166, RFC 8267, RFC 8797) over one RDMA endpoint.
 *
 * A struct rpcrdma_xprt is one connection of one lane with its calls, its credits and its pool of
 * registrations. It belongs to that lane's thread: no lock, no thread, no blocking, no printing. It
 * reconnects by itself; calls live across connections and are sent again with the same XID.
 *
 * Normal operation. The caller takes a call, encodes the RPC message into call->msg, says where payload lies
 * and where it is to be placed, and submits. *Plan*: inline, read chunk, write chunk, reply chunk,
 * position-zero read chunk. *Map*: the fmrs are borrowed all at once and mapped onto exactly those segments.
 * *Submit*: [bind…, Send], one doorbell for all that is queued when rpcrdma_flush() is called. A call that
 * finds no credit or too few fmrs waits in order and holds neither. When the reply comes: *match* it by XID,
 * *unmap* what the server has not already invalidated and wait for those completions, only then *finish*:
 * done() is called, and whoever reads the memory reads what can no longer change.
 *
 * Recovery. When the connection ends (error, time-out, protocol violation, failed invalidate) the endpoint is
 * drained, the windows die with it, the fmrs go back to the pool, and every call without a reply waits for
 * the next connection in its old order. An abandoned call keeps its memory, fmrs and credit until its reply
 * or the end of the connection.
 *
 * Ownership of memory that a call names (out[], in, reply_buf): lent to the transport from rpcrdma_submit()
 * until done() was called, or, for an abandoned call, until release() was called. It must be memory of the
 * pool's arena (or call->msg).
 */
#ifndef RPCRDMA_H
#define RPCRDMA_H

#include "device.h"
#include "fmrpool.h"
#include "latency.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/uio.h>

#define RPCRDMA_PORT 20049	 /* RFC 8166 §5, RFC 8267 §9 */
#define RPCRDMA_INLINE_MIN 1024u /* RFC 8166 §3.3.3 */
#define RPCRDMA_INLINE_MAX 65536u
#define RPCRDMA_INLINE_DEFAULT 4096u
#define RPCRDMA_CREDITS_DEFAULT 64u
#define RPCRDMA_CREDITS_MAX 256u
#define RPCRDMA_MAX_SEGS 16u /* segments in one chunk: RFC 8267 §6.4.2 */
/* Room for one RPC call message without its payload; larger than any NFSv3 call needs. */
#define RPCRDMA_MSG_BYTES 4096u

struct rpcrdma_xprt;
struct rpcrdma_call;

/* Counters of one kind of call (in NFS: of a procedure), in memory that others may read. Bytes are those of
 * the RPC message as XDR has it, payload and its padding included, whether they travel inline or by RDMA.
 * X(name, help) */
#define RPCRDMA_KIND_STATS(X)                                                                                \
	X(calls, "RPCs submitted")                                                                           \
	X(sends, "messages sent for them, retransmissions included")                                         \
	X(retransmits, "of these, those that were sent before")                                              \
	X(replies, "messages that answered them")                                                            \
	X(sent_bytes, "bytes of RPC messages sent, payload included")                                        \
	X(received_bytes, "bytes of RPC messages received, payload included")

struct rpcrdma_kind_stats {
#define X(name, help) uint64_t name;
	RPCRDMA_KIND_STATS(X)
#undef X
	struct latency queue; /* from rpcrdma_submit() until it is first handed to the device */
	struct latency rtt;   /* from the latest time it was until its reply was found */
};

typedef void rpcrdma_call_fn(struct rpcrdma_call *call);

struct rpcrdma_call {
	/* Set by rpcrdma_call_get() and _renew(): */
	uint32_t xid; /* the message must begin with it */
	uint8_t *msg; /* RPCRDMA_MSG_BYTES of registered memory for the RPC call message, owned by the call */

	/* Filled by the caller between get and submit; get and renew zero them. */
	uint32_t msg_len; /* bytes encoded at msg, without the payload described by out[] */
	/* Payload that belongs at out_pos of the message: WRITE data, a symlink's text. Sent inline (with XDR
	 * padding) when it fits, else by a read chunk. */
	struct iovec out[RPCRDMA_MAX_SEGS];
	unsigned int nout;
	uint32_t out_pos; /* bytes from the start of msg; a multiple of 4, <= msg_len */
	/* Where READ data or a link's text may be placed by the server; iov_len 0: nothing. */
	struct iovec in;
	uint32_t reply_max; /* bytes of the largest reply message, not counting payload that may go to `in` */
	/* For a reply that may be larger than the inline threshold, which may be RPCRDMA_INLINE_MIN on the
	 * next connection: >= reply_max bytes; else {0}. */
	struct iovec reply_buf;
	rpcrdma_call_fn *done; /* the outcome, once; not called after rpcrdma_call_abandon() */
	/* May be NULL: nothing of the call is in use any more, it is about to be recycled. */
	rpcrdma_call_fn *release;
	void *owner;
	struct rpcrdma_kind_stats *kind; /* where it is counted; outlives the transport; NULL: nowhere */

	/* The outcome, valid in done(). 0: the reply is here. -EIO: the server said RDMA_ERROR ERR_CHUNK.
	 * -EPROTONOSUPPORT: it said ERR_VERS. -EPROTO: the reply broke the protocol. -ETIMEDOUT: a soft
	 * time-out. -ECANCELED: the transport is being destroyed. -EMSGSIZE, -EINVAL: the call was never
	 * sent, its lengths allow no plan (plan.h). */
	int status;
	const uint8_t *reply; /* the RPC reply message, lent for the duration of done() */
	uint32_t reply_len;
	bool in_placed;		/* the payload left the message and lies in `in`: */
	uint32_t in_len;	/* its bytes */
	uint32_t transmissions; /* how often it was sent: > 1 after a reconnect */
	uint64_t submitted_ns;	/* CLOCK_MONOTONIC, as given to rpcrdma_submit() */
	uint64_t sent_ns;	/* of the latest transmission; 0: has not left yet */
};

enum rpcrdma_event {
	RPCRDMA_UP,   /* connected, credits are 1 until the first reply */
	RPCRDMA_DOWN, /* the connection ended or could not be made; the next try is scheduled (retry_ns) */
};

struct rpcrdma_status {
	enum rpcrdma_event event;
	/* DOWN: */
	int error; /* -errno as in struct rdma_ep; -ETIMEDOUT also when calls were not answered in time */
	const char *why;       /* for people; lent for the callback */
	uint64_t retry_ns;     /* how long until the next attempt */
	unsigned int attempts; /* in a row that have failed to connect; 0: a connection was lost */
};

/* Counters, in memory that others may read. X(name, help) */
#define RPCRDMA_STATS(X)                                                                                     \
	X(calls, "RPCs submitted")                                                                           \
	X(sends, "RPC-over-RDMA messages sent, retransmissions included")                                    \
	X(replies, "RPC-over-RDMA messages received that answered a call")                                   \
	X(retransmits, "calls sent again on a new connection")                                               \
	X(unknown_replies, "messages received that matched no call")                                         \
	X(bad_replies, "replies that broke the protocol")                                                    \
	X(rdma_errors, "RDMA_ERROR replies")                                                                 \
	X(out_inline_bytes, "payload bytes sent inline")                                                     \
	X(out_rdma_bytes, "payload bytes offered in read chunks and fetched by RDMA Read")                   \
	X(in_inline_bytes, "reply bytes received inline")                                                    \
	X(in_rdma_bytes, "bytes placed by RDMA Write in write and reply chunks")                             \
	X(long_calls, "calls sent by a position-zero read chunk")                                            \
	X(long_replies, "replies received in a reply chunk")                                                 \
	X(doorbells, "send queues handed to the device")                                                     \
	X(syscalls, "system calls that moved data for the device; 0 when an adapter does it")                \
	X(frames_out, "frames sent: FPDUs of iWARP; 0 when an adapter makes them")                           \
	X(frames_in, "frames received, likewise")                                                            \
	X(connects, "connections established")                                                               \
	X(disconnects, "connections lost")                                                                   \
	X(timeouts, "connections given up because a call was not answered")                                  \
	X(credits, "credits granted now")                                                                    \
	X(outstanding, "calls sent and not answered now")                                                    \
	X(outstanding_peak, "the most calls that were ever outstanding")                                     \
	X(queued, "calls waiting for a credit, registrations or a connection now")                           \
	X(waits_for, "what they wait for now: 0 nothing, 1 a connection, 2 a credit, 3 registrations")       \
	X(state, "of the connection now: 0 down, 1 connecting, 2 up")                                        \
	X(failures, "attempts to connect that have failed since the last that did not")

struct rpcrdma_stats {
#define X(name, help) uint64_t name;
	RPCRDMA_STATS(X)
#undef X
};

/* Values of the counters state and waits_for. */
enum rpcrdma_state { RPCRDMA_STATE_DOWN, RPCRDMA_STATE_CONNECTING, RPCRDMA_STATE_UP };
enum rpcrdma_waits {
	RPCRDMA_WAITS_FOR_NOTHING,
	RPCRDMA_WAITS_FOR_CONNECTION,
	RPCRDMA_WAITS_FOR_CREDIT,
	RPCRDMA_WAITS_FOR_REGISTRATIONS,
};

/* Of each call that has any: */
struct rpcrdma_times {
	struct latency map;   /* all of its segments, until its Send can be queued */
	struct latency unmap; /* from its reply to the completion of the last invalidate of our own */
};

struct rpcrdma_params {
	const struct rdma_device *device;
	struct sockaddr_storage addr;
	socklen_t addr_len;
	int epoll_fd; /* the lane's; the endpoint adds its descriptors, edge-triggered, with epoll_data */
	void *epoll_data;
	enum fmr_strategy strategy;
	unsigned int credits;  /* asked of the server and the most that are used; 1 … RPCRDMA_CREDITS_MAX */
	uint32_t inline_bytes; /* both ways, a multiple of 1024 */
	unsigned int calls;    /* how many struct rpcrdma_call exist */
	size_t arena_bytes, max_io_bytes;
	uint32_t xid_first;   /* random; see rpcrdma_xid_lane() */
	uint64_t timeo_ns;    /* an unanswered call ends the connection after this long */
	unsigned int retrans; /* soft: a call fails after (retrans + 1) * timeo_ns; ignored when hard */
	bool soft;
	bool one_shot; /* the first failure to connect is final (no retry): mounting with retry=0 */
	void (*on_status)(void *ctx, const struct rpcrdma_status *status);
	void *ctx;
	struct rpcrdma_stats *stats;	  /* where to count; NULL: internal */
	struct fmrpool_stats *pool_stats; /* likewise */
	struct rpcrdma_times *times;	  /* likewise */
	/* CLOCK_MONOTONIC, asked while time goes on within one rpcrdma_flush() or _progress(), for the
	 * counted times only; NULL: none are taken. */
	uint64_t (*clock_ns)(void);
};

/* Opens the endpoint, allocates calls, pool and arena, registers all memory. -errno and nothing made on
 * failure. */
int rpcrdma_create(const struct rpcrdma_params *params, struct rpcrdma_xprt **xprt);
/* Ends the connection; calls that are still there get done(-ECANCELED), then release(), and so do those that
 * done() submits meanwhile: one day it must stop. NULL is fine. */
void rpcrdma_destroy(struct rpcrdma_xprt *xprt);
/* Starts connecting; the outcome comes by on_status. */
int rpcrdma_connect(struct rpcrdma_xprt *xprt, uint64_t now_ns);

/* A free call, or NULL when all are in use. */
struct rpcrdma_call *rpcrdma_call_get(struct rpcrdma_xprt *xprt);
/* Gives back a call that was not submitted. */
void rpcrdma_call_put(struct rpcrdma_call *call);
/* Only in done(): keeps the call for another RPC of the same operation: new XID, fields zeroed but for owner,
 * done and release. The caller then submits or puts it; `reply` stays readable until done() returns. */
void rpcrdma_call_renew(struct rpcrdma_call *call);
/* Queues the call. Its outcome comes by done(), never from inside this function. */
void rpcrdma_submit(struct rpcrdma_call *call, uint64_t now_ns);
/* Nobody waits for the outcome any more: done() will not be called, release() will, when the memory is safe.
 * A call that has not left yet is released at once. */
void rpcrdma_call_abandon(struct rpcrdma_call *call);

/* Sends all that is queued and may leave, one doorbell. Once per turn of the lane's loop. */
void rpcrdma_flush(struct rpcrdma_xprt *xprt, uint64_t now_ns);
/* Input, completions, timers; calls done() and on_status(). True when there is more to do at once. */
bool rpcrdma_progress(struct rpcrdma_xprt *xprt, uint64_t now_ns);
/* When rpcrdma_progress() must be called next even if no descriptor fires; UINT64_MAX: never. */
uint64_t rpcrdma_next_timeout(const struct rpcrdma_xprt *xprt);
/* Ends the connection as if it were lost: it is made again at once if it has answered a call. */
void rpcrdma_drop_connection(struct rpcrdma_xprt *xprt, int error, const char *why);

struct fmrpool *rpcrdma_pool(struct rpcrdma_xprt *xprt);
struct arena *rpcrdma_arena(struct rpcrdma_xprt *xprt);
bool rpcrdma_is_up(const struct rpcrdma_xprt *xprt);
unsigned int rpcrdma_calls_free(const struct rpcrdma_xprt *xprt);
const struct rpcrdma_stats *rpcrdma_stats(const struct rpcrdma_xprt *xprt);
const struct rdma_ep *rpcrdma_endpoint(const struct rpcrdma_xprt *xprt); /* for reports: limits, names */

/* What both sides agreed on for the present connection; for reports. False, and nothing filled, while there
 * is none. */
struct rpcrdma_agreed {
	uint32_t send_bytes, recv_bytes; /* inline thresholds: of what goes to the server, and what comes */
	bool peer_told;		/* the server sent private data of RFC 8797; else the defaults hold */
	bool offers_invalidate; /* we told the server that it may send with Invalidate */
	bool peer_invalidates;	/* it said the same; some do so without a word */
};
bool rpcrdma_agreed(const struct rpcrdma_xprt *xprt, struct rpcrdma_agreed *agreed);

/* The first XID of a lane (0 … 15): random, its top four bits the lane's, so that no two lanes share one. */
uint32_t rpcrdma_xid_lane(uint32_t random, unsigned int lane);

/* The device of that name, or NULL. "auto" is decided by the caller. */
const struct rdma_device *rdma_device_by_name(const char *name);

/* Raises this process's limit of locked memory (RLIMIT_MEMLOCK, setrlimit(2)), which registered memory is, as
 * far as the process may; gives what it is then. Before a program drops CAP_SYS_RESOURCE: siw holds even
 * root, and who has CAP_IPC_LOCK, to the limit (Linux 6.1.192), where others let them pass. */
struct rlimit rdma_raise_memlock(void);

#endif
