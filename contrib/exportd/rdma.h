/* SPDX-License-Identifier: MIT
 *
 * RPC over RDMA (RFC 8166): a listener, and one thread for each connection, which drives the responder and
 * serves its calls as they come. WRITE data is written to the file from the memory that RDMA Read put it
 * into, READ data is read from the file into the memory that RDMA Write takes it from.
 */
#ifndef EXPORTD_RDMA_H
#define EXPORTD_RDMA_H

#include "server.h"

#include <stdbool.h>
#include <sys/socket.h>

bool rdma_server_knows(const char *device);
/* Names do not begin as those of librdmacm do, whose rdma_listen() this is not.
 * device: by name. Port 0: any. -ENODEV: no such device, or none that has the address; else -errno. */
int rdma_server_start(struct server *srv, const char *device, const struct sockaddr_storage *addr,
		      uint16_t port, uint16_t *bound);

#endif
