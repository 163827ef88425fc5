/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A worker's messages to this server, taken in the order of their numbers, whatever order they
 * arrived in. A message whose turn has not come is copied aside, up to HELD bytes in all, so that
 * its sender goes on; beyond that it stays in its slot, and its sender waits for a free slot.
 * Without memory a push is refused. A clock cannot be refused: it stays in its slot.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/copy.h"
#include "lib/ps/server/server.h"
#include "lib/topo/topo.h"

#define HELD ((size_t)1 << 30)

static struct tt_ps_msg *slot_of(const struct tt_ps_client *c, int slot)
{
	const struct tutti_ps *ps = c->srv->ps;

	return (struct tt_ps_msg *)(void *)(ps->box +
					    tt_ps_box_in(ps, c->srv->copy, c->index, slot));
}

struct tt_ps_msg *tt_ps_arrived(const struct tt_ps_client *c, int slot)
{
	const struct tt_ps_in_bell *b = c->bell[slot];
	struct tt_ps_msg *m = slot_of(c, slot);

	return b[0].rung && (m->behind || b[1].rung) ? m : NULL;
}

/*
 * Under the lock: the worker's next message has arrived completely. A replica handles there what a
 * worker sends again.
 */
static bool arrived(const struct tt_ps_client *c)
{
	const struct tt_ps_msg *m = tt_ps_arrived(c, (int)(c->next % TT_PS_SLOTS));

	return m && (!c->srv->copy || m->number == c->next);
}

bool tt_ps_inbox_any(const struct tt_ps_server *srv)
{
	int w;

	for (w = 0; w < srv->ps->nworkers && srv->serves; w++)
		if (!srv->client[w].gone && !srv->client[w].stuck && arrived(&srv->client[w]))
			return true;
	return false;
}

static bool take(struct tt_ps_client *c)
{
	struct tt_wire *wire = c->srv->ps->comm->ctx->wire;
	bool here;

	tt_wire_lock(wire);
	here = !c->gone && arrived(c);
	tt_wire_unlock(wire);
	return here;
}

/* The slot may be written again once the worker has the answer. */
static void done_with(struct tt_ps_client *c, struct tt_ps_msg *m, const struct tt_ps_msg *head,
		      const struct tt_ps_credit *credit)
{
	struct tt_ps_in_bell *b = c->bell[c->next % TT_PS_SLOTS];

	b[0].rung = b[1].rung = false;
	c->next++;
	tt_ps_heard(c->srv);
	tt_ps_chain_add(c->srv, c, m, head, credit);
}

static int hold(struct tt_ps_client *c, const struct tt_ps_msg *m, const char *payload)
{
	struct tt_ps_held *h;

	if (c->srv->held_bytes + m->len > HELD)
		return -EAGAIN;
	h = malloc(sizeof(*h) + m->len);
	if (!h)
		return -ENOMEM;
	h->msg = *m;
	h->next = NULL;
	tt_copy_data(h->payload, payload, m->len);
	*c->held_end = h;
	c->held_end = &h->next;
	tt_ps_slow_soon(c->srv);
	c->srv->held_bytes += m->len;
	return 0;
}

static int run_held(struct tt_ps_client *c)
{
	struct tt_ps_credit none = {0};
	uint64_t dropped = c->dropped;
	struct tt_ps_held *h;
	int n = 0;

	while ((h = c->held) && tt_ps_turn(c->srv, c, &h->msg)) {
		c->held = h->next;
		if (!c->held)
			c->held_end = &c->held;
		c->srv->held_bytes -= h->msg.len;
		tt_ps_handle(c->srv, c, &h->msg, h->payload, &none);
		if (none.status &&
		    !c->late) /* it was answered long ago: the next answer reports it */
			c->late = (int)none.status;
		free(h);
		n++;
	}
	if (c->dropped > dropped)
		tt_ps_tell_clock(c->srv);
	return n;
}

int tt_ps_run_held(struct tt_ps_server *srv)
{
	int w, n = 0;

	for (w = 0; w < srv->ps->nworkers; w++)
		n += run_held(&srv->client[w]);
	return n;
}

bool tt_ps_take_in(struct tt_ps_client *c, const struct tt_ps_msg *m, const char *payload,
		   struct tt_ps_credit *credit)
{
	bool at_once =
		m->kind == TT_PS_SET || m->kind == TT_PS_LOOKUP || m->kind >= TT_PS_SUBSCRIBE;

