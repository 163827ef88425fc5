/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The collectives that move blocks of one length. Only the bytes of the signature of a block are
 * the same at all ranks: a rank may describe them by any datatype.
 */
#include <limits.h>

#include "mpi/preload.h"

/*
 * Whether calls with blocks of this side are taken; the side's bytes are those of a block. other:
 * NULL, or the other side, if all ranks have both.
 */
static bool take(const struct tm_comm *c, enum tm_coll coll, const struct tm_side *side,
		 const struct tm_side *other)
{
	size_t bytes = tm_side_block(side);

	if (tm_side_refused(side) || (other && tm_side_refused(other)) || !bytes ||
	    bytes > INT_MAX) {
		tm_passed(coll, TM_KIND);
		return false;
	}
	return tm_takes(c, coll, bytes);
}

static int tm_Barrier(MPI_Comm comm)
{
	struct tutti_call call = {.coll = TUTTI_COLL_BARRIER};
	struct tm_comm *c = tm_comm_of(comm);

	if (!tm_takes_any(c, TM_BARRIER))
		return tm_real.Barrier(comm);
	return tm_run(c, TM_BARRIER, &call);
}
TM_ENTRY(Barrier, (MPI_Comm comm), (comm))

static int tm_Bcast(void *buf, int count, MPI_Datatype datatype, int root, MPI_Comm comm)
{
	struct tutti_call call = {.coll = TUTTI_COLL_BCAST, .root = root};
	struct tm_comm *c = tm_comm_of(comm);
	struct tm_side side;
	int err, end;

	if (!c->tutti) {
		tm_passed(TM_BCAST, TM_COMM);
		return tm_real.Bcast(buf, count, datatype, root, comm);
	}
	tm_side_init(&side, buf, 1, count, datatype);
	if (!tm_has_root(c, TM_BCAST, root) || !take(c, TM_BCAST, &side, NULL))
		return tm_real.Bcast(buf, count, datatype, root, comm);
	err = tm_side_begin(&side, c->rank == root, comm);
	if (err) {
		tm_side_end(&side, false, comm);
		return tm_fail(c, err, "cannot pack what it sends");
	}
	call.recvbuf = side.data;
	call.count = tm_side_block(&side);
	call.datatype = TUTTI_UINT8;
	err = tm_run(c, TM_BCAST, &call);
	end = tm_side_end(&side, !err && c->rank != root, comm);
	return err ? err : end;
}
TM_ENTRY(Bcast, (void *buf, int count, MPI_Datatype datatype, int root, MPI_Comm comm),
	 (buf, count, datatype, root, comm))

static int tm_Gather(const void *sendbuf, int scount, MPI_Datatype stype, void *recvbuf, int rcount,
		     MPI_Datatype rtype, int root, MPI_Comm comm)
{
	struct tutti_call call = {.coll = TUTTI_COLL_GATHER, .root = root};
	struct tm_comm *c = tm_comm_of(comm);
	bool is_root = c->rank == root, in_place = is_root && sendbuf == MPI_IN_PLACE;
	struct tm_side send, recv, *own = in_place ? &recv : &send;

	if (!c->tutti) {
		tm_passed(TM_GATHER, TM_COMM);
		goto pass;
	}
	if (!tm_has_root(c, TM_GATHER, root))
		goto pass;
	if (is_root)
		tm_side_init(&recv, recvbuf, c->size, rcount, rtype);
	if (!in_place)
		tm_side_init(&send, sendbuf, 1, scount, stype);
	if (!take(c, TM_GATHER, own, NULL))
		goto pass;
	call.count = tm_side_block(own);
	if (in_place)
		call.sendbuf = TUTTI_IN_PLACE;
	return tm_sides_run(c, TM_GATHER, &call, in_place ? NULL : &send, is_root ? &recv : NULL);
pass:
	return tm_real.Gather(sendbuf, scount, stype, recvbuf, rcount, rtype, root, comm);
}
TM_ENTRY(Gather,
	 (const void *sendbuf, int scount, MPI_Datatype stype, void *recvbuf, int rcount,
	  MPI_Datatype rtype, int root, MPI_Comm comm),
	 (sendbuf, scount, stype, recvbuf, rcount, rtype, root, comm))

