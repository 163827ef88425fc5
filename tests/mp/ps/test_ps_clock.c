/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The exact distance of workers; results of BSP, bit for bit; verdicts of the trace checker; and
 * refused calls.
 */
#include "config.h"

#include "tests/mp/job.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

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
			TT_EXPECT(mp_await(&job->shared->word[2], c - 1 + s, 10000));
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
			TT_EXPECT(mp_await(&job->shared->word[1], c - s, 5000));
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
			TT_EXPECT(mp_await(&job->shared->word[0], c + 1, 10000));
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

/* ---- the trace ---- */

static int traced_body(struct mp_job *job)
{
	struct tutti_ps_options opt = {.size = sizeof(opt), .init = TUTTI_PS_ZERO};
	struct tutti_ps_table *t;
	struct tutti_ps *ps;
	float v[3000] = {0};
	int c;

	MP_OK(mp_ps_open(job, 2, 2, &ps));
	MP_OK(tutti_ps_dense(ps, "t", 3000, TUTTI_FLOAT32, &opt, &t));
	for (c = 0; c < 20 && job->rank >= 2; c++) {
		MP_OK(tutti_ps_push(t, v, 0, 3000, TUTTI_FLOAT32));
		mp_sleep_ms(job->rank == 2);
		MP_OK(tutti_ps_clock(ps));
		MP_OK(tutti_ps_pull(t, v, 0, 3000, TUTTI_FLOAT32));
	}
	MP_OK(tutti_ps_close(ps));
	return 0;
}

/* Pulls with later pushes behind them, which are answered while blocks are read. */
static int overlap_body(struct mp_job *job)
{
	struct tutti_ps_options opt = {.size = sizeof(opt), .init = TUTTI_PS_ZERO};
	float *v = calloc(1 << 18, sizeof(*v)), *g = calloc(200, sizeof(*g));
	struct tutti_request *req[3];
	struct tutti_ps_table *t;
	struct tutti_ps *ps;
	int i;

	MP_OK(mp_ps_open(job, 1, 3, &ps));
	MP_OK(tutti_ps_dense(ps, "t", 1 << 18, TUTTI_FLOAT32, &opt, &t));
	for (i = 0; i < 60 && job->rank; i++) {
		MP_OK(tutti_ps_ipull(t, v, 0, 1 << 18, TUTTI_FLOAT32, &req[0]));
		MP_OK(tutti_ps_ipush(t, g, 0, 100, TUTTI_FLOAT32, &req[1]));
		MP_OK(tutti_ps_ipush(t, g, 100, 100, TUTTI_FLOAT32, &req[2]));
		MP_OK(tutti_waitall(3, req));
		if (i % 10 == 0)
			MP_OK(tutti_ps_clock(ps));
	}
	MP_OK(tutti_ps_close(ps));
	free(v);
	free(g);
	return 0;
}

/* The checker's verdict on the traces in dir, after `edit` has changed them. */
static int checked(const char *dir, const char *edit)
{
	char command[1024];

	snprintf(command, sizeof(command),
		 "rm -rf %s/x; mkdir %s/x && cp %s/t.* %s/x && cd %s/x && { %s; } && "
		 "\"$TT_BUILD\"/tutti_ps_check t.* >%s/out 2>&1",
		 dir, dir, dir, dir, dir, edit, dir);
	return WEXITSTATUS(system(command));
}

