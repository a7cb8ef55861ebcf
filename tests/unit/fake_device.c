/* SPDX-License-Identifier: MIT
 *
 * Two endpoints joined by memory. See fake_device.h.
 *
 * Ending a connection has two steps, as in a real device: the link goes down at once, on both sides, and from
 * then on nobody can reach anything; each side's *state* changes in its own next progress() or disconnect(),
 * which also flushes what it had queued.
 */
#include "fake_device.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define KEY_STEP 0x9e3779b1u /* odd: 2^32 different keys before one repeats */

struct region {
	struct region *next;
	char *addr;
	size_t len;
	uint32_t lkey, rkey;
	uint64_t base;
	unsigned int remote;
};

struct window {
	struct window *next;
	bool bound;
	bool exposed; /* by fake_expose(): freed with its key */
	char *addr;
	uint32_t len, rkey;
	uint64_t base;
	enum fmr_access access;
};

/* A queued request. */
struct work {
	struct work *next;
	enum fake_kind kind;
	bool rung;
	struct rdma_sge sge[RDMA_SGE_MAX];
	unsigned int nsge;
	uint32_t rkey; /* where to, what to invalidate, or the new key of a bind */
	uint64_t offset;
	void *ctx;
	struct fmr *fmr;
	struct window *window;
	struct window bind; /* the values to take over */
	uint8_t *raw;	    /* owned: the bytes of a raw Send instead of sge */
};

struct posted {
	struct posted *next;
	struct rdma_sge sge;
	void *ctx;
	uint8_t *raw; /* owned */
};

struct completion {
	struct completion *next;
	struct rdma_wc wc;
	unsigned int slots; /* of the send queue that are free again once it is polled */
	bool flushed;
	uint8_t *raw; /* owned: a message received into the fake's own memory */
	uint32_t raw_size;
};

struct fake_ep {
	struct rdma_ep ep;
	struct fake_ep *next_pending;
	struct rdma_listener *listener; /* where it waits to be accepted */
	struct fake_ep *peer;
	int epoll_fd, event_fd;
	bool passive;	   /* made by a listener */
	bool up;	   /* the link: both sides can reach each other */
	bool accepted;	   /* the active side becomes ESTABLISHED in its progress() */
	bool ending;	   /* … and CLOSED in its progress() */
	bool disconnected; /* becomes IDLE when all is polled */
	int end_error;
	char end_why[160];
	uint8_t private[RDMA_PRIVATE_MAX];
	uint32_t private_len;

	struct region *regions;
	struct window *windows;
	struct work *work, **work_end;
	struct posted *posted, **posted_end;
	struct completion *done, **done_end;
	unsigned int nposted;
	uint64_t slots_used, unsignalled;

	unsigned int hold;
	bool paused;
	unsigned int fail_post, fail_doorbell, fail_completion;
	int fail_post_err, fail_doorbell_err, fail_completion_status;
	enum fake_kind fail_kind;
	struct fake_counts counts;
};

struct rdma_listener {
	struct rdma_listener *next;
	uint16_t port;
	int event_fd;
	struct fake_ep *pending;
};

static const struct rdma_limits default_limits = {.max_sge = 4,
						  .max_recv = 512,
						  .max_send = 512,
						  .read_depth_in = 16,
						  .read_depth_out = 16,
						  .windows = true,
						  .window_bounds = true,
						  .remote_invalidate = true};
struct rdma_limits fake_limits = {.max_sge = 4,
				  .max_recv = 512,
				  .max_send = 512,
				  .read_depth_in = 16,
				  .read_depth_out = 16,
				  .windows = true,
				  .window_bounds = true,
				  .remote_invalidate = true};
static struct rdma_listener *listeners;
static unsigned int living;
static uint32_t last_key;

static struct fake_ep *fake_of(const struct rdma_ep *ep)
{
	return (struct fake_ep *)ep;
}

static void *make(size_t size)
{
	void *p = calloc(1, size);
	if (!p)
		abort();
	return p;
}

static void signal_fd(int fd)
{
	uint64_t one = 1;
	if (write(fd, &one, sizeof one) != sizeof one)
		abort();
}

static void clear_fd(int fd)
{
	uint64_t n;
	if (read(fd, &n, sizeof n) < 0 && errno != EAGAIN)
		abort();
}

static uint32_t new_key(void)
{
	do
		last_key += KEY_STEP;
	while (!last_key);
	return last_key;
}

static int misuse(struct fake_ep *f, int err)
{
	f->counts.misuses++;
	return err;
}

