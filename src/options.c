/* SPDX-License-Identifier: MIT
 *
 * The table comes first; what reads it follows. Defaults are table texts that go through the same parser as a
 * user's, so
 * --help, the man page and the program cannot disagree.
 */
#include "options.h"
#include "log.h"

#include <arpa/inet.h>
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <net/if.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#ifndef NFSRDMA_VERSION
#error "the build gives NFSRDMA_VERSION"
#endif

/* ---- the table ---- */

enum kind {
	KIND_FLAG,    /* takes no value; sets the field to .value */
	KIND_NUMBER,  /* decimal, min..max */
	KIND_SIZE,    /* the same, with K, M or G behind it; a multiple of .multiple */
	KIND_CHOICE,  /* one of .choices */
	KIND_ACTIMEO, /* a number that sets four fields */
	KIND_AREAS,   /* names of log.h with colons in between */
	KIND_REFUSED, /* known, not available: .help says what to do */
	KIND_IGNORED, /* someone else's business, or without effect here */
};

struct choice {
	const char *name;
	uint32_t value;
	const char *refused; /* known, not available: says what to do */
};

struct setting {
	const char *name;
	enum kind kind;
	size_t field;
	uint32_t value;
	uint32_t min, max, multiple;
	const char *unit; /* of min and max in messages */
	const struct choice *choices;
	const char *arg;	/* in --help and the man page */
	const char *by_default; /* "" for a flag that is on */
	const char *help;
};

#define FIELD(f) offsetof(struct options, f)
#define FLAG(n, f, v, d, h)                                                                                  \
	{                                                                                                    \
		.name = n, .kind = KIND_FLAG, .field = FIELD(f), .value = v, .by_default = d, .help = h      \
	}
#define NUMBER(n, f, lo, hi, u, d, h)                                                                        \
	{                                                                                                    \
		.name = n, .kind = KIND_NUMBER, .field = FIELD(f), .min = lo, .max = hi, .unit = u,          \
		.arg = "N", .by_default = d, .help = h                                                       \
	}
#define SIZE(n, f, lo, hi, m, d, h)                                                                          \
	{                                                                                                    \
		.name = n, .kind = KIND_SIZE, .field = FIELD(f), .min = lo, .max = hi, .multiple = m,        \
		.unit = "bytes", .arg = "BYTES", .by_default = d, .help = h                                  \
	}
#define CHOICE(n, f, c, a, d, h)                                                                             \
	{                                                                                                    \
		.name = n, .kind = KIND_CHOICE, .field = FIELD(f), .choices = c, .arg = a, .by_default = d,  \
		.help = h                                                                                    \
	}
#define REFUSED(n, h)                                                                                        \
	{                                                                                                    \
		.name = n, .kind = KIND_REFUSED, .help = h                                                   \
	}
#define IGNORED(n)                                                                                           \
	{                                                                                                    \
		.name = n, .kind = KIND_IGNORED                                                              \
	}

#define ONLY_V3 "nfsrdma speaks NFS version 3 only: use vers=3"
#define ONLY_RDMA "nfsrdma speaks RDMA only: use proto=rdma, or mount -t nfs for this protocol"
#define ONLY_SYS "only AUTH_SYS is supported: use sec=sys"

static const struct choice vers_choices[] = {
	{"3", 3, NULL},
	{"2", 0, ONLY_V3},
	{"4", 0, ONLY_V3},
	{"4.0", 0, ONLY_V3},
	{"4.1", 0, ONLY_V3},
	{"4.2", 0, ONLY_V3},
	{0},
};
static const struct choice mountvers_choices[] = {
	{"3", 3, NULL}, {"1", 0, "use mountvers=3"}, {"2", 0, "use mountvers=3"}, {0}};
static const struct choice mountproto_choices[] = {
	{"tcp", 0, NULL}, {"udp", 0, "MOUNT goes over TCP: use mountproto=tcp"}, {0}};
