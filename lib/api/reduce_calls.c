/* SPDX-License-Identifier: BSD-3-Clause */
/* The collectives that combine vectors; coll_calls.c explains their three forms. */
#include "lib/api/api.h"

/* All-reduce, scan and exscan. */
static struct tt_call vector_call(enum tt_coll coll, const void *sendbuf, void *recvbuf,
				  size_t count, enum tutti_datatype datatype, enum tutti_op op)
{
	return (struct tt_call){.coll = coll,
				.sendbuf = sendbuf,
				.recvbuf = recvbuf,
				.count = count,
				.datatype = datatype,
				.op = op};
}

int tutti_allreduce(const void *sendbuf, void *recvbuf, size_t count, enum tutti_datatype datatype,
		    enum tutti_op op, struct tutti_comm *comm)
{
	return tt_coll_run(comm,
			   vector_call(TT_COLL_ALLREDUCE, sendbuf, recvbuf, count, datatype, op));
}

int tutti_iallreduce(const void *sendbuf, void *recvbuf, size_t count, enum tutti_datatype datatype,
		     enum tutti_op op, struct tutti_comm *comm, struct tutti_request **request)
{
	return tt_coll_start(comm,
			     vector_call(TT_COLL_ALLREDUCE, sendbuf, recvbuf, count, datatype, op),
			     request);
}

int tutti_allreduce_init(const void *sendbuf, void *recvbuf, size_t count,
			 enum tutti_datatype datatype, enum tutti_op op, struct tutti_comm *comm,
			 struct tutti_request **request)
{
	return tt_coll_init(comm,
			    vector_call(TT_COLL_ALLREDUCE, sendbuf, recvbuf, count, datatype, op),
			    request);
}

static struct tt_call reduce_call(const void *sendbuf, void *recvbuf, size_t count,
				  enum tutti_datatype datatype, enum tutti_op op, int root)
{
	return (struct tt_call){.coll = TT_COLL_REDUCE,
				.sendbuf = sendbuf,
				.recvbuf = recvbuf,
				.count = count,
				.datatype = datatype,
				.op = op,
				.root = root};
}

int tutti_reduce(const void *sendbuf, void *recvbuf, size_t count, enum tutti_datatype datatype,
		 enum tutti_op op, int root, struct tutti_comm *comm)
{
	return tt_coll_run(comm, reduce_call(sendbuf, recvbuf, count, datatype, op, root));
}

int tutti_ireduce(const void *sendbuf, void *recvbuf, size_t count, enum tutti_datatype datatype,
		  enum tutti_op op, int root, struct tutti_comm *comm,
		  struct tutti_request **request)
{
	return tt_coll_start(comm, reduce_call(sendbuf, recvbuf, count, datatype, op, root),
			     request);
}

int tutti_reduce_init(const void *sendbuf, void *recvbuf, size_t count,
		      enum tutti_datatype datatype, enum tutti_op op, int root,
		      struct tutti_comm *comm, struct tutti_request **request)
{
	return tt_coll_init(comm, reduce_call(sendbuf, recvbuf, count, datatype, op, root),
			    request);
}

static struct tt_call reduce_scatter_block_call(const void *sendbuf, void *recvbuf,
						size_t recvcount, enum tutti_datatype datatype,
						enum tutti_op op)
{
	return (struct tt_call){.coll = TT_COLL_REDUCE_SCATTER_BLOCK,
				.sendbuf = sendbuf,
				.recvbuf = recvbuf,
				.count = recvcount,
				.datatype = datatype,
				.op = op};
}

int tutti_reduce_scatter_block(const void *sendbuf, void *recvbuf, size_t recvcount,
			       enum tutti_datatype datatype, enum tutti_op op,
			       struct tutti_comm *comm)
{
	return tt_coll_run(comm,
			   reduce_scatter_block_call(sendbuf, recvbuf, recvcount, datatype, op));
}

int tutti_ireduce_scatter_block(const void *sendbuf, void *recvbuf, size_t recvcount,
				enum tutti_datatype datatype, enum tutti_op op,
				struct tutti_comm *comm, struct tutti_request **request)
{
	return tt_coll_start(comm,
			     reduce_scatter_block_call(sendbuf, recvbuf, recvcount, datatype, op),
			     request);
}

