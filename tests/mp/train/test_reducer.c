/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The reducer: the bits of one all-reduce per bucket whatever the order of readiness, the order of
 * rank 0, threads, accumulation, unused tensors, counters; refused arguments, ranks that differ,
 * deaths. Codecs: test_reducer_codec.c.
 */
#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include "tests/mp/train/reducer.h"

/* ---- the bits of one all-reduce per bucket ---- */

struct layout {
	size_t bucket[TENSORS], offset[TENSORS], n;
};

static int layout_of(struct mp_job *job, struct tutti_reducer *r, struct layout *l)
{
	size_t i;

	l->n = 0;
	for (i = 0; i < TENSORS; i++) {
		MP_OK(tutti_reducer_bucket(r, i, &l->bucket[i], &l->offset[i]));
		l->n = l->bucket[i] >= l->n ? l->bucket[i] + 1 : l->n;
	}
	return 0;
}

/* The gradients of step as they must become: each bucket packed here, and reduced by itself. */
static int expect(struct mp_job *job, const struct layout *l, unsigned step, bool sum, float *out)
{
	static float buf[TOTAL];
	float *g[TENSORS];
	size_t k, i, e, count;

	tensors_of(out, sizeof(*out), 0, (void **)g);
	for (k = 0; k < l->n; k++) {
		for (i = 0, count = 0; i < TENSORS; i++) {
			if (l->bucket[i] != k)
				continue;
			TT_EXPECT(l->offset[i] == count);
			for (e = 0; e < counts[i]; e++)
				buf[count++] = noise(step, job->rank, i * 10000 + e);
		}
		MP_OK(tutti_allreduce(TUTTI_IN_PLACE, buf, count, TUTTI_FLOAT32,
				      sum ? TUTTI_SUM : TUTTI_AVG, job->world));
		for (i = 0; i < TENSORS; i++)
			if (l->bucket[i] == k && counts[i])
				memcpy(g[i], buf + l->offset[i], counts[i] * sizeof(float));
	}
	return 0;
}

/*
 * A bucket ends with the tensor by which it has its bytes, in this order of tensors; one before one
 * of the last five may have fewer.
 */
static int check_order(struct mp_job *job, const struct layout *l, const size_t *order)
{
	size_t i, k = 0, have = 0;
	bool full;

	(void)job;
	for (i = 0; i < TENSORS; i++) {
		full = have >= (k ? 3000 : 200);
		if (l->bucket[order[i]] != k) {
			k++, have = 0;
			TT_EXPECT(full || k + 5 >= l->n);
		} else {
			TT_EXPECT(!full);
		}
		TT_EXPECT(l->bucket[order[i]] == k);
		have += counts[order[i]] * sizeof(float);
	}
	return 0;
}

static const struct way {
	size_t gap; /* between tensors in memory: 0: buckets are in place where they can */
	bool sum, reverse;
} ways[] = {{0, false, true}, {1, false, false}, {0, true, false}, {1, true, true}};

static int steps_way(struct mp_job *job, const struct way *way)
{
	static float memory[TOTAL + TENSORS], want[TOTAL];
	struct tutti_reducer_stats stats = {.size = sizeof(stats)};
	struct tutti_reducer_config config;
	size_t order[TENSORS], first[TENSORS], i, at;
	struct tutti_reducer *r;
	struct layout l;
	float *g[TENSORS];
	unsigned step;

	tensors_of(memory, sizeof(float), way->gap, (void **)g);
	config = config_of((void *const *)g);
	config.flags = way->sum ? TUTTI_REDUCER_SUM : 0;
	MP_OK(tutti_reducer_create(job->world, &config, &r));
	for (step = 0; step < 4; step++) {
		MP_OK(layout_of(job, r, &l));
		for (i = 0; i < TENSORS; i++)
			first[i] = TENSORS - 1 - i;
		if (step && !way->reverse)
			shuffle(100, first); /* rank 0's order in step 0 */
		TT_EXPECT(!check_order(job, &l, first));
		shuffle(100 + step * 64 + (unsigned)job->rank, order);
		fill(g, step, job->rank, noise);
		for (i = 0; i < TENSORS; i++)
			MP_OK(tutti_reducer_ready(r, way->reverse ? TENSORS - 1 - i : order[i]));
		MP_OK(tutti_reducer_finish(r));
		TT_EXPECT(!expect(job, &l, step, way->sum, want));
		for (i = 0, at = 0; i < TENSORS; at += counts[i++])
			TT_EXPECT(!memcmp(g[i], want + at, counts[i] * sizeof(float)));
		MP_OK(tutti_reducer_stats(r, &stats));
		TT_EXPECT(stats.early == l.n); /* all tensors were ready: nothing was left */
	}
	TT_EXPECT(stats.steps == 4 && stats.bytes == TOTAL * 4 && !stats.accumulated);
	TT_EXPECT(way->gap ? stats.packed > 0 : !way->reverse || !stats.packed);
	TT_EXPECT(stats.exposed_total_ns >= stats.exposed_ns && stats.step_ns > 0);
	TT_EXPECT(stats.step_total_ns >= stats.step_ns);
	return tutti_reducer_free(r);
}

