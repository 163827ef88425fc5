/* SPDX-License-Identifier: BSD-3-Clause */
/* The exact distance of workers; and results of BSP, bit for bit. */
#include "config.h"

#include "tests/mp/job.h"

#include <stdio.h>
#include <stdlib.h>

/* ---- a fast worker waits at exactly s ahead ---- */

#define CLOCKS 12

/*
 * word[0]: clocks that the slow worker has begun; word[1]: has ended; word[2]: clocks that the
 * fast worker has passed. The fast worker passes clock c when the slow one has announced c - s,
 * not earlier, and soon after, because it is woken.
 */
static int straggler_body(struct mp_job *job)
{
	int s = *(int *)job->arg, c, begun;
	struct tutti_ps *ps;
	double late = 0, t;

	MP_OK(mp_ps_open(job, 1, s, &ps));
	if (job->rank == 1) { /* slow */
		for (c = 1; c <= CLOCKS; c++) {
			/* the fast one goes as far as it may, and no further */
			TT_EXPECT(mp_await(&job->shared->word[2], c - 1 + s, MP_HANG_MS));
			mp_sleep_ms(20);
			TT_EXPECT(atomic_load(&job->shared->word[2]) == c - 1 + s);
			atomic_store(&job->shared->word[0], c);
			MP_OK(tutti_ps_clock(ps));
			atomic_store(&job->shared->word[1], c);
		}
	} else if (job->rank == 2) {
		for (c = 1; c <= CLOCKS + s; c++) {
			MP_OK(tutti_ps_clock(ps));
			begun = atomic_load(&job->shared->word[0]);
			TT_EXPECT(begun >= c - s);
			atomic_store(&job->shared->word[2], c);
			if (c <= s)
				continue;
			t = mp_now();
			TT_EXPECT(mp_await(&job->shared->word[1], c - s, MP_HANG_MS));
			late += mp_now() - t;
		}
	}
	if (getenv("TUTTI_TEST_VERBOSE") && job->rank == 2)
		printf("staleness %d: passed before the slow one's call returned by %.3f ms on "
		       "average\n",
		       s, late / CLOCKS * 1e3);
	MP_OK(tutti_ps_close(ps));
	return 0;
}

static void straggler(const char *env)
{
	int s;

	for (s = 0; s <= 5; s += s < 2 ? 1 : 3)
		TT_CHECK(!MP_RUN(.n = 3, .env = env, .fn = straggler_body, .arg = &s));
}

static void straggler_shm(void)
{
	straggler("TUTTI_TRANSPORT=shm");
}

static void straggler_ofi(void)
{
	if (mp_no_ofi())
		TT_SKIP("%s", mp_no_ofi());
	straggler("TUTTI_TRANSPORT=fault:ofi TUTTI_FAULT=seed=3,delay=0.1:100,reorder=0.3");
}

/* ---- BSP against one process that does the same ---- */

#define N 40000
#define ROUNDS 5
#define WORKERS 3

static float gradient(int worker, int round, size_t i)
{
	return 0.37f *
		       (float)((i * 2654435761u + (unsigned)worker * 40503u +
				(unsigned)round * 977u) %
			       1000) /
		       (float)(1 + worker) -
	       0.1f;
}

/* The rule that is tested: momentum. */
static void step(float *x, float *v, float u)
{
	*v = 0.9f * *v + u;
	*x -= 0.05f * *v;
}

static void oracle(int combine, int rounds, float *x, float *v)
{
	int r, w;
	size_t i;
	float sum;

	for (i = 0; i < N; i++) {
		x[i] = 1;
		v[i] = 0;
		for (r = 0; r < rounds; r++) {
			sum = gradient(0, r, i);
			for (w = 0; w < WORKERS && combine == TUTTI_PS_EACH; w++)
				step(&x[i], &v[i], gradient(w, r, i));
			for (w = 1; w < WORKERS; w++)
				sum += gradient(w, r, i);
			if (combine == TUTTI_PS_COMBINE_MEAN)
				sum /= WORKERS;
			if (combine != TUTTI_PS_EACH)
				step(&x[i], &v[i], sum);
		}
	}
}

