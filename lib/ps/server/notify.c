/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A server's puts to workers: answers, changed words of its directories, and the clock, each with a
 * note. Directories and the clock are sent again when the last put has ended, with the
 * newest state each time, so a slow worker costs nothing. A copy of a directory is a hint; the
 * clock is a promise: it is put when all blocks of its snapshot are in place.
 */
#include <string.h>

#include "lib/ps/essp/essp.h"

/*
 * A put has ended. A worker that was not told would wait forever; the control tree decides whether
 * it has failed.
 */
void tt_ps_put_over(const struct tt_ps_client *c, int status, const char *what)
{
	struct tutti_comm *comm = c->srv->ps->comm;

	c->srv->puts--;
	if (c->srv->ended && !c->srv->puts)
		tt_wire_wake(comm->ctx->wire);
	c->srv->kick = c->srv->kick || !c->srv->left;
	/* after a replica took over, a worker may have been told the end before */
	if (status && !c->dead && !(c->gone && c->srv->copy))
		tt_comm_broken(comm, comm->world[c->rank], status, "ps", 0, what);
}

static void put(struct tt_ps_client *c, struct tutti_win *win, void *from, size_t len, uint64_t to,
		int bell, struct tt_win_end *end)
{
	struct tutti_ps *ps = c->srv->ps;
	uint32_t token = ps->back_token[c->rank] +
			 (uint32_t)tt_ps_bell_credit(ps, c->srv->index, c->srv->copy, bell);

	c->srv->puts++;
	tt_ps_put(win, c->rank, from, len, to, token, end);
}

void tt_ps_credit_over(struct tt_win_end *end, int status)
{
	tt_ps_put_over(tt_container(end, struct tt_ps_client, credit_end), status,
		       "an answer to a worker");
}

void tt_ps_credit(struct tt_ps_server *srv, struct tt_ps_client *c,
		  const struct tt_ps_credit *credit)
{
	struct tutti_ps *ps = srv->ps;
	int slot = (int)(credit->number % TT_PS_SLOTS);
	char *from = tt_ps_answer(c, (uint64_t)slot);

	memcpy(from, credit, sizeof(*credit));
	tt_wire_lock(ps->comm->ctx->wire);
	put(c, ps->win, from, sizeof(*credit) + credit->len,
	    tt_ps_box_back(ps, c->rank) + tt_ps_box_credit(ps, srv->index, srv->copy, slot), slot,
	    &c->credit_end);
	tt_wire_unlock(ps->comm->ctx->wire);
}

static void told_over(struct tt_win_end *end, int status)
{
	struct tt_ps_told *told = tt_container(end, struct tt_ps_told, end);

	told->busy = false;
	told->client->srv->kick = true;
	tt_ps_put_over(told->client, status, "telling a worker which blocks are current");
}

void tt_ps_note_over(struct tt_win_end *end, int status)
{
	struct tt_ps_client *c = tt_container(end, struct tt_ps_client, note_end);

	c->note_busy = false;
	c->srv->kick = true;
	tt_ps_put_over(c, status, "telling a worker the clock");
}

static void tell_dir(struct tt_ps_client *c, struct tt_ps_store *s)
{
	struct tt_ps_told *told = &s->told[c->index];
	struct tutti_ps_table *t = s->t;
	uint64_t lo = told->lo, hi = told->hi;

	if (told->busy || lo == hi)
		return;
	told->busy = true;
	told->lo = told->hi = 0;
	told->end.over = told_over;
	told->client = c;
	put(c, t->win, s->mem + tt_ps_dir_at(lo), (hi - lo) * sizeof(uint64_t),
	    tt_ps_hints_at(t, c->rank) + s->copy * t->dirs + s->part->hint + tt_ps_dir_at(lo),
	    TT_PS_SLOTS, &told->end);
}

static bool quiet(const struct tutti_ps *ps, int rank)
{
	uint32_t i;

	for (i = 0; i < ps->ntables; i++)
		if (ps->table[i]->win->pending[rank])
			return false;
	return !ps->win->pending[rank];
}

bool tt_ps_may_end(const struct tt_ps_server *srv)
{
	int w;

	if (!srv->serves || srv->ended || srv->left || srv->answered < srv->order)
		return false;
	for (w = 0; w < srv->ps->nworkers; w++)
		if (!srv->client[w].dead && !quiet(srv->ps, srv->client[w].rank))
			return false;
	return true;
}

void tt_ps_tell(struct tt_ps_server *srv)
{
	struct tutti_ps *ps = srv->ps;
	struct tt_ps_note note = {.slowest = (uint64_t)srv->slowest,
				  .missing = (uint64_t)srv->missing,
				  .failed = (uint64_t)srv->failed};
	bool alive = srv->alive;
	uint32_t i;
	int w;

	srv->alive = srv->kick = false;
	if (!srv->serves || srv->ended) /* no worker listens any more */
		return;
	note.ended = tt_ps_may_end(srv);
	srv->ended = note.ended;
	for (w = 0; w < ps->nworkers; w++) {
		struct tt_ps_client *c = &srv->client[w];

		if (c->dead || (c->gone && !note.ended && !alive))
			continue;
		for (i = 0; i < ps->ntables && !c->gone; i++)
			tell_dir(c, tt_ps_store_of(srv, i));
		if (!c->note_due || c->note_busy) {
			srv->ended = srv->ended && !c->note_due;
			continue;
		}
		c->note_due = c->gone && !note.ended; /* the end is told in any case */
		c->note_busy = true;
		c->failed = srv->failed;
		note.min_clock = srv->published;
		note.dropped = c->dropped;
		memcpy(tt_ps_answer(c, TT_PS_SLOTS), &note, sizeof(note));
		put(c, ps->win, tt_ps_answer(c, TT_PS_SLOTS), sizeof(note),
		    tt_ps_box_back(ps, c->rank) +
			    tt_ps_box_credit(ps, srv->index, srv->copy, TT_PS_SLOTS),
		    TT_PS_SLOTS, &c->note_end);
	}
	tt_ps_sub_send(srv);
}

void tt_ps_tell_block(struct tt_ps_server *srv, struct tt_ps_store *s, uint64_t block)
{
	int w;

	tt_ps_sub_due(s, block);
	tt_wire_lock(srv->ps->comm->ctx->wire);
	for (w = 0; w < srv->ps->nworkers; w++) {
		struct tt_ps_told *told = &s->told[w];

		if (told->lo == told->hi) {
			told->lo = block;
			told->hi = block + 1;
		} else if (block < told->lo) {
			told->lo = block;
		} else if (block >= told->hi) {
			told->hi = block + 1;
		}
	}
	tt_wire_unlock(srv->ps->comm->ctx->wire);
}

void tt_ps_tell_clock(struct tt_ps_server *srv)
{
	int w;

	tt_wire_lock(srv->ps->comm->ctx->wire);
	for (w = 0; w < srv->ps->nworkers; w++)
		srv->client[w].note_due = true;
	tt_wire_unlock(srv->ps->comm->ctx->wire);
}
