/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * PowerSGD: each step against the same step in float64, the same bits on all ranks and from run to
 * run, conservation over 1,000 steps and a change of ranks, matrices of low rank, zeros, values
 * that are not finite; bytes by the counters; refused arguments, ranks that differ, deaths.
 */
#include "config.h"

#include "tests/mp/job.h"

#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "lib/base/hash.h"

#define SHM "TUTTI_TRANSPORT=shm "
#define OFI "TUTTI_TRANSPORT=ofi TUTTI_IF=lo "
#define VERBS "TUTTI_TRANSPORT=verbs"
#define FAULT                                                                                      \
	"TUTTI_TRANSPORT=fault:shm "                                                               \
	"TUTTI_FAULT=seed=5,delay=0.1:100,reorder=0.3,again=0.2,max_put=70001"
#define MAX_N 5

static float value(unsigned seed, int rank, size_t i)
{
	uint64_t h = tt_hash_add(tt_hash_add(seed, (uint64_t)rank), i);

	return (float)((int)(h % 20001) - 10000) / (h >> 40 & 7 ? 1000.0f : 30.0f);
}

static struct tutti_power_sgd_config config_of(size_t n, const size_t *rows, const size_t *cols,
					       int rank)
{
	return (struct tutti_power_sgd_config){.size = sizeof(struct tutti_power_sgd_config),
					       .n = n,
					       .rows = rows,
					       .cols = cols,
					       .rank = rank,
					       .seed = 7};
}

/* ---- a step in float64 ---- */

#define N 7
#define R 3
/* Two that are approximated, vectors, one that gains nothing, one with nothing, one more. */
static const size_t rows[N] = {20, 1, 64, 40, 4, 0, 9}, cols[N] = {30, 17, 48, 1, 5, 3, 200};
static const bool low[N] = {true, false, true, false, false, false, true};
#define CELLS(i) (rows[i] * cols[i])

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

/* All ranks have the same bits; *hash is added to. */
static int same_bits(struct mp_job *job, const float *v, size_t n, uint64_t *hash)
{
	uint64_t own = 0, all[MAX_N];
	uint32_t bits;
	size_t x;
	int r;

	for (x = 0; x < n; x++) {
		memcpy(&bits, v + x, 4);
		own = tt_hash_add(own, bits);
	}
	MP_OK(tutti_allgather(&own, all, 1, TUTTI_UINT64, job->world));
	for (r = 0; r < job->n; r++)
		TT_EXPECT(all[r] == own);
	*hash = tt_hash_add(*hash, own);
	return 0;
}

static void fill(float **g, int rank, unsigned t)
{
	size_t x;
	int i;

	for (i = 0; i < N; i++)
		for (x = 0; x < CELLS(i); x++)
			g[i][x] = value(t * 10 + (unsigned)i, rank, x);
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

#define TALL 24
#define WIDE 20
#define KEPT (TALL * WIDE)
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

/* ---- matrices of low rank, zeros, values that are not finite ---- */

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
	TT_CHECK(!MP_RUN(.n = 3, .env = VERBS, .fn = steps_body));
	TT_CHECK(!MP_RUN(.n = 3, .env = VERBS, .fn = death_body, .killed = 2));
}

static const struct tt_test tests[] = {{"steps_shm", steps_shm}, {"steps_fault", steps_fault},
				       {"steps_ofi", steps_ofi}, {"conservation", conservation},
				       {"low_ranks", low_ranks}, {"not_finite", not_finite},
				       {"counted", counted},	 {"refusals", refusals},
				       {"differ", differ},	 {"death", death},
				       {"verbs", verbs},	 {NULL, NULL}};

int main(int argc, char **argv)
{
	return tt_test_main("power_sgd", tests, argc, argv);
}
