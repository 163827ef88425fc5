/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Broadcast down two binary trees, pipelined: the bandwidth of a chain, nearly, at logarithmic
 * latency.
 *
 * Each tree carries half of the message, in slices of at most chunk bytes. The root is at the top
 * of both with one child in each. Every other rank that is inside one tree is a leaf of the other
 * (binary_tree.h), so every rank sends and receives the message about once. In a round of a lane a
 * rank receives a slice while it sends the previous slice to both its children:
 *
 *	tree 0, 8 ranks    0              tree 1    0            slices 0, 2, 4, .. and 1, 3, 5, ..
 *	                   └───┐                    └───┐
 *	                       4                        3        round   0       1       2
 *	                   ┌───┴───┐                ┌───┴───┐    rank 4  recv 0  recv 2  recv 4
 *	                   2       6                1       5            .       send 0  send 2
 *	                 ┌─┴─┐   ┌─┴─┐            ┌─┴─┐   ┌─┴─┐
 *	                 1   3   5   7            7   2   4   6  v = rank - root (mod n)
 *
 * Cost, n ranks, N bytes in S slices a lane: N sent by the root, at most N by any other rank, N
 * received; S + d - 1 steps until a rank d edges from the root has all, d <= ceil(log2 n); fan-in
 * 1. With one lane there is one tree for all.
 *
 * Sanders, Speck, Träff: Two-tree algorithms for full bandwidth broadcast, reduction and scan.
 * Parallel Computing 35(12), 2009.
 */
#include "lib/coll/p2p/binary_tree.h"

static int slice(const struct tt_plan_args *a, const struct tt_pipe *p, size_t i, int step,
		 struct tt_op *ops)
{
	struct tt_tree t = tt_rooted_tree(a, i);
	struct tt_span s = tt_tree_slice(a, p->slices, i);
	int n = 0;

	if (t.up >= 0 && !step) {
		ops[0] = tt_op_recv(t.up, TT_RECVBUF(s.off), s.len);
		return 1;
	}
	if (t.left >= 0)
		ops[n++] = tt_op_send(t.left, TT_RECVBUF(s.off), s.len);
	if (t.right >= 0)
		ops[n++] = tt_op_send(t.right, TT_RECVBUF(s.off), s.len);
	return n;
}

void tt_bcast_dbt(struct tt_builder *b)
{
	const struct tt_plan_args *a = tt_builder_args(b);
	size_t slices = tt_tree_slices(a);
	struct tt_pipe p = {.slices = slices,
			    .lanes = tt_tree_lanes(a, slices),
			    .steps = a->rank == a->root ? 1 : 2};

	tt_pipe(b, slice, &p, 2, tt_tree_full(a, slices), 0);
}