static void trace(void)
{
	char dir[] = "/tmp/tutti-ps-XXXXXX", env[200], command[100];

	if (!getenv("TT_BUILD"))
		setenv("TT_BUILD", ".", 1);
	if (getenv("TT_BUILD")[0] != '/') {
		static char cwd[400];

		setenv("TT_BUILD", getcwd(cwd, sizeof(cwd)) ? cwd : ".", 1);
	}
	TT_CHECK(mkdtemp(dir) != NULL);
	snprintf(env, sizeof(env), "TUTTI_TRANSPORT=shm TUTTI_PS_TRACE=%s/t", dir);
	TT_CHECK(!MP_RUN(.n = 5, .env = env, .fn = traced_body));
	TT_CHECK(checked(dir, "true") == 0);
	/* a worker went on three clocks ahead; a read is three clocks old */
	TT_CHECK(checked(dir, "sed -i 's/^clock 9 .*/clock 9 6/' t.1") == 1);
	TT_CHECK(checked(dir,
			 "sed -i -E 's/^(read [0-9]+ [0-9]+ [0-9]+) 12 [0-9]+/\\1 12 9/' t.2") ==
		 1);
	/* a read that claims a clock never announced, or announced later */
	TT_CHECK(checked(dir,
			 "sed -i -E 's/^(read [0-9]+ [0-9]+ [0-9]+) 12 [0-9]+/\\1 12 30/' t.0") ==
		 1);
	TT_CHECK(checked(dir,
			 "sed -i -E 's/^(read [0-9]+ [0-9]+ [0-9]+) 5 [0-9]+/\\1 5 15/' t.0") == 1);
	/* its own push is missing; a block gets older */
	TT_CHECK(checked(dir, "sed -i -E 's/^(read .*) ([0-9]+) [0-9]+ ([0-9]+)$/\\1 \\2 9999 "
			      "\\3/' t.0") == 1);
	TT_CHECK(checked(dir, "sed -i -E '/^read/{x;s/^/x/;/x{9}/{x;s/^(read [0-9]+ [0-9]+ [0-9]+ "
			      "[0-9]+ [0-9]+) "
			      "[0-9]+ [0-9]+/\\1 1 0/;x};x}' t.0") == 1);
	/* no whole traces of one run */
	TT_CHECK(checked(dir, "rm t.1") == 1);
	TT_CHECK(checked(dir, "truncate -s -3 t.1") == 1);
	TT_CHECK(checked(dir, "echo nonsense >> t.1") == 1);
	TT_CHECK(checked(dir, "cp t.0 t.1") == 1);
	/*
	 * a worker that died in the middle of a line is not waited for, but no read may contain a
	 * clock that it had not announced
	 */
	TT_CHECK(checked(dir, "sed -i '/^tick 10 /{s/.$//;q}' t.1; truncate -s -1 t.1") == 1);
	TT_CHECK(checked(dir,
			 "sed -i '/^tick 10 /q' t.1; truncate -s -1 t.1; echo dead 1 >> t.0") == 0);
	TT_CHECK(checked(dir,
			 "sed -i '/^tick 10 /q' t.1; truncate -s -1 t.1; echo dead 1 >> t.0; "
			 "sed -i -E 's/^(read [0-9]+ [0-9]+ [0-9]+) 5 [0-9]+/\\1 5 9/' t.0") == 1);
	snprintf(env, sizeof(env),
		 "TUTTI_TRANSPORT=fault:shm TUTTI_FAULT=seed=4,delay=0.5:2000,finish=1 "
		 "TUTTI_PS_TRACE=%s/t",
		 dir);
	TT_CHECK(!MP_RUN(.n = 3, .env = env, .fn = overlap_body));
	TT_CHECK(checked(dir, "rm t.2") == 0); /* of the job before */
	snprintf(command, sizeof(command), "rm -rf %s", dir);
	TT_CHECK(system(command) == 0);
}

/* ---- refused calls ---- */

/* Of opening: the same on all ranks, and the communicator is as good as before. */
static int open_refused(struct mp_job *job)
{
	struct tutti_ps_config c = {.size = sizeof(c), .role = TUTTI_PS_WORKER};
	struct tutti_ps *ps = NULL;

	MP_ERR(tutti_ps_open(job->world, &c, &ps), -EINVAL);
	MP_SAID("no rank is a server");
	c.role = job->rank ? TUTTI_PS_WORKER : TUTTI_PS_BOTH;
	c.workers = job->rank == 1 ? job->n - 1 : 0;
	MP_ERR(tutti_ps_open(job->world, &c, &ps), -EINVAL); /* more workers than declared */
	MP_SAID("rank 1 declared");
	c.workers = 0;
	c.staleness = job->rank == 2;
	MP_ERR(tutti_ps_open(job->world, &c, &ps), -TUTTI_EMISMATCH);
	MP_SAID("staleness");
	c.staleness = job->rank == 1 ? -2 : 0;
	MP_ERR(tutti_ps_open(job->world, &c, &ps), -EINVAL);
	MP_ERR(tutti_ps_open(NULL, &c, &ps), -EINVAL);
	TT_EXPECT(!ps);
	return 0;
}

