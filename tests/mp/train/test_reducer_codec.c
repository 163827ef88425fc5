/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The reducer with codecs: residuals move with their tensors, and are saved and restored, also on
 * other ranks.
 */
#include <errno.h>
#include <math.h>

#include "tests/mp/train/reducer.h"

/* The part of step 0 that top-k leaves out arrives later, although the buckets change after step 0.
 */
static int codec_body(struct mp_job *job)
{
	static float memory[TOTAL], got[TOTAL];
	struct tutti_reducer_config config;
	struct tutti_reducer *r;
	struct tutti_codec *codec;
	size_t order[TENSORS], i, k, at;
	float *g[TENSORS], sum;
	unsigned step;
	int rank;

	MP_OK(tutti_codec_create("topk:30%", &codec));
	tensors_of(memory, sizeof(float), 0, (void **)g);
	config = config_of((void *const *)g);
	config.flags = TUTTI_REDUCER_SUM;
	config.codec = codec;
	MP_OK(tutti_reducer_create(job->world, &config, &r));
	memset(got, 0, sizeof(got));
	shuffle(9, order);
	for (step = 0; step < 12; step++) {
		memset(memory, 0, sizeof(memory));
		if (!step)
			fill(g, 0, job->rank, whole);
		for (i = 0; i < TENSORS; i++)
			MP_OK(tutti_reducer_ready(r, order[i]));
		MP_OK(tutti_reducer_finish(r));
		for (i = 0; i < TOTAL; i++)
			got[i] += memory[i];
	}
	for (i = 0, at = 0; i < TENSORS; i++)
		for (k = 0; k < counts[i]; k++, at++) {
			for (rank = 0, sum = 0; rank < job->n; rank++)
				sum += whole(0, rank, i * 10000 + k);
			TT_EXPECT(got[at] == sum);
		}
	MP_OK(tutti_reducer_free(r));
	return tutti_codec_free(codec);
}

/*
 * A codec with two vectors, both of which move: a gradient g of one rank in step 0 that is not sent
 * until step t has grown to (1 + 1/2 + ... + 1/2^t) g by then, and comes once.
 */
static int momentum_body(struct mp_job *job)
{
	static float memory[TOTAL];
	static unsigned char came[TOTAL];
	struct tutti_reducer_config config;
	struct tutti_reducer *r;
	struct tutti_codec *codec;
	size_t order[TENSORS], i, k, at;
	float *g[TENSORS], first, grown = 1;
	unsigned step, late = 0;

	MP_OK(tutti_codec_create("dgc:30%,momentum=0.5", &codec));
	tensors_of(memory, sizeof(float), 0, (void **)g);
	config = config_of((void *const *)g);
	config.flags = TUTTI_REDUCER_SUM;
	config.codec = codec;
	MP_OK(tutti_reducer_create(job->world, &config, &r));
	memset(came, 0, sizeof(came));
	shuffle(9, order);
	for (step = 0; step < 8; step++, grown = 1 + grown / 2) {
		memset(memory, 0, sizeof(memory));
		if (!step && job->rank == 1)
			fill(g, 0, 1, whole);
		for (i = 0; i < TENSORS; i++)
			MP_OK(tutti_reducer_ready(r, order[i]));
		MP_OK(tutti_reducer_finish(r));
		for (i = 0, at = 0; i < TENSORS; i++)
			for (k = 0; k < counts[i]; k++, at++) {
				first = whole(0, 1, i * 10000 + k);
				TT_EXPECT(!g[i][k] || (g[i][k] == first * grown && !came[at]));
				came[at] |= !first || g[i][k] != 0;
				late += step > 1 && g[i][k] != 0;
			}
	}
	TT_EXPECT(late && !memchr(came, 0, sizeof(came)));
	MP_OK(tutti_reducer_free(r));
	return tutti_codec_free(codec);
}

/* ---- saved and restored ---- */

static int zero_steps(struct mp_job *job, struct tutti_reducer *r, float *memory, float *got, int n)
{
	size_t i;

	while (n--) {
		memset(memory, 0, TOTAL * sizeof(*memory));
		for (i = 0; i < TENSORS; i++)
			MP_OK(tutti_reducer_ready(r, i));
		MP_OK(tutti_reducer_finish(r));
		for (i = 0; i < TOTAL; i++)
			got[i] += memory[i];
	}
	return 0;
}

