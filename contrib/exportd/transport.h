/* SPDX-License-Identifier: MIT
 *
 * What both transports have in common: how many connections there may be, who the client is, and threads.
 */
#ifndef EXPORTD_TRANSPORT_H
#define EXPORTD_TRANSPORT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

/* Of both transports together; one more is closed at once. */
#define CONNECTIONS_MAX 256

bool connection_begin(void);
void connection_end(void);

/* The address without the port, IPv4 mapped into IPv6. */
void peer_of(const struct sockaddr_storage *sa, uint8_t peer[16]);
/* addr with a port in it; gives its length. */
socklen_t address_with_port(const struct sockaddr_storage *addr, uint16_t port, struct sockaddr_storage *out);
uint16_t address_port(const struct sockaddr_storage *addr);

/* A thread that nobody waits for. */
bool thread_start(void *(*run)(void *arg), void *arg);
/* Between two tries to accept when descriptors or memory are used up: asking again at once would spin. */
void accept_pause(int err);

#endif
