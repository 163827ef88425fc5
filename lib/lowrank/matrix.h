/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Loops over matrices of float32, one set for each instruction level of lib/reduce, all with the
 * same bits: every step is one IEEE operation, rounded separately, in a fixed order.
 */
#ifndef TT_MATRIX_H
#define TT_MATRIX_H

#include <stddef.h>

/* A sum of outer products: out[i][j] = (u[0][i] * v[0][j] + u[1][i] * v[1][j] + ...) / divisor */
struct tt_outer {
	const float *u, *v; /* k x rows, k x cols */
	size_t ustep;	    /* elements from one row of u to the next; those of v have no gaps */
	float *out;	    /* rows x cols */
	size_t rows, cols, k;
	float divisor;
	float *room; /* TT_OUTER_ROOM floats, aligned to 64 bytes */
};

/* Packed parts of u and v: so many outer products at once, of so many rows and columns. */
#define TT_OUTER_DEPTH 128
#define TT_OUTER_ROWS 240 /* a multiple of the rows of a tile */
#define TT_OUTER_COLS 64  /* the most columns of a tile */
#define TT_OUTER_ROOM ((TT_OUTER_ROWS + TT_OUTER_COLS) * TT_OUTER_DEPTH)

/* m += e, then to[j * rows + i] = the product of row i of m and row j of q, for j < rank. */
struct tt_project {
	float *m;
	const float *e, *q; /* rows x cols, rank x cols */
	size_t rows, cols;
	int rank;
	float *to;
};

struct tt_matrix_kernels {
	void (*outer)(const struct tt_outer *outer);
	void (*project)(const struct tt_project *project);
	/* h is sent of m: e = m - h / divisor, m = h. */
	void (*settle)(float *m, const float *h, float *e, size_t n, float divisor);
};

extern const struct tt_matrix_kernels tt_matrix_kernels_base;
extern const struct tt_matrix_kernels tt_matrix_kernels_avx2;	/* only with TT_HAVE_AVX2 */
extern const struct tt_matrix_kernels tt_matrix_kernels_avx512; /* only with TT_HAVE_AVX512 */

/* matrix_levels.c: at the level that lib/reduce uses. */
const struct tt_matrix_kernels *tt_matrix_kernels(void);
/* Room for sums of outer products, to be freed; NULL: no memory. */
float *tt_matrix_room(void);
/* outer, with room of its own; 0 or -ENOMEM. */
int tt_matrix_outer(struct tt_outer outer);

/*
 * gram_schmidt.c: makes columns orthonormal, each of n elements and one after the other. A column
 * that is a combination of those before it, up to rounding, becomes 0; returns how many have.
 */
int tt_matrix_orthonormalize(float *columns, size_t n, int rank);

#endif