void fake_reset(void)
{
	fake_limits = default_limits;
}

unsigned int fake_living(void)
{
	return living;
}

/* Completions. */

static struct completion *complete(struct fake_ep *f, enum rdma_wc_kind kind, int status, void *ctx)
{
	struct completion *c = make(sizeof *c);
	c->wc = (struct rdma_wc){.kind = kind, .status = status, .ctx = ctx};
	*f->done_end = c;
	f->done_end = &c->next;
	signal_fd(f->event_fd);
	return c;
}

static enum rdma_wc_kind wc_kind(enum fake_kind kind)
{
	static const enum rdma_wc_kind kinds[FAKE_KINDS] = {[FAKE_SEND] = RDMA_WC_SEND,
							    [FAKE_SEND_INVALIDATE] = RDMA_WC_SEND,
							    [FAKE_WRITE] = RDMA_WC_WRITE,
							    [FAKE_READ] = RDMA_WC_READ,
							    [FAKE_INVALIDATE] = RDMA_WC_INVALIDATE,
							    [FAKE_BIND] = RDMA_WC_INVALIDATE};
	return kinds[kind];
}

/* The oldest request is over. Binds, and Sends and Writes without ctx, are silent when all went well. */
static void retire(struct fake_ep *f, int status)
{
	struct work *w = f->work;
	bool silent = w->kind == FAKE_BIND || !w->ctx;

	f->work = w->next;
	if (!f->work)
		f->work_end = &f->work;
	f->unsignalled += !w->raw;
	if (!(silent && (!status || w->kind == FAKE_BIND || w->raw))) {
		struct completion *c = complete(f, wc_kind(w->kind), status, w->ctx);
		c->flushed = status != 0;
		c->slots = (unsigned int)f->unsignalled;
		f->unsignalled = 0;
	}
	free(w->raw);
	free(w);
}

static struct posted *take_posted(struct fake_ep *f)
{
	struct posted *p = f->posted;
	f->posted = p->next;
	if (!f->posted)
		f->posted_end = &f->posted;
	f->nposted--;
	return p;
}

/* The end. */

static void end_side(struct fake_ep *f, int error, const char *why)
{
	f->up = false;
	f->peer = NULL;
	for (struct window *w = f->windows; w; w = w->next)
		w->bound = false;
	if (f->ending || f->ep.state == RDMA_EP_IDLE || f->ep.state == RDMA_EP_CLOSED)
		return;
	f->ending = true;
	f->end_error = error;
	snprintf(f->end_why, sizeof f->end_why, "%s", why);
	signal_fd(f->event_fd);
}

static void end_both(struct fake_ep *f, int error, int peer_error, const char *why)
{
	struct fake_ep *peer = f->peer;
	end_side(f, error, why);
	if (peer)
		end_side(peer, peer_error, why);
}

static void flush(struct fake_ep *f)
{
	while (f->work)
		retire(f, -ECANCELED);
	while (f->posted) {
		struct posted *p = take_posted(f);
		if (!p->raw)
			complete(f, RDMA_WC_RECV, -ECANCELED, p->ctx)->flushed = true;
		free(p->raw);
		free(p);
	}
}

static void become_closed(struct fake_ep *f)
{
	f->ending = false;
	f->accepted = false;
	f->ep.state = RDMA_EP_CLOSED;
	f->ep.error = f->end_error;
	memcpy(f->ep.why, f->end_why, sizeof f->ep.why);
	flush(f);
}

/* Memory. */

static bool inside(uint64_t start, uint64_t len, uint64_t at, uint64_t n)
{
	return at >= start && at - start <= len && n <= len - (at - start);
}

static bool registered(const struct fake_ep *f, const struct rdma_sge *sge)
{
	for (const struct region *r = f->regions; r; r = r->next)
		if (r->lkey == sge->lkey &&
		    inside((uintptr_t)r->addr, r->len, (uintptr_t)sge->addr, sge->len_bytes))
			return true;
	return false;
}

/* What the peer of f reaches by this key; NULL: nothing. */
static char *resolve(struct fake_ep *f, enum fmr_access access, uint32_t rkey, uint64_t offset, uint32_t len)
{
	for (struct window *w = f->windows; w; w = w->next)
		if (w->bound && w->rkey == rkey && w->access == access &&
		    inside(w->base, w->len, offset, len))
			return w->addr + (offset - w->base);
	for (struct region *r = f->regions; r; r = r->next)
		if (r->rkey && r->rkey == rkey && (r->remote & access) &&
		    inside(r->base, r->len, offset, len))
			return r->addr + (offset - r->base);
	return NULL;
}

