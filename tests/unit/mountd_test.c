/* SPDX-License-Identifier: MIT
 *
 * The MOUNT client against servers on loopback that say exactly what a test tells them, word by word.
 */
#include "mountd.h"

#include "cred.h"
#include "rpctcp.h"
#include "xdr.h"

#include <arpa/inet.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

/* ---- the server ---- */

enum how {
	ANSWER,		/* mark, the call's XID, the words */
	ANSWER_IN_BITS, /* the same in fragments of 4 bytes */
	WRONG_XID,	/* the same with another XID */
	RAW,		/* the words alone */
	CLOSE,		/* end the connection */
	KEEP_SILENT,	/* until the client ends it */
};

struct turn { /* one connection */
	enum how how;
	uint32_t words[64]; /* what follows the XID */
	uint32_t nwords;
};

struct server {
	bool ipv6;
	int fd;
	uint16_t port;
	pthread_t thread;
	struct turn turns[4];
	int nturns;
	uint8_t call[4][RPCTCP_CALL_MAX]; /* as they came */
	uint32_t call_len[4];
};

static bool read_full(int fd, void *bytes, size_t len)
{
	return len == 0 || recv(fd, bytes, len, MSG_WAITALL) == (ssize_t)len;
}

static void send_words(int fd, const uint32_t *words, uint32_t n)
{
	send(fd, words, n * 4, MSG_NOSIGNAL);
}

static void answer(int fd, const struct turn *t, uint32_t xid)
{
	uint32_t w[130];
	uint32_t n = 0;
	if (t->how == ANSWER_IN_BITS) {
		w[n++] = htobe32(4);
		w[n++] = xid;
		for (uint32_t i = 0; i < t->nwords; i++) {
			w[n++] = htobe32(4 | (i + 1 == t->nwords ? 0x80000000 : 0));
			w[n++] = htobe32(t->words[i]);
		}
	} else {
		if (t->how != RAW) {
			w[n++] = htobe32(0x80000000 | (4 + 4 * t->nwords));
			w[n++] = t->how == WRONG_XID ? ~xid : xid;
		}
		for (uint32_t i = 0; i < t->nwords; i++)
			w[n++] = htobe32(t->words[i]);
	}
	send_words(fd, w, n);
}

static void serve(struct server *s, int turn)
{
	const struct turn *t = &s->turns[turn];
	uint32_t mark = 0;
	int fd = accept(s->fd, NULL, NULL);
	if (t->how != CLOSE && read_full(fd, &mark, 4)) {
		mark = be32toh(mark) & 0x7fffffff;
		if (mark <= RPCTCP_CALL_MAX && read_full(fd, s->call[turn], mark)) {
			uint32_t xid, byte;
			s->call_len[turn] = mark;
			memcpy(&xid, s->call[turn], 4);
			if (t->how != KEEP_SILENT)
				answer(fd, t, xid);
			if (t->how != RAW)
				recv(fd, &byte, 1, 0); /* until the client has had enough */
		}
	}
	close(fd);
}

static void *server_main(void *arg)
{
	struct server *s = arg;
	for (int i = 0; i < s->nturns; i++)
		serve(s, i);
	return NULL;
}

static uint16_t bind_loopback(int fd, bool ipv6)
{
	struct sockaddr_in6 a6 = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
	struct sockaddr_in a4 = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	struct sockaddr *a = ipv6 ? (struct sockaddr *)&a6 : (struct sockaddr *)&a4;
	socklen_t len = ipv6 ? sizeof a6 : sizeof a4;
	assert_int_equal(bind(fd, a, len), 0);
	assert_int_equal(getsockname(fd, a, &len), 0);
	return ntohs(ipv6 ? a6.sin6_port : a4.sin_port);
}

