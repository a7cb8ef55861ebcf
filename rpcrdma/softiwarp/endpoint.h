/* SPDX-License-Identifier: MIT
 *
 * The inside of a softiwarp endpoint, and what its parts ask of each other:
 *
 *   softiwarp.c  operations of the device interface, completions, the end of a connection
 *   setup.c      TCP connect, MPA request and reply, either side
 *   rx.c         from the socket: segments checked, placed, delivered
 *   tx.c         to the socket: messages cut into FPDUs, gathered, sent
 *   wake.c       a peer that sleeps on the first message
 *
 * Nothing allocates after open. Rings have a power of two of slots and free-running cursors: used = tail -
 * head.
 *
 * ORDER: a function that may end the connection (rx_run, tx_push, ep_violation, ep_end …) leaves ep.state at
 * RDMA_EP_CLOSED with everything flushed; callers look at the state before they go on.
 */
#ifndef SOFTIWARP_ENDPOINT_H
#define SOFTIWARP_ENDPOINT_H

#include "ddp.h"
#include "mpa.h"
#include "softiwarp.h"
#include "stag.h"

#include <sys/uio.h>

/* What one FPDU of ours carries: the page-friendly size below the limit of 65535 - 18. */
#define TX_SEGMENT_BYTES (60u * 1024u)
_Static_assert(TX_SEGMENT_BYTES + DDP_HEADER_MAX <= MPA_ULPDU_MAX, "an FPDU's length is 16 bits");
#define TX_FRAMES 64u			    /* FPDUs framed and not yet sent */
#define TX_IOVECS 512u			    /* per sendmsg; below IOV_MAX (1024) */
#define TX_FRAME_IOVECS (2u + RDMA_SGE_MAX) /* header, payload, trailer */
/* Payload framed before it is handed to the kernel: the CRC pass leaves it in the cache. */
#define TX_BATCH_BYTES (256u * 1024u)

/* Small messages are read many at once and copied out of here; what is read ahead of a large one is only its
 * trailer and the header that follows. */
#define RX_STAGE_BYTES (16u * 1024u)
#define RX_LOOKAHEAD_BYTES 28u
_Static_assert(RX_LOOKAHEAD_BYTES >= 3 + MPA_CRC_BYTES + MPA_LENGTH_BYTES + DDP_HEADER_MAX,
	       "pad, CRC, next header");
#define RX_BUDGET_BYTES (1u << 20) /* a fair share of one progress() */

#define RAW_HEADER_MAX (MPA_LENGTH_BYTES + DDP_HEADER_MAX)

struct endpoint;

/* ---- requests ---- */

enum tx_kind {
	TX_SEND,	  /* completes when the socket has taken it */
	TX_WRITE,	  /* the same */
	TX_READ_REQUEST,  /* the Read completes with its response */
	TX_READ_RESPONSE, /* nothing completes; the window is released */
};

/* One message on its way out. */
struct tx_msg {
	enum tx_kind kind;
	uint8_t opcode;
	uint8_t nsge;
	uint32_t stag;	 /* tagged: sink; Send: what to invalidate, or 0 */
	uint64_t offset; /* tagged */
	uint32_t msn;	 /* untagged */
	uint32_t len_bytes;
	void *ctx;
	struct stag_entry *source; /* Read Response: counted in source->readers; NULL when it is empty */
	struct iovec sge[RDMA_SGE_MAX];
	uint8_t read_request[RDMAP_READ_REQUEST_BYTES];
};

/* One FPDU, framed: the bytes around its payload. */
struct tx_frame {
	uint8_t header[RAW_HEADER_MAX];
	uint8_t trailer[3 + MPA_CRC_BYTES];
	bool ends_message;
	uint64_t start, end; /* positions in the outgoing stream: its first byte, and just behind it */
};

struct tx {
	struct tx_msg *msgs;
	uint32_t mask;
	uint32_t head;	    /* the oldest message whose last FPDU is not sent */
	uint32_t next;	    /* the message to frame next, */
	uint32_t next_done; /* of which so many bytes are framed */
	uint32_t tail;
	uint32_t msn[DDP_QUEUES]; /* next to use */
	struct tx_frame frames[TX_FRAMES];
	uint32_t frame_head, frame_tail;
	struct iovec iov[TX_IOVECS]; /* framed and not yet sent: [iov_head, iov_tail) */
	uint32_t iov_head, iov_tail;
	uint64_t framed, sent; /* positions in the outgoing stream */
};

/* A Read of ours. Its request is with the peer: [head, sent); queued: [sent, asked); waits for the peer's
 * read depth: [asked, tail). */
struct read_req {
	char *addr;
	uint32_t len_bytes;
	uint32_t rkey;
	uint64_t offset;
	uint32_t sink_stag;
	void *ctx;
};

struct reads {
	struct read_req *ring;
	uint32_t mask;
	uint32_t head, sent, asked, tail;
	uint32_t placed; /* bytes of the response to ring[head] that have arrived */
};

struct recv_req {
	char *addr;
	uint32_t len_bytes;
	void *ctx;
};

struct recvs {
	struct recv_req *ring;
	uint32_t mask;
	uint32_t head, tail;
};

struct completions {
	struct rdma_wc *ring;
	uint32_t mask;
	uint32_t head, tail;
};

/* ---- receiving ---- */

enum rx_step {
	RX_HEADER,  /* MPA length and DDP header are being collected */
	RX_PAYLOAD, /* header checked: payload goes to its place */
	RX_TRAILER, /* pad and CRC; then the segment is delivered */
	RX_STEPS,
};

