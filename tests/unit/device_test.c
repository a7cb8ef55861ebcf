/* SPDX-License-Identifier: MIT
 *
 * One suite over every RDMA device (rpcrdma/device.h): what the interface promises, between two endpoints of
 * the same device in one thread. A device that lacks a feature skips the tests of that feature.
 *
 * Verbs needs an RDMA device: it is tested, and it alone, when DEVICE_TEST_VERBS names an IPv4 address of
 * this machine that lies on one.
 */
#include "device.h"
#include "fake_device.h"
#include "header.h"
#include "softiwarp/softiwarp.h"
#include "verbs/verbs.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <cmocka.h>

static const struct subject {
	const struct rdma_device *device;
	bool stream;	 /* between two sockets: set-up takes time, depths are agreed on, messages can be half
			    sent */
	bool strict;	 /* a bind or invalidate that cannot be is refused when it is queued */
	bool zero_based; /* the first byte of a region has offset 0 */
	bool exact;  /* private data arrives as long as it was sent; who broke the protocol is told apart */
	bool checks; /* local memory is looked at when a request is queued, not when it is executed */
	const char *address_from; /* environment variable without which the device is not tested */
} subjects[] = {
	{&softiwarp_device, true, true, true, true, true, NULL},
	{&fake_device, false, false, false, true, true, NULL},
	{&verbs_device, false, true, false, false, false, "DEVICE_TEST_VERBS"},
};
static struct in_addr device_address; /* of the device that is being tested */

/* Bytes of private data that any fabric carries: see RDMA_PRIVATE_MAX. */
#define PRIVATE_ANYWHERE 56u

#define MEMORY_BYTES ((size_t)4 << 20)
/* Nothing happens for so long: it never will. An adapter may send again what was lost after seconds only. */
#define STUCK_MS 20000
#define WC_MAX 512

/* One side: an endpoint, a region, and the completions that were polled from it. */
struct side {
	struct rdma_ep *ep;
	char *memory;
	struct fmr_region region;
	struct rdma_wc wc[WC_MAX];
	unsigned int nwc;
	bool exact; /* as the subject */
};

struct pair {
	const struct subject *subject;
	const struct rdma_device *device;
	struct rdma_listener *listener;
	struct sockaddr_in addr;
	int epoll_fd;
	struct side client, server;
};

/* ---- driving both sides ---- */

static bool progress(struct side *side)
{
	if (!side->ep)
		return false;
	bool more = side->ep->ops->progress(side->ep, 0);
	int n;
	do {
		assert_true(side->nwc < WC_MAX);
		n = side->ep->ops->poll(side->ep, side->wc + side->nwc, (int)(WC_MAX - side->nwc));
		side->nwc += (unsigned int)n;
	} while (n);
	return more;
}

/* Lets both sides do what they can; true when there is more at once. */
static bool pump(struct pair *p)
{
	bool more = progress(&p->client);
	return progress(&p->server) || more;
}

static void wait_event(struct pair *p)
{
	struct epoll_event event;
	if (epoll_wait(p->epoll_fd, &event, 1, STUCK_MS) == 0)
		fail_msg("nothing happens any more");
}

#define PUMP_UNTIL(pair, condition)                                                                          \
	for (;;) {                                                                                           \
		bool more_ = pump(pair);                                                                     \
		if (condition)                                                                               \
			break;                                                                               \
		if (!more_)                                                                                  \
			wait_event(pair);                                                                    \
	}

static void wait_wc(struct pair *p, struct side *side, unsigned int n)
{
	PUMP_UNTIL(p, side->nwc >= n);
}

static struct rdma_wc take(struct side *side)
{
	assert_true(side->nwc > 0);
	struct rdma_wc wc = side->wc[0];
	memmove(side->wc, side->wc + 1, --side->nwc * sizeof *side->wc);
	return wc;
}

static struct rdma_wc next_wc(struct pair *p, struct side *side)
{
	wait_wc(p, side, 1);
	return take(side);
}

static void expect_wc(struct pair *p, struct side *side, enum rdma_wc_kind kind, int status, void *ctx)
{
	struct rdma_wc wc = next_wc(p, side);
	assert_int_equal(wc.kind, kind);
	assert_int_equal(wc.status, status);
	assert_ptr_equal(wc.ctx, ctx);
}

/* ---- set-up ---- */

static void side_register(struct side *side, unsigned int remote)
{
	if (!side->memory)
		side->memory = aligned_alloc(4096, MEMORY_BYTES);
	assert_non_null(side->memory);
	side->region.addr = side->memory;
	side->region.len_bytes = MEMORY_BYTES;
	assert_int_equal(side->ep->ops->fmr.region_register(side->ep, &side->region, remote), 0);
}

static struct rdma_ep_params params_of(struct pair *p, struct side *side)
{
	return (struct rdma_ep_params){.epoll_fd = p->epoll_fd, .epoll_data = side};
}

static void start_listener(struct pair *p)
{
	p->addr = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr = device_address};
	assert_int_equal(p->device->listen((struct sockaddr *)&p->addr, sizeof p->addr, &p->listener), 0);
	p->addr.sin_port = htons(p->device->listener_port(p->listener));
	assert_int_not_equal(p->addr.sin_port, 0);
}

static void open_client(struct pair *p, const struct rdma_ep_params *params)
{
	assert_int_equal(p->device->open(params, &p->client.ep), 0);
	assert_int_equal(p->client.ep->state, RDMA_EP_IDLE);
	side_register(&p->client, 0);
}

static void connect_client(struct pair *p, const char *priv)
{
	assert_int_equal(p->client.ep->ops->connect(p->client.ep, (struct sockaddr *)&p->addr, sizeof p->addr,
						    priv, (uint32_t)strlen(priv)),
			 0);
}

static void open_server(struct pair *p, const struct rdma_ep_params *params)
{
	struct sockaddr_storage from;
	int rc = p->device->listener_accept(p->listener, params, &from, &p->server.ep);
	while (rc == -EAGAIN) {
		progress(&p->client);
		rc = p->device->listener_accept(p->listener, params, &from, &p->server.ep);
	}
	assert_int_equal(rc, 0);
	assert_int_equal(from.ss_family, AF_INET);
	side_register(&p->server, 0);
	PUMP_UNTIL(p, p->server.ep->state == RDMA_EP_REQUESTED);
}

static void establish(struct pair *p)
{
	struct rdma_ep_params params = params_of(p, &p->server);
	connect_client(p, "hello");
	open_server(p, &params);
	assert_int_equal(p->server.ep->ops->accept(p->server.ep, "welcome", 7), 0);
	PUMP_UNTIL(p,
		   p->client.ep->state == RDMA_EP_ESTABLISHED && p->server.ep->state == RDMA_EP_ESTABLISHED);
}

static int setup_bare(void **state)
{
	struct pair *p = calloc(1, sizeof *p);
	p->subject = *state;
	p->device = p->subject->device;
	p->client.exact = p->server.exact = p->subject->exact;
	p->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	start_listener(p);
	struct rdma_ep_params params = params_of(p, &p->client);
	open_client(p, &params);
	*state = p;
	return 0;
}

