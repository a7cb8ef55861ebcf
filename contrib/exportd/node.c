/* SPDX-License-Identifier: MIT
 *
 * Shards by the hash of the handle, each with a lock, chains, and a list by last use. Descriptors are opened
 * outside of the lock: two threads that miss together both open, and the second takes the first's.
 */
#include "node.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#define SHARDS 16
#define CHAINS 1024 /* per shard */
#define NODE_FILES_MAX 8

struct node_file {
	struct node_file *next;
	int fd;
	enum file_access access; /* or-ed */
	uint32_t refs;
	bool gone;
	bool lasting; /* opened by creation: kept while used, see node_file_adopt() */
	int64_t opened_s, used_s;
	struct cred cred;
};

struct node_shard {
	pthread_mutex_t lock;
	size_t len, max;
	struct node *chain[CHAINS];
	struct node age; /* age.newer is the one unused for longest */
};

struct nodes {
	uint8_t hash_key[SIPHASH_KEY_BYTES];
	struct node_shard shards[SHARDS];
};

static int proc_fds = -1;

int node_init(void)
{
	proc_fds = open("/proc/self/fd", O_PATH | O_DIRECTORY | O_CLOEXEC);
	return proc_fds < 0 ? -errno : 0;
}

const char *node_path(const struct node *node, char path[NODE_PATH_BYTES])
{
	snprintf(path, NODE_PATH_BYTES, "/proc/self/fd/%d", node->fd);
	return path;
}

static int64_t now_s(void)
{
	struct timespec ts;
	clock_gettime(CLOCK_MONOTONIC_COARSE, &ts);
	return ts.tv_sec;
}

struct nodes *nodes_create(size_t max)
{
	struct nodes *nodes = calloc(1, sizeof *nodes);
	if (!nodes)
		return NULL;
	if (getrandom(nodes->hash_key, sizeof nodes->hash_key, 0) != sizeof nodes->hash_key) {
		free(nodes);
		return NULL;
	}
	for (int i = 0; i < SHARDS; i++) {
		struct node_shard *s = &nodes->shards[i];
		pthread_mutex_init(&s->lock, NULL);
		s->max = max / SHARDS + 1;
		s->age.newer = s->age.older = &s->age;
	}
	return nodes;
}

static struct node_shard *shard_of(struct nodes *nodes, const struct fh *fh, struct node ***chain)
{
	uint64_t hash = siphash64(nodes->hash_key, fh->bytes, fh->len_bytes);
	struct node_shard *s = &nodes->shards[hash % SHARDS];
	*chain = &s->chain[hash / SHARDS % CHAINS];
	return s;
}

static void age_unlink(struct node *n)
{
	n->older->newer = n->newer;
	n->newer->older = n->older;
}

static void age_append(struct node_shard *s, struct node *n)
{
	n->newer = &s->age;
	n->older = s->age.older;
	n->older->newer = n;
	s->age.older = n;
}

static void file_free(struct node_file *f)
{
	close(f->fd);
	free(f);
}

/* Takes it out of the node; it is closed with its last reference. */
static void file_drop(struct node_file **at)
{
	struct node_file *f = *at;
	*at = f->next;
	f->gone = true;
	if (f->refs == 0)
		file_free(f);
}

static void node_free(struct node *n)
{
	while (n->files)
		file_drop(&n->files);
	close(n->fd);
	free(n);
}

/* Takes the node that *at points to out of its chain. Lock held. */
static void node_drop(struct node **at)
{
	struct node *n = *at;
	*at = n->chain;
	age_unlink(n);
	n->shard->len--;
	n->gone = true;
	if (n->refs == 0)
		node_free(n);
}

static struct node **node_find(struct node **chain, const struct fh *fh)
{
	struct node **at = chain;
	while (*at &&
	       ((*at)->fh.len_bytes != fh->len_bytes || memcmp((*at)->fh.bytes, fh->bytes, fh->len_bytes)))
		at = &(*at)->chain;
	return at;
}

/* Where a node's chain points at it. */
static struct node **node_place(struct nodes *nodes, struct node *n)
{
	struct node **chain;
	shard_of(nodes, &n->fh, &chain);
	while (*chain != n)
		chain = &(*chain)->chain;
	return chain;
}

static void node_use(struct node *n, int64_t now)
{
	n->refs++;
	n->used_s = now;
	age_unlink(n);
	age_append(n->shard, n);
}

static void evict(struct nodes *nodes, struct node_shard *s)
{
	struct node *n = s->age.newer;
	while (s->len > s->max && n != &s->age) {
		struct node *next = n->newer;
		if (n->refs == 0)
			node_drop(node_place(nodes, n));
		n = next;
	}
}

