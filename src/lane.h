/* SPDX-License-Identifier: MIT
 *
 * A lane: one thread with its own /dev/fuse descriptor, its own connection to the server, its own share of
 * the pool and its own arena. A request is read, sent, answered and completed on one lane, so nothing in here
 * is locked: every function is called from the lane's own thread, but for lane_post() and lane_wake().
 *
 * A turn of the loop: progress of the transport -> messages of other lanes -> timers -> read /dev/fuse, while
 * there is a free op and a free receive area -> rpcrdma_flush(), one doorbell for all of it -> sleep. A FUSE
 * operation (fs_*) therefore runs inside a turn. It must not block and must not wait: it starts an RPC with
 * op_rpc() (op.h) and goes on in the callback.
 *
 * What another lane may want of this one (resume a request that waited for a file's lock, send data again
 * that lies in this lane's arena) comes as a message.
 */
#ifndef LANE_H
#define LANE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct arena;
struct lane;
struct nfs_mount;
struct op;
struct rpcrdma_xprt;

/* ---- messages between lanes ---- */

/* Embedded in what it is about; the sender owns it until it is posted, the receiving lane until fn() runs. */
struct lane_msg {
	struct lane_msg *next;
	void (*fn)(struct lane_msg *msg);
};

/* From any thread: fn(msg) will be called once on that lane's thread, in the order of posting.
 * Never fails. */
void lane_post(struct lane *lane, struct lane_msg *msg, void (*fn)(struct lane_msg *msg));

/* ---- timers ---- */

struct lane_timer {
	struct lane_timer *next;
	uint64_t due_ns; /* CLOCK_MONOTONIC */
	void (*fn)(struct lane_timer *timer);
	bool armed;
};
/* Arms, or moves, a timer. fn runs once on the lane, not before due_ns. */
void lane_timer_set(struct lane *lane, struct lane_timer *timer, uint64_t due_ns,
		    void (*fn)(struct lane_timer *timer));
void lane_timer_cancel(struct lane *lane, struct lane_timer *timer);

/* ---- what operations may ask of their lane ---- */

struct lane *lane_self(void);		       /* the lane whose thread this is; NULL on other threads */
uint64_t lane_now(const struct lane *lane);    /* CLOCK_MONOTONIC ns, read once per turn */
unsigned int lane_id(const struct lane *lane); /* 0 … nlanes - 1 */
struct nfs_mount *lane_mount(const struct lane *lane);
bool lane_connected(const struct lane *lane); /* to the server, as far as it knows */
struct rpcrdma_xprt *lane_xprt(struct lane *lane);
struct arena *lane_arena(struct lane *lane);

#endif
