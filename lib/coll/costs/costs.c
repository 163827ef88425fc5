/* SPDX-License-Identifier: BSD-3-Clause */
/* Costs of all collectives but all-reduce. N: bytes of the vector, or of a block. */
#include "lib/coll/costs/costs.h"

#define GATHER_WIDTH 8 /* as the linear algorithms have it */
#define ALLGATHER_WIDTH 4
#define ALLTOALL_WIDTH 8
#define SLICE_CHUNKS 8

static int less(int a, int b)
{
	return a < b ? a : b;
}

int tt_cost_depth(int n)
{
	int most = __builtin_popcount((unsigned)(n - 1)), bit, above;

	for (bit = 0; (n - 1) >> bit; bit++) { /* this one clear instead, all lower ones set */
		above = __builtin_popcount((unsigned)((n - 1) >> bit >> 1));
		if ((n - 1) >> bit & 1 && above + bit > most)
			most = above + bit;
	}
	return most;
}

double tt_cost_cut(struct tt_cost *c, const struct tt_plan_args *a, double len, size_t most)
{
	size_t slices = tt_num_pieces((size_t)len, a->elem, most);

	tt_cost_slices(c, slices, a->lanes);
	return slices ? len / (double)slices : 0;
}

void tt_cost_mutual(struct tt_cost *c, const struct tt_plan_args *a, double rounds,
		    enum tt_reach to, int dist, double len, bool reduces)
{
	tt_cost_rounds(c, (struct tt_rounds){.n = rounds,
					     .len = len,
					     .out = 1,
					     .in = 1,
					     .all = a->nranks,
					     .reduces = reduces,
					     .to = to,
					     .dist = dist});
}

void tt_cost_pairs(struct tt_cost *c, double pairs, double len, bool reduces)
{
	if (pairs > 0)
		tt_cost_rounds(c, (struct tt_rounds){.n = 1,
						     .len = len,
						     .in = 1,
						     .all = pairs,
						     .reduces = reduces,
						     .to = TT_BIT,
						     .dist = 1});
}

void tt_cost_unfold(struct tt_cost *c, int extra, double len)
{
	if (extra > 1 || tt_cost_waits(c, len))
		tt_cost_pairs(c, extra, len, false);
}

void tt_cost_single(struct tt_cost *c, const struct tt_plan_args *a)
{
	if (!a->in_place)
		tt_cost_work(c, tt_cost_bytes(a), false, 1);
}

void tt_cost_barrier_dissemination(struct tt_cost *c, const struct tt_plan_args *a)
{
	int dist;

	for (dist = 1; dist < a->nranks; dist *= 2)
		tt_cost_meet(c, a, TT_SHIFT, dist, 1, false);
}

/* ---- broadcast ---- */

void tt_cost_bcast_binomial(struct tt_cost *c, const struct tt_plan_args *a)
{
	double q = tt_log2_up(a->nranks), len = tt_cost_cut(c, a, tt_cost_bytes(a), a->chunk);

	tt_cost_flow(c, (struct tt_cost_flow){.hops = tt_cost_depth(a->nranks),
					      .len = len,
					      .out = q,
					      .all = a->nranks - 1,
					      .to = TT_TREE,
					      .early = true});
	tt_cost_queue(c, q - tt_cost_depth(a->nranks), len, false, TT_TREE);
}

void tt_cost_bcast_chain(struct tt_cost *c, const struct tt_plan_args *a)
{
	double len = tt_cost_cut(c, a, tt_cost_bytes(a), a->chunk);

	tt_cost_flow(c, (struct tt_cost_flow){.hops = a->nranks - 1,
					      .len = len,
					      .out = 1,
					      .in = a->nranks > 2,
					      .all = a->nranks - 1,
					      .waits = a->nranks > 2,
					      .to = TT_CHAIN,
					      .early = true});
}

/* Slices of both trees and their lanes, the bytes of one. */
static double cut_for_trees(struct tt_cost *c, const struct tt_plan_args *a)
{
	size_t trees = a->lanes > 1 ? 2 : 1, slices, lanes;

	slices = trees * tt_num_pieces((size_t)tt_cost_part(a, trees), a->elem, a->chunk);
	lanes = slices < (size_t)a->lanes ? slices : (size_t)a->lanes;
	tt_cost_slices(c, slices, (int)(lanes - lanes % trees));
	return slices ? tt_cost_bytes(a) / (double)slices : 0;
}

