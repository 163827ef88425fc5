/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The checker's entry points: flattens the plans of all ranks and runs the parts; see check_int.h.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "lib/base/error.h"
#include "lib/verify/check_int.h"

const char *tt_ck_buf_name(enum tt_buf buf)
{
	static const char *const names[] = {"nothing", "sendbuf",  "recvbuf",	 "scratch",
					    "slot",    "residual", "the network"};

	return (unsigned)buf < sizeof(names) / sizeof(names[0]) ? names[buf] : "an unknown buffer";
}

static const char *kind_name(enum tt_op_kind kind)
{
	static const char *const names[] = {
		[TT_OP_SEND] = "send",
		[TT_OP_RECV] = "receive",
		[TT_OP_RECV_REDUCE] = "receive-reduce",
		[TT_OP_REDUCE] = "reduce",
		[TT_OP_COPY] = "copy",
		[TT_OP_WEIGH] = "weighted sum",
		[TT_OP_ENCODE] = "encode",
		[TT_OP_DECODE] = "decode",
		[TT_OP_MERGE] = "merge",
		[TT_OP_DECODE_ADD] = "decode-add",
		[TT_OP_PULL_REDUCE] = "pull-reduce",
		[TT_OP_PULL_COPY] = "pull-copy",
		[TT_OP_PUSH] = "push",
		[TT_OP_TELL_LENGTH] = "length",
		[TT_OP_EXPECT_LENGTH] = "expected length",
		[TT_OP_SIGNAL] = "signal",
		[TT_OP_WAIT] = "wait",
	};

	return kind && (unsigned)kind < sizeof(names) / sizeof(names[0]) ? names[kind] : "?";
}

const char *tt_ck_where(const struct tt_checker *c, const struct ck_op *op)
{
	static _Thread_local char text[2][160];
	static _Thread_local int which;
	const struct ck_lane *l = ck_lane_of(c, op);
	char peer[32] = "", call[32] = "";

	which = !which;
	if (ck_is_message(&op->op))
		snprintf(peer, sizeof(peer), " %s rank %d", ck_is_recv(&op->op) ? "from" : "to",
			 op->op.peer);
	if (c->number >= 0)
		snprintf(call, sizeof(call), "call %d, ", c->number);
	snprintf(text[which], sizeof(text[which]),
		 "%srank %d, lane %d, round %d, %s of %zu bytes%s", call, l->rank, l->lane,
		 op->round, kind_name(op->op.kind), op->op.len, peer);
	return text[which];
}

/* Copy the ops of one lane; ops or begin NULL: only count. */
static int flatten_lane(struct tt_checker *c, int rank, int lane, struct tt_op *tmp,
			uint32_t *nbegin)
{
	const struct tt_plan *p = c->plans[rank];
	struct ck_lane *l = &c->lanes[c->nlanes];
	const struct tt_op *ops;
	int r, i, n;

	*l = (struct ck_lane){.rank = rank, .lane = lane, .first = *nbegin};
	l->nrounds = tt_plan_rounds(p, lane);
	for (r = 0; r < l->nrounds; r++) {
		if (c->begin)
			c->begin[*nbegin] = c->nops;
		(*nbegin)++;
		n = tt_plan_ops(p, lane, r, tmp, &ops);
		if (n > p->max_ops)
			return tt_fail(-EINVAL,
				       "rank %d, lane %d, round %d has %d ops, promised were "
				       "at most %d",
				       rank, lane, r, n, p->max_ops);
		for (i = 0; i < n; i++) {
			if (!tt_op_applies(&ops[i], c->opts.streamed))
				continue;
			if (c->ops)
				c->ops[c->nops] =
					(struct ck_op){.op = ops[i], .lane = c->nlanes, .round = r};
			c->nops++;
		}
	}
	if (c->begin)
		c->begin[*nbegin] = c->nops;
	(*nbegin)++;
	c->nlanes++;
	return 0;
}

/* Once to count, once to fill. */
static int flatten_all(struct tt_checker *c, struct tt_op *tmp, uint32_t *nbegin)
{
	int r, l, err;

	c->nops = 0;
	c->nlanes = 0;
	*nbegin = 0;
	for (r = 0; r < c->n; r++) {
		c->rank_lanes[r] = c->nlanes;
		for (l = 0; l < c->plans[r]->nlanes; l++) {
			err = flatten_lane(c, r, l, tmp, nbegin);
			if (err)
				return err;
		}
	}
	c->rank_lanes[c->n] = c->nlanes;
	return 0;
}

