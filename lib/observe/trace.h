/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A trace of calls and rounds as Chrome's JSON (TUTTI_TRACE). Events are buffered and written in
 * batches and at the end. Used under the wire lock, like the flight recorder, whose names it uses.
 */
#ifndef TT_TRACE_H
#define TT_TRACE_H

#include "lib/observe/flight.h"

struct tt_trace;

/* Create PREFIX.RANK.json. 0 or a negative code, with tt_fail's text. */
int tt_trace_open(struct tt_flight *f, const char *prefix, struct tt_trace **trace);
void tt_trace_close(struct tt_trace *t);
/* An operation of the recorder has ended. */
void tt_trace_call(struct tt_trace *t, uint64_t number, int status);
/* A round of a lane of it has. start: ticks. */
void tt_trace_round(struct tt_trace *t, uint64_t number, int lane, int round, uint64_t start);
/* A round of a partial all-reduce, on the communicator of that uid, is known: bits by rank. */
void tt_trace_partial(struct tt_trace *t, uint64_t comm, uint64_t round, const unsigned char *took,
		      int n);

#endif
