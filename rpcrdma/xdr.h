/* SPDX-License-Identifier: MIT
 *
 * A bounded reader and writer for XDR (RFC 4506): big-endian 32-bit words, opaque data padded to four bytes.
 *
 * Everything that arrives from a network passes through the reader. It never reads past the end of the
 * message, never allocates, never recurses, and every variable length names the largest value that the caller
 * accepts. The first bad item makes the reader *stuck*: all later reads give zero or NULL, so a decoder may
 * read a whole structure and ask xdr_ok() once. Pointers that it hands out point into the message: they live
 * as long as the message does.
 */
#ifndef XDR_H
#define XDR_H

#include <endian.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

static inline uint32_t xdr_pad(uint32_t len_bytes)
{
	return -len_bytes & 3;
}

static inline uint64_t xdr_padded(uint32_t len_bytes)
{
	return (uint64_t)len_bytes + xdr_pad(len_bytes);
}

struct xdr_reader {
	const uint8_t *pos;
	const uint8_t *end;
	bool stuck; /* an item did not fit or broke its limit; nothing read since then means anything */
};

static inline struct xdr_reader xdr_reader(const void *msg, size_t len_bytes)
{
	/* No bytes may be nowhere: NULL. C adds nothing to that, not even 0. */
	return (struct xdr_reader){.pos = msg, .end = len_bytes ? (const uint8_t *)msg + len_bytes : msg};
}

static inline bool xdr_ok(const struct xdr_reader *r)
{
	return !r->stuck;
}

static inline size_t xdr_left(const struct xdr_reader *r)
{
	return r->stuck ? 0 : (size_t)(r->end - r->pos);
}

/* Steps over len bytes and gives their place, or NULL (and sticks) if the message holds fewer. */
static inline const uint8_t *xdr_bytes(struct xdr_reader *r, size_t len_bytes)
{
	if (r->stuck || (size_t)(r->end - r->pos) < len_bytes) {
		r->stuck = true;
		return NULL;
	}
	const uint8_t *p = r->pos;
	r->pos += len_bytes;
	return p;
}

static inline uint32_t xdr_u32(struct xdr_reader *r)
{
	uint32_t v;
	const uint8_t *p = xdr_bytes(r, sizeof v);
	if (!p)
		return 0;
	memcpy(&v, p, sizeof v);
	return be32toh(v);
}

static inline uint64_t xdr_u64(struct xdr_reader *r)
{
	uint64_t hi = xdr_u32(r);
	return hi << 32 | xdr_u32(r);
}

/* An XDR boolean: 0 or 1, anything else sticks. */
static inline bool xdr_bool(struct xdr_reader *r)
{
	uint32_t v = xdr_u32(r);
	if (v > 1)
		r->stuck = true;
	return v == 1 && !r->stuck;
}

/* Variable-length opaque or string of at most max bytes; *len is 0 when the result is NULL. */
static inline const uint8_t *xdr_opaque(struct xdr_reader *r, uint32_t max_bytes, uint32_t *len_bytes)
{
	uint32_t n = xdr_u32(r);
	*len_bytes = 0;
	if (r->stuck || n > max_bytes) {
		r->stuck = true;
		return NULL;
	}
	const uint8_t *p = xdr_bytes(r, n);
	xdr_bytes(r, xdr_pad(n));
	if (r->stuck)
		return NULL;
	*len_bytes = n;
	return p;
}

/* The writer: the same idea the other way. Once something did not fit, it is stuck and writes
 * nothing more. */
struct xdr_writer {
	uint8_t *start;
	uint8_t *pos;
	uint8_t *end;
	bool stuck;
};

static inline struct xdr_writer xdr_writer(void *buf, size_t size_bytes)
{
	return (struct xdr_writer){.start = buf, .pos = buf, .end = (uint8_t *)buf + size_bytes};
}

static inline size_t xdr_written(const struct xdr_writer *w)
{
	return (size_t)(w->pos - w->start);
}

/* Room for len bytes, to be filled by the caller; NULL (and stuck) if there is less. */
static inline uint8_t *xdr_reserve(struct xdr_writer *w, size_t len_bytes)
{
	if (w->stuck || (size_t)(w->end - w->pos) < len_bytes) {
		w->stuck = true;
		return NULL;
	}
	uint8_t *p = w->pos;
	w->pos += len_bytes;
	return p;
}

static inline void xdr_put_u32(struct xdr_writer *w, uint32_t v)
{
	uint8_t *p = xdr_reserve(w, sizeof v);
	if (!p)
		return;
	v = htobe32(v);
	memcpy(p, &v, sizeof v);
}

static inline void xdr_put_u64(struct xdr_writer *w, uint64_t v)
{
	xdr_put_u32(w, (uint32_t)(v >> 32));
	xdr_put_u32(w, (uint32_t)v);
}

/* Variable-length opaque: length word, bytes, zero padding. */
static inline void xdr_put_opaque(struct xdr_writer *w, const void *bytes, uint32_t len_bytes)
{
	xdr_put_u32(w, len_bytes);
	uint8_t *p = xdr_reserve(w, (size_t)len_bytes + xdr_pad(len_bytes));
	if (!p)
		return;
	if (len_bytes)
		memcpy(p, bytes, len_bytes);
	memset(p + len_bytes, 0, xdr_pad(len_bytes));
}

#endif
