/* SPDX-License-Identifier: MIT
 *
 * softiwarp's receiver: the peer's side of a connection, from the first byte of connection set-up on. Input:
 *
 *   1 byte   how (enum how)
 *   1 byte   how many bytes come at a time, between two turns of ours, for the first PIECES_MAX times; 0: all
 *   1 byte   what the upper layer does meanwhile (enum action), and
 *   1 byte   after how many pieces
 *   then     the stream
 *
 * No fuzzer guesses a key or a CRC, so the stream is mended first, frame by frame: a small STag stands for a
 * key (enum key), sequence number 0 for the next one of its queue, and a CRC is put in where it belongs.
 *
 * Whatever comes, memory that the peer has no right to does not change, nothing is placed once an invalidate
 * has completed, and every request completes exactly once.
 */
#include "softiwarp/crc32c.h"
#include "softiwarp/endpoint.h"
#include "softiwarp/wire.h"

#include "fuzz.h"

#include <errno.h>
#include <netinet/in.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

enum how {
	HOW_PASSIVE = 1, /* we are the server */
	HOW_SETUP = 2,	 /* the stream begins with the peer's MPA frame; else it is behind it */
	HOW_NO_CRC = 4,
	HOW_WRONG_CRC = 8,   /* not mended */
	HOW_PEER_WAITS = 16, /* the peer reads nothing: what we have to send gets stuck */
	HOW_REJECT = 32,
};

enum action {
	ACT_NOTHING,
	ACT_INVALIDATE, /* the window that may be written */
	ACT_REBIND,	/* the same, and to other memory then */
	ACT_READ,	/* another Read of ours */
	ACT_WITHDRAW,	/* the window that may be read is freed */
	ACT_DISCONNECT,
	ACTIONS,
};

enum key { KEY_NONE, KEY_WRITABLE, KEY_READABLE, KEY_SINK, KEY_DEAD, KEY_LOCAL, KEY_OTHER_WRITABLE, KEYS };

/* The victim's memory, offsets and lengths. */
#define MEMORY_BYTES (64u << 10)
#define RECV_AT 0u
#define RECV_BYTES 100u
#define RECVS 4u
#define WRITABLE_AT 1024u
#define WRITABLE_BYTES 300u
#define OTHER_AT 2048u
#define OTHER_BYTES 50u
#define SINK_AT 3072u
#define SINK_BYTES 200u
#define DEAD_AT 4096u
#define SENT_AT 5120u
#define READABLE_AT 8192u
#define READABLE_BYTES (48u << 10)
#define READS_MAX 2u
#define DEPTH 4u
#define PIECES_MAX 64u
#define PATTERN 0x5a

struct victim {
	struct endpoint *ep;
	int peer_fd, epoll_fd;
	uint8_t how;
	uint8_t *memory;
	struct fmr_region region;
	struct fmr writable, other, readable, dead;
	bool armed, frozen; /* nothing may be written through `writable` any more; it held: */
	uint8_t held[WRITABLE_BYTES];
	unsigned int queued, completed; /* requests that complete */
	unsigned int nreads;
	uint32_t msn[DDP_QUEUES];
};

static struct rdma_sge sge_at(struct victim *v, size_t at, uint32_t len)
{
	return (struct rdma_sge){v->memory + at, len, v->region.lkey};
}

/* ---- what the upper layer does ---- */

static void bind_window(struct victim *v, struct fmr *fmr, size_t at, uint32_t len, enum fmr_access access)
{
	const struct fmr_ops *ops = &v->ep->ep.ops->fmr;
	if (!fmr->window)
		require(ops->window_alloc(v->ep, &fmr->window) == 0);
	fmr->region = &v->region;
	fmr->addr = (char *)v->memory + at;
	fmr->len_bytes = len;
	fmr->access = access;
	require(ops->queue_bind(v->ep, fmr) == 0);
}

