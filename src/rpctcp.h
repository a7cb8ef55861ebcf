/* SPDX-License-Identifier: MIT
 *
 * One RPC over one TCP connection (or a local socket), with a deadline: for MOUNT, rpcbind and the like.
 * Record marking as in RFC 5531 section 11. Blocks its caller, so no lane calls it.
 */
#ifndef RPCTCP_H
#define RPCTCP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#define RPCTCP_CALL_MAX 4096u /* bytes of a call */

struct rpctcp {
	struct sockaddr_storage addr; /* with the port */
	socklen_t addrlen;
	int timeout_ms; /* for connecting and the answer together */
	bool resvport;	/* leave from a port below 1024, if we may */
};

/*
 * Sends a call and receives the reply into reply (at most max bytes; it may come in any number of fragments).
 * Returns its length in bytes, from the XID on, which is that of the call; or
 *	-ETIMEDOUT    not connected, or no whole answer, in time
 *	-ECONNRESET   the peer ended the connection without an answer
 *	-EBADMSG      what came is no record with our XID, or longer than max
 * or the error of socket() or connect(): -ECONNREFUSED, -EHOSTUNREACH, -ENETUNREACH... *reserved (if not
 * NULL): whether it left from a port below 1024.
 */
int rpctcp_call(const struct rpctcp *to, const void *call, size_t len_bytes, void *reply, size_t max_bytes,
		bool *reserved);

/* The connection alone, for whoever goes on by himself: a descriptor, non-blocking and closed on exec, or
 * -errno as above. */
int rpctcp_connect(const struct rpctcp *to);

#endif
