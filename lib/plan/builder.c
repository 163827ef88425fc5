/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The builder: collects ops by lane and round in growing arrays, then packs them into one block.
 *
 * It keeps algorithms simple: zero-length ops vanish (both sides see the same length, so both drop
 * them), empty rounds vanish, messages are numbered per lane, peer and direction, and a failure is
 * remembered until tt_plan_finish.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/error.h"
#include "lib/base/hash_map.h"
#include "lib/plan/stored.h"

#define SCRATCH_ALIGN 64

size_t tt_plan_store_max = 16384;

struct lane_builder {
	struct tt_op *ops;
	uint32_t nops, cap_ops;
	uint32_t *begin;
	uint32_t nrounds, cap_rounds;
	bool in_round; /* the next op joins the last round instead of opening one */
};

/* How many messages a lane has exchanged with a peer so far. */
struct tt_builder {
	struct tt_plan plan; /* args, algo, scratch, sliced; copied into the result */
	struct lane_builder *lanes;
	int nlanes, cap_lanes, lane;
	bool messages;
	struct tt_map counters; /* of messages, by lane and peer: received << 32 | sent */
	int err, broken;	/* broken: another reason than memory */
};

struct tt_builder *tt_builder_new(const struct tt_plan_args *args, const char *algo)
{
	struct tt_builder *b = calloc(1, sizeof(*b));

	if (!b)
		return NULL;
	b->plan.args = *args;
	b->plan.algo = algo;
	return b;
}

const struct tt_plan_args *tt_builder_args(const struct tt_builder *b)
{
	return &b->plan.args;
}

/* Make room for one more of *n items; the first failure sticks. */
static bool grow(struct tt_builder *b, void **items, uint32_t n, uint32_t *cap, size_t size)
{
	uint32_t newcap = *cap ? *cap * 2 : 8;
	void *p;

	if (b->err)
		return false;
	if (n < *cap)
		return true;
	p = newcap > *cap ? reallocarray(*items, newcap, size) : NULL;
	if (!p) {
		b->err = -ENOMEM;
		return false;
	}
	*items = p;
	*cap = newcap;
	return true;
}

void tt_lane(struct tt_builder *b, int lane)
{
	uint32_t cap = (uint32_t)b->cap_lanes;

	while (b->nlanes <= lane) {
		if (!grow(b, (void **)&b->lanes, (uint32_t)b->nlanes, &cap, sizeof(*b->lanes)))
			return;
		b->cap_lanes = (int)cap;
		memset(&b->lanes[b->nlanes++], 0, sizeof(*b->lanes));
	}
	b->lane = lane;
}

void tt_round(struct tt_builder *b)
{
	if (b->lane < b->nlanes)
		b->lanes[b->lane].in_round = false;
}

static int rounds_so_far(const struct tt_builder *b)
{
	return b->nlanes ? (int)b->lanes[0].nrounds : 0;
}

void tt_fork(struct tt_builder *b, size_t heads, size_t stride)
{
	b->plan.heads = heads;
	b->plan.head_stride = stride;
	b->plan.fork = rounds_so_far(b);
}

void tt_next_branch(struct tt_builder *b)
{
	tt_round(b);
	b->plan.first[b->plan.nways++] = rounds_so_far(b);
}

size_t tt_scratch(struct tt_builder *b, size_t bytes)
{
	size_t off = (b->plan.scratch + SCRATCH_ALIGN - 1) / SCRATCH_ALIGN * SCRATCH_ALIGN;

	b->plan.scratch = off + bytes;
	return off;
}

static bool number_message(struct tt_builder *b, struct tt_op *op)
{
	uint64_t *both;
	int shift = op->kind == TT_OP_SEND ? 0 : 32;

	if (op->kind != TT_OP_SEND && op->kind != TT_OP_RECV && op->kind != TT_OP_RECV_REDUCE)
		return true;
	both = tt_map_at(&b->counters, (uint64_t)b->lane << 32 | (uint32_t)op->peer);
	if (!both) {
		b->err = -ENOMEM;
		return false;
	}
	if (*both == TT_MAP_NONE)
		*both = 0;
	op->index = (uint32_t)(*both >> shift);
	*both += 1ull << shift;
	return true;
}

