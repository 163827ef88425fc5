/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Checks without a run: every reference is inside its buffer, every message has a sender and a
 * receiver that agree on its length, and no two concurrent ops access the same element if one of
 * them writes. Ops of one round, and ops of different lanes in any rounds, are concurrent.
 */
#include <errno.h>
#include <stdlib.h>

#include "lib/base/error.h"
#include "lib/base/hash.h"
#include "lib/verify/check_int.h"

size_t tt_ck_buf_bytes(const struct tt_checker *c, int rank, enum tt_buf buf)
{
	const struct tt_plan_args *a = &c->plans[rank]->args;
	size_t elem = a->elem, send = tt_send_bytes(a), recv = tt_recv_bytes(a), size;

	switch (buf) {
	case TT_BUF_SEND:
		return send;
	case TT_BUF_RECV:
		return ck_one_buffer(a) && send > recv ? send : recv;
	case TT_BUF_SLOT: /* no more than the call could use; of own counts, in fixed shares */
		size = tt_coll_own_counts(a->coll) ? SIZE_MAX : (size_t)c->n * (send + recv);
		size = c->plans[rank]->node ? size : 0;
		size = size < tt_slot_bytes(a) ? size : tt_slot_bytes(a);
		return size / elem * elem;
	case TT_BUF_SCRATCH:
		return (c->plans[rank]->scratch + elem - 1) / elem * elem;
	case TT_BUF_RESIDUAL:
		return a->codec && a->feedback ? a->count * elem : 0;
	default:
		return 0;
	}
}

static int check_ref_len(const struct tt_checker *c, const struct ck_op *op, struct tt_ref ref,
			 size_t len, bool write)
{
	int rank = ck_lane_of(c, op)->rank;
	size_t size = tt_ck_buf_bytes(c, rank, ref.buf);

	if (ref.off > size || len > size - ref.off)
		return tt_fail(-EINVAL, "%s: bytes %zu to %zu are outside of %s, which has %zu",
			       tt_ck_where(c, op), ref.off, ref.off + len, tt_ck_buf_name(ref.buf),
			       size);
	if (ref.off % c->args.elem)
		return tt_fail(-EINVAL, "%s: offset %zu is inside an element", tt_ck_where(c, op),
			       ref.off);
	if (write && ck_real(c, rank, ref.buf) == TT_BUF_SEND)
		return tt_fail(-EINVAL, "%s: writes to the caller's sendbuf", tt_ck_where(c, op));
	return 0;
}

static int check_ref(const struct tt_checker *c, const struct ck_op *op, struct tt_ref ref,
		     bool write)
{
	return check_ref_len(c, op, ref, op->op.len, write);
}

/* An operand of a receive-reduce may be what arrives. */
static int check_operand(const struct tt_checker *c, const struct ck_op *op, struct tt_ref ref)
{
	bool net = op->op.kind == TT_OP_RECV_REDUCE && ref.buf == TT_BUF_NET;

	return net ? 0 : check_ref(c, op, ref, false);
}

static int check_code_op(const struct tt_checker *c, const struct ck_op *op)
{
	const struct tt_op *o = &op->op;
	int err = tt_ck_check_code(c, op);

	if (!err)
		err = check_ref_len(c, op, o->dst, tt_ck_dst_len(c, o), true);
	if (!err)
		err = check_ref_len(c, op, o->a, tt_ck_a_len(c, o), false);
	return err || !o->b.buf
		       ? err
		       : check_ref_len(c, op, o->b, tt_ck_b_len(c, o), o->kind == TT_OP_ENCODE);
}

/* The longest message: a chunk, or the shortest part that can be encoded, or a head. */
static size_t longest_message(const struct tt_checker *c)
{
	const struct tt_plan_args *a = &c->args;
	size_t unit = !a->codec		 ? 0
		      : a->codec->varies ? sizeof(struct tt_coded_head)
					 : tt_coded(a, tt_codec_unit(a));

	return unit > a->chunk ? unit : a->chunk;
}

