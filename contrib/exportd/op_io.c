/* SPDX-License-Identifier: MIT
 *
 * READ, WRITE and COMMIT: one pread or pwrite between the transport's memory and the file.
 */
#include "op.h"

#include <errno.h>
#include <sys/uio.h>
#include <unistd.h>

static int data_type(const struct node *node)
{
	return S_ISREG(node->type) ? 0 : S_ISDIR(node->type) ? -EISDIR : -EINVAL;
}

static int open_data(struct op *op, enum file_access access, struct node_file **file, int *fd)
{
	int err = data_type(op->obj);
	return err ? err : node_file_get(op->obj, op->cred, access, file, fd);
}

/* Until len bytes, the end of the file, or an error when nothing came before it. */
static ssize_t read_all(int fd, uint8_t *to, size_t len, off_t offset)
{
	size_t done = 0;
	while (done < len) {
		ssize_t n = pread(fd, to + done, len - done, offset + (off_t)done);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && done == 0)
			return -errno;
		if (n <= 0)
			break;
		done += (size_t)n;
	}
	return (ssize_t)done;
}

static enum nfs3_status put_read(struct op *op, const uint8_t *bytes, uint32_t len)
{
	struct stat st;
	int err = node_stat(op->obj, &st);
	if (err)
		return status_of(err);
	op->call->payload = bytes;
	op->call->payload_len_bytes = len;
	xdr_put_u32(op->w, true);
	put_fattr(op->w, &st);
	xdr_put_u32(op->w, len);
	xdr_put_u32(op->w, op->args.offset + len >= (uint64_t)st.st_size); /* eof */
	xdr_put_u32(op->w, len);
	return NFS3_OK;
}

enum nfs3_status op_read(struct op *op)
{
	struct node_file *file;
	int fd;
	uint32_t count = op->args.count;
	if (count > NFS3_IO_MAX_BYTES)
		count = NFS3_IO_MAX_BYTES;
	if (count > op->call->payload_max_bytes)
		count = op->call->payload_max_bytes;
	int err = open_data(op, FILE_READ, &file, &fd);
	if (err)
		return status_of(err);
	ssize_t n = 0;
	uint8_t *to = NULL;
	/* Beyond what a file can hold there is nothing to read: end of file, not an error. */
	if (count > 0 && op->args.offset <= (uint64_t)INT64_MAX - count) {
		to = op->call->payload_buffer(op->call, count);
		n = to ? read_all(fd, to, count, (off_t)op->args.offset) : -ENOMEM;
	}
	node_file_put(op->obj, file);
	return n < 0 ? status_of((int)n) : put_read(op, to, (uint32_t)n);
}

/* Fails only when nothing was written: a short write is an answer. */
static ssize_t write_all(int fd, const uint8_t *from, size_t len, off_t offset)
{
	size_t done = 0;
	while (done < len) {
		ssize_t n = pwrite(fd, from + done, len - done, offset + (off_t)done);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && done == 0)
			return -errno;
		if (n <= 0)
			break;
		done += (size_t)n;
	}
	return (ssize_t)done;
}

/* A failed sync may have lost data that was answered UNSTABLE, once and without another report: a new
 * verifier makes every client send its uncommitted data again. */
static int sync_data(struct server *srv, int fd, enum nfs3_stable stable)
{
	int r = stable == FILE_SYNC ? fsync(fd) : stable == DATA_SYNC ? fdatasync(fd) : 0;
	if (r == 0)
		return 0;
	int err = -errno;
	atomic_fetch_add(&srv->write_verf, 1);
	return err;
}

enum nfs3_status op_write(struct op *op)
{
	struct node_file *file;
	int fd;
	uint32_t count = op->args.count;
	if (op->args.offset > (uint64_t)INT64_MAX - count)
		return NFS3ERR_FBIG;
	if (!op->wcc[0].have_before)
		return NFS3ERR_STALE;
	int err = open_data(op, FILE_WRITE, &file, &fd);
	if (err)
		return status_of(err);
	/* ORDER: the verifier before the data. If a sync fails in between, the client must see that its data
	 * came before the change. */
	uint64_t verf = atomic_load(&op->srv->write_verf);
	ssize_t n = write_all(fd, op->args.data.bytes, count, (off_t)op->args.offset);
	if (n >= 0)
		err = sync_data(op->srv, fd, op->args.stable);
	node_file_put(op->obj, file);
	if (n < 0 || err)
		return status_of(n < 0 ? (int)n : err);
	put_wcc(op->w, &op->wcc[0]);
	xdr_put_u32(op->w, (uint32_t)n);
	xdr_put_u32(op->w, op->args.stable);
	xdr_put_u64(op->w, verf);
	return NFS3_OK;
}

enum nfs3_status op_commit(struct op *op)
{
	struct node_file *file;
	int fd;
	/* The whole file: Linux can make no less durable. fsync() needs a descriptor of any access; who may
	 * not write may have written before the mode was changed. */
	int err = open_data(op, FILE_WRITE, &file, &fd);
	if (err == -EACCES)
		err = open_data(op, FILE_READ, &file, &fd);
	if (err)
		return status_of(err);
	err = sync_data(op->srv, fd, FILE_SYNC);
	node_file_put(op->obj, file);
	if (err)
		return status_of(err);
	put_wcc(op->w, &op->wcc[0]);
	/* ORDER: the verifier after the sync, for the same reason. */
	xdr_put_u64(op->w, atomic_load(&op->srv->write_verf));
	return NFS3_OK;
}
