/* SPDX-License-Identifier: MIT */
#include "locks.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static unsigned int bucket_of(const struct nfs3_fh *fh)
{
	uint32_t hash = 2166136261u; /* FNV-1a */
	for (uint32_t i = 0; i < fh->len; i++)
		hash = (hash ^ fh->data[i]) * 16777619u;
	return (hash ^ hash >> 16) % LOCKS_BUCKETS;
}

static bool same_file(const struct nfs3_fh *a, const struct nfs3_fh *b)
{
	return a->len == b->len && memcmp(a->data, b->data, a->len) == 0;
}

static struct lock_file *find_file(const struct lock_table *table, const struct nfs3_fh *fh)
{
	struct lock_file *file = table->buckets[bucket_of(fh)];
	while (file && !same_file(&file->fh, fh))
		file = file->next;
	return file;
}

static struct lock_file *get_file(struct lock_table *table, const struct nfs3_fh *fh)
{
	struct lock_file *file = find_file(table, fh);
	if (file)
		return file;
	file = calloc(1, sizeof *file);
	if (!file)
		return NULL;
	file->fh = *fh;
	struct lock_file **bucket = &table->buckets[bucket_of(fh)];
	file->next = *bucket;
	*bucket = file;
	return file;
}

/* A file without locks goes. */
static void put_file(struct lock_table *table, struct lock_file *file)
{
	if (file->locks)
		return;
	struct lock_file **at = &table->buckets[bucket_of(&file->fh)];
	while (*at != file)
		at = &(*at)->next;
	*at = file->next;
	free(file);
}

static void add(struct lock_table *table, struct lock_file *file, struct held_lock *lock)
{
	lock->next = file->locks;
	file->locks = lock;
	lock->owner->held++;
	table->n++;
}

/* Takes the lock out that *at points to; *at is the next one then. */
static void drop(struct lock_table *table, struct held_lock **at)
{
	struct held_lock *lock = *at;
	*at = lock->next;
	lock->owner->held--;
	table->n--;
	free(lock);
}

static bool overlaps(const struct held_lock *lock, const struct lock_owner *owner, uint64_t start,
		     uint64_t end)
{
	return lock->owner == owner && lock->start <= end && lock->end >= start;
}

/* Clears [start, end] of the owner's locks. *spare: memory for the right part of a lock that is cut in two
 * (there is at most one); taken, then NULL, when it was needed. True: he held something there. */
static bool clear(struct lock_table *table, struct lock_file *file, const struct lock_owner *owner,
		  uint64_t start, uint64_t end, struct held_lock **spare)
{
	bool any = false;
	struct held_lock **at = &file->locks;
	while (*at) {
		struct held_lock *lock = *at;
		if (!overlaps(lock, owner, start, end)) {
			at = &lock->next;
			continue;
		}
		any = true;
		if (lock->start < start && lock->end > end) {
			struct held_lock *right = *spare;
			*spare = NULL;
			*right = *lock;
			right->start = end + 1;
			lock->end = start - 1;
			add(table, file, right);
			break; /* nothing else of his can be there */
		}
		if (lock->start >= start && lock->end <= end) {
			drop(table, at);
			continue;
		}
		if (lock->start < start)
			lock->end = start - 1;
		else
			lock->start = end + 1;
		at = &lock->next;
	}
	return any;
}

static bool can_join(const struct held_lock *a, const struct held_lock *b)
{
	return a != b && a->owner == b->owner && a->open == b->open && a->exclusive == b->exclusive &&
	       a->stale == b->stale && (a->end + 1 == b->start || b->end + 1 == a->start);
}

static void join_neighbours(struct lock_table *table, struct lock_file *file, struct held_lock *lock)
{
	struct held_lock **at = &file->locks;
	while (*at) {
		struct held_lock *other = *at;
		if (!can_join(other, lock)) {
			at = &other->next;
			continue;
		}
		if (other->start < lock->start)
			lock->start = other->start;
		else
			lock->end = other->end;
		drop(table, at);
	}
}

