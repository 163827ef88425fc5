/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * All-reduces with a codec that fail: refused arguments, codecs that differ, damaged encodings,
 * deaths.
 */
#include "config.h"

#include "tests/mp/coll/codec_calls.h"

#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "lib/base/hash.h"
#include "lib/codec/codec.h"
#include "lib/comm/comm.h"
#include "lib/engine/engine.h"
#include "lib/plan/choose.h"

/* ---- refusals ---- */

static size_t plain_bound(size_t count, void *arg)
{
	(void)arg;
	return count * 4;
}

static size_t wrong_bound(size_t count, void *arg)
{
	(void)count;
	(void)arg;
	return SIZE_MAX;
}

static int plain_encode(const float *in, size_t count, uint64_t first, uint64_t call, void *out,
			size_t *len, void *arg)
{
	memcpy(out, in, *len = count * 4);
	return 0;
}

static int plain_decode(const void *in, size_t len, uint64_t first, float *out, size_t count,
			void *arg)
{
	memcpy(out, in, len);
	return 0;
}

static struct tutti_codec_user plain_codec(unsigned flags)
{
	return (struct tutti_codec_user){.size = sizeof(struct tutti_codec_user),
					 .name = "mine",
					 .flags = flags,
					 .bound = plain_bound,
					 .encode = plain_encode,
					 .decode = plain_decode};
}

static int refused(struct mp_job *job, struct tutti_call *call, int code, const char *word)
{
	int err = tutti_call(job->world, call, NULL);

	if (err != code || !mp_said(word)) {
		mp_failed(job, word, err, __FILE__, __LINE__);
		return 1;
	}
	return 0;
}