static int check_op(const struct tt_checker *c, const struct ck_op *op)
{
	const struct tt_op *o = &op->op;
	int err = 0;

	if (o->kind >= TT_OP_PULL_REDUCE && o->kind <= TT_OP_WAIT)
		return 0; /* check_node.c */
	if (o->kind < TT_OP_SEND || o->kind > TT_OP_DECODE_ADD)
		return tt_fail(-EINVAL, "%s: the checker does not know this kind of op",
			       tt_ck_where(c, op));
	if (!o->len || o->len % c->args.elem)
		return tt_fail(-EINVAL, "%s: not made of whole elements", tt_ck_where(c, op));
	if (ck_is_code(o))
		return check_code_op(c, op);
	if (ck_is_message(o) &&
	    (o->peer < 0 || o->peer >= c->n || o->peer == ck_lane_of(c, op)->rank))
		return tt_fail(-EINVAL, "%s: no such peer", tt_ck_where(c, op));
	if (ck_is_message(o) && o->len > longest_message(c))
		return tt_fail(-EINVAL, "%s: longer than the chunk of %zu", tt_ck_where(c, op),
			       longest_message(c));
	if (tt_ck_head(op).buf)
		err = check_ref_len(c, op, tt_ck_head(op), sizeof(struct tt_coded_head), false);
	if (err)
		return err;
	if (o->kind == TT_OP_RECV_REDUCE && (o->a.buf == TT_BUF_NET) == (o->b.buf == TT_BUF_NET))
		return tt_fail(-EINVAL, "%s: exactly one operand must be what arrives",
			       tt_ck_where(c, op));
	if (o->kind != TT_OP_SEND)
		err = check_ref(c, op, o->dst, true);
	if (!err && (o->kind != TT_OP_RECV || o->a.buf))
		err = check_operand(c, op, o->a);
	if (!err && (o->kind == TT_OP_RECV_REDUCE || o->kind == TT_OP_REDUCE))
		err = check_operand(c, op, o->b);
	if (!err && o->kind == TT_OP_WEIGH)
		err = tt_ck_check_weigh(c, op);
	if (!err && o->kind == TT_OP_WEIGH && o->b.buf)
		err = check_ref_len(c, op, o->b, tt_ck_b_len(c, o), false);
	return err;
}

int tt_ck_check_bounds(const struct tt_checker *c)
{
	uint32_t i;
	int err = 0;

	for (i = 0; !err && i < c->nops; i++)
		err = check_op(c, &c->ops[i]);
	return err;
}

/* Messages by {sender, receiver, lane, index}: an open table of message numbers + 1. */
struct match {
	uint32_t *slot;
	uint32_t mask;
};

static uint32_t *find_slot(const struct tt_checker *c, const struct match *m,
			   const struct ck_op *op)
{
	const struct ck_lane *l = ck_lane_of(c, op), *sl;
	int from = ck_is_recv(&op->op) ? op->op.peer : l->rank;
	int to = ck_is_recv(&op->op) ? l->rank : op->op.peer;
	uint64_t h = tt_hash_add(
		tt_hash_add((uint64_t)from << 32 | (uint32_t)to, (uint64_t)l->lane), op->op.index);
	const struct ck_op *s;
	uint32_t i;

	for (i = (uint32_t)h & m->mask; m->slot[i]; i = (i + 1) & m->mask) {
		s = &c->ops[c->msgs[m->slot[i] - 1].send];
		sl = ck_lane_of(c, s);
		if (sl->rank == from && s->op.peer == to && sl->lane == l->lane &&
		    s->op.index == op->op.index)
			break;
	}
	return &m->slot[i];
}

