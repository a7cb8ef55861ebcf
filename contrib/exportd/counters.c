/* SPDX-License-Identifier: MIT */
#include "counters.h"
#include "rpc.h"
#include "server.h"

#include <inttypes.h>

static void add(atomic_uint_fast64_t *counter, uint64_t n)
{
	atomic_fetch_add_explicit(counter, n, memory_order_relaxed);
}

/* Whether the reply, as it was written, says that the procedure failed. */
static bool failed(uint32_t proc, const struct call *call)
{
	struct xdr_reader r = xdr_reader(call->head.start, xdr_written(&call->head));

	if (proc == NFS3_NULL || proc == NFS3_PROCS + NFSACL_NULL)
		return false;
	xdr_bytes(&r, RPC_REPLY_HEAD_BYTES - 4);
	uint32_t accepted = xdr_u32(&r), status = xdr_u32(&r);
	return !xdr_ok(&r) || accepted != RPC_SUCCESS || status != NFS3_OK;
}

void counters_add(struct counters *counters, uint32_t proc, const struct call *call)
{
	struct proc_counters *p = &counters->procs[proc];

	add(&p->calls, 1);
	add(&p->received_bytes, xdr_padded(call->msg_len_bytes) + xdr_padded(call->data_len_bytes));
	add(&p->sent_bytes, xdr_written(&call->head) + xdr_padded(call->payload_len_bytes));
	if (failed(proc, call))
		add(&p->errors, 1);
}

void counters_print(const struct counters *counters, FILE *out)
{
	for (uint32_t i = 0; i < COUNTED_PROCS; i++) {
		const struct proc_counters *p = &counters->procs[i];
		uint64_t calls = atomic_load(&p->calls);

		if (calls)
			fprintf(out,
				"counted %s calls=%" PRIu64 " errors=%" PRIu64 " received=%" PRIu64
				" sent=%" PRIu64 "\n",
				nfs3_proc_name(i), calls, (uint64_t)atomic_load(&p->errors),
				(uint64_t)atomic_load(&p->received_bytes),
				(uint64_t)atomic_load(&p->sent_bytes));
	}
	fprintf(out, "counted.\n");
	fflush(out);
}