static int flatten(struct tt_checker *c)
{
	size_t nlanes = 0, max_ops = 0;
	struct tt_op *tmp;
	uint32_t nbegin;
	int r, err;

	for (r = 0; r < c->n; r++) {
		nlanes += (size_t)c->plans[r]->nlanes;
		if ((size_t)c->plans[r]->max_ops > max_ops)
			max_ops = (size_t)c->plans[r]->max_ops;
	}
	tmp = calloc(max_ops + 1, sizeof(*tmp));
	c->lanes = calloc(nlanes + 1, sizeof(*c->lanes));
	c->rank_lanes = calloc((size_t)c->n + 1, sizeof(*c->rank_lanes));
	err = tmp && c->lanes && c->rank_lanes ? flatten_all(c, tmp, &nbegin) : -ENOMEM;
	if (!err) {
		c->ops = calloc((size_t)c->nops + 1, sizeof(*c->ops));
		c->begin = calloc((size_t)nbegin + 1, sizeof(*c->begin));
		err = c->ops && c->begin ? flatten_all(c, tmp, &nbegin) : -ENOMEM;
	}
	free(tmp);
	return err;
}

void tt_ck_free(struct tt_checker *c)
{
	tt_ck_values_free(c);
	tt_ck_node_free(c);
	free(c->ops);
	free(c->begin);
	free(c->lanes);
	free(c->rank_lanes);
	free(c->msgs);
}

static bool has_node_ops(const struct tt_checker *c)
{
	int r;

	for (r = 0; r < c->n; r++)
		if (c->plans[r]->node)
			return true;
	return false;
}

static int prepare(struct tt_checker *c)
{
	int err = tt_ck_check_args(c);

	if (!err)
		err = flatten(c);
	if (!err)
		err = tt_ck_check_bounds(c);
	if (!err)
		err = tt_ck_match_messages(c);
	if (!err)
		err = tt_ck_check_hazards(c);
	if (!err)
		err = tt_ck_values_init(c);
	if (!err && has_node_ops(c))
		err = tt_ck_node_init(c);
	return err;
}

int tt_ck_prepare(struct tt_checker *c, struct tt_plan *const *plans, int n,
		  const struct tt_check_opts *opts)
{
	*c = (struct tt_checker){
		.plans = plans, .n = n, .args = plans[0]->args, .opts = *opts, .number = -1};
	return prepare(c);
}

int tt_plan_check_plans(struct tt_plan *const *plans, int nranks, const struct tt_check_opts *opts)
{
	static const struct tt_check_opts unlimited = {.eager = SIZE_MAX};
	struct tt_checker c;
	struct ck_net net = {
		.call = &c, .ncalls = 1, .n = nranks, .opts = opts ? *opts : unlimited};
	int err = tt_ck_prepare(&c, plans, nranks, &net.opts);

	if (!err)
		err = tt_ck_run(&net);
	if (!err)
		err = tt_ck_verdict(&c);
	tt_ck_free(&c);
	return err == -ENOMEM ? tt_fail(err, "no memory to check plans of %d ranks", nranks) : err;
}

void tt_ck_plans_free(struct tt_plan **plans, int n)
{
	int r;

	for (r = 0; plans && r < n; r++)
		tt_plan_free(plans[r]);
	free(plans);
}

int tt_ck_build(const struct tt_alg *alg, const struct tt_plan_args *args, struct tt_plan ***plans)
{
	int r, n = args->nranks, err = 0;
	struct tt_plan_args a;

	*plans = NULL;
	if (n < 1)
		return tt_fail(-EINVAL, "%d ranks have no plans to check", n);
	*plans = calloc((size_t)n, sizeof(struct tt_plan *));
	if (!*plans)
		return tt_fail(-ENOMEM, "no memory to check plans of %d ranks", n);
	for (r = 0; !err && r < n; r++) {
		tt_plan_args_of(args, r, &a);
		err = tt_plan_build(alg, &a, &(*plans)[r]);
	}
	return err;
}

int tt_plan_check(const struct tt_alg *alg, const struct tt_plan_args *args,
		  const struct tt_check_opts *opts)
{
	struct tt_plan **plans;
	int err = tt_ck_build(alg, args, &plans);

	if (!err)
		err = tt_plan_check_plans(plans, args->nranks, opts);
	tt_ck_plans_free(plans, args->nranks);
	return err;
}
