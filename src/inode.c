/* SPDX-License-Identifier: MIT
 *
 * Normal operation: a reply brings a handle and attributes; inode_get() finds the inode in a bucket of a hash
 * over the handle's bytes, or makes it. The hash is keyed with a random number: the handles are the server's
 * choice. Ownership: see inode.h. The table doubles its buckets when there are more inodes than buckets.
 */
#include "inode.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/sysmacros.h>

#define BUCKETS_FIRST 1024u
#define SENT_BACK_SLOTS 4096u
#define ANY_FILE UINT32_MAX /* in place of the low half of a generation */

struct inode_table {
	pthread_mutex_t lock; /* the table's lock of inode.h */
	struct inode **buckets;
	size_t nbuckets;	/* a power of two */
	struct inode *unhashed; /* those whose handle has come to mean another file, while they live */
	uint64_t count;		/* in buckets */
	uint64_t generations;
	uint64_t key;
	atomic_uint_fast64_t names_changed_ns; /* no lock */
	/* By thread, no lock: whose OPEN was sent back and of which file, see inode_kernel_is_behind(). A
	 * thread repeats that OPEN before it does anything else. */
	_Atomic uint64_t sent_back[SENT_BACK_SLOTS];
	struct attr_limits limits;
	struct inode *root;
};

int inode_table_create(const struct attr_limits *limits, struct inode_table **out)
{
	struct inode_table *table = calloc(1, sizeof *table);

	if (!table)
		return -ENOMEM;
	table->nbuckets = BUCKETS_FIRST;
	table->buckets = calloc(table->nbuckets, sizeof(struct inode *));
	if (!table->buckets) {
		free(table);
		return -ENOMEM;
	}
	if (getrandom(&table->key, sizeof table->key, GRND_NONBLOCK) != sizeof table->key)
		table->key = (uint64_t)(uintptr_t)table;
	pthread_mutex_init(&table->lock, NULL);
	table->limits = *limits;
	*out = table;
	return 0;
}

static void inode_free(struct inode *inode)
{
	file_data_fini(&inode->data);
	pthread_mutex_destroy(&inode->lock);
	missing_free(&inode->missing);
	free(inode->called);
	free(inode->access);
	acl_cache_drop(&inode->acls);
	free(inode);
}

static void free_chain(struct inode *inode)
{
	while (inode) {
		struct inode *next = inode->next_in_bucket;

		inode_free(inode);
		inode = next;
	}
}

void inode_table_destroy(struct inode_table *table)
{
	if (!table)
		return;
	for (size_t i = 0; i < table->nbuckets; i++)
		free_chain(table->buckets[i]);
	free_chain(table->unhashed);
	pthread_mutex_destroy(&table->lock);
	free(table->buckets);
	free(table);
}

const struct attr_limits *inode_limits(const struct inode_table *table)
{
	return &table->limits;
}

/* FNV-1a over the key and the handle, folded so that the low bits depend on all of it. */
static struct inode **bucket_of(struct inode_table *table, const struct nfs3_fh *fh)
{
	uint64_t h = 0xcbf29ce484222325u ^ table->key;

	for (uint32_t i = 0; i < fh->len; i++)
		h = (h ^ fh->data[i]) * 0x100000001b3u;
	h ^= h >> 32;
	return &table->buckets[h & (table->nbuckets - 1)];
}

static bool same_handle(const struct nfs3_fh *a, const struct nfs3_fh *b)
{
	return a->len == b->len && memcmp(a->data, b->data, a->len) == 0;
}

/* Under the table's lock. Growing may fail; the chains then only get longer. */
static void grow(struct inode_table *table)
{
	struct inode **old = table->buckets;
	size_t n = table->nbuckets;
	struct inode **new = calloc(2 * n, sizeof *new);

	if (!new)
		return;
	table->buckets = new;
	table->nbuckets = 2 * n;
	for (size_t i = 0; i < n; i++) {
		while (old[i]) {
			struct inode *inode = old[i];
			struct inode **bucket = bucket_of(table, &inode->fh);

			old[i] = inode->next_in_bucket;
			inode->next_in_bucket = *bucket;
			*bucket = inode;
		}
	}
	free(old);
}

static void unlink_from(struct inode **chain, struct inode *inode)
{
	while (*chain != inode)
		chain = &(*chain)->next_in_bucket;
	*chain = inode->next_in_bucket;
}

