/* SPDX-License-Identifier: MIT */
#include <sys/time.h> /* libnfs 4.0.0's header uses timeval without it */

#include <nfsc/libnfs-zdr.h>

#include "nfs3.h"
#include "rpccall.h"
#include "rpcmsg.h"

#include <errno.h>
#include <netinet/in.h>
#include <sys/random.h>
#include <time.h>

int rpccall_encode(struct rpccall *call, const struct cred *cred, uint32_t program, uint32_t version,
		   uint32_t proc, rpccall_put_fn *put, void *args)
{
	uint32_t xid;
	if (getrandom(&xid, sizeof xid, GRND_NONBLOCK) < 0)
		xid = (uint32_t)time(NULL);
	struct xdr_writer w = xdr_writer(call->words, sizeof call->words);
	rpcmsg_put_call(&w, xid, program, version, proc, cred);
	ZDR z;
	zdrmem_create(&z, (char *)w.pos, (uint32_t)(sizeof call->words - xdr_written(&w)), ZDR_ENCODE);
	if (!put(&z, args))
		return -EMSGSIZE;
	call->len_bytes = xdr_written(&w) + zdr_getpos(&z);
	return 0;
}

int rpccall_exchange(const struct rpctcp *to, const struct rpccall *call, uint8_t *reply, size_t max,
		     struct xdr_reader *r, bool *reserved)
{
	int len = rpctcp_call(to, call->words, call->len_bytes, reply, max, reserved);
	if (len < 0)
		return len;
	*r = xdr_reader(reply, (size_t)len);
	return nfs3_reply_header(r);
}

void sockaddr_set_port(struct sockaddr_storage *addr, uint16_t port)
{
	if (addr->ss_family == AF_INET6)
		((struct sockaddr_in6 *)addr)->sin6_port = htons(port);
	else
		((struct sockaddr_in *)addr)->sin_port = htons(port);
}
