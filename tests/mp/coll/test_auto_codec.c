/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Codec "auto": the cheapest by the cost model, the same on all ranks also where their tuning
 * tables differ, with the bits of a call that names the chosen codec; residuals where no codec is
 * used; ranks that differ; texts.
 */
#include "config.h"

#include "tests/mp/job.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "lib/codec/codec.h"
#include "lib/engine/engine.h"
#include "lib/job/job.h"
#include "lib/plan/choose.h"

#define SHM "TUTTI_TRANSPORT=shm "
#define HOSTS "TUTTI_HOST_ID=h%r " /* each rank is a host */
#define COUNT 60000
#define LONG ((size_t)1 << 22)

static float value(int rank, size_t i)
{
	return (float)((int)((i * 7919 + (size_t)rank * 104729) % 2003) - 1001) / 16;
}

static void fill(float *v, int rank, size_t count)
{
	size_t i;

	for (i = 0; i < count; i++)
		v[i] = value(rank, i);
}

static struct tutti_call call_of(const void *in, void *out, size_t count, struct tutti_codec *codec,
				 struct tutti_feedback *feedback)
{
	return (struct tutti_call){.size = sizeof(struct tutti_call),
				   .coll = TUTTI_COLL_ALLREDUCE,
				   .sendbuf = in,
				   .recvbuf = out,
				   .count = count,
				   .datatype = TUTTI_FLOAT32,
				   .op = TUTTI_SUM,
				   .codec = codec,
				   .feedback = feedback};
}

/* ---- tables ---- */

struct told {
	char hosts[TT_TUNE_HOSTS], dir[64];
	const char *expect; /* of 4 MiB elements */
	char name[MP_MAX][TUTTI_CODEC_NAME_MAX];
};

static int tell_hosts(struct mp_job *job)
{
	struct told *told = job->arg;

	if (job->rank == 0)
		TT_EXPECT(!tt_tune_job_hosts(job->ctx, told->hosts, sizeof(told->hosts)));
	return 0;
}

/* A table whose links between hosts have this bandwidth in GB/s. */
static int write_table(const struct told *told, int rank, double bandwidth)
{
	struct tt_tune *tune = calloc(1, sizeof(*tune));
	struct tt_tunes tunes = {0};
	char path[128];
	const char *c;

	TT_EXPECT(tune != NULL);
	snprintf(tune->hosts, sizeof(tune->hosts), "%s", told->hosts);
	for (tune->nhosts = 1, c = told->hosts; *c; c++)
		tune->nhosts += *c == ',';
	tune->nranks = tune->nhosts;
	tune->gamma = tune->copy = 0.1;
	tune->nlinks[1] = 2;
	tune->links[1][0] = (struct tt_link_costs){"ofi", {20000, 1 / bandwidth}, 4000};
	tune->links[1][1] = (struct tt_link_costs){"shm", {20000, 1 / bandwidth}, 4000};
	tune->nlinks[0] = 1;
	tune->links[0][0] = *tt_link_default("shm");
	TT_EXPECT(!tt_tunes_put(&tunes, tune));
	snprintf(path, sizeof(path), "%s/t%d.json", told->dir, rank);
	TT_EXPECT(!tt_tunes_save(path, &tunes));
	tt_tunes_free(&tunes);
	return 0;
}

/* ---- the choice ---- */

/* The name of the cheapest, from the model; "plain": none of them. */
static const char *cheapest(struct mp_job *job, const struct tutti_codec *codec, size_t count)
{
	struct tt_plan_args args = {
		.coll = TT_COLL_ALLREDUCE, .nranks = job->n, .count = count, .elem = 4};
	struct tt_plan_codec planned;
	struct tt_candidate taken;
	const char *name = "plain";
	struct tutti_codec *const *choice;
	double least, worth = 0.9; /* than plain; a codec than another one: 0.99 */
	int i, n;

	tt_comm_place(job->world, &args);
	choice = tt_codec_choices(codec, &n);
	if (!tt_chosen(job->world->chooser, &args, &taken))
		return "";
	least = taken.time;
	for (i = 0; i < n; i++) {
		planned = TT_PLAN_CODEC(choice[i]);
		args.codec = &planned;
		if (tt_chosen(job->world->chooser, &args, &taken) && taken.time < worth * least) {
			worth = 0.99;
			least = taken.time;
			name = tt_codec_name(choice[i]);
		}
	}
	return name;
}

static int same_bits(struct mp_job *job, struct tutti_codec *any, const char *name)
{
	static float a[COUNT], b[COUNT];
	struct tutti_codec *one = NULL;
	struct tutti_call call;

	if (strcmp(name, "plain") != 0)
		MP_OK(tutti_codec_create(name, &one));
	fill(a, job->rank, COUNT);
	fill(b, job->rank, COUNT);
	call = call_of(TUTTI_IN_PLACE, a, COUNT, any, NULL);
	MP_OK(tutti_call(job->world, &call, NULL));
	call = call_of(TUTTI_IN_PLACE, b, COUNT, one, NULL);
	MP_OK(tutti_call(job->world, &call, NULL));
	TT_EXPECT(!memcmp(a, b, sizeof(a)));
	return tutti_codec_free(one);
}

