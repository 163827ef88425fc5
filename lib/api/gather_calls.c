/* SPDX-License-Identifier: BSD-3-Clause */
/* The collectives that gather or scatter blocks; coll_calls.c explains their three forms. */
#include "lib/api/api.h"

static struct tt_call bcast_call(void *buf, size_t count, enum tutti_datatype datatype, int root)
{
	return (struct tt_call){.coll = TT_COLL_BCAST,
				.recvbuf = buf,
				.count = count,
				.datatype = datatype,
				.root = root};
}

int tutti_bcast(void *buf, size_t count, enum tutti_datatype datatype, int root,
		struct tutti_comm *comm)
{
	return tt_coll_run(comm, bcast_call(buf, count, datatype, root));
}

int tutti_ibcast(void *buf, size_t count, enum tutti_datatype datatype, int root,
		 struct tutti_comm *comm, struct tutti_request **request)
{
	return tt_coll_start(comm, bcast_call(buf, count, datatype, root), request);
}

int tutti_bcast_init(void *buf, size_t count, enum tutti_datatype datatype, int root,
		     struct tutti_comm *comm, struct tutti_request **request)
{
	return tt_coll_init(comm, bcast_call(buf, count, datatype, root), request);
}

static const struct tt_call barrier = {.coll = TT_COLL_BARRIER, .datatype = TUTTI_UINT8};

int tutti_barrier(struct tutti_comm *comm)
{
	return tt_coll_run(comm, barrier);
}

int tutti_ibarrier(struct tutti_comm *comm, struct tutti_request **request)
{
	return tt_coll_start(comm, barrier, request);
}

int tutti_barrier_init(struct tutti_comm *comm, struct tutti_request **request)
{
	return tt_coll_init(comm, barrier, request);
}

static struct tt_call allgather_call(const void *sendbuf, void *recvbuf, size_t sendcount,
				     enum tutti_datatype datatype)
{
	return (struct tt_call){.coll = TT_COLL_ALLGATHER,
				.sendbuf = sendbuf,
				.recvbuf = recvbuf,
				.count = sendcount,
				.datatype = datatype};
}

int tutti_allgather(const void *sendbuf, void *recvbuf, size_t sendcount,
		    enum tutti_datatype datatype, struct tutti_comm *comm)
{
	return tt_coll_run(comm, allgather_call(sendbuf, recvbuf, sendcount, datatype));
}

int tutti_iallgather(const void *sendbuf, void *recvbuf, size_t sendcount,
		     enum tutti_datatype datatype, struct tutti_comm *comm,
		     struct tutti_request **request)
{
	return tt_coll_start(comm, allgather_call(sendbuf, recvbuf, sendcount, datatype), request);
}

int tutti_allgather_init(const void *sendbuf, void *recvbuf, size_t sendcount,
			 enum tutti_datatype datatype, struct tutti_comm *comm,
			 struct tutti_request **request)
{
	return tt_coll_init(comm, allgather_call(sendbuf, recvbuf, sendcount, datatype), request);
}

static struct tt_call allgatherv_call(const void *sendbuf, size_t sendcount, void *recvbuf,
				      const size_t *recvcounts, const size_t *displs,
				      enum tutti_datatype datatype)
{
	return (struct tt_call){.coll = TT_COLL_ALLGATHERV,
				.sendbuf = sendbuf,
				.count = sendcount,
				.recvbuf = recvbuf,
				.rcounts = recvcounts,
				.rdispls = displs,
				.datatype = datatype};
}

int tutti_allgatherv(const void *sendbuf, size_t sendcount, void *recvbuf, const size_t *recvcounts,
		     const size_t *displs, enum tutti_datatype datatype, struct tutti_comm *comm)
{
	return tt_coll_run(
		comm, allgatherv_call(sendbuf, sendcount, recvbuf, recvcounts, displs, datatype));
}

int tutti_iallgatherv(const void *sendbuf, size_t sendcount, void *recvbuf,
		      const size_t *recvcounts, const size_t *displs, enum tutti_datatype datatype,
		      struct tutti_comm *comm, struct tutti_request **request)
{
	return tt_coll_start(
		comm, allgatherv_call(sendbuf, sendcount, recvbuf, recvcounts, displs, datatype),
		request);
}

int tutti_allgatherv_init(const void *sendbuf, size_t sendcount, void *recvbuf,
			  const size_t *recvcounts, const size_t *displs,
			  enum tutti_datatype datatype, struct tutti_comm *comm,
			  struct tutti_request **request)
{
	return tt_coll_init(
		comm, allgatherv_call(sendbuf, sendcount, recvbuf, recvcounts, displs, datatype),
		request);
}

