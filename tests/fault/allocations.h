/* SPDX-License-Identifier: BSD-3-Clause */
/* Allocations that fail: a program with allocations.c has allocation functions of its own. */
#ifndef TT_FAULT_ALLOCATIONS_H
#define TT_FAULT_ALLOCATIONS_H

#include "tests/mp/job.h"

#define BAD 1 /* the rank without memory */

/* The threads that have no memory. SLOW: of the calling thread, in part, while the others are slow.
 */
enum who { NONE, CALLER, ALL, SLOW };

/* From now on so many allocations in a row fail, from this one on; the first is 1. */
void arm(enum who who, long from, long row);
/* How many there have been since. */
long counted(void);

/* A call of all ranks, armed at rank BAD from this allocation on. *count: its allocations there. */
typedef int without_fn(struct mp_job *job, void *arg, long from, long *count);
/* For each step-th of its allocations. */
int each_allocation(struct mp_job *job, without_fn *call, void *arg, long step);

#endif
