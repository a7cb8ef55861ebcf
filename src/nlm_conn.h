/* SPDX-License-Identifier: MIT
 *
 * The TCP connection to the server's lock manager: records out, records in. One thread uses it, and polls.
 * Connecting blocks (for seconds at most, when the server is away); nothing else does.
 */
#ifndef NLM_CONN_H
#define NLM_CONN_H

#include "nlm_xdr.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#define NLM_REPLY_MAX 4096u /* bytes; the longest is a TEST's, with a name of 1024 */

struct nlm_conn {
	int fd; /* -1: none */
	size_t out_bytes, in_bytes;
	uint8_t out[32u * (4u + NLM_CALL_MAX)];
	uint8_t in[4u + NLM_REPLY_MAX];
};

/* Asks the server's rpcbind for the port, each time: it may change with a restart. addr: the server's; its
 * port counts for nothing. -ENOENT: it has no lock manager, or as rpctcp_call(). */
int nlm_conn_open(struct nlm_conn *conn, const struct sockaddr_storage *addr, socklen_t addrlen,
		  const struct cred *cred, bool resvport);
void nlm_conn_close(struct nlm_conn *conn);

/* Is there room for one more call? */
bool nlm_conn_has_room(const struct nlm_conn *conn);
/* Queues a call: there is room. */
void nlm_conn_put(struct nlm_conn *conn, const uint8_t *msg, size_t len_bytes);
short nlm_conn_events(const struct nlm_conn *conn); /* for poll(2) */
/* Sends what it can. -errno: the connection has ended. */
int nlm_conn_send(struct nlm_conn *conn);
/* Receives what is there, and gives each record to fn. -errno: the connection has ended; -EBADMSG: what comes
 * there is none of the protocol. */
typedef void nlm_conn_record_fn(void *ctx, const uint8_t *reply, size_t len_bytes);
int nlm_conn_receive(struct nlm_conn *conn, nlm_conn_record_fn *fn, void *ctx);

#endif
