/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A port that goes down, comes back, or changes its addresses.
 *
 * While a port is down its queue pairs stay as they are and take no new requests. The device keeps
 * retrying the posted requests, so nothing is lost if the port is back before it gives up.
 * Endpoints with other rails continue on those, and tell the peer, whose port may be up, not to use
 * the pair (VB_WORD_RAIL). After TUTTI_VERBS_PORT_WAIT an endpoint without another rail fails. An
 * endpoint with other rails abandons the rail at both ends: its queue pairs are stopped, and
 * requests that come back flushed are lost. If any of them is not the mark, the endpoint fails and
 * reports how many of each kind.
 *
 * Lost requests are not repeated over another rail. A device that has not been answered does not
 * know whether a request was executed, so a notification, a message or an atomic could happen
 * twice. A put without notification is the same when it is repeated only as long as no later
 * operation has overwritten its bytes: a short one is over for the caller when it is posted, and
 * the caller may have sent a newer value over the other rail. A long put or a get alone could be
 * repeated, but collectives and messages never have only those under way.
 */
#include "config.h"
#include "transports/verbs/verbs.h"

#include <errno.h>
#include <string.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "lib/base/clock.h"

enum { PAUSE = 1, RESUME, LEAVE }; /* upper half of a word's note; below: the receiver's rail */

static bool usable(const struct vb_qp *q)
{
	return !q->off && !q->away && !q->rail->down && !q->rail->dead;
}

void vb_paths(struct vb_ep *ep)
{
	int i;

	ep->lead = -1;
	ep->partial = false;
	for (i = 0; i < ep->nqp; i++) {
		ep->qp[i].usable = usable(&ep->qp[i]);
		if (!ep->qp[i].usable)
			ep->partial = true;
		else if (ep->lead < 0)
			ep->lead = i;
	}
}

static bool uses(const struct vb_ep *ep, const struct vb_rail *rail)
{
	int i;

	for (i = 0; i < ep->nqp; i++)
		if (ep->qp[i].rail == rail && !ep->qp[i].off)
			return true;
	return false;
}

/* On another rail there are queue pairs that have not been left. */
static bool has_others(const struct vb_ep *ep, const struct vb_rail *rail)
{
	int i;

	for (i = 0; i < ep->nqp; i++)
		if (ep->qp[i].rail != rail && usable(&ep->qp[i]))
			return true;
	return false;
}

/* Over a living rail; where there is none, the peer's device finds out. */
static void tell(struct vb_ep *ep, const struct vb_rail *rail, uint32_t what)
{
	uint32_t theirs = 0;
	int i, err;

	if (ep->lead < 0)
		return;
	for (i = 0; i < ep->nqp; i++)
		if (ep->qp[i].rail == rail)
			theirs = ep->qp[i].theirs;
	err = vb_post_word(ep, ep->lead, VB_WORD_RAIL, what << 16 | theirs, VB_QUIET);
	if (err)
		vb_fail(ep, ep->qp[ep->lead].rail, err, "a message cannot be posted: %s",
			strerror(-err));
}

static unsigned under_way(const struct vb_ep *ep, const struct vb_rail *rail)
{
	unsigned n = 0;
	int i;

	for (i = 0; i < ep->nqp; i++)
		if (ep->qp[i].rail == rail)
			n += ep->qp[i].tail - ep->qp[i].head;
	return n;
}

void vb_lose(struct vb_lost *lost, const struct vb_req *req)
{
	if (req->opcode == VB_FLUSH ||
	    (req->kind != VB_QUIET && req->kind != VB_OP && req->kind != VB_PIECE))
		return;
	switch (req->opcode) {
	case IBV_WR_RDMA_WRITE:
		lost->puts++;
		break;
	case IBV_WR_RDMA_WRITE_WITH_IMM:
		lost->notes++;
		break;
	case IBV_WR_RDMA_READ:
		lost->gets++;
		break;
	case IBV_WR_SEND:
		lost->messages++;
		break;
	default:
		lost->atomics++;
		break;
	}
}

