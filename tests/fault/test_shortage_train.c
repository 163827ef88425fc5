/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An allocation of rank 1, each seventh in turn, fails during a call of libtutti_train that makes
 * an object on all ranks: the call works, or it fails with -ENOMEM on all of them, long before
 * their deadline, and their errors name rank 1.
 */
#include <errno.h>
#include <tutti/local_steps.h>
#include <tutti/pipeline.h>
#include <tutti/reducer.h>
#include <tutti/sharded.h>

#include "tests/fault/allocations.h"

#define TENSORS 3
#define SOON "TUTTI_IF=lo TUTTI_TIMEOUT=30s TUTTI_LATE_AFTER=20ms "

static const size_t counts[TENSORS] = {100, 5000, 10};
static float memory[TENSORS][5000];
static void *const tensors[TENSORS] = {memory[0], memory[1], memory[2]};

/*
 * An object to make, with a codec or without. begin: what is made first where there
 * is memory, and freed also if make fails; or NULL.
 */
struct object {
	struct tutti_codec *codec;
	void *made;
	int (*begin)(struct mp_job *job, struct object *o);
	int (*make)(struct mp_job *job, struct object *o);
	int (*free)(struct object *o);
};

static int make_reducer(struct mp_job *job, struct object *o)
{
	struct tutti_reducer_config c = {.size = sizeof(c),
					 .n = TENSORS,
					 .counts = counts,
					 .gradients = tensors,
					 .datatype = TUTTI_FLOAT32,
					 .codec = o->codec};

	return tutti_reducer_create(job->world, &c, (struct tutti_reducer **)&o->made);
}

static int free_reducer(struct object *o)
{
	return tutti_reducer_free(o->made);
}

static int make_sharded(struct mp_job *job, struct object *o)
{
	const struct tutti_rule adam = {.size = sizeof(adam), .rule = TUTTI_PS_ADAM, .rate = 0.1};
	struct tutti_sharded_config c = {.size = sizeof(c),
					 .n = TENSORS,
					 .counts = counts,
					 .parameters = tensors,
					 .datatype = TUTTI_FLOAT32,
					 .stage = 2,
					 .rule = &adam,
					 .codec = o->codec};

	return tutti_sharded_create(job->world, &c, (struct tutti_sharded **)&o->made);
}

static int free_sharded(struct object *o)
{
	return tutti_sharded_free(o->made);
}

static int make_local(struct mp_job *job, struct object *o)
{
	const struct tutti_rule sgd = {.size = sizeof(sgd), .rule = TUTTI_PS_SGD, .rate = 1};
	struct tutti_local_steps_config c = {.size = sizeof(c),
					     .n = TENSORS,
					     .counts = counts,
					     .parameters = tensors,
					     .datatype = TUTTI_FLOAT32,
					     .every = 2,
					     .outer = &sgd,
					     .codec = o->codec};

	return tutti_local_steps_create(job->world, &c, (struct tutti_local_steps **)&o->made);
}

static int free_local(struct object *o)
{
	return tutti_local_steps_free(o->made);
}

static int forward(void *arg, const struct tutti_pipeline_step *step, const void *in, void *out)
{
	(void)arg, (void)step, (void)in, (void)out;
	return 0;
}

static int backward(void *arg, const struct tutti_pipeline_step *step, const void *in,
		    const void *grad_out, void *grad_in)
{
	(void)arg, (void)step, (void)in, (void)grad_out, (void)grad_in;
	return 0;
}

static int make_pipeline(struct mp_job *job, struct object *o)
{
	struct tutti_pipeline_config c = {.size = sizeof(c),
					  .schedule = TUTTI_PIPELINE_1F1B,
					  .stages = job->n,
					  .micro_batches = 4};

	return tutti_pipeline_create(&c, (struct tutti_pipeline **)&o->made);
}

static int attach(struct mp_job *job, struct object *o)
{
	static const struct tutti_pipeline_work work = {.size = sizeof(work),
							.count = 1000,
							.datatype = TUTTI_FLOAT32,
							.forward = forward,
							.backward = backward};

	return tutti_pipeline_attach(o->made, job->world, &work);
}

static int free_pipeline(struct object *o)
{
	return tutti_pipeline_free(o->made);
}

/* *count: the allocations of rank 1 in the call. */
static int make_without(struct mp_job *job, void *arg, long from, long *count)
{
	struct object *o = arg;
	atomic_int *code = &job->shared->word[0];
	int err;

	if (o->begin)
		MP_OK(o->begin(job, o));
	MP_OK(tutti_barrier(job->world));
	mp_meet(job);
	arm(job->rank == BAD ? CALLER : NONE, from, 1);
	err = o->make(job, o);
	*count = counted();
	arm(NONE, 0, 0);
	if (job->rank == BAD)
		atomic_store(code, err);
	mp_meet(job);
	MP_ERR(err, atomic_load(code));
	TT_EXPECT(!err || (err == -ENOMEM && (job->rank == BAD || mp_said("rank 1"))));
	return !err || o->begin ? o->free(o) : 0;
}

/* Every allocation with TT_TIMES above 1. */
static long step(void)
{
	const char *times = getenv("TT_TIMES");

	return times && atoi(times) > 1 ? 1 : 7;
}

static int body(struct mp_job *job)
{
	struct object o = *(struct object *)job->arg;

	mp_log_level(job, TUTTI_LOG_NONE);
	TT_EXPECT(!each_allocation(job, make_without, &o, step()));
	if (o.begin)
		return 0;
	MP_OK(tutti_codec_create("topk:5%", &o.codec));
	TT_EXPECT(!each_allocation(job, make_without, &o, step()));
	return tutti_codec_free(o.codec);
}

static void run(struct object *o)
{
	static const char *const envs[] = {SOON, SOON "TUTTI_NODE=off"};
	size_t i;

	if (mp_no_limit())
		TT_SKIP("%s", mp_no_limit());
	for (i = 0; i < sizeof(envs) / sizeof(envs[0]); i++)
		TT_CHECK(!MP_RUN(.n = 3, .env = envs[i], .fn = body, .arg = o));
}

static void reducer(void)
{
	run(&(struct object){.make = make_reducer, .free = free_reducer});
}

static void sharded(void)
{
	run(&(struct object){.make = make_sharded, .free = free_sharded});
}

static void local_steps(void)
{
	run(&(struct object){.make = make_local, .free = free_local});
}

static void pipeline(void)
{
	run(&(struct object){.begin = make_pipeline, .make = attach, .free = free_pipeline});
}

int main(int argc, char **argv)
{
	static const struct tt_test tests[] = {{"reducer", reducer},
					       {"sharded", sharded},
					       {"local_steps", local_steps},
					       {"pipeline", pipeline},
					       {NULL, NULL}};

	return tt_test_main("shortage_train", tests, argc, argv);
}