static int refusals_body(struct mp_job *job)
{
	struct tutti_codec_user user = plain_codec(0);
	struct tutti_codec *codec, *other, *varies;
	struct tutti_feedback *fb, *fo, *keeper;
	struct tutti_comm *dup;
	struct tutti_call call, bad;
	float v[100] = {0};

	MP_OK(tutti_codec_create("int8", &codec));
	MP_OK(tutti_codec_create("fp16", &other));
	MP_OK(tutti_comm_dup(job->world, &dup));
	MP_OK(tutti_feedback_create(job->world, codec, 100, &fb));
	MP_OK(tutti_feedback_create(dup, codec, 100, &fo));
	call = call_of(TUTTI_IN_PLACE, v, 100, codec, fb);
	bad = call, bad.datatype = TUTTI_FLOAT64;
	TT_EXPECT(!refused(job, &bad, -EINVAL, "float64"));
	bad = call, bad.op = TUTTI_MAX;
	TT_EXPECT(!refused(job, &bad, -EINVAL, "sum or avg"));
	bad = call, bad.codec = NULL;
	TT_EXPECT(!refused(job, &bad, -EINVAL, "feedback is not NULL"));
	bad = call, bad.codec = other;
	TT_EXPECT(!refused(job, &bad, -EINVAL, "was made for codec int8"));
	bad = call, bad.count = 99;
	TT_EXPECT(!refused(job, &bad, -EINVAL, "100 elements, not 99"));
	bad = call, bad.feedback = fo;
	TT_EXPECT(!refused(job, &bad, -EINVAL, "another communicator"));
	bad = call, bad.coll = TUTTI_COLL_REDUCE;
	TT_EXPECT(!refused(job, &bad, -EINVAL, "reduce does not have it"));
	bad = call, bad.quorum = 1;
	TT_EXPECT(!refused(job, &bad, -EINVAL, "quorum"));
	MP_OK(tutti_codec_create("bf16", &varies));
	MP_OK(tutti_feedback_create(dup, varies, 100, &keeper)); /* keeps its memory */
	MP_OK(tutti_codec_free(varies));
	bad = call, bad.codec = varies, bad.feedback = NULL;
	TT_EXPECT(!refused(job, &bad, -EINVAL, "has been freed"));
	MP_ERR(tutti_codec_free(varies), -EINVAL);
	MP_OK(tutti_feedback_free(keeper));
	MP_OK(tutti_codec_create("randomk:10%", &varies));
	bad = call, bad.codec = varies, bad.feedback = NULL;
	TT_EXPECT(!refused(job, &bad, -EINVAL, "needs feedback"));
	MP_OK(tutti_codec_free(varies));
	MP_OK(tutti_codec_create("topk:10%", &varies));
	bad = call, bad.codec = varies;
	TT_EXPECT(!refused(job, &bad, -EINVAL, "was made for codec int8"));
	bad.feedback = NULL, bad.count = (size_t)UINT32_MAX + 1;
	TT_EXPECT(!refused(job, &bad, -EINVAL,
			   "4294967296 elements are too many; at most 4294967295"));
	MP_OK(tutti_codec_free(varies));
	user.bound = wrong_bound;
	MP_OK(tutti_codec_create_user(&user, &varies));
	bad = call, bad.codec = varies, bad.feedback = NULL;
	TT_EXPECT(
		!refused(job, &bad, -EINVAL, "its bound of 100 elements is 18446744073709551615"));
	MP_OK(tutti_codec_free(varies));
	MP_OK(tutti_call(job->world, &call, NULL)); /* none of these was a call */
	MP_ERR(tutti_feedback_create(job->world, NULL, 1, &fo), -EINVAL);
	MP_ERR(tutti_feedback_create(job->world, codec, 1, NULL), -EINVAL);
	MP_ERR(tutti_feedback_create(NULL, codec, 1, &fo), -EINVAL);
	MP_ERR(tutti_feedback_create(job->world, codec, SIZE_MAX / 2, &fo), -EINVAL);
	MP_ERR(tutti_feedback_save(fb, v, 99), -EINVAL);
	MP_SAID("100 elements, not 99");
	MP_ERR(tutti_feedback_save(fb, NULL, 100), -EINVAL);
	MP_ERR(tutti_feedback_restore(fb, NULL, 100), -EINVAL);
	MP_ERR(tutti_feedback_restore(NULL, v, 100), -EINVAL);
	MP_ERR(tutti_feedback_reset(NULL), -EINVAL);
	v[17] = NAN, v[40] = INFINITY;
	MP_ERR(tutti_feedback_restore(fb, v, 100), -EINVAL);
	MP_SAID("element 17 of state is nan");
	v[17] = 0;
	MP_ERR(tutti_feedback_restore(fb, v, 100), -EINVAL);
	MP_SAID("element 40 of state is inf");
	v[17] = 9, v[40] = 0;
	MP_OK(tutti_feedback_restore(fb, v, 100));
	v[17] = 0;
	MP_OK(tutti_feedback_save(fb, v, 100));
	TT_EXPECT(v[17] == 9);
	MP_OK(tutti_feedback_reset(fb));
	MP_OK(tutti_feedback_free(NULL));
	MP_OK(tutti_feedback_free(fb));
	MP_OK(tutti_feedback_free(fo));
	MP_OK(tutti_comm_free(dup));
	MP_OK(tutti_codec_free(other));
	return tutti_codec_free(codec);
}

/* A state serves one call at a time. */
static int busy_body(struct mp_job *job)
{
	struct tutti_request *req, *second = NULL;
	struct tutti_codec *codec;
	struct tutti_feedback *fb;
	struct tutti_call call;
	float v[64], w[64], left[64];

	fill(v, 1, job->rank, 64);
	fill(w, 2, job->rank, 64);
	MP_OK(tutti_codec_create("fp16", &codec));
	MP_OK(tutti_feedback_create(job->world, codec, 64, &fb));
	if (job->rank) /* rank 0's call waits for this rank's */
		mp_sleep_ms(200);
	call = call_of(TUTTI_IN_PLACE, v, 64, codec, fb);
	MP_OK(tutti_call(job->world, &call, &req));
	call.recvbuf = w;
	if (!job->rank) {
		MP_ERR(tutti_call(job->world, &call, &second), -EBUSY);
		MP_SAID("in use by another call");
		MP_ERR(tutti_feedback_save(fb, left, 64), -EBUSY);
		MP_ERR(tutti_feedback_reset(fb), -EBUSY);
	}
	MP_OK(tutti_wait(&req));
	MP_OK(tutti_call(job->world, &call, &second));
	MP_OK(tutti_wait(&second));
	MP_OK(tutti_feedback_save(fb, left, 64));
	MP_OK(tutti_feedback_free(fb));
	return tutti_codec_free(codec);
}

static void refusals(void)
{
	TT_CHECK(!MP_RUN(.n = 2, .env = SHM, .fn = refusals_body));
	TT_CHECK(!MP_RUN(.n = 2, .env = SHM, .fn = busy_body));
}