static void read_something(struct victim *v)
{
	struct rdma_sge sge = sge_at(v, SINK_AT, SINK_BYTES);
	if (v->nreads == READS_MAX)
		return;
	if (v->ep->ep.ops->queue_read(&v->ep->ep, &sge, 77, 0, &v->nreads) == 0) {
		v->queued++;
		v->nreads++;
	}
}

static void invalidate(struct victim *v, struct fmr *fmr)
{
	if (v->ep->ep.ops->fmr.queue_invalidate(v->ep, fmr) == 0)
		v->queued++;
}

/* Windows, receives, a Read and a Send: once, as soon as the connection is there. */
static void arm(struct victim *v)
{
	struct rdma_sge sge = sge_at(v, SENT_AT, 60);
	v->armed = true;
	bind_window(v, &v->writable, WRITABLE_AT, WRITABLE_BYTES, FMR_REMOTE_WRITE);
	bind_window(v, &v->other, OTHER_AT, OTHER_BYTES, FMR_REMOTE_WRITE);
	bind_window(v, &v->readable, READABLE_AT, READABLE_BYTES, FMR_REMOTE_READ);
	bind_window(v, &v->dead, DEAD_AT, 100, FMR_REMOTE_WRITE);
	invalidate(v, &v->dead);
	read_something(v);
	require(v->ep->ep.ops->queue_send(&v->ep->ep, &sge, 1, 0, v) == 0);
	v->queued++;
	v->ep->ep.ops->doorbell(&v->ep->ep);
}

static void post_receives(struct victim *v)
{
	for (unsigned int i = 0; i < RECVS; i++) {
		struct rdma_sge sge = sge_at(v, RECV_AT + i * RECV_BYTES, RECV_BYTES);
		require(v->ep->ep.ops->queue_recv(&v->ep->ep, &sge, v) == 0);
		v->queued++;
	}
}

static void on_completion(struct victim *v, const struct rdma_wc *wc)
{
	v->completed++;
	if (wc->kind == RDMA_WC_RECV && !wc->status)
		require(wc->len_bytes <= RECV_BYTES);
	if (wc->kind == RDMA_WC_INVALIDATE && wc->ctx == &v->writable) {
		v->frozen = true;
		memcpy(v->held, v->memory + WRITABLE_AT, sizeof v->held);
	}
}

static void poll_all(struct victim *v)
{
	struct rdma_wc wc[8];
	int n;
	while ((n = v->ep->ep.ops->poll(&v->ep->ep, wc, 8)) > 0)
		for (int i = 0; i < n; i++)
			on_completion(v, &wc[i]);
}

static void answer(struct victim *v)
{
	struct rdma_ep *ep = &v->ep->ep;
	if (v->how & HOW_REJECT)
		ep->ops->reject(ep);
	else
		ep->ops->accept(ep, "pd", 2);
}

static void drain_peer(struct victim *v)
{
	static uint8_t sink[65536];
	if (v->how & HOW_PEER_WAITS)
		return;
	while (recv(v->peer_fd, sink, sizeof sink, MSG_DONTWAIT) > 0)
		;
}

static void turn(struct victim *v)
{
	struct rdma_ep *ep = &v->ep->ep;
	while (ep->ops->progress(ep, 1))
		;
	if (ep->state == RDMA_EP_REQUESTED)
		answer(v);
	if (ep->state == RDMA_EP_ESTABLISHED && !v->armed)
		arm(v);
	poll_all(v);
	drain_peer(v);
}

static void rebind(struct victim *v)
{
	invalidate(v, &v->writable);
	poll_all(v);
	if (v->frozen && v->ep->ep.state == RDMA_EP_ESTABLISHED)
		bind_window(v, &v->writable, OTHER_AT, OTHER_BYTES, FMR_REMOTE_WRITE);
}

