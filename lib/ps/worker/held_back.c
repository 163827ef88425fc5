/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Error feedback of pushes that travel encoded, and the filter that holds back small updates
 * (Hsieh and others: Gaia, NSDI 2017). A worker has the state of its codec for every
 * element of a table: the first vector is the residual, what its encodings have left out so far.
 * It is added to the worker's next push of the element, or pushed as it is: every `flush` clocks,
 * and when the worker leaves. So what the servers got, plus all workers' residuals, is what was
 * pushed, whatever messages the pushes were cut into.
 *
 * A message is a vector of its own for the codec. Its random bits follow from the clock, the worker
 * and the number of the message within the clock.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/hash.h"
#include "lib/ps/worker/held_back.h"

#define AT_ONCE 65536 /* elements that are added up under one lock */

/* Elements of the longest message. */
static size_t longest(const struct tutti_ps_table *t)
{
	return t->rows ? t->coded_rows * t->width : t->block_elems;
}

static int new_filter(const struct tutti_ps_table *t, struct tt_ps_feedback *f)
{
	size_t most = longest(t);

	f->seen = calloc((size_t)f->all, sizeof(float));
	f->in = calloc(3 * most, sizeof(float));
	if (!f->seen || !f->in)
		return -ENOMEM;
	f->rest = f->in + most;
	f->before = f->rest + most;
	return 0;
}

static int new_rows(const struct tutti_ps_table *t, struct tt_ps_feedback *f)
{
	size_t most = longest(t);
	int s;

	f->row_in = calloc((size_t)(2 + f->states) * most, sizeof(float));
	if (!f->row_in)
		return -ENOMEM;
	f->row_seen = f->row_in + most;
	for (s = 0; s < f->states; s++)
		f->row_state[s] = f->row_in + (size_t)(2 + s) * most;
	return tt_ps_row_units_new(t, &f->met);
}

int tt_ps_feedback_new(struct tutti_ps_table *t)
{
	uint64_t states = (uint64_t)tt_codec_states(t->coder), seen = t->opt.significance > 0;
	struct tt_ps_feedback *f = calloc(1, sizeof(*f));

	t->feedback = f;
	if (f) {
		f->states = (int)states;
		f->all = t->count * t->width;
		f->since = t->ps->clock;
		f->state = calloc((size_t)(f->all * states), sizeof(float));
	}
	if (!f || !f->state || (seen && new_filter(t, f)) || (t->rows && new_rows(t, f)))
		return tt_ps_no_memory(t, t->count * t->width * (states + seen) * sizeof(float), 0);
	return 0;
}

void tt_ps_feedback_free(struct tutti_ps_table *t)
{
	struct tt_ps_feedback *f = t->feedback;

	if (!f)
		return;
	tt_ps_row_units_free(&f->met);
	free(f->row_in);
	free(f->state);
	free(f->seen);
	free(f->in);
	free(f);
}

/* ---- significance ---- */

void tt_ps_feedback_seen(struct tutti_ps_table *t, const float *values, uint64_t first, uint64_t n)
{
	struct tt_wire *wire = t->ps->comm->ctx->wire;
	uint64_t at, part;

	for (at = 0; at < n; at += part) {
		part = n - at < AT_ONCE ? n - at : AT_ONCE;
		tt_wire_lock(wire);
		memcpy(t->feedback->seen + first + at, values + at, part * sizeof(*values));
		tt_wire_unlock(wire);
	}
}

size_t tt_ps_vector_choose(struct tt_ps_feedback *f, double share, const struct tt_ps_vector *part)
{
	float *held = part->state[0], p;
	size_t i, kept = 0;

	memcpy(f->before, held, part->n * sizeof(*held));
	for (i = 0; i < part->n; i++) {
		p = part->in[i] + held[i];
		if (fabs((double)p) < share * fabs((double)part->seen[i]) || p == 0) {
			f->in[i] = held[i] = 0;
			f->rest[i] = p;
		} else {
			f->in[i] = part->in[i];
			f->rest[i] = 0;
			kept++;
		}
	}
	return kept;
}

/* A list with as many entries could be no shorter than the elements. */
static bool is_dense(const struct tutti_ps_table *t, size_t kept, size_t n)
{
	return !t->opt.codec && tt_codec_list_bound(kept, n) >= n * sizeof(float);
}

