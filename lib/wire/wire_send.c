/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sending: short messages through a slot of the receiver, longer ones into an offer of the
 * receiver.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/copy.h"
#include "lib/base/reserve.h"
#include "lib/wire/wire_internal.h"

/* ---- stages: registered memory that eager messages are sent from ---- */

static struct tt_stage *stage_get(struct tt_wire *wire)
{
	struct tt_stage *s = wire->stages;
	size_t size = sizeof(struct tt_eager_head) + tt_wire_eager_max(wire->env);

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
	if (status) /* its transfer has ended with success: the loss must not go unnoticed */
		tt_chan_fail(s->chan, -TUTTI_EPEER, "an eager message was lost: %s",
			     s->wire->why ? s->wire->why : tutti_strerror(status));
}

/* ---- messages ---- */

/* Sends through a slot; false: no credit or no room now. */
static bool send_eager(struct tt_chan *chan, struct tt_xfer *x)
{
	struct tt_flow *flow = tt_flow_get(chan, x->key.comm);
	struct tt_wire *wire = chan->wire;
	struct tt_eager_head *head;
	struct tt_stage *s;
	struct tt_rma rma;
	size_t len = x->len;
	int slot, rc;

	if (!chan->tx_free)
		return false;
	s = stage_get(wire);
	if (!s || !flow) {
		if (s)
			stage_put(s);
		tt_xfer_end(x, NULL, -ENOMEM);
		return true;
	}
	if (x->kind == TT_XFER_PORT && (x->bare || len > chan->eager))
		len = 0;
	x->whole = len == x->len;
	slot = __builtin_ctzll(chan->tx_free);
	head = (struct tt_eager_head *)s->mem;
	*head = (struct tt_eager_head){
		.key = x->key, .fprint = x->fprint, .freed = chan->freed, .len = (uint32_t)len};
	if (len)
		memcpy(s->mem + sizeof(*head), x->buf, len);
	if (wire->sums)
		tt_sum_head(head);
	s->wr.done = stage_done;
	s->chan = chan;
	rma = (struct tt_rma){.local = s->mem,
			      .len = sizeof(*head) + len,
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
		tt_xfer_end(x, NULL, tt_chan_refusal(rc));
		tt_chan_refused(chan, rc);
		return true;
	}
	chan->tx_free &= ~(1ull << slot);
	chan->freed = 0;
	flow->sent++;
	wire->stats.copied_bytes += len;
	wire->stats.put_bytes += len;
	wire->stats.eager_messages++;
	tt_xfer_end(x, NULL, 0);
	return true;
}

static void put_done(struct tt_wr *wr, int status)
{
	struct tt_xfer *x = tt_container(wr, struct tt_xfer, wr);

	if (!status) {
		x->chan->wire->stats.put_bytes += x->len;
		x->chan->wire->stats.put_messages++;
	}
	tt_xfer_end(x, NULL, status);
}

/*
 * The source as registered memory if the transport needs that; copies if the caller's is not, or if
 * it lies in blocks.
 */
int tt_send_source(struct tt_chan *chan, struct tt_xfer *x, void **src, struct tt_mr **mr)
{
	struct tt_wire *wire = chan->wire;
	int err;

	*src = x->buf;
	*mr = x->region ? x->region->mr[chan->tp] : NULL;
	if (!x->fill && (*mr || (wire->tp[chan->tp].tp->caps & TT_CAP_LOCAL_ANY)))
		return 0;
	if (!x->bounce) {
		err = tt_mem_alloc(wire->memory, x->len, &x->bounce, &x->bounce_region);
		if (err)
			return err;
		if (x->fill)
			((const struct tt_source *)x->buf)->fill(x->buf, x->bounce, x->len);
		else
			tt_copy_data(x->bounce, x->buf, x->len);
		wire->stats.copied_bytes += x->len;
	}
	*src = x->bounce;
	*mr = x->bounce_region->mr[chan->tp];
	return 0;
}

