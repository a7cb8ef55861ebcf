/* SPDX-License-Identifier: MIT
 *
 * What is done for a request, step by step. Each step ends in a call, whose reply is the next step; in a
 * pause; or in finish(). See nlm.h.
 *
 * ORDER: what is held is in the table from the moment that the server grants it (its reply or its callback)
 * to the moment before UNLOCK is sent. Calls are sent in the order in which they were made, on one
 * connection, and again in that order on the next one; so a reclaim never comes behind the UNLOCK of what it
 * reclaims.
 */
#include "log.h"
#include "nlm_priv.h"
#include "xdr.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

/* A grant may be lost, or never be sent (Linux 6.12.117 forgets who waits as soon as it has said BLOCKED):
 * ask again, first soon, then less and less, at last as often as the kernel's client. */
#define POLL_FIRST_NS SECOND_NS
#define POLL_LAST_NS (30 * SECOND_NS)
#define POLL_UNREGISTERED_NS SECOND_NS /* it will be: there is no way for it to us */
#define GRACE_NS (5 * SECOND_NS)       /* until another try while the server takes reclaims only */

/* ---- owners ---- */

static struct owner *owner_find(struct nlm *nlm, uint64_t id)
{
	struct owner *owner;
	LIST_FOREACH(owner, &nlm->owners, of_all)
		if (owner->id == id)
			return owner;
	return NULL;
}

static struct owner *owner_of_svid(struct nlm *nlm, uint32_t svid)
{
	struct owner *owner;
	LIST_FOREACH(owner, &nlm->owners, of_all)
		if (owner->svid == svid)
			return owner;
	return NULL;
}

/* Above all process numbers, and positive for servers to which it is one. */
static uint32_t new_svid(struct nlm *nlm)
{
	uint32_t svid;
	do {
		if (getrandom(&svid, sizeof svid, GRND_NONBLOCK) != sizeof svid)
			svid = (uint32_t)rand();
		svid = (svid & 0x3fffffffu) | 0x40000000u;
	} while (owner_of_svid(nlm, svid));
	return svid;
}

static struct owner *owner_new(struct nlm *nlm, const struct job *job)
{
	struct owner *owner = calloc(1, sizeof *owner);
	if (!owner)
		return NULL;
	owner->id = job->owner_id;
	owner->svid = new_svid(nlm);
	owner->pid = job->pid;
	owner->cred = job->cred;
	LIST_INSERT_HEAD(&nlm->owners, owner, of_all);
	return owner;
}

static void owner_use(struct job *job, struct owner *owner)
{
	job->owner = owner;
	if (owner)
		owner->njobs++;
}

static void owner_put(struct job *job)
{
	struct owner *owner = job->owner;
	job->owner = NULL;
	if (!owner || --owner->njobs || owner->locks.held)
		return;
	LIST_REMOVE(owner, of_all);
	free(owner);
}

static struct owner *owner_of(struct lock_owner *locks)
{
	return locks ? (struct owner *)((char *)locks - offsetof(struct owner, locks)) : NULL;
}

/* ---- the end of a job ---- */

static void answer(struct job *job, int err, const struct nlm_conflict *conflict)
{
	nlm_done_fn *done = job->done;
	job->done = NULL;
	if (done)
		done(job->ctx, err, conflict);
}

static void finish(struct nlm *nlm, struct job *job, int err)
{
	answer(job, err, NULL);
	owner_put(job);
	TAILQ_REMOVE(&nlm->jobs, job, of_all);
	free(job);
}

/* ---- calls ---- */

static struct nlm_lock lock_for(const struct nlm *nlm, const struct job *job, uint64_t start, uint64_t end,
				bool exclusive)
{
	return (struct nlm_lock){.caller = nlm->args.machine,
				 .fh = &job->fh,
				 .svid = job->owner->svid,
				 .start = start,
				 .end = end,
				 .exclusive = exclusive};
}

static void call_lock(struct nlm *nlm, struct job *job, const struct nlm_lock *lock, bool block, bool reclaim,
		      job_reply_fn *on_reply)
{
	job->xid = nlm_xid(nlm);
	nlm_call(nlm, job, nlm_put_lock(job->msg, job->xid, &job->cred, lock, block, reclaim, nlm->our_state),
		 on_reply);
}

static void call_unlock(struct nlm *nlm, struct job *job, uint64_t start, uint64_t end,
			job_reply_fn *on_reply)
{
	struct nlm_lock lock = lock_for(nlm, job, start, end, false);
	job->xid = nlm_xid(nlm);
	nlm_call(nlm, job, nlm_put_unlock(job->msg, job->xid, &job->cred, &lock), on_reply);
}

