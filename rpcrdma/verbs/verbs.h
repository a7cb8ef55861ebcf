/* SPDX-License-Identifier: MIT
 *
 * The device "verbs": whatever libibverbs and librdmacm reach. InfiniBand, RoCE and iWARP adapters, and the
 * kernel's software ones (rxe, siw).
 */
#ifndef VERBS_H
#define VERBS_H

#include "device.h"

extern const struct rdma_device verbs_device;

#endif
