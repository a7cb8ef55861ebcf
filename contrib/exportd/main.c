/* SPDX-License-Identifier: MIT
 *
 * nfsrdma-exportd: options, start and end. Forks first: threads and registered memory do not survive a fork.
 * The child does everything, and the parent ends with the child's verdict.
 */
#include "rdma.h"
#include "rpcbind.h"
#include "rpcrdma.h"
#include "state.h"
#include "tcp.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <linux/capability.h>
#include <netdb.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define DRC_ENTRIES 2048
#define NODES_MAX 16384
#define FDS_APART_FROM_NODES 600 /* connections, listings and the like */
#define NFS_RDMA_PORT 20049
#define NFS_TCP_PORT 2049

struct options {
	const char *listen, *state, *device;
	int rdma_port, tcp_port, mount_port; /* mount_port -1: none of its own */
	bool rpcbind, no_root_squash, read_only, no_acl, foreground, counters;
	char **dirs;
	int dirs_len;
};

enum option_id {
	OPT_LISTEN = 256,
	OPT_RDMA_PORT,
	OPT_TCP_PORT,
	OPT_MOUNT_PORT,
	OPT_RPCBIND,
	OPT_NO_ROOT_SQUASH,
	OPT_RO,
	OPT_NO_ACL,
	OPT_DEVICE,
	OPT_STATE,
	OPT_COUNTERS,
	OPT_FOREGROUND = 'f',
	OPT_HELP = 'h',
};

static const struct option_row {
	enum option_id id;
	const char *name, *arg, *help;
} option_rows[] = {
	{OPT_LISTEN, "listen", "ADDR",
	 "listen at this address (default 127.0.0.1; whoever reaches it is served)"},
	{OPT_RDMA_PORT, "rdma-port", "N", "RPC-over-RDMA port (default 20049; 0: any free one)"},
	{OPT_TCP_PORT, "tcp-port", "N", "TCP port of NFS and MOUNT (default 2049; 0: any free one)"},
	{OPT_MOUNT_PORT, "mount-port", "N", "one more TCP port, for MOUNT (0: any free one)"},
	{OPT_RPCBIND, "rpcbind", NULL, "register the ports with the rpcbind of this machine"},
	{OPT_NO_ROOT_SQUASH, "no-root-squash", NULL, "let a client's root be root (default: nobody)"},
	{OPT_RO, "ro", NULL, "refuse every change"},
	{OPT_NO_ACL, "no-acl", NULL, "do not serve POSIX ACLs (NFSACL)"},
	{OPT_DEVICE, "device", "D", "RDMA device: softiwarp (default), verbs, or none"},
	{OPT_STATE, "state", "DIR", "where the key of file handles is kept"},
	{OPT_COUNTERS, "counters", NULL, "print what was served, by procedure: at the end, and on SIGUSR1"},
	{OPT_FOREGROUND, "foreground", NULL, "stay in the foreground (-f)"},
	{OPT_HELP, "help", NULL, "show this (-h)"},
};
#define OPTION_ROWS (sizeof option_rows / sizeof *option_rows)

static void usage(FILE *to)
{
	fprintf(to, "usage: nfsrdma-exportd DIR... [options]\nServes each DIR by NFSv3 under its own "
		    "absolute path.\n\n");
	for (size_t i = 0; i < OPTION_ROWS; i++) {
		const struct option_row *o = &option_rows[i];
		char left[40];
		snprintf(left, sizeof left, "--%s%s%s", o->name, o->arg ? " " : "", o->arg ? o->arg : "");
		fprintf(to, "  %-18s %s\n", left, o->help);
	}
}

static int port_arg(const char *text)
{
	char *end;
	long port = strtol(text, &end, 10);
	if (*text && !*end && port >= 0 && port <= 65535)
		return (int)port;
	fprintf(stderr, "nfsrdma-exportd: %s is no port: a number from 0 to 65535\n", text);
	exit(2);
}

static void take_option(struct options *o, int id, const char *arg)
{
	switch (id) {
	case OPT_LISTEN:
		o->listen = arg;
		break;
	case OPT_RDMA_PORT:
		o->rdma_port = port_arg(arg);
		break;
	case OPT_TCP_PORT:
		o->tcp_port = port_arg(arg);
		break;
	case OPT_MOUNT_PORT:
		o->mount_port = port_arg(arg);
		break;
	case OPT_RPCBIND:
		o->rpcbind = true;
		break;
	case OPT_NO_ROOT_SQUASH:
		o->no_root_squash = true;
		break;
	case OPT_RO:
		o->read_only = true;
		break;
	case OPT_NO_ACL:
		o->no_acl = true;
		break;
	case OPT_DEVICE:
		o->device = arg;
		break;
	case OPT_STATE:
		o->state = arg;
		break;
	case OPT_COUNTERS:
		o->counters = true;
		break;
	case OPT_FOREGROUND:
		o->foreground = true;
		break;
	case OPT_HELP:
		usage(stdout);
		exit(0);
	default:
		fprintf(stderr, "nfsrdma-exportd --help lists the options\n");
		exit(2);
	}
}

