/* SPDX-License-Identifier: BSD-3-Clause */
/* Helpers for algorithms; see coll.h. */
#include "lib/coll/coll.h"

size_t tt_longest(const struct tt_plan_args *a,
		  struct tt_span (*block)(const struct tt_plan_args *, int))
{
	size_t most = 0;
	int i;

	for (i = 0; i < a->nranks; i++) {
		size_t len = block(a, i).len;

		most = len > most ? len : most;
	}
	return most;
}

size_t tt_slice_slots(struct tt_builder *b, size_t n, size_t len, size_t *slot)
{
	size_t base = tt_scratch(b, 0), chunk = tt_builder_args(b)->chunk;

	*slot = tt_slots(b, n, len < chunk ? len : chunk);
	return base;
}

static size_t piece(const struct tt_builder *b, size_t left)
{
	size_t chunk = tt_builder_args(b)->chunk;

	return left < chunk ? left : chunk;
}

/* ref, len bytes further on; what arrives has no offset. */
static struct tt_ref after(struct tt_ref ref, size_t len)
{
	if (ref.buf != TT_BUF_NET)
		ref.off += len;
	return ref;
}

void tt_send_long(struct tt_builder *b, int peer, struct tt_ref a, size_t len)
{
	size_t n;

	for (; len; len -= n, a = after(a, n)) {
		n = piece(b, len);
		tt_send(b, peer, a, n);
	}
}

void tt_recv_long(struct tt_builder *b, int peer, struct tt_ref dst, size_t len)
{
	size_t n;

	for (; len; len -= n, dst = after(dst, n)) {
		n = piece(b, len);
		tt_recv(b, peer, dst, n);
	}
}

void tt_recv_reduce_long(struct tt_builder *b, int peer, struct tt_ref dst, struct tt_ref a,
			 struct tt_ref bb, size_t len, unsigned flags)
{
	size_t n;

	for (; len; len -= n, dst = after(dst, n), a = after(a, n), bb = after(bb, n)) {
		n = piece(b, len);
		tt_recv_reduce(b, peer, dst, a, bb, n, flags);
	}
}

/* State of a pipeline. */
enum { SLICES, STEPS, BASE, SLOT };

static struct tt_pipe pipe_of(const struct tt_sliced *s)
{
	return (struct tt_pipe){.slices = s->state[SLICES],
				.steps = (int)s->state[STEPS],
				.lanes = s->lanes,
				.base = s->state[BASE],
				.slot = s->state[SLOT]};
}

/* A lane's slice number nth is in its step round - nth; the oldest one comes first. */
static int pipe_round(const struct tt_plan_args *a, const struct tt_sliced *s,
		      const struct tt_step *at, struct tt_op *ops)
{
	struct tt_pipe p = pipe_of(s);
	int nth = at->step < p.steps ? 0 : at->step - p.steps + 1, i, n = 0;

	for (; nth <= at->step; nth++) {
		size_t slice = (size_t)at->lane + (size_t)nth * (size_t)p.lanes;

		if (slice >= p.slices)
			break;
		i = n;
		n += s->pipe(a, &p, slice, at->step - nth, ops + n);
		for (; i < n; i++)
			ops[i].index = (uint32_t)nth;
	}
	return n;
}

/* A slot is in use until the last step of its slice at most, so slots are reused in turn. */
struct tt_ref tt_pipe_slot(const struct tt_pipe *p, size_t slice, size_t which)
{
	size_t lanes = (size_t)p->lanes, steps = (size_t)p->steps;
	size_t i = (which * lanes + slice % lanes) * steps + slice / lanes % steps;

	return TT_SCRATCH(p->base + i * p->slot);
}

void tt_pipe(struct tt_builder *b, tt_pipe_fn *fn, const struct tt_pipe *p, int max_ops, bool full,
	     size_t slots)
{
	size_t lanes = (size_t)p->lanes, steps = (size_t)p->steps, per_lane;
	struct tt_sliced s = {.fn = pipe_round, .pipe = fn, .slices = lanes, .full = full};

	if (!p->slices)
		return;
	per_lane = (p->slices + lanes - 1) / lanes;
	s.max_ops = max_ops * p->steps;
	s.steps = (int)per_lane - 1 + p->steps;
	s.slice_ops = per_lane * (size_t)max_ops * steps;
	s.state[SLICES] = p->slices;
	s.state[STEPS] = steps;
	s.state[BASE] = tt_slice_slots(b, slots * lanes * steps, tt_vector(tt_builder_args(b)).len,
				       &s.state[SLOT]);
	tt_sliced(b, &s);
}
