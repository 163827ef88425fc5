/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The checker's symbolic values: what the buffers hold before, what each op does to them, and whether
 * they are right afterwards.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/error.h"
#include "lib/base/hash.h"
#include "lib/plan/check_int.h"

#define TREE_DIVIDE 0xd1f1de5ull

static struct ck_buf *buf_of(const struct tt_checker *c, int rank, enum tt_buf buf)
{
	return &c->bufs[rank * TT_BUF_NET + (int)ck_real(c, buf)];
}

/* What element e of this rank's input is, before anything happens. */
static struct ck_val input(int rank, size_t e)
{
	uint64_t h = tt_hash_add(tt_hash_add(0x7a77, (uint64_t)rank), e);

	return (struct ck_val){.tree = h, .sum = tt_mix64(h + 1), .set = true};
}

static void fill_input(const struct tt_checker *c, int rank)
{
	enum tt_buf in = c->args.coll == TT_COLL_ALLREDUCE ? TT_BUF_SEND : TT_BUF_RECV;
	struct ck_buf *b = buf_of(c, rank, in);
	size_t e;

	if (c->args.coll == TT_COLL_BCAST && rank != c->args.root)
		return;
	for (e = 0; e < b->n; e++)
		b->val[e] = input(rank, e);
	/* A barrier's bytes mean nothing, so any will do. */
	b = buf_of(c, rank, TT_BUF_SCRATCH);
	for (e = 0; c->args.coll == TT_COLL_BARRIER && e < b->n; e++)
		b->val[e].set = true;
}

static size_t longest_op(const struct tt_checker *c)
{
	size_t most = 0;
	uint32_t i;

	for (i = 0; i < c->nops; i++)
		most = c->ops[i].op.len > most ? c->ops[i].op.len : most;
	return most / c->args.elem;
}

static int alloc_knowledge(struct tt_checker *c)
{
	int i;

	if (c->args.coll != TT_COLL_BARRIER)
		return 0;
	c->words = ((size_t)c->n + 63) / 64;
	c->known = calloc(((size_t)c->nlanes + 1) * c->words, sizeof(uint64_t));
	c->learnt = calloc(((size_t)c->nlanes + 1) * c->words, sizeof(uint64_t));
	c->told = calloc(((size_t)c->nmsgs + 1) * c->words, sizeof(uint64_t));
	if (!c->known || !c->learnt || !c->told)
		return -ENOMEM;
	for (i = 0; i < c->nlanes; i++)
		c->known[(size_t)i * c->words + (size_t)c->lanes[i].rank / 64] |=
			1ull << c->lanes[i].rank % 64;
	memcpy(c->learnt, c->known, (size_t)c->nlanes * c->words * sizeof(uint64_t));
	return 0;
}

int tt_ck_values_init(struct tt_checker *c)
{
	size_t total = 0, used = 0;
	struct ck_buf *b;
	int r, k;

	c->bufs = calloc((size_t)c->n * TT_BUF_NET, sizeof(*c->bufs));
	if (!c->bufs)
		return -ENOMEM;
	for (r = 0; r < c->n; r++)
		for (k = TT_BUF_SEND; k < TT_BUF_NET; k++) {
			b = &c->bufs[r * TT_BUF_NET + k];
			b->n = tt_ck_buf_bytes(c, r, (enum tt_buf)k) / c->args.elem;
			total += b->n;
		}
	c->vals = calloc(total + 1, sizeof(*c->vals));
	c->tmp = calloc(longest_op(c) + 1, sizeof(*c->tmp));
	if (!c->vals || !c->tmp)
		return -ENOMEM;
	for (r = 0; r < c->n * TT_BUF_NET; r++) {
		c->bufs[r].val = c->vals + used;
		used += c->bufs[r].n;
	}
	for (r = 0; r < c->n; r++)
		fill_input(c, r);
	return alloc_knowledge(c);
}

void tt_ck_values_free(struct tt_checker *c)
{
	free(c->bufs);
	free(c->vals);
	free(c->tmp);
	free(c->known);
	free(c->learnt);
	free(c->told);
}

static int fail_unset(const struct tt_checker *c, const struct ck_op *op, struct tt_ref ref,
		      size_t e)
{
	return tt_fail(-EINVAL, "%s: reads byte %zu of %s, which nothing was written to",
		       tt_ck_where(c, op), ref.off + e * c->args.elem, tt_ck_buf_name(ref.buf));
}

int tt_ck_read(const struct tt_checker *c, const struct ck_op *op, struct tt_ref a,
	       struct ck_val *out)
{
	const struct ck_val *v =
		buf_of(c, ck_lane_of(c, op)->rank, a.buf)->val + a.off / c->args.elem;
	size_t e, n = op->op.len / c->args.elem;

	for (e = 0; e < n; e++) {
		if (!v[e].set)
			return fail_unset(c, op, a, e);
		out[e] = v[e];
	}
	return 0;
}

