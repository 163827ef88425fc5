/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * PowerSGD: values that are not finite, refused arguments, a state in use, ranks that differ,
 * deaths.
 */
#include "config.h"

#include "tests/mp/coll/power_sgd.h"

#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

/* ---- values that are not finite ---- */

/*
 * v has 64 rows; q: the state's first columns. Of two elements, in other rows and columns: their
 * sums over two ranks and so H overflow, while sums of P and Q are finite.
 */
static int near_overflow(float *v, const float *q, size_t n)
{
	size_t a, b;
	float x, y;

	for (a = 0; a < n; a++)
		for (b = a + 1; b < n; b++) {
			x = fabsf(q[a]), y = fabsf(q[b]);
			if (x > 0.9f * y && y > 0.9f * x && x > 0.01f) {
				memset(v, 0, 64 * n * sizeof(*v));
				v[a] = v[n + b] = 2.1e38f;
				return 0;
			}
		}
	return 1;
}

static int not_finite_body(struct mp_job *job)
{
	const float odd[] = {NAN, INFINITY, -INFINITY, 0, 0};
	const struct tutti_power_sgd_config config = config_of(N, rows, cols, R);
	static float before[20000], after[20000];
	struct tutti_power_sgd *s;
	float *g[N];
	size_t len, x, first, q;
	unsigned t;
	int i;

	for (i = 0; i < N; i++) {
		g[i] = malloc((CELLS(i) + 1) * 4);
		TT_EXPECT(g[i] != NULL);
	}
	MP_OK(tutti_power_sgd_create(job->world, &config, &s));
	len = tutti_power_sgd_elements(s);
	TT_EXPECT(len <= 20000);
	first = CELLS(0);
	q = first + CELLS(2) + CELLS(6) + R * cols[0]; /* of matrix 2 */
	for (t = 0; t < 10; t++) {
		MP_OK(tutti_power_sgd_save(s, before, len));
		fill(g, job->rank, t);
		if (t % 2 && job->rank == 1)
			g[2][77] = odd[t / 2];
		for (x = 0; t == 7 && job->rank == 1 && x < CELLS(2); x++) /* P overflows */
			g[2][x] = copysignf(3e38f, before[q + x % cols[2]]);
		if (t == 9 && job->rank < 2)
			TT_EXPECT(!near_overflow(g[2], before + q, cols[2]));
		MP_OK(tutti_power_sgd_allreduce(s, g, TUTTI_SUM, job->world));
		for (i = 0; i < N; i++)
			for (x = 0; x < CELLS(i); x++)
				TT_EXPECT(isnan(g[i][x]) ? t % 2 && i == 2
							 : isfinite(g[i][x]) && !(t % 2 && i == 2));
		MP_OK(tutti_power_sgd_save(s, after, len));
		for (x = 0; x < len; x++)
			TT_EXPECT(isfinite(after[x]));
		TT_EXPECT((memcmp(before + first, after + first, CELLS(2) * 4) == 0) == t % 2);
		TT_EXPECT(memcmp(before, after, CELLS(0) * 4));
	}
	for (i = 0; i < N; i++)
		free(g[i]);
	return tutti_power_sgd_free(s);
}

static void not_finite(void)
{
	TT_CHECK(!MP_RUN(.n = 3, .env = SHM, .fn = not_finite_body));
}

/* ---- refusals ---- */

static int refused(struct mp_job *job, const struct tutti_power_sgd_config *c, const char *word)
{
	struct tutti_power_sgd *s = NULL;
	int err = tutti_power_sgd_create(job->world, c, &s);

	if (err != -EINVAL || !mp_said(word) || s) {
		mp_failed(job, word, err, __FILE__, __LINE__);
		return 1;
	}
	return 0;
}

