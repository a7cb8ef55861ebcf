/* SPDX-License-Identifier: MIT
 *
 * nfsrdma-stat MOUNTPOINT|--file FILE [--json]: what a mount has done, from its file of counters (stats.h).
 * It never touches the mount, so it also answers for one that hangs.
 */
#include "mountinfo.h"
#include "stats.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

struct counter {
	const char *group, *name, *help;
	size_t offset; /* in struct lane_stats */
};

static const struct counter counters[] = {
#define X(n, h) {"rpcrdma", #n, h, offsetof(struct lane_stats, rpcrdma.n)},
	RPCRDMA_STATS(X)
#undef X
#define X(n, h) {"fmrpool", #n, h, offsetof(struct lane_stats, fmrpool.n)},
		X(borrowed, "registrations lent to RPCs") X(mapped, "maps onto a segment") X(
			unmapped_local, "unmapped by our own invalidate")
			X(unmapped_remote, "unmapped by the server's Send-with-Invalidate") X(
				unmapped_lost, "unmapped by the end of the connection")
				X(exhausted, "borrows that found too few") X(in_use, "registrations lent now")
					X(in_use_peak, "the most that were lent at once")
						X(registrations, "regions registered") X(
							arena_bytes_used, "payload memory in use now")
							X(arena_bytes_peak, "the most payload memory in use")
#undef X
#define X(n, h) {"fuse", #n, h, offsetof(struct lane_stats, fuse.n)},
								FUSE_STATS(X)
#undef X
};

static const char *const proc_names[] = {
#define X(number, NAME, name, args, reply, payload, idempotent) #NAME,
	NFS3_PROCS(X)
#undef X
};

struct view {
	const struct stats_header *header;
	size_t bytes;
};

static const struct lane_stats *lane_of(const struct view *v, uint32_t i)
{
	return (const struct lane_stats *)((const char *)v->header + v->header->lane_offset +
					   (size_t)i * v->header->lane_bytes);
}

static uint64_t value_at(const struct lane_stats *lane, size_t offset)
{
	return *(const volatile uint64_t *)((const char *)lane + offset);
}

static uint64_t sum(const struct view *v, size_t offset)
{
	uint64_t total = 0;
	for (uint32_t i = 0; i < v->header->nlanes; i++)
		total += value_at(lane_of(v, i), offset);
	return total;
}

/* Is it one of ours, of this version, and whole? */
static const char *check(const struct view *v)
{
	const struct stats_header *h = v->header;
	if (v->bytes < sizeof *h || memcmp(h->magic, STATS_MAGIC, sizeof h->magic) != 0)
		return "not a file of counters";
	if (h->version != STATS_VERSION || h->lane_bytes != sizeof(struct lane_stats) ||
	    h->lane_offset != sizeof *h)
		return "written by another version of nfsrdma";
	if (h->nlanes > (v->bytes - sizeof *h) / sizeof(struct lane_stats))
		return "cut short";
	return NULL;
}

static int map_file(const char *path, struct view *v)
{
	struct stat st;
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	if (fstat(fd, &st) || st.st_size <= 0) {
		close(fd);
		return -EINVAL;
	}
	v->bytes = (size_t)st.st_size;
	v->header = mmap(NULL, v->bytes, PROT_READ, MAP_SHARED, fd, 0);
	close(fd);
	return v->header == MAP_FAILED ? -ENOMEM : 0;
}

static int find(const struct mountinfo *info, struct view *v)
{
	char dir[256], path[512];
	int err = -ENOENT;
	for (unsigned int which = 0; which < 2; which++) {
		if (!stats_dir(which, dir, sizeof dir))
			continue;
		snprintf(path, sizeof path, "%s/%u:%u", dir, info->major, info->minor);
		err = map_file(path, v);
		if (err != -ENOENT)
			break;
	}
	return err;
}

static void print_table(const struct view *v)
{
	const struct stats_header *h = v->header;
	printf("%.*s on %.*s\n", (int)sizeof h->source, h->source, (int)sizeof h->mountpoint, h->mountpoint);
	printf("pid %" PRIu64 ", %u lane%s, device %.*s, memreg %.*s, arena %" PRIu64
	       " bytes per lane, rsize %" PRIu64 ", wsize %" PRIu64 "\n",
	       h->pid, h->nlanes, h->nlanes == 1 ? "" : "s", (int)sizeof h->device, h->device,
	       (int)sizeof h->memreg, h->memreg, h->arena_bytes, h->rsize, h->wsize);
	const char *group = "";
	for (size_t i = 0; i < sizeof counters / sizeof counters[0]; i++) {
		const struct counter *c = &counters[i];
		if (strcmp(group, c->group) != 0)
			printf("\n%s\n", c->group);
		group = c->group;
		printf("  %-20s %16" PRIu64 "  %s\n", c->name, sum(v, c->offset), c->help);
	}
	printf("\n%-22s %16s %10s %12s\n", "NFSv3 procedure", "calls", "errors", "mean us");
	for (size_t p = 0; p < NFSPROC3_COUNT; p++) {
		uint64_t calls =
			sum(v, offsetof(struct lane_stats, procs[0].calls) + p * sizeof(struct proc_stats));
		uint64_t errors =
			sum(v, offsetof(struct lane_stats, procs[0].errors) + p * sizeof(struct proc_stats));
		uint64_t ns = sum(v, offsetof(struct lane_stats, procs[0].total_ns) +
					     p * sizeof(struct proc_stats));
		if (calls)
			printf("  %-20s %16" PRIu64 " %10" PRIu64 " %12.1f\n", proc_names[p], calls, errors,
			       (double)ns / (double)calls / 1000);
	}
}

