/* SPDX-License-Identifier: MIT */
#include "attr.h"

int nfs3_time_cmp(struct nfs3_time a, struct nfs3_time b)
{
	if (a.sec != b.sec)
		return a.sec < b.sec ? -1 : 1;
	if (a.nsec != b.nsec)
		return a.nsec < b.nsec ? -1 : 1;
	return 0;
}

static uint64_t min_ns(const struct attr_limits *limits, enum nfs3_type type)
{
	return type == NFS3_DIR ? limits->dir_min_ns : limits->reg_min_ns;
}

static uint64_t max_ns(const struct attr_limits *limits, enum nfs3_type type)
{
	return type == NFS3_DIR ? limits->dir_max_ns : limits->reg_max_ns;
}

static bool contents_differ(const struct nfs3_attr *a, const struct nfs3_attr *b)
{
	return a->size != b->size || nfs3_time_cmp(a->mtime, b->mtime) != 0;
}

static bool rights_differ(const struct nfs3_attr *a, const struct nfs3_attr *b)
{
	return a->mode != b->mode || a->uid != b->uid || a->gid != b->gid;
}

static bool status_differs(const struct nfs3_attr *a, const struct nfs3_attr *b)
{
	return nfs3_time_cmp(a->ctime, b->ctime) != 0 || a->nlink != b->nlink;
}

/* Believed anew from now on: for twice as long once it has stayed the same for the present time, for the
 * shortest time after a change. */
static void believe(struct attr_cache *c, const struct attr_limits *limits, bool changed, uint64_t now_ns)
{
	uint64_t least = min_ns(limits, c->attr.type), most = max_ns(limits, c->attr.type);

	if (changed || c->timeo_ns < least) {
		c->timeo_ns = least;
		c->timeo_since_ns = now_ns;
	} else if (now_ns >= c->timeo_since_ns + c->timeo_ns) {
		c->timeo_ns *= 2;
		c->timeo_since_ns = now_ns;
	}
	if (c->timeo_ns > most)
		c->timeo_ns = most;
	c->expires_ns = limits->noac ? 0 : now_ns + c->timeo_ns;
}

static enum attr_verdict take(struct attr_cache *c, const struct attr_limits *limits,
			      const struct nfs3_attr *attr, bool ours, uint64_t now_ns)
{
	bool first = !c->known;
	bool contents = !first && contents_differ(&c->attr, attr);
	bool rights = !first && rights_differ(&c->attr, attr);
	bool changed = first || contents || rights || status_differs(&c->attr, attr);

	c->attr = *attr;
	c->known = true;
	believe(c, limits, changed, now_ns);
	if (contents && !ours && c->changes_in_flight == 0) {
		c->foreign_changes++;
		return ATTR_FOREIGN;
	}
	if (rights)
		return ATTR_RIGHTS;
	return changed ? ATTR_CHANGED : ATTR_SAME;
}

/* ORDER: a call submitted before as_of_ns may have been run before the change that as_of_ns stands for. Only
 * a newer ctime proves that it was not. */
static bool may_be_old(const struct attr_cache *c, const struct nfs3_attr *attr, uint64_t submitted_ns)
{
	return c->known && submitted_ns < c->as_of_ns && nfs3_time_cmp(attr->ctime, c->attr.ctime) <= 0;
}

enum attr_verdict attr_take(struct attr_cache *c, const struct attr_limits *limits,
			    const struct nfs3_attr *attr, uint64_t submitted_ns, uint64_t now_ns)
{
	if (may_be_old(c, attr, submitted_ns))
		return ATTR_DISCARDED;
	if (submitted_ns > c->as_of_ns)
		c->as_of_ns = submitted_ns;
	if (c->known && contents_differ(&c->attr, attr) && submitted_ns > c->contents_ns)
		c->contents_ns = submitted_ns;
	return take(c, limits, attr, false, now_ns);
}

void attr_change_begin(struct attr_cache *c)
{
	if (c->changes_in_flight++ > 0)
		c->overlapped = true;
}

static bool pre_matches(const struct nfs3_pre_attr *pre, const struct nfs3_attr *attr)
{
	return pre->size == attr->size && nfs3_time_cmp(pre->mtime, attr->mtime) == 0;
}

enum attr_verdict attr_change_end(struct attr_cache *c, const struct attr_limits *limits,
				  const struct nfs3_wcc *wcc, uint64_t submitted_ns, uint64_t now_ns)
{
	enum attr_verdict verdict = ATTR_DISCARDED;
	bool ours = c->overlapped;

	c->changes_in_flight--;
	if (c->changes_in_flight == 0)
		c->overlapped = false;
	if (!wcc || !wcc->after.present) {
		attr_expire(c);
	} else if (may_be_old(c, &wcc->after.attr, submitted_ns) && wcc->after.attr.size <= c->attr.size) {
		/* Two changes of ours within one tick of the server's clock, heard of in the wrong order, or
		 * not: the times cannot tell. A larger size can, for calls that shrink a file overlap none.
		 */
		attr_expire(c);
	} else {
		ours = ours || !c->known || !wcc->before.present || pre_matches(&wcc->before, &c->attr);
		verdict = take(c, limits, &wcc->after.attr, ours, now_ns);
	}
	c->as_of_ns = c->contents_ns = now_ns;
	return verdict;
}

bool attr_contents_since(const struct attr_cache *c, uint64_t submitted_ns)
{
	return c->changes_in_flight == 0 && c->contents_ns <= submitted_ns;
}

void attr_expire(struct attr_cache *c)
{
	c->expires_ns = 0;
}

uint64_t attr_valid_ns(const struct attr_cache *c, uint64_t now_ns)
{
	return c->known && c->expires_ns > now_ns ? c->expires_ns - now_ns : 0;
}
