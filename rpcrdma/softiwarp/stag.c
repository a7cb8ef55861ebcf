/* SPDX-License-Identifier: MIT */
#include "stag.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#define HALF_BITS (STAG_BIND_BITS / 2)
#define HALF_MASK ((1u << HALF_BITS) - 1)
#define BIND_MASK ((1u << STAG_BIND_BITS) - 1)

_Static_assert(STAG_INDEX_BITS + STAG_BIND_BITS == 32, "an STag is an index and a bind");
_Static_assert(STAG_BIND_BITS % 2 == 0, "the permutation works on two halves");

/* A permutation of the numbers of STAG_BIND_BITS bits (a Feistel network): each number comes once, in an
 * order that only the secrets tell, and that is another one for each index. */
static uint32_t permute(const struct stag_table *t, uint32_t index, uint32_t n)
{
	uint32_t left = n >> HALF_BITS & HALF_MASK, right = n & HALF_MASK;
	for (unsigned int round = 0; round < 4; round++) {
		uint64_t mixed = ((index << HALF_BITS | right) + 1) * (t->secrets[round] | 1);
		mixed ^= mixed >> 29;
		mixed *= 0xbf58476d1ce4e5b9ull; /* an odd number that spreads bits well: that of splitmix64 */
		uint32_t next = left ^ (uint32_t)(mixed >> 40 & HALF_MASK);
		left = right;
		right = next;
	}
	return left << HALF_BITS | right;
}

/* The n-th STag of that index; never 0. */
static uint32_t make_stag(const struct stag_table *t, uint32_t index, uint32_t *n)
{
	uint32_t stag;
	do
		stag = (permute(t, index, ++*n & BIND_MASK) << STAG_INDEX_BITS | index) ^ t->mask;
	while (!stag);
	return stag;
}

uint32_t stag_sink(struct stag_table *t)
{
	return make_stag(t, 0, &t->sinks); /* no entry has index 0 */
}

static int read_secrets(struct stag_table *t)
{
	uint8_t bytes[sizeof t->secrets + sizeof t->mask];
	ssize_t n;
	do
		n = getrandom(bytes, sizeof bytes, 0); /* up to 256 bytes come whole */
	while (n < 0 && errno == EINTR);
	if (n != (ssize_t)sizeof bytes)
		return n < 0 ? -errno : -EIO;
	memcpy(t->secrets, bytes, sizeof t->secrets);
	memcpy(&t->mask, bytes + sizeof t->secrets, sizeof t->mask);
	return 0;
}

int stag_table_init(struct stag_table *t)
{
	memset(t, 0, sizeof *t);
	t->entries = calloc(STAG_ENTRIES, sizeof *t->entries);
	if (!t->entries)
		return -ENOMEM;
	t->used = 1; /* entry 0 stays unused: next_free 0 ends the list */
	int rc = read_secrets(t);
	if (rc < 0)
		stag_table_fini(t);
	return rc;
}

void stag_table_fini(struct stag_table *t)
{
	free(t->entries);
	t->entries = NULL;
}

struct stag_entry *stag_alloc(struct stag_table *t, enum stag_kind kind)
{
	uint32_t index = t->free;
	if (index)
		t->free = t->entries[index].next_free;
	else if (t->used < STAG_ENTRIES)
		index = t->used++;
	else
		return NULL;
	struct stag_entry *e = &t->entries[index];
	*e = (struct stag_entry){.kind = (uint8_t)kind, .binds = e->binds};
	return e;
}

void stag_free(struct stag_table *t, struct stag_entry *e)
{
	stag_unbind(e);
	e->kind = STAG_UNUSED;
	e->readers = 0;
	e->invalidating = NULL;
	e->next_free = t->free;
	t->free = (uint32_t)(e - t->entries);
}

void stag_bind(struct stag_table *t, struct stag_entry *e, char *addr, size_t len_bytes, unsigned int access)
{
	e->stag = make_stag(t, (uint32_t)(e - t->entries), &e->binds);
	e->addr = addr;
	e->len_bytes = len_bytes;
	e->access = (uint8_t)access;
}

void stag_unbind(struct stag_entry *e)
{
	e->stag = 0;
	e->access = 0;
}

struct stag_entry *stag_find(const struct stag_table *t, uint32_t stag)
{
	struct stag_entry *e = &t->entries[(stag ^ t->mask) & (STAG_ENTRIES - 1)];
	return stag && e->stag == stag ? e : NULL;
}

enum stag_verdict stag_check(const struct stag_table *t, uint32_t stag, uint64_t offset, uint32_t len_bytes,
			     unsigned int access, char **addr, struct stag_entry **entry)
{
	struct stag_entry *e = stag_find(t, stag);
	if (!e)
		return STAG_INVALID;
	if ((e->access & access) != access)
		return STAG_ACCESS;
	if (offset + len_bytes < offset)
		return STAG_WRAP;
	if (offset + len_bytes > e->len_bytes)
		return STAG_BOUNDS;
	*addr = e->addr + offset;
	*entry = e;
	return STAG_OK;
}

bool stag_local(const struct stag_table *t, uint32_t lkey, const void *addr, uint32_t len_bytes)
{
	const struct stag_entry *e = stag_find(t, lkey);
	if (!e || e->kind != STAG_REGION)
		return false;
	uintptr_t start = (uintptr_t)e->addr, at = (uintptr_t)addr;
	return at >= start && at - start <= e->len_bytes && len_bytes <= e->len_bytes - (at - start);
}
