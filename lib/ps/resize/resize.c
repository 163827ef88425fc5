/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Moves values when a parameter server goes on with other ranks. The old servers rest. For each old
 * server one rank, its first live replica, walks over the values and cuts them into pieces, each
 * for one new server: elements of one block, or rows. All replicas of a new server get the same
 * pieces in the same order, so a row has the same place in each. A piece says what it contains, so
 * receivers need not know how many old servers there were.
 *
 * As in a restore, data that arrives lies beside the (empty) values until all has arrived. The old
 * values stay unchanged until all ranks have agreed to go on.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/copy.h"
#include "lib/ps/resize/resize.h"
#include "lib/ps/server/server.h"

#define ROOM ((size_t)4 << 20) /* per round, for all servers */

/*
 * Followed by the elements' values and each state, each padded to 8 bytes; or by rows: key, steps,
 * values and states, likewise.
 */
struct piece {
	uint64_t first; /* index in the table */
	uint64_t steps; /* of the elements' block */
	uint64_t len;	/* bytes that follow */
	uint32_t table, count;
};

/* ---- layout ---- */

size_t tt_ps_layout_words(int nservers, uint64_t ntables)
{
	return (size_t)nservers * 2 + (size_t)ntables * ((size_t)nservers + 1);
}

void tt_ps_layout_set(struct tt_ps_layout *l)
{
	l->server = l->words;
	l->upto = (uint32_t *)(void *)(l->server + l->nservers);
	l->begin = l->server + 2 * (size_t)l->nservers;
}

void tt_ps_layout_get(const struct tutti_ps *ps, const int *rank_of, struct tt_ps_layout *l)
{
	uint64_t *begin;
	uint32_t i;
	int k;

	tt_ps_layout_set(l);
	for (k = 0; k < l->nservers; k++) {
		l->server[k] = (uint64_t)rank_of[ps->server[k]];
		l->upto[k] = ps->upto[k];
	}
	for (i = 0; i < ps->ntables; i++) {
		begin = l->begin + (size_t)i * ((size_t)l->nservers + 1);
		for (k = 0; k < l->nservers; k++)
			begin[k] = ps->table[i]->part[k].begin;
		begin[k] = ps->table[i]->rows ? 0 : ps->table[i]->count;
	}
}

/* The server that keeps an element; *end: where that server's range ends. */
static int server_at(const struct tt_ps_layout *l, uint32_t table, uint64_t at, uint64_t *end)
{
	const uint64_t *begin = l->begin + (size_t)table * ((size_t)l->nservers + 1);
	int lo = 0, hi = l->nservers - 1, mid;

	while (lo < hi) { /* the first server that ends beyond `at`; an empty server ends where it
			     begins */
		mid = (lo + hi) / 2;
		if (at < begin[mid + 1])
			hi = mid;
		else
			lo = mid + 1;
	}
	*end = begin[lo + 1];
	return lo;
}

static size_t pad(size_t n)
{
	return (n + 7) / 8 * 8;
}

static int states_of(const struct tutti_ps_table *t)
{
	return tt_rule_states(t->opt.rule);
}

static size_t row_stride(const struct tutti_ps_table *t)
{
	return 2 * sizeof(uint64_t) + pad(t->width * t->elem) +
	       (size_t)states_of(t) * pad(t->width * tt_ps_state_size(t->datatype));
}

static size_t dense_len(const struct tutti_ps_table *t, uint64_t n)
{
	return pad(n * t->elem) + (size_t)states_of(t) * pad(n * tt_ps_state_size(t->datatype));
}

/* A round has room for at least one row; the same on all ranks. */
static size_t room_for(const struct tt_ps_move *m)
{
	const struct tutti_ps *ps = m->old ? m->old : m->fresh;
	size_t room = ROOM / (size_t)m->to->nservers, need;
	uint32_t i;

	for (i = 0; i < m->to->ntables; i++) {
		const struct tutti_ps_table *t = ps->table[i];

		need = sizeof(struct piece) + (t->rows ? row_stride(t) : dense_len(t, 1));
		room = room > need ? room : need;
	}
	return pad(room);
}

