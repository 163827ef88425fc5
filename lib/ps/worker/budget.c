/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Managed bandwidth (Wei and others: Managed communication and consistency for fast data-parallel
 * iterative analytics, SoCC 2015). A worker's pushes to a table are accumulated here and sent as a
 * budget of bytes per second allows, the greatest change relative to its value first. At the clock
 * everything left is sent.
 *
 * The unit is a row, or a piece of a dense table. Its urgency is sum |u| / sum |x|: u the updates
 * that wait, x the values as last pulled by this worker. Between clocks progress sends, in this
 * thread or the progress thread: requests like those of the caller's pushes, which no caller waits
 * for. While `held`, only the caller's thread touches this state.
 *
 * Pushes that travel encoded cost the bytes of their encodings, which are known once a request has
 * had its turn to send; until then no other one starts.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/clock.h"
#include "lib/ps/worker/held_back.h"
#include "lib/reduce/half.h"

#define PIECE 2048  /* bytes of a dense table's unit, less than what travels behind its head */
#define BATCH 65536 /* of rows that go together */
#define FLIGHTS 8
#define BURST_NS (100 * TT_MS) /* unused budget is kept for so long */
#define AT_ONCE 65536	       /* elements, and */
#define ROWS_AT_ONCE 1024      /* rows that are added under one lock */
#define SEEN_AT_ONCE 128       /* units whose pulled values are noted under one lock */
#define NOTHING 1e-30	       /* a value of 0, or not known */

struct flight {
	struct tutti_request *req; /* NULL: free */
	char *buf;
	uint64_t *key; /* rows */
};

struct tt_ps_budget {
	struct tutti_ps_table *t;
	struct tt_stalled stalled;
	struct tt_ps_sum sum; /* by element, or by row in the order in which they were met */
	struct tt_ps_urgent urgent;
	double *value; /* by unit */
	uint64_t units;
	uint64_t unit_elems;
	struct tt_ps_row_units met; /* rows */
	double earned;
	uint64_t earned_at;
	uint64_t charged; /* encoded: the feedback's sent_bytes that were taken from earned */
	bool held;
	struct flight flight[FLIGHTS];
	int flying;
};

/* ---- urgency ---- */

#define SUM_OF(type, value)                                                                        \
	do {                                                                                       \
		const type *v = p;                                                                 \
		for (i = 0; i < n; i++)                                                            \
			sum += fabs((double)(value));                                              \
	} while (0)

double tt_ps_magnitude(enum tutti_datatype datatype, const void *p, size_t n)
{
	double sum = 0;
	size_t i;

	switch (datatype) {
	case TUTTI_INT8:
		SUM_OF(int8_t, v[i]);
		break;
	case TUTTI_UINT8:
		SUM_OF(uint8_t, v[i]);
		break;
	case TUTTI_INT32:
		SUM_OF(int32_t, v[i]);
		break;
	case TUTTI_UINT32:
		SUM_OF(uint32_t, v[i]);
		break;
	case TUTTI_INT64:
		SUM_OF(int64_t, v[i]);
		break;
	case TUTTI_UINT64:
		SUM_OF(uint64_t, v[i]);
		break;
	case TUTTI_FLOAT16:
		SUM_OF(uint16_t, tt_half_widen(v[i]));
		break;
	case TUTTI_BFLOAT16:
		SUM_OF(uint16_t, tt_bfloat_widen(v[i]));
		break;
	case TUTTI_FLOAT64:
		SUM_OF(double, v[i]);
		break;
	default:
		SUM_OF(float, v[i]);
	}
	return sum;
}

/* The first unit of `sum` (element, or row) of a unit here. */
static uint64_t first_of(const struct tt_ps_budget *b, uint64_t unit)
{
	return b->t->rows ? unit : unit * b->unit_elems;
}

static uint64_t end_of(const struct tt_ps_budget *b, uint64_t unit)
{
	uint64_t end = first_of(b, unit + 1);

	return !b->t->rows && end > b->t->count ? b->t->count : end;
}

