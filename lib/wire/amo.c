/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * 64-bit atomics. A CPU executes them, so that all atomics on one word, from all origins, are
 * atomic to each other: the origin's CPU if it has the word mapped, else the target's, asked by a
 * control message. A device's atomics are not atomic with a CPU's. If all origins have agreed on
 * device atomics, only these are used, also by the target, which then has a connection to itself
 * (loopback.c).
 */
#include <errno.h>

#include "lib/wire/wire_internal.h"

/* Transports with these execute amo by the origin's CPU on mapped memory. */
#define BY_CPU (TT_CAP_AMO | TT_CAP_MAP)

static void atomic_done(struct tt_wr *wr, int status)
{
	struct tt_atomic *at = tt_container(wr, struct tt_atomic, wr);

	if (at->asked)
		tt_token_free(at->chan->wire, at->token);
	at->asked = false;
	if (at->device && !status)
		at->old = *at->result;
	at->done(at, status);
}

/* Asks the transport to execute it. */
static int execute(struct tt_chan *chan, struct tt_atomic *at)
{
	struct tt_amo amo = {.op = at->op,
			     .operand = at->operand,
			     .compare = at->compare,
			     .result = at->device ? at->result : &at->old,
			     .mr = at->device ? at->region->mr[chan->tp] : NULL,
			     .remote = at->remote,
			     .rkey = at->rkey,
			     .user = &at->wr};
	int rc = chan->ep->ops->amo(chan->ep, &amo);

	if (rc == TT_STARTED) {
		tt_list_add(&chan->inflight, &at->wr.link);
		chan->wire->inflight++;
	} else if (rc == TT_FINISHED) {
		atomic_done(&at->wr, 0);
		rc = 0;
	}
	return rc;
}

int tt_amo_ask(struct tt_chan *chan, struct tt_atomic *at, enum tt_ctrl_kind kind)
{
	struct tt_ctrl ctrl = {.kind = kind,
			       .token = at->bell,
			       .fprint = at->compare,
			       .addr = at->offset,
			       .len = at->operand};
	int err = tt_token_new(chan->wire, TT_TOKEN_AMO, at, &at->token);

	if (err)
		return err;
	at->asked = true;
	ctrl.rkey.word[0] = at->op;
	ctrl.rkey.word[1] = at->token;
	/*
	 * Under way from here: if the channel turns out broken during the send, its end ends the
	 * atomic.
	 */
	tt_list_add(&chan->inflight, &at->wr.link);
	chan->wire->inflight++;
	tt_chan_send_ctrl(chan, &ctrl);
	return 0;
}

static int by_device(struct tt_chan *chan, struct tt_atomic *at)
{
	struct tt_wire *wire = chan->wire;

	if (chan->state == TT_CHAN_FAILED)
		return tt_chan_unreached(chan);
	if (chan->state != TT_CHAN_OPEN)
		return -EAGAIN;
	if (wire->tp[chan->tp].place != at->place || !at->rkey)
		return tt_fail_rank(
			-EOPNOTSUPP, chan->peer, tt_boot_host(wire->boot, chan->peer),
			"rank %d is reached over %s, and all ranks have agreed that devices "
			"execute the atomics on this window",
			chan->peer, wire->tp[chan->tp].name);
	return execute(chan, at);
}

void tt_amo_init(struct tt_chan *chan, struct tt_atomic *at)
{
	at->chan = chan;
	at->wr.done = atomic_done;
	at->wr.lands[0] = at->device ? at->result : NULL;
	at->wr.lands[1] = NULL;
	at->asked = false;
	tt_list_init(&at->wr.link);
}

int tt_wire_atomic(struct tt_wire *wire, int peer, struct tt_atomic *at)
{
	tt_amo_init(wire->chan[peer], at);
	if (at->device) {
		at->chan = peer == wire->params.rank ? tt_loop_chan(wire) : at->chan;
		return by_device(at->chan, at);
	}
	if (at->rkey && (wire->tp[at->chan->tp].tp->caps & BY_CPU) == BY_CPU)
		return execute(at->chan, at);
	return tt_amo_ask(at->chan, at, TT_CTRL_AMO);
}

void tt_amo_request(struct tt_chan *chan, const struct tt_ctrl *ctrl)
{
	struct tt_token *t = tt_token_find(chan->wire, ctrl->token);
	struct tt_bell *bell = t && t->kind == TT_TOKEN_BELL ? t->target : NULL;
	struct tt_ctrl reply = {.kind = TT_CTRL_AMO_REPLY, .token = (uint32_t)ctrl->rkey.word[1]};
	int err = -EACCES;

	if (ctrl->rkey.word[0] != TT_AMO_ADD && ctrl->rkey.word[0] != TT_AMO_CAS)
		err = -EPROTO;
	else if (bell && bell->amo)
		err = bell->amo(bell, chan->peer, (enum tt_amo_op)ctrl->rkey.word[0], ctrl->len,
				ctrl->fprint, ctrl->addr, &reply.addr);
	reply.len = (uint64_t)(int64_t)err;
	tt_chan_send_ctrl(chan, &reply);
}

void tt_amo_reply(struct tt_chan *chan, const struct tt_ctrl *ctrl)
{
	struct tt_token *t = tt_token_find(chan->wire, ctrl->token);
	struct tt_atomic *at = t && t->kind == TT_TOKEN_AMO ? t->target : NULL;
	int64_t status = (int64_t)ctrl->len;

	if (!at || at->chan != chan)
		return; /* it was taken back */
	if (status > 0 || status < INT32_MIN)
		status = -EPROTO;
	at->old = ctrl->addr;
	tt_list_del(&at->wr.link);
	chan->wire->inflight--;
	atomic_done(&at->wr, (int)status);
}
