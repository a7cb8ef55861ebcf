/* SPDX-License-Identifier: MIT
 *
 * The operations of the device interface, completions, and the end of a connection.
 *
 * Memory of an endpoint is one allocation per ring, made at open. The rings cannot overflow: what is queued
 * or complete but not yet polled counts against max_send and max_recv, and the completion ring has room for
 * both; the outgoing ring has room for max_send requests and one Read Response for each Read that the peer
 * may have outstanding.
 */
#include "endpoint.h"
#include "listener.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#define DEFAULT_REQUESTS 256u
#define MAX_REQUESTS 16384u
#define DEFAULT_READ_DEPTH 32u
#define MAX_READ_DEPTH 1024u

/* ---- completions ---- */

void ep_complete_wc(struct endpoint *ep, const struct rdma_wc *wc)
{
	ep->completions.ring[ep->completions.tail++ & ep->completions.mask] = *wc;
}

void ep_complete(struct endpoint *ep, enum rdma_wc_kind kind, int status, void *ctx)
{
	if (!ctx && (kind == RDMA_WC_SEND || kind == RDMA_WC_WRITE)) {
		ep->sends_used--;
		return;
	}
	struct rdma_wc wc = {.kind = kind, .status = status, .ctx = ctx};
	ep_complete_wc(ep, &wc);
}

void ep_release(struct stag_entry *source, struct endpoint *ep)
{
	if (--source->readers || !source->invalidating)
		return;
	ep_complete(ep, RDMA_WC_INVALIDATE, 0, source->invalidating);
	source->invalidating = NULL;
}

void ep_update_timeout(struct endpoint *ep)
{
	bool due = ep->input_due || ep->completions.head != ep->completions.tail;
	uint64_t at = ep->ep.state == RDMA_EP_ESTABLISHED ? wake_timeout_ns(ep) : ep->setup.deadline_ns;
	ep->ep.timeout_ns = due ? 1 : at;
}

/* ---- the end of a connection ---- */

static void flush_messages(struct endpoint *ep)
{
	struct tx *tx = &ep->tx;
	for (; tx->head != tx->tail; tx->head++) {
		struct tx_msg *msg = &tx->msgs[tx->head & tx->mask];
		if (msg->kind == TX_SEND)
			ep_complete(ep, RDMA_WC_SEND, -ECANCELED, msg->ctx);
		else if (msg->kind == TX_WRITE)
			ep_complete(ep, RDMA_WC_WRITE, -ECANCELED, msg->ctx);
	}
	ep->answering = 0;
}

static void flush_reads(struct endpoint *ep)
{
	struct reads *reads = &ep->reads;
	for (; reads->head != reads->tail; reads->head++)
		ep_complete(ep, RDMA_WC_READ, -ECANCELED, reads->ring[reads->head & reads->mask].ctx);
}

static void flush_windows(struct endpoint *ep)
{
	for (uint32_t i = 1; i < ep->stags.used; i++) {
		struct stag_entry *entry = &ep->stags.entries[i];
		entry->readers = 0;
		if (entry->kind == STAG_WINDOW)
			stag_unbind(entry);
		if (entry->invalidating)
			ep_complete(ep, RDMA_WC_INVALIDATE, -ECANCELED, entry->invalidating);
		entry->invalidating = NULL;
	}
}

static void flush_receives(struct endpoint *ep)
{
	struct recvs *recvs = &ep->recvs;
	for (; recvs->head != recvs->tail; recvs->head++)
		ep_complete(ep, RDMA_WC_RECV, -ECANCELED, recvs->ring[recvs->head & recvs->mask].ctx);
}

/* Closes the socket in such a way that the peer can still read our last words: unread input would make the
 * kernel send a reset, which may overtake them. A peer that sends without end gets its reset. */
static void close_socket(struct endpoint *ep)
{
	if (ep->fd < 0)
		return;
	shutdown(ep->fd, SHUT_WR);
	for (int i = 0; i < 32; i++)
		if (recv(ep->fd, ep->rx.stage, sizeof ep->rx.stage, MSG_DONTWAIT) <= 0)
			break;
	epoll_ctl(ep->epoll_fd, EPOLL_CTL_DEL, ep->fd, NULL);
	close(ep->fd);
	ep->fd = -1;
}

