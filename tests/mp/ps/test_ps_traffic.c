/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Amount and time of traffic: reads of a pull; servers of different weight; pushes under a budget,
 * in the order of a serial oracle until the clock, and with exact sums.
 */
#include "config.h"

#include "tests/mp/job.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "lib/ps/ps.h"

/*
 * ---- what a pull reads of a block: with one get the head comes along, and what is between, if
 * that is not far ----
 */

#define BLOCK (1 << 16) /* elements */

/* A pull of count elements that begin here and are as they should be, by one get or two. */
static int read_once(struct mp_job *job, struct tutti_ps_table *t, float *v, size_t first,
		     size_t count, bool together)
{
	uint64_t before = mp_got_bytes(job),
		 want = 64 + (count + (together ? first % BLOCK : 0)) * sizeof(float);
	size_t i;

	for (i = 0; i < count + 2; i++)
		v[i] = -1;
	MP_OK(tutti_ps_pull(t, v + 1, first, count, TUTTI_FLOAT32));
	for (i = 0; i < count; i++)
		TT_EXPECT(v[1 + i] == (float)(first + i));
	TT_EXPECT(v[0] == -1 && v[1 + count] == -1);
	if (mp_got_bytes(job) - before != want)
		fprintf(stderr, "%zu from %zu: %llu bytes, not %llu\n", count, first,
			(unsigned long long)(mp_got_bytes(job) - before), (unsigned long long)want);
	TT_EXPECT(mp_got_bytes(job) - before == want);
	return 0;
}

static int reads_body(struct mp_job *job)
{
	static float v[3 * BLOCK];
	bool can = *(bool *)job->arg;
	struct tutti_ps_table *t;
	struct tutti_ps *ps;
	size_t i;

	MP_OK(mp_ps_open(job, 1, TUTTI_PS_ASYNC, &ps));
	MP_OK(tutti_ps_dense(ps, "t", 3 * BLOCK, TUTTI_FLOAT32, NULL, &t));
	for (i = 0; i < 3 * BLOCK; i++)
		v[i] = (float)i;
	if (job->rank) {
		MP_OK(tutti_ps_set(t, v, 3 * BLOCK, TUTTI_FLOAT32));
		MP_OK(tutti_ps_pull(t, v, 0, 3 * BLOCK,
				    TUTTI_FLOAT32)); /* from here on it is known where they are */
		TT_EXPECT(!read_once(job, t, v, BLOCK, BLOCK, can));
		TT_EXPECT(!read_once(job, t, v, BLOCK + 1, BLOCK - 1, can));
		TT_EXPECT(!read_once(job, t, v, BLOCK + 2032, 5000, can));
		TT_EXPECT(!read_once(job, t, v, BLOCK + 2033, 5000, false));
		TT_EXPECT(!read_once(job, t, v, 3 * BLOCK - 5000, 5000, false));
	}
	MP_OK(tutti_ps_close(ps));
	return 0;
}

/* Even on a slow machine no read takes so long that its stamp is read again. */
#define LONG " TUTTI_PS_GRACE=1000000"

static void reads(void)
{
	bool yes = true, no = false;

	TT_CHECK(!MP_RUN(.n = 2, .env = "TUTTI_TRANSPORT=shm" LONG, .fn = reads_body, .arg = &yes));
	TT_CHECK(!MP_RUN(.n = 2, .env = "TUTTI_TRANSPORT=fault:shm TUTTI_FAULT=max_put=5003" LONG,
			 .fn = reads_body, .arg = &yes));
	TT_CHECK(!MP_RUN(.n = 2, .env = "TUTTI_TRANSPORT=fault:shm TUTTI_FAULT=one_place=1" LONG,
			 .fn = reads_body, .arg = &no));
	if (!mp_no_ofi())
		TT_CHECK(!MP_RUN(.n = 2, .env = "TUTTI_TRANSPORT=ofi" LONG, .fn = reads_body,
				 .arg = &yes));
}

/* ---- for how long a slot is not written: shorter where all ranks share memory ---- */

