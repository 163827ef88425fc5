/* SPDX-License-Identifier: BSD-3-Clause */
/* What algorithms share, see coll.h. */
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
	return most / a->elem;
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

/* The ops of a round: those of all slices under way, the oldest first. */
static int round_ops(const struct tt_plan_args *a, const struct tt_sched *s, int lane, int round,
		     struct tt_op *ops, tt_sched_step_fn *step)
{
	int first = round < s->steps ? 0 : (round - s->steps) / s->stride + 1, nth, i, n = 0;

	for (nth = first; nth * s->stride <= round; nth++) {
		size_t slice = (size_t)lane + (size_t)nth * (size_t)s->lanes;

		if (slice >= s->slices)
			break;
		i = n;
		n += step(a, s, slice, round - nth * s->stride, ops + n);
		for (; i < n; i++)
			ops[i].index += (uint32_t)nth * s->per_peer;
	}
	return n;
}

int tt_sched_generate(const struct tt_plan *plan, int lane, int round, struct tt_op *ops,
		      tt_sched_step_fn *step)
{
	const size_t *g = plan->gen_state;
	struct tt_sched s = {.slices = g[0],
			     .lanes = (int)g[1],
			     .steps = (int)g[2],
			     .stride = (int)g[3],
			     .max_ops = (int)g[4],
			     .per_peer = (uint32_t)g[5],
			     .state = {g[6], g[7]}};

	return round_ops(&plan->args, &s, lane, round, ops, step);
}

static void store(struct tt_builder *b, const struct tt_sched *s, int rounds, tt_sched_step_fn *step)
{
	struct tt_op ops[TT_SCHED_MAX_OPS];
	int lane, round, i, n;

	for (lane = 0; lane < s->lanes; lane++) {
		tt_lane(b, lane);
		for (round = 0; round < rounds; round++) {
			tt_round(b);
			n = round_ops(tt_builder_args(b), s, lane, round, ops, step);
			for (i = 0; i < n; i++)
				tt_add(b, &ops[i]);
		}
	}
}

void tt_schedule(struct tt_builder *b, const struct tt_sched *s, tt_sched_step_fn *step, tt_gen_fn *gen)
{
	size_t most = (size_t)s->steps * (size_t)s->max_ops, per_lane;
	int rounds, overlap;

	if (!s->slices || !s->steps)
		return;
	per_lane = tt_num_slices(s->slices, (size_t)s->lanes);
	rounds = (int)((per_lane - 1) * (size_t)s->stride) + s->steps;
	overlap = (s->steps + s->stride - 1) / s->stride;
	if (s->per_peer && s->slices * most > tt_plan_store_max)
		tt_generate(b, gen, s->lanes, rounds, s->max_ops * overlap,
			    (size_t[8]){s->slices, (size_t)s->lanes, (size_t)s->steps,
					(size_t)s->stride, (size_t)s->max_ops, s->per_peer,
					s->state[0], s->state[1]});
	else
		store(b, s, rounds, step);
}
