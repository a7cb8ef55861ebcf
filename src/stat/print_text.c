/* SPDX-License-Identifier: MIT
 *
 * For people: once, what a mount has done since it was made.
 */
#include "snapshot.h"

#include <inttypes.h>

const char *human_bytes(double bytes)
{
	static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
	static char texts[8][24];
	static unsigned int turn;
	char *text = texts[turn++ % 8];
	unsigned int u = 0;

	for (; bytes >= 1024 && u < 6; u++)
		bytes /= 1024;
	snprintf(text, sizeof texts[0], u == 0 || bytes >= 100 ? "%.0f %s" : "%.1f %s", bytes, units[u]);
	return text;
}

const char *human_ms(double ns)
{
	static char texts[16][24];
	static unsigned int turn;
	char *text = texts[turn++ % 16];
	double ms = ns / 1e6;

	snprintf(text, sizeof texts[0], ms >= 1000 ? "%.0f" : ms >= 10 ? "%.1f" : "%.3f", ms);
	return text;
}

static const char *human_us(double ns)
{
	return human_ms(ns * 1000);
}

static void put_duration(FILE *out, uint64_t s)
{
	if (s >= 86400)
		fprintf(out, "%" PRIu64 " d ", s / 86400);
	fprintf(out, "%u:%02u:%02u", (unsigned int)(s / 3600 % 24), (unsigned int)(s / 60 % 60),
		(unsigned int)(s % 60));
}

static void put_head(FILE *out, const struct snapshot *s)
{
	const struct stats_header *h = &s->header;

	fprintf(out, "%s mounted on %s\n  for ", h->source, h->mountpoint);
	put_duration(out, s->now_s > h->started_s ? s->now_s - h->started_s : 0);
	fprintf(out,
		", process %" PRIu64
		", device %s, memreg %s, %u lane%s with %s of payload memory each, rsize %s, "
		"wsize %s\n",
		h->pid, h->device, h->memreg, s->nlanes, s->nlanes == 1 ? "" : "s",
		human_bytes((double)h->arena_bytes), human_bytes((double)h->rsize),
		human_bytes((double)h->wsize));
}

static void put_procs(FILE *out, const struct snapshot *s)
{
	fprintf(out, "\n%-12s %10s %8s %7s %11s %11s   %-17s %-35s %-17s\n%-12s %10s %8s %7s %11s %11s",
		"procedure", "", "", "", "bytes/op", "bytes/op", "  queue ms", "  round trip ms",
		"  in all ms", "", "ops", "retrans", "errors", "sent", "received");
	fprintf(out, "  %8s %8s  %8s %8s %8s %8s  %8s %8s\n", "mean", "99%", "mean", "50%", "99%", "max",
		"mean", "99%");
	for (size_t i = 0; i < NFSPROC3_COUNT; i++) {
		const struct proc_stats *p = &s->total.procs[i];
		double sends = p->rpc.sends ? (double)p->rpc.sends : 1;
		double replies = p->rpc.replies ? (double)p->rpc.replies : 1;

		if (!p->rpc.calls)
			continue;
		fprintf(out, "%-12s %10" PRIu64 " %8" PRIu64 " %7" PRIu64 " %11.0f %11.0f", proc_names[i],
			p->rpc.calls, p->rpc.retransmits, p->errors, (double)p->rpc.sent_bytes / sends,
			(double)p->rpc.received_bytes / replies);
		fprintf(out, "  %8s %8s  %8s %8s %8s %8s  %8s %8s\n",
			human_ms(latency_mean_ns(&p->rpc.queue)),
			human_ms(latency_percentile_ns(&p->rpc.queue, 0.99)),
			human_ms(latency_mean_ns(&p->rpc.rtt)),
			human_ms(latency_percentile_ns(&p->rpc.rtt, 0.5)),
			human_ms(latency_percentile_ns(&p->rpc.rtt, 0.99)),
			human_ms((double)p->rpc.rtt.max_ns), human_ms(latency_mean_ns(&p->total)),
			human_ms(latency_percentile_ns(&p->total, 0.99)));
	}
}

/* How old a time of CLOCK_MONOTONIC is, in seconds; 0 for none. */
static double age_s(const struct snapshot *s, uint64_t since_ns)
{
	return since_ns && s->now_ns > since_ns ? (double)(s->now_ns - since_ns) / 1e9 : 0;
}

