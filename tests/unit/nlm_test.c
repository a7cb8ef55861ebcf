/* SPDX-License-Identifier: MIT
 *
 * The lock manager's messages, against libnfs's decoders and word by word, and its service against calls of
 * every kind.
 */
#include <sys/time.h> /* libnfs 4.0.0's header uses timeval without it */

#include <nfsc/libnfs-zdr.h>

#include <nfsc/libnfs-raw-nlm.h>

#include "locks.h"
#include "nlm_svc.h"
#include "nlm_xdr.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static const struct nfs3_fh fh = {.len = 6, .data = "handle"};
static struct cred cred;
static uint8_t msg[NLM_CALL_MAX];

static int setup(void **state)
{
	cred_init(&cred, "host", 7, 8, NULL, 0);
	return 0;
}

/* ---- what leaves ---- */

static struct nlm_lock a_lock(uint64_t start, uint64_t end)
{
	return (struct nlm_lock){
		.caller = "host", .fh = &fh, .svid = 77, .start = start, .end = end, .exclusive = true};
}

/* Checks the head, and decodes the arguments by libnfs. */
static void decode(int len, uint32_t proc, zdrproc_t get, void *args, size_t size)
{
	struct xdr_reader r = xdr_reader(msg, (size_t)len);
	ZDR z;
	assert_true(len > 0);
	assert_int_equal(xdr_u32(&r), 5);
	xdr_u64(&r); /* CALL, version 2 */
	assert_int_equal(xdr_u32(&r), NLM_PROG);
	assert_int_equal(xdr_u32(&r), NLM_VERS);
	assert_int_equal(xdr_u32(&r), proc);
	xdr_u32(&r);
	xdr_bytes(&r, xdr_u32(&r));
	xdr_u64(&r);
	assert_true(xdr_ok(&r));
	memset(args, 0, size);
	zdrmem_create(&z, (char *)(uintptr_t)r.pos, (uint32_t)xdr_left(&r), ZDR_DECODE);
	assert_true(get(&z, args));
	assert_int_equal(zdr_getpos(&z), xdr_left(&r));
	zdr_destroy(&z);
}
#define DECODE(len, proc, type, args) decode(len, proc, (zdrproc_t)zdr_##type, args, sizeof *(args))

static void lock_calls_are_what_libnfs_reads(void **state)
{
	struct nlm_lock lock = a_lock(10, 29);
	NLM4_LOCKargs args;
	DECODE(nlm_put_lock(msg, 5, &cred, &lock, true, false, 3), NLM4_LOCK, NLM4_LOCKargs, &args);
	assert_true(args.block && args.exclusive && !args.reclaim && args.state == 3);
	assert_true(args.lock.svid == 77 && args.lock.l_offset == 10 && args.lock.l_len == 20);
	lock = a_lock(10, LOCKS_END);
	DECODE(nlm_put_lock(msg, 5, &cred, &lock, false, true, 3), NLM4_LOCK, NLM4_LOCKargs, &args);
	assert_true(!args.block && args.reclaim && args.lock.l_len == 0);
}

static void other_calls_are_what_libnfs_reads(void **state)
{
	struct nlm_lock lock = a_lock(0, 0);
	NLM4_TESTargs test;
	NLM4_CANCargs cancel;
	NLM4_UNLOCKargs unlock;
	NLM4_GRANTEDres granted;
	DECODE(nlm_put_test(msg, 5, &cred, &lock), NLM4_TEST, NLM4_TESTargs, &test);
	assert_true(test.exclusive && test.lock.l_offset == 0 && test.lock.l_len == 1);
	DECODE(nlm_put_cancel(msg, 5, &cred, &lock, true), NLM4_CANCEL, NLM4_CANCargs, &cancel);
	assert_true(cancel.block && cancel.exclusive && cancel.lock.svid == 77);
	DECODE(nlm_put_unlock(msg, 5, &cred, &lock), NLM4_UNLOCK, NLM4_UNLOCKargs, &unlock);
	assert_int_equal(unlock.lock.svid, 77);
	DECODE(nlm_put_granted_res(msg, 5, &cred, (const uint8_t *)"cookie", 6, NLM_DENIED), NLM4_GRANT_RES,
	       NLM4_GRANTEDres, &granted);
	assert_true(granted.cookie.data.data_len == 6 && granted.status == NLM4_DENIED);
}

