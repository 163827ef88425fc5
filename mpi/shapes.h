/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Parameters and arguments of the collectives, which their nonblocking and persistent forms begin
 * with. COUNT and DISPL are int, or MPI_Count and MPI_Aint in the functions with large counts.
 */
#ifndef TUTTI_MPI_SHAPES_H
#define TUTTI_MPI_SHAPES_H

#define TM_LIST(...) __VA_ARGS__

/*
 * X(row, name of the nonblocking form after MPI_I, that of the blocking one, parameters,
 * arguments); B, R, C, E, G, S: the same for bcast, reduce, other reductions, exchanges, gather,
 * scatter.
 */
#define TM_SHAPES_OF_RANKS(B, R, C, E, G, S, COUNT)                                                \
	B(TM_BCAST, bcast, Bcast,                                                                  \
	  (void *buf, COUNT count, MPI_Datatype type, int root, MPI_Comm comm),                    \
	  (buf, count, type, root, comm))                                                          \
	G(TM_GATHER, gather, Gather,                                                               \
	  (const void *sbuf, COUNT scount, MPI_Datatype stype, void *rbuf, COUNT rcount,           \
	   MPI_Datatype rtype, int root, MPI_Comm comm),                                           \
	  (sbuf, scount, stype, rbuf, rcount, rtype, root, comm))                                  \
	S(TM_SCATTER, scatter, Scatter,                                                            \
	  (const void *sbuf, COUNT scount, MPI_Datatype stype, void *rbuf, COUNT rcount,           \
	   MPI_Datatype rtype, int root, MPI_Comm comm),                                           \
	  (sbuf, scount, stype, rbuf, rcount, rtype, root, comm))                                  \
	E(TM_ALLGATHER, allgather, Allgather,                                                      \
	  (const void *sbuf, COUNT scount, MPI_Datatype stype, void *rbuf, COUNT rcount,           \
	   MPI_Datatype rtype, MPI_Comm comm),                                                     \
	  (sbuf, scount, stype, rbuf, rcount, rtype, comm))                                        \
	E(TM_ALLTOALL, alltoall, Alltoall,                                                         \
	  (const void *sbuf, COUNT scount, MPI_Datatype stype, void *rbuf, COUNT rcount,           \
	   MPI_Datatype rtype, MPI_Comm comm),                                                     \
	  (sbuf, scount, stype, rbuf, rcount, rtype, comm))                                        \
	C(TM_ALLREDUCE, allreduce, Allreduce,                                                      \
	  (const void *sbuf, void *rbuf, COUNT count, MPI_Datatype type, MPI_Op op,                \
	   MPI_Comm comm),                                                                         \
	  (sbuf, rbuf, count, type, op, comm))                                                     \
	R(TM_REDUCE, reduce, Reduce,                                                               \
	  (const void *sbuf, void *rbuf, COUNT count, MPI_Datatype type, MPI_Op op, int root,      \
	   MPI_Comm comm),                                                                         \
	  (sbuf, rbuf, count, type, op, root, comm))                                               \
	C(TM_REDUCE_SCATTER_BLOCK, reduce_scatter_block, Reduce_scatter_block,                     \
	  (const void *sbuf, void *rbuf, COUNT count, MPI_Datatype type, MPI_Op op,                \
	   MPI_Comm comm),                                                                         \
	  (sbuf, rbuf, count, type, op, comm))                                                     \
	C(TM_SCAN, scan, Scan,                                                                     \
	  (const void *sbuf, void *rbuf, COUNT count, MPI_Datatype type, MPI_Op op,                \
	   MPI_Comm comm),                                                                         \
	  (sbuf, rbuf, count, type, op, comm))                                                     \
	C(TM_EXSCAN, exscan, Exscan,                                                               \
	  (const void *sbuf, void *rbuf, COUNT count, MPI_Datatype type, MPI_Op op,                \
	   MPI_Comm comm),                                                                         \
	  (sbuf, rbuf, count, type, op, comm))

