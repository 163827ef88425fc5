/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The checker's run: a small model of the channel.
 *
 * A message of at most opts->eager bytes is sent at once if a credit of its pair and direction is
 * left, and holds the credit until the receiving op takes it (the model does not distinguish a slot
 * from a parked message). A longer message, or one without a credit, needs an offer: the receiving
 * op, once its round has come, writes one into the pair's offer ring if there is room. The sender's
 * process empties its rings now and then, whatever its lanes are doing, and remembers the offers:
 * if offers stayed in the ring until their ops came, lanes would block one another, and more lanes
 * than entries could deadlock. For the same reason a message without a credit must be able to use
 * an offer.
 *
 * With opts->window, messages for offers travel in pieces, as with priorities: check_net.c.
 *
 * A queue has all that can go on: see check_net.c. An empty queue with a lane not at its end is a
 * deadlock.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/error.h"
#include "lib/base/hash.h"
#include "lib/verify/check_int.h"

static void wake(struct tt_checker *c, int lane)
{
	struct ck_lane *l = &c->lanes[lane];

	if (l->round < l->nrounds && c->begun[l->rank])
		tt_ck_enqueue(c->net, (struct ck_item){c, CK_LANE, lane, 0}, &l->queued);
}

static void wake_rank(struct tt_checker *c, int rank)
{
	int i;

	for (i = c->rank_lanes[rank]; i < c->rank_lanes[rank + 1]; i++)
		wake(c, i);
}

static void finish_op(struct tt_checker *c, struct ck_op *op)
{
	op->done = true;
	c->lanes[op->lane].left--;
}

static void learn(struct tt_checker *c, uint64_t *to, const uint64_t *from)
{
	size_t i;

	for (i = 0; i < c->words; i++)
		to[i] |= from[i];
}

/* The message carries the sender's clock. */
static void tell(struct tt_checker *c, const struct ck_op *send)
{
	learn(c, c->told + send->msg * c->words, c->known + (size_t)send->lane * c->words);
	tt_ck_node_tell(c, send);
}

static int take(struct tt_checker *c, struct ck_op *recv, const struct ck_val *payload)
{
	int err = tt_ck_node_touch(c, recv);

	if (!err)
		err = tt_ck_apply(c, recv, payload);
	if (err)
		return err;
	tt_ck_node_learn(c, recv);
	learn(c, c->learnt + (size_t)recv->lane * c->words, c->told + recv->msg * c->words);
	c->msgs[recv->msg].state = CK_TAKEN;
	finish_op(c, recv);
	return 0;
}

static int send_eager(struct tt_checker *c, struct ck_op *op)
{
	struct ck_msg *m = &c->msgs[op->msg];
	int *used = &tt_ck_pair(c, m)->credits, err;

	if (c->opts.credits && *used == c->opts.credits) {
		m->state = CK_ASKED;
		wake(c, c->ops[m->recv].lane);
		return CK_BLOCKED;
	}
	m->payload = malloc(op->op.len / c->args.elem * sizeof(*m->payload));
	if (!m->payload)
		return -ENOMEM;
	err = tt_ck_read(c, op, op->op.a, m->payload);
	if (!err)
		err = tt_ck_node_touch(c, op);
	if (err)
		return err;
	++*used;
	m->state = CK_SENT;
	tell(c, op);
	finish_op(c, op);
	wake(c, c->ops[m->recv].lane);
	return 0;
}

static int receive_eager(struct tt_checker *c, struct ck_op *op)
{
	struct ck_msg *m = &c->msgs[op->msg];
	int err = take(c, op, m->payload);

	free(m->payload);
	m->payload = NULL;
	tt_ck_pair(c, m)->credits--;
	return err;
}

int tt_ck_delivered(struct tt_checker *c, uint32_t msg, const struct ck_val *payload)
{
	struct ck_op *send = &c->ops[c->msgs[msg].send], *recv = &c->ops[c->msgs[msg].recv];
	int err = take(c, recv, payload);

	finish_op(c, send);
	wake(c, recv->lane);
	if (c->opts.window) /* else it is the sender's turn */
		wake(c, send->lane);
	return err;
}