static int refused_configs(struct mp_job *job, const struct tutti_power_sgd_config *good)
{
	const size_t many[2] = {SIZE_MAX / 2, (size_t)1 << 59}, few[2] = {3, 4};
	struct tutti_power_sgd_config bad;

	bad = *good, bad.n = 0;
	TT_EXPECT(!refused(job, &bad, "n is 0"));
	bad = *good, bad.rows = NULL;
	TT_EXPECT(!refused(job, &bad, "rows is NULL"));
	bad = *good, bad.cols = NULL;
	TT_EXPECT(!refused(job, &bad, "cols is NULL"));
	bad = *good, bad.rank = -1;
	TT_EXPECT(!refused(job, &bad, "rank is -1"));
	bad = *good, bad.rank = 257;
	TT_EXPECT(!refused(job, &bad, "1 to 256"));
	bad = *good, bad.pad = 1;
	TT_EXPECT(!refused(job, &bad, "pad is 1"));
	bad = *good, bad.rows = many, bad.cols = few;
	TT_EXPECT(!refused(job, &bad, "matrix 0 of"));
	bad = *good, bad.rows = many + 1, bad.cols = few, bad.n = 1;
	TT_EXPECT(!refused(job, &bad, "do not fit in memory"));
	bad = *good, bad.size = 8;
	TT_EXPECT(!refused(job, &bad, "size"));
	MP_ERR(tutti_power_sgd_create(job->world, good, NULL), -EINVAL);
	MP_ERR(tutti_power_sgd_create(job->world, NULL, NULL), -EINVAL);
	MP_ERR(tutti_power_sgd_create(NULL, good, NULL), -EINVAL);
	return 0;
}

static int refusals_body(struct mp_job *job)
{
	const size_t tall[2] = {8, 3}, wide[2] = {9, 1};
	const struct tutti_power_sgd_config good = config_of(2, tall, wide, 2);
	float a[72] = {0}, b[3] = {1, 2, 3}, saved[72 + 18];
	float *g[2] = {a, b}, *none[2] = {a, NULL};
	struct tutti_power_sgd *s;
	struct tutti_comm *dup;

	TT_EXPECT(!refused_configs(job, &good));
	MP_OK(tutti_power_sgd_create(job->world, &good, &s));
	MP_OK(tutti_comm_dup(job->world, &dup));
	MP_ERR(tutti_power_sgd_allreduce(NULL, g, TUTTI_SUM, job->world), -EINVAL);
	MP_ERR(tutti_power_sgd_allreduce(s, NULL, TUTTI_SUM, job->world), -EINVAL);
	MP_ERR(tutti_power_sgd_allreduce(s, none, TUTTI_SUM, job->world), -EINVAL);
	MP_SAID("matrix 1 is NULL");
	MP_ERR(tutti_power_sgd_allreduce(s, g, TUTTI_MAX, job->world), -EINVAL);
	MP_SAID("sum or avg");
	MP_ERR(tutti_power_sgd_allreduce(s, g, TUTTI_SUM, dup), -EINVAL);
	MP_SAID("another communicator");
	MP_ERR(tutti_power_sgd_allreduce(s, g, TUTTI_SUM, NULL), -EINVAL);
	MP_OK(tutti_group_start());
	MP_ERR(tutti_power_sgd_allreduce(s, g, TUTTI_SUM, job->world), -EINVAL);
	MP_SAID("tutti_group_start");
	MP_OK(tutti_group_end());
	TT_EXPECT(tutti_power_sgd_elements(s) == 72 + 18 && !tutti_power_sgd_elements(NULL));
	MP_ERR(tutti_power_sgd_save(s, saved, 72), -EINVAL);
	MP_SAID("90 elements, not 72");
	MP_ERR(tutti_power_sgd_save(s, NULL, 90), -EINVAL);
	MP_ERR(tutti_power_sgd_restore(s, saved, 91, job->world), -EINVAL);
	MP_ERR(tutti_power_sgd_restore(s, saved, 90, dup), -EINVAL);
	MP_ERR(tutti_power_sgd_restore(NULL, saved, 90, job->world), -EINVAL);
	MP_OK(tutti_power_sgd_save(s, saved, 90));
	if (job->rank == 1)
		saved[75] = NAN;
	MP_ERR(tutti_power_sgd_restore(s, saved, 90, job->world), -EINVAL);
	if (job->rank == 1)
		MP_SAID("element 75 of from is nan");
	else
		MP_SAID("from of rank 1");
	MP_OK(tutti_power_sgd_allreduce(s, g, TUTTI_SUM, job->world));
	TT_EXPECT(b[0] == (float)job->n && b[2] == (float)(3 * job->n));
	MP_OK(tutti_power_sgd_free(NULL));
	MP_OK(tutti_power_sgd_free(s));
	return tutti_comm_free(dup);
}