	if (at_once || (!c->held && tt_ps_turn(c->srv, c, m)))
		tt_ps_handle(c->srv, c, m, payload, credit);
	else if (m->kind == TT_PS_BYE) { /* the last answer that can report a refused push */
		tt_wire_lock(c->srv->ps->comm->ctx->wire);
		tt_ps_leaves(c);
		tt_wire_unlock(c->srv->ps->comm->ctx->wire);
		return false;
	} else if ((credit->status = hold(c, m, payload)) &&
		   (credit->status != -ENOMEM || m->kind == TT_PS_CLOCK)) {
		return false;
	}
	if (!credit->status && !at_once) {
		credit->status = c->late;
		c->late = 0;
	}
	return true;
}

bool tt_ps_damaged(struct tt_ps_server *srv, int rank, const struct tt_ps_msg *m)
{
	struct tutti_comm *comm = srv->ps->comm;

	if (!srv->ps->verify || (m->len <= TT_PS_BLOCK && tt_ps_msg_sum(m, m + 1) == m->sum))
		return false;
	tt_wire_lock(comm->ctx->wire);
	if (!atomic_load(&comm->failed))
		tt_ctx_damaged(comm->ctx, comm->world[rank],
			       "a message to a parameter server arrived damaged: its checksum is "
			       "another one");
	tt_wire_unlock(comm->ctx->wire);
	return true;
}

/* Returns whether there may be another message. */
static bool run_slot(struct tt_ps_client *c)
{
	struct tt_ps_msg *m = slot_of(c, (int)(c->next % TT_PS_SLOTS));
	const struct tt_ps_msg head = *m; /* its worker could write it meanwhile */
	const char *payload = (const char *)(m + 1);
	struct tt_ps_credit credit = {.number = c->next};

	if (tt_ps_damaged(c->srv, c->srv->ps->worker[c->index], m))
		return false;
	if (head.number != c->next || head.len > TT_PS_BLOCK)
		credit.status = -EPROTO;
	else if ((head.kind == TT_PS_MEET && !tt_ps_meeting(c->srv, c, &head, payload)) ||
		 !tt_ps_take_in(c, &head, payload, &credit) ||
		 tt_ps_drop_out(c->srv, credit.status))
		return false;
	if (credit.status == -ENOMEM)
		credit.room = tt_topo_memory_available();
	done_with(c, m, &head, &credit);
	return true;
}

/*
 * Messages that arrived from a failed worker are handled as usual. Then the worker leaves in its
 * turn, as if it had sent a good-bye.
 */
static void bury(struct tt_ps_client *c)
{
	int slot = (int)(c->next % TT_PS_SLOTS);
	struct tt_ps_msg *bye = slot_of(c, slot);
	const struct tt_ps_held *h;

	if (c->next >= TT_PS_SLOTS && c->order[slot] > c->srv->acked)
		return; /* the previous message in this slot is still being passed on */
	*bye = (struct tt_ps_msg){
		.kind = TT_PS_BYE, .clock = c->clock, .number = c->next, .behind = 1};
	for (h = c->held; h; h = h->next)
		if (h->msg.kind == TT_PS_CLOCK)
			bye->clock = h->msg.first;
	bye->sum = tt_ps_msg_sum(bye, bye + 1);
	c->bell[slot][0].rung = c->buried = true;
}

static void bury_dead(struct tt_ps_client *c)
{
	struct tt_wire *wire = c->srv->ps->comm->ctx->wire;

	tt_wire_lock(wire);
	if (c->dead && !c->buried && !c->gone && !arrived(c))
		bury(c);
	tt_wire_unlock(wire);
}

int tt_ps_inbox(struct tt_ps_server *srv)
{
	int w, i, n = 0;

	for (w = 0; w < srv->ps->nworkers; w++) {
		struct tt_ps_client *c = &srv->client[w];

		n += run_held(c);
		c->stuck = false;
		for (i = 0; i < TT_PS_SLOTS && !c->stuck && take(c); i++) {
			c->stuck = !run_slot(c);
			n += !c->stuck;
		}
		if (c->stuck)
			tt_ps_waited_for(srv);
		bury_dead(c);
	}
	return n;
}

void tt_ps_inbox_free(struct tt_ps_server *srv)
{
	struct tt_ps_held *h;
	int w;

	for (w = 0; w < srv->ps->nworkers; w++)
		while ((h = srv->client[w].held)) {
			srv->client[w].held = h->next;
			free(h);
		}
}