/* Without turns the port is taken but refuses connections. */
static void server_start(struct server *s)
{
	s->fd = socket(s->ipv6 ? AF_INET6 : AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_true(s->fd >= 0);
	s->port = bind_loopback(s->fd, s->ipv6);
	if (s->nturns) {
		assert_int_equal(listen(s->fd, 8), 0);
		assert_int_equal(pthread_create(&s->thread, NULL, server_main, s), 0);
	}
}

static void server_end(struct server *s)
{
	if (s->nturns)
		pthread_join(s->thread, NULL);
	close(s->fd);
}

#define TURN(how_, ...)                                                                                      \
	{                                                                                                    \
		.how = how_, .words = {__VA_ARGS__}, .nwords = sizeof((uint32_t[]){__VA_ARGS__}) / 4         \
	}
#define ACCEPTED 1, 0, 0, 0, 0 /* REPLY, MSG_ACCEPTED, AUTH_NONE, no bytes, SUCCESS */
#define MNT_OK ACCEPTED, 0, 8, 0x01020304, 0x05060708, 1, 1 /* a handle of 8 bytes, one flavor: AUTH_SYS */

/* ---- the client ---- */

struct test {
	struct server rpcbind, mount;
	struct cred cred;
	struct mountd_args args;
	struct mountd_export result;
	char err[MOUNTD_ERR_SIZE];
};

static int setup(void **state)
{
	struct test *t = calloc(1, sizeof *t);
	cred_init(&t->cred, "box", 0, 0, NULL, 0);
	t->args = (struct mountd_args){
		.server = "127.0.0.1", .export = "/data", .cred = &t->cred, .timeout_ms = MOUNTD_TIMEOUT_MS};
	*state = t;
	return 0;
}

static int teardown(void **state)
{
	free(*state);
	return 0;
}

/* Runs the client against the mount server's turns, at mountport. */
static int mount_by_port(struct test *t)
{
	server_start(&t->mount);
	t->args.mountport = t->mount.port;
	int ret = mountd_mount(&t->args, &t->result, t->err);
	server_end(&t->mount);
	return ret;
}

static void turns(struct server *s, int n, const struct turn *list)
{
	memcpy(s->turns, list, (size_t)n * sizeof *list);
	s->nturns = n;
}
#define TURNS(server, ...)                                                                                   \
	turns(server, (int)(sizeof((struct turn[]){__VA_ARGS__}) / sizeof(struct turn)),                     \
	      (struct turn[]){__VA_ARGS__})

/* The line starts with the server's name and address, holds this, and is one line. */
static void check_line(const struct test *t, const char *part)
{
	static const char head[] = "server 127.0.0.1 (127.0.0.1): ";
	if (strncmp(t->err, head, strlen(head)) || !strstr(t->err, part))
		fail_msg("'%s' has not '%s'", t->err, part);
	assert_null(strchr(t->err, '\n'));
}

static uint32_t word(const uint8_t *call, size_t i)
{
	uint32_t v;
	memcpy(&v, call + 4 * i, 4);
	return be32toh(v);
}

static void root_handle_and_address_come_back(void **state)
{
	struct test *t = *state;
	TURNS(&t->mount, TURN(ANSWER, MNT_OK));
	assert_int_equal(mount_by_port(t), 0);
	assert_int_equal(t->result.root.len, 8);
	assert_memory_equal(t->result.root.data, "\1\2\3\4\5\6\7\10", 8);
	assert_int_equal(t->result.mountport, t->mount.port);
	assert_string_equal(t->result.addr_text, "127.0.0.1");
	struct sockaddr_in *a = (struct sockaddr_in *)&t->result.addr;
	assert_int_equal(a->sin_family, AF_INET);
	assert_int_equal(a->sin_addr.s_addr, htonl(INADDR_LOOPBACK));
	assert_int_equal(a->sin_port, 0);
	assert_int_equal(t->result.addrlen, sizeof *a);
}

static void the_call_is_mnt_of_the_export(void **state)
{
	struct test *t = *state;
	TURNS(&t->mount, TURN(ANSWER, MNT_OK));
	assert_int_equal(mount_by_port(t), 0);
	const uint8_t *call = t->mount.call[0];
	static const uint32_t want[] = {0, 2, 100005, 3, 1, 1, 24};
	for (size_t i = 0; i < 7; i++)
		assert_int_equal(word(call, 1 + i), want[i]);
	size_t args = 8 + 24 / 4 + 2; /* header, credential, verifier */
	assert_int_equal(word(call, args), 5);
	assert_memory_equal(call + 4 * (args + 1), "/data\0\0\0", 8);
	assert_int_equal(t->mount.call_len[0], 4 * (args + 1) + 8);
}

static void a_reply_in_many_fragments_is_one_reply(void **state)
{
	struct test *t = *state;
	TURNS(&t->mount, TURN(ANSWER_IN_BITS, MNT_OK));
	assert_int_equal(mount_by_port(t), 0);
	assert_int_equal(t->result.root.len, 8);
}

static void an_empty_flavor_list_is_no_objection(void **state)
{
	struct test *t = *state;
	TURNS(&t->mount, TURN(ANSWER, ACCEPTED, 0, 4, 1, 0));
	assert_int_equal(mount_by_port(t), 0);
}

static void auth_sys_must_be_among_the_flavors(void **state)
{
	struct test *t = *state;
	TURNS(&t->mount, TURN(ANSWER, ACCEPTED, 0, 4, 1, 2, 390003, 6));
	assert_int_equal(mount_by_port(t), -EACCES);
	check_line(t, "'/data' is not exported with sec=sys");
	check_line(t, "390003 6");
}

static void auth_sys_may_be_the_last_flavor(void **state)
{
	struct test *t = *state;
	TURNS(&t->mount, TURN(ANSWER, ACCEPTED, 0, 4, 1, 3, 390003, 390004, 1));
	assert_int_equal(mount_by_port(t), 0);
}

/* ---- the list of exports ---- */

/* EXPORT: "/srv" for one group, "/home" for all */
#define EXPORTS ACCEPTED, 1, 4, 0x2f737276, 1, 1, 0x2a000000, 0, 1, 5, 0x2f686f6d, 0x65000000, 0, 0

static void note_export(void *ctx, const char *path, uint32_t len)
{
	char *text = ctx;
	sprintf(text + strlen(text), "%.*s;", (int)len, path);
}

static int list_by_port(struct test *t, char *text)
{
	text[0] = 0;
	server_start(&t->mount);
	t->args.mountport = t->mount.port;
	int ret = mountd_list(&t->args, note_export, text, &t->result, t->err);
	server_end(&t->mount);
	return ret;
}

static void exports_are_listed_in_their_order(void **state)
{
	struct test *t = *state;
	char text[100];
	TURNS(&t->mount, TURN(ANSWER, EXPORTS));
	assert_int_equal(list_by_port(t, text), 0);
	assert_string_equal(text, "/srv;/home;");
	assert_int_equal(word(t->mount.call[0], 5), 5); /* MOUNTPROC3_EXPORT */
	assert_int_equal(t->result.mountport, t->mount.port);
	assert_string_equal(t->result.addr_text, "127.0.0.1");
	assert_int_equal(t->result.root.len, 0);
}

static void a_list_that_is_cut_short_is_no_list(void **state)
{
	struct test *t = *state;
	char text[100];
	TURNS(&t->mount, TURN(ANSWER, ACCEPTED, 1, 4, 0x2f737276, 1, 400, 0x2a000000));
	assert_int_equal(list_by_port(t, text), -EBADMSG);
	check_line(t, "is no MOUNT service");
	assert_string_equal(text, "");
}

static void no_list_without_a_server(void **state)
{
	struct test *t = *state;
	char text[100];
	assert_int_equal(list_by_port(t, text), -ECONNREFUSED);
	check_line(t, "connection refused");
}

static void a_host_is_looked_up(void **state)
{
	struct test *t = *state;
	assert_int_equal(mountd_lookup("127.0.0.1", &t->result, t->err), 0);
	assert_string_equal(t->result.addr_text, "127.0.0.1");
	assert_int_equal(t->result.addr.ss_family, AF_INET);
	assert_int_equal(t->result.addrlen, sizeof(struct sockaddr_in));
	assert_int_equal(mountd_lookup("not a host", &t->result, t->err), -ENXIO);
	assert_non_null(strstr(t->err, "unknown host"));
}

/* ---- refusals ---- */

static void no_such_export_lists_what_there_is(void **state)
{
	static const uint32_t statuses[] = {2, 13};
	static const int errors[] = {-ENOENT, -EACCES};
	struct test *t = *state;
	for (int i = 0; i < 2; i++) {
		TURNS(&t->mount, TURN(ANSWER, ACCEPTED, statuses[i]), TURN(ANSWER, EXPORTS));
		assert_int_equal(mount_by_port(t), errors[i]);
		check_line(t, "no such export '/data': it exports /srv, /home");
		assert_int_equal(word(t->mount.call[1], 5), 5); /* MOUNTPROC3_EXPORT */
	}
}

static void an_empty_export_list_is_said(void **state)
{
	struct test *t = *state;
	TURNS(&t->mount, TURN(ANSWER, ACCEPTED, 2), TURN(ANSWER, ACCEPTED, 0));
	assert_int_equal(mount_by_port(t), -ENOENT);
	check_line(t, "no such export '/data': it exports nothing");
}

static void permission_denied_for_an_export_that_is_listed(void **state)
{
	static const char *const paths[] = {"/srv", "/srv/deeper", "/home"};
	struct test *t = *state;
	for (int i = 0; i < 3; i++) {
		t->args.export = paths[i];
		TURNS(&t->mount, TURN(ANSWER, ACCEPTED, 13), TURN(ANSWER, EXPORTS));
		assert_int_equal(mount_by_port(t), -EACCES);
		check_line(t, "permission denied for '/");
		check_line(t, "insecure"); /* the call left from an ordinary port */
	}
	t->args.export = "/srvx";
	TURNS(&t->mount, TURN(ANSWER, ACCEPTED, 13), TURN(ANSWER, EXPORTS));
	assert_int_equal(mount_by_port(t), -EACCES);
	check_line(t, "no such export '/srvx'");
}

static void refusals_without_an_export_list(void **state)
{
	struct test *t = *state;
	TURNS(&t->mount, TURN(ANSWER, ACCEPTED, 13), TURN(CLOSE, 0));
	assert_int_equal(mount_by_port(t), -EACCES);
	check_line(t, "permission denied for '/data'");
	TURNS(&t->mount, TURN(ANSWER, ACCEPTED, 2), TURN(CLOSE, 0));
	assert_int_equal(mount_by_port(t), -ENOENT);
	check_line(t, "no such directory '/data'");
}

static void other_refusals_have_their_own_lines(void **state)
{
	static const struct {
		uint32_t status;
		int error;
		const char *part;
	} cases[] = {
		{20, -ENOTDIR, "'/data' is not a directory"},
		{22, -EINVAL, "does not accept '/data'"},
		{63, -ENAMETOOLONG, "too long"},
		{10004, -EOPNOTSUPP, "does not support"},
		{5, -EIO, "status 5"},
		{10006, -EIO, "status 10006"},
		{77777, -EIO, "status 77777"},
	};
	struct test *t = *state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		TURNS(&t->mount, TURN(ANSWER, ACCEPTED, cases[i].status));
		assert_int_equal(mount_by_port(t), cases[i].error);
		check_line(t, cases[i].part);
		assert_false(mountd_may_retry(cases[i].error));
	}
}

