/* SPDX-License-Identifier: MIT */
#include "cred.h"

#include "xdr.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* ---- credentials ---- */

/* Insertion into a short sorted list; once it is full, a lower number pushes the highest one out. */
void cred_groups_add(struct cred_groups *g, uint32_t gid)
{
	uint32_t at = 0;
	if (gid == g->gid)
		return;
	while (at < g->n && g->gids[at] < gid)
		at++;
	if (at == CRED_GIDS_MAX || (at < g->n && g->gids[at] == gid))
		return;
	uint32_t moved = (g->n < CRED_GIDS_MAX ? g->n : CRED_GIDS_MAX - 1) - at;
	memmove(&g->gids[at + 1], &g->gids[at], moved * sizeof g->gids[0]);
	g->gids[at] = gid;
	if (g->n < CRED_GIDS_MAX)
		g->n++;
}

static void encode_body(struct cred *c, const char *machine)
{
	struct xdr_writer w = xdr_writer(c->body, sizeof c->body);
	xdr_put_u32(&w, 0); /* stamp: any number; the same one lets equal credentials be equal bytes */
	xdr_put_opaque(&w, machine, (uint32_t)strnlen(machine, CRED_MACHINE_MAX));
	xdr_put_u32(&w, c->uid);
	xdr_put_u32(&w, c->gid);
	xdr_put_u32(&w, c->ngids);
	for (uint32_t i = 0; i < c->ngids; i++)
		xdr_put_u32(&w, c->gids[i]);
	c->body_len = (uint32_t)xdr_written(&w);
}

static void init_from_groups(struct cred *c, const char *machine, uint32_t uid, const struct cred_groups *g)
{
	*c = (struct cred){.uid = uid, .gid = g->gid, .ngids = g->n};
	memcpy(c->gids, g->gids, g->n * sizeof g->gids[0]);
	encode_body(c, machine ? machine : "");
}

void cred_init(struct cred *c, const char *machine, uint32_t uid, uint32_t gid, const uint32_t *gids,
	       size_t ngids)
{
	struct cred_groups g = {.gid = gid};
	for (size_t i = 0; i < ngids; i++)
		cred_groups_add(&g, gids[i]);
	init_from_groups(c, machine, uid, &g);
}

static uint64_t mix(uint64_t h, uint32_t v)
{
	h = (h ^ v) * 0x9e3779b97f4a7c15ull;
	return h ^ h >> 32;
}

uint64_t cred_hash(const struct cred *c)
{
	uint64_t h = mix(mix(mix(0, c->uid), c->gid), c->ngids);
	for (uint32_t i = 0; i < c->ngids; i++)
		h = mix(h, c->gids[i]);
	return h;
}

bool cred_equal(const struct cred *a, const struct cred *b)
{
	return a->uid == b->uid && a->gid == b->gid && a->ngids == b->ngids &&
	       memcmp(a->gids, b->gids, a->ngids * sizeof a->gids[0]) == 0;
}

/* ---- /proc ---- */

/*
 * A scanner for "Groups:" at the start of a line and the numbers behind it, fed byte by byte: the line of a
 * caller in 65536 groups is longer than any buffer we would like to keep.
 */
struct scanner {
	struct cred_groups *groups;
	enum { LINE_START, OTHER_LINE, NUMBERS, FINISHED } state;
	uint32_t matched; /* bytes of the key seen in this line */
	bool in_number;
	uint64_t number;
};

static const char groups_key[] = "Groups:";

static void scan_key(struct scanner *s, char c)
{
	if (c == '\n') {
		s->state = LINE_START;
		s->matched = 0;
	} else if (s->state == LINE_START && c == groups_key[s->matched]) {
		if (++s->matched == sizeof groups_key - 1)
			s->state = NUMBERS;
	} else {
		s->state = OTHER_LINE;
	}
}