/* The status in a reply, or why there is none. */
static int status_of(int err, struct xdr_reader *r, uint32_t *status)
{
	*status = NLM_FAILED;
	return err ? err : nlm_get_status(r, status);
}

/* ---- putting a range back: after a LOCK that may or may not have been granted ---- */

static void put_back_next(struct nlm *nlm, struct job *job);

static void on_put_back(struct nlm *nlm, struct job *job, int err, struct xdr_reader *r)
{
	uint32_t status;
	err = status_of(err, r, &status);
	if (err) { /* soft, and the server is away; or it makes no sense */
		finish(nlm, job, job->error);
		return;
	}
	put_back_next(nlm, job);
}

/* What the server may have granted beyond what we hold is unlocked; what it may have made stronger is made
 * what it was. */
static void put_back_next(struct nlm *nlm, struct job *job)
{
	while (job->at <= job->end) {
		uint64_t start = job->at, end = job->end;
		const struct held_lock *held =
			locks_at(&nlm->table, &job->fh, &job->owner->locks, start, &end);
		job->at = end + 1;
		if (!held) {
			call_unlock(nlm, job, start, end, on_put_back);
			return;
		}
		if (held->exclusive != job->exclusive) {
			struct nlm_lock lock = lock_for(nlm, job, start, end, held->exclusive);
			call_lock(nlm, job, &lock, false, false, on_put_back);
			return;
		}
	}
	finish(nlm, job, job->error);
}

static void put_back(struct nlm *nlm, struct job *job, int err)
{
	job->error = err;
	if (err != -EINTR)
		answer(job, err, NULL); /* he need not wait for it */
	job->at = job->start;
	put_back_next(nlm, job);
}

/* ---- LOCK ---- */

static void on_cancelled(struct nlm *nlm, struct job *job, int err, struct xdr_reader *r)
{
	(void)err, (void)r; /* whatever it says: it may have been granted just before */
	put_back(nlm, job, -EINTR);
}

static void cancel(struct nlm *nlm, struct job *job)
{
	struct nlm_lock lock = lock_for(nlm, job, job->start, job->end, job->exclusive);
	job->xid = nlm_xid(nlm);
	nlm_call(nlm, job, nlm_put_cancel(job->msg, job->xid, &job->cred, &lock, job->wait), on_cancelled);
}

static bool take(struct nlm *nlm, struct job *job)
{
	return locks_set(&nlm->table, &job->fh, &job->owner->locks, job->open, job->start, job->end,
			 job->exclusive) == 0;
}

static void send_lock(struct nlm *nlm, struct job *job);

static void on_blocked(struct nlm *nlm, struct job *job)
{
	if (!job->wait) { /* it was not asked to */
		put_back(nlm, job, -ENOLCK);
		return;
	}
	job->blocked = true;
	if (job->unwanted) {
		cancel(nlm, job);
		return;
	}
	log_debug(LOG_LOCKS, "%s: a lock is waited for", nlm->args.source);
	nlm_register_again(nlm);
	job->poll_ns = job->poll_ns ? 2 * job->poll_ns : POLL_FIRST_NS;
	if (job->poll_ns > POLL_LAST_NS)
		job->poll_ns = POLL_LAST_NS;
	nlm_pause(nlm, job, nlm->registered ? job->poll_ns : POLL_UNREGISTERED_NS, send_lock);
}

static void on_grace(struct nlm *nlm, struct job *job)
{
	log_debug(LOG_LOCKS, "%s: a lock waits for the end of the server's grace period", nlm->args.source);
	job->blocked = false;
	if (job->unwanted)
		put_back(nlm, job, -EINTR);
	else
		nlm_pause(nlm, job, GRACE_NS, send_lock);
}

static void on_lock(struct nlm *nlm, struct job *job, int err, struct xdr_reader *r)
{
	uint32_t status;
	err = status_of(err, r, &status);
	if (job->granted) { /* by a callback: it is in the table */
		finish(nlm, job, 0);
		return;
	}
	if (err) {
		put_back(nlm, job, err);
		return;
	}
	switch (status) {
	case NLM_GRANTED:
		if (job->unwanted)
			put_back(nlm, job, -EINTR);
		else if (take(nlm, job))
			finish(nlm, job, 0);
		else
			put_back(nlm, job, -ENOLCK);
		break;
	case NLM_BLOCKED:
		on_blocked(nlm, job);
		break;
	case NLM_DENIED_GRACE:
		on_grace(nlm, job);
		break;
	case NLM_DENIED: /* EAGAIN makes no sense to one who waits: the refusal is for good */
		finish(nlm, job, job->wait ? -ENOLCK : -EAGAIN);
		break;
	default:
		if (status > NLM_FAILED) /* whatever it means */
			put_back(nlm, job, -ENOLCK);
		else
			finish(nlm, job, nlm_errno(status));
		break;
	}
}

