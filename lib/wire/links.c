/* SPDX-License-Identifier: BSD-3-Clause */
/* What channels there are, for who looks at the job. */
#include "lib/wire/internal.h"

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

int tt_wire_links(const struct tt_wire *wire, int from, struct tt_wire_link *link, int max)
{
	int n = 0, r;

	for (r = from; r < wire->params.nranks && n < max; r++) {
		const struct tt_chan *chan = wire->chan[r];

		if (!chan || r == wire->params.rank)
			continue;
		link[n++] = (struct tt_wire_link){
			.peer = r,
			.state = state_name(chan),
			.transport = chan->ep ? wire->tp[chan->tp].name : ""};
	}
	return n;
}
