/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The sharded optimizer: the bits of the plain optimizer by every rule, 1/P of its state, memory of
 * stage 2, encoded gradients, clipping, states saved and restored at other numbers of ranks, files
 * of other models and damaged ones.
 */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/mp/train/sharded_model.h"
#include "train/sharded_state.h"

/* ---- the bits of the plain optimizer, and 1/P of its state ---- */

static int check_memory(struct mp_job *job, struct tutti_sharded *s, const struct tutti_rule *rule)
{
	struct tutti_sharded_memory memory = {.size = sizeof(memory)};
	uint64_t states = (uint64_t)tutti_rule_states(rule->rule), sums[2], whole_state;

	MP_OK(tutti_sharded_memory(s, &memory));
	whole_state = states * TOTAL * 4;
	/* a block is at most an element longer than 1/P of its bucket */
	TT_EXPECT(memory.state_bytes <= whole_state / (uint64_t)job->n + states * TENSORS * 4);
	sums[0] = memory.state_bytes;
	sums[1] = memory.gradient_bytes;
	MP_OK(tutti_allreduce(TUTTI_IN_PLACE, sums, 2, TUTTI_UINT64, TUTTI_SUM, job->world));
	TT_EXPECT(sums[0] == whole_state && sums[1] == TOTAL * 4);
	return 0;
}

static int bits_of_rule(struct mp_job *job, int which, int stage, size_t gap, bool mixed)
{
	static struct model m;
	const struct tutti_rule rule = rule_of(which);
	struct tutti_sharded_memory memory = {.size = sizeof(memory)};
	struct tutti_sharded_config config;
	struct tutti_sharded *s;
	unsigned step;

	model_new(&m, gap);
	config = config_of((void *const *)m.tensor, &rule, stage);
	MP_OK(tutti_sharded_create(job->world, &config, &s));
	for (step = 1; step <= 3; step++) {
		gradients(&m, step, job->rank, job->n, false);
		TT_EXPECT(!step_of(job, s, &m, step, mixed, stage == 2));
		MP_OK(plain_step(&m, &rule, step));
		TT_EXPECT(same_bits(&m));
	}
	TT_EXPECT(!check_memory(job, s, &rule));
	MP_OK(tutti_sharded_memory(s, &memory));
	TT_EXPECT(gap || stage == 2 ? memory.buffer_bytes > 0 : memory.buffer_bytes == 0);
	return tutti_sharded_free(s);
}

static int bits_body(struct mp_job *job)
{
	int rule, stage;

	for (rule = TUTTI_PS_SGD; rule <= TUTTI_PS_ADAMW; rule++)
		for (stage = 1; stage <= 2; stage++)
			TT_EXPECT(!bits_of_rule(job, rule, stage, (size_t)(rule % 2), rule % 3));
	for (stage = 1; stage <= 2; stage++)
		TT_EXPECT(!bits_of_rule(job, TUTTI_PS_ADAMW, stage, 0, false));
	return 0;
}

static void bits(void)
{
	int n;

	for (n = 1; n <= 5; n++)
		TT_CHECK(!MP_RUN(.n = n, .env = SHM, .fn = bits_body));
	TT_CHECK(!MP_RUN(.n = 3, .env = FAULT, .fn = bits_body));
	if (!mp_no_ofi())
		TT_CHECK(!MP_RUN(.n = 3, .env = OFI, .fn = bits_body));
}

/* ---- stage 2 keeps a few buckets ---- */

#define LAYERS 40
#define LAYER 750 /* elements: a bucket each */

static int layers_new(struct mp_job *job, float (*x)[LAYER], struct tutti_sharded **s)
{
	const struct tutti_rule rule = rule_of(TUTTI_PS_SGD);
	struct tutti_sharded_config config;
	size_t lens[LAYERS], i;
	void *tensor[LAYERS];

	for (i = 0; i < LAYERS; i++) {
		lens[i] = LAYER;
		tensor[i] = x[i];
	}
	config = config_of(tensor, &rule, 2);
	config.n = LAYERS;
	config.counts = lens;
	MP_OK(tutti_sharded_create(job->world, &config, s));
	return 0;
}

