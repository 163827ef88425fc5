/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The checker's run of node plans: ranks that reach into each other's buffers.
 *
 * There are no messages; what orders the ranks is signals and waits. Each rank has a vector clock, which a signal
 * carries to those that wait for it. Two touches of the same bytes, one of them writing, by different ranks that are not
 * ordered by it are a hazard, whatever the order in which they happened here; and so is a touch that is not
 * ordered before the end of its owner's plan, when the caller has the buffers back. Slots are not the
 * caller's: turns that may overlap have different ones.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/error.h"
#include "lib/base/hash.h"
#include "lib/plan/check_int.h"

#define STEPS 8 /* of a plan */

/* A touch of a part of a rank's buffer. */
struct touch {
	struct touch *next;
	enum tt_buf buf;
	size_t off, len;
	bool write;
	int rank; /* who, at its clock */
	uint32_t clock;
	const struct ck_op *op; /* NULL: the end of its plan */
};

struct rank_state {
	uint32_t next, end;		 /* ops */
	uint32_t *clock;		 /* of all ranks, as this one knows */
	uint32_t *signal[STEPS];	 /* the clock it went with */
	struct tt_ref reads, writes;	 /* published */
	uint32_t published[2];		 /* at this clock of its own; 0: not */
	struct touch *touches;		 /* of its buffers */
};

struct node_check {
	struct tt_checker *c;
	struct rank_state *rank;
	uint32_t *clocks; /* the memory of all */
	struct ck_val *row;
};

/* A place in a rank's buffer. */
struct place {
	int rank;
	enum tt_buf buf;
	size_t off;
};

static int fail_touch(const struct node_check *n, const struct place *p, const struct ck_op *op,
		      const struct touch *t)
{
	if (!op || !t->op)
		return tt_fail(-EINVAL, "hazard: %s touches %s of rank %d, which may have returned",
			       tt_ck_where(n->c, op ? op : t->op), tt_ck_buf_name(p->buf), p->rank);
	return tt_fail(-EINVAL, "hazard in %s of rank %d: %s, may run together with %s",
		       tt_ck_buf_name(p->buf), p->rank, tt_ck_where(n->c, op),
		       tt_ck_where(n->c, t->op));
}

static int touch(struct node_check *n, int who, const struct place *p, size_t len, bool write,
		 const struct ck_op *op)
{
	struct rank_state *owner = &n->rank[p->rank], *self = &n->rank[who];
	enum tt_buf buf = ck_real(n->c, p->rank, p->buf);
	struct touch *t;

	for (t = owner->touches; t; t = t->next) {
		if (t->buf != buf || !(t->write || write) || t->rank == who ||
		    t->off >= p->off + len || p->off >= t->off + t->len)
			continue;
		if (self->clock[t->rank] < t->clock)
			return fail_touch(n, p, op, t);
	}
	t = malloc(sizeof(*t));
	if (!t)
		return -ENOMEM;
	*t = (struct touch){owner->touches, buf, p->off, len, write, who, self->clock[who], op};
	owner->touches = t;
	return 0;
}

/* Where ref of rank is, for op of who; published things only, but for its own. */
static int find_place(const struct node_check *n, int who, int rank, struct tt_ref ref, bool write,
		      const struct ck_op *op, struct place *p)
{
	const struct rank_state *owner = &n->rank[rank];
	struct tt_ref at = write ? owner->writes : owner->reads;
	size_t size;

	*p = (struct place){rank, ref.buf, ref.off};
	if (ref.buf != TT_BUF_SLOT && !(write && rank == who)) {
		if (!owner->published[write] || (ref.buf == TT_BUF_RECV) != write ||
		    n->rank[who].clock[rank] < owner->published[write])
			return tt_fail(-EINVAL, "%s: rank %d has not published %s by then",
				       tt_ck_where(n->c, op), rank, tt_ck_buf_name(ref.buf));
		*p = (struct place){rank, at.buf, at.off + ref.off};
	} else if (ref.buf == TT_BUF_SLOT && (write || (rank != who && !n->rank[who].clock[rank]))) {
		return tt_fail(-EINVAL, "%s: rank %d's slot is not to be touched",
			       tt_ck_where(n->c, op), rank);
	}
	size = tt_ck_buf_bytes(n->c, rank, p->buf);
	if (p->off > size || op->op.len > size - p->off || p->off % n->c->args.elem)
		return tt_fail(-EINVAL, "%s: bytes %zu to %zu are not elements of %s of rank %d",
			       tt_ck_where(n->c, op), p->off, p->off + op->op.len,
			       tt_ck_buf_name(p->buf), rank);
	if (write && ck_real(n->c, rank, p->buf) == TT_BUF_SEND)
		return tt_fail(-EINVAL, "%s: writes to a caller's sendbuf", tt_ck_where(n->c, op));
	return 0;
}

