/* SPDX-License-Identifier: MIT
 *
 * RPC messages out of a TCP stream: record marking (RFC 5531 §11). A record is one or more fragments, each
 * led by a word: the top bit says "last", the rest is the length.
 *
 * Bytes are received into the buffer where record_room() says; record_next() joins fragments in place and
 * gives whole records, which lie in the buffer until the next call of either. No copy of a record that came
 * in one fragment, except what record_room() moves to the front: at most the bytes that were received beyond
 * a record.
 */
#ifndef EXPORTD_RECORD_H
#define EXPORTD_RECORD_H

#include <stddef.h>
#include <stdint.h>

#define RECORD_LAST_FRAGMENT 0x80000000u

struct record_buf {
	uint8_t *buf;
	size_t size_bytes;
	size_t record;	 /* where the record under way begins: its first fragment's bytes */
	size_t joined;	 /* bytes of it that are joined already */
	size_t received; /* end of the received bytes that are not looked at yet */
	size_t parsed;	 /* where they begin */
};

void record_init(struct record_buf *r, void *buf, size_t size_bytes);
/* Where to receive, and how many bytes at most: what the record under way lacks and a little of the next.
 * Never 0. */
uint8_t *record_room(struct record_buf *r, size_t *room_bytes);
void record_filled(struct record_buf *r, size_t len_bytes);
/* 1: a record; 0: receive more first; -EMSGSIZE: longer than the buffer; -EBADMSG: fragments that lead
 * nowhere. */
int record_next(struct record_buf *r, const uint8_t **msg, size_t *len_bytes);

#endif
