/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Properties of a graph's weights, and the rate at which the ranks' values come together.
 *
 * Let P be the product of the weight matrices of a period, whose rows, or columns, sum to 1. Then P
 * minus the matrix of 1/n has the eigenvalues of P without the 1 (Brauer). Its spectral radius is
 * the limit of ||B^k||^(1/k) (Gelfand), here with k = 2^40 by squaring.
 */
#include <errno.h>
#include <math.h>
#include <string.h>

#include "lib/base/error.h"
#include "lib/graph/graph.h"

#define NEAR 1e-9 /* of a sum of weights to 1 */
#define SQUARINGS 40
#define NOTHING 1e-13 /* relative: rounding errors are all that is left */

static double at(const struct tt_edges *edges, int to, int from)
{
	size_t i;

	if (to == from)
		return edges->own[to];
	for (i = edges->in_at[to]; i < edges->in_at[to + 1]; i++)
		if (edges->in[i] == from)
			return edges->weight[i];
	return 0;
}

static int check_sums(const double *sum, int n, const char *what, const char *whose, int step)
{
	int r;

	for (r = 0; r < n; r++)
		if (!(fabs(sum[r] - 1) <= NEAR))
			return tt_fail(-EINVAL,
				       "tutti_graph_check: the %s of rank %d, the weights of %s, "
				       "sums to %.12g in step %d, not to 1",
				       what, r, whose, sum[r], step);
	return 0;
}

static int check_symmetric(const struct tt_edges *edges, int step)
{
	size_t i;
	int r;

	for (r = 0; r < edges->n; r++)
		for (i = edges->in_at[r]; i < edges->in_at[r + 1]; i++) {
			double back = at(edges, edges->in[i], r);

			if (!(fabs(edges->weight[i] - back) <= NEAR))
				return tt_fail(-EINVAL,
					       "tutti_graph_check: the weight from rank %d to rank "
					       "%d is %.12g in step %d, but %.12g back",
					       edges->in[i], r, edges->weight[i], step, back);
		}
	return 0;
}

static int check_step(const struct tt_edges *edges, unsigned properties, int step, double *row,
		      double *column)
{
	size_t i;
	int r, err = 0;

	memcpy(row, edges->own, (size_t)edges->n * sizeof(*row));
	memcpy(column, edges->own, (size_t)edges->n * sizeof(*column));
	for (r = 0; r < edges->n; r++)
		for (i = edges->in_at[r]; i < edges->in_at[r + 1]; i++) {
			row[r] += edges->weight[i];
			column[edges->in[i]] += edges->weight[i];
		}
	if (properties & TUTTI_GRAPH_ROWS)
		err = check_sums(row, edges->n, "row", "what it receives", step);
	if (!err && properties & TUTTI_GRAPH_COLUMNS)
		err = check_sums(column, edges->n, "column", "what it sends", step);
	if (!err && properties & TUTTI_GRAPH_SYMMETRIC)
		err = check_symmetric(edges, step);
	return err;
}

int tt_graph_check(const struct tutti_graph *graph, unsigned properties)
{
	double *sums = calloc(2 * (size_t)graph->n, sizeof(*sums));
	int i, err = 0;

	if (!sums)
		return tt_fail(-ENOMEM, "tutti_graph_check: no memory for %d ranks", graph->n);
	for (i = 0; i < graph->period && !err; i++)
		err = check_step(graph->step[i], properties, i, sums, sums + graph->n);
	free(sums);
	return err;
}

/* to = W p, of n x n matrices. */
static void apply(const struct tt_edges *edges, const double *p, double *to)
{
	size_t n = (size_t)edges->n, r, i, k;

	for (r = 0; r < n; r++) {
		for (k = 0; k < n; k++)
			to[r * n + k] = edges->own[r] * p[r * n + k];
		for (i = edges->in_at[r]; i < edges->in_at[r + 1]; i++) {
			const double *from = p + (size_t)edges->in[i] * n;

			for (k = 0; k < n; k++)
				to[r * n + k] += edges->weight[i] * from[k];
		}
	}
}

static void square(const double *b, double *to, size_t n)
{
	size_t i, j, k;

	memset(to, 0, n * n * sizeof(*to));
	for (i = 0; i < n; i++)
		for (k = 0; k < n; k++)
			for (j = 0; j < n; j++)
				to[i * n + j] += b[i * n + k] * b[k * n + j];
}

/* Divides the matrix by its Frobenius norm, which is returned. */
static double scale(double *b, size_t n)
{
	double norm = 0;
	size_t i;

	for (i = 0; i < n * n; i++)
		norm += b[i] * b[i];
	norm = sqrt(norm);
	for (i = 0; i < n * n && norm > 0; i++)
		b[i] /= norm;
	return norm;
}

/* The spectral radius of b; tmp has as much room. */
static double radius(double *b, double *tmp, size_t n)
{
	double norm = scale(b, n), sum = log(norm), part = 0.5, *swap;
	int i;

	if (norm < NOTHING * (double)n)
		return 0;
	for (i = 0; i < SQUARINGS; i++) {
		square(b, tmp, n);
		swap = b;
		b = tmp;
		tmp = swap;
		norm = scale(b, n);
		if (norm < NOTHING)
			return 0;
		sum += part * log(norm); /* log of ||B^(2^(i+1))|| / 2^(i+1) so far */
		part /= 2;
	}
	return exp(sum);
}

int tt_graph_lambda2(const struct tutti_graph *graph, double *lambda2)
{
	size_t n = (size_t)graph->n, i;
	double *p, *to, *swap, *block;
	int t;

	block = calloc(2 * n * n, sizeof(*block));
	if (!block)
		return tt_fail(-ENOMEM, "tutti_graph_lambda2: no memory for matrices of %zu x %zu",
			       n, n);
	p = block;
	to = block + n * n;
	for (i = 0; i < n; i++)
		p[i * n + i] = 1;
	for (t = 0; t < graph->period; t++) {
		apply(graph->step[t], p, to);
		swap = p;
		p = to;
		to = swap;
	}
	for (i = 0; i < n * n; i++)
		p[i] -= 1.0 / (double)n;
	*lambda2 = pow(radius(p, to, n), 1.0 / graph->period);
	free(block);
	return 0;
}
