/* SPDX-License-Identifier: MIT */
#include "log.h"
#include "options.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static struct options o;
static char err[OPTIONS_ERR_SIZE];

/* Parses "SERVER:/EXPORT MOUNTPOINT -o list". */
static int parse_by(bool by_root, const char *list)
{
	char *const argv[] = {(char *)"nfsrdma", (char *)"h:/e", (char *)"/m",
			      (char *)"-o",	 (char *)list,	 NULL};
	err[0] = 0;
	return options_parse(&o, 5, argv, by_root, err);
}

static int parse(const char *list)
{
	return parse_by(true, list);
}

static void defaults_are_those_of_the_table(void **state)
{
	options_defaults(&o, false);
	assert_true(o.port == 20049 && o.mountport == 0 && o.mountvers == 3 && o.vers == 3);
	assert_true(o.rsize == 1048576 && o.wsize == 1048576 && o.nconnect == 1);
	assert_true(o.timeo == 600 && o.retrans == 2 && o.retry == 0 && o.recovery == RECOVERY_HARD);
	assert_true(o.acregmin == 3 && o.acregmax == 60 && o.acdirmin == 30 && o.acdirmax == 60 && o.ac == 1);
	assert_true(o.lookupcache == LOOKUPCACHE_ALL && o.cto == 1 && o.rdirplus == 1 && o.sync == 0);
	assert_true(o.local_lock == LOCAL_LOCK_UNSAID && o.resvport == 1);
	assert_true(o.ro == 0 && o.suid == 0 && o.dev == 0 && o.exec == 1 && o.atime == ATIME_RELATIME);
	assert_true(o.device == DEVICE_AUTO && o.memreg == MEMREG_AUTO);
	assert_true(o.arena == 64 << 20 && o.credits == 64 && o.inline_size == 4096 && o.poll == 0);
	assert_true(o.allow_other == 0 && o.default_permissions == 0);
	options_defaults(&o, true);
	assert_true(o.allow_other == 1 && o.default_permissions == 1);
}

/* Each default is a text that a user could write: the parser takes it and comes to the same value. */
static void every_default_parses(void **state)
{
	static struct options before;
	struct options_entry e;
	options_defaults(&before, true);
	for (size_t i = 0; options_entry(i, &e); i++) {
		char list[128];
		if (!e.by_default)
			continue;
		snprintf(list, sizeof list, e.arg ? "%s=%s" : "%s", e.name, e.by_default);
		o = before;
		assert_int_equal(options_parse_list(&o, list, err), 0);
		assert_memory_equal(&o, &before, sizeof o);
	}
}

static void every_entry_says_what_it_is(void **state)
{
	struct options_entry e, other;
	size_t n;
	for (n = 0; options_entry(n, &e); n++) {
		assert_true(e.name[0] && e.help && e.help[0]);
		for (size_t i = 0; i < n; i++) {
			assert_true(options_entry(i, &other));
			assert_string_not_equal(e.name, other.name);
		}
	}
	assert_true(n > 40);
}

#define FIELD(f) offsetof(struct options, f)

