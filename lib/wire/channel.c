/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A channel: operations at its transport, control messages, and the queues of waiting items.
 *
 * A message and its receive are matched by key, in any order: wire_send.c and wire_recv.c are the
 * two sides. Only notes signal arrival: a slot's note, or the token of an offer. Credits: the
 * receiver owns nslots slots per channel. The sender has a bit per free slot, and gets bits back
 * in the headers of the reverse direction or in a credit message.
 */
#include <errno.h>
#include <stdlib.h>

#include "lib/base/reserve.h"
#include "lib/wire/wire_internal.h"

/* ---- operations at the transport ---- */

/*
 * A transport that refuses an operation for any reason but lack of room is broken for this peer,
 * most likely because the peer closed its end or is dying. -EPERM: the peer lives. With a shortage
 * of this rank, of memory or descriptors, it may live, too. Memory that is not mapped concerns one
 * transfer only.
 */
int tt_chan_refusal(int status)
{
	return status == -EPERM || tt_is_shortage(status) || tt_is_fault(status) ? status
										 : -TUTTI_EPEER;
}

void tt_chan_refused(struct tt_chan *chan, int status)
{
	if (!tt_is_fault(status))
		tt_chan_fail(chan, tt_chan_refusal(status), "%s refused an operation: %s",
			     chan->wire->tp[chan->tp].name, tt_fail_text(status));
}

void tt_chan_busy(struct tt_chan *chan)
{
	if (tt_list_empty(&chan->busy))
		tt_list_add(&chan->wire->busy, &chan->busy);
}

/* Before those of lower priority; of one priority none overtakes, so that none starves. */
void tt_chan_queue(struct tt_chan *chan, struct tt_xfer *x)
{
	struct tt_list *at = &chan->sendq;

	while (at->prev != &chan->sendq &&
	       tt_container(at->prev, struct tt_xfer, link)->priority < x->priority)
		at = at->prev;
	x->state = TT_X_QUEUED;
	tt_list_add(at, &x->link);
	tt_chan_busy(chan);
}

/* ---- control messages ---- */

static bool ctrl_push(struct tt_chan *chan, struct tt_ctrl *ctrl)
{
	int rc;

	ctrl->freed = chan->freed;
	rc = chan->ep->ops->msg(chan->ep, ctrl, sizeof(*ctrl));
	if (rc == -EAGAIN)
		return false;
	if (rc < 0) {
		tt_chan_refused(chan, rc);
		return true;
	}
	chan->freed = 0;
	chan->wire->stats.control_messages++;
	return true;
}

/* A copy of a control message that has to wait. */
static struct tt_ctrl_item *ctrl_item(struct tt_chan *chan, const struct tt_ctrl *ctrl)
{
	struct tt_wire *wire = chan->wire;
	struct tt_ctrl_item *item;

	if (tt_list_empty(&wire->free_ctrl)) {
		item = tt_reserve_malloc(sizeof(*item));
		wire->stats.allocations++;
		if (!item) {
			tt_chan_fail(chan, -ENOMEM, "no memory for a control message");
			return NULL;
		}
		tt_list_init(&item->link);
	} else {
		item = tt_container(wire->free_ctrl.next, struct tt_ctrl_item, link);
		tt_list_del(&item->link);
	}
	item->ctrl = *ctrl;
	return item;
}

void tt_chan_send_ctrl(struct tt_chan *chan, struct tt_ctrl *ctrl)
{
	struct tt_ctrl_item *item;

	if (chan->state != TT_CHAN_OPEN)
		return;
	if (tt_list_empty(&chan->ctrlq) && ctrl_push(chan, ctrl))
		return;
	item = ctrl_item(chan, ctrl);
	if (!item)
		return;
	tt_list_add(&chan->ctrlq, &item->link);
	tt_chan_busy(chan);
}

/* Frees a slot; notifies the peer when half of the slots are free and not yet reported. */
void tt_slot_free(struct tt_chan *chan, int slot)
{
	struct tt_ctrl ctrl = {.kind = TT_CTRL_CREDIT};

	chan->freed |= 1ull << slot;
	if (__builtin_popcountll(chan->freed) * 2 >= chan->nslots)
		tt_chan_send_ctrl(chan, &ctrl);
}

/* ---- the ends of a transfer ---- */