static int tables_refused(struct mp_job *job, struct tutti_ps *ps)
{
	struct tutti_ps_options o = {.size = sizeof(o)}, bad = o;
	struct tutti_ps_table *t = NULL;

	MP_ERR(tutti_ps_dense(ps, "", 10, TUTTI_FLOAT32, &o, &t), -EINVAL);
	MP_ERR(tutti_ps_dense(ps, "t", 0, TUTTI_FLOAT32, &o, &t), -EINVAL);
	MP_ERR(tutti_ps_dense(ps, "t", SIZE_MAX, TUTTI_FLOAT32, &o, &t), -EINVAL);
	MP_ERR(tutti_ps_dense(ps, "t", 10, (enum tutti_datatype)77, &o, &t), -EINVAL);
	MP_ERR(tutti_ps_dense(ps, "t", 10u + (unsigned)job->rank, TUTTI_FLOAT32, &o, &t),
	       -TUTTI_EMISMATCH);
	MP_ERR(tutti_ps_dense(ps, job->rank ? "t" : "u", 10, TUTTI_FLOAT32, &o, &t),
	       -TUTTI_EMISMATCH);
	bad.rate = job->rank;
	MP_ERR(tutti_ps_dense(ps, "t", 10, TUTTI_FLOAT32, &bad, &t), -TUTTI_EMISMATCH);
	bad = o;
	bad.rule = TUTTI_PS_ADAM;
	MP_ERR(tutti_ps_dense(ps, "t", 10, TUTTI_INT32, &bad, &t), -EINVAL);
	MP_SAID("Adam");
	bad.rule = TUTTI_PS_CALLBACK;
	MP_ERR(tutti_ps_dense(ps, "t", 10, TUTTI_INT32, &bad, &t), -EINVAL);
	bad.rule = 99;
	MP_ERR(tutti_ps_dense(ps, "t", 10, TUTTI_INT32, &bad, &t), -EINVAL);
	bad = o;
	bad.combine = TUTTI_PS_COMBINE_SUM;
	MP_ERR(tutti_ps_dense(ps, "t", 10, TUTTI_INT32, &bad, &t), -EINVAL);
	MP_ERR(tutti_ps_rows(ps, "t", 1 << 20, 10, TUTTI_INT32, &o, &t), -EINVAL);
	bad = o;
	bad.block = 3; /* no element fits */
	MP_ERR(tutti_ps_dense(ps, "t", 100, TUTTI_FLOAT32, &bad, &t), -EINVAL);
	MP_SAID("options.block is 3 bytes");
	bad.block = 8; /* more blocks than can be counted */
	MP_ERR(tutti_ps_dense(ps, "t", (size_t)1 << 34, TUTTI_FLOAT32, &bad, &t), -EINVAL);
	MP_SAID("options.block, 8 bytes, is too small");
	/* more than the servers have */
	MP_ERR(tutti_ps_dense(ps, "t", (size_t)1 << 38, TUTTI_FLOAT32, &o, &t), -ENOMEM);
	TT_EXPECT(!t);
	return 0;
}

/* Of calls on tables; each leaves everything as it was. */
static int calls_refused(struct mp_job *job, struct tutti_ps *ps, struct tutti_ps_table *t,
			 struct tutti_ps_table *rows)
{
	struct tutti_request *req = NULL;
	struct tutti_ps_table *none = NULL;
	uint64_t key = 5, load;
	float v[100] = {0};