/* a (+) b: order matters, so that only the same operands in the same order give the same tree. */
static struct ck_val combine(const struct ck_val *a, const struct ck_val *b)
{
	return (struct ck_val){.tree = tt_hash_add(tt_hash_add(0xadd, a->tree), b->tree),
			       .sum = a->sum + b->sum,
			       /* a quotient is no operand: make it show in the verdict */
			       .divided = a->divided + b->divided ? 99 : 0,
			       .set = true};
}

static const struct ck_val *operand(const struct tt_checker *c, const struct ck_op *op,
				    struct tt_ref ref, const struct ck_val *net)
{
	if (ref.buf == TT_BUF_NET)
		return net;
	return buf_of(c, ck_lane_of(c, op)->rank, ref.buf)->val + ref.off / c->args.elem;
}

static int apply_reduce(struct tt_checker *c, const struct ck_op *op, const struct ck_val *net,
			struct ck_val *dst)
{
	const struct ck_val *a = operand(c, op, op->op.a, net), *b = operand(c, op, op->op.b, net);
	size_t e, n = op->op.len / c->args.elem;

	for (e = 0; e < n; e++) {
		if (!a[e].set || !b[e].set)
			return fail_unset(c, op, a[e].set ? op->op.b : op->op.a, e);
		dst[e] = combine(&a[e], &b[e]);
	}
	return 0;
}

int tt_ck_apply(struct tt_checker *c, const struct ck_op *op, const struct ck_val *net)
{
	struct ck_val *dst = buf_of(c, ck_lane_of(c, op)->rank, op->op.dst.buf)->val +
			     op->op.dst.off / c->args.elem;
	size_t e, n = op->op.len / c->args.elem;
	int err = 0;

	switch (op->op.kind) {
	case TT_OP_RECV:
		memcpy(dst, net, n * sizeof(*dst));
		break;
	case TT_OP_COPY:
		err = tt_ck_read(c, op, op->op.a, dst);
		break;
	default:
		err = apply_reduce(c, op, net, dst);
		break;
	}
	if (!(op->op.flags & TT_OPF_DIVIDE))
		return err;
	for (e = 0; e < n; e++) {
		dst[e].divided++;
		dst[e].tree = tt_hash_add(dst[e].tree, TREE_DIVIDE);
	}
	return err;
}

/* One rank's result at one element against what all must have. */
static int judge(const struct tt_checker *c, int rank, size_t e, const struct ck_val *v,
		 const struct ck_val *first, uint64_t sum)
{
	/* Dividing by one rank changes nothing, so it may be left out. */
	uint32_t divided = c->args.coll == TT_COLL_ALLREDUCE && c->args.divide && c->n > 1;

	if (!v->set)
		return tt_fail(-EINVAL, "rank %d: element %zu of the result is never written", rank,
			       e);
	if (v->sum != sum && c->args.coll == TT_COLL_BCAST)
		return tt_fail(-EINVAL, "rank %d: element %zu is not the root's", rank, e);
	if (v->sum != sum)
		return tt_fail(-EINVAL,
			       "rank %d: element %zu of the result does not contain every "
			       "rank's contribution exactly once",
			       rank, e);
	if (v->divided != divided)
		return tt_fail(-EINVAL, "rank %d: element %zu of the result is divided %s", rank, e,
			       v->divided ? "too often or too early" : "never");
	if (v->tree != first->tree)
		return tt_fail(-EINVAL,
			       "rank %d: element %zu of the result is combined in another order "
			       "than on rank 0",
			       rank, e);
	return 0;
}

static uint64_t expected_sum(const struct tt_checker *c, size_t e)
{
	uint64_t sum = 0;
	int r;

	if (c->args.coll == TT_COLL_BCAST)
		return input(c->args.root, e).sum;
	for (r = 0; r < c->n; r++)
		sum += input(r, e).sum;
	return sum;
}

static int barrier_verdict(const struct tt_checker *c)
{
	uint64_t seen;
	int rank, other, l;

	for (rank = 0; rank < c->n; rank++)
		for (other = 0; other < c->n; other++) {
			seen = other == rank;
			for (l = c->rank_lanes[rank]; l < c->rank_lanes[rank + 1]; l++)
				seen |= c->known[(size_t)l * c->words + (size_t)other / 64] >>
						other % 64 &
					1;
			if (!seen)
				return tt_fail(-EINVAL,
					       "rank %d may leave the barrier before rank %d "
					       "has entered it",
					       rank, other);
		}
	return 0;
}

int tt_ck_verdict(const struct tt_checker *c)
{
	const struct ck_val *first = buf_of(c, 0, TT_BUF_RECV)->val;
	uint64_t sum;
	size_t e;
	int r, err = 0;

	if (c->args.coll == TT_COLL_BARRIER)
		return barrier_verdict(c);
	for (e = 0; !err && e < c->args.count; e++) {
		sum = expected_sum(c, e);
		for (r = 0; !err && r < c->n; r++)
			err = judge(c, r, e, &buf_of(c, r, TT_BUF_RECV)->val[e], &first[e], sum);
	}
	return err;
}
