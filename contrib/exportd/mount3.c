/* SPDX-License-Identifier: MIT
 *
 * The MOUNT protocol, version 3 (RFC 1813 appendix I). A directory below an export may be mounted too: it is
 * walked to with the caller's rights, so that mounting opens no way around a directory that he may not
 * search.
 */
#include "op.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MNT_PATH_MAX_BYTES 1024
#define MOUNTS_MAX 256 /* the list is only ever shown; the oldest goes */
#define FLAVOR_NONE 0
#define FLAVOR_SYS 1

enum mount3_proc {
	MOUNT3_NULL,
	MOUNT3_MNT,
	MOUNT3_DUMP,
	MOUNT3_UMNT,
	MOUNT3_UMNTALL,
	MOUNT3_EXPORT,
};

struct mount {
	uint8_t peer[16];
	char path[MNT_PATH_MAX_BYTES + 1]; /* empty: free */
};

struct mounts {
	pthread_mutex_t lock;
	size_t next;
	struct mount list[MOUNTS_MAX];
};

struct mounts *mounts_create(void)
{
	struct mounts *m = calloc(1, sizeof *m);
	if (m)
		pthread_mutex_init(&m->lock, NULL);
	return m;
}

static bool is_mount(const struct mount *m, const uint8_t peer[16], const char *path)
{
	return m->path[0] && memcmp(m->peer, peer, sizeof m->peer) == 0 &&
	       (!path || strcmp(m->path, path) == 0);
}

/* path NULL: all of the peer's. */
static void mounts_remove(struct mounts *ms, const uint8_t peer[16], const char *path)
{
	pthread_mutex_lock(&ms->lock);
	for (size_t i = 0; i < MOUNTS_MAX; i++)
		if (is_mount(&ms->list[i], peer, path))
			ms->list[i].path[0] = 0;
	pthread_mutex_unlock(&ms->lock);
}

static void mounts_add(struct mounts *ms, const uint8_t peer[16], const char *path)
{
	mounts_remove(ms, peer, path);
	pthread_mutex_lock(&ms->lock);
	struct mount *m = &ms->list[ms->next];
	ms->next = (ms->next + 1) % MOUNTS_MAX;
	memcpy(m->peer, peer, sizeof m->peer);
	strcpy(m->path, path);
	pthread_mutex_unlock(&ms->lock);
}

/* What of path is below x: "" is x itself; NULL: not in x. */
static const char *below(const struct export *x, const char *path)
{
	size_t len = strlen(x->path);
	if (len == 1) /* "/" is exported */
		len = 0;
	if (strncmp(path, x->path, len) != 0 || (path[len] != '/' && path[len] != 0))
		return NULL;
	path += len;
	while (*path == '/')
		path++;
	return path;
}

/* The export that path lies in: of nested ones the innermost. */
static const struct export *export_for(const struct server *srv, const char *path, const char **rest)
{
	const struct export *best = NULL;
	for (size_t i = 0; i < srv->exports_len; i++) {
		const struct export *x = &srv->exports[i];
		if (below(x, path) && (!best || strlen(x->path) > strlen(best->path)))
			best = x;
	}
	if (best)
		*rest = below(best, path);
	return best;
}

/* One component further from dir, which is closed. In the table of paths each step is learnt. */
static int step(const struct export *x, int dir, const char *name, struct fh *fh)
{
	struct stat st;
	int fd = open_beneath(dir, name, O_PATH | O_NOFOLLOW | O_DIRECTORY, 0);
	int err = fd < 0 ? fd : fstat(fd, &st) < 0 ? -errno : export_fh(x, fd, &st, dir, name, fh);
	close(dir);
	if (err && fd >= 0)
		close(fd);
	return err ? err : fd;
}

static bool odd_name(const char *name)
{
	return strcmp(name, "..") == 0 || strlen(name) > NFS3_NAME_MAX_BYTES;
}

/* rest is taken apart. */
static int walk(const struct export *x, char *rest, struct fh *fh)
{
	char *save;
	int fd = step(x, fcntl(x->root, F_DUPFD_CLOEXEC, 0), ".", fh);
	for (char *name = strtok_r(rest, "/", &save); name && fd >= 0; name = strtok_r(NULL, "/", &save)) {
		if (strcmp(name, ".") == 0)
			continue;
		if (odd_name(name)) {
			close(fd);
			return -EINVAL;
		}
		fd = step(x, fd, name, fh);
	}
	if (fd < 0)
		return fd;
	close(fd);
	return 0;
}

