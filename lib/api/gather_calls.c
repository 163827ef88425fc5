/* SPDX-License-Identifier: BSD-3-Clause */
/* The collectives that move blocks, in three forms each: tutti_, tutti_i and _init. */
#include "lib/api/api.h"

TT_COLLECTIVE(bcast, (void *buf, size_t count, enum tutti_datatype datatype, int root),
	      .coll = TT_COLL_BCAST, .recvbuf = buf, .count = count, .datatype = datatype,
	      .root = root)

static const struct tt_call barrier = {.coll = TT_COLL_BARRIER, .datatype = TUTTI_UINT8};

int tutti_barrier(struct tutti_comm *comm)
{
	return tt_coll_run(comm, barrier);
}

int tutti_ibarrier(struct tutti_comm *comm, struct tutti_request **request)
{
	return tt_coll_launch(comm, barrier, false, request);
}

int tutti_barrier_init(struct tutti_comm *comm, struct tutti_request **request)
{
	return tt_coll_launch(comm, barrier, true, request);
}

TT_COLLECTIVE(allgather,
	      (const void *sendbuf, void *recvbuf, size_t sendcount, enum tutti_datatype datatype),
	      .coll = TT_COLL_ALLGATHER, .sendbuf = sendbuf, .recvbuf = recvbuf, .count = sendcount,
	      .datatype = datatype)

TT_COLLECTIVE(allgatherv,
	      (const void *sendbuf, size_t sendcount, void *recvbuf, const size_t *recvcounts,
	       const size_t *displs, enum tutti_datatype datatype),
	      .coll = TT_COLL_ALLGATHERV, .sendbuf = sendbuf, .recvbuf = recvbuf,
	      .count = sendcount, .rcounts = recvcounts, .rdispls = displs, .datatype = datatype)

TT_COLLECTIVE(gather,
	      (const void *sendbuf, void *recvbuf, size_t sendcount, enum tutti_datatype datatype,
	       int root),
	      .coll = TT_COLL_GATHER, .sendbuf = sendbuf, .recvbuf = recvbuf, .count = sendcount,
	      .datatype = datatype, .root = root)

TT_COLLECTIVE(gatherv,
	      (const void *sendbuf, size_t sendcount, void *recvbuf, const size_t *recvcounts,
	       const size_t *displs, enum tutti_datatype datatype, int root),
	      .coll = TT_COLL_GATHERV, .sendbuf = sendbuf, .recvbuf = recvbuf, .count = sendcount,
	      .rcounts = recvcounts, .rdispls = displs, .datatype = datatype, .root = root)

TT_COLLECTIVE(scatter,
	      (const void *sendbuf, void *recvbuf, size_t recvcount, enum tutti_datatype datatype,
	       int root),
	      .coll = TT_COLL_SCATTER, .sendbuf = sendbuf, .recvbuf = recvbuf, .count = recvcount,
	      .datatype = datatype, .root = root)

TT_COLLECTIVE(scatterv,
	      (const void *sendbuf, const size_t *sendcounts, const size_t *displs, void *recvbuf,
	       size_t recvcount, enum tutti_datatype datatype, int root),
	      .coll = TT_COLL_SCATTERV, .sendbuf = sendbuf, .recvbuf = recvbuf, .count = recvcount,
	      .scounts = sendcounts, .sdispls = displs, .datatype = datatype, .root = root)

TT_COLLECTIVE(alltoall,
	      (const void *sendbuf, void *recvbuf, size_t count, enum tutti_datatype datatype),
	      .coll = TT_COLL_ALLTOALL, .sendbuf = sendbuf, .recvbuf = recvbuf, .count = count,
	      .datatype = datatype)

TT_COLLECTIVE(alltoallv,
	      (const void *sendbuf, const size_t *sendcounts, const size_t *sdispls, void *recvbuf,
	       const size_t *recvcounts, const size_t *rdispls, enum tutti_datatype datatype),
	      .coll = TT_COLL_ALLTOALLV, .sendbuf = sendbuf, .recvbuf = recvbuf,
	      .scounts = sendcounts, .sdispls = sdispls, .rcounts = recvcounts, .rdispls = rdispls,
	      .datatype = datatype)
