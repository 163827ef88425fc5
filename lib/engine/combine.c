/* SPDX-License-Identifier: BSD-3-Clause */
/* Reductions by a request's operator: a kernel of lib/reduce, or a user-defined function. */
#include <string.h>

#include "lib/base/copy.h"
#include "lib/engine/engine.h"

#define PIECE TT_REDUCE_ELEM_MAX /* bytes on the stack: an element at least */

static void count_copy(struct tt_plan_req *req, size_t bytes)
{
	tt_wire_stats(req->r.comm->ctx->wire)->copied_bytes += bytes;
}

/* The function overwrites its second operand, so an operand that must not change is copied. */
static void apply(struct tt_plan_req *req, char *dst, const char *a, const char *b, size_t count)
{
	const struct tt_userop *user = req->user;
	_Alignas(64) char copy[PIECE];
	size_t bytes = count * req->elem, most = PIECE - PIECE % req->elem, done, len;

	if (dst != a) {
		if (dst != b) {
			tt_copy_data(dst, b, bytes);
			count_copy(req, bytes);
		}
		user->fn(a, dst, count, req->datatype, user->arg);
		return;
	}
	if (user->kind == TT_OP_COMMUTES && b != dst) {
		user->fn(b, dst, count, req->datatype, user->arg);
		return;
	}
	for (done = 0; done < bytes; done += len) {
		len = bytes - done < most ? bytes - done : most;
		tt_copy_data(copy, b + done, len);
		user->fn(a + done, copy, len / req->elem, req->datatype, user->arg);
		tt_copy_data(dst + done, copy, len);
		count_copy(req, 2 * len);
	}
}

void tt_combine(struct tt_plan_req *req, void *dst, const void *a, const void *b, size_t count,
		int divide_by)
{
	const void *src[] = {a, b};

	if (req->user && req->user->kind != TT_OP_PREMUL_SUM)
		apply(req, dst, a, b, count);
	else
		tt_reduce_multi(&dst, 1, src, 2, count, req->datatype, req->op, divide_by, 0);
}

/* The weight of operand i; this rank's own is operand own. */
static double weight_of(const struct tt_plan_args *a, const struct tt_op *op, int i, int own)
{
	const struct tt_edges *edges = a->edges;
	int rank = tt_edges_rank(a);

	if (op->flags & TT_OPF_HOST)
		return 1.0 / (op->peer + 1);
	return i == own ? edges->own[rank]
			: edges->weight[edges->in_at[rank] + (size_t)(i - (i > own))];
}

/* How many of the other operands come before this rank's own. */
static int own_turn(const struct tt_plan_args *a, const struct tt_op *op)
{
	int rank = tt_edges_rank(a), own = 0;

	if (op->flags & TT_OPF_HOST)
		return a->hosts->local[a->rank];
	while (own < op->peer && a->edges->in[a->edges->in_at[rank] + (size_t)own] < rank)
		own++;
	return own;
}

void tt_combine_weigh(struct tt_plan_req *req, const struct tt_op *op)
{
	const struct tt_plan_args *a = &req->plan->args;
	int own = own_turn(a, op), i, k;

	for (i = 0; i <= op->peer; i++) {
		k = i - (i > own);
		req->weight[i] = weight_of(a, op, i, own);
		req->src[i] = i == own ? req->base[op->a.buf] + op->a.off
				       : req->base[op->b.buf] + op->b.off +
						 (size_t)k * op->index * req->elem;
	}
	tt_reduce_weigh(req->base[op->dst.buf] + op->dst.off, req->src, req->weight, op->peer + 1,
			op->len / req->elem, req->datatype);
	tt_wire_stats(req->r.comm->ctx->wire)->reduced_bytes += op->len;
}

void tt_combine_scale(struct tt_plan_req *req)
{
	const struct tt_plan_args *a = &req->plan->args;
	size_t bytes = tt_send_bytes(a);

	tt_reduce_scale(req->base[TT_BUF_SEND], req->unscaled, bytes / req->elem, req->datatype,
			req->user->scalar);
	tt_wire_lock(req->r.comm->ctx->wire);
	tt_wire_stats(req->r.comm->ctx->wire)->reduced_bytes += bytes;
	tt_wire_unlock(req->r.comm->ctx->wire);
}