static int mnt(struct call *call, const struct rpc_call *rpc, char *path, struct fh *fh)
{
	const char *rest;
	char parts[MNT_PATH_MAX_BYTES + 1];
	const struct export *x = export_for(call->srv, path, &rest);
	if (!x)
		return -EACCES; /* not even whether it exists */
	strcpy(parts, rest);
	/* An export itself may be mounted by anybody; his rights count from there on. */
	int err = *rest ? cred_become(&rpc->cred) : 0;
	return err ? err : walk(x, parts, fh);
}

static void put_mnt(struct call *call, const struct rpc_call *rpc, char *path)
{
	struct fh fh;
	int err = mnt(call, rpc, path, &fh);
	/* mountstat3 has the numbers of nfsstat3, but fewer of them. */
	enum nfs3_status status = status_of(err);
	if (status == NFS3ERR_XDEV)
		status = NFS3ERR_ACCES;
	xdr_put_u32(&call->head, status);
	if (status)
		return;
	put_fh(&call->head, &fh);
	xdr_put_u32(&call->head, 2);
	xdr_put_u32(&call->head, FLAVOR_SYS);
	xdr_put_u32(&call->head, FLAVOR_NONE);
	mounts_add(call->srv->mounts, call->peer, path);
}

static void put_peer(struct xdr_writer *w, const uint8_t peer[16])
{
	static const uint8_t v4[12] = {[10] = 0xff, 0xff};
	char text[INET6_ADDRSTRLEN];
	if (memcmp(peer, v4, sizeof v4) == 0)
		inet_ntop(AF_INET, peer + 12, text, sizeof text);
	else
		inet_ntop(AF_INET6, peer, text, sizeof text);
	xdr_put_opaque(w, text, (uint32_t)strlen(text));
}

static void put_dump(struct call *call)
{
	struct mounts *ms = call->srv->mounts;
	pthread_mutex_lock(&ms->lock);
	for (size_t i = 0; i < MOUNTS_MAX; i++) {
		const struct mount *m = &ms->list[i];
		/* 64: the words and the address; the list ends where the reply is full. */
		if (!m->path[0] || xdr_written(&call->head) + strlen(m->path) + 64 > call->reply_max_bytes)
			continue;
		xdr_put_u32(&call->head, true);
		put_peer(&call->head, m->peer);
		xdr_put_opaque(&call->head, m->path, (uint32_t)strlen(m->path));
	}
	pthread_mutex_unlock(&ms->lock);
	xdr_put_u32(&call->head, false);
}

static void put_exports(struct call *call)
{
	for (size_t i = 0; i < call->srv->exports_len; i++) {
		const char *path = call->srv->exports[i].path;
		xdr_put_u32(&call->head, true);
		xdr_put_opaque(&call->head, path, (uint32_t)strlen(path));
		xdr_put_u32(&call->head, false); /* no groups: everybody */
	}
	xdr_put_u32(&call->head, false);
}

static bool get_path(struct xdr_reader *r, char path[MNT_PATH_MAX_BYTES + 1])
{
	uint32_t len;
	const uint8_t *p = xdr_opaque(r, MNT_PATH_MAX_BYTES, &len);
	if (!p || len == 0 || memchr(p, 0, len))
		return false;
	memcpy(path, p, len);
	path[len] = 0;
	return true;
}

bool mount3_serve(struct call *call, const struct rpc_call *rpc, struct xdr_reader *args)
{
	char path[MNT_PATH_MAX_BYTES + 1];
	enum rpc_accept_stat stat = RPC_SUCCESS;
	if (rpc->proc > MOUNT3_EXPORT)
		stat = RPC_PROC_UNAVAIL;
	else if ((rpc->proc == MOUNT3_MNT || rpc->proc == MOUNT3_UMNT) && !get_path(args, path))
		stat = RPC_GARBAGE_ARGS;
	rpc_put_accepted(&call->head, rpc->xid, stat);
	if (stat != RPC_SUCCESS)
		return true;
	switch ((enum mount3_proc)rpc->proc) {
	case MOUNT3_NULL:
		break;
	case MOUNT3_MNT:
		put_mnt(call, rpc, path);
		break;
	case MOUNT3_DUMP:
		put_dump(call);
		break;
	case MOUNT3_UMNT:
		mounts_remove(call->srv->mounts, call->peer, path);
		break;
	case MOUNT3_UMNTALL:
		mounts_remove(call->srv->mounts, call->peer, NULL);
		break;
	case MOUNT3_EXPORT:
		put_exports(call);
		break;
	}
	return true;
}
