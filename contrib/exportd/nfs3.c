/* SPDX-License-Identifier: MIT
 *
 * The tables of procedures of NFSv3 and NFSACL, and the way that all of them go: decode, ask the duplicate
 * request cache, find the object of the handle, run, encode.
 */
#include "nfs3.h"
#include "op.h"

#include <errno.h>
#include <string.h>

/* What a resfail holds (RFC 1813 §3.3). */
enum resfail {
	FAIL_VOID,
	FAIL_POST_OP,	  /* of obj */
	FAIL_WCC,	  /* of obj */
	FAIL_WCC_WCC,	  /* RENAME: of both directories */
	FAIL_POST_OP_WCC, /* LINK: of the object, of the directory */
};

enum proc_flags {
	CHANGES = 1,   /* refused on a read-only export */
	ONCE = 2,      /* not idempotent: through the duplicate request cache */
	ANYBODY = 4,   /* needs no rights */
	WCC_BEFORE = 8 /* wcc[0].before is taken of obj before it runs */
};

struct proc {
	const char *name;
	nfs3_decode *decode;
	op_run *run;
	enum resfail fail;
	unsigned flags;
};

static const struct proc procs[NFS3_PROCS] = {
	[NFS3_NULL] = {"NULL"},
	[NFS3_GETATTR] = {"GETATTR", nfs3_decode_fh, op_getattr, FAIL_VOID, ANYBODY},
	[NFS3_SETATTR] = {"SETATTR", nfs3_decode_setattr, op_setattr, FAIL_WCC, CHANGES | ONCE | WCC_BEFORE},
	[NFS3_LOOKUP] = {"LOOKUP", nfs3_decode_dirop, op_lookup, FAIL_POST_OP, 0},
	[NFS3_ACCESS] = {"ACCESS", nfs3_decode_access, op_access, FAIL_POST_OP, ANYBODY},
	[NFS3_READLINK] = {"READLINK", nfs3_decode_fh, op_readlink, FAIL_POST_OP, 0},
	[NFS3_READ] = {"READ", nfs3_decode_read, op_read, FAIL_POST_OP, 0},
	[NFS3_WRITE] = {"WRITE", nfs3_decode_write, op_write, FAIL_WCC, CHANGES | WCC_BEFORE},
	[NFS3_CREATE] = {"CREATE", nfs3_decode_create, op_create, FAIL_WCC, CHANGES | ONCE | WCC_BEFORE},
	[NFS3_MKDIR] = {"MKDIR", nfs3_decode_mkdir, op_mkdir, FAIL_WCC, CHANGES | ONCE | WCC_BEFORE},
	[NFS3_SYMLINK] = {"SYMLINK", nfs3_decode_symlink, op_symlink, FAIL_WCC, CHANGES | ONCE | WCC_BEFORE},
	[NFS3_MKNOD] = {"MKNOD", nfs3_decode_mknod, op_mknod, FAIL_WCC, CHANGES | ONCE | WCC_BEFORE},
	[NFS3_REMOVE] = {"REMOVE", nfs3_decode_dirop, op_remove, FAIL_WCC, CHANGES | ONCE | WCC_BEFORE},
	[NFS3_RMDIR] = {"RMDIR", nfs3_decode_dirop, op_rmdir, FAIL_WCC, CHANGES | ONCE | WCC_BEFORE},
	[NFS3_RENAME] = {"RENAME", nfs3_decode_rename, op_rename, FAIL_WCC_WCC, CHANGES | ONCE | WCC_BEFORE},
	[NFS3_LINK] = {"LINK", nfs3_decode_link, op_link, FAIL_POST_OP_WCC, CHANGES | ONCE},
	[NFS3_READDIR] = {"READDIR", nfs3_decode_readdir, op_readdir, FAIL_POST_OP, 0},
	[NFS3_READDIRPLUS] = {"READDIRPLUS", nfs3_decode_readdirplus, op_readdirplus, FAIL_POST_OP, 0},
	[NFS3_FSSTAT] = {"FSSTAT", nfs3_decode_fh, op_fsstat, FAIL_POST_OP, ANYBODY},
	[NFS3_FSINFO] = {"FSINFO", nfs3_decode_fh, op_fsinfo, FAIL_POST_OP, ANYBODY},
	[NFS3_PATHCONF] = {"PATHCONF", nfs3_decode_fh, op_pathconf, FAIL_POST_OP, ANYBODY},
	[NFS3_COMMIT] = {"COMMIT", nfs3_decode_commit, op_commit, FAIL_WCC, CHANGES | WCC_BEFORE},
};

static const struct proc acl_procs[NFSACL_PROCS] = {
	[NFSACL_NULL] = {"ACLNULL"},
	[NFSACL_GETACL] = {"GETACL", nfs3_decode_getacl, op_getacl, FAIL_POST_OP, ANYBODY},
	[NFSACL_SETACL] = {"SETACL", nfs3_decode_setacl, op_setacl, FAIL_POST_OP, CHANGES},
};

