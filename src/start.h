/* SPDX-License-Identifier: MIT
 *
 * How the process starts: fork first, because registered memory and threads do not survive a fork. The child
 * does everything (connects, registers, mounts) and says through a pipe how it went; the parent stays in
 * front until then, prints the line and exits with the status, so that mount(8), systemd and a person at a
 * terminal learn the truth. Who waits long hears meanwhile which step it is; the service manager hears it,
 * and the end, through sdnotify.h.
 *
 *	start_begin(foreground);             the parent does not return from here
 *	start_step("connecting to %s", ...); as often as there is something new
 *	... connect, mount ...
 *	start_verdict(1, "server x: ...");   failed: the caller cleans up and exits with the same status
 *	start_verdict(0, NULL);              mounted: from here on the process is a daemon
 *
 * One process, one start; main thread only.
 */
#ifndef START_H
#define START_H

#include <stdbool.h>

#define START_LINE_MAX 1024 /* bytes; longer lines are cut */

/* How long the start may take before a word about it, on standard error; each further one takes three times
 * as long, up to the second. */
#define START_PATIENCE_MS 3000u
#define START_PATIENCE_MAX_MS 60000u

/* What the process exits with. */
enum { START_OK = 0, START_FAILED = 1, START_USAGE = 2 };

/*
 * Unless `foreground`: forks, and in the parent waits for the verdict and exits. Returns 0 in the process
 * that is to go on (in the foreground with a thread that ends with the verdict); or -errno when there is none
 * (then nothing was forked). Descriptors 0 to 2 are open
 * afterwards, SIGPIPE is ignored.
 */
int start_begin(bool foreground);

/* What is done now, as it goes on with "still": a line without newline. */
void start_step(const char *format, ...) __attribute__((format(printf, 1, 2)));

/*
 * The verdict: only the first one counts. line: NULL for none, without newline and without "nfsrdma: ", which
 * is put before it. With a status other than 0 it goes to standard error, with 0 to standard output. After a
 * good verdict the process is detached unless in the foreground: own session, working directory /, standard
 * descriptors on /dev/null, logging to syslog.
 */
void start_verdict(int status, const char *line);

#endif
