/* SPDX-License-Identifier: BSD-3-Clause */
/* Ports: messages that the receiver matches itself, such as tagged messages. */

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

struct tt_port *tt_port_find(struct tt_wire *wire, uint64_t comm)
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
				      e->len);
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
	struct tt_port *port = tt_port_find(chan->wire, ctrl->key.comm);

	if (port)
		port->said(port, chan->peer, ctrl->token, &ctrl->key, ctrl->addr, ctrl->len);
}