	MP_ERR(tutti_ps_find(ps, "nowhere", &none), -ENOENT);
	MP_ERR(tutti_ps_load(ps, 9, &load), -EINVAL);
	if (job->rank == 0) {
		MP_ERR(tutti_ps_pull(t, v, 0, 10, TUTTI_FLOAT32), -EPERM);
		MP_ERR(tutti_ps_clock(ps), -EPERM);
		return 0;
	}
	MP_ERR(tutti_ps_pull(NULL, v, 0, 10, TUTTI_FLOAT32), -EINVAL);
	MP_ERR(tutti_ps_pull(t, v, 0, 101, TUTTI_FLOAT32), -ERANGE);
	MP_ERR(tutti_ps_push(t, v, 100, 1, TUTTI_FLOAT32), -ERANGE);
	MP_ERR(tutti_ps_push(t, v, SIZE_MAX, 2, TUTTI_FLOAT32), -ERANGE);
	MP_ERR(tutti_ps_push(t, v, 0, 10, TUTTI_FLOAT64), -EINVAL);
	MP_SAID("float32, not float64");
	MP_ERR(tutti_ps_pull(t, NULL, 0, 10, TUTTI_FLOAT32), -EINVAL);
	MP_ERR(tutti_ps_ipull(t, v, 0, 10, TUTTI_FLOAT32, NULL), -EINVAL);
	MP_ERR(tutti_ps_ipush(rows, v, 0, 10, TUTTI_FLOAT32, &req), -EINVAL);
	MP_ERR(tutti_ps_pull_rows(t, &key, 1, v, TUTTI_FLOAT32), -EINVAL);
	MP_ERR(tutti_ps_set(t, v, 99, TUTTI_FLOAT32), -EINVAL);
	MP_ERR(tutti_ps_clock_to(ps, 6), -EINVAL);
	MP_SAID("can't go back");
	MP_ERR(tutti_ps_pull(t, v, 0, 10, TUTTI_FLOAT32), -ENODATA); /* before it is set */
	MP_ERR(tutti_ps_pull_rows(rows, &key, 1, v, TUTTI_FLOAT32), -ENOENT);
	TT_EXPECT(!req && !none);
	MP_OK(tutti_ps_pull(t, v, 5, 0, TUTTI_FLOAT32)); /* nothing of it */
	MP_OK(tutti_ps_pull_rows(rows, &key, 0, v, TUTTI_FLOAT32));
	return 0;
}

/* Refusals by a server only: reported by the call, or by the next. */
static int late_refused(struct mp_job *job, struct tutti_ps *ps, struct tutti_ps_table *t,
			struct tutti_ps_table *rows)
{
	struct tutti_error_info info = {.size = sizeof(info)};
	uint64_t key[200];
	float v[400] = {0};
	int i, err;

	if (job->rank != 1)
		return 0;
	MP_OK(tutti_ps_push(t, v, 0, 10, TUTTI_FLOAT32)); /* before it is set */
	do
		err = tutti_ps_clock_to(ps, 7);
	while (!err);
	MP_ERR(err, -ENODATA);
	MP_SAID("'t'");
	for (i = 0; i < 200; i++)
		key[i] = (uint64_t)i;
	MP_ERR(tutti_ps_push_rows(rows, key, 200, v, TUTTI_FLOAT32), -ENOSPC);
	MP_SAID("rank 0 refused new rows of table 'r': it has room for 20");
	MP_OK(tutti_last_error(&info));
	TT_EXPECT(info.rank == 0);
	MP_OK(tutti_ps_push_rows(rows, key, 10, v, TUTTI_FLOAT32)); /* there is room for these */
	MP_OK(tutti_ps_pull_rows(rows, key, 10, v, TUTTI_FLOAT32));
	for (i = 0; i < 100; i++)
		v[i] = (float)i;
	MP_OK(tutti_ps_set(t, v, 100, TUTTI_FLOAT32));
	MP_OK(tutti_ps_push_pull(t, v, v, 0, 100, TUTTI_FLOAT32));
	for (i = 0; i < 100; i++)
		TT_EXPECT(v[i] == (float)(2 * i));
	return 0;
}

