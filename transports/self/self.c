/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Transport self: a process to itself. put and get are memmove; notifications and messages are
 * queued until the next poll. An endpoint connects to itself or to another endpoint of the same
 * open transport.
 *
 * Keys are checked as strictly as on any other transport, so that mistakes show here first.
 */
#include "config.h"
#include "lib/wire/transport.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "lib/base/copy.h"
#include "lib/base/list.h"

#define SELF_MAGIC 0x31464c4553545454ull /* "TTTSELF1" */
#define QUEUE 256			 /* events waiting for poll */

struct self_item {
	enum tt_event_kind kind;
	uint32_t note, len;
	struct self_ep *ep;
	uint8_t data[TT_TP_MSG_MAX];
};

struct self_tp {
	struct tt_tp tp;
	struct tt_list eps, mrs;
	uint64_t cookie[2];
	uint64_t next_id;
	int wake;	   /* eventfd; written only while armed */
	bool armed, slept; /* armed: wake the sleeper; slept: since the last poll */
	bool changes;	   /* an endpoint may have UP or DOWN to report */
	uint32_t head, tail;
	uint32_t taken; /* items the last poll gave out: their data is in use until the next */
	struct self_item queue[QUEUE];
};

struct self_ep {
	struct tt_ep ep;
	struct tt_list link;
	uint64_t id;
	struct self_ep *peer; /* the endpoint it is connected to */
	bool connected;
	bool up, down;	       /* reported */
	bool up_due, down_due; /* to be reported by the next poll */
};

struct self_mr {
	struct tt_mr mr;
	struct tt_list link;
	uint64_t base, len;
	unsigned access;
};

struct self_blob {
	uint64_t magic, cookie[2], id;
	uint32_t pid;
};

extern const struct tt_tp_ops tt_self_tp;
static const struct tt_ep_ops self_ep_ops;

static int self_query(const struct tt_tp_params *params, struct tt_tp_device *dev, int max)
{
	if (max < 1)
		return 1;
	memset(dev, 0, sizeof(*dev));
	snprintf(dev->name, sizeof(dev->name), "self");
	snprintf(dev->detail, sizeof(dev->detail), "memory of the process itself");
	snprintf(dev->why, sizeof(dev->why), "needs nothing");
	dev->numa = -1;
	dev->usable = true;
	return 1;
}

static int self_open(const struct tt_tp_params *params, struct tt_tp **tpp)
{
	struct self_tp *tp = calloc(1, sizeof(*tp));
	int err;

	if (!tp)
		return tt_fail(-ENOMEM, "self: out of memory");
	tp->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (tp->wake < 0) {
		err = tt_fail(-errno, "self: eventfd: %s", strerror(errno));
		free(tp);
		return err;
	}
	tp->tp.ops = &tt_self_tp;
	tp->tp.caps = TT_CAP_LOCAL_ANY | TT_CAP_AUTO_PROGRESS | TT_CAP_AMO | TT_CAP_MAP |
		      TT_CAP_REG_ANY | TT_CAP_GET_HEAD | TT_CAP_AT_ONCE;
	snprintf(tp->tp.detail, sizeof(tp->tp.detail), "self");
	memcpy(tp->cookie, params->cookie, sizeof(tp->cookie));
	tt_list_init(&tp->eps);
	tt_list_init(&tp->mrs);
	*tpp = &tp->tp;
	return 0;
}

static void self_close(struct tt_tp *base)
{
	struct self_tp *tp = (struct self_tp *)base;

	close(tp->wake);
	free(tp);
}

static int self_reg(struct tt_tp *base, const struct tt_mem *mem, unsigned access,
		    struct tt_mr **mrp)
{
	struct self_tp *tp = (struct self_tp *)base;
	struct self_mr *mr;