static size_t pitch(const struct tutti_ps_table *t)
{
	return t->width * t->elem;
}

/* The waiting updates of a unit, or its value, have changed. */
static void weigh(struct tt_ps_budget *b, uint32_t unit)
{
	struct tutti_ps_table *t = b->t;
	uint64_t from = first_of(b, unit), to, end = end_of(b, unit);
	double moved = 0;
	bool any = false;

	for (; tt_ps_sum_next(&b->sum, &from, &to, end); from = to) {
		moved += tt_ps_magnitude(t->datatype, b->sum.sums + from * pitch(t),
					 (to - from) * t->width);
		any = true;
	}
	if (any)
		tt_ps_urgent_set(&b->urgent, unit,
				 moved / (b->value[unit] > NOTHING ? b->value[unit] : NOTHING));
	else
		tt_ps_urgent_drop(&b->urgent, unit);
}

/* ---- sending between clocks; under the lock ---- */

static void earn(struct tt_ps_budget *b)
{
	double rate = b->t->opt.budget, most = rate * BURST_NS / 1e9,
	       unit = (double)(b->unit_elems * b->t->elem);
	uint64_t now = tt_now_ns();

	b->earned += rate * (double)(now - b->earned_at) / 1e9;
	b->earned_at = now;
	if (most < unit) /* otherwise the unit could never be sent */
		most = unit;
	if (b->earned > most)
		b->earned = most;
}

/* Bytes have been sent: as many, or those that were encoded since. */
static void charge(struct tt_ps_budget *b, size_t bytes)
{
	const struct tt_ps_feedback *f = b->t->feedback;

	b->earned -= f ? (double)(f->sent_bytes - b->charged) : (double)bytes;
	if (f)
		b->charged = f->sent_bytes;
}

static const struct tt_ps_task *task_of(const struct tutti_request *req)
{
	return tt_container(req, struct tt_ps_task, r);
}

static bool all_encoded(const struct tt_ps_budget *b)
{
	int i;

	for (i = 0; i < FLIGHTS && b->t->feedback; i++)
		if (b->flight[i].req && !task_of(b->flight[i].req)->sent)
			return false;
	return true;
}

/* No caller waits for this request: keep its error for the next call. */
static void landed(struct tutti_request *req)
{
	const struct tt_ps_task *task = task_of(req);
	struct tt_ps_budget *b = task->table->budget;
	struct tutti_ps *ps = task->ps;
	int i;

	for (i = 0; i < FLIGHTS; i++)
		if (b->flight[i].req == req)
			b->flight[i].req = NULL;
	b->flying--;
	charge(b, 0);
	if (req->status && req->status == task->status && !ps->status) {
		ps->status = req->status;
		ps->refuser = task->rank;
		snprintf(ps->why, sizeof(ps->why), "%.*s", (int)sizeof(ps->why) - 1, task->why);
	}
	tt_request_free(req);
}

/* The request has started, and may have ended. */
static void fly(struct tt_ps_budget *b, struct flight *f, struct tutti_request *req)
{
	f->req = req;
	b->flying++;
	if (atomic_load(&req->state) == TT_REQ_DONE)
		landed(req);
	else
		req->ended = landed;
}

/*
 * Send the first run of a piece; the rest waits on. false: it could not start, and waits as before.
 */
static bool send_piece(struct tt_ps_budget *b, struct flight *f)
{
	struct tutti_ps_table *t = b->t;
	uint32_t unit = b->urgent.heap[0];
	uint64_t from = first_of(b, unit), to;
	struct tutti_request *req;

	if (!tt_ps_sum_next(&b->sum, &from, &to, end_of(b, unit)))
		return false; /* unreachable: a unit in the heap has an update */
	memcpy(f->buf, b->sum.sums + from * t->elem, (to - from) * t->elem);
	if (tt_ps_push_now(t, f->buf, from, to - from, TT_PS_PUSH_UPDATES, "ps_push", &req))
		return false;
	tt_ps_sum_clear(&b->sum, from, to);
	charge(b, (to - from) * t->elem);
	weigh(b, unit);
	fly(b, f, req);
	return true;
}

