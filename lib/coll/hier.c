/* SPDX-License-Identifier: BSD-3-Clause */
/* Plans across hosts within plans of all ranks, see hier.h. */
#include "lib/coll/hier.h"

#include <errno.h>
#include <stdlib.h>

struct tt_plan_args tt_hier_args(const struct tt_plan_args *a, enum tt_coll coll, size_t count)
{
	return (struct tt_plan_args){.coll = coll,
				     .rank = tt_hier_host(a),
				     .nranks = a->hosts->hosts,
				     .count = count,
				     .elem = a->elem,
				     .divide = a->divide,
				     .ordered = a->ordered,
				     .chunk = a->chunk,
				     .lanes = 1};
}

bool tt_hier_plan(struct tt_builder *b, const char *name, const struct tt_plan_args *across,
		  struct tt_plan **plan)
{
	int err;

	if (*plan && (*plan)->args.count == across->count)
		return true;
	tt_plan_free(*plan);
	*plan = NULL;
	err = tt_plan_build(tt_alg_find(across->coll, name), across, plan);
	if (err)
		tt_builder_broken(b, err);
	return !err;
}

/* A block of recv, of the rank at this place of a host. */
static struct tt_ref apart(const struct tt_hosts *h, const struct tt_across *w, size_t off)
{
	size_t host = off / w->block, rank = (size_t)h->rank[host * (size_t)h->each + (size_t)w->local];

	return (struct tt_ref){w->recv.buf, w->recv.off + rank * w->apart + off % w->block};
}

static struct tt_ref moved(const struct tt_hosts *h, const struct tt_across *w, struct tt_ref ref)
{
	switch (ref.buf) {
	case TT_BUF_SEND:
		return (struct tt_ref){w->send.buf, w->send.off + ref.off};
	case TT_BUF_RECV:
		if (w->block)
			return apart(h, w, ref.off);
		return (struct tt_ref){w->recv.buf, w->recv.off + ref.off};
	case TT_BUF_SCRATCH:
		return TT_SCRATCH(w->scratch + ref.off);
	default:
		return ref;
	}
}

void tt_hier_add(struct tt_builder *b, const struct tt_across *w, const struct tt_plan *plan)
{
	const struct tt_hosts *h = tt_builder_args(b)->hosts;
	struct tt_op *tmp = calloc((size_t)plan->max_ops + 1, sizeof(*tmp)), op;
	const struct tt_op *ops;
	int round, i, n;

	if (!tmp)
		tt_builder_broken(b, -ENOMEM);
	for (round = 0; tmp && plan->nlanes && round < tt_plan_rounds(plan, 0); round++) {
		tt_round(b);
		n = tt_plan_ops(plan, 0, round, tmp, &ops);
		for (i = 0; i < n; i++) {
			op = ops[i];
			if (op.peer >= 0)
				op.peer = h->rank[op.peer * h->each + w->local];
			op.a = moved(h, w, op.a);
			op.b = moved(h, w, op.b);
			op.dst = moved(h, w, op.dst);
			tt_add(b, &op);
		}
	}
	tt_round(b);
	free(tmp);
}

/* ---- lanes ---- */

#define SLICE_CHUNKS 16 /* at most, as in allreduce_halving_doubling.c */

struct tt_span tt_hier_part(const struct tt_plan_args *a, size_t *longest)
{
	size_t len;
	int i;

	for (i = 0, *longest = 0; i < a->hosts->each; i++) {
		len = tt_node_part_of(a, a->hosts->each, i).len;
		*longest = len > *longest ? len : *longest;
	}
	return tt_node_part_of(a, a->hosts->each, tt_hier_local(a));
}

bool tt_hier_slice(struct tt_hier *h, const struct tt_plan_args *across, size_t scratch)
{
	if (!across->count || !tt_hier_plan(h->b, h->name, across, &h->plan))
		return false;
	if (!h->slot && h->plan->scratch + scratch) { /* the first slice is a longest one */
		h->base = tt_scratch(h->b, 0);
		h->slot = tt_slots(h->b, (size_t)h->lanes,
				   (h->plan->scratch + 63) / 64 * 64 + scratch);
	}
	tt_round(h->b);
	return true;
}

void tt_hier_lanes(struct tt_hier *h, size_t longest, size_t chunks, struct tt_ref reads,
		   struct tt_ref writes, tt_hier_fn *slice)
{
	struct tt_builder *b = h->b;
	const struct tt_plan_args *a = h->a;
	size_t s;
	int lane;

	chunks = chunks < SLICE_CHUNKS ? chunks : SLICE_CHUNKS;
	h->slices = tt_num_pieces(longest, a->elem, a->chunk * chunks);
	h->lanes = h->slices < (size_t)a->lanes ? (int)h->slices : a->lanes;
	tt_lane(b, 0);
	tt_signal(b, TT_NEXT_STEP, reads, writes);
	for (lane = 0; lane < h->lanes; lane++) {
		tt_lane(b, lane);
		tt_wait(b, TT_ALL_RANKS, 1);
	}
	for (s = 0; s < h->slices; s++) {
		lane = (int)(s % (size_t)h->lanes);
		tt_lane(b, lane);
		slice(h, tt_pieces(h->part, a->elem, h->slices, s, 1), lane);
	}
	for (lane = 0; lane < h->lanes; lane++) {
		tt_lane(b, lane);
		tt_signal(b, TT_NEXT_STEP, TT_NONE, TT_NONE);
	}
	tt_lane(b, 0);
	tt_wait(b, TT_ALL_RANKS, 1 + (unsigned)h->lanes);
	tt_plan_free(h->plan);
}
