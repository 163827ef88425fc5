/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The tables of pipeline schedules: p stages, m micro-batches, v chunks of the model on each stage.
 *
 *	GPipe        F0 F1 F2 F3 B0 B1 B2 B3                  live m
 *	1F1B         w forward steps, then F and B in turn,   live min(m, p - stage)
 *	             then w backward steps: w = p - stage - 1
 *	interleaved  the same over v m steps, which take p micro-batches through one chunk, then
 *	             through the next: w = 2 (p - stage - 1) + (v - 1) p,  live min(v m, w + 1)
 *
 * The bubble's share of the time is (p-1)/(m+p-1), interleaved (p-1)/(v m+p-1), for any ratio of
 * the times of forward and backward steps.
 *
 * Y. Huang et al., "GPipe", NeurIPS 2019. D. Narayanan et al., "PipeDream", SOSP 2019, and
 * "Efficient Large-Scale Language Model Training on GPU Clusters Using Megatron-LM", SC 2021.
 */
#include "train/pipeline_tables.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "train/train_fail.h"

/* Forward steps of stage before its first backward step, without the one that comes with it. */
static int warm_up(const struct tutti_pipeline_config *c, int stage)
{
	int all = c->micro_batches * c->chunks, n;

	switch (c->schedule) {
	case TUTTI_PIPELINE_GPIPE:
		n = all;
		break;
	case TUTTI_PIPELINE_1F1B:
		n = c->stages - stage - 1;
		break;
	default:
		n = 2 * (c->stages - stage - 1) + (c->chunks - 1) * c->stages;
	}
	return n < all ? n : all;
}

/* The k-th forward or backward step of any stage. */
static struct tutti_pipeline_step step_of(const struct tutti_pipeline_config *c, int k,
					  int backward)
{
	int p = c->stages, v = c->chunks, chunk = k % (p * v) / p;

	if (v == 1)
		return (struct tutti_pipeline_step){.micro = k, .backward = backward};
	return (struct tutti_pipeline_step){.micro = k / (p * v) * p + k % p,
					    .chunk = backward ? v - 1 - chunk : chunk,
					    .backward = backward};
}

static void fill_stage(const struct tutti_pipeline_config *c, int stage,
		       struct tutti_pipeline_step *steps)
{
	int all = c->micro_batches * c->chunks, forward = warm_up(c, stage), backward = 0, i;

	for (i = 0; i < forward; i++)
		*steps++ = step_of(c, i, 0);
	while (backward < all) {
		if (forward < all)
			*steps++ = step_of(c, forward++, 0);
		*steps++ = step_of(c, backward++, 1);
	}
}

#define CALL "tutti_pipeline_create"
#define MOST 65536 /* stages, micro-batches or chunks */

static int check_sizes(const struct tutti_pipeline_config *c)
{
	int p = c->stages, m = c->micro_batches;

	if (p < 1 || p > MOST || m < 1 || m > MOST)
		return tt_train_fail(-EINVAL,
				     CALL ": %d stages and %d micro-batches: each must be 1 to %d",
				     p, m, MOST);
	if (c->schedule != TUTTI_PIPELINE_GPIPE && m < p)
		return tt_train_fail(-EINVAL,
				     CALL ": %d micro-batches are fewer than the %d stages, which "
					  "this schedule does not allow; make more micro-batches, "
					  "or use GPipe",
				     m, p);
	if (c->schedule != TUTTI_PIPELINE_INTERLEAVED && c->chunks != 1)
		return tt_train_fail(-EINVAL,
				     CALL ": %d chunks: only the interleaved schedule has several",
				     c->chunks);
	return 0;
}