static struct ck_val *values(const struct node_check *n, const struct place *p)
{
	return tt_ck_buf(n->c, p->rank, p->buf)->val + p->off / n->c->args.elem;
}

static int store(struct node_check *n, int who, int rank, const struct ck_op *op)
{
	size_t e, count = op->op.len / n->c->args.elem;
	struct ck_val *dst;
	struct place p;
	int err = find_place(n, who, rank, op->op.dst, true, op, &p);

	if (!err)
		err = touch(n, who, &p, op->op.len, true, op);
	if (err)
		return err;
	dst = values(n, &p);
	for (e = 0; e < count; e++) {
		dst[e] = n->row[e];
		dst[e].written = true;
	}
	return 0;
}

static int load(struct node_check *n, int who, int rank, const struct ck_op *op,
		const struct ck_val **val)
{
	struct place p;
	int err = find_place(n, who, rank, op->op.a, false, op, &p);
	size_t e;

	if (!err)
		err = touch(n, who, &p, op->op.len, false, op);
	if (err)
		return err;
	*val = values(n, &p);
	for (e = 0; e < op->op.len / n->c->args.elem; e++)
		if (!(*val)[e].set)
			return tt_fail(-EINVAL, "%s: reads byte %zu of %s of rank %d, which nothing "
				       "was written to", tt_ck_where(n->c, op),
				       p.off + e * n->c->args.elem, tt_ck_buf_name(p.buf), rank);
	return 0;
}

static int pull_reduce(struct node_check *n, int who, const struct ck_op *op)
{
	size_t e, count = op->op.len / n->c->args.elem;
	const struct ck_val *val;
	int r, err = 0;

	for (r = 0; r < n->c->n; r++) {
		err = load(n, who, r, op, &val);
		if (err)
			return err;
		for (e = 0; e < count; e++)
			n->row[e] = r ? tt_ck_combine(&n->row[e], &val[e]) : val[e];
	}
	for (e = 0; e < count && op->op.flags & TT_OPF_DIVIDE; e++)
		tt_ck_divide(&n->row[e]);
	if (op->op.peer != TT_ALL_RANKS)
		return store(n, who, op->op.peer, op);
	for (r = 0; !err && r < n->c->n; r++)
		err = store(n, who, r, op);
	return err;
}

static int pull_copy(struct node_check *n, int who, const struct ck_op *op)
{
	const struct ck_val *val;
	int err = load(n, who, op->op.peer, op, &val);

	if (err)
		return err;
	memcpy(n->row, val, op->op.len / n->c->args.elem * sizeof(*val));
	return store(n, who, who, op);
}

static int local_copy(struct node_check *n, int who, const struct ck_op *op)
{
	struct place from = {who, op->op.a.buf, op->op.a.off},
		     to = {who, op->op.dst.buf, op->op.dst.off};
	int err;

	if (from.off + op->op.len > tt_ck_buf_bytes(n->c, who, from.buf) ||
	    to.off + op->op.len > tt_ck_buf_bytes(n->c, who, to.buf))
		return tt_fail(-EINVAL, "%s: outside of its buffer", tt_ck_where(n->c, op));
	err = touch(n, who, &from, op->op.len, false, op);
	if (!err)
		err = touch(n, who, &to, op->op.len, true, op);
	return err ? err : tt_ck_apply(n->c, op, NULL);
}

static int publish(struct node_check *n, int who, const struct ck_op *op)
{
	struct rank_state *self = &n->rank[who];

	if (!op->op.index || op->op.index >= STEPS || self->signal[op->op.index][who])
		return tt_fail(-EINVAL, "%s: not a new step", tt_ck_where(n->c, op));
	if (op->op.a.buf) {
		self->reads = op->op.a;
		self->published[0] = self->clock[who];
	}
	if (op->op.dst.buf) {
		self->writes = op->op.dst;
		self->published[1] = self->clock[who];
	}
	memcpy(self->signal[op->op.index], self->clock, (size_t)n->c->n * sizeof(*self->clock));
	self->clock[who]++;
	return 0;
}

/* 1: not yet. */
static int await(struct node_check *n, int who, const struct ck_op *op)
{
	int from = op->op.peer == TT_ALL_RANKS ? 0 : op->op.peer, r, k;
	int to = op->op.peer == TT_ALL_RANKS ? n->c->n - 1 : op->op.peer;
	struct rank_state *self = &n->rank[who];

	if (!op->op.index || op->op.index >= STEPS || from < 0 || to >= n->c->n)
		return tt_fail(-EINVAL, "%s: no such step", tt_ck_where(n->c, op));
	for (r = from; r <= to; r++)
		if (!n->rank[r].signal[op->op.index][r])
			return 1;
	for (r = from; r <= to; r++)
		for (k = 0; k < n->c->n; k++)
			if (n->rank[r].signal[op->op.index][k] > self->clock[k])
				self->clock[k] = n->rank[r].signal[op->op.index][k];
	return 0;
}

