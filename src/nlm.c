/* SPDX-License-Identifier: MIT
 *
 * The thread of the lock manager's client. A turn: mail -> connect if there is something to say, or locks to
 * watch over -> what is due -> send -> sleep -> replies, callbacks.
 *
 * Calls wait in one list, in their order, until they are answered. When a connection ends all of them are
 * sent again over the next one, with their old XIDs.
 */
#include "nlm.h"
#include "log.h"
#include "nlm_priv.h"
#include "nsm.h"
#include "rpcbind.h"
#include "rpccall.h"
#include "xdr.h"

#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#define ANSWER_NS (10 * SECOND_NS) /* a call without an answer for so long has lost its connection */
#define PAUSE_FIRST_NS SECOND_NS   /* until the next attempt to connect, doubling to … */
#define PAUSE_MAX_NS (10 * SECOND_NS)
#define STOP_NS (10 * SECOND_NS) /* for unlocks under way at the end */
#define REGISTER_NS (30 * SECOND_NS)
#define ALIVE_MS 2000

static uint64_t clock_ns(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * SECOND_NS + (uint64_t)t.tv_nsec;
}

/* ---- calls ---- */

uint32_t nlm_xid(struct nlm *nlm)
{
	return nlm->next_xid++;
}

void nlm_call(struct nlm *nlm, struct job *job, int len, job_reply_fn *on_reply)
{
	job->on_reply = on_reply;
	job->msg_bytes = len > 0 ? (size_t)len : 0; /* names and handles are bounded: it always fits */
	job->sent = false;
	job->give_up_ns = nlm->args.give_up_ns ? nlm->now_ns + nlm->args.give_up_ns : UINT64_MAX;
	job->phase = JOB_CALL;
	TAILQ_INSERT_TAIL(&nlm->calls, job, of_calls);
}

static void call_ends(struct nlm *nlm, struct job *job, int err, struct xdr_reader *r)
{
	TAILQ_REMOVE(&nlm->calls, job, of_calls);
	job->phase = JOB_IDLE;
	job->on_reply(nlm, job, err, r);
}

void nlm_pause(struct nlm *nlm, struct job *job, uint64_t pause_ns, job_fn *on_due)
{
	job->phase = JOB_PAUSE;
	job->due_ns = nlm->now_ns + pause_ns;
	job->on_due = on_due;
}

void nlm_say(struct nlm *nlm, const uint8_t *msg, int len)
{
	if (len > 0 && nlm_conn_has_room(&nlm->conn))
		nlm_conn_put(&nlm->conn, msg, (size_t)len);
}

static void on_record(void *ctx, const uint8_t *reply, size_t len)
{
	struct nlm *nlm = ctx;
	struct xdr_reader r = xdr_reader(reply, len), head = r;
	uint32_t xid = xdr_u32(&head);
	struct job *job;
	TAILQ_FOREACH(job, &nlm->calls, of_calls)
		if (job->sent && job->xid == xid)
			break;
	if (!job || !xdr_ok(&head))
		return; /* to what nobody awaits */
	int err = nfs3_reply_header(&r);
	call_ends(nlm, job, !err ? 0 : err == -EBADMSG || err == -EIO ? -EIO : -ENOLCK, &r);
}

static void send_calls(struct nlm *nlm)
{
	struct job *job;
	TAILQ_FOREACH(job, &nlm->calls, of_calls) {
		if (job->sent)
			continue;
		if (!nlm_conn_has_room(&nlm->conn))
			break;
		nlm_conn_put(&nlm->conn, job->msg, job->msg_bytes);
		job->sent = true;
		job->sent_ns = nlm->now_ns;
	}
}

/* ---- the connection ---- */

void nlm_disconnect(struct nlm *nlm)
{
	struct job *job;
	nlm_conn_close(&nlm->conn);
	TAILQ_FOREACH(job, &nlm->calls, of_calls)
		job->sent = false;
	nlm->retry_ns = nlm->now_ns;
	nlm->pause_ns = PAUSE_FIRST_NS;
}

static void lost(struct nlm *nlm, const char *why)
{
	log_debug(LOG_LOCKS, "%s: the connection to the server's lock manager has ended: %s",
		  nlm->args.source, why);
	nlm_disconnect(nlm);
}

