/* SPDX-License-Identifier: MIT */
#include "attr.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#define S 1000000000ull /* ns */

static const struct attr_limits limits = {
	.reg_min_ns = 3 * S, .reg_max_ns = 60 * S, .dir_min_ns = 30 * S, .dir_max_ns = 60 * S};

/* A file whose contents and status changed at second t of the server's clock. */
static struct nfs3_attr file_at(uint32_t t, uint64_t size)
{
	return (struct nfs3_attr){.type = NFS3_REG,
				  .mode = 0644,
				  .nlink = 1,
				  .size = size,
				  .fileid = 7,
				  .mtime = {t, 0},
				  .ctime = {t, 0}};
}

static struct nfs3_wcc wcc(struct nfs3_attr before, struct nfs3_attr after)
{
	return (struct nfs3_wcc){.before = {.present = true,
					    .size = before.size,
					    .mtime = before.mtime,
					    .ctime = before.ctime},
				 .after = {.present = true, .attr = after}};
}

static struct attr_cache cache_of(struct nfs3_attr attr, uint64_t now_ns)
{
	struct attr_cache c = {0};

	assert_int_equal(attr_take(&c, &limits, &attr, now_ns, now_ns), ATTR_CHANGED);
	return c;
}

static void nothing_is_believed_before_the_first_reply(void **state)
{
	struct attr_cache c = {0};

	assert_int_equal(attr_valid_ns(&c, 1), 0);
}

static void a_first_answer_is_believed_for_the_shortest_time(void **state)
{
	struct attr_cache c = cache_of(file_at(1, 10), 100 * S);

	assert_int_equal(attr_valid_ns(&c, 100 * S), 3 * S);
	assert_int_equal(attr_valid_ns(&c, 103 * S - 1), 1);
	assert_int_equal(attr_valid_ns(&c, 103 * S), 0);
}

static void directories_have_their_own_limits(void **state)
{
	struct nfs3_attr dir = file_at(1, 10);

	dir.type = NFS3_DIR;
	struct attr_cache c = cache_of(dir, 0);

	assert_int_equal(attr_valid_ns(&c, 0), 30 * S);
}

static void unchanged_answers_are_believed_twice_as_long_up_to_the_limit(void **state)
{
	struct nfs3_attr a = file_at(1, 10);
	struct attr_cache c = cache_of(a, 0);
	static const uint64_t want[] = {6, 12, 24, 48, 60, 60};
	uint64_t now = 0;

	for (unsigned int i = 0; i < sizeof want / sizeof want[0]; i++) {
		now += 60 * S;
		assert_int_equal(attr_take(&c, &limits, &a, now, now), ATTR_SAME);
		assert_int_equal(attr_valid_ns(&c, now), want[i] * S);
	}
}

static void many_answers_at_once_do_not_double_it(void **state)
{
	struct nfs3_attr a = file_at(1, 10);
	struct attr_cache c = cache_of(a, 0);

	for (uint64_t i = 1; i <= 100; i++)
		attr_take(&c, &limits, &a, i, i);
	assert_int_equal(attr_valid_ns(&c, 100), 3 * S);
}

static void a_change_starts_again_at_the_shortest_time(void **state)
{
	struct nfs3_attr a = file_at(1, 10), b = file_at(2, 10);
	struct attr_cache c = cache_of(a, 0);

	attr_take(&c, &limits, &a, 60 * S, 60 * S);
	attr_take(&c, &limits, &b, 61 * S, 61 * S);
	assert_int_equal(attr_valid_ns(&c, 61 * S), 3 * S);
}

static void with_noac_every_answer_expires_at_once(void **state)
{
	struct attr_limits noac = {.noac = true};
	struct nfs3_attr a = file_at(1, 10);
	struct attr_cache c = {0};

	attr_take(&c, &noac, &a, 5, 5);
	assert_true(c.known);
	assert_int_equal(attr_valid_ns(&c, 5), 0);
}

static void contents_changed_by_others_are_foreign(void **state)
{
	struct nfs3_attr b = file_at(2, 11);
	struct attr_cache c = cache_of(file_at(1, 10), 0);

	assert_int_equal(attr_take(&c, &limits, &b, 10, 10), ATTR_FOREIGN);
	assert_int_equal(c.foreign_changes, 1);
	assert_int_equal(c.attr.size, 11);
}

static void a_chmod_by_others_leaves_the_contents_good(void **state)
{
	struct nfs3_attr a = file_at(1, 10), b = a;
	struct attr_cache c = cache_of(a, 0);

	b.mode = 0600;
	b.ctime.sec = 2;
	assert_int_equal(attr_take(&c, &limits, &b, 10, 10), ATTR_RIGHTS);
	assert_int_equal(c.foreign_changes, 0);
}

static void a_write_that_costs_the_set_user_id_bit_says_so(void **state)
{
	struct nfs3_attr a = file_at(1, 10), b = file_at(2, 20);

	a.mode = 04755;
	b.mode = 0755;
	struct attr_cache c = cache_of(a, 0);
	struct nfs3_wcc w = wcc(a, b);

	attr_change_begin(&c);
	assert_int_equal(attr_change_end(&c, &limits, &w, 10, 20), ATTR_RIGHTS);
}