/* An untagged queue: the message under way. */
struct rx_queue {
	uint32_t msn;	/* expected */
	uint32_t done;	/* bytes of it that have arrived: the expected message offset */
	bool under_way; /* its first segment was delivered, its last was not */
	uint8_t opcode; /* of its first segment */
	uint32_t stag;	/* the Invalidate STag of its first segment */
};

struct rx {
	enum rx_step step;
	bool heard;		     /* a whole valid FPDU has come: the passive side may send */
	uint8_t raw[RAW_HEADER_MAX]; /* as received */
	uint32_t raw_len;
	struct ddp_header header;
	uint32_t payload_len, payload_done;
	uint32_t trailer_len;
	uint32_t crc;
	char *place;		   /* of the first payload byte; NULL: discard */
	struct stag_entry *target; /* RDMA Write: through which entry, */
	uint32_t target_stag;	   /* and under which STag: once that changes, nothing more is placed */
	struct rx_queue queues[DDP_QUEUES];
	char read_request[RDMAP_READ_REQUEST_BYTES];
	char terminate[RDMAP_TERMINATE_MAX];
	uint8_t stage[RX_STAGE_BYTES]; /* received and not yet looked at: [stage_head, stage_tail) */
	uint32_t stage_head, stage_tail;
};

/* ---- set-up ---- */

enum setup_step {
	SETUP_NONE,
	SETUP_TCP,	  /* connect() is under way */
	SETUP_SENDING,	  /* our MPA frame */
	SETUP_RECEIVING,  /* the peer's */
	SETUP_ANSWER_DUE, /* passive: accept() or reject() */
};

struct setup {
	enum setup_step step;
	bool passive;
	bool refuse;	      /* the frame being sent is a rejection: then the connection ends */
	uint64_t deadline_ns; /* CLOCK_MONOTONIC; 0: none */
	uint8_t frame[MPA_FRAME_MAX];
	uint32_t frame_len, frame_done;
	struct mpa_frame peer; /* passive: the request; its private data was copied to ep.peer_private */
	uint8_t private_data[RDMA_PRIVATE_MAX]; /* active: what the request carries */
	uint32_t private_len;
};

/* See wake.c. */
struct wake {
	uint64_t wait_ns, due_ns; /* CLOCK_MONOTONIC; 0: not known yet */
};

struct endpoint {
	struct rdma_ep ep; /* first */
	int fd;		   /* -1: none */
	int epoll_fd;
	void *epoll_data;
	bool crc; /* of the connection */
	bool want_crc;
	bool input_due;				 /* accept(): what came before it gives no further event */
	bool disconnecting;			 /* IDLE once the last completion was polled */
	uint32_t max_send, max_recv, read_depth; /* as opened */
	uint32_t sends_used, recvs_used;	 /* queued, or complete and not yet polled */
	uint32_t answering; /* Read Responses queued or half sent: at most limits.read_depth_in */
	struct setup setup;
	struct wake wake;
	struct tx tx;
	struct rx rx;
	struct reads reads;
	struct recvs recvs;
	struct completions completions;
	struct stag_table stags;
	struct softiwarp_stats stats;
};

static inline struct endpoint *endpoint(struct rdma_ep *ep)
{
	return (struct endpoint *)ep;
}

/* ---- softiwarp.c ---- */

int ep_open(const struct rdma_ep_params *params, struct endpoint **ep);
/* Takes over a socket (connected or connecting), in state CONNECTING, counters and cursors fresh. On error
 * the socket is closed. */
int ep_attach_socket(struct endpoint *ep, int fd);
void ep_complete(struct endpoint *ep, enum rdma_wc_kind kind, int status, void *ctx);
void ep_complete_wc(struct endpoint *ep, const struct rdma_wc *wc);
/* The connection is over: socket closed, windows unbound, all requests flushed, state CLOSED. */
void ep_end(struct endpoint *ep, int error, const char *why, ...) __attribute__((format(printf, 3, 4)));
/* The same, after telling the peer by a Terminate. with_segment: the FPDU in rx is the offender. */
void ep_violation(struct endpoint *ep, uint32_t fault, bool with_segment);
/* A Read Response no longer reads from this entry. */
void ep_release(struct stag_entry *source, struct endpoint *ep);
void ep_update_timeout(struct endpoint *ep);

/* ---- setup.c ---- */

void setup_connect(struct endpoint *ep, const void *priv, uint32_t priv_len); /* at most RDMA_PRIVATE_MAX */
void setup_listen(struct endpoint *ep); /* passive: wait for the request */
int setup_accept(struct endpoint *ep, const void *priv, uint32_t priv_len);
int setup_reject(struct endpoint *ep);
void setup_run(struct endpoint *ep, uint64_t now_ns);

/* ---- rx.c ---- */

/* Takes in up to RX_BUDGET_BYTES; true when there may be more to read at once. */
bool rx_run(struct endpoint *ep);

/* ---- tx.c ---- */

static inline struct tx_msg *tx_slot(struct endpoint *ep)
{
	return &ep->tx.msgs[ep->tx.tail & ep->tx.mask];
}
/* Frames and sends what is queued as far as the socket takes it. */
void tx_push(struct endpoint *ep);
/* Reads that the peer's read depth allows become Read Requests. */
void tx_ask_reads(struct endpoint *ep);
/* Our last words: what is left of a half-sent FPDU, then a Terminate. Tries once. */
void tx_terminate(struct endpoint *ep, const struct rdmap_terminate *terminate);

/* ---- wake.c ---- */

void wake_reset(struct endpoint *ep); /* of a new connection */
void wake_run(struct endpoint *ep, uint64_t now_ns);
uint64_t wake_timeout_ns(const struct endpoint *ep); /* when to run it; 0: no need */

#endif