int tt_ps_move_new(struct tt_ps_move *m)
{
	size_t n = (size_t)m->to->nservers;
	uint32_t i;
	int c, err;

	m->room = room_for(m);
	m->len = calloc(n, sizeof(*m->len));
	m->last = calloc(n, sizeof(*m->last));
	m->out = m->old ? malloc(n * m->room) : NULL;
	m->arrived = calloc((size_t)m->to->ntables * TT_PS_REPLICAS + 1, sizeof(*m->arrived));
	if (!m->len || !m->last || !m->arrived || (m->old && !m->out))
		return tt_fail(-ENOMEM, "no memory to move tables");
	for (i = 0; m->fresh && i < m->to->ntables; i++)
		for (c = 0; c < m->fresh->copies && m->fresh->table[i]->store[c]; c++) {
			err = tt_ps_pending_new(m->fresh->table[i]->store[c]);
			if (err)
				return err;
		}
	return 0;
}

void tt_ps_move_free(struct tt_ps_move *m)
{
	free(m->out);
	free(m->len);
	free(m->last);
	free(m->arrived);
}

/* ---- sending ---- */

static char *out_of(const struct tt_ps_move *m, int server)
{
	return m->out + (size_t)server * m->room;
}

static char *put(char *to, const void *from, size_t len)
{
	tt_copy_data(to, from, len);
	memset(to + len, 0, pad(len) - len);
	return to + pad(len);
}

/* The next elements of one block for one server; false: no room. */
static bool pack_elements(struct tt_ps_move *m, const struct tt_ps_store *s)
{
	const struct tutti_ps_table *t = s->t;
	size_t size = tt_ps_state_size(t->datatype), left;
	uint64_t first = s->part->begin + m->at, end, n = t->block_elems - m->at % t->block_elems;
	int k = server_at(m->to, m->table, first, &end), i;
	struct piece p = {
		.first = first, .steps = s->steps[m->at / t->block_elems], .table = m->table};
	char *to = out_of(m, k) + m->len[k];

	n = n < s->part->elems - m->at ? n : s->part->elems - m->at;
	n = n < end - first ? n : end - first;
	left = m->room - m->len[k];
	while (n && sizeof(p) + dense_len(t, n) > left)
		n /= 2;
	if (!n)
		return false;
	p.count = (uint32_t)n;
	p.len = dense_len(t, n);
	to = put(to, &p, sizeof(p));
	to = put(to, s->values + m->at * t->elem, n * t->elem);
	for (i = 0; i < states_of(t); i++)
		to = put(to, (char *)s->state[i] + m->at * size, n * size);
	m->len[k] += sizeof(p) + p.len;
	m->at += n;
	return true;
}

/* Rows of one table for one server form one piece. */
static char *begin_row(struct tt_ps_move *m, const struct tutti_ps_table *t, int k)
{
	struct piece fresh = {.table = m->table}, *p = (struct piece *)(void *)m->last[k];
	size_t stride = row_stride(t), need = stride;

	if (p && (p->table != m->table || (char *)(p + 1) + p->len != out_of(m, k) + m->len[k]))
		p = NULL; /* elements have been packed since */
	if (!p)
		need += sizeof(*p);
	if (m->room - m->len[k] < need)
		return NULL;
	if (!p) {
		m->last[k] = out_of(m, k) + m->len[k];
		put(m->last[k], &fresh, sizeof(fresh));
		m->len[k] += sizeof(fresh);
		p = (struct piece *)(void *)m->last[k];
	}
	p->count++;
	p->len += stride;
	m->len[k] += stride;
	return out_of(m, k) + m->len[k] - stride;
}

/* The next row. Skips a row that first appeared in a clock that has not ended. */
static bool pack_row(struct tt_ps_move *m, const struct tt_ps_store *s)
{
	const struct tutti_ps_table *t = s->t;
	size_t row = t->width * t->elem, size = t->width * tt_ps_state_size(t->datatype);
	uint64_t at = m->at, word[2] = {s->key[at], s->steps[at]};
	char *to;
	int i;

	if (!tt_ps_row_exists(s, at)) {
		m->at++;
		return true;
	}
	to = begin_row(m, t, tt_ps_key_server(m->to->upto, m->to->nservers, word[0]));
	if (!to)
		return false;
	to = put(to, word, sizeof(word));
	to = put(to, s->values + at * row, row);
	for (i = 0; i < states_of(t); i++)
		to = put(to, (char *)s->state[i] + at * size, size);
	m->at++;
	return true;
}

