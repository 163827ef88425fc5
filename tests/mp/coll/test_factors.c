/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * All-reduces of matrices that travel as factors: the bits of a serial oracle, on any number of
 * ranks and at every level of instructions; the bytes sent, and which way is chosen; refused
 * arguments, ranks that differ, deaths.
 */
#include "config.h"

#include "tests/mp/job.h"

#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <unistd.h>

#include "lib/lowrank/lowrank.h"
#include "lib/lowrank/matrix.h"

#define SHM "TUTTI_TRANSPORT=shm "
#define OFI "TUTTI_TRANSPORT=ofi TUTTI_IF=lo "
#define VERBS "TUTTI_TRANSPORT=verbs"
#define FAULT                                                                                      \
	"TUTTI_TRANSPORT=fault:shm "                                                               \
	"TUTTI_FAULT=seed=5,delay=0.1:100,reorder=0.3,again=0.2,max_put=70001"
#define MAX_N 5
#define GATHER TUTTI_FACTORS_GATHER
#define DENSE TUTTI_FACTORS_DENSE

struct shape {
	size_t rows, cols, k;
};

/* Around the tiles, more outer products than one part has, k above both, and nothing at all. */
static const struct shape shapes[] = {
	{1, 1, 1},     {7, 5, 3},    {6, 16, 2},  {12, 64, 4}, {13, 65, 9},   {241, 130, 7},
	{60, 31, 90},  {3, 200, 33}, {200, 3, 1}, {5, 9, 40},  {300, 100, 1}, {8, 8, 0},
	{13, 70, 300}, {0, 5, 2},    {5, 0, 2},	  {0, 0, 0},
};
#define SHAPES (sizeof(shapes) / sizeof(shapes[0]))

static float value(unsigned seed, int rank, size_t i)
{
	uint32_t h = seed * 2654435761u + (uint32_t)rank * 40503u + (uint32_t)i * 2246822519u;

	h ^= h >> 15;
	h *= 2246822519u;
	h ^= h >> 13;
	return ((float)(h % 20001) - 10000) / (h % 7 ? 1000.0f : 30.0f);
}

static void fill(float *v, unsigned seed, int rank, size_t count)
{
	size_t i;

	for (i = 0; i < count; i++)
		v[i] = value(seed, rank, i);
}

/* ---- values ---- */

struct factors {
	struct shape s;
	float *u[MAX_N], *v[MAX_N], *out;
};

static int factors_new(struct factors *f, struct shape s, int n)
{
	int r;

	*f = (struct factors){.s = s, .out = malloc((s.rows * s.cols + 1) * 4)};
	TT_EXPECT(f->out != NULL);
	for (r = 0; r < n; r++) {
		f->u[r] = malloc((s.k * s.rows + 1) * 4);
		f->v[r] = malloc((s.k * s.cols + 1) * 4);
		TT_EXPECT(f->u[r] && f->v[r]);
		fill(f->u[r], 1, r, s.k * s.rows);
		fill(f->v[r], 2, r, s.k * s.cols);
	}
	return 0;
}

static void factors_free(struct factors *f, int n)
{
	int r;

	for (r = 0; r < n; r++) {
		free(f->u[r]);
		free(f->v[r]);
	}
	free(f->out);
}

/* Element (i, j) over ranks from to below to, in order; *size: of the magnitudes. */
static float element(const struct factors *f, int from, int to, size_t i, size_t j, double *exact,
		     double *size)
{
	volatile float term; /* never a fused operation */
	float sum = 0;
	size_t l;
	int r;

	for (r = from; r < to; r++)
		for (l = 0; l < f->s.k; l++) {
			float a = f->u[r][l * f->s.rows + i], b = f->v[r][l * f->s.cols + j];

			term = a * b;
			sum += term;
			*exact += (double)a * (double)b;
			*size += fabs((double)a * (double)b);
		}
	return sum;
}

