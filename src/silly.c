/* SPDX-License-Identifier: MIT */
#include "silly.h"

#include "fs.h"
#include "fs_entry.h"
#include "lane_priv.h"
#include "log.h"
#include "xdr.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#define CLEANUP_AGAIN_NS 10000000u /* 10 ms until another try for an op of the lane's own */

static uint32_t next_counter(void)
{
	static atomic_uint counter;
	static atomic_bool seeded;
	uint32_t seed;

	if (!atomic_exchange(&seeded, true) && getrandom(&seed, sizeof seed, GRND_NONBLOCK) == sizeof seed)
		atomic_fetch_add(&counter, seed);
	return atomic_fetch_add(&counter, 1);
}

struct silly *silly_new(struct inode *dir, uint64_t fileid, const struct cred *cred)
{
	struct silly *silly = calloc(1, sizeof *silly);

	if (!silly)
		return NULL;
	silly->dir = inode_ref(dir);
	silly->cred = *cred;
	silly_name(silly->name, fileid, next_counter());
	return silly;
}

void silly_free(struct silly *silly)
{
	if (!silly)
		return;
	inode_unref(silly->dir);
	free(silly);
}

struct silly *silly_detach(struct inode *inode)
{
	pthread_mutex_lock(&inode->lock);
	struct silly *silly = inode->silly;
	inode->silly = NULL;
	pthread_mutex_unlock(&inode->lock);
	return silly;
}

bool silly_has(struct inode *inode, const char *name, bool *same_name)
{
	pthread_mutex_lock(&inode->lock);
	bool has = inode->silly;
	*same_name = has && strcmp(inode->silly->name, name) == 0;
	pthread_mutex_unlock(&inode->lock);
	return has;
}

/* ORDER: first the name, then the look at the open files; a close does it the other way round, and one of the
 * two sees both. */
void silly_attach(struct inode *inode, struct silly *silly)
{
	pthread_mutex_lock(&inode->lock);
	inode->silly = silly;
	pthread_mutex_unlock(&inode->lock);
	if (file_data_opens(&inode->data) == 0)
		fs_last_close(inode);
}

/* ---- the clean-up ---- */

struct cleanup {
	struct silly *silly;
};

static void on_removed(struct op *op, int err, struct xdr_reader *results)
{
	struct silly *silly = op_state(op, struct cleanup)->silly;
	struct nfs3_wcc_res res;

	if (!err)
		err = nfs3_decode_remove(results, &res);
	fs_changed(op, silly->dir, err ? NULL : &res.wcc);
	if (!err)
		err = nfs3_errno(res.status);
	if (err && err != -ENOENT && err != -ESTALE)
		log_warning("%s: cannot remove %s, a file that was removed while open: %s; it stays",
			    the_mount->source, silly->name, strerror(-err));
	inode_names_changed(the_mount->inodes, lane_now(op->lane));
	silly_free(silly);
	op_reply_none(op);
}

static void cleanup(struct silly *silly);

static void on_again(struct lane_timer *timer)
{
	struct silly *silly = (struct silly *)(void *)((char *)timer - offsetof(struct silly, timer));

	silly->lane->cleanups_wait--;
	cleanup(silly);
}

static void cleanup(struct silly *silly)
{
	struct op *op = op_begin_own(silly->lane);

	if (!op) {
		silly->lane->cleanups_wait++;
		lane_timer_set(silly->lane, &silly->timer, lane_now(silly->lane) + CLEANUP_AGAIN_NS,
			       on_again);
		return;
	}
	op_state(op, struct cleanup)->silly = silly;
	inode_change_begin(silly->dir);
	op_rpc(op, NFSPROC3_REMOVE, &silly->cred,
	       &(struct nfs3_dirop){.dir = &silly->dir->fh, .name = silly->name}, on_removed);
}

void fs_last_close(struct inode *inode)
{
	struct silly *silly = silly_detach(inode);

	if (!silly)
		return;
	silly->lane = lane_self();
	cleanup(silly);
}

static void sweep_up(struct inode *inode, void *ctx)
{
	struct silly **list = ctx;

	if (!inode->silly)
		return;
	inode->silly->next = *list;
	*list = inode->silly;
	inode->silly = NULL;
}

void silly_sweep(struct lane *lane)
{
	struct silly *list = NULL;

	inode_each(the_mount->inodes, sweep_up, &list);
	while (list) {
		struct silly *silly = list;

		list = silly->next;
		silly->lane = lane;
		cleanup(silly);
	}
}
