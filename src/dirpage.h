/* SPDX-License-Identifier: MIT
 *
 * One page of a directory listing: a server's READDIR or READDIRPLUS reply, kept by an open directory until
 * the kernel, whose own buffers are often much smaller, has taken all of it. A pure type but for its memory:
 * no I/O.
 *
 * Places in a directory are the server's cookies, 64 bits, passed through as offsets: telldir(), seekdir()
 * and a kernel that throws away part of what it asked for all come back with the cookie of the last entry
 * used.
 */
#ifndef DIRPAGE_H
#define DIRPAGE_H

#include "dircookie.h"
#include "nfs3.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct dirpage {
	uint8_t *bytes; /* the reply behind the RPC header */
	size_t size_bytes, len_bytes;
	bool loaded;
	bool plus;
	bool eof;	  /* the directory ends with it */
	uint64_t start;	  /* the cookie that it was asked for */
	uint64_t end;	  /* the cookie to go on with */
	uint32_t skipped; /* entries left out for their names */
	uint64_t at; /* the cookie of the entry that `next` follows: where the kernel is likely to go on */
	struct nfs3_list first, next;
	struct cookie_loop loop;
};

void dirpage_fini(struct dirpage *page);
/* Nothing is loaded any more. */
void dirpage_drop(struct dirpage *page);

/*
 * Copies and checks a reply to READDIR(PLUS) at cookie `start`: entries are sound to the last, and the
 * cookies do not go round. *head is always filled on 0; only with head->status NFS3_OK is something loaded.
 * -EBADMSG: broken; -ELOOP: the listing goes round in a circle, or does not get on; -ENOMEM.
 */
int dirpage_load(struct dirpage *page, const void *reply, size_t len_bytes, bool plus, uint64_t start,
		 struct nfs3_list_head *head);

/* Stands behind the entry whose cookie is given, or at the start; false: that place is not in this page. */
bool dirpage_seek(struct dirpage *page, uint64_t cookie);
/* The next entry, which stays the next until dirpage_step(); false: none is left. */
bool dirpage_peek(const struct dirpage *page, struct nfs3_entry *entry);
void dirpage_step(struct dirpage *page);

#endif
