/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Declarations shared by the files of tutti_tune, which links the library's internals to force
 * algorithms.
 */
#ifndef TUTTI_TUNE_TOOL_H
#define TUTTI_TUNE_TOOL_H

#include <tutti/tutti.h>

#include "lib/job/job.h"

#define ELEM TT_POINT_ELEM
#define TUNE_LONG (4u << 20) /* message by which bandwidth is measured */

struct options {
	const char *output, *collectives; /* output: NULL: nothing is written, "": where jobs look
					     by themselves */
	size_t max_bytes;
	double factor, seconds;
	bool links_only, verify;
};

struct job {
	struct options opt;
	struct tutti_context *ctx;
	struct tutti_comm *world, *comm; /* comm: on which algorithms are forced */
	struct tt_agreed agreed;
	int rank, n;
	void *in, *out;
	size_t room;	      /* bytes of each */
	char path[4096];      /* of the table, at rank 0 */
	struct tt_tune *tune; /* the table being made, the same on all ranks */
};

int tune_parse(struct options *opt, int argc, char **argv);

/* time.c: have comm use these rules, and the table. */
int tune_force(struct job *job, struct tutti_comm *comm, const char *rules, struct tt_tune *tune);
/*
 * ns of one call, the lower quartile of turns of back-to-back ones; the same on all ranks of comm.
 */
int tune_time(struct job *job, struct tutti_comm *comm, enum tt_coll coll, size_t bytes,
	      double seconds, double *ns);
bool tune_measured(enum tt_coll coll); /* those that are */

/*
 * algs.c: measures each algorithm for the table; compares the table's choice with every algorithm
 * and prints it.
 */
int tune_algs(struct job *job);
int tune_verify(struct job *job);

/* links.c: what messages cost; measured between pairs of ranks. */
int tune_links(struct job *job);

/* cache.c: from how many bytes on stores around the cache are faster; on one host only. */
int tune_cache(struct job *job);

/* main.c: report a failed call, or any complaint, of rank 0; returns -1. */
int tune_fail(const struct job *job, const char *what, int err);

#endif