static struct node *node_cached(struct nodes *nodes, const struct fh *fh)
{
	struct node **chain;
	struct node_shard *s = shard_of(nodes, fh, &chain);
	int64_t now = now_s();
	pthread_mutex_lock(&s->lock);
	struct node **at = node_find(chain, fh);
	struct node *n = *at;
	if (n && S_ISDIR(n->type) && now - n->opened_s > NODE_AGE_MAX_S) {
		node_drop(at);
		n = NULL;
	}
	if (n)
		node_use(n, now);
	pthread_mutex_unlock(&s->lock);
	return n;
}

int node_adopt(struct nodes *nodes, const struct export *x, const struct fh *fh, int fd, mode_t mode,
	       struct node **node)
{
	struct node *fresh = malloc(sizeof *fresh);
	if (!fresh) {
		close(fd);
		return -ENOMEM;
	}
	struct node **chain;
	struct node_shard *s = shard_of(nodes, fh, &chain);
	int64_t now = now_s();
	*fresh = (struct node){
		.export = x, .fd = fd, .type = mode & S_IFMT, .fh = *fh, .shard = s, .opened_s = now};
	pthread_mutex_lock(&s->lock);
	struct node *n = *node_find(chain, fh);
	if (n) {
		node_free(fresh);
	} else {
		n = fresh;
		n->chain = *chain;
		*chain = n;
		age_append(s, n);
		s->len++;
	}
	node_use(n, now);
	evict(nodes, s);
	pthread_mutex_unlock(&s->lock);
	*node = n;
	return 0;
}

static const struct export *export_of(const struct export *exports, size_t len, uint32_t id)
{
	for (size_t i = 0; i < len; i++)
		if (exports[i].id == id)
			return &exports[i];
	return NULL;
}

static int node_get_slow(struct nodes *nodes, const struct export *exports, size_t exports_len,
			 const struct fh *fh, struct node **node)
{
	struct fh_body body;
	struct stat st;
	/* All exports have the server's key. */
	int err = fh_unseal(exports[0].key, fh, &body);
	if (err)
		return err;
	const struct export *x = export_of(exports, exports_len, body.export_id);
	if (!x)
		return -ESTALE;
	int fd = export_open_fh(x, &body);
	if (fd < 0)
		return fd;
	if (fstat(fd, &st) < 0) {
		err = -errno;
		close(fd);
		return err;
	}
	return node_adopt(nodes, x, fh, fd, st.st_mode, node);
}

int node_get(struct nodes *nodes, const struct export *exports, size_t exports_len, const struct fh *fh,
	     struct node **node)
{
	/* Found by all of its bytes, seal included: it was checked when it came in. */
	*node = node_cached(nodes, fh);
	return *node ? 0 : node_get_slow(nodes, exports, exports_len, fh, node);
}

void node_put(struct node *node)
{
	if (!node)
		return;
	struct node_shard *s = node->shard;
	pthread_mutex_lock(&s->lock);
	if (--node->refs == 0 && node->gone)
		node_free(node);
	pthread_mutex_unlock(&s->lock);
}

int node_stat(struct node *node, struct stat *st)
{
	if (fstat(node->fd, st) < 0)
		return -errno;
	return st->st_nlink == 0 ? -ESTALE : 0;
}

void nodes_forget(struct nodes *nodes, const struct fh *fh)
{
	struct node **chain;
	struct node_shard *s = shard_of(nodes, fh, &chain);
	pthread_mutex_lock(&s->lock);
	struct node **at = node_find(chain, fh);
	if (*at)
		node_drop(at);
	pthread_mutex_unlock(&s->lock);
}

static void sweep_files(struct node *n, int64_t now)
{
	struct node_file **at = &n->files;
	while (*at) {
		struct node_file *f = *at;
		if (f->refs == 0 && now - f->used_s > IDLE_MAX_S)
			file_drop(at);
		else
			at = &f->next;
	}
}

void nodes_sweep(struct nodes *nodes)
{
	int64_t now = now_s();
	for (int i = 0; i < SHARDS; i++) {
		struct node_shard *s = &nodes->shards[i];
		pthread_mutex_lock(&s->lock);
		for (struct node *n = s->age.newer, *next; n != &s->age; n = next) {
			next = n->newer;
			sweep_files(n, now);
			if (n->refs == 0 && !n->files && now - n->used_s > IDLE_MAX_S)
				node_drop(node_place(nodes, n));
		}
		pthread_mutex_unlock(&s->lock);
	}
}

static bool cred_equal(const struct cred *a, const struct cred *b)
{
	return memcmp(a, b, sizeof *a) == 0;
}

static struct node_file **file_find(struct node *n, const struct cred *cred, enum file_access access)
{
	struct node_file **at = &n->files;
	while (*at && (((*at)->access & access) != access || !cred_equal(&(*at)->cred, cred)))
		at = &(*at)->next;
	return at;
}

