/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Chooses algorithm, chunk and lanes: the cheapest by the cost functions, unless the user's rules
 * decide.
 *
 * The choice depends only on values that are equal on all ranks (collective, size, number of ranks,
 * settings agreed when the communicator was made), so all ranks choose the same.
 */
#include "lib/plan/choose.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/env.h"
#include "lib/base/error.h"
#include "lib/plan/cost.h"

#define PIECE_MIN (32 << 10) /* more lanes, or shorter pieces, cost more than models know */
/*
 * Blocks whose lengths only two ranks know are taken for this long, a little too long for a message
 * that takes its payload along.
 */
#define OWN_COUNTS_BLOCK (TT_EAGER_DEFAULT + 1)
#define WORTH 0.99	/* of the time so far: less is not worth another choice */
#define CODEC_WORTH 0.9 /* nor are inexact results, by a model that may err that far */

struct tt_chooser {
	size_t chunk;
	int lanes, nrules, npoints;
	struct tt_rule *rules;
	struct tt_point *points;
	struct tt_model model, levels; /* levels: of algorithms in two levels */
};

int tt_chooser_new(const char *rules, size_t chunk, int lanes, const struct tt_model *model,
		   struct tt_chooser **chooser)
{
	struct tt_chooser *c = calloc(1, sizeof(*c));
	int err;

	if (!c)
		return tt_fail(-ENOMEM, "no memory for the choice of algorithms");
	c->chunk = chunk;
	c->lanes = lanes < 1 ? 1 : lanes;
	c->model = c->levels = *model;
	err = tt_rules_parse(rules ? rules : "", &c->rules, &c->nrules);
	if (err) {
		free(c);
		return err;
	}
	*chooser = c;
	return 0;
}

void tt_chooser_levels(struct tt_chooser *chooser, const struct tt_model *levels)
{
	chooser->levels = *levels;
}

void tt_chooser_free(struct tt_chooser *chooser)
{
	if (!chooser)
		return;
	free(chooser->rules);
	free(chooser->points);
	free(chooser);
}

void tt_chooser_most(const struct tt_chooser *chooser, size_t elem, size_t *chunk, int *lanes)
{
	*chunk = chooser->chunk < elem ? elem : chooser->chunk - chooser->chunk % elem;
	*lanes = chooser->lanes;
}

static size_t div_up(size_t a, size_t b)
{
	return a / b + (a % b > 0);
}

/* The vector's or a block's elements; a mean block's where they differ. */
static size_t count_of(const struct tt_plan_args *a)
{
	size_t count = 0;
	int i;

	if (tt_coll_own_counts(a->coll))
		return 0;
	if (a->coll != TT_COLL_REDUCE_SCATTER && a->coll != TT_COLL_ALLGATHERV)
		return a->count;
	for (i = 0; i < a->nranks; i++)
		count += a->rcounts[i];
	return div_up(count, (size_t)a->nranks);
}

/* The call as the cost functions want it: one count, the same on all ranks. */
static struct tt_plan_args uniform(const struct tt_chooser *c, const struct tt_plan_args *args)
{
	struct tt_plan_args a = *args;

	a.elem = a.elem ? a.elem : 1;
	a.count = tt_coll_own_counts(a.coll) ? div_up(OWN_COUNTS_BLOCK, a.elem) : count_of(args);
	a.rank = 0;
	a.scounts = a.sdispls = a.rcounts = a.rdispls = NULL;
	a.in_place = a.feedback = false; /* each rank's own business */
	a.chunk = c->chunk - c->chunk % a.elem;
	a.chunk = a.chunk < a.elem ? a.elem : a.chunk;
	a.lanes = 1;
	return a;
}

/* One, two, four ... and the most. */
static int next_lanes(int lanes, int most)
{
	return lanes < most && 2 * lanes > most ? most : 2 * lanes;
}

/* By their names: lib/coll/algs.def. */
static bool in_levels(const struct tt_alg *alg)
{
	return !strncmp(alg->name, "hier", 4);
}

/*
 * How to cut: chunks of all, a half, a quarter ... of the longest, and one, two, four ... lanes,
 * up to the most. Nothing shorter than PIECE_MIN is cut further.
 */
static void best_pieces(const struct tt_chooser *c, struct tt_candidate *best,
			const struct tt_plan_args *args, int most)
{
	/* some algorithms cut the blocks of all ranks together */
	size_t bytes = args->count * args->elem * (size_t)args->nranks;
	const struct tt_model *model = in_levels(best->alg) ? &c->levels : &c->model;
	struct tt_plan_args a = *args;
	struct tt_cost cost;

	best->time = -1;
	for (;; a.chunk = (a.chunk / 2) - (a.chunk / 2) % a.elem) {
		for (a.lanes = 1; a.lanes <= most; a.lanes = next_lanes(a.lanes, most)) {
			tt_cost(best->alg, &a, model, &cost);
			if (best->time >= 0 && cost.time >= WORTH * best->time)
				continue;
			best->chunk = a.chunk;
			best->lanes = a.lanes;
			best->time = best->predicted = cost.time;
		}
		if (bytes <= PIECE_MIN || a.chunk < 2 * PIECE_MIN || a.chunk < 2 * a.elem)
			return;
	}
}

