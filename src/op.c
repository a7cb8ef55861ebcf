/* SPDX-License-Identifier: MIT
 *
 * Requests in progress. Normal operation: op_begin() -> op_rpc() -> on_done() -> the operation's callback ->
 * op_reply_*().
 *
 * The call. An op takes a call of the transport when it first needs one and keeps it: inside done() the same
 * call is renewed for the next RPC. There are as many calls as ops, so there always is one.
 *
 * Recovery. JUKEBOX ("not now"): the message is sent again after a while, with a new XID in its first word,
 * so that the server does not take it for a retransmission. Reconnecting is the transport's business and is
 * not seen here.
 *
 * A caller that is killed: see op.h. FUSE_INTERRUPT comes for the first signal of any kind, and not at all
 * for some requests, so the lane also looks, each second, at the callers of requests that are older than one.
 *
 * In the same look it notes the RPC that has waited longest, for those who read the counters, and for the
 * watchdog.
 */
#include "op.h"
#include "arena.h"
#include "data.h"
#include "inode.h"
#include "lane_priv.h"
#include "log.h"
#include "mount.h"
#include "options.h"
#include "rpcrdma.h"
#include "trace.h"
#include "xdr.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SECOND_NS 1000000000ull
#define JUKEBOX_FIRST_NS (SECOND_NS / 10)
#define JUKEBOX_MAX_NS (5 * SECOND_NS)

enum op_phase {
	OP_FREE,
	OP_RUNNING,   /* its code runs, or others keep it in a list (then run_to_end) */
	OP_RPC,	      /* its call is the transport's */
	OP_TIMER,     /* op_wait_until(), or the pause before a JUKEBOX call is sent again */
	OP_RUN_WAIT,  /* for memory of the arena */
	OP_PARKED,    /* op_park() */
	OP_POSTED,    /* a message to its lane is under way */
	OP_ABANDONED, /* answered; its call is still the transport's */
};

static void list_push(struct op_list *list, struct op *op)
{
	op->next = NULL;
	if (list->first)
		list->last->next = op;
	else
		list->first = op;
	list->last = op;
}

static struct op *list_pop(struct op_list *list)
{
	struct op *op = list->first;
	if (op)
		list->first = op->next;
	return op;
}

static void list_unlink(struct op_list *list, struct op *op)
{
	struct op *prev = NULL;
	for (struct op *o = list->first; o != op; o = o->next)
		prev = o;
	if (prev)
		prev->next = op->next;
	else
		list->first = op->next;
	if (list->last == op)
		list->last = prev;
}

/* ---- begin and end ---- */

static void each_second(struct lane_timer *timer);

static void op_start(struct lane *lane, struct op *op)
{
	memset(op, 0, sizeof *op);
	op->lane = lane;
	op->phase = OP_RUNNING;
	op->begun_ns = lane->now_ns;
	lane->ops_busy++;
	lane->stats->fuse.ops = lane->ops_busy;
	if (!lane->ops_timer.armed)
		lane_timer_set(lane, &lane->ops_timer, lane->now_ns + SECOND_NS, each_second);
}

struct op *op_begin(fuse_req_t req)
{
	struct lane *lane = lane_self();
	const struct fuse_ctx *ctx = fuse_req_ctx(req);
	struct op *op = list_pop(&lane->ops_free);
	assert(op); /* no request is read without a free op */
	op_start(lane, op);
	op->req = req;
	op->unique = lane->incoming.unique;
	op->tid = ctx->pid;
	op->uid = ctx->uid;
	op->gid = ctx->gid;
	return op;
}

struct op *op_begin_own(struct lane *lane)
{
	struct op *op = list_pop(&lane->ops_own_free);
	if (!op)
		return NULL;
	op_start(lane, op);
	op->run_to_end = true;
	return op;
}

static bool is_own(const struct lane *lane, const struct op *op)
{
	return op >= lane->ops + lane->nops;
}

void op_run_put(struct op *op)
{
	if (!op->run)
		return;
	arena_free(op->lane->arena, op->run, op->run_bytes, ARENA_REPLY);
	op->run = NULL;
}

