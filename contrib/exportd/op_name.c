/* SPDX-License-Identifier: MIT
 *
 * Procedures on names in a directory. A name is one component without '/', below a descriptor that lies in
 * the export: the *at() calls cannot leave it, and what would look *at* an object goes through
 * open_beneath(), which does not cross into a mount. The kernel refuses to remove or rename a mount point
 * (EBUSY) without asking who is mounted there.
 */
#include "op.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/sysmacros.h>
#include <unistd.h>

/* Takes fd, which was just found or made as name in dir, over as a node. */
static int child_node(struct op *op, struct node *dir, int fd, const char *name, struct node **child)
{
	struct stat st;
	struct fh fh;
	int err = fstat(fd, &st) < 0 ? -errno : export_fh(dir->export, fd, &st, dir->fd, name, &fh);
	if (err) {
		close(fd);
		return err;
	}
	return node_adopt(op->srv->nodes, dir->export, &fh, fd, st.st_mode, child);
}

static int child_lookup(struct op *op, struct node *dir, const char *name, struct node **child)
{
	int fd = open_beneath(dir->fd, name, O_PATH | O_NOFOLLOW, 0);
	return fd < 0 ? fd : child_node(op, dir, fd, name, child);
}

static int parent_lookup(struct op *op, struct node *dir, struct node **parent)
{
	int fd = export_open_parent(dir->export, dir->fd);
	return fd < 0 ? fd : child_node(op, dir, fd, NULL, parent);
}

static int lookup(struct op *op, const struct name *name, struct node **child)
{
	if (!S_ISDIR(op->obj->type))
		return -ENOTDIR;
	if (strcmp(name->s, "..") == 0)
		return parent_lookup(op, op->obj, child);
	if (strcmp(name->s, ".") != 0)
		return child_lookup(op, op->obj, name->s, child);
	int fd = node_path_of(op->obj->fd);
	return fd < 0 ? fd : child_node(op, op->obj, fd, NULL, child);
}

enum nfs3_status op_lookup(struct op *op)
{
	struct name name;
	struct node *child;
	enum nfs3_status status = name_check(&op->args.name, &name);
	if (status)
		return status;
	int err = lookup(op, &name, &child);
	if (err)
		return status_of(err);
	put_fh(op->w, &child->fh);
	put_post_op(op->w, child);
	put_post_op(op->w, op->obj);
	node_put(child);
	return NFS3_OK;
}

/* A name that is to be made. */
static enum nfs3_status new_name(struct op *op, const struct nfs3_name *arg, struct name *name)
{
	enum nfs3_status status = name_check(arg, name);
	if (status)
		return status;
	return name_is_dots(name) ? NFS3ERR_EXIST : NFS3_OK;
}

/* What creation has done already is not done again; owners are root's to give. */
static struct nfs3_sattr left_to_set(const struct op *op, bool mode_done)
{
	struct nfs3_sattr a = op->args.attr;
	if (mode_done)
		a.set_mode = false;
	if (op->cred->uid != 0)
		a.set_uid = a.set_gid = false;
	if (a.size == 0)
		a.set_size = false;
	return a;
}

/* resok of CREATE, MKDIR, SYMLINK and MKNOD; ends the reference. */
static enum nfs3_status put_created(struct op *op, struct node *child)
{
	xdr_put_u32(op->w, true);
	put_fh(op->w, &child->fh);
	put_post_op(op->w, child);
	put_wcc(op->w, &op->wcc[0]);
	node_put(child);
	return NFS3_OK;
}

static enum nfs3_status finish_created(struct op *op, struct node *child, bool mode_done)
{
	struct nfs3_sattr attr = left_to_set(op, mode_done);
	if (!S_ISREG(child->type))
		attr.set_size = false;
	int err = attr_apply(op, child, &attr);
	if (err) {
		node_put(child);
		return status_of(err);
	}
	return put_created(op, child);
}

/* The verifier of an exclusive create is kept in the times, as Linux does it: 31 bits each, which every file
 * system can store. The client sets the true times next. */
static void verf_times(const uint8_t verf[NFS3_VERF_BYTES], struct timespec ts[2])
{
	for (int i = 0; i < 2; i++) {
		uint32_t word;
		memcpy(&word, verf + 4 * i, sizeof word);
		ts[i] = (struct timespec){.tv_sec = word & 0x7fffffff};
	}
}

