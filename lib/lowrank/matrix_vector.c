/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The loops over matrices, in vectors; built once for each level of instructions (local.mk).
 *
 * Outer products are summed as in Goto and van de Geijn, "Anatomy of High-Performance Matrix
 * Multiplication", 2008: a part of u that stays in the second-level cache and a narrow part of v
 * that stays in the first are packed, and tiles of the result stay in registers.
 */
#include "lib/lowrank/matrix.h"

#include <stdbool.h>

#include "lib/reduce/isa.h"

#define WIDTH (TT_VEC / 4)	    /* elements of a vector */
#define VECS (TT_VEC == 64 ? 4 : 2) /* vectors of a row of a tile: what registers hold */
#define TILE_ROWS 6
#define TILE_COLS (VECS * WIDTH)

_Static_assert(TT_OUTER_ROWS % TILE_ROWS == 0 && TILE_COLS <= TT_OUTER_COLS, "whole tiles");

typedef vec_f32 tile[TILE_ROWS][VECS];

static size_t least(size_t a, size_t b)
{
	return a < b ? a : b;
}

/* Rows k of packed u have TILE_ROWS elements of one tile; what is missing is 0. */
static void pack_u(const struct tt_outer *o, size_t k0, size_t k1, size_t row, size_t rows,
		   float *to)
{
	size_t i, j, k;

	for (i = 0; i < rows; i += TILE_ROWS)
		for (k = k0; k < k1; k++, to += TILE_ROWS)
			for (j = 0; j < TILE_ROWS; j++)
				to[j] = i + j < rows ? o->u[k * o->ustep + row + i + j] : 0;
}

static void pack_v(const struct tt_outer *o, size_t k0, size_t k1, size_t col, size_t cols,
		   float *to)
{
	const float *v = o->v + k0 * o->cols + col;
	size_t k, j;

	for (k = k0; k < k1; k++, v += o->cols, to += TILE_COLS) {
		memcpy(to, v, cols * sizeof(*to));
		for (j = cols; j < TILE_COLS; j++)
			to[j] = 0;
	}
}

/* Adds depth outer products of packed u and v to a tile at out, whose rows are step apart. */
struct part {
	const float *u, *v;
	size_t depth;
	bool first;    /* to 0, whatever is at out */
	float divisor; /* of the sum */
	float *out;
	size_t step;
};

INLINE void load_tile(tile t, const struct part *p)
{
	size_t i, j;

#pragma GCC unroll 6
	for (i = 0; i < TILE_ROWS; i++)
#pragma GCC unroll 4
		for (j = 0; j < VECS; j++)
			memcpy(&t[i][j], p->out + i * p->step + j * WIDTH, sizeof(vec_f32));
}

INLINE void store_tile(const tile t, const struct part *p)
{
	const float divisor = p->divisor;
	size_t i, j, step = p->step;
	float *out = p->out;
	vec_f32 x;

#pragma GCC unroll 6
	for (i = 0; i < TILE_ROWS; i++)
#pragma GCC unroll 4
		for (j = 0; j < VECS; j++) {
			x = divisor == 1 ? t[i][j] : t[i][j] / divisor;
			memcpy(out + i * step + j * WIDTH, &x, sizeof(x));
		}
}

static NOINLINE void add_tile(const struct part *p)
{
	const float *u = p->u, *v = p->v, *end = v + p->depth * TILE_COLS;
	vec_f32 row[VECS];
	tile t = {{{0}}};
	size_t i, j;

	if (!p->first)
		load_tile(t, p);
	for (; v < end; u += TILE_ROWS, v += TILE_COLS) {
#pragma GCC unroll 4
		for (j = 0; j < VECS; j++)
			memcpy(&row[j], v + j * WIDTH, sizeof(*row));
#pragma GCC unroll 6
		for (i = 0; i < TILE_ROWS; i++)
#pragma GCC unroll 4
			for (j = 0; j < VECS; j++)
				t[i][j] += u[i] * row[j];
	}
	store_tile(t, p);
}