static void json_string(const char *name, const char *text, size_t max)
{
	printf("  \"%s\": \"", name);
	for (size_t i = 0; i < max && text[i]; i++) {
		unsigned char c = (unsigned char)text[i];
		if (c < 0x20 || c == '"' || c == '\\')
			printf("\\u%04x", c);
		else
			putchar(c);
	}
	printf("\",\n");
}

static void json_lane(const struct lane_stats *lane)
{
	const char *group = "";
	printf("    {");
	for (size_t i = 0; i < sizeof counters / sizeof counters[0]; i++) {
		const struct counter *c = &counters[i];
		bool first = strcmp(group, c->group) != 0;
		if (first)
			printf("%s\"%s\": {", *group ? "}, " : "", c->group);
		group = c->group;
		printf("%s\"%s\": %" PRIu64, first ? "" : ", ", c->name, value_at(lane, c->offset));
	}
	printf("}, \"procs\": {");
	for (size_t p = 0; p < NFSPROC3_COUNT; p++)
		printf("%s\"%s\": {\"calls\": %" PRIu64 ", \"errors\": %" PRIu64 ", \"total_ns\": %" PRIu64
		       "}",
		       p ? ", " : "", proc_names[p], lane->procs[p].calls, lane->procs[p].errors,
		       lane->procs[p].total_ns);
	printf("}}");
}

static void print_json(const struct view *v)
{
	const struct stats_header *h = v->header;
	printf("{\n  \"version\": %u,\n  \"pid\": %" PRIu64 ",\n", h->version, h->pid);
	json_string("source", h->source, sizeof h->source);
	json_string("mountpoint", h->mountpoint, sizeof h->mountpoint);
	json_string("device", h->device, sizeof h->device);
	json_string("memreg", h->memreg, sizeof h->memreg);
	printf("  \"arena_bytes\": %" PRIu64 ",\n  \"rsize\": %" PRIu64 ",\n  \"wsize\": %" PRIu64 ",\n",
	       h->arena_bytes, h->rsize, h->wsize);
	printf("  \"lanes\": [\n");
	for (uint32_t i = 0; i < h->nlanes; i++) {
		json_lane(lane_of(v, i));
		printf(i + 1 < h->nlanes ? ",\n" : "\n");
	}
	printf("  ]\n}\n");
}

/* The path as mountinfo has it. The last component must not be resolved by the kernel: that would ask the
 * file system. */
static const char *mount_path(const char *given, char *path)
{
	char parent[PATH_MAX], real[PATH_MAX];
	snprintf(parent, sizeof parent, "%s", given);
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

/* Finds the counters of what is mounted at mountpoint. NULL, or what is wrong. */
static const char *open_mount(const char *mountpoint, struct view *v)
{
	static char path[PATH_MAX];
	struct mountinfo info;
	if (!mount_path(mountpoint, path) || !mountinfo_find(path, &info))
		return "nothing is mounted there";
	int err = find(&info, v);
	return err ? strerror(-err) : check(v);
}

static const char *open_file(const char *path, struct view *v)
{
	int err = map_file(path, v);
	return err ? strerror(-err) : check(v);
}

static int usage(FILE *out)
{
	fprintf(out, "usage: nfsrdma-stat MOUNTPOINT|--file FILE [--json]\n");
	return out == stdout ? 0 : 2;
}

int main(int argc, char *argv[])
{
	const char *mountpoint = NULL, *file = NULL;
	bool json = false;
	for (int i = 1; i < argc; i++) {
		if (strcmp(argv[i], "--help") == 0)
			return usage(stdout);
		if (strcmp(argv[i], "--json") == 0)
			json = true;
		else if (strcmp(argv[i], "--file") == 0 && i + 1 < argc)
			file = argv[++i];
		else if (argv[i][0] == '-' || mountpoint)
			return usage(stderr);
		else
			mountpoint = argv[i];
	}
	if (!mountpoint == !file)
		return usage(stderr);
	struct view v;
	const char *bad = file ? open_file(file, &v) : open_mount(mountpoint, &v);
	if (bad) {
		fprintf(stderr, "nfsrdma-stat: %s: %s\n", file ? file : mountpoint, bad);
		return 1;
	}
	(json ? print_json : print_table)(&v);
	return 0;
}