static int times_told(struct mp_job *job)
{
	const char *at;
	int n = 0;

	pthread_mutex_lock(&job->log_lock);
	for (at = job->log; (at = strstr(at, "codec auto:fp16,int8,onebit: all-reduces of 60000"));
	     at++)
		n++;
	pthread_mutex_unlock(&job->log_lock);
	return n;
}

static int choose_body(struct mp_job *job)
{
	static const size_t counts[] = {0, 1, 100, 10000, COUNT, 1000000, LONG};
	struct told *told = job->arg;
	struct tutti_codec *codec;
	const char *name;
	size_t i;
	int r;

	mp_log_level(job, TUTTI_LOG_INFO);
	MP_OK(tutti_codec_create("auto:fp16,int8:block=256,onebit", &codec));
	for (i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
		MP_OK(tutti_codec_chosen(job->world, codec, counts[i], &name));
		if (strcmp(name, cheapest(job, codec, counts[i])) != 0)
			fprintf(stderr, "%zu: %s, not %s\n", counts[i], name,
				cheapest(job, codec, counts[i]));
		TT_EXPECT(!strcmp(name, cheapest(job, codec, counts[i])));
	}
	snprintf(told->name[job->rank], TUTTI_CODEC_NAME_MAX, "%s", name);
	mp_meet(job);
	for (r = 0; r < job->n; r++)
		TT_EXPECT(!strcmp(told->name[r], name));
	if (strcmp(name, told->expect) != 0)
		fprintf(stderr, "%s, not %s\n", name, told->expect);
	TT_EXPECT(!strcmp(name, told->expect));
	MP_OK(tutti_codec_chosen(job->world, codec, COUNT, &name));
	for (r = 0; r < 3; r++)
		TT_EXPECT(!same_bits(job, codec, name));
	TT_EXPECT(times_told(job) == 1);
	return tutti_codec_free(codec);
}

static struct told *told_new(int n)
{
	struct told *told = mp_shared_mem(sizeof(*told));

	if (!told)
		return NULL;
	snprintf(told->dir, sizeof(told->dir), "/tmp/tutti-auto-XXXXXX");
	if (!mkdtemp(told->dir) || MP_RUN(.n = n, .env = HOSTS, .fn = tell_hosts, .arg = told))
		return NULL;
	return told;
}

static void choose_with(struct told *told, int n, const char *expect)
{
	char env[256];

	told->expect = expect;
	snprintf(env, sizeof(env), "%sTUTTI_TUNE_FILE=%s/t%%r.json", HOSTS, told->dir);
	TT_CHECK(!MP_RUN(.n = n, .env = env, .fn = choose_body, .arg = told));
}

/* On slow links the shortest encoding, on fast ones none. Rank 0's table counts. */
static void slow_and_fast(void)
{
	struct told *told;

	if (mp_no_ofi())
		TT_SKIP("%s", mp_no_ofi());
	told = told_new(3);
	TT_REQUIRE(told != NULL);
	TT_REQUIRE(!write_table(told, 0, 0.0125));
	TT_REQUIRE(!write_table(told, 1, 1000));
	choose_with(told, 3, "onebit:block=256"); /* rank 2 has no table at all */
	TT_REQUIRE(!write_table(told, 0, 1000));
	TT_REQUIRE(!write_table(told, 1, 0.0125));
	choose_with(told, 3, "plain");
	mp_remove_dir(told->dir);
	munmap(told, sizeof(*told));
}

static void shared_memory(void)
{
	struct told *told = mp_shared_mem(sizeof(*told));

	TT_REQUIRE(told != NULL);
	told->expect = "plain";
	TT_CHECK(!MP_RUN(.n = 3, .env = SHM, .fn = choose_body, .arg = told));
	TT_CHECK(!MP_RUN(.n = 1, .env = SHM, .fn = choose_body, .arg = told));
	munmap(told, sizeof(*told));
}

/* ---- residuals where no codec is used ---- */

