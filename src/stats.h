/* SPDX-License-Identifier: MIT
 *
 * The counters of a mount: a file that the daemon maps and writes, and that anybody who may read it can map
 * and read, also while the mount hangs. It is /run/nfsrdma/MAJ:MIN, or $XDG_RUNTIME_DIR/nfsrdma/MAJ:MIN for a
 * mount by an ordinary user; MAJ:MIN as /proc/self/mountinfo has it. It goes with the mount.
 *
 * Each lane counts into its own block, without locks or atomics: a reader adds the blocks up, and may see a
 * moment that never was. All numbers are 64 bits, little or big endian as the machine is. A reader that finds
 * another version, or another list of counters (stats_layout()), must not guess. Times of day named _ns are
 * of CLOCK_MONOTONIC.
 */
#ifndef STATS_H
#define STATS_H

#include "fmrpool.h"
#include "nfs3.h"
#include "rpcrdma.h"

#include <assert.h>
#include <stdint.h>

#define STATS_MAGIC "nfsrdma\n"
#define STATS_VERSION 3u
#define STATS_LANES_MAX 16u /* as many as a mount may have */

/* FUSE requests and what became of them. X(name, help) */
#define FUSE_STATS(X)                                                                                        \
	X(requests, "requests read from /dev/fuse")                                                          \
	X(reads, "READ requests")                                                                            \
	X(read_bytes, "bytes answered to READ requests")                                                     \
	X(writes, "WRITE requests")                                                                          \
	X(gathered, "WRITE requests that joined the one before them")                                        \
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
	X(kept_since_ns, "since when the oldest of it waits for its COMMIT; 0: none does")                   \
	X(opens_kept, "OPENs after which the kernel may keep its pages of the file")                         \
	X(opens_dropped, "OPENs that made it drop them, for others have changed the file")                   \
	X(access_known, "permissions that were known")                                                       \
	X(access_asked, "permissions that the server was asked for")                                         \
	X(syscalls, "system calls of the lane for /dev/fuse and to sleep")                                   \
	X(ops, "requests in progress now")                                                                   \
	X(turns, "turns of the lane's loop")                                                                 \
	X(turn_ns, "when the latest turn began; a lane with nothing to do sleeps")                           \
	X(polls, "turns that were followed by another one instead of sleep, because of poll=")

struct fuse_stats {
#define X(name, help) uint64_t name;
	FUSE_STATS(X)
#undef X
};

struct proc_stats {
	struct rpcrdma_kind_stats rpc;
	uint64_t errors;      /* answered with a status that is not NFS3_OK, or not at all */
	struct latency total; /* from submitting until whoever asked has the answer */
};

/* The call of a lane that has waited longest, as of the last second in which any was there. */
struct oldest_call {
	uint64_t since_ns; /* 0: none is older than a second */
	uint64_t xid;
	uint64_t proc;
	uint64_t sends; /* 0: it has not left yet */
};

struct lane_stats {
	struct rpcrdma_stats rpcrdma;
	struct fmrpool_stats fmrpool;
	struct fuse_stats fuse;
	struct oldest_call oldest;
	struct rpcrdma_times times;
	struct proc_stats procs[NFSPROC3_COUNT];
} __attribute__((aligned(64)));

struct stats_header {
	char magic[8];
	uint32_t version;
	uint32_t nlanes;
	uint32_t lane_offset; /* of the first block */
	uint32_t lane_bytes;
	uint64_t layout;	     /* stats_layout() */
	uint64_t pid, pid_namespace; /* of the daemon: the number of its /proc/self/ns/pid */
	uint64_t started_s;	     /* since 1970 */
	uint64_t inodes;	     /* files and directories that are known; some lane's look each second */
	char source[256];
	char mountpoint[1024];
	char device[32];
	char memreg[32];
	uint64_t arena_bytes; /* per lane */
	uint64_t rsize, wsize;
} __attribute__((aligned(64)));

/* A number that is another whenever the layout of the file is another. */
uint64_t stats_layout(void);
/* The number of this process's PID namespace; 0: it cannot be told. */
uint64_t stats_pid_namespace(void);

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
