/* SPDX-License-Identifier: MIT */
#include "server.h"
#include "rpc.h"

struct program {
	uint32_t number, version;
	bool (*serve)(struct call *call, const struct rpc_call *rpc, struct xdr_reader *args);
};

static const struct program programs[] = {
	{NFS_PROGRAM, NFS_V3, nfs3_serve},
	{NFSACL_PROGRAM, NFSACL_V3, nfsacl_serve},
	{MOUNT_PROGRAM, MOUNT_V3, mount3_serve},
};

static bool serve_program(struct call *call, struct rpc_call *rpc, struct xdr_reader *args)
{
	for (size_t i = 0; i < sizeof programs / sizeof *programs; i++) {
		const struct program *p = &programs[i];
		if (p->number != rpc->prog || (p->number == NFSACL_PROGRAM && call->srv->no_acl))
			continue;
		if (p->version != rpc->vers) {
			rpc_put_prog_mismatch(&call->head, rpc->xid, p->version, p->version);
			return true;
		}
		if (call->srv->root_squash)
			cred_squash_root(&rpc->cred);
		return p->serve(call, rpc, args);
	}
	rpc_put_accepted(&call->head, rpc->xid, RPC_PROG_UNAVAIL);
	return true;
}

bool serve_call(struct call *call)
{
	struct xdr_reader r = xdr_reader(call->msg, call->msg_len_bytes);
	struct rpc_call rpc;
	switch (rpc_decode_call(&r, &rpc)) {
	case RPC_CALL_NOT_A_CALL:
		return false;
	case RPC_CALL_VERSION_MISMATCH:
		rpc_put_version_mismatch(&call->head, rpc.xid);
		return true;
	case RPC_CALL_BAD_AUTH:
		rpc_put_auth_error(&call->head, rpc.xid, rpc.auth_stat);
		return true;
	case RPC_CALL_OK:
		break;
	}
	/* A reply that did not fit is none. */
	return serve_program(call, &rpc, &r) && !call->head.stuck;
}

bool call_waits_for_disk(const uint8_t *msg, uint32_t msg_len_bytes)
{
	struct xdr_reader r = xdr_reader(msg, msg_len_bytes);
	xdr_bytes(&r, 3 * 4); /* XID, message type, RPC version: serve_call() looks at them */
	uint32_t prog = xdr_u32(&r), vers = xdr_u32(&r), proc = xdr_u32(&r);
	return xdr_ok(&r) && prog == NFS_PROGRAM && vers == NFS_V3 && proc == NFS3_COMMIT;
}
