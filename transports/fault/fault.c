/* SPDX-License-Identifier: BSD-3-Clause */
/* Transport fault: the wrapper's table, endpoints and operations; see fault.h. */
#include "transports/fault/fault.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "lib/base/hash.h"

#define HOLD_POLLS 4

struct fault_mr {
	struct tt_mr mr;
	struct tt_mr *inner;
};

/* The fate of an operation that would be accepted. */
enum fate { FATE_NORMAL, FATE_LOST, FATE_FAIL };

static struct tt_mr *inner_mr(struct tt_mr *mr)
{
	return mr ? tt_container(mr, struct fault_mr, mr)->inner : NULL;
}

/* By the number of the operation, not by the calls, of which -EAGAIN makes more or fewer. */
static enum fate choose_fate(const struct fault_tp *f)
{
	uint64_t rng = tt_hash_add(f->spec.seed, f->stats.ops + 1);

	if (f->stats.ops + 1 == f->spec.error_after || fault_chance(&rng, f->spec.error))
		return tt_random(&rng) & 1 ? FATE_LOST : FATE_FAIL;
	return FATE_NORMAL;
}

/* By the number of the operation as well, and apart from its fate, which an old seed keeps. */
static void choose_flip(struct fault_tp *f, struct fault_node *op, const struct tt_rma *rma,
			bool get)
{
	uint64_t rng = tt_hash_add(tt_hash_add(f->spec.seed, 3), f->stats.ops + 1);

	bool now = f->spec.flip_after && !f->flipped && f->stats.ops + 1 >= f->spec.flip_after;

	if (rma->len && (now || fault_chance(&rng, f->spec.flip)) &&
	    fault_flip(f, op, rma, get, rng))
		f->flipped |= now;
}

/* 0 if an operation may be started now. */
static int admit(struct fault_tp *f, const struct fault_ep *ep)
{
	if (ep->failed)
		return tt_fail(-ENOTCONN, "fault: the endpoint is down");
	if (ep->state != FAULT_UP)
		return -EAGAIN;
	if (fault_chance(&f->rng_call, f->spec.again)) {
		f->stats.again++;
		return -EAGAIN;
	}
	return 0;
}

static void count_op(struct fault_tp *f)
{
	f->stats.ops++;
	if (f->stats.ops == f->spec.die_after) {
		tt_warn("fault: die_after=%llu: this process ends here",
			(unsigned long long)f->spec.die_after);
		kill(getpid(), SIGKILL);
	}
}

/* The operation was given to the inner transport (or, FATE_LOST, was not) with this result. */
static int accepted(struct fault_tp *f, struct fault_ep *ep, struct fault_node *op, enum fate fate,
		    int result)
{
	if (result < 0) {
		fault_node_put(f, op);
		return result;
	}
	count_op(f);
	if (fate != FATE_NORMAL) {
		tt_list_add(&ep->ops, &op->link);
		fault_fail_ep(f, ep, op, -EIO);
		return TT_STARTED;
	}
	if (result == TT_STARTED) {
		tt_list_add(&ep->ops, &op->link);
		return TT_STARTED;
	}
	fault_flip_arrived(op);
	if (f->spec.finish) {
		fault_hold(f, op);
		return TT_STARTED;
	}
	fault_node_put(f, op);
	return TT_FINISHED;
}

static int inner_rma(struct fault_ep *ep, struct fault_node *op, const struct tt_rma *rma, bool get)
{
	struct tt_rma in = *rma;

	in.mr = op->copy ? op->copy->mr : inner_mr(rma->mr);
	in.head_mr = inner_mr(rma->head_mr);
	in.local = op->copy ? op->copy->bytes : rma->local;
	in.user = op;
	return get ? ep->inner->ops->get(ep->inner, &in) : ep->inner->ops->put(ep->inner, &in);
}

int fault_start(struct fault_ep *ep, struct fault_node *op, const struct tt_rma *rma, bool get)
{
	int err = inner_rma(ep, op, rma, get);

	if (err == TT_STARTED) {
		tt_list_del(&op->link);
		tt_list_add(&ep->ops, &op->link);
	}
	if (err == TT_FINISHED)
		fault_flip_arrived(op);
	return err;
}

/* Accept now, start at a later poll: the caller's buffer must stay as it is until DONE. */
static int hold_back(struct fault_tp *f, struct fault_node *op, const struct tt_rma *rma, bool get)
{
	op->u.op.rma = *rma;
	op->u.op.rkey = *rma->rkey;
	op->u.op.get = get;
	op->polls = (unsigned)(tt_random(&f->rng_call) % HOLD_POLLS);
	tt_list_add(&f->started_late, &op->link);
	f->stats.held++;
	count_op(f);
	return TT_STARTED;
}

