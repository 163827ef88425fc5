/* SPDX-License-Identifier: BSD-3-Clause */
/* Endpoints: their table, connecting, failing, closing. The states are explained in verbs.h. */
#include "config.h"
#include "transports/verbs/verbs.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "lib/base/clock.h"

#define EPS_MAX (1u << 20) /* index in a work request's id */

/* ---- the table, and who owns a queue pair number ---- */

static uint32_t slot_of(const struct vb_tp *tp, uint32_t qpn)
{
	return (qpn * 2654435761u) & (tp->by_qpn_size - 1);
}

static void index_qpns(struct vb_tp *tp)
{
	uint32_t i, k, s;

	memset(tp->by_qpn, 0, tp->by_qpn_size * sizeof(*tp->by_qpn));
	for (i = 0; i < tp->neps; i++)
		for (k = 0; tp->eps[i] && (int)k < tp->eps[i]->nqp; k++) {
			for (s = slot_of(tp, tp->eps[i]->qp[k].qp->qp_num); tp->by_qpn[s];)
				s = (s + 1) & (tp->by_qpn_size - 1);
			tp->by_qpn[s] = i * VB_QPS + k + 1;
		}
}

struct vb_ep *vb_ep_of_qpn(struct vb_tp *tp, uint32_t qpn, int *q)
{
	uint32_t s, v;

	if (!tp->by_qpn_size)
		return NULL;
	for (s = slot_of(tp, qpn); (v = tp->by_qpn[s]); s = (s + 1) & (tp->by_qpn_size - 1)) {
		struct vb_ep *ep = tp->eps[(v - 1) / VB_QPS];

		*q = (int)((v - 1) % VB_QPS);
		if (ep && ep->qp[*q].qp->qp_num == qpn)
			return ep;
	}
	return NULL;
}

struct vb_ep *vb_ep_at(struct vb_tp *tp, uint32_t index, uint32_t gen)
{
	struct vb_ep *ep = index < tp->neps ? tp->eps[index] : NULL;

	return ep && (ep->gen & 0xffff) == gen ? ep : NULL;
}

static int grow(struct vb_tp *tp)
{
	uint32_t max = tp->eps_max ? 2 * tp->eps_max : 16, size = 4 * max * (uint32_t)tp->nqp;
	struct vb_ep **eps;
	uint32_t *by_qpn;

	for (size = 64; size < 2 * max * (uint32_t)tp->nqp; size *= 2)
		;
	by_qpn = calloc(size, sizeof(*by_qpn));
	eps = realloc(tp->eps, max * sizeof(struct vb_ep *));
	if (eps)
		tp->eps = eps;
	if (!eps || !by_qpn || max > EPS_MAX) {
		free(by_qpn);
		return tt_fail(-ENOMEM, "verbs: no memory for more endpoints");
	}
	memset(eps + tp->eps_max, 0, (max - tp->eps_max) * sizeof(struct vb_ep *));
	free(tp->by_qpn);
	tp->by_qpn = by_qpn;
	tp->by_qpn_size = size;
	tp->eps_max = max;
	return 0;
}

/* Room in the completion queue for everything that `neps` endpoints can have posted. */
static int grow_cq(struct vb_tp *tp, uint32_t neps)
{
	long need = VB_SRQ + (long)neps * tp->nqp * (VB_SQ + VB_SQ_EXTRA), size = tp->cq_size;
	int err;

	if (need <= size)
		return 0;
	while (size < need)
		size *= 2;
	if (size > tp->port.dev.max_cqe)
		size = tp->port.dev.max_cqe;
	if (size < need)
		return tt_fail(-ENOMEM,
			       "verbs: %s has no completion queue for %u connections: it would need %ld "
			       "entries and can have %d; lower TUTTI_VERBS_QPS",
			       tp->port.name, neps, need, tp->port.dev.max_cqe);
	err = ibv_resize_cq(tp->cq, (int)size);
	if (err)
		return tt_fail(-err, "verbs: %s: the completion queue cannot grow to %ld entries: %s",
			       tp->port.name, size, strerror(err));
	tp->cq_size = tp->cq->cqe;
	return 0;
}

static int take_place(struct vb_tp *tp, struct vb_ep *ep)
{
	static uint32_t gen;
	uint32_t i, used = 0;
	int err;

	for (i = 0; i < tp->neps; i++)
		used += tp->eps[i] != NULL;
	err = grow_cq(tp, used + 1);
	if (!err && tp->neps == tp->eps_max && used == tp->neps)
		err = grow(tp);
	if (err)
		return err;
	for (i = 0; i < tp->neps && tp->eps[i]; i++)
		;
	if (i == tp->neps)
		tp->neps++;
	ep->index = i;
	ep->gen = ++gen;
	tp->eps[i] = ep;
	return 0;
}

