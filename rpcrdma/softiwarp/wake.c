/* SPDX-License-Identifier: MIT
 *
 * Waking a peer that sleeps on the first message.
 *
 * The kernel's siw (seen, Linux 6.1.192) may leave what reaches it right behind its MPA reply unread until
 * more bytes come: from another machine about one connection in four got no answer to its first Send, ever. A
 * zero-length RDMA Write makes it look: STag 0, nothing placed (RFC 5040 §5.1), no receive and no credit
 * used. So the active side sends one when it has sent something and has heard nothing for a while, and again
 * after longer whiles. Once anything has come it is never done again.
 *
 * It may go when no siw sleeps any more.
 */
#include "endpoint.h"

#define FIRST_WAIT_NS                                                                                        \
	20000000ull /* a reply takes less in a data centre; nobody notices it once per connection */
#define LAST_WAIT_NS 640000000ull /* 20 + 40 + … + 640 ms: then it is no sleep */

void wake_reset(struct endpoint *ep)
{
	ep->wake = (struct wake){.wait_ns = FIRST_WAIT_NS};
}

static bool awaits_first_words(const struct endpoint *ep)
{
	return ep->ep.state == RDMA_EP_ESTABLISHED && !ep->setup.passive && !ep->rx.heard &&
	       ep->tx.sent > 0 && ep->wake.wait_ns <= LAST_WAIT_NS;
}

uint64_t wake_timeout_ns(const struct endpoint *ep)
{
	if (!awaits_first_words(ep))
		return 0;
	return ep->wake.due_ns ? ep->wake.due_ns
			       : 1; /* 1: the wait begins when we are told what time it is */
}

void wake_run(struct endpoint *ep, uint64_t now_ns)
{
	if (!awaits_first_words(ep))
		return;
	if (ep->wake.due_ns && now_ns >= ep->wake.due_ns) {
		ep->ep.ops->queue_write(&ep->ep, NULL, 0, 0, 0, NULL);
		ep->wake.wait_ns *= 2;
		ep->wake.due_ns = 0;
	}
	if (!ep->wake.due_ns)
		ep->wake.due_ns = now_ns + ep->wake.wait_ns;
}