/* A tile at the edge of the matrix goes through a buffer. */
static NOINLINE void add_edge(const struct part *p, size_t rows, size_t cols)
{
	float buf[TILE_ROWS * TILE_COLS] = {0};
	struct part edge = *p;
	size_t i;

	edge.out = buf;
	edge.step = TILE_COLS;
	for (i = 0; i < rows && !p->first; i++)
		memcpy(buf + i * TILE_COLS, p->out + i * p->step, cols * sizeof(*buf));
	add_tile(&edge);
	for (i = 0; i < rows; i++)
		memcpy(p->out + i * p->step, buf + i * TILE_COLS, cols * sizeof(*buf));
}

/* Outer products k0 to k1 of the rows of the result from row on. */
static void add_rows(const struct tt_outer *o, size_t k0, size_t k1, size_t row, size_t rows)
{
	float *u = o->room, *v = u + TT_OUTER_ROWS * TT_OUTER_DEPTH;
	struct part p = {.v = v, .depth = k1 - k0, .first = !k0, .step = o->cols};
	size_t i, j, cols;

	p.divisor = k1 == o->k ? o->divisor : 1;
	pack_u(o, k0, k1, row, rows, u);
	for (j = 0; j < o->cols; j += TILE_COLS) {
		cols = least(TILE_COLS, o->cols - j);
		pack_v(o, k0, k1, j, cols, v);
		for (i = 0; i < rows; i += TILE_ROWS) {
			p.u = u + i * p.depth;
			p.out = o->out + (row + i) * o->cols + j;
			if (cols == TILE_COLS && rows - i >= TILE_ROWS)
				add_tile(&p);
			else
				add_edge(&p, least(TILE_ROWS, rows - i), cols);
		}
	}
}

static void sum_outer(const struct tt_outer *o)
{
	size_t row, rows, k0, k1;

	for (row = 0; row < o->rows; row += rows) {
		rows = least(TT_OUTER_ROWS, o->rows - row);
		k1 = 0;
		do {
			k0 = k1;
			k1 = least(k0 + TT_OUTER_DEPTH, o->k);
			add_rows(o, k0, k1, row, rows);
		} while (k1 < o->k);
	}
}

/* ---- projections ---- */

#define LANES 16 /* of every sum, at all levels */
#define PARTS (LANES / WIDTH)

/* The sum of the products: lane i % 16 of elements i, then halves. */
static float dot(const float *a, const float *b, size_t n)
{
	float lane[LANES];
	vec_f32 sum[PARTS] = {{0}}, x, y;
	size_t i, j;

	for (i = 0; i + LANES <= n; i += LANES)
#pragma GCC unroll 4
		for (j = 0; j < PARTS; j++) {
			memcpy(&x, a + i + j * WIDTH, sizeof(x));
			memcpy(&y, b + i + j * WIDTH, sizeof(y));
			sum[j] += x * y;
		}
	memcpy(lane, sum, sizeof(lane));
	for (j = 0; i + j < n; j++)
		lane[j] += a[i + j] * b[i + j];
	for (j = LANES / 2; j; j /= 2)
		for (i = 0; i < j; i++)
			lane[i] += lane[i + j];
	return lane[0];
}

static void project(const struct tt_project *p)
{
	const float *e = p->e;
	float *m = p->m;
	size_t i, j;
	int r;

	for (i = 0; i < p->rows; i++, m += p->cols, e += p->cols) {
		for (j = 0; j < p->cols; j++)
			m[j] += e[j];
		for (r = 0; r < p->rank; r++)
			p->to[(size_t)r * p->rows + i] =
				dot(m, p->q + (size_t)r * p->cols, p->cols);
	}
}

static void settle(float *m, const float *h, float *e, size_t n, float divisor)
{
	size_t i;

	for (i = 0; i < n; i++) {
		e[i] = m[i] - h[i] / divisor;
		m[i] = h[i];
	}
}

const struct tt_matrix_kernels AT_LEVEL(tt_matrix_kernels) = {
	.outer = sum_outer,
	.project = project,
	.settle = settle,
};