static int plain_feedback_body(struct mp_job *job)
{
	static float in[COUNT], out[COUNT], left[COUNT], sum[COUNT];
	struct tutti_request *req;
	struct tutti_codec *codec;
	struct tutti_feedback *fb;
	struct tutti_call call;
	const char *name;
	size_t i;
	int t, r;

	MP_OK(tutti_codec_create("auto", &codec));
	MP_OK(tutti_codec_chosen(job->world, codec, COUNT, &name));
	TT_EXPECT(!strcmp(name, "plain"));
	MP_OK(tutti_feedback_create(job->world, codec, COUNT, &fb));
	fill(in, job->rank, COUNT);
	for (t = 0; t < 6; t++) { /* each even one has residuals */
		for (i = 0; t % 2 == 0 && i < COUNT; i++)
			left[i] = (float)(1 + job->rank);
		if (t % 2 == 0)
			MP_OK(tutti_feedback_restore(fb, left, COUNT));
		memcpy(out, in, sizeof(in));
		if (t == 4 && job->rank == 0)
			out[5] = NAN;
		call = call_of(t > 1 ? TUTTI_IN_PLACE : in, out, COUNT, codec, fb);
		call.flags = t > 3 ? TUTTI_CALL_PERSISTENT : 0;
		MP_OK(tutti_call(job->world, &call, t > 3 ? &req : NULL));
		if (t > 3) {
			MP_OK(tutti_start(req));
			MP_OK(tutti_wait(&req));
			MP_OK(tutti_request_free(req));
		}
		memset(sum, 0, sizeof(sum));
		for (r = 0; r < job->n; r++)
			for (i = 0; i < COUNT; i++)
				sum[i] += value(r, i) + (t % 2 ? 0 : (float)(1 + r));
		if (t == 5) /* what the NaN has kept back */
			sum[5] += 1;
		for (i = 0; i < COUNT; i++)
			TT_EXPECT(t == 4 && i == 5 ? isnan(out[i]) : out[i] == sum[i]);
		MP_OK(tutti_feedback_save(fb, left, COUNT));
		for (i = 0; i < COUNT; i++)
			TT_EXPECT(left[i] == (t == 4 && i == 5 && job->rank == 0));
	}
	MP_OK(tutti_feedback_free(fb));
	return tutti_codec_free(codec);
}

static void plain_feedback(void)
{
	TT_CHECK(!MP_RUN(.n = 3, .env = SHM, .fn = plain_feedback_body));
	TT_CHECK(!MP_RUN(.n = 1, .env = SHM, .fn = plain_feedback_body));
}

/* ---- ranks that differ, and texts ---- */

static int differ_body(struct mp_job *job)
{
	struct tutti_error_info info = {.size = sizeof(info)};
	const char *const *names = job->arg;
	struct tutti_codec *codec = NULL;
	struct tutti_call call;
	float v[1000] = {0};

	if (names[job->rank == 1])
		MP_OK(tutti_codec_create(names[job->rank == 1], &codec));
	call = call_of(TUTTI_IN_PLACE, v, 1000, codec, NULL);
	MP_ERR(tutti_call(job->world, &call, NULL), -TUTTI_EMISMATCH);
	MP_OK(tutti_comm_error(job->world, &info));
	TT_EXPECT(strstr(info.text, "disagree on codec") && strstr(info.text, "auto:"));
	tutti_codec_free(codec);
	mp_leave(job);
	return 0;
}

/* Though all of them would choose the same. */
static void differ(void)
{
	static const char *const lists[] = {"auto:int8", "auto:fp16"};
	static const char *const none[] = {"auto:int8", NULL};

	TT_CHECK(!MP_RUN(.n = 3, .env = SHM "TUTTI_LATE_AFTER=300", .fn = differ_body,
			 .arg = (void *)lists));
	TT_CHECK(!MP_RUN(.n = 3, .env = SHM "TUTTI_LATE_AFTER=300", .fn = differ_body,
			 .arg = (void *)none));
}

static int refusals_body(struct mp_job *job)
{
	struct tutti_codec *codec, *one;
	struct tutti_call call;
	unsigned char coded[64];
	const char *name = "untouched";
	float v[10] = {0};
	size_t len;

	MP_OK(tutti_codec_create("auto:int8,randomk:5%", &codec));
	call = call_of(TUTTI_IN_PLACE, v, 10, codec, NULL);
	MP_ERR(tutti_call(job->world, &call, NULL), -EINVAL);
	MP_SAID("needs feedback");
	call.op = TUTTI_MAX;
	MP_ERR(tutti_call(job->world, &call, NULL), -EINVAL);
	MP_ERR(tutti_codec_encode(codec, v, 10, TUTTI_FLOAT32, NULL, 0, coded, &len), -EOPNOTSUPP);
	MP_SAID("all-reduces, which choose from it");
	MP_ERR(tutti_codec_decode(codec, coded, 10, v, 10, TUTTI_FLOAT32), -EOPNOTSUPP);
	MP_ERR(tutti_codec_chosen(job->world, NULL, 1, &name), -EINVAL);
	MP_ERR(tutti_codec_chosen(job->world, codec, 1, NULL), -EINVAL);
	MP_ERR(tutti_codec_chosen(NULL, codec, 1, &name), -EINVAL);
	MP_ERR(tutti_codec_chosen(job->world, codec, SIZE_MAX / 4, &name), -EINVAL);
	TT_EXPECT(!strcmp(name, "untouched"));
	MP_OK(tutti_codec_create("onebit", &one));
	MP_OK(tutti_codec_chosen(job->world, one, 1, &name));
	TT_EXPECT(!strcmp(name, "onebit:block=256"));
	MP_OK(tutti_codec_free(one));
	return tutti_codec_free(codec);
}

static void refusals(void)
{
	TT_CHECK(!MP_RUN(.n = 2, .env = SHM, .fn = refusals_body));
}

static const struct tt_test tests[] = {{"slow_and_fast", slow_and_fast},
				       {"shared_memory", shared_memory},
				       {"plain_feedback", plain_feedback},
				       {"differ", differ},
				       {"refusals", refusals},
				       {NULL, NULL}};

int main(int argc, char **argv)
{
	return tt_test_main("auto_codec", tests, argc, argv);
}
