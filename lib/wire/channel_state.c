/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A channel from its creation to its end: open, failed, closed, freed. connect.c agrees with the
 * peer on how to open it.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/wire/wire_internal.h"

void tt_chan_init(struct tt_chan *chan, struct tt_wire *wire, int peer)
{
	chan->wire = wire;
	chan->peer = peer;
	tt_list_init(&chan->sendq);
	tt_list_init(&chan->pieceq);
	tt_list_init(&chan->recvq);
	tt_list_init(&chan->ctrlq);
	tt_list_init(&chan->early_ctrl);
	tt_list_init(&chan->inflight);
	tt_list_init(&chan->orphans);
	tt_list_init(&chan->flows);
	tt_list_init(&chan->busy);
}

struct tt_chan *tt_chan_get(struct tt_wire *wire, int peer)
{
	struct tt_chan *chan = wire->chan[peer];

	if (chan)
		return chan;
	chan = calloc(1, sizeof(*chan));
	if (!chan) {
		tt_fail(-ENOMEM, "no memory for a channel to rank %d", peer);
		return NULL;
	}
	tt_chan_init(chan, wire, peer);
	wire->chan[peer] = chan;
	wire->stats.allocations++;
	return chan;
}

void tt_chan_close_ep(struct tt_chan *chan, int status)
{
	if (chan->ep) {
		tt_wire_drop_events(chan->wire, chan->ep, NULL);
		chan->ep->tp->ops->ep_close(chan->ep);
		chan->wire->tp[chan->tp].endpoints--;
		chan->ep = NULL;
	}
	while (!tt_list_empty(&chan->inflight)) {
		struct tt_wr *wr = tt_container(chan->inflight.next, struct tt_wr, link);

		tt_wire_drop_events(chan->wire, NULL, wr);
		tt_list_del(&wr->link);
		chan->wire->inflight--;
		tt_chan_withhold(chan, wr->lands[0]);
		tt_chan_withhold(chan, wr->lands[1]);
		wr->done(wr, status);
	}
	tt_orphans_free(chan);
}

void tt_chan_shut(struct tt_chan *chan, bool mine, uint64_t comm)
{
	struct tt_wire *wire = chan->wire;

	wire->params.fenced(wire->params.arg, chan->peer, mine, comm);
	chan->state = TT_CHAN_FAILED; /* while transfers end */
	chan->status = -TUTTI_EABORTED;
	tt_list_del(&chan->busy);
	tt_chan_close_ep(chan, -TUTTI_EABORTED);
	tt_chan_fail_xfers(chan, -TUTTI_EABORTED);
	chan->state = TT_CHAN_CLOSED;
	chan->again = false;
	chan->candidate = chan->attempt = 0;
	chan->reason[0] = 0;
}

void tt_chan_fail(struct tt_chan *chan, int status, const char *fmt, ...)
{
	va_list ap;

	if (chan->state == TT_CHAN_FAILED)
		return;
	va_start(ap, fmt);
	vsnprintf(chan->reason, sizeof(chan->reason), fmt, ap);
	va_end(ap);
	chan->state = TT_CHAN_FAILED;
	chan->status = status;
	tt_list_del(&chan->busy);
	tt_debug("channel to rank %d failed: %s", chan->peer, chan->reason);
	tt_chan_close_ep(chan, status);
	tt_chan_fail_xfers(chan, status);
}

void tt_chan_retry(struct tt_chan *chan)
{
	if (!chan->again)
		return;
	chan->again = chan->shortage_there = false;
	chan->shortage = 0;
	chan->reason[0] = 0;
	chan->state = TT_CHAN_CLOSED;
}

void tt_chan_fresh(struct tt_chan *chan)
{
	struct tt_wire *wire = chan->wire;
	struct tt_list *l, *tmp;
	int i;

	for (i = 0; i < TT_BUCKETS; i++) {
		tt_list_each(
			l, tmp,
			&wire->early.bucket[i]) if (tt_container(l, struct tt_early, link)->peer ==
						    chan->peer)
			tt_early_drop(wire, tt_container(l, struct tt_early, link));
		tt_list_each(
			l, tmp,
			&wire->offers.bucket[i]) if (tt_container(l, struct tt_offer, link)->peer ==
						     chan->peer)
		{
			tt_list_del(l);
			tt_list_add(&wire->free_offer, l);
			wire->nearly--;
		}
	}
	while (!tt_list_empty(&chan->ctrlq)) {
		l = chan->ctrlq.next;
		tt_list_del(l);
		tt_list_add(&wire->free_ctrl, l);
	}
	while (!tt_list_empty(&chan->early_ctrl)) {
		l = chan->early_ctrl.next;
		tt_list_del(l);
		tt_list_add(&wire->free_ctrl, l);
	}
	chan->freed = 0;
	chan->held = 0;
	chan->early_notes = 0;
}

static int find_tp(struct tt_wire *wire, const char *name)
{
	int i;

	for (i = 0; i < wire->ntps; i++)
		if (!strcmp(wire->tp[i].name, name))
			return i;
	return -1;
}

