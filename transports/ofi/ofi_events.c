/* SPDX-License-Identifier: BSD-3-Clause */
/* Events that wait for the next poll, and the final events of an endpoint that goes down. */
#include <stdlib.h>

#include "transports/ofi/ofi.h"

#define NONE ((enum tt_event_kind) - 1) /* an event whose endpoint was closed */

bool ofi_queue_reserve(struct ofi_tp *tp, unsigned n)
{
	struct ofi_event *q;
	unsigned i, size = tp->size ? tp->size : 64;

	if (tp->count + n <= tp->size)
		return true;
	while (size < tp->count + n)
		size *= 2;
	q = malloc(size * sizeof(*q));
	if (!q)
		return false;
	for (i = 0; i < tp->count; i++)
		q[i] = tp->queue[(tp->head + i) % tp->size];
	free(tp->queue);
	tp->queue = q;
	tp->size = size;
	tp->head = 0;
	return true;
}

/* The caller has reserved room. */
void ofi_queue_push(struct ofi_tp *tp, const struct tt_event *ev, struct ofi_ep *owner,
		    struct ofi_op *rx)
{
	tp->queue[(tp->head + tp->count++) % tp->size] =
		(struct ofi_event){.ev = *ev, .owner = owner, .rx = rx};
}

int ofi_queue_pop(struct ofi_tp *tp, struct tt_event *events, int max)
{
	struct ofi_event *e;
	int n = 0;

	while (tp->count && n < max) {
		e = &tp->queue[tp->head];
		tp->head = (tp->head + 1) % tp->size;
		tp->count--;
		if (e->ev.kind == NONE)
			continue;
		if (e->rx) {
			e->rx->next = tp->used;
			tp->used = e->rx;
		}
		if (e->ev.kind == TT_EV_UP && e->owner->state == OFI_READY)
			e->owner->state = OFI_UP;
		events[n++] = e->ev;
	}
	return n;
}

void ofi_queue_forget(struct ofi_tp *tp, const struct ofi_ep *ep)
{
	struct ofi_op **link = &tp->used;
	struct ofi_event *e;
	unsigned i;

	for (i = 0; i < tp->count; i++) {
		e = &tp->queue[(tp->head + i) % tp->size];
		if (e->owner != ep)
			continue;
		/* A receive of rdm's shared ring outlives the endpoint it was for. */
		if (e->rx && !e->rx->ep) {
			e->rx->next = tp->used;
			tp->used = e->rx;
		}
		e->ev.kind = NONE;
		e->rx = NULL;
	}
	while (*link)
		if ((*link)->ep == ep)
			*link = (*link)->next;
		else
			link = &(*link)->next;
}

/* One operation that the connection's end has cut off, or NULL. */
static struct ofi_op *cut_off(struct ofi_ep *ep)
{
	int i;

	if (!ep->busy)
		return NULL;
	for (i = 0; i < OFI_DEPTH; i++)
		if (ep->ops[i].busy)
			return &ep->ops[i];
	for (i = 0; i < ep->tx.n; i++)
		if (ep->tx.ops[i].busy)
			return &ep->tx.ops[i];
	return NULL;
}

static int flush_one(struct ofi_tp *tp, struct ofi_ep *ep, struct tt_event *events, int max)
{
	struct ofi_op *op;
	int n = 0;

	while (n < max && (op = cut_off(ep)) != NULL) {
		if (op->kind != OFI_SEND)
			events[n++] = (struct tt_event){
				.kind = TT_EV_DONE, .status = ep->status, .user = op->user};
		ofi_op_done(op);
	}
	if (n == max)
		return n;
	ep->state = OFI_DOWN;
	tp->troubled--;
	events[n++] = (struct tt_event){.kind = TT_EV_DOWN,
					.status = ep->status,
					.data = ep->reason[0] ? ep->reason : NULL,
					.ep = &ep->base};
	return n;
}

/* Pending events of endpoints in OFI_FLUSH: an error for each operation, then DOWN. */
int ofi_flush_events(struct ofi_tp *tp, struct tt_event *events, int max)
{
	struct tt_list *pos, *tmp;
	struct ofi_ep *ep;
	int n = 0;

	tt_list_each(pos, tmp, &tp->eps)
	{
		ep = tt_container(pos, struct ofi_ep, link);
		if (ep->state == OFI_FLUSH && n < max)
			n += flush_one(tp, ep, events + n, max - n);
	}
	return n;
}