static int grace_body(struct mp_job *job)
{
	struct tutti_ps *ps;

	MP_OK(mp_ps_open(job, 1, TUTTI_PS_ASYNC, &ps));
	TT_EXPECT(ps->grace_ns == *(uint64_t *)job->arg * 1000);
	MP_OK(tutti_ps_close(ps));
	return 0;
}

static void grace(void)
{
	uint64_t near = 20, far = 200, asked = 77;

	TT_CHECK(!MP_RUN(.n = 3, .env = "TUTTI_TRANSPORT=shm", .fn = grace_body, .arg = &near));
	TT_CHECK(!MP_RUN(.n = 3, .env = "TUTTI_TRANSPORT=shm TUTTI_PS_GRACE=77", .fn = grace_body,
			 .arg = &asked));
	if (!mp_no_ofi()) {
		TT_CHECK(!MP_RUN(.n = 2, .env = "TUTTI_TRANSPORT=ofi", .fn = grace_body,
				 .arg = &far));
		TT_CHECK(!MP_RUN(.n = 4,
				 .env = "TUTTI_TRANSPORT=shm,ofi TUTTI_IF=lo TUTTI_HOST_ID=h%h",
				 .fn = grace_body, .arg = &far));
	}
}

/* ---- weights: rank 0 only serves, and keeps three times what each of the two workers does ---- */

#define ELEMS (10 << 16)
#define KEYS 4000

static int use_tables(struct mp_job *job, struct tutti_ps *ps, struct tutti_ps_table *dense,
		      struct tutti_ps_table *rows)
{
	float *v = malloc(ELEMS * sizeof(float));
	uint64_t key[KEYS];
	int i;

	for (i = 0; i < ELEMS; i++)
		v[i] = (float)i;
	for (i = 0; i < KEYS; i++)
		key[i] = (uint64_t)i * i;
	MP_OK(tutti_ps_push(dense, v, 0, ELEMS, TUTTI_FLOAT32));
	MP_OK(tutti_ps_push_rows(rows, key, KEYS, v, TUTTI_FLOAT32));
	MP_OK(tutti_ps_clock(ps));
	memset(v, 0xff, ELEMS * sizeof(float));
	MP_OK(tutti_ps_pull(dense, v, 0, ELEMS, TUTTI_FLOAT32));
	for (i = 0; i < ELEMS; i++)
		TT_EXPECT(v[i] == 2 * (float)i);
	MP_OK(tutti_ps_pull_rows(rows, key, KEYS, v, TUTTI_FLOAT32));
	for (i = 0; i < KEYS; i++)
		TT_EXPECT(v[i] == 2 * (float)i);
	free(v);
	(void)job;
	return 0;
}

static int weights_body(struct mp_job *job)
{
	struct tutti_ps_config config = {.size = sizeof(config),
					 .weight = job->rank ? 2 : 6,
					 .role = job->rank ? TUTTI_PS_BOTH : TUTTI_PS_SERVER};
	struct tutti_ps_options zero = {.size = sizeof(zero), .init = TUTTI_PS_ZERO};
	struct tutti_ps_table *dense, *rows;
	struct tutti_ps *ps = NULL;
	uint64_t load[3];
	int k;

	config.weight = -1;
	MP_ERR(tutti_ps_open(job->world, &config, &ps), -EINVAL);
	MP_SAID("weight");
	config.weight = 65536;
	MP_ERR(tutti_ps_open(job->world, &config, &ps), -EINVAL);
	config.weight = job->rank ? 2 : 6;
	MP_OK(tutti_ps_open(job->world, &config, &ps));
	MP_OK(tutti_ps_dense(ps, "dense", ELEMS, TUTTI_FLOAT32, &zero, &dense));
	for (k = 0; k < 3; k++)
		MP_OK(tutti_ps_server_bytes(ps, k, &load[k]));
	TT_EXPECT(load[0] == 6 << 18 && load[1] == 2 << 18 && load[2] == 2 << 18);
	MP_OK(tutti_ps_rows(ps, "rows", 1, KEYS, TUTTI_FLOAT32, &zero, &rows));
	for (k = 0; k < 3; k++)
		MP_OK(tutti_ps_server_bytes(ps, k, &load[k]));
	TT_EXPECT(load[0] - (6 << 18) > 2 * (load[1] - (2 << 18)));
	if (job->rank)
		TT_EXPECT(!use_tables(job, ps, dense, rows));
	MP_OK(tutti_ps_close(ps));
	return 0;
}

