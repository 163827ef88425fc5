/* SPDX-License-Identifier: BSD-3-Clause */
/* Turns completions into events: poll, arm, and the translation of libfabric's errors. */
#include <errno.h>
#include <string.h>
#include <sys/timerfd.h>

#include "transports/ofi/ofi.h"

#define BATCH 16
#define EQ_EVERY 256 /* polls between looks at the event queue while no peer connects */

static int to_errno(int err)
{
	if (err == FI_ECANCELED)
		return -ECONNRESET;
	return err > 0 && err < FI_ERRNO_OFFSET ? -err : -EIO;
}

/*
 * Errors after which a connectionless peer is given up; others concern one operation (a bad key).
 */
static bool peer_lost(int err)
{
	switch (err) {
	case FI_ECANCELED:
	case FI_ENOTCONN:
	case FI_ECONNRESET:
	case FI_ECONNREFUSED:
	case FI_ECONNABORTED:
	case FI_ETIMEDOUT:
	case FI_EHOSTUNREACH:
	case FI_EHOSTDOWN:
	case FI_ENETUNREACH:
	case FI_ENOENT:
	case FI_EIO:
		return true;
	}
	return false;
}

/* The buffer of a receive is free from the next poll on. */
void ofi_recv_again(struct ofi_tp *tp, struct ofi_op *op)
{
	op->next = tp->used;
	tp->used = op;
}

/* The endpoint a message on the shared receives is for; NULL: unknown or closed. */
static struct ofi_ep *addressee(struct ofi_tp *tp, const struct ofi_op *op, size_t len)
{
	struct ofi_msg_hdr hdr;
	struct ofi_ep *ep;

	if (len < sizeof(hdr))
		return NULL;
	memcpy(&hdr, op->buf, sizeof(hdr));
	ep = hdr.index < tp->table_size ? tp->table[hdr.index] : NULL;
	if (!ep || ep->closed || memcmp(hdr.token, ep->token, sizeof(hdr.token)))
		return NULL;
	return ep;
}

/* The caller has reserved room in the queue of events. */
void ofi_deliver(struct ofi_ep *ep, struct ofi_op *op)
{
	struct ofi_tp *tp = ofi_tp(ep->base.tp);
	uint32_t skip = tp->rdm ? sizeof(struct ofi_msg_hdr) : 0;
	struct tt_event ev = {.kind = TT_EV_MSG, .ep = &ep->base};

	ev.len = op->len - skip;
	ev.data = op->buf + skip;
	ofi_queue_push(tp, &ev, ep, op);
}

static void on_message(struct ofi_tp *tp, struct ofi_op *op, size_t len)
{
	struct ofi_ep *ep = tp->rdm ? addressee(tp, op, len) : op->ep;

	op->busy = false;
	op->len = (uint32_t)len;
	if (!ep || ep->state == OFI_DOWN) {
		ofi_recv_again(tp, op);
	} else if (tp->rdm && ep->state < OFI_READY) {
		op->next = ep->early;
		ep->early = op;
	} else if (tp->rdm || ofi_msg_heard(ep)) {
		ofi_deliver(ep, op);
	} else {
		ofi_recv_again(tp, op);
	}
}

static void finish(struct ofi_tp *tp, struct ofi_op *op, int status)
{
	struct tt_event ev = {.kind = TT_EV_DONE, .status = status, .user = op->user};
	bool silent = op->kind == OFI_SEND || op->ep->closed;
	struct ofi_ep *ep = op->ep;

	ofi_op_done(op);
	if (!silent)
		ofi_queue_push(tp, &ev, ep, NULL);
	if (ep->closed)
		ofi_rdm_left(ep);
}

static void on_completion(struct ofi_tp *tp, const struct fi_cq_data_entry *e)
{
	struct tt_event ev = {.kind = TT_EV_NOTE, .note = (uint32_t)e->data};
	struct ofi_op *op = e->op_context;

	if ((e->flags & FI_REMOTE_CQ_DATA) && !(e->flags & (FI_RECV | FI_SEND | FI_WRITE))) {
		ofi_queue_push(tp, &ev, NULL, NULL);
		if (tp->rx_cq_data && op)
			ofi_recv_again(tp, op);
		return;
	}
	if (!op)
		return;
	if (op->kind == OFI_RECV)
		on_message(tp, op, e->len);
	else if (op->busy)
		finish(tp, op, 0);
}

