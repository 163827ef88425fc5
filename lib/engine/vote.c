/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Shared by the collective calls that create objects: ranks exchange their parts, and agree whether
 * all ranks succeeded.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "lib/engine/vote.h"
#include "lib/base/clock.h"

int tt_tell_unable(struct tutti_comm *comm, const char *call, int err)
{
	int rank = comm->world[comm->rank];

	tt_ctx_lacks(comm->ctx, err);
	if (!err || err == -EINVAL || atomic_load(&comm->coll_failed))
		return err;
	tt_wire_lock(comm->ctx->wire);
	tt_comm_fail(comm, err, rank, call, 0, "", "%s: rank %d cannot take part: %.300s", call,
		     rank, tt_fail_text(err));
	tt_wire_unlock(comm->ctx->wire);
	return err;
}

int tt_exchange(struct tutti_comm *comm, const void *mine, void *all, size_t words)
{
	memset(all, 0, words * sizeof(uint64_t) * (size_t)comm->size);
	memcpy((char *)all + words * sizeof(uint64_t) * (size_t)comm->rank, mine,
	       words * sizeof(uint64_t));
	return tt_tell_unable(comm, "exchange",
			      tutti_allreduce(TUTTI_IN_PLACE, all, words * (size_t)comm->size,
					      TUTTI_UINT64, TUTTI_SUM, comm));
}

/* This rank does not ask for stragglers either. */
static int max_without_deadline(uint64_t *word, struct tutti_comm *comm)
{
	struct tutti_request *req;
	int err = tutti_iallreduce(TUTTI_IN_PLACE, word, 1, TUTTI_UINT64, TUTTI_MAX, comm, &req);

	if (err)
		return err;
	tt_wire_lock(comm->ctx->wire);
	req->deadline = req->late_at = TT_NEVER;
	tt_wire_unlock(comm->ctx->wire);
	return tutti_wait(&req);
}

/*
 * Sends the text of the rank's error to all ranks; if that fails they report its code. In an
 * all-reduce, as the agreement, over the connections that this has used: a rank that is out of
 * memory or descriptors may not be able to make another.
 */
static int tell_why(struct tutti_comm *comm, const char *call, int mine, int code, int root)
{
	int rank = comm->world[root], err, gone;
	const char *host = tt_boot_host(comm->ctx->boot, rank);
	struct tutti_error_info own = {.size = sizeof(own)};
	char text[304] = "";
	uint64_t words[sizeof(text) / sizeof(uint64_t)];

	tutti_last_error(&own);
	if (comm->rank == root)
		snprintf(text, sizeof(text), "%s", tt_fail_text(mine));
	memcpy(words, text, sizeof(text));
	err = tt_tell_unable(comm, call,
			     tutti_allreduce(TUTTI_IN_PLACE, words, sizeof(text) / sizeof(uint64_t),
					     TUTTI_UINT64, TUTTI_SUM, comm));
	memcpy(text, words, sizeof(text));
	if (mine)
		return own.code == mine ? tt_fail_info(&own) : mine;
	text[sizeof(text) - 1] = 0;
	if (err || !text[0])
		snprintf(text, sizeof(text), "%s", tutti_strerror(code));
	gone = code == -TUTTI_EPEER ? tt_ctx_gone_of(comm->ctx, comm) : -1;
	if (gone >= 0)
		return tt_fail_rank(code, gone, tt_boot_host(comm->ctx->boot, gone),
				    "%s failed on rank %d on host %s, and rank %d is gone: %s",
				    call, rank, host, gone, text);
	return tt_fail_rank(code, rank, host, "%s failed on rank %d on host %s: %s", call, rank,
			    host, text);
}

static int agree(struct tutti_comm *comm, const char *call, int mine, bool patient)
{
	struct tutti_error_info own = {.size = sizeof(own)};
	uint64_t worst = mine ? (uint64_t)(comm->size - comm->rank) << 32 | (uint32_t)-mine : 0;
	int err;

	if (mine)
		tutti_last_error(&own);
	own.code = own.code == mine ? mine : 0;
	err = patient ? max_without_deadline(&worst, comm)
		      : tutti_allreduce(TUTTI_IN_PLACE, &worst, 1, TUTTI_UINT64, TUTTI_MAX, comm);

	tt_tell_unable(comm, call, err);
	if (err && own.code) /* the first reason, not why the others cannot be told */
		return tt_fail_info(&own);
	if (err || !worst)
		return mine ? mine : err;
	return tell_why(comm, call, mine, -(int)(uint32_t)worst, comm->size - (int)(worst >> 32));
}

int tt_agree(struct tutti_comm *comm, const char *call, int mine)
{
	return agree(comm, call, mine, false);
}

int tt_agree_patient(struct tutti_comm *comm, const char *call, int mine)
{
	return agree(comm, call, mine, true);
}