static int steps_body(struct mp_job *job)
{
	size_t i;

	for (i = 0; i < sizeof(ways) / sizeof(ways[0]); i++)
		TT_EXPECT(!steps_way(job, &ways[i]));
	return 0;
}

static void steps_shm(void)
{
	int n;

	for (n = 1; n <= 5; n++)
		TT_CHECK(!MP_RUN(.n = n, .env = SHM, .fn = steps_body));
}

static void steps_fault(void)
{
	TT_CHECK(!MP_RUN(.n = 3, .env = FAULT, .fn = steps_body));
}

static void steps_ofi(void)
{
	if (mp_no_ofi())
		TT_SKIP("%s", mp_no_ofi());
	TT_CHECK(!MP_RUN(.n = 3, .env = OFI, .fn = steps_body));
	TT_CHECK(!MP_RUN(.n = 4, .env = OFI "TUTTI_HOST_ID=h%h ", .fn = steps_body));
}

/* ---- threads ---- */

struct worker {
	struct tutti_reducer *r;
	size_t first;
	int err;
};

static void *work(void *arg)
{
	struct worker *w = arg;
	size_t i;

	for (i = w->first; i < TENSORS && !w->err; i += 3)
		w->err = tutti_reducer_ready(w->r, i);
	return NULL;
}

static int threads_body(struct mp_job *job)
{
	static float memory[TOTAL + TENSORS];
	struct tutti_reducer_config config;
	struct worker w[3];
	pthread_t thread[3];
	float *g[TENSORS], sum;
	size_t i, k;
	unsigned step, t;
	int rank;

	tensors_of(memory, sizeof(float), 1, (void **)g);
	config = config_of((void *const *)g);
	config.flags = TUTTI_REDUCER_SUM;
	MP_OK(tutti_reducer_create(job->world, &config, &w[0].r));
	for (step = 0; step < 60; step++) {
		fill(g, step, job->rank, whole);
		for (t = 0; t < 3; t++) {
			w[t] = (struct worker){.r = w[0].r, .first = t};
			TT_EXPECT(!pthread_create(&thread[t], NULL, work, &w[t]));
		}
		for (t = 0; t < 3; t++) {
			pthread_join(thread[t], NULL);
			MP_OK(w[t].err);
		}
		MP_OK(tutti_reducer_finish(w[0].r));
		for (i = 0; i < TENSORS; i++)
			for (k = 0; k < counts[i]; k++) {
				for (rank = 0, sum = 0; rank < job->n; rank++)
					sum += whole(step, rank, i * 10000 + k);
				TT_EXPECT(g[i][k] == sum);
			}
	}
	return tutti_reducer_free(w[0].r);
}

static void threads(void)
{
	TT_CHECK(!MP_RUN(.n = 3, .env = SHM, .fn = threads_body));
	TT_CHECK(!MP_RUN(.n = 2, .env = SHM "TUTTI_PROGRESS=thread", .fn = threads_body));
}

/* ---- accumulation ---- */

static uint64_t moved(struct mp_job *job)
{
	struct tutti_stats s = {.size = sizeof(s)};

	tutti_stats_get(job->ctx, &s);
	return s.put_bytes + s.got_bytes + s.pulled_bytes + s.eager_messages + s.put_messages;
}

