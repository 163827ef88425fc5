/* SPDX-License-Identifier: BSD-3-Clause */
/* The simulator's events: lanes run their rounds, messages travel. */
#include "lib/verify/sim.h"

#include <errno.h>
#include <stdlib.h>

#include "lib/base/error.h"
#include "lib/plan/cost.h"
#include "lib/verify/check.h"
#include "lib/verify/sim_int.h"

struct sim_lane {
	int rank;
	uint32_t lane;
	int round, rounds, pending;
};

struct sim {
	const struct tt_model *model;
	struct tt_plan *const *plans; /* by rank */
	int nplans;		      /* 1 in a mirror */
	struct sim_net net;
	struct sim_queue queue;
	struct sim_table table;
	struct sim_steps steps;
	struct sim_lane *lanes;
	uint32_t nlanes, running;
	int *lanes_left; /* by plan: lanes that have not ended */
	int ended;	 /* plans without such lanes */
	struct tt_op *tmp;
	int err;
	struct tt_sim_result result;
};

static void later(struct sim *s, double at, enum sim_what what, uint32_t which)
{
	if (!s->err)
		s->err = tt_sim_push(&s->queue, at, what, which);
}

/* ---- messages ---- */

static const struct tt_hop *link_of(const struct sim *s, const struct sim_msg *m)
{
	return &s->model->link[tt_model_level(s->model, m->from, m->to)];
}

static double overhead_of(const struct sim *s, const struct sim_msg *m)
{
	bool near = tt_model_level(s->model, m->from, m->to) == TT_LEVEL_HOST;

	return near ? tt_model_host_overhead(s->model) : s->model->overhead;
}

/* Both ends are there, or the message needs no receive: off it goes. */
static void launch_if_ready(struct sim *s, uint32_t i, double now)
{
	struct sim_msg *m = &s->table.msg[i];
	bool waits = m->len > s->model->eager;
	double at = m->ready;

	if (m->launched || m->send == SIM_NONE || (waits && m->recv == SIM_NONE))
		return;
	/* the news of a receive posted now, or before */
	if (waits && at < m->posted + link_of(s, m)->alpha)
		at = m->posted + link_of(s, m)->alpha;
	m->launched = true;
	later(s, at > now ? at : now, SIM_LAUNCH, i);
}

static void launched(struct sim *s, uint32_t i, double now)
{
	struct sim_msg *m = &s->table.msg[i];
	double busy = link_of(s, m)->beta * (double)m->len, start, sent;

	s->result.messages++;
	s->result.bytes += m->len;
	if (s->model->cores &&
	    (s->model->numa || tt_model_level(s->model, m->from, m->to) == TT_LEVEL_HOST)) {
		/* a processor copies it */
		start = tt_sim_compute(&s->net, m->from, now, busy);
		later(s, start, SIM_OP, m->send);
		later(s, start + tt_sim_alpha(&s->net, m), SIM_LAND, i);
		return;
	}
	start = tt_sim_serve(tt_sim_port_out(&s->net, m), now, busy);
	sent = start + busy;
	if (tt_model_level(s->model, m->from, m->to) != TT_LEVEL_HOST)
		sent -= link_of(s, m)->beta * (double)s->model->buffer;
	later(s, sent > now ? sent : now, SIM_OP, m->send);
	m->left = start;
	if (tt_model_level(s->model, m->from, m->to) == TT_LEVEL_FAR && !s->net.mirror)
		later(s, start, SIM_UPLINK, i);
	else
		later(s, m->head = start + tt_sim_alpha(&s->net, m), SIM_HEAD, i);
}

static void at_uplink(struct sim *s, uint32_t i, double now)
{
	struct sim_msg *m = &s->table.msg[i];
	double *uplink = &s->net.uplink[tt_model_leaf(s->net.model, m->from)];

	later(s, tt_sim_serve(uplink, now, s->net.uplink_beta * (double)m->len), SIM_DOWN, i);
}

/*
 * Packets of different messages share a link, so the head of a message passes without waiting, and
 * the link's queue delays the tail. The receiver's port is busy with the message for as long as
 * the message would take at the port's own rate, at the end of that time.
 */
static void at_downlink(struct sim *s, uint32_t i, double now)
{
	struct sim_msg *m = &s->table.msg[i];
	double busy = s->net.uplink_beta * (double)m->len, alpha = tt_sim_alpha(&s->net, m);
	double *downlink = &s->net.downlink[tt_model_leaf(s->net.model, m->to)];
	double tail = tt_sim_serve(downlink, now, busy) + busy;

	m->head = tail - link_of(s, m)->beta * (double)m->len;
	m->head = alpha + (m->head > m->left ? m->head : m->left);
	later(s, m->head > now ? m->head : now, SIM_HEAD, i);
}

