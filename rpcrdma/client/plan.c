/* SPDX-License-Identifier: MIT */
#include "plan.h"
#include "header.h"

#include <assert.h>
#include <errno.h>

#define READ_SEGMENT_BYTES 24u	     /* item present, position, handle, length, offset */
#define WRITE_CHUNK_BYTES (8u + 16u) /* item present, count, one segment */
#define REPLY_CHUNK_BYTES (4u + 16u) /* the presence word is one of the header's three empty lists */

static_assert(RPCRDMA_HDR_MIN + (RPCRDMA_MAX_SEGS + 1) * READ_SEGMENT_BYTES + WRITE_CHUNK_BYTES +
			      REPLY_CHUNK_BYTES <=
		      RPCRDMA_INLINE_MIN,
	      "the largest header alone must fit the smallest inline threshold");

static uint64_t padded(uint64_t len_bytes)
{
	return (len_bytes + 3) & ~UINT64_C(3);
}

/* Gather entries of a Send whose payload is inline: header, message, payload, padding, rest of the
 * message. */
static uint32_t gathered(const struct rpcrdma_call *call, uint32_t out_bytes)
{
	return 2 + call->nout + (out_bytes % 4 != 0) + (call->out_pos < call->msg_len);
}

static int plan_reply(const struct rpcrdma_call *call, const struct plan_limits *limits, struct plan *plan)
{
	uint64_t reply = (uint64_t)RPCRDMA_HDR_MIN + call->reply_max;

	plan->write_chunk = call->in.iov_len > 0 && reply + padded(call->in.iov_len) > limits->recv_bytes;
	if (plan->write_chunk)
		reply += WRITE_CHUNK_BYTES;
	plan->reply_chunk = reply > limits->recv_bytes;
	if (plan->reply_chunk && (call->reply_buf.iov_len < call->reply_max || call->reply_max == 0))
		return -EMSGSIZE;
	return 0;
}

int plan_call(const struct rpcrdma_call *call, const struct plan_limits *limits, struct plan *out)
{
	struct plan plan = {0};
	uint64_t out_bytes = 0;

	if (call->msg_len > RPCRDMA_MSG_BYTES || call->nout > RPCRDMA_MAX_SEGS ||
	    call->in.iov_len > UINT32_MAX)
		return -EINVAL;
	for (unsigned int i = 0; i < call->nout; i++) {
		if (call->out[i].iov_len == 0 || call->out[i].iov_len > UINT32_MAX)
			return -EINVAL;
		out_bytes += call->out[i].iov_len;
	}
	if (out_bytes > UINT32_MAX || call->out_pos > call->msg_len || call->out_pos % 4)
		return -EINVAL;
	plan.out_bytes = (uint32_t)out_bytes;

	int err = plan_reply(call, limits, &plan);
	if (err)
		return err;

	uint64_t send = (uint64_t)RPCRDMA_HDR_MIN + call->msg_len;
	if (plan.write_chunk)
		send += WRITE_CHUNK_BYTES;
	if (plan.reply_chunk)
		send += REPLY_CHUNK_BYTES;
	plan.read_chunk = call->nout > 0 && (send + padded(out_bytes) > limits->send_bytes ||
					     gathered(call, plan.out_bytes) > limits->max_sge);
	if (plan.read_chunk)
		send += (uint64_t)call->nout * READ_SEGMENT_BYTES;
	plan.long_call = send > limits->send_bytes;

	plan.fmrs = (plan.read_chunk ? call->nout : 0) + plan.long_call + plan.write_chunk + plan.reply_chunk;
	*out = plan;
	return 0;
}