static bool send_some_rows(struct tt_ps_budget *b, struct flight *f)
{
	struct tutti_ps_table *t = b->t;
	size_t row = pitch(t), most = BATCH / row > 0 ? BATCH / row : 1, n = 0, i;
	struct tutti_request *req;
	uint32_t unit;
	double left = b->earned;
	int err;

	while (n < most && b->urgent.n && left >= (double)row) {
		unit = b->urgent.heap[0];
		memcpy(f->buf + n * row, b->sum.sums + unit * row, row);
		f->key[n++] = b->met.key[unit];
		tt_ps_urgent_drop(&b->urgent, unit);
		left -= (double)row;
	}
	err = tt_ps_push_rows_now(t, f->key, n, f->buf, "ps_push_rows", &req);
	for (i = 0; i < n; i++) {
		unit = tt_ps_key_place(&b->met.units, f->key[i]);
		if (!err)
			tt_ps_sum_clear(&b->sum, unit, unit + 1);
		else
			weigh(b, unit);
	}
	if (err)
		return false;
	charge(b, n * row);
	fly(b, f, req);
	return true;
}

static struct flight *free_flight(struct tt_ps_budget *b)
{
	int i;

	for (i = 0; i < FLIGHTS; i++)
		if (!b->flight[i].req)
			return &b->flight[i];
	return NULL;
}

static void go_on(struct tt_stalled *stalled)
{
	struct tt_ps_budget *b = tt_container(stalled, struct tt_ps_budget, stalled);
	double unit = (double)(b->unit_elems * b->t->elem);
	struct flight *f;
	bool ok = true;

	tt_list_del(&stalled->link);
	if (b->held)
		return;
	earn(b);
	charge(b, 0);
	while (ok && b->urgent.n && b->earned >= unit && all_encoded(b) && (f = free_flight(b)))
		ok = b->t->rows ? send_some_rows(b, f) : send_piece(b, f);
	if (ok && b->urgent.n)
		tt_list_add(&b->t->ps->comm->ctx->stalled, &stalled->link);
}

/* ---- the caller's side; without the lock ---- */

static void wait_on(struct tt_ps_budget *b)
{
	struct tutti_context *ctx = b->t->ps->comm->ctx;

	tt_wire_lock(ctx->wire);
	b->held = false;
	if (tt_list_empty(&b->stalled.link) && b->urgent.n)
		tt_list_add(&ctx->stalled, &b->stalled.link);
	tt_wire_wake(ctx->wire); /* the progress thread sleeps for longer when nothing waits */
	tt_wire_unlock(ctx->wire);
}

/* All that was sent while nothing waited is free: flushes, and what a clock sends. */
static void begin(struct tt_ps_budget *b)
{
	struct tt_wire *wire = b->t->ps->comm->ctx->wire;

	if (!b->t->feedback)
		return;
	tt_wire_lock(wire);
	if (!b->flying && !b->urgent.n)
		b->charged = b->t->feedback->sent_bytes;
	tt_wire_unlock(wire);
}

int tt_ps_budget_push(struct tutti_ps_table *t, const void *buf, uint64_t offset, uint64_t count,
		      const char *call, struct tutti_request **request)
{
	struct tt_wire *wire = t->ps->comm->ctx->wire;
	struct tt_ps_budget *b = t->budget;
	uint64_t at, n, unit;
	int err = tt_ps_nothing(t, call, request);

	begin(b);
	for (at = 0; !err && at < count; at += n) {
		n = count - at < AT_ONCE ? count - at : AT_ONCE;
		tt_wire_lock(wire);
		tt_ps_sum_add(t, &b->sum, offset + at, n, (const char *)buf + at * t->elem);
		for (unit = (offset + at) / b->unit_elems; unit * b->unit_elems < offset + at + n;
		     unit++)
			weigh(b, (uint32_t)unit);
		tt_wire_unlock(wire);
	}
	if (!err)
		wait_on(b);
	return err;
}

