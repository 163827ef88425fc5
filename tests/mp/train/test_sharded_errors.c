/* SPDX-License-Identifier: BSD-3-Clause */
/* The sharded optimizer: refused arguments, ranks that differ or lack memory, failed updates,
 * deaths. */
#include <errno.h>
#include <signal.h>
#include <unistd.h>

#include "tests/mp/train/sharded_model.h"
#include "train/sharded_state.h"

/* ---- refusals ---- */

static int refused(struct mp_job *job, const struct tutti_sharded_config *c, const char *word)
{
	struct tutti_sharded *s = NULL;
	int err = tutti_sharded_create(job->world, c, &s);

	if (err != -EINVAL || s || !mp_said(word)) {
		mp_failed(job, word, err, __FILE__, __LINE__);
		return 1;
	}
	return 0;
}

static int refused_configs(struct mp_job *job, const struct tutti_sharded_config *good)
{
	struct tutti_sharded_config bad = *good;
	struct tutti_rule rule = rule_of(TUTTI_PS_SUM);

	TT_EXPECT(!refused(job, NULL, "config is NULL"));
	bad.size = 9;
	TT_EXPECT(!refused(job, &bad, "size is 9"));
	bad = *good, bad.stage = 3;
	TT_EXPECT(!refused(job, &bad, "stage is 3"));
	bad = *good, bad.flags = 4;
	TT_EXPECT(!refused(job, &bad, "flags are 0x4"));
	bad = *good, bad.pad = 1;
	TT_EXPECT(!refused(job, &bad, "pad is 1"));
	bad = *good, bad.datatype = TUTTI_BFLOAT16;
	TT_EXPECT(!refused(job, &bad, "float32 or float64"));
	bad = *good, bad.clip_norm = -1;
	TT_EXPECT(!refused(job, &bad, "clip_norm is -1"));
	bad = *good, bad.rule = NULL;
	TT_EXPECT(!refused(job, &bad, "rule is NULL"));
	bad = *good, bad.rule = &rule;
	TT_EXPECT(!refused(job, &bad, "rule is 0"));
	bad = *good, bad.parameters = NULL;
	TT_EXPECT(!refused(job, &bad, "parameters is NULL"));
	MP_ERR(tutti_sharded_create(job->world, good, NULL), -EINVAL);
	return 0;
}

