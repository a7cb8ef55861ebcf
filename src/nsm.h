/* SPDX-License-Identifier: MIT
 *
 * The status monitor of this machine, rpc.statd (NSM version 1, XNFS chapter 11). We ask it to watch a
 * server: when that has restarted, it tells the program NLM_PROG on this machine (nlm_svc.h); and when this
 * machine has restarted, it tells the server, which then forgets the locks that we had. Blocking.
 */
#ifndef NSM_H
#define NSM_H

#include "cred.h"
#include "nlm_xdr.h"

#include <stdint.h>

/* host: the server's name as the mount has it. *state: the number of this boot, for LOCK calls. -ENOENT: it
 * does not run; -ECONNREFUSED: nor does rpcbind; -EACCES: it refuses to watch that host; or as
 * rpctcp_call(). */
int nsm_monitor(const struct cred *cred, const char *host, const uint8_t priv[NSM_PRIV_BYTES],
		int32_t *state);
void nsm_unmonitor(const struct cred *cred, const char *host);

/* rpcbind of this machine, over loopback. */
struct rpctcp nsm_local_rpcbind(void);

#endif