/* Linear regression in float64 of the batch samples from first: adds the mean's share. */
static void gradient(double *g, unsigned step, int first, int samples, int of)
{
	double x[37], y, *p;
	size_t i, k;
	int s;

	for (s = first; s < first + samples; s++) {
		for (k = 0, y = 0; k < 37; k++) {
			x[k] = noise(step, s, k);
			y += x[k] * (0.1 * (double)k - 1);
		}
		for (i = 0, p = g; i < TENSORS; i++)
			for (k = 0; k < counts[i]; k++)
				*p++ += (y + (double)i) * x[k % 37] / of;
	}
}

#define MICRO 8
#define SAMPLES 3 /* of a micro-batch */

/* Eight micro-batches, sent once, equal the big batch of all ranks; nothing else is sent. */
static int accumulate_body(struct mp_job *job)
{
	static double memory[TOTAL], want[TOTAL];
	struct tutti_reducer_stats stats = {.size = sizeof(stats)};
	struct tutti_reducer_config config;
	struct tutti_reducer *r;
	double *g[TENSORS];
	uint64_t before;
	size_t i;
	int b, batch = MICRO * SAMPLES * job->n;
	unsigned step;

	tensors_of(memory, sizeof(double), 0, (void **)g);
	config = config_of((void *const *)g);
	config.datatype = TUTTI_FLOAT64;
	MP_OK(tutti_reducer_create(job->world, &config, &r));
	for (step = 0; step < 3; step++) {
		memset(memory, 0, sizeof(memory));
		memset(want, 0, sizeof(want));
		MP_OK(tutti_reducer_accumulate(r, 1));
		before = moved(job);
		for (b = 0; b < MICRO; b++) {
			if (b == MICRO - 1) {
				TT_EXPECT(moved(job) == before);
				MP_OK(tutti_reducer_accumulate(r, 0));
			}
			gradient(memory, step, (job->rank * MICRO + b) * SAMPLES, SAMPLES,
				 MICRO * SAMPLES);
			for (i = TENSORS; i-- > 0;) /* not all in the last one */
				if (i != 5 || b != MICRO - 1)
					MP_OK(tutti_reducer_ready(r, i));
			MP_OK(tutti_reducer_finish(r));
		}
		TT_EXPECT(job->n == 1 || moved(job) > before);
		gradient(want, step, 0, batch, batch);
		for (i = 0; i < TOTAL; i++)
			TT_EXPECT(fabs(memory[i] - want[i]) <= 1e-12);
		TT_EXPECT(!tutti_reducer_unused(r, 5));
	}
	MP_OK(tutti_reducer_stats(r, &stats));
	TT_EXPECT(stats.steps == 3 && stats.accumulated == 3 * (MICRO - 1));
	return tutti_reducer_free(r);
}

static void accumulate(void)
{
	TT_CHECK(!MP_RUN(.n = 1, .env = SHM, .fn = accumulate_body));
	TT_CHECK(!MP_RUN(.n = 3, .env = SHM, .fn = accumulate_body));
}

/* ---- tensors that are not ready ---- */

/* Tensor 3 is missing on rank 1, tensor 7 on all ranks. */
static bool missing(size_t i, int rank)
{
	return i == 7 || (i == 3 && rank == 1);
}

