/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Transport loop: the simplest implementation of the contract of lib/wire/transport.h, between
 * endpoints of one process. It shows that the conformance suite accepts a correct transport, and
 * is a predictable inner transport for the tests of transport fault. Nothing completes before the
 * next poll.
 */
#include "tests/conform/loop.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "lib/base/list.h"

#define QUEUE_MAX 64 /* operations under way, or events waiting at a peer */

struct node {
	struct tt_list link;
	struct tt_event ev;
	struct loop_ep *ep; /* whose operation or event this is; NULL for NOTE */
	enum { OP_PUT, OP_GET, OP_AMO } op;
	struct tt_rma rma;
	struct tt_amo amo;
	struct tt_rkey rkey;
	unsigned char data[TT_TP_MSG_MAX];
};

struct loop_tp {
	struct tt_tp tp;
	struct tt_list ops, events, lent;
	int nops, nevents, fd;
};

struct loop_ep {
	struct tt_ep ep;
	struct tt_list link; /* in all_eps */
	uint64_t id;
	struct loop_ep *peer; /* set by ep_connect */
	bool up, down;
};

struct loop_mr {
	struct tt_mr mr;
	struct tt_list link; /* in all_mrs */
	struct tt_mem mem;
	unsigned access;
};

static struct tt_list all_eps = {&all_eps, &all_eps}, all_mrs = {&all_mrs, &all_mrs};
static uint64_t last_id;

static struct loop_tp *tp_of(const struct loop_ep *ep)
{
	return tt_container(ep->ep.tp, struct loop_tp, tp);
}

static struct node *node_new(struct loop_ep *ep, enum tt_event_kind kind)
{
	struct node *n = calloc(1, sizeof(*n));

	if (!n)
		abort();
	tt_list_init(&n->link);
	n->ep = ep;
	n->ev.kind = kind;
	return n;
}

static void event(struct loop_tp *tp, struct node *n)
{
	uint64_t one = 1;

	tt_list_del(&n->link);
	tt_list_add(&tp->events, &n->link);
	tp->nevents++;
	if (write(tp->fd, &one, sizeof(one)) != sizeof(one))
		abort();
}

static void ep_event(struct loop_ep *ep, enum tt_event_kind kind, int status)
{
	struct node *n = node_new(ep, kind);

	n->ev.ep = &ep->ep;
	n->ev.status = status;
	event(tp_of(ep), n);
}

/* [remote, remote + len) if key gives this access to all of it. */
static void *reach(const struct tt_rkey *key, uint64_t remote, size_t len, unsigned access)
{
	struct tt_list *pos, *tmp;
	struct loop_mr *mr;
	uint64_t base;

	tt_list_each(pos, tmp, &all_mrs)
	{
		mr = tt_container(pos, struct loop_mr, link);
		base = (uint64_t)(uintptr_t)mr->mem.addr;
		if (mr->mr.rkey.word[0] != key->word[0] || (mr->access & access) != access)
			continue;
		if (remote >= base && remote - base <= mr->mem.len &&
		    len <= mr->mem.len - (remote - base))
			return (void *)(uintptr_t)remote;
	}
	return NULL;
}

static int run_rma(struct node *n)
{
	bool get = n->op == OP_GET;
	struct tt_rma *r = &n->rma;
	struct node *note;
	void *there = NULL;

	if (r->len)
		there = reach(&n->rkey, r->remote, r->len, get ? TT_ACCESS_READ : TT_ACCESS_WRITE);
	if (r->len && !there)
		return -EACCES;
	if (r->len && get)
		tt_rma_land(r, there);
	else if (r->len)
		memmove(there, r->local, r->len);
	if (!get && (r->flags & TT_RMA_NOTE)) {
		note = node_new(NULL, TT_EV_NOTE);
		note->ev.note = r->note;
		event(tp_of(n->ep->peer), note);
	}
	return 0;
}

static int run_amo(struct node *n)
{
	uint64_t *word = reach(&n->rkey, n->amo.remote, sizeof(*word), TT_ACCESS_WRITE);

	if (!word)
		return -EACCES;
	*n->amo.result = *word;
	if (n->amo.op == TT_AMO_ADD)
		*word += n->amo.operand;
	else if (*word == n->amo.compare)
		*word = n->amo.operand;
	return 0;
}

