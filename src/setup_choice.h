/* SPDX-License-Identifier: MIT
 *
 * What a mount takes, before anything is connected: the device, by the route to the server; the registration
 * strategy, by what the device can do; and memory, by the options. One place, so that nfsrdma-probe tells
 * what nfsrdma does. Main thread, before any lane's thread runs.
 */
#ifndef SETUP_CHOICE_H
#define SETUP_CHOICE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>

struct options;

#define SETUP_ERR_SIZE 1024

struct setup_choice {
	const struct rdma_device *device;
	int strategy;		  /* enum fmr_strategy */
	char adapter[96];	  /* that the route goes through; "" for a device that has none */
	bool bounds;		  /* it enforces a window's exact range */
	const char *why;	  /* this device, for people */
	const char *strategy_why; /* this strategy, likewise */
};

/* Chooses for good. May wait for two seconds. -errno with a line for people (SETUP_ERR_SIZE bytes). */
int setup_choose(const struct options *opts, const struct sockaddr_storage *addr, socklen_t addr_len,
		 struct setup_choice *choice, char *err);

/* The largest payload of one call, in bytes. */
size_t setup_max_io(const struct options *opts);
/* Is the arena large enough for it? -EINVAL with a line for people. */
int setup_check_arena(const struct options *opts, char *err);

#endif