static void act(struct victim *v, enum action action)
{
	struct rdma_ep *ep = &v->ep->ep;
	if (action == ACT_DISCONNECT)
		ep->ops->disconnect(ep);
	if (ep->state != RDMA_EP_ESTABLISHED)
		return;
	switch (action) {
	case ACT_INVALIDATE:
		invalidate(v, &v->writable);
		break;
	case ACT_REBIND:
		rebind(v);
		break;
	case ACT_READ:
		read_something(v);
		ep->ops->doorbell(ep);
		break;
	case ACT_WITHDRAW:
		ep->ops->fmr.window_free(v->ep, v->readable.window);
		v->readable.window = NULL;
		break;
	default:
		break;
	}
}

/* ---- the stream ---- */

static uint32_t key_of(const struct victim *v, uint32_t stag)
{
	const struct reads *reads = &v->ep->reads;
	const uint32_t keys[KEYS] = {
		[KEY_WRITABLE] = v->writable.rkey,
		[KEY_READABLE] = v->readable.rkey,
		[KEY_SINK] =
			reads->head != reads->tail ? reads->ring[reads->head & reads->mask].sink_stag : 0,
		[KEY_DEAD] = v->dead.rkey,
		[KEY_LOCAL] = v->region.lkey,
		[KEY_OTHER_WRITABLE] = v->other.rkey,
	};
	return stag < KEYS ? keys[stag] : stag;
}

static void mend_key(const struct victim *v, uint8_t *stag)
{
	put_be32(stag, key_of(v, get_be32(stag)));
}

static void mend_untagged(struct victim *v, uint8_t *header, uint32_t payload_len)
{
	uint32_t queue = get_be32(header + 6);
	if (queue < DDP_QUEUES && get_be32(header + 10) == 0)
		put_be32(header + 10, ++v->msn[queue]);
	if (queue == DDP_QUEUE_READ && payload_len >= RDMAP_READ_REQUEST_BYTES) {
		mend_key(v, header + DDP_UNTAGGED_BYTES);
		mend_key(v, header + DDP_UNTAGGED_BYTES + 16);
	}
}

/* One frame of at most len bytes; how long it is, or 0: the rest is none. */
static size_t mend_frame(struct victim *v, uint8_t *frame, size_t len)
{
	if (len < MPA_LENGTH_BYTES + DDP_HEADER_MAX + MPA_CRC_BYTES)
		return 0;
	uint32_t ulpdu = get_be16(frame), header_len = ddp_header_bytes(frame[MPA_LENGTH_BYTES]);
	size_t covered = MPA_LENGTH_BYTES + ulpdu + mpa_pad_bytes(ulpdu);
	if (ulpdu < header_len || covered + MPA_CRC_BYTES > len)
		return 0;
	mend_key(v, frame + MPA_LENGTH_BYTES + DDP_CONTROL_BYTES);
	if (header_len == DDP_UNTAGGED_BYTES)
		mend_untagged(v, frame + MPA_LENGTH_BYTES, ulpdu - header_len);
	if (!(v->how & HOW_WRONG_CRC))
		put_le32(frame + covered, crc32c(0, frame, covered));
	return covered + MPA_CRC_BYTES;
}

static void mend(struct victim *v, uint8_t *stream, size_t len)
{
	size_t n;
	for (size_t at = 0; (n = mend_frame(v, stream + at, len - at)); at += n)
		;
}

/* What the peer has closed, or its buffer has no room for, is not sent. */
static void say(struct victim *v, const void *bytes, size_t len)
{
	ssize_t n = send(v->peer_fd, bytes, len, MSG_NOSIGNAL | MSG_DONTWAIT);
	(void)n;
}

static void say_mpa(struct victim *v)
{
	uint8_t bytes[MPA_FRAME_MAX];
	struct mpa_frame frame = {
		.reply = !(v->how & HOW_PASSIVE),
		.crc = !(v->how & HOW_NO_CRC),
		.enhanced = true,
		.revision = MPA_REVISION,
		.ird = DEPTH,
		.ord = DEPTH,
	};
	say(v, bytes, mpa_encode(bytes, &frame));
	for (int i = 0; i < 4; i++)
		turn(v);
	require(v->ep->ep.state ==
		(v->how & HOW_PASSIVE && v->how & HOW_REJECT ? RDMA_EP_CLOSED : RDMA_EP_ESTABLISHED));
}

