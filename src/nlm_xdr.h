/* SPDX-License-Identifier: MIT
 *
 * The messages of the network lock manager, NLM version 4 (RFC 1813 appendix II; the protocol itself is
 * X/Open's XNFS), and the two of the status monitor, NSM version 1, that a client meets.
 *
 * Calls are encoded by libnfs; what comes from the network, replies and the calls of the server's to us, is
 * decoded by xdr.h's reader. Everything that a decoder hands out by pointer lies in the message.
 */
#ifndef NLM_XDR_H
#define NLM_XDR_H

#include "cred.h"
#include "nfs3.h"
#include "xdr.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define NLM_PROG 100021u
#define NLM_VERS 4u
#define NSM_PROG 100024u
#define NSM_VERS 1u
#define NLM_COOKIE_MAX 64u /* bytes; servers of today send 4 to 16 */
#define NLM_CALL_MAX 1024u /* bytes of a call of ours: heads, a credential, three names and a handle */
#define NSM_PRIV_BYTES 16u

enum nlm_proc {
	NLM_PROC_NULL = 0,
	NLM_PROC_TEST = 1,
	NLM_PROC_LOCK = 2,
	NLM_PROC_CANCEL = 3,
	NLM_PROC_UNLOCK = 4,
	NLM_PROC_GRANTED = 5,
	NLM_PROC_GRANTED_MSG = 10, /* answered by a call of ours, GRANTED_RES */
	NLM_PROC_GRANTED_RES = 15,
	NLM_PROC_NSM_NOTIFY = 16, /* the local status monitor's word that a host has restarted */
};

enum nlm_status {
	NLM_GRANTED = 0,
	NLM_DENIED = 1,
	NLM_DENIED_NOLOCKS = 2,
	NLM_BLOCKED = 3,
	NLM_DENIED_GRACE = 4, /* the server has just restarted and takes reclaims only */
	NLM_DEADLCK = 5,
	NLM_ROFS = 6,
	NLM_STALE_FH = 7,
	NLM_FBIG = 8,
	NLM_FAILED = 9,
};

/* A lock as a call names it. caller: our host's name, by which the status monitors know us. end inclusive,
 * locks.h's LOCKS_END: to the end of the file. */
struct nlm_lock {
	const char *caller;
	const struct nfs3_fh *fh;
	uint32_t svid; /* whose it is: unique among the owners of this host */
	uint64_t start, end;
	bool exclusive;
};

/* Each writes a whole call, head included, into msg (NLM_CALL_MAX bytes) and returns its length in bytes, or
 * -EMSGSIZE. The cookie of a call is its XID. */
int nlm_put_test(uint8_t *msg, uint32_t xid, const struct cred *cred, const struct nlm_lock *lock);
/* state: the status monitor's number of this boot of ours. */
int nlm_put_lock(uint8_t *msg, uint32_t xid, const struct cred *cred, const struct nlm_lock *lock, bool block,
		 bool reclaim, int32_t state);
int nlm_put_cancel(uint8_t *msg, uint32_t xid, const struct cred *cred, const struct nlm_lock *lock,
		   bool block);
int nlm_put_unlock(uint8_t *msg, uint32_t xid, const struct cred *cred, const struct nlm_lock *lock);
int nlm_put_granted_res(uint8_t *msg, uint32_t xid, const struct cred *cred, const uint8_t *cookie,
			uint32_t cookie_bytes, uint32_t status);

/* Results, r standing behind the RPC header. 0 or -EBADMSG. *status may be any number. */
int nlm_get_status(struct xdr_reader *r, uint32_t *status);

struct nlm_holder { /* who is in the way, when TEST says NLM_DENIED */
	bool exclusive;
	uint32_t svid;
	uint64_t start, end; /* 0 <= start <= end <= LOCKS_END, whatever the server said */
};
int nlm_get_test(struct xdr_reader *r, uint32_t *status, struct nlm_holder *holder);

/* Calls to us. */
struct nlm_granted {
	uint8_t cookie[NLM_COOKIE_MAX];
	uint32_t cookie_bytes;
	bool exclusive;
	struct nfs3_fh fh;
	uint32_t svid;
	uint64_t start, end;
};
int nlm_get_granted(struct xdr_reader *r, struct nlm_granted *granted);

struct nsm_notify {
	int32_t state;
	uint8_t priv[NSM_PRIV_BYTES]; /* what we gave it with SM_MON: nobody else knows it */
};
int nlm_get_notify(struct xdr_reader *r, struct nsm_notify *notify);

/* What a status means to fcntl(2), for all that end a call: as the kernel's client has it. */
int nlm_errno(uint32_t status);

#endif
