/* SPDX-License-Identifier: MIT
 *
 * nfsrdma: from the command line to a mount, and from the unmount to the exit status.
 *
 * Normal operation. Everything that can fail is tried before the kernel is asked to mount: options, mount
 * point, MOUNT, the connection, what the server says of the export. Then the lanes run, and this thread
 * waits: for /dev/fuse to say that the file system was unmounted, or for a signal.
 *
 * Ending. The lanes go on until nothing is in progress and nothing is unsaved, and the last names of files
 * that were removed while open are gone. SIGTERM and SIGINT unmount first (lazily); a second one gives up
 * what is not saved, and so does a server that does not answer any more. The exit status is 0 when all data
 * was saved.
 */
#include "data.h"
#include "fs.h"
#include "lane_priv.h"
#include "log.h"
#include "mount.h"
#include "mountd.h"
#include "nlm.h"
#include "notify.h"
#include "options.h"
#include "privileges.h"
#include "rpccall.h"
#include "rpcrdma.h"
#include "sdnotify.h"
#include "session.h"
#include "setup.h"
#include "silly.h"
#include "start.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <time.h>
#include <unistd.h>

struct nfs_mount *the_mount;

static sigset_t signals; /* that end the mount */
static struct options opts;
static struct nfs_mount the_one;
static char mountpoint[PATH_MAX];
static struct mountd_export export;
static struct setup_choice choice;

static struct mountd_args mountd_args(const struct cred *cred)
{
	return (struct mountd_args){.server = opts.server,
				    .export = opts.export,
				    .mountport = (uint16_t)opts.mountport,
				    .resvport = opts.resvport,
				    .cred = cred,
				    .timeout_ms = MOUNTD_TIMEOUT_MS};
}

static void our_cred(struct cred *cred)
{
	cred_init(cred, the_one.machine, geteuid(), getegid(), NULL, 0);
}

static void tell_mountd(void)
{
	struct cred cred;
	our_cred(&cred);
	struct mountd_args args = mountd_args(&cred);
	mountd_umount(&args, &export);
}

/* MOUNT, again and again for `retry` minutes while the server is not reached. */
static int ask_mountd(char *err)
{
	struct cred cred;
	our_cred(&cred);
	struct mountd_args args = mountd_args(&cred);
	time_t give_up = time(NULL) + 60 * (time_t)opts.retry;
	int error;
	start_step("asking server %s for %s", opts.server, opts.export);
	while ((error = mountd_mount(&args, &export, err)) && mountd_may_retry(error) &&
	       time(NULL) < give_up) {
		start_step("trying: %s", err);
		sleep(1);
	}
	return error;
}

static int prepare(struct nfs_mount *mount, char *err)
{
	mount->opts = &opts;
	mount->source = opts.source;
	mount->mountpoint = mountpoint;
	mount->by_root = geteuid() == 0;
	mount->owner = geteuid();
	gethostname(mount->machine, sizeof mount->machine - 1);
	mount->proc_fd = open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC);
	mount->ended_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	int error = stats_create(opts.nconnect, &mount->stats);
	if (error || mount->proc_fd < 0 || mount->ended_fd < 0) {
		snprintf(err, START_LINE_MAX, "cannot start: %s", strerror(error ? -error : errno));
		return error ? error : -errno;
	}
	return 0;
}

static const char *lock_note; /* NULL, or what is worth saying of locks */

/* The lock manager's client, if any lock is to be the server's. */
static int start_locks(struct nfs_mount *mount, char *err)
{
	struct nlm_args args = {.server = opts.server,
				.source = opts.source,
				.machine = mount->machine,
				.addr = export.addr,
				.addrlen = export.addrlen,
				.resvport = opts.resvport};
	if (opts.local_lock == LOCAL_LOCK_ALL)
		return 0;
	our_cred(&args.cred);
	if (opts.recovery != RECOVERY_HARD)
		args.give_up_ns = (opts.retrans + 1u) * opts.timeo * 100000000ull;
	args.give_up_err = opts.recovery == RECOVERY_SOFTERR ? -ETIMEDOUT : -EIO;
	return nlm_start(&args, &mount->nlm, &lock_note, err);
}

