/* SPDX-License-Identifier: MIT
 *
 * The terminal view: every few seconds the counters are read again, and what has been done in between is
 * shown, with throughput and latency as bars over time.
 *
 * The screen is drawn afresh each time, from the counters and the size that the terminal has then; ncurses
 * sends what differs. Signals that end the program set a flag, which the loop sees at once (getch() is
 * interrupted), so that the terminal is restored before the program ends by that very signal. Bars are
 * eighths of a character in a UTF-8 locale, and ASCII elsewhere.
 */
#define NCURSES_WIDECHAR 1
#include "snapshot.h"

#include <curses.h>
#include <errno.h>
#include <inttypes.h>
#include <langinfo.h>
#include <locale.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define HISTORY 512u /* samples; the newest are shown, as many as the screen is wide */
#define GRAPH_ROWS 3
#define LABEL_COLUMNS 23 /* before the bars of a graph */

enum series { SERIES_READ, SERIES_WRITE, SERIES_OPS, SERIES_P99, SERIES_COUNT };

struct view {
	struct snapshot now, before;
	bool have_before;
	double interval_s; /* between the two */
	double history[SERIES_COUNT][HISTORY];
	unsigned int nhistory; /* samples taken; the i-th lies at i % HISTORY */
	bool utf8;
	const char *gone; /* why nobody writes to the file any more, or NULL */
	int row;	  /* the next to draw on */
};

static volatile sig_atomic_t ended_by;

static void on_signal(int sig)
{
	ended_by = sig;
}

/* ---- numbers ---- */

/* What was done between the two, in both directions, by all procedures. */
static struct lane_stats difference(const struct view *v)
{
	struct lane_stats d = v->now.total;

	for (unsigned int p = 0; p < NFSPROC3_COUNT; p++) {
		const struct proc_stats *was = &v->before.total.procs[p];
		struct proc_stats *is = &d.procs[p];

		is->errors -= was->errors;
		is->rpc.calls -= was->rpc.calls;
		is->rpc.retransmits -= was->rpc.retransmits;
		latency_subtract(&is->rpc.queue, &was->rpc.queue);
		latency_subtract(&is->rpc.rtt, &was->rpc.rtt);
		latency_subtract(&is->total, &was->total);
	}
	d.fuse.read_bytes -= v->before.total.fuse.read_bytes;
	d.fuse.write_bytes -= v->before.total.fuse.write_bytes;
	return d;
}

static void note(struct view *v, enum series series, double value)
{
	v->history[series][v->nhistory % HISTORY] = value;
}

static void note_all(struct view *v, const struct lane_stats *d)
{
	static struct latency all;
	uint64_t calls = 0;

	memset(&all, 0, sizeof all);
	for (unsigned int p = 0; p < NFSPROC3_COUNT; p++) {
		calls += d->procs[p].rpc.calls;
		latency_merge(&all, &d->procs[p].rpc.rtt);
	}
	note(v, SERIES_READ, (double)d->fuse.read_bytes / v->interval_s);
	note(v, SERIES_WRITE, (double)d->fuse.write_bytes / v->interval_s);
	note(v, SERIES_OPS, (double)calls / v->interval_s);
	note(v, SERIES_P99, latency_percentile_ns(&all, 0.99));
	v->nhistory++;
}

/* ---- drawing ---- */

__attribute__((format(printf, 2, 3))) static void line(struct view *v, const char *format, ...)
{
	char text[1024];
	va_list ap;

	va_start(ap, format);
	vsnprintf(text, sizeof text, format, ap);
	va_end(ap);
	if (v->row < LINES)
		mvaddnstr(v->row, 0, text, COLS);
	v->row++;
}

/* How much of a cell is filled, in eighths. */
static void draw_cell(const struct view *v, int y, int x, int eighths)
{
	static const char ascii[] = " ..::||##";

	if (v->utf8) {
		wchar_t text[2] = {eighths == 0 ? L' ' : (wchar_t)(0x2580 + eighths), 0};
		mvaddnwstr(y, x, text, 1);
	} else {
		mvaddch(y, x, (chtype)ascii[eighths]);
	}
}

static double largest(const double *samples, unsigned int first, unsigned int end)
{
	double max = 0;

	for (unsigned int i = first; i < end; i++)
		if (samples[i % HISTORY] > max)
			max = samples[i % HISTORY];
	return max;
}

