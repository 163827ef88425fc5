/* SPDX-License-Identifier: BSD-3-Clause */
/* The log; see log.h. State is process-wide because failures before any context need it too. */
#include "lib/base/log.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static pthread_mutex_t log_lock = PTHREAD_MUTEX_INITIALIZER;
static tutti_log_fn *log_fn;
static void *log_arg;
static atomic_int log_level; /* 0: not read from the environment yet */
static atomic_int log_rank = -1;

static const char *const level_names[] = {"default", "error", "warn", "info",
					  "debug",   "trace", "none"};

enum tutti_log_level tt_log_level(const char *name)
{
	int i;

	for (i = TUTTI_LOG_ERROR; name && i <= TUTTI_LOG_NONE; i++)
		if (!strcmp(name, level_names[i]))
			return (enum tutti_log_level)i;
	return TUTTI_LOG_DEFAULT;
}

static int level_from_env(void)
{
	int level = tt_log_level(getenv("TUTTI_LOG"));

	return level ? level : TUTTI_LOG_WARN;
}

static int level_now(void)
{
	int level = atomic_load_explicit(&log_level, memory_order_relaxed);

	if (!level) {
		level = level_from_env();
		atomic_store(&log_level, level);
	}
	return level;
}

bool tt_log_on(enum tutti_log_level level)
{
	int now = level_now();

	return now != TUTTI_LOG_NONE && (int)level <= now;
}

void tt_log_set_rank(int rank)
{
	atomic_store(&log_rank, rank);
}

void tutti_set_log(tutti_log_fn *fn, void *arg, enum tutti_log_level level)
{
	pthread_mutex_lock(&log_lock);
	log_fn = fn;
	log_arg = arg;
	pthread_mutex_unlock(&log_lock);
	tt_log_set_level(level);
}

void tt_log_set_level(enum tutti_log_level level)
{
	atomic_store(&log_level, level == TUTTI_LOG_DEFAULT ? level_from_env() : (int)level);
}

/* "2026-03-01 14:05:09.042 node7 tutti[3]", in local time */
static void origin_text(char *buf, size_t size)
{
	int rank = atomic_load(&log_rank);
	char host[64] = "", date[32] = "", who[24] = "";
	struct timespec now;
	struct tm tm;

	clock_gettime(CLOCK_REALTIME, &now);
	if (localtime_r(&now.tv_sec, &tm))
		strftime(date, sizeof(date), "%Y-%m-%d %H:%M:%S", &tm);
	if (gethostname(host, sizeof(host) - 1))
		snprintf(host, sizeof(host), "unknown");
	if (rank >= 0)
		snprintf(who, sizeof(who), "[%d]", rank);
	snprintf(buf, size, "%s.%03ld %s tutti%s", date, now.tv_nsec / 1000000, host, who);
}

void tt_log(enum tutti_log_level level, const char *fmt, ...)
{
	char line[1024], origin[128];
	va_list ap;

	if (!tt_log_on(level))
		return;
	va_start(ap, fmt);
	vsnprintf(line, sizeof(line), fmt, ap);
	va_end(ap);
	pthread_mutex_lock(&log_lock);
	if (log_fn) {
		log_fn(level, line, log_arg);
	} else {
		origin_text(origin, sizeof(origin));
		fprintf(stderr, "%s: %s: %s\n", origin, level_names[level], line);
	}
	pthread_mutex_unlock(&log_lock);
}
