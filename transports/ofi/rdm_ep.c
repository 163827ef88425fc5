/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Connectionless endpoints: one for all peers, opened with delivery-complete, because without it a
 * lost peer or a bad key can look like success. A tt_ep is an entry of the address vector.
 *
 * Closing such an endpoint is not a fence: a peer that still has a key can write here. The fence is
 * deregistering the memory (or withdrawing its key). Pending operations cannot be cancelled either:
 * ep_close gives them LEAVE_MS to end, so that the provider leaves the caller's buffers alone. With
 * a lost peer they do not end; then the endpoint's memory is kept for them, and the next endpoint
 * to that peer waits for them before it is up.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/clock.h"
#include "transports/ofi/ofi.h"

#define LEAVE_MS 50

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
		return tt_fail(-TUTTI_ETRANSPORT,
			       "libfabric provider %s cannot create an endpoint: %s",
			       tp->info->fabric_attr->prov_name, fi_strerror(-rc));
	rc = ofi_ring_init(tp, &tp->rx, NULL, tp->recvs, OFI_RECV);
	return rc ? rc : ofi_post_all(tp, &tp->rx);
}

void ofi_rdm_close(struct ofi_tp *tp)
{
	struct ofi_peer *p;

	if (tp->rdm)
		fi_close(&tp->rdm->fid);
	if (tp->av)
		fi_close(&tp->av->fid);
	while ((p = tp->peers) != NULL) {
		tp->peers = p->next;
		free(p);
	}
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
			return tt_fail(-ENOMEM, "ofi: out of memory for an endpoint");
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

/*
 * The address vector's entry for a peer. None is ever removed: sockets does not close the
 * connection with it, and an operation may still be under way.
 */
static int resolve(struct ofi_tp *tp, const struct ofi_blob *blob, fi_addr_t *addr)
{
	struct ofi_peer *p;
	int rc;

	for (p = tp->peers; p; p = p->next)
		if (p->len == blob->addrlen && !memcmp(p->name, blob->addr, p->len)) {
			*addr = p->addr;
			return 0;
		}
	p = calloc(1, sizeof(*p));
	if (!p)
		return tt_fail(-ENOMEM, "ofi: out of memory for a peer's address");
	p->len = blob->addrlen;
	memcpy(p->name, blob->addr, p->len);
	rc = fi_av_insert(tp->av, p->name, 1, &p->addr, 0, NULL);
	if (rc != 1) {
		free(p);
		return tt_fail(-TUTTI_ETRANSPORT, "libfabric cannot use a peer's address: %s",
			       rc < 0 ? fi_strerror(-rc) : "not accepted");
	}
	p->next = tp->peers;
	tp->peers = p;
	*addr = p->addr;
	return 0;
}

int ofi_rdm_connect(struct ofi_ep *ep)
{
	struct ofi_tp *tp = ofi_tp(ep->base.tp);
	int rc = resolve(tp, &ep->peer, &ep->addr);

	if (rc)
		return rc;
	ep->state = OFI_CONNECTING;
	tp->connecting++;
	return 0;
}

/* Is anything that an earlier endpoint has begun with the same peer still under way? */
static bool leaving(const struct ofi_tp *tp, fi_addr_t addr)
{
	struct tt_list *pos, *tmp;
	const struct ofi_ep *ep;

	tt_list_each(pos, tmp, &tp->eps)
	{
		ep = tt_container(pos, struct ofi_ep, link);
		if (ep->closed && ep->addr == addr)
			return true;
	}
	return false;
}

/*
 * An endpoint is up when all operations of its predecessors have ended. Its first message
 * therefore tells the peer that no write of a predecessor will arrive any more.
 */
void ofi_rdm_progress(struct ofi_tp *tp)
{
	struct tt_list *pos, *tmp;
	struct ofi_ep *ep;
	struct ofi_op *op;

	tt_list_each(pos, tmp, &tp->eps)
	{
		ep = tt_container(pos, struct ofi_ep, link);
		if (ep->state != OFI_CONNECTING || leaving(tp, ep->addr) ||
		    !ofi_queue_reserve(tp, 1 + (unsigned)tp->rx.n))
			continue;
		tp->connecting--;
		ep->state = OFI_READY;
		ofi_queue_push(tp, &(struct tt_event){.kind = TT_EV_UP, .ep = &ep->base}, ep, NULL);
		while ((op = ep->early) != NULL) {
			ep->early = op->next;
			ofi_deliver(ep, op);
		}
	}
}

/* Closed by its owner; once no operation is under way its memory serves the next endpoint. */
void ofi_rdm_left(struct ofi_ep *ep)
{
	if (ep->busy)
		return;
	ofi_tp(ep->base.tp)->table[ep->index] = NULL;
	ofi_ep_recycle(ep);
}

void ofi_rdm_leave(struct ofi_ep *ep)
{
	uint64_t deadline = tt_deadline_ms(LEAVE_MS);
	struct ofi_tp *tp = ofi_tp(ep->base.tp);
	struct ofi_op *op;

	while (ep->busy && !tt_passed(deadline))
		ofi_read_batch(tp);
	ofi_queue_forget(tp, ep);
	while ((op = ep->early) != NULL) {
		ep->early = op->next;
		ofi_recv_again(tp, op);
	}
	ep->closed = true;
	ofi_rdm_left(ep);
}
