/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Collectives of neighbours in a tolerant communicator after a death: messages to and from the dead
 * rank are over, and this rank's own value takes the place of the dead rank's.
 */
#include <string.h>

#include "lib/base/copy.h"
#include "lib/engine/engine.h"

static void without(struct tt_op_run *run)
{
	struct tt_plan_req *req = run->lane->req;
	const struct tt_op *op = run->op;

	run->live = false;
	if (op->kind == TT_OP_RECV && op->a.buf) {
		tt_copy_data(req->base[op->dst.buf] + op->dst.off, req->base[op->a.buf] + op->a.off,
			     op->len);
		tt_wire_stats(req->r.comm->ctx->wire)->copied_bytes += op->len;
	} else if (op->kind == TT_OP_RECV) {
		req->missed = true;
	}
	tt_run_op_over(run->lane);
}

bool tt_outlive_op(struct tt_op_run *run)
{
	const struct tt_plan_req *req = run->lane->req;

	if (req->r.ops->list != TT_ACTIVE_NEIGHBORS)
		return false;
	run->live = !req->r.comm->tolerant || tt_comm_dead(req->r.comm, run->op->peer) < 0;
	if (!run->live)
		without(run);
	return !run->live;
}

/* A put to a dead rank has ended, well or not. */
static void gone(struct tt_xfer *x, const void *data, int status)
{
	(void)data;
	(void)status;
	without(tt_container(x, struct tt_op_run, x));
}

void tt_outlive(struct tt_plan_req *req)
{
	struct tutti_comm *comm = req->r.comm;
	int i, k;

	for (i = 0; i < req->plan->nlanes; i++)
		for (k = 0; k < req->plan->max_ops; k++) {
			struct tt_op_run *run = &req->lanes[i].ops[k];

			if (!run->live || tt_comm_dead(comm, run->op->peer) < 0)
				continue;
			tt_list_del(&run->wait);
			if (run->x.state && !tt_wire_abandon(comm->ctx->wire, &run->x)) {
				run->x.fn = gone;
				continue;
			}
			without(run);
			comm->ctx->moves++;
		}
}