/* Everything back but the call, which the transport has or takes by itself. */
static void give_back(struct op *op)
{
	struct lane *lane = op->lane;
	op_run_put(op);
	for (unsigned int i = 0; i < op->ninodes; i++)
		inode_unref(op->inodes[i]);
	if (op->parked_file)
		open_file_unref(op->parked_file);
	free(op->parked);
	op->phase = OP_FREE;
	op->unique = 0;
	lane->ops_busy--;
	lane->stats->fuse.ops = lane->ops_busy;
	list_push(is_own(lane, op) ? &lane->ops_own_free : &lane->ops_free, op);
}

static void op_end(struct op *op)
{
	assert(op->phase == OP_RUNNING);
	if (op->call && !op->in_done)
		rpcrdma_call_put(op->call);
	op->call = NULL;
	give_back(op);
}

struct inode *op_hold(struct op *op, struct inode *inode)
{
	assert(op->ninodes < OP_INODES_MAX);
	inode_ref(inode);
	op->inodes[op->ninodes++] = inode;
	return inode;
}

const struct cred *op_cred(struct op *op)
{
	struct nfs_mount *mount = op->lane->mount;
	if (!mount->by_root && op->uid != mount->owner)
		return NULL;
	if (!op->cred_known)
		cred_of_caller(mount->proc_fd, mount->machine, op->tid, op->uid, op->gid, &op->cred);
	op->cred_known = true;
	return &op->cred;
}

/* ---- RPCs ---- */

static void on_done(struct rpcrdma_call *call);
static void on_release(struct rpcrdma_call *call);

static void submit(struct op *op)
{
	struct rpcrdma_call *call = op->call;
	call->owner = op;
	call->done = on_done;
	call->release = on_release;
	call->kind = &op->lane->stats->procs[op->proc].rpc;
	call->msg_len = op->saved.msg_len;
	call->reply_max = op->saved.reply_max;
	call->reply_buf = op->saved.reply;
	call->in = op->saved.in;
	if (op->saved.out.iov_len > 0) {
		call->out[0] = op->saved.out;
		call->nout = 1;
		call->out_pos = op->saved.msg_len; /* the payload is the last item of the call */
	}
	op->phase = OP_RPC;
	op->submitted_ns = lane_clock_ns();
	TRACE3(rpc__begin, call->xid, op->proc, op->tid);
	rpcrdma_submit(call, op->submitted_ns);
}

/* A call that may be filled: a new one, or, inside done(), the same one again. */
static void take_call(struct op *op)
{
	if (!op->call) {
		op->call = rpcrdma_call_get(op->lane->xprt);
		assert(op->call); /* as many calls as ops */
	} else if (op->in_done) {
		rpcrdma_call_renew(op->call);
		op->in_done = false;
	}
}

static void on_refused(struct lane_msg *msg)
{
	struct op *op = (struct op *)((char *)msg - offsetof(struct op, msg));
	op->phase = OP_RUNNING;
	op->on_reply(op, op->refused, NULL);
}

void op_rpc(struct op *op, enum nfs3_proc proc, const struct cred *cred, const void *args,
	    op_reply_fn *on_reply)
{
	take_call(op);
	op->proc = proc;
	op->on_reply = on_reply;
	op->retries = 0;
	op->placed_bytes = 0;
	op->sent_again = false;
	op->saved = (struct op_saved){.reply_max = nfs3_reply_max(proc, op->count),
				      .out = op->out,
				      .in = op->in,
				      .reply = op->reply};
	if (nfs3_procs[proc].payload == NFS3_PAYLOAD_DATA)
		op->saved.reply_max = nfs3_reply_max(proc, 0);
	op->out = op->in = op->reply = (struct iovec){0};
	op->count = 0;
	int len = cred ? nfs3_encode(op->call->msg, RPCRDMA_MSG_BYTES, op->call->xid, cred, proc, args)
		       : -EACCES;
	if (len < 0) {
		op->refused = len;
		op->phase = OP_POSTED;
		lane_post(op->lane, &op->msg, on_refused);
		return;
	}
	op->saved.msg_len = (uint32_t)len;
	submit(op);
	op->asked_ns = op->submitted_ns;
	log_debug(LOG_NFS, "lane %u: XID 0x%08x: %s for uid %u, thread %d", op->lane->id, op->call->xid,
		  nfs3_procs[proc].name, cred->uid, (int)op->tid);
}