static struct options parse(int argc, char **argv)
{
	struct option longs[OPTION_ROWS + 1] = {0};
	struct options o = {
		.listen = "127.0.0.1",
		.device = "softiwarp",
		.rdma_port = NFS_RDMA_PORT,
		.tcp_port = NFS_TCP_PORT,
		.mount_port = -1,
	};
	for (size_t i = 0; i < OPTION_ROWS; i++) {
		longs[i].name = option_rows[i].name;
		longs[i].has_arg = option_rows[i].arg ? required_argument : no_argument;
		longs[i].val = option_rows[i].id;
	}
	for (int id; (id = getopt_long(argc, argv, "fh", longs, NULL)) != -1;)
		take_option(&o, id, optarg);
	o.dirs = argv + optind;
	o.dirs_len = argc - optind;
	if (o.dirs_len == 0) {
		usage(stderr);
		exit(2);
	}
	return o;
}

static int listen_address(const char *text, struct sockaddr_storage *addr)
{
	struct addrinfo hints = {.ai_flags = AI_NUMERICHOST | AI_PASSIVE, .ai_socktype = SOCK_STREAM}, *found;
	int err = getaddrinfo(text, NULL, &hints, &found);
	if (err) {
		fprintf(stderr, "nfsrdma-exportd: --listen %s: %s; give a numeric address\n", text,
			gai_strerror(err));
		return -EINVAL;
	}
	memcpy(addr, found->ai_addr, found->ai_addrlen);
	freeaddrinfo(found);
	return 0;
}

/* Every object in use holds descriptors. */
static size_t raise_fd_limit(void)
{
	struct rlimit rl;
	if (getrlimit(RLIMIT_NOFILE, &rl) < 0)
		return 0;
	rl.rlim_cur = rl.rlim_max;
	setrlimit(RLIMIT_NOFILE, &rl);
	getrlimit(RLIMIT_NOFILE, &rl);
	/* Threads share the table of descriptors, and the kernel waits for all of them (milliseconds) each
	 * time it grows: so it grows now. */
	rlim_t most = 3 * NODES_MAX + FDS_APART_FROM_NODES;
	int highest =
		fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, rl.rlim_cur > most ? (int)most : (int)rl.rlim_cur - 1);
	if (highest >= 0)
		close(highest);
	size_t fds = rl.rlim_cur > FDS_APART_FROM_NODES ? (size_t)rl.rlim_cur - FDS_APART_FROM_NODES : 0;
	return fds / 3 < NODES_MAX ? fds / 3 : NODES_MAX;
}

/* Root's exemption from quotas and from the reserve of the file system does not go with the fsuid: it goes
 * for good. */
static void drop_resource_cap(void)
{
	struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct data[2];
	if (syscall(SYS_capget, &head, data) < 0)
		return;
	data[CAP_TO_INDEX(CAP_SYS_RESOURCE)].effective &= ~CAP_TO_MASK(CAP_SYS_RESOURCE);
	data[CAP_TO_INDEX(CAP_SYS_RESOURCE)].permitted &= ~CAP_TO_MASK(CAP_SYS_RESOURCE);
	data[CAP_TO_INDEX(CAP_SYS_RESOURCE)].inheritable &= ~CAP_TO_MASK(CAP_SYS_RESOURCE);
	syscall(SYS_capset, &head, data);
}

static int open_exports(struct server *srv, const struct options *o)
{
	srv->exports = calloc((size_t)o->dirs_len, sizeof *srv->exports);
	if (!srv->exports)
		return -ENOMEM;
	for (int i = 0; i < o->dirs_len; i++) {
		struct export *x = &srv->exports[i];
		int err = export_open(x, o->dirs[i], srv->key);
		if (err) {
			fprintf(stderr, "nfsrdma-exportd: %s: %s\n", o->dirs[i], strerror(-err));
			return err;
		}
		for (int j = 0; j < i; j++)
			if (srv->exports[j].id == x->id) {
				fprintf(stderr, "nfsrdma-exportd: %s is given twice\n", x->path);
				return -EINVAL;
			}
		if (x->no_handles_why)
			fprintf(stderr,
				"nfsrdma-exportd: %s: file handles will not survive a restart of the server: "
				"%s\n",
				x->path, x->no_handles_why);
		srv->exports_len++;
	}
	return 0;
}

static int server_init(struct server *srv, const struct options *o)
{
	uint64_t verf;
	size_t nodes_max = raise_fd_limit();
	cred_init();
	if (cred_can_switch()) {
		rdma_raise_memlock();
		drop_resource_cap();
	}
	umask(0); /* a mode is what the client says */
	int err = state_key(o->state, srv->key);
	if (err)
		return err;
	if (getrandom(&verf, sizeof verf, 0) != sizeof verf)
		return -EIO;
	srv->write_verf = verf;
	srv->root_squash = !o->no_root_squash;
	srv->read_only = o->read_only;
	srv->no_acl = o->no_acl;
	err = node_init();
	if (err) {
		fprintf(stderr, "nfsrdma-exportd: /proc/self/fd: %s; /proc is needed\n", strerror(-err));
		return err;
	}
	srv->drc = drc_create(DRC_ENTRIES);
	srv->nodes = nodes_create(nodes_max);
	srv->mounts = mounts_create();
	if (!srv->drc || !srv->nodes || !srv->mounts)
		return -ENOMEM;
	return open_exports(srv, o);
}

