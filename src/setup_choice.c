/* SPDX-License-Identifier: MIT */
#include "setup_choice.h"
#include "arena.h"
#include "options.h"
#include "rpcrdma.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* A listing or a link's text needs this much, however small rsize and wsize are. */
#define MIN_IO_BYTES 8192u

static void take_softiwarp(struct setup_choice *choice, const char *why)
{
	choice->device = rdma_device_by_name("softiwarp");
	choice->why = why;
	choice->bounds = true;
}

static int choose_device(const struct options *opts, const struct sockaddr_storage *addr, socklen_t addr_len,
			 struct setup_choice *choice, bool *windows, char *err)
{
	const struct rdma_device *verbs = rdma_device_by_name("verbs");
	struct rdma_probe probe;

	*windows = true;
	if (opts->device == DEVICE_SOFTIWARP) {
		take_softiwarp(choice, "as asked");
		return 0;
	}
	int error = verbs->probe((const struct sockaddr *)addr, addr_len, &probe);
	if (error && opts->device == DEVICE_VERBS) {
		snprintf(err, SETUP_ERR_SIZE,
			 "option 'device=verbs': no RDMA device on the route to %s (%s): is the adapter's "
			 "module loaded, "
			 "and rdma_ucm? Or use device=softiwarp, which needs none and reaches iWARP servers",
			 opts->server, strerror(-error));
		return -ENODEV;
	}
	if (error) {
		take_softiwarp(choice, "no RDMA device is on the route to the server");
		return 0;
	}
	choice->device = verbs;
	choice->why =
		opts->device == DEVICE_VERBS ? "as asked" : "an RDMA device is on the route to the server";
	snprintf(choice->adapter, sizeof choice->adapter, "%s", probe.adapter);
	choice->bounds = probe.limits.window_bounds;
	*windows = probe.limits.windows;
	return 0;
}

int setup_choose(const struct options *opts, const struct sockaddr_storage *addr, socklen_t addr_len,
		 struct setup_choice *choice, char *err)
{
	bool windows;

	*choice = (struct setup_choice){0};
	int error = choose_device(opts, addr, addr_len, choice, &windows, err);
	if (error)
		return error;
	if (opts->memreg == MEMREG_WINDOW && !windows) {
		snprintf(err, SETUP_ERR_SIZE,
			 "option 'memreg=window': %s has no memory windows; use memreg=dynamic, which is as "
			 "safe",
			 choice->adapter);
		return -EOPNOTSUPP;
	}
	choice->strategy_why = opts->memreg != MEMREG_AUTO ? "as asked"
			       : windows		   ? "the device has memory windows"
							   : "the device has no memory windows";
	if (opts->memreg == MEMREG_PERSISTENT)
		choice->strategy = FMR_PERSISTENT;
	else if (opts->memreg == MEMREG_DYNAMIC || !windows)
		choice->strategy = FMR_DYNAMIC;
	else
		choice->strategy = FMR_WINDOW;
	return 0;
}

size_t setup_max_io(const struct options *o)
{
	size_t max = o->rsize > o->wsize ? o->rsize : o->wsize;
	return max > MIN_IO_BYTES ? max : MIN_IO_BYTES;
}

int setup_check_arena(const struct options *o, char *err)
{
	size_t least = arena_min_bytes(setup_max_io(o));
	if (o->arena >= least)
		return 0;
	snprintf(err, SETUP_ERR_SIZE,
		 "option 'arena=%u': too small for rsize=%u,wsize=%u: give at least arena=%zu, or smaller "
		 "rsize and wsize",
		 o->arena, o->rsize, o->wsize, least);
	return -EINVAL;
}
