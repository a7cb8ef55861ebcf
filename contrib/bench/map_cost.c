/* SPDX-License-Identifier: MIT
 *
 * map_cost: what it costs to map memory for one RPC and to unmap it again, with each mapping strategy. Not a
 * test: it prints what it measured. docs/PERFORMANCE.md says how to read it.
 *
 * "map" is mapping by itself, through the pool as the client does it: borrow, map, doorbell, unmap, doorbell,
 * wait for the device to confirm, give back. In an RPC a bind shares the doorbell of the Send behind it, so
 * this is the most that mapping can cost.
 *
 * "read" is an RPC whose reply brings a payload, by the client (rpcrdma.h) from a responder (responder.h);
 * "write" one whose call carries it.
 *
 * One operation is under way at a time. Both ends are this process, a thread each, over a connection through
 * the device; either sleeps while it has nothing to do, as the products do. The strategies take turns, each
 * with a connection of its own, so that whatever else the machine does meanwhile meets all of them.
 */
#include "arena.h"
#include "responder.h"
#include "rpcrdma.h"
#include "xdr.h"

#include <arpa/inet.h>
#include <errno.h>
#include <getopt.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>

#define KIB ((uint32_t)1 << 10)
#define MIB ((uint32_t)1 << 20)
#define STUCK_MS 30000 /* nothing happens for so long: it never will */
#define WARM_UP 8u     /* operations before those that count, on each connection and for each size */
#define CREDITS 16u

static const uint32_t sizes[] = {4 * KIB, 16 * KIB, 64 * KIB, 256 * KIB, MIB};
#define SIZES (sizeof sizes / sizeof *sizes)

enum op { OP_MAP, OP_READ, OP_WRITE, OPS };
static const char *const op_names[OPS] = {"map", "read", "write"};

/* A strategy, as safe as it is in use. Ratios are to the first of them that the device can do. */
struct variant {
	const char *name;
	enum fmr_strategy strategy;
	bool remote; /* the responder invalidates, where the device lets it */
	bool skip;
};
static struct variant variants[] = {
	{"window", FMR_WINDOW, true},
	{"window own invalidate", FMR_WINDOW, false},
	{"dynamic", FMR_DYNAMIC, true},
	{"persistent", FMR_PERSISTENT, true},
};
#define VARIANTS (sizeof variants / sizeof *variants)

/* What was measured of one operation, size and variant. */
struct cell {
	uint32_t *ns; /* of each operation */
	unsigned int count;
	uint64_t cpu_ns; /* of all of them: of the process, both ends */
};
static struct cell cells[OPS][SIZES][VARIANTS];

static const struct rdma_device *device;
static struct sockaddr_in address = {.sin_family = AF_INET};
static unsigned int rounds = 5, operations = 200; /* of each kind, in each round */

static uint64_t now_ns(void)
{
	struct timespec ts;
	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
}