static void send_again(struct lane_timer *timer)
{
	struct op *op = (struct op *)((char *)timer - offsetof(struct op, timer));
	uint32_t xid = htobe32(op->call->xid);
	memcpy(op->call->msg, &xid, sizeof xid);
	submit(op);
}

/* The server said "not now". Inside done(). */
static void wait_and_send_again(struct op *op)
{
	struct lane *lane = op->lane;
	uint64_t pause = JUKEBOX_FIRST_NS << (op->retries < 6 ? op->retries : 6);
	op->retries++;
	lane->stats->fuse.jukebox++;
	take_call(op);
	op->phase = OP_TIMER;
	lane_timer_set(lane, &op->timer, lane->now_ns + (pause > JUKEBOX_MAX_NS ? JUKEBOX_MAX_NS : pause),
		       send_again);
}

/* The one translation of what the transport says. */
static int transport_errno(const struct lane *lane, int status)
{
	switch (status) {
	case 0:
		return 0;
	case -ETIMEDOUT:
		return lane->mount->opts->recovery == RECOVERY_SOFTERR ? -ETIMEDOUT : -EIO;
	case -ECANCELED:
		return -ENOTCONN; /* the mount is ending */
	default:
		return -EIO;
	}
}

static uint32_t peek_status(const struct xdr_reader *results)
{
	struct xdr_reader r = *results;
	return xdr_u32(&r);
}

static void count_reply(struct op *op, int err, const struct xdr_reader *results)
{
	struct proc_stats *stats = &op->lane->stats->procs[op->proc];
	uint64_t total_ns = op->lane->now_ns - op->submitted_ns;
	TRACE4(rpc__end, op->call->xid, op->proc, err, total_ns);
	latency_add(&stats->total, total_ns);
	log_debug(LOG_NFS, "lane %u: XID 0x%08x: %s after %.3f ms: %s", op->lane->id, op->call->xid,
		  nfs3_procs[op->proc].name, (double)total_ns / 1e6,
		  err				    ? strerror(-err)
		  : op->proc == NFSPROC3_NULL	    ? "answered"
		  : peek_status(results) == NFS3_OK ? "OK"
						    : strerror(-nfs3_errno(peek_status(results))));
	if (err || (op->proc != NFSPROC3_NULL && peek_status(results) != NFS3_OK))
		stats->errors++;
}

static void on_done(struct rpcrdma_call *call)
{
	struct op *op = call->owner;
	struct xdr_reader results = xdr_reader(call->reply, call->status ? 0 : call->reply_len);
	int err = transport_errno(op->lane, call->status);
	if (!err)
		err = nfs3_reply_header(&results);
	if (err == -EPROTONOSUPPORT && nfs3_is_acl_proc(op->proc))
		err = -EOPNOTSUPP;
	if (err == -EBADMSG || err == -EPROTONOSUPPORT)
		err = -EIO;
	op->lane->now_ns = lane_clock_ns();
	if (!call->status)
		atomic_store_explicit(&op->lane->answered_ns, op->lane->now_ns, memory_order_relaxed);
	count_reply(op, err, &results);
	op->phase = OP_RUNNING;
	op->in_done = true;
	op->sent_again |= call->transmissions > 1;
	op->placed_bytes = call->in_placed ? call->in_len : 0;
	if (!err && op->proc != NFSPROC3_NULL && peek_status(&results) == NFS3ERR_JUKEBOX) {
		wait_and_send_again(op);
		return;
	}
	op->retries = 0;
	op->on_reply(op, err, &results);
}

/* done() is over, or the memory of an abandoned call is safe now. */
static void on_release(struct rpcrdma_call *call)
{
	struct op *op = call->owner;
	if (op->call != call)
		return; /* the op has ended in done(), and may be another's by now */
	op->call = NULL;
	op->in_done = false;
	if (op->phase == OP_ABANDONED)
		give_back(op);
}

