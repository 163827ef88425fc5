/* SPDX-License-Identifier: BSD-3-Clause */
/* Collectives: arguments are checked here, then one call down. Three forms of each, one check. */
#include <errno.h>

#include "lib/api/api.h"

size_t tutti_datatype_size(enum tutti_datatype datatype)
{
	static const unsigned char size[TUTTI_NUM_DATATYPES] = {1, 1, 4, 4, 8, 8, 2, 2, 4, 8};

	return (unsigned)datatype < TUTTI_NUM_DATATYPES ? size[datatype] : 0;
}

int tt_check_data(const char *name, const void *buf, size_t count, enum tutti_datatype datatype)
{
	size_t bytes;

	if (!tutti_datatype_size(datatype))
		return tt_fail(-EINVAL, "%s: %d is not a datatype", name, (int)datatype);
	if (__builtin_mul_overflow(count, tutti_datatype_size(datatype), &bytes) ||
	    bytes > (size_t)PTRDIFF_MAX)
		return tt_fail(-EINVAL, "%s: a count of %zu %s does not fit in memory", name, count,
			       tt_datatype_name(datatype));
	if (count && (!buf || buf == TUTTI_IN_PLACE))
		return tt_fail(-EINVAL, "%s: the buffer is %s", name,
			       buf ? "TUTTI_IN_PLACE" : "NULL");
	return 0;
}

static int allreduce_call(const void *sendbuf, void *recvbuf, size_t count,
			  enum tutti_datatype datatype, enum tutti_op op, struct tutti_comm *comm,
			  struct tt_call *call)
{
	size_t bytes;
	int err;

	err = tt_check_comm(comm);
	if (!err)
		err = tt_check_data("allreduce", recvbuf, count, datatype);
	if (err)
		return err;
	if ((unsigned)op >= TUTTI_NUM_OPS)
		return tt_fail(-EINVAL, "allreduce: %d is not an operator", (int)op);
	if (!tt_reduce_valid(datatype, op))
		return tt_fail(-EINVAL, "allreduce: %s is not defined for %s", tt_op_name(op),
			       tt_datatype_name(datatype));
	if (sendbuf == TUTTI_IN_PLACE || sendbuf == recvbuf)
		sendbuf = NULL;
	else if (count && !sendbuf)
		return tt_fail(-EINVAL, "allreduce: sendbuf is NULL");
	bytes = count * tutti_datatype_size(datatype);
	if (sendbuf && (const char *)sendbuf < (const char *)recvbuf + bytes &&
	    (const char *)recvbuf < (const char *)sendbuf + bytes)
		return tt_fail(-EINVAL, "allreduce: sendbuf and recvbuf overlap; to replace the "
					"input by the result, pass TUTTI_IN_PLACE");
	*call = (struct tt_call){.coll = TT_COLL_ALLREDUCE,
				 .sendbuf = sendbuf,
				 .recvbuf = recvbuf,
				 .count = count,
				 .datatype = datatype,
				 .op = op};
	return 0;
}

static int bcast_call(void *buf, size_t count, enum tutti_datatype datatype, int root,
		      struct tutti_comm *comm, struct tt_call *call)
{
	int err;

	err = tt_check_comm(comm);
	if (!err)
		err = tt_check_data("bcast", buf, count, datatype);
	if (err)
		return err;
	if (root < 0 || root >= comm->size)
		return tt_fail(-EINVAL, "bcast: root %d is not a rank of this communicator (0 to %d)",
			       root, comm->size - 1);
	*call = (struct tt_call){.coll = TT_COLL_BCAST,
				 .recvbuf = buf,
				 .count = count,
				 .datatype = datatype,
				 .root = root};
	return 0;
}

static int barrier_call(struct tutti_comm *comm, struct tt_call *call)
{
	*call = (struct tt_call){.coll = TT_COLL_BARRIER, .datatype = TUTTI_UINT8};
	return tt_check_comm(comm);
}

/* Start a call as a request that the caller owns. */
static int launch(struct tutti_comm *comm, const struct tt_call *call, bool persistent,
		  struct tutti_request **out)
{
	struct tutti_request *req;
	int err;

	if (!out)
		return tt_fail(-EINVAL, "%s: request is NULL", tt_coll_name(call->coll));
	tt_wire_lock(comm->ctx->wire);
	err = tt_comm_check(comm);
	if (!err)
		err = tt_request_new(comm, call, persistent, &req);
	if (!err && !persistent)
		err = tt_request_launch(req);
	tt_wire_unlock(comm->ctx->wire);
	if (!err)
		*out = req;
	return err;
}

int tt_run_call(struct tutti_comm *comm, const struct tt_call *call)
{
	struct tutti_request *req = NULL;
	int err = launch(comm, call, false, &req);

	return err ? err : tt_request_finish(&req);
}

int tutti_allreduce(const void *sendbuf, void *recvbuf, size_t count, enum tutti_datatype datatype,
		    enum tutti_op op, struct tutti_comm *comm)
{
	struct tt_call call;
	int err = allreduce_call(sendbuf, recvbuf, count, datatype, op, comm, &call);

	return err ? err : tt_run_call(comm, &call);
}

int tutti_iallreduce(const void *sendbuf, void *recvbuf, size_t count, enum tutti_datatype datatype,
		     enum tutti_op op, struct tutti_comm *comm, struct tutti_request **request)
{
	struct tt_call call;
	int err = allreduce_call(sendbuf, recvbuf, count, datatype, op, comm, &call);

	return err ? err : launch(comm, &call, false, request);
}

int tutti_allreduce_init(const void *sendbuf, void *recvbuf, size_t count,
			 enum tutti_datatype datatype, enum tutti_op op, struct tutti_comm *comm,
			 struct tutti_request **request)
{
	struct tt_call call;
	int err = allreduce_call(sendbuf, recvbuf, count, datatype, op, comm, &call);

	return err ? err : launch(comm, &call, true, request);
}

int tutti_bcast(void *buf, size_t count, enum tutti_datatype datatype, int root,
		struct tutti_comm *comm)
{
	struct tt_call call;
	int err = bcast_call(buf, count, datatype, root, comm, &call);

	return err ? err : tt_run_call(comm, &call);
}

int tutti_ibcast(void *buf, size_t count, enum tutti_datatype datatype, int root,
		 struct tutti_comm *comm, struct tutti_request **request)
{
	struct tt_call call;
	int err = bcast_call(buf, count, datatype, root, comm, &call);

	return err ? err : launch(comm, &call, false, request);
}

int tutti_bcast_init(void *buf, size_t count, enum tutti_datatype datatype, int root,
		     struct tutti_comm *comm, struct tutti_request **request)
{
	struct tt_call call;
	int err = bcast_call(buf, count, datatype, root, comm, &call);

	return err ? err : launch(comm, &call, true, request);
}

int tutti_barrier(struct tutti_comm *comm)
{
	struct tt_call call;
	int err = barrier_call(comm, &call);

	return err ? err : tt_run_call(comm, &call);
}

int tutti_ibarrier(struct tutti_comm *comm, struct tutti_request **request)
{
	struct tt_call call;
	int err = barrier_call(comm, &call);

	return err ? err : launch(comm, &call, false, request);
}

int tutti_barrier_init(struct tutti_comm *comm, struct tutti_request **request)
{
	struct tt_call call;
	int err = barrier_call(comm, &call);

	return err ? err : launch(comm, &call, true, request);
}
