/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Elastic averaging: the synchronous form is compared with a serial oracle, over steps in which the
 * models move on their own. On the parameter server every exchange is compared with the formula,
 * sums are kept bit for bit, and many workers at once lose no value.
 */
#include "tests/mp/job.h"

#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

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
	MP_ERR(tutti_elastic_average(&x, &x, &work, 1, TUTTI_FLOAT64, 0.1, job->world), -EINVAL);
	MP_SAID("overlap");
	MP_ERR(tutti_elastic_average(&x, &center, &work, SIZE_MAX / 4, TUTTI_FLOAT64, 0.1,
				     job->world),
	       -EINVAL);
	MP_SAID("does not fit in memory");
	MP_ERR(tutti_elastic_average(&x, NULL, &work, 1, TUTTI_FLOAT64, 0.1, job->world), -EINVAL);
	MP_ERR(tutti_elastic_average(&x, &center, NULL, 1, TUTTI_FLOAT64, 0.1, job->world),
	       -EINVAL);
	MP_SAID("work is NULL");
	MP_ERR(tutti_elastic_average(&x, &center, &work, 1, TUTTI_INT64, 0.1, job->world), -EINVAL);
	MP_ERR(tutti_elastic_average(&x, &center, (void *)(uintptr_t)TUTTI_IN_PLACE, 1,
				     TUTTI_FLOAT64, 0.1, job->world),
	       -EINVAL);
	MP_SAID("a vector is TUTTI_IN_PLACE");
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

/* ---- on the parameter server ---- */

#define BLOCK 512 /* bytes: tables of several blocks */

static int make_table(struct tutti_ps *ps, size_t count, enum tutti_datatype type,
		      struct tutti_ps_table **table)
{
	struct tutti_ps_options options = {
		.size = sizeof(options), .init = TUTTI_PS_ZERO, .block = BLOCK};

	return tutti_ps_dense(ps, "center", count, type, &options, table);
}

static double element(enum tutti_datatype type, const void *p, size_t i)
{
	switch (type) {
	case TUTTI_INT32:
		return ((const int32_t *)p)[i];
	case TUTTI_INT64:
		return (double)((const int64_t *)p)[i];
	case TUTTI_FLOAT32:
		return (double)((const float *)p)[i];
	default:
		return ((const double *)p)[i];
	}
}

static void set(enum tutti_datatype type, void *p, size_t i, double value)
{
	switch (type) {
	case TUTTI_INT32:
		((int32_t *)p)[i] = (int32_t)value;
		break;
	case TUTTI_INT64:
		((int64_t *)p)[i] = (int64_t)value;
		break;
	case TUTTI_FLOAT32:
		((float *)p)[i] = (float)value;
		break;
	default:
		((double *)p)[i] = value;
	}
}

/* One exchange of one worker after the other: values and model are known, elements outside stay. */
static int exchanges(struct mp_job *job, struct tutti_ps_table *t, enum tutti_datatype type,
		     size_t total)
{
	double *center = calloc(total, sizeof(*center)), *model = calloc(total, sizeof(*model)), d;
	void *x = calloc(total, 8), *seen = calloc(total, 8);
	bool whole = type == TUTTI_INT32 || type == TUTTI_INT64;
	size_t offset, count, i;
	int k;

	TT_EXPECT(center && model && x && seen);
	for (i = 0; i < total; i++)
		set(type, x, i, model[i] = (double)((int)(i * 37 % 201) - 100) * 64);
	for (k = 0; k < 5; k++) {
		offset = (size_t)k * 61 % total;
		count = k == 4 ? 0 : total - offset - (size_t)k * 3;
		MP_OK(tutti_ps_elastic(t, (char *)x + offset * tutti_datatype_size(type), offset,
				       count, type, 0.375));
		for (i = offset; i < offset + count; i++) {
			d = 0.375 * (model[i] - center[i]);
			d = whole ? trunc(d) : d;
			model[i] -= d;
			center[i] += d;
		}
		MP_OK(tutti_ps_pull(t, seen, 0, total, type));
		for (i = 0; i < total; i++)
			TT_EXPECT(element(type, x, i) == model[i] &&
				  element(type, seen, i) == center[i]);
	}
	free(center);
	free(model);
	free(x);
	free(seen);
	return 0;
}

