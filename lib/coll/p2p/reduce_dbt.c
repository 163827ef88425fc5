/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reduce up two binary trees, pipelined: the broadcast of bcast_dbt.c, backwards.
 *
 * Each tree carries half of the vector, in slices of at most chunk bytes. An inner node takes
 * three steps a slice: combine its own part with the left child's, then with the right child's,
 * send the sum up. A leaf takes one step. Step k of a slice shares a round with step k - 1 of the
 * lane's next slice. Partial sums are in a few slots of scratch; the root, with one child in each
 * tree, combines into recvbuf.
 *
 *	round    0            1            2
 *	inner    left+own 0   sum+right 0  send 0
 *	                      left+own 2   sum+right 2  ...
 *
 * Operands are in the order of the tree's numbers, not in rank order, so the operator must
 * commute.
 *
 * Cost, n ranks, N bytes in S slices a lane: N sent by every rank but the root; at most N received
 * and reduced; at most S + 3d steps, d <= ceil(log2 n); fan-in 2 (two children in one round). With
 * one lane there is one tree, because two trees that wait for each other in one lane would
 * deadlock.
 *
 * Sanders, Speck, Träff: Two-tree algorithms for full bandwidth broadcast, reduction and scan.
 * Parallel Computing 35(12), 2009.
 */
#include "lib/coll/p2p/binary_tree.h"

static int slice(const struct tt_plan_args *a, const struct tt_pipe *p, size_t i, int step,
		 struct tt_op *op)
{
	struct tt_tree t = tt_rooted_tree(a, i);
	struct tt_span s = tt_tree_slice(a, p->slices, i);
	struct tt_ref own = TT_SENDBUF(s.off), sum = TT_RECVBUF(s.off);
	int kid[2] = {-1, -1}, kids = 0;

	if (t.left >= 0)
		kid[kids++] = t.left;
	if (t.right >= 0)
		kid[kids++] = t.right;
	if (t.up >= 0 && kids)
		sum = tt_pipe_slot(p, i, 0);
	if (step < kids) {
		*op = tt_op_recv_reduce(kid[step], sum, step ? sum : own, TT_NET, s.len);
		op->flags = a->rank == a->root && a->divide ? TT_OPF_DIVIDE : 0;
		return 1;
	}
	if (step > kids || t.up < 0)
		return 0;
	*op = tt_op_send(t.up, kids ? sum : own, s.len);
	return 1;
}

void tt_reduce_dbt(struct tt_builder *b)
{
	const struct tt_plan_args *a = tt_builder_args(b);
	size_t slices = tt_tree_slices(a);
	bool root = a->rank == a->root;
	struct tt_pipe p = {
		.slices = slices, .lanes = tt_tree_lanes(a, slices), .steps = root ? 1 : 3};

	tt_pipe(b, slice, &p, 1, tt_tree_full(a, slices), !root);
}