void tt_add(struct tt_builder *b, const struct tt_op *op)
{
	struct lane_builder *l;

	if (!op->len && op->kind < TT_OP_SIGNAL)
		return;
	b->plan.node |= op->kind >= TT_OP_PULL_REDUCE;
	b->messages |= op->kind <= TT_OP_RECV_REDUCE || op->kind == TT_OP_WEIGH;
	if (b->lane >= b->nlanes)
		tt_lane(b, b->lane);
	if (b->err)
		return;
	l = &b->lanes[b->lane];
	if (!grow(b, (void **)&l->ops, l->nops, &l->cap_ops, sizeof(*l->ops)) ||
	    !grow(b, (void **)&l->begin, l->nrounds + 1, &l->cap_rounds, sizeof(*l->begin)))
		return;
	if (!l->in_round) {
		l->begin[l->nrounds++] = l->nops;
		l->in_round = true;
	}
	l->ops[l->nops] = *op;
	if (number_message(b, &l->ops[l->nops]))
		l->nops++;
}

void tt_send(struct tt_builder *b, int peer, struct tt_ref a, size_t len)
{
	tt_add(b, &(struct tt_op){.kind = TT_OP_SEND, .peer = peer, .a = a, .len = len});
}

void tt_recv(struct tt_builder *b, int peer, struct tt_ref dst, size_t len)
{
	tt_add(b, &(struct tt_op){.kind = TT_OP_RECV, .peer = peer, .dst = dst, .len = len});
}

void tt_recv_reduce(struct tt_builder *b, int peer, struct tt_ref dst, struct tt_ref a,
		    struct tt_ref bb, size_t len, unsigned flags)
{
	tt_add(b, &(struct tt_op){.kind = TT_OP_RECV_REDUCE,
				  .flags = flags,
				  .peer = peer,
				  .dst = dst,
				  .a = a,
				  .b = bb,
				  .len = len});
}

void tt_reduce(struct tt_builder *b, struct tt_ref dst, struct tt_ref a, struct tt_ref bb,
	       size_t len, unsigned flags)
{
	tt_add(b, &(struct tt_op){.kind = TT_OP_REDUCE,
				  .flags = flags,
				  .peer = -1,
				  .dst = dst,
				  .a = a,
				  .b = bb,
				  .len = len});
}

void tt_copy(struct tt_builder *b, struct tt_ref dst, struct tt_ref a, size_t len)
{
	tt_add(b, &(struct tt_op){.kind = TT_OP_COPY, .peer = -1, .dst = dst, .a = a, .len = len});
}

/* Each has its own round, because it orders other ops. */
static void add_round(struct tt_builder *b, const struct tt_op *op)
{
	tt_round(b);
	tt_add(b, op);
	tt_round(b);
}

void tt_signal(struct tt_builder *b, unsigned step, struct tt_ref reads, struct tt_ref writes)
{
	add_round(b, &(struct tt_op){.kind = TT_OP_SIGNAL,
				     .peer = TT_ALL_RANKS,
				     .index = step,
				     .a = reads,
				     .dst = writes});
}

void tt_signal_block(struct tt_builder *b, unsigned step, struct tt_ref reads, size_t len)
{
	add_round(b, &(struct tt_op){.kind = TT_OP_SIGNAL,
				     .peer = TT_ALL_RANKS,
				     .index = step,
				     .a = len ? reads : TT_NONE,
				     .len = len});
}

void tt_wait(struct tt_builder *b, int peer, unsigned step)
{
	add_round(b, &(struct tt_op){.kind = TT_OP_WAIT, .peer = peer, .index = step});
}

void tt_meet(struct tt_builder *b, unsigned step, struct tt_ref reads, struct tt_ref writes)
{
	tt_signal(b, step, reads, writes);
	tt_wait(b, TT_ALL_RANKS, step);
}

void tt_wait_release(struct tt_builder *b, int peer, unsigned step)
{
	add_round(b, &(struct tt_op){.kind = TT_OP_WAIT,
				     .flags = TT_OPF_RELEASE,
				     .peer = peer,
				     .index = step});
}

void tt_pull_copy_if(struct tt_builder *b, unsigned flags, int peer, struct tt_ref dst,
		     struct tt_ref a, size_t len)
{
	tt_add(b, &(struct tt_op){.kind = TT_OP_PULL_COPY,
				  .flags = flags,
				  .peer = peer,
				  .dst = dst,
				  .a = a,
				  .len = len});
}

void tt_pull_copy(struct tt_builder *b, int peer, struct tt_ref dst, struct tt_ref a, size_t len)
{
	tt_pull_copy_if(b, 0, peer, dst, a, len);
}

