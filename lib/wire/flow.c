/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Flow control of early messages, per communicator and channel, driven by the receiver.
 *
 * A sender may run ahead: the receiver parks its eager messages on the heap. Above the bound
 * (TUTTI_PARKED) the receiver sends STOP {epoch}. The sender answers STOP_ACK {epoch, messages
 * sent so far} and then sends only into offers. When the receiver has seen that many messages,
 * none is under way, and it offers memory for its posted receives. Once nothing is parked and no
 * offer is open, it sends GO {epoch}. The epoch identifies a GO that was overtaken by the next
 * STOP; the sender ignores it. No step relies on message order.
 */
#include <errno.h>
#include <stdlib.h>

#include "lib/base/reserve.h"
#include "lib/wire/wire_internal.h"

struct tt_flow *tt_flow_get(struct tt_chan *chan, uint64_t comm)
{
	struct tt_list *l, *tmp;
	struct tt_flow *flow;

	tt_list_each(l, tmp, &chan->flows)
	{
		flow = tt_container(l, struct tt_flow, link);
		if (flow->comm == comm)
			return flow;
	}
	tt_reserve_enter();
	flow = calloc(1, sizeof(*flow));
	tt_reserve_leave();
	if (!flow)
		return NULL;
	chan->wire->stats.allocations++;
	flow->comm = comm;
	tt_list_add(&chan->flows, &flow->link);
	return flow;
}

static void say(struct tt_chan *chan, enum tt_ctrl_kind kind, uint64_t comm, uint32_t epoch,
		uint32_t count)
{
	struct tt_ctrl ctrl = {.kind = kind, .key.comm = comm, .addr = epoch, .len = count};

	tt_chan_send_ctrl(chan, &ctrl);
}

/* ---- receiver ---- */

void tt_flow_parked(struct tt_chan *chan, struct tt_flow *flow)
{
	if (flow->state != TT_FLOW_OPEN || flow->parked <= (uint32_t)chan->wire->env->parked.number)
		return;
	flow->state = TT_FLOW_STOPPING;
	flow->acked = false;
	say(chan, TT_CTRL_STOP, flow->comm, ++flow->epoch, 0);
}

/* All eager messages sent before the STOP have come: makes an offer for every waiting receive. */
static void stopped(struct tt_chan *chan, struct tt_flow *flow)
{
	struct tt_list *l, *tmp;
	int i;

	flow->state = TT_FLOW_STOPPED;
	for (i = 0; i < TT_BUCKETS; i++)
		tt_list_each(l, tmp, &chan->wire->posted.bucket[i])
		{
			struct tt_xfer *x = tt_container(l, struct tt_xfer, link);

			if (x->chan != chan || x->key.comm != flow->comm || x->state != TT_X_POSTED)
				continue;
			tt_xfer_offer(chan, x);
			if (chan->state != TT_CHAN_OPEN)
				return; /* it unlinked the other entries */
		}
	tt_flow_consumed(chan, flow);
}

/* More have come than the sender says if it has freed the communicator before it was asked. */
static bool all_came(const struct tt_flow *flow)
{
	return flow->acked && (int32_t)(flow->received - flow->peer_sent) >= 0;
}

void tt_flow_received(struct tt_chan *chan, struct tt_flow *flow)
{
	flow->received++;
	if (flow->state == TT_FLOW_STOPPING && all_came(flow))
		stopped(chan, flow);
}

static void drop(struct tt_flow *flow)
{
	tt_list_del(&flow->link);
	free(flow);
}

/* An early message was consumed, or an offer used. The caller looks at flow no more. */
void tt_flow_consumed(struct tt_chan *chan, struct tt_flow *flow)
{
	if (flow->state != TT_FLOW_STOPPED || flow->parked || flow->offers)
		return;
	flow->state = TT_FLOW_OPEN;
	say(chan, TT_CTRL_GO, flow->comm, flow->epoch, 0);
	if (flow->gone)
		drop(flow);
}

/*
 * The communicator is gone, and what was parked. A flow that has said STOP stays until it has said
 * GO, since the sender waits for that with messages that it does not know to be too late.
 */
void tt_flow_forget(struct tt_chan *chan, struct tt_flow *flow)
{
	bool open = chan->state == TT_CHAN_OPEN;

	if (flow->state == TT_FLOW_OPEN || flow->gone || !open) {
		drop(flow);
		return;
	}
	flow->parked = flow->offers = 0;
	flow->gone = true;
	tt_flow_consumed(chan, flow);
}

/* ---- sender ---- */

/* Sends that waited for offers may travel eagerly again. */
static void resume(struct tt_chan *chan, struct tt_flow *flow)
{
	struct tt_list *l, *tmp;
	int i;

	flow->stopped = false;
	for (i = 0; i < TT_BUCKETS; i++)
		tt_list_each(l, tmp, &chan->wire->sends.bucket[i])
		{
			struct tt_xfer *x = tt_container(l, struct tt_xfer, link);

			if (x->chan != chan || x->key.comm != flow->comm || tt_needs_offer(chan, x))
				continue;
			tt_list_del(&x->link);
			tt_chan_queue(chan, x);
		}
}

void tt_flow_ctrl(struct tt_chan *chan, const struct tt_ctrl *ctrl)
{
	struct tt_flow *flow = tt_flow_get(chan, ctrl->key.comm);
	uint32_t epoch = (uint32_t)ctrl->addr;

	if (!flow) {
		tt_chan_fail(chan, -ENOMEM, "no memory to receive a control message");
		return;
	}
	switch (ctrl->kind) {
	case TT_CTRL_STOP:
		flow->stopped = true;
		flow->stop_epoch = epoch;
		say(chan, TT_CTRL_STOP_ACK, flow->comm, epoch, flow->sent);
		break;
	case TT_CTRL_STOP_ACK:
		if (flow->state != TT_FLOW_STOPPING || epoch != flow->epoch)
			break;
		flow->acked = true;
		flow->peer_sent = (uint32_t)ctrl->len;
		if (all_came(flow))
			stopped(chan, flow);
		break;
	case TT_CTRL_GO:
		if (flow->stopped && epoch == flow->stop_epoch)
			resume(chan, flow);
		break;
	}
}
