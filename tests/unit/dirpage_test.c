/* SPDX-License-Identifier: MIT
 *
 * Pages of a listing, cookies that go round, and silly names.
 */
#include "dirpage.h"
#include "silly.h"
#include "xdr.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

/* A READDIR result, written by hand. */
struct reply {
	uint8_t bytes[4096];
	struct xdr_writer w;
};

static void reply_begin(struct reply *r)
{
	r->w = xdr_writer(r->bytes, sizeof r->bytes);
	xdr_put_u32(&r->w, NFS3_OK);
	xdr_put_u32(&r->w, 0); /* no attributes */
	xdr_put_u64(&r->w, 0); /* verifier */
}

static void reply_entry(struct reply *r, uint64_t cookie, const char *name)
{
	xdr_put_u32(&r->w, 1);
	xdr_put_u64(&r->w, cookie + 1000);
	xdr_put_opaque(&r->w, name, (uint32_t)strlen(name));
	xdr_put_u64(&r->w, cookie);
}

static void reply_end(struct reply *r, bool eof)
{
	xdr_put_u32(&r->w, 0);
	xdr_put_u32(&r->w, eof);
}

static int load(struct dirpage *page, struct reply *r, uint64_t start)
{
	struct nfs3_list_head head;

	return dirpage_load(page, r->bytes, xdr_written(&r->w), false, start, &head);
}

static void abc(struct reply *r, bool eof)
{
	reply_begin(r);
	reply_entry(r, 5, "a");
	reply_entry(r, 0xffffffff00000001u, "b"); /* the top bit is the server's, too */
	reply_entry(r, 3, "c");
	reply_end(r, eof);
}

static void assert_next(struct dirpage *page, const char *name)
{
	struct nfs3_entry e;

	assert_true(dirpage_peek(page, &e));
	assert_int_equal(e.name_len, strlen(name));
	assert_memory_equal(e.name, name, e.name_len);
}

static void entries_come_in_order_and_stay_until_stepped_over(void **state)
{
	struct dirpage page = {0};
	struct reply r;
	struct nfs3_entry e;

	abc(&r, true);
	assert_int_equal(load(&page, &r, 0), 0);
	assert_next(&page, "a");
	assert_next(&page, "a");
	dirpage_step(&page);
	assert_next(&page, "b");
	dirpage_step(&page);
	assert_next(&page, "c");
	dirpage_step(&page);
	assert_false(dirpage_peek(&page, &e));
	assert_true(page.eof);
	dirpage_fini(&page);
}

static void any_cookie_of_the_page_can_be_gone_back_to(void **state)
{
	struct dirpage page = {0};
	struct reply r;

	abc(&r, false);
	assert_int_equal(load(&page, &r, 77), 0);
	assert_true(dirpage_seek(&page, 5));
	assert_next(&page, "b");
	assert_true(dirpage_seek(&page, 0xffffffff00000001u));
	assert_next(&page, "c");
	assert_true(dirpage_seek(&page, 77));
	assert_next(&page, "a");
	assert_true(dirpage_seek(&page, 3));
	assert_int_equal(page.end, 3);
	assert_false(dirpage_seek(&page, 42));
	dirpage_fini(&page);
}

static void a_page_outlives_the_reply(void **state)
{
	struct dirpage page = {0};
	struct reply r;

	abc(&r, true);
	load(&page, &r, 0);
	memset(&r, 0xee, sizeof r);
	assert_next(&page, "a");
	dirpage_fini(&page);
}

static void skipped_names_do_not_stop_the_listing(void **state)
{
	struct dirpage page = {0};
	struct reply r;
	struct nfs3_entry e;

	reply_begin(&r);
	reply_entry(&r, 5, "a/b");
	reply_entry(&r, 6, "");
	reply_end(&r, false);
	assert_int_equal(load(&page, &r, 1), 0);
	assert_false(dirpage_peek(&page, &e));
	assert_int_equal(page.skipped, 2);
	assert_int_equal(page.end, 6);
	dirpage_fini(&page);
}

static void an_empty_page_before_the_end_is_a_circle(void **state)
{
	struct dirpage page = {0};
	struct reply r;

	reply_begin(&r);
	reply_end(&r, false);
	assert_int_equal(load(&page, &r, 9), -ELOOP);
	dirpage_fini(&page);
}

static void an_empty_page_at_the_end_is_the_end(void **state)
{
	struct dirpage page = {0};
	struct reply r;

	reply_begin(&r);
	reply_end(&r, true);
	assert_int_equal(load(&page, &r, 9), 0);
	assert_true(page.eof);
	assert_true(dirpage_seek(&page, 9));
	dirpage_fini(&page);
}