static int check_interleaved(const struct tutti_pipeline_config *c)
{
	int p = c->stages, m = c->micro_batches, v = c->chunks;

	if (c->schedule != TUTTI_PIPELINE_INTERLEAVED)
		return 0;
	if (p < 2 || v < 2 || v > MOST)
		return tt_train_fail(-EINVAL,
				     CALL ": interleaved over %d stages of %d chunks: it needs at "
					  "least 2 of both; use 1F1B",
				     p, v);
	if (m % p)
		return tt_train_fail(-EINVAL,
				     CALL ": interleaved: %d micro-batches are no multiple of the "
					  "%d stages; change their number, or use 1F1B",
				     m, p);
	return 0;
}

static int check_config(const struct tutti_pipeline_config *c)
{
	int err;

	if (c->schedule < TUTTI_PIPELINE_GPIPE || c->schedule > TUTTI_PIPELINE_INTERLEAVED)
		return tt_train_fail(-EINVAL, CALL ": schedule is %d, which is none",
				     (int)c->schedule);
	err = check_sizes(c);
	if (!err)
		err = check_interleaved(c);
	if (!err && 2ll * c->stages * c->micro_batches * c->chunks > INT_MAX)
		err = tt_train_fail(-EINVAL,
				    CALL ": %d stages, %d micro-batches and %d chunks are more "
					 "steps than a table holds",
				    c->stages, c->micro_batches, c->chunks);
	return err;
}

int tutti_pipeline_create(const struct tutti_pipeline_config *config,
			  struct tutti_pipeline **pipeline)
{
	struct tutti_pipeline_config c;
	struct tutti_pipeline *made;
	int i, err = tt_train_read_config(CALL, "config", config, sizeof(c), sizeof(c), &c);

	if (err)
		return err;
	if (!pipeline)
		return tt_train_fail(-EINVAL, CALL ": pipeline is NULL");
	if (!c.chunks)
		c.chunks = c.schedule == TUTTI_PIPELINE_INTERLEAVED ? 2 : 1;
	err = check_config(&c);
	if (err)
		return err;
	made = calloc(1, sizeof(*made));
	if (made)
		made->steps = calloc((size_t)c.stages * 2 * (size_t)(c.micro_batches * c.chunks),
				     sizeof(*made->steps));
	if (!made || !made->steps) {
		free(made);
		return tt_train_fail(-ENOMEM, CALL ": no memory for %d stages", c.stages);
	}
	made->magic = TT_PIPELINE_MAGIC;
	made->config = c;
	made->nsteps = 2 * c.micro_batches * c.chunks;
	for (i = 0; i < c.stages; i++)
		fill_stage(&c, i, made->steps + (size_t)i * (size_t)made->nsteps);
	*pipeline = made;
	return 0;
}

int tt_pipeline_check(const char *call, const struct tutti_pipeline *pipeline)
{
	if (pipeline && pipeline->magic == TT_PIPELINE_MAGIC)
		return 0;
	return tt_train_fail(-EINVAL, "%s: %s", call,
			     pipeline ? "not a pipeline" : "the pipeline is NULL");
}

int tutti_pipeline_free(struct tutti_pipeline *pipeline)
{
	int err = pipeline ? tt_pipeline_check("tutti_pipeline_free", pipeline) : 0;

	if (!pipeline || err)
		return err;
	tt_pipeline_detach(pipeline->attached);
	pipeline->magic = 0;
	free(pipeline->steps);
	free(pipeline);
	return 0;
}

static int check_stage(const char *call, const struct tutti_pipeline *pipeline, int stage)
{
	int err = tt_pipeline_check(call, pipeline);

	if (!err && (stage < 0 || stage >= pipeline->config.stages))
		err = tt_train_fail(-EINVAL, "%s: %d is not a stage (0 to %d)", call, stage,
				    pipeline->config.stages - 1);
	return err;
}

int tutti_pipeline_steps(const struct tutti_pipeline *pipeline, int stage,
			 const struct tutti_pipeline_step **steps, int *n)
{
	static const char call[] = "tutti_pipeline_steps";
	int err = check_stage(call, pipeline, stage);

	if (err)
		return err;
	if (!steps || !n)
		return tt_train_fail(-EINVAL, "%s: %s is NULL", call, steps ? "n" : "steps");
	*steps = pipeline->steps + (size_t)stage * (size_t)pipeline->nsteps;
	*n = pipeline->nsteps;
	return 0;
}