/* gathered: the bits of adding all in order; else close to it. */
static int check_result(const struct factors *f, int n, bool avg, bool gathered)
{
	double exact, size, part = avg ? n : 1;
	size_t i, j;
	float sum, got;

	for (i = 0; i < f->s.rows; i++)
		for (j = 0; j < f->s.cols; j++) {
			exact = size = 0;
			sum = element(f, 0, n, i, j, &exact, &size);
			got = f->out[i * f->s.cols + j];
			if (gathered)
				TT_EXPECT(got == (avg ? sum / (float)n : sum));
			TT_EXPECT(fabs((double)got - exact / part) <= 1e-6 * size / part);
		}
	return 0;
}

static int values_body(struct mp_job *job)
{
	static const unsigned ways[] = {GATHER, DENSE, 0};
	struct factors f;
	size_t s;
	int way, avg;

	for (s = 0; s < SHAPES; s++) {
		TT_EXPECT(!factors_new(&f, shapes[s], job->n));
		for (way = 0; way < 3; way++)
			for (avg = 0; avg < 2; avg++) {
				memset(f.out, 0xee, f.s.rows * f.s.cols * 4);
				MP_OK(tutti_allreduce_factors(
					f.u[job->rank], f.v[job->rank], f.out, f.s.rows, f.s.cols,
					f.s.k, avg ? TUTTI_AVG : TUTTI_SUM, ways[way], job->world));
				TT_EXPECT(!check_result(&f, job->n, avg, !way));
			}
		factors_free(&f, job->n);
	}
	return 0;
}

static void values_shm(void)
{
	int n;

	for (n = 1; n <= MAX_N; n++)
		TT_CHECK(!MP_RUN(.n = n, .env = SHM, .fn = values_body));
	TT_CHECK(!MP_RUN(.n = 4, .env = "TUTTI_HOST_ID=h%h", .fn = values_body));
	TT_CHECK(!MP_RUN(.n = 2, .env = SHM "TUTTI_THREAD=on TUTTI_CHECKSUM=1", .fn = values_body));
}

static void values_fault(void)
{
	TT_CHECK(!MP_RUN(.n = 3, .env = FAULT, .fn = values_body));
}

static void values_ofi(void)
{
	int n;

	if (mp_no_ofi())
		TT_SKIP("%s", mp_no_ofi());
	for (n = 2; n <= MAX_N; n++)
		TT_CHECK(!MP_RUN(.n = n, .env = OFI, .fn = values_body));
}

/* Every level gives the bits of the serial loop. */
static int levels_body(struct mp_job *job)
{
	struct tt_outer outer;
	struct factors f;
	size_t s;
	int level;

	for (level = 0; level < TT_REDUCE_LEVELS; level++) {
		if (!tt_reduce_use((enum tt_reduce_level)level))
			continue;
		for (s = 0; s < SHAPES; s++) {
			TT_EXPECT(!factors_new(&f, shapes[s], 1));
			outer = (struct tt_outer){.u = f.u[0],
						  .v = f.v[0],
						  .ustep = f.s.rows,
						  .out = f.out,
						  .rows = f.s.rows,
						  .cols = f.s.cols,
						  .k = f.s.k,
						  .divisor = 1};
			TT_EXPECT(!tt_matrix_outer(outer));
			TT_EXPECT(!check_result(&f, 1, false, true));
			factors_free(&f, 1);
		}
	}
	return 0;
}

static void levels(void)
{
	TT_CHECK(!MP_RUN(.n = 1, .env = SHM, .fn = levels_body));
}

/* ---- bytes and choice ---- */

/* Bytes that this rank puts in a call. */
static int sent_bytes(struct mp_job *job, struct shape s, unsigned flags, uint64_t least,
		      uint64_t *sent)
{
	struct tutti_stats a = {.size = sizeof(a)}, b = {.size = sizeof(b)};
	struct factors f;
	int i;

	TT_EXPECT(!factors_new(&f, s, job->n));
	mp_meet(job);
	mp_sleep_ms(50);
	MP_OK(tutti_stats_get(job->ctx, &a));
	MP_OK(tutti_allreduce_factors(f.u[job->rank], f.v[job->rank], f.out, s.rows, s.cols, s.k,
				      TUTTI_SUM, flags, job->world));
	for (i = 0; i < 2000; i++) {
		MP_OK(tutti_stats_get(job->ctx, &b));
		if (b.put_bytes - a.put_bytes >= least)
			break;
		mp_sleep_ms(1);
	}
	mp_meet(job);
	mp_sleep_ms(50);
	MP_OK(tutti_stats_get(job->ctx, &b));
	*sent = b.put_bytes - a.put_bytes;
	factors_free(&f, job->n);
	return 0;
}