/* A rank is in one tree's inside and a leaf of the other: a message a slice, either way. */
void tt_cost_bcast_dbt(struct tt_cost *c, const struct tt_plan_args *a)
{
	double len = cut_for_trees(c, a);

	tt_cost_flow(c, (struct tt_cost_flow){.hops = tt_log2_up(a->nranks),
					      .len = len,
					      .out = a->lanes > 1 ? 1 : 2,
					      .in = 1,
					      .all = a->nranks - 1,
					      .to = TT_TREE,
					      .dist = 1,
					      .waits = 1,
					      .early = true});
	tt_cost_queue(c, tt_log2_up(a->nranks) - 1, len, false, TT_TREE); /* the other kid's */
}

void tt_cost_bcast_scatter_allgather(struct tt_cost *c, const struct tt_plan_args *a)
{
	int n = a->nranks, bit;
	double len = tt_cost_cut(c, a, tt_cost_bytes(a), a->chunk * (size_t)n);

	tt_cost_parts(c, (size_t)n);
	for (bit = 1 << tt_log2_up(n) >> 1; bit; bit /= 2)
		tt_cost_rounds(c, (struct tt_rounds){.n = 1,
						     .len = len * less(bit, n - bit) / n,
						     .out = 1,
						     .all = (double)n / (2.0 * bit),
						     .to = TT_BIT,
						     .dist = bit});
	tt_cost_pass(c, a, n - 1, len / n, false);
}

/* ---- reduce ---- */

void tt_cost_reduce_linear(struct tt_cost *c, const struct tt_plan_args *a)
{
	double others = a->nranks - 1, len = tt_cost_cut(c, a, tt_cost_bytes(a), a->chunk);

	tt_cost_flow(c, (struct tt_cost_flow){.hops = 1,
					      .len = len,
					      .in = others,
					      .all = others,
					      .to = TT_ROOT,
					      .waits = others,
					      .reduces = true});
	tt_cost_queue(c, others - 1, len, true, TT_ROOT);
}

void tt_cost_reduce_binomial(struct tt_cost *c, const struct tt_plan_args *a)
{
	double q = tt_log2_up(a->nranks), len = tt_cost_cut(c, a, tt_cost_bytes(a), a->chunk);

	tt_cost_flow(c, (struct tt_cost_flow){.hops = tt_cost_depth(a->nranks),
					      .len = len,
					      .in = q,
					      .all = a->nranks - 1,
					      .to = TT_TREE,
					      .waits = q,
					      .reduces = true});
	tt_cost_queue(c, q - tt_cost_depth(a->nranks), len, true, TT_TREE);
	if (a->ordered && a->root)
		tt_cost_pairs(c, 1, len, false);
}

void tt_cost_reduce_chain(struct tt_cost *c, const struct tt_plan_args *a)
{
	double n = a->nranks, len = tt_cost_cut(c, a, tt_cost_bytes(a), a->chunk);
	bool two = a->ordered && a->root && a->root < a->nranks - 1;

	tt_cost_flow(c, (struct tt_cost_flow){.hops = n - 1,
					      .len = len,
					      .out = n > 2,
					      .in = two ? 2 : 1,
					      .all = n - 1,
					      .waits = two ? 2 : 1,
					      .reduces = true,
					      .to = TT_CHAIN});
}

/* Each level takes two or three rounds a slice, but for the first. */
void tt_cost_reduce_dbt(struct tt_cost *c, const struct tt_plan_args *a)
{
	double len = cut_for_trees(c, a), q = tt_log2_up(a->nranks);

	tt_cost_flow(c, (struct tt_cost_flow){.hops = tt_cost_turns(c) > 1 ? 2.5 * q - 1.5 : q,
					      .len = len,
					      .out = 1,
					      .in = a->lanes > 1 ? 1 : 2,
					      .all = a->nranks - 1,
					      .to = TT_TREE,
					      .dist = 1,
					      .waits = 1,
					      .reduces = true});
}

void tt_cost_reduce_halving_gather(struct tt_cost *c, const struct tt_plan_args *a)
{
	int core = tt_fold_pow2(a->nranks), parts;
	double len = tt_cost_cut(c, a, tt_cost_bytes(a), SLICE_CHUNKS * a->chunk);

	tt_cost_pairs(c, a->nranks - core, len, true);
	tt_cost_parts(c, (size_t)core);
	for (parts = core / 2; parts; parts /= 2)
		tt_cost_meet(c, a, TT_BIT, core / (2 * parts), len * parts / core, true);
	for (parts = 1; parts < core; parts *= 2)
		tt_cost_rounds(c, (struct tt_rounds){.n = 1,
						     .len = len * parts / core,
						     .in = 1,
						     .all = core / (2.0 * parts),
						     .to = TT_BIT,
						     .dist = core / (2 * parts)});
	if (a->root < 2 * (a->nranks - core) && a->root % 2)
		tt_cost_pairs(c, 1, len, false);
}

/* ---- reduce-scatter ---- */