static const struct choice proto_choices[] = {
	{"rdma", 0, NULL},
	{"rdma6", 0, "use proto=rdma: the address of the server decides"},
	{"tcp", 0, ONLY_RDMA},
	{"tcp6", 0, ONLY_RDMA},
	{"udp", 0, ONLY_RDMA},
	{"udp6", 0, ONLY_RDMA},
	{0},
};
static const struct choice sec_choices[] = {
	{"sys", 0, NULL},	{"none", 0, ONLY_SYS},	{"krb5", 0, ONLY_SYS},
	{"krb5i", 0, ONLY_SYS}, {"krb5p", 0, ONLY_SYS}, {0},
};
static const struct choice lookupcache_choices[] = {{"all", LOOKUPCACHE_ALL, NULL},
						    {"none", LOOKUPCACHE_NONE, NULL},
						    {"pos", LOOKUPCACHE_POSITIVE, NULL},
						    {"positive", LOOKUPCACHE_POSITIVE, NULL},
						    {0}};
static const struct choice local_lock_choices[] = {{"all", LOCAL_LOCK_ALL, NULL},
						   {"flock", LOCAL_LOCK_FLOCK, NULL},
						   {"none", LOCAL_LOCK_NONE, NULL},
						   {"posix", LOCAL_LOCK_POSIX, NULL},
						   {0}};
static const struct choice device_choices[] = {{"auto", DEVICE_AUTO, NULL},
					       {"verbs", DEVICE_VERBS, NULL},
					       {"softiwarp", DEVICE_SOFTIWARP, NULL},
					       {0}};
static const struct choice memreg_choices[] = {{"auto", MEMREG_AUTO, NULL},
					       {"window", MEMREG_WINDOW, NULL},
					       {"dynamic", MEMREG_DYNAMIC, NULL},
					       {"persistent", MEMREG_PERSISTENT, NULL},
					       {0}};

#define YEAR_S 31536000u /* 365 * 24 * 3600 */
#define BY_ROOT "root"	 /* a default that depends on who mounts */

