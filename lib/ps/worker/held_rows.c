/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Residuals of rows: as of a dense table (held_back.c), with a place for each row that this worker
 * has pushed, or pulled if it filters. The rows of a message are one vector for the codec. Their
 * residuals move there, and the new ones are added again, so that a row may be in a message twice.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/log.h"
#include "lib/ps/worker/held_back.h"

int tt_ps_feedback_meet(struct tutti_ps_table *t, uint64_t key)
{
	uint32_t unit;

	return tt_ps_row_units_find(t, &t->feedback->met, key, &unit);
}

static float *place_of(const struct tutti_ps_table *t, float *all, uint64_t key)
{
	return all + (size_t)tt_ps_key_place(&t->feedback->met.units, key) * t->width;
}

static void add(float *to, const float *from, size_t n)
{
	size_t i;

	for (i = 0; i < n; i++)
		to[i] += from[i];
}

void tt_ps_feedback_seen_rows(struct tutti_ps_table *t, const uint64_t *keys, size_t n,
			      const float *values)
{
	struct tt_wire *wire = t->ps->comm->ctx->wire;
	size_t i;

	for (i = 0; i < n; i++) {
		tt_wire_lock(wire);
		if (!tt_ps_feedback_meet(t, keys[i])) /* without memory its value counts as 0 */
			memcpy(place_of(t, t->feedback->seen, keys[i]), values + i * t->width,
			       t->width * sizeof(*values));
		tt_wire_unlock(wire);
	}
}

/* Row j of the message: its update, and all that is known of it. */
static void gather(const struct tutti_ps_table *t, uint64_t key, const float *row, size_t j)
{
	struct tt_ps_feedback *f = t->feedback;
	size_t w = t->width;
	float *held;
	int s;

	memcpy(f->row_in + j * w, row, w * sizeof(float));
	if (f->seen)
		memcpy(f->row_seen + j * w, place_of(t, f->seen, key), w * sizeof(float));
	for (s = 0; s < f->states; s++) {
		held = place_of(t, f->state + (uint64_t)s * f->all, key);
		memcpy(f->row_state[s] + j * w, held, w * sizeof(float));
		memset(held, 0, w * sizeof(float));
	}
}

static bool is_significant(const struct tt_ps_feedback *f, size_t first, size_t n)
{
	size_t i;

	for (i = first; i < first + n; i++)
		if (f->in[i] + f->row_state[0][i] != 0)
			return true;
	return false;
}

/* Hold back what is not significant; only rows with something else stay in the message. */
static uint32_t filter(struct tutti_ps_table *t, const uint64_t *keys, uint32_t *pick, uint32_t n)
{
	struct tt_ps_feedback *f = t->feedback;
	struct tt_ps_vector p = {.in = f->row_in,
				 .seen = f->row_seen,
				 .state = {f->row_state[0]},
				 .n = n * t->width};
	size_t w = t->width, bytes = w * sizeof(float);
	uint32_t j, left = 0;

	f->kept = tt_ps_vector_choose(f, t->opt.significance, &p);
	for (j = 0; j < n; j++) {
		add(place_of(t, f->state, keys[pick[j]]), f->rest + j * w, w);
		if (!is_significant(f, j * w, w))
			continue;
		memmove(f->in + left * w, f->in + j * w, bytes);
		memmove(f->row_state[0] + left * w, f->row_state[0] + j * w, bytes);
		pick[left++] = pick[j];
	}
	return left;
}

uint32_t tt_ps_feedback_rows(struct tutti_ps_table *t, const uint64_t *keys, const float *rows,
			     uint32_t *pick, uint32_t n)
{
	struct tt_ps_feedback *f = t->feedback;
	uint32_t j;

	for (j = 0; j < n; j++)
		gather(t, keys[pick[j]], rows + pick[j] * t->width, j);
	f->plain_bytes += n * t->width * sizeof(float);
	f->kept = n * t->width;
	return tt_ps_filters(t) ? filter(t, keys, pick, n) : n;
}

int tt_ps_feedback_encode_rows(struct tutti_ps_table *t, const uint64_t *keys, const uint32_t *pick,
			       uint32_t n, uint64_t clock, void *out, size_t *len, bool *plain)
{
	struct tt_ps_feedback *f = t->feedback;
	struct tt_ps_vector p = {.in = f->row_in, .n = n * t->width};
	size_t w = t->width;
	uint32_t j;
	int s, err;

	for (s = 0; s < f->states; s++)
		p.state[s] = f->row_state[s];
	err = tt_ps_vector_encode(t, &p, f->kept, clock, out, len, plain);
	for (s = 0; s < f->states; s++)
		for (j = 0; j < n; j++)
			add(place_of(t, f->state + (uint64_t)s * f->all, keys[pick[j]]),
			    f->row_state[s] + j * w, w);
	if (!err)
		f->sent_bytes += *len;
	return err;
}

