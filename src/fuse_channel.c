/* SPDX-License-Identifier: MIT
 *
 * A lane's own way to the kernel: a clone of the session's /dev/fuse descriptor, read with a scatter list and
 * written by libfuse through custom I/O callbacks that ignore the descriptor they are given.
 *
 * Normal operation. A read is scattered into the head buffer (80 bytes: fuse_in_header and fuse_write_in) and
 * the arena's receive area. Of a WRITE the payload therefore is where the server may fetch it from; it is
 * claimed with arena_take(). The part of any other request that fell into the area is copied behind its head.
 *
 * ORDER: a reply must leave by the descriptor that its request came in by. A request is completed on the lane
 * that read it, and that lane's thread writes; so lane_self() names the right descriptor.
 *
 * FUSE_INTERRUPT never reaches libfuse: it may come on any lane, libfuse would answer one that it cannot
 * match through the wrong descriptor, and it says nothing about which signal it was (Linux 6.18,
 * libfuse 3.14). It asks us to look, no more.
 */
#include "arena.h"
#include "lane_priv.h"
#include "log.h"
#include "mount.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define HEAD_BYTES (sizeof(struct fuse_in_header) + sizeof(struct fuse_write_in))
static_assert(HEAD_BYTES == 40 + 40, "the payload of a WRITE would not start on a page of the arena");
#define READS_PER_TURN 32 /* then the connection gets its turn */

static ssize_t channel_read(int fd, void *buf, size_t len, void *userdata)
{
	(void)fd, (void)buf, (void)len, (void)userdata;
	return -1; /* not used: requests are handed to libfuse whole */
}

/* libfuse 3.14.0 knows FUSE_PARALLEL_DIROPS and FUSE_HANDLE_KILLPRIV, but forgets to put them into its answer
 * to FUSE_INIT (Debian 12; may go when that is no longer supported). So they are added on the way out: the
 * answer is the first message that leaves, and the only one before the other lanes read. */
static uint32_t init_flags, init_offered;
static bool init_answered;

/* FUSE_HANDLE_KILLPRIV_V2, which libfuse 3.14 has never heard of, promises the same as the first for more
 * cases, all of which are the server's business here, too. What for: extended attributes. Without it the
 * kernel asks before each write(2) for the file's security.capability (seen, Linux 6.18); with it, once,
 * until it hears new attributes. */
void fuse_channel_want(const struct fuse_conn_info *conn)
{
	init_flags = conn->want & FUSE_CAP_PARALLEL_DIROPS ? FUSE_PARALLEL_DIROPS : 0;
	if (conn->want & FUSE_CAP_HANDLE_KILLPRIV)
		init_flags |= FUSE_HANDLE_KILLPRIV | (init_offered & FUSE_HANDLE_KILLPRIV_V2);
}

static void complete_init(const struct iovec *iov, int count)
{
	struct fuse_init_out *out = iov[count - 1].iov_base;
	if (count == 2 && iov[1].iov_len == sizeof *out)
		out->flags |= init_flags;
	init_answered = true;
}

static ssize_t channel_writev(int fd, struct iovec *iov, int count, void *userdata)
{
	struct lane *lane = lane_self();
	(void)userdata;
	if (!init_answered)
		complete_init(iov, count);
	if (lane)
		lane->stats->fuse.syscalls++;
	/* Not a lane: the notifier's messages, which are no replies, go out by the session's own. */
	return writev(lane ? lane->fuse_fd : fd, iov, count);
}

const struct fuse_custom_io fuse_channel_io = {.read = channel_read, .writev = channel_writev};

int fuse_channel_open(struct lane *lane, int session_fd)
{
	int fd = session_fd;
	if (lane->id > 0) {
		uint32_t master = (uint32_t)session_fd;
		fd = open("/dev/fuse", O_RDWR | O_CLOEXEC);
		if (fd < 0)
			return -errno;
		if (ioctl(fd, FUSE_DEV_IOC_CLONE, &master)) {
			int err = -errno;
			close(fd);
			return err;
		}
	}
	lane->fuse_fd = fd;
	if (fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK))
		return -errno;
	lane->fuse_ready = true;
	return 0;
}

void fuse_channel_close(struct lane *lane)
{
	if (lane->fuse_fd >= 0 && lane->id > 0) /* lane 0's is the session's */
		close(lane->fuse_fd);
	lane->fuse_fd = -1;
	free(lane->fuse_spare);
	lane->fuse_spare = NULL;
}

