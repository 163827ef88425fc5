/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Elastic averaging: the synchronous form is compared with a serial oracle, over steps in which the
 * models move on their own.
 */
#include "tests/mp/job.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>

#define STEPS 10

/* ---- synchronous ---- */

/* In eighths, so that a few steps with alpha 1/4 or 1/8 are exact in float64. */
static double first_value(int rank, size_t i)
{
	return ((rank + 1) * 29 % 13 + (int)(i % 37)) * 8;
}

static double gradient(int rank, int step, size_t i)
{
	return (rank * 3 + step * 5 + (int)(i % 7)) % 11 * 8;
}

/* x by rank, of one element. */
static void serial_step(double *x, double *center, int n, double alpha)
{
	double sum = 0, old = *center;
	int r;

	for (r = 0; r < n; r++)
		sum += alpha * (x[r] - old);
	for (r = 0; r < n; r++)
		x[r] -= alpha * (x[r] - old);
	*center = old + sum;
}

static double get(const void *x, size_t i, bool wide)
{
	return wide ? ((const double *)x)[i] : (double)((const float *)x)[i];
}

static void add(void *x, size_t i, bool wide, double value)
{
	if (wide)
		((double *)x)[i] += value;
	else
		((float *)x)[i] += (float)value;
}

static bool near(double a, double b, bool wide, bool exact)
{
	return exact ? a == b : fabs(a - b) <= (wide ? 1e-12 : 1e-4) * (1 + fabs(b));
}

/* Compares all elements with the oracle after `steps` steps; all ranks have the same center. */
static int run_steps(struct mp_job *job, size_t count, bool wide, double alpha, bool exact)
{
	enum tutti_datatype type = wide ? TUTTI_FLOAT64 : TUTTI_FLOAT32;
	char *x = calloc(count + 1, 8), *center = calloc(count + 1, 8);
	int step, r, steps = exact ? 4 : STEPS;
	double all[MP_MAX], middle;
	void *work;
	size_t i;

	TT_EXPECT(x && center);
	MP_OK(tutti_alloc(job->ctx, count * 8 + 1, &work));
	for (i = 0; i < count; i++)
		add(x, i, wide, first_value(job->rank, i));
	for (step = 0; step < steps; step++) {
		for (i = 0; i < count; i++)
			add(x, i, wide, -gradient(job->rank, step, i));
		MP_OK(tutti_elastic_average(x, center, work, count, type, alpha, job->world));
	}
	for (i = 0; i < count; i++) {
		for (r = 0, middle = 0; r < job->n; r++)
			all[r] = first_value(r, i);
		for (step = 0; step < steps; step++) {
			for (r = 0; r < job->n; r++)
				all[r] -= gradient(r, step, i);
			serial_step(all, &middle, job->n, alpha);
		}
		TT_EXPECT(near(get(x, i, wide), all[job->rank], wide, exact));
		TT_EXPECT(near(get(center, i, wide), middle, wide, exact));
	}
	memcpy(work, center, count * 8);
	MP_OK(tutti_bcast(work, count * 8, TUTTI_UINT8, 0, job->world));
	TT_EXPECT(!memcmp(work, center, count * 8));
	MP_OK(tutti_free(work));
	free(x);
	free(center);
	return 0;
}

static int synchronous_body(struct mp_job *job)
{
	static const size_t counts[] = {0, 1, 33, 5003};
	size_t i;

	for (i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
		TT_EXPECT(!run_steps(job, counts[i], true, 0.125, true));
		TT_EXPECT(!run_steps(job, counts[i], false, 0.125, true));
		TT_EXPECT(!run_steps(job, counts[i], true, 0.9 / job->n, false));
		TT_EXPECT(!run_steps(job, counts[i], false, 0.9 / job->n, false));
		TT_EXPECT(!run_steps(job, counts[i], true, 0, true));
	}
	return 0;
}

static int refuse_body(struct mp_job *job)
{
	double x = 1, center = 2, work = 3;

	MP_ERR(tutti_elastic_average(&x, &center, &work, 1, TUTTI_FLOAT64, 0.1, NULL), -EINVAL);
	MP_ERR(tutti_elastic_average(NULL, &center, &work, 1, TUTTI_FLOAT64, 0.1, job->world),
	       -EINVAL);
	MP_ERR(tutti_elastic_average(&x, NULL, &work, 1, TUTTI_FLOAT64, 0.1, job->world), -EINVAL);
	MP_ERR(tutti_elastic_average(&x, &center, NULL, 1, TUTTI_FLOAT64, 0.1, job->world),
	       -EINVAL);
	MP_SAID("work is NULL");
	MP_ERR(tutti_elastic_average(&x, &center, &work, 1, TUTTI_INT64, 0.1, job->world), -EINVAL);
	MP_ERR(tutti_elastic_average(&x, &center, &work, 1, TUTTI_FLOAT64, -0.1, job->world),
	       -EINVAL);
	MP_ERR(tutti_elastic_average(&x, &center, &work, 1, TUTTI_FLOAT64, 1.1, job->world),
	       -EINVAL);
	MP_ERR(tutti_elastic_average(&x, &center, &work, 1, TUTTI_FLOAT64, NAN, job->world),
	       -EINVAL);
	MP_OK(tutti_group_start());
	MP_ERR(tutti_elastic_average(&x, &center, &work, 1, TUTTI_FLOAT64, 0.1, job->world),
	       -EINVAL);
	MP_OK(tutti_group_end());
	TT_EXPECT(x == 1 && center == 2);
	return 0;
}

/* ---- cases ---- */

static void synchronous(void)
{
	static const int n[] = {1, 2, 3, 5, 8};
	size_t i;

	for (i = 0; i < sizeof(n) / sizeof(n[0]); i++)
		TT_CHECK(!MP_RUN(.n = n[i], .env = "TUTTI_TRANSPORT=shm", .fn = synchronous_body));
	if (!mp_no_ofi())
		TT_CHECK(!MP_RUN(.n = 3, .env = "TUTTI_TRANSPORT=ofi TUTTI_IF=lo",
				 .fn = synchronous_body));
}

static void refuse(void)
{
	TT_CHECK(!MP_RUN(.n = 2, .env = "TUTTI_TRANSPORT=shm", .fn = refuse_body));
}

int main(int argc, char **argv)
{
	static const struct tt_test tests[] = {
		{"synchronous", synchronous},
		{"refuse", refuse},
		{NULL, NULL},
	};

	return tt_test_main("elastic", tests, argc, argv);
}