static uint64_t cpu_ns(void)
{
	struct timespec ts;
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
	return (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
}

static void die(const char *what, const char *why)
{
	fprintf(stderr, "map_cost: %s: %s\n", what, why);
	exit(1);
}

static void must(int rc, const char *what)
{
	if (rc < 0)
		die(what, strerror(-rc));
}

/* Sleeps until there is something to do, or until then. */
static void sleep_until(int epoll_fd, uint64_t timeout_ns)
{
	struct epoll_event event;
	uint64_t now = now_ns(), wait_ms = STUCK_MS;

	if (timeout_ns <= now)
		return;
	if (timeout_ns - now < (uint64_t)STUCK_MS * 1000000)
		wait_ms = (timeout_ns - now) / 1000000 + 1;
	if (epoll_wait(epoll_fd, &event, 1, (int)wait_ms) == 0 && wait_ms == STUCK_MS)
		die("measuring", "nothing happens any more");
}

/* ---- the responder: serves one connection in a thread of its own ---- */

struct server {
	struct rdma_listener *listener;
	uint16_t port;
	bool remote_invalidate;
	pthread_t thread;
};

/* A call is [xid, operation, length] and, to write, the payload; a reply is [xid, length] and, to read, the
 * payload. Its first byte is the XID's last. */
static void on_call(void *ctx, struct rpcrdma_svc_req *req)
{
	struct xdr_reader r = xdr_reader(req->msg, req->msg_len);
	uint32_t xid = xdr_u32(&r), op = xdr_u32(&r), len = xdr_u32(&r);
	uint32_t head[2] = {htobe32(xid), htobe32(len)};
	struct rpcrdma_svc_reply reply = {.head = (uint8_t *)head, .head_len = sizeof head};

	if (op == OP_READ) {
		uint8_t *payload = rpcrdma_svc_payload(req, len);
		if (!payload)
			die("responder", "no memory for a payload");
		payload[0] = (uint8_t)xid;
		reply.payload = payload;
		reply.payload_len = len;
	} else if (!req->data || req->data_len != len || req->data[0] != (uint8_t)xid) {
		die("responder", "a payload has not come as it was sent");
	}
	must(rpcrdma_svc_reply(req, &reply), "replying");
}

static struct rdma_ep *accept_connection(struct server *s, int epoll_fd)
{
	struct rdma_ep_params params = {.epoll_fd = epoll_fd};
	struct rdma_ep *ep;
	int err;

	while ((err = device->listener_accept(s->listener, &params, NULL, &ep)) == -EAGAIN)
		sleep_until(epoll_fd, UINT64_MAX);
	must(err, "accepting a connection");
	return ep;
}

static void *serve(void *arg)
{
	struct server *s = arg;
	int epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	struct epoll_event event = {.events = EPOLLIN};
	struct rpcrdma_svc *svc;

	epoll_ctl(epoll_fd, EPOLL_CTL_ADD, device->listener_fd(s->listener), &event);
	struct rpcrdma_svc_params params = {.ep = accept_connection(s, epoll_fd),
					    .credits = CREDITS,
					    .inline_bytes = RPCRDMA_INLINE_DEFAULT,
					    .arena_bytes = 8 * MIB,
					    .max_io_bytes = MIB,
					    .remote_invalidate = s->remote_invalidate,
					    .on_call = on_call};
	must(rpcrdma_svc_create(&params, &svc), "serving a connection");
	while (!rpcrdma_svc_closed(svc))
		if (!rpcrdma_svc_progress(svc, now_ns()) && !rpcrdma_svc_closed(svc))
			sleep_until(epoll_fd, rpcrdma_svc_next_timeout(svc));
	rpcrdma_svc_destroy(svc);
	close(epoll_fd);
	return NULL;
}

static void server_start(struct server *s, bool remote_invalidate)
{
	struct sockaddr_in addr = address;

	s->remote_invalidate = remote_invalidate;
	must(device->listen((struct sockaddr *)&addr, sizeof addr, &s->listener), "listening");
	s->port = device->listener_port(s->listener);
	must(-pthread_create(&s->thread, NULL, serve, s), "starting a thread");
}

/* The connection has ended. */
static void server_join(struct server *s)
{
	pthread_join(s->thread, NULL);
	device->listener_close(s->listener);
}

/* ---- mapping by itself ---- */

struct mapper {
	struct rdma_ep *ep;
	struct fmrpool *pool;
	int epoll_fd;
};

static int mapper_poll(struct mapper *m)
{
	struct rdma_wc wc[8];
	int n = m->ep->ops->poll(m->ep, wc, sizeof wc / sizeof *wc);

	for (int i = 0; i < n; i++) {
		must(wc[i].status, "a request");
		fmrpool_unmapped(m->pool, wc[i].ctx, false);
	}
	return n;
}

/* True when something has come of it. Requests may have completed as they were posted, so that is looked at
 * first. */
static bool mapper_turn(struct mapper *m)
{
	enum rdma_ep_state before = m->ep->state;

	if (mapper_poll(m))
		return true;
	bool more = m->ep->ops->progress(m->ep, now_ns());
	if (m->ep->state == RDMA_EP_CLOSED)
		die("connection", m->ep->why);
	return mapper_poll(m) || more || m->ep->state != before;
}

static void mapper_sleep(struct mapper *m)
{
	sleep_until(m->epoll_fd, m->ep->timeout_ns ? m->ep->timeout_ns : UINT64_MAX);
}

static void mapper_open(struct mapper *m, enum fmr_strategy strategy, uint16_t port)
{
	struct sockaddr_in addr = address;
	struct fmrpool_params pool = {
		.strategy = strategy, .fmrs = CREDITS, .arena_bytes = 8 * MIB, .max_io_bytes = MIB};

	addr.sin_port = htons(port);
	m->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	struct rdma_ep_params params = {.epoll_fd = m->epoll_fd};
	must(device->open(&params, &m->ep), "opening the device");
	must(fmrpool_create(&pool, &m->pool), "making a pool");
	must(fmrpool_attach(m->pool, &m->ep->ops->fmr, m->ep), "registering memory");
	must(m->ep->ops->connect(m->ep, (struct sockaddr *)&addr, sizeof addr, NULL, 0), "connecting");
	while (m->ep->state != RDMA_EP_ESTABLISHED)
		if (!mapper_turn(m))
			mapper_sleep(m);
	must(fmrpool_connected(m->pool), "making windows");
}

static void mapper_close(struct mapper *m)
{
	struct rdma_wc wc;

	m->ep->ops->disconnect(m->ep);
	while (m->ep->ops->poll(m->ep, &wc, 1))
		;
	fmrpool_disconnected(m->pool);
	fmrpool_detach(m->pool);
	m->ep->ops->close(m->ep);
	fmrpool_destroy(m->pool);
	close(m->epoll_fd);
}

static void map_once(struct mapper *m, char *memory, uint32_t len)
{
	struct fmr *fmr;

	must(fmrpool_borrow(m->pool, 1, &fmr, m), "borrowing");
	must(fmrpool_map(m->pool, fmr, memory, len, FMR_REMOTE_WRITE), "mapping");
	must(m->ep->ops->doorbell(m->ep), "doorbell");
	must(fmrpool_unmap(m->pool, fmr), "unmapping");
	must(m->ep->ops->doorbell(m->ep), "doorbell");
	while (fmr->state == FMR_UNMAPPING)
		if (!mapper_turn(m))
			mapper_sleep(m);
	fmrpool_return(m->pool, 1, &fmr);
}

static void cell_begin(struct cell *c)
{
	c->cpu_ns -= cpu_ns();
}

static void cell_add(struct cell *c, uint64_t ns)
{
	c->ns[c->count++] = ns < UINT32_MAX ? (uint32_t)ns : UINT32_MAX;
}

static void cell_end(struct cell *c)
{
	c->cpu_ns += cpu_ns();
}

static void measure_map(struct mapper *m, struct cell *c, uint32_t len)
{
	char *memory = arena_alloc(fmrpool_arena(m->pool), len, ARENA_REPLY);

	memset(memory, 1, len);
	for (unsigned int i = 0; i < WARM_UP; i++)
		map_once(m, memory, len);
	cell_begin(c);
	for (unsigned int i = 0; i < operations; i++) {
		uint64_t start = now_ns();
		map_once(m, memory, len);
		cell_add(c, now_ns() - start);
	}
	cell_end(c);
	arena_free(fmrpool_arena(m->pool), memory, len, ARENA_REPLY);
}

static void measure_mapping(const struct variant *v, size_t at)
{
	struct server server;
	struct mapper mapper;

	server_start(&server, v->remote);
	mapper_open(&mapper, v->strategy, server.port);
	for (size_t i = 0; i < SIZES; i++)
		measure_map(&mapper, &cells[OP_MAP][i][at], sizes[i]);
	mapper_close(&mapper);
	server_join(&server);
}

/* ---- whole RPCs ---- */

struct caller {
	struct rpcrdma_xprt *x;
	int epoll_fd;
	enum op op;
	uint8_t *memory;
	uint32_t len;
	bool done; /* what was waited for is here: the connection, or a reply */
};

static void on_status(void *ctx, const struct rpcrdma_status *status)
{
	struct caller *c = ctx;

	c->done = status->event == RPCRDMA_UP;
	if (status->event == RPCRDMA_DOWN)
		die("connection", status->why);
}

static void on_done(struct rpcrdma_call *call)
{
	struct caller *c = call->owner;

	must(call->status, "an RPC");
	if (c->op == OP_READ && (call->in_len != c->len || c->memory[0] != (uint8_t)call->xid))
		die("client", "a payload has not come as it was sent");
	c->done = true;
}

static void caller_turn(struct caller *c)
{
	bool more = rpcrdma_progress(c->x, now_ns());

	rpcrdma_flush(c->x, now_ns());
	if (!more && !c->done)
		sleep_until(c->epoll_fd, rpcrdma_next_timeout(c->x));
}

static void call_once(struct caller *c)
{
	struct rpcrdma_call *call = rpcrdma_call_get(c->x);
	uint32_t words[] = {htobe32(call->xid), htobe32(c->op), htobe32(c->len)};

	memcpy(call->msg, words, sizeof words);
	call->msg_len = call->out_pos = sizeof words;
	call->reply_max = 8;
	if (c->op == OP_READ) {
		call->in = (struct iovec){c->memory, c->len};
	} else {
		c->memory[0] = (uint8_t)call->xid;
		call->out[0] = (struct iovec){c->memory, c->len};
		call->nout = 1;
	}
	call->owner = c;
	call->done = on_done;
	c->done = false;
	rpcrdma_submit(call, now_ns());
	rpcrdma_flush(c->x, now_ns());
	while (!c->done)
		caller_turn(c);
}

static void measure_rpc(struct caller *c, struct cell *cell)
{
	c->memory = arena_alloc(rpcrdma_arena(c->x), c->len, ARENA_REPLY);
	memset(c->memory, 1, c->len);
	for (unsigned int i = 0; i < WARM_UP; i++)
		call_once(c);
	cell_begin(cell);
	for (unsigned int i = 0; i < operations; i++) {
		uint64_t start = now_ns();
		call_once(c);
		cell_add(cell, now_ns() - start);
	}
	cell_end(cell);
	arena_free(rpcrdma_arena(c->x), c->memory, c->len, ARENA_REPLY);
}

static void caller_open(struct caller *c, enum fmr_strategy strategy, uint16_t port)
{
	struct rpcrdma_params params = {.device = device,
					.addr_len = sizeof address,
					.strategy = strategy,
					.credits = CREDITS,
					.inline_bytes = RPCRDMA_INLINE_DEFAULT,
					.calls = 2,
					.arena_bytes = 8 * MIB,
					.max_io_bytes = MIB,
					.xid_first = 1,
					.timeo_ns = (uint64_t)STUCK_MS * 1000000,
					.one_shot = true,
					.on_status = on_status,
					.ctx = c};
	struct sockaddr_in addr = address;

	addr.sin_port = htons(port);
	memcpy(&params.addr, &addr, sizeof addr);
	params.epoll_fd = c->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	must(rpcrdma_create(&params, &c->x), "opening the device");
	must(rpcrdma_connect(c->x, now_ns()), "connecting");
	while (!c->done)
		caller_turn(c);
}

/* The variant was what its name says: otherwise the figures are those of another. */
static void check_unmapped(const struct caller *c, const struct variant *v)
{
	const struct fmrpool_stats *stats = fmrpool_stats(rpcrdma_pool(c->x));
	uint64_t rpcs = 2 * SIZES * (WARM_UP + operations);
	bool remote =
		v->strategy == FMR_WINDOW && v->remote && rpcrdma_endpoint(c->x)->limits.remote_invalidate;

	if (stats->mapped != rpcs || (remote ? stats->unmapped_remote : stats->unmapped_local) != rpcs)
		die(v->name, "the RPCs were not mapped and unmapped as they should have been");
}

static void measure_rpcs(const struct variant *v, size_t at)
{
	struct server server;
	struct caller caller = {0};

	server_start(&server, v->remote);
	caller_open(&caller, v->strategy, server.port);
	for (caller.op = OP_READ; caller.op <= OP_WRITE; caller.op++)
		for (size_t i = 0; i < SIZES; i++) {
			caller.len = sizes[i];
			measure_rpc(&caller, &cells[caller.op][i][at]);
		}
	check_unmapped(&caller, v);
	rpcrdma_destroy(caller.x);
	close(caller.epoll_fd);
	server_join(&server);
}

/* ---- the whole, and what is said of it ---- */

static struct rdma_limits find_limits(void)
{
	struct rdma_limits limits;

	if (device->probe) {
		struct rdma_probe probe;
		must(device->probe((struct sockaddr *)&address, sizeof address, &probe),
		     "looking for an adapter");
		return probe.limits;
	}
	struct rdma_ep_params params = {.epoll_fd = epoll_create1(EPOLL_CLOEXEC)};
	struct rdma_ep *ep;
	must(device->open(&params, &ep), "opening the device");
	limits = ep->limits;
	ep->ops->close(ep);
	close(params.epoll_fd);
	return limits;
}

static void choose_variants(void)
{
	struct rdma_limits limits = find_limits();

	for (size_t i = 0; i < VARIANTS; i++) {
		struct variant *v = &variants[i];
		if (v->strategy == FMR_WINDOW)
			v->skip = !limits.windows || (!v->remote && !limits.remote_invalidate);
	}
}

static void make_cells(void)
{
	for (size_t op = 0; op < OPS; op++)
		for (size_t i = 0; i < SIZES; i++)
			for (size_t v = 0; v < VARIANTS; v++) {
				uint32_t *ns = malloc((size_t)rounds * operations * sizeof *ns);
				must(ns ? 0 : -ENOMEM, "making room");
				cells[op][i][v].ns = ns;
			}
}

static int compare_u32(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
	return (x > y) - (x < y);
}

struct figures {
	double median_us, p99_us, cpu_us;
};

static struct figures figures_of(const struct cell *c)
{
	return (struct figures){.median_us = c->ns[c->count / 2] / 1e3,
				.p99_us = c->ns[c->count * 99 / 100] / 1e3,
				.cpu_us = (double)c->cpu_ns / c->count / 1e3};
}

static void sort_cells(void)
{
	for (size_t op = 0; op < OPS; op++)
		for (size_t i = 0; i < SIZES; i++)
			for (size_t v = 0; v < VARIANTS; v++)
				qsort(cells[op][i][v].ns, cells[op][i][v].count, sizeof(uint32_t),
				      compare_u32);
}

static size_t reference(void)
{
	size_t v = 0;
	while (variants[v].skip)
		v++;
	return v;
}

/* No more digits than mean something. */
static void print_us(double us, const char *then)
{
	printf("%.*f%s", us < 10 ? 2 : us < 100 ? 1 : 0, us, then);
}

/* For people, and for a document: a table of Markdown for each operation. */
static void print_table(enum op op)
{
	size_t first = reference();

	printf("\n| %s |", op_names[op]);
	for (size_t v = 0; v < VARIANTS; v++)
		if (cells[op][0][v].count)
			printf(" %s |", variants[v].name);
	printf("\n|---|");
	for (size_t v = 0; v < VARIANTS; v++)
		if (cells[op][0][v].count)
			printf("---|");
	printf("\n");
	for (size_t i = 0; i < SIZES; i++) {
		double of_first = figures_of(&cells[op][i][first]).median_us;
		printf("| %u KiB |", sizes[i] / KIB);
		for (size_t v = 0; v < VARIANTS; v++) {
			if (!cells[op][i][v].count)
				continue;
			struct figures f = figures_of(&cells[op][i][v]);
			printf(" ");
			print_us(f.median_us, " / ");
			print_us(f.p99_us, " / ");
			print_us(f.cpu_us, "");
			if (v != first)
				printf(" (%.2f)", f.median_us / of_first);
			printf(" |");
		}
		printf("\n");
	}
}

static void print_tables(void)
{
	printf("%s: each cell: median / 99th percentile / CPU time of both ends, in microseconds\n"
	       "(the median as a multiple of that with %s); %u operations in %u rounds\n",
	       device->name, variants[reference()].name, rounds * operations, rounds);
	for (enum op op = OP_MAP; op < OPS; op++)
		print_table(op);
}

static void write_csv(const char *path)
{
	size_t first = reference();
	FILE *out = fopen(path, "w");

	must(out ? 0 : -errno, path);
	fprintf(out, "device,operation,strategy,bytes,operations,median_us,p99_us,cpu_us,ratio,ratio_to\n");
	for (enum op op = OP_MAP; op < OPS; op++)
		for (size_t i = 0; i < SIZES; i++)
			for (size_t v = 0; v < VARIANTS; v++) {
				const struct cell *c = &cells[op][i][v];
				if (!c->count)
					continue;
				struct figures f = figures_of(c);
				fprintf(out, "%s,%s,%s,%u,%u,%.3f,%.3f,%.3f,%.3f,%s\n", device->name,
					op_names[op], variants[v].name, sizes[i], c->count, f.median_us,
					f.p99_us, f.cpu_us,
					f.median_us / figures_of(&cells[op][i][first]).median_us,
					variants[first].name);
			}
	must(fclose(out) ? -errno : 0, path);
}

static void usage(void)
{
	fprintf(stderr,
		"usage: map_cost [OPTION…]\n"
		"  --device=NAME       softiwarp (taken when none is named) or verbs\n"
		"  --address=ADDRESS   an IPv4 address of this machine, for verbs one on an adapter "
		"(127.0.0.1)\n"
		"  --rounds=N          how often the strategies take turns (%u)\n"
		"  --operations=N      of each kind and size in each round (%u)\n"
		"  --csv=FILE          writes the figures there too\n",
		rounds, operations);
	exit(2);
}

static unsigned int positive(const char *text)
{
	char *end;
	unsigned long n = strtoul(text, &end, 10);

	if (*end || n < 1 || n > 1000000)
		usage();
	return (unsigned int)n;
}

/* The file that CSV goes to, or NULL. */
static const char *parse(int argc, char **argv)
{
	static const struct option options[] = {
		{"address", required_argument, NULL, 'a'},    {"csv", required_argument, NULL, 'c'},
		{"device", required_argument, NULL, 'd'},     {"rounds", required_argument, NULL, 'r'},
		{"operations", required_argument, NULL, 'o'}, {0}};
	const char *device_name = "softiwarp", *csv = NULL;
	int c;

	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	while ((c = getopt_long(argc, argv, "", options, NULL)) != -1)
		switch (c) {
		case 'a':
			if (inet_pton(AF_INET, optarg, &address.sin_addr) != 1)
				usage();
			break;
		case 'c':
			csv = optarg;
			break;
		case 'd':
			device_name = optarg;
			break;
		case 'o':
			operations = positive(optarg);
			break;
		case 'r':
			rounds = positive(optarg);
			break;
		default:
			usage();
		}
	device = rdma_device_by_name(device_name);
	if (!device || optind < argc)
		usage();
	return csv;
}

int main(int argc, char **argv)
{
	const char *csv = parse(argc, argv);

	choose_variants();
	make_cells();
	for (unsigned int round = 0; round < rounds; round++)
		for (size_t v = 0; v < VARIANTS; v++) {
			if (variants[v].skip)
				continue;
			if (variants[v].remote) /* by itself, no mapping is ever unmapped by the peer */
				measure_mapping(&variants[v], v);
			measure_rpcs(&variants[v], v);
		}
	sort_cells();
	print_tables();
	if (csv)
		write_csv(csv);
	return 0;
}