static int unused_body(struct mp_job *job)
{
	static float memory[TOTAL + TENSORS];
	bool strict = job->arg != NULL;
	struct tutti_reducer_config config;
	struct tutti_reducer *r;
	float *g[TENSORS], sum;
	unsigned step;
	size_t i, k;
	int rank;

	tensors_of(memory, sizeof(float), 1, (void **)g);
	config = config_of((void *const *)g);
	config.flags = TUTTI_REDUCER_SUM | (strict ? 0 : TUTTI_REDUCER_UNUSED);
	MP_OK(tutti_reducer_create(job->world, &config, &r));
	for (step = 0; step < 6; step++) {
		fill(g, step, job->rank, whole);
		for (i = 0; i < TENSORS; i++)
			if (step == 4 || !missing(i, job->rank))
				MP_OK(tutti_reducer_ready(r, i));
		MP_ERR(tutti_reducer_finish(r), strict && step != 4 ? -EINVAL : 0);
		if (strict && step != 4)
			MP_SAID("tensor 3 was never ready");
		if (strict && step != 4)
			MP_SAID("rank 0 lacks tensors");
		for (i = 0; i < TENSORS; i++) {
			int want = step == 4 ? 0 : i == 7 ? 2 : i == 3 ? 1 : 0;

			TT_EXPECT(tutti_reducer_unused(r, i) == want);
			for (k = 0; k < counts[i]; k++) {
				for (rank = 0, sum = 0; rank < job->n; rank++)
					if (step == 4 || !missing(i, rank))
						sum += whole(step, rank, i * 10000 + k);
				TT_EXPECT(g[i][k] == sum);
			}
		}
	}
	return tutti_reducer_free(r);
}

static void unused(void)
{
	TT_CHECK(!MP_RUN(.n = 3, .env = SHM, .fn = unused_body));
	TT_CHECK(!MP_RUN(.n = 3, .env = SHM, .fn = unused_body, .arg = "strict"));
}

/* Other ranks and tensors in each step; in half of them none. */
static bool lacks(unsigned step, int rank, size_t i)
{
	return mix(step, 77, 0) % 2 && mix(step, (uint64_t)rank, 78) % 2 &&
	       mix(step, (uint64_t)rank, 100 + i) % TENSORS < 2;
}

/* All ranks fail alike or not at all, with the first of the tensors and ranks that lack some. */
static int check_lacking(struct mp_job *job, struct tutti_reducer *r, unsigned step, int err)
{
	int rank, first = job->n, lacking, want;
	size_t i, tensor = TENSORS;
	char text[64];

	for (i = 0; i < TENSORS; i++) {
		for (rank = 0, lacking = 0; rank < job->n; rank++) {
			if (!lacks(step, rank, i))
				continue;
			lacking++;
			tensor = tensor < i ? tensor : i;
			first = first < rank ? first : rank;
		}
		want = lacking == job->n ? 2 : lacking > 0;
		TT_EXPECT(tutti_reducer_unused(r, i) == want);
	}
	MP_ERR(err, tensor < TENSORS ? -EINVAL : 0);
	if (!err)
		return 0;
	snprintf(text, sizeof(text), "tensor %zu was never ready in step %u (rank %d lacks", tensor,
		 step + 1, first);
	TT_EXPECT(mp_said(text));
	return 0;
}

static int lacking_body(struct mp_job *job)
{
	static float memory[TOTAL + TENSORS];
	struct tutti_reducer_config config;
	struct tutti_reducer *r;
	float *g[TENSORS], sum;
	unsigned step;
	size_t i, k;
	int rank, err;

	tensors_of(memory, sizeof(float), 1, (void **)g);
	config = config_of((void *const *)g);
	config.flags = TUTTI_REDUCER_SUM;
	if (job->arg) /* the last bucket has tensor 2, which has no elements */
		config.first_bytes = config.bucket_bytes = 4;
	MP_OK(tutti_reducer_create(job->world, &config, &r));
	for (step = 0; step < 200; step++) {
		fill(g, step, job->rank, whole);
		for (i = 0; i < TENSORS; i++) {
			k = job->arg ? (3 + i) % TENSORS : TENSORS - 1 - i;
			if (!lacks(step, job->rank, k))
				MP_OK(tutti_reducer_ready(r, k));
		}
		err = tutti_reducer_finish(r);
		TT_EXPECT(!check_lacking(job, r, step, err));
		for (i = 0; i < TENSORS; i++)
			for (k = 0; k < counts[i]; k++) {
				for (rank = 0, sum = 0; rank < job->n; rank++)
					if (!lacks(step, rank, i))
						sum += whole(step, rank, i * 10000 + k);
				TT_EXPECT(g[i][k] == sum);
			}
	}
	return tutti_reducer_free(r);
}