static void weights(void)
{
	TT_CHECK(!MP_RUN(.n = 3, .env = "TUTTI_TRANSPORT=shm", .fn = weights_body));
}

/* ---- the order under a budget: a server that records pushes, and one worker ---- */

#define UNITS 300
#define ROW 4
#define PIECE 512 /* float32 in 2 KiB */
#define RATE 200  /* units a second */

struct ordered {
	bool rows, pulled;
	int units;
	struct tutti_ps *ps;
	struct tutti_ps_table *t;
};

static struct {
	atomic_int *n;
	float first[UNITS];
} noted;

static size_t unit_elems(const struct ordered *o)
{
	return o->rows ? ROW : PIECE;
}

/* Values and updates by unit; all updates differ, and all sums are exact. */
static float value_of(int unit)
{
	return 1 + (float)(unit * 7 % 23);
}

static float update_of(int unit)
{
	return (float)((unit * 101 % UNITS + 1) * (unit % 2 ? -1 : 1)) / 1024;
}

static void fill_units(void *value, uint64_t first, size_t count, enum tutti_datatype datatype,
		       void *arg)
{
	const struct ordered *o = arg;
	size_t i;

	(void)datatype;
	for (i = 0; i < count; i++)
		((float *)value)[i] = value_of((int)(o->rows ? first : (first + i) / PIECE));
}

static void note(void *value, const void *update, size_t count, enum tutti_datatype datatype,
		 void *arg)
{
	size_t i, each = unit_elems(arg);
	int n = atomic_load(noted.n);

	(void)datatype;
	for (i = 0; i < count; i++)
		((float *)value)[i] += ((const float *)update)[i];
	for (i = 0; i < count && n < UNITS; i += each) /* at the clock many pieces come together */
		noted.first[n++] = ((const float *)update)[i];
	atomic_store(noted.n, n);
}

static double pressure(const struct ordered *o, int unit)
{
	return fabs((double)update_of(unit)) / (o->pulled ? (double)value_of(unit) : 1);
}

static const struct ordered *sorting;

static int by_pressure(const void *a, const void *b)
{
	int x = *(const int *)a, y = *(const int *)b;
	double px = pressure(sorting, x), py = pressure(sorting, y);

	return px == py ? x - y : px < py ? 1 : -1;
}

/* The first ones as the oracle has them, then the rest; each once. */
static int check_order(const struct ordered *o, int first)
{
	int order[UNITS], i, j, seen = 0;

	for (i = 0; i < o->units; i++)
		order[i] = i;
	sorting = o;
	qsort(order, (size_t)o->units, sizeof(order[0]), by_pressure);
	TT_EXPECT(atomic_load(noted.n) == o->units);
	for (i = 0; i < first; i++)
		if (noted.first[i] != update_of(order[i]))
			return fprintf(stderr, "update %d of %d is %g, not %g\n", i, first,
				       (double)noted.first[i], (double)update_of(order[i])),
			       1;
	for (i = 0; i < o->units; i++) {
		for (j = 0; j < o->units && noted.first[j] != update_of(i); j++)
			;
		seen += j < o->units;
	}
	TT_EXPECT(seen == o->units);
	return 0;
}

static int push_ordered(struct mp_job *job, struct ordered *o, float *u, float *x)
{
	uint64_t key[UNITS];
	struct tutti_request *req = NULL;
	size_t each = unit_elems(o), n = (size_t)o->units * each, i;

	for (i = 0; i < (size_t)o->units; i++)
		key[i] = i;
	for (i = 0; i < n; i++)
		u[i] = update_of((int)(i / each));
	/* one by a wait for itself, one by a wait for all */
	if (o->pulled && o->rows)
		MP_OK(tutti_ps_pull_rows(o->t, key, (size_t)o->units, x, TUTTI_FLOAT32));
	else if (o->pulled)
		MP_OK(tutti_ps_ipull(o->t, x, 0, n, TUTTI_FLOAT32, &req));
	MP_OK(tutti_waitall(1, &req));
	if (o->rows)
		MP_OK(tutti_ps_push_rows(o->t, key, (size_t)o->units, u, TUTTI_FLOAT32));
	else
		MP_OK(tutti_ps_push(o->t, u, 0, n, TUTTI_FLOAT32));
	mp_sleep_ms(200); /* no call: it goes by itself */
	atomic_store(&job->shared->word[1], atomic_load(&job->shared->word[0]));
	MP_OK(tutti_ps_clock(o->ps));
	if (o->rows)
		MP_OK(tutti_ps_pull_rows(o->t, key, (size_t)o->units, x, TUTTI_FLOAT32));
	else
		MP_OK(tutti_ps_pull(o->t, x, 0, n, TUTTI_FLOAT32));
	for (i = 0; i < n; i++)
		TT_EXPECT(x[i] == value_of((int)(i / each)) + u[i]);
	return 0;
}