/* clang-format off */
static const struct setting table[] = {
	/* The server. */
	NUMBER("port", port, 1, 65535, NULL, "20049", "the server's port for NFS over RDMA"),
	NUMBER("mountport", mountport, 1, 65535, NULL, NULL, "TCP port of the MOUNT service, instead of asking rpcbind"),
	CHOICE("mountvers", mountvers, mountvers_choices, "3", "3", "version of the MOUNT protocol"),
	CHOICE("mountproto", mountproto, mountproto_choices, "tcp", "tcp", "protocol for MOUNT calls"),
	CHOICE("proto", proto, proto_choices, "rdma", "rdma", "protocol for NFS calls"),
	FLAG("rdma", proto, 0, NULL, "the same as proto=rdma"),
	CHOICE("vers", vers, vers_choices, "3", "3", "version of the NFS protocol"),
	CHOICE("nfsvers", vers, vers_choices, "3", NULL, "the same as vers"),
	CHOICE("sec", sec, sec_choices, "sys", "sys", "security flavor"),
	FLAG("resvport", resvport, 1, "", "send MOUNT calls from a port below 1024, when the kernel lets us"),
	FLAG("noresvport", resvport, 0, NULL, "send MOUNT calls from any port"),

	/* Transfers. */
	SIZE("rsize", rsize, 4096, 1048576, 4096, "1M", "most bytes in one READ"),
	SIZE("wsize", wsize, 4096, 1048576, 4096, "1M", "most bytes in one WRITE"),
	NUMBER("nconnect", nconnect, 1, 16, NULL, "1", "lanes: threads, each with its own connection to the server"),
	FLAG("rdirplus", rdirplus, 1, "", "list directories with attributes and handles (READDIRPLUS)"),
	FLAG("nordirplus", rdirplus, 0, NULL, "list directories by name only (READDIR)"),

	/* When the server does not answer. */
	FLAG("hard", recovery, RECOVERY_HARD, "", "wait for the server as long as it takes"),
	FLAG("soft", recovery, RECOVERY_SOFT, NULL, "give up after retrans losses, with EIO: data may be lost"),
	FLAG("softerr", recovery, RECOVERY_SOFTERR, NULL, "the same with ETIMEDOUT"),
	NUMBER("timeo", timeo, 1, 6000, "tenths of a second", "600", "tenths of a second until a call counts as lost and the connection is made anew"),
	NUMBER("retrans", retrans, 0, 100, NULL, "2", "losses of one call until a soft mount gives up"),
	FLAG("nodrc", nodrc, 1, NULL, "the server has no duplicate request cache: a removal or renaming that was sent again and finds nothing counts as done"),
	NUMBER("retry", retry, 0, 10000, "minutes", "0", "minutes to go on trying when the server cannot be reached at mount time"),

	/* Caches. */
	NUMBER("acregmin", acregmin, 0, YEAR_S, "seconds", "3", "least seconds that a file's attributes are believed"),
	NUMBER("acregmax", acregmax, 0, YEAR_S, "seconds", "60", "most seconds that a file's attributes are believed"),
	NUMBER("acdirmin", acdirmin, 0, YEAR_S, "seconds", "30", "least seconds that a directory's attributes are believed"),
	NUMBER("acdirmax", acdirmax, 0, YEAR_S, "seconds", "60", "most seconds that a directory's attributes are believed"),
	{.name = "actimeo", .kind = KIND_ACTIMEO, .max = YEAR_S, .unit = "seconds", .arg = "N", .help = "all four of them at once"},
	FLAG("ac", ac, 1, "", "cache attributes"),
	FLAG("noac", ac, 0, NULL, "cache no attributes; implies sync"),
	CHOICE("lookupcache", lookupcache, lookupcache_choices, "all|none|pos|positive", "all", "which lookups are cached: pos, only those that found something"),
	FLAG("cto", cto, 1, "", "close-to-open consistency: open asks the server, close writes back"),
	FLAG("nocto", cto, 0, NULL, "open believes cached attributes"),
	FLAG("sync", sync, 1, NULL, "write(2) returns when the data is on the server's stable storage"),
	FLAG("async", sync, 0, "", "write(2) returns when the data is in the memory of this machine; fsync and close wait"),
	NUMBER("commit", commit, 1, 300, "seconds", "5", "seconds until what was written is on the server's stable storage by itself"),

	/* Permissions. */
	FLAG("acl", acl, 1, "", "POSIX ACLs, where the server has them (NFSACL)"),
	FLAG("noacl", acl, 0, NULL, "no POSIX ACLs"),

	/* Locks. */
	FLAG("nolock", lock, LOCK_LOCAL, NULL, "locks hold among the processes of this machine only; so it is unless lock or local_lock says otherwise"),
	FLAG("lock", lock, LOCK_SERVER, NULL, "locks are the server's (NLM), and hold among all its clients; needs rpcbind and rpc.statd on this machine"),
	CHOICE("local_lock", local_lock, local_lock_choices, "all|flock|none|posix", NULL, "which locks are local all the same: by flock(2), by fcntl(2) (posix), none or all"),

	/* RDMA: ours. */
	CHOICE("device", device, device_choices, "auto|verbs|softiwarp", "auto", "the RDMA device; softiwarp is iWARP in user space, needs no adapter and reaches iWARP servers only"),
	CHOICE("memreg", memreg, memreg_choices, "auto|window|dynamic|persistent", "auto", "how memory is opened to the server: a window per payload, a registration per call, or (not safe) one key for good"),
	SIZE("arena", arena, 4096, 2147483648u, 4096, "64M", "registered memory per lane"),
	NUMBER("credits", credits, 1, 4096, NULL, "64", "calls in flight to ask the server for, per lane"),
	SIZE("inline", inline_size, 1024, 262144, 1024, "4K", "largest message sent without RDMA, each way"),
	{.name = "debug", .kind = KIND_AREAS, .field = FIELD(debug), .arg = "AREA[:AREA]", .help = "debugging messages of transport, pool, nfs, fuse, locks, or all"},
	NUMBER("poll", poll, 0, 100000, "microseconds", "0", "microseconds that a lane goes on looking for replies before it sleeps"),

	/* Any file system. */
	FLAG("ro", ro, 1, NULL, "mount read-only"),
	FLAG("rw", ro, 0, "", "mount for reading and writing"),
	FLAG("suid", suid, 1, NULL, "obey setuid and setgid bits"),
	FLAG("nosuid", suid, 0, "", "ignore setuid and setgid bits"),
	FLAG("dev", dev, 1, NULL, "let device nodes be opened"),
	FLAG("nodev", dev, 0, "", "let no device node be opened"),
	FLAG("exec", exec, 1, "", "let programs be run"),
	FLAG("noexec", exec, 0, NULL, "let no program be run"),
	FLAG("relatime", atime, ATIME_RELATIME, "", "as mount(8) says; the server keeps access times"),
	FLAG("atime", atime, ATIME_RELATIME, NULL, "the same as relatime"),
	FLAG("strictatime", atime, ATIME_STRICT, NULL, "as mount(8) says"),
	FLAG("noatime", atime, ATIME_NOATIME, NULL, "as mount(8) says"),
	FLAG("dirsync", dirsync, 1, NULL, "as mount(8) says"),
	FLAG("allow_other", allow_other, 1, BY_ROOT, "let other users use the mount (always, when mounted by root)"),
	FLAG("default_permissions", default_permissions, 1, BY_ROOT, "let the kernel check permission bits too (always, when mounted by root)"),

	/* nfs(5) has them and we do not. */
	REFUSED("bg", "nfsrdma does not retry in the background: use noauto,x-systemd.automount, or nofail"),
	REFUSED("tcp", ONLY_RDMA),
	REFUSED("tcp6", ONLY_RDMA),
	REFUSED("udp", ONLY_RDMA),
	REFUSED("udp6", ONLY_RDMA),
	REFUSED("minorversion", ONLY_V3),
	REFUSED("clientaddr", "it belongs to NFS version 4: leave it out"),
	REFUSED("migration", "it belongs to NFS version 4: leave it out"),
	REFUSED("trunkdiscovery", "it belongs to NFS version 4: leave it out"),
	REFUSED("max_connect", "it belongs to NFS version 4: use nconnect for more connections"),
	REFUSED("xprtsec", "TLS is not supported over RDMA: leave it out"),
	REFUSED("mounthost", "the MOUNT service must be on the NFS server: leave it out"),
	REFUSED("mountaddr", "the MOUNT service must be on the NFS server: leave it out"),
	REFUSED("namlen", "the server's limit is asked for: leave it out"),
	REFUSED("fsc", "FS-Cache is not supported: leave it out"),
	REFUSED("nosharecache", "each mount has its own caches: leave it out"),
	REFUSED("write", "writes are sent as they come: use sync to wait for them"),
	REFUSED("softreval", "cached entries are not used when the server is away: leave it out"),
	REFUSED("bsize", "use rsize and wsize"),
	REFUSED("remount", "a mount cannot be changed: unmount it and mount it again"),
	REFUSED("fsname", "it is always SERVER:/EXPORT: leave it out"),
	REFUSED("subtype", "it is always nfsrdma: leave it out"),

	/* mount(8)'s and fstab's own, and what has no effect here or is the only way we work. */
	IGNORED("defaults"), IGNORED("_netdev"), IGNORED("auto"), IGNORED("noauto"), IGNORED("nofail"),
	IGNORED("user"), IGNORED("nouser"), IGNORED("users"), IGNORED("owner"), IGNORED("group"), IGNORED("comment"),
	IGNORED("fg"), IGNORED("intr"), IGNORED("nointr"), IGNORED("sharecache"), IGNORED("nofsc"),
	IGNORED("nomigration"), IGNORED("notrunkdiscovery"), IGNORED("nosoftreval"), IGNORED("norelatime"),
	IGNORED("nostrictatime"), IGNORED("diratime"), IGNORED("nodiratime"), IGNORED("lazytime"), IGNORED("nolazytime"),
	IGNORED("iversion"), IGNORED("noiversion"), IGNORED("loud"), IGNORED("silent"), IGNORED("mand"), IGNORED("nomand"),
};
/* clang-format on */
#define TABLE_SIZE (sizeof table / sizeof table[0])