bool tt_ps_move_pack(struct tt_ps_move *m)
{
	const struct tt_ps_store *s;
	uint64_t n;

	memset(m->len, 0, (size_t)m->to->nservers * sizeof(*m->len));
	memset(m->last, 0, (size_t)m->to->nservers * sizeof(*m->last));
	for (; m->old && m->server < m->old->nservers; m->server++, m->table = 0) {
		if (m->copy[m->server] < 0)
			continue;
		for (; m->table < m->to->ntables; m->table++, m->at = 0) {
			s = m->old->table[m->table]->store[m->copy[m->server]];
			n = s->t->rows ? s->nrows : s->is_set ? s->part->elems : 0;
			while (m->at < n)
				if (!(s->t->rows ? pack_row(m, s) : pack_elements(m, s)))
					return true;
		}
	}
	return false;
}

/* ---- receiving ---- */

static int bad_piece(const struct tutti_ps_table *t)
{
	return tt_fail(-EPROTO, "table '%s': received a piece for another server",
		       t ? t->name : "?");
}

static int take_elements(struct tt_ps_store *s, const struct piece *p, const char *data)
{
	const struct tutti_ps_table *t = s->t;
	const struct tt_ps_part *part = s->part;
	size_t size = tt_ps_state_size(t->datatype);
	const char *from[3] = {data, data + pad(p->count * t->elem),
			       data + pad(p->count * t->elem) + pad(p->count * size)};

	if (p->first < part->begin || p->count > part->elems ||
	    p->first - part->begin > part->elems - p->count || p->len != dense_len(t, p->count))
		return bad_piece(t);
	tt_ps_pending_dense(s, p->first, p->count, from);
	tt_ps_pending_steps(s, p->first, p->first + p->count, p->steps);
	return 0;
}

static int take_rows(struct tt_ps_store *s, const struct piece *p, const char *data)
{
	const struct tutti_ps_table *t = s->t;
	size_t stride = row_stride(t), size = t->width * tt_ps_state_size(t->datatype);
	uint64_t word[2];
	uint32_t i;
	int err = 0;

	if (p->len != p->count * stride)
		return bad_piece(t);
	for (i = 0; i < p->count && !err; i++, data += stride) {
		const char *values = data + sizeof(word), *state = values + pad(t->width * t->elem);
		const char *from[3] = {values, state, state + pad(size)};

		memcpy(word, data, sizeof(word));
		err = tt_ps_server_of(t->ps, word[0]) == s->server
			      ? tt_ps_pending_row(s, word[0], word[1], from)
			      : bad_piece(t);
	}
	return err;
}

int tt_ps_move_unpack(struct tt_ps_move *m, int copy, const char *data, size_t len)
{
	struct tt_ps_store *s;
	struct piece p;
	int err = 0;

	for (; len && !err; data += p.len, len -= p.len) {
		if (len < sizeof(p))
			return bad_piece(NULL);
		memcpy(&p, data, sizeof(p));
		data += sizeof(p);
		len -= sizeof(p);
		if (p.table >= m->to->ntables || p.len > len || !m->fresh)
			return bad_piece(NULL);
		s = m->fresh->table[p.table]->store[copy];
		if (!s)
			return bad_piece(m->fresh->table[p.table]);
		err = s->t->rows ? take_rows(s, &p, data) : take_elements(s, &p, data);
		m->arrived[p.table * TT_PS_REPLICAS + (uint32_t)copy] += p.count;
	}
	return err;
}

/* No worker reads yet. Replicas publish under BSP only, see chain.c. */
static void publish_all(struct tt_ps_store *s, uint64_t min_clock)
{
	uint64_t i;

	if (s->copy && s->t->ps->staleness)
		return;
	for (i = 0; i < s->dirty.n; i++) {
		tt_ps_publish(s, s->dirty.block[i], tt_ps_first(s->copy) + 1, min_clock, false,
			      NULL);
		s->flags[s->dirty.block[i]] &= (uint8_t)~s->dirty.flag;
	}
	s->dirty.n = 0;
}

