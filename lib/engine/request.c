/* SPDX-License-Identifier: BSD-3-Clause */
/* The life of a request of any kind: started, ended, or broken. */
#include <errno.h>
#include <stdio.h>

#include "lib/base/clock.h"
#include "lib/engine/engine.h"

/*
 * Time for the control tree to name a failed rank; then the broken connection itself is the
 * reason.
 */
#define SUSPECT_NS (1 * TT_SEC)

int tt_comm_check(struct tutti_comm *comm)
{
	if (!atomic_load_explicit(&comm->failed, memory_order_relaxed))
		return 0;
	comm->told = true;
	return tt_fail_info(&comm->failure);
}

/* The state of calls of this kind. */
static atomic_int *state_of(struct tutti_comm *comm, enum tt_active list)
{
	return tt_active_coll(list) ? &comm->coll_failed : &comm->failed;
}

static int only_collectives(struct tutti_comm *comm, const char *call)
{
	struct tutti_error_info info = comm->failure;
	char name[TT_COMM_NAME];

	snprintf(info.call, sizeof(info.call), "%s", call);
	snprintf(info.phase, sizeof(info.phase), "not started");
	info.sequence = comm->seq + 1;
	info.bytes = 0;
	snprintf(info.text, sizeof(info.text),
		 "%s: %s has lost a rank, and needs tutti_comm_shrink before collectives: %.250s",
		 call, tt_comm_name(comm, name, sizeof(name)), comm->failure.text);
	return tt_fail_info(&info);
}

int tt_comm_check_call(struct tutti_comm *comm, enum tt_active list, const char *call)
{
	if (!atomic_load_explicit(state_of(comm, list), memory_order_relaxed))
		return 0;
	comm->told = true;
	if (!atomic_load(&comm->failed))
		return only_collectives(comm, call);
	if (comm->failure.code == -TUTTI_EMISMATCH) /* the failure names the calls that differ */
		return tt_fail_info(&comm->failure);
	if (!comm->failure.phase[0] && !comm->failure.call[0]) { /* no call was interrupted */
		snprintf(comm->failure.call, sizeof(comm->failure.call), "%s", call);
		snprintf(comm->failure.phase, sizeof(comm->failure.phase), "not started");
		comm->failure.sequence = comm->seq + 1;
	}
	return tt_comm_failure(comm, call, comm->seq + 1, "not started", 0);
}

void tt_request_init(struct tutti_request *req, const struct tt_request_ops *ops,
		     struct tutti_comm *comm, bool persistent)
{
	req->ops = ops;
	req->comm = comm;
	req->persistent = persistent;
	req->status = 0;
	req->seq = 0;
	req->timeout = 0;
	req->priority = 0;
	req->ended = NULL;
	req->inner = false;
	req->overdue = false;
	tt_list_init(&req->link);
	atomic_store_explicit(&req->state, TT_REQ_IDLE, memory_order_relaxed);
	comm->requests++;
}

void tt_request_free(struct tutti_request *req)
{
	struct tutti_comm *comm = req->comm;

	atomic_store_explicit(&req->state, TT_REQ_FREED, memory_order_relaxed);
	req->ops->free(req);
	if (!--comm->requests && comm->freed)
		comm->ctx->reap_due = true;
}

static void orphan_ended(struct tutti_request *req)
{
	req->comm->ctx->orphans--;
	tt_request_free(req);
}

int tt_request_stale(const char *name, const struct tutti_request *req)
{
	if (atomic_load_explicit(&req->state, memory_order_relaxed) != TT_REQ_FREED &&
	    req->ended != orphan_ended) /* still runs */
		return 0;
	return tt_fail(-EINVAL, "%s: the request was freed; this is a copy of its pointer", name);
}

bool tt_request_orphan(struct tutti_request *req)
{
	/* a request that was fused with others is in no list */
	if (atomic_load(&req->state) != TT_REQ_RUNNING || tt_list_empty(&req->link) || req->ended ||
	    req->ops->collected || req->ops->kept)
		return false;
	req->persistent = false;
	req->ended = orphan_ended;
	req->comm->ctx->orphans++;
	return true;
}

