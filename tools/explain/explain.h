/* SPDX-License-Identifier: BSD-3-Clause */
/* The parts of tutti_explain: main.c and count.c for collectives, ps.c for parameter servers. */
#ifndef TUTTI_EXPLAIN_H
#define TUTTI_EXPLAIN_H

#include "lib/verify/check.h"
#include "lib/plan/tune.h"

/*
 * The tables of `asked`, or of the place where they are by default; path "": there are none. 0 or
 * complained.
 */
int explain_load(const char *asked, struct tt_tunes *tunes, char *path, size_t size);

/*
 * The most that any rank of the call sends, receives, combines, and rounds in which it
 * communicates. args as tt_plan_build takes them; count: of a block of the v forms. false: too
 * many operations to count.
 */
bool explain_count(const struct tt_alg *alg, const struct tt_plan_args *args,
		   struct tt_plan_cost *most);

/* tutti_explain ps: argv[0] is "ps". The status of the program. */
int explain_ps(int argc, char **argv);

#endif