/*
 * Workers in any order, pieces in any order; the values pulled after each clock are the oracle's.
 */
static int bsp_rounds(struct mp_job *job, struct tutti_ps *ps, struct tutti_ps_table *t,
		      int combine)
{
	float *u = malloc(N * sizeof(float)), *x = malloc(N * sizeof(float)),
	      *v = malloc(N * sizeof(float));
	float *got = malloc(N * sizeof(float));
	int round, w = job->rank - 2;
	struct tutti_request *req[2];
	size_t i;

	for (round = 0; round < ROUNDS; round++) {
		for (i = 0; i < N; i++)
			u[i] = gradient(w, round, i);
		mp_sleep_ms((job->rank * 7 + round * 5) % 11);
		MP_OK(tutti_ps_ipush(t, u + N / 3, N / 3, N - N / 3, TUTTI_FLOAT32, &req[0]));
		MP_OK(tutti_ps_ipush(t, u, 0, N / 3, TUTTI_FLOAT32, &req[1]));
		MP_OK(tutti_waitall(2, req));
		oracle(combine, round, x, v);
		MP_OK(tutti_ps_pull(t, got, 0, N, TUTTI_FLOAT32)); /* nothing of this clock yet */
		TT_EXPECT(!memcmp(got, x, N * sizeof(float)));
		MP_OK(tutti_ps_clock(ps));
		oracle(combine, round + 1, x, v);
		MP_OK(tutti_ps_pull(t, got, 0, N, TUTTI_FLOAT32));
		TT_EXPECT(!memcmp(got, x, N * sizeof(float)));
	}
	free(u);
	free(x);
	free(v);
	free(got);
	return 0;
}

/* A clock started while a pull is under way does not end before the pull. */
static int during_body(struct mp_job *job)
{
	struct tutti_ps_options opt = {.size = sizeof(opt), .init = TUTTI_PS_ZERO};
	size_t n = 1 << 21, i;
	float *v = malloc(n * sizeof(float)), one[1000];
	struct tutti_request *req[2];
	struct tutti_ps_table *t;
	struct tutti_ps *ps;
	int c;

	MP_OK(mp_ps_open(job, 1, 0, &ps));
	MP_OK(tutti_ps_dense(ps, "t", n, TUTTI_FLOAT32, &opt, &t));
	for (i = 0; i < 1000; i++)
		one[i] = 1;
	for (c = 0; c < 5 && job->rank; c++) {
		MP_OK(tutti_ps_push(t, one, n - 1000, 1000, TUTTI_FLOAT32));
		MP_OK(tutti_ps_ipull(t, v, 0, n, TUTTI_FLOAT32, &req[0]));
		MP_OK(tutti_ps_iclock(ps, &req[1]));
		MP_OK(tutti_waitall(2, req));
		TT_EXPECT(v[n - 1000] == (float)c && v[n - 1] == (float)c);
	}
	MP_OK(tutti_ps_close(ps));
	free(v);
	return 0;
}

/*
 * Rows without initial values exist for pulls from the end of the clock of the first push, also
 * for the worker that pushed them, in any order of workers.
 */
