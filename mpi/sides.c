/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The data that a rank sends or receives in a collective. tutti moves bytes. Elements that
 * have gaps or another order in memory are packed here: other ranks may use plain ones for the same
 * signature.
 */
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "mpi/preload.h"

#define PIECE (64 << 10) /* bytes of a MPI_Pack, whose lengths are int; or one element */

void tm_side_init(struct tm_side *s, const void *buf, int n, int count, MPI_Datatype type)
{
	const struct tm_type *known = tm_type_of(type);
	MPI_Count size = 0;
	MPI_Aint lb;
	char nothing = 0;
	int position = 0;

	memset(s, 0, offsetof(struct tm_side, few));
	s->buf = buf;
	s->type = type;
	s->n = n;
	s->count = count;
	if (known) {
		s->size = (size_t)known->bytes;
		s->extent = known->bytes;
		s->plain = true;
		return;
	}
	/* refused if the type is not committed, which has a size, too */
	s->err = PMPI_Pack(&nothing, 0, type, &nothing, 1, &position, tm_job.own);
	if (!s->err)
		s->err = PMPI_Type_size_x(type, &size);
	if (!s->err)
		s->err = PMPI_Type_get_extent(type, &lb, &s->extent);
	s->size = size < 0 ? 0 : (size_t)size;
}

bool tm_side_refused(const struct tm_side *s)
{
	int i;

	for (i = 0; s->counts && i < s->n; i++)
		if (s->counts[i] < 0)
			return true;
	return s->err || s->count < 0;
}

size_t tm_side_block(const struct tm_side *s)
{
	return s->count < 0 ? 0 : (size_t)s->count * s->size;
}

static int count_of(const struct tm_side *s, int i)
{
	return s->counts ? s->counts[i] : s->count;
}

/* Where a block begins in the program's buffer. */
static char *block_at(const struct tm_side *s, int i)
{
	MPI_Aint at = s->displs ? s->displs[i] : (MPI_Aint)i * s->count;

	return (char *)s->buf + at * s->extent;
}

static size_t total(const struct tm_side *s)
{
	size_t sum = 0;
	int i;

	for (i = 0; i < s->n; i++)
		sum += (size_t)count_of(s, i) * s->size;
	return sum;
}

static int convert_at(void *block, int count, MPI_Datatype type, bool pack, char *packed, int len,
		      MPI_Comm comm)
{
	int position = 0;

	return pack ? PMPI_Pack(block, count, type, packed, len, &position, comm)
		    : PMPI_Unpack(packed, len, &position, block, count, type, comm);
}

/*
 * Elements at MPI_BOTTOM, which MPI_Pack of MPICH refuses: the same elements as seen from another
 * address. No type has data at MPI_BOTTOM itself.
 */
static int convert_bottom(const struct tm_side *s, int count, bool pack, char *packed, int len,
			  MPI_Comm comm)
{
	static char base;
	MPI_Aint first = 0, extent, at;
	MPI_Datatype moved;
	int err = PMPI_Type_get_true_extent(s->type, &first, &extent);

	if (err || !first)
		return err ? err : MPI_ERR_BUFFER;
	PMPI_Get_address(&base, &at);
	at = -at;
	err = PMPI_Type_create_hindexed_block(1, 1, &at, s->type, &moved);
	if (err)
		return err;
	err = PMPI_Type_commit(&moved);
	if (!err)
		err = convert_at(&base, count, moved, pack, packed, len, comm);
	PMPI_Type_free(&moved);
	return err;
}

static int convert_piece(const struct tm_side *s, bool pack, char *block, int count, char *packed,
			 MPI_Comm comm)
{
	size_t len = (size_t)count * s->size;

	if (len > INT_MAX)
		return MPI_ERR_TYPE;
	return block ? convert_at(block, count, s->type, pack, packed, (int)len, comm)
		     : convert_bottom(s, count, pack, packed, (int)len, comm);
}