/* Can this lane take a request now? Then the area for its payload. While the arena is full of dirty data and
 * the server answers, none: the next request may be a WRITE. When the server does not answer, requests are
 * taken all the same, and WRITEs parked: behind them may be the FLUSH of a program that was killed, which
 * cannot go before it is answered. */
static char *willing(struct lane *lane)
{
	if (lane->fuse_fd < 0 || atomic_load(&lane->unmounted) || !lane->ops_free.first)
		return NULL;
	char *area = lane->parked.first ? NULL : arena_receive_area(lane->arena);
	if (area || !ops_stalled(lane))
		return area;
	if (!lane->fuse_spare)
		lane->fuse_spare = malloc(lane->mount->wsize);
	return lane->fuse_spare;
}

void fuse_channel_watch(struct lane *lane)
{
	bool want = willing(lane) != NULL;
	if (want == lane->fuse_watched || lane->fuse_fd < 0)
		return;
	struct epoll_event ev = {.events = EPOLLIN | EPOLLEXCLUSIVE, .data.ptr = &lane->fuse_fd};
	epoll_ctl(lane->epoll_fd, want ? EPOLL_CTL_ADD : EPOLL_CTL_DEL, lane->fuse_fd, &ev);
	lane->fuse_watched = want;
	if (want || atomic_load(&lane->unmounted))
		return;
	/* A request may have woken us that we do not take: the others look. */
	for (unsigned int i = 0; i < lane->mount->nlanes; i++) {
		struct lane *other = lane->mount->lanes[i];
		if (other == lane || other->fuse_fd < 0)
			continue;
		atomic_store(&other->poked, true);
		lane_wake(other);
	}
}

struct interrupt {
	struct lane_msg msg;
	struct lane *lane;
	uint64_t unique;
};

static void on_interrupt(struct lane_msg *msg)
{
	struct interrupt *interrupt = (struct interrupt *)msg;
	ops_interrupt(interrupt->lane, interrupt->unique);
	free(interrupt);
}

/* The request that it names is on one of the lanes, or has been answered. */
static void interrupt(struct lane *lane, const struct fuse_interrupt_in *in)
{
	lane->stats->fuse.interrupts++;
	for (unsigned int i = 0; i < lane->mount->nlanes; i++) {
		struct lane *other = lane->mount->lanes[i];
		if (other == lane) {
			ops_interrupt(lane, in->unique);
			continue;
		}
		struct interrupt *msg = malloc(sizeof *msg);
		if (!msg)
			continue; /* the look at each second finds it */
		msg->lane = other;
		msg->unique = in->unique;
		lane_post(other, &msg->msg, on_interrupt);
	}
}

static const char *opcode_name(uint32_t opcode)
{
	static const char *const names[] = {
		[FUSE_LOOKUP] = "LOOKUP",
		[FUSE_FORGET] = "FORGET",
		[FUSE_GETATTR] = "GETATTR",
		[FUSE_SETATTR] = "SETATTR",
		[FUSE_READLINK] = "READLINK",
		[FUSE_SYMLINK] = "SYMLINK",
		[FUSE_MKNOD] = "MKNOD",
		[FUSE_MKDIR] = "MKDIR",
		[FUSE_UNLINK] = "UNLINK",
		[FUSE_RMDIR] = "RMDIR",
		[FUSE_RENAME] = "RENAME",
		[FUSE_LINK] = "LINK",
		[FUSE_OPEN] = "OPEN",
		[FUSE_READ] = "READ",
		[FUSE_WRITE] = "WRITE",
		[FUSE_STATFS] = "STATFS",
		[FUSE_RELEASE] = "RELEASE",
		[FUSE_FSYNC] = "FSYNC",
		[FUSE_FLUSH] = "FLUSH",
		[FUSE_INIT] = "INIT",
		[FUSE_OPENDIR] = "OPENDIR",
		[FUSE_READDIR] = "READDIR",
		[FUSE_RELEASEDIR] = "RELEASEDIR",
		[FUSE_FSYNCDIR] = "FSYNCDIR",
		[FUSE_GETLK] = "GETLK",
		[FUSE_SETLK] = "SETLK",
		[FUSE_SETLKW] = "SETLKW",
		[FUSE_ACCESS] = "ACCESS",
		[FUSE_CREATE] = "CREATE",
		[FUSE_BATCH_FORGET] = "BATCH_FORGET",
		[FUSE_FALLOCATE] = "FALLOCATE",
		[FUSE_READDIRPLUS] = "READDIRPLUS",
		[FUSE_RENAME2] = "RENAME2",
		[FUSE_LSEEK] = "LSEEK",
	};
	const char *name = opcode < sizeof names / sizeof names[0] ? names[opcode] : NULL;
	return name ? name : "another operation";
}

