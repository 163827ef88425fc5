/* SPDX-License-Identifier: BSD-3-Clause */
/* The positions of blocks in a collective's buffers, on the calling rank. */
#include "lib/plan/plan.h"

bool tt_coll_reduces(enum tt_coll coll)
{
	return coll == TT_COLL_ALLREDUCE || coll == TT_COLL_REDUCE ||
	       coll == TT_COLL_REDUCE_SCATTER_BLOCK || coll == TT_COLL_REDUCE_SCATTER ||
	       coll == TT_COLL_SCAN || coll == TT_COLL_EXSCAN;
}

bool tt_coll_own_counts(enum tt_coll coll)
{
	return coll == TT_COLL_GATHERV || coll == TT_COLL_SCATTERV || coll == TT_COLL_ALLTOALLV ||
	       coll == TT_COLL_ALLTOALLW;
}

bool tt_coll_counts(enum tt_coll coll)
{
	return coll == TT_COLL_REDUCE_SCATTER || coll == TT_COLL_ALLGATHERV ||
	       tt_coll_own_counts(coll);
}

bool tt_coll_rooted(enum tt_coll coll)
{
	return coll == TT_COLL_BCAST || coll == TT_COLL_REDUCE || coll == TT_COLL_GATHER ||
	       coll == TT_COLL_GATHERV || coll == TT_COLL_SCATTER || coll == TT_COLL_SCATTERV;
}

/* Without displacements the blocks follow one another. */
static struct tt_span block(const struct tt_plan_args *a, const size_t *counts,
			    const size_t *displs, int i)
{
	size_t off = 0;
	int k;

	if (!counts)
		return (struct tt_span){(size_t)i * a->count * a->elem, a->count * a->elem};
	for (k = 0; !displs && k < i; k++)
		off += counts[k];
	return (struct tt_span){(displs ? displs[i] : off) * a->elem, counts[i] * a->elem};
}

struct tt_span tt_send_block(const struct tt_plan_args *a, int i)
{
	if (a->coll == TT_COLL_REDUCE_SCATTER) /* the input is divided as the results are */
		return block(a, a->rcounts, NULL, i);
	if (a->coll == TT_COLL_ALLTOALLV && a->in_place)
		return block(a, a->rcounts, a->rdispls, i);
	return block(a, a->scounts, a->sdispls, i);
}

struct tt_span tt_recv_block(const struct tt_plan_args *a, int i)
{
	return block(a, a->rcounts, a->rdispls, i);
}

struct tt_span tt_packed_block(const struct tt_plan_args *a, int i)
{
	return block(a, a->rcounts, NULL, i);
}

static size_t extent(const struct tt_plan_args *a, const size_t *counts, const size_t *displs)
{
	size_t most = 0, end = 0;
	int i;

	for (i = 0; i < a->nranks; i++) {
		end = (displs ? displs[i] : end) + counts[i];
		if (counts[i] && end > most)
			most = end;
	}
	return most * a->elem;
}

size_t tt_send_bytes(const struct tt_plan_args *a)
{
	size_t vector = a->count * a->elem;
	bool root = a->rank == a->root;

	switch (a->coll) {
	case TT_COLL_ALLREDUCE:
	case TT_COLL_REDUCE:
	case TT_COLL_SCAN:
	case TT_COLL_EXSCAN:
	case TT_COLL_ALLGATHER:
	case TT_COLL_GATHER:
	case TT_COLL_GATHERV:
	case TT_COLL_NEIGHBOR_ALLREDUCE:
	case TT_COLL_NEIGHBOR_HIER_ALLREDUCE:
	case TT_COLL_NEIGHBOR_ALLGATHER:
		return vector;
	case TT_COLL_ALLGATHERV:
		return a->rcounts[a->rank] * a->elem;
	case TT_COLL_REDUCE_SCATTER_BLOCK:
	case TT_COLL_ALLTOALL:
		return (size_t)a->nranks * vector;
	case TT_COLL_REDUCE_SCATTER:
		return extent(a, a->rcounts, NULL);
	case TT_COLL_ALLTOALLV:
		return a->in_place ? tt_recv_bytes(a) : extent(a, a->scounts, a->sdispls);
	case TT_COLL_NEIGHBOR_ALLTOALL:
		return (size_t)tt_edges_out(a->edges, a->rank) * vector;
	case TT_COLL_SCATTER:
		return root ? (size_t)a->nranks * vector : 0;
	case TT_COLL_SCATTERV:
		return root ? extent(a, a->scounts, a->sdispls) : 0;
	default:
		return 0;
	}
}

size_t tt_recv_bytes(const struct tt_plan_args *a)
{
	size_t vector = a->count * a->elem;
	bool root = a->rank == a->root;

	switch (a->coll) {
	case TT_COLL_BARRIER:
		return 0;
	case TT_COLL_REDUCE:
		return root ? vector : 0;
	case TT_COLL_REDUCE_SCATTER_BLOCK:
		return a->in_place ? (size_t)a->nranks * vector : vector;
	case TT_COLL_REDUCE_SCATTER:
		return a->in_place ? extent(a, a->rcounts, NULL) : a->rcounts[a->rank] * a->elem;
	case TT_COLL_ALLGATHER:
	case TT_COLL_ALLTOALL:
		return (size_t)a->nranks * vector;
	case TT_COLL_ALLGATHERV:
	case TT_COLL_ALLTOALLV:
		return extent(a, a->rcounts, a->rdispls);
	case TT_COLL_GATHER:
		return root ? (size_t)a->nranks * vector : 0;
	case TT_COLL_GATHERV:
		return root ? extent(a, a->rcounts, a->rdispls) : 0;
	case TT_COLL_NEIGHBOR_ALLGATHER:
	case TT_COLL_NEIGHBOR_ALLTOALL:
		return (size_t)tt_edges_in(a->edges, a->rank) * vector;
	case TT_COLL_SCATTER:
	case TT_COLL_SCATTERV:
		return a->in_place ? 0 : vector;
	default: /* all-reduces, bcast, scans */
		return vector;
	}
}

struct tt_ref tt_input(const struct tt_plan_args *a)
{
	switch (a->coll) {
	case TT_COLL_BCAST:
		return TT_RECVBUF(0);
	case TT_COLL_ALLGATHER:
	case TT_COLL_ALLGATHERV:
	case TT_COLL_GATHER:
	case TT_COLL_GATHERV:
		return a->in_place ? TT_RECVBUF(tt_recv_block(a, a->rank).off) : TT_SENDBUF(0);
	default:
		return TT_SENDBUF(0);
	}
}

size_t tt_codec_grain(const struct tt_plan_args *a)
{
	size_t unit = tt_codec_unit(a), line = TT_NODE_LINE;

	return line % unit ? unit : line;
}

struct tt_span tt_codec_part(const struct tt_plan_args *a, int n, int i)
{
	size_t len = a->count * a->elem, grain = tt_codec_grain(a);
	size_t grains = tt_num_pieces(len, 1, grain);
	size_t from = tt_part_begin(grains, n, i) * grain;
	size_t to = tt_part_begin(grains, n, i + 1) * grain;

	from = from < len ? from : len;
	to = to < len ? to : len;
	return (struct tt_span){from, to - from};
}
