/* SPDX-License-Identifier: MIT
 *
 * The text exposition format of Prometheus, version 0.0.4: base units (seconds, bytes), counters that end in
 * _total, one HELP and one TYPE before the samples of each name. Procedures are added up over the lanes;
 * everything else has the lane as a label. Histograms have a bucket for each power of two.
 */
#include "snapshot.h"

#include <inttypes.h>
#include <string.h>

#define BUCKET_FIRST_LOG2 12u /* 4 us */
#define BUCKET_LAST_LOG2 34u  /* 17 s */

/* Counters of the table that are no plain count, or go by another name here. */
static const struct exception {
	const char *group, *name, *metric; /* metric NULL: shown in another way below, or of no use here */
} exceptions[] = {
	{"rpcrdma", "credits", "rpcrdma_credits"},
	{"rpcrdma", "outstanding", "rpcrdma_outstanding_calls"},
	{"rpcrdma", "outstanding_peak", "rpcrdma_outstanding_calls_max"},
	{"rpcrdma", "queued", NULL},
	{"rpcrdma", "waits_for", NULL},
	{"rpcrdma", "state", NULL},
	{"rpcrdma", "failures", "rpcrdma_connect_failures"},
	{"fmrpool", "fmrs", "fmrpool_fmrs"},
	{"fmrpool", "in_use", "fmrpool_fmrs_in_use"},
	{"fmrpool", "in_use_peak", "fmrpool_fmrs_in_use_max"},
	{"fmrpool", "mapped_now", "fmrpool_fmrs_mapped"},
	{"fmrpool", "unmapping_now", "fmrpool_fmrs_unmapping"},
	{"fmrpool", "arena_bytes_used", "fmrpool_arena_used_bytes"},
	{"fmrpool", "arena_bytes_peak", "fmrpool_arena_used_max_bytes"},
	{"fuse", "kept_bytes", "fuse_kept_bytes"},
	{"fuse", "kept_since_ns", NULL},
	{"fuse", "ops", "fuse_requests_in_progress"},
	{"fuse", "turn_ns", NULL},
};

static const struct exception *exception_of(const struct counter *c)
{
	for (size_t i = 0; i < sizeof exceptions / sizeof exceptions[0]; i++)
		if (strcmp(exceptions[i].group, c->group) == 0 && strcmp(exceptions[i].name, c->name) == 0)
			return &exceptions[i];
	return NULL;
}

/* The text is valid UTF-8 without control characters (snapshot.h). */
static void put_label(FILE *out, const char *name, const char *value)
{
	fprintf(out, "%s=\"", name);
	for (; *value; value++) {
		if (*value == '"' || *value == '\\')
			putc('\\', out);
		putc(*value, out);
	}
	putc('"', out);
}

static void put_family(FILE *out, const char *name, const char *type, const char *help)
{
	fprintf(out, "# HELP nfsrdma_%s %s\n# TYPE nfsrdma_%s %s\n", name, help, name, type);
}

/* NAME{mountpoint="…", up to the place for further labels. */
static void put_name(FILE *out, const struct snapshot *s, const char *name, const char *suffix)
{
	fprintf(out, "nfsrdma_%s%s{", name, suffix);
	put_label(out, "mountpoint", s->header.mountpoint);
}

static void put_lane_sample(FILE *out, const struct snapshot *s, const char *name, uint32_t lane)
{
	put_name(out, s, name, "");
	fprintf(out, ",lane=\"%u\"}", lane);
}

static double age_s(const struct snapshot *s, uint64_t since_ns)
{
	return since_ns && s->now_ns > since_ns ? (double)(s->now_ns - since_ns) / 1e9 : 0;
}