/* ---- measurements ---- */

static bool is_of(const struct tt_point *p, const struct tt_alg *alg)
{
	return p->coll == alg->coll && !strcmp(p->algo, alg->name);
}

/* The measured sizes below and above bytes, or the same size twice; NULL: none. */
struct near {
	const struct tt_point *below, *above;
};

static struct near around(const struct tt_chooser *c, const struct tt_alg *alg, size_t bytes)
{
	const struct tt_point *p;
	struct near n = {0};

	for (p = c->points; p < c->points + c->npoints; p++) {
		if (!is_of(p, alg))
			continue;
		if (p->bytes <= bytes && (!n.below || p->bytes > n.below->bytes))
			n.below = p;
		if (p->bytes >= bytes && (!n.above || p->bytes < n.above->bytes))
			n.above = p;
	}
	return n;
}

/* The number of lanes that was best there; the maximum if the model decides. */
static int lanes_at(const struct tt_chooser *c, const struct tt_point *p)
{
	return p && p->lanes && p->lanes < c->lanes ? p->lanes : c->lanes;
}

static const struct tt_point *nearest(const struct near *n, size_t bytes)
{
	if (!n->below || (n->above && n->above->bytes - bytes < bytes - n->below->bytes))
		return n->above;
	return n->below;
}

/*
 * Measured over predicted time at a size: interpolated between the measured sizes (roughly by
 * logarithm), constant beyond the last. A curve is then as continuous as the model's, so a switch
 * between algorithms makes no step.
 */
static double correction(const struct near *n, size_t bytes)
{
	double low, at;

	if (!n->below || !n->above)
		return n->below ? n->below->ratio : n->above ? n->above->ratio : 1;
	if (n->below->bytes == n->above->bytes)
		return n->below->ratio;
	low = (double)n->below->bytes;
	at = ((double)bytes - low) / ((double)n->above->bytes - low);
	at = 2 * at / (1 + at); /* half way to twice the size, rather than to the middle */
	return n->below->ratio + at * (n->above->ratio - n->below->ratio);
}

static void judge(const struct tt_chooser *c, struct tt_candidate *cand,
		  const struct tt_plan_args *a)
{
	size_t bytes = a->count * a->elem;
	struct near near = around(c, cand->alg, bytes);

	best_pieces(c, cand, a, lanes_at(c, nearest(&near, bytes)));
	cand->time = cand->predicted * correction(&near, bytes);
	cand->measured = near.below && near.below->bytes == bytes ? near.below->time : 0;
}

int tt_chooser_measured(struct tt_chooser *c, const struct tt_point *points, int n, int nranks)
{
	struct tt_candidate cand;
	struct tt_plan_args a;
	struct tt_point *p;
	int i;

	p = calloc((size_t)n + 1, sizeof(*p));
	if (!p)
		return tt_fail(-ENOMEM, "no memory for %d measured times", n);
	for (i = 0; i < n; i++) {
		p[i] = points[i];
		p[i].ratio = 1;
		cand.alg = tt_alg_find(p[i].coll, p[i].algo);
		a = (struct tt_plan_args){.coll = p[i].coll,
					  .nranks = nranks,
					  .count = p[i].bytes / TT_POINT_ELEM,
					  .elem = TT_POINT_ELEM};
		if (!cand.alg || nranks < 2) /* costs are those of messages */
			continue;
		a = uniform(c, &a);
		best_pieces(c, &cand, &a, lanes_at(c, &p[i]));
		if (cand.predicted > 0 && p[i].time > 0)
			p[i].ratio = p[i].time / cand.predicted;
	}
	free(c->points);
	c->points = p;
	c->npoints = n;
	return 0;
}

/* ---- the choice ---- */

static const struct tt_rule *ruled(const struct tt_chooser *c, const struct tt_plan_args *args)
{
	size_t bytes = count_of(args) * args->elem;
	const struct tt_rule *rule;

	if (args->nranks == 1)
		return NULL; /* "single", as nothing is cheaper */
	for (rule = c->rules; rule < c->rules + c->nrules; rule++)
		if (rule->alg->coll == args->coll && rule->lo <= bytes &&
		    (bytes < rule->hi || rule->hi == SIZE_MAX) && tt_alg_can(rule->alg, args))
			return rule;
	return NULL;
}

/* ---- lists ---- */