static bool is_shown(const struct setting *d)
{
	return d->kind != KIND_REFUSED && d->kind != KIND_IGNORED;
}

/* ---- values ---- */

/* Values are shown to people: what they typed, without control characters, and not without end. */
static void fail(char *err, const char *format, ...)
{
	va_list ap;
	va_start(ap, format);
	vsnprintf(err, OPTIONS_ERR_SIZE, format, ap);
	va_end(ap);
	for (char *p = err; *p; p++) {
		if ((unsigned char)*p < ' ' || *p == 127)
			*p = '?';
	}
}

static void set(struct options *o, size_t field, uint32_t value)
{
	memcpy((char *)o + field, &value, sizeof value);
}

static bool parse_u64(const char *text, uint64_t *value, const char **rest)
{
	char *end;
	if (*text < '0' || *text > '9')
		return false;
	errno = 0;
	uint64_t v = strtoull(text, &end, 10);
	if (errno)
		return false;
	*value = v;
	*rest = end;
	return true;
}

static bool parse_size(const char *text, uint64_t *value)
{
	const char *rest;
	unsigned int shift = 0;
	if (!parse_u64(text, value, &rest))
		return false;
	if (*rest == 'k' || *rest == 'K')
		shift = 10;
	else if (*rest == 'm' || *rest == 'M')
		shift = 20;
	else if (*rest == 'g' || *rest == 'G')
		shift = 30;
	if (shift)
		rest++;
	if (*rest || *value > UINT64_MAX >> shift)
		return false;
	*value <<= shift;
	return true;
}

