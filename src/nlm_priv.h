/* SPDX-License-Identifier: MIT
 *
 * The inside of the lock manager's client: nlm.c (the thread, the connection, calls under way, rpcbind) and
 * nlm_jobs.c (what a request does, step by step; grants; reclaim). Everything here is the thread's own, but
 * for the mailbox.
 */
#ifndef NLM_PRIV_H
#define NLM_PRIV_H

#include "locks.h"
#include "nlm.h"
#include "nlm_conn.h"
#include "nlm_svc.h"
#include "nlm_xdr.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#define SECOND_NS 1000000000ull

/* An owner of locks, while he holds some or has a job. */
struct owner {
	LIST_ENTRY(owner) of_all;
	uint64_t id;   /* FUSE's */
	uint32_t svid; /* the server's */
	pid_t pid;
	struct cred cred;   /* the first that he came with */
	unsigned int njobs; /* under way */
	struct lock_owner locks;
};

enum job_phase {
	JOB_IDLE,  /* its code runs */
	JOB_CALL,  /* a call of it waits to be sent, or for its reply */
	JOB_PAUSE, /* until due_ns, or for a grant */
};

struct job;
/* err: 0 with r at the result, or -errno: the server does not serve it, or (soft mount) does not answer. */
typedef void job_reply_fn(struct nlm *nlm, struct job *job, int err, struct xdr_reader *r);
typedef void job_fn(struct nlm *nlm, struct job *job);

/* A request that is being done, or a reclaim. One call at a time. */
struct job {
	TAILQ_ENTRY(job) of_all;
	TAILQ_ENTRY(job) of_calls; /* JOB_CALL */
	uint64_t id;
	bool is_interrupt; /* only a message: `id` is no longer wanted */

	/* The request, copied. */
	enum nlm_what what;
	struct nfs3_fh fh;
	struct cred cred;
	uint64_t owner_id, open, start, end;
	pid_t pid;
	bool exclusive, wait;
	nlm_done_fn *done; /* NULL: nobody waits (any more) */
	void *ctx;

	struct owner *owner; /* counted; NULL: none */
	bool blocked;	     /* the server has it in its list of those who wait, as far as we know */
	bool granted;	     /* and has called back, while a call of ours was under way */
	uint64_t poll_ns;    /* so long it has waited for the grant before it asks again; 0: not yet */
	bool unwanted;	     /* interrupted */
	int error;	     /* what a LOCK that failed ends with, when its range has been put back */
	uint64_t at;	     /* so far that has been done */
	struct {	     /* the lock that is being put back, or reclaimed */
		uint64_t start, end;
		bool exclusive;
	} piece;

	enum job_phase phase;
	uint64_t due_ns; /* JOB_PAUSE */
	job_fn *on_due;
	job_reply_fn *on_reply; /* JOB_CALL */
	uint32_t xid;
	bool sent;	     /* over the present connection */
	uint64_t sent_ns;    /* then */
	uint64_t give_up_ns; /* UINT64_MAX: never */
	size_t msg_bytes;
	uint8_t msg[NLM_CALL_MAX];
};
TAILQ_HEAD(job_list, job);

struct nlm {
	struct nlm_args args;
	pthread_t thread;
	bool started;
	int wake_fd; /* eventfd: there is mail */

	pthread_mutex_t lock; /* covers what follows; no other is taken under it */
	struct job_list mail;
	uint64_t last_id;
	bool stop;

	/* The thread's. */
	uint64_t now_ns;
	uint64_t stop_ns; /* when it ends at the latest; 0: not stopping */
	struct job_list jobs, calls;
	LIST_HEAD(, owner) owners;
	struct lock_table table;
	struct job *reclaimer; /* NULL: nothing is being reclaimed */
	unsigned int reclaimed, lost;

	struct nlm_conn conn;
	bool was_connected; /* once */
	bool told_away;	    /* the log has its line */
	uint64_t retry_ns;  /* not before then */
	uint64_t pause_ns;
	uint32_t next_xid;

	struct nlm_svc *svc;
	bool registered;
	uint64_t register_ns; /* not tried again before then */
	bool monitored;
	uint8_t priv[NSM_PRIV_BYTES];
	int32_t our_state;    /* for LOCK calls */
	int32_t server_state; /* as last told; 0: not yet */
};

/* ---- nlm.c ---- */
/* Queues the call that job->msg holds (len: what the encoder said), under job->xid. */
void nlm_call(struct nlm *nlm, struct job *job, int len, job_reply_fn *on_reply);
/* The next job->xid. */
uint32_t nlm_xid(struct nlm *nlm);
void nlm_pause(struct nlm *nlm, struct job *job, uint64_t pause_ns, job_fn *on_due);
void nlm_disconnect(struct nlm *nlm);
/* Sends a call of which nobody awaits the reply, if there is a connection. */
void nlm_say(struct nlm *nlm, const uint8_t *msg, int len);
/* Looks whether we are (still) the lock manager that rpcbind on this machine names, and tries to become it,
 * if some time has gone since the last look. */
void nlm_register_again(struct nlm *nlm);

/* ---- nlm_jobs.c ---- */
void jobs_begin(struct nlm *nlm, struct job *job);
void jobs_interrupt(struct nlm *nlm, uint64_t id);
/* There is a new connection, and there was one before. */
void jobs_reconnected(struct nlm *nlm);
/* Unlocks all that is still held. */
void jobs_unlock_all(struct nlm *nlm);
extern const struct nlm_svc_calls jobs_svc_calls; /* ctx: struct nlm */

#endif
