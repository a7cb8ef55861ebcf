/* SPDX-License-Identifier: MIT
 *
 * The MOUNT protocol, version 3 over TCP (RFC 1813 appendix I), and rpcbind to find its port (RFC 1833): how
 * a mount gets the handle of the export's root. Blocking, with deadlines; called before the lanes start and
 * after they have ended.
 *
 * Calls are encoded by libnfs's codecs. Its TCP client and decoders are not used, although they were made for
 * this: a MOUNT reply that claims 0x40000001 flavors overflows the heap in 4.0 (seen, valgrind), and EXPORT
 * lists are decoded by recursion. So rpctcp.h carries the records and xdr.h reads them.
 *
 * Which port: `mountport`, else what rpcbind on port 111 says, else (rpcbind is not there, or does not know)
 * the NFS port 2049. A host of several addresses is tried at each until one gives a verdict; NFS over RDMA
 * then goes to that same address.
 */
#ifndef MOUNTD_H
#define MOUNTD_H

#include "nfs3.h"

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#define MOUNTD_ERR_SIZE 1024
#define MOUNTD_TIMEOUT_MS 10000

struct cred;

struct mountd_args {	    /* lent for the call */
	const char *server; /* host name or address */
	const char *export; /* absolute path, at most 1024 bytes */
	uint16_t mountport; /* 0: look for it */
	bool resvport;
	const struct cred *cred;
	int timeout_ms;		/* for each step: MOUNTD_TIMEOUT_MS */
	uint16_t rpcbind_port;	/* 0: 111; tests have their own */
	uint16_t fallback_port; /* 0: 2049 */
};

struct mountd_export {
	struct sockaddr_storage addr; /* of the server; port 0 */
	socklen_t addrlen;
	char addr_text[INET6_ADDRSTRLEN + 20]; /* numeric, for messages; with a zone where there is one */
	uint16_t mountport;		       /* where MOUNT answered */
	struct nfs3_fh root;
};

/*
 * Asks for the root of the export. 0 with *result filled; or -errno and err (MOUNTD_ERR_SIZE bytes) with one
 * line that says what, where, what to do:
 *	-ENXIO                                  unknown host
 *	-EAGAIN, -ECONNREFUSED, -ETIMEDOUT,
 *	-EHOSTUNREACH, -ENETUNREACH             not reached: mountd_may_retry()
 *	-EPROTONOSUPPORT, -EBADMSG, -ECONNRESET what answers there is no MOUNT version 3
 *	-EACCES, -ENOENT, -ENOTDIR, -EPERM...   the server's refusal
 */
int mountd_mount(const struct mountd_args *args, struct mountd_export *result, char *err);

/* The first address of a host, as addr, addrlen and addr_text of *result; the rest is zero. -ENXIO or -EAGAIN
 * with err filled, as above. */
int mountd_lookup(const char *server, struct mountd_export *result, char *err);

/* Calls each() for every export that the server lists, in its order; path is lent, and not ended by a NUL: it
 * has len_bytes (at most 1024) of anything. Errors as of mountd_mount(), args->export counts for nothing. On
 * 0 *result is filled but for the root; each() may have been called for a part of the list even if not. */
typedef void mountd_export_fn(void *ctx, const char *path, uint32_t len_bytes);
int mountd_list(const struct mountd_args *args, mountd_export_fn *each, void *ctx,
		struct mountd_export *result, char *err);

/* Would it make sense to try again later (the `retry` option)? */
bool mountd_may_retry(int err);

/* Tells the server that the mount has ended: a courtesy, of which no answer matters. At most 2 seconds. */
void mountd_umount(const struct mountd_args *args, const struct mountd_export *mounted);

#endif
