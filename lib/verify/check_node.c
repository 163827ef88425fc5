/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The checker's view of node ops: ranks that access each other's buffers.
 *
 * Signals and waits, and messages, order the ranks. Each lane has a vector clock, which a signal
 * carries to its waiters and a message to its receiver. These are hazards, whatever the order in
 * this run: two touches of the same bytes by different lanes, one of them writing, that the clocks
 * do not order; a touch that is not ordered before the end of the owner's plan, when the caller has
 * the buffers back; and two touches by ops of one round. (check_static.c covers a rank's own
 * buffers.) Slots do not belong to the caller; check_turns.c has those of several turns.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/error.h"
#include "lib/verify/check_int.h"

#define STEPS 64 /* of a plan */
#define CELLS 64 /* of a buffer at most, see struct rank_state; of at least this many bytes: */
#define CELL_LEAST 64

/* A touch of a part of a rank's buffer. */
struct touch {
	uint32_t next; /* in the list: number + 1 */
	size_t off, len;
	bool write;
	int lane; /* who, at its clock */
	uint32_t clock;
	const struct ck_op *op; /* NULL: the end of its plan */
};

struct rank_state {
	unsigned step;
	uint32_t *signal[STEPS];     /* the clocks of the lanes that made it, and of those before */
	struct tt_ref reads, writes; /* published */
	size_t readable;	     /* bytes of reads; 0: the rest of the buffer */
	uint32_t *published[2];	     /* at these clocks; NULL: not */
	int inputs;		     /* published so far */
	/*
	 * Of its buffers, which are divided into cells: a touch is in the lists of all cells that
	 * it is a part of, so that one of a few bytes is compared with few.
	 */
	uint32_t touches[TT_BUF_NET][CELLS]; /* numbers + 1 */
	size_t cell[TT_BUF_NET];	     /* bytes of one */
	int lanes_left;
};

struct ck_node {
	struct rank_state *rank;
	uint32_t *clock;       /* of each lane: of all lanes, as it knows */
	uint32_t *learnt;      /* clocks received in this round */
	uint32_t *told;	       /* with each message */
	uint32_t *steps;       /* the memory of rank_state's signal */
	struct touch *touches; /* of all ranks */
	uint32_t ntouches, room;
	struct ck_val *row;
};

/* A place in a rank's buffer. */
struct place {
	int rank;
	enum tt_buf buf;
	size_t off;
};

static uint32_t *clock_of(const struct tt_checker *c, int lane)
{
	return c->node->clock + (size_t)lane * (size_t)c->nlanes;
}

static void join(const struct tt_checker *c, uint32_t *to, const uint32_t *from)
{
	int i;

	for (i = 0; i < c->nlanes; i++)
		to[i] = from[i] > to[i] ? from[i] : to[i];
}

static bool knows(const struct tt_checker *c, int lane, const uint32_t *when)
{
	const uint32_t *clock = clock_of(c, lane);
	int i;

	for (i = 0; i < c->nlanes; i++)
		if (clock[i] < when[i])
			return false;
	return true;
}

/* Do they share a host? */
bool tt_ck_near(const struct tt_checker *c, int a, int b)
{
	const struct tt_hosts *h = c->args.hosts;

	return !h || c->args.node || h->host[a] == h->host[b];
}

static int fail_touch(const struct tt_checker *c, const struct place *p, const struct ck_op *op,
		      const struct touch *t)
{
	if (!op || !t->op)
		return tt_fail(-EINVAL, "hazard: %s touches %s of rank %d, which may have returned",
			       tt_ck_where(c, op ? op : t->op), tt_ck_buf_name(p->buf), p->rank);
	return tt_fail(-EINVAL, "hazard in %s of rank %d: %s, may run together with %s",
		       tt_ck_buf_name(p->buf), p->rank, tt_ck_where(c, op), tt_ck_where(c, t->op));
}

/* Whether an earlier touch is known to be over for a lane at that clock. */
static bool is_over(const struct touch *t, int lane, const uint32_t *clock, const struct ck_op *op)
{
	if (t->lane != lane)
		return clock[t->lane] >= t->clock;
	return !op || t->op == op || t->clock < clock[lane]; /* else they are of one round */
}

