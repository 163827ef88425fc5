/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The inputs and expected results of a random program, computed element by element; see random.h.
 */
#include "config.h"

#include "tests/mp/coll/random.h"

#define SCALAR 5

enum tutti_datatype rnd_type(int i)
{
	static const enum tutti_datatype types[RND_TYPES] = {TUTTI_UINT8, TUTTI_UINT32,
							     TUTTI_UINT64};

	return types[i];
}

static uint64_t narrow(enum tutti_datatype type, uint64_t v)
{
	size_t size = tutti_datatype_size(type);

	return size == 8 ? v : v & ((1ull << 8 * size) - 1);
}

/* ---- operators ---- */

/* (1 + v)(1 + w) - 1 */
static uint64_t commuting(uint64_t v, uint64_t w)
{
	return v + w + v * w;
}

/* v is x -> a x + b, a in its upper half; first v, then w. */
static uint64_t ordered(enum tutti_datatype type, uint64_t v, uint64_t w)
{
	size_t half = tutti_datatype_size(type) * 4;
	uint64_t mask = (1ull << half) - 1, a = v >> half, b = v & mask, c = w >> half,
		 d = w & mask;

	return (c * a & mask) << half | ((c * b + d) & mask);
}

static uint64_t combine(const struct rnd_call *c, uint64_t v, uint64_t w)
{
	switch (c->op) {
	case RND_MAX:
		return v > w ? v : w;
	case RND_XOR:
		return v ^ w;
	case RND_COMMUTING:
		return narrow(c->type, commuting(v, w));
	case RND_ORDERED:
		return ordered(c->type, v, w);
	default:
		return narrow(c->type, v + w);
	}
}

/* As the library calls it; arg: whether it is the ordered one. */
static void combine_all(const void *a, void *b, size_t count, enum tutti_datatype type, void *arg)
{
	size_t size = tutti_datatype_size(type), i;
	uint64_t v = 0, w = 0;

	for (i = 0; i < count; i++) {
		memcpy(&v, (const char *)a + i * size, size);
		memcpy(&w, (char *)b + i * size, size);
		w = arg ? ordered(type, v, w) : commuting(v, w);
		memcpy((char *)b + i * size, &w, size);
	}
}

int rnd_ops_new(struct mp_job *job, struct rnd_ops *ops)
{
	uint64_t scalar = SCALAR;
	int i;

	MP_OK(tutti_op_create(job->ctx, combine_all, NULL, 1, &ops->commuting));
	MP_OK(tutti_op_create(job->ctx, combine_all, ops, 0, &ops->ordered));
	for (i = 0; i < RND_TYPES; i++)
		MP_OK(tutti_op_create_premul_sum(job->ctx, &scalar, rnd_type(i), &ops->premul[i]));
	return 0;
}

int rnd_ops_free(struct mp_job *job, struct rnd_ops *ops)
{
	int i;

	MP_OK(tutti_op_free(job->ctx, ops->commuting));
	MP_OK(tutti_op_free(job->ctx, ops->ordered));
	for (i = 0; i < RND_TYPES; i++)
		MP_OK(tutti_op_free(job->ctx, ops->premul[i]));
	return 0;
}

/* ---- inputs and results ---- */

bool rnd_is_v(const struct rnd_call *c)
{
	return c->what >= RND_REDUCE_SCATTER_V;
}

uint64_t rnd_untouched(const struct rnd_call *c)
{
	uint64_t v;

	memset(&v, RND_UNTOUCHED, sizeof(v));
	return narrow(c->type, v);
}

uint64_t rnd_input(const struct rnd_call *c, int rank, int b, size_t k)
{
	uint64_t state = c->data ^ (uint64_t)rank << 56 ^ (uint64_t)b << 48 ^ k;

	return narrow(c->type, rnd_next(&state));
}

size_t rnd_length(const struct rnd_call *c, int from, int to)
{
	uint64_t state = c->id * 31;
	int t;

	if (c->what == RND_FUNNEL && from == c->root)
		return 0;
	if (!rnd_is_v(c))
		return c->count;
	if (c->what == RND_ALLGATHER_V || c->what == RND_GATHER_V)
		to = 0;
	else if (c->what != RND_ALLTOALL_V)
		from = 0;
	if (c->what == RND_ALLTOALL_V && c->in_place && from > to) { /* both ways the same */
		t = from;
		from = to;
		to = t;
	}
	state += (uint64_t)(from * RND_RANKS + to);
	return rnd_below(&state, 4) ? (size_t)rnd_below(&state, (int)c->count + 1) : 0;
}

/* Ranks 0 to n - 1. */
static uint64_t combined(const struct rnd_call *c, int n, int b, size_t k)
{
	uint64_t scalar = c->op == RND_PREMUL ? SCALAR : 1, v = rnd_input(c, 0, b, k) * scalar;
	int r;

	for (r = 1; r < n; r++)
		v = combine(c, v, rnd_input(c, r, b, k) * scalar);
	return narrow(c->type, v);
}

uint64_t rnd_expected(const struct rnd_slot *s, int b, size_t k)
{
	const struct rnd_call *c = &s->c;

	switch (c->what) {
	case RND_SCAN:
		return combined(c, c->rank + 1, 0, k);
	case RND_EXSCAN: /* rank 0's is left alone, but for a multiple of the input */
		if (c->rank)
			return combined(c, c->rank, 0, k);
		if (c->op == RND_PREMUL)
			return combined(c, 1, 0, k);
		return c->in_place ? rnd_input(c, 0, 0, k) : rnd_untouched(c);
	case RND_REDUCE_SCATTER:
	case RND_REDUCE_SCATTER_V:
		return combined(c, c->n, c->rank, k);
	case RND_BCAST:
		return rnd_input(c, c->root, 0, k);
	case RND_ALLGATHER:
	case RND_ALLGATHER_V:
	case RND_GATHER:
	case RND_GATHER_V:
		return rnd_input(c, b, 0, k);
	case RND_FUNNEL:
		return rnd_input(c, s->status[b].source, 0, k);
	case RND_SCATTER:
	case RND_SCATTER_V:
		return rnd_input(c, c->root, c->rank, k);
	case RND_ALLTOALL:
	case RND_ALLTOALL_V:
		return rnd_input(c, b, c->rank, k);
	case RND_SHIFT:
		return rnd_input(c, (c->rank - c->by + c->n) % c->n, 0, k);
	default:
		return combined(c, c->n, 0, k);
	}
}
