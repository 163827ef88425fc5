/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sums of gradients over the data axis. Each layer is a bucket, whose all-reduce starts as soon as
 * the last micro-batch has passed the layer, and runs beside the backward pass of the layers below.
 * The embedding and the head come last: they are one parameter, so the first and the last stage add
 * their gradients before the replicas do. With --zero, adamw.c's optimizer sums the buckets.
 *
 * With --sequence-parallel, ranks of the tensor axis have gradients of norms, of the biases beside
 * them, of the embedding and of the head from their slices only, and add them up first.
 */
#include "examples/gpt/gpt.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static int make_bucket(struct gpt *g, struct bucket *b, size_t first, size_t count)
{
	int err = 0;

	*b = (struct bucket){.first = first, .count = count};
	if (!g->o.codec || g->o.zero || g->o.servers || !count)
		return 0;
	err = tutti_codec_create(g->o.codec, &b->codec);
	return err ? err : tutti_feedback_create(g->comm[DATA], b->codec, count, &b->feedback);
}

/* All ranks of the tensor axis have all of it. */
static int is_whole(const struct param *p)
{
	return p->nrows == p->rows && p->ncols == p->cols;
}

/* Room for what all tensor ranks have. */
static int make_shared(struct gpt *g)
{
	const struct param *p;

	for (p = g->params; p < g->params + g->nparams; p++)
		g->nshared += is_whole(p) ? (size_t)p->rows * (size_t)p->cols : 0;
	g->shared = malloc(g->nshared * sizeof(real));
	return g->shared ? 0 : -ENOMEM;
}

/* Between x and shared; back: from shared. */
static void copy_shared(struct gpt *g, real *x, int back)
{
	real *next = g->shared;
	const struct param *p;
	size_t n;

	for (p = g->params; p < g->params + g->nparams; p++) {
		if (!is_whole(p))
			continue;
		n = (size_t)p->rows * (size_t)p->cols;
		memcpy(back ? x + p->at : next, back ? next : x + p->at, n * sizeof(*next));
		next += n;
	}
}

int gradients_agree(struct gpt *g, real *x)
{
	size_t embedding = (size_t)VOCAB * (size_t)g->o.hidden;
	int err = 0;

	if (g->o.dims[TENSOR] > 1) {
		copy_shared(g, x, 0);
		err = tutti_bcast(g->shared, g->nshared, REAL, 0, g->comm[TENSOR]);
		copy_shared(g, x, 1);
	}
	if (!err && g->tie)
		err = tutti_bcast(x + g->head, embedding, REAL, 0, g->tie);
	return err;
}

/* A bucket for each layer, then one for what precedes the layers, and one for what follows them. */
int gradients_make(struct gpt *g)
{
	size_t first = g->layer_at[0][0], end = g->last ? g->gain : g->count, at, size;
	int l, err = 0;

	g->doing = "making buckets of gradients";
	if (g->o.codec || g->o.servers)
		err = make_shared(g);
	if (err)
		return err;
	size = (end - first) / (size_t)g->nlayers;
	g->nbuckets = g->nlayers + 2;
	g->buckets = calloc((size_t)g->nbuckets, sizeof(*g->buckets));
	if (!g->buckets)
		return -ENOMEM;
	for (l = 0, at = first; l < g->nlayers && !err; l++, at += size)
		err = make_bucket(g, &g->buckets[l], at, size);
	if (!err)
		err = make_bucket(g, &g->buckets[l], 0, first);
	if (!err)
		err = make_bucket(g, &g->buckets[l + 1], end, g->count - end);
	return err;
}

/* The same bits on all ranks, which keep the same parameters. */
static int sum_slices(struct gpt *g, real *x, size_t n)
{
	double from = now();
	int err = 0;

	if (g->slices > 1 && n)
		err = tutti_allreduce(TUTTI_IN_PLACE, x, n, REAL, TUTTI_SUM, g->comm[TENSOR]);
	g->waited[TENSOR] += now() - from;
	return err;
}