static int send_offered(struct tt_checker *c, struct ck_op *op)
{
	struct ck_val *payload = malloc(op->op.len / c->args.elem * sizeof(*payload));
	int err = payload ? tt_ck_read(c, op, op->op.a, payload) : -ENOMEM;

	if (!err)
		err = tt_ck_node_touch(c, op);
	if (err) {
		free(payload);
		return err;
	}
	tell(c, op);
	if (c->opts.window) {
		c->msgs[op->msg].state = CK_CUT;
		err = tt_ck_cut(c, op->msg, payload);
		return err ? err : CK_BLOCKED;
	}
	err = tt_ck_delivered(c, op->msg, payload);
	free(payload);
	return err;
}

static int post_offer(struct tt_checker *c, struct ck_op *op)
{
	struct ck_msg *m = &c->msgs[op->msg];
	int *used = &tt_ck_pair(c, m)->offers;

	if (c->opts.offers && *used == c->opts.offers)
		return CK_BLOCKED;
	++*used;
	m->state = CK_OFFERED;
	m->next = c->ring[op->op.peer];
	c->ring[op->op.peer] = op->msg + 1;
	tt_ck_enqueue(c->net, (struct ck_item){c, CK_RING, op->op.peer, 0},
		      &c->ring_queued[op->op.peer]);
	return CK_BLOCKED; /* the op is done when the sender has put the message */
}

/* A rank takes all offers out of its rings and remembers them. */
static void empty_rings(struct tt_checker *c, int rank)
{
	struct ck_msg *m;
	int i;

	c->ring_queued[rank] = false;
	while (c->ring[rank]) {
		m = &c->msgs[c->ring[rank] - 1];
		c->ring[rank] = m->next;
		m->state = CK_READY;
		tt_ck_pair(c, m)->offers--;
		wake(c, c->ops[m->send].lane);
		for (i = 0; c->opts.offers && i < c->net->ncalls;
		     i++) /* receives waited for room */
			wake_rank(&c->net->call[i], c->lanes[c->ops[m->recv].lane].rank);
	}
}

/* Other ranks may wait for a step of this rank. */
static void wake_host(struct tt_checker *c, int rank)
{
	int r;

	for (r = 0; r < c->n; r++)
		if (tt_ck_near(c, r, rank))
			wake_rank(c, r);
}

static int local_op(struct tt_checker *c, struct ck_op *op)
{
	bool node = op->op.kind >= TT_OP_PULL_REDUCE;
	int err = node ? tt_ck_node_op(c, op) : tt_ck_node_touch(c, op);

	if (!err && !node)
		err = tt_ck_apply(c, op, NULL);
	if (err)
		return err;
	finish_op(c, op);
	if (op->op.kind == TT_OP_SIGNAL)
		wake_host(c, ck_lane_of(c, op)->rank);
	return 0;
}

/* 0: done, CK_BLOCKED, or an error. */
static int try_op(struct tt_checker *c, struct ck_op *op)
{
	enum ck_msg_state state = c->nmsgs ? c->msgs[op->msg].state : CK_IDLE;
	bool eager = op->op.len <= c->opts.eager;

	if (op->op.kind == TT_OP_SEND) {
		if (state == CK_READY)
			return send_offered(c, op);
		return eager && state == CK_IDLE ? send_eager(c, op) : CK_BLOCKED;
	}
	if (ck_is_recv(&op->op)) {
		if (state == CK_SENT)
			return receive_eager(c, op);
		return state == CK_ASKED || (state == CK_IDLE && !eager) ? post_offer(c, op)
									 : CK_BLOCKED;
	}
	return local_op(c, op);
}

/* Enter the lane's round, or the first one after it that has ops. */
static void enter_round(struct tt_checker *c, struct ck_lane *l)
{
	const uint32_t *begin = c->begin + l->first;

	while (l->round < l->nrounds && begin[l->round] == begin[l->round + 1])
		l->round++;
	if (l->round < l->nrounds)
		l->left = begin[l->round + 1] - begin[l->round];
}

