/* SPDX-License-Identifier: MIT
 *
 * fmrpool: the preallocated registrations of one lane, and the arena of registered memory that they are
 * mapped onto.
 *
 * "FMR" is the old name of the idea: a registration that is allocated way up front, *mapped* onto exactly one
 * RPC's segment as the RPC goes out, and *unmapped* when its reply comes; only then may it be used again.
 * Whoever has the key of a mapped fmr (the server) may touch exactly those bytes, in exactly that direction,
 * until the unmap has completed.
 *
 * Ownership. A pool belongs to one lane and is called from that lane's thread only; it takes no lock. It owns
 * the memory, the regions registered over it, and every struct fmr. fmrpool_borrow() lends fmrs to an RPC,
 * all it asked for or none; the RPC gives each back with fmrpool_return(), which insists (assert) that it is
 * unmapped. Nothing here allocates after fmrpool_create(), registers after fmrpool_attach() (but for the
 * dynamic strategy, which does nothing else), or waits: -EAGAIN means "come again when an fmr was returned",
 * and the order of those who wait is the transport's queue.
 *
 * The device is known only as a table of operations (struct fmr_ops), which each RDMA device in rpcrdma/
 * implements. Standards: RFC 8166 §4.4 (registration, invalidate before the upper layer touches the memory),
 * §4.5.4, §8.1.
 */
#ifndef FMRPOOL_H
#define FMRPOOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct fmr;
struct fmrpool;

/* What the peer may do with a mapped segment: one of the two, never both. */
enum fmr_access {
	FMR_REMOTE_READ = 1,  /* the server fetches WRITE data, a symlink's path, a long call */
	FMR_REMOTE_WRITE = 2, /* the server places READ data or a long reply */
};

/* A stretch of memory registered with the device when the endpoint was opened. The device fills the last
 * three. */
struct fmr_region {
	char *addr;
	size_t len_bytes;
	uint32_t lkey; /* names it in this side's own work requests */
	uint32_t rkey; /* names it to the peer: only if it was registered with remote access, otherwise 0 */
	uint64_t remote_base; /* with rkey: the offset at which the peer finds the region's first byte */
	void *handle;	      /* the device's own */
};

/* What the pool needs from a device. `dev` is the value given to fmrpool_attach(). All return 0 or -errno. */
struct fmr_ops {
	/* Registers a region; remote is 0, or a mask of enum fmr_access for the persistent and the dynamic
	 * strategy. A region that has gone is out of the peer's reach when the call returns. */
	int (*region_register)(void *dev, struct fmr_region *region, unsigned int remote);
	void (*region_deregister)(void *dev, struct fmr_region *region);
	/* A window of the present connection. Freeing a window that is still bound ends the peer's access to
	 * it. */
	int (*window_alloc)(void *dev, void **window);
	void (*window_free)(void *dev, void *window);
	/* Queues a bind of fmr->window to [fmr->addr, +len_bytes) with fmr->access, to leave before any Send
	 * that is queued later; sets fmr->rkey (new each time) and fmr->remote_offset. */
	int (*queue_bind)(void *dev, struct fmr *fmr);
	/* Queues an invalidate; its completion names the fmr (RDMA_WC_INVALIDATE) and may be believed: after
	 * it the peer can reach nothing, and nothing that was on its way is still being placed. */
	int (*queue_invalidate)(void *dev, struct fmr *fmr);
};

enum fmr_state {
	FMR_FREE,      /* in the pool; no key of it is valid anywhere */
	FMR_BORROWED,  /* an RPC's, not mapped: may be mapped or returned */
	FMR_MAPPED,    /* the peer may use fmr->rkey; the memory is the device's */
	FMR_UNMAPPING, /* the invalidate is queued or posted; the memory is still the device's */
};

struct fmr {
	enum fmr_state state;
	enum fmr_access access;
	char *addr; /* what it is mapped onto: inside one region of the pool */
	uint32_t len_bytes;
	uint32_t rkey;		/* how the peer names it while it is mapped */
	uint64_t remote_offset; /* the offset at which the peer finds addr */
	const struct fmr_region *region;
	void *window;	       /* the device's; NULL while there is no connection or the strategy has none */
	struct fmr_region own; /* dynamic: the registration of exactly the segment, while it is mapped */
	void *owner;	       /* the borrower's, for finding the RPC when the invalidate completes */
	struct fmr *next_free;
};

enum fmr_strategy {
	FMR_WINDOW,	/* a type-2 memory window per segment: fast and safe */
	FMR_DYNAMIC,	/* a registration per segment, made and ended for each RPC: slower, as safe */
	FMR_PERSISTENT, /* one long-lived key over the arena: fast, NOT safe; only when asked for by name */
};
const char *fmr_strategy_name(enum fmr_strategy strategy);