/* Invalidates by key; false: there was no such window. */
static bool unbind(struct fake_ep *f, uint32_t rkey)
{
	for (struct window *w = f->windows; w; w = w->next) {
		if (!w->bound || w->rkey != rkey)
			continue;
		w->bound = false;
		return true;
	}
	return false;
}

/* Carrying out. Each returns NULL, or what rule was broken. */

static uint32_t work_len(const struct work *w)
{
	uint32_t len = 0;
	for (unsigned int i = 0; i < w->nsge; i++)
		len += w->sge[i].len_bytes;
	return len;
}

static void gather(const struct work *w, char *to)
{
	for (unsigned int i = 0; i < w->nsge; i++) {
		memcpy(to, w->raw ? w->raw : w->sge[i].addr, w->sge[i].len_bytes);
		to += w->sge[i].len_bytes;
	}
}

static const char *do_send(struct fake_ep *f, struct work *w)
{
	struct fake_ep *peer = f->peer;
	uint32_t len = work_len(w);

	if (!peer->posted)
		return "a Send found no receive posted";
	if (len > peer->posted->sge.len_bytes)
		return "a Send was longer than the receive posted for it";
	if (w->kind == FAKE_SEND_INVALIDATE && !unbind(peer, w->rkey))
		return "a Send with Invalidate named a key that is not valid";
	struct posted *p = take_posted(peer);
	gather(w, p->sge.addr);
	struct completion *c = complete(peer, RDMA_WC_RECV, 0, p->ctx);
	c->wc.len_bytes = len;
	c->wc.invalidated = w->kind == FAKE_SEND_INVALIDATE;
	c->wc.invalidated_rkey = c->wc.invalidated ? w->rkey : 0;
	c->raw = p->raw;
	c->raw_size = p->sge.len_bytes;
	free(p);
	return NULL;
}

static const char *do_write(struct fake_ep *f, struct work *w)
{
	uint32_t len = work_len(w);
	char *to = resolve(f->peer, FMR_REMOTE_WRITE, w->rkey, w->offset, len);

	if (!len)
		return NULL;
	if (!to)
		return "an RDMA Write was not permitted";
	gather(w, to);
	f->counts.bytes_written += len;
	return NULL;
}

static const char *do_read(struct fake_ep *f, struct work *w)
{
	uint32_t len = work_len(w);
	const char *from = resolve(f->peer, FMR_REMOTE_READ, w->rkey, w->offset, len);

	if (!len)
		return NULL;
	if (!from)
		return "an RDMA Read was not permitted";
	memcpy(w->sge[0].addr, from, len);
	f->counts.bytes_read += len;
	return NULL;
}

static const char *do_bind(struct fake_ep *f, struct work *w)
{
	if (w->window->bound)
		return "a window was bound that is still bound";
	struct window *next = w->window->next;
	*w->window = w->bind;
	w->window->next = next;
	return NULL;
}

static const char *do_invalidate(struct fake_ep *f, struct work *w)
{
	if (unbind(f, w->rkey))
		return NULL;
	f->counts.double_invalidates++;
	return "a window was invalidated that was not valid";
}

static const char *carry_out(struct fake_ep *f, struct work *w)
{
	static const char *(*const steps[FAKE_KINDS])(struct fake_ep *, struct work *) = {
		[FAKE_SEND] = do_send,	 [FAKE_SEND_INVALIDATE] = do_send,
		[FAKE_WRITE] = do_write, [FAKE_READ] = do_read,
		[FAKE_BIND] = do_bind,	 [FAKE_INVALIDATE] = do_invalidate};
	return steps[w->kind](f, w);
}

static bool counts_down(unsigned int *n)
{
	return *n && --*n == 0;
}

static void run(struct fake_ep *f)
{
	while (f->up && !f->paused && f->work && f->work->rung) {
		struct work *w = f->work;
		if (w->kind == f->fail_kind && counts_down(&f->fail_completion)) {
			complete(f, wc_kind(w->kind), f->fail_completion_status, w->ctx);
			w->ctx = NULL; /* has been told */
			retire(f, 0);
			end_both(f, f->fail_completion_status, -ECONNRESET, "a request failed");
			return;
		}
		const char *broken = carry_out(f, w);
		if (broken) {
			end_both(f, -EREMOTEIO, -EPROTO, broken);
			return;
		}
		retire(f, 0);
	}
}

