/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Events of transport fault: taken from the inner transport and given to the caller late and
 * reordered. Guarantees: nothing is lost or duplicated; UP comes before the MSGs of its endpoint;
 * DOWN comes after all events of its endpoint and after every NOTE that came before it.
 */
#include "transports/fault/fault.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/clock.h"
#include "lib/base/hash.h"

#define PULL_MAX 32   /* inner events a poll */
#define HELD_MAX 1024 /* then the caller must take some first */
#define SPARE_MAX 256
#define OVERTAKE_MAX 16 /* at most this many events overtake a reordered event */
#define OVERTAKE_POLLS 3

bool fault_chance(uint64_t *rng, double p)
{
	return p > 0 && (double)(tt_random(rng) >> 11) * 0x1p-53 < p;
}

static struct fault_node *node_init(struct fault_node *node, struct fault_ep *ep,
				    enum tt_event_kind kind)
{
	memset(node, 0, offsetof(struct fault_node, u));
	tt_list_init(&node->link);
	node->ep = ep;
	node->ev.kind = kind;
	return node;
}

static struct fault_node *take_spare(struct fault_tp *f)
{
	struct fault_node *node = tt_container(f->spare.next, struct fault_node, link);

	tt_list_del(&node->link);
	f->nspare--;
	return node;
}

struct fault_node *fault_node_get(struct fault_tp *f, struct fault_ep *ep, enum tt_event_kind kind)
{
	struct fault_node *node = f->nspare ? take_spare(f) : malloc(sizeof(*node));

	return node ? node_init(node, ep, kind) : NULL;
}

void fault_node_put(struct fault_tp *f, struct fault_node *node)
{
	tt_list_del(&node->link);
	fault_flip_free(node);
	if (f->nspare >= SPARE_MAX) {
		free(node);
		return;
	}
	tt_list_add(&f->spare, &node->link);
	f->nspare++;
}

/* Make sure that n events can be stored; returns how many can. */
static unsigned reserve(struct fault_tp *f, unsigned n)
{
	struct fault_node *node;

	while (f->nspare < n) {
		node = malloc(sizeof(*node));
		if (!node)
			return f->nspare;
		tt_list_init(&node->link);
		tt_list_add(&f->spare, &node->link);
		f->nspare++;
	}
	return n;
}

/* Everything that must precede the DOWN of ep waits no longer. */
static void release(struct fault_tp *f, struct fault_ep *ep)
{
	struct tt_list *pos, *tmp;
	struct fault_node *node;

	tt_list_each(pos, tmp, &f->held)
	{
		node = tt_container(pos, struct fault_node, link);
		if (node->ep != ep && node->ev.kind != TT_EV_NOTE)
			continue;
		node->due = 0;
		node->polls = 0;
	}
}

static void choose_fate(struct fault_tp *f, struct fault_node *node)
{
	node->key = ++f->stats.events;
	if (node->ev.kind == TT_EV_DOWN) {
		release(f, node->ep);
		node->key = f->stats.events + OVERTAKE_MAX + 1; /* behind all that are here */
		return;
	}
	if (fault_chance(&f->rng_event, f->spec.delay)) {
		node->due =
			tt_now_ns() + 1000 * (tt_random(&f->rng_event) % (f->spec.delay_us + 1ull));
		f->stats.delayed++;
	}
	if (node->ev.kind != TT_EV_UP && fault_chance(&f->rng_event, f->spec.reorder)) {
		node->key += 1 + tt_random(&f->rng_event) % OVERTAKE_MAX;
		node->polls = 1 + (unsigned)(tt_random(&f->rng_event) % OVERTAKE_POLLS);
		f->stats.reordered++;
	}
}

void fault_hold(struct fault_tp *f, struct fault_node *node)
{
	struct tt_list *pos = f->held.prev;

	choose_fate(f, node);
	while (pos != &f->held && tt_container(pos, struct fault_node, link)->key > node->key)
		pos = pos->prev;
	tt_list_del(&node->link);
	tt_list_add(pos->next, &node->link);
	f->nheld++;
}

/* Operations of ep that the inner transport has not seen yet end here. */
static void cancel_late(struct fault_tp *f, struct fault_ep *ep)
{
	struct tt_list *pos, *tmp;
	struct fault_node *op;

	tt_list_each(pos, tmp, &f->started_late)
	{
		op = tt_container(pos, struct fault_node, link);
		if (op->ep != ep)
			continue;
		op->ev.status = -ECANCELED;
		fault_hold(f, op);
	}
}

void fault_fail_ep(struct fault_tp *f, struct fault_ep *ep, struct fault_node *victim, int status)
{
	struct tt_list *pos, *tmp;
	struct fault_node *node;

	if (ep->failed)
		return;
	ep->failed = true;
	f->stats.errors++;
	f->inner->ops->ep_close(ep->inner);
	ep->inner = NULL;
	tt_list_each(pos, tmp, &ep->ops)
	{
		node = tt_container(pos, struct fault_node, link);
		fault_flip_keep(f, node);
		node->ev.status = node == victim ? status : -ECANCELED;
		fault_hold(f, node);
	}
	cancel_late(f, ep);
	node = ep->down;
	ep->down = NULL;
	node->ev.status = status;
	node->ev.ep = &ep->ep;
	fault_hold(f, node);
}

