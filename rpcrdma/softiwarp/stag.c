/* SPDX-License-Identifier: MIT */
#include "stag.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#define GENERATION_MASK ((1u << STAG_GENERATION_BITS) - 1)

_Static_assert(STAG_INDEX_BITS + STAG_GENERATION_BITS <= 16, "at least 16 bits of an STag are random");

static int next_random(struct stag_table *t, uint32_t *value)
{
	if (!t->randoms_left) {
		size_t got = 0;
		while (got < sizeof t->randoms) { /* more than 256 bytes may come in parts */
			ssize_t n = getrandom((char *)t->randoms + got, sizeof t->randoms - got, 0);
			if (n < 0 && errno != EINTR)
				return -errno;
			got += n > 0 ? (size_t)n : 0;
		}
		t->randoms_left = STAG_RANDOMS;
	}
	*value = t->randoms[--t->randoms_left];
	t->randoms[t->randoms_left] = 0; /* what was used is not kept */
	return 0;
}

int stag_random(struct stag_table *t, uint32_t *value)
{
	int rc;
	do {
		rc = next_random(t, value);
	} while (rc == 0 && !*value);
	return rc;
}

int stag_table_init(struct stag_table *t)
{
	memset(t, 0, sizeof *t);
	t->entries = calloc(STAG_ENTRIES, sizeof *t->entries);
	if (!t->entries)
		return -ENOMEM;
	t->used = 1; /* entry 0 stays unused: next_free 0 ends the list */
	int rc = next_random(t, &t->mask);
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
	*e = (struct stag_entry){.kind = (uint8_t)kind, .generation = e->generation};
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

int stag_bind(struct stag_table *t, struct stag_entry *e, char *addr, size_t len_bytes, unsigned int access)
{
	uint32_t index = (uint32_t)(e - t->entries);
	uint8_t generation = (e->generation + 1) & GENERATION_MASK;
	uint32_t stag, random = 0;
	do {
		int rc = next_random(t, &random);
		if (rc < 0)
			return rc;
		stag = (random << (STAG_INDEX_BITS + STAG_GENERATION_BITS) |
			(uint32_t)generation << STAG_INDEX_BITS | index) ^
		       t->mask;
	} while (!stag);
	e->stag = stag;
	e->generation = generation;
	e->addr = addr;
	e->len_bytes = len_bytes;
	e->access = (uint8_t)access;
	return 0;
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