static void at_port(struct sim *s, uint32_t i, double now)
{
	struct sim_msg *m = &s->table.msg[i];
	double busy = link_of(s, m)->beta * (double)m->len;
	double end = tt_sim_serve(tt_sim_port_in(&s->net, m), m->head, busy) + busy;

	later(s, end > now ? end : now, SIM_LAND, i);
}

static void received(struct sim *s, uint32_t i, double now)
{
	struct sim_msg *m = &s->table.msg[i];
	double busy = overhead_of(s, m) + (m->reduces ? s->model->gamma * (double)m->len : 0);

	later(s, tt_sim_compute(&s->net, m->to, now, busy), SIM_OP, m->recv);
	tt_sim_msg_free(&s->table, i);
}

static void landed(struct sim *s, uint32_t i, double now)
{
	s->table.msg[i].landed = true;
	if (s->table.msg[i].recv != SIM_NONE)
		received(s, i, now);
}

/* In a mirror, the peer's sends of this round take as long as this rank's. */
static void start_message(struct sim *s, uint32_t l, const struct tt_op *op, uint32_t index,
			  double now)
{
	int rank = s->lanes[l].rank;
	bool sends = op->kind == TT_OP_SEND;
	int src = s->net.mirror ? 0 : sends ? rank : op->peer;
	int dst = s->net.mirror ? 0 : sends ? op->peer : rank;
	uint32_t i = tt_sim_msg(&s->table, src, dst, s->lanes[l].lane, index);
	struct sim_msg *m;
	size_t len;

	if (i == SIM_NONE) {
		s->err = -ENOMEM;
		return;
	}
	m = &s->table.msg[i];
	len = op->usual ? op->usual : op->len;
	m->len = len > m->len ? len : m->len;
	if (sends) {
		m->send = l;
		m->from = rank;
		m->to = op->peer;
		m->ready = tt_sim_compute(&s->net, rank, now, overhead_of(s, m));
	} else {
		m->recv = l;
		m->posted = now;
		m->reduces = op->kind == TT_OP_RECV_REDUCE;
	}
	if (m->landed)
		received(s, i, now);
	else
		launch_if_ready(s, i, now);
}

/* ---- the memory of a host ---- */

static void step_seen(struct sim *s, uint32_t signal, double now)
{
	uint32_t lane;

	tt_sim_seen(&s->steps, signal);
	while ((lane = tt_sim_woken(&s->steps)) != SIM_NONE)
		later(s, now, SIM_OP, lane);
}

static void start_node_op(struct sim *s, uint32_t l, const struct tt_op *op, double now)
{
	int rank = s->lanes[l].rank, rc = 1;

	if (op->kind == TT_OP_WAIT)
		rc = tt_sim_wait(&s->steps, rank, l, op);
	else if (op->kind == TT_OP_SIGNAL) /* a line of cache changes hands */
		later(s, now + tt_model_step(s->model), SIM_STEP,
		      tt_sim_signal(&s->steps, rank, op));
	else
		now = tt_sim_compute(&s->net, rank, now,
				     tt_sim_node_work(&s->steps, s->model, rank, op));
	if (rc < 0)
		s->err = rc;
	if (rc > 0)
		later(s, now, SIM_OP, l);
}

/* ---- lanes ---- */

/* ns per byte of a vector that a local op works on. */
static double local_work(const struct tt_model *model, const struct tt_plan *plan,
			 const struct tt_op *op)
{
	switch (op->kind) {
	case TT_OP_COPY:
		return model->copy;
	case TT_OP_REDUCE:
		return model->gamma;
	case TT_OP_WEIGH:
		return model->gamma * op->peer;
	case TT_OP_ENCODE:
		return tt_cost_encode(model, &plan->args);
	default:
		return tt_cost_decode(model, &plan->args);
	}
}

static bool is_local(const struct tt_op *op)
{
	return op->kind >= TT_OP_REDUCE && op->kind <= TT_OP_DECODE_ADD;
}

