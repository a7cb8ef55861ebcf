/* SPDX-License-Identifier: MIT */
#include <sys/time.h> /* libnfs 4.0.0's header uses timeval without it */

#include <nfsc/libnfs-zdr.h>

#include <nfsc/libnfs-raw-nlm.h>

#include "locks.h"
#include "nlm_xdr.h"
#include "rpcmsg.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* What is called the owner's handle: text, as libnfs wants it and the kernel's client has it. */
#define OH_SIZE 96u
#define NAME_MAX_BYTES 1024u /* LM_MAXSTRLEN of those who send names to us */

static int put(uint8_t *msg, uint32_t xid, const struct cred *cred, enum nlm_proc proc, zdrproc_t encode,
	       void *args)
{
	struct xdr_writer w = xdr_writer(msg, NLM_CALL_MAX);
	rpcmsg_put_call(&w, xid, NLM_PROG, NLM_VERS, proc, cred);
	ZDR z;
	zdrmem_create(&z, (char *)w.pos, (uint32_t)(NLM_CALL_MAX - xdr_written(&w)), ZDR_ENCODE);
	if (w.stuck || !encode(&z, args))
		return -EMSGSIZE;
	return (int)(xdr_written(&w) + zdr_getpos(&z));
}

static nlm_cookie cookie_of(uint32_t *xid)
{
	nlm_cookie cookie = {.data = {.data_len = sizeof *xid, .data_val = (char *)xid}};
	return cookie;
}

static nlm4_lock lock_of(const struct nlm_lock *lock, char *oh)
{
	snprintf(oh, OH_SIZE, "%u@%s", lock->svid, lock->caller);
	nlm4_lock l = {
		.caller_name = (char *)(uintptr_t)lock->caller,
		.fh = {.data = {.data_len = lock->fh->len, .data_val = (char *)(uintptr_t)lock->fh->data}},
		.oh = oh,
		.svid = lock->svid,
		.l_offset = lock->start,
		.l_len = lock->end >= LOCKS_END ? 0 : lock->end - lock->start + 1};
	return l;
}

int nlm_put_test(uint8_t *msg, uint32_t xid, const struct cred *cred, const struct nlm_lock *lock)
{
	char oh[OH_SIZE];
	NLM4_TESTargs args = {
		.cookie = cookie_of(&xid), .exclusive = lock->exclusive, .lock = lock_of(lock, oh)};
	return put(msg, xid, cred, NLM_PROC_TEST, (zdrproc_t)zdr_NLM4_TESTargs, &args);
}

int nlm_put_lock(uint8_t *msg, uint32_t xid, const struct cred *cred, const struct nlm_lock *lock, bool block,
		 bool reclaim, int32_t state)
{
	char oh[OH_SIZE];
	NLM4_LOCKargs args = {.cookie = cookie_of(&xid),
			      .block = block,
			      .exclusive = lock->exclusive,
			      .lock = lock_of(lock, oh),
			      .reclaim = reclaim,
			      .state = state};
	return put(msg, xid, cred, NLM_PROC_LOCK, (zdrproc_t)zdr_NLM4_LOCKargs, &args);
}

int nlm_put_cancel(uint8_t *msg, uint32_t xid, const struct cred *cred, const struct nlm_lock *lock,
		   bool block)
{
	char oh[OH_SIZE];
	NLM4_CANCargs args = {.cookie = cookie_of(&xid),
			      .block = block,
			      .exclusive = lock->exclusive,
			      .lock = lock_of(lock, oh)};
	return put(msg, xid, cred, NLM_PROC_CANCEL, (zdrproc_t)zdr_NLM4_CANCargs, &args);
}

int nlm_put_unlock(uint8_t *msg, uint32_t xid, const struct cred *cred, const struct nlm_lock *lock)
{
	char oh[OH_SIZE];
	NLM4_UNLOCKargs args = {.cookie = cookie_of(&xid), .lock = lock_of(lock, oh)};
	return put(msg, xid, cred, NLM_PROC_UNLOCK, (zdrproc_t)zdr_NLM4_UNLOCKargs, &args);
}

