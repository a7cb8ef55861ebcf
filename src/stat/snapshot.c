/* SPDX-License-Identifier: MIT */
#include "snapshot.h"
#include "mountinfo.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

const struct counter counters[] = {
#define X(n, h) {"rpcrdma", #n, h, offsetof(struct lane_stats, rpcrdma.n)},
	RPCRDMA_STATS(X)
#undef X
#define X(n, h) {"fmrpool", #n, h, offsetof(struct lane_stats, fmrpool.n)},
		FMRPOOL_STATS(X)
#undef X
#define X(n, h) {"fuse", #n, h, offsetof(struct lane_stats, fuse.n)},
			FUSE_STATS(X)
#undef X
};
const size_t ncounters = sizeof counters / sizeof counters[0];

const char *const proc_names[NFSPROC3_COUNT] = {
#define X(number, NAME, name, args, reply, payload, idempotent) #NAME,
	ALL_PROCS(X)
#undef X
};

uint64_t counter_value(const struct lane_stats *lane, const struct counter *counter)
{
	uint64_t value;

	memcpy(&value, (const char *)lane + counter->offset, sizeof value);
	return value;
}

const char *proc_name(uint64_t proc)
{
	return proc < NFSPROC3_COUNT ? proc_names[proc] : "?";
}

const char *state_name(uint64_t state)
{
	static const char *const names[] = {"down", "connecting", "up"};
	return state < sizeof names / sizeof names[0] ? names[state] : "?";
}

const char *waits_name(uint64_t waits)
{
	static const char *const names[] = {"nothing", "connection", "credit", "registrations"};
	return waits < sizeof names / sizeof names[0] ? names[waits] : "?";
}

double syscalls_per_request(const struct lane_stats *lane)
{
	return lane->fuse.requests
		       ? (double)(lane->fuse.syscalls + lane->rpcrdma.syscalls) / (double)lane->fuse.requests
		       : 0;
}

/* ---- finding the file ---- */

static int fail(char *err, const char *what, const char *why)
{
	snprintf(err, SNAPSHOT_ERR_SIZE, "%.700s: %s", what, why);
	return -1;
}

/* Opens what is an ordinary file; anything else might block, or never end. */
static int open_regular(const char *path)
{
	struct stat st;
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);

	if (fd < 0)
		return -errno;
	if (fstat(fd, &st) || !S_ISREG(st.st_mode)) {
		close(fd);
		return -EINVAL;
	}
	return fd;
}

int snapshot_open_file(const char *path, char err[SNAPSHOT_ERR_SIZE])
{
	int fd = open_regular(path);

	return fd >= 0 ? fd : fail(err, path, fd == -EINVAL ? "not an ordinary file" : strerror(-fd));
}

/* The path as mountinfo has it. The last component must not be resolved by the kernel: that would ask the
 * file system. */