/* Nobody will find it any more; who has it keeps it. */
static void unhash(struct inode_table *table, struct inode *inode)
{
	unlink_from(bucket_of(table, &inode->fh), inode);
	table->count--;
	inode->unhashed = true;
	inode->next_in_bucket = table->unhashed;
	table->unhashed = inode;
}

static struct inode *inode_new(struct inode_table *table, const struct nfs3_fh *fh,
			       const struct nfs3_attr *attr)
{
	struct inode *inode = calloc(1, sizeof *inode);

	if (!inode)
		return NULL;
	inode->table = table;
	inode->fsid = attr->fsid;
	inode->fileid = attr->fileid;
	inode->generation = ++table->generations;
	inode->fh = *fh;
	inode->type = attr->type;
	inode->foreign = attr->type == NFS3_DIR && table->root && attr->fsid != table->root->fsid;
	file_data_init(&inode->data);
	pthread_mutex_init(&inode->lock, NULL);
	return inode;
}

static struct inode *find(struct inode_table *table, const struct nfs3_fh *fh)
{
	struct inode *inode = *bucket_of(table, fh);

	while (inode && !same_handle(&inode->fh, fh))
		inode = inode->next_in_bucket;
	return inode;
}

static struct inode *insert(struct inode_table *table, const struct nfs3_fh *fh, const struct nfs3_attr *attr)
{
	struct inode *inode = inode_new(table, fh, attr);

	if (!inode)
		return NULL;
	if (table->count >= table->nbuckets)
		grow(table);
	struct inode **bucket = bucket_of(table, fh);

	inode->next_in_bucket = *bucket;
	*bucket = inode;
	table->count++;
	return inode;
}

int inode_table_set_root(struct inode_table *table, const struct nfs3_fh *fh, const struct nfs3_attr *attr,
			 uint64_t now_ns)
{
	struct inode *root = insert(table, fh, attr);

	if (!root)
		return -ENOMEM;
	inode_ref(root); /* the table's, for ever */
	table->root = root;
	attr_take(&root->attr, &table->limits, attr, now_ns, now_ns);
	return 0;
}

struct inode *inode_root(struct inode_table *table)
{
	return table->root;
}

struct inode *inode_of(struct inode_table *table, uint64_t number)
{
	return number == INODE_ROOT_NUMBER ? table->root : (struct inode *)(uintptr_t)number;
}

uint64_t inode_number(const struct inode *inode)
{
	return inode == inode->table->root ? INODE_ROOT_NUMBER : (uint64_t)(uintptr_t)inode;
}

static bool same_file(const struct inode *inode, const struct nfs3_attr *attr)
{
	return inode->type == attr->type && inode->fileid == attr->fileid && inode->fsid == attr->fsid;
}

struct inode *inode_get(struct inode_table *table, const struct nfs3_fh *fh, const struct nfs3_attr *attr,
			uint64_t submitted_ns, uint64_t now_ns, enum attr_verdict *verdict)
{
	pthread_mutex_lock(&table->lock);
	struct inode *inode = find(table, fh);

	if (inode && !same_file(inode, attr) && inode != table->root) {
		unhash(table, inode);
		inode = NULL;
	}
	if (!inode)
		inode = insert(table, fh, attr);
	if (inode)
		inode_ref(inode);
	pthread_mutex_unlock(&table->lock);
	if (!inode)
		return NULL;

	pthread_mutex_lock(&inode->lock);
	enum attr_verdict v = attr_take(&inode->attr, &table->limits, attr, submitted_ns, now_ns);
	pthread_mutex_unlock(&inode->lock);
	if (verdict)
		*verdict = v;
	return inode;
}

struct inode *inode_find(struct inode_table *table, const struct nfs3_fh *fh)
{
	pthread_mutex_lock(&table->lock);
	struct inode *inode = find(table, fh);

	if (inode)
		inode_ref(inode);
	pthread_mutex_unlock(&table->lock);
	return inode;
}

struct inode *inode_ref(struct inode *inode)
{
	atomic_fetch_add(&inode->refs, 1);
	return inode;
}

void inode_remember(struct inode *inode)
{
	inode_ref(inode);
}

/* ORDER: a reference that may be the last goes under the table's lock, where inode_get() cannot find the
 * inode between its last reference and its end. */