static void refusals_by_rpc_have_their_own_lines(void **state)
{
	struct test *t = *state;
	TURNS(&t->mount, TURN(ANSWER, 1, 0, 0, 0, 1)); /* PROG_UNAVAIL */
	assert_int_equal(mount_by_port(t), -EPROTONOSUPPORT);
	check_line(t, "no MOUNT version 3 on TCP port");
	TURNS(&t->mount, TURN(ANSWER, 1, 0, 0, 0, 2, 1, 1)); /* PROG_MISMATCH */
	assert_int_equal(mount_by_port(t), -EPROTONOSUPPORT);
	TURNS(&t->mount, TURN(ANSWER, 1, 1, 1, 5)); /* AUTH_TOOWEAK */
	assert_int_equal(mount_by_port(t), -EACCES);
	check_line(t, "refuses AUTH_SYS");
}

/* ---- hostile replies ---- */

static void replies_that_are_not_sound_are_no_mount_service(void **state)
{
	static const struct turn cases[] = {
		TURN(ANSWER, ACCEPTED),				/* no status */
		TURN(ANSWER, ACCEPTED, 0),			/* no handle */
		TURN(ANSWER, ACCEPTED, 0, 0, 0),		/* an empty one */
		TURN(ANSWER, ACCEPTED, 0, 65, 0),		/* cut short */
		TURN(ANSWER, ACCEPTED, 0, 0xfffffff0, 1, 2, 3), /* absurd */
		TURN(ANSWER, ACCEPTED, 0, 0xffffffff, 1, 2, 3),
		TURN(ANSWER, ACCEPTED, 0, 65, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17,
		     0),						    /* 65 bytes */
		TURN(ANSWER, ACCEPTED, 0, 4, 1),			    /* no flavors */
		TURN(ANSWER, ACCEPTED, 0, 4, 1, 2, 1),			    /* fewer than said */
		TURN(ANSWER, ACCEPTED, 0, 4, 1, 0x40000001, 1, 1, 1, 1, 1), /* what overflows libnfs's heap */
		TURN(ANSWER, ACCEPTED, 0, 4, 1, 0xffffffff, 1),
		TURN(ANSWER, 0, 2, 100005, 3, 1),     /* a call */
		TURN(ANSWER, 1, 0, 0, 0xfffffff0, 0), /* a verifier without end */
		TURN(ANSWER, 7),
		TURN(WRONG_XID, MNT_OK),
		TURN(RAW, 0x80000002, 0), /* two bytes of a reply */
		TURN(RAW, 0x80000000, 0), /* an empty record */
		TURN(RAW, 0, 0, 0, 0),	  /* empty fragments, one after another */
		TURN(RAW, 0xffffffff, 0), /* two gigabytes */
		TURN(RAW, 0x7fffffff, 0),
		TURN(RAW, 0x48545450, 0x2f312e31, 0x20343030), /* "HTTP/1.1 400" */
	};
	struct test *t = *state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		turns(&t->mount, 1, &cases[i]);
		int ret = mount_by_port(t);
		if (ret != -EBADMSG)
			fail_msg("case %zu: %d", i, ret);
		check_line(t, "is no MOUNT service: check mountport");
	}
}

