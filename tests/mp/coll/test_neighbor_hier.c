/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Neighbour all-reduces in two levels: values on hosts of any sizes and in any order against an
 * oracle, in every form, type and place; lengths of many slices; refused arguments, calls that
 * differ, deaths.
 */
#include "config.h"

#include "tests/mp/job.h"

#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#define MOST 300001

/* Where the ranks are; hosts are numbered in order of their lowest ranks. */
struct layout {
	int n, hosts;
	int host[8];
};

static const struct layout layouts[] = {
	{6, 3, {0, 0, 1, 1, 2, 2}},	  /* in order */
	{6, 3, {0, 1, 2, 2, 1, 0}},	  /* another rank in front at each place */
	{7, 3, {0, 1, 1, 1, 2, 2, 1}},	  /* 1, 4 and 2 ranks */
	{8, 2, {0, 1, 0, 0, 0, 0, 0, 1}}, /* 6 and 2 */
	{4, 1, {0}},			  /* one host */
	{4, 4, {0, 1, 2, 3}},		  /* one rank on each */
};

/* A small whole number: sums with weights of powers of two are exact, others close. */
static double value(int rank, size_t i, uint64_t step)
{
	return (double)((rank * 31 + (int)(i % 97) * 7 + (int)step * 3) % 61 - 30);
}

/* The mean of a host. */
static double mean(const struct layout *l, int host, size_t i, uint64_t step)
{
	double sum = 0;
	int r, ranks = 0;

	for (r = 0; r < l->n; r++)
		if (l->host[r] == host) {
			sum += value(r, i, step);
			ranks++;
		}
	return sum / ranks;
}

static double expected(const struct layout *l, const struct tutti_graph *g, int rank, size_t i,
		       uint64_t step)
{
	double want = 0;
	int h;

	for (h = 0; h < l->hosts; h++)
		want += tutti_graph_weight(g, step, l->host[rank], h) * mean(l, h, i, step);
	return want;
}

static void put(enum tutti_datatype type, void *buf, size_t i, double v)
{
	if (type == TUTTI_FLOAT64)
		((double *)buf)[i] = v;
	else
		((float *)buf)[i] = (float)v;
}

static double get(enum tutti_datatype type, const void *buf, size_t i)
{
	return type == TUTTI_FLOAT64 ? ((const double *)buf)[i] : (double)((const float *)buf)[i];
}

enum form { BLOCKING, NONBLOCKING, PERSISTENT, FORMS };

static int call(enum form form, const void *in, void *out, size_t count, enum tutti_datatype type,
		const struct tutti_graph *g, uint64_t step, struct mp_job *job)
{
	struct tutti_request *req = NULL;

	if (form == BLOCKING)
		MP_OK(tutti_neighbor_hier_allreduce(in, out, count, type, g, step, job->world));
	if (form == NONBLOCKING)
		MP_OK(tutti_ineighbor_hier_allreduce(in, out, count, type, g, step, job->world,
						     &req));
	if (form == PERSISTENT) {
		MP_OK(tutti_neighbor_hier_allreduce_init(in, out, count, type, g, step, job->world,
							 &req));
		MP_OK(tutti_start(req));
	}
	if (req)
		MP_OK(tutti_wait(&req));
	if (req)
		MP_OK(tutti_request_free(req));
	return 0;
}

static int once(struct mp_job *job, const struct layout *l, const struct tutti_graph *g,
		size_t count, uint64_t step, enum form form)
{
	enum tutti_datatype type = (count + step) % 2 ? TUTTI_FLOAT64 : TUTTI_FLOAT32;
	bool in_place = step % 3 == 1;
	struct mp_buf in, out;
	size_t i;

	MP_OK(mp_buf_new(job, (int)(step % MP_KINDS), count * 8, &in));
	MP_OK(mp_buf_new(job, (int)((step + 1) % MP_KINDS), count * 8, &out));
	memset(out.p, 0x5a, count * 8);
	for (i = 0; i < count; i++)
		put(type, in_place ? out.p : in.p, i, value(job->rank, i, step));
	TT_EXPECT(!call(form, in_place ? TUTTI_IN_PLACE : in.p, out.p, count, type, g, step, job));
	for (i = 0; i < count; i++) {
		double want = expected(l, g, job->rank, i, step);

		TT_EXPECT(fabs(get(type, out.p, i) - want) <
			  (type == TUTTI_FLOAT64 ? 1e-12 : 1e-4));
		TT_EXPECT(in_place || get(type, in.p, i) == value(job->rank, i, step));
	}
	MP_OK(mp_buf_free(&in));
	MP_OK(mp_buf_free(&out));
	return 0;
}

