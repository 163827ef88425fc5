/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Every collective of MPI that moves data, in which each rank describes the same signature by a
 * datatype of its own: plain integers, a vector with gaps, or integers in another order.
 */
#include "tests/mp/programs/mpi_cases.h"

#define UNTOUCHED (-77)

enum layout { PLAIN, GAPS, SWAPPED, NLAYOUTS };

static MPI_Datatype types[NLAYOUTS]; /* two integers each, but PLAIN */

static void make_types(void)
{
	int lengths[2] = {1, 1}, displs[2] = {1, 0};
	MPI_Datatype vector;

	types[PLAIN] = MPI_INT;
	MPI_Type_vector(2, 1, 2, MPI_INT, &vector);
	MPI_Type_create_resized(vector, 0, 4 * (MPI_Aint)sizeof(int), &types[GAPS]);
	MPI_Type_free(&vector);
	MPI_Type_indexed(2, lengths, displs, MPI_INT, &types[SWAPPED]);
	MPI_Type_commit(&types[GAPS]);
	MPI_Type_commit(&types[SWAPPED]);
}

static void free_types(void)
{
	MPI_Type_free(&types[GAPS]);
	MPI_Type_free(&types[SWAPPED]);
}

/* Elements of a layout that are n pairs; displacements convert alike. */
static int elements(enum layout layout, int pairs)
{
	return layout == PLAIN ? 2 * pairs : pairs;
}

/* Where integer i of the signature is; pairs of memory per pair of the signature: 1, or 2. */
static int place(enum layout layout, int i)
{
	return layout == PLAIN ? i : layout == GAPS ? i / 2 * 4 + i % 2 * 2 : i / 2 * 2 + 1 - i % 2;
}

/* A buffer of blocks that are described by one layout. */
struct buffer {
	enum layout layout;
	int *ints;
	int pairs; /* room */
};

static struct buffer make(enum layout layout, int pairs)
{
	struct buffer b = {layout, malloc((size_t)(pairs + 1) * 4 * sizeof(int)), pairs};
	int i;

	EXPECT(b.ints);
	for (i = 0; i < (pairs + 1) * 4; i++)
		b.ints[i] = UNTOUCHED;
	return b;
}

/* Integer i of what rank `from` sends to rank `to`. */
static int datum(int from, int to, int i)
{
	return from * 1000003 + to * 10007 + i;
}

static void put(const struct buffer *b, int at_pair, int pairs, int from, int to)
{
	int i;

	for (i = 0; i < 2 * pairs; i++)
		b->ints[place(b->layout, 2 * at_pair + i)] = datum(from, to, i);
}

static void expect(const struct buffer *b, int at_pair, int pairs, int from, int to)
{
	int i;

	for (i = 0; i < 2 * pairs; i++)
		EXPECT(b->ints[place(b->layout, 2 * at_pair + i)] == datum(from, to, i));
}

/* Gaps, and memory behind the end, are as they were. */
static void expect_gaps(const struct buffer *b)
{
	int i, end = elements(b->layout, b->pairs) * (b->layout == GAPS	   ? 4
						      : b->layout == PLAIN ? 1
									   : 2);

	for (i = 1; b->layout == GAPS && i < end; i += 2)
		EXPECT(b->ints[i] == UNTOUCHED);
	EXPECT(b->ints[end] == UNTOUCHED);
}

struct run {
	MPI_Comm comm;
	int me, n, pairs, root, in_place;
	enum layout in, out;
};

#define S types[r->in]
#define R types[r->out]

static void done(struct buffer *send, struct buffer *recv)
{
	expect_gaps(recv);
	free(send->ints);
	free(recv->ints);
}

static void bcast(const struct run *r)
{
	struct buffer b = make(r->in, r->pairs);

	if (r->me == r->root)
		put(&b, 0, r->pairs, r->root, 0);
	EXPECT(!MPI_Bcast(b.ints, elements(r->in, r->pairs), S, r->root, r->comm));
	expect(&b, 0, r->pairs, r->root, 0);
	expect_gaps(&b);
	free(b.ints);
}