static void a_connection_that_ends_early_is_said(void **state)
{
	struct test *t = *state;
	TURNS(&t->mount, TURN(CLOSE, 0));
	assert_int_equal(mount_by_port(t), -ECONNRESET);
	check_line(t, "is no MOUNT service");
	TURNS(&t->mount, TURN(RAW, 0x80000020, 1)); /* a mark for 32 bytes and then the end */
	assert_int_equal(mount_by_port(t), -ECONNRESET);
}

static void hostile_export_lists_only_cost_the_list(void **state)
{
	static const struct turn cases[] = {
		TURN(ANSWER, ACCEPTED),					    /* no list */
		TURN(ANSWER, ACCEPTED, 2),				    /* no boolean */
		TURN(ANSWER, ACCEPTED, 1, 0xfffffff0, 0),		    /* an absurd name */
		TURN(ANSWER, ACCEPTED, 1, 1025, 0),			    /* too long a name */
		TURN(ANSWER, ACCEPTED, 1, 4, 0x2f737276, 1, 0xffffffff, 0), /* an absurd group */
		TURN(ANSWER, ACCEPTED, 1, 4, 0x2f737276),		    /* cut short */
		TURN(ANSWER, ACCEPTED, 1, 8, 0x2f646174, 0x61000000), /* "/data" NUL NUL NUL, cut short */
	};
	struct test *t = *state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		TURNS(&t->mount, TURN(ANSWER, ACCEPTED, 2), cases[i]);
		assert_int_equal(mount_by_port(t), -ENOENT);
		check_line(t, "no such directory '/data'");
	}
	/* a name with NULs and a newline in it is not our export, and does not break the line */
	TURNS(&t->mount, TURN(ANSWER, ACCEPTED, 13),
	      TURN(ANSWER, ACCEPTED, 1, 12, 0x2f646174, 0x61000000, 0, 0, 1, 3, 0x2f0a6100, 0, 0));
	assert_int_equal(mount_by_port(t), -EACCES);
	check_line(t, "no such export '/data': it exports /data, /?a");
}

