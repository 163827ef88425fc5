/* SPDX-License-Identifier: BSD-3-Clause */
/* All-reduces of matrices that travel as factors. */
#include <errno.h>
#include <string.h>

#include "lib/api/api.h"
#include "lib/base/sized.h"
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

/* Ranks compare the shape, not only the number of elements. */
static int sum_matrices(struct tutti_comm *comm, const struct tt_factors *f)
{
	struct tt_call call = {.coll = TT_COLL_ALLREDUCE,
			       .in_place = true,
			       .recvbuf = f->result,
			       .count = f->rows * f->cols,
			       .datatype = TUTTI_FLOAT32,
			       .op = f->op,
			       .shape = (uint64_t)f->rows << 32 ^ f->cols};

	return tt_call_unchecked(comm, &call);
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
	bool dense = false;
	int err = tt_check_waiting(__func__, comm);

	if (!err)
		err = check_factors(comm, &factors);
	if (!err)
		err = tt_factors_run(comm, &factors, &dense);
	return err || !dense ? err : sum_matrices(comm, &factors);
}

/* ---- PowerSGD ---- */

#define POWER_SGD_RANK 4

/* That all arrays of a state fit in memory together. */
static int check_sizes(const struct tutti_power_sgd_config *c)
{
	static const char call[] = "tutti_power_sgd_create";
	size_t r = (size_t)c->rank, total = 0, cells, sides, i;

	for (i = 0; i < c->n; i++) {
		if (too_many(c->rows[i], c->cols[i], 1))
			return tt_fail(-EINVAL,
				       "%s: matrix %zu of %zu x %zu does not fit in memory", call,
				       i, c->rows[i], c->cols[i]);
		cells = c->rows[i] * c->cols[i];
		if (__builtin_add_overflow(c->rows[i], c->cols[i], &sides) ||
		    __builtin_mul_overflow(sides, r, &sides) ||
		    __builtin_add_overflow(cells, sides, &cells) ||
		    __builtin_add_overflow(total, cells, &total) || too_many(total, 4, 1))
			return tt_fail(-EINVAL, "%s: the matrices up to %zu do not fit in memory",
				       call, i);
	}
	return 0;
}

static int check_config(const struct tutti_power_sgd_config *c)
{
	static const char call[] = "tutti_power_sgd_create";

	if (!c->n || c->n > (size_t)PTRDIFF_MAX / sizeof(struct tt_low_matrix) / 2)
		return tt_fail(-EINVAL, "%s: n is %zu matrices", call, c->n);
	if (!c->rows || !c->cols)
		return tt_fail(-EINVAL, "%s: %s is NULL", call, c->rows ? "cols" : "rows");
	if (c->rank < 1 || c->rank > TUTTI_POWER_SGD_RANK_MAX)
		return tt_fail(-EINVAL, "%s: rank is %d; it must be 1 to %d, or 0 for %d", call,
			       c->rank, TUTTI_POWER_SGD_RANK_MAX, POWER_SGD_RANK);
	if (c->pad)
		return tt_fail(-EINVAL, "%s: pad is %d; it must be 0", call, c->pad);
	return check_sizes(c);
}

int tutti_power_sgd_create(struct tutti_comm *comm, const struct tutti_power_sgd_config *config,
			   struct tutti_power_sgd **state)
{
	static const struct tt_sized sized = TT_SIZED("config", tutti_power_sgd_config, seed);
	struct tutti_power_sgd_config own, whole;
	int err = tt_check_comm(comm);

	if (err)
		return err;
	config = tt_sized_read(&sized, __func__, config, &own);
	if (!config)
		return -EINVAL;
	whole = *config;
	whole.rank = whole.rank ? whole.rank : POWER_SGD_RANK;
	err = check_config(&whole);
	if (!err && !state)
		err = tt_fail(-EINVAL, "%s: state is NULL", __func__);
	if (!err)
		err = tt_group_refuse(__func__);
	return err ? err : tt_power_sgd_new(comm, &whole, state);
}

static int check_state(const char *call, const struct tutti_power_sgd *state)
{
	return tt_check_object(call, "state", state, state && state->magic == TT_POWER_SGD_MAGIC,
			       "state of PowerSGD");
}

/* Keeps other calls away until release. */
static int hold(const char *call, struct tutti_power_sgd *state)
{
	if (!atomic_exchange(&state->busy, true))
		return 0;
	return tt_fail(-EBUSY, "%s: another call uses the state; wait for that one first", call);
}

static void release(struct tutti_power_sgd *state)
{
	atomic_store(&state->busy, false);
}

/* For collective calls. */
static int check_use(const char *call, const struct tutti_power_sgd *state,
		     const struct tutti_comm *comm)
{
	int err = tt_check_comm(comm);

	if (!err)
		err = check_state(call, state);
	if (err)
		return err;
	if (state->comm != comm->uid)
		return tt_fail(-EINVAL,
			       "%s: state was made for another communicator; save it, and restore "
			       "it in one that is made for this communicator",
			       call);
	return tt_group_refuse(call);
}

int tutti_power_sgd_free(struct tutti_power_sgd *state)
{
	int err = state ? check_state(__func__, state) : 0;

	if (!state || err)
		return err;
	err = hold(__func__, state);
	if (!err)
		tt_power_sgd_free(state);
	return err;
}

static int check_matrices(const struct tutti_power_sgd *state, float *const *matrices)
{
	static const char call[] = "tutti_power_sgd_allreduce";
	size_t i;

	if (!matrices)
		return tt_fail(-EINVAL, "%s: matrices is NULL", call);
	for (i = 0; i < state->n; i++)
		if (!matrices[i] && state->matrix[i].rows && state->matrix[i].cols)
			return tt_fail(-EINVAL, "%s: matrix %zu is NULL", call, i);
	return 0;
}

int tutti_power_sgd_allreduce(struct tutti_power_sgd *state, float *const *matrices,
			      enum tutti_op op, struct tutti_comm *comm)
{
	int err = check_use(__func__, state, comm);

	if (!err)
		err = check_op(__func__, op);
	if (!err)
		err = check_matrices(state, matrices);
	if (!err)
		err = hold(__func__, state);
	if (err)
		return err;
	err = tt_power_sgd_run(state, matrices, op, comm);
	release(state);
	return err;
}

size_t tutti_power_sgd_elements(const struct tutti_power_sgd *state)
{
	return state && !check_state(__func__, state) ? state->cells + state->qlen : 0;
}

static int check_count(const char *call, const struct tutti_power_sgd *state, size_t count)
{
	if (count == state->cells + state->qlen)
		return 0;
	return tt_fail(-EINVAL, "%s: the state has %zu elements, not %zu", call,
		       state->cells + state->qlen, count);
}

int tutti_power_sgd_save(struct tutti_power_sgd *state, float *to, size_t count)
{
	int err = check_state(__func__, state);

	if (!err)
		err = check_count(__func__, state, count);
	if (!err && count && !to)
		err = tt_fail(-EINVAL, "%s: to is NULL", __func__);
	if (!err)
		err = hold(__func__, state);
	if (err)
		return err;
	if (count)
		memcpy(to, state->e, count * sizeof(*to)); /* and q */
	release(state);
	return 0;
}

int tutti_power_sgd_restore(struct tutti_power_sgd *state, const float *from, size_t count,
			    struct tutti_comm *comm)
{
	int err = check_use(__func__, state, comm);

	if (!err && from)
		err = check_count(__func__, state, count);
	if (!err)
		err = hold(__func__, state);
	if (err)
		return err;
	err = tt_power_sgd_restore(state, from, comm);
	release(state);
	return err;
}
