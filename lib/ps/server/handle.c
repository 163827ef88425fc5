/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Handles messages in their turn. With a staleness, messages are handled as they come, each
 * worker's in the order in which it sent them. Under BSP (staleness 0) the pushes of a clock are
 * applied in the workers' rank order: a message waits until all workers of lower rank have ended
 * that clock, and until its clock is the current one. So the result depends on what was pushed, not
 * on when.
 */
#include <errno.h>

#include "lib/base/clock.h"
#include "lib/ps/essp/essp.h"
#include "lib/ps/resize/resize.h"
#include "lib/ps/server/server.h"

#define SLOW_NS (100 * TT_MS)

static bool fresh_left(const struct tt_ps_server *srv)
{
	uint32_t i;

	for (i = 0; i < srv->ps->ntables; i++)
		if (tt_ps_store_of(srv, i)->fresh.n)
			return true;
	return false;
}

/*
 * Whether a publication is under way or about to start: a clock, restored values, or first values.
 * Nothing may change meanwhile.
 */
static bool publishes(const struct tt_ps_server *srv)
{
	return srv->passing || srv->all || srv->published != srv->min_clock || fresh_left(srv);
}

bool tt_ps_settled(const struct tt_ps_server *srv)
{
	const struct tt_ps_client *c;
	int w;

	if (srv->ps->staleness)
		return true;
	if (publishes(srv))
		return false;
	for (w = 0; w < srv->ps->nworkers; w++) {
		c = &srv->client[w];
		if (c->held && tt_ps_turn(srv, c, &c->held->msg))
			return false;
	}
	return true;
}

bool tt_ps_turn(const struct tt_ps_server *srv, const struct tt_ps_client *c,
		const struct tt_ps_msg *m)
{
	int w;

	if (srv->ps->staleness || m->kind == TT_PS_SET || m->kind == TT_PS_LOOKUP ||
	    m->kind == TT_PS_SUBSCRIBE)
		return true;
	if (publishes(srv))
		return false;
	/* what leaving workers push last waits for no other worker */
	for (w = 0; w < c->index && !srv->ps->backup && !atomic_load(&srv->ps->last_pushes); w++)
		if (!srv->client[w].gone && srv->client[w].clock <= srv->min_clock)
			return false;
	return m->clock <= srv->min_clock;
}

/* The lowest clock of the workers that have not left, and their number. */
static uint64_t lowest(const struct tt_ps_server *srv, int *here)
{
	uint64_t min = UINT64_MAX;
	int w;

	for (w = *here = 0; w < srv->ps->nworkers; w++) {
		if (srv->client[w].gone)
			continue;
		++*here;
		if (srv->client[w].clock < min)
			min = srv->client[w].clock;
	}
	return min;
}

/* Every worker that counts has ended the current clock: apply the sums, and move the clock. */
static void advance(struct tt_ps_server *srv)
{
	struct tutti_ps *ps = srv->ps;
	int here, counted;
	uint64_t min = lowest(srv, &here);
	uint32_t i;

	for (i = 0; i < ps->ntables && here < srv->here; i++)
		tt_ps_store_regroup(tt_ps_store_of(srv, i), here);
	srv->here = counted = here;
	if (here && ps->backup)
		min = tt_ps_seats_clock(srv, &counted);
	if (!here || min <= srv->min_clock)
		return;
	for (i = 0; i < ps->ntables; i++)
		tt_ps_store_combine(tt_ps_store_of(srv, i), counted);
	srv->min_clock = min;
	srv->slowest = 0;
	tt_ps_seats_clear(srv);
	if (ps->backup)
		advance(srv); /* workers that have ended this clock, too */
}

void tt_ps_slow_soon(struct tt_ps_server *srv)
{
	if (srv->slow_at == TT_NEVER && !srv->slowest)
		srv->slow_at = tt_now_ns() + SLOW_NS;
}

/*
 * Find the slowest worker, for the texts of deadlines. All messages that could be handled by now
 * have been.
 */
void tt_ps_find_slow(struct tt_ps_server *srv)
{
	const struct tt_ps_client *slow = NULL, *c;
	bool waits = false;
	int w;

	if (srv->slow_at == TT_NEVER || tt_now_ns() < srv->slow_at)
		return;
	srv->slow_at = TT_NEVER;
	for (w = 0; w < srv->ps->nworkers; w++) {
		c = &srv->client[w];
		if (!c->gone && (!slow || c->clock < slow->clock))
			slow = c;
	}
	for (w = 0; w < srv->ps->nworkers && slow && srv->ps->staleness >= 0; w++) {
		c = &srv->client[w];
		waits = waits ||
			(!c->gone &&
			 (c->held || c->clock > slow->clock + (uint64_t)srv->ps->staleness));
	}
	if (!waits)
		return;
	srv->slowest = slow->index + 1;
	tt_ps_tell_clock(srv);
}