/* The reason for this transport: the relation of the hosts and, on one host, why it is not shm. */
static void why_this(struct tt_chan *chan, char *why, size_t size)
{
	struct tt_wire *wire = chan->wire;
	const char *list = wire->env->transport.text;

	if (chan->peer == wire->params.rank) {
		snprintf(why, size, "it is this process");
		return;
	}
	if (!tt_wire_same_host(wire, chan->peer, why, size) ||
	    !strcmp(wire->tp[chan->tp].name, "shm"))
		return;
	if (find_tp(wire, "shm") < 0 && *list)
		snprintf(why, size, "the host is the same, but TUTTI_TRANSPORT=%.60s has no shm",
			 list);
	else if (find_tp(wire, "shm") < 0)
		snprintf(why, size,
			 "the host is the same, but shm is not usable here; "
			 "tutti_info says why");
	else if (chan->active && chan->reason[0])
		snprintf(why, size, "the host is the same, but %.160s", chan->reason);
	else
		snprintf(why, size, "the host is the same, but shm did not work from rank %d",
			 chan->peer);
}

static void opened(struct tt_chan *chan)
{
	struct tt_wire *wire = chan->wire;
	struct tt_ctrl hello = {.kind = TT_CTRL_CREDIT};
	const char *detail = wire->tp[chan->tp].tp->detail;
	char why[200];

	chan->state = TT_CHAN_OPEN;
	chan->shortage = 0; /* of attempts, which no later failure is due to */
	chan->shortage_there = false;
	if (chan->heard)
		tt_mem_give_back(wire->memory, chan);
	wire->stats.connections++;
	why_this(chan, why, sizeof(why));
	tt_info("rank %d is reached over %s: %s", chan->peer,
		detail[0] ? detail : wire->tp[chan->tp].name, why);
	tt_slower_check(chan);
	if (chan->peer != wire->params.rank && (chan->active || chan->generation))
		tt_chan_send_ctrl(chan, &hello); /* releases blocks that the peer withholds for an
						    earlier connection */
	tt_chan_opened(chan);
}

void tt_chan_up(struct tt_chan *chan)
{
	if (chan->state != TT_CHAN_OPENING)
		return;
	chan->up = true;
	if (chan->active || chan->heard)
		opened(chan);
}

void tt_chan_heard(struct tt_chan *chan)
{
	chan->heard = true;
	if (chan->state == TT_CHAN_OPEN)
		tt_mem_give_back(chan->wire->memory, chan);
	else if (chan->state == TT_CHAN_OPENING && chan->up)
		opened(chan);
}

const char *tt_wire_why(const struct tt_wire *wire, int peer)
{
	const struct tt_chan *chan = wire->chan[peer];

	return chan && chan->state == TT_CHAN_FAILED ? chan->reason : NULL;
}

int tt_wire_short_rank(const struct tt_wire *wire, int peer)
{
	const struct tt_chan *chan = wire->chan[peer];
	bool there = chan && chan->state == TT_CHAN_FAILED && chan->shortage_there;

	return there ? peer : wire->params.rank;
}

int tt_chan_unreached(const struct tt_chan *chan)
{
	const struct tt_wire *wire = chan->wire;
	int rank = chan->peer;

	if (tt_is_shortage(chan->status))
		rank = tt_wire_short_rank(wire, rank);
	return tt_fail_rank(chan->status, rank, tt_boot_host(wire->boot, rank),
			    "rank %d can't be reached: %s", chan->peer, chan->reason);
}

bool tt_wire_may_be_gone(const struct tt_wire *wire, int peer)
{
	const struct tt_chan *chan = wire->chan[peer];

	return chan && chan->state == TT_CHAN_FAILED && (chan->gone || chan->agreed);
}

void tt_wire_peer_gone(struct tt_wire *wire, int rank)
{
	struct tt_chan *chan;
	int i;

	tt_wire_lock(wire);
	for (i = 0; i < wire->ntps; i++)
		wire->tp[i].tp->peer_lost = true;
	chan = rank == wire->params.rank ? NULL : tt_chan_get(wire, rank);
	if (chan) {
		chan->gone = true;
		tt_chan_retry(chan); /* there is a better reason now */
		if (chan->ep)
			chan->ep->dead = true;
		tt_chan_fail(chan, -TUTTI_EPEER, "the process is gone");
	}
	tt_wire_unlock(wire);
}

void tt_wire_fence(struct tt_wire *wire, int peer, uint64_t comm, const char *why)
{
	if (wire->chan[peer])
		tt_chan_fence(wire->chan[peer], comm, why);
	if (peer == wire->params.rank)
		tt_loop_fence(wire, why);
}

void tt_free_list(struct tt_list *list, size_t offset)
{
	while (!tt_list_empty(list)) {
		struct tt_list *l = list->next;

		tt_list_del(l);
		free((char *)l - offset);
	}
}

void tt_chan_free(struct tt_chan *chan)
{
	tt_chan_fail(chan, -ECANCELED, "closed");
	tt_mem_give_back(chan->wire->memory, chan);
	tt_free_list(&chan->early_ctrl, offsetof(struct tt_ctrl_item, link));
	tt_free_list(&chan->ctrlq, offsetof(struct tt_ctrl_item, link));
	tt_free_list(&chan->flows, offsetof(struct tt_flow, link));
	free(chan->said);
	if (chan->slots)
		tt_mem_free(chan->wire->memory, chan->slots);
	free(chan);
}