static int setup_connected(void **state)
{
	setup_bare(state);
	establish(*state);
	return 0;
}

static void close_side(struct side *side)
{
	if (side->ep)
		side->ep->ops->close(side->ep);
	side->ep = NULL;
	free(side->memory);
	side->memory = NULL;
}

static int teardown(void **state)
{
	struct pair *p = *state;
	close_side(&p->client);
	close_side(&p->server);
	if (p->listener)
		p->device->listener_close(p->listener);
	close(p->epoll_fd);
	free(p);
	return 0;
}

/* ---- shorthands ---- */

static struct rdma_sge sge_at(struct side *side, size_t offset, uint32_t len)
{
	return (struct rdma_sge){side->memory + offset, len, side->region.lkey};
}

static void post_recv(struct side *side, size_t offset, uint32_t len, void *ctx)
{
	struct rdma_sge sge = sge_at(side, offset, len);
	assert_int_equal(side->ep->ops->queue_recv(side->ep, &sge, ctx), 0);
}

static void post_send(struct side *side, size_t offset, uint32_t len, void *ctx)
{
	struct rdma_sge sge = sge_at(side, offset, len);
	assert_int_equal(side->ep->ops->queue_send(side->ep, &sge, 1, 0, ctx), 0);
}

static void ring(struct side *side)
{
	assert_int_equal(side->ep->ops->doorbell(side->ep), 0);
}

/* The passive side must have heard the active side before it may speak. */
static void greet(struct pair *p)
{
	post_recv(&p->server, 0, 64, &p->server);
	post_send(&p->client, 0, 5, &p->client);
	ring(&p->client);
	expect_wc(p, &p->client, RDMA_WC_SEND, 0, &p->client);
	expect_wc(p, &p->server, RDMA_WC_RECV, 0, &p->server);
}

static void fill(char *to, size_t len, unsigned int seed)
{
	for (size_t i = 0; i < len; i++) {
		seed = seed * 1103515245u + 12345u;
		to[i] = (char)(seed >> 16);
	}
}

static void needs_windows(const struct side *side)
{
	if (!side->ep->limits.windows)
		skip();
}

static void needs_bounds(const struct side *side)
{
	needs_windows(side);
	if (!side->ep->limits.window_bounds)
		skip();
}

/* An adapter binds when it comes to it. A peer learns of a key by a later Send; the tests tell it at once, so
 * they wait for a request that is executed after the bind: an empty RDMA Write. */
static void await_bind(struct side *side)
{
	static char mark;
	assert_int_equal(side->ep->ops->queue_write(side->ep, NULL, 0, 0, 0, &mark), 0);
	assert_int_equal(side->ep->ops->doorbell(side->ep), 0);
	unsigned int at = 0;
	while (at == side->nwc || side->wc[at].ctx != &mark)
		if (at < side->nwc)
			at++;
		else
			progress(side);
	memmove(side->wc + at, side->wc + at + 1, (--side->nwc - at) * sizeof *side->wc);
}

static void map(struct side *side, struct fmr *fmr, size_t offset, uint32_t len, enum fmr_access access)
{
	needs_windows(side);
	if (!fmr->window)
		assert_int_equal(side->ep->ops->fmr.window_alloc(side->ep, &fmr->window), 0);
	fmr->region = &side->region;
	fmr->addr = side->memory + offset;
	fmr->len_bytes = len;
	fmr->access = access;
	assert_int_equal(side->ep->ops->fmr.queue_bind(side->ep, fmr), 0);
	assert_int_equal(side->ep->ops->doorbell(side->ep), 0);
	assert_int_not_equal(fmr->rkey, 0);
	if (!side->exact)
		await_bind(side);
}

static int write_to(struct side *side, const struct fmr *fmr, uint64_t delta, uint32_t len, void *ctx)
{
	struct rdma_sge sge = sge_at(side, 0, len);
	return side->ep->ops->queue_write(side->ep, &sge, 1, fmr->rkey, fmr->remote_offset + delta, ctx);
}

static int read_from(struct side *side, const struct fmr *fmr, uint64_t delta, size_t to, uint32_t len,
		     void *ctx)
{
	struct rdma_sge sge = sge_at(side, to, len);
	return side->ep->ops->queue_read(side->ep, &sge, fmr->rkey, fmr->remote_offset + delta, ctx);
}

/* Both ends go down: the one that was attacked, and the one that is told why. */
static void expect_both_end(struct pair *p, struct side *victim, struct side *attacker)
{
	PUMP_UNTIL(p, victim->ep->state == RDMA_EP_CLOSED && attacker->ep->state == RDMA_EP_CLOSED);
	assert_int_not_equal(victim->ep->error, 0);
	assert_int_not_equal(attacker->ep->error, 0);
	if (p->subject->exact) {
		assert_int_equal(victim->ep->error, -EPROTO);
		assert_int_equal(attacker->ep->error, -EREMOTEIO);
	}
	assert_string_not_equal(victim->ep->why, "");
	assert_string_not_equal(attacker->ep->why, "");
}

static char tag[16]; /* addresses to use as ctx */

/* ---- connections ---- */

static void private_data_is_exchanged(void **state)
{
	struct pair *p = *state;
	if (p->subject->exact) {
		assert_int_equal(p->server.ep->peer_private_len, 5);
		assert_int_equal(p->client.ep->peer_private_len, 7);
	}
	assert_in_range(p->server.ep->peer_private_len, 5, sizeof p->server.ep->peer_private);
	assert_in_range(p->client.ep->peer_private_len, 7, sizeof p->client.ep->peer_private);
	assert_memory_equal(p->server.ep->peer_private, "hello", 5);
	assert_memory_equal(p->client.ep->peer_private, "welcome", 7);
}

static void longest_private_data_fits(void **state)
{
	struct pair *p = *state;
	struct rdma_ep_params params = params_of(p, &p->server);
	char priv[RDMA_PRIVATE_MAX + 1];
	uint32_t most = p->subject->exact ? RDMA_PRIVATE_MAX : PRIVATE_ANYWHERE;
	memset(priv, 'x', sizeof priv);
	struct rdma_ep *client = p->client.ep;
	assert_int_equal(
		client->ops->connect(client, (struct sockaddr *)&p->addr, sizeof p->addr, priv, sizeof priv),
		-EINVAL);
	assert_int_equal(
		client->ops->connect(client, (struct sockaddr *)&p->addr, sizeof p->addr, priv, most), 0);
	open_server(p, &params);
	assert_int_equal(p->server.ep->peer_private_len, most);
	assert_memory_equal(p->server.ep->peer_private, priv, most);
	assert_int_equal(p->server.ep->ops->accept(p->server.ep, priv, sizeof priv), -EINVAL);
	assert_int_equal(p->server.ep->ops->accept(p->server.ep, NULL, 0), 0);
	PUMP_UNTIL(p, client->state == RDMA_EP_ESTABLISHED);
	if (p->subject->exact)
		assert_int_equal(client->peer_private_len, 0);
}

