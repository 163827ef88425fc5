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
 * Lanes with something to try, and ranks with rings to empty, sit in a queue. The seed decides
 * whether the oldest, the newest or a random entry goes on, and in which order the ops of a round
 * are tried. An empty queue with a lane not at its end is a deadlock.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/error.h"
#include "lib/base/hash.h"
#include "lib/verify/check_int.h"

/* In the queue, numbers from nlanes on stand for ranks that empty their offer rings. */
static void enqueue(struct tt_checker *c, int item, bool *queued)
{
	if (*queued)
		return;
	*queued = true;
	c->queue[c->nqueue++] = item;
}

static void wake(struct tt_checker *c, int lane)
{
	struct ck_lane *l = &c->lanes[lane];

	if (l->round < l->nrounds)
		enqueue(c, lane, &l->queued);
}

static void wake_rank(struct tt_checker *c, int rank)
{
	int i;

	for (i = c->rank_lanes[rank]; i < c->rank_lanes[rank + 1]; i++)
		wake(c, i);
}

static int dequeue(struct tt_checker *c)
{
	uint64_t r = tt_random(&c->random);
	int i, item;

	switch (c->opts.seed % 3) {
	case 0: /* mostly the oldest: breadth first */
		i = r % 8 ? 0 : (int)(r / 8 % (uint64_t)c->nqueue);
		break;
	case 1: /* the newest: one lane runs as far as it can */
		i = c->nqueue - 1;
		break;
	default:
		i = (int)(r % (uint64_t)c->nqueue);
		break;
	}
	item = c->queue[i];
	memmove(c->queue + i, c->queue + i + 1, (size_t)(c->nqueue - i - 1) * sizeof(*c->queue));
	c->nqueue--;
	return item;
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

static int *pair(const struct tt_checker *c, int *table, const struct ck_msg *m)
{
	int from = ck_lane_of(c, &c->ops[m->send])->rank,
	    to = ck_lane_of(c, &c->ops[m->recv])->rank;

	return &table[from * c->n + to];
}

static int send_eager(struct tt_checker *c, struct ck_op *op)
{
	struct ck_msg *m = &c->msgs[op->msg];
	int *used = pair(c, c->credits, m), err;

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
	--*pair(c, c->credits, m);
	return err;
}

static int send_offered(struct tt_checker *c, struct ck_op *op)
{
	struct ck_msg *m = &c->msgs[op->msg];
	int err = tt_ck_read(c, op, op->op.a, c->tmp);

	if (!err)
		err = tt_ck_node_touch(c, op);
	if (err)
		return err;
	tell(c, op);
	err = take(c, &c->ops[m->recv], c->tmp);
	finish_op(c, op);
	wake(c, c->ops[m->recv].lane);
	return err;
}

static int post_offer(struct tt_checker *c, struct ck_op *op)
{
	struct ck_msg *m = &c->msgs[op->msg];
	int *used = pair(c, c->offers, m);

	if (c->opts.offers && *used == c->opts.offers)
		return CK_BLOCKED;
	++*used;
	m->state = CK_OFFERED;
	m->next = c->ring[op->op.peer];
	c->ring[op->op.peer] = op->msg + 1;
	enqueue(c, c->nlanes + op->op.peer, &c->ring_queued[op->op.peer]);
	return CK_BLOCKED; /* the op is done when the sender has put the message */
}

/* A rank takes all offers out of its rings and remembers them. */
static void empty_rings(struct tt_checker *c, int rank)
{
	struct ck_msg *m;

	while (c->ring[rank]) {
		m = &c->msgs[c->ring[rank] - 1];
		c->ring[rank] = m->next;
		m->state = CK_READY;
		--*pair(c, c->offers, m);
		wake(c, c->ops[m->send].lane);
		if (c->opts.offers) /* a receive may have waited for room */
			wake_rank(c, c->lanes[c->ops[m->recv].lane].rank);
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
	k = (uint32_t)(tt_random(&c->random) % n);
	for (i = 0; i < n; i++, k = k + 1 < n ? k + 1 : 0) {
		struct ck_op *op = &c->ops[begin + k];

		err = op->done ? 0 : try_op(c, op);
		if (err < 0)
			return err;
	}
	return 0;
}

/* Try the ops of a lane's round; go on to the next one when all are done. */
static int advance(struct tt_checker *c, int lane)
{
	struct ck_lane *l = &c->lanes[lane];
	size_t at = (size_t)lane * c->words;
	int err;

	if (l->round == l->nrounds) /* its own last signal has woken it */
		return 0;
	err = try_round(c, l);
	if (err || l->left)
		return err;
	learn(c, c->known + at, c->learnt + at);
	l->round++;
	enter_round(c, l);
	wake(c, lane);
	return tt_ck_node_round(c, lane, l->round == l->nrounds);
}

static const char *why_stuck(const struct tt_checker *c, const struct ck_op *op)
{
	if (op->op.kind == TT_OP_WAIT)
		return "a step that is never reached";
	if (op->op.kind == TT_OP_SEND)
		return c->msgs[op->msg].state == CK_ASKED ? "no credit and no offer" : "no offer";
	return c->msgs[op->msg].state == CK_OFFERED ? "its offer is not read" : "nothing arrives";
}

static int fail_deadlock(const struct tt_checker *c)
{
	char text[400] = "";
	size_t used = 0;
	uint32_t i, end;
	int l, stuck = 0;

	for (l = 0; l < c->nlanes; l++) {
		const struct ck_lane *lane = &c->lanes[l];

		if (lane->round == lane->nrounds)
			continue;
		stuck++;
		i = c->begin[lane->first + (uint32_t)lane->round];
		end = c->begin[lane->first + (uint32_t)lane->round + 1];
		for (; i < end && used < sizeof(text); i++)
			if (!c->ops[i].done)
				used += (size_t)snprintf(text + used, sizeof(text) - used,
							 "; %s: %s", tt_ck_where(c, &c->ops[i]),
							 why_stuck(c, &c->ops[i]));
	}
	return tt_fail(-EINVAL, "deadlock, %d lanes are stuck%s", stuck, text);
}

static int run_all(struct tt_checker *c)
{
	int l, item, err = 0;

	c->random = c->opts.seed;
	for (l = 0; l < c->nlanes; l++) {
		enter_round(c, &c->lanes[l]);
		wake(c, l);
	}
	while (!err && c->nqueue) {
		item = dequeue(c);
		if (item < c->nlanes) {
			c->lanes[item].queued = false;
			err = advance(c, item);
		} else {
			c->ring_queued[item - c->nlanes] = false;
			empty_rings(c, item - c->nlanes);
		}
	}
	for (l = 0; !err && l < c->nlanes; l++)
		if (c->lanes[l].round != c->lanes[l].nrounds)
			err = fail_deadlock(c);
	return err;
}

int tt_ck_run(struct tt_checker *c)
{
	size_t pairs = (size_t)c->n * (size_t)c->n;
	uint32_t i;
	int err = -ENOMEM;

	c->credits = calloc(pairs, sizeof(*c->credits));
	c->offers = calloc(pairs, sizeof(*c->offers));
	c->queue = calloc((size_t)c->nlanes + (size_t)c->n, sizeof(*c->queue));
	c->ring = calloc((size_t)c->n, sizeof(*c->ring));
	c->ring_queued = calloc((size_t)c->n, sizeof(*c->ring_queued));
	if (c->credits && c->offers && c->queue && c->ring && c->ring_queued)
		err = run_all(c);
	if (!err)
		tt_ck_node_known(c);
	for (i = 0; i < c->nmsgs; i++)
		free(c->msgs[i].payload);
	free(c->credits);
	free(c->offers);
	free(c->queue);
	free(c->ring);
	free(c->ring_queued);
	return err;
}
