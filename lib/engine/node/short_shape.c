/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The shapes of calls that a communicator has seen: what short_path.c needs to run such a call,
 * found out once.
 */
#include <stdlib.h>
#include <string.h>

#include "lib/engine/node/short_path.h"
#include "lib/plan/stored.h"

#define MOST ((size_t)1 << 20) /* bytes, copied under the lock; of more a request costs little */

static bool publishes(const struct tt_op *op)
{
	return op->kind == TT_OP_SIGNAL && (op->a.buf || op->dst.buf);
}

/*
 * Whether short_path.c can run the plan: local copies and node ops in one lane, and nothing is
 * published after the first wait.
 */
static bool runs(const struct tt_plan *plan)
{
	const struct tt_op *op, *end;
	bool waits = false;

	if (!plan->node || plan->mixed || plan->generated || plan->nlanes != 1 || plan->scratch ||
	    plan->args.hosts)
		return false;
	op = plan->lane[0].ops;
	end = op + plan->lane[0].begin[plan->lane[0].nrounds];
	for (; op < end; op++) {
		if (op->kind != TT_OP_COPY && op->kind < TT_OP_PULL_REDUCE)
			return false;
		waits |= op->kind == TT_OP_WAIT;
		if ((op->kind == TT_OP_SIGNAL && op->index == TT_NEXT_STEP) ||
		    (waits && publishes(op)))
			return false;
	}
	return true;
}

struct tt_node_count tt_short_bytes(const struct tt_plan *plan, const struct tt_op *op)
{
	struct tt_node_count count = {0};
	int ranks = op->index ? (int)op->index : plan->args.nranks, others;

	if (op->kind == TT_OP_COPY) {
		count.copied = op->len;
	} else if (tt_short_uses_slots(op)) {
		others = ranks - (plan->args.rank < ranks); /* an exscan leaves out its own rank */
		count.pulled = op->kind == TT_OP_PULL_COPY ? op->len : op->len * (uint64_t)others;
		count.reduced = op->kind == TT_OP_PULL_COPY ? 0 : op->len;
	}
	return count;
}

/* The plan of such calls, as a request has it, and their rings; NULL: not for the short path. */
static struct tt_plan *plan_of(struct tutti_comm *comm, struct tt_plan_args *args,
			       struct tt_node_ring *ring, bool *rings)
{
	const struct tt_alg *alg;
	struct tt_plan *plan;
	uint32_t pieces;

	if (comm->hosts || tt_send_bytes(args) > MOST || tt_recv_bytes(args) > MOST)
		return NULL;
	pieces = tt_ring_shape(args, ring);
	if (pieces > 1) /* parts that differ much */
		return NULL;
	*rings = pieces == 1;
	alg = tt_choose(comm->chooser, args);
	if (tt_plan_build(alg, args, &plan))
		return NULL;
	if (runs(plan))
		return plan;
	tt_plan_free(plan);
	return NULL;
}

static void count_ops(struct tt_short_shape *shape)
{
	const struct tt_lane *lane = shape->plan->lane;
	struct tt_node_count count;
	unsigned i;

	shape->ops = lane->ops;
	shape->nops = lane->begin[lane->nrounds];
	for (i = 0; i < shape->nops; i++) {
		count = tt_short_bytes(shape->plan, &lane->ops[i]);
		shape->bytes.copied += count.copied;
		shape->bytes.pulled += count.pulled;
		shape->bytes.reduced += count.reduced;
		shape->publishes |= publishes(&lane->ops[i]);
		shape->stored |= lane->ops[i].kind == TT_OP_SIGNAL && lane->ops[i].dst.buf;
		if (lane->ops[i].kind == TT_OP_PULL_REDUCE && lane->ops[i].flags & TT_OPF_DIVIDE)
			shape->reduce.divide_by = shape->plan->args.nranks;
	}
}

static void forget(struct tt_short_shape *shape)
{
	if (shape->plan)
		tt_plan_free(shape->plan);
	tt_counts_put(shape->counts);
	*shape = (struct tt_short_shape){0};
}

#define ROOT_BITS 24 /* TUTTI_NRANKS */
#define TYPE_AT (11 + ROOT_BITS)

_Static_assert(TT_NUM_COLLS <= 1 << 5 && TUTTI_NUM_OPS < 1 << 4, "key_of");
_Static_assert((TUTTI_OPAQUE_FLAG | TUTTI_OPAQUE_MAX) < 1ull << (64 - TYPE_AT), "key_of");

/* The arguments but for count, counts and buffers, each in bits of its own; never 0. */
static inline uint64_t key_of(const struct tt_call *call)
{
	uint64_t op = call->op < TUTTI_NUM_OPS ? call->op : TUTTI_NUM_OPS; /* not run here */

	return 1 | (uint64_t)call->in_place << 1 | (uint64_t)call->coll << 2 | op << 7 |
	       (uint64_t)(uint32_t)call->root << 11 | (uint64_t)call->datatype << TYPE_AT;
}

