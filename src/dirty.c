/* SPDX-License-Identifier: MIT
 *
 * Normal operation. A WRITE is added, flies, is answered and kept, and goes with the next COMMIT. The flying
 * ones are few (a lane has only so many calls), so looking through them for an overlap is cheap; the kept
 * ones may be many and are never looked through then.
 *
 * Ordering. Because overlapping ranges never fly together, of two that overlap the older was answered first.
 * So a COMMIT that covers the newer covers the older too, and "newest wins" need only be worked out where it
 * matters: when a verifier has changed, or when bytes became stable out of turn (FILE_SYNC) and leave no
 * range behind.
 *
 * Gathering. A fresh range that grows becomes the newest: its new bytes are, and nothing newer overlaps the
 * old ones, or it would not be fresh any more.
 *
 * Recovery. A range that must be sent again keeps its old place in time (seq): each newer range that is
 * answered cuts it. It may therefore end up in several pieces, or with nothing left.
 */
#include "dirty.h"

#include <assert.h>
#include <stddef.h>
#include <string.h>

static uint64_t range_end(const struct dirty_range *r)
{
	return r->len_bytes > UINT64_MAX - r->offset ? UINT64_MAX : r->offset + r->len_bytes;
}

static bool overlap(const struct dirty_range *a, const struct dirty_range *b)
{
	return a->offset < range_end(b) && b->offset < range_end(a);
}

static void list_append(struct dirty_list *list, struct dirty_range *r)
{
	r->next = NULL;
	r->prev = list->last;
	if (list->last)
		list->last->next = r;
	else
		list->first = r;
	list->last = r;
}

static void list_remove(struct dirty_list *list, struct dirty_range *r)
{
	if (r->prev)
		r->prev->next = r->next;
	else
		list->first = r->next;
	if (r->next)
		r->next->prev = r->prev;
	else
		list->last = r->prev;
	r->next = r->prev = NULL;
}

static struct dirty_list *list_of(struct dirty *d, enum dirty_state state)
{
	switch (state) {
	case DIRTY_FRESH:
		return &d->fresh;
	case DIRTY_WAITING:
		return &d->waiting;
	case DIRTY_FLYING:
		return &d->flying;
	case DIRTY_KEPT:
		return &d->kept;
	case DIRTY_AGAIN:
		return &d->again;
	case DIRTY_IDLE:
		break;
	}
	return NULL;
}

static void move(struct dirty *d, struct dirty_range *r, enum dirty_state state)
{
	if (r->state != DIRTY_IDLE)
		list_remove(list_of(d, r->state), r);
	r->state = state;
	if (state != DIRTY_IDLE)
		list_append(list_of(d, state), r);
}

static void set_again(struct dirty *d, struct dirty_range *r, bool again)
{
	if (again != r->again)
		d->nagain += again ? 1 : -1u;
	r->again = again;
}

static void pend(struct dirty *d, const struct dirty_range *r)
{
	if (r->len_bytes > 0 && range_end(r) > d->pending_end)
		d->pending_end = range_end(r);
}

static void pend_unanswered(struct dirty *d)
{
	const struct dirty_list *lists[] = {&d->fresh, &d->waiting, &d->flying};
	for (int i = 0; i < 3; i++)
		for (const struct dirty_range *r = lists[i]->first; r; r = r->next)
			if (r->behind || r->again)
				pend(d, r);
}

/* What ended at `end` is pending no more. */
static void unpend(struct dirty *d, uint64_t end)
{
	if (end < d->pending_end)
		return;
	d->pending_end = 0;
	pend_unanswered(d);
	for (const struct dirty_range *r = d->kept.first; r; r = r->next)
		pend(d, r);
	for (const struct dirty_range *r = d->again.first; r; r = r->next)
		pend(d, r);
}

/* Does r overlap one that flies, or one that waits before it in the queue? */
static bool must_wait(const struct dirty *d, const struct dirty_range *r)
{
	for (const struct dirty_range *f = d->flying.first; f; f = f->next)
		if (overlap(f, r))
			return true;
	for (const struct dirty_range *w = d->waiting.first; w && w != r; w = w->next)
		if (overlap(w, r))
			return true;
	return false;
}

static bool fly_or_wait(struct dirty *d, struct dirty_range *r)
{
	bool wait = must_wait(d, r);
	move(d, r, wait ? DIRTY_WAITING : DIRTY_FLYING);
	return !wait;
}

