/* SPDX-License-Identifier: MIT
 *
 * One call of a program beside NFS (MOUNT, rpcbind, the lock manager, the status monitor): its message, with
 * the arguments by a libnfs encoder, and for those who may block, the whole exchange. Results are read by
 * xdr.h's reader, never by libnfs.
 */
#ifndef RPCCALL_H
#define RPCCALL_H

#include "cred.h"
#include "rpctcp.h"
#include "xdr.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct rpccall {
	uint32_t words[RPCTCP_CALL_MAX / 4];
	size_t len_bytes;
};

/* put: a libnfs zdrproc_t, whose header only its users see. The XID is random. -EMSGSIZE: too long. */
typedef uint32_t rpccall_put_fn(void *zdr, void *args);
int rpccall_encode(struct rpccall *call, const struct cred *cred, uint32_t program, uint32_t version,
		   uint32_t proc, rpccall_put_fn *put, void *args);

/* Sends it over a connection of its own; on 0 *r stands at the result, in reply. Errors of rpctcp_call() and
 * nfs3_reply_header(). reserved: as rpctcp_call() has it. */
int rpccall_exchange(const struct rpctcp *to, const struct rpccall *call, uint8_t *reply, size_t max_bytes,
		     struct xdr_reader *r, bool *reserved);

/* Of either family. */
void sockaddr_set_port(struct sockaddr_storage *addr, uint16_t port);

#endif
