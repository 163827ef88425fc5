/* SPDX-License-Identifier: BSD-3-Clause */
/* The modelled machine: processors, ports and uplinks, each serving one thing at a time. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "lib/base/hash.h"
#include "lib/plan/sim_int.h"

void tt_sim_model_default(struct tt_sim_model *model)
{
	*model = (struct tt_sim_model){
		.link = {[TT_SIM_HOST] = {300, 1 / 10.0},
			 [TT_SIM_LEAF] = {2000, 1 / 12.5},
			 [TT_SIM_FAR] = {3000, 1 / 12.5}},
		.gamma = 1 / 10.0,
		.copy = 1 / 10.0,
		.overhead = 100,
		.eager = 8192,
		.ranks_per_host = 1,
		.rails = 1,
		.oversub = 1,
		.straggler = -1,
		.straggler_factor = 1,
	};
}

static int host_of(const struct tt_sim_model *model, int rank)
{
	return rank / model->ranks_per_host;
}

static int leaf_of(const struct tt_sim_model *model, int rank)
{
	return model->hosts_per_leaf ? host_of(model, rank) / model->hosts_per_leaf : 0;
}

enum tt_sim_level tt_sim_level_of(const struct tt_sim_model *model, int a, int b)
{
	if (host_of(model, a) == host_of(model, b))
		return TT_SIM_HOST;
	return leaf_of(model, a) == leaf_of(model, b) ? TT_SIM_LEAF : TT_SIM_FAR;
}

int tt_sim_net_init(struct sim_net *net, const struct tt_sim_model *model, int nranks, bool mirror)
{
	size_t ranks = mirror ? 1 : (size_t)nranks;
	size_t nics = mirror ? (size_t)model->rails
			     : ((size_t)host_of(model, nranks - 1) + 1) * (size_t)model->rails;
	size_t leaves = (size_t)leaf_of(model, nranks - 1) + 1;
	int hosts = model->hosts_per_leaf ? model->hosts_per_leaf : 1;

	*net = (struct sim_net){
		.model = model, .mirror = mirror, .nranks = nranks, .random = model->seed};
	net->uplink_beta =
		model->link[TT_SIM_FAR].beta * model->oversub / ((double)hosts * model->rails);
	net->cpu = calloc(ranks, sizeof(double));
	net->mem_out = calloc(ranks, sizeof(double));
	net->mem_in = calloc(ranks, sizeof(double));
	net->nic_out = calloc(nics, sizeof(double));
	net->nic_in = calloc(nics, sizeof(double));
	net->uplink = calloc(leaves, sizeof(double));
	if (!net->cpu || !net->mem_out || !net->mem_in || !net->nic_out || !net->nic_in ||
	    !net->uplink)
		return -ENOMEM;
	return 0;
}

void tt_sim_net_free(struct sim_net *net)
{
	free(net->cpu);
	free(net->mem_out);
	free(net->mem_in);
	free(net->nic_out);
	free(net->nic_in);
	free(net->uplink);
}

double tt_sim_serve(double *free_at, double now, double busy)
{
	double start = *free_at > now ? *free_at : now;

	*free_at = start + busy;
	return start;
}

double tt_sim_compute(struct sim_net *net, int rank, double now, double busy)
{
	if (rank == net->model->straggler)
		busy *= net->model->straggler_factor;
	return tt_sim_serve(&net->cpu[net->mirror ? 0 : rank], now, busy) + busy;
}

/* The sending and the receiving end use the port of the sender's choice, as rails are paired. */
static size_t nic(const struct sim_net *net, const struct sim_msg *m, int end)
{
	const struct tt_sim_model *model = net->model;
	size_t rail = ((size_t)m->from + m->lane) % (size_t)model->rails;

	return (net->mirror ? 0 : (size_t)host_of(model, end) * (size_t)model->rails) + rail;
}

double *tt_sim_port_out(struct sim_net *net, const struct sim_msg *m)
{
	if (tt_sim_level_of(net->model, m->from, m->to) == TT_SIM_HOST)
		return &net->mem_out[net->mirror ? 0 : m->from];
	return &net->nic_out[nic(net, m, m->from)];
}

double *tt_sim_port_in(struct sim_net *net, const struct sim_msg *m)
{
	if (tt_sim_level_of(net->model, m->from, m->to) == TT_SIM_HOST)
		return &net->mem_in[net->mirror ? 0 : m->to];
	return &net->nic_in[nic(net, m, m->to)];
}

double *tt_sim_uplink(struct sim_net *net, const struct sim_msg *m)
{
	return &net->uplink[leaf_of(net->model, m->from)];
}

double tt_sim_alpha(struct sim_net *net, const struct sim_msg *m)
{
	double alpha = net->model->link[tt_sim_level_of(net->model, m->from, m->to)].alpha;
	double u;

	if (net->model->jitter > 0) {
		u = (double)(tt_random(&net->random) >> 11) * 0x1p-53;
		alpha -= net->model->jitter * log(1 - u);
	}
	return alpha;
}