static void lacking(void)
{
	TT_CHECK(!MP_RUN(.n = 1, .env = SHM, .fn = lacking_body));
	TT_CHECK(!MP_RUN(.n = 4, .env = SHM, .fn = lacking_body));
	TT_CHECK(!MP_RUN(.n = 2, .env = SHM, .fn = lacking_body, .arg = "empty"));
	TT_CHECK(!MP_RUN(.n = 3, .env = FAULT, .fn = lacking_body));
	if (!mp_no_ofi())
		TT_CHECK(!MP_RUN(.n = 3, .env = OFI "TUTTI_HOST_ID=h%h ", .fn = lacking_body));
}

static uint64_t messages(struct mp_job *job)
{
	struct tutti_stats s = {.size = sizeof(s)};

	tutti_stats_get(job->ctx, &s);
	return s.eager_messages + s.put_messages;
}

/* A step in which all tensors are ready sends the messages of its buckets' all-reduces alone. */
static int messages_body(struct mp_job *job)
{
	static float memory[TOTAL + TENSORS], buf[TOTAL];
	size_t i, k, count, bucket, offset, n = 0;
	struct tutti_reducer_config config;
	struct tutti_reducer *r;
	uint64_t before, bare;
	float *g[TENSORS];
	int step;

	tensors_of(memory, sizeof(float), 1, (void **)g);
	config = config_of((void *const *)g);
	MP_OK(tutti_reducer_create(job->world, &config, &r));
	for (step = 0; step < 5; step++) {
		before = messages(job);
		for (i = TENSORS; i-- > 0;)
			MP_OK(tutti_reducer_ready(r, i));
		MP_OK(tutti_reducer_finish(r));
	} /* the first one has divided the tensors */
	before = messages(job) - before;
	bare = messages(job);
	for (k = 0; k <= n; k++) {
		for (i = 0, count = 0; i < TENSORS; i++) {
			MP_OK(tutti_reducer_bucket(r, i, &bucket, &offset));
			count += bucket == k ? counts[i] : 0;
			n = bucket > n ? bucket : n;
		}
		MP_OK(tutti_allreduce(TUTTI_IN_PLACE, buf, count, TUTTI_FLOAT32, TUTTI_AVG,
				      job->world));
	}
	bare = messages(job) - bare;
	TT_EXPECT(bare > 0 && before == bare);
	return tutti_reducer_free(r);
}

static void messages_alone(void)
{
	if (mp_no_ofi())
		TT_SKIP("%s", mp_no_ofi());
	TT_CHECK(!MP_RUN(.n = 3, .env = OFI "TUTTI_HOST_ID=h%h ", .fn = messages_body));
}

/* ---- which tensors are in a bucket ---- */

static int divided_body(struct mp_job *job)
{
	static const size_t sizes[] = {4, 4, 4, 100, 100, 100, 10}, n = 7;
	/* tensors in the small buckets at the end: two, one; one, one, one; one; one, two, one;
	   three, one, one, two */
	static const struct division {
		size_t first_bytes, bucket_bytes, bucket[7];
	} want[] = {{40, 800, {4, 3, 3, 2, 1, 1, 0}},
		    {256, 800, {4, 3, 2, 1, 1, 0, 0}},
		    {15, 800, {3, 2, 2, 2, 1, 1, 0}},
		    {512, 800, {3, 2, 2, 1, 0, 0, 0}},
		    {8192, 16384, {3, 3, 2, 1, 0, 0, 0}}};
	static float memory[322];
	struct tutti_reducer_config config = {
		.size = sizeof(config), .n = n, .counts = sizes, .datatype = TUTTI_FLOAT32};
	struct tutti_reducer *r;
	size_t i, k, bucket, offset;
	void *g[7];
	int step;

	for (i = 0, k = 0; i < n; k += sizes[i++])
		g[i] = memory + k;
	config.gradients = g;
	for (k = 0; k < sizeof(want) / sizeof(want[0]); k++) {
		config.first_bytes = want[k].first_bytes;
		config.bucket_bytes = want[k].bucket_bytes;
		MP_OK(tutti_reducer_create(job->world, &config, &r));
		for (step = 0; step < 2; step++) {
			for (i = 0; i < n; i++) {
				MP_OK(tutti_reducer_bucket(r, i, &bucket, &offset));
				TT_EXPECT(bucket == want[k].bucket[i]);
			}
			for (i = n; i-- > 0;)
				MP_OK(tutti_reducer_ready(r, i));
			MP_OK(tutti_reducer_finish(r));
		}
		MP_OK(tutti_reducer_free(r));
	}
	return 0;
}

