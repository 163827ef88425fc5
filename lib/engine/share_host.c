/* SPDX-License-Identifier: BSD-3-Clause */
/* The part of its host that is a rank's: how it waits (TUTTI_WAIT), and the bytes of the cache. */
#include <sched.h>
#include <string.h>
#include <unistd.h>

#include "lib/base/log.h"
#include "lib/engine/engine.h"
#include "lib/node/stores.h"

/* Whether this process may not use all CPUs of the host. */
static bool is_bound(void)
{
	cpu_set_t may;

	return !sched_getaffinity(0, sizeof(may), &may) &&
	       CPU_COUNT(&may) < sysconf(_SC_NPROCESSORS_ONLN);
}

/* Waiting costs time slices where ranks share CPUs; the user can change it if there are more. */
static void warn_of_sharing(const struct tutti_context *ctx, const struct tt_wire_sharers *s)
{
	long online = sysconf(_SC_NPROCESSORS_ONLN);

	if (s->ranks <= s->cpus || s->first != ctx->boot_params.rank)
		return;
	if (is_bound() && online >= s->host_ranks)
		tt_warn("%d ranks of this host, among them %d and %d, take turns on %d of its %ld "
			"CPUs, to which they are bound; bind each rank to a core of its own "
			"(mpirun --bind-to core, srun --cpu-bind=cores)",
			s->ranks, s->first, s->second, s->cpus, online);
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
	ctx->cache = tt_stores_share(&ctx->env, sharers.host_ranks);
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
