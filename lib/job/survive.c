/* SPDX-License-Identifier: BSD-3-Clause */
/* Going on without failed ranks: lists them, revokes, shrinks. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/job/job.h"

int tt_comm_failed(struct tutti_comm *comm, struct tutti_failed *list, int max)
{
	struct tutti_failed one;
	int i, found = 0;

	tt_wire_lock(comm->ctx->wire);
	for (i = 0; i < comm->size; i++) {
		memset(&one, 0, sizeof(one));
		one.rank = i;
		one.world_rank = comm->world[i];
		if (!tt_comm_gone(comm, i, one.reason, sizeof(one.reason)))
			continue;
		snprintf(one.host, sizeof(one.host), "%s",
			 tt_boot_host(comm->ctx->boot, comm->world[i]));
		if (found < max)
			list[found] = one;
		found++;
	}
	tt_wire_unlock(comm->ctx->wire);
	return found;
}

int tt_comm_ack_failed(struct tutti_comm *comm, const struct tutti_failed *list, int n)
{
	struct tutti_context *ctx = comm->ctx;
	int i;

	if (!comm->tolerant)
		return tt_fail(-EINVAL, "tutti_comm_ack_failed: the communicator is not tolerant");
	for (i = 0; i < n; i++)
		if (list[i].rank < 0 || list[i].rank >= comm->size ||
		    !tt_boot_gone(ctx->boot, comm->world[list[i].rank], NULL, 0))
			return tt_fail(-EINVAL, "tutti_comm_ack_failed: rank %d has not failed",
				       list[i].rank);
	tt_wire_lock(ctx->wire);
	for (i = 0; i < n; i++) {
		unsigned char *dead = &comm->dead[list[i].rank];

		comm->nacked += *dead == TT_DEAD; /* else this rank hears of the death later */
		*dead |= TT_DEAD_ACKED;
	}
	tt_wire_unlock(ctx->wire);
	return 0;
}

static int under_way(const struct tutti_comm *comm)
{
	struct tt_list *l, *tmp;
	int i, n = 0;

	for (i = 0; i < TT_ACTIVE_LISTS; i++)
		tt_list_each(l, tmp, (struct tt_list *)&comm->active[i]) n +=
			!tt_container(l, struct tutti_request, link)->inner;
	return n;
}

void tt_comm_state(struct tutti_comm *comm, struct tutti_comm_state *state)
{
	int failed, i;

	memset(state, 0, sizeof(*state));
	tt_wire_lock(comm->ctx->wire);
	failed = tt_comm_failed(comm, NULL, 0);
	state->code = atomic_load(&comm->failed);
	state->coll_code = atomic_load(&comm->coll_failed);
	state->flags = comm->tolerant ? TUTTI_COMM_TOLERANT : 0;
	state->failed = state->unacked = failed;
	for (i = 0; comm->tolerant && i < comm->size; i++)
		state->unacked -= !!(comm->dead[i] & TT_DEAD_ACKED);
	state->requests = comm->requests;
	state->windows = comm->windows;
	state->calls = comm->seq;
	state->pending = under_way(comm);
	tt_wire_unlock(comm->ctx->wire);
}

void tt_comm_revoke(struct tutti_comm *comm)
{
	int rank = comm->ctx->boot_params.rank;
	char name[TT_COMM_NAME];

	tt_wire_lock(comm->ctx->wire);
	tt_comm_fail(comm, -TUTTI_EREVOKED, rank, "", 0, "", "rank %d has revoked %s", rank,
		     tt_comm_name(comm, name, sizeof(name)));
	tt_wire_unlock(comm->ctx->wire);
}

/* ---- shrink ---- */

/*
 * The ranks of comm that are not left out become *newcomm, failed if one of them has failed
 * meanwhile.
 */
static int make(struct tutti_comm *comm, const struct tt_ballot *decision,
		const unsigned char *left_out, struct tutti_comm **newcomm)
{
	struct tt_comm_kind kind = {
		.id = decision->next_id, .uid = decision->uid, .tolerant = comm->tolerant};
	int *world = malloc((size_t)comm->size * sizeof(int)), i, n = 0, err;

	for (i = 0; world && i < comm->size; i++)
		if (!(left_out[i / 8] >> (i % 8) & 1))
			world[n++] = comm->world[i];
	err = tt_comm_make(comm->ctx, world, n, &kind, "comm_shrink", newcomm);
	free(world);
	return err;
}

int tt_comm_shrink(struct tutti_comm *comm, struct tutti_comm **newcomm)
{
	struct tt_ballot ballot = {.kind = TT_VOTE_SHRINK};
	unsigned char left_out[TT_CTL_MSG_MAX];
	int err = tt_vote(comm, "tutti_comm_shrink", &ballot, left_out);

	return err ? err : make(comm, &ballot, left_out, newcomm);
}