static int range_error(const struct setting *d, const char *value, char *err)
{
	char multiple[48] = "";
	if (d->multiple > 1)
		snprintf(multiple, sizeof multiple, ", a multiple of %" PRIu32, d->multiple);
	fail(err, "option '%s=%.80s': must be %" PRIu32 " to %" PRIu32 "%s%s%s", d->name, value, d->min,
	     d->max, d->unit ? " " : "", d->unit ? d->unit : "", multiple);
	return -EINVAL;
}

static int parse_number(const struct setting *d, const char *text, uint32_t *value, char *err)
{
	const char *rest = "";
	uint64_t v;
	bool good = d->kind == KIND_SIZE ? parse_size(text, &v) : parse_u64(text, &v, &rest);
	if (!good || *rest || v < d->min || v > d->max || (d->multiple && v % d->multiple))
		return range_error(d, text, err);
	*value = (uint32_t)v;
	return 0;
}

static int parse_choice(const struct setting *d, const char *text, uint32_t *value, char *err)
{
	for (const struct choice *c = d->choices; c->name; c++) {
		if (strcmp(c->name, text))
			continue;
		if (c->refused) {
			fail(err, "option '%s=%s': %s", d->name, text, c->refused);
			return -EINVAL;
		}
		*value = c->value;
		return 0;
	}
	fail(err, "option '%s=%.80s': must be %s", d->name, text, d->arg);
	return -EINVAL;
}

/* ---- one option ---- */

static const struct setting *find(const char *name)
{
	for (size_t i = 0; i < TABLE_SIZE; i++) {
		if (strcmp(table[i].name, name) == 0)
			return &table[i];
	}
	return NULL;
}

static int apply_flag(struct options *o, const struct setting *d, const char *value, char *err)
{
	if (value) {
		fail(err, "option '%s=%.80s': takes no value, write '%s'", d->name, value, d->name);
		return -EINVAL;
	}
	set(o, d->field, d->value);
	return 0;
}

static int parse_areas(const struct setting *d, const char *text, uint32_t *value, char *err)
{
	*value = log_areas_parse(text);
	if (*value)
		return 0;
	fail(err,
	     "option '%s=%.80s': must be one or more of transport, pool, nfs, fuse, locks and all, with "
	     "colons "
	     "in between",
	     d->name, text);
	return -EINVAL;
}

static int apply_value(struct options *o, const struct setting *d, const char *value, char *err)
{
	uint32_t v = 0;
	if (!value || !*value) {
		fail(err, "option '%s': needs a value, write '%s=%s'", d->name, d->name, d->arg);
		return -EINVAL;
	}
	int ret = d->kind == KIND_CHOICE  ? parse_choice(d, value, &v, err)
		  : d->kind == KIND_AREAS ? parse_areas(d, value, &v, err)
					  : parse_number(d, value, &v, err);
	if (ret)
		return ret;
	if (d->kind == KIND_ACTIMEO)
		o->acregmin = o->acregmax = o->acdirmin = o->acdirmax = v;
	else
		set(o, d->field, v);
	return 0;
}