void tt_pull_told(struct tt_builder *b, int peer, struct tt_ref dst, struct tt_ref told, size_t len)
{
	tt_add(b, &(struct tt_op){.kind = TT_OP_PULL_COPY,
				  .flags = TT_OPF_TOLD,
				  .peer = peer,
				  .dst = dst,
				  .a = TT_SENDBUF(0),
				  .b = told,
				  .len = len});
}

void tt_tell_length(struct tt_builder *b, struct tt_ref dst, size_t len)
{
	tt_add(b, &(struct tt_op){.kind = TT_OP_TELL_LENGTH,
				  .peer = -1,
				  .dst = dst,
				  .b = {TT_BUF_NONE, len},
				  .len = TT_LENGTH_BYTES});
}

void tt_expect_length(struct tt_builder *b, int peer, struct tt_ref a, size_t len)
{
	tt_add(b, &(struct tt_op){.kind = TT_OP_EXPECT_LENGTH,
				  .peer = peer,
				  .a = a,
				  .b = {TT_BUF_NONE, len},
				  .len = TT_LENGTH_BYTES});
}

void tt_pull_reduce(struct tt_builder *b, int peer, struct tt_ref dst, struct tt_ref a, size_t len,
		    unsigned flags)
{
	tt_add(b, &(struct tt_op){.kind = TT_OP_PULL_REDUCE,
				  .flags = flags,
				  .peer = peer,
				  .dst = dst,
				  .a = a,
				  .len = len});
}

void tt_pull_reduce_first(struct tt_builder *b, int ranks, int peer, struct tt_ref dst,
			  struct tt_ref a, size_t len)
{
	tt_add(b, &(struct tt_op){.kind = TT_OP_PULL_REDUCE,
				  .peer = peer,
				  .index = (uint32_t)ranks,
				  .dst = dst,
				  .a = a,
				  .len = len});
}

void tt_pull_combine(struct tt_builder *b, struct tt_ref dst, struct tt_ref a, struct tt_ref own,
		     size_t len, unsigned flags)
{
	tt_add(b, &(struct tt_op){.kind = TT_OP_PULL_REDUCE,
				  .flags = flags,
				  .peer = b->plan.args.rank,
				  .dst = dst,
				  .a = a,
				  .b = own,
				  .len = len});
}

void tt_push(struct tt_builder *b, int peer, struct tt_ref dst, struct tt_ref a, size_t len)
{
	tt_add(b,
	       &(struct tt_op){.kind = TT_OP_PUSH, .peer = peer, .dst = dst, .a = a, .len = len});
}

void tt_push_else(struct tt_builder *b, int peer, struct tt_ref dst, struct tt_ref a, size_t len)
{
	tt_add(b, &(struct tt_op){.kind = TT_OP_PUSH,
				  .flags = TT_OPF_ELSE,
				  .peer = peer,
				  .dst = dst,
				  .a = a,
				  .len = len});
}

void tt_push_told(struct tt_builder *b, int peer, struct tt_ref told, struct tt_ref a, size_t len)
{
	tt_add(b, &(struct tt_op){.kind = TT_OP_PUSH,
				  .flags = TT_OPF_TOLD,
				  .peer = peer,
				  .dst = TT_RECVBUF(0),
				  .a = a,
				  .b = told,
				  .len = len});
}

int tt_sliced_ops(const struct tt_plan *plan, int lane, int round, struct tt_op *ops)
{
	const struct tt_sliced *s = &plan->sliced;
	struct tt_step at = {
		.turn = (uint32_t)(round / s->steps), .lane = lane, .step = round % s->steps};

	at.slice = (size_t)lane + (size_t)at.turn * (size_t)s->lanes;
	return at.slice < s->slices ? s->fn(&plan->args, s, &at, ops) : 0;
}

static void store_slice(struct tt_builder *b, const struct tt_sliced *s, size_t slice,
			struct tt_op *ops)
{
	struct tt_step at = {.slice = slice, .turn = (uint32_t)(slice / (size_t)s->lanes)};
	int i, n;

	at.lane = (int)(slice % (size_t)s->lanes);
	tt_lane(b, at.lane);
	for (at.step = 0; at.step < s->steps; at.step++) {
		if (s->skip)
			at.step = s->skip(&b->plan.args, at.step);
		if (at.step >= s->steps)
			break;
		tt_round(b);
		n = s->fn(&b->plan.args, s, &at, ops);
		for (i = 0; i < n; i++)
			tt_add(b, &ops[i]);
	}
}