static void cannot_connect(struct nlm *nlm, int err)
{
	if (!nlm->told_away)
		log_warning("%s: the server's lock manager cannot be reached (%s), trying again",
			    nlm->args.source,
			    err == -ENOENT ? "its rpcbind does not know one" : strerror(-err));
	nlm->told_away = true;
	nlm->retry_ns = nlm->now_ns + nlm->pause_ns;
	nlm->pause_ns = nlm->pause_ns < PAUSE_MAX_NS / 2 ? 2 * nlm->pause_ns : PAUSE_MAX_NS;
}

static bool wants_connection(const struct nlm *nlm)
{
	return nlm->conn.fd < 0 && (!TAILQ_EMPTY(&nlm->calls) || nlm->table.n);
}

static void connect_if_wanted(struct nlm *nlm)
{
	if (!wants_connection(nlm) || nlm->now_ns < nlm->retry_ns)
		return;
	int err = nlm_conn_open(&nlm->conn, &nlm->args.addr, nlm->args.addrlen, &nlm->args.cred,
				nlm->args.resvport);
	nlm->now_ns = clock_ns();
	if (err) {
		cannot_connect(nlm, err);
		return;
	}
	if (nlm->told_away)
		log_info("%s: connected to the server's lock manager again", nlm->args.source);
	nlm->told_away = false;
	nlm->pause_ns = PAUSE_FIRST_NS;
	if (nlm->was_connected)
		jobs_reconnected(nlm);
	nlm->was_connected = true;
}

/* ---- time ---- */

/* The first job whose time has come, or NULL. Its step may free it and others, so the search starts afresh.
 */
static struct job *due_job(const struct nlm *nlm)
{
	struct job *job;
	TAILQ_FOREACH(job, &nlm->jobs, of_all) {
		if (job->phase == JOB_PAUSE && job->due_ns <= nlm->now_ns)
			return job;
		if (job->phase == JOB_CALL && job->give_up_ns <= nlm->now_ns)
			return job;
	}
	return NULL;
}

static void run_timers(struct nlm *nlm)
{
	struct job *job;
	while ((job = due_job(nlm))) {
		if (job->phase == JOB_CALL) {
			call_ends(nlm, job, nlm->args.give_up_err, NULL);
		} else {
			job->phase = JOB_IDLE;
			job->on_due(nlm, job);
		}
	}
	job = TAILQ_FIRST(&nlm->calls);
	if (job && job->sent && nlm->now_ns - job->sent_ns >= ANSWER_NS)
		lost(nlm, "no answer");
}

static void sooner(uint64_t *next, uint64_t due_ns)
{
	if (due_ns < *next)
		*next = due_ns;
}

static int sleep_ms(const struct nlm *nlm)
{
	uint64_t next = UINT64_MAX;
	struct job *job;
	TAILQ_FOREACH(job, &nlm->jobs, of_all) {
		if (job->phase == JOB_PAUSE)
			sooner(&next, job->due_ns);
		if (job->phase == JOB_CALL)
			sooner(&next, job->give_up_ns);
	}
	job = TAILQ_FIRST(&nlm->calls);
	if (job && job->sent)
		sooner(&next, job->sent_ns + ANSWER_NS);
	if (wants_connection(nlm))
		sooner(&next, nlm->retry_ns);
	if (nlm->stop_ns)
		sooner(&next, nlm->stop_ns);
	if (next == UINT64_MAX)
		return -1;
	uint64_t ms = next <= nlm->now_ns ? 0 : (next - nlm->now_ns + 999999) / 1000000;
	return ms > 3600000 ? 3600000 : (int)ms;
}

/* ---- the thread ---- */

static void take_mail(struct nlm *nlm)
{
	struct job_list mail = TAILQ_HEAD_INITIALIZER(mail);
	struct job *job;
	pthread_mutex_lock(&nlm->lock);
	TAILQ_CONCAT(&mail, &nlm->mail, of_all);
	bool stop = nlm->stop;
	pthread_mutex_unlock(&nlm->lock);
	while ((job = TAILQ_FIRST(&mail))) {
		TAILQ_REMOVE(&mail, job, of_all);
		if (!job->is_interrupt) {
			jobs_begin(nlm, job);
			continue;
		}
		jobs_interrupt(nlm, job->id);
		free(job);
	}
	if (stop && !nlm->stop_ns) {
		nlm->stop_ns = nlm->now_ns + STOP_NS;
		jobs_unlock_all(nlm);
	}
}