int gradients_sum_layer(struct gpt *g, int layer)
{
	static const enum weight shared[] = {LN1_GAIN, LN1_BIAS, PROJECT_BIAS,
					     LN2_GAIN, LN2_BIAS, OUT_BIAS};
	size_t d = (size_t)g->o.hidden, n = sizeof(shared) / sizeof(*shared), i;
	real *packed = g->scratch[1]; /* 4 x length x hidden or more: length is 2 or more */
	int err;

	if (g->slices == 1)
		return 0;
	for (i = 0; i < n; i++)
		memcpy(packed + i * d, g->grad + g->layer_at[layer][shared[i]], d * sizeof(real));
	err = sum_slices(g, packed, n * d);
	for (i = 0; i < n; i++)
		memcpy(g->grad + g->layer_at[layer][shared[i]], packed + i * d, d * sizeof(real));
	return err;
}

int gradients_start(struct gpt *g, int bucket)
{
	struct bucket *b = &g->buckets[bucket];
	struct tutti_call call = {.size = sizeof(call),
				  .coll = TUTTI_COLL_ALLREDUCE,
				  .sendbuf = TUTTI_IN_PLACE,
				  .recvbuf = g->grad + b->first,
				  .count = b->count,
				  .datatype = REAL,
				  .op = TUTTI_SUM,
				  .codec = b->codec,
				  .feedback = b->feedback};
	double from = now();
	int err = 0;

	if (b->count && g->sharded)
		err = tutti_sharded_ready(g->sharded, b->tensor, g->grad + b->first);
	else if (b->count && g->o.dims[DATA] > 1 && !g->table)
		err = tutti_call(g->comm[DATA], &call, &b->request);
	g->waited[DATA] += now() - from;
	return err;
}

static int sum_tied(struct gpt *g)
{
	double from = now();
	int err = 0;

	if (g->tie)
		err = tutti_allreduce(TUTTI_IN_PLACE, g->grad + g->head,
				      (size_t)VOCAB * (size_t)g->o.hidden, REAL, TUTTI_SUM, g->tie);
	g->waited[PIPELINE] += now() - from;
	return err;
}

int gradients_finish(struct gpt *g)
{
	double from;
	int i, err = 0;

	g->doing = "summing gradients";
	for (i = g->nlayers; i < g->nbuckets && !err; i++)
		err = sum_slices(g, g->grad + g->buckets[i].first, g->buckets[i].count);
	if (!err)
		err = sum_tied(g);
	for (i = g->nlayers; i < g->nbuckets && !err; i++)
		err = gradients_start(g, i);
	from = now();
	for (i = 0; i < g->nbuckets && !err; i++)
		err = tutti_wait(&g->buckets[i].request);
	if (!err && gradients_states(g)) /* each rank has decoded other vectors */
		err = gradients_agree(g, g->grad);
	g->waited[DATA] += now() - from;
	return err;
}

int gradients_states(const struct gpt *g)
{
	return g->buckets[0].codec ? tutti_codec_states(g->buckets[0].codec) : 0;
}

static void copy_states(const struct gpt *g, const struct bucket *b, float *state, real *x,
			int back)
{
	int s, states = gradients_states(g);
	size_t i;

	for (s = 0, x += b->first; s < states; s++, x += g->count, state += b->count)
		for (i = 0; i < b->count; i++)
			if (back)
				state[i] = (float)x[i];
			else
				x[i] = state[i];
}

int gradients_residuals(struct gpt *g, real *x, int back)
{
	size_t states = (size_t)gradients_states(g);
	float *state = malloc(g->count * states * sizeof(*state));
	struct bucket *b;
	int err = state ? 0 : -ENOMEM;

	for (b = g->buckets; b < g->buckets + g->nbuckets && !err; b++) {
		if (back)
			copy_states(g, b, state, x, 1);
		if (b->count)
			err = back ? tutti_feedback_restore(b->feedback, state, b->count * states)
				   : tutti_feedback_save(b->feedback, state, b->count * states);
		if (!err && !back)
			copy_states(g, b, state, x, 0);
	}
	free(state);
	return err;
}

void gradients_free(struct gpt *g)
{
	int i;

	free(g->shared);
	for (i = 0; i < g->nbuckets && g->buckets; i++) {
		tutti_feedback_free(g->buckets[i].feedback);
		tutti_codec_free(g->buckets[i].codec);
	}
	free(g->buckets);
}
