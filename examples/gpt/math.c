/* SPDX-License-Identifier: BSD-3-Clause */
/* Operations on matrices; see math.h. Products are OpenBLAS's if configure found it. */
#include "config.h"

#include "examples/gpt/math.h"

#include <math.h>
#include <string.h>

#ifdef HAVE_OPENBLAS
#include <cblas.h>

#ifdef GPT_DOUBLE
#define GEMM cblas_dgemm
#else
#define GEMM cblas_sgemm
#endif

void products_setup(void)
{
	openblas_set_num_threads(1);
}

void product_nt(int m, int n, int k, const real *a, const real *b, real *c)
{
	GEMM(CblasRowMajor, CblasNoTrans, CblasTrans, m, n, k, 1, a, k, b, k, 0, c, n);
}

void product_nn(int m, int n, int k, const real *a, const real *b, real *c)
{
	GEMM(CblasRowMajor, CblasNoTrans, CblasNoTrans, m, n, k, 1, a, k, b, n, 0, c, n);
}

void product_tn_add(int m, int n, int k, const real *a, const real *b, real *c)
{
	GEMM(CblasRowMajor, CblasTrans, CblasNoTrans, m, n, k, 1, a, m, b, n, 1, c, n);
}
#else
void products_setup(void)
{
}

/* Four sums at a time, so that they need not wait for each other. */
void product_nt(int m, int n, int k, const real *a, const real *b, real *c)
{
	real sum[4];
	int i, j, l, u;

	for (i = 0; i < m; i++)
		for (j = 0; j < n; j++) {
			const real *x = a + (size_t)i * k, *y = b + (size_t)j * k;

			memset(sum, 0, sizeof(sum));
			for (l = 0; l + 4 <= k; l += 4)
				for (u = 0; u < 4; u++)
					sum[u] += x[l + u] * y[l + u];
			for (; l < k; l++)
				sum[0] += x[l] * y[l];
			c[(size_t)i * n + j] = sum[0] + sum[1] + sum[2] + sum[3];
		}
}

void product_nn(int m, int n, int k, const real *a, const real *b, real *c)
{
	int i, j, l;

	memset(c, 0, (size_t)m * n * sizeof(*c));
	for (i = 0; i < m; i++)
		for (l = 0; l < k; l++)
			for (j = 0; j < n; j++)
				c[(size_t)i * n + j] += a[(size_t)i * k + l] * b[(size_t)l * n + j];
}

void product_tn_add(int m, int n, int k, const real *a, const real *b, real *c)
{
	int i, j, l;

	for (l = 0; l < k; l++)
		for (i = 0; i < m; i++)
			for (j = 0; j < n; j++)
				c[(size_t)i * n + j] += a[(size_t)l * m + i] * b[(size_t)l * n + j];
}
#endif

void add_row(int rows, int n, const real *row, real *x)
{
	int i, j;

	for (i = 0; i < rows; i++)
		for (j = 0; j < n; j++)
			x[(size_t)i * n + j] += row[j];
}

void add_column_sums(int rows, int n, const real *x, real *sums)
{
	int i, j;

	for (i = 0; i < rows; i++)
		for (j = 0; j < n; j++)
			sums[j] += x[(size_t)i * n + j];
}

void add_to(size_t n, const real *x, real *y)
{
	size_t i;

	for (i = 0; i < n; i++)
		y[i] += x[i];
}

void norm_again(int rows, int n, const real *xhat, const real *gain, const real *bias, real *out)
{
	int i, j;

	for (i = 0; i < rows; i++, xhat += n, out += n)
		for (j = 0; j < n; j++)
			out[j] = xhat[j] * gain[j] + bias[j];
}

void norm_forward(int rows, int n, const real *x, const real *gain, const real *bias, real *xhat,
		  real *rstd, real *out)
{
	int i, j;

	for (i = 0; i < rows; i++, x += n, xhat += n, out += n) {
		real mean = 0, var = 0;

		for (j = 0; j < n; j++)
			mean += x[j] / n;
		for (j = 0; j < n; j++)
			var += (x[j] - mean) * (x[j] - mean) / n;
		rstd[i] = 1 / (real)sqrt((double)var + 1e-5);
		for (j = 0; j < n; j++)
			xhat[j] = (x[j] - mean) * rstd[i];
		norm_again(1, n, xhat, gain, bias, out);
	}
}

void norm_backward(int rows, int n, const real *dout, const real *xhat, const real *rstd,
		   const real *gain, real *dgain, real *dbias, real *dx)
{
	int i, j;

	for (i = 0; i < rows; i++, dout += n, xhat += n, dx += n) {
		real mean = 0, along = 0;

		for (j = 0; j < n; j++) {
			mean += dout[j] * gain[j] / n;
			along += dout[j] * gain[j] * xhat[j] / n;
			dgain[j] += dout[j] * xhat[j];
			dbias[j] += dout[j];
		}
		for (j = 0; j < n; j++)
			dx[j] += (dout[j] * gain[j] - mean - xhat[j] * along) * rstd[i];
	}
}