/* ---- waiting ---- */

static void call_resume(struct op *op)
{
	op_resume_fn *resume = op->resume;
	op->phase = OP_RUNNING;
	resume(op);
}

static void on_timer(struct lane_timer *timer)
{
	call_resume((struct op *)((char *)timer - offsetof(struct op, timer)));
}

void op_wait_until(struct op *op, uint64_t due_ns, op_resume_fn *resume)
{
	op->resume = resume;
	op->phase = OP_TIMER;
	lane_timer_set(op->lane, &op->timer, due_ns, on_timer);
}

static void on_resume(struct lane_msg *msg)
{
	call_resume((struct op *)((char *)msg - offsetof(struct op, msg)));
}

void op_resume(struct op *op, op_resume_fn *resume)
{
	op->resume = resume;
	lane_post(op->lane, &op->msg, on_resume);
}

void op_run_get(struct op *op, size_t bytes, op_resume_fn *resume)
{
	struct lane *lane = op->lane;
	assert(!op->run);
	op->run_bytes = bytes;
	if (!lane->run_waiters.first)
		op->run = arena_alloc(lane->arena, bytes, ARENA_REPLY);
	if (op->run) {
		resume(op);
		return;
	}
	lane->stats->fuse.arena_waits++;
	log_debug(LOG_POOL, "lane %u: a request waits for %zu bytes of payload memory", lane->id, bytes);
	op->resume = resume;
	op->phase = OP_RUN_WAIT;
	list_push(&lane->run_waiters, op);
}

void op_park(struct op *op, op_resume_fn *resume)
{
	struct lane *lane = op->lane;
	lane->stats->fuse.arena_waits++;
	op->resume = resume;
	op->phase = OP_PARKED;
	list_push(&lane->parked, op);
}

bool ops_stalled(const struct lane *lane)
{
	return lane->now_ns - atomic_load_explicit(&lane->answered_ns, memory_order_relaxed) >= SECOND_NS;
}

void ops_serve_waiters(struct lane *lane)
{
	struct op *op;
	while (lane->parked.first && arena_receive_area(lane->arena))
		call_resume(list_pop(&lane->parked));
	while ((op = lane->run_waiters.first)) {
		op->run = arena_alloc(lane->arena, op->run_bytes, ARENA_REPLY);
		if (!op->run)
			return;
		list_pop(&lane->run_waiters);
		call_resume(op);
	}
}

/* ---- callers that are killed ---- */

/* Has the caller a SIGKILL pending? A fatal signal of any kind ends as one in the kernel. If the thread is
 * gone nobody waits, or other threads of its process do. */
