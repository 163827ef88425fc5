/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The sharded optimizer with encoded gradients: exact encodings give the bits of the plain
 * optimizer, what an encoding leaves out comes later, the error of a rough one; ranks that fail
 * alone; refused arguments.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <unistd.h>

#include "tests/mp/train/model.h"

struct setup {
	const char *codec;
	int stage;
	unsigned flags;
	size_t gap; /* between the tensors */
};

struct optimizer {
	float x[2 * TOTAL], g[2 * TOTAL];
	float *tensor[TENSORS], *grad[TENSORS];
	struct tutti_codec *codec;
	struct tutti_sharded *s;
};

/* Subtracts gradients: parameters are what has come, with the other sign. */
static const struct tutti_rule subtract = {
	.size = sizeof(subtract), .rule = TUTTI_PS_SGD, .rate = 1};

static struct tutti_sharded_config config_of(struct optimizer *o, int stage, unsigned flags)
{
	return (struct tutti_sharded_config){.size = sizeof(struct tutti_sharded_config),
					     .n = TENSORS,
					     .counts = counts,
					     .parameters = (void *const *)o->tensor,
					     .datatype = TUTTI_FLOAT32,
					     .flags = flags,
					     .stage = stage,
					     .rule = &subtract,
					     .clip_norm = 1e9, /* refuses what is not finite */
					     .bucket_bytes = 3000,
					     .codec = o->codec};
}

static int optimizer_new(struct mp_job *job, struct optimizer *o, const struct setup *setup)
{
	struct tutti_sharded_config config;

	memset(o, 0, sizeof(*o));
	tensors_of(o->x, sizeof(float), setup->gap, (void **)o->tensor);
	tensors_of(o->g, sizeof(float), setup->gap, (void **)o->grad);
	MP_OK(tutti_codec_create(setup->codec, &o->codec));
	config = config_of(o, setup->stage, setup->flags);
	MP_OK(tutti_sharded_create(job->world, &config, &o->s));
	return 0;
}

static int optimizer_free(struct optimizer *o)
{
	int err = tutti_sharded_free(o->s);

	return err ? err : tutti_codec_free(o->codec);
}

/* Step 0 has integers, the others have zeros. */
static int step_of(struct mp_job *job, struct optimizer *o, unsigned step)
{
	size_t order[TENSORS], i, k;

	for (i = 0; i < TENSORS; i++)
		for (k = 0; k < counts[i]; k++)
			o->grad[i][k] = step ? 0 : whole(0, job->rank, i * 10000 + k);
	shuffle(step + (unsigned)job->rank, order);
	for (i = 0; i < TENSORS; i++)
		MP_OK(tutti_sharded_ready(o->s, order[i], o->grad[order[i]]));
	MP_OK(tutti_sharded_step(o->s, NULL));
	MP_OK(tutti_sharded_wait(o->s, TUTTI_SHARDED_ALL));
	return 0;
}

/* How many parameters differ from what so many ranks have sent by more than bound. */
static size_t wrong(int ranks, const struct optimizer *o, unsigned flags, float bound)
{
	size_t i, k, n = 0;
	float sum;
	int r;

	for (i = 0; i < TENSORS; i++)
		for (k = 0; k < counts[i]; k++) {
			for (r = 0, sum = 0; r < ranks; r++)
				sum += whole(0, r, i * 10000 + k);
			if (!(flags & TUTTI_SHARDED_SUM))
				sum /= (float)ranks;
			n += !(fabsf(o->tensor[i][k] + sum) <= bound);
		}
	return n;
}

static int same_everywhere(struct mp_job *job, struct optimizer *o)
{
	static float first[2 * TOTAL];

	memcpy(first, o->x, sizeof(first));
	MP_OK(tutti_bcast(first, 2 * TOTAL, TUTTI_FLOAT32, 0, job->world));
	TT_EXPECT(!memcmp(first, o->x, sizeof(first)));
	return 0;
}

/* ---- encodings that leave nothing out ---- */

static int exact_body(struct mp_job *job)
{
	static struct optimizer o;
	struct setup setup = {.codec = "fp16"};

	for (setup.stage = 1; setup.stage <= 2; setup.stage++)
		for (setup.flags = 0; setup.flags <= TUTTI_SHARDED_SUM; setup.flags++)
			for (setup.gap = 0; setup.gap <= 1; setup.gap++) {
				TT_EXPECT(!optimizer_new(job, &o, &setup));
				TT_EXPECT(!step_of(job, &o, 0));
				TT_EXPECT(!wrong(job->n, &o, setup.flags, 0));
				MP_OK(optimizer_free(&o));
			}
	return 0;
}