#define GELU_SCALE 0.79788456080286535588 /* sqrt(2 / pi) */
#define GELU_CUBE 0.044715

void gelu_forward(size_t n, const real *h, real *a)
{
	size_t i;

	for (i = 0; i < n; i++) {
		double x = h[i];

		a[i] = (real)(x / 2 * (1 + tanh(GELU_SCALE * (x + GELU_CUBE * x * x * x))));
	}
}

void gelu_backward(size_t n, const real *h, real *da)
{
	size_t i;

	for (i = 0; i < n; i++) {
		double x = h[i], t = tanh(GELU_SCALE * (x + GELU_CUBE * x * x * x));
		double inner = GELU_SCALE * (1 + 3 * GELU_CUBE * x * x);

		da[i] *= (real)((1 + t) / 2 + x / 2 * (1 - t * t) * inner);
	}
}

static void softmax(int n, real *x)
{
	real top = x[0], sum = 0;
	int j;

	for (j = 1; j < n; j++)
		top = x[j] > top ? x[j] : top;
	for (j = 0; j < n; j++) {
		x[j] = (real)exp((double)(x[j] - top));
		sum += x[j];
	}
	for (j = 0; j < n; j++)
		x[j] /= sum;
}

static real dot(int n, const real *x, const real *y)
{
	real sum = 0;
	int j;

	for (j = 0; j < n; j++)
		sum += x[j] * y[j];
	return sum;
}

static void axpy(int n, real factor, const real *x, real *y)
{
	int j;

	for (j = 0; j < n; j++)
		y[j] += factor * x[j];
}

/* The row of position t of one head of one sequence; q begins at the head's queries. */
static void attend(const struct attention *s, int t, const real *q, real *att, real *y)
{
	size_t all = (size_t)s->heads * s->width, row = 3 * all * s->sequences;
	real scale = 1 / (real)sqrt((double)s->width);
	int u;

	for (u = 0; u <= t; u++)
		att[u] = scale * dot(s->width, q + (size_t)t * row, q + (size_t)u * row + all);
	softmax(t + 1, att);
	for (u = 0; u <= t; u++)
		axpy(s->width, att[u], q + (size_t)u * row + 2 * all, y);
}

void attention_forward(const struct attention *s, const real *qkv, real *att, real *y)
{
	size_t all = (size_t)s->heads * s->width, head;
	int b, h, t;

	memset(y, 0, (size_t)s->sequences * s->length * all * sizeof(*y));
	for (b = 0; b < s->sequences; b++)
		for (h = 0; h < s->heads; h++)
			for (t = 0; t < s->length; t++, att += s->length) {
				head = (size_t)h * s->width;
				attend(s, t, qkv + (size_t)b * 3 * all + head, att,
				       y + ((size_t)t * s->sequences + b) * all + head);
			}
}

/* The same backward: dy is the gradient by the row's output; dq is as q. */
static void attend_back(const struct attention *s, int t, const real *att, const real *q,
			const real *dy, real *dq)
{
	size_t all = (size_t)s->heads * s->width, row = 3 * all * s->sequences;
	real scale = 1 / (real)sqrt((double)s->width), mean = 0, d;
	int u;

	for (u = 0; u <= t; u++)
		mean += att[u] * dot(s->width, dy, q + (size_t)u * row + 2 * all);
	for (u = 0; u <= t; u++) {
		d = att[u] * (dot(s->width, dy, q + (size_t)u * row + 2 * all) - mean) * scale;
		axpy(s->width, att[u], dy, dq + (size_t)u * row + 2 * all);
		axpy(s->width, d, q + (size_t)u * row + all, dq + (size_t)t * row);
		axpy(s->width, d, q + (size_t)t * row, dq + (size_t)u * row + all);
	}
}

void attention_backward(const struct attention *s, const real *qkv, const real *att, const real *dy,
			real *dqkv)
{
	size_t all = (size_t)s->heads * s->width, at;
	int b, h, t;

	memset(dqkv, 0, (size_t)s->sequences * s->length * 3 * all * sizeof(*dqkv));
	for (b = 0; b < s->sequences; b++)
		for (h = 0; h < s->heads; h++)
			for (t = 0; t < s->length; t++, att += s->length) {
				at = (size_t)b * 3 * all + (size_t)h * s->width;
				attend_back(s, t, att, qkv + at,
					    dy + ((size_t)t * s->sequences + b) * all +
						    (size_t)h * s->width,
					    dqkv + at);
			}
}

double softmax_loss(int rows, int n, real *x, const uint8_t *targets)
{
	double loss = 0;
	int i;

	for (i = 0; i < rows; i++, x += n) {
		softmax(n, x);
		loss -= log((double)x[targets[i]]);
	}
	return loss;
}