int tt_pipeline_live(const struct tutti_pipeline *pipeline, int stage, int chunk)
{
	const struct tutti_pipeline_step *s =
		pipeline->steps + (size_t)stage * (size_t)pipeline->nsteps;
	int i, live = 0, most = 0;

	for (i = 0; i < pipeline->nsteps; i++)
		if (chunk < 0 || s[i].chunk == chunk) {
			live += s[i].backward ? -1 : 1;
			most = live > most ? live : most;
		}
	return most;
}

/* ---- one slot for each step ---- */

struct clock {
	const struct tutti_pipeline *p;
	int *done; /* the slot after each step, by part, micro-batch and direction; 0: not done */
	int *at;   /* by stage: its next step */
	int *now;  /* by stage: the slot after its last step */
};

static int *done_at(const struct clock *c, int part, int micro, int backward)
{
	size_t row = (size_t)part * (size_t)c->p->config.micro_batches + (size_t)micro;

	return &c->done[2 * row + (size_t)backward];
}

/* The next step of a stage, if what it reads is there. */
static int advance(struct clock *c, int stage)
{
	const struct tutti_pipeline *p = c->p;
	const struct tutti_pipeline_step *s =
		&p->steps[(size_t)stage * (size_t)p->nsteps + (size_t)c->at[stage]];
	int part = s->chunk * p->config.stages + stage, ready = 1;

	if (s->backward && part == p->config.stages * p->config.chunks - 1)
		ready = *done_at(c, part, s->micro, 0);
	else if (s->backward)
		ready = *done_at(c, part + 1, s->micro, 1);
	else if (part)
		ready = *done_at(c, part - 1, s->micro, 0);
	if (!ready)
		return 0;
	if (ready > c->now[stage])
		c->now[stage] = ready;
	*done_at(c, part, s->micro, s->backward) = ++c->now[stage];
	c->at[stage]++;
	return 1;
}

/* The number of slots until all stages are done. now starts at 1, so that done is never 0. */
static int run_clock(struct clock *c)
{
	int stage, moved, last = 0;

	for (stage = 0; stage < c->p->config.stages; stage++)
		c->now[stage] = 1;
	do {
		moved = 0;
		for (stage = 0; stage < c->p->config.stages; stage++)
			while (c->at[stage] < c->p->nsteps && advance(c, stage))
				moved = 1;
	} while (moved);
	for (stage = 0; stage < c->p->config.stages; stage++)
		last = c->now[stage] > last ? c->now[stage] : last;
	return last - 1;
}

int tutti_pipeline_count(const struct tutti_pipeline *pipeline, int stage,
			 struct tutti_pipeline_counts *counts)
{
	static const char call[] = "tutti_pipeline_count";
	struct tutti_pipeline_counts got = {.size = sizeof(got)};
	struct clock c = {.p = pipeline};
	size_t p;
	int err = check_stage(call, pipeline, stage);

	if (err)
		return err;
	if (!counts)
		return tt_train_fail(-EINVAL, "%s: counts is NULL", call);
	p = (size_t)pipeline->config.stages;
	c.done = calloc(p * (size_t)pipeline->nsteps, sizeof(*c.done));
	c.at = calloc(p, sizeof(*c.at));
	c.now = calloc(p, sizeof(*c.now));
	if (c.done && c.at && c.now) {
		got.slots = run_clock(&c);
		got.busy = pipeline->nsteps;
		got.live = tt_pipeline_live(pipeline, stage, -1);
		err = tt_train_write_stats(call, counts, TT_TRAIN_TO(tutti_pipeline_counts, live),
					   sizeof(got), &got);
	} else {
		err = tt_train_fail(-ENOMEM, "%s: no memory for %zu stages", call, p);
	}
	free(c.done);
	free(c.at);
	free(c.now);
	return err;
}
