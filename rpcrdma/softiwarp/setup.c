/* SPDX-License-Identifier: MIT
 *
 * Connection set-up: TCP, then one MPA frame each way (RFC 5044 §7.1, RFC 6581). The active side sends its
 * Request and nothing behind it until the Reply is here: siw reads past a frame's end and fails if it finds
 * anything (seen, Linux 6.1 and 6.12). No more is read than the frame is long, so what follows it is left for
 * rx.c.
 *
 * Whoever answers with something else than MPA gets found out at the first byte that differs, and named: that
 * is the usual mistake (an ssh, HTTP or NFS/TCP port).
 */
#include "endpoint.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#define NS_PER_S 1000000000ull
#define TCP_TIMEOUT_NS (10 * NS_PER_S)
#define REPLY_TIMEOUT_NS (5 * NS_PER_S) /* siw waits as long, and 10 s for a Request */
#define REQUEST_TIMEOUT_NS (10 * NS_PER_S)

#define NOT_IWARP "answered, but not with MPA: not an iWARP server?"

static uint64_t now_monotonic(void)
{
	struct timespec ts;
	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * NS_PER_S + (uint64_t)ts.tv_nsec;
}

static uint32_t min_u32(uint32_t a, uint32_t b)
{
	return a < b ? a : b;
}

static void send_frame(struct endpoint *ep, const struct mpa_frame *frame)
{
	ep->setup.frame_len = mpa_encode(ep->setup.frame, frame);
	ep->setup.frame_done = 0;
	ep->setup.step = SETUP_SENDING;
}

static void receive_frame(struct endpoint *ep, uint64_t deadline_ns)
{
	ep->setup.frame_len = MPA_HEADER_BYTES; /* then as long as that says */
	ep->setup.frame_done = 0;
	ep->setup.deadline_ns = deadline_ns;
	ep->setup.step = SETUP_RECEIVING;
}

static void established(struct endpoint *ep)
{
	ep->setup.step = SETUP_NONE;
	ep->setup.deadline_ns = 0;
	ep->ep.state = RDMA_EP_ESTABLISHED;
}

void setup_connect(struct endpoint *ep, const void *priv, uint32_t priv_len)
{
	struct setup *s = &ep->setup;
	*s = (struct setup){.step = SETUP_TCP, .deadline_ns = now_monotonic() + TCP_TIMEOUT_NS};
	if (priv_len)
		memcpy(s->private_data, priv, priv_len);
	s->private_len = priv_len;
}

void setup_listen(struct endpoint *ep)
{
	ep->setup = (struct setup){.passive = true};
	receive_frame(ep, now_monotonic() + REQUEST_TIMEOUT_NS);
}

/* ---- passive side ---- */

/* Rejects the request in its own revision, with the reason as private data, and ends when that is sent. */
static void refuse(struct endpoint *ep, const struct mpa_frame *request, const char *reason)
{
	struct mpa_frame reply = {
		.reply = true,
		.rejected = true,
		.crc = ep->want_crc,
		.enhanced = request->enhanced,
		.revision = request->revision < MPA_REVISION ? request->revision : MPA_REVISION,
		.private_data = (const uint8_t *)reason,
		.private_len = (uint32_t)strlen(reason),
	};
	ep->setup.refuse = true;
	ep->setup.deadline_ns = now_monotonic() + REPLY_TIMEOUT_NS;
	ep->ep.state = RDMA_EP_CONNECTING;
	snprintf(ep->ep.why, sizeof ep->ep.why, "%s", reason);
	send_frame(ep, &reply);
}

static void on_request(struct endpoint *ep)
{
	struct mpa_frame f;
	if (mpa_decode(ep->setup.frame, ep->setup.frame_len, &f) < 0) {
		ep_end(ep, -EPROTO, "malformed MPA request");
		return;
	}
	if (f.revision < MPA_REVISION || !f.enhanced) {
		refuse(ep, &f, "MPA revision 2 with enhanced connection set-up is required");
		return;
	}
	if (f.markers) {
		refuse(ep, &f, "MPA markers are not supported");
		return;
	}
	memcpy(ep->ep.peer_private, f.private_data, f.private_len);
	ep->ep.peer_private_len = f.private_len;
	ep->setup.peer = f;
	ep->setup.peer.private_data = NULL;
	ep->setup.step = SETUP_ANSWER_DUE;
	ep->setup.deadline_ns = 0;
	ep->ep.state = RDMA_EP_REQUESTED;
}