/* struct rdma_ep_ops */

static int queue(struct fake_ep *f, const struct work *work)
{
	if (f->ep.state != RDMA_EP_ESTABLISHED)
		return -ENOTCONN;
	if (!work->raw && counts_down(&f->fail_post))
		return f->fail_post_err;
	if (!work->raw && f->slots_used == f->ep.limits.max_send)
		return misuse(f, -ENOBUFS);
	if (work->nsge > f->ep.limits.max_sge)
		return misuse(f, -EINVAL);
	for (unsigned int i = 0; i < work->nsge && !work->raw; i++)
		if (work->sge[i].len_bytes && !registered(f, &work->sge[i]))
			return misuse(f, -EINVAL);
	struct work *w = make(sizeof *w);
	*w = *work;
	*f->work_end = w;
	f->work_end = &w->next;
	if (w->raw)
		return 0;
	f->counts.posts[w->kind]++;
	if (++f->slots_used > f->counts.max_queued)
		f->counts.max_queued = f->slots_used;
	return 0;
}

static int fake_queue_send(struct rdma_ep *ep, const struct rdma_sge *sge, unsigned int nsge,
			   uint32_t invalidate_rkey, void *ctx)
{
	struct work w = {.kind = invalidate_rkey ? FAKE_SEND_INVALIDATE : FAKE_SEND,
			 .nsge = nsge,
			 .rkey = invalidate_rkey,
			 .ctx = ctx};
	if (nsge > RDMA_SGE_MAX)
		return misuse(fake_of(ep), -EINVAL);
	memcpy(w.sge, sge, nsge * sizeof *sge);
	return queue(fake_of(ep), &w);
}

static int fake_queue_write(struct rdma_ep *ep, const struct rdma_sge *sge, unsigned int nsge, uint32_t rkey,
			    uint64_t offset, void *ctx)
{
	struct work w = {.kind = FAKE_WRITE, .nsge = nsge, .rkey = rkey, .offset = offset, .ctx = ctx};
	if (nsge > RDMA_SGE_MAX)
		return misuse(fake_of(ep), -EINVAL);
	if (nsge) /* a zero-length Write has no sge at all */
		memcpy(w.sge, sge, nsge * sizeof *sge);
	return queue(fake_of(ep), &w);
}

static int fake_queue_read(struct rdma_ep *ep, const struct rdma_sge *sge, uint32_t rkey, uint64_t offset,
			   void *ctx)
{
	struct work w = {
		.kind = FAKE_READ, .nsge = 1, .rkey = rkey, .offset = offset, .ctx = ctx, .sge = {*sge}};
	if (!ctx)
		return misuse(fake_of(ep), -EINVAL);
	return queue(fake_of(ep), &w);
}

static int fake_queue_recv(struct rdma_ep *ep, const struct rdma_sge *sge, void *ctx)
{
	struct fake_ep *f = fake_of(ep);

	if (ep->state == RDMA_EP_CLOSED)
		return -ENOTCONN;
	if (f->nposted == ep->limits.max_recv)
		return misuse(f, -ENOBUFS);
	if (!registered(f, sge))
		return misuse(f, -EINVAL);
	struct posted *p = make(sizeof *p);
	p->sge = *sge;
	p->ctx = ctx;
	*f->posted_end = p;
	f->posted_end = &p->next;
	f->nposted++;
	f->counts.recvs++;
	return 0;
}

static int fake_doorbell(struct rdma_ep *ep)
{
	struct fake_ep *f = fake_of(ep);
	bool any = false;

	if (ep->state != RDMA_EP_ESTABLISHED)
		return -ENOTCONN;
	for (struct work *w = f->work; w; w = w->next) {
		any |= !w->rung;
		w->rung = true;
	}
	if (!any)
		return 0;
	f->counts.doorbells++;
	if (counts_down(&f->fail_doorbell)) {
		end_both(f, f->fail_doorbell_err, -ECONNRESET, "the doorbell failed");
		become_closed(f);
		return f->fail_doorbell_err;
	}
	run(f);
	return 0;
}

static bool held(const struct fake_ep *f, const struct completion *c)
{
	return !c->flushed && (f->hold & 1u << c->wc.kind);
}

static void maybe_idle(struct fake_ep *f)
{
	if (!f->disconnected || f->done)
		return;
	f->disconnected = false;
	f->ep.state = RDMA_EP_IDLE;
	f->slots_used = f->unsignalled = 0;
}

