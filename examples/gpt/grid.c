/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The grid of ranks. The tensor axis is innermost, because its ranks exchange most: they are on one
 * host wherever hosts have enough ranks. The pipeline comes next, and replicas of the whole model,
 * which meet once a step, are outermost.
 */
#include "examples/gpt/math.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

/* Rank 0 prints, all ranks fail. */
static int refuse(struct gpt *g, const char *what, int n, const char *by, int k)
{
	g->told = 1;
	if (!tutti_comm_rank(g->world))
		fprintf(stderr, "gpt: %d %s cannot be divided by %d %s\n", n, what, k, by);
	return -EINVAL;
}

static int divide_model(struct gpt *g)
{
	const struct options *o = &g->o;

	g->parts = o->dims[PIPELINE] * o->chunks;
	if (o->layers % g->parts)
		return refuse(g, "layers (--layers)", o->layers, "parts (--pipeline x --chunks)",
			      g->parts);
	if (o->hidden % o->heads)
		return refuse(g, "elements (--hidden)", o->hidden, "heads (--heads)", o->heads);
	if (o->heads % o->dims[TENSOR])
		return refuse(g, "heads (--heads)", o->heads, "ranks (--tensor)", o->dims[TENSOR]);
	g->slices = o->sequence_parallel ? o->dims[TENSOR] : 1;
	if (o->length % g->slices)
		return refuse(g, "positions (--length)", o->length,
			      "ranks (--tensor) with --sequence-parallel", g->slices);
	g->positions = o->length / g->slices;
	g->part_layers = o->layers / g->parts;
	g->nlayers = g->part_layers * o->chunks;
	g->local = o->hidden / o->dims[TENSOR];
	g->first = g->at[PIPELINE] == 0;
	g->last = g->at[PIPELINE] == o->dims[PIPELINE] - 1;
	return 0;
}

/* Without --micro: at most twice the stages, and as many as the schedule needs, if they divide. */
static int divide_batch(struct gpt *g)
{
	struct options *o = &g->o;
	int p = o->dims[PIPELINE], mine = o->batch / o->dims[DATA];
	int unit = o->schedule == TUTTI_PIPELINE_INTERLEAVED ? p : 1;

	if (o->batch % o->dims[DATA])
		return refuse(g, "sequences (--batch)", o->batch, "replicas (--data)",
			      o->dims[DATA]);
	if (!o->micro) {
		for (o->micro = mine < 2 * p ? mine : 2 * p;
		     o->micro > 1 && (mine % o->micro || o->micro % unit); o->micro--)
			;
	}
	if (mine % o->micro)
		return refuse(g, "sequences of a replica", mine, "micro-batches (--micro)",
			      o->micro);
	g->sequences = mine / o->micro;
	return 0;
}

/* The embedding is also the head: with several stages, the first and the last both have it. */
static int make_tie(struct gpt *g)
{
	int ends = g->first || g->last;

	if (g->o.dims[PIPELINE] == 1)
		return 0;
	return tutti_comm_split(g->comm[PIPELINE], ends ? 0 : TUTTI_UNDEFINED, 0, &g->tie);
}

int grid_make(struct gpt *g)
{
	static const char *const names[AXES] = {"data", "pipeline", "tensor"};
	int i, err;

	products_setup();
	g->doing = "making the grid";
	err = tutti_grid_create(g->world, AXES, g->o.dims, names, &g->grid);
	for (i = 0; i < AXES && !err; i++) {
		g->o.dims[i] = tutti_grid_size(g->grid, i);
		err = tutti_grid_comm(g->grid, TUTTI_AXIS(i), &g->comm[i]);
	}
	if (!err && g->o.servers)
		err = tutti_grid_comm(g->grid, TUTTI_AXIS(PIPELINE) | TUTTI_AXIS(TENSOR),
				      &g->replica);
	if (!err)
		err = tutti_grid_coords(g->grid, TUTTI_UNDEFINED, g->at);
	if (!err)
		err = divide_model(g);
	if (!err)
		err = divide_batch(g);
	return err ? err : make_tie(g);
}

void gpt_free(struct gpt *g)
{
	tutti_pipeline_free(g->pipeline);
	gradients_free(g);
	tutti_sharded_free(g->sharded);
	tutti_codec_free(g->codec);
	if (g->tie)
		tutti_comm_free(g->tie);
	tutti_grid_free(g->grid);
	tutti_free(g->value);
	tutti_free(g->grad);
	free(g->params);
	free(g->layer_at);
	free(g->saved);
	free(g->saved_head);
	free(g->memory);
	free(g->m);
	free(g->v);
	free(g->text);
}