static int stage2_body(struct mp_job *job)
{
	static float x[LAYERS][LAYER], g[LAYER];
	struct tutti_sharded_memory memory = {.size = sizeof(memory)};
	struct tutti_sharded *s;
	size_t i;
	int step;

	TT_EXPECT(!layers_new(job, x, &s));
	for (step = 0; step < 3; step++) {
		for (i = LAYERS; i-- > 0;) /* one gradient's memory for all layers */
			MP_OK(tutti_sharded_ready(s, i, g));
		MP_OK(tutti_sharded_step(s, NULL));
		MP_OK(tutti_sharded_wait(s, TUTTI_SHARDED_ALL));
	}
	MP_OK(tutti_sharded_memory(s, &memory));
	TT_EXPECT(memory.buffer_bytes <= 3 * LAYER * 4);
	TT_EXPECT(memory.gradient_bytes <= LAYERS * (LAYER / (uint64_t)job->n + 1) * 4);
	return tutti_sharded_free(s);
}

static void stage2(void)
{
	TT_CHECK(!MP_RUN(.n = 4, .env = SHM, .fn = stage2_body));
}

/* Between hosts a rank gets all parameters while the others do something else. */
static int apart_body(struct mp_job *job)
{
	static float x[LAYERS][LAYER], g[LAYER];
	struct tutti_sharded *s;
	size_t i;

	for (i = 0; i < LAYER; i++)
		g[i] = 1;
	TT_EXPECT(!layers_new(job, x, &s));
	for (i = LAYERS; i-- > 0;)
		MP_OK(tutti_sharded_ready(s, i, g));
	MP_OK(tutti_sharded_step(s, NULL));
	if (job->rank)
		MP_OK(tutti_barrier(job->world));
	MP_OK(tutti_sharded_wait(s, 0));
	TT_EXPECT(x[0][0] < 0 && x[0][LAYER - 1] < 0);
	MP_OK(tutti_sharded_wait(s, TUTTI_SHARDED_ALL));
	for (i = 1; i < LAYERS; i++)
		TT_EXPECT(!memcmp(x[i], x[0], sizeof(x[0])));
	if (!job->rank)
		MP_OK(tutti_barrier(job->world));
	return tutti_sharded_free(s);
}

static void apart(void)
{
	if (mp_no_ofi())
		TT_SKIP("%s", mp_no_ofi());
	TT_CHECK(!MP_RUN(.n = 3, .env = OFI "TUTTI_HOST_ID=h%h TUTTI_TIMEOUT=20s",
			 .fn = apart_body));
}

/* With the default buckets the last ones are small: no bucket has two of the long tensors. */
static int ends_body(struct mp_job *job)
{
	static const size_t lens[] = {16, 100000, 300000, 300000};
	static float x[700016], g[300000];
	const struct tutti_rule rule = rule_of(TUTTI_PS_SGD);
	struct tutti_sharded_memory memory = {.size = sizeof(memory)};
	void *tensor[] = {x, x + 16, x + 100016, x + 400016};
	struct tutti_sharded_config config = config_of(tensor, &rule, 2);
	struct tutti_sharded *s;
	size_t i;

	config.n = 4;
	config.counts = lens;
	config.bucket_bytes = 0;
	MP_OK(tutti_sharded_create(job->world, &config, &s));
	for (i = 4; i-- > 0;)
		MP_OK(tutti_sharded_ready(s, i, g));
	MP_OK(tutti_sharded_step(s, NULL));
	MP_OK(tutti_sharded_wait(s, TUTTI_SHARDED_ALL));
	MP_OK(tutti_sharded_memory(s, &memory));
	TT_EXPECT(memory.buffer_bytes == lens[2] * sizeof(float));
	return tutti_sharded_free(s);
}