/* ---- ranks that differ ---- */

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
	if (!strstr(info.text, "disagree on codec"))
		fprintf(stderr, "%s\n", info.text);
	TT_EXPECT(strstr(info.text, "disagree on codec") && strstr(info.text, names[0]));
	TT_EXPECT(!names[1] || strstr(info.text, names[1]));
	tutti_codec_free(codec);
	mp_leave(job);
	return 0;
}

/* Codecs of one name that are not the same: their plans would be different ones. */
static int differ_user_body(struct mp_job *job)
{
	struct tutti_codec_user user = plain_codec(job->rank == 1 ? TUTTI_CODEC_FIXED : 0);
	struct tutti_error_info info = {.size = sizeof(info)};
	struct tutti_codec *codec;
	struct tutti_call call;
	float v[1000] = {0};

	MP_OK(tutti_codec_create_user(&user, &codec));
	call = call_of(TUTTI_IN_PLACE, v, 1000, codec, NULL);
	MP_ERR(tutti_call(job->world, &call, NULL), -TUTTI_EMISMATCH);
	MP_OK(tutti_comm_error(job->world, &info));
	if (!strstr(info.text, "mine (fixed, align 1)"))
		fprintf(stderr, "%s\n", info.text);
	TT_EXPECT(strstr(info.text, "mine (fixed, align 1)"));
	TT_EXPECT(strstr(info.text, "mine (varies, align 1)"));
	tutti_codec_free(codec);
	mp_leave(job);
	return 0;
}

static void differ(void)
{
	static const char *const blocks[] = {"int8:block=256", "int8:block=64"};
	static const char *const kinds[] = {"fp16", "bf16"}, *const plain[] = {"fp16", NULL};
	static const char *const lists[] = {"topk:1%", "topk:2%"};
	static const char *const mixed[] = {"topk:1%", "int8:block=256"};

	TT_CHECK(!MP_RUN(.n = 3, .env = SHM "TUTTI_LATE_AFTER=300", .fn = differ_body,
			 .arg = (void *)blocks));
	TT_CHECK(!MP_RUN(.n = 3, .env = SHM "TUTTI_LATE_AFTER=300", .fn = differ_body,
			 .arg = (void *)kinds));
	TT_CHECK(!MP_RUN(.n = 3, .env = SHM "TUTTI_LATE_AFTER=300", .fn = differ_body,
			 .arg = (void *)plain));
	TT_CHECK(!MP_RUN(.n = 3, .env = SHM "TUTTI_LATE_AFTER=300", .fn = differ_body,
			 .arg = (void *)lists));
	TT_CHECK(!MP_RUN(.n = 3, .env = SHM "TUTTI_LATE_AFTER=300", .fn = differ_body,
			 .arg = (void *)mixed));
	TT_CHECK(!MP_RUN(.n = 3, .env = SHM "TUTTI_LATE_AFTER=300 TUTTI_TIMEOUT=5000",
			 .fn = differ_user_body));
}

/* ---- damage and death ---- */

/* As if the second call's data had been damaged on the way to rank 1. */
static int bad_decode(const void *in, size_t len, uint64_t first, float *out, size_t count,
		      void *arg)
{
	struct mp_job *job = arg;

	memcpy(out, in, len);
	return job->rank == 1 && out[0] == 77 ? -EPROTO : 0;
}

static int damage_body(struct mp_job *job)
{
	struct tutti_error_info info = {.size = sizeof(info)};
	struct tutti_codec_user user = plain_codec(*(unsigned *)job->arg);
	struct tutti_codec *codec;
	struct tutti_call call;
	float v[300];
	int i, err;

	user.decode = bad_decode;
	user.arg = job;
	MP_OK(tutti_codec_create_user(&user, &codec));
	call = call_of(TUTTI_IN_PLACE, v, 300, codec, NULL);
	for (i = 0; i < 300; i++)
		v[i] = 1;
	MP_OK(tutti_call(job->world, &call, NULL));
	for (i = 0; i < 300; i++)
		TT_EXPECT(v[i] == (float)job->n);
	for (i = 0; i < 300; i++)
		v[i] = job->rank ? 0 : 77;
	err = tutti_call(job->world, &call, NULL);
	if (!user.flags && job->rank != 1) /* all that this rank needs has come intact */
		for (i = 0; !err && i < 1000; i++)
			err = tutti_call(job->world, &call, NULL);
	MP_ERR(err, -TUTTI_ETRANSPORT);
	MP_OK(tutti_comm_error(job->world, &info));
	if (!strstr(info.text, "arrived damaged"))
		fprintf(stderr, "%s\n", info.text);
	TT_EXPECT(strstr(info.text, "arrived damaged") && strstr(info.text, "codec mine"));
	tutti_codec_free(codec);
	mp_leave(job);
	return 0;
}