void tt_sliced(struct tt_builder *b, const struct tt_sliced *sliced)
{
	struct tt_sliced s = *sliced;
	size_t slice, turns;
	struct tt_op *ops;

	if (!s.slices)
		return;
	s.lanes = s.slices < (size_t)b->plan.args.lanes ? (int)s.slices : b->plan.args.lanes;
	turns = (s.slices + (size_t)s.lanes - 1) / (size_t)s.lanes;
	/* Generated ops are used unchanged: none is empty, and each has its index. */
	if (s.full && s.slices * s.slice_ops > tt_plan_store_max) {
		b->plan.generated = true;
		b->plan.gen_rounds = (int)(turns * (size_t)s.steps);
		b->plan.nlanes = s.lanes;
		b->plan.max_ops = s.max_ops;
		b->plan.sliced = s;
		return;
	}
	ops = calloc((size_t)s.max_ops + 1, sizeof(*ops));
	if (!ops)
		b->err = -ENOMEM;
	for (slice = 0; ops && slice < s.slices; slice++)
		store_slice(b, &s, slice, ops);
	free(ops);
}

/* One block: the plan, its lanes, all ops, all round boundaries. */
static struct tt_plan *pack(const struct tt_builder *b)
{
	size_t nops = 0, nbegin = 0;
	struct tt_plan *plan;
	struct tt_op *ops;
	uint32_t *begin;
	int i;

	for (i = 0; i < b->nlanes; i++) {
		nops += b->lanes[i].nops;
		nbegin += b->lanes[i].nrounds + 1;
	}
	plan = malloc(sizeof(*plan) + (size_t)b->nlanes * sizeof(struct tt_lane) +
		      nops * sizeof(*ops) + nbegin * sizeof(*begin));
	if (!plan)
		return NULL;
	*plan = b->plan;
	if (plan->generated)
		return plan;
	plan->nlanes = b->nlanes;
	plan->lane = (struct tt_lane *)(plan + 1);
	ops = (struct tt_op *)(plan->lane + b->nlanes);
	begin = (uint32_t *)(ops + nops);
	for (i = 0; i < b->nlanes; i++) {
		const struct lane_builder *l = &b->lanes[i];

		plan->lane[i] = (struct tt_lane){ops, begin, (int)l->nrounds};
		if (l->nops) {
			memcpy(ops, l->ops, l->nops * sizeof(*ops));
			memcpy(begin, l->begin, l->nrounds * sizeof(*begin));
		}
		begin[l->nrounds] = l->nops;
		ops += l->nops;
		begin += l->nrounds + 1;
	}
	return plan;
}

static int largest_round(const struct tt_plan *plan)
{
	uint32_t most = 0;
	int i, r;

	for (i = 0; i < plan->nlanes; i++)
		for (r = 0; r < plan->lane[i].nrounds; r++) {
			uint32_t n = plan->lane[i].begin[r + 1] - plan->lane[i].begin[r];

			most = n > most ? n : most;
		}
	return (int)most;
}

static void free_builder(struct tt_builder *b)
{
	int i;

	for (i = 0; i < b->nlanes; i++) {
		free(b->lanes[i].ops);
		free(b->lanes[i].begin);
	}
	free(b->lanes);
	tt_map_free(&b->counters);
	free(b);
}

void tt_builder_broken(struct tt_builder *b, int err)
{
	b->err = b->err ? b->err : err;
	b->broken = b->broken ? b->broken : err;
}

int tt_plan_finish(struct tt_builder *b, struct tt_plan **plan)
{
	struct tt_plan *p = b->err ? NULL : pack(b);
	bool messages = b->messages;
	int err = b->broken, rounds = rounds_so_far(b);

	free_builder(b);
	if (err)
		return err;
	if (!p)
		return tt_fail(-ENOMEM, "no memory for the plan of a collective");
	if (!p->generated)
		p->max_ops = largest_round(p);
	p->mixed = p->node && messages;
	if (p->nways) {
		p->first[p->nways] = rounds;
		p->way = tt_list_branch(&p->args, (uint64_t)tt_usual_list(&p->args) *
							  (uint64_t)p->args.nranks);
	}
	*plan = p;
	return 0;
}
