/* SPDX-License-Identifier: BSD-3-Clause */
/* Costs of the algorithms in the memory of one host. */
#include "lib/coll/costs/costs.h"
#include "lib/coll/node/coll_node.h"

#define IN_CACHE 0.6	 /* of the time in memory: slots stay in the cache */
#define OWN_CACHE 0.1	 /* and bytes that another rank of this core has fetched */
#define THEIR_CACHE 0.8	 /* bytes that the other one of two ranks keeps in its cache */
#define KERNEL_CALL 2560 /* bytes copied in the time of one to process_vm_writev */
#define TAKEN_BACK                                                                                 \
	0.8 /* a slot's lines, from those that have read them two turns ago, before it is written  \
	     */

void tt_cost_node_slots(struct tt_cost *c, const struct tt_plan_args *a)
{
	double cores = tt_cost_cores(c), shared = a->nranks - cores;

	tt_cost_signals(c, 1);
	/* ranks that share a core fetch the slots once for all of them */
	tt_cost_work(c, (cores * IN_CACHE + shared * OWN_CACHE + TAKEN_BACK) * tt_cost_bytes(a),
		     true, a->nranks);
}

void tt_cost_node_pull(struct tt_cost *c, const struct tt_plan_args *a)
{
	tt_cost_signals(c, 2);
	tt_cost_work(c, tt_cost_bytes(a) * IN_CACHE, true, a->nranks);
}

void tt_cost_barrier_node(struct tt_cost *c, const struct tt_plan_args *a)
{
	tt_cost_signals(c, 1);
}

/* The root does not wait, the others for the root alone. */
void tt_cost_bcast_node_slots(struct tt_cost *c, const struct tt_plan_args *a)
{
	tt_cost_signals(c, 0.5);
	tt_cost_pull(c, 2 * tt_cost_bytes(a) * IN_CACHE, a->nranks);
}

/* Bytes that one of two ranks reads where the other one has them, if few, in its cache. */
static double read_by_one(const struct tt_plan_args *a)
{
	double bytes = tt_cost_bytes(a);

	return a->nranks == 2 && bytes <= (double)tt_slot_bytes(a) ? bytes * THEIR_CACHE : bytes;
}

void tt_cost_bcast_node_pull(struct tt_cost *c, const struct tt_plan_args *a)
{
	bool halves = tt_bcast_in_halves(a);

	tt_cost_signals(c, halves ? 2 : 1.5);
	if (halves)
		tt_cost_pull(c, tt_cost_bytes(a) / 2, 2);
	else
		tt_cost_pull(c, read_by_one(a), a->nranks - 1);
}

/* Only the root waits. */
void tt_cost_reduce_node_slots(struct tt_cost *c, const struct tt_plan_args *a)
{
	tt_cost_signals(c, 0.5);
	tt_cost_work(c, a->nranks * tt_cost_bytes(a) * IN_CACHE, true, 1);
}

/* Only a part is stored; an all-reduce stores as much as it reads. */
void tt_cost_reduce_node_pull(struct tt_cost *c, const struct tt_plan_args *a)
{
	tt_cost_signals(c, 2);
	tt_cost_work(c, tt_cost_bytes(a) * IN_CACHE, true, a->nranks);
}

void tt_cost_reduce_scatter_node(struct tt_cost *c, const struct tt_plan_args *a)
{
	tt_cost_signals(c, 2);
	tt_cost_work(c, a->nranks * tt_cost_bytes(a) * IN_CACHE, true, a->nranks);
}

void tt_cost_reduce_scatter_slots(struct tt_cost *c, const struct tt_plan_args *a)
{
	tt_cost_signals(c, 1);
	tt_cost_pull(c, a->nranks * tt_cost_bytes(a) * IN_CACHE, a->nranks);
	tt_cost_work(c, a->nranks * tt_cost_bytes(a) * IN_CACHE, true, a->nranks);
}

void tt_cost_scan_node(struct tt_cost *c, const struct tt_plan_args *a)
{
	tt_cost_signals(c, 1);
	tt_cost_pull(c, tt_cost_bytes(a) * IN_CACHE, a->nranks);
	tt_cost_work(c, a->nranks * tt_cost_bytes(a) * IN_CACHE, true, a->nranks);
}