static void send_lock(struct nlm *nlm, struct job *job)
{
	struct nlm_lock lock = lock_for(nlm, job, job->start, job->end, job->exclusive);
	call_lock(nlm, job, &lock, job->wait, false, on_lock);
}

void jobs_interrupt(struct nlm *nlm, uint64_t id)
{
	struct job *job;
	TAILQ_FOREACH(job, &nlm->jobs, of_all)
		if (job->id == id)
			break;
	if (!job || job->what != NLM_WHAT_LOCK || job->granted)
		return;
	job->unwanted = true;
	if (job->phase != JOB_PAUSE)
		return; /* the reply decides */
	if (job->blocked)
		cancel(nlm, job);
	else
		put_back(nlm, job, -EINTR);
}

/* ---- TEST ---- */

static void send_test(struct nlm *nlm, struct job *job);

static void on_test(struct nlm *nlm, struct job *job, int err, struct xdr_reader *r)
{
	struct nlm_conflict conflict = {0};
	struct nlm_holder holder;
	uint32_t status = NLM_FAILED;
	if (!err)
		err = nlm_get_test(r, &status, &holder);
	if (!err && status == NLM_DENIED_GRACE) {
		nlm_pause(nlm, job, GRACE_NS, send_test);
		return;
	}
	if (!err && status == NLM_DENIED) {
		struct owner *owner = owner_of_svid(nlm, holder.svid);
		conflict = (struct nlm_conflict){.any = true,
						 .exclusive = holder.exclusive,
						 .start = holder.start,
						 .end = holder.end,
						 .pid = owner ? owner->pid : 0};
	} else if (!err) {
		err = nlm_errno(status);
	}
	answer(job, err, &conflict);
	finish(nlm, job, err);
}

static void send_test(struct nlm *nlm, struct job *job)
{
	struct nlm_lock lock = lock_for(nlm, job, job->start, job->end, job->exclusive);
	job->xid = nlm_xid(nlm);
	nlm_call(nlm, job, nlm_put_test(job->msg, job->xid, &job->cred, &lock), on_test);
}

/* ---- UNLOCK ---- */

static void send_unlock(struct nlm *nlm, struct job *job);

static void on_unlock(struct nlm *nlm, struct job *job, int err, struct xdr_reader *r)
{
	uint32_t status;
	err = status_of(err, r, &status);
	if (!err && status == NLM_DENIED_GRACE)
		nlm_pause(nlm, job, GRACE_NS, send_unlock);
	else
		finish(nlm, job, err ? err : nlm_errno(status));
}

static void send_unlock(struct nlm *nlm, struct job *job)
{
	call_unlock(nlm, job, job->start, job->end, on_unlock);
}

/* Of an owner who holds nothing there the server need not know. */
static void begin_unlock(struct nlm *nlm, struct job *job)
{
	int any =
		job->owner ? locks_unset(&nlm->table, &job->fh, &job->owner->locks, job->start, job->end) : 0;
	if (any > 0)
		send_unlock(nlm, job);
	else
		finish(nlm, job, any ? -ENOLCK : 0);
}

static void close_next(struct nlm *nlm, struct job *job);
static void send_close(struct nlm *nlm, struct job *job);

static void on_closed(struct nlm *nlm, struct job *job, int err, struct xdr_reader *r)
{
	uint32_t status;
	err = status_of(err, r, &status);
	if (!err && status == NLM_DENIED_GRACE) {
		nlm_pause(nlm, job, GRACE_NS, send_close);
		return;
	}
	owner_put(job);
	if (err)
		finish(nlm, job, err);
	else
		close_next(nlm, job);
}

static void send_close(struct nlm *nlm, struct job *job)
{
	call_unlock(nlm, job, 0, LOCKS_END, on_closed);
}

/* One owner after the other: locks of an open file description have one, and those of processes have gone
 * with their close(2). */