void tt_cost_reduce_scatter_direct(struct tt_cost *c, const struct tt_plan_args *a)
{
	double len = tt_cost_cut(c, a, tt_cost_bytes(a), a->chunk);

	tt_cost_exchange(c, a, a->nranks - 1, len, true);
	if (a->ordered)
		tt_cost_work(c, len, true, a->nranks);
}

void tt_cost_reduce_scatter_ring(struct tt_cost *c, const struct tt_plan_args *a)
{
	double len = tt_cost_cut(c, a, tt_cost_bytes(a), a->chunk);

	tt_cost_pass(c, a, a->nranks - 1, len, true);
}

void tt_cost_reduce_scatter_halving(struct tt_cost *c, const struct tt_plan_args *a)
{
	int core = tt_fold_pow2(a->nranks), parts;
	double n = a->nranks, len;
	size_t most = SLICE_CHUNKS * a->chunk / (size_t)a->nranks;

	len = tt_cost_cut(c, a, tt_cost_bytes(a), most);
	if (len < tt_cost_bytes(a))
		tt_cost_work(c, n * len, false, n);
	tt_cost_pairs(c, n - core, n * len, true);
	for (parts = core / 2; parts; parts /= 2)
		tt_cost_meet(c, a, TT_BIT, parts, n * len * parts / core, true);
	tt_cost_unfold(c, a->nranks - core, len);
}

/* ---- all-gather ---- */

static void copy_own(struct tt_cost *c, const struct tt_plan_args *a, double len)
{
	if (!a->in_place)
		tt_cost_work(c, len, false, a->nranks);
}

void tt_cost_allgather_direct(struct tt_cost *c, const struct tt_plan_args *a)
{
	double len = tt_cost_cut(c, a, tt_cost_bytes(a), a->chunk);
	int left, width;

	for (left = a->nranks - 1; left > 0; left -= width) {
		width = less(left, ALLGATHER_WIDTH);
		tt_cost_rounds(c, (struct tt_rounds){.n = 1,
						     .len = len,
						     .out = width,
						     .in = width,
						     .all = (double)width * a->nranks});
	}
	copy_own(c, a, len);
}

void tt_cost_allgather_ring(struct tt_cost *c, const struct tt_plan_args *a)
{
	double len = tt_cost_cut(c, a, tt_cost_bytes(a), a->chunk);

	tt_cost_pass(c, a, a->nranks - 1, len, false);
	copy_own(c, a, len);
}

/* Blocks together in one message, unless they are cut, or displacements may differ. */
static void exchange_blocks(struct tt_cost *c, const struct tt_plan_args *a, double blocks,
			    double len, double ranks, enum tt_reach to, int dist)
{
	bool together = len >= tt_cost_bytes(a) && a->coll != TT_COLL_ALLGATHERV;
	double each = together ? 1 : blocks;

	if (ranks > 0)
		tt_cost_rounds(c, (struct tt_rounds){.n = 1,
						     .len = together ? blocks * len : len,
						     .out = each,
						     .in = each,
						     .all = each * ranks,
						     .to = to,
						     .dist = dist});
}

void tt_cost_allgather_bruck(struct tt_cost *c, const struct tt_plan_args *a)
{
	double len = tt_cost_cut(c, a, tt_cost_bytes(a), a->chunk);
	int have, n = a->nranks;

	for (have = 1; have < n; have *= 2)
		exchange_blocks(c, a, less(have, n - have), len, n, TT_SHIFT, have);
	copy_own(c, a, len);
}

void tt_cost_allgather_recursive_doubling(struct tt_cost *c, const struct tt_plan_args *a)
{
	double len = tt_cost_cut(c, a, tt_cost_bytes(a), a->chunk);
	int core = tt_fold_pow2(a->nranks), n = a->nranks, m;

	tt_cost_pairs(c, n - core, len, false);
	for (m = 1; m < core; m *= 2)
		exchange_blocks(c, a, (double)m * n / core, len, core, TT_BIT, m);
	exchange_blocks(c, a, n - 1, len, n - core, TT_BIT, 1);
	copy_own(c, a, len);
}

/* ---- gather, scatter ---- */

static void cost_linear(struct tt_cost *c, const struct tt_plan_args *a, bool gather)
{
	double others = a->nranks - 1, len = tt_cost_cut(c, a, tt_cost_bytes(a), a->chunk);
	struct tt_cost_flow f = {.hops = 1, .len = len, .all = others, .to = TT_ROOT};

	f.in = gather ? others : 0;
	f.out = gather ? 0 : others;
	f.waits = gather ? (others + GATHER_WIDTH - 1) / GATHER_WIDTH : 0;
	f.early = !gather;
	tt_cost_flow(c, f);
	tt_cost_queue(c, others - 1, len, false, TT_ROOT);
	tt_cost_once(c, tt_cost_bytes(a)); /* the root's own */
}

