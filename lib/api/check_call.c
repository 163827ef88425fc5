/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Checks the arguments of a collective before anything is sent, and converts them to the engine's
 * form: unused arguments are dropped, in-place is a flag.
 */
#include <errno.h>
#include <stdlib.h>

#include "lib/api/api.h"

int tt_check_data(const char *name, const void *buf, size_t count, enum tutti_datatype datatype)
{
	size_t size = tutti_datatype_size(datatype);

	if (!size)
		return tt_fail(-EINVAL, "%s: %d is not a datatype", name, (int)datatype);
	if (count > TT_SPACE_MAX / size)
		return tt_fail(-EINVAL, "%s: a count of %zu %s does not fit in memory", name, count,
			       tt_datatype_name(datatype));
	if (count && (!buf || buf == TUTTI_IN_PLACE))
		return tt_fail(-EINVAL, "%s: the buffer is %s", name,
			       buf ? "TUTTI_IN_PLACE" : "NULL");
	return 0;
}

static bool one_of(enum tt_coll coll, enum tt_coll a, enum tt_coll b)
{
	return coll == a || coll == b;
}

/* The engine looks up user-defined operators. */
static int check_op(const struct tt_call *call, const char *name)
{
	bool own = call->op > TUTTI_NUM_OPS && call->op < TUTTI_OP_LIMIT;

	if (!tt_coll_reduces(call->coll))
		return 0;
	if (own && tutti_datatype_size(call->datatype) > TT_REDUCE_ELEM_MAX)
		return tt_fail(-EINVAL,
			       "%s: an operator takes elements of at most %d bytes, not %zu", name,
			       TT_REDUCE_ELEM_MAX, tutti_datatype_size(call->datatype));
	if (own)
		return 0;
	if ((unsigned)call->op >= TUTTI_NUM_OPS)
		return tt_fail(-EINVAL, "%s: %d is not an operator", name, (int)call->op);
	if (!tt_reduce_valid(call->datatype, call->op))
		return tt_fail(-EINVAL, "%s: %s is not defined for %s", name, tt_op_name(call->op),
			       tt_datatype_name(call->datatype));
	if (call->op == TUTTI_AVG && one_of(call->coll, TT_COLL_SCAN, TT_COLL_EXSCAN))
		return tt_fail(-EINVAL, "%s: avg has no meaning here; use sum", name);
	return 0;
}

/* ---- counts ---- */

/* Bits of what the buffers and arrays of a collective are. */
enum {
	SEND = 1,
	SEND_N = 2,
	RECV = 4,
	RECV_N = 8,
	ROOT_SENDS = 16,
	ROOT_RECVS = 32,
	REDUCES = 64,
	ROOT = 128
};

/* The arrays of counts of a v form; ROOT: only of its root. */
static const uint8_t arrays_of[TT_NUM_COLLS] = {
	[TT_COLL_REDUCE_SCATTER] = RECV,   [TT_COLL_ALLGATHERV] = RECV,
	[TT_COLL_GATHERV] = RECV | ROOT,   [TT_COLL_SCATTERV] = SEND | ROOT,
	[TT_COLL_ALLTOALLV] = SEND | RECV,
};

static int check_count(const struct tutti_comm *comm, const struct tt_call *call, const char *name)
{
	size_t n = tt_coll_blocks(call->coll) ? (size_t)comm->size : 1;
	size_t elem = tutti_datatype_size(call->datatype);

	if (call->count <= TT_SPACE_MAX / elem / n)
		return 0;
	return tt_fail(-EINVAL, "%s: a count of %zu %s%s does not fit in memory", name, call->count,
		       tt_datatype_name(call->datatype), n > 1 ? " for each rank" : "");
}

static int fail_far(const struct tt_call *call, const char *which, int i, size_t begin,
		    size_t count)
{
	const char *name = tt_coll_name(call->coll), *type = tt_datatype_name(call->datatype);
	bool sends = *which == 's';

	if (!(sends ? call->sdispls : call->rdispls))
		return tt_fail(-EINVAL,
			       "%s: %s[%d] is %zu %s: the blocks up to it do not fit in memory",
			       name, which, i, count, type);
	return tt_fail(-EINVAL,
		       "%s: %s[%d] is %zu: %zu %s (%s[%d]) from there on do not fit in memory",
		       name, tt_displs_name(call->coll, sends), i, begin, count, type, which, i);
}

