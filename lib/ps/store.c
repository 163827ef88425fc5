/* SPDX-License-Identifier: BSD-3-Clause */
/* A server's values: kept apart from what workers read, changed by the server's thread only. */
#include "lib/ps/store.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/clock.h"

enum { DIRTY = 1, FRESH = 2, PASS = 4 };

void tt_ps_mark(struct tt_ps_store *s, struct tt_ps_blocks *list, uint64_t block)
{
	if (s->flags[block] & list->flag)
		return;
	s->flags[block] |= list->flag;
	list->block[list->n++] = (uint32_t)block;
}

static void mark_range(struct tt_ps_store *s, struct tt_ps_blocks *list, uint64_t first,
		       uint64_t count)
{
	uint64_t b, last = (first + count - 1) / s->t->block_elems;

	for (b = first / s->t->block_elems; b <= last; b++)
		tt_ps_mark(s, list, b);
}

static int new_lists(struct tt_ps_store *s)
{
	size_t n = (size_t)s->part->blocks + 1;

	s->retired = calloc(n * TT_PS_COPIES, sizeof(uint64_t));
	s->flags = calloc(n, 1);
	s->dirty = (struct tt_ps_blocks){.block = malloc(n * sizeof(uint32_t)), .flag = DIRTY};
	s->fresh = (struct tt_ps_blocks){.block = malloc(n * sizeof(uint32_t)), .flag = FRESH};
	s->pass = (struct tt_ps_blocks){.block = malloc(n * sizeof(uint32_t)), .flag = PASS};
	s->told = calloc((size_t)s->t->ps->nworkers, sizeof(*s->told));
	if (!s->retired || !s->flags || !s->dirty.block || !s->fresh.block || !s->pass.block ||
	    !s->told)
		return -ENOMEM;
	return 0;
}

static int new_rows(struct tt_ps_store *s)
{
	s->key = calloc((size_t)tt_ps_units(s) + 1, sizeof(uint64_t));
	s->shown = calloc((size_t)s->part->blocks + 1, sizeof(uint32_t));
	if (!s->key || !s->shown)
		return -ENOMEM;
	if (tt_ps_rows_late(s->t)) {
		s->known = calloc((size_t)tt_ps_units(s) / 64 + 1, sizeof(uint64_t));
		if (!s->known)
			return -ENOMEM;
	}
	return tt_ps_keys_new(&s->keys);
}

/* calloc: pages that are never used cost nothing. */
static int new_values(struct tt_ps_store *s)
{
	struct tutti_ps_table *t = s->t;
	size_t n = (size_t)s->part->elems + 1;
	int i;

	s->values = calloc(n, t->elem);
	s->steps = calloc((size_t)(t->rows ? tt_ps_units(s) : s->part->blocks) + 1, sizeof(uint32_t));
	if (!s->values || !s->steps)
		return -ENOMEM;
	for (i = 0; i < tt_ps_rule_states(t->opt.rule); i++) {
		s->state[i] = calloc(n, tt_ps_state_size(t->datatype));
		if (!s->state[i])
			return -ENOMEM;
	}
	if (t->opt.combine == TUTTI_PS_EACH)
		return 0;
	s->sums = calloc(n, t->elem);
	s->touched = calloc((size_t)tt_ps_units(s) / 64 + 2, sizeof(uint64_t));
	return s->sums && s->touched ? 0 : -ENOMEM;
}

static void fill_dense(struct tt_ps_store *s)
{
	struct tutti_ps_table *t = s->t;
	uint64_t b, at, n, when;

	for (b = 0; b < s->part->blocks; b++) {
		at = b * t->block_elems;
		n = s->part->elems - at < t->block_elems ? s->part->elems - at : t->block_elems;
		tt_ps_fill(t, s->values + at * t->elem, s->part->begin + at, n);
		if (!s->copy)
			tt_ps_publish(s, b, 1, 0, false, &when);
	}
	s->is_set = true;
}

int tt_ps_store_new(struct tutti_ps_table *t, int copy)
{
	struct tt_ps_store *s = calloc(1, sizeof(*s));
	int err;

	if (!s)
		return tt_fail(-ENOMEM, "no memory for table '%s'", t->name);
	t->store[copy] = s;
	s->t = t;
	s->copy = (uint64_t)copy;
	s->server = (t->ps->my_server - copy + t->ps->nservers) % t->ps->nservers;
	s->mem = t->mem + tt_ps_base_at(t, s->server, copy);
	s->part = &t->part[s->server];
	err = new_lists(s);
	if (!err)
		err = new_values(s);
	if (!err && t->rows)
		err = new_rows(s);
	if (err)
		return tt_fail(-ENOMEM, "no memory for %llu elements of table '%s'",
			       (unsigned long long)s->part->elems, t->name);
	if (!t->rows && t->opt.init != TUTTI_PS_UNSET)
		fill_dense(s);
	return 0;
}

