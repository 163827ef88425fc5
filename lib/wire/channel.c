/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages on a channel: eager through slots, or put straight into what the receiver offered.
 *
 * A message and its receive meet by key, in any order. Arrival is learnt from notes only: a slot's
 * note, or the token of an offer. Credits: the receiver owns nslots slots per channel; the sender has a
 * bit per free one, and gets bits back in headers of the other direction or in a credit message.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "lib/wire/internal.h"

/* ---- stages: registered memory that eager messages are sent from ---- */

static struct tt_stage *stage_get(struct tt_wire *wire)
{
	struct tt_stage *s = wire->stages;
	size_t size = sizeof(struct tt_eager_head) + (size_t)wire->env->eager.number;

	if (s) {
		wire->stages = s->next;
		return s;
	}
	s = calloc(1, sizeof(*s));
	if (!s)
		return NULL;
	if (tt_mem_alloc(wire->memory, size, (void **)&s->mem, &s->region)) {
		free(s);
		return NULL;
	}
	s->wire = wire;
	wire->stats.allocations++;
	return s;
}

static void stage_put(struct tt_stage *s)
{
	s->next = s->wire->stages;
	s->wire->stages = s;
}

static void stage_done(struct tt_wr *wr, int status)
{
	struct tt_stage *s = tt_container(wr, struct tt_stage, wr);

	stage_put(s);
	if (status) /* its transfer has ended well already: the message must not be lost in silence */
		tt_chan_fail(s->chan, -TUTTI_EPEER, "an eager message was lost: %s",
			     tutti_strerror(status));
}

/* ---- operations at the transport ---- */

int tt_chan_rma(struct tt_chan *chan, struct tt_rma *rma, struct tt_wr *wr, bool get)
{
	int rc;

	rma->user = wr;
	rc = get ? chan->ep->ops->get(chan->ep, rma) : chan->ep->ops->put(chan->ep, rma);
	if (rc == TT_STARTED) {
		tt_list_add(&chan->inflight, &wr->link);
		chan->wire->inflight++;
	} else if (rc == TT_FINISHED) {
		wr->done(wr, 0);
		rc = 0;
	}
	return rc;
}

/*
 * A transport that refuses an operation for another reason than lack of room is broken for this peer,
 * most likely because the peer closed its end or is dying.
 */
static void refused(struct tt_chan *chan, int status)
{
	tt_chan_fail(chan, -TUTTI_EPEER, "%s refused an operation: %s",
		     chan->wire->tp[chan->tp].name, tt_fail_text(status));
}

void tt_chan_busy(struct tt_chan *chan)
{
	if (tt_list_empty(&chan->busy))
		tt_list_add(&chan->wire->busy, &chan->busy);
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
		refused(chan, rc);
		return true;
	}
	chan->freed = 0;
	chan->wire->stats.control_messages++;
	return true;
}

/* A copy of a control message that must wait. */
static struct tt_ctrl_item *ctrl_item(struct tt_chan *chan, const struct tt_ctrl *ctrl)
{
	struct tt_wire *wire = chan->wire;
	struct tt_ctrl_item *item;

