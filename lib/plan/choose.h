/* SPDX-License-Identifier: BSD-3-Clause */
/* Chooses algorithm, chunk and lanes from values that are equal on all ranks. */
#ifndef TT_CHOOSE_H
#define TT_CHOOSE_H

#include "lib/plan/model.h"
#include "lib/plan/plan.h"

struct tt_chooser; /* TUTTI_ALGO's rules, a model, measurements; made once per communicator */

/*
 * rules: TUTTI_ALGO, "coll:algorithm:LO-HI;..." with sizes like 64K and inf, "" for none. A wrong
 * name is -EINVAL with the nearest right one. chunk and lanes: TUTTI_CHUNK, TUTTI_LANES.
 */
int tt_chooser_new(const char *rules, size_t chunk, int lanes, const struct tt_model *model,
		   struct tt_chooser **chooser);
/*
 * Plans in two levels have a model of their own: the levels are NUMA nodes of one host
 * (tt_model_numa).
 */
void tt_chooser_levels(struct tt_chooser *chooser, const struct tt_model *levels);
void tt_chooser_free(struct tt_chooser *chooser);
/*
 * Sets args->chunk and args->lanes, returns the algorithm. Never fails. If args has both node and
 * hosts, removes the one that the algorithm does not use.
 */
const struct tt_alg *tt_choose(const struct tt_chooser *chooser, struct tt_plan_args *args);

/* The longest chunk, of whole elements, and the most lanes that it may choose. */
void tt_chooser_most(const struct tt_chooser *chooser, size_t elem, size_t *chunk, int *lanes);

/* A measured time: of a vector of float32, or blocks of it, on as many ranks as the chooser is for.
 */
#define TT_POINT_ELEM 4
struct tt_point {
	enum tt_coll coll;
	char algo[32];
	size_t bytes; /* of the vector, or of a block */
	int lanes;    /* at most, when it was measured: fewer than the model's were faster; 0: the
			 model's */
	double time;  /* ns */
	double ratio; /* measured over predicted; by tt_chooser_measured */
};
/* From now on predictions are corrected by these (copied). */
int tt_chooser_measured(struct tt_chooser *chooser, const struct tt_point *points, int n,
			int nranks);

/* A compared candidate. */
#define TT_CANDIDATES 32
struct tt_candidate {
	const struct tt_alg *alg;
	size_t chunk;
	int lanes;
	double time; /* ns, the compared value: predicted, corrected by measurements */
	double predicted, measured; /* measured: 0 if this size was not */
};
/* All that can do the call; returns how many, at least one. */
int tt_candidates(const struct tt_chooser *chooser, const struct tt_plan_args *args,
		  struct tt_candidate *list, int max);
/* Which of them is taken. */
int tt_pick(const struct tt_chooser *chooser, const struct tt_plan_args *args,
	    const struct tt_candidate *list, int n);

/* The one that tt_choose takes. false: no algorithm can do the call. */
bool tt_chosen(const struct tt_chooser *chooser, const struct tt_plan_args *args,
	       struct tt_candidate *taken);
/*
 * Which of n codecs makes the call shortest: its index, or -1 if the vector should travel as it is.
 * A later one must be shorter by more than the error of a comparison. time, of n + 1: that of the
 * plain call, and those with each codec; HUGE_VAL: none can do it. args->codec does not count.
 */
int tt_choose_codec(const struct tt_chooser *chooser, const struct tt_plan_args *args,
		    const struct tt_plan_codec *codecs, int n, double *time);

/* algo_rules.c: a rule of TUTTI_ALGO. */
struct tt_rule {
	const struct tt_alg *alg;
	size_t lo, hi; /* lo <= bytes < hi */
};
/* *rules is the caller's to free. */
int tt_rules_parse(const char *text, struct tt_rule **rules, int *nrules);

#endif