/* Everything up to the mount. 0, or -errno with one line for people. */
static int mount_all(struct nfs_mount *mount, char *err)
{
	int error =
		session_check_mountpoint(opts.mountpoint, opts.source, mountpoint, sizeof mountpoint, err);
	if (!error)
		error = prepare(mount, err);
	if (!error)
		error = ask_mountd(err);
	if (error)
		return error;
	mount->root_fh = export.root;
	sockaddr_set_port(&export.addr, (uint16_t)opts.port);
	error = setup_choose(&opts, &export.addr, export.addrlen, &choice, err);
	if (!error) {
		start_step("connecting to server %s at %s port %u over %s", opts.server, export.addr_text,
			   opts.port, choice.device->name);
		error = setup_lanes(mount, &choice, &export.addr, export.addrlen, err);
	}
	if (error || opts.dry_run)
		return error;
	error = start_locks(mount, err);
	if (error)
		return error;
	start_step("mounting on %s", mountpoint);
	/* ORDER: before the mount, which starts a thread. From here on signals are read from a descriptor;
	 * until here they end the program, which leaves nothing behind. */
	sigprocmask(SIG_BLOCK, &signals, NULL);
	return session_mount(mount, err);
}

static void log_mounted(const struct nfs_mount *mount)
{
	log_info("%s mounted on %s: %u lane%s, each with %u bytes of registered memory, rsize %u, wsize %u, "
		 "memreg %s, device %s%s%s (%s)",
		 mount->source, mount->mountpoint, mount->nlanes, mount->nlanes == 1 ? "" : "s", opts.arena,
		 mount->rsize, mount->wsize, stats_header(mount->stats)->memreg, choice.device->name,
		 choice.adapter[0] ? " over " : "", choice.adapter, choice.why);
	if (mount->unpublished)
		log_info("%s: no file for the counters, so nfsrdma-stat has nothing to show: %s",
			 mount->mountpoint, strerror(-mount->unpublished));
}

/* What is worth saying, of a mount that works, to whoever waits for the verdict: NULL, or one line. */
static const char *remarks(const struct nfs_mount *mount, char *line)
{
	if (choice.strategy == FMR_WINDOW && !choice.bounds) {
		snprintf(line, START_LINE_MAX,
			 "note: %s does not enforce the bounds of memory windows: while a call is under way, "
			 "the server "
			 "can reach the %zu MiB of registered memory around its payload",
			 choice.adapter, FMR_STRIPE_BYTES >> 20);
		return line;
	}
	if (choice.strategy != FMR_PERSISTENT)
		return lock_note;
	snprintf(line, START_LINE_MAX,
		 "warning: memreg=persistent is not safe: whoever is the server can read and write all %u "
		 "bytes of each "
		 "lane's registered memory at any time; for trusted networks only",
		 opts.arena);
	return line;
}

/* ---- --dry-run ---- */

static const char *lock_words(void)
{
	static const char *const words[] = {
		[LOCAL_LOCK_ALL] = "among the processes of this machine only (nolock)",
		[LOCAL_LOCK_FLOCK] = "fcntl on the server, flock on this machine only; rpcbind and rpc.statd "
				     "are looked for at mount",
		[LOCAL_LOCK_POSIX] = "flock on the server, fcntl on this machine only; rpcbind and rpc.statd "
				     "are looked for at mount",
		[LOCAL_LOCK_NONE] = "on the server; rpcbind and rpc.statd are looked for at mount",
	};
	return words[opts.local_lock];
}

