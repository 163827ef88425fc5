/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Local steps beside serial oracles that compute all ranks: averages, outer SGD and Nesterov,
 * delay; rounds of one step beside all-reduce SGD bit for bit; bytes of rounds of 8; codecs;
 * refused arguments, ranks that differ, deaths.
 */
#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include "tests/mp/train/model.h"

#define RATE 0.05

static struct tutti_local_steps_config config_of(void *const *tensor, int every,
						 const struct tutti_rule *outer)
{
	return (struct tutti_local_steps_config){.size = sizeof(struct tutti_local_steps_config),
						 .n = TENSORS,
						 .counts = counts,
						 .parameters = tensor,
						 .datatype = TUTTI_FLOAT32,
						 .every = every,
						 .outer = outer,
						 .inner_rate = outer ? RATE : 0};
}

static const struct tutti_rule average = {.size = sizeof(average), .rule = TUTTI_PS_SGD, .rate = 1};
static const struct tutti_rule nesterov = {
	.size = sizeof(nesterov), .rule = TUTTI_PS_NESTEROV, .rate = 0.7, .momentum = 0.9};

/* Vectors of this file are flat; tensors lie in them without gaps, or with one element between. */
static void gradient(float *g, unsigned step, int rank)
{
	size_t i;

	for (i = 0; i < TOTAL; i++)
		g[i] = noise(step, rank, i);
}

/* ---- rounds of one step: the bits of SGD on the averaged gradient ---- */

static int one_body(struct mp_job *job)
{
	static float x[TOTAL], plain[TOTAL], g[TOTAL], mean[TOTAL];
	const struct tutti_rule sgd = {.size = sizeof(sgd), .rule = TUTTI_PS_SGD, .rate = RATE};
	struct tutti_local_steps_config config;
	struct tutti_local_steps *l;
	float *tensor[TENSORS], *grads[TENSORS];
	unsigned step;

	tensors_of(x, sizeof(*x), 0, (void **)tensor);
	tensors_of(g, sizeof(*g), 0, (void **)grads);
	gradient(x, 1000, job->rank); /* rank 0's are taken */
	gradient(plain, 1000, 0);
	config = config_of((void *const *)tensor, 1, &average);
	MP_OK(tutti_local_steps_create(job->world, &config, &l));
	TT_EXPECT(!memcmp(x, plain, sizeof(x)));
	for (step = 0; step < 30; step++) {
		gradient(g, step, job->rank);
		MP_OK(tutti_local_steps_step(l, (void *const *)grads));
		MP_OK(tutti_allreduce(g, mean, TOTAL, TUTTI_FLOAT32, TUTTI_AVG, job->world));
		MP_OK(tutti_rule_apply(&sgd, TUTTI_FLOAT32, plain, mean, NULL, NULL, TOTAL, 1));
		TT_EXPECT(!memcmp(x, plain, sizeof(x)));
	}
	MP_OK(tutti_local_steps_finish(l));
	TT_EXPECT(!memcmp(x, plain, sizeof(x)));
	return tutti_local_steps_free(l);
}

static void one(void)
{
	int n;

	for (n = 1; n <= 5; n += 2)
		TT_CHECK(!MP_RUN(.n = n, .env = SHM, .fn = one_body));
	if (!mp_no_ofi())
		TT_CHECK(!MP_RUN(.n = 3, .env = OFI, .fn = one_body));
}

/* ---- rounds beside a serial oracle in float64 ---- */

#define EVERY 4
#define STEPS 22 /* five rounds and a part of one */
#define MOST 5

static const struct way {
	bool outer, delayed, caller; /* caller: the test makes the steps */
} ways[] = {{false, false, true},
	    {true, false, true},
	    {true, false, false},
	    {true, true, true},
	    {true, true, false}};

/* The serial world: x is what rounds start with, own what each rank has. */
struct world {
	double x[TOTAL], v[TOTAL], own[MOST][TOTAL], late[TOTAL];
	bool pending;
};

/* The gradient depends on the parameters, so that each step matters. */
static double slope(double x, unsigned step, int rank, size_t i)
{
	return 0.5 * x + (double)noise(step, rank, i);
}

