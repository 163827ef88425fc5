/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The v forms. The counts of gatherv, scatterv and alltoallv are known to some ranks only, so all
 * calls on a communicator are taken or none. All ranks of an allgatherv know all counts.
 */
#include "mpi/preload.h"

static void init(struct tm_side *s, const void *buf, int n, const int *counts, const int *displs,
		 MPI_Datatype type)
{
	tm_side_init(s, buf, n, 0, type);
	s->counts = counts;
	s->displs = displs;
}

/* Whether the MPI refuses this side, which all ranks have: then the call passes on. */
static bool passes(enum tm_coll coll, const struct tm_side *s)
{
	if (!tm_side_refused(s))
		return false;
	tm_passed(coll, TM_KIND);
	return true;
}

static int tm_Gatherv(const void *sendbuf, int scount, MPI_Datatype stype, void *recvbuf,
		      const int *rcounts, const int *displs, MPI_Datatype rtype, int root,
		      MPI_Comm comm)
{
	struct tutti_call call = {.coll = TUTTI_COLL_GATHERV, .root = root};
	struct tm_comm *c = tm_comm_of(comm);
	bool is_root = c->rank == root, in_place = is_root && sendbuf == MPI_IN_PLACE;
	struct tm_side send, recv;

	if (!tm_takes_any(c, TM_GATHERV) || !tm_has_root(c, TM_GATHERV, root))
		goto pass;
	if (is_root)
		init(&recv, recvbuf, c->size, rcounts, displs, rtype);
	if (!in_place)
		tm_side_init(&send, sendbuf, 1, scount, stype);
	if (!in_place && passes(TM_GATHERV, &send))
		goto pass;
	call.count = in_place ? (size_t)rcounts[root] * recv.size : tm_side_block(&send);
	if (in_place)
		call.sendbuf = TUTTI_IN_PLACE;
	return tm_sides_run(c, TM_GATHERV, &call, in_place ? NULL : &send, is_root ? &recv : NULL);
pass:
	return tm_real.Gatherv(sendbuf, scount, stype, recvbuf, rcounts, displs, rtype, root, comm);
}
TM_ENTRY(Gatherv,
	 (const void *sendbuf, int scount, MPI_Datatype stype, void *recvbuf, const int *rcounts,
	  const int *displs, MPI_Datatype rtype, int root, MPI_Comm comm),
	 (sendbuf, scount, stype, recvbuf, rcounts, displs, rtype, root, comm))

static int tm_Scatterv(const void *sendbuf, const int *scounts, const int *displs,
		       MPI_Datatype stype, void *recvbuf, int rcount, MPI_Datatype rtype, int root,
		       MPI_Comm comm)
{
	struct tutti_call call = {.coll = TUTTI_COLL_SCATTERV, .root = root};
	struct tm_comm *c = tm_comm_of(comm);
	bool is_root = c->rank == root, in_place = is_root && recvbuf == MPI_IN_PLACE;
	struct tm_side send, recv;

	if (!tm_takes_any(c, TM_SCATTERV) || !tm_has_root(c, TM_SCATTERV, root))
		goto pass;
	if (is_root)
		init(&send, sendbuf, c->size, scounts, displs, stype);
	if (!in_place)
		tm_side_init(&recv, recvbuf, 1, rcount, rtype);
	if (!in_place && passes(TM_SCATTERV, &recv))
		goto pass;
	call.count = in_place ? (size_t)scounts[root] * send.size : tm_side_block(&recv);
	if (in_place)
		call.recvbuf = TUTTI_IN_PLACE;
	return tm_sides_run(c, TM_SCATTERV, &call, is_root ? &send : NULL, in_place ? NULL : &recv);
pass:
	return tm_real.Scatterv(sendbuf, scounts, displs, stype, recvbuf, rcount, rtype, root,
				comm);
}
TM_ENTRY(Scatterv,
	 (const void *sendbuf, const int *scounts, const int *displs, MPI_Datatype stype,
	  void *recvbuf, int rcount, MPI_Datatype rtype, int root, MPI_Comm comm),
	 (sendbuf, scounts, displs, stype, recvbuf, rcount, rtype, root, comm))