static int apply(struct options *o, const struct setting *d, const char *value, char *err)
{
	switch (d->kind) {
	case KIND_FLAG:
		return apply_flag(o, d, value, err);
	case KIND_REFUSED:
		fail(err, "option '%s': %s", d->name, d->help);
		return -EINVAL;
	case KIND_IGNORED:
		return 0;
	default:
		return apply_value(o, d, value, err);
	}
}

/* x-* is for user space tools, X-* the same and kept out of mtab (mount(8)). */
static bool is_for_others(const char *name)
{
	return (name[0] == 'x' || name[0] == 'X') && name[1] == '-';
}

static int parse_one(struct options *o, char *item, char *err)
{
	char *value = strchr(item, '=');
	if (value)
		*value++ = 0;
	if (is_for_others(item))
		return 0;
	const struct setting *d = find(item);
	if (d)
		return apply(o, d, value, err);
	if (o->sloppy)
		return 0;
	fail(err, "option '%.80s': not known; 'nfsrdma --help' lists the options", item);
	return -EINVAL;
}

int options_parse_list(struct options *o, const char *list, char *err)
{
	char *copy = strdup(list), *rest = copy, *item;
	int ret = 0;
	if (!copy) {
		fail(err, "out of memory");
		return -EINVAL;
	}
	while (!ret && (item = strsep(&rest, ","))) {
		if (*item) /* ",," and a comma at the end are nothing */
			ret = parse_one(o, item, err);
	}
	free(copy);
	return ret;
}

void options_defaults(struct options *o, bool by_root)
{
	char err[OPTIONS_ERR_SIZE];
	*o = (struct options){0};
	for (size_t i = 0; i < TABLE_SIZE; i++) {
		const struct setting *d = &table[i];
		if (!is_shown(d) || !d->by_default)
			continue;
		if (d->kind != KIND_FLAG)
			apply(o, d, d->by_default, err); /* a unit test holds that all of them parse */
		else if (*d->by_default == 0 || by_root)
			apply(o, d, NULL, err);
	}
}

/* What depends on several options at once, after all of them were read. */
static int finish(struct options *o, char *err)
{
	if (!o->ac) {
		o->acregmin = o->acregmax = o->acdirmin = o->acdirmax = 0;
		o->sync = 1;
	}
	if (o->lock == LOCK_LOCAL || (o->lock == LOCK_UNSAID && o->local_lock == LOCAL_LOCK_UNSAID))
		o->local_lock = LOCAL_LOCK_ALL;
	else if (o->local_lock == LOCAL_LOCK_UNSAID)
		o->local_lock = LOCAL_LOCK_NONE;
	if (o->acregmin > o->acregmax) {
		fail(err,
		     "option 'acregmin=%" PRIu32 "': is above acregmax, which is %" PRIu32
		     ": raise acregmax too",
		     o->acregmin, o->acregmax);
		return -EINVAL;
	}
	if (o->acdirmin > o->acdirmax) {
		fail(err,
		     "option 'acdirmin=%" PRIu32 "': is above acdirmax, which is %" PRIu32
		     ": raise acdirmax too",
		     o->acdirmin, o->acdirmax);
		return -EINVAL;
	}
	return 0;
}

/* ---- SERVER:/EXPORT ---- */

static int source_error(const char *source, const char *what, char *err)
{
	fail(err, "'%.200s': %s", source, what);
	return -EINVAL;
}

/* Steps over "[address]" and takes the address; a zone ("%eth0") may follow it within the brackets. */
static const char *parse_ipv6(struct options *o, const char *source)
{
	const char *close = strchr(source, ']');
	struct in6_addr addr;
	char text[INET6_ADDRSTRLEN + 1 + IF_NAMESIZE];
	size_t len = close ? (size_t)(close - source - 1) : sizeof text;
	if (len >= sizeof text)
		return NULL;
	memcpy(text, source + 1, len);
	text[len] = 0;
	memcpy(o->server, text, len + 1);
	char *zone = strchr(text, '%');
	if (zone && zone[1] == 0)
		return NULL;
	if (zone)
		*zone = 0;
	return inet_pton(AF_INET6, text, &addr) == 1 ? close + 1 : NULL;
}