/* What was held back so far goes before a newer one that overlaps it. */
static void release_below(struct dirty *d, const struct dirty_range *newer)
{
	for (struct dirty_range *f = d->fresh.first, *next; f; f = next) {
		next = f->next;
		if (overlap(f, newer))
			move(d, f, DIRTY_WAITING);
	}
}

static void arrive(struct dirty *d, struct dirty_range *range)
{
	assert(range->state == DIRTY_IDLE);
	range->seq = ++d->seq;
	range->again = false;
	release_below(d, range);
	if (range->behind)
		pend(d, range);
}

bool dirty_add(struct dirty *d, struct dirty_range *range)
{
	arrive(d, range);
	return fly_or_wait(d, range);
}

bool dirty_gather(struct dirty *d, struct dirty_range *range)
{
	assert(range->behind);
	arrive(d, range);
	bool wait = must_wait(d, range);
	move(d, range, wait ? DIRTY_WAITING : DIRTY_FRESH);
	return !wait;
}

bool dirty_grow(struct dirty *d, struct dirty_range *range, uint64_t bytes)
{
	struct dirty_range more = {.offset = range_end(range), .len_bytes = bytes};
	if (range->state != DIRTY_FRESH || must_wait(d, &more))
		return false;
	for (const struct dirty_range *f = d->fresh.first; f; f = f->next)
		if (overlap(f, &more))
			return false;
	range->len_bytes += bytes;
	range->seq = ++d->seq;
	pend(d, range);
	return true;
}

bool dirty_send_fresh(struct dirty *d, struct dirty_range *range)
{
	assert(range->state == DIRTY_FRESH);
	return fly_or_wait(d, range);
}

void dirty_release(struct dirty *d)
{
	while (d->fresh.first)
		move(d, d->fresh.first, DIRTY_WAITING);
}

static bool has_unanswered(const struct dirty_list *list, uint64_t upto)
{
	for (const struct dirty_range *r = list->first; r; r = r->next)
		if (r->behind && !r->again && r->seq <= upto)
			return true;
	return false;
}

bool dirty_unanswered(const struct dirty *d, uint64_t upto)
{
	return has_unanswered(&d->fresh, upto) || has_unanswered(&d->waiting, upto) ||
	       has_unanswered(&d->flying, upto);
}

bool dirty_send_again(struct dirty *d, struct dirty_range *range)
{
	assert(range->state == DIRTY_AGAIN && range->len_bytes > 0);
	return fly_or_wait(d, range);
}

struct dirty_range *dirty_next_ready(struct dirty *d)
{
	for (struct dirty_range *w = d->waiting.first; w; w = w->next) {
		if (must_wait(d, w))
			continue;
		move(d, w, DIRTY_FLYING);
		return w;
	}
	return NULL;
}

/* Takes [from, to) out of r, which overlaps it. A piece that is left behind `to` becomes a range of its own,
 * in the same list. */
static bool cut(struct dirty *d, struct dirty_range *r, uint64_t from, uint64_t to, dirty_split_fn *split)
{
	uint64_t end = range_end(r);
	bool ok = true;
	if (from <= r->offset) {
		uint64_t skip = to < end ? to - r->offset : r->len_bytes;
		r->offset += skip;
		r->len_bytes -= skip;
		return true;
	}
	if (to < end) {
		struct dirty_range *tail = split(r);
		if (tail) {
			tail->next = tail->prev = NULL;
			tail->state = DIRTY_IDLE;
			tail->offset = to;
			tail->len_bytes = end - to;
			tail->seq = r->seq;
			tail->answered = r->answered;
			tail->again = false;
			tail->behind = r->behind;
			tail->resends = r->resends;
			memcpy(tail->verf, r->verf, sizeof tail->verf);
			/* Beside its other half: the list of kept ranges is in order of answers. */
			struct dirty_list *list = list_of(d, r->state);
			tail->state = r->state;
			tail->prev = r;
			tail->next = r->next;
			if (r->next)
				r->next->prev = tail;
			else
				list->last = tail;
			r->next = tail;
			set_again(d, tail, r->again);
		}
		ok = tail != NULL;
	}
	r->len_bytes = from - r->offset;
	return ok;
}

/* Cuts what is older than `newer` in one list. */
static bool cut_list(struct dirty *d, struct dirty_list *list, const struct dirty_range *newer,
		     bool only_again, dirty_split_fn *split)
{
	bool ok = true;
	for (struct dirty_range *r = list->first; r; r = r->next)
		if (r != newer && r->seq < newer->seq && (r->again || !only_again) && overlap(r, newer))
			ok = cut(d, r, newer->offset, range_end(newer), split) && ok;
	return ok;
}

