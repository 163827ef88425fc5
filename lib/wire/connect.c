/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Opening a channel, on first use.
 *
 * Both ends' cards (card.c) determine the transports a pair may use, best first. The end that needs
 * the channel asks over the control tree: CONN_REQ {transport, its endpoint's address, its slots}.
 * Its peer opens an endpoint and answers CONN_REP {address, slots}, or refuses; after a refusal the
 * asking end tries the next transport. When both ends ask at once, the lower rank's request counts.
 * Addresses and keys thus travel over authenticated links only. Both ends log the choice in one
 * line.
 *
 * A connection that was closed while both ends lived, to take back a transfer, may be reopened.
 * Messages carry its *generation*: an end that receives a higher generation than its own learns
 * that its connection was closed. The end that closes also sends FENCED at once. All communicators
 * that share the connection have failed by then, so no message is missed. A connection that could
 * not be made for lack of memory or descriptors counts, too: its next user tries again.
 *
 * The end that was asked sends nothing until it has received over the new endpoint: only then has
 * the attempt succeeded at both ends.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "lib/wire/wire_internal.h"

/* In a reply: the sender has given up. It answers no attempt of the receiver. */
#define TT_NO_ATTEMPT UINT32_MAX
#define PROBE (1 << 20) /* bytes that an attempt takes, about */

/* The body of both messages. doc/WIRE.md. */
struct conn_msg {
	uint32_t attempt, generation;
	int32_t status; /* reply: 0, or the error code */
	uint32_t yours; /* reply: not 0: memory or descriptors are short at the receiver */
	char transport[16];
	char text[TT_REASON_MAX]; /* reply with an error: its text */
	uint64_t slots_addr;
	struct tt_rkey slots_rkey;
	uint32_t nslots, slot_size;
	uint32_t token; /* rings slot 0 */
	uint32_t blob_len;
	unsigned char blob[TT_TP_BLOB_MAX];
};
_Static_assert(sizeof(struct conn_msg) == 1000, "doc/WIRE.md");

struct fenced_msg {
	uint32_t generation;
};
_Static_assert(sizeof(struct fenced_msg) == 4, "doc/WIRE.md");

size_t tt_slot_size(const struct tt_env *env)
{
	return sizeof(struct tt_eager_head) + tt_wire_eager_max(env);
}

size_t tt_wire_peer_bytes(const struct tt_env *env, const struct tt_tp_ops *tp)
{
	return (size_t)env->slots.number * tt_slot_size(env) + sizeof(struct tt_chan) +
	       (tp->peer_bytes ? tp->peer_bytes(env) : 0);
}

static int slots_new(struct tt_chan *chan)
{
	struct tt_wire *wire = chan->wire;
	int err;

	if (chan->slots)
		return 0;
	chan->nslots = (int)wire->env->slots.number;
	chan->slot_size = tt_slot_size(wire->env);
	err = tt_mem_alloc(wire->memory, (size_t)chan->nslots * chan->slot_size,
			   (void **)&chan->slots, &chan->slots_region);
	return err;
}

static int open_end(struct tt_chan *chan, int tp, struct conn_msg *msg)
{
	struct tt_wire *wire = chan->wire;
	size_t len = sizeof(msg->blob);
	int err;

	err = slots_new(chan);
	if (err)
		return err;
	if (!chan->slots_region->mr[tp])
		return tt_fail(-TUTTI_ETRANSPORT, "the pool is not registered with %s",
			       wire->tp[tp].name);
	err = wire->tp[tp].tp->ops->ep_open(wire->tp[tp].tp, &chan->ep, msg->blob, &len);
	if (err)
		return err;
	chan->ep->user = chan;
	chan->tp = tp;
	wire->tp[tp].endpoints++;
	snprintf(msg->transport, sizeof(msg->transport), "%s", wire->tp[tp].name);
	msg->attempt = (uint32_t)chan->attempt;
	msg->generation = chan->generation;
	msg->slots_addr = (uintptr_t)chan->slots;
	msg->slots_rkey = chan->slots_region->mr[tp]->rkey;
	msg->nslots = (uint32_t)chan->nslots;
	msg->slot_size = (uint32_t)chan->slot_size;
	msg->token = tt_slot_token(chan, 0);
	msg->blob_len = (uint32_t)len;
	return 0;
}

/* Reads the peer's slots and starts connecting to its endpoint. */
static int connect_end(struct tt_chan *chan, const struct conn_msg *msg, bool active)
{
	size_t mine = chan->slot_size, its = msg->slot_size;

	if (msg->nslots < 1 || msg->nslots > TT_SLOTS_MAX || its < sizeof(struct tt_eager_head) ||
	    msg->blob_len > sizeof(msg->blob))
		return tt_fail(-EPROTO, "malformed connection message");
	tt_chan_fresh(chan);
	chan->tx_addr = msg->slots_addr;
	chan->tx_rkey = msg->slots_rkey;
	chan->tx_free = msg->nslots == 64 ? ~0ull : (1ull << msg->nslots) - 1;
	chan->tx_slot_size = its;
	chan->tx_token = msg->token;
	chan->eager = (mine < its ? mine : its) - sizeof(struct tt_eager_head);
	chan->state = TT_CHAN_OPENING;
	chan->active = active;
	chan->up = chan->heard = chan->hears_brief = false;
	return chan->ep->tp->ops->ep_connect(chan->ep, msg->blob, msg->blob_len, active);
}

/* A channel to this process itself: both ends are one endpoint of transport self. */
static void connect_self(struct tt_chan *chan)
{
	struct conn_msg msg = {0};
	int err, i;

	for (i = 0; i < chan->wire->ntps; i++)
		if (!strcmp(chan->wire->tp[i].name, "self"))
			break;
	err = i < chan->wire->ntps ? open_end(chan, i, &msg) : -TUTTI_ETRANSPORT;
	if (!err)
		err = connect_end(chan, &msg, true);
	if (!err)
		return;
	tt_chan_fail(chan, tt_is_shortage(err) ? err : -TUTTI_ETRANSPORT, "transport self: %s",
		     tt_fail_text(err));
	chan->again = tt_is_shortage(err);
}

bool tt_has_room(size_t size)
{
	void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	return p != MAP_FAILED && !munmap(p, size);
}

/*
 * Libraries below do not always say that they lack memory: they close a connection, or ask to try
 * again.
 */
static int or_shortage(const struct tt_wire *wire, int err)
{
	if (!err || tt_is_shortage(err) || tt_has_room(PROBE))
		return err;
	return tt_fail(-ENOMEM, "%s; rank %d lacks memory for a connection", tt_fail_text(err),
		       wire->params.rank);
}

/* The first counts: there, at the peer, or here. */
static void note_shortage(struct tt_chan *chan, int status, bool there)
{
	if (!tt_is_shortage(status) || chan->shortage)
		return;
	chan->shortage = status;
	chan->shortage_there = there;
}

static void refuse(struct tt_wire *wire, int peer, uint32_t generation, uint32_t attempt,
		   int status)
{
	struct conn_msg msg = {.attempt = attempt, .generation = generation, .status = status};

	if (wire->chan[peer]) {
		note_shortage(wire->chan[peer], status, false);
		msg.yours = wire->chan[peer]->shortage_there;
	}
	snprintf(msg.text, sizeof(msg.text), "rank %d: %s", wire->params.rank,
		 tt_fail_text(status));
	tt_ctl_send(wire->boot, peer, TT_CTL_CONN_REP, &msg, sizeof(msg));
}

/* Keeps the last message, to repeat it in case it is lost. */
static void keep(struct tt_chan *chan, const struct conn_msg *msg)
{
	if (!chan->said)
		chan->said = malloc(sizeof(*msg));
	if (chan->said)
		*chan->said = *msg;
}

/* Adds why an attempt failed to the reasons of earlier ones. */
static void add_reason(struct tt_chan *chan, const char *transport, const char *why)
{
	size_t used = strlen(chan->reason);
	bool named = !strncmp(why, transport, strlen(transport));

	snprintf(chan->reason + used, sizeof(chan->reason) - used, "%s%s%s%s", used ? "; " : "",
		 named ? "" : transport, named ? "" : ": ", why);
}

/* Asks the peer for the next transport that both can use. */
static void request(struct tt_chan *chan)
{
	struct tt_wire *wire = chan->wire;
	char why[TT_REASON_MAX];
	int places[TT_TP_MAX], n, tp, err = 0, status;
	struct conn_msg msg;

	n = tt_card_transports(wire, chan->peer, places, TT_TP_MAX);
	for (; chan->candidate < n; chan->candidate++) {
		memset(&msg, 0, sizeof(msg));
		chan->attempt++;
		err = tt_open_place(wire, places[chan->candidate], &tp);
		if (!err && (err = or_shortage(wire, open_end(chan, tp, &msg))))
			add_reason(chan, wire->tp[tp].name, tt_fail_text(err));
		note_shortage(chan, err, false);
		if (!err) {
			chan->state = TT_CHAN_REQUESTED;
			keep(chan, &msg);
			tt_ctl_send(wire->boot, chan->peer, TT_CTL_CONN_REQ, &msg, sizeof(msg));
			return;
		}
		if (tt_slower_forbidden(chan, places[chan->candidate]))
			break;
	}
	snprintf(why, sizeof(why), "%s", chan->reason);
	if (!chan->shortage || !why[0])
		tt_card_refusals(wire, chan->peer, why, sizeof(why));
	tt_err("no transport to rank %d (%s): %s", chan->peer, tt_boot_host(wire->boot, chan->peer),
	       why);
	status = chan->shortage ? chan->shortage : -TUTTI_ETRANSPORT;
	refuse(wire, chan->peer, chan->generation, TT_NO_ATTEMPT, tt_fail(status, "%s", why));
	tt_chan_fail(chan, status, "no transport: %s", why);
	if (chan->shortage) {
		chan->again = true;
		chan->generation++; /* as the peer does, and attempts go on counting */
	}
}

void tt_chan_connect(struct tt_chan *chan)
{
	if (chan->peer == chan->wire->params.rank) {
		connect_self(chan);
		return;
	}
	chan->candidate = 0;
	chan->reason[0] = 0;
	chan->agreed = false;
	chan->shortage = 0;
	chan->shortage_there = false;
	request(chan);
}

/* This attempt has failed: starts the next, if this is the asking end. */
static void next_attempt(struct tt_chan *chan, const char *why)
{
	int place = chan->wire->tp[chan->tp].place;

	tt_debug("rank %d over %s: %s", chan->peer, chan->wire->tp[chan->tp].name, why);
	add_reason(chan, chan->wire->tp[chan->tp].name, why);
	tt_chan_close_ep(chan, -TUTTI_ETRANSPORT);
	chan->candidate = tt_slower_forbidden(chan, place) ? TT_TP_MAX : chan->candidate + 1;
	request(chan);
}

/* The transport of this name, chosen by a peer. */
static int find_or_open(struct tt_wire *wire, const char *name, int *tp)
{
	int i;

	for (i = 0; tt_transports[i]; i++)
		if (!strcmp(tt_transports[i]->name, name))
			return tt_open_place(wire, i, tp);
	return tt_fail(-EOPNOTSUPP, "rank %d has no transport %s", wire->params.rank, name);
}

static void accept_request(struct tt_chan *chan, struct conn_msg *msg)
{
	struct conn_msg reply = {0};
	uint32_t attempt = msg->attempt;
	int tp, err;

	msg->transport[sizeof(msg->transport) - 1] = 0;
	err = or_shortage(chan->wire, find_or_open(chan->wire, msg->transport, &tp));
	if (err) {
		refuse(chan->wire, chan->peer, chan->generation, attempt, err);
		return;
	}
	err = open_end(chan, tp, &reply);
	if (!err)
		err = connect_end(chan, msg, false);
	err = or_shortage(chan->wire, err);
	if (err) {
		tt_chan_close_ep(chan, err);
		chan->state = TT_CHAN_CLOSED;
		refuse(chan->wire, chan->peer, chan->generation, attempt, err);
		return;
	}
	chan->attempt = (int)attempt;
	reply.attempt = attempt;
	keep(chan, &reply);
	tt_ctl_send(chan->wire->boot, chan->peer, TT_CTL_CONN_REP, &reply, sizeof(reply));
}

void tt_chan_fence(struct tt_chan *chan, uint64_t comm, const char *why)
{
	struct tt_wire *wire = chan->wire;
	struct fenced_msg msg;

	if (chan->state == TT_CHAN_FAILED || chan->state == TT_CHAN_CLOSED)
		return;
	tt_debug("the connection to rank %d is closed: %s", chan->peer, why);
	msg = (struct fenced_msg){.generation = ++chan->generation};
	tt_chan_shut(chan, true, comm);
	/* after the reports that explain the failure of its communicators */
	if (chan->peer != wire->params.rank && wire->boot)
		tt_ctl_send(wire->boot, chan->peer, TT_CTL_FENCED, &msg, sizeof(msg));
}

/* The peer has closed the connection of an earlier generation, even if it looks intact here. */
static void closed_by_peer(struct tt_chan *chan, uint32_t generation)
{
	if (chan->gone)
		return;
	tt_debug("rank %d has closed the connection", chan->peer);
	chan->generation = generation;
	tt_chan_shut(chan, false, 0);
}

void tt_wire_fenced_msg(struct tt_wire *wire, int from, const void *data, size_t len)
{
	struct fenced_msg msg;
	struct tt_chan *chan;

	if (len != sizeof(msg) || !wire->boot)
		return;
	memcpy(&msg, data, sizeof(msg));
	chan = tt_chan_get(wire, from);
	if (chan && msg.generation > chan->generation)
		closed_by_peer(chan, msg.generation);
	tt_wire_wake(wire);
}

void tt_wire_ask_again(struct tt_wire *wire)
{
	struct fenced_msg fenced;
	struct tt_chan *chan;
	int i;

	for (i = 0; i < wire->params.nranks; i++) {
		chan = wire->chan[i];
		if (!chan || chan->gone || i == wire->params.rank)
			continue;
		if (chan->state == TT_CHAN_REQUESTED && chan->said)
			tt_ctl_send(wire->boot, i, TT_CTL_CONN_REQ, chan->said,
				    sizeof(*chan->said));
		fenced = (struct fenced_msg){.generation = chan->generation};
		if (chan->generation)
			tt_ctl_send(wire->boot, i, TT_CTL_FENCED, &fenced, sizeof(fenced));
	}
}

static void handle_request(struct tt_wire *wire, int from, const void *data, size_t len)
{
	struct tt_chan *chan;
	struct conn_msg msg;

	if (len != sizeof(msg) || from == wire->params.rank)
		return;
	memcpy(&msg, data, sizeof(msg));
	chan = tt_chan_get(wire, from);
	if (!chan) {
		refuse(wire, from, msg.generation, msg.attempt, -ENOMEM);
		return;
	}
	if (msg.generation > chan->generation)
		closed_by_peer(chan, msg.generation);
	if (msg.generation < chan->generation) {
		refuse(wire, from, chan->generation, msg.attempt, -ESTALE);
		return;
	}
	tt_chan_retry(chan);
	switch (chan->state) {
	case TT_CHAN_FAILED: /* the peer may have had no channel when the failure was reported */
		refuse(wire, from, chan->generation, msg.attempt,
		       tt_fail(tt_is_shortage(chan->status) ? chan->status : -ECONNABORTED, "%s",
			       chan->reason));
		return;
	case TT_CHAN_OPEN:
		return; /* a stale request: both ends have agreed already */
	case TT_CHAN_REQUESTED:
	case TT_CHAN_OPENING:
		if (chan->state == TT_CHAN_OPENING && !chan->active && chan->said &&
		    msg.attempt == (uint32_t)chan->attempt) { /* the answer was lost */
			tt_ctl_send(wire->boot, from, TT_CTL_CONN_REP, chan->said, sizeof(msg));
			return;
		}
		/*
		 * Both ends ask: the lower rank's request counts. A later attempt replaces an
		 * earlier one.
		 */
		if (chan->active || chan->state == TT_CHAN_REQUESTED)
			if (wire->params.rank < from)
				return;
		tt_chan_close_ep(chan, -ECONNABORTED);
		chan->state = TT_CHAN_CLOSED;
		break;
	case TT_CHAN_CLOSED:
		break;
	}
	accept_request(chan, &msg);
	tt_wire_wake(wire);
}

void tt_wire_conn_req(struct tt_wire *wire, int from, const void *data, size_t len)
{
	struct tt_wire_request *r;

	tt_wire_lock(wire);
	if (wire->boot) {
		handle_request(wire, from, data, len);
	} else {
		r = malloc(sizeof(*r) + len);
		if (r) {
			r->from = from;
			r->len = len;
			memcpy(r->data, data, len);
			tt_list_add(&wire->requests, &r->link);
		}
	}
	tt_wire_unlock(wire);
}

void tt_wire_attach(struct tt_wire *wire, struct tt_boot *boot)
{
	tt_wire_lock(wire);
	wire->boot = boot;
	if (boot) {
		tt_card_longest(wire);
		tt_open_needed(wire);
	}
	while (!tt_list_empty(&wire->requests)) {
		struct tt_wire_request *r =
			tt_container(wire->requests.next, struct tt_wire_request, link);

		tt_list_del(&r->link);
		if (boot)
			handle_request(wire, r->from, r->data, r->len);
		free(r);
	}
	tt_wire_unlock(wire);
}

/*
 * The peer counts its attempts as a closed connection: what waits here makes one of its own, a
 * one-sided operation when it is tried again. If this end has given up, too, operations may have
 * to report that.
 */
static void start_over(struct tt_chan *chan)
{
	chan->generation++;
	if (chan->again)
		return;
	tt_chan_close_ep(chan, -ECONNABORTED);
	chan->state = TT_CHAN_CLOSED;
	if (!tt_list_empty(&chan->sendq) || !tt_list_empty(&chan->recvq))
		tt_chan_connect(chan);
}

/*
 * The peer has no more ways to try. A lack of memory ends its attempts only: what waits here may
 * have begun after them.
 */
static void given_up(struct tt_chan *chan, const struct conn_msg *msg)
{
	bool failed = chan->state == TT_CHAN_FAILED && !chan->again;
	int err;

	if (tt_is_shortage(msg->status) && chan->state != TT_CHAN_OPEN && !failed) {
		start_over(chan);
		return;
	}
	tt_chan_retry(chan);
	err = or_shortage(chan->wire, tt_fail(msg->status, "%s", msg->text));
	note_shortage(chan, err, !msg->yours && err == msg->status);
	tt_chan_fail(chan, tt_is_shortage(err) ? err : -TUTTI_ETRANSPORT, "no transport: %s",
		     tt_fail_text(err));
}

void tt_wire_conn_rep(struct tt_wire *wire, int from, const void *data, size_t len)
{
	struct tt_chan *chan;
	struct conn_msg msg;
	int err;

	if (len != sizeof(msg))
		return;
	memcpy(&msg, data, sizeof(msg));
	msg.text[sizeof(msg.text) - 1] = 0;
	tt_wire_lock(wire);
	chan = msg.attempt == TT_NO_ATTEMPT ? tt_chan_get(wire, from) : wire->chan[from];
	if (chan && msg.generation != chan->generation) {
		if (msg.generation > chan->generation)
			closed_by_peer(chan, msg.generation);
		tt_wire_wake(wire);
	} else if (chan && msg.attempt == TT_NO_ATTEMPT) {
		given_up(chan, &msg);
		tt_wire_wake(wire);
	} else if (chan && chan->state == TT_CHAN_REQUESTED &&
		   (uint32_t)chan->attempt == msg.attempt) {
		if (msg.status) {
			note_shortage(chan, msg.status, !msg.yours);
			next_attempt(chan, msg.text);
		} else {
			chan->agreed = true;
			err = or_shortage(wire, connect_end(chan, &msg, true));
			note_shortage(chan, err, false);
			if (err)
				next_attempt(chan, tt_fail_text(err));
		}
		tt_wire_wake(wire);
	} else if (chan && chan->state == TT_CHAN_OPENING && chan->active && msg.status &&
		   (uint32_t)chan->attempt == msg.attempt) {
		note_shortage(chan, msg.status, !msg.yours);
		next_attempt(chan, msg.text); /* it agreed, and could not do it */
		tt_wire_wake(wire);
	}
	tt_wire_unlock(wire);
}

/* At the end that was asked: the asking end tries again, and need not find out by itself. */
static void cannot_open(struct tt_chan *chan, const char *why)
{
	struct tt_wire *wire = chan->wire;

	if (chan->peer != wire->params.rank && wire->boot)
		refuse(wire, chan->peer, chan->generation, (uint32_t)chan->attempt,
		       or_shortage(wire, tt_fail(-ECONNABORTED, "%s", why)));
	tt_chan_close_ep(chan, -ECONNABORTED);
	chan->state = TT_CHAN_CLOSED;
}

void tt_chan_down(struct tt_chan *chan, const char *why)
{
	if (chan->state == TT_CHAN_OPENING && chan->active &&
	    chan->peer != chan->wire->params.rank) {
		next_attempt(chan, why);
	} else if (chan->state == TT_CHAN_OPENING) {
		cannot_open(chan, why);
	} else {
		tt_chan_fail(chan, -TUTTI_EPEER, "the connection was lost: %s", why);
	}
}
