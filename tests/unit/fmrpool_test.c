/* SPDX-License-Identifier: MIT
 *
 * The pool over a device that only counts and remembers.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "arena.h"
#include "fmrpool.h"

#include <errno.h>
#include <string.h>

#define MIB ((size_t)1 << 20)

struct counting_device {
	int regions, windows, binds, invalidates;
	unsigned int remote; /* access of the last region */
	int fail_region_at;  /* 1: the first; 0: never */
	int fail_window_at;
	int bind_error, invalidate_error;
	uint32_t next_key;
};

static int region_register(void *dev, struct fmr_region *region, unsigned int remote)
{
	struct counting_device *d = dev;

	if (d->regions + 1 == d->fail_region_at)
		return -ENOMEM;
	assert_true(region->len_bytes <= FMR_STRIPE_BYTES);
	d->regions++;
	d->remote = remote;
	region->lkey = (uint32_t)d->regions;
	region->rkey = remote ? 0x9000u + (uint32_t)d->regions : 0;
	return 0;
}

static void region_deregister(void *dev, struct fmr_region *region)
{
	((struct counting_device *)dev)->regions--;
}

static int window_alloc(void *dev, void **window)
{
	struct counting_device *d = dev;

	if (d->windows + 1 == d->fail_window_at)
		return -ENOSPC;
	d->windows++;
	*window = d;
	return 0;
}

static void window_free(void *dev, void *window)
{
	((struct counting_device *)dev)->windows--;
}

static int queue_bind(void *dev, struct fmr *fmr)
{
	struct counting_device *d = dev;

	if (d->bind_error)
		return d->bind_error;
	d->binds++;
	fmr->rkey = ++d->next_key;
	fmr->remote_offset = 0;
	return 0;
}

static int queue_invalidate(void *dev, struct fmr *fmr)
{
	struct counting_device *d = dev;

	d->invalidates++;
	return d->invalidate_error;
}

static const struct fmr_ops ops = {
	.region_register = region_register,
	.region_deregister = region_deregister,
	.window_alloc = window_alloc,
	.window_free = window_free,
	.queue_bind = queue_bind,
	.queue_invalidate = queue_invalidate,
};

static struct fmrpool *new_pool(struct counting_device *d, enum fmr_strategy strategy)
{
	struct fmrpool_params params = {.strategy = strategy,
					.fmrs = 4,
					.arena_bytes = 5 * MIB,
					.max_io_bytes = MIB,
					.buffers_bytes = 8 * 4096 + 1};
	struct fmrpool *pool = NULL;

	assert_int_equal(fmrpool_create(&params, &pool), 0);
	assert_int_equal(fmrpool_attach(pool, &ops, d), 0);
	assert_int_equal(fmrpool_connected(pool), 0);
	return pool;
}

static void end_pool(struct fmrpool *pool, struct counting_device *d)
{
	fmrpool_detach(pool);
	fmrpool_destroy(pool);
	assert_int_equal(d->regions, 0);
	assert_int_equal(d->windows, 0);
}

static void everything_is_made_up_front(void **state)
{
	struct counting_device d = {0};
	struct fmrpool *pool = new_pool(&d, FMR_WINDOW);

	assert_int_equal(d.regions, 4); /* 5 MiB in stripes of 2 MiB, the buffers in their own */
	assert_int_equal(d.windows, 4);
	assert_int_equal(d.remote, 0);
	assert_int_equal((uintptr_t)fmrpool_buffers(pool) % ARENA_PAGE_BYTES, 0);
	memset(fmrpool_buffers(pool), 1, 8 * 4096 + 1);
	end_pool(pool, &d);
}

static void too_small_an_arena_is_refused(void **state)
{
	struct fmrpool_params params = {.fmrs = 1, .arena_bytes = 2 * MIB - 1, .max_io_bytes = MIB};
	struct fmrpool *pool = NULL;

	assert_int_equal(fmrpool_create(&params, &pool), -EINVAL);
	assert_null(pool);
}

static void borrow_is_all_or_nothing(void **state)
{
	struct counting_device d = {0};
	struct fmrpool *pool = new_pool(&d, FMR_WINDOW);
	struct fmr *a[3], *b[2] = {NULL};

	assert_int_equal(fmrpool_borrow(pool, 3, a, &d), 0);
	assert_ptr_equal(a[2]->owner, &d);
	assert_int_equal(fmrpool_borrow(pool, 2, b, NULL), -EAGAIN);
	assert_null(b[0]);
	assert_int_equal(fmrpool_stats(pool)->in_use, 3);
	assert_int_equal(fmrpool_stats(pool)->exhausted, 1);
	fmrpool_return(pool, 3, a);
	assert_int_equal(fmrpool_borrow(pool, 2, b, NULL), 0);
	fmrpool_return(pool, 2, b);
	assert_int_equal(fmrpool_stats(pool)->in_use, 0);
	assert_int_equal(fmrpool_stats(pool)->in_use_peak, 3);
	end_pool(pool, &d);
}