int locks_set(struct lock_table *table, const struct nfs3_fh *fh, struct lock_owner *owner, uint64_t open,
	      uint64_t start, uint64_t end, bool exclusive)
{
	struct held_lock *lock = malloc(sizeof *lock), *spare = malloc(sizeof *spare);
	struct lock_file *file = lock && spare ? get_file(table, fh) : NULL;
	if (!file) {
		free(lock);
		free(spare);
		return -ENOMEM;
	}
	clear(table, file, owner, start, end, &spare);
	free(spare);
	*lock = (struct held_lock){
		.owner = owner, .open = open, .start = start, .end = end, .exclusive = exclusive};
	add(table, file, lock);
	join_neighbours(table, file, lock);
	return 0;
}

int locks_unset(struct lock_table *table, const struct nfs3_fh *fh, struct lock_owner *owner, uint64_t start,
		uint64_t end)
{
	struct lock_file *file = find_file(table, fh);
	if (!file)
		return 0;
	bool may_split = start > 0 && end < LOCKS_END;
	struct held_lock *spare = may_split ? malloc(sizeof *spare) : NULL;
	if (may_split && !spare)
		return -ENOMEM;
	bool any = clear(table, file, owner, start, end, &spare);
	free(spare);
	put_file(table, file);
	return any;
}

const struct held_lock *locks_at(const struct lock_table *table, const struct nfs3_fh *fh,
				 const struct lock_owner *owner, uint64_t start, uint64_t *end)
{
	const struct lock_file *file = find_file(table, fh);
	for (const struct held_lock *lock = file ? file->locks : NULL; lock; lock = lock->next) {
		if (!overlaps(lock, owner, start, *end))
			continue;
		if (lock->start <= start) {
			if (lock->end < *end)
				*end = lock->end;
			return lock;
		}
		*end = lock->start - 1;
	}
	return NULL;
}

bool locks_hold(const struct lock_table *table, const struct nfs3_fh *fh, const struct lock_owner *owner,
		uint64_t start, uint64_t end, bool exclusive)
{
	for (;;) {
		uint64_t upto = end;
		const struct held_lock *lock = locks_at(table, fh, owner, start, &upto);
		if (!lock || lock->exclusive != exclusive)
			return false;
		if (upto == end)
			return true;
		start = upto + 1;
	}
}

struct lock_owner *locks_through(const struct lock_table *table, const struct nfs3_fh *fh, uint64_t open)
{
	const struct lock_file *file = find_file(table, fh);
	for (const struct held_lock *lock = file ? file->locks : NULL; lock; lock = lock->next)
		if (lock->open == open)
			return lock->owner;
	return NULL;
}

/* ---- reclaim ---- */

void locks_make_stale(struct lock_table *table)
{
	for (unsigned int i = 0; i < LOCKS_BUCKETS; i++)
		for (struct lock_file *file = table->buckets[i]; file; file = file->next)
			for (struct held_lock *lock = file->locks; lock; lock = lock->next)
				lock->stale = true;
}

const struct held_lock *locks_stale(const struct lock_table *table, const struct nfs3_fh **fh)
{
	for (unsigned int i = 0; i < LOCKS_BUCKETS; i++)
		for (struct lock_file *file = table->buckets[i]; file; file = file->next)
			for (struct held_lock *lock = file->locks; lock; lock = lock->next)
				if (lock->stale) {
					*fh = &file->fh;
					return lock;
				}
	return NULL;
}

void locks_fresh(struct lock_table *table, const struct nfs3_fh *fh, const struct lock_owner *owner,
		 uint64_t start, uint64_t end)
{
	struct lock_file *file = find_file(table, fh);
	for (struct held_lock *lock = file ? file->locks : NULL; lock; lock = lock->next)
		if (lock->owner == owner && lock->start >= start && lock->end <= end)
			lock->stale = false;
}

void locks_fini(struct lock_table *table)
{
	for (unsigned int i = 0; i < LOCKS_BUCKETS; i++)
		while (table->buckets[i]) {
			struct lock_file *file = table->buckets[i];
			while (file->locks)
				drop(table, &file->locks);
			put_file(table, file);
		}
}