static void expect_offer(const struct rdma_ep *ep, const struct rpcrdma_private *offer)
{
	struct rpcrdma_private found;
	assert_true(rpcrdma_private_decode(ep->peer_private, ep->peer_private_len, &found));
	assert_int_equal(found.remote_invalidate, offer->remote_invalidate);
	assert_int_equal(found.send_bytes, offer->send_bytes);
	assert_int_equal(found.recv_bytes, offer->recv_bytes);
}

/* RFC 8797 §5.2: behind what others have to say, and before what a fabric adds. */
static void rpcrdma_private_data_is_found_at_any_offset(void **state)
{
	static const struct rpcrdma_private call = {true, 4096, 8192}, answer = {false, 65536, 1024};
	struct pair *p = *state;
	struct rdma_ep_params params = params_of(p, &p->server);
	uint8_t priv[PRIVATE_ANYWHERE];
	memset(priv, 0xf6, sizeof priv); /* as the magic number begins */
	rpcrdma_private_encode(priv + 5, &call);
	assert_int_equal(p->client.ep->ops->connect(p->client.ep, (struct sockaddr *)&p->addr, sizeof p->addr,
						    priv, 5 + RPCRDMA_PRIVATE_BYTES),
			 0);
	open_server(p, &params);
	expect_offer(p->server.ep, &call);
	rpcrdma_private_encode(priv + 17, &answer);
	assert_int_equal(p->server.ep->ops->accept(p->server.ep, priv + 6, 11 + RPCRDMA_PRIVATE_BYTES), 0);
	PUMP_UNTIL(p, p->client.ep->state == RDMA_EP_ESTABLISHED);
	expect_offer(p->client.ep, &answer);
}

static void rejected_connection_says_so(void **state)
{
	struct pair *p = *state;
	struct rdma_ep_params params = params_of(p, &p->server);
	connect_client(p, "hello");
	open_server(p, &params);
	assert_int_equal(p->server.ep->ops->reject(p->server.ep), 0);
	PUMP_UNTIL(p, p->client.ep->state == RDMA_EP_CLOSED && p->server.ep->state == RDMA_EP_CLOSED);
	assert_int_equal(p->client.ep->error, -EACCES);
	p->client.ep->ops->disconnect(p->client.ep);
	assert_int_equal(p->client.ep->state, RDMA_EP_IDLE);
}

static void refused_port_says_so(void **state)
{
	struct pair *p = *state;
	p->device->listener_close(p->listener);
	p->listener = NULL;
	int rc = p->client.ep->ops->connect(p->client.ep, (struct sockaddr *)&p->addr, sizeof p->addr, NULL,
					    0);
	if (rc == 0) {
		PUMP_UNTIL(p, p->client.ep->state == RDMA_EP_CLOSED);
		rc = p->client.ep->error;
	}
	assert_int_equal(rc, -ECONNREFUSED);
}

static void set_up_times_out(void **state)
{
	struct pair *p = *state;
	if (!p->subject->stream)
		skip();
	connect_client(p, "hello"); /* the kernel accepts it, nobody answers */
	while (p->client.ep->state == RDMA_EP_CONNECTING) {
		assert_int_not_equal(p->client.ep->timeout_ns, 0);
		p->client.ep->ops->progress(p->client.ep, p->client.ep->timeout_ns);
	}
	assert_int_equal(p->client.ep->state, RDMA_EP_CLOSED);
	assert_int_equal(p->client.ep->error, -ETIMEDOUT);
}

static void limits_are_kept(void **state)
{
	struct pair *p = *state;
	struct rdma_ep *ep = p->client.ep;
	const struct rdma_limits *limits = &ep->limits;
	struct rdma_sge sge[RDMA_SGE_MAX + 1];
	assert_in_range(limits->max_sge, 1, RDMA_SGE_MAX);
	assert_in_range(limits->max_recv, 1, 1 << 20);
	assert_in_range(limits->max_send, 1, 1 << 20);
	assert_in_range(limits->read_depth_in, 1, 1 << 20);
	assert_in_range(limits->read_depth_out, 1, 1 << 20);
	for (unsigned int i = 0; i <= RDMA_SGE_MAX; i++)
		sge[i] = sge_at(&p->client, 0, 1);
	assert_int_equal(ep->ops->queue_send(ep, sge, limits->max_sge + 1, 0, tag), -EINVAL);
	for (uint32_t i = 0; i < limits->max_send; i++)
		assert_int_equal(ep->ops->queue_send(ep, sge, 1, 0, tag), 0);
	assert_int_equal(ep->ops->queue_send(ep, sge, 1, 0, tag), -ENOBUFS);
	assert_int_equal(ep->ops->queue_write(ep, sge, 1, 1, 0, tag), -ENOBUFS);
	assert_int_equal(ep->ops->queue_read(ep, sge, 1, 0, tag), -ENOBUFS);
	for (uint32_t i = 0; i < limits->max_recv; i++)
		assert_int_equal(ep->ops->queue_recv(ep, sge, tag), 0);
	assert_int_equal(ep->ops->queue_recv(ep, sge, tag), -ENOBUFS);
}

static void small_depths_are_negotiated(void **state)
{
	struct pair *p = *state;
	if (!p->subject->stream)
		skip();
	struct rdma_ep_params params = params_of(p, &p->server);
	params.read_depth = 3;
	connect_client(p, "");
	open_server(p, &params);
	assert_int_equal(p->server.ep->ops->accept(p->server.ep, NULL, 0), 0);
	PUMP_UNTIL(p, p->client.ep->state == RDMA_EP_ESTABLISHED);
	assert_int_equal(p->server.ep->limits.read_depth_in, 3);
	assert_int_equal(p->server.ep->limits.read_depth_out, 3);
	assert_int_equal(p->client.ep->limits.read_depth_out, 3);
}

static void requests_need_a_connection(void **state)
{
	struct pair *p = *state;
	struct rdma_ep *ep = p->client.ep;
	struct rdma_sge sge = sge_at(&p->client, 0, 1);
	assert_int_equal(ep->ops->queue_send(ep, &sge, 1, 0, tag), -ENOTCONN);
	assert_int_equal(ep->ops->queue_write(ep, &sge, 1, 1, 0, tag), -ENOTCONN);
	assert_int_equal(ep->ops->queue_read(ep, &sge, 1, 0, tag), -ENOTCONN);
	assert_int_equal(ep->ops->accept(ep, NULL, 0), -EINVAL);
	assert_int_equal(ep->ops->reject(ep), -EINVAL);
}

static void foreign_memory_is_refused(void **state)
{
	struct pair *p = *state;
	if (!p->subject->checks)
		skip();
	struct rdma_ep *ep = p->client.ep;
	struct rdma_sge good = sge_at(&p->client, 0, 16), sge = good;
	sge.lkey ^= 1;
	assert_int_equal(ep->ops->queue_send(ep, &sge, 1, 0, tag), -EINVAL);
	sge = sge_at(&p->client, MEMORY_BYTES - 15, 16);
	assert_int_equal(ep->ops->queue_send(ep, &sge, 1, 0, tag), -EINVAL);
	assert_int_equal(ep->ops->queue_recv(ep, &sge, tag), -EINVAL);
	assert_int_equal(ep->ops->queue_read(ep, &sge, 1, 0, tag), -EINVAL);
	sge = good;
	sge.addr = p->client.memory - 1;
	assert_int_equal(ep->ops->queue_write(ep, &sge, 1, 1, 0, tag), -EINVAL);
}

