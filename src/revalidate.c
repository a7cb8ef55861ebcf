/* SPDX-License-Identifier: MIT */
#include "revalidate.h"

#include "data.h"
#include "fs_entry.h"
#include "lane_priv.h"
#include "mount.h"
#include "notify.h"
#include "xdr.h"

#include <errno.h>
#include <stdlib.h>

#define SECOND_NS 1000000000ull
#define FILES_MAX 256u /* of one look; the next finds the rest */

/* The lane's, made once: looking takes no memory. */
struct revalidation {
	struct op *op;			/* NULL: nothing is being asked */
	struct inode *files[FILES_MAX]; /* each holds a reference until it is asked for */
	unsigned int nfiles;		/* left */
	struct cred cred;		/* of who has the last one open: GETATTR asks for no rights */
};

static void ask_next(struct op *op);

static void on_getattr(struct op *op, int err, struct xdr_reader *results)
{
	struct revalidation *r = op->lane->revalidation;
	struct nfs3_attr_res res;

	if (r->op != op) { /* stopped */
		op_reply_none(op);
		return;
	}
	struct inode *file = r->files[--r->nfiles];
	if (!err)
		err = nfs3_getattr_verdict(results, &res);
	if (!err)
		err = fs_take(op, file, &(struct nfs3_post_attr){.present = true, .attr = res.attr});
	if (err == -ESTALE) /* the next read(2) shall hear it */
		notify_inval_inode(the_mount->notify, file);
	inode_unref(file);
	ask_next(op);
}

static void ask_next(struct op *op)
{
	struct revalidation *r = op->lane->revalidation;

	if (r->nfiles) {
		op_rpc(op, NFSPROC3_GETATTR, &r->cred, &r->files[r->nfiles - 1]->fh, on_getattr);
		return;
	}
	r->op = NULL;
	op_reply_none(op);
}

static void forget_rest(struct revalidation *r)
{
	while (r->nfiles)
		inode_unref(r->files[--r->nfiles]);
}

static void ask(struct lane *lane)
{
	struct revalidation *r = lane->revalidation;

	r->nfiles = data_outdated_files(lane_now(lane), r->files, FILES_MAX, &r->cred);
	r->op = r->nfiles ? op_begin_own(lane) : NULL;
	if (r->op)
		ask_next(r->op);
	else
		forget_rest(r);
}

static void on_look(struct lane_timer *timer)
{
	struct lane *lane = (struct lane *)((char *)timer - offsetof(struct lane, revalidate_timer));

	if (atomic_load(&lane->stop) || !data_still_open())
		return;
	if (!lane->revalidation->op && lane_connected(lane))
		ask(lane);
	revalidate_start(lane);
}

void revalidate_start(struct lane *lane)
{
	const struct attr_limits *limits = inode_limits(the_mount->inodes);
	uint64_t least = limits->reg_min_ns;

	if (limits->noac || limits->reg_max_ns == 0) /* the kernel asks before each read(2) */
		return;
	if (!lane->revalidation)
		lane->revalidation = calloc(1, sizeof *lane->revalidation);
	if (!lane->revalidation)
		return;
	lane_timer_set(lane, &lane->revalidate_timer,
		       lane_now(lane) + (least > SECOND_NS ? least : SECOND_NS), on_look);
}

void revalidate_stop(struct lane *lane)
{
	struct revalidation *r = lane->revalidation;

	if (!r || !r->op)
		return;
	struct op *op = r->op;

	r->op = NULL;
	op_cancel(op);
	forget_rest(r);
}

void revalidate_free(struct lane *lane)
{
	free(lane->revalidation);
}
