/* SPDX-License-Identifier: MIT */
#include "setup.h"
#include "arena.h"
#include "data.h"
#include "inode.h"
#include "lane_priv.h"
#include "mount.h"
#include "options.h"
#include "rpcrdma.h"
#include "xdr.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#define SECOND_NS 1000000000ull
/* A server that has accepted the connection and says nothing for so long is none. */
#define ANSWER_NS (20 * SECOND_NS)
/* ---- the lanes ---- */

static int make_lanes(struct nfs_mount *mount, const struct lane_transport *transport, char *err)
{
	for (unsigned int i = 0; i < mount->nlanes; i++) {
		struct lane *lane;
		int error = lane_create(mount, i, &lane);
		if (!error) {
			mount->lanes[i] = lane;
			error = lane_open(lane, transport);
		}
		if (error) {
			snprintf(err, SETUP_ERR_SIZE,
				 "lane %u: cannot set up %zu bytes of registered memory: %s", i,
				 transport->arena_bytes, strerror(-error));
			return error;
		}
	}
	return 0;
}

/* ---- connecting ---- */

static void address_text(const struct sockaddr_storage *addr, char *text, size_t size)
{
	char host[INET6_ADDRSTRLEN] = "?";
	unsigned int port;
	if (addr->ss_family == AF_INET6) {
		const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)addr;
		inet_ntop(AF_INET6, &in6->sin6_addr, host, sizeof host);
		port = ntohs(in6->sin6_port);
		snprintf(text, size, "[%s]:%u", host, port);
	} else {
		const struct sockaddr_in *in = (const struct sockaddr_in *)addr;
		inet_ntop(AF_INET, &in->sin_addr, host, sizeof host);
		port = ntohs(in->sin_port);
		snprintf(text, size, "%s:%u", host, port);
	}
}

/* What on_connection() hears while lane 0 connects. One at a time, main thread. */
static struct {
	bool up, failed;
	char why[256];
} connecting;

/* The lane sleeps at the end of its turn: up again at the latest then. */
static struct lane_timer alarm_clock;

static void on_alarm(struct lane_timer *timer)
{
	(void)timer;
}

static void on_connection(struct lane *lane, bool up, const char *why)
{
	lane_wake(lane);
	connecting.up = up;
	connecting.failed = !up;
	if (!up)
		snprintf(connecting.why, sizeof connecting.why, "%s",
			 why && why[0] ? why : "no reason given");
}

static int connect_first(struct lane *lane, const struct setup_choice *choice,
			 const struct sockaddr_storage *addr, char *err)
{
	const struct options *o = lane->mount->opts;
	uint64_t give_up = lane_clock_ns() + o->retry * 60 * SECOND_NS;
	char where[INET6_ADDRSTRLEN + 16];
	address_text(addr, where, sizeof where);
	lane->on_connection = on_connection;
	lane_timer_set(lane, &alarm_clock, give_up, on_alarm);
	rpcrdma_connect(lane->xprt, lane_clock_ns());
	while (!connecting.up && !(connecting.failed && lane_clock_ns() >= give_up))
		lane_turn(lane);
	if (connecting.up)
		return 0;
	snprintf(err, SETUP_ERR_SIZE,
		 "server %s at %s: cannot connect: %s (device %s%s%s); nfsrdma-probe %s says more", o->server,
		 where, connecting.why, choice->device->name, choice->adapter[0] ? ": " : "",
		 choice->adapter[0] ? choice->adapter : " reaches iWARP servers only", o->server);
	return -ECONNREFUSED;
}

/* ---- asking ---- */

struct question {
	struct nfs_mount *mount;
	bool answered;
	int err;
	struct nfs3_fsinfo_res fsinfo;
};
static struct question asked;

static void answered(struct op *op)
{
	asked.answered = true;
	lane_wake(op->lane);
	op_reply_none(op);
}

static void on_root_attr(struct op *op, int err, struct xdr_reader *results)
{
	struct nfs3_attr_res res;
	if (!err)
		err = nfs3_getattr_verdict(results, &res);
	if (!err)
		asked.mount->root_attr = res.attr;
	asked.err = err;
	answered(op);
}

