/* SPDX-License-Identifier: MIT
 *
 * Memory of a pool: [arena | buffers], one mapping, on huge pages where they can be had. It is registered in
 * stripes.
 *
 * A registration's life is FREE -> BORROWED -> MAPPED -> UNMAPPING -> BORROWED -> FREE, and every function
 * asserts the state that it starts from: a caller that would return a mapped fmr, or map one twice, stops the
 * process rather than the safety.
 */
#include "fmrpool.h"
#include "arena.h"
#include "trace.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>

#define HUGE_PAGE_BYTES ((size_t)2 << 20)

/* How an fmr is mapped and unmapped: 0 or -errno. */
struct strategy {
	const char *name;
	int (*map)(struct fmrpool *pool, struct fmr *fmr);
	int (*unmap)(struct fmrpool *pool, struct fmr *fmr);
	/* Whatever else has to end before the fmr counts as unmapped, or NULL. */
	void (*end)(struct fmrpool *pool, struct fmr *fmr);
	unsigned int region_remote; /* access that every region gets for good */
	bool windows;
};

struct fmrpool {
	const struct strategy *strategy;
	enum fmr_strategy strategy_id;
	const struct fmr_ops *ops; /* NULL while detached */
	void *dev;

	char *mapping; /* as mmap() gave it */
	size_t mapping_bytes;
	char *memory; /* page-aligned; on a huge page's boundary where that is worth it */
	size_t memory_bytes;
	size_t buffers_offset;
	struct arena *arena;

	struct fmr_region *regions; /* stripe i of memory */
	unsigned int nregions, nregistered;

	struct fmr *fmrs;
	unsigned int nfmrs;
	struct fmr *free;
	unsigned int nfree;

	struct fmrpool_stats *stats;
	struct fmrpool_stats own_stats;
};

/* The only place where a state changes. */
static void fmr_move(struct fmrpool *pool, struct fmr *fmr, enum fmr_state to)
{
	struct fmrpool_stats *s = pool->stats;

	TRACE5(fmr__state, fmr, fmr->state, to, fmr->len_bytes, fmr->access);
	s->mapped_now += (uint64_t)(to == FMR_MAPPED) - (fmr->state == FMR_MAPPED);
	s->unmapping_now += (uint64_t)(to == FMR_UNMAPPING) - (fmr->state == FMR_UNMAPPING);
	fmr->state = to;
}

static size_t round_up(size_t n, size_t to)
{
	return (n + to - 1) / to * to;
}

/* Huge pages by name if the system has them set aside, else memory that the kernel may back with them. */
static int map_memory(struct fmrpool *pool)
{
	size_t len = round_up(pool->memory_bytes, HUGE_PAGE_BYTES);
	void *p = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB, -1, 0);

	if (p != MAP_FAILED) {
		pool->mapping = pool->memory = p;
		pool->mapping_bytes = len;
		return 0;
	}
	len += HUGE_PAGE_BYTES; /* to be able to start on a boundary */
	p = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (p == MAP_FAILED)
		return -ENOMEM;
	pool->mapping = p;
	pool->mapping_bytes = len;
	pool->memory = (char *)round_up((uintptr_t)p, HUGE_PAGE_BYTES);
	madvise(pool->memory, pool->memory_bytes, MADV_HUGEPAGE); /* a wish, not a need */
	return 0;
}

static int map_window(struct fmrpool *pool, struct fmr *fmr)
{
	return pool->ops->queue_bind(pool->dev, fmr);
}

static int unmap_window(struct fmrpool *pool, struct fmr *fmr)
{
	return pool->ops->queue_invalidate(pool->dev, fmr);
}

static int map_persistent(struct fmrpool *pool, struct fmr *fmr)
{
	fmr->rkey = fmr->region->rkey;
	fmr->remote_offset = fmr->region->remote_base + (uint64_t)(fmr->addr - fmr->region->addr);
	return 0;
}

/* Nothing is taken away from the peer: that is what is not safe about it. */
static int unmap_persistent(struct fmrpool *pool, struct fmr *fmr)
{
	fmrpool_unmapped(pool, fmr, false);
	return 0;
}

static int map_dynamic(struct fmrpool *pool, struct fmr *fmr)
{
	fmr->own = (struct fmr_region){.addr = fmr->addr, .len_bytes = fmr->len_bytes};
	int err = pool->ops->region_register(pool->dev, &fmr->own, fmr->access);

	if (err) {
		fmr->own = (struct fmr_region){0};
		return err;
	}
	pool->stats->registrations++;
	fmr->rkey = fmr->own.rkey;
	fmr->remote_offset = fmr->own.remote_base;
	return 0;
}

