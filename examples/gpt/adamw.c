/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * AdamW on all parameters of this rank: I. Loshchilov, F. Hutter, "Decoupled Weight Decay
 * Regularization", ICLR 2019. Every replica does the same to the same gradients.
 *
 * With --zero, the sharded optimizer of libtutti_train divides the moments among the replicas, and
 * with --zero 2 the gradients, too. It sums the gradients itself, which travel encoded with
 * --codec, and the new parameters of a layer arrive while the next forward pass computes the layers
 * below.
 */
#include "examples/gpt/gpt.h"

#include <errno.h>
#include <stdlib.h>

static struct tutti_rule rule_of(const struct gpt *g)
{
	return (struct tutti_rule){.size = sizeof(struct tutti_rule),
				   .rule = TUTTI_PS_ADAMW,
				   .rate = g->o.rate,
				   .beta1 = ADAMW_BETA1,
				   .beta2 = ADAMW_BETA2,
				   .weight_decay = g->o.decay};
}

/* The i-th bucket from the front of the model to its end: what precedes the layers comes first. */
static struct bucket *bucket_in_order(const struct gpt *g, int i)
{
	if (!i)
		return &g->buckets[g->nlayers];
	return &g->buckets[i <= g->nlayers ? i - 1 : i];
}

/* A tensor of the optimizer is a bucket. */
static int make_sharded(struct gpt *g)
{
	struct tutti_rule rule = rule_of(g);
	struct tutti_sharded_config config = {.size = sizeof(config),
					      .datatype = REAL,
					      .flags = TUTTI_SHARDED_SUM,
					      .stage = g->o.zero,
					      .rule = &rule};
	size_t *counts = calloc((size_t)g->nbuckets, sizeof(*counts));
	void **places = calloc((size_t)g->nbuckets, sizeof(*places));
	int i, err = counts && places ? 0 : -ENOMEM;

	for (i = 0; i < g->nbuckets && !err; i++) {
		struct bucket *b = bucket_in_order(g, i);

		if (!b->count)
			continue;
		counts[config.n] = b->count;
		places[config.n] = g->value + b->first;
		b->tensor = config.n++;
	}
	if (!err && g->o.codec)
		err = tutti_codec_create(g->o.codec, &g->codec);
	config.codec = g->codec;
	config.counts = counts;
	config.parameters = places;
	if (!err)
		err = tutti_sharded_create(g->comm[DATA], &config, &g->sharded);
	free(counts);
	free(places);
	return err;
}

int adamw_make(struct gpt *g)
{
	g->doing = "making the optimizer";
	if (g->o.zero)
		return make_sharded(g);
	if (g->o.servers)
		return 0;
	g->m = calloc(g->count, sizeof(real));
	g->v = calloc(g->count, sizeof(real));
	return g->m && g->v ? 0 : -ENOMEM;
}

/* Ranks that share parameters have decoded other gradients: the parameters of one of them count. */
static int agree_on_values(struct gpt *g)
{
	int err;

	if (!g->codec || (g->o.dims[TENSOR] == 1 && !g->tie))
		return 0;
	err = tutti_sharded_wait(g->sharded, TUTTI_SHARDED_ALL);
	return err ? err : gradients_agree(g, g->value);
}

int adamw_step(struct gpt *g)
{
	struct tutti_rule rule = rule_of(g);
	double from = now();
	int err;

	g->doing = "changing the parameters";
	if (g->table)
		return downpour_step(g);
	if (!g->sharded)
		return tutti_rule_apply(&rule, REAL, g->value, g->grad, g->m, g->v, g->count,
					(uint64_t)g->step + 1);
	err = tutti_sharded_step(g->sharded, NULL);
	if (!err)
		err = agree_on_values(g);
	g->waited[DATA] += now() - from;
	return err;
}

int adamw_wait(struct gpt *g, int bucket)
{
	double from = now();
	int err = 0;

	if (g->sharded && bucket == ALL_BUCKETS)
		err = tutti_sharded_wait(g->sharded, TUTTI_SHARDED_ALL);
	else if (g->sharded && g->buckets[bucket].count)
		err = tutti_sharded_wait(g->sharded, g->buckets[bucket].tensor);
	g->waited[DATA] += now() - from;
	return err;
}
