/* SPDX-License-Identifier: MIT
 *
 * The table of inodes that all lanes share: which file of the server's a node id of the kernel's stands for,
 * and what we know about that file.
 *
 * Identity. A file is (fsid, fileid, handle). The kernel names it by node id: 1 for the root, otherwise the
 * address of its struct inode, which lives until the kernel has forgotten it *and* nobody here holds a
 * reference. A fileid that the server uses again comes with another handle and is another inode; an address
 * that is used again comes with another generation, and the kernel drops what it knew of the old one. st_ino
 * is the server's fileid, all 64 bits. The files of another file system of the server's have one st_dev with
 * ours and may have the same fileids: their st_ino is fsid and fileid, mixed.
 *
 * Locks, both held for a few instructions only, never across a call into anything else:
 *   the table's lock   buckets, and references that begin or end at none (others are counted without it)
 *   inode->lock        everything of that inode below the line that says so
 * ORDER: a thread that needs both takes the table's first. Nobody holds two inodes' locks at once.
 *
 * Times are CLOCK_MONOTONIC in nanoseconds, and submitted_ns and the now_ns of inode_change_end() are read at
 * that moment: a lane's time of the turn may be older than what another lane has heard meanwhile, and a reply
 * that seems older than it is would be discarded. Nothing here sends, waits, logs or knows FUSE.
 */
#ifndef INODE_H
#define INODE_H

#include "access.h"
#include "acl_cache.h"
#include "attr.h"
#include "file_data.h"
#include "missing.h"
#include "nfs3.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>

#define INODE_ROOT_NUMBER 1u /* FUSE_ROOT_ID */

struct inode_table;
struct silly;

struct inode {
	/* Fixed when it was made: read them without a lock. */
	struct inode_table *table;
	uint64_t fsid;
	uint64_t fileid;
	uint64_t generation; /* unique in this mount */
	struct nfs3_fh fh;
	enum nfs3_type type;
	bool foreign; /* a directory of another file system of the server's: shown, not entered */

	struct file_data data; /* has its own lock */

	/* Operations, open files, pending data, and one for each time that the kernel was given its number
	 * and has not forgotten it. */
	atomic_uint_fast64_t refs;

	/* Under the table's lock. */
	struct inode *next_in_bucket;
	bool unhashed; /* its handle has come to mean another file: found no more */

	/* ---- Under inode->lock. ---- */
	pthread_mutex_t lock;
	struct attr_cache attr;
	struct access_cache *access; /* NULL until the first answer */
	struct acl_cache acls;
	struct silly *silly;   /* it was unlinked while open: its present name; see fs_silly.c */
	uint64_t told_changes; /* attr.foreign_changes when the kernel was last told the attributes */
	uint64_t
		told_as_of_ns; /* attr.as_of_ns then: the same now means that the kernel knows what we know */
	char *called;	       /* of a file: the name that last led here, for the log; NULL: none is known */
	struct missing missing; /* of a directory */
	bool told_foreign;	/* the log has its line about entering it */
	bool inval_queued;	/* the notifier has it in its queue */
};

/* limits: copied. -ENOMEM. */
int inode_table_create(const struct attr_limits *limits, struct inode_table **table);
/* Frees every inode, referenced or not: when all lanes have ended. NULL is fine. */
void inode_table_destroy(struct inode_table *table);
const struct attr_limits *inode_limits(const struct inode_table *table);

/* The root, once, before any lane runs. It is never forgotten. */
int inode_table_set_root(struct inode_table *table, const struct nfs3_fh *fh, const struct nfs3_attr *attr,
			 uint64_t now_ns);
struct inode *inode_root(struct inode_table *table);

/* Node id to inode and back. The kernel only names what it was given and has not forgotten. */
struct inode *inode_of(struct inode_table *table, uint64_t number);
uint64_t inode_number(const struct inode *inode);

/* Finds or makes the inode of a handle whose attributes came with a reply, takes the attributes, and gives
 * the caller a reference; NULL: out of memory. *verdict (may be NULL) as attr_take() gave it. */
struct inode *inode_get(struct inode_table *table, const struct nfs3_fh *fh, const struct nfs3_attr *attr,
			uint64_t submitted_ns, uint64_t now_ns, enum attr_verdict *verdict);
/* The same without making one: NULL when that handle is not in use here. */
struct inode *inode_find(struct inode_table *table, const struct nfs3_fh *fh);
struct inode *inode_ref(struct inode *inode); /* whoever calls it holds one, or was named it by the kernel */
void inode_unref(struct inode *inode);	      /* NULL is fine; may free it */

/* The kernel is being given its number once more (before the reply leaves), or has forgotten it n times. */
void inode_remember(struct inode *inode);
void inode_forget(struct inode *inode, uint64_t n);

/* Attribute replies, as attr.h has them, under the lock taken here. -ESTALE instead of a verdict when the
 * reply describes another file (fileid or type) than this inode: the handle was used again. */
