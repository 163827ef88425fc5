/* SPDX-License-Identifier: BSD-3-Clause */
/* The collectives that combine vectors, in three forms each: tutti_, tutti_i and _init. */
#include "lib/api/api.h"

TT_COLLECTIVE(allreduce,
	      (const void *sendbuf, void *recvbuf, size_t count, enum tutti_datatype datatype,
	       enum tutti_op op),
	      .coll = TT_COLL_ALLREDUCE, .sendbuf = sendbuf, .recvbuf = recvbuf, .count = count,
	      .datatype = datatype, .op = op)

TT_COLLECTIVE(reduce,
	      (const void *sendbuf, void *recvbuf, size_t count, enum tutti_datatype datatype,
	       enum tutti_op op, int root),
	      .coll = TT_COLL_REDUCE, .sendbuf = sendbuf, .recvbuf = recvbuf, .count = count,
	      .datatype = datatype, .op = op, .root = root)

TT_COLLECTIVE(reduce_scatter_block,
	      (const void *sendbuf, void *recvbuf, size_t recvcount, enum tutti_datatype datatype,
	       enum tutti_op op),
	      .coll = TT_COLL_REDUCE_SCATTER_BLOCK, .sendbuf = sendbuf, .recvbuf = recvbuf,
	      .count = recvcount, .datatype = datatype, .op = op)

TT_COLLECTIVE(reduce_scatter,
	      (const void *sendbuf, void *recvbuf, const size_t *recvcounts,
	       enum tutti_datatype datatype, enum tutti_op op),
	      .coll = TT_COLL_REDUCE_SCATTER, .sendbuf = sendbuf, .recvbuf = recvbuf,
	      .rcounts = recvcounts, .datatype = datatype, .op = op)

TT_COLLECTIVE(scan,
	      (const void *sendbuf, void *recvbuf, size_t count, enum tutti_datatype datatype,
	       enum tutti_op op),
	      .coll = TT_COLL_SCAN, .sendbuf = sendbuf, .recvbuf = recvbuf, .count = count,
	      .datatype = datatype, .op = op)

TT_COLLECTIVE(exscan,
	      (const void *sendbuf, void *recvbuf, size_t count, enum tutti_datatype datatype,
	       enum tutti_op op),
	      .coll = TT_COLL_EXSCAN, .sendbuf = sendbuf, .recvbuf = recvbuf, .count = count,
	      .datatype = datatype, .op = op)
