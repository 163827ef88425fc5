/* SPDX-License-Identifier: BSD-3-Clause */
/* The calls of a partial all-reduce, as the caller's thread makes them; checked by lib/api. */
#include <errno.h>
#include <string.h>

#include "lib/base/clock.h"
#include "lib/base/copy.h"
#include "lib/partial/partial.h"

static int too_far_behind(const struct tutti_partial *p, const char *call)
{
	return tt_fail(-ESTALE,
		       "%s: round %llu is not kept any more: %llu rounds are decided and at most "
		       "%d results kept; call tutti_partial_resync and take over a newer model",
		       call, (unsigned long long)p->seen + 1, (unsigned long long)p->round,
		       TUTTI_PARTIAL_WINDOW);
}

static int no_quorum(const struct tutti_partial *p, const char *call)
{
	return tt_fail(-EINVAL,
		       "%s: quorum is %d, and %d rank%s left; make a partial all-reduce with a "
		       "lower quorum, or with one that follows the living ranks",
		       call, p->config.quorum, p->living, p->living == 1 ? " is" : "s are");
}

/* The results that this rank has not seen are all kept. */
static bool all_kept(struct tutti_partial *p)
{
	return p->seen == p->round || tt_partial_kept(p, p->seen + 1);
}

/* The vote of a free that has timed out says that there is no carry. */
static int still_used(const struct tutti_partial *p, const char *call)
{
	return p->freeing
		       ? tt_fail(-EBUSY, "%s: tutti_partial_free has timed out here; call it again",
				 call)
		       : 0;
}

static bool over_or_stirred(void *arg)
{
	const struct tutti_partial *p = arg;

	return p->call_over || p->stirred || p->failed ||
	       (p->call == TT_PARTIAL_ALLREDUCE && p->config.quorum > p->living);
}

static int timed_out(const struct tutti_partial *p, const char *call, uint64_t timeout)
{
	const char *host = tt_boot_host(p->comm->ctx->boot, p->comm->world[p->decider]);

	return tt_fail(-ETIMEDOUT,
		       "%s did not finish within %llu ms: round %llu is not decided; rank %d on "
		       "host %s decides it when %d of %d living ranks have offered; the "
		       "contribution %s",
		       call, (unsigned long long)(timeout / TT_MS),
		       (unsigned long long)p->round + 1, p->comm->world[p->decider], host,
		       p->call == TT_PARTIAL_DRAINING ? p->living : tt_partial_quorum(p), p->living,
		       p->config.late == TUTTI_PARTIAL_DROP
			       ? "takes part if it is decided, or is dropped"
			       : "stays in the carry");
}

/* Until the call is over, there is something to do, or the clock is to be looked at. */
static void wait_a_while(struct tutti_partial *p, uint64_t deadline)
{
	uint64_t look = tt_partial_next_look(p);
	struct tt_wire *wire = p->comm->ctx->wire;

	tt_wire_unlock(wire);
	tt_engine_wait(p->comm->ctx, over_or_stirred, p, look < deadline ? look : deadline);
	tt_wire_lock(wire);
}

/* Under the lock, which it leaves meanwhile: until the call is over. */
static int wait_for_call(struct tutti_partial *p, const char *call)
{
	uint64_t timeout = tt_comm_timeout(p->parent);
	uint64_t deadline = timeout == TT_NEVER ? TT_NEVER : tt_now_ns() + timeout;
	bool late = false;

	for (;;) {
		tt_partial_step(p);
		if (p->failed)
			return tt_partial_check(p);
		if (p->call_over)
			return 0;
		if (p->call == TT_PARTIAL_ALLREDUCE && p->config.quorum > p->living)
			return no_quorum(p, call);
		if (late)
			return timed_out(p, call, timeout);
		wait_a_while(p, deadline);
		late = tt_passed(deadline);
	}
}

static void report(struct tutti_partial *p, unsigned char *bitmap, uint64_t *first, uint64_t *last)
{
	if (bitmap && p->first)
		memcpy(bitmap, p->took, p->bitmap_len);
	if (first)
		*first = p->first ? p->first : p->seen + 1;
	if (last)
		*last = p->seen;
}

static void record(struct tutti_partial *p, const char *call, uint64_t start)
{
	struct tt_flight_op op = {.comm = p->comm->uid, .count = p->count, .peer = -1, .tag = -1};

	tt_record_brief(p->comm->ctx, call, p->datatype, &op, start);
}

static void begin(struct tutti_partial *p, enum tt_partial_call call, void *recv)
{
	p->call = call;
	p->call_over = p->behind = false;
	p->recv = recv;
	p->first = 0;
	p->told_round = 0;
	p->told_drain = 0;
}

/* Waits for the call. What it got before it failed, the next call gets again. */
static int finish(struct tutti_partial *p, const char *call, uint64_t seen)
{
	int err;

	p->attended = !p->deciding && !tt_wire_slow_poll(p->comm->ctx->wire);
	err = wait_for_call(p, call);
	p->attended = false;
	tt_wire_wake_ready(p->comm->ctx->wire);
	if (!err && p->behind)
		err = too_far_behind(p, call);
	if (err)
		p->seen = seen;
	p->call = TT_PARTIAL_NONE;
	return err;
}