void tt_chan_withhold(struct tt_chan *chan, const void *addr)
{
	if (addr && chan->wire->tp[chan->tp].tp->caps & TT_CAP_LATE_WRITES)
		tt_mem_withhold(chan->wire->memory, addr, chan);
}

/*
 * After this no note leads to x. closed: its connection is closed, or about to be, and the peer
 * may still be writing.
 */
static void take_offer_back(struct tt_xfer *x, bool closed)
{
	tt_token_free(x->chan->wire, x->token);
	if (closed)
		tt_chan_withhold(x->chan, x->bounce_region ? x->bounce : x->buf);
}

void tt_xfer_end(struct tt_xfer *x, const void *data, int status)
{
	struct tt_wire *wire = x->chan->wire;
	struct tt_region *region = x->bounce_region;
	void *bounce = x->bounce;

	tt_list_del(&x->link);
	if (x->state == TT_X_OFFERED)
		take_offer_back(x, x->chan->state != TT_CHAN_OPEN);
	x->state = TT_X_IDLE;
	x->bounce = NULL;
	x->bounce_region = NULL;
	x->fn(x, data, status);
	if (region)
		tt_mem_free(wire->memory, bounce);
}

/* The channel of x, connecting if it was idle; NULL: no memory for a channel, and x has ended. */
struct tt_chan *tt_xfer_begin(struct tt_wire *wire, struct tt_xfer *x)
{
	struct tt_chan *chan = tt_chan_get(wire, x->peer);

	tt_list_init(&x->link);
	tt_list_init(&x->wr.link);
	x->chan = chan;
	x->bounce = NULL;
	x->bounce_region = NULL;
	x->summed = x->landed = x->cut = x->spare = false;
	if (!chan) {
		x->fn(x, NULL, -ENOMEM);
		return NULL;
	}
	tt_chan_retry(chan);
	if (chan->state == TT_CHAN_CLOSED)
		tt_chan_connect(chan);
	return chan;
}

void tt_chan_ctrl(struct tt_chan *chan, const struct tt_ctrl *ctrl)
{
	struct tt_ctrl_item *item;

	if (chan->state == TT_CHAN_OPENING) {
		item = ctrl_item(chan, ctrl);
		if (item)
			tt_list_add(&chan->early_ctrl, &item->link);
		tt_chan_heard(chan);
		return;
	}
	if (chan->state != TT_CHAN_OPEN)
		return;
	if (!chan->heard)
		tt_chan_heard(chan);
	if (ctrl->freed) {
		chan->tx_free |= ctrl->freed;
		if (!tt_list_empty(&chan->sendq))
			tt_chan_busy(chan);
	}
	switch (ctrl->kind) {
	case TT_CTRL_OFFER:
		tt_send_offer(chan, ctrl);
		break;
	case TT_CTRL_CREDIT:
		break;
	case TT_CTRL_STOP:
	case TT_CTRL_STOP_ACK:
	case TT_CTRL_GO:
		tt_flow_ctrl(chan, ctrl);
		break;
	case TT_CTRL_AMO:
		tt_amo_request(chan, ctrl);
		break;
	case TT_CTRL_AMO_REPLY:
		tt_amo_reply(chan, ctrl);
		break;
	case TT_CTRL_SUM:
		tt_sum_ctrl(chan, ctrl);
		break;
	case TT_CTRL_RING:
		tt_sum_ring(chan, ctrl);
		break;
	case TT_CTRL_PORT:
		tt_port_ctrl(chan, ctrl);
		break;
	default:
		tt_chan_fail(chan, -EPROTO, "unknown control message %u", ctrl->kind);
	}
}

/* ---- queues ---- */

/* The endpoint is up: starts what waited for it. */
void tt_chan_opened(struct tt_chan *chan)
{
	struct tt_list *l, *tmp;

	tt_list_each(l, tmp, &chan->recvq)
	{
		struct tt_xfer *x = tt_container(l, struct tt_xfer, link);

		tt_list_del(&x->link);
		tt_recv_open(chan, x);
		if (chan->state != TT_CHAN_OPEN)
			return;
	}
	while (chan->early_notes) {
		int slot = __builtin_ctzll(chan->early_notes);

		chan->early_notes &= chan->early_notes - 1;
		tt_chan_slot_note(chan, slot);
	}
	while (!tt_list_empty(&chan->early_ctrl)) {
		struct tt_ctrl_item *item =
			tt_container(chan->early_ctrl.next, struct tt_ctrl_item, link);

		tt_list_del(&item->link);
		tt_chan_ctrl(chan, &item->ctrl);
		tt_list_add(&chan->wire->free_ctrl, &item->link);
	}
	tt_chan_flush(chan);
}

