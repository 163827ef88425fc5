/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Calls that fail in the middle. Then each rank uses its vectors and pool memory for something else
 * at once, and no rank may read or write what they were before.
 */
#ifndef TT_TORN_H
#define TT_TORN_H

#include "tests/mp/job.h"

/* The argument of the jobs. v: two vectors, one after the other. */
struct torn {
	int (*call)(const struct mp_job *job, struct tutti_comm *comm, int kind, char *v);
	int (*begin)(const struct mp_job *job, char *v, struct tutti_request **req);
	int (*join)(struct mp_job *job); /* instead of mp_run, which then has no_init; NULL: it */
	size_t bytes;			 /* of a vector */
	size_t block;			 /* of pool memory, of those used for calls among it */
	int blocks, rounds;
	int us; /* until rank 1 is killed */
};

/* One rank has its part of the call still to do when the others' time is over. */
int torn_late(struct mp_job *job);
/* A thread revokes communicators, one after the other. */
int torn_revoked(struct mp_job *job);
/* A thread kills rank 1. */
int torn_killed(struct mp_job *job);

#endif