static int add_sends(struct tt_checker *c, struct match *m)
{
	uint32_t i, *slot;

	for (i = 0; i < c->nops; i++) {
		if (c->ops[i].op.kind != TT_OP_SEND)
			continue;
		slot = find_slot(c, m, &c->ops[i]);
		if (*slot)
			return tt_fail(-EINVAL, "%s: message number %u is used twice",
				       tt_ck_where(c, &c->ops[i]), c->ops[i].op.index);
		c->ops[i].msg = c->nmsgs;
		c->msgs[c->nmsgs++] = (struct ck_msg){.send = i, .recv = UINT32_MAX};
		*slot = c->nmsgs;
	}
	return 0;
}

static int add_receives(struct tt_checker *c, struct match *m)
{
	struct ck_msg *msg;
	uint32_t i, *slot;

	for (i = 0; i < c->nops; i++) {
		if (!ck_is_recv(&c->ops[i].op))
			continue;
		slot = find_slot(c, m, &c->ops[i]);
		if (!*slot)
			return tt_fail(-EINVAL, "%s: its message, number %u, is never sent",
				       tt_ck_where(c, &c->ops[i]), c->ops[i].op.index);
		msg = &c->msgs[*slot - 1];
		if (msg->recv != UINT32_MAX)
			return tt_fail(-EINVAL, "%s: message number %u is received twice",
				       tt_ck_where(c, &c->ops[i]), c->ops[i].op.index);
		if (c->ops[msg->send].op.len != c->ops[i].op.len)
			return tt_fail(-EINVAL, "lengths differ: %s, but %s",
				       tt_ck_where(c, &c->ops[i]),
				       tt_ck_where(c, &c->ops[msg->send]));
		msg->recv = i;
		c->ops[i].msg = *slot - 1;
	}
	return 0;
}

int tt_ck_match_messages(struct tt_checker *c)
{
	struct match m = {.mask = 15};
	uint32_t i;
	int err;

	while (m.mask / 2 < c->nops)
		m.mask = 2 * m.mask + 1;
	m.slot = calloc((size_t)m.mask + 1, sizeof(*m.slot));
	c->msgs = calloc((size_t)c->nops + 1, sizeof(*c->msgs));
	err = m.slot && c->msgs ? add_sends(c, &m) : -ENOMEM;
	if (!err)
		err = add_receives(c, &m);
	free(m.slot);
	for (i = 0; !err && i < c->nmsgs; i++)
		if (c->msgs[i].recv == UINT32_MAX)
			err = tt_fail(-EINVAL, "%s: message number %u is never received",
				      tt_ck_where(c, &c->ops[c->msgs[i].send]),
				      c->ops[c->msgs[i].send].op.index);
	return err;
}

/* The lanes that have touched an element so far. */
enum { NO_LANE = -1, SOME_LANES = -2 };

struct touch {
	int writer, reader;	    /* lanes */
	uint32_t write_op, read_op; /* the last ones */
};

/* The accesses of one rank, by buffer; its published buffers. */
struct touches {
	struct touch *of[TT_BUF_NET];
	struct tt_ref reads;
};

/* The accesses of an op to its own rank's buffers. */
struct touched {
	struct tt_ref dst, a, b; /* TT_BUF_NONE or TT_BUF_NET: nothing */
};

static struct touched touched_by(const struct tt_checker *c, const struct touches *t,
				 const struct ck_op *op)
{
	struct touched own = {op->op.dst, op->op.a, op->op.b};
	int who = ck_lane_of(c, op)->rank;

	switch (op->op.kind) {
	case TT_OP_TELL_LENGTH: /* not of elements; check_node.c has its place */
	case TT_OP_EXPECT_LENGTH:
	case TT_OP_SIGNAL:
	case TT_OP_WAIT:
		return (struct touched){0};
	case TT_OP_RECV: /* a may take the peer's place */
		own.b = TT_NONE;
		return own;
	case TT_OP_PULL_COPY:
		own.a = own.b = TT_NONE;
		return own;
	case TT_OP_COPY:
	case TT_OP_DECODE:
	case TT_OP_DECODE_ADD:
		own.b = TT_NONE;
		return own;
	case TT_OP_SEND:
	case TT_OP_PUSH:
		own.dst = own.b = TT_NONE;
		return own;
	case TT_OP_PULL_REDUCE: /* what may be written by peers, recvbuf, begins at 0 */
		if (own.a.buf != TT_BUF_SLOT)
			own.a = (struct tt_ref){t->reads.buf, t->reads.off + own.a.off};
		if (op->op.peer != TT_ALL_RANKS && op->op.peer != who)
			own.dst = TT_NONE;
		return own;
	default:
		return own;
	}
}