bool vb_lost_text(const struct vb_lost *lost, char text[VB_LOST_TEXT])
{
	const struct {
		unsigned n;
		const char *what;
	} part[] = {{lost->puts, "put"},
		    {lost->notes, "put with notification"},
		    {lost->gets, "get"},
		    {lost->atomics, "atomic"},
		    {lost->messages, "message"}};
	size_t len = 0, i;

	text[0] = '\0';
	for (i = 0; i < sizeof(part) / sizeof(part[0]) && len < VB_LOST_TEXT; i++)
		if (part[i].n)
			len += (size_t)snprintf(text + len, VB_LOST_TEXT - len, "%s%u %s%s",
						len ? ", " : "", part[i].n, part[i].what,
						part[i].n > 1 && i != 1 ? "s" : "");
	return len > 0;
}

/* The requests that rail has not returned; some may be complete. */
static void lose_all(const struct vb_ep *ep, const struct vb_rail *rail, struct vb_lost *lost)
{
	uint32_t at;
	int i;

	for (i = 0; i < ep->nqp; i++)
		for (at = ep->qp[i].head; ep->qp[i].rail == rail && at != ep->qp[i].tail; at++)
			vb_lose(lost, &ep->qp[i].ring[at % VB_RING]);
}

void vb_fail_by_port(struct vb_ep *ep, const struct vb_qp *q, const struct vb_req *req)
{
	struct vb_lost lost = ep->lost;
	char text[VB_LOST_TEXT];

	if (req)
		vb_lose(&lost, req);
	lose_all(ep, q->rail, &lost);
	vb_fail(ep, q->rail, -ENETDOWN, "the port%s went down: %s", q->away ? " of the peer" : "",
		vb_lost_text(&lost, text) ? strcat(text, " lost") : "nothing is lost");
}

/* Stop its queue pairs on rail; what they had under way comes back to vb_left. */
static void leave(struct vb_ep *ep, struct vb_rail *rail)
{
	int i, err;

	for (i = 0; i < ep->nqp && ep->state == VB_UP; i++) {
		struct vb_qp *q = &ep->qp[i];

		if (q->rail != rail || q->off)
			continue;
		q->off = true;
		vb_qp_error(q);
		err = vb_post_word(ep, i, 0, 0, VB_MARK);
		if (err)
			vb_fail(ep, rail, err,
				"the port went down, and a request cannot be posted: %s",
				strerror(-err));
	}
	vb_paths(ep);
}

void vb_left(struct vb_ep *ep, int i, const struct vb_req *req, int status)
{
	struct vb_rail *rail = ep->qp[i].rail;
	char text[VB_LOST_TEXT];

	vb_release(ep, i, req, status ? -ENETDOWN : 0);
	if (req->kind != VB_MARK) {
		if (status)
			vb_lose(&ep->lost, req);
		return;
	}
	if (vb_lost_text(&ep->lost, text))
		vb_fail_by_port(ep, &ep->qp[i], NULL);
	else if (!under_way(ep, rail) && !rail->told) {
		rail->told = true;
		tt_warn("verbs: %s/%u is no longer used: its port, or the peer's, is down; the "
			"other ports carry what it did",
			rail->port.name, rail->port.num);
	}
}

static struct vb_ep *ep_on(const struct vb_rail *rail, uint32_t i)
{
	struct vb_ep *ep = rail->tp->eps[i];

	return ep && uses(ep, rail) ? ep : NULL;
}

static void begin_timer(struct vb_rail *rail)
{
	uint64_t when = tt_deadline_ms(rail->tp->env->verbs_port_wait.number);
	struct itimerspec its = {
		.it_value = {.tv_sec = (time_t)(when / TT_SEC), .tv_nsec = (long)(when % TT_SEC)}};
	struct vb_tp *tp = rail->tp;

	rail->down_until = when;
	if (tp->port_timer < 0) {
		tp->port_timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
		if (tp->port_timer >= 0)
			vb_watch(tp, tp->port_timer);
	}
	/* Without a timer a sleeper looks when something else wakes it. */
	if (tp->port_timer >= 0)
		timerfd_settime(tp->port_timer, TFD_TIMER_ABSTIME, &its, NULL);
}

