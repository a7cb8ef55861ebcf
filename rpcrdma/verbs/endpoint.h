/* SPDX-License-Identifier: MIT
 *
 * The inside of a verbs endpoint, and what its parts ask of each other:
 *
 *	verbs.c      operations of the device interface, requests, completions
 *	cm.c         connection set-up and end: rdma_cm and its events
 *	adapter.c    the adapter that a connection goes through: its protection domain and completion
 *	             queue, registrations, windows
 *	removal.c    an adapter that is taken out of the machine: who in this process still has it
 *	news.c       what tells of connections, and of adapters that are taken out
 *	listener.c   the passive side's source of endpoints
 *	probe.c      which adapter it would be
 *	quirks.c     what adapters do differently, and how much they can take
 *
 * Which adapter an endpoint uses is known only when rdma_cm has resolved the peer's address. So regions that
 * are registered before are remembered, and registered then; when a later connection goes through another
 * adapter (or the old one has gone), all are registered anew, and their keys change. Protection domain,
 * completion queue and registrations live on across connections through the same adapter.
 *
 * ORDER at the end of a connection: queue pair to ERROR, what was flushed is collected (nothing of the peer's
 * is placed any more), windows are freed, then the queue pair is destroyed: a bound window holds on to its
 * queue pair.
 */
#ifndef VERBS_ENDPOINT_H
#define VERBS_ENDPOINT_H

#include "quirks.h"
#include "verbs.h"

#include <rdma/rdma_cma.h>
#include <sys/queue.h>

struct endpoint;

/* A registered, or remembered, stretch of memory. */
struct region {
	struct fmr_region *pub;
	unsigned int remote; /* mask of enum fmr_access */
	struct ibv_mr *mr;   /* NULL: not yet */
	LIST_ENTRY(region) link;
};

struct window {
	struct ibv_mw *mw; /* NULL once its adapter has gone */
	uint32_t rkey;	   /* of the latest bind */
	bool bound;	   /* a bind was queued and no invalidation since */
	LIST_ENTRY(window) by_key;
};
LIST_HEAD(window_list, window);
#define WINDOW_BUCKETS 1024u /* a bind changes the low 8 bits of a key: the others find the window */

struct adapter {
	struct ibv_context *context; /* librdmacm's, in use as removal.c says; NULL: none yet */
	struct ibv_pd *pd;
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;
	struct ibv_device_attr attr;
	const struct quirks *quirks;
	bool iwarp;
	bool gone;  /* being removed from the machine: to be left as soon as nothing is bound to it */
	bool armed; /* a completion will be told by the channel */
	unsigned int unacked;
};

/* What tells of connections, and of adapters that are taken out: two sources below one descriptor. */
struct news {
	int fd; /* epoll, for the owner to watch; -1: not open */
	struct rdma_event_channel *cm;
	int uevents; /* the kernel's, of all devices; -1: they cannot be had */
};
#define NEWS_NONE ((struct news){.fd = -1, .uevents = -1})

enum verbs_news {
	NEWS_CM = 1,	 /* the channel has an event */
	NEWS_UEVENT = 2, /* a device came or went */
	NEWS_TIMER = 4,	 /* the listener's */
};

/* A request of the send queue. */
struct sent {
	enum rdma_wc_kind kind;
	bool signalled;
	bool silent; /* signalled for our own sake: nobody is told */
	bool posted;
	void *ctx;
	struct window *window; /* bind: whose key is stored once it is posted */
	struct ibv_send_wr wr;
	struct ibv_sge sge[RDMA_SGE_MAX];
	TAILQ_ENTRY(sent) link;
};
TAILQ_HEAD(sent_list, sent);

struct sends {
	struct sent *slots;
	uint32_t nslots;
	struct sent_list free;
	struct sent_list queued; /* wait for the doorbell; their work requests are a chain */
	struct sent_list posted; /* with the adapter, in order */
	uint32_t unsignalled;	 /* queued since the last that is signalled */
	uint32_t signalled;	 /* in posted */
	uint32_t used;		 /* queued or posted, or complete and not yet polled */
};

struct recv_req {
	struct ibv_sge sge;
	void *ctx;
};

/* [head, posted) are with the adapter, [posted, tail) wait for a queue pair. */
struct recvs {
	struct recv_req *ring;
	uint32_t mask, head, posted, tail;
	uint32_t used;
};

/* Collected at the end of a connection, not yet polled. */
struct completions {
	struct rdma_wc *ring;
	uint32_t mask, head, tail;
};

enum setup_step {
	SETUP_NONE,
	SETUP_ADDR,    /* rdma_resolve_addr() is under way */
	SETUP_ROUTE,   /* rdma_resolve_route() */
	SETUP_CONNECT, /* rdma_connect() */
	SETUP_REQUEST, /* passive: the request is to be shown */
	SETUP_ANSWER,  /* passive: accept() or reject() is due */
	SETUP_ACCEPT,  /* passive: accepted, the peer has to confirm */
};

struct endpoint {
	struct rdma_ep ep; /* first */
	int epoll_fd;
	void *epoll_data;
	uint32_t want_send, want_recv, want_depth;
	bool may_invalidate; /* no adapter of this machine stands against offering remote invalidation */

