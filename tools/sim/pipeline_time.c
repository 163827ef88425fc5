/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * When the steps of a pipeline begin and end, by discrete events and the rules of
 * train/pipeline_run.c: a stage posts the receive of its next step when it comes to a step, waits
 * for this step's input and for the output buffer (each line of messages has two), computes, and
 * sends. Messages pass beside the computation, as with a progress thread. Ports and links are the
 * simulator's.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "lib/verify/sim_int.h"
#include "tools/sim/pipeline.h"
#include "tools/values.h"

#define BUFFERS 2	 /* of outputs, as in train/pipeline_run.c */
#define NAMED 8		 /* stages in a text about a deadlock */
#define TEXT 128	 /* of each */
#define NOTHING SIZE_MAX /* no message */

/* The input of a step, if it comes from another stage. */
struct msg {
	int from, to;
	double ready, posted;
	bool sent, wanted, launched, left, landed;
};

struct pipe {
	const struct pipe_options *opt;
	const struct pipe_table *t;
	struct tt_model model;
	size_t bytes;
	bool waiting;
	struct sim_net net;
	struct sim_queue queue;
	struct msg *msg;
	int *at;       /* by stage: its step */
	bool *working; /* by stage: computes it */
	struct pipe_time *times;
	int err;
};

static void later(struct pipe *p, double at, enum sim_what what, size_t which)
{
	if (!p->err)
		p->err = tt_sim_push(&p->queue, at, what, (uint32_t)which);
}

static const struct tutti_pipeline_step *step_of(const struct pipe *p, int stage, int i)
{
	return &p->t->steps[(size_t)stage * (size_t)p->t->n + (size_t)i];
}

/* The message that brings the input of a part of the model; NOTHING where the model begins. */
static size_t input_of(const struct pipe *p, int part, int micro, int backward)
{
	int parts = p->t->stages * p->t->chunks;

	if (part < 0 || part >= parts || part == (backward ? parts - 1 : 0))
		return NOTHING;
	return 2 * ((size_t)part * (size_t)p->t->micros + (size_t)micro) + (size_t)(backward != 0);
}

static int part_of(const struct pipe *p, int stage, const struct tutti_pipeline_step *s)
{
	return s->chunk * p->t->stages + stage;
}

static size_t step_input(const struct pipe *p, int stage, const struct tutti_pipeline_step *s)
{
	return input_of(p, part_of(p, stage, s), s->micro, s->backward);
}

/* Of so many micro-batches before that of the step. */
static size_t step_output(const struct pipe *p, int stage, const struct tutti_pipeline_step *s,
			  int before)
{
	int to = part_of(p, stage, s) + (s->backward ? -1 : 1);

	return s->micro < before ? NOTHING : input_of(p, to, s->micro - before, s->backward);
}

/* ---- messages ---- */

static void launch_if_ready(struct pipe *p, size_t i)
{
	struct msg *m = &p->msg[i];
	bool waits = p->waiting || p->bytes > p->model.eager;
	double at = m->ready, known;

	if (m->launched || !m->sent || (waits && !m->wanted))
		return;
	known = m->posted + p->model.link[tt_model_level(&p->model, m->from, m->to)].alpha;
	m->launched = true;
	later(p, waits && known > at ? known : at, SIM_LAUNCH, i);
}

/* Its way through the ports: sim.h. */
static void travel(struct pipe *p, size_t i, enum sim_what what, double now)
{
	struct msg *m = &p->msg[i];
	struct sim_msg ports = {.from = m->from, .to = m->to};
	double busy =
		(double)p->bytes * p->model.link[tt_model_level(&p->model, m->from, m->to)].beta;
	double start;

	if (what == SIM_HEAD) {
		later(p, tt_sim_serve(tt_sim_port_in(&p->net, &ports), now, busy) + busy, SIM_LAND,
		      i);
		return;
	}
	start = tt_sim_serve(tt_sim_port_out(&p->net, &ports), now, busy);
	later(p, start + busy, SIM_OP, i);
	later(p, start + tt_sim_alpha(&p->net, &ports), SIM_HEAD, i);
}

/* ---- stages ---- */

static void post(struct pipe *p, int stage, int step, double now)
{
	size_t i = step < p->t->n ? step_input(p, stage, step_of(p, stage, step)) : NOTHING;

	if (i == NOTHING || p->msg[i].wanted)
		return;
	p->msg[i].wanted = true;
	p->msg[i].posted = now;
	launch_if_ready(p, i);
}

/* The message that the stage's step waits for. */
static size_t missing(const struct pipe *p, int stage)
{
	const struct tutti_pipeline_step *s = step_of(p, stage, p->at[stage]);
	size_t in = step_input(p, stage, s), out = step_output(p, stage, s, BUFFERS);

	if (in != NOTHING && !p->msg[in].landed)
		return in;
	return out != NOTHING && !p->msg[out].left ? out : NOTHING;
}

static double overhead(const struct pipe *p, size_t i)
{
	bool near = i != NOTHING &&
		    tt_model_level(&p->model, p->msg[i].from, p->msg[i].to) == TT_LEVEL_HOST;

	if (i == NOTHING)
		return 0;
	return near ? tt_model_host_overhead(&p->model) : p->model.overhead;
}

