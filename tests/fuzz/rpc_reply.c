/* SPDX-License-Identifier: MIT
 *
 * What MOUNT, rpcbind and the status monitor answer, as the whole exchanges that they are the answers to.
 * Input: which exchange, 1 byte; then the replies, in the order in which they come: length, 2 bytes, and the
 * bytes behind the XID. When there are no more, the server cannot be reached.
 */
#include "cred.h"
#include "mountd.h"
#include "nsm.h"
#include "rpcbind.h"
#include "rpctcp.h"

#include "fuzz.h"

#include <errno.h>
#include <netinet/in.h>
#include <sanitizer/asan_interface.h>

int __wrap_rpctcp_call(const struct rpctcp *to, const void *call, size_t len_bytes, void *reply,
		       size_t max_bytes, bool *reserved);

static struct xdr_reader replies;
static struct {
	uint8_t *at;
	size_t len_bytes;
} closed; /* the rest of the caller's buffer: he has no business there */

static void open_buffer(void)
{
	ASAN_UNPOISON_MEMORY_REGION(closed.at, closed.len_bytes);
	closed.len_bytes = 0;
}

static void close_buffer(uint8_t *at, size_t len)
{
	closed.at = at;
	closed.len_bytes = len;
	ASAN_POISON_MEMORY_REGION(at, len);
}

int __wrap_rpctcp_call(const struct rpctcp *to, const void *call, size_t len_bytes, void *reply,
		       size_t max_bytes, bool *reserved)
{
	open_buffer();
	require(len_bytes >= 40 && len_bytes <= RPCTCP_CALL_MAX && max_bytes >= 4);
	if (reserved)
		*reserved = false;
	if (xdr_left(&replies) < 2)
		return -ECONNREFUSED;
	size_t len = take_u16(&replies);
	if (len > xdr_left(&replies))
		len = xdr_left(&replies);
	if (len > max_bytes - 4)
		return -EBADMSG;
	memcpy(reply, call, 4);
	memcpy((uint8_t *)reply + 4, xdr_bytes(&replies, len), len);
	close_buffer((uint8_t *)reply + 4 + len, max_bytes - 4 - len);
	return (int)(4 + len);
}

static void check_message(const char *err)
{
	size_t len = strnlen(err, MOUNTD_ERR_SIZE);
	require(len > 0 && len < MOUNTD_ERR_SIZE);
	require(!memchr(err, '\n', len));
}

static void try_mount(const struct mountd_args *args)
{
	struct mountd_export result;
	char err[MOUNTD_ERR_SIZE] = "";
	int ret = mountd_mount(args, &result, err);
	require(ret <= 0);
	if (ret)
		check_message(err);
	else
		require(result.root.len >= 1 && result.root.len <= NFS3_FH_MAX);
}

static void on_export(void *ctx, const char *path, uint32_t len)
{
	require(len <= 1024);
	touch(path, len);
}

static void try_list(const struct mountd_args *args)
{
	struct mountd_export result;
	char err[MOUNTD_ERR_SIZE] = "";
	if (mountd_list(args, on_export, NULL, &result, err))
		check_message(err);
}

static void try_rpcbind(const struct cred *cred, int family)
{
	struct rpctcp to = {.addr.ss_family = (sa_family_t)family, .timeout_ms = 1};
	uint16_t port = 0;
	if (rpcbind_ask(&to, cred, 100005, 3, &port) == 0)
		require(port != 0);
	rpcbind_set(cred, 100021, 4, "udp6", 1234);
}

static void try_monitor(const struct cred *cred)
{
	static const uint8_t priv[NSM_PRIV_BYTES];
	int32_t state;
	nsm_monitor(cred, "server", priv, &state);
	nsm_unmonitor(cred, "server");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	struct cred cred;
	cred_init(&cred, "box", 1000, 100, NULL, 0);
	struct mountd_args args = {
		.server = "127.0.0.1", .export = "/export/a", .cred = &cred, .timeout_ms = 1};
	replies = xdr_reader(data, len);
	switch (take_u8(&replies) % 6) {
	case 0:
		args.mountport = 635; /* so that the first reply is MOUNT's */
		try_mount(&args);
		break;
	case 1:
		try_mount(&args);
		break;
	case 2:
		try_list(&args);
		break;
	case 3:
		try_rpcbind(&cred, AF_INET);
		break;
	case 4:
		try_rpcbind(&cred, AF_INET6);
		break;
	default:
		try_monitor(&cred);
		break;
	}
	open_buffer();
	return 0;
}