static int end_table(struct tt_ps_move *m, struct tt_ps_store *s, uint64_t min_clock)
{
	uint64_t arrived = m->arrived[s->t->index * TT_PS_REPLICAS + s->copy];

	if (!s->t->rows && arrived && arrived != s->part->elems)
		return tt_fail(-EPROTO, "table '%s': %llu of %llu elements arrived", s->t->name,
			       (unsigned long long)arrived, (unsigned long long)s->part->elems);
	if (!s->t->rows && arrived != s->part->elems) {
		tt_ps_pending_free(s); /* the store has no values yet */
		return 0;
	}
	tt_ps_pending_take(s);
	publish_all(s, min_clock);
	return 0;
}

int tt_ps_move_end(struct tt_ps_move *m, const uint64_t *clock, uint64_t min_clock)
{
	struct tutti_ps *ps = m->fresh;
	struct tt_ps_server *srv;
	int c, w, k, err = 0;
	uint32_t i;

	for (c = 0; c < ps->copies && ps->srv[c] && !err; c++) {
		srv = ps->srv[c];
		for (i = 0; i < ps->ntables && !err; i++)
			err = end_table(m, ps->table[i]->store[c], min_clock);
		for (w = 0; w < ps->nworkers; w++)
			srv->client[w].clock = clock[w];
		srv->min_clock = srv->published = srv->pass_min = min_clock;
	}
	for (k = 0; ps->link && k < ps->nservers; k++)
		ps->link[k].min_clock = min_clock;
	if (ps->my_worker >= 0)
		ps->clock = clock[ps->my_worker];
	return err;
}

/* ---- resting servers ---- */

void tt_ps_rest_wanted(struct tutti_ps *ps, bool wanted)
{
	struct tt_wire *wire = ps->comm->ctx->wire;

	tt_wire_lock(wire);
	atomic_store(&ps->calm, false);
	atomic_store(&ps->resting, wanted);
	if (ps->srv[0])
		atomic_store(&ps->srv[0]->stirred, true);
	tt_wire_wake(wire);
	tt_wire_unlock(wire);
}

uint64_t tt_ps_rest_clock(const struct tutti_ps *ps)
{
	uint64_t clock = 0;
	int c;

	for (c = 0; c < ps->copies && ps->srv[c]; c++)
		if (ps->srv[c]->min_clock > clock)
			clock = ps->srv[c]->min_clock;
	return clock;
}

bool tt_ps_rest_unended(const struct tutti_ps *ps)
{
	int c;

	for (c = 0; c < ps->copies && ps->srv[c]; c++)
		if (tt_ps_unended(ps->srv[c]))
			return true;
	return false;
}

void tt_ps_rest_settle(struct tutti_ps *ps)
{
	struct tt_ps_store *s;
	uint32_t i;
	int c;

	for (c = 0; c < ps->copies && ps->srv[c]; c++)
		for (i = 0; i < ps->ntables; i++) {
			s = ps->table[i]->store[c];
			tt_ps_store_settle(s);
			if (ps->staleness)
				continue;
			/* the last clock ends; with backup workers there is no resize */
			tt_ps_store_combine(s, ps->srv[c]->here);
			tt_ps_rows_begin(s, 0, s->nrows);
		}
}

/*
 * Whether every worker that takes no part in the resize has left: under BSP its leaving waits for
 * the end of a clock. Only the primary knows; other replicas return true.
 */
static bool only_present(const struct tt_ps_server *srv)
{
	const struct tutti_ps *ps = srv->ps;
	bool fine = true;
	int w;

	tt_wire_lock(ps->comm->ctx->wire);
	for (w = 0; w < ps->nworkers && srv->serves; w++) {
		const struct tt_ps_client *c = &srv->client[w];

		fine = fine && (c->gone || (c->dead ? c->buried : ps->present && ps->present[w]));
	}
	tt_wire_unlock(ps->comm->ctx->wire);
	return fine;
}

bool tt_ps_at_rest(struct tutti_ps *ps)
{
	int c;

	for (c = 0; c < ps->copies; c++) {
		const struct tt_ps_server *srv = ps->srv[c];

		if (!tt_ps_settled(srv) || (ps->copies > 1 && srv->acked != srv->order) ||
		    !only_present(srv))
			return false;
	}
	return true;
}

bool tt_ps_answered_all(const struct tutti_ps *ps)
{
	int k, j;

	for (k = 0; ps->link && k < ps->nservers; k++)
		for (j = 0; j < TT_PS_SLOTS; j++)
			if (ps->link[k].lost || ps->link[k].out[j].busy || ps->link[k].out[j].puts)
				return false;
	return true;
}