int tt_ps_budget_push_rows(struct tutti_ps_table *t, const uint64_t *keys, size_t n,
			   const void *buf, const char *call, struct tutti_request **request)
{
	struct tt_wire *wire = t->ps->comm->ctx->wire;
	struct tt_ps_budget *b = t->budget;
	uint32_t unit;
	size_t i, end;
	int err = 0;

	tt_wire_lock(wire);
	for (i = 0; !err && i < n; i++) /* before any is added: a failed call adds none */
		err = tt_ps_row_units_find(t, &b->met, keys[i], &unit);
	tt_wire_unlock(wire);
	if (!err)
		err = tt_ps_nothing(t, call, request);
	begin(b);
	for (i = 0; !err && i < n; i = end) {
		end = n - i < ROWS_AT_ONCE ? n : i + ROWS_AT_ONCE;
		tt_wire_lock(wire);
		for (; i < end; i++) {
			unit = tt_ps_key_place(&b->met.units, keys[i]);
			tt_ps_sum_add(t, &b->sum, unit, 1, (const char *)buf + i * pitch(t));
			weigh(b, unit);
		}
		tt_wire_unlock(wire);
	}
	if (!err)
		wait_on(b);
	return err;
}

/* ---- what was pulled: added up without the lock, as it may be much ---- */

static void learn(struct tt_ps_budget *b, uint32_t unit, double value)
{
	b->value[unit] = value;
	if (b->urgent.at[unit])
		weigh(b, unit);
}

void tt_ps_budget_seen(struct tutti_ps_table *t, const void *buf, uint64_t offset, uint64_t count)
{
	struct tt_wire *wire = t->ps->comm->ctx->wire;
	struct tt_ps_budget *b = t->budget;
	uint64_t unit = (offset + b->unit_elems - 1) / b->unit_elems, first;
	double value[SEEN_AT_ONCE];
	int n, i;

	do {
		first = unit;
		for (n = 0;
		     n < SEEN_AT_ONCE && unit < b->units && end_of(b, unit) <= offset + count;
		     unit++, n++)
			value[n] = tt_ps_magnitude(t->datatype, /* of whole ones */
						   (const char *)buf +
							   (first_of(b, unit) - offset) * t->elem,
						   end_of(b, unit) - first_of(b, unit));
		tt_wire_lock(wire);
		for (i = 0; i < n; i++)
			learn(b, (uint32_t)first + (uint32_t)i, value[i]);
		tt_wire_unlock(wire);
	} while (n);
}

void tt_ps_budget_seen_rows(struct tutti_ps_table *t, const uint64_t *keys, size_t n,
			    const void *buf)
{
	struct tt_wire *wire = t->ps->comm->ctx->wire;
	struct tt_ps_budget *b = t->budget;
	double value[SEEN_AT_ONCE];
	size_t i, j, end;
	uint32_t unit;

	for (i = 0; i < n; i = end) {
		end = n - i < SEEN_AT_ONCE ? n : i + SEEN_AT_ONCE;
		for (j = i; j < end; j++)
			value[j - i] = tt_ps_magnitude(t->datatype,
						       (const char *)buf + j * pitch(t), t->width);
		tt_wire_lock(wire);
		for (j = i; j < end; j++)
			if (!tt_ps_row_units_find(t, &b->met, keys[j],
						  &unit)) /* without memory its value counts as 0 */
				learn(b, unit, value[j - i]);
		tt_wire_unlock(wire);
	}
}

/* ---- the clock ---- */

static bool all_landed(void *arg)
{
	return !((struct tt_ps_budget *)arg)->flying;
}