/* Which first message we announce. Any will do for us; a zero-length RDMA Write is what siw prefers too. */
static unsigned int choose_rtr(const struct mpa_frame *request)
{
	if (!request->peer_to_peer)
		return 0;
	return request->rtr & MPA_RTR_WRITE || !(request->rtr & MPA_RTR_READ) ? MPA_RTR_WRITE : MPA_RTR_READ;
}

int setup_accept(struct endpoint *ep, const void *priv, uint32_t priv_len)
{
	const struct mpa_frame *request = &ep->setup.peer;
	bool manual_in = request->ord == MPA_MANUAL_DEPTH, manual_out = request->ird == MPA_MANUAL_DEPTH;
	unsigned int rtr = choose_rtr(request);
	uint32_t ird = manual_in ? ep->read_depth : min_u32(request->ord, ep->read_depth);
	uint32_t ord = manual_out ? ep->read_depth : min_u32(request->ird, ep->read_depth);
	if (priv_len > RDMA_PRIVATE_MAX)
		return -EINVAL;
	if (rtr == MPA_RTR_READ && !ird)
		ird = 1;
	ep->crc = ep->want_crc || request->crc;
	ep->ep.limits.read_depth_in = ird;
	ep->ep.limits.read_depth_out = ord;
	struct mpa_frame reply = {
		.reply = true,
		.crc = ep->crc,
		.enhanced = true,
		.revision = MPA_REVISION,
		.ird = (uint16_t)(manual_in ? MPA_MANUAL_DEPTH : ird),
		.ord = (uint16_t)(manual_out ? MPA_MANUAL_DEPTH : ord),
		.peer_to_peer = request->peer_to_peer,
		.rtr = rtr,
		.private_data = priv,
		.private_len = priv_len,
	};
	ep->ep.state = RDMA_EP_CONNECTING;
	ep->setup.deadline_ns = now_monotonic() + REPLY_TIMEOUT_NS;
	send_frame(ep, &reply);
	return 0;
}

int setup_reject(struct endpoint *ep)
{
	struct mpa_frame request = ep->setup.peer;
	refuse(ep, &request, "");
	return 0;
}

/* ---- active side ---- */

static void send_request(struct endpoint *ep)
{
	struct mpa_frame request = {
		.crc = ep->want_crc,
		.enhanced = true,
		.revision = MPA_REVISION,
		.ird = (uint16_t)ep->read_depth,
		.ord = (uint16_t)ep->read_depth,
		.private_data = ep->setup.private_data,
		.private_len = ep->setup.private_len,
	};
	send_frame(ep, &request);
}

/* A rejection may carry a reason for people; anything else in it is not shown. */
static void on_rejected(struct endpoint *ep, const struct mpa_frame *f)
{
	bool text = f->private_len > 0;
	for (uint32_t i = 0; i < f->private_len; i++)
		text = text && isprint(f->private_data[i]);
	if (text)
		ep_end(ep, -EACCES, "the server rejected the connection: %.*s",
		       (int)min_u32(f->private_len, 100), (const char *)f->private_data);
	else
		ep_end(ep, -EACCES, "the server rejected the connection (MPA reply)");
}

static void on_reply(struct endpoint *ep)
{
	struct rdma_limits *limits = &ep->ep.limits;
	struct mpa_frame f;
	if (mpa_decode(ep->setup.frame, ep->setup.frame_len, &f) < 0) {
		ep_end(ep, -EPROTO, "malformed MPA reply");
		return;
	}
	if (f.rejected) {
		on_rejected(ep, &f);
		return;
	}
	if (f.revision != MPA_REVISION || !f.enhanced) {
		ep_end(ep, -EPROTO,
		       "the server speaks MPA revision %u; revision 2 with enhanced set-up is required",
		       f.revision);
		return;
	}
	if (f.markers) {
		ep_end(ep, -EPROTO, "the server requires MPA markers, which are not supported");
		return;
	}
	ep->crc = ep->want_crc || f.crc;
	memcpy(ep->ep.peer_private, f.private_data, f.private_len);
	ep->ep.peer_private_len = f.private_len;
	if (f.ord != MPA_MANUAL_DEPTH && f.ord > ep->read_depth) {
		ep_violation(ep, FAULT_MPA_IRD, false);
		return;
	} /* RFC 6581 §9.1 */
	limits->read_depth_in = ep->read_depth;
	limits->read_depth_out = f.ird == MPA_MANUAL_DEPTH ? ep->read_depth : min_u32(f.ird, ep->read_depth);
	established(ep);
}

/* ---- the steps: true when they moved on ---- */