/* Newest wins: what waits to be sent again is cut by a newer range that the server has answered. */
static bool cut_again(struct dirty *d, const struct dirty_range *newer, dirty_split_fn *split)
{
	if (!d->nagain)
		return true;
	bool ok = cut_list(d, &d->again, newer, true, split);
	return cut_list(d, &d->waiting, newer, true, split) && ok;
}

bool dirty_answered(struct dirty *d, struct dirty_range *range, const uint8_t verf[DIRTY_VERF_BYTES],
		    dirty_split_fn *split)
{
	assert(range->state == DIRTY_FLYING);
	set_again(d, range, false);
	range->answered = ++d->answers;
	memmove(range->verf, verf, sizeof range->verf); /* may be the same */
	move(d, range, DIRTY_KEPT);
	pend(d, range);
	return cut_again(d, range, split);
}

bool dirty_stable(struct dirty *d, struct dirty_range *range, dirty_split_fn *split)
{
	assert(range->state == DIRTY_FLYING);
	set_again(d, range, false);
	move(d, range, DIRTY_IDLE);
	bool ok = cut_again(d, range, split);
	ok = cut_list(d, &d->kept, range, false, split) && ok;
	unpend(d, range_end(range));
	return ok;
}

void dirty_drop(struct dirty *d, struct dirty_range *range)
{
	set_again(d, range, false);
	move(d, range, DIRTY_IDLE);
	if (range->len_bytes != DIRTY_TO_END)
		unpend(d, range_end(range));
}

static void truncate_list(struct dirty_list *list, uint64_t size, bool only_again)
{
	for (struct dirty_range *r = list->first; r; r = r->next) {
		if ((only_again && !r->again) || range_end(r) <= size)
			continue;
		r->len_bytes = r->offset < size ? size - r->offset : 0;
	}
}

void dirty_truncate(struct dirty *d, uint64_t size)
{
	truncate_list(&d->kept, size, false);
	truncate_list(&d->again, size, true);
	truncate_list(&d->waiting, size, true);
	if (d->pending_end > size) {
		d->pending_end = size;
		pend_unanswered(d); /* newer than the cut */
	}
}

/* Of the kept ranges up to `upto`, makes AGAIN those with another verifier and returns the others, out of all
 * lists. */
static struct dirty_range *sort_out(struct dirty *d, uint64_t upto, const uint8_t verf[DIRTY_VERF_BYTES])
{
	struct dirty_list stable = {0};
	for (struct dirty_range *r = d->kept.first, *next; r && r->answered <= upto; r = next) {
		next = r->next;
		if (r->len_bytes > 0 && memcmp(r->verf, verf, sizeof r->verf) != 0) {
			r->resends++;
			set_again(d, r, true);
			move(d, r, DIRTY_AGAIN);
		} else {
			move(d, r, DIRTY_IDLE);
			list_append(&stable, r);
		}
	}
	return stable.first;
}

struct dirty_range *dirty_committed(struct dirty *d, uint64_t upto, const uint8_t verf[DIRTY_VERF_BYTES],
				    dirty_split_fn *split, bool *ok)
{
	struct dirty_range *stable = sort_out(d, upto, verf);
	*ok = true;
	if (d->nagain) {
		for (const struct dirty_range *r = stable; r; r = r->next)
			*ok = cut_again(d, r, split) && *ok;
		for (const struct dirty_range *r = d->kept.first; r; r = r->next)
			*ok = cut_again(d, r, split) && *ok;
		for (const struct dirty_range *r = d->again.first; r; r = r->next)
			*ok = cut_again(d, r, split) && *ok;
	}
	unpend(d, d->pending_end);
	return stable;
}

uint64_t dirty_bytes(const struct dirty *d)
{
	const struct dirty_list *lists[] = {&d->fresh, &d->waiting, &d->flying, &d->kept, &d->again};
	uint64_t bytes = 0;
	for (int i = 0; i < 5; i++)
		for (const struct dirty_range *r = lists[i]->first; r; r = r->next)
			if (r->behind || r->again || r->state == DIRTY_KEPT)
				bytes += r->len_bytes;
	return bytes;
}

bool dirty_is_stable(const struct dirty *d, uint64_t upto)
{
	return !d->nagain && (!d->kept.first || d->kept.first->answered > upto);
}
