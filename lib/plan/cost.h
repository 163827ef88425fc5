/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Estimates what a call costs on a modelled cluster, from closed forms. No plan is built, so the
 * chooser can ask for every algorithm. The cost functions (lib/coll/costs, one line in algs.def
 * each) give the rounds and messages of an algorithm; this file converts them to time.
 */
#ifndef TT_COST_H
#define TT_COST_H

#include "lib/plan/model.h"
#include "lib/plan/plan.h"

/* ns per byte of a vector that args' codec encodes, or decodes. */
static inline double tt_cost_encode(const struct tt_model *model, const struct tt_plan_args *args)
{
	return args->codec && args->codec->encode > 0 ? args->codec->encode : model->encode;
}

static inline double tt_cost_decode(const struct tt_model *model, const struct tt_plan_args *args)
{
	return args->codec && args->codec->decode > 0 ? args->codec->decode : model->decode;
}

/* How long ports and processors are busy with something. */
struct tt_busy {
	double in, out, cpu, host;
};

struct tt_cost {
	double time; /* ns, of the last rank */

	/* state of the cost functions */
	const struct tt_model *model;
	const struct tt_plan_args *args;
	struct tt_hop hop; /* of the slowest level there is */
	double hosts, filled;
	double places; /* of each host that do the same at once; 0: it is no plan across hosts */
	double slices, lanes, turns, last; /* last: lanes in the last turn */
	bool one_way;

	/* of a slice: from its beginning to its end; until its lane can do the next one */
	double path, serial;
	struct tt_busy busy;
	double peak, tail; /* longest busy time of a round; idle time of the last */
};

/*
 * args as tt_plan_build takes them, chunk and lanes included; v forms whose counts all ranks know
 * have the mean block in count, others nothing. Everything in it must be equal on all ranks.
 */
void tt_cost(const struct tt_alg *alg, const struct tt_plan_args *args,
	     const struct tt_model *model, struct tt_cost *cost);

#endif
