/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Failure: how the death of a rank, an abort or a lost connection reaches every communicator it
 * concerns, on every rank. The engine ends the requests of failed communicators; here only the state
 * is set and sleepers are woken.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "lib/comm/comm.h"

/* What travels in TT_CTL_ABORT: rank is gone, the job is aborted (rank -1), or a communicator is (by rank). */
struct abort_msg {
	int32_t rank;
	int32_t user_code;
	uint64_t uid; /* of the communicator, or 0 */
	char why[160];
};

/* For the flight recorder. */
static void note(struct tutti_comm *comm, const struct tutti_error_info *info)
{
	struct tt_flight_comm *f = comm->flight;

	atomic_store(&comm->ctx->dump_due, true);
	if (!f || f->uid != comm->uid)
		return;
	f->culprit = info->rank;
	f->fail_seq = info->sequence;
	f->fail_time = tt_ticks();
	snprintf(f->call, sizeof(f->call), "%s", info->call);
	snprintf(f->field, sizeof(f->field), "%s", info->field);
	snprintf(f->text, sizeof(f->text), "%s", info->text);
	f->code = info->code;
}

static void fail_one(struct tutti_comm *comm, const struct tutti_error_info *info)
{
	if (atomic_load(&comm->failed))
		return;
	comm->failure = *info;
	note(comm, info);
	atomic_store(&comm->failed, info->code);
	atomic_fetch_add(&comm->ctx->failures, 1);
	tt_wire_wake(comm->ctx->wire);
}

static void fill(struct tutti_context *ctx, struct tutti_error_info *info, int code, int rank,
		 const char *fmt, va_list ap)
{
	memset(info, 0, sizeof(*info));
	info->size = sizeof(*info);
	info->code = code;
	info->rank = rank;
	if (rank >= 0 && ctx->boot)
		snprintf(info->host, sizeof(info->host), "%s", tt_boot_host(ctx->boot, rank));
	vsnprintf(info->text, sizeof(info->text), fmt, ap);
}

void tt_comm_fail(struct tutti_comm *comm, int code, int rank, const char *call, uint64_t seq,
		  const char *field, const char *fmt, ...)
{
	struct tutti_error_info info;
	va_list ap;

	if (atomic_load(&comm->failed))
		return;
	va_start(ap, fmt);
	fill(comm->ctx, &info, code, rank, fmt, ap);
	va_end(ap);
	snprintf(info.call, sizeof(info.call), "%s", call ? call : "");
	snprintf(info.field, sizeof(info.field), "%s", field ? field : "");
	info.sequence = seq;
	tt_err("%s", info.text);
	fail_one(comm, &info);
}

/* It goes on without that rank. */
static bool outlives(struct tutti_comm *comm, int rank)
{
	int r = rank < 0 ? -1 : tt_comm_rank_of(comm, rank);

	if (r < 0 || r == comm->rank || !comm->lost || !comm->lost(comm->lost_arg, r))
		return false;
	if (comm->suspect == rank)
		comm->suspect = -1;
	return true;
}

static bool contains(const struct tutti_comm *comm, int rank)
{
	int i;

	for (i = 0; i < comm->size; i++)
		if (comm->world[i] == rank)
			return true;
	return rank < 0;
}

void tt_ctx_fail(struct tutti_context *ctx, int code, int rank, const char *fmt, ...)
{
	struct tutti_error_info info;
	struct tt_list *l, *tmp;
	bool fresh = false;
	va_list ap;

	va_start(ap, fmt);
	fill(ctx, &info, code, rank, fmt, ap);
	va_end(ap);
	if (!ctx->first_failure.code)
		ctx->first_failure = info;
	tt_list_each(l, tmp, &ctx->comms) {
		struct tutti_comm *comm = tt_container(l, struct tutti_comm, link);

		if (!contains(comm, rank) || atomic_load(&comm->failed) ||
		    (code == -TUTTI_EPEER && outlives(comm, rank)))
			continue;
		fresh = true;
		fail_one(comm, &info);
	}
	if (fresh)
		tt_err("%s", info.text);
}