int tutti_reduce_scatter_block_init(const void *sendbuf, void *recvbuf, size_t recvcount,
				    enum tutti_datatype datatype, enum tutti_op op,
				    struct tutti_comm *comm, struct tutti_request **request)
{
	return tt_coll_init(comm,
			    reduce_scatter_block_call(sendbuf, recvbuf, recvcount, datatype, op),
			    request);
}

static struct tt_call reduce_scatter_call(const void *sendbuf, void *recvbuf,
					  const size_t *recvcounts, enum tutti_datatype datatype,
					  enum tutti_op op)
{
	return (struct tt_call){.coll = TT_COLL_REDUCE_SCATTER,
				.sendbuf = sendbuf,
				.recvbuf = recvbuf,
				.rcounts = recvcounts,
				.datatype = datatype,
				.op = op};
}

int tutti_reduce_scatter(const void *sendbuf, void *recvbuf, const size_t *recvcounts,
			 enum tutti_datatype datatype, enum tutti_op op, struct tutti_comm *comm)
{
	return tt_coll_run(comm, reduce_scatter_call(sendbuf, recvbuf, recvcounts, datatype, op));
}

int tutti_ireduce_scatter(const void *sendbuf, void *recvbuf, const size_t *recvcounts,
			  enum tutti_datatype datatype, enum tutti_op op, struct tutti_comm *comm,
			  struct tutti_request **request)
{
	return tt_coll_start(comm, reduce_scatter_call(sendbuf, recvbuf, recvcounts, datatype, op),
			     request);
}

int tutti_reduce_scatter_init(const void *sendbuf, void *recvbuf, const size_t *recvcounts,
			      enum tutti_datatype datatype, enum tutti_op op,
			      struct tutti_comm *comm, struct tutti_request **request)
{
	return tt_coll_init(comm, reduce_scatter_call(sendbuf, recvbuf, recvcounts, datatype, op),
			    request);
}

int tutti_scan(const void *sendbuf, void *recvbuf, size_t count, enum tutti_datatype datatype,
	       enum tutti_op op, struct tutti_comm *comm)
{
	return tt_coll_run(comm, vector_call(TT_COLL_SCAN, sendbuf, recvbuf, count, datatype, op));
}

int tutti_iscan(const void *sendbuf, void *recvbuf, size_t count, enum tutti_datatype datatype,
		enum tutti_op op, struct tutti_comm *comm, struct tutti_request **request)
{
	return tt_coll_start(comm, vector_call(TT_COLL_SCAN, sendbuf, recvbuf, count, datatype, op),
			     request);
}

int tutti_scan_init(const void *sendbuf, void *recvbuf, size_t count, enum tutti_datatype datatype,
		    enum tutti_op op, struct tutti_comm *comm, struct tutti_request **request)
{
	return tt_coll_init(comm, vector_call(TT_COLL_SCAN, sendbuf, recvbuf, count, datatype, op),
			    request);
}

int tutti_exscan(const void *sendbuf, void *recvbuf, size_t count, enum tutti_datatype datatype,
		 enum tutti_op op, struct tutti_comm *comm)
{
	return tt_coll_run(comm,
			   vector_call(TT_COLL_EXSCAN, sendbuf, recvbuf, count, datatype, op));
}

int tutti_iexscan(const void *sendbuf, void *recvbuf, size_t count, enum tutti_datatype datatype,
		  enum tutti_op op, struct tutti_comm *comm, struct tutti_request **request)
{
	return tt_coll_start(
		comm, vector_call(TT_COLL_EXSCAN, sendbuf, recvbuf, count, datatype, op), request);
}

int tutti_exscan_init(const void *sendbuf, void *recvbuf, size_t count,
		      enum tutti_datatype datatype, enum tutti_op op, struct tutti_comm *comm,
		      struct tutti_request **request)
{
	return tt_coll_init(
		comm, vector_call(TT_COLL_EXSCAN, sendbuf, recvbuf, count, datatype, op), request);
}
