/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A connection of this process with itself through a device transport. A device's atomics on a
 * word are atomic with each other only, so if peers use them on memory of this process, it must
 * use them too.
 */
#include <errno.h>
#include <stdlib.h>

#include "lib/wire/wire_internal.h"

struct tt_loop {
	struct tt_chan chan; /* for atomics; owns one of the two endpoints */
	struct tt_ep *end;   /* the other endpoint, at which no operation starts */
	int up;
};

struct tt_chan *tt_loop_chan(struct tt_wire *wire)
{
	return wire->loop ? &wire->loop->chan : NULL;
}

static void close_end(struct tt_loop *loop)
{
	struct tt_wire *wire = loop->chan.wire;

	if (!loop->end)
		return;
	tt_wire_drop_events(wire, loop->end, NULL);
	loop->end->tp->ops->ep_close(loop->end);
	wire->tp[loop->chan.tp].endpoints--;
	loop->end = NULL;
}

static void end(struct tt_loop *loop, int status, const char *why)
{
	tt_chan_fail(&loop->chan, status, "%s", why);
	close_end(loop);
}

void tt_loop_fence(struct tt_wire *wire, const char *why)
{
	if (wire->loop && !tt_list_empty(&wire->loop->chan.inflight))
		end(wire->loop, -TUTTI_EABORTED, why);
}

void tt_loop_close(struct tt_wire *wire)
{
	if (!wire->loop)
		return;
	end(wire->loop, -ECANCELED, "closed");
	free(wire->loop);
	wire->loop = NULL;
}

void tt_loop_event(struct tt_wire *wire, const struct tt_event *ev)
{
	struct tt_loop *loop = wire->loop;

	if (loop && ev->kind == TT_EV_UP && ++loop->up == 2)
		loop->chan.state = TT_CHAN_OPEN;
	else if (loop && ev->kind == TT_EV_DOWN)
		end(loop, -TUTTI_ETRANSPORT, ev->data ? ev->data : tutti_strerror(ev->status));
}

static int open_ends(struct tt_loop *loop, struct tt_tp *tp)
{
	unsigned char blob[2][TT_TP_BLOB_MAX];
	size_t len[2] = {TT_TP_BLOB_MAX, TT_TP_BLOB_MAX};
	int *endpoints = &loop->chan.wire->tp[loop->chan.tp].endpoints, err;

	err = tp->ops->ep_open(tp, &loop->chan.ep, blob[0], &len[0]);
	if (err)
		return err;
	++*endpoints;
	err = tp->ops->ep_open(tp, &loop->end, blob[1], &len[1]);
	if (err)
		return err;
	++*endpoints;
	loop->chan.ep->user = loop->end->user = NULL;
	err = tp->ops->ep_connect(loop->end, blob[0], len[0], false);
	return err ? err : tp->ops->ep_connect(loop->chan.ep, blob[1], len[1], true);
}

static int open_loop(struct tt_wire *wire, int tp)
{
	struct tt_loop *loop = wire->loop;
	int err;

	if (loop)
		return loop->chan.tp == tp && loop->chan.state != TT_CHAN_FAILED ? 0 : -EOPNOTSUPP;
	loop = calloc(1, sizeof(*loop));
	if (!loop)
		return tt_fail(-ENOMEM, "no memory for a connection");
	tt_chan_init(&loop->chan, wire, wire->params.rank);
	loop->chan.tp = tp;
	loop->chan.state = TT_CHAN_OPENING;
	wire->loop = loop;
	err = open_ends(loop, wire->tp[tp].tp);
	if (err)
		tt_loop_close(wire);
	return err;
}

int tt_wire_amo_place(struct tt_wire *wire, const int *ranks, int n)
{
	int places[TT_TP_MAX], tp = -1, i, first;

	for (i = 0; i < n; i++) {
		struct tt_chan *chan = wire->chan[ranks[i]];

		if (ranks[i] == wire->params.rank)
			continue;
		if (chan && chan->state == TT_CHAN_OPEN)
			first = chan->tp;
		else if (tt_card_transports(wire, ranks[i], places, TT_TP_MAX))
			first = tt_wire_at_place(wire, places[0]);
		else
			return -1;
		if (tp < 0)
			tp = first;
		if (first < 0 || first != tp || !(wire->tp[tp].tp->caps & TT_CAP_AMO_DEVICE))
			return -1;
	}
	if (tp < 0 || open_loop(wire, tp))
		return -1;
	return wire->tp[tp].place;
}
