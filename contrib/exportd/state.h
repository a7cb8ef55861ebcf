/* SPDX-License-Identifier: MIT
 *
 * What outlives the server: the key of the handles' seal, in a file that only the server's user can read.
 * With the same key, handles given out before a restart are good after it.
 */
#ifndef EXPORTD_STATE_H
#define EXPORTD_STATE_H

#include "siphash.h"

/* dir NULL: /var/lib/nfsrdma-exportd for root, else $XDG_STATE_HOME (or ~/.local/state) /nfsrdma-exportd.
 * Makes what is missing. 0, or -errno after saying on stderr what is wrong. */
int state_key(const char *dir, uint8_t key[SIPHASH_KEY_BYTES]);

#endif