/* ---- finding the port ---- */

static int mount_by_rpcbind(struct test *t)
{
	server_start(&t->rpcbind);
	server_start(&t->mount);
	t->args.rpcbind_port = t->rpcbind.port;
	t->args.fallback_port = t->mount.port;
	int ret = mountd_mount(&t->args, &t->result, t->err);
	server_end(&t->rpcbind);
	server_end(&t->mount);
	return ret;
}

static void the_port_comes_from_rpcbind(void **state)
{
	struct test *t = *state;
	TURNS(&t->mount, TURN(ANSWER, MNT_OK));
	server_start(&t->mount);
	TURNS(&t->rpcbind, TURN(ANSWER, ACCEPTED, t->mount.port));
	server_start(&t->rpcbind);
	t->args.rpcbind_port = t->rpcbind.port;
	t->args.fallback_port = 1;
	assert_int_equal(mountd_mount(&t->args, &t->result, t->err), 0);
	server_end(&t->mount);
	server_end(&t->rpcbind);
	assert_int_equal(t->result.mountport, t->mount.port);
	const uint8_t *call = t->rpcbind.call[0];
	static const uint32_t want[] = {100000, 2, 3}; /* GETPORT of portmapper version 2 */
	for (size_t i = 0; i < 3; i++)
		assert_int_equal(word(call, 3 + i), want[i]);
	size_t args = 8 + 24 / 4 + 2;
	static const uint32_t mapping[] = {100005, 3, IPPROTO_TCP, 0};
	for (size_t i = 0; i < 4; i++)
		assert_int_equal(word(call, args + i), mapping[i]);
}

