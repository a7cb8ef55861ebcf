/* SPDX-License-Identifier: MIT
 *
 * What adapters do differently from what they should, in one place: each with the version that it was seen
 * on. Nothing else in rpcrdma/verbs knows an adapter by name. And what becomes of what we ask for where an
 * adapter can take less. Pure functions of what the adapter says of itself.
 *
 * Five peculiarities have no entry because one rule serves all adapters:
 *
 * - Invalidating a window twice, once by the peer's Send with Invalidate and once by us, is a NULL
 *   dereference in rxe: the machine panics (Linux 6.1.192 and 6.12.117). So no window is ever invalidated
 *   that is not known to be bound, see struct window. A peer that invalidates what it was not told to can
 *   still do it to a client on rxe.
 * - libibverbs does not update ibv_mw.rkey after a type-2 bind (rdma-core 44), and rxe's provider looks up
 *   the window by the old value while the bind is posted. So the key is kept beside it and stored after
 *   posting.
 * - On siw a Send or RDMA Write completes before an RDMA Read that was posted before it (Linux 6.1.192 and
 *   6.12.117): so a completion ends those before it only that have none of their own.
 * - rxe and siw cannot part from a context that is open, and their removal waits for us: see removal.c.
 * - siw's provider takes the key of a Send with Invalidate from where an RDMA Write has its key (rdma-core
 *   44). So it is put in both places; it means nothing to others in the second.
 *
 * And one that we cannot help: rdma_connect() over siw waits for the TCP connection (Linux 6.1.192), so a
 * lane stands still while a server that it reaches over siw does not answer.
 */
#ifndef VERBS_QUIRKS_H
#define VERBS_QUIRKS_H

#include "device.h"

#include <infiniband/verbs.h>
#include <stdbool.h>

struct quirks {
	const char *adapter;	       /* for people */
	bool no_remote_invalidate;     /* do not offer it to the peer */
	bool no_window_bounds;	       /* a window's key opens the whole registration below it */
	unsigned int invalidated_flag; /* in ibv_wc.wc_flags, besides IBV_WC_WITH_INV */
};

/* Never NULL: an adapter without peculiarities has an entry without any. */
const struct quirks *verbs_quirks_of(const struct ibv_device_attr *attr);
/* Lowers what is wanted (max_recv, max_send, both depths) to what the adapter can take, as far as that is
 * known before there is a connection, and says what else it has. A limit that an adapter gives as 0, or less,
 * is one that it does not tell. All completions of a connection go to one queue: when that is too short both
 * max_recv and max_send give way. */
void verbs_limits(const struct ibv_device_attr *attr, struct rdma_limits *limits);

#endif