static void gather(const struct run *r)
{
	struct buffer send = make(r->in, r->pairs), recv = make(r->out, r->pairs * r->n);
	int in_place = r->in_place && r->me == r->root, i;

	put(&send, 0, r->pairs, r->me, 0);
	if (in_place)
		put(&recv, r->me * r->pairs, r->pairs, r->me, 0);
	EXPECT(!MPI_Gather(in_place ? MPI_IN_PLACE : send.ints, elements(r->in, r->pairs), S,
			   recv.ints, elements(r->out, r->pairs), R, r->root, r->comm));
	for (i = 0; i < r->n && r->me == r->root; i++)
		expect(&recv, i * r->pairs, r->pairs, i, 0);
	done(&send, &recv);
}

static void scatter(const struct run *r)
{
	struct buffer send = make(r->in, r->pairs * r->n), recv = make(r->out, r->pairs);
	int in_place = r->in_place && r->me == r->root, i;

	for (i = 0; i < r->n && r->me == r->root; i++)
		put(&send, i * r->pairs, r->pairs, r->me, i);
	EXPECT(!MPI_Scatter(send.ints, elements(r->in, r->pairs), S,
			    in_place ? MPI_IN_PLACE : recv.ints, elements(r->out, r->pairs), R,
			    r->root, r->comm));
	if (!in_place)
		expect(&recv, 0, r->pairs, r->root, r->me);
	done(&send, &recv);
}

static void allgather(const struct run *r)
{
	struct buffer send = make(r->in, r->pairs), recv = make(r->out, r->pairs * r->n);
	int i;

	put(r->in_place ? &recv : &send, r->in_place ? r->me * r->pairs : 0, r->pairs, r->me, 0);
	EXPECT(!MPI_Allgather(r->in_place ? MPI_IN_PLACE : send.ints, elements(r->in, r->pairs), S,
			      recv.ints, elements(r->out, r->pairs), R, r->comm));
	for (i = 0; i < r->n; i++)
		expect(&recv, i * r->pairs, r->pairs, i, 0);
	done(&send, &recv);
}

static void alltoall(const struct run *r)
{
	struct buffer send = make(r->in, r->pairs * r->n), recv = make(r->out, r->pairs * r->n);
	int i;

	for (i = 0; i < r->n; i++)
		put(r->in_place ? &recv : &send, i * r->pairs, r->pairs, r->me, i);
	EXPECT(!MPI_Alltoall(r->in_place ? MPI_IN_PLACE : send.ints, elements(r->in, r->pairs), S,
			     recv.ints, elements(r->out, r->pairs), R, r->comm));
	for (i = 0; i < r->n; i++)
		expect(&recv, i * r->pairs, r->pairs, i, r->me);
	done(&send, &recv);
}

static void each(MPI_Comm comm, void (*const *calls)(const struct run *))
{
	static const int sizes[] = {1, 9, 700, 30000};
	struct run r = {.comm = comm};
	int variant, i;

	make_types();
	MPI_Comm_rank(comm, &r.me);
	MPI_Comm_size(comm, &r.n);
	for (variant = 0; variant < 4 * NLAYOUTS; variant++)
		for (i = 0; i < (variant % 4 ? 3 : 4); i++) {
			r.pairs = sizes[i];
			r.root = (variant + i) % r.n;
			r.in = (enum layout)((variant + r.me) % NLAYOUTS);
			r.out = (enum layout)((variant / 2 + 2 * r.me) % NLAYOUTS);
			r.in_place = variant & 1;
			for (int k = 0; calls[k]; k++)
				calls[k](&r);
		}
	EXPECT(!MPI_Barrier(comm));
	free_types();
}

void test_moves(MPI_Comm comm)
{
	static void (*const calls[])(const struct run *) = {bcast,     gather,	 scatter,
							    allgather, alltoall, NULL};

	each(comm, calls);
}

/* ---- v forms: blocks of several lengths, with gaps between them, in reverse order ---- */

/* Pairs of the block of rank i; some are empty. */
static int length(const struct run *r, int i)
{
	return (i + r->root) % 3 * r->pairs / 2;
}