/* which: "sendcounts" or "recvcounts". */
static int check_array(const struct tutti_comm *comm, const struct tt_call *call, const char *which,
		       const size_t *counts, const size_t *displs)
{
	/* the blocks of a reduce_scatter are those of its input */
	bool in_send = *which == 's' ||
		       (call->coll == TT_COLL_REDUCE_SCATTER && call->sendbuf != TUTTI_IN_PLACE);
	const void *buf = in_send ? call->sendbuf : call->recvbuf;
	size_t most = tt_space_from(buf) / tutti_datatype_size(call->datatype), total = 0, begin;
	int i;

	if (!counts)
		return tt_fail(-EINVAL, "%s: %s is NULL", tt_coll_name(call->coll), which);
	for (i = 0; i < comm->size; i++) {
		begin = displs ? displs[i] : total;
		/* of an empty block it may be anything */
		if (displs && ((ptrdiff_t)begin < 0 || (begin > most && !counts[i])))
			return TT_NEGATIVE;
		if (begin > most || counts[i] > most - begin)
			return fail_far(call, which, i, begin, counts[i]);
		total = begin + counts[i];
	}
	return 0;
}

struct block {
	size_t begin, end;
	int rank;
};

static int by_begin(const void *a, const void *b)
{
	const struct block *x = a, *y = b;

	if (x->begin != y->begin)
		return x->begin < y->begin ? -1 : 1;
	return x->rank - y->rank;
}

static int fail_overlap(const struct tt_call *call, int a, int b)
{
	return tt_fail(-EINVAL, "%s: the blocks of ranks %d and %d overlap in recvbuf",
		       tt_coll_name(call->coll), a < b ? a : b, a < b ? b : a);
}

static int check_sorted(const struct tutti_comm *comm, const struct tt_call *call)
{
	struct block *block = malloc((size_t)comm->size * sizeof(*block));
	int i, n = 0, err = 0;

	if (!block)
		return tt_fail(-ENOMEM, "no memory to check displacements");
	for (i = 0; i < comm->size; i++)
		if (call->rcounts[i])
			block[n++] = (struct block){call->rdispls[i],
						    call->rdispls[i] + call->rcounts[i], i};
	qsort(block, (size_t)n, sizeof(*block), by_begin);
	for (i = 1; i < n && !err; i++)
		if (block[i].begin < block[i - 1].end)
			err = fail_overlap(call, block[i - 1].rank, block[i].rank);
	free(block);
	return err;
}

/* Received blocks must not overlap. */
static int check_displs(const struct tutti_comm *comm, const struct tt_call *call)
{
	size_t end = 0;
	int i;

	if (!call->rdispls)
		return 0;
	for (i = 0; i < comm->size; i++) {
		if (!call->rcounts[i])
			continue;
		if (call->rdispls[i] < end)
			return check_sorted(comm, call);
		end = call->rdispls[i] + call->rcounts[i];
	}
	return 0;
}

/* Drops the arrays that this rank's part of a v form does not use: SEND, RECV: those it does. */
static inline unsigned used_arrays(const struct tutti_comm *comm, struct tt_call *call)
{
	unsigned used = arrays_of[call->coll];

	if (comm->rank != call->root && used & ROOT)
		used = 0;
	if (call->coll == TT_COLL_ALLTOALLV && call->sendbuf == TUTTI_IN_PLACE) {
		call->scounts = call->rcounts;
		call->sdispls = call->rdispls;
	}
	if (!(used & RECV))
		call->rcounts = call->rdispls = NULL;
	if (!(used & SEND))
		call->scounts = call->sdispls = NULL;
	return used;
}

static int check_arrays(const struct tutti_comm *comm, struct tt_call *call)
{
	unsigned used = used_arrays(comm, call);
	int err = 0;

	if (used & RECV)
		err = check_array(comm, call, "recvcounts", call->rcounts, call->rdispls);
	if (!err && used & SEND)
		err = check_array(comm, call, "sendcounts", call->scounts, call->sdispls);
	return err || !(used & RECV) ? err : check_displs(comm, call);
}