static void copy_plain(const struct tt_ps_feedback *f, const struct tt_ps_vector *p, float *out)
{
	tt_reduce_sum(out, f->in, p->state[0], p->n);
	tt_codec_clear(p->state[0], out, p->n);
}

static void hold(struct tt_ps_feedback *f, uint64_t first, size_t n)
{
	tt_reduce_sum(f->state + first, f->state + first, f->rest, n);
}

/* ---- encoding ---- */

static uint64_t next_call(const struct tutti_ps_table *t, uint64_t clock)
{
	struct tt_ps_feedback *f = t->feedback;

	if (f->clock != clock)
		f->messages = 0;
	f->clock = clock;
	return tt_hash_add(tt_hash_add(clock, (uint64_t)t->ps->my_worker), f->messages++);
}

int tt_ps_vector_encode(struct tutti_ps_table *t, const struct tt_ps_vector *p, size_t kept,
			uint64_t clock, void *out, size_t *len, bool *plain)
{
	bool filters = tt_ps_filters(t);
	const struct tt_ps_feedback *f = t->feedback;

	*plain = filters && is_dense(t, kept, p->n);
	*len = kept ? p->n * sizeof(float) : 0;
	if (*plain)
		copy_plain(f, p, out);
	else if (kept)
		return tt_codec_encode(t->coder, filters ? f->in : p->in, p->state, 0, p->n,
				       next_call(t, clock), out, len);
	return 0;
}

int tt_ps_feedback_encode(struct tutti_ps_table *t, const float *in, uint64_t first, size_t n,
			  uint64_t clock, void *out, size_t *len, bool *plain)
{
	bool filters = tt_ps_filters(t);
	struct tt_ps_feedback *f = t->feedback;
	struct tt_ps_vector p = {.in = in, .seen = filters ? f->seen + first : NULL, .n = n};
	size_t kept;
	int i, err;

	for (i = 0; i < f->states; i++)
		p.state[i] = f->state + (uint64_t)i * f->all + first;
	kept = filters ? tt_ps_vector_choose(f, t->opt.significance, &p) : n;
	err = tt_ps_vector_encode(t, &p, kept, clock, out, len, plain);
	if (filters && err)
		memcpy(p.state[0], f->before, n * sizeof(float));
	else if (filters)
		hold(f, first, n);
	if (err)
		return err;
	f->plain_bytes += n * sizeof(float);
	f->sent_bytes += *len;
	return 0;
}

bool tt_ps_feedback_take(struct tutti_ps_table *t, uint64_t first, size_t n, float *out)
{
	struct tt_ps_feedback *f = t->feedback;
	const float *held = f->state + first;
	size_t i;

	for (i = 0; i < n && held[i] == 0; i++)
		;
	if (i == n)
		return false;
	memcpy(out, held, n * sizeof(*out));
	for (i = 0; i < (size_t)f->states; i++)
		memset(f->state + i * f->all + first, 0, n * sizeof(float));
	f->sent_bytes += n * sizeof(float);
	return true;
}

int tt_ps_residuals_new(const struct tutti_ps_table *t, struct tt_ps_residuals *r)
{
	uint64_t n = t->count * t->width * (uint64_t)tt_codec_states(t->coder);

	memset(r, 0, sizeof(*r));
	r->state = calloc((size_t)n, sizeof(*r->state));
	if (!r->state)
		return tt_ps_no_memory(t, n * sizeof(*r->state), -ENOMEM);
	return t->rows ? tt_ps_row_units_new(t, &r->met) : 0;
}

void tt_ps_residuals_free(struct tt_ps_residuals *r)
{
	free(r->state);
	tt_ps_row_units_free(&r->met);
}

void tt_ps_feedback_restore(struct tutti_ps_table *t, struct tt_ps_residuals *r, uint64_t clock)
{
	struct tt_ps_feedback *f = t->feedback;
	struct tt_ps_residuals old = {.state = f->state, .met = f->met};

	f->state = r->state;
	f->met = r->met;
	*r = old;
	if (f->seen) /* values of before */
		memset(f->seen, 0, (size_t)f->all * sizeof(float));
	f->since = t->opt.flush ? clock - clock % (uint64_t)t->opt.flush : 0;
}

float *tt_ps_feedback_residuals(const struct tutti_ps_table *t)
{
	return t->feedback ? t->feedback->state : NULL;
}

