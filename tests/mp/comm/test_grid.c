/* SPDX-License-Identifier: BSD-3-Clause */
/* Process grids: coordinates, communicators, the order on hosts, wrong arguments, a death. */
#include "config.h"

#include "tests/mp/job.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

struct shape {
	int n, ndims, dims[4];
};

static const char *const names[] = {"data", "pipeline", "tensor", "expert"};

/* The sum of the ranks of all that share this rank's coordinates outside of axes. */
static int check_set(struct mp_job *job, struct tutti_grid *grid, const struct shape *s,
		     unsigned axes)
{
	int mine[4], at[4], r, i, n = 0, place = 0;
	int32_t sum = 0, got;
	struct tutti_comm *comm, *again;

	MP_OK(tutti_grid_coords(grid, TUTTI_UNDEFINED, mine));
	MP_OK(tutti_grid_comm(grid, axes, &comm));
	MP_OK(tutti_grid_comm(grid, axes, &again));
	TT_EXPECT(comm == again);
	MP_ERR(tutti_comm_free(comm), -EINVAL);
	MP_SAID("tutti_grid_free frees it");
	for (r = 0; r < s->n; r++) {
		MP_OK(tutti_grid_coords(grid, r, at));
		TT_EXPECT(tutti_grid_rank(grid, at) == r);
		for (i = 0; i < s->ndims && (at[i] == mine[i] || axes & TUTTI_AXIS(i)); i++)
			;
		if (i < s->ndims)
			continue;
		if (r == tutti_grid_rank(grid, mine))
			place = n;
		sum += r + 1;
		n++;
	}
	TT_EXPECT(tutti_comm_size(comm) == n && tutti_comm_rank(comm) == place);
	got = tutti_grid_rank(grid, mine) + 1;
	MP_OK(tutti_allreduce(TUTTI_IN_PLACE, &got, 1, TUTTI_INT32, TUTTI_SUM, comm));
	TT_EXPECT(got == sum);
	return 0;
}

static int sets_body(struct mp_job *job)
{
	const struct shape *s = job->arg;
	struct tutti_grid *grid;
	char name[TUTTI_COMM_NAME_MAX + 1];
	struct tutti_comm *comm;
	unsigned axes;
	int i, product = 1;

	MP_OK(tutti_grid_create(job->world, s->ndims, s->dims, names, &grid));
	for (i = 0; i < s->ndims; i++) {
		TT_EXPECT(tutti_grid_axis(grid, names[i]) == i);
		TT_EXPECT(!s->dims[i] || tutti_grid_size(grid, i) == s->dims[i]);
		product *= tutti_grid_size(grid, i);
	}
	TT_EXPECT(product == s->n);
	for (axes = 0; axes < 1u << s->ndims; axes++)
		TT_EXPECT(!check_set(job, grid, s, axes));
	if (s->ndims > 2) {
		MP_OK(tutti_grid_comm(grid, TUTTI_AXIS(0) | TUTTI_AXIS(2), &comm));
		MP_OK(tutti_comm_get_name(comm, name, sizeof(name)));
		TT_EXPECT(!strcmp(name, "data x tensor"));
	}
	/* one host: the order stays */
	MP_OK(tutti_grid_comm(grid, (1u << s->ndims) - 1, &comm));
	TT_EXPECT(tutti_comm_rank(comm) == job->rank);
	MP_OK(tutti_grid_free(grid));
	return 0;
}

static void sets(void)
{
	static const struct shape shapes[] = {
		{1, 1, {0}},	   {1, 3, {1, 1, 1}}, {3, 1, {3}},	    {6, 2, {0, 3}},
		{8, 3, {2, 2, 2}}, {7, 3, {7, 1, 0}}, {6, 4, {1, 0, 1, 3}}, {5, 2, {1, 5}},
	};
	unsigned i;

	for (i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++)
		TT_CHECK(!MP_RUN(.n = shapes[i].n, .fn = sets_body, .arg = (void *)&shapes[i]));
	if (!mp_no_ofi())
		TT_CHECK(!MP_RUN(.n = 8, .fn = sets_body, .arg = (void *)&shapes[4],
				 .env = "TUTTI_TRANSPORT=ofi"));
}

