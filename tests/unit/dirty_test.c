/* SPDX-License-Identifier: MIT */
#include "dirty.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const uint8_t boot1[DIRTY_VERF_BYTES] = "boot-01", boot2[DIRTY_VERF_BYTES] = "boot-02";

/* Pieces that are cut off come from here, or from nowhere. */
static struct dirty_range spares[64];
static unsigned int spares_used, spares_max;

static struct dirty_range *split(struct dirty_range *range)
{
	(void)range;
	return spares_used < spares_max ? &spares[spares_used++] : NULL;
}

static int setup(void **state)
{
	(void)state;
	memset(spares, 0, sizeof spares);
	spares_used = 0;
	spares_max = 64;
	return 0;
}

static struct dirty_range range(uint64_t offset, uint64_t len)
{
	return (struct dirty_range){.offset = offset, .len_bytes = len};
}

static void add_and_answer(struct dirty *d, struct dirty_range *r, const uint8_t *verf)
{
	assert_true(dirty_add(d, r));
	assert_true(dirty_answered(d, r, verf, split));
}

/* What would be sent again, as text: "0+10 20+5". */
static const char *again_text(const struct dirty *d)
{
	static char text[256];
	text[0] = '\0';
	for (const struct dirty_range *r = d->again.first; r; r = r->next)
		if (r->len_bytes)
			sprintf(text + strlen(text), "%s%llu+%llu", text[0] ? " " : "",
				(unsigned long long)r->offset, (unsigned long long)r->len_bytes);
	return text;
}

static void writes_that_do_not_overlap_fly_together(void **state)
{
	struct dirty d = {0};
	struct dirty_range a = range(0, 10), b = range(10, 10), c = range(100, 1);
	(void)state;
	assert_true(dirty_add(&d, &a));
	assert_true(dirty_add(&d, &b));
	assert_true(dirty_add(&d, &c));
	assert_null(dirty_next_ready(&d));
}

static void the_newer_of_two_that_overlap_waits(void **state)
{
	struct dirty d = {0};
	struct dirty_range a = range(0, 10), b = range(9, 1);
	(void)state;
	assert_true(dirty_add(&d, &a));
	assert_false(dirty_add(&d, &b));
	assert_null(dirty_next_ready(&d));
	assert_true(dirty_answered(&d, &a, boot1, split));
	assert_ptr_equal(dirty_next_ready(&d), &b);
	assert_int_equal(b.state, DIRTY_FLYING);
	assert_null(dirty_next_ready(&d));
}

static void who_waits_keeps_the_order_of_arrival(void **state)
{
	struct dirty d = {0};
	struct dirty_range a = range(0, 10), b = range(5, 10), c = range(12, 10);
	(void)state;
	assert_true(dirty_add(&d, &a));
	assert_false(dirty_add(&d, &b));
	assert_false(dirty_add(&d, &c)); /* nothing that flies overlaps it, but b was first */
	assert_null(dirty_next_ready(&d));
	dirty_drop(&d, &a);
	assert_ptr_equal(dirty_next_ready(&d), &b);
	assert_null(dirty_next_ready(&d));
	dirty_drop(&d, &b);
	assert_ptr_equal(dirty_next_ready(&d), &c);
}

static void a_truncation_waits_for_writes_beyond_it_and_holds_back_later_ones(void **state)
{
	struct dirty d = {0};
	struct dirty_range before = range(0, 100), beyond = range(100, 50), later = range(4000, 1),
			   below = range(50, 10), cut = range(100, DIRTY_TO_END);
	(void)state;
	assert_true(dirty_add(&d, &before));
	assert_true(dirty_add(&d, &beyond));
	assert_false(dirty_add(&d, &cut));
	assert_false(dirty_add(&d, &later));
	dirty_drop(&d, &before);
	assert_null(dirty_next_ready(&d));
	assert_true(dirty_answered(&d, &beyond, boot1, split));
	assert_ptr_equal(dirty_next_ready(&d), &cut);
	assert_true(dirty_add(&d, &below));
	assert_null(dirty_next_ready(&d));
	dirty_drop(&d, &cut);
	dirty_truncate(&d, 100);
	assert_int_equal(beyond.len_bytes, 0);
	assert_int_equal(d.pending_end, 100);
	assert_ptr_equal(dirty_next_ready(&d), &later);
}

static struct dirty_range behind(uint64_t offset, uint64_t len)
{
	return (struct dirty_range){.offset = offset, .len_bytes = len, .behind = true};
}

