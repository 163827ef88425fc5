/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The costs of algorithms in two levels: the memory of a host, then one rank for each host.
 */
#include "lib/coll/costs/costs.h"

#define IN_CACHE 0.6	/* as in costs_node.c */
#define SLICE_CHUNKS 16 /* as in hier.c */
#define STEPS 3		/* two that all wait for, and as much to look whether all may be touched */

/* One rank of each host, and a vector of this many elements. */
static struct tt_plan_args across_of(const struct tt_cost *c, const struct tt_plan_args *a,
				     size_t count)
{
	struct tt_plan_args across = *a;

	across.nranks = tt_cost_hosts(c);
	across.count = count;
	across.hosts = NULL;
	across.lanes = 1;
	across.root = 0;
	return across;
}

/* The work of some places, each with some elements, in slices of some chunks. */
static void places(struct tt_cost *c, const struct tt_plan_args *a, tt_cost_fn *cost, int n,
		   size_t count, int chunks)
{
	size_t most = a->chunk * (size_t)(chunks < SLICE_CHUNKS ? chunks : SLICE_CHUNKS);
	size_t slices = tt_num_pieces(count * a->elem, a->elem, most);
	struct tt_plan_args across;

	if (!slices)
		return;
	across = across_of(c, a, count / slices + (count % slices > 0));
	tt_cost_across(c, cost, &across, n, slices);
}

/* Number of places that have a part of a vector; parts are whole cache lines. */
static int parts(const struct tt_cost *c, const struct tt_plan_args *a)
{
	size_t lines = tt_num_pieces(a->count * a->elem, 1, TT_NODE_LINE),
	       n = (size_t)tt_cost_places(c);

	return (int)(lines < n ? lines : n);
}

/* The longest part, assumed for each place with a part. */
static void each_part(struct tt_cost *c, const struct tt_plan_args *a, tt_cost_fn *cost, int chunks)
{
	int n = parts(c, a);

	if (n)
		places(c, a, cost, n, a->count / (size_t)n + (a->count % (size_t)n > 0), chunks);
}

/* Every rank reads its part of all inputs of its host, and stores it in all results. */
static void levels(struct tt_cost *c, const struct tt_plan_args *a, tt_cost_fn *cost, int chunks)
{
	int each = tt_cost_places(c);
	double slice;

	each_part(c, a, cost, chunks);
	slice = tt_cost_num_slices(c) > 0 ? tt_cost_bytes(a) / tt_cost_num_slices(c) : 0;
	tt_cost_signals(c, STEPS);
	tt_cost_work(c, slice * IN_CACHE / 2, true, a->nranks);
	tt_cost_work(c, slice * IN_CACHE * (each - 1) / each, false, a->nranks);
}

void tt_cost_hier_ring(struct tt_cost *c, const struct tt_plan_args *a)
{
	levels(c, a, tt_cost_ring, tt_cost_hosts(c));
}

void tt_cost_hier_halving_doubling(struct tt_cost *c, const struct tt_plan_args *a)
{
	levels(c, a, tt_cost_halving_doubling, tt_cost_hosts(c));
}

void tt_cost_hier_recursive_doubling(struct tt_cost *c, const struct tt_plan_args *a)
{
	levels(c, a, tt_cost_recursive_doubling, 1);
}

/* In one lane the trees go one after the other, each with half of the slice. */
static void one_tree(struct tt_cost *c, const struct tt_plan_args *a)
{
	double len = tt_cost_cut(c, a, tt_cost_bytes(a), 2 * a->chunk) / 2;
	struct tt_rounds up = {.n = 2 * tt_log2_up(a->nranks), .len = len, .out = 1, .in = 1};

	up.all = 2 * (a->nranks - 1) / up.n;
	up.reduces = true;
	tt_cost_rounds(c, up);
	up.reduces = false;
	tt_cost_rounds(c, up);
}

void tt_cost_hier_dbt(struct tt_cost *c, const struct tt_plan_args *a)
{
	levels(c, a, one_tree, 2);
}

/* codec_direct of a slice, whose own slices follow one another. */
static void direct_in_turn(struct tt_cost *c, const struct tt_plan_args *a)
{
	double n = a->nranks, len = tt_cost_bytes(a), block = tt_cost_part(a, (size_t)a->nranks);
	struct tt_rounds all_to_all = {.n = 1, .out = n - 1, .in = n - 1, .all = n * (n - 1)};

	all_to_all.len = (double)tt_coded(a, (size_t)block);
	tt_cost_code(c, len - block, 0, n);
	tt_cost_rounds(c, all_to_all);
	tt_cost_code(c, block, len - block, n);
	tt_cost_rounds(c, all_to_all);
	tt_cost_code(c, 0, len, n);
}

void tt_cost_hier_codec(struct tt_cost *c, const struct tt_plan_args *a)
{
	levels(c, a, direct_in_turn, tt_cost_hosts(c));
}

void tt_cost_hier_leader(struct tt_cost *c, const struct tt_plan_args *a)
{
	struct tt_plan_args across = across_of(c, a, a->count);
	double each = tt_cost_places(c), bytes = tt_cost_bytes(a) * IN_CACHE;

	tt_cost_across(c,
		       tt_fold_pow2(across.nranks) == across.nranks ? tt_cost_recursive_doubling
								    : tt_cost_radix,
		       &across, 1, 1);
	tt_cost_signals(c, 2);
	tt_cost_work(c, each * bytes, true, tt_cost_hosts(c));
	tt_cost_pull(c, bytes, a->nranks);
}

