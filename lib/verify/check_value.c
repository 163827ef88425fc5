/* SPDX-License-Identifier: BSD-3-Clause */
/* The checker's symbolic values: the initial contents of buffers, and the effect of each op. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/error.h"
#include "lib/base/hash.h"
#include "lib/verify/check_int.h"

#define TREE_DIVIDE 0xd1f1de5ull

struct ck_buf *tt_ck_buf(const struct tt_checker *c, int rank, enum tt_buf buf)
{
	return &c->bufs[rank * TT_BUF_NET + (int)ck_real(c, rank, buf)];
}

struct ck_val tt_ck_input(int rank, size_t e)
{
	uint64_t h = tt_hash_add(tt_hash_add(0x7a77, (uint64_t)rank), e);

	return (struct ck_val){
		.tree = h, .sum = tt_mix64(h + 1), .lo = rank, .hi = rank + 1, .set = true};
}

/* len bytes of the rank's input from its byte first; all of it begins at from. */
static void fill_part(const struct tt_checker *c, int rank, struct tt_ref from, size_t first,
		      size_t len)
{
	struct ck_val *val = tt_ck_buf(c, rank, from.buf)->val + from.off / c->args.elem;
	size_t e;

	for (e = first / c->args.elem; e < (first + len) / c->args.elem; e++)
		val[e] = tt_ck_input(rank, e);
}

static void fill_input(const struct tt_checker *c, int rank)
{
	const struct tt_plan_args *a = &c->plans[rank]->args;
	struct tt_ref from = tt_input(a);
	struct tt_span s;
	size_t e;
	int i;

	switch (a->coll) {
	case TT_COLL_BARRIER: /* its bytes mean nothing, so any will do */
		for (e = 0; e < tt_ck_buf(c, rank, TT_BUF_SCRATCH)->n; e++)
			tt_ck_buf(c, rank, TT_BUF_SCRATCH)->val[e].set = true;
		break;
	case TT_COLL_BCAST:
		fill_part(c, rank, from, 0, rank == a->root ? a->count * a->elem : 0);
		break;
	case TT_COLL_SCATTERV: /* between the blocks there is nothing anyone may read */
	case TT_COLL_ALLTOALLV:
		for (i = 0; i < c->n && tt_send_bytes(a); i++) {
			s = tt_send_block(a, i);
			fill_part(c, rank, from, s.off, s.len);
		}
		break;
	default:
		fill_part(c, rank, from, 0, tt_send_bytes(a));
		break;
	}
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
	size_t total = 0, used = 0, e;
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
	for (r = 0; r < c->n; r++) {
		fill_input(c, r);
		b = tt_ck_buf(c, r, TT_BUF_RESIDUAL);
		for (e = 0; e < b->n; e++)
			b->val[e] = tt_ck_residual(r, e);
	}
	return alloc_knowledge(c);
}

void tt_ck_values_free(struct tt_checker *c)
{
	tt_ck_coded_free(c);
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
	return tt_fail(-EINVAL, "%s: reads byte %zu of %s, which is not written before",
		       tt_ck_where(c, op), ref.off + e * c->args.elem, tt_ck_buf_name(ref.buf));
}

int tt_ck_read(const struct tt_checker *c, const struct ck_op *op, struct tt_ref a,
	       struct ck_val *out)
{
	const struct ck_val *v =
		tt_ck_buf(c, ck_lane_of(c, op)->rank, a.buf)->val + a.off / c->args.elem;
	size_t e, n = op->op.len / c->args.elem;

	for (e = 0; e < n; e++) {
		if (!v[e].set)
			return fail_unset(c, op, a, e);
		out[e] = v[e];
	}
	return tt_ck_check_head(c, op, out);
}

/* a (+) b: order matters, so that only the same operands in the same order give the same tree. */
struct ck_val tt_ck_combine(const struct ck_val *a, const struct ck_val *b)
{
	bool next = a->hi && a->hi == b->lo;

	return (struct ck_val){.tree = tt_hash_add(tt_hash_add(0xadd, a->tree), b->tree),
			       .sum = a->sum + b->sum,
			       .lo = next ? a->lo : 0,
			       .hi = next ? b->hi : 0,
			       .quantized =
				       a->quantized > b->quantized ? a->quantized : b->quantized,
			       /* a quotient is no operand: make it show in the verdict */
			       .divided = a->divided + b->divided ? 99 : 0,
			       .set = true};
}

void tt_ck_divide(struct ck_val *v)
{
	v->divided++;
	v->tree = tt_hash_add(v->tree, TREE_DIVIDE);
}

static const struct ck_val *operand(const struct tt_checker *c, const struct ck_op *op,
				    struct tt_ref ref, const struct ck_val *net)
{
	if (ref.buf == TT_BUF_NET)
		return net;
	return tt_ck_buf(c, ck_lane_of(c, op)->rank, ref.buf)->val + ref.off / c->args.elem;
}

static int apply_reduce(struct tt_checker *c, const struct ck_op *op, const struct ck_val *net,
			struct ck_val *dst)
{
	const struct ck_val *a = operand(c, op, op->op.a, net), *b = operand(c, op, op->op.b, net);
	size_t e, n = op->op.len / c->args.elem;

	for (e = 0; e < n; e++) {
		if (!a[e].set || a[e].coded || !b[e].set || b[e].coded)
			return fail_unset(c, op, a[e].set && !a[e].coded ? op->op.b : op->op.a, e);
		dst[e] = tt_ck_combine(&a[e], &b[e]);
	}
	return 0;
}

int tt_ck_apply(struct tt_checker *c, const struct ck_op *op, const struct ck_val *net)
{
	struct ck_val *dst = tt_ck_buf(c, ck_lane_of(c, op)->rank, op->op.dst.buf)->val +
			     op->op.dst.off / c->args.elem;
	size_t e, n = op->op.len / c->args.elem;
	int err = 0;

	if (ck_is_code(&op->op))
		return tt_ck_code(c, op);
	switch (op->op.kind) {
	case TT_OP_RECV:
		err = tt_ck_check_head(c, op, net);
		memcpy(dst, net, n * sizeof(*dst));
		break;
	case TT_OP_COPY:
		err = tt_ck_read(c, op, op->op.a, dst);
		break;
	case TT_OP_WEIGH:
		err = tt_ck_weigh(c, op);
		break;
	default:
		err = apply_reduce(c, op, net, dst);
		break;
	}
	for (e = 0; e < n; e++) {
		dst[e].written = true;
		if (op->op.flags & TT_OPF_DIVIDE)
			tt_ck_divide(&dst[e]);
	}
	return err;
}