/* Where block i begins, in pairs. */
static int start(const struct run *r, int i)
{
	return (r->n - 1 - i) * (r->pairs + 1);
}

static int room(const struct run *r)
{
	return r->n * (r->pairs + 1);
}

static void list(const struct run *r, enum layout layout, int *counts, int *displs)
{
	int i;

	for (i = 0; i < r->n; i++) {
		counts[i] = elements(layout, length(r, i));
		displs[i] = elements(layout, start(r, i));
	}
}

static void gatherv(const struct run *r)
{
	struct buffer send = make(r->in, r->pairs), recv = make(r->out, room(r));
	int in_place = r->in_place && r->me == r->root, i, counts[64], displs[64];

	list(r, r->out, counts, displs);
	put(&send, 0, length(r, r->me), r->me, 0);
	if (in_place)
		put(&recv, start(r, r->me), length(r, r->me), r->me, 0);
	EXPECT(!MPI_Gatherv(in_place ? MPI_IN_PLACE : send.ints, elements(r->in, length(r, r->me)),
			    S, recv.ints, counts, displs, R, r->root, r->comm));
	for (i = 0; i < r->n && r->me == r->root; i++)
		expect(&recv, start(r, i), length(r, i), i, 0);
	done(&send, &recv);
}

static void scatterv(const struct run *r)
{
	struct buffer send = make(r->in, room(r)), recv = make(r->out, r->pairs);
	int in_place = r->in_place && r->me == r->root, i, counts[64], displs[64];

	list(r, r->in, counts, displs);
	for (i = 0; i < r->n && r->me == r->root; i++)
		put(&send, start(r, i), length(r, i), r->me, i);
	EXPECT(!MPI_Scatterv(send.ints, counts, displs, S, in_place ? MPI_IN_PLACE : recv.ints,
			     elements(r->out, length(r, r->me)), R, r->root, r->comm));
	if (!in_place)
		expect(&recv, 0, length(r, r->me), r->root, r->me);
	done(&send, &recv);
}

static void allgatherv(const struct run *r)
{
	struct buffer send = make(r->in, r->pairs), recv = make(r->out, room(r));
	int i, counts[64], displs[64];
	void *from = r->in_place ? MPI_IN_PLACE : send.ints;

	list(r, r->out, counts, displs);
	if (!r->in_place && !length(r, r->me) && r->out == PLAIN)
		from = recv.ints + displs[r->me]; /* nothing, at the address for "in place" */
	put(r->in_place ? &recv : &send, r->in_place ? start(r, r->me) : 0, length(r, r->me), r->me,
	    0);
	EXPECT(!MPI_Allgatherv(from, elements(r->in, length(r, r->me)), S, recv.ints, counts,
			       displs, R, r->comm));
	for (i = 0; i < r->n; i++)
		expect(&recv, start(r, i), length(r, i), i, 0);
	done(&send, &recv);
}

/* In place both directions have one length, so it depends on both ranks alike. */
static int between(const struct run *r, int i)
{
	return (i + r->me) % 3 * r->pairs / 2;
}

static void alltoallv(const struct run *r)
{
	struct buffer send = make(r->in, room(r)), recv = make(r->out, room(r));
	int i, scounts[64], sdispls[64], rcounts[64], rdispls[64];

	list(r, r->in, scounts, sdispls);
	list(r, r->out, rcounts, rdispls);
	for (i = 0; i < r->n; i++) {
		scounts[i] = elements(r->in, between(r, i));
		rcounts[i] = elements(r->out, between(r, i));
		put(r->in_place ? &recv : &send, start(r, i), between(r, i), r->me, i);
	}
	EXPECT(!MPI_Alltoallv(r->in_place ? MPI_IN_PLACE : send.ints, scounts, sdispls, S,
			      recv.ints, rcounts, rdispls, R, r->comm));
	for (i = 0; i < r->n; i++)
		expect(&recv, start(r, i), between(r, i), i, r->me);
	done(&send, &recv);
}

void test_v_forms(MPI_Comm comm)
{
	static void (*const calls[])(const struct run *) = {gatherv, scatterv, allgatherv,
							    alltoallv, NULL};

	each(comm, calls);
}
