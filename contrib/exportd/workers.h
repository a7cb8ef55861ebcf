/* SPDX-License-Identifier: MIT
 *
 * A few threads for calls that wait for a disk (COMMIT), so that a connection's other calls do not wait
 * behind them. Threads are started when there is work and none is idle, up to WORKERS_MAX, and stay.
 */
#ifndef EXPORTD_WORKERS_H
#define EXPORTD_WORKERS_H

#include <stdbool.h>

#define WORKERS_MAX 8

/* Embedded in what is to be done; the worker's from workers_submit() until run() is called. */
struct work {
	struct work *next;
	void (*run)(struct work *work);
};

/* False: there is no thread and none can be started; do it yourself. In order of submission, several at a
 * time. */
bool workers_submit(struct work *work);

#endif