int tt_request_start(struct tutti_request *req)
{
	return req->ops->start(req);
}

void tt_request_under_way(struct tutti_request *req)
{
	req->status = 0;
	req->phase[0] = 0;
	req->bytes = 0;
	req->progressed = false;
	atomic_store_explicit(&req->state, TT_REQ_RUNNING, memory_order_release);
	tt_list_add(&req->comm->active[req->ops->list], &req->link);
	req->comm->ctx->running++;
}

uint64_t tt_request_next_late(const struct tutti_request *req, uint64_t now, uint64_t wait)
{
	uint64_t last = req->deadline - TT_LATE_LAST;

	if (now >= last)
		return now + (wait < TT_LATE_LAST / 4 ? wait : TT_LATE_LAST / 4);
	return now + wait < last ? now + wait : last;
}

static uint64_t late_after(const struct tutti_request *req)
{
	return (uint64_t)req->comm->ctx->env.late_after.number * TT_MS;
}

int tt_request_begin(struct tutti_request *req)
{
	struct tutti_comm *comm = req->comm;
	uint64_t now, timeout;
	int err;

	err = tt_comm_check_call(comm, req->ops->list, req->ops->call(req));
	if (err)
		return err;
	tt_request_under_way(req);
	if (req->ops->list != TT_ACTIVE_RECV) {
		now = tt_now_ns();
		timeout = tt_request_timeout(req);
		tt_request_due(req, timeout == TT_NEVER ? TT_NEVER : now + timeout);
		req->late_at = tt_request_next_late(req, now, late_after(req));
	}
	if (!tt_active_numbered(req->ops->list)) /* collectives are recorded with their number */
		tt_record_other(req);
	return 0;
}

void tt_request_end(struct tutti_request *req, int status)
{
	tt_request_end_at(req, status, tt_ticks());
}

void tt_request_end_at(struct tutti_request *req, int status, uint64_t ticks)
{
	req->status = status;
	tt_flight_end(req->comm->ctx->flight, req->flight, status, ticks);
	if (req->comm->ctx->trace)
		tt_trace_call(req->comm->ctx->trace, req->flight, status);
	if (req->ops->ended)
		req->ops->ended(req);
	tt_list_del(&req->link);
	req->comm->ctx->running--;
	req->comm->ctx->moves++;
	atomic_store_explicit(&req->state, TT_REQ_DONE, memory_order_release);
	if (req->ended)
		req->ended(req);
}

void tt_request_set_timeout(struct tutti_request *req, int ms)
{
	uint64_t now, timeout, late;

	req->timeout = ms < 0 ? TT_NEVER : (uint64_t)ms * TT_MS;
	req->timed_by_call = false;
	req->comm->mixed_timeouts = true;
	if (req->ops->list == TT_ACTIVE_RECV || tt_request_finished(req))
		return;
	now = tt_now_ns();
	timeout = tt_request_timeout(req);
	tt_request_due(req, timeout == TT_NEVER ? TT_NEVER : now + timeout);
	late = tt_request_next_late(req, now, late_after(req));
	req->late_at = late < req->late_at ? late : req->late_at;
	if (req->ops->list == TT_ACTIVE_COLL)
		tt_fuse_timed(req);
}

void tt_request_set_options(struct tutti_request *req, const struct tt_call_options *options)
{
	if (options->timeout_ms)
		tt_request_set_timeout(req, options->timeout_ms);
	req->timed_by_call = options->timeout_ms != 0;
	req->priority = options->priority;
	if (options->priority)
		tt_wire_pace(req->comm->ctx->wire);
}

const char *tt_request_timeout_text(const struct tutti_request *req, char *buf, size_t size)
{
	snprintf(buf, size, "%llu ms (%s)", (unsigned long long)(tt_request_timeout(req) / TT_MS),
		 req->timeout && req->timed_by_call ? "timeout_ms of tutti_call"
		 : req->timeout			    ? "tutti_request_set_timeout"
		 : req->comm->timeout		    ? "tutti_comm_set_timeout"
						    : "TUTTI_TIMEOUT");
	return buf;
}

