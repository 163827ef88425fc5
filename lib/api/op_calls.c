/* SPDX-License-Identifier: BSD-3-Clause */
/* User-defined operators. */
#include <errno.h>
#include <string.h>

#include "lib/api/api.h"

int tutti_op_create(struct tutti_context *ctx, tutti_op_fn *fn, void *arg, int commutative,
		    enum tutti_op *op)
{
	const struct tt_userop like = {
		.kind = commutative ? TT_OP_COMMUTES : TT_OP_ORDERED, .fn = fn, .arg = arg};
	int err = tt_check_ctx(ctx);

	if (err)
		return err;
	if (!fn || !op)
		return tt_fail(-EINVAL, "tutti_op_create: %s is NULL", fn ? "op" : "fn");
	return tt_userop_new(ctx, &like, op);
}

int tutti_op_create_premul_sum(struct tutti_context *ctx, const void *scalar,
			       enum tutti_datatype datatype, enum tutti_op *op)
{
	struct tt_userop like = {.kind = TT_OP_PREMUL_SUM, .datatype = datatype};
	size_t size = tutti_datatype_size(datatype);
	int err = tt_check_ctx(ctx);

	if (err)
		return err;
	if (!scalar || !op)
		return tt_fail(-EINVAL, "tutti_op_create_premul_sum: %s is NULL",
			       scalar ? "op" : "scalar");
	if (!size)
		return tt_fail(-EINVAL, "tutti_op_create_premul_sum: %d is not a datatype",
			       (int)datatype);
	if (!tt_reduce_valid(datatype, TUTTI_PROD))
		return tt_fail(-EINVAL,
			       "tutti_op_create_premul_sum: products are not defined for %s",
			       tt_datatype_name(datatype));
	memcpy(like.scalar, scalar, size);
	return tt_userop_new(ctx, &like, op);
}

static int check_local(struct tutti_context *ctx, const void *in, const void *inout, size_t count,
		       enum tutti_datatype datatype, enum tutti_op op)
{
	int err = tt_check_ctx(ctx);

	if (!err)
		err = tt_check_data("tutti_reduce_local", in, count, datatype);
	if (!err)
		err = tt_check_data("tutti_reduce_local", inout, count, datatype);
	if (err || (op > TUTTI_NUM_OPS && op < TUTTI_OP_LIMIT))
		return err;
	if ((unsigned)op >= TUTTI_NUM_OPS)
		return tt_fail(-EINVAL, "tutti_reduce_local: %d is not an operator", (int)op);
	if (op == TUTTI_AVG)
		return tt_fail(-EINVAL, "tutti_reduce_local: avg has no meaning here; use sum");
	if (!tt_reduce_valid(datatype, op))
		return tt_fail(-EINVAL, "tutti_reduce_local: %s is not defined for %s",
			       tt_op_name(op), tt_datatype_name(datatype));
	return 0;
}

int tutti_reduce_local(struct tutti_context *ctx, const void *in, void *inout, size_t count,
		       enum tutti_datatype datatype, enum tutti_op op)
{
	const void *src[] = {in, inout};
	int err = check_local(ctx, in, inout, count, datatype, op);

	if (!err && op > TUTTI_NUM_OPS)
		return tt_userop_apply(ctx, in, inout, count, datatype, op);
	if (!err && count)
		tt_reduce_multi(&inout, 1, src, 2, count, datatype, op, 0, 0);
	return err;
}

int tutti_op_free(struct tutti_context *ctx, enum tutti_op op)
{
	int err = tt_check_ctx(ctx);

	if (err)
		return err;
	if ((unsigned)op < TUTTI_NUM_OPS)
		return tt_fail(-EINVAL, "tutti_op_free: %s was not made by tutti_op_create",
			       tt_op_name(op));
	return tt_userop_free(ctx, op);
}
