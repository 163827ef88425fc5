/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Downpour (Dean and others, 2012): a worker fetches a table every n_fetch clocks and pushes what its updates have added
 * up to every n_push clocks. In between its loop stays the same: a pull leaves the caller's values, which he updates
 * himself, and a push is added up here.
 */
#include <errno.h>

#include "lib/ps/ps.h"

/* The first clock of a period at which there is a pull. */
bool tt_ps_fetches(struct tutti_ps_table *t)
{
	uint64_t clock = t->ps->clock, period;

	if (t->opt.n_fetch <= 1)
		return true;
	period = clock / (uint64_t)t->opt.n_fetch + 1;
	if (t->fetch_period != period) {
		t->fetch_period = period;
		t->fetch_clock = clock;
	}
	return clock == t->fetch_clock;
}

static int nothing_emit(struct tt_ps_task *task)
{
	(void)task;
	return 0;
}

int tt_ps_nothing(struct tutti_ps_table *t, const char *call, struct tutti_request **request)
{
	struct tt_ps_task *task;
	int err = tt_ps_task_new(t->ps, t, call, sizeof(*task), &task);

	if (err)
		return err;
	task->emit = nothing_emit;
	task->advance = tt_ps_task_end;
	return tt_ps_task_start(task, request);
}

int tt_ps_accrue(struct tutti_ps_table *t, const void *buf, uint64_t offset, uint64_t count,
		 const char *call, struct tutti_request **request)
{
	int err = tt_ps_nothing(t, call, request);

	if (!err)
		tt_ps_sum_add(t, &t->accrued, offset, count, buf);
	return err;
}

int tt_ps_send_sum(struct tutti_ps_table *t, struct tt_ps_sum *sum)
{
	struct tutti_request *req = NULL;
	uint64_t from = 0, to;
	int err = 0;

	for (; !err && tt_ps_sum_next(sum, &from, &to, t->count); from = to) {
		err = tt_ps_push(t, sum->sums + from * t->elem, from, to - from, false, "ps_clock",
				 &req);
		if (!err)
			err = tutti_wait(&req);
		if (!err)
			tt_ps_sum_clear(sum, from, to);
	}
	return err;
}

int tt_ps_send_accrued(struct tutti_ps *ps, uint64_t clock)
{
	uint32_t i;
	int err = 0;

	for (i = 0; !err && i < ps->ntables; i++) {
		struct tutti_ps_table *t = ps->table[i];
		uint64_t period = t->opt.n_push > 1 ? (uint64_t)t->opt.n_push : 1;

		if (t->accrued.sums && clock / period != ps->clock / period)
			err = tt_ps_send_sum(t, &t->accrued);
		else if (t->budget)
			err = tt_ps_budget_finish(t);
	}
	return err;
}
