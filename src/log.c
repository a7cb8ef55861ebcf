/* SPDX-License-Identifier: MIT */
#include "log.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <syslog.h>
#include <time.h>
#include <unistd.h>

unsigned int log_debug_areas;

/* Sites and the sink; a line is written under it, so that lines do not mix. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static void write_stderr(enum log_level level, const char *line);
static void (*write_line)(enum log_level level, const char *line) = write_stderr;

bool log_site_admit(struct log_site *site, uint64_t now_ns, uint32_t *suppressed)
{
	if (site->refilled_ns == 0) {
		site->refilled_ns = now_ns;
		site->tokens = LOG_BURST;
	}
	uint64_t earned = (now_ns - site->refilled_ns) / LOG_REFILL_NS;
	site->refilled_ns += earned * LOG_REFILL_NS;
	site->tokens = earned >= LOG_BURST - site->tokens ? LOG_BURST : site->tokens + (uint32_t)earned;
	if (site->tokens == 0) {
		site->suppressed++;
		return false;
	}
	site->tokens--;
	*suppressed = site->suppressed;
	site->suppressed = 0;
	return true;
}

void log_one_line(char *text)
{
	for (; *text; text++) {
		if ((unsigned char)*text < ' ' || *text == 127)
			*text = '?';
	}
}

/* One write(2), so that what several processes write to one terminal or file stays whole. */
static void write_stderr(enum log_level level, const char *line)
{
	char text[LOG_LINE_MAX + 16];
	int len = snprintf(text, sizeof text, "nfsrdma: %s\n", line);
	ssize_t written = write(STDERR_FILENO, text, (size_t)len);
	(void)written; /* nobody to tell */
}

static void write_syslog(enum log_level level, const char *line)
{
	static const int priorities[] = {LOG_ERR, LOG_WARNING, LOG_INFO, LOG_DEBUG};
	syslog(priorities[level], "%s", line);
}

void log_set_debug(unsigned int areas)
{
	log_debug_areas = areas;
}

static unsigned int area_of(const char *name, size_t len)
{
	static const struct {
		const char *name;
		unsigned int areas;
	} areas[] = {
#define X(NAME, text, help) {text, LOG_##NAME},
		LOG_AREAS(X)
#undef X
			{"all", ~0u},
	};
	for (size_t i = 0; i < sizeof areas / sizeof areas[0]; i++)
		if (strlen(areas[i].name) == len && memcmp(areas[i].name, name, len) == 0)
			return areas[i].areas;
	return 0;
}

unsigned int log_areas_parse(const char *names)
{
	unsigned int areas = 0;
	for (;; names++) {
		size_t len = strcspn(names, ":");
		unsigned int one = area_of(names, len);
		if (!one)
			return 0;
		areas |= one;
		names += len;
		if (!*names)
			return areas;
	}
}

void log_to_syslog(void)
{
	pthread_mutex_lock(&lock);
	openlog("nfsrdma", LOG_PID | LOG_NDELAY, LOG_DAEMON);
	write_line = write_syslog;
	pthread_mutex_unlock(&lock);
}

void log_set_sink(void (*sink)(enum log_level level, const char *line))
{
	pthread_mutex_lock(&lock);
	write_line = sink ? sink : write_stderr;
	pthread_mutex_unlock(&lock);
}

static uint64_t now_ns(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

void log_at(struct log_site *site, enum log_level level, const char *format, ...)
{
	char line[LOG_LINE_MAX];
	uint32_t suppressed = 0;
	va_list ap;
	va_start(ap, format);
	vsnprintf(line, sizeof line, format, ap);
	va_end(ap);
	log_one_line(line);

	pthread_mutex_lock(&lock);
	if (level == LOG_LEVEL_DEBUG || log_site_admit(site, now_ns(), &suppressed)) {
		if (suppressed) {
			char more[64];
			snprintf(more, sizeof more, "(%u more like the next one were left out)", suppressed);
			write_line(level, more);
		}
		write_line(level, line);
	}
	pthread_mutex_unlock(&lock);
}
