/* SPDX-License-Identifier: MIT
 *
 * One JSON object (RFC 8259). Times are in nanoseconds, as the counters are.
 */
#include "snapshot.h"

#include <inttypes.h>

/* The text is valid UTF-8 without control characters (snapshot.h). */
static void put_string(FILE *out, const char *text)
{
	putc('"', out);
	for (; *text; text++) {
		if (*text == '"' || *text == '\\')
			putc('\\', out);
		putc(*text, out);
	}
	putc('"', out);
}

static void put_member(FILE *out, const char *name, const char *text)
{
	fprintf(out, "  \"%s\": ", name);
	put_string(out, text);
	fputs(",\n", out);
}

static void put_groups(FILE *out, const struct lane_stats *lane)
{
	const char *group = NULL;

	for (size_t i = 0; i < ncounters; i++) {
		const struct counter *c = &counters[i];
		bool first = !group || c->group != group;

		if (first)
			fprintf(out, "%s\"%s\": {", group ? "}, " : "", c->group);
		group = c->group;
		fprintf(out, "%s\"%s\": %" PRIu64, first ? "" : ", ", c->name, counter_value(lane, c));
	}
	fputs("}", out);
}

static void put_latency(FILE *out, const char *name, const struct latency *l)
{
	fprintf(out,
		", \"%s\": {\"count\": %" PRIu64 ", \"sum_ns\": %" PRIu64 ", \"max_ns\": %" PRIu64
		", \"p50_ns\": %.0f, \"p90_ns\": %.0f, \"p99_ns\": %.0f}",
		name, latency_count(l), l->sum_ns, l->max_ns, latency_percentile_ns(l, 0.5),
		latency_percentile_ns(l, 0.9), latency_percentile_ns(l, 0.99));
}

static void put_procs(FILE *out, const char *between, const struct lane_stats *lane)
{
	fputs("\"procs\": {", out);
	for (size_t p = 0; p < NFSPROC3_COUNT; p++) {
		const struct proc_stats *proc = &lane->procs[p];

		fprintf(out, "%s%s\"%s\": {\"errors\": %" PRIu64, p ? "," : "", between, proc_names[p],
			proc->errors);
#define X(n, h) fprintf(out, ", \"" #n "\": %" PRIu64, proc->rpc.n);
		RPCRDMA_KIND_STATS(X)
#undef X
		put_latency(out, "queue", &proc->rpc.queue);
		put_latency(out, "rtt", &proc->rpc.rtt);
		put_latency(out, "total", &proc->total);
		fputs("}", out);
	}
	fputs("}", out);
}

/* null, or the call that has waited longest. */
static void put_oldest(FILE *out, const struct snapshot *s, const struct oldest_call *oldest)
{
	if (!oldest->since_ns) {
		fputs(", \"oldest_call\": null", out);
		return;
	}
	fprintf(out,
		", \"oldest_call\": {\"procedure\": \"%s\", \"xid\": %" PRIu64 ", \"sends\": %" PRIu64
		", \"age_ns\": %" PRIu64 "}",
		proc_name(oldest->proc), oldest->xid, oldest->sends,
		s->now_ns > oldest->since_ns ? s->now_ns - oldest->since_ns : 0);
}

static void put_lane(FILE *out, const struct snapshot *s, const struct lane_stats *lane)
{
	fputs("{", out);
	put_groups(out, lane);
	fprintf(out, ", \"state\": \"%s\", \"waits_for\": \"%s\"", state_name(lane->rpcrdma.state),
		waits_name(lane->rpcrdma.waits_for));
	put_oldest(out, s, &lane->oldest);
	put_latency(out, "map", &lane->times.map);
	put_latency(out, "unmap", &lane->times.unmap);
	fputs(", ", out);
	put_procs(out, " ", lane);
	fputs("}", out);
}

void print_json(FILE *out, const struct snapshot *s)
{
	const struct stats_header *h = &s->header;

	fprintf(out, "{\n  \"version\": %u,\n  \"pid\": %" PRIu64 ",\n", h->version, h->pid);
	put_member(out, "source", h->source);
	put_member(out, "mountpoint", h->mountpoint);
	put_member(out, "device", h->device);
	put_member(out, "memreg", h->memreg);
	fprintf(out,
		"  \"arena_bytes\": %" PRIu64 ",\n  \"rsize\": %" PRIu64 ",\n  \"wsize\": %" PRIu64 ",\n",
		h->arena_bytes, h->rsize, h->wsize);
	fprintf(out,
		"  \"started_s\": %" PRIu64 ",\n  \"taken_s\": %" PRIu64 ",\n  \"taken_ns\": %" PRIu64 ",\n",
		h->started_s, s->now_s, s->now_ns);
	fprintf(out, "  \"inodes\": %" PRIu64 ",\n  \"lanes\": [\n", h->inodes);
	for (uint32_t i = 0; i < s->nlanes; i++) {
		fputs("    ", out);
		put_lane(out, s, &s->lanes[i]);
		fputs(i + 1 < s->nlanes ? ",\n" : "\n", out);
	}
	fputs("  ],\n  ", out);
	put_procs(out, "\n    ", &s->total); /* what people ask for first, added up */
	fputs("\n}\n", out);
}