/* Whoever says that it is unmapped, the device is told to end it: only then is it. */
static void end_dynamic(struct fmrpool *pool, struct fmr *fmr)
{
	if (fmr->own.len_bytes)
		pool->ops->region_deregister(pool->dev, &fmr->own);
	fmr->own = (struct fmr_region){0};
}

static int unmap_dynamic(struct fmrpool *pool, struct fmr *fmr)
{
	fmrpool_unmapped(pool, fmr, false);
	return 0;
}

static const struct strategy strategies[] = {
	[FMR_WINDOW] = {.name = "window", .map = map_window, .unmap = unmap_window, .windows = true},
	[FMR_DYNAMIC] = {.name = "dynamic", .map = map_dynamic, .unmap = unmap_dynamic, .end = end_dynamic},
	[FMR_PERSISTENT] = {.name = "persistent",
			    .map = map_persistent,
			    .unmap = unmap_persistent,
			    .region_remote = FMR_REMOTE_READ | FMR_REMOTE_WRITE},
};

const char *fmr_strategy_name(enum fmr_strategy strategy)
{
	return strategies[strategy].name;
}

int fmrpool_create(const struct fmrpool_params *params, struct fmrpool **out)
{
	struct fmrpool *pool = calloc(1, sizeof *pool);
	int err = -ENOMEM;

	if (!pool)
		return -ENOMEM;
	pool->strategy_id = params->strategy;
	pool->strategy = &strategies[params->strategy];
	pool->stats = params->stats ? params->stats : &pool->own_stats;
	pool->buffers_offset = round_up(params->arena_bytes, FMR_STRIPE_BYTES);
	pool->memory_bytes = pool->buffers_offset + round_up(params->buffers_bytes, ARENA_PAGE_BYTES);
	pool->nfmrs = params->fmrs;
	pool->nregions = (unsigned int)(round_up(pool->memory_bytes, FMR_STRIPE_BYTES) / FMR_STRIPE_BYTES);
	pool->fmrs = calloc(pool->nfmrs, sizeof *pool->fmrs);
	pool->regions = calloc(pool->nregions, sizeof *pool->regions);
	if (!pool->fmrs || !pool->regions)
		goto fail;
	err = map_memory(pool);
	if (err)
		goto fail;
	err = arena_create(pool->memory, params->arena_bytes, params->max_io_bytes, &pool->arena);
	if (err)
		goto fail;
	for (unsigned int i = pool->nfmrs; i-- > 0;) {
		pool->fmrs[i].next_free = pool->free;
		pool->free = &pool->fmrs[i];
	}
	pool->nfree = pool->nfmrs;
	pool->stats->fmrs = pool->nfmrs;
	*out = pool;
	return 0;
fail:
	fmrpool_destroy(pool);
	return err;
}

void fmrpool_destroy(struct fmrpool *pool)
{
	if (!pool)
		return;
	assert(!pool->ops);
	arena_destroy(pool->arena);
	if (pool->mapping)
		munmap(pool->mapping, pool->mapping_bytes);
	free(pool->regions);
	free(pool->fmrs);
	free(pool);
}

int fmrpool_attach(struct fmrpool *pool, const struct fmr_ops *ops, void *dev)
{
	assert(!pool->ops);
	pool->ops = ops;
	pool->dev = dev;
	for (unsigned int i = 0; i < pool->nregions; i++) {
		size_t start = i * FMR_STRIPE_BYTES, rest = pool->memory_bytes - start;
		struct fmr_region *region = &pool->regions[i];

		*region = (struct fmr_region){.addr = pool->memory + start,
					      .len_bytes = rest < FMR_STRIPE_BYTES ? rest : FMR_STRIPE_BYTES};
		int err = ops->region_register(dev, region, pool->strategy->region_remote);
		if (err) {
			fmrpool_detach(pool);
			return err;
		}
		pool->nregistered++;
		pool->stats->registrations++;
	}
	return 0;
}

void fmrpool_detach(struct fmrpool *pool)
{
	if (!pool->ops)
		return;
	fmrpool_disconnected(pool);
	while (pool->nregistered > 0)
		pool->ops->region_deregister(pool->dev, &pool->regions[--pool->nregistered]);
	pool->ops = NULL;
}

int fmrpool_connected(struct fmrpool *pool)
{
	if (!pool->strategy->windows)
		return 0;
	for (unsigned int i = 0; i < pool->nfmrs; i++) {
		assert(!pool->fmrs[i].window);
		int err = pool->ops->window_alloc(pool->dev, &pool->fmrs[i].window);
		if (err) {
			fmrpool_disconnected(pool);
			return err;
		}
	}
	return 0;
}