static void a_key_lives_from_map_to_unmap(void **state)
{
	struct counting_device d = {0};
	struct fmrpool *pool = new_pool(&d, FMR_WINDOW);
	char *run = arena_alloc(fmrpool_arena(pool), 1000, ARENA_REPLY);
	struct fmr *fmr;

	assert_int_equal(fmrpool_borrow(pool, 1, &fmr, NULL), 0);
	assert_int_equal(fmrpool_map(pool, fmr, run, 1000, FMR_REMOTE_WRITE), 0);
	assert_int_equal(fmr->state, FMR_MAPPED);
	assert_int_equal(fmr->len_bytes, 1000);
	assert_int_equal(d.binds, 1);
	uint32_t first_key = fmr->rkey;
	assert_int_equal(fmrpool_unmap(pool, fmr), 0);
	assert_int_equal(fmr->state, FMR_UNMAPPING);
	fmrpool_unmapped(pool, fmr, false);
	assert_int_equal(fmr->state, FMR_BORROWED);

	assert_int_equal(fmrpool_map(pool, fmr, run, 1000, FMR_REMOTE_READ), 0);
	assert_int_not_equal(fmr->rkey, first_key);
	fmrpool_unmapped(pool, fmr, true); /* the server's Send-with-Invalidate */
	fmrpool_return(pool, 1, &fmr);
	assert_int_equal(d.invalidates, 1);
	assert_int_equal(fmrpool_stats(pool)->unmapped_local, 1);
	assert_int_equal(fmrpool_stats(pool)->unmapped_remote, 1);
	end_pool(pool, &d);
}

static void only_memory_of_the_pool_can_be_mapped(void **state)
{
	struct counting_device d = {0};
	struct fmrpool *pool = new_pool(&d, FMR_WINDOW);
	char *start = arena_alloc(fmrpool_arena(pool), MIB, ARENA_REPLY), elsewhere[8];
	struct fmr *fmr;

	while (((uintptr_t)start & (FMR_STRIPE_BYTES - 1)) != 0) /* down to a stripe's first byte */
		start = arena_alloc(fmrpool_arena(pool), MIB, ARENA_REPLY);
	assert_int_equal(fmrpool_borrow(pool, 1, &fmr, NULL), 0);
	assert_int_equal(fmrpool_map(pool, fmr, elsewhere, sizeof elsewhere, FMR_REMOTE_READ), -EINVAL);
	assert_int_equal(fmrpool_map(pool, fmr, start + FMR_STRIPE_BYTES - 1, 2, FMR_REMOTE_READ), -EINVAL);
	assert_int_equal(fmr->state, FMR_BORROWED);
	d.bind_error = -EIO;
	assert_int_equal(fmrpool_map(pool, fmr, start, 2, FMR_REMOTE_READ), -EIO);
	assert_int_equal(fmr->state, FMR_BORROWED);
	fmrpool_return(pool, 1, &fmr);
	end_pool(pool, &d);
}

static void the_end_of_a_connection_unmaps(void **state)
{
	struct counting_device d = {0};
	struct fmrpool *pool = new_pool(&d, FMR_WINDOW);
	char *run = arena_alloc(fmrpool_arena(pool), 4096, ARENA_REPLY);
	struct fmr *fmr[2];

	assert_int_equal(fmrpool_borrow(pool, 2, fmr, NULL), 0);
	assert_int_equal(fmrpool_map(pool, fmr[0], run, 10, FMR_REMOTE_READ), 0);
	assert_int_equal(fmrpool_map(pool, fmr[1], run, 10, FMR_REMOTE_READ), 0);
	d.invalidate_error = -EIO;
	assert_int_equal(fmrpool_unmap(pool, fmr[1]), -EIO);
	assert_int_equal(fmr[1]->state, FMR_UNMAPPING);
	fmrpool_disconnected(pool);
	assert_int_equal(d.windows, 0);
	assert_int_equal(d.regions, 4); /* they stay */
	assert_int_equal(fmr[0]->state, FMR_BORROWED);
	assert_int_equal(fmr[1]->state, FMR_BORROWED);
	assert_int_equal(fmrpool_stats(pool)->unmapped_lost, 2);
	fmrpool_return(pool, 2, fmr);
	assert_int_equal(fmrpool_connected(pool), 0);
	assert_int_equal(d.windows, 4);
	end_pool(pool, &d);
}

static void persistent_maps_by_the_regions_key(void **state)
{
	struct counting_device d = {0};
	struct fmrpool *pool = new_pool(&d, FMR_PERSISTENT);
	char *run = arena_alloc(fmrpool_arena(pool), 4096, ARENA_REPLY);
	struct fmr *fmr;

	assert_int_equal(d.windows, 0);
	assert_int_equal(d.remote, FMR_REMOTE_READ | FMR_REMOTE_WRITE);
	assert_int_equal(fmrpool_borrow(pool, 1, &fmr, NULL), 0);
	assert_int_equal(fmrpool_map(pool, fmr, run + 16, 100, FMR_REMOTE_READ), 0);
	const struct fmr_region *region = fmrpool_region(pool, run + 16, 100);
	assert_int_equal(fmr->rkey, region->rkey);
	assert_int_equal(fmr->remote_offset, run + 16 - region->addr);
	assert_int_equal(fmrpool_unmap(pool, fmr), 0);
	assert_int_equal(fmr->state, FMR_BORROWED);
	assert_int_equal(d.binds + d.invalidates, 0);
	fmrpool_return(pool, 1, &fmr);
	end_pool(pool, &d);
}