/* Lists and their heads with bits flipped on the way: never a wrong result, never a crash. */
static int flipped_body(struct mp_job *job)
{
	struct tutti_error_info info = {.size = sizeof(info)};
	float *v = calloc(LONG, 4);
	struct tutti_codec *codec;
	struct tutti_call call;
	int err = 0, t;

	TT_EXPECT(v != NULL);
	MP_OK(tutti_codec_create("topk:1%", &codec));
	call = call_of(TUTTI_IN_PLACE, v, LONG, codec, NULL);
	for (t = 0; !err && t < 200; t++) {
		fill(v, (unsigned)t, job->rank, LONG);
		err = tutti_call(job->world, &call, NULL);
	}
	TT_EXPECT(err);
	MP_OK(tutti_comm_error(job->world, &info));
	TT_EXPECT(info.text[0]);
	tutti_codec_free(codec);
	free(v);
	mp_leave(job);
	return 0;
}

static void damage(void)
{
	static unsigned fixed = TUTTI_CODEC_FIXED, varies = 0;

	TT_CHECK(!MP_RUN(.n = 3, .env = SHM, .fn = damage_body, .arg = &fixed));
	TT_CHECK(!MP_RUN(.n = 3, .env = SHM, .fn = damage_body, .arg = &varies));
	TT_CHECK(!MP_RUN(.n = 3,
			 .env = "TUTTI_TRANSPORT=fault:shm TUTTI_FAULT=seed=5,flip=0.02 "
				"TUTTI_CHECKSUM=1",
			 .fn = flipped_body));
	TT_CHECK(!MP_RUN(.n = 3,
			 .env = "TUTTI_TRANSPORT=fault:shm TUTTI_FAULT=seed=6,flip=0.02 "
				"TUTTI_CHECKSUM=1 " MERGE,
			 .fn = flipped_body));
}

static int death_body(struct mp_job *job)
{
	const char *name = job->arg;
	struct tutti_codec *codec;
	struct tutti_feedback *fb;
	struct tutti_call call;
	float *v = calloc(LONG, 4);
	int err, t;

	TT_EXPECT(v != NULL);
	MP_OK(tutti_codec_create(name, &codec));
	MP_OK(tutti_feedback_create(job->world, codec, LONG, &fb));
	call = call_of(TUTTI_IN_PLACE, v, LONG, codec, fb);
	for (t = 0;; t++) {
		if (job->rank == 1 && t == 20)
			kill(getpid(), SIGKILL);
		err = tutti_call(job->world, &call, NULL);
		if (err)
			break;
	}
	MP_ERR(err, -TUTTI_EPEER);
	TT_EXPECT(t >= 19);
	MP_OK(tutti_feedback_save(fb, v, LONG)); /* no call uses it any more */
	MP_OK(tutti_feedback_free(fb));
	MP_OK(tutti_codec_free(codec));
	free(v);
	mp_leave(job);
	return 0;
}

/* In the middle of calls, with blocks and with lists. */
static void die(const char *env)
{
	static const char *const names[] = {"int8", "topk:10%"};
	size_t i;

	for (i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		TT_CHECK(!MP_RUN(.n = 3, .env = env, .fn = death_body, .killed = 2,
				 .arg = (void *)names[i]));
}

static void death(void)
{
	die(SHM);
	die(SHM MERGE);
	if (!mp_no_ofi()) {
		die(OFI);
		die(HIER);
	}
}

static void death_verbs(void)
{
	if (mp_no_verbs())
		TT_SKIP("%s", mp_no_verbs());
	die(VERBS);
}

static const struct tt_test tests[] = {{"refusals", refusals},	     {"differ", differ},
				       {"damage", damage},	     {"death", death},
				       {"death_verbs", death_verbs}, {NULL, NULL}};

int main(int argc, char **argv)
{
	return tt_test_main("codec_failures", tests, argc, argv);
}