static void good_values_are_taken(void **state)
{
	static const struct {
		const char *list;
		size_t field;
		uint32_t value;
	} cases[] = {
		{"port=1", FIELD(port), 1},
		{"port=65535", FIELD(port), 65535},
		{"mountport=2049", FIELD(mountport), 2049},
		{"mountvers=3", FIELD(mountvers), 3},
		{"vers=3", FIELD(vers), 3},
		{"nfsvers=3", FIELD(vers), 3},
		{"proto=rdma", FIELD(proto), 0},
		{"rdma", FIELD(proto), 0},
		{"sec=sys", FIELD(sec), 0},
		{"noresvport", FIELD(resvport), 0},
		{"noresvport,resvport", FIELD(resvport), 1},
		{"rsize=4096", FIELD(rsize), 4096},
		{"rsize=1048576", FIELD(rsize), 1048576},
		{"rsize=64k", FIELD(rsize), 65536},
		{"wsize=1M", FIELD(wsize), 1048576},
		{"rsize=4096,rsize=8192", FIELD(rsize), 8192}, /* the last one counts */
		{"nconnect=16", FIELD(nconnect), 16},
		{"soft", FIELD(recovery), RECOVERY_SOFT},
		{"softerr", FIELD(recovery), RECOVERY_SOFTERR},
		{"soft,hard", FIELD(recovery), RECOVERY_HARD},
		{"timeo=1", FIELD(timeo), 1},
		{"retrans=0", FIELD(retrans), 0},
		{"retry=10000", FIELD(retry), 10000},
		{"acregmin=0", FIELD(acregmin), 0},
		{"acregmax=31536000", FIELD(acregmax), 31536000},
		{"actimeo=7", FIELD(acregmin), 7},
		{"actimeo=7", FIELD(acregmax), 7},
		{"actimeo=7", FIELD(acdirmin), 7},
		{"actimeo=7", FIELD(acdirmax), 7},
		{"noac", FIELD(acregmax), 0},
		{"noac", FIELD(acdirmax), 0},
		{"noac", FIELD(sync), 1},
		{"noac,async", FIELD(sync), 1},
		{"noac,ac", FIELD(acregmax), 60},
		{"lookupcache=none", FIELD(lookupcache), LOOKUPCACHE_NONE},
		{"lookupcache=pos", FIELD(lookupcache), LOOKUPCACHE_POSITIVE},
		{"lookupcache=positive", FIELD(lookupcache), LOOKUPCACHE_POSITIVE},
		{"nocto", FIELD(cto), 0},
		{"nordirplus", FIELD(rdirplus), 0},
		{"sync", FIELD(sync), 1},
		{"sync,async", FIELD(sync), 0},
		{"nolock", FIELD(local_lock), LOCAL_LOCK_ALL},
		{"local_lock=all", FIELD(local_lock), LOCAL_LOCK_ALL},
		{"ro", FIELD(local_lock), LOCAL_LOCK_ALL},
		{"lock", FIELD(local_lock), LOCAL_LOCK_NONE},
		{"nolock,lock", FIELD(local_lock), LOCAL_LOCK_NONE},
		{"lock,nolock", FIELD(local_lock), LOCAL_LOCK_ALL},
		{"local_lock=none", FIELD(local_lock), LOCAL_LOCK_NONE},
		{"local_lock=flock", FIELD(local_lock), LOCAL_LOCK_FLOCK},
		{"local_lock=flock,lock", FIELD(local_lock), LOCAL_LOCK_FLOCK}, /* in any order */
		{"lock,local_lock=posix", FIELD(local_lock), LOCAL_LOCK_POSIX},
		{"lock,local_lock=all", FIELD(local_lock), LOCAL_LOCK_ALL},
		{"local_lock=none,nolock", FIELD(local_lock), LOCAL_LOCK_ALL},
		{"device=softiwarp", FIELD(device), DEVICE_SOFTIWARP},
		{"device=verbs", FIELD(device), DEVICE_VERBS},
		{"memreg=window", FIELD(memreg), MEMREG_WINDOW},
		{"memreg=dynamic", FIELD(memreg), MEMREG_DYNAMIC},
		{"memreg=persistent", FIELD(memreg), MEMREG_PERSISTENT},
		{"arena=2G", FIELD(arena), 2147483648u},
		{"arena=4096", FIELD(arena), 4096},
		{"credits=4096", FIELD(credits), 4096},
		{"inline=1024", FIELD(inline_size), 1024},
		{"inline=256K", FIELD(inline_size), 262144},
		{"poll=50", FIELD(poll), 50},
		{"ro", FIELD(ro), 1},
		{"ro,rw", FIELD(ro), 0},
		{"suid", FIELD(suid), 1},
		{"dev", FIELD(dev), 1},
		{"noexec", FIELD(exec), 0},
		{"noatime", FIELD(atime), ATIME_NOATIME},
		{"strictatime", FIELD(atime), ATIME_STRICT},
		{"dirsync", FIELD(dirsync), 1},
		{"", FIELD(port), 20049},
		{",,ro,", FIELD(ro), 1},
	};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		uint32_t value;
		if (parse(cases[i].list))
			fail_msg("%s: %s", cases[i].list, err);
		memcpy(&value, (char *)&o + cases[i].field, sizeof value);
		if (value != cases[i].value)
			fail_msg("%s: %u", cases[i].list, value);
	}
}

