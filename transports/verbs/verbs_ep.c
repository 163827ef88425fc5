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

/* ---- the table, and the owners of queue pair numbers ---- */

static void index_qpns(struct vb_tp *tp)
{
	uint32_t i;
	int k;

	tt_map_clear(&tp->by_qpn);
	for (i = 0; i < tp->neps; i++)
		for (k = 0; tp->eps[i] && k < tp->eps[i]->nqp; k++) {
			const struct vb_qp *qp = &tp->eps[i]->qp[k];

			(void)tt_map_set(&tp->by_qpn, vb_qpn_key(qp->rail, qp->qp->qp_num),
					 i * VB_EP_QPS + (uint32_t)k); /* grow() got memory */
		}
}

static int grow(struct vb_tp *tp)
{
	uint32_t max = tp->eps_max ? 2 * tp->eps_max : 16;
	int err = tt_map_reserve(&tp->by_qpn, (size_t)max * (size_t)(tp->nrails * tp->nqp));
	struct vb_ep **eps;

	eps = realloc(tp->eps, max * sizeof(struct vb_ep *));
	if (eps)
		tp->eps = eps;
	if (!eps || err || max > EPS_MAX)
		return tt_fail(-ENOMEM, "verbs: no memory for more endpoints");
	memset(eps + tp->eps_max, 0, (max - tp->eps_max) * sizeof(struct vb_ep *));
	tp->eps_max = max;
	return 0;
}

static int take_place(struct vb_tp *tp, struct vb_ep *ep)
{
	static uint32_t gen;
	uint32_t i, used = 0;
	int err = 0;

	for (i = 0; i < tp->neps; i++)
		used += tp->eps[i] != NULL;
	if (tp->neps == tp->eps_max && used == tp->neps)
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

	for (i = 0; i < ep->nqp; i++)
		vb_qp_free(&ep->qp[i]);
	if (ep->index < tp->neps && tp->eps[ep->index] == ep)
		tp->eps[ep->index] = NULL;
	index_qpns(tp);
	free(ep->peer);
	free(ep);
}

int vb_ep_open(struct tt_tp *base, struct tt_ep **epp, void *blob, size_t *len)
{
	struct vb_tp *tp = (struct vb_tp *)base;
	struct vb_ep *ep =
		calloc(1, sizeof(*ep) + (size_t)(tp->nrails * tp->nqp) * sizeof(ep->qp[0]));
	struct vb_blob b = {.magic = VB_MAGIC};
	int err = 0, i;

	if (!ep)
		return tt_fail(-ENOMEM, "verbs: out of memory");
	ep->ep.ops = &tp->ops;
	ep->ep.tp = base;
	ep->index = UINT32_MAX;
	err = vb_rails_deal(ep);
	ep->nqp = err < 0 ? 0 : err;
	err = err < 0 ? err : 0;
	for (i = 0; !err && i < ep->nqp; i++)
		err = vb_qp_new(&ep->qp[i]);
	if (!err && (getrandom(&ep->psn, sizeof(ep->psn), 0) < 0 ||
		     getrandom(ep->cookie, sizeof(ep->cookie), 0) < 0))
		err = tt_fail(-errno, "verbs: getrandom: %s", strerror(errno));
	if (!err)
		err = take_place(tp, ep);
	if (err) {
		free_ep(ep);
		return err;
	}
	index_qpns(tp);
	ep->psn &= 0xffffff;
	b.psn = ep->psn;
	memcpy(b.cookie, ep->cookie, sizeof(b.cookie));
	vb_rails_tell(ep, &b);
	memcpy(blob, &b, sizeof(b));
	*len = sizeof(b);
	*epp = &ep->ep;
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
		return tt_fail(-EINVAL, "verbs: an address of %zu bytes (expected %zu)", len,
			       sizeof(b));
	memcpy(&b, blob, sizeof(b));
	err = vb_rails_match(ep, &b);
	index_qpns(vb_tp_of(ep));
	if (err)
		return err;
	ep->peer = malloc(sizeof(b));
	if (!ep->peer)
		return tt_fail(-ENOMEM, "verbs: out of memory");
	*ep->peer = b;
	ep->active = active;
	ep->deadline = tt_deadline_ms(VB_HELLO_MS);
	if (ep->by_cm)
		return vb_cm_connect(ep);
	for (i = 0; i < ep->nqp; i++)
		vb_cm_drop(&ep->qp[i]); /* requests that no peer has a reason to make */
	for (i = 0; !err && i < ep->nqp; i++)
		err = vb_qp_connect(ep, i);
	if (err)
		return err;
	ep->state = VB_CONNECTING;
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
	vb_paths(ep);
	if (!ep->closing)
		vb_emit(vb_tp_of(ep), (struct tt_event){.kind = TT_EV_UP, .ep = &ep->ep});
}

