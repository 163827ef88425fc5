/* SPDX-License-Identifier: BSD-3-Clause */
/* Receiving: posted receives, offers to senders, and messages that come before their receive. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/copy.h"
#include "lib/base/reserve.h"
#include "lib/wire/wire_internal.h"

static struct tt_xfer *posted_find(struct tt_chan *chan, const struct tt_key *key)
{
	struct tt_list *bucket = tt_table_bucket(&chan->wire->posted, chan->peer, key), *l, *tmp;

	tt_list_each(l, tmp, bucket)
	{
		struct tt_xfer *x = tt_container(l, struct tt_xfer, link);

		if (x->chan == chan && tt_key_equal(&x->key, key))
			return x;
	}
	return NULL;
}

/* Offers x's memory, or a bounce buffer in its place, to the sender. */
void tt_xfer_offer(struct tt_chan *chan, struct tt_xfer *x)
{
	struct tt_region *region = x->region;
	struct tt_wire *wire = chan->wire;
	struct tt_ctrl ctrl;
	void *addr = x->buf;
	int err = 0;

	if (!addr || !region || !region->mr[chan->tp] || !(region->access & TT_ACCESS_WRITE)) {
		err = tt_mem_alloc(wire->memory, x->len, &x->bounce, &x->bounce_region);
		addr = x->bounce;
		region = x->bounce_region;
	}
	if (!err)
		err = tt_token_new(wire, TT_TOKEN_XFER, x, &x->token);
	if (err) {
		tt_xfer_end(x, NULL, err);
		return;
	}
	if (x->len <= chan->eager)
		tt_flow_get(chan, x->key.comm)->offers++;
	x->state = TT_X_OFFERED;
	ctrl = (struct tt_ctrl){.kind = TT_CTRL_OFFER,
				.token = x->token,
				.key = x->key,
				.fprint = x->fprint,
				.addr = (uintptr_t)addr,
				.len = x->len,
				.rkey = region->mr[chan->tp]->rkey};
	tt_chan_send_ctrl(chan, &ctrl);
}

/* Gives an early or just arrived eager message to its receive. */
static void deliver(struct tt_chan *chan, struct tt_xfer *x, uint64_t fprint, uint32_t len,
		    const void *data)
{
	if (fprint != x->fprint || len != x->len) {
		chan->wire->params.mismatch(chan->wire->params.arg, chan->peer, &x->key);
		tt_xfer_end(x, NULL, -TUTTI_EMISMATCH);
		return;
	}
	tt_xfer_end(x, data, 0);
}

static struct tt_early *early_find(struct tt_chan *chan, const struct tt_key *key)
{
	struct tt_list *bucket = tt_table_bucket(&chan->wire->early, chan->peer, key), *l, *tmp;

	tt_list_each(l, tmp, bucket)
	{
		struct tt_early *e = tt_container(l, struct tt_early, link);

		if (e->peer == chan->peer && tt_key_equal(&e->key, key))
			return e;
	}
	return NULL;
}

void tt_early_drop(struct tt_wire *wire, struct tt_early *e)
{
	struct tt_chan *chan = wire->chan[e->peer];

	tt_list_del(&e->link);
	tt_list_add(&wire->free_early, &e->link);
	wire->nearly--;
	if (e->slot >= 0) {
		chan->held -= chan->held > 0;
		tt_slot_free(chan, e->slot);
	}
}

const char *tt_early_data(struct tt_chan *chan, const struct tt_early *e)
{
	if (e->slot < 0)
		return e->data;
	return chan->slots + (size_t)e->slot * chan->slot_size + sizeof(struct tt_eager_head);
}

static void take_early(struct tt_chan *chan, struct tt_xfer *x, struct tt_early *e)
{
	struct tt_flow *flow = tt_flow_get(chan, e->key.comm);

	tt_list_del(&e->link);
	deliver(chan, x, e->fprint, e->len, tt_early_data(chan, e));
	tt_early_drop(chan->wire, e);
	flow->parked--;
	tt_flow_consumed(chan, flow);
}

void tt_recv_open(struct tt_chan *chan, struct tt_xfer *x)
{
	struct tt_early *e = early_find(chan, &x->key);
	struct tt_flow *flow;

	if (e) {
		take_early(chan, x, e);
		return;
	}
	x->state = TT_X_POSTED;
	tt_list_del(&x->link);
	tt_list_add(tt_table_bucket(&chan->wire->posted, chan->peer, &x->key), &x->link);
	flow = tt_flow_get(chan, x->key.comm);
	if (!flow)
		tt_xfer_end(x, NULL, -ENOMEM);
	else if (tt_needs_offer(chan, x) || flow->state == TT_FLOW_STOPPED)
		tt_xfer_offer(chan, x);
}