void tt_ps_feedback_take_row(struct tutti_ps_table *t, uint64_t key, float *out)
{
	struct tt_ps_feedback *f = t->feedback;
	size_t bytes = t->width * sizeof(*out);
	int s;

	memcpy(out, place_of(t, f->state, key), bytes);
	for (s = 0; s < f->states; s++)
		memset(place_of(t, f->state + (uint64_t)s * f->all, key), 0, bytes);
	f->sent_bytes += bytes;
}

/* ---- all rows of which something is held back ---- */

/* The first `states` vectors of the codec. */
static bool holds(const struct tutti_ps_table *t, uint32_t unit, int states)
{
	const struct tt_ps_feedback *f = t->feedback;
	const float *held;
	size_t i;
	int s;

	for (s = 0; s < states; s++) {
		held = f->state + (uint64_t)s * f->all + (size_t)unit * t->width;
		for (i = 0; i < t->width; i++)
			if (held[i] != 0)
				return true;
	}
	return false;
}

int tt_ps_feedback_list(const struct tutti_ps_table *t, uint64_t **keys, float **rows, size_t *n)
{
	const struct tt_ps_feedback *f = t->feedback;
	uint64_t *key = malloc(((size_t)f->met.n + 1) * sizeof(*key));
	float *row = rows ? malloc(((size_t)f->met.n * t->width + 1) * sizeof(*row)) : NULL;
	uint32_t unit;

	if (!key || (rows && !row)) {
		free(key);
		free(row);
		return tt_fail(-ENOMEM, "no memory for what is held back of table '%s'", t->name);
	}
	for (*n = 0, unit = 0; unit < f->met.n; unit++) {
		if (!holds(t, unit, 1))
			continue;
		if (rows)
			memcpy(row + *n * t->width, f->state + (size_t)unit * t->width,
			       t->width * sizeof(*row));
		key[(*n)++] = f->met.key[unit];
	}
	*keys = key;
	if (rows)
		*rows = row;
	return 0;
}

int tt_ps_feedback_add_rows(struct tutti_ps_table *t, const uint64_t *keys, const float *rows,
			    size_t n)
{
	size_t i;
	int err = 0;

	for (i = 0; i < n && !err; i++) {
		err = tt_ps_feedback_meet(t, keys[i]);
		if (!err)
			add(place_of(t, t->feedback->state, keys[i]), rows + i * t->width,
			    t->width);
	}
	return err;
}

size_t tt_ps_feedback_states(const struct tutti_ps_table *t, uint32_t *unit, size_t most,
			     uint64_t *keys, float *states)
{
	const struct tt_ps_feedback *f = t->feedback;
	size_t n = 0;
	int s;

	for (; *unit < f->met.n && n < most; ++*unit) {
		if (!holds(t, *unit, f->states))
			continue;
		keys[n++] = f->met.key[*unit];
		for (s = 0; s < f->states; s++, states += t->width)
			memcpy(states, f->state + (uint64_t)s * f->all + (size_t)*unit * t->width,
			       t->width * sizeof(*states));
	}
	return n;
}

uint64_t tt_ps_feedback_count(const struct tutti_ps_table *t)
{
	uint64_t n = 0;
	uint32_t unit;

	for (unit = 0; unit < t->feedback->met.n; unit++)
		n += holds(t, unit, t->feedback->states);
	return n;
}

int tt_ps_residuals_add_row(const struct tutti_ps_table *t, struct tt_ps_residuals *r, uint64_t key,
			    const float *state)
{
	uint64_t all = t->count * t->width;
	uint32_t unit;
	int s, err = tt_ps_row_units_find(t, &r->met, key, &unit);

	for (s = 0; s < tt_codec_states(t->coder) && !err; s++)
		add(r->state + (uint64_t)s * all + (size_t)unit * t->width,
		    state + (size_t)s * t->width, t->width);
	return err;
}

void tt_ps_feedback_keep_rows(const struct tutti_ps_table *from, struct tutti_ps_table *to)
{
	const struct tt_ps_feedback *f = from->feedback;
	struct tt_ps_feedback *g = to->feedback;
	size_t w = to->width;
	uint32_t unit;
	int s;

	for (unit = 0; unit < f->met.n; unit++) {
		uint64_t key = f->met.key[unit];

		if (tt_ps_feedback_meet(to, key)) {
			tt_err("what is held back of a row is lost: %s", tt_fail_text(-ENOMEM));
			continue;
		}
		for (s = 0; s < g->states; s++)
			add(place_of(to, g->state + (uint64_t)s * g->all, key),
			    f->state + (uint64_t)s * f->all + (size_t)unit * w, w);
		if (g->seen)
			memcpy(place_of(to, g->seen, key), f->seen + (size_t)unit * w,
			       w * sizeof(float));
	}
}

int tt_ps_flush_rows(struct tutti_ps_table *t, const char *call)
{
	struct tt_wire *wire = t->ps->comm->ctx->wire;
	uint64_t *keys = NULL;
	size_t n = 0;
	int err;

	tt_wire_lock(wire);
	err = tt_ps_feedback_list(t, &keys, NULL, &n);
	tt_wire_unlock(wire);
	if (!err && n)
		err = tt_ps_push_rows_held(t, keys, n, call);
	free(keys);
	return err;
}
