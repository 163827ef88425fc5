/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * PowerSGD: each step against the same step in float64, the same bits on all ranks and from run to
 * run, conservation over 1,000 steps and a change of ranks, matrices of low rank, zeros; bytes by
 * the counters.
 */
#include "config.h"

#include "tests/mp/coll/power_sgd.h"

#include <math.h>
#include <stdio.h>
#include <sys/mman.h>

/* ---- a step in float64 ---- */

/* The world as every rank computes it: the matrices and residuals of all ranks. */
struct world {
	int n;
	double *m[MAX_N][N], *e[MAX_N][N], *q[N], *h[N]; /* q: R x cols; h: the sum */
};

static int world_new(struct world *w, int n)
{
	int r, i;

	*w = (struct world){.n = n};
	for (i = 0; i < N; i++) {
		w->q[i] = calloc(R * cols[i] + 1, sizeof(double));
		w->h[i] = calloc(CELLS(i) + 1, sizeof(double));
		TT_EXPECT(w->q[i] && w->h[i]);
		for (r = 0; r < n; r++) {
			w->m[r][i] = calloc(CELLS(i) + 1, sizeof(double));
			w->e[r][i] = calloc(CELLS(i) + 1, sizeof(double));
			TT_EXPECT(w->m[r][i] && w->e[r][i]);
		}
	}
	return 0;
}

static void world_free(struct world *w)
{
	int r, i;

	for (i = 0; i < N; i++) {
		for (r = 0; r < w->n; r++) {
			free(w->m[r][i]);
			free(w->e[r][i]);
		}
		free(w->q[i]);
		free(w->h[i]);
	}
}

static void orthonormalize(double *v, size_t n)
{
	double sum;
	size_t x;
	int j, k;

	for (j = 0; j < R; j++)
		for (k = 0; k <= j; k++) {
			for (sum = 0, x = 0; x < n; x++)
				sum += v[(size_t)j * n + x] * v[(size_t)k * n + x];
			for (x = 0; x < n; x++)
				if (k < j)
					v[(size_t)j * n + x] -= sum * v[(size_t)k * n + x];
				else
					v[(size_t)j * n + x] /= sqrt(sum);
		}
}

/* One matrix: M = G + E is in m. */
static void oracle_step(struct world *w, int i)
{
	static double p[R * 64], q[R * 200];
	double sum;
	size_t x, y;
	int r, j;

	memset(p, 0, sizeof(p));
	memset(q, 0, sizeof(q));
	for (r = 0; r < w->n; r++)
		for (j = 0; j < R; j++)
			for (x = 0; x < rows[i]; x++)
				for (y = 0; y < cols[i]; y++)
					p[(size_t)j * rows[i] + x] +=
						w->m[r][i][x * cols[i] + y] *
						w->q[i][(size_t)j * cols[i] + y];
	orthonormalize(p, rows[i]);
	for (r = 0; r < w->n; r++)
		for (j = 0; j < R; j++)
			for (x = 0; x < rows[i]; x++)
				for (y = 0; y < cols[i]; y++)
					q[(size_t)j * cols[i] + y] += w->m[r][i][x * cols[i] + y] *
								      p[(size_t)j * rows[i] + x];
	for (x = 0; x < rows[i]; x++)
		for (y = 0; y < cols[i]; y++) {
			for (sum = 0, j = 0; j < R; j++)
				sum += p[(size_t)j * rows[i] + x] * q[(size_t)j * cols[i] + y];
			w->h[i][x * cols[i] + y] = sum;
			for (r = 0; r < w->n; r++)
				w->e[r][i][x * cols[i] + y] =
					w->m[r][i][x * cols[i] + y] - sum / w->n;
		}
	orthonormalize(q, cols[i]);
	memcpy(w->q[i], q, R * cols[i] * sizeof(double));
}

static void oracle(struct world *w, unsigned t)
{
	size_t x;
	int i, r;

	for (i = 0; i < N; i++) {
		for (x = 0; x < CELLS(i); x++)
			for (w->h[i][x] = 0, r = 0; r < w->n; r++) {
				w->m[r][i][x] =
					(double)value(t * 10 + (unsigned)i, r, x) + w->e[r][i][x];
				w->h[i][x] += w->m[r][i][x];
			}
		if (low[i])
			oracle_step(w, i);
	}
}

static double distance(const float *a, const double *b, size_t n, double factor)
{
	double sum = 0, size = 1e-30;
	size_t x;

	for (x = 0; x < n; x++) {
		sum += ((double)a[x] - b[x] * factor) * ((double)a[x] - b[x] * factor);
		size += b[x] * b[x] * factor * factor;
	}
	return sqrt(sum / size);
}