/* Start an operation, or say that there is no room. */
static int start(struct tt_ep *tt_ep, struct node **n)
{
	struct loop_ep *ep = tt_container(tt_ep, struct loop_ep, ep);
	struct loop_tp *tp = tp_of(ep);

	if (ep->down)
		return -ENOTCONN;
	if (!ep->up || tp->nops >= QUEUE_MAX || tp_of(ep->peer)->nevents >= QUEUE_MAX)
		return -EAGAIN;
	*n = node_new(ep, TT_EV_DONE);
	tt_list_add(&tp->ops, &(*n)->link);
	tp->nops++;
	return 0;
}

static int start_rma(struct tt_ep *ep, const struct tt_rma *rma, int op)
{
	struct node *n;
	int err = start(ep, &n);

	if (err)
		return err;
	n->op = op;
	n->rma = *rma;
	if (rma->rkey)
		n->rkey = *rma->rkey;
	n->ev.user = rma->user;
	return TT_STARTED;
}

static int loop_put(struct tt_ep *ep, const struct tt_rma *rma)
{
	return start_rma(ep, rma, OP_PUT);
}

static int loop_get(struct tt_ep *ep, const struct tt_rma *rma)
{
	return start_rma(ep, rma, OP_GET);
}

static int loop_amo(struct tt_ep *ep, const struct tt_amo *amo)
{
	struct node *n;
	int err = start(ep, &n);

	if (err)
		return err;
	n->op = OP_AMO;
	n->amo = *amo;
	n->rkey = *amo->rkey;
	n->ev.user = amo->user;
	return TT_STARTED;
}

static int loop_msg(struct tt_ep *tt_ep, const void *data, size_t len)
{
	struct loop_ep *ep = tt_container(tt_ep, struct loop_ep, ep);
	struct node *n;

	if (ep->down)
		return -ENOTCONN;
	if (!ep->up || tp_of(ep->peer)->nevents >= QUEUE_MAX)
		return -EAGAIN;
	n = node_new(ep->peer, TT_EV_MSG);
	memcpy(n->data, data, len);
	n->ev.data = n->data;
	n->ev.len = (uint32_t)len;
	n->ev.ep = &ep->peer->ep;
	event(tp_of(ep->peer), n);
	return TT_STARTED;
}

static int loop_map(struct tt_ep *ep, uint64_t remote, size_t len, const struct tt_rkey *rkey,
		    void **ptr)
{
	void *there = reach(rkey, remote, len, TT_ACCESS_WRITE);

	if (!there)
		return -EACCES;
	*ptr = there;
	return 0;
}

static const struct tt_ep_ops loop_ep_ops = {
	.put = loop_put, .get = loop_get, .amo = loop_amo, .msg = loop_msg, .map = loop_map};

/* Drop or fail what ep has under way; events of a closed endpoint vanish as well. */
static void end_ops(struct loop_ep *ep, bool report)
{
	struct loop_tp *tp = tp_of(ep);
	struct tt_list *pos, *tmp;
	struct node *n;

	tt_list_each(pos, tmp, &tp->ops)
	{
		n = tt_container(pos, struct node, link);
		if (n->ep != ep)
			continue;
		tp->nops--;
		n->ev.status = -ECONNRESET;
		if (report) {
			event(tp, n);
			continue;
		}
		tt_list_del(pos);
		free(n);
	}
	tt_list_each(pos, tmp, &tp->events)
	{
		n = tt_container(pos, struct node, link);
		if (n->ep != ep || report)
			continue;
		tp->nevents--;
		tt_list_del(pos);
		free(n);
	}
}

static int loop_ep_open(struct tt_tp *tp, struct tt_ep **ep, void *blob, size_t *len)
{
	struct loop_ep *e = calloc(1, sizeof(*e));

	if (!e)
		return -ENOMEM;
	e->ep.ops = &loop_ep_ops;
	e->ep.tp = tp;
	e->id = ++last_id;
	tt_list_add(&all_eps, &e->link);
	memcpy(blob, &e->id, sizeof(e->id));
	*len = sizeof(e->id);
	*ep = &e->ep;
	return 0;
}

static int loop_ep_connect(struct tt_ep *tt_ep, const void *blob, size_t len, bool active)
{
	struct loop_ep *ep = tt_container(tt_ep, struct loop_ep, ep), *e;
	struct tt_list *pos, *tmp;
	uint64_t id;

	memcpy(&id, blob, sizeof(id));
	tt_list_each(pos, tmp, &all_eps)
	{
		e = tt_container(pos, struct loop_ep, link);
		if (e->id == id)
			ep->peer = e;
	}
	if (!ep->peer) {
		ep->down = true;
		ep_event(ep, TT_EV_DOWN, -ECONNREFUSED);
	} else if (ep->peer->peer == ep) {
		ep_event(ep, TT_EV_UP, 0);
		ep_event(ep->peer, TT_EV_UP, 0);
	}
	return 0;
}

