/* SPDX-License-Identifier: MIT
 *
 * nfsrdma-probe SERVER[:/EXPORT] [-o OPTIONS]: tries all that a mount needs of a server, in the order in
 * which a mount does, and says what it found; for what fails, the likely reason and what to do.
 *
 * Normal operation. MOUNT is asked over TCP, the device is chosen as nfsrdma chooses it (setup_choice.h), one
 * transport connects with the memory of one lane, and this thread drives it: progress, flush, sleep in epoll.
 * No FUSE, no lane, no second try: the first failure of the connection is final.
 *
 * What the server says goes to a terminal: each line is made one line of printable text.
 */
#include "cred.h"
#include "log.h"
#include "mountd.h"
#include "nfs3.h"
#include "options.h"
#include "probe.h"
#include "rpccall.h"
#include "rpcrdma.h"
#include "setup_choice.h"
#include "xdr.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#define SECOND_NS 1000000000ull
#define CONNECT_NS (30 * SECOND_NS) /* more than any device takes to give up */
#define ANSWER_NS (10 * SECOND_NS)
#define NULL_CALLS 20u
#define EXPORTS_MAX 16u /* that are tried when none was named */
#define LISTED_MAX 64u	/* that are shown; the rest is counted */
#define REPLY_BYTES 1024u

enum { EXIT_USAGE = 2 };

static struct options opts;
static bool named; /* an export was */
static struct cred cred;
static struct mountd_export server;
static struct setup_choice choice;
static struct probe_facts facts;
static unsigned int failures;

static struct target {
	char path[OPTIONS_EXPORT_MAX + 1];
	struct nfs3_fh root;
	bool mounted;
} targets[EXPORTS_MAX];
static unsigned int ntargets, nlisted;

/* ---- speaking ---- */

