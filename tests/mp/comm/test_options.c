/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The options of struct tutti_config: variables in code, before the environment and behind the
 * struct's fields, for one context alone. unit/test_env has the values of each variable.
 */
#include "config.h"

#include "tests/mp/job.h"

#include <errno.h>
#include <stdio.h>

#include "lib/comm/comm.h"

static int works(struct mp_job *job, struct tutti_context *ctx)
{
	int32_t x = job->rank + 1;

	MP_OK(tutti_allreduce(TUTTI_IN_PLACE, &x, 1, TUTTI_INT32, TUTTI_SUM, tutti_world(ctx)));
	TT_EXPECT(x == job->n * (job->n + 1) / 2);
	return 0;
}

static int join(struct mp_job *job, const struct tutti_config *like, const char *const *options,
		struct tutti_context **ctx)
{
	struct tutti_config config = like ? *like : (struct tutti_config){0};

	config.options = options;
	MP_OK(mp_join(job, MP_GATHER, &config));
	*ctx = job->ctx;
	job->ctx = NULL;
	return works(job, *ctx);
}

/* Contexts of one process with different options, at once. */
static int apart_body(struct mp_job *job)
{
	static const struct tutti_config field = {.timeout_ms = 170000};
	const char *const two[] = {"TUTTI_TIMEOUT=150s", NULL}, *const none[] = {NULL};
	char text[32] = "TUTTI_TIMEOUT=120s";
	const char *const one[] = {text, "TUTTI_LANES=2", NULL};
	struct tutti_context *ctx[5];
	int i;

	TT_EXPECT(!join(job, NULL, one, &ctx[0]) && !join(job, &field, one, &ctx[3]));
	memset(text, 'x', sizeof(text) - 1); /* the contexts have copies */
	TT_EXPECT(!join(job, NULL, two, &ctx[1]) && !join(job, NULL, NULL, &ctx[2]));
	TT_EXPECT(!join(job, NULL, none, &ctx[4]));
	TT_EXPECT(ctx[0]->env.timeout.number == 120000 && ctx[0]->env.lanes.number == 2);
	TT_EXPECT(ctx[1]->env.timeout.number == 150000 && ctx[1]->env.lanes.number == 4);
	TT_EXPECT(ctx[2]->env.timeout.number == 200000 && ctx[2]->env.lanes.number == 4);
	TT_EXPECT(ctx[3]->env.timeout.number == 170000); /* a field goes before an option */
	TT_EXPECT(ctx[4]->env.timeout.number == 200000);
	TT_EXPECT(!strcmp(getenv("TUTTI_TIMEOUT"), "200s") && !getenv("TUTTI_LANES"));
	for (i = 0; i < 5; i++) {
		TT_EXPECT(!works(job, ctx[i]));
		MP_OK(tutti_finalize(ctx[i]));
	}
	return 0;
}

static void apart(void)
{
	TT_CHECK(!MP_RUN(.n = 2, .env = "TUTTI_TIMEOUT=200s", .fn = apart_body, .no_init = true));
}

/* The options do what the variables do: transports, messages instead of the host's memory. */
static int effect_body(struct mp_job *job)
{
	const char *const shm[] = {"TUTTI_TRANSPORT=shm", "TUTTI_PROGRESS=thread", NULL};
	struct tutti_stats with = {.size = sizeof(with)}, without = {.size = sizeof(without)};
	struct tutti_context *ctx[2];

	TT_EXPECT(!join(job, NULL, shm, &ctx[0]) && !join(job, NULL, NULL, &ctx[1]));
	TT_EXPECT(!works(job, ctx[0]) && !works(job, ctx[1]));
	MP_OK(tutti_stats_get(ctx[0], &with));
	MP_OK(tutti_stats_get(ctx[1], &without));
	TT_EXPECT(with.eager_messages > 0 && !without.eager_messages);
	MP_OK(tutti_finalize(ctx[0]));
	MP_OK(tutti_finalize(ctx[1]));
	return 0;
}

static void effect(void)
{
	TT_CHECK(!MP_RUN(.n = 2, .fn = effect_body, .no_init = true));
}

/* A job found by options alone, where the environment has nothing. */
static int found_body(struct mp_job *job)
{
	char rank[32], n[32], dir[128];
	const char *const options[] = {rank, n, dir,
				       "TUTTI_JOB_ID=000102030405060708090a0b0c0d0e0f", NULL};
	struct tutti_config config = {.size = sizeof(config), .options = options};

	snprintf(rank, sizeof(rank), "TUTTI_RANK=%d", job->rank);
	snprintf(n, sizeof(n), "TUTTI_NRANKS=%d", job->n);
	snprintf(dir, sizeof(dir), "TUTTI_BOOT_DIR=%s", job->shared->dir);
	MP_OK(tutti_init(&config, &job->ctx));
	job->world = tutti_world(job->ctx);
	TT_EXPECT(tutti_comm_rank(job->world) == job->rank);
	return works(job, job->ctx);
}

static void found(void)
{
	TT_CHECK(!MP_RUN(.n = 3, .fn = found_body, .way = MP_ENV, .no_init = true));
}

/* A job that grows out of another has its options. */
static int grown_body(struct mp_job *job)
{
	const char *const options[] = {"TUTTI_EAGER=0", "TUTTI_TIMEOUT=", NULL};
	struct tutti_context *ctx, *more;

	TT_EXPECT(!join(job, NULL, options, &ctx));
	TT_EXPECT(ctx->env.timeout.number == 300000);
	MP_OK(tutti_comm_grow(tutti_world(ctx), job->n, 0, &more));
	TT_EXPECT(more->env.eager.number == 0 && more->env.timeout.number == 300000);
	TT_EXPECT(!works(job, more));
	MP_OK(tutti_finalize(more));
	MP_OK(tutti_finalize(ctx));
	return 0;
}