static bool have_ipv6_loopback(void)
{
	struct sockaddr_in6 a = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
	int fd = socket(AF_INET6, SOCK_STREAM, 0);
	bool have = fd >= 0 && bind(fd, (struct sockaddr *)&a, sizeof a) == 0;
	close(fd);
	return have;
}

/* A universal address as XDR: its length and its bytes in words. */
static struct turn uaddr_turn(const char *uaddr)
{
	struct turn t = TURN(ANSWER, ACCEPTED, (uint32_t)strlen(uaddr));
	char bytes[64] = "";
	strcpy(bytes, uaddr);
	for (size_t i = 0; i < strlen(uaddr); i += 4) {
		uint32_t w;
		memcpy(&w, bytes + i, 4);
		t.words[t.nwords++] = be32toh(w);
	}
	return t;
}

static void over_ipv6_the_port_comes_from_a_universal_address(void **state)
{
	struct test *t = *state;
	if (!have_ipv6_loopback())
		skip();
	char uaddr[40];
	t->args.server = "::1";
	t->mount.ipv6 = t->rpcbind.ipv6 = true;
	TURNS(&t->mount, TURN(ANSWER, MNT_OK));
	server_start(&t->mount);
	snprintf(uaddr, sizeof uaddr, "::.%u.%u", t->mount.port >> 8, t->mount.port & 255);
	t->rpcbind.turns[0] = uaddr_turn(uaddr);
	t->rpcbind.nturns = 1;
	server_start(&t->rpcbind);
	t->args.rpcbind_port = t->rpcbind.port;
	t->args.fallback_port = 1;
	int ret = mountd_mount(&t->args, &t->result, t->err);
	if (ret)
		fail_msg("%s", t->err);
	server_end(&t->mount);
	server_end(&t->rpcbind);
	assert_int_equal(t->result.mountport, t->mount.port);
	assert_string_equal(t->result.addr_text, "::1");
	assert_int_equal(((struct sockaddr_in6 *)&t->result.addr)->sin6_port, 0);
	static const uint32_t want[] = {100000, 3, 3}; /* GETADDR of rpcbind version 3 */
	for (size_t i = 0; i < 3; i++)
		assert_int_equal(word(t->rpcbind.call[0], 3 + i), want[i]);
}