static void what_is_fresh_grows_until_it_is_sent(void **state)
{
	struct dirty d = {0};
	struct dirty_range a = behind(0, 10);
	(void)state;
	assert_true(dirty_gather(&d, &a));
	assert_int_equal(a.state, DIRTY_FRESH);
	assert_false(dirty_none(&d));
	assert_true(dirty_grow(&d, &a, 5));
	assert_int_equal(a.len_bytes, 15);
	assert_true(dirty_send_fresh(&d, &a));
	assert_int_equal(a.state, DIRTY_FLYING);
	assert_false(dirty_grow(&d, &a, 5));
}

static void what_overlaps_something_fresh_goes_behind_it(void **state)
{
	struct dirty d = {0};
	struct dirty_range a = behind(0, 10), other = behind(50, 10), b = behind(5, 10);
	(void)state;
	assert_true(dirty_gather(&d, &a));
	assert_true(dirty_gather(&d, &other));
	assert_false(dirty_gather(&d, &b));
	assert_ptr_equal(dirty_next_ready(&d), &a);
	assert_null(dirty_next_ready(&d));
	assert_int_equal(other.state, DIRTY_FRESH);
	assert_true(dirty_answered(&d, &a, boot1, split));
	assert_ptr_equal(dirty_next_ready(&d), &b);
}

/* It would be sent before what it is newer than. */
static void nothing_grows_over_what_was_not_answered(void **state)
{
	struct dirty d = {0};
	struct dirty_range a = behind(0, 10), fresh = behind(20, 10), flying = behind(40, 10),
			   c = behind(30, 5);
	(void)state;
	assert_true(dirty_gather(&d, &a));
	assert_true(dirty_gather(&d, &fresh));
	assert_true(dirty_add(&d, &flying));
	assert_true(dirty_gather(&d, &c));
	assert_false(dirty_grow(&d, &a, 11));
	assert_true(dirty_grow(&d, &a, 10));
	assert_false(dirty_grow(&d, &c, 6));
	assert_true(dirty_grow(&d, &c, 5));
}

/* What it grew by is newer than what was kept meanwhile, and must cut that. */
static void what_has_grown_is_the_newest(void **state)
{
	struct dirty d = {0};
	struct dirty_range a = behind(0, 10), kept = behind(10, 10);
	bool ok;
	(void)state;
	assert_true(dirty_gather(&d, &a));
	add_and_answer(&d, &kept, boot1);
	assert_true(dirty_grow(&d, &a, 10));
	assert_true(dirty_send_fresh(&d, &a));
	assert_true(dirty_answered(&d, &a, boot1, split));
	assert_null(dirty_committed(&d, d.answers, boot2, split, &ok));
	assert_int_equal(kept.len_bytes, 0);
	assert_int_equal(kept.resends, 1);
	assert_int_equal(a.len_bytes, 20);
}

static void who_asks_waits_for_what_had_been_written_by_then(void **state)
{
	struct dirty d = {0};
	struct dirty_range a = behind(0, 10), sync = range(100, 10), later = behind(200, 10);
	(void)state;
	assert_true(dirty_add(&d, &sync)); /* its writer waits himself */
	assert_false(dirty_unanswered(&d, UINT64_MAX));
	assert_true(dirty_gather(&d, &a));
	uint64_t upto = d.seq;
	assert_true(dirty_unanswered(&d, upto));
	dirty_release(&d);
	assert_ptr_equal(dirty_next_ready(&d), &a);
	assert_true(dirty_add(&d, &later));
	assert_true(dirty_unanswered(&d, upto));
	assert_true(dirty_answered(&d, &a, boot1, split));
	assert_false(dirty_unanswered(&d, upto));
	assert_true(dirty_unanswered(&d, UINT64_MAX));
}

static void the_size_counts_what_is_behind(void **state)
{
	struct dirty d = {0};
	struct dirty_range a = behind(0, 10), b = behind(90, 10), waits = range(300, 10);
	struct dirty_range cut = range(50, DIRTY_TO_END);
	(void)state;
	assert_true(dirty_add(&d, &waits));
	assert_int_equal(d.pending_end, 0); /* write(2) has not returned */
	dirty_drop(&d, &waits);
	assert_true(dirty_gather(&d, &a));
	assert_true(dirty_gather(&d, &b));
	assert_int_equal(d.pending_end, 100);
	assert_true(dirty_grow(&d, &b, 20));
	assert_int_equal(d.pending_end, 120);
	assert_false(dirty_add(&d, &cut));
	assert_ptr_equal(dirty_next_ready(&d), &b);
	dirty_drop(&d, &b); /* it failed */
	assert_int_equal(d.pending_end, 10);
	assert_ptr_equal(dirty_next_ready(&d), &cut);
	struct dirty_range later = behind(60, 10);
	assert_false(dirty_gather(&d, &later));
	dirty_drop(&d, &cut);
	dirty_truncate(&d, 50);
	assert_int_equal(d.pending_end, 70);
}