static int ordered_body(struct mp_job *job)
{
	struct ordered o = *(struct ordered *)job->arg;
	struct tutti_ps_options opt = {.size = sizeof(opt),
				       .init = TUTTI_PS_FILL,
				       .fill = fill_units,
				       .rule = TUTTI_PS_CALLBACK,
				       .update = note,
				       .arg = &o,
				       .budget = RATE * (double)(unit_elems(&o) * sizeof(float))};
	size_t bytes = (size_t)o.units * unit_elems(&o) * sizeof(float);
	double opened;
	int first;

	noted.n = &job->shared->word[0];
	opened = mp_now();
	MP_OK(mp_ps_open(job, 1, 1, &o.ps));
	if (o.rows)
		MP_OK(tutti_ps_rows(o.ps, "t", ROW, UNITS, TUTTI_FLOAT32, &opt, &o.t));
	else
		MP_OK(tutti_ps_dense(o.ps, "t", (size_t)o.units * PIECE, TUTTI_FLOAT32, &opt,
				     &o.t));
	if (job->rank) {
		float *u = malloc(bytes), *x = malloc(bytes);

		TT_EXPECT(!push_ordered(job, &o, u, x));
		free(u);
		free(x);
	}
	MP_OK(tutti_ps_close(o.ps));
	if (job->rank)
		return 0;
	first = atomic_load(&job->shared->word[1]);
	/*
	 * something has gone, and not more than was earned since the beginning and one that was
	 * begun
	 */
	TT_EXPECT(first > 0 && first <= RATE * (mp_now() - opened) + 1);
	return check_order(&o, first);
}

static void order(void)
{
	int rows, pulled;

	for (rows = 0; rows < 2; rows++)
		for (pulled = 0; pulled < 2; pulled++) {
			struct ordered o = {
				.rows = rows, .pulled = pulled, .units = rows ? UNITS : 120};

			TT_CHECK(!MP_RUN(.n = 2, .env = "TUTTI_TRANSPORT=shm", .fn = ordered_body,
					 .arg = &o));
		}
}

/*
 * ---- the sums under a budget: two servers, three workers, some clocks, and a push after the last
 * ----
 */

#define WIDE 3000
#define ROWS 500
#define CLOCKS 12

static uint64_t random_next(uint64_t *seed)
{
	*seed = *seed * 6364136223846793005ull + 1442695040888963407ull;
	return *seed >> 33;
}

/*
 * Parts of the dense table, and rows, some of them twice. total: what all that were pushed come
 * to.
 */
static int push_random(struct mp_job *job, struct tutti_ps_table *dense,
		       struct tutti_ps_table *rows, uint64_t *seed, int32_t *total,
		       int64_t *row_total)
{
	size_t offset = random_next(seed) % WIDE, count = random_next(seed) % (WIDE - offset) + 1,
	       i;
	int32_t u[WIDE];
	uint64_t key[ROWS];
	int64_t v[ROWS][2];

	for (i = 0; i < count; i++) {
		u[i] = (int32_t)(random_next(seed) % 2001) - 1000;
		total[offset + i] += u[i];
	}
	for (i = 0; i < ROWS / 4; i++) {
		key[i] = random_next(seed) % ROWS;
		v[i][0] = (int64_t)i - 60;
		v[i][1] = (int64_t)key[i];
		row_total[2 * key[i]] += v[i][0];
		row_total[2 * key[i] + 1] += v[i][1];
	}
	if (job) {
		MP_OK(tutti_ps_push(dense, u, offset, count, TUTTI_INT32));
		MP_OK(tutti_ps_push_rows(rows, key, ROWS / 4, v, TUTTI_INT64));
	}
	return 0;
}