static bool is_host(const char *name, size_t len)
{
	if (len == 0 || name[0] == '-')
		return false;
	for (size_t i = 0; i < len; i++) {
		unsigned char c = (unsigned char)name[i];
		if (c <= ' ' || c == 127 || c == '/' || c == '[' || c == ']' || c == '@')
			return false;
	}
	return true;
}

static int parse_host(struct options *o, const char *source, const char **rest, char *err)
{
	const char *colon = strstr(source, ":/");
	size_t len = colon ? (size_t)(colon - source) : 0;
	if (!colon)
		return source_error(source,
				    strchr(source, ':')
					    ? "the export must be an absolute path: SERVER:/EXPORT"
					    : "must be SERVER:/EXPORT",
				    err);
	if (memchr(source, ':', len))
		return source_error(source, "an IPv6 address goes into brackets: [::1]:/EXPORT", err);
	if (strncmp(colon, "://", 3) == 0 && strncmp(source, "nfs", 3) == 0)
		return source_error(source, "URLs are not supported: use SERVER:/EXPORT", err);
	if (len > OPTIONS_SERVER_MAX)
		return source_error(source, "the server's name is over 255 bytes long", err);
	if (!is_host(source, len))
		return source_error(source, "no server's name before the ':': must be SERVER:/EXPORT", err);
	memcpy(o->server, source, len);
	o->server[len] = 0;
	*rest = colon;
	return 0;
}

int options_parse_source(struct options *o, const char *source, char *err)
{
	const char *rest;
	if (source[0] == '[') {
		rest = parse_ipv6(o, source);
		if (!rest)
			return source_error(
				source, "no IPv6 address in the brackets: must be like [::1]:/EXPORT", err);
		if (rest[0] != ':' || rest[1] != '/')
			return source_error(
				source, "an absolute path must follow the address: [ADDRESS]:/EXPORT", err);
	} else {
		int ret = parse_host(o, source, &rest, err);
		if (ret)
			return ret;
	}
	rest++; /* the colon */
	size_t len = strlen(rest);
	while (len > 1 && rest[len - 1] == '/')
		len--;
	if (len > OPTIONS_EXPORT_MAX)
		return source_error(source, "the export's path is over 1024 bytes long", err);
	if (strlen(source) >= sizeof o->source)
		return source_error(source, "too long", err);
	strcpy(o->source, source);
	memcpy(o->export, rest, len);
	o->export[len] = 0;
	return 0;
}

/* ---- the command line ---- */

#define USAGE "usage: nfsrdma SERVER:/EXPORT MOUNTPOINT [-o OPTIONS] [-f] [-d] [--dry-run]"

static int parse_operands(struct options *o, int n, char *const operands[], char *err)
{
	if (n != 2) {
		fail(err, "%s; " USAGE,
		     n == 0   ? "nothing to mount"
		     : n == 1 ? "the mountpoint is missing"
			      : "too many arguments");
		return -EINVAL;
	}
	int ret = options_parse_source(o, operands[0], err);
	if (ret)
		return ret;
	if (operands[1][0] == 0 || strlen(operands[1]) >= sizeof o->mountpoint) {
		fail(err, "mountpoint '%.80s': must be a path of 1 to %zu bytes", operands[1],
		     sizeof o->mountpoint - 1);
		return -EINVAL;
	}
	strcpy(o->mountpoint, operands[1]);
	return 0;
}

/* mount(8) says which of our names it was told. */
static int parse_type(const char *type, char *err)
{
	if (strcmp(type, "nfsrdma") == 0 || strcmp(type, "fuse.nfsrdma") == 0)
		return 0;
	fail(err, "-t %.80s: must be nfsrdma or fuse.nfsrdma", type);
	return -EINVAL;
}

static bool is_mount_helper(const char *argv0)
{
	const char *slash = strrchr(argv0, '/');
	return strncmp(slash ? slash + 1 : argv0, "mount.", 6) == 0;
}

