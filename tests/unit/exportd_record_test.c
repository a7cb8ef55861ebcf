/* SPDX-License-Identifier: MIT
 *
 * Record marking: whatever pieces the stream comes in, the same records come out.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <endian.h>
#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "record.h"

#define BUF_BYTES 256

struct stream {
	uint8_t bytes[4096];
	size_t len;
};

static void add_fragment(struct stream *s, size_t len, bool last, uint8_t fill)
{
	uint32_t mark = htobe32((uint32_t)len | (last ? RECORD_LAST_FRAGMENT : 0));
	memcpy(s->bytes + s->len, &mark, sizeof mark);
	memset(s->bytes + s->len + 4, fill, len);
	s->len += 4 + len;
}

/* What came out: the length of each record, and its bytes one after the other. */
struct got {
	size_t records, lens[64];
	uint8_t bytes[4096];
	size_t len;
	int error;
};

/* Feeds the stream in pieces of at most chunk bytes. */
static struct got feed(const struct stream *s, size_t chunk)
{
	static uint8_t buf[BUF_BYTES];
	struct record_buf r;
	struct got g = {0};
	record_init(&r, buf, sizeof buf);
	for (size_t at = 0; at < s->len && !g.error;) {
		size_t room, len;
		const uint8_t *msg;
		uint8_t *to = record_room(&r, &room);
		assert_true(room > 0);
		assert_true(to >= buf && to + room <= buf + sizeof buf);
		size_t n = room < chunk ? room : chunk;
		n = n < s->len - at ? n : s->len - at;
		memcpy(to, s->bytes + at, n);
		at += n;
		record_filled(&r, n);
		int got;
		while ((got = record_next(&r, &msg, &len)) == 1) {
			g.lens[g.records++] = len;
			memcpy(g.bytes + g.len, msg, len);
			g.len += len;
		}
		g.error = got;
	}
	return g;
}

static void any_cut_of_the_stream_gives_the_same_records(void **state)
{
	static const uint8_t want[] = {
		1, 1, 1, 1, 1, /* one fragment */
		2, 2, 3, 3, 3, /* two */
		5,	       /* an empty last fragment after it */
	};
	struct stream s = {0};
	add_fragment(&s, 5, true, 1);
	add_fragment(&s, 2, false, 2);
	add_fragment(&s, 3, true, 3);
	add_fragment(&s, 0, true, 4);
	add_fragment(&s, 1, false, 5);
	add_fragment(&s, 0, true, 6);
	for (size_t chunk = 1; chunk <= s.len; chunk++) {
		struct got g = feed(&s, chunk);
		assert_int_equal(g.error, 0);
		assert_int_equal(g.records, 4);
		assert_int_equal(g.lens[0], 5);
		assert_int_equal(g.lens[1], 5);
		assert_int_equal(g.lens[2], 0);
		assert_int_equal(g.lens[3], 1);
		assert_int_equal(g.len, sizeof want);
		assert_memory_equal(g.bytes, want, sizeof want);
	}
}

static void records_as_long_as_the_buffer_allows_pass(void **state)
{
	struct stream s = {0};
	for (uint8_t i = 0; i < 6; i++) {
		add_fragment(&s, 100, false, i);
		add_fragment(&s, BUF_BYTES - 8 - 100, true, i);
	}
	for (size_t chunk = 1; chunk <= BUF_BYTES; chunk++) {
		struct got g = feed(&s, chunk);
		assert_int_equal(g.error, 0);
		assert_int_equal(g.records, 6);
		for (size_t i = 0; i < g.len; i++)
			assert_int_equal(g.bytes[i], i / (BUF_BYTES - 8));
	}
}

static void a_record_that_is_too_long_is_refused(void **state)
{
	struct stream one = {0}, two = {0};
	add_fragment(&one, BUF_BYTES - 7, true, 1);
	assert_int_equal(feed(&one, 16).error, -EMSGSIZE);
	add_fragment(&two, 200, false, 1);
	add_fragment(&two, 100, true, 2);
	assert_int_equal(feed(&two, 16).error, -EMSGSIZE);
}

static void the_largest_length_is_refused(void **state)
{
	struct stream s = {.bytes = {0xff, 0xff, 0xff, 0xff}, .len = 4};
	assert_int_equal(feed(&s, 4).error, -EMSGSIZE);
	s.bytes[0] = 0x7f;
	assert_int_equal(feed(&s, 4).error, -EMSGSIZE);
}

static void empty_fragments_without_end_are_refused(void **state)
{
	struct stream s = {0};
	add_fragment(&s, 0, false, 0);
	assert_int_equal(feed(&s, 4).error, -EBADMSG);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(any_cut_of_the_stream_gives_the_same_records),
		cmocka_unit_test(records_as_long_as_the_buffer_allows_pass),
		cmocka_unit_test(a_record_that_is_too_long_is_refused),
		cmocka_unit_test(the_largest_length_is_refused),
		cmocka_unit_test(empty_fragments_without_end_are_refused),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