static int unset_body(struct mp_job *job)
{
	struct tutti_ps_table *t;
	struct tutti_ps *ps;
	uint64_t key[3];
	int64_t v[3][2];
	int c, i, w;

	MP_OK(mp_ps_open(job, 2, 0, &ps));
	MP_OK(tutti_ps_rows(ps, "r", 2, 1000, TUTTI_INT64, NULL, &t));
	for (c = 0; c < 20 && job->rank >= 2; c++) {
		w = c % WORKERS + 2; /* the worker that pushes first, and new rows alone */
		for (i = 0; i < 3; i++) {
			key[i] = (uint64_t)(i < 2 ? c * 10 + i : 7777);
			v[i][0] = v[i][1] = job->rank;
		}
		if (job->rank == w) {
			MP_OK(tutti_ps_push_rows(t, key, 3, v, TUTTI_INT64));
			MP_ERR(tutti_ps_pull_rows(t, key, 1, v, TUTTI_INT64), -ENOENT);
			atomic_store(&job->shared->word[0], c + 1);
		} else {
			TT_EXPECT(mp_await(&job->shared->word[0], c + 1, MP_HANG_MS));
			mp_sleep_ms(c % 3);
			MP_ERR(tutti_ps_pull_rows(t, key, 1, v, TUTTI_INT64), -ENOENT);
		}
		if (c % 2) { /* the lookup waits for the clock */
			struct tutti_request *req;

			MP_OK(tutti_ps_iclock(ps, &req));
			MP_OK(tutti_ps_pull_rows(t, key, 2, v, TUTTI_INT64));
			MP_OK(tutti_wait(&req));
		} else {
			MP_OK(tutti_ps_clock(ps));
			MP_OK(tutti_ps_pull_rows(t, key, 2, v, TUTTI_INT64));
		}
		for (i = 0; i < 2; i++)
			TT_EXPECT(v[i][0] == w && v[i][1] == w);
	}
	MP_OK(tutti_ps_close(ps));
	return 0;
}

static int bsp_body(struct mp_job *job)
{
	struct tutti_ps_options opt = {.size = sizeof(opt),
				       .rule = TUTTI_PS_MOMENTUM,
				       .rate = 0.05,
				       .init = TUTTI_PS_CONSTANT,
				       .init_a = 1,
				       .block = 8192};
	struct tutti_ps_table *t[TUTTI_PS_NUM_COMBINES];
	struct tutti_ps *ps;
	int c;

	MP_OK(mp_ps_open(job, 2, 0, &ps));
	for (c = 0; c < TUTTI_PS_NUM_COMBINES; c++) {
		opt.combine = c;
		MP_OK(tutti_ps_dense(ps, c ? c == 1 ? "sum" : "mean" : "each", N, TUTTI_FLOAT32,
				     &opt, &t[c]));
	}
	for (c = 0; c < TUTTI_PS_NUM_COMBINES && job->rank >= 2; c++)
		TT_EXPECT(!bsp_rounds(job, ps, t[c], c));
	MP_OK(tutti_ps_close(ps));
	return 0;
}

static void bsp(void)
{
	TT_CHECK(!MP_RUN(.n = 2 + WORKERS, .env = "TUTTI_TRANSPORT=shm", .fn = bsp_body));
	TT_CHECK(!MP_RUN(.n = 2, .env = "TUTTI_TRANSPORT=shm", .fn = during_body));
	TT_CHECK(!MP_RUN(.n = 2 + WORKERS, .env = "TUTTI_TRANSPORT=shm", .fn = unset_body));
	TT_CHECK(!MP_RUN(.n = 2 + WORKERS, .fn = unset_body,
			 .env = "TUTTI_TRANSPORT=fault:shm "
				"TUTTI_FAULT=seed=8,delay=0.2:200,reorder=0.4,again=0.2"));
	TT_CHECK(!MP_RUN(.n = 2 + WORKERS, .fn = bsp_body,
			 .env = "TUTTI_TRANSPORT=fault:shm "
				"TUTTI_FAULT=seed=8,delay=0.2:200,reorder=0.4,again=0.2"));
}

int main(int argc, char **argv)
{
	static const struct tt_test tests[] = {{"straggler_shm", straggler_shm},
					       {"straggler_ofi", straggler_ofi},
					       {"bsp", bsp},
					       {NULL, NULL}};

	return tt_test_main("ps_clock", tests, argc, argv);
}
