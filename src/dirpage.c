/* SPDX-License-Identifier: MIT */
#include "dirpage.h"

#include "xdr.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

void dirpage_fini(struct dirpage *page)
{
	free(page->bytes);
	*page = (struct dirpage){0};
}

void dirpage_drop(struct dirpage *page)
{
	page->loaded = false;
}

static int copy(struct dirpage *page, const void *reply, size_t len_bytes)
{
	if (len_bytes > page->size_bytes) {
		uint8_t *bytes = realloc(page->bytes, len_bytes);

		if (!bytes)
			return -ENOMEM;
		page->bytes = bytes;
		page->size_bytes = len_bytes;
	}
	if (len_bytes)
		memcpy(page->bytes, reply, len_bytes);
	page->len_bytes = len_bytes;
	return 0;
}

/* Reads all entries once, before the first is given away. Behind skipped ones the listing goes on, too. */
static int check(struct dirpage *page)
{
	struct nfs3_list list = page->first;
	struct nfs3_entry entry;
	uint64_t last = page->start;
	int err;

	while ((err = nfs3_list_next(&list, &entry)) == 1) {
		last = entry.cookie;
		if (cookie_loop_step(&page->loop, last))
			return -ELOOP;
	}
	if (err)
		return err;
	if (list.cookie != last && cookie_loop_step(&page->loop, list.cookie))
		return -ELOOP;
	page->eof = list.eof;
	page->skipped = list.skipped;
	page->end = list.cookie;
	return page->end == page->start && !page->eof ? -ELOOP : 0;
}

int dirpage_load(struct dirpage *page, const void *reply, size_t len_bytes, bool plus, uint64_t start,
		 struct nfs3_list_head *head)
{
	bool goes_on = page->loaded && page->end == start && start != 0;
	int err = copy(page, reply, len_bytes);

	page->loaded = false;
	if (err)
		return err;
	struct xdr_reader r = xdr_reader(page->bytes, page->len_bytes);

	err = nfs3_list_begin(&page->first, &r, plus, head);
	if (err || head->status != NFS3_OK)
		return err;
	if (!goes_on)
		cookie_loop_start(&page->loop, start);
	page->start = page->end = page->at = start;
	page->plus = plus;
	page->first.cookie = start; /* of no entry yet */
	page->next = page->first;
	err = check(page);
	page->loaded = !err;
	return err;
}

bool dirpage_seek(struct dirpage *page, uint64_t cookie)
{
	struct nfs3_entry entry;

	if (!page->loaded)
		return false;
	if (cookie == page->at)
		return true;
	page->next = page->first;
	page->at = page->start;
	while (page->at != cookie && nfs3_list_next(&page->next, &entry) == 1)
		page->at = entry.cookie;
	return page->at == cookie;
}

bool dirpage_peek(const struct dirpage *page, struct nfs3_entry *entry)
{
	struct nfs3_list list = page->next;

	return page->loaded && nfs3_list_next(&list, entry) == 1;
}

void dirpage_step(struct dirpage *page)
{
	struct nfs3_entry entry;

	if (nfs3_list_next(&page->next, &entry) == 1)
		page->at = entry.cookie;
}
