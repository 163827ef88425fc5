/* SPDX-License-Identifier: BSD-3-Clause */
/* What collective calls that make something do besides: tell each other what each has, and whether all could. */
#include <string.h>

#include "lib/api/api.h"
#include "lib/base/clock.h"

int tt_exchange(struct tutti_comm *comm, const void *mine, void *all, size_t words)
{
	memset(all, 0, words * sizeof(uint64_t) * (size_t)comm->size);
	memcpy((char *)all + words * sizeof(uint64_t) * (size_t)comm->rank, mine,
	       words * sizeof(uint64_t));
	return tutti_allreduce(TUTTI_IN_PLACE, all, words * (size_t)comm->size, TUTTI_UINT64,
			       TUTTI_SUM, comm);
}

/* Nor does this rank ask where the others are. */
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

static int agree(struct tutti_comm *comm, const char *call, int mine, bool patient)
{
	uint64_t worst = mine ? (uint64_t)(comm->size - comm->rank) << 32 | (uint32_t)-mine : 0;
	int err = patient ? max_without_deadline(&worst, comm)
			  : tutti_allreduce(TUTTI_IN_PLACE, &worst, 1, TUTTI_UINT64, TUTTI_MAX, comm);
	int code = -(int)(uint32_t)worst, rank;

	if (mine || err || !worst)
		return mine ? mine : err;
	rank = comm->world[comm->size - (int)(worst >> 32)];
	return tt_fail_rank(code, rank, tt_boot_host(comm->ctx->boot, rank), "%s failed on rank %d: %s",
			    call, rank, tutti_strerror(code));
}

int tt_agree(struct tutti_comm *comm, const char *call, int mine)
{
	return agree(comm, call, mine, false);
}

int tt_agree_patient(struct tutti_comm *comm, const char *call, int mine)
{
	return agree(comm, call, mine, true);
}