/* A rank sends itself as much as it receives from itself. Keeps count where it has a meaning. */
static int check_own(const struct tutti_comm *comm, struct tt_call *call)
{
	size_t sent = call->count, got = call->count;

	if (call->rcounts)
		got = call->rcounts[comm->rank];
	if (call->scounts)
		sent = call->scounts[comm->rank];
	if (call->coll == TT_COLL_REDUCE_SCATTER)
		return 0;
	if (!call->in_place && sent != got)
		return tt_fail(-EINVAL,
			       "%s: rank %d sends %zu elements to itself but receives %zu (counts)",
			       tt_coll_name(call->coll), comm->rank, sent, got);
	if (one_of(call->coll, TT_COLL_ALLGATHERV, TT_COLL_ALLTOALLV))
		call->count = 0;
	else
		call->count = call->scounts ? sent : got;
	return 0;
}

/* ---- buffers ---- */

/* In-place: TUTTI_IN_PLACE, or the other buffer is at the in-place address. */
static bool is_in_place(const struct tutti_comm *comm, const struct tt_call *call)
{
	const struct tt_call placed = {.coll = call->coll,
				       .in_place = true,
				       .count = call->count,
				       .datatype = call->datatype,
				       .root = call->root,
				       .rcounts = call->rcounts,
				       .rdispls = call->rdispls,
				       .scounts = call->scounts,
				       .sdispls = call->sdispls};
	struct tt_plan_args a = tt_call_args(comm, &placed);
	uintptr_t send = (uintptr_t)call->sendbuf, recv = (uintptr_t)call->recvbuf;

	if (tt_coll_rooted(call->coll) && comm->rank != call->root)
		return false;
	switch (call->coll) {
	case TT_COLL_BCAST:
	case TT_COLL_BARRIER:
		return false;
	case TT_COLL_SCATTER:
	case TT_COLL_SCATTERV:
		return call->recvbuf == TUTTI_IN_PLACE ||
		       recv == send + tt_send_block(&a, comm->rank).off;
	case TT_COLL_ALLTOALLV:
		return call->sendbuf == TUTTI_IN_PLACE;
	default:
		return call->sendbuf == TUTTI_IN_PLACE || send == recv + tt_input(&a).off;
	}
}

static int check_buffer(const struct tt_call *call, const char *which, const void *buf,
			size_t bytes)
{
	const char *name = tt_coll_name(call->coll);

	if (!bytes || (buf && buf != TUTTI_IN_PLACE))
		return 0;
	if (!buf)
		return tt_fail(-EINVAL, "%s: %s is NULL", name, which);
	if (!tt_coll_rooted(call->coll) || call->coll == TT_COLL_BCAST)
		return tt_fail(-EINVAL, "%s: %s is TUTTI_IN_PLACE", name, which);
	return tt_fail(-EINVAL, "%s: %s is TUTTI_IN_PLACE, which only the root may pass, as %s",
		       name, which,
		       one_of(call->coll, TT_COLL_SCATTER, TT_COLL_SCATTERV) ? "recvbuf"
									     : "sendbuf");
}

static bool meet(uintptr_t a, size_t alen, uintptr_t b, size_t blen)
{
	return alen && blen && a < b + blen && b < a + alen;
}

/* Block i of one side; a side with a single block has only block 0. */
static struct tt_span side_block(const struct tt_plan_args *a, bool sends, int i)
{
	if (sends ? !a->scounts : !a->rcounts || a->coll == TT_COLL_REDUCE_SCATTER)
		return (struct tt_span){0, sends ? tt_send_bytes(a) : tt_recv_bytes(a)};
	return sends ? tt_send_block(a, i) : tt_recv_block(a, i);
}

/* Buffers with gaps between their blocks may interleave. */
static bool blocks_meet(const struct tt_plan_args *a, uintptr_t send, uintptr_t recv)
{
	int i, k;

	for (i = 0; i < (a->scounts ? a->nranks : 1); i++)
		for (k = 0; k < (a->rcounts ? a->nranks : 1); k++) {
			struct tt_span s = side_block(a, true, i), r = side_block(a, false, k);

			if (meet(send + s.off, s.len, recv + r.off, r.len))
				return true;
		}
	return false;
}