static int parse_switch(struct options *o, int c, char *const argv[], char *err)
{
	switch (c) {
	case 'o':
		return options_parse_list(o, optarg, err);
	case 'd':
		o->debug = log_areas_parse("all");
		o->foreground = true;
		return 0;
	case 'f':
		if (o->mount_helper)
			o->dry_run = true;
		else
			o->foreground = true;
		return 0;
	case 'D':
		o->dry_run = true;
		return 0;
	case 's':
		o->sloppy = true;
		return 0;
	case 't':
		return parse_type(optarg, err);
	case 'r':
		o->ro = 1;
		return 0;
	case 'w':
		o->ro = 0;
		return 0;
	case 'h':
		o->action = OPTIONS_SHOW_HELP;
		return 0;
	case 'V':
		o->action = OPTIONS_SHOW_VERSION;
		return 0;
	case 'n': /* mount(8): no mtab; there is none */
	case 'v':
		return 0;
	case ':':
		fail(err, "-%c: needs a value; " USAGE, optopt);
		return -EINVAL;
	default: /* a letter is in optopt, a long name only in argv */
		fail(err, "'%.80s': not known; 'nfsrdma --help' says more; " USAGE,
		     optopt ? (char[]){'-', (char)optopt, 0} : argv[optind - 1]);
		return -EINVAL;
	}
}

int options_parse(struct options *o, int argc, char *const argv[], bool by_root, char *err)
{
	static const struct option long_names[] = {{"dry-run", no_argument, NULL, 'D'},
						   {"help", no_argument, NULL, 'h'},
						   {"version", no_argument, NULL, 'V'},
						   {0}};
	int c;
	options_defaults(o, by_root);
	o->mount_helper = argc > 0 && is_mount_helper(argv[0]);
	opterr = 0;
	optind = 0; /* glibc: start afresh */
	while ((c = getopt_long(argc, argv, o->mount_helper ? ":o:frwhVnvst:" : ":o:dfrwhVnv", long_names,
				NULL)) != -1) {
		int ret = parse_switch(o, c, argv, err);
		if (ret)
			return ret;
		if (o->action != OPTIONS_MOUNT)
			return 0;
	}
	int ret = parse_operands(o, argc - optind, argv + optind, err);
	return ret ? ret : finish(o, err);
}

/* ---- what people read ---- */

bool options_entry(size_t n, struct options_entry *entry)
{
	for (size_t i = 0; i < TABLE_SIZE; i++) {
		const struct setting *d = &table[i];
		if (!is_shown(d) || n-- > 0)
			continue;
		*entry = (struct options_entry){d->name, d->arg, d->by_default, d->help};
		return true;
	}
	return false;
}

/* Two columns; a long name has the first line for itself. */
static void print_entry(FILE *out, const char *left, const struct options_entry *e)
{
	if (strlen(left) > 24)
		fprintf(out, "  %s\n%28s", left, "");
	else
		fprintf(out, "  %-26s", left);
	fputs(e->help, out);
	if (e->by_default && !*e->by_default)
		fputs(" (default)", out);
	else if (e->by_default && strcmp(e->by_default, BY_ROOT))
		fprintf(out, " (default %s)", e->by_default);
	fputc('\n', out);
}

void options_help(FILE *out)
{
	struct options_entry e;
	fputs(USAGE "\n"
		    "Mounts an NFS version 3 export over RPC-over-RDMA, as a FUSE file system.\n\n"
		    "  -o OPTIONS   mount options, separated by commas: below\n"
		    "  -f           stay in the foreground, messages to standard error\n"
		    "  -d           the same, with debug=all\n"
		    "  -r, -w       the same as -o ro, -o rw\n"
		    "  --dry-run    try everything but the mount, and say what it would be\n"
		    "  -h, --help   this text\n"
		    "  -V, --version\n\n"
		    "Mount options; the names are those of nfs(5), nfsrdma(8) says more:\n",
	      out);
	for (size_t i = 0; options_entry(i, &e); i++) {
		char left[64];
		snprintf(left, sizeof left, "%s%s%s", e.name, e.arg ? "=" : "", e.arg ? e.arg : "");
		print_entry(out, left, &e);
	}
}

void options_version(FILE *out)
{
	fputs("nfsrdma " NFSRDMA_VERSION "\n", out);
}