#define TM_SHAPES_OF_COUNTS(X, COUNT, DISPL)                                                       \
	X(TM_REDUCE_SCATTER, reduce_scatter, Reduce_scatter,                                       \
	  (const void *sbuf, void *rbuf, const COUNT *counts, MPI_Datatype type, MPI_Op op,        \
	   MPI_Comm comm),                                                                         \
	  (sbuf, rbuf, counts, type, op, comm))                                                    \
	X(TM_GATHERV, gatherv, Gatherv,                                                            \
	  (const void *sbuf, COUNT scount, MPI_Datatype stype, void *rbuf, const COUNT *rcounts,   \
	   const DISPL *displs, MPI_Datatype rtype, int root, MPI_Comm comm),                      \
	  (sbuf, scount, stype, rbuf, rcounts, displs, rtype, root, comm))                         \
	X(TM_SCATTERV, scatterv, Scatterv,                                                         \
	  (const void *sbuf, const COUNT *scounts, const DISPL *displs, MPI_Datatype stype,        \
	   void *rbuf, COUNT rcount, MPI_Datatype rtype, int root, MPI_Comm comm),                 \
	  (sbuf, scounts, displs, stype, rbuf, rcount, rtype, root, comm))                         \
	X(TM_ALLGATHERV, allgatherv, Allgatherv,                                                   \
	  (const void *sbuf, COUNT scount, MPI_Datatype stype, void *rbuf, const COUNT *rcounts,   \
	   const DISPL *displs, MPI_Datatype rtype, MPI_Comm comm),                                \
	  (sbuf, scount, stype, rbuf, rcounts, displs, rtype, comm))                               \
	X(TM_ALLTOALLV, alltoallv, Alltoallv,                                                      \
	  (const void *sbuf, const COUNT *scounts, const DISPL *sdispls, MPI_Datatype stype,       \
	   void *rbuf, const COUNT *rcounts, const DISPL *rdispls, MPI_Datatype rtype,             \
	   MPI_Comm comm),                                                                         \
	  (sbuf, scounts, sdispls, stype, rbuf, rcounts, rdispls, rtype, comm))

/* Those of which the blocking form passes on, too. */
#define TM_SHAPES_NEVER_TAKEN(X, COUNT, DISPL)                                                     \
	X(TM_ALLTOALLW, alltoallw, Alltoallw,                                                      \
	  (const void *sbuf, const COUNT *scounts, const DISPL *sdispls,                           \
	   const MPI_Datatype *stypes, void *rbuf, const COUNT *rcounts, const DISPL *rdispls,     \
	   const MPI_Datatype *rtypes, MPI_Comm comm),                                             \
	  (sbuf, scounts, sdispls, stypes, rbuf, rcounts, rdispls, rtypes, comm))                  \
	X(TM_NEIGHBORS, neighbor_allgather, Neighbor_allgather,                                    \
	  (const void *sbuf, COUNT scount, MPI_Datatype stype, void *rbuf, COUNT rcount,           \
	   MPI_Datatype rtype, MPI_Comm comm),                                                     \
	  (sbuf, scount, stype, rbuf, rcount, rtype, comm))                                        \
	X(TM_NEIGHBORS, neighbor_allgatherv, Neighbor_allgatherv,                                  \
	  (const void *sbuf, COUNT scount, MPI_Datatype stype, void *rbuf, const COUNT *rcounts,   \
	   const DISPL *displs, MPI_Datatype rtype, MPI_Comm comm),                                \
	  (sbuf, scount, stype, rbuf, rcounts, displs, rtype, comm))                               \
	X(TM_NEIGHBORS, neighbor_alltoall, Neighbor_alltoall,                                      \
	  (const void *sbuf, COUNT scount, MPI_Datatype stype, void *rbuf, COUNT rcount,           \
	   MPI_Datatype rtype, MPI_Comm comm),                                                     \
	  (sbuf, scount, stype, rbuf, rcount, rtype, comm))                                        \
	X(TM_NEIGHBORS, neighbor_alltoallv, Neighbor_alltoallv,                                    \
	  (const void *sbuf, const COUNT *scounts, const DISPL *sdispls, MPI_Datatype stype,       \
	   void *rbuf, const COUNT *rcounts, const DISPL *rdispls, MPI_Datatype rtype,             \
	   MPI_Comm comm),                                                                         \
	  (sbuf, scounts, sdispls, stype, rbuf, rcounts, rdispls, rtype, comm))                    \
	X(TM_NEIGHBORS, neighbor_alltoallw, Neighbor_alltoallw,                                    \
	  (const void *sbuf, const COUNT *scounts, const MPI_Aint *sdispls,                        \
	   const MPI_Datatype *stypes, void *rbuf, const COUNT *rcounts, const MPI_Aint *rdispls,  \
	   const MPI_Datatype *rtypes, MPI_Comm comm),                                             \
	  (sbuf, scounts, sdispls, stypes, rbuf, rcounts, rdispls, rtypes, comm))

#define TM_SHAPES(X, COUNT, DISPL)                                                                 \
	TM_SHAPES_OF_RANKS(X, X, X, X, X, X, COUNT)                                                \
	TM_SHAPES_OF_COUNTS(X, COUNT, DISPL) TM_SHAPES_NEVER_TAKEN(X, COUNT, DISPL)

#endif