void tt_chan_flush(struct tt_chan *chan)
{
	if (chan->state != TT_CHAN_OPEN)
		return;
	while (!tt_list_empty(&chan->ctrlq)) {
		struct tt_ctrl_item *item =
			tt_container(chan->ctrlq.next, struct tt_ctrl_item, link);

		if (!ctrl_push(chan, &item->ctrl) || chan->state != TT_CHAN_OPEN)
			return;
		tt_list_del(&item->link);
		tt_list_add(&chan->wire->free_ctrl, &item->link);
	}
	if (!tt_list_empty(&chan->pieceq) && !tt_pieces_flush(chan))
		return;
	while (!tt_list_empty(&chan->sendq) && chan->state == TT_CHAN_OPEN) {
		struct tt_xfer *x = tt_container(chan->sendq.next, struct tt_xfer, link);

		if (!tt_send_now(chan, x)) {
			/* put_to_offer unlinks before it tries: return it to the front */
			if (tt_list_empty(&x->link)) {
				x->state = TT_X_QUEUED;
				tt_list_add(chan->sendq.next, &x->link);
			}
			return;
		}
	}
	/* sends may have added to these; the end of a piece under way starts the next one */
	if (tt_list_empty(&chan->ctrlq) && (tt_list_empty(&chan->pieceq) || chan->under_way))
		tt_list_del(&chan->busy);
}

static void fail_table(struct tt_chan *chan, struct tt_table *table, int status)
{
	bool again;
	int i;

	for (i = 0; i < TT_BUCKETS; i++) {
		do { /* restart after each call, as fn may change the bucket */
			struct tt_list *l, *tmp;

			again = false;
			tt_list_each(l, tmp, &table->bucket[i])
			{
				struct tt_xfer *x = tt_container(l, struct tt_xfer, link);

				if (x->chan != chan)
					continue;
				tt_xfer_end(x, NULL, status);
				again = true;
				break;
			}
		} while (again);
	}
}

/* Ends all transfers of a channel that has failed. */
void tt_chan_fail_xfers(struct tt_chan *chan, int status)
{
	while (!tt_list_empty(&chan->sendq))
		tt_xfer_end(tt_container(chan->sendq.next, struct tt_xfer, link), NULL, status);
	while (!tt_list_empty(&chan->recvq))
		tt_xfer_end(tt_container(chan->recvq.next, struct tt_xfer, link), NULL, status);
	tt_pieces_fail(chan, status);
	fail_table(chan, &chan->wire->sends, status);
	fail_table(chan, &chan->wire->posted, status);
}

bool tt_wire_cancel_quiet(struct tt_wire *wire, struct tt_xfer *x)
{
	if (x->state == TT_X_PUTTING)
		return false;
	if (x->state != TT_X_OFFERED) {
		tt_wire_cancel(wire, x);
		return true;
	}
	take_offer_back(x, true);
	tt_list_del(&x->link);
	x->state = TT_X_IDLE;
	if (x->bounce_region)
		tt_mem_free(wire->memory, x->bounce);
	x->bounce_region = NULL;
	return true;
}

void tt_wire_cancel(struct tt_wire *wire, struct tt_xfer *x)
{
	bool cut = x->state == TT_X_PUTTING && x->cut;
	bool claimed = x->state == TT_X_OFFERED ||
		       (x->state == TT_X_PUTTING && (!x->cut || tt_pieces_begun(x)));
	struct tt_region *region = x->bounce_region;

	if (x->state == TT_X_IDLE)
		return;
	if (x->state == TT_X_OFFERED)
		take_offer_back(x, true);
	if (cut) {
		tt_pieces_cancel(x);
	} else if (x->state == TT_X_PUTTING) {
		tt_wire_drop_events(wire, NULL, &x->wr);
		tt_list_del(&x->wr.link);
		wire->inflight--;
	}
	tt_list_del(&x->link);
	x->state = TT_X_IDLE;
	x->bounce_region = NULL;
	/*
	 * The peer, or the transport, may access the buffer at any moment: only closing the
	 * endpoint stops that.
	 */
	if (claimed)
		tt_chan_fence(x->chan, x->key.comm, "a transfer under way was taken back");
	if (region)
		tt_mem_free(wire->memory, x->bounce);
}