	struct news news;
	struct rdma_cm_id *id; /* from connect() until its queue pair can go; id->qp NULL: no queue pair */
	bool passive;
	bool disconnecting; /* IDLE once the last completion was polled */
	enum setup_step step;
	uint64_t deadline_ns; /* of the step; or until when an event is awaited that explains why requests
				 were flushed */
	uint32_t peer_reads_in, peer_reads_out; /* passive: what the request asks for */
	uint8_t priv[RDMA_PRIVATE_MAX];
	uint32_t priv_len;
	uint32_t generation; /* of the queue pair: completions of earlier ones are dropped */

	struct adapter adapter;
	LIST_HEAD(, region) regions;
	struct window_list *windows; /* WINDOW_BUCKETS of them */
	unsigned int nwindows;

	struct sends sends;
	struct recvs recvs;
	struct completions completions;
};

static inline struct endpoint *endpoint(struct rdma_ep *ep)
{
	return (struct endpoint *)ep;
}

/* ---- verbs.c ---- */

int verbs_ep_open(const struct rdma_ep_params *params, bool passive, struct endpoint **ep);
/* Gives waiting receives to the queue pair. */
int verbs_ep_post_recvs(struct endpoint *ep);
/* Takes all that the queue pair, now in ERROR, had. flushes: the adapter still gives it back. */
void verbs_ep_collect_flushed(struct endpoint *ep, bool flushes);
void verbs_ep_update_timeout(struct endpoint *ep);

/* ---- cm.c ---- */

int verbs_cm_watch(struct endpoint *ep); /* opens the news */
int verbs_cm_connect(struct endpoint *ep, const struct sockaddr *addr, const void *priv, uint32_t priv_len);
int verbs_cm_accept(struct endpoint *ep, const void *priv, uint32_t priv_len);
int verbs_cm_reject(struct endpoint *ep);
void verbs_cm_run(struct endpoint *ep, uint64_t now_ns);
/* The connection is over: state CLOSED, everything flushed. Nothing happens when it was over before. */
void verbs_ep_end(struct endpoint *ep, int error, const char *why, ...) __attribute__((format(printf, 3, 4)));
/* Destroys queue pair and id, if nothing holds on to them any more. */
void verbs_cm_release(struct endpoint *ep);

/* ---- adapter.c ---- */

/* Makes the endpoint one of context's adapter, unless it is already. On failure ep.why says what. */
int verbs_adapter_use(struct endpoint *ep, struct ibv_context *context);
void verbs_adapter_leave(struct endpoint *ep);
int verbs_adapter_make_qp(struct endpoint *ep);
/* Makes the channel tell of the next completion; true when it had told of one. Poll afterwards. */
bool verbs_adapter_rearm(struct endpoint *ep);
struct window *verbs_window_find(struct endpoint *ep, uint32_t rkey);
int verbs_region_register(void *dev, struct fmr_region *region, unsigned int remote);
void verbs_region_deregister(void *dev, struct fmr_region *region);
int verbs_window_alloc(void *dev, void **window);
void verbs_window_free(void *dev, void *window);

/* ---- removal.c: any thread may call these ---- */

/* One more who has objects of the context, which some id is bound to. -ENODEV: it is being removed. */
int verbs_context_use(struct ibv_context *context);
/* One less, who has destroyed all of them; before his id goes. The last to leave a context that is being
 * removed closes it. */
void verbs_context_leave(struct ibv_context *context);
/* Takes an id that is bound to a context and has no connection any more, so that librdmacm goes on to have it
 * open. False: it was not taken, and when it is destroyed the context may go. */
bool verbs_context_keep(struct rdma_cm_id *id);
/* rdma_cm says that it is being removed. */
void verbs_context_removed(struct ibv_context *context);
bool verbs_context_is_removed(const struct ibv_context *context);
/* Looks which of the contexts in use, or kept, are of adapters that are being removed. */
void verbs_contexts_look(void);

/* ---- news.c ---- */

/* On failure, too, to be closed. -ENODEV: no rdma_cm. */
int verbs_news_open(struct news *news);
void verbs_news_close(struct news *news);
/* Mask of what is new. After NEWS_CM, events are to be taken until there is none; after any, a context may be
 * known to be removed that was not before. */
unsigned int verbs_news_take(struct news *news);

/* ---- listener.c ---- */

int verbs_listener_listen(const struct sockaddr *addr, socklen_t addr_len, struct rdma_listener **listener);
int verbs_listener_fd(const struct rdma_listener *listener);
uint16_t verbs_listener_port(const struct rdma_listener *listener);
int verbs_listener_accept(struct rdma_listener *listener, const struct rdma_ep_params *params,
			  struct sockaddr_storage *peer, struct rdma_ep **ep);
void verbs_listener_close(struct rdma_listener *listener);

/* ---- probe.c ---- */

/* Whether the kernel has rdma_cm for user space. Where it has not, librdmacm would say so on
 * standard error. */
bool verbs_present(void);

int verbs_probe_peer(const struct sockaddr *addr, socklen_t addr_len, struct rdma_probe *probe);
/* Whether every adapter of this machine can be invalidated by its peers. */
bool verbs_probe_all_invalidate(void);

#endif