static void drop_from(struct fault_tp *f, struct tt_list *list, const struct fault_ep *ep)
{
	struct tt_list *pos, *tmp;
	struct fault_node *node;

	tt_list_each(pos, tmp, list)
	{
		node = tt_container(pos, struct fault_node, link);
		if (ep && node->ep != ep)
			continue;
		f->nheld -= list == &f->held;
		fault_node_put(f, node);
	}
}

void fault_drop_ep(struct fault_tp *f, struct fault_ep *ep)
{
	struct tt_list *pos, *tmp;

	tt_list_each(pos, tmp, &ep->ops)
		fault_flip_keep(f, tt_container(pos, struct fault_node, link));
	drop_from(f, &ep->ops, ep);
	drop_from(f, &f->started_late, ep);
	drop_from(f, &f->held, ep);
	if (ep->down)
		fault_node_put(f, ep->down);
	ep->down = NULL;
}

void fault_drop_all(struct fault_tp *f)
{
	drop_from(f, &f->started_late, NULL);
	drop_from(f, &f->held, NULL);
	drop_from(f, &f->lent, NULL);
	while (f->nspare)
		free(take_spare(f));
}

/* An event of the inner transport; there is a spare node. */
static void take_event(struct fault_tp *f, const struct tt_event *ev)
{
	struct fault_ep *ep = NULL;
	struct fault_node *node;

	if (ev->kind == TT_EV_DONE) {
		node = ev->user; /* the operation itself */
		node->ev.status = ev->status;
		if (!ev->status)
			fault_flip_arrived(node);
		fault_hold(f, node);
		return;
	}
	if (ev->kind != TT_EV_NOTE)
		ep = ev->ep->user;
	if (ev->kind == TT_EV_DOWN) {
		if (!tt_list_empty(&ep->ops))
			tt_err("transport %s reported an endpoint down before its operations",
			       f->inner->ops->name);
		cancel_late(f, ep);
		ep->failed = true;
		node = ep->down;
		ep->down = NULL;
	} else {
		node = fault_node_get(f, ep, ev->kind);
	}
	if (!node) { /* only a second DOWN: the inner transport breaks the contract */
		tt_err("transport %s reported an endpoint down twice", f->inner->ops->name);
		return;
	}
	node->ev = *ev;
	node->ev.user = NULL;
	node->ev.ep = ep ? &ep->ep : NULL;
	if (ev->kind == TT_EV_MSG) {
		memcpy(node->u.data, ev->data, ev->len);
		node->ev.data = node->u.data;
	}
	fault_hold(f, node);
}

static void pull(struct fault_tp *f, int max)
{
	struct tt_event events[PULL_MAX];
	int n, i;

	if (f->nheld >= HELD_MAX)
		return;
	n = (int)reserve(f, max < PULL_MAX ? (unsigned)max : PULL_MAX);
	n = n ? f->inner->ops->poll(f->inner, events, n) : 0;
	for (i = 0; i < n; i++)
		take_event(f, &events[i]);
}

/* Start operations that were accepted earlier. */
static void start_late(struct fault_tp *f)
{
	struct tt_list *pos, *tmp;
	struct fault_node *op;
	struct tt_rma rma;
	int err;

	tt_list_each(pos, tmp, &f->started_late)
	{
		op = tt_container(pos, struct fault_node, link);
		if (op->polls) {
			op->polls--;
			continue;
		}
		rma = op->u.op.rma;
		rma.rkey = &op->u.op.rkey;
		err = fault_start(op->ep, op, &rma, op->u.op.get);
		if (err == -EAGAIN || err == TT_STARTED)
			continue;
		op->ev.status = err < 0 ? err : 0;
		fault_hold(f, op);
	}
}

static bool deliverable(const struct fault_node *node, uint64_t now)
{
	if (node->ev.kind == TT_EV_MSG && node->ep->state == FAULT_NEW)
		return false;
	return node->due <= now && !node->polls;
}

static void deliver(struct fault_tp *f, struct fault_node *node, struct tt_event *event)
{
	*event = node->ev;
	tt_list_del(&node->link);
	f->nheld--;
	if (event->kind == TT_EV_UP)
		node->ep->state = FAULT_UP;
	if (event->kind == TT_EV_DOWN)
		node->ep->state = FAULT_DOWN;
	if (event->kind == TT_EV_MSG)
		tt_list_add(&f->lent, &node->link);
	else
		fault_node_put(f, node);
}

int fault_poll(struct tt_tp *tp, struct tt_event *events, int max)
{
	struct fault_tp *f = fault_tp_of(tp);
	struct tt_list *pos, *tmp;
	struct fault_node *node;
	uint64_t now;
	int n = 0;

	drop_from(f, &f->lent, NULL);
	start_late(f);
	pull(f, max);
	if (!f->nheld)
		return 0;
	now = tt_now_ns();
	tt_list_each(pos, tmp, &f->held)
	{
		if (n == max)
			break;
		node = tt_container(pos, struct fault_node, link);
		if (deliverable(node, now))
			deliver(f, node, &events[n++]);
		else if (node->polls)
			node->polls--;
	}
	return n;
}

int fault_arm(struct tt_tp *tp, int *fd)
{
	struct fault_tp *f = fault_tp_of(tp);

	/* No descriptor announces held events, so the caller must poll again. */
	if (f->nheld || !tt_list_empty(&f->started_late))
		return -EAGAIN;
	return f->inner->ops->arm(f->inner, fd);
}