/* (n - 1) K (M + N) elements of gathered factors, and nothing else. */
static int bytes_body(struct mp_job *job)
{
	static const struct shape s = {700, 300, 8};
	uint64_t expect = (uint64_t)(job->n - 1) * s.k * (s.rows + s.cols) * 4, sent;

	TT_EXPECT(!sent_bytes(job, s, GATHER, 0, &sent)); /* connects */
	TT_EXPECT(!sent_bytes(job, s, GATHER, expect, &sent));
	if (sent != expect)
		fprintf(stderr, "rank %d of %d put %llu bytes, not %llu\n", job->rank, job->n,
			(unsigned long long)sent, (unsigned long long)expect);
	TT_EXPECT(sent == expect);
	return 0;
}

/* By the model of hosts on 10 Gbit/s: a few outer products are gathered, many are not. */
static int choice_body(struct mp_job *job)
{
	static const struct {
		struct shape s;
		bool gathers;
	} cases[] = {
		{{1024, 1024, 1}, true}, {{2048, 1024, 4}, true},  {{1024, 1024, 1024}, false},
		{{64, 64, 64}, false},	 {{512, 512, 100}, false}, {{1, 1000, 1}, false},
		{{512, 512, 0}, true},
	};
	struct tt_factors f = {.op = TUTTI_SUM};
	uint64_t few, sent;
	bool gather;
	size_t i;

	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		f.rows = cases[i].s.rows, f.cols = cases[i].s.cols, f.k = cases[i].s.k;
		MP_OK(tt_factors_gather(job->world, &f, &gather));
		if (gather != cases[i].gathers)
			fprintf(stderr, "case %zu\n", i);
		TT_EXPECT(gather == cases[i].gathers);
	}
	few = 3 * 1 * 2048 * 4;
	TT_EXPECT(!sent_bytes(job, cases[0].s, 0, 0, &sent));
	TT_EXPECT(!sent_bytes(job, cases[0].s, 0, few, &sent));
	TT_EXPECT(sent == few);
	TT_EXPECT(!sent_bytes(job, cases[3].s, 0, 0, &sent));
	return 0;
}

static void counted(void)
{
	int n;

	if (mp_no_ofi())
		TT_SKIP("%s", mp_no_ofi());
	for (n = 2; n <= 4; n++)
		TT_CHECK(!MP_RUN(.n = n, .env = OFI "TUTTI_HOST_ID=h%r", .fn = bytes_body));
	TT_CHECK(!MP_RUN(.n = 4, .env = OFI "TUTTI_HOST_ID=h%r", .fn = choice_body));
}

/* ---- refusals ---- */

static int refused(struct mp_job *job, const struct tt_factors *f, const char *word)
{
	int err = tutti_allreduce_factors(f->u, f->v, f->result, f->rows, f->cols, f->k, f->op,
					  f->flags, job->world);

	if (err != -EINVAL || !mp_said(word)) {
		mp_failed(job, word, err, __FILE__, __LINE__);
		return 1;
	}
	return 0;
}