	if (!mem->len || (uint64_t)(uintptr_t)mem->addr + mem->len < mem->len)
		return tt_fail(-EINVAL, "self: a region of %zu bytes cannot be registered",
			       mem->len);
	mr = calloc(1, sizeof(*mr));
	if (!mr)
		return tt_fail(-ENOMEM, "self: out of memory");
	mr->mr.tp = base;
	mr->base = (uint64_t)(uintptr_t)mem->addr;
	mr->len = mem->len;
	mr->access = access;
	mr->mr.rkey = (struct tt_rkey){{++tp->next_id, (uint64_t)(uintptr_t)mr, mr->base, mr->len}};
	tt_list_add(&tp->mrs, &mr->link);
	*mrp = &mr->mr;
	return 0;
}

static int self_dereg(struct tt_mr *base)
{
	struct self_mr *mr = (struct self_mr *)base;

	tt_list_del(&mr->link);
	free(mr);
	return 0;
}

/* A list walk: a process talks to itself seldom, and with few registrations. */
static int check(struct self_ep *ep, uint64_t remote, size_t len, const struct tt_rkey *rkey,
		 unsigned access)
{
	struct self_tp *tp = (struct self_tp *)ep->ep.tp;
	struct self_mr *mr = NULL;
	struct tt_list *pos, *next;

	tt_list_each(pos, next, &tp->mrs)
	{
		mr = tt_container(pos, struct self_mr, link);
		if (mr->mr.rkey.word[0] == rkey->word[0] && mr->mr.rkey.word[1] == rkey->word[1])
			break;
	}
	if (pos == &tp->mrs)
		return tt_fail(-ESTALE, "self: the region is stale or unknown");
	if (!(mr->access & access))
		return tt_fail(-EACCES, "self: the region does not allow this access");
	if (remote < mr->base || remote - mr->base > mr->len || len > mr->len - (remote - mr->base))
		return tt_fail(-EFAULT, "self: the region does not hold [%#llx, +%zu)",
			       (unsigned long long)remote, len);
	return 0;
}

static int usable(const struct self_ep *ep)
{
	if (ep->down || (ep->up && !ep->peer))
		return tt_fail(-EPIPE, "self: the endpoint is down");
	return ep->up ? 0 : -EAGAIN;
}

static bool room(const struct self_ep *ep)
{
	const struct self_tp *tp = (struct self_tp *)ep->ep.tp;

	return tp->head - tp->tail < QUEUE;
}

static void wake(struct self_tp *tp)
{
	uint64_t one = 1;

	if (!tp->armed)
		return;
	tp->armed = false;
	while (write(tp->wake, &one, sizeof(one)) < 0 && errno == EINTR)
		;
}

static void push(struct self_ep *ep, enum tt_event_kind kind, uint32_t note, const void *data,
		 size_t len)
{
	struct self_tp *tp = (struct self_tp *)ep->ep.tp;
	struct self_item *item = &tp->queue[tp->head++ % QUEUE];

	item->kind = kind;
	item->ep = ep->peer;
	item->note = note;
	item->len = (uint32_t)len;
	if (len)
		tt_copy_data(item->data, data, len);
	wake(tp);
}

static int self_put(struct tt_ep *base, const struct tt_rma *rma)
{
	struct self_ep *ep = (struct self_ep *)base;
	bool note = rma->flags & TT_RMA_NOTE;
	int err = usable(ep);

	if (!err && note && !room(ep))
		err = -EAGAIN;
	if (!err && rma->len)
		err = check(ep, rma->remote, rma->len, rma->rkey, TT_ACCESS_WRITE);
	if (err)
		return err;
	if (rma->len)
		tt_copy_long((void *)(uintptr_t)rma->remote, rma->local, rma->len);
	if (note)
		push(ep, TT_EV_NOTE, rma->note, NULL, 0);
	return TT_FINISHED;
}

static int self_get(struct tt_ep *base, const struct tt_rma *rma)
{
	struct self_ep *ep = (struct self_ep *)base;
	int err = usable(ep);

	if (!err && rma->len)
		err = check(ep, rma->remote, rma->len, rma->rkey, TT_ACCESS_READ);
	if (err)
		return err;
	if (rma->len)
		tt_rma_land(rma, (void *)(uintptr_t)rma->remote);
	return TT_FINISHED;
}

