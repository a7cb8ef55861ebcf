/* SPDX-License-Identifier: MIT
 *
 * The listening socket: the listener half of struct rdma_device (device.h). It may be shared by threads, each
 * taking connections of its own with listener_accept(); listen and close are one thread's.
 */
#ifndef SOFTIWARP_LISTENER_H
#define SOFTIWARP_LISTENER_H

#include "device.h"

int listener_listen(const struct sockaddr *addr, socklen_t addr_len, struct rdma_listener **listener);
int listener_fd(const struct rdma_listener *listener);
uint16_t listener_port(const struct rdma_listener *listener);
int listener_accept(struct rdma_listener *listener, const struct rdma_ep_params *params,
		    struct sockaddr_storage *peer, struct rdma_ep **ep);
void listener_close(struct rdma_listener *listener);

#endif
