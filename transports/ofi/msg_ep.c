/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Connected endpoints: one listener (passive endpoint) per process, bound to the chosen address, and
 * one event queue for connections. The active side sends {the peer's token, its own} with its
 * connection request; both were told over an authenticated link, so whoever does not know them is
 * rejected.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "transports/ofi/ofi.h"

struct hello {
	uint64_t to[2], from[2];
};

int ofi_msg_open(struct ofi_tp *tp)
{
	struct fi_eq_attr attr = {.size = 256, .wait_obj = tp->timer ? FI_WAIT_NONE : FI_WAIT_FD};
	int rc;

	rc = fi_eq_open(tp->fabric, &attr, &tp->eq, NULL);
	if (!rc)
		rc = fi_passive_ep(tp->fabric, tp->info, &tp->pep, NULL);
	if (!rc)
		rc = fi_pep_bind(tp->pep, &tp->eq->fid, 0);
	if (!rc)
		rc = fi_listen(tp->pep);
	tp->namelen = sizeof(tp->name);
	if (!rc)
		rc = fi_getname(&tp->pep->fid, tp->name, &tp->namelen);
	if (rc)
		return tt_fail(-TUTTI_ETRANSPORT, "libfabric provider %s can't listen: %s",
			       tp->info->fabric_attr->prov_name, fi_strerror(-rc));
	return 0;
}

void ofi_msg_close(struct ofi_tp *tp)
{
	if (tp->pep)
		fi_close(&tp->pep->fid);
	if (tp->eq)
		fi_close(&tp->eq->fid);
}

static int make_fid(struct ofi_ep *ep, struct fi_info *info)
{
	struct ofi_tp *tp = ofi_tp(ep->base.tp);
	int rc;

	rc = fi_endpoint(tp->domain, info, &ep->fid, ep);
	if (rc) {
		ep->fid = NULL;
		goto failed;
	}
	rc = fi_ep_bind(ep->fid, &tp->eq->fid, 0);
	if (!rc)
		rc = fi_ep_bind(ep->fid, &tp->cq->fid, FI_TRANSMIT | FI_RECV);
	if (!rc)
		rc = fi_enable(ep->fid);
	if (rc)
		goto failed;
	return ofi_post_all(tp, &ep->rx);
failed:
	return tt_fail(-TUTTI_ETRANSPORT, "libfabric can't make an endpoint: %s", fi_strerror(-rc));
}

/* Accept the request this passive endpoint holds, if it comes from the right peer. */
static int answer(struct ofi_ep *ep)
{
	struct ofi_tp *tp = ofi_tp(ep->base.tp);
	struct fi_info *request = ep->request;
	int rc;

	ep->request = NULL;
	if (memcmp(ep->requester, ep->peer.token, sizeof(ep->requester))) {
		tt_info("ofi: a connection request that knows an endpoint but not its peer was rejected");
		fi_reject(tp->pep, request->handle, NULL, 0);
		fi_freeinfo(request);
		return 0;
	}
	rc = make_fid(ep, request);
	if (!ep->fid)
		fi_reject(tp->pep, request->handle, NULL, 0);
	fi_freeinfo(request);
	if (rc)
		return rc;
	rc = fi_accept(ep->fid, NULL, 0);
	return rc ? tt_fail(-ECONNRESET, "libfabric can't accept a connection: %s", fi_strerror(-rc))
		  : 0;
}

static int call(struct ofi_ep *ep)
{
	struct hello h = {{ep->peer.token[0], ep->peer.token[1]}, {ep->token[0], ep->token[1]}};
	struct ofi_tp *tp = ofi_tp(ep->base.tp);
	struct fi_info *info = fi_dupinfo(tp->info);
	int rc;

	/* Provider verbs looks for the way to the peer when the endpoint is made. */
	if (info) {
		free(info->dest_addr);
		info->dest_addr = malloc(tp->namelen);
		info->dest_addrlen = tp->namelen;
	}
	if (!info || !info->dest_addr) {
		if (info)
			fi_freeinfo(info);
		return tt_fail(-ENOMEM, "ofi: out of memory");
	}
	memcpy(info->dest_addr, ep->peer.addr, tp->namelen);
	rc = make_fid(ep, info);
	fi_freeinfo(info);
	if (rc)
		return rc;
	rc = fi_connect(ep->fid, ep->peer.addr, &h, sizeof(h));
	return rc ? tt_fail(-ECONNREFUSED, "libfabric can't connect to a peer: %s", fi_strerror(-rc))
		  : 0;
}

int ofi_msg_connect(struct ofi_ep *ep, bool active)
{
	struct ofi_tp *tp = ofi_tp(ep->base.tp);
	int rc = 0;

	ep->passive = !active;
	ep->state = OFI_CONNECTING;
	tp->connecting++;
	if (active)
		rc = call(ep);
	else if (ep->request)
		rc = answer(ep);
	if (rc)
		ofi_ep_fail(ep, rc);
	return 0; /* what went wrong follows as DOWN */
}

void ofi_msg_up(struct ofi_ep *ep)
{
	struct ofi_tp *tp = ofi_tp(ep->base.tp);

	if (ep->state != OFI_CONNECTING)
		return;
	tp->connecting--;
	ep->state = OFI_READY;
	ofi_queue_push(tp, &(struct tt_event){.kind = TT_EV_UP, .ep = &ep->base}, ep, NULL);
}

static void on_request(struct ofi_tp *tp, struct fi_info *request, const void *data, size_t len)
{
	struct tt_list *pos, *tmp;
	struct ofi_ep *ep;
	struct hello h;
	int rc;

	if (len < sizeof(h))
		goto reject;
	memcpy(&h, data, sizeof(h));
	tt_list_each(pos, tmp, &tp->eps) {
		ep = tt_container(pos, struct ofi_ep, link);
		if (memcmp(ep->token, h.to, sizeof(h.to)))
			continue;
		if (ep->fid || ep->request || ep->state > OFI_CONNECTING ||
		    (ep->state == OFI_CONNECTING && !ep->passive))
			goto reject;
		ep->request = request;
		memcpy(ep->requester, h.from, sizeof(h.from));
		rc = ep->state == OFI_CONNECTING ? answer(ep) : 0;
		if (rc)
			ofi_ep_fail(ep, rc);
		return;
	}
reject:
	tt_info("ofi: a connection request without a valid token was rejected");
	fi_reject(tp->pep, request->handle, NULL, 0);
	fi_freeinfo(request);
}

/* Events of closed endpoints may linger: compare addresses, don't follow them. */
static struct ofi_ep *find(struct ofi_tp *tp, const struct fid *fid)
{
	struct tt_list *pos, *tmp;
	struct ofi_ep *ep;

	tt_list_each(pos, tmp, &tp->eps) {
		ep = tt_container(pos, struct ofi_ep, link);
		if (ep->fid && &ep->fid->fid == fid)
			return ep;
	}
	return NULL;
}

static void on_eq_error(struct ofi_tp *tp)
{
	struct fi_eq_err_entry err = {0};
	struct ofi_ep *ep;
	char text[128];

	if (fi_eq_readerr(tp->eq, &err, 0) <= 0)
		return;
	ep = find(tp, err.fid);
	if (!ep || ep->state > OFI_UP)
		return;
	tt_info("ofi: connection failed: %s (%s)", fi_strerror(err.err),
		fi_eq_strerror(tp->eq, err.prov_errno, err.err_data, text, sizeof(text)));
	ofi_ep_fail(ep, err.err > 0 && err.err < FI_ERRNO_OFFSET ? -err.err : -ECONNRESET);
}

/* Read the event queue; for tcp this also carries connections forward. */
void ofi_msg_progress(struct ofi_tp *tp)
{
	union {
		struct fi_eq_cm_entry cm;
		char room[sizeof(struct fi_eq_cm_entry) + 256];
	} e;
	struct ofi_ep *ep;
	uint32_t event;
	ssize_t n;
	int i;

	for (i = 0; i < 64 && ofi_queue_reserve(tp, 1); i++) {
		n = fi_eq_read(tp->eq, &event, &e, sizeof(e), 0);
		if (n == -FI_EAVAIL) {
			on_eq_error(tp);
			continue;
		}
		if (n < (ssize_t)sizeof(e.cm))
			return;
		if (event == FI_CONNREQ) {
			on_request(tp, e.cm.info, e.cm.data, n - sizeof(e.cm));
			continue;
		}
		ep = find(tp, e.cm.fid);
		if (ep && event == FI_CONNECTED)
			ofi_msg_up(ep);
		else if (ep && event == FI_SHUTDOWN)
			ofi_ep_fail(ep, -ECONNRESET);
	}
}

/* The fence: the connection is closed, what was under way comes back cancelled or not at all. */
void ofi_msg_shut(struct ofi_ep *ep)
{
	struct ofi_tp *tp = ofi_tp(ep->base.tp);

	if (ep->request) {
		fi_reject(tp->pep, ep->request->handle, NULL, 0);
		fi_freeinfo(ep->request);
		ep->request = NULL;
	}
	if (!ep->fid)
		return;
	fi_shutdown(ep->fid, 0); /* sends what the provider has buffered of finished operations */
	fi_close(&ep->fid->fid);
	ep->fid = NULL;
}

/* A failed endpoint: read what came in before the end, then close it. */
void ofi_msg_flush(struct ofi_ep *ep)
{
	struct ofi_tp *tp = ofi_tp(ep->base.tp);

	if (!ofi_drain(tp))
		return; /* out of memory: again at the next poll */
	ofi_msg_shut(ep);
	ep->state = OFI_FLUSH;
	ofi_drain(tp);
}
