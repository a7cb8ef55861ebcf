/* SPDX-License-Identifier: MIT
 *
 * One RPC call, from the bytes of its message to the bytes of its reply, whatever transport brought it.
 *
 * The transport fills the first half of struct call and calls serve_call() on the connection's own thread;
 * the file system is asked there and then, with the caller's rights. The reply is head, then payload (READ
 * data or a link's text, in memory that the transport chose, without padding); nothing follows a payload in
 * NFSv3.
 */
#ifndef EXPORTD_SERVER_H
#define EXPORTD_SERVER_H

#include "counters.h"
#include "drc.h"
#include "export.h"
#include "nfs3.h"
#include "node.h"
#include "xdr.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* The largest reply without payload: a READDIRPLUS of this size. */
#define DIR_REPLY_MAX_BYTES (128 * 1024)
#define REPLY_HEAD_MAX_BYTES (DIR_REPLY_MAX_BYTES + 4096)

struct mounts;

struct server {
	uint8_t key[SIPHASH_KEY_BYTES];
	struct export *exports;
	size_t exports_len;
	bool root_squash, read_only, no_acl;
	struct drc *drc;
	struct nodes *nodes;
	struct mounts *mounts;
	/* Of WRITE and COMMIT: another after each start, and after data was lost. */
	_Atomic uint64_t write_verf;
	struct counters counters;
};

struct call {
	struct server *srv;
	/* From the transport, lent until serve_call() returns. */
	const uint8_t *msg;
	uint32_t msg_len_bytes;
	const uint8_t *data; /* payload that is not in msg, or NULL */
	uint32_t data_len_bytes, data_pos;
	uint8_t peer[16];	    /* the client's address, IPv4 mapped into IPv6 */
	uint32_t reply_max_bytes;   /* for head */
	uint32_t payload_max_bytes; /* for payload */
	/* Memory for the payload of the reply: called at most once, with at most payload_max_bytes. NULL:
	 * none. */
	uint8_t *(*payload_buffer)(struct call *call, uint32_t len_bytes);
	void *owner; /* the transport's */
	/* The reply. head is set up by the transport, with room for REPLY_HEAD_MAX_BYTES. */
	struct xdr_writer head;
	const uint8_t *payload;
	uint32_t payload_len_bytes;
};

/* False: no reply can be given. */
bool serve_call(struct call *call);

/* Whether a transport had better not let other calls wait for this one. Looks at the message's
 * header only. */
bool call_waits_for_disk(const uint8_t *msg, uint32_t msg_len_bytes);

/* Called by serve_call(). The reply's RPC header is written; args is at the arguments. */
struct rpc_call;
bool mount3_serve(struct call *call, const struct rpc_call *rpc, struct xdr_reader *args);
bool nfs3_serve(struct call *call, const struct rpc_call *rpc, struct xdr_reader *args);
bool nfsacl_serve(struct call *call, const struct rpc_call *rpc, struct xdr_reader *args);
/* Of NFS, and behind them those of NFSACL: proc < COUNTED_PROCS. */
const char *nfs3_proc_name(uint32_t proc);

struct mounts *mounts_create(void);

#endif
