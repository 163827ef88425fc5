/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * All-reduces of matrices that travel as factors, beside the plain all-reduce of the matrix and
 * beside their communication alone. All take turns; bytes are those that the library counts.
 */
#include "perf/perf.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MATRIX, U, V, ALL_U, ALL_V, FACTOR_BUFFERS };   /* of allreduce_factors */
enum { GIVEN = MATRIX + 1, SAVED, SUMS, LOW_BUFFERS }; /* of power_sgd */
enum { BUFFERS = (int)FACTOR_BUFFERS > (int)LOW_BUFFERS ? (int)FACTOR_BUFFERS : (int)LOW_BUFFERS };

struct lowrank_job {
	struct perf *perf;
	const struct way *ways;
	struct perf_buffer buf[BUFFERS];
	size_t rows, cols, k; /* k: outer products, or the rank of the approximation */
	struct tutti_power_sgd *state;
	double *times; /* of each way */
};

/* A thing that is timed. whole: with the computing, so there is a result to check. */
struct way {
	const char *name;
	bool whole;
	int (*run)(struct lowrank_job *job, const struct way *way);
	unsigned flags;
};

/* clang-format off */
#define COLUMNS(k_key, k_name) \
	{"rows", "rows", "", 9, 0, PERF_INT}, \
	{"cols", "cols", "", 9, 0, PERF_INT}, \
	{k_key, k_name, "", 9, 0, PERF_INT}, \
	{"way", "way", "", 10, 0, PERF_TEXT}, \
	{"sent_bytes", "sent", "(B)", 13, 0, PERF_INT}, \
	{"fewer_bytes", "fewer", "(bytes)", 8, 2, PERF_FIXED}, \
	{"time_us", "time", "(us)", 11, 0, PERF_USEC}, \
	{"min_us", "min", "(us)", 11, 0, PERF_USEC}, \
	{"gain", "gain", "(time)", 8, 2, PERF_FIXED}, \
	{"wrong", "#wrong", "", 7, 0, PERF_INT}
/* clang-format on */
static const struct perf_column factors_columns[] = {COLUMNS("products", "products")},
				power_sgd_columns[] = {COLUMNS("rank", "rank")};
enum { NCOLUMNS = sizeof(factors_columns) / sizeof(*factors_columns) };

static float *floats(const struct lowrank_job *job, int which)
{
	return (void *)job->buf[which].data;
}

static size_t cells(const struct lowrank_job *job)
{
	return job->rows * job->cols;
}

/* ---- the ways ---- */

static int failed(const struct lowrank_job *job, const char *call, int err)
{
	return err ? perf_call_failed(job->perf, call, err) : 0;
}

static int average(const struct lowrank_job *job, float *v, size_t count)
{
	return failed(job, "allreduce",
		      tutti_allreduce(TUTTI_IN_PLACE, v, count, TUTTI_FLOAT32, TUTTI_AVG,
				      job->perf->world));
}

static int run_plain(struct lowrank_job *job, const struct way *way)
{
	(void)way;
	return average(job, floats(job, MATRIX), cells(job));
}

static int run_factors(struct lowrank_job *job, const struct way *way)
{
	return failed(job, "allreduce_factors",
		      tutti_allreduce_factors(floats(job, U), floats(job, V), floats(job, MATRIX),
					      job->rows, job->cols, job->k, TUTTI_AVG, way->flags,
					      job->perf->world));
}

static int run_gather(struct lowrank_job *job, const struct way *way)
{
	struct tutti_comm *world = job->perf->world;
	struct tutti_request *req[2];
	int err;

	(void)way;
	err = tutti_iallgather(floats(job, U), floats(job, ALL_U), job->k * job->rows,
			       TUTTI_FLOAT32, world, &req[0]);
	if (err)
		return failed(job, "iallgather", err);
	err = tutti_iallgather(floats(job, V), floats(job, ALL_V), job->k * job->cols,
			       TUTTI_FLOAT32, world, &req[1]);
	if (!err)
		err = tutti_wait(&req[1]);
	if (tutti_wait(&req[0]) && !err)
		err = -TUTTI_EPEER;
	return failed(job, "iallgather", err);
}

