/* SPDX-License-Identifier: MIT
 *
 * Before the mount: the lanes' transports, the first connection, and what the server says about the export.
 * Everything that can fail is tried here, while no mount is there yet. Main thread, before any lane's thread
 * runs.
 */
#ifndef SETUP_H
#define SETUP_H

#include <stdbool.h>
#include <sys/socket.h>

struct nfs_mount;
struct options;

#define SETUP_ERR_SIZE 1024

/* Chooses the device, by the route to the server, and the registration strategy, by what the device can do;
 * before anything is connected, and for good. May wait for two seconds. -errno with a line for people. */
struct setup_choice {
	const struct rdma_device *device;
	int strategy;	  /* enum fmr_strategy */
	char adapter[96]; /* that the route goes through; "" for a device that has none */
	bool bounds;	  /* it enforces a window's exact range */
	const char *why;  /* of the device, when it was not named: for the log */
};
int setup_choose(const struct options *opts, const struct sockaddr_storage *addr, socklen_t addr_len,
		 struct setup_choice *choice, char *err);

/* Makes the lanes with their memory, connects lane 0, and asks for the root's attributes, FSINFO and
 * PATHCONF. -errno with a line for people; what was made is for setup_destroy(). */
int setup_lanes(struct nfs_mount *mount, const struct setup_choice *choice,
		const struct sockaddr_storage *addr, socklen_t addr_len, char *err);
void setup_destroy(struct nfs_mount *mount);

#endif
