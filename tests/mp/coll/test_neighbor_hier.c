/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Neighbour all-reduces in two levels: values of hosts in any order against an oracle, counts that
 * differ, refused arguments, deaths.
 */
#include "config.h"

#include "tests/mp/job.h"

#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdint.h>
#include <unistd.h>

/* A small whole number: sums with weights of powers of two are exact, others close. */
static double value(int rank, size_t i, uint64_t step)
{
	return (double)((rank * 31 + (int)(i % 97) * 7 + (int)step * 3) % 61 - 30);
}

/* Hosts of two ranks: the oracle averages each, then applies the weights. */
static int hier_body(struct mp_job *job)
{
	static const size_t counts[] = {1, 2, 7, 30001};
	int hosts = job->n / 2, k, h, err;
	struct tutti_neighbor_hier *hier;
	struct tutti_graph *g, *small;
	double *x = calloc(30001, sizeof(*x)), want;
	size_t i;

	TT_EXPECT(x != NULL);
	MP_OK(tutti_neighbor_hier_create(job->world, &hier));
	MP_OK(tutti_graph_star(hosts, &g));
	MP_OK(tutti_graph_star(hosts + 1, &small));
	for (k = 0; k < 4; k++) {
		for (i = 0; i < counts[k]; i++)
			x[i] = value(job->rank, i, 0);
		MP_OK(tutti_neighbor_hier_allreduce(TUTTI_IN_PLACE, x, counts[k], TUTTI_FLOAT64, g,
						    0, hier));
		for (i = 0; i < counts[k]; i++) {
			for (want = 0, h = 0; h < hosts; h++)
				want += tutti_graph_weight(g, 0, job->rank / 2, h) *
					(value(2 * h, i, 0) + value(2 * h + 1, i, 0)) / 2;
			TT_EXPECT(fabs(x[i] - want) < 1e-12);
		}
	}
	MP_ERR(tutti_neighbor_hier_allreduce(TUTTI_IN_PLACE, x, 1, TUTTI_FLOAT64, small, 0, hier),
	       -EINVAL);
	MP_SAID("a graph with a rank for each host");
	MP_ERR(tutti_neighbor_hier_allreduce(NULL, x, 1, TUTTI_FLOAT64, g, 0, hier), -EINVAL);
	MP_ERR(tutti_neighbor_hier_allreduce(x, x, 1, TUTTI_INT32, g, 0, hier), -EINVAL);
	MP_ERR(tutti_neighbor_hier_allreduce(x, x, 1, TUTTI_FLOAT64, g, 0, NULL), -EINVAL);
	/* both counts have parts of the same length, but for the last */
	err = tutti_neighbor_hier_allreduce(TUTTI_IN_PLACE, x, job->rank ? 10 : 9, TUTTI_FLOAT64, g,
					    0, hier);
	TT_EXPECT(err == -TUTTI_EMISMATCH || err == -TUTTI_EREVOKED);
	MP_OK(tutti_graph_free(g));
	MP_OK(tutti_graph_free(small));
	MP_OK(tutti_neighbor_hier_free(hier));
	free(x);
	return 0;
}

/* Hosts a, b, c, c, b, a: each part has another rank of a host in front. */
static int mixed_body(struct mp_job *job)
{
	static const int host_of[] = {0, 1, 2, 2, 1, 0};
	struct tutti_neighbor_hier *hier;
	char id[2] = {(char)('a' + host_of[job->rank]), 0};
	double x[5], want;
	struct tutti_graph *g;
	size_t i;
	int h;

	setenv("TUTTI_HOST_ID", id, 1);
	MP_OK(mp_join(job, MP_ID, &(struct tutti_config){.size = sizeof(struct tutti_config)}));
	MP_OK(tutti_neighbor_hier_create(job->world, &hier));
	MP_OK(tutti_graph_star(3, &g));
	for (i = 0; i < 5; i++)
		x[i] = value(job->rank, i, 0);
	MP_OK(tutti_neighbor_hier_allreduce(TUTTI_IN_PLACE, x, 5, TUTTI_FLOAT64, g, 0, hier));
	for (i = 0; i < 5; i++) {
		for (want = 0, h = 0; h < 3; h++)
			want += tutti_graph_weight(g, 0, host_of[job->rank], h) *
				(value(h, i, 0) + value(5 - h, i, 0)) / 2;
		TT_EXPECT(fabs(x[i] - want) < 1e-12);
	}
	MP_OK(tutti_graph_free(g));
	MP_OK(tutti_neighbor_hier_free(hier));
	return mp_leave(job);
}

/* Rank 1 dies: the calls of all ranks end, long before a timeout. */
static int hier_death_body(struct mp_job *job)
{
	struct tutti_neighbor_hier *hier;
	double x[7] = {0}, until;
	struct tutti_graph *g;
	int err = 0, i;

	MP_OK(tutti_neighbor_hier_create(job->world, &hier));
	MP_OK(tutti_graph_complete(job->n / 2, &g));
	for (i = 0; i < 3; i++)
		MP_OK(tutti_neighbor_hier_allreduce(TUTTI_IN_PLACE, x, 7, TUTTI_FLOAT64, g, 0,
						    hier));
	if (job->rank == 1)
		kill(getpid(), SIGKILL);
	for (until = mp_now() + 30; !err && mp_now() < until;)
		err = tutti_neighbor_hier_allreduce(TUTTI_IN_PLACE, x, 7, TUTTI_FLOAT64, g, 0,
						    hier);
	TT_EXPECT(err == -TUTTI_EPEER || err == -TUTTI_EREVOKED);
	TT_EXPECT(mp_now() < until);
	MP_OK(tutti_graph_free(g));
	MP_OK(tutti_neighbor_hier_free(hier));
	MP_OK(mp_leave_failed(job));
	return 0;
}

/* A host with one rank, and another with two. */
static int uneven_body(struct mp_job *job)
{
	struct tutti_neighbor_hier *hier = NULL;

	MP_ERR(tutti_neighbor_hier_create(job->world, &hier), -EINVAL);
	MP_SAID("hosts have 1 to 2 ranks");
	TT_EXPECT(!hier);
	MP_ERR(tutti_neighbor_hier_create(job->world, NULL), -EINVAL);
	return 0;
}

static void hier(void)
{
	if (mp_no_ofi())
		TT_SKIP("%s", mp_no_ofi());
	TT_CHECK(!MP_RUN(.n = 6, .env = "TUTTI_IF=lo TUTTI_HOST_ID=host%h", .fn = hier_body));
	TT_CHECK(!MP_RUN(.n = 3, .env = "TUTTI_IF=lo TUTTI_HOST_ID=host%h", .fn = uneven_body));
	TT_CHECK(!MP_RUN(.n = 6, .env = "TUTTI_IF=lo", .fn = mixed_body, .no_init = true));
	TT_CHECK(!MP_RUN(.n = 6, .env = "TUTTI_IF=lo TUTTI_HOST_ID=host%h", .fn = hier_death_body,
			 .killed = 1u << 1));
	TT_CHECK(!MP_RUN(.n = 6, .env = "TUTTI_IF=lo TUTTI_HOST_ID=host%h TUTTI_TOLERANT=1",
			 .fn = hier_death_body, .killed = 1u << 1));
}

static const struct tt_test tests[] = {{"hier", hier}, {NULL, NULL}};

int main(int argc, char **argv)
{
	return tt_test_main("neighbor_hier", tests, argc, argv);
}