static void put_counter(FILE *out, const struct snapshot *s, const struct counter *c)
{
	const struct exception *e = exception_of(c);
	char name[96];

	if (e && !e->metric)
		return;
	if (e)
		snprintf(name, sizeof name, "%s", e->metric);
	else
		snprintf(name, sizeof name, "%s_%s_total", c->group, c->name);
	put_family(out, name, e ? "gauge" : "counter", c->help);
	for (uint32_t i = 0; i < s->nlanes; i++) {
		put_lane_sample(out, s, name, i);
		fprintf(out, " %" PRIu64 "\n", counter_value(&s->lanes[i], c));
	}
}

/* A gauge of each lane that is worked out. */
static void put_gauge(FILE *out, const struct snapshot *s, const char *name, const char *help,
		      double (*of)(const struct snapshot *s, const struct lane_stats *lane))
{
	put_family(out, name, "gauge", help);
	for (uint32_t i = 0; i < s->nlanes; i++) {
		put_lane_sample(out, s, name, i);
		fprintf(out, " %.9g\n", of(s, &s->lanes[i]));
	}
}

static double is_up(const struct snapshot *s, const struct lane_stats *lane)
{
	(void)s;
	return lane->rpcrdma.state == RPCRDMA_STATE_UP;
}

static double kept_age(const struct snapshot *s, const struct lane_stats *lane)
{
	return age_s(s, lane->fuse.kept_since_ns);
}

static double oldest_age(const struct snapshot *s, const struct lane_stats *lane)
{
	return age_s(s, lane->oldest.since_ns);
}

/* One sample for each reason, so that none goes away while Prometheus looks. */
static void put_waiting(FILE *out, const struct snapshot *s)
{
	static const char name[] = "rpcrdma_waiting_calls";

	put_family(out, name, "gauge", "calls that wait until they may leave, by what they wait for");
	for (uint32_t i = 0; i < s->nlanes; i++) {
		for (uint64_t w = RPCRDMA_WAITS_FOR_CONNECTION; w <= RPCRDMA_WAITS_FOR_REGISTRATIONS; w++) {
			const struct rpcrdma_stats *r = &s->lanes[i].rpcrdma;

			put_name(out, s, name, "");
			fprintf(out, ",lane=\"%u\",for=\"%s\"} %" PRIu64 "\n", i, waits_name(w),
				r->waits_for == w ? r->queued : 0);
		}
	}
}

/* ---- histograms ---- */

static void put_bucket(FILE *out, const struct snapshot *s, const char *name, const char *label,
		       const char *value, const char *le, uint64_t n)
{
	put_name(out, s, name, "_bucket");
	fprintf(out, ",%s=\"%s\",le=\"%s\"} %" PRIu64 "\n", label, value, le, n);
}

static void put_histogram(FILE *out, const struct snapshot *s, const char *name, const char *label,
			  const char *value, const struct latency *l)
{
	uint64_t below = 0;
	unsigned int b = 0;
	char le[32];

	for (unsigned int log2 = BUCKET_FIRST_LOG2; log2 <= BUCKET_LAST_LOG2; log2++) {
		for (; latency_bound_ns(b) <= UINT64_C(1) << log2; b++)
			below += l->buckets[b];
		snprintf(le, sizeof le, "%.9g", (double)(UINT64_C(1) << log2) / 1e9);
		put_bucket(out, s, name, label, value, le, below);
	}
	for (; b < LATENCY_BUCKETS; b++)
		below += l->buckets[b];
	put_bucket(out, s, name, label, value, "+Inf", below);
	put_name(out, s, name, "_sum");
	fprintf(out, ",%s=\"%s\"} %.9f\n", label, value, (double)l->sum_ns / 1e9);
	put_name(out, s, name, "_count");
	fprintf(out, ",%s=\"%s\"} %" PRIu64 "\n", label, value, below);
}

static void put_proc_histograms(FILE *out, const struct snapshot *s, const char *name, const char *help,
				size_t offset)
{
	put_family(out, name, "histogram", help);
	for (size_t p = 0; p < NFSPROC3_COUNT; p++) {
		const char *proc = (const char *)&s->total.procs[p];

		if (s->total.procs[p].rpc.calls)
			put_histogram(out, s, name, "procedure", proc_names[p],
				      (const struct latency *)(const void *)(proc + offset));
	}
}

