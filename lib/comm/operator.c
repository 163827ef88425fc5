/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * User-defined operators. One counter of the process gives their numbers, so a number is never
 * reused, neither by another context nor after a free.
 */
#include <errno.h>
#include <stdlib.h>

#include "lib/comm/comm.h"

static atomic_int next_id = TUTTI_NUM_OPS + 1;

int tt_userop_new(struct tutti_context *ctx, const struct tt_userop *like, enum tutti_op *id)
{
	struct tt_userop *op = malloc(sizeof(*op));
	int number = atomic_fetch_add(&next_id, 1);

	if (!op)
		return tt_fail(-ENOMEM, "no memory for an operator");
	if (number <= TUTTI_NUM_OPS || number >= TUTTI_OP_LIMIT) {
		free(op);
		return tt_fail(-ENOMEM, "no numbers are left for operators");
	}
	*op = *like;
	op->id = (enum tutti_op)number;
	op->users = 0;
	op->freed = false;
	tt_list_init(&op->link);
	tt_wire_lock(ctx->wire);
	tt_list_add(&ctx->ops, &op->link);
	tt_wire_unlock(ctx->wire);
	*id = op->id;
	return 0;
}

struct tt_userop *tt_userop_find(struct tutti_context *ctx, enum tutti_op id)
{
	struct tt_list *l, *tmp;

	tt_list_each(l, tmp, &ctx->ops)
	{
		struct tt_userop *op = tt_container(l, struct tt_userop, link);

		if (op->id == id && !op->freed)
			return op;
	}
	if (id > TUTTI_NUM_OPS && (int)id < atomic_load(&next_id))
		tt_fail(-EINVAL, "operator %d has been freed, or belongs to another context",
			(int)id);
	else
		tt_fail(-EINVAL, "%d is not an operator", (int)id);
	return NULL;
}

int tt_userop_apply(struct tutti_context *ctx, const void *in, void *inout, size_t count,
		    enum tutti_datatype datatype, enum tutti_op id)
{
	const struct tt_userop *op;
	struct tt_userop copy;

	tt_wire_lock(ctx->wire);
	op = tt_userop_find(ctx, id);
	if (op)
		copy = *op;
	tt_wire_unlock(ctx->wire);
	if (!op)
		return -EINVAL;
	if (copy.kind == TT_OP_PREMUL_SUM)
		return tt_fail(-EINVAL,
			       "tutti_reduce_local: a premultiplied sum has no meaning here");
	if (count)
		copy.fn(in, inout, count, datatype, copy.arg);
	return 0;
}

static void unlink_and_free(struct tt_userop *op)
{
	tt_list_del(&op->link);
	free(op);
}

int tt_userop_free(struct tutti_context *ctx, enum tutti_op id)
{
	struct tt_userop *op;
	int err = 0;

	tt_wire_lock(ctx->wire);
	op = tt_userop_find(ctx, id);
	if (!op)
		err = -EINVAL;
	else if (op->users)
		op->freed = true;
	else
		unlink_and_free(op);
	tt_wire_unlock(ctx->wire);
	return err;
}

void tt_userop_put(struct tt_userop *op)
{
	if (!--op->users && op->freed)
		unlink_and_free(op);
}

void tt_userop_free_all(struct tutti_context *ctx)
{
	while (!tt_list_empty(&ctx->ops))
		unlink_and_free(tt_container(ctx->ops.next, struct tt_userop, link));
}
