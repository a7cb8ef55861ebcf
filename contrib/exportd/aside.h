/* SPDX-License-Identifier: MIT
 *
 * A thread beside a connection's own, which serves its calls while that one waits: for devices whose driving
 * thread has to keep its credentials (struct rdma_device.fixed_credentials), where serving a call is becoming
 * the caller.
 */
#ifndef EXPORTD_ASIDE_H
#define EXPORTD_ASIDE_H

#include "server.h"

#include <stdbool.h>

struct aside;

/* NULL: no thread can be started. */
struct aside *aside_start(void);
/* serve_call(), on the other thread; returns when it has. */
bool aside_serve(struct aside *aside, struct call *call);
void aside_stop(struct aside *aside); /* NULL is fine */

#endif
