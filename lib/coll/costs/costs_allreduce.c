/* SPDX-License-Identifier: BSD-3-Clause */
/* Costs of the all-reduce algorithms. */
#include "lib/coll/costs/costs.h"

#define SCRATCH_MAX (8u << 20) /* as the algorithms that fan in have it */
#define SLICE_CHUNKS 16

void tt_cost_ring(struct tt_cost *c, const struct tt_plan_args *a)
{
	double steps = a->nranks - 1,
	       len = tt_cost_cut(c, a, tt_cost_part(a, (size_t)a->nranks), a->chunk);

	tt_cost_parts(c, (size_t)a->nranks);
	tt_cost_pass(c, a, steps, len, true);
	tt_cost_pass(c, a, steps, len, false);
}

static size_t fan_in_chunk(const struct tt_plan_args *a, int n)
{
	size_t most = SCRATCH_MAX / (size_t)n;

	return most < a->chunk ? most : a->chunk;
}

void tt_cost_single_master(struct tt_cost *c, const struct tt_plan_args *a)
{
	double others = a->nranks - 1,
	       len = tt_cost_cut(c, a, tt_cost_bytes(a), fan_in_chunk(a, a->nranks - 1));

	tt_cost_rounds(c, (struct tt_rounds){
				  .n = 1, .len = len, .in = others, .all = others, .to = TT_ROOT});
	tt_cost_work(c, others * len, true, 1);
	tt_cost_rounds(c, (struct tt_rounds){
				  .n = 1, .len = len, .out = others, .all = others, .to = TT_ROOT});
}

void tt_cost_ps(struct tt_cost *c, const struct tt_plan_args *a)
{
	double n = a->nranks, block = tt_cost_part(a, (size_t)a->nranks),
	       len = tt_cost_cut(c, a, block, fan_in_chunk(a, a->nranks));
	struct tt_rounds all_to_all = {
		.n = 1, .len = len, .out = n - 1, .in = n - 1, .all = n * (n - 1)};

	tt_cost_parts(c, (size_t)a->nranks);
	tt_cost_rounds(c, all_to_all);
	tt_cost_work(c, (n - 1) * len, true, n);
	tt_cost_rounds(c, all_to_all);
}

void tt_cost_codec_direct(struct tt_cost *c, const struct tt_plan_args *a)
{
	size_t n = (size_t)a->nranks, units = tt_codec_units(a), longest, slices, len;
	double others = (double)n - 1, blocks = (double)(units < n ? units : n);
	struct tt_rounds all_to_all = {.n = 1, .out = others, .in = others, .all = blocks * others};

	longest = tt_num_pieces(units, 1, n);
	slices = tt_num_pieces(longest, 1, tt_codec_slice_units(a));
	tt_cost_slices(c, slices, a->lanes);
	if (!slices)
		return;
	len = tt_num_pieces(longest, 1, slices) * a->codec->align * a->elem;
	len = len < a->count * a->elem ? len : a->count * a->elem;
	all_to_all.len = (double)tt_coded(a, len);
	tt_cost_code(c, others * (double)len, 0, (double)n);
	if (n > 1)
		tt_cost_rounds(c, all_to_all);
	tt_cost_code(c, (double)len, others * (double)len, (double)n);
	if (n > 1)
		tt_cost_rounds(c, all_to_all);
	tt_cost_code(c, 0, (double)n * (double)len, (double)n);
}

/* Messages of this length from each rank to each other one. */
static void to_all(struct tt_cost *c, const struct tt_plan_args *a, double len)
{
	double n = a->nranks;

	if (n > 1)
		tt_cost_rounds(
			c,
			(struct tt_rounds){
				.n = 1, .len = len, .out = n - 1, .in = n - 1, .all = n * (n - 1)});
}

void tt_cost_codec_gather(struct tt_cost *c, const struct tt_plan_args *a)
{
	double n = a->nranks, len = tt_cost_bytes(a), head = sizeof(struct tt_coded_head);
	double list = (double)tt_usual_list(a);

	tt_cost_code(c, len, 0, n);
	if (len > 0) {
		to_all(c, a, head);
		to_all(c, a, list);
	}
	tt_cost_code(c, 0, len + (n - 1) * (list + head), n);
}

