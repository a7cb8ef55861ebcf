/* SPDX-License-Identifier: MIT
 *
 * Files that are held open. OPEN asks the server for the attributes, but who keeps a file open for a long
 * time reads from the kernel's page cache, of which we hear nothing; the kernel's own NFS client asks again
 * at a read(2) when the attributes' time (acregmin … acregmax) is over. So the attributes of files that are
 * open for reading are asked for here when their time is over, and pages that others have made stale are
 * dropped: read(2) and mapped memory show a change of others at the latest after acregmax, and an ESTALE
 * likewise.
 *
 * One lane looks once a second, or each acregmin if that is longer, and only while files are open. It asks
 * for one file after the other, so many files make no burst. Nothing waits for it: without a connection it
 * does not ask, and what it has asked is abandoned when the lane is to end.
 */
#ifndef REVALIDATE_H
#define REVALIDATE_H

struct lane;

/* A file has been opened where none was open. On a lane. */
void revalidate_start(struct lane *lane);
/* The lane is to end, and has ended. */
void revalidate_stop(struct lane *lane);
void revalidate_free(struct lane *lane);

#endif