static int refused_body(struct mp_job *job)
{
	struct tutti_ps_table *t, *rows, *again = NULL;
	struct tutti_request *req;
	struct tutti_ps *ps;

	TT_EXPECT(!open_refused(job));
	MP_OK(mp_ps_open(job, 1, 2, &ps));
	TT_EXPECT(!tables_refused(job, ps));
	MP_OK(tutti_ps_dense(ps, "t", 100, TUTTI_FLOAT32, NULL, &t));
	MP_OK(tutti_ps_rows(ps, "r", 2, 20, TUTTI_FLOAT32, NULL, &rows));
	MP_ERR(tutti_ps_dense(ps, "t", 100, TUTTI_FLOAT32, NULL, &again), -EEXIST);
	if (job->rank)
		MP_OK(tutti_ps_clock_to(ps, 7));
	TT_EXPECT(!calls_refused(job, ps, t, rows));
	MP_OK(tutti_barrier(job->world)); /* all workers are behind the refusals */
	TT_EXPECT(!late_refused(job, ps, t, rows));
	if (job->rank) {
		MP_OK(tutti_ps_iclock(ps, &req));
		MP_ERR(tutti_ps_close(ps), -EBUSY);
		MP_OK(tutti_wait(&req));
	}
	MP_ERR(tutti_finalize(job->ctx), -EBUSY);
	MP_OK(tutti_ps_close(ps));
	return 0;
}

/*
 * Under BSP a push is answered before it is applied; a later call, perhaps the close, reports its
 * refusal. *arg: whether there is a clock between.
 */
static int held_refused_body(struct mp_job *job)
{
	int clocks = *(int *)job->arg;
	struct tutti_ps_table *t, *rows;
	uint64_t key = 77;
	struct tutti_ps *ps;
	float v[10] = {0};
	int err = 0, end, i;

	MP_OK(mp_ps_open(job, 1, 0, &ps));
	MP_OK(tutti_ps_dense(ps, "t", 10, TUTTI_FLOAT32, NULL, &t));
	MP_OK(tutti_ps_rows(ps, "r", 2, 20, TUTTI_FLOAT32, NULL, &rows));
	if (job->rank == 2)
		MP_OK(tutti_ps_push(t, v, 0, 10, TUTTI_FLOAT32)); /* never set */
	/* requests behind a waiting push that the server can handle at once */
	if (job->rank == 2)
		MP_OK(tutti_ps_push_rows(rows, &key, 1, v, TUTTI_FLOAT32));
	mp_meet(job);
	if (job->rank == 1)
		mp_sleep_ms(50); /* rank 2's messages wait for this one's clock */
	for (i = 0; i < clocks && job->rank && !err; i++)
		err = tutti_ps_clock(ps);
	end = tutti_ps_close(ps);
	err = err ? err : end;
	if (job->rank != 2)
		MP_OK(err);
	else
		MP_ERR(err, -ENODATA);
	if (job->rank == 2)
		MP_SAID("no values yet");
	return 0;
}

/* A clock call that reports a refusal has moved the clock; any other call has done nothing. */
static int told_body(struct mp_job *job)
{
	struct tutti_ps_options opt = {.size = sizeof(opt), .init = TUTTI_PS_ZERO};
	struct tutti_ps_read read = {.size = sizeof(read)};
	struct tutti_error_info info = {.size = sizeof(info)};
	struct tutti_ps_table *t, *u;
	struct tutti_request *req;
	float v[10] = {1}, w[10];
	uint64_t clocks = 0;
	int err, pushes = 0;
	struct tutti_ps *ps;

	MP_OK(mp_ps_open(job, 1, 3, &ps));
	MP_OK(tutti_ps_dense(ps, "t", 10, TUTTI_FLOAT32, NULL, &t));
	MP_OK(tutti_ps_dense(ps, "u", 10, TUTTI_FLOAT32, &opt, &u));
	if (job->rank) {
		MP_OK(tutti_ps_push(t, v, 0, 10, TUTTI_FLOAT32)); /* never set */
		do {
			mp_sleep_ms(1);
			MP_OK(tutti_ps_iclock(ps, &req));
			err = tutti_wait(&req);
			clocks++;
		} while (!err && clocks < 1000);
		MP_ERR(err, -ENODATA);
		MP_SAID("table 't'");
		MP_OK(tutti_last_error(&info));
		TT_EXPECT(info.rank == 0);
		MP_OK(tutti_ps_push(t, v, 0, 10, TUTTI_FLOAT32));
		do {
			mp_sleep_ms(1);
			err = tutti_ps_push(u, v, 0, 10, TUTTI_FLOAT32);
			pushes += !err;
		} while (!err && pushes < 1000);
		MP_ERR(err, -ENODATA);
		MP_OK(tutti_ps_clock(ps));
		MP_OK(tutti_ps_pull(u, w, 0, 10, TUTTI_FLOAT32));
		TT_EXPECT(w[0] == (float)pushes);
		MP_OK(tutti_ps_last_read(u, &read));
		TT_EXPECT(read.clock == clocks + 1);
	}
	MP_OK(tutti_ps_close(ps));
	return 0;
}

