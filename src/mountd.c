/* SPDX-License-Identifier: MIT */
#include <sys/time.h> /* libnfs 4.0.0's header uses timeval without it */

#include <nfsc/libnfs-zdr.h>

#include <nfsc/libnfs-raw-mount.h>

#include "cred.h"
#include "log.h"
#include "mountd.h"
#include "rpcbind.h"
#include "rpccall.h"
#include "rpctcp.h"
#include "xdr.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

enum {
	NFS_PORT = 2049,
	RPCBIND_TIMEOUT_MS = 3000, /* most time to lose on a host that hides it */
	UMOUNT_TIMEOUT_MS = 2000,
	MNT_REPLY_MAX = 65536,
	EXPORT_REPLY_MAX = 1048576,
	AUTH_SYS_FLAVOR = 1,
};

/* What one attempt at one address knows. */
struct attempt {
	const struct mountd_args *args;
	struct rpctcp to;
	char where[INET6_ADDRSTRLEN + 20];
	uint16_t port;	   /* of MOUNT */
	int rpcbind_error; /* why the fallback port is tried, or 0 */
	bool reserved;	   /* the MOUNT call left from a port below 1024 */
	char *err;
};

static int fail(struct attempt *a, int error, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* "server NAME (ADDRESS): ..." in one line; gives the error back. */
static int fail(struct attempt *a, int error, const char *format, ...)
{
	int n = snprintf(a->err, MOUNTD_ERR_SIZE, "server %s (%s): ", a->args->server, a->where);
	if (n > 0 && n < MOUNTD_ERR_SIZE) {
		va_list ap;
		va_start(ap, format);
		vsnprintf(a->err + n, (size_t)(MOUNTD_ERR_SIZE - n), format, ap);
		va_end(ap);
	}
	log_one_line(a->err);
	return error;
}

static int ask_rpcbind(const struct attempt *a, uint16_t *port)
{
	struct rpctcp to = a->to;
	sockaddr_set_port(&to.addr, a->args->rpcbind_port);
	to.resvport = false;
	if (to.timeout_ms > RPCBIND_TIMEOUT_MS)
		to.timeout_ms = RPCBIND_TIMEOUT_MS;
	return rpcbind_ask(&to, a->args->cred, MOUNT_PROGRAM, MOUNT_V3, port);
}

static void find_port(struct attempt *a)
{
	a->rpcbind_error = 0;
	a->port = a->args->mountport;
	if (a->port == 0)
		a->rpcbind_error = ask_rpcbind(a, &a->port);
	if (a->rpcbind_error)
		a->port = a->args->fallback_port ? a->args->fallback_port : NFS_PORT;
	sockaddr_set_port(&a->to.addr, a->port);
}

/* ---- errors on the way ---- */

static const char *rpcbind_trouble(int error)
{
	switch (error) {
	case -ENOENT:
		return "rpcbind knows no MOUNT service";
	case -ECONNREFUSED:
		return "no rpcbind on port 111";
	default:
		return "rpcbind gave no answer";
	}
}

static int fail_exchange(struct attempt *a, int error)
{
	char hint[100] = "";
	if (a->rpcbind_error)
		snprintf(hint, sizeof hint, " (tried because %s; mountport=N names another)",
			 rpcbind_trouble(a->rpcbind_error));
	switch (error) {
	case -ECONNREFUSED:
		return fail(a, error, "connection refused on TCP port %u%s: is its NFS server running?",
			    a->port, hint);
	case -ETIMEDOUT:
		return fail(a, error,
			    "no answer from TCP port %u%s: is it the right server, and does a firewall let "
			    "us through?",
			    a->port, hint);
	case -ECONNRESET:
	case -EBADMSG:
		return fail(a, error, "what answers on TCP port %u%s is no MOUNT service: check mountport",
			    a->port, hint);
	case -EPROTONOSUPPORT:
	case -EOPNOTSUPP:
		return fail(a, -EPROTONOSUPPORT,
			    "no MOUNT version 3 on TCP port %u%s: does it serve NFS version 3?", a->port,
			    hint);
	case -EACCES:
		return fail(a, error, "the MOUNT service on TCP port %u refuses AUTH_SYS credentials",
			    a->port);
	default:
		return fail(a, error, "TCP port %u%s: %s", a->port, hint, strerror(-error));
	}
}

/* ---- EXPORT: what there is, for the message that says what there is not ---- */

static void skip_groups(struct xdr_reader *r)
{
	uint32_t len;
	while (xdr_bool(r))
		xdr_opaque(r, MNTNAMLEN, &len);
}

/* Is path this directory, or below it? The directory has len bytes, any bytes. */
static bool is_within(const char *path, const char *dir, uint32_t len)
{
	if (strlen(path) < len || memcmp(path, dir, len))
		return false;
	return path[len] == 0 || path[len] == '/' || (len == 1 && dir[0] == '/');
}

static int walk_exports(struct xdr_reader *r, mountd_export_fn *each, void *ctx)
{
	while (xdr_bool(r)) {
		uint32_t len;
		const char *dir = (const char *)xdr_opaque(r, MNTPATHLEN, &len);
		skip_groups(r);
		if (!xdr_ok(r))
			break;
		each(ctx, dir, len);
	}
	return xdr_ok(r) ? 0 : -EBADMSG;
}

static int fetch_exports(const struct attempt *a, int timeout_ms, mountd_export_fn *each, void *ctx)
{
	struct rpctcp to = a->to;
	struct xdr_reader r;
	struct rpccall c;
	uint8_t *reply = malloc(EXPORT_REPLY_MAX);
	if (!reply)
		return -ENOMEM;
	if (to.timeout_ms > timeout_ms)
		to.timeout_ms = timeout_ms;
	int err = rpccall_encode(&c, a->args->cred, MOUNT_PROGRAM, MOUNT_V3, MOUNT3_EXPORT,
				 (rpccall_put_fn *)libnfs_zdr_void, NULL);
	if (!err)
		err = rpccall_exchange(&to, &c, reply, EXPORT_REPLY_MAX, &r, NULL);
	if (!err)
		err = walk_exports(&r, each, ctx);
	free(reply);
	return err;
}

/* "/a, /b, /c, ..." of the exports, and whether `path` lies in one of them. */
struct listing {
	const char *path;
	char *text;
	size_t size, used;
	bool cut, covers;
};

static void add_to_listing(void *ctx, const char *dir, uint32_t len)
{
	struct listing *l = ctx;
	if (is_within(l->path, dir, len))
		l->covers = true;
	if (l->cut || l->used + len + 2 + sizeof ", ..." > l->size) {
		l->cut = true;
		return;
	}
	l->used += (size_t)sprintf(l->text + l->used, "%s%.*s", l->used ? ", " : "", (int)len, dir);
}

/* False when the list is not to be had. */
static bool list_exports(const struct attempt *a, char *text, size_t size, bool *covers)
{
	struct listing l = {.path = a->args->export, .text = text, .size = size};
	text[0] = 0;
	int err = fetch_exports(a, RPCBIND_TIMEOUT_MS, add_to_listing, &l);
	if (l.cut)
		strcat(text, l.used ? ", ..." : "...");
	*covers = l.covers;
	return err == 0;
}

/* ---- MNT ---- */

static int fail_no_export(struct attempt *a, int error)
{
	const char *export = a->args->export;
	char text[400];
	bool covers;
	bool listed = list_exports(a, text, sizeof text, &covers);
	if (listed && !text[0])
		return fail(a, error, "no such export '%s': it exports nothing", export);
	if (listed && !covers)
		return fail(a, error, "no such export '%s': it exports %s", export, text);
	if (error == -ENOENT)
		return fail(a, error, "no such directory '%s'%s%s", export, listed ? ": it exports " : "",
			    listed ? text : "");
	if (!a->reserved)
		return fail(a, error,
			    "permission denied for '%s': the export may not be for this machine, or (our "
			    "call came from a port "
			    "above 1023) not for ordinary users: mount as root, or mark the export "
			    "'insecure' there",
			    export);
	return fail(a, error, "permission denied for '%s': the server does not export it to this machine",
		    export);
}

static int fail_status(struct attempt *a, uint32_t status)
{
	const char *export = a->args->export;
	switch (status) {
	case MNT3ERR_NOENT:
		return fail_no_export(a, -ENOENT);
	case MNT3ERR_PERM:
	case MNT3ERR_ACCES:
		return fail_no_export(a, -EACCES);
	case MNT3ERR_NOTDIR:
		return fail(a, -ENOTDIR, "'%s' is not a directory there", export);
	case MNT3ERR_INVAL:
		return fail(a, -EINVAL, "it does not accept '%s' as an export", export);
	case MNT3ERR_NAMETOOLONG:
		return fail(a, -ENAMETOOLONG, "the path '%.100s...' is too long for it", export);
	case MNT3ERR_NOTSUPP:
		return fail(a, -EOPNOTSUPP, "it does not support mounting '%s'", export);
	default:
		return fail(a, -EIO, "MOUNT of '%s' failed there (status %u): its log may say why", export,
			    status);
	}
}

/* An empty list says nothing; else AUTH_SYS must be in it. */
static int check_flavors(struct attempt *a, struct xdr_reader *r)
{
	char text[100] = "";
	size_t used = 0;
	uint32_t n = xdr_u32(r);
	bool allowed = n == 0;
	if (!xdr_ok(r) || n > xdr_left(r) / 4)
		return fail_exchange(a, -EBADMSG);
	for (uint32_t i = 0; i < n; i++) {
		uint32_t flavor = xdr_u32(r);
		allowed |= flavor == AUTH_SYS_FLAVOR;
		if (used + 12 < sizeof text)
			used += (size_t)sprintf(text + used, " %u", flavor);
	}
	if (allowed)
		return 0;
	return fail(a, -EACCES,
		    "'%s' is not exported with sec=sys, the only flavor that nfsrdma has (theirs:%s)",
		    a->args->export, text);
}

static int read_mnt(struct attempt *a, struct xdr_reader *r, struct nfs3_fh *root)
{
	uint32_t len = 0;
	uint32_t status = xdr_u32(r);
	if (xdr_ok(r) && status != MNT3_OK)
		return fail_status(a, status);
	const uint8_t *handle = xdr_opaque(r, NFS3_FH_MAX, &len);
	if (!xdr_ok(r) || len == 0)
		return fail_exchange(a, -EBADMSG);
	int err = check_flavors(a, r);
	if (err)
		return err;
	root->len = len;
	memcpy(root->data, handle, len);
	return 0;
}

static int call_mnt(struct attempt *a, struct nfs3_fh *root)
{
	struct xdr_reader r;
	struct rpccall c;
	dirpath path = (char *)a->args->export;
	int err = rpccall_encode(&c, a->args->cred, MOUNT_PROGRAM, MOUNT_V3, MOUNT3_MNT,
				 (rpccall_put_fn *)zdr_dirpath, &path);
	if (err)
		return fail(a, -ENAMETOOLONG, "the path '%.100s...' is too long", a->args->export);
	uint8_t *reply = malloc(MNT_REPLY_MAX);
	if (!reply)
		return fail(a, -ENOMEM, "out of memory");
	err = rpccall_exchange(&a->to, &c, reply, MNT_REPLY_MAX, &r, &a->reserved);
	err = err ? fail_exchange(a, err) : read_mnt(a, &r, root);
	free(reply);
	return err;
}

/* ---- the whole ---- */

static void approach(struct attempt *a, const struct addrinfo *ai)
{
	a->to = (struct rpctcp){
		.addrlen = ai->ai_addrlen, .timeout_ms = a->args->timeout_ms, .resvport = a->args->resvport};
	memcpy(&a->to.addr, ai->ai_addr, ai->ai_addrlen);
	if (getnameinfo(ai->ai_addr, ai->ai_addrlen, a->where, sizeof a->where, NULL, 0, NI_NUMERICHOST))
		snprintf(a->where, sizeof a->where, "?");
}

static void describe(const struct attempt *a, struct mountd_export *result)
{
	*result = (struct mountd_export){.addr = a->to.addr, .addrlen = a->to.addrlen, .mountport = a->port};
	sockaddr_set_port(&result->addr, 0);
	memcpy(result->addr_text, a->where, sizeof result->addr_text);
}

static int mount_at(struct attempt *a, const struct addrinfo *ai, struct mountd_export *result)
{
	struct nfs3_fh root = {0};
	approach(a, ai);
	find_port(a);
	int err = call_mnt(a, &root);
	if (err)
		return err;
	describe(a, result);
	result->root = root;
	return 0;
}

/* Not a verdict of the server about this export: another address of the host may do better. */
static bool is_about_the_way(int err)
{
	return mountd_may_retry(err) || err == -EPROTONOSUPPORT || err == -EBADMSG || err == -ECONNRESET ||
	       err == -EADDRNOTAVAIL || err == -EAFNOSUPPORT;
}

static int resolve(const struct mountd_args *args, struct addrinfo **list, char *err)
{
	const struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
	int ret = getaddrinfo(args->server, NULL, &hints, list);
	if (ret == 0)
		return 0;
	snprintf(err, MOUNTD_ERR_SIZE, "server %s: %s (%s): check the name", args->server,
		 ret == EAI_AGAIN ? "cannot be looked up now" : "unknown host",
		 ret == EAI_SYSTEM ? strerror(errno) : gai_strerror(ret));
	log_one_line(err);
	return ret == EAI_AGAIN ? -EAGAIN : -ENXIO;
}

int mountd_mount(const struct mountd_args *args, struct mountd_export *result, char *err)
{
	struct attempt a = {.args = args, .err = err};
	struct addrinfo *list;
	int ret = resolve(args, &list, err);
	if (ret)
		return ret;
	for (const struct addrinfo *ai = list; ai; ai = ai->ai_next) {
		ret = mount_at(&a, ai, result);
		if (!is_about_the_way(ret))
			break;
	}
	freeaddrinfo(list);
	return ret;
}

bool mountd_may_retry(int err)
{
	return err == -EAGAIN || err == -ECONNREFUSED || err == -ETIMEDOUT || err == -EHOSTUNREACH ||
	       err == -ENETUNREACH;
}

void mountd_umount(const struct mountd_args *args, const struct mountd_export *mounted)
{
	struct rpctcp to = {.addr = mounted->addr,
			    .addrlen = mounted->addrlen,
			    .timeout_ms = UMOUNT_TIMEOUT_MS,
			    .resvport = args->resvport};
	struct rpccall c;
	uint8_t reply[1024];
	dirpath path = (char *)args->export;
	sockaddr_set_port(&to.addr, mounted->mountport);
	if (rpccall_encode(&c, args->cred, MOUNT_PROGRAM, MOUNT_V3, MOUNT3_UMNT,
			   (rpccall_put_fn *)zdr_dirpath, &path) == 0)
		rpctcp_call(&to, c.words, c.len_bytes, reply, sizeof reply, NULL);
}

int mountd_lookup(const char *server, struct mountd_export *result, char *err)
{
	struct mountd_args args = {.server = server};
	struct attempt a = {.args = &args, .err = err};
	struct addrinfo *list;
	int ret = resolve(&args, &list, err);
	if (ret)
		return ret;
	approach(&a, list);
	describe(&a, result);
	freeaddrinfo(list);
	return 0;
}

int mountd_list(const struct mountd_args *args, mountd_export_fn *each, void *ctx,
		struct mountd_export *result, char *err)
{
	struct attempt a = {.args = args, .err = err};
	struct addrinfo *list;
	int ret = resolve(args, &list, err);
	if (ret)
		return ret;
	for (const struct addrinfo *ai = list; ai; ai = ai->ai_next) {
		approach(&a, ai);
		find_port(&a);
		ret = fetch_exports(&a, args->timeout_ms, each, ctx);
		if (!is_about_the_way(ret))
			break;
	}
	freeaddrinfo(list);
	if (ret)
		return fail_exchange(&a, ret);
	describe(&a, result);
	return 0;
}