static void scan_numbers(struct scanner *s, char c)
{
	if (c >= '0' && c <= '9') {
		s->number = s->in_number ? s->number * 10 + (uint64_t)(c - '0') : (uint64_t)(c - '0');
		s->in_number = true;
		if (s->number > UINT32_MAX) /* no gid: the kernel does not write this */
			s->number = UINT32_MAX;
		return;
	}
	if (s->in_number)
		cred_groups_add(s->groups, (uint32_t)s->number);
	s->in_number = false;
	if (c == '\n')
		s->state = FINISHED;
}

int cred_groups_read(int fd, struct cred_groups *groups)
{
	struct scanner s = {.groups = groups};
	char text[1024];
	for (;;) {
		ssize_t n = read(fd, text, sizeof text);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n ? -errno : -ENODATA;
		for (ssize_t i = 0; i < n && s.state != FINISHED; i++) {
			if (s.state == NUMBERS)
				scan_numbers(&s, text[i]);
			else
				scan_key(&s, text[i]);
		}
		if (s.state == FINISHED)
			return 0;
	}
}

/* Fields are counted behind the last ')': the command's name in field 2 may hold blanks and parentheses. */
uint64_t cred_start_time(const char *stat_text)
{
	const char *p = strrchr(stat_text, ')');
	if (!p)
		return 0;
	for (int field = 2; field < 22; field++) {
		p = strchr(p + 1, ' ');
		if (!p)
			return 0;
	}
	return strtoull(p + 1, NULL, 10);
}

/* One read is enough: the text has at most some 350 bytes, and procfs gives it whole. */
static uint64_t read_start_time(int task_fd)
{
	char text[512];
	int fd = openat(task_fd, "stat", O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return 0;
	ssize_t n = read(fd, text, sizeof text - 1);
	close(fd);
	if (n <= 0)
		return 0;
	text[n] = 0;
	return cred_start_time(text);
}

static int read_groups(int task_fd, struct cred_groups *groups)
{
	int fd = openat(task_fd, "status", O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	int err = cred_groups_read(fd, groups);
	close(fd);
	return err;
}

/* ---- the cache ---- */

void cred_cache_init(struct cred_cache *cache)
{
	*cache = (struct cred_cache){0};
}

static bool slot_is(const struct cred_cache_slot *s, pid_t tid, uint64_t start_time, uint32_t uid,
		    uint32_t gid, uint64_t now_ns)
{
	return s->tid == tid && s->start_time == start_time && s->uid == uid && s->groups.gid == gid &&
	       now_ns - s->read_ns < CRED_CACHE_AGE_NS;
}

/* The descriptor of /proc/TID pins the thread: once it is gone, reads through it fail, whoever has the number
 * by then. */
static void caller_groups(struct cred_cache *cache, int proc_fd, pid_t tid, uint32_t uid, uint64_t now_ns,
			  struct cred_groups *groups)
{
	struct cred_cache_slot *s = &cache->slots[(uint32_t)tid % CRED_CACHE_SLOTS];
	char name[16];
	snprintf(name, sizeof name, "%d", (int)tid);
	int task_fd = openat(proc_fd, name, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (task_fd < 0)
		return;
	uint64_t start_time = read_start_time(task_fd);
	if (start_time && slot_is(s, tid, start_time, uid, groups->gid, now_ns)) {
		cache->hits++;
		*groups = s->groups;
	} else {
		cache->misses++;
		struct cred_groups fresh = {.gid = groups->gid};
		if (start_time && read_groups(task_fd, &fresh) == 0) {
			*groups = fresh;
			*s = (struct cred_cache_slot){tid, start_time, uid, now_ns, fresh};
		}
	}
	close(task_fd);
}

void cred_of_caller(struct cred_cache *cache, int proc_fd, const char *machine, pid_t tid, uint32_t uid,
		    uint32_t gid, uint64_t now_ns, struct cred *cred)
{
	struct cred_groups groups = {.gid = gid};
	if (tid > 0)
		caller_groups(cache, proc_fd, tid, uid, now_ns, &groups);
	init_from_groups(cred, machine, uid, &groups);
}