/* ---- Send and Receive ---- */

static const uint32_t sizes[] = {0,	1,     2,     3,     4,	    5,	    64,	    1023,    4096,   16383,
				 16384, 61439, 61440, 61441, 65517, 122880, 122881, 1000000, 1 << 20};

static void sends_of_all_sizes_arrive(void **state)
{
	struct pair *p = *state;
	for (unsigned int i = 0; i < sizeof sizes / sizeof *sizes; i++) {
		if (!sizes[i] && !p->subject->exact)
			continue; /* siw's provider refuses an empty Send (rdma-core 44); nothing here sends
				     one */
		fill(p->client.memory, sizes[i], i);
		memset(p->server.memory, 0, sizes[i] + 1);
		post_recv(&p->server, 0, sizes[i] + (i & 1), &tag[1]);
		post_send(&p->client, 0, sizes[i], &tag[0]);
		ring(&p->client);
		struct rdma_wc wc = next_wc(p, &p->server);
		assert_int_equal(wc.kind, RDMA_WC_RECV);
		assert_int_equal(wc.status, 0);
		assert_ptr_equal(wc.ctx, &tag[1]);
		assert_int_equal(wc.len_bytes, sizes[i]);
		assert_false(wc.invalidated);
		assert_memory_equal(p->server.memory, p->client.memory, sizes[i]);
		assert_int_equal(p->server.memory[sizes[i]], 0);
		expect_wc(p, &p->client, RDMA_WC_SEND, 0, &tag[0]);
	}
}

static void sends_arrive_in_order(void **state)
{
	struct pair *p = *state;
	for (int i = 0; i < 200; i++) {
		p->client.memory[i] = (char)i;
		post_recv(&p->server, (size_t)i * 8, 8, p->server.memory + (size_t)i * 8);
		post_send(&p->client, (size_t)i, 1, NULL);
	}
	ring(&p->client);
	for (int i = 0; i < 200; i++) {
		expect_wc(p, &p->server, RDMA_WC_RECV, 0, p->server.memory + (size_t)i * 8);
		assert_int_equal((unsigned char)p->server.memory[(size_t)i * 8], i);
	}
	assert_int_equal(p->client.nwc, 0); /* ctx NULL: no completion */
}

static void nothing_leaves_before_the_doorbell(void **state)
{
	struct pair *p = *state;
	post_recv(&p->server, 0, 8, tag);
	post_send(&p->client, 0, 8, tag);
	p->server.ep->ops->progress(p->server.ep, 0);
	assert_int_equal(p->server.ep->ops->poll(p->server.ep, p->server.wc, 1), 0);
	ring(&p->client);
	expect_wc(p, &p->server, RDMA_WC_RECV, 0, tag);
}

static void send_gathers(void **state)
{
	struct pair *p = *state;
	struct rdma_ep *ep = p->client.ep;
	struct rdma_sge sge[RDMA_SGE_MAX];
	static const uint32_t lens[RDMA_SGE_MAX] = {1, 0, 70000, 3, 5, 61440, 0, 7};
	char *expected = malloc(200000);
	size_t total = 0, at = 0;
	fill(p->client.memory, 400000, 7);
	unsigned int nsge = ep->limits.max_sge;
	for (unsigned int i = 0; i < nsge; i++) {
		sge[i] = sge_at(&p->client, at, lens[i]);
		memcpy(expected + total, p->client.memory + at, lens[i]);
		total += lens[i];
		at += lens[i] + 11;
	}
	post_recv(&p->server, 4096, 200000, &tag[1]);
	assert_int_equal(ep->ops->queue_send(ep, sge, nsge, 0, &tag[0]), 0);
	ring(&p->client);
	struct rdma_wc wc = next_wc(p, &p->server);
	assert_int_equal(wc.len_bytes, total);
	assert_memory_equal(p->server.memory + 4096, expected, total);
	free(expected);
}

static void both_directions_at_once(void **state)
{
	struct pair *p = *state;
	greet(p);
	const uint32_t len = 1 << 20;
	fill(p->client.memory, len, 1);
	fill(p->server.memory, len, 2);
	post_recv(&p->client, 2 << 20, len, &tag[0]);
	post_recv(&p->server, 2 << 20, len, &tag[1]);
	post_send(&p->client, 0, len, NULL);
	post_send(&p->server, 0, len, NULL);
	ring(&p->client);
	ring(&p->server);
	wait_wc(p, &p->client, 1);
	wait_wc(p, &p->server, 1);
	assert_memory_equal(p->client.memory, p->server.memory + (2 << 20), len);
	assert_memory_equal(p->server.memory, p->client.memory + (2 << 20), len);
}

static void passive_side_waits_for_the_first_message(void **state)
{
	struct pair *p = *state;
	if (!p->subject->stream)
		skip();
	post_recv(&p->client, 64, 64, &tag[0]);
	post_send(&p->server, 0, 10, &tag[1]);
	ring(&p->server);
	progress(&p->server);
	assert_int_equal(p->server.nwc, 0);
	greet(p);
}

static void exhausted_receives_end_the_connection(void **state)
{
	struct pair *p = *state;
	post_recv(&p->server, 0, 8, &tag[0]);
	post_send(&p->client, 0, 8, NULL);
	post_send(&p->client, 0, 8, NULL);
	ring(&p->client);
	expect_both_end(p, &p->server, &p->client);
	assert_int_equal(take(&p->server).status, 0); /* the first had its receive */
}

static void message_longer_than_its_receive_ends_the_connection(void **state)
{
	struct pair *p = *state;
	memset(p->server.memory, 0x55, 128);
	post_recv(&p->server, 0, 64, &tag[0]);
	post_send(&p->client, 0, 65, NULL);
	ring(&p->client);
	expect_both_end(p, &p->server, &p->client);
	struct rdma_wc wc = next_wc(p, &p->server);
	assert_int_equal(wc.kind, RDMA_WC_RECV);
	assert_ptr_equal(wc.ctx, &tag[0]);
	assert_int_not_equal(wc.status, 0);
	if (p->subject->exact)
		assert_int_equal(wc.status, -ECANCELED);
	assert_int_equal(p->server.memory[64], 0x55);
}

/* ---- RDMA Write and Read through windows ---- */