static void keep_dense(const struct tt_ps_feedback *f, struct tt_ps_feedback *g)
{
	uint64_t i;

	for (i = 0; i < g->all * (uint64_t)g->states; i++)
		g->state[i] += f->state[i];
	if (g->seen)
		memcpy(g->seen, f->seen, (size_t)g->all * sizeof(float));
}

void tt_ps_feedback_keep(const struct tutti_ps_table *from, struct tutti_ps_table *to)
{
	const struct tt_ps_feedback *f = from->feedback;
	struct tt_ps_feedback *g = to->feedback;

	if (!f || !g)
		return;
	if (to->rows)
		tt_ps_feedback_keep_rows(from, to);
	else
		keep_dense(f, g);
	g->since = f->since;
	g->clock = f->clock;
	g->messages = f->messages;
	g->plain_bytes = f->plain_bytes;
	g->sent_bytes = f->sent_bytes;
}

/* ---- flushing; without the lock ---- */

int tt_ps_flush(struct tutti_ps_table *t, const char *call)
{
	struct tt_wire *wire = t->ps->comm->ctx->wire;
	int err;

	if (!t->feedback)
		return 0;
	err = t->rows ? tt_ps_flush_rows(t, call)
		      : tt_ps_push_now(t, NULL, 0, t->count, TT_PS_PUSH_HELD, call, NULL);
	if (err)
		return err;
	tt_wire_lock(wire);
	t->feedback->since = t->ps->clock;
	tt_wire_unlock(wire);
	return 0;
}

/* clock: the one that is about to begin. A worker that leaves flushes, too. */
static bool due(const struct tutti_ps_table *t, uint64_t clock)
{
	uint64_t period = (uint64_t)t->opt.flush;

	return clock == UINT64_MAX || (period && clock / period != t->ps->clock / period);
}

int tt_ps_flush_due(struct tutti_ps *ps, uint64_t clock, const char *call)
{
	struct tt_wire *wire = ps->comm->ctx->wire;
	uint32_t i;
	int err = 0;

	for (i = 0; !err && i < ps->ntables; i++) {
		struct tutti_ps_table *t = ps->table[i];

		if (!t->feedback || !due(t, clock))
			continue;
		err = tt_ps_flush(t, call);
		tt_wire_lock(wire);
		if (!err && clock != UINT64_MAX)
			t->feedback->since = clock;
		tt_wire_unlock(wire);
	}
	return err;
}

/* ---- figures ---- */

static void add_up(const float *e, size_t n, struct tutti_ps_held *held)
{
	double size;
	size_t i;

	for (i = 0; i < n; i++) {
		size = fabs((double)e[i]);
		held->elements += size != 0;
		held->sum += size;
		held->most = size > held->most ? size : held->most;
	}
}

static void say_bytes(const struct tutti_ps_table *t, struct tutti_ps_held *held)
{
	held->clock = t->ps->clock;
	held->since = t->feedback->since;
	held->plain_bytes = t->feedback->plain_bytes;
	held->sent_bytes = t->feedback->sent_bytes;
}

void tt_ps_held(struct tutti_ps_table *t, struct tutti_ps_held *held)
{
	struct tt_wire *wire = t->ps->comm->ctx->wire;
	uint64_t at = 0, n, end;

	if (!t->feedback)
		return;
	do {
		tt_wire_lock(wire);
		end = tt_ps_feedback_elems(t);
		n = end - at < AT_ONCE ? end - at : AT_ONCE;
		add_up(t->feedback->state + at, n, held);
		say_bytes(t, held);
		tt_wire_unlock(wire);
		at += n;
	} while (at < end);
}

void tt_ps_trace_held(struct tutti_ps *ps, uint64_t clock)
{
	uint32_t i;

	for (i = 0; ps->trace && i < ps->ntables; i++) {
		const struct tutti_ps_table *t = ps->table[i];
		struct tutti_ps_held held = {0};

		if (!t->feedback)
			continue;
		add_up(t->feedback->state, tt_ps_feedback_elems(t), &held);
		tt_ps_trace_write(ps, "held %u %llu %d %llu %llu %.9g\n", t->index,
				  (unsigned long long)clock, t->opt.flush,
				  (unsigned long long)t->feedback->since,
				  (unsigned long long)held.elements, held.sum);
	}
}