static int try_round(struct tt_checker *c, struct ck_lane *l)
{
	uint32_t begin = c->begin[l->first + (uint32_t)l->round], i, n, k;
	int err;

	n = c->begin[l->first + (uint32_t)l->round + 1] - begin;
	k = (uint32_t)(tt_random(&c->net->random) % n);
	for (i = 0; i < n; i++, k = k + 1 < n ? k + 1 : 0) {
		struct ck_op *op = &c->ops[begin + k];

		err = op->done ? 0 : try_op(c, op);
		if (err < 0)
			return err;
	}
	return 0;
}

/* The calls that this rank can start. */
static void offer_starts(struct ck_net *net, int rank)
{
	struct tt_checker *c;

	for (c = net->call; c < net->call + net->ncalls; c++)
		if (tt_ck_may_start(c, rank))
			tt_ck_enqueue(net, (struct ck_item){c, CK_START, rank, 0},
				      &c->offered[rank]);
}

static void begin_rank(struct tt_checker *c, int rank);

/* All whose turns may begin do, on any rank. */
static void begin_turns(struct ck_net *net)
{
	struct tt_checker *c;
	int r;

	for (c = net->call; c < net->call + net->ncalls; c++)
		for (r = 0; r < net->n; r++)
			if (tt_ck_begin(c, r))
				begin_rank(c, r);
}

/* The call has ended at this rank, which may have waited for that to start others. */
static void end_rank(struct tt_checker *c, int rank)
{
	tt_ck_end_turn(c, rank);
	if (c->number < 0)
		return;
	offer_starts(c->net, rank);
	begin_turns(c->net);
}

static void end_lane(struct tt_checker *c, int rank)
{
	if (!--c->left[rank])
		end_rank(c, rank);
}

static void begin_rank(struct tt_checker *c, int rank)
{
	int l;

	for (l = c->rank_lanes[rank]; l < c->rank_lanes[rank + 1]; l++) {
		enter_round(c, &c->lanes[l]);
		if (c->lanes[l].round < c->lanes[l].nrounds)
			c->left[rank]++;
		wake(c, l);
	}
	if (!c->left[rank])
		end_rank(c, rank);
}

static void start_rank(struct tt_checker *c, int rank)
{
	c->started[rank] = true;
	tt_ck_give_turn(c, rank);
	if (c->number >= 0)
		offer_starts(c->net, rank);
	if (tt_ck_begin(c, rank))
		begin_rank(c, rank);
}

/* Try the ops of a lane's round; go on to the next one when all are done. */
static int advance(struct tt_checker *c, int lane)
{
	struct ck_lane *l = &c->lanes[lane];
	size_t at = (size_t)lane * c->words;
	int err;

	l->queued = false;
	if (l->round == l->nrounds) /* its own last signal has woken it */
		return 0;
	err = try_round(c, l);
	if (err || l->left)
		return err;
	learn(c, c->known + at, c->learnt + at);
	l->round++;
	enter_round(c, l);
	wake(c, lane);
	if (l->round == l->nrounds)
		end_lane(c, l->rank);
	return tt_ck_node_round(c, lane, l->round == l->nrounds);
}

static const char *why_stuck(const struct tt_checker *c, const struct ck_op *op)
{
	if (op->op.kind == TT_OP_WAIT)
		return "a step that is never reached";
	if (c->msgs[op->msg].state == CK_CUT)
		return "some pieces can't be sent";
	if (op->op.kind == TT_OP_SEND)
		return c->msgs[op->msg].state == CK_ASKED ? "no credit and no offer" : "no offer";
	return c->msgs[op->msg].state == CK_OFFERED ? "its offer is not read" : "nothing arrives";
}

/* Adds the ops that a lane is stuck in to text. */
static void tell_stuck(const struct tt_checker *c, const struct ck_lane *lane, char *text,
		       size_t size)
{
	uint32_t i = c->begin[lane->first + (uint32_t)lane->round],
		 end = c->begin[lane->first + (uint32_t)lane->round + 1];
	size_t used = strlen(text);

	for (; i < end && used < size; i++)
		if (!c->ops[i].done)
			used += (size_t)snprintf(text + used, size - used, "; %s: %s",
						 tt_ck_where(c, &c->ops[i]),
						 why_stuck(c, &c->ops[i]));
}

