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
			op.a = moved(w, op.a);
			op.b = moved(w, op.b);
			op.dst = moved(w, op.dst);
			tt_add(b, &op);
		}
	}
	tt_round(b);
	free(tmp);
}
