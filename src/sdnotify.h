/* SPDX-License-Identifier: MIT
 *
 * Telling the service manager how far we are: sd_notify(3)'s protocol, which is one datagram to the socket
 * that $NOTIFY_SOCKET names. Without that variable nothing happens. Main thread.
 */
#ifndef SDNOTIFY_H
#define SDNOTIFY_H

/* printf-like: "READY=1", "STATUS=…", lines separated by newlines. What cannot be told is nobody's loss. */
void sdnotify(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