static void exact(void)
{
	int n;

	for (n = 1; n <= 4; n++)
		TT_CHECK(!MP_RUN(.n = n, .env = SHM, .fn = exact_body));
	TT_CHECK(!MP_RUN(.n = 3, .env = FAULT, .fn = exact_body));
	if (!mp_no_ofi())
		TT_CHECK(!MP_RUN(.n = 3, .env = OFI, .fn = exact_body));
}

/* ---- what is left out comes later ---- */

static int later_body(struct mp_job *job)
{
	static struct optimizer o;
	const struct setup setup = {
		.codec = job->arg, .stage = 2, .flags = TUTTI_SHARDED_SUM, .gap = 1};
	unsigned step;

	TT_EXPECT(!optimizer_new(job, &o, &setup));
	for (step = 0; step < 12; step++) {
		TT_EXPECT(!step_of(job, &o, step));
		TT_EXPECT(!same_everywhere(job, &o));
		TT_EXPECT(step || wrong(job->n, &o, setup.flags, 0));
	}
	TT_EXPECT(!wrong(job->n, &o, setup.flags, 0));
	return optimizer_free(&o);
}

static void later(void)
{
	TT_CHECK(!MP_RUN(.n = 3, .env = SHM, .fn = later_body, .arg = "topk:30%"));
	/* two vectors of state */
	TT_CHECK(!MP_RUN(.n = 4, .env = SHM, .fn = later_body, .arg = "dgc:30%,momentum=0"));
}

/* ---- saved and restored ---- */

static char path[64];

static int noisy_steps(struct mp_job *job, struct optimizer *o, unsigned first)
{
	unsigned step;
	size_t i, k;

	for (step = first; step < first + 3; step++) {
		for (i = 0; i < TENSORS; i++) {
			for (k = 0; k < counts[i]; k++)
				o->grad[i][k] = noise(step, job->rank, i * 10000 + k);
			MP_OK(tutti_sharded_ready(o->s, i, o->grad[i]));
		}
		MP_OK(tutti_sharded_step(o->s, NULL));
		MP_OK(tutti_sharded_wait(o->s, TUTTI_SHARDED_ALL));
	}
	return 0;
}

/* The bits after a restart are those without one. */
static int resumed_body(struct mp_job *job)
{
	static struct optimizer o, again;
	const struct setup setup = {.codec = job->arg, .stage = 2};

	TT_EXPECT(!optimizer_new(job, &o, &setup));
	TT_EXPECT(!optimizer_new(job, &again, &setup));
	TT_EXPECT(!noisy_steps(job, &again, 50)); /* of no account */
	TT_EXPECT(!noisy_steps(job, &o, 0));
	MP_OK(tutti_sharded_save(o.s, path));
	memcpy(again.x, o.x, sizeof(o.x));
	MP_OK(tutti_sharded_restore(again.s, path));
	TT_EXPECT(!noisy_steps(job, &o, 3));
	TT_EXPECT(!noisy_steps(job, &again, 3));
	TT_EXPECT(!memcmp(again.x, o.x, sizeof(o.x)));
	MP_OK(optimizer_free(&again));
	return optimizer_free(&o);
}

static bool begin_path(void)
{
	int fd;

	strcpy(path, "/tmp/sharded_codec.XXXXXX");
	fd = mkstemp(path);
	return fd >= 0 && !close(fd);
}

static void resumed(void)
{
	static char *const codecs[] = {"int8", "topk:30%", "qsgd", "dgc:30%,momentum=0.9"};
	size_t i;

	TT_REQUIRE(begin_path());
	for (i = 0; i < sizeof(codecs) / sizeof(*codecs); i++)
		TT_CHECK(!MP_RUN(.n = 3, .env = SHM, .fn = resumed_body, .arg = codecs[i]));
	TT_CHECK(!MP_RUN(.n = 1, .env = SHM, .fn = resumed_body, .arg = codecs[0]));
	unlink(path);
}

#define SAVED 3 /* ranks */

static float *saved_x; /* between the jobs */
static unsigned saved_flags;

static int any_buckets(struct mp_job *job, struct optimizer *o, size_t bucket_bytes)
{
	struct tutti_sharded_config config;

	memset(o, 0, sizeof(*o));
	tensors_of(o->x, sizeof(float), 0, (void **)o->tensor);
	tensors_of(o->g, sizeof(float), 0, (void **)o->grad);
	MP_OK(tutti_codec_create(job->arg, &o->codec));
	config = config_of(o, 2, saved_flags);
	config.bucket_bytes = bucket_bytes;
	MP_OK(tutti_sharded_create(job->world, &config, &o->s));
	return 0;
}

