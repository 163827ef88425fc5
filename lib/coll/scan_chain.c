/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Scan and exscan along a chain, pipelined: right for long vectors, and for operators that do not commute.
 *
 *	0 ── x0 ──> 1 ── x0+x1 ──> 2 ── (x0+x1)+x2 ──> 3       slice by slice
 *
 * Every rank receives the combination of all before it, puts its own part on the right and passes the sum
 * on. A scan keeps the sum; an exscan keeps what came and sums in scratch. In place what came has to
 * wait in scratch, too, until the rank's own part, which is in recvbuf, has been used. While one slice
 * is combined the next one arrives: a slice has up to three steps (receive, combine, send), each in the
 * round after the one before.
 *
 * Cost, N bytes in S slices over one lane: N received by all but rank 0, N sent by all but the last;
 * S + n - 2 steps (exscan S + 2n - 4) until the last rank has all; fan-in 1.
 */
#include "lib/coll/coll.h"

#define DEPTH 3 /* slices of a lane under way together */

static int scan_step(const struct tt_plan_args *a, const struct tt_sched *s, size_t slice, int step,
		     struct tt_op *ops)
{
	struct tt_span v = tt_vector_slice(a, s->slices, slice);
	struct tt_ref own = TT_SENDBUF(v.off), sum = TT_RECVBUF(v.off);
	int r = a->rank, n = 0;

	if (r && !step) {
		ops[0] = tt_op_recv_reduce(r - 1, sum, TT_NET, own, v.len);
		return 1;
	}
	if (r < a->nranks - 1)
		ops[n++] = tt_op_send(r + 1, r ? sum : own, v.len);
	if (!r && !a->in_place)
		ops[n++] = (struct tt_op){
			.kind = TT_OP_COPY, .peer = -1, .dst = sum, .a = own, .len = v.len};
	return n;
}

static int scan_generate(const struct tt_plan *plan, int lane, int round, struct tt_op *ops)
{
	return tt_sched_generate(plan, lane, round, ops, scan_step);
}

/* Of a rank that has one before it and one after it; scratch: what came (in place), the sums. */
static int middle_step(const struct tt_plan_args *a, const struct tt_sched *s, size_t slice, int step,
		       struct tt_op *ops)
{
	struct tt_span v = tt_vector_slice(a, s->slices, slice);
	struct tt_ref out = TT_RECVBUF(v.off);
	struct tt_ref came = a->in_place ? tt_slot(a, s, s->state[0], slice, DEPTH) : out;
	struct tt_ref sum = tt_slot(a, s, s->state[1], slice, DEPTH);

	if (!step) {
		ops[0] = tt_op_recv(a->rank - 1, came, v.len);
		return 1;
	}
	if (step == 1) {
		ops[0] = (struct tt_op){.kind = TT_OP_REDUCE,
					.peer = -1,
					.dst = sum,
					.a = came,
					.b = TT_SENDBUF(v.off),
					.len = v.len};
		return 1;
	}
	ops[0] = tt_op_send(a->rank + 1, sum, v.len);
	ops[1] = (struct tt_op){.kind = TT_OP_COPY, .peer = -1, .dst = out, .a = came, .len = v.len};
	return 1 + a->in_place;
}

static int exscan_step(const struct tt_plan_args *a, const struct tt_sched *s, size_t slice, int step,
		       struct tt_op *ops)
{
	struct tt_span v = tt_vector_slice(a, s->slices, slice);

	if (a->rank && a->rank < a->nranks - 1)
		return middle_step(a, s, slice, step, ops);
	ops[0] = a->rank ? tt_op_recv(a->rank - 1, TT_RECVBUF(v.off), v.len)
			 : tt_op_send(1, TT_SENDBUF(v.off), v.len);
	return 1;
}

static int exscan_generate(const struct tt_plan *plan, int lane, int round, struct tt_op *ops)
{
	return tt_sched_generate(plan, lane, round, ops, exscan_step);
}

void tt_scan_chain(struct tt_builder *b)
{
	const struct tt_plan_args *a = tt_builder_args(b);
	bool middle = a->rank && a->rank < a->nranks - 1;
	struct tt_sched s = {.slices = tt_num_slices(a->count, tt_fit(a)),
			     .steps = middle ? 2 : 1,
			     .stride = 1,
			     .max_ops = 2,
			     .per_peer = 1};
	size_t slots;

	s.lanes = tt_num_lanes(a, s.slices);
	if (a->coll == TT_COLL_SCAN) {
		tt_schedule(b, &s, scan_step, scan_generate);
		return;
	}
	slots = (size_t)s.lanes * DEPTH * a->chunk;
	if (middle) {
		s.steps = DEPTH;
		s.state[0] = a->in_place ? tt_scratch(b, slots) : 0;
		s.state[1] = tt_scratch(b, slots);
	}
	tt_schedule(b, &s, exscan_step, exscan_generate);
}
