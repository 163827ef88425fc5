/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * All-reduce on two binary trees: logarithmic latency at the bandwidth of a ring, nearly.
 *
 *	tree 0, 8 ranks                tree 1: mirrored, v = n - 1 - rank (odd n: rank - 1 mod n)
 *
 *	0 ──────┐                                      ┌────── 7
 *	        4                                      3
 *	    ┌───┴───┐                              ┌───┴───┐
 *	    2       6                              1       5       odd v are leaves, so a rank is
 *	  ┌─┴─┐   ┌─┴─┐                          ┌─┴─┐   ┌─┴─┐     inner in one tree, a leaf in the
 *	  1   3   5   7                          0   2   4   6     other (but rank 0, if n is odd)
 *
 * Each tree carries half the vector, in slices of at most chunk bytes: up to the root, being summed
 * up, and down again. The level of v is its lowest set bit; the parent has the next bit set
 * instead. In-order, the tree reads 0, 1, 2, ...: a node's sum is (left + own) + right, so with
 * mirrored trees the operator need not commute (shifted ones begin with rank 1 and end with rank
 * 0).
 *
 * Up and down overlap: each tree has lanes of its own, and a lane is a pipeline. In terms of
 * rounds,
 *
 *	2c	receive slice c from the left		2c + D		receive slice c from above
 *	2c + 1	receive it from the right		2c + D + 1	send it down to the left
 *	2c + 2	send it up				2c + D + 2	send it down to the right
 *
 * so every pair of rounds begins a slice, while earlier slices have gone up and not come back yet:
 * D is 3 for every edge up to the root. (The root has one child, D = 0.) A message goes up in round
 * t of the parent and t + 2 of a left child, t + 1 of a right one, and the next one down in just
 * such a pair of rounds: numbers of rounds differ between neighbours, but by the same both
 * ways, so all ranks keep step and no round waits for more than the ones it talks to. In a pair of
 * rounds a rank sends and receives four slices, in its inner place three, in its leaf's one: both
 * ways busy. If there is but one slice, both kids are served in round D + 1, and D is 2 over a
 * right one's edge.
 *
 * Cost, n ranks, N bytes, S slices a lane: a rank sends and receives as many halves of N as it has
 * edges in both trees, at most four: at most 2N; reduces at most N. At most 2S + 3d + 1 steps, d <=
 * ceil(log2 n) its depth, at most 6 if S = 1. Fan-in 2 (a kid and the one above). With one lane the
 * trees go one after the other.
 *
 * Sanders, Speck, Träff: Two-tree algorithms for full bandwidth broadcast, reduction and scan.
 * Parallel Computing 35(12), 2009.
 */
#include "lib/coll/p2p/binary_tree.h"

/* A rank's place in a tree; -1: no rank. kid[0] is on the left; the root has only kid[1]. */
struct node {
	int up, kid[2];
	int lefts,
		rights; /* edges up to the root, by the side we are on; the root's is a left one */
	bool after[2];	/* that kid's operand comes after ours */
};

static int rank_of(const struct tt_plan_args *a, int tree, int v)
{
	int n = a->nranks;

	return !tree ? v : n % 2 ? (v + 1) % n : n - 1 - v;
}

static int number_of(const struct tt_plan_args *a, int tree, int rank)
{
	int n = a->nranks;

	return !tree ? rank : n % 2 ? (rank + n - 1) % n : n - 1 - rank;
}

static struct node node_of(const struct tt_plan_args *a, int tree)
{
	int n = a->nranks, v = number_of(a, tree, a->rank), w, kids = 0;
	struct tt_tree t = tt_tree(n, v);
	struct node x = {.up = -1, .kid = {-1, -1}};
	bool mirrored = tree && n % 2 == 0;

	for (w = v; w; w = tt_tree_up(n, w))
		if (w < tt_tree_up(n, w) || !tt_tree_up(n, w))
			x.lefts++;
		else
			x.rights++;
	if (v)
		x.up = rank_of(a, tree, t.up);
	if (t.left >= 0) {
		x.after[kids] = mirrored;
		x.kid[kids++] = rank_of(a, tree, t.left);
	}
	if (t.right >= 0) {
		x.after[kids] = !mirrored;
		x.kid[kids++] = rank_of(a, tree, t.right);
	}
	return x;
}

/* The work of a lane on a tree. */
struct pipe {
	const struct tt_plan_args *a;
	struct node x;
	struct tt_span half;
	size_t slices, first, step; /* of the half; those of this lane */
	long n, down;		    /* slices of this lane; D */
	bool again[3]; /* the lane has worked for tree 0 with this neighbour: up, kids */
};

static struct tt_span half_of(const struct tt_plan_args *a, int tree)
{
	return tt_pieces((struct tt_span){0, a->count * a->elem}, a->elem, 2, (size_t)tree, 1);
}