static int save_body(struct mp_job *job)
{
	static struct optimizer o;

	TT_EXPECT(!any_buckets(job, &o, 3000));
	TT_EXPECT(!step_of(job, &o, 0));
	TT_EXPECT(wrong(SAVED, &o, saved_flags, 0.1f));
	MP_OK(tutti_sharded_save(o.s, path));
	if (!job->rank)
		memcpy(saved_x, o.x, sizeof(o.x));
	return optimizer_free(&o);
}

/* All that the saved ranks have left out comes. */
static int moved_body(struct mp_job *job)
{
	static struct optimizer o;
	unsigned step;

	TT_EXPECT(!any_buckets(job, &o, 700));
	memcpy(o.x, saved_x, sizeof(o.x));
	MP_OK(tutti_sharded_restore(o.s, path));
	for (step = 1; step < 14; step++)
		TT_EXPECT(!step_of(job, &o, step));
	TT_EXPECT(!same_everywhere(job, &o));
	TT_EXPECT(!wrong(SAVED, &o, saved_flags, saved_flags ? 0 : 1e-4f));
	return optimizer_free(&o);
}

/* On other ranks, in other buckets, by another codec. */
static void moved(void)
{
	int n;

	saved_x = mp_shared_mem(2 * TOTAL * sizeof(*saved_x));
	TT_REQUIRE(begin_path());
	saved_flags = 0; /* averages */
	TT_CHECK(!MP_RUN(.n = SAVED, .env = SHM, .fn = save_body, .arg = "topk:30%"));
	for (n = 1; n <= 5; n++)
		TT_CHECK(!MP_RUN(.n = n, .env = SHM, .fn = moved_body, .arg = "topk:30%"));
	saved_flags = TUTTI_SHARDED_SUM;
	TT_CHECK(!MP_RUN(.n = SAVED, .env = SHM, .fn = save_body, .arg = "topk:30%"));
	for (n = 1; n <= 5; n++)
		TT_CHECK(!MP_RUN(.n = n, .env = SHM, .fn = moved_body, .arg = "topk:30%"));
	TT_CHECK(!MP_RUN(.n = 2, .env = SHM, .fn = moved_body, .arg = "dgc:30%,momentum=0"));
	TT_CHECK(!MP_RUN(.n = SAVED, .env = SHM, .fn = save_body, .arg = "dgc:30%,momentum=0"));
	TT_CHECK(!MP_RUN(.n = 2, .env = SHM, .fn = moved_body, .arg = "dgc:30%,momentum=0"));
	TT_CHECK(!MP_RUN(.n = 4, .env = SHM, .fn = moved_body, .arg = "topk:30%"));
	unlink(path);
}

/* A state that was saved without a codec leaves no residuals: gradients of zeros change nothing. */
static int cleared_body(struct mp_job *job)
{
	static struct optimizer o;
	struct tutti_sharded_config config;
	struct tutti_sharded *plain;
	float before[2 * TOTAL];

	job->arg = "topk:30%";
	TT_EXPECT(!any_buckets(job, &o, 3000));
	config = config_of(&o, 1, 0);
	config.codec = NULL;
	MP_OK(tutti_sharded_create(job->world, &config, &plain));
	MP_OK(tutti_sharded_save(plain, path));
	TT_EXPECT(!step_of(job, &o, 0));
	MP_OK(tutti_sharded_restore(o.s, path));
	memcpy(before, o.x, sizeof(before));
	TT_EXPECT(!step_of(job, &o, 1));
	TT_EXPECT(!memcmp(before, o.x, sizeof(before)));
	MP_OK(tutti_sharded_save(o.s, path));
	MP_OK(tutti_sharded_restore(plain, path));
	MP_OK(tutti_sharded_free(plain));
	return optimizer_free(&o);
}

static void cleared(void)
{
	TT_REQUIRE(begin_path());
	TT_CHECK(!MP_RUN(.n = 3, .env = SHM, .fn = cleared_body));
	unlink(path);
}

