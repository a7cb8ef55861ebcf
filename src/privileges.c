/* SPDX-License-Identifier: MIT */
#include "privileges.h"
#include "rpcrdma.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef PR_SET_IO_FLUSHER
#define PR_SET_IO_FLUSHER 57
#endif

/* Far from -1000, which would make a daemon that leaks immortal, and behind all that has not asked. */
#define OOM_SCORE_ADJ "-900"

#define CAP_BIT(cap) (UINT64_C(1) << (cap))
static const uint64_t kept = CAP_BIT(CAP_SYS_ADMIN) | CAP_BIT(CAP_DAC_READ_SEARCH) | CAP_BIT(CAP_SYS_PTRACE) |
			     CAP_BIT(CAP_NET_BIND_SERVICE) | CAP_BIT(CAP_IPC_LOCK);

static void survive_memory_pressure(void)
{
	int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
	if (fd >= 0) {
		ssize_t n = write(fd, OOM_SCORE_ADJ, strlen(OOM_SCORE_ADJ));
		(void)n;
		close(fd);
	}
	prctl(PR_SET_IO_FLUSHER, 1, 0, 0, 0);
}

static void drop_bounds(void)
{
	for (int cap = 0; prctl(PR_CAPBSET_READ, cap, 0, 0, 0) >= 0; cap++)
		if (!(kept & CAP_BIT(cap)))
			prctl(PR_CAPBSET_DROP, cap, 0, 0, 0); /* EPERM: it has none to lose either */
}

int privileges_drop(void)
{
	struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct data[2];

	survive_memory_pressure();
	rdma_raise_memlock(); /* while CAP_SYS_RESOURCE is there */
	if (syscall(SYS_capget, &head, data))
		return -errno;
	uint64_t permitted = data[0].permitted | (uint64_t)data[1].permitted << 32;
	if (!permitted)
		return 0;
	drop_bounds();
	permitted &= kept;
	for (int i = 0; i < 2; i++) {
		data[i].permitted = data[i].effective = (uint32_t)(permitted >> (32 * i));
		data[i].inheritable = 0;
	}
	if (syscall(SYS_capset, &head, data) || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
		return -errno;
	return 0;
}