int inode_take_attr(struct inode *inode, const struct nfs3_attr *attr, uint64_t submitted_ns,
		    uint64_t now_ns);
int inode_take_post_attr(struct inode *inode, const struct nfs3_post_attr *attr, uint64_t submitted_ns,
			 uint64_t now_ns); /* absent: ATTR_SAME */
/* A call of ours that changes the file (WRITE, SETATTR; for directories CREATE, REMOVE …) is about to be
 * submitted, and has been answered; wcc NULL: it has failed without telling. */
void inode_change_begin(struct inode *inode);
int inode_change_end(struct inode *inode, const struct nfs3_wcc *wcc, uint64_t submitted_ns, uint64_t now_ns);
void inode_expire(struct inode *inode);
bool inode_expired(struct inode *inode, uint64_t now_ns);

/* A name was removed or renamed: its file's ctime and link count have changed, and nobody told whose it was.
 * What was known of any file before now_ns (read at that moment) is asked for again, when it is asked for. */
void inode_names_changed(struct inode_table *table, uint64_t now_ns);

/* access.h under the lock taken here. */
bool inode_access_known(struct inode *inode, const struct cred *cred, uint32_t wanted, uint64_t now_ns,
			uint32_t *granted);
void inode_access_store(struct inode *inode, const struct nfs3_attr *attr, const struct cred *cred,
			uint32_t asked, uint32_t granted);

/* acl_cache.h, likewise. */
bool inode_acls_known(struct inode *inode, uint64_t now_ns, struct acl *access, struct acl *dflt);
void inode_acls_store(struct inode *inode, const struct nfs3_attr *attr, const struct acl *access,
		      const struct acl *dflt);
/* An ACL of it was set: what was known of its ACLs, and of who may do what, is not any more. */
void inode_rights_forget(struct inode *inode);

/* Fills *st from the cached attributes, and *valid_ns with how much longer they may be believed. The size is
 * the larger of the server's and the end of pending data, and while the server does not have all of that
 * nothing may be believed; a silly-renamed file has one link less, for the
 * name it was given is ours. False: there are none. */
bool inode_stat(struct inode *inode, uint64_t now_ns, struct stat *st, uint64_t *valid_ns);
/* The kernel is being told the attributes (LOOKUP, GETATTR, SETATTR, CREATE … replies). */
void inode_told(struct inode *inode);
/* Do we know anything that the kernel was not told? If not, and it asks, it wants the server's word: because
 * what it has makes it refuse something, or because statx(2) was told to ask. */
bool inode_has_news(struct inode *inode);
/* Others have changed the contents since, so the kernel's idea of the size is wrong. True once per change and
 * thread, however many threads ask in between: the OPEN of that thread is to be sent back to look the name up
 * again, and a second refusal would be its caller's to see. The same for a file that has no name left, though
 * the server still knows its handle: the name that led here may be another file's by now. */
bool inode_kernel_is_behind(struct inode *inode, pid_t tid);
/* Has it lost its last name, though the server still knows its handle (not by a silly rename of ours)?
 * Likewise true once per thread: then the kernel is to look the name up again, and not for ever on a server
 * that has no link counts. */
bool inode_is_nameless(struct inode *inode, pid_t tid);
/* The open of that thread was sent back already, before it was known which file it means. */
void inode_sent_back(struct inode_table *table, pid_t tid);
/* The kernel is being told that there is no such name in the directory; and what it was told so, taken out
 * because the directory has changed. */
void inode_told_missing(struct inode *dir, const char *name);
struct missing inode_take_missing(struct inode *dir);
/* How much longer the names in a directory may be believed: whoever changes a name changes its directory. */
uint64_t inode_names_valid_ns(struct inode *dir, uint64_t now_ns);
/* How often others have changed the contents: an open compares it with what it was at the last one. */
uint64_t inode_foreign_changes(struct inode *inode);

/* Pure: one file's attributes as stat(2) has them, were it of the root's file system. */
void attr_to_stat(const struct nfs3_attr *attr, struct stat *st);
/* The st_ino of whatever file has these attributes. */
ino_t inode_file_number(const struct inode_table *table, const struct nfs3_attr *attr);
/* Are a directory's names, as far as is known, still those that a call submitted then has seen? */
bool inode_names_since(struct inode *dir, uint64_t submitted_ns);

/* The kernel is being given the file under that name. */
void inode_called(struct inode *inode, const char *name, size_t len);
/* How the log speaks of a file: its name, if one is known, without what a terminal might obey, and its file
 * id on the server. The caller holds inode->lock. Returns buf. */
#define INODE_LABEL_BYTES (NFS3_NAME_MAX + 48u)
const char *inode_label(const struct inode *inode, char buf[INODE_LABEL_BYTES]);

/* Calls fn for each inode, under the table's lock and its own. */
void inode_each(struct inode_table *table, void (*fn)(struct inode *inode, void *ctx), void *ctx);

/* For statistics and tests. */
uint64_t inode_count(struct inode_table *table);

#endif