/* ---- opening and connecting ---- */

static void free_ep(struct vb_ep *ep)
{
	struct vb_tp *tp = vb_tp_of(ep);
	int i;

	for (i = 0; i < VB_QPS; i++)
		if (ep->qp[i].qp)
			ibv_destroy_qp(ep->qp[i].qp);
	if (ep->index < tp->neps && tp->eps[ep->index] == ep)
		tp->eps[ep->index] = NULL;
	if (tp->by_qpn)
		index_qpns(tp);
	free(ep->peer);
	free(ep);
}

int vb_ep_open(struct tt_tp *base, struct tt_ep **epp, void *blob, size_t *len)
{
	struct vb_tp *tp = (struct vb_tp *)base;
	struct vb_ep *ep = calloc(1, sizeof(*ep));
	struct vb_blob b = {.magic = VB_MAGIC};
	int err = 0;

	if (!ep)
		return tt_fail(-ENOMEM, "verbs: out of memory");
	ep->ep.ops = &tp->ops;
	ep->ep.tp = base;
	ep->index = UINT32_MAX;
	if (tp->dead)
		err = tt_fail(-ENODEV, "verbs: %s is gone", tp->port.name);
	for (; !err && ep->nqp < tp->nqp; ep->nqp += !err) {
		err = vb_qp_new(tp, &ep->qp[ep->nqp]);
		if (!err)
			b.qpn[ep->nqp] = ep->qp[ep->nqp].qp->qp_num;
	}
	if (!err)
		err = take_place(tp, ep);
	if (err) {
		free_ep(ep);
		return err;
	}
	index_qpns(tp);
	if (getrandom(&ep->psn, sizeof(ep->psn), 0) < 0)
		ep->psn = (uint32_t)tt_now_ns();
	ep->psn &= 0xffffff;
	memcpy(b.gid, tp->port.gid.raw, sizeof(b.gid));
	b.psn = ep->psn;
	b.lid = tp->port.attr.lid;
	b.fabric = tp->port.fabric;
	b.mtu = (uint8_t)tp->port.attr.active_mtu;
	b.rd_atomic = (uint8_t)tp->max_rd;
	b.nqp = (uint8_t)ep->nqp;
	memcpy(blob, &b, sizeof(b));
	*len = sizeof(b);
	*epp = &ep->ep;
	return 0;
}

static int check_blob(struct vb_ep *ep, const struct vb_blob *b)
{
	const struct vb_port *port = &vb_tp_of(ep)->port;

	if (b->magic != VB_MAGIC || b->psn > 0xffffff || b->mtu < IBV_MTU_256 || b->mtu > IBV_MTU_4096)
		return tt_fail(-EINVAL, "verbs: this is not the address of a verbs endpoint");
	if (b->fabric != port->fabric)
		return tt_fail(-EHOSTUNREACH, "verbs: %s/%u is %s and the peer's device is not",
			       port->name, port->num, vb_fabric_name(port->fabric));
	if (b->nqp != ep->nqp)
		return tt_fail(-EINVAL, "verbs: TUTTI_VERBS_QPS is %d here and %u at the peer", ep->nqp,
			       b->nqp);
	return 0;
}

int vb_ep_connect(struct tt_ep *base, const void *blob, size_t len, bool active)
{
	struct vb_ep *ep = (struct vb_ep *)base;
	struct vb_blob b;
	int err, i;

	if (ep->state != VB_NEW)
		return tt_fail(-EISCONN, "verbs: the endpoint is connected already");
	if (len != sizeof(b))
		return tt_fail(-EINVAL, "verbs: an address of %zu bytes (expected %zu)", len, sizeof(b));
	memcpy(&b, blob, sizeof(b));
	err = check_blob(ep, &b);
	if (err)
		return err;
	ep->peer = malloc(sizeof(b));
	if (!ep->peer)
		return tt_fail(-ENOMEM, "verbs: out of memory");
	*ep->peer = b;
	ep->active = active;
	for (i = 0; !err && i < ep->nqp; i++)
		err = vb_qp_connect(ep, i);
	if (err)
		return err;
	ep->state = VB_CONNECTING;
	ep->deadline = tt_deadline_ms(VB_HELLO_MS);
	for (i = 0; !err && active && i < ep->nqp; i++)
		err = vb_post_word(ep, i, VB_WORD_HELLO, 0, VB_HELLO);
	if (err)
		return tt_fail(err, "verbs: a request cannot be posted: %s", strerror(-err));
	return 0;
}

