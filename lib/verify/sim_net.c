/* SPDX-License-Identifier: BSD-3-Clause */
/* The modelled machine: processors, ports and uplinks, each serving one thing at a time. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "lib/base/hash.h"
#include "lib/verify/sim_int.h"

int tt_sim_net_init(struct sim_net *net, const struct tt_model *model, int nranks, bool mirror)
{
	size_t ranks = mirror ? 1 : (size_t)nranks;
	size_t hosts = (size_t)tt_model_hosts(model, nranks);
	size_t nics = (mirror ? 1 : hosts) * (size_t)model->rails;
	size_t leaves = model->hosts_per_leaf ? (hosts - 1) / (size_t)model->hosts_per_leaf + 1 : 1;
	int shared = model->hosts_per_leaf ? model->hosts_per_leaf : 1;

	*net = (struct sim_net){
		.model = model, .mirror = mirror, .nranks = nranks, .random = model->seed};
	net->uplink_beta =
		model->link[TT_LEVEL_FAR].beta * model->oversub / ((double)shared * model->rails);
	net->cpu = calloc(ranks, sizeof(double));
	net->host_cpu = calloc(hosts, sizeof(double));
	net->mem_out = calloc(ranks, sizeof(double));
	net->mem_in = calloc(ranks, sizeof(double));
	net->nic_out = calloc(nics, sizeof(double));
	net->nic_in = calloc(nics, sizeof(double));
	net->uplink = calloc(leaves, sizeof(double));
	net->downlink = calloc(leaves, sizeof(double));
	if (!net->cpu || !net->host_cpu || !net->mem_out || !net->mem_in || !net->nic_out ||
	    !net->nic_in || !net->uplink || !net->downlink)
		return -ENOMEM;
	return 0;
}

void tt_sim_net_free(struct sim_net *net)
{
	free(net->cpu);
	free(net->host_cpu);
	free(net->mem_out);
	free(net->mem_in);
	free(net->nic_out);
	free(net->nic_in);
	free(net->uplink);
	free(net->downlink);
}

double tt_sim_serve(double *free_at, double now, double busy)
{
	double start = *free_at > now ? *free_at : now;

	*free_at = start + busy;
	return start;
}

/*
 * A rank does one thing at a time. If ranks share processors, these take all work of their host
 * and are as fast as their number.
 */
double tt_sim_compute(struct sim_net *net, int rank, double now, double busy)
{
	double *own = &net->cpu[net->mirror ? 0 : rank], *host;

	if (rank == net->model->straggler)
		busy *= net->model->straggler_factor;
	tt_sim_serve(own, now, busy);
	if (!net->model->cores)
		return *own;
	host = &net->host_cpu[tt_model_host(net->model, rank)];
	tt_sim_serve(host, now, busy / net->model->cores);
	if (*own < *host)
		*own = *host;
	return *own;
}

/* The sending and the receiving end use the port of the sender's choice, as rails are paired. */
static size_t nic(const struct sim_net *net, const struct sim_msg *m, int end)
{
	const struct tt_model *model = net->model;
	size_t rail = ((size_t)m->from + m->lane) % (size_t)model->rails;

	return (net->mirror ? 0 : (size_t)tt_model_host(model, end) * (size_t)model->rails) + rail;
}

double *tt_sim_port_out(struct sim_net *net, const struct sim_msg *m)
{
	if (tt_model_level(net->model, m->from, m->to) == TT_LEVEL_HOST)
		return &net->mem_out[net->mirror ? 0 : m->from];
	return &net->nic_out[nic(net, m, m->from)];
}

double *tt_sim_port_in(struct sim_net *net, const struct sim_msg *m)
{
	if (tt_model_level(net->model, m->from, m->to) == TT_LEVEL_HOST)
		return &net->mem_in[net->mirror ? 0 : m->to];
	return &net->nic_in[nic(net, m, m->to)];
}

double tt_sim_alpha(struct sim_net *net, const struct sim_msg *m)
{
	double alpha = net->model->link[tt_model_level(net->model, m->from, m->to)].alpha;
	double u;

	if (net->model->jitter > 0) {
		u = (double)(tt_random(&net->random) >> 11) * 0x1p-53;
		alpha -= net->model->jitter * log(1 - u);
	}
	return alpha;
}
