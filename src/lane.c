/* SPDX-License-Identifier: MIT
 *
 * The loop. Normal operation: see lane.h. Ownership: everything here is the lane's thread's, but for the
 * mailbox.
 *
 * Sleeping. A lane sleeps in epoll_wait() on its connection, its wake-up descriptor and /dev/fuse. The last
 * is watched with EPOLLEXCLUSIVE, so that one request wakes one lane, and taken out while the lane cannot
 * take a request (no free op, no free receive area): then requests wake other lanes.
 *
 * With the option poll=, a lane that has calls outstanding goes on taking turns for so long after the latest
 * event, and only then sleeps: a reply that comes soon is found by the completion queue itself, without the
 * cost of being woken.
 */
#include "lane.h"
#include "arena.h"
#include "lane_priv.h"
#include "log.h"
#include "mount.h"
#include "options.h"
#include "revalidate.h"
#include "rpcrdma.h"
#include "session.h"
#include "trace.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

static _Thread_local struct lane *self;

uint64_t lane_clock_ns(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

struct lane *lane_self(void)
{
	return self;
}

uint64_t lane_now(const struct lane *lane)
{
	return lane->now_ns;
}

unsigned int lane_id(const struct lane *lane)
{
	return lane->id;
}

struct nfs_mount *lane_mount(const struct lane *lane)
{
	return lane->mount;
}

bool lane_connected(const struct lane *lane)
{
	return rpcrdma_is_up(lane->xprt);
}

struct rpcrdma_xprt *lane_xprt(struct lane *lane)
{
	return lane->xprt;
}

struct arena *lane_arena(struct lane *lane)
{
	return lane->arena;
}

/* ---- messages ---- */

void lane_wake(struct lane *lane)
{
	uint64_t one = 1;
	ssize_t n = write(lane->wake_fd, &one, sizeof one); /* EAGAIN: it is awake already */
	(void)n;
}

void lane_post(struct lane *lane, struct lane_msg *msg, void (*fn)(struct lane_msg *msg))
{
	msg->next = NULL;
	msg->fn = fn;
	pthread_mutex_lock(&lane->mail_lock);
	bool was_empty = !lane->mail_first;
	if (was_empty)
		lane->mail_first = msg;
	else
		lane->mail_last->next = msg;
	lane->mail_last = msg;
	pthread_mutex_unlock(&lane->mail_lock);
	if (was_empty)
		lane_wake(lane);
}

/* Takes the whole mailbox, so that what a message posts to its own lane comes in the next turn. */
static bool run_messages(struct lane *lane)
{
	pthread_mutex_lock(&lane->mail_lock);
	struct lane_msg *msg = lane->mail_first;
	lane->mail_first = lane->mail_last = NULL;
	pthread_mutex_unlock(&lane->mail_lock);
	bool any = msg != NULL;
	while (msg) {
		struct lane_msg *next = msg->next;
		msg->fn(msg);
		msg = next;
	}
	return any;
}

static bool mail_waits(struct lane *lane)
{
	pthread_mutex_lock(&lane->mail_lock);
	bool any = lane->mail_first != NULL;
	pthread_mutex_unlock(&lane->mail_lock);
	return any;
}

/* ---- timers ---- */

void lane_timer_cancel(struct lane *lane, struct lane_timer *timer)
{
	if (!timer->armed)
		return;
	struct lane_timer **at = &lane->timers;
	while (*at != timer)
		at = &(*at)->next;
	*at = timer->next;
	timer->armed = false;
}

void lane_timer_set(struct lane *lane, struct lane_timer *timer, uint64_t due_ns,
		    void (*fn)(struct lane_timer *timer))
{
	lane_timer_cancel(lane, timer);
	timer->due_ns = due_ns;
	timer->fn = fn;
	timer->armed = true;
	struct lane_timer **at = &lane->timers;
	while (*at && (*at)->due_ns <= due_ns)
		at = &(*at)->next;
	timer->next = *at;
	*at = timer;
}

static void run_timers(struct lane *lane)
{
	while (lane->timers && lane->timers->due_ns <= lane->now_ns) {
		struct lane_timer *timer = lane->timers;
		lane_timer_cancel(lane, timer);
		timer->fn(timer);
	}
}

/* ---- the loop ---- */

static int sleep_ms(struct lane *lane)
{
	uint64_t next = rpcrdma_next_timeout(lane->xprt);
	if (lane->timers && lane->timers->due_ns < next)
		next = lane->timers->due_ns;
	if (next == UINT64_MAX)
		return -1;
	if (next <= lane->now_ns)
		return 0;
	uint64_t ms = (next - lane->now_ns + 999999) / 1000000;
	return ms > 3600000 ? 3600000 : (int)ms;
}

/* True: no sleep yet. */
static bool polls(struct lane *lane)
{
	if (lane->now_ns >= lane->poll_until_ns || !rpcrdma_stats(lane->xprt)->outstanding)
		return false;
	lane->stats->fuse.polls++;
	return true;
}

static void take_events(struct lane *lane, int timeout_ms)
{
	struct epoll_event events[8];
	int n = epoll_wait(lane->epoll_fd, events, 8, timeout_ms);
	lane->stats->fuse.syscalls++;
	lane->had_event = n > 0;
	for (int i = 0; i < n; i++) {
		if (events[i].data.ptr == &lane->fuse_fd) {
			lane->fuse_ready = true;
		} else if (events[i].data.ptr == &lane->wake_fd) {
			uint64_t count;
			ssize_t got = read(lane->wake_fd, &count, sizeof count);
			lane->stats->fuse.syscalls++;
			(void)got;
			if (atomic_exchange(&lane->poked, false))
				lane->fuse_ready = true;
		}
	}
}

/* Asked to end, and nothing is in progress or unsaved. */
static bool finished(struct lane *lane)
{
	return atomic_load(&lane->stop) && ops_idle(lane) && lane->cleanups_wait == 0 &&
	       data_all_stable(lane) && !mail_waits(lane);
}

static void debug_pool(const struct lane *lane)
{
	const struct rpcrdma_stats *stats = rpcrdma_stats(lane->xprt);
	if (stats->waits_for == RPCRDMA_WAITS_FOR_REGISTRATIONS)
		log_debug(LOG_POOL, "lane %u: %llu calls wait for registrations", lane->id,
			  (unsigned long long)stats->queued);
}

void lane_turn(struct lane *lane)
{
	lane->now_ns = lane_clock_ns();
	if (lane->had_event)
		lane->poll_until_ns = lane->now_ns + lane->mount->opts->poll * UINT64_C(1000);
	lane->stats->fuse.turns++;
	lane->stats->fuse.turn_ns = lane->now_ns;
	bool more = rpcrdma_progress(lane->xprt, lane->now_ns);
	run_messages(lane);
	run_timers(lane);
	ops_serve_waiters(lane);
	more |= fuse_channel_read(lane);
	data_turn(lane);
	if (atomic_load(&lane->stop)) {
		revalidate_stop(lane);
		if (session_was_unmounted(lane->mount))
			ops_forsake(lane);
	}
	rpcrdma_flush(lane->xprt, lane->now_ns);
	if (log_debug_areas & LOG_POOL)
		debug_pool(lane);
	fuse_channel_watch(lane);
	more |= mail_waits(lane) || finished(lane) || polls(lane);
	take_events(lane, more ? 0 : sleep_ms(lane));
}

void lane_enter(struct lane *lane)
{
	self = lane;
}

void lane_run(struct lane *lane)
{
	lane_enter(lane);
	while (!finished(lane))
		lane_turn(lane);
	lane_enter(NULL);
}

static void *lane_thread(void *arg)
{
	lane_run(arg);
	return NULL;
}

/* ---- making and ending ---- */

static const char *duration(uint64_t ns, char *buf, size_t size)
{
	snprintf(buf, size, "%llu ms", (unsigned long long)(ns / 1000000));
	return buf;
}

static void debug_status(const struct lane *lane, const struct rpcrdma_status *status)
{
	struct rpcrdma_agreed agreed;
	if (status->event == RPCRDMA_DOWN)
		log_debug(LOG_TRANSPORT, "lane %u: no connection: %s (%s); attempt %u, the next in %llu ms",
			  lane->id, status->why ? status->why : "", strerror(-status->error),
			  status->attempts, (unsigned long long)(status->retry_ns / 1000000));
	else if (rpcrdma_agreed(lane->xprt, &agreed))
		log_debug(LOG_TRANSPORT,
			  "lane %u: connected: inline %u bytes out, %u in; the server %s of itself, and %s "
			  "with "
			  "invalidate; %llu calls wait",
			  lane->id, agreed.send_bytes, agreed.recv_bytes,
			  agreed.peer_told ? "told" : "said nothing",
			  agreed.peer_invalidates ? "sends" : "does not send",
			  (unsigned long long)rpcrdma_stats(lane->xprt)->queued);
}

static void on_status(void *ctx, const struct rpcrdma_status *status)
{
	struct lane *lane = ctx;
	char when[32];
	bool up = status->event == RPCRDMA_UP;
	TRACE3(lane__state, lane->id, up, status->attempts);
	if (log_debug_areas & LOG_TRANSPORT)
		debug_status(lane, status);
	if (!up)
		atomic_fetch_add(&lane->mount->losses, 1);
	if (lane->on_connection) {
		lane->on_connection(lane, up, status->why);
		if (up)
			lane->was_up = true;
		return;
	}
	if (up && lane->was_up) {
		log_info("server %s lane %u: connected again", lane->mount->source, lane->id);
		data_connection_up(lane);
	} else if (!up && (lane->was_up ? status->attempts <= 1 : status->attempts == 1)) {
		log_warning("server %s lane %u: %s (%s), trying again in %s%s%s", lane->mount->source,
			    lane->id, status->attempts ? "cannot connect" : "connection lost",
			    status->why && status->why[0] ? status->why : strerror(-status->error),
			    duration(status->retry_ns, when, sizeof when),
			    status->attempts ? " and on; what is wrong says: nfsrdma-probe " : "",
			    status->attempts ? lane->mount->opts->server : "");
	}
	if (up)
		lane->was_up = true;
}

int lane_create(struct nfs_mount *mount, unsigned int id, struct lane **out)
{
	struct lane *lane = calloc(1, sizeof *lane);
	if (!lane)
		return -ENOMEM;
	lane->mount = mount;
	lane->id = id;
	lane->fuse_fd = -1;
	lane->stats = stats_lane(mount->stats, id);
	lane->now_ns = lane_clock_ns();
	pthread_mutex_init(&lane->mail_lock, NULL);
	lane->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	lane->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	struct epoll_event ev = {.events = EPOLLIN, .data.ptr = &lane->wake_fd};
	if (lane->epoll_fd < 0 || lane->wake_fd < 0 ||
	    epoll_ctl(lane->epoll_fd, EPOLL_CTL_ADD, lane->wake_fd, &ev)) {
		int err = -errno;
		lane_destroy(lane);
		return err;
	}
	*out = lane;
	return 0;
}

int lane_open(struct lane *lane, const struct lane_transport *t)
{
	unsigned int nops = 2 * t->credits < 32 ? 32 : 2 * t->credits;
	struct rpcrdma_params params = {
		.device = t->device,
		.addr = *t->addr,
		.addr_len = t->addr_len,
		.epoll_fd = lane->epoll_fd,
		.epoll_data = lane,
		.strategy = t->strategy,
		.credits = t->credits,
		.inline_bytes = t->inline_bytes,
		.calls = nops + LANE_OPS_OWN +
			 1, /* one for each op; the one of an op that ended in done() is free only after it */
		.arena_bytes = t->arena_bytes,
		.max_io_bytes = t->max_io_bytes,
		.xid_first = rpcrdma_xid_lane(t->xid_random, lane->id),
		.timeo_ns = t->timeo_ns,
		.retrans = t->retrans,
		.soft = t->soft,
		.on_status = on_status,
		.ctx = lane,
		.stats = &lane->stats->rpcrdma,
		.pool_stats = &lane->stats->fmrpool,
		.times = &lane->stats->times,
		.clock_ns = lane_clock_ns,
	};
	int err = rpcrdma_create(&params, &lane->xprt);
	if (err)
		return err;
	lane->arena = rpcrdma_arena(lane->xprt);
	lane->watchdog_limit_ns = watchdog_limit_ns(t->timeo_ns);
	/* A request that is no WRITE may be as long as one with the largest payload (BATCH_FORGET). */
	lane->fuse_head_bytes = 3 * ARENA_PAGE_BYTES + t->max_io_bytes;
	lane->fuse_head = malloc(lane->fuse_head_bytes);
	if (!lane->fuse_head)
		return -ENOMEM;
	err = ops_create(lane, nops);
	return err ? err : data_create(lane);
}

int lane_start(struct lane *lane)
{
	sigset_t all, old;
	sigfillset(&all); /* signals are main's */
	pthread_sigmask(SIG_SETMASK, &all, &old);
	int err = pthread_create(&lane->thread, NULL, lane_thread, lane);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	return -err;
}

void lane_join(struct lane *lane)
{
	pthread_join(lane->thread, NULL);
}

void lane_destroy(struct lane *lane)
{
	if (!lane)
		return;
	lane_enter(lane);
	fuse_channel_close(lane);
	rpcrdma_destroy(lane->xprt);
	data_destroy(lane);
	ops_destroy(lane);
	revalidate_free(lane);
	free(lane->fuse_head);
	if (lane->wake_fd >= 0)
		close(lane->wake_fd);
	if (lane->epoll_fd >= 0)
		close(lane->epoll_fd);
	pthread_mutex_destroy(&lane->mail_lock);
	lane_enter(NULL);
	free(lane);
}