static int start_rma(struct tt_ep *tt_ep, const struct tt_rma *rma, bool get)
{
	struct fault_ep *ep = fault_ep_of(tt_ep);
	struct fault_tp *f = fault_tp_of(ep->ep.tp);
	struct fault_node *op;
	enum fate fate;
	int err;

	err = admit(f, ep);
	if (err)
		return err;
	if (f->tp.max_put && rma->len > f->tp.max_put)
		return tt_fail(-EMSGSIZE, "fault: operation of %zu bytes is too long (at most %zu)",
			       rma->len, f->tp.max_put);
	op = fault_node_get(f, ep, TT_EV_DONE);
	if (!op)
		return tt_fail(-ENOMEM, "fault: out of memory");
	op->ev.user = rma->user;
	fate = choose_fate(f);
	if (fate == FATE_NORMAL)
		choose_flip(f, op, rma, get);
	if (fate == FATE_NORMAL && rma->rkey && fault_chance(&f->rng_call, f->spec.hold))
		return hold_back(f, op, rma, get);
	err = fate == FATE_LOST ? TT_STARTED : inner_rma(ep, op, rma, get);
	return accepted(f, ep, op, fate, err);
}

static int fault_put(struct tt_ep *ep, const struct tt_rma *rma)
{
	return start_rma(ep, rma, false);
}

static int fault_get(struct tt_ep *ep, const struct tt_rma *rma)
{
	return start_rma(ep, rma, true);
}

static int fault_amo(struct tt_ep *tt_ep, const struct tt_amo *amo)
{
	struct fault_ep *ep = fault_ep_of(tt_ep);
	struct fault_tp *f = fault_tp_of(ep->ep.tp);
	struct tt_amo in = *amo;
	struct fault_node *op;
	enum fate fate;
	int err;

	err = admit(f, ep);
	if (err)
		return err;
	op = fault_node_get(f, ep, TT_EV_DONE);
	if (!op)
		return tt_fail(-ENOMEM, "fault: out of memory");
	op->ev.user = amo->user;
	in.mr = inner_mr(amo->mr);
	in.user = op;
	fate = choose_fate(f);
	err = fate == FATE_LOST ? TT_STARTED : ep->inner->ops->amo(ep->inner, &in);
	return accepted(f, ep, op, fate, err);
}

static int fault_msg(struct tt_ep *tt_ep, const void *data, size_t len)
{
	struct fault_ep *ep = fault_ep_of(tt_ep);
	struct fault_tp *f = fault_tp_of(ep->ep.tp);
	enum fate fate;
	int err;

	err = admit(f, ep);
	if (err)
		return err;
	fate = choose_fate(f);
	err = fate == FATE_LOST ? TT_FINISHED : ep->inner->ops->msg(ep->inner, data, len);
	if (err < 0)
		return err;
	count_op(f);
	if (fate != FATE_NORMAL)
		fault_fail_ep(f, ep, NULL, -EIO);
	return err;
}

static int fault_map(struct tt_ep *tt_ep, uint64_t remote, size_t len, const struct tt_rkey *rkey,
		     void **ptr)
{
	struct fault_ep *ep = fault_ep_of(tt_ep);

	if (ep->failed)
		return tt_fail(-ENOTCONN, "fault: the endpoint is down");
	return ep->inner->ops->map(ep->inner, remote, len, rkey, ptr);
}

static int fault_silence(struct tt_ep *tt_ep, struct tt_silence *silence)
{
	struct fault_ep *ep = fault_ep_of(tt_ep);

	return ep->failed || !ep->inner->ops->silence ? -EOPNOTSUPP
						      : ep->inner->ops->silence(ep->inner, silence);
}

static const struct tt_ep_ops fault_ep_ops = {.put = fault_put,
					      .get = fault_get,
					      .amo = fault_amo,
					      .msg = fault_msg,
					      .map = fault_map,
					      .silence = fault_silence};

static int fault_ep_open(struct tt_tp *tp, struct tt_ep **ep, void *blob, size_t *len)
{
	struct fault_tp *f = fault_tp_of(tp);
	struct fault_ep *e = calloc(1, sizeof(*e));
	int err;

	if (!e)
		return tt_fail(-ENOMEM, "fault: out of memory");
	tt_list_init(&e->ops);
	e->ep.ops = &fault_ep_ops;
	e->ep.tp = tp;
	e->down = fault_node_get(f, e, TT_EV_DOWN);
	if (!e->down) {
		err = tt_fail(-ENOMEM, "fault: out of memory");
		goto free_ep;
	}
	err = f->inner->ops->ep_open(f->inner, &e->inner, blob, len);
	if (err)
		goto put_down;
	e->inner->user = e;
	*ep = &e->ep;
	return 0;
put_down:
	fault_node_put(f, e->down);
free_ep:
	free(e);
	return err;
}

