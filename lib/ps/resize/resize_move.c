/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The rounds in which a resize moves data. resize.c decides what goes to which server; this file
 * carries it.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "lib/ps/resize/resize_run.h"
#include "lib/ps/worker/accumulate.h"

#define HELD_AT_ONCE 65536 /* elements */

/* Also on ranks that leave: they must know where to send. */
static int share_layout(struct tt_ps_resize *r)
{
	int i, root = r->rank_of[0], err;
	size_t words;

	for (i = 0; i < r->comm->size; i++)
		r->to.nservers += tt_ps_stays(&r->was[i]) && r->was[i].role & TUTTI_PS_SERVER;
	r->to.ntables = r->ntables;
	words = tt_ps_layout_words(r->to.nservers, r->ntables) + 1;
	r->to.words = calloc(words, sizeof(*r->to.words));
	err = tt_ps_resize_agree(r,
				 r->to.words ? 0 : tt_fail(-ENOMEM, "no memory for " TT_PS_RESIZE));
	if (err)
		return err;
	tt_ps_layout_set(&r->to);
	if (r->comm->rank == root) {
		tt_ps_layout_get(r->fresh, r->rank_of, &r->to);
		r->to.words[words - 1] = (uint64_t)r->fresh->copies;
	}
	err = tutti_bcast(r->to.words, words, TUTTI_UINT64, root, r->comm);
	r->to.copies = (int)r->to.words[words - 1];
	return err;
}

/* One round: bytes and offsets, by rank of comm. */
struct round {
	size_t *sends, *from, *takes, *to;
	uint64_t *said, *heard; /* bytes << 1 | another round follows */
	char *in;
	size_t room;
};

static void free_round(struct round *d)
{
	free(d->sends);
	free(d->said);
	free(d->in);
}

static int new_round(const struct tt_ps_resize *r, const struct tt_ps_move *m, struct round *d)
{
	size_t n = (size_t)r->comm->size;

	d->room = (size_t)r->first->nservers * m->room; /* at most this many ranks send */
	d->sends = calloc(4 * n, sizeof(*d->sends));
	d->said = calloc(2 * n, sizeof(*d->said));
	d->in = r->fresh && r->fresh->my_server >= 0 ? malloc(d->room) : NULL;
	if (!d->sends || !d->said || (r->fresh && r->fresh->my_server >= 0 && !d->in))
		return tt_fail(-ENOMEM, "no memory to move tables");
	d->from = d->sends + n;
	d->takes = d->from + n;
	d->to = d->takes + n;
	d->heard = d->said + n;
	return 0;
}

/*
 * Announce how many bytes this rank sends to replica `copy` of each new server, and learn how many
 * arrive. *more: another round follows.
 */
static int announce(struct tt_ps_resize *r, struct tt_ps_move *m, struct round *d, int copy,
		    bool left, bool *more)
{
	size_t n = (size_t)r->comm->size, i, at = 0;
	int k, err;

	memset(d->sends, 0, 2 * n * sizeof(*d->sends));
	for (k = 0; m->old && k < r->to.nservers; k++) {
		uint64_t to = r->to.server[(k + copy) % r->to.nservers];

		d->sends[to] = m->len[k];
		d->from[to] = (size_t)k * m->room;
	}
	for (i = 0; i < n; i++)
		d->said[i] = (uint64_t)d->sends[i] << 1 | left;
	err = tutti_alltoall(d->said, d->heard, 1, TUTTI_UINT64, r->comm);
	for (i = 0; i < n && !err; i++) {
		d->takes[i] = (size_t)(d->heard[i] >> 1);
		d->to[i] = at;
		at += d->takes[i];
		*more = *more || (d->heard[i] & 1);
	}
	return err || at <= (d->in ? d->room : 0)
		       ? err
		       : tt_fail(-EPROTO, "more data arrived than expected");
}

/* A rank with an error in *mine still takes part, and reports the error at the end. */
static int do_round(struct tt_ps_resize *r, struct tt_ps_move *m, struct round *d, bool *more,
		    int *mine)
{
	bool left = m->old && !*mine && tt_ps_move_pack(m);
	int c, i, err = 0;

	*more = false;
	if (*mine)
		memset(m->len, 0, (size_t)r->to.nservers * sizeof(*m->len));
	for (c = 0; c < r->to.copies && !err; c++) {
		err = announce(r, m, d, c, left, more);
		if (!err)
			err = tutti_alltoallv(m->out, d->sends, d->from, d->in, d->takes, d->to,
					      TUTTI_UINT8, r->comm);
		for (i = 0; i < r->comm->size && !err && !*mine; i++)
			if (d->takes[i])
				*mine = tt_ps_move_unpack(m, c, d->in + d->to[i], d->takes[i]);
	}
	return err;
}

static int run_rounds(struct tt_ps_resize *r, struct tt_ps_move *m)
{
	struct round d = {0};
	bool more = true;
	int err, mine = 0;

	err = tt_ps_move_new(m);
	if (!err)
		err = new_round(r, m, &d);
	err = tt_ps_resize_agree(r, err);
	while (!err && more)
		err = do_round(r, m, &d, &more, &mine);
	if (!err && !mine && r->fresh)
		mine = tt_ps_move_end(m, r->clock, r->min_clock);
	free_round(&d);
	return err ? err : tt_ps_resize_agree(r, mine);
}

/* ---- what workers that leave hold back ---- */

static bool was_worker(const struct tt_ps_was *w)
{
	return w->generation && w->worker;
}

static bool will_work(const struct tt_ps_was *w)
{
	return tt_ps_stays(w) && w->role & TUTTI_PS_WORKER;
}