/* Differences that a double cannot hold, and sums that pass the ends of the type. */
static int extremes(struct mp_job *job, struct tutti_ps *ps)
{
	int64_t x[] = {INT64_MAX, INT64_MIN, INT64_MAX, -1}, seen[4], before[4];
	struct tutti_ps_options options = {.size = sizeof(options)};
	int64_t first[] = {INT64_MIN, INT64_MAX, INT64_MAX, 0};
	struct tutti_ps_table *t;
	size_t i;

	MP_OK(tutti_ps_dense(ps, "extremes", 4, TUTTI_INT64, &options, &t));
	if (job->rank == 0)
		return 0;
	MP_OK(tutti_ps_set(t, first, 4, TUTTI_INT64));
	memcpy(before, x, sizeof(x));
	MP_OK(tutti_ps_elastic(t, x, 0, 4, TUTTI_INT64, 0.5));
	MP_OK(tutti_ps_pull(t, seen, 0, 4, TUTTI_INT64));
	for (i = 0; i < 4; i++)
		TT_EXPECT((uint64_t)x[i] + (uint64_t)seen[i] ==
			  (uint64_t)before[i] + (uint64_t)first[i]);
	TT_EXPECT(x[0] > -2048 && x[0] < 2048 && x[1] > -2048 && x[1] < 2048);
	TT_EXPECT(x[2] == INT64_MAX && x[3] == -1);
	return 0;
}

static int formula_body(struct mp_job *job)
{
	static const enum tutti_datatype types[] = {TUTTI_INT32, TUTTI_INT64, TUTTI_FLOAT32,
						    TUTTI_FLOAT64};
	struct tutti_ps_table *t;
	struct tutti_ps *ps;
	int k;

	for (k = 0; k < 4; k++) {
		MP_OK(mp_ps_open(job, 1, k % 2 ? 3 : TUTTI_PS_ASYNC, &ps));
		MP_OK(make_table(ps, 1000, types[k], &t));
		if (job->rank)
			TT_EXPECT(!exchanges(job, t, types[k], 1000));
		TT_EXPECT(!extremes(job, ps));
		MP_OK(tutti_ps_close(ps));
	}
	return 0;
}

/* How workers exchange all at once. kill: server 0 dies meanwhile. */
struct crowd {
	int servers, staleness, copies, times;
	bool kill;
};

static int open_crowd(struct mp_job *job, const struct crowd *c, struct tutti_ps **ps)
{
	struct tutti_ps_config config = {.size = sizeof(config),
					 .staleness = c->staleness,
					 .copies = c->copies,
					 .role = TUTTI_PS_BOTH};

	if (c->servers)
		config.role = job->rank < c->servers ? TUTTI_PS_SERVER : TUTTI_PS_WORKER;
	return tutti_ps_open(job->world, &config, ps);
}

#define TOKENS 200 /* elements: four blocks */

/*
 * With alpha 1 an exchange swaps model and center. Every worker has a token of its own in each
 * element, and all of them are there in the end only if each exchange used the very values to which
 * it added. Tokens are counted in the words that the ranks share.
 */
static int tokens_body(struct mp_job *job)
{
	const struct crowd *c = job->arg;
	struct tutti_ps_table *t;
	atomic_int *word = job->shared->word;
	struct tutti_ps *ps;
	int64_t x[TOKENS], center[TOKENS] = {0};
	int i, k, workers = job->n - c->servers, me = job->rank - c->servers;

	MP_OK(open_crowd(job, c, &ps));
	MP_OK(make_table(ps, TOKENS, TUTTI_INT64, &t));
	for (i = 0; i < TOKENS; i++)
		x[i] = me + 1;
	mp_meet(job);
	for (k = 0; k < c->times && me >= 0; k++) {
		if (c->kill && me == 0 && k == c->times / 2)
			kill(atomic_load(&job->shared->pid[0]), SIGKILL);
		MP_OK(tutti_ps_elastic(t, x, 0, TOKENS, TUTTI_INT64, 1));
		if (c->staleness > 0)
			MP_OK(tutti_ps_clock(ps));
	}
	atomic_fetch_add(&word[1], me >= 0);
	if (me >= 0) {
		TT_EXPECT(mp_await(&word[1], workers, 30000));
		if (me == 0) /* a pull may read old values */
			MP_OK(tutti_ps_elastic(t, center, 0, TOKENS, TUTTI_INT64, 1));
		for (i = 0; i < TOKENS && me == 0; i += 50)
			atomic_fetch_or(&word[2 + i / 50], 1 << center[i]);
		for (i = 0; i < TOKENS; i += 50)
			atomic_fetch_or(&word[2 + i / 50], 1 << x[i]);
		atomic_fetch_add(&word[7], 1);
		TT_EXPECT(mp_await(&word[7], workers, 30000));
		for (i = 0; i < 4; i++)
			TT_EXPECT(word[2 + i] == (1 << (workers + 1)) - 1);
	}
	i = tutti_ps_close(ps);
	return c->kill ? mp_leave_failed(job) : i;
}

