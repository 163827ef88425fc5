/* SPDX-License-Identifier: BSD-3-Clause */
/* The parts of a communicator: its chooser, its plan cache and its host memory, made and freed. */
#include "lib/p2p/p2p.h"

#include <errno.h>

#include "lib/base/hash.h"
#include "lib/engine/alltoallw.h"
#include "lib/engine/node/node_ops.h"
#include "lib/job/job.h"

/* From values that are equal on all ranks. */
static int new_chooser(struct tutti_comm *comm, const struct tt_agreed *agreed,
		       struct tt_chooser **chooser)
{
	size_t longest = tt_wire_longest(comm->ctx->wire);
	struct tt_chooser_params params = {.rules = agreed->algo,
					   .chunk = agreed->chunk < longest ? agreed->chunk
									    : longest,
					   .lanes = agreed->lanes,
					   .nranks = comm->size,
					   .tune = comm->ctx->tune};
	struct tt_wire_spread spread;
	int err = tt_wire_spread(comm->ctx->wire, comm->world, comm->size, &spread);

	if (err)
		return err;
	params.layout = (struct tt_layout){.hosts = spread.hosts,
					   .ranks_per_host = spread.most,
					   .cores = spread.cpus,
					   .numa = spread.numa,
					   .ranks_per_numa = spread.numa_most};
	params.inside = spread.inside;
	params.between = spread.between;
	return tt_chooser_by_table(&params, chooser);
}

int tt_comm_choose(struct tutti_comm *comm, const struct tt_agreed *agreed)
{
	struct tt_plan_cache *plans;
	struct tt_chooser *chooser;
	int err = new_chooser(comm, agreed, &chooser);

	if (err)
		return err;
	err = tt_plans_new(comm, &plans);
	if (err) {
		tt_chooser_free(chooser);
		return err;
	}
	tt_wire_lock(comm->ctx->wire);
	tt_plans_free(comm->plans);
	tt_chooser_free(comm->chooser);
	comm->plans = plans;
	comm->chooser = chooser;
	tt_codec_forget(comm); /* choices of the previous chooser */
	if (comm->node)
		tt_short_forget(comm->node);
	tt_wire_unlock(comm->ctx->wire);
	return 0;
}

int tt_comm_equip(struct tutti_comm *comm, const struct tt_agreed *agreed)
{
	int err = tt_comm_choose(comm, agreed);

	if (!err)
		err = tt_node_comm_new(comm);
	return err;
}

void tt_comm_strip(struct tutti_comm *comm)
{
	tt_wire_lock(comm->ctx->wire);
	tt_comm_forget_subsets(comm);
	tt_plans_free(comm->plans);
	comm->plans = NULL;
	tt_node_comm_free(comm);
	free(comm->all_hosts);
	comm->all_hosts = NULL;
	tt_p2p_end(comm);
	tt_alltoallw_free(comm);
	tt_codec_forget(comm);
	tt_chooser_free(comm->chooser);
	comm->chooser = NULL;
	tt_wire_unlock(comm->ctx->wire);
}

void tt_comm_reap(struct tutti_context *ctx)
{
	struct tt_list *l, *tmp;

	ctx->reap_due = false;
	tt_list_each(l, tmp, &ctx->comms)
	{
		struct tutti_comm *comm = tt_container(l, struct tutti_comm, link);

		if (!comm->freed || comm->requests || comm->windows || comm->partials)
			continue;
		tt_comm_strip(comm);
		tt_comm_bury(comm);
		tt_comm_tell_freed(comm);
	}
}

int tt_comm_carries(struct tutti_comm *comm, const char *call)
{
	size_t carried;

	tt_wire_lock(comm->ctx->wire);
	carried = comm->carried;
	tt_wire_unlock(comm->ctx->wire);
	if (!carried)
		return 0;
	return tt_fail(-EBUSY,
		       "%s: %zu bytes that a partial all-reduce carries are in no result; call "
		       "tutti_partial_drain first",
		       call, carried);
}

void tt_comm_free(struct tutti_comm *comm)
{
	struct tutti_context *ctx = comm->ctx;

	tt_wire_lock(ctx->wire);
	comm->freed = true;
	comm->magic = TT_COMM_DEAD;
	tt_p2p_freed(comm);
	tt_comm_reap(ctx);
	tt_wire_unlock(ctx->wire);
}

static void unmade(struct tutti_context *ctx, uint64_t uid, int err, const char *call)
{
	tt_wire_lock(ctx->wire);
	tt_comm_unmade(ctx, uid, err, call);
	tt_wire_unlock(ctx->wire);
}

int tt_comm_begin(struct tutti_context *ctx, const int *world, int n,
		  const struct tt_comm_kind *kind, const char *call, struct tutti_comm **out)
{
	struct tutti_comm *comm = NULL;
	struct tt_agreed agreed;
	int err;

	err = world ? tt_agreed_get(ctx, &agreed)
		    : tt_fail(-ENOMEM, "no memory for a communicator");
	if (!err)
		err = tt_comm_new(ctx, world, n, kind, &comm);
	if (!err)
		err = tt_comm_equip(comm, &agreed);
	if (err && !(comm && atomic_load(&comm->failed)))
		unmade(ctx, kind->uid, err, call);
	if (!comm)
		return err;
	*out = comm;
	return 0;
}

bool tt_comm_ready(struct tutti_comm *comm, const char *call)
{
	int err = tt_node_comm_share(comm, true);

	if (err == -EAGAIN)
		return false;
	if (err && !atomic_load(&comm->failed))
		tt_comm_unmade(comm->ctx, comm->uid, err, call);
	return true;
}

void tt_comm_finish(struct tutti_comm *comm, const char *call)
{
	int err = tt_node_comm_share(comm, false);

	if (err && !atomic_load(&comm->failed))
		unmade(comm->ctx, comm->uid, err, call);
}

int tt_comm_make(struct tutti_context *ctx, const int *world, int n,
		 const struct tt_comm_kind *kind, const char *call, struct tutti_comm **out)
{
	int err = tt_comm_begin(ctx, world, n, kind, call, out);

	if (!err)
		tt_comm_finish(*out, call);
	return err;
}

#define UID_SELF 0x73656c66

int tt_comm_self(struct tutti_context *ctx, struct tutti_comm **self)
{
	int me = ctx->boot_params.rank, err = 0;
	struct tt_comm_kind kind = {
		.uid = tt_hash_add(tt_hash_add(ctx->world->uid, UID_SELF), (uint64_t)me),
		.tolerant = ctx->world->tolerant};

	tt_wire_lock(ctx->wire);
	if (!ctx->self) {
		kind.id = ctx->next_comm_id;
		err = tt_comm_make(ctx, &me, 1, &kind, "self", &ctx->self);
	}
	if (!err)
		*self = ctx->self;
	tt_wire_unlock(ctx->wire);
	return err;
}