static void drop(struct inode *inode, uint64_t n)
{
	struct inode_table *table = inode->table;
	uint_fast64_t refs = atomic_load(&inode->refs);

	while (refs > n)
		if (atomic_compare_exchange_weak(&inode->refs, &refs, refs - n))
			return;
	pthread_mutex_lock(&table->lock);
	bool last = atomic_fetch_sub(&inode->refs, n) <= n;

	if (last && !inode->unhashed)
		unhash(table, inode);
	if (last)
		unlink_from(&table->unhashed, inode);
	pthread_mutex_unlock(&table->lock);
	if (last)
		inode_free(inode);
}

void inode_unref(struct inode *inode)
{
	if (inode)
		drop(inode, 1);
}

void inode_forget(struct inode *inode, uint64_t n)
{
	if (inode != inode->table->root)
		drop(inode, n);
}

int inode_take_attr(struct inode *inode, const struct nfs3_attr *attr, uint64_t submitted_ns, uint64_t now_ns)
{
	if (!same_file(inode, attr))
		return -ESTALE;
	pthread_mutex_lock(&inode->lock);
	int verdict = attr_take(&inode->attr, &inode->table->limits, attr, submitted_ns, now_ns);
	pthread_mutex_unlock(&inode->lock);
	return verdict;
}

int inode_take_post_attr(struct inode *inode, const struct nfs3_post_attr *attr, uint64_t submitted_ns,
			 uint64_t now_ns)
{
	return attr->present ? inode_take_attr(inode, &attr->attr, submitted_ns, now_ns) : ATTR_SAME;
}

void inode_change_begin(struct inode *inode)
{
	pthread_mutex_lock(&inode->lock);
	attr_change_begin(&inode->attr);
	pthread_mutex_unlock(&inode->lock);
}

int inode_change_end(struct inode *inode, const struct nfs3_wcc *wcc, uint64_t submitted_ns, uint64_t now_ns)
{
	bool other = wcc && wcc->after.present && !same_file(inode, &wcc->after.attr);

	pthread_mutex_lock(&inode->lock);
	int verdict = attr_change_end(&inode->attr, &inode->table->limits, other ? NULL : wcc, submitted_ns,
				      now_ns);
	if (wcc && !other)
		acl_cache_moved(&inode->acls, wcc);
	pthread_mutex_unlock(&inode->lock);
	return other ? -ESTALE : verdict;
}

void inode_expire(struct inode *inode)
{
	pthread_mutex_lock(&inode->lock);
	attr_expire(&inode->attr);
	pthread_mutex_unlock(&inode->lock);
}

bool inode_expired(struct inode *inode, uint64_t now_ns)
{
	pthread_mutex_lock(&inode->lock);
	bool expired = attr_valid_ns(&inode->attr, now_ns) == 0;
	pthread_mutex_unlock(&inode->lock);
	return expired;
}

void inode_names_changed(struct inode_table *table, uint64_t now_ns)
{
	uint_fast64_t then = atomic_load(&table->names_changed_ns);

	while (then < now_ns && !atomic_compare_exchange_weak(&table->names_changed_ns, &then, now_ns))
		;
}

bool inode_access_known(struct inode *inode, const struct cred *cred, uint32_t wanted, uint64_t now_ns,
			uint32_t *granted)
{
	pthread_mutex_lock(&inode->lock);
	bool known =
		inode->access && access_known(inode->access, &inode->attr, cred, wanted, now_ns, granted);
	pthread_mutex_unlock(&inode->lock);
	return known;
}

void inode_access_store(struct inode *inode, const struct nfs3_attr *attr, const struct cred *cred,
			uint32_t asked, uint32_t granted)
{
	pthread_mutex_lock(&inode->lock);
	if (!inode->access)
		inode->access = calloc(1, sizeof *inode->access);
	if (inode->access)
		access_store(inode->access, attr, cred, asked, granted);
	pthread_mutex_unlock(&inode->lock);
}

bool inode_acls_known(struct inode *inode, uint64_t now_ns, struct acl *access, struct acl *dflt)
{
	pthread_mutex_lock(&inode->lock);
	bool known = acl_cache_known(&inode->acls, &inode->attr, now_ns, access, dflt);
	pthread_mutex_unlock(&inode->lock);
	return known;
}

void inode_acls_store(struct inode *inode, const struct nfs3_attr *attr, const struct acl *access,
		      const struct acl *dflt)
{
	pthread_mutex_lock(&inode->lock);
	acl_cache_store(&inode->acls, attr, access, dflt);
	pthread_mutex_unlock(&inode->lock);
}

void inode_rights_forget(struct inode *inode)
{
	pthread_mutex_lock(&inode->lock);
	acl_cache_drop(&inode->acls);
	free(inode->access);
	inode->access = NULL;
	pthread_mutex_unlock(&inode->lock);
}