static bool same_round(const struct tt_checker *c, uint32_t a, const struct ck_op *b)
{
	return c->ops[a].lane == b->lane && c->ops[a].round == b->round;
}

/*
 * The earlier op that op conflicts with at this element, or UINT32_MAX. Lanes of a plan with node
 * ops may wait for each other: they are left to check_node.c.
 */
static uint32_t conflict(const struct tt_checker *c, const struct touch *t, const struct ck_op *op,
			 bool write)
{
	if (c->plans[ck_lane_of(c, op)->rank]->node) {
		if (t->writer != NO_LANE && same_round(c, t->write_op, op))
			return t->write_op;
		return write && t->reader != NO_LANE && same_round(c, t->read_op, op) ? t->read_op
										      : UINT32_MAX;
	}
	if (t->writer != NO_LANE && (t->writer != op->lane || same_round(c, t->write_op, op)))
		return t->write_op;
	if (write && t->reader != NO_LANE &&
	    (t->reader != op->lane || same_round(c, t->read_op, op)))
		return t->read_op;
	return UINT32_MAX;
}

static int check_touch(const struct tt_checker *c, const struct touches *t, const struct ck_op *op,
		       struct tt_ref ref, size_t len, bool write)
{
	const struct touch *e;
	size_t i, n = len / c->args.elem;
	uint32_t other;

	if (ref.buf == TT_BUF_NET || !ref.buf)
		return 0;
	e = t->of[ck_real(c, ck_lane_of(c, op)->rank, ref.buf)] + ref.off / c->args.elem;
	for (i = 0; i < n; i++) {
		other = conflict(c, &e[i], op, write);
		if (other != UINT32_MAX)
			return tt_fail(-EINVAL,
				       "hazard at byte %zu of %s: %s, may run together with %s",
				       ref.off + i * c->args.elem, tt_ck_buf_name(ref.buf),
				       tt_ck_where(c, op), tt_ck_where(c, &c->ops[other]));
	}
	return 0;
}

static void record_touch(const struct tt_checker *c, struct touches *t, uint32_t i,
			 struct tt_ref ref, size_t len, bool write)
{
	const struct ck_op *op = &c->ops[i];
	struct touch *e;
	size_t k, n = len / c->args.elem;

	if (ref.buf == TT_BUF_NET || !ref.buf)
		return;
	e = t->of[ck_real(c, ck_lane_of(c, op)->rank, ref.buf)] + ref.off / c->args.elem;
	for (k = 0; k < n; k++) {
		if (write) {
			e[k].writer = op->lane;
			e[k].write_op = i;
			continue;
		}
		e[k].reader =
			e[k].reader == NO_LANE || e[k].reader == op->lane ? op->lane : SOME_LANES;
		e[k].read_op = i;
	}
}

/*
 * Within an op, dst may be an operand, but not overlap it shifted; an encoding overlaps nothing.
 */
static bool shifted(const struct tt_checker *c, const struct ck_op *op, struct tt_ref dst,
		    struct tt_ref a)
{
	int rank = ck_lane_of(c, op)->rank;
	size_t lo = a.off < dst.off ? a.off : dst.off, hi = a.off < dst.off ? dst.off : a.off;
	bool code = ck_is_code(&op->op);

