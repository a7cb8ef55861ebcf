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

/* What debugging messages can be had of. X(NAME, name, help) */
#define LOG_AREAS(X)                                                                                         \
	X(TRANSPORT, "transport", "connections made and lost, and what was agreed")                          \
	X(POOL, "pool", "waits for registrations and for payload memory, data that is committed")            \
	X(NFS, "nfs", "each RPC and its answer")                                                             \
	X(FUSE, "fuse", "each request of the kernel")                                                        \
	X(LOCKS, "locks", "locks on the server")

enum log_area_index {
#define X(NAME, name, help) LOG_INDEX_##NAME,
	LOG_AREAS(X)
#undef X
};
enum log_area {
#define X(NAME, name, help) LOG_##NAME = 1 << LOG_INDEX_##NAME,
	LOG_AREAS(X)
#undef X
};

/* Of which areas there are debugging messages: a mask. None at first. Before other threads run. */
void log_set_debug(unsigned int areas);
/* A mask from names with colons in between, or "all"; 0: something in it is no area. */
unsigned int log_areas_parse(const char *names);
/* log_set_debug()'s; read it through log_debug(). */
extern unsigned int log_debug_areas;
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
/* Nothing of it is worked out unless the area is wanted, so it may stand where every request passes. */
#define log_debug(area, ...)                                                                                 \
	do {                                                                                                 \
		if (log_debug_areas & (area))                                                                \
			LOG_AT(LOG_LEVEL_DEBUG, __VA_ARGS__);                                                \
	} while (0)

/* Replaces control characters by '?', in place: what is left fits one line. */
void log_one_line(char *text);

#endif