static void tell_what_would_be(const struct nfs_mount *mount)
{
	char line[START_LINE_MAX], options[SESSION_OPTIONS_MAX];
	session_options(mount, options);
	printf("would mount %s on %s, and has tried all but that:\n", mount->source, mount->mountpoint);
	printf("  server    %s, MOUNT on TCP port %u, NFS on RDMA port %u\n", export.addr_text,
	       export.mountport, opts.port);
	printf("  device    %s%s%s (%s)\n", choice.device->name, choice.adapter[0] ? " over " : "",
	       choice.adapter, choice.why);
	printf("  memreg    %s (%s)\n", stats_header(mount->stats)->memreg, choice.strategy_why);
	printf("  lanes     %u, each with a connection and %u bytes of registered memory\n", mount->nlanes,
	       opts.arena);
	printf("  transfers rsize %u, wsize %u\n", mount->rsize, mount->wsize);
	printf("  locks     %s\n", lock_words());
	printf("  as        type fuse.nfsrdma, options %s\n", options);
	const char *note = remarks(mount, line);
	if (note)
		printf("%s\n", note);
	printf("nothing was mounted\n");
}

/* ---- running and ending ---- */

static void lanes_each(struct nfs_mount *mount, void (*do_it)(struct lane *lane))
{
	for (unsigned int i = 0; i < mount->nlanes; i++)
		do_it(mount->lanes[i]);
}

static void ask_to_stop(struct lane *lane)
{
	atomic_store(&lane->stop, true);
	lane_wake(lane);
}

/* All of them run, or the mount goes away again. -errno with a line for people. */
static int start_lanes(struct nfs_mount *mount, char *err)
{
	unsigned int n = 0;
	int error = 0;
	while (n < mount->nlanes && !(error = lane_start(mount->lanes[n])))
		n++;
	if (!error)
		return 0;
	snprintf(err, START_LINE_MAX,
		 "cannot start a thread for lane %u of %u: %s: raise the limit of processes (ulimit -u), or "
		 "lower nconnect",
		 n, mount->nlanes, strerror(-error));
	notify_stop(mount->notify); /* ORDER: as in end_lanes() */
	for (unsigned int i = 0; i < n; i++)
		ask_to_stop(mount->lanes[i]);
	for (unsigned int i = 0; i < n; i++)
		lane_join(mount->lanes[i]);
	/* ORDER: last, for it needs a process. */
	session_unmount(mount);
	return error;
}

static atomic_bool joined;

/* ORDER: the notifier first. What it tells the kernel may have to wait for a page that is being read: by a
 * lane, which must still be there. Neither would ever end otherwise, and no signal ends the notifier then. */
static void *end_lanes(void *arg)
{
	struct nfs_mount *mount = arg;
	uint64_t one = 1;
	notify_stop(mount->notify);
	lanes_each(mount, ask_to_stop);
	lanes_each(mount, lane_join);
	lane_enter(mount->lanes[0]);
	silly_sweep(mount->lanes[0]);
	lane_run(mount->lanes[0]);
	atomic_store(&joined, true);
	ssize_t n = write(mount->ended_fd, &one, sizeof one);
	(void)n;
	return NULL;
}

/* Waits for the end of the file system, a signal, or so long (-1: for ever). The signal's number, or 0. */
static int wait_for_end(int signal_fd, int ended_fd, int timeout_ms)
{
	struct pollfd fds[] = {{signal_fd, POLLIN, 0}, {ended_fd, POLLIN, 0}};
	struct signalfd_siginfo info;
	uint64_t count;
	while (poll(fds, 2, timeout_ms) < 0 && errno == EINTR)
		;
	if (read(ended_fd, &count, sizeof count) == sizeof count)
		return 0;
	return read(signal_fd, &info, sizeof info) == sizeof info ? (int)info.ssi_signo : 0;
}

/* When the server was last heard of, but not before since_ns. */
static uint64_t last_answer_ns(const struct nfs_mount *mount, uint64_t since_ns)
{
	for (unsigned int i = 0; i < mount->nlanes; i++) {
		uint64_t ns = atomic_load_explicit(&mount->lanes[i]->answered_ns, memory_order_relaxed);
		since_ns = ns > since_ns ? ns : since_ns;
	}
	return since_ns;
}

/* What is not saved is lost, and the log says what it is. */
static _Noreturn void give_up(struct nfs_mount *mount, const char *why)
{
	log_error("%s: %s: giving up", mount->mountpoint, why);
	uint64_t bytes = data_log_unsaved();
	if (bytes > 0)
		log_error("%s: %llu bytes in all are not saved", mount->mountpoint,
			  (unsigned long long)bytes);
	session_abort(mount);
	stats_remove(mount->stats);
	_exit(bytes > 0 ? START_FAILED : START_OK);
}

