/* SPDX-License-Identifier: MIT
 *
 * Static probes (USDT), for those who look at a running process with bpftrace or perf: contrib/trace. Each is
 * one no-op in the program, and its arguments stay where they are; without <sys/sdt.h> at build time it is
 * nothing at all. Names and arguments are an interface:
 *
 *	call__state	XID, state before, state after		enum call_state, rpcrdma/client/xprt.h
 *	fmr__state	address of the fmr, state before, state after, bytes, access	fmrpool.h
 *	rpc__begin	XID, procedure, thread of the caller	NFS version 3
 *	rpc__end	XID, procedure, 0 or -errno, ns since rpc__begin
 *	lane__state	lane, 1 connected or 0 not, errors in a row
 *
 * The lane of an XID is in its top four bits.
 */
#ifndef TRACE_H
#define TRACE_H

#ifdef HAVE_SDT
#include <sys/sdt.h>
#define TRACE3(name, a, b, c) STAP_PROBE3(nfsrdma, name, a, b, c)
#define TRACE4(name, a, b, c, d) STAP_PROBE4(nfsrdma, name, a, b, c, d)
#define TRACE5(name, a, b, c, d, e) STAP_PROBE5(nfsrdma, name, a, b, c, d, e)
#else
#define TRACE3(name, a, b, c) ((void)0)
#define TRACE4(name, a, b, c, d) ((void)0)
#define TRACE5(name, a, b, c, d, e) ((void)0)
#endif

#endif