static int refusals_body(struct mp_job *job)
{
	static struct model m;
	static float before[TOTAL];
	const struct tutti_rule rule = rule_of(TUTTI_PS_ADAM);
	struct tutti_sharded_memory memory = {.size = 2};
	struct tutti_sharded_config config;
	struct tutti_sharded *s;
	size_t i;
	int stage;

	for (stage = 1; stage <= 2; stage++) {
		model_new(&m, 0);
		config = config_of((void *const *)m.tensor, &rule, stage);
		TT_EXPECT(!refused_configs(job, &config));
		MP_OK(tutti_sharded_create(job->world, &config, &s));
		gradients(&m, 1, job->rank, job->n, false);
		MP_ERR(tutti_sharded_ready(s, 0, NULL), -EINVAL);
		MP_SAID("gradient of tensor 0 is NULL");
		MP_ERR(tutti_sharded_ready(s, TENSORS, m.g), -EINVAL);
		MP_ERR(tutti_sharded_ready(NULL, 0, m.g), -EINVAL);
		/* tensor 5 is missing on rank 1: no rank changes a parameter */
		memcpy(before, m.x, sizeof(before));
		for (i = 0; i < TENSORS; i++)
			if (i != 5 || job->rank != 1)
				MP_OK(tutti_sharded_ready(s, i, m.grad[i]));
		MP_ERR(tutti_sharded_ready(s, 3, m.grad[3]), -EINVAL);
		MP_SAID("tensor 3 is ready already in step 1");
		MP_ERR(tutti_sharded_save(s, "/nowhere"), -EBUSY);
		MP_ERR(tutti_sharded_step(s, NULL), -EINVAL);
		MP_SAID("tensor 5 was not ready in step 1 (1 ranks lack tensors)");
		TT_EXPECT(!memcmp(before, m.x, sizeof(before)));
		TT_EXPECT(!ready_all(job, s, &m, 1, true, false));
		MP_OK(tutti_sharded_step(s, NULL));
		MP_ERR(tutti_sharded_wait(s, TENSORS), -EINVAL);
		MP_ERR(tutti_sharded_wait(NULL, 0), -EINVAL);
		MP_OK(tutti_sharded_wait(s, TUTTI_SHARDED_ALL));
		MP_OK(plain_step(&m, &rule, 1));
		TT_EXPECT(same_bits(&m));
		MP_ERR(tutti_sharded_memory(s, &memory), -EINVAL);
		MP_ERR(tutti_sharded_memory(NULL, &memory), -EINVAL);
		MP_ERR(tutti_sharded_restore(NULL, "x"), -EINVAL);
		TT_EXPECT(!ready_all(job, s, &m, 2, true, false));
		MP_OK(tutti_sharded_step(s, NULL));
		MP_OK(tutti_sharded_free(s)); /* it waits for the parameters */
		MP_OK(plain_step(&m, &rule, 2));
		TT_EXPECT(same_bits(&m));
	}
	config.stage = job->rank == 1 ? 1 : 2;
	MP_ERR(tutti_sharded_create(job->world, &config, &s), -TUTTI_EMISMATCH);
	MP_SAID("disagree on stage (2 and 1)");
	return tutti_sharded_free(NULL);
}

/* Rank 1 frees its optimizer in the middle of a step: no rank changes a parameter. */
static int left_body(struct mp_job *job)
{
	static struct model m;
	static float before[TOTAL];
	const struct tutti_rule rule = rule_of(TUTTI_PS_ADAM);
	struct tutti_sharded_config config;
	struct tutti_sharded *s;
	int err = 0;
	size_t i;

	model_new(&m, 0);
	config = config_of((void *const *)m.tensor, &rule, *(const int *)job->arg);
	MP_OK(tutti_sharded_create(job->world, &config, &s));
	gradients(&m, 1, job->rank, job->n, false);
	memcpy(before, m.x, sizeof(before));
	for (i = TENSORS; !err && i-- > 0;)
		if (job->rank != 1 || i > 2)
			err = tutti_sharded_ready(s, i, m.grad[i]);
	if (job->rank != 1) {
		err = err ? err : tutti_sharded_step(s, NULL);
		MP_ERR(err, -TUTTI_EREVOKED);
		MP_SAID("rank 1 on host");
	}
	MP_OK(tutti_sharded_free(s));
	TT_EXPECT(!memcmp(before, m.x, sizeof(before)));
	mp_meet(job);
	return mp_leave_failed(job); /* the world may share connections with the optimizer */
}

static void left(void)
{
	int stage;

	for (stage = 1; stage <= 2; stage++) {
		TT_CHECK(!MP_RUN(.n = 3, .env = "TUTTI_NODE=on", .fn = left_body, .arg = &stage));
		TT_CHECK(!MP_RUN(.n = 3, .env = SHM "TUTTI_NODE=off", .fn = left_body,
				 .arg = &stage));
	}
}

/* The pool has no room: the text says how much is needed. */
static int memory_body(struct mp_job *job)
{
	size_t count = (size_t)1 << 26;
	float one;
	void *parameters[] = {&one};
	const struct tutti_rule rule = {.size = sizeof(rule), .rule = TUTTI_PS_SGD, .rate = 1};
	struct tutti_sharded_config config = {.size = sizeof(config),
					      .n = 1,
					      .counts = &count,
					      .parameters = parameters,
					      .datatype = TUTTI_FLOAT32,
					      .stage = 1,
					      .rule = &rule};
	struct tutti_sharded *s;

	MP_ERR(tutti_sharded_create(job->world, &config, &s), -ENOMEM);
	MP_SAID("TUTTI_POOL_LIMIT");
	return 0;
}

