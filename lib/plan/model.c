/* SPDX-License-Identifier: BSD-3-Clause */
/* The clusters that the model knows, and the place of each rank in them. */
#include "lib/plan/model.h"

#include <stdbool.h>
#include <string.h>

#include "lib/base/env.h"

#define SWITCH                                                                                     \
	1500 /* ns until a rank that shares its processor has it again, for each of those it       \
		shares it with */
#define TURN                                                                                       \
	2500 /* and with what it does before it waits for the others, or for each more of them */

#define FAR                                                                                        \
	2.0 /* what a byte of another NUMA node costs, over one of this: as firmware tells of two  \
	       sockets; not measured */

void tt_model_default(struct tt_model *model)
{
	*model = (struct tt_model){
		.link = {[TT_LEVEL_HOST] = {300, 1 / 10.0},
			 [TT_LEVEL_LEAF] = {2000, 1 / 12.5},
			 [TT_LEVEL_FAR] = {3000, 1 / 12.5}},
		.gamma = 1 / 10.0,
		.copy = 1 / 10.0,
		.encode = 1 / 4.0,
		.decode = 1 / 6.0,
		.overhead = 100,
		.eager = 8192,
		.ranks_per_host = 1,
		.rails = 1,
		.oversub = 1,
		.straggler = -1,
		.straggler_factor = 1,
	};
}

int tt_model_host(const struct tt_model *model, int rank)
{
	return model->host ? model->host[rank] : rank / model->ranks_per_host;
}

int tt_model_hosts(const struct tt_model *model, int nranks)
{
	return model->hosts ? model->hosts
			    : (nranks + model->ranks_per_host - 1) / model->ranks_per_host;
}

int tt_model_leaf(const struct tt_model *model, int rank)
{
	return model->hosts_per_leaf ? tt_model_host(model, rank) / model->hosts_per_leaf : 0;
}

enum tt_level tt_model_level(const struct tt_model *model, int a, int b)
{
	if (tt_model_host(model, a) == tt_model_host(model, b))
		return TT_LEVEL_HOST;
	return tt_model_leaf(model, a) == tt_model_leaf(model, b) ? TT_LEVEL_LEAF : TT_LEVEL_FAR;
}

/*
 * Defaults for common machines, used without measurements (tutti_tune): shared memory of one
 * socket, TCP on 10 Gbit/s Ethernet, RDMA at 100 Gbit/s.
 */
static const struct tt_link_costs defaults[] = {
	{.name = "shm", .hop = {400, 1 / 10.0}, .overhead = 200},
	{.name = "verbs", .hop = {1500, 1 / 12.0}, .overhead = 300},
	{.name = "ofi", .hop = {12000, 1 / 1.15}, .overhead = 4000},
};

const struct tt_link_costs *tt_link_default(const char *name)
{
	size_t i;

	for (i = 0; i < sizeof(defaults) / sizeof(defaults[0]); i++)
		if (!strcmp(defaults[i].name, name))
			return &defaults[i];
	return NULL;
}

/* Others that a rank shares its processor with. */
static int turns(const struct tt_model *model)
{
	return model->cores ? (model->ranks_per_host - 1) / model->cores : 0;
}

void tt_model_of(struct tt_model *model, const struct tt_layout *layout,
		 const struct tt_link_costs *host, const struct tt_link_costs *net)
{
	tt_model_default(model);
	model->eager = TT_EAGER_DEFAULT;
	model->gamma = 1 / 8.0;
	model->copy = 1 / 10.0; /* as a put in shared memory: that is a copy too */
	model->ranks_per_host = layout->ranks_per_host;
	model->hosts = layout->hosts;
	model->cores = layout->cores;
	model->link[TT_LEVEL_HOST] = host->hop;
	model->link[TT_LEVEL_LEAF] = model->link[TT_LEVEL_FAR] = net->hop;
	model->overhead = layout->hosts > 1 ? net->overhead : host->overhead;
	model->host_overhead = host->overhead;
	model->link[TT_LEVEL_HOST].alpha += turns(model) * (double)SWITCH;
}

void tt_model_numa(struct tt_model *model, const struct tt_layout *layout, struct tt_model *levels)
{
	struct tt_hop *near = &model->link[TT_LEVEL_HOST];
	double dearer =
		1 + (FAR - 1) * (layout->numa - 1) / layout->numa; /* any byte may be anywhere */

	*levels = *model;
	levels->numa = true;
	levels->hosts = layout->numa;
	levels->ranks_per_host = levels->rails = layout->ranks_per_numa;
	levels->cores = (layout->cores + layout->numa - 1) / layout->numa;
	levels->link[TT_LEVEL_LEAF] = levels->link[TT_LEVEL_FAR] =
		(struct tt_hop){near->alpha, near->beta * FAR};
	near->beta *= dearer;
	model->gamma *= dearer;
	model->copy *= dearer;
	model->encode *= dearer;
	model->decode *= dearer;
}

/* A line of cache changes hands, where a message takes several, and the work at both ends. */
double tt_model_step(const struct tt_model *model)
{
	return model->link[TT_LEVEL_HOST].alpha / 4 + turns(model) * (double)TURN;
}
