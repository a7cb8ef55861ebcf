/* SPDX-License-Identifier: MIT */
#include "watchdog.h"
#include "rpcrdma.h"

#include <stdio.h>

#define SECOND_NS UINT64_C(1000000000)

uint64_t watchdog_limit_ns(uint64_t timeo_ns)
{
	uint64_t limit = timeo_ns / 2 < WATCHDOG_LIMIT_NS ? timeo_ns / 2 : WATCHDOG_LIMIT_NS;

	return limit < SECOND_NS ? SECOND_NS : limit;
}

enum watchdog_word watchdog_look(struct watchdog *w, uint64_t since_ns, uint64_t limit_ns, uint64_t now_ns,
				 uint64_t *age_ns)
{
	if (w->since_ns != since_ns) {
		bool spoke = w->spoke;

		*age_ns = now_ns - w->since_ns;
		*w = (struct watchdog){.since_ns = since_ns, .next_age_ns = limit_ns};
		if (spoke) /* of the next one, if it is late, in a second */
			return WATCHDOG_ANSWERED;
	}
	*age_ns = now_ns - since_ns;
	if (!since_ns || now_ns < since_ns || *age_ns < w->next_age_ns)
		return WATCHDOG_SILENT;
	while (w->next_age_ns <= *age_ns)
		w->next_age_ns *= 2;
	w->spoke = true;
	return WATCHDOG_LATE;
}

/* Where it stands, and what to do about it. */
static void explain(const struct watchdog_call *c, char *text, size_t size)
{
	if (c->refused)
		snprintf(text, size,
			 "the server has answered 'not now' (JUKEBOX) %u times: it may be fetching the file "
			 "from "
			 "slow storage, its log says more",
			 c->refused);
	else if (c->state != RPCRDMA_STATE_UP)
		snprintf(text, size,
			 "there is no connection to the server; 'nfsrdma-probe %s' tries one and says what "
			 "is wrong",
			 c->server);
	else if (c->sends == 0 && c->waits_for == RPCRDMA_WAITS_FOR_CREDIT)
		snprintf(text, size,
			 "it has not left: the server grants no credit while it answers none of the calls "
			 "before "
			 "it; look at the load and the log of the server");
	else if (c->sends == 0)
		snprintf(text, size,
			 "it has not left: all registrations are lent to calls that the server has not "
			 "answered; "
			 "look at the load and the log of the server, credits= gives more of them");
	else
		snprintf(text, size,
			 "sent %u time%s, the connection is up: look at the load, the disks and the log of "
			 "the "
			 "server; 'nfsrdma-stat %s' shows the lane",
			 c->sends, c->sends == 1 ? "" : "s", c->mountpoint);
}

void watchdog_line(const struct watchdog_call *c, char *line, size_t size)
{
	char text[512], others[48] = "";

	explain(c, text, sizeof text);
	if (c->others)
		snprintf(others, sizeof others, " and %u more", c->others);
	snprintf(line, size, "server %s lane %u: %s (XID 0x%08x)%s without an answer for %llu s: %s",
		 c->source, c->lane, c->proc, c->xid, others, (unsigned long long)(c->age_ns / SECOND_NS),
		 text);
}