static void write_reaches_exactly_the_window(void **state)
{
	struct pair *p = *state;
	struct fmr fmr = {0};
	greet(p);
	for (unsigned int i = 0; i < sizeof sizes / sizeof *sizes; i++) {
		uint32_t len = sizes[i] ? sizes[i] : 8;
		print_message("# %u bytes\n", len);
		fill(p->server.memory, len, 100 + i);
		memset(p->client.memory, 0x11, len + 200);
		map(&p->client, &fmr, 100, len, FMR_REMOTE_WRITE);
		post_recv(&p->client, 3 << 20, 64, &tag[0]);
		assert_int_equal(write_to(&p->server, &fmr, 0, len, &tag[1]), 0);
		post_send(&p->server, 0, 4, NULL);
		ring(&p->server);
		expect_wc(p, &p->client, RDMA_WC_RECV, 0,
			  &tag[0]); /* the Send delivers the Write before it */
		assert_memory_equal(p->client.memory + 100, p->server.memory, len);
		assert_int_equal(p->client.memory[99], 0x11);
		assert_int_equal(p->client.memory[100 + len], 0x11);
		expect_wc(p, &p->server, RDMA_WC_WRITE, 0, &tag[1]);
		assert_int_equal(p->client.ep->ops->fmr.queue_invalidate(p->client.ep, &fmr), 0);
		ring(&p->client);
		expect_wc(p, &p->client, RDMA_WC_INVALIDATE, 0, &fmr);
	}
}

static void read_fetches_exactly_the_window(void **state)
{
	struct pair *p = *state;
	struct fmr fmr = {0};
	greet(p);
	for (unsigned int i = 0; i < sizeof sizes / sizeof *sizes; i++) {
		uint32_t len = sizes[i] ? sizes[i] : 8;
		print_message("# %u bytes\n", len);
		fill(p->client.memory + 100, len, 200 + i);
		memset(p->server.memory, 0x22, len + 200);
		map(&p->client, &fmr, 100, len, FMR_REMOTE_READ);
		assert_int_equal(read_from(&p->server, &fmr, 0, 100, len, &tag[1]), 0);
		ring(&p->server);
		expect_wc(p, &p->server, RDMA_WC_READ, 0, &tag[1]);
		assert_memory_equal(p->client.memory + 100, p->server.memory + 100, len);
		assert_int_equal(p->server.memory[99], 0x22);
		assert_int_equal(p->server.memory[100 + len], 0x22);
		assert_int_equal(p->client.ep->ops->fmr.queue_invalidate(p->client.ep, &fmr), 0);
		ring(&p->client);
		expect_wc(p, &p->client, RDMA_WC_INVALIDATE, 0, &fmr);
	}
}

static void parts_of_a_window_can_be_read(void **state)
{
	struct pair *p = *state;
	struct fmr fmr = {0};
	greet(p);
	fill(p->client.memory, 1000, 5);
	map(&p->client, &fmr, 0, 1000, FMR_REMOTE_READ);
	assert_int_equal(read_from(&p->server, &fmr, 999, 0, 1, &tag[1]), 0);
	assert_int_equal(read_from(&p->server, &fmr, 500, 4096, 500, &tag[2]), 0);
	ring(&p->server);
	expect_wc(p, &p->server, RDMA_WC_READ, 0, &tag[1]);
	expect_wc(p, &p->server, RDMA_WC_READ, 0, &tag[2]);
	assert_int_equal(p->server.memory[0], p->client.memory[999]);
	assert_memory_equal(p->server.memory + 4096, p->client.memory + 500, 500);
}

static void reads_beyond_the_depth_wait(void **state)
{
	struct pair *p = *state;
	struct fmr fmr = {0};
	uint32_t n = p->server.ep->limits.read_depth_out * 3;
	greet(p);
	fill(p->client.memory, (size_t)n * 1000, 9);
	map(&p->client, &fmr, 0, n * 1000, FMR_REMOTE_READ);
	for (uint32_t i = 0; i < n; i++)
		assert_int_equal(
			read_from(&p->server, &fmr, i * 1000ull, i * 1000ull, 1000, p->server.memory + i), 0);
	ring(&p->server);
	for (uint32_t i = 0; i < n; i++)
		expect_wc(p, &p->server, RDMA_WC_READ, 0, p->server.memory + i);
	assert_memory_equal(p->server.memory, p->client.memory, (size_t)n * 1000);
}

/* Each completes once, in whatever order. */
static void requests_behind_a_read_do_not_hide_it(void **state)
{
	struct pair *p = *state;
	const uint32_t len = 1 << 20;
	struct fmr_region region = {.addr = p->client.memory + len, .len_bytes = len};
	unsigned int reads = 0, sends = 0;
	greet(p);
	assert_int_equal(p->client.ep->ops->fmr.region_register(p->client.ep, &region, FMR_REMOTE_READ), 0);
	struct fmr fmr = {.rkey = region.rkey, .remote_offset = region.remote_base};
	fill(p->client.memory + len, len, 6);
	for (int i = 0; i < 8; i++) {
		post_recv(&p->client, 0, 64, &tag[3]);
		assert_int_equal(read_from(&p->server, &fmr, 0, 0, len, &tag[1]), 0);
		post_send(&p->server, 2 * len, 64, &tag[2]);
		ring(&p->server);
	}
	wait_wc(p, &p->server, 16);
	while (p->server.nwc) {
		struct rdma_wc wc = take(&p->server);
		assert_int_equal(wc.status, 0);
		assert_ptr_equal(wc.ctx, wc.kind == RDMA_WC_READ ? &tag[1] : &tag[2]);
		reads += wc.kind == RDMA_WC_READ;
		sends += wc.kind == RDMA_WC_SEND;
	}
	assert_int_equal(reads, 8);
	assert_int_equal(sends, 8);
	assert_memory_equal(p->server.memory, p->client.memory + len, len);
	p->client.ep->ops->fmr.region_deregister(p->client.ep, &region);
}

static void zero_length_write_and_read_are_legal(void **state)
{
	struct pair *p = *state;
	greet(p);
	assert_int_equal(p->server.ep->ops->queue_write(p->server.ep, NULL, 0, 0, 0, &tag[1]), 0);
	struct rdma_sge sge = sge_at(&p->server, 0, 0);
	assert_int_equal(p->server.ep->ops->queue_read(p->server.ep, &sge, 0, 0, &tag[2]), 0);
	ring(&p->server);
	expect_wc(p, &p->server, RDMA_WC_WRITE, 0, &tag[1]);
	expect_wc(p, &p->server, RDMA_WC_READ, 0, &tag[2]);
}

/* ---- protection ---- */

struct attack {
	enum fmr_access access;
	bool read;
	int64_t delta; /* from the window's start; it is 1000 bytes long */
	uint32_t len;
};

static void attack(struct pair *p, const struct attack *a)
{
	struct fmr fmr = {0};
	if (a->delta || a->len > 1000)
		needs_bounds(&p->client);
	greet(p);
	memset(p->client.memory, 0x33, 8192);
	memset(p->server.memory, 0x44, 8192);
	map(&p->client, &fmr, 4096, 1000, a->access);
	if (a->read)
		assert_int_equal(read_from(&p->server, &fmr, (uint64_t)a->delta, 0, a->len, &tag[1]), 0);
	else
		assert_int_equal(write_to(&p->server, &fmr, (uint64_t)a->delta, a->len, &tag[1]), 0);
	p->server.ep->ops->doorbell(p->server.ep);
	expect_both_end(p, &p->client, &p->server);
	for (int i = 0; i < 8192; i++) {
		assert_int_equal(p->client.memory[i], 0x33);
		assert_int_equal(p->server.memory[i], 0x44);
	}
}