void vb_port_down(struct vb_rail *rail)
{
	struct vb_ep *ep;
	uint32_t i;

	if (rail->down)
		return;
	rail->down = true;
	begin_timer(rail);
	tt_info("verbs: %s/%u: the port went down", rail->port.name, rail->port.num);
	for (i = 0; i < rail->tp->neps; i++) {
		ep = ep_on(rail, i);
		if (ep && ep->state == VB_CONNECTING)
			vb_fail(ep, rail, -ENETDOWN, "the port went down");
		if (!ep || ep->state != VB_UP)
			continue;
		vb_paths(ep);
		tell(ep, rail, PAUSE);
	}
}

void vb_port_up(struct vb_rail *rail)
{
	bool was_down = rail->down;
	struct vb_ep *ep;
	uint32_t i;

	rail->down = false;
	rail->down_until = 0;
	vb_port_changed(rail);
	for (i = 0; was_down && i < rail->tp->neps; i++) {
		ep = ep_on(rail, i);
		if (!ep || ep->state != VB_UP)
			continue;
		vb_paths(ep);
		tell(ep, rail, RESUME);
	}
}

/* The port of rail has been down for as long as is allowed. */
static void given_up(struct vb_ep *ep, struct vb_rail *rail)
{
	const struct tt_env *env = rail->tp->env;
	struct vb_lost lost = ep->lost;
	char text[VB_LOST_TEXT];

	switch (vb_port_verdict(rail->down, true, has_others(ep, rail))) {
	case VB_PORT_END:
		lose_all(ep, rail, &lost);
		vb_fail(ep, rail, -ENETDOWN, "the port was not back within %lld ms: %s",
			(long long)env->verbs_port_wait.number,
			vb_lost_text(&lost, text) ? strcat(text, " lost") : "nothing is lost");
		break;
	case VB_PORT_LEAVE:
		leave(ep, rail);
		tell(ep, rail, LEAVE);
		break;
	case VB_PORT_STAY:
		break;
	}
}

void vb_port_changed(struct vb_rail *rail)
{
	struct vb_port now = rail->port;
	int err;

	if (ibv_query_port(rail->ctx, now.num, &now.attr) || now.attr.state != IBV_PORT_ACTIVE)
		return;
	err = vb_port_gid(&now, rail->ctx, rail->tp->env->verbs_gid.number);
	rail->homeless = err == -EADDRNOTAVAIL;
	if (!err)
		err = vb_port_net(&now);
	if (err) {
		tt_info("verbs: %s/%u: %s", now.name, now.num, now.why);
		return;
	}
	if (now.attr.lid == rail->port.attr.lid && now.gid_index == rail->port.gid_index &&
	    !memcmp(now.gid.raw, rail->port.gid.raw, sizeof(now.gid.raw)))
		return;
	rail->port = now;
	tt_info("verbs: %s/%u: its LID or GID has changed", now.name, now.num);
}

void vb_outages(struct vb_tp *tp)
{
	uint64_t count;
	uint32_t i;
	int r;

	if (tp->port_timer < 0)
		return;
	if (read(tp->port_timer, &count, sizeof(count)) < 0 && errno != EAGAIN)
		return;
	for (r = 0; r < tp->nrails; r++) {
		struct vb_rail *rail = &tp->rail[r];

		if (!rail->down_until || !tt_passed(rail->down_until))
			continue;
		rail->down_until = 0;
		for (i = 0; i < tp->neps; i++) {
			struct vb_ep *ep = ep_on(rail, i);

			if (ep && ep->state == VB_UP)
				given_up(ep, rail);
		}
	}
}

void vb_rail_word(struct vb_ep *ep, uint32_t note)
{
	struct vb_tp *tp = vb_tp_of(ep);
	uint32_t what = note >> 16, index = note & 0xffff;
	int i;

	if (index >= (uint32_t)tp->nrails || ep->state != VB_UP)
		return;
	if (what == LEAVE) {
		leave(ep, &tp->rail[index]);
		if (ep->state == VB_UP && ep->lead < 0)
			vb_fail(ep, &tp->rail[index], -ENETDOWN, "the peer's port went down");
		return;
	}
	for (i = 0; i < ep->nqp; i++)
		if (ep->qp[i].rail->index == (int)index)
			ep->qp[i].away = what == PAUSE;
	vb_paths(ep);
}

bool vb_port_to_blame(const struct vb_qp *q)
{
	return q->rail->down || q->away;
}