/* Every part but the own one is within half of its scale, at most 8 / 127. */
static int rough_body(struct mp_job *job)
{
	static struct optimizer o;
	const struct setup setup = {.codec = "int8", .stage = 1, .flags = TUTTI_SHARDED_SUM};

	TT_EXPECT(!optimizer_new(job, &o, &setup));
	TT_EXPECT(!step_of(job, &o, 0));
	TT_EXPECT(!same_everywhere(job, &o));
	TT_EXPECT(wrong(job->n, &o, setup.flags, 0));
	TT_EXPECT(!wrong(job->n, &o, setup.flags, (float)(job->n - 1) * 8 / 127 / 2 + 1e-4f));
	return optimizer_free(&o);
}

static void rough(void)
{
	TT_CHECK(!MP_RUN(.n = 4, .env = SHM, .fn = rough_body));
}

/* Momentum counts for the own part, too: a rank sends in 20 steps, and all shares get the same. */
static int momentum_body(struct mp_job *job)
{
	static struct optimizer o;
	const struct setup setup = {
		.codec = "dgc:50%,momentum=0.9", .stage = 2, .flags = TUTTI_SHARDED_SUM};
	size_t i, k;
	int step;

	TT_EXPECT(!optimizer_new(job, &o, &setup));
	for (step = 0; step < 60; step++) {
		for (i = 0; i < TENSORS; i++) {
			for (k = 0; k < counts[i]; k++)
				o.grad[i][k] = !job->rank && step < 20;
			MP_OK(tutti_sharded_ready(o.s, i, o.grad[i]));
		}
		MP_OK(tutti_sharded_step(o.s, NULL));
		MP_OK(tutti_sharded_wait(o.s, TUTTI_SHARDED_ALL));
	}
	/* equal elements of the shares of ranks 0 and 1 */
	TT_EXPECT(o.tensor[5][0] == o.tensor[5][2048] && o.tensor[5][0] < -20);
	return optimizer_free(&o);
}

static void momentum(void)
{
	TT_CHECK(!MP_RUN(.n = 2, .env = SHM, .fn = momentum_body));
}

/* Equal gradients of many ranks: the errors of qsgd differ, so they average out. */
static int drawn_body(struct mp_job *job)
{
	static struct optimizer o;
	static float state[4096], decoded[4096];
	const struct setup setup = {.codec = "qsgd", .stage = 2};
	static char bytes[1 << 16];
	double one = 0, all = 0;
	size_t i, k, len;

	TT_EXPECT(!optimizer_new(job, &o, &setup));
	for (i = 0; i < TENSORS; i++) {
		for (k = 0; k < counts[i]; k++)
			o.grad[i][k] = noise(0, 0, i * 10000 + k);
		MP_OK(tutti_sharded_ready(o.s, i, o.grad[i]));
	}
	MP_OK(tutti_sharded_step(o.s, NULL));
	MP_OK(tutti_sharded_wait(o.s, TUTTI_SHARDED_ALL));
	MP_OK(tutti_codec_encode(o.codec, o.grad[5], 4096, TUTTI_FLOAT32, state, 0, bytes, &len));
	MP_OK(tutti_codec_decode(o.codec, bytes, len, decoded, 4096, TUTTI_FLOAT32));
	for (k = 0; k < 4096; k++) {
		one += pow((double)decoded[k] - (double)o.grad[5][k], 2);
		all += pow((double)o.tensor[5][k] + (double)o.grad[5][k], 2);
	}
	TT_EXPECT(sqrt(all / one) < 0.65); /* 0.54; with equal errors 0.75 */
	return optimizer_free(&o);
}

static void drawn(void)
{
	TT_CHECK(!MP_RUN(.n = 4, .env = SHM, .fn = drawn_body));
}

/* ---- a rank that fails alone ---- */

static size_t bound(size_t count, void *arg)
{
	(void)arg;
	return 4 * count + 1;
}

static int encode(const float *in, size_t count, uint64_t first, uint64_t call, void *out,
		  size_t *len, void *arg)
{
	(void)first, (void)call;
	memcpy(out, in, 4 * count);
	*len = 4 * count;
	return *(const int *)arg == 1 ? -EIO : 0;
}

static int decode(const void *in, size_t len, uint64_t first, float *out, size_t count, void *arg)
{
	(void)first;
	memcpy(out, in, len < 4 * count ? len : 4 * count);
	return *(const int *)arg == 2 && out[0] == 7 ? -EBADMSG : 0;
}

/* Rank 1 cannot encode, or not decode what rank 0 sends, sevens. The other ranks hear of it, and do
 * not wait. */
