/* SPDX-License-Identifier: BSD-3-Clause */
/* A server's values: kept apart from what workers read, changed by the server's thread only. */
#include "lib/ps/essp/essp.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/copy.h"
#include "lib/ps/worker/accumulate.h"
#include "lib/topo/topo.h"

#define SHARED 16384  /* bytes of an update above which a thread pool shares it */
#define LINE_ELEMS 64 /* one thread takes neighbours */

enum { DIRTY = 1, FRESH = 2, PASS = 4 };

void tt_ps_mark(struct tt_ps_store *s, struct tt_ps_blocks *list, uint64_t block)
{
	if (s->flags[block] & list->flag)
		return;
	s->flags[block] |= list->flag;
	list->block[list->n++] = (uint32_t)block;
}

static int new_lists(struct tt_ps_store *s)
{
	size_t n = (size_t)s->part->blocks + 1;

	s->retired = calloc(n * TT_PS_BLOCK_SLOTS, sizeof(uint64_t));
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
	return 0;
}

/* Bytes that new_values allocates for values and the rule's state. */
static uint64_t values_size(const struct tt_ps_store *s)
{
	const struct tutti_ps_table *t = s->t;
	uint64_t states = (uint64_t)tt_rule_states(t->opt.rule) * tt_ps_state_size(t->datatype);
	uint64_t sums = t->opt.softsync || t->opt.combine ? t->elem : 0;

	return s->part->elems * (t->elem + states + sums);
}

/* calloc: unused pages cost nothing. A dense table uses all pages, so they must be there. */
static int new_values(struct tt_ps_store *s)
{
	struct tutti_ps_table *t = s->t;
	size_t n = (size_t)s->part->elems + 1;
	int i;

	if (!t->rows && values_size(s) > tt_topo_memory_available())
		return -ENOMEM;
	s->values = calloc(n, t->elem);
	s->steps =
		calloc((size_t)(t->rows ? tt_ps_units(s) : s->part->blocks) + 1, sizeof(uint32_t));
	if (!s->values || !s->steps)
		return -ENOMEM;
	for (i = 0; i < tt_rule_states(t->opt.rule); i++) {
		s->state[i] = calloc(n, tt_ps_state_size(t->datatype));
		if (!s->state[i])
			return -ENOMEM;
	}
	return 0;
}

static int new_sums(struct tt_ps_store *s)
{
	struct tutti_ps_table *t = s->t;
	size_t units = (size_t)(t->rows ? tt_ps_units(s) : s->part->blocks) + 1, most;

	if (t->opt.staleness_aware) {
		most = t->rows ? t->width * (size_t)(t->opt.threads > 1 ? t->opt.threads : 1)
			       : t->block_elems;

		s->scaled = malloc(most * t->elem);
		if (!s->scaled)
			return -ENOMEM;
	}
	if (t->coder) {
		most = t->coded_rows * t->width;
		most = most > t->block_elems ? most : t->block_elems;
		s->decoded = malloc(most * sizeof(*s->decoded));
		if (!s->decoded)
			return -ENOMEM;
	}
	if (t->opt.softsync) {
		s->group = calloc(units, sizeof(*s->group));
		if (!s->group)
			return -ENOMEM;
		tt_ps_store_regroup(s, t->ps->nworkers);
	}
	return t->opt.softsync || t->opt.combine ? tt_ps_sum_new(t, tt_ps_units(s), &s->sum) : 0;
}