void tt_cost_gather_linear(struct tt_cost *c, const struct tt_plan_args *a)
{
	cost_linear(c, a, true);
}

void tt_cost_scatter_linear(struct tt_cost *c, const struct tt_plan_args *a)
{
	cost_linear(c, a, false);
}

static void cost_blocks_tree(struct tt_cost *c, const struct tt_plan_args *a, bool gather)
{
	int n = a->nranks, bit, blocks;
	size_t most = SLICE_CHUNKS * a->chunk / (size_t)n;
	double len = tt_cost_cut(c, a, tt_cost_bytes(a), most), each;

	tt_cost_one_way(c);
	for (bit = 1; bit < n; bit *= 2) {
		blocks = less(bit, n - bit);
		each = len < tt_cost_bytes(a) ? blocks : 1; /* messages */
		tt_cost_rounds(c, (struct tt_rounds){.n = 1,
						     .len = len * blocks / each,
						     .out = gather ? 0 : each,
						     .in = gather ? each : 0,
						     .all = each * n / (2.0 * bit),
						     .to = TT_BIT,
						     .dist = bit});
	}
	tt_cost_work(c, gather ? 0 : len, false, 1); /* the root's own, before it sends on */
	tt_cost_once(c, tt_cost_bytes(a));
}

void tt_cost_gather_binomial(struct tt_cost *c, const struct tt_plan_args *a)
{
	cost_blocks_tree(c, a, true);
}

void tt_cost_scatter_binomial(struct tt_cost *c, const struct tt_plan_args *a)
{
	cost_blocks_tree(c, a, false);
}

/* ---- all-to-all ---- */

static void alltoall(struct tt_cost *c, const struct tt_plan_args *a, int most)
{
	double len = tt_cost_cut(c, a, tt_cost_bytes(a), a->chunk);
	int left, width;

	most = a->in_place ? 1 : most;
	tt_cost_work(c, (a->in_place ? a->nranks - 1 : 1) * len, false, a->nranks);
	for (left = a->nranks - !a->in_place; left > 0; left -= width) {
		width = less(left, most);
		tt_cost_rounds(c, (struct tt_rounds){.n = 1,
						     .len = len,
						     .out = width,
						     .in = width,
						     .all = (double)width * a->nranks});
	}
}

void tt_cost_alltoall_pairwise(struct tt_cost *c, const struct tt_plan_args *a)
{
	alltoall(c, a, 1);
}

void tt_cost_alltoall_linear(struct tt_cost *c, const struct tt_plan_args *a)
{
	alltoall(c, a, ALLTOALL_WIDTH);
}

void tt_cost_alltoall_bruck(struct tt_cost *c, const struct tt_plan_args *a)
{
	int n = a->nranks, bit, j, moved;
	double len = tt_cost_cut(c, a, tt_cost_bytes(a), SLICE_CHUNKS * a->chunk / (size_t)n);

	tt_cost_work(c, (a->in_place ? n - 1 : 1) * len, false, n);
	for (bit = 1; bit < n; bit *= 2) {
		for (j = bit, moved = 0; j < n; j++)
			moved += (j & bit) > 0;
		tt_cost_work(c, 2 * moved * len, false, n); /* packed and unpacked */
		tt_cost_meet(c, a, TT_SHIFT, bit, moved * len, false);
	}
}

/* ---- scan, exscan ---- */

void tt_cost_scan_chain(struct tt_cost *c, const struct tt_plan_args *a)
{
	double n = a->nranks, len = tt_cost_cut(c, a, tt_cost_bytes(a), a->chunk);
	bool three = a->coll == TT_COLL_EXSCAN && tt_cost_turns(c) > 1; /* rounds of a slice */

	tt_cost_flow(c, (struct tt_cost_flow){.hops = three ? 2 * n - 3 : n - 1,
					      .len = len,
					      .out = n > 2,
					      .in = 1,
					      .all = n - 1,
					      .waits = 1,
					      .reduces = true,
					      .to = TT_CHAIN});
}

void tt_cost_scan_doubling(struct tt_cost *c, const struct tt_plan_args *a)
{
	bool ex = a->coll == TT_COLL_EXSCAN;
	double q, depth, len = tt_cost_cut(c, a, tt_cost_bytes(a), a->chunk);

	if (ex)
		tt_cost_pass(c, a, 1, len, false);
	q = tt_log2_up(a->nranks - ex);
	depth = tt_cost_waits(c, len) ? q : tt_cost_depth(a->nranks - ex);
	tt_cost_rounds(c, (struct tt_rounds){.n = depth,
					     .len = len,
					     .out = 1,
					     .in = 1,
					     .all = a->nranks / 1.5, /* fewer as they get farther */
					     .reduces = true});
	tt_cost_queue(c, q - depth, len, true, TT_ANY_RANK);
}