/* As tutti_power_sgd_create documents it. */
static bool approximated(const struct lowrank_job *job)
{
	return job->k * (job->rows + job->cols) < cells(job);
}

static int run_sums(struct lowrank_job *job, const struct way *way)
{
	bool low = approximated(job);
	int err = average(job, floats(job, SUMS), low ? job->k * job->rows : cells(job));

	(void)way;
	return err || !low ? err : average(job, floats(job, SUMS), job->k * job->cols);
}

static int run_power_sgd(struct lowrank_job *job, const struct way *way)
{
	float *const matrix[] = {floats(job, MATRIX)};

	(void)way;
	return failed(job, "power_sgd_allreduce",
		      tutti_power_sgd_allreduce(job->state, matrix, TUTTI_AVG, job->perf->world));
}

/* clang-format off */
static const struct way factors_ways[] = {
	{"plain", false, run_plain, 0},
	{"gather", false, run_gather, 0},
	{"dense", true, run_factors, TUTTI_FACTORS_DENSE},
	{"factors", true, run_factors, TUTTI_FACTORS_GATHER},
	{"chosen", true, run_factors, 0},
	{NULL, false, NULL, 0},
};
static const struct way power_sgd_ways[] = {
	{"plain", false, run_plain, 0},
	{"sums", false, run_sums, 0},
	{"power_sgd", true, run_power_sgd, 0},
	{NULL, false, NULL, 0},
};
/* clang-format on */

/* ---- times and bytes ---- */

static int sample(struct lowrank_job *job, const struct way *way, double *usec)
{
	int err = failed(job, "barrier", tutti_barrier(job->perf->world));
	uint64_t start = perf_now_ns();

	if (!err)
		err = way->run(job, way);
	*usec = (double)(perf_now_ns() - start) / 1e3;
	return err;
}

static int measure(struct lowrank_job *job)
{
	const struct perf_options *opt = &job->perf->opt;
	const struct way *way;
	int i, err = 0;
	double usec;

	for (i = -opt->warmup; i < opt->iters; i++)
		for (way = job->ways; way->name && !err; way++) {
			perf_progress(job->perf, i < 0 ? "warming up" : "measuring");
			err = sample(job, way, &usec);
			if (i >= 0)
				job->times[(way - job->ways) * opt->iters + i] = usec;
		}
	if (err)
		return err;
	for (i = 0; job->ways[i].name; i++)
		;
	return failed(job, "allreduce",
		      tutti_allreduce(TUTTI_IN_PLACE, job->times, (size_t)(i * opt->iters),
				      TUTTI_FLOAT64, TUTTI_MAX, job->perf->world));
}

/* Bytes that this rank has put, once their number has not changed for a while. */
static int settled(const struct lowrank_job *job, double *bytes)
{
	struct tutti_stats stats = {.size = sizeof(stats)};
	int same = 0, looks, err;

	*bytes = -1;
	for (looks = 0; looks < 2000 && same < 20; looks++) {
		err = tutti_stats_get(job->perf->ctx, &stats);
		if (err)
			return failed(job, "stats_get", err);
		same = (double)stats.put_bytes == *bytes ? same + 1 : 0;
		*bytes = (double)stats.put_bytes;
		nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
	}
	return 0;
}

/* Of one call, by the rank that sends most. */
static int count_sent(struct lowrank_job *job, const struct way *way, double *sent)
{
	double before;
	int err = failed(job, "barrier", tutti_barrier(job->perf->world));

	if (!err)
		err = settled(job, &before);
	if (!err)
		err = way->run(job, way);
	if (!err)
		err = settled(job, sent);
	if (err)
		return err;
	*sent -= before;
	return perf_agree(job->perf, sent, TUTTI_MAX);
}

/* ---- checks ---- */

