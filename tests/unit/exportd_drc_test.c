/* SPDX-License-Identifier: MIT
 *
 * The duplicate request cache.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <stdbool.h>
#include <string.h>

#include "drc.h"

static struct drc_key key_of(uint32_t xid)
{
	return (struct drc_key){.addr = {[15] = 1}, .xid = xid, .proc = 12, .checksum = 77};
}

static bool begin(struct drc *drc, const struct drc_key *key, struct drc_entry **entry, char *text)
{
	uint8_t reply[DRC_REPLY_MAX_BYTES];
	uint32_t len = 0;
	bool fresh = drc_begin(drc, key, entry, reply, &len);
	if (!fresh) {
		memcpy(text, reply, len);
		text[len] = 0;
	}
	return fresh;
}

static void run(struct drc *drc, uint32_t xid, const char *reply)
{
	struct drc_key key = key_of(xid);
	struct drc_entry *entry;
	char text[DRC_REPLY_MAX_BYTES + 1];
	assert_true(begin(drc, &key, &entry, text));
	drc_finish(drc, entry, (const uint8_t *)reply, (uint32_t)strlen(reply));
}

static bool remembers(struct drc *drc, uint32_t xid, const char *reply)
{
	struct drc_key key = key_of(xid);
	struct drc_entry *entry;
	char text[DRC_REPLY_MAX_BYTES + 1];
	if (begin(drc, &key, &entry, text)) {
		drc_finish(drc, entry, NULL, 0);
		return false;
	}
	assert_string_equal(text, reply);
	return true;
}

static void a_duplicate_gets_the_first_reply(void **state)
{
	struct drc *drc = drc_create(4);
	run(drc, 1, "one");
	run(drc, 2, "two");
	assert_true(remembers(drc, 1, "one"));
	assert_true(remembers(drc, 2, "two"));
	drc_destroy(drc);
}

static void each_part_of_the_key_counts(void **state)
{
	struct drc *drc = drc_create(8);
	struct drc_key keys[] = {key_of(1), key_of(1), key_of(1), key_of(1), key_of(2)};
	struct drc_entry *entry;
	char text[DRC_REPLY_MAX_BYTES + 1];
	keys[1].addr[15]++;
	keys[2].proc++;
	keys[3].checksum++;
	for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
		assert_true(begin(drc, &keys[i], &entry, text));
		drc_finish(drc, entry, (const uint8_t *)"x", 1);
	}
	for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
		assert_false(begin(drc, &keys[i], &entry, text));
	drc_destroy(drc);
}

static void the_oldest_goes_first(void **state)
{
	struct drc *drc = drc_create(3);
	for (uint32_t xid = 1; xid <= 4; xid++)
		run(drc, xid, "r");
	assert_true(remembers(drc, 2, "r"));
	assert_true(remembers(drc, 3, "r"));
	assert_true(remembers(drc, 4, "r"));
	assert_false(remembers(drc, 1, "r"));
	drc_destroy(drc);
}

static void many_calls_through_few_entries(void **state)
{
	struct drc *drc = drc_create(5);
	for (uint32_t xid = 0; xid < 1000; xid++) {
		run(drc, xid, "r");
		assert_true(remembers(drc, xid, "r"));
		assert_int_equal(remembers(drc, xid - 4, "r"), xid >= 4);
	}
	drc_destroy(drc);
}

static void a_call_without_a_reply_is_run_again(void **state)
{
	struct drc *drc = drc_create(4);
	run(drc, 1, "");
	assert_false(remembers(drc, 1, ""));
	drc_destroy(drc);
}

static void a_reply_that_is_too_long_is_not_kept(void **state)
{
	struct drc *drc = drc_create(4);
	struct drc_key key = key_of(1);
	struct drc_entry *entry;
	char text[DRC_REPLY_MAX_BYTES + 1];
	static const uint8_t reply[DRC_REPLY_MAX_BYTES + 1];
	assert_true(begin(drc, &key, &entry, text));
	drc_finish(drc, entry, reply, sizeof reply);
	assert_false(remembers(drc, 1, ""));
	drc_destroy(drc);
}

static void a_running_call_is_not_evicted(void **state)
{
	struct drc *drc = drc_create(2);
	struct drc_key key = key_of(1), other = key_of(2), third = key_of(3);
	struct drc_entry *entry, *entry2, *entry3;
	char text[DRC_REPLY_MAX_BYTES + 1];
	assert_true(begin(drc, &key, &entry, text));
	assert_true(begin(drc, &other, &entry2, text));
	/* no room: run, but not remembered */
	assert_true(begin(drc, &third, &entry3, text));
	assert_null(entry3);
	drc_finish(drc, entry3, (const uint8_t *)"3", 1);
	drc_finish(drc, entry, (const uint8_t *)"1", 1);
	drc_finish(drc, entry2, (const uint8_t *)"2", 1);
	assert_true(remembers(drc, 1, "1"));
	assert_true(remembers(drc, 2, "2"));
	drc_destroy(drc);
}

struct second {
	struct drc *drc;
	bool fresh;
	char text[DRC_REPLY_MAX_BYTES + 1];
};

static void *second_call(void *arg)
{
	struct second *s = arg;
	struct drc_key key = key_of(1);
	struct drc_entry *entry;
	s->fresh = begin(s->drc, &key, &entry, s->text);
	if (s->fresh)
		drc_finish(s->drc, entry, NULL, 0);
	return NULL;
}

/* Whether the second thread comes before or after the end of the first call, the answer is the same. */
static void a_duplicate_of_a_running_call_waits_for_it(void **state)
{
	struct second s = {.drc = drc_create(4)};
	struct drc_key key = key_of(1);
	struct drc_entry *entry;
	pthread_t thread;
	assert_true(begin(s.drc, &key, &entry, s.text));
	assert_int_equal(pthread_create(&thread, NULL, second_call, &s), 0);
	drc_finish(s.drc, entry, (const uint8_t *)"done", 4);
	pthread_join(thread, NULL);
	assert_false(s.fresh);
	assert_string_equal(s.text, "done");
	drc_destroy(s.drc);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_duplicate_gets_the_first_reply),
		cmocka_unit_test(each_part_of_the_key_counts),
		cmocka_unit_test(the_oldest_goes_first),
		cmocka_unit_test(many_calls_through_few_entries),
		cmocka_unit_test(a_call_without_a_reply_is_run_again),
		cmocka_unit_test(a_reply_that_is_too_long_is_not_kept),
		cmocka_unit_test(a_running_call_is_not_evicted),
		cmocka_unit_test(a_duplicate_of_a_running_call_waits_for_it),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