void tt_cost_codec_merge(struct tt_cost *c, const struct tt_plan_args *a)
{
	int core = tt_fold_pow2(a->nranks), bit;
	double n = a->nranks, len = tt_cost_bytes(a), head = sizeof(struct tt_coded_head);
	size_t ranks = a->nranks > core ? 2 : 1;

	tt_cost_code(c, len, 0, n);
	if (a->count) {
		tt_cost_pairs(c, a->nranks - core, head, false);
		tt_cost_pairs(c, a->nranks - core, (double)tt_usual_sum(a, 1), false);
		if (ranks > 1)
			tt_cost_code(c, 0, (double)tt_usual_sum(a, ranks), core);
	}
	for (bit = 1; a->count && bit < core; bit *= 2) {
		tt_cost_meet(c, a, TT_BIT, bit, head, false);
		tt_cost_meet(c, a, TT_BIT, bit, (double)tt_usual_sum(a, ranks), false);
		ranks *= 2;
		tt_cost_code(c, 0, (double)tt_usual_sum(a, ranks), core);
	}
	if (a->count && a->nranks > core) {
		tt_cost_unfold(c, a->nranks - core, head);
		tt_cost_unfold(c, a->nranks - core, (double)tt_usual_sum(a, (size_t)a->nranks));
	}
	tt_cost_code(c, 0, len, n);
}

void tt_cost_codec_dense(struct tt_cost *c, const struct tt_plan_args *a)
{
	struct tt_plan_args plain = *a;
	double len;

	if (!a->count)
		return;
	plain.lanes = 1;
	tt_cost_halving_doubling(c, &plain);
	len = tt_cost_bytes(a) / tt_cost_num_slices(c);
	tt_cost_code(c, len, len, a->nranks);
}

void tt_cost_codec_lists(struct tt_cost *c, const struct tt_plan_args *a)
{
	enum tt_branch way = tt_list_branch(a, (uint64_t)tt_usual_list(a) * (uint64_t)a->nranks);

	if (way != TT_BRANCH_GATHER && a->count)
		to_all(c, a, sizeof(struct tt_coded_head));
	if (way == TT_BRANCH_GATHER)
		tt_cost_codec_gather(c, a);
	else if (way == TT_BRANCH_MERGE)
		tt_cost_codec_merge(c, a);
	else
		tt_cost_codec_dense(c, a);
}

void tt_cost_recursive_doubling(struct tt_cost *c, const struct tt_plan_args *a)
{
	int core = tt_fold_pow2(a->nranks), bit;
	double len = tt_cost_cut(c, a, tt_cost_bytes(a), a->chunk);

	tt_cost_pairs(c, a->nranks - core, len, true);
	for (bit = 1; bit < core; bit *= 2)
		tt_cost_meet(c, a, TT_BIT, bit, len, true);
	tt_cost_unfold(c, a->nranks - core, len);
}

/* A slice for every lane, at most SLICE_CHUNKS chunks long. */
static double cut_by_halves(struct tt_cost *c, const struct tt_plan_args *a, int core)
{
	size_t chunks = core < SLICE_CHUNKS ? (size_t)core : SLICE_CHUNKS;
	size_t slices = tt_num_pieces(a->count * a->elem, a->elem, a->chunk * chunks);

	if (slices < (size_t)a->lanes)
		slices = a->count < (size_t)a->lanes ? a->count : (size_t)a->lanes;
	tt_cost_slices(c, slices, a->lanes);
	return slices ? tt_cost_bytes(a) / (double)slices : 0;
}