static int listen_tcp(struct server *srv, const struct sockaddr_storage *addr, const char *text, int port,
		      uint16_t *bound)
{
	int err = tcp_listen(srv, addr, (uint16_t)port, bound);
	if (err)
		fprintf(stderr, "nfsrdma-exportd: TCP port %d at %s: %s\n", port, text, strerror(-err));
	return err;
}

static int listen_rdma(struct server *srv, const struct sockaddr_storage *addr, const struct options *o,
		       uint16_t *bound)
{
	if (strcmp(o->device, "none") == 0)
		return 0;
	int err = rdma_server_start(srv, o->device, addr, (uint16_t)o->rdma_port, bound);
	if (err == -ENODEV)
		fprintf(stderr, "nfsrdma-exportd: --device %s: %s\n", o->device,
			rdma_server_knows(o->device) ? "no RDMA device has that address"
						     : "there are softiwarp, verbs and none");
	else if (err)
		fprintf(stderr, "nfsrdma-exportd: RDMA port %d at %s: %s\n", o->rdma_port, o->listen,
			strerror(-err));
	return err;
}

static int serve(struct server *srv, const struct options *o, struct ports *ports)
{
	struct sockaddr_storage addr;
	int err = listen_address(o->listen, &addr);
	if (!err)
		err = listen_tcp(srv, &addr, o->listen, o->tcp_port, &ports->tcp);
	if (!err)
		err = listen_rdma(srv, &addr, o, &ports->rdma);
	ports->mount = ports->tcp;
	if (!err && o->mount_port >= 0)
		err = listen_tcp(srv, &addr, o->listen, o->mount_port, &ports->mount);
	if (!err && o->rpcbind)
		err = rpcbind_register(ports);
	return err;
}

/* Ends on the signals that were blocked; every second what is not in use is closed. */
static void run_until_signal(struct server *srv, const sigset_t *signals)
{
	struct timespec second = {.tv_sec = 1};
	int sig;
	while ((sig = sigtimedwait(signals, NULL, &second)) < 0 || sig == SIGHUP || sig == SIGUSR1) {
		if (sig == SIGUSR1)
			counters_print(&srv->counters, stdout);
		nodes_sweep(srv->nodes);
	}
}

/* verdict: where the parent waits for a byte; -1 in the foreground. */
static void detach(int verdict)
{
	if (verdict < 0)
		return;
	if (chdir("/") < 0)
		perror("nfsrdma-exportd: chdir /");
	int null = open("/dev/null", O_RDWR);
	for (int fd = 0; null >= 0 && fd <= 2; fd++)
		dup2(null, fd);
	if (null > 2)
		close(null);
	if (write(verdict, "", 1) == 1)
		close(verdict);
}

static int run(const struct options *o, int verdict)
{
	static struct server srv;
	struct ports ports = {0};
	sigset_t signals;
	sigemptyset(&signals);
	sigaddset(&signals, SIGINT);
	sigaddset(&signals, SIGTERM);
	sigaddset(&signals, SIGHUP);
	if (o->counters)
		sigaddset(&signals, SIGUSR1);
	sigprocmask(SIG_BLOCK, &signals, NULL); /* before the threads, which inherit it */
	signal(SIGPIPE, SIG_IGN);
	signal(SIGXFSZ, SIG_IGN); /* EFBIG says it */
	int err = server_init(&srv, o);
	if (!err)
		err = serve(&srv, o, &ports);
	if (err)
		return 1;
	printf("ready rdma=%u tcp=%u", ports.rdma, ports.tcp);
	if (o->mount_port >= 0)
		printf(" mount=%u", ports.mount);
	printf("\n");
	fflush(stdout);
	detach(verdict);
	run_until_signal(&srv, &signals);
	if (o->counters)
		counters_print(&srv.counters, stdout);
	if (o->rpcbind)
		rpcbind_unregister(&ports);
	return 0;
}

/* The parent's half: 0 when the child serves, else what the child ended with. */
static int await_child(pid_t child, int verdict)
{
	char byte;
	int status;
	if (read(verdict, &byte, 1) == 1)
		return 0;
	if (waitpid(child, &status, 0) == child && WIFEXITED(status))
		return WEXITSTATUS(status);
	return 1;
}

static int run_in_background(const struct options *o)
{
	int fds[2];
	if (pipe2(fds, O_CLOEXEC) < 0)
		return 1;
	pid_t child = fork();
	if (child < 0) {
		perror("nfsrdma-exportd: fork");
		return 1;
	}
	if (child > 0) {
		close(fds[1]);
		return await_child(child, fds[0]);
	}
	close(fds[0]);
	setsid();
	return run(o, fds[1]);
}

int main(int argc, char **argv)
{
	struct options o = parse(argc, argv);
	return o.foreground ? run(&o, -1) : run_in_background(&o);
}