static void start_round(struct sim *s, uint32_t l, double now)
{
	struct sim_lane *lane = &s->lanes[l];
	const struct tt_plan *plan = s->plans[s->net.mirror ? 0 : lane->rank];
	uint32_t sent = 0, taken = 0, first = (uint32_t)lane->round * (uint32_t)plan->max_ops;
	const struct tt_op *ops;
	double busy;
	int i, n;

	n = tt_plan_ops(plan, (int)lane->lane, lane->round, s->tmp, &ops);
	lane->pending = n;
	if (!n)
		later(s, now, SIM_START, l);
	for (i = 0; i < n && !s->err; i++) {
		if (is_local(&ops[i])) {
			busy = local_work(s->model, plan, &ops[i]) *
			       (double)(ops[i].usual ? ops[i].usual : ops[i].len);
			later(s, tt_sim_compute(&s->net, lane->rank, now, busy), SIM_OP, l);
		} else if (ops[i].kind >= TT_OP_PULL_REDUCE) {
			start_node_op(s, l, &ops[i], now);
		} else if (s->net.mirror) {
			start_message(s, l, &ops[i],
				      first + (ops[i].kind == TT_OP_SEND ? sent++ : taken++), now);
		} else {
			start_message(s, l, &ops[i], ops[i].index, now);
		}
	}
}

static void next_round(struct sim *s, uint32_t l, double now)
{
	struct sim_lane *lane = &s->lanes[l];

	lane->round++;
	if (lane->round < lane->rounds) {
		start_round(s, l, now);
		return;
	}
	s->running--;
	if (--s->lanes_left[s->net.mirror ? 0 : lane->rank])
		return;
	if (!s->ended++ || now < s->result.first)
		s->result.first = now;
	if (now > s->result.last)
		s->result.last = now;
}

static void op_over(struct sim *s, uint32_t l, double now)
{
	if (--s->lanes[l].pending == 0)
		next_round(s, l, now);
}

static void happen(struct sim *s, const struct sim_event *ev)
{
	static void (*const then[])(struct sim * s, uint32_t which, double now) = {
		[SIM_START] = next_round, [SIM_OP] = op_over,	    [SIM_LAUNCH] = launched,
		[SIM_UPLINK] = at_uplink, [SIM_DOWN] = at_downlink, [SIM_HEAD] = at_port,
		[SIM_LAND] = landed,	  [SIM_STEP] = step_seen};
	_Static_assert(sizeof(then) / sizeof(*then) == SIM_WHATS, "each has a function");

	then[ev->what](s, ev->which, ev->at);
}

static int run(struct sim *s)
{
	struct sim_event ev;
	uint32_t l;

	for (l = 0; l < s->nlanes && !s->err; l++) {
		s->lanes[l].round = -1;
		later(s, s->lanes[l].rank == s->model->straggler ? s->model->straggler_delay : 0,
		      SIM_START, l);
	}
	while (!s->err && tt_sim_pop(&s->queue, &ev))
		happen(s, &ev);
	if (s->err)
		return tt_fail(s->err, "no memory to simulate %d ranks", s->net.nranks);
	if (s->running || s->table.used)
		return tt_fail(-EDEADLK,
			       "the simulated %s of %d ranks stopped: %u lanes wait, %u messages "
			       "are left",
			       s->plans[0]->algo, s->net.nranks, s->running, s->table.used);
	return 0;
}

static int set_up(struct sim *s, int nranks, int first_rank)
{
	size_t max_ops = 0;
	int r, l;

	for (r = 0; r < s->nplans; r++) {
		s->nlanes += (uint32_t)s->plans[r]->nlanes;
		if ((size_t)s->plans[r]->max_ops > max_ops)
			max_ops = (size_t)s->plans[r]->max_ops;
	}
	s->running = s->nlanes;
	s->lanes = calloc(s->nlanes + 1, sizeof(*s->lanes));
	s->lanes_left = calloc((size_t)s->nplans, sizeof(int));
	s->tmp = calloc(max_ops + 1, sizeof(*s->tmp));
	if (!s->lanes || !s->lanes_left || !s->tmp ||
	    tt_sim_steps_init(&s->steps, &s->plans[0]->args) ||
	    tt_sim_net_init(&s->net, s->model, nranks, s->nplans == 1))
		return tt_fail(-ENOMEM, "no memory to simulate %d ranks", nranks);
	s->nlanes = 0;
	for (r = 0; r < s->nplans; r++)
		for (l = 0; l < s->plans[r]->nlanes; l++) {
			s->lanes[s->nlanes++] = (struct sim_lane){
				.rank = first_rank + r,
				.lane = (uint32_t)l,
				.rounds = tt_plan_rounds(s->plans[r], l),
			};
			s->lanes_left[r]++;
		}
	return 0;
}