static int alone_body(struct mp_job *job)
{
	int what = *(const int *)job->arg, fails = 0, err = 0;
	const struct tutti_codec_user user = {.size = sizeof(user),
					      .name = "autograd",
					      .bound = bound,
					      .encode = encode,
					      .decode = decode,
					      .arg = &fails};
	static struct optimizer o;
	struct tutti_sharded_config config;
	size_t i;

	tensors_of(o.x, sizeof(float), 0, (void **)o.tensor);
	tensors_of(o.g, sizeof(float), 0, (void **)o.grad);
	for (i = 0; i < TOTAL; i++)
		o.g[i] = job->rank ? 0 : 7;
	MP_OK(tutti_codec_create_user(&user, &o.codec));
	config = config_of(&o, 1, 0);
	MP_OK(tutti_sharded_create(job->world, &config, &o.s));
	mp_meet(job); /* rank 1 fails when all have theirs */
	fails = job->rank == 1 ? what : 0;
	for (i = 0; !err && i < TENSORS; i++)
		err = tutti_sharded_ready(o.s, i, o.grad[i]);
	if (!err)
		err = tutti_sharded_step(o.s, NULL);
	if (job->rank != 1) {
		MP_ERR(err, -TUTTI_EREVOKED);
		MP_SAID("rank 1");
	} else if (what == 1) {
		MP_ERR(err, -EIO);
	} else {
		MP_ERR(err, -TUTTI_ETRANSPORT);
		MP_SAID("a gradient from rank 0");
	}
	mp_meet(job); /* the world may have failed, too */
	MP_OK(optimizer_free(&o));
	TT_EXPECT(!mp_leave_failed(job));
	return 0;
}

static void alone(void)
{
	static int what[] = {1, 2};

	TT_CHECK(!MP_RUN(.n = 3, .env = SHM, .fn = alone_body, .arg = &what[0]));
	TT_CHECK(!MP_RUN(.n = 3, .env = SHM, .fn = alone_body, .arg = &what[1]));
}

/* ---- refusals ---- */

/* Rank 1 lacks a tensor, or has a NaN; all ranks refuse the step. */
static int refused_step(struct mp_job *job, struct optimizer *o, bool lacks, int code)
{
	size_t i, k;

	for (i = 0; i < TENSORS; i++) {
		for (k = 0; k < counts[i]; k++)
			o->grad[i][k] = noise(20, job->rank, i * 10000 + k);
		if (i == 5 && job->rank == 1 && lacks)
			continue;
		if (i == 5 && job->rank == 1)
			o->grad[i][100] = NAN;
		MP_OK(tutti_sharded_ready(o->s, i, o->grad[i]));
	}
	MP_ERR(tutti_sharded_step(o->s, NULL), code);
	return 0;
}

/* The bits after refused steps are those without them. */
static int as_before_body(struct mp_job *job)
{
	static struct optimizer o, again;
	const struct setup setup = {.codec = job->arg, .stage = 2};

	TT_EXPECT(!optimizer_new(job, &o, &setup));
	TT_EXPECT(!optimizer_new(job, &again, &setup));
	TT_EXPECT(!noisy_steps(job, &o, 0));
	TT_EXPECT(!noisy_steps(job, &again, 0));
	TT_EXPECT(!refused_step(job, &o, true, -EINVAL));
	TT_EXPECT(!refused_step(job, &o, false, -EDOM));
	TT_EXPECT(!noisy_steps(job, &o, 3));
	TT_EXPECT(!noisy_steps(job, &again, 3));
	TT_EXPECT(!memcmp(again.x, o.x, sizeof(o.x)));
	MP_OK(optimizer_free(&again));
	return optimizer_free(&o);
}

static void as_before(void)
{
	static char *const codecs[] = {"int8", "topk:30%", "qsgd", "dgc:30%,momentum=0.9"};
	size_t i;

	for (i = 0; i < sizeof(codecs) / sizeof(*codecs); i++)
		TT_CHECK(!MP_RUN(.n = 3, .env = SHM, .fn = as_before_body, .arg = codecs[i]));
}

/* A tensor that is not ready on a rank: no parameter changes, and the next step is whole. */
static int missing(struct mp_job *job, struct optimizer *o)
{
	const struct setup setup = {.codec = "fp16", .stage = 2};
	size_t i;

	TT_EXPECT(!optimizer_new(job, o, &setup));
	for (i = 0; i < TENSORS; i++)
		if (i != 5 || job->rank != 1)
			MP_OK(tutti_sharded_ready(o->s, i, o->grad[i]));
	MP_ERR(tutti_sharded_step(o->s, NULL), -EINVAL);
	MP_SAID("tensor 5 was not ready");
	TT_EXPECT(!step_of(job, o, 0));
	TT_EXPECT(!wrong(job->n, o, 0, 0));
	return optimizer_free(o);
}

