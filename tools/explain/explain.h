/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The parts of tutti_explain: main.c and count.c for collectives, ps.c for parameter servers,
 * codec.c and rate.c for vectors that travel encoded.
 */
#ifndef TUTTI_EXPLAIN_H
#define TUTTI_EXPLAIN_H

#include "lib/codec/codec.h"
#include "lib/plan/tune.h"
#include "lib/verify/check.h"

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

/* The table for so many ranks on so many hosts, or only of so many hosts; 0: any. NULL: none. */
const struct tt_tune *explain_fitting(const struct tt_tunes *tunes, int nranks, int nhosts);
/* args of a call become those of its plan by the candidate. */
void explain_cut(const struct tt_candidate *c, struct tt_plan_args *args);

/* ns per byte of a vector, with feedback; the mean of so many processes at once. */
struct explain_rate {
	double encode, decode;
};
/* 0, or it has complained. */
int explain_measure(const struct tutti_codec *codec, int processes, struct explain_rate *rate);

/* tutti_explain codec: argv[0] is "codec". The status of the program. */
int explain_codec(int argc, char **argv);

/* tutti_explain ps: argv[0] is "ps". The status of the program. */
int explain_ps(int argc, char **argv);

#endif