/* Counters of one pool. They may be placed in memory that others read while the lane runs. Registrations are
 * regions, ever: on the hot path they grow with the dynamic strategy only. X(name, help) */
#define FMRPOOL_STATS(X)                                                                                     \
	X(borrowed, "registrations lent to RPCs")                                                            \
	X(mapped, "maps onto a segment")                                                                     \
	X(unmapped_local, "unmapped by our own invalidate, whose completion was seen")                       \
	X(unmapped_remote, "unmapped by the server's Send-with-Invalidate")                                  \
	X(unmapped_lost, "unmapped by the end of the connection")                                            \
	X(exhausted, "borrows that found too few")                                                           \
	X(fmrs, "registrations in the pool")                                                                 \
	X(in_use, "registrations lent now")                                                                  \
	X(in_use_peak, "the most that were lent at once")                                                    \
	X(mapped_now, "registrations mapped now")                                                            \
	X(unmapping_now, "registrations being unmapped now")                                                 \
	X(registrations, "regions registered")                                                               \
	X(arena_bytes_used, "payload memory in use now")                                                     \
	X(arena_bytes_peak, "the most payload memory in use")

struct fmrpool_stats {
#define X(name, help) uint64_t name;
	FMRPOOL_STATS(X)
#undef X
};

struct fmrpool_params {
	enum fmr_strategy strategy;
	unsigned int fmrs;    /* how many registrations to preallocate */
	size_t arena_bytes;   /* payload memory; a multiple of the page size, see arena.h */
	size_t max_io_bytes;  /* the largest single payload: an arena run is at most this */
	size_t buffers_bytes; /* memory beside the arena for calls and receives, registered alike; may be 0 */
	struct fmrpool_stats *stats; /* where to count; NULL: the pool keeps its own */
};

/* Allocates the memory (on huge pages where they can be had) and every struct fmr. -ENOMEM, or -EINVAL for an
 * arena that is smaller than arena_min_bytes(max_io_bytes). */
int fmrpool_create(const struct fmrpool_params *params, struct fmrpool **pool);
void fmrpool_destroy(struct fmrpool *pool); /* after fmrpool_detach(); NULL is fine */

/* Registers all memory with the device, in stripes of at most FMR_STRIPE_BYTES, so that no key opens more
 * than that. Once per endpoint: regions live across its connections. */
int fmrpool_attach(struct fmrpool *pool, const struct fmr_ops *ops, void *dev);
void fmrpool_detach(struct fmrpool *pool);

/* Allocates every window: when a connection is established, before its first RPC. */
int fmrpool_connected(struct fmrpool *pool);
/* The connection is over and drained: the peer can reach nothing any more. Frees every window; whatever was
 * mapped or being unmapped counts as unmapped (state FMR_BORROWED) and its borrower may return it or map it
 * again later. */
void fmrpool_disconnected(struct fmrpool *pool);

/* Lends n fmrs into fmrs[0..n), owner noted in each, or none and -EAGAIN. */
int fmrpool_borrow(struct fmrpool *pool, unsigned int n, struct fmr **fmrs, void *owner);
/* Queues the bind of a borrowed fmr onto exactly [addr, +len_bytes): memory of this pool, inside one stripe,
 * len > 0. */
int fmrpool_map(struct fmrpool *pool, struct fmr *fmr, void *addr, uint32_t len_bytes,
		enum fmr_access access);
/* Queues the invalidate of a mapped fmr. Dynamic and persistent: the fmr is unmapped at once. Returns 0, or
 * -errno: then the connection must be closed (RFC 8166 §4.5.4) and the fmr stays FMR_UNMAPPING until
 * fmrpool_disconnected(). */
int fmrpool_unmap(struct fmrpool *pool, struct fmr *fmr);
/* The device says that it is unmapped: remote when by the server's Send-with-Invalidate. */
void fmrpool_unmapped(struct fmrpool *pool, struct fmr *fmr, bool remote);
/* Gives n borrowed, unmapped fmrs back. */
void fmrpool_return(struct fmrpool *pool, unsigned int n, struct fmr **fmrs);

enum fmr_strategy fmrpool_strategy(const struct fmrpool *pool);
const struct fmrpool_stats *fmrpool_stats(const struct fmrpool *pool);
struct arena *fmrpool_arena(struct fmrpool *pool);
/* The memory beside the arena: buffers_bytes of it; starts on a stripe, so a power of two <= FMR_STRIPE_BYTES
 * divides it into pieces that no stripe cuts. */
char *fmrpool_buffers(struct fmrpool *pool);
/* The region that holds [addr, +len_bytes) whole, or NULL. */
const struct fmr_region *fmrpool_region(const struct fmrpool *pool, const void *addr, size_t len_bytes);

#define FMR_STRIPE_BYTES ((size_t)2 << 20)

#endif
