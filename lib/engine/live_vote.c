/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Agreement among the live ranks of a communicator (lib/comm/agree.c), as a call that waits for it.
 * Errors name the call of the user that the agreement is a part of.
 */
#include <errno.h>

#include "lib/base/clock.h"
#include "lib/engine/vote.h"

bool tt_out_of_it(const struct tutti_comm *comm)
{
	struct tutti_context *ctx = comm->ctx;

	return ctx->aborted || tt_boot_gone(ctx->boot, ctx->boot_params.rank, NULL, 0);
}

/* Other ranks may have failed before, so the first failure does not explain this rank's end. */
int tt_why_out(const struct tutti_comm *comm)
{
	struct tutti_context *ctx = comm->ctx;
	int me = ctx->boot_params.rank;
	char why[TT_GONE_WHY];

	if (ctx->aborted)
		return tt_fail_info(&ctx->first_failure);
	tt_boot_gone(ctx->boot, me, why, sizeof(why));
	return tt_fail_rank(-TUTTI_EPEER, me, tt_boot_host(ctx->boot, me),
			    "this rank (%d) was taken for dead by the others, and cut off: %s", me,
			    why);
}

static bool settled(void *arg)
{
	struct tutti_comm *comm = arg;

	return tt_vote_over(comm) || tt_out_of_it(comm);
}

static int no_agreement(struct tutti_comm *comm, const char *call)
{
	char missing[200];
	int rank;

	if (tt_out_of_it(comm)) {
		tt_vote_drop(comm);
		return tt_why_out(comm);
	}
	rank = tt_vote_missing(comm, missing, sizeof(missing));
	return tt_comm_blame_rank(comm, -ETIMEDOUT, rank,
				  "%s did not finish within %lld ms (TUTTI_TIMEOUT)%s", call,
				  (long long)comm->ctx->env.timeout.number, missing);
}

int tt_vote(struct tutti_comm *comm, const char *call, struct tt_ballot *ballot,
	    unsigned char *left_out)
{
	struct tutti_context *ctx = comm->ctx;
	int err;

	tt_wire_lock(ctx->wire);
	ballot->next_id = ctx->next_comm_id;
	err = tt_vote_begin(comm, ballot);
	tt_wire_unlock(ctx->wire);
	if (err)
		return err;
	tt_engine_wait(ctx, settled, comm, tt_deadline_ms(ctx->env.timeout.number));
	tt_wire_lock(ctx->wire);
	if (tt_out_of_it(comm) || !tt_vote_over(comm))
		err = no_agreement(comm, call);
	else
		tt_vote_end(comm, ballot, left_out);
	ctx->shrunk += !err && left_out;
	tt_wire_unlock(ctx->wire);
	if (!err && ballot->differs >= 0)
		err = tt_fail_rank(-TUTTI_EMISMATCH, comm->world[ballot->differs],
				   tt_boot_host(ctx->boot, comm->world[ballot->differs]),
				   "%s: rank %d called another agreement, or for another operator",
				   call, comm->world[ballot->differs]);
	return err;
}

int tt_comm_agree(struct tutti_comm *comm, const char *call, enum tutti_op op, uint64_t *value)
{
	struct tt_ballot ballot = {
		.kind = op == TUTTI_BAND ? TT_VOTE_AND : TT_VOTE_OR, .all = *value, .any = *value};
	int err = tt_vote(comm, call, &ballot, NULL);

	if (!err)
		*value = op == TUTTI_BAND ? ballot.all : ballot.any;
	return err;
}
