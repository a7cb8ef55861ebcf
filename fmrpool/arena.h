/* SPDX-License-Identifier: MIT
 *
 * The arena: one lane's registered payload memory, handed out in runs of whole pages.
 *
 * A run never crosses a stripe (FMR_STRIPE_BYTES), so one registration covers it. Nothing here allocates: the
 * map of used pages is made with the arena. A lane's own thread only.
 *
 * Reserves (memory without deadlock). *Dirty* pages hold WRITE data until a COMMIT has made it stable: at
 * most half of the arena, so a quarter and more is always left for replies (READ, READDIR). The area into
 * which the next /dev/fuse read may land is not allocated at all: arena_receive_area() names a free run big
 * enough for the largest WRITE, and arena_take() claims what arrived of it. So the receive area never holds
 * dirty data, and when no run is free the lane stops reading /dev/fuse until a reply or a COMMIT frees one:
 * progress never needs a request that was not yet read.
 */
#ifndef ARENA_H
#define ARENA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ARENA_PAGE_BYTES 4096u

enum arena_use {
	ARENA_DIRTY, /* WRITE data, from arrival until it is stable on the server */
	ARENA_REPLY, /* where the server places READ data, directory listings, link texts; also outgoing link
			texts */
	ARENA_USES
};

struct arena;

/* The smallest arena that can make progress with payloads of up to max_io_bytes: two slots, one to receive in
 * and one to answer from. max_io_bytes is rounded up to pages; at most FMR_STRIPE_BYTES. */
size_t arena_min_bytes(size_t max_io_bytes);

/* Over len_bytes at base (page-aligned, lent for the arena's life). -ENOMEM; -EINVAL when smaller than the
 * minimum. */
int arena_create(char *base, size_t len_bytes, size_t max_io_bytes, struct arena **arena);
void arena_destroy(struct arena *arena);

/* A run of len_bytes rounded up to pages, 0 < len_bytes <= max_io_bytes, or NULL when there is none now. */
void *arena_alloc(struct arena *arena, size_t len_bytes, enum arena_use use);
void arena_free(struct arena *arena, void *addr, size_t len_bytes, enum arena_use use);

/* A free run of max_io_bytes for the next /dev/fuse read, or NULL: then do not read. Follows the last run
 * taken, so that consecutive small WRITEs lie side by side. Valid until the next call of arena_alloc(). NULL
 * also when the dirty half is full, see arena_dirty_full(). */
void *arena_receive_area(struct arena *arena);
/* Claims the first len_bytes (> 0, rounded up to pages) of the area just named, as dirty data. */
void arena_take(struct arena *arena, void *addr, size_t len_bytes);

/* May len_bytes at addr be one run, given that all of it was taken? Not across the end of a stripe. */
bool arena_is_one_run(const struct arena *arena, const void *addr, size_t len_bytes);

size_t arena_used_bytes(const struct arena *arena, enum arena_use use);
size_t arena_total_bytes(const struct arena *arena);
bool arena_dirty_full(
	const struct arena *arena); /* another WRITE of the largest size would pass half of the arena */
bool arena_wants_commit(const struct arena *arena); /* a quarter is dirty: time to send COMMITs */

#endif