static int self_amo(struct tt_ep *base, const struct tt_amo *amo)
{
	_Atomic uint64_t *word = (_Atomic uint64_t *)(uintptr_t)amo->remote;
	struct self_ep *ep = (struct self_ep *)base;
	uint64_t old = amo->compare;
	int err = usable(ep);

	if (!err && amo->remote % sizeof(uint64_t))
		err = tt_fail(-EINVAL, "self: an atomic needs an address that is a multiple of 8");
	if (!err)
		err = check(ep, amo->remote, sizeof(uint64_t), amo->rkey, TT_ACCESS_WRITE);
	if (err)
		return err;
	if (amo->op == TT_AMO_ADD)
		old = atomic_fetch_add(word, amo->operand);
	else
		atomic_compare_exchange_strong(word, &old, amo->operand);
	*amo->result = old;
	return TT_FINISHED;
}

static int self_msg(struct tt_ep *base, const void *data, size_t len)
{
	struct self_ep *ep = (struct self_ep *)base;
	int err = usable(ep);

	if (!err && len > TT_TP_MSG_MAX)
		err = tt_fail(-EMSGSIZE, "self: message of %zu bytes is too long (at most %d)", len,
			      TT_TP_MSG_MAX);
	if (!err && !room(ep))
		err = -EAGAIN;
	if (err)
		return err;
	push(ep, TT_EV_MSG, 0, data, len);
	return TT_FINISHED;
}

static int self_map(struct tt_ep *base, uint64_t remote, size_t len, const struct tt_rkey *rkey,
		    void **ptr)
{
	struct self_ep *ep = (struct self_ep *)base;
	int err = usable(ep);

	if (!err)
		err = check(ep, remote, len, rkey, TT_ACCESS_READ | TT_ACCESS_WRITE);
	if (!err)
		*ptr = (void *)(uintptr_t)remote;
	return err;
}

static int self_ep_open(struct tt_tp *base, struct tt_ep **epp, void *blob, size_t *len)
{
	struct self_tp *tp = (struct self_tp *)base;
	struct self_ep *ep = calloc(1, sizeof(*ep));
	struct self_blob b = {.magic = SELF_MAGIC};

	if (!ep)
		return tt_fail(-ENOMEM, "self: out of memory");
	ep->ep.ops = &self_ep_ops;
	ep->ep.tp = base;
	ep->id = ++tp->next_id;
	tt_list_add(&tp->eps, &ep->link);
	memcpy(b.cookie, tp->cookie, sizeof(b.cookie));
	b.id = ep->id;
	b.pid = (uint32_t)getpid();
	memcpy(blob, &b, sizeof(b));
	*len = sizeof(b);
	*epp = &ep->ep;
	return 0;
}

static struct self_ep *find_ep(struct self_tp *tp, const struct self_blob *b)
{
	struct tt_list *pos, *next;
	struct self_ep *ep;

	if (b->pid != (uint32_t)getpid() || memcmp(b->cookie, tp->cookie, sizeof(b->cookie)))
		return NULL;
	tt_list_each(pos, next, &tp->eps)
	{
		ep = tt_container(pos, struct self_ep, link);
		if (ep->id == b->id)
			return ep;
	}
	return NULL;
}

static int self_ep_connect(struct tt_ep *base, const void *blob, size_t len, bool active)
{
	struct self_tp *tp = (struct self_tp *)base->tp;
	struct self_ep *ep = (struct self_ep *)base;
	struct self_blob b;

	if (ep->connected)
		return tt_fail(-EISCONN, "self: the endpoint is connected already");
	if (len != sizeof(b))
		return tt_fail(-EINVAL, "self: an address of %zu bytes (expected %zu)", len,
			       sizeof(b));
	memcpy(&b, blob, sizeof(b));
	if (b.magic != SELF_MAGIC)
		return tt_fail(-EINVAL, "self: this is not the address of a self endpoint");
	ep->peer = find_ep(tp, &b);
	if (!ep->peer)
		return tt_fail(-ECONNREFUSED, "self: the peer is another process, or closed");
	ep->connected = true;
	/* Up when both ends are connected, so that nothing arrives before. */
	if (ep->peer->peer == ep) {
		ep->up_due = ep->peer->up_due = tp->changes = true;
		wake(tp);
	}
	return 0;
}

