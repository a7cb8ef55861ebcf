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
