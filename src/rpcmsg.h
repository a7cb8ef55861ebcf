/* SPDX-License-Identifier: MIT
 *
 * The head of an ONC RPC call (RFC 5531 section 9), for NFS over RDMA and for MOUNT and rpcbind over TCP
 * alike. Heads of replies are read by nfs3_reply_header(), which knows nothing of NFS.
 */
#ifndef RPCMSG_H
#define RPCMSG_H

#include "cred.h"
#include "xdr.h"

/* XID, CALL, RPC version 2, program, version, procedure, AUTH_SYS credential, AUTH_NONE verifier. */
static inline void rpcmsg_put_call(struct xdr_writer *w, uint32_t xid, uint32_t program, uint32_t version,
				   uint32_t proc, const struct cred *cred)
{
	enum { CALL_MESSAGE = 0, RPC_VERSION = 2, FLAVOR_NONE = 0, FLAVOR_SYS = 1 };
	xdr_put_u32(w, xid);
	xdr_put_u32(w, CALL_MESSAGE);
	xdr_put_u32(w, RPC_VERSION);
	xdr_put_u32(w, program);
	xdr_put_u32(w, version);
	xdr_put_u32(w, proc);
	xdr_put_u32(w, FLAVOR_SYS);
	xdr_put_opaque(w, cred->body, cred->body_len);
	xdr_put_u32(w, FLAVOR_NONE);
	xdr_put_u32(w, 0);
}

#endif