#define ATTACK(name, ...)                                                                                    \
	static void name(void **state)                                                                       \
	{                                                                                                    \
		static const struct attack a = {__VA_ARGS__};                                                \
		attack(*state, &a);                                                                          \
	}
ATTACK(write_one_byte_before_is_refused, FMR_REMOTE_WRITE, false, -1, 10)
ATTACK(write_one_byte_after_is_refused, FMR_REMOTE_WRITE, false, 1000, 1)
ATTACK(write_across_the_end_is_refused, FMR_REMOTE_WRITE, false, 991, 10)
ATTACK(write_longer_than_window_is_refused, FMR_REMOTE_WRITE, false, 0, 1001)
ATTACK(write_of_a_readable_window_is_refused, FMR_REMOTE_READ, false, 0, 10)
ATTACK(write_at_the_last_offset_is_refused, FMR_REMOTE_WRITE, false, INT64_MAX, 10)
ATTACK(read_one_byte_before_is_refused, FMR_REMOTE_READ, true, -1, 10)
ATTACK(read_one_byte_after_is_refused, FMR_REMOTE_READ, true, 1000, 1)
ATTACK(read_across_the_end_is_refused, FMR_REMOTE_READ, true, 991, 10)
ATTACK(read_of_a_writable_window_is_refused, FMR_REMOTE_WRITE, true, 0, 10)

static void stale_key_is_refused(void **state)
{
	struct pair *p = *state;
	struct fmr fmr = {0}, old;
	greet(p);
	map(&p->client, &fmr, 0, 100, FMR_REMOTE_WRITE);
	old = fmr;
	assert_int_equal(p->client.ep->ops->fmr.queue_invalidate(p->client.ep, &fmr), 0);
	ring(&p->client);
	expect_wc(p, &p->client, RDMA_WC_INVALIDATE, 0, &fmr);
	map(&p->client, &fmr, 0, 100, FMR_REMOTE_WRITE);
	assert_int_not_equal(fmr.rkey, old.rkey);
	memset(p->client.memory, 0x33, 100);
	assert_int_equal(write_to(&p->server, &old, 0, 1, NULL), 0);
	ring(&p->server);
	expect_both_end(p, &p->client, &p->server);
	assert_int_equal(p->client.memory[0], 0x33);
}

static void freed_window_is_refused(void **state)
{
	struct pair *p = *state;
	struct fmr fmr = {0};
	greet(p);
	map(&p->client, &fmr, 0, 100, FMR_REMOTE_WRITE);
	memset(p->client.memory, 0x33, 100);
	p->client.ep->ops->fmr.window_free(p->client.ep, fmr.window);
	assert_int_equal(write_to(&p->server, &fmr, 0, 1, NULL), 0);
	ring(&p->server);
	expect_both_end(p, &p->client, &p->server);
	assert_int_equal(p->client.memory[0], 0x33);
}

static void local_keys_mean_nothing_to_the_peer(void **state)
{
	struct pair *p = *state;
	struct fmr fmr = {.rkey = p->client.region.lkey};
	greet(p);
	memset(p->client.memory, 0x33, 100);
	assert_int_equal(p->client.region.rkey, 0);
	assert_int_equal(write_to(&p->server, &fmr, 0, 1, NULL), 0);
	ring(&p->server);
	expect_both_end(p, &p->client, &p->server);
	assert_int_equal(p->client.memory[0], 0x33);
}

static void another_connections_key_is_refused(void **state)
{
	struct pair *p = *state;
	struct fmr fmr = {0};
	struct pair other = {.subject = p->subject,
			     .device = p->device,
			     .epoll_fd = p->epoll_fd,
			     .listener = p->listener,
			     .addr = p->addr};
	struct rdma_ep_params params = params_of(&other, &other.client);
	greet(p);
	map(&p->client, &fmr, 0, 100, FMR_REMOTE_WRITE);
	memset(p->client.memory, 0x33, 100);
	open_client(&other, &params);
	establish(&other);
	greet(&other);
	memset(other.client.memory, 0x33, 100);
	assert_int_equal(write_to(&other.server, &fmr, 0, 1, NULL), 0);
	ring(&other.server);
	expect_both_end(&other, &other.client, &other.server);
	assert_int_equal(p->client.memory[0], 0x33);
	assert_int_equal(other.client.memory[0], 0x33);
	assert_int_equal(p->client.ep->state, RDMA_EP_ESTABLISHED);
	close_side(&other.client);
	close_side(&other.server);
}

static void keys_are_new_each_time(void **state)
{
	struct pair *p = *state;
	struct fmr fmr = {0};
	uint32_t keys[15] = {0};
	for (unsigned int i = 0; i < 1000; i++) {
		map(&p->client, &fmr, 0, 100, FMR_REMOTE_WRITE);
		for (unsigned int k = 0; k < 15; k++)
			assert_int_not_equal(fmr.rkey, keys[k]);
		keys[i % 15] = fmr.rkey;
		assert_int_equal(p->client.ep->ops->fmr.queue_invalidate(p->client.ep, &fmr), 0);
		ring(&p->client);
		expect_wc(p, &p->client, RDMA_WC_INVALIDATE, 0, &fmr);
	}
}

/* ---- invalidation ---- */

static void peer_invalidates_with_a_send(void **state)
{
	struct pair *p = *state;
	struct fmr fmr = {0};
	struct rdma_sge sge = sge_at(&p->server, 0, 10);
	greet(p);
	map(&p->client, &fmr, 0, 100, FMR_REMOTE_WRITE);
	post_recv(&p->client, 4096, 64, &tag[0]);
	assert_int_equal(p->server.ep->ops->queue_send(p->server.ep, &sge, 1, fmr.rkey, NULL), 0);
	ring(&p->server);
	struct rdma_wc wc = next_wc(p, &p->client);
	assert_int_equal(wc.kind, RDMA_WC_RECV);
	assert_true(wc.invalidated);
	assert_int_equal(wc.invalidated_rkey, fmr.rkey);
	uint32_t old = fmr.rkey;
	if (p->subject->strict) /* a second time is an error of ours, not a crash */
		assert_int_equal(p->client.ep->ops->fmr.queue_invalidate(p->client.ep, &fmr), -EINVAL);
	map(&p->client, &fmr, 0, 100, FMR_REMOTE_READ);
	assert_int_not_equal(fmr.rkey, old);
}