/* Puts x into the memory that ctrl offers; false: no room now, keep the offer. */
static bool put_to_offer(struct tt_chan *chan, struct tt_xfer *x, const struct tt_ctrl *ctrl)
{
	struct tt_rma rma = {.len = ctrl->len,
			     .remote = ctrl->addr,
			     .rkey = &ctrl->rkey,
			     .note = ctrl->token,
			     .flags = TT_RMA_NOTE};
	uint64_t sum;
	int rc;

	if (x->shorter && ctrl->len < x->len && ctrl->len >= TT_OFFER_LEAST)
		x->len = ctrl->len;
	if (ctrl->fprint != x->fprint || ctrl->len != x->len) {
		chan->wire->params.mismatch(chan->wire->params.arg, chan->peer, &x->key);
		tt_xfer_end(x, NULL, -TUTTI_EMISMATCH);
		return true;
	}
	rc = tt_send_source(chan, x, &rma.local, &rma.mr);
	if (rc) {
		tt_xfer_end(x, NULL, rc);
		return true;
	}
	if (chan->wire->sums && !x->summed) {
		x->sum = tt_sum(rma.local, x->len);
		x->summed = true;
	}
	sum = x->sum;
	if (chan->wire->paced) {
		if (chan->wire->sums)
			tt_sum_send(chan, &ctrl->key, sum, ctrl->token);
		tt_pieces_start(chan, x, ctrl);
		return true;
	}
	tt_list_del(&x->link);
	x->state = TT_X_PUTTING;
	x->wr.done = put_done;
	rc = tt_chan_rma(chan, &rma, &x->wr, false);
	if (rc == -EAGAIN)
		return false;
	if (rc < 0) {
		tt_xfer_end(x, NULL, tt_chan_refusal(rc));
		tt_chan_refused(chan, rc);
	} else if (chan->wire->sums) { /* x may have ended and been freed */
		tt_sum_send(chan, &ctrl->key, sum, ctrl->token);
	}
	return true;
}

static struct tt_offer *offer_find(struct tt_chan *chan, const struct tt_key *key)
{
	struct tt_list *bucket = tt_table_bucket(&chan->wire->offers, chan->peer, key), *l, *tmp;

	tt_list_each(l, tmp, bucket)
	{
		struct tt_offer *o = tt_container(l, struct tt_offer, link);

		if (o->peer == chan->peer && tt_key_equal(&o->ctrl.key, key))
			return o;
	}
	return NULL;
}

bool tt_needs_offer(const struct tt_chan *chan, const struct tt_xfer *x)
{
	return x->kind == TT_XFER_OFFER || (x->kind == TT_XFER_KEYED && x->len > chan->eager);
}

static bool wants_offer(struct tt_chan *chan, const struct tt_xfer *x)
{
	struct tt_flow *flow;

	if (tt_needs_offer(chan, x))
		return true;
	flow = tt_flow_get(chan, x->key.comm);
	return flow && flow->stopped;
}

/* Tries to start x; false: it must stay queued. */
bool tt_send_now(struct tt_chan *chan, struct tt_xfer *x)
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

void tt_wire_send(struct tt_wire *wire, struct tt_xfer *x)
{
	struct tt_chan *chan = tt_xfer_begin(wire, x);

	if (!chan)
		return;
	/* Keeps the order of transfers that wait for room, so that none starves. */
	if (chan->state == TT_CHAN_OPEN && tt_list_empty(&chan->sendq) && tt_send_now(chan, x))
		return;
	if (chan->state == TT_CHAN_FAILED) {
		tt_xfer_end(x, NULL, chan->status);
		return;
	}
	tt_list_del(&x->link);
	tt_chan_queue(chan, x);
}

void tt_send_offer(struct tt_chan *chan, const struct tt_ctrl *ctrl)
{
	struct tt_list *bucket = tt_table_bucket(&chan->wire->sends, chan->peer, &ctrl->key), *l,
		       *tmp;
	struct tt_wire *wire = chan->wire;
	struct tt_offer *o;

	tt_list_each(l, tmp, bucket)
	{
		struct tt_xfer *x = tt_container(l, struct tt_xfer, link);

		if (x->chan != chan || !tt_key_equal(&x->key, &ctrl->key))
			continue;
		if (put_to_offer(chan, x, ctrl))
			return;
		/* No room: x waits in the queue, where it finds the offer again. */
		tt_chan_queue(chan, x);
		break;
	}
	if (tt_list_empty(&wire->free_offer)) {
		o = tt_reserve_malloc(sizeof(*o));
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
	wire->params.early(wire->params.arg, o->peer, &ctrl->key, ctrl->fprint, true);
}
