/* SPDX-License-Identifier: BSD-3-Clause */
/* Push-sum: checks arguments, then lib/graph/push_sum.c. */
#include <errno.h>
#include <float.h>

#include "lib/api/api.h"
#include "lib/engine/vote.h"
#include "lib/graph/graph.h"
#include "lib/graph/push_sum.h"

static int check_push_sum(const char *call, const struct tutti_push_sum *state)
{
	return tt_check_object(call, "state", state, state && state->magic == TT_PUSH_SUM_MAGIC,
			       "state of a push-sum");
}

static int check_values(const char *call, const struct tutti_push_sum *state, const double *v)
{
	int err = check_push_sum(call, state);

	if (!err && !v && state->count)
		err = tt_fail(-EINVAL, "%s: the vector is NULL", call);
	return err;
}

/* This rank's part, which waits for no other rank. */
static int new_state(const struct tutti_comm *comm, size_t count, struct tutti_push_sum **state,
		     struct tutti_push_sum **made)
{
	static const char call[] = "tutti_push_sum_create";

	if (!state)
		return tt_fail(-EINVAL, "%s: state is NULL", call);
	if (count >= (size_t)PTRDIFF_MAX / sizeof(double))
		return tt_fail(-EINVAL, "%s: a count of %zu float64 does not fit in memory", call,
			       count);
	return tt_push_sum_new(comm->size, comm->rank, count, made);
}

int tutti_push_sum_create(struct tutti_comm *comm, size_t count, struct tutti_push_sum **state)
{
	struct tutti_push_sum *made = NULL;
	int err = tt_check_waiting(__func__, comm);

	if (err)
		return err;
	err = tt_agree(comm, __func__, new_state(comm, count, state, &made));
	if (!err)
		err = tt_push_sum_begin(made, comm);
	if (!err)
		*state = made;
	else if (made)
		tt_push_sum_release(made);
	return err;
}

int tutti_push_sum_free(struct tutti_push_sum *state)
{
	int err = state ? check_push_sum(__func__, state) : 0;

	if (!err && state)
		err = tt_group_refuse(__func__);
	return err || !state ? err : tt_push_sum_free(state);
}

int tutti_push_sum_add(struct tutti_push_sum *state, const double *delta)
{
	int err = check_values(__func__, state, delta);
	size_t i;

	for (i = 0; !err && i < state->count; i++)
		state->x[i] += delta[i];
	return err;
}

int tutti_push_sum_step(struct tutti_push_sum *state, const struct tutti_graph *graph,
			uint64_t step)
{
	int err = check_push_sum(__func__, state);

	if (!err)
		err = tt_check_graph(__func__, graph);
	if (err)
		return err;
	if (graph->n != state->n)
		return tt_fail(-EINVAL,
			       "%s: the graph has %d ranks, but the communicator has %d; make a "
			       "graph of its size",
			       __func__, graph->n, state->n);
	err = tt_group_refuse(__func__);
	return err ? err : tt_push_sum_step(state, tt_graph_at(graph, step));
}

int tutti_push_sum_drain(struct tutti_push_sum *state)
{
	int err = check_push_sum(__func__, state);

	if (!err)
		err = tt_group_refuse(__func__);
	return err ? err : tt_push_sum_drain(state);
}

int tutti_push_sum_get(const struct tutti_push_sum *state, double *z, double *weight)
{
	int err = check_values(__func__, state, z);
	size_t i;

	if (err)
		return err;
	if (!(state->w >= DBL_MIN)) /* below it a quotient loses its digits */
		return tt_fail(-EAGAIN,
			       "%s: the weight is %g, as this rank has kept nothing and nothing "
			       "has come yet; make another step",
			       __func__, state->w);
	for (i = 0; i < state->count; i++)
		z[i] = state->x[i] / state->w;
	if (weight)
		*weight = state->w;
	return 0;
}

uint64_t tutti_push_sum_missed(const struct tutti_push_sum *state)
{
	return state ? state->missed : 0;
}