static void a_reply_cut_short_anywhere_loads_nothing(void **state)
{
	struct reply r;

	abc(&r, true);
	for (size_t len = 0; len < xdr_written(&r.w); len++) {
		struct dirpage page = {0};
		struct nfs3_list_head head;

		assert_int_equal(dirpage_load(&page, r.bytes, len, false, 0, &head), -EBADMSG);
		assert_false(page.loaded);
		assert_false(dirpage_seek(&page, 5));
		dirpage_fini(&page);
	}
}

/* Of no bytes there is nothing to keep, not even a place. */
static void a_reply_of_no_bytes_loads_nothing(void **state)
{
	struct dirpage page = {0};
	struct nfs3_list_head head;
	struct nfs3_entry e;

	assert_int_equal(dirpage_load(&page, "", 0, false, 0, &head), -EBADMSG);
	assert_false(page.loaded);
	assert_false(dirpage_peek(&page, &e));
	dirpage_fini(&page);
}

static void a_refusal_loads_nothing(void **state)
{
	struct dirpage page = {0};
	struct nfs3_list_head head;
	struct reply r;

	r.w = xdr_writer(r.bytes, sizeof r.bytes);
	xdr_put_u32(&r.w, NFS3ERR_BAD_COOKIE);
	xdr_put_u32(&r.w, 0);
	assert_int_equal(dirpage_load(&page, r.bytes, xdr_written(&r.w), false, 8, &head), 0);
	assert_int_equal(head.status, NFS3ERR_BAD_COOKIE);
	assert_false(page.loaded);
	dirpage_fini(&page);
}

static void a_circle_over_several_pages_is_found(void **state)
{
	struct dirpage page = {0};
	struct reply r;
	int err = 0;
	unsigned int pages = 0;

	for (uint64_t at = 0; !err; at = page.end) {
		reply_begin(&r);
		reply_entry(&r, at % 40 + 1, "x");
		reply_entry(&r, at % 40 + 2, "y");
		reply_end(&r, false);
		err = load(&page, &r, at);
		assert_true(++pages < 100);
	}
	assert_int_equal(err, -ELOOP);
	assert_true(pages > 20);
	dirpage_fini(&page);
}

static void going_back_is_not_a_circle(void **state)
{
	struct dirpage page = {0};
	struct reply r;

	for (int i = 0; i < 50; i++) { /* rewinddir() again and again */
		abc(&r, false);
		assert_int_equal(load(&page, &r, 0), 0);
	}
	dirpage_fini(&page);
}

static void every_circle_is_found_in_time(void **state)
{
	for (uint64_t before = 0; before < 30; before++) {
		for (uint64_t around = 1; around < 30; around++) {
			struct cookie_loop loop;
			uint64_t steps = 0, cookie;

			cookie_loop_start(&loop, 0);
			do {
				cookie = steps < before ? steps + 1 : before + (steps - before) % around + 1;
				steps++;
			} while (!cookie_loop_step(&loop, cookie));
			assert_true(steps > before + around - 1);
			assert_true(steps <= 3 * (before + around) + 3);
		}
	}
}

static void rising_cookies_are_no_circle(void **state)
{
	struct cookie_loop loop;

	cookie_loop_start(&loop, 0);
	for (uint64_t i = 1; i < 100000; i++)
		assert_false(cookie_loop_step(&loop, i));
}

static void cookie_zero_would_begin_anew(void **state)
{
	struct cookie_loop loop;

	cookie_loop_start(&loop, 12);
	assert_true(cookie_loop_step(&loop, 0));
}

static void silly_names_show_fileid_and_counter(void **state)
{
	char name[SILLY_NAME_BYTES];

	silly_name(name, 0x1234, 0xab);
	assert_string_equal(name, ".nfs0000000000001234000000ab");
	silly_name(name, UINT64_MAX, UINT32_MAX);
	assert_string_equal(name, ".nfsffffffffffffffffffffffff");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(entries_come_in_order_and_stay_until_stepped_over),
		cmocka_unit_test(any_cookie_of_the_page_can_be_gone_back_to),
		cmocka_unit_test(a_page_outlives_the_reply),
		cmocka_unit_test(skipped_names_do_not_stop_the_listing),
		cmocka_unit_test(an_empty_page_before_the_end_is_a_circle),
		cmocka_unit_test(an_empty_page_at_the_end_is_the_end),
		cmocka_unit_test(a_reply_cut_short_anywhere_loads_nothing),
		cmocka_unit_test(a_reply_of_no_bytes_loads_nothing),
		cmocka_unit_test(a_refusal_loads_nothing),
		cmocka_unit_test(a_circle_over_several_pages_is_found),
		cmocka_unit_test(going_back_is_not_a_circle),
		cmocka_unit_test(every_circle_is_found_in_time),
		cmocka_unit_test(rising_cookies_are_no_circle),
		cmocka_unit_test(cookie_zero_would_begin_anew),
		cmocka_unit_test(silly_names_show_fileid_and_counter),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
