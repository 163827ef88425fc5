/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Runs a taken call. The rank spins on tutti for a while and then also lets the MPI progress:
 * another rank may need a message of this one before it can make the call.
 */
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <time.h>

#include "mpi/preload.h"

#define ALONE                                                                                      \
	256 /* tests of the request before the MPI progresses, too; with a core for each rank */
#define CROWDED 4 /* the same where ranks share cores */
#define EVERY 8	  /* tests for each look at the MPI */
#define ROOM (MPI_MAX_ERROR_STRING - 40 < 511 ? MPI_MAX_ERROR_STRING - 40 : 511)

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* Progresses everything that the MPI has under way: no message for this communicator ever comes. */
static void progress_mpi(void)
{
	int flag;

	PMPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, tm_job.own, &flag, MPI_STATUS_IGNORE);
}

static int wait_for(struct tutti_request *request)
{
	unsigned alone = tm_job.crowded ? CROWDED : ALONE, step;
	int done = 0, err;

	for (step = 0;; step++) {
		err = tutti_test(&request, &done);
		if (err || done)
			return err;
		if (step < alone || step % EVERY)
			continue;
		progress_mpi();
		sched_yield();
	}
}

static int report(struct tm_comm *c, int code)
{
	PMPI_Comm_call_errhandler(c->comm, code);
	return code;
}

int tm_fail(struct tm_comm *c, int class, const char *why)
{
	fprintf(stderr, "tutti_mpi: rank %d of the communicator: %s\n", c->rank, why);
	tutti_comm_revoke(c->tutti); /* the other ranks would wait for this one */
	return report(c, class);
}

/* alone: no other rank knows, and they would wait for this one. */
static int fail_call(struct tm_comm *c, enum tm_coll coll, int err, bool alone)
{
	struct tutti_error_info info = {.size = sizeof(info)};
	char text[MPI_MAX_ERROR_STRING];

	snprintf(text, sizeof(text), "tutti: %s: %.*s", tm_coll_names[coll], ROOM,
		 tutti_last_error(&info) ? tutti_strerror(err) : info.text);
	PMPI_Add_error_string(tm_job.error, text);
	if (alone)
		tutti_comm_revoke(c->tutti);
	return report(c, tm_job.error);
}

int tm_run(struct tm_comm *c, enum tm_coll coll, struct tutti_call *call)
{
	uint64_t begin = tm_counting ? now_ns() : 0;
	struct tutti_request *request = NULL;
	bool alone;
	int err;

	call->size = sizeof(*call);
	call->flags = TUTTI_CALL_POLL;
	err = tutti_call(c->tutti, call, &request);
	alone = err == -EINVAL || err == -ENOMEM;
	if (!err && request)
		err = wait_for(request);
	if (tm_counting)
		tm_count_taken(coll, now_ns() - begin);
	return err ? fail_call(c, coll, err, alone) : MPI_SUCCESS;
}
