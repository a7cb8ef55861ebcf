/* SPDX-License-Identifier: MIT
 *
 * The fake device keeps the rules that tests of the transport rely on.
 */
#include "fake_device.h"

#include <errno.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

struct pair {
	struct rdma_listener *listener;
	struct rdma_ep *a, *b; /* a connected to b */
	struct fmr_region ra, rb;
	char ma[8192], mb[8192];
};

static struct pair pair;

static int connect_pair(void **state)
{
	struct rdma_ep_params params = {.epoll_fd = -1};
	struct sockaddr_in addr = {.sin_family = AF_INET};

	fake_reset();
	memset(&pair, 0, sizeof pair);
	assert_int_equal(fake_device.listen((struct sockaddr *)&addr, sizeof addr, &pair.listener), 0);
	addr.sin_port = htons(fake_device.listener_port(pair.listener));
	assert_int_equal(fake_device.open(&params, &pair.a), 0);
	pair.ra = (struct fmr_region){.addr = pair.ma, .len_bytes = sizeof pair.ma};
	assert_int_equal(pair.a->ops->fmr.region_register(pair.a, &pair.ra, 0), 0);
	assert_int_equal(pair.a->ops->connect(pair.a, (struct sockaddr *)&addr, sizeof addr, "hi", 2), 0);
	assert_int_equal(fake_device.listener_accept(pair.listener, &params, NULL, &pair.b), 0);
	assert_int_equal(fake_device.listener_accept(pair.listener, &params, NULL, &(struct rdma_ep *){0}),
			 -EAGAIN);
	pair.rb = (struct fmr_region){.addr = pair.mb, .len_bytes = sizeof pair.mb};
	assert_int_equal(pair.b->ops->fmr.region_register(pair.b, &pair.rb, 0), 0);
	assert_int_equal(pair.b->state, RDMA_EP_CONNECTING);
	pair.b->ops->progress(pair.b, 0);
	assert_int_equal(pair.b->state, RDMA_EP_REQUESTED);
	assert_memory_equal(pair.b->peer_private, "hi", 2);
	assert_int_equal(pair.b->ops->accept(pair.b, "yes", 3), 0);
	assert_int_equal(pair.a->state, RDMA_EP_CONNECTING);
	pair.a->ops->progress(pair.a, 0);
	assert_int_equal(pair.a->state, RDMA_EP_ESTABLISHED);
	assert_int_equal(pair.b->state, RDMA_EP_ESTABLISHED);
	assert_int_equal(pair.a->peer_private_len, 3);
	return 0;
}

static int close_pair(void **state)
{
	assert_int_equal(fake_counts(pair.a)->misuses, 0);
	assert_int_equal(fake_counts(pair.b)->misuses, 0);
	pair.a->ops->close(pair.a);
	pair.b->ops->close(pair.b);
	fake_device.listener_close(pair.listener);
	assert_int_equal(fake_living(), 0);
	return 0;
}

static struct rdma_sge sge_a(uint32_t at, uint32_t len)
{
	return (struct rdma_sge){pair.ma + at, len, pair.ra.lkey};
}

static struct rdma_sge sge_b(uint32_t at, uint32_t len)
{
	return (struct rdma_sge){pair.mb + at, len, pair.rb.lkey};
}

static void post_recv(uint32_t at, uint32_t len)
{
	struct rdma_sge sge = sge_b(at, len);
	assert_int_equal(pair.b->ops->queue_recv(pair.b, &sge, pair.mb + at), 0);
}

static int send_a(uint32_t at, uint32_t len, uint32_t rkey, void *ctx)
{
	struct rdma_sge sge = sge_a(at, len);
	return pair.a->ops->queue_send(pair.a, &sge, 1, rkey, ctx);
}

static struct rdma_wc poll_one(struct rdma_ep *ep)
{
	struct rdma_wc wc[2];
	assert_int_equal(ep->ops->poll(ep, wc, 1), 1);
	return wc[0];
}

static int poll_none(struct rdma_ep *ep)
{
	struct rdma_wc wc[1];
	return ep->ops->poll(ep, wc, 1);
}

static void both_find_out(void)
{
	assert_int_equal(pair.a->state, RDMA_EP_ESTABLISHED);
	pair.a->ops->progress(pair.a, 0);
	pair.b->ops->progress(pair.b, 0);
	assert_int_equal(pair.a->state, RDMA_EP_CLOSED);
	assert_int_equal(pair.b->state, RDMA_EP_CLOSED);
}