static void bad_values_get_one_line_that_says_what_to_do(void **state)
{
	static const struct {
		const char *list, *line;
	} cases[] = {
		{"rsize=12", "option 'rsize=12': must be 4096 to 1048576 bytes, a multiple of 4096"},
		{"rsize=4095", "option 'rsize=4095': must be 4096 to 1048576 bytes, a multiple of 4096"},
		{"rsize=5000", "option 'rsize=5000': must be 4096 to 1048576 bytes, a multiple of 4096"},
		{"rsize=2M", "option 'rsize=2M': must be 4096 to 1048576 bytes, a multiple of 4096"},
		{"wsize=1MB", "option 'wsize=1MB': must be 4096 to 1048576 bytes, a multiple of 4096"},
		{"wsize=-4096", "option 'wsize=-4096': must be 4096 to 1048576 bytes, a multiple of 4096"},
		{"rsize", "option 'rsize': needs a value, write 'rsize=BYTES'"},
		{"rsize=", "option 'rsize': needs a value, write 'rsize=BYTES'"},
		{"port=0", "option 'port=0': must be 1 to 65535"},
		{"port=65536", "option 'port=65536': must be 1 to 65535"},
		{"port=+5", "option 'port=+5': must be 1 to 65535"},
		{"port= 5", "option 'port= 5': must be 1 to 65535"},
		{"port=0x10", "option 'port=0x10': must be 1 to 65535"},
		{"port=2049x", "option 'port=2049x': must be 1 to 65535"},
		{"port=18446744073709551617", "option 'port=18446744073709551617': must be 1 to 65535"},
		{"port=4294967297", "option 'port=4294967297': must be 1 to 65535"},
		{"port=5K", "option 'port=5K': must be 1 to 65535"},
		{"mountport=0", "option 'mountport=0': must be 1 to 65535"},
		{"mountvers=1", "option 'mountvers=1': use mountvers=3"},
		{"mountvers=9", "option 'mountvers=9': must be 3"},
		{"mountproto=udp", "option 'mountproto=udp': MOUNT goes over TCP: use mountproto=tcp"},
		{"vers=4", "option 'vers=4': nfsrdma speaks NFS version 3 only: use vers=3"},
		{"vers=4.2", "option 'vers=4.2': nfsrdma speaks NFS version 3 only: use vers=3"},
		{"nfsvers=2", "option 'nfsvers=2': nfsrdma speaks NFS version 3 only: use vers=3"},
		{"vers=x", "option 'vers=x': must be 3"},
		{"proto=tcp", "option 'proto=tcp': nfsrdma speaks RDMA only: use proto=rdma, or mount -t nfs "
			      "for this protocol"},
		{"proto=tls", "option 'proto=tls': must be rdma"},
		{"udp",
		 "option 'udp': nfsrdma speaks RDMA only: use proto=rdma, or mount -t nfs for this protocol"},
		{"sec=krb5p", "option 'sec=krb5p': only AUTH_SYS is supported: use sec=sys"},
		{"sec=abc", "option 'sec=abc': must be sys"},
		{"nconnect=0", "option 'nconnect=0': must be 1 to 16"},
		{"nconnect=17", "option 'nconnect=17': must be 1 to 16"},
		{"timeo=0", "option 'timeo=0': must be 1 to 6000 tenths of a second"},
		{"timeo=6001", "option 'timeo=6001': must be 1 to 6000 tenths of a second"},
		{"retrans=101", "option 'retrans=101': must be 0 to 100"},
		{"retry=10001", "option 'retry=10001': must be 0 to 10000 minutes"},
		{"acregmin=31536001", "option 'acregmin=31536001': must be 0 to 31536000 seconds"},
		{"acregmax=x", "option 'acregmax=x': must be 0 to 31536000 seconds"},
		{"acdirmin=-1", "option 'acdirmin=-1': must be 0 to 31536000 seconds"},
		{"acdirmax=1.5", "option 'acdirmax=1.5': must be 0 to 31536000 seconds"},
		{"actimeo=", "option 'actimeo': needs a value, write 'actimeo=N'"},
		{"actimeo=y", "option 'actimeo=y': must be 0 to 31536000 seconds"},
		{"acregmin=61", "option 'acregmin=61': is above acregmax, which is 60: raise acregmax too"},
		{"acdirmax=29", "option 'acdirmin=30': is above acdirmax, which is 29: raise acdirmax too"},
		{"lookupcache=neg", "option 'lookupcache=neg': must be all|none|pos|positive"},
		{"local_lock=some", "option 'local_lock=some': must be all|flock|none|posix"},
		{"device=siw", "option 'device=siw': must be auto|verbs|softiwarp"},
		{"memreg=fast", "option 'memreg=fast': must be auto|window|dynamic|persistent"},
		{"arena=1", "option 'arena=1': must be 4096 to 2147483648 bytes, a multiple of 4096"},
		{"arena=3G", "option 'arena=3G': must be 4096 to 2147483648 bytes, a multiple of 4096"},
		{"arena=17179869185G",
		 "option 'arena=17179869185G': must be 4096 to 2147483648 bytes, a multiple of 4096"},
		{"credits=0", "option 'credits=0': must be 1 to 4096"},
		{"inline=512", "option 'inline=512': must be 1024 to 262144 bytes, a multiple of 1024"},
		{"inline=1500", "option 'inline=1500': must be 1024 to 262144 bytes, a multiple of 1024"},
		{"poll=100001", "option 'poll=100001': must be 0 to 100000 microseconds"},
		{"ro=1", "option 'ro=1': takes no value, write 'ro'"},
		{"hard=", "option 'hard=': takes no value, write 'hard'"},
		{"wibble", "option 'wibble': not known; 'nfsrdma --help' lists the options"},
		{"wibble=3", "option 'wibble': not known; 'nfsrdma --help' lists the options"},
		{"=3", "option '': not known; 'nfsrdma --help' lists the options"},
		{"rsi\nze", "option 'rsi?ze': not known; 'nfsrdma --help' lists the options"},
		{"ro,bg", "option 'bg': nfsrdma does not retry in the background: use "
			  "noauto,x-systemd.automount, or nofail"},
		{"remount,ro", "option 'remount': a mount cannot be changed: unmount it and mount it again"},
	};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		int ret = parse(cases[i].list);
		if (ret != -EINVAL)
			fail_msg("%s: %d", cases[i].list, ret);
		assert_string_equal(err, cases[i].line);
	}
}

