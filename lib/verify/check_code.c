/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The checker's encodings. Encoding a value splits it into two: what it decodes to, whose part of
 * the sum is a random number, and what is left for the residual, which has the rest of the sum. So
 * results and residuals add up to all contributions only if every encoding arrives, and every
 * residual is kept, exactly once. Without a residual the whole sum arrives.
 *
 * The cells of an encoding are opaque: an op that decodes them needs all of them, in order, for the
 * part of the vector that they were made for.
 */
#include <errno.h>
#include <stdlib.h>

#include "lib/base/error.h"
#include "lib/base/hash.h"
#include "lib/verify/check_int.h"

/* Of an encoding, or of a sum of lists. */
static size_t coded_len(const struct tt_checker *c, const struct tt_op *op)
{
	return op->kind == TT_OP_MERGE || op->flags & TT_OPF_SUM ? tt_coded_sum(&c->args, op->len)
								 : tt_coded(&c->args, op->len);
}

size_t tt_ck_dst_len(const struct tt_checker *c, const struct tt_op *op)
{
	return op->kind == TT_OP_ENCODE || op->kind == TT_OP_MERGE ? coded_len(c, op) : op->len;
}

size_t tt_ck_a_len(const struct tt_checker *c, const struct tt_op *op)
{
	return op->kind == TT_OP_DECODE || op->kind == TT_OP_DECODE_ADD || op->kind == TT_OP_MERGE
		       ? coded_len(c, op)
		       : op->len;
}

size_t tt_ck_b_len(const struct tt_checker *c, const struct tt_op *op)
{
	if (op->kind == TT_OP_WEIGH && op->b.buf)
		return tt_ck_weigh_len(c, op);
	return op->kind == TT_OP_MERGE ? coded_len(c, op) : op->len;
}

struct ck_val tt_ck_residual(int rank, size_t e)
{
	uint64_t h = tt_hash_add(tt_hash_add(0x4e51d, (uint64_t)rank), e);

	return (struct ck_val){.tree = h, .sum = tt_mix64(h + 1), .set = true};
}

int tt_ck_check_code(const struct tt_checker *c, const struct ck_op *op)
{
	const struct tt_op *o = &op->op;
	size_t unit, place = o->kind == TT_OP_MERGE ? 0 : o->b.off,
		     all = c->args.count * c->args.elem;

	if (!c->args.codec)
		return tt_fail(-EINVAL, "%s: the call has no codec", tt_ck_where(c, op));
	unit = tt_codec_unit(&c->args);
	if (place % unit || place > all || o->len > all - place ||
	    (o->len % unit && place + o->len != all))
		return tt_fail(-EINVAL,
			       "%s: bytes %zu to %zu of the vector are not made of units of %zu",
			       tt_ck_where(c, op), place, place + o->len, unit);
	if ((o->kind == TT_OP_MERGE || o->flags & TT_OPF_SUM) && !c->args.codec->sparse)
		return tt_fail(-EINVAL, "%s: encodings are no lists", tt_ck_where(c, op));
	if (o->kind == TT_OP_MERGE)
		return 0;
	if (o->b.buf && (o->kind != TT_OP_ENCODE || o->b.buf != TT_BUF_RESIDUAL))
		return tt_fail(-EINVAL, "%s: %s is no residual of it", tt_ck_where(c, op),
			       tt_ck_buf_name(o->b.buf));
	return 0;
}

struct tt_ref tt_ck_head(const struct ck_op *op)
{
	return op->op.flags & TT_OPF_VARIES ? op->op.b : TT_NONE;
}

static struct ck_val *at(const struct tt_checker *c, const struct ck_op *op, struct tt_ref ref)
{
	return tt_ck_buf(c, ck_lane_of(c, op)->rank, ref.buf)->val + ref.off / c->args.elem;
}

static int fail_unset(const struct tt_checker *c, const struct ck_op *op, struct tt_ref ref,
		      size_t e)
{
	return tt_fail(-EINVAL, "%s: reads byte %zu of %s, which is not written before",
		       tt_ck_where(c, op), ref.off + e * c->args.elem, tt_ck_buf_name(ref.buf));
}

/* A new one; NULL: no memory. */
static struct ck_coded *new_coded(struct tt_checker *c, const struct tt_op *op)
{
	size_t n = op->len / c->args.elem;
	struct ck_coded *more;

	if (c->ncoded == c->room) {
		more = realloc(c->coded, (2 * (size_t)c->room + 16) * sizeof(*more));
		if (!more)
			return NULL;
		c->coded = more;
		c->room = 2 * c->room + 16;
	}
	more = &c->coded[c->ncoded];
	*more = (struct ck_coded){.val = calloc(n, sizeof(*more->val)),
				  .place = op->kind == TT_OP_MERGE ? 0 : op->b.off,
				  .len = op->len};
	c->ncoded += more->val != NULL;
	return more->val ? more : NULL;
}

/* Splits p into what arrives and what is left, if there is a residual. */
static struct ck_val split(const struct tt_checker *c, const struct ck_op *op, struct ck_val p,
			   size_t e, struct ck_val *residual)
{
	uint64_t h = tt_hash_add(tt_hash_add(0xc0dec, p.tree), op->op.b.off + e);
	struct ck_val arrives = p;

	h = tt_hash_add(h, (uint64_t)ck_lane_of(c, op)->rank);
	arrives.tree = h;
	arrives.quantized++;
	arrives.written = false;
	if (!residual)
		return arrives;
	arrives.sum = tt_mix64(h + 1);
	*residual = (struct ck_val){.tree = tt_hash_add(h, 1),
				    .sum = p.sum - arrives.sum,
				    .set = true,
				    .written = true};
	return arrives;
}