static void on_fsinfo(struct op *op, int err, struct xdr_reader *results)
{
	if (!err)
		err = nfs3_decode_fsinfo(results, &asked.fsinfo);
	if (!err)
		err = nfs3_errno(asked.fsinfo.status);
	asked.err = err;
	answered(op);
}

static void on_pathconf(struct op *op, int err, struct xdr_reader *results)
{
	struct nfs3_pathconf_res res;
	if (!err)
		err = nfs3_decode_pathconf(results, &res);
	if (!err)
		err = nfs3_errno(res.status);
	asked.mount->name_max = err || res.name_max == 0 || res.name_max > NFS3_NAME_MAX
					? NFS3_NAME_MAX
					: res.name_max; /* a server may lack it */
	answered(op);
}

#define ACL_COUNTS (NFS3_ACL_ACCESS_COUNT | NFS3_ACL_DEFAULT_COUNT)

/* Whatever it says of the root: does it know what was asked? */
static void on_acl_counts(struct op *op, int err, struct xdr_reader *results)
{
	struct nfs3_getacl_res res;
	if (!err)
		err = nfs3_decode_getacl(results, ACL_COUNTS, &res);
	asked.mount->acls = !err;
	answered(op);
}

static int ask(struct lane *lane, enum nfs3_proc proc, const struct cred *cred, const void *args,
	       op_reply_fn *on_reply, char *err)
{
	struct nfs_mount *mount = lane->mount;
	uint64_t give_up = lane_clock_ns() + ANSWER_NS;
	asked.mount = mount;
	asked.answered = false;
	asked.err = 0;
	lane_timer_set(lane, &alarm_clock, give_up, on_alarm);
	op_rpc(op_begin_own(lane), proc, cred, args, on_reply);
	while (!asked.answered && connecting.up && lane_clock_ns() < give_up)
		lane_turn(lane);
	if (asked.answered && !asked.err)
		return 0;
	snprintf(err, SETUP_ERR_SIZE, "server %s: %s of the export's root: %s", mount->opts->server,
		 nfs3_procs[proc].name,
		 asked.answered	 ? strerror(-asked.err)
		 : connecting.up ? "no answer within 20 s"
				 : connecting.why);
	return asked.answered ? asked.err : -ETIMEDOUT;
}

static uint32_t agree(uint32_t wanted, uint32_t servers)
{
	uint32_t size = servers && servers < wanted ? servers : wanted;
	size &= ~(ARENA_PAGE_BYTES - 1); /* whole pages: what the kernel asks for */
	return size ? size : ARENA_PAGE_BYTES;
}

static void agree_sizes(struct nfs_mount *mount, const struct nfs3_fsinfo_res *info)
{
	const struct options *o = mount->opts;
	uint32_t list_max = (uint32_t)setup_max_io(o) - 1024; /* a listing's head comes on top of the count */
	mount->rsize = agree(o->rsize, info->rtmax);
	mount->wsize = agree(o->wsize, info->wtmax);
	mount->read_max = info->rtmax && info->rtmax < mount->rsize ? info->rtmax : mount->rsize;
	mount->write_max = info->wtmax && info->wtmax < mount->wsize ? info->wtmax : mount->wsize;
	mount->dtsize = info->dtpref && info->dtpref < list_max ? info->dtpref : list_max;
	if (mount->dtsize < ARENA_PAGE_BYTES)
		mount->dtsize = ARENA_PAGE_BYTES;
	mount->maxfilesize = info->maxfilesize ? info->maxfilesize : UINT64_MAX; /* 0: it does not say */
}

static int ask_all(struct nfs_mount *mount, char *err)
{
	struct lane *lane = mount->lanes[0];
	gid_t groups[256];
	uint32_t gids[256];
	int ngroups = getgroups(256, groups);
	for (int i = 0; i < ngroups; i++)
		gids[i] = groups[i];
	struct cred cred;
	cred_init(&cred, mount->machine, geteuid(), getegid(), gids, ngroups > 0 ? (size_t)ngroups : 0);

	int error = ask(lane, NFSPROC3_GETATTR, &cred, &mount->root_fh, on_root_attr, err);
	if (!error)
		error = ask(lane, NFSPROC3_FSINFO, &cred, &mount->root_fh, on_fsinfo, err);
	if (error)
		return error;
	agree_sizes(mount, &asked.fsinfo);
	error = ask(lane, NFSPROC3_PATHCONF, &cred, &mount->root_fh, on_pathconf, err);
	if (error || !mount->opts->acl)
		return error;
	struct nfs3_getacl_args counts = {.object = &mount->root_fh, .mask = ACL_COUNTS};
	return ask(lane, NFSPROC3_GETACL, &cred, &counts, on_acl_counts, err);
}

