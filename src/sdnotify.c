/* SPDX-License-Identifier: MIT */
#include "sdnotify.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define STATE_MAX 2048 /* bytes; longer ones are cut */

void sdnotify(const char *format, ...)
{
	const char *path = getenv("NOTIFY_SOCKET");
	struct sockaddr_un addr = {.sun_family = AF_UNIX};
	char state[STATE_MAX];
	va_list ap;
	if (!path || (path[0] != '/' && path[0] != '@') || strlen(path) >= sizeof addr.sun_path)
		return;
	memcpy(addr.sun_path, path, strlen(path));
	if (path[0] == '@')
		addr.sun_path[0] = 0; /* in the abstract namespace (unix(7)) */
	va_start(ap, format);
	vsnprintf(state, sizeof state, format, ap);
	va_end(ap);
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return;
	ssize_t n = sendto(fd, state, strlen(state), MSG_NOSIGNAL, (struct sockaddr *)&addr,
			   (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(path)));
	(void)n;
	close(fd);
}
