/* SPDX-License-Identifier: MIT
 *
 * What the daemon may do, and how the kernel treats it when memory is short. Once, by main(), when the
 * command line is understood and before there is any thread: threads inherit it.
 *
 * Mounted by root, it keeps these capabilities and no others, and can get none back (no_new_privs):
 *
 *	CAP_SYS_ADMIN		mount(2), and umount(2) at the end
 *	CAP_DAC_READ_SEARCH	a mount point below directories that are closed to root
 *	CAP_SYS_PTRACE		/proc/PID/status of callers, where /proc hides other users' processes
 *	CAP_NET_BIND_SERVICE	ports below 1024 for MOUNT, at both ends of the mount's life, and for locks
 *	CAP_IPC_LOCK		registered memory, with every new connection over verbs
 *
 * An ordinary user's daemon has none to begin with.
 */
#ifndef PRIVILEGES_H
#define PRIVILEGES_H

/* Also asks the kernel not to choose this process when memory is short (whoever uses the mount would hang or
 * get errors, and unsaved data would be lost), and not to let it wait, when it needs memory itself, for file
 * data that only it can write (PR_SET_IO_FLUSHER, Linux 5.6), and for as much locked memory as there is. All
 * that needs rights that not everyone has, and is left out then. 0, or -errno: the capabilities could not be
 * dropped. */
int privileges_drop(void);

#endif