struct busy {
	struct mp_job *job;
	struct tutti_power_sgd *s;
	float a[72], *g[1];
	int err;
};

static void *busy_call(void *arg)
{
	struct busy *b = arg;

	b->err = tutti_power_sgd_allreduce(b->s, b->g, TUTTI_SUM, b->job->world);
	return NULL;
}

/* A state serves one call at a time. */
static int busy_body(struct mp_job *job)
{
	const size_t tall = 8, wide = 9;
	const struct tutti_power_sgd_config config = config_of(1, &tall, &wide, 2);
	static struct busy b;
	float saved[90];
	pthread_t thread;
	int i, err = 0;

	b.job = job;
	b.g[0] = b.a;
	MP_OK(tutti_power_sgd_create(job->world, &config, &b.s));
	if (job->rank) /* rank 0's call waits for this rank's */
		mp_await(&job->shared->word[0], 1, 10000);
	TT_EXPECT(!pthread_create(&thread, NULL, busy_call, &b));
	for (i = 0; !job->rank && i < 5000 && err != -EBUSY; i++) {
		err = tutti_power_sgd_save(b.s, saved, 90);
		mp_sleep_ms(1);
	}
	if (!job->rank) {
		MP_ERR(err, -EBUSY);
		MP_ERR(tutti_power_sgd_free(b.s), -EBUSY);
		MP_SAID("another call uses the state");
		atomic_store(&job->shared->word[0], 1);
	}
	pthread_join(thread, NULL);
	MP_OK(b.err);
	return tutti_power_sgd_free(b.s);
}

static void refusals(void)
{
	TT_CHECK(!MP_RUN(.n = 2, .env = SHM, .fn = refusals_body));
	TT_CHECK(!MP_RUN(.n = 2, .env = SHM, .fn = busy_body));
}

/* ---- ranks that differ, deaths ---- */

static int differ_body(struct mp_job *job)
{
	const size_t tall[2] = {30, 10}, wide[2] = {20, 10}, other[2] = {20, 30};
	struct tutti_power_sgd_config config = config_of(2, tall, wide, 2);
	struct tutti_error_info info = {.size = sizeof(info)};
	struct tutti_power_sgd *s = NULL;
	static float a[600], b[100];
	float *const g[2] = {a, b};
	bool odd = job->rank == 1;

	config.seed = odd ? 8 : 7;
	MP_ERR(tutti_power_sgd_create(job->world, &config, &s), -TUTTI_EMISMATCH);
	MP_SAID("ranks 0 and 1 disagree on seed");
	config.seed = 7, config.rank = odd ? 3 : 2;
	MP_ERR(tutti_power_sgd_create(job->world, &config, &s), -TUTTI_EMISMATCH);
	MP_SAID("disagree on rank");
	config.rank = 2, config.n = odd ? 1 : 2;
	MP_ERR(tutti_power_sgd_create(job->world, &config, &s), -TUTTI_EMISMATCH);
	MP_SAID("disagree on number of matrices");
	config.n = 2, config.rows = odd ? other : tall;
	MP_ERR(tutti_power_sgd_create(job->world, &config, &s), -TUTTI_EMISMATCH);
	MP_SAID("disagree on shapes");
	config.rows = tall;
	MP_OK(tutti_power_sgd_create(job->world, &config, &s)); /* all of them are whole */
	MP_OK(tutti_power_sgd_allreduce(s, g, TUTTI_SUM, job->world));
	MP_ERR(tutti_power_sgd_allreduce(s, g, odd ? TUTTI_AVG : TUTTI_SUM, job->world),
	       -TUTTI_EMISMATCH);
	MP_OK(tutti_comm_error(job->world, &info));
	TT_EXPECT(strstr(info.text, "disagree on op"));
	MP_OK(tutti_power_sgd_free(s));
	mp_leave(job);
	return 0;
}

