/* SPDX-License-Identifier: MIT */
#include <sys/time.h> /* libnfs 4.0.0's header uses timeval without it */

#include <nfsc/libnfs-zdr.h>

#include <nfsc/libnfs-raw-nsm.h>

#include "nsm.h"
#include "rpcbind.h"
#include "rpccall.h"

#include <errno.h>
#include <netinet/in.h>
#include <string.h>

#define TIMEOUT_MS 5000 /* rpc.statd may look up names */

struct rpctcp nsm_local_rpcbind(void)
{
	struct rpctcp to = {.addrlen = sizeof(struct sockaddr_in), .timeout_ms = TIMEOUT_MS};
	struct sockaddr_in *in = (struct sockaddr_in *)&to.addr;
	in->sin_family = AF_INET;
	in->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	return to;
}

static int call(const struct cred *cred, uint32_t proc, rpccall_put_fn *put, void *args, uint8_t *reply,
		size_t max, struct xdr_reader *r)
{
	struct rpctcp to = nsm_local_rpcbind();
	struct rpccall c;
	uint16_t port;
	int err = rpcbind_ask(&to, cred, NSM_PROG, NSM_VERS, &port);
	if (err)
		return err;
	sockaddr_set_port(&to.addr, port);
	to.resvport = true;
	err = rpccall_encode(&c, cred, NSM_PROG, NSM_VERS, proc, put, args);
	if (!err)
		err = rpccall_exchange(&to, &c, reply, max, r, NULL);
	return err == -ECONNREFUSED ? -ENOENT : err; /* registered, and gone */
}

/* rpc.statd takes no other program and procedure: those of the kernel's lock manager. */
static nsm_mon_id mon_id_of(const char *host)
{
	nsm_mon_id id = {.mon_name = (char *)(uintptr_t)host,
			 .my_id = {.my_name = (char *)"localhost",
				   .my_prog = NLM_PROG,
				   .my_vers = NLM_VERS,
				   .my_proc = NLM_PROC_NSM_NOTIFY}};
	return id;
}

int nsm_monitor(const struct cred *cred, const char *host, const uint8_t priv[NSM_PRIV_BYTES], int32_t *state)
{
	NSM1_MONargs args = {.mon_id = mon_id_of(host)};
	uint8_t reply[1024];
	struct xdr_reader r;
	memcpy(args.priv, priv, NSM_PRIV_BYTES);
	int err = call(cred, NSM1_MON, (rpccall_put_fn *)zdr_NSM1_MONargs, &args, reply, sizeof reply, &r);
	if (err)
		return err;
	uint32_t result = xdr_u32(&r);
	*state = (int32_t)xdr_u32(&r);
	if (!xdr_ok(&r))
		return -EBADMSG;
	return result == NSM_STAT_SUCC ? 0 : -EACCES;
}

void nsm_unmonitor(const struct cred *cred, const char *host)
{
	NSM1_UNMONargs args = {.mon_id = mon_id_of(host)};
	uint8_t reply[1024];
	struct xdr_reader r;
	call(cred, NSM1_UNMON, (rpccall_put_fn *)zdr_NSM1_UNMONargs, &args, reply, sizeof reply, &r);
}
