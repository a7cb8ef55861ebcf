/* SPDX-License-Identifier: MIT
 *
 * Names of one directory that the kernel was told are not there, latest last. When others have changed the
 * directory it is told to look them up again: one of them may be there now, and a listing shows it already. A
 * pure type; the lock is its directory's.
 */
#ifndef MISSING_H
#define MISSING_H

#define MISSING_MAX 512u /* of a directory: beyond it the oldest is left to its time-out */

struct missing_name {
	struct missing_name *next;
	char name[];
};

struct missing {
	struct missing_name *first, *last;
	unsigned int count;
};

/* Copies the name. Without memory for it, it is left to its time-out, too. */
void missing_add(struct missing *missing, const char *name);
/* All of them, the caller's from now on, and the set is empty. */
struct missing missing_take(struct missing *missing);
void missing_free(struct missing *missing);

#endif