static void a_change_of_ours_alone_is_not_foreign(void **state)
{
	struct nfs3_attr a = file_at(1, 10), b = file_at(2, 20);
	struct attr_cache c = cache_of(a, 0);
	struct nfs3_wcc w = wcc(a, b);

	attr_change_begin(&c);
	assert_int_equal(attr_change_end(&c, &limits, &w, 10, 20), ATTR_CHANGED);
	assert_int_equal(c.attr.size, 20);
	assert_int_equal(c.foreign_changes, 0);
}

static void a_change_of_others_before_ours_is_foreign(void **state)
{
	struct nfs3_attr a = file_at(1, 10), theirs = file_at(2, 15), ours = file_at(3, 20);
	struct attr_cache c = cache_of(a, 0);
	struct nfs3_wcc w = wcc(theirs, ours);

	attr_change_begin(&c);
	assert_int_equal(attr_change_end(&c, &limits, &w, 10, 20), ATTR_FOREIGN);
	assert_int_equal(c.attr.size, 20);
}

static void a_rename_of_ours_does_not_make_the_next_write_foreign(void **state)
{
	struct nfs3_attr a = file_at(1, 10), renamed = a, written = file_at(3, 20);
	struct attr_cache c = cache_of(a, 0);

	renamed.ctime.sec = 2;
	struct nfs3_wcc w = wcc(renamed, written);

	attr_change_begin(&c);
	assert_int_equal(attr_change_end(&c, &limits, &w, 10, 20), ATTR_CHANGED);
	assert_int_equal(c.foreign_changes, 0);
}

static void contents_seen_before_a_change_of_ours_are_old(void **state)
{
	struct nfs3_attr a = file_at(1, 10), b = file_at(2, 20);
	struct attr_cache c = cache_of(a, 5);
	struct nfs3_wcc w = wcc(a, b);

	assert_true(attr_contents_since(&c, 5));
	attr_change_begin(&c);
	assert_false(attr_contents_since(&c, 5));
	attr_change_end(&c, &limits, &w, 10, 20);
	assert_false(attr_contents_since(&c, 19));
	assert_true(attr_contents_since(&c, 20));
}

static void contents_seen_before_a_change_of_others_is_known_are_old(void **state)
{
	struct nfs3_attr a = file_at(1, 10), b = file_at(2, 20);
	struct attr_cache c = cache_of(a, 5);

	attr_take(&c, &limits, &a, 7, 8);
	assert_true(attr_contents_since(&c, 6));
	attr_take(&c, &limits, &b, 10, 20);
	assert_false(attr_contents_since(&c, 9));
	assert_true(attr_contents_since(&c, 10)); /* the very call that brought it */
}

static void an_answer_taken_late_is_believed_from_when_it_was_heard(void **state)
{
	struct nfs3_attr a = file_at(1, 10), newer = a;
	struct attr_cache c = cache_of(a, 100 * S);

	newer.ctime.sec = 2;
	attr_take(&c, &limits, &newer, 90 * S, 90 * S);
	assert_int_equal(attr_valid_ns(&c, 100 * S), 0);
	assert_int_equal(attr_valid_ns(&c, 90 * S), 3 * S);
}

static void overlapping_changes_of_ours_are_ours_in_any_order_of_replies(void **state)
{
	struct nfs3_attr a = file_at(1, 10), b = file_at(2, 20), d = file_at(3, 30);
	struct attr_cache c = cache_of(a, 0);
	struct nfs3_wcc first = wcc(a, b), second = wcc(b, d);

	attr_change_begin(&c);
	attr_change_begin(&c);
	assert_int_equal(attr_change_end(&c, &limits, &second, 11, 20), ATTR_CHANGED);
	assert_int_equal(attr_change_end(&c, &limits, &first, 10, 21), ATTR_DISCARDED);
	assert_int_equal(c.attr.size, 30);
	assert_int_equal(c.foreign_changes, 0);
}

static void after_an_outrun_reply_the_server_is_asked(void **state)
{
	struct nfs3_attr a = file_at(1, 10), b = file_at(2, 20), d = file_at(3, 30);
	struct attr_cache c = cache_of(a, 0);
	struct nfs3_wcc first = wcc(a, b), second = wcc(b, d);

	attr_change_begin(&c);
	attr_change_begin(&c);
	attr_change_end(&c, &limits, &second, 11, 20);
	attr_change_end(&c, &limits, &first, 10, 21);
	assert_int_equal(attr_valid_ns(&c, 21), 0);
}

static void of_two_writes_within_one_tick_of_the_server_the_larger_size_stays(void **state)
{
	struct nfs3_attr a = file_at(1, 10), b = file_at(2, 20), d = file_at(2, 30);
	struct attr_cache c = cache_of(a, 0);
	struct nfs3_wcc first = wcc(a, d), second = wcc(a, b);

	attr_change_begin(&c);
	attr_change_begin(&c);
	attr_change_end(&c, &limits, &second, 11, 20);
	attr_change_end(&c, &limits, &first, 10, 21);
	assert_int_equal(c.attr.size, 30);
}