static double sign_of(size_t j)
{
	return (uint32_t)j * 2654435761u >> 31 ? -1 : 1;
}

/*
 * Rows of the result whose product with a vector of signs is not what the factors of all ranks, as
 * gathered before, say (Freivalds' test).
 */
static int wrong_rows(const struct lowrank_job *job, double *wrong)
{
	const float *u = floats(job, ALL_U), *v = floats(job, ALL_V), *m = floats(job, MATRIX);
	size_t n = job->k * (size_t)job->perf->nranks, i, j, l;
	double *sum = calloc(n + 1, 2 * sizeof(*sum)), *size = sum + n, got, want, most;

	if (!sum)
		return failed(job, "making room for sums", -ENOMEM);
	for (l = 0; l < n; l++)
		for (j = 0; j < job->cols; j++) {
			sum[l] += sign_of(j) * (double)v[l * job->cols + j];
			size[l] += fabs((double)v[l * job->cols + j]);
		}
	for (i = 0; i < job->rows; i++) {
		got = want = most = 0;
		for (j = 0; j < job->cols; j++)
			got += sign_of(j) * (double)m[i * job->cols + j];
		for (l = 0; l < n; l++) {
			want += (double)u[l * job->rows + i] * sum[l];
			most += fabs((double)u[l * job->rows + i]) * size[l];
		}
		*wrong += !(fabs(got * job->perf->nranks - want) <= 1e-6 * most);
	}
	free(sum);
	return 0;
}

static int check_factors(struct lowrank_job *job, const struct way *way, double *wrong)
{
	int err = run_gather(job, NULL);

	memset(floats(job, MATRIX), 0xff, cells(job) * sizeof(float));
	if (!err)
		err = way->run(job, way);
	return err ? err : wrong_rows(job, wrong);
}

/* Elements that differ between ranks. */
static int count_different(struct lowrank_job *job, double *wrong)
{
	const float *own = floats(job, MATRIX);
	float *most = floats(job, GIVEN);
	size_t i;
	int err =
		tutti_allreduce(own, most, cells(job), TUTTI_FLOAT32, TUTTI_MAX, job->perf->world);

	for (i = 0; i < cells(job) && !err; i++)
		*wrong += own[i] != most[i];
	return failed(job, "allreduce", err);
}

/* With residuals from 0, the new ones are what the result lacks. */
static int check_power_sgd(struct lowrank_job *job, const struct way *way, double *wrong)
{
	float *m = floats(job, MATRIX), *g = floats(job, GIVEN), *e = floats(job, SAVED);
	size_t len = tutti_power_sgd_elements(job->state), i;
	int err = tutti_power_sgd_restore(job->state, NULL, 0, job->perf->world);

	if (err)
		return failed(job, "power_sgd_restore", err);
	perf_fill_random(g, cells(job), job->perf->rank);
	memcpy(m, g, cells(job) * sizeof(*m));
	err = way->run(job, way);
	if (err)
		return err;
	err = tutti_power_sgd_save(job->state, e, len);
	for (i = 0; i < cells(job) && len && !err; i++)
		*wrong += e[i] != g[i] - m[i];
	return err ? failed(job, "power_sgd_save", err) : count_different(job, wrong);
}

/* ---- rows ---- */

static int one_row(struct lowrank_job *job, const struct way *way, double plain[2])
{
	const struct perf_options *opt = &job->perf->opt;
	bool check = opt->check && way->whole;
	double sent, wrong = 0;
	struct perf_summary sum;
	int err = count_sent(job, way, &sent);

	if (!err && check)
		err = job->state ? check_power_sgd(job, way, &wrong)
				 : check_factors(job, way, &wrong);
	if (!err && check)
		err = perf_agree_found(job->perf, &wrong, 0);
	if (err || job->perf->rank)
		return err;
	perf_summarize(job->times + (way - job->ways) * opt->iters, (size_t)opt->iters, &sum);
	if (way == job->ways)
		plain[0] = sent, plain[1] = sum.median;
	return perf_table_row(
		&job->perf->table,
		(struct perf_cell[NCOLUMNS]){{.number = (int64_t)job->rows},
					     {.number = (int64_t)job->cols},
					     {.number = (int64_t)job->k},
					     {.text = way->name},
					     {.number = (int64_t)sent},
					     {.real = plain[0] / sent, .absent = sent <= 0},
					     {.real = sum.median},
					     {.real = sum.min},
					     {.real = plain[1] / sum.median},
					     {.number = (int64_t)wrong, .absent = !check}});
}

