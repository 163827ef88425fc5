/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Falling back to something slower: a connection through the kernel's network stack, within a host
 * at all, or between two hosts although one of its ends has a better transport. By default the job
 * is warned once, by its lowest rank. With TUTTI_TRANSPORT such a connection fails (connect.c).
 */
#include <stdio.h>
#include <string.h>

#include "lib/wire/wire_internal.h"

struct slower_msg {
	char text[512]; /* the warning */
};
_Static_assert(sizeof(struct slower_msg) == 512, "doc/WIRE.md");

static bool is_network(int place)
{
	const char *name = tt_transports[place]->name;

	return strcmp(name, "self") != 0 && strcmp(name, "shm") != 0;
}

bool tt_slower_forbidden(struct tt_chan *chan, int place)
{
	struct tt_wire *wire = chan->wire;

	return wire->asked && is_network(place) && !tt_wire_same_host(wire, chan->peer, NULL, 0);
}

/* Shared memory, or the best network that this rank or the peer has announced; NULL: none. */
static const char *best_transport(struct tt_chan *chan)
{
	struct tt_wire *wire = chan->wire;
	int i;

	if (tt_wire_same_host(wire, chan->peer, NULL, 0))
		return "shm";
	for (i = 0; tt_transports[i]; i++)
		if (is_network(i) &&
		    (tt_card_has(wire, wire->params.rank, tt_transports[i]->name) ||
		     tt_card_has(wire, chan->peer, tt_transports[i]->name)))
			return tt_transports[i]->name;
	return NULL;
}

static int place_of(const char *name)
{
	int i;

	for (i = 0; strcmp(tt_transports[i]->name, name); i++)
		;
	return i;
}

static void say_why(struct tt_chan *chan, const char *best, char *why, size_t size)
{
	struct tt_wire *wire = chan->wire;
	int lacks = tt_card_has(wire, chan->peer, best) ? wire->params.rank : chan->peer;

	if (!tt_card_has(wire, lacks, best))
		snprintf(why, size, "rank %d has no %s%s, or does not allow it", lacks,
			 strcmp(best, "shm") ? "device for " : "memory to share",
			 strcmp(best, "shm") ? best : "");
	else
		snprintf(why, size, "%.240s",
			 chan->reason[0] ? chan->reason : wire->left_out[place_of(best)]);
}

/* Further connections mostly have the same reason. */
static void warn_once(struct tt_wire *wire, const char *text)
{
	if (!wire->slower)
		tt_warn("%s", text);
	wire->slower = true;
}

void tt_slower_check(struct tt_chan *chan)
{
	struct tt_wire *wire = chan->wire;
	const struct tt_wire_tp *t = &wire->tp[chan->tp];
	struct slower_msg msg = {0};
	int lowest, rank = wire->params.rank;
	const char *best;
	char why[256];

	/* No warning for providers with their own devices, such as efa. */
	if (wire->slower || wire->asked || !chan->active || !(t->tp->caps & TT_CAP_SLOW_POLL))
		return;
	best = best_transport(chan);
	if (!best || !strcmp(best, t->name))
		return;
	say_why(chan, best, why, sizeof(why));
	snprintf(msg.text, sizeof(msg.text),
		 "rank %d (%.40s) reaches rank %d (%.40s) over %s instead of %s, which is faster: "
		 "%s; TUTTI_TRANSPORT=%s%s makes this an error",
		 rank, tt_boot_host(wire->boot, rank), chan->peer,
		 tt_boot_host(wire->boot, chan->peer), t->name, best, why,
		 strcmp(best, "shm") ? "shm," : "", best);
	lowest = tt_boot_lowest(wire->boot);
	if (lowest == rank)
		warn_once(wire, msg.text);
	else
		tt_ctl_send(wire->boot, lowest, TT_CTL_SLOWER, &msg, sizeof(msg));
	wire->slower = true;
}

void tt_wire_slower_msg(struct tt_wire *wire, const void *data, size_t len)
{
	struct slower_msg msg;

	if (len != sizeof(msg))
		return;
	memcpy(&msg, data, sizeof(msg));
	msg.text[sizeof(msg.text) - 1] = 0;
	warn_once(wire, msg.text);
}
