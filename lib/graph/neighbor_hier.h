/* SPDX-License-Identifier: BSD-3-Clause */
/* Neighbour all-reduce in two levels, composed of public calls. */
#ifndef TT_NEIGHBOR_HIER_H
#define TT_NEIGHBOR_HIER_H

#include <tutti/tutti.h>

#define TT_NEIGHBOR_HIER_MAGIC 0x68696572u

struct tutti_neighbor_hier {
	volatile unsigned magic;   /* also when it is freed */
	struct tutti_comm *host;   /* the ranks of this host */
	struct tutti_comm *across; /* one rank of each host: those of the same number */
	size_t *part;		   /* elements of each rank's part */
	char *tmp;		   /* the vector, and this rank's part; pool memory */
	size_t room;
};

int tt_neighbor_hier_new(struct tutti_comm *comm, struct tutti_neighbor_hier **out);
void tt_neighbor_hier_free(struct tutti_neighbor_hier *hier);
int tt_neighbor_hier_run(struct tutti_neighbor_hier *hier, const void *sendbuf, void *recvbuf,
			 size_t count, enum tutti_datatype datatype,
			 const struct tutti_graph *graph, uint64_t step);

#endif
