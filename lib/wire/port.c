/* SPDX-License-Identifier: BSD-3-Clause */
/* Ports: messages that the receiver matches itself, such as tagged messages. */

#include <errno.h>
#include <string.h>

#include "lib/wire/wire_internal.h"

static struct tt_list *bucket(struct tt_wire *wire, uint64_t comm)
{
	return &wire->ports[comm % TT_PORT_BUCKETS];
}

void tt_port_init(struct tt_wire *wire)
{
	int i;

	for (i = 0; i < TT_PORT_BUCKETS; i++)
		tt_list_init(&wire->ports[i]);
}

struct tt_port *tt_wire_port_find(struct tt_wire *wire, uint64_t comm)
{
	struct tt_list *head = bucket(wire, comm), *l, *tmp;

	tt_list_each(l, tmp, head)
	{
		struct tt_port *port = tt_container(l, struct tt_port, link);

		if (port->comm == comm)
			return port;
	}
	return NULL;
}

static struct tt_early *early_of(struct tt_list *head, uint64_t comm)
{
	struct tt_list *l, *tmp;

	tt_list_each(l, tmp, head)
	{
		struct tt_early *e = tt_container(l, struct tt_early, link);

		if (tt_key_ported(&e->key) && e->key.comm == comm)
			return e;
	}
	return NULL;
}

void tt_wire_port_open(struct tt_wire *wire, struct tt_port *port)
{
	struct tt_early *e;
	int i;

	tt_list_init(&port->link);
	tt_list_add(bucket(wire, port->comm), &port->link);
	for (i = 0; wire->nearly && i < TT_BUCKETS; i++)
		while ((e = early_of(&wire->early.bucket[i], port->comm))) {
			struct tt_chan *chan = wire->chan[e->peer];
			struct tt_flow *flow = tt_flow_get(chan, port->comm);

			tt_list_del(&e->link);
			port->message(port, e->peer, &e->key, e->fprint, tt_early_data(chan, e),
				      e->len, NULL);
			tt_early_drop(wire, e);
			flow->parked--;
			tt_flow_consumed(chan, flow);
		}
}

void tt_wire_port_close(struct tt_wire *wire, struct tt_port *port)
{
	tt_list_del(&port->link);
	tt_wire_forget_comm(wire, port->comm);
}

void tt_wire_port_say(struct tt_wire *wire, int peer, uint32_t what, const struct tt_key *key,
		      uint64_t a, uint64_t b)
{
	struct tt_ctrl ctrl = {
		.kind = TT_CTRL_PORT, .token = what, .key = *key, .addr = a, .len = b};

	if (wire->chan[peer]) /* the peer has sent, so there is a channel */
		tt_chan_send_ctrl(wire->chan[peer], &ctrl);
}

void tt_port_ctrl(struct tt_chan *chan, const struct tt_ctrl *ctrl)
{
	struct tt_port *port = tt_wire_port_find(chan->wire, ctrl->key.comm);

	if (port)
		port->said(port, chan->peer, ctrl->token, &ctrl->key, ctrl->addr, ctrl->len);
}

/* ---- brief messages ---- */

bool tt_wire_has_brief(const struct tt_wire *wire, int peer)
{
	const struct tt_chan *chan = wire->chan[peer];

	return chan && chan->ep && chan->ep->ops->brief && !wire->sums;
}

bool tt_wire_hears_brief(const struct tt_wire *wire, int peer)
{
	const struct tt_chan *chan = wire->chan[peer];

	return chan && chan->hears_brief;
}

/*
 * Only to a peer that has been heard: its end is open then, so it can handle what comes. The order
 * of messages does not matter, but those that wait for room must not starve.
 */
bool tt_wire_brief(struct tt_wire *wire, int peer, const struct tt_brief *head, const void *data,
		   size_t len)
{
	struct tt_chan *chan = wire->chan[peer];
	int rc;

	if (!chan || chan->state != TT_CHAN_OPEN || !chan->heard || !chan->ep->ops->brief ||
	    len > TT_BRIEF_TIMES * chan->eager || wire->sums || !tt_list_empty(&chan->sendq))
		return false;
	rc = chan->ep->ops->brief(chan->ep, head, sizeof(*head), data, len);
	if (rc == -EAGAIN)
		return false;
	if (rc < 0) {
		tt_chan_refused(chan, rc);
		return false;
	}
	if (!(head->lane & TT_BRIEF_BARE)) {
		wire->stats.copied_bytes += len;
		wire->stats.put_bytes += len;
	}
	wire->stats.eager_messages++;
	return true;
}

enum tt_peeked tt_wire_brief_peek(struct tt_wire *wire, int peer, struct tt_brief_peek *peek)
{
	struct tt_chan *chan = wire->chan[peer];
	enum tt_peeked found;
	const void *data;
	size_t len;

	wire->uses++;
	if (!chan || chan->state != TT_CHAN_OPEN || !chan->heard || !chan->ep->ops->peek ||
	    wire->batch_len)
		return TT_PEEK_NOTHING;
	found = chan->ep->ops->peek(chan->ep, &data, &len);
	if (found != TT_PEEK_BRIEF)
		return found;
	if (len < sizeof(struct tt_brief))
		return TT_PEEK_OTHER; /* the poll refuses it */
	peek->head = data;
	peek->data = peek->head + 1;
	peek->len = len - sizeof(struct tt_brief);
	return TT_PEEK_BRIEF;
}

void tt_wire_brief_take(struct tt_wire *wire, int peer)
{
	struct tt_chan *chan = wire->chan[peer];

	chan->ep->ops->take(chan->ep);
}

/*
 * Reads a brief message of *len bytes, of which *len are then payload. One that stays with its
 * sender has none. False: it is malformed.
 */
static bool read_brief(const void *data, size_t *len, struct tt_key *key, struct tt_bare *bare)
{
	struct tt_brief head;

	if (*len < sizeof(head))
		return false;
	memcpy(&head, data, sizeof(head));
	*key = (struct tt_key){.comm = head.comm,
			       .seq = head.seq,
			       .lane = head.lane & ~TT_BRIEF_BARE,
			       .index = head.index,
			       .port = head.port};
	*len -= sizeof(head);
	bare->total = *len;
	if (!(head.lane & TT_BRIEF_BARE))
		return true;
	if (*len != sizeof(*bare))
		return false;
	memcpy(bare, (const char *)data + sizeof(head), sizeof(*bare));
	*len = 0;
	return true;
}

void tt_port_brief(struct tt_chan *chan, const void *data, size_t len)
{
	const char *payload = (const char *)data + sizeof(struct tt_brief);
	struct tt_port *port;
	struct tt_bare bare = {0};
	struct tt_key key;

	if (!chan || chan->state != TT_CHAN_OPEN)
		return;
	if (!read_brief(data, &len, &key, &bare)) {
		tt_chan_fail(chan, -EPROTO, "a malformed brief message");
		return;
	}
	if (!chan->heard)
		tt_chan_heard(chan);
	chan->hears_brief = true;
	port = tt_wire_port_find(chan->wire, key.comm);
	if (port)
		port->message(port, chan->peer, &key, bare.total, payload, (uint32_t)len,
			      len ? NULL : &bare.kept);
	else /* closed since its owner said that it is open */
		chan->wire->params.late(chan->wire->params.arg, chan->peer, &key, bare.total,
					(uint32_t)len);
}