static int all_pushes(struct mp_job *job, int worker, struct tutti_ps *ps,
		      struct tutti_ps_table *dense, struct tutti_ps_table *rows, int32_t *total,
		      int64_t *row_total)
{
	uint64_t seed = (uint64_t)worker + 1;
	int32_t x[WIDE];
	int c, i;

	for (c = 0; c <= CLOCKS; c++) {
		for (i = 0; i < 3; i++)
			TT_EXPECT(!push_random(job, dense, rows, &seed, total, row_total));
		if (!job || c == CLOCKS)
			continue;
		MP_OK(tutti_ps_pull(dense, x, 0, WIDE, TUTTI_INT32));
		if ((c + worker) % 3 == 0)
			mp_sleep_ms(5);
		MP_OK(tutti_ps_clock(ps));
	}
	return 0;
}

static int sums_body(struct mp_job *job)
{
	int staleness = *(int *)job->arg, w, i;
	struct tutti_ps_options opt = {.size = sizeof(opt), .init = TUTTI_PS_ZERO, .budget = 1e6};
	static int32_t total[WIDE], x[WIDE];
	static int64_t row_total[2 * ROWS], y[2 * ROWS];
	struct tutti_ps_table *dense, *rows;
	uint64_t key[ROWS];
	struct tutti_ps *ps;

	MP_OK(mp_ps_open(job, 2, staleness, &ps));
	MP_OK(tutti_ps_dense(ps, "dense", WIDE, TUTTI_INT32, &opt, &dense));
	MP_OK(tutti_ps_rows(ps, "rows", 2, ROWS, TUTTI_INT64, &opt, &rows));
	for (i = 0; i < ROWS; i++)
		key[i] = (uint64_t)i;
	if (job->rank == 4) { /* reads until all is there, which the others' leaving brings */
		for (w = 0; w < 2; w++)
			TT_EXPECT(!all_pushes(NULL, w, ps, dense, rows, total, row_total));
		MP_OK(tutti_ps_clock_to(ps, CLOCKS + 1));
		for (w = 0; w < 2000 &&
			    (!w || memcmp(x, total, sizeof(x)) || memcmp(y, row_total, sizeof(y)));
		     w++) {
			MP_OK(tutti_ps_pull(dense, x, 0, WIDE, TUTTI_INT32));
			MP_OK(tutti_ps_pull_rows(rows, key, ROWS, y, TUTTI_INT64));
			mp_sleep_ms(1);
		}
		TT_EXPECT(!memcmp(x, total, sizeof(x)) && !memcmp(y, row_total, sizeof(y)));
	} else if (job->rank >= 2) {
		TT_EXPECT(!all_pushes(job, job->rank - 2, ps, dense, rows, total, row_total));
	}
	MP_OK(tutti_ps_close(ps));
	return 0;
}

static void sums(void)
{
	int s;

	for (s = TUTTI_PS_ASYNC; s <= 1; s++) {
		TT_CHECK(!MP_RUN(.n = 5, .env = "TUTTI_TRANSPORT=shm", .fn = sums_body, .arg = &s));
		TT_CHECK(!MP_RUN(.n = 5, .fn = sums_body, .arg = &s,
				 .env = "TUTTI_TRANSPORT=fault:shm "
					"TUTTI_FAULT=seed=5,delay=0.1:100,reorder=0.3,again=0.2"));
	}
	if (!mp_no_ofi())
		TT_CHECK(!MP_RUN(.n = 5, .env = "TUTTI_TRANSPORT=ofi", .fn = sums_body, .arg = &s));
}

/* ---- files contain all earlier pushes, which are not sent again ---- */

