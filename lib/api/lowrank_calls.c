/* SPDX-License-Identifier: BSD-3-Clause */
/* All-reduces of matrices that travel as factors. */
#include <errno.h>

#include "lib/api/api.h"
#include "lib/lowrank/lowrank.h"

/* a * b * c elements of float32 do not fit in memory. */
static bool too_many(size_t a, size_t b, size_t c)
{
	size_t n;

	return __builtin_mul_overflow(a, b, &n) || __builtin_mul_overflow(n, c, &n) ||
	       n > (size_t)PTRDIFF_MAX / sizeof(float);
}

static bool overlap(const float *a, size_t alen, const float *b, size_t blen)
{
	uintptr_t x = (uintptr_t)a, y = (uintptr_t)b;

	return alen && blen && x < y + blen * sizeof(float) && y < x + alen * sizeof(float);
}

static int check_op(const char *call, enum tutti_op op)
{
	return op == TUTTI_SUM || op == TUTTI_AVG
		       ? 0
		       : tt_fail(-EINVAL, "%s: op must be sum or avg", call);
}

static int check_shape(const struct tutti_comm *comm, const struct tt_factors *f)
{
	static const char call[] = "tutti_allreduce_factors";
	size_t n = (size_t)comm->size, sum;

	if (too_many(f->rows, f->cols, 1))
		return tt_fail(-EINVAL, "%s: a matrix of %zu x %zu does not fit in memory", call,
			       f->rows, f->cols);
	if (__builtin_add_overflow(f->rows, f->cols, &sum) || too_many(f->k, sum, n + 1))
		return tt_fail(-EINVAL,
			       "%s: %zu outer products of %zu and %zu elements from each of %zu "
			       "ranks do not fit in memory",
			       call, f->k, f->rows, f->cols, n);
	if (f->k > TUTTI_OPAQUE_MAX / sizeof(float) && f->flags & TUTTI_FACTORS_GATHER)
		return tt_fail(-EINVAL, "%s: at most %zu outer products travel as factors, not %zu",
			       call, TUTTI_OPAQUE_MAX / sizeof(float), f->k);
	return 0;
}

static int check_factors(const struct tutti_comm *comm, const struct tt_factors *f)
{
	static const char call[] = "tutti_allreduce_factors";
	const unsigned known = TUTTI_FACTORS_GATHER | TUTTI_FACTORS_DENSE;
	size_t cells;
	int err;

	if (f->flags & ~known || f->flags == known)
		return tt_fail(-EINVAL,
			       "%s: flags is 0x%x; it must be 0, TUTTI_FACTORS_GATHER or "
			       "TUTTI_FACTORS_DENSE",
			       call, f->flags);
	err = check_op(call, f->op);
	if (!err)
		err = check_shape(comm, f);
	if (err)
		return err;
	cells = f->rows * f->cols;
	if ((f->k && f->rows && !f->u) || (f->k && f->cols && !f->v) || (cells && !f->result))
		return tt_fail(-EINVAL, "%s: %s is NULL", call,
			       cells && !f->result ? "result"
			       : f->u		   ? "v"
						   : "u");
	if (overlap(f->result, cells, f->u, f->k * f->rows) ||
	    overlap(f->result, cells, f->v, f->k * f->cols))
		return tt_fail(-EINVAL, "%s: result overlaps u or v", call);
	return 0;
}

int tutti_allreduce_factors(const float *u, const float *v, float *result, size_t rows, size_t cols,
			    size_t k, enum tutti_op op, unsigned flags, struct tutti_comm *comm)
{
	struct tt_factors factors = {.u = u,
				     .v = v,
				     .result = result,
				     .rows = rows,
				     .cols = cols,
				     .k = k,
				     .op = op,
				     .flags = flags};
	int err = tt_check_comm(comm);

	if (!err)
		err = tt_group_refuse("tutti_allreduce_factors");
	if (!err)
		err = check_factors(comm, &factors);
	return err ? err : tt_factors_run(comm, &factors);
}