	return a.buf && dst.buf && a.buf != TT_BUF_NET &&
	       ck_real(c, rank, a.buf) == ck_real(c, rank, dst.buf) && (lo != hi || code) &&
	       hi - lo < (!code		    ? op->op.len
			  : a.off < dst.off ? tt_ck_a_len(c, &op->op)
					    : tt_ck_dst_len(c, &op->op));
}

static int check_op_hazards(const struct tt_checker *c, struct touches *t, uint32_t i)
{
	const struct ck_op *op = &c->ops[i];
	struct touched own = touched_by(c, t, op);
	struct tt_ref head = tt_ck_head(op);
	size_t dst = tt_ck_dst_len(c, &op->op), a = tt_ck_a_len(c, &op->op);
	size_t b = tt_ck_b_len(c, &op->op);
	bool updates = op->op.kind == TT_OP_ENCODE; /* its b */
	int err;

	if (op->op.kind == TT_OP_SIGNAL && op->op.a.buf)
		t->reads = op->op.a;
	if (op->op.kind >= TT_OP_PULL_REDUCE && (own.dst.buf || own.a.buf)) {
		err = own.dst.buf ? check_ref(c, op, own.dst, true) : 0;
		err = !err && own.a.buf ? check_ref(c, op, own.a, false) : err;
		if (err)
			return err;
	}
	if (shifted(c, op, own.dst, own.a) || shifted(c, op, own.dst, own.b))
		return tt_fail(-EINVAL, "hazard: %s: its operand overlaps its result",
			       tt_ck_where(c, op));
	err = check_touch(c, t, op, own.dst, dst, true);
	if (!err)
		err = check_touch(c, t, op, own.a, a, false);
	if (!err)
		err = check_touch(c, t, op, own.b, b, updates);
	if (!err)
		err = check_touch(c, t, op, head, sizeof(struct tt_coded_head), false);
	if (err)
		return err;
	record_touch(c, t, i, own.dst, dst, true);
	record_touch(c, t, i, own.a, a, false);
	record_touch(c, t, i, own.b, b, updates);
	record_touch(c, t, i, head, sizeof(struct tt_coded_head), false);
	return 0;
}

static int check_rank_hazards(const struct tt_checker *c, struct touches *t, int rank)
{
	int first = c->rank_lanes[rank], last = c->rank_lanes[rank + 1], err = 0;
	const struct ck_lane *l = &c->lanes[first];
	uint32_t i, end;
	size_t k, n;
	int b;

	t->reads = TT_NONE;
	if (first == last)
		return 0;
	for (b = TT_BUF_SEND; b < TT_BUF_NET; b++) {
		n = tt_ck_buf_bytes(c, rank, (enum tt_buf)b) / c->args.elem;
		for (k = 0; k < n; k++)
			t->of[b][k] = (struct touch){.writer = NO_LANE, .reader = NO_LANE};
	}
	i = c->begin[l->first];
	l = &c->lanes[last - 1];
	end = c->begin[l->first + (uint32_t)l->nrounds];
	for (; !err && i < end; i++)
		err = check_op_hazards(c, t, i);
	return err;
}

int tt_ck_check_hazards(const struct tt_checker *c)
{
	struct touches t = {0};
	size_t most, n;
	int b, r, err = 0;

	for (b = TT_BUF_NONE; b < TT_BUF_NET; b++) {
		for (r = 0, most = 0; r < c->n; r++) {
			n = tt_ck_buf_bytes(c, r, (enum tt_buf)b) / c->args.elem;
			most = n > most ? n : most;
		}
		t.of[b] = calloc(most + 1, sizeof(struct touch));
		if (!t.of[b])
			err = -ENOMEM;
	}
	for (r = 0; !err && r < c->n; r++)
		err = check_rank_hazards(c, &t, r);
	for (b = TT_BUF_NONE; b < TT_BUF_NET; b++)
		free(t.of[b]);
	return err;
}