static void dynamic_registers_exactly_the_segment(void **state)
{
	struct counting_device d = {0};
	struct fmrpool *pool = new_pool(&d, FMR_DYNAMIC);
	char *run = arena_alloc(fmrpool_arena(pool), 4096, ARENA_REPLY);
	struct fmr *fmr;

	assert_int_equal(d.windows, 0);
	assert_int_equal(d.remote, 0);
	int regions = d.regions;
	assert_int_equal(fmrpool_borrow(pool, 1, &fmr, NULL), 0);
	assert_int_equal(fmrpool_map(pool, fmr, run + 16, 100, FMR_REMOTE_READ), 0);
	assert_int_equal(d.regions, regions + 1);
	assert_int_equal(d.remote, FMR_REMOTE_READ);
	assert_ptr_equal(fmr->own.addr, run + 16);
	assert_int_equal(fmr->own.len_bytes, 100);
	assert_int_equal(fmr->rkey, fmr->own.rkey);
	assert_int_equal(fmrpool_unmap(pool, fmr), 0);
	assert_int_equal(fmr->state, FMR_BORROWED);
	assert_int_equal(d.regions, regions);
	assert_int_equal(d.binds + d.invalidates, 0);
	fmrpool_return(pool, 1, &fmr);
	end_pool(pool, &d);
}

/* However the unmapping comes about, the device is told to end the registration. */
static void dynamic_registrations_end_with_the_connection_and_the_peers_word(void **state)
{
	struct counting_device d = {0};
	struct fmrpool *pool = new_pool(&d, FMR_DYNAMIC);
	char *run = arena_alloc(fmrpool_arena(pool), 8192, ARENA_REPLY);
	struct fmr *fmr[2];

	int regions = d.regions;
	assert_int_equal(fmrpool_borrow(pool, 2, fmr, NULL), 0);
	assert_int_equal(fmrpool_map(pool, fmr[0], run, 100, FMR_REMOTE_WRITE), 0);
	assert_int_equal(fmrpool_map(pool, fmr[1], run + 4096, 100, FMR_REMOTE_WRITE), 0);
	fmrpool_unmapped(pool, fmr[0], true);
	assert_int_equal(d.regions, regions + 1);
	fmrpool_disconnected(pool);
	assert_int_equal(d.regions, regions);
	assert_int_equal(fmr[1]->state, FMR_BORROWED);
	d.fail_region_at = d.regions + 1;
	assert_int_equal(fmrpool_map(pool, fmr[0], run, 100, FMR_REMOTE_WRITE), -ENOMEM);
	assert_int_equal(fmr[0]->state, FMR_BORROWED);
	fmrpool_return(pool, 2, fmr);
	end_pool(pool, &d);
}

static void failures_on_the_way_leave_nothing(void **state)
{
	struct fmrpool_params params = {.fmrs = 4, .arena_bytes = 6 * MIB, .max_io_bytes = MIB};

	for (int at = 1; at <= 3; at++) {
		struct counting_device d = {.fail_region_at = at};
		struct fmrpool *pool;
		assert_int_equal(fmrpool_create(&params, &pool), 0);
		assert_int_equal(fmrpool_attach(pool, &ops, &d), -ENOMEM);
		assert_int_equal(d.regions, 0);
		fmrpool_destroy(pool);
	}
	for (int at = 1; at <= 4; at++) {
		struct counting_device d = {.fail_window_at = at};
		struct fmrpool *pool;
		assert_int_equal(fmrpool_create(&params, &pool), 0);
		assert_int_equal(fmrpool_attach(pool, &ops, &d), 0);
		assert_int_equal(fmrpool_connected(pool), -ENOSPC);
		assert_int_equal(d.windows, 0);
		end_pool(pool, &d);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(everything_is_made_up_front),
		cmocka_unit_test(too_small_an_arena_is_refused),
		cmocka_unit_test(borrow_is_all_or_nothing),
		cmocka_unit_test(a_key_lives_from_map_to_unmap),
		cmocka_unit_test(only_memory_of_the_pool_can_be_mapped),
		cmocka_unit_test(the_end_of_a_connection_unmaps),
		cmocka_unit_test(persistent_maps_by_the_regions_key),
		cmocka_unit_test(dynamic_registers_exactly_the_segment),
		cmocka_unit_test(dynamic_registrations_end_with_the_connection_and_the_peers_word),
		cmocka_unit_test(failures_on_the_way_leave_nothing),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