static const char *mount_path(const char *given, char *path)
{
	char parent[PATH_MAX], real[PATH_MAX];
	if (snprintf(parent, sizeof parent, "%s", given) >= (int)sizeof parent)
		return NULL;
	size_t n = strlen(parent);
	while (n > 1 && parent[n - 1] == '/')
		parent[--n] = '\0';
	char *slash = strrchr(parent, '/');
	const char *name = slash ? slash + 1 : parent;
	if (!*name || strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
		return realpath(given, path);
	char last[PATH_MAX];
	snprintf(last, sizeof last, "%s", name);
	if (slash)
		slash[slash == parent ? 1 : 0] = '\0';
	if (!realpath(slash ? parent : ".", real))
		return NULL;
	if (snprintf(path, PATH_MAX, "%s/%s", strcmp(real, "/") == 0 ? "" : real, last) >= PATH_MAX)
		return NULL;
	return path;
}

int snapshot_open_mount(const char *mountpoint, char err[SNAPSHOT_ERR_SIZE])
{
	char path[PATH_MAX], dir[256], file[512];
	struct mountinfo info;
	int fd = -ENOENT;

	if (!mount_path(mountpoint, path) || !mountinfo_find(path, &info))
		return fail(err, mountpoint,
			    "nothing is mounted there; findmnt -t fuse.nfsrdma lists mounts");
	if (strcmp(info.type, "fuse.nfsrdma") != 0)
		return fail(err, mountpoint, "what is mounted there is no mount of nfsrdma");
	for (unsigned int which = 0; which < 2 && fd == -ENOENT; which++) {
		if (!stats_dir(which, dir, sizeof dir))
			continue;
		snprintf(file, sizeof file, "%s/%u:%u", dir, info.major, info.minor);
		fd = open_regular(file);
	}
	if (fd == -ENOENT)
		return fail(
			err, mountpoint,
			"there is no file of its counters in /run/nfsrdma or $XDG_RUNTIME_DIR/nfsrdma; for a "
			"mount of another user's, ask as that user");
	return fd >= 0 ? fd : fail(err, file, strerror(-fd));
}

/* ---- reading it ---- */

/* The length of one UTF-8 character, or 0. Surrogates and overlong forms are none (RFC 3629). */
static size_t utf8_length(const unsigned char *p, size_t left)
{
	size_t n = p[0] < 0x80	 ? 1
		   : p[0] < 0xc2 ? 0
		   : p[0] < 0xe0 ? 2
		   : p[0] < 0xf0 ? 3
		   : p[0] < 0xf5 ? 4
				 : 0;
	if (n == 0 || n > left)
		return 0;
	for (size_t i = 1; i < n; i++)
		if ((p[i] & 0xc0) != 0x80)
			return 0;
	if ((p[0] == 0xe0 && p[1] < 0xa0) || (p[0] == 0xed && p[1] > 0x9f) || (p[0] == 0xf0 && p[1] < 0x90) ||
	    (p[0] == 0xf4 && p[1] > 0x8f))
		return 0;
	return n;
}

/* Makes it end, and everything a '?' that a terminal or a parser may choke on. */
static void clean_text(char *text, size_t size)
{
	text[size - 1] = '\0';
	size_t left = strlen(text);
	for (unsigned char *p = (unsigned char *)text; left > 0;) {
		size_t n = utf8_length(p, left);
		bool control = p[0] < ' ' || p[0] == 127 || (p[0] == 0xc2 && n == 2 && p[1] < 0xa0);
		if (n == 0 || control)
			memset(p, '?', n = n ? n : 1);
		p += n;
		left -= n;
	}
}

static const char *check(const struct stats_header *h, uint64_t file_bytes)
{
	if (memcmp(h->magic, STATS_MAGIC, sizeof h->magic) != 0)
		return "not a file of counters";
	if (h->version != STATS_VERSION || h->layout != stats_layout() ||
	    h->lane_bytes != sizeof(struct lane_stats) || h->lane_offset != sizeof *h)
		return "written by another version of nfsrdma: use the nfsrdma-stat that came with it, or "
		       "mount "
		       "again";
	if (h->nlanes == 0 || h->nlanes > STATS_LANES_MAX)
		return "damaged: it has an impossible number of lanes";
	if (file_bytes < sizeof *h + (uint64_t)h->nlanes * sizeof(struct lane_stats))
		return "damaged: it is cut short";
	return NULL;
}

static void add_words(void *into, const void *from, size_t bytes)
{
	uint64_t *a = into;
	const uint64_t *b = from;

	for (size_t i = 0; i < bytes / sizeof *a; i++)
		a[i] += b[i];
}

static void add_lane(struct snapshot *s, unsigned int i)
{
	struct lane_stats *t = &s->total;
	const struct lane_stats *l = &s->lanes[i];
	uint64_t since = t->fuse.kept_since_ns, turn = t->fuse.turn_ns;

	add_words(&t->rpcrdma, &l->rpcrdma, sizeof t->rpcrdma);
	add_words(&t->fmrpool, &l->fmrpool, sizeof t->fmrpool);
	add_words(&t->fuse, &l->fuse, sizeof t->fuse);
	t->fuse.kept_since_ns = !since || (l->fuse.kept_since_ns && l->fuse.kept_since_ns < since)
					? l->fuse.kept_since_ns
					: since;
	t->fuse.turn_ns = l->fuse.turn_ns > turn ? l->fuse.turn_ns : turn;
	if (l->oldest.since_ns && (!t->oldest.since_ns || l->oldest.since_ns < t->oldest.since_ns)) {
		t->oldest = l->oldest;
		s->oldest_lane = i;
	}
	latency_merge(&t->times.map, &l->times.map);
	latency_merge(&t->times.unmap, &l->times.unmap);
	for (unsigned int p = 0; p < NFSPROC3_COUNT; p++) {
		struct proc_stats *to = &t->procs[p];
		const struct proc_stats *from = &l->procs[p];

		add_words(&to->rpc, &from->rpc, offsetof(struct rpcrdma_kind_stats, queue));
		latency_merge(&to->rpc.queue, &from->rpc.queue);
		latency_merge(&to->rpc.rtt, &from->rpc.rtt);
		latency_merge(&to->total, &from->total);
		to->errors += from->errors;
	}
}

static uint64_t clock_of(clockid_t id)
{
	struct timespec t;
	clock_gettime(id, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

int snapshot_take(int fd, struct snapshot *s, char err[SNAPSHOT_ERR_SIZE])
{
	struct stat st;
	struct lane_stats *lanes = s->lanes;
	ssize_t n = pread(fd, &s->header, sizeof s->header, 0);

	if (n < 0 || fstat(fd, &st))
		return fail(err, "the counters", strerror(errno));
	const char *bad =
		n != sizeof s->header ? "not a file of counters" : check(&s->header, (uint64_t)st.st_size);
	if (bad)
		return fail(err, "the counters", bad);
	clean_text(s->header.source, sizeof s->header.source);
	clean_text(s->header.mountpoint, sizeof s->header.mountpoint);
	clean_text(s->header.device, sizeof s->header.device);
	clean_text(s->header.memreg, sizeof s->header.memreg);

	size_t bytes = s->header.nlanes * sizeof *lanes;
	if (lanes && s->nlanes != s->header.nlanes)
		return fail(err, "the counters", "damaged: the number of lanes has changed");
	if (!lanes)
		lanes = aligned_alloc(64, bytes);
	if (!lanes)
		return fail(err, "the counters", "no memory");
	s->lanes = lanes;
	s->nlanes = s->header.nlanes;
	if (pread(fd, lanes, bytes, s->header.lane_offset) != (ssize_t)bytes)
		return fail(err, "the counters", "damaged: it is cut short");
	s->now_ns = clock_of(CLOCK_MONOTONIC);
	s->now_s = clock_of(CLOCK_REALTIME) / 1000000000u;
	memset(&s->total, 0, sizeof s->total);
	for (unsigned int i = 0; i < s->nlanes; i++)
		add_lane(s, i);
	return 0;
}

void snapshot_free(struct snapshot *s)
{
	free(s->lanes);
	s->lanes = NULL;
}

bool snapshot_is_stale(const struct snapshot *s)
{
	uint64_t here = stats_pid_namespace();

	if (!here || s->header.pid_namespace != here || s->header.pid == 0 || s->header.pid > INT_MAX)
		return false;
	return kill((pid_t)s->header.pid, 0) < 0 && errno == ESRCH;
}
