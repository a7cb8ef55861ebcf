/* SPDX-License-Identifier: MIT
 *
 * Operations on attributes: GETATTR, SETATTR, ACCESS, READLINK, FSSTAT, and the kernel's FORGET.
 */
#include "access.h"
#include "data.h"
#include "fs.h"
#include "fs_entry.h"
#include "lane_priv.h"
#include "xdr.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

/* ---- FORGET ---- */

void fs_forget(fuse_req_t req, fuse_ino_t ino, uint64_t nlookup)
{
	struct op *op = op_begin(req);

	inode_forget(inode_of(the_mount->inodes, ino), nlookup);
	op_reply_none(op);
}

void fs_forget_multi(fuse_req_t req, size_t count, struct fuse_forget_data *forgets)
{
	struct op *op = op_begin(req);

	for (size_t i = 0; i < count; i++)
		inode_forget(inode_of(the_mount->inodes, forgets[i].ino), forgets[i].nlookup);
	op_reply_none(op);
}

/* ---- GETATTR ---- */

#define GETATTR_TRIES 4u /* a reply that a change of ours has outrun is asked for again */

struct getattr {
	struct inode *inode;
	bool by_name; /* or what the name led to: not through an open file */
	unsigned int tries;
};

static void getattr_send(struct op *op);

static void on_getattr(struct op *op, int err, struct xdr_reader *results)
{
	struct getattr *g = op_state(op, struct getattr);
	struct nfs3_attr_res res;
	int verdict = 0;

	if (!err)
		err = nfs3_getattr_verdict(results, &res);
	if (!err) {
		verdict = inode_take_attr(g->inode, &res.attr, op->submitted_ns, lane_now(op->lane));
		err = fs_verdict(g->inode, verdict);
	}
	if (!err && g->by_name && file_data_opens(&g->inode->data) == 0 &&
	    inode_is_nameless(g->inode, op->tid))
		err = -ESTALE; /* the kernel looks the name up again: it may be another file's by now */
	if (err)
		op_reply_err(op, err);
	else if (verdict == ATTR_DISCARDED && ++g->tries < GETATTR_TRIES)
		getattr_send(op);
	else
		fs_reply_attr(op, g->inode);
}

static void getattr_send(struct op *op)
{
	op_rpc(op, NFSPROC3_GETATTR, op_cred(op), &op_state(op, struct getattr)->inode->fh, on_getattr);
}

static void getattr_begin(struct op *op)
{
	struct getattr *g = op_state(op, struct getattr);
	struct stat st;
	uint64_t valid_ns;

	/* While there is no connection, what was last said of the whole file system and of its root is said
	 * again: umount(8) asks for both before it unmounts, and must not wait for a server that never comes
	 * back. */
	bool memory = inode_number(g->inode) == FUSE_ROOT_ID && !lane_connected(op->lane);
	if (inode_stat(g->inode, fs_clock(), &st, &valid_ns) &&
	    ((valid_ns && inode_has_news(g->inode)) || memory))
		fs_reply_attr(op, g->inode);
	else
		getattr_send(op);
}

/* The kernel asks when what it was told has expired, when it has done something to the file itself (then the
 * reply to that has often brought the attributes), or when it does not trust what it was told. */
void fs_getattr(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	struct op *op = op_begin(req);
	struct getattr *g = op_state(op, struct getattr);

	g->inode = fs_inode(op, ino);
	g->by_name = !fi;
	if (g->inode->type == NFS3_REG && data_unanswered(g->inode))
		data_drain(op, g->inode, getattr_begin); /* a write is to be seen in the times */
	else
		getattr_begin(op);
}

/* ---- SETATTR ---- */

struct setattr {
	struct getattr g; /* first: the reply without attributes goes on as GETATTR */
	struct open_file *file;
	struct nfs3_sattr attr;
};

/* Through a handle, the opener asks; by name, the caller. */
static const struct cred *setattr_cred(struct op *op, struct setattr *s)
{
	return s->file ? &s->file->cred : op_cred(op);
}

