/* SPDX-License-Identifier: MIT */
#include "paths.h"
#include "siphash.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#define DEPTH_MAX 2048 /* a path of PATH_MAX holds no more; ends the walk if parents ever formed a ring */

struct path_entry {
	struct path_entry *chain;
	struct object_id id, parent;
	char *name; /* NULL: the entry is free */
};

struct paths {
	pthread_mutex_t lock;
	uint8_t hash_key[SIPHASH_KEY_BYTES];
	size_t chains; /* a power of two */
	size_t entries_len, next;
	struct path_entry **chain;
	struct path_entry *entries;
};

struct paths *paths_create(size_t entries)
{
	struct paths *p = calloc(1, sizeof *p);
	if (!p)
		return NULL;
	p->chains = 16;
	while (p->chains < entries)
		p->chains *= 2;
	p->entries_len = entries;
	p->chain = calloc(p->chains, sizeof(struct path_entry *));
	p->entries = calloc(entries, sizeof *p->entries);
	pthread_mutex_init(&p->lock, NULL);
	if (p->chain && p->entries && getrandom(p->hash_key, sizeof p->hash_key, 0) == sizeof p->hash_key)
		return p;
	paths_destroy(p);
	return NULL;
}

void paths_destroy(struct paths *paths)
{
	if (!paths)
		return;
	for (size_t i = 0; paths->entries && i < paths->entries_len; i++)
		free(paths->entries[i].name);
	pthread_mutex_destroy(&paths->lock);
	free(paths->entries);
	free(paths->chain);
	free(paths);
}

static bool same(const struct object_id *a, const struct object_id *b)
{
	return a->dev == b->dev && a->ino == b->ino && a->birth_ns == b->birth_ns;
}

static struct path_entry **chain_of(struct paths *p, const struct object_id *id)
{
	static_assert(sizeof *id == 24, "no padding: the identity is hashed as bytes");
	return &p->chain[siphash64(p->hash_key, id, sizeof *id) & (p->chains - 1)];
}

static struct path_entry *entry_find(struct paths *p, const struct object_id *id)
{
	struct path_entry *e = *chain_of(p, id);
	while (e && !same(&e->id, id))
		e = e->chain;
	return e;
}

static void entry_forget(struct paths *p, struct path_entry *e)
{
	struct path_entry **at = chain_of(p, &e->id);
	while (*at != e)
		at = &(*at)->chain;
	*at = e->chain;
	free(e->name);
	e->name = NULL;
}

static struct path_entry *entry_new(struct paths *p, const struct object_id *id)
{
	struct path_entry *e = &p->entries[p->next];
	p->next = (p->next + 1) % p->entries_len;
	if (e->name)
		entry_forget(p, e);
	struct path_entry **at = chain_of(p, id);
	e->id = *id;
	e->chain = *at;
	*at = e;
	return e;
}

int paths_record(struct paths *paths, const struct object_id *id, const struct object_id *parent,
		 const char *name)
{
	char *copy = strdup(name);
	if (!copy)
		return -ENOMEM;
	pthread_mutex_lock(&paths->lock);
	struct path_entry *e = entry_find(paths, id);
	if (!e)
		e = entry_new(paths, id);
	free(e->name);
	e->name = copy;
	e->parent = *parent;
	pthread_mutex_unlock(&paths->lock);
	return 0;
}

/* Puts "/name" in front of what stands at *pos. */
static int prepend(char *buf, size_t *pos, const char *name)
{
	size_t len = strlen(name);
	if (*pos < len + 1)
		return -ENAMETOOLONG;
	*pos -= len;
	memcpy(buf + *pos, name, len);
	buf[--*pos] = '/';
	return 0;
}

int paths_find(struct paths *paths, const struct object_id *id, const struct object_id *root, char *buf,
	       size_t size_bytes, const char **path)
{
	size_t pos = size_bytes - 1;
	struct object_id at = *id;
	int err = 0;
	buf[pos] = 0;
	pthread_mutex_lock(&paths->lock);
	for (int depth = 0; !err && !same(&at, root); depth++) {
		const struct path_entry *e = depth < DEPTH_MAX ? entry_find(paths, &at) : NULL;
		if (!e) {
			err = -ESTALE;
			break;
		}
		err = prepend(buf, &pos, e->name);
		at = e->parent;
	}
	pthread_mutex_unlock(&paths->lock);
	if (err)
		return err;
	*path = buf[pos] ? buf + pos + 1 : ".";
	return 0;
}