/* The clock of c has moved, or c has left: another worker may be the slowest. */
static void moved(struct tt_ps_server *srv, const struct tt_ps_client *c)
{
	advance(srv);
	if (srv->slowest == c->index + 1)
		srv->slowest = 0;
	tt_ps_slow_soon(srv);
}

static int set_clock(struct tt_ps_server *srv, struct tt_ps_client *c, const struct tt_ps_msg *m)
{
	if (m->first < c->clock)
		return -EPROTO;
	tt_ps_counts(srv, c, m);
	c->clock = m->first;
	moved(srv, c);
	return 0;
}

static int bye(struct tt_ps_server *srv, struct tt_ps_client *c)
{
	tt_wire_lock(srv->ps->comm->ctx->wire);
	c->gone = true;
	tt_ps_leaves(c);
	tt_wire_unlock(srv->ps->comm->ctx->wire);
	moved(srv, c);
	return 0;
}

static int with_table(struct tt_ps_server *srv, struct tt_ps_client *c, const struct tt_ps_msg *m,
		      const char *payload, struct tt_ps_credit *credit)
{
	struct tutti_ps *ps = srv->ps;
	struct tt_ps_store *s = tt_ps_store_of(srv, m->table);
	bool wait = false, bsp = ps->staleness == 0;
	struct tt_ps_done done = {0};
	int err = -EPROTO;

	if (tt_ps_lacks_function(s->t) && m->kind <= TT_PS_LOOKUP)
		return -ENOTSUP;
	if (m->kind >= TT_PS_PUSH && m->kind < TT_PS_LOOKUP && !tt_ps_counts(srv, c, m)) {
		c->dropped += s->t->rows ? m->count * s->t->width : m->count;
		return 0;
	}
	switch (m->kind) {
	case TT_PS_SET:
		err = tt_ps_store_set(s, m, payload);
		/*
		 * under BSP, values already seen change at the end of the clock, which cannot be
		 * waited for here
		 */
		if (!err && (!bsp || s->fresh.n) &&
		    (!bsp || !atomic_load(tt_ps_dir(s, m->first / s->t->block_elems))))
			credit->sequence = srv->epoch + 1;
		break;
	case TT_PS_PUSH:
		err = tt_ps_store_push(s, m, payload, &done);
		break;
	case TT_PS_PUSH_SAME:
		err = tt_ps_store_push_same(s, m, payload, &done);
		c->tau[m->number % TT_PS_SLOTS] = done.tau;
		break;
	case TT_PS_PUSH_CODED:
		err = tt_ps_store_push_coded(s, m, payload, &done);
		break;
	case TT_PS_PUSH_ROWS:
		err = tt_ps_store_push_rows(s, m, payload, &done);
		break;
	case TT_PS_LOOKUP:
		err = tt_ps_store_lookup(
			s, m, payload,
			(uint32_t *)(void *)(tt_ps_answer(c, m->number % TT_PS_SLOTS) +
					     sizeof(*credit)),
			&wait);
		credit->len = err ? 0 : m->count * sizeof(uint32_t);
		break;
	case TT_PS_SUBSCRIBE:
		err = tt_ps_subscribe(
			s, c->index, m, payload,
			(uint32_t *)(void *)(tt_ps_answer(c, m->number % TT_PS_SLOTS) +
					     sizeof(*credit)));
		credit->len = err || !s->tree ? 0 : m->count * sizeof(uint32_t);
		break;
	}
	if (!err && (wait || (!bsp && done.applied)))
		credit->sequence = srv->epoch + 1;
	if (s->sub && credit->sequence)
		tt_ps_sub_promise(s, c->index, credit->sequence);
	credit->tau = done.tau;
	return err;
}

void tt_ps_handle(struct tt_ps_server *srv, struct tt_ps_client *c, const struct tt_ps_msg *m,
		  const char *payload, struct tt_ps_credit *credit)
{
	atomic_bool *handles = &srv->ps->srv[0]->handles;

	tt_ps_say_alive(srv);
	atomic_store_explicit(handles, true, memory_order_relaxed);
	if (m->kind == TT_PS_CLOCK)
		credit->status = set_clock(srv, c, m);
	else if (m->kind == TT_PS_BYE)
		credit->status = bye(srv, c);
	else if (m->kind >= TT_PS_MEET)
		tt_ps_handle_file(srv, c, m, payload, credit);
	else
		credit->status = m->table < srv->ps->ntables
					 ? with_table(srv, c, m, payload, credit)
					 : -ENOENT;
	atomic_store_explicit(handles, false, memory_order_relaxed);
	credit->dropped = c->dropped;
}