static int refusals_body(struct mp_job *job)
{
	float u[6] = {1, 1, 1, 1, 1, 1}, v[4] = {1, 1, 1, 1}, out[6];
	const struct tt_factors good = {u, v, out, 3, 2, 2, TUTTI_SUM, 0};
	struct tt_factors bad;

	bad = good, bad.op = TUTTI_MAX;
	TT_EXPECT(!refused(job, &bad, "sum or avg"));
	bad = good, bad.flags = 4;
	TT_EXPECT(!refused(job, &bad, "flags is 0x4"));
	bad = good, bad.flags = GATHER | DENSE;
	TT_EXPECT(!refused(job, &bad, "flags is 0x3"));
	bad = good, bad.rows = SIZE_MAX / 2, bad.cols = 4;
	TT_EXPECT(!refused(job, &bad, "does not fit in memory"));
	bad = good, bad.rows = (size_t)1 << 31, bad.cols = (size_t)1 << 31;
	TT_EXPECT(!refused(job, &bad, "does not fit in memory"));
	bad = good, bad.k = SIZE_MAX / 4;
	TT_EXPECT(!refused(job, &bad, "do not fit in memory"));
	bad = good, bad.rows = SIZE_MAX, bad.cols = 0;
	TT_EXPECT(!refused(job, &bad, "do not fit in memory"));
	bad = good, bad.k = TUTTI_OPAQUE_MAX / 4 + 1, bad.flags = GATHER;
	TT_EXPECT(!refused(job, &bad, "outer products travel"));
	bad = good, bad.u = NULL;
	TT_EXPECT(!refused(job, &bad, "u is NULL"));
	bad = good, bad.v = NULL;
	TT_EXPECT(!refused(job, &bad, "v is NULL"));
	bad = good, bad.result = NULL;
	TT_EXPECT(!refused(job, &bad, "result is NULL"));
	bad = good, bad.result = u + 5;
	TT_EXPECT(!refused(job, &bad, "overlaps"));
	bad = good, bad.v = out + 5;
	TT_EXPECT(!refused(job, &bad, "overlaps"));
	MP_ERR(tutti_allreduce_factors(u, v, out, 3, 2, 2, TUTTI_SUM, 0, NULL), -EINVAL);
	MP_OK(tutti_group_start());
	TT_EXPECT(!refused(job, &good, "tutti_group_start"));
	MP_OK(tutti_group_end());
	MP_OK(tutti_allreduce_factors(u, v, out, 3, 2, 2, TUTTI_SUM, 0, job->world));
	TT_EXPECT(out[0] == (float)(2 * job->n) && out[5] == (float)(2 * job->n));
	return 0;
}

static void refusals(void)
{
	TT_CHECK(!MP_RUN(.n = 2, .env = SHM, .fn = refusals_body));
}

/* ---- ranks that differ, deaths ---- */

static int differ_body(struct mp_job *job)
{
	struct tutti_error_info info = {.size = sizeof(info)};
	const struct tt_factors *of = job->arg, *f = &of[job->rank == 1];
	float *u = calloc(4096, 4), *v = calloc(4096, 4), *out = calloc(4096, 4);
	int err;

	TT_EXPECT(u && v && out);
	err = tutti_allreduce_factors(u, v, out, f->rows, f->cols, f->k, f->op, f->flags,
				      job->world);
	if (!err) /* its part was complete before the others' */
		err = tutti_barrier(job->world);
	MP_ERR(err, -TUTTI_EMISMATCH);
	MP_OK(tutti_comm_error(job->world, &info));
	if (!strstr(info.text, "disagree on"))
		fprintf(stderr, "%s\n", info.text);
	TT_EXPECT(strstr(info.text, "disagree on"));
	mp_leave(job);
	free(u);
	free(v);
	free(out);
	return 0;
}

static void differ(void)
{
	static const struct tt_factors usual = {NULL, NULL, NULL, 32, 32, 8, TUTTI_SUM, GATHER};
	struct tt_factors f[10][2];
	int i;

	for (i = 0; i < 10; i++)
		f[i][0] = f[i][1] = usual;
	f[0][1].rows = 33;
	f[1][1].cols = 31;
	f[2][1].k = 9;
	f[3][1].op = TUTTI_AVG;
	f[4][1].flags = DENSE;
	f[5][0].rows = 16, f[5][1].cols = 16; /* as many elements */
	f[6][1].rows = f[6][1].cols = 16, f[6][1].k = 16;
	f[7][0] = f[6][0], f[7][1] = f[6][1];
	f[7][0].op = f[7][1].op = TUTTI_AVG;
	for (i = 8; i < 10; i++) { /* dense, as many elements */
		f[i][0].flags = f[i][1].flags = DENSE;
		f[i][0].rows = f[i][1].cols = 16;
	}
	f[9][0].op = f[9][1].op = TUTTI_AVG;
	for (i = 0; i < 10; i++) {
		TT_CHECK(!MP_RUN(.n = 3, .env = SHM "TUTTI_LATE_AFTER=300", .fn = differ_body,
				 .arg = f[i]));
		if (!mp_no_ofi())
			TT_CHECK(!MP_RUN(.n = 3, .env = OFI "TUTTI_LATE_AFTER=300",
					 .fn = differ_body, .arg = f[i]));
	}
}

