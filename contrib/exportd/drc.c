/* SPDX-License-Identifier: MIT
 *
 * One lock: an entry is touched twice per call that changes a directory or attributes, and those calls cost
 * the file system far more. Entries stand in a list by age (oldest first) and in chains by the hash of their
 * key.
 */
#include "drc.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

enum entry_state {
	ENTRY_FREE,    /* in no chain */
	ENTRY_RUNNING, /* its call is being run; not to be evicted */
	ENTRY_DONE,    /* holds the reply */
};

struct drc_entry {
	struct drc_entry *chain;
	struct drc_entry *older, *newer;
	enum entry_state state;
	uint32_t waiters; /* threads that will read this reply: it must not be evicted before */
	uint32_t reply_len_bytes;
	struct drc_key key;
	uint8_t reply[DRC_REPLY_MAX_BYTES];
};

struct drc {
	pthread_mutex_t lock;
	pthread_cond_t finished;
	uint8_t hash_key[SIPHASH_KEY_BYTES];
	size_t chains; /* a power of two */
	struct drc_entry **chain;
	struct drc_entry age; /* the ends of the list: age.newer is the oldest */
	struct drc_entry entries[];
};

static void age_unlink(struct drc_entry *e)
{
	e->older->newer = e->newer;
	e->newer->older = e->older;
}

static void age_append(struct drc *drc, struct drc_entry *e)
{
	e->older = drc->age.older;
	e->newer = &drc->age;
	e->older->newer = e;
	drc->age.older = e;
}

static void age_prepend(struct drc *drc, struct drc_entry *e)
{
	e->older = &drc->age;
	e->newer = drc->age.newer;
	e->newer->older = e;
	drc->age.newer = e;
}

struct drc *drc_create(size_t entries)
{
	struct drc *drc = calloc(1, sizeof *drc + entries * sizeof *drc->entries);
	if (!drc)
		return NULL;
	drc->chains = 16;
	while (drc->chains < entries)
		drc->chains *= 2;
	drc->chain = calloc(drc->chains, sizeof(struct drc_entry *));
	if (!drc->chain || getrandom(drc->hash_key, sizeof drc->hash_key, 0) != sizeof drc->hash_key) {
		free(drc->chain);
		free(drc);
		return NULL;
	}
	pthread_mutex_init(&drc->lock, NULL);
	pthread_cond_init(&drc->finished, NULL);
	drc->age.older = drc->age.newer = &drc->age;
	for (size_t i = 0; i < entries; i++)
		age_append(drc, &drc->entries[i]);
	return drc;
}

void drc_destroy(struct drc *drc)
{
	if (!drc)
		return;
	pthread_cond_destroy(&drc->finished);
	pthread_mutex_destroy(&drc->lock);
	free(drc->chain);
	free(drc);
}

static struct drc_entry **chain_of(struct drc *drc, const struct drc_key *key)
{
	static_assert(sizeof *key == 16 + 4 + 4 + 8, "no padding: the key is hashed and compared as bytes");
	return &drc->chain[siphash64(drc->hash_key, key, sizeof *key) & (drc->chains - 1)];
}

static struct drc_entry *entry_find(struct drc *drc, const struct drc_key *key)
{
	struct drc_entry *e = *chain_of(drc, key);
	while (e && memcmp(&e->key, key, sizeof *key) != 0)
		e = e->chain;
	return e;
}

static void entry_forget(struct drc *drc, struct drc_entry *e)
{
	struct drc_entry **at = chain_of(drc, &e->key);
	while (*at != e)
		at = &(*at)->chain;
	*at = e->chain;
	e->state = ENTRY_FREE;
}

/* The oldest entry that nobody uses, out of its chain; NULL if all are in use. */
static struct drc_entry *entry_take(struct drc *drc)
{
	struct drc_entry *e = drc->age.newer;
	while (e != &drc->age && (e->state == ENTRY_RUNNING || e->waiters))
		e = e->newer;
	if (e == &drc->age)
		return NULL;
	if (e->state == ENTRY_DONE)
		entry_forget(drc, e);
	return e;
}

static struct drc_entry *entry_start(struct drc *drc, const struct drc_key *key)
{
	struct drc_entry *e = entry_take(drc);
	if (!e)
		return NULL;
	struct drc_entry **at = chain_of(drc, key);
	e->key = *key;
	e->chain = *at;
	*at = e;
	e->state = ENTRY_RUNNING;
	age_unlink(e);
	age_append(drc, e);
	return e;
}

/* Waits until e's call has ended. True: its reply was copied. */
static bool entry_await(struct drc *drc, struct drc_entry *e, uint8_t *reply, uint32_t *len_bytes)
{
	e->waiters++;
	while (e->state == ENTRY_RUNNING)
		pthread_cond_wait(&drc->finished, &drc->lock);
	e->waiters--;
	if (e->state != ENTRY_DONE)
		return false;
	memcpy(reply, e->reply, e->reply_len_bytes);
	*len_bytes = e->reply_len_bytes;
	return true;
}

bool drc_begin(struct drc *drc, const struct drc_key *key, struct drc_entry **entry, uint8_t *reply,
	       uint32_t *len_bytes)
{
	bool replayed = false;
	pthread_mutex_lock(&drc->lock);
	struct drc_entry *e;
	/* A call that ended without a reply is no longer found: then this one is new after all. */
	while (!replayed && (e = entry_find(drc, key)))
		replayed = entry_await(drc, e, reply, len_bytes);
	*entry = replayed ? NULL : entry_start(drc, key);
	pthread_mutex_unlock(&drc->lock);
	return !replayed;
}

void drc_finish(struct drc *drc, struct drc_entry *entry, const uint8_t *reply, uint32_t len_bytes)
{
	if (!entry)
		return;
	pthread_mutex_lock(&drc->lock);
	if (len_bytes == 0 || len_bytes > sizeof entry->reply) {
		entry_forget(drc, entry);
		age_unlink(entry);
		age_prepend(drc, entry);
	} else {
		memcpy(entry->reply, reply, len_bytes);
		entry->reply_len_bytes = len_bytes;
		entry->state = ENTRY_DONE;
	}
	pthread_cond_broadcast(&drc->finished);
	pthread_mutex_unlock(&drc->lock);
}
