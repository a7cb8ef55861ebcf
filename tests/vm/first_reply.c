/* SPDX-License-Identifier: MIT
 *
 * first_reply ADDRESS PORT N DEVICE: connects N times in a row, asks NFS's NULL each time, and says how long
 * the slowest first reply took, and how many took longer than a second: on a quiet machine none does. Exit
 * status 0 if every connection had its reply; one that a sleeping siw keeps would never come.
 */
#include "rpcrdma.h"
#include "xdr.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>

#define SECOND_NS 1000000000ull
#define LIMIT_NS (20 * SECOND_NS) /* for machines that do other things */
#define MIB ((size_t)1 << 20)

static bool up, down, answered;
static uint64_t answered_ns;
static char why[160];

static uint64_t now_ns(void)
{
	struct timespec ts;
	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
}

static void on_status(void *ctx, const struct rpcrdma_status *status)
{
	up = status->event == RPCRDMA_UP;
	down = !up;
	if (down)
		snprintf(why, sizeof why, "%s", status->why);
}

static void on_reply(struct rpcrdma_call *call)
{
	answered = call->status == 0 && call->reply_len >= 24;
	answered_ns = now_ns();
}

static void turn(struct rpcrdma_xprt *x, int epoll_fd)
{
	struct epoll_event event;
	bool was_up = up, more = rpcrdma_progress(x, now_ns());

	rpcrdma_flush(x, now_ns());
	uint64_t at = rpcrdma_next_timeout(x), now = now_ns();
	int wait_ms = at <= now ? 0 : at - now > SECOND_NS ? 1000 : (int)((at - now) / 1000000) + 1;
	if (!more && !answered && !down && up == was_up) /* else the caller has something to do at once */
		epoll_wait(epoll_fd, &event, 1, wait_ms);
}

static void ask(struct rpcrdma_xprt *x)
{
	struct rpcrdma_call *call = rpcrdma_call_get(x);
	struct xdr_writer w = xdr_writer(call->msg, RPCRDMA_MSG_BYTES);
	const uint32_t null_call[] = {call->xid, 0, 2, 100003, 3, 0, 0, 0, 0, 0}; /* RFC 5531 §9, AUTH_NONE */

	for (size_t i = 0; i < sizeof null_call / sizeof *null_call; i++)
		xdr_put_u32(&w, null_call[i]);
	call->msg_len = (uint32_t)xdr_written(&w);
	call->reply_max = 64;
	call->done = on_reply;
	rpcrdma_submit(call, now_ns());
}

/* Nanoseconds from the connection to the reply, or 0. */
static uint64_t once(const struct rpcrdma_params *params, int epoll_fd)
{
	struct rpcrdma_xprt *x;

	up = down = answered = false;
	if (rpcrdma_create(params, &x))
		return 0;
	rpcrdma_connect(x, now_ns());
	while (!up && !down)
		turn(x, epoll_fd);
	uint64_t start = now_ns();
	if (up)
		ask(x);
	while (up && !answered && now_ns() - start < LIMIT_NS)
		turn(x, epoll_fd);
	rpcrdma_destroy(x);
	return answered ? answered_ns - start : 0;
}

int main(int argc, char **argv)
{
	if (argc != 5)
		return 2;
	int epoll_fd = epoll_create1(EPOLL_CLOEXEC), n = atoi(argv[3]);
	struct rpcrdma_params params = {.device = rdma_device_by_name(argv[4]),
					.addr_len = sizeof(struct sockaddr_in),
					.epoll_fd = epoll_fd,
					.strategy = FMR_DYNAMIC,
					.credits = 4,
					.inline_bytes = 4096,
					.calls = 1,
					.arena_bytes = 6 * MIB,
					.max_io_bytes = MIB,
					.timeo_ns = 60 * SECOND_NS,
					.one_shot = true,
					.on_status = on_status};
	struct sockaddr_in *addr = (struct sockaddr_in *)&params.addr;
	uint64_t slowest = 0;
	int late = 0;

	addr->sin_family = AF_INET;
	addr->sin_port = htons((uint16_t)atoi(argv[2]));
	if (!params.device || inet_pton(AF_INET, argv[1], &addr->sin_addr) != 1)
		return 2;
	for (int i = 0; i < n; i++) {
		uint64_t took = once(&params, epoll_fd);
		if (!took) {
			printf("connection %d of %d: %s\n", i + 1, n, down ? why : "no reply");
			return 1;
		}
		if (took > slowest)
			slowest = took;
		late += took > SECOND_NS;
	}
	printf("%d connections, the slowest first reply took %.1f ms, %d longer than a second\n", n,
	       (double)slowest / 1e6, late);
	return 0;
}