void tt_ps_store_free(struct tt_ps_store *s)
{
	if (!s)
		return;
	tt_ps_kept_free(s);
	tt_ps_keys_free(s->keys);
	free(s->key);
	free(s->shown);
	free(s->known);
	free(s->retired);
	free(s->flags);
	free(s->dirty.block);
	free(s->fresh.block);
	free(s->pass.block);
	free(s->told);
	free(s->values);
	free(s->steps);
	free(s->state[0]);
	free(s->state[1]);
	free(s->sums);
	free(s->touched);
	free(s);
}

/* ---- messages ---- */

static bool in_part(const struct tt_ps_store *s, const struct tt_ps_msg *m)
{
	return m->count && m->first <= s->part->elems && m->count <= s->part->elems - m->first &&
	       m->len == (uint64_t)m->count * s->t->elem;
}

int tt_ps_store_set(struct tt_ps_store *s, const struct tt_ps_msg *m, const char *payload)
{
	uint64_t b, last;

	if (s->t->rows || !in_part(s, m))
		return -EPROTO;
	memcpy(s->values + m->first * s->t->elem, payload, m->len);
	last = (m->first + m->count - 1) / s->t->block_elems;
	for (b = m->first / s->t->block_elems; b <= last; b++)
		tt_ps_mark(s, atomic_load(tt_ps_dir(s, b)) ? &s->dirty : &s->fresh, b);
	s->is_set = true;
	return 0;
}

/* Elements of one block, or one row. */
static void apply(struct tt_ps_store *s, uint64_t first, size_t count, const char *update)
{
	struct tutti_ps_table *t = s->t;
	size_t size = tt_ps_state_size(t->datatype);
	uint64_t unit = first / (t->rows ? t->width : t->block_elems);

	s->steps[unit]++;
	tt_ps_apply(t, s->values + first * t->elem, update,
		    s->state[0] ? (char *)s->state[0] + first * size : NULL,
		    s->state[1] ? (char *)s->state[1] + first * size : NULL, count, s->steps[unit]);
}

/* The end of the run of equal bits that begins at `at`. */
static uint64_t run_end(const uint64_t *bits, uint64_t at, uint64_t end)
{
	bool value = bits[at / 64] >> at % 64 & 1;
	uint64_t whole = value ? UINT64_MAX : 0;

	while (at < end) {
		if (at % 64 == 0 && bits[at / 64] == whole)
			at += 64;
		else if ((bits[at / 64] >> at % 64 & 1) == value)
			at++;
		else
			break;
	}
	return at < end ? at : end;
}

static void set_bits(uint64_t *bits, uint64_t at, uint64_t end)
{
	for (; at < end; at++)
		if (at % 64 == 0 && end - at >= 64) {
			bits[at / 64] = UINT64_MAX;
			at += 63;
		} else {
			bits[at / 64] |= 1ull << at % 64;
		}
}

/* Units, that is, elements or rows: the first update of a clock is taken, others are added. */
static void add_up(struct tt_ps_store *s, uint64_t unit, uint64_t units, const char *update)
{
	struct tutti_ps_table *t = s->t;
	uint64_t at, end, last = unit + units;
	size_t pitch = t->width * t->elem;

	for (at = unit; at < last; at = end) {
		char *sum = s->sums + at * pitch;
		const void *both[] = {sum, update + (at - unit) * pitch};
		void *to = sum;

		end = run_end(s->touched, at, last);
		if (s->touched[at / 64] >> at % 64 & 1)
			tt_reduce_multi(&to, 1, both, 2, (end - at) * t->width, t->datatype,
					TUTTI_SUM, 0, 0);
		else
			memcpy(sum, update + (at - unit) * pitch, (end - at) * pitch);
	}
	set_bits(s->touched, unit, last);
	s->added = true;
}