static void setattr_done(struct op *op, int err)
{
	struct setattr *s = op_state(op, struct setattr);

	if (s->attr.set_size)
		data_truncate_end(op, s->g.inode, s->attr.size, err == 0);
	if (s->file)
		open_file_unref(s->file);
	s->file = NULL;
}

static void on_setattr(struct op *op, int err, struct xdr_reader *results)
{
	struct setattr *s = op_state(op, struct setattr);
	struct nfs3_wcc_res res;
	bool decoded = false;

	if (!err)
		err = nfs3_decode_setattr(results, &res);
	decoded = !err;
	if (!err)
		err = nfs3_errno(res.status);
	int stale = fs_verdict(s->g.inode, inode_change_end(s->g.inode, decoded ? &res.wcc : NULL,
							    op->submitted_ns, lane_now(op->lane)));

	if (!err)
		err = stale;
	setattr_done(op, err);
	if (err)
		op_reply_err(op, err);
	else if (res.wcc.after.present)
		fs_reply_attr(op, s->g.inode);
	else
		getattr_send(op);
}

static void setattr_send(struct op *op)
{
	struct setattr *s = op_state(op, struct setattr);
	struct nfs3_setattr_args args = {.object = &s->g.inode->fh, .attr = s->attr};

	inode_change_begin(s->g.inode);
	op_rpc(op, NFSPROC3_SETATTR, setattr_cred(op, s), &args, on_setattr);
}

/* ORDER: the data first. Data that is sent again after the server's restart would set another mtime, and may
 * no longer be permitted to its writer after a chmod or chown. What is lost is its writer's to hear of. */
static void setattr_synced(struct op *op)
{
	struct setattr *s = op_state(op, struct setattr);

	if (s->attr.set_size)
		data_truncate_begin(op, s->g.inode, setattr_send);
	else
		setattr_send(op);
}

/* Times on the wire are unsigned 32-bit seconds: what lies outside becomes the nearest. */
static struct nfs3_time to_nfs_time(struct timespec t)
{
	if (t.tv_sec < 0)
		return (struct nfs3_time){0, 0};
	if (t.tv_sec > UINT32_MAX)
		return (struct nfs3_time){UINT32_MAX, 0};
	return (struct nfs3_time){(uint32_t)t.tv_sec, (uint32_t)t.tv_nsec};
}

static enum nfs3_time_how time_how(int to_set, int set, int now)
{
	if (to_set & now)
		return NFS3_TIME_SERVER;
	return to_set & set ? NFS3_TIME_CLIENT : NFS3_TIME_KEEP;
}

static struct nfs3_sattr to_sattr(const struct stat *st, int to_set)
{
	return (struct nfs3_sattr){
		.set_mode = to_set & FUSE_SET_ATTR_MODE,
		.set_uid = to_set & FUSE_SET_ATTR_UID,
		.set_gid = to_set & FUSE_SET_ATTR_GID,
		.set_size = to_set & FUSE_SET_ATTR_SIZE,
		.mode = st->st_mode & 07777,
		.uid = st->st_uid,
		.gid = st->st_gid,
		.size = (uint64_t)st->st_size,
		.atime_how = time_how(to_set, FUSE_SET_ATTR_ATIME, FUSE_SET_ATTR_ATIME_NOW),
		.mtime_how = time_how(to_set, FUSE_SET_ATTR_MTIME, FUSE_SET_ATTR_MTIME_NOW),
		.atime = to_nfs_time(st->st_atim),
		.mtime = to_nfs_time(st->st_mtim),
	};
}

static bool sets_anything(const struct nfs3_sattr *a)
{
	return a->set_mode || a->set_uid || a->set_gid || a->set_size || a->atime_how != NFS3_TIME_KEEP ||
	       a->mtime_how != NFS3_TIME_KEEP;
}

