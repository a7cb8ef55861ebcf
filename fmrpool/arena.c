/* SPDX-License-Identifier: MIT
 *
 * Pages are one bit each in a map: 16,384 bits for the default 64 MiB, 256 words, so a search is short and
 * needs no structure that could fragment or allocate. WRITE data is claimed upwards behind a cursor, which
 * lays consecutive WRITEs side by side; replies are placed from the top, first fit, which reuses the pages
 * that are still in the processor's cache.
 */
#include "arena.h"
#include "fmrpool.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#define WORD_BITS 64u
#define STRIPE_PAGES ((uint32_t)(FMR_STRIPE_BYTES / ARENA_PAGE_BYTES))
static_assert(STRIPE_PAGES % WORD_BITS == 0, "a stripe is a whole number of map words");

#define NO_PAGE UINT32_MAX

struct arena {
	char *base;
	uint32_t pages;
	uint32_t max_io_pages;
	uint32_t cursor;	   /* the page behind the last run that was taken */
	uint32_t used[ARENA_USES]; /* pages */
	uint64_t map[];		   /* set: used */
};

static uint32_t pages_of(size_t len_bytes)
{
	return (uint32_t)((len_bytes + ARENA_PAGE_BYTES - 1) / ARENA_PAGE_BYTES);
}

size_t arena_min_bytes(size_t max_io_bytes)
{
	size_t slot = (size_t)pages_of(max_io_bytes) * ARENA_PAGE_BYTES;

	if (2 * slot <= FMR_STRIPE_BYTES)
		return 2 * slot;
	return FMR_STRIPE_BYTES + slot; /* a stripe holds one slot; the second needs the next stripe */
}

int arena_create(char *base, size_t len_bytes, size_t max_io_bytes, struct arena **arena)
{
	if (!max_io_bytes || max_io_bytes > FMR_STRIPE_BYTES || len_bytes < arena_min_bytes(max_io_bytes) ||
	    len_bytes / ARENA_PAGE_BYTES >= NO_PAGE)
		return -EINVAL;

	uint32_t pages = (uint32_t)(len_bytes / ARENA_PAGE_BYTES);
	uint32_t words = (pages + WORD_BITS - 1) / WORD_BITS;
	struct arena *a = calloc(1, sizeof *a + words * sizeof a->map[0]);
	if (!a)
		return -ENOMEM;
	a->base = base;
	a->pages = pages;
	a->max_io_pages = pages_of(max_io_bytes);
	*arena = a;
	return 0;
}

void arena_destroy(struct arena *arena)
{
	free(arena);
}

/* The first page in [page, end) that is used (or, with invert, free); end if there is none. */
static uint32_t next_page(const struct arena *a, uint32_t page, uint32_t end, uint64_t invert)
{
	while (page < end) {
		uint64_t bits = (a->map[page / WORD_BITS] ^ invert) >> (page % WORD_BITS);

		if (bits) {
			page += (uint32_t)__builtin_ctzll(bits);
			return page < end ? page : end;
		}
		page = (page / WORD_BITS + 1) * WORD_BITS;
	}
	return end;
}

static uint32_t next_used(const struct arena *a, uint32_t page, uint32_t end)
{
	return next_page(a, page, end, 0);
}

static uint32_t next_free(const struct arena *a, uint32_t page, uint32_t end)
{
	return next_page(a, page, end, ~UINT64_C(0));
}

/* The first run of n free pages in [page, end), or NO_PAGE. */
static uint32_t find_run(const struct arena *a, uint32_t page, uint32_t end, uint32_t n)
{
	page = next_free(a, page, end);
	while (n <= end - page) {
		uint32_t hit = next_used(a, page, page + n);
		if (hit == page + n)
			return page;
		page = next_free(a, hit, end);
	}
	return NO_PAGE;
}

static uint32_t stripe_end(const struct arena *a, uint32_t page)
{
	uint32_t end = (page / STRIPE_PAGES + 1) * STRIPE_PAGES;

	return end < a->pages ? end : a->pages;
}

