/* SPDX-License-Identifier: BSD-3-Clause */
/* Binary trees, see binary_tree.h. */
#include "lib/coll/p2p/binary_tree.h"

int tt_tree_up(int n, int v)
{
	int bit = v & -v, up = (v ^ bit) | bit << 1;

	return up < n ? up : v ^ bit;
}

struct tt_tree tt_tree(int n, int v)
{
	struct tt_tree t = {v ? tt_tree_up(n, v) : -1, -1, -1};
	int bit = v ? v & -v : n, w;

	if (bit == 1)
		return t;
	if (v)
		t.left = v - bit / 2;
	for (w = 1; w < (bit + 1) / 2; w *= 2)
		;
	for (; w && v + w >= n; w /= 2)
		;
	if (w)
		t.right = v + w;
	return t;
}

/* The node of the second tree that v is in, and back. */
static int second(int n, int v)
{
	if (!v)
		return 0;
	return n % 2 ? n - v : v % (n - 1) + 1;
}

static int from_second(int n, int u)
{
	if (u <= 0)
		return u;
	return n % 2 ? n - u : u > 1 ? u - 1 : n - 1;
}

static size_t num_trees(const struct tt_plan_args *a)
{
	return a->lanes > 1 ? 2 : 1;
}

static int rank_at(const struct tt_plan_args *a, size_t which, int node)
{
	int v = which ? from_second(a->nranks, node) : node;

	return v < 0 ? -1 : (v + a->root) % a->nranks;
}

struct tt_tree tt_rooted_tree(const struct tt_plan_args *a, size_t slice)
{
	size_t which = slice % num_trees(a);
	int n = a->nranks, v = (a->rank - a->root + n) % n;
	struct tt_tree t = tt_tree(n, which ? second(n, v) : v);

	return (struct tt_tree){rank_at(a, which, t.up), rank_at(a, which, t.left),
				rank_at(a, which, t.right)};
}

static struct tt_span part(const struct tt_plan_args *a, size_t which)
{
	return tt_pieces(tt_vector(a), a->elem, num_trees(a), which, 1);
}

size_t tt_tree_slices(const struct tt_plan_args *a)
{
	return num_trees(a) * tt_num_slices(a, part(a, 0).len);
}

struct tt_span tt_tree_slice(const struct tt_plan_args *a, size_t slices, size_t i)
{
	size_t trees = num_trees(a);

	return tt_slice(a, part(a, i % trees), slices / trees, i / trees);
}

int tt_tree_lanes(const struct tt_plan_args *a, size_t slices)
{
	int lanes = tt_num_lanes(a, slices);

	return lanes - lanes % (int)num_trees(a);
}

bool tt_tree_full(const struct tt_plan_args *a, size_t slices)
{
	size_t trees = num_trees(a);

	return part(a, trees - 1).len / a->elem >= slices / trees;
}
