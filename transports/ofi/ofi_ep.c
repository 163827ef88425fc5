/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Shared by connected and connectionless endpoints: addresses, opening and closing.
 *
 * Endpoints and operations are contexts that libfabric may still return, so the memory of a closed
 * endpoint is kept for the next endpoint and freed with the transport.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "transports/ofi/ofi.h"

struct tt_ep_ops ofi_ep_ops = {
	.put = ofi_put, .get = ofi_get, .amo = ofi_amo, .msg = ofi_msg, .silence = ofi_silence};

static void free_lists(struct ofi_ep *ep)
{
	int i;

	ep->busy = 0;
	ep->free = NULL;
	for (i = OFI_DEPTH - 1; i >= 0; i--) {
		ep->ops[i] = (struct ofi_op){.ep = ep, .kind = OFI_RMA, .next = ep->free};
		ep->free = &ep->ops[i];
	}
	ep->tx.free = NULL;
	for (i = ep->tx.n - 1; i >= 0; i--) {
		ep->tx.ops[i].busy = false;
		ep->tx.ops[i].next = ep->tx.free;
		ep->tx.free = &ep->tx.ops[i];
	}
	for (i = 0; i < ep->rx.n; i++)
		ep->rx.ops[i].busy = false;
}

static struct ofi_ep *ep_new(struct ofi_tp *tp)
{
	struct ofi_ep *ep;

	if (!tt_list_empty(&tp->spare)) {
		ep = tt_container(tp->spare.next, struct ofi_ep, link);
		tt_list_del(&ep->link);
		return ep;
	}
	ep = calloc(1, sizeof(*ep));
	if (!ep) {
		tt_fail(-ENOMEM, "ofi: out of memory for an endpoint");
		return NULL;
	}
	tt_list_init(&ep->link);
	ep->base.ops = &ofi_ep_ops;
	ep->base.tp = &tp->base;
	ep->sock = -1;
	if (ofi_ring_init(tp, &ep->tx, ep, OFI_SENDS, OFI_SEND)) {
		free(ep);
		return NULL;
	}
	if (!tp->rdm && ofi_ring_init(tp, &ep->rx, ep, tp->recvs, OFI_RECV)) {
		ofi_ring_fini(&ep->tx);
		free(ep);
		return NULL;
	}
	free_lists(ep);
	return ep;
}

void ofi_ep_free(struct ofi_ep *ep)
{
	tt_list_del(&ep->link);
	ofi_ring_fini(&ep->tx);
	ofi_ring_fini(&ep->rx);
	free(ep);
}

/* Libfabric has none of its operations any more: keep it for the next endpoint. */
void ofi_ep_recycle(struct ofi_ep *ep)
{
	struct ofi_tp *tp = ofi_tp(ep->base.tp);

	tt_list_del(&ep->link);
	free_lists(ep);
	ep->base.user = NULL;
	ep->state = OFI_OPEN;
	ep->status = 0;
	ep->reason[0] = '\0';
	ep->closed = ep->passive = false;
	ep->fid = NULL;
	ep->sock = -1;
	ep->queued = ep->acked = 0;
	ep->addr = 0;
	memset(&ep->peer, 0, sizeof(ep->peer));
	memset(ep->token, 0, sizeof(ep->token));
	memset(&ep->call, 0, sizeof(ep->call));
	ep->proven = false;
	tt_list_add(&tp->spare, &ep->link);
}

static void write_blob(const struct ofi_ep *ep, void *blob, size_t *len)
{
	const struct ofi_tp *tp = ofi_tp(ep->base.tp);
	struct ofi_blob b = {
		.magic = OFI_MAGIC, .index = ep->index, .rdm = tp->rdm != NULL, .id = ep->id};

	memcpy(b.token, ep->token, sizeof(b.token));
	b.bell_addr = (uintptr_t)&tp->bell - tp->bell_mr->rkey.word[1];
	b.bell_key = tp->bell_mr->rkey.word[0];
	snprintf(b.provider, sizeof(b.provider), "%s", tp->info->fabric_attr->prov_name);
	b.addrlen = (uint32_t)tp->namelen;
	memcpy(b.addr, tp->name, tp->namelen);
	memcpy(blob, &b, sizeof(b));
	*len = sizeof(b);
}

