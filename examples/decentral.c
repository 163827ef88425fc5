/* SPDX-License-Identifier: BSD-3-Clause */
/* The methods of train_decentralized: what a rank does with its gradient, and with whom. */
#include "examples/decentral.h"

#include <stdlib.h>
#include <string.h>

static void descend(struct decentral *d, int samples)
{
	mlp_step(&d->net, samples, d->rate, d->momentum);
}

static int nothing(struct decentral *d)
{
	(void)d;
	return 0;
}

/* The mean of all models. */
static int mean(struct decentral *d)
{
	d->doing = "averaging the models";
	return tutti_allreduce(TUTTI_IN_PLACE, d->weights, d->size, TUTTI_FLOAT64, TUTTI_AVG,
			       d->comm);
}

/* ---- allreduce: all take the same step ---- */

static int allreduce_step(struct decentral *d)
{
	size_t n = (size_t)d->nranks;
	int err;

	d->doing = "adding up gradients";
	err = tutti_allreduce(TUTTI_IN_PLACE, d->gradient, d->size, TUTTI_FLOAT64, TUTTI_SUM,
			      d->comm);
	d->bytes += 4 * (n - 1) * d->size * sizeof(double) / n;
	if (!err)
		descend(d, d->batch * d->nranks);
	return err;
}

/* ---- gossip: mailboxes along an exponential graph ---- */

static int gossip_begin(struct decentral *d)
{
	struct tutti_gossip_config config = {
		.size = sizeof(config), .count = d->size, .datatype = TUTTI_FLOAT64};
	int *in = calloc(2 * (size_t)d->nranks, sizeof(*in)), *out = in + d->nranks, err;
	struct tutti_graph *graph = NULL;

	d->doing = "making mailboxes";
	err = in ? tutti_graph_exponential(d->nranks, &graph) : -1;
	if (!err)
		err = tutti_graph_in(graph, 0, d->rank, in, d->nranks, &config.nin);
	if (!err)
		err = tutti_graph_out(graph, 0, d->rank, out, d->nranks, &config.nout);
	config.in = in;
	config.out = out;
	if (!err)
		err = tutti_gossip_create(d->comm, &config, &d->gossip);
	tutti_graph_free(graph);
	free(in);
	return err;
}

static int gossip_step(struct decentral *d)
{
	struct tutti_gossip_state state = {.size = sizeof(state)};
	int err;

	descend(d, d->batch);
	d->doing = "posting a model";
	err = tutti_gossip_post(d->gossip, d->weights);
	if (!err)
		err = tutti_gossip_mix(d->gossip, d->weights);
	if (!err)
		err = tutti_gossip_state(d->gossip, &state);
	d->bytes = state.bytes;
	return err;
}

static int gossip_end(struct decentral *d)
{
	return tutti_gossip_free(d->gossip);
}

/* ---- pairwise: AD-PSGD ---- */

static int pairwise_begin(struct decentral *d)
{
	void *shared;
	int err;

	d->doing = "making the vectors of pairs";
	err = tutti_pair_create(d->comm, d->size, TUTTI_FLOAT64, &shared, &d->pair);
	if (err)
		return err;
	d->shared = memcpy(shared, d->weights, d->size * sizeof(double));
	memcpy(d->before, d->weights, d->size * sizeof(double));
	return tutti_barrier(d->comm);
}

/* The step of the private model is added to the shared one, which others have averaged since. */
static int pairwise_step(struct decentral *d)
{
	size_t i;
	int err;

	descend(d, d->batch);
	d->doing = "averaging with another rank";
	err = tutti_pair_average(d->pair, TUTTI_PAIR_ANY, NULL);
	if (!err)
		err = tutti_pair_lock(d->pair, d->rank);
	if (err)
		return err;
	for (i = 0; i < d->size; i++) {
		d->shared[i] += d->weights[i] - d->before[i];
		d->weights[i] = d->before[i] = d->shared[i];
	}
	d->bytes += 2 * d->size * sizeof(double);
	return tutti_pair_unlock(d->pair);
}

static int pairwise_result(struct decentral *d)
{
	int err = tutti_barrier(d->comm); /* no rank averages any more */

	memcpy(d->weights, d->shared, d->size * sizeof(double));
	return err ? err : mean(d);
}

static int pairwise_end(struct decentral *d)
{
	return tutti_pair_free(d->pair);
}

/* ---- easgd: a center on the parameter server, asynchronously ---- */

static int easgd_begin(struct decentral *d)
{
	struct tutti_ps_config config = {.size = sizeof(config), .staleness = TUTTI_PS_ASYNC};
	int err;

	d->doing = "making the center";
	err = tutti_ps_open(d->comm, &config, &d->ps);
	if (!err)
		err = tutti_ps_dense(d->ps, "center", d->size, TUTTI_FLOAT64, NULL, &d->center);
	if (!err && d->rank == 0)
		err = tutti_ps_set(d->center, d->weights, d->size, TUTTI_FLOAT64);
	return err ? err : tutti_barrier(d->comm);
}