static int values_body(struct mp_job *job)
{
	static const size_t counts[] = {0, 1, 2, 7, 1000, 30001};
	const struct layout *l = job->arg;
	char id[2] = {(char)('a' + l->host[job->rank]), 0};
	struct tutti_graph *g[3];
	int k, i, form;

	setenv("TUTTI_HOST_ID", id, 1);
	MP_OK(mp_join(job, MP_ID, &(struct tutti_config){.size = sizeof(struct tutti_config)}));
	MP_OK(tutti_graph_star(l->hosts, &g[0]));
	MP_OK(tutti_graph_one_peer(l->hosts, &g[1]));
	MP_OK(tutti_graph_edges(l->hosts, &(struct tutti_edge){0, l->hosts - 1, 0.25}, 1,
				TUTTI_WEIGHTS_GIVEN, &g[2])); /* most rows are 0 */
	for (k = 0; k < 3; k++)
		for (i = 0; i < 6; i++)
			for (form = 0; form < FORMS; form++)
				TT_EXPECT(!once(job, l, g[k], counts[i], (uint64_t)(i + form + k),
						form));
	TT_EXPECT(!once(job, l, g[0], MOST, 5, NONBLOCKING));
	for (k = 0; k < 3; k++)
		MP_OK(tutti_graph_free(g[k]));
	return mp_leave(job);
}

static void values(const char *env, int from, int to)
{
	int i;

	for (i = from; i <= to; i++)
		TT_CHECK(!MP_RUN(.n = layouts[i].n, .env = env, .fn = values_body,
				 .arg = (void *)(uintptr_t)&layouts[i], .no_init = true));
}

#define NEEDS_OFI()                                                                                \
	do {                                                                                       \
		if (mp_no_ofi())                                                                   \
			TT_SKIP("%s", mp_no_ofi());                                                \
	} while (0)

static void mixed(void)
{
	NEEDS_OFI();
	values("TUTTI_IF=lo", 0, 5);
}

static void ofi(void)
{
	NEEDS_OFI();
	values("TUTTI_IF=lo TUTTI_TRANSPORT=ofi TUTTI_CHUNK=4096 TUTTI_EAGER=256", 1, 4);
}

static void verbs(void)
{
	if (mp_no_verbs())
		TT_SKIP("%s", mp_no_verbs());
	values("TUTTI_TRANSPORT=shm,verbs", 1, 2);
}

/* A mean that fits where the sum does not. */
static int halves_body(struct mp_job *job)
{
	uint16_t big = 0x7800; /* 32768 as float16; four of them are too much */
	struct tutti_graph *g;

	MP_OK(tutti_graph_ring(1, &g));
	MP_OK(tutti_neighbor_hier_allreduce(TUTTI_IN_PLACE, &big, 1, TUTTI_FLOAT16, g, 0,
					    job->world));
	TT_EXPECT(big == 0x7800);
	MP_OK(tutti_graph_free(g));
	return 0;
}

static void halves(void)
{
	TT_CHECK(!MP_RUN(.n = 4, .fn = halves_body));
}

/* Halves of the vector to the hosts on both sides; without shared memory to the other rank, too. */
static int bytes_body(struct mp_job *job)
{
	enum { COUNT = 120000 };
	const int *halves = job->arg;
	int hosts = job->n / 2;
	struct tutti_stats s = {.size = sizeof(s)};
	uint64_t before;
	struct tutti_graph *g;
	float *x = calloc(COUNT, sizeof(*x));

	TT_EXPECT(x != NULL);
	MP_OK(tutti_graph_ring(hosts, &g));
	MP_OK(tutti_barrier(job->world));
	MP_OK(tutti_stats_get(job->ctx, &s));
	before = s.put_bytes;
	MP_OK(tutti_neighbor_hier_allreduce(TUTTI_IN_PLACE, x, COUNT, TUTTI_FLOAT32, g, 0,
					    job->world));
	MP_OK(tutti_stats_get(job->ctx, &s));
	TT_EXPECT(s.put_bytes - before == (uint64_t)*halves * (COUNT / 2 * sizeof(*x)));
	MP_OK(tutti_graph_free(g));
	free(x);
	return 0;
}

static void bytes(void)
{
	static int across = 2, all = 4;

	NEEDS_OFI();
	TT_CHECK(!MP_RUN(.n = 6, .env = "TUTTI_IF=lo TUTTI_HOST_ID=host%h", .fn = bytes_body,
			 .arg = &across));
	TT_CHECK(!MP_RUN(.n = 6, .env = "TUTTI_IF=lo TUTTI_HOST_ID=host%h TUTTI_TRANSPORT=ofi",
			 .fn = bytes_body, .arg = &all));
}

