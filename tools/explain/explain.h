/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The parts of tutti_explain: main.c and count.c for collectives, neighbors.c for those of
 * neighbours, ps.c for parameter servers, codec.c and rate.c for vectors that travel encoded.
 */
#ifndef TUTTI_EXPLAIN_H
#define TUTTI_EXPLAIN_H

#include "lib/base/env.h"
#include "lib/codec/codec.h"
#include "lib/plan/tune.h"
#include "lib/verify/check.h"

/* The command line of collectives. */
#define EXPLAIN_ELEM 4
#define EXPLAIN_NEIGHBORS 4096 /* ranks of a graph, at most */
#define EXPLAIN_HOSTS 64       /* with a number of ranks for each */
struct explain_options {
	enum tt_coll coll;
	int nranks, hosts, numa, cores, root;
	int sizes[EXPLAIN_HOSTS],
		listed; /* ranks on each host, if they were given, and their sum */
	size_t min_bytes, max_bytes;
	double factor;
	const char *between, *file;
	bool all;
	int graph; /* of neighbours: by name; negative: not given */
	struct tt_env env;
};

/* The call of one rank. */
struct tt_plan_args explain_args(const struct explain_options *opt, enum tt_coll coll, size_t size);
/* Ranks one host, or NUMA node, after the other; NULL: no plans in two levels. */
struct tt_hosts *explain_hosts(const struct explain_options *opt);
/* The size after `size`; 0: it was the last one. */
size_t explain_next(const struct explain_options *opt, size_t size);

/* neighbors.c: all sizes. 0, or it has complained. */
int explain_neighbors(const struct explain_options *opt, const struct tt_chooser_params *params,
		      const struct tt_chooser *chooser);

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