void vb_greeted(struct vb_ep *ep, int q)
{
	if (ep->state != VB_CONNECTING || ep->qp[q].greeted)
		return;
	ep->qp[q].greeted = true;
	if (++ep->up < ep->nqp)
		return;
	ep->state = VB_UP;
	if (!ep->closing)
		vb_emit(vb_tp_of(ep), (struct tt_event){.kind = TT_EV_UP, .ep = &ep->ep});
}

void vb_hello_again(struct vb_ep *ep, int i, int status)
{
	int err;

	if (tt_passed(ep->deadline)) {
		vb_fail(ep, -ETIMEDOUT, "the peer does not answer over this network (status %d)",
			status);
		return;
	}
	err = vb_qp_connect(ep, i);
	if (!err)
		err = vb_post_word(ep, i, VB_WORD_HELLO, 0, VB_HELLO);
	if (err)
		vb_fail(ep, err, "connecting again: %s", strerror(-err));
}

/* ---- failing ---- */

/* Stop all queue pairs; the mark comes back when everything before it has. */
static void stop(struct vb_ep *ep, int status)
{
	struct vb_tp *tp = vb_tp_of(ep);
	int i;

	for (i = 0; i < ep->nqp; i++) {
		if (!tp->dead)
			vb_qp_error(&ep->qp[i]);
		if (tp->dead || vb_post_word(ep, i, 0, 0, VB_MARK))
			vb_abandon(ep, i, status);
	}
}

static bool empty(const struct vb_ep *ep)
{
	int i;

	for (i = 0; i < ep->nqp; i++)
		if (ep->qp[i].head != ep->qp[i].tail)
			return false;
	return true;
}

void vb_check_down(struct vb_ep *ep)
{
	if (ep->state != VB_FAILED || !empty(ep))
		return;
	ep->state = VB_DOWN;
	if (ep->closing)
		return;
	tt_fail(ep->status, "verbs: %s", ep->reason);
	vb_emit(vb_tp_of(ep),
		(struct tt_event){.kind = TT_EV_DOWN, .status = ep->status, .ep = &ep->ep});
}

void vb_fail(struct vb_ep *ep, int status, const char *fmt, ...)
{
	const struct vb_port *port = &vb_tp_of(ep)->port;
	va_list ap;
	int n;

	if (ep->state == VB_NEW || ep->state >= VB_FAILED)
		return;
	n = snprintf(ep->reason, sizeof(ep->reason), "%s/%u: ", port->name, port->num);
	va_start(ap, fmt);
	vsnprintf(ep->reason + n, sizeof(ep->reason) - (size_t)n, fmt, ap);
	va_end(ap);
	ep->status = status;
	ep->state = VB_FAILED;
	stop(ep, status);
	vb_check_down(ep);
}

/* ---- closing ---- */

/* Reap until cond or for at most ms; what comes for other endpoints waits in the stash. */
#define REAP_UNTIL(tp, cond, ms) \
	do { \
		uint64_t deadline_ = tt_deadline_ms(ms); \
		while (!(cond) && !tt_passed(deadline_)) \
			vb_reap(tp); \
	} while (0)

void vb_ep_close(struct tt_ep *base)
{
	struct vb_ep *ep = (struct vb_ep *)base;
	struct vb_tp *tp = vb_tp_of(ep);
	int i;

	while (vb_reap(tp) > 0) /* the peer may have said bye */
		;
	ep->closing = true;
	vb_stash_drop(tp, ep);
	if (ep->state == VB_UP && !vb_post_word(ep, 0, VB_WORD_BYE, 0, VB_BYE))
		REAP_UNTIL(tp, ep->bye_done || ep->state != VB_UP, VB_BYE_MS);
	if (ep->state == VB_UP || ep->state == VB_CONNECTING) {
		ep->state = VB_FAILED;
		stop(ep, -ECANCELED);
	}
	REAP_UNTIL(tp, empty(ep), VB_DRAIN_MS);
	for (i = 0; i < ep->nqp; i++)
		vb_abandon(ep, i, -ECANCELED);
	/* Receives that the queue pairs had taken have come back by now: take them too. */
	while (vb_reap(tp) > 0)
		;
	vb_stash_drop(tp, ep);
	free_ep(ep);
}