static void divided(void)
{
	TT_CHECK(!MP_RUN(.n = 1, .env = SHM, .fn = divided_body));
}

/* ---- refusals ---- */

static int refused(struct mp_job *job, const struct tutti_reducer_config *c, const char *word)
{
	struct tutti_reducer *r = NULL;
	int err = tutti_reducer_create(job->world, c, &r);

	if (err != -EINVAL || r || !mp_said(word)) {
		mp_failed(job, word, err, __FILE__, __LINE__);
		return 1;
	}
	return 0;
}

static int refused_configs(struct mp_job *job, const struct tutti_reducer_config *good)
{
	size_t many[TENSORS] = {SIZE_MAX / 4};
	struct tutti_reducer_config bad = *good;
	void *none[TENSORS] = {0};
	struct tutti_codec *codec;

	TT_EXPECT(!refused(job, NULL, "config is NULL"));
	bad.size = 8;
	TT_EXPECT(!refused(job, &bad, "size is 8"));
	bad = *good, bad.n = 0;
	TT_EXPECT(!refused(job, &bad, "n is 0"));
	bad = *good, bad.counts = NULL;
	TT_EXPECT(!refused(job, &bad, "counts is NULL"));
	bad = *good, bad.gradients = NULL;
	TT_EXPECT(!refused(job, &bad, "gradients is NULL"));
	bad = *good, bad.gradients = none;
	TT_EXPECT(!refused(job, &bad, "gradients of tensor 0 is NULL"));
	bad = *good, bad.counts = many;
	TT_EXPECT(!refused(job, &bad, "fit in memory"));
	bad = *good, bad.datatype = TUTTI_FLOAT64_INDEX + 1;
	TT_EXPECT(!refused(job, &bad, "datatype is"));
	bad = *good, bad.flags = 4;
	TT_EXPECT(!refused(job, &bad, "flags are 0x4"));
	MP_OK(tutti_codec_create("fp16", &codec));
	bad = *good, bad.codec = codec, bad.datatype = TUTTI_FLOAT64;
	TT_EXPECT(!refused(job, &bad, "float32"));
	MP_ERR(tutti_reducer_create(job->world, good, NULL), -EINVAL);
	return tutti_codec_free(codec);
}

/* Structs of a newer header: fields that are not known must be 0, or become 0. */
static int newer_body(struct mp_job *job)
{
	static float memory[TOTAL];
	struct {
		struct tutti_reducer_config config;
		char later[24];
	} newer = {.later = {0}};
	struct {
		struct tutti_reducer_stats stats;
		char later[24];
	} more;
	struct tutti_reducer *r = NULL;
	float *g[TENSORS];
	size_t i;

	tensors_of(memory, sizeof(float), 0, (void **)g);
	newer.config = config_of((void *const *)g);
	newer.config.size = sizeof(newer);
	newer.later[5] = 1;
	MP_ERR(tutti_reducer_create(job->world, &newer.config, &r), -EINVAL);
	MP_SAID("does not know");
	newer.later[5] = 0;
	MP_OK(tutti_reducer_create(job->world, &newer.config, &r));
	memset(&more, 1, sizeof(more));
	more.stats.size = sizeof(more);
	MP_OK(tutti_reducer_stats(r, &more.stats));
	for (i = 0; i < sizeof(more.later); i++)
		TT_EXPECT(!more.later[i]);
	TT_EXPECT(more.stats.size == sizeof(more) && more.stats.bytes == TOTAL * 4);
	return tutti_reducer_free(r);
}