static void the_same_verifier_makes_all_that_was_answered_before_stable(void **state)
{
	struct dirty d = {0};
	struct dirty_range a = range(0, 10), b = range(10, 10), c = range(20, 10);
	bool ok;
	(void)state;
	add_and_answer(&d, &a, boot1);
	add_and_answer(&d, &b, boot1);
	uint64_t upto = d.answers; /* the COMMIT leaves */
	add_and_answer(&d, &c, boot1);
	assert_int_equal(d.pending_end, 30);
	struct dirty_range *stable = dirty_committed(&d, upto, boot1, split, &ok);
	assert_true(ok);
	assert_ptr_equal(stable, &a);
	assert_ptr_equal(stable->next, &b);
	assert_null(b.next);
	assert_ptr_equal(d.kept.first, &c);
	assert_true(dirty_is_stable(&d, upto));
	assert_false(dirty_is_stable(&d, d.answers));
	assert_ptr_equal(dirty_committed(&d, d.answers, boot1, split, &ok), &c);
	assert_true(dirty_none(&d));
	assert_int_equal(d.pending_end, 0);
}

static void another_verifier_sends_again(void **state)
{
	struct dirty d = {0};
	struct dirty_range a = range(0, 10), b = range(50, 10);
	bool ok;
	(void)state;
	add_and_answer(&d, &a, boot1);
	add_and_answer(&d, &b, boot2); /* answered after the restart */
	assert_ptr_equal(dirty_committed(&d, d.answers, boot2, split, &ok), &b);
	assert_string_equal(again_text(&d), "0+10");
	assert_false(dirty_is_stable(&d, d.answers));
	assert_int_equal(d.pending_end, 10);
	assert_true(dirty_send_again(&d, &a));
	assert_true(dirty_answered(&d, &a, boot2, split));
	assert_int_equal(d.nagain, 0);
	assert_ptr_equal(dirty_committed(&d, d.answers, boot2, split, &ok), &a);
	assert_true(dirty_none(&d));
}

static void what_is_sent_again_is_cut_by_newer_bytes(void **state)
{
	struct dirty d = {0};
	struct dirty_range old = range(0, 100), mid = range(40, 10), head = range(0, 5), tail = range(95, 50);
	bool ok;
	(void)state;
	add_and_answer(&d, &old, boot1);
	add_and_answer(&d, &mid, boot1);
	add_and_answer(&d, &head, boot1);
	add_and_answer(&d, &tail, boot1);
	assert_null(dirty_committed(&d, d.answers, boot2, split, &ok));
	assert_true(ok);
	assert_string_equal(again_text(&d), "5+35 50+45 40+10 0+5 95+50");
	assert_int_equal(d.nagain, 5);
}

static void newer_bytes_that_the_same_commit_made_stable_cut_too(void **state)
{
	struct dirty d = {0};
	struct dirty_range old = range(0, 30), newer = range(10, 10);
	bool ok;
	(void)state;
	add_and_answer(&d, &old, boot1);
	add_and_answer(&d, &newer, boot2);
	assert_ptr_equal(dirty_committed(&d, d.answers, boot2, split, &ok), &newer);
	assert_string_equal(again_text(&d), "0+10 20+10");
}

static void a_newer_write_that_is_answered_cuts_what_still_waits_to_be_sent_again(void **state)
{
	struct dirty d = {0};
	struct dirty_range old = range(0, 30), newer = range(0, 20);
	bool ok;
	(void)state;
	add_and_answer(&d, &old, boot1);
	assert_null(dirty_committed(&d, d.answers, boot2, split, &ok));
	assert_true(dirty_add(&d, &newer)); /* goes first */
	assert_false(dirty_send_again(&d, &old));
	assert_true(dirty_answered(&d, &newer, boot2, split));
	assert_ptr_equal(dirty_next_ready(&d), &old);
	assert_int_equal(old.offset, 20);
	assert_int_equal(old.len_bytes, 10);
}

