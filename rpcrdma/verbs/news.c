/* SPDX-License-Identifier: MIT */
#include "endpoint.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/netlink.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#define UEVENTS_OF_KERNEL 1u /* multicast group; another has those of udev */

/* Who may not listen learns of a removal by rdma_cm, or at the next attempt to connect. */
static int open_uevents(void)
{
	struct sockaddr_nl addr = {.nl_family = AF_NETLINK, .nl_groups = UEVENTS_OF_KERNEL};
	int fd = socket(AF_NETLINK, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, NETLINK_KOBJECT_UEVENT);

	if (fd >= 0 && bind(fd, (struct sockaddr *)&addr, sizeof addr) < 0) {
		close(fd);
		fd = -1;
	}
	return fd;
}

static int add(int epoll_fd, int fd, enum verbs_news what)
{
	struct epoll_event event = {.events = EPOLLIN, .data.u32 = what};

	return epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &event) < 0 ? -errno : 0;
}

int verbs_news_open(struct news *news)
{
	*news = NEWS_NONE;
	if (!verbs_present())
		return -ENODEV;
	news->cm = rdma_create_event_channel();
	if (!news->cm)
		return -errno;
	news->fd = epoll_create1(EPOLL_CLOEXEC);
	if (news->fd < 0 || fcntl(news->cm->fd, F_SETFL, fcntl(news->cm->fd, F_GETFL) | O_NONBLOCK) < 0)
		return -errno;
	news->uevents = open_uevents();
	if (news->uevents >= 0 && add(news->fd, news->uevents, NEWS_UEVENT) < 0)
		return -errno;
	return add(news->fd, news->cm->fd, NEWS_CM);
}

void verbs_news_close(struct news *news)
{
	if (news->uevents >= 0)
		close(news->uevents);
	if (news->cm)
		rdma_destroy_event_channel(news->cm);
	if (news->fd >= 0)
		close(news->fd);
	*news = NEWS_NONE;
}

/* What they say is not of interest, and could be somebody else's invention: they are a reason to look. */
static void drain_uevents(int fd)
{
	char byte;

	while (recv(fd, &byte, sizeof byte, 0) >= 0 || errno == ENOBUFS)
		;
}

unsigned int verbs_news_take(struct news *news)
{
	struct epoll_event events[4];
	unsigned int all = 0;
	int n = epoll_wait(news->fd, events, sizeof events / sizeof *events, 0);

	for (int i = 0; i < n; i++)
		all |= events[i].data.u32;
	if (all & NEWS_UEVENT) {
		drain_uevents(news->uevents);
		verbs_contexts_look();
	}
	return all;
}