static mode_t type_bits(enum nfs3_type type)
{
	switch (type) {
	case NFS3_DIR:
		return S_IFDIR;
	case NFS3_BLK:
		return S_IFBLK;
	case NFS3_CHR:
		return S_IFCHR;
	case NFS3_LNK:
		return S_IFLNK;
	case NFS3_SOCK:
		return S_IFSOCK;
	case NFS3_FIFO:
		return S_IFIFO;
	case NFS3_REG:
		break;
	}
	return S_IFREG;
}

static struct timespec to_timespec(struct nfs3_time t)
{
	return (struct timespec){.tv_sec = t.sec, .tv_nsec = t.nsec < 1000000000u ? (long)t.nsec : 999999999};
}

/* A bijection of 64 bits in which each bit depends on all. */
static uint64_t mixed(uint64_t x)
{
	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
	x = (x ^ x >> 27) * 0x94d049bb133111ebu;
	return x ^ x >> 31;
}

ino_t inode_file_number(const struct inode_table *table, const struct nfs3_attr *attr)
{
	bool ours = !table->root || attr->fsid == table->root->fsid;

	return ours ? attr->fileid : mixed(mixed(attr->fsid) ^ attr->fileid);
}

void attr_to_stat(const struct nfs3_attr *attr, struct stat *st)
{
	*st = (struct stat){
		.st_ino = attr->fileid,
		.st_mode = type_bits(attr->type) | (attr->mode & 07777),
		.st_nlink = attr->nlink,
		.st_uid = attr->uid,
		.st_gid = attr->gid,
		.st_size = attr->size > INT64_MAX ? INT64_MAX : (off_t)attr->size,
		.st_blksize = 4096,
		.st_blocks = (blkcnt_t)(attr->used / 512 + (attr->used % 512 != 0)),
		.st_atim = to_timespec(attr->atime),
		.st_mtim = to_timespec(attr->mtime),
		.st_ctim = to_timespec(attr->ctime),
	};
	if (attr->type == NFS3_CHR || attr->type == NFS3_BLK)
		st->st_rdev = makedev(attr->rdev_major, attr->rdev_minor);
}

bool inode_stat(struct inode *inode, uint64_t now_ns, struct stat *st, uint64_t *valid_ns)
{
	bool unanswered = false;
	uint64_t pending_end = inode->type == NFS3_REG ? file_data_pending_end(&inode->data, &unanswered) : 0;

	pthread_mutex_lock(&inode->lock);
	bool known = inode->attr.known;

	if (known) {
		attr_to_stat(&inode->attr.attr, st);
		st->st_ino = inode_file_number(inode->table, &inode->attr.attr);
		bool outdated = inode->attr.as_of_ns < atomic_load(&inode->table->names_changed_ns);

		*valid_ns = outdated || unanswered ? 0 : attr_valid_ns(&inode->attr, now_ns);
		if (inode->silly && st->st_nlink > 0)
			st->st_nlink--;
	}
	pthread_mutex_unlock(&inode->lock);
	if (known && pending_end > (uint64_t)st->st_size && pending_end <= INT64_MAX)
		st->st_size = (off_t)pending_end;
	return known;
}

void inode_told(struct inode *inode)
{
	pthread_mutex_lock(&inode->lock);
	inode->told_changes = inode->attr.foreign_changes;
	inode->told_as_of_ns = inode->attr.as_of_ns;
	pthread_mutex_unlock(&inode->lock);
}

bool inode_has_news(struct inode *inode)
{
	pthread_mutex_lock(&inode->lock);
	bool news = inode->told_as_of_ns != inode->attr.as_of_ns;
	pthread_mutex_unlock(&inode->lock);
	return news;
}

static _Atomic uint64_t *sent_back_slot(struct inode_table *table, pid_t tid)
{
	return &table->sent_back[(uint32_t)tid % SENT_BACK_SLOTS];
}

static uint64_t sent_back_mark(pid_t tid, uint32_t file)
{
	return (uint64_t)(uint32_t)tid << 32 | file;
}

void inode_sent_back(struct inode_table *table, pid_t tid)
{
	atomic_store(sent_back_slot(table, tid), sent_back_mark(tid, ANY_FILE));
}

