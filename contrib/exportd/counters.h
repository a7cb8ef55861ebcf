/* SPDX-License-Identifier: MIT
 *
 * What has been served, by procedure of NFSv3 and NFSACL: so that a client's own counters can be held against
 * it. Bytes are those of the RPC messages as XDR has them, payload and its padding included, whichever way
 * they came and went. Any thread counts; each procedure has cache lines of its own.
 */
#ifndef EXPORTD_COUNTERS_H
#define EXPORTD_COUNTERS_H

#include "nfs3.h"

#include <stdatomic.h>
#include <stdio.h>

struct call;

#define COUNTED_PROCS (NFS3_PROCS + NFSACL_PROCS)

struct counters {
	struct proc_counters {
		_Alignas(64) atomic_uint_fast64_t calls; /* replayed ones included */
		atomic_uint_fast64_t errors;		 /* answered with another status than NFS3_OK */
		atomic_uint_fast64_t received_bytes, sent_bytes;
	} procs[COUNTED_PROCS]; /* NFS's, then NFSACL's */
};

/* The reply to a call of this procedure is written. */
void counters_add(struct counters *counters, uint32_t proc, const struct call *call);
/* A line for each procedure that was called: "counted NAME calls=N errors=N received=N sent=N"; the last
 * line is "counted." */
void counters_print(const struct counters *counters, FILE *out);

#endif
