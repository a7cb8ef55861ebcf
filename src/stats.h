/* SPDX-License-Identifier: MIT
 *
 * The counters of a mount: a file that the daemon maps and writes, and that anybody who may read it can map
 * and read, also while the mount hangs. It is /run/nfsrdma/MAJ:MIN, or $XDG_RUNTIME_DIR/nfsrdma/MAJ:MIN for a
 * mount by an ordinary user; MAJ:MIN as /proc/self/mountinfo has it. It goes with the mount.
 *
 * Each lane counts into its own block, without locks or atomics: a reader adds the blocks up, and may see a
 * moment that never was. All numbers are 64 bits, little or big endian as the machine is. A reader that finds
 * another version must not guess.
 */
#ifndef STATS_H
#define STATS_H

#include "fmrpool.h"
#include "nfs3.h"
#include "rpcrdma.h"

#include <assert.h>
#include <stdint.h>

#define STATS_MAGIC "nfsrdma\n"
#define STATS_VERSION 2u

/* FUSE requests and what became of them. X(name, help) */
#define FUSE_STATS(X)                                                                                        \
	X(requests, "requests read from /dev/fuse")                                                          \
	X(reads, "READ requests")                                                                            \
	X(read_bytes, "bytes answered to READ requests")                                                     \
	X(writes, "WRITE requests")                                                                          \
	X(write_bytes, "bytes of WRITE requests answered")                                                   \
	X(interrupts, "FUSE_INTERRUPT requests")                                                             \
	X(killed, "requests ended early because their caller was killed")                                    \
	X(jukebox, "calls sent again because the server said NFS3ERR_JUKEBOX")                               \
	X(arena_waits, "requests that waited for payload memory")                                            \
	X(overlap_waits, "WRITEs that waited for one that overlaps them")                                    \
	X(commits, "COMMITs that made data stable")                                                          \
	X(resent, "WRITEs sent again because the server's verifier had changed")                             \
	X(write_errors, "pieces of data that could not be saved")                                            \
	X(kept_bytes, "bytes of payload memory that hold data not yet stable, now")                          \
	X(ops, "requests in progress now")                                                                   \
	X(turns, "turns of the lane's loop")                                                                 \
	X(polls, "turns that were followed by another one instead of sleep, because of poll=")

struct fuse_stats {
#define X(name, help) uint64_t name;
	FUSE_STATS(X)
#undef X
};

struct proc_stats {
	uint64_t calls;
	uint64_t errors;   /* answered with a status that is not NFS3_OK, or not at all */
	uint64_t total_ns; /* from submitting to the answer */
};

struct lane_stats {
	struct rpcrdma_stats rpcrdma;
	struct fmrpool_stats fmrpool;
	struct fuse_stats fuse;
	struct proc_stats procs[NFSPROC3_COUNT];
} __attribute__((aligned(64)));

struct stats_header {
	char magic[8];
	uint32_t version;
	uint32_t nlanes;
	uint32_t lane_offset; /* of the first block */
	uint32_t lane_bytes;
	uint64_t pid;
	char source[256];
	char mountpoint[1024];
	char device[32];
	char memreg[32];
	uint64_t arena_bytes; /* per lane */
	uint64_t rsize, wsize;
} __attribute__((aligned(64)));

/* The daemon's end. */
struct stats_file;
/* `nlanes` blocks, in private memory at first. -ENOMEM. */
int stats_create(unsigned int nlanes, struct stats_file **file);
struct stats_header *stats_header(struct stats_file *file);
struct lane_stats *stats_lane(struct stats_file *file, unsigned int lane);
/* Makes the file, at the same addresses. Before any lane's thread runs. -errno: then there is none, and the
 * memory stays private: a mount does not fail for its counters. */
int stats_publish(struct stats_file *file, unsigned int major, unsigned int minor);
void stats_remove(struct stats_file *file); /* NULL is fine */

/* A reader's end: the directory in which files may be found, or NULL. 0: the daemon's of root, 1: the user's
 * own. */
const char *stats_dir(unsigned int which, char *buf, size_t size);

#endif