static int refusals_body(struct mp_job *job)
{
	static float memory[TOTAL];
	struct tutti_reducer_stats stats = {.size = 4};
	struct tutti_reducer_config config;
	struct tutti_reducer *r = NULL;
	float *g[TENSORS];
	size_t i, k, o;

	tensors_of(memory, sizeof(float), 0, (void **)g);
	config = config_of((void *const *)g);
	TT_EXPECT(!refused_configs(job, &config));
	MP_OK(tutti_reducer_create(job->world, &config, &r));
	MP_OK(tutti_reducer_ready(r, 11));
	MP_ERR(tutti_reducer_ready(r, 11), -EINVAL);
	MP_SAID("tensor 11 is ready already in step 1");
	MP_ERR(tutti_reducer_ready(r, TENSORS), -EINVAL);
	MP_SAID("0 to 11");
	MP_ERR(tutti_reducer_ready(NULL, 0), -EINVAL);
	MP_ERR(tutti_reducer_accumulate(r, 1), -EBUSY);
	for (i = 0; i < 11; i++)
		MP_OK(tutti_reducer_ready(r, i));
	MP_OK(tutti_reducer_finish(r)); /* refusals change nothing */
	MP_ERR(tutti_reducer_finish(NULL), -EINVAL);
	MP_ERR(tutti_reducer_accumulate(NULL, 1), -EINVAL);
	MP_ERR(tutti_reducer_unused(r, TENSORS), -EINVAL);
	MP_ERR(tutti_reducer_bucket(r, TENSORS, &k, &o), -EINVAL);
	MP_ERR(tutti_reducer_bucket(r, 0, NULL, &o), -EINVAL);
	MP_ERR(tutti_reducer_stats(r, &stats), -EINVAL);
	MP_ERR(tutti_reducer_stats(r, NULL), -EINVAL);
	MP_OK(tutti_reducer_free(NULL));
	return tutti_reducer_free(r);
}

/*
 * Rank 1 frees its reducer in the middle of a step, and the others' step fails; or all ranks do,
 * and no call fails.
 */
static int left_body(struct mp_job *job)
{
	const bool all = job->arg != NULL;
	static float memory[TOTAL];
	struct tutti_reducer_config config;
	struct tutti_reducer *r;
	float *g[TENSORS];
	int err = 0;
	size_t i;

	tensors_of(memory, sizeof(float), 0, (void **)g);
	config = config_of((void *const *)g);
	MP_OK(tutti_reducer_create(job->world, &config, &r));
	for (i = TENSORS; !err && i-- > 0;)
		if ((job->rank != 1 && !all) || i > 2)
			err = tutti_reducer_ready(r, i);
	if (job->rank != 1 && !all) {
		err = err ? err : tutti_reducer_finish(r);
		MP_SAID("rank 1 on host");
	}
	MP_ERR(err, all || job->rank == 1 ? 0 : -TUTTI_EREVOKED);
	MP_OK(tutti_reducer_free(r));
	mp_meet(job);
	if (all)
		return tutti_barrier(job->world);
	return mp_leave_failed(job); /* the world may share connections with the reducer */
}

static void left(void)
{
	TT_CHECK(!MP_RUN(.n = 3, .env = "TUTTI_NODE=on", .fn = left_body));
	TT_CHECK(!MP_RUN(.n = 3, .env = SHM "TUTTI_NODE=off", .fn = left_body));
	TT_CHECK(!MP_RUN(.n = 3, .env = "TUTTI_NODE=on", .fn = left_body, .arg = "all"));
	TT_CHECK(!MP_RUN(.n = 3, .env = SHM "TUTTI_NODE=off", .fn = left_body, .arg = "all"));
}

static void refusals(void)
{
	TT_CHECK(!MP_RUN(.n = 2, .env = SHM, .fn = refusals_body));
	TT_CHECK(!MP_RUN(.n = 1, .env = SHM, .fn = newer_body));
}

/* ---- ranks that differ, deaths ---- */

