/* SPDX-License-Identifier: MIT
 *
 * nfsrdma-stat MOUNTPOINT|--file FILE: what a mount has done, from its file of counters (stats.h). It never
 * touches the mount, so it also answers for one that hangs.
 */
#include "snapshot.h"

#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define WATCH_DEFAULT_S 2u
#define WATCH_MAX_S 3600u

struct request {
	const char *mountpoint, *file;
	void (*print)(FILE *out, const struct snapshot *s);
	unsigned int watch_s; /* 0: no */
};

static int usage(FILE *out)
{
	fprintf(out, "usage: nfsrdma-stat MOUNTPOINT|--file FILE [FORMAT]\n"
		     "Shows what a mount of nfsrdma has done, also while it hangs.\n\n"
		     "  --file FILE        read this file of counters, not a mount's\n"
		     "  --json             one JSON object\n"
		     "  --prometheus       for Prometheus: text exposition format\n"
		     "  --counters         every counter by its name, one a line\n"
		     "  --watch[=SECONDS]  a view that goes on (every 2 seconds; q ends it)\n"
		     "  -h, --help         this text\n");
	return out == stdout ? 0 : 2;
}

static bool take_seconds(const char *text, unsigned int *seconds)
{
	char *end;
	unsigned long n = strtoul(text, &end, 10);

	if (*text < '0' || *text > '9' || *end || n == 0 || n > WATCH_MAX_S)
		return false;
	*seconds = (unsigned int)n;
	return true;
}

/* True when it is whole. */
static bool parse(int argc, char *argv[], struct request *r)
{
	static const struct option longs[] = {
		{"file", required_argument, NULL, 'f'},
		{"json", no_argument, NULL, 'j'},
		{"prometheus", no_argument, NULL, 'p'},
		{"counters", no_argument, NULL, 'c'},
		{"watch", optional_argument, NULL, 'w'},
		{"help", no_argument, NULL, 'h'},
		{0},
	};
	bool timed = false;
	int c;

	while ((c = getopt_long(argc, argv, "h", longs, NULL)) != -1) {
		if (c == 'h')
			exit(usage(stdout));
		else if (c == 'f')
			r->file = optarg;
		else if (c == 'j')
			r->print = print_json;
		else if (c == 'p')
			r->print = print_prometheus;
		else if (c == 'c')
			r->print = print_counters;
		else if (c != 'w')
			return false;
		else if (!optarg)
			r->watch_s = WATCH_DEFAULT_S;
		else if (!take_seconds(optarg, &r->watch_s))
			return false;
	}
	/* "--watch SECONDS", before the mount point or behind it, as nfsiostat(8) has its interval. */
	for (; optind < argc; optind++) {
		bool seconds = r->watch_s && !timed && take_seconds(argv[optind], &r->watch_s);
		timed |= seconds;
		if (!seconds && r->mountpoint)
			return false;
		if (!seconds)
			r->mountpoint = argv[optind];
	}
	return !r->mountpoint != !r->file;
}

int main(int argc, char *argv[])
{
	static struct snapshot s;
	char err[SNAPSHOT_ERR_SIZE];
	struct request r = {.print = print_text};

	if (!parse(argc, argv, &r))
		return usage(stderr);
	int fd = r.file ? snapshot_open_file(r.file, err) : snapshot_open_mount(r.mountpoint, err);
	if (fd < 0 || snapshot_take(fd, &s, err)) {
		fprintf(stderr, "nfsrdma-stat: %s%s%s\n",
			fd < 0	 ? ""
			: r.file ? r.file
				 : r.mountpoint,
			fd < 0 ? "" : ": ", err);
		return 1;
	}
	if (!r.file && snapshot_is_stale(&s)) {
		fprintf(stderr,
			"nfsrdma-stat: %s: the daemon of this mount, process %llu, has ended: umount -l %s "
			"and "
			"mount it again; --file shows what its counters were\n",
			r.mountpoint, (unsigned long long)s.header.pid, r.mountpoint);
		return 1;
	}
	if (r.watch_s) {
		snapshot_free(&s);
		return watch(fd, r.watch_s);
	}
	r.print(stdout, &s);
	snapshot_free(&s);
	if (fflush(stdout) || ferror(stdout)) {
		fprintf(stderr, "nfsrdma-stat: cannot write: %s\n", strerror(errno));
		return 1;
	}
	return 0;
}