static double list_time(const struct tt_chooser *c, const struct tt_plan_args *args,
			enum tt_branch way, size_t list)
{
	static const char *const name[TT_BRANCHES] = {"codec_gather", "codec_merge", "codec_dense"};
	const struct tt_alg *alg = tt_alg_find(TT_COLL_ALLREDUCE, name[way]);
	struct tt_plan_args a = *args;
	struct tt_cost cost;

	a.list = list;
	tt_cost(alg, &a, &c->model, &cost);
	return cost.time;
}

/* Whether a way is the shortest, of itself and those that follow it. */
static bool is_shortest(const struct tt_chooser *c, const struct tt_plan_args *a,
			enum tt_branch way, size_t list)
{
	double time = list_time(c, a, way, list);
	int other;

	for (other = (int)way + 1; other < TT_BRANCHES; other++)
		if (list_time(c, a, (enum tt_branch)other, list) < time)
			return false;
	return true;
}

/*
 * Sets the lengths up to which lists are gathered, and added up as lists, by the costs of the
 * algorithms that do only that.
 */
static void set_ways(const struct tt_chooser *c, const struct tt_plan_args *uniform_args,
		     struct tt_plan_args *args)
{
	size_t low, high, middle;
	enum tt_branch way;

	for (way = TT_BRANCH_GATHER; way < TT_BRANCH_DENSE; way++) {
		low = 0; /* bytes: it is the shortest; high: it is not */
		high = tt_usual_list(uniform_args) + 1;
		while (high - low > 1) {
			middle = low + (high - low) / 2;
			if (is_shortest(c, uniform_args, way, middle))
				low = middle;
			else
				high = middle;
		}
		args->upto[way] = low;
	}
}

static bool has_ways(const struct tt_plan_args *args)
{
	const struct tt_alg *alg = tt_alg_find(TT_COLL_ALLREDUCE, "codec_lists");

	return args->coll == TT_COLL_ALLREDUCE && args->codec && args->count &&
	       tt_alg_can(alg, args);
}

int tt_candidates(const struct tt_chooser *c, const struct tt_plan_args *args,
		  struct tt_candidate *list, int max)
{
	struct tt_plan_args a = uniform(c, args);
	const struct tt_alg *alg;
	int n = 0;

	if (has_ways(args))
		set_ways(c, &a, &a);
	for (alg = tt_algs; alg->name && n < max; alg++) {
		if (alg->coll != args->coll || !tt_alg_can(alg, args))
			continue;
		list[n].alg = alg;
		judge(c, &list[n++], &a);
	}
	return n;
}

int tt_pick(const struct tt_chooser *c, const struct tt_plan_args *args,
	    const struct tt_candidate *list, int n)
{
	const struct tt_rule *rule = ruled(c, args);
	int i, best = 0;

	for (i = 0; rule && i < n; i++)
		if (list[i].alg == rule->alg)
			return i;
	for (i = 0; i < n; i++) /* the costs of others are those of the longest lists */
		if (tt_alg_measures(list[i].alg))
			return i;
	for (i = 1; i < n; i++)
		if (list[i].time < WORTH * list[best].time)
			best = i;
	return best;
}

bool tt_chosen(const struct tt_chooser *c, const struct tt_plan_args *args,
	       struct tt_candidate *taken)
{
	struct tt_candidate list[TT_CANDIDATES];
	int n = tt_candidates(c, args, list, TT_CANDIDATES);

	if (n)
		*taken = list[tt_pick(c, args, list, n)];
	return n > 0;
}

int tt_choose_codec(const struct tt_chooser *c, const struct tt_plan_args *args,
		    const struct tt_plan_codec *codecs, int n, double *time)
{
	struct tt_plan_args a = *args;
	struct tt_candidate taken;
	int i, best = 0;

	for (i = 0; i <= n; i++) {
		a.codec = i ? &codecs[i - 1] : NULL;
		time[i] = tt_chosen(c, &a, &taken) ? taken.time : HUGE_VAL;
		if (time[i] < (best ? WORTH : CODEC_WORTH) * time[best])
			best = i;
	}
	return best - 1;
}

const struct tt_alg *tt_choose(const struct tt_chooser *chooser, struct tt_plan_args *args)
{
	struct tt_candidate list[TT_CANDIDATES];
	int n = tt_candidates(chooser, args, list, TT_CANDIDATES);
	const struct tt_candidate *best = &list[tt_pick(chooser, args, list, n)];

	args->chunk = best->chunk;
	args->lanes = best->lanes;
	if (tt_alg_measures(best->alg) && args->count) {
		struct tt_plan_args a = uniform(chooser, args);

		set_ways(chooser, &a, args);
	}
	if (args->node && in_levels(best->alg))
		args->node = false;
	else if (args->node)
		args->hosts = NULL;
	if (tt_coll_own_counts(args->coll)) { /* cut as if they were long */
		args->chunk = uniform(chooser, args).chunk;
		args->lanes = chooser->lanes;
	}
	return best->alg;
}
