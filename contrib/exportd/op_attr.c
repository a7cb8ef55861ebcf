/* SPDX-License-Identifier: MIT
 *
 * Procedures on an object's attributes and on its file system.
 */
#include "op.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/statvfs.h>
#include <unistd.h>

enum nfs3_status op_getattr(struct op *op)
{
	struct stat st;
	int err = node_stat(op->obj, &st);
	if (err)
		return status_of(err);
	put_fattr(op->w, &st);
	return NFS3_OK;
}

static int set_size(struct op *op, struct node *node, uint64_t size)
{
	struct node_file *file;
	int fd;
	if (S_ISDIR(node->type))
		return -EISDIR;
	if (!S_ISREG(node->type))
		return -EINVAL;
	if (size > INT64_MAX)
		return -EFBIG;
	int err = node_file_get(node, op->cred, FILE_WRITE, &file, &fd);
	if (err)
		return err;
	/* As the caller: the kernel clears the set-id bits where it should. */
	if (ftruncate(fd, (off_t)size) < 0)
		err = -errno;
	node_file_put(node, file);
	return err;
}

static int set_owner(struct node *node, const struct nfs3_sattr *a)
{
	if (!a->set_uid && !a->set_gid)
		return 0;
	uid_t uid = a->set_uid ? a->uid : (uid_t)-1;
	gid_t gid = a->set_gid ? a->gid : (gid_t)-1;
	/* Without rights an ordinary user's server, and a squashed root, may still set what is set
	 * already. */
	if (fchownat(node->fd, "", uid, gid, AT_EMPTY_PATH) < 0)
		return -errno;
	return 0;
}

static int set_mode(struct node *node, const struct nfs3_sattr *a)
{
	char path[NODE_PATH_BYTES];
	if (!a->set_mode)
		return 0;
	if (S_ISLNK(node->type))
		return 0; /* Linux has no mode of a link: every client sees 0777 */
	return chmod(node_path(node, path), a->mode & 07777) < 0 ? -errno : 0;
}

static struct timespec time_arg(enum nfs3_time_how how, const struct nfs3_time *t)
{
	switch (how) {
	case SET_TO_SERVER_TIME:
		return (struct timespec){.tv_nsec = UTIME_NOW};
	case SET_TO_CLIENT_TIME:
		return (struct timespec){.tv_sec = t->sec, .tv_nsec = t->nsec};
	default:
		return (struct timespec){.tv_nsec = UTIME_OMIT};
	}
}

static int set_times(struct node *node, const struct nfs3_sattr *a)
{
	struct timespec ts[2] = {time_arg(a->atime_how, &a->atime), time_arg(a->mtime_how, &a->mtime)};
	if (a->atime_how == DONT_CHANGE && a->mtime_how == DONT_CHANGE)
		return 0;
	/* UTIME_NOW and UTIME_OMIT are above this too: a client cannot smuggle them in. */
	if ((a->atime_how == SET_TO_CLIENT_TIME && a->atime.nsec >= 1000000000) ||
	    (a->mtime_how == SET_TO_CLIENT_TIME && a->mtime.nsec >= 1000000000))
		return -EINVAL;
	return utimensat(node->fd, "", ts, AT_EMPTY_PATH) < 0 ? -errno : 0;
}

/* ORDER: the size while the mode still allows it; the owner before the mode, because a change of owner clears
 * set-id bits; the times last, because all the others move them. */
int attr_apply(struct op *op, struct node *node, const struct nfs3_sattr *a)
{
	int err = a->set_size ? set_size(op, node, a->size) : 0;
	if (!err)
		err = set_owner(node, a);
	if (!err)
		err = set_mode(node, a);
	if (!err)
		err = set_times(node, a);
	if (a->set_mode || a->set_uid || a->set_gid)
		node_files_close(node);
	return err;
}

enum nfs3_status op_setattr(struct op *op)
{
	const struct stat *st = &op->wcc[0].before;
	if (!op->wcc[0].have_before)
		return NFS3ERR_STALE;
	if (op->args.guarded && (op->args.guard.sec != (uint32_t)st->st_ctim.tv_sec ||
				 op->args.guard.nsec != (uint32_t)st->st_ctim.tv_nsec))
		return NFS3ERR_NOT_SYNC;
	int err = attr_apply(op, op->obj, &op->args.attr);
	if (err)
		return status_of(err);
	put_wcc(op->w, &op->wcc[0]);
	return NFS3_OK;
}

static const struct {
	uint32_t file, dir; /* bits of ACCESS */
	int mode;
	bool changes;
} accesses[] = {
	{ACCESS3_READ, ACCESS3_READ, R_OK, false},
	{ACCESS3_MODIFY | ACCESS3_EXTEND, ACCESS3_MODIFY | ACCESS3_EXTEND | ACCESS3_DELETE, W_OK, true},
	{ACCESS3_EXECUTE, ACCESS3_LOOKUP, X_OK, false},
};