static int fault_ep_connect(struct tt_ep *tt_ep, const void *blob, size_t len, bool active)
{
	struct fault_ep *ep = fault_ep_of(tt_ep);

	return fault_tp_of(ep->ep.tp)->inner->ops->ep_connect(ep->inner, blob, len, active);
}

static void fault_ep_close(struct tt_ep *tt_ep)
{
	struct fault_ep *ep = fault_ep_of(tt_ep);
	struct fault_tp *f = fault_tp_of(ep->ep.tp);

	if (ep->inner) {
		ep->inner->dead = tt_ep->dead;
		f->inner->ops->ep_close(ep->inner);
	}
	fault_drop_ep(f, ep);
	free(ep);
}

static int fault_reg(struct tt_tp *tp, const struct tt_mem *mem, unsigned access, struct tt_mr **mr)
{
	struct fault_tp *f = fault_tp_of(tp);
	struct fault_mr *m = calloc(1, sizeof(*m));
	int err;

	if (!m)
		return tt_fail(-ENOMEM, "fault: out of memory");
	err = f->inner->ops->reg(f->inner, mem, access, &m->inner);
	if (err) {
		free(m);
		return err;
	}
	m->mr.tp = tp;
	m->mr.rkey = m->inner->rkey;
	*mr = &m->mr;
	return 0;
}

static int fault_dereg(struct tt_mr *mr)
{
	struct fault_mr *m = tt_container(mr, struct fault_mr, mr);
	int err = m->inner->tp->ops->dereg(m->inner);

	if (!err)
		free(m);
	return err;
}

static void fault_close(struct tt_tp *tp)
{
	struct fault_tp *f = fault_tp_of(tp);

	fault_drop_all(f);
	f->inner->peer_lost = tp->peer_lost;
	fault_close_inner(f);
	free(f);
}

static int no_query(const struct tt_tp_params *params, struct tt_tp_device *dev, int max)
{
	return 0; /* the wrapper has no devices */
}

static int no_open(const struct tt_tp_params *params, struct tt_tp **tp)
{
	return tt_fail(-EOPNOTSUPP, "transport fault needs the transport to wrap: fault:NAME");
}

static const struct tt_tp_ops fault_ops = {.name = "fault",
					   .query = no_query,
					   .open = no_open,
					   .close = fault_close,
					   .reg = fault_reg,
					   .dereg = fault_dereg,
					   .ep_open = fault_ep_open,
					   .ep_connect = fault_ep_connect,
					   .ep_close = fault_ep_close,
					   .poll = fault_poll,
					   .arm = fault_arm};

static void fault_init(struct fault_tp *f, const struct tt_tp_ops *inner, int rank)
{
	tt_list_init(&f->held);
	tt_list_init(&f->started_late);
	tt_list_init(&f->lent);
	tt_list_init(&f->spare);
	snprintf(f->name, sizeof(f->name), "fault:%s", inner->name);
	f->ops = fault_ops;
	f->ops.name = f->name;
	/* Ranks misbehave differently, but each as it did with the same seed before. */
	f->spec.seed = tt_hash_add(f->spec.seed, (uint64_t)rank);
	f->rng_call = tt_hash_add(f->spec.seed, 1);
	f->rng_event = tt_hash_add(f->spec.seed, 2);
}

int tt_fault_open(const struct tt_tp_ops *inner, const char *spec,
		  const struct tt_tp_params *params, struct tt_tp **tp)
{
	struct fault_tp *f = calloc(1, sizeof(*f));
	int err;

	if (!f)
		return tt_fail(-ENOMEM, "fault: out of memory");
	err = tt_faults_parse(spec, &f->spec);
	if (err)
		goto free_f;
	if (f->spec.rank >= 0 && f->spec.rank != params->rank)
		f->spec = (struct tt_faults){.seed = f->spec.seed};
	err = inner->open(params, &f->inner);
	if (err)
		goto free_f;
	fault_init(f, inner, params->rank);
	f->tp = *f->inner;
	f->tp.ops = &f->ops;
	if (f->spec.max_put && (!f->tp.max_put || f->spec.max_put < f->tp.max_put))
		f->tp.max_put = f->spec.max_put;
	f->tp.caps &= ~(unsigned)TT_CAP_AT_ONCE;
	if (f->spec.one_place)
		f->tp.caps &= ~(unsigned)TT_CAP_GET_HEAD;
	snprintf(f->tp.detail, sizeof(f->tp.detail), "fault over %.80s", f->inner->detail);
	*tp = &f->tp;
	return 0;
free_f:
	free(f);
	return err;
}

struct fault_stats fault_get_stats(const struct tt_tp *tp)
{
	return fault_tp_of(tp)->stats;
}