static struct completion *unlink_completion(struct fake_ep *f, struct completion **at)
{
	struct completion *c = *at;
	*at = c->next;
	if (!*at)
		f->done_end = at;
	f->slots_used -= c->slots;
	return c;
}

static int fake_poll(struct rdma_ep *ep, struct rdma_wc *wc, int n)
{
	struct fake_ep *f = fake_of(ep);
	struct completion **at = &f->done;
	int got = 0;

	while (got < n && *at) {
		if (held(f, *at) || (*at)->raw) {
			at = &(*at)->next;
			continue;
		}
		struct completion *c = unlink_completion(f, at);
		wc[got++] = c->wc;
		free(c);
	}
	maybe_idle(f);
	return got;
}

static bool fake_progress(struct rdma_ep *ep, uint64_t now_ns)
{
	struct fake_ep *f = fake_of(ep);

	clear_fd(f->event_fd);
	if (f->ending)
		become_closed(f);
	else if (f->accepted)
		ep->state = RDMA_EP_ESTABLISHED;
	else if (f->passive && ep->state == RDMA_EP_CONNECTING)
		ep->state = RDMA_EP_REQUESTED;
	f->accepted = false;
	return false;
}

/* Setting up. */

static uint16_t port_of(const struct sockaddr *addr, socklen_t len)
{
	if (addr->sa_family == AF_INET && len >= sizeof(struct sockaddr_in))
		return ntohs(((const struct sockaddr_in *)addr)->sin_port);
	if (addr->sa_family == AF_INET6 && len >= sizeof(struct sockaddr_in6))
		return ntohs(((const struct sockaddr_in6 *)addr)->sin6_port);
	return 0;
}

static struct rdma_listener *find_listener(uint16_t port)
{
	for (struct rdma_listener *l = listeners; l; l = l->next)
		if (l->port == port)
			return l;
	return NULL;
}

static void stop_waiting(struct fake_ep *f)
{
	if (!f->listener)
		return;
	for (struct fake_ep **at = &f->listener->pending; *at; at = &(*at)->next_pending) {
		if (*at != f)
			continue;
		*at = f->next_pending;
		break;
	}
	f->listener = NULL;
}

static int fake_connect(struct rdma_ep *ep, const struct sockaddr *addr, socklen_t addr_len, const void *priv,
			uint32_t priv_len)
{
	struct fake_ep *f = fake_of(ep);

	if (ep->state != RDMA_EP_IDLE || priv_len > RDMA_PRIVATE_MAX)
		return misuse(f, -EINVAL);
	ep->state = RDMA_EP_CONNECTING;
	ep->error = 0;
	ep->why[0] = '\0';
	ep->peer_private_len = 0;
	if (priv_len)
		memcpy(f->private, priv, priv_len);
	f->private_len = priv_len;
	struct rdma_listener *l = find_listener(port_of(addr, addr_len));
	if (!l) {
		end_side(f, -ECONNREFUSED, "nobody listens there");
		return 0;
	}
	struct fake_ep **at = &l->pending;
	while (*at)
		at = &(*at)->next_pending;
	*at = f;
	f->next_pending = NULL;
	f->listener = l;
	signal_fd(l->event_fd);
	return 0;
}

static void fake_disconnect(struct rdma_ep *ep)
{
	struct fake_ep *f = fake_of(ep);

	if (ep->state == RDMA_EP_IDLE)
		return;
	stop_waiting(f);
	if (f->peer)
		end_side(f->peer, -ECONNRESET, "the peer closed the connection");
	if (ep->state != RDMA_EP_CLOSED) {
		end_side(f, 0, "");
		become_closed(f);
	}
	f->disconnected = true;
	maybe_idle(f);
}

static int fake_accept(struct rdma_ep *ep, const void *priv, uint32_t priv_len)
{
	struct fake_ep *f = fake_of(ep);

	if (ep->state != RDMA_EP_REQUESTED || priv_len > RDMA_PRIVATE_MAX)
		return misuse(f, -EINVAL);
	if (f->ending)
		return -ECONNRESET;
	struct fake_ep *client = f->peer;
	if (priv_len)
		memcpy(client->ep.peer_private, priv, priv_len);
	client->ep.peer_private_len = priv_len;
	client->accepted = client->up = true;
	signal_fd(client->event_fd);
	f->up = true;
	ep->state = RDMA_EP_ESTABLISHED;
	return 0;
}

