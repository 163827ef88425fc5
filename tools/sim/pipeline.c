/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tutti_sim pipeline: simulates a schedule, and counts beside the formulas of the literature, with
 * p stages, m micro-batches and v chunks:
 *
 *	bubble	(p-1)/(v m+p-1) of the time, where messages take none and stages are alike
 *	held	GPipe m, 1F1B min(m, p-stage), interleaved min(v m, 2(p-stage-1)+(v-1)p+1)
 *
 * Papers: train/pipeline_tables.c.
 */
#include "tools/sim/pipeline.h"

#include <stdlib.h>

#include "tools/cli.h"
#include "tools/values.h"

static int least(int a, int b)
{
	return a < b ? a : b;
}

static int held_formula(const struct pipe_options *opt, const struct pipe_table *t, int stage)
{
	int p = t->stages, m = t->micros, v = t->chunks;

	if (opt->read)
		return -1;
	switch (opt->schedule) {
	case TUTTI_PIPELINE_GPIPE:
		return m;
	case TUTTI_PIPELINE_1F1B:
		return least(m, p - stage);
	default:
		return least(v * m, 2 * (p - stage - 1) + (v - 1) * p + 1);
	}
}

static void count_stage(const struct pipe_table *t, int stage, struct pipe_result *r)
{
	size_t first = (size_t)stage * (size_t)t->n;
	struct pipe_stage *c = &r->stages[stage];
	const struct tutti_pipeline_step *s = t->steps + first;
	const struct pipe_time *time = r->times + first;
	int i, held = 0, to;

	for (i = 0; i < t->n; i++) {
		c->busy += time[i].end - time[i].start;
		r->last = time[i].end > r->last ? time[i].end : r->last;
		held += s[i].backward ? -1 : 1;
		c->held = held > c->held ? held : c->held;
		to = s[i].chunk * t->stages + stage + (s[i].backward ? -1 : 1);
		c->sends += to >= 0 && to < t->stages * t->chunks;
	}
	r->sends += c->sends;
}

static void count(const struct pipe_options *opt, const struct pipe_table *t, struct pipe_result *r)
{
	double busy = 0;
	int stage;

	for (stage = 0; stage < t->stages; stage++) {
		r->stages[stage].formula = held_formula(opt, t, stage);
		count_stage(t, stage, r);
		busy += r->stages[stage].busy;
	}
	r->bubble = 1 - busy / (r->last * t->stages);
	r->formula = opt->read ? -1
			       : (double)(t->stages - 1) /
					 ((double)t->chunks * t->micros + t->stages - 1);
}

/* Two simulations: the times, and whether the schedule could end if no message were eager. */
static int simulate(const struct pipe_options *opt, const struct pipe_table *t,
		    struct pipe_result *r)
{
	char *deadlock;
	int err;

	r->times = calloc((size_t)t->stages * (size_t)t->n, sizeof(*r->times));
	r->stages = calloc((size_t)t->stages, sizeof(*r->stages));
	if (!r->times || !r->stages)
		return cli_fail("no memory for %d stages", t->stages);
	err = pipe_simulate(opt, t, true, r->times, &r->deadlock);
	if (!err)
		err = pipe_simulate(opt, t, false, r->times, &deadlock);
	if (!err && deadlock) {
		err = cli_fail("deadlock: %s", deadlock);
		free(deadlock);
	}
	return err;
}

static int show(const struct pipe_options *opt, const struct pipe_table *t, struct pipe_result *r)
{
	int err;

	count(opt, t, r);
	err = pipe_draw(opt, t, r);
	if (!err && opt->csv)
		err = pipe_write_csv(opt, t, r);
	if (!err && opt->json)
		err = pipe_write_json(opt, t, r);
	if (!err && opt->plot)
		err = pipe_plot(opt, t, r);
	return err;
}

static int check_straggler(const struct pipe_options *opt, const struct pipe_table *t)
{
	return opt->model.straggler < t->stages
		       ? 0
		       : cli_wrong("--straggler %d: not a stage of %d (0 to %d)",
				   opt->model.straggler, t->stages, t->stages - 1);
}

int sim_pipeline(int argc, char **argv)
{
	struct pipe_result r = {0};
	struct pipe_options opt;
	struct pipe_table t;
	int err = pipe_parse(&opt, argc, argv);

	if (err)
		return cli_end_parsing(cli_prog, err);
	err = opt.read ? pipe_read(opt.read, &t) : pipe_make(&opt, &t);
	if (err)
		return 1;
	err = check_straggler(&opt, &t);
	if (!err)
		err = simulate(&opt, &t, &r);
	if (!err)
		err = show(&opt, &t, &r);
	free(r.times);
	free(r.stages);
	free(r.deadlock);
	free(t.steps);
	return cli_end(cli_prog, err);
}
