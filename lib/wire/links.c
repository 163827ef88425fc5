/* SPDX-License-Identifier: BSD-3-Clause */
/* Channels as links between hosts: what waits on them, and whether they still carry data. */
#include <stdio.h>

#include "lib/wire/wire_internal.h"

#define LOOKS 8 /* at each connection within TUTTI_HEARTBEAT_LIMIT */
#define LOOK_MIN (50 * TT_MS)
#define LOOK_MAX TT_SEC

static const char *state_name(const struct tt_chan *chan)
{
	switch (chan->state) {
	case TT_CHAN_CLOSED:
		return "closed";
	case TT_CHAN_REQUESTED:
		return "requested";
	case TT_CHAN_OPENING:
		return "opening";
	case TT_CHAN_OPEN:
		return "open";
	case TT_CHAN_FAILED:
		return "failed";
	}
	return "?";
}

static bool ask(const struct tt_chan *chan, struct tt_silence *s)
{
	*s = (struct tt_silence){.bytes = 0};
	return chan->ep && (chan->state == TT_CHAN_OPEN || chan->state == TT_CHAN_OPENING) &&
	       chan->ep->ops->silence && !chan->ep->ops->silence(chan->ep, s);
}

int tt_wire_links(const struct tt_wire *wire, int from, struct tt_wire_link *link, int max)
{
	int n = 0, r;

	for (r = from; r < wire->params.nranks && n < max; r++) {
		const struct tt_chan *chan = wire->chan[r];

		if (!chan || r == wire->params.rank)
			continue;
		link[n++] =
			(struct tt_wire_link){.peer = r,
					      .state = state_name(chan),
					      .transport = chan->ep ? wire->tp[chan->tp].name : ""};
		ask(chan, &link[n - 1].silence);
	}
	return n;
}

static void cut(struct tt_chan *chan, const struct tt_silence *s)
{
	struct tt_wire *wire = chan->wire;
	int me = wire->params.rank, n;
	char text[sizeof(chan->reason)];

	n = snprintf(text, sizeof(text),
		     "the link between rank %d on %.64s and rank %d on %.64s carries no data: ", me,
		     tt_boot_host(wire->boot, me), chan->peer,
		     tt_boot_host(wire->boot, chan->peer));
	if (s->bytes)
		snprintf(text + n, sizeof(text) - (size_t)n, "%llu bytes unacknowledged for %llu s",
			 (unsigned long long)s->bytes, (unsigned long long)(s->ns / TT_SEC));
	else
		snprintf(text + n, sizeof(text) - (size_t)n, "no answer for %llu s",
			 (unsigned long long)(s->ns / TT_SEC));
	tt_err("%s", text);
	if (wire->params.cut)
		wire->params.cut(wire->params.arg, chan->peer, text);
	tt_chan_fail(chan, -TUTTI_EPEER, "%s", text);
}

void tt_wire_watch(struct tt_wire *wire)
{
	uint64_t every = (uint64_t)wire->env->heartbeat_limit.number * TT_MS / LOOKS;
	uint64_t now = tt_now_ns();
	struct tt_silence s;
	int r;

	if (now < wire->watch_at || !wire->boot)
		return;
	every = every < LOOK_MIN ? LOOK_MIN : every;
	wire->watch_at = now + (every > LOOK_MAX ? LOOK_MAX : every);
	for (r = 0; r < wire->params.nranks; r++)
		if (wire->chan[r] && ask(wire->chan[r], &s) && s.dead)
			cut(wire->chan[r], &s);
}