static void refused(void)
{
	int clocks;

	TT_CHECK(!MP_RUN(.n = 3, .env = "TUTTI_TRANSPORT=shm", .fn = refused_body));
	TT_CHECK(!MP_RUN(.n = 2, .env = "TUTTI_TRANSPORT=shm", .fn = told_body));
	for (clocks = 0; clocks <= 2; clocks++)
		TT_CHECK(!MP_RUN(.n = 3, .env = "TUTTI_TRANSPORT=shm", .fn = held_refused_body,
				 .arg = &clocks));
}

/* ---- a rank dies: no rank hangs ---- */

static int dead_body(struct mp_job *job)
{
	struct tutti_ps_options opt = {.size = sizeof(opt), .init = TUTTI_PS_ZERO};
	int dies = 1, err = 0;
	struct tutti_ps_table *t;
	struct tutti_ps *ps;
	float *v = calloc(100000, sizeof(float));

	MP_OK(mp_ps_open(job, 2, 1, &ps));
	MP_OK(tutti_ps_dense(ps, "t", 100000, TUTTI_FLOAT32, &opt, &t));
	mp_meet(job);
	if (job->rank == dies) {
		mp_sleep_ms(50);
		kill(getpid(), SIGKILL);
	}
	while (job->rank >= 2 && !err) {
		err = tutti_ps_push_pull(t, v, v, 0, 100000, TUTTI_FLOAT32);
		if (!err)
			err = tutti_ps_clock(ps);
	}
	if (!err)
		err = tutti_ps_close(ps);
	else
		tutti_ps_close(ps);
	if (err != -TUTTI_EPEER)
		mp_failed(job, "the dead rank is the error", err, __FILE__, __LINE__);
	free(v);
	return err != -TUTTI_EPEER;
}

static void dead(void)
{
	TT_CHECK(!MP_RUN(.n = 4, .env = "TUTTI_TRANSPORT=shm", .fn = dead_body, .killed = 1u << 1));
}

/* ---- a worker dies: the others go on ---- */

#define LAST 40	  /* clocks of live workers */
#define WIDE 5000 /* elements, in several blocks */

struct dying {
	int staleness, signal, after_us;
	const char *env;
};

static void *die(void *arg)
{
	const struct dying *d = ((struct mp_job *)arg)->arg;

	usleep((unsigned)d->after_us);
	kill(getpid(), d->signal);
	return NULL;
}

/*
 * Element 0 counts the victim's pushes, the elements behind it those of all other workers, each of
 * which must be there exactly once. Within a block, all elements of a push of the victim are
 * there, or none.
 */
static int orphans(struct mp_job *job, const struct dying *d, struct tutti_ps *ps,
		   struct tutti_ps_table *t)
{
	int64_t *u = calloc(WIDE, sizeof(*u)), *v = calloc(WIDE, sizeof(*v));
	int victim = job->n - 1, lives = job->n - 3, c, i;
	struct tutti_ps_table *none;
	int64_t least;