static int fake_reject(struct rdma_ep *ep)
{
	struct fake_ep *f = fake_of(ep);

	if (ep->state != RDMA_EP_REQUESTED)
		return misuse(f, -EINVAL);
	end_both(f, -ECONNABORTED, -EACCES, "the connection was rejected");
	become_closed(f);
	return 0;
}

static void fake_close(struct rdma_ep *ep)
{
	struct fake_ep *f = fake_of(ep);

	fake_disconnect(ep);
	while (f->done) {
		struct completion *c = unlink_completion(f, &f->done);
		free(c->raw);
		free(c);
	}
	flush(f);
	while (f->done)
		free(unlink_completion(f, &f->done));
	while (f->windows) {
		struct window *w = f->windows;
		f->windows = w->next;
		living--;
		free(w);
	}
	while (f->regions) {
		struct region *r = f->regions;
		f->regions = r->next;
		living--;
		free(r);
	}
	close(f->event_fd);
	living--;
	free(f);
}

/* struct fmr_ops */

static int fake_region_register(void *dev, struct fmr_region *region, unsigned int remote)
{
	struct fake_ep *f = dev;
	struct region *r = make(sizeof *r);

	*r = (struct region){.next = f->regions,
			     .addr = region->addr,
			     .len = region->len_bytes,
			     .lkey = new_key(),
			     .remote = remote};
	if (remote) {
		r->rkey = new_key();
		r->base = (uint64_t)r->rkey << 24;
	}
	f->regions = r;
	region->lkey = r->lkey;
	region->rkey = r->rkey;
	region->remote_base = r->base;
	region->handle = r;
	f->counts.registrations++;
	living++;
	return 0;
}

static void fake_region_deregister(void *dev, struct fmr_region *region)
{
	struct fake_ep *f = dev;

	for (struct region **at = &f->regions; *at; at = &(*at)->next) {
		if (*at != region->handle)
			continue;
		*at = (*at)->next;
		free(region->handle);
		f->counts.deregistrations++;
		living--;
		return;
	}
	misuse(f, 0);
}

static struct window *add_window(struct fake_ep *f)
{
	struct window *w = make(sizeof *w);
	w->next = f->windows;
	f->windows = w;
	living++;
	return w;
}

static void remove_window(struct fake_ep *f, struct window *w)
{
	for (struct window **at = &f->windows; *at; at = &(*at)->next) {
		if (*at != w)
			continue;
		*at = w->next;
		free(w);
		living--;
		return;
	}
	misuse(f, 0);
}

static int fake_window_alloc(void *dev, void **window)
{
	struct fake_ep *f = dev;

	if (f->ep.state != RDMA_EP_ESTABLISHED)
		return misuse(f, -ENOTCONN);
	*window = add_window(f);
	f->counts.windows++;
	return 0;
}

static void fake_window_free(void *dev, void *window)
{
	remove_window(dev, window);
}

static int fake_queue_bind(void *dev, struct fmr *fmr)
{
	struct fake_ep *f = dev;
	struct rdma_sge sge = {fmr->addr, fmr->len_bytes, fmr->region->lkey};

	if (!fmr->window || !fmr->len_bytes || !registered(f, &sge))
		return misuse(f, -EINVAL);
	struct work w = {.kind = FAKE_BIND, .window = fmr->window, .ctx = fmr};
	w.bind = (struct window){.bound = true,
				 .addr = fmr->addr,
				 .len = fmr->len_bytes,
				 .rkey = new_key(),
				 .access = fmr->access};
	w.bind.base = (uint64_t)w.bind.rkey << 24;
	int err = queue(f, &w);
	if (err)
		return err;
	fmr->rkey = w.bind.rkey;
	fmr->remote_offset = w.bind.base;
	return 0;
}

static int fake_queue_invalidate(void *dev, struct fmr *fmr)
{
	struct work w = {.kind = FAKE_INVALIDATE, .rkey = fmr->rkey, .ctx = fmr};

	return queue(dev, &w);
}

static const struct rdma_ep_ops ops = {
	.name = "fake",
	.accept = fake_accept,
	.close = fake_close,
	.connect = fake_connect,
	.disconnect = fake_disconnect,
	.doorbell = fake_doorbell,
	.poll = fake_poll,
	.progress = fake_progress,
	.queue_read = fake_queue_read,
	.queue_recv = fake_queue_recv,
	.queue_send = fake_queue_send,
	.queue_write = fake_queue_write,
	.reject = fake_reject,
	.fmr = {.region_register = fake_region_register,
		.region_deregister = fake_region_deregister,
		.window_alloc = fake_window_alloc,
		.window_free = fake_window_free,
		.queue_bind = fake_queue_bind,
		.queue_invalidate = fake_queue_invalidate},
};