static bool step_tcp(struct endpoint *ep, uint64_t now_ns)
{
	int error = 0;
	socklen_t len = sizeof error;
	struct sockaddr_storage peer;
	socklen_t peer_len = sizeof peer;
	getsockopt(ep->fd, SOL_SOCKET, SO_ERROR, &error, &len);
	if (error) {
		ep_end(ep, -error, "%s", strerror(error));
		return false;
	}
	if (getpeername(ep->fd, (struct sockaddr *)&peer, &peer_len) < 0)
		return false;
	ep->setup.deadline_ns = now_ns + REPLY_TIMEOUT_NS;
	send_request(ep);
	return true;
}

static void on_frame_sent(struct endpoint *ep)
{
	struct setup *s = &ep->setup;
	if (s->refuse) {
		char reason[sizeof ep->ep.why];
		memcpy(reason, ep->ep.why, sizeof reason);
		ep_end(ep, -ECONNABORTED, "%s%s", *reason ? "refused: " : "rejected", reason);
	} else if (s->passive) {
		established(ep);
	} else {
		receive_frame(ep, s->deadline_ns);
	}
}

static bool step_sending(struct endpoint *ep, uint64_t now_ns)
{
	struct setup *s = &ep->setup;
	ssize_t n = send(ep->fd, s->frame + s->frame_done, s->frame_len - s->frame_done,
			 MSG_NOSIGNAL | MSG_DONTWAIT);
	if (n < 0 && errno == EINTR)
		return true;
	if (n < 0 && errno != EAGAIN)
		ep_end(ep, -errno, "the connection was lost during set-up: %s", strerror(errno));
	if (n < 0)
		return false;
	s->frame_done += (uint32_t)n;
	if (s->frame_done == s->frame_len)
		on_frame_sent(ep);
	return true;
}

static void on_setup_eof(struct endpoint *ep, int error)
{
	if (ep->setup.passive)
		ep_end(ep, error ? -error : -ECONNRESET, "the client closed the connection during set-up");
	else
		ep_end(ep, -EPROTO,
		       "closed the connection instead of answering with MPA: not an iWARP server?");
}

/* More of the frame is here: is it still one, how long is it, is it whole? */
static void on_frame_bytes(struct endpoint *ep)
{
	struct setup *s = &ep->setup;
	if (!mpa_key_matches(s->frame, s->frame_done, !s->passive)) {
		ep_end(ep, -EPROTO, "%s", s->passive ? "the client does not speak MPA" : NOT_IWARP);
		return;
	}
	if (s->frame_done == MPA_HEADER_BYTES && mpa_frame_len(s->frame, &s->frame_len) < 0) {
		ep_end(ep, -EPROTO, "malformed MPA frame: too much private data");
		return;
	}
	if (s->frame_done < s->frame_len)
		return;
	if (s->passive)
		on_request(ep);
	else
		on_reply(ep);
}

static bool step_receiving(struct endpoint *ep, uint64_t now_ns)
{
	struct setup *s = &ep->setup;
	ssize_t n = recv(ep->fd, s->frame + s->frame_done, s->frame_len - s->frame_done, MSG_DONTWAIT);
	if (n < 0 && errno == EINTR)
		return true;
	if (n < 0 && errno == EAGAIN)
		return false;
	if (n <= 0) {
		on_setup_eof(ep, n < 0 ? errno : 0);
		return false;
	}
	s->frame_done += (uint32_t)n;
	on_frame_bytes(ep);
	return true;
}

/* The upper layer thinks about it: all that can happen is that the client gives up. */
static bool step_answer_due(struct endpoint *ep, uint64_t now_ns)
{
	char byte;
	ssize_t n = recv(ep->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
	if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
		on_setup_eof(ep, n < 0 ? errno : 0);
	return false;
}

static void on_timeout(struct endpoint *ep)
{
	const char *why = "set-up took too long";
	if (ep->setup.step == SETUP_TCP)
		why = "no answer";
	else if (ep->setup.step == SETUP_RECEIVING)
		why = ep->setup.passive
			      ? "the client sent no MPA request in time"
			      : "accepted the connection, but sent no MPA reply: not an iWARP server?";
	ep_end(ep, -ETIMEDOUT, "%s", why);
}

void setup_run(struct endpoint *ep, uint64_t now_ns)
{
	static bool (*const steps[])(struct endpoint * ep, uint64_t now_ns) = {
		[SETUP_TCP] = step_tcp,
		[SETUP_SENDING] = step_sending,
		[SETUP_RECEIVING] = step_receiving,
		[SETUP_ANSWER_DUE] = step_answer_due,
	};
	while (ep->setup.step != SETUP_NONE && steps[ep->setup.step](ep, now_ns))
		;
	if (ep->setup.deadline_ns && now_ns >= ep->setup.deadline_ns)
		on_timeout(ep);
}
