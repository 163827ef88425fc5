/* SPDX-License-Identifier: BSD-3-Clause */
/* Embeds plans across hosts in plans of all ranks; see hier.h. */
#include "lib/coll/hier/hier.h"

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

/*
 * *plan, if it is not of these arguments, becomes one that is, of that algorithm. False: b is
 * broken.
 */
static bool plan_across(struct tt_builder *b, const char *name, const struct tt_plan_args *across,
			struct tt_plan **plan)
{
	int err;

	if (*plan && !across->rcounts && (*plan)->args.count == across->count)
		return true;
	tt_plan_free(*plan);
	*plan = NULL;
	err = tt_plan_build(across->edges ? tt_alg_neighbors(across->coll)
					  : tt_alg_find(across->coll, name),
			    across, plan);
	if (err)
		tt_builder_broken(b, err);
	return !err;
}

static struct tt_ref moved(const struct tt_across *w, struct tt_ref ref)
{
	switch (ref.buf) {
	case TT_BUF_SEND:
		return (struct tt_ref){w->send.buf, w->send.off + ref.off};
	case TT_BUF_RECV:
		return (struct tt_ref){w->recv.buf, w->recv.off + ref.off};
	case TT_BUF_SCRATCH:
		return TT_SCRATCH(w->scratch + ref.off);
	default:
		return ref;
	}
}

void tt_hier_add(struct tt_builder *b, const struct tt_across *w, const struct tt_plan *plan)
{
	const struct tt_plan_args *a = tt_builder_args(b);
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
			if (w->place >= 0 && op.peer >= 0 && op.kind != TT_OP_WEIGH)
				op.peer = tt_hier_rank(a, op.peer, w->place);
			op.a = moved(w, op.a);
			op.b = moved(w, op.b);
			op.dst = moved(w, op.dst);
			if (op.kind >= TT_OP_ENCODE && op.kind <= TT_OP_DECODE_ADD)
				op.b.off += w->vector;
			tt_add(b, &op);
		}
	}
	tt_round(b);
	free(tmp);
}

void tt_hier_once(struct tt_builder *b, const char *name, const struct tt_plan_args *across,
		  struct tt_across where)
{
	struct tt_plan *plan = NULL;

	if (!plan_across(b, name, across, &plan))
		return;
	where.scratch = tt_scratch(b, plan->scratch);
	tt_hier_add(b, &where, plan);
	tt_plan_free(plan);
}

/* ---- lanes ---- */

#define SLICE_CHUNKS 16 /* at most, as in allreduce_halving_doubling.c */

size_t tt_hier_longest_part(const struct tt_plan_args *a)
{
	size_t len, longest = 0;
	int i;

	for (i = 0; i < a->hosts->places; i++) {
		len = tt_node_part_of(a, a->hosts->places, i).len;
		longest = len > longest ? len : longest;
	}
	return longest;
}

struct tt_span tt_hier_part(const struct tt_hier *h, int place, size_t slice)
{
	return tt_hier_piece(h, tt_node_part_of(h->a, h->a->hosts->places, place), slice);
}

bool tt_hier_slice(struct tt_hier *h, const struct tt_plan_args *across, struct tt_across *where,
		   size_t bytes, size_t *more)
{
	struct tt_span *scratch = &h->scratch[h->lane];
	size_t own;

	if ((!across->count && !across->rcounts) || !plan_across(h->b, h->name, across, &h->plan))
		return false;
	own = (h->plan->scratch + 63) / 64 * 64;
	if (scratch->len < own + bytes) /* slices differ by an element at most; the first of a place
					   is its longest */
		*scratch = (struct tt_span){tt_scratch(h->b, own + bytes), own + bytes};
	where->scratch = scratch->off;
	if (more)
		*more = scratch->off + own;
	tt_round(h->b);
	return true;
}

void tt_hier_combine(struct tt_builder *b, struct tt_ref dst, struct tt_ref a, size_t len)
{
	const struct tt_plan_args *args = tt_builder_args(b);

	if (tt_hier_size(args) > 1)
		tt_pull_reduce(b, args->rank, dst, a, len, 0);
	else
		tt_copy(b, dst, a, len);
}

void tt_hier_store(struct tt_hier *h, struct tt_ref from, size_t off, size_t len)
{
	if (len && tt_hier_size(h->a) > 1)
		tt_push(h->b, TT_ALL_RANKS, TT_RECVBUF(off), from, len);
}

void tt_hier_push(struct tt_hier *h, size_t off, size_t len)
{
	tt_hier_store(h, TT_RECVBUF(off), off, len);
}

static void add_slices(struct tt_hier *h, tt_hier_fn *slice)
{
	size_t s;
	int place;

	for (s = 0; s < h->slices; s++)
		for (place = tt_hier_place(h->a); place < h->a->hosts->places;
		     place = tt_hier_next_place(h->a, place)) {
			h->lane = (int)((s + (size_t)place) % (size_t)h->lanes);
			tt_lane(h->b, h->lane);
			slice(h, place, s);
		}
}

void tt_hier_lanes(struct tt_hier *h, size_t longest, size_t chunks, struct tt_ref reads,
		   struct tt_ref writes, tt_hier_fn *slice)
{
	struct tt_builder *b = h->b;
	const struct tt_plan_args *a = h->a;
	size_t turns; /* useful lanes of the rank with the most places */
	int lane;

	chunks = chunks < SLICE_CHUNKS ? chunks : SLICE_CHUNKS;
	h->slices = tt_num_pieces(longest, a->elem, a->chunk * chunks);
	turns = h->slices * tt_num_pieces((size_t)a->hosts->places, 1, (size_t)a->hosts->least);
	h->lanes = turns < (size_t)a->lanes ? (int)turns : a->lanes;
	h->scratch = calloc((size_t)h->lanes + 1, sizeof(*h->scratch));
	h->counts = calloc(2 * (size_t)a->hosts->hosts, sizeof(*h->counts));
	if (!h->scratch || !h->counts) {
		free(h->scratch);
		free(h->counts);
		tt_builder_broken(b, -ENOMEM);
		return;
	}
	h->displs = h->counts + a->hosts->hosts;
	tt_lane(b, 0);
	tt_signal(b, TT_NEXT_STEP, reads, writes);
	for (lane = 0; lane < h->lanes; lane++) {
		tt_lane(b, lane);
		tt_wait(b, TT_ALL_RANKS, 1);
	}
	add_slices(h, slice);
	for (lane = 0; lane < h->lanes; lane++) {
		tt_lane(b, lane);
		tt_signal(b, TT_NEXT_STEP, TT_NONE, TT_NONE);
	}
	tt_lane(b, 0);
	tt_wait(b, TT_ALL_RANKS, 1 + (unsigned)h->lanes);
	tt_plan_free(h->plan);
	free(h->scratch);
	free(h->counts);
}
