/* SPDX-License-Identifier: BSD-3-Clause */
/* The literature's table of all-reduce algorithms, its figures counted in the plans of all ranks.
 */
#include <stdlib.h>

#include "lib/base/error.h"
#include "lib/plan/check.h"
#include "tools/sim/sim.h"
#include "tools/values.h"

/* Names as the literature has them, as far as they are implemented here. */
static const struct {
	const char *name, *algo;
} rows[] = {
	{"single-master", "single_master"},
	{"parameter server", "direct_rsag"},
	{"ring", "ring"},
	{"recursive doubling", "recursive_doubling"},
	{"halving-doubling", "halving_doubling"},
	{"double binary tree", "dbt"},
};

/* The most of any rank. */
static int count(const struct tt_alg *alg, const struct tt_plan_args *args,
		 struct tt_plan_cost *most)
{
	struct tt_plan_args a = *args;
	struct tt_plan_cost cost;
	struct tt_plan *plan;
	int err;

	*most = (struct tt_plan_cost){0};
	for (a.rank = 0; a.rank < a.nranks; a.rank++) {
		err = tt_plan_build(alg, &a, &plan);
		if (err)
			return cli_fail("%s of %d ranks: %s", alg->name, a.nranks,
					tt_fail_text(err));
		tt_plan_count(plan, &cost);
		tt_plan_free(plan);
		if (cost.bytes_sent > most->bytes_sent)
			most->bytes_sent = cost.bytes_sent;
		if (cost.steps > most->steps)
			most->steps = cost.steps;
		if (cost.fan_in > most->fan_in)
			most->fan_in = cost.fan_in;
	}
	return 0;
}

static void print_row(const char *name, uint64_t sent, size_t bytes, int steps, const char *fan_in)
{
	printf("  %-20s %14llu %8.3f %8d %8s\n", name, (unsigned long long)sent,
	       bytes ? (double)sent / (double)bytes : 0, steps, fan_in);
}

int sim_table(const struct options *opt)
{
	int n = opt->min_ranks, steps = 0, err;
	size_t bytes = opt->min_bytes - opt->min_bytes % ELEM, i;
	const struct tt_alg *alg;
	struct tt_plan_args args;
	struct tt_plan_cost most;
	char fan_in[16];

	printf("# all-reduce, %d ranks, %zu bytes: the most of any rank, counted in the plans;\n"
	       "# steps of the longest lane, chunks of at most %zu bytes in at most %d lanes\n",
	       n, bytes, opt->chunk, opt->lanes);
	printf("# %-20s %14s %8s %8s %8s\n", "algorithm", "bytes sent", "of size", "steps",
	       "fan-in");
	while ((1ll << steps) < n)
		steps++;
	print_row("ideal (bounds)", (uint64_t)(2.0 * (n - 1) / n * (double)bytes), bytes, steps,
		  "1");
	for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		alg = tt_alg_find(TT_COLL_ALLREDUCE, rows[i].algo);
		if (!alg)
			return cli_fail("there is no algorithm %s", rows[i].algo);
		err = sim_args(opt, alg, n, bytes, &args);
		if (err)
			return err;
		if (alg->can && !alg->can(&args)) {
			printf("  %-20s cannot do it\n", rows[i].name);
			continue;
		}
		err = count(alg, &args, &most);
		if (err)
			return err;
		snprintf(fan_in, sizeof(fan_in), "%d", most.fan_in);
		print_row(rows[i].name, most.bytes_sent, bytes, most.steps, fan_in);
	}
	return 0;
}