static void work_if_ready(struct pipe *p, int stage, double now)
{
	const struct tutti_pipeline_step *s;
	struct pipe_time *t;

	if (p->at[stage] < 0 || p->at[stage] >= p->t->n || p->working[stage] ||
	    missing(p, stage) != NOTHING)
		return;
	s = step_of(p, stage, p->at[stage]);
	t = &p->times[s - p->t->steps];
	p->working[stage] = true;
	t->start = tt_sim_compute(&p->net, stage, now, overhead(p, step_input(p, stage, s)));
	t->end = tt_sim_compute(&p->net, stage, t->start, pipe_duration(p->opt, p->t, s));
	later(p, tt_sim_compute(&p->net, stage, t->end, overhead(p, step_output(p, stage, s, 0))),
	      SIM_STEP, (size_t)stage);
}

/* Ends the step that the stage is in, if it is in one, and begins the next. */
static void next_step(struct pipe *p, int stage, double now)
{
	size_t out = NOTHING;

	if (p->working[stage])
		out = step_output(p, stage, step_of(p, stage, p->at[stage]), 0);
	p->working[stage] = false;
	if (out != NOTHING) {
		p->msg[out].sent = true;
		p->msg[out].ready = now;
		launch_if_ready(p, out);
	}
	p->at[stage]++;
	post(p, stage, p->at[stage], now);
	post(p, stage, p->at[stage] + 1, now);
	work_if_ready(p, stage, now);
}

static void happen(struct pipe *p, const struct sim_event *ev)
{
	struct msg *m = &p->msg[ev->which]; /* unless it is a stage's event */

	switch (ev->what) {
	case SIM_START:
	case SIM_STEP:
		next_step(p, (int)ev->which, ev->at);
		break;
	case SIM_OP:
		m->left = true;
		work_if_ready(p, m->from, ev->at);
		break;
	case SIM_LAND:
		m->landed = true;
		work_if_ready(p, m->to, ev->at);
		break;
	default:
		travel(p, ev->which, ev->what, ev->at);
	}
}

/* ---- deadlocks ---- */

/* The stage that this one waits for. */
static int waits_for(const struct pipe *p, int stage, bool *input)
{
	const struct msg *m = &p->msg[missing(p, stage)];

	*input = m->to == stage;
	return *input ? m->from : m->to;
}

/* A stage that waits, directly or not, for itself. */
static int find_cycle(const struct pipe *p, int stage)
{
	bool input;
	int i;

	for (i = 0; i < p->t->stages; i++)
		stage = waits_for(p, stage, &input);
	return stage;
}

static char *tell(const struct pipe *p, int stuck)
{
	int first = find_cycle(p, stuck), stage = first, other, i = 0;
	char *text = calloc(NAMED + 1, TEXT), name[PIPE_NAME];
	size_t len = 0;
	bool input;

	while (text) {
		other = waits_for(p, stage, &input);
		pipe_name(p->t, step_of(p, stage, p->at[stage]), name);
		len += (size_t)snprintf(text + len, TEXT, "%sstage %d at %s waits for %s stage %d",
					i ? ", " : "", stage, name,
					input ? "the input from" : "a receive of", other);
		stage = other;
		if (stage == first)
			break;
		if (++i == NAMED) {
			snprintf(text + len, TEXT, ", ...");
			break;
		}
	}
	return text;
}

/* ---- the whole ---- */

static int set_up(struct pipe *p)
{
	size_t stages = (size_t)p->t->stages, i;
	size_t n = 2 * stages * (size_t)p->t->chunks * (size_t)p->t->micros;
	int part, by;

	p->msg = calloc(n, sizeof(*p->msg));
	p->at = calloc(stages, sizeof(int));
	p->working = calloc(stages, sizeof(bool));
	if (!p->msg || !p->at || !p->working || tt_sim_net_init(&p->net, &p->model, (int)stages, 0))
		return -1;
	for (i = 0; i < n; i++) {
		part = (int)(i / 2 / (size_t)p->t->micros);
		by = i % 2 ? 1 : p->t->stages - 1;
		p->msg[i].to = part % p->t->stages;
		p->msg[i].from = (part + by) % p->t->stages;
	}
	for (i = 0; i < stages; i++) {
		p->at[i] = -1;
		later(p, (int)i == p->model.straggler ? p->model.straggler_delay : 0, SIM_START, i);
	}
	return p->err;
}

/* Messages that take no time. */
static void make_free(struct tt_model *m)
{
	int level;

	for (level = 0; level < TT_LEVELS; level++)
		m->link[level] = (struct tt_hop){0};
	m->overhead = m->host_overhead = m->jitter = 0;
}

int pipe_simulate(const struct pipe_options *opt, const struct pipe_table *t, bool waiting,
		  struct pipe_time *times, char **deadlock)
{
	struct pipe p = {.opt = opt,
			 .t = t,
			 .model = opt->model,
			 .bytes = opt->bytes,
			 .waiting = waiting,
			 .times = times};
	struct sim_event ev;
	int stage, err;

	*deadlock = NULL;
	if (!opt->sized)
		make_free(&p.model);
	err = set_up(&p);
	while (!err && !p.err && tt_sim_pop(&p.queue, &ev))
		happen(&p, &ev);
	err = err ? err : p.err;
	for (stage = 0; !err && !*deadlock && stage < t->stages; stage++)
		if (p.at[stage] < t->n && !(*deadlock = tell(&p, stage)))
			err = -1;
	tt_sim_net_free(&p.net);
	free(p.queue.heap);
	free(p.msg);
	free(p.at);
	free(p.working);
	return err ? cli_fail("no memory for %d stages", t->stages) : 0;
}