/* The rank that takes it: a worker that stays, or else a new one; -1: none. */
static int find_heir(const struct tt_ps_resize *r)
{
	int i, fresh = -1;

	for (i = 0; i < r->comm->size; i++) {
		if (will_work(&r->was[i]) && was_worker(&r->was[i]))
			return i;
		if (will_work(&r->was[i]) && fresh < 0)
			fresh = i;
	}
	return fresh;
}

/* mine: of this rank, NULL: none; to: of the heir, to which everything is added. */
static int hand_over(struct tt_ps_resize *r, int heir, const float *mine, float *to, uint64_t count)
{
	float *zeros = calloc(HELD_AT_ONCE, sizeof(*zeros));
	uint64_t at, n;
	int err =
		tt_ps_resize_agree(r, zeros ? 0 : tt_fail(-ENOMEM, "no memory for " TT_PS_RESIZE));

	for (at = 0; !err && at < count; at += n) {
		n = count - at < HELD_AT_ONCE ? count - at : HELD_AT_ONCE;
		err = tutti_reduce(mine ? mine + at : zeros, to ? to + at : NULL, n, TUTTI_FLOAT32,
				   TUTTI_SUM, heir, r->comm);
	}
	free(zeros);
	return err;
}

/* Rows: the heir gets the keys too. */
struct rows {
	uint64_t *key, *keys, *n; /* of this rank; of the heir: all ranks' */
	float *row, *rows;
	size_t mine, all, *count, *at;
};

static void free_rows(struct rows *h)
{
	free(h->key);
	free(h->row);
	free(h->keys);
	free(h->rows);
	free(h->n);
	free(h->count);
}

static int get_rows(const struct tt_ps_resize *r, const struct tutti_ps_table *mine, struct rows *h)
{
	size_t n = (size_t)r->comm->size;

	h->n = calloc(n, sizeof(*h->n));
	h->count = calloc(2 * n, sizeof(*h->count));
	if (!h->n || !h->count)
		return tt_fail(-ENOMEM, "no memory for " TT_PS_RESIZE);
	h->at = h->count + n;
	return mine ? tt_ps_feedback_list(mine, &h->key, &h->row, &h->mine) : 0;
}

/* The heir knows how many rows each rank has. */
static int get_room(const struct tt_ps_resize *r, struct rows *h, size_t width)
{
	int i;

	for (i = 0; i < r->comm->size; i++) {
		h->count[i] = (size_t)h->n[i];
		h->at[i] = h->all;
		h->all += h->count[i];
	}
	h->keys = malloc((h->all + 1) * sizeof(*h->keys));
	h->rows = malloc((h->all * width + 1) * sizeof(*h->rows));
	return h->keys && h->rows ? 0 : tt_fail(-ENOMEM, "no memory for " TT_PS_RESIZE);
}

static int hand_over_rows(struct tt_ps_resize *r, int heir, const struct tutti_ps_table *mine,
			  struct tutti_ps_table *to, size_t width)
{
	struct rows h = {0};
	uint64_t n;
	int i, err = tt_ps_resize_agree(r, get_rows(r, mine, &h));

	n = h.mine;
	if (!err)
		err = tutti_gather(&n, h.n, 1, TUTTI_UINT64, heir, r->comm);
	err = tt_ps_resize_agree(r, err || !to ? err : get_room(r, &h, width));
	if (!err)
		err = tutti_gatherv(h.key, h.mine, h.keys, h.count, h.at, TUTTI_UINT64, heir,
				    r->comm);
	for (i = 0; i < r->comm->size && h.count; i++) {
		h.count[i] *= width;
		h.at[i] *= width;
	}
	if (!err)
		err = tutti_gatherv(h.row, h.mine * width, h.rows, h.count, h.at, TUTTI_FLOAT32,
				    heir, r->comm);
	if (!err && to)
		err = tt_ps_feedback_add_rows(to, h.keys, h.rows, h.all);
	free_rows(&h);
	return tt_ps_resize_agree(r, err);
}

/*
 * Under BSP a worker that leaves cannot push any more: its clock has ended. So another worker takes
 * over what it holds back: tables without values of the new parameter server are here already.
 */
static int hand_over_all(struct tt_ps_resize *r)
{
	const struct tt_ps_was *me = &r->was[r->comm->rank];
	bool leaves = false, leave = was_worker(me) && !will_work(me);
	int heir = find_heir(r), i, err = 0;
	uint64_t t;

	for (i = 0; i < r->comm->size; i++)
		leaves = leaves || (was_worker(&r->was[i]) && !will_work(&r->was[i]));
	for (t = 0; !err && leaves && heir >= 0 && t < r->ntables; t++) {
		const struct tutti_ps_table *old = r->old ? r->old->table[t] : NULL,
					    *fresh = r->fresh ? r->fresh->table[t] : NULL,
					    *any = old ? old : fresh;

		if (any->coder && any->rows)
			err = hand_over_rows(r, heir, leave ? old : NULL,
					     r->comm->rank == heir ? r->fresh->table[t] : NULL,
					     any->width);
		else if (any->coder)
			err = hand_over(r, heir, leave ? tt_ps_feedback_residuals(old) : NULL,
					r->comm->rank == heir ? tt_ps_feedback_residuals(fresh)
							      : NULL,
					any->count);
	}
	return err;
}

int tt_ps_move_all(struct tt_ps_resize *r)
{
	struct tt_ps_move m = {.to = &r->to, .old = r->old, .fresh = r->fresh, .copy = r->copy};
	int err = share_layout(r);

	if (!err)
		err = run_rounds(r, &m);
	if (!err)
		err = hand_over_all(r);
	tt_ps_move_free(&m);
	return err;
}