#define SIDE 300
#define PRODUCTS 16

/* Calls until one fails; rank 1 ends in the middle of one. Returns the code. */
static int until_death(struct mp_job *job, struct tutti_comm *comm, unsigned flags, float *u,
		       float *v, float *out)
{
	int t, err = 0;

	for (t = 0; t < 100000 && !err; t++) {
		if (job->rank == 1 && t == 20)
			kill(getpid(), SIGKILL);
		err = tutti_allreduce_factors(u, v, out, SIDE, SIDE, PRODUCTS, TUTTI_SUM, flags,
					      comm);
	}
	return err;
}

/* The living go on in what tutti_comm_shrink makes. */
static int death_body(struct mp_job *job)
{
	float *u = malloc(SIDE * PRODUCTS * 4), *v = malloc(SIDE * PRODUCTS * 4),
	      *out = malloc(SIDE * SIDE * 4);
	unsigned flags = *(unsigned *)job->arg;
	struct tutti_comm *living;
	size_t i;

	TT_EXPECT(u && v && out);
	for (i = 0; i < SIDE * PRODUCTS; i++)
		u[i] = v[i] = 1;
	MP_ERR(until_death(job, job->world, flags, u, v, out), -TUTTI_EPEER);
	MP_OK(tutti_comm_shrink(job->world, &living));
	MP_OK(tutti_allreduce_factors(u, v, out, SIDE, SIDE, PRODUCTS, TUTTI_SUM, flags, living));
	for (i = 0; i < SIDE * SIDE; i++)
		TT_EXPECT(out[i] == (float)(PRODUCTS * (job->n - 1)));
	MP_OK(tutti_comm_free(living));
	free(u);
	free(v);
	free(out);
	mp_leave(job);
	return 0;
}

static void death(void)
{
	static unsigned ways[] = {GATHER, DENSE};
	int i;

	for (i = 0; i < 2; i++) {
		TT_CHECK(!MP_RUN(.n = 3, .env = SHM, .fn = death_body, .killed = 2,
				 .arg = &ways[i]));
		TT_CHECK(!MP_RUN(.n = 3, .env = SHM "TUTTI_TOLERANT=1", .fn = death_body,
				 .killed = 2, .arg = &ways[i]));
		if (mp_no_ofi())
			continue;
		TT_CHECK(!MP_RUN(.n = 3, .env = OFI, .fn = death_body, .killed = 2,
				 .arg = &ways[i]));
		TT_CHECK(!MP_RUN(.n = 3, .env = OFI "TUTTI_TOLERANT=1", .fn = death_body,
				 .killed = 2, .arg = &ways[i]));
	}
}

static void verbs(void)
{
	static unsigned gather = GATHER;

	if (mp_no_verbs())
		TT_SKIP("%s", mp_no_verbs());
	TT_CHECK(!MP_RUN(.n = 3, .env = VERBS, .fn = values_body));
	TT_CHECK(!MP_RUN(.n = 3, .env = VERBS, .fn = death_body, .killed = 2, .arg = &gather));
}

static const struct tt_test tests[] = {{"values_shm", values_shm}, {"values_fault", values_fault},
				       {"values_ofi", values_ofi}, {"levels", levels},
				       {"counted", counted},	   {"refusals", refusals},
				       {"differ", differ},	   {"death", death},
				       {"verbs", verbs},	   {NULL, NULL}};

int main(int argc, char **argv)
{
	return tt_test_main("factors", tests, argc, argv);
}