static void the_longest_call_fits(void **state)
{
	struct nfs3_fh long_fh = {.len = NFS3_FH_MAX};
	char name[64];
	uint32_t gids[CRED_GIDS_MAX];
	memset(name, 'n', sizeof name);
	name[63] = 0;
	for (uint32_t i = 0; i < CRED_GIDS_MAX; i++)
		gids[i] = i + 100;
	cred_init(&cred, name, 1, 2, gids, CRED_GIDS_MAX);
	struct nlm_lock lock = {
		.caller = name, .fh = &long_fh, .svid = UINT32_MAX, .start = 5, .end = LOCKS_END};
	assert_true(nlm_put_lock(msg, UINT32_MAX, &cred, &lock, true, true, -1) > 0);
}

/* ---- what comes ---- */

static uint8_t in[4096];
static struct xdr_writer w;

static void begin(void)
{
	w = xdr_writer(in, sizeof in);
}

static struct xdr_reader reader(void)
{
	return xdr_reader(in, xdr_written(&w));
}

static void put_holder(uint64_t offset, uint64_t len)
{
	begin();
	xdr_put_opaque(&w, "1234", 4);
	xdr_put_u32(&w, NLM_DENIED);
	xdr_put_u32(&w, 1);
	xdr_put_u32(&w, 99);
	xdr_put_opaque(&w, "oh", 2);
	xdr_put_u64(&w, offset);
	xdr_put_u64(&w, len);
}

static void holders_lie_within_a_file(void **state)
{
	static const struct {
		uint64_t offset, len, start, end;
	} cases[] = {
		{0, 1, 0, 0},
		{5, 10, 5, 14},
		{5, 0, 5, LOCKS_END},
		{0, UINT64_MAX, 0, LOCKS_END},
		{7, LOCKS_END, 7, LOCKS_END},
		{UINT64_MAX, 1, LOCKS_END, LOCKS_END},
		{UINT64_MAX, UINT64_MAX, LOCKS_END, LOCKS_END},
		{LOCKS_END, 1, LOCKS_END, LOCKS_END},
	};
	struct nlm_holder holder;
	uint32_t status;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		put_holder(cases[i].offset, cases[i].len);
		struct xdr_reader r = reader();
		assert_int_equal(nlm_get_test(&r, &status, &holder), 0);
		assert_true(status == NLM_DENIED && holder.exclusive && holder.svid == 99);
		assert_true(holder.start == cases[i].start && holder.end == cases[i].end);
	}
}

static void results_that_are_cut_short_are_bad(void **state)
{
	struct nlm_holder holder;
	uint32_t status;
	put_holder(1, 2);
	for (size_t len = 0; len < xdr_written(&w); len++) {
		struct xdr_reader r = xdr_reader(in, len);
		assert_int_equal(nlm_get_test(&r, &status, &holder), -EBADMSG);
	}
}

static void every_status_has_an_errno(void **state)
{
	for (uint32_t status = 0; status < 20; status++)
		assert_true((nlm_errno(status) == 0) == (status == NLM_GRANTED));
	assert_int_equal(nlm_errno(NLM_DENIED), -EAGAIN);
	assert_int_equal(nlm_errno(NLM_DEADLCK), -EDEADLK);
	assert_int_equal(nlm_errno(UINT32_MAX), -ENOLCK);
}

/* ---- the service ---- */

static struct {
	unsigned int granted, granted_res, notify;
	struct nlm_granted last;
	struct nsm_notify last_notify;
	uint32_t status;
} seen;

static uint32_t on_granted(void *ctx, const struct nlm_granted *granted)
{
	seen.granted++;
	seen.last = *granted;
	return NLM_GRANTED;
}

static void on_granted_res(void *ctx, const struct nlm_granted *granted, uint32_t status)
{
	seen.granted_res++;
	seen.status = status;
}