static void say(const char *what, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void say(const char *what, const char *format, ...)
{
	char line[MOUNTD_ERR_SIZE + 256];
	va_list ap;
	va_start(ap, format);
	vsnprintf(line, sizeof line, format, ap);
	va_end(ap);
	log_one_line(line);
	printf("%-11s %s\n", what, line);
	fflush(stdout);
}

static void say_failed(const char *what, const char *line, const char *likely)
{
	failures++;
	say(what, "FAILED: %s", line);
	if (likely[0])
		say("  likely", "%s", likely);
}

static uint64_t now_ns(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * SECOND_NS + (uint64_t)t.tv_nsec;
}

static double ms(uint64_t ns)
{
	return (double)ns / 1e6;
}

/* ---- MOUNT ---- */

static struct mountd_args mountd_args(const char *export)
{
	return (struct mountd_args){.server = opts.server,
				    .export = export,
				    .mountport = (uint16_t)opts.mountport,
				    .resvport = opts.resvport,
				    .cred = &cred,
				    .timeout_ms = MOUNTD_TIMEOUT_MS};
}

static void on_export(void *ctx, const char *path, uint32_t len)
{
	struct target *t = &targets[ntargets];
	if (nlisted++ < LISTED_MAX)
		say(nlisted == 1 ? "exports" : "", "%.*s", (int)len, path);
	if (named || ntargets == EXPORTS_MAX || len > OPTIONS_EXPORT_MAX || memchr(path, 0, len))
		return;
	memcpy(t->path, path, len);
	t->path[len] = 0;
	ntargets++;
}

/* Asks for the root, and says at once that it is not used: nothing stays mounted in the server's books. */
static int ask_root(struct target *t, char *err)
{
	struct mountd_args args = mountd_args(t->path);
	struct mountd_export found;
	int error = mountd_mount(&args, &found, err);
	if (error)
		return error;
	mountd_umount(&args, &found);
	server = found;
	t->root = found.root;
	t->mounted = true;
	return 0;
}

static void list_exports(void)
{
	char line[MOUNTD_ERR_SIZE];
	struct mountd_args args = mountd_args("/");
	int error = mountd_list(&args, on_export, NULL, &server, line);
	if (error && named)
		say("exports", "not to be had: %s", line); /* a mount does not need the list */
	else if (error)
		say_failed("exports", line, "");
	else if (nlisted == 0)
		say("exports", "none");
	else if (nlisted > LISTED_MAX)
		say("", "and %u more", nlisted - LISTED_MAX);
	facts.nfs_answers = !error;
}

static void mount_exports(void)
{
	char line[MOUNTD_ERR_SIZE];
	unsigned int good = 0;
	for (unsigned int i = 0; i < ntargets; i++) {
		if (ask_root(&targets[i], line) == 0)
			good++;
		else if (named)
			say_failed("mount", line, "");
		else
			say("mount", "not %s: %s", targets[i].path, line);
	}
	facts.nfs_answers |= good > 0;
	if (good)
		say("mount", "MOUNT version 3 on TCP port %u gives %s", server.mountport,
		    named || good == ntargets ? "what is asked for" : "some of it");
	else if (!named && facts.nfs_answers)
		say_failed("mount", "no export of this server can be mounted from here", "");
}

static int find_server(void)
{
	char line[MOUNTD_ERR_SIZE];
	int error = mountd_lookup(opts.server, &server, line);
	if (error) {
		say_failed("server", line, "");
		return error;
	}
	say("server", "%s (%s)", opts.server, server.addr_text);
	if (named)
		snprintf(targets[ntargets++].path, sizeof targets[0].path, "%s", opts.export);
	list_exports();
	mount_exports();
	return 0;
}

/* ---- the device ---- */

static void look_around(void)
{
	struct dirent *entry;
	DIR *dir = opendir("/sys/class/infiniband");
	while (dir && (entry = readdir(dir)))
		facts.adapters |= entry->d_name[0] != '.';
	if (dir)
		closedir(dir);
	facts.rdma_cm = access("/dev/infiniband/rdma_cm", F_OK) == 0 || access("/dev/rdma_cm", F_OK) == 0;
}

static void say_device(void)
{
	say("device", "%s%s%s: %s", choice.device->name, choice.adapter[0] ? " over " : "", choice.adapter,
	    choice.why);
	if (!facts.verbs && opts.device == DEVICE_AUTO)
		say("", "%s; softiwarp reaches iWARP servers only", probe_no_verbs(&facts));
	say("memreg", "%s: %s%s", fmr_strategy_name((enum fmr_strategy)choice.strategy), choice.strategy_why,
	    choice.strategy == FMR_PERSISTENT
		    ? "; NOT safe: the server can reach all registered memory at any time"
		    : "");
}

static int choose(void)
{
	char line[SETUP_ERR_SIZE];
	look_around();
	sockaddr_set_port(&server.addr, (uint16_t)opts.port);
	int error = setup_choose(&opts, &server.addr, server.addrlen, &choice, line);
	if (!error)
		error = setup_check_arena(&opts, line);
	if (error) {
		facts.verbs = opts.device == DEVICE_VERBS;
		say_failed("device", line, probe_likely(error, &facts));
		return error;
	}
	facts.verbs = strcmp(choice.device->name, "verbs") == 0;
	say_device();
	return 0;
}

/* ---- the connection ---- */

static struct {
	struct rpcrdma_xprt *xprt;
	int epoll_fd;
	bool up, down;
	int error;
	char why[160];
} conn = {.epoll_fd = -1};

static void on_status(void *ctx, const struct rpcrdma_status *status)
{
	conn.up = status->event == RPCRDMA_UP;
	if (conn.up || conn.down)
		return;
	conn.down = true;
	conn.error = status->error;
	snprintf(conn.why, sizeof conn.why, "%s",
		 status->why && status->why[0] ? status->why : strerror(-status->error));
}

static int sleep_ms(uint64_t until_ns)
{
	uint64_t now = now_ns(), next = rpcrdma_next_timeout(conn.xprt);
	if (next > until_ns)
		next = until_ns;
	return next <= now ? 0 : (int)((next - now + 999999) / 1000000);
}

/* Drives the transport until *done, the connection's end, or the time. */
static void run_until(const bool *done, uint64_t until_ns)
{
	while (!*done && !conn.down && now_ns() < until_ns) {
		struct epoll_event events[8];
		bool more = rpcrdma_progress(conn.xprt, now_ns());
		rpcrdma_flush(conn.xprt, now_ns());
		if (!*done && !conn.down && !more)
			epoll_wait(conn.epoll_fd, events, 8, sleep_ms(until_ns));
	}
}

static int open_transport(void)
{
	uint32_t xid = 0;
	if (getrandom(&xid, sizeof xid, 0) != sizeof xid)
		xid = (uint32_t)now_ns();
	struct rpcrdma_params params = {
		.device = choice.device,
		.addr = server.addr,
		.addr_len = server.addrlen,
		.strategy = (enum fmr_strategy)choice.strategy,
		.credits = opts.credits < RPCRDMA_CREDITS_MAX ? opts.credits : RPCRDMA_CREDITS_MAX,
		.inline_bytes = opts.inline_size < RPCRDMA_INLINE_MAX ? opts.inline_size : RPCRDMA_INLINE_MAX,
		.calls = 1,
		.arena_bytes = opts.arena & ~(size_t)4095,
		.max_io_bytes = setup_max_io(&opts),
		.xid_first = rpcrdma_xid_lane(xid, 0),
		.timeo_ns = ANSWER_NS,
		.soft = true,
		.one_shot = true,
		.on_status = on_status,
	};
	params.epoll_fd = conn.epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (conn.epoll_fd < 0)
		return -errno;
	return rpcrdma_create(&params, &conn.xprt);
}

static void address_text(char *text, size_t size)
{
	bool ipv6 = server.addr.ss_family == AF_INET6;
	snprintf(text, size, "%s%s%s:%u", ipv6 ? "[" : "", server.addr_text, ipv6 ? "]" : "", opts.port);
}

static const char *says_invalidate(const struct rpcrdma_agreed *agreed)
{
	if (agreed->offers_invalidate)
		return agreed->peer_invalidates ? "offered, and the server says that it does"
						: "offered; the server does not say whether it does";
	if (choice.strategy != FMR_WINDOW)
		return "not offered: for memreg=window only";
	return "not offered: an RDMA device here cannot do it, or not safely";
}

static void say_agreed(void)
{
	const struct rdma_limits *limits = &rpcrdma_endpoint(conn.xprt)->limits;
	struct rpcrdma_agreed agreed;
	if (!rpcrdma_agreed(conn.xprt, &agreed))
		return;
	say("inline", "%u bytes to the server, %u from it (%u asked for%s)", agreed.send_bytes,
	    agreed.recv_bytes, opts.inline_size,
	    agreed.peer_told ? "" : "; the server says nothing of it, so the least that there is");
	say("read depth", "%u RDMA Reads of the server's at a time; %u of ours, which NFS needs none of",
	    limits->read_depth_in, limits->read_depth_out);
	say("windows", "%s",
	    !limits->windows ? "the device has none"
	    : limits->window_bounds
		    ? "the device has them, and enforces their bounds"
		    : "the device has them, but does NOT enforce their bounds: during a call the "
		      "server reaches 2 MiB around the payload");
	say("invalidate", "by the server: %s", says_invalidate(&agreed));
}

static int connect_to_server(void)
{
	char where[sizeof server.addr_text + 16], line[sizeof where + sizeof conn.why + 64];
	uint64_t start = now_ns();
	int error = open_transport();
	address_text(where, sizeof where);
	if (error) {
		snprintf(line, sizeof line, "cannot set up %u bytes of registered memory: %s", opts.arena,
			 strerror(-error));
		say_failed("connect", line, probe_likely(error, &facts));
		return error;
	}
	rpcrdma_connect(conn.xprt, start);
	run_until(&conn.up, start + CONNECT_NS);
	if (conn.up) {
		say("connect", "to %s in %.3f ms", where, ms(now_ns() - start));
		say_agreed();
		return 0;
	}
	error = conn.down ? conn.error : -ETIMEDOUT;
	snprintf(line, sizeof line, "to %s: %s", where, conn.down ? conn.why : "no answer");
	say_failed("connect", line, probe_likely(error, &facts));
	return error;
}

/* ---- calls ---- */

/* The one call under way. Lives as long as the program, as the transport may still name it when it ends. */
static struct {
	bool done;
	int error;
	uint64_t done_ns;
	uint8_t reply[REPLY_BYTES];
	uint32_t len;
} answer;

static void on_done(struct rpcrdma_call *call)
{
	answer.done = true;
	answer.done_ns = now_ns();
	answer.error = call->status;
	if (!call->status && call->reply_len > sizeof answer.reply)
		answer.error = -EBADMSG;
	if (answer.error)
		return;
	answer.len = call->reply_len;
	memcpy(answer.reply, call->reply, answer.len);
}

/* One call and its answer: 0 with the reader at the results. */
static int ask(enum nfs3_proc proc, const void *args, struct xdr_reader *r, uint64_t *took_ns)
{
	struct rpcrdma_call *call = rpcrdma_call_get(conn.xprt);
	if (!call)
		return -ENOBUFS;
	int len = nfs3_encode(call->msg, RPCRDMA_MSG_BYTES, call->xid, &cred, proc, args);
	if (len < 0) {
		rpcrdma_call_put(call);
		return len;
	}
	call->msg_len = (uint32_t)len;
	call->reply_max = nfs3_reply_max(proc, 0);
	call->done = on_done;
	answer.done = false;
	uint64_t start = now_ns();
	rpcrdma_submit(call, start);
	rpcrdma_flush(conn.xprt, start);
	run_until(&answer.done, start + 2 * ANSWER_NS);
	if (!answer.done)
		return conn.down ? conn.error : -ETIMEDOUT;
	if (answer.error)
		return answer.error;
	if (took_ns)
		*took_ns = answer.done_ns - start;
	*r = xdr_reader(answer.reply, answer.len);
	return nfs3_reply_header(r);
}

/* call: what was asked, of what. */
static void say_no_answer(const char *what, const char *call, const char *of, int error)
{
	char line[OPTIONS_EXPORT_MAX + sizeof conn.why + 64];
	snprintf(line, sizeof line, "%s over RDMA%s%s: %s", call, of[0] ? ", of " : "", of,
		 conn.down ? conn.why : strerror(-error));
	say_failed(what, line,
		   error == -EPROTONOSUPPORT ? probe_likely(error, &facts)
		   : error == -ETIMEDOUT ? "the server took the connection, but does not answer: is its NFS "
					   "service running, and do its messages get through?"
					 : "");
}

/* The first call brings the credits, and may find a sleeping server: its time is told apart. */
static int ask_null(void)
{
	uint64_t first_ns, times_ns[NULL_CALLS];
	struct xdr_reader r;
	int error = ask(NFSPROC3_NULL, NULL, &r, &first_ns);
	if (!error)
		say("credits", "%" PRIu64 " granted (%u asked for)", rpcrdma_stats(conn.xprt)->credits,
		    opts.credits);
	for (unsigned int i = 0; !error && i < NULL_CALLS; i++)
		error = ask(NFSPROC3_NULL, NULL, &r, &times_ns[i]);
	if (error) {
		say_no_answer("NULL", "the call", "", error);
		return error;
	}
	struct probe_spread s = probe_spread(times_ns, NULL_CALLS);
	say("NULL", "%u calls one by one: min %.3f, median %.3f, max %.3f ms; the very first %.3f ms",
	    NULL_CALLS, ms(s.min_ns), ms(s.median_ns), ms(s.max_ns), ms(first_ns));
	return 0;
}

static int ask_root_attr(const struct nfs3_fh *root)
{
	struct nfs3_attr_res res;
	struct xdr_reader r;
	int error = ask(NFSPROC3_GETATTR, root, &r, NULL);
	if (!error)
		error = nfs3_decode_getattr(&r, &res);
	if (!error)
		error = nfs3_errno(res.status);
	if (!error && res.attr.type != NFS3_DIR)
		error = -ENOTDIR;
	return error;
}

static int ask_fsinfo(const struct nfs3_fh *root, struct nfs3_fsinfo_res *res)
{
	struct xdr_reader r;
	int error = ask(NFSPROC3_FSINFO, root, &r, NULL);
	if (!error)
		error = nfs3_decode_fsinfo(&r, res);
	return error ? error : nfs3_errno(res->status);
}

static void ask_export(const struct target *t)
{
	struct nfs3_fsinfo_res info;
	int error = ask_root_attr(&t->root);
	if (error) {
		say_no_answer("export", "GETATTR", t->path, error);
		return;
	}
	error = ask_fsinfo(&t->root, &info);
	if (error) {
		say_no_answer("export", "FSINFO", t->path, error);
		return;
	}
	say("export", "%s", t->path);
	say("  READ", "up to %u bytes, preferably %u", info.rtmax, info.rtpref);
	say("  WRITE", "up to %u bytes, preferably %u", info.wtmax, info.wtpref);
	say("  READDIR", "preferably %u bytes", info.dtpref);
	say("  files", "up to %" PRIu64 " bytes", info.maxfilesize);
}

static void probe_rdma(void)
{
	if (choose() == 0 && connect_to_server() == 0 && ask_null() == 0)
		for (unsigned int i = 0; i < ntargets && !conn.down; i++)
			if (targets[i].mounted)
				ask_export(&targets[i]);
	rpcrdma_destroy(conn.xprt);
	if (conn.epoll_fd >= 0)
		close(conn.epoll_fd);
}

/* ---- the command line ---- */

#define USAGE "usage: nfsrdma-probe SERVER[:/EXPORT] [-o OPTIONS]"

static int usage_error(const char *what)
{
	fprintf(stderr, "nfsrdma-probe: %s\n", what);
	return EXIT_USAGE;
}

/* SERVER alone is SERVER:/ of which the export counts for nothing. */
static int parse_target(const char *text, char *err)
{
	char source[sizeof opts.source];
	named = strstr(text, ":/") != NULL;
	if ((size_t)snprintf(source, sizeof source, "%s%s", text, named ? "" : ":/") >= sizeof source) {
		snprintf(err, OPTIONS_ERR_SIZE, "the name of the server is too long");
		return -EINVAL;
	}
	return options_parse_source(&opts, source, err);
}

static int parse(int argc, char *argv[])
{
	static const struct option long_names[] = {
		{"help", no_argument, NULL, 'h'}, {"version", no_argument, NULL, 'V'}, {0}};
	char err[OPTIONS_ERR_SIZE] = USAGE;
	int c;
	options_defaults(&opts, geteuid() == 0);
	while ((c = getopt_long(argc, argv, "o:hV", long_names, NULL)) != -1) {
		if (c == 'h') {
			puts(USAGE
			     "\nTries what a mount of this server needs, and says what it found. Options are "
			     "those of nfsrdma(8).");
			exit(EXIT_SUCCESS);
		}
		if (c == 'V') {
			options_version(stdout);
			exit(EXIT_SUCCESS);
		}
		if (c != 'o' || options_parse_list(&opts, optarg, err))
			return usage_error(err);
	}
	if (argc - optind != 1)
		return usage_error(USAGE);
	return parse_target(argv[optind], err) ? usage_error(err) : 0;
}

int main(int argc, char *argv[])
{
	char machine[CRED_MACHINE_MAX + 1] = "";
	int status = parse(argc, argv);
	if (status)
		return status;
	gethostname(machine, sizeof machine - 1);
	cred_init(&cred, machine, geteuid(), getegid(), NULL, 0);
	if (find_server() == 0)
		probe_rdma();
	say("result", "%s", failures ? "a mount does not work, see FAILED" : "a mount has what it needs");
	return failures ? EXIT_FAILURE : EXIT_SUCCESS;
}
