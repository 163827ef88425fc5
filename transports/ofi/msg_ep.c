/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Connected endpoints: one listener (passive endpoint) per process, bound to the chosen address,
 * and one event queue for connections. The tokens of both ends, exchanged over an authenticated
 * link, are the key of two MACs: the active side's request carries {the endpoint's id, a nonce, a
 * MAC of them}, the acceptance a MAC of the request. So a stranger can neither connect nor answer.
 * An endpoint takes one request, so a recorded request cannot be replayed.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "transports/ofi/ofi.h"

#define CALL_LABEL "tutti ofi call"
#define ANSWER_LABEL "tutti ofi answer"

static struct tt_mac_key key_of(const struct ofi_ep *ep)
{
	const uint64_t *passive = ep->passive ? ep->token : ep->peer.token;
	const uint64_t *active = ep->passive ? ep->peer.token : ep->token;

	return (struct tt_mac_key){{passive[0], passive[1]}, {active[0], active[1]}};
}

static size_t call_head(void)
{
	return offsetof(struct ofi_call, mac);
}

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
		return tt_fail(-TUTTI_ETRANSPORT, "libfabric provider %s cannot listen: %s",
			       tp->info->fabric_attr->prov_name, fi_strerror(-rc));
	return 0;
}

/*
 * Unread requests are sockets of their own, which libfabric forgets with the queue.
 * Each look at the queue takes such a connection one step on: accepted, read, or found to be
 * closed by the peer.
 */
static void reject_unread(struct ofi_tp *tp)
{
	struct fi_eq_err_entry err = {0};
	union {
		struct fi_eq_cm_entry cm;
		char room[sizeof(struct fi_eq_cm_entry) + 256];
	} e;
	uint32_t event;
	ssize_t n;
	int i, idle;

	for (i = idle = 0; i < 1 << 16 && idle < 4; i++) {
		n = fi_eq_read(tp->eq, &event, &e, sizeof(e), 0);
		idle = n < 0 ? idle + 1 : 0;
		if (n == -FI_EAVAIL)
			fi_eq_readerr(tp->eq, &err, 0);
		if (n < (ssize_t)sizeof(e.cm) || event != FI_CONNREQ)
			continue;
		fi_reject(tp->pep, e.cm.info->handle, NULL, 0);
		fi_freeinfo(e.cm.info);
	}
}

void ofi_msg_close(struct ofi_tp *tp)
{
	if (tp->eq && tp->pep)
		reject_unread(tp);
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
	if (rc == -EMFILE || rc == -ENFILE) {
		ofi_drop_strangers(tp, true);
		rc = fi_endpoint(tp->domain, info, &ep->fid, ep);
	}
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
	/* libfabric does not always say why. */
	if (ofi_out_of_files(tp))
		return tt_fail(-EMFILE, "libfabric cannot create an endpoint: %s",
			       tutti_strerror(-EMFILE));
	return tt_fail(-TUTTI_ETRANSPORT, "libfabric cannot create an endpoint: %s",
		       fi_strerror(-rc));
}

static void hold(struct ofi_ep *ep, struct fi_info *request)
{
	ep->request = request;
	memset(&ep->caller, 0, sizeof(ep->caller));
	if (request->dest_addr && request->dest_addrlen <= sizeof(ep->caller))
		memcpy(&ep->caller, request->dest_addr, request->dest_addrlen);
}

/* The socket of the request that ep has held, which no endpoint of libfabric's has, is closed. */
static void reject(struct ofi_ep *ep, struct fi_info *request)
{
	fi_reject(ofi_tp(ep->base.tp)->pep, request->handle, NULL, 0);
	memset(&ep->caller, 0, sizeof(ep->caller));
}

/* Accept the request this passive endpoint holds, if it comes from the right peer. */
static int answer(struct ofi_ep *ep)
{
	struct fi_info *request = ep->request;
	unsigned char mac[TT_MAC_SIZE];
	struct tt_mac_key key = key_of(ep);
	int rc;

	ep->request = NULL;
	if (!tt_mac_is(ep->call.mac, CALL_LABEL, &key, &ep->call, call_head())) {
		tt_info("ofi: a connection request that knows an endpoint but not its key was "
			"rejected");
		reject(ep, request);
		fi_freeinfo(request);
		return 0;
	}
	rc = make_fid(ep, request);
	if (!ep->fid)
		reject(ep, request);
	fi_freeinfo(request);
	if (rc)
		return rc;
	tt_mac(mac, ANSWER_LABEL, &key, &ep->call, sizeof(ep->call));
	rc = fi_accept(ep->fid, mac, sizeof(mac));
	return rc ? tt_fail(-ECONNRESET, "libfabric cannot accept a connection: %s",
			    fi_strerror(-rc))
		  : 0;
}