static struct pipe pipe_of(const struct tt_plan_args *a, size_t slices, int lanes, int lane,
			   int tree)
{
	struct pipe p = {.a = a, .x = node_of(a, tree), .half = half_of(a, tree), .slices = slices};

	p.first = lanes > 1 ? (size_t)lane / 2 : 0;
	p.step = lanes > 1 ? (size_t)(lanes + 1 - tree) / 2 : 1;
	p.n = (long)((slices - p.first + p.step - 1) / p.step);
	p.down = 3 * p.x.lefts + (p.n > 1 ? 3 : 2) * p.x.rights;
	if (lanes == 1 && tree == 1) {
		struct node x = node_of(a, 0);
		const int peer[3] = {p.x.up, p.x.kid[0], p.x.kid[1]};
		int i;

		for (i = 0; i < 3; i++)
			p.again[i] = peer[i] == x.up || peer[i] == x.kid[0] || peer[i] == x.kid[1];
	}
	return p;
}

static long rounds(const struct pipe *p)
{
	return 2 * p->n + p->down + 1;
}

/*
 * A message of slice c with neighbour 0 (up) or 1, 2 (kids), if there are such; returns the next
 * place for an op.
 */
static struct tt_op *message(const struct pipe *p, struct tt_op *op, enum tt_op_kind kind, int whom,
			     long c)
{
	int peer = whom ? p->x.kid[whom - 1] : p->x.up;
	struct tt_span s;

	if (peer < 0 || c < 0 || c >= p->n)
		return op;
	s = tt_pieces(p->half, p->a->elem, p->slices, p->first + (size_t)c * p->step, 1);
	*op = (struct tt_op){.kind = kind, .peer = peer, .len = s.len};
	op->index = (uint32_t)(c + (p->again[whom] ? p->n : 0));
	if (kind == TT_OP_SEND)
		op->a = p->x.kid[0] < 0 ? TT_SENDBUF(s.off) : TT_RECVBUF(s.off);
	else
		op->dst = TT_RECVBUF(s.off);
	if (kind == TT_OP_RECV_REDUCE) {
		struct tt_ref own = whom == 1 ? TT_SENDBUF(s.off) : TT_RECVBUF(s.off);

		op->a = p->x.after[whom - 1] ? own : TT_NET;
		op->b = p->x.after[whom - 1] ? TT_NET : own;
		op->flags = p->x.up < 0 && p->a->divide ? TT_OPF_DIVIDE : 0;
	}
	return op + 1;
}

/*
 * The same, if round is one of 0, 2, 4, ... after first, for which slices 0, 1, 2, ... have their
 * turn.
 */
static struct tt_op *message_in(const struct pipe *p, struct tt_op *op, enum tt_op_kind kind,
				int whom, long round, long first)
{
	return (round - first) % 2 ? op : message(p, op, kind, whom, (round - first) / 2);
}

static int round_ops(const struct pipe *p, long round, struct tt_op *ops)
{
	struct tt_op *op = ops;

	op = message_in(p, op, TT_OP_RECV_REDUCE, 1, round, 0);
	op = message_in(p, op, TT_OP_RECV_REDUCE, 2, round, 1);
	op = message_in(p, op, TT_OP_RECV, 0, round, p->down);
	op = message_in(p, op, TT_OP_SEND, 0, round, 2);
	op = message_in(p, op, TT_OP_SEND, 1, round, p->down + 1);
	op = message_in(p, op, TT_OP_SEND, 2, round, p->down + (p->n > 1 ? 2 : 1));
	return (int)(op - ops);
}

/* "Slices" of this plan are its lanes, each with a pipeline of its own. */
static int step(const struct tt_plan_args *a, const struct tt_sliced *sl, const struct tt_step *at,
		struct tt_op *ops)
{
	struct pipe p =
		pipe_of(a, sl->state[0], sl->lanes, at->lane, sl->lanes > 1 && at->lane % 2);
	long round = at->step;

	if (sl->lanes == 1 && round >= rounds(&p)) {
		round -= rounds(&p);
		p = pipe_of(a, sl->state[0], 1, 0, 1);
	}
	return round < rounds(&p) ? round_ops(&p, round, ops) : 0;
}

void tt_allreduce_dbt(struct tt_builder *b)
{
	const struct tt_plan_args *a = tt_builder_args(b);
	size_t slices = tt_num_pieces(half_of(a, 0).len, a->elem, a->chunk);
	struct tt_sliced s = {.fn = step, .max_ops = 6, .state = {slices}};
	long most = 0, sum = 0, n;
	int lanes, tree;

	if (!slices)
		return;
	s.slices = 2 * slices < (size_t)a->lanes ? 2 * slices : (size_t)a->lanes;
	lanes = (int)s.slices;
	for (tree = 0; tree < 2; tree++) {
		struct pipe p = pipe_of(a, slices, lanes, lanes > 1 ? tree : 0, tree);

		n = rounds(&p);
		most = n > most ? n : most;
		sum += n;
	}
	s.steps = (int)(lanes > 1 ? most : sum);
	s.slice_ops = 2 * (size_t)s.steps;
	s.full = half_of(a, 1).len / a->elem >= slices;
	tt_sliced(b, &s);
}

bool tt_can_allreduce_dbt(const struct tt_plan_args *args)
{
	return args->nranks > 1 && (!args->ordered || args->nranks % 2 == 0);
}
