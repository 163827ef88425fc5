/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * PowerSGD: one step of subspace iteration for each call, with error feedback and warm start.
 *
 *	M = G + E on each rank; Q orthonormal, the same on all ranks
 *	P = M Q             all-reduce, for all matrices at once, with all vectors
 *	P orthonormalized
 *	Q = transposed M P  all-reduce, for all matrices at once
 *	H = P transposed Q  the result; E = M - H / n (of an average: M - H)
 *	Q orthonormalized   for the next call
 *
 * P and Q are kept transposed: r rows. A rank sends r (rows + cols) elements where an all-reduce
 * of the matrix sends rows cols. M takes the place of G in the caller's memory, and E and Q change
 * at the end only, so a call that fails leaves the state as it was.
 *
 * A matrix with a value that is not finite on any rank becomes NaN on all ranks and keeps E and Q:
 * such a value makes its row of P not finite, in the sum of all ranks, too. So does a matrix whose
 * H might overflow: P has no element above 1, so r times the largest of Q bounds those of H.
 *
 * T. Vogels, S. P. Karimireddy and M. Jaggi, "PowerSGD: Practical Low-Rank Gradient Compression for
 * Distributed Optimization", NeurIPS 2019.
 */
#include "lib/lowrank/lowrank.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "lib/lowrank/matrix.h"

/* No element is beyond most, or not a number. */
static bool all_within(const float *v, size_t n, float most)
{
	size_t i;

	for (i = 0; i < n && fabsf(v[i]) <= most; i++)
		;
	return i == n;
}

/* psum: P of matrices, and the others as they are. */
static void project_all(struct tutti_power_sgd *s, float *const *matrices)
{
	const struct tt_low_matrix *m;
	size_t i;

	for (i = 0; i < s->n; i++) {
		m = &s->matrix[i];
		if (m->low)
			tt_matrix_kernels()->project(&(struct tt_project){.m = matrices[i],
									  .e = s->e + m->e,
									  .q = s->q + m->q,
									  .rows = m->rows,
									  .cols = m->cols,
									  .rank = s->rank,
									  .to = s->psum + m->p});
		else if (m->rows && m->cols)
			memcpy(s->psum + m->p, matrices[i], m->rows * m->cols * sizeof(float));
	}
}

/* qsum of one matrix from M and its P, which becomes orthonormal. */
static void multiply(struct tutti_power_sgd *s, const struct tt_low_matrix *m, const float *matrix)
{
	size_t r = (size_t)s->rank, i, j;
	float *p = s->psum + m->p;

	tt_matrix_orthonormalize(p, m->rows, s->rank);
	for (j = 0; j < r; j++)
		for (i = 0; i < m->rows; i++)
			s->room[i * r + j] = p[j * m->rows + i];
	tt_matrix_kernels()->outer(&(struct tt_outer){.u = s->room,
						      .v = matrix,
						      .ustep = r,
						      .out = s->qsum + m->q,
						      .rows = r,
						      .cols = m->cols,
						      .k = m->rows,
						      .divisor = 1,
						      .room = s->outer});
}

/* The others are done; matrices with a value that is not finite are marked. */
static void multiply_all(struct tutti_power_sgd *s, float *const *matrices)
{
	struct tt_low_matrix *m;
	size_t i, len;

	for (i = 0; i < s->n; i++) {
		m = &s->matrix[i];
		len = m->low ? (size_t)s->rank * m->rows : m->rows * m->cols;
		if (!m->low && len)
			memcpy(matrices[i], s->psum + m->p, len * sizeof(float));
		m->bad = m->low && !all_within(s->psum + m->p, len, FLT_MAX);
		if (m->bad)
			memset(s->qsum + m->q, 0, (size_t)s->rank * m->cols * sizeof(float));
		else if (m->low)
			multiply(s, m, matrices[i]);
	}
}

/* H takes the place of M, and the rest that of E. */
static void settle(struct tutti_power_sgd *s, const struct tt_low_matrix *m, float *matrix,
		   float divisor)
{
	struct tt_outer strip = {.v = s->qsum + m->q,
				 .ustep = m->rows,
				 .out = s->room,
				 .cols = m->cols,
				 .k = (size_t)s->rank,
				 .divisor = 1,
				 .room = s->outer};
	size_t row, at, len;

	for (row = 0; row < m->rows; row += strip.rows) {
		strip.rows =
			m->rows - row < TT_POWER_SGD_STRIP ? m->rows - row : TT_POWER_SGD_STRIP;
		strip.u = s->psum + m->p + row;
		at = row * m->cols;
		len = strip.rows * m->cols;
		tt_matrix_kernels()->outer(&strip);
		tt_matrix_kernels()->settle(matrix + at, s->room, s->e + m->e + at, len, divisor);
	}
}

static void spoil(float *matrix, size_t n)
{
	size_t i;

	for (i = 0; i < n; i++)
		matrix[i] = NAN;
}

static void settle_all(struct tutti_power_sgd *s, float *const *matrices, float divisor)
{
	const float most = FLT_MAX / (float)(2 * s->rank); /* for H and E to be finite, too */
	size_t i, len;
	struct tt_low_matrix *m;

	for (i = 0; i < s->n; i++) {
		m = &s->matrix[i];
		len = (size_t)s->rank * m->cols;
		if (!m->low)
			continue;
		if (m->bad || !all_within(s->qsum + m->q, len, most)) {
			spoil(matrices[i], m->rows * m->cols);
			memcpy(s->qsum + m->q, s->q + m->q, len * sizeof(float));
		} else {
			settle(s, m, matrices[i], divisor);
		}
	}
}

int tt_power_sgd_run(struct tutti_power_sgd *s, float *const *matrices, enum tutti_op op,
		     struct tutti_comm *comm)
{
	int err;

	project_all(s, matrices);
	err = tutti_allreduce(TUTTI_IN_PLACE, s->psum, s->plen, TUTTI_FLOAT32, op, comm);
	if (err)
		return err;
	multiply_all(s, matrices);
	err = tutti_allreduce(TUTTI_IN_PLACE, s->qsum, s->qlen, TUTTI_FLOAT32, op, comm);
	if (err)
		return err;
	settle_all(s, matrices, op == TUTTI_AVG ? 1 : (float)comm->size);
	memcpy(s->q, s->qsum, s->qlen * sizeof(*s->q));
	tt_power_sgd_orthonormalize(s, s->q);
	return 0;
}
