/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Scan and exscan along a chain, pipelined: for long vectors, and for operators that do not
 * commute.
 *
 *	0 ── x0 ──> 1 ── x0+x1 ──> 2 ── (x0+x1)+x2 ──> 3       slice by slice
 *
 * Every rank receives the sum of all ranks before it, combines its own part on the right and
 * passes the sum on. A scan keeps the sum; an exscan keeps the received sum and combines in
 * scratch. In place the received sum also waits in scratch until the rank's own part, which is in
 * recvbuf, has been used. While one slice is combined the next one arrives: a slice has up to
 * three steps (receive, combine, send) in successive rounds.
 *
 * Cost, N bytes in S slices over one lane: N received by all but rank 0, N sent by all but the
 * last; S + n - 2 steps (exscan S + 2n - 4) until the last rank has all; fan-in 1.
 */
#include "lib/coll/coll.h"

static int scan_slice(const struct tt_plan_args *a, const struct tt_pipe *p, size_t slice, int step,
		      struct tt_op *ops)
{
	struct tt_span v = tt_slice(a, tt_vector(a), p->slices, slice);
	struct tt_ref own = TT_SENDBUF(v.off), sum = TT_RECVBUF(v.off);
	int r = a->rank, n = 0;

	if (r && !step) {
		ops[0] = tt_op_recv_reduce(r - 1, sum, TT_NET, own, v.len);
		return 1;
	}
	if (r < a->nranks - 1)
		ops[n++] = tt_op_send(r + 1, r ? sum : own, v.len);
	if (!r && !a->in_place)
		ops[n++] = tt_op_copy(sum, own, v.len);
	return n;
}

/* An inner rank; scratch: the sums and, in place, the received sums. */
static int middle_slice(const struct tt_plan_args *a, const struct tt_pipe *p, size_t slice,
			int step, struct tt_op *ops)
{
	struct tt_span v = tt_slice(a, tt_vector(a), p->slices, slice);
	struct tt_ref out = TT_RECVBUF(v.off), sum = tt_pipe_slot(p, slice, 0);
	struct tt_ref came = a->in_place ? tt_pipe_slot(p, slice, 1) : out;

	if (!step)
		ops[0] = tt_op_recv(a->rank - 1, came, v.len);
	else if (step == 1)
		ops[0] = tt_op_reduce(sum, came, TT_SENDBUF(v.off), v.len);
	else
		ops[0] = tt_op_send(a->rank + 1, sum, v.len);
	if (step < 2 || !a->in_place)
		return 1;
	ops[1] = tt_op_copy(out, came, v.len);
	return 2;
}

static int exscan_slice(const struct tt_plan_args *a, const struct tt_pipe *p, size_t slice,
			int step, struct tt_op *ops)
{
	struct tt_span v = tt_slice(a, tt_vector(a), p->slices, slice);

	if (a->rank && a->rank < a->nranks - 1)
		return middle_slice(a, p, slice, step, ops);
	ops[0] = a->rank ? tt_op_recv(a->rank - 1, TT_RECVBUF(v.off), v.len)
			 : tt_op_send(1, TT_SENDBUF(v.off), v.len);
	return 1;
}

void tt_scan_chain(struct tt_builder *b)
{
	const struct tt_plan_args *a = tt_builder_args(b);
	bool middle = a->rank && a->rank < a->nranks - 1, scan = a->coll == TT_COLL_SCAN;
	size_t slices = tt_num_slices(a, a->count * a->elem);
	struct tt_pipe p = {.slices = slices, .lanes = tt_num_lanes(a, slices), .steps = 1};

	if (middle)
		p.steps = scan ? 2 : 3;
	if (scan)
		tt_pipe(b, scan_slice, &p, 2, true, 0);
	else
		tt_pipe(b, exscan_slice, &p, 2, true, middle ? 1 + a->in_place : 0);
}