/* Models also move on their own: what they and the center hold together is known. */
static int sums_body(struct mp_job *job)
{
	const struct crowd *c = job->arg;
	uint64_t sum[TOKENS], x[TOKENS], state = (uint64_t)job->rank + 3;
	struct tutti_ps_table *t;
	struct tutti_ps *ps;
	int64_t center[TOKENS] = {0};
	int i, k;

	MP_OK(open_crowd(job, c, &ps));
	MP_OK(make_table(ps, TOKENS, TUTTI_INT64, &t));
	memset(x, 0, sizeof(x));
	memset(sum, 0, sizeof(sum));
	for (k = 0; k < c->times && job->rank >= c->servers; k++) {
		for (i = 0; i < TOKENS; i++) {
			state = state * 6364136223846793005ull + 1442695040888963407ull;
			x[i] += state >> 24;
			sum[i] += state >> 24;
		}
		MP_OK(tutti_ps_elastic(t, x, 0, TOKENS, TUTTI_INT64, 0.9 / job->n));
		if (c->staleness > 0)
			MP_OK(tutti_ps_clock(ps));
	}
	for (i = 0; i < TOKENS; i++)
		sum[i] -= x[i];
	MP_OK(tutti_allreduce(TUTTI_IN_PLACE, sum, TOKENS, TUTTI_UINT64, TUTTI_SUM, job->world));
	if (job->rank == c->servers) {
		MP_OK(tutti_ps_elastic(t, center, 0, TOKENS, TUTTI_INT64, 1));
		for (i = 0; i < TOKENS; i++)
			TT_EXPECT((uint64_t)center[i] == sum[i]);
	}
	MP_OK(tutti_ps_close(ps));
	return 0;
}

static int refuse_options(struct mp_job *job, struct tutti_ps *ps, const char *name,
			  struct tutti_ps_options options)
{
	struct tutti_ps_table *t;
	float x[4] = {0};

	options.size = sizeof(options);
	options.init = TUTTI_PS_ZERO;
	MP_OK(tutti_ps_dense(ps, name, 4, TUTTI_FLOAT32, &options, &t));
	if (job->rank == 0)
		return 0;
	MP_ERR(tutti_ps_elastic(t, x, 0, 4, TUTTI_FLOAT32, 0.5), -EINVAL);
	MP_SAID("no other option that changes pushes or pulls");
	return 0;
}

static int refuse_tables(struct mp_job *job, struct tutti_ps *ps)
{
	struct tutti_ps_options options = {.size = sizeof(options), .init = TUTTI_PS_ZERO};
	struct tutti_codec *codec;
	struct tutti_ps_table *t;
	signed char bytes[4] = {0};
	float x[4] = {0};

	MP_OK(tutti_codec_create("int8", &codec));
	TT_EXPECT(!refuse_options(job, ps, "a", (struct tutti_ps_options){.rule = TUTTI_PS_SGD}));
	TT_EXPECT(!refuse_options(job, ps, "b", (struct tutti_ps_options){.codec = codec}));
	TT_EXPECT(!refuse_options(job, ps, "c", (struct tutti_ps_options){.publish = codec}));
	TT_EXPECT(!refuse_options(job, ps, "d", (struct tutti_ps_options){.budget = 1e6}));
	TT_EXPECT(!refuse_options(job, ps, "e", (struct tutti_ps_options){.n_push = 2}));
	TT_EXPECT(!refuse_options(job, ps, "f", (struct tutti_ps_options){.n_fetch = 2}));
	TT_EXPECT(!refuse_options(job, ps, "g", (struct tutti_ps_options){.softsync = 1}));
	TT_EXPECT(!refuse_options(job, ps, "h", (struct tutti_ps_options){.staleness_aware = 1}));
	TT_EXPECT(!refuse_options(job, ps, "i", (struct tutti_ps_options){.essp = 1}));
	MP_OK(tutti_ps_dense(ps, "j", 4, TUTTI_INT8, &options, &t));
	if (job->rank)
		MP_ERR(tutti_ps_elastic(t, bytes, 0, 4, TUTTI_INT8, 0.5), -EINVAL);
	MP_OK(tutti_ps_rows(ps, "k", 4, 10, TUTTI_FLOAT32, &options, &t));
	MP_ERR(tutti_ps_elastic(t, x, 0, 4, TUTTI_FLOAT32, 0.5), -EINVAL);
	return tutti_codec_free(codec);
}