static bool only_size(const struct nfs3_sattr *a)
{
	return a->set_size && !a->set_mode && !a->set_uid && !a->set_gid && a->atime_how == NFS3_TIME_KEEP &&
	       a->mtime_how == NFS3_TIME_KEEP;
}

void fs_setattr(fuse_req_t req, fuse_ino_t ino, struct stat *attr, int to_set, struct fuse_file_info *fi)
{
	struct op *op = op_begin(req);
	struct setattr *s = op_state(op, struct setattr);
	struct open_file *file = open_file_of(fi);

	s->g.inode = fs_inode(op, ino);
	s->attr = to_sattr(attr, to_set);
	if (s->attr.set_size && (uint64_t)attr->st_size > the_mount->maxfilesize) {
		op_reply_err(op, -EFBIG);
		return;
	}
	op->run_to_end = true;
	s->file = file ? open_file_ref(file) : NULL;
	if (!sets_anything(&s->attr)) { /* a ctime alone: the server's business */
		setattr_done(op, 0);
		getattr_send(op);
	} else if (s->g.inode->type == NFS3_REG && !only_size(&s->attr)) {
		data_sync(op, s->g.inode, setattr_synced);
	} else {
		setattr_synced(op);
	}
}

/* ---- ACCESS ---- */

static void may_end(struct op *op, int err)
{
	op->may.then(op, err);
}

static void on_may_getattr(struct op *op, int err, struct xdr_reader *results)
{
	struct nfs3_attr_res res;

	if (!err)
		err = nfs3_getattr_verdict(results, &res);
	if (!err)
		err = fs_verdict(op->may.inode, inode_take_attr(op->may.inode, &res.attr, op->submitted_ns,
								lane_now(op->lane)));
	may_end(op, err);
}

static void on_may_access(struct op *op, int err, struct xdr_reader *results)
{
	struct inode *inode = op->may.inode;
	struct nfs3_access_res res;

	if (!err)
		err = nfs3_decode_access(results, access_wanted(inode->type, R_OK | W_OK | X_OK), &res);
	if (!err) {
		err = fs_take(op, inode, &res.attr);
		if (!err)
			err = nfs3_errno(res.status);
	}
	if (!err) {
		if (res.attr.present)
			inode_access_store(inode, &res.attr.attr, op_cred(op),
					   access_wanted(inode->type, R_OK | W_OK | X_OK), res.access);
		err = (res.access & op->may.asked) == op->may.asked ? 0 : -EACCES;
	}
	may_end(op, err);
}

/* Asks for all there is to ask, so that the answer serves the caller's next question, too. */
void fs_may(struct op *op, struct inode *inode, uint32_t access, bool fresh,
	    void (*then)(struct op *op, int err))
{
	const struct cred *cred = op_cred(op);
	uint32_t granted;

	op->may.then = then;
	op->may.inode = inode;
	op->may.asked = access;
	bool known = cred && inode_access_known(inode, cred, access, fs_clock(), &granted);
	if (known)
		op->lane->stats->fuse.access_known++;
	else
		op->lane->stats->fuse.access_asked++;
	if (!known)
		op_rpc(op, NFSPROC3_ACCESS, cred,
		       &(struct nfs3_access_args){.object = &inode->fh,
						  .access = access_wanted(inode->type, R_OK | W_OK | X_OK)},
		       on_may_access);
	else if (granted != access)
		then(op, -EACCES);
	else if (fresh)
		op_rpc(op, NFSPROC3_GETATTR, cred, &inode->fh, on_may_getattr);
	else
		then(op, 0);
}

static void on_access(struct op *op, int err)
{
	op_reply_err(op, err);
}

void fs_access(fuse_req_t req, fuse_ino_t ino, int mask)
{
	struct op *op = op_begin(req);
	struct inode *inode = fs_inode(op, ino);

	fs_may(op, inode, access_wanted(inode->type, mask), false, on_access);
}

/* ---- READLINK ---- */

