/* SPDX-License-Identifier: MIT */
#include "quirks.h"

#include <stddef.h>

static const struct {
	uint32_t vendor_id;
	struct quirks quirks;
} known[] = {
	/* rxe, Linux 6.1.192 and 6.12.117:
	 * - A Send with Invalidate arrives with wc_flags 4, the kernel's own IB_WC_WITH_INVALIDATE, where
	 * user space has IBV_WC_WITH_INV (8). Who does not see it would invalidate a second time, which
	 * panics: so it is recognised, and never offered.
	 * - The range of an access through a window is checked against the registration below it, not against
	 * the window. */
	{0xffffff,
	 {.adapter = "soft-RoCE (rxe)",
	  .no_remote_invalidate = true,
	  .no_window_bounds = true,
	  .invalidated_flag = 4}},
	/* siw has no windows and says so (max_mw is 0); nothing to work around. */
	{0x626d74, {.adapter = "software iWARP (siw)"}},
};

static const struct quirks none = {.adapter = ""};

const struct quirks *verbs_quirks_of(const struct ibv_device_attr *attr)
{
	for (size_t i = 0; i < sizeof known / sizeof *known; i++)
		if (known[i].vendor_id == attr->vendor_id)
			return &known[i].quirks;
	return &none;
}

static uint32_t least(uint32_t a, int b)
{
	return b > 0 && (uint32_t)b < a ? (uint32_t)b : a;
}

static void share_completions(int max_cqe, struct rdma_limits *limits)
{
	uint64_t wanted = (uint64_t)limits->max_recv + limits->max_send;

	if (max_cqe <= 0 || wanted <= (uint32_t)max_cqe)
		return;
	limits->max_recv = (uint32_t)(limits->max_recv * (uint64_t)max_cqe / wanted);
	limits->max_send = (uint32_t)max_cqe - limits->max_recv;
}

void verbs_limits(const struct ibv_device_attr *attr, struct rdma_limits *limits)
{
	const struct quirks *quirks = verbs_quirks_of(attr);
	unsigned int type_2 = IBV_DEVICE_MEM_WINDOW_TYPE_2A | IBV_DEVICE_MEM_WINDOW_TYPE_2B;

	limits->max_sge = least(RDMA_SGE_MAX, attr->max_sge);
	limits->max_recv = least(limits->max_recv, attr->max_qp_wr);
	limits->max_send = least(limits->max_send, attr->max_qp_wr);
	share_completions(attr->max_cqe, limits);
	limits->read_depth_in = least(limits->read_depth_in, attr->max_qp_rd_atom);
	limits->read_depth_out = least(limits->read_depth_out, attr->max_qp_init_rd_atom);
	limits->windows = attr->max_mw > 0 && attr->device_cap_flags & type_2;
	limits->window_bounds = limits->windows && !quirks->no_window_bounds;
	limits->remote_invalidate = limits->windows && !quirks->no_remote_invalidate;
}