static void close_next(struct nlm *nlm, struct job *job)
{
	struct owner *owner = owner_of(locks_through(&nlm->table, &job->fh, job->open));
	if (!owner) {
		finish(nlm, job, 0);
		return;
	}
	owner_use(job, owner);
	job->cred = owner->cred;
	locks_unset(&nlm->table, &job->fh, &owner->locks, 0, LOCKS_END);
	send_close(nlm, job);
}

void jobs_begin(struct nlm *nlm, struct job *job)
{
	TAILQ_INSERT_TAIL(&nlm->jobs, job, of_all);
	job->phase = JOB_IDLE;
	if (job->what == NLM_WHAT_CLOSE_OPEN) {
		close_next(nlm, job);
		return;
	}
	owner_use(job, owner_find(nlm, job->owner_id));
	switch (job->what) {
	case NLM_WHAT_UNLOCK:
		begin_unlock(nlm, job);
		return;
	case NLM_WHAT_CLOSE_OWNER:
		job->start = 0;
		job->end = LOCKS_END;
		begin_unlock(nlm, job);
		return;
	default:
		break;
	}
	if (!job->owner)
		owner_use(job, owner_new(nlm, job));
	if (!job->owner)
		finish(nlm, job, -ENOLCK);
	else if (job->what == NLM_WHAT_LOCK)
		send_lock(nlm, job);
	else
		send_test(nlm, job);
}

void jobs_unlock_all(struct nlm *nlm)
{
	const struct nfs3_fh *fh;
	const struct held_lock *lock;
	locks_make_stale(&nlm->table);
	while ((lock = locks_stale(&nlm->table, &fh))) {
		struct owner *owner = owner_of(lock->owner);
		struct job *job = calloc(1, sizeof *job);
		if (!job)
			return;
		job->what = NLM_WHAT_CLOSE_OWNER;
		job->fh = *fh;
		job->owner_id = owner->id;
		job->cred = owner->cred;
		jobs_begin(nlm, job); /* takes them out of the table */
	}
}

/* ---- the server's callback ---- */

static bool waits_for(const struct job *job, const struct nlm_granted *g)
{
	return job->what == NLM_WHAT_LOCK && job->wait && !job->unwanted && !job->error && job->owner &&
	       job->owner->svid == g->svid && job->start == g->start && job->end == g->end &&
	       job->exclusive == g->exclusive && job->fh.len == g->fh.len &&
	       memcmp(job->fh.data, g->fh.data, g->fh.len) == 0;
}

/* A grant that we do not want is denied: then the server unlocks it. One that comes again, because our answer
 * was lost, is granted still. */
static uint32_t on_granted(void *ctx, const struct nlm_granted *g)
{
	struct nlm *nlm = ctx;
	struct job *job;
	TAILQ_FOREACH(job, &nlm->jobs, of_all)
		if (waits_for(job, g))
			break;
	if (job && !job->granted) {
		if (!take(nlm, job))
			return NLM_DENIED_NOLOCKS; /* asked for again when it is polled */
		job->granted = true;
		log_debug(LOG_LOCKS, "%s: a lock is granted by callback", nlm->args.source);
		if (job->phase == JOB_PAUSE)
			finish(nlm, job, 0);
		return NLM_GRANTED;
	}
	struct owner *owner = owner_of_svid(nlm, g->svid);
	bool held = owner && locks_hold(&nlm->table, &g->fh, &owner->locks, g->start, g->end, g->exclusive);
	return held ? NLM_GRANTED : NLM_DENIED;
}

static void on_granted_res(void *ctx, const struct nlm_granted *g, uint32_t status)
{
	struct nlm *nlm = ctx;
	uint8_t msg[NLM_CALL_MAX];
	nlm_say(nlm, msg,
		nlm_put_granted_res(msg, nlm_xid(nlm), &nlm->args.cred, g->cookie, g->cookie_bytes, status));
}

/* The status monitor: the server has restarted. Whatever it had of us is gone, the connection too. */
static void on_notify(void *ctx, const struct nsm_notify *notify)
{
	struct nlm *nlm = ctx;
	if (memcmp(notify->priv, nlm->priv, NSM_PRIV_BYTES) || notify->state == nlm->server_state)
		return;
	nlm->server_state = notify->state;
	log_info("%s: the status monitor says that the server has restarted", nlm->args.source);
	nlm_disconnect(nlm);
}

const struct nlm_svc_calls jobs_svc_calls = {
	.granted = on_granted, .granted_res = on_granted_res, .notify = on_notify};

/* ---- reclaim ---- */