void ep_end(struct endpoint *ep, int error, const char *why, ...)
{
	if (ep->ep.state == RDMA_EP_CLOSED)
		return;
	va_list args;
	va_start(args, why);
	vsnprintf(ep->ep.why, sizeof ep->ep.why, why, args);
	va_end(args);
	ep->ep.error = error;
	ep->ep.state = RDMA_EP_CLOSED;
	ep->setup.step = SETUP_NONE;
	ep->setup.deadline_ns = 0;
	ep->input_due = false;
	close_socket(ep);
	flush_messages(ep);
	flush_reads(ep);
	flush_windows(ep);
	flush_receives(ep);
}

void ep_violation(struct endpoint *ep, uint32_t fault, bool with_segment)
{
	struct rx *rx = &ep->rx;
	struct rdmap_terminate terminate = {
		.fault = fault,
		.segment = with_segment ? rx->raw : NULL,
		.segment_len = rx->raw_len,
	};
	/* RFC 5040 figure 10: the request goes back with a protection error */
	if (with_segment && rx->header.opcode == RDMAP_READ_REQUEST &&
	    FAULT_LAYER(fault) == FAULT_LAYER_RDMAP && FAULT_TYPE(fault) == 1)
		terminate.read_request = (const uint8_t *)rx->read_request;
	tx_terminate(ep, &terminate);
	ep_end(ep, -EPROTO, "ended with a Terminate, the peer broke the protocol: %s", fault_text(fault));
}

/* ---- open, connect, close ---- */

static uint32_t wanted(uint32_t want, uint32_t standard, uint32_t most)
{
	return !want ? standard : want < most ? want : most;
}

static uint32_t ring_slots(uint32_t n)
{
	uint32_t slots = 1;
	while (slots < n)
		slots *= 2;
	return slots;
}

static void set_limits(struct endpoint *ep)
{
	ep->ep.limits = (struct rdma_limits){
		.max_sge = RDMA_SGE_MAX,
		.max_recv = ep->max_recv,
		.max_send = ep->max_send,
		.read_depth_in = ep->read_depth,
		.read_depth_out = ep->read_depth,
		.windows = true,
		.window_bounds = true,
		.remote_invalidate = true,
	};
}

static void ep_free(struct endpoint *ep)
{
	stag_table_fini(&ep->stags);
	free(ep->tx.msgs);
	free(ep->reads.ring);
	free(ep->recvs.ring);
	free(ep->completions.ring);
	free(ep);
}

static int allocate_rings(struct endpoint *ep)
{
	uint32_t msgs = ring_slots(ep->max_send + ep->read_depth);
	uint32_t reads = ring_slots(ep->max_send), recvs = ring_slots(ep->max_recv);
	uint32_t completions = ring_slots(ep->max_send + ep->max_recv);
	ep->tx.msgs = calloc(msgs, sizeof *ep->tx.msgs);
	ep->tx.mask = msgs - 1;
	ep->reads.ring = calloc(reads, sizeof *ep->reads.ring);
	ep->reads.mask = reads - 1;
	ep->recvs.ring = calloc(recvs, sizeof *ep->recvs.ring);
	ep->recvs.mask = recvs - 1;
	ep->completions.ring = calloc(completions, sizeof *ep->completions.ring);
	ep->completions.mask = completions - 1;
	if (!ep->tx.msgs || !ep->reads.ring || !ep->recvs.ring || !ep->completions.ring)
		return -ENOMEM;
	return stag_table_init(&ep->stags);
}

static const struct rdma_ep_ops softiwarp_ops;