static void peer_cannot_invalidate_twice(void **state)
{
	struct pair *p = *state;
	if (!p->client.ep->limits.remote_invalidate) /* on some adapters it is the machine's end */
		skip();
	struct fmr fmr = {0};
	struct rdma_sge sge = sge_at(&p->server, 0, 10);
	greet(p);
	map(&p->client, &fmr, 0, 100, FMR_REMOTE_WRITE);
	post_recv(&p->client, 4096, 64, &tag[0]);
	post_recv(&p->client, 4096, 64, &tag[1]);
	assert_int_equal(p->server.ep->ops->queue_send(p->server.ep, &sge, 1, fmr.rkey, NULL), 0);
	assert_int_equal(p->server.ep->ops->queue_send(p->server.ep, &sge, 1, fmr.rkey, NULL), 0);
	ring(&p->server);
	expect_both_end(p, &p->client, &p->server);
	expect_wc(p, &p->client, RDMA_WC_RECV, 0, &tag[0]);
	expect_wc(p, &p->client, RDMA_WC_RECV, -ECANCELED, &tag[1]);
}

static void a_bound_window_is_not_bound_again(void **state)
{
	struct pair *p = *state;
	if (!p->subject->strict)
		skip();
	struct fmr fmr = {0};
	map(&p->client, &fmr, 0, 100, FMR_REMOTE_WRITE);
	assert_int_equal(p->client.ep->ops->fmr.queue_bind(p->client.ep, &fmr), -EBUSY);
}

static void a_window_ends_with_its_region(void **state)
{
	struct pair *p = *state;
	if (!p->subject->strict || !p->subject->checks)
		skip();
	struct fmr fmr = {0};
	struct fmr_region part = {.addr = p->client.memory + 8192, .len_bytes = 4096},
			  whole = p->client.region;
	greet(p);
	memset(p->client.memory, 0x33, 16384);
	assert_int_equal(p->client.ep->ops->fmr.region_register(p->client.ep, &part, 0), 0);
	p->client.region = part;
	map(&p->client, &fmr, 8192, 100, FMR_REMOTE_WRITE);
	p->client.region = whole;
	p->client.ep->ops->fmr.region_deregister(p->client.ep, &part);
	assert_int_equal(write_to(&p->server, &fmr, 0, 1, NULL), 0);
	ring(&p->server);
	expect_both_end(p, &p->client, &p->server);
	assert_int_equal(p->client.memory[8192], 0x33);
}

static void bind_needs_memory_of_its_region(void **state)
{
	struct pair *p = *state;
	if (!p->subject->strict)
		skip();
	struct rdma_ep *ep = p->client.ep;
	struct fmr fmr = {.region = &p->client.region, .access = FMR_REMOTE_READ};
	needs_windows(&p->client);
	assert_int_equal(ep->ops->fmr.window_alloc(ep, &fmr.window), 0);
	fmr.addr = p->client.memory + MEMORY_BYTES - 4;
	fmr.len_bytes = 5;
	assert_int_equal(ep->ops->fmr.queue_bind(ep, &fmr), -EINVAL);
	fmr.len_bytes = 0;
	assert_int_equal(ep->ops->fmr.queue_bind(ep, &fmr), -EINVAL);
	fmr.len_bytes = 4;
	fmr.access = FMR_REMOTE_READ | FMR_REMOTE_WRITE;
	assert_int_equal(ep->ops->fmr.queue_bind(ep, &fmr), -EINVAL);
	fmr.access = FMR_REMOTE_READ;
	assert_int_equal(ep->ops->fmr.queue_bind(ep, &fmr), 0);
}

/* The peer has asked for more than the sockets can hold, so its Read is half answered when the invalidate is
 * queued. */
static void invalidate_waits_for_the_read_under_way(void **state)
{
	struct pair *p = *state;
	if (!p->subject->stream)
		skip();
	struct fmr fmr = {0};
	const uint32_t len = MEMORY_BYTES;
	greet(p);
	fill(p->client.memory, len, 3);
	map(&p->client, &fmr, 0, len, FMR_REMOTE_READ);
	for (int i = 0; i < 8; i++)
		assert_int_equal(read_from(&p->server, &fmr, 0, 0, len, &tag[1]), 0);
	ring(&p->server);
	/* the client answers, the server does not read */
	for (int i = 0; i < 100; i++)
		progress(&p->client);
	assert_int_equal(p->client.ep->ops->fmr.queue_invalidate(p->client.ep, &fmr), 0);
	ring(&p->client);
	progress(&p->client);
	assert_int_equal(p->client.nwc, 0);
	wait_wc(p, &p->server, 8);
	for (int i = 0; i < 8; i++)
		expect_wc(p, &p->server, RDMA_WC_READ, 0, &tag[1]);
	expect_wc(p, &p->client, RDMA_WC_INVALIDATE, 0, &fmr);
	assert_memory_equal(p->server.memory, p->client.memory, len);
}

static void persistent_region_is_reached_by_its_own_key(void **state)
{
	struct pair *p = *state;
	if (!p->subject->zero_based)
		skip();
	greet(p);
	struct fmr_region region = {.addr = p->client.memory + 4096, .len_bytes = 8192};
	assert_int_equal(p->client.ep->ops->fmr.region_register(p->client.ep, &region,
								FMR_REMOTE_READ | FMR_REMOTE_WRITE),
			 0);
	assert_int_not_equal(region.rkey, 0);
	struct fmr fmr = {.rkey = region.rkey, .remote_offset = 0};
	fill(p->server.memory, 8192, 4);
	assert_int_equal(write_to(&p->server, &fmr, 0, 8192, NULL), 0);
	assert_int_equal(read_from(&p->server, &fmr, 100, 16384, 100, &tag[1]), 0);
	ring(&p->server);
	expect_wc(p, &p->server, RDMA_WC_READ, 0, &tag[1]);
	assert_memory_equal(p->client.memory + 4096, p->server.memory, 8192);
	assert_memory_equal(p->server.memory + 16384, p->server.memory + 100, 100);
	p->client.ep->ops->fmr.region_deregister(p->client.ep, &region);
	assert_int_equal(write_to(&p->server, &fmr, 0, 1, NULL), 0);
	ring(&p->server);
	expect_both_end(p, &p->client, &p->server);
}

/* ---- the end ---- */

static void disconnect_flushes_everything(void **state)
{
	struct pair *p = *state;
	struct rdma_ep *ep = p->server.ep;
	post_recv(&p->server, 0, 64, &tag[0]);
	post_recv(&p->server, 64, 64, &tag[1]);
	post_send(&p->server, 0, 10, &tag[2]); /* may not leave yet */
	assert_int_equal(read_from(&p->server, &(struct fmr){.rkey = 5}, 0, 0, 10, &tag[3]), 0);
	ring(&p->server);
	ep->ops->disconnect(ep);
	assert_int_equal(ep->state, RDMA_EP_CLOSED);
	assert_int_equal(ep->ops->poll(ep, p->server.wc, WC_MAX), 4);
	int seen[4] = {0};
	for (int i = 0; i < 4; i++) {
		long which = (char *)p->server.wc[i].ctx - tag;
		if (which != 2 || p->subject->exact) /* an adapter's Send may have left */
			assert_int_equal(p->server.wc[i].status, -ECANCELED);
		seen[which]++;
	}
	for (int i = 0; i < 4; i++)
		assert_int_equal(seen[i], 1);
	assert_int_equal(ep->ops->poll(ep, p->server.wc, WC_MAX), 0);
	assert_int_equal(ep->state, RDMA_EP_IDLE);
}