static int fail_deadlock(const struct ck_net *net)
{
	const struct tt_checker *c;
	int i, l, stuck = 0, waiting = 0;
	char text[400] = "";

	for (i = 0; i < net->ncalls; i++) {
		c = &net->call[i];
		for (l = 0; l < c->nlanes; l++) {
			if (c->lanes[l].round == c->lanes[l].nrounds)
				continue;
			if (!c->begun[c->lanes[l].rank]) {
				waiting++;
				continue;
			}
			stuck++;
			tell_stuck(c, &c->lanes[l], text, sizeof(text));
		}
	}
	if (waiting)
		return tt_fail(
			-EINVAL,
			"deadlock, %d lanes are stuck and %d wait to start or for their turn%s",
			stuck, waiting, text);
	return tt_fail(-EINVAL, "deadlock, %d lanes are stuck%s", stuck, text);
}

static int go_on(struct ck_net *net, struct ck_item item)
{
	switch (item.kind) {
	case CK_LANE:
		return advance(item.c, item.which);
	case CK_RING:
		empty_rings(item.c, item.which);
		return 0;
	case CK_START:
		start_rank(item.c, item.which);
		return 0;
	default:
		return tt_ck_piece(net, item.which, item.action);
	}
}

/* One call starts everywhere at once; several do so whenever they can. */
static void start(struct ck_net *net)
{
	int r;

	for (r = 0; r < net->n; r++)
		if (net->call->number < 0)
			start_rank(net->call, r);
		else
			offer_starts(net, r);
}

/* Whether all lanes are at their ends. */
static int check_ends(const struct ck_net *net)
{
	const struct tt_checker *c;
	int i, l;

	for (i = 0; i < net->ncalls; i++) {
		c = &net->call[i];
		for (l = 0; l < c->nlanes; l++)
			if (c->lanes[l].round != c->lanes[l].nrounds)
				return fail_deadlock(net);
	}
	return 0;
}

static int run_all(struct ck_net *net)
{
	struct ck_item item;
	int rc, err = 0;

	net->random = net->opts.seed;
	start(net);
	while (!err && (rc = tt_ck_dequeue(net, &item)))
		err = rc < 0 ? rc : go_on(net, item);
	if (err || (net->script && net->script->known))
		return err;
	return check_ends(net);
}

static int run_init(struct tt_checker *c)
{
	size_t n = (size_t)c->n;

	c->ring = calloc(n, sizeof(*c->ring));
	c->ring_queued = calloc(n, sizeof(*c->ring_queued));
	c->offered = calloc(n, sizeof(*c->offered));
	c->started = calloc(n, sizeof(*c->started));
	c->begun = calloc(n, sizeof(*c->begun));
	c->turn = calloc(n, sizeof(*c->turn));
	c->left = calloc(n, sizeof(*c->left));
	return c->ring && c->ring_queued && c->offered && c->started && c->begun && c->turn &&
			       c->left
		       ? 0
		       : -ENOMEM;
}

static void run_free(struct tt_checker *c)
{
	uint32_t i;

	for (i = 0; i < c->nmsgs; i++)
		free(c->msgs[i].payload);
	free(c->ring);
	free(c->ring_queued);
	free(c->offered);
	free(c->started);
	free(c->begun);
	free(c->turn);
	free(c->left);
}

int tt_ck_run(struct ck_net *net)
{
	int err = tt_ck_net_init(net), i;

	for (i = 0; !err && i < net->ncalls; i++) {
		net->call[i].net = net;
		err = run_init(&net->call[i]);
	}
	if (!err)
		err = run_all(net);
	for (i = 0; i < net->ncalls; i++) {
		if (!err)
			tt_ck_node_known(&net->call[i]);
		run_free(&net->call[i]);
	}
	tt_ck_net_free(net);
	return err;
}
