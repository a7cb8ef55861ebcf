/* SPDX-License-Identifier: MIT */
#include "rpc.h"

#define RPC_VERSION 2
#define MSG_CALL 0
#define MSG_REPLY 1
#define REPLY_ACCEPTED 0
#define REPLY_DENIED 1
#define DENIED_RPC_MISMATCH 0
#define DENIED_AUTH_ERROR 1
#define AUTH_NONE 0
#define AUTH_SYS 1
#define AUTH_BODY_MAX_BYTES 400
#define MACHINE_NAME_MAX_BYTES 255

/* RFC 5531 appendix A: authsys_parms. */
static bool get_auth_sys(const uint8_t *body, uint32_t len_bytes, struct cred *cred)
{
	struct xdr_reader r = xdr_reader(body, len_bytes);
	uint32_t name_len;
	xdr_u32(&r); /* stamp */
	xdr_opaque(&r, MACHINE_NAME_MAX_BYTES, &name_len);
	cred->uid = xdr_u32(&r);
	cred->gid = xdr_u32(&r);
	cred->groups_len = xdr_u32(&r);
	if (!xdr_ok(&r) || cred->groups_len > AUTH_SYS_GROUPS_MAX)
		return false;
	for (uint32_t i = 0; i < cred->groups_len; i++)
		cred->groups[i] = xdr_u32(&r);
	return xdr_ok(&r) && xdr_left(&r) == 0;
}

static enum rpc_auth_stat get_cred(struct xdr_reader *r, struct rpc_call *call)
{
	uint32_t len;
	uint32_t flavor = xdr_u32(r);
	const uint8_t *body = xdr_opaque(r, AUTH_BODY_MAX_BYTES, &len);
	if (!body)
		return RPC_AUTH_BADCRED;
	switch (flavor) {
	case AUTH_NONE:
		call->auth_none = true;
		call->cred = cred_nobody();
		return len == 0 ? RPC_AUTH_OK : RPC_AUTH_BADCRED;
	case AUTH_SYS:
		return get_auth_sys(body, len, &call->cred) ? RPC_AUTH_OK : RPC_AUTH_BADCRED;
	default:
		return RPC_AUTH_REJECTEDCRED;
	}
}

static enum rpc_auth_stat get_verf(struct xdr_reader *r)
{
	uint32_t len;
	uint32_t flavor = xdr_u32(r);
	const uint8_t *body = xdr_opaque(r, AUTH_BODY_MAX_BYTES, &len);
	return body && flavor == AUTH_NONE ? RPC_AUTH_OK : RPC_AUTH_BADVERF;
}

enum rpc_call_kind rpc_decode_call(struct xdr_reader *r, struct rpc_call *call)
{
	*call = (struct rpc_call){.xid = xdr_u32(r)};
	uint32_t msg_type = xdr_u32(r);
	uint32_t rpc_vers = xdr_u32(r);
	call->prog = xdr_u32(r);
	call->vers = xdr_u32(r);
	call->proc = xdr_u32(r);
	if (!xdr_ok(r) || msg_type != MSG_CALL)
		return RPC_CALL_NOT_A_CALL;
	if (rpc_vers != RPC_VERSION)
		return RPC_CALL_VERSION_MISMATCH;
	call->auth_stat = get_cred(r, call);
	if (call->auth_stat == RPC_AUTH_OK)
		call->auth_stat = get_verf(r);
	return call->auth_stat == RPC_AUTH_OK ? RPC_CALL_OK : RPC_CALL_BAD_AUTH;
}

void rpc_put_accepted(struct xdr_writer *w, uint32_t xid, enum rpc_accept_stat stat)
{
	xdr_put_u32(w, xid);
	xdr_put_u32(w, MSG_REPLY);
	xdr_put_u32(w, REPLY_ACCEPTED);
	xdr_put_u32(w, AUTH_NONE);
	xdr_put_u32(w, 0);
	xdr_put_u32(w, stat);
}

void rpc_put_prog_mismatch(struct xdr_writer *w, uint32_t xid, uint32_t low, uint32_t high)
{
	rpc_put_accepted(w, xid, RPC_PROG_MISMATCH);
	xdr_put_u32(w, low);
	xdr_put_u32(w, high);
}

static void put_denied(struct xdr_writer *w, uint32_t xid, uint32_t why)
{
	xdr_put_u32(w, xid);
	xdr_put_u32(w, MSG_REPLY);
	xdr_put_u32(w, REPLY_DENIED);
	xdr_put_u32(w, why);
}

void rpc_put_version_mismatch(struct xdr_writer *w, uint32_t xid)
{
	put_denied(w, xid, DENIED_RPC_MISMATCH);
	xdr_put_u32(w, RPC_VERSION);
	xdr_put_u32(w, RPC_VERSION);
}

void rpc_put_auth_error(struct xdr_writer *w, uint32_t xid, enum rpc_auth_stat stat)
{
	put_denied(w, xid, DENIED_AUTH_ERROR);
	xdr_put_u32(w, stat);
}
