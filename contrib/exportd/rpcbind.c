/* SPDX-License-Identifier: MIT */
#include "rpcbind.h"
#include "nfs3.h"

#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* libnfs-raw.h needs what libnfs.h defines: separate blocks, which are not sorted. */
#include <nfsc/libnfs.h>

#include <nfsc/libnfs-raw.h>

#include <nfsc/libnfs-raw-portmap.h>

#define RPCBIND_PORT 111
#define PROTO_TCP 6
#define TIMEOUT_MS 5000

/* One exchange: filled in by the callback. */
struct exchange {
	bool done;
	int status; /* RPC_STATUS_* */
	uint32_t answer;
};

static void on_connected(struct rpc_context *rpc, int status, void *data, void *private_data)
{
	struct exchange *e = private_data;
	e->done = true;
	e->status = status;
}

static void on_answer(struct rpc_context *rpc, int status, void *data, void *private_data)
{
	struct exchange *e = private_data;
	e->done = true;
	e->status = status;
	if (status == RPC_STATUS_SUCCESS && data)
		e->answer = *(uint32_t *)data;
}

static int await(struct rpc_context *rpc, struct exchange *e)
{
	while (!e->done) {
		struct pollfd p = {.fd = rpc_get_fd(rpc), .events = (short)rpc_which_events(rpc)};
		if (poll(&p, 1, TIMEOUT_MS) <= 0)
			return -ETIMEDOUT;
		if (rpc_service(rpc, p.revents) < 0)
			return -ECONNREFUSED;
	}
	return e->status == RPC_STATUS_SUCCESS ? 0 : -ECONNREFUSED;
}

static int open_rpcbind(struct rpc_context **rpc)
{
	struct exchange e = {0};
	*rpc = rpc_init_context();
	if (!*rpc)
		return -ENOMEM;
	int err = rpc_connect_async(*rpc, "127.0.0.1", RPCBIND_PORT, on_connected, &e) < 0 ? -ECONNREFUSED
											   : await(*rpc, &e);
	if (!err)
		return 0;
	rpc_destroy_context(*rpc);
	*rpc = NULL;
	return err;
}

static int set_tcp(struct rpc_context *rpc, int program, int version, uint16_t port)
{
	struct exchange e = {0};
	if (rpc_pmap2_set_async(rpc, program, version, PROTO_TCP, port, on_answer, &e) < 0)
		return -ENOMEM;
	int err = await(rpc, &e);
	return err ? err : e.answer ? 0 : -EACCES;
}

static void unset_tcp(struct rpc_context *rpc, int program, int version)
{
	struct exchange e = {0};
	/* port and protocol are ignored by UNSET */
	if (rpc_pmap2_unset_async(rpc, program, version, PROTO_TCP, 0, on_answer, &e) == 0)
		await(rpc, &e);
}

/* RFC 5665: a universal address ends with the port's two bytes. rpcbind puts the address by which it is asked
 * in the place of 0.0.0.0. */
static struct pmap3_mapping rdma_mapping(char *addr, size_t size, uint16_t port)
{
	snprintf(addr, size, "0.0.0.0.%u.%u", port >> 8 & 255u, port & 255u);
	return (struct pmap3_mapping){
		.prog = NFS_PROGRAM,
		.vers = NFS_V3,
		.netid = "rdma",
		.addr = addr,
		.owner = "superuser",
	};
}

static int set_rdma(struct rpc_context *rpc, uint16_t port)
{
	struct exchange e = {0};
	char addr[32];
	struct pmap3_mapping map = rdma_mapping(addr, sizeof addr, port);
	if (rpc_pmap3_set_async(rpc, &map, on_answer, &e) < 0)
		return -ENOMEM;
	int err = await(rpc, &e);
	return err ? err : e.answer ? 0 : -EACCES;
}

static void unset_rdma(struct rpc_context *rpc)
{
	struct exchange e = {0};
	char addr[32];
	struct pmap3_mapping map = rdma_mapping(addr, sizeof addr, 0); /* UNSET ignores the address */
	if (rpc_pmap3_unset_async(rpc, &map, on_answer, &e) == 0)
		await(rpc, &e);
}

static void unset_all(struct rpc_context *rpc)
{
	unset_tcp(rpc, NFS_PROGRAM, NFS_V3);
	unset_tcp(rpc, MOUNT_PROGRAM, MOUNT_V3);
	unset_rdma(rpc);
}

int rpcbind_register(const struct ports *ports)
{
	struct rpc_context *rpc;
	int err = open_rpcbind(&rpc);
	if (err) {
		fprintf(stderr, "nfsrdma-exportd: --rpcbind: nobody answers at 127.0.0.1 port 111; is "
				"rpcbind running?\n");
		return err;
	}
	/* What a server that died has left behind would make ours refused. */
	unset_all(rpc);
	err = set_tcp(rpc, NFS_PROGRAM, NFS_V3, ports->tcp);
	if (!err)
		err = set_tcp(rpc, MOUNT_PROGRAM, MOUNT_V3, ports->mount);
	if (err)
		fprintf(stderr, "nfsrdma-exportd: --rpcbind: refused; it may need root, or another NFS "
				"server runs\n");
	else if (ports->rdma && set_rdma(rpc, ports->rdma))
		fprintf(stderr,
			"nfsrdma-exportd: --rpcbind: the RDMA port was refused; clients must name it\n");
	rpc_destroy_context(rpc);
	return err;
}

void rpcbind_unregister(const struct ports *ports)
{
	struct rpc_context *rpc;
	if (open_rpcbind(&rpc))
		return;
	unset_all(rpc);
	rpc_destroy_context(rpc);
}