static int call(struct ofi_ep *ep)
{
	struct ofi_tp *tp = ofi_tp(ep->base.tp);
	struct fi_info *info = fi_dupinfo(tp->info);
	struct tt_mac_key key = key_of(ep);
	struct ofi_call *c = &ep->call;
	int rc;

	c->id = ep->peer.id;
	if (getrandom(c->nonce, sizeof(c->nonce), 0) != sizeof(c->nonce)) {
		fi_freeinfo(info);
		return tt_fail(-EIO, "getrandom failed");
	}
	tt_mac(c->mac, CALL_LABEL, &key, c, call_head());

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
	rc = fi_connect(ep->fid, ep->peer.addr, c, sizeof(*c));
	return rc ? tt_fail(-ECONNREFUSED, "libfabric cannot connect to a peer: %s",
			    fi_strerror(-rc))
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
		ofi_ep_fail_text(ep, rc);
	return 0; /* what went wrong follows as DOWN */
}

static void go_up(struct ofi_ep *ep)
{
	struct ofi_tp *tp = ofi_tp(ep->base.tp);

	if (ep->state != OFI_CONNECTING)
		return;
	tp->connecting--;
	ep->state = OFI_READY;
	ofi_queue_push(tp, &(struct tt_event){.kind = TT_EV_UP, .ep = &ep->base}, ep, NULL);
}

/* The acceptance, as it came: is it the peer's? */
static void on_connected(struct ofi_ep *ep, const void *data, size_t len)
{
	struct tt_mac_key key = key_of(ep);

	if (!ep->passive && ep->state == OFI_CONNECTING &&
	    (len < TT_MAC_SIZE ||
	     !tt_mac_is(data, ANSWER_LABEL, &key, &ep->call, sizeof(ep->call)))) {
		ofi_ep_fail_text(
			ep, tt_fail(-EACCES,
				    "ofi: connection accepted by a process that is not the peer"));
		return;
	}
	ep->proven = true;
	go_up(ep);
}

bool ofi_msg_heard(struct ofi_ep *ep)
{
	/* The event that says connected, and brings the proof, is there before any data. */
	if (!ep->passive && !ep->proven)
		ofi_msg_progress(ofi_tp(ep->base.tp));
	if (ep->passive || ep->proven)
		go_up(ep);
	else
		ofi_ep_fail(ep, -EACCES);
	return ep->passive || ep->proven;
}

static void on_request(struct ofi_tp *tp, struct fi_info *request, const void *data, size_t len)
{
	struct tt_list *pos, *tmp;
	struct ofi_ep *ep;
	struct ofi_call c;
	int rc;

	if (len < sizeof(c))
		goto reject;
	memcpy(&c, data, sizeof(c));
	tt_list_each(pos, tmp, &tp->eps)
	{
		ep = tt_container(pos, struct ofi_ep, link);
		if (ep->id != c.id)
			continue;
		if (ep->fid || ep->request || ep->state > OFI_CONNECTING ||
		    (ep->state == OFI_CONNECTING && !ep->passive))
			goto reject;
		hold(ep, request);
		ep->call = c;
		rc = ep->state == OFI_CONNECTING ? answer(ep) : 0;
		if (rc)
			ofi_ep_fail_text(ep, rc);
		return;
	}
reject:
	tp->strangers.dropped++;
	tt_info("ofi: a connection request for no endpoint of this process was rejected");
	fi_reject(tp->pep, request->handle, NULL, 0);
	fi_freeinfo(request);
}

/* Events of closed endpoints may linger: compare addresses, don't follow them. */
static struct ofi_ep *find(struct ofi_tp *tp, const struct fid *fid)
{
	struct tt_list *pos, *tmp;
	struct ofi_ep *ep;

	tt_list_each(pos, tmp, &tp->eps)
	{
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
bool ofi_msg_progress(struct ofi_tp *tp)
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
			return n == -FI_EAGAIN;
		if (event == FI_CONNREQ) {
			on_request(tp, e.cm.info, e.cm.data, n - sizeof(e.cm));
			continue;
		}
		ep = find(tp, e.cm.fid);
		if (ep && event == FI_CONNECTED)
			on_connected(ep, e.cm.data, (size_t)n - sizeof(e.cm));
		else if (ep && event == FI_SHUTDOWN)
			ofi_ep_fail(ep, -ECONNRESET);
	}
	return false;
}

/* The fence: closes the connection; operations under way come back cancelled or not at all. */
void ofi_msg_shut(struct ofi_ep *ep)
{
	if (ep->request) {
		reject(ep, ep->request);
		fi_freeinfo(ep->request);
		ep->request = NULL;
	}
	if (!ep->fid)
		return;
	fi_shutdown(ep->fid,
		    0); /* sends data of finished operations that the provider has buffered */
	fi_close(&ep->fid->fid);
	ep->fid = NULL;
	ep->sock = -1;
	memset(&ep->ends, 0, sizeof(ep->ends));
	memset(&ep->caller, 0, sizeof(ep->caller));
}

/* A failed endpoint: read the data that arrived before the end, then close it. */
void ofi_msg_flush(struct ofi_ep *ep)
{
	struct ofi_tp *tp = ofi_tp(ep->base.tp);

	if (!ofi_drain(tp))
		return; /* out of memory: again at the next poll */
	ofi_msg_shut(ep);
	ep->state = OFI_FLUSH;
	ofi_drain(tp);
}
