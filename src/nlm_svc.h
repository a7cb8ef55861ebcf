/* SPDX-License-Identifier: MIT
 *
 * What this machine serves as a lock manager's client: the server's word that a lock is granted, and the
 * status monitor's that a server has restarted. Program NLM_PROG version 4, over TCP and UDP, on ports that
 * the kernel chooses; whoever uses it registers them with rpcbind.
 *
 * Everything from these sockets is hostile. Only the server (by its address) and this machine are listened
 * to; a call is decoded whole, within fixed memory, before anything is done. One thread uses it, and polls.
 */
#ifndef NLM_SVC_H
#define NLM_SVC_H

#include "nlm_xdr.h"

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#define NLM_SVC_CALL_MAX 4096u /* bytes of a call: two names of 1024 and a little */
#define NLM_SVC_REPLY_MAX 128u
#define NLM_SVC_CONNS 4u
#define NLM_SVC_FDS (2u + NLM_SVC_CONNS)

struct nlm_svc_calls {
	/* GRANTED and GRANTED_MSG: what to answer, enum nlm_status. */
	uint32_t (*granted)(void *ctx, const struct nlm_granted *granted);
	/* After GRANTED_MSG: the answer is to be sent by a call. */
	void (*granted_res)(void *ctx, const struct nlm_granted *granted, uint32_t status);
	void (*notify)(void *ctx, const struct nsm_notify *notify);
};

enum nlm_svc_peer { NLM_PEER_SERVER = 1, NLM_PEER_LOCAL = 2 }; /* a server on this machine is both */

/* Pure: one call, and the reply to it (NLM_SVC_REPLY_MAX bytes), whose length is returned; 0: it is no call,
 * and gets none. */
size_t nlm_svc_answer(const struct nlm_svc_calls *calls, void *ctx, unsigned int peer, const void *call,
		      size_t len_bytes, uint8_t *reply);

struct nlm_svc;
/* server: whose calls are taken; its port counts for nothing. calls: kept. -errno. */
int nlm_svc_open(const struct sockaddr_storage *server, const struct nlm_svc_calls *calls, void *ctx,
		 struct nlm_svc **svc);
void nlm_svc_close(struct nlm_svc *svc); /* NULL is fine */
uint16_t nlm_svc_tcp_port(const struct nlm_svc *svc);
uint16_t nlm_svc_udp_port(const struct nlm_svc *svc);
/* Fills NLM_SVC_FDS of them for poll(2), and serves what it has found. */
void nlm_svc_poll(const struct nlm_svc *svc, struct pollfd *fds);
void nlm_svc_serve(struct nlm_svc *svc, const struct pollfd *fds);

#endif
