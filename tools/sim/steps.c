/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Expected times of training steps in which each rank is slow with some probability, by who waits
 * for whom. Each step of a rank computes, and takes longer if the rank is slow in it:
 *
 *	full	an all-reduce begins when the last rank has come
 *	quorum	a partial all-reduce begins when all but a few have come; a rank that comes later
 *		goes on at once, and its vector is taken by the round that is open then
 *	gossip	no rank waits; its port sends a vector in each step meanwhile
 *
 * Full and gossip are formulas, a quorum is played with random numbers: a rank that is late for a
 * round begins its next step late. Times of communication are simulated; of a quorum they are those
 * of the plan single_master, whose master is the decider.
 */
#include <math.h>
#include <stdlib.h>

#include "lib/base/hash.h"
#include "tools/cli.h"
#include "tools/sim/sim.h"
#include "tools/values.h"

#define ROUNDS_MOST 4000
#define ROUNDS_LEAST 50
#define DRAWS 4e6 /* of random numbers, about */

/* The rounds of a quorum. */
struct play {
	const struct steps *steps;
	int nranks;
	uint64_t seed, made; /* made: steps of all ranks */
	double comm;	     /* time of a round, in ms */
	double *comes;	     /* by rank: when it offers its next vector */
	double *sorted;	     /* the same */
	bool *late;	     /* by rank: it does not wait for the round */
};

static double any_slow(double q, int n)
{
	return -expm1(n * log1p(-q)); /* 1 - (1 - q)^n, also of a small q */
}

/* In [0, 1). */
static double draw(uint64_t *seed)
{
	return (double)(tt_random(seed) >> 11) * 0x1p-53;
}

static double larger(double a, double b)
{
	return a > b ? a : b;
}

static double compute(struct play *p)
{
	p->made++;
	return p->steps->compute + (draw(&p->seed) < p->steps->q ? p->steps->delay : 0);
}

static int by_time(const void *a, const void *b)
{
	const double *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

/* The round ends at `decided`: when each rank comes next. */
static void go_on(struct play *p, double decided)
{
	int i;

	for (i = 0; i < p->nranks; i++) {
		if (p->comes[i] > decided) {
			p->late[i] = true;
			continue;
		}
		if (p->late[i]) /* it has not waited */
			p->comes[i] += compute(p);
		p->late[i] = p->late[i] && p->comes[i] > decided;
		if (!p->late[i])
			p->comes[i] = decided + p->comm + compute(p);
	}
}

/* The mean time of a rank's step, in ms. */
static double play(struct play *p)
{
	double rounds = DRAWS / p->nranks, decided = 0;
	int quorum = p->nranks - p->steps->less, n, r, i;

	n = (int)(rounds < ROUNDS_LEAST	 ? ROUNDS_LEAST
		  : rounds > ROUNDS_MOST ? ROUNDS_MOST
					 : rounds);
	quorum = quorum < 1 ? 1 : quorum;
	for (i = 0; i < p->nranks; i++) {
		p->comes[i] = compute(p);
		p->late[i] = false;
	}
	for (r = 0; r < n; r++) {
		for (i = 0; i < p->nranks; i++)
			p->sorted[i] = p->comes[i];
		qsort(p->sorted, (size_t)p->nranks, sizeof(double), by_time);
		/* no round is decided before the last one has ended */
		decided = larger(p->sorted[quorum - 1], r ? decided + p->comm : 0);
		go_on(p, decided);
	}
	/* the steps that have begun last are not over */
	return (decided + p->comm) * p->nranks / (double)(p->made - (uint64_t)p->nranks);
}

static int quorum_time(const struct options *opt, int nranks, double comm, double *ms)
{
	struct play p = {
		.steps = &opt->steps, .nranks = nranks, .seed = opt->model.seed, .comm = comm};
	int err;

	p.comes = calloc((size_t)nranks, sizeof(double));
	p.sorted = calloc((size_t)nranks, sizeof(double));
	p.late = calloc((size_t)nranks, sizeof(bool));
	err = p.comes && p.sorted && p.late ? 0 : cli_fail("no memory for %d ranks", nranks);
	if (!err)
		*ms = play(&p);
	free(p.comes);
	free(p.sorted);
	free(p.late);
	return err;
}

static int one(const struct options *opt, int nranks)
{
	const struct steps *s = &opt->steps;
	double any = any_slow(s->q, nranks), all, star, quorum, own, port;
	int err = sim_fastest(opt, NULL, nranks, &all);

	if (!err)
		err = sim_fastest(opt, "single_master", nranks, &star);
	if (!err)
		err = quorum_time(opt, nranks, star / 1e6, &quorum);
	if (err)
		return err;
	own = s->compute + s->q * s->delay;
	port = nranks > 1 ? (double)opt->min_bytes * opt->model.link[TT_LEVEL_LEAF].beta / 1e6 : 0;
	printf("%8d  %12.6f  %12.4f  %12.4f  %12.4f\n", nranks, any,
	       s->compute + s->delay * any + all / 1e6, quorum, larger(own, port));
	return 0;
}

int sim_steps(const struct options *opt)
{
	const struct steps *s = &opt->steps;
	double n = opt->min_ranks;
	int err;

	printf("# steps of %g ms; a rank takes %g ms more with probability %g; %zu bytes\n",
	       s->compute, s->delay, s->q, opt->min_bytes);
	printf("# expected ms of a step; a quorum is all ranks but %d\n", s->less);
	printf("#%7s  %12s  %12s  %12s  %12s\n", "ranks", "P(any slow)", "full", "quorum",
	       "gossip");
	do {
		err = one(opt, (int)n);
		if (n >= opt->max_ranks)
			break;
		n = larger(n + 1, floor(n * opt->rank_factor));
		n = n > opt->max_ranks ? opt->max_ranks : n;
	} while (!err);
	return err;
}
