/* SPDX-License-Identifier: MIT */
#include <sys/time.h> /* libnfs 4.0.0's header uses timeval without it */

#include <nfsc/libnfs-zdr.h>

#include <nfsc/libnfs-raw-portmap.h>

#include "rpcbind.h"
#include "rpccall.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/un.h>

static int port_of_uaddr(const char *text, uint32_t len, uint16_t *port)
{
	unsigned int part[2] = {0, 0}; /* low, high */
	uint32_t at = len;
	for (int i = 0; i < 2; i++) {
		unsigned int digits = 0, weight = 1;
		for (; at > 0 && text[at - 1] >= '0' && text[at - 1] <= '9' && digits < 3;
		     digits++, weight *= 10)
			part[i] += weight * (unsigned int)(text[--at] - '0');
		if (digits == 0 || part[i] > 255 || at == 0 || text[--at] != '.')
			return -EBADMSG;
	}
	*port = (uint16_t)(part[1] << 8 | part[0]);
	return *port ? 0 : -ENOENT;
}

static int read_uaddr(struct xdr_reader *r, uint16_t *port)
{
	uint32_t len;
	const char *text = (const char *)xdr_opaque(r, 128, &len);
	if (!xdr_ok(r))
		return -EBADMSG;
	return len ? port_of_uaddr(text, len, port) : -ENOENT; /* an empty address: not registered */
}

static int read_port(struct xdr_reader *r, uint16_t *port)
{
	uint32_t v = xdr_u32(r);
	if (!xdr_ok(r) || v > 65535)
		return -EBADMSG;
	*port = (uint16_t)v;
	return v ? 0 : -ENOENT;
}

static struct rpctcp place_of(const struct rpctcp *to)
{
	struct rpctcp at = *to;
	const struct sockaddr_in *in = (const struct sockaddr_in *)&to->addr; /* IPv6 has it there too */
	if (in->sin_port == 0)
		sockaddr_set_port(&at.addr, RPCBIND_PORT);
	return at;
}

/* A version 3 call about a mapping. */
static int call_v3(const struct rpctcp *to, const struct cred *cred, uint32_t proc, pmap3_mapping *map,
		   uint8_t *reply, size_t max, struct xdr_reader *r)
{
	struct rpccall c;
	int err = rpccall_encode(&c, cred, PMAP_PROGRAM, PMAP_V3, proc, (rpccall_put_fn *)zdr_pmap3_mapping,
				 map);
	return err ? err : rpccall_exchange(to, &c, reply, max, r, NULL);
}

/* Over IPv6. */
static int ask_v3(const struct rpctcp *to, const struct cred *cred, uint32_t program, uint32_t version,
		  uint16_t *port)
{
	struct rpctcp at = place_of(to);
	uint8_t reply[1024];
	struct xdr_reader r;
	pmap3_mapping map = {.prog = program,
			     .vers = version,
			     .netid = (char *)"tcp6",
			     .addr = (char *)"",
			     .owner = (char *)""};
	int err = call_v3(&at, cred, PMAP3_GETADDR, &map, reply, sizeof reply, &r);
	return err ? err : read_uaddr(&r, port);
}

int rpcbind_ask(const struct rpctcp *to, const struct cred *cred, uint32_t program, uint32_t version,
		uint16_t *port)
{
	if (to->addr.ss_family == AF_INET6)
		return ask_v3(to, cred, program, version, port);
	struct rpctcp at = place_of(to);
	struct rpccall c;
	struct xdr_reader r;
	uint8_t reply[1024];
	pmap2_mapping map = {.prog = program, .vers = version, .prot = IPPROTO_TCP};
	int err = rpccall_encode(&c, cred, PMAP_PROGRAM, PMAP_V2, PMAP2_GETPORT,
				 (rpccall_put_fn *)zdr_pmap2_mapping, &map);
	if (!err)
		err = rpccall_exchange(&at, &c, reply, sizeof reply, &r, NULL);
	return err ? err : read_port(&r, port);
}

#define LOCAL_SOCKET "/run/rpcbind.sock"
#define LOCAL_TIMEOUT_MS 3000

static int change(const struct cred *cred, uint32_t proc, uint32_t program, uint32_t version,
		  const char *netid, const char *addr)
{
	struct rpctcp to = {.addrlen = sizeof(struct sockaddr_un), .timeout_ms = LOCAL_TIMEOUT_MS};
	struct sockaddr_un *un = (struct sockaddr_un *)&to.addr;
	uint8_t reply[1024];
	struct xdr_reader r;
	pmap3_mapping map = {.prog = program,
			     .vers = version,
			     .netid = (char *)(uintptr_t)netid,
			     .addr = (char *)(uintptr_t)addr,
			     .owner = (char *)"nfsrdma"}; /* it puts its own idea in that place */
	un->sun_family = AF_UNIX;
	strcpy(un->sun_path, LOCAL_SOCKET);
	int err = call_v3(&to, cred, proc, &map, reply, sizeof reply, &r);
	if (err)
		return err;
	bool done = xdr_bool(&r);
	if (!xdr_ok(&r))
		return -EBADMSG;
	return done ? 0 : -EPERM;
}

int rpcbind_set(const struct cred *cred, uint32_t program, uint32_t version, const char *netid, uint16_t port)
{
	char addr[32];
	snprintf(addr, sizeof addr, "%s.%u.%u", netid[3] == '6' ? "::" : "0.0.0.0", port >> 8 & 255u,
		 port & 255u);
	return change(cred, PMAP3_SET, program, version, netid, addr);
}

int rpcbind_unset(const struct cred *cred, uint32_t program, uint32_t version, const char *netid)
{
	return change(cred, PMAP3_UNSET, program, version, netid, "");
}