static int check_buffers(const struct tutti_comm *comm, struct tt_call *call)
{
	bool scatter = one_of(call->coll, TT_COLL_SCATTER, TT_COLL_SCATTERV);
	struct tt_plan_args a = tt_call_args(comm, call);
	size_t sbytes = tt_send_bytes(&a), rbytes = tt_recv_bytes(&a);
	uintptr_t send, recv;
	int err;

	if (!sbytes || (call->in_place && !scatter)) {
		call->sendbuf = NULL;
		sbytes = 0;
	}
	if (!rbytes || (call->in_place && scatter)) {
		call->recvbuf = NULL;
		rbytes = 0;
	}
	err = check_buffer(call, call->coll == TT_COLL_BCAST ? "buf" : "recvbuf", call->recvbuf,
			   rbytes);
	if (!err)
		err = check_buffer(call, "sendbuf", call->sendbuf, sbytes);
	if (err)
		return err;
	send = (uintptr_t)call->sendbuf;
	recv = (uintptr_t)call->recvbuf;
	if (meet(send, sbytes, recv, rbytes) && blocks_meet(&a, send, recv))
		return tt_fail(-EINVAL,
			       "%s: sendbuf and recvbuf overlap; to replace the input by the "
			       "result, pass TUTTI_IN_PLACE",
			       tt_coll_name(call->coll));
	return 0;
}

/* Sums of the bytes of such counts do not overflow. */
#define PLAIN_COUNT (((size_t)1 << 40) / TT_NODE_RANKS / sizeof(uint64_t))

/* The buffers of a collective without counts per rank: vectors, or n of them. */
static const uint8_t buffers_of[TT_NUM_COLLS] = {
	[TT_COLL_ALLREDUCE] = SEND | RECV | REDUCES,
	[TT_COLL_BCAST] = RECV,
	[TT_COLL_REDUCE] = SEND | RECV | ROOT_RECVS | REDUCES,
	[TT_COLL_REDUCE_SCATTER_BLOCK] = SEND | SEND_N | RECV | REDUCES,
	[TT_COLL_ALLGATHER] = SEND | RECV | RECV_N,
	[TT_COLL_GATHER] = SEND | RECV | RECV_N | ROOT_RECVS,
	[TT_COLL_SCATTER] = SEND | SEND_N | RECV | ROOT_SENDS,
	[TT_COLL_ALLTOALL] = SEND | SEND_N | RECV | RECV_N,
	[TT_COLL_SCAN] = SEND | RECV | REDUCES,
	[TT_COLL_EXSCAN] = SEND | RECV | REDUCES,
};

static inline bool is_vector(const void *buf)
{
	return buf && buf != TUTTI_IN_PLACE;
}

/* The buffers are there, and apart. Drops those that this rank does not use. */
static inline bool has_buffers(const struct tutti_comm *comm, unsigned b, struct tt_call *call,
			       size_t bytes)
{
	uintptr_t send = (uintptr_t)call->sendbuf, recv = (uintptr_t)call->recvbuf;
	size_t n = (size_t)comm->size;

	if (b & ROOT_SENDS && comm->rank != call->root) {
		call->sendbuf = NULL;
		b &= ~SEND;
	}
	if (b & ROOT_RECVS && comm->rank != call->root) {
		call->recvbuf = NULL;
		b &= ~RECV;
	}
	if ((b & SEND && !is_vector(call->sendbuf)) || (b & RECV && !is_vector(call->recvbuf)))
		return false;
	return !(b & SEND) || !(b & RECV) ||
	       !meet(send, b & SEND_N ? n * bytes : bytes, recv, b & RECV_N ? n * bytes : bytes);
}