static int differ_body(struct mp_job *job)
{
	static float memory[TOTAL];
	size_t other[TENSORS];
	struct tutti_reducer_config config, odd;
	struct tutti_reducer *r = NULL;
	bool me = job->rank == 1;
	float *g[TENSORS];

	tensors_of(memory, sizeof(float), 0, (void **)g);
	config = config_of((void *const *)g);
	memcpy(other, counts, sizeof(other));
	other[4] = 32;
	odd = config, odd.counts = other;
	MP_ERR(tutti_reducer_create(job->world, me ? &odd : &config, &r), -TUTTI_EMISMATCH);
	MP_SAID("tensor 4 has 32 elements on rank 1 and 33 on rank 0");
	odd = config, odd.n = 3;
	MP_ERR(tutti_reducer_create(job->world, me ? &odd : &config, &r), -TUTTI_EMISMATCH);
	MP_SAID("rank 1 has 3 tensors, rank 0 has 12");
	odd = config, odd.bucket_bytes = 77;
	MP_ERR(tutti_reducer_create(job->world, me ? &odd : &config, &r), -TUTTI_EMISMATCH);
	MP_SAID("disagree on bucket_bytes (3000 and 77)");
	odd = config, odd.flags = TUTTI_REDUCER_SUM;
	MP_ERR(tutti_reducer_create(job->world, me ? &odd : &config, &r), -TUTTI_EMISMATCH);
	MP_SAID("disagree on flags");
	TT_EXPECT(!r);
	MP_OK(tutti_reducer_create(job->world, &config, &r));
	return tutti_reducer_free(r);
}

static void differ(void)
{
	TT_CHECK(!MP_RUN(.n = 3, .env = SHM, .fn = differ_body));
}

/* Rank 0 meets the death in a ready, rank 2 in its wait for the last bucket. */
static int death_body(struct mp_job *job)
{
	struct tutti_error_info info = {.size = sizeof(info)};
	static float memory[TOTAL];
	struct tutti_reducer_config config;
	struct tutti_comm *living;
	struct tutti_reducer *r;
	float *g[TENSORS];
	size_t i;
	int step, err = 0;

	tensors_of(memory, sizeof(float), 0, (void **)g);
	config = config_of((void *const *)g);
	MP_OK(tutti_reducer_create(job->world, &config, &r));
	for (step = 0; step < 100000 && !err; step++) {
		for (i = 0; i < TENSORS && !err; i++) {
			if (job->rank == 1 && step == 5 && i == TENSORS - 1) {
				mp_sleep_ms(20);
				kill(getpid(), SIGKILL);
			}
			if (!job->rank && step == 5 && i == TENSORS - 1)
				MP_ERR(tutti_barrier(job->world), -TUTTI_EPEER);
			err = tutti_reducer_ready(r, TENSORS - 1 - i);
		}
		TT_EXPECT(err || job->rank || step < 5);
		err = err ? err : tutti_reducer_finish(r);
	}
	MP_ERR(err, -TUTTI_EPEER);
	MP_OK(tutti_last_error(&info));
	TT_EXPECT(info.rank == 1 && !strcmp(info.call, "allreduce") && info.sequence);
	MP_ERR(tutti_reducer_ready(r, 0), -TUTTI_EPEER);
	MP_ERR(tutti_reducer_finish(r), -TUTTI_EPEER);
	MP_OK(tutti_reducer_free(r));
	MP_OK(tutti_comm_shrink(job->world, &living));
	MP_OK(tutti_reducer_create(living, &config, &r));
	for (i = 0; i < TENSORS; i++)
		MP_OK(tutti_reducer_ready(r, i));
	MP_OK(tutti_reducer_finish(r));
	MP_OK(tutti_reducer_free(r));
	mp_leave(job);
	return 0;
}

static void death(void)
{
	TT_CHECK(!MP_RUN(.n = 3, .env = SHM, .fn = death_body, .killed = 2));
	if (!mp_no_ofi())
		TT_CHECK(!MP_RUN(.n = 3, .env = OFI, .fn = death_body, .killed = 2));
}

static const struct tt_test tests[] = {{"steps_shm", steps_shm},
				       {"steps_fault", steps_fault},
				       {"steps_ofi", steps_ofi},
				       {"threads", threads},
				       {"accumulate", accumulate},
				       {"unused", unused},
				       {"lacking", lacking},
				       {"left", left},
				       {"messages", messages_alone},
				       {"divided", divided},
				       {"refusals", refusals},
				       {"differ", differ},
				       {"death", death},
				       {NULL, NULL}};

int main(int argc, char **argv)
{
	return tt_test_main("reducer", tests, argc, argv);
}