static void put_lanes(FILE *out, const struct snapshot *s)
{
	fprintf(out, "\n%-4s %-10s %7s %11s %6s %7s %-13s %10s %6s %10s %9s\n", "lane", "state", "credits",
		"outstanding", "(peak)", "waiting", "for", "reconnects", "lost", "doorbells", "syscalls/op");
	for (uint32_t i = 0; i < s->nlanes; i++) {
		const struct lane_stats *l = &s->lanes[i];
		const struct rpcrdma_stats *r = &l->rpcrdma;

		fprintf(out,
			"%-4u %-10s %7" PRIu64 " %11" PRIu64 " %6" PRIu64 " %7" PRIu64 " %-13s %10" PRIu64
			" %6" PRIu64 " %10" PRIu64 " %11.2f\n",
			i, state_name(r->state), r->credits, r->outstanding, r->outstanding_peak, r->queued,
			waits_name(r->waits_for), r->connects ? r->connects - 1 : 0, r->disconnects,
			r->doorbells, syscalls_per_request(l));
	}
	for (uint32_t i = 0; i < s->nlanes; i++) {
		const struct oldest_call *o = &s->lanes[i].oldest;
		if (o->since_ns)
			fprintf(out,
				"lane %u waits for an answer: %s, XID 0x%08" PRIx64
				", %.0f s old, sent %" PRIu64 " time%s\n",
				i, proc_name(o->proc), o->xid, age_s(s, o->since_ns), o->sends,
				o->sends == 1 ? "" : "s");
	}
}

static void put_pools(FILE *out, const struct snapshot *s)
{
	fprintf(out,
		"\n%-4s %6s %6s %9s %8s %9s  %-17s  %-17s  %s\n%-4s %6s %6s %9s %8s %9s  %8s %8s  %8s %8s\n",
		"pool", "", "", "being", "", "ran", "  to map us", "  to unmap us", "payload memory", "lane",
		"free", "mapped", "unmapped", "waiters", "short", "mean", "99%", "mean", "99%");
	for (uint32_t i = 0; i < s->nlanes; i++) {
		const struct lane_stats *l = &s->lanes[i];
		const struct fmrpool_stats *f = &l->fmrpool;
		bool waits = l->rpcrdma.waits_for == RPCRDMA_WAITS_FOR_REGISTRATIONS;

		fprintf(out, "%-4u %6" PRIu64 " %6" PRIu64 " %9" PRIu64 " %8" PRIu64 " %9" PRIu64, i,
			f->fmrs - f->in_use, f->mapped_now, f->unmapping_now, waits ? l->rpcrdma.queued : 0,
			f->exhausted);
		fprintf(out, "  %8s %8s  %8s %8s  %s of %s, most %s\n",
			human_us(latency_mean_ns(&l->times.map)),
			human_us(latency_percentile_ns(&l->times.map, 0.99)),
			human_us(latency_mean_ns(&l->times.unmap)),
			human_us(latency_percentile_ns(&l->times.unmap, 0.99)),
			human_bytes((double)f->arena_bytes_used), human_bytes((double)s->header.arena_bytes),
			human_bytes((double)f->arena_bytes_peak));
	}
}

static void put_rest(FILE *out, const struct snapshot *s)
{
	const struct fuse_stats *f = &s->total.fuse;

	fprintf(out,
		"\ncaches   %" PRIu64
		" files and directories known; OPENs that kept the pages of the file %" PRIu64
		", dropped them %" PRIu64 "; permissions known %" PRIu64 ", asked for %" PRIu64 "\n",
		s->header.inodes, f->opens_kept, f->opens_dropped, f->access_known, f->access_asked);
	fprintf(out, "pending  %s not yet stable on the server", human_bytes((double)f->kept_bytes));
	if (f->kept_since_ns)
		fprintf(out, ", the oldest for %.1f s", age_s(s, f->kept_since_ns));
	fprintf(out, "; WRITEs sent again %" PRIu64 ", pieces lost %" PRIu64 "\n", f->resent,
		f->write_errors);
}

void print_text(FILE *out, const struct snapshot *s)
{
	put_head(out, s);
	put_procs(out, s);
	put_lanes(out, s);
	put_pools(out, s);
	put_rest(out, s);
}

void print_counters(FILE *out, const struct snapshot *s)
{
	for (size_t i = 0; i < ncounters; i++)
		fprintf(out, "%-20s %16" PRIu64 "  %s\n", counters[i].name,
			counter_value(&s->total, &counters[i]), counters[i].help);
}