/* After the unmount. A mount that waits for its server as long as it takes does so for those who use it. Now
 * there is nobody, and what is left to do is done if the server answers within the time after which a soft
 * mount would have given up. */
static void drain(struct nfs_mount *mount, int signal_fd, bool told_to_end)
{
	uint64_t patience_ns = (opts.retrans + 1u) * opts.timeo * UINT64_C(100000000);
	uint64_t begun_ns = lane_clock_ns();
	for (;;) {
		/* The joiner's word, or a lane's about the unmount that a signal began. */
		int sig = wait_for_end(signal_fd, mount->ended_fd, 250);
		if (!sig && atomic_load(&joined))
			return;
		if (sig && told_to_end)
			give_up(mount, strsignal(sig));
		if (sig) { /* as when a machine goes down: file systems first, then whoever still runs */
			told_to_end = true;
			log_info("%s: %s: unmounted already; what is not saved is being saved, a second "
				 "signal gives it up",
				 mount->mountpoint, strsignal(sig));
		}
		if (lane_clock_ns() >= last_answer_ns(mount, begun_ns) + patience_ns)
			give_up(mount, "unmounted, and the server does not answer");
	}
}

/* Runs until the file system is unmounted and all is saved. 0, or what to exit with. */
static int serve(struct nfs_mount *mount, int signal_fd)
{
	pthread_t joiner;
	int sig = wait_for_end(signal_fd, mount->ended_fd, -1);
	sdnotify("STOPPING=1\nSTATUS=%s; what is not saved is being saved",
		 sig ? strsignal(sig) : "Unmounted");
	if (sig) {
		log_info("%s: %s: unmounting", mount->mountpoint, strsignal(sig));
		session_unmount(mount);
	}
	if (pthread_create(&joiner, NULL, end_lanes, mount)) {
		end_lanes(mount);
		return START_OK;
	}
	drain(mount, signal_fd, sig != 0);
	pthread_join(joiner, NULL);
	return START_OK;
}

int main(int argc, char *argv[])
{
	static char line[MOUNTD_ERR_SIZE > START_LINE_MAX ? MOUNTD_ERR_SIZE : START_LINE_MAX];
	struct nfs_mount *mount = the_mount = &the_one;

	if (options_parse(&opts, argc, argv, geteuid() == 0, line)) {
		fprintf(stderr, "nfsrdma: %s\n", line);
		return START_USAGE;
	}
	if (opts.action != OPTIONS_MOUNT) {
		(opts.action == OPTIONS_SHOW_HELP ? options_help : options_version)(stdout);
		return START_OK;
	}
	log_set_debug(opts.debug);
	if (start_begin(opts.foreground || opts.dry_run)) {
		fprintf(stderr, "nfsrdma: cannot fork: %s\n", strerror(errno));
		return START_FAILED;
	}
	int undropped = privileges_drop();
	if (undropped) {
		snprintf(line, sizeof line, "cannot drop capabilities: %s", strerror(-undropped));
		start_verdict(START_FAILED, line);
		return START_FAILED;
	}
	sigemptyset(&signals);
	sigaddset(&signals, SIGTERM);
	sigaddset(&signals, SIGINT);
	sigaddset(&signals, SIGHUP);

	int error = mount_all(mount, line);
	if (!error && !opts.dry_run)
		error = start_lanes(mount, line);
	int status = START_FAILED;
	if (error) {
		start_verdict(START_FAILED, line);
	} else if (opts.dry_run) {
		start_verdict(status = START_OK, NULL);
		tell_what_would_be(mount);
		tell_mountd();
	} else {
		log_mounted(mount);
		int signal_fd = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
		start_verdict(START_OK, remarks(mount, line));
		status = serve(mount, signal_fd);
		tell_mountd();
	}
	nlm_stop(mount->nlm); /* ORDER: after the lanes, which ask it */
	session_destroy(mount);
	setup_destroy(mount);
	notify_free(mount->notify);
	stats_remove(mount->stats);
	return status;
}
