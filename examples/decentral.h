/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ways to train without a centre, or with one that nobody waits for, for train_decentralized. Every
 * rank has a model of its own, in one vector. Functions return 0, or a code of tutti with the
 * failed step in `doing`.
 */
#ifndef DECENTRAL_H
#define DECENTRAL_H

#include <tutti/local_steps.h>
#include <tutti/tutti.h>

#include "examples/mlp.h"

struct decentral {
	struct tutti_comm *comm;
	int rank, nranks, batch, tau, quorum;
	double rate, momentum, alpha;
	struct mlp net;
	size_t size;		    /* of all weights */
	double *weights, *gradient; /* of all layers, one after the other; pool memory */
	const char *doing;
	int steps;
	uint64_t bytes; /* that this rank has sent and fetched */

	struct tutti_gossip *gossip;
	struct tutti_pair *pair;
	double *shared; /* this rank's vector of pairs */
	double *before; /* what it was when the gradient was computed; or the center */
	double *work;
	struct tutti_ps *ps;
	struct tutti_ps_table *center;
	struct tutti_graph *graph;
	struct tutti_local_steps *local;
	struct partial_steps *partial;
};

struct decentral_method {
	const char *name;
	int (*begin)(struct decentral *d);  /* collective; all ranks have the same weights */
	int (*step)(struct decentral *d);   /* the gradient is there: changes the weights */
	int (*result)(struct decentral *d); /* collective: the weights become the result */
	int (*end)(struct decentral *d);    /* collective */
};

/* NULL: there is no such method. */
const struct decentral_method *decentral_find(const char *name);
/* All names, with a blank between them. */
const char *decentral_names(void);

/* The method partial, in examples/partial_steps.c. */
int partial_begin(struct decentral *d);
int partial_step(struct decentral *d);
int partial_result(struct decentral *d);
int partial_end(struct decentral *d);

#endif