static bool finished(const struct nlm *nlm)
{
	return nlm->stop_ns && (TAILQ_EMPTY(&nlm->jobs) || nlm->now_ns >= nlm->stop_ns);
}

static void sleep_and_receive(struct nlm *nlm)
{
	struct pollfd fds[2 + NLM_SVC_FDS] = {
		{.fd = nlm->wake_fd, .events = POLLIN},
		{.fd = nlm->conn.fd, .events = nlm_conn_events(&nlm->conn)},
	};
	nlm_svc_poll(nlm->svc, fds + 2);
	if (poll(fds, 2 + NLM_SVC_FDS, sleep_ms(nlm)) <= 0)
		return;
	nlm->now_ns = clock_ns();
	if (fds[0].revents) {
		uint64_t count;
		ssize_t n = read(nlm->wake_fd, &count, sizeof count);
		(void)n;
	}
	int err = fds[1].revents ? nlm_conn_receive(&nlm->conn, on_record, nlm) : 0;
	if (err)
		lost(nlm, strerror(-err));
	nlm_svc_serve(nlm->svc, fds + 2);
}

static void *nlm_thread(void *arg)
{
	struct nlm *nlm = arg;
	for (;;) {
		nlm->now_ns = clock_ns();
		take_mail(nlm);
		if (finished(nlm))
			return NULL;
		connect_if_wanted(nlm);
		run_timers(nlm);
		if (nlm->conn.fd >= 0) {
			send_calls(nlm);
			int err = nlm_conn_send(&nlm->conn);
			if (err)
				lost(nlm, strerror(-err));
		}
		sleep_and_receive(nlm);
	}
}

/* ---- what lanes call ---- */

static void wake(struct nlm *nlm)
{
	uint64_t one = 1;
	ssize_t n = write(nlm->wake_fd, &one, sizeof one); /* EAGAIN: it is awake already */
	(void)n;
}

static void post(struct nlm *nlm, struct job *job)
{
	pthread_mutex_lock(&nlm->lock);
	TAILQ_INSERT_TAIL(&nlm->mail, job, of_all);
	pthread_mutex_unlock(&nlm->lock);
	wake(nlm);
}

int nlm_submit(struct nlm *nlm, const struct nlm_request *q, uint64_t *id)
{
	struct job *job = calloc(1, sizeof *job);
	if (!job)
		return -ENOLCK;
	job->what = q->what;
	job->fh = *q->fh;
	job->cred = *q->cred;
	job->owner_id = q->owner;
	job->open = q->open;
	job->pid = q->pid;
	job->start = q->start;
	job->end = q->end;
	job->exclusive = q->exclusive;
	job->wait = q->wait;
	job->done = q->done;
	job->ctx = q->ctx;
	pthread_mutex_lock(&nlm->lock);
	job->id = ++nlm->last_id;
	pthread_mutex_unlock(&nlm->lock);
	*id = job->id;
	post(nlm, job);
	return 0;
}

void nlm_interrupt(struct nlm *nlm, uint64_t id)
{
	struct job *job = calloc(1, sizeof *job);
	if (!job)
		return; /* he waits on; the next signal may do better */
	job->is_interrupt = true;
	job->id = id;
	post(nlm, job);
}

/* ---- rpcbind on this machine ---- */

static const char *const netids[] = {"tcp", "udp", "tcp6", "udp6"};

static bool is_ipv6(const struct nlm *nlm)
{
	return nlm->args.addr.ss_family == AF_INET6;
}

static void unregister(const struct nlm *nlm)
{
	for (unsigned int i = 0; i < (is_ipv6(nlm) ? 4u : 2u); i++)
		rpcbind_unset(&nlm->args.cred, NLM_PROG, NLM_VERS, netids[i]);
}

static uint32_t put_nothing(void *zdr, void *args)
{
	(void)zdr, (void)args;
	return 1;
}

