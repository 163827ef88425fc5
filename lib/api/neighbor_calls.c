/* SPDX-License-Identifier: BSD-3-Clause */
/* Collectives of neighbours in a graph: checks arguments, then one call down. */
#include <errno.h>

#include "lib/api/api.h"
#include "lib/graph/graph.h"

/* A call as its caller made it. */
struct neighbor_call {
	const char *name;
	enum tt_coll coll;
	const void *sendbuf;
	void *recvbuf;
	size_t count;
	enum tutti_datatype datatype;
	const struct tutti_graph *graph;
	uint64_t step;
};

static bool reduces(const struct neighbor_call *n)
{
	return n->coll == TT_COLL_NEIGHBOR_ALLREDUCE || n->coll == TT_COLL_NEIGHBOR_HIER_ALLREDUCE;
}

static int check_vectors(const struct neighbor_call *n, const struct tt_plan_args *a)
{
	uintptr_t send = (uintptr_t)n->sendbuf, recv = (uintptr_t)n->recvbuf;
	size_t sent = tt_send_bytes(a), got = tt_recv_bytes(a);
	const char *name = n->name;

	if (a->in_place)
		sent = 0;
	if ((sent && !n->sendbuf) || (got && !n->recvbuf))
		return tt_fail(-EINVAL, "%s: %s is NULL", name,
			       sent && !n->sendbuf ? "sendbuf" : "recvbuf");
	if ((got && n->recvbuf == TUTTI_IN_PLACE) || (sent && n->sendbuf == TUTTI_IN_PLACE))
		return tt_fail(-EINVAL, "%s: %s is TUTTI_IN_PLACE%s", name,
			       n->sendbuf == TUTTI_IN_PLACE ? "sendbuf" : "recvbuf",
			       reduces(n) ? "" : ", which this call does not take");
	if (sent && got && send < recv + got && recv < send + sent)
		return tt_fail(-EINVAL, "%s: sendbuf and recvbuf overlap%s", name,
			       reduces(n) ? "; to replace the input by the result, pass "
					    "TUTTI_IN_PLACE"
					  : "");
	return 0;
}

static int check_type(const struct neighbor_call *n)
{
	const char *name = n->name;
	size_t size = tutti_datatype_size(n->datatype);

	if (!size)
		return tt_fail(-EINVAL, "%s: %d is not a datatype", name, (int)n->datatype);
	if (reduces(n) && !tt_reduce_weighs(n->datatype))
		return tt_fail(-EINVAL,
			       "%s: %s has no weighted sums; pass float16, bfloat16, float32 or "
			       "float64",
			       name, tt_datatype_name(n->datatype));
	if (n->count > (size_t)PTRDIFF_MAX / size / (size_t)n->graph->n)
		return tt_fail(-EINVAL,
			       "%s: a count of %zu %s for each of %d ranks does not fit in memory",
			       name, n->count, tt_datatype_name(n->datatype), n->graph->n);
	return 0;
}

static int check_size(const struct neighbor_call *n, struct tutti_comm *comm)
{
	const char *name = n->name;
	int err;

	if (n->coll != TT_COLL_NEIGHBOR_HIER_ALLREDUCE)
		return n->graph->n == comm->size
			       ? 0
			       : tt_fail(-EINVAL,
					 "%s: the graph has %d ranks, but the communicator has %d; "
					 "make a graph of its size",
					 name, n->graph->n, comm->size);
	err = tt_comm_find_hosts(comm);
	if (err || n->graph->n == comm->all_hosts->hosts)
		return err;
	return tt_fail(-EINVAL,
		       "%s: the graph has %d ranks, but the communicator's ranks are on %d hosts; "
		       "make a graph with a rank for each host",
		       name, n->graph->n, comm->all_hosts->hosts);
}

static int check_args(const struct neighbor_call *n, struct tutti_comm *comm, struct tt_call *call)
{
	struct tt_plan_args a;
	int err = tt_check_graph(n->name, n->graph);

	if (!err)
		err = check_size(n, comm);
	if (!err)
		err = check_type(n);
	if (err)
		return err;
	*call = (struct tt_call){.coll = n->coll,
				 .sendbuf = n->sendbuf,
				 .recvbuf = n->recvbuf,
				 .count = n->count,
				 .datatype = n->datatype,
				 .op = TUTTI_SUM,
				 .edges = tt_graph_at(n->graph, n->step)};
	call->in_place = reduces(n) && n->count &&
			 (n->sendbuf == TUTTI_IN_PLACE || n->sendbuf == n->recvbuf);
	a = tt_call_args(comm, call);
	err = check_vectors(n, &a);
	if (call->in_place)
		call->sendbuf = NULL;
	return err;
}

/* persistent: an _init call, whose request may not be NULL; nor may that of an i call. */
static int check(const struct neighbor_call *n, struct tutti_comm *comm, struct tt_call *call,
		 bool persistent, bool has_request)
{
	int err = tt_check_comm(comm);

	if (err)
		return err;
	err = check_args(n, comm, call);
	if (!err && !has_request)
		err = tt_fail(-EINVAL, "%s: request is NULL", n->name);
	if (err)
		tt_comm_refused(comm, n->coll, persistent ? TT_FORM_INIT : TT_FORM_CALL, err);
	return err;
}

static int run(struct tutti_comm *comm, const struct neighbor_call *n)
{
	struct tt_call call;
	int err = check(n, comm, &call, false, true);

	return err ? err : tt_call_checked(comm, &call, false, NULL);
}

static int start(struct tutti_comm *comm, const struct neighbor_call *n, bool persistent,
		 struct tutti_request **request)
{
	struct tt_call call;
	int err = check(n, comm, &call, persistent, request != NULL);

	return err ? err : tt_call_checked(comm, &call, persistent, request);
}

#define PARAMETERS                                                                                 \
	const void *sendbuf, void *recvbuf, size_t count, enum tutti_datatype datatype,            \
		const struct tutti_graph *graph, uint64_t step, struct tutti_comm *comm

#define CALL(coll)                                                                                 \
	&(struct neighbor_call)                                                                    \
	{                                                                                          \
		__func__, TT_COLL_NEIGHBOR_##coll, sendbuf, recvbuf, count, datatype, graph, step  \
	}

/* The three forms of a collective. */
#define COLLECTIVE(name, coll)                                                                     \
	int tutti_##name(PARAMETERS)                                                               \
	{                                                                                          \
		return run(comm, CALL(coll));                                                      \
	}                                                                                          \
	int tutti_i##name(PARAMETERS, struct tutti_request **request)                              \
	{                                                                                          \
		return start(comm, CALL(coll), false, request);                                    \
	}                                                                                          \
	int tutti_##name##_init(PARAMETERS, struct tutti_request **request)                        \
	{                                                                                          \
		return start(comm, CALL(coll), true, request);                                     \
	}

COLLECTIVE(neighbor_allreduce, ALLREDUCE)
COLLECTIVE(neighbor_hier_allreduce, HIER_ALLREDUCE)
COLLECTIVE(neighbor_allgather, ALLGATHER)
COLLECTIVE(neighbor_alltoall, ALLTOALL)
