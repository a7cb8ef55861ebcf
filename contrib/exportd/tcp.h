/* SPDX-License-Identifier: MIT
 *
 * RPC over TCP (RFC 5531 §11): a listener, and one thread for each connection. Calls of one connection are
 * served in order; connections run at the same time.
 */
#ifndef EXPORTD_TCP_H
#define EXPORTD_TCP_H

#include "server.h"

#include <sys/socket.h>

/* Listens at addr with this port (0: any), *bound gets the one that it is. Serves from a thread of its own.
 * -errno. */
int tcp_listen(struct server *srv, const struct sockaddr_storage *addr, uint16_t port, uint16_t *bound);

#endif