static void every_option_of_nfs5_that_we_lack_is_refused_by_name(void **state)
{
	static const char *const names[] = {
		"bg",
		"tcp",
		"tcp6",
		"udp",
		"udp6",
		"minorversion=1",
		"clientaddr=192.0.2.1",
		"migration",
		"trunkdiscovery",
		"max_connect=4",
		"xprtsec=tls",
		"mounthost=x",
		"mountaddr=x",
		"namlen=255",
		"fsc",
		"nosharecache",
		"write=eager",
		"softreval",
		"bsize=4096",
	};
	for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
		char want[64];
		snprintf(want, sizeof want, "option '%.*s'", (int)strcspn(names[i], "="), names[i]);
		assert_int_equal(parse(names[i]), -EINVAL);
		assert_memory_equal(err, want, strlen(want));
		assert_null(strstr(err, "not known"));
	}
}

static void what_belongs_to_fstab_changes_nothing(void **state)
{
	static struct options before;
	assert_int_equal(parse(""), 0);
	before = o;
	assert_int_equal(parse("defaults,_netdev,auto,noauto,nofail,user,users,nouser,owner,group,comment=a "
			       "b,x-systemd.automount,"
			       "x-systemd.idle-timeout=60,X-mount.mkdir,fg,intr,nointr,sharecache,nodiratime,"
			       "lazytime"),
			 0);
	assert_memory_equal(&o, &before, sizeof o);
}

