/* SPDX-License-Identifier: BSD-3-Clause */
/* Neighbour all-reduce in two levels: checks arguments, then lib/graph/neighbor_hier.c. */
#include <errno.h>

#include "lib/api/api.h"
#include "lib/graph/graph.h"
#include "lib/graph/neighbor_hier.h"

static int check_hier(const char *call, const struct tutti_neighbor_hier *hier)
{
	if (!hier)
		return tt_fail(-EINVAL, "%s: hier is NULL", call);
	if (hier->magic != TT_NEIGHBOR_HIER_MAGIC)
		return tt_fail(-EINVAL, "%s: %p is not of tutti_neighbor_hier_create, or is freed",
			       call, (const void *)hier);
	return 0;
}

int tutti_neighbor_hier_create(struct tutti_comm *comm, struct tutti_neighbor_hier **hier)
{
	int err = tt_check_comm(comm);

	if (!err && !hier)
		err = tt_fail(-EINVAL, "%s: hier is NULL", __func__);
	if (!err)
		err = tt_group_refuse(__func__);
	return err ? err : tt_neighbor_hier_new(comm, hier);
}

int tutti_neighbor_hier_free(struct tutti_neighbor_hier *hier)
{
	int err = hier ? check_hier(__func__, hier) : 0;

	if (!err && hier)
		tt_neighbor_hier_free(hier);
	return err;
}

static int check_vectors(const char *call, const void *sendbuf, const void *recvbuf, size_t count,
			 enum tutti_datatype datatype)
{
	int err;

	if (!tt_reduce_weighs(datatype))
		return tt_fail(-EINVAL,
			       "%s: the datatype has no weighted sums; pass float16, bfloat16, "
			       "float32 or float64",
			       call);
	err = tt_check_data(call, recvbuf, count, datatype);
	if (!err && sendbuf != TUTTI_IN_PLACE)
		err = tt_check_data(call, sendbuf, count, datatype);
	return err;
}

int tutti_neighbor_hier_allreduce(const void *sendbuf, void *recvbuf, size_t count,
				  enum tutti_datatype datatype, const struct tutti_graph *graph,
				  uint64_t step, struct tutti_neighbor_hier *hier)
{
	int err = check_hier(__func__, hier);

	if (!err)
		err = tt_check_graph(__func__, graph);
	if (err)
		return err;
	if (graph->n != tutti_comm_size(hier->across))
		return tt_fail(-EINVAL,
			       "%s: the graph has %d ranks, but there are %d hosts; make a graph "
			       "with a rank for each host",
			       __func__, graph->n, tutti_comm_size(hier->across));
	err = check_vectors(__func__, sendbuf, recvbuf, count, datatype);
	if (!err)
		err = tt_group_refuse(__func__);
	return err ? err
		   : tt_neighbor_hier_run(hier, sendbuf, recvbuf, count, datatype, graph, step);
}