static void sends_leave_at_the_doorbell_in_order(void **state)
{
	post_recv(0, 100);
	post_recv(100, 100);
	memcpy(pair.ma, "onetwo", 6);
	assert_int_equal(send_a(0, 3, 0, NULL), 0);
	assert_int_equal(send_a(3, 3, 0, pair.ma), 0);
	assert_int_equal(poll_none(pair.b), 0);
	assert_int_equal(pair.a->ops->doorbell(pair.a), 0);
	assert_int_equal(fake_counts(pair.a)->doorbells, 1);
	struct rdma_wc wc = poll_one(pair.b);
	assert_int_equal(wc.kind, RDMA_WC_RECV);
	assert_ptr_equal(wc.ctx, pair.mb);
	assert_int_equal(wc.len_bytes, 3);
	assert_ptr_equal(poll_one(pair.b).ctx, pair.mb + 100);
	assert_memory_equal(pair.mb, "one", 3);
	assert_memory_equal(pair.mb + 100, "two", 3);
	wc = poll_one(pair.a);
	assert_int_equal(wc.kind, RDMA_WC_SEND);
	assert_ptr_equal(wc.ctx, pair.ma);
	assert_int_equal(poll_none(pair.a), 0);
}

static void send_without_a_receive_ends_both_sides(void **state)
{
	assert_int_equal(send_a(0, 3, 0, NULL), 0);
	assert_int_equal(pair.a->ops->doorbell(pair.a), 0);
	both_find_out();
	struct rdma_wc wc = poll_one(pair.a);
	assert_int_equal(wc.status, -ECANCELED);
}

static void send_longer_than_its_receive_ends_both_sides(void **state)
{
	post_recv(0, 2);
	assert_int_equal(send_a(0, 3, 0, NULL), 0);
	assert_int_equal(pair.a->ops->doorbell(pair.a), 0);
	both_find_out();
	assert_int_equal(poll_one(pair.b).status, -ECANCELED);
}

static struct fmr window_of_a(enum fmr_access access, uint32_t at, uint32_t len)
{
	struct fmr fmr = {.access = access, .addr = pair.ma + at, .len_bytes = len, .region = &pair.ra};
	assert_int_equal(pair.a->ops->fmr.window_alloc(pair.a, &fmr.window), 0);
	assert_int_equal(pair.a->ops->fmr.queue_bind(pair.a, &fmr), 0);
	return fmr;
}

static void window_opens_exactly_its_bytes(void **state)
{
	char buf[64] = {0};
	struct fmr fmr = window_of_a(FMR_REMOTE_READ, 100, 50);
	memset(pair.ma + 100, 'x', 50);
	assert_int_equal(fake_touch(pair.a, FMR_REMOTE_READ, fmr.rkey, fmr.remote_offset, buf, 50), -EACCES);
	pair.a->ops->doorbell(pair.a);
	assert_int_equal(fake_bound_windows(pair.a), 1);
	assert_int_equal(fake_touch(pair.a, FMR_REMOTE_READ, fmr.rkey, fmr.remote_offset, buf, 50), 0);
	assert_int_equal(buf[49], 'x');
	assert_int_equal(fake_touch(pair.a, FMR_REMOTE_READ, fmr.rkey, fmr.remote_offset, buf, 51), -EACCES);
	assert_int_equal(fake_touch(pair.a, FMR_REMOTE_READ, fmr.rkey, fmr.remote_offset - 1, buf, 1),
			 -EACCES);
	assert_int_equal(fake_touch(pair.a, FMR_REMOTE_READ, fmr.rkey, fmr.remote_offset + 50, buf, 1),
			 -EACCES);
	assert_int_equal(fake_touch(pair.a, FMR_REMOTE_WRITE, fmr.rkey, fmr.remote_offset, buf, 1), -EACCES);
	assert_int_equal(fake_touch(pair.a, FMR_REMOTE_READ, fmr.rkey + 1, fmr.remote_offset, buf, 1),
			 -EACCES);
	assert_int_equal(pair.a->ops->fmr.queue_invalidate(pair.a, &fmr), 0);
	pair.a->ops->doorbell(pair.a);
	assert_int_equal(fake_touch(pair.a, FMR_REMOTE_READ, fmr.rkey, fmr.remote_offset, buf, 1), -EACCES);
	struct rdma_wc wc = poll_one(pair.a);
	assert_int_equal(wc.kind, RDMA_WC_INVALIDATE);
	assert_ptr_equal(wc.ctx, &fmr);
	pair.a->ops->fmr.window_free(pair.a, fmr.window);
}