/* struct rdma_device */

static uint32_t wanted_or(uint32_t wanted, uint32_t limit)
{
	return wanted && wanted < limit ? wanted : limit;
}

static struct fake_ep *new_ep(const struct rdma_ep_params *params)
{
	struct fake_ep *f = make(sizeof *f);

	f->ep = (struct rdma_ep){.ops = &ops, .state = RDMA_EP_IDLE, .limits = fake_limits};
	f->ep.limits.max_recv = wanted_or(params->max_recv, fake_limits.max_recv);
	f->ep.limits.max_send = wanted_or(params->max_send, fake_limits.max_send);
	f->work_end = &f->work;
	f->posted_end = &f->posted;
	f->done_end = &f->done;
	f->event_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	if (f->event_fd < 0)
		abort();
	f->epoll_fd = params->epoll_fd;
	struct epoll_event ev = {.events = EPOLLIN | EPOLLET, .data.ptr = params->epoll_data};
	if (f->epoll_fd >= 0 && epoll_ctl(f->epoll_fd, EPOLL_CTL_ADD, f->event_fd, &ev))
		abort();
	living++;
	return f;
}

static int fake_open(const struct rdma_ep_params *params, struct rdma_ep **ep)
{
	*ep = &new_ep(params)->ep;
	return 0;
}

static int fake_listen(const struct sockaddr *addr, socklen_t addr_len, struct rdma_listener **listener)
{
	uint16_t port = port_of(addr, addr_len);

	if (port && find_listener(port))
		return -EADDRINUSE;
	for (uint16_t p = 1; !port; p++)
		port = find_listener(p) ? 0 : p;
	struct rdma_listener *l = make(sizeof *l);
	l->port = port;
	l->event_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	if (l->event_fd < 0)
		abort();
	l->next = listeners;
	listeners = l;
	living++;
	*listener = l;
	return 0;
}

static int fake_listener_fd(const struct rdma_listener *l)
{
	return l->event_fd;
}

static uint16_t fake_listener_port(const struct rdma_listener *l)
{
	return l->port;
}

static int fake_listener_accept(struct rdma_listener *l, const struct rdma_ep_params *params,
				struct sockaddr_storage *peer, struct rdma_ep **ep)
{
	struct fake_ep *client = l->pending;

	clear_fd(l->event_fd);
	if (!client)
		return -EAGAIN;
	stop_waiting(client);
	if (l->pending)
		signal_fd(l->event_fd);
	struct fake_ep *f = new_ep(params);
	f->passive = true;
	f->ep.state = RDMA_EP_CONNECTING;
	memcpy(f->ep.peer_private, client->private, client->private_len);
	f->ep.peer_private_len = client->private_len;
	f->peer = client;
	client->peer = f;
	signal_fd(f->event_fd);
	if (peer)
		memcpy(peer,
		       &(struct sockaddr_in){.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}},
		       sizeof(struct sockaddr_in));
	*ep = &f->ep;
	return 0;
}

static void fake_listener_close(struct rdma_listener *l)
{
	while (l->pending) {
		struct fake_ep *client = l->pending;
		stop_waiting(client);
		end_side(client, -ECONNREFUSED, "nobody listens there any more");
	}
	for (struct rdma_listener **at = &listeners; *at; at = &(*at)->next) {
		if (*at != l)
			continue;
		*at = l->next;
		break;
	}
	close(l->event_fd);
	living--;
	free(l);
}

const struct rdma_device fake_device = {
	.name = "fake",
	.open = fake_open,
	.listen = fake_listen,
	.listener_fd = fake_listener_fd,
	.listener_port = fake_listener_port,
	.listener_accept = fake_listener_accept,
	.listener_close = fake_listener_close,
};

/* What tests do to it. */

const struct fake_counts *fake_counts(const struct rdma_ep *ep)
{
	return &fake_of(ep)->counts;
}

unsigned int fake_posted_recvs(const struct rdma_ep *ep)
{
	return fake_of(ep)->nposted;
}

unsigned int fake_bound_windows(const struct rdma_ep *ep)
{
	unsigned int n = 0;
	for (const struct window *w = fake_of(ep)->windows; w; w = w->next)
		n += w->bound;
	return n;
}