static bool made_by_this_call(struct node *child, const uint8_t verf[NFS3_VERF_BYTES])
{
	struct stat st;
	struct timespec ts[2];
	verf_times(verf, ts);
	return node_stat(child, &st) == 0 && S_ISREG(st.st_mode) && st.st_size == 0 &&
	       st.st_atim.tv_sec == ts[0].tv_sec && st.st_mtim.tv_sec == ts[1].tv_sec;
}

static enum nfs3_status create_existing(struct op *op, const struct name *name)
{
	struct node *child;
	struct nfs3_sattr size_only = {.set_size = op->args.attr.set_size, .size = op->args.attr.size};
	if (op->args.how == GUARDED)
		return NFS3ERR_EXIST;
	int err = child_lookup(op, op->obj, name->s, &child);
	if (err)
		return status_of(err);
	bool same =
		op->args.how == EXCLUSIVE ? made_by_this_call(child, op->args.verf) : S_ISREG(child->type);
	err = !same ? -EEXIST : op->args.how == UNCHECKED ? attr_apply(op, child, &size_only) : 0;
	if (err) {
		node_put(child);
		return status_of(err);
	}
	return put_created(op, child);
}

static enum nfs3_status create_new(struct op *op, int fd, const struct name *name)
{
	struct node *child;
	int path = node_path_of(fd);
	int err = path < 0 ? path : child_node(op, op->obj, path, name->s, &child);
	if (err) {
		close(fd);
		return status_of(err);
	}
	if (op->args.how == EXCLUSIVE) {
		struct timespec ts[2];
		verf_times(op->args.verf, ts);
		err = futimens(fd, ts) < 0 ? -errno : 0;
	}
	node_file_adopt(child, op->cred, FILE_READ | FILE_WRITE, fd);
	if (err) {
		node_put(child);
		return status_of(err);
	}
	return finish_created(op, child, true);
}

enum nfs3_status op_create(struct op *op)
{
	struct name name;
	enum nfs3_status status = new_name(op, &op->args.name, &name);
	if (status)
		return status;
	/* An exclusive create brings no attributes: private until the client sets the mode. */
	mode_t mode = op->args.attr.set_mode ? op->args.attr.mode & 07777 : 0600;
	int fd = open_beneath(op->obj->fd, name.s, O_CREAT | O_EXCL | O_RDWR | O_NOFOLLOW | O_NOCTTY, mode);
	if (fd == -EEXIST)
		return create_existing(op, &name);
	return fd < 0 ? status_of(fd) : create_new(op, fd, &name);
}

static enum nfs3_status made(struct op *op, int err, const struct name *name, bool mode_done)
{
	struct node *child;
	if (!err)
		err = child_lookup(op, op->obj, name->s, &child);
	return err ? status_of(err) : finish_created(op, child, mode_done);
}

enum nfs3_status op_mkdir(struct op *op)
{
	struct name name;
	enum nfs3_status status = new_name(op, &op->args.name, &name);
	if (status)
		return status;
	mode_t mode = op->args.attr.set_mode ? op->args.attr.mode & 07777 : 0777;
	/* mkdir(2) takes no set-id bits, and gives S_ISGID where the parent has it: a chmod only where one is
	 * asked for. */
	bool mode_done = !(mode & (S_ISUID | S_ISGID));
	int err = mkdirat(op->obj->fd, name.s, mode & 01777) < 0 ? -errno : 0;
	return made(op, err, &name, mode_done);
}

enum nfs3_status op_symlink(struct op *op)
{
	struct name name;
	char text[NFS3_LINK_MAX_BYTES + 1];
	const struct nfs3_data *data = &op->args.data;
	enum nfs3_status status = new_name(op, &op->args.name, &name);
	if (status)
		return status;
	if (data->len_bytes > NFS3_LINK_MAX_BYTES)
		return NFS3ERR_NAMETOOLONG;
	if (data->len_bytes == 0 || memchr(data->bytes, 0, data->len_bytes))
		return NFS3ERR_INVAL;
	memcpy(text, data->bytes, data->len_bytes);
	text[data->len_bytes] = 0;
	int err = symlinkat(text, op->obj->fd, name.s) < 0 ? -errno : 0;
	return made(op, err, &name, true);
}

static mode_t mknod_type(enum nfs3_type type)
{
	switch (type) {
	case NF3BLK:
		return S_IFBLK;
	case NF3CHR:
		return S_IFCHR;
	case NF3SOCK:
		return S_IFSOCK;
	case NF3FIFO:
		return S_IFIFO;
	default:
		return 0;
	}
}