static void put_lane_histograms(FILE *out, const struct snapshot *s, const char *name, const char *help,
				size_t offset)
{
	char lane[16];

	put_family(out, name, "histogram", help);
	for (uint32_t i = 0; i < s->nlanes; i++) {
		const char *at = (const char *)&s->lanes[i];

		snprintf(lane, sizeof lane, "%u", i);
		put_histogram(out, s, name, "lane", lane,
			      (const struct latency *)(const void *)(at + offset));
	}
}

/* ---- procedures ---- */

static void put_proc_counter(FILE *out, const struct snapshot *s, const char *name, const char *help,
			     size_t offset)
{
	put_family(out, name, "counter", help);
	for (size_t p = 0; p < NFSPROC3_COUNT; p++) {
		uint64_t value;

		memcpy(&value, (const char *)&s->total.procs[p] + offset, sizeof value);
		put_name(out, s, name, "");
		fprintf(out, ",procedure=\"%s\"} %" PRIu64 "\n", proc_names[p], value);
	}
}

static void put_procs(FILE *out, const struct snapshot *s)
{
#define X(n, h) put_proc_counter(out, s, "nfs_" #n "_total", h, offsetof(struct proc_stats, rpc.n));
	RPCRDMA_KIND_STATS(X)
#undef X
	put_proc_counter(out, s, "nfs_errors_total", "RPCs answered with an error, or not at all",
			 offsetof(struct proc_stats, errors));
	put_proc_histograms(out, s, "nfs_queue_seconds", "from submitting an RPC until it left",
			    offsetof(struct proc_stats, rpc.queue));
	put_proc_histograms(out, s, "nfs_round_trip_seconds", "from sending an RPC until its reply came",
			    offsetof(struct proc_stats, rpc.rtt));
	put_proc_histograms(out, s, "nfs_duration_seconds",
			    "from submitting an RPC until whoever asked had the answer",
			    offsetof(struct proc_stats, total));
}

static void put_mount(FILE *out, const struct snapshot *s)
{
	put_family(out, "mount_info", "gauge", "what is mounted, and how");
	put_name(out, s, "mount_info", "");
	putc(',', out);
	put_label(out, "source", s->header.source);
	putc(',', out);
	put_label(out, "device", s->header.device);
	putc(',', out);
	put_label(out, "memreg", s->header.memreg);
	fputs("} 1\n", out);
	put_family(out, "mount_start_time_seconds", "gauge", "when it was mounted, since 1970");
	put_name(out, s, "mount_start_time_seconds", "");
	fprintf(out, "} %" PRIu64 "\n", s->header.started_s);
	put_family(out, "inodes", "gauge", "files and directories that are known");
	put_name(out, s, "inodes", "");
	fprintf(out, "} %" PRIu64 "\n", s->header.inodes);
}

void print_prometheus(FILE *out, const struct snapshot *s)
{
	put_mount(out, s);
	put_procs(out, s);
	put_gauge(out, s, "rpcrdma_up", "1 while the lane is connected", is_up);
	put_waiting(out, s);
	put_gauge(out, s, "rpcrdma_oldest_call_age_seconds",
		  "age of the call that has waited longest for its reply; 0 below a second", oldest_age);
	put_gauge(out, s, "fuse_kept_age_seconds", "age of the oldest data that is not stable yet", kept_age);
	for (size_t i = 0; i < ncounters; i++)
		put_counter(out, s, &counters[i]);
	put_lane_histograms(out, s, "rpcrdma_map_seconds", "mapping all segments of a call",
			    offsetof(struct lane_stats, times.map));
	put_lane_histograms(out, s, "rpcrdma_unmap_seconds",
			    "from a call's reply until its last invalidate of our own has completed",
			    offsetof(struct lane_stats, times.unmap));
}