void fmrpool_disconnected(struct fmrpool *pool)
{
	for (unsigned int i = 0; i < pool->nfmrs; i++) {
		struct fmr *fmr = &pool->fmrs[i];

		if (fmr->window)
			pool->ops->window_free(pool->dev, fmr->window);
		fmr->window = NULL;
		if (fmr->state == FMR_MAPPED || fmr->state == FMR_UNMAPPING) {
			if (pool->strategy->end)
				pool->strategy->end(pool, fmr);
			fmr_move(pool, fmr, FMR_BORROWED);
			pool->stats->unmapped_lost++;
		}
	}
}

int fmrpool_borrow(struct fmrpool *pool, unsigned int n, struct fmr **fmrs, void *owner)
{
	if (n > pool->nfree) {
		pool->stats->exhausted++;
		return -EAGAIN;
	}
	for (unsigned int i = 0; i < n; i++) {
		struct fmr *fmr = pool->free;

		assert(fmr->state == FMR_FREE);
		pool->free = fmr->next_free;
		fmr_move(pool, fmr, FMR_BORROWED);
		fmr->owner = owner;
		fmrs[i] = fmr;
	}
	pool->nfree -= n;
	pool->stats->borrowed += n;
	pool->stats->in_use += n;
	if (pool->stats->in_use > pool->stats->in_use_peak)
		pool->stats->in_use_peak = pool->stats->in_use;
	return 0;
}

int fmrpool_map(struct fmrpool *pool, struct fmr *fmr, void *addr, uint32_t len_bytes, enum fmr_access access)
{
	assert(fmr->state == FMR_BORROWED && len_bytes > 0);
	fmr->region = fmrpool_region(pool, addr, len_bytes);
	if (!fmr->region)
		return -EINVAL;
	fmr->addr = addr;
	fmr->len_bytes = len_bytes;
	fmr->access = access;
	int err = pool->strategy->map(pool, fmr);
	if (err)
		return err;
	fmr_move(pool, fmr, FMR_MAPPED);
	pool->stats->mapped++;
	return 0;
}

int fmrpool_unmap(struct fmrpool *pool, struct fmr *fmr)
{
	assert(fmr->state == FMR_MAPPED);
	fmr_move(pool, fmr, FMR_UNMAPPING);
	return pool->strategy->unmap(pool, fmr);
}

void fmrpool_unmapped(struct fmrpool *pool, struct fmr *fmr, bool remote)
{
	assert(fmr->state == (remote ? FMR_MAPPED : FMR_UNMAPPING));
	if (pool->strategy->end)
		pool->strategy->end(pool, fmr);
	fmr_move(pool, fmr, FMR_BORROWED);
	fmr->rkey = 0;
	if (remote)
		pool->stats->unmapped_remote++;
	else
		pool->stats->unmapped_local++;
}

void fmrpool_return(struct fmrpool *pool, unsigned int n, struct fmr **fmrs)
{
	for (unsigned int i = n; i-- > 0;) {
		struct fmr *fmr = fmrs[i];

		assert(fmr->state == FMR_BORROWED);
		fmr_move(pool, fmr, FMR_FREE);
		fmr->owner = NULL;
		fmr->next_free = pool->free;
		pool->free = fmr;
	}
	pool->nfree += n;
	pool->stats->in_use -= n;
}

enum fmr_strategy fmrpool_strategy(const struct fmrpool *pool)
{
	return pool->strategy_id;
}

const struct fmrpool_stats *fmrpool_stats(const struct fmrpool *pool)
{
	size_t used = arena_used_bytes(pool->arena, ARENA_DIRTY) + arena_used_bytes(pool->arena, ARENA_REPLY);

	pool->stats->arena_bytes_used = used;
	if (used > pool->stats->arena_bytes_peak)
		pool->stats->arena_bytes_peak = used;
	return pool->stats;
}

struct arena *fmrpool_arena(struct fmrpool *pool)
{
	return pool->arena;
}

char *fmrpool_buffers(struct fmrpool *pool)
{
	return pool->memory + pool->buffers_offset;
}

const struct fmr_region *fmrpool_region(const struct fmrpool *pool, const void *addr, size_t len_bytes)
{
	uintptr_t offset = (uintptr_t)addr - (uintptr_t)pool->memory;

	if (offset >= pool->memory_bytes || len_bytes > pool->memory_bytes - offset)
		return NULL;
	size_t stripe = offset / FMR_STRIPE_BYTES;
	if (len_bytes && (offset + len_bytes - 1) / FMR_STRIPE_BYTES != stripe)
		return NULL;
	return &pool->regions[stripe];
}