/* With any of these the fallback port is taken, which answers. */
static void universal_addresses_that_are_none(void **state)
{
	static const char *const cases[] = {
		"",	  ".",	       "1.2",	       "1",	 "::.256.1", "::.1.256", "::.1.", "::..1",
		"::.0.0", "::.1000.1", "::.1.1000000", "::.a.b", "::.-1.1",  "::. 1.1"};
	struct test *t = *state;
	if (!have_ipv6_loopback())
		skip();
	t->args.server = "::1";
	t->mount.ipv6 = t->rpcbind.ipv6 = true;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		t->rpcbind.turns[0] = uaddr_turn(cases[i]);
		t->rpcbind.nturns = 1;
		TURNS(&t->mount, TURN(ANSWER, MNT_OK));
		server_start(&t->rpcbind);
		server_start(&t->mount);
		t->args.rpcbind_port = t->rpcbind.port;
		t->args.fallback_port = t->mount.port;
		int ret = mountd_mount(&t->args, &t->result, t->err);
		if (ret)
			fail_msg("'%s': %s", cases[i], t->err);
		server_end(&t->rpcbind);
		server_end(&t->mount);
	}
}

static void without_rpcbind_the_nfs_port_is_tried(void **state)
{
	struct test *t = *state;
	TURNS(&t->mount, TURN(ANSWER, MNT_OK));
	assert_int_equal(mount_by_rpcbind(t), 0); /* refused */
	assert_int_equal(t->result.mountport, t->mount.port);
	TURNS(&t->rpcbind, TURN(ANSWER, ACCEPTED, 0)); /* not registered */
	assert_int_equal(mount_by_rpcbind(t), 0);
	TURNS(&t->rpcbind, TURN(ANSWER, ACCEPTED, 65536)); /* no port */
	assert_int_equal(mount_by_rpcbind(t), 0);
	TURNS(&t->rpcbind, TURN(ANSWER, ACCEPTED)); /* nothing */
	assert_int_equal(mount_by_rpcbind(t), 0);
	TURNS(&t->rpcbind, TURN(CLOSE, 0));
	assert_int_equal(mount_by_rpcbind(t), 0);
}

static void what_was_tried_is_said_when_nothing_answers(void **state)
{
	struct test *t = *state;
	assert_int_equal(mount_by_rpcbind(t), -ECONNREFUSED);
	check_line(t, "connection refused on TCP port");
	check_line(t, "no rpcbind on port 111");
	check_line(t, "mountport=N");
	assert_true(mountd_may_retry(-ECONNREFUSED));
	TURNS(&t->rpcbind, TURN(ANSWER, ACCEPTED, 0));
	assert_int_equal(mount_by_rpcbind(t), -ECONNREFUSED);
	check_line(t, "rpcbind knows no MOUNT service");
}

static void a_refused_mountport_is_said_without_rpcbind(void **state)
{
	struct test *t = *state;
	assert_int_equal(mount_by_port(t), -ECONNREFUSED);
	check_line(t, "connection refused on TCP port");
	assert_null(strstr(t->err, "rpcbind"));
}

static void silence_ends_at_the_deadline(void **state)
{
	struct test *t = *state;
	t->args.timeout_ms = 50;
	TURNS(&t->mount, TURN(KEEP_SILENT, 0));
	assert_int_equal(mount_by_port(t), -ETIMEDOUT);
	check_line(t, "no answer from TCP port");
	assert_true(mountd_may_retry(-ETIMEDOUT));
}

static void an_unknown_host_is_said(void **state)
{
	struct test *t = *state;
	t->args.server = "no..such..host"; /* not even looked up: empty labels */
	int ret = mountd_mount(&t->args, &t->result, t->err);
	assert_true(ret == -ENXIO || ret == -EAGAIN);
	assert_memory_equal(t->err, "server no..such..host: ", 23);
	assert_non_null(strstr(t->err, "check the name"));
}