/* Bars over time, the newest at the right; the highest is the largest that is shown. */
static void graph(struct view *v, enum series series, const char *label, const char *(*text)(double value))
{
	const double *samples = v->history[series];
	int rows = LINES >= 36 ? GRAPH_ROWS : LINES >= 28 ? 2 : 1;
	unsigned int columns = COLS > LABEL_COLUMNS + 1 ? (unsigned int)(COLS - LABEL_COLUMNS - 1) : 0;
	unsigned int n = v->nhistory < columns ? v->nhistory : columns;

	if (n > HISTORY)
		n = HISTORY;
	double max = largest(samples, v->nhistory - n, v->nhistory);
	double latest = v->nhistory ? samples[(v->nhistory - 1) % HISTORY] : 0;
	int top = v->row;

	line(v, "%-10s %11s", label, text(latest));
	for (int r = 1; r < rows; r++)
		line(v, r == 1 ? "%-10s %11s" : "", "  most", text(max));
	for (unsigned int i = 0; i < n && max > 0; i++) {
		double value = samples[(v->nhistory - n + i) % HISTORY];
		int filled = (int)(value / max * 8 * rows + 0.5);
		int x = LABEL_COLUMNS + (int)(columns - n + i);

		if (value > 0 && filled == 0)
			filled = 1;
		for (int r = 0; r < rows && top + r < LINES; r++) {
			int here = filled - 8 * (rows - 1 - r);
			draw_cell(v, top + r, x, here < 0 ? 0 : here > 8 ? 8 : here);
		}
	}
}

static const char *rate_text(double bytes)
{
	static char text[32];
	snprintf(text, sizeof text, "%s/s", human_bytes(bytes));
	return text;
}

static const char *ops_text(double ops)
{
	static char text[32];
	snprintf(text, sizeof text, "%.0f/s", ops);
	return text;
}

static const char *latency_text(double ns)
{
	static char text[32];
	snprintf(text, sizeof text, "%s ms", human_ms(ns));
	return text;
}

static void draw_procs(struct view *v, const struct lane_stats *d)
{
	attron(A_REVERSE);
	line(v, "%-12s %10s %8s %7s  %9s %9s %9s %9s", "procedure", "ops/s", "retrans", "errors", "queue ms",
	     "rtt ms", "50%", "99%");
	attroff(A_REVERSE);
	for (unsigned int i = 0; i < NFSPROC3_COUNT; i++) {
		const struct proc_stats *p = &d->procs[i];

		if (!p->rpc.calls && !latency_count(&p->rpc.rtt))
			continue;
		line(v, "%-12s %10.0f %8" PRIu64 " %7" PRIu64 "  %9s %9s %9s %9s", proc_names[i],
		     (double)p->rpc.calls / v->interval_s, p->rpc.retransmits, p->errors,
		     human_ms(latency_mean_ns(&p->rpc.queue)), human_ms(latency_mean_ns(&p->rpc.rtt)),
		     human_ms(latency_percentile_ns(&p->rpc.rtt, 0.5)),
		     human_ms(latency_percentile_ns(&p->rpc.rtt, 0.99)));
	}
}

static void draw_lanes(struct view *v)
{
	attron(A_REVERSE);
	line(v, "%-4s %-10s %7s %11s %7s %-13s %5s %6s %8s %11s", "lane", "state", "credits", "outstanding",
	     "waiting", "for", "free", "mapped", "unmapping", "syscalls/op");
	attroff(A_REVERSE);
	for (uint32_t i = 0; i < v->now.nlanes; i++) {
		const struct lane_stats *l = &v->now.lanes[i];
		const struct fmrpool_stats *f = &l->fmrpool;

		line(v,
		     "%-4u %-10s %7" PRIu64 " %11" PRIu64 " %7" PRIu64 " %-13s %5" PRIu64 " %6" PRIu64
		     " %9" PRIu64 " %11.2f",
		     i, state_name(l->rpcrdma.state), l->rpcrdma.credits, l->rpcrdma.outstanding,
		     l->rpcrdma.queued, waits_name(l->rpcrdma.waits_for), f->fmrs - f->in_use, f->mapped_now,
		     f->unmapping_now, syscalls_per_request(l));
	}
}

static void draw_oldest(struct view *v)
{
	const struct oldest_call *o = &v->now.total.oldest;

	if (!o->since_ns || v->now.now_ns < o->since_ns)
		return;
	attron(A_BOLD);
	line(v, "%s on lane %u waits for an answer for %.0f s (XID 0x%08" PRIx64 ", sent %" PRIu64 " times)",
	     proc_name(o->proc), v->now.oldest_lane, (double)(v->now.now_ns - o->since_ns) / 1e9, o->xid,
	     o->sends);
	attroff(A_BOLD);
}

