/* SPDX-License-Identifier: MIT
 *
 * One NFSv3 procedure under way: what the procedures share.
 *
 * A procedure is a function from struct op to a status. On success it has written its resok to w; on failure
 * it has written nothing that counts: the dispatcher writes the status and the resfail that the table of
 * procedures names, out of what the procedure left in obj and wcc.
 */
#ifndef EXPORTD_OP_H
#define EXPORTD_OP_H

#include "rpc.h"
#include "server.h"

struct wcc {
	struct node *node; /* lent; NULL: neither attributes are known */
	bool have_before;
	struct stat before;
};

struct op {
	struct call *call;
	struct server *srv;
	const struct cred *cred;
	struct nfs3_args args;
	struct node *obj;  /* of args.fh */
	struct node *obj2; /* of args.fh2, once the procedure has asked for it */
	struct wcc wcc[2]; /* of obj, of obj2 */
	struct xdr_writer *w;
};

typedef enum nfs3_status op_run(struct op *op);

op_run op_getattr, op_setattr, op_access, op_readlink, op_fsstat, op_fsinfo, op_pathconf; /* op_attr.c */
op_run op_read, op_write, op_commit;							  /* op_io.c */
op_run op_lookup, op_create, op_mkdir, op_symlink, op_mknod, op_remove, op_rmdir, op_rename,
	op_link;		   /* op_name.c */
op_run op_readdir, op_readdirplus; /* op_dir.c */
op_run op_getacl, op_setacl;	   /* op_acl.c */

/* The status of a negative errno, or NFS3_OK. */
enum nfs3_status status_of(int err);

/* obj2 of args.fh2. -EXDEV: in another export. */
int op_second(struct op *op);
/* The thread gets the caller's rights. */
int op_become(struct op *op);
void wcc_before(struct wcc *wcc, struct node *node);

/* A directory entry's name as a terminated string; enum nfs3_status says what is wrong with it. */
struct name {
	char s[NFS3_NAME_MAX_BYTES + 1];
};
enum nfs3_status name_check(const struct nfs3_name *name, struct name *out);
bool name_is_dots(const struct name *name); /* "." or ".." */

void put_fattr(struct xdr_writer *w, const struct stat *st);
void put_post_op(struct xdr_writer *w, struct node *node); /* node may be NULL */
void put_wcc(struct xdr_writer *w, const struct wcc *wcc);
void put_fh(struct xdr_writer *w, const struct fh *fh);

/* Applies what attr sets to the node. as: the thread is the caller by now. */
int attr_apply(struct op *op, struct node *node, const struct nfs3_sattr *attr);

#endif