/* The residuals of three ranks arrive on two of them, whose reducer has other buckets. */
static int fewer_body(struct mp_job *job, struct tutti_comm *two, struct tutti_reducer_config *c,
		      float *state, float *memory, float *got)
{
	static float theirs[2 * TOTAL];
	size_t count = (size_t)tutti_codec_states(c->codec) * TOTAL, i;
	struct tutti_reducer *r;

	if (job->rank == 2) {
		MP_OK(tutti_send(state, count, TUTTI_FLOAT32, 0, 1, job->world));
	} else if (!job->rank) {
		MP_OK(tutti_recv(theirs, count, TUTTI_FLOAT32, 2, 1, job->world, NULL));
		for (i = 0; i < count; i++)
			state[i] += theirs[i];
	}
	if (job->rank == 2)
		return 0;
	c->bucket_bytes = 900;
	MP_OK(tutti_reducer_create(two, c, &r));
	MP_OK(tutti_reducer_restore(r, state, count));
	TT_EXPECT(!zero_steps(job, r, memory, got, 12));
	return tutti_reducer_free(r);
}

static int check_refused(struct mp_job *job, struct tutti_reducer *r, float *state, size_t count)
{
	struct tutti_reducer *plain;
	struct tutti_reducer_config config;
	static float memory[TOTAL];
	float *g[TENSORS], first = state[0];

	tensors_of(memory, sizeof(float), 0, (void **)g);
	config = config_of((void *const *)g);
	MP_OK(tutti_reducer_create(job->world, &config, &plain));
	MP_ERR(tutti_reducer_save(plain, state, count), -EINVAL);
	MP_SAID("has no codec");
	MP_OK(tutti_reducer_free(plain));
	MP_ERR(tutti_reducer_save(r, state, count - 1), -EINVAL);
	MP_SAID("vectors of 5403 elements");
	MP_ERR(tutti_reducer_restore(r, NULL, count), -EINVAL);
	state[0] = NAN;
	MP_ERR(tutti_reducer_restore(r, state, count), -EINVAL);
	MP_SAID("element 0 of state is");
	state[0] = first;
	MP_OK(tutti_reducer_ready(r, 0));
	MP_ERR(tutti_reducer_save(r, state, count), -EBUSY);
	MP_ERR(tutti_reducer_restore(r, state, count), -EBUSY);
	return 0;
}

static int saved_body(struct mp_job *job)
{
	static float memory[TOTAL], got[TOTAL], state[2 * TOTAL];
	struct tutti_reducer_config config;
	struct tutti_reducer *r;
	struct tutti_comm *two;
	float *g[TENSORS], sum;
	size_t order[TENSORS], i, k, at, count;
	int rank;

	tensors_of(memory, sizeof(float), 0, (void **)g);
	config = config_of((void *const *)g);
	config.flags = TUTTI_REDUCER_SUM | TUTTI_REDUCER_UNUSED;
	MP_OK(tutti_codec_create(job->arg, &config.codec));
	MP_OK(tutti_reducer_create(job->world, &config, &r));
	MP_OK(tutti_comm_split(job->world, job->rank == 2, job->rank, &two));
	fill(g, 0, job->rank, whole);
	shuffle(9, order);
	for (i = 0; i < TENSORS; i++)
		MP_OK(tutti_reducer_ready(r, order[i]));
	MP_OK(tutti_reducer_finish(r));
	memcpy(got, memory, sizeof(got));
	count = (size_t)tutti_codec_states(config.codec) * TOTAL;
	MP_OK(tutti_reducer_save(r, state, count));
	TT_EXPECT(!fewer_body(job, two, &config, state, memory, got));
	for (i = 0, at = 0; i < TENSORS && job->rank < 2; i++)
		for (k = 0; k < counts[i]; k++, at++) {
			for (rank = 0, sum = 0; rank < job->n; rank++)
				sum += whole(0, rank, i * 10000 + k);
			TT_EXPECT(got[at] == sum);
		}
	TT_EXPECT(!check_refused(job, r, state, count));
	MP_OK(tutti_reducer_finish(r));
	MP_OK(tutti_reducer_free(r));
	MP_OK(tutti_comm_free(two));
	return tutti_codec_free(config.codec);
}

static void saved(void)
{
	TT_CHECK(!MP_RUN(.n = 3, .env = SHM, .fn = saved_body, .arg = "topk:30%"));
	TT_CHECK(!MP_RUN(.n = 3, .env = SHM, .fn = saved_body, .arg = "dgc:30%,momentum=0"));
}

static void codecs(void)
{
	TT_CHECK(!MP_RUN(.n = 3, .env = SHM, .fn = codec_body));
	TT_CHECK(!MP_RUN(.n = 2, .env = SHM, .fn = momentum_body));
}

static const struct tt_test tests[] = {{"codecs", codecs}, {"saved", saved}, {NULL, NULL}};

int main(int argc, char **argv)
{
	return tt_test_main("reducer_codec", tests, argc, argv);
}