static void outer(struct world *w, const double *d)
{
	size_t i;

	for (i = 0; i < TOTAL; i++) {
		w->v[i] = 0.9 * w->v[i] + d[i];
		w->x[i] -= 0.7 * (d[i] + 0.9 * w->v[i]);
	}
}

static void end_round(struct world *w, const struct way *way, int n)
{
	static double d[TOTAL];
	size_t i;
	int r;

	for (i = 0; i < TOTAL; i++) {
		for (r = 0, d[i] = 0; r < n; r++)
			d[i] += (w->x[i] - w->own[r][i]) / n;
	}
	for (i = 0; i < TOTAL && !way->outer; i++)
		w->x[i] -= d[i];
	if (way->outer && !way->delayed)
		outer(w, d);
	if (way->outer && way->delayed && w->pending)
		outer(w, w->late);
	w->pending = way->outer && way->delayed;
	memcpy(w->late, d, sizeof(d));
	for (r = 0; r < n; r++)
		memcpy(w->own[r], w->x, sizeof(w->x));
}

static int close_to(struct mp_job *job, const double *x, const double *want)
{
	size_t i;

	(void)job;
	for (i = 0; i < TOTAL; i++)
		TT_EXPECT(fabs(x[i] - want[i]) <= 1e-12);
	return 0;
}

static int rounds_way(struct mp_job *job, const struct way *way)
{
	static double x[TOTAL + TENSORS], g[TOTAL + TENSORS], flat[TOTAL];
	static struct world w;
	struct tutti_local_steps_config config;
	struct tutti_local_steps *l;
	double *tensor[TENSORS], *grads[TENSORS];
	size_t i, k, at;
	unsigned step;
	int r;

	memset(&w, 0, sizeof(w));
	tensors_of(x, sizeof(*x), 1, (void **)tensor);
	tensors_of(g, sizeof(*g), 1, (void **)grads);
	for (i = 0, at = 0; i < TENSORS; i++)
		for (k = 0; k < counts[i]; k++, at++)
			tensor[i][k] = w.x[at] = noise(77, 0, at);
	for (r = 0; r < job->n; r++)
		memcpy(w.own[r], w.x, sizeof(w.x));
	config = config_of((void *const *)tensor, EVERY, way->outer ? &nesterov : NULL);
	config.datatype = TUTTI_FLOAT64;
	config.flags = way->delayed ? TUTTI_LOCAL_DELAYED : 0;
	config.inner_rate = way->caller ? 0 : RATE;
	MP_OK(tutti_local_steps_create(job->world, &config, &l));
	for (step = 1; step <= STEPS; step++) {
		for (i = 0, at = 0; i < TENSORS; i++)
			for (k = 0; k < counts[i]; k++, at++) {
				grads[i][k] = slope(tensor[i][k], step, job->rank, at);
				if (way->caller)
					tensor[i][k] -= RATE * grads[i][k];
			}
		MP_OK(tutti_local_steps_step(l, way->caller ? NULL : (void *const *)grads));
		for (r = 0; r < job->n; r++)
			for (at = 0; at < TOTAL; at++)
				w.own[r][at] -= RATE * slope(w.own[r][at], step, r, at);
		if (step % EVERY == 0)
			end_round(&w, way, job->n);
		if (step == STEPS) {
			MP_OK(tutti_local_steps_finish(l));
			end_round(&w, way, job->n);
			if (w.pending)
				outer(&w, w.late);
			memcpy(w.own[job->rank], w.x, sizeof(w.x));
		}
		for (i = 0, at = 0; i < TENSORS; at += counts[i++])
			memcpy(flat + at, tensor[i], counts[i] * sizeof(double));
		TT_EXPECT(!close_to(job, flat, w.own[job->rank]));
	}
	return tutti_local_steps_free(l);
}

static int rounds_body(struct mp_job *job)
{
	size_t i;

	for (i = 0; i < sizeof(ways) / sizeof(ways[0]); i++)
		TT_EXPECT(!rounds_way(job, &ways[i]));
	return 0;
}

static void rounds(void)
{
	int n;

	for (n = 1; n <= MOST; n++)
		TT_CHECK(!MP_RUN(.n = n, .env = SHM, .fn = rounds_body));
	TT_CHECK(!MP_RUN(.n = 3, .env = FAULT, .fn = rounds_body));
	if (!mp_no_ofi())
		TT_CHECK(!MP_RUN(.n = 3, .env = OFI, .fn = rounds_body));
}

