/* SPDX-License-Identifier: MIT
 *
 * The RDMA devices of this build. To add one: implement device.h in a folder beside this file and name it
 * here.
 */
#include "rpcrdma.h"
#include "softiwarp/softiwarp.h"
#include "verbs/verbs.h"

#include <string.h>

static const struct rdma_device *const devices[] = {&softiwarp_device, &verbs_device};

const struct rdma_device *rdma_device_by_name(const char *name)
{
	for (size_t i = 0; i < sizeof devices / sizeof devices[0]; i++)
		if (!strcmp(devices[i]->name, name))
			return devices[i];
	return NULL;
}

struct rlimit rdma_raise_memlock(void)
{
	struct rlimit none = {RLIM_INFINITY, RLIM_INFINITY}, most = none;

	getrlimit(RLIMIT_MEMLOCK, &most);
	most.rlim_cur = most.rlim_max;
	if (setrlimit(RLIMIT_MEMLOCK, &none) < 0)
		setrlimit(RLIMIT_MEMLOCK, &most);
	getrlimit(RLIMIT_MEMLOCK, &most);
	return most;
}