static void self_ep_close(struct tt_ep *base)
{
	struct self_tp *tp = (struct self_tp *)base->tp;
	struct self_ep *ep = (struct self_ep *)base, *other;
	struct tt_list *pos, *next;
	uint32_t i;

	tt_list_del(&ep->link);
	tt_list_each(pos, next, &tp->eps)
	{
		other = tt_container(pos, struct self_ep, link);
		if (other->peer != ep)
			continue;
		other->peer = NULL;
		other->down_due = tp->changes = true;
		wake(tp);
	}
	for (i = tp->tail; i != tp->head; i++)
		if (tp->queue[i % QUEUE].ep == ep)
			tp->queue[i % QUEUE].ep = NULL;
	free(ep);
}

/* UP is reported before the peer's messages, DOWN after them. */
static int report(struct self_tp *tp, bool up, struct tt_event *ev, int max)
{
	struct tt_list *pos, *next;
	int n = 0;

	tt_list_each(pos, next, &tp->eps)
	{
		struct self_ep *ep = tt_container(pos, struct self_ep, link);
		bool *due = up ? &ep->up_due : &ep->down_due;

		if (!*due || n == max)
			continue;
		*due = false;
		*(up ? &ep->up : &ep->down) = true;
		ev[n++] = (struct tt_event){.kind = up ? TT_EV_UP : TT_EV_DOWN,
					    .status = up ? 0 : -EPIPE,
					    .ep = &ep->ep};
	}
	return n;
}

static int take_queue(struct self_tp *tp, struct tt_event *ev, int max)
{
	struct self_item *item;
	int n = 0;

	for (; n < max && tp->tail + tp->taken != tp->head; tp->taken++) {
		item = &tp->queue[(tp->tail + tp->taken) % QUEUE];
		if (!item->ep) /* closed meanwhile */
			continue;
		ev[n] = (struct tt_event){.kind = item->kind, .note = item->note};
		if (item->kind == TT_EV_MSG) {
			ev[n].ep = &item->ep->ep;
			ev[n].len = item->len;
			ev[n].data = item->data;
		}
		n++;
	}
	return n;
}

static int self_poll(struct tt_tp *base, struct tt_event *ev, int max)
{
	struct self_tp *tp = (struct self_tp *)base;
	uint64_t count;
	int n;

	if (tp->slept) {
		tp->slept = tp->armed = false;
		while (read(tp->wake, &count, sizeof(count)) < 0 && errno == EINTR)
			;
	}
	tp->tail += tp->taken;
	tp->taken = 0;
	if (tp->tail == tp->head && !tp->changes)
		return 0;
	n = report(tp, true, ev, max);
	n += take_queue(tp, ev + n, max - n);
	if (tp->tail + tp->taken == tp->head)
		n += report(tp, false, ev + n, max - n);
	if (n < max)
		tp->changes = false;
	return n;
}

static int self_arm(struct tt_tp *base, int *fd)
{
	struct self_tp *tp = (struct self_tp *)base;

	if (tp->tail + tp->taken != tp->head || tp->changes)
		return -EAGAIN;
	/* Another thread may start an operation while this one sleeps. */
	tp->armed = tp->slept = true;
	*fd = tp->wake;
	return 0;
}

static const struct tt_ep_ops self_ep_ops = {
	.put = self_put,
	.get = self_get,
	.amo = self_amo,
	.msg = self_msg,
	.map = self_map,
};

const struct tt_tp_ops tt_self_tp = {
	.name = "self",
	.query = self_query,
	.open = self_open,
	.close = self_close,
	.reg = self_reg,
	.dereg = self_dereg,
	.ep_open = self_ep_open,
	.ep_connect = self_ep_connect,
	.ep_close = self_ep_close,
	.poll = self_poll,
	.arm = self_arm,
};
