/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The cost model of a cluster: alpha-beta-gamma (Hockney's model, with a cost per reduced byte),
 * per level: ranks of one host, hosts of one leaf switch, and beyond. The simulator (sim.h) runs
 * plans on it; the cost functions (cost.h) estimate them.
 */
#ifndef TT_MODEL_H
#define TT_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum tt_level { TT_LEVEL_HOST, TT_LEVEL_LEAF, TT_LEVEL_FAR, TT_LEVELS };

struct tt_hop {
	double alpha; /* ns */
	double beta;  /* ns per byte */
};

struct tt_model {
	struct tt_hop link[TT_LEVELS];
	double gamma;	       /* ns per byte reduced */
	double copy;	       /* ns per byte copied */
	double encode, decode; /* ns per byte of a vector that is encoded, or decoded */
	double overhead;       /* ns of processor per message, at either end; */
	double host_overhead;  /* of one inside a host, where that is another way; 0: as much */
	size_t eager;	       /* longer messages wait for their receive; SIZE_MAX: none does */
	int ranks_per_host;    /* at least 1; the most, where they differ */
	int hosts;	       /* 0: as many as the ranks fill, one host after the other */
	const int *host;       /* host of each rank, if they do not follow one another; else NULL */
	int hosts_per_leaf;    /* 0: all hosts are on one leaf */
	int rails; /* ports of a host, at least 1; lane l of a rank uses port (rank + l) % rails */
	/*
	 * Processors that the ranks of a host share, which also move the bytes of messages inside
	 * the host; 0: a processor for each rank, and memory moves bytes by itself.
	 */
	int cores;
	double oversub; /* 1: none */
	bool numa; /* hosts are NUMA nodes of one: processors move the bytes of messages between
		      them, too */

	/* The simulator's only: */
	size_t buffer; /* a send to another host is over when at most so many bytes wait at its port
			*/
	int straggler; /* rank that is slow, -1: none: */
	double straggler_delay;	 /* it begins this many ns later, */
	double straggler_factor; /* and its processor is this many times slower (1: as other ranks)
				  */
	double jitter;		 /* mean of an exponential random addition to each alpha, ns */
	uint64_t seed;
};

/* A cluster of common hardware: see tutti_sim(1). */
void tt_model_default(struct tt_model *model);

/* Message costs of a transport. */
struct tt_link_costs {
	char name[16]; /* the transport's */
	struct tt_hop hop;
	double overhead;
};
const struct tt_link_costs *tt_link_default(const char *name); /* NULL: there is none */

/* How the ranks of a communicator are placed. */
struct tt_layout {
	int hosts, ranks_per_host; /* the most ranks on any */
	int cores;		   /* that the ranks of a host share */
	int numa, ranks_per_numa; /* of a single host: NUMA nodes that ranks are on, and the most on
				     any; 0, 1: all on one */
};
/* Its model, with these links inside hosts and between them; nothing is measured. */
void tt_model_of(struct tt_model *model, const struct tt_layout *layout,
		 const struct tt_link_costs *host, const struct tt_link_costs *net);
/*
 * Adapts the model of one host whose ranks are on several NUMA nodes: *levels has its nodes in the
 * place of hosts, for plans in two levels; in *model the cost of a byte includes the share that
 * comes from other nodes.
 */
void tt_model_numa(struct tt_model *model, const struct tt_layout *layout, struct tt_model *levels);

/* Until all ranks of a host know of a step that all of them have reached, in memory they share. */
double tt_model_step(const struct tt_model *model);
static inline double tt_model_host_overhead(const struct tt_model *model)
{
	return model->host_overhead > 0 ? model->host_overhead : model->overhead;
}

/* How many hosts, where a rank is, and how far apart two are. */
int tt_model_hosts(const struct tt_model *model, int nranks);
int tt_model_host(const struct tt_model *model, int rank);
int tt_model_leaf(const struct tt_model *model, int rank);
enum tt_level tt_model_level(const struct tt_model *model, int a, int b);

#endif