/* Does the one answer that is registered? Of a mount that was killed the entry stays. */
static bool is_alive(const struct nlm *nlm, uint16_t port)
{
	struct rpctcp to = nsm_local_rpcbind();
	struct rpccall call;
	struct xdr_reader r;
	uint8_t reply[256];
	to.timeout_ms = ALIVE_MS;
	sockaddr_set_port(&to.addr, port);
	int err =
		rpccall_encode(&call, &nlm->args.cred, NLM_PROG, NLM_VERS, NLM_PROC_NULL, put_nothing, NULL);
	if (!err)
		err = rpccall_exchange(&to, &call, reply, sizeof reply, &r, NULL);
	return err != -ECONNREFUSED;
}

/* Who is registered: 0 with his port, 0 if nobody. -errno: rpcbind does not answer. */
static int registered_port(const struct nlm *nlm, uint16_t *port)
{
	struct rpctcp local = nsm_local_rpcbind();
	int err = rpcbind_ask(&local, &nlm->args.cred, NLM_PROG, NLM_VERS, port);
	if (err == -ENOENT)
		*port = 0;
	return err == -ENOENT ? 0 : err;
}

static int set_all(struct nlm *nlm)
{
	for (unsigned int i = 0; i < (is_ipv6(nlm) ? 4u : 2u); i++) {
		uint16_t port = i & 1 ? nlm_svc_udp_port(nlm->svc) : nlm_svc_tcp_port(nlm->svc);
		int err = rpcbind_set(&nlm->args.cred, NLM_PROG, NLM_VERS, netids[i], port);
		if (err)
			return err;
	}
	return 0;
}

/* 0, -EADDRINUSE: another is registered, and lives; or -errno. */
static int try_register(struct nlm *nlm)
{
	uint16_t port;
	int err = registered_port(nlm, &port);
	nlm->registered = !err && port == nlm_svc_tcp_port(nlm->svc);
	if (err || nlm->registered)
		return err;
	if (port && is_alive(nlm, port))
		return -EADDRINUSE;
	unregister(nlm); /* what is left of one that has died */
	err = set_all(nlm);
	if (err)
		unregister(nlm);
	nlm->registered = !err;
	return err;
}

void nlm_register_again(struct nlm *nlm)
{
	bool before = nlm->registered;
	if (nlm->now_ns < nlm->register_ns)
		return;
	try_register(nlm);
	if (nlm->registered != before)
		log_info("%s: %s with rpcbind: locks that are waited for are %s from now on",
			 nlm->args.source, before ? "another lock manager has taken our place" : "registered",
			 before ? "asked for each second" : "granted by callback");
	nlm->now_ns = clock_ns();
	nlm->register_ns = nlm->now_ns + REGISTER_NS;
}

/* ---- start and stop ---- */

static int fail(char *err, int error, const char *what, const char *cure)
{
	snprintf(err, NLM_ERR_SIZE, "option lock: %s: %s, or use nolock to keep locks local", what, cure);
	log_one_line(err);
	return error;
}

static int fail_register(int error, char *err)
{
	if (error == -ECONNREFUSED || error == -ENOENT)
		return fail(err, error, "rpcbind is not running on this machine",
			    "start it (systemctl start rpcbind)");
	if (error == -EPERM)
		return fail(err, error, "rpcbind does not let us register program 100021",
			    "mount as root, and see rpcinfo -p for who has it");
	char what[128];
	snprintf(what, sizeof what, "rpcbind on this machine: %s", strerror(-error));
	return fail(err, error, what, "look at it");
}

static int begin_service(struct nlm *nlm, const char **note, char *err)
{
	int error = nlm_svc_open(&nlm->args.addr, &jobs_svc_calls, nlm, &nlm->svc);
	if (error)
		return fail(err, error, "cannot listen for the server's callbacks", strerror(-error));
	error = try_register(nlm);
	if (error == -EADDRINUSE) {
		*note = "note: another lock manager (the kernel's, or another mount's) is registered with "
			"rpcbind on "
			"this machine: a lock that is waited for is granted up to a second late";
		return 0;
	}
	return error ? fail_register(error, err) : 0;
}