	for (i = 0; i < WIDE; i++)
		u[i] = i % 2 ? 1 : job->rank == victim;
	for (c = 0; c < LAST || job->rank == victim; c++) {
		MP_OK(tutti_ps_push(t, u, 0, WIDE, TUTTI_INT64));
		MP_OK(tutti_ps_clock(ps));
		MP_OK(tutti_ps_pull(t, v, 0, WIDE, TUTTI_INT64));
		/* all that has come of clocks that have ended */
		least = (int64_t)lives * (c + 1 - (d->staleness > 0 ? d->staleness : 0));
		if (d->staleness < 0)
			least = job->rank == victim ? 0 : c + 1;
		for (i = 0; i < WIDE; i += 2)
			TT_EXPECT(v[i + 1] - v[i] >= least);
		mp_sleep_ms(1);
	}
	TT_EXPECT(mp_await(&job->shared->word[1], 1, 10000));
	MP_ERR(tutti_ps_dense(ps, "new", 10, TUTTI_INT64, NULL, &none), -TUTTI_EPEER);
	atomic_fetch_add(&job->shared->word[0], 1);
	TT_EXPECT(mp_await(&job->shared->word[0], lives, 10000));
	if (d->staleness > 0)
		MP_OK(tutti_ps_clock_to(ps, LAST + (uint64_t)d->staleness));
	if (d->staleness >= 0) {
		MP_OK(tutti_ps_pull(t, v, 0, WIDE, TUTTI_INT64));
		for (i = 0; i < WIDE; i += 2)
			TT_EXPECT(v[i + 1] - v[i] == (int64_t)lives * LAST);
	}
	free(u);
	free(v);
	return 0;
}

static int orphan_body(struct mp_job *job)
{
	struct tutti_ps_options opt = {.size = sizeof(opt), .init = TUTTI_PS_ZERO, .block = 8000};
	const struct dying *d = job->arg;
	struct tutti_ps_table *t;
	struct tutti_ps *ps;
	pthread_t thread;

	MP_OK(mp_ps_open(job, 2, d->staleness, &ps));
	MP_OK(tutti_ps_dense(ps, "t", WIDE, TUTTI_INT64, &opt, &t));
	mp_meet(job);
	if (job->rank == job->n - 1)
		TT_EXPECT(!pthread_create(&thread, NULL, die, job));
	else if (job->rank == 0) { /* the process that was killed is not there any more */
		mp_sleep_ms(d->after_us / 1000 + (d->signal == SIGSTOP ? 1500 : 200));
		atomic_store(&job->shared->word[1], 1);
	}
	if (job->rank >= 2)
		TT_EXPECT(!orphans(job, d, ps, t));
	MP_OK(tutti_ps_close(ps));
	if (d->signal == SIGSTOP && !job->rank)
		kill(atomic_load(&job->shared->pid[job->n - 1]), SIGKILL);
	return 0;
}

static void orphan(const char *env, int tries, int signal)
{
	static const int staleness[] = {0, 2, TUTTI_PS_ASYNC};
	struct dying d = {.signal = signal};
	int i;

	for (i = 0; i < tries; i++) {
		d.staleness = staleness[i % 3];
		d.after_us = (i * 7919) % 40000;
		if (MP_RUN(.n = 5, .env = env, .fn = orphan_body, .arg = &d, .killed = 1u << 4)) {
			fprintf(stderr, "staleness %d, after %d us\n", d.staleness, d.after_us);
			TT_CHECK(false);
		}
	}
}

static int tries(int usual)
{
	return getenv("TUTTI_TEST_TRIES") ? atoi(getenv("TUTTI_TEST_TRIES")) : usual;
}

static void worker_dies(void)
{
	orphan("TUTTI_TRANSPORT=shm", tries(6), SIGKILL);
	orphan("TUTTI_TRANSPORT=shm TUTTI_HEARTBEAT=100ms TUTTI_HEARTBEAT_LIMIT=1s", 1, SIGSTOP);
}

static void worker_dies_ofi(void)
{
	if (mp_no_ofi())
		TT_SKIP("%s", mp_no_ofi());
	orphan("TUTTI_TRANSPORT=ofi", tries(3), SIGKILL);
}

static void worker_dies_verbs(void)
{
	if (mp_no_verbs())
		TT_SKIP("%s", mp_no_verbs());
	orphan("TUTTI_TRANSPORT=verbs", 2, SIGKILL);
}

int main(int argc, char **argv)
{
	static const struct tt_test tests[] = {{"straggler_shm", straggler_shm},
					       {"straggler_ofi", straggler_ofi},
					       {"bsp", bsp},
					       {"trace", trace},
					       {"refused", refused},
					       {"dead", dead},
					       {"worker_dies", worker_dies},
					       {"worker_dies_ofi", worker_dies_ofi},
					       {"worker_dies_verbs", worker_dies_verbs},
					       {NULL, NULL}};

	return tt_test_main("ps_clock", tests, argc, argv);
}
