/* SPDX-License-Identifier: MIT
 *
 * A clock that stands still until a test moves it on: linked into a second build of the program by
 *
 *	--wrap=clock_gettime	CLOCK_MONOTONIC is what the file says that TEST_CLOCK_FILE names: 8 bytes,
 *				nanoseconds in the machine's own order
 *	--wrap=epoll_wait	who sleeps looks at the clock again soon
 *
 * So an hour in which a server is silent takes no longer than it takes to write a number.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define LOOK_AGAIN_MS 5

int __real_clock_gettime(clockid_t id, struct timespec *ts);
int __wrap_clock_gettime(clockid_t id, struct timespec *ts);
int __real_epoll_wait(int fd, struct epoll_event *events, int max, int timeout_ms);
int __wrap_epoll_wait(int fd, struct epoll_event *events, int max, int timeout_ms);

static const atomic_uint_fast64_t *now_ns;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void open_file(void)
{
	const char *name = getenv("TEST_CLOCK_FILE");
	int fd = name ? open(name, O_RDONLY | O_CLOEXEC) : -1;
	void *at = fd < 0 ? MAP_FAILED : mmap(NULL, sizeof *now_ns, PROT_READ, MAP_SHARED, fd, 0);

	if (at == MAP_FAILED) {
		fprintf(stderr, "test clock: TEST_CLOCK_FILE: %s\n", strerror(errno));
		_exit(2);
	}
	now_ns = at;
}

int __wrap_clock_gettime(clockid_t id, struct timespec *ts)
{
	if (id != CLOCK_MONOTONIC)
		return __real_clock_gettime(id, ts);
	pthread_once(&once, open_file);
	uint64_t ns = atomic_load(now_ns);
	ts->tv_sec = (time_t)(ns / 1000000000u);
	ts->tv_nsec = (long)(ns % 1000000000u);
	return 0;
}

int __wrap_epoll_wait(int fd, struct epoll_event *events, int max, int timeout_ms)
{
	if (timeout_ms < 0 || timeout_ms > LOOK_AGAIN_MS)
		timeout_ms = LOOK_AGAIN_MS;
	return __real_epoll_wait(fd, events, max, timeout_ms);
}