/* From the cursor on, stripe by stripe, then around to the cursor again. */
static uint32_t find_upwards(const struct arena *a, uint32_t n)
{
	uint32_t page = a->cursor;

	for (; page < a->pages; page = stripe_end(a, page)) {
		uint32_t run = find_run(a, page, stripe_end(a, page), n);
		if (run != NO_PAGE)
			return run;
	}
	for (page = 0; page <= a->cursor && page < a->pages; page = stripe_end(a, page)) {
		uint32_t run = find_run(a, page, stripe_end(a, page), n);
		if (run != NO_PAGE)
			return run;
	}
	return NO_PAGE;
}

/* From the last stripe to the first. */
static uint32_t find_from_top(const struct arena *a, uint32_t n)
{
	uint32_t stripe = (a->pages - 1) / STRIPE_PAGES + 1;

	while (stripe-- > 0) {
		uint32_t page = stripe * STRIPE_PAGES;
		uint32_t run = find_run(a, page, stripe_end(a, page), n);
		if (run != NO_PAGE)
			return run;
	}
	return NO_PAGE;
}

static void mark(struct arena *a, uint32_t page, uint32_t n, bool used)
{
	for (; n; n--, page++) {
		uint64_t bit = UINT64_C(1) << (page % WORD_BITS);
		uint64_t *word = &a->map[page / WORD_BITS];

		assert(!(*word & bit) == used);
		*word ^= bit;
	}
}

static char *address_of(const struct arena *a, uint32_t page)
{
	return page == NO_PAGE ? NULL : a->base + (size_t)page * ARENA_PAGE_BYTES;
}

static uint32_t page_of(const struct arena *a, const void *addr)
{
	size_t offset = (size_t)((const char *)addr - a->base);

	assert(offset % ARENA_PAGE_BYTES == 0 && offset / ARENA_PAGE_BYTES < a->pages);
	return (uint32_t)(offset / ARENA_PAGE_BYTES);
}

void *arena_alloc(struct arena *arena, size_t len_bytes, enum arena_use use)
{
	uint32_t n = pages_of(len_bytes);

	assert(n > 0 && n <= arena->max_io_pages);
	uint32_t page = find_from_top(arena, n);
	if (page == NO_PAGE)
		return NULL;
	mark(arena, page, n, true);
	arena->used[use] += n;
	return address_of(arena, page);
}

void arena_free(struct arena *arena, void *addr, size_t len_bytes, enum arena_use use)
{
	uint32_t n = pages_of(len_bytes);

	mark(arena, page_of(arena, addr), n, false);
	assert(arena->used[use] >= n);
	arena->used[use] -= n;
}

void *arena_receive_area(struct arena *arena)
{
	if (arena_dirty_full(arena))
		return NULL;
	return address_of(arena, find_upwards(arena, arena->max_io_pages));
}

void arena_take(struct arena *arena, void *addr, size_t len_bytes)
{
	uint32_t page = page_of(arena, addr), n = pages_of(len_bytes);

	assert(n > 0 && n <= arena->max_io_pages);
	mark(arena, page, n, true);
	arena->used[ARENA_DIRTY] += n;
	arena->cursor = page + n;
}

bool arena_is_one_run(const struct arena *arena, const void *addr, size_t len_bytes)
{
	uint32_t page = page_of(arena, addr);

	return page + pages_of(len_bytes) <= stripe_end(arena, page);
}

size_t arena_used_bytes(const struct arena *arena, enum arena_use use)
{
	return (size_t)arena->used[use] * ARENA_PAGE_BYTES;
}

size_t arena_total_bytes(const struct arena *arena)
{
	return (size_t)arena->pages * ARENA_PAGE_BYTES;
}

bool arena_dirty_full(const struct arena *arena)
{
	return arena->used[ARENA_DIRTY] + arena->max_io_pages > arena->pages / 2;
}

bool arena_wants_commit(const struct arena *arena)
{
	return arena->used[ARENA_DIRTY] >= arena->pages / 4;
}