/* Inputs of the results of ranks 1 to n - 1, of each of which a rank combines a part. */
void tt_cost_scan_node_pull(struct tt_cost *c, const struct tt_plan_args *a)
{
	double n = a->nranks, inputs = a->coll == TT_COLL_SCAN ? (n + 1) / 2 - 1 / n : (n - 1) / 2;

	if (a->coll == TT_COLL_EXSCAN && a->nranks == 2) {
		tt_cost_bcast_node_pull(c, a);
		return;
	}
	tt_cost_signals(c, 2);
	tt_cost_work(c, inputs * tt_cost_bytes(a) * IN_CACHE, true, a->nranks);
}

void tt_cost_allgather_node_slots(struct tt_cost *c, const struct tt_plan_args *a)
{
	tt_cost_signals(c, 1);
	tt_cost_pull(c, (a->nranks + 1) * tt_cost_bytes(a) * IN_CACHE, a->nranks);
}

void tt_cost_allgather_node_pull(struct tt_cost *c, const struct tt_plan_args *a)
{
	tt_cost_signals(c, 2);
	tt_cost_pull(c, (a->nranks - 1) * tt_cost_bytes(a), a->nranks);
}

/* Only the root waits. */
void tt_cost_gather_node_slots(struct tt_cost *c, const struct tt_plan_args *a)
{
	tt_cost_signals(c, 0.5);
	tt_cost_pull(c, (a->nranks + 1) * tt_cost_bytes(a) * IN_CACHE, 1);
}

/* By the root, or by the others, which wait for it alone. */
void tt_cost_gather_node_pull(struct tt_cost *c, const struct tt_plan_args *a)
{
	if (tt_gather_by_root(a)) {
		tt_cost_signals(c, 2);
		tt_cost_pull(c, (a->nranks - 1) * tt_cost_bytes(a), 1);
		return;
	}
	tt_cost_signals(c, 1);
	tt_cost_pull(c, (tt_cost_bytes(a) + KERNEL_CALL) * IN_CACHE, a->nranks);
}

/* As of a bcast. */
void tt_cost_scatter_node(struct tt_cost *c, const struct tt_plan_args *a)
{
	tt_cost_signals(c, 1.5);
	tt_cost_pull(c, read_by_one(a), a->nranks);
}

/* The root copies the blocks of the others, and each reads its own. */
static void scatter_by_slots(struct tt_cost *c, const struct tt_plan_args *a, double block)
{
	tt_cost_signals(c, 0.5);
	tt_cost_pull(c, (a->nranks - 1) * block * IN_CACHE, 1);
	tt_cost_pull(c, block * IN_CACHE, a->nranks);
}

void tt_cost_scatter_slots(struct tt_cost *c, const struct tt_plan_args *a)
{
	scatter_by_slots(c, a, tt_cost_bytes(a));
}

void tt_cost_alltoall_slots(struct tt_cost *c, const struct tt_plan_args *a)
{
	tt_cost_signals(c, 1);
	tt_cost_pull(c, (2 * a->nranks - 1) * tt_cost_bytes(a) * IN_CACHE, a->nranks);
}

/*
 * Of a block, what fits one of n shares of a slot. A longer block costs less than by another
 * algorithm.
 */
static double shared(const struct tt_plan_args *a, int n)
{
	double share = (double)tt_slot_bytes(a) / n, bytes = tt_cost_bytes(a);

	return bytes < share ? bytes : share;
}

void tt_cost_alltoallv_slots(struct tt_cost *c, const struct tt_plan_args *a)
{
	tt_cost_signals(c, 1);
	tt_cost_pull(c, (2 * a->nranks - 1) * shared(a, a->nranks) * IN_CACHE, a->nranks);
}

void tt_cost_gatherv_slots(struct tt_cost *c, const struct tt_plan_args *a)
{
	tt_cost_signals(c, 1);
	tt_cost_pull(c, (a->nranks + 1) * shared(a, 1) * IN_CACHE, 1);
}

void tt_cost_scatterv_slots(struct tt_cost *c, const struct tt_plan_args *a)
{
	scatter_by_slots(c, a, shared(a, a->nranks));
}

void tt_cost_alltoall_node(struct tt_cost *c, const struct tt_plan_args *a)
{
	tt_cost_signals(c, 2);
	tt_cost_pull(c, (a->nranks - 1) * tt_cost_bytes(a), a->nranks);
}