static size_t bound_as_is(size_t count, void *arg)
{
	(void)arg;
	return 4 * count;
}

/* Codecs of one name that differ on rank 1 in their flags, or in their alignment. */
static int differ_body(struct mp_job *job)
{
	const bool flags = job->arg != NULL, other = job->rank == 1;
	const struct tutti_codec_user user = {.size = sizeof(user),
					      .name = "mine",
					      .flags = flags && other ? TUTTI_CODEC_FIXED : 0,
					      .align = !flags && other ? 4 : 1,
					      .bound = bound_as_is,
					      .encode = encode,
					      .decode = decode,
					      .arg = &(int){0}};
	static struct optimizer o;
	struct tutti_sharded_config config;

	tensors_of(o.x, sizeof(float), 0, (void **)o.tensor);
	MP_OK(tutti_codec_create_user(&user, &o.codec));
	config = config_of(&o, 1, 0);
	MP_ERR(tutti_sharded_create(job->world, &config, &o.s), -TUTTI_EMISMATCH);
	MP_SAID("disagree on codec");
	TT_EXPECT(mp_said(flags ? "mine (fixed, align 1)" : "mine (varies, align 4)"));
	mp_meet(job); /* the world may have failed, too */
	MP_OK(tutti_codec_free(o.codec));
	return mp_leave_failed(job);
}

static void differ(void)
{
	static const char *const envs[] = {SHM "TUTTI_NODE=on", SHM "TUTTI_NODE=off"};
	int i;

	for (i = 0; i < 4; i++)
		TT_CHECK(!MP_RUN(.n = 3, .env = envs[i / 2], .fn = differ_body,
				 .arg = i % 2 ? "flags" : NULL));
}

static int refusals_body(struct mp_job *job)
{
	static struct optimizer o;
	struct tutti_sharded_config config = config_of(&o, 1, 0), bad;
	struct tutti_codec *automatic, *freed;
	struct tutti_feedback *keeper;
	struct tutti_sharded *s = NULL;

	TT_EXPECT(!missing(job, &o));
	MP_OK(tutti_codec_create("fp16", &config.codec));
	MP_OK(tutti_codec_create("auto:fp16,int8", &automatic));
	bad = config, bad.datatype = TUTTI_FLOAT64;
	MP_ERR(tutti_sharded_create(job->world, &bad, &s), -EINVAL);
	MP_SAID("codec fp16 encodes float32");
	bad = config, bad.flags = TUTTI_SHARDED_REDUCED;
	MP_ERR(tutti_sharded_create(job->world, &bad, &s), -EINVAL);
	MP_SAID("no gradients are sent");
	bad = config, bad.codec = automatic;
	MP_ERR(tutti_sharded_create(job->world, &bad, &s), -EINVAL);
	MP_SAID("is for all-reduces");
	MP_OK(tutti_codec_create("int8", &freed));
	MP_OK(tutti_feedback_create(job->world, freed, 1, &keeper)); /* keeps its memory */
	MP_OK(tutti_codec_free(freed));
	bad = config, bad.codec = freed;
	MP_ERR(tutti_sharded_create(job->world, &bad, &s), -EINVAL);
	MP_SAID("codec has been freed");
	MP_OK(tutti_feedback_free(keeper));
	bad = config, bad.codec = NULL;
	MP_ERR(tutti_sharded_create(job->world, job->rank == 1 ? &bad : &config, &s),
	       -TUTTI_EMISMATCH);
	MP_SAID("disagree on the codec");
	TT_EXPECT(!s);
	MP_OK(tutti_codec_free(automatic));
	return tutti_codec_free(config.codec);
}

static void refusals(void)
{
	TT_CHECK(!MP_RUN(.n = 3, .env = SHM, .fn = refusals_body));
}

static const struct tt_test tests[] = {{"exact", exact},
				       {"later", later},
				       {"resumed", resumed},
				       {"moved", moved},
				       {"cleared", cleared},
				       {"rough", rough},
				       {"momentum", momentum},
				       {"drawn", drawn},
				       {"alone", alone},
				       {"as_before", as_before},
				       {"differ", differ},
				       {"refusals", refusals},
				       {NULL, NULL}};

int main(int argc, char **argv)
{
	return tt_test_main("sharded_codec", tests, argc, argv);
}