/* Checks an access against a cell's list, and adds it. */
static int touch_cell(struct tt_checker *c, uint32_t *list, const struct place *p,
		      const struct touch *by, const uint32_t *clock)
{
	struct ck_node *n = c->node;
	const struct touch *t;
	struct touch *more;
	uint32_t i;

	for (i = *list; i; i = t->next) {
		t = &n->touches[i - 1];
		if (!(t->write || by->write) || t->off >= by->off + by->len ||
		    by->off >= t->off + t->len)
			continue;
		if (!is_over(t, by->lane, clock, by->op))
			return fail_touch(c, p, by->op, t);
	}
	if (n->ntouches == n->room) {
		more = realloc(n->touches, 2 * ((size_t)n->room + 32) * sizeof(*more));
		if (!more)
			return -ENOMEM;
		n->touches = more;
		n->room = 2 * (n->room + 32);
	}
	n->touches[n->ntouches] = *by;
	n->touches[n->ntouches].next = *list;
	*list = ++n->ntouches;
	return 0;
}

/* By an op of a lane, or by the end of a rank's plan, at that clock. */
static int touch(struct tt_checker *c, int lane, const struct place *p, size_t len, bool write,
		 const struct ck_op *op, const uint32_t *clock)
{
	struct rank_state *owner = &c->node->rank[p->rank];
	enum tt_buf buf = ck_real(c, p->rank, p->buf);
	struct touch by = {0, p->off, len, write, lane, clock[lane], op};
	size_t cell, last = len ? (p->off + len - 1) / owner->cell[buf] : 0;
	int err = 0;

	for (cell = p->off / owner->cell[buf]; !err && len && cell <= last; cell++)
		err = touch_cell(c, &owner->touches[buf][cell], p, &by, clock);
	return err;
}

static int touch_len(struct tt_checker *c, const struct place *p, size_t len, bool write,
		     const struct ck_op *op)
{
	int err = p->buf == TT_BUF_SLOT && len ? tt_ck_touch_slot(c, p->rank, write, op) : 0;

	return err ? err : touch(c, op->lane, p, len, write, op, clock_of(c, op->lane));
}

static int touch_op(struct tt_checker *c, const struct place *p, bool write, const struct ck_op *op)
{
	return touch_len(c, p, op->op.len, write, op);
}

/* The place of ref of rank, for op; of other ranks only published buffers. */
static int find_place(const struct tt_checker *c, int rank, struct tt_ref ref, bool write,
		      const struct ck_op *op, struct place *p)
{
	const struct rank_state *owner = &c->node->rank[rank];
	struct tt_ref at = write ? owner->writes : owner->reads;
	int who = ck_lane_of(c, op)->rank;
	size_t size;

	*p = (struct place){rank, ref.buf, ref.off};
	if (ref.buf != TT_BUF_SLOT && !(write && rank == who)) {
		if (!owner->published[write] || (ref.buf == TT_BUF_RECV) != write ||
		    !tt_ck_near(c, rank, who) || !knows(c, op->lane, owner->published[write]))
			return tt_fail(-EINVAL, "%s: rank %d has not published %s by then",
				       tt_ck_where(c, op), rank, tt_ck_buf_name(ref.buf));
		if (!write && owner->readable &&
		    (ref.off > owner->readable || op->op.len > owner->readable - ref.off))
			return tt_fail(-EINVAL, "%s: rank %d has published %zu bytes",
				       tt_ck_where(c, op), rank, owner->readable);
		*p = (struct place){rank, at.buf, at.off + ref.off};
	} else if (ref.buf == TT_BUF_SLOT &&
		   (write || (rank != who && !clock_of(c, op->lane)[c->rank_lanes[rank]]))) {
		return tt_fail(-EINVAL, "%s: rank %d's slot is not to be touched",
			       tt_ck_where(c, op), rank);
	}
	size = tt_ck_buf_bytes(c, rank, p->buf);
	if (p->off > size || op->op.len > size - p->off || p->off % c->args.elem)
		return tt_fail(-EINVAL, "%s: bytes %zu to %zu are not elements of %s of rank %d",
			       tt_ck_where(c, op), p->off, p->off + op->op.len,
			       tt_ck_buf_name(p->buf), rank);
	if (write && ck_real(c, rank, p->buf) == TT_BUF_SEND)
		return tt_fail(-EINVAL, "%s: writes to a caller's sendbuf", tt_ck_where(c, op));
	return 0;
}

static struct ck_val *values(const struct tt_checker *c, const struct place *p)
{
	return tt_ck_buf(c, p->rank, p->buf)->val + p->off / c->args.elem;
}