/* From now on nothing starts by itself; wait for what has started. */
static void hold(struct tt_ps_budget *b)
{
	struct tutti_context *ctx = b->t->ps->comm->ctx;

	tt_wire_lock(ctx->wire);
	b->held = true;
	tt_wire_unlock(ctx->wire);
	tt_engine_wait(ctx, all_landed, b, TT_NEVER); /* requests have deadlines */
}

void tt_ps_budget_rest(struct tutti_ps *ps)
{
	uint32_t i;

	for (i = 0; i < ps->ntables; i++)
		if (ps->table[i]->budget)
			hold(ps->table[i]->budget);
}

static int finish(struct tt_ps_budget *b)
{
	int err = tt_ps_send_sum(b->t, &b->sum, &b->met);

	while (!err && b->urgent.n)
		tt_ps_urgent_drop(&b->urgent, b->urgent.heap[b->urgent.n - 1]);
	return err;
}

int tt_ps_budget_finish(struct tutti_ps_table *t)
{
	struct tt_ps_budget *b = t->budget;
	int err;

	hold(b);
	err = finish(b);
	if (!err) { /* nothing waits, so the next push begins with the budget earned by then */
		tt_wire_lock(t->ps->comm->ctx->wire);
		b->held = false;
		tt_wire_unlock(t->ps->comm->ctx->wire);
	}
	return err;
}

/* ---- memory ---- */

static int get_flights(struct tt_ps_budget *b)
{
	size_t row = pitch(b->t),
	       size = b->t->rows ? (row > BATCH ? row : BATCH) : PIECE + b->t->elem;
	int i;

	for (i = 0; i < FLIGHTS; i++) {
		b->flight[i].buf = malloc(size);
		b->flight[i].key = malloc((size / row + 1) * sizeof(uint64_t));
		if (!b->flight[i].buf || !b->flight[i].key)
			return -ENOMEM;
	}
	return 0;
}

static int get_memory(struct tt_ps_budget *b)
{
	struct tutti_ps_table *t = b->t;
	int err = tt_ps_sum_new(t, t->count, &b->sum);

	if (!err)
		err = tt_ps_urgent_new(b->units, &b->urgent);
	if (!err && t->rows)
		err = tt_ps_row_units_new(t, &b->met);
	if (err)
		return err;
	b->value = calloc((size_t)b->units, sizeof(*b->value));
	if (!b->value || get_flights(b))
		return tt_fail(-ENOMEM, "no memory to accumulate updates of table '%s'", t->name);
	return 0;
}

int tt_ps_budget_new(struct tutti_ps_table *t)
{
	struct tt_ps_budget *b = calloc(1, sizeof(*b));
	int err;

	if (!b)
		return tt_fail(-ENOMEM, "no memory for table '%s'", t->name);
	t->budget = b;
	b->t = t;
	b->stalled.again = go_on;
	tt_list_init(&b->stalled.link);
	b->earned_at = tt_now_ns();
	b->unit_elems = t->rows ? t->width : PIECE / t->elem;
	b->units = t->rows ? t->count : (t->count + b->unit_elems - 1) / b->unit_elems;
	if (b->units >= UINT32_MAX)
		return tt_fail(-EINVAL, "table '%s' is too large for options.budget", t->name);
	err = get_memory(b);
	return err ? err : tt_thread_start(t->ps->comm->ctx); /* callers compute between clocks */
}

void tt_ps_budget_free(struct tutti_ps_table *t)
{
	struct tt_ps_budget *b = t->budget;
	int i;

	if (!b)
		return;
	tt_wire_lock(t->ps->comm->ctx->wire);
	tt_list_del(&b->stalled.link);
	tt_wire_unlock(t->ps->comm->ctx->wire);
	for (i = 0; i < FLIGHTS; i++) {
		free(b->flight[i].buf);
		free(b->flight[i].key);
	}
	tt_ps_row_units_free(&b->met);
	tt_ps_urgent_free(&b->urgent);
	tt_ps_sum_free(&b->sum);
	free(b->value);
	free(b);
}