/* host of each rank, a letter; the length of a row; and the rank expected at each place */
struct hosts {
	const char *of;
	int row, order[9];
};

static int hosts_body(struct mp_job *job)
{
	const struct hosts *h = job->arg;
	const int dims[] = {0, h->row};
	struct tutti_grid *grid;
	struct tutti_comm *all;
	char id[2] = {h->of[job->rank], 0};
	int r;

	setenv("TUTTI_HOST_ID", id, 1);
	MP_OK(mp_join(job, MP_ID, &(struct tutti_config){.size = sizeof(struct tutti_config)}));
	MP_OK(tutti_grid_create(job->world, 2, dims, NULL, &grid));
	TT_EXPECT(tutti_grid_axis(grid, "axis 1") == 1);
	MP_OK(tutti_grid_comm(grid, TUTTI_AXIS(0) | TUTTI_AXIS(1), &all));
	for (r = 0; r < job->n; r++)
		TT_EXPECT(tutti_comm_world_rank(all, r) == h->order[r]);
	MP_OK(tutti_grid_free(grid));
	return mp_leave(job);
}

static void hosts(void)
{
	static const struct hosts cases[] = {
		{"abababab", 2, {0, 2, 4, 6, 1, 3, 5, 7}},
		{"abababab", 4, {0, 2, 4, 6, 1, 3, 5, 7}},
		{"abababab", 1, {0, 1, 2, 3, 4, 5, 6, 7}},
		{"aabbaabb", 2, {0, 1, 2, 3, 4, 5, 6, 7}}, /* fits as it is */
		{"aabbaabb", 4, {0, 1, 4, 5, 2, 3, 6, 7}},
		{"aaabbb", 2, {0, 1, 2, 3, 4, 5}}, /* one row has to span the hosts */
		{"ababab", 2, {0, 2, 1, 3, 4, 5}}, /* here, too */
		{"aabb", 4, {0, 1, 2, 3}},	   /* no host has enough */
		{"abcabc", 3, {0, 1, 2, 3, 4, 5}},
		{"abcabcabc", 3, {0, 3, 6, 1, 4, 7, 2, 5, 8}},
		{"abbbbba", 7, {0, 1, 2, 3, 4, 5, 6}},
	};
	unsigned i;

	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		TT_CHECK(!MP_RUN(.n = (int)strlen(cases[i].of), .fn = hosts_body,
				 .arg = (void *)&cases[i], .no_init = true));
}

