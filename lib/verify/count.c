/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Counts the cost of a plan for its rank, op by op; tests compare it with the published formulas.
 */
#include <stdlib.h>
#include <string.h>

#include "lib/verify/check.h"

static bool is_recv(const struct tt_op *op)
{
	return op->kind == TT_OP_RECV || op->kind == TT_OP_RECV_REDUCE;
}

/* Distinct ranks a round receives from. */
static int fan_in(const struct tt_op *ops, int n)
{
	int i, j, sources = 0;

	for (i = 0; i < n; i++) {
		if (!is_recv(&ops[i]))
			continue;
		for (j = 0; j < i; j++)
			if (is_recv(&ops[j]) && ops[j].peer == ops[i].peer)
				break;
		sources += j == i;
	}
	return sources;
}

/* Returns whether the round communicates. */
static bool count_round(const struct tt_op *ops, int n, struct tt_plan_cost *cost)
{
	bool communicates = false;
	int i, sources;

	for (i = 0; i < n; i++) {
		if (ops[i].kind == TT_OP_SEND) {
			cost->bytes_sent += ops[i].len;
			cost->messages_sent++;
		}
		if (is_recv(&ops[i]))
			cost->bytes_received += ops[i].len;
		if (ops[i].kind == TT_OP_RECV_REDUCE || ops[i].kind == TT_OP_REDUCE ||
		    ops[i].kind == TT_OP_PULL_REDUCE || ops[i].kind == TT_OP_DECODE_ADD ||
		    ops[i].kind == TT_OP_MERGE || ops[i].kind == TT_OP_WEIGH)
			cost->bytes_reduced += ops[i].len;
		if (ops[i].kind == TT_OP_ENCODE)
			cost->bytes_encoded += ops[i].len;
		if (ops[i].kind == TT_OP_DECODE || ops[i].kind == TT_OP_DECODE_ADD)
			cost->bytes_decoded += ops[i].len;
		communicates |= ops[i].kind == TT_OP_SEND || is_recv(&ops[i]);
	}
	sources = fan_in(ops, n);
	if (sources > cost->fan_in)
		cost->fan_in = sources;
	return communicates;
}

void tt_plan_count(const struct tt_plan *plan, struct tt_plan_cost *cost)
{
	struct tt_op *tmp = calloc((size_t)plan->max_ops + 1, sizeof(*tmp));
	const struct tt_op *ops;
	int lane, round, n, steps;

	memset(cost, 0, sizeof(*cost));
	for (lane = 0; tmp && lane < plan->nlanes; lane++) {
		steps = 0;
		for (round = 0; round < tt_plan_rounds(plan, lane); round++) {
			n = tt_plan_ops(plan, lane, round, tmp, &ops);
			steps += count_round(ops, n, cost);
		}
		if (steps > cost->steps)
			cost->steps = steps;
	}
	free(tmp);
}