/* ---- bytes ---- */

static uint64_t sent(struct mp_job *job)
{
	struct tutti_stats s = {.size = sizeof(s)};

	tutti_stats_get(job->ctx, &s);
	return s.put_bytes;
}

/* Bytes that this rank puts in 16 steps after a first round. */
static int bytes_of(struct mp_job *job, int every, struct tutti_codec *codec, uint64_t *bytes)
{
	static float x[TOTAL], g[TOTAL];
	struct tutti_local_steps_config config;
	struct tutti_local_steps *l;
	float *tensor[TENSORS], *grads[TENSORS];
	int step;

	tensors_of(x, sizeof(*x), 0, (void **)tensor);
	tensors_of(g, sizeof(*g), 0, (void **)grads);
	config = config_of((void *const *)tensor, every, &average);
	config.codec = codec;
	MP_OK(tutti_local_steps_create(job->world, &config, &l));
	for (step = 0; step < every + 16; step++) {
		if (step == every)
			*bytes = sent(job);
		MP_OK(tutti_local_steps_step(l, (void *const *)grads));
	}
	*bytes = sent(job) - *bytes;
	return tutti_local_steps_free(l);
}

static int eighth_body(struct mp_job *job)
{
	struct tutti_codec *codec;
	uint64_t each, eighth, halves;

	MP_OK(tutti_codec_create("fp16", &codec));
	TT_EXPECT(!bytes_of(job, 1, NULL, &each));
	TT_EXPECT(!bytes_of(job, 8, NULL, &eighth));
	TT_EXPECT(!bytes_of(job, 8, codec, &halves));
	TT_EXPECT(each > 0 && each == 8 * eighth);
	TT_EXPECT(halves > 0 && halves < eighth * 6 / 10);
	if (!job->rank)
		printf("  %d ranks: 16 steps put %llu bytes, every 8: %llu, fp16 %llu\n", job->n,
		       (unsigned long long)each, (unsigned long long)eighth,
		       (unsigned long long)halves);
	return tutti_codec_free(codec);
}

static void eighth(void)
{
	int n;

	if (mp_no_ofi())
		TT_SKIP("%s", mp_no_ofi());
	for (n = 2; n <= 4; n++)
		TT_CHECK(!MP_RUN(.n = n, .env = OFI "TUTTI_HOST_ID=h%r", .fn = eighth_body));
}

/* ---- codecs: what is left out of a round arrives later ---- */

static int codec_body(struct mp_job *job)
{
	static float x[TOTAL], g[TOTAL];
	struct tutti_local_steps_config config;
	struct tutti_local_steps *l;
	struct tutti_codec *codec;
	float *tensor[TENSORS], *grads[TENSORS];
	double want;
	size_t i;
	int step, rank;

	MP_OK(tutti_codec_create("topk:30%", &codec));
	memset(x, 0, sizeof(x));
	tensors_of(x, sizeof(*x), 0, (void **)tensor);
	tensors_of(g, sizeof(*g), 0, (void **)grads);
	config = config_of((void *const *)tensor, 2, &average);
	config.codec = codec;
	config.inner_rate = 0.5;
	config.flags = TUTTI_LOCAL_DELAYED;
	MP_OK(tutti_local_steps_create(job->world, &config, &l));
	for (step = 0; step < 24; step++) {
		for (i = 0; i < TOTAL; i++)
			g[i] = step ? 0 : whole(0, job->rank, i);
		MP_OK(tutti_local_steps_step(l, (void *const *)grads));
	}
	MP_OK(tutti_local_steps_finish(l));
	for (i = 0; i < TOTAL; i++) {
		for (rank = 0, want = 0; rank < job->n; rank++)
			want -= 0.5 * (double)whole(0, rank, i) / job->n;
		TT_EXPECT((double)x[i] == want);
	}
	MP_OK(tutti_local_steps_free(l));
	return tutti_codec_free(codec);
}