/* Residuals as far as float32 can follow: of this rank, and Q, the same on all. */
static int check_state(struct mp_job *job, struct tutti_power_sgd *s, const struct world *w,
		       uint64_t *hash)
{
	size_t len = tutti_power_sgd_elements(s), at = 0;
	float *saved = malloc(len * 4);
	int i;

	TT_EXPECT(saved != NULL);
	MP_OK(tutti_power_sgd_save(s, saved, len));
	for (i = 0; i < N; i++)
		if (low[i]) {
			TT_EXPECT(distance(saved + at, w->e[job->rank][i], CELLS(i), 1) < 1e-4);
			at += CELLS(i);
		}
	TT_EXPECT(!same_bits(job, saved + at, len - at, hash));
	for (i = 0; i < N; i++)
		if (low[i]) {
			TT_EXPECT(distance(saved + at, w->q[i], R * cols[i], 1) < 1e-3);
			at += R * cols[i];
		}
	TT_EXPECT(at == len);
	free(saved);
	return 0;
}

/* Q of a new state is the oracle's first. */
static int first_q(struct tutti_power_sgd *s, struct world *w)
{
	size_t len = tutti_power_sgd_elements(s), at = 0, x;
	float *saved = malloc(len * 4);
	int i;

	TT_EXPECT(saved != NULL);
	if (tutti_power_sgd_save(s, saved, len))
		return 1;
	for (i = 0; i < N; i++)
		for (x = 0; low[i] && x < CELLS(i); x++)
			TT_EXPECT(saved[at++] == 0);
	for (i = 0; i < N; i++)
		for (x = 0; low[i] && x < R * cols[i]; x++)
			w->q[i][x] = (double)saved[at++];
	free(saved);
	return 0;
}

static int steps_body(struct mp_job *job)
{
	const struct tutti_power_sgd_config config = config_of(N, rows, cols, R);
	uint64_t *hashes = job->arg, hash = 0;
	struct tutti_power_sgd *s;
	struct world w;
	float *g[N];
	unsigned t;
	bool avg;
	int i;

	TT_EXPECT(!world_new(&w, job->n));
	for (i = 0; i < N; i++) {
		g[i] = malloc((CELLS(i) + 1) * 4);
		TT_EXPECT(g[i] != NULL);
	}
	MP_OK(tutti_power_sgd_create(job->world, &config, &s));
	TT_EXPECT(!first_q(s, &w));
	for (t = 0; t < 6; t++) {
		avg = t % 3 == 1;
		fill(g, job->rank, t);
		MP_OK(tutti_power_sgd_allreduce(s, g, avg ? TUTTI_AVG : TUTTI_SUM, job->world));
		oracle(&w, t);
		for (i = 0; i < N; i++) {
			TT_EXPECT(distance(g[i], w.h[i], CELLS(i), avg ? 1.0 / job->n : 1) <
				  (low[i] ? 1e-4 : 1e-6));
			TT_EXPECT(!same_bits(job, g[i], CELLS(i), &hash));
		}
		TT_EXPECT(!check_state(job, s, &w, &hash));
	}
	if (hashes && !hashes[job->n]) /* of the first run */
		hashes[job->n] = hash;
	TT_EXPECT(!hashes || hashes[job->n] == hash);
	MP_OK(tutti_power_sgd_free(s));
	for (i = 0; i < N; i++)
		free(g[i]);
	world_free(&w);
	return 0;
}

static void steps_shm(void)
{
	uint64_t *hashes = mp_shared_mem((MAX_N + 1) * sizeof(*hashes));
	int n;

	TT_REQUIRE(hashes != NULL);
	for (n = 1; n <= MAX_N; n++) {
		TT_CHECK(!MP_RUN(.n = n, .env = SHM, .fn = steps_body, .arg = hashes));
		TT_CHECK(!MP_RUN(.n = n, .env = SHM, .fn = steps_body, .arg = hashes));
	}
	TT_CHECK(!MP_RUN(.n = 4, .env = "TUTTI_HOST_ID=h%h", .fn = steps_body));
	TT_CHECK(!MP_RUN(.n = 3, .env = SHM "TUTTI_THREAD=on TUTTI_CHECKSUM=1", .fn = steps_body));
	munmap(hashes, (MAX_N + 1) * sizeof(*hashes));
}

static void steps_fault(void)
{
	TT_CHECK(!MP_RUN(.n = 3, .env = FAULT, .fn = steps_body));
}

