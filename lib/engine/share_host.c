/* SPDX-License-Identifier: BSD-3-Clause */
/* The part of its host that is a rank's: how it waits (TUTTI_WAIT), and the bytes of the cache. */
#include <sched.h>
#include <string.h>

#include "lib/base/log.h"
#include "lib/engine/node/node_ops.h"
#include "lib/node/stores.h"
#include "lib/topo/topo.h"

/* Whether this process may use fewer CPUs than it could be bound to. */
static bool is_bound(int bindable)
{
	cpu_set_t may;

	return !sched_getaffinity(0, sizeof(may), &may) && CPU_COUNT(&may) < bindable;
}

/*
 * Waiting costs time slices where ranks share CPUs; the user can change it if there are more. In a
 * cpuset there are not, however many CPUs the machine has.
 */
static void warn_of_sharing(const struct tutti_context *ctx, const struct tt_wire_sharers *s)
{
	int bindable;

	if (s->ranks <= s->cpus || s->first != ctx->boot_params.rank)
		return;
	bindable = tt_topo_bindable();
	if (is_bound(bindable) && bindable >= s->host_ranks)
		tt_warn("%d ranks of this host, among them %d and %d, take turns on %d of its %d "
			"CPUs, to which they are bound; bind each rank to a core of its own "
			"(mpirun --bind-to core, srun --cpu-bind=cores)",
			s->ranks, s->first, s->second, s->cpus, bindable);
	else if (ctx->wait_mode == TT_WAIT_SPIN)
		tt_warn("TUTTI_WAIT=spin: %d ranks of this host spin on %d CPUs and take turns "
			"there; TUTTI_WAIT=auto yields",
			s->ranks, s->cpus);
}

void tt_engine_share_host(struct tutti_context *ctx)
{
	const char *mode = ctx->env.wait.text;
	struct tt_wire_sharers sharers;

	tt_wire_sharers(ctx->wire, &sharers);
	ctx->cache = tt_stores_share(&ctx->env, 0, sharers.host_ranks);
	ctx->wait_forced = strcmp(mode, "auto") != 0;
	if (!strcmp(mode, "sleep"))
		ctx->wait_mode = TT_WAIT_SLEEP;
	else if (!strcmp(mode, "yield"))
		ctx->wait_mode = TT_WAIT_YIELD;
	else if (!strcmp(mode, "spin") || (sharers.ranks && sharers.ranks <= sharers.cpus))
		ctx->wait_mode = TT_WAIT_SPIN;
	else
		ctx->wait_mode = TT_WAIT_YIELD;
	warn_of_sharing(ctx, &sharers);
}

void tt_engine_measured_cache(struct tutti_context *ctx, size_t measured)
{
	struct tt_wire_sharers sharers;
	struct tt_list *l, *tmp;

	tt_wire_sharers(ctx->wire, &sharers);
	ctx->cache = tt_stores_share(&ctx->env, measured, sharers.host_ranks);
	tt_list_each(l, tmp, &ctx->comms)
		tt_node_comm_cache(tt_container(l, struct tutti_comm, link), ctx->cache);
	if (measured)
		tt_info("a rank finds up to %zu bytes in the cache", ctx->cache);
}