static void an_endless_value_does_not_make_an_endless_line(void **state)
{
	char list[4096] = "device=";
	memset(list + 7, 'x', 4000);
	assert_int_equal(parse(list), -EINVAL);
	assert_true(strlen(err) < 200);
	memset(list, 'x', 4000);
	assert_int_equal(parse(list), -EINVAL);
	assert_true(strlen(err) < 200);
}

/* ---- SERVER:/EXPORT ---- */

static void good_sources(void **state)
{
	static const struct {
		const char *source, *server, *export;
	} cases[] = {
		{"server:/export", "server", "/export"},
		{"server:/", "server", "/"},
		{"server://", "server", "/"},
		{"server.example.org:/a/b/", "server.example.org", "/a/b"},
		{"192.0.2.7:/a:/b", "192.0.2.7", "/a:/b"},
		{"server:/with space", "server", "/with space"},
		{"[::1]:/export", "::1", "/export"},
		{"[2001:db8::1:2]:/e", "2001:db8::1:2", "/e"},
		{"[::ffff:192.0.2.1]:/e", "::ffff:192.0.2.1", "/e"},
		{"[fe80::1%eth0]:/e", "fe80::1%eth0", "/e"},
	};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		assert_int_equal(options_parse_source(&o, cases[i].source, err), 0);
		assert_string_equal(o.server, cases[i].server);
		assert_string_equal(o.export, cases[i].export);
		assert_string_equal(o.source, cases[i].source);
	}
}

static void bad_sources(void **state)
{
	static const char *const cases[] = {
		"",
		"server",
		"/export",
		"server/export",
		"server:",
		"server:export",
		":/export",
		" :/export",
		"-x:/e",
		"a b:/e",
		"u@h:/e",
		"a/b:/e",
		"::1:/export",
		"2001:db8::1:/e",
		"nfs://server/export",
		"[]:/e",
		"[::1",
		"[::1]",
		"[::1]/e",
		"[::1]:",
		"[::1]:e",
		"[server]:/e",
		"[127.0.0.1]:/e",
		"[::1%]:/e",
		"[%eth0]:/e",
		"[11111:2222:3333:4444:5555:6666:7777:8888:9999:aaaa:bbbb:cccc:dddd:eeee:ffff:0000:1111]:/e",
		"ser\nver:/e",
	};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		err[0] = 0;
		int ret = options_parse_source(&o, cases[i], err);
		if (ret != -EINVAL)
			fail_msg("'%s': %d", cases[i], ret);
		assert_true(strlen(err) > 20);
		assert_null(strchr(err, '\n'));
	}
	options_parse_source(&o, "::1:/export", err);
	assert_string_equal(err, "'::1:/export': an IPv6 address goes into brackets: [::1]:/EXPORT");
}

static void sources_have_their_limits(void **state)
{
	char source[2048];
	memset(source, 'h', 255);
	strcpy(source + 255, ":/e");
	assert_int_equal(options_parse_source(&o, source, err), 0);
	memset(source, 'h', 256);
	strcpy(source + 256, ":/e");
	assert_int_equal(options_parse_source(&o, source, err), -EINVAL);
	strcpy(source, "h:/");
	memset(source + 3, 'e', 1023);
	source[3 + 1023] = 0;
	assert_int_equal(options_parse_source(&o, source, err), 0);
	assert_int_equal(strlen(o.export), 1024);
	strcat(source, "e");
	assert_int_equal(options_parse_source(&o, source, err), -EINVAL);
	strcpy(source, "h:");
	memset(source + 2, '/', 2000);
	source[2002] = 0;
	assert_int_equal(options_parse_source(&o, source, err), -EINVAL);
}