static void reads_and_writes_move_bytes(void **state)
{
	struct fmr in = window_of_a(FMR_REMOTE_WRITE, 0, 10), out = window_of_a(FMR_REMOTE_READ, 10, 10);
	pair.a->ops->doorbell(pair.a);
	memcpy(pair.ma + 10, "0123456789", 10);
	memcpy(pair.mb, "abcdefghij", 10);
	struct rdma_sge parts[2] = {sge_b(0, 4), sge_b(6, 4)}, back = sge_b(1000, 10);
	assert_int_equal(pair.b->ops->queue_write(pair.b, parts, 2, in.rkey, in.remote_offset + 1, NULL), 0);
	assert_int_equal(pair.b->ops->queue_read(pair.b, &back, out.rkey, out.remote_offset, &back), 0);
	pair.b->ops->doorbell(pair.b);
	assert_memory_equal(pair.ma + 1, "abcdghij", 8);
	assert_memory_equal(pair.mb + 1000, "0123456789", 10);
	struct rdma_wc wc = poll_one(pair.b);
	assert_int_equal(wc.kind, RDMA_WC_READ);
	assert_int_equal(poll_none(pair.b), 0);
	assert_int_equal(fake_counts(pair.b)->bytes_written, 8);
	assert_int_equal(fake_counts(pair.b)->bytes_read, 10);
	pair.b->ops->queue_write(pair.b, parts, 1, in.rkey, in.remote_offset + 7, NULL);
	pair.b->ops->doorbell(pair.b);
	both_find_out();
	pair.a->ops->fmr.window_free(pair.a, in.window);
	pair.a->ops->fmr.window_free(pair.a, out.window);
}

static void send_with_invalidate_closes_the_window(void **state)
{
	uint64_t offset;
	char memory[16], buf[1];
	uint32_t key = fake_expose(pair.b, memory, sizeof memory, FMR_REMOTE_WRITE, &offset);
	assert_int_equal(fake_touch(pair.b, FMR_REMOTE_WRITE, key, offset, buf, 1), 0);
	post_recv(0, 10);
	assert_int_equal(send_a(0, 1, key, NULL), 0);
	pair.a->ops->doorbell(pair.a);
	struct rdma_wc wc = poll_one(pair.b);
	assert_true(wc.invalidated);
	assert_int_equal(wc.invalidated_rkey, key);
	assert_int_equal(fake_touch(pair.b, FMR_REMOTE_WRITE, key, offset, buf, 1), -EACCES);
	assert_false(fake_unexpose(pair.b, key));
	assert_int_equal(send_a(0, 1, key, NULL), 0); /* again: breaks the rule */
	post_recv(0, 10);
	pair.a->ops->doorbell(pair.a);
	both_find_out();
}

static void held_completions_come_when_let_go(void **state)
{
	post_recv(0, 10);
	fake_hold(pair.a, 1 << RDMA_WC_SEND);
	send_a(0, 1, 0, pair.ma);
	pair.a->ops->doorbell(pair.a);
	assert_int_equal(poll_none(pair.a), 0);
	assert_int_equal(poll_one(pair.b).kind, RDMA_WC_RECV);
	fake_hold(pair.a, 0);
	assert_int_equal(poll_one(pair.a).kind, RDMA_WC_SEND);
}

static void nth_post_and_doorbell_fail(void **state)
{
	post_recv(0, 10);
	fake_fail_post(pair.a, 2, -ENOMEM);
	assert_int_equal(send_a(0, 1, 0, NULL), 0);
	assert_int_equal(send_a(0, 1, 0, NULL), -ENOMEM);
	fake_fail_doorbell(pair.a, 1, -EIO);
	assert_int_equal(pair.a->ops->doorbell(pair.a), -EIO);
	assert_int_equal(pair.a->state, RDMA_EP_CLOSED);
	pair.b->ops->progress(pair.b, 0);
	assert_int_equal(pair.b->state, RDMA_EP_CLOSED);
	assert_int_equal(pair.a->error, -EIO);
}