static int begin_monitor(struct nlm *nlm, char *err)
{
	char what[300];
	if (getrandom(nlm->priv, sizeof nlm->priv, 0) != sizeof nlm->priv)
		return fail(err, -EIO, "no random numbers", "wait a little");
	int error = nsm_monitor(&nlm->args.cred, nlm->args.server, nlm->priv, &nlm->our_state);
	nlm->monitored = !error;
	if (!error)
		return 0;
	if (error == -ENOENT || error == -ECONNREFUSED)
		return fail(err, error, "rpc.statd is not running on this machine, and locks need it",
			    "start it (systemctl start rpc-statd)");
	snprintf(what, sizeof what, "rpc.statd does not watch %.200s (%s)", nlm->args.server,
		 error == -EACCES ? "it refuses" : strerror(-error));
	return fail(err, error, what, "its log may say why; the name must be one that it can look up");
}

static int begin_connection(struct nlm *nlm, char *err)
{
	char what[300];
	int error = nlm_conn_open(&nlm->conn, &nlm->args.addr, nlm->args.addrlen, &nlm->args.cred,
				  nlm->args.resvport);
	nlm->was_connected = !error;
	if (!error)
		return 0;
	snprintf(what, sizeof what, "server %.200s: %s", nlm->args.server,
		 error == -ENOENT	  ? "its rpcbind knows no lock manager (NLM version 4)"
		 : error == -ECONNREFUSED ? "no rpcbind there, or its lock manager is down"
					  : strerror(-error));
	return fail(err, error, what, "start it there");
}

static int start_thread(struct nlm *nlm, char *err)
{
	sigset_t all, old;
	sigfillset(&all); /* signals are main's */
	pthread_sigmask(SIG_SETMASK, &all, &old);
	int error = -pthread_create(&nlm->thread, NULL, nlm_thread, nlm);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	nlm->started = !error;
	return error ? fail(err, error, "cannot start a thread", strerror(-error)) : 0;
}

int nlm_start(const struct nlm_args *args, struct nlm **out, const char **note, char *err)
{
	struct nlm *nlm = calloc(1, sizeof *nlm);
	*note = NULL;
	if (!nlm)
		return fail(err, -ENOMEM, "out of memory", "free some");
	nlm->args = *args;
	nlm->conn.fd = -1;
	nlm->pause_ns = PAUSE_FIRST_NS;
	nlm->now_ns = clock_ns();
	TAILQ_INIT(&nlm->mail);
	TAILQ_INIT(&nlm->jobs);
	TAILQ_INIT(&nlm->calls);
	LIST_INIT(&nlm->owners);
	pthread_mutex_init(&nlm->lock, NULL);
	if (getrandom(&nlm->next_xid, sizeof nlm->next_xid, GRND_NONBLOCK) < 0)
		nlm->next_xid = (uint32_t)nlm->now_ns;
	nlm->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	int error = nlm->wake_fd < 0 ? fail(err, -errno, "cannot start", strerror(errno)) : 0;
	if (!error)
		error = begin_service(nlm, note, err);
	if (!error)
		error = begin_monitor(nlm, err);
	if (!error)
		error = begin_connection(nlm, err);
	if (!error)
		error = start_thread(nlm, err);
	if (error) {
		nlm_stop(nlm);
		return error;
	}
	*out = nlm;
	return 0;
}

static void free_all(struct nlm *nlm)
{
	struct job *job;
	struct owner *owner;
	while ((job = TAILQ_FIRST(&nlm->jobs))) {
		TAILQ_REMOVE(&nlm->jobs, job, of_all);
		free(job);
	}
	locks_fini(&nlm->table);
	while ((owner = LIST_FIRST(&nlm->owners))) {
		LIST_REMOVE(owner, of_all);
		free(owner);
	}
}

void nlm_stop(struct nlm *nlm)
{
	uint16_t port;
	if (!nlm)
		return;
	if (nlm->started) {
		pthread_mutex_lock(&nlm->lock);
		nlm->stop = true;
		pthread_mutex_unlock(&nlm->lock);
		wake(nlm);
		pthread_join(nlm->thread, NULL);
	}
	if (nlm->registered && registered_port(nlm, &port) == 0 && port == nlm_svc_tcp_port(nlm->svc))
		unregister(nlm);
	if (nlm->monitored)
		nsm_unmonitor(&nlm->args.cred, nlm->args.server);
	nlm_svc_close(nlm->svc);
	nlm_conn_close(&nlm->conn);
	if (nlm->wake_fd >= 0)
		close(nlm->wake_fd);
	free_all(nlm);
	pthread_mutex_destroy(&nlm->lock);
	free(nlm);
}
