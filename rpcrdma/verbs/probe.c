/* SPDX-License-Identifier: MIT */
#include "endpoint.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define RESOLVE_MS 2000

bool verbs_present(void)
{
	return access("/dev/infiniband/rdma_cm", F_OK) == 0 || access("/dev/rdma_cm", F_OK) == 0;
}

static void describe(struct ibv_context *context, const struct ibv_device_attr *attr,
		     struct rdma_probe *probe)
{
	const struct quirks *quirks = verbs_quirks_of(attr);

	snprintf(probe->adapter, sizeof probe->adapter, "%s%s%s", ibv_get_device_name(context->device),
		 quirks->adapter[0] ? ", " : "", quirks->adapter);
	probe->limits = (struct rdma_limits){
		.max_recv = UINT32_MAX, .max_send = UINT32_MAX, .read_depth_in = 255, .read_depth_out = 255};
	verbs_limits(attr, &probe->limits);
}

/* An id without an event channel: its calls wait for their outcome. */
int verbs_probe_peer(const struct sockaddr *addr, socklen_t addr_len, struct rdma_probe *probe)
{
	struct sockaddr_storage to = {0};
	struct ibv_device_attr attr;
	struct rdma_cm_id *id;
	int err = 0;

	memcpy(&to, addr, addr_len);
	memset(probe, 0, sizeof *probe);
	if (!verbs_present())
		return -ENODEV;
	if (rdma_create_id(NULL, &id, NULL, RDMA_PS_TCP))
		return -errno;
	if (rdma_resolve_addr(id, NULL, (struct sockaddr *)&to, RESOLVE_MS))
		err = -errno;
	else if (!id->verbs)
		err = -ENODEV;
	else if (ibv_query_device(id->verbs, &attr))
		err = -EIO;
	else
		describe(id->verbs, &attr, probe);
	rdma_destroy_id(id);
	return err;
}

static bool invalidates(struct ibv_device *device)
{
	struct ibv_context *context = ibv_open_device(device);
	struct rdma_limits limits = {0};
	struct ibv_device_attr attr;

	if (!context)
		return true; /* nobody can connect through it */
	bool known = ibv_query_device(context, &attr) == 0;
	if (known)
		verbs_limits(&attr, &limits);
	ibv_close_device(context);
	return known && limits.remote_invalidate;
}

bool verbs_probe_all_invalidate(void)
{
	int n = 0;
	struct ibv_device **devices = ibv_get_device_list(&n);
	bool all = n > 0;

	for (int i = 0; devices && i < n; i++)
		all = all && invalidates(devices[i]);
	if (devices)
		ibv_free_device_list(devices);
	return all;
}