static void ends(void)
{
	TT_CHECK(!MP_RUN(.n = 1, .env = SHM, .fn = ends_body));
}

/* ---- gradients that the caller has reduced, by encoded all-reduces ---- */

/*
 * Sums the gradients of all ranks encoded. Each of P ranks is within half its scale, at most 8 /
 * 127, and the encoding of the sum within half of that, at most P times as much.
 */
static int encode(struct mp_job *job, struct model *m, struct tutti_codec *codec)
{
	struct tutti_call call = {.size = sizeof(call),
				  .coll = TUTTI_COLL_ALLREDUCE,
				  .sendbuf = TUTTI_IN_PLACE,
				  .datatype = TUTTI_FLOAT32,
				  .op = TUTTI_SUM,
				  .codec = codec};
	float half = 8.0f / 127 / 2, bound = (float)job->n * (half + (8 + half) / 127 / 2), sum;
	size_t i, k, at = 0, wrong = 0;

	for (i = 0; i < TENSORS; i++) {
		call.recvbuf = m->grad[i];
		call.count = counts[i];
		MP_OK(tutti_call(job->world, &call, NULL));
		for (k = 0; k < counts[i]; k++, at++) {
			sum = m->mean[at] * (float)job->n;
			TT_EXPECT(fabsf(m->grad[i][k] - sum) <= bound + 1e-5f);
			wrong += m->grad[i][k] != sum;
			m->mean[at] = m->grad[i][k];
		}
	}
	TT_EXPECT(wrong); /* it was encoded */
	return 0;
}

static int reduced_body(struct mp_job *job)
{
	static struct model m;
	const struct tutti_rule rule = rule_of(TUTTI_PS_ADAMW);
	struct tutti_sharded_memory memory = {.size = sizeof(memory)};
	struct tutti_sharded_config config;
	struct tutti_codec *codec;
	struct tutti_sharded *s;
	unsigned step;
	double norm, want;
	size_t i;

	MP_OK(tutti_codec_create("int8", &codec));
	model_new(&m, 0);
	config = config_of((void *const *)m.tensor, &rule, job->arg ? 2 : 1);
	config.flags = TUTTI_SHARDED_REDUCED;
	MP_OK(tutti_sharded_create(job->world, &config, &s));
	for (step = 1; step <= 3; step++) {
		gradients(&m, step, job->rank, job->n, false);
		TT_EXPECT(!encode(job, &m, codec));
		TT_EXPECT(!ready_all(job, s, &m, step, true, true));
		MP_OK(tutti_sharded_step(s, &norm));
		MP_OK(tutti_sharded_wait(s, TUTTI_SHARDED_ALL));
		MP_OK(plain_step(&m, &rule, step));
		TT_EXPECT(same_bits(&m));
		for (i = 0, want = 0; i < TOTAL; i++)
			want += (double)m.mean[i] * (double)m.mean[i];
		TT_EXPECT(fabs(norm - sqrt(want)) <= 1e-9 * norm);
	}
	TT_EXPECT(!check_memory(job, s, &rule));
	MP_OK(tutti_sharded_memory(s, &memory));
	TT_EXPECT(!memory.buffer_bytes);
	MP_OK(tutti_sharded_free(s));
	return tutti_codec_free(codec);
}

static void reduced(void)
{
	TT_CHECK(!MP_RUN(.n = 3, .env = SHM, .fn = reduced_body));
	TT_CHECK(!MP_RUN(.n = 4, .env = SHM, .fn = reduced_body, .arg = "2"));
}

/* ---- clipping ---- */

