/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * End-to-end checksums of messages (TUTTI_CHECKSUM; rank 0's setting applies to all ranks): XXH3,
 * 64 bits.
 *
 * The checksum of an eager message is in its head and covers head and payload; it is verified
 * before either is used. The checksum of a payload put into an offer follows in a control message,
 * in any order with the note: the receive ends when both have come. A mismatch ends the channel,
 * as no data of it can be trusted, and with it the call. A notifying put into a window rings no
 * note: when the put is in place, a control message asks the target to compare and to ring, and the
 * put ends with the target's reply: later puts may change the bytes. Not covered: control messages,
 * which the transport carries; other one-sided operations, whose target takes no part; and memory
 * shared by ranks of a host.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include "lib/reduce/xxh.h"
#include "lib/wire/wire_internal.h"

uint64_t tt_sum(const void *data, size_t len)
{
	return tt_reduce_xxh(data, len, 0);
}

void tt_sum_head(struct tt_eager_head *head)
{
	head->sum = 0;
	head->sum = tt_sum(head, sizeof(*head) + head->len);
}

static void damaged(struct tt_chan *chan, const char *why)
{
	const struct tt_wire_params *p = &chan->wire->params;

	p->damaged(p->arg, chan->peer, why);
	tt_chan_fail(chan, -EBADMSG, "%s", why);
}

static void bad_message(struct tt_chan *chan, const char *what, size_t len)
{
	char why[160];

	snprintf(why, sizeof(why), "%s of up to %zu bytes arrived damaged: checksum mismatch", what,
		 len);
	damaged(chan, why);
}

bool tt_sum_check(struct tt_chan *chan, struct tt_eager_head *head)
{
	uint64_t sum = head->sum;

	if (head->len <= chan->slot_size - sizeof(*head)) {
		head->sum = 0;
		if (tt_sum(head, sizeof(*head) + head->len) == sum)
			return true;
	}
	bad_message(chan, "a message", chan->slot_size);
	return false;
}

/* Compares when payload and checksum have both come. */
static void compare(struct tt_xfer *x)
{
	struct tt_chan *chan = x->chan;
	const void *data = x->bounce_region ? x->bounce : x->buf;

	if (tt_sum(data, x->len) == x->sum)
		tt_xfer_complete(chan->wire, x);
	else
		bad_message(chan, "a payload", x->len);
}

void tt_sum_landed(struct tt_xfer *x)
{
	x->landed = true;
	if (x->summed)
		compare(x);
}

void tt_sum_ctrl(struct tt_chan *chan, const struct tt_ctrl *ctrl)
{
	struct tt_token *t = tt_token_find(chan->wire, ctrl->token);
	struct tt_xfer *x = t && t->kind == TT_TOKEN_XFER ? t->target : NULL;

	if (!x || x->chan != chan || x->summed)
		return; /* taken back in the meantime */
	x->sum = ctrl->fprint;
	x->summed = true;
	if (x->landed)
		compare(x);
}

void tt_sum_send(struct tt_chan *chan, const struct tt_key *key, uint64_t sum, uint32_t token)
{
	struct tt_ctrl ctrl = {.kind = TT_CTRL_SUM, .token = token, .key = *key, .fprint = sum};

	tt_chan_send_ctrl(chan, &ctrl);
}

int tt_wire_ring(struct tt_wire *wire, int peer, struct tt_atomic *at, uint64_t len, uint64_t sum)
{
	struct tt_chan *chan = wire->chan[peer];

	if (!chan || chan->state != TT_CHAN_OPEN)
		return -ENOTCONN;
	at->device = false;
	at->operand = len;
	at->compare = sum;
	tt_amo_init(chan, at);
	return tt_amo_ask(chan, at, TT_CTRL_RING);
}

static void bad_put(struct tt_chan *chan, const struct tt_ctrl *ctrl)
{
	char what[160];

	snprintf(what, sizeof(what),
		 "a notified put of %" PRIu64 " bytes to offset %" PRIu64
		 " of a window arrived damaged, or another put to the same bytes came meanwhile: "
		 "checksum mismatch",
		 ctrl->len, ctrl->addr);
	damaged(chan, what);
}

void tt_sum_ring(struct tt_chan *chan, const struct tt_ctrl *ctrl)
{
	struct tt_token *t = tt_token_find(chan->wire, ctrl->token);
	struct tt_bell *bell = t && t->kind == TT_TOKEN_BELL ? t->target : NULL;
	struct tt_ctrl reply = {.kind = TT_CTRL_AMO_REPLY, .token = (uint32_t)ctrl->rkey.word[1]};
	const void *data =
		bell && bell->put ? bell->put(bell, chan->peer, ctrl->addr, ctrl->len) : NULL;

	if (!bell) { /* the window was freed in the meantime */
		reply.len = (uint64_t)(int64_t)-EACCES;
	} else if (!data) {
		tt_chan_fail(chan, -EPROTO, "a notification without a matching put");
		return;
	} else if (tt_sum(data, ctrl->len) != ctrl->fprint) {
		bad_put(chan, ctrl);
		return;
	} else {
		bell->ring(bell);
	}
	tt_chan_send_ctrl(chan, &reply);
}

bool tt_wire_has_checksums(const struct tt_wire *wire)
{
	return wire->sums;
}

void tt_wire_checksums(struct tt_wire *wire, bool on)
{
	tt_wire_lock(wire);
	wire->sums = on;
	tt_wire_unlock(wire);
}
