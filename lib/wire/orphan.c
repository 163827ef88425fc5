/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Receives given up without closing their connection: the memory that they offered stays allocated
 * until the peer has written it, or cannot write it any more.
 */
#include <stdlib.h>

#include "lib/wire/wire_internal.h"

struct orphan {
	struct tt_list link; /* in chan->orphans */
	struct tt_chan *chan;
	uint32_t token;
	uint64_t pieces; /* still to come, if the message is cut */
	void *mem;
};

static void orphan_free(struct orphan *o)
{
	struct tt_wire *wire = o->chan->wire;

	tt_list_del(&o->link);
	tt_token_free(wire, o->token);
	tt_mem_free(wire->memory, o->mem);
	free(o);
}

void tt_orphan_landed(struct tt_wire *wire, void *orphan)
{
	(void)wire;
	orphan_free(orphan);
}

void tt_orphan_piece(struct tt_wire *wire, void *orphan)
{
	struct orphan *o = orphan;

	(void)wire;
	if (!--o->pieces)
		orphan_free(o);
}

void tt_orphans_free(struct tt_chan *chan)
{
	while (!tt_list_empty(&chan->orphans)) {
		struct orphan *o = tt_container(chan->orphans.next, struct orphan, link);

		tt_chan_withhold(chan, o->mem);
		orphan_free(o);
	}
}

/* The memory that x has offered gets another owner; false: no memory, or it is the caller's. */
static bool adopt(struct tt_wire *wire, struct tt_xfer *x)
{
	struct orphan *o = x->bounce_region ? malloc(sizeof(*o)) : NULL;
	struct tt_token *t;

	if (!o)
		return false;
	*o = (struct orphan){.chan = x->chan,
			     .token = x->token,
			     .pieces = tt_pieces_missing(x),
			     .mem = x->bounce};
	tt_list_init(&o->link);
	tt_list_add(&x->chan->orphans, &o->link);
	t = tt_token_find(wire, x->token);
	t->kind = TT_TOKEN_ORPHAN;
	t->target = o;
	x->bounce = NULL;
	x->bounce_region = NULL;
	tt_list_del(&x->link);
	x->state = TT_X_IDLE;
	return true;
}

bool tt_wire_abandon(struct tt_wire *wire, struct tt_xfer *x)
{
	if (x->state == TT_X_PUTTING && (!x->cut || tt_pieces_begun(x)))
		return false;
	if (x->state != TT_X_OFFERED || !adopt(wire, x))
		tt_wire_cancel(wire, x);
	return true;
}
