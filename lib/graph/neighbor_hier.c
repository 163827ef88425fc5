/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Neighbour all-reduce in two levels: the ranks of a host act as one.
 *
 *	host h, L ranks:   reduce-scatter (avg) ──> part l of the host's mean, on rank l
 *			   neighbour all-reduce of part l, along the graph of hosts
 *			   all-gather ──> the new vector on all ranks of the host
 *
 * Each rank drives its own part between hosts, so all ports are in use. All hosts must have as many
 * ranks: then the mean over hosts is that over ranks.
 *
 * Cost, N bytes: degree x N / L sent between hosts by each rank, degree x N by each host.
 */
#include "lib/graph/neighbor_hier.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/error.h"

static const char call[] = "tutti_neighbor_hier_create";

/* All hosts have as many ranks. */
static int check_sizes(struct tutti_comm *comm, int size)
{
	int32_t most[2] = {size, -size};
	int err = tutti_allreduce(TUTTI_IN_PLACE, most, 2, TUTTI_INT32, TUTTI_MAX, comm);

	if (err || most[0] == -most[1])
		return err;
	return tt_fail(-EINVAL,
		       "%s: hosts have %d to %d ranks; start the same number on each host, or use "
		       "tutti_neighbor_allreduce",
		       call, -most[1], most[0]);
}

int tt_neighbor_hier_new(struct tutti_comm *comm, struct tutti_neighbor_hier **out)
{
	struct tutti_neighbor_hier *h = calloc(1, sizeof(*h));
	int32_t lowest = tutti_comm_rank(comm); /* of this host */
	int err;

	if (!h)
		return tt_fail(-ENOMEM, "%s: no memory", call);
	h->magic = TT_NEIGHBOR_HIER_MAGIC;
	err = tutti_comm_split_host(comm, lowest, &h->host);
	if (!err)
		err = check_sizes(comm, tutti_comm_size(h->host));
	if (!err)
		err = tutti_bcast(&lowest, 1, TUTTI_INT32, 0, h->host);
	if (!err) /* all parts number the hosts alike */
		err = tutti_comm_split(comm, tutti_comm_rank(h->host), lowest, &h->across);
	if (!err) {
		h->part = calloc((size_t)tutti_comm_size(h->host), sizeof(*h->part));
		err = h->part ? 0 : tt_fail(-ENOMEM, "%s: no memory", call);
	}
	if (err)
		tt_neighbor_hier_free(h);
	else
		*out = h;
	return err;
}

void tt_neighbor_hier_free(struct tutti_neighbor_hier *h)
{
	if (h->host)
		tutti_comm_free(h->host);
	if (h->across)
		tutti_comm_free(h->across);
	tutti_free(h->tmp);
	free(h->part);
	h->magic = 0;
	free(h);
}

static int reserve(struct tutti_neighbor_hier *h, size_t bytes)
{
	void *more = NULL;
	int err;

	if (bytes <= h->room)
		return 0;
	err = tutti_alloc(tutti_comm_context(h->host), bytes, &more);
	if (err)
		return err;
	tutti_free(h->tmp);
	h->tmp = more;
	h->room = bytes;
	return 0;
}

/* Equal parts, as far as the elements go; returns this rank's. */
static size_t divide(struct tutti_neighbor_hier *h, size_t count, size_t n)
{
	size_t most = (count + n - 1) / n, i, left = count;

	for (i = 0; i < n; i++) {
		h->part[i] = left < most ? left : most;
		left -= h->part[i];
	}
	return h->part[tutti_comm_rank(h->host)];
}

static int run(struct tutti_neighbor_hier *h, const void *sendbuf, void *recvbuf, size_t count,
	       enum tutti_datatype datatype, const struct tutti_graph *graph, uint64_t step)
{
	size_t elem = tutti_datatype_size(datatype), n = (size_t)tutti_comm_size(h->host);
	size_t own = divide(h, count, n);
	char *mine;
	int err = reserve(h, (count + 1 + own) * elem);

	if (err)
		return err;
	mine = h->tmp + (count + 1) * elem; /* no part of the vector, even if it is empty */
	memcpy(h->tmp, sendbuf == TUTTI_IN_PLACE ? recvbuf : sendbuf, count * elem);
	err = tutti_reduce_scatter(h->tmp, mine, h->part, datatype, TUTTI_AVG, h->host);
	if (!err)
		err = tutti_neighbor_allreduce(TUTTI_IN_PLACE, mine, own, datatype, graph, step,
					       h->across);
	if (!err)
		err = tutti_allgatherv(mine, own, h->tmp, h->part, NULL, datatype, h->host);
	if (!err)
		memcpy(recvbuf, h->tmp, count * elem);
	return err;
}

/* An error here must not let the others, on this host and on its neighbours, wait for this rank. */
int tt_neighbor_hier_run(struct tutti_neighbor_hier *h, const void *sendbuf, void *recvbuf,
			 size_t count, enum tutti_datatype datatype,
			 const struct tutti_graph *graph, uint64_t step)
{
	int err = run(h, sendbuf, recvbuf, count, datatype, graph, step);

	if (err) {
		tutti_comm_revoke(h->across);
		tutti_comm_revoke(h->host);
	}
	return err;
}
