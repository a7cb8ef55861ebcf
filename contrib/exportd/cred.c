/* SPDX-License-Identifier: MIT */
#include "cred.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static bool can_switch;

/* What this thread is. Server: fsuid is the process's. */
static _Thread_local struct {
	bool groups_set; /* cred below tells gid and groups */
	uid_t fsuid;
	bool fsuid_known;
	struct cred cred;
} me;

void cred_init(void)
{
	can_switch = geteuid() == 0;
}

bool cred_can_switch(void)
{
	return can_switch;
}

static uint32_t squash(uint32_t id)
{
	return id == 0 ? NOBODY_ID : id;
}

void cred_squash_root(struct cred *cred)
{
	cred->uid = squash(cred->uid);
	cred->gid = squash(cred->gid);
	for (uint32_t i = 0; i < cred->groups_len; i++)
		cred->groups[i] = squash(cred->groups[i]);
}

struct cred cred_nobody(void)
{
	return (struct cred){.uid = NOBODY_ID, .gid = NOBODY_ID};
}

static void set_fsuid(uid_t uid)
{
	if (me.fsuid_known && me.fsuid == uid)
		return;
	syscall(SYS_setfsuid, uid);
	/* It reports the *previous* id and no error: ask, with an id that can never be set. Going on with
	 * another's rights would be worse than ending. */
	if ((uid_t)syscall(SYS_setfsuid, -1) != uid) {
		fprintf(stderr, "nfsrdma-exportd: cannot take the rights of uid %u\n", uid);
		abort();
	}
	me.fsuid = uid;
	me.fsuid_known = true;
}

static int set_groups(const struct cred *cred)
{
	struct cred *now = &me.cred;
	if (me.groups_set && now->gid == cred->gid && now->groups_len == cred->groups_len &&
	    memcmp(now->groups, cred->groups, sizeof now->groups) == 0)
		return 0;
	me.groups_set = false;
	static_assert(sizeof(gid_t) == sizeof cred->groups[0], "setgroups takes cred->groups as it is");
	if (syscall(SYS_setgroups, (size_t)cred->groups_len, cred->groups) < 0)
		return -errno;
	syscall(SYS_setfsgid, cred->gid);
	if ((gid_t)syscall(SYS_setfsgid, -1) != cred->gid)
		return -EPERM;
	*now = *cred;
	me.groups_set = true;
	return 0;
}

int cred_become(const struct cred *cred)
{
	if (!can_switch)
		return cred->uid == geteuid() ? 0 : -EACCES;
	if (cred->uid == (uid_t)-1 || cred->gid == (gid_t)-1)
		return -EACCES;
	int err = set_groups(cred);
	if (err)
		return err;
	set_fsuid(cred->uid);
	return 0;
}

struct cred_hold cred_raise(void)
{
	struct cred_hold held = {.fsuid = me.fsuid_known ? me.fsuid : 0};
	if (can_switch)
		set_fsuid(0);
	return held;
}

void cred_lower(struct cred_hold held)
{
	if (can_switch)
		set_fsuid(held.fsuid);
}
