/* SPDX-License-Identifier: MIT
 *
 * The pure pieces of nfsrdma-probe: what an error most likely means and what to do, and how to sum up
 * round-trip times. No I/O, no state.
 */
#ifndef PROBE_H
#define PROBE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What is known around an error. */
struct probe_facts {
	bool verbs;	  /* the device that was tried; else softiwarp */
	bool nfs_answers; /* the server's MOUNT service does, so the server is there and serves NFS */
	bool rdma_cm;	  /* rdma_ucm is loaded on this machine */
	bool adapters;	  /* this machine has an RDMA device, on whatever route */
};

/* Why verbs has no device on the route: in a few words that go on a sentence. */
const char *probe_no_verbs(const struct probe_facts *facts);
/* The likely reason of a failure to choose a device or to connect, and what to do. "" when the error says all
 * there is to say. */
const char *probe_likely(int error, const struct probe_facts *facts);

struct probe_spread {
	uint64_t min_ns, median_ns, max_ns;
};
/* Sorts the n > 0 times in place. The median of an even number is the lower one of the middle. */
struct probe_spread probe_spread(uint64_t *times_ns, size_t n);

#endif