static struct tt_call gather_call(const void *sendbuf, void *recvbuf, size_t sendcount,
				  enum tutti_datatype datatype, int root)
{
	return (struct tt_call){.coll = TT_COLL_GATHER,
				.sendbuf = sendbuf,
				.recvbuf = recvbuf,
				.count = sendcount,
				.datatype = datatype,
				.root = root};
}

int tutti_gather(const void *sendbuf, void *recvbuf, size_t sendcount, enum tutti_datatype datatype,
		 int root, struct tutti_comm *comm)
{
	return tt_coll_run(comm, gather_call(sendbuf, recvbuf, sendcount, datatype, root));
}

int tutti_igather(const void *sendbuf, void *recvbuf, size_t sendcount,
		  enum tutti_datatype datatype, int root, struct tutti_comm *comm,
		  struct tutti_request **request)
{
	return tt_coll_start(comm, gather_call(sendbuf, recvbuf, sendcount, datatype, root),
			     request);
}

int tutti_gather_init(const void *sendbuf, void *recvbuf, size_t sendcount,
		      enum tutti_datatype datatype, int root, struct tutti_comm *comm,
		      struct tutti_request **request)
{
	return tt_coll_init(comm, gather_call(sendbuf, recvbuf, sendcount, datatype, root),
			    request);
}

static struct tt_call gatherv_call(const void *sendbuf, size_t sendcount, void *recvbuf,
				   const size_t *recvcounts, const size_t *displs,
				   enum tutti_datatype datatype, int root)
{
	return (struct tt_call){.coll = TT_COLL_GATHERV,
				.sendbuf = sendbuf,
				.count = sendcount,
				.recvbuf = recvbuf,
				.rcounts = recvcounts,
				.rdispls = displs,
				.datatype = datatype,
				.root = root};
}

int tutti_gatherv(const void *sendbuf, size_t sendcount, void *recvbuf, const size_t *recvcounts,
		  const size_t *displs, enum tutti_datatype datatype, int root,
		  struct tutti_comm *comm)
{
	return tt_coll_run(comm, gatherv_call(sendbuf, sendcount, recvbuf, recvcounts, displs,
					      datatype, root));
}

int tutti_igatherv(const void *sendbuf, size_t sendcount, void *recvbuf, const size_t *recvcounts,
		   const size_t *displs, enum tutti_datatype datatype, int root,
		   struct tutti_comm *comm, struct tutti_request **request)
{
	return tt_coll_start(
		comm, gatherv_call(sendbuf, sendcount, recvbuf, recvcounts, displs, datatype, root),
		request);
}

int tutti_gatherv_init(const void *sendbuf, size_t sendcount, void *recvbuf,
		       const size_t *recvcounts, const size_t *displs, enum tutti_datatype datatype,
		       int root, struct tutti_comm *comm, struct tutti_request **request)
{
	return tt_coll_init(
		comm, gatherv_call(sendbuf, sendcount, recvbuf, recvcounts, displs, datatype, root),
		request);
}

static struct tt_call scatter_call(const void *sendbuf, void *recvbuf, size_t recvcount,
				   enum tutti_datatype datatype, int root)
{
	return (struct tt_call){.coll = TT_COLL_SCATTER,
				.sendbuf = sendbuf,
				.recvbuf = recvbuf,
				.count = recvcount,
				.datatype = datatype,
				.root = root};
}

int tutti_scatter(const void *sendbuf, void *recvbuf, size_t recvcount,
		  enum tutti_datatype datatype, int root, struct tutti_comm *comm)
{
	return tt_coll_run(comm, scatter_call(sendbuf, recvbuf, recvcount, datatype, root));
}

int tutti_iscatter(const void *sendbuf, void *recvbuf, size_t recvcount,
		   enum tutti_datatype datatype, int root, struct tutti_comm *comm,
		   struct tutti_request **request)
{
	return tt_coll_start(comm, scatter_call(sendbuf, recvbuf, recvcount, datatype, root),
			     request);
}

int tutti_scatter_init(const void *sendbuf, void *recvbuf, size_t recvcount,
		       enum tutti_datatype datatype, int root, struct tutti_comm *comm,
		       struct tutti_request **request)
{
	return tt_coll_init(comm, scatter_call(sendbuf, recvbuf, recvcount, datatype, root),
			    request);
}

