/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * All-reduce by a direct reduce-scatter and a direct all-gather, called direct_rsag. Every rank
 * serves one block of the vector, as the parameter servers of the literature do. The library's
 * parameter server (lib/ps) is another thing.
 *
 *	step 0: push            combine                 step 1: pull
 *	block i of all ──> i    i: x0+x1+x2+x3          i ──> block i of all
 *
 *	     0   1   2   3                                   0   1   2   3
 *	0  [own  1   2   3 ]    row r: what rank r sends;   [own 0   0   0 ]
 *	1  [ 0  own  2   3 ]    the number is the block      [ 1  own 1   1 ]
 *
 * A server receives its block from all ranks at once, each into its own scratch, and combines them
 * in rank order, so the operator need not commute. One rank computes an element. Blocks are as
 * even as whole elements allow and cut into slices of at most chunk bytes, so short that a lane's
 * scratch stays below SCRATCH_MAX.
 *
 * Cost per rank, n ranks, N bytes: 2(n-1)/n N sent and received, (n-1)/n N reduced; 2 steps a
 * slice; fan-in n-1. Exactly, with b_i bytes in block i: rank r sends N - b_r + (n-1) b_r.
 *
 * Li et al.: Scaling distributed machine learning with the parameter server. OSDI 2014.
 */
#include "lib/plan/plan.h"

#define SCRATCH_MAX (8u << 20) /* bytes a lane */

static struct tt_span slice_of(const struct tt_plan_args *a, size_t slices, int block, size_t slice)
{
	struct tt_span all = {0, a->count * a->elem};

	all = tt_pieces(all, a->elem, (size_t)a->nranks, (size_t)block, 1);
	return tt_pieces(all, a->elem, slices, slice, 1);
}

/* The two ops of an exchange with one peer. */
static void exchange(const struct tt_plan_args *a, const struct tt_sliced *sl,
		     const struct tt_step *at, const struct tt_row *row, int peer,
		     struct tt_op *ops)
{
	struct tt_span mine = slice_of(a, sl->slices, a->rank, at->slice);
	struct tt_span theirs = slice_of(a, sl->slices, peer, at->slice);
	uint32_t index = 2 * at->turn + (at->step > 0);

	ops[0] = (struct tt_op){.kind = TT_OP_RECV, .peer = peer, .index = index};
	ops[0].dst = at->step ? TT_RECVBUF(theirs.off) : tt_row_slot(row, peer);
	ops[0].len = at->step ? theirs.len : mine.len;
	ops[1] = (struct tt_op){.kind = TT_OP_SEND, .peer = peer, .index = index};
	ops[1].a = at->step ? TT_RECVBUF(mine.off) : TT_SENDBUF(theirs.off);
	ops[1].len = at->step ? mine.len : theirs.len;
}

/*
 * Step 0: push; 1 to n - 1: combine; n: pull. Peers in an order of each rank's own, or all would
 * begin with 0.
 */
static int step(const struct tt_plan_args *a, const struct tt_sliced *sl, const struct tt_step *at,
		struct tt_op *ops)
{
	struct tt_span s = slice_of(a, sl->slices, a->rank, at->slice);
	struct tt_row row = {.n = a->nranks,
			     .own = a->rank,
			     .mine = TT_SENDBUF(s.off),
			     .slot = (size_t)at->lane * ((size_t)a->nranks - 1) * sl->state[0],
			     .stride = sl->state[0],
			     .len = s.len};
	int i;

	if (at->step > 0 && at->step < a->nranks) {
		ops[0] =
			tt_row_op(&row, at->step, TT_RECVBUF(s.off), a->divide ? TT_OPF_DIVIDE : 0);
		return 1;
	}
	for (i = 1; i < a->nranks; i++)
		exchange(a, sl, at, &row, (a->rank + i) % a->nranks, &ops[2 * (i - 1)]);
	return 2 * (a->nranks - 1);
}

void tt_allreduce_ps(struct tt_builder *b)
{
	const struct tt_plan_args *a = tt_builder_args(b);
	size_t n = (size_t)a->nranks,
	       most = SCRATCH_MAX / n < a->chunk ? SCRATCH_MAX / n : a->chunk;
	size_t longest = slice_of(a, 1, 0, 0).len; /* block 0 */
	struct tt_sliced s = {.fn = step, .steps = a->nranks + 1, .max_ops = 2 * (a->nranks - 1)};

	s.slices = tt_num_pieces(longest, a->elem, most);
	s.full = s.slices && a->count / n >= s.slices;
	s.slice_ops = 5 * n;
	if (s.slices)
		s.state[0] = tt_slots(b, (n - 1) * (size_t)a->lanes,
				      slice_of(a, s.slices, a->rank, 0).len);
	tt_sliced(b, &s);
}