static void peer_sees_the_disconnect(void **state)
{
	struct pair *p = *state;
	post_recv(&p->client, 0, 64, &tag[0]);
	p->server.ep->ops->disconnect(p->server.ep);
	PUMP_UNTIL(p, p->client.ep->state == RDMA_EP_CLOSED);
	assert_int_equal(p->client.ep->error, -ECONNRESET);
	expect_wc(p, &p->client, RDMA_WC_RECV, -ECANCELED, &tag[0]);
	assert_int_not_equal(p->client.ep->ops->doorbell(p->client.ep), 0);
	struct rdma_sge sge = sge_at(&p->client, 0, 1);
	assert_int_equal(p->client.ep->ops->queue_send(p->client.ep, &sge, 1, 0, tag), -ENOTCONN);
}

static void endpoint_connects_again_with_its_regions(void **state)
{
	struct pair *p = *state;
	struct fmr fmr = {0}, old;
	for (int i = 0; i < 3; i++) {
		greet(p);
		map(&p->client, &fmr, 0, 100, FMR_REMOTE_WRITE);
		old = fmr;
		p->client.ep->ops->disconnect(p->client.ep);
		PUMP_UNTIL(p, p->client.ep->state == RDMA_EP_IDLE && p->server.ep->state == RDMA_EP_CLOSED);
		p->client.ep->ops->fmr.window_free(p->client.ep, fmr.window);
		fmr.window = NULL;
		p->server.ep->ops->close(p->server.ep);
		p->server.ep = NULL;
		p->server.nwc = p->client.nwc = 0;
		establish(p);
	}
	greet(p);
	memset(p->client.memory, 0x33, 100);
	assert_int_equal(write_to(&p->server, &old, 0, 1, NULL), 0); /* a key of the connection before */
	ring(&p->server);
	expect_both_end(p, &p->client, &p->server);
	assert_int_equal(p->client.memory[0], 0x33);
}

static void receives_may_be_posted_before_connecting(void **state)
{
	struct pair *p = *state;
	post_recv(&p->client, 0, 64, &tag[0]);
	establish(p);
	greet(p);
	post_send(&p->server, 0, 10, NULL);
	ring(&p->server);
	expect_wc(p, &p->client, RDMA_WC_RECV, 0, &tag[0]);
}

static void close_from_any_state(void **state)
{
	struct pair *p = *state;
	post_recv(&p->client, 0, 64, &tag[0]);
	connect_client(p, "hello");
	/* teardown closes it while it connects */
}

static void unpolled_work_keeps_its_owner_awake(void **state)
{
	struct pair *p = *state;
	post_recv(&p->server, 0, 64, &p->server);
	post_send(&p->client, 0, 5, &tag[0]);
	struct epoll_event event;
	ring(&p->client); /* completes in here, maybe: then its owner must not sleep */
	if (!p->client.ep->timeout_ns && epoll_wait(p->epoll_fd, &event, 1, 0) == 0)
		assert_int_equal(p->client.ep->ops->poll(p->client.ep, p->client.wc, 1), 0);
	expect_wc(p, &p->client, RDMA_WC_SEND, 0, &tag[0]);
}

#define BARE(f) cmocka_unit_test_prestate_setup_teardown(f, setup_bare, teardown, (void *)&subjects[d])
#define CONNECTED(f)                                                                                         \
	cmocka_unit_test_prestate_setup_teardown(f, setup_connected, teardown, (void *)&subjects[d])

int main(void)
{
	const char *outside = getenv("DEVICE_TEST_VERBS");
	int failed = 0;
	for (size_t d = 0; d < sizeof subjects / sizeof *subjects; d++) {
		const char *from = subjects[d].address_from;
		if (!outside != !from)
			continue;
		if (inet_pton(AF_INET, from ? outside : "127.0.0.1", &device_address) != 1)
			return 2;
		const struct CMUnitTest tests[] = {
			CONNECTED(private_data_is_exchanged),
			BARE(longest_private_data_fits),
			BARE(rpcrdma_private_data_is_found_at_any_offset),
			BARE(rejected_connection_says_so),
			BARE(refused_port_says_so),
			BARE(set_up_times_out),
			CONNECTED(limits_are_kept),
			BARE(small_depths_are_negotiated),
			BARE(requests_need_a_connection),
			CONNECTED(foreign_memory_is_refused),
			CONNECTED(sends_of_all_sizes_arrive),
			CONNECTED(sends_arrive_in_order),
			CONNECTED(nothing_leaves_before_the_doorbell),
			CONNECTED(send_gathers),
			CONNECTED(both_directions_at_once),
			CONNECTED(passive_side_waits_for_the_first_message),
			CONNECTED(exhausted_receives_end_the_connection),
			CONNECTED(message_longer_than_its_receive_ends_the_connection),
			CONNECTED(write_reaches_exactly_the_window),
			CONNECTED(read_fetches_exactly_the_window),
			CONNECTED(parts_of_a_window_can_be_read),
			CONNECTED(reads_beyond_the_depth_wait),
			CONNECTED(requests_behind_a_read_do_not_hide_it),
			CONNECTED(zero_length_write_and_read_are_legal),
			CONNECTED(write_one_byte_before_is_refused),
			CONNECTED(write_one_byte_after_is_refused),
			CONNECTED(write_across_the_end_is_refused),
			CONNECTED(write_longer_than_window_is_refused),
			CONNECTED(write_of_a_readable_window_is_refused),
			CONNECTED(write_at_the_last_offset_is_refused),
			CONNECTED(read_one_byte_before_is_refused),
			CONNECTED(read_one_byte_after_is_refused),
			CONNECTED(read_across_the_end_is_refused),
			CONNECTED(read_of_a_writable_window_is_refused),
			CONNECTED(stale_key_is_refused),
			CONNECTED(freed_window_is_refused),
			CONNECTED(local_keys_mean_nothing_to_the_peer),
			CONNECTED(another_connections_key_is_refused),
			CONNECTED(keys_are_new_each_time),
			CONNECTED(peer_invalidates_with_a_send),
			CONNECTED(peer_cannot_invalidate_twice),
			CONNECTED(a_bound_window_is_not_bound_again),
			CONNECTED(bind_needs_memory_of_its_region),
			CONNECTED(a_window_ends_with_its_region),
			CONNECTED(invalidate_waits_for_the_read_under_way),
			CONNECTED(persistent_region_is_reached_by_its_own_key),
			CONNECTED(disconnect_flushes_everything),
			CONNECTED(peer_sees_the_disconnect),
			CONNECTED(endpoint_connects_again_with_its_regions),
			BARE(receives_may_be_posted_before_connecting),
			BARE(close_from_any_state),
			CONNECTED(unpolled_work_keeps_its_owner_awake),
		};
		failed += cmocka_run_group_tests_name(subjects[d].device->name, tests, NULL, NULL);
	}
	return failed != 0;
}