static void grown(void)
{
	TT_CHECK(!MP_RUN(.n = 2, .env = "TUTTI_TIMEOUT=200s", .fn = grown_body, .no_init = true));
}

/* The log is the process's: the option sets its level and keeps the callback. */
static int log_body(struct mp_job *job)
{
	const char *const silent[] = {"TUTTI_LOG=none", NULL}, *const wrong[] = {"TUTTI_TX=1",
										 NULL};
	struct tutti_config config = {.size = sizeof(config), .nranks = 1, .options = wrong};
	struct tutti_context *ctx;

	MP_ERR(tutti_init(&config, &ctx), -EINVAL);
	TT_EXPECT(mp_log_has(job, "unknown variable TUTTI_TX"));
	config.options = silent;
	MP_OK(tutti_init(&config, &ctx));
	MP_OK(tutti_finalize(ctx));
	config.options = (const char *const[]){"TUTTI_SILENT=1", NULL};
	MP_ERR(tutti_init(&config, &ctx), -EINVAL);
	TT_EXPECT(!mp_log_has(job, "TUTTI_SILENT"));
	config.options = silent;
	config.log_level = TUTTI_LOG_ERROR; /* goes before the option */
	MP_OK(tutti_init(&config, &ctx));
	MP_OK(tutti_finalize(ctx));
	TT_EXPECT(tt_log_on(TUTTI_LOG_ERROR));
	return 0;
}

static void log_level(void)
{
	TT_CHECK(!MP_RUN(.n = 1, .fn = log_body));
}

static int refused_body(struct mp_job *job)
{
	static const struct {
		const char *option, *text, *more;
	} wrong[] = {
		{"TUTTI_TIMEOT=10", "unknown variable TUTTI_TIMEOT", "did you mean TUTTI_TIMEOUT"},
		{"chunk=64K", "unknown variable chunk", "did you mean TUTTI_CHUNK"},
		{"TUTTI_CHUNK", "'TUTTI_CHUNK'", "VARIABLE=VALUE"},
		{"TUTTI_CHUNK=17", "config.options: TUTTI_CHUNK=17", "from 4096"},
		{"TUTTI_PROGRESS=maybe", "TUTTI_PROGRESS=maybe", "caller|thread"},
		{"TUTTI_TRANSPORT=smh", "smh", "shm"},
		{"TUTTI_TRANSPORT=shm,", "TUTTI_TRANSPORT=shm,", "missing"},
		{"TUTTI_TRANSPORT=fault:shm,shm", "TUTTI_TRANSPORT=shm,shm", "twice"},
		{"TUTTI_TRANSPORT=self", "TUTTI_TRANSPORT", "'self' between ranks"},
		{"TUTTI_VERBS_MASK=foo", "TUTTI_VERBS_MASK=foo", "imm, atomic"},
		{"TUTTI_VERBS_MASK=imm,", "TUTTI_VERBS_MASK=imm,", "missing"},
		{"TUTTI_VERBS_MASK=inline=", "TUTTI_VERBS_MASK=inline=", "inline=BYTES"},
		{"TUTTI_VERBS_MASK=srq,subnet=-1", "TUTTI_VERBS_MASK", "subnet=NUMBER"},
		{"TUTTI_VERBS_DEVICE=a,b,c,d,e", "TUTTI_VERBS_DEVICE=a,b,c,d,e", "at most 4"},
		{"TUTTI_VERBS_DEVICE=a,,b", "TUTTI_VERBS_DEVICE=a,,b", "missing"},
		{"TUTTI_VERBS_DEVICE=a:0", "TUTTI_VERBS_DEVICE=a:0", "NAME:PORT"},
		{"TUTTI_FAULT=seed=1,,", "TUTTI_FAULT=seed=1,,", "missing"},
		{"TUTTI_LANES=3", "TUTTI_LANES", "twice"}, /* the list begins with it */
	};
	struct tutti_config config = {.size = sizeof(config), .nranks = 1};
	struct tutti_context *ctx = (void *)job;
	size_t i;

	for (i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		const char *const options[] = {"TUTTI_LANES=2", wrong[i].option, NULL};

		config.options = options;
		MP_ERR(tutti_init(&config, &ctx), -EINVAL);
		TT_EXPECT(mp_said(wrong[i].text) && mp_said(wrong[i].more));
		TT_EXPECT(ctx == (void *)job);
	}
	return 0;
}

/* Lists that are as tutti_env(7) says, also where no device is there to use them. */
static int lists_body(struct mp_job *job)
{
	static const char *const options[] = {
		"TUTTI_TRANSPORT=fault:shm", "TUTTI_FAULT=seed=1,rank=0",
		"TUTTI_VERBS_MASK=imm,atomic,placed,srq,resize,inline=0,subnet=7",
		"TUTTI_VERBS_DEVICE=a,b:1,c,d:255", NULL};
	struct tutti_config config = {.options = options};

	MP_OK(mp_join(job, MP_ID, &config));
	return 0;
}

static void lists(void)
{
	TT_CHECK(!MP_RUN(.n = 1, .fn = lists_body, .no_init = true));
}

static void refused(void)
{
	TT_CHECK(!MP_RUN(.n = 1, .fn = refused_body, .no_init = true));
}

int main(int argc, char **argv)
{
	static const struct tt_test tests[] = {
		{"apart", apart},   {"effect", effect},	  {"found", found}, {"grown", grown},
		{"log", log_level}, {"refused", refused}, {"lists", lists}, {NULL, NULL},
	};

	return tt_test_main("options", tests, argc, argv);
}
