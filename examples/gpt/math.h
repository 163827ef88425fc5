/* SPDX-License-Identifier: BSD-3-Clause */
/* Operations on matrices that are stored row by row; no communication. */
#ifndef GPT_MATH_H
#define GPT_MATH_H

#include "examples/gpt/gpt.h"

/* Ranks share the cores, so a product uses one of them. */
void products_setup(void);

/* c (m x n) = a (m x k) b, or added to c; in nt b is n x k, in nn k x n; in tn a is k x m. */
void product_nt(int m, int n, int k, const real *a, const real *b, real *c);
void product_nn(int m, int n, int k, const real *a, const real *b, real *c);
void product_tn_add(int m, int n, int k, const real *a, const real *b, real *c);

void add_row(int rows, int n, const real *row, real *x);	  /* to each row of x */
void add_column_sums(int rows, int n, const real *x, real *sums); /* to sums */
void add_to(size_t n, const real *x, real *y);

void norm_forward(int rows, int n, const real *x, const real *gain, const real *bias, real *xhat,
		  real *rstd, real *out);
/* out of norm_forward again */
void norm_again(int rows, int n, const real *xhat, const real *gain, const real *bias, real *out);
/* Adds the gradient by x to dx, and those of gain and bias to theirs. */
void norm_backward(int rows, int n, const real *dout, const real *xhat, const real *rstd,
		   const real *gain, real *dgain, real *dbias, real *dx);

void gelu_forward(size_t n, const real *h, real *a);
void gelu_backward(size_t n, const real *h, real *da); /* da becomes the gradient by h */

/*
 * Causal attention of heads heads of width elements. A row of qkv has the queries of all heads,
 * then keys, then values. Rows: the first position of all sequences, then the second, and so on.
 * att: sequences x heads x length x length.
 */
struct attention {
	int sequences, length, heads, width;
};
void attention_forward(const struct attention *s, const real *qkv, real *att, real *y);
void attention_backward(const struct attention *s, const real *qkv, const real *att, const real *dy,
			real *dqkv);

/* Each row of x becomes its softmax; the sum of -log of the probability of its target. */
double softmax_loss(int rows, int n, real *x, const uint8_t *targets);

#endif