static void steps_ofi(void)
{
	int n;

	if (mp_no_ofi())
		TT_SKIP("%s", mp_no_ofi());
	for (n = 2; n <= MAX_N; n++)
		TT_CHECK(!MP_RUN(.n = n, .env = OFI, .fn = steps_body));
}

/* ---- conservation ---- */

#define STEPS 500 /* of each of two jobs */

/* Both jobs': what every rank has put in and got out, and what is left for the next job. */
struct kept {
	int first; /* step */
	double in[KEPT], out[KEPT], size[KEPT];
	float left[MAX_N][KEPT + 2 * WIDE];
};

static int conserve_body(struct mp_job *job)
{
	const size_t tall = TALL, wide = WIDE;
	const struct tutti_power_sgd_config config = config_of(1, &tall, &wide, 2);
	static float v[KEPT];
	float *const g[1] = {v};
	struct kept *k = job->arg;
	struct tutti_power_sgd *s;
	int t, r;
	size_t i;

	MP_OK(tutti_power_sgd_create(job->world, &config, &s));
	TT_EXPECT(tutti_power_sgd_elements(s) == KEPT + 2 * WIDE);
	if (k->first)
		MP_OK(tutti_power_sgd_restore(s, k->left[job->rank], KEPT + 2 * WIDE, job->world));
	for (t = k->first; t < k->first + STEPS; t++) {
		for (i = 0; i < KEPT; i++)
			v[i] = value((unsigned)t, job->rank, i);
		MP_OK(tutti_power_sgd_allreduce(s, g, TUTTI_SUM, job->world));
		for (i = 0; job->rank == 0 && i < KEPT; i++) {
			for (r = 0; r < job->n; r++) {
				k->in[i] += (double)value((unsigned)t, r, i);
				k->size[i] += fabs((double)value((unsigned)t, r, i));
			}
			k->out[i] += (double)v[i];
		}
	}
	MP_OK(tutti_power_sgd_save(s, k->left[job->rank], KEPT + 2 * WIDE));
	return tutti_power_sgd_free(s);
}

/* How many elements are not conserved. */
static int lost(const struct kept *k)
{
	double all, worst = 0;
	int r, bad = 0;
	size_t i;

	for (i = 0; i < KEPT; i++) {
		for (all = k->out[i], r = 0; r < MAX_N; r++)
			all += (double)k->left[r][i];
		worst = fmax(worst, fabs(all - k->in[i]) / k->size[i]);
		bad += !(fabs(all - k->in[i]) <= 1e-6 * k->size[i]);
	}
	if (bad)
		printf("  %d elements, worst %g\n", bad, worst);
	return bad;
}

/* 4 ranks for 500 steps; then 3, of which rank 0 takes over what the fourth has left. */
static void conservation(void)
{
	struct kept *k = mp_shared_mem(sizeof(*k));
	size_t i;

	TT_REQUIRE(k != NULL);
	TT_CHECK(!MP_RUN(.n = 4, .env = SHM, .fn = conserve_body, .arg = k));
	TT_CHECK(!lost(k));
	for (i = 0; i < KEPT; i++) {
		k->left[0][i] += k->left[3][i];
		k->left[3][i] = 0;
	}
	k->first = STEPS;
	TT_CHECK(!MP_RUN(.n = 3, .env = SHM "TUTTI_LANES=4 TUTTI_CHUNK=4K", .fn = conserve_body,
			 .arg = k));
	TT_CHECK(!lost(k));
	munmap(k, sizeof(*k));
}

/* ---- matrices of low rank, zeros ---- */

/* A matrix of rank k. */
static void low_rank(float *v, int rank, int k)
{
	size_t i;
	int l;

	for (i = 0; i < KEPT; i++)
		for (v[i] = 0, l = 0; l < k; l++)
			v[i] += value(100 + (unsigned)l, 0, i / WIDE) *
				value(200 + (unsigned)l, 0, i % WIDE) * (float)(1 + rank);
}

/*
 * r is as high as the rank: nothing is left out but rounding, also after zeros and after lower
 * ranks, when a part of Q comes from what rounding has left, or is drawn.
 */
