/* SPDX-License-Identifier: MIT
 *
 * rpcbind (RFC 1833), of a server's and of this machine: on which port a program is to be found. Blocking,
 * with the deadline of `to`, which is where rpcbind listens: its address and, if not 0, its port.
 *
 * Asking a server: version 2 for IPv4; version 3 for IPv6, whose addresses end in ".high.low" of the port.
 */
#ifndef RPCBIND_H
#define RPCBIND_H

#include "cred.h"
#include "rpctcp.h"

#include <stdbool.h>
#include <stdint.h>

#define RPCBIND_PORT 111u

/* The TCP port of a program. -ENOENT: it is not registered. -EBADMSG, or as rpctcp_call(). */
int rpcbind_ask(const struct rpctcp *to, const struct cred *cred, uint32_t program, uint32_t version,
		uint16_t *port);

/* The same of a program on this machine, for a netid: "tcp", "udp", "tcp6" or "udp6". to: on loopback. */
int rpcbind_find(const struct rpctcp *to, const struct cred *cred, uint32_t program, uint32_t version,
		 const char *netid, uint16_t *port);
/* Registers it, at any address. Only those who may use ports below 1024 can (resvport of `to`). -EPERM: it
 * says no, or another is registered. */
int rpcbind_set(const struct rpctcp *to, const struct cred *cred, uint32_t program, uint32_t version,
		const char *netid, uint16_t port);
int rpcbind_unset(const struct rpctcp *to, const struct cred *cred, uint32_t program, uint32_t version,
		  const char *netid);

#endif