static void on_notify(void *ctx, const struct nsm_notify *notify)
{
	seen.notify++;
	seen.last_notify = *notify;
}

static const struct nlm_svc_calls calls = {on_granted, on_granted_res, on_notify};
static uint8_t out[NLM_SVC_REPLY_MAX];

static int fresh(void **state)
{
	memset(&seen, 0, sizeof seen);
	return setup(state);
}

static void put_head(uint32_t rpcvers, uint32_t prog, uint32_t vers, uint32_t proc)
{
	const uint32_t words[] = {9, 0, rpcvers, prog, vers, proc};
	begin();
	for (size_t i = 0; i < 6; i++)
		xdr_put_u32(&w, words[i]);
	xdr_put_u32(&w, 1);
	xdr_put_opaque(&w, cred.body, cred.body_len);
	xdr_put_u64(&w, 0);
}

static void put_granted(uint32_t proc)
{
	put_head(2, NLM_PROG, NLM_VERS, proc);
	xdr_put_opaque(&w, "cook", 4);
	xdr_put_u32(&w, 1);
	xdr_put_opaque(&w, "server", 6);
	xdr_put_opaque(&w, fh.data, fh.len);
	xdr_put_opaque(&w, "77@host", 7);
	xdr_put_u32(&w, 77);
	xdr_put_u64(&w, 10);
	xdr_put_u64(&w, 0);
}

static void put_notify(void)
{
	put_head(2, NLM_PROG, NLM_VERS, NLM_PROC_NSM_NOTIFY);
	xdr_put_opaque(&w, "server", 6);
	xdr_put_u32(&w, 5);
	memcpy(xdr_reserve(&w, NSM_PRIV_BYTES), "0123456789abcdef", NSM_PRIV_BYTES);
}

/* Sends what was put; returns the accept_stat with the result behind it in *r, or -1 for no reply. */
static int ask(unsigned int peer, struct xdr_reader *r)
{
	size_t len = nlm_svc_answer(&calls, NULL, peer, in, xdr_written(&w), out);
	if (!len)
		return -1;
	*r = xdr_reader(out, len);
	assert_int_equal(xdr_u32(r), 9);
	assert_int_equal(xdr_u32(r), 1);
	assert_int_equal(xdr_u32(r), 0);
	xdr_u64(r);
	int stat = (int)xdr_u32(r);
	assert_true(xdr_ok(r));
	return stat;
}

static void a_grant_is_taken_and_answered(void **state)
{
	struct xdr_reader r;
	uint32_t len;
	put_granted(NLM_PROC_GRANTED);
	assert_int_equal(ask(NLM_PEER_SERVER, &r), 0);
	assert_memory_equal(xdr_opaque(&r, 4, &len), "cook", 4);
	assert_int_equal(xdr_u32(&r), NLM_GRANTED);
	assert_true(seen.granted == 1 && seen.granted_res == 0 && seen.last.svid == 77);
	assert_true(seen.last.start == 10 && seen.last.end == LOCKS_END && seen.last.exclusive);
	assert_memory_equal(&seen.last.fh, &fh, sizeof fh);
	put_granted(NLM_PROC_GRANTED_MSG);
	assert_int_equal(ask(NLM_PEER_SERVER, &r), 0);
	assert_int_equal(xdr_left(&r), 0); /* the answer goes by a call */
	assert_true(seen.granted == 2 && seen.granted_res == 1 && seen.status == NLM_GRANTED);
}

static void only_the_server_grants_and_only_this_machine_notifies(void **state)
{
	struct xdr_reader r;
	uint32_t len;
	put_granted(NLM_PROC_GRANTED);
	assert_int_equal(ask(NLM_PEER_LOCAL, &r), 0);
	xdr_opaque(&r, 4, &len);
	assert_int_equal(xdr_u32(&r), NLM_DENIED);
	put_granted(NLM_PROC_GRANTED_MSG);
	assert_int_equal(ask(NLM_PEER_LOCAL, &r), 0);
	put_notify();
	assert_int_equal(ask(NLM_PEER_SERVER, &r), 0);
	assert_true(seen.granted == 0 && seen.granted_res == 0 && seen.notify == 0);
	assert_int_equal(ask(NLM_PEER_LOCAL, &r), 0);
	assert_true(seen.notify == 1 && seen.last_notify.state == 5);
	assert_memory_equal(seen.last_notify.priv, "0123456789abcdef", NSM_PRIV_BYTES);
}