static int refused_body(struct mp_job *job)
{
	int hosts = job->n / 2;
	struct tutti_graph *g, *small;
	struct tutti_request *req;
	double x[10] = {0};

	MP_OK(tutti_graph_star(hosts, &g));
	MP_OK(tutti_graph_star(hosts + 1, &small));
	MP_ERR(tutti_neighbor_hier_allreduce(TUTTI_IN_PLACE, x, 1, TUTTI_FLOAT64, small, 0,
					     job->world),
	       -EINVAL);
	MP_SAID("the graph has 4 ranks, but the communicator's ranks are on 3 hosts");
	MP_ERR(tutti_neighbor_hier_allreduce(NULL, x, 1, TUTTI_FLOAT64, g, 0, job->world), -EINVAL);
	MP_ERR(tutti_neighbor_hier_allreduce(x, x + 1, 2, TUTTI_FLOAT64, g, 0, job->world),
	       -EINVAL);
	MP_SAID("overlap");
	MP_ERR(tutti_neighbor_hier_allreduce(x, x, 1, TUTTI_INT32, g, 0, job->world), -EINVAL);
	MP_SAID("no weighted sums");
	MP_ERR(tutti_neighbor_hier_allreduce(x, x, 1, TUTTI_FLOAT64, NULL, 0, job->world), -EINVAL);
	MP_ERR(tutti_neighbor_hier_allreduce(x, x, 1, TUTTI_FLOAT64, g, 0, NULL), -EINVAL);
	MP_ERR(tutti_ineighbor_hier_allreduce(x, x, 1, TUTTI_FLOAT64, g, 0, job->world, NULL),
	       -EINVAL);
	MP_ERR(tutti_neighbor_hier_allreduce_init(x, x, 1, TUTTI_FLOAT64, small, 0, job->world,
						  &req),
	       -EINVAL);
	MP_OK(tutti_barrier(job->world));
	/* both counts have parts of the same length, but for the last */
	TT_EXPECT(tutti_neighbor_hier_allreduce(TUTTI_IN_PLACE, x, job->rank ? 10 : 9,
						TUTTI_FLOAT64, g, 0,
						job->world) == -TUTTI_EMISMATCH);
	MP_OK(tutti_graph_free(g));
	MP_OK(tutti_graph_free(small));
	return 0;
}

static void refused(void)
{
	NEEDS_OFI();
	TT_CHECK(!MP_RUN(.n = 6, .env = "TUTTI_IF=lo TUTTI_HOST_ID=host%h", .fn = refused_body));
}

/* Some die: the calls of all ranks end, long before a timeout. */
static int death_body(struct mp_job *job)
{
	const unsigned *dead = job->arg;
	double *x = calloc(MOST, sizeof(*x)), until;
	struct tutti_graph *g;
	int err = 0, i;

	TT_EXPECT(x != NULL);
	MP_OK(tutti_graph_complete(job->n / 2, &g));
	for (i = 0; i < 3; i++)
		MP_OK(tutti_neighbor_hier_allreduce(TUTTI_IN_PLACE, x, MOST, TUTTI_FLOAT64, g, 0,
						    job->world));
	mp_meet(job); /* else the death could end a third call */
	if (*dead >> job->rank & 1)
		kill(getpid(), SIGKILL);
	for (until = mp_now() + 30; !err && mp_now() < until;)
		err = tutti_neighbor_hier_allreduce(TUTTI_IN_PLACE, x, MOST, TUTTI_FLOAT64, g, 0,
						    job->world);
	TT_EXPECT(err == -TUTTI_EPEER);
	TT_EXPECT(mp_now() < until);
	MP_OK(tutti_graph_free(g));
	MP_OK(mp_leave_failed(job));
	free(x);
	return 0;
}

static void deaths(void)
{
	static const unsigned dead[] = {1u << 1, 1u << 0 | 1u << 3, 1u << 4 | 1u << 5};
	size_t i;

	NEEDS_OFI();
	for (i = 0; i < 6; i++)
		TT_CHECK(!MP_RUN(.n = 6,
				 .env = i % 2 ? "TUTTI_IF=lo TUTTI_HOST_ID=host%h TUTTI_TOLERANT=1"
					      : "TUTTI_IF=lo TUTTI_HOST_ID=host%h",
				 .fn = death_body, .arg = (void *)(uintptr_t)&dead[i / 2],
				 .killed = dead[i / 2]));
}

static const struct tt_test tests[] = {{"mixed", mixed},   {"ofi", ofi},     {"verbs", verbs},
				       {"halves", halves}, {"bytes", bytes}, {"refused", refused},
				       {"deaths", deaths}, {NULL, NULL}};

int main(int argc, char **argv)
{
	return tt_test_main("neighbor_hier", tests, argc, argv);
}