/* The text is placed in the op's run, or comes in the message and is copied there; it wants a NUL. */
#define LINK_RUN_BYTES (NFS3_PATH_MAX + 1)

static void on_readlink(struct op *op, int err, struct xdr_reader *results)
{
	struct inode *inode = op->inodes[0];
	struct nfs3_readlink_res res;

	if (!err)
		err = nfs3_decode_readlink(results, op->placed_bytes, &res);
	if (!err) {
		err = fs_take(op, inode, &res.attr);
		if (!err)
			err = nfs3_errno(res.status);
	}
	if (!err && res.path)
		memcpy(op->run, res.path, res.len);
	if (!err && !nfs3_path_ok(op->run, res.len))
		err = -EIO;
	if (err) {
		op_reply_err(op, err);
		return;
	}
	op->run[res.len] = '\0';
	op_reply_readlink(op, op->run);
}

static void readlink_send(struct op *op)
{
	op->in = (struct iovec){op->run, NFS3_PATH_MAX};
	op->count = NFS3_PATH_MAX;
	op_rpc(op, NFSPROC3_READLINK, op_cred(op), &op->inodes[0]->fh, on_readlink);
}

void fs_readlink(fuse_req_t req, fuse_ino_t ino)
{
	struct op *op = op_begin(req);

	fs_inode(op, ino);
	op_run_get(op, LINK_RUN_BYTES, readlink_send);
}

/* ---- FSSTAT ---- */

#define STATFS_BLOCK_BYTES 4096u /* what sizes are counted in; NFSv3 has no block size of its own */

static pthread_mutex_t last_fsstat_lock = PTHREAD_MUTEX_INITIALIZER; /* shared by the lanes */
static struct statvfs last_fsstat = {.f_bsize = STATFS_BLOCK_BYTES, .f_frsize = STATFS_BLOCK_BYTES};

static struct statvfs recall_fsstat(void)
{
	pthread_mutex_lock(&last_fsstat_lock);
	struct statvfs st = last_fsstat;
	pthread_mutex_unlock(&last_fsstat_lock);
	return st;
}

static void remember_fsstat(const struct statvfs *st)
{
	pthread_mutex_lock(&last_fsstat_lock);
	last_fsstat = *st;
	pthread_mutex_unlock(&last_fsstat_lock);
}

static void on_fsstat(struct op *op, int err, struct xdr_reader *results)
{
	struct nfs3_fsstat_res res;

	if (!err)
		err = nfs3_decode_fsstat(results, &res);
	if (!err) {
		err = fs_take(op, op->inodes[0], &res.attr);
		if (!err)
			err = nfs3_errno(res.status);
	}
	if (err) {
		op_reply_err(op, err);
		return;
	}
	struct statvfs st = {
		.f_bsize = STATFS_BLOCK_BYTES,
		.f_frsize = STATFS_BLOCK_BYTES,
		.f_blocks = res.total_bytes / STATFS_BLOCK_BYTES +
			    (res.total_bytes % STATFS_BLOCK_BYTES != 0), /* one without blocks is none */
		.f_bfree = res.free_bytes / STATFS_BLOCK_BYTES,
		.f_bavail = res.avail_bytes / STATFS_BLOCK_BYTES,
		.f_files = res.total_files,
		.f_ffree = res.free_files,
		.f_favail = res.avail_files,
		.f_namemax = the_mount->name_max,
	};
	remember_fsstat(&st);
	op_reply_statfs(op, &st);
}

void fs_statfs(fuse_req_t req, fuse_ino_t ino)
{
	struct op *op = op_begin(req);
	struct inode *inode = fs_inode(op, ino);

	if (!lane_connected(op->lane)) { /* see fs_getattr() */
		struct statvfs st = recall_fsstat();
		st.f_namemax = the_mount->name_max;
		op_reply_statfs(op, &st);
		return;
	}
	op_rpc(op, NFSPROC3_FSSTAT, op_cred(op), &inode->fh, on_fsstat);
}