static int store(struct tt_checker *c, int rank, const struct ck_op *op, struct tt_ref at)
{
	size_t e, count = op->op.len / c->args.elem;
	struct ck_val *dst;
	struct place p;
	int err = find_place(c, rank, at, true, op, &p);

	if (!err)
		err = touch_op(c, &p, true, op);
	if (err)
		return err;
	dst = values(c, &p);
	for (e = 0; e < count; e++) {
		dst[e] = c->node->row[e];
		dst[e].written = true;
	}
	return 0;
}

/* A copy in a slot stands for its input, which its owner may have back. */
static int load_place(struct tt_checker *c, const struct place *p, bool copy,
		      const struct ck_op *op, const struct ck_val **val)
{
	int err = copy ? tt_ck_touch_slot(c, p->rank, false, op) : touch_op(c, p, false, op);
	size_t e;

	if (err)
		return err;
	*val = values(c, p);
	for (e = 0; e < op->op.len / c->args.elem; e++)
		if (!(*val)[e].set)
			return tt_fail(-EINVAL,
				       "%s: reads byte %zu of %s of rank %d, which is not "
				       "written before",
				       tt_ck_where(c, op), p->off + e * c->args.elem,
				       tt_ck_buf_name(p->buf), p->rank);
	return 0;
}

static int load(struct tt_checker *c, int rank, const struct ck_op *op, struct tt_ref a,
		const struct ck_val **val)
{
	int who = ck_lane_of(c, op)->rank, err;
	bool copy = a.buf != TT_BUF_SLOT && rank != who && tt_ck_copies(c, rank);
	struct place p = {who, op->op.b.buf, op->op.b.off};

	if (op->op.kind == TT_OP_PULL_REDUCE && op->op.b.buf && rank == who)
		return load_place(c, &p, false, op, val);
	err = find_place(c, rank, a, false, op, &p);
	return err ? err : load_place(c, &p, copy, op, val);
}

/* In the buffers of one rank, or of all of this host but perhaps this one's. */
static int store_all(struct tt_checker *c, const struct ck_op *op, bool others)
{
	int r, who = ck_lane_of(c, op)->rank, err = 0;

	if (op->op.peer != TT_ALL_RANKS)
		return store(c, op->op.peer, op, op->op.dst);
	for (r = 0; !err && r < c->n; r++)
		if (tt_ck_near(c, r, who) && !(others && r == who))
			err = store(c, r, op, op->op.dst);
	return err;
}

static int pull_reduce(struct tt_checker *c, const struct ck_op *op)
{
	size_t e, count = op->op.len / c->args.elem;
	struct ck_val *row = c->node->row;
	int r, err, ranks = op->op.index ? (int)op->op.index : c->n;
	const struct ck_val *val;
	bool first = true;

	if (ranks > c->n)
		return tt_fail(-EINVAL, "%s: more operands than ranks", tt_ck_where(c, op));
	for (r = 0; r < ranks; r++) {
		if (!tt_ck_near(c, r, ck_lane_of(c, op)->rank))
			continue;
		err = load(c, r, op, op->op.a, &val);
		if (err)
			return err;
		for (e = 0; e < count; e++)
			row[e] = first ? val[e] : tt_ck_combine(&row[e], &val[e]);
		first = false;
	}
	for (e = 0; e < count && op->op.flags & TT_OPF_DIVIDE; e++)
		tt_ck_divide(&row[e]);
	return store_all(c, op, false);
}

/* The op by which a rank tells a number at this place of its slot; NULL: none. */
static const struct ck_op *teller_of(const struct tt_checker *c, int rank, size_t off)
{
	const struct ck_lane *lane = &c->lanes[c->rank_lanes[rank]];
	uint32_t i = c->begin[lane->first], end = c->begin[lane->first + (uint32_t)lane->nrounds];

	for (; i < end; i++)
		if (c->ops[i].op.kind == TT_OP_TELL_LENGTH && c->ops[i].op.dst.off == off)
			return &c->ops[i];
	return NULL;
}

static int touch_length(struct tt_checker *c, int rank, struct tt_ref ref, bool write,
			const struct ck_op *op)
{
	struct place p = {rank, ref.buf, ref.off};
	int who = ck_lane_of(c, op)->rank;

	if (ref.buf != TT_BUF_SLOT || rank < 0 || rank >= c->n || !tt_ck_near(c, rank, who) ||
	    (rank != who && !clock_of(c, op->lane)[c->rank_lanes[rank]]) ||
	    ref.off + TT_LENGTH_BYTES > tt_slot_bytes(&c->args))
		return tt_fail(-EINVAL, "%s: no place for a length", tt_ck_where(c, op));
	return touch_len(c, &p, TT_LENGTH_BYTES, write, op);
}