	if (tt_list_empty(&wire->free_ctrl)) {
		item = malloc(sizeof(*item));
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

/* Give a slot back; tell the peer when half of them wait to be told. */
static void slot_free(struct tt_chan *chan, int slot)
{
	struct tt_ctrl ctrl = {.kind = TT_CTRL_CREDIT};

	chan->freed |= 1ull << slot;
	if (__builtin_popcountll(chan->freed) * 2 >= chan->nslots)
		tt_chan_send_ctrl(chan, &ctrl);
}

/* ---- sending ---- */

static void xfer_end(struct tt_xfer *x, const void *data, int status)
{
	struct tt_wire *wire = x->chan->wire;
	struct tt_region *region = x->bounce_region;
	void *bounce = x->bounce;

	tt_list_del(&x->link);
	if (x->state == TT_X_OFFERED)
		tt_token_free(wire, x->token);
	x->state = TT_X_IDLE;
	x->bounce = NULL;
	x->bounce_region = NULL;
	x->fn(x, data, status);
	if (region)
		tt_mem_free(wire->memory, bounce);
}

/* Send through a slot; false: no credit or no room now. */
static bool send_eager(struct tt_chan *chan, struct tt_xfer *x)
{
	struct tt_flow *flow = tt_flow_get(chan, x->key.comm);
	struct tt_wire *wire = chan->wire;
	struct tt_eager_head *head;
	struct tt_stage *s;
	struct tt_rma rma;
	int slot, rc;

	if (!chan->tx_free)
		return false;
	s = stage_get(wire);
	if (!s || !flow) {
		if (s)
			stage_put(s);
		xfer_end(x, NULL, -ENOMEM);
		return true;
	}
	slot = __builtin_ctzll(chan->tx_free);
	head = (struct tt_eager_head *)s->mem;
	*head = (struct tt_eager_head){
		.key = x->key, .fprint = x->fprint, .freed = chan->freed, .len = (uint32_t)x->len};
	if (x->len)
		memcpy(s->mem + sizeof(*head), x->buf, x->len);
	s->wr.done = stage_done;
	s->chan = chan;
	rma = (struct tt_rma){.local = s->mem,
			      .len = sizeof(*head) + x->len,
			      .mr = s->region->mr[chan->tp],
			      .remote = chan->tx_addr + (uint64_t)slot * chan->tx_slot_size,
			      .rkey = &chan->tx_rkey,
			      .note = chan->tx_token + (uint32_t)slot,
			      .flags = TT_RMA_NOTE};
	rc = tt_chan_rma(chan, &rma, &s->wr, false);
	if (rc) {
		stage_put(s);
		if (rc == -EAGAIN)
			return false;
		xfer_end(x, NULL, -TUTTI_EPEER);
		refused(chan, rc);
		return true;
	}
	chan->tx_free &= ~(1ull << slot);
	chan->freed = 0;
	flow->sent++;
	wire->stats.copied_bytes += x->len;
	wire->stats.put_bytes += x->len;
	wire->stats.eager_messages++;
	xfer_end(x, NULL, 0);
	return true;
}

static void put_done(struct tt_wr *wr, int status)
{
	struct tt_xfer *x = tt_container(wr, struct tt_xfer, wr);

	if (!status) {
		x->chan->wire->stats.put_bytes += x->len;
		x->chan->wire->stats.put_messages++;
	}
	xfer_end(x, NULL, status);
}

/* The source as registered memory where the transport needs that; copies if the caller's is not. */
static int local_source(struct tt_chan *chan, struct tt_xfer *x, void **src, struct tt_mr **mr)
{
	struct tt_wire *wire = chan->wire;
	int err;

	*src = x->buf;
	*mr = x->region ? x->region->mr[chan->tp] : NULL;
	if (*mr || (wire->tp[chan->tp].tp->caps & TT_CAP_LOCAL_ANY))
		return 0;
	if (!x->bounce) {
		err = tt_mem_alloc(wire->memory, x->len, &x->bounce, &x->bounce_region);
		if (err)
			return err;
		memcpy(x->bounce, x->buf, x->len);
		wire->stats.copied_bytes += x->len;
	}
	*src = x->bounce;
	*mr = x->bounce_region->mr[chan->tp];
	return 0;
}

/* Put x into what ctrl offers; false: no room now, keep the offer. */
static bool put_to_offer(struct tt_chan *chan, struct tt_xfer *x, const struct tt_ctrl *ctrl)
{
	struct tt_rma rma = {.len = x->len,
			     .remote = ctrl->addr,
			     .rkey = &ctrl->rkey,
			     .note = ctrl->token,
			     .flags = TT_RMA_NOTE};
	int rc;

	if (ctrl->fprint != x->fprint || ctrl->len != x->len) {
		chan->wire->params.mismatch(chan->wire->params.arg, chan->peer, &x->key);
		xfer_end(x, NULL, -TUTTI_EMISMATCH);
		return true;
	}
	rc = local_source(chan, x, &rma.local, &rma.mr);
	if (rc) {
		xfer_end(x, NULL, rc);
		return true;
	}
	tt_list_del(&x->link);
	x->state = TT_X_PUTTING;
	x->wr.done = put_done;
	rc = tt_chan_rma(chan, &rma, &x->wr, false);
	if (rc == -EAGAIN)
		return false;
	if (rc < 0) {
		xfer_end(x, NULL, -TUTTI_EPEER);
		refused(chan, rc);
	}
	return true;
}

static struct tt_offer *offer_find(struct tt_chan *chan, const struct tt_key *key)
{
	struct tt_list *bucket = tt_table_bucket(&chan->wire->offers, chan->peer, key), *l, *tmp;

	tt_list_each(l, tmp, bucket) {
		struct tt_offer *o = tt_container(l, struct tt_offer, link);

		if (o->peer == chan->peer && tt_key_equal(&o->ctrl.key, key))
			return o;
	}
	return NULL;
}

static bool wants_offer(struct tt_chan *chan, const struct tt_xfer *x)
{
	struct tt_flow *flow;

	if (x->len > chan->eager)
		return true;
	flow = tt_flow_get(chan, x->key.comm);
	return flow && flow->stopped;
}

/* Try to get x on its way; false: it must stay queued. */
static bool send_now(struct tt_chan *chan, struct tt_xfer *x)
{
	struct tt_offer *o;

	if (!wants_offer(chan, x))
		return send_eager(chan, x);
	o = offer_find(chan, &x->key);
	if (!o) {
		tt_list_del(&x->link);
		x->state = TT_X_WAITING;
		tt_list_add(tt_table_bucket(&chan->wire->sends, chan->peer, &x->key), &x->link);
		return true;
	}
	if (!put_to_offer(chan, x, &o->ctrl))
		return false;
	tt_list_del(&o->link);
	tt_list_add(&chan->wire->free_offer, &o->link);
	chan->wire->nearly--;
	return true;
}

void tt_xfer_start_send(struct tt_chan *chan, struct tt_xfer *x)
{
	/* Keep the order of those that wait for room, so that none of them starves. */
	if (chan->state == TT_CHAN_OPEN && tt_list_empty(&chan->sendq) && send_now(chan, x))
		return;
	if (chan->state == TT_CHAN_FAILED) {
		xfer_end(x, NULL, chan->status);
		return;
	}
	x->state = TT_X_QUEUED;
	tt_list_del(&x->link);
	tt_list_add(&chan->sendq, &x->link);
	tt_chan_busy(chan);
}

/* The channel of x, being connected if it was not yet. */
static struct tt_chan *xfer_begin(struct tt_wire *wire, struct tt_xfer *x)
{
	struct tt_chan *chan = tt_chan_get(wire, x->peer);

	tt_list_init(&x->link);
	tt_list_init(&x->wr.link);
	x->chan = chan;
	x->bounce = NULL;
	x->bounce_region = NULL;
	if (chan->state == TT_CHAN_CLOSED)
		tt_chan_connect(chan);
	return chan;
}

void tt_wire_send(struct tt_wire *wire, struct tt_xfer *x)
{
	struct tt_chan *chan = xfer_begin(wire, x);

	tt_xfer_start_send(chan, x);
}

/* ---- receiving ---- */

static struct tt_xfer *posted_find(struct tt_chan *chan, const struct tt_key *key)
{
	struct tt_list *bucket = tt_table_bucket(&chan->wire->posted, chan->peer, key), *l, *tmp;

	tt_list_each(l, tmp, bucket) {
		struct tt_xfer *x = tt_container(l, struct tt_xfer, link);

		if (x->chan == chan && tt_key_equal(&x->key, key))
			return x;
	}
	return NULL;
}

/* Offer x's memory, or a bounce in its place, to the sender. */
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
		xfer_end(x, NULL, err);
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

/* Give an early or just arrived eager message to its receive. */
static void deliver(struct tt_chan *chan, struct tt_xfer *x, uint64_t fprint, uint32_t len,
		    const void *data)
{
	if (fprint != x->fprint || len != x->len) {
		chan->wire->params.mismatch(chan->wire->params.arg, chan->peer, &x->key);
		xfer_end(x, NULL, -TUTTI_EMISMATCH);
		return;
	}
	xfer_end(x, data, 0);
}

static struct tt_early *early_find(struct tt_chan *chan, const struct tt_key *key)
{
	struct tt_list *bucket = tt_table_bucket(&chan->wire->early, chan->peer, key), *l, *tmp;

	tt_list_each(l, tmp, bucket) {
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
		chan->held--;
		slot_free(chan, e->slot);
	}
}

static const char *early_data(struct tt_chan *chan, const struct tt_early *e)
{
	if (e->slot < 0)
		return e->data;
	return chan->slots + (size_t)e->slot * chan->slot_size + sizeof(struct tt_eager_head);
}

static void take_early(struct tt_chan *chan, struct tt_xfer *x, struct tt_early *e)
{
	struct tt_flow *flow = tt_flow_get(chan, e->key.comm);

	tt_list_del(&e->link);
	deliver(chan, x, e->fprint, e->len, early_data(chan, e));
	tt_early_drop(chan->wire, e);
	flow->parked--;
	tt_flow_consumed(chan, flow);
}

static void recv_open(struct tt_chan *chan, struct tt_xfer *x)
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
		xfer_end(x, NULL, -ENOMEM);
	else if (x->len > chan->eager || flow->state == TT_FLOW_STOPPED)
		tt_xfer_offer(chan, x);
}

void tt_wire_recv(struct tt_wire *wire, struct tt_xfer *x)
{
	struct tt_chan *chan = xfer_begin(wire, x);

	if (chan->state == TT_CHAN_OPEN) {
		recv_open(chan, x);
	} else if (chan->state == TT_CHAN_FAILED) {
		xfer_end(x, NULL, chan->status);
	} else {
		x->state = TT_X_QUEUED;
		tt_list_add(&chan->recvq, &x->link);
	}
}

/* A token rang: the put into x's offer is complete. */
void tt_xfer_landed(struct tt_wire *wire, struct tt_xfer *x)
{
	struct tt_chan *chan = x->chan;
	struct tt_flow *flow = x->len <= chan->eager ? tt_flow_get(chan, x->key.comm) : NULL;

	xfer_end(x, x->bounce_region ? x->bounce : x->buf, 0);
	if (flow) {
		flow->offers--;
		tt_flow_consumed(chan, flow);
	}
}

/* Nobody wants this message yet: keep it in its slot while few are, else move it to the heap. */
static void park(struct tt_chan *chan, int slot, const struct tt_eager_head *head, struct tt_flow *flow)
{
	struct tt_wire *wire = chan->wire;
	struct tt_early *e;

	if (tt_list_empty(&wire->free_early)) {
		e = malloc(sizeof(*e) + chan->slot_size);
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
	wire->params.early(wire->params.arg, &e->key, e->fprint);
	if ((chan->held + 1) * 2 < chan->nslots) {
		chan->held++;
	} else {
		memcpy(e->data, head + 1, head->len);
		wire->stats.copied_bytes += head->len;
		wire->stats.parked_messages++;
		e->slot = -1;
		slot_free(chan, slot);
	}
	tt_flow_parked(chan, flow);
}

void tt_chan_slot_note(struct tt_chan *chan, int slot)
{
	const struct tt_eager_head *head;
	struct tt_flow *flow;
	struct tt_xfer *x;

	if (slot >= chan->nslots)
		return;
	if (chan->state == TT_CHAN_OPENING) {
		chan->early_notes |= 1ull << slot;
		tt_chan_heard(chan);
		return;
	}
	if (chan->state != TT_CHAN_OPEN)
		return;
	head = (const struct tt_eager_head *)(chan->slots + (size_t)slot * chan->slot_size);
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
	if (!flow)
		return;
	x = posted_find(chan, &head->key);
	if (x) {
		deliver(chan, x, head->fprint, head->len, head + 1);
		slot_free(chan, slot);
	} else {
		park(chan, slot, head, flow);
	}
	tt_flow_received(chan, flow);
}

static void on_offer(struct tt_chan *chan, const struct tt_ctrl *ctrl)
{
	struct tt_list *bucket = tt_table_bucket(&chan->wire->sends, chan->peer, &ctrl->key), *l, *tmp;
	struct tt_wire *wire = chan->wire;
	struct tt_offer *o;

	tt_list_each(l, tmp, bucket) {
		struct tt_xfer *x = tt_container(l, struct tt_xfer, link);

		if (x->chan != chan || !tt_key_equal(&x->key, &ctrl->key))
			continue;
		if (put_to_offer(chan, x, ctrl))
			return;
		/* No room: it waits in the queue, where it finds the offer again. */
		x->state = TT_X_QUEUED;
		tt_list_add(&chan->sendq, &x->link);
		tt_chan_busy(chan);
		break;
	}
	if (tt_list_empty(&wire->free_offer)) {
		o = malloc(sizeof(*o));
		wire->stats.allocations++;
		if (!o) {
			tt_chan_fail(chan, -ENOMEM, "no memory for an offer");
			return;
		}
	} else {
		o = tt_container(wire->free_offer.next, struct tt_offer, link);
		tt_list_del(&o->link);
	}
	o->peer = chan->peer;
	o->ctrl = *ctrl;
	tt_list_add(tt_table_bucket(&wire->offers, chan->peer, &ctrl->key), &o->link);
	wire->nearly++;
	wire->params.early(wire->params.arg, &ctrl->key, ctrl->fprint);
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
	if (ctrl->freed) {
		chan->tx_free |= ctrl->freed;
		if (!tt_list_empty(&chan->sendq))
			tt_chan_busy(chan);
	}
	switch (ctrl->kind) {
	case TT_CTRL_OFFER:
		on_offer(chan, ctrl);
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
	default:
		tt_chan_fail(chan, -EPROTO, "unknown control message %u", ctrl->kind);
	}
}

/* ---- queues ---- */

/* The endpoint is up: what waited for it can go. */
void tt_chan_opened(struct tt_chan *chan)
{
	struct tt_list *l, *tmp;

	tt_list_each(l, tmp, &chan->recvq) {
		struct tt_xfer *x = tt_container(l, struct tt_xfer, link);

		tt_list_del(&x->link);
		recv_open(chan, x);
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
	while (!tt_list_empty(&chan->sendq) && chan->state == TT_CHAN_OPEN) {
		struct tt_xfer *x = tt_container(chan->sendq.next, struct tt_xfer, link);

		if (!send_now(chan, x)) {
			/* put_to_offer unlinks before it tries: put it back in front */
			if (tt_list_empty(&x->link)) {
				x->state = TT_X_QUEUED;
				tt_list_add(chan->sendq.next, &x->link);
			}
			return;
		}
	}
	tt_list_del(&chan->busy);
}

static void fail_table(struct tt_chan *chan, struct tt_table *table, int status)
{
	bool again;
	int i;

	for (i = 0; i < TT_BUCKETS; i++) {
		do { /* from the start after each, as fn may change the bucket */
			struct tt_list *l, *tmp;

			again = false;
			tt_list_each(l, tmp, &table->bucket[i]) {
				struct tt_xfer *x = tt_container(l, struct tt_xfer, link);

				if (x->chan != chan)
					continue;
				xfer_end(x, NULL, status);
				again = true;
				break;
			}
		} while (again);
	}
}

/* End everything that was to travel on a channel that has failed. */
void tt_chan_fail_xfers(struct tt_chan *chan, int status)
{
	while (!tt_list_empty(&chan->sendq))
		xfer_end(tt_container(chan->sendq.next, struct tt_xfer, link), NULL, status);
	while (!tt_list_empty(&chan->recvq))
		xfer_end(tt_container(chan->recvq.next, struct tt_xfer, link), NULL, status);
	fail_table(chan, &chan->wire->sends, status);
	fail_table(chan, &chan->wire->posted, status);
}

void tt_wire_cancel(struct tt_wire *wire, struct tt_xfer *x)
{
	bool claimed = x->state == TT_X_OFFERED || x->state == TT_X_PUTTING;
	struct tt_region *region = x->bounce_region;

	if (x->state == TT_X_IDLE)
		return;
	if (x->state == TT_X_OFFERED)
		tt_token_free(wire, x->token);
	if (x->state == TT_X_PUTTING) {
		tt_wire_drop_events(wire, NULL, &x->wr);
		tt_list_del(&x->wr.link);
		wire->inflight--;
	}
	tt_list_del(&x->link);
	x->state = TT_X_IDLE;
	x->bounce_region = NULL;
	/* The peer, or the transport, may touch the buffer at any moment: only a closed endpoint stops it. */
	if (claimed)
		tt_chan_fail(x->chan, -TUTTI_EABORTED, "a transfer under way was taken back");
	if (region)
		tt_mem_free(wire->memory, x->bounce);
}
