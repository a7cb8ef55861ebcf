/* SPDX-License-Identifier: MIT */
#include "cred.h"

#include "xdr.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
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

void cred_of_caller(int proc_fd, const char *machine, pid_t tid, uint32_t uid, uint32_t gid,
		    struct cred *cred)
{
	struct cred_groups groups = {.gid = gid}, none = groups;
	char path[32];
	snprintf(path, sizeof path, "%d/status", (int)tid);
	int fd = tid > 0 ? openat(proc_fd, path, O_RDONLY | O_CLOEXEC) : -1;
	if (fd >= 0) {
		if (cred_groups_read(fd, &groups))
			groups = none;
		close(fd);
	}
	init_from_groups(cred, machine, uid, &groups);
}