static int step(struct node_check *n, int who)
{
	const struct ck_op *op = &n->c->ops[n->rank[who].next];

	if (op->op.len % n->c->args.elem || (!op->op.len && op->op.kind < TT_OP_SIGNAL))
		return tt_fail(-EINVAL, "%s: not made of whole elements", tt_ck_where(n->c, op));
	switch (op->op.kind) {
	case TT_OP_COPY:
		return local_copy(n, who, op);
	case TT_OP_PULL_REDUCE:
		return pull_reduce(n, who, op);
	case TT_OP_PULL_COPY:
		return pull_copy(n, who, op);
	case TT_OP_SIGNAL:
		return publish(n, who, op);
	case TT_OP_WAIT:
		return await(n, who, op);
	default:
		return tt_fail(-EINVAL, "%s: not in a node plan", tt_ck_where(n->c, op));
	}
}

/* The caller has its buffers back. */
static int finish(struct node_check *n, int who)
{
	enum tt_buf b;
	int err = 0;

	for (b = TT_BUF_SEND; !err && b <= TT_BUF_SCRATCH; b++) {
		struct place p = {who, b, 0};

		if (ck_real(n->c, who, b) == b)
			err = touch(n, who, &p, tt_ck_buf_bytes(n->c, who, b), true, NULL);
	}
	return err;
}

/* Ranks that can go on do so, by the seed one at a time or as far as they can. */
static int run(struct node_check *n)
{
	struct tt_checker *c = n->c;
	uint64_t random = c->opts.seed;
	int r, k, rc, start, left = c->n, idle = 0;

	for (r = 0; r < c->n; r++)
		if (n->rank[r].next == n->rank[r].end)
			left--;
	for (start = 0; left; start++) {
		r = (int)((tt_random(&random) + (uint64_t)start) % (uint64_t)c->n);
		for (k = 0, rc = 1; k < c->n && rc; k++, r = (r + 1) % c->n) {
			if (n->rank[r].next == n->rank[r].end)
				continue;
			rc = step(n, r);
			if (rc < 0)
				return rc;
			if (rc)
				continue;
			idle = 0;
			if (++n->rank[r].next == n->rank[r].end) {
				left--;
				rc = finish(n, r);
				if (rc)
					return rc;
			}
			break;
		}
		if (rc && ++idle > 1)
			return tt_fail(-EINVAL, "deadlock: %d ranks wait for steps that are never "
				       "reached", left);
	}
	return 0;
}

static void learn_all(struct node_check *n)
{
	struct tt_checker *c = n->c;
	int r, k, l;

	if (c->args.coll != TT_COLL_BARRIER)
		return;
	for (r = 0; r < c->n; r++)
		for (l = c->rank_lanes[r]; l < c->rank_lanes[r + 1]; l++)
			for (k = 0; k < c->n; k++)
				if (n->rank[r].clock[k])
					c->known[(size_t)l * c->words + (size_t)k / 64] |=
						1ull << k % 64;
}

static int prepare(struct node_check *n)
{
	struct tt_checker *c = n->c;
	size_t per = (size_t)c->n * (1 + STEPS), longest = 0;
	const struct ck_lane *l;
	uint32_t i, *clock;
	int r, s;

	for (i = 0; i < c->nops; i++)
		longest = c->ops[i].op.len > longest ? c->ops[i].op.len : longest;
	n->rank = calloc((size_t)c->n, sizeof(*n->rank));
	n->clocks = calloc((size_t)c->n * per, sizeof(*n->clocks));
	n->row = calloc(longest / c->args.elem + 1, sizeof(*n->row));
	if (!n->rank || !n->clocks || !n->row)
		return -ENOMEM;
	for (r = 0; r < c->n; r++) {
		clock = n->clocks + (size_t)r * per;
		n->rank[r].clock = clock;
		clock[r] = 1;
		for (s = 0; s < STEPS; s++)
			n->rank[r].signal[s] = clock + (size_t)c->n * (size_t)(1 + s);
		if (c->rank_lanes[r] == c->rank_lanes[r + 1])
			continue;
		if (c->rank_lanes[r + 1] - c->rank_lanes[r] > 1)
			return tt_fail(-EINVAL, "rank %d's node plan has more than one lane", r);
		l = &c->lanes[c->rank_lanes[r]];
		n->rank[r].next = c->begin[l->first];
		n->rank[r].end = c->begin[l->first + (uint32_t)l->nrounds];
	}
	return 0;
}

int tt_ck_run_node(struct tt_checker *c)
{
	struct node_check n = {.c = c};
	int r, err = prepare(&n);

	if (!err)
		err = run(&n);
	if (!err)
		learn_all(&n);
	for (r = 0; n.rank && r < c->n; r++)
		while (n.rank[r].touches) {
			struct touch *t = n.rank[r].touches;

			n.rank[r].touches = t->next;
			free(t);
		}
	free(n.rank);
	free(n.clocks);
	free(n.row);
	return err;
}
