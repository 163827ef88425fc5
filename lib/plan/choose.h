/* SPDX-License-Identifier: BSD-3-Clause */
/* Which algorithm, chunk and lanes: from values that are equal on all ranks only. */
#ifndef TT_CHOOSE_H
#define TT_CHOOSE_H

#include "lib/plan/plan.h"

struct tt_chooser; /* TUTTI_ALGO's rules plus the defaults; made once per communicator */

/*
 * rules: TUTTI_ALGO, "coll:algorithm:LO-HI;..." with sizes like 64K and inf, "" for none. A wrong
 * name is -EINVAL with the nearest right one. chunk and lanes: TUTTI_CHUNK, TUTTI_LANES.
 */
int tt_chooser_new(const char *rules, size_t chunk, int lanes, struct tt_chooser **chooser);
void tt_chooser_free(struct tt_chooser *chooser);
/* Sets args->chunk and args->lanes, returns the algorithm. Never fails. */
const struct tt_alg *tt_choose(const struct tt_chooser *chooser, struct tt_plan_args *args);

#endif
