/* SPDX-License-Identifier: MIT
 *
 * softiwarp by itself, over the loopback interface, one thread a side: RDMA Write and Read throughput, round
 * trips of small Sends. Not a test: it prints what it measured.
 *
 *	softiwarp_bench [SECONDS [BYTES]]
 */
#include "softiwarp/softiwarp.h"

#include <netinet/in.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <time.h>

#define DEPTH 4u
#define MESSAGE 200u
#define MEMORY_BYTES ((size_t)32 << 20)

struct bench_side {
	struct rdma_ep *ep;
	int epoll_fd;
	bool spin;
	char *memory;
	struct fmr_region region;
	uint64_t done;
};

static uint64_t now_ns(void)
{
	struct timespec ts;
	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

/* CPU time of both sides, in seconds: steadier than throughput on a machine that others use too. */
static double cpu_s(void)
{
	struct timespec ts;
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

static void must(int rc, const char *what)
{
	if (rc >= 0)
		return;
	fprintf(stderr, "%s: %s\n", what, strerror(-rc));
	exit(1);
}

static void side_init(struct bench_side *s)
{
	s->epoll_fd = epoll_create1(0);
	s->memory = aligned_alloc(4096, MEMORY_BYTES);
	memset(s->memory, 1, MEMORY_BYTES);
	s->region = (struct fmr_region){.addr = s->memory, .len_bytes = MEMORY_BYTES};
}

static void side_register(struct bench_side *s)
{
	must(s->ep->ops->fmr.region_register(s->ep, &s->region, FMR_REMOTE_READ | FMR_REMOTE_WRITE),
	     "register");
}

/* One turn: n completions, or sleep until there is something to do. -1: the connection is over. */
static int turn(struct bench_side *s, struct rdma_wc *wc, int max)
{
	struct epoll_event event;
	bool more = s->ep->ops->progress(s->ep, now_ns());
	int n = s->ep->ops->poll(s->ep, wc, max);
	if (n)
		return n;
	if (s->ep->state == RDMA_EP_CLOSED)
		return -1;
	if (!more && !s->spin)
		epoll_wait(s->epoll_fd, &event, 1, -1);
	return 0;
}

static struct rdma_sge message(struct bench_side *s, size_t slot)
{
	return (struct rdma_sge){s->memory + MEMORY_BYTES - (slot + 1) * 4096, MESSAGE, s->region.lkey};
}

/* The passive side: answers each message with one. */
static void *echo(void *arg)
{
	struct bench_side *s = arg;
	struct rdma_wc wc[64];
	for (;;) {
		int n = turn(s, wc, 64);
		if (n < 0)
			return NULL;
		for (int i = 0; i < n; i++) {
			if (wc[i].kind != RDMA_WC_RECV || wc[i].status)
				continue;
			struct rdma_sge sge = message(s, (size_t)wc[i].ctx);
			s->ep->ops->queue_recv(s->ep, &sge, wc[i].ctx);
			s->ep->ops->queue_send(s->ep, &sge, 1, 0, NULL);
		}
		if (n)
			s->ep->ops->doorbell(s->ep);
	}
}

static void post(struct bench_side *s, struct bench_side *peer, enum rdma_wc_kind kind, size_t slot,
		 uint32_t len)
{
	struct rdma_sge sge = {s->memory + slot * len, len, s->region.lkey};
	if (kind == RDMA_WC_WRITE)
		must(s->ep->ops->queue_write(s->ep, &sge, 1, peer->region.rkey, slot * len, s), "write");
	else
		must(s->ep->ops->queue_read(s->ep, &sge, peer->region.rkey, slot * len, s), "read");
}

/* DEPTH Writes or Reads of len bytes under way for so long. */
static void bulk(struct bench_side *s, struct bench_side *peer, enum rdma_wc_kind kind, uint32_t len,
		 double seconds)
{
	struct rdma_wc wc[DEPTH];
	uint64_t start = now_ns(), end = start + (uint64_t)(seconds * 1e9), count = 0;
	const struct softiwarp_stats *in = softiwarp_stats(peer->ep), *out = softiwarp_stats(s->ep);
	const struct softiwarp_stats *receiver = kind == RDMA_WC_WRITE ? in : out;
	const struct softiwarp_stats *sender = kind == RDMA_WC_WRITE ? out : in;
	const struct rdma_ep *sink = kind == RDMA_WC_WRITE ? peer->ep : s->ep;
	struct softiwarp_stats r0 = *receiver, s0 = *sender;
	uint64_t frames0 = sink->frames_in;
	double cpu = cpu_s();
	for (size_t i = 0; i < DEPTH; i++)
		post(s, peer, kind, i, len);
	s->ep->ops->doorbell(s->ep);
	while (now_ns() < end) {
		int n = turn(s, wc, DEPTH);
		for (int i = 0; i < n; i++)
			post(s, peer, kind, count++ % DEPTH, len);
		if (n > 0)
			s->ep->ops->doorbell(s->ep);
	}
	double took = (double)(now_ns() - start) / 1e9;
	double frames = (double)(sink->frames_in - frames0);
	double mib = (double)count * len / (1 << 20);
	printf("  %-5s %7u bytes: %6.0f MiB/s, CPU %.3f s/GiB; per FPDU %.2f receives, %.2f sends\n",
	       kind == RDMA_WC_WRITE ? "Write" : "Read", len, mib / took, (cpu_s() - cpu) / mib * 1024,
	       (double)(receiver->receives - r0.receives) / frames,
	       (double)(sender->sends - s0.sends) / frames);
	for (unsigned int left = DEPTH; left;) {
		int n = turn(s, wc, DEPTH);
		left -= n > 0 ? (unsigned int)n : 0;
	}
}

static void ping(struct bench_side *s, size_t slot)
{
	struct rdma_sge sge = message(s, slot);
	must(s->ep->ops->queue_recv(s->ep, &sge, (void *)slot), "receive");
	must(s->ep->ops->queue_send(s->ep, &sge, 1, 0, NULL), "send");
}

static void round_trips(struct bench_side *s, size_t depth, double seconds)
{
	struct rdma_wc wc[64];
	uint64_t start = now_ns(), end = start + (uint64_t)(seconds * 1e9), count = 0;
	size_t under_way = depth;
	double cpu = cpu_s();
	for (size_t i = 0; i < depth; i++)
		ping(s, i);
	s->ep->ops->doorbell(s->ep);
	while (under_way) {
		int n = turn(s, wc, 64);
		bool again = now_ns() < end;
		for (int i = 0; i < n; i++) {
			count++;
			if (again)
				ping(s, (size_t)wc[i].ctx);
			else
				under_way--;
		}
		if (n > 0 && again)
			s->ep->ops->doorbell(s->ep);
	}
	double took = (double)(now_ns() - start) / 1e9;
	printf("  %u-byte Sends, %2zu under way%s: %7.0f round trips/s, CPU %.1f us each\n", MESSAGE, depth,
	       s->spin ? ", spinning" : "", (double)count / took, (cpu_s() - cpu) / (double)count * 1e6);
}

static void connect_both(struct bench_side *a, struct bench_side *p)
{
	struct rdma_listener *listener;
	struct sockaddr_in addr = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	struct rdma_ep_params active = {.epoll_fd = a->epoll_fd, .epoll_data = a};
	struct rdma_ep_params passive = {.epoll_fd = p->epoll_fd, .epoll_data = p};
	must(softiwarp_device.listen((struct sockaddr *)&addr, sizeof addr, &listener), "listen");
	addr.sin_port = htons(softiwarp_device.listener_port(listener));
	must(softiwarp_device.open(&active, &a->ep), "open");
	must(a->ep->ops->connect(a->ep, (struct sockaddr *)&addr, sizeof addr, NULL, 0), "connect");
	while (a->ep->state != RDMA_EP_ESTABLISHED) {
		a->ep->ops->progress(a->ep, 0);
		if (!p->ep)
			softiwarp_device.listener_accept(listener, &passive, NULL, &p->ep);
		if (p->ep)
			p->ep->ops->progress(p->ep, 0);
		if (p->ep && p->ep->state == RDMA_EP_REQUESTED)
			must(p->ep->ops->accept(p->ep, NULL, 0), "accept");
	}
	softiwarp_device.listener_close(listener);
	side_register(a);
	side_register(p);
	for (size_t i = 0; i < 64; i++) {
		struct rdma_sge sge = message(p, i);
		must(p->ep->ops->queue_recv(p->ep, &sge, (void *)i), "receive");
	}
}

int main(int argc, char **argv)
{
	double seconds = argc > 1 ? atof(argv[1]) : 1;
	uint32_t len = argc > 2 ? (uint32_t)atol(argv[2]) : 1 << 20;
	struct bench_side active = {0}, passive = {0};
	pthread_t thread;
	side_init(&active);
	side_init(&passive);
	connect_both(&active, &passive);
	if (pthread_create(&thread, NULL, echo, &passive))
		return 1;
	bulk(&active, &passive, RDMA_WC_WRITE, len, seconds);
	bulk(&active, &passive, RDMA_WC_READ, len, seconds);
	bulk(&active, &passive, RDMA_WC_WRITE, 4096, seconds);
	bulk(&active, &passive, RDMA_WC_READ, 4096, seconds);
	round_trips(&active, 1, seconds);
	round_trips(&active, 16, seconds);
	passive.spin = active.spin = true;
	round_trips(&active, 1, seconds);
	active.ep->ops->close(active.ep);
	pthread_join(thread, NULL);
	passive.ep->ops->close(passive.ep);
	free(active.memory);
	free(passive.memory);
	return 0;
}
