/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The log: one line per event, "DATE TIME HOST tutti[RANK]: level: text", to standard error, or the
 * text to the user's callback. A failure of the job, of a communicator or of tutti_init is logged
 * once, where it is detected; code that passes it on is silent. A call with wrong arguments is not
 * logged: tutti_last_error has the text.
 */
#ifndef TT_LOG_H
#define TT_LOG_H

#include <stdbool.h>
#include <tutti/error.h>

#define TT_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))

void tt_log(enum tutti_log_level level, const char *fmt, ...) TT_PRINTF(2, 3);
bool tt_log_on(enum tutti_log_level level);
/* As tutti_set_log, without a change of the callback. Process-wide. */
void tt_log_set_level(enum tutti_log_level level);
/* The level of this name, TUTTI_LOG_DEFAULT if it is none. */
enum tutti_log_level tt_log_level(const char *name);
/* The rank shown in front of lines of this process, -1: none. */
void tt_log_set_rank(int rank);

#define tt_err(...) tt_log(TUTTI_LOG_ERROR, __VA_ARGS__)
#define tt_warn(...) tt_log(TUTTI_LOG_WARN, __VA_ARGS__)
#define tt_info(...) tt_log(TUTTI_LOG_INFO, __VA_ARGS__)
#define tt_debug(...)                                                                              \
	do {                                                                                       \
		if (tt_log_on(TUTTI_LOG_DEBUG))                                                    \
			tt_log(TUTTI_LOG_DEBUG, __VA_ARGS__);                                      \
	} while (0)

#endif
