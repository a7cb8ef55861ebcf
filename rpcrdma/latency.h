/* SPDX-License-Identifier: MIT
 *
 * How long things took: a histogram that one thread fills and others may read meanwhile. A pure type: time is
 * an argument.
 *
 * Buckets are LATENCY_PARTS to each power of two, from 2^LATENCY_FIRST_LOG2 ns (1 us) to 2^LATENCY_END_LOG2
 * ns (69 s), one for all that is shorter, and one for all that is longer: a percentile is off by an eighth at
 * most in between. Adding touches two counters and the longest time; no lock, no atomic, no allocation. A
 * reader may see a moment that never was: the sum with a time whose bucket does not count it yet.
 */
#ifndef LATENCY_H
#define LATENCY_H

#include <stdint.h>

#define LATENCY_FIRST_LOG2 10u
#define LATENCY_END_LOG2 36u
#define LATENCY_PARTS 4u
#define LATENCY_BUCKETS (1u + (LATENCY_END_LOG2 - LATENCY_FIRST_LOG2) * LATENCY_PARTS + 1u)

struct latency {
	uint64_t sum_ns;
	uint64_t max_ns;
	uint64_t buckets[LATENCY_BUCKETS];
};

static inline unsigned int latency_bucket(uint64_t ns)
{
	if (ns >> LATENCY_FIRST_LOG2 == 0)
		return 0;
	unsigned int log2 = 63u - (unsigned int)__builtin_clzll(ns);
	if (log2 >= LATENCY_END_LOG2)
		return LATENCY_BUCKETS - 1;
	unsigned int part = (unsigned int)(ns >> (log2 - 2)) & (LATENCY_PARTS - 1);
	return 1 + (log2 - LATENCY_FIRST_LOG2) * LATENCY_PARTS + part;
}

/* Every time of the bucket is shorter than this. */
static inline uint64_t latency_bound_ns(unsigned int bucket)
{
	if (bucket == 0)
		return UINT64_C(1) << LATENCY_FIRST_LOG2;
	if (bucket >= LATENCY_BUCKETS - 1)
		return UINT64_MAX;
	unsigned int log2 = LATENCY_FIRST_LOG2 + (bucket - 1) / LATENCY_PARTS;
	return (uint64_t)(LATENCY_PARTS + (bucket - 1) % LATENCY_PARTS + 1) << (log2 - 2);
}

static inline void latency_add(struct latency *l, uint64_t ns)
{
	l->buckets[latency_bucket(ns)]++;
	l->sum_ns += ns;
	if (ns > l->max_ns)
		l->max_ns = ns;
}

/* ---- for those who read ---- */

static inline uint64_t latency_count(const struct latency *l)
{
	uint64_t n = 0;

	for (unsigned int i = 0; i < LATENCY_BUCKETS; i++)
		n += l->buckets[i];
	return n;
}

static inline double latency_mean_ns(const struct latency *l)
{
	uint64_t n = latency_count(l);

	return n ? (double)l->sum_ns / (double)n : 0;
}

static inline void latency_merge(struct latency *into, const struct latency *from)
{
	for (unsigned int i = 0; i < LATENCY_BUCKETS; i++)
		into->buckets[i] += from->buckets[i];
	into->sum_ns += from->sum_ns;
	if (from->max_ns > into->max_ns)
		into->max_ns = from->max_ns;
}

/* What came after `earlier`; the longest time stays that of all. */
static inline void latency_subtract(struct latency *l, const struct latency *earlier)
{
	for (unsigned int i = 0; i < LATENCY_BUCKETS; i++)
		l->buckets[i] -= earlier->buckets[i];
	l->sum_ns -= earlier->sum_ns;
}

/* The time that a share of 0 < p <= 1 of all does not exceed; 0 when there is none. In its bucket times are
 * taken to be spread evenly. */
static inline double latency_percentile_ns(const struct latency *l, double p)
{
	double rank = p * (double)latency_count(l), below = 0;

	for (unsigned int i = 0; i < LATENCY_BUCKETS; i++) {
		double here = (double)l->buckets[i];
		if (here == 0 || below + here < rank) {
			below += here;
			continue;
		}
		double low = i ? (double)latency_bound_ns(i - 1) : 0;
		double high = (double)latency_bound_ns(i), max = (double)l->max_ns;
		if (high > max)
			high = max > low ? max : low;
		return low + (high - low) * (rank - below) / here;
	}
	return 0;
}

#endif
