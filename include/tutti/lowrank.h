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

#ifdef __cplusplus
}
#endif
#pragma GCC visibility pop
#endif