/* Adds what the op's peer tells to an offset. */
static int add_told(struct tt_checker *c, const struct ck_op *op, size_t *off)
{
	const struct ck_op *told;
	int err;

	if (!(op->op.flags & TT_OPF_TOLD))
		return 0;
	err = touch_length(c, op->op.peer, op->op.b, false, op);
	told = err ? NULL : teller_of(c, op->op.peer, op->op.b.off);
	if (!err && !told)
		return tt_fail(-EINVAL, "%s: rank %d does not tell where", tt_ck_where(c, op),
			       op->op.peer);
	*off += told ? told->op.b.off : 0;
	return err;
}

static int pull_copy(struct tt_checker *c, const struct ck_op *op)
{
	struct tt_ref a = op->op.a;
	const struct ck_val *val;
	int err = add_told(c, op, &a.off);

	if (!err)
		err = load(c, op->op.peer, op, a, &val);
	if (err)
		return err;
	memcpy(c->node->row, val, op->op.len / c->args.elem * sizeof(*val));
	return store(c, ck_lane_of(c, op)->rank, op, op->op.dst);
}

static int push(struct tt_checker *c, const struct ck_op *op)
{
	struct place from = {ck_lane_of(c, op)->rank, op->op.a.buf, op->op.a.off};
	struct tt_ref dst = op->op.dst;
	const struct ck_val *val;
	int err = add_told(c, op, &dst.off);

	if (err)
		return err;
	if (op->op.peer == from.rank || from.off % c->args.elem ||
	    from.off + op->op.len > tt_ck_buf_bytes(c, from.rank, from.buf))
		return tt_fail(-EINVAL, "%s: not what can be pushed", tt_ck_where(c, op));
	err = load_place(c, &from, false, op, &val);
	if (err)
		return err;
	memcpy(c->node->row, val, op->op.len / c->args.elem * sizeof(*val));
	return op->op.peer == TT_ALL_RANKS ? store_all(c, op, true)
					   : store(c, op->op.peer, op, dst);
}

static int signal_step(struct tt_checker *c, const struct ck_op *op)
{
	struct rank_state *self = &c->node->rank[ck_lane_of(c, op)->rank];
	unsigned step = op->op.index ? op->op.index : self->step + 1;
	uint32_t *clock = clock_of(c, op->lane);
	int who = ck_lane_of(c, op)->rank, err = tt_ck_touch_flag(c, who, true, op);

	if (!err && op->op.a.buf && tt_ck_copies(c, who))
		err = tt_ck_touch_slot(c, who, true, op);
	if (err)
		return err;
	if (step <= self->step || step >= STEPS)
		return tt_fail(-EINVAL, "%s: not a new step", tt_ck_where(c, op));
	for (; self->step < step; self->step++) /* steps may be left out */
		memcpy(self->signal[self->step + 1], self->signal[self->step],
		       (size_t)c->nlanes * sizeof(*clock));
	join(c, self->signal[step], clock);
	if (op->op.a.buf) {
		self->reads = op->op.a;
		self->readable = op->op.len;
		self->inputs++;
		self->published[0] = self->signal[step];
	}
	if (op->op.dst.buf) {
		self->writes = op->op.dst;
		self->published[1] = self->signal[step];
	}
	clock[op->lane]++;
	return 0;
}

/*
 * A wait that a rank leaves out if its input is a copy in its slot, while another input or a result
 * could still be in use. It must be the rank's last op, or the op after it would come too early.
 */
static int check_release(const struct tt_checker *c, const struct ck_op *op)
{
	const struct ck_lane *lane = ck_lane_of(c, op);
	int who = lane->rank;
	const struct rank_state *self = &c->node->rank[who];

	if (c->rank_lanes[who + 1] - c->rank_lanes[who] > 1 ||
	    op + 1 != c->ops + c->begin[lane->first + (uint32_t)lane->nrounds])
		return tt_fail(-EINVAL, "%s: only the last op of a rank may be a release",
			       tt_ck_where(c, op));
	if (self->published[1])
		return tt_fail(-EINVAL, "%s: peers may still store to the result of rank %d",
			       tt_ck_where(c, op), who);
	if (self->inputs != 1)
		return tt_fail(-EINVAL, "%s: releases one input, but rank %d has published %d",
			       tt_ck_where(c, op), who, self->inputs);
	return 0;
}