static void what_is_not_served_is_said(void **state)
{
	struct xdr_reader r;
	put_head(2, NLM_PROG, NLM_VERS, NLM_PROC_NULL);
	assert_int_equal(ask(NLM_PEER_LOCAL, &r), 0);
	put_head(2, NLM_PROG + 1, NLM_VERS, 0);
	assert_int_equal(ask(NLM_PEER_LOCAL, &r), 1);
	put_head(2, NLM_PROG, 3, 0);
	assert_int_equal(ask(NLM_PEER_LOCAL, &r), 2);
	assert_true(xdr_u32(&r) == NLM_VERS && xdr_u32(&r) == NLM_VERS && xdr_ok(&r));
	put_head(2, NLM_PROG, NLM_VERS, NLM_PROC_LOCK);
	assert_int_equal(ask(NLM_PEER_SERVER, &r), 3);
	put_head(3, NLM_PROG, NLM_VERS, 0);
	size_t len = nlm_svc_answer(&calls, NULL, NLM_PEER_LOCAL, in, xdr_written(&w), out);
	assert_int_equal(len, 6 * 4); /* denied: RPC_MISMATCH, 2 to 2 */
}

static void calls_that_are_cut_short_do_nothing(void **state)
{
	put_granted(NLM_PROC_GRANTED_MSG);
	size_t whole = xdr_written(&w);
	for (size_t len = 0; len < whole; len++)
		nlm_svc_answer(&calls, NULL, NLM_PEER_SERVER | NLM_PEER_LOCAL, in, len, out);
	put_notify();
	whole = xdr_written(&w);
	for (size_t len = 0; len < whole; len++)
		nlm_svc_answer(&calls, NULL, NLM_PEER_SERVER | NLM_PEER_LOCAL, in, len, out);
	assert_true(seen.granted == 0 && seen.granted_res == 0 && seen.notify == 0);
}

/* Lengths that lie, in a buffer of exactly the call's size: the sanitizers watch its ends. */
static void scrambled_calls_are_survived(void **state)
{
	srand(5);
	for (int i = 0; i < 20000; i++) {
		put_granted(i & 1 ? NLM_PROC_GRANTED : NLM_PROC_GRANTED_MSG);
		size_t len = xdr_written(&w);
		uint8_t *call = malloc(len);
		memcpy(call, in, len);
		for (int n = rand() % 4; n >= 0; n--)
			call[(size_t)rand() % len] = (uint8_t)rand();
		size_t replied =
			nlm_svc_answer(&calls, NULL, NLM_PEER_SERVER | NLM_PEER_LOCAL, call, len, out);
		assert_true(replied <= NLM_SVC_REPLY_MAX);
		assert_true(seen.last.cookie_bytes <= NLM_COOKIE_MAX && seen.last.fh.len <= NFS3_FH_MAX);
		assert_true(seen.last.start <= seen.last.end && seen.last.end <= LOCKS_END);
		free(call);
	}
}

int main(void)
{
#define T(name) cmocka_unit_test_setup(name, fresh)
	const struct CMUnitTest tests[] = {
		T(lock_calls_are_what_libnfs_reads),
		T(other_calls_are_what_libnfs_reads),
		T(the_longest_call_fits),
		T(holders_lie_within_a_file),
		T(results_that_are_cut_short_are_bad),
		T(every_status_has_an_errno),
		T(a_grant_is_taken_and_answered),
		T(only_the_server_grants_and_only_this_machine_notifies),
		T(what_is_not_served_is_said),
		T(calls_that_are_cut_short_do_nothing),
		T(scrambled_calls_are_survived),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
