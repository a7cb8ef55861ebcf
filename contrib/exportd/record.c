/* SPDX-License-Identifier: MIT */
#include "record.h"

#include <endian.h>
#include <errno.h>
#include <stdbool.h>
#include <string.h>

#define MARK_BYTES 4
/* Received beyond the record that is awaited, so that small pipelined calls cost one recv() together. */
#define READ_AHEAD_BYTES (16 * 1024)

void record_init(struct record_buf *r, void *buf, size_t size_bytes)
{
	*r = (struct record_buf){.buf = buf, .size_bytes = size_bytes};
}

static uint32_t mark_at(const struct record_buf *r, size_t at)
{
	uint32_t v;
	memcpy(&v, r->buf + at, sizeof v);
	return be32toh(v);
}

static size_t unparsed(const struct record_buf *r)
{
	return r->received - r->parsed;
}

/* Moves what is still wanted to the front of the buffer. */
static void compact(struct record_buf *r)
{
	memmove(r->buf, r->buf + r->record, r->joined);
	memmove(r->buf + r->joined, r->buf + r->parsed, unparsed(r));
	r->received = r->joined + unparsed(r);
	r->parsed = r->joined;
	r->record = 0;
}

/* How many bytes the fragment that stands at parsed still lacks. */
static size_t lacking(const struct record_buf *r)
{
	size_t have = unparsed(r);
	if (have < MARK_BYTES)
		return MARK_BYTES - have;
	size_t whole = MARK_BYTES + (size_t)(mark_at(r, r->parsed) & ~RECORD_LAST_FRAGMENT);
	return whole > have ? whole - have : MARK_BYTES;
}

uint8_t *record_room(struct record_buf *r, size_t *room_bytes)
{
	if (unparsed(r) == 0 && r->joined == 0)
		r->record = r->parsed = r->received = 0;
	size_t want = lacking(r) + READ_AHEAD_BYTES;
	if (r->size_bytes - r->received < want && r->record + r->parsed > r->joined)
		compact(r);
	size_t room = r->size_bytes - r->received;
	*room_bytes = room < want ? room : want;
	return r->buf + r->received;
}

void record_filled(struct record_buf *r, size_t len_bytes)
{
	r->received += len_bytes;
}

/* Joins the fragment at parsed, which is whole, to the record. */
static void join(struct record_buf *r, size_t len_bytes)
{
	if (r->joined == 0)
		r->record = r->parsed + MARK_BYTES;
	else
		memmove(r->buf + r->record + r->joined, r->buf + r->parsed + MARK_BYTES, len_bytes);
	r->joined += len_bytes;
	r->parsed += MARK_BYTES + len_bytes;
}

int record_next(struct record_buf *r, const uint8_t **msg, size_t *len_bytes)
{
	while (unparsed(r) >= MARK_BYTES) {
		uint32_t mark = mark_at(r, r->parsed);
		size_t len = mark & ~RECORD_LAST_FRAGMENT;
		bool last = mark & RECORD_LAST_FRAGMENT;
		if (len == 0 && !last)
			return -EBADMSG; /* could go on for ever without a byte of progress */
		/* Room for the record, this mark, and the mark of a fragment that may follow. */
		if (r->joined + len > r->size_bytes - 2 * MARK_BYTES)
			return -EMSGSIZE;
		if (unparsed(r) - MARK_BYTES < len)
			return 0;
		join(r, len);
		if (!last)
			continue;
		*msg = r->buf + r->record;
		*len_bytes = r->joined;
		r->joined = 0;
		r->record = r->parsed;
		return 1;
	}
	return 0;
}
