/* SPDX-License-Identifier: MIT
 *
 * The STag table of one endpoint: every region and window, and the one question that protection rests on,
 * stag_check().
 *
 * An STag is 32 bits: an index into the table, a generation that counts this entry's keys, and random bits
 * from the kernel, all under a random mask that differs from table to table. So look-up is one array access;
 * a key of any of an entry's last 15 binds never matches again; older ones and guesses match once in 65536
 * times, and each wrong one ends the connection. Tables are per endpoint: no STag reaches into another
 * connection's memory. 0 is never an STag.
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
#define STAG_GENERATION_BITS 4u
#define STAG_ENTRIES (1u << STAG_INDEX_BITS)
#define STAG_RANDOMS 256u /* random words fetched from the kernel at once */

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
	uint8_t kind;	/* enum stag_kind */
	uint8_t access; /* mask of enum fmr_access: what the peer may do; 0: nothing */
	uint8_t generation;
	uint32_t readers;	  /* Read Responses, queued or half sent, that still read the memory */
	struct fmr *invalidating; /* completes when readers is 0 */
};

struct stag_table {
	struct stag_entry *entries;
	uint32_t used; /* entries [1, used) were used at least once */
	uint32_t free; /* head of those given back; 0: none */
	uint32_t mask;
	uint32_t randoms_left;
	uint32_t randoms[STAG_RANDOMS];
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

/* Gives the entry a new STag over [addr, +len_bytes). -errno only if the kernel has no random numbers. */
int stag_bind(struct stag_table *table, struct stag_entry *entry, char *addr, size_t len_bytes,
	      unsigned int access);
void stag_unbind(struct stag_entry *entry);

/* A random word that is not 0: the STag of a Read's sink, which is matched with the Read and never
 * looked up. */
int stag_random(struct stag_table *table, uint32_t *value);

/* The entry that has this STag now, or NULL. */
struct stag_entry *stag_find(const struct stag_table *table, uint32_t stag);
/* May the peer do this? On STAG_OK, where the first byte is and through which entry. len_bytes > 0. */
enum stag_verdict stag_check(const struct stag_table *table, uint32_t stag, uint64_t offset,
			     uint32_t len_bytes, unsigned int access, char **addr, struct stag_entry **entry);
/* Is this local memory inside the region that lkey names? */
bool stag_local(const struct stag_table *table, uint32_t lkey, const void *addr, uint32_t len_bytes);

#endif
