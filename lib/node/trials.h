/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A rank chooses between two ways of doing the same, by how long both have taken. Now and then it
 * tries the way that is not in use for some calls in a row. Those are measured, but for the first,
 * which finds what the other way has left in caches; and as many before.
 */
#ifndef TT_NODE_TRIALS_H
#define TT_NODE_TRIALS_H

#include <stdbool.h>
#include <stdint.h>

/* Of the call of number n, from 0 on, which is */
struct tt_trial {
	bool decides;  /* ... the first one after a trial: time to take the faster way, */
	bool measured; /* ... one whose time counts, */
	bool tried;    /* ... to go the way that is not in use; */
	bool first;    /* ... the first one that is measured before a trial. */
};
struct tt_trial tt_trial_of(uint64_t n);

/* A mean of times for a KiB, in ticks, with one more of len bytes; 0: not measured yet. */
uint32_t tt_trial_mean(uint32_t mean, uint64_t ticks, size_t len);

#endif