static int clip_body(struct mp_job *job)
{
	static struct model m;
	static double x[TOTAL], v[TOTAL];
	const struct tutti_rule rule = {
		.size = sizeof(rule), .rule = TUTTI_PS_MOMENTUM, .rate = 0.01, .momentum = 0.5};
	struct tutti_sharded_config config;
	struct tutti_sharded *s;
	double norm, want, factor;
	unsigned step;
	size_t i, k, at;

	model_new(&m, 0);
	for (i = 0; i < TOTAL; i++)
		x[i] = (double)m.plain[i];
	memset(v, 0, sizeof(v));
	config = config_of((void *const *)m.tensor, &rule, job->arg ? 2 : 1);
	config.clip_norm = 200;
	MP_OK(tutti_sharded_create(job->world, &config, &s));
	for (step = 1; step <= 6; step++) {
		gradients(&m, step, job->rank, job->n, false);
		for (i = 0; step % 3 == 0 && i < TENSORS; i++) /* a small one is not clipped */
			for (k = 0; k < counts[i]; k++)
				m.grad[i][k] /= 64;
		TT_EXPECT(!ready_all(job, s, &m, step, true, false));
		MP_OK(tutti_sharded_step(s, &norm));
		MP_OK(tutti_sharded_wait(s, TUTTI_SHARDED_ALL));
		for (i = 0, want = 0; i < TOTAL; i++) {
			m.mean[i] /= step % 3 ? 1 : 64;
			want += (double)m.mean[i] * (double)m.mean[i];
		}
		want = sqrt(want);
		TT_EXPECT(fabs(norm - want) <= 1e-6 * want);
		TT_EXPECT(step % 3 == 0 ? norm < 200 : norm > 200 || job->n > 3);
		factor = want > 200 ? 200 / want : 1;
		for (i = 0, at = 0; i < TENSORS; i++)
			for (k = 0; k < counts[i]; k++, at++) {
				v[at] = 0.5 * v[at] + factor * (double)m.mean[at];
				x[at] -= 0.01 * v[at];
				TT_EXPECT(fabs((double)m.tensor[i][k] - x[at]) <= 1e-6);
			}
	}
	/* a gradient that is not finite changes nothing */
	memcpy(m.mean, m.x, sizeof(m.mean));
	m.grad[5][100] = job->rank == job->n - 1 ? NAN : 0;
	TT_EXPECT(!ready_all(job, s, &m, step, true, false));
	norm = 7;
	MP_ERR(tutti_sharded_step(s, &norm), -EDOM);
	MP_SAID("norm of the gradient is");
	TT_EXPECT(norm == 7 && !memcmp(m.mean, m.x, sizeof(m.mean)));
	return tutti_sharded_free(s);
}

static void clip(void)
{
	TT_CHECK(!MP_RUN(.n = 1, .env = SHM, .fn = clip_body));
	TT_CHECK(!MP_RUN(.n = 3, .env = SHM, .fn = clip_body, .arg = "2"));
	TT_CHECK(!MP_RUN(.n = 4, .env = SHM, .fn = clip_body));
}

/* ---- saved and restored ---- */

static char dir[] = "/tmp/tutti_sharded_XXXXXX";
static char path[64];
static int which; /* rule */

#define HALF 3

/* Steps from first on; the plain optimizer makes all of them. */
static int some_steps(struct mp_job *job, struct tutti_sharded *s, struct model *m,
		      const struct tutti_rule *rule, unsigned first, bool plain)
{
	unsigned step;

	for (step = first; step < first + HALF; step++) {
		gradients(m, step, job->rank, job->n, true);
		if (s)
			TT_EXPECT(!step_of(job, s, m, step, true, false));
		if (plain)
			MP_OK(plain_step(m, rule, step));
	}
	return 0;
}

static int save_body(struct mp_job *job)
{
	static struct model m;
	const struct tutti_rule rule = rule_of(which);
	struct tutti_sharded_config config;
	struct tutti_sharded *s;

	model_new(&m, 0);
	config = config_of((void *const *)m.tensor, &rule, 2);
	MP_OK(tutti_sharded_create(job->world, &config, &s));
	TT_EXPECT(!some_steps(job, s, &m, &rule, 1, true));
	TT_EXPECT(same_bits(&m));
	MP_OK(tutti_sharded_save(s, job->rank ? NULL : path));
	return tutti_sharded_free(s);
}