static void differ(void)
{
	TT_CHECK(!MP_RUN(.n = 3, .env = SHM "TUTTI_LATE_AFTER=300", .fn = differ_body));
	if (!mp_no_ofi())
		TT_CHECK(!MP_RUN(.n = 3, .env = OFI "TUTTI_LATE_AFTER=300", .fn = differ_body));
}

/* The failed call leaves the state as it was; it moves to the communicator of the living. */
static int death_body(struct mp_job *job)
{
	const size_t tall = TALL, wide = WIDE, len = KEPT + 2 * WIDE;
	const struct tutti_power_sgd_config config = config_of(1, &tall, &wide, 2);
	static float v[KEPT], before[KEPT + 2 * WIDE], after[KEPT + 2 * WIDE];
	struct tutti_comm *living;
	struct tutti_power_sgd *s;
	float *const g[1] = {v};
	uint64_t hash = 0;
	int t, err = 0;
	size_t i;

	MP_OK(tutti_power_sgd_create(job->world, &config, &s));
	for (t = 0; t < 100000 && !err; t++) {
		if (job->rank == 1 && t == 20)
			kill(getpid(), SIGKILL);
		MP_OK(tutti_power_sgd_save(s, before, len));
		for (i = 0; i < KEPT; i++)
			v[i] = value((unsigned)t, job->rank, i);
		err = tutti_power_sgd_allreduce(s, g, TUTTI_SUM, job->world);
	}
	MP_ERR(err, -TUTTI_EPEER);
	TT_EXPECT(t >= 20);
	MP_OK(tutti_power_sgd_save(s, after, len));
	TT_EXPECT(!memcmp(before, after, len * 4));
	MP_OK(tutti_power_sgd_free(s));
	MP_OK(tutti_comm_shrink(job->world, &living));
	MP_OK(tutti_power_sgd_create(living, &config, &s));
	/* a rank without a saved state gets the other's approximation */
	MP_OK(tutti_power_sgd_restore(s, job->rank ? NULL : after, len, living));
	MP_OK(tutti_power_sgd_save(s, before, len));
	TT_EXPECT(job->rank || !memcmp(before, after, len * 4));
	for (i = 0; i < KEPT && job->rank; i++)
		TT_EXPECT(before[i] == 0);
	job->world = living;
	job->n--;
	TT_EXPECT(!same_bits(job, before + KEPT, 2 * WIDE, &hash));
	MP_OK(tutti_power_sgd_allreduce(s, g, TUTTI_SUM, living));
	TT_EXPECT(!same_bits(job, v, KEPT, &hash));
	MP_OK(tutti_power_sgd_free(s));
	mp_leave(job);
	return 0;
}

static void death(void)
{
	TT_CHECK(!MP_RUN(.n = 3, .env = SHM, .fn = death_body, .killed = 2));
	TT_CHECK(!MP_RUN(.n = 3, .env = SHM "TUTTI_TOLERANT=1", .fn = death_body, .killed = 2));
	if (mp_no_ofi())
		return;
	TT_CHECK(!MP_RUN(.n = 3, .env = OFI, .fn = death_body, .killed = 2));
	TT_CHECK(!MP_RUN(.n = 3, .env = OFI "TUTTI_TOLERANT=1", .fn = death_body, .killed = 2));
}

static void verbs(void)
{
	if (mp_no_verbs())
		TT_SKIP("%s", mp_no_verbs());
	TT_CHECK(!MP_RUN(.n = 3, .env = VERBS, .fn = death_body, .killed = 2));
}

static const struct tt_test tests[] = {{"not_finite", not_finite}, {"refusals", refusals},
				       {"differ", differ},	   {"death", death},
				       {"verbs", verbs},	   {NULL, NULL}};

int main(int argc, char **argv)
{
	return tt_test_main("power_sgd_failures", tests, argc, argv);
}