static void fill_dense(struct tt_ps_store *s)
{
	struct tutti_ps_table *t = s->t;
	uint64_t b, at, n;

	for (b = 0; b < s->part->blocks; b++) {
		at = b * t->block_elems;
		n = s->part->elems - at < t->block_elems ? s->part->elems - at : t->block_elems;
		tt_ps_fill(t, s->values + at * t->elem, s->part->begin + at, n);
		if (!s->copy || !t->ps->staleness)
			tt_ps_publish(s, b, tt_ps_first(s->copy) + 1, 0, false, NULL);
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
	if (!err)
		err = new_sums(s);
	if (!err && t->opt.essp)
		err = tt_ps_sub_new(s);
	if (!err && t->rows)
		err = new_rows(s);
	if (!err && t->opt.threads > 1)
		err = tt_ps_pool_new(t->opt.threads, &s->pool);
	if (err)
		return tt_ps_no_memory(t, values_size(s), 0);
	if (!t->rows && t->opt.init != TUTTI_PS_UNSET && !t->ps->inherits)
		fill_dense(s);
	return 0;
}

void tt_ps_store_free(struct tt_ps_store *s)
{
	if (!s)
		return;
	tt_ps_pool_free(s->pool);
	tt_ps_sub_free(s);
	tt_ps_pending_free(s);
	tt_map_free(&s->keys);
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
	tt_ps_sum_free(&s->sum);
	free(s->group);
	free(s->scaled);
	free(s->decoded);
	free(s);
}

/* ---- messages ---- */

static bool in_part(const struct tt_ps_store *s, const struct tt_ps_msg *m)
{
	return m->count && m->first <= s->part->elems && m->count <= s->part->elems - m->first;
}

static bool plain(const struct tt_ps_store *s, const struct tt_ps_msg *m)
{
	return in_part(s, m) && m->len == (uint64_t)m->count * s->t->elem;
}

int tt_ps_store_set(struct tt_ps_store *s, const struct tt_ps_msg *m, const char *payload)
{
	uint64_t b, last;

	if (s->t->rows || !plain(s, m))
		return -EPROTO;
	tt_copy_data(s->values + m->first * s->t->elem, payload, m->len);
	last = (m->first + m->count - 1) / s->t->block_elems;
	for (b = m->first / s->t->block_elems; b <= last; b++)
		tt_ps_mark(s, atomic_load(tt_ps_dir(s, b)) ? &s->dirty : &s->fresh, b);
	s->is_set = true;
	return 0;
}

/* The unit that counts its own steps: a block of a dense table, or a row. */
static uint64_t unit_of(const struct tt_ps_store *s, uint64_t first)
{
	return first / (s->t->rows ? s->t->width : s->t->block_elems);
}

static void apply_at(const struct tt_ps_store *s, uint64_t first, size_t count, const char *update,
		     uint32_t step)
{
	struct tutti_ps_table *t = s->t;
	size_t size = tt_ps_state_size(t->datatype);

	tt_ps_apply(t, s->values + first * t->elem, update,
		    s->state[0] ? (char *)s->state[0] + first * size : NULL,
		    s->state[1] ? (char *)s->state[1] + first * size : NULL, count, step);
}

/* How many versions ago the pulled one was; TT_PS_NOWHERE (never pulled) counts as 0. */
static uint32_t tau_of(const struct tt_ps_store *s, uint64_t unit, uint32_t version)
{
	return version < s->steps[unit] ? s->steps[unit] - version : 0;
}

/* Weight an update computed from values tau versions old by 1 / tau; in this thread of the pool. */
static const char *scale(const struct tt_ps_store *s, const char *update, size_t count,
			 uint32_t tau, int thread)
{
	const void *from = update;
	void *to;

	if (!s->scaled || tau <= 1)
		return update;
	to = s->scaled + (size_t)thread * count * s->t->elem;
	tt_reduce_multi(&to, 1, &from, 1, count, s->t->datatype, TUTTI_SUM, (int)tau, 0);
	return to;
}

/* Shared by the threads of a pool. */
struct shared {
	const struct tt_ps_store *s;
	uint64_t first; /* a range of elements, of this step */
	size_t count;
	uint32_t step;
	const uint32_t *place, *version; /* or as many rows */
	const char *update;
	_Atomic uint64_t tau;
};

static void apply_range(void *arg, int i, int n)
{
	const struct shared *sh = arg;
	size_t per = (sh->count / (size_t)n + LINE_ELEMS) / LINE_ELEMS * LINE_ELEMS;
	size_t from = (size_t)i * per;

	if (from < sh->count)
		apply_at(sh->s, sh->first + from, sh->count - from < per ? sh->count - from : per,
			 sh->update + from * sh->s->t->elem, sh->step);
}

/* Each row belongs to one thread, so its updates keep their order. */
static void apply_rows(void *arg, int i, int n)
{
	struct shared *sh = arg;
	const struct tutti_ps_table *t = sh->s->t;
	size_t row = t->width * t->elem, j;
	uint64_t sum = 0;
	uint32_t place, tau;

	for (j = 0; j < sh->count; j++) {
		place = sh->place[j];
		if (place / LINE_ELEMS % (uint32_t)n != (uint32_t)i)
			continue;
		tau = sh->version ? tau_of(sh->s, place, sh->version[j]) : 0;
		sum += tau;
		apply_at(sh->s, (uint64_t)place * t->width, t->width,
			 scale(sh->s, sh->update + j * row, t->width, tau, i),
			 ++sh->s->steps[place]);
	}
	atomic_fetch_add(&sh->tau, sum);
}

/* Elements of one block, or one row. */
static void apply(struct tt_ps_store *s, uint64_t first, size_t count, const char *update)
{
	uint32_t step = ++s->steps[unit_of(s, first)];
	struct shared sh = {.s = s, .first = first, .count = count, .step = step, .update = update};

	if (s->pool && count * s->t->elem >= SHARED)
		tt_ps_pool_run(s->pool, apply_range, &sh);
	else
		apply_at(s, first, count, update, step);
}

/*
 * Apply the sum of a run of elements, at most a block, or of one row; divide it first if need be.
 */
static void apply_sum(struct tt_ps_store *s, uint64_t first, uint64_t count, int divide)
{
	struct tutti_ps_table *t = s->t;
	void *to = s->sum.sums + first * t->elem;
	const void *sum = to;

	if (divide > 1)
		tt_reduce_multi(&to, 1, &sum, 1, count, t->datatype, TUTTI_SUM, divide, 0);
	apply(s, first, count, to);
	tt_ps_mark(s, &s->dirty, first / t->block_elems);
}

/* Apply all sums of units from to end. */
static void apply_sums(struct tt_ps_store *s, uint64_t from, uint64_t end, int divide)
{
	struct tutti_ps_table *t = s->t;
	uint64_t to, first, next;

	for (; tt_ps_sum_next(&s->sum, &from, &to, end); from = to) {
		for (first = from * t->width; first < to * t->width; first = next) {
			next = t->rows ? first + t->width
				       : (first / t->block_elems + 1) * t->block_elems;
			if (next > to * t->width)
				next = to * t->width;
			apply_sum(s, first, next - first, divide);
		}
		tt_ps_sum_clear(&s->sum, from, to);
	}
}

void tt_ps_store_combine(struct tt_ps_store *s, int workers)
{
	s->added = false;
	if (s->sum.sums && !s->group)
		apply_sums(s, 0, tt_ps_units(s),
			   s->t->opt.combine == TUTTI_PS_COMBINE_MEAN ? workers : 0);
}

/* ---- n-softsync: the mean of the updates of a group, by block or by row ---- */

static void apply_group(struct tt_ps_store *s, uint64_t group)
{
	uint64_t per = s->t->rows ? 1 : s->t->block_elems, end = (group + 1) * per;

	apply_sums(s, group * per, end < tt_ps_units(s) ? end : tt_ps_units(s),
		   (int)s->group[group]);
	s->group[group] = 0;
}

void tt_ps_store_regroup(struct tt_ps_store *s, int workers)
{
	uint64_t i, n = s->t->rows ? s->nrows : s->part->blocks;
	int size = s->group ? workers / s->t->opt.softsync : 0;

	if (!s->group)
		return;
	s->group_size = size > 1 ? (uint32_t)size : 1;
	for (i = 0; i < n; i++)
		if (s->group[i] && (s->group[i] >= s->group_size || !workers))
			apply_group(s, i);
}

void tt_ps_store_settle(struct tt_ps_store *s)
{
	uint32_t size = s->group_size;

	tt_ps_store_regroup(s, 0);
	s->group_size = size;
}

void tt_ps_store_forget(struct tt_ps_store *s)
{
	if (s->sum.sums)
		tt_ps_sum_clear(&s->sum, 0, tt_ps_units(s));
	if (s->group)
		memset(s->group, 0,
		       (size_t)(s->t->rows ? tt_ps_units(s) : s->part->blocks) * sizeof(*s->group));
	s->added = false;
}

/* Take an update of at most a block, or of one row. */
static void take(struct tt_ps_store *s, uint64_t first, size_t count, const char *update,
		 struct tt_ps_done *done)
{
	struct tutti_ps_table *t = s->t;
	uint64_t unit = unit_of(s, first);

	done->applied = !s->sum.sums;
	if (!s->sum.sums) {
		apply(s, first, count, update);
		tt_ps_mark(s, &s->dirty, first / t->block_elems);
		return;
	}
	s->added = true;
	tt_ps_sum_add(t, &s->sum, first / t->width, count / t->width, update);
	if (s->group && ++s->group[unit] >= s->group_size) {
		apply_group(s, unit);
		done->applied = true;
	}
}

static bool in_block(const struct tt_ps_store *s, const struct tt_ps_msg *m)
{
	return !s->t->rows && in_part(s, m) &&
	       m->first / s->t->block_elems == (m->first + m->count - 1) / s->t->block_elems;
}

static void push_block(struct tt_ps_store *s, const struct tt_ps_msg *m, const char *update,
		       struct tt_ps_done *done)
{
	uint32_t tau = tau_of(s, m->first / s->t->block_elems, m->version);

	done->tau = tau;
	take(s, m->first, m->count, scale(s, update, m->count, tau, 0), done);
}

int tt_ps_store_push(struct tt_ps_store *s, const struct tt_ps_msg *m, const char *payload,
		     struct tt_ps_done *done)
{
	if (!in_block(s, m) || !plain(s, m))
		return -EPROTO;
	if (!s->is_set)
		return -ENODATA;
	push_block(s, m, payload, done);
	return 0;
}

int tt_ps_store_push_same(struct tt_ps_store *s, const struct tt_ps_msg *m, const char *payload,
			  struct tt_ps_done *done)
{
	uint32_t step;

	if (!in_block(s, m) || !plain(s, m) || s->sum.sums || s->scaled)
		return -EPROTO;
	if (!s->is_set)
		return -ENODATA;
	step = s->steps[m->first / s->t->block_elems];
	if (m->version == step)
		push_block(s, m, payload, done);
	else
		done->tau = m->version < step ? step - m->version : 1;
	return 0;
}

static int push_coded_block(struct tt_ps_store *s, const struct tt_ps_msg *m, const char *payload,
			    struct tt_ps_done *done)
{
	int err;

	if (!s->decoded || !in_block(s, m))
		return -EPROTO;
	if (!s->is_set)
		return -ENODATA;
	err = tt_codec_decode(s->t->coder, payload, m->len, 0, m->count, s->decoded);
	if (!err)
		push_block(s, m, (const char *)s->decoded, done);
	return err;
}

/* update: the rows, which may be elsewhere than behind their places. */
static int push_rows(struct tt_ps_store *s, const struct tt_ps_msg *m, const char *payload,
		     const char *update, struct tt_ps_done *done)
{
	struct tutti_ps_table *t = s->t;
	size_t row = t->width * t->elem;
	const uint32_t *place = (const uint32_t *)(const void *)payload;
	const uint32_t *version = tt_ps_row_versions(t) ? place + m->count : NULL;
	bool any = false;
	uint32_t i, tau;

	for (i = 0; i < m->count; i++)
		if (place[i] >= s->nrows)
			return -EPROTO;
	if (s->pool && !s->sum.sums && m->count * row >= SHARED) {
		struct shared sh = {.s = s,
				    .place = place,
				    .version = version,
				    .count = m->count,
				    .update = update};

		for (i = 0; i < m->count; i++)
			tt_ps_mark(s, &s->dirty, (uint64_t)place[i] * t->width / t->block_elems);
		tt_ps_pool_run(s->pool, apply_rows, &sh);
		done->tau = sh.tau;
		done->applied = true;
		return 0;
	}
	for (i = 0; i < m->count; i++) {
		tau = version ? tau_of(s, place[i], version[i]) : 0;
		done->tau += tau;
		take(s, (uint64_t)place[i] * t->width, t->width,
		     scale(s, update + i * row, t->width, tau, 0), done);
		any = any || done->applied;
	}
	for (i = 0; any && s->group && i < m->count;
	     i++) /* its answer names a publication that contains all of its blocks */
		tt_ps_mark(s, &s->dirty, (uint64_t)place[i] * t->width / t->block_elems);
	done->applied = any;
	return 0;
}

int tt_ps_store_push_rows(struct tt_ps_store *s, const struct tt_ps_msg *m, const char *payload,
			  struct tt_ps_done *done)
{
	size_t head = tt_ps_rows_head(s->t, m->count);

	if (!s->t->rows || m->len != head + m->count * s->t->width * s->t->elem)
		return -EPROTO;
	return push_rows(s, m, payload, payload + head, done);
}

static int push_coded_rows(struct tt_ps_store *s, const struct tt_ps_msg *m, const char *payload,
			   struct tt_ps_done *done)
{
	size_t head = tt_ps_rows_head(s->t, m->count);
	int err;

	if (!s->decoded || !m->count || m->count > s->t->coded_rows || m->len < head)
		return -EPROTO;
	err = tt_codec_decode(s->t->coder, payload + head, m->len - head, 0, m->count * s->t->width,
			      s->decoded);
	return err ? err : push_rows(s, m, payload, (const char *)s->decoded, done);
}

int tt_ps_store_push_coded(struct tt_ps_store *s, const struct tt_ps_msg *m, const char *payload,
			   struct tt_ps_done *done)
{
	return s->t->rows ? push_coded_rows(s, m, payload, done)
			  : push_coded_block(s, m, payload, done);
}

static int add_row(struct tt_ps_store *s, uint64_t key, uint32_t *place)
{
	struct tutti_ps_table *t = s->t;
	int err;

	if (s->nrows == tt_ps_units(s))
		return -ENOSPC;
	err = tt_map_set(&s->keys, key, s->nrows);
	if (err)
		return err;
	*place = s->nrows++;
	s->key[*place] = key;
	tt_ps_fill(t, s->values + (size_t)*place * t->width * t->elem, key, t->width);
	return 0;
}

/*
 * Whether the row is in no publication yet; if so its block is published, again if a publication is
 * about to start.
 */
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
		places[i] = tt_ps_key_place(&s->keys, key[i]);
		err = places[i] == TT_PS_NOWHERE && m->first ? add_row(s, key[i], &places[i]) : 0;
		if (err)
			return err;
		if (places[i] == TT_PS_NOWHERE)
			continue;
		if (!tt_ps_row_exists(s, places[i])) {
			places[i] = m->first ? places[i] | TT_PS_UNSEEN : TT_PS_NOWHERE;
		} else if (unseen(s, places[i])) {
			places[i] |= TT_PS_UNSEEN;
			*wait = true;
		}
	}
	return 0;
}