static void reclaim_next(struct nlm *nlm, struct job *job);

/* It is still ours to deal with unless it was unlocked meanwhile. */
static void reclaim_lost(struct nlm *nlm, struct job *job)
{
	uint64_t end = job->piece.end;
	if (locks_at(&nlm->table, &job->fh, &job->owner->locks, job->piece.start, &end)) {
		nlm->lost++;
		log_warning("%s: a lock of process %d is lost, because the server has restarted; another "
			    "client may have it",
			    nlm->args.source, (int)job->owner->pid);
	}
	if (locks_unset(&nlm->table, &job->fh, &job->owner->locks, job->piece.start, job->piece.end) < 0)
		locks_fresh(&nlm->table, &job->fh, &job->owner->locks, job->piece.start, job->piece.end);
}

static void reclaim_done(struct nlm *nlm, struct job *job, bool held)
{
	if (held) {
		nlm->reclaimed++;
		locks_fresh(&nlm->table, &job->fh, &job->owner->locks, job->piece.start, job->piece.end);
	} else {
		reclaim_lost(nlm, job);
	}
	owner_put(job);
	reclaim_next(nlm, job);
}

/* Looks again for what is stale. */
static void reclaim_restart(struct nlm *nlm, struct job *job)
{
	owner_put(job);
	reclaim_next(nlm, job);
}

static void on_taken_anew(struct nlm *nlm, struct job *job, int err, struct xdr_reader *r)
{
	uint32_t status;
	err = status_of(err, r, &status);
	if (!err && status == NLM_DENIED_GRACE) /* it has begun just now */
		nlm_pause(nlm, job, SECOND_NS, reclaim_restart);
	else
		reclaim_done(nlm, job, !err && status == NLM_GRANTED);
}

/* Not in its grace period: it has not restarted at all, and then we still hold the lock and are granted it
 * once more; or we are too late.
 * ORDER: not if the range has been unlocked, or locked in another way, since the reclaim was sent: the call
 * that did it has been sent too, and this one would come behind it. */
static void on_reclaimed(struct nlm *nlm, struct job *job, int err, struct xdr_reader *r)
{
	uint32_t status;
	err = status_of(err, r, &status);
	bool late = !err && status == NLM_DENIED_GRACE;
	if (late && !locks_hold(&nlm->table, &job->fh, &job->owner->locks, job->piece.start, job->piece.end,
				job->piece.exclusive)) {
		reclaim_restart(nlm, job);
	} else if (late) {
		struct nlm_lock lock =
			lock_for(nlm, job, job->piece.start, job->piece.end, job->piece.exclusive);
		call_lock(nlm, job, &lock, false, false, on_taken_anew);
	} else {
		reclaim_done(nlm, job, !err && status == NLM_GRANTED);
	}
}

static void reclaim_next(struct nlm *nlm, struct job *job)
{
	const struct nfs3_fh *fh;
	const struct held_lock *held = locks_stale(&nlm->table, &fh);
	if (!held) {
		log_info("%s: locks on the server: %u are held again, %u are lost", nlm->args.source,
			 nlm->reclaimed, nlm->lost);
		nlm->reclaimer = NULL;
		finish(nlm, job, 0);
		return;
	}
	owner_use(job, owner_of(held->owner));
	job->fh = *fh;
	job->cred = job->owner->cred;
	job->piece.start = held->start;
	job->piece.end = held->end;
	job->piece.exclusive = held->exclusive;
	struct nlm_lock lock = lock_for(nlm, job, held->start, held->end, held->exclusive);
	call_lock(nlm, job, &lock, false, true, on_reclaimed);
}

void jobs_reconnected(struct nlm *nlm)
{
	struct job *job;
	TAILQ_FOREACH(job, &nlm->jobs, of_all)
		if (job->phase == JOB_PAUSE && job->blocked)
			job->due_ns = nlm->now_ns; /* the server may have forgotten it */
	if (!nlm->table.n)
		return;
	locks_make_stale(&nlm->table);
	nlm->reclaimed = nlm->lost = 0;
	if (nlm->reclaimer)
		return; /* it goes on, and finds them */
	job = calloc(1, sizeof *job);
	if (!job)
		return;			  /* the next connection tries again */
	job->what = NLM_WHAT_CLOSE_OWNER; /* not one of those that can be interrupted or granted */
	TAILQ_INSERT_TAIL(&nlm->jobs, job, of_all);
	nlm->reclaimer = job;
	reclaim_next(nlm, job);
}