static int restore_body(struct mp_job *job)
{
	static struct model m;
	const struct tutti_rule rule = rule_of(which);
	struct tutti_sharded_config config;
	struct tutti_sharded *s;
	size_t i, at;

	model_new(&m, 1);
	TT_EXPECT(!some_steps(job, NULL, &m, &rule, 1, true));
	for (i = 0, at = 0; i < TENSORS; at += counts[i++])
		memcpy(m.tensor[i], m.plain + at, counts[i] * sizeof(float));
	config = config_of((void *const *)m.tensor, &rule, 1);
	config.bucket_bytes = 700; /* the file does not depend on buckets */
	MP_OK(tutti_sharded_create(job->world, &config, &s));
	MP_OK(tutti_sharded_restore(s, job->rank ? NULL : path));
	TT_EXPECT(!some_steps(job, s, &m, &rule, 1 + HALF, true));
	TT_EXPECT(same_bits(&m));
	return tutti_sharded_free(s);
}

static bool begin_dir(void)
{
	strcpy(dir + strlen(dir) - 6, "XXXXXX");
	if (!mkdtemp(dir))
		return false;
	snprintf(path, sizeof(path), "%s/state", dir);
	return true;
}

static void saved(void)
{
	int n;

	TT_REQUIRE(begin_dir());
	for (which = TUTTI_PS_SGD; which <= TUTTI_PS_ADAMW; which += 3) {
		TT_CHECK(!MP_RUN(.n = 4, .env = SHM, .fn = save_body));
		for (n = 1; n <= 5; n += 2)
			TT_CHECK(!MP_RUN(.n = n, .env = SHM, .fn = restore_body));
	}
	which = TUTTI_PS_ADAM;
	TT_CHECK(!MP_RUN(.n = 1, .env = SHM, .fn = save_body));
	TT_CHECK(!MP_RUN(.n = 2, .env = SHM, .fn = restore_body));
	mp_remove_dir(dir);
}

/* The restore fails on all ranks with this text; the optimizer can still be used. */
static int no_restore(struct mp_job *job, struct tutti_sharded *s, const char *from, int code,
		      const char *word)
{
	int err = tutti_sharded_restore(s, from);

	if (err != code || !mp_said(word)) {
		mp_failed(job, word, err, __FILE__, __LINE__);
		return 1;
	}
	return 0;
}

static int damage(struct mp_job *job, size_t offset, const char *bytes, size_t len, long end)
{
	FILE *f;

	if (job->rank)
		return 0;
	f = fopen(path, "r+");
	TT_EXPECT(f);
	fseek(f, (long)offset, SEEK_SET);
	TT_EXPECT(fwrite(bytes, 1, len, f) == len && !fflush(f));
	TT_EXPECT(end < 0 || !ftruncate(fileno(f), end));
	fclose(f);
	return 0;
}

static long size_of(const char *file)
{
	struct stat st;

	return stat(file, &st) ? -1 : (long)st.st_size;
}

