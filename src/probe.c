/* SPDX-License-Identifier: MIT */
#include "probe.h"

#include <errno.h>
#include <stdlib.h>

const char *probe_no_verbs(const struct probe_facts *facts)
{
	if (!facts->rdma_cm && facts->adapters)
		return "this machine has an RDMA device, but rdma_ucm is not loaded: modprobe rdma_ucm";
	if (!facts->adapters)
		return "this machine has no RDMA device, or the module of its adapter is not loaded";
	return "this machine has an RDMA device, but the route to the server does not go through its "
	       "network interface";
}

/* What each device makes of an error differs in what the server can be: softiwarp sees a TCP port, and an
 * adapter the fabric. */
static const struct likely {
	int error;
	const char *softiwarp, *verbs;
} reasons[] = {
	{-EACCES,
	 "the server speaks iWARP and refused this connection: its kernel log may say why (too many "
	 "connections, or no NFS over RDMA behind that port)",
	 "the server refused this connection: its kernel log may say why (too many connections, or no NFS "
	 "over RDMA behind that port)"},
	{-ECONNRESET, "the server closed the connection during set-up: its log may say why",
	 "the server closed the connection during set-up: its log may say why"},
	{-EPROTO,
	 "that port belongs to another service, which is not NFS over iWARP (2049 is NFS over TCP): check "
	 "the option port",
	 "what answers is not NFS over RDMA as this client knows it: check the option port"},
	{-ETIMEDOUT,
	 "a firewall drops what goes to that TCP port, or what listens there does not speak iWARP: check the "
	 "option port, and the way to the server",
	 "the server has no RDMA device of this kind at that address, or a firewall drops RoCE (UDP port "
	 "4791); an iWARP server is reached with device=softiwarp"},
	{-EHOSTUNREACH, "no way leads to that address: check it, and the network", NULL},
	{-ENETUNREACH, "no way leads to that address: check it, and the network", NULL},
	{-EPROTONOSUPPORT, "the server does not serve NFS version 3 over RDMA: enable it there", NULL},
	{-ENOBUFS, NULL, "the device's queues are shorter than asked for: lower the option credits"},
	{-ENOMEM, "there is too little memory for the arena: lower the option arena",
	 "the limit of locked memory is too low: raise it (ulimit -l unlimited; LimitMEMLOCK=infinity in a "
	 "systemd unit), or lower the option arena"},
};

static const char *refused(const struct probe_facts *facts)
{
	if (facts->verbs)
		return "the server does not serve NFS over RDMA on that port: on Linux, 'rdma=y' under "
		       "[nfsd] in its nfs.conf, or 'echo rdma 20049 >/proc/fs/nfsd/portlist'";
	if (facts->nfs_answers)
		return "the server serves NFS, but takes no TCP connection on that port: NFS over RDMA is "
		       "not enabled there, or on another port, or over RoCE or InfiniBand only, which needs "
		       "an RDMA device here";
	return "nothing listens there: is it the right server and port, and is its NFS server running?";
}

const char *probe_likely(int error, const struct probe_facts *facts)
{
	if (error == -ECONNREFUSED)
		return refused(facts);
	if (error == -ENODEV)
		return probe_no_verbs(facts);
	for (size_t i = 0; i < sizeof reasons / sizeof *reasons; i++) {
		const struct likely *r = &reasons[i];
		if (r->error != error)
			continue;
		const char *text = facts->verbs && r->verbs ? r->verbs : r->softiwarp;
		return text ? text : "";
	}
	return "";
}

static int by_length(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
	return (x > y) - (x < y);
}

struct probe_spread probe_spread(uint64_t *times_ns, size_t n)
{
	qsort(times_ns, n, sizeof *times_ns, by_length);
	return (struct probe_spread){times_ns[0], times_ns[(n - 1) / 2], times_ns[n - 1]};
}