static int tm_Scatter(const void *sendbuf, int scount, MPI_Datatype stype, void *recvbuf,
		      int rcount, MPI_Datatype rtype, int root, MPI_Comm comm)
{
	struct tutti_call call = {.coll = TUTTI_COLL_SCATTER, .root = root};
	struct tm_comm *c = tm_comm_of(comm);
	bool is_root = c->rank == root, in_place = is_root && recvbuf == MPI_IN_PLACE;
	struct tm_side send, recv, *own = in_place ? &send : &recv;

	if (!c->tutti) {
		tm_passed(TM_SCATTER, TM_COMM);
		goto pass;
	}
	if (!tm_has_root(c, TM_SCATTER, root))
		goto pass;
	if (is_root)
		tm_side_init(&send, sendbuf, c->size, scount, stype);
	if (!in_place)
		tm_side_init(&recv, recvbuf, 1, rcount, rtype);
	if (!take(c, TM_SCATTER, own, NULL))
		goto pass;
	call.count = tm_side_block(own);
	if (in_place)
		call.recvbuf = TUTTI_IN_PLACE;
	return tm_sides_run(c, TM_SCATTER, &call, is_root ? &send : NULL, in_place ? NULL : &recv);
pass:
	return tm_real.Scatter(sendbuf, scount, stype, recvbuf, rcount, rtype, root, comm);
}
TM_ENTRY(Scatter,
	 (const void *sendbuf, int scount, MPI_Datatype stype, void *recvbuf, int rcount,
	  MPI_Datatype rtype, int root, MPI_Comm comm),
	 (sendbuf, scount, stype, recvbuf, rcount, rtype, root, comm))

static int tm_Allgather(const void *sendbuf, int scount, MPI_Datatype stype, void *recvbuf,
			int rcount, MPI_Datatype rtype, MPI_Comm comm)
{
	struct tutti_call call = {.coll = TUTTI_COLL_ALLGATHER};
	struct tm_comm *c = tm_comm_of(comm);
	bool in_place = sendbuf == MPI_IN_PLACE;
	struct tm_side send, recv;

	if (!c->tutti) {
		tm_passed(TM_ALLGATHER, TM_COMM);
		goto pass;
	}
	tm_side_init(&recv, recvbuf, c->size, rcount, rtype);
	if (!in_place)
		tm_side_init(&send, sendbuf, 1, scount, stype);
	if (!take(c, TM_ALLGATHER, &recv, in_place ? NULL : &send))
		goto pass;
	call.count = tm_side_block(&recv);
	if (in_place)
		call.sendbuf = TUTTI_IN_PLACE;
	return tm_sides_run(c, TM_ALLGATHER, &call, in_place ? NULL : &send, &recv);
pass:
	return tm_real.Allgather(sendbuf, scount, stype, recvbuf, rcount, rtype, comm);
}
TM_ENTRY(Allgather,
	 (const void *sendbuf, int scount, MPI_Datatype stype, void *recvbuf, int rcount,
	  MPI_Datatype rtype, MPI_Comm comm),
	 (sendbuf, scount, stype, recvbuf, rcount, rtype, comm))

static int tm_Alltoall(const void *sendbuf, int scount, MPI_Datatype stype, void *recvbuf,
		       int rcount, MPI_Datatype rtype, MPI_Comm comm)
{
	struct tutti_call call = {.coll = TUTTI_COLL_ALLTOALL};
	struct tm_comm *c = tm_comm_of(comm);
	bool in_place = sendbuf == MPI_IN_PLACE;
	struct tm_side send, recv;

	if (!c->tutti) {
		tm_passed(TM_ALLTOALL, TM_COMM);
		goto pass;
	}
	tm_side_init(&recv, recvbuf, c->size, rcount, rtype);
	if (!in_place)
		tm_side_init(&send, sendbuf, c->size, scount, stype);
	if (!take(c, TM_ALLTOALL, &recv, in_place ? NULL : &send))
		goto pass;
	call.count = tm_side_block(&recv);
	if (in_place)
		call.sendbuf = TUTTI_IN_PLACE;
	return tm_sides_run(c, TM_ALLTOALL, &call, in_place ? NULL : &send, &recv);
pass:
	return tm_real.Alltoall(sendbuf, scount, stype, recvbuf, rcount, rtype, comm);
}
TM_ENTRY(Alltoall,
	 (const void *sendbuf, int scount, MPI_Datatype stype, void *recvbuf, int rcount,
	  MPI_Datatype rtype, MPI_Comm comm),
	 (sendbuf, scount, stype, recvbuf, rcount, rtype, comm))