static int wrong_body(struct mp_job *job)
{
	static const char *const twice[] = {"data", "data"}, *const bad[] = {"data", "a\tb"},
				 *const empty[] = {"", "x"}, *const none[] = {"x", NULL};
	struct tutti_grid *const untouched = (struct tutti_grid *)job, *grid = untouched;
	struct tutti_comm *comm = NULL;
	int at[2] = {5, 5}, d[9] = {1, 1, 1, 1, 1, 1, 1, 1, 1};

#define WRONG(ndims, names, says, ...)                                                             \
	do {                                                                                       \
		int dims_of[] = {__VA_ARGS__};                                                     \
                                                                                                   \
		MP_ERR(tutti_grid_create(job->world, ndims, dims_of, names, &grid), -EINVAL);      \
		MP_SAID(says);                                                                     \
		TT_EXPECT(grid == untouched);                                                      \
	} while (0)
	WRONG(3, names, "data 2 x pipeline 3 x tensor 1 is 6 ranks, but the communicator has 4", 2,
	      3, 1);
	WRONG(2, names, "is at least 1000000000000 ranks", 1000000, 1000000);
	WRONG(2, names, "4 ranks are no multiple of 3", 0, 3);
	WRONG(2, names, "4 ranks are no multiple of 8", 8, 0);
	WRONG(2, names, "one may be 0", 0, 0);
	WRONG(2, names, "data -1 x pipeline 4", -1, 4);
	WRONG(2, twice, "axes 0 and 1 have the same name, data", 2, 2);
	WRONG(2, bad, "the name of axis 1", 2, 2);
	WRONG(2, empty, "the name of axis 0", 2, 2);
	WRONG(2, none, "the name of axis 1", 2, 2);
	WRONG(0, names, "ndims is 0; it must be 1 to 8", 4);
	MP_ERR(tutti_grid_create(job->world, 9, d, NULL, &grid), -EINVAL);
	MP_ERR(tutti_grid_create(NULL, 1, d, NULL, &grid), -EINVAL);
	MP_ERR(tutti_grid_create(job->world, 1, NULL, NULL, &grid), -EINVAL);
	MP_ERR(tutti_grid_create(job->world, 1, d, NULL, NULL), -EINVAL);
	/* ranks that differ: an error on all of them */
	d[0] = job->rank == 2 ? 4 : 2;
	d[1] = job->rank == 2 ? 1 : 2;
	MP_ERR(tutti_grid_create(job->world, 2, d, names, &grid), -TUTTI_EMISMATCH);
	MP_SAID("rank 2 passed other dims or names than rank 0");
	TT_EXPECT(grid == untouched);

	d[0] = d[1] = 2;
	MP_OK(tutti_grid_create(job->world, 2, d, names, &grid));
	MP_ERR(tutti_grid_axis(grid, "tensor"), -ENOENT);
	MP_ERR(tutti_grid_axis(grid, NULL), -EINVAL);
	MP_ERR(tutti_grid_size(grid, 2), -EINVAL);
	MP_ERR(tutti_grid_size(grid, -1), -EINVAL);
	MP_ERR(tutti_grid_size(NULL, 0), -EINVAL);
	MP_ERR(tutti_grid_comm(grid, 4, &comm), -EINVAL);
	MP_ERR(tutti_grid_comm(grid, 1, NULL), -EINVAL);
	MP_ERR(tutti_grid_coords(grid, 4, at), -EINVAL);
	MP_ERR(tutti_grid_coords(grid, -2, at), -EINVAL);
	MP_ERR(tutti_grid_coords(grid, 0, NULL), -EINVAL);
	MP_ERR(tutti_grid_rank(grid, at), -EINVAL);
	MP_SAID("coordinate 5 of axis data is not 0 to 1");
	TT_EXPECT(!comm && at[0] == 5);
	MP_ERR(tutti_grid_rank(grid, NULL), -EINVAL);
	MP_OK(tutti_group_start());
	MP_ERR(tutti_grid_comm(grid, 1, &comm), -EINVAL);
	MP_OK(tutti_group_end());
	MP_OK(tutti_grid_free(grid));
	MP_OK(tutti_grid_free(NULL));
	return 0;
}

static void wrong(void)
{
	TT_CHECK(!MP_RUN(.n = 4, .fn = wrong_body));
}

/* The communicator without the dead rank works on. */
static int death_body(struct mp_job *job)
{
	const int dims[] = {2, 2};
	struct tutti_grid *grid;
	struct tutti_comm *row, *all;
	int32_t v = 1;

	MP_OK(tutti_grid_create(job->world, 2, dims, names, &grid));
	MP_OK(tutti_grid_comm(grid, TUTTI_AXIS(1), &row));
	MP_OK(tutti_grid_comm(grid, 3, &all));
	mp_meet(job);
	if (job->rank == 3)
		raise(SIGKILL);
	MP_ERR(tutti_allreduce(TUTTI_IN_PLACE, &v, 1, TUTTI_INT32, TUTTI_SUM, all), -TUTTI_EPEER);
	v = 1;
	if (job->rank < 2) {
		MP_OK(tutti_allreduce(TUTTI_IN_PLACE, &v, 1, TUTTI_INT32, TUTTI_SUM, row));
		TT_EXPECT(v == 2);
	}
	MP_OK(tutti_grid_free(grid));
	return mp_leave_failed(job);
}

static void death(void)
{
	TT_CHECK(!MP_RUN(.n = 4, .fn = death_body, .killed = 1u << 3));
}

int main(int argc, char **argv)
{
	static const struct tt_test tests[] = {
		{"sets", sets}, {"hosts", hosts}, {"wrong", wrong}, {"death", death}, {NULL, NULL},
	};

	return tt_test_main("grid", tests, argc, argv);
}