static void codecs(void)
{
	TT_CHECK(!MP_RUN(.n = 2, .env = SHM, .fn = codec_body));
	TT_CHECK(!MP_RUN(.n = 4, .env = SHM, .fn = codec_body));
}

/* ---- a free ends a delayed change under way ---- */

static int left_body(struct mp_job *job)
{
	static float x[TOTAL];
	struct tutti_local_steps_config config;
	struct tutti_local_steps *l;
	float *tensor[TENSORS];
	size_t i;

	tensors_of(x, sizeof(*x), 0, (void **)tensor);
	config = config_of((void *const *)tensor, 1, &average);
	config.flags = TUTTI_LOCAL_DELAYED;
	config.inner_rate = 0;
	MP_OK(tutti_local_steps_create(job->world, &config, &l));
	for (i = 0; i < TOTAL; i++)
		x[i] += (float)(job->rank * 2);
	MP_OK(tutti_local_steps_step(l, NULL));
	MP_OK(tutti_local_steps_free(l));
	for (i = 0; i < TOTAL; i++)
		TT_EXPECT(x[i] == (float)(job->n - 1));
	return 0;
}

static void left(void)
{
	TT_CHECK(!MP_RUN(.n = 2, .env = SHM, .fn = left_body));
}

/* ---- refusals, ranks that differ, deaths ---- */

static int refused(struct mp_job *job, const struct tutti_local_steps_config *c, const char *word)
{
	struct tutti_local_steps *l = NULL;
	int err = tutti_local_steps_create(job->world, c, &l);

	if (err != -EINVAL || l || !mp_said(word)) {
		mp_failed(job, word, err, __FILE__, __LINE__);
		return 1;
	}
	return 0;
}

static int refusals_body(struct mp_job *job)
{
	static float x[TOTAL];
	struct tutti_local_steps_config good, bad;
	struct tutti_local_steps *l = NULL;
	struct tutti_rule rule = nesterov;
	struct tutti_codec *codec;
	float *tensor[TENSORS];
	void *none[TENSORS] = {0};

	MP_OK(tutti_codec_create("fp16", &codec));
	tensors_of(x, sizeof(*x), 0, (void **)tensor);
	good = config_of((void *const *)tensor, 3, &average);
	TT_EXPECT(!refused(job, NULL, "config is NULL"));
	bad = good, bad.size = 7;
	TT_EXPECT(!refused(job, &bad, "size is 7"));
	bad = good, bad.every = 0;
	TT_EXPECT(!refused(job, &bad, "every is 0"));
	bad = good, bad.pad = 1;
	TT_EXPECT(!refused(job, &bad, "pad is 1"));
	bad = good, bad.flags = 2;
	TT_EXPECT(!refused(job, &bad, "flags are 0x2"));
	bad = good, bad.datatype = TUTTI_INT32;
	TT_EXPECT(!refused(job, &bad, "float32 or float64"));
	bad = good, bad.inner_rate = -1;
	TT_EXPECT(!refused(job, &bad, "inner_rate is -1"));
	bad = good, bad.outer = NULL;
	TT_EXPECT(!refused(job, &bad, "inner_rate needs an outer rule"));
	bad.inner_rate = 0, bad.codec = codec;
	TT_EXPECT(!refused(job, &bad, "a codec needs an outer rule"));
	bad.codec = NULL, bad.flags = TUTTI_LOCAL_DELAYED;
	TT_EXPECT(!refused(job, &bad, "TUTTI_LOCAL_DELAYED needs an outer rule"));
	bad = good, bad.codec = codec, bad.datatype = TUTTI_FLOAT64;
	TT_EXPECT(!refused(job, &bad, "encodes float32"));
	rule.momentum = 2;
	bad = good, bad.outer = &rule;
	TT_EXPECT(!refused(job, &bad, "momentum is 2"));
	bad = good, bad.parameters = none;
	TT_EXPECT(!refused(job, &bad, "parameters of tensor 0 is NULL"));
	MP_ERR(tutti_local_steps_create(job->world, &good, NULL), -EINVAL);
	MP_OK(tutti_local_steps_create(job->world, &good, &l));
	MP_ERR(tutti_local_steps_step(l, NULL), -EINVAL);
	MP_SAID("inner_rate 0.05");
	MP_ERR(tutti_local_steps_step(l, none), -EINVAL);
	MP_ERR(tutti_local_steps_step(NULL, none), -EINVAL);
	MP_ERR(tutti_local_steps_finish(NULL), -EINVAL);
	MP_OK(tutti_local_steps_free(l));
	bad = good, bad.every = job->rank == 1 ? 4 : 3;
	MP_ERR(tutti_local_steps_create(job->world, &bad, &l), -TUTTI_EMISMATCH);
	MP_SAID("disagree on every (3 and 4)");
	bad = good, bad.outer = job->rank == 1 ? &nesterov : &average;
	MP_ERR(tutti_local_steps_create(job->world, &bad, &l), -TUTTI_EMISMATCH);
	MP_SAID("the outer rule");
	rule = average, rule.weight_decay = job->rank == 1 ? 0.5 : 0;
	bad = good, bad.outer = &rule;
	MP_ERR(tutti_local_steps_create(job->world, &bad, &l), -TUTTI_EMISMATCH);
	MP_SAID("the outer weight_decay (0 and 0.5)");
	bad = good, bad.datatype = job->rank == 1 ? TUTTI_FLOAT64 : TUTTI_FLOAT32;
	MP_ERR(tutti_local_steps_create(job->world, &bad, &l), -TUTTI_EMISMATCH);
	MP_SAID("disagree on datatype (float32 and float64)");
	MP_OK(tutti_local_steps_free(NULL));
	return tutti_codec_free(codec);
}

