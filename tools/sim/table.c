/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The literature's table of all-reduce algorithms. Bytes and fan-in are counted in the plans of all
 * ranks. Steps are those of one slice: the rounds of the busiest rank. In a tree no rank takes part
 * in every step, so there the simulator counts consecutive messages. Rows without a plan show their
 * formula.
 */

#include "lib/base/error.h"
#include "lib/verify/check.h"
#include "tools/sim/sim.h"
#include "tools/values.h"

#define DEFAULT_BYTES 65536 /* at least, if -b is missing */
#define PIPELINE 8	    /* slices of a pipelined algorithm */

/* Names as the literature has them, and the algorithms that are implemented here. */
static const struct {
	const char *name, *algo;
	int lanes, slices;
	bool tree;
} rows[] = {
	{"single master", "single_master", 1, 1, true},
	{"P servers, one a rank", "direct_rsag", 1, 1, false},
	{"ring", "ring", 1, 1, false},
	{"recursive doubling", "recursive_doubling", 1, 1, false},
	{"halving-doubling", "halving_doubling", 1, 1, false},
	{"double binary tree", "dbt", 2, PIPELINE, true},
};

/* Counts of the busiest machine; total: sent by all machines together. */
struct row {
	uint64_t sent, inbound, total;
	int steps, fan_in;
};

static void add_rank(struct row *row, const struct tt_plan_cost *cost)
{
	row->total += cost->bytes_sent;
	if (cost->bytes_sent > row->sent)
		row->sent = cost->bytes_sent;
	if (cost->bytes_received > row->inbound)
		row->inbound = cost->bytes_received;
	if (cost->steps > row->steps)
		row->steps = cost->steps;
	if (cost->fan_in > row->fan_in)
		row->fan_in = cost->fan_in;
}

static int count(const struct tt_alg *alg, const struct tt_plan_args *args, struct row *row)
{
	struct tt_plan_args a = *args;
	struct tt_plan_cost cost;
	struct tt_plan *plan;
	int err;

	for (a.rank = 0; a.rank < a.nranks; a.rank++) {
		err = tt_plan_build(alg, &a, &plan);
		if (err)
			return cli_fail("%s of %d ranks: %s", alg->name, a.nranks,
					tt_fail_text(err));
		tt_plan_count(plan, &cost);
		tt_plan_free(plan);
		add_rank(row, &cost);
	}
	return 0;
}

/* The time of a message is 1, whatever its length. */
static int follow(const struct tt_alg *alg, const struct tt_plan_args *args, int *steps)
{
	struct tt_sim_result r;
	struct tt_model unit;
	int err;

	tt_model_default(&unit);
	unit.link[TT_LEVEL_LEAF] = (struct tt_hop){1, 0};
	unit.gamma = unit.copy = unit.overhead = unit.encode = unit.decode = 0;
	unit.eager = SIZE_MAX;
	err = tt_sim(alg, args, &unit, &r);
	if (err)
		return cli_fail("%s of %d ranks: %s", alg->name, args->nranks, tt_fail_text(err));
	*steps = (int)r.last;
	return 0;
}

/* Counts of one slice, in which every rank has one element. */
static int count_steps(const struct tt_alg *alg, const struct tt_plan_args *args, bool tree,
		       struct row *row)
{
	struct tt_plan_args a = *args;
	struct row one = {0};
	int err;

	a.count = (size_t)a.nranks;
	a.chunk = a.count * ELEM;
	err = tree ? follow(alg, &a, &one.steps) : count(alg, &a, &one);
	row->steps = one.steps;
	return err;
}

static void print_row(const struct options *opt, const char *name, const char *algo, size_t bytes,
		      const struct row *r)
{
	uint64_t most = r->sent > r->inbound ? r->sent : r->inbound;

	printf("  %-22s %-18s %14llu %8.3f %14llu %16llu %6d %7d %14.2f\n", name, algo,
	       (unsigned long long)r->sent, bytes ? (double)r->sent / (double)bytes : 0,
	       (unsigned long long)r->inbound, (unsigned long long)r->total, r->steps, r->fan_in,
	       (double)most * opt->model.link[TT_LEVEL_LEAF].beta / 1e3);
}