static void on_error(struct ofi_tp *tp)
{
	struct fi_cq_err_entry err = {0};
	struct ofi_op *op;
	struct ofi_ep *ep;
	char text[128];
	int status;

	if (fi_cq_readerr(tp->cq, &err, 0) <= 0)
		return;
	op = err.op_context;
	if (!op || (err.flags & (FI_REMOTE_WRITE | FI_REMOTE_READ)))
		return;
	ep = op->ep;
	if (err.err != FI_ECANCELED)
		tt_info("ofi: operation failed: %s (%s)", fi_strerror(err.err),
			fi_cq_strerror(tp->cq, err.prov_errno, err.err_data, text, sizeof(text)));
	if (op->kind == OFI_RECV) {
		op->busy = false;
		if (ep)
			ofi_ep_fail(ep, to_errno(err.err));
		else if (err.err != FI_ECANCELED)
			ofi_recv_again(tp, op);
		return;
	}
	/* An event of a connection being closed: ofi_flush_events reports it if needed. */
	if (!op->busy || (!tp->rdm && ep->state > OFI_FAILED))
		return;
	/* A fault concerns this operation only; others are lost with the connection. */
	status = err.err == FI_EFAULT ? -TT_EFAULT_HERE : to_errno(err.err);
	if (!tp->rdm || peer_lost(err.err))
		ofi_ep_fail(ep, tt_is_fault(status) ? -ECONNRESET : status);
	finish(tp, op, status);
}

/* Read one batch of completions into the queue of events. False: there was none, or no memory. */
bool ofi_read_batch(struct ofi_tp *tp)
{
	struct fi_cq_data_entry e[BATCH];
	ssize_t i, n;

	if (!ofi_queue_reserve(tp, 2 * BATCH)) /* a message may bring its UP */
		return false;
	n = fi_cq_read(tp->cq, e, BATCH);
	if (n == -FI_EAVAIL) {
		on_error(tp);
		return true;
	}
	for (i = 0; i < n; i++)
		on_completion(tp, &e[i]);
	return n > 0;
}

/* Before and after an endpoint closes: take over every completion. False: out of memory. */
bool ofi_drain(struct ofi_tp *tp)
{
	int i;

	for (i = 0; i < 1 << 16; i++)
		if (!ofi_read_batch(tp))
			break;
	return ofi_queue_reserve(tp, 1);
}

static void post_used(struct ofi_tp *tp)
{
	struct ofi_op *op = tp->used, *next;

	tp->used = NULL;
	for (; op; op = next) {
		next = op->next;
		if (op->ep && (!op->ep->fid || op->ep->state > OFI_UP))
			continue;
		if (ofi_post_recv(tp, op) == -FI_EAGAIN)
			ofi_recv_again(tp, op);
	}
}

static void mend(struct ofi_tp *tp)
{
	struct tt_list *pos, *tmp;
	struct ofi_ep *ep;

	tt_list_each(pos, tmp, &tp->eps)
	{
		ep = tt_container(pos, struct ofi_ep, link);
		if (ep->state != OFI_FAILED)
			continue;
		if (!tp->rdm)
			ofi_msg_flush(ep);
		else if (!ep->busy)
			ep->state = OFI_FLUSH;
	}
}

static void progress(struct ofi_tp *tp, bool events_too)
{
	ofi_read_batch(tp);
	if (tp->eq && (events_too || tp->connecting || ++tp->polls % EQ_EVERY == 0)) {
		ofi_msg_progress(tp);
		ofi_watch_strangers(tp);
	}
	if (tp->rdm && tp->connecting)
		ofi_rdm_progress(tp);
	if (tp->troubled)
		mend(tp);
}

int ofi_poll(struct tt_tp *base, struct tt_event *events, int max)
{
	struct ofi_tp *tp = ofi_tp(base);
	int n;

	if (tp->used)
		post_used(tp);
	if (tp->count < (unsigned)max)
		progress(tp, false);
	n = ofi_queue_pop(tp, events, max);
	if (tp->troubled && !tp->count)
		n += ofi_flush_events(tp, events + n, max - n);
	return n;
}

int ofi_arm(struct tt_tp *base, int *fd)
{
	struct itimerspec soon = {.it_value = {.tv_nsec = 1000000}};
	struct ofi_tp *tp = ofi_tp(base);
	struct fid *fids[2];
	int rc, n = 0;

	if (tp->count || tp->used || tp->troubled)
		return -EAGAIN;
	progress(tp, true);
	if (tp->count || tp->used || tp->troubled)
		return -EAGAIN;
	if (tp->timer) {
		if (timerfd_settime(tp->arm_fd, 0, &soon, NULL))
			return tt_fail(-errno, "timerfd_settime: %s", strerror(errno));
		*fd = tp->arm_fd;
		return 0;
	}
	fids[n++] = &tp->cq->fid;
	if (tp->eq)
		fids[n++] = &tp->eq->fid;
	rc = fi_trywait(tp->fabric, fids, n);
	if (rc == -FI_EAGAIN)
		return -EAGAIN;
	if (rc)
		return tt_fail(-TUTTI_ETRANSPORT, "libfabric cannot wait: %s", fi_strerror(-rc));
	*fd = tp->arm_fd;
	return 0;
}
