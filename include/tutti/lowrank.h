/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * All-reduces of matrices that travel as factors of low rank.
 *
 * Matrices are float32, row by row, without gaps. The calls compose collectives of this library,
 * block, and cannot be in a group of calls.
 */
#ifndef TUTTI_LOWRANK_H
#define TUTTI_LOWRANK_H

#include <tutti/coll.h>

#pragma GCC visibility push(default)
#ifdef __cplusplus
extern "C" {
#endif

#define TUTTI_FACTORS_GATHER 1u /* flags of tutti_allreduce_factors: the factors travel */
#define TUTTI_FACTORS_DENSE 2u	/* the matrix travels */

/**
 * tutti_allreduce_factors - sum or average over the ranks of the matrix of rows x cols that is the
 * sum of k outer products on each of them:
 *
 *	result[i][j] = sum over ranks, then over l < k, of u[l][i] * v[l][j]
 *
 * u: k x rows; v: k x cols; result: rows x cols, apart from u and v. A linear layer's gradient is
 * of this form: l is an example of the batch, u the gradients of the outputs, v the inputs. All
 * ranks pass the same rows, cols, k, op and flags.
 *
 * flags 0: each rank sends k * (rows + cols) elements to each other rank, or the matrix, by the
 * estimated time. The bits of the result are the same on all ranks.
 */
int tutti_allreduce_factors(const float *u, const float *v, float *result, size_t rows, size_t cols,
			    size_t k, enum tutti_op op, unsigned flags, struct tutti_comm *comm);

/*
 * PowerSGD: gradients of matrices are summed as approximations of rank r, with error feedback. A
 * state belongs to a communicator and a list of matrices.
 */
struct tutti_power_sgd;

struct tutti_power_sgd_config {
	size_t size;		   /* sizeof(struct tutti_power_sgd_config) */
	size_t n;		   /* matrices, at least 1 */
	const size_t *rows, *cols; /* of each; copied. A vector has one row or one column. */
	int rank;		   /* r, 1 to TUTTI_POWER_SGD_RANK_MAX; 0: 4 */
	int pad;		   /* 0 */
	uint64_t seed;		   /* of the first approximation */
};
#define TUTTI_POWER_SGD_RANK_MAX 256

/**
 * tutti_power_sgd_create - make a state, with residuals 0. Collective: all ranks pass the same
 * config. Matrices with r * (rows + cols) < rows * cols are approximated, all others travel as they
 * are.
 */
int tutti_power_sgd_create(struct tutti_comm *comm, const struct tutti_power_sgd_config *config,
			   struct tutti_power_sgd **state);
/** tutti_power_sgd_free - free a state, before its context ends. Local. NULL is no error. */
int tutti_power_sgd_free(struct tutti_power_sgd *state);
/**
 * tutti_power_sgd_allreduce - sum or average matrices[0 .. n - 1], which have the state's shapes,
 * in place. Two all-reduces, whatever n. The bits are the same on all ranks. What a result leaves
 * out is added to this rank's matrix of the next call.
 */
int tutti_power_sgd_allreduce(struct tutti_power_sgd *state, float *const *matrices,
			      enum tutti_op op, struct tutti_comm *comm);
/** tutti_power_sgd_elements - float32 in a saved state; 0 for NULL. Local. */
size_t tutti_power_sgd_elements(const struct tutti_power_sgd *state);
/**
 * tutti_power_sgd_save - copy a state to count = tutti_power_sgd_elements float32 at to: the
 * residuals, matrix by matrix, then the approximations, which are the same on all ranks. Local.
 */
int tutti_power_sgd_save(struct tutti_power_sgd *state, float *to, size_t count);
/**
 * tutti_power_sgd_restore - set this rank's residuals to saved ones, and all ranks' approximations
 * to those of rank 0; from NULL, on any rank: as a new state. Collective.
 */
int tutti_power_sgd_restore(struct tutti_power_sgd *state, const float *from, size_t count,
			    struct tutti_comm *comm);

#ifdef __cplusplus
}
#endif
#pragma GCC visibility pop
#endif
