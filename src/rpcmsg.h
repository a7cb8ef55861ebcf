/* SPDX-License-Identifier: MIT
 *
 * The head of an ONC RPC call (RFC 5531 section 9), for NFS over RDMA and for MOUNT and rpcbind over TCP
 * alike. Heads of replies are read by nfs3_reply_header(), which knows nothing of NFS.
 */
#ifndef RPCMSG_H
#define RPCMSG_H

#include "cred.h"
#include "xdr.h"

/*
 * XID, CALL, RPC version 2, program, version, procedure, AUTH_SYS credential, AUTH_NONE verifier. In one
 * piece, since it is on the hot path. The credential's body is XDR already: a multiple of four bytes.
 */
static inline void rpcmsg_put_call(struct xdr_writer *w, uint32_t xid, uint32_t program, uint32_t version,
				   uint32_t proc, const struct cred *cred)
{
	enum { CALL_MESSAGE = 0, RPC_VERSION = 2, FLAVOR_SYS = 1, VERIFIER_BYTES = 8 };
	const uint32_t head[] = {
		htobe32(xid),	  htobe32(CALL_MESSAGE), htobe32(RPC_VERSION), htobe32(program),
		htobe32(version), htobe32(proc),	 htobe32(FLAVOR_SYS),  htobe32(cred->body_len),
	};
	uint8_t *p = xdr_reserve(w, sizeof head + cred->body_len + VERIFIER_BYTES);
	if (!p)
		return;
	memcpy(p, head, sizeof head);
	memcpy(p + sizeof head, cred->body, cred->body_len);
	memset(p + sizeof head + cred->body_len, 0,
	       VERIFIER_BYTES); /* flavor AUTH_NONE is 0, and its length */
}

#endif