void vb_hello_again(struct vb_ep *ep, int i, int status)
{
	const struct vb_rail *rail = ep->qp[i].rail;
	int err;

	if (ep->by_cm || tt_passed(ep->deadline)) {
		vb_fail(ep, rail, -ETIMEDOUT,
			"the peer does not answer over this network (status %d)", status);
		return;
	}
	err = vb_qp_connect(ep, i);
	if (!err)
		err = vb_post_word(ep, i, VB_WORD_HELLO, 0, VB_HELLO);
	if (err)
		vb_fail(ep, rail, err, "connecting again: %s", strerror(-err));
}

/* ---- failing ---- */

/* Stop all queue pairs; the mark comes back when everything before it has. */
static void stop(struct vb_ep *ep, int status)
{
	int i;

	for (i = 0; i < ep->nqp; i++) {
		bool dead = ep->qp[i].rail->dead;

		if (!dead)
			vb_qp_error(&ep->qp[i]);
		if (dead || vb_post_word(ep, i, 0, 0, VB_MARK))
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
	/* With its text, as several may go down in one poll. */
	vb_emit(vb_tp_of(ep), (struct tt_event){.kind = TT_EV_DOWN,
						.status = ep->status,
						.data = ep->reason,
						.ep = &ep->ep});
}

void vb_fail(struct vb_ep *ep, const struct vb_rail *rail, int status, const char *fmt, ...)
{
	va_list ap;
	int n;

	if (ep->state == VB_NEW || ep->state >= VB_FAILED)
		return;
	n = snprintf(ep->reason, sizeof(ep->reason), "%s/%u: ", rail->port.name, rail->port.num);
	va_start(ap, fmt);
	vsnprintf(ep->reason + n, sizeof(ep->reason) - (size_t)n, fmt, ap);
	va_end(ap);
	ep->status = status;
	ep->state = VB_FAILED;
	stop(ep, status);
	vb_check_down(ep);
}

/* ---- closing ---- */

/* Reaps until cond or for at most ms; events of other endpoints wait in the stash. */
#define REAP_UNTIL(tp, cond, ms)                                                                   \
	do {                                                                                       \
		uint64_t deadline_ = tt_deadline_ms(ms);                                           \
		while (!(cond) && !tt_passed(deadline_))                                           \
			vb_reap(tp);                                                               \
	} while (0)

static bool holds_receives(const struct vb_ep *ep)
{
	int i;

	for (i = 0; i < ep->nqp; i++)
		if (vb_holds_receives(&ep->qp[i]))
			return true;
	return false;
}

/*
 * Entries of the shared receive queue that a queue pair has taken come back before the device
 * reports the last one. A device that never reports it (soft-RoCE of Linux 6.1) is waited for
 * once.
 */
static void take_last_receives(struct vb_ep *ep)
{
	struct vb_tp *tp = vb_tp_of(ep);
	uint64_t began = tt_now_ns(), deadline;
	int i;

	if (holds_receives(ep)) {
		deadline = began +
			   TT_MS * vb_bye_wait(&tp->last_from, &tp->last_left, began, VB_LAST_MS);
		while (vb_async(tp), holds_receives(ep) && !tt_passed(deadline))
			vb_reap(tp);
		vb_bye_used(&tp->last_left, tt_now_ns() - began);
	}
	for (i = 0; i < ep->nqp; i++) {
		struct vb_rail *rail = ep->qp[i].rail;

		if (!vb_holds_receives(&ep->qp[i]) || rail->tells_last)
			continue;
		rail->mute = true;
		tt_info("verbs: %s does not report the last receive of a queue pair",
			rail->port.name);
	}
	while (vb_reap(tp) > 0)
		;
}

void vb_ep_close(struct tt_ep *base)
{
	struct vb_ep *ep = (struct vb_ep *)base;
	struct vb_tp *tp = vb_tp_of(ep);
	uint64_t began = tt_now_ns();
	int i;

	while (vb_reap(tp) > 0) /* the peer may have said bye */
		;
	ep->closing = true;
	vb_stash_drop(tp, ep);
	if (ep->state == VB_UP && ep->lead >= 0 &&
	    !vb_post_word(ep, ep->lead, VB_WORD_BYE, 0, VB_BYE)) {
		REAP_UNTIL(tp, ep->bye_done || ep->state != VB_UP,
			   vb_bye_wait(&tp->bye_from, &tp->bye_left, began, VB_BYE_MS));
		vb_bye_used(&tp->bye_left, tt_now_ns() - began);
	}
	if (ep->state == VB_UP || ep->state == VB_CONNECTING) {
		ep->state = VB_FAILED;
		stop(ep, -ECANCELED);
	}
	REAP_UNTIL(tp, empty(ep), VB_DRAIN_MS);
	for (i = 0; i < ep->nqp; i++)
		vb_abandon(ep, i, -ECANCELED);
	take_last_receives(ep);
	vb_stash_drop(tp, ep);
	free_ep(ep);
}