static int other_model_body(struct mp_job *job)
{
	static struct model m;
	const struct tutti_rule adam = rule_of(TUTTI_PS_ADAM),
				momentum = rule_of(TUTTI_PS_MOMENTUM);
	struct tutti_sharded_config config, odd;
	struct tutti_sharded *s, *t;
	size_t other[TENSORS];
	char nowhere[96];

	model_new(&m, 0);
	config = config_of((void *const *)m.tensor, &adam, 1);
	MP_OK(tutti_sharded_create(job->world, &config, &s));
	TT_EXPECT(!some_steps(job, s, &m, &adam, 1, true));
	MP_OK(tutti_sharded_save(s, path));
	memcpy(other, counts, sizeof(other));
	other[3]--;
	odd = config, odd.counts = other;
	MP_OK(tutti_sharded_create(job->world, &odd, &t));
	TT_EXPECT(!no_restore(job, t, path, -EINVAL, "tensor 3 has 900 elements"));
	MP_OK(tutti_sharded_free(t));
	odd = config, odd.n = 5;
	MP_OK(tutti_sharded_create(job->world, &odd, &t));
	TT_EXPECT(!no_restore(job, t, path, -EINVAL, "saved with 12 tensors"));
	MP_OK(tutti_sharded_free(t));
	odd = config, odd.rule = &momentum;
	MP_OK(tutti_sharded_create(job->world, &odd, &t));
	TT_EXPECT(!no_restore(job, t, path, -EINVAL,
			      "with rule adam, this optimizer has rule momentum"));
	MP_OK(tutti_sharded_free(t));
	snprintf(nowhere, sizeof(nowhere), "%s/none/state", dir);
	TT_EXPECT(!no_restore(job, s, nowhere, -ENOENT, "cannot be opened"));
	MP_ERR(tutti_sharded_save(s, nowhere), -ENOENT);
	MP_SAID("cannot be created");
	MP_ERR(tutti_sharded_save(s, ""), -EINVAL);
	MP_SAID("path is empty");
	TT_EXPECT(!no_restore(job, s, dir, -EINVAL, "not a safetensors file"));
	snprintf(nowhere, sizeof(nowhere), "%s/pipe", dir);
	TT_EXPECT(job->rank || !mkfifo(nowhere, 0600));
	TT_EXPECT(!no_restore(job, s, nowhere, -EINVAL, "not a safetensors file"));
	MP_ERR(tutti_sharded_save(s, nowhere), -EINVAL);
	MP_SAID("no regular file");
	TT_EXPECT(job->rank || !unlink(nowhere));
	MP_ERR(tutti_sharded_save(s, NULL), -EINVAL);
	MP_SAID("path is NULL");
	/* refused files have changed nothing */
	TT_EXPECT(!some_steps(job, s, &m, &adam, 1 + HALF, true));
	TT_EXPECT(same_bits(&m));
	TT_EXPECT(!damage(job, 8000, "x", 1, -1)); /* among the vectors */
	TT_EXPECT(!no_restore(job, s, path, -EINVAL, "its checksum is"));
	MP_OK(tutti_sharded_save(s, path));
	TT_EXPECT(!damage(job, 0, "", 0, size_of(path) + 5));
	TT_EXPECT(!no_restore(job, s, path, -EINVAL, "its checksum is"));
	TT_EXPECT(!damage(job, 8, "[", 1, -1));
	TT_EXPECT(!no_restore(job, s, path, -EINVAL, "not JSON"));
	TT_EXPECT(!damage(job, 8, "{", 1, 9000));
	TT_EXPECT(!no_restore(job, s, path, -EINVAL, "the file is damaged"));
	TT_EXPECT(!damage(job, 6, "\1", 1, -1));
	TT_EXPECT(!no_restore(job, s, path, -EINVAL, "header would have"));
	TT_EXPECT(!damage(job, 0, "x", 1, 5));
	TT_EXPECT(!no_restore(job, s, path, -EINVAL, "not a safetensors file"));
	MP_OK(tutti_sharded_save(s, path));
	MP_OK(tutti_sharded_restore(s, path));
	TT_EXPECT(!some_steps(job, s, &m, &adam, 1 + 2 * HALF, true));
	TT_EXPECT(same_bits(&m));
	return tutti_sharded_free(s);
}

static void other_model(void)
{
	TT_REQUIRE(begin_dir());
	TT_CHECK(!MP_RUN(.n = 3, .env = SHM, .fn = other_model_body));
	mp_remove_dir(dir);
	TT_CHECK(access(dir, F_OK));
}

static const struct tt_test tests[] = {
	{"bits", bits},	  {"stage2", stage2},		{"apart", apart},
	{"ends", ends},	  {"reduced", reduced},		{"clip", clip},
	{"saved", saved}, {"other_model", other_model}, {NULL, NULL}};

int main(int argc, char **argv)
{
	return tt_test_main("sharded", tests, argc, argv);
}
