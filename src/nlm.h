/* SPDX-License-Identifier: MIT
 *
 * The lock manager's client: locks on the server by NLM version 4 over TCP, on a thread of its own. A lane
 * asks, goes on with other things, and is told; it never waits for a lock.
 *
 * Normal operation. TEST, LOCK, UNLOCK. A LOCK that may wait and finds the range taken is BLOCKED: the server
 * calls back when it is granted (nlm_svc.h), and it is asked again in case that is lost: after 1 s, 2 s, …
 * each 30 s. Whoever stops waiting (a signal) has his LOCK cancelled, and then the range is put back to what
 * he held: a grant that crosses the CANCEL leaves no lock behind, and the wait has always ended with -EINTR.
 *
 * The callback. Servers find our service by rpcbind on this machine, where there can be one for the program.
 * When there is another (the kernel's, or another mount), its grants come too late to us, not never: we ask
 * again each second instead, and look at it again whenever somebody waits.
 *
 * Recovery. Locks die with the server that has granted them. After each new connection, be it that the status
 * monitor told of a restart or that the old connection just ended, all that are held are reclaimed; if the
 * server is not (or no longer) in its grace period they are asked for as if anew. What is lost is logged, and
 * I/O goes on, as it does with the kernel's client. Calls are sent again until they are answered; on a soft
 * mount they fail in the end.
 *
 * Who is who at the server: our host's name and a number (svid) of each owner. Others on this machine may
 * have locks there too, so ours are random and high; the kernel's are small.
 */
#ifndef NLM_H
#define NLM_H

#include "cred.h"
#include "nfs3.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>

struct nlm;

#define NLM_ERR_SIZE 1024

struct nlm_args {	     /* lent for nlm_start() but for the texts, which must last */
	const char *server;  /* its name, as the mount has it */
	const char *source;  /* for messages */
	const char *machine; /* our host's name, which the status monitors know */
	struct sockaddr_storage addr;
	socklen_t addrlen;
	struct cred cred; /* of the daemon: for rpcbind and the status monitor, and for answers */
	bool resvport;
	uint64_t give_up_ns; /* how long a call is tried on a soft mount; 0: hard */
	int give_up_err;     /* -EIO or -ETIMEDOUT */
};

/* Everything that must be there: rpcbind and the status monitor on this machine, the lock manager on the
 * server. -errno with a line for people that says what to do. *note: NULL, or what is worth saying. */
int nlm_start(const struct nlm_args *args, struct nlm **nlm, const char **note, char *err);
/* When no lane asks any more. Waits a little for unlocks that are under way. NULL is fine. */
void nlm_stop(struct nlm *nlm);

enum nlm_what {
	NLM_WHAT_TEST,
	NLM_WHAT_LOCK,
	NLM_WHAT_UNLOCK,
	NLM_WHAT_CLOSE_OWNER, /* close(2) of any descriptor: all locks of the owner on the file */
	NLM_WHAT_CLOSE_OPEN,  /* the open file is gone: all locks that were taken through it */
};

struct nlm_conflict { /* TEST's answer */
	bool any;
	bool exclusive;
	uint64_t start, end; /* locks.h */
	pid_t pid;	     /* 0: not on this machine, or not known */
};

/* Called once, on the lock manager's thread. err: 0 or -errno for the caller of fcntl(2). */
typedef void nlm_done_fn(void *ctx, int err, const struct nlm_conflict *conflict);

struct nlm_request { /* lent for the call */
	enum nlm_what what;
	const struct nfs3_fh *fh;
	const struct cred *cred;
	uint64_t owner; /* as FUSE has it */
	uint64_t open;	/* number of the open file */
	pid_t pid;	/* of the owner, to be told to those who ask */
	uint64_t start, end;
	bool exclusive;
	bool wait;
	nlm_done_fn *done; /* NULL: nobody waits */
	void *ctx;
};

/* From any thread. Requests of one thread are taken in their order. -ENOLCK: out of memory; done is not
 * called then. *id is for nlm_interrupt(). */
int nlm_submit(struct nlm *nlm, const struct nlm_request *request, uint64_t *id);
/* From any thread: whoever waits for that LOCK no longer wants it. Nothing happens if it has been answered.
 */
void nlm_interrupt(struct nlm *nlm, uint64_t id);

#endif