static int await(struct tt_checker *c, const struct ck_op *op)
{
	int from = op->op.peer == TT_ALL_RANKS ? 0 : op->op.peer, r;
	int to = op->op.peer == TT_ALL_RANKS ? c->n - 1 : op->op.peer;
	int who = ck_lane_of(c, op)->rank, err;

	if (!op->op.index || op->op.index >= STEPS || from < 0 || to >= c->n ||
	    (from == to && !tt_ck_near(c, from, who)))
		return tt_fail(-EINVAL, "%s: no such step", tt_ck_where(c, op));
	if (op->op.flags & TT_OPF_RELEASE) {
		err = check_release(c, op);
		if (err || tt_ck_copies(c, who))
			return err;
	}
	for (r = from; r <= to; r++)
		if (tt_ck_near(c, r, who) && c->node->rank[r].step < op->op.index)
			return CK_BLOCKED;
	for (r = from, err = 0; !err && r <= to; r++)
		if (tt_ck_near(c, r, who))
			err = tt_ck_touch_flag(c, r, false, op);
	for (r = from; !err && r <= to; r++)
		if (tt_ck_near(c, r, who))
			join(c, clock_of(c, op->lane), c->node->rank[r].signal[op->op.index]);
	return err;
}

static int expect_length(struct tt_checker *c, const struct ck_op *op)
{
	int err = touch_length(c, op->op.peer, op->op.a, false, op);
	const struct ck_op *told = err ? NULL : teller_of(c, op->op.peer, op->op.a.off);

	if (!err && (!told || told->op.b.off != op->op.b.off))
		return tt_fail(-EINVAL, "%s: rank %d does not tell %zu bytes there",
			       tt_ck_where(c, op), op->op.peer, op->op.b.off);
	return err;
}

int tt_ck_node_op(struct tt_checker *c, const struct ck_op *op)
{
	const struct tt_op *o = &op->op;

	if (o->kind == TT_OP_TELL_LENGTH)
		return touch_length(c, ck_lane_of(c, op)->rank, o->dst, true, op);
	if (o->kind == TT_OP_EXPECT_LENGTH)
		return expect_length(c, op);
	if (o->len % c->args.elem || (!o->len && o->kind < TT_OP_SIGNAL))
		return tt_fail(-EINVAL, "%s: not made of whole elements", tt_ck_where(c, op));
	switch (o->kind) {
	case TT_OP_PULL_REDUCE:
		return pull_reduce(c, op);
	case TT_OP_PULL_COPY:
		return pull_copy(c, op);
	case TT_OP_PUSH:
		return push(c, op);
	case TT_OP_SIGNAL:
		return signal_step(c, op);
	case TT_OP_WAIT:
		return await(c, op);
	default:
		return tt_fail(-EINVAL, "%s: no node op", tt_ck_where(c, op));
	}
}

static int touch_own(struct tt_checker *c, const struct ck_op *op, struct tt_ref ref, size_t len,
		     bool write)
{
	struct place p = {ck_lane_of(c, op)->rank, ref.buf, ref.off};

	return ref.buf && ref.buf != TT_BUF_NET ? touch_len(c, &p, len, write, op) : 0;
}

int tt_ck_node_touch(struct tt_checker *c, const struct ck_op *op)
{
	int err = 0;

	if (!c->node)
		return 0;
	if (op->op.kind != TT_OP_SEND)
		err = touch_own(c, op, op->op.dst, tt_ck_dst_len(c, &op->op), true);
	if (!err && op->op.kind != TT_OP_RECV)
		err = touch_own(c, op, op->op.a, tt_ck_a_len(c, &op->op), false);
	if (!err && (op->op.kind == TT_OP_RECV_REDUCE || op->op.kind == TT_OP_REDUCE))
		err = touch_own(c, op, op->op.b, op->op.len, false);
	if (!err && (op->op.kind == TT_OP_MERGE || op->op.kind == TT_OP_WEIGH))
		err = touch_own(c, op, op->op.b, tt_ck_b_len(c, &op->op), false);
	if (!err && op->op.kind == TT_OP_ENCODE)
		err = touch_own(c, op, op->op.b, op->op.len, true);
	return err;
}