static int simulate(struct tt_plan *const *plans, int nplans, int first_rank,
		    const struct tt_model *model, struct tt_sim_result *result)
{
	struct sim s = {.model = model, .plans = plans, .nplans = nplans};
	int err = set_up(&s, plans[0]->args.nranks, first_rank);

	if (!err)
		err = run(&s);
	if (!err)
		*result = s.result;
	tt_sim_net_free(&s.net);
	tt_sim_steps_free(&s.steps);
	free(s.queue.heap);
	free(s.table.msg);
	tt_map_free(&s.table.first);
	free(s.lanes);
	free(s.lanes_left);
	free(s.tmp);
	return err;
}

int tt_sim(const struct tt_alg *alg, const struct tt_plan_args *args, const struct tt_model *model,
	   struct tt_sim_result *result)
{
	struct tt_plan_args a = *args;
	struct tt_plan **plans = calloc((size_t)a.nranks, sizeof(struct tt_plan *));
	int r, err = 0;

	if (!plans)
		return tt_fail(-ENOMEM, "no memory for the plans of %d ranks", a.nranks);
	for (r = 0; !err && r < a.nranks; r++) {
		tt_plan_args_of(args, r, &a);
		err = tt_plan_build(alg, &a, &plans[r]);
	}
	if (!err)
		err = simulate(plans, a.nranks, 0, model, result);
	for (r = 0; r < a.nranks; r++)
		tt_plan_free(plans[r]);
	free(plans);
	return err;
}

/* ---- the recurrence ---- */

/* Every round has as many sends as receives, of lengths that differ by at most one element. */
static bool all_alike(const struct tt_plan *plan, struct tt_op *tmp)
{
	const struct tt_op *ops;
	int lane, round, i, n, balance;
	size_t lo, hi;

	if (plan->node) /* others of the host decide how long it waits */
		return false;
	for (lane = 0; lane < plan->nlanes; lane++)
		for (round = 0; round < tt_plan_rounds(plan, lane); round++) {
			n = tt_plan_ops(plan, lane, round, tmp, &ops);
			for (i = 0, balance = 0, lo = SIZE_MAX, hi = 0; i < n; i++) {
				if (is_local(&ops[i]))
					continue;
				balance += ops[i].kind == TT_OP_SEND ? 1 : -1;
				lo = ops[i].len < lo ? ops[i].len : lo;
				hi = ops[i].len > hi ? ops[i].len : hi;
			}
			if (balance || (hi && hi - lo > plan->args.elem))
				return false;
		}
	return true;
}

static int recur_rank(const struct tt_alg *alg, const struct tt_plan_args *args,
		      const struct tt_model *model, struct tt_sim_result *result)
{
	struct tt_plan *plan;
	struct tt_op *tmp;
	int err;

	err = tt_plan_build(alg, args, &plan);
	if (err)
		return err;
	tmp = calloc((size_t)plan->max_ops + 1, sizeof(*tmp));
	if (!tmp)
		err = tt_fail(-ENOMEM, "no memory for a round of %d ops", plan->max_ops);
	else if (!all_alike(plan, tmp))
		err = tt_fail(
			-EOPNOTSUPP,
			"the ranks of %s do different work: there is no recurrence over rounds",
			alg->name);
	else
		err = simulate(&plan, 1, args->rank, model, result);
	free(tmp);
	tt_plan_free(plan);
	return err;
}

int tt_sim_recurrence(const struct tt_alg *alg, const struct tt_plan_args *args,
		      const struct tt_model *model, struct tt_sim_result *result)
{
	struct tt_plan_args a = *args;
	struct tt_sim_result one, worst = {0};
	int64_t group;
	int err;

	if (model->straggler >= 0 || model->jitter > 0 || model->oversub > 1 ||
	    model->ranks_per_host > model->rails || model->cores)
		return tt_fail(
			-EOPNOTSUPP,
			"a recurrence over rounds needs ranks that are all alike: no straggler, "
			"no jitter, no oversubscription, a port and a processor for each rank of a "
			"host");
	if (tt_coll_counts(a.coll))
		return tt_fail(-EOPNOTSUPP,
			       "%s has counts per rank: there is no recurrence over rounds",
			       tt_coll_name(a.coll));
	group = (int64_t)model->ranks_per_host *
		(model->hosts_per_leaf ? model->hosts_per_leaf : 1);
	group = group < a.nranks ? group : a.nranks;
	for (a.rank = 0; a.rank < group; a.rank++) {
		err = recur_rank(alg, &a, model, &one);
		if (err)
			return err;
		if (one.last > worst.last)
			worst = one;
	}
	worst.messages *= (uint64_t)a.nranks;
	worst.bytes *= (uint64_t)a.nranks;
	worst.recurrence = true;
	*result = worst;
	return 0;
}