static void put_resfail(struct op *op, enum resfail fail)
{
	switch (fail) {
	case FAIL_VOID:
		break;
	case FAIL_POST_OP:
		put_post_op(op->w, op->obj);
		break;
	case FAIL_WCC:
		put_wcc(op->w, &op->wcc[0]);
		break;
	case FAIL_WCC_WCC:
		put_wcc(op->w, &op->wcc[0]);
		put_wcc(op->w, &op->wcc[1]);
		break;
	case FAIL_POST_OP_WCC:
		put_post_op(op->w, op->obj);
		put_wcc(op->w, &op->wcc[1]);
		break;
	}
}

static enum nfs3_status run(struct op *op, const struct proc *proc)
{
	struct server *srv = op->srv;
	int err = node_get(srv->nodes, srv->exports, srv->exports_len, &op->args.fh, &op->obj);
	if (err)
		return status_of(err);
	if (proc->flags & WCC_BEFORE)
		wcc_before(&op->wcc[0], op->obj);
	if (srv->read_only && (proc->flags & CHANGES))
		return NFS3ERR_ROFS;
	if (!(proc->flags & ANYBODY) && (err = op_become(op)))
		return status_of(err);
	return proc->run(op);
}

static void run_and_reply(struct op *op, const struct proc *proc)
{
	struct xdr_writer start = *op->w;
	xdr_put_u32(op->w, NFS3_OK);
	enum nfs3_status status = run(op, proc);
	if (status == NFS3_OK && op->w->stuck)
		status = NFS3ERR_SERVERFAULT;
	if (status != NFS3_OK) {
		*op->w = start;
		op->call->payload = NULL;
		op->call->payload_len_bytes = 0;
		xdr_put_u32(op->w, status);
		put_resfail(op, proc->fail);
	}
	if (status == NFS3ERR_STALE && op->obj)
		nodes_forget(op->srv->nodes, &op->obj->fh);
	node_put(op->obj);
	node_put(op->obj2);
}

static struct drc_key drc_key_of(const struct call *call, const struct rpc_call *rpc)
{
	static const uint8_t
		no_secret[SIPHASH_KEY_BYTES]; /* a checksum only: the cache hashes its keys itself */
	uint32_t len = call->msg_len_bytes < DRC_CHECKSUM_BYTES ? call->msg_len_bytes : DRC_CHECKSUM_BYTES;
	struct drc_key key = {
		.xid = rpc->xid,
		.proc = rpc->proc,
		.checksum = siphash64(no_secret, call->msg, len) ^ call->msg_len_bytes,
	};
	memcpy(key.addr, call->peer, sizeof key.addr);
	return key;
}

static void run_once(struct op *op, const struct rpc_call *rpc, const struct proc *proc)
{
	struct drc *drc = op->srv->drc;
	struct drc_key key = drc_key_of(op->call, rpc);
	struct drc_entry *entry;
	uint8_t replay[DRC_REPLY_MAX_BYTES];
	uint32_t len;
	if (drc_begin(drc, &key, &entry, replay, &len)) {
		run_and_reply(op, proc);
		drc_finish(drc, entry, op->w->start, (uint32_t)xdr_written(op->w));
		return;
	}
	/* The whole reply, RPC header included. */
	*op->w = xdr_writer(op->w->start, (size_t)(op->w->end - op->w->start));
	uint8_t *to = xdr_reserve(op->w, len);
	if (to)
		memcpy(to, replay, len);
}

const char *nfs3_proc_name(uint32_t proc)
{
	return proc < NFS3_PROCS ? procs[proc].name : acl_procs[proc - NFS3_PROCS].name;
}

static void serve(struct call *call, const struct rpc_call *rpc, struct xdr_reader *args,
		  const struct proc *proc)
{
	struct op op = {.call = call, .srv = call->srv, .cred = &rpc->cred, .w = &call->head};
	struct nfs3_ddp ddp = {call->msg, call->data, call->data_len_bytes, call->data_pos};
	if (proc->decode && !proc->decode(args, &ddp, &op.args)) {
		rpc_put_accepted(&call->head, rpc->xid, RPC_GARBAGE_ARGS);
		return;
	}
	rpc_put_accepted(&call->head, rpc->xid, RPC_SUCCESS);
	if (!proc->run)
		return;
	if (proc->flags & ONCE)
		run_once(&op, rpc, proc);
	else
		run_and_reply(&op, proc);
}

static bool serve_of(struct call *call, const struct rpc_call *rpc, struct xdr_reader *args,
		     const struct proc *table, uint32_t table_len, uint32_t counted_from)
{
	if (rpc->proc >= table_len) {
		rpc_put_accepted(&call->head, rpc->xid, RPC_PROC_UNAVAIL);
		return true;
	}
	serve(call, rpc, args, &table[rpc->proc]);
	counters_add(&call->srv->counters, counted_from + rpc->proc, call);
	return true;
}

bool nfs3_serve(struct call *call, const struct rpc_call *rpc, struct xdr_reader *args)
{
	return serve_of(call, rpc, args, procs, NFS3_PROCS, 0);
}

bool nfsacl_serve(struct call *call, const struct rpc_call *rpc, struct xdr_reader *args)
{
	return serve_of(call, rpc, args, acl_procs, NFSACL_PROCS, NFS3_PROCS);
}