int ofi_ep_open(struct tt_tp *base, struct tt_ep **out, void *blob, size_t *len)
{
	struct ofi_tp *tp = ofi_tp(base);
	struct ofi_ep *ep = ep_new(tp);
	int rc;

	if (!ep)
		return -ENOMEM;
	if (getrandom(ep->token, sizeof(ep->token), 0) != sizeof(ep->token) ||
	    getrandom(&ep->id, sizeof(ep->id), 0) != sizeof(ep->id)) {
		tt_list_add(&tp->spare, &ep->link);
		return tt_fail(-EIO, "getrandom failed");
	}
	rc = tp->rdm ? ofi_rdm_index(ep) : 0;
	if (rc) {
		tt_list_add(&tp->spare, &ep->link);
		return rc;
	}
	tt_list_add(&tp->eps, &ep->link);
	write_blob(ep, blob, len);
	*out = &ep->base;
	return 0;
}

static int read_blob(struct ofi_ep *ep, const void *blob, size_t len)
{
	const char *ours = ofi_tp(ep->base.tp)->info->fabric_attr->prov_name;
	bool rdm = ofi_tp(ep->base.tp)->rdm != NULL;
	struct ofi_blob b;

	if (len != sizeof(b))
		return tt_fail(-TUTTI_EVERSION,
			       "ofi: the peer's address has %zu bytes (expected %zu)", len,
			       sizeof(b));
	memcpy(&b, blob, sizeof(b));
	if (b.magic != OFI_MAGIC || b.addrlen > sizeof(b.addr))
		return tt_fail(-TUTTI_EVERSION,
			       "ofi: the peer's address has another version or byte order");
	b.provider[sizeof(b.provider) - 1] = 0;
	if (b.rdm != rdm || strcmp(b.provider, ours))
		return tt_fail(-TUTTI_ETRANSPORT,
			       "libfabric providers differ: %s (%s endpoints) at the peer, %s (%s) "
			       "here; set "
			       "TUTTI_OFI_PROVIDER and TUTTI_OFI_EP alike on all ranks",
			       b.provider, b.rdm ? "rdm" : "msg", ours, rdm ? "rdm" : "msg");
	ep->peer = b;
	ep->bell_addr = b.bell_addr;
	ep->bell_key = b.bell_key;
	return 0;
}

int ofi_ep_connect(struct tt_ep *tep, const void *blob, size_t len, bool active)
{
	struct ofi_ep *ep = ofi_ep(tep);
	int rc;

	if (ep->state != OFI_OPEN)
		return tt_fail(-EISCONN, "ofi: the endpoint is connected already");
	rc = read_blob(ep, blob, len);
	if (rc)
		return rc;
	return ofi_tp(tep->tp)->rdm ? ofi_rdm_connect(ep) : ofi_msg_connect(ep, active);
}

/* No more operations; poll reports those under way and then DOWN. The first reason stays. */
void ofi_ep_fail(struct ofi_ep *ep, int status)
{
	struct ofi_tp *tp = ofi_tp(ep->base.tp);

	if (ep->state > OFI_UP)
		return;
	if (ep->state == OFI_CONNECTING)
		tp->connecting--;
	ep->state = OFI_FAILED;
	ep->status = status;
	tp->troubled++;
}

void ofi_ep_fail_text(struct ofi_ep *ep, int status)
{
	if (ep->state <= OFI_UP)
		snprintf(ep->reason, sizeof(ep->reason), "%s", tt_fail_text(status));
	ofi_ep_fail(ep, status);
}

void ofi_ep_close(struct tt_ep *tep)
{
	struct ofi_ep *ep = ofi_ep(tep);
	struct ofi_tp *tp = ofi_tp(tep->tp);
	bool drained = true;

	if (ep->state == OFI_CONNECTING)
		tp->connecting--;
	if (ep->state == OFI_FAILED || ep->state == OFI_FLUSH)
		tp->troubled--;
	ep->state = OFI_DOWN;
	if (tp->rdm) {
		ofi_rdm_leave(ep);
		return;
	}
	if (ep->fid || ep->request) {
		ofi_msg_shut(ep);
		drained = ofi_drain(tp);
	}
	ofi_queue_forget(tp, ep);
	if (drained) {
		ofi_ep_recycle(ep);
		return;
	}
	tt_list_del(&ep->link);
	tt_list_add(&tp->lost, &ep->link);
}