/* Is the thread to be sent back, if there is a reason? Not when it was already. */
static bool send_back_once(struct inode *inode, pid_t tid, bool reason)
{
	_Atomic uint64_t *slot = sent_back_slot(inode->table, tid);
	uint64_t mark = sent_back_mark(tid, (uint32_t)inode->generation), found = atomic_load(slot);

	if (found == mark || found == sent_back_mark(tid, ANY_FILE)) {
		atomic_store(slot, 0);
		return false;
	}
	if (reason)
		atomic_store(slot, mark);
	return reason;
}

/* Under its lock. */
static bool has_no_name(const struct inode *inode)
{
	return inode->attr.known && inode->attr.attr.nlink == 0 && inode->type != NFS3_DIR && !inode->silly;
}

bool inode_kernel_is_behind(struct inode *inode, pid_t tid)
{
	pthread_mutex_lock(&inode->lock);
	bool behind = inode->told_changes != inode->attr.foreign_changes || has_no_name(inode);
	pthread_mutex_unlock(&inode->lock);
	return send_back_once(inode, tid, behind);
}

bool inode_is_nameless(struct inode *inode, pid_t tid)
{
	pthread_mutex_lock(&inode->lock);
	bool nameless = has_no_name(inode);
	pthread_mutex_unlock(&inode->lock);
	return nameless && send_back_once(inode, tid, true);
}

void inode_told_missing(struct inode *dir, const char *name)
{
	pthread_mutex_lock(&dir->lock);
	missing_add(&dir->missing, name);
	pthread_mutex_unlock(&dir->lock);
}

struct missing inode_take_missing(struct inode *dir)
{
	pthread_mutex_lock(&dir->lock);
	struct missing missing = missing_take(&dir->missing);
	pthread_mutex_unlock(&dir->lock);
	return missing;
}

uint64_t inode_names_valid_ns(struct inode *dir, uint64_t now_ns)
{
	pthread_mutex_lock(&dir->lock);
	uint64_t ns = attr_valid_ns(&dir->attr, now_ns);
	pthread_mutex_unlock(&dir->lock);
	return ns;
}

bool inode_names_since(struct inode *dir, uint64_t submitted_ns)
{
	pthread_mutex_lock(&dir->lock);
	bool since = attr_contents_since(&dir->attr, submitted_ns);
	pthread_mutex_unlock(&dir->lock);
	return since;
}

uint64_t inode_foreign_changes(struct inode *inode)
{
	pthread_mutex_lock(&inode->lock);
	uint64_t n = inode->attr.foreign_changes;
	pthread_mutex_unlock(&inode->lock);
	return n;
}

static void each_in(struct inode *inode, void (*fn)(struct inode *inode, void *ctx), void *ctx)
{
	for (; inode; inode = inode->next_in_bucket) {
		pthread_mutex_lock(&inode->lock);
		fn(inode, ctx);
		pthread_mutex_unlock(&inode->lock);
	}
}

void inode_called(struct inode *inode, const char *name, size_t len)
{
	if (inode->type != NFS3_REG)
		return;
	pthread_mutex_lock(&inode->lock);
	if (!inode->called || strlen(inode->called) != len || memcmp(inode->called, name, len) != 0) {
		free(inode->called);
		inode->called = strndup(name, len); /* NULL: the log makes do with the file id */
	}
	pthread_mutex_unlock(&inode->lock);
}

const char *inode_label(const struct inode *inode, char buf[INODE_LABEL_BYTES])
{
	char name[NFS3_NAME_MAX + 1];
	if (!inode->called) {
		snprintf(buf, INODE_LABEL_BYTES, "file with id %" PRIu64, inode->fileid);
		return buf;
	}
	snprintf(name, sizeof name, "%s", inode->called);
	for (char *c = name; *c; c++)
		if ((unsigned char)*c < ' ' || *c == 127)
			*c = '?';
	snprintf(buf, INODE_LABEL_BYTES, "file '%s' (id %" PRIu64 ")", name, inode->fileid);
	return buf;
}

void inode_each(struct inode_table *table, void (*fn)(struct inode *inode, void *ctx), void *ctx)
{
	pthread_mutex_lock(&table->lock);
	for (size_t i = 0; i < table->nbuckets; i++)
		each_in(table->buckets[i], fn, ctx);
	each_in(table->unhashed, fn, ctx);
	pthread_mutex_unlock(&table->lock);
}

uint64_t inode_count(struct inode_table *table)
{
	pthread_mutex_lock(&table->lock);
	uint64_t n = table->count;
	pthread_mutex_unlock(&table->lock);
	return n;
}