int nlm_put_granted_res(uint8_t *msg, uint32_t xid, const struct cred *cred, const uint8_t *cookie,
			uint32_t cookie_bytes, uint32_t status)
{
	NLM4_GRANTEDres args = {
		.cookie = {.data = {.data_len = cookie_bytes, .data_val = (char *)(uintptr_t)cookie}},
		.status = (nlmstat4)status};
	return put(msg, xid, cred, NLM_PROC_GRANTED_RES, (zdrproc_t)zdr_NLM4_GRANTEDres, &args);
}

/* ---- what comes from the network ---- */

static void skip_opaque(struct xdr_reader *r, uint32_t max)
{
	uint32_t len;
	xdr_opaque(r, max, &len);
}

int nlm_get_status(struct xdr_reader *r, uint32_t *status)
{
	skip_opaque(r, NLM_COOKIE_MAX);
	*status = xdr_u32(r);
	return xdr_ok(r) ? 0 : -EBADMSG;
}

/* Offset and length to an inclusive range within what a file can have. */
static void get_range(struct xdr_reader *r, uint64_t *start, uint64_t *end)
{
	uint64_t offset = xdr_u64(r), len = xdr_u64(r);
	*start = offset < LOCKS_END ? offset : LOCKS_END;
	*end = len == 0 || len > LOCKS_END - *start ? LOCKS_END : *start + len - 1;
}

int nlm_get_test(struct xdr_reader *r, uint32_t *status, struct nlm_holder *holder)
{
	int err = nlm_get_status(r, status);
	if (err || *status != NLM_DENIED)
		return err;
	holder->exclusive = xdr_u32(r) != 0;
	holder->svid = xdr_u32(r);
	skip_opaque(r, NAME_MAX_BYTES);
	get_range(r, &holder->start, &holder->end);
	return xdr_ok(r) ? 0 : -EBADMSG;
}

int nlm_get_granted(struct xdr_reader *r, struct nlm_granted *granted)
{
	uint32_t len;
	const uint8_t *bytes = xdr_opaque(r, NLM_COOKIE_MAX, &granted->cookie_bytes);
	if (bytes)
		memcpy(granted->cookie, bytes, granted->cookie_bytes);
	granted->exclusive = xdr_u32(r) != 0;
	skip_opaque(r, NAME_MAX_BYTES);
	bytes = xdr_opaque(r, NFS3_FH_MAX, &len);
	granted->fh = (struct nfs3_fh){.len = len};
	if (bytes)
		memcpy(granted->fh.data, bytes, len);
	skip_opaque(r, NAME_MAX_BYTES);
	granted->svid = xdr_u32(r);
	get_range(r, &granted->start, &granted->end);
	return xdr_ok(r) ? 0 : -EBADMSG;
}

int nlm_get_notify(struct xdr_reader *r, struct nsm_notify *notify)
{
	skip_opaque(r, NAME_MAX_BYTES);
	notify->state = (int32_t)xdr_u32(r);
	const uint8_t *priv = xdr_bytes(r, NSM_PRIV_BYTES);
	if (!priv)
		return -EBADMSG;
	memcpy(notify->priv, priv, NSM_PRIV_BYTES);
	return 0;
}

int nlm_errno(uint32_t status)
{
	switch (status) {
	case NLM_GRANTED:
		return 0;
	case NLM_DENIED:
		return -EAGAIN;
	case NLM_DEADLCK:
		return -EDEADLK;
	case NLM_ROFS:
		return -EROFS;
	case NLM_STALE_FH:
		return -ESTALE;
	case NLM_FBIG:
		return -EOVERFLOW;
	default: /* NOLOCKS, FAILED, and what makes no sense where it came */
		return -ENOLCK;
	}
}