static void umount_is_a_call_whose_answer_does_not_matter(void **state)
{
	struct test *t = *state;
	TURNS(&t->mount, TURN(ANSWER, MNT_OK), TURN(RAW, 0xffffffff));
	server_start(&t->mount);
	t->args.mountport = t->mount.port;
	assert_int_equal(mountd_mount(&t->args, &t->result, t->err), 0);
	mountd_umount(&t->args, &t->result);
	server_end(&t->mount);
	assert_int_equal(word(t->mount.call[1], 5), 3); /* MOUNTPROC3_UMNT */
}

static void a_reserved_port_is_used_when_allowed(void **state)
{
	struct test *t = *state;
	uint32_t call[10] = {0}, reply[4];
	bool reserved = false;
	int probe = socket(AF_INET, SOCK_STREAM, 0);
	struct sockaddr_in any = {.sin_family = AF_INET, .sin_port = htons(1022)};
	bool allowed = bind(probe, (struct sockaddr *)&any, sizeof any) == 0 || errno == EADDRINUSE;
	close(probe);
	TURNS(&t->mount, TURN(ANSWER, 1, 2, 3));
	server_start(&t->mount);
	struct rpctcp to = {.addrlen = sizeof any, .timeout_ms = 10000, .resvport = true};
	any = (struct sockaddr_in){.sin_family = AF_INET,
				   .sin_port = htons(t->mount.port),
				   .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	memcpy(&to.addr, &any, sizeof any);
	assert_int_equal(rpctcp_call(&to, call, sizeof call, reply, sizeof reply, &reserved), 16);
	server_end(&t->mount);
	assert_int_equal(reserved, allowed);
}

static void a_call_that_is_too_long_is_not_sent(void **state)
{
	static uint8_t call[RPCTCP_CALL_MAX + 4];
	struct test *t = *state;
	uint8_t reply[16];
	TURNS(&t->mount, TURN(CLOSE, 0));
	server_start(&t->mount);
	struct sockaddr_in a = {.sin_family = AF_INET,
				.sin_port = htons(t->mount.port),
				.sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	struct rpctcp to = {.addrlen = sizeof a, .timeout_ms = 10000};
	memcpy(&to.addr, &a, sizeof a);
	assert_int_equal(rpctcp_call(&to, call, sizeof call, reply, sizeof reply, NULL), -EMSGSIZE);
	server_end(&t->mount);
}

#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(root_handle_and_address_come_back),
		T(the_call_is_mnt_of_the_export),
		T(a_reply_in_many_fragments_is_one_reply),
		T(an_empty_flavor_list_is_no_objection),
		T(auth_sys_must_be_among_the_flavors),
		T(auth_sys_may_be_the_last_flavor),
		T(no_such_export_lists_what_there_is),
		T(an_empty_export_list_is_said),
		T(permission_denied_for_an_export_that_is_listed),
		T(refusals_without_an_export_list),
		T(other_refusals_have_their_own_lines),
		T(refusals_by_rpc_have_their_own_lines),
		T(replies_that_are_not_sound_are_no_mount_service),
		T(a_connection_that_ends_early_is_said),
		T(hostile_export_lists_only_cost_the_list),
		T(the_port_comes_from_rpcbind),
		T(over_ipv6_the_port_comes_from_a_universal_address),
		T(universal_addresses_that_are_none),
		T(without_rpcbind_the_nfs_port_is_tried),
		T(what_was_tried_is_said_when_nothing_answers),
		T(exports_are_listed_in_their_order),
		T(a_list_that_is_cut_short_is_no_list),
		T(no_list_without_a_server),
		T(a_host_is_looked_up),
		T(a_refused_mountport_is_said_without_rpcbind),
		T(silence_ends_at_the_deadline),
		T(an_unknown_host_is_said),
		T(umount_is_a_call_whose_answer_does_not_matter),
		T(a_reserved_port_is_used_when_allowed),
		T(a_call_that_is_too_long_is_not_sent),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