void tt_comm_inherit_failure(struct tutti_comm *comm)
{
	const struct tutti_error_info *first = &comm->ctx->first_failure;

	if (!first->code || !contains(comm, first->rank))
		return;
	fail_one(comm, first);
	tt_err("%s", first->text);
}

void tt_ctx_gone(void *arg, int rank, const char *host, const char *why)
{
	struct tutti_context *ctx = arg;

	if (!ctx->wire)
		return;
	tt_wire_lock(ctx->wire);
	tt_ctx_fail(ctx, -TUTTI_EPEER, rank, "rank %d on host %s is gone: %s", rank, host, why);
	tt_wire_peer_gone(ctx->wire, rank);
	tt_wire_wake(ctx->wire);
	tt_wire_unlock(ctx->wire);
}

void tt_ctx_lost(struct tutti_context *ctx, int rank, const char *why)
{
	struct abort_msg msg = {.rank = rank};

	snprintf(msg.why, sizeof(msg.why), "%s", why);
	tt_ctx_fail(ctx, -TUTTI_EPEER, rank, "rank %d on host %s is gone: %s", rank,
		    tt_boot_host(ctx->boot, rank), why);
	tt_ctl_send(ctx->boot, TT_CTL_ALL, TT_CTL_ABORT, &msg, sizeof(msg));
}

void tt_comm_abort(struct tutti_comm *comm)
{
	struct abort_msg msg = {.rank = comm->ctx->boot_params.rank, .uid = comm->uid};

	if (comm->size == 1)
		return;
	snprintf(msg.why, sizeof(msg.why), "%.*s", (int)sizeof(msg.why) - 1, comm->failure.text);
	tt_ctl_send(comm->ctx->boot, TT_CTL_ALL, TT_CTL_ABORT, &msg, sizeof(msg));
}

static void aborted(struct tutti_context *ctx, const struct abort_msg *msg)
{
	struct tt_list *l, *tmp;
	char name[32];

	tt_list_each(l, tmp, &ctx->comms) {
		struct tutti_comm *comm = tt_container(l, struct tutti_comm, link);

		if (comm->uid == msg->uid)
			tt_comm_fail(comm, -TUTTI_EABORTED, msg->rank, "", 0, "",
				     "rank %d has given up %s: %s", msg->rank,
				     tt_comm_name(comm, name, sizeof(name)), msg->why);
	}
}

void tt_ctx_abort_msg(void *arg, int from, const void *data, size_t len)
{
	struct tutti_context *ctx = arg;
	struct abort_msg msg;

	if (len != sizeof(msg))
		return;
	memcpy(&msg, data, sizeof(msg));
	msg.why[sizeof(msg.why) - 1] = 0;
	tt_wire_lock(ctx->wire);
	if (msg.uid)
		aborted(ctx, &msg);
	else if (msg.rank >= 0 && msg.rank < ctx->boot_params.nranks)
		tt_ctx_fail(ctx, -TUTTI_EPEER, msg.rank,
			    "rank %d on host %s is gone: rank %d reports: %s", msg.rank,
			    ctx->boot ? tt_boot_host(ctx->boot, msg.rank) : "?", from, msg.why);
	else if (msg.rank < 0)
		tt_ctx_fail(ctx, -TUTTI_EABORTED, -1, "rank %d aborted the job with code %d", from,
			    msg.user_code);
	tt_wire_wake(ctx->wire);
	tt_wire_unlock(ctx->wire);
}

int tt_ctx_abort(struct tutti_context *ctx, int code)
{
	struct abort_msg msg = {.rank = -1, .user_code = code};

	tt_wire_lock(ctx->wire);
	tt_ctx_fail(ctx, -TUTTI_EABORTED, -1, "rank %d aborted the job with code %d",
		    ctx->boot_params.rank, code);
	tt_wire_wake(ctx->wire);
	tt_wire_unlock(ctx->wire);
	return ctx->boot_params.nranks > 1
		       ? tt_ctl_send(ctx->boot, TT_CTL_ALL, TT_CTL_ABORT, &msg, sizeof(msg))
		       : 0;
}
