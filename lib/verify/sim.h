/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The simulator computes the time of the plans of all ranks on a modelled cluster, by discrete
 * events.
 *
 * The model is that of model.h. A message of L bytes costs its sender's processor `overhead`, then
 * holds the sender's port for beta * L; its head is at the receiver's port alpha later, and holds
 * that port for beta * L too (cut-through: at the same time if the port is free). Its receiver's
 * processor pays `overhead` and, if it reduces, gamma * L. Messages longer than `eager` start when
 * their receive is posted and the sender knows it, one alpha later. Ports and processors serve in
 * order of time. If ranks share `cores`, a message inside a host passes no ports, but keeps a
 * processor of the host for beta * L.
 *
 * Between leaves a message also passes the uplink of its leaf and the downlink of the receiver's.
 * All hosts of a leaf share both; the rate of each is that of all their ports divided by
 * `oversub`. A link passes messages in order of time and delays their tails only: a message
 * arrives when the slowest of uplink, downlink and port has passed its last byte.
 */
#ifndef TT_SIM_H
#define TT_SIM_H

#include "lib/plan/model.h"
#include "lib/plan/plan.h"

struct tt_sim_result {
	double first, last; /* ns: when the first and the last rank had finished */
	uint64_t messages, bytes;
	bool recurrence; /* from one rank's rounds, not from all ranks' events */
};

/*
 * Simulate alg for all ranks of a call, see tt_plan_args_of. 0, or a negative code with a text
 * (tt_fail); a plan that does not come to its end is one.
 */
int tt_sim(const struct tt_alg *alg, const struct tt_plan_args *args, const struct tt_model *model,
	   struct tt_sim_result *result);
/*
 * The same from the rounds of few ranks: round k + 1 begins when round k is over, and a rank's
 * receives in a round take as long as its sends. This holds if all ranks do the same (every round
 * has as many sends as receives of the same length, as on a ring), a host has one port for each
 * rank, and there is no straggler; the work is then that of one rank's rounds. Otherwise
 * -EOPNOTSUPP. With several levels the slowest of the first host's (or leaf's) ranks decides: a
 * ring moves at the pace of its slowest link.
 */
int tt_sim_recurrence(const struct tt_alg *alg, const struct tt_plan_args *args,
		      const struct tt_model *model, struct tt_sim_result *result);

#endif
