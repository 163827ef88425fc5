/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A3C (Mnih et al., 2016): each rank acts with weights that it has just pulled, and pushes the
 * gradient of its steps to the parameter server, whose rule is Adam. No rank waits for another; how
 * many updates came between a pull and the push made from it is the staleness tau, which is
 * reported.
 *
 * Only rank 0 serves, so the others learn on when one of them dies. A window of rank 0 counts the
 * steps of all ranks, and the ranks that have reached the goal.
 */
#include "examples/rl/rl.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

enum { STEPS, REACHED, COUNTS };

struct result {
	double mean, tau;
};

struct a3c {
	const struct options *o;
	struct tutti_comm *world;
	struct tutti_ps *ps;
	struct tutti_ps_table *weights;
	struct tutti_win *counts;
	struct ask *ask; /* for the results, from ranks that live in the end; NULL: one rank */
	struct cartpole pole;
	struct learner l; /* l.w: as pulled */
};

static int open_all(struct a3c *a)
{
	struct tutti_ps_config config = {.size = sizeof(config),
					 .role = tutti_comm_rank(a->world) ? TUTTI_PS_WORKER
									   : TUTTI_PS_BOTH,
					 .staleness = TUTTI_PS_ASYNC};
	struct tutti_ps_options opt = {
		.size = sizeof(opt), .rule = TUTTI_PS_ADAM, .rate = a->o->rate};
	size_t size = tutti_comm_rank(a->world) ? 0 : COUNTS * sizeof(uint64_t);
	void *base;
	int err = tutti_win_allocate(a->world, size, 0, &base, &a->counts);

	if (!err && tutti_comm_size(a->world) > 1)
		err = ask_create(a->world, sizeof(struct result), sizeof(double), &a->ask);
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
		a->l.updates++;
		if (!tutti_comm_rank(a->world))
			learner_follow(&a->l);
		if (!err)
			err = count(a, STEPS, UNROLL, &steps);
		if (!err)
			err = count(a, REACHED, learner_mean(&a->l) >= a->o->goal, &reached);
		reached |= learner_mean(&a->l) >= a->o->goal;
	}
	return err;
}

static double larger(double a, double b)
{
	return a > b ? a : b;
}

/* Rank 0: the results of all ranks that live until then. */
static int gather(struct a3c *a, struct result *all)
{
	int *from = calloc((size_t)tutti_comm_size(a->world), sizeof(*from));
	int err = from ? 0 : -ENOMEM, n, i;

	while (!err && ask_clients(a->ask)) {
		err = ask_gather(a->ask, from, &n);
		for (i = 0; i < n && !err; i++) {
			const struct result *r = ask_of(a->ask, from[i]);

			all->mean = larger(all->mean, r->mean);
			all->tau = larger(all->tau, r->tau);
			err = ask_reply(a->ask, from[i], true);
		}
	}
	free(from);
	return only_death(err) ? 0 : err;
}

/* The best rank's mean: each has its own last episodes. */
static int tell(struct a3c *a)
{
	struct tutti_ps_read read = {.size = sizeof(read)};
	struct result all = {.mean = learner_mean(&a->l)};
	int err = tutti_ps_last_read(a->weights, &read);
	const void *answer;
	uint64_t steps;

	all.tau = read.tau;
	if (!err && tutti_comm_rank(a->world)) {
		*(struct result *)ask_request(a->ask) = all;
		return ask_send(a->ask, &answer);
	}
	if (!err && a->ask)
		err = gather(a, &all);
	if (!err)
		err = count(a, STEPS, 0, &steps);
	if (err)
		return err;
	printf("staleness tau: %.2f updates on average, of the rank with the largest\n", all.tau);
	printf("mean return %.1f of %d episodes after %llu steps of all ranks\n", all.mean,
	       EPISODES, (unsigned long long)steps);
	return all.mean >= a->o->goal ? 0 : 1;
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
	err = err || only_death(end) ? err : end;
	end = a->counts ? tutti_win_free(a->counts) : 0;
	err = err || only_death(end) ? err : end;
	end = ask_free(a->ask);
	err = err ? err : end;
	free(a);
	return err;
}