/* Fast path for a valid contiguous call; every other call gets the full checks. */
static inline bool is_plain(const struct tutti_comm *comm, struct tt_call *call)
{
	size_t bytes = call->count * tutti_datatype_size(call->datatype);
	unsigned b = buffers_of[call->coll];

	if (!comm || comm->magic != TT_COMM_MAGIC)
		return false;
	if (call->coll == TT_COLL_BARRIER)
		return true;
	if (!b || !bytes || call->count > PLAIN_COUNT || comm->size > TT_NODE_RANKS ||
	    (unsigned)call->root >= (unsigned)comm->size)
		return false;
	if (b & REDUCES && !tt_reduce_valid(call->datatype, call->op))
		return false;
	if (b == (SEND | RECV | REDUCES)) { /* vector to vector: may be in place */
		if (call->op == TUTTI_AVG && call->coll != TT_COLL_ALLREDUCE)
			return false;
		call->in_place = call->sendbuf == TUTTI_IN_PLACE || call->sendbuf == call->recvbuf;
		if (call->in_place) {
			call->sendbuf = NULL;
			return is_vector(call->recvbuf);
		}
	}
	return has_buffers(comm, b, call, bytes);
}

/* Whether counts are small and their blocks follow one another; their sum. */
static inline bool adds_up(const size_t *counts, const size_t *displs, int nranks, size_t *sum)
{
	int i;

	*sum = 0;
	for (i = 0; counts && i < nranks; i++) {
		if (counts[i] > PLAIN_COUNT || (displs && displs[i] != *sum))
			return false;
		*sum += counts[i];
	}
	return counts;
}

/*
 * Whether a call with counts passes all checks, if its blocks follow one another, this rank's own
 * is not empty, and no two buffers overlap; else the full checks decide.
 */
static inline bool has_plain_counts(const struct tutti_comm *comm, struct tt_call *call)
{
	uintptr_t send = (uintptr_t)call->sendbuf, recv = (uintptr_t)call->recvbuf;
	size_t elem = tutti_datatype_size(call->datatype), sent, got, to_self, own;
	bool reduces = call->coll == TT_COLL_REDUCE_SCATTER;
	unsigned used = arrays_of[call->coll];

	if (!used || !comm || comm->magic != TT_COMM_MAGIC || comm->size > TT_NODE_RANKS || !elem ||
	    call->count > PLAIN_COUNT || (unsigned)call->root >= (unsigned)comm->size ||
	    (reduces && !tt_reduce_valid(call->datatype, call->op)))
		return false;
	sent = to_self = got = own = call->count;
	if (used & ROOT && comm->rank != call->root)
		*(used & RECV ? &got : &sent) = 0;
	used = used_arrays(comm, call);
	if ((used & RECV && !adds_up(call->rcounts, call->rdispls, comm->size, &got)) ||
	    (used & SEND && !adds_up(call->scounts, call->sdispls, comm->size, &sent)))
		return false;
	own = used & RECV ? call->rcounts[comm->rank] : own;
	to_self = used & SEND ? call->scounts[comm->rank] : to_self;
	if (reduces) {
		sent = got;
		to_self = got = own;
	}
	if (!own || own != to_self || (sent && !is_vector(call->sendbuf)) ||
	    (got && !is_vector(call->recvbuf)) || meet(send, sent * elem, recv, got * elem))
		return false;
	if (!sent)
		call->sendbuf = NULL;
	if (!got)
		call->recvbuf = NULL;
	if (one_of(call->coll, TT_COLL_ALLGATHERV, TT_COLL_ALLTOALLV))
		call->count = 0;
	return true;
}

int tt_check_call(const struct tutti_comm *comm, struct tt_call *call)
{
	const char *name;
	int err;

	if (is_plain(comm, call) || has_plain_counts(comm, call))
		return 0;
	name = tt_coll_name(call->coll);
	err = tt_check_comm(comm);
	if (err)
		return err;
	if (!tutti_datatype_size(call->datatype))
		return tt_fail(-EINVAL, "%s: %d is not a datatype", name, (int)call->datatype);
	if (tt_coll_rooted(call->coll) && (call->root < 0 || call->root >= comm->size))
		return tt_fail(-EINVAL, "%s: root %d is not a rank of this communicator (0 to %d)",
			       name, call->root, comm->size - 1);
	err = check_op(call, name);
	if (!err)
		err = check_count(comm, call, name);
	if (!err)
		err = check_arrays(comm, call);
	if (err)
		return err;
	call->in_place = is_in_place(comm, call);
	err = check_own(comm, call);
	return err ? err : check_buffers(comm, call);
}