static void write_cells(struct tt_checker *c, const struct ck_op *op, const struct ck_coded *coded)
{
	size_t e, cells = tt_ck_dst_len(c, &op->op) / c->args.elem;
	struct ck_val *dst = at(c, op, op->op.dst);

	for (e = 0; e < cells; e++)
		dst[e] = (struct ck_val){.tree = tt_hash_add(coded->val[0].tree, e),
					 .coded = c->ncoded,
					 .cell = e,
					 .set = true,
					 .written = true};
}

static int encode(struct tt_checker *c, const struct ck_op *op)
{
	struct ck_val *a = at(c, op, op->op.a), p;
	struct ck_val *b = op->op.b.buf ? at(c, op, op->op.b) : NULL;
	struct ck_coded *coded = new_coded(c, &op->op);
	size_t e;

	if (!coded)
		return -ENOMEM;
	for (e = 0; e < op->op.len / c->args.elem; e++) {
		if (!a[e].set || a[e].coded)
			return fail_unset(c, op, op->op.a, e);
		if (b && !b[e].set)
			return fail_unset(c, op, op->op.b, e);
		p = a[e];
		if (b) { /* the residual is no contribution of its own */
			p.tree = tt_hash_add(tt_hash_add(0xadd, p.tree), b[e].tree);
			p.sum += b[e].sum;
		}
		coded->val[e] = split(c, op, p, e, b ? &b[e] : NULL);
	}
	write_cells(c, op, coded);
	return 0;
}

/* The encoding of exactly these elements whose cells are there; NULL: they are not one. */
static const struct ck_coded *coded_at(const struct tt_checker *c, const struct ck_op *op,
				       struct tt_ref ref)
{
	size_t e, cells = tt_ck_a_len(c, &op->op) / c->args.elem;
	size_t place = op->op.kind == TT_OP_MERGE ? 0 : op->op.b.off;
	const struct ck_val *a = at(c, op, ref);
	const struct ck_coded *coded = a[0].coded ? &c->coded[a[0].coded - 1] : NULL;

	if (!coded || coded->place != place || coded->len != op->op.len)
		return NULL;
	for (e = 0; e < cells; e++)
		if (!a[e].set || a[e].coded != a[0].coded || a[e].cell != e)
			return NULL;
	return coded;
}

static int decode(struct tt_checker *c, const struct ck_op *op)
{
	const struct ck_coded *coded = coded_at(c, op, op->op.a);
	struct ck_val *dst = at(c, op, op->op.dst);
	size_t e;

	if (!coded)
		return tt_fail(-EINVAL,
			       "%s: byte %zu of %s is not an encoding of bytes %zu to %zu of the "
			       "vector",
			       tt_ck_where(c, op), op->op.a.off, tt_ck_buf_name(op->op.a.buf),
			       op->op.b.off, op->op.b.off + op->op.len);
	for (e = 0; e < op->op.len / c->args.elem; e++) {
		if (op->op.kind == TT_OP_DECODE_ADD && !dst[e].set)
			return fail_unset(c, op, op->op.dst, e);
		dst[e] = op->op.kind == TT_OP_DECODE_ADD ? tt_ck_combine(&dst[e], &coded->val[e])
							 : coded->val[e];
		dst[e].written = true;
		if (op->op.flags & TT_OPF_DIVIDE)
			tt_ck_divide(&dst[e]);
	}
	return 0;
}

int tt_ck_check_head(const struct tt_checker *c, const struct ck_op *op, const struct ck_val *sent)
{
	size_t e, cells = sizeof(struct tt_coded_head) / c->args.elem, first;
	struct tt_ref ref = tt_ck_head(op);
	const struct ck_val *head;

	if (!ref.buf)
		return 0;
	head = at(c, op, ref);
	first = ((op->op.kind == TT_OP_SEND ? op->op.a.off : op->op.dst.off) - ref.off) /
		c->args.elem;
	for (e = 0; e < cells; e++)
		if (!head[e].set || !head[e].coded || head[e].cell != e ||
		    head[e].coded != sent[0].coded || sent[0].cell != first)
			return tt_fail(-EINVAL,
				       "%s: byte %zu of %s is not the head of what travels",
				       tt_ck_where(c, op), ref.off, tt_ck_buf_name(ref.buf));
	return 0;
}

static int merge(struct tt_checker *c, const struct ck_op *op)
{
	struct ck_coded *sum = new_coded(c, &op->op); /* may move the others */
	const struct ck_coded *a = coded_at(c, op, op->op.a), *b = coded_at(c, op, op->op.b);
	size_t e;

	if (!sum)
		return -ENOMEM;
	if (!a || !b)
		return tt_fail(-EINVAL, "%s: byte %zu of %s is no sum of lists", tt_ck_where(c, op),
			       a ? op->op.b.off : op->op.a.off,
			       tt_ck_buf_name(a ? op->op.b.buf : op->op.a.buf));
	for (e = 0; e < op->op.len / c->args.elem; e++)
		sum->val[e] = tt_ck_combine(&a->val[e], &b->val[e]);
	write_cells(c, op, sum);
	return 0;
}

int tt_ck_code(struct tt_checker *c, const struct ck_op *op)
{
	if (op->op.kind == TT_OP_MERGE)
		return merge(c, op);
	return op->op.kind == TT_OP_ENCODE ? encode(c, op) : decode(c, op);
}

void tt_ck_coded_free(struct tt_checker *c)
{
	uint32_t i;

	for (i = 0; i < c->ncoded; i++)
		free(c->coded[i].val);
	free(c->coded);
}