/* Other ops of its round may not be over when the message leaves. */
void tt_ck_node_tell(struct tt_checker *c, const struct ck_op *send)
{
	uint32_t *told;

	if (!c->node)
		return;
	told = c->node->told + (size_t)send->msg * (size_t)c->nlanes;
	join(c, told, clock_of(c, send->lane));
	told[send->lane]--;
}

void tt_ck_node_learn(struct tt_checker *c, const struct ck_op *recv)
{
	if (c->node)
		join(c, c->node->learnt + (size_t)recv->lane * (size_t)c->nlanes,
		     c->node->told + (size_t)recv->msg * (size_t)c->nlanes);
}

/* The caller has its buffers back, when all lanes of the rank are at their end. */
static int finish(struct tt_checker *c, int who)
{
	int first = c->rank_lanes[who], l, err = 0;
	uint32_t *clock = clock_of(c, first);
	enum tt_buf b;

	for (l = first + 1; l < c->rank_lanes[who + 1]; l++)
		join(c, clock, clock_of(c, l));
	for (b = TT_BUF_SEND; !err && b <= TT_BUF_SCRATCH; b++) {
		struct place p = {who, b, 0};

		if (ck_real(c, who, b) == b)
			err = touch(c, first, &p, tt_ck_buf_bytes(c, who, b), true, NULL, clock);
	}
	return err;
}

int tt_ck_node_round(struct tt_checker *c, int lane, bool last)
{
	int who = c->lanes[lane].rank;

	if (!c->node)
		return 0;
	join(c, clock_of(c, lane), c->node->learnt + (size_t)lane * (size_t)c->nlanes);
	clock_of(c, lane)[lane]++;
	return last && --c->node->rank[who].lanes_left == 0 ? finish(c, who) : 0;
}

void tt_ck_node_known(struct tt_checker *c)
{
	int l, k;

	for (l = 0; c->node && c->words && l < c->nlanes; l++)
		for (k = 0; k < c->nlanes; k++)
			if (clock_of(c, l)[k])
				c->known[(size_t)l * c->words + (size_t)c->lanes[k].rank / 64] |=
					1ull << c->lanes[k].rank % 64;
}

static size_t larger(size_t a, size_t b)
{
	return a > b ? a : b;
}

int tt_ck_node_init(struct tt_checker *c)
{
	struct ck_node *n = calloc(1, sizeof(*n));
	size_t lanes = (size_t)c->nlanes, longest = 0;
	enum tt_buf b;
	uint32_t i;
	int r, s, l;

	c->node = n;
	if (!n)
		return -ENOMEM;
	for (i = 0; i < c->nops; i++)
		longest = c->ops[i].op.len > longest ? c->ops[i].op.len : longest;
	n->rank = calloc((size_t)c->n, sizeof(*n->rank));
	n->clock = calloc(lanes * lanes + 1, sizeof(*n->clock));
	n->learnt = calloc(lanes * lanes + 1, sizeof(*n->learnt));
	n->told = calloc(c->nmsgs * lanes + 1, sizeof(*n->told));
	n->steps = calloc((size_t)c->n * STEPS * lanes + 1, sizeof(*n->steps));
	n->row = calloc(longest / c->args.elem + 1, sizeof(*n->row));
	if (!n->rank || !n->clock || !n->learnt || !n->told || !n->steps || !n->row)
		return -ENOMEM;
	for (r = 0; r < c->n; r++) {
		n->rank[r].lanes_left = c->rank_lanes[r + 1] - c->rank_lanes[r];
		for (b = TT_BUF_SEND; b < TT_BUF_NET; b++)
			n->rank[r].cell[b] =
				larger(tt_ck_buf_bytes(c, r, b) / CELLS + 1, CELL_LEAST);
		for (s = 0; s < STEPS; s++)
			n->rank[r].signal[s] = n->steps + ((size_t)r * STEPS + (size_t)s) * lanes;
	}
	for (l = 0; l < c->nlanes; l++)
		n->clock[(size_t)l * lanes + (size_t)l] = 2;
	return 0;
}

void tt_ck_node_free(struct tt_checker *c)
{
	struct ck_node *n = c->node;

	if (!n)
		return;
	free(n->rank);
	free(n->touches);
	free(n->clock);
	free(n->learnt);
	free(n->told);
	free(n->steps);
	free(n->row);
	free(n);
	c->node = NULL;
}