/* The mean block, rounded up, the same at all ranks; false: a count is negative, or no type. */
static bool mean_block(const struct tm_side *recv, uint64_t *bytes)
{
	uint64_t sum = 0, n = (uint64_t)recv->n;
	int i;

	for (i = 0; i < recv->n; i++) {
		if (recv->counts[i] < 0)
			return false;
		sum += (uint64_t)recv->counts[i];
	}
	if (sum > UINT64_MAX / 2 / (recv->size + 1))
		return false;
	*bytes = (sum * recv->size + n - 1) / n;
	return !recv->err;
}

static bool take_allgatherv(const struct tm_comm *c, const struct tm_side *recv)
{
	uint64_t bytes = 0;

	if (mean_block(recv, &bytes))
		return tm_takes(c, TM_ALLGATHERV, bytes);
	tm_passed(TM_ALLGATHERV, TM_KIND);
	return false;
}

static int tm_Allgatherv(const void *sendbuf, int scount, MPI_Datatype stype, void *recvbuf,
			 const int *rcounts, const int *displs, MPI_Datatype rtype, MPI_Comm comm)
{
	struct tutti_call call = {.coll = TUTTI_COLL_ALLGATHERV};
	struct tm_comm *c = tm_comm_of(comm);
	bool in_place = sendbuf == MPI_IN_PLACE;
	struct tm_side send, recv;

	if (!c->tutti) {
		tm_passed(TM_ALLGATHERV, TM_COMM);
		goto pass;
	}
	init(&recv, recvbuf, c->size, rcounts, displs, rtype);
	if (!take_allgatherv(c, &recv))
		goto pass;
	if (!in_place)
		tm_side_init(&send, sendbuf, 1, scount, stype);
	if (!in_place && passes(TM_ALLGATHERV, &send))
		goto pass;
	/* an address in recvbuf would be in place, which all ranks must be alike */
	if (!in_place && !tm_side_block(&send))
		send.buf = NULL;
	call.count = in_place ? (size_t)rcounts[c->rank] * recv.size : tm_side_block(&send);
	if (in_place)
		call.sendbuf = TUTTI_IN_PLACE;
	return tm_sides_run(c, TM_ALLGATHERV, &call, in_place ? NULL : &send, &recv);
pass:
	return tm_real.Allgatherv(sendbuf, scount, stype, recvbuf, rcounts, displs, rtype, comm);
}
TM_ENTRY(Allgatherv,
	 (const void *sendbuf, int scount, MPI_Datatype stype, void *recvbuf, const int *rcounts,
	  const int *displs, MPI_Datatype rtype, MPI_Comm comm),
	 (sendbuf, scount, stype, recvbuf, rcounts, displs, rtype, comm))

static int tm_Alltoallv(const void *sendbuf, const int *scounts, const int *sdispls,
			MPI_Datatype stype, void *recvbuf, const int *rcounts, const int *rdispls,
			MPI_Datatype rtype, MPI_Comm comm)
{
	struct tutti_call call = {.coll = TUTTI_COLL_ALLTOALLV};
	struct tm_comm *c = tm_comm_of(comm);
	bool in_place = sendbuf == MPI_IN_PLACE;
	struct tm_side send, recv;

	if (!tm_takes_any(c, TM_ALLTOALLV))
		goto pass;
	init(&recv, recvbuf, c->size, rcounts, rdispls, rtype);
	if (!in_place)
		init(&send, sendbuf, c->size, scounts, sdispls, stype);
	if (passes(TM_ALLTOALLV, &recv) || (!in_place && passes(TM_ALLTOALLV, &send)))
		goto pass;
	if (in_place)
		call.sendbuf = TUTTI_IN_PLACE;
	return tm_sides_run(c, TM_ALLTOALLV, &call, in_place ? NULL : &send, &recv);
pass:
	return tm_real.Alltoallv(sendbuf, scounts, sdispls, stype, recvbuf, rcounts, rdispls, rtype,
				 comm);
}
TM_ENTRY(Alltoallv,
	 (const void *sendbuf, const int *scounts, const int *sdispls, MPI_Datatype stype,
	  void *recvbuf, const int *rcounts, const int *rdispls, MPI_Datatype rtype, MPI_Comm comm),
	 (sendbuf, scounts, sdispls, stype, recvbuf, rcounts, rdispls, rtype, comm))