static int files_body(struct mp_job *job)
{
	struct tutti_ps_options opt = {.size = sizeof(opt), .init = TUTTI_PS_ZERO, .budget = 3e4};
	static int32_t u[WIDE], x[WIDE];
	struct tutti_ps_table *t;
	struct tutti_ps *ps;
	char path[80];
	int i;

	snprintf(path, sizeof(path), "%s/x", job->shared->dir);
	MP_OK(mp_ps_open(job, 1, TUTTI_PS_ASYNC, &ps));
	MP_OK(tutti_ps_dense(ps, "t", WIDE, TUTTI_INT32, &opt, &t));
	for (i = 0; i < WIDE; i++)
		u[i] = i;
	if (job->rank) {
		MP_OK(tutti_ps_push(t, u, 0, WIDE, TUTTI_INT32));
		MP_OK(tutti_ps_save(ps, path));
		MP_OK(tutti_ps_push(t, u, 0, WIDE, TUTTI_INT32));
		MP_OK(tutti_ps_restore(ps, path));
		MP_OK(tutti_ps_clock(ps));
		atomic_fetch_add(&job->shared->word[0], 1);
		TT_EXPECT(mp_await(&job->shared->word[0], 2, 20000));
		MP_OK(tutti_ps_pull(t, x, 0, WIDE, TUTTI_INT32));
		for (i = 0; i < WIDE; i++)
			TT_EXPECT(x[i] == 2 * u[i]);
	}
	MP_OK(tutti_ps_close(ps));
	return 0;
}

static void files(void)
{
	TT_CHECK(!MP_RUN(.n = 3, .env = "TUTTI_TRANSPORT=shm", .fn = files_body));
}

/* ---- refused calls ---- */

static int refused_body(struct mp_job *job)
{
	struct tutti_ps_options good = {.size = sizeof(good), .init = TUTTI_PS_ZERO, .budget = 1e4},
				o = good;
	float u[8] = {1, 2, 3, 4, 5, 6, 7, 8}, x[8];
	uint64_t key[5] = {1, 2, 3, 4, 5};
	struct tutti_ps_table *t = NULL;
	struct tutti_ps *ps;

	MP_OK(mp_ps_open(job, 1, 0, &ps));
	o.budget = -1;
	MP_ERR(tutti_ps_dense(ps, "t", 8, TUTTI_FLOAT32, &o, &t), -EINVAL);
	MP_SAID("budget");
	o.budget = NAN;
	MP_ERR(tutti_ps_dense(ps, "t", 8, TUTTI_FLOAT32, &o, &t), -EINVAL);
	o = good;
	o.n_push = 2;
	MP_ERR(tutti_ps_dense(ps, "t", 8, TUTTI_FLOAT32, &o, &t), -EINVAL);
	o = good;
	o.rule = TUTTI_PS_ASSIGN;
	MP_ERR(tutti_ps_dense(ps, "t", 8, TUTTI_FLOAT32, &o, &t), -EINVAL);
	o = good;
	o.budget = job->rank == 1 ? 2e4 : 1e4;
	MP_ERR(tutti_ps_dense(ps, "t", 8, TUTTI_FLOAT32, &o, &t), -TUTTI_EMISMATCH);
	TT_EXPECT(!t);
	MP_OK(tutti_ps_rows(ps, "t", 1, 4, TUTTI_FLOAT32, &good, &t));
	if (job->rank) {
		MP_ERR(tutti_ps_push_rows(t, key, 5, u, TUTTI_FLOAT32), -ENOSPC); /* none of them */
		MP_OK(tutti_ps_push_rows(t, key, 4, u, TUTTI_FLOAT32));
		MP_OK(tutti_ps_clock(ps));
		MP_OK(tutti_ps_pull_rows(t, key, 4, x, TUTTI_FLOAT32));
		TT_EXPECT(x[0] == 2 && x[3] == 8);
	}
	MP_OK(tutti_ps_close(ps));
	return 0;
}

static void refused(void)
{
	TT_CHECK(!MP_RUN(.n = 3, .env = "TUTTI_TRANSPORT=shm", .fn = refused_body));
}

int main(int argc, char **argv)
{
	static const struct tt_test tests[] = {
		{"reads", reads}, {"grace", grace}, {"weights", weights}, {"order", order},
		{"sums", sums},	  {"files", files}, {"refused", refused}, {NULL, NULL}};

	return tt_test_main("ps_traffic", tests, argc, argv);
}
