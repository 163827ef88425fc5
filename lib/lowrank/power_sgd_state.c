/* SPDX-License-Identifier: BSD-3-Clause */
/* States of PowerSGD: made, compared, restored; power_sgd.c uses them. */
#include "lib/lowrank/lowrank.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/hash.h"
#include "lib/lowrank/matrix.h"

/* ---- the first Q ---- */

/* Columns that are 0 become random ones: of seed, matrix, column and element. */
static void draw_missing(const struct tutti_power_sgd *s, size_t which, float *q, size_t n)
{
	uint64_t key, x;
	float *v;
	size_t i;
	int j;

	for (j = 0; j < s->rank; j++) {
		v = q + (size_t)j * n;
		for (i = 0; i < n && v[i] == 0; i++)
			;
		if (i < n)
			continue;
		key = tt_hash_add(tt_hash_add(tt_hash_add(0, s->seed), which), (uint64_t)j);
		for (i = 0; i < n; i++) {
			x = tt_hash_add(key, i); /* the sum of two: towards a normal distribution */
			v[i] = (float)((int32_t)(x >> 32) >> 8) + (float)((int32_t)x >> 8);
		}
	}
}

void tt_power_sgd_orthonormalize(const struct tutti_power_sgd *s, float *q)
{
	const struct tt_low_matrix *m;
	size_t i;

	for (i = 0; i < s->n; i++) {
		m = &s->matrix[i];
		if (!m->low || !tt_matrix_orthonormalize(q + m->q, m->cols, s->rank))
			continue;
		draw_missing(s, i, q + m->q, m->cols);
		tt_matrix_orthonormalize(q + m->q, m->cols, s->rank);
	}
}

static void first_q(const struct tutti_power_sgd *s, float *q)
{
	memset(q, 0, s->qlen * sizeof(*q));
	tt_power_sgd_orthonormalize(s, q);
}

/* ---- states ---- */

/* Where each matrix has its parts. Sizes have been checked. */
static void place(struct tutti_power_sgd *s, const size_t *rows, const size_t *cols)
{
	size_t i, r = (size_t)s->rank, wide = 0, tall = 0, e = 0;
	struct tt_low_matrix *m;

	for (i = 0; i < s->n; i++) {
		m = &s->matrix[i];
		*m = (struct tt_low_matrix){.rows = rows[i], .cols = cols[i]};
		m->low = (double)r * ((double)rows[i] + (double)cols[i]) <
			 (double)rows[i] * (double)cols[i];
		m->p = s->plen;
		m->q = s->qlen;
		m->e = e;
		s->plen += m->low ? r * rows[i] : rows[i] * cols[i];
		if (!m->low)
			continue;
		s->qlen += r * cols[i];
		e += rows[i] * cols[i];
		wide = cols[i] > wide ? cols[i] : wide;
		tall = rows[i] > tall ? rows[i] : tall;
	}
	s->cells = e;
	s->room_len = r * tall > TT_POWER_SGD_STRIP * wide ? r * tall : TT_POWER_SGD_STRIP * wide;
}

static int reserve(struct tutti_context *ctx, struct tutti_power_sgd *s)
{
	void *pool;
	int err = tutti_alloc(ctx, (s->plen + s->qlen + 1) * sizeof(float), &pool);

	if (err)
		return err;
	s->psum = pool;
	s->qsum = s->psum + s->plen;
	s->e = malloc((s->cells + s->qlen + 1) * sizeof(float));
	s->room = malloc((s->room_len + 1) * sizeof(float));
	s->outer = tt_matrix_room();
	if (!s->e || !s->room || !s->outer)
		return -ENOMEM;
	s->q = s->e + s->cells;
	return 0;
}

void tt_power_sgd_free(struct tutti_power_sgd *s)
{
	s->magic = 0;
	tutti_free(s->psum);
	free(s->e);
	free(s->room);
	free(s->outer);
	free(s);
}

/* Ranks compare this when they make a state. */
struct agreed {
	uint64_t memory, n, rank, seed, shapes; /* memory: 0 on a rank that has none */
};
static const char *const agreed_names[] = {"memory", "number of matrices", "rank", "seed",
					   "shapes"};