static void paused_endpoint_sends_later(void **state)
{
	post_recv(0, 10);
	fake_pause(pair.a, true);
	send_a(0, 1, 0, NULL);
	pair.a->ops->doorbell(pair.a);
	assert_int_equal(poll_none(pair.b), 0);
	fake_pause(pair.a, false);
	assert_int_equal(poll_one(pair.b).kind, RDMA_WC_RECV);
}

static void disconnect_flushes_then_idles_and_connects_again(void **state)
{
	struct sockaddr_in addr = {.sin_family = AF_INET,
				   .sin_port = htons(fake_device.listener_port(pair.listener))};
	post_recv(0, 10);
	pair.b->ops->disconnect(pair.b);
	assert_int_equal(pair.b->state, RDMA_EP_CLOSED);
	assert_int_equal(poll_one(pair.b).status, -ECANCELED);
	assert_int_equal(pair.b->state, RDMA_EP_IDLE);
	pair.a->ops->progress(pair.a, 0);
	assert_int_equal(pair.a->state, RDMA_EP_CLOSED);
	assert_int_equal(pair.a->error, -ECONNRESET);
	pair.a->ops->disconnect(pair.a);
	assert_int_equal(pair.a->state, RDMA_EP_IDLE);
	assert_int_equal(pair.a->ops->connect(pair.a, (struct sockaddr *)&addr, sizeof addr, NULL, 0), 0);
	struct rdma_ep *again;
	assert_int_equal(fake_device.listener_accept(pair.listener, &(struct rdma_ep_params){.epoll_fd = -1},
						     NULL, &again),
			 0);
	again->ops->progress(again, 0);
	assert_int_equal(again->ops->reject(again), 0);
	pair.a->ops->progress(pair.a, 0);
	assert_int_equal(pair.a->state, RDMA_EP_CLOSED);
	assert_int_equal(pair.a->error, -EACCES);
	again->ops->close(again);
}

static void nobody_listening_is_refused(void **state)
{
	struct sockaddr_in addr = {.sin_family = AF_INET, .sin_port = htons(60000)};
	struct rdma_ep *ep;
	fake_device.open(&(struct rdma_ep_params){.epoll_fd = -1}, &ep);
	assert_int_equal(ep->ops->connect(ep, (struct sockaddr *)&addr, sizeof addr, NULL, 0), 0);
	ep->ops->progress(ep, 0);
	assert_int_equal(ep->state, RDMA_EP_CLOSED);
	assert_int_equal(ep->error, -ECONNREFUSED);
	ep->ops->close(ep);
}

static void raw_messages_travel_both_ways(void **state)
{
	char buf[16];
	uint32_t key;
	fake_post_raw(pair.a, 1, sizeof buf);
	fake_post_raw(pair.b, 1, sizeof buf);
	for (int i = 0; i < 3; i++) {
		assert_int_equal(fake_send_raw(pair.a, "ping", 4, 0), 0);
		assert_int_equal(fake_recv_raw(pair.b, buf, sizeof buf, &key), 4);
		assert_memory_equal(buf, "ping", 4);
		assert_int_equal(fake_send_raw(pair.b, "pong!", 5, 0), 0);
		assert_int_equal(fake_recv_raw(pair.a, buf, sizeof buf, &key), 5);
		assert_int_equal(fake_recv_raw(pair.a, buf, sizeof buf, &key), -EAGAIN);
	}
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, connect_pair, close_pair)

int main(void)
{
	static const struct CMUnitTest tests[] = {
		TEST(sends_leave_at_the_doorbell_in_order),
		TEST(send_without_a_receive_ends_both_sides),
		TEST(send_longer_than_its_receive_ends_both_sides),
		TEST(window_opens_exactly_its_bytes),
		TEST(reads_and_writes_move_bytes),
		TEST(send_with_invalidate_closes_the_window),
		TEST(held_completions_come_when_let_go),
		TEST(nth_post_and_doorbell_fail),
		TEST(paused_endpoint_sends_later),
		TEST(disconnect_flushes_then_idles_and_connects_again),
		TEST(nobody_listening_is_refused),
		TEST(raw_messages_travel_both_ways),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