/* ---- the command line ---- */

#define ARGS(...) ((char *[]){(char *)"nfsrdma", __VA_ARGS__, NULL})
static int parse_args(char *const argv[])
{
	int argc = 0;
	char *copy[16] = {NULL};
	while (argv[argc]) {
		copy[argc] = argv[argc];
		argc++;
	}
	err[0] = 0;
	return options_parse(&o, argc, copy, false, err);
}

static void command_lines(void **state)
{
	assert_int_equal(parse_args(ARGS("h:/e", "/mnt")), 0);
	assert_string_equal(o.server, "h");
	assert_string_equal(o.mountpoint, "/mnt");
	assert_false(o.foreground || o.debug);
	assert_int_equal(o.action, OPTIONS_MOUNT);
	assert_int_equal(
		parse_args(ARGS("-o", "ro", "h:/e", "-f", "/mnt", "-onconnect=4,nocto", "-o", "soft")), 0);
	assert_true(o.ro && o.foreground && !o.debug && o.nconnect == 4 && !o.cto &&
		    o.recovery == RECOVERY_SOFT);
	assert_int_equal(parse_args(ARGS("-d", "h:/e", "mnt")), 0);
	assert_true(o.debug && o.foreground);
	assert_int_equal(parse_args(ARGS("h:/e", "mnt", "-o", "debug=nfs:pool")), 0);
	assert_int_equal(o.debug, LOG_NFS | LOG_POOL);
	assert_false(o.foreground);
	assert_int_equal(parse_args(ARGS("h:/e", "mnt", "-o", "debug=everything")), -EINVAL);
	assert_non_null(strstr(err, "transport, pool"));
	assert_int_equal(parse_args(ARGS("h:/e", "/mnt", "-r")), 0);
	assert_true(o.ro);
	assert_int_equal(parse_args(ARGS("h:/e", "/mnt", "-o", "ro", "-w", "-n", "-v")), 0);
	assert_false(o.ro);
	assert_int_equal(parse_args(ARGS("--help")), 0);
	assert_int_equal(o.action, OPTIONS_SHOW_HELP);
	assert_int_equal(parse_args(ARGS("-V", "whatever")), 0);
	assert_int_equal(o.action, OPTIONS_SHOW_VERSION);
	assert_int_equal(parse_args(ARGS("--", "h:/e", "-f")), 0);
	assert_string_equal(o.mountpoint, "-f");
}

static void bad_command_lines(void **state)
{
	static const char usage[] = "usage: nfsrdma SERVER:/EXPORT MOUNTPOINT [-o OPTIONS] [-f] [-d]";
	static char too_long[PATH_MAX + 1];
	memset(too_long, 'm', PATH_MAX);
	char **const cases[] = {
		(char *[]){"nfsrdma", NULL}, ARGS("h:/e"),
		ARGS("h:/e", "/m", "more"),  ARGS("h:/e", "/m", "-x"),
		ARGS("h:/e", "/m", "-fx"),   ARGS("h:/e", "/m", "--wibble"),
		ARGS("h:/e", "/m", "-o"),
	};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		assert_int_equal(parse_args(cases[i]), -EINVAL);
		assert_non_null(strstr(err, usage));
	}
	parse_args(cases[4]);
	assert_memory_equal(err, "'-x': not known", 15);
	parse_args(cases[5]);
	assert_memory_equal(err, "'--wibble': not known", 21);
	assert_int_equal(parse_args(ARGS("nonsense", "/m")), -EINVAL);
	assert_int_equal(parse_args(ARGS("h:/e", "")), -EINVAL);
	assert_int_equal(parse_args(ARGS("h:/e", too_long)), -EINVAL);
	assert_int_equal(parse_args(ARGS("h:/e", "/m", "-o", "ro", "-o", "rsize=1")), -EINVAL);
}

/* ---- --help and --version ---- */

