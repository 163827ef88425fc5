/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How the death of a rank, an abort or a lost connection reaches every affected communicator, on
 * every rank. This file sets the state and wakes sleepers; the engine ends the requests of failed
 * communicators.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/clock.h"
#include "lib/comm/comm.h"

#define TELL_AGAIN (10 * TT_SEC) /* messages may be lost with a rank that dies this soon after */
#define LOCK_MS 50
#define ABORT_MS 1000 /* most that an abort waits until it is sent */
#define NEWS_MS 500   /* the same of a failure */

/* The payload of TT_CTL_ABORT. */
struct abort_msg {
	int32_t user_code;
};
_Static_assert(sizeof(struct abort_msg) == 4, "doc/WIRE.md");

/* In TT_CTL_FAIL. */
struct fail_msg {
	uint64_t uid, seq;
	int32_t code, rank;
	char call[32], field[32], text[400];
};
_Static_assert(sizeof(struct fail_msg) == 488, "doc/WIRE.md");

void tt_ctx_lock(struct tutti_context *ctx)
{
	struct tt_boot *boot;

	while (!tt_wire_lock_within(ctx->wire, LOCK_MS)) {
		boot = atomic_load(&ctx->beats);
		if (boot)
			tt_boot_beat(boot);
	}
}

/* Without heartbeats the other ranks would take this rank for dead, too. */
void tt_ctx_alive(void *arg)
{
	struct tutti_context *ctx = arg;
	struct tt_boot *boot = atomic_load(&ctx->beats);

	if (boot && tt_boot_is_control(boot))
		tt_boot_beat(boot);
}

void tt_ctx_unlock(struct tutti_context *ctx)
{
	tt_wire_unlock(ctx->wire);
}

