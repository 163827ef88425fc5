/* SPDX-License-Identifier: BSD-3-Clause */
/* Declarations shared by the files of tutti_sim, which links the library's internal plan code. */
#ifndef TUTTI_SIM_TOOL_H
#define TUTTI_SIM_TOOL_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "lib/plan/choose.h"
#include "lib/verify/sim.h"

#define ELEM 4	       /* bytes of the simulated type */
#define CHECK_MAX 1024 /* ranks */
#define MAX_SERVERS 16
#define FULL_OPS 50e6 /* more operations than that: the recurrence, if there is one */

/* Training steps in which ranks are slow. */
struct steps {
	double q, delay; /* a rank takes so many ms more, with this probability */
	double compute;	 /* ms */
	int less;	 /* ranks that a quorum does without */
};

#define ALLTOALLV_MAX 2048 /* ranks: there are counts for each pair of them */

struct options {
	enum tt_coll coll;
	const char *algorithms; /* NULL: all */
	int min_ranks, max_ranks;
	double rank_factor;
	size_t min_bytes, max_bytes; /* max 0: as min */
	double byte_factor, skew;
	int root, lanes;
	size_t chunk;
	double servers[MAX_SERVERS]; /* numbers of them, in the table */
	int nservers;
	bool check, table, full, sized; /* sized: -b was given */
	const char *csv, *json, *plot;
	struct tt_plan_codec codec; /* codec NULL: none */
	double density;		    /* of its lists, in percent; 0: the most */
	struct steps steps;	    /* delay 0: no times of steps */
	struct tt_model model;
};

/* One simulated call. */
struct point {
	int nranks;
	size_t bytes;
	const struct tt_alg *alg;
	struct tt_sim_result result;
	double algbw, busbw; /* GB/s */
};

struct points {
	struct point *p;
	size_t n, cap;
};

/* options.c: 0, 1: done (help), or negative; complaints are on standard error. */
int sim_parse(struct options *opt, int argc, char **argv);

/* run.c: simulate all; rows are printed as they come. */
int sim_run(const struct options *opt, struct points *points);
/*
 * The arguments of a call, chunk and lanes as the library would choose them for alg;
 * sim_counts_free.
 */
int sim_args(const struct options *opt, const struct tt_alg *alg, int nranks, size_t bytes,
	     struct tt_plan_args *args);

/* The time of the fastest algorithm, or of the named one, for min_bytes, in ns. */
int sim_fastest(const struct options *opt, const char *only, int nranks, double *ns);

/* steps.c */
int sim_steps(const struct options *opt);

/* counts.c: the counts of collectives that have them per rank, elems in all; to be freed. */
int sim_counts(const struct options *opt, int nranks, size_t elems, struct tt_plan_args *args);
void sim_counts_free(struct tt_plan_args *args);

/* table.c */
int sim_table(const struct options *opt);

/* output.c */
void sim_print_head(const struct options *opt);
void sim_print_row(const struct point *p);
/* A size at which another algorithm becomes the fastest. */
void sim_print_crossovers(const struct points *points);
int sim_write_csv(const struct points *points, const char *path);
int sim_write_json(const struct options *opt, const struct points *points, const char *path);

/* A file to write, NULL after a complaint; its end. */
FILE *sim_create(const char *path);
int sim_finish(FILE *f, const char *path);
json_t *sim_json_model(const struct tt_model *m);
/* Frees all; NULL: there was no memory for it. */
int sim_write_json_to(const char *path, json_t *all);

/* plot.c */
int sim_plot(const struct options *opt, const struct points *points);

#endif