static struct tt_call scatterv_call(const void *sendbuf, const size_t *sendcounts,
				    const size_t *displs, void *recvbuf, size_t recvcount,
				    enum tutti_datatype datatype, int root)
{
	return (struct tt_call){.coll = TT_COLL_SCATTERV,
				.sendbuf = sendbuf,
				.scounts = sendcounts,
				.sdispls = displs,
				.recvbuf = recvbuf,
				.count = recvcount,
				.datatype = datatype,
				.root = root};
}

int tutti_scatterv(const void *sendbuf, const size_t *sendcounts, const size_t *displs,
		   void *recvbuf, size_t recvcount, enum tutti_datatype datatype, int root,
		   struct tutti_comm *comm)
{
	return tt_coll_run(comm, scatterv_call(sendbuf, sendcounts, displs, recvbuf, recvcount,
					       datatype, root));
}

int tutti_iscatterv(const void *sendbuf, const size_t *sendcounts, const size_t *displs,
		    void *recvbuf, size_t recvcount, enum tutti_datatype datatype, int root,
		    struct tutti_comm *comm, struct tutti_request **request)
{
	return tt_coll_start(
		comm,
		scatterv_call(sendbuf, sendcounts, displs, recvbuf, recvcount, datatype, root),
		request);
}

int tutti_scatterv_init(const void *sendbuf, const size_t *sendcounts, const size_t *displs,
			void *recvbuf, size_t recvcount, enum tutti_datatype datatype, int root,
			struct tutti_comm *comm, struct tutti_request **request)
{
	return tt_coll_init(
		comm,
		scatterv_call(sendbuf, sendcounts, displs, recvbuf, recvcount, datatype, root),
		request);
}

static struct tt_call alltoall_call(const void *sendbuf, void *recvbuf, size_t count,
				    enum tutti_datatype datatype)
{
	return (struct tt_call){.coll = TT_COLL_ALLTOALL,
				.sendbuf = sendbuf,
				.recvbuf = recvbuf,
				.count = count,
				.datatype = datatype};
}

int tutti_alltoall(const void *sendbuf, void *recvbuf, size_t count, enum tutti_datatype datatype,
		   struct tutti_comm *comm)
{
	return tt_coll_run(comm, alltoall_call(sendbuf, recvbuf, count, datatype));
}

int tutti_ialltoall(const void *sendbuf, void *recvbuf, size_t count, enum tutti_datatype datatype,
		    struct tutti_comm *comm, struct tutti_request **request)
{
	return tt_coll_start(comm, alltoall_call(sendbuf, recvbuf, count, datatype), request);
}

int tutti_alltoall_init(const void *sendbuf, void *recvbuf, size_t count,
			enum tutti_datatype datatype, struct tutti_comm *comm,
			struct tutti_request **request)
{
	return tt_coll_init(comm, alltoall_call(sendbuf, recvbuf, count, datatype), request);
}

static struct tt_call alltoallv_call(const void *sendbuf, const size_t *sendcounts,
				     const size_t *sdispls, void *recvbuf, const size_t *recvcounts,
				     const size_t *rdispls, enum tutti_datatype datatype)
{
	return (struct tt_call){.coll = TT_COLL_ALLTOALLV,
				.sendbuf = sendbuf,
				.scounts = sendcounts,
				.sdispls = sdispls,
				.recvbuf = recvbuf,
				.rcounts = recvcounts,
				.rdispls = rdispls,
				.datatype = datatype};
}

int tutti_alltoallv(const void *sendbuf, const size_t *sendcounts, const size_t *sdispls,
		    void *recvbuf, const size_t *recvcounts, const size_t *rdispls,
		    enum tutti_datatype datatype, struct tutti_comm *comm)
{
	return tt_coll_run(comm, alltoallv_call(sendbuf, sendcounts, sdispls, recvbuf, recvcounts,
						rdispls, datatype));
}

int tutti_ialltoallv(const void *sendbuf, const size_t *sendcounts, const size_t *sdispls,
		     void *recvbuf, const size_t *recvcounts, const size_t *rdispls,
		     enum tutti_datatype datatype, struct tutti_comm *comm,
		     struct tutti_request **request)
{
	return tt_coll_start(comm,
			     alltoallv_call(sendbuf, sendcounts, sdispls, recvbuf, recvcounts,
					    rdispls, datatype),
			     request);
}

int tutti_alltoallv_init(const void *sendbuf, const size_t *sendcounts, const size_t *sdispls,
			 void *recvbuf, const size_t *recvcounts, const size_t *rdispls,
			 enum tutti_datatype datatype, struct tutti_comm *comm,
			 struct tutti_request **request)
{
	return tt_coll_init(comm,
			    alltoallv_call(sendbuf, sendcounts, sdispls, recvbuf, recvcounts,
					   rdispls, datatype),
			    request);
}