static struct node_file *file_cached(struct node *n, const struct cred *cred, enum file_access access)
{
	int64_t now = now_s();
	pthread_mutex_lock(&n->shard->lock);
	struct node_file **at = file_find(n, cred, access);
	struct node_file *f = *at;
	if (f && !f->lasting && now - f->opened_s > FILE_AGE_MAX_S) {
		file_drop(at);
		f = NULL;
	}
	if (f) {
		f->refs++;
		f->used_s = now;
	}
	pthread_mutex_unlock(&n->shard->lock);
	return f;
}

static int open_again(int fd, int flags)
{
	char name[NODE_PATH_BYTES];
	snprintf(name, sizeof name, "%d", fd);
	fd = openat(proc_fds, name, flags | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

int node_path_of(int fd)
{
	return open_again(fd, O_PATH);
}

static int reopen(const struct node *n, int flags)
{
	return open_again(n->fd, flags | O_NONBLOCK | O_NOCTTY);
}

static int reopen_as_server(const struct node *n, int flags)
{
	struct cred_hold held = cred_raise();
	int fd = reopen(n, flags);
	cred_lower(held);
	return fd;
}

/* An ordinary user's server has no rights above its user's: the owner could give himself this one, so it does
 * that for the moment of the open. The change time of the file moves; rare, because creation leaves a
 * descriptor. */
static int reopen_by_mode(const struct node *n, const struct stat *st, int flags)
{
	char path[NODE_PATH_BYTES];
	mode_t bits = st->st_mode & 07777;
	if (chmod(node_path(n, path), bits | S_IRUSR | S_IWUSR) < 0)
		return -EACCES;
	int fd = reopen(n, flags);
	if (chmod(path, bits) < 0 && fd >= 0) {
		close(fd);
		return -EACCES;
	}
	return fd;
}

static int open_data(const struct node *n, const struct cred *cred, enum file_access access)
{
	int flags = access == FILE_WRITE ? O_WRONLY : O_RDONLY;
	struct stat st;
	int fd = reopen(n, flags);
	if (fd != -EACCES)
		return fd;
	if (fstat(n->fd, &st) < 0)
		return -errno;
	if (st.st_uid == cred->uid)
		return cred_can_switch() ? reopen_as_server(n, flags) : reopen_by_mode(n, &st, flags);
	if (access == FILE_READ && cred_can_switch() &&
	    faccessat(n->fd, "", X_OK, AT_EMPTY_PATH | AT_EACCESS) == 0)
		return reopen_as_server(n, flags);
	return -EACCES;
}

static struct node_file *file_new(const struct cred *cred, enum file_access access, int fd)
{
	struct node_file *f = malloc(sizeof *f);
	if (!f)
		return NULL;
	int64_t now = now_s();
	*f = (struct node_file){
		.fd = fd, .access = access, .refs = 1, .opened_s = now, .used_s = now, .cred = *cred};
	return f;
}

/* Lock taken here. Makes room by dropping the file that was opened first. */
static void file_insert(struct node *n, struct node_file *f)
{
	pthread_mutex_lock(&n->shard->lock);
	int len = 0;
	for (struct node_file **at = &n->files; *at;) {
		if (++len >= NODE_FILES_MAX)
			file_drop(at);
		else
			at = &(*at)->next;
	}
	f->next = n->files;
	n->files = f;
	pthread_mutex_unlock(&n->shard->lock);
}

int node_file_get(struct node *node, const struct cred *cred, enum file_access access,
		  struct node_file **file, int *fd)
{
	struct node_file *f = file_cached(node, cred, access);
	if (!f) {
		int opened = open_data(node, cred, access);
		if (opened < 0)
			return opened;
		f = file_new(cred, access, opened);
		if (!f) {
			close(opened);
			return -ENOMEM;
		}
		file_insert(node, f);
	}
	*file = f;
	*fd = f->fd;
	return 0;
}

void node_file_put(struct node *node, struct node_file *file)
{
	pthread_mutex_lock(&node->shard->lock);
	if (--file->refs == 0 && file->gone)
		file_free(file);
	pthread_mutex_unlock(&node->shard->lock);
}

void node_file_adopt(struct node *node, const struct cred *cred, enum file_access access, int fd)
{
	struct node_file *f = file_new(cred, access, fd);
	if (!f) {
		close(fd);
		return;
	}
	/* Who created a file may write what he is about to write, whatever mode he gave it. */
	f->lasting = true;
	file_insert(node, f);
	node_file_put(node, f);
}

void node_files_close(struct node *node)
{
	pthread_mutex_lock(&node->shard->lock);
	for (struct node_file **at = &node->files; *at;) {
		if ((*at)->lasting)
			at = &(*at)->next;
		else
			file_drop(at);
	}
	pthread_mutex_unlock(&node->shard->lock);
}