/*
 * A transport's error does not say why: the peer may have died, or have closed its end because of a
 * verdict that has not reached this rank yet. Until the control tree knows more, the peer is a
 * suspect.
 */
static void suspect(struct tutti_comm *comm, int peer, int status, const char *what)
{
	const char *why = tt_wire_why(comm->ctx->wire, peer);

	if (comm->suspect >= 0)
		return;
	comm->ctx->suspicions = true;
	comm->suspect = peer;
	comm->suspect_code = status == -TUTTI_ETRANSPORT ? status : -TUTTI_EPEER;
	comm->suspect_until =
		tt_now_ns() + (status == -TUTTI_ETRANSPORT ? SUSPECT_NS : TT_ACCUSE_AGAIN);
	if (status == -TUTTI_ETRANSPORT)
		snprintf(comm->suspect_why, sizeof(comm->suspect_why),
			 "%s failed between this rank and rank %d on host %s: %s", what, peer,
			 tt_boot_host(comm->ctx->boot, peer), why ? why : tt_fail_text(status));
	else
		snprintf(comm->suspect_why, sizeof(comm->suspect_why),
			 "the connection was lost%s%s", status == -TUTTI_EPEER ? "" : ": ",
			 status == -TUTTI_EPEER ? "" : tutti_strerror(status));
}

void tt_comm_broken(struct tutti_comm *comm, int peer, int status, const char *call, uint64_t seq,
		    const char *what)
{
	struct tutti_context *ctx = comm->ctx;
	const char *why;
	int blamed;

	if (atomic_load(&comm->failed) || status == -TUTTI_EMISMATCH)
		return; /* the verdict is here, or on its way from rank 0 */
	if (comm->ndead && tt_comm_dead(comm, tt_comm_rank_of(comm, peer)) >= 0)
		return;		/* the sweep ends what needs that rank */
	if (status == -EPERM) { /* the peer lives: nothing to wait for, and no rank to fail */
		why = tt_wire_why(ctx->wire, peer);
		tt_comm_fail(comm, -TUTTI_ETRANSPORT, peer, call, seq, "",
			     "%s failed between this rank and rank %d on host %s: %s", what, peer,
			     tt_boot_host(ctx->boot, peer), why ? why : tt_fail_text(status));
		return;
	}
	if (tt_is_fault(status)) { /* no rank has failed: a caller passed what is not mapped */
		blamed = status == -EFAULT ? peer : ctx->boot_params.rank;
		tt_comm_fail(comm, -EFAULT, blamed, call, seq, "",
			     "%s failed: rank %d on host %s passed memory that is not mapped, or "
			     "without the right to use it: %s; check buffer and count of that "
			     "rank's call",
			     what, blamed, tt_boot_host(ctx->boot, blamed), tt_fail_text(status));
		return;
	}
	if (!tt_is_shortage(status) && status != -TUTTI_EABORTED) {
		suspect(comm, peer, status, what);
		return;
	}
	why = tt_is_shortage(status) ? tt_wire_why(ctx->wire, peer) : NULL;
	blamed = tt_is_shortage(status) ? tt_wire_short_rank(ctx->wire, peer) : peer;
	tt_comm_fail(comm, status, blamed, call, seq, "",
		     "%s failed between this rank and rank %d on host %s: %s", what, peer,
		     tt_boot_host(ctx->boot, peer), why ? why : tt_fail_text(status));
}

void tt_request_broken(struct tutti_request *req, int peer, int status)
{
	char text[128];

	req->status = status == -EPERM		  ? -TUTTI_ETRANSPORT
		      : status == -TT_EFAULT_HERE ? -EFAULT
						  : status;
	tt_comm_broken(req->comm, peer, status, req->ops->call(req), req->seq,
		       req->ops->text(req, text, sizeof(text)));
}