static void a_newer_write_waits_for_what_is_being_sent_again(void **state)
{
	struct dirty d = {0};
	struct dirty_range old = range(0, 30), newer = range(0, 20);
	bool ok;
	(void)state;
	add_and_answer(&d, &old, boot1);
	assert_null(dirty_committed(&d, d.answers, boot2, split, &ok));
	assert_true(dirty_send_again(&d, &old));
	assert_false(dirty_add(&d, &newer));
	assert_true(dirty_answered(&d, &old, boot2, split));
	assert_ptr_equal(dirty_next_ready(&d), &newer);
	assert_int_equal(old.len_bytes, 30); /* it was there first */
}

static void bytes_that_became_stable_at_once_are_never_overwritten_by_older_ones(void **state)
{
	struct dirty d = {0};
	struct dirty_range old = range(0, 30), sync = range(10, 5);
	bool ok;
	(void)state;
	add_and_answer(&d, &old, boot1);
	assert_true(dirty_add(&d, &sync));
	assert_true(dirty_stable(&d, &sync, split));
	assert_int_equal(sync.state, DIRTY_IDLE);
	assert_null(dirty_committed(&d, d.answers, boot2, split, &ok));
	assert_string_equal(again_text(&d), "0+10 15+15");
}

static void what_was_cut_to_nothing_is_stable_whatever_the_verifier(void **state)
{
	struct dirty d = {0};
	struct dirty_range a = range(100, 50), cut = range(80, DIRTY_TO_END);
	bool ok;
	(void)state;
	add_and_answer(&d, &a, boot1);
	assert_true(dirty_add(&d, &cut));
	dirty_drop(&d, &cut);
	dirty_truncate(&d, 80);
	assert_ptr_equal(dirty_committed(&d, d.answers, boot2, split, &ok), &a);
	assert_true(dirty_none(&d));
}

static void a_split_that_fails_says_so_and_loses_only_what_is_behind(void **state)
{
	struct dirty d = {0};
	struct dirty_range old = range(0, 30), newer = range(10, 10);
	bool ok;
	(void)state;
	spares_max = 0;
	add_and_answer(&d, &old, boot1);
	add_and_answer(&d, &newer, boot2);
	assert_ptr_equal(dirty_committed(&d, d.answers, boot2, split, &ok), &newer);
	assert_false(ok);
	assert_string_equal(again_text(&d), "0+10");
}

static void ranges_up_to_the_last_byte_do_not_wrap(void **state)
{
	struct dirty d = {0};
	struct dirty_range last = range(UINT64_MAX - 5, 5), cut = range(UINT64_MAX - 3, DIRTY_TO_END),
			   low = range(0, 5);
	(void)state;
	assert_true(dirty_add(&d, &last));
	assert_false(dirty_add(&d, &cut));
	assert_true(dirty_add(&d, &low));
}

/*
 * A model: random WRITEs, restarts and COMMITs over 64 bytes. The "server" has volatile bytes that a restart
 * reverts to the stable ones; in the end it must hold, for each byte, the newest answered WRITE.
 */
struct model {
	struct dirty d;
	struct dirty_range *ranges[4096];
	unsigned int n;
	uint8_t stable[64], volatile_[64];
	uint64_t expect[64]; /* seq of the newest answered write */
	uint8_t boot[DIRTY_VERF_BYTES];
	uint64_t server[64], server_stable[64]; /* seq held by each byte */
};

static struct dirty_range *model_split(struct dirty_range *range)
{
	(void)range;
	struct dirty_range *r = test_calloc(1, sizeof *r);
	return r;
}

static void server_write(struct model *m, const struct dirty_range *r)
{
	for (uint64_t i = r->offset; i < r->offset + r->len_bytes; i++)
		m->server[i] = r->seq;
}

static void model_ready(struct model *m)
{
	struct dirty_range *ready;
	while ((ready = dirty_next_ready(&m->d)))
		if (ready->len_bytes == 0) {
			dirty_drop(&m->d, ready);
			test_free(ready);
		}
}

static void model_answer(struct model *m, struct dirty_range *r)
{
	server_write(m, r);
	if (!r->again)
		for (uint64_t i = r->offset; i < r->offset + r->len_bytes; i++)
			if (m->expect[i] < r->seq)
				m->expect[i] = r->seq;
	assert_true(dirty_answered(&m->d, r, m->boot, model_split));
	model_ready(m);
}

static void model_commit(struct model *m)
{
	bool ok;
	memcpy(m->server_stable, m->server, sizeof m->server);
	struct dirty_range *r = dirty_committed(&m->d, m->d.answers, m->boot, model_split, &ok);
	assert_true(ok);
	while (r) {
		struct dirty_range *next = r->next;
		test_free(r);
		r = next;
	}
}