static int low_body(struct mp_job *job)
{
	static const int ranks[] = {0, 4, 4, 0, 4, 1, 1, 4, 2, 4, 0, 0, 0};
	const size_t tall = TALL, wide = WIDE;
	const struct tutti_power_sgd_config config = config_of(1, &tall, &wide, 0);
	static float v[KEPT], one[KEPT], saved[KEPT + 4 * WIDE];
	double exact[KEPT], most = 0;
	struct tutti_power_sgd *s;
	float *const g[1] = {v};
	size_t i, t;

	MP_OK(tutti_power_sgd_create(job->world, &config, &s));
	TT_EXPECT(tutti_power_sgd_elements(s) == KEPT + 4 * WIDE); /* r is 4 */
	for (t = 0; t < sizeof(ranks) / sizeof(ranks[0]); t++) {
		low_rank(v, job->rank, ranks[t]);
		low_rank(one, 0, ranks[t]);
		MP_OK(tutti_power_sgd_allreduce(s, g, TUTTI_SUM, job->world));
		for (i = 0; i < KEPT; i++) {
			exact[i] = (double)one[i] * job->n * (job->n + 1) / 2;
			most = fmax(most, fabs(exact[i]));
			TT_EXPECT(ranks[t] || fabs((double)v[i]) <= 1e-6 * most);
		}
		if (ranks[t])
			TT_EXPECT(distance(v, exact, KEPT, 1) < 1e-3);
		MP_OK(tutti_power_sgd_save(s, saved, KEPT + 4 * WIDE));
		for (i = 0; i < KEPT + 4 * WIDE; i++)
			TT_EXPECT(isfinite(saved[i]));
	}
	return tutti_power_sgd_free(s);
}

static void low_ranks(void)
{
	int n;

	for (n = 1; n <= 3; n++)
		TT_CHECK(!MP_RUN(.n = n, .env = SHM, .fn = low_body));
}

/* ---- bytes ---- */

#define SIDE 1024

static int put_bytes(struct mp_job *job, uint64_t *bytes)
{
	struct tutti_stats stats = {.size = sizeof(stats)};

	mp_meet(job);
	mp_sleep_ms(100);
	MP_OK(tutti_stats_get(job->ctx, &stats));
	*bytes = stats.put_bytes;
	return 0;
}

static int bytes_body(struct mp_job *job)
{
	const size_t side = SIDE;
	const struct tutti_power_sgd_config config = config_of(1, &side, &side, 4);
	uint64_t at[4], plain, sent;
	struct tutti_power_sgd *s;
	float *g[1];
	int i;

	MP_OK(tutti_alloc(job->ctx, SIDE * SIDE * 4, (void **)&g[0]));
	for (i = 0; i < SIDE * SIDE; i++)
		g[0][i] = value(1, job->rank, (size_t)i);
	MP_OK(tutti_power_sgd_create(job->world, &config, &s));
	for (i = 0; i < 2; i++) { /* the first ones connect */
		TT_EXPECT(!put_bytes(job, &at[0]));
		MP_OK(tutti_power_sgd_allreduce(s, g, TUTTI_AVG, job->world));
		TT_EXPECT(!put_bytes(job, &at[1]));
		MP_OK(tutti_allreduce(TUTTI_IN_PLACE, g[0], SIDE * SIDE, TUTTI_FLOAT32, TUTTI_AVG,
				      job->world));
		TT_EXPECT(!put_bytes(job, &at[2]));
	}
	sent = at[1] - at[0];
	plain = at[2] - at[1];
	MP_OK(tutti_allreduce(TUTTI_IN_PLACE, &sent, 1, TUTTI_UINT64, TUTTI_SUM, job->world));
	MP_OK(tutti_allreduce(TUTTI_IN_PLACE, &plain, 1, TUTTI_UINT64, TUTTI_SUM, job->world));
	if (!job->rank)
		printf("  %d ranks: %llu bytes, plain %llu, %.1f times\n", job->n,
		       (unsigned long long)sent, (unsigned long long)plain,
		       (double)plain / (double)sent);
	TT_EXPECT(sent > 0 && plain >= 60 * sent);
	MP_OK(tutti_power_sgd_free(s));
	MP_OK(tutti_free(g[0]));
	return 0;
}

static void counted(void)
{
	int n;

	if (mp_no_ofi())
		TT_SKIP("%s", mp_no_ofi());
	for (n = 2; n <= 4; n++)
		TT_CHECK(!MP_RUN(.n = n, .env = OFI "TUTTI_HOST_ID=h%r", .fn = bytes_body));
}

static void verbs(void)
{
	if (mp_no_verbs())
		TT_SKIP("%s", mp_no_verbs());
	TT_CHECK(!MP_RUN(.n = 3, .env = VERBS, .fn = steps_body));
}

static const struct tt_test tests[] = {{"steps_shm", steps_shm}, {"steps_fault", steps_fault},
				       {"steps_ofi", steps_ofi}, {"conservation", conservation},
				       {"low_ranks", low_ranks}, {"counted", counted},
				       {"verbs", verbs},	 {NULL, NULL}};

int main(int argc, char **argv)
{
	return tt_test_main("power_sgd", tests, argc, argv);
}