/* ---- others ---- */

void tt_cost_barrier_hier(struct tt_cost *c, const struct tt_plan_args *a)
{
	struct tt_plan_args across = across_of(c, a, a->count);

	tt_cost_across(c, tt_cost_barrier_dissemination, &across, 1, 1);
	tt_cost_signals(c, 2);
}

/* Every rank copies, and combines, this many bytes of each slice of a vector. */
static void within(struct tt_cost *c, const struct tt_plan_args *a, double copied, double reduced)
{
	double slices = tt_cost_num_slices(c);

	tt_cost_signals(c, STEPS);
	if (slices <= 0)
		return;
	if (copied > 0)
		tt_cost_work(c, copied * IN_CACHE / slices, false, a->nranks);
	if (reduced > 0)
		tt_cost_work(c, reduced / slices, true, a->nranks);
}

void tt_cost_bcast_hier_binomial(struct tt_cost *c, const struct tt_plan_args *a)
{
	each_part(c, a, tt_cost_bcast_binomial, 1);
	within(c, a, tt_cost_bytes(a), 0);
}

void tt_cost_bcast_hier_leader(struct tt_cost *c, const struct tt_plan_args *a)
{
	struct tt_plan_args across = across_of(c, a, a->count);

	tt_cost_across(c, tt_cost_bcast_binomial, &across, 1, 1);
	tt_cost_signals(c, 1);
	tt_cost_pull(c, 2 * tt_cost_bytes(a) * IN_CACHE, a->nranks);
}

void tt_cost_reduce_hier_binomial(struct tt_cost *c, const struct tt_plan_args *a)
{
	each_part(c, a, tt_cost_reduce_binomial, 1);
	within(c, a, 0, tt_cost_bytes(a) * IN_CACHE);
}

void tt_cost_reduce_hier_leader(struct tt_cost *c, const struct tt_plan_args *a)
{
	struct tt_plan_args across = across_of(c, a, a->count);

	tt_cost_across(c, tt_cost_reduce_binomial, &across, 1, 1);
	tt_cost_signals(c, 1);
	tt_cost_work(c, tt_cost_places(c) * tt_cost_bytes(a) * IN_CACHE, true, tt_cost_hosts(c));
}

void tt_cost_allgather_hier_ring(struct tt_cost *c, const struct tt_plan_args *a)
{
	int each = tt_cost_places(c);

	tt_cost_one_way(c); /* a rank with several places has only one block */
	places(c, a, tt_cost_allgather_ring, each, a->count, 1);
	within(c, a, (double)tt_cost_hosts(c) * (each - 1) * tt_cost_bytes(a), 0);
}

void tt_cost_reduce_scatter_hier_ring(struct tt_cost *c, const struct tt_plan_args *a)
{
	places(c, a, tt_cost_reduce_scatter_ring, tt_cost_places(c), a->count, 1);
	within(c, a, 0, a->nranks * tt_cost_bytes(a) * IN_CACHE);
}

/* One message across hosts contains the blocks of a host's ranks, here their average number. */
static struct tt_plan_args blocks_across(const struct tt_cost *c, const struct tt_plan_args *a,
					 int *each)
{
	struct tt_plan_args across;

	*each = (a->nranks + tt_cost_hosts(c) / 2) / tt_cost_hosts(c);
	across = across_of(c, a, a->count * (size_t)*each);
	across.chunk = (size_t)*each * (a->count + 1) * a->elem;
	return across;
}

/* The root has all messages. */
void tt_cost_gather_hier(struct tt_cost *c, const struct tt_plan_args *a)
{
	int each;
	struct tt_plan_args across = blocks_across(c, a, &each);

	tt_cost_across(c, tt_cost_gather_linear, &across, 1, 1);
	tt_cost_signals(c, 2);
	tt_cost_pull(c, (each + 1) * tt_cost_bytes(a) * IN_CACHE, tt_cost_hosts(c));
}

void tt_cost_alltoall_hier(struct tt_cost *c, const struct tt_plan_args *a)
{
	int each;
	struct tt_plan_args across = blocks_across(c, a, &each);

	tt_cost_one_way(c); /* a rank with several places has correspondingly shorter messages */
	tt_cost_across(c, tt_cost_alltoall_pairwise, &across, each, 1);
	tt_cost_signals(c, STEPS);
	tt_cost_pull(c, a->nranks * tt_cost_bytes(a), a->nranks);
}

void tt_cost_scan_hier(struct tt_cost *c, const struct tt_plan_args *a)
{
	struct tt_plan_args across = across_of(c, a, a->count);
	double each = tt_cost_places(c), bytes = tt_cost_bytes(a) * IN_CACHE;

	across.coll = TT_COLL_EXSCAN;
	tt_cost_across(c, tt_cost_scan_doubling, &across, 1, 1);
	tt_cost_signals(c, 2);
	tt_cost_work(c, 2 * each * bytes, true, a->nranks);
	tt_cost_pull(c, each * bytes, a->nranks);
}
