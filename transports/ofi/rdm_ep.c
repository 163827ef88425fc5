/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Connectionless endpoints: one for all peers, opened with delivery-complete, because without it a
 * lost peer or a bad key can look like success. A tt_ep is an entry of the address vector.
 *
 * Closing such an endpoint is no fence by itself: a peer that still has a key can write here. Here
 * deregistering the memory (or withdrawing its key) is the fence. Operations of ours towards the peer
 * may also still be under way after ep_close; the endpoint's memory waits for them.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "transports/ofi/ofi.h"

int ofi_rdm_open(struct ofi_tp *tp)
{
	struct fi_av_attr attr = {.type = FI_AV_TABLE, .count = 64};
	int rc;

	rc = fi_endpoint(tp->domain, tp->info, &tp->rdm, NULL);
	if (!rc)
		rc = fi_av_open(tp->domain, &attr, &tp->av, NULL);
	if (!rc)
		rc = fi_ep_bind(tp->rdm, &tp->av->fid, 0);
	if (!rc)
		rc = fi_ep_bind(tp->rdm, &tp->cq->fid, FI_TRANSMIT | FI_RECV);
	if (!rc)
		rc = fi_enable(tp->rdm);
	tp->namelen = sizeof(tp->name);
	if (!rc)
		rc = fi_getname(&tp->rdm->fid, tp->name, &tp->namelen);
	if (rc)
		return tt_fail(-TUTTI_ETRANSPORT, "libfabric provider %s can't make an endpoint: %s",
			       tp->info->fabric_attr->prov_name, fi_strerror(-rc));
	rc = ofi_ring_init(tp, &tp->rx, NULL, tp->recvs, OFI_RECV);
	return rc ? rc : ofi_post_all(tp, &tp->rx);
}

void ofi_rdm_close(struct ofi_tp *tp)
{
	if (tp->rdm)
		fi_close(&tp->rdm->fid);
	if (tp->av)
		fi_close(&tp->av->fid);
	ofi_ring_fini(&tp->rx);
	free(tp->table);
}

/* Find a place in the table by which messages find their endpoint. */
int ofi_rdm_index(struct ofi_ep *ep)
{
	struct ofi_tp *tp = ofi_tp(ep->base.tp);
	uint32_t i, size = tp->table_size ? 2 * tp->table_size : 16;
	struct ofi_ep **table;

	for (i = 0; i < tp->table_size && tp->table[i]; i++)
		;
	if (i == tp->table_size) {
		table = realloc(tp->table, size * sizeof(*table));
		if (!table)
			return tt_fail(-ENOMEM, "out of memory for an endpoint");
		memset(table + i, 0, (size - i) * sizeof(*table));
		tp->table = table;
		tp->table_size = size;
	}
	tp->table[i] = ep;
	ep->index = i;
	ep->fid = tp->rdm;
	ep->addr = FI_ADDR_NOTAVAIL;
	return 0;
}

int ofi_rdm_connect(struct ofi_ep *ep)
{
	struct ofi_tp *tp = ofi_tp(ep->base.tp);
	struct ofi_op *op;
	int rc;

	if (!ofi_queue_reserve(tp, 1 + tp->rx.n))
		return tt_fail(-ENOMEM, "out of memory for an event");
	rc = fi_av_insert(tp->av, ep->peer.addr, 1, &ep->addr, 0, NULL);
	if (rc != 1)
		return tt_fail(-TUTTI_ETRANSPORT, "libfabric can't use a peer's address: %s",
			       rc < 0 ? fi_strerror(-rc) : "not accepted");
	ep->state = OFI_UP;
	ofi_queue_push(tp, &(struct tt_event){.kind = TT_EV_UP, .ep = &ep->base}, ep, NULL);
	while ((op = ep->early) != NULL) {
		ep->early = op->next;
		ofi_deliver(ep, op);
	}
	return 0;
}

/* Closed by its owner and no operation under way: forget the peer. */
static void gone(struct ofi_ep *ep)
{
	struct ofi_tp *tp = ofi_tp(ep->base.tp);

	if (ep->addr != FI_ADDR_NOTAVAIL)
		fi_av_remove(tp->av, &ep->addr, 1, 0);
	tp->table[ep->index] = NULL;
	ofi_ep_recycle(ep);
}

void ofi_rdm_leave(struct ofi_ep *ep)
{
	struct ofi_tp *tp = ofi_tp(ep->base.tp);
	struct ofi_op *op;

	if (!ep->closed)
		ofi_queue_forget(tp, ep);
	ep->closed = true;
	while ((op = ep->early) != NULL) {
		ep->early = op->next;
		ofi_recv_again(tp, op);
	}
	if (!ep->busy)
		gone(ep);
}