static int easgd_step(struct decentral *d)
{
	descend(d, d->batch);
	d->doing = "exchanging with the center";
	if (++d->steps % d->tau)
		return 0;
	d->bytes += 2 * d->size * sizeof(double);
	return tutti_ps_elastic(d->center, d->weights, 0, d->size, TUTTI_FLOAT64, d->alpha);
}

/* Swapped out, as a pull might read an older one. */
static int easgd_result(struct decentral *d)
{
	int err = tutti_barrier(d->comm);

	d->doing = "fetching the center";
	if (!err && d->rank == 0)
		err = tutti_ps_elastic(d->center, d->weights, 0, d->size, TUTTI_FLOAT64, 1);
	return err ? err : tutti_bcast(d->weights, d->size, TUTTI_FLOAT64, 0, d->comm);
}

static int easgd_end(struct decentral *d)
{
	return tutti_ps_close(d->ps);
}

/* ---- easgd-sync: the same on all-reduces ---- */

static int sync_begin(struct decentral *d)
{
	memcpy(d->before, d->weights, d->size * sizeof(double));
	return 0;
}

static int sync_step(struct decentral *d)
{
	size_t n = (size_t)d->nranks;

	descend(d, d->batch);
	d->doing = "exchanging with the center";
	if (++d->steps % d->tau)
		return 0;
	d->bytes += 4 * (n - 1) * d->size * sizeof(double) / n;
	return tutti_elastic_average(d->weights, d->before, d->work, d->size, TUTTI_FLOAT64,
				     d->alpha, d->comm);
}

static int sync_result(struct decentral *d)
{
	memcpy(d->weights, d->before, d->size * sizeof(double));
	return 0;
}

/* ---- neighbor: D-PSGD along the one-peer exponential graph ---- */

static int neighbor_begin(struct decentral *d)
{
	d->doing = "making the graph";
	return tutti_graph_one_peer(d->nranks, &d->graph);
}

static int neighbor_step(struct decentral *d)
{
	descend(d, d->batch);
	d->doing = "averaging with a neighbour";
	d->bytes += 2 * d->size * sizeof(double);
	return tutti_neighbor_allreduce(TUTTI_IN_PLACE, d->weights, d->size, TUTTI_FLOAT64,
					d->graph, (uint64_t)d->steps++, d->comm);
}

static int neighbor_end(struct decentral *d)
{
	return tutti_graph_free(d->graph);
}

/* ---- local: the mean of the models after every tau steps ---- */

static int local_begin(struct decentral *d)
{
	void *const parameters[] = {d->weights};
	struct tutti_local_steps_config config = {.size = sizeof(config),
						  .n = 1,
						  .counts = &d->size,
						  .parameters = parameters,
						  .datatype = TUTTI_FLOAT64,
						  .every = d->tau};

	d->doing = "preparing local steps";
	return tutti_local_steps_create(d->comm, &config, &d->local);
}

static int local_step(struct decentral *d)
{
	size_t n = (size_t)d->nranks;

	descend(d, d->batch);
	d->doing = "averaging the models";
	if (++d->steps % d->tau == 0)
		d->bytes += 4 * (n - 1) * d->size * sizeof(double) / n;
	return tutti_local_steps_step(d->local, NULL);
}

static int local_result(struct decentral *d)
{
	return tutti_local_steps_finish(d->local);
}

static int local_end(struct decentral *d)
{
	return tutti_local_steps_free(d->local);
}

static const struct decentral_method methods[] = {
	{"allreduce", nothing, allreduce_step, nothing, nothing},
	{"gossip", gossip_begin, gossip_step, mean, gossip_end},
	{"pairwise", pairwise_begin, pairwise_step, pairwise_result, pairwise_end},
	{"easgd", easgd_begin, easgd_step, easgd_result, easgd_end},
	{"easgd-sync", sync_begin, sync_step, sync_result, nothing},
	{"neighbor", neighbor_begin, neighbor_step, mean, neighbor_end},
	{"local", local_begin, local_step, local_result, local_end},
	{"partial", partial_begin, partial_step, partial_result, partial_end},
};

const struct decentral_method *decentral_find(const char *name)
{
	size_t i;

	for (i = 0; i < sizeof(methods) / sizeof(methods[0]); i++)
		if (!strcmp(methods[i].name, name))
			return &methods[i];
	return NULL;
}

const char *decentral_names(void)
{
	static char names[100];
	size_t i;

	for (i = 0; !names[0] || i < sizeof(methods) / sizeof(methods[0]); i++) {
		if (i)
			strcat(names, " ");
		strcat(names, methods[i].name);
	}
	return names;
}