static void record(struct tutti_comm *comm, const struct tutti_error_info *info)
{
	struct tt_flight_comm *f = comm->flight;

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

/* For the flight recorder: a dump is due when the failure is in it. */
static void note(struct tutti_comm *comm, const struct tutti_error_info *info)
{
	record(comm, info);
	atomic_store(&comm->ctx->dump_due, true);
}

static void fail_one(struct tutti_comm *comm, const struct tutti_error_info *info)
{
	if (atomic_load(&comm->failed))
		return;
	comm->failure = *info;
	note(comm, info);
	atomic_store(&comm->failed, info->code);
	atomic_store(&comm->coll_failed, info->code);
	atomic_fetch_add(&comm->ctx->failures, 1);
	tt_wire_wake(comm->ctx->wire);
}

/* Rank r of a tolerant communicator has failed: only what needs it fails. */
static void lose(struct tutti_comm *comm, int r, const struct tutti_error_info *info)
{
	if (comm->suspect == comm->world[r])
		comm->suspect = -1;
	if (comm->dead[r] & TT_DEAD)
		return;
	comm->nacked += !!comm->dead[r];
	comm->dead[r] |= TT_DEAD;
	comm->ndead++;
	if (!atomic_load(&comm->coll_failed)) {
		comm->failure = *info;
		note(comm, info);
		atomic_store(&comm->coll_failed, info->code);
	}
	atomic_fetch_add(&comm->ctx->failures, 1);
	tt_wire_wake(comm->ctx->wire);
}

int tt_comm_dead(const struct tutti_comm *comm, int rank)
{
	int i;

	if (comm->ndead == (rank < 0 ? comm->nacked : 0))
		return -1;
	if (rank >= 0)
		return comm->dead[rank] & TT_DEAD ? rank : -1;
	for (i = 0; i < comm->size; i++)
		if (comm->dead[i] == TT_DEAD)
			return i;
	return -1;
}

int tt_comm_needs_dead(const struct tutti_comm *comm, int rank, const char *call)
{
	struct tutti_context *ctx = comm->ctx;
	const char *host = tt_boot_host(ctx->boot, comm->world[rank]);
	char why[TT_GONE_WHY] = "";

	tt_boot_gone(ctx->boot, comm->world[rank], why, sizeof(why));
	return tt_fail_rank(-TUTTI_EPEER, comm->world[rank], host,
			    "%s needs rank %d on host %s, which has failed%s%s", call,
			    comm->world[rank], host, why[0] ? ": " : "", why);
}

int tt_comm_blame_rank(const struct tutti_comm *comm, int code, int rank, const char *fmt, ...)
{
	struct tutti_error_info *info = NULL;
	char text[sizeof(info->text)];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	if (rank < 0)
		return tt_fail(code, "%s", text);
	return tt_fail_rank(code, comm->world[rank],
			    tt_boot_host(comm->ctx->boot, comm->world[rank]), "%s", text);
}

static void vdescribe(struct tutti_context *ctx, struct tutti_error_info *info, int code, int rank,
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

static void describe(struct tutti_context *ctx, struct tutti_error_info *info, int code, int rank,
		     const char *fmt, ...) TT_PRINTF(5, 6);

static void describe(struct tutti_context *ctx, struct tutti_error_info *info, int code, int rank,
		     const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vdescribe(ctx, info, code, rank, fmt, ap);
	va_end(ap);
}

/* ---- failures that a rank reports to the other ranks of the communicator ---- */

static struct tt_doomed *find_doomed(struct tutti_context *ctx, uint64_t uid)
{
	unsigned i, n = ctx->ndoomed < TT_DOOMED_MAX ? ctx->ndoomed : TT_DOOMED_MAX;

	for (i = 0; i < n; i++)
		if (ctx->doomed[i].uid == uid)
			return &ctx->doomed[i];
	return NULL;
}

/* The next place, but for those whose news has still to leave. */
static struct tt_doomed *place_for_doomed(struct tutti_context *ctx)
{
	struct tt_doomed *d;
	int i;

	for (i = 0; i < TT_DOOMED_MAX; i++) {
		d = &ctx->doomed[ctx->ndoomed++ % TT_DOOMED_MAX];
		if (!d->unsent)
			break;
	}
	return d;
}

/* NULL: already known. */
static struct tt_doomed *doom(struct tutti_context *ctx, uint64_t uid,
			      const struct tutti_error_info *info)
{
	struct tt_doomed *d;

	if (find_doomed(ctx, uid))
		return NULL;
	d = place_for_doomed(ctx);
	*d = (struct tt_doomed){.uid = uid, .info = *info};
	return d;
}

/* Keeps the last error. */
static void tell(struct tutti_context *ctx, struct tt_doomed *d)
{
	struct tutti_error_info last = {.size = sizeof(last)};
	struct fail_msg msg = {
		.uid = d->uid, .seq = d->info.sequence, .code = d->info.code, .rank = d->info.rank};

	if (ctx->boot_params.nranks < 2 || !ctx->boot)
		return;
	snprintf(msg.call, sizeof(msg.call), "%s", d->info.call);
	snprintf(msg.field, sizeof(msg.field), "%s", d->info.field);
	snprintf(msg.text, sizeof(msg.text), "%.399s", d->info.text);
	tutti_last_error(&last);
	d->unsent = tt_ctl_send(ctx->boot, TT_CTL_ALL, TT_CTL_FAIL, &msg, sizeof(msg));
	if (d->unsent)
		tt_fail_info(&last);
}

void tt_ctx_room(void *arg)
{
	struct tutti_context *ctx = arg;
	unsigned i;

	tt_ctx_lock(ctx);
	for (i = 0; i < TT_DOOMED_MAX; i++)
		if (ctx->doomed[i].unsent)
			tell(ctx, &ctx->doomed[i]);
	tt_wire_wake(ctx->wire);
	tt_ctx_unlock(ctx);
}

bool tt_comm_told(struct tutti_context *ctx, uint64_t uid)
{
	const struct tt_doomed *d = find_doomed(ctx, uid);

	return !d || !d->unsent;
}

static void spread(struct tutti_context *ctx, uint64_t uid, const struct tutti_error_info *info)
{
	struct tt_doomed *d = doom(ctx, uid, info);

	if (!d)
		return;
	d->told_at = tt_now_ns();
	tell(ctx, d);
	atomic_fetch_add(&ctx->news, 1);
}

void tt_ctx_news(struct tutti_context *ctx)
{
	unsigned news = atomic_load(&ctx->news);

	if (news == atomic_load(&ctx->news_left) || ctx->boot_params.nranks < 2 || !ctx->boot)
		return;
	tt_ctl_flush(ctx->boot, NEWS_MS);
	atomic_store(&ctx->news_left, news); /* an older number costs one more flush */
}

static void set_call(struct tutti_error_info *info, const char *call, uint64_t seq,
		     const char *field)
{
	snprintf(info->call, sizeof(info->call), "%s", call ? call : "");
	snprintf(info->field, sizeof(info->field), "%s", field ? field : "");
	info->sequence = seq;
}

void tt_comm_fail_here(struct tutti_comm *comm, int code, int rank, const char *call, uint64_t seq,
		       const char *field, const char *text)
{
	struct tutti_error_info info;

	if (atomic_load(&comm->failed))
		return;
	describe(comm->ctx, &info, code, rank, "%s", text);
	set_call(&info, call, seq, field);
	tt_err("%s", info.text);
	fail_one(comm, &info);
}

void tt_comm_fail(struct tutti_comm *comm, int code, int rank, const char *call, uint64_t seq,
		  const char *field, const char *fmt, ...)
{
	struct tutti_error_info info;
	char text[sizeof(info.text)];
	va_list ap;

	if (atomic_load(&comm->failed))
		return;
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	tt_comm_fail_here(comm, code, rank, call, seq, field, text);
	spread(comm->ctx, comm->uid, &comm->failure);
}

void tt_comm_fail_later(struct tutti_context *ctx, uint64_t uid, int code, int rank,
			const char *call, uint64_t seq, const char *field, const char *text)
{
	struct tutti_error_info info;

	describe(ctx, &info, code, rank, "%s", text);
	set_call(&info, call, seq, field);
	doom(ctx, uid, &info);
}

int tt_ctx_gone_of(const struct tutti_context *ctx, const struct tutti_comm *comm)
{
	int r, n = ctx->boot ? ctx->boot_params.nranks : 0;

	for (r = 0; r < n; r++)
		if (tt_boot_gone(ctx->boot, r, NULL, 0) && (!comm || tt_comm_rank_of(comm, r) >= 0))
			return r;
	return -1;
}

void tt_ctx_lacks(const struct tutti_context *ctx, int code)
{
	struct tutti_error_info info = {.size = sizeof(info)};

	if (!tt_is_shortage(code) || tutti_last_error(&info) || info.code != code || info.rank >= 0)
		return;
	info.rank = ctx->boot_params.rank;
	if (ctx->boot)
		snprintf(info.host, sizeof(info.host), "%s", tt_boot_host(ctx->boot, info.rank));
	tt_fail_info(&info);
}

void tt_comm_unmade(struct tutti_context *ctx, uint64_t uid, int code, const char *call)
{
	struct tutti_error_info info, why = {.size = sizeof(why)};
	struct tutti_comm *comm = tt_comm_find(ctx, uid);
	int rank = ctx->boot_params.rank, blamed = -1;

	tt_ctx_lacks(ctx, code);
	if (!tutti_last_error(&why) && why.code == code && why.rank >= 0)
		blamed = why.rank;
	else if (code == -TUTTI_EPEER)
		blamed = tt_ctx_gone_of(ctx, comm);
	describe(ctx, &info, code, blamed >= 0 ? blamed : rank,
		 "rank %d could not make its part of the communicator: %.300s", rank,
		 tt_fail_text(code));
	snprintf(info.call, sizeof(info.call), "%s", call);
	if (comm)
		fail_one(comm, &info);
	spread(ctx, uid, &info);
}

void tt_ctx_fail_msg(void *arg, int from, const void *data, size_t len)
{
	struct tutti_context *ctx = arg;
	struct tutti_error_info info = {.size = sizeof(info)};
	struct tutti_comm *comm;
	struct fail_msg msg;

	if (len != sizeof(msg) || from == ctx->boot_params.rank)
		return;
	memcpy(&msg, data, sizeof(msg));
	msg.call[sizeof(msg.call) - 1] = msg.field[sizeof(msg.field) - 1] = 0;
	msg.text[sizeof(msg.text) - 1] = 0;
	if (msg.code >= 0 || msg.rank < -1 || msg.rank >= ctx->boot_params.nranks)
		return;
	info.code = msg.code;
	info.rank = msg.rank;
	info.sequence = msg.seq;
	memcpy(info.call, msg.call, sizeof(info.call));
	memcpy(info.field, msg.field, sizeof(info.field));
	snprintf(info.text, sizeof(info.text), "rank %d reports: %s", from, msg.text);
	tt_ctx_lock(ctx);
	if (ctx->boot && msg.rank >= 0)
		snprintf(info.host, sizeof(info.host), "%s", tt_boot_host(ctx->boot, msg.rank));
	comm = tt_comm_find(ctx, msg.uid);
	doom(ctx, msg.uid, &info);
	if (comm && !atomic_load(&comm->failed)) {
		atomic_fetch_add(&ctx->news, 1); /* this thread passes it on after this */
		tt_err("%s", info.text);
		fail_one(comm, &info);
	}
	tt_ctx_unlock(ctx);
}

/* A rank has failed, perhaps with messages in transit through it. */
static void tell_again(struct tutti_context *ctx)
{
	unsigned i, n = ctx->ndoomed < TT_DOOMED_MAX ? ctx->ndoomed : TT_DOOMED_MAX;
	struct abort_msg msg;

	for (i = 0; i < n; i++)
		if (ctx->doomed[i].told_at && tt_now_ns() - ctx->doomed[i].told_at < TELL_AGAIN)
			tell(ctx, &ctx->doomed[i]);
	if (!ctx->abort_mine)
		return;
	msg.user_code = ctx->abort_code;
	tt_ctl_send(ctx->boot, TT_CTL_ALL, TT_CTL_ABORT, &msg, sizeof(msg));
}

/* The communicator goes on without that rank. */
static bool outlives(struct tutti_comm *comm, int rank, const struct tutti_error_info *info)
{
	int r = rank < 0 ? -1 : tt_comm_rank_of(comm, rank);

	if (r < 0 || r == comm->rank)
		return false;
	if (comm->tolerant) {
		lose(comm, r, info);
		return true;
	}
	if (!comm->lost || !comm->lost(comm->lost_arg, r))
		return false;
	if (comm->suspect == rank)
		comm->suspect = -1;
	return true;
}

/* Fails every communicator with this rank. */
static void fail_members(struct tutti_context *ctx, int rank, const struct tutti_error_info *info)
{
	struct tt_list *l, *tmp;
	bool fresh = false, tolerated = false;

	tt_list_each(l, tmp, &ctx->comms)
	{
		struct tutti_comm *comm = tt_container(l, struct tutti_comm, link);

		if (atomic_load(&comm->failed) || (rank >= 0 && tt_comm_rank_of(comm, rank) < 0))
			continue;
		if (info->code == -TUTTI_EPEER && outlives(comm, rank, info)) {
			tolerated |= comm->tolerant;
			continue;
		}
		fresh = true;
		fail_one(comm, info);
	}
	if (fresh)
		tt_err("%s", info->text);
	else if (tolerated)
		tt_warn("%s; tolerant communicators go on without it", info->text);
}

/*
 * Fails every communicator that contains rank (-1: all), on this rank only: the other ranks have
 * received the same news.
 */
TT_PRINTF(4, 5)
static void fail_everywhere(struct tutti_context *ctx, int code, int rank, const char *fmt, ...)
{
	struct tutti_error_info info;
	va_list ap;

	va_start(ap, fmt);
	vdescribe(ctx, &info, code, rank, fmt, ap);
	va_end(ap);
	if (!ctx->first_failure.code || (rank < 0 && !ctx->aborted))
		ctx->first_failure = info;
	ctx->aborted |= rank < 0;
	fail_members(ctx, rank, &info);
}

/*
 * A failure from before the creation: the job's, a rank's, or this communicator's on other ranks.
 */
static bool inherited(struct tutti_comm *comm, struct tutti_error_info *info)
{
	struct tutti_context *ctx = comm->ctx;
	const struct tutti_error_info *first = &ctx->first_failure;
	const struct tt_doomed *d = find_doomed(ctx, comm->uid);
	char why[TT_GONE_WHY];
	int i;

	if (first->code && (ctx->aborted || tt_comm_rank_of(comm, first->rank) >= 0) &&
	    !(first->code == -TUTTI_EPEER && outlives(comm, first->rank, first))) {
		*info = *first;
		return true;
	}
	for (i = 0; ctx->boot && i < comm->size; i++) {
		if (!tt_boot_gone(ctx->boot, comm->world[i], why, sizeof(why)))
			continue;
		describe(ctx, info, -TUTTI_EPEER, comm->world[i], "rank %d on host %s is gone: %s",
			 comm->world[i], tt_boot_host(ctx->boot, comm->world[i]), why);
		if (!outlives(comm, comm->world[i], info))
			return true;
	}
	if (d)
		*info = d->info;
	return d != NULL;
}

void tt_comm_inherit_failure(struct tutti_comm *comm)
{
	struct tutti_error_info info;

	if (!inherited(comm, &info))
		return;
	fail_one(comm, &info);
	tt_err("%s", info.text);
}

void tt_comm_fail_with(struct tutti_context *ctx, int peer, const struct tutti_error_info *cause)
{
	struct tt_list *l, *tmp;

	tt_list_each(l, tmp, &ctx->comms)
	{
		struct tutti_comm *comm = tt_container(l, struct tutti_comm, link);
		struct tutti_error_info info = *cause;
		char name[TT_COMM_NAME];

		if (atomic_load(&comm->failed) || tt_comm_rank_of(comm, peer) < 0)
			continue;
		snprintf(info.text, sizeof(info.text),
			 "%.300s; %s shared its connection to rank %d and fails with it",
			 cause->text, tt_comm_name(comm, name, sizeof(name)), peer);
		info.call[0] = info.phase[0] = 0;
		info.sequence = info.bytes = 0;
		fail_one(comm, &info);
		spread(ctx, comm->uid, &info);
	}
}

int tt_comm_failure(const struct tutti_comm *comm, const char *call, uint64_t seq,
		    const char *phase, uint64_t bytes)
{
	struct tutti_error_info info = comm->failure;

	snprintf(info.call, sizeof(info.call), "%s", call);
	snprintf(info.phase, sizeof(info.phase), "%s", phase);
	info.sequence = seq;
	info.bytes = bytes;
	return tt_fail_info(&info);
}

/* ---- failed ranks ---- */

/*
 * A healthy rank has finalized after a failure: its communicators fail for the reason of that
 * failure.
 */
static void left_after(struct tutti_context *ctx, int rank, const char *host)
{
	struct tutti_error_info info = ctx->first_failure;

	snprintf(info.text, sizeof(info.text),
		 "rank %d on host %s has finalized after a failure: %.300s", rank, host,
		 ctx->first_failure.text);
	fail_members(ctx, rank, &info);
}

/*
 * If a communicator goes on without a rank, the messages that the rank had sent as a whole count:
 * takes them from the transports before the end of the connection discards them.
 */
static void take_arrived(struct tutti_context *ctx, int rank)
{
	bool tolerated = false;
	struct tt_list *l, *tmp;

	tt_list_each(l, tmp, &ctx->comms)
	{
		const struct tutti_comm *comm = tt_container(l, struct tutti_comm, link);

		tolerated |= comm->tolerant && !atomic_load(&comm->failed) &&
			     tt_comm_rank_of(comm, rank) >= 0;
	}
	if (tolerated)
		tt_wire_drain(ctx->wire);
}

static void note_gone(struct tutti_context *ctx, int rank)
{
	if (!ctx->heard)
		ctx->heard = calloc((size_t)ctx->boot_params.nranks, 1);
	if (ctx->heard)
		ctx->heard[rank] = 1;
}

bool tt_comm_gone(const struct tutti_comm *comm, int rank, char *why, size_t size)
{
	const struct tutti_context *ctx = comm->ctx;
	int world = comm->world[rank];

	if (!tt_boot_gone(ctx->boot, world, why, size))
		return false;
	if (comm->tolerant && (comm->dead[rank] & TT_DEAD))
		return true;
	return (ctx->heard && ctx->heard[world]) || atomic_load(&comm->failed);
}

void tt_ctx_gone(void *arg, int rank, const char *host, const char *why)
{
	struct tutti_context *ctx = arg;

	if (!ctx->wire) {
		note_gone(ctx, rank);
		return;
	}
	tt_ctx_lock(ctx);
	note_gone(ctx, rank);
	if (rank != ctx->boot_params.rank)
		take_arrived(ctx, rank);
	if (rank == ctx->boot_params.rank)
		fail_everywhere(ctx, -TUTTI_EPEER, rank,
				"this rank (%d) was taken for dead by the others, and cut off: %s",
				rank, why);
	else if (!strcmp(why, TT_GONE_LEFT) && ctx->first_failure.code)
		left_after(ctx, rank, host);
	else
		fail_everywhere(ctx, -TUTTI_EPEER, rank, "rank %d on host %s is gone: %s", rank,
				host, why);
	if (rank != ctx->boot_params.rank)
		tt_wire_peer_gone(ctx->wire, rank);
	tt_stuck_gone(ctx, rank);
	if (ctx->boot) {
		tell_again(ctx);
		tt_wire_ask_again(ctx->wire);
		tt_vote_again(ctx);
	}
	tt_wire_wake(ctx->wire);
	tt_ctx_unlock(ctx);
}

/* ---- the end of the job ---- */

void tt_ctx_unfit(struct tutti_context *ctx, int code, int rank, const char *why)
{
	fail_everywhere(ctx, code, rank, "%s", why);
	tt_ctx_lost(ctx, ctx->boot_params.rank, why);
}

void tt_ctx_damaged(void *arg, int rank, const char *why)
{
	struct tutti_context *ctx = arg;
	char text[256];

	snprintf(text, sizeof(text), "from rank %d on host %s: %s", rank,
		 tt_boot_host(ctx->boot, rank), why);
	tt_ctx_unfit(ctx, -EBADMSG, rank, text);
}

void tt_ctx_abort_msg(void *arg, int from, const void *data, size_t len)
{
	struct tutti_context *ctx = arg;
	struct abort_msg msg;

	if (len != sizeof(msg))
		return;
	memcpy(&msg, data, sizeof(msg));
	tt_ctx_lock(ctx);
	fail_everywhere(ctx, -TUTTI_EABORTED, -1, "rank %d aborted the job with code %d", from,
			msg.user_code);
	tt_wire_wake(ctx->wire);
	tt_ctx_unlock(ctx);
}

int tt_ctx_abort(struct tutti_context *ctx, int code)
{
	struct abort_msg msg = {.user_code = code};
	int err = 0;

	tt_wire_lock(ctx->wire);
	fail_everywhere(ctx, -TUTTI_EABORTED, -1, "rank %d aborted the job with code %d",
			ctx->boot_params.rank, code);
	ctx->abort_mine = true;
	ctx->abort_code = code;
	if (ctx->boot_params.nranks >
	    1) /* before its consequences, which another thread may report */
		err = tt_ctl_send(ctx->boot, TT_CTL_ALL, TT_CTL_ABORT, &msg, sizeof(msg));
	tt_wire_wake(ctx->wire);
	tt_wire_unlock(ctx->wire);
	if (ctx->boot_params.nranks > 1) /* a program that aborts often exits next */
		tt_ctl_flush(ctx->boot, ABORT_MS);
	return err;
}
