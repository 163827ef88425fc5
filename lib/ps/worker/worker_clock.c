/* SPDX-License-Identifier: BSD-3-Clause */
/* A worker's clock, told to all servers after all earlier pushes; and its good-bye. */
#include <errno.h>
#include <stdio.h>

#include "lib/base/clock.h"
#include "lib/ps/resize/resize.h"
#include "lib/ps/worker/accumulate.h"

struct tick {
	struct tt_ps_task task;
	enum tt_ps_kind kind;
	uint64_t clock;	 /* the new one */
	uint64_t number; /* among this worker's */
};

static struct tick *tick_of(struct tt_ps_task *task)
{
	return tt_container(task, struct tick, task);
}

/*
 * A server without a free slot holds up no other: the others wait for what they are told.
 * false: not all servers could be told yet.
 */
static bool tell_all(struct tt_ps_task *task, struct tick *tick)
{
	struct tt_ps_msg msg = {.kind = tick->kind, .first = tick->clock};
	struct tt_ps_out *out;
	bool all = true;
	int k;

	if (tick->kind ==
	    TT_PS_BYE) /* it is answered after the clocks of other workers, which may take long */
		task->r.deadline = TT_NEVER;
	/*
	 * under BSP a pull reads the clock in which it began: all of its blocks, before that clock
	 * can end
	 */
	if (!task->ps->staleness && tt_ps_pulling(task->ps))
		return false;
	for (k = 0; k < task->ps->nservers; k++) {
		struct tt_ps_link *link = &task->ps->link[k];

		out = link->ticks < tick->number ? tt_ps_out_get(link) : NULL;
		if (out) {
			link->ticks = tick->number;
			tt_ps_send(task, out, msg, NULL, tick->kind == TT_PS_BYE);
		}
		all = all && link->ticks == tick->number;
	}
	return all;
}

/* Whether the slowest worker is within the staleness of this clock. */
static bool may_go_on(const struct tutti_ps *ps, uint64_t clock)
{
	return ps->staleness < 0 || clock <= (uint64_t)ps->staleness ||
	       tt_ps_lowest_clock(ps) >= clock - (uint64_t)ps->staleness;
}

/*
 * A replica that took over may have told the end and left before it got the good-bye that was sent
 * again.
 */
static bool ended(struct tt_ps_task *task)
{
	struct tutti_ps *ps = task->ps;
	int k, j;

	if (ps->copies == 1)
		return false;
	if (!tt_ps_servers_ended(ps)) {
		tt_ps_task_stall(task);
		return false;
	}
	for (k = 0; k < ps->nservers; k++)
		for (j = 0; j < TT_PS_SLOTS; j++)
			if (ps->link[k].out[j].task == task)
				ps->link[k].out[j].task = NULL;
	return true;
}

static void tick_advance(struct tt_ps_task *task)
{
	struct tick *tick = tick_of(task);

	if (!task->sent && !tell_all(task, tick))
		return;
	tt_ps_task_sent(task);
	if (task->puts || task->broken)
		return;
	if (task->answers && !(tick->kind == TT_PS_BYE && ended(task)))
		return;
	if (tick->kind == TT_PS_CLOCK && !may_go_on(task->ps, tick->clock)) {
		tt_ps_task_stall(task);
		return;
	}
	if (tick->kind == TT_PS_CLOCK)
		tt_ps_trace(task->ps, "clock %llu %llu\n", (unsigned long long)tick->clock,
			    (unsigned long long)tt_ps_lowest_clock(task->ps));
	if (!task->status && task->ps->status) {
		task->rank = task->ps->refuser;
		tt_ps_task_fail(task, tt_ps_refusal(task->ps), "%s", task->ps->why);
	}
	tt_ps_task_end(task);
}

static const struct tt_ps_task_ops tick_ops = {.advance = tick_advance};

static int tick_start(struct tutti_ps *ps, enum tt_ps_kind kind, uint64_t clock, const char *call,
		      struct tutti_request **request)
{
	struct tutti_request *req;
	struct tt_ps_task *task;
	int err;

	err = tt_ps_task_new(ps, NULL, call, &tick_ops, sizeof(struct tick), 0, &task);
	if (err)
		return err;
	tick_of(task)->kind = kind;
	tick_of(task)->clock = clock;
	tick_of(task)->number = ++ps->ticks;
	tt_ps_trace_held(ps, clock);
	if (kind == TT_PS_CLOCK)
		tt_ps_trace(ps, "tick %llu %llu\n", (unsigned long long)clock,
			    (unsigned long long)tt_now_ns());
	else
		tt_ps_trace(ps, "bye %llu\n", (unsigned long long)tt_now_ns());
	err = tt_ps_task_start(task, &req);
	if (err)
		return err;
	ps->clock = clock; /* even if a refused push makes the call fail */
	if (!request)
		return tutti_wait(&req);
	*request = req;
	return 0;
}

/* With backup workers, a late worker goes on in the clock of the others. */
uint64_t tt_ps_next_clock(struct tutti_ps *ps)
{
	uint64_t next = ps->clock + 1, lowest = 0;

	if (ps->backup) {
		tt_wire_lock(ps->comm->ctx->wire);
		lowest = tt_ps_lowest_clock(ps);
		tt_wire_unlock(ps->comm->ctx->wire);
	}
	return lowest > next && lowest <= (uint64_t)INT64_MAX ? lowest : next;
}

/* Sends first what n_push, a budget or a codec has held back and is due. */
int tt_ps_clock(struct tutti_ps *ps, uint64_t clock, const char *call,
		struct tutti_request **request)
{
	int err = tt_ps_send_accrued(ps, clock);

	if (!err)
		err = tt_ps_flush_due(ps, clock, call);
	return err ? err : tick_start(ps, TT_PS_CLOCK, clock, call, request);
}

int tt_ps_bye(struct tutti_ps *ps, struct tutti_request **request)
{
	return tick_start(ps, TT_PS_BYE, ps->clock, "ps_close", request);
}

/* ---- dropped pushes ---- */

static bool answered(void *arg)
{
	const struct tutti_ps *ps = arg;

	return atomic_load(&ps->comm->failed) || tt_ps_answered_all(ps);
}

int tt_ps_await_drops(struct tutti_ps *ps, const char *call)
{
	struct tutti_context *ctx = ps->comm->ctx;
	char text[160];

	if (!ps->backup ||
	    !tt_engine_wait(ctx, answered, ps, tt_deadline_ms(ctx->env.timeout.number)))
		return 0;
	snprintf(text, sizeof(text),
		 "%s: the servers did not answer this worker's pushes within %lld ms "
		 "(TUTTI_TIMEOUT)",
		 call, (long long)ctx->env.timeout.number);
	return tt_ps_fail_unanswered(ps, text);
}