#define AGREED (sizeof(struct agreed) / sizeof(uint64_t))

static int compare(const uint64_t *all, int n)
{
	size_t k;
	int r;

	for (r = 0; r < n; r++)
		if (!all[(size_t)r * AGREED])
			return tt_fail(-ENOMEM,
				       "tutti_power_sgd_create: rank %d has no memory for "
				       "the state",
				       r);
	for (r = 1; r < n; r++)
		for (k = 1; k < AGREED; k++)
			if (all[(size_t)r * AGREED + k] != all[k])
				return tt_fail(-TUTTI_EMISMATCH,
					       "tutti_power_sgd_create: ranks 0 and %d disagree on "
					       "%s; all ranks must pass the same config",
					       r, agreed_names[k]);
	return 0;
}

/* 0, or the same error on all ranks. */
static int agree(struct tutti_comm *comm, const struct tutti_power_sgd_config *c,
		 const struct tutti_power_sgd *s)
{
	struct agreed own = {
		.memory = s != NULL, .n = c->n, .rank = (uint64_t)c->rank, .seed = c->seed};
	uint64_t *all = calloc((size_t)comm->size, sizeof(own));
	size_t i;
	int err;

	for (i = 0; i < c->n; i++)
		own.shapes = tt_hash_add(tt_hash_add(own.shapes, c->rows[i]), c->cols[i]);
	if (!all)
		return tt_fail(-ENOMEM, "no memory to compare states");
	err = tutti_allgather(&own, all, AGREED, TUTTI_UINT64, comm);
	if (!err)
		err = compare(all, comm->size);
	free(all);
	return err;
}

int tt_power_sgd_new(struct tutti_comm *comm, const struct tutti_power_sgd_config *c,
		     struct tutti_power_sgd **out)
{
	struct tutti_power_sgd *s = calloc(1, sizeof(*s) + c->n * sizeof(s->matrix[0]));
	int err;

	if (s) {
		s->magic = TT_POWER_SGD_MAGIC;
		s->comm = comm->uid;
		s->rank = c->rank;
		s->seed = c->seed;
		s->n = c->n;
		place(s, c->rows, c->cols);
		if (reserve(comm->ctx, s)) {
			tt_power_sgd_free(s);
			s = NULL;
		}
	}
	err = agree(comm, c, s);
	if (err) {
		if (s)
			tt_power_sgd_free(s);
		return err;
	}
	memset(s->e, 0, s->cells * sizeof(*s->e));
	first_q(s, s->q);
	*out = s;
	return 0;
}

/* Refused on all ranks together: a value that is not finite would stay in every later result. */
static int refuse_not_finite(const float *from, size_t count, struct tutti_comm *comm)
{
	static const char call[] = "tutti_power_sgd_restore";
	int32_t bad = comm->size;
	size_t i;
	int err;

	for (i = 0; i < count && isfinite(from[i]); i++)
		;
	if (i < count)
		bad = comm->rank;
	err = tutti_allreduce(TUTTI_IN_PLACE, &bad, 1, TUTTI_INT32, TUTTI_MIN, comm);
	if (err || bad == comm->size)
		return err;
	if (i < count)
		return tt_fail(-EINVAL,
			       "%s: element %zu of from is %g; restore the state of an intact "
			       "checkpoint, or NULL",
			       call, i, (double)from[i]);
	return tt_fail(-EINVAL, "%s: from of rank %d has an element that is not finite", call,
		       (int)bad);
}

int tt_power_sgd_restore(struct tutti_power_sgd *s, const float *from, struct tutti_comm *comm)
{
	int err = refuse_not_finite(from, from ? s->cells + s->qlen : 0, comm);

	if (err)
		return err;
	if (from)
		memcpy(s->qsum, from + s->cells, s->qlen * sizeof(*from));
	else
		first_q(s, s->qsum);
	err = tutti_bcast(s->qsum, s->qlen, TUTTI_FLOAT32, 0, comm);
	if (err)
		return err;
	memcpy(s->q, s->qsum, s->qlen * sizeof(*s->q));
	if (from)
		memcpy(s->e, from, s->cells * sizeof(*from));
	else
		memset(s->e, 0, s->cells * sizeof(*s->e));
	return 0;
}
