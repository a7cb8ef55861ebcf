/* SPDX-License-Identifier: MIT
 *
 * The inside of a lane, for the files that make it up: lane.c (the loop), fuse_channel.c (/dev/fuse), op.c
 * (requests in progress), data_*.c and commit.c (payload memory and what lies in it).
 */
#ifndef LANE_PRIV_H
#define LANE_PRIV_H

#include "lane.h"
#include "mount.h"
#include "op.h"
#include "stats.h"
#include "watchdog.h"

#include <pthread.h>
#include <stdatomic.h>

struct rdma_device;
struct revalidation;
struct write_buf;

#define LANE_OPS_OWN                                                                                         \
	8u /* beside those for requests: COMMITs and data sent again always find one in the end */

static_assert(MOUNT_LANES_MAX <= STATS_LANES_MAX,
	      "a reader of the counters would take such a mount's for damaged");

struct op_list {
	struct op *first, *last;
};

/* The request that the lane is just handing to libfuse. */
struct incoming {
	uint64_t unique;
	pid_t tid;
	char *payload; /* of a WRITE: in the arena, taken; whoever clears it owns it */
	size_t payload_bytes;
	bool parked; /* not in the arena, and nobody's: the payload is copied, or lost */
};

struct lane {
	struct nfs_mount *mount;
	unsigned int id;
	pthread_t thread;
	uint64_t now_ns;
	bool had_event;		/* in the turn before */
	uint64_t poll_until_ns; /* with poll=: no sleep before, while calls are outstanding */
	struct rpcrdma_xprt *xprt;
	struct arena *arena;
	struct lane_stats *stats;
	void (*on_connection)(struct lane *lane, bool up, const char *why); /* while mounting; else NULL */
	bool was_up;

	int epoll_fd;
	int wake_fd; /* eventfd: a message was posted */

	/* fuse_channel.c */
	int fuse_fd;	   /* -1 until the lane serves; the session's own on lane 0 */
	bool fuse_watched; /* fuse_fd is in epoll_fd: this lane wants requests */
	bool fuse_ready;   /* and there may be some */
	char *fuse_head;   /* header, and whole requests that are not a WRITE */
	size_t fuse_head_bytes;
	char *fuse_spare; /* where a payload goes when the arena is full and the server silent; or NULL */
	struct incoming incoming;

	/* op.c */
	atomic_uint_fast64_t answered_ns; /* when a call was last answered; main() reads it, too */
	struct op *ops;
	unsigned int nops, nops_own;
	unsigned int ops_busy;
	struct op_list ops_free, ops_own_free, run_waiters, parked;
	struct lane_timer ops_timer; /* looks at all of them each second, while there are any */
	struct watchdog watchdog;
	uint64_t watchdog_limit_ns;

	/* data_write.c, commit.c */
	struct write_buf *bufs;
	struct write_buf *bufs_free;
	struct write_buf *gather_first,
		*gather_last; /* answered to their writers, not sent, so that more can join; oldest first */
	struct lane_timer gather_timer;
	struct write_buf *kept_first,
		*kept_last; /* answered, not stable, in this lane's arena; oldest first */
	struct write_buf *again_first,
		*again_last; /* to be sent again, waiting for an op of the lane's own */
	struct inode *commit_first,
		*commit_last; /* files waiting for an op of the lane's own, for their COMMIT */
	struct lane_timer commit_timer;

	struct revalidation *revalidation; /* revalidate.c */
	struct lane_timer revalidate_timer;

	unsigned int cleanups_wait; /* silly.c: for an op of the lane's own */

	struct lane_timer *timers; /* by due_ns */

	/* Shared with those who post. */
	pthread_mutex_t mail_lock;
	struct lane_msg *mail_first, *mail_last;

	atomic_bool stop;      /* main: end when nothing is in progress */
	atomic_bool unmounted; /* /dev/fuse said so */
	atomic_bool poked;     /* another lane cannot take the request that woke it: look */
};

/* ---- lane.c ---- */
int lane_create(struct nfs_mount *mount, unsigned int id, struct lane **lane);
/* Opens the connection's endpoint and all memory, and the ops. -errno with *why for people. */
struct lane_transport {
	const struct rdma_device *device;
	const struct sockaddr_storage *addr;
	socklen_t addr_len;
	enum fmr_strategy strategy;
	unsigned int credits;
	uint32_t inline_bytes;
	size_t arena_bytes, max_io_bytes;
	uint32_t xid_random;
	uint64_t timeo_ns;
	unsigned int retrans;
	bool soft;
};
int lane_open(struct lane *lane, const struct lane_transport *transport);
/* One turn, on the thread that lane_enter() made the lane's. Sleeps at its end until there is something to
 * do: a callback that ends the caller's loop must lane_wake() its lane. */
void lane_turn(struct lane *lane);
void lane_enter(struct lane *lane);
/* Runs its turns on the calling thread, until stop is set and nothing is left to do. */
void lane_run(struct lane *lane);
int lane_start(struct lane *lane); /* its thread; ends when stop is set and nothing is left to do */
void lane_join(struct lane *lane);
void lane_destroy(struct lane *lane);
void lane_wake(struct lane *lane); /* from any thread */
uint64_t lane_clock_ns(void);

/* ---- fuse_channel.c ---- */
int fuse_channel_open(struct lane *lane, int session_fd);
void fuse_channel_want(const struct fuse_conn_info *conn); /* what was chosen at FUSE_INIT */
bool fuse_channel_read(struct lane *lane);		   /* true: there may be more */
void fuse_channel_watch(struct lane *lane);
void fuse_channel_close(struct lane *lane);
extern const struct fuse_custom_io fuse_channel_io;

/* ---- op.c ---- */
int ops_create(struct lane *lane, unsigned int nops);
void ops_destroy(struct lane *lane);
void ops_serve_waiters(struct lane *lane); /* arena memory has come back */
bool ops_stalled(const struct lane *lane); /* nothing has been answered for a while */
void ops_interrupt(struct lane *lane, uint64_t unique);
void ops_forsake(struct lane *lane);	/* unmounted: ends what only the kernel wanted to know */
bool ops_idle(const struct lane *lane); /* nothing in progress but calls that nobody waits for */

/* ---- data_write.c, commit.c ---- */
int data_create(struct lane *lane);
void data_destroy(struct lane *lane);
void data_turn(struct lane *lane); /* once per turn: COMMITs that are due, data to be sent again */
bool data_all_stable(const struct lane *lane);
void data_connection_up(struct lane *lane); /* after a reconnect: the server may have lost what is kept */

#endif
