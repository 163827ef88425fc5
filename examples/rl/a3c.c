/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A3C (Mnih et al., 2016): each rank acts with weights that it has just pulled, and pushes the
 * gradient of its steps to the parameter server, whose rule is Adam. No rank waits for another; how
 * many updates came between a pull and the push made from it is the staleness tau, which is
 * reported.
 *
 * A window of rank 0 counts the steps of all ranks, and the ranks that have reached the goal.
 */
#include "examples/rl/rl.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

enum { STEPS, REACHED, COUNTS };

struct a3c {
	const struct options *o;
	struct tutti_comm *world;
	struct tutti_ps *ps;
	struct tutti_ps_table *weights;
	struct tutti_win *counts;
	struct cartpole pole;
	struct learner l; /* l.w: as pulled */
};

static int open_all(struct a3c *a)
{
	struct tutti_ps_config config = {.size = sizeof(config), .staleness = TUTTI_PS_ASYNC};
	struct tutti_ps_options opt = {
		.size = sizeof(opt), .rule = TUTTI_PS_ADAM, .rate = a->o->rate};
	size_t size = tutti_comm_rank(a->world) ? 0 : COUNTS * sizeof(uint64_t);
	void *base;
	int err = tutti_win_allocate(a->world, size, 0, &base, &a->counts);

	if (!err)
		err = tutti_ps_open(a->world, &config, &a->ps);
	if (!err)
		err = tutti_ps_dense(a->ps, "weights", WEIGHTS, TUTTI_FLOAT64, &opt, &a->weights);
	if (!err && !tutti_comm_rank(a->world))
		err = tutti_ps_set(a->weights, a->l.w, WEIGHTS, TUTTI_FLOAT64);
	return err ? err : tutti_barrier(a->world); /* there are values */
}

/* Adds to a count of all ranks; *now: what it was before. */
static int count(struct a3c *a, int which, uint64_t n, uint64_t *now)
{
	return tutti_fetch_add(a->counts, 0, n, (uint64_t)which * sizeof(uint64_t), now);
}

static int step(struct a3c *a, struct trajectory *t)
{
	struct learner *l = &a->l;
	int err = tutti_ps_pull(a->weights, l->w, 0, WEIGHTS, TUTTI_FLOAT64), i;

	if (err)
		return err;
	act(&a->pole, l->w, 0, t);
	for (i = 0; i < WEIGHTS; i++)
		l->gradient[i] = 0;
	learner_take(l, t);
	return tutti_ps_push(a->weights, l->gradient, 0, WEIGHTS, TUTTI_FLOAT64);
}

static int learn(struct a3c *a)
{
	uint64_t steps = 0, reached = 0;
	struct trajectory t;
	int err = 0;

	while (!err && !reached && steps < (uint64_t)a->o->steps) {
		err = step(a, &t);
		if (!err)
			err = count(a, STEPS, UNROLL, &steps);
		if (!err)
			err = count(a, REACHED, learner_mean(&a->l) >= a->o->goal, &reached);
		reached |= learner_mean(&a->l) >= a->o->goal;
	}
	return err;
}

/* The best rank's mean: each has its own last episodes. */
static int tell(struct a3c *a)
{
	struct tutti_ps_read read = {.size = sizeof(read)};
	double most[2] = {learner_mean(&a->l)}, sum = (double)a->l.steps;
	int err = tutti_ps_last_read(a->weights, &read);

	most[1] = read.tau;
	if (!err)
		err = tutti_allreduce(TUTTI_IN_PLACE, most, 2, TUTTI_FLOAT64, TUTTI_MAX, a->world);
	if (!err)
		err = tutti_allreduce(TUTTI_IN_PLACE, &sum, 1, TUTTI_FLOAT64, TUTTI_SUM, a->world);
	if (err)
		return err;
	if (!tutti_comm_rank(a->world)) {
		printf("staleness tau: %.2f updates on average, of the rank with the largest\n",
		       most[1]);
		printf("mean return %.1f of %d episodes after %.0f steps of all ranks\n", most[0],
		       EPISODES, sum);
	}
	return most[0] >= a->o->goal ? 0 : 1;
}

int a3c(struct tutti_comm *world, const struct options *o)
{
	struct a3c *a = calloc(1, sizeof(*a));
	int err, end;

	if (!a)
		return -ENOMEM;
	a->o = o;
	a->world = world;
	learner_start(&a->l, o);
	a->pole.random = actor_seed(o, tutti_comm_rank(world));
	cartpole_begin(&a->pole);
	err = open_all(a);
	if (!err)
		err = learn(a);
	if (!err)
		err = tell(a);
	end = a->ps ? tutti_ps_close(a->ps) : 0;
	err = err ? err : end;
	end = a->counts ? tutti_win_free(a->counts) : 0;
	err = err ? err : end;
	free(a);
	return err;
}