/* No algorithm has fewer bytes, or fewer steps with a fan-in of 1. */
static void print_bounds(const struct options *opt, int n, size_t bytes)
{
	uint64_t least = (uint64_t)(2.0 * (n - 1) / n * (double)bytes);
	struct row r = {least, least, 2 * (uint64_t)(n - 1) * bytes, 0, n > 1};

	while (1ll << r.steps < n)
		r.steps++;
	print_row(opt, "bounds", "-", bytes, &r);
}

/* Every rank sends its vector to all others, which add up for themselves. */
static void print_naive(const struct options *opt, int n, size_t bytes)
{
	uint64_t each = (uint64_t)(n - 1) * bytes;
	struct row r = {each, each, each * (uint64_t)n, n > 1, n - 1};

	print_row(opt, "naive", "-", bytes, &r);
}

/* n workers push to k machines that only serve, and pull: max(N, nN/k) each way. */
static void print_servers(const struct options *opt, int n, size_t bytes, int k)
{
	size_t part = tt_num_pieces(bytes / ELEM, 1, (size_t)k);
	uint64_t served = (uint64_t)n * part * ELEM, busiest = served > bytes ? served : bytes;
	struct row r = {busiest, busiest, 2 * (uint64_t)n * bytes, 2, n};
	char name[32];

	snprintf(name, sizeof(name), "%d dedicated server%s", k, k > 1 ? "s" : "");
	print_row(opt, name, "-", bytes, &r);
}

static int print_alg(const struct options *opt, int i, int n, size_t bytes)
{
	const struct tt_alg *alg = tt_alg_find(TT_COLL_ALLREDUCE, rows[i].algo);
	size_t slice = bytes / (size_t)(rows[i].lanes * rows[i].slices);
	struct tt_plan_args args = {.coll = TT_COLL_ALLREDUCE,
				    .nranks = n,
				    .elem = ELEM,
				    .count = bytes / ELEM,
				    .chunk = slice < ELEM ? ELEM : slice - slice % ELEM,
				    .lanes = rows[i].lanes};
	struct row row = {0};

	if (!alg)
		return cli_fail("there is no algorithm %s", rows[i].algo);
	if (!tt_alg_can(alg, &args)) {
		printf("  %-22s %-18s cannot do it\n", rows[i].name, rows[i].algo);
		return 0;
	}
	if (count(alg, &args, &row) || count_steps(alg, &args, rows[i].tree, &row))
		return -1;
	print_row(opt, rows[i].name, rows[i].algo, bytes, &row);
	return 0;
}

/* Ranks, the power of two below, where others are folded, and four servers divide it. */
static size_t default_bytes(int n)
{
	size_t pow2 = (size_t)tt_fold_pow2(n), odd = (size_t)n, unit;

	pow2 = pow2 < 4 ? 4 : pow2;
	while (odd % 2 == 0)
		odd /= 2;
	unit = odd * pow2 * ELEM;
	return tt_num_pieces(DEFAULT_BYTES, 1, unit) * unit;
}

int sim_table(const struct options *opt)
{
	int n = opt->min_ranks, i, err = 0;
	size_t bytes = opt->min_bytes - opt->min_bytes % ELEM;

	if (!opt->sized)
		bytes = default_bytes(n);
	printf("# all-reduce, %d ranks, %zu bytes: what the busiest machine sends and receives, "
	       "and all together send\n"
	       "# steps: of one slice; port: the busiest machine's bytes one way at %g GB/s\n",
	       n, bytes, 1 / opt->model.link[TT_LEVEL_LEAF].beta);
	printf("# %-22s %-18s %14s %8s %14s %16s %6s %7s %14s\n", "name", "algorithm", "sent (B)",
	       "of size", "inbound (B)", "total (B)", "steps", "fan-in", "port (us)");
	print_bounds(opt, n, bytes);
	print_naive(opt, n, bytes);
	for (i = 0; i < opt->nservers; i++)
		print_servers(opt, n, bytes, (int)opt->servers[i]);
	for (i = 0; !err && i < (int)(sizeof(rows) / sizeof(rows[0])); i++)
		err = print_alg(opt, i, n, bytes);
	return err;
}
