/* SPDX-License-Identifier: MIT
 *
 * What the daemon says: one line at a time, to standard error until it is detached and to syslog (the
 * journal) from then on.
 *
 * Any thread may log; a lane only where a decision is made, never per request. Each call site has its own
 * limit, so that a thousand failing requests are a few lines and one that counts the rest, and do not hide
 * another site's line. Names from the network or from users may hold anything: control characters leave as
 * '?'.
 */
#ifndef LOG_H
#define LOG_H

#include <stdbool.h>
#include <stdint.h>

enum log_level { LOG_LEVEL_ERROR, LOG_LEVEL_WARNING, LOG_LEVEL_INFO, LOG_LEVEL_DEBUG };

#define LOG_LINE_MAX 1024 /* bytes; longer lines are cut */

/*
 * A call site's limit: LOG_BURST lines at once, and from then on one each LOG_REFILL_NS. A pure type: time is
 * an argument.
 */
#define LOG_BURST 10u
#define LOG_REFILL_NS 5000000000ull

struct log_site {
	uint64_t refilled_ns; /* 0: never used */
	uint32_t tokens;
	uint32_t suppressed; /* since the last line that went out */
};

/* May a line go out now? If so, *suppressed says how many did not since the last one. */
bool log_site_admit(struct log_site *site, uint64_t now_ns, uint32_t *suppressed);

/* Lines above this level are not formatted. Starts as LOG_LEVEL_INFO. */
void log_set_level(enum log_level level);
/* From now on to syslog, as `nfsrdma`. */
void log_to_syslog(void);
/* For tests: lines go here instead; NULL: back to standard error. */
void log_set_sink(void (*sink)(enum log_level level, const char *line));

void log_at(struct log_site *site, enum log_level level, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

#define LOG_AT(level, ...)                                                                                   \
	do {                                                                                                 \
		static struct log_site log_site_;                                                            \
		log_at(&log_site_, level, __VA_ARGS__);                                                      \
	} while (0)

#define log_error(...) LOG_AT(LOG_LEVEL_ERROR, __VA_ARGS__)
#define log_warning(...) LOG_AT(LOG_LEVEL_WARNING, __VA_ARGS__)
#define log_info(...) LOG_AT(LOG_LEVEL_INFO, __VA_ARGS__)
#define log_debug(...) LOG_AT(LOG_LEVEL_DEBUG, __VA_ARGS__)

/* Replaces control characters by '?', in place: what is left fits one line. */
void log_one_line(char *text);

#endif