void tt_cost_halving_doubling(struct tt_cost *c, const struct tt_plan_args *a)
{
	int core = tt_fold_pow2(a->nranks), parts;
	double len = cut_by_halves(c, a, core);

	tt_cost_pairs(c, a->nranks - core, len, true);
	tt_cost_parts(c, (size_t)core);
	for (parts = core / 2; parts; parts /= 2)
		tt_cost_meet(c, a, TT_BIT, core / (2 * parts), len * parts / core, true);
	for (parts = 1; parts < core; parts *= 2)
		tt_cost_meet(c, a, TT_BIT, core / (2 * parts), len * parts / core, false);
	tt_cost_unfold(c, a->nranks - core, len);
}

void tt_cost_radix(struct tt_cost *c, const struct tt_plan_args *a)
{
	int core = tt_radix_core(a->nranks), left, k;
	double len = tt_cost_cut(c, a, tt_cost_bytes(a), a->chunk);

	tt_cost_pairs(c, a->nranks - core, len, true);
	for (left = core; left > 1; left /= k) {
		k = tt_radix_factor(left);
		tt_cost_rounds(c, (struct tt_rounds){.n = 1,
						     .len = len,
						     .out = k - 1,
						     .in = k - 1,
						     .all = (double)core * (k - 1)});
		tt_cost_work(c, (k - 1) * len, true, core);
	}
	tt_cost_unfold(c, a->nranks - core, len);
}

/*
 * A lane's slice is two rounds, in which its rank has four messages each way in two trees, two on
 * average in one. The first slice goes up and comes down, through both children at each level.
 */
void tt_cost_dbt(struct tt_cost *c, const struct tt_plan_args *a)
{
	size_t slices = tt_num_pieces((size_t)tt_cost_part(a, 2), a->elem, a->chunk);
	double n = a->nranks, len = slices ? tt_cost_bytes(a) / (2 * (double)slices) : 0;
	struct tt_cost_flow up = {.hops = tt_log2_up(a->nranks),
				  .len = len,
				  .out = (n - 1) / n,
				  .in = (n - 1) / n,
				  .all = n - 1,
				  .to = TT_TREE,
				  .dist = 1,
				  .waits = n > 2 ? 2 : 1,
				  .reduces = true},
			    down = up;

	tt_cost_slices(c, 2 * slices, a->lanes);
	if (tt_cost_turns(c) > 1) /* three rounds a level, up and down together */
		up.hops *= 1.5;
	down.hops = up.hops;
	if (a->lanes == 1 &&
	    n > 2) /* one tree after the other: inner ranks always have two children */
		up.in = 2;
	down.reduces = false;
	down.waits = 0;
	down.out = up.in;
	down.in = up.out;
	tt_cost_flow(c, up);
	tt_cost_flow(c, down);
}

void tt_cost_circulant(struct tt_cost *c, const struct tt_plan_args *a)
{
	size_t lanes = tt_num_pieces(a->count * a->elem, a->elem, a->chunk), blocks;
	double q = tt_log2_up(a->nranks), part, n = a->nranks;
	struct tt_rounds half = {.in = 1, .out = 1, .reduces = true};

	lanes = lanes < (size_t)a->lanes ? lanes : (size_t)a->lanes;
	if (!lanes)
		return;
	part = tt_cost_part(a, lanes);
	blocks = tt_num_pieces((size_t)part, a->elem, a->chunk);
	tt_cost_slices(c, lanes, a->lanes);
	half.n = (double)blocks - 1 + q;
	half.len = part / (double)blocks;
	half.all = (n - 1) * (double)blocks / half.n;
	tt_cost_rounds(c, half);
	half.reduces = false;
	tt_cost_rounds(c, half);
}

/*
 * The distances: n, halved until 1, rounding up. The number of blocks that travel is the
 * difference from the previous distance.
 */
void tt_cost_circulant_rsag(struct tt_cost *c, const struct tt_plan_args *a)
{
	double len = cut_by_halves(c, a, a->nranks);
	int have, next;

	tt_cost_parts(c, (size_t)a->nranks);
	for (have = a->nranks; have > 1; have = next) {
		next = (have + 1) / 2;
		tt_cost_meet(c, a, TT_SHIFT, next, len * (have - next) / a->nranks, true);
		tt_cost_meet(c, a, TT_SHIFT, next, len * (have - next) / a->nranks, false);
	}
}
