/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Modified Gram-Schmidt, in float64; a column that loses most of its length to those before it
 * goes through it twice. Every rank does it with the same input, so the order of all operations is
 * fixed. Cost: rank^2 n multiplications and as many additions, at most twice that.
 *
 * Daniel, Gragg, Kaufman and Stewart, Mathematics of Computation 30, 1976: twice is enough.
 */
#include "lib/lowrank/matrix.h"

#include <string.h>

#define KEPT 0.5  /* of the norm of a column: what rounding has left of the others is little */
#define LOST 1e-6 /* the rest is rounding */

static double dot(const float *a, const float *b, size_t n)
{
	double part[4] = {0}, sum;
	size_t i;
	int k;

	for (i = 0; i + 4 <= n; i += 4)
		for (k = 0; k < 4; k++)
			part[k] += (double)a[i + k] * (double)b[i + k];
	sum = (part[0] + part[1]) + (part[2] + part[3]);
	for (; i < n; i++)
		sum += (double)a[i] * (double)b[i];
	return sum;
}

/* v -= (v . unit) unit */
static void remove_part(float *restrict v, const float *restrict unit, size_t n)
{
	double along = dot(v, unit, n);
	size_t i;
	int k;

	for (i = 0; i + 4 <= n; i += 4) /* in vectors */
		for (k = 0; k < 4; k++)
			v[i + k] = (float)((double)v[i + k] - along * (double)unit[i + k]);
	for (; i < n; i++)
		v[i] = (float)((double)v[i] - along * (double)unit[i]);
}

static double norm(const float *v, size_t n)
{
	return __builtin_sqrt(dot(v, v, n));
}

int tt_matrix_orthonormalize(float *columns, size_t n, int rank)
{
	double before, after;
	int j, k, pass, lost = 0;
	float *v;
	size_t i;

	for (j = 0; j < rank; j++) {
		v = columns + (size_t)j * n;
		before = after = norm(v, n);
		for (pass = 0; pass < 2 && !(pass && after > KEPT * before); pass++) {
			for (k = 0; k < j; k++)
				remove_part(v, columns + (size_t)k * n, n);
			after = norm(v, n);
		}
		if (after > LOST * before) {
			for (i = 0; i < n; i++)
				v[i] = (float)((double)v[i] / after);
			continue;
		}
		memset(v, 0, n * sizeof(*v));
		lost++;
	}
	return lost;
}
