/* SPDX-License-Identifier: MIT
 *
 * The reader's end of a mount's counters (stats.h): finds the file, checks it, and copies it out.
 *
 * The file is another process's, perhaps of another version, perhaps nobody's any more, perhaps made up: it
 * is read, never mapped, so that it can be cut short meanwhile without harm, and nothing in it is used before
 * it was checked. The mount itself is never touched.
 *
 * Errors are lines for people: what is wrong, and what to do.
 */
#ifndef SNAPSHOT_H
#define SNAPSHOT_H

#include "stats.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#define SNAPSHOT_ERR_SIZE 1024u

struct snapshot {
	struct stats_header header; /* its texts end, and are one line of valid UTF-8 each */
	uint64_t now_ns;	    /* CLOCK_MONOTONIC, when it was taken */
	uint64_t now_s;		    /* since 1970 */
	uint32_t nlanes;
	struct lane_stats *lanes; /* owned */
	/* All lanes added up. Of peaks that is an upper bound, of `kept_since_ns` the earliest, of `turn_ns`
	 * the latest, of `oldest` the one that has waited longest; state and waits_for say nothing. */
	struct lane_stats total;
	unsigned int oldest_lane;
};

/* Opens the file of what is mounted there, or the one named. The descriptor, or -1 with err filled. */
int snapshot_open_mount(const char *mountpoint, char err[SNAPSHOT_ERR_SIZE]);
int snapshot_open_file(const char *path, char err[SNAPSHOT_ERR_SIZE]);

/* 0, or -1 with err filled. s: zeroed, or a snapshot taken before, whose memory is used again. */
int snapshot_take(int fd, struct snapshot *s, char err[SNAPSHOT_ERR_SIZE]);
void snapshot_free(struct snapshot *s);

/* Is the daemon gone that should still write to the file? Only said when it can be known: it is looked for in
 * the PID namespace of this process. */
bool snapshot_is_stale(const struct snapshot *s);

/* What all printers list. */
struct counter {
	const char *group, *name, *help;
	size_t offset; /* in struct lane_stats */
};
extern const struct counter counters[];
extern const size_t ncounters;
extern const char *const proc_names[NFSPROC3_COUNT];

uint64_t counter_value(const struct lane_stats *lane, const struct counter *counter);
/* The procedure's name; of a number that a file made up too. */
const char *proc_name(uint64_t proc);
const char *state_name(uint64_t state);
const char *waits_name(uint64_t waits);
/* System calls, the device's included, for each request of the kernel's; 0 without any. */
double syscalls_per_request(const struct lane_stats *lane);

/* ---- the printers ---- */

void print_text(FILE *out, const struct snapshot *s);
void print_counters(FILE *out, const struct snapshot *s); /* NAME VALUE HELP, each on a line of its own */
void print_json(FILE *out, const struct snapshot *s);
void print_prometheus(FILE *out, const struct snapshot *s);

/* "1.2 MiB", into a buffer of its own that the next but seven calls use again. */
const char *human_bytes(double bytes);
const char *human_ms(double ns);

/* The terminal view, until q, a signal, or the unmount. Exit status. */
int watch(int fd, unsigned int interval_s);

#endif