static void refusals(void)
{
	TT_CHECK(!MP_RUN(.n = 2, .env = SHM "TUTTI_POOL_LIMIT=64M", .fn = memory_body));
	TT_CHECK(!MP_RUN(.n = 3, .env = SHM, .fn = refusals_body));
}

/* ---- an update that fails at one rank ---- */

static int update_body(struct mp_job *job)
{
	static struct model m;
	const struct tutti_rule rule = rule_of(TUTTI_PS_ADAM);
	struct tutti_sharded_config config;
	struct tutti_sharded *s;
	int err;

	model_new(&m, 1);
	config = config_of((void *const *)m.tensor, &rule, 1);
	MP_OK(tutti_sharded_create(job->world, &config, &s));
	if (job->rank == 1)
		s->rule.rule = -1;
	TT_EXPECT(!ready_all(job, s, &m, 0, true, false));
	err = tutti_sharded_step(s, NULL);
	if (!err) /* it had started its all-gathers */
		err = tutti_sharded_wait(s, TUTTI_SHARDED_ALL);
	TT_EXPECT(err == (job->rank == 1 ? -EINVAL : -TUTTI_EREVOKED));
	MP_ERR(tutti_sharded_step(s, NULL), err);
	MP_OK(tutti_sharded_free(s));
	return mp_leave_failed(job);
}

static void update(void)
{
	TT_CHECK(!MP_RUN(.n = 3, .env = SHM "TUTTI_TIMEOUT=5s", .fn = update_body));
}

/* ---- deaths ---- */

static int death_body(struct mp_job *job)
{
	static struct model m;
	const struct tutti_rule rule = rule_of(TUTTI_PS_ADAM);
	struct tutti_sharded_config config;
	struct tutti_sharded *s;
	int step, err = 0;
	size_t i;

	model_new(&m, 1);
	config = config_of((void *const *)m.tensor, &rule, job->arg ? 2 : 1);
	MP_OK(tutti_sharded_create(job->world, &config, &s));
	for (step = 0; step < 100000 && !err; step++) {
		for (i = 0; i < TENSORS && !err; i++) {
			if (job->rank == 1 && step == 5 && i == 6)
				kill(getpid(), SIGKILL);
			err = tutti_sharded_ready(s, TENSORS - 1 - i, m.grad[TENSORS - 1 - i]);
		}
		err = err ? err : tutti_sharded_step(s, NULL);
	}
	MP_ERR(err, -TUTTI_EPEER);
	MP_ERR(tutti_sharded_ready(s, 0, m.grad[0]), -TUTTI_EPEER);
	MP_ERR(tutti_sharded_step(s, NULL), -TUTTI_EPEER);
	MP_ERR(tutti_sharded_wait(s, 0), -TUTTI_EPEER);
	MP_ERR(tutti_sharded_save(s, "x"), -TUTTI_EPEER);
	MP_OK(tutti_sharded_free(s));
	mp_leave(job);
	return 0;
}

static void death(void)
{
	TT_CHECK(!MP_RUN(.n = 3, .env = SHM, .fn = death_body, .killed = 2));
	TT_CHECK(!MP_RUN(.n = 3, .env = SHM, .fn = death_body, .arg = "2", .killed = 2));
	if (!mp_no_ofi())
		TT_CHECK(!MP_RUN(.n = 3, .env = OFI, .fn = death_body, .arg = "2", .killed = 2));
}

static const struct tt_test tests[] = {
	{"refusals", refusals}, {"left", left}, {"update", update}, {"death", death}, {NULL, NULL}};

int main(int argc, char **argv)
{
	return tt_test_main("sharded_errors", tests, argc, argv);
}
