/* SPDX-License-Identifier: BSD-3-Clause */
/* The options of tutti_sim that describe the cluster. */
#ifndef TUTTI_SIM_MODEL_OPTIONS_H
#define TUTTI_SIM_MODEL_OPTIONS_H

#include <getopt.h>
#include <stddef.h>

#include "lib/plan/model.h"

#define MAX_RANKS (1 << 20)
#define MAX_BYTES ((size_t)1 << 46)

enum {
	OPT_ALPHA = 512,
	OPT_BW,
	OPT_GAMMA,
	OPT_CODING,
	OPT_OVERHEAD,
	OPT_EAGER,
	OPT_BUFFER,
	OPT_RANKS_PER_HOST,
	OPT_HOSTS_PER_LEAF,
	OPT_RAILS,
	OPT_CORES,
	OPT_OVERSUB,
	OPT_STRAGGLER,
	OPT_JITTER,
	OPT_SEED
};

/* The options of links and ranks. */
/* clang-format off */
#define SIM_LINK_OPTIONS                                                                           \
	{"alpha", required_argument, NULL, OPT_ALPHA},                                             \
	{"bw", required_argument, NULL, OPT_BW},                                                   \
	{"overhead", required_argument, NULL, OPT_OVERHEAD},                                       \
	{"eager", required_argument, NULL, OPT_EAGER},                                             \
	{"ranks-per-host", required_argument, NULL, OPT_RANKS_PER_HOST},                           \
	{"hosts-per-leaf", required_argument, NULL, OPT_HOSTS_PER_LEAF},                           \
	{"straggler", required_argument, NULL, OPT_STRAGGLER},                                     \
	{"jitter", required_argument, NULL, OPT_JITTER},                                           \
	{"seed", required_argument, NULL, OPT_SEED}
/* clang-format on */

/* Sets what option c says: 0, or negative and why is printed. */
int sim_model_option(struct tt_model *model, int c, char *arg);

#endif