/* Packs into, or unpacks from, the blocks of the program's buffer. */
static int convert(struct tm_side *s, bool pack, MPI_Comm comm)
{
	int most = s->size < PIECE ? PIECE / (int)(s->size + !s->size) : 1, i, k, n;
	char *packed = s->packed;
	int err = MPI_SUCCESS;

	for (i = 0; i < s->n && s->size; i++)
		for (k = 0; k < count_of(s, i) && !err; k += n) {
			n = count_of(s, i) - k < most ? count_of(s, i) - k : most;
			err = convert_piece(s, pack, block_at(s, i) + k * s->extent, n, packed,
					    comm);
			packed += (size_t)n * s->size;
		}
	return err;
}

/* The arrays of a v form, in bytes. */
static int list_bytes(struct tm_side *s)
{
	int i;

	s->bytes = s->n <= 8 ? s->few : malloc(2 * (size_t)s->n * sizeof(*s->bytes));
	if (!s->bytes)
		return MPI_ERR_NO_MEM;
	for (i = 0; i < s->n; i++)
		s->bytes[i] = (size_t)s->counts[i] * s->size;
	if (!s->plain || !s->displs)
		return MPI_SUCCESS;
	s->offsets = s->bytes + s->n;
	for (i = 0; i < s->n; i++)
		s->offsets[i] = (size_t)((MPI_Aint)s->displs[i] * s->extent);
	return MPI_SUCCESS;
}

int tm_side_begin(struct tm_side *s, bool sent, MPI_Comm comm)
{
	int err = s->counts ? list_bytes(s) : MPI_SUCCESS;

	s->data = (void *)s->buf;
	if (err || (s->plain && s->buf))
		return err;
	if (s->plain && total(s))
		return MPI_ERR_BUFFER;
	s->packed = malloc(total(s) + 1);
	if (!s->packed)
		return MPI_ERR_NO_MEM;
	s->data = s->packed;
	return sent && !s->plain ? convert(s, true, comm) : MPI_SUCCESS;
}

int tm_side_end(struct tm_side *s, bool received, MPI_Comm comm)
{
	int err = received && s->packed && !s->plain ? convert(s, false, comm) : MPI_SUCCESS;

	free(s->packed);
	if (s->bytes != s->few)
		free(s->bytes);
	s->packed = NULL;
	s->bytes = NULL;
	return err;
}

/* Blocks of one length are the call's. */
static int check(const struct tm_side *s, size_t block)
{
	if (s->err)
		return s->err;
	if (tm_side_refused(s) || (!s->counts && tm_side_block(s) != block))
		return MPI_ERR_COUNT;
	return MPI_SUCCESS;
}

/* In place, what is sent is in the buffer for the result. */
static int begin_both(struct tm_comm *c, const struct tutti_call *call, struct tm_side *send,
		      struct tm_side *recv)
{
	int err = send ? check(send, call->count) : MPI_SUCCESS;

	if (!err && recv)
		err = check(recv, call->count);
	if (!err && send)
		err = tm_side_begin(send, true, c->comm);
	if (!err && recv)
		err = tm_side_begin(recv, !send, c->comm);
	return err;
}

int tm_sides_run(struct tm_comm *c, enum tm_coll coll, struct tutti_call *call,
		 struct tm_side *send, struct tm_side *recv)
{
	int err = begin_both(c, call, send, recv), end = MPI_SUCCESS;

	if (err) {
		err = tm_fail(c, err, "its datatypes or counts are wrong, or it cannot pack");
	} else {
		if (send) {
			call->sendbuf = send->data;
			call->sendcounts = send->bytes;
			call->senddispls = send->offsets;
		}
		if (recv) {
			call->recvbuf = recv->data;
			call->recvcounts = recv->bytes;
			call->recvdispls = recv->offsets;
		}
		call->datatype = TUTTI_UINT8;
		err = tm_run(c, coll, call);
	}
	if (recv)
		end = tm_side_end(recv, !err, c->comm);
	if (send)
		tm_side_end(send, false, c->comm);
	return err ? err : end;
}
