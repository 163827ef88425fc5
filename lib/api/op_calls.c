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
	memcpy(like.scalar, scalar, size);
	return tt_userop_new(ctx, &like, op);
}

int tutti_op_free(struct tutti_context *ctx, enum tutti_op *op)
{
	int err = tt_check_ctx(ctx);

	if (err)
		return err;
	if (!op)
		return tt_fail(-EINVAL, "tutti_op_free: op is NULL");
	if ((unsigned)*op < TUTTI_NUM_OPS)
		return tt_fail(-EINVAL, "tutti_op_free: %s was not made by tutti_op_create",
			       tt_op_name(*op));
	err = tt_userop_free(ctx, *op);
	if (!err)
		*op = TUTTI_OP_LIMIT;
	return err;
}