/* A contribution becomes an offer of its own, or a part of the one that is not sent yet. */
static int contribute(struct tutti_partial *p, const void *send)
{
	struct tt_partial_vec *vec = tt_partial_vec_get(p);
	int i = 0;
	bool fits;

	if (!vec) {
		tt_partial_step(p); /* tells the other ranks */
		return tt_partial_check(p);
	}
	tt_copy_data(vec->data, send, p->bytes);
	tt_wire_stats(p->comm->ctx->wire)->copied_bytes += p->bytes;
	while (i < TT_PARTIAL_OFFERS && p->offer[i].vec && p->offer[i].number)
		i++;
	fits = tt_partial_vec_add(p, &p->offer[i].vec, vec);
	tt_partial_vec_put(p, vec);
	p->stats.calls += fits;
	p->offer[i].calls += fits;
	tt_partial_carry(p);
	if (!fits)
		tt_partial_step(p);
	return fits ? 0 : tt_partial_check(p);
}

/* Rounds have been decided since the last call, or none can be: no round takes a contribution. */
static bool too_late(const struct tutti_partial *p)
{
	return p->seen < p->round || p->config.quorum > p->living;
}

static int give(struct tutti_partial *p, const void *send)
{
	p->stats.late += p->seen < p->round;
	if (p->config.late != TUTTI_PARTIAL_DROP || !too_late(p))
		return contribute(p, send);
	p->stats.calls++;
	p->stats.dropped++;
	return 0;
}

static int run(struct tutti_partial *p, const void *send, void *recv)
{
	static const char call[] = "partial_allreduce";
	uint64_t seen = p->seen;
	int err;

	tt_partial_step(p); /* what has arrived */
	err = tt_partial_check(p);
	if (!err)
		err = still_used(p, call);
	if (!err)
		err = give(p, send);
	if (err)
		return err;
	p->drain_again = false;
	if (!all_kept(p))
		err = too_far_behind(p, call);
	else if (p->config.quorum > p->living)
		err = no_quorum(p, call);
	if (err) { /* the contribution is offered like any other */
		tt_partial_step(p);
		return err;
	}
	begin(p, TT_PARTIAL_ALLREDUCE, recv);
	if (p->seen < p->round)
		tt_partial_take(p);
	else
		tt_partial_offer(p);
	return finish(p, call, seen);
}

int tt_partial_allreduce(struct tutti_partial *p, const void *send, void *recv,
			 unsigned char *bitmap, uint64_t *first, uint64_t *last)
{
	struct tt_wire *wire = p->comm->ctx->wire;
	uint64_t start = tt_ticks();
	int err;

	tt_wire_lock(wire);
	err = run(p, send, recv);
	if (!err) {
		report(p, bitmap, first, last);
		record(p, "partial_allreduce", start);
	}
	tt_wire_unlock(wire);
	return err;
}

/*
 * A drain that fails has been withdrawn from the decider, or it was over for the others. So the
 * next one is the same drain, unless there is a contribution between.
 */
static int drain(struct tutti_partial *p, const char *call, void *recv)
{
	uint64_t seen = p->seen;
	int err;

	if (!p->drain_again)
		p->drain_goal = p->drains + 1;
	begin(p, TT_PARTIAL_DRAINING, recv);
	tt_partial_take(p);
	tt_partial_offer(p);
	err = finish(p, call, seen);
	p->drain_again = err != 0;
	if (err)
		tt_partial_drain_no_more(p);
	return err;
}

int tt_partial_drain(struct tutti_partial *p, void *recv, unsigned char *bitmap, uint64_t *first,
		     uint64_t *last)
{
	static const char call[] = "partial_drain";
	struct tt_wire *wire = p->comm->ctx->wire;
	uint64_t start = tt_ticks();
	int err;

	tt_wire_lock(wire);
	tt_partial_step(p);
	err = tt_partial_check(p);
	if (!err)
		err = still_used(p, call);
	if (!err && !all_kept(p))
		err = too_far_behind(p, call);
	if (!err)
		err = drain(p, call, recv);
	if (!err) {
		report(p, bitmap, first, last);
		record(p, call, start);
	}
	tt_wire_unlock(wire);
	return err;
}

int tt_partial_get_result(struct tutti_partial *p, uint64_t round, void *recv,
			  unsigned char *bitmap)
{
	struct tt_wire *wire = p->comm->ctx->wire;
	struct tt_partial_slot *slot;
	int err = 0;

	tt_wire_lock(wire);
	slot = tt_partial_kept(p, round);
	if (!slot) {
		err = tt_fail(
			round > p->round || !round ? -EINVAL : -ESTALE,
			"tutti_partial_result: round %llu is %s: %llu rounds are decided and at "
			"most %d results kept",
			(unsigned long long)round,
			round > p->round || !round ? "not decided" : "not kept any more",
			(unsigned long long)p->round, TUTTI_PARTIAL_WINDOW);
	} else {
		tt_copy_data(recv, slot->vec->data, p->bytes);
		if (bitmap)
			memcpy(bitmap, tt_partial_bitmap(p, slot->head), p->bitmap_len);
	}
	tt_wire_unlock(wire);
	return err;
}

int tt_partial_resync(struct tutti_partial *p, uint64_t *round)
{
	struct tt_wire *wire = p->comm->ctx->wire;
	int err;

	tt_wire_lock(wire);
	tt_partial_step(p);
	err = tt_partial_check(p);
	if (!err) {
		p->stats.skipped += p->round - p->seen;
		p->seen = p->round;
		*round = p->round;
	}
	tt_wire_unlock(wire);
	return err;
}

void tt_partial_stats_get(struct tutti_partial *p, struct tutti_partial_stats *stats)
{
	struct tt_wire *wire = p->comm->ctx->wire;

	tt_wire_lock(wire);
	*stats = p->stats;
	stats->rounds = p->round;
	stats->carried_bytes = p->carried;
	stats->lost = p->lost;
	stats->decider = p->decider;
	stats->living = p->living;
	tt_wire_unlock(wire);
}