/* An MPA frame at the start stays as it is. */
static size_t mpa_bytes(const uint8_t *stream, size_t len)
{
	uint32_t n;
	return len >= MPA_HEADER_BYTES && mpa_frame_len(stream, &n) == 0 && n <= len ? n : 0;
}

static void say_stream(struct victim *v, struct xdr_reader *in, size_t at_a_time, enum action action,
		       unsigned int when)
{
	size_t len, setup = 0;
	uint8_t *stream = take_copy(in, SIZE_MAX, &len);
	if (v->how & HOW_SETUP) {
		setup = mpa_bytes(stream, len);
		say(v, stream, setup);
		turn(v);
		turn(v);
	} else {
		say_mpa(v);
	}
	mend(v, stream + setup, len - setup);
	for (size_t at = setup, n, piece = 0; at < len; at += n, piece++) {
		bool cut = at_a_time && piece < PIECES_MAX && len - at > at_a_time;
		n = cut ? at_a_time : len - at;
		say(v, stream + at, n);
		if (piece == when)
			act(v, action);
		turn(v);
	}
	free(stream);
}

/* ---- the whole ---- */

static void open_victim(struct victim *v)
{
	struct rdma_ep_params params = {
		.epoll_fd = v->epoll_fd, .max_recv = 8, .max_send = 16, .read_depth = DEPTH};
	int fds[2];
	require(ep_open(&params, &v->ep) == 0);
	softiwarp_want_crc(&v->ep->ep, !(v->how & HOW_NO_CRC));
	require(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds) == 0);
	v->peer_fd = fds[1];
	require(ep_attach_socket(v->ep, fds[0]) == 0);
	if (v->how & HOW_PASSIVE)
		setup_listen(v->ep);
	else
		setup_connect(v->ep, "pd", 2);
	v->region = (struct fmr_region){.addr = (char *)v->memory, .len_bytes = MEMORY_BYTES};
	require(v->ep->ep.ops->fmr.region_register(v->ep, &v->region, 0) == 0);
	post_receives(v);
}

/* Everything has come to its end, and once. */
static void close_victim(struct victim *v)
{
	struct rdma_ep *ep = &v->ep->ep;
	ep->ops->disconnect(ep);
	poll_all(v);
	require(ep->state == RDMA_EP_IDLE);
	require(v->completed == v->queued);
	ep->ops->close(ep);
	close(v->peer_fd);
}

static void require_pattern(const struct victim *v, size_t from, size_t to)
{
	require(v->memory[from] == PATTERN);
	require(memcmp(v->memory + from, v->memory + from + 1, to - from - 1) ==
		0); /* each the same as the next */
}

static void check_memory(const struct victim *v)
{
	require_pattern(v, RECV_AT + RECVS * RECV_BYTES, WRITABLE_AT);
	require_pattern(v, WRITABLE_AT + WRITABLE_BYTES, OTHER_AT);
	require_pattern(v, OTHER_AT + OTHER_BYTES, SINK_AT);
	require_pattern(v, SINK_AT + SINK_BYTES, MEMORY_BYTES);
	if (v->frozen)
		require(memcmp(v->held, v->memory + WRITABLE_AT, WRITABLE_BYTES) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	static int epoll_fd;
	static uint8_t *memory;
	if (!memory) {
		epoll_fd = epoll_create1(EPOLL_CLOEXEC);
		memory = malloc(MEMORY_BYTES);
	}
	memset(memory, PATTERN, MEMORY_BYTES);
	struct xdr_reader in = xdr_reader(data, len);
	struct victim v = {.epoll_fd = epoll_fd, .memory = memory, .how = take_u8(&in)};
	size_t at_a_time = take_u8(&in);
	enum action action = take_u8(&in) % ACTIONS;
	unsigned int when = take_u8(&in);
	open_victim(&v);
	turn(&v);
	say_stream(&v, &in, at_a_time, action, when);
	close_victim(&v);
	check_memory(&v);
	return 0;
}