void fake_hold(struct rdma_ep *ep, unsigned int kinds)
{
	fake_of(ep)->hold = kinds;
	signal_fd(fake_of(ep)->event_fd);
}

void fake_pause(struct rdma_ep *ep, bool paused)
{
	fake_of(ep)->paused = paused;
	run(fake_of(ep));
}

void fake_fail_post(struct rdma_ep *ep, unsigned int n, int err)
{
	fake_of(ep)->fail_post = n;
	fake_of(ep)->fail_post_err = err;
}

void fake_fail_doorbell(struct rdma_ep *ep, unsigned int n, int err)
{
	fake_of(ep)->fail_doorbell = n;
	fake_of(ep)->fail_doorbell_err = err;
}

void fake_fail_completion(struct rdma_ep *ep, enum fake_kind kind, unsigned int n, int status)
{
	struct fake_ep *f = fake_of(ep);
	f->fail_kind = kind;
	f->fail_completion = n;
	f->fail_completion_status = status;
}

void fake_drop(struct rdma_ep *ep, int error, const char *why)
{
	end_both(fake_of(ep), error, error, why);
}

struct rdma_ep *fake_peer(const struct rdma_ep *ep)
{
	struct fake_ep *peer = fake_of(ep)->peer;
	return peer ? &peer->ep : NULL;
}

int fake_touch(struct rdma_ep *ep, enum fmr_access access, uint32_t rkey, uint64_t offset, void *buf,
	       uint32_t len)
{
	struct fake_ep *f = fake_of(ep);
	char *at = f->up ? resolve(f, access, rkey, offset, len) : NULL;

	if (!at)
		return -EACCES;
	if (access == FMR_REMOTE_READ)
		memcpy(buf, at, len);
	else
		memcpy(at, buf, len);
	return 0;
}

int fake_send_raw(struct rdma_ep *ep, const void *bytes, uint32_t len_bytes, uint32_t invalidate_rkey)
{
	struct work w = {.kind = invalidate_rkey ? FAKE_SEND_INVALIDATE : FAKE_SEND,
			 .rung = true,
			 .nsge = 1,
			 .rkey = invalidate_rkey,
			 .sge = {{.len_bytes = len_bytes}}};

	if (ep->state != RDMA_EP_ESTABLISHED)
		return -ENOTCONN;
	w.raw = make(len_bytes + 1u);
	memcpy(w.raw, bytes, len_bytes);
	int err = queue(fake_of(ep), &w);
	if (err)
		free(w.raw);
	run(fake_of(ep));
	return err;
}

int fake_post_raw(struct rdma_ep *ep, unsigned int n, uint32_t size_bytes)
{
	struct fake_ep *f = fake_of(ep);

	while (n--) {
		struct posted *p = make(sizeof *p);
		p->raw = make(size_bytes + 1u);
		p->sge = (struct rdma_sge){.addr = p->raw, .len_bytes = size_bytes};
		*f->posted_end = p;
		f->posted_end = &p->next;
		f->nposted++;
	}
	return 0;
}

int fake_recv_raw(struct rdma_ep *ep, void *buf, uint32_t size_bytes, uint32_t *invalidated)
{
	struct fake_ep *f = fake_of(ep);

	for (struct completion **at = &f->done; *at; at = &(*at)->next) {
		if (!(*at)->raw)
			continue;
		struct completion *c = unlink_completion(f, at);
		uint32_t len = c->wc.len_bytes;
		if (len > size_bytes)
			abort();
		memcpy(buf, c->raw, len);
		*invalidated = c->wc.invalidated_rkey;
		fake_post_raw(ep, ep->state == RDMA_EP_CLOSED ? 0 : 1, c->raw_size);
		free(c->raw);
		free(c);
		return (int)len;
	}
	return -EAGAIN;
}

uint32_t fake_expose(struct rdma_ep *ep, void *addr, uint32_t len_bytes, enum fmr_access access,
		     uint64_t *offset)
{
	struct window *w = add_window(fake_of(ep));

	w->bound = w->exposed = true;
	w->addr = addr;
	w->len = len_bytes;
	w->access = access;
	w->rkey = new_key();
	*offset = w->base = (uint64_t)w->rkey << 24;
	return w->rkey;
}

bool fake_unexpose(struct rdma_ep *ep, uint32_t rkey)
{
	for (struct window *w = fake_of(ep)->windows; w; w = w->next) {
		if (!w->exposed || w->rkey != rkey)
			continue;
		bool bound = w->bound;
		remove_window(fake_of(ep), w);
		return bound;
	}
	return false;
}
