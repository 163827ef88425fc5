/* SPDX-License-Identifier: BSD-3-Clause */
/* Measures how long an algorithm of a collective takes. */
#include <stdlib.h>

#include "lib/base/clock.h"
#include "tools/tune/tune.h"

#define TURNS 7
#define MOST_CALLS 100000

int tune_force(struct job *job, struct tutti_comm *comm, const char *rules, struct tt_tune *tune)
{
	struct tt_tune *before = job->ctx->tune;
	struct tt_agreed agreed = job->agreed;
	int err;

	snprintf(agreed.algo, sizeof(agreed.algo), "%s", rules);
	job->ctx->tune = tune;
	err = tt_comm_choose(comm, &agreed);
	job->ctx->tune = before;
	return err;
}

bool tune_measured(enum tt_coll coll)
{
	return tt_coll_blocks(coll) || coll == TT_COLL_ALLREDUCE || coll == TT_COLL_BCAST ||
	       coll == TT_COLL_REDUCE || coll == TT_COLL_SCAN || coll == TT_COLL_EXSCAN;
}

static int call(const struct job *job, struct tutti_comm *comm, enum tt_coll coll, size_t count)
{
	const enum tutti_datatype type = TUTTI_FLOAT32;

	switch (coll) {
	case TT_COLL_ALLREDUCE:
		return tutti_allreduce(job->in, job->out, count, type, TUTTI_SUM, comm);
	case TT_COLL_BCAST:
		return tutti_bcast(job->out, count, type, 0, comm);
	case TT_COLL_REDUCE:
		return tutti_reduce(job->in, job->out, count, type, TUTTI_SUM, 0, comm);
	case TT_COLL_REDUCE_SCATTER_BLOCK:
		return tutti_reduce_scatter_block(job->in, job->out, count, type, TUTTI_SUM, comm);
	case TT_COLL_ALLGATHER:
		return tutti_allgather(job->in, job->out, count, type, comm);
	case TT_COLL_GATHER:
		return tutti_gather(job->in, job->out, count, type, 0, comm);
	case TT_COLL_SCATTER:
		return tutti_scatter(job->in, job->out, count, type, 0, comm);
	case TT_COLL_ALLTOALL:
		return tutti_alltoall(job->in, job->out, count, type, comm);
	case TT_COLL_SCAN:
		return tutti_scan(job->in, job->out, count, type, TUTTI_SUM, comm);
	case TT_COLL_EXSCAN:
		return tutti_exscan(job->in, job->out, count, type, TUTTI_SUM, comm);
	default:
		return tutti_barrier(comm);
	}
}

/* n calls; ns of one at the slowest rank. */
static int turn(struct job *job, struct tutti_comm *comm, enum tt_coll coll, size_t count, int n,
		double *ns)
{
	int err = tutti_barrier(comm), i;
	uint64_t start = tt_now_ns();

	for (i = 0; i < n && !err; i++)
		err = call(job, comm, coll, count);
	*ns = (double)(tt_now_ns() - start) / n;
	return err ? err : tutti_allreduce(TUTTI_IN_PLACE, ns, 1, TUTTI_FLOAT64, TUTTI_MAX, comm);
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

int tune_time(struct job *job, struct tutti_comm *comm, enum tt_coll coll, size_t bytes,
	      double seconds, double *ns)
{
	double time[TURNS], n;
	size_t count = bytes / ELEM;
	int err, i;

	err = turn(job, comm, coll, count, 1, &time[0]); /* connections, plans */
	if (!err)
		err = turn(job, comm, coll, count, 2, &time[0]);
	n = seconds * 1e9 / TURNS / time[0];
	n = n < 1 ? 1 : n > MOST_CALLS ? MOST_CALLS : n;
	for (i = 0; i < TURNS && !err; i++)
		err = turn(job, comm, coll, count, (int)n, &time[i]);
	if (err)
		return err;
	qsort(time, TURNS, sizeof(time[0]), by_value);
	*ns = time[TURNS / 4]; /* whatever else runs here makes it only longer */
	return 0;
}
