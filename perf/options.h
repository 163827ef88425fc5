/* SPDX-License-Identifier: BSD-3-Clause */
/* The command line of tutti_perf, in parts; tutti_perf.c needs only perf_options_parse. */
#ifndef PERF_OPTIONS_H
#define PERF_OPTIONS_H

#include <getopt.h>

#include "perf/coll.h"

/* Options without a letter. */
enum {
	OPT_STAT = 256,
	OPT_MALLOC,
	OPT_JSON,
	OPT_CSV,
	OPT_PLOT,
	OPT_SOURCES,
	OPT_LEVEL,
	OPT_STORES,
	OPT_CODEC,
	OPT_FILL,
	OPT_ROTATE,
	OPT_ROWS,
	OPT_COLS,
	OPT_PRODUCTS,
	OPT_RANK,
	OPT_COLL,
	OPT_COLOCATED,
	OPT_WEIGHTS,
	OPT_TABLES,
	OPT_CALL,
	OPT_SOFTSYNC,
	OPT_GRAPH,
	OPT_PARTNER,
	OPT_ALPHA,
	OPT_QUORUM,
	OPT_CUTOFF,
	OPT_LATE,
	OPT_DROP
};

/* Collectives of --coll with a nonblocking form, as bits. */
#define PERF_WITH_START                                                                            \
	((1u << PERF_NEIGHBOR_ALLREDUCE) - 1 - (1u << PERF_SENDRECV) - (1u << PERF_HYPERCUBE))

/* options.c; rank 0 prints why the command line is wrong. Both return -EINVAL. */
int perf_bad(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
int perf_unknown(const char *what, const char *word, const char *const *names);

/* option_values.c: the option's value, optarg. 0, or -EINVAL, said. */
int perf_option_take(struct perf_options *opt, int option);

/* help.c: PERF_DONE */
int perf_help(void);

#endif
