/* SPDX-License-Identifier: MIT
 *
 * The chunk plan of a call: what travels inline and what by RDMA (RFC 8166 §3.4-3.5, RFC 8267 §4). A pure
 * function of lengths.
 */
#ifndef PLAN_H
#define PLAN_H

#include "rpcrdma.h"

#include <stdbool.h>
#include <stdint.h>

struct plan_limits {
	uint32_t send_bytes; /* inline threshold of the connection, client to server */
	uint32_t recv_bytes; /* and back */
	uint32_t max_sge;
};

struct plan {
	bool read_chunk;    /* out[] is fetched by the server, one segment per entry; else it goes inline */
	bool long_call;	    /* the message itself is fetched (position zero); RDMA_NOMSG */
	bool write_chunk;   /* `in` is placed by the server; else that payload comes inline */
	bool reply_chunk;   /* the reply is placed in reply_buf if it does not fit inline */
	unsigned int fmrs;  /* registrations to borrow: one per segment */
	uint32_t out_bytes; /* sum of out[] */
};

/* 0, or -EMSGSIZE: the reply could not be received (reply_buf is missing or too small); -EINVAL: lengths that
 * make no sense. */
int plan_call(const struct rpcrdma_call *call, const struct plan_limits *limits, struct plan *plan);

#endif
