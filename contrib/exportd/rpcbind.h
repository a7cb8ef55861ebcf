/* SPDX-License-Identifier: MIT
 *
 * Tells the rpcbind of this machine where we listen (RFC 1833), by libnfs.
 */
#ifndef EXPORTD_RPCBIND_H
#define EXPORTD_RPCBIND_H

#include <stdint.h>

struct ports {
	uint16_t rdma, tcp, mount; /* 0: not served */
};

/* 0, or -errno after saying on stderr what is wrong. */
int rpcbind_register(const struct ports *ports);
void rpcbind_unregister(const struct ports *ports);

#endif
