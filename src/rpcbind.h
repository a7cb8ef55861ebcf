/* SPDX-License-Identifier: MIT
 *
 * rpcbind (RFC 1833), of a server's and of this machine: on which port a program is to be found. Blocking.
 * `to` is where rpcbind listens, its address and, if not 0, its port, and says how long to wait.
 *
 * It is asked by version 2 for IPv4; version 3 for IPv6, whose addresses end in ".high.low" of the port.
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

/* Registers a program on this machine, at any address, for a netid: "tcp", "udp", "tcp6" or "udp6". By the
 * local socket of rpcbind, which knows by it who asks. -EPERM: it says no, or another is registered;
 * -ECONNREFUSED, -ENOENT: it does not run. */
int rpcbind_set(const struct cred *cred, uint32_t program, uint32_t version, const char *netid,
		uint16_t port);
int rpcbind_unset(const struct cred *cred, uint32_t program, uint32_t version, const char *netid);

#endif