int ep_open(const struct rdma_ep_params *params, struct endpoint **result)
{
	struct endpoint *ep = calloc(1, sizeof *ep);
	if (!ep)
		return -ENOMEM;
	ep->ep.ops = &softiwarp_ops;
	ep->fd = -1;
	ep->epoll_fd = params->epoll_fd;
	ep->epoll_data = params->epoll_data;
	ep->want_crc = true;
	ep->max_send = wanted(params->max_send, DEFAULT_REQUESTS, MAX_REQUESTS);
	ep->max_recv = wanted(params->max_recv, DEFAULT_REQUESTS, MAX_REQUESTS);
	ep->read_depth = wanted(params->read_depth, DEFAULT_READ_DEPTH, MAX_READ_DEPTH);
	set_limits(ep);
	int rc = allocate_rings(ep);
	if (rc < 0) {
		ep_free(ep);
		return rc;
	}
	*result = ep;
	return 0;
}

static int softiwarp_open(const struct rdma_ep_params *params, struct rdma_ep **result)
{
	struct endpoint *ep;
	int rc = ep_open(params, &ep);
	if (rc == 0)
		*result = &ep->ep;
	return rc;
}

static void softiwarp_close(struct rdma_ep *base)
{
	struct endpoint *ep = endpoint(base);
	if (!ep)
		return;
	ep_end(ep, 0, "closed");
	ep_free(ep);
}

/* Everything that belongs to one connection, as at its beginning. */
static void reset_connection(struct endpoint *ep)
{
	struct tx *tx = &ep->tx;
	tx->head = tx->next = tx->tail = tx->next_done = 0;
	tx->frame_head = tx->frame_tail = tx->iov_head = tx->iov_tail = 0;
	tx->framed = tx->sent = 0;
	ep->reads.head = ep->reads.sent = ep->reads.asked = ep->reads.tail = ep->reads.placed = 0;
	memset(&ep->rx, 0, offsetof(struct rx, stage));
	ep->rx.stage_head = ep->rx.stage_tail = 0;
	for (unsigned int q = 0; q < DDP_QUEUES; q++)
		tx->msn[q] = ep->rx.queues[q].msn = 1; /* RFC 5041 §4.3 */
	wake_reset(ep);
	ep->disconnecting = ep->input_due = false;
	ep->ep.error = 0;
	ep->ep.why[0] = '\0';
	ep->ep.peer_private_len = 0;
	set_limits(ep);
}

/* A peer that went dead without a word is noticed after two minutes at the latest, whether it owes us data or
 * not. */
static void set_options(int fd)
{
	int on = 1, idle_s = 60, interval_s = 10, probes = 6;
	unsigned int unacknowledged_ms = 120000;
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
	setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof idle_s);
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval_s, sizeof interval_s);
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof probes);
	setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &unacknowledged_ms, sizeof unacknowledged_ms);
}

int ep_attach_socket(struct endpoint *ep, int fd)
{
	struct epoll_event event = {
		.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET,
		.data.ptr = ep->epoll_data,
	};
	set_options(fd);
	if (epoll_ctl(ep->epoll_fd, EPOLL_CTL_ADD, fd, &event) < 0) {
		int rc = -errno;
		close(fd);
		return rc;
	}
	reset_connection(ep);
	ep->fd = fd;
	ep->ep.state = RDMA_EP_CONNECTING;
	return 0;
}

