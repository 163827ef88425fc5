/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Downpour (Dean and others, 2012): a worker fetches a table every n_fetch clocks and pushes its
 * accumulated updates every n_push clocks. The caller's loop does not change: in between, a pull
 * leaves the caller's values (which the caller updates itself) as they are, and a push is
 * accumulated here. In a row table each row has its own periods: the first pull of a row within a
 * period fetches it, as not all rows are pulled at each clock.
 */

#include "lib/ps/worker/accumulate.h"

#define BATCH 65536 /* bytes of rows that are sent together */
#define CLOCK_BITS 0x7fffffffu

/* The first clock of a period in which the table is pulled. */
bool tt_ps_fetches(struct tutti_ps_table *t)
{
	uint64_t clock = t->ps->clock, period = clock / (uint64_t)t->opt.n_fetch + 1;

	if (t->fetch_period != period) {
		t->fetch_period = period;
		t->fetch_clock = clock;
	}
	return clock == t->fetch_clock;
}

bool tt_ps_fetches_row(const struct tutti_ps_table *t, uint64_t key)
{
	uint64_t clock = t->ps->clock, ago, period = (uint64_t)t->opt.n_fetch;
	uint32_t at = tt_ps_key_place(&t->fetched, key);

	ago = (clock - at) & CLOCK_BITS;
	return at == TT_PS_NOWHERE || !ago || (clock - ago) / period != clock / period;
}

/* Without memory for this note, the row is fetched again. */
void tt_ps_fetched_rows(struct tutti_ps_table *t, const uint64_t *keys, size_t n)
{
	size_t i;

	for (i = 0; i < n; i++)
		if (tt_ps_fetches_row(t, keys[i]) &&
		    tt_map_set(&t->fetched, keys[i], (uint32_t)t->ps->clock & CLOCK_BITS))
			return;
}

void tt_ps_downpour_forget(struct tutti_ps_table *t)
{
	t->fetch_period = 0;
	tt_map_clear(&t->fetched);
	if (t->accrued.sums)
		tt_ps_sum_clear(&t->accrued, 0, t->count);
	tt_ps_row_units_clear(&t->accrued_rows);
}

static const struct tt_ps_task_ops nothing_ops = {.advance = tt_ps_task_end};

int tt_ps_nothing(struct tutti_ps_table *t, const char *call, struct tutti_request **request)
{
	struct tt_ps_task *task;
	int err = tt_ps_task_new(t->ps, t, call, &nothing_ops, sizeof(*task), 0, &task);

	if (err)
		return err;
	err = tt_ps_check_calls(t->ps);
	if (!err)
		return tt_ps_task_start(task, request);
	tt_ps_task_drop(task);
	return err;
}

int tt_ps_accrue(struct tutti_ps_table *t, const void *buf, uint64_t offset, uint64_t count,
		 const char *call, struct tutti_request **request)
{
	int err = tt_ps_nothing(t, call, request);

	if (!err)
		tt_ps_sum_add(t, &t->accrued, offset, count, buf);
	return err;
}

int tt_ps_accrue_rows(struct tutti_ps_table *t, const uint64_t *keys, size_t n, const void *buf,
		      const char *call, struct tutti_request **request)
{
	size_t row = t->width * t->elem, i;
	uint32_t unit;
	int err = 0;

	for (i = 0; !err && i < n; i++) /* before any is added: a failed call adds none */
		err = tt_ps_row_units_find(t, &t->accrued_rows, keys[i], &unit);
	if (!err)
		err = tt_ps_nothing(t, call, request);
	for (i = 0; !err && i < n; i++)
		tt_ps_sum_add(t, &t->accrued, tt_ps_key_place(&t->accrued_rows.units, keys[i]), 1,
			      (const char *)buf + i * row);
	return err;
}

int tt_ps_send_sum(struct tutti_ps_table *t, struct tt_ps_sum *sum,
		   const struct tt_ps_row_units *met)
{
	size_t unit = t->width * t->elem, most = BATCH / unit > 0 ? BATCH / unit : 1;
	struct tutti_request *req = NULL;
	uint64_t from = 0, to;
	int err = 0;

	for (; !err && tt_ps_sum_next(sum, &from, &to, t->rows ? met->n : t->count); from = to) {
		if (t->rows && to - from > most)
			to = from + most;
		err = t->rows ? tt_ps_push_rows_now(t, met->key + from, (size_t)(to - from),
						    sum->sums + from * unit, "ps_clock", &req)
			      : tt_ps_push_now(t, sum->sums + from * unit, from, to - from,
					       TT_PS_PUSH_UPDATES, "ps_clock", &req);
		if (!err)
			err = tutti_wait(&req);
		if (!err)
			tt_ps_sum_clear(sum, from, to);
	}
	return err;
}

bool tt_ps_accrues(const struct tutti_ps *ps)
{
	uint64_t from, to;
	uint32_t i;

	for (i = 0; i < ps->ntables; i++) {
		const struct tutti_ps_table *t = ps->table[i];

		from = 0;
		if (t->accrued.sums &&
		    tt_ps_sum_next(&t->accrued, &from, &to, t->rows ? t->accrued_rows.n : t->count))
			return true;
	}
	return false;
}

static int send_accrued(struct tutti_ps_table *t)
{
	int err = tt_ps_send_sum(t, &t->accrued, &t->accrued_rows);

	if (!err && t->rows)
		tt_ps_row_units_clear(&t->accrued_rows);
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
			err = send_accrued(t);
		else if (t->budget)
			err = tt_ps_budget_finish(t);
	}
	return err;
}