static int make_inodes(struct nfs_mount *mount, char *err)
{
	const struct options *o = mount->opts;
	struct attr_limits limits = {.reg_min_ns = o->acregmin * SECOND_NS,
				     .reg_max_ns = o->acregmax * SECOND_NS,
				     .dir_min_ns = o->acdirmin * SECOND_NS,
				     .dir_max_ns = o->acdirmax * SECOND_NS,
				     .noac = !o->ac};
	int error = inode_table_create(&limits, &mount->inodes);
	if (!error)
		error = inode_table_set_root(mount->inodes, &mount->root_fh, &mount->root_attr,
					     lane_clock_ns());
	if (error)
		snprintf(err, SETUP_ERR_SIZE, "the table of inodes: %s", strerror(-error));
	else if (mount->root_attr.type != NFS3_DIR) {
		snprintf(err, SETUP_ERR_SIZE, "server %s: the export %.600s is not a directory", o->server,
			 o->export);
		error = -ENOTDIR;
	}
	return error;
}

static void describe(struct nfs_mount *mount, const struct lane_transport *t)
{
	struct stats_header *h = stats_header(mount->stats);
	snprintf(h->source, sizeof h->source, "%s", mount->source);
	snprintf(h->mountpoint, sizeof h->mountpoint, "%s", mount->mountpoint);
	snprintf(h->device, sizeof h->device, "%s", t->device->name);
	snprintf(h->memreg, sizeof h->memreg, "%s", fmr_strategy_name(t->strategy));
	h->arena_bytes = t->arena_bytes;
	h->rsize = mount->rsize;
	h->wsize = mount->wsize;
}

int setup_lanes(struct nfs_mount *mount, const struct setup_choice *choice,
		const struct sockaddr_storage *addr, socklen_t addr_len, char *err)
{
	const struct options *o = mount->opts;
	struct lane_transport t = {
		.device = choice->device,
		.addr = addr,
		.addr_len = addr_len,
		.strategy = (enum fmr_strategy)choice->strategy,
		.credits = o->credits < RPCRDMA_CREDITS_MAX ? o->credits : RPCRDMA_CREDITS_MAX,
		.inline_bytes = o->inline_size < RPCRDMA_INLINE_MAX ? o->inline_size : RPCRDMA_INLINE_MAX,
		.arena_bytes = o->arena & ~(size_t)(ARENA_PAGE_BYTES - 1),
		.max_io_bytes = setup_max_io(o),
		.timeo_ns = o->timeo * (SECOND_NS / 10),
		.retrans = o->retrans,
		.soft = o->recovery != RECOVERY_HARD,
	};
	mount->nlanes = o->nconnect;
	if (getrandom(&t.xid_random, sizeof t.xid_random, 0) != sizeof t.xid_random)
		t.xid_random = (uint32_t)lane_clock_ns();
	int error = setup_check_arena(o, err);
	if (!error)
		error = make_lanes(mount, &t, err);
	if (error)
		return error;
	lane_enter(mount->lanes[0]);
	error = connect_first(mount->lanes[0], choice, addr, err);
	if (!error)
		error = ask_all(mount, err);
	mount->lanes[0]->on_connection = NULL;
	lane_timer_cancel(mount->lanes[0], &alarm_clock);
	lane_enter(NULL);
	if (!error)
		error = make_inodes(mount, err);
	if (error)
		return error;
	describe(mount, &t);
	for (unsigned int i = 1; i < mount->nlanes; i++)
		rpcrdma_connect(mount->lanes[i]->xprt, lane_clock_ns());
	return 0;
}

void setup_destroy(struct nfs_mount *mount)
{
	for (unsigned int i = 0; i < mount->nlanes; i++)
		lane_destroy(mount->lanes[i]);
	data_forget_open_files();
	inode_table_destroy(mount->inodes);
}