static void once_none_is_in_flight_others_changes_show_again(void **state)
{
	struct nfs3_attr a = file_at(1, 10), b = file_at(2, 20), d = file_at(3, 30), e = file_at(4, 40);
	struct attr_cache c = cache_of(a, 0);
	struct nfs3_wcc w1 = wcc(a, b), w2 = wcc(b, d);

	attr_change_begin(&c);
	attr_change_begin(&c);
	attr_change_end(&c, &limits, &w1, 10, 20);
	attr_change_end(&c, &limits, &w2, 11, 21);
	assert_int_equal(attr_take(&c, &limits, &e, 30, 31), ATTR_FOREIGN);
}

static void a_reply_older_than_a_later_change_is_discarded(void **state)
{
	struct nfs3_attr a = file_at(1, 10), b = file_at(2, 20);
	struct attr_cache c = cache_of(a, 0);
	struct nfs3_wcc w = wcc(a, b);

	attr_change_begin(&c);
	attr_change_end(&c, &limits, &w, 10, 20);
	assert_int_equal(attr_take(&c, &limits, &a, 15, 30), ATTR_DISCARDED);
	assert_int_equal(c.attr.size, 20);
}

static void a_newer_ctime_proves_that_it_is_not_old(void **state)
{
	struct nfs3_attr a = file_at(1, 10), b = file_at(2, 20), d = file_at(3, 30);
	struct attr_cache c = cache_of(a, 0);
	struct nfs3_wcc w = wcc(a, b);

	attr_change_begin(&c);
	attr_change_end(&c, &limits, &w, 10, 20);
	assert_int_equal(attr_take(&c, &limits, &d, 15, 30), ATTR_FOREIGN);
	assert_int_equal(c.attr.size, 30);
}

static void a_reply_submitted_after_the_change_counts_even_with_an_older_ctime(void **state)
{
	struct nfs3_attr a = file_at(5, 10), restored = file_at(1, 3);
	struct attr_cache c = cache_of(a, 0);

	assert_int_equal(attr_take(&c, &limits, &restored, 10, 20), ATTR_FOREIGN);
	assert_int_equal(c.attr.size, 3);
}

static void of_two_questions_the_later_counts(void **state)
{
	struct nfs3_attr a = file_at(1, 10), b = file_at(2, 20);
	struct attr_cache c = cache_of(a, 0);

	attr_take(&c, &limits, &b, 12, 20);
	assert_int_equal(attr_take(&c, &limits, &a, 11, 21), ATTR_DISCARDED);
}

static void a_change_that_failed_without_attributes_makes_us_ask(void **state)
{
	struct attr_cache c = cache_of(file_at(1, 10), 0);

	attr_change_begin(&c);
	assert_int_equal(attr_change_end(&c, &limits, NULL, 10, 20), ATTR_DISCARDED);
	assert_int_equal(attr_valid_ns(&c, 20), 0);
	assert_int_equal(c.changes_in_flight, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nothing_is_believed_before_the_first_reply),
		cmocka_unit_test(a_first_answer_is_believed_for_the_shortest_time),
		cmocka_unit_test(directories_have_their_own_limits),
		cmocka_unit_test(unchanged_answers_are_believed_twice_as_long_up_to_the_limit),
		cmocka_unit_test(many_answers_at_once_do_not_double_it),
		cmocka_unit_test(a_change_starts_again_at_the_shortest_time),
		cmocka_unit_test(with_noac_every_answer_expires_at_once),
		cmocka_unit_test(contents_changed_by_others_are_foreign),
		cmocka_unit_test(a_chmod_by_others_leaves_the_contents_good),
		cmocka_unit_test(a_write_that_costs_the_set_user_id_bit_says_so),
		cmocka_unit_test(a_change_of_ours_alone_is_not_foreign),
		cmocka_unit_test(a_change_of_others_before_ours_is_foreign),
		cmocka_unit_test(a_rename_of_ours_does_not_make_the_next_write_foreign),
		cmocka_unit_test(contents_seen_before_a_change_of_ours_are_old),
		cmocka_unit_test(contents_seen_before_a_change_of_others_is_known_are_old),
		cmocka_unit_test(an_answer_taken_late_is_believed_from_when_it_was_heard),
		cmocka_unit_test(overlapping_changes_of_ours_are_ours_in_any_order_of_replies),
		cmocka_unit_test(after_an_outrun_reply_the_server_is_asked),
		cmocka_unit_test(of_two_writes_within_one_tick_of_the_server_the_larger_size_stays),
		cmocka_unit_test(once_none_is_in_flight_others_changes_show_again),
		cmocka_unit_test(a_reply_older_than_a_later_change_is_discarded),
		cmocka_unit_test(a_newer_ctime_proves_that_it_is_not_old),
		cmocka_unit_test(a_reply_submitted_after_the_change_counts_even_with_an_older_ctime),
		cmocka_unit_test(of_two_questions_the_later_counts),
		cmocka_unit_test(a_change_that_failed_without_attributes_makes_us_ask),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