static bool is_killed(struct nfs_mount *mount, const struct op *op)
{
	char path[32], text[4096];
	snprintf(path, sizeof path, "%d/status", (int)op->tid);
	int fd = openat(mount->proc_fd, path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return errno == ENOENT && !op->outlives;
	ssize_t n = read(fd, text, sizeof text - 1);
	close(fd);
	if (n <= 0)
		return (n == 0 || errno == ESRCH) && !op->outlives;
	text[n] = '\0';
	uint64_t pending = 0;
	const char *names[] = {"\nSigPnd:", "\nShdPnd:"};
	for (int i = 0; i < 2; i++) {
		const char *at = strstr(text, names[i]);
		if (at)
			pending |= strtoull(at + strlen(names[i]), NULL, 16);
	}
	return pending >> (SIGKILL - 1) & 1;
}

static void tell_interrupted(struct op *op)
{
	void (*interrupted)(struct op *) = op->interrupted;
	op->interrupted = NULL;
	if (interrupted)
		interrupted(op);
}

void op_cancel(struct op *op)
{
	switch (op->phase) {
	case OP_RPC:
		op->phase = OP_ABANDONED;
		rpcrdma_call_abandon(op->call); /* may release it at once */
		return;
	case OP_TIMER:
		lane_timer_cancel(op->lane, &op->timer);
		break;
	case OP_RUN_WAIT:
		list_unlink(&op->lane->run_waiters, op);
		break;
	case OP_PARKED:
		list_unlink(&op->lane->parked, op);
		break;
	default:
		return; /* a message is under way: it ends by itself */
	}
	op->phase = OP_RUNNING;
	op_end(op);
}

/* Answers the request now; the rest goes as op.h says. */
static void end_early(struct op *op)
{
	tell_interrupted(op);
	op->lane->stats->fuse.killed++;
	fuse_reply_err(op->req, EINTR);
	op->req = NULL;
	op->unique = 0;
	if (!op->run_to_end)
		op_cancel(op);
}

void ops_interrupt(struct lane *lane, uint64_t unique)
{
	for (unsigned int i = 0; i < lane->nops; i++) {
		struct op *op = &lane->ops[i];
		if (op->unique != unique || !op->req)
			continue;
		tell_interrupted(op);
		if (op->tid && is_killed(lane->mount, op))
			end_early(op);
		return;
	}
}

void ops_forsake(struct lane *lane)
{
	for (unsigned int i = 0; i < lane->nops; i++) {
		struct op *op = &lane->ops[i];
		if (op->phase != OP_FREE && op->req && !op->run_to_end)
			end_early(op);
	}
}

bool ops_idle(const struct lane *lane)
{
	if (lane->ops_busy == 0)
		return true;
	for (unsigned int i = 0; i < lane->nops + lane->nops_own; i++)
		if (lane->ops[i].phase != OP_FREE && lane->ops[i].phase != OP_ABANDONED)
			return false;
	return true;
}

static void look_for_killed(struct lane *lane)
{
	for (unsigned int i = 0; i < lane->nops; i++) {
		struct op *op = &lane->ops[i];
		if (op->phase != OP_FREE && op->req && op->tid && lane->now_ns - op->begun_ns >= SECOND_NS &&
		    is_killed(lane->mount, op))
			end_early(op);
	}
}

/* ---- calls that wait ---- */

/* It waits for the server, or until it may be sent again because the server said "not now". */
static bool waits(const struct op *op)
{
	return op->phase == OP_RPC || (op->phase == OP_TIMER && op->retries > 0);
}

/* The RPC that was begun first, or NULL. *late: how many have waited as long as the watchdog lets them. */
static struct op *longest_waiting(struct lane *lane, unsigned int *late)
{
	struct op *oldest = NULL;
	*late = 0;
	for (unsigned int i = 0; i < lane->nops + lane->nops_own; i++) {
		struct op *op = &lane->ops[i];
		if (!waits(op))
			continue;
		if (!oldest || op->asked_ns < oldest->asked_ns)
			oldest = op;
		*late += op->asked_ns + lane->watchdog_limit_ns <= lane->now_ns;
	}
	return oldest;
}

static void publish_oldest(struct lane *lane, const struct op *op)
{
	struct oldest_call *o = &lane->stats->oldest;
	if (!op || lane->now_ns < op->asked_ns + SECOND_NS) {
		o->since_ns = 0;
		return;
	}
	o->xid = op->call->xid;
	o->proc = op->proc;
	o->sends = op->call->transmissions;
	o->since_ns = op->asked_ns;
}

static void say_late(struct lane *lane, const struct op *op, unsigned int late, uint64_t age_ns)
{
	const struct rpcrdma_stats *stats = rpcrdma_stats(lane->xprt);
	struct watchdog_call call = {.source = lane->mount->source,
				     .server = lane->mount->opts->server,
				     .mountpoint = lane->mount->mountpoint,
				     .proc = nfs3_procs[op->proc].name,
				     .xid = op->call->xid,
				     .lane = lane->id,
				     .others = late > 1 ? late - 1 : 0,
				     .age_ns = age_ns,
				     .sends = op->call->transmissions,
				     .refused = op->retries,
				     .state = (unsigned int)stats->state,
				     .waits_for = (unsigned int)stats->waits_for};
	char line[LOG_LINE_MAX];
	watchdog_line(&call, line, sizeof line);
	log_warning("%s", line);
}

static void watch_calls(struct lane *lane)
{
	unsigned int late;
	uint64_t age_ns;
	struct op *op = longest_waiting(lane, &late);
	publish_oldest(lane, op);
	switch (watchdog_look(&lane->watchdog, op ? op->asked_ns : 0, lane->watchdog_limit_ns, lane->now_ns,
			      &age_ns)) {
	case WATCHDOG_LATE:
		say_late(lane, op, late, age_ns);
		break;
	case WATCHDOG_ANSWERED:
		log_info("server %s lane %u: the call that was waited for is over, after %llu s",
			 lane->mount->source, lane->id, (unsigned long long)(age_ns / SECOND_NS));
		break;
	case WATCHDOG_SILENT:
		break;
	}
}

/* Once more after the last op has ended, so that nothing old is shown. */
static void each_second(struct lane_timer *timer)
{
	struct lane *lane = (struct lane *)((char *)timer - offsetof(struct lane, ops_timer));
	watch_calls(lane);
	if (lane->mount->inodes)
		__atomic_store_n(&stats_header(lane->mount->stats)->inodes, inode_count(lane->mount->inodes),
				 __ATOMIC_RELAXED); /* any lane's look */
	if (!lane->ops_busy)
		return;
	look_for_killed(lane);
	lane_timer_set(lane, timer, lane->now_ns + SECOND_NS, each_second);
}

/* ---- replies ---- */

#define REPLY(op, expression)                                                                                \
	do {                                                                                                 \
		fuse_req_t req = (op)->req;                                                                  \
		int err_ = req ? (expression) : -ENOENT;                                                     \
		(op)->req = NULL;                                                                            \
		op_end(op);                                                                                  \
		return err_;                                                                                 \
	} while (0)

int op_reply_err(struct op *op, int err)
{
	if (err == -EBADMSG) /* a broken reply: what the server, and no file, has to answer for */
		err = -EIO;
	REPLY(op, fuse_reply_err(req, -err));
}

int op_reply_none(struct op *op)
{
	REPLY(op, (fuse_reply_none(req), 0));
}

int op_reply_attr(struct op *op, const struct stat *attr, double timeout_s)
{
	REPLY(op, fuse_reply_attr(req, attr, timeout_s));
}

int op_reply_buf(struct op *op, const void *buf, size_t bytes)
{
	REPLY(op, fuse_reply_buf(req, buf, bytes));
}

int op_reply_create(struct op *op, const struct fuse_entry_param *entry, const struct fuse_file_info *fi)
{
	REPLY(op, fuse_reply_create(req, entry, fi));
}

int op_reply_entry(struct op *op, const struct fuse_entry_param *entry)
{
	REPLY(op, fuse_reply_entry(req, entry));
}

int op_reply_lock(struct op *op, const struct flock *lock)
{
	REPLY(op, fuse_reply_lock(req, lock));
}

int op_reply_open(struct op *op, const struct fuse_file_info *fi)
{
	REPLY(op, fuse_reply_open(req, fi));
}

int op_reply_readlink(struct op *op, const char *path)
{
	REPLY(op, fuse_reply_readlink(req, path));
}

int op_reply_statfs(struct op *op, const struct statvfs *st)
{
	REPLY(op, fuse_reply_statfs(req, st));
}

int op_reply_write(struct op *op, size_t bytes)
{
	REPLY(op, fuse_reply_write(req, bytes));
}

int op_reply_xattr(struct op *op, size_t bytes)
{
	REPLY(op, fuse_reply_xattr(req, bytes));
}

void op_answer_write(struct op *op, size_t bytes)
{
	assert(op->run_to_end);
	fuse_reply_write(op->req, bytes);
	op->req = NULL;
	op->unique = 0;
}

/* ---- making and ending ---- */

int ops_create(struct lane *lane, unsigned int nops)
{
	lane->ops = calloc(nops + LANE_OPS_OWN, sizeof *lane->ops);
	if (!lane->ops)
		return -ENOMEM;
	lane->nops = nops;
	lane->nops_own = LANE_OPS_OWN;
	for (unsigned int i = 0; i < nops + LANE_OPS_OWN; i++)
		list_push(i < nops ? &lane->ops_free : &lane->ops_own_free, &lane->ops[i]);
	return 0;
}

void ops_destroy(struct lane *lane)
{
	free(lane->ops);
}
