/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The simulator's node ops: steps that ranks of a host signal and wait for, and work in their
 * memory.
 */
#include <errno.h>
#include <stdlib.h>

#include "lib/verify/sim_int.h"

/*
 * Share of the cost of a byte that is copied, or combined and stored, in memory: as in the cost
 * functions.
 */
#define IN_CACHE 0.6

int tt_sim_steps_init(struct sim_steps *steps, const struct tt_plan_args *args)
{
	steps->nranks = args->nranks;
	steps->hosts = args->hosts;
	steps->made = calloc((size_t)args->nranks, sizeof(*steps->made));
	steps->seen = calloc((size_t)args->nranks, sizeof(*steps->seen));
	return steps->made && steps->seen ? 0 : -ENOMEM;
}

void tt_sim_steps_free(struct sim_steps *steps)
{
	free(steps->made);
	free(steps->seen);
	free(steps->wait);
}

static bool near(const struct sim_steps *steps, int a, int b)
{
	return !steps->hosts || steps->hosts->host[a] == steps->hosts->host[b];
}

static bool reached(const struct sim_steps *steps, const struct sim_wait *w)
{
	int r;

	if (w->peer != TT_ALL_RANKS)
		return steps->seen[w->peer] >= w->step;
	for (r = 0; r < steps->nranks; r++)
		if (near(steps, r, w->rank) && steps->seen[r] < w->step)
			return false;
	return true;
}

int tt_sim_wait(struct sim_steps *steps, int rank, uint32_t lane, const struct tt_op *op)
{
	struct sim_wait w = {.rank = rank, .peer = op->peer, .step = op->index, .lane = lane},
			*more;

	if (reached(steps, &w))
		return 1;
	if (steps->nwaits == steps->cap) {
		more = reallocarray(steps->wait, 2 * steps->cap + 16, sizeof(*more));
		if (!more)
			return -ENOMEM;
		steps->wait = more;
		steps->cap = 2 * steps->cap + 16;
	}
	steps->wait[steps->nwaits++] = w;
	return 0;
}

uint32_t tt_sim_signal(struct sim_steps *steps, int rank, const struct tt_op *op)
{
	steps->made[rank] = op->index == TT_NEXT_STEP ? steps->made[rank] + 1 : op->index;
	return (uint32_t)rank * (TT_STEPS_MAX + 1) + steps->made[rank];
}

void tt_sim_seen(struct sim_steps *steps, uint32_t signal)
{
	uint32_t step = signal % (TT_STEPS_MAX + 1),
		 *seen = &steps->seen[signal / (TT_STEPS_MAX + 1)];

	*seen = step > *seen ? step : *seen;
}

uint32_t tt_sim_woken(struct sim_steps *steps)
{
	uint32_t i, lane;

	for (i = 0; i < steps->nwaits; i++) {
		if (!reached(steps, &steps->wait[i]))
			continue;
		lane = steps->wait[i].lane;
		steps->wait[i] = steps->wait[--steps->nwaits];
		return lane;
	}
	return SIM_NONE;
}

double tt_sim_node_work(const struct sim_steps *steps, const struct tt_model *model, int rank,
			const struct tt_op *op)
{
	const struct tt_hosts *h = steps->hosts;
	double ranks = h ? h->size[h->host[rank]] : steps->nranks, len = (double)op->len;
	double beta = model->link[TT_LEVEL_HOST].beta, copy = model->copy;
	bool all = op->peer == TT_ALL_RANKS;

	if (!tt_op_applies(op, false))
		return 0;
	if (op->kind == TT_OP_PULL_REDUCE && op->index)
		ranks = op->index;
	if (op->kind == TT_OP_PULL_REDUCE)
		return IN_CACHE / 2 * model->gamma * len * (ranks + (all ? ranks : 0));
	if (op->kind == TT_OP_PUSH)
		return IN_CACHE * copy * len * (all ? ranks - 1 : 1);
	return 0.9 * len * (beta > 0 && beta < copy ? beta : copy);
}