static int refuse_ps_body(struct mp_job *job)
{
	struct tutti_request *request;
	struct tutti_ps_table *t;
	struct tutti_ps *ps;
	float x[4] = {0}, y[4];
	int staleness;

	for (staleness = -1; staleness < 1; staleness++) {
		MP_OK(mp_ps_open(job, 1, staleness, &ps));
		if (staleness)
			TT_EXPECT(!refuse_tables(job, ps));
		MP_OK(make_table(ps, 4, TUTTI_FLOAT32, &t));
		if (!staleness && job->rank)
			MP_ERR(tutti_ps_elastic(t, x, 0, 4, TUTTI_FLOAT32, 0.5), -EINVAL);
		if (job->rank == 0)
			MP_ERR(tutti_ps_elastic(t, x, 0, 4, TUTTI_FLOAT32, 0.5), -EPERM);
		MP_ERR(tutti_ps_elastic(NULL, x, 0, 4, TUTTI_FLOAT32, 0.5), -EINVAL);
		if (staleness && job->rank) {
			MP_ERR(tutti_ps_elastic(t, x, 1, 4, TUTTI_FLOAT32, 0.5), -ERANGE);
			MP_ERR(tutti_ps_elastic(t, NULL, 0, 4, TUTTI_FLOAT32, 0.5), -EINVAL);
			MP_ERR(tutti_ps_elastic(t, x, 0, 4, TUTTI_FLOAT64, 0.5), -EINVAL);
			MP_ERR(tutti_ps_elastic(t, x, 0, 4, TUTTI_FLOAT32, 1.5), -EINVAL);
			MP_ERR(tutti_ps_elastic(t, x, 0, 4, TUTTI_FLOAT32, NAN), -EINVAL);
			MP_OK(tutti_ps_ipull(t, y, 0, 4, TUTTI_FLOAT32, &request));
			MP_ERR(tutti_ps_elastic(t, x, 0, 4, TUTTI_FLOAT32, 0.5), -EBUSY);
			MP_OK(tutti_wait(&request));
			MP_OK(tutti_ps_elastic(t, x, 0, 4, TUTTI_FLOAT32, 0.5));
		}
		MP_OK(tutti_ps_close(ps));
	}
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

#define SHM "TUTTI_TRANSPORT=shm"
#define TCP "TUTTI_TRANSPORT=ofi TUTTI_IF=lo"

static void formula(void)
{
	TT_CHECK(!MP_RUN(.n = 2, .env = SHM, .fn = formula_body));
	if (!mp_no_ofi())
		TT_CHECK(!MP_RUN(.n = 2, .env = TCP, .fn = formula_body));
}

static void run_crowd(const char *env, int n, struct crowd c)
{
	TT_CHECK(!MP_RUN(.n = n, .env = env, .fn = tokens_body, .arg = &c));
	TT_CHECK(!MP_RUN(.n = n, .env = env, .fn = sums_body, .arg = &c));
}

static void crowds(void)
{
	struct crowd kills = {
		.servers = 2, .staleness = -1, .copies = 2, .times = 60, .kill = true};

	run_crowd(SHM, 3, (struct crowd){.servers = 1, .staleness = -1, .times = 300});
	run_crowd(SHM, 5, (struct crowd){.staleness = -1, .times = 100});
	run_crowd(SHM, 8, (struct crowd){.servers = 2, .staleness = -1, .times = 60});
	run_crowd(SHM, 4, (struct crowd){.servers = 1, .staleness = 2, .times = 60});
	run_crowd(SHM, 5, (struct crowd){.servers = 2, .staleness = -1, .copies = 2, .times = 60});
	TT_CHECK(!MP_RUN(.n = 5, .env = SHM, .fn = tokens_body, .arg = &kills, .killed = 1));
	if (!mp_no_ofi())
		run_crowd(TCP, 4, (struct crowd){.servers = 1, .staleness = -1, .times = 60});
}

static void verbs(void)
{
	if (mp_no_verbs())
		TT_SKIP("%s", mp_no_verbs());
	run_crowd("TUTTI_TRANSPORT=verbs TUTTI_TIMEOUT=60s", 3,
		  (struct crowd){.servers = 1, .staleness = -1, .times = 10});
}

static void refuse(void)
{
	TT_CHECK(!MP_RUN(.n = 2, .env = SHM, .fn = refuse_body));
	TT_CHECK(!MP_RUN(.n = 2, .env = SHM, .fn = refuse_ps_body));
}

int main(int argc, char **argv)
{
	static const struct tt_test tests[] = {
		{"synchronous", synchronous}, {"formula", formula},
		{"crowds", crowds},	      {"verbs", verbs},
		{"refuse", refuse},	      {NULL, NULL},
	};

	return tt_test_main("elastic", tests, argc, argv);
}
