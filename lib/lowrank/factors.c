/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The sum over n ranks of a matrix of M x N that is K outer products on each of them.
 *
 *	gathered: two all-gathers, (n-1) K (M+N) elements sent by a rank; n K M N multiplications
 *	dense:    K M N multiplications; an all-reduce of M N elements
 *
 * Gathered, every rank adds the products of rank 0, 1 ... in this order, so all have the same bits.
 * Ranks compare the elements and counts of all-gathers. Elements of K values, M and N of them, let
 * them find ranks with another K, M or N; averages gather v as single values, so that ranks with
 * another op are found, too. The all-reduce of a dense sum compares M and N, see lib/api.
 *
 * H. Zhang et al., "Poseidon: An Efficient Communication Architecture for Distributed Deep Learning
 * on GPU Clusters", USENIX ATC 2017 (sufficient factor broadcasting).
 */
#include "lib/lowrank/lowrank.h"

#include "lib/lowrank/matrix.h"

/* ns of a processor for a product and its addition: 0.06 with vectors of 16 bytes, else 0.03 */
#define TERM_NS 0.05

/* The estimated time of a collective. */
static double time_of(const struct tutti_comm *comm, enum tt_coll coll, size_t count, size_t elem)
{
	struct tt_plan_args args = {.coll = coll,
				    .rank = comm->rank,
				    .nranks = comm->size,
				    .count = count,
				    .elem = elem};
	struct tt_candidate list[TT_CANDIDATES];
	int n;

	tt_comm_place(comm, &args);
	n = tt_candidates(comm->chooser, &args, list, TT_CANDIDATES);
	return list[tt_pick(comm->chooser, &args, list, n)].time;
}

/* The elements of an all-gather; 0 bytes are no element. */
static enum tutti_datatype vector_type(size_t k)
{
	return k ? TUTTI_OPAQUE(k * sizeof(float)) : TUTTI_FLOAT32;
}

int tt_factors_gather(struct tutti_comm *comm, const struct tt_factors *f, bool *gather)
{
	size_t elem = (f->k ? f->k : 1) * sizeof(float), cells = f->rows * f->cols;
	double term = TERM_NS * (double)cells * (double)f->k, dense, gathered;
	struct tt_wire_spread spread;
	int err;

	*gather = f->flags & TUTTI_FACTORS_GATHER;
	if (f->flags || elem > TUTTI_OPAQUE_MAX)
		return 0;
	err = tt_wire_spread(comm->ctx->wire, comm->world, comm->size, &spread);
	if (err)
		return err;
	if (spread.most > spread.cpus && spread.cpus > 0) /* ranks that share a processor */
		term *= (double)spread.most / spread.cpus;
	gathered = time_of(comm, TT_COLL_ALLGATHER, f->rows, elem) +
		   time_of(comm, TT_COLL_ALLGATHER, f->cols, elem) + comm->size * term;
	dense = time_of(comm, TT_COLL_ALLREDUCE, cells, sizeof(float)) + term;
	*gather = gathered < dense;
	return 0;
}

static int multiply_own(const struct tt_factors *f)
{
	return tt_matrix_outer((struct tt_outer){.u = f->u,
						 .v = f->v,
						 .ustep = f->rows,
						 .out = f->result,
						 .rows = f->rows,
						 .cols = f->cols,
						 .k = f->k,
						 .divisor = 1});
}

/* Both at once; returns when neither is under way. */
static int gather_both(struct tutti_comm *comm, const struct tt_factors *f, float *u, float *v)
{
	enum tutti_datatype type = vector_type(f->k);
	size_t rows = f->k ? f->rows : 0, cols = f->k ? f->cols : 0;
	struct tutti_request *first, *second;
	int err, err_second;

	err = tutti_iallgather(f->u, u, rows, type, comm, &first);
	if (err)
		return err;
	if (f->op == TUTTI_AVG)
		err_second = tutti_iallgather(f->v, v, f->k * cols, TUTTI_FLOAT32, comm, &second);
	else
		err_second = tutti_iallgather(f->v, v, cols, type, comm, &second);
	if (!err_second)
		err_second = tutti_wait(&second);
	err = tutti_wait(&first);
	return err ? err : err_second;
}

static int run_gathered(struct tutti_comm *comm, const struct tt_factors *f)
{
	size_t k = f->k * (size_t)comm->size, ulen = k * f->rows, len = ulen + k * f->cols;
	void *room;
	int err = tutti_alloc(comm->ctx, (len + 1) * sizeof(float), &room);
	float *u = room, *v;

	if (err)
		return err;
	v = u + ulen;
	err = gather_both(comm, f, u, v);
	if (!err)
		err = tt_matrix_outer(
			(struct tt_outer){.u = u,
					  .v = v,
					  .ustep = f->rows,
					  .out = f->result,
					  .rows = f->rows,
					  .cols = f->cols,
					  .k = k,
					  .divisor = f->op == TUTTI_AVG ? (float)comm->size : 1});
	tutti_free(room);
	return err;
}

int tt_factors_run(struct tutti_comm *comm, const struct tt_factors *f, bool *dense)
{
	bool gather;
	int err = tt_factors_gather(comm, f, &gather);

	*dense = !gather;
	if (err)
		return err;
	return gather ? run_gathered(comm, f) : multiply_own(f);
}