static void combine_run(struct tt_ps_store *s, uint64_t unit, uint64_t end, int workers)
{
	struct tutti_ps_table *t = s->t;
	uint64_t first, next;
	const void *sum;
	void *to;

	for (first = unit * t->width; first < end * t->width; first = next) {
		next = t->rows ? first + t->width : (first / t->block_elems + 1) * t->block_elems;
		if (next > end * t->width)
			next = end * t->width;
		sum = to = s->sums + first * t->elem;
		if (t->opt.combine == TUTTI_PS_COMBINE_MEAN)
			tt_reduce_multi(&to, 1, &sum, 1, next - first, t->datatype, TUTTI_SUM,
					workers, 0);
		apply(s, first, next - first, to);
		tt_ps_mark(s, &s->dirty, first / t->block_elems);
	}
}

void tt_ps_store_combine(struct tt_ps_store *s, int workers)
{
	uint64_t at, end, last = tt_ps_units(s);

	if (!s->touched)
		return;
	for (at = 0; at < last; at = end) {
		end = run_end(s->touched, at, last);
		if (s->touched[at / 64] >> at % 64 & 1)
			combine_run(s, at, end, workers);
	}
	memset(s->touched, 0, (size_t)(last / 64 + 1) * sizeof(uint64_t));
	s->added = false;
}

int tt_ps_store_push(struct tt_ps_store *s, const struct tt_ps_msg *m, const char *payload)
{
	if (s->t->rows || !in_part(s, m) ||
	    m->first / s->t->block_elems != (m->first + m->count - 1) / s->t->block_elems)
		return -EPROTO;
	if (!s->is_set)
		return -ENODATA;
	if (s->sums) {
		add_up(s, m->first, m->count, payload);
		return 0;
	}
	apply(s, m->first, m->count, payload);
	mark_range(s, &s->dirty, m->first, m->count);
	return 0;
}

int tt_ps_store_push_rows(struct tt_ps_store *s, const struct tt_ps_msg *m, const char *payload)
{
	struct tutti_ps_table *t = s->t;
	size_t head = ((size_t)m->count * sizeof(uint32_t) + 7) / 8 * 8, row = t->width * t->elem;
	const uint32_t *place = (const uint32_t *)(const void *)payload;
	uint32_t i;

	if (!t->rows || m->len != head + m->count * row)
		return -EPROTO;
	for (i = 0; i < m->count; i++)
		if (place[i] >= s->nrows)
			return -EPROTO;
	for (i = 0; i < m->count; i++) {
		if (s->sums) {
			add_up(s, place[i], 1, payload + head + i * row);
			continue;
		}
		apply(s, (uint64_t)place[i] * t->width, t->width, payload + head + i * row);
		tt_ps_mark(s, &s->dirty, (uint64_t)place[i] * t->width / t->block_elems);
	}
	return 0;
}

static int add_row(struct tt_ps_store *s, uint64_t key, uint32_t *place)
{
	struct tutti_ps_table *t = s->t;
	int err;

	if (s->nrows == tt_ps_units(s))
		return -ENOSPC;
	err = tt_ps_keys_add(s->keys, key, s->nrows);
	if (err)
		return err;
	*place = s->nrows++;
	s->key[*place] = key;
	tt_ps_fill(t, s->values + (size_t)*place * t->width * t->elem, key, t->width);
	return 0;
}

/* Whether the row is in no publication yet; then its block is to be published, again if it is about to be. */
static bool unseen(struct tt_ps_store *s, uint32_t place)
{
	struct tutti_ps_table *t = s->t;
	uint64_t per_block = t->block_elems / t->width, block = place / per_block;

	if (place % per_block < s->shown[block])
		return false;
	tt_ps_mark(s, t->ps->staleness ? &s->dirty : &s->fresh, block);
	return true;
}

int tt_ps_store_lookup(struct tt_ps_store *s, const struct tt_ps_msg *m, const char *payload,
		       uint32_t *places, bool *wait)
{
	const uint64_t *key = (const uint64_t *)(const void *)payload;
	uint32_t i;
	int err;

	if (!s->t->rows || m->count > TT_PS_KEYS || m->len != m->count * sizeof(*key))
		return -EPROTO;
	for (i = 0; i < m->count; i++) {
		places[i] = tt_ps_keys_find(s->keys, key[i]);
		err = places[i] == TT_PS_NOWHERE && m->first ? add_row(s, key[i], &places[i]) : 0;
		if (err)
			return err;
		if (places[i] == TT_PS_NOWHERE)
			continue;
		if (!tt_ps_knows(s, places[i])) {
			places[i] = m->first ? places[i] | TT_PS_UNSEEN : TT_PS_NOWHERE;
		} else if (unseen(s, places[i])) {
			places[i] |= TT_PS_UNSEEN;
			*wait = true;
		}
	}
	return 0;
}