static void model_send_again(struct model *m)
{
	struct dirty_range *r = m->d.again.first;
	if (!r)
		return;
	if (r->len_bytes == 0) {
		dirty_drop(&m->d, r);
		test_free(r);
	} else {
		dirty_send_again(&m->d, r);
	}
}

static void model_step(struct model *m)
{
	switch (rand() % 10) {
	case 0:
	case 1:
	case 2: {
		struct dirty_range *r = test_calloc(1, sizeof *r);
		r->offset = (uint64_t)(rand() % 60);
		r->len_bytes = 1 + (uint64_t)rand() % (64 - r->offset);
		r->behind = rand() % 2;
		if (r->behind)
			dirty_gather(&m->d, r);
		else
			dirty_add(&m->d, r);
		model_ready(m);
		break;
	}
	case 3:
	case 4:
		if (m->d.flying.first)
			model_answer(m, rand() % 2 ? m->d.flying.first : m->d.flying.last);
		break;
	case 5:
		model_send_again(m);
		break;
	case 6:
		model_commit(m);
		break;
	case 8:
		if (m->d.fresh.first && m->d.fresh.first->offset + m->d.fresh.first->len_bytes < 64)
			dirty_grow(&m->d, m->d.fresh.first, 1);
		break;
	case 9:
		if (m->d.fresh.first)
			dirty_send_fresh(&m->d, m->d.fresh.first);
		break;
	case 7:
		if (rand() % 4 == 0) {
			m->boot[0]++;
			memcpy(m->server, m->server_stable, sizeof m->server);
		}
		break;
	}
}

static void whatever_happens_the_newest_answered_bytes_win(void **state)
{
	(void)state;
	for (int seed = 1; seed <= 300; seed++) {
		struct model *m = test_calloc(1, sizeof *m);
		srand((unsigned int)seed);
		for (int i = 0; i < 400; i++)
			model_step(m);
		while (!dirty_none(&m->d)) { /* drain */
			dirty_release(&m->d);
			model_ready(m);
			if (m->d.flying.first)
				model_answer(m, m->d.flying.first);
			else if (m->d.again.first)
				model_send_again(m);
			else
				model_commit(m);
		}
		for (int i = 0; i < 64; i++)
			if (m->server_stable[i] != m->expect[i])
				fail_msg("seed %d byte %d: server has %llu, newest is %llu", seed, i,
					 (unsigned long long)m->server_stable[i],
					 (unsigned long long)m->expect[i]);
		assert_int_equal(m->d.pending_end, 0);
		test_free(m);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(writes_that_do_not_overlap_fly_together, setup),
		cmocka_unit_test_setup(the_newer_of_two_that_overlap_waits, setup),
		cmocka_unit_test_setup(who_waits_keeps_the_order_of_arrival, setup),
		cmocka_unit_test_setup(a_truncation_waits_for_writes_beyond_it_and_holds_back_later_ones,
				       setup),
		cmocka_unit_test_setup(what_is_fresh_grows_until_it_is_sent, setup),
		cmocka_unit_test_setup(what_overlaps_something_fresh_goes_behind_it, setup),
		cmocka_unit_test_setup(nothing_grows_over_what_was_not_answered, setup),
		cmocka_unit_test_setup(what_has_grown_is_the_newest, setup),
		cmocka_unit_test_setup(who_asks_waits_for_what_had_been_written_by_then, setup),
		cmocka_unit_test_setup(the_size_counts_what_is_behind, setup),
		cmocka_unit_test_setup(the_same_verifier_makes_all_that_was_answered_before_stable, setup),
		cmocka_unit_test_setup(another_verifier_sends_again, setup),
		cmocka_unit_test_setup(what_is_sent_again_is_cut_by_newer_bytes, setup),
		cmocka_unit_test_setup(newer_bytes_that_the_same_commit_made_stable_cut_too, setup),
		cmocka_unit_test_setup(a_newer_write_that_is_answered_cuts_what_still_waits_to_be_sent_again,
				       setup),
		cmocka_unit_test_setup(a_newer_write_waits_for_what_is_being_sent_again, setup),
		cmocka_unit_test_setup(bytes_that_became_stable_at_once_are_never_overwritten_by_older_ones,
				       setup),
		cmocka_unit_test_setup(what_was_cut_to_nothing_is_stable_whatever_the_verifier, setup),
		cmocka_unit_test_setup(a_split_that_fails_says_so_and_loses_only_what_is_behind, setup),
		cmocka_unit_test_setup(ranges_up_to_the_last_byte_do_not_wrap, setup),
		cmocka_unit_test_setup(whatever_happens_the_newest_answered_bytes_win, setup),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
