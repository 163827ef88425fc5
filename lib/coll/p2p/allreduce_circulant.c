/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * All-reduce on a circulant graph, pipelined: a reduction to rank 0 and a broadcast from there,
 * both in the least possible number of rounds, and full duplex.
 *
 * The graph: distances ("skips") s0 = 1, ..., sq = n, each half of the next one, rounded up. In
 * round i of the broadcast every rank r sends a block to r + sk, k = i mod q, and receives one
 * from r - sk. Each rank has two tables of q numbers: it receives block R[k] + o and sends block
 * S[k] + o, where o grows by q every q rounds. Blocks below 0 do not exist yet; blocks above the
 * last one are the last one.
 *
 *	5 ranks, distances 1 2 3 (5), q = 3; a turn of 3 rounds:
 *
 *	rank        0          1          2          3          4
 *	R        (root)     0 -1 -2   -3  1 -1   -2 -3  2   -1 -2  0
 *	S        0  1  2   -3 -3  0   -2 -2 -2   -1 -1 -2   -3 -1 -1
 *
 * In a turn a rank receives q different blocks: one new block, o or later, and the q blocks before
 * o except its new block of the previous turn. Rank 1 gets block o in round 0, rank 2 block o + 1
 * in round 1, ... (r's new block is the last of the distances that add up to r, largest first.)
 * The reduction is the broadcast run backwards: a rank sends the block that it would receive, and
 * receives a partial sum from the rank to which it would send. A rank thus sends a block's sum
 * exactly once, after all that come to it.
 *
 * The tables: R[k] is the largest new block of the ranks between r - s(k+1) and r - sk that is not
 * the rank's own and not taken yet; S[k] of r is R[k] of r + sk. A search over sums of decreasing
 * distances finds R in O(log n).
 *
 * Lanes have equal parts of the vector, each in B blocks of at most chunk bytes.
 *
 * Cost, n ranks, N bytes, B blocks a lane: 2(B - 1 + q) rounds, q = ceil(log2 n), in each of which
 * a rank sends and receives at most one block; rank 0 receives but does not send in the first half,
 * the other way round in the second. Every rank but 0 sends N up and receives N; all together send
 * 2(n-1)N, no rank more than 2N(1 + (q-1)/B). Fan-in 1. Not for operators that do not commute.
 *
 * Träff: Optimal broadcast schedules in logarithmic time with applications to broadcast, all-
 * broadcast, reduction and all-reduction. doi 10.1145/3735139, arXiv 2407.18004.
 */
#include <string.h>

#include "lib/plan/plan.h"

#define Q_MAX 24 /* twice this many bytes fit in the state of a plan */

struct search {
	int n, q, r; /* r: the rank + n, so that distances reach below it */
	int skip[Q_MAX + 1];
	bool taken[Q_MAX + 1];
	int found[Q_MAX], k;
	int last; /* where the last one was found */
};

static void find_skips(struct search *s, int n)
{
	int i;

	s->n = n;
	for (s->q = 0; 1 << s->q < n; s->q++)
		;
	s->skip[s->q] = n;
	for (i = s->q; i > 0; i--)
		s->skip[i - 1] = (s->skip[i] + 1) / 2;
}

/* The last of the distances that add up to r; q of rank 0. */
static int new_block(const struct search *s, int r)
{
	int k = s->q;

	while (r) {
		k--;
		if (r >= s->skip[k])
			r -= s->skip[k];
	}
	return k;
}

/* Place number k of the table is for a rank between r - skip[k + 1] and r - skip[k]. */
static int low(const struct search *s)
{
	return s->r - s->skip[s->k + 1];
}

/* Try all ways on from rank at by distances e and smaller, the largest first. */
static void search(struct search *s, int at, int e)
{
	int to;

	for (; e >= 0 && s->k < s->q && at <= low(s); e--) {
		to = at + s->skip[e];
		if (s->taken[e] || to > s->r - s->skip[s->k] || to >= s->last)
			continue;
		if (to <= low(s))
			search(s, to, e - 1);
		if (s->k == s->q || to < low(s))
			continue;
		s->last = to;
		s->taken[e] = true;
		s->found[s->k++] = e;
	}
}

/* R of rank r. */
static void receives(struct search *s, int r, int8_t *table)
{
	int own = new_block(s, r), k;

	memset(s->taken, 0, sizeof(s->taken));
	s->taken[own] = true;
	s->r = r + s->n;
	s->k = 0;
	s->last = 2 * s->n + 1;
	search(s, 0, s->q);
	for (k = 0; k < s->q; k++)
		table[k] = (int8_t)(s->found[k] == s->q ? own : s->found[k] - s->q);
}

/* A rank's state of one lane's pipeline. */
struct pipe {
	const struct tt_plan_args *a;
	struct search s;
	int8_t in[Q_MAX], out[Q_MAX]; /* R and S */
	struct tt_span part;	      /* of the vector */
	long blocks,
		missing; /* rounds missing from the first turn, so that the last one is whole */
	long turns;
};

static long rounds(const struct pipe *p)
{
	return p->blocks - 1 + p->s.q;
}

static void tables(struct pipe *p)
{
	int8_t other[Q_MAX];
	int k;

	find_skips(&p->s, p->a->nranks);
	receives(&p->s, p->a->rank, p->in);
	for (k = 0; k < p->s.q; k++) {
		receives(&p->s, (p->a->rank + p->s.skip[k]) % p->a->nranks, other);
		p->out[k] = other[k];
	}
}

static void set_blocks(struct pipe *p, size_t blocks)
{
	p->blocks = (long)blocks;
	p->missing = (p->s.q - (p->blocks - 1) % p->s.q) % p->s.q;
	p->turns = (p->blocks - 1 + p->missing) / p->s.q + 1;
}

static int forward(const struct pipe *p, int k)
{
	return (p->a->rank + p->s.skip[k]) % p->a->nranks;
}

static int backward(const struct pipe *p, int k)
{
	return (p->a->rank - p->s.skip[k] + p->a->nranks) % p->a->nranks;
}

/* The first turn in which table entry number k, of this value, is a block. */
static long first_turn(const struct pipe *p, int k, int value)
{
	long least = p->missing > value ? (p->missing - value + p->s.q - 1) / p->s.q : 0;

	return k < p->missing && !least ? 1 : least;
}

/* How many messages such an entry makes. */
static long messages(const struct pipe *p, int k, int value)
{
	return p->turns - first_turn(p, k, value);
}

static long block_of(const struct pipe *p, long turn, int value)
{
	long block = value + turn * p->s.q - p->missing;

	return block < p->blocks ? block : p->blocks - 1;
}

/* The first or last round of the broadcast in which this rank sends a block; -1: it never does. */
static long when_sent(const struct pipe *p, long block, bool last)
{
	long best = -1, turn, t;
	int k;

	for (k = 0; k < p->s.q; k++) {
		turn = block - p->out[k] + p->missing;
		if (block == p->blocks - 1 && p->out[k] >= 0)
			turn = p->turns - 1;
		else if (turn % p->s.q || turn < 0 || turn / p->s.q >= p->turns)
			continue;
		else
			turn /= p->s.q;
		if (forward(p, k) == 0 || turn < first_turn(p, k, p->out[k]))
			continue;
		t = turn * p->s.q + k;
		if (best < 0 || (last ? t > best : t < best))
			best = t;
	}
	return best;
}

/* Messages of the reduction that went the same way as those of the broadcast by this distance. */
static long before(const struct pipe *p, int k, const int8_t *table, bool receive)
{
	int i;

	for (i = 0; i < p->s.q; i++)
		if (p->s.skip[i] == p->a->nranks - p->s.skip[k])
			return (receive ? forward(p, i) : p->a->rank) ? messages(p, i, table[i])
								      : 0;
	return 0;
}

static struct tt_op message(const struct pipe *p, enum tt_op_kind kind, int peer, long block,
			    long index, struct tt_span *s)
{
	*s = tt_pieces(p->part, p->a->elem, (size_t)p->blocks, (size_t)block, 1);
	return (struct tt_op){.kind = kind, .peer = peer, .index = (uint32_t)index, .len = s->len};
}

/* Round k of a turn, of the reduction. */
static int reduce(const struct pipe *p, long turn, int k, struct tt_op *ops)
{
	struct tt_op *op = ops;
	struct tt_span s;
	long block, now = turn * p->s.q + k;

	if (p->a->rank && turn >= first_turn(p, k, p->in[k])) {
		block = block_of(p, turn, p->in[k]);
		*op = message(p, TT_OP_SEND, backward(p, k), block, p->turns - 1 - turn, &s);
		op->a = when_sent(p, block, true) < 0 ? TT_SENDBUF(s.off) : TT_RECVBUF(s.off);
		op++;
	}
	if (forward(p, k) && turn >= first_turn(p, k, p->out[k])) {
		block = block_of(p, turn, p->out[k]);
		*op = message(p, TT_OP_RECV_REDUCE, forward(p, k), block, p->turns - 1 - turn, &s);
		op->dst = TT_RECVBUF(s.off);
		op->a = when_sent(p, block, true) == now ? TT_SENDBUF(s.off) : TT_RECVBUF(s.off);
		op->b = TT_NET;
		if (!p->a->rank && p->a->divide && when_sent(p, block, false) == now)
			op->flags = TT_OPF_DIVIDE;
		op++;
	}
	return (int)(op - ops);
}

/* The same round, of the broadcast. */
static int broadcast(const struct pipe *p, long turn, int k, struct tt_op *ops)
{
	long first = first_turn(p, k, p->out[k]);
	struct tt_op *op = ops;
	struct tt_span s;

	if (forward(p, k) && turn >= first) {
		*op = message(p, TT_OP_SEND, forward(p, k), block_of(p, turn, p->out[k]),
			      before(p, k, p->in, false) + turn - first, &s);
		op->a = TT_RECVBUF(s.off);
		op++;
	}
	first = first_turn(p, k, p->in[k]);
	if (p->a->rank && turn >= first) {
		*op = message(p, TT_OP_RECV, backward(p, k), block_of(p, turn, p->in[k]),
			      before(p, k, p->out, true) + turn - first, &s);
		op->dst = TT_RECVBUF(s.off);
		op++;
	}
	return (int)(op - ops);
}

/* "Slices" of this plan are its lanes, each with a pipeline of its own. */
static int step(const struct tt_plan_args *a, const struct tt_sliced *sl, const struct tt_step *at,
		struct tt_op *ops)
{
	struct pipe p = {.a = a};
	long i;

	find_skips(&p.s, a->nranks);
	memcpy(p.in, &sl->state[0], Q_MAX);
	memcpy(p.out, &sl->state[3], Q_MAX);
	p.part = tt_pieces((struct tt_span){0, a->count * a->elem}, a->elem, sl->slices, at->slice,
			   1);
	set_blocks(&p, sl->state[6]);
	if (at->step < rounds(&p)) {
		i = rounds(&p) - 1 - at->step + p.missing;
		return reduce(&p, i / p.s.q, (int)(i % p.s.q), ops);
	}
	i = at->step - rounds(&p) + p.missing;
	return broadcast(&p, i / p.s.q, (int)(i % p.s.q), ops);
}

void tt_allreduce_circulant(struct tt_builder *b)
{
	const struct tt_plan_args *a = tt_builder_args(b);
	struct tt_span all = {0, a->count * a->elem};
	size_t pieces = tt_num_pieces(all.len, a->elem, a->chunk), blocks;
	struct tt_sliced s = {.fn = step, .max_ops = 2};
	struct pipe p = {.a = a};

	if (!pieces)
		return;
	s.slices = pieces < (size_t)a->lanes ? pieces : (size_t)a->lanes;
	blocks = tt_num_pieces(tt_pieces(all, a->elem, s.slices, 0, 1).len, a->elem, a->chunk);
	tables(&p);
	set_blocks(&p, blocks);
	memcpy(&s.state[0], p.in, Q_MAX);
	memcpy(&s.state[3], p.out, Q_MAX);
	s.state[6] = blocks;
	s.steps = (int)(2 * rounds(&p));
	s.slice_ops = 2 * (size_t)s.steps;
	s.full = a->count / s.slices >= blocks;
	tt_sliced(b, &s);
}

bool tt_can_allreduce_circulant(const struct tt_plan_args *args)
{
	return args->nranks > 1 && args->nranks <= 1 << Q_MAX && !args->ordered;
}
