/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The plan checker: runs the plans of all ranks in one process on symbolic values. It proves that
 * the result is right, that no deadlock occurs under few credits and bounded offer rings, that no
 * message is left over, and that no two concurrent ops touch the same bytes with one of them
 * writing. All this must hold for any order of lanes (seeded); and of several calls at once, whose
 * messages travel in pieces as they do with priorities, and which take turns in the memory and the
 * slots of hosts, for any order of the pieces.
 */
#ifndef TT_CHECK_H
#define TT_CHECK_H

#include "lib/plan/plan.h"

struct tt_check_opts {
	int credits;  /* eager messages under way or parked, per pair and direction; further ones
		       * wait for an offer; 0: unlimited */
	int offers;   /* offers the sender has not read yet, per pair and direction; 0: unlimited */
	size_t eager; /* longer messages need an offer (the receive must be posted); SIZE_MAX: none
		       */
	uint64_t seed; /* order of lanes and ranks */
	/*
	 * Pieces under way, per pair and direction: messages for offers travel in pieces of so many
	 * bytes; 0: as a whole.
	 */
	int window;
	size_t piece;
	/*
	 * To plant a fault: pieces have so many places at the receiver, which a message holds until
	 * it is there; 0: a place each, in the memory that was offered.
	 */
	int places;
	/*
	 * Ranks, a bit each, whose published inputs are copies in their slots, as short ones are:
	 * they do not wait for those that read them.
	 */
	unsigned copies;
	bool streamed; /* inputs that may be streamed are: ops of TT_OPF_STREAMED apply */
	bool any_lane; /* tt_plan_check_orders: lanes go on in any order, too */
	/* To plant faults: ranks start the calls of a communicator in any order; */
	bool any_turn;
	int early; /* a turn begins so many turns before it may */
};

/* One of several calls, for which see tt_plan_check. */
struct tt_check_call {
	const struct tt_alg *alg;
	const struct tt_plan_args *args;
	const int *after; /* by rank: an earlier call that ends there before this one starts, as the
			   * rank waits for it; -1 or NULL: none */
	int comm; /* from 1 on: ranks start the calls of one communicator in this order, and those
		   * with node ops are its turns; 0: the call has a communicator of its own */
};

/* The cost of a plan for one rank. */
struct tt_plan_cost {
	uint64_t bytes_sent, bytes_received, bytes_reduced, messages_sent;
	uint64_t bytes_encoded, bytes_decoded; /* of the vector */
	int steps;			       /* rounds with communication in the longest lane */
	int fan_in;			       /* most distinct sources in one round of one lane */
};

void tt_plan_count(const struct tt_plan *plan, struct tt_plan_cost *cost);

/*
 * The arguments of one rank of a call. whole is as tt_plan_args says but for this: in_place of a
 * rooted collective is the root's; gatherv has the root's rcounts and rdispls and scatterv its
 * scounts and sdispls (each rank's count comes from there); allgatherv has nranks * nranks
 * rdispls, those of rank 0 first, or none, and alltoallv as many of each array (in place only
 * rcounts and rdispls).
 */
void tt_plan_args_of(const struct tt_plan_args *whole, int rank, struct tt_plan_args *a);

/* Check alg for all ranks of a call, see tt_plan_args_of. 0, or -EINVAL with a text (tt_fail). */
int tt_plan_check(const struct tt_alg *alg, const struct tt_plan_args *args,
		  const struct tt_check_opts *opts);
/* The same for given plans, so that tests can plant faults. */
int tt_plan_check_plans(struct tt_plan *const *plans, int nranks, const struct tt_check_opts *opts);

/*
 * Several calls at once. Ranks start calls in any order, seeded, but for `after` and `comm`; what
 * comes before the start waits. The calls share all that belongs to a pair.
 */
int tt_plan_check_calls(const struct tt_check_call *calls, int ncalls,
			const struct tt_check_opts *opts);
/*
 * The same in all orders in which pieces can be sent and arrive and calls can start, by at most
 * `most` runs (-E2BIG: there are more orders). All else goes on as soon as it can, but for lanes
 * with any_lane. *states: those that the calls can be in.
 */
int tt_plan_check_orders(const struct tt_check_call *calls, int ncalls,
			 const struct tt_check_opts *opts, uint64_t most, size_t *states);

#endif
