/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Downpour SGD: replicas share their parameters through a parameter server instead of summing
 * gradients with each other. A replica is pipeline x tensor ranks, each of which pushes the
 * gradient of its part of the model and pulls its part; no rank has the whole. AdamW runs on the
 * servers, which are the last ranks of the job and not in the grid.
 *
 * Replicas are at most --staleness steps apart. With async none waits for another: a slow replica
 * slows nothing but itself. With 0 it is the same as summing gradients, to rounding.
 *
 * The ranks of a replica must agree on what several of them have: norms, the biases beside them and
 * the ends of the model come from the first tensor rank, the head from the first stage.
 *
 * With --codec, each rank pushes its gradient encoded and keeps what the encoding leaves out for
 * its next push; values are pulled as they are.
 *
 * J. Dean et al., "Large Scale Distributed Deep Networks", NIPS 2012.
 */
#include "examples/gpt/gpt.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* All ranks of the job; those of the grid become g->world, servers have none. */
int downpour_split(struct gpt *g)
{
	int rank = tutti_comm_rank(g->all), n = tutti_comm_size(g->all);
	int first = n - g->o.servers;

	g->doing = "dividing the ranks";
	if (first < 1) {
		if (!rank)
			fprintf(stderr,
				"gpt: %d ranks, %d of them servers (--servers): none is left to "
				"train; start more ranks\n",
				n, g->o.servers);
		g->told = 1;
		return -EINVAL;
	}
	g->serves = rank >= first;
	return tutti_comm_split(g->all, g->serves ? TUTTI_UNDEFINED : 0, rank, &g->world);
}

static int part_number(const struct gpt *g)
{
	return g->at[PIPELINE] * g->o.dims[TENSOR] + g->at[TENSOR];
}

/* counts: elements of each part, which servers do not know. failed: a rank of the grid has. */
static int agree_on_parts(struct gpt *g, int failed, int64_t *counts, int parts)
{
	int err;

	counts[parts] = failed != 0;
	if (!failed && !g->serves)
		counts[part_number(g)] = (int64_t)g->count;
	err = tutti_allreduce(TUTTI_IN_PLACE, counts, (size_t)parts + 1, TUTTI_INT64, TUTTI_MAX,
			      g->all);
	if (!err && counts[parts]) {
		g->told |= g->serves; /* the ranks of the grid say why */
		err = failed ? failed : -EINVAL;
	}
	return err;
}

/* A table for each part: the ranks of that part, one in each replica, push to it and pull it. */
static int make_tables(struct gpt *g, const int64_t *counts, int parts, struct tutti_codec *codec)
{
	struct tutti_ps_options opt = {.size = sizeof(opt),
				       .rule = TUTTI_PS_ADAMW,
				       .combine = g->o.staleness ? TUTTI_PS_EACH
								 : TUTTI_PS_COMBINE_SUM,
				       .rate = g->o.rate,
				       .beta1 = ADAMW_BETA1,
				       .beta2 = ADAMW_BETA2,
				       .weight_decay = g->o.decay,
				       .codec = codec};
	struct tutti_ps_table *table;
	char name[32];
	int i, err = 0;

	for (i = 0; i < parts && !err; i++) {
		snprintf(name, sizeof(name), "part %d", i);
		err = tutti_ps_dense(g->ps, name, (size_t)counts[i], REAL, &opt, &table);
		if (!err && !g->serves && i == part_number(g))
			g->table = table;
	}
	return err;
}

/* By one replica, or from a checkpoint. */
static int set_values(struct gpt *g)
{
	if (g->serves)
		return 0;
	if (g->o.load)
		return checkpoint_load_servers(g, g->o.load);
	return g->at[DATA] ? 0 : tutti_ps_set(g->table, g->value, g->count, REAL);
}

int downpour_make(struct gpt *g, int failed)
{
	struct tutti_ps_config config = {.size = sizeof(config),
					 .role = g->serves ? TUTTI_PS_SERVER : TUTTI_PS_WORKER,
					 .staleness = g->o.staleness};
	int parts = g->o.dims[PIPELINE] * g->o.dims[TENSOR], err;
	int64_t *counts = calloc((size_t)parts + 1, sizeof(*counts));
	struct tutti_codec *codec = NULL;

	if (!counts)
		return -ENOMEM;
	if (!failed)
		g->doing = "making the parameter server";
	if (!failed && g->o.codec)
		failed = tutti_codec_create(g->o.codec, &codec);
	err = agree_on_parts(g, failed, counts, parts);
	if (!err)
		err = tutti_ps_open(g->all, &config, &g->ps);
	if (!err)
		err = make_tables(g, counts, parts, codec);
	tutti_codec_free(codec);
	free(counts);
	if (!err)
		err = set_values(g);
	return err ? err : tutti_barrier(g->all); /* there are values */
}

int downpour_pull(struct gpt *g)
{
	int err = tutti_ps_pull(g->table, g->value, 0, g->count, REAL);

	return err ? err : gradients_agree(g, g->value);
}

int downpour_step(struct gpt *g)
{
	double from = now();
	int err = tutti_ps_push(g->table, g->grad, 0, g->count, REAL);

	if (!err)
		err = tutti_ps_clock(g->ps);
	if (!err)
		err = downpour_pull(g);
	g->waited[DATA] += now() - from;
	return err;
}

/* Servers serve until all ranks of the grid are here. */
int downpour_close(struct gpt *g)
{
	int err = g->ps ? tutti_ps_close(g->ps) : 0;

	if (err)
		g->doing = "closing the parameter server";
	if (g->world && g->world != g->all)
		tutti_comm_free(g->world);
	return err;
}
