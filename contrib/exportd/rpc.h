/* SPDX-License-Identifier: MIT
 *
 * ONC RPC version 2 (RFC 5531), the server's half: what a call's header says, and how a reply's begins. Pure.
 */
#ifndef EXPORTD_RPC_H
#define EXPORTD_RPC_H

#include "cred.h"
#include "xdr.h"

#define RPC_REPLY_HEAD_BYTES 24 /* xid, REPLY, MSG_ACCEPTED, verifier AUTH_NONE (8), SUCCESS */

enum rpc_accept_stat {
	RPC_SUCCESS,
	RPC_PROG_UNAVAIL,
	RPC_PROG_MISMATCH,
	RPC_PROC_UNAVAIL,
	RPC_GARBAGE_ARGS,
	RPC_SYSTEM_ERR,
};

enum rpc_auth_stat {
	RPC_AUTH_OK,
	RPC_AUTH_BADCRED,
	RPC_AUTH_REJECTEDCRED,
	RPC_AUTH_BADVERF,
	RPC_AUTH_REJECTEDVERF,
	RPC_AUTH_TOOWEAK,
};

enum rpc_call_kind {
	RPC_CALL_OK,
	RPC_CALL_NOT_A_CALL,	   /* too short, or a reply: no answer is possible */
	RPC_CALL_VERSION_MISMATCH, /* not RPC version 2 */
	RPC_CALL_BAD_AUTH,	   /* auth_stat says how */
};

struct rpc_call {
	uint32_t xid, prog, vers, proc;
	bool auth_none; /* no credential: the caller is nobody, and cred says so */
	struct cred cred;
	enum rpc_auth_stat auth_stat;
};

/* r stands at the arguments afterwards. xid is valid except for RPC_CALL_NOT_A_CALL. */
enum rpc_call_kind rpc_decode_call(struct xdr_reader *r, struct rpc_call *call);

void rpc_put_accepted(struct xdr_writer *w, uint32_t xid, enum rpc_accept_stat stat);
void rpc_put_prog_mismatch(struct xdr_writer *w, uint32_t xid, uint32_t low, uint32_t high);
void rpc_put_version_mismatch(struct xdr_writer *w, uint32_t xid);
void rpc_put_auth_error(struct xdr_writer *w, uint32_t xid, enum rpc_auth_stat stat);

#endif