/* mount(8) calls "/sbin/mount.TYPE SPEC DIR [-sfnv] [-o OPTIONS] [-t TYPE]". */
static void as_mount_s_helper_the_switches_are_mount_s(void **state)
{
	char *const fake[] = {(char *)"/sbin/mount.nfsrdma", (char *)"h:/e", (char *)"/m", (char *)"-fnv",
			      NULL};
	char *const sloppy[] = {(char *)"mount.fuse.nfsrdma",
				(char *)"h:/e",
				(char *)"/m",
				(char *)"-s",
				(char *)"-o",
				(char *)"nosuch,ro,_netdev",
				(char *)"-t",
				(char *)"fuse.nfsrdma",
				NULL};
	char *const of_another_type[] = {
		(char *)"mount.nfsrdma", (char *)"h:/e", (char *)"/m", (char *)"-t", (char *)"nfs", NULL};
	assert_int_equal(options_parse(&o, 4, fake, true, err), 0);
	assert_true(o.mount_helper && o.dry_run && !o.foreground && !o.sloppy);
	assert_int_equal(options_parse(&o, 8, sloppy, true, err), 0);
	assert_true(o.mount_helper && o.sloppy && o.ro && !o.dry_run);
	assert_int_equal(options_parse(&o, 5, of_another_type, true, err), -EINVAL);
	assert_non_null(strstr(err, "nfs"));
}

/* What is known and cannot be had is refused even then; and without -s what is not known is. */
static void sloppy_is_no_licence(void **state)
{
	char *const known[] = {(char *)"mount.nfsrdma",
			       (char *)"h:/e",
			       (char *)"/m",
			       (char *)"-s",
			       (char *)"-o",
			       (char *)"vers=4",
			       NULL};
	char *const unknown[] = {
		(char *)"mount.nfsrdma", (char *)"h:/e", (char *)"/m", (char *)"-o", (char *)"nosuch", NULL};
	char *const not_mount[] = {(char *)"nfsrdma", (char *)"h:/e", (char *)"/m", (char *)"-s", NULL};
	assert_int_equal(options_parse(&o, 6, known, true, err), -EINVAL);
	assert_int_equal(options_parse(&o, 5, unknown, true, err), -EINVAL);
	assert_int_equal(options_parse(&o, 4, not_mount, true, err), -EINVAL);
}

static void help_and_version_come_from_the_table(void **state)
{
	char *text = NULL;
	size_t len = 0;
	struct options_entry e;
	FILE *f = open_memstream(&text, &len);
	options_help(f);
	fclose(f);
	for (size_t i = 0; options_entry(i, &e); i++) {
		char want[100];
		snprintf(want, sizeof want, "\n  %s%s%s", e.name, e.arg ? "=" : "", e.arg ? e.arg : "");
		assert_non_null(strstr(text, want));
		assert_non_null(strstr(text, e.help));
	}
	assert_null(strstr(text, "minorversion"));
	free(text);
	f = open_memstream(&text, &len);
	options_version(f);
	fclose(f);
	assert_memory_equal(text, "nfsrdma ", 8);
	assert_int_equal(text[len - 1], '\n');
	free(text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(defaults_are_those_of_the_table),
		cmocka_unit_test(every_default_parses),
		cmocka_unit_test(every_entry_says_what_it_is),
		cmocka_unit_test(good_values_are_taken),
		cmocka_unit_test(bad_values_get_one_line_that_says_what_to_do),
		cmocka_unit_test(every_option_of_nfs5_that_we_lack_is_refused_by_name),
		cmocka_unit_test(what_belongs_to_fstab_changes_nothing),
		cmocka_unit_test(an_endless_value_does_not_make_an_endless_line),
		cmocka_unit_test(good_sources),
		cmocka_unit_test(bad_sources),
		cmocka_unit_test(sources_have_their_limits),
		cmocka_unit_test(command_lines),
		cmocka_unit_test(bad_command_lines),
		cmocka_unit_test(as_mount_s_helper_the_switches_are_mount_s),
		cmocka_unit_test(sloppy_is_no_licence),
		cmocka_unit_test(help_and_version_come_from_the_table),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