static void draw(struct view *v)
{
	const struct stats_header *h = &v->now.header;
	static struct lane_stats d;

	erase();
	v->row = 0;
	attron(A_BOLD);
	line(v, "%s on %s", h->source, h->mountpoint);
	attroff(A_BOLD);
	line(v, "device %s, memreg %s, %s of payload memory in use, %s not yet stable; q ends", h->device,
	     h->memreg, human_bytes((double)v->now.total.fmrpool.arena_bytes_used),
	     human_bytes((double)v->now.total.fuse.kept_bytes));
	if (v->gone)
		line(v, "%s", v->gone);
	draw_oldest(v);
	v->row++;
	graph(v, SERIES_READ, "read", rate_text);
	graph(v, SERIES_WRITE, "written", rate_text);
	graph(v, SERIES_OPS, "RPCs", ops_text);
	graph(v, SERIES_P99, "99% rtt", latency_text);
	v->row++;
	draw_lanes(v);
	v->row++;
	if (v->have_before) {
		d = difference(v);
		draw_procs(v, &d);
	} else {
		line(v, "the first figures come with the next look");
	}
	refresh();
}

/* ---- the loop ---- */

/* Reads the counters again. 0, or -1 with err filled. */
static int look(int fd, struct view *v, char *err)
{
	static struct lane_stats d;
	struct snapshot old = v->before;
	struct stat st;
	bool first = v->now.nlanes == 0;

	v->before = v->now;
	v->now = old;
	if (snapshot_take(fd, &v->now, err))
		return -1;
	if (fstat(fd, &st) == 0 && st.st_nlink == 0)
		v->gone = "unmounted";
	else if (snapshot_is_stale(&v->now))
		v->gone = "the daemon of this mount has ended";
	v->have_before = !first;
	if (first)
		return 0;
	v->interval_s = (double)(v->now.now_ns - v->before.now_ns) / 1e9;
	d = difference(v);
	note_all(v, &d);
	return 0;
}

static void catch_signals(void)
{
	static const int ends[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};
	struct sigaction sa = {.sa_handler = on_signal};

	sigemptyset(&sa.sa_mask);
	for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++)
		sigaction(ends[i], &sa, NULL); /* no SA_RESTART: getch() is to return */
}

static uint64_t monotonic_ns(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* Until the time has come, or there is a reason to end. A new size is drawn at once. */
static bool wait_until(struct view *v, uint64_t due_ns)
{
	for (;;) {
		uint64_t now_ns = monotonic_ns();
		if (ended_by || v->gone)
			return false;
		if (now_ns >= due_ns)
			return true;
		timeout((int)((due_ns - now_ns + 999999) / 1000000));
		int key = getch();
		if (key == 'q' || key == 'Q')
			return false;
		if (key == KEY_RESIZE)
			draw(v);
		else if (key == ERR && (!isatty(STDIN_FILENO) || errno == EIO))
			return false; /* the terminal is gone */
	}
}

static int run(int fd, struct view *v, unsigned int interval_s, char *err)
{
	uint64_t due_ns = monotonic_ns();

	do {
		due_ns += interval_s * UINT64_C(1000000000);
		errno = 0;
		if (look(fd, v, err))
			return -1;
		draw(v);
	} while (wait_until(v, due_ns));
	return 0;
}

int watch(int fd, unsigned int interval_s)
{
	static struct view v;
	char err[SNAPSHOT_ERR_SIZE] = "";

	if (!isatty(STDOUT_FILENO) || !isatty(STDIN_FILENO)) {
		fprintf(stderr, "nfsrdma-stat: --watch needs a terminal; --json and --prometheus do not\n");
		return 2;
	}
	setlocale(LC_CTYPE, "");
	v.utf8 = strcmp(nl_langinfo(CODESET), "UTF-8") == 0;
	catch_signals(); /* before ncurses, which leaves alone what is caught already */
	SCREEN *screen = newterm(NULL, stdout, stdin);
	if (!screen) {
		fprintf(stderr, "nfsrdma-stat: the terminal '%s' is not known: set TERM to one that is\n",
			getenv("TERM") ? getenv("TERM") : "");
		return 2;
	}
	cbreak();
	noecho();
	keypad(stdscr, TRUE);
	curs_set(0);
	int error = run(fd, &v, interval_s, err);
	endwin();
	delscreen(screen);
	snapshot_free(&v.now);
	snapshot_free(&v.before);
	if (error)
		fprintf(stderr, "nfsrdma-stat: %s\n", err);
	else if (v.gone)
		fprintf(stderr, "nfsrdma-stat: %s\n", v.gone);
	if (ended_by) {
		signal(ended_by, SIG_DFL);
		raise(ended_by);
	}
	return error ? 1 : 0;
}