static int all_rows(struct lowrank_job *job, const struct perf_column *columns)
{
	struct perf *perf = job->perf;
	const struct way *way;
	double plain[2];
	int n = 0, err;

	for (way = job->ways; way->name; way++)
		n++;
	job->times = calloc((size_t)(n * perf->opt.iters), sizeof(*job->times));
	if (!job->times)
		return failed(job, "making room for times", -ENOMEM);
	perf_table_begin(&perf->table, columns, NCOLUMNS);
	if (!perf->rank)
		perf_table_heading(&perf->table);
	perf_fill_random(floats(job, MATRIX), cells(job), perf->rank);
	err = measure(job);
	for (way = job->ways; way->name && !err; way++)
		err = one_row(job, way, plain);
	free(job->times);
	return err;
}

/* Of so many floats each. */
static int get_buffers(struct lowrank_job *job, const size_t *counts, int n)
{
	int i, err = 0;

	for (i = 0; i < n && !err; i++)
		err = perf_buffers_get(job->perf, &job->buf[i], 1, counts[i] * sizeof(float));
	if (err)
		perf_buffers_put(job->buf, n);
	return err;
}

int perf_run_factors(struct perf *perf)
{
	const struct perf_options *opt = &perf->opt;
	struct lowrank_job job = {.perf = perf,
				  .ways = factors_ways,
				  .rows = (size_t)opt->rows,
				  .cols = (size_t)opt->cols,
				  .k = (size_t)opt->products};
	size_t n = (size_t)perf->nranks, u = job.k * job.rows, v = job.k * job.cols;
	const size_t counts[FACTOR_BUFFERS] = {
		[MATRIX] = cells(&job), [U] = u, [V] = v, [ALL_U] = n * u, [ALL_V] = n * v};
	int err = get_buffers(&job, counts, FACTOR_BUFFERS);

	if (err)
		return err;
	perf_fill_random(floats(&job, U), u, perf->rank);
	perf_fill_random(floats(&job, V), v, perf->rank + perf->nranks);
	err = all_rows(&job, factors_columns);
	perf_buffers_put(job.buf, FACTOR_BUFFERS);
	return err;
}

int perf_run_power_sgd(struct perf *perf)
{
	const struct perf_options *opt = &perf->opt;
	struct lowrank_job job = {.perf = perf,
				  .ways = power_sgd_ways,
				  .rows = (size_t)opt->rows,
				  .cols = (size_t)opt->cols,
				  .k = (size_t)opt->rank};
	const struct tutti_power_sgd_config config = {.size = sizeof(config),
						      .n = 1,
						      .rows = &job.rows,
						      .cols = &job.cols,
						      .rank = opt->rank,
						      .seed = 1};
	size_t most = cells(&job) + job.k * (job.rows + job.cols);
	const size_t counts[LOW_BUFFERS] = {
		[MATRIX] = cells(&job), [GIVEN] = cells(&job), [SAVED] = most, [SUMS] = most};
	int err = get_buffers(&job, counts, LOW_BUFFERS);

	if (err)
		return err;
	memset(floats(&job, SUMS), 0, most * sizeof(float));
	err = failed(&job, "power_sgd_create",
		     tutti_power_sgd_create(perf->world, &config, &job.state));
	if (!err)
		err = all_rows(&job, power_sgd_columns);
	tutti_power_sgd_free(job.state);
	perf_buffers_put(job.buf, LOW_BUFFERS);
	return err;
}
