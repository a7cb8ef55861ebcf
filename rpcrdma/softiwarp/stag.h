/* SPDX-License-Identifier: MIT
 *
 * The STag table of one endpoint: every region and window, and the one question that protection rests on,
 * stag_check().
 *
 * An STag is 32 bits: an index into the table, and the number of the bind under a secret permutation, all
 * under a random mask; the secrets differ from table to table. So look-up is one array access, the next key
 * cannot be told from those seen, and no key of any of an entry's last million binds ever matches again. A
 * guess matches once in 2^20 times, and each wrong one ends the connection. Tables are per endpoint: no STag
 * reaches into another connection's memory. 0 is never an STag.
 *
 * Offsets are zero-based: 0 is the first byte of the region or window, so no address is told to the peer.
 *
 * Not thread-safe: an endpoint belongs to one thread. Nothing allocates but stag_table_init().
 */
#ifndef SOFTIWARP_STAG_H
#define SOFTIWARP_STAG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define STAG_INDEX_BITS 12u
#define STAG_BIND_BITS 20u /* binds of one entry until its keys come again */
#define STAG_ENTRIES (1u << STAG_INDEX_BITS)

struct fmr;

enum stag_kind {
	STAG_UNUSED,
	STAG_REGION,
	STAG_WINDOW,
};

struct stag_entry {
	uint32_t stag; /* 0: not bound, nothing can be reached through it */
	uint32_t next_free;
	char *addr;
	size_t len_bytes;
	uint32_t binds;		  /* of this entry, ever */
	uint8_t kind;		  /* enum stag_kind */
	uint8_t access;		  /* mask of enum fmr_access: what the peer may do; 0: nothing */
	uint32_t readers;	  /* Read Responses, queued or half sent, that still read the memory */
	struct fmr *invalidating; /* completes when readers is 0 */
};

struct stag_table {
	struct stag_entry *entries;
	uint32_t used; /* entries [1, used) were used at least once */
	uint32_t free; /* head of those given back; 0: none */
	uint32_t mask;
	uint64_t secrets[4]; /* of the permutation, one for each round */
	uint32_t sinks;	     /* STags given to sinks of Reads, ever */
};

/* Why an access is refused. */
enum stag_verdict {
	STAG_OK,
	STAG_INVALID, /* no such STag */
	STAG_ACCESS,
	STAG_WRAP, /* offset + length exceeds 64 bits */
	STAG_BOUNDS,
};

int stag_table_init(struct stag_table *table); /* -ENOMEM, or -errno of getrandom() */
void stag_table_fini(struct stag_table *table);

/* An unbound entry, or NULL when the table is full. */
struct stag_entry *stag_alloc(struct stag_table *table, enum stag_kind kind);
void stag_free(struct stag_table *table, struct stag_entry *entry); /* unbinds it too */

/* Gives the entry a new STag over [addr, +len_bytes). */
void stag_bind(struct stag_table *table, struct stag_entry *entry, char *addr, size_t len_bytes,
	       unsigned int access);
void stag_unbind(struct stag_entry *entry);

/* The STag of a Read's sink, which is matched with the Read and never looked up. Not 0; the same comes again
 * after a million. */
uint32_t stag_sink(struct stag_table *table);

/* The entry that has this STag now, or NULL. */
struct stag_entry *stag_find(const struct stag_table *table, uint32_t stag);
/* May the peer do this? On STAG_OK, where the first byte is and through which entry. len_bytes > 0. */
enum stag_verdict stag_check(const struct stag_table *table, uint32_t stag, uint64_t offset,
			     uint32_t len_bytes, unsigned int access, char **addr, struct stag_entry **entry);
/* Is this local memory inside the region that lkey names? */
bool stag_local(const struct stag_table *table, uint32_t lkey, const void *addr, uint32_t len_bytes);

#endif