/* The pool has no room: the text says how much is needed. */
static int memory_body(struct mp_job *job)
{
	size_t count = (size_t)1 << 25;
	float one;
	void *parameters[] = {&one};
	struct tutti_local_steps_config config = {.size = sizeof(config),
						  .n = 1,
						  .counts = &count,
						  .parameters = parameters,
						  .datatype = TUTTI_FLOAT32,
						  .every = 1};
	struct tutti_local_steps *l;

	MP_ERR(tutti_local_steps_create(job->world, &config, &l), -ENOMEM);
	MP_SAID("TUTTI_POOL_LIMIT");
	return 0;
}

static void refusals(void)
{
	TT_CHECK(!MP_RUN(.n = 2, .env = SHM "TUTTI_POOL_LIMIT=64M", .fn = memory_body));
	TT_CHECK(!MP_RUN(.n = 3, .env = SHM, .fn = refusals_body));
}

static int death_body(struct mp_job *job)
{
	static float x[TOTAL], g[TOTAL];
	struct tutti_local_steps_config config;
	struct tutti_local_steps *l;
	float *tensor[TENSORS], *grads[TENSORS];
	int step, err = 0;

	tensors_of(x, sizeof(*x), 0, (void **)tensor);
	tensors_of(g, sizeof(*g), 0, (void **)grads);
	config = config_of((void *const *)tensor, 3, &nesterov);
	config.flags = job->arg ? TUTTI_LOCAL_DELAYED : 0;
	MP_OK(tutti_local_steps_create(job->world, &config, &l));
	for (step = 0; step < 100000 && !err; step++) {
		if (job->rank == 1 && step == 10)
			kill(getpid(), SIGKILL);
		err = tutti_local_steps_step(l, (void *const *)grads);
	}
	MP_ERR(err, -TUTTI_EPEER);
	MP_ERR(tutti_local_steps_step(l, (void *const *)grads), -TUTTI_EPEER);
	MP_ERR(tutti_local_steps_finish(l), -TUTTI_EPEER);
	MP_OK(tutti_local_steps_free(l));
	mp_leave(job);
	return 0;
}

static void death(void)
{
	TT_CHECK(!MP_RUN(.n = 3, .env = SHM, .fn = death_body, .killed = 2));
	TT_CHECK(!MP_RUN(.n = 3, .env = SHM, .fn = death_body, .arg = "delayed", .killed = 2));
}

static const struct tt_test tests[] = {
	{"one", one},	{"rounds", rounds},	{"eighth", eighth}, {"codecs", codecs},
	{"left", left}, {"refusals", refusals}, {"death", death},   {NULL, NULL}};

int main(int argc, char **argv)
{
	return tt_test_main("local_steps", tests, argc, argv);
}
