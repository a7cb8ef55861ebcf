/* SPDX-License-Identifier: MIT */
#include "transport.h"

#include <assert.h>
#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

static _Atomic int connections;

bool connection_begin(void)
{
	if (atomic_fetch_add(&connections, 1) < CONNECTIONS_MAX)
		return true;
	connection_end();
	return false;
}

void connection_end(void)
{
	atomic_fetch_sub(&connections, 1);
}

void peer_of(const struct sockaddr_storage *sa, uint8_t peer[16])
{
	memset(peer, 0, 16);
	if (sa->ss_family == AF_INET) {
		peer[10] = peer[11] = 0xff;
		memcpy(peer + 12, &((const struct sockaddr_in *)sa)->sin_addr, 4);
	} else if (sa->ss_family == AF_INET6) {
		memcpy(peer, &((const struct sockaddr_in6 *)sa)->sin6_addr, 16);
	}
}

static_assert(offsetof(struct sockaddr_in, sin_port) == offsetof(struct sockaddr_in6, sin6_port),
	      "the port lies at the same place in both");

socklen_t address_with_port(const struct sockaddr_storage *addr, uint16_t port, struct sockaddr_storage *out)
{
	*out = *addr;
	((struct sockaddr_in *)out)->sin_port = htons(port);
	return addr->ss_family == AF_INET6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in);
}

uint16_t address_port(const struct sockaddr_storage *addr)
{
	return ntohs(((const struct sockaddr_in *)addr)->sin_port);
}

bool thread_start(void *(*run)(void *arg), void *arg)
{
	pthread_t thread;
	pthread_attr_t attr;
	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	bool ok = pthread_create(&thread, &attr, run, arg) == 0;
	pthread_attr_destroy(&attr);
	return ok;
}

void accept_pause(int err)
{
	if (err == EMFILE || err == ENFILE || err == ENOMEM || err == ENOBUFS)
		usleep(100 * 1000);
}