static int softiwarp_connect(struct rdma_ep *base, const struct sockaddr *addr, socklen_t addr_len,
			     const void *priv, uint32_t priv_len)
{
	struct endpoint *ep = endpoint(base);
	if (base->state != RDMA_EP_IDLE || priv_len > RDMA_PRIVATE_MAX)
		return -EINVAL;
	base->error = 0;
	base->why[0] = '\0';
	int fd = socket(addr->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	if (connect(fd, addr, addr_len) < 0 && errno != EINPROGRESS) {
		int rc = -errno;
		close(fd);
		return rc;
	}
	int rc = ep_attach_socket(ep, fd);
	if (rc < 0)
		return rc;
	setup_connect(ep, priv, priv_len);
	ep_update_timeout(ep);
	return 0;
}

static int softiwarp_accept(struct rdma_ep *base, const void *priv, uint32_t priv_len)
{
	struct endpoint *ep = endpoint(base);
	if (base->state != RDMA_EP_REQUESTED)
		return -EINVAL;
	int rc = setup_accept(ep, priv, priv_len);
	if (rc < 0)
		return rc;
	setup_run(ep, 0);
	ep->input_due = ep->ep.state != RDMA_EP_CLOSED;
	ep_update_timeout(ep);
	return base->state == RDMA_EP_CLOSED ? base->error : 0;
}

static int softiwarp_reject(struct rdma_ep *base)
{
	struct endpoint *ep = endpoint(base);
	if (base->state != RDMA_EP_REQUESTED)
		return -EINVAL;
	setup_reject(ep);
	setup_run(ep, 0);
	ep_update_timeout(ep);
	return 0;
}

static void becomes_idle(struct endpoint *ep)
{
	if (!ep->disconnecting || ep->completions.head != ep->completions.tail)
		return;
	ep->disconnecting = false;
	ep->ep.state = RDMA_EP_IDLE;
	set_limits(ep);
}

static void softiwarp_disconnect(struct rdma_ep *base)
{
	struct endpoint *ep = endpoint(base);
	ep_end(ep, 0, "disconnected");
	ep->disconnecting = true;
	becomes_idle(ep);
	ep_update_timeout(ep);
}

/* ---- requests ---- */

/* May a request be queued now? */
static int may_send(const struct endpoint *ep)
{
	if (ep->ep.state != RDMA_EP_ESTABLISHED)
		return -ENOTCONN;
	return ep->sends_used < ep->max_send ? 0 : -ENOBUFS;
}

static int gather(const struct endpoint *ep, const struct rdma_sge *sge, unsigned int nsge,
		  struct tx_msg *msg)
{
	uint64_t total = 0;
	if (nsge > RDMA_SGE_MAX)
		return -EINVAL;
	for (unsigned int i = 0; i < nsge; i++) {
		if (sge[i].len_bytes && !stag_local(&ep->stags, sge[i].lkey, sge[i].addr, sge[i].len_bytes))
			return -EINVAL;
		msg->sge[i] = (struct iovec){sge[i].addr, sge[i].len_bytes};
		total += sge[i].len_bytes;
	}
	if (total > UINT32_MAX)
		return -EMSGSIZE;
	msg->nsge = (uint8_t)nsge;
	msg->len_bytes = (uint32_t)total;
	return 0;
}

static int softiwarp_queue_send(struct rdma_ep *base, const struct rdma_sge *sge, unsigned int nsge,
				uint32_t invalidate_rkey, void *ctx)
{
	struct endpoint *ep = endpoint(base);
	struct tx_msg *msg = tx_slot(ep);
	int rc = may_send(ep);
	if (rc == 0)
		rc = gather(ep, sge, nsge, msg);
	if (rc < 0)
		return rc;
	msg->kind = TX_SEND;
	msg->opcode = invalidate_rkey ? RDMAP_SEND_INVALIDATE : RDMAP_SEND;
	msg->stag = invalidate_rkey;
	msg->offset = 0;
	msg->msn = ep->tx.msn[DDP_QUEUE_SEND]++;
	msg->ctx = ctx;
	ep->tx.tail++;
	ep->sends_used++;
	return 0;
}

static int softiwarp_queue_write(struct rdma_ep *base, const struct rdma_sge *sge, unsigned int nsge,
				 uint32_t rkey, uint64_t offset, void *ctx)
{
	struct endpoint *ep = endpoint(base);
	struct tx_msg *msg = tx_slot(ep);
	int rc = may_send(ep);
	if (rc == 0)
		rc = gather(ep, sge, nsge, msg);
	if (rc < 0)
		return rc;
	msg->kind = TX_WRITE;
	msg->opcode = RDMAP_WRITE;
	msg->stag = rkey;
	msg->offset = offset;
	msg->ctx = ctx;
	ep->tx.tail++;
	ep->sends_used++;
	return 0;
}

static int softiwarp_queue_read(struct rdma_ep *base, const struct rdma_sge *sge, uint32_t rkey,
				uint64_t offset, void *ctx)
{
	struct endpoint *ep = endpoint(base);
	int rc = may_send(ep);
	if (rc < 0)
		return rc;
	if (!base->limits.read_depth_out)
		return -EOPNOTSUPP;
	if (sge->len_bytes && !stag_local(&ep->stags, sge->lkey, sge->addr, sge->len_bytes))
		return -EINVAL;
	struct read_req *read = &ep->reads.ring[ep->reads.tail & ep->reads.mask];
	read->sink_stag = stag_sink(&ep->stags);
	read->addr = sge->addr;
	read->len_bytes = sge->len_bytes;
	read->rkey = rkey;
	read->offset = offset;
	read->ctx = ctx;
	ep->reads.tail++;
	ep->sends_used++;
	tx_ask_reads(ep);
	return 0;
}

static int softiwarp_queue_recv(struct rdma_ep *base, const struct rdma_sge *sge, void *ctx)
{
	struct endpoint *ep = endpoint(base);
	if (base->state == RDMA_EP_CLOSED)
		return -ENOTCONN;
	if (ep->recvs_used >= ep->max_recv)
		return -ENOBUFS;
	if (sge->len_bytes && !stag_local(&ep->stags, sge->lkey, sge->addr, sge->len_bytes))
		return -EINVAL;
	ep->recvs.ring[ep->recvs.tail++ & ep->recvs.mask] =
		(struct recv_req){.addr = sge->addr, .len_bytes = sge->len_bytes, .ctx = ctx};
	ep->recvs_used++;
	return 0;
}

static int softiwarp_doorbell(struct rdma_ep *base)
{
	struct endpoint *ep = endpoint(base);
	if (base->state != RDMA_EP_ESTABLISHED)
		return base->error ? base->error : -ENOTCONN;
	ep->stats.doorbells++;
	tx_push(ep);
	ep_update_timeout(ep);
	return base->state == RDMA_EP_CLOSED ? base->error : 0;
}

static bool softiwarp_progress(struct rdma_ep *base, uint64_t now_ns)
{
	struct endpoint *ep = endpoint(base);
	bool more = false;
	ep->input_due = false;
	if (base->state == RDMA_EP_CONNECTING || base->state == RDMA_EP_REQUESTED)
		setup_run(ep, now_ns);
	if (base->state == RDMA_EP_ESTABLISHED)
		more = rx_run(ep);
	wake_run(ep, now_ns);
	if (base->state == RDMA_EP_ESTABLISHED)
		tx_push(ep);
	ep_update_timeout(ep);
	return more && base->state == RDMA_EP_ESTABLISHED;
}

static int softiwarp_poll(struct rdma_ep *base, struct rdma_wc *wc, int n)
{
	struct endpoint *ep = endpoint(base);
	struct completions *c = &ep->completions;
	int taken = 0;
	for (; taken < n && c->head != c->tail; taken++) {
		wc[taken] = c->ring[c->head++ & c->mask];
		if (wc[taken].kind == RDMA_WC_RECV)
			ep->recvs_used--;
		else
			ep->sends_used--;
	}
	becomes_idle(ep);
	ep_update_timeout(ep);
	return taken;
}

/* ---- regions and windows ---- */

static int softiwarp_region_register(void *dev, struct fmr_region *region, unsigned int remote)
{
	struct endpoint *ep = dev;
	struct stag_entry *entry = stag_alloc(&ep->stags, STAG_REGION);
	if (!entry)
		return -ENOSPC;
	stag_bind(&ep->stags, entry, region->addr, region->len_bytes, remote);
	region->lkey = entry->stag;
	region->rkey = remote ? entry->stag : 0;
	region->handle = entry;
	return 0;
}

/* What still reads memory that is about to go away must not: the connection ends. */
static void free_entry(struct endpoint *ep, struct stag_entry *entry)
{
	if (entry->readers)
		ep_end(ep, -ECANCELED, "memory was withdrawn while the peer was reading it");
	stag_free(&ep->stags, entry);
	ep_update_timeout(ep);
}

/* A window that is still bound to memory of the region goes first: no key outlives the region. */
static void softiwarp_region_deregister(void *dev, struct fmr_region *region)
{
	struct endpoint *ep = dev;
	struct stag_entry *of_region = region->handle;
	for (uint32_t i = 1; i < ep->stags.used; i++) {
		struct stag_entry *entry = &ep->stags.entries[i];
		if (entry->kind != STAG_WINDOW || !entry->addr || entry->addr < of_region->addr ||
		    entry->addr >= of_region->addr + of_region->len_bytes)
			continue;
		if (entry->readers)
			ep_end(ep, -ECANCELED, "memory was withdrawn while the peer was reading it");
		stag_unbind(entry);
	}
	free_entry(ep, of_region);
	region->handle = NULL;
	region->lkey = region->rkey = 0;
}

static int softiwarp_window_alloc(void *dev, void **window)
{
	struct endpoint *ep = dev;
	struct stag_entry *entry = stag_alloc(&ep->stags, STAG_WINDOW);
	if (!entry)
		return -ENOSPC;
	*window = entry;
	return 0;
}

static void softiwarp_window_free(void *dev, void *window)
{
	free_entry(dev, window);
}

static int softiwarp_queue_bind(void *dev, struct fmr *fmr)
{
	struct endpoint *ep = dev;
	struct stag_entry *window = fmr->window;
	if (ep->ep.state != RDMA_EP_ESTABLISHED)
		return -ENOTCONN;
	if (window->stag || window->invalidating) /* bound, or not quite unbound */
		return -EBUSY;
	if (!fmr->len_bytes || (fmr->access != FMR_REMOTE_READ && fmr->access != FMR_REMOTE_WRITE) ||
	    !stag_local(&ep->stags, fmr->region->lkey, fmr->addr, fmr->len_bytes))
		return -EINVAL;
	stag_bind(&ep->stags, window, fmr->addr, fmr->len_bytes, fmr->access);
	fmr->rkey = window->stag;
	fmr->remote_offset = 0;
	return 0;
}

static int softiwarp_queue_invalidate(void *dev, struct fmr *fmr)
{
	struct endpoint *ep = dev;
	struct stag_entry *window = fmr->window;
	int rc = may_send(ep);
	if (rc < 0)
		return rc;
	if (!window->stag || window->stag != fmr->rkey)
		return -EINVAL;
	stag_unbind(window);
	ep->sends_used++;
	if (window->readers)
		window->invalidating = fmr;
	else
		ep_complete(ep, RDMA_WC_INVALIDATE, 0, fmr);
	ep_update_timeout(ep);
	return 0;
}

static const struct rdma_ep_ops softiwarp_ops = {
	.name = "softiwarp",
	.accept = softiwarp_accept,
	.close = softiwarp_close,
	.connect = softiwarp_connect,
	.disconnect = softiwarp_disconnect,
	.doorbell = softiwarp_doorbell,
	.poll = softiwarp_poll,
	.progress = softiwarp_progress,
	.queue_read = softiwarp_queue_read,
	.queue_recv = softiwarp_queue_recv,
	.queue_send = softiwarp_queue_send,
	.queue_write = softiwarp_queue_write,
	.reject = softiwarp_reject,
	.fmr =
		{
			.region_register = softiwarp_region_register,
			.region_deregister = softiwarp_region_deregister,
			.window_alloc = softiwarp_window_alloc,
			.window_free = softiwarp_window_free,
			.queue_bind = softiwarp_queue_bind,
			.queue_invalidate = softiwarp_queue_invalidate,
		},
};

const struct rdma_device softiwarp_device = {
	.name = "softiwarp",
	.open = softiwarp_open,
	.listen = listener_listen,
	.listener_fd = listener_fd,
	.listener_port = listener_port,
	.listener_accept = listener_accept,
	.listener_close = listener_close,
};

const struct softiwarp_stats *softiwarp_stats(const struct rdma_ep *ep)
{
	return &((const struct endpoint *)ep)->stats;
}

void softiwarp_want_crc(struct rdma_ep *ep, bool want)
{
	endpoint(ep)->want_crc = want;
}