/* Of a call with rings. */
static void find_way(const struct tt_node_group *g, const struct tt_plan_args *args,
		     struct tt_short_shape *shape)
{
	shape->ring_bytes = tt_node_ring_bytes(g, &shape->reduce.ring);
	shape->how = TT_NODE_STAYS; /* the ring has the slot; or there is none, as that is faster */
	shape->way_len = tt_ring_vector(args);
	shape->way = tt_node_way(g, tt_ring_kind(args->coll), shape->way_len);
	shape->mapped_way = tt_ring_mapped_way(g, args);
}

static void learn(struct tutti_comm *comm, const struct tt_call *call, struct tt_short_shape *shape)
{
	struct tt_plan_args args = tt_call_args(comm, call);

	forget(shape);
	if (tt_coll_counts(call->coll)) {
		shape->counts = tt_counts_new(&args); /* the caller may free its arrays */
		if (!shape->counts)
			return;
		args = shape->counts->args;
		shape->own_counts = tt_coll_own_counts(call->coll) ? shape->counts : NULL;
	}
	shape->key = key_of(call);
	shape->packed = !call->rdispls;
	shape->packs = !call->sdispls;
	shape->in_place = call->in_place;
	shape->count = call->count;
	shape->fields = tt_call_fields(comm, call, NULL);
	shape->mixed = tt_comm_mix(comm, &shape->fields);
	shape->extent[TT_BUF_RECV] = tt_recv_bytes(&args);
	shape->extent[TT_BUF_SEND] =
		tt_short_sends_recvbuf(call) ? tt_recv_bytes(&args) : tt_send_bytes(&args);
	if (!tt_coll_reduces(call->coll) || call->op < TUTTI_NUM_OPS)
		shape->plan = plan_of(comm, &args, &shape->reduce.ring, &shape->rings);
	if (!shape->plan)
		return;
	shape->reduce.datatype = call->datatype;
	shape->reduce.op = call->op;
	shape->reduce.elem = args.elem;
	shape->how = tt_node_how(call->coll);
	if (shape->rings)
		find_way(comm->node->group, &args, shape);
	count_ops(shape);
	tt_wire_stats(comm->ctx->wire)->allocations++;
	shape->record = tt_record_short(comm, shape);
}

static bool same_array(const size_t *kept, const size_t *given, size_t bytes)
{
	return kept && given ? !memcmp(kept, given, bytes) : kept == given;
}

static bool same_counts(const struct tt_short_shape *shape, const struct tt_call *call)
{
	const struct tt_plan_args *a = &shape->counts->args;
	size_t bytes = (size_t)a->nranks * sizeof(size_t);

	return same_array(a->rcounts, call->rcounts, bytes) && shape->packed == !call->rdispls &&
	       (shape->packed || same_array(a->rdispls, call->rdispls, bytes)) &&
	       same_array(a->scounts, call->scounts, bytes) && shape->packs == !call->sdispls &&
	       (shape->packs || same_array(a->sdispls, call->sdispls, bytes));
}

/* A set without calls, in the place of those that have no memory yet. Never written. */
static struct tt_short_shape none[TT_SHORT_SET];

/* A free entry of set i, or another in turn; none: no memory. */
static struct tt_short_shape *place_for(struct tt_node_comm *nc, uint64_t i)
{
	struct tt_short_shape *set = nc->shape[i], *s;

	if (set == none) {
		set = calloc(TT_SHORT_SET, sizeof(*set));
		nc->shape[i] = set ? set : none;
		return nc->shape[i];
	}
	for (s = set; s < set + TT_SHORT_SET; s++)
		if (!s->key)
			return s;
	return &set[nc->learned++ % TT_SHORT_SET];
}

struct tt_short_shape *tt_short_shape(struct tutti_comm *comm, const struct tt_call *call)
{
	struct tt_node_comm *nc = comm->node;
	uint64_t key = key_of(call), i;
	struct tt_short_shape *set, *end, *s;

	i = (key + call->count) * 0x9e3779b97f4a7c15 >> (64 - TT_SHORT_BITS);
	set = nc->shape[i];
	end = set + TT_SHORT_SET;
	for (s = set; s < end; s++)
		if (s->key == key && s->count == call->count &&
		    (!s->counts || same_counts(s, call)))
			return s;
	s = place_for(nc, i);
	if (s != none)
		learn(comm, call, s);
	return s;
}

void tt_short_new(struct tt_node_comm *nc)
{
	int i;

	for (i = 0; i < TT_SHORT_SETS; i++)
		nc->shape[i] = none;
}

void tt_short_forget(struct tt_node_comm *nc)
{
	int i, k;

	for (i = 0; i < TT_SHORT_SETS; i++)
		for (k = 0; k < TT_SHORT_SET && nc->shape[i] != none; k++)
			forget(&nc->shape[i][k]);
}

void tt_short_free(struct tt_node_comm *nc)
{
	int i;

	tt_short_forget(nc);
	for (i = 0; i < TT_SHORT_SETS; i++)
		if (nc->shape[i] != none)
			free(nc->shape[i]);
}