static void loop_ep_close(struct tt_ep *tt_ep)
{
	struct loop_ep *ep = tt_container(tt_ep, struct loop_ep, ep), *e;
	struct tt_list *pos, *tmp;

	end_ops(ep, false);
	tt_list_del(&ep->link);
	tt_list_each(pos, tmp, &all_eps)
	{
		e = tt_container(pos, struct loop_ep, link);
		if (e->peer != ep)
			continue;
		e->down = true;
		end_ops(e, true);
		ep_event(e, TT_EV_DOWN, -ECONNRESET);
		e->peer = NULL;
	}
	free(ep);
}

static void drop(struct tt_list *list)
{
	struct tt_list *pos, *tmp;

	tt_list_each(pos, tmp, list)
	{
		tt_list_del(pos);
		free(tt_container(pos, struct node, link));
	}
}

static int loop_poll(struct tt_tp *tp, struct tt_event *events, int max)
{
	struct loop_tp *t = tt_container(tp, struct loop_tp, tp);
	struct tt_list *pos, *tmp;
	struct node *n;
	uint64_t drain;
	int got = 0, ran = 0;

	if (read(t->fd, &drain, sizeof(drain)) < 0 && errno != EAGAIN)
		abort();
	drop(&t->lent);
	tt_list_each(pos, tmp, &t->ops)
	{
		n = tt_container(pos, struct node, link);
		if (ran++ == 16)
			break;
		n->ev.status = n->op == OP_AMO ? run_amo(n) : run_rma(n);
		t->nops--;
		event(t, n);
	}
	tt_list_each(pos, tmp, &t->events)
	{
		n = tt_container(pos, struct node, link);
		if (got == max)
			break;
		events[got++] = n->ev;
		if (n->ev.kind == TT_EV_UP)
			n->ep->up = true;
		t->nevents--;
		tt_list_del(pos);
		tt_list_add(&t->lent, pos);
	}
	return got;
}

static int loop_arm(struct tt_tp *tp, int *fd)
{
	struct loop_tp *t = tt_container(tp, struct loop_tp, tp);

	if (t->nops || t->nevents)
		return -EAGAIN;
	*fd = t->fd;
	return 0;
}

static int loop_reg(struct tt_tp *tp, const struct tt_mem *mem, unsigned access, struct tt_mr **mr)
{
	struct loop_mr *m = calloc(1, sizeof(*m));

	if (!m)
		return -ENOMEM;
	m->mr.tp = tp;
	m->mr.rkey.word[0] = ++last_id;
	m->mem = *mem;
	m->access = access;
	tt_list_add(&all_mrs, &m->link);
	*mr = &m->mr;
	return 0;
}

static int loop_dereg(struct tt_mr *mr)
{
	struct loop_mr *m = tt_container(mr, struct loop_mr, mr);

	tt_list_del(&m->link);
	free(m);
	return 0;
}

static int loop_query(const struct tt_tp_params *params, struct tt_tp_device *dev, int max)
{
	if (max > 0)
		*dev = (struct tt_tp_device){
			.name = "loop", .numa = -1, .usable = true, .why = "always"};
	return 1;
}

static int loop_open(const struct tt_tp_params *params, struct tt_tp **tp)
{
	struct loop_tp *t = calloc(1, sizeof(*t));

	if (!t)
		return -ENOMEM;
	t->tp.ops = &loop_transport;
	t->tp.caps = TT_CAP_LOCAL_ANY | TT_CAP_AMO | TT_CAP_MAP | TT_CAP_REG_ANY | TT_CAP_GET_HEAD;
	strcpy(t->tp.detail, "loop");
	tt_list_init(&t->ops);
	tt_list_init(&t->events);
	tt_list_init(&t->lent);
	t->fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	if (t->fd < 0) {
		free(t);
		return -errno;
	}
	*tp = &t->tp;
	return 0;
}

static void loop_close(struct tt_tp *tp)
{
	struct loop_tp *t = tt_container(tp, struct loop_tp, tp);

	drop(&t->ops);
	drop(&t->events);
	drop(&t->lent);
	close(t->fd);
	free(t);
}

const struct tt_tp_ops loop_transport = {.name = "loop",
					 .query = loop_query,
					 .open = loop_open,
					 .close = loop_close,
					 .reg = loop_reg,
					 .dereg = loop_dereg,
					 .ep_open = loop_ep_open,
					 .ep_connect = loop_ep_connect,
					 .ep_close = loop_ep_close,
					 .poll = loop_poll,
					 .arm = loop_arm};
