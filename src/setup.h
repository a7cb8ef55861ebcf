/* SPDX-License-Identifier: MIT
 *
 * Before the mount: the lanes' transports, the first connection, and what the server says about the export.
 * Everything that can fail is tried here, while no mount is there yet. Main thread, before any lane's thread
 * runs.
 */
#ifndef SETUP_H
#define SETUP_H

#include "setup_choice.h"

struct nfs_mount;

/* Makes the lanes with their memory, connects lane 0, and asks for the root's attributes, FSINFO and
 * PATHCONF. -errno with a line for people; what was made is for setup_destroy(). */
int setup_lanes(struct nfs_mount *mount, const struct setup_choice *choice,
		const struct sockaddr_storage *addr, socklen_t addr_len, char *err);
void setup_destroy(struct nfs_mount *mount);

#endif
