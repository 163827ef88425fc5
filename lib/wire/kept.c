/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages that their receivers read where their senders keep them. One registration, of all memory
 * of this process, serves them all: processes of one user may read each other's memory anyway, and
 * the registration is what makes a reader stop.
 */
#include <errno.h>
#include <stdint.h>

#include "lib/wire/wire_internal.h"

/* The registration, which only the transport with brief messages needs. NULL: there is none. */
static const struct tt_mr *registration(struct tt_wire *wire, const struct tt_chan *chan)
{
	struct tt_mem all = {.addr = NULL, .len = SIZE_MAX, .memfd = -1};
	struct tt_tp *tp = chan->ep->tp;

	if (~tp->caps & (TT_CAP_REG_ANY | TT_CAP_AT_ONCE))
		return NULL;
	if (!wire->kept && tp->ops->reg(tp, &all, TT_ACCESS_READ, &wire->kept))
		return NULL;
	return wire->kept->tp == tp ? wire->kept : NULL;
}

struct tt_kept tt_wire_keep(struct tt_wire *wire, int peer, const void *buf)
{
	const struct tt_mr *mr = registration(wire, wire->chan[peer]);

	if (!mr || mr->rkey.word[0] > UINT32_MAX || mr->rkey.word[1] > UINT32_MAX)
		return (struct tt_kept){0};
	return (struct tt_kept){(uint64_t)(uintptr_t)buf,
				{(uint32_t)mr->rkey.word[0], (uint32_t)mr->rkey.word[1]}};
}

void tt_wire_unkeep(struct tt_wire *wire)
{
	if (wire->kept && wire->kept->tp->ops->dereg(wire->kept))
		tt_warn("a message that was taken back may still be read: %s",
			tt_fail_text(-ETIMEDOUT));
	wire->kept = NULL;
}

int tt_wire_read_kept(struct tt_wire *wire, int peer, const struct tt_kept *kept, void *to,
		      size_t len)
{
	struct tt_chan *chan = wire->chan[peer];
	struct tt_rkey rkey = {{kept->key[0], kept->key[1]}};
	struct tt_rma rma = {.local = to, .len = len, .remote = kept->addr, .rkey = &rkey};
	int rc;

	if (!kept->key[0] || !chan || chan->state != TT_CHAN_OPEN ||
	    !(chan->ep->tp->caps & TT_CAP_AT_ONCE))
		return -ESTALE;
	rc = chan->ep->ops->get(chan->ep, &rma);
	return rc == TT_FINISHED ? 0 : rc;
}