enum nfs3_status op_mknod(struct op *op)
{
	struct name name;
	mode_t type = mknod_type(op->args.type);
	if (!type)
		return NFS3ERR_BADTYPE;
	enum nfs3_status status = new_name(op, &op->args.name, &name);
	if (status)
		return status;
	mode_t mode = op->args.attr.set_mode ? op->args.attr.mode & 07777 : 0600;
	dev_t dev = S_ISCHR(type) || S_ISBLK(type) ? makedev(op->args.major, op->args.minor) : 0;
	int err = mknodat(op->obj->fd, name.s, type | mode, dev) < 0 ? -errno : 0;
	return made(op, err, &name, true);
}

/* An object that is about to lose a name, so that its descriptors can be let go with its last one. */
struct victim {
	bool known;
	struct fh fh;
};

static struct victim victim_of(struct node *dir, const char *name)
{
	struct victim v = {0};
	struct stat st;
	int fd = open_beneath(dir->fd, name, O_PATH | O_NOFOLLOW, 0);
	if (fd < 0)
		return v;
	if (fstat(fd, &st) == 0 && (S_ISDIR(st.st_mode) || st.st_nlink == 1))
		v.known = export_fh(dir->export, fd, &st, -1, NULL, &v.fh) == 0;
	close(fd);
	return v;
}

static void victim_forget(struct op *op, const struct victim *v)
{
	if (v->known)
		nodes_forget(op->srv->nodes, &v->fh);
}

static enum nfs3_status unlink_name(struct op *op, const struct name *name, int flags)
{
	struct victim victim = victim_of(op->obj, name->s);
	if (unlinkat(op->obj->fd, name->s, flags) < 0)
		return status_of(-errno);
	victim_forget(op, &victim);
	put_wcc(op->w, &op->wcc[0]);
	return NFS3_OK;
}

enum nfs3_status op_remove(struct op *op)
{
	struct name name;
	enum nfs3_status status = name_check(&op->args.name, &name);
	if (status)
		return status;
	return name_is_dots(&name) ? NFS3ERR_ISDIR : unlink_name(op, &name, 0);
}

enum nfs3_status op_rmdir(struct op *op)
{
	struct name name;
	enum nfs3_status status = name_check(&op->args.name, &name);
	if (status)
		return status;
	/* RFC 1813 §3.3.13: "." is NFS3ERR_INVAL, ".." is NFS3ERR_EXIST. */
	if (name_is_dots(&name))
		return name.s[1] ? NFS3ERR_EXIST : NFS3ERR_INVAL;
	return unlink_name(op, &name, AT_REMOVEDIR);
}

/* In an export without kernel handles the table must learn the new place. */
static void learn_place(struct op *op, struct node *dir, const char *name)
{
	struct node *child;
	if (dir->export->paths && child_lookup(op, dir, name, &child) == 0)
		node_put(child);
}

enum nfs3_status op_rename(struct op *op)
{
	struct name from, to;
	int err = op_second(op);
	if (err)
		return status_of(err);
	enum nfs3_status status = name_check(&op->args.name, &from);
	if (!status)
		status = name_check(&op->args.name2, &to);
	if (status)
		return status;
	if (name_is_dots(&from) || name_is_dots(&to))
		return NFS3ERR_INVAL;
	struct victim victim = victim_of(op->obj2, to.s);
	if (renameat(op->obj->fd, from.s, op->obj2->fd, to.s) < 0)
		return status_of(-errno);
	victim_forget(op, &victim);
	learn_place(op, op->obj2, to.s);
	put_wcc(op->w, &op->wcc[0]);
	put_wcc(op->w, &op->wcc[1]);
	return NFS3_OK;
}

enum nfs3_status op_link(struct op *op)
{
	struct name name;
	char path[NODE_PATH_BYTES];
	int err = op_second(op);
	if (err)
		return status_of(err);
	enum nfs3_status status = new_name(op, &op->args.name, &name);
	if (status)
		return status;
	/* By its descriptor: AT_EMPTY_PATH would need CAP_DAC_READ_SEARCH, which the caller does not have. */
	if (linkat(AT_FDCWD, node_path(op->obj, path), op->obj2->fd, name.s, AT_SYMLINK_FOLLOW) < 0)
		return status_of(-errno);
	learn_place(op, op->obj2, name.s);
	put_post_op(op->w, op->obj);
	put_wcc(op->w, &op->wcc[1]);
	return NFS3_OK;
}
