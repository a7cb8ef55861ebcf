/* SPDX-License-Identifier: MIT
 *
 * The command line and the mount options: `nfsrdma SERVER:/EXPORT MOUNTPOINT [-o OPTIONS] [-f] [-d]`.
 *
 * Every option stands once, in the table of options.c, which gives the parser, the defaults, --help and
 * (checked by a test) the man page. Names are those of nfs(5) wherever the meaning is the same. An option of
 * nfs(5) that we lack is an error that says what to do instead, not a silent difference; what fstab and
 * mount(8) keep for themselves is ignored.
 *
 * Called by the name mount.TYPE, the program is the helper that mount(8) starts for that type: the same, but
 * that the switches are those that mount(8) gives (-f is its "fake").
 *
 * Errors are one line without a newline: what, where, what to do. Nothing here does I/O (but options_help) or
 * keeps state.
 */
#ifndef OPTIONS_H
#define OPTIONS_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define OPTIONS_SERVER_MAX 255	/* bytes of a host name or address */
#define OPTIONS_EXPORT_MAX 1024 /* MNTPATHLEN, RFC 1813 appendix I */
#define OPTIONS_ERR_SIZE 512

enum options_action { OPTIONS_MOUNT, OPTIONS_SHOW_HELP, OPTIONS_SHOW_VERSION };
enum options_recovery { RECOVERY_HARD, RECOVERY_SOFT, RECOVERY_SOFTERR };
enum options_lookupcache { LOOKUPCACHE_ALL, LOOKUPCACHE_POSITIVE, LOOKUPCACHE_NONE };
enum options_lock { LOCK_UNSAID, LOCK_LOCAL, LOCK_SERVER };
enum options_local_lock {
	LOCAL_LOCK_UNSAID, /* not in what options_parse() gives */
	LOCAL_LOCK_ALL,
	LOCAL_LOCK_FLOCK,
	LOCAL_LOCK_POSIX,
	LOCAL_LOCK_NONE
};
enum options_device { DEVICE_AUTO, DEVICE_VERBS, DEVICE_SOFTIWARP };
enum options_memreg { MEMREG_AUTO, MEMREG_WINDOW, MEMREG_DYNAMIC, MEMREG_PERSISTENT };
enum options_atime { ATIME_RELATIME, ATIME_NOATIME, ATIME_STRICT };

struct options {
	enum options_action action;
	bool foreground;   /* -f, or -d */
	bool dry_run;	   /* --dry-run: try all but the mount, and say what it would be */
	bool mount_helper; /* we are mount(8)'s: called mount.TYPE, with its switches */
	bool sloppy;	   /* its -s: options that are not known are no error */
	char source[OPTIONS_SERVER_MAX + OPTIONS_EXPORT_MAX + 4]; /* as given */
	char server[OPTIONS_SERVER_MAX + 1]; /* without the brackets of an IPv6 address */
	char export[OPTIONS_EXPORT_MAX + 1]; /* absolute, no '/' at its end but for "/" */
	char mountpoint[PATH_MAX];	     /* as given: may be relative */

	/* One field per setting, all of one type so that the table can point at them. */
	uint32_t port;	    /* NFS over RDMA */
	uint32_t mountport; /* 0: ask rpcbind */
	uint32_t mountvers;
	uint32_t mountproto; /* 0: TCP, the only one */
	uint32_t proto;	     /* 0: RDMA, the only one */
	uint32_t vers;
	uint32_t sec;	/* 0: AUTH_SYS, the only one */
	uint32_t rsize; /* bytes, at most; the server's FSINFO may lower it */
	uint32_t wsize;
	uint32_t nconnect;				 /* lanes */
	uint32_t timeo;					 /* tenths of a second until a call counts as lost */
	uint32_t retrans;				 /* losses until a soft mount gives up */
	uint32_t recovery;				 /* enum options_recovery */
	uint32_t nodrc;					 /* the server has no duplicate request cache */
	uint32_t retry;					 /* minutes to go on trying the mount */
	uint32_t acregmin, acregmax, acdirmin, acdirmax; /* seconds; all 0 with noac */
	uint32_t ac;
	uint32_t lookupcache; /* enum options_lookupcache */
	uint32_t cto;
	uint32_t acl; /* POSIX ACLs, where the server has NFSACL */
	uint32_t rdirplus;
	uint32_t commit;     /* seconds until what was written is on stable storage by itself */
	uint32_t sync;	     /* each write(2) returns when the data is on stable storage; implied by noac */
	uint32_t lock;	     /* enum options_lock: as given; local_lock is what counts */
	uint32_t local_lock; /* enum options_local_lock: what is not local is locked on the server */
	uint32_t resvport;   /* MOUNT calls leave from a port below 1024 where we may */
	uint32_t ro;
	uint32_t suid;
	uint32_t dev;
	uint32_t exec;
	uint32_t atime; /* enum options_atime */
	uint32_t dirsync;
	uint32_t allow_other;	      /* by default: when mounted by root */
	uint32_t default_permissions; /* likewise */
	uint32_t device;	      /* enum options_device */
	uint32_t memreg;	      /* enum options_memreg */
	uint32_t arena;		      /* bytes of registered memory per lane */
	uint32_t credits;	      /* calls in flight to ask the server for, per lane */
	uint32_t inline_size;	      /* bytes of the largest inline message, each way */
	uint32_t debug;		      /* mask of enum log_area; all with -d */
	uint32_t poll;		      /* microseconds; 0: a lane with nothing to do sleeps at once */
};

/*
 * Parses a whole command line. by_root: who mounts, for the defaults that depend on it. 0, or -EINVAL with
 * err (OPTIONS_ERR_SIZE bytes) filled and o in no particular state.
 */
int options_parse(struct options *o, int argc, char *const argv[], bool by_root, char *err);

/* The pieces of it, for tests: all defaults; one comma-separated list; SERVER:/EXPORT. */
void options_defaults(struct options *o, bool by_root);
int options_parse_list(struct options *o, const char *list, char *err);
int options_parse_source(struct options *o, const char *source, char *err);

/* Are locks by fcntl(2), or by flock(2), the server's? Else the kernel keeps them by itself. */
static inline bool options_posix_locks_are_servers(const struct options *o)
{
	return o->local_lock == LOCAL_LOCK_NONE || o->local_lock == LOCAL_LOCK_FLOCK;
}

static inline bool options_flocks_are_servers(const struct options *o)
{
	return o->local_lock == LOCAL_LOCK_NONE || o->local_lock == LOCAL_LOCK_POSIX;
}

/* What --help and --version print. */
void options_help(FILE *out);
void options_version(FILE *out);

/* The table as the man page must show it: options of our own and of nfs(5) that take effect, in order. */
struct options_entry {
	const char *name;
	const char *arg;	/* "N", "BYTES", "hard|soft"…; NULL: takes none */
	const char *by_default; /* its value, or "" for a flag that is on; NULL: off or without one */
	const char *help;
};
/* The i-th entry, or false behind the last. */
bool options_entry(size_t i, struct options_entry *entry);

#endif
