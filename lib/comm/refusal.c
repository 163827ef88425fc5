/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Calls that this rank refused for their arguments or for lack of memory, so that it did not take
 * part. Other ranks may wait in them. The communicator remembers one such call, and the messages of
 * stuck.c name it. A rank that has freed the communicator, or is in tutti_finalize, makes no
 * further calls, so it fails the communicator.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "lib/comm/comm.h"
#include "lib/comm/stuck.h"
#include "lib/plan/plan.h"

static bool was_refused(const struct tutti_comm *comm, uint32_t init, uint64_t seq)
{
	return comm->refused.code &&
	       (init ? comm->refused_init == init && seq == 1 : comm->refused_seq == seq);
}

/* The first refusal counts: it is the call that other ranks wait in. */
void tt_comm_refused(struct tutti_comm *comm, uint32_t coll, enum tt_forms forms, int code)
{
	uint32_t init;
	uint64_t seq;

	tt_ctx_lacks(comm->ctx, code);
	tt_wire_lock(comm->ctx->wire);
	init = forms == TT_FORM_CALL ? 0 : comm->inits + 1;
	seq = forms == TT_FORM_INIT ? 0 : comm->seq + 1;
	if (!comm->refused.code || comm->refused_init != init || comm->refused_seq != seq) {
		comm->refused = (struct tt_refusal){.coll = coll, .code = code};
		comm->refused_init = init;
		comm->refused_seq = seq;
	}
	tt_wire_unlock(comm->ctx->wire);
}

struct tt_refusal tt_refusal_of(const struct tutti_comm *comm, uint32_t init, uint64_t seq)
{
	return was_refused(comm, init, seq) ? comm->refused : (struct tt_refusal){0};
}

static const char *refused_call(const struct tt_refusal *refused)
{
	return refused->coll < TT_REFUSED ? tt_coll_name((enum tt_coll)refused->coll)
					  : tt_inner_name(refused->coll - TT_REFUSED);
}

const char *tt_refusal_text(const struct tt_refusal *refused, char *buf, size_t size)
{
	buf[0] = 0;
	if (refused->code)
		snprintf(buf, size, " (its %s failed: %s)", refused_call(refused),
			 tutti_strerror(refused->code));
	return buf;
}

/* Of a rank that makes no further calls: this one, or one that the others made without this rank.
 */
static bool never_called(const struct tutti_comm *comm, uint32_t init, uint64_t seq)
{
	return was_refused(comm, init, seq) ||
	       (!init && comm->refused.code && comm->refused_seq > comm->seq &&
		comm->refused_seq < seq);
}

/* Its last request has ended, too: no persistent one can be started any more. */
static bool is_buried(const struct tutti_comm *comm)
{
	return comm->magic == TT_COMM_DEAD && !comm->world;
}

bool tt_refusal_tell(struct tutti_comm *comm, uint32_t init, uint64_t seq)
{
	int rank = comm->ctx->boot_params.rank, code = comm->refused.code;
	const char *host = tt_boot_host(comm->ctx->boot, rank), *call;
	const char *what = comm->ctx->leaves ? "leaves the job" : "has freed the communicator";

	if (comm->tolerant)
		return false;
	if (never_called(comm, init, seq)) {
		call = refused_call(&comm->refused);
		tt_comm_fail(comm, code == -ENOMEM ? code : -TUTTI_EMISMATCH, rank, call, seq, "",
			     "rank %d on host %s %s: its %s failed: %s", rank, host, what, call,
			     tutti_strerror(code));
		return true;
	}
	if (is_buried(comm))
		tt_comm_fail(comm, -TUTTI_EREVOKED, rank, "", seq, "",
			     "rank %d on host %s has freed the communicator", rank, host);
	return is_buried(comm);
}

void tt_comm_tell_refused(struct tutti_context *ctx)
{
	struct tt_list *l, *tmp;

	tt_wire_lock(ctx->wire);
	tt_list_each(l, tmp, &ctx->comms)
	{
		struct tutti_comm *comm = tt_container(l, struct tutti_comm, link);

		if (!tt_refusal_tell(comm, 0, comm->seq + 1))
			tt_refusal_tell(comm, comm->inits + 1, 1);
	}
	tt_wire_unlock(ctx->wire);
}

void tt_comm_tell_freed(struct tutti_comm *comm)
{
	uint32_t init;
	uint64_t seq;

	if (tt_comm_awaited(comm, &init, &seq))
		tt_refusal_tell(comm, init, seq);
}

const char *tt_late_why_text(const struct tt_late *why, char *buf, size_t size)
{
	char call[160];

	tt_refusal_text(&why->refused, buf, size);
	if (why->other_seq)
		snprintf(buf + strlen(buf), size - strlen(buf), " (it waits in %s)",
			 tt_fields_text(&why->other_form, why->other_seq, call, sizeof(call)));
	return buf;
}