enum nfs3_status op_access(struct op *op)
{
	uint32_t granted = 0;
	/* An ordinary user's server grants nothing to others, and says so rather than fail. */
	bool may = op_become(op) == 0;
	for (size_t i = 0; may && i < sizeof accesses / sizeof *accesses; i++) {
		uint32_t bits =
			op->args.access & (S_ISDIR(op->obj->type) ? accesses[i].dir : accesses[i].file);
		if (!bits || (accesses[i].changes && op->srv->read_only))
			continue;
		if (faccessat(op->obj->fd, "", accesses[i].mode, AT_EMPTY_PATH | AT_EACCESS) == 0)
			granted |= bits;
	}
	put_post_op(op->w, op->obj);
	xdr_put_u32(op->w, granted);
	return NFS3_OK;
}

enum nfs3_status op_readlink(struct op *op)
{
	char text[NFS3_LINK_MAX_BYTES + 1];
	if (!S_ISLNK(op->obj->type))
		return NFS3ERR_INVAL;
	ssize_t len = readlinkat(op->obj->fd, "", text, sizeof text);
	if (len < 0)
		return status_of(-errno);
	if ((size_t)len > op->call->payload_max_bytes)
		return NFS3ERR_SERVERFAULT; /* the client made no room for it */
	uint8_t *to = op->call->payload_buffer(op->call, (uint32_t)len);
	if (!to)
		return NFS3ERR_SERVERFAULT;
	memcpy(to, text, (size_t)len);
	op->call->payload = to;
	op->call->payload_len_bytes = (uint32_t)len;
	put_post_op(op->w, op->obj);
	xdr_put_u32(op->w, (uint32_t)len);
	return NFS3_OK;
}

enum nfs3_status op_fsstat(struct op *op)
{
	struct statvfs v;
	if (fstatvfs(op->obj->fd, &v) < 0)
		return status_of(-errno);
	put_post_op(op->w, op->obj);
	xdr_put_u64(op->w, (uint64_t)v.f_blocks * v.f_frsize);
	xdr_put_u64(op->w, (uint64_t)v.f_bfree * v.f_frsize);
	xdr_put_u64(op->w, (uint64_t)v.f_bavail * v.f_frsize);
	xdr_put_u64(op->w, v.f_files);
	xdr_put_u64(op->w, v.f_ffree);
	xdr_put_u64(op->w, v.f_favail);
	xdr_put_u32(op->w, 0); /* invarsec: may change at any time */
	return NFS3_OK;
}

enum fsinfo_properties {
	FSF3_LINK = 0x01,
	FSF3_SYMLINK = 0x02,
	FSF3_HOMOGENEOUS = 0x08,
	FSF3_CANSETTIME = 0x10,
};

enum nfs3_status op_fsinfo(struct op *op)
{
	put_post_op(op->w, op->obj);
	xdr_put_u32(op->w, NFS3_IO_MAX_BYTES); /* rtmax, rtpref, rtmult */
	xdr_put_u32(op->w, NFS3_IO_MAX_BYTES);
	xdr_put_u32(op->w, 4096);
	xdr_put_u32(op->w, NFS3_IO_MAX_BYTES); /* wtmax, wtpref, wtmult */
	xdr_put_u32(op->w, NFS3_IO_MAX_BYTES);
	xdr_put_u32(op->w, 4096);
	xdr_put_u32(op->w, DIR_REPLY_MAX_BYTES); /* dtpref */
	xdr_put_u64(op->w, INT64_MAX);		 /* maxfilesize */
	xdr_put_u32(op->w, 0);			 /* time_delta: 1 ns */
	xdr_put_u32(op->w, 1);
	xdr_put_u32(op->w, FSF3_LINK | FSF3_SYMLINK | FSF3_HOMOGENEOUS | FSF3_CANSETTIME);
	return NFS3_OK;
}

enum nfs3_status op_pathconf(struct op *op)
{
	long links = fpathconf(op->obj->fd, _PC_LINK_MAX);
	put_post_op(op->w, op->obj);
	xdr_put_u32(op->w, links > 0 ? (uint32_t)links : _POSIX_LINK_MAX);
	xdr_put_u32(op->w, NFS3_NAME_MAX_BYTES);
	xdr_put_u32(op->w, true);  /* no_trunc */
	xdr_put_u32(op->w, true);  /* chown_restricted */
	xdr_put_u32(op->w, false); /* case_insensitive */
	xdr_put_u32(op->w, true);  /* case_preserving */
	return NFS3_OK;
}