static void dispatch(struct lane *lane, char *area, size_t bytes)
{
	const struct fuse_in_header *in = (const struct fuse_in_header *)lane->fuse_head;
	lane->incoming = (struct incoming){.unique = in->unique, .tid = (pid_t)in->pid};
	if (in->opcode == FUSE_INTERRUPT) {
		interrupt(lane, (const struct fuse_interrupt_in *)(in + 1));
		return;
	}
	if (in->opcode == FUSE_INIT)
		init_offered = ((const struct fuse_init_in *)(in + 1))->flags;
	lane->stats->fuse.requests++;
	log_debug(LOG_FUSE, "lane %u: request %llu: %s of node %llx, %zu bytes, uid %u, thread %u", lane->id,
		  (unsigned long long)in->unique, opcode_name(in->opcode), (unsigned long long)in->nodeid,
		  bytes, in->uid, in->pid);
	size_t in_area = bytes < HEAD_BYTES ? 0 : bytes - HEAD_BYTES;
	if (in_area > lane->mount->wsize)
		in_area = lane->mount->wsize;
	if (in_area > 0) {
		if (in->opcode == FUSE_WRITE) {
			lane->incoming.payload = area;
			lane->incoming.payload_bytes = in_area;
			lane->incoming.parked = area == lane->fuse_spare;
			if (!lane->incoming.parked)
				arena_take(lane->arena, area, in_area);
		} else {
			memcpy(lane->fuse_head + HEAD_BYTES, area, in_area);
		}
	}
	struct fuse_buf buf = {.size = bytes, .mem = lane->fuse_head};
	fuse_session_process_buf(lane->mount->session, &buf);
	if (lane->incoming.payload && !lane->incoming.parked) /* libfuse refused the request by itself */
		arena_free(lane->arena, lane->incoming.payload, lane->incoming.payload_bytes, ARENA_DIRTY);
}

/* One request: 1, 0 when there is none now, or -errno. */
static int read_one(struct lane *lane, char *area)
{
	/* The kernel wants room for the largest request, and for at least 8192 bytes, and refuses the read
	 * otherwise. What lies behind the area comes to its right place behind the head; only requests that
	 * are no WRITE are that long. */
	size_t wsize = lane->mount->wsize;
	struct iovec iov[] = {{lane->fuse_head, HEAD_BYTES},
			      {area, wsize},
			      {lane->fuse_head + HEAD_BYTES + wsize, FUSE_MIN_READ_BUFFER}};
	ssize_t n = readv(lane->fuse_fd, iov, 3);
	lane->stats->fuse.syscalls++;
	if (n < 0)
		return errno == EAGAIN ? 0 : -errno;
	if ((size_t)n < sizeof(struct fuse_in_header))
		return -EIO;
	dispatch(lane, area, (size_t)n);
	return 1;
}

/* The file system is no longer mounted: no request comes any more, on any lane. What is in progress
 * goes on. */
static void unmounted(struct lane *lane)
{
	uint64_t one = 1;
	atomic_store(&lane->unmounted, true);
	lane->fuse_ready = false;
	ssize_t n = write(lane->mount->ended_fd, &one, sizeof one); /* main() */
	(void)n;
}

bool fuse_channel_read(struct lane *lane)
{
	for (int i = 0; i < READS_PER_TURN; i++) {
		char *area = lane->fuse_ready ? willing(lane) : NULL;
		if (!area)
			return false;
		int got = read_one(lane, area);
		if (got == 0)
			lane->fuse_ready = false;
		else if (got == -ENODEV) {
			unmounted(lane);
			return false;
		} else if (got < 0 && got != -EINTR &&
			   got != -ENOENT) { /* ENOENT: the request was withdrawn */
			log_error("lane %u: reading /dev/fuse: %s", lane->id, strerror(-got));
			return true;
		}
	}
	return true;
}