void tt_wire_recv(struct tt_wire *wire, struct tt_xfer *x)
{
	struct tt_chan *chan = tt_xfer_begin(wire, x);

	if (!chan)
		return;
	if (chan->state == TT_CHAN_OPEN) {
		tt_recv_open(chan, x);
	} else if (chan->state == TT_CHAN_FAILED) {
		tt_xfer_end(x, NULL, chan->status);
	} else {
		x->state = TT_X_QUEUED;
		tt_list_add(&chan->recvq, &x->link);
	}
}

/* A token rang: the put into x's offer is complete. */
void tt_xfer_landed(struct tt_wire *wire, struct tt_xfer *x)
{
	if (wire->sums)
		tt_sum_landed(x);
	else
		tt_xfer_complete(wire, x);
}

void tt_xfer_complete(struct tt_wire *wire, struct tt_xfer *x)
{
	struct tt_chan *chan = x->chan;
	struct tt_flow *flow = x->len <= chan->eager ? tt_flow_get(chan, x->key.comm) : NULL;

	tt_xfer_end(x, x->bounce_region ? x->bounce : x->buf, 0);
	if (flow) {
		flow->offers--;
		tt_flow_consumed(chan, flow);
	}
}

/*
 * No receive matches this message yet: keeps it in its slot while few are kept, else on the heap.
 */
static void park(struct tt_chan *chan, int slot, const struct tt_eager_head *head,
		 struct tt_flow *flow)
{
	struct tt_wire *wire = chan->wire;
	struct tt_early *e;

	if (tt_list_empty(&wire->free_early)) {
		e = tt_reserve_malloc(sizeof(*e) + chan->slot_size);
		wire->stats.allocations++;
		if (!e) {
			tt_chan_fail(chan, -ENOMEM, "no memory for an early message");
			return;
		}
		tt_list_init(&e->link);
		e->data = (char *)(e + 1);
	} else {
		e = tt_container(wire->free_early.next, struct tt_early, link);
		tt_list_del(&e->link);
	}
	e->peer = chan->peer;
	e->key = head->key;
	e->fprint = head->fprint;
	e->len = head->len;
	e->slot = slot;
	tt_list_add(tt_table_bucket(&wire->early, chan->peer, &e->key), &e->link);
	wire->nearly++;
	flow->parked++;
	wire->params.early(wire->params.arg, e->peer, &e->key, e->fprint, false);
	if ((chan->held + 1) * 2 < chan->nslots) {
		chan->held++;
	} else {
		tt_copy_data(e->data, head + 1, head->len);
		wire->stats.copied_bytes += head->len;
		wire->stats.parked_messages++;
		e->slot = -1;
		tt_slot_free(chan, slot);
	}
	tt_flow_parked(chan, flow);
}

void tt_chan_slot_note(struct tt_chan *chan, int slot)
{
	struct tt_eager_head *head;
	struct tt_port *port;
	struct tt_flow *flow;
	struct tt_xfer *x;
	bool ported;

	if (slot >= chan->nslots)
		return;
	if (chan->state == TT_CHAN_OPENING) {
		chan->early_notes |= 1ull << slot;
		tt_chan_heard(chan);
		return;
	}
	if (chan->state != TT_CHAN_OPEN)
		return;
	if (!chan->heard)
		tt_chan_heard(chan);
	head = (struct tt_eager_head *)(chan->slots + (size_t)slot * chan->slot_size);
	if (chan->wire->sums && !tt_sum_check(chan, head))
		return;
	if (head->len > chan->slot_size - sizeof(*head)) {
		tt_chan_fail(chan, -EPROTO, "a message header claims %u bytes in a slot of %zu",
			     head->len, chan->slot_size);
		return;
	}
	if (head->freed) {
		chan->tx_free |= head->freed;
		if (!tt_list_empty(&chan->sendq))
			tt_chan_busy(chan);
	}
	flow = tt_flow_get(chan, head->key.comm);
	if (!flow) {
		tt_chan_fail(chan, -ENOMEM, "no memory to receive a message");
		return;
	}
	ported = tt_key_ported(&head->key);
	port = ported ? tt_wire_port_find(chan->wire, head->key.comm) : NULL;
	x = ported ? NULL : posted_find(chan, &head->key);
	if (port) {
		port->message(port, chan->peer, &head->key, head->fprint, head + 1, head->len,
			      NULL);
		tt_slot_free(chan, slot);
	} else if (x) {
		deliver(chan, x, head->fprint, head->len, head + 1);
		tt_slot_free(chan, slot);
	} else if (ported && chan->wire->params.late(chan->wire->params.arg, chan->peer, &head->key,
						     head->fprint, head->len)) {
		tt_slot_free(chan, slot);
	} else {
		park(chan, slot, head, flow);
	}
	tt_flow_received(chan, flow);
}
