/* SPDX-License-Identifier: BSD-3-Clause */
/* Writes a flight recorder to a file, as lines of JSON; tutti_dump(5) describes them. */
#ifndef TT_DUMP_H
#define TT_DUMP_H

#include "lib/observe/flight.h"

/*
 * To PREFIX.RANK, complete or not at all: it is written beside it and renamed. 0 or a negative
 * code; -EBUSY: another thread of this process is at it. own: it is the process's own, because of
 * an error; the launcher then leaves it. May be called by a signal handler, on a small stack.
 */
int tt_dump_file(const char *prefix, struct tt_flight *f, const char *reason, bool own);
/* Ticks of this host as nanoseconds since 1970. */
struct tt_dump_clock {
	uint64_t ticks0, real0;
	double ns; /* per tick */
};
struct tt_dump_clock tt_dump_clock(const struct tt_flight *f);
uint64_t tt_dump_real(const struct tt_dump_clock *c, uint64_t ticks);

/*
 * From now on signal signo (0: none) dumps f to prefix, unless the program has a handler for it;
 * several recorders may be armed. f and prefix must stay until disarmed.
 */
void tt_dump_arm(struct tt_flight *f, const char *prefix, int signo);
/*
 * No handler reads f from here on. False: one still does, after seconds (its file system hangs?).
 */
bool tt_dump_disarm(struct tt_flight *f);

#endif
