/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Every reduction of MPI with every datatype and operator against an oracle. Values are small
 * integers, so that all results are exact.
 */
#include <stdint.h>

#include "tests/mp/programs/mpi_cases.h"

enum kind {
	SIGNED,
	UNSIGNED,
	FLOATING,
	COMPLEX,
	BOOLEAN,
	BYTES,
	PAIR_INT,
	PAIR_FLOAT,
	PAIR_DOUBLE
};

static const struct type {
	MPI_Datatype handle;
	enum kind kind;
	int bytes;
} types[] = {
	{MPI_SIGNED_CHAR, SIGNED, 1},
	{MPI_UNSIGNED_CHAR, UNSIGNED, 1},
	{MPI_SHORT, SIGNED, 2},
	{MPI_UNSIGNED_SHORT, UNSIGNED, 2},
	{MPI_INT, SIGNED, 4},
	{MPI_UNSIGNED, UNSIGNED, 4},
	{MPI_LONG, SIGNED, 8},
	{MPI_UNSIGNED_LONG, UNSIGNED, 8},
	{MPI_LONG_LONG, SIGNED, 8},
	{MPI_INT8_T, SIGNED, 1},
	{MPI_UINT8_T, UNSIGNED, 1},
	{MPI_INT16_T, SIGNED, 2},
	{MPI_UINT16_T, UNSIGNED, 2},
	{MPI_INT32_T, SIGNED, 4},
	{MPI_UINT32_T, UNSIGNED, 4},
	{MPI_INT64_T, SIGNED, 8},
	{MPI_UINT64_T, UNSIGNED, 8},
	{MPI_FLOAT, FLOATING, 4},
	{MPI_DOUBLE, FLOATING, 8},
	{MPI_C_FLOAT_COMPLEX, COMPLEX, 8},
	{MPI_C_DOUBLE_COMPLEX, COMPLEX, 16},
	{MPI_C_BOOL, BOOLEAN, 1},
	{MPI_BYTE, BYTES, 1},
	{MPI_2INT, PAIR_INT, 8},
	{MPI_FLOAT_INT, PAIR_FLOAT, 8},
	{MPI_DOUBLE_INT, PAIR_DOUBLE, 16}, /* passed on */
};
#define NTYPES (sizeof(types) / sizeof(types[0]))

enum code { SUM, PROD, MIN, MAX, BAND, BOR, BXOR, LAND, LOR, LXOR, MINLOC, MAXLOC, NCODES };

static MPI_Op op_of(enum code code)
{
	const MPI_Op ops[NCODES] = {MPI_SUM,  MPI_PROD, MPI_MIN, MPI_MAX,  MPI_BAND,   MPI_BOR,
				    MPI_BXOR, MPI_LAND, MPI_LOR, MPI_LXOR, MPI_MINLOC, MPI_MAXLOC};

	return ops[code];
}

static int is_defined(enum kind kind, enum code code)
{
	switch (kind) {
	case SIGNED:
	case UNSIGNED:
		return code < MINLOC;
	case FLOATING:
		return code <= MAX;
	case COMPLEX:
		return code <= PROD;
	case BOOLEAN:
		return code >= LAND && code <= LXOR;
	case BYTES:
		return code >= BAND && code <= BXOR;
	default:
		return code >= MINLOC;
	}
}

/* A value, or one of a complex number and its imaginary part, or of a pair and its index. */
struct value {
	int64_t a, b;
};

static struct value value_of(enum kind kind, int r, int i)
{
	struct value v = {(r * 3 + i * 5) % 7 - 3, (r + i) % 3 - 1};

	if (kind == UNSIGNED || kind == BYTES)
		v.a += 3;
	if (kind == BOOLEAN)
		v.a = (r + i) % 3 != 0;
	if (kind >= PAIR_INT)
		v.b = r * 10 + i % 10;
	return v;
}

static void store(const struct type *t, char *buf, int i, struct value v)
{
	char *at = buf + (size_t)i * (size_t)t->bytes;
	int index = (int)v.b;

	memset(at, 0, (size_t)t->bytes);
	if (t->kind == FLOATING || t->kind == COMPLEX) {
		float f[2] = {(float)v.a, (float)v.b};
		double d[2] = {(double)v.a, (double)v.b};
		int single = t->bytes == (t->kind == COMPLEX ? 8 : 4);

		memcpy(at, single ? (void *)f : (void *)d, (size_t)t->bytes);
	} else if (t->kind == PAIR_FLOAT || t->kind == PAIR_DOUBLE) {
		float f = (float)v.a;
		double d = (double)v.a;
		int len = t->kind == PAIR_FLOAT ? 4 : 8;

		memcpy(at, len == 4 ? (void *)&f : (void *)&d, (size_t)len);
		memcpy(at + len, &index, 4);
	} else if (t->kind == PAIR_INT) {
		int32_t value = (int32_t)v.a;

		memcpy(at, &value, 4);
		memcpy(at + 4, &index, 4);
	} else {
		memcpy(at, &v.a, (size_t)t->bytes); /* the low bytes come first */
	}
}

static struct value combine(enum kind kind, enum code code, struct value x, struct value y)
{
	int first = x.a == y.a ? x.b <= y.b : code == MINLOC ? x.a < y.a : x.a > y.a;

	switch (code) {
	case SUM:
		return (struct value){x.a + y.a, x.b + y.b};
	case PROD:
		if (kind == COMPLEX)
			return (struct value){x.a * y.a - x.b * y.b, x.a * y.b + x.b * y.a};
		return (struct value){x.a * y.a, 0};
	case MIN:
		return x.a < y.a ? x : y;
	case MAX:
		return x.a > y.a ? x : y;
	case BAND:
		return (struct value){x.a & y.a, 0};
	case BOR:
		return (struct value){x.a | y.a, 0};
	case BXOR:
		return (struct value){x.a ^ y.a, 0};
	case LAND:
		return (struct value){x.a && y.a, 0};
	case LOR:
		return (struct value){x.a || y.a, 0};
	case LXOR:
		return (struct value){!x.a != !y.a, 0};
	default:
		return first ? x : y;
	}
}

/* One case: where all ranks are in comm, and what they combine. */
struct run {
	MPI_Comm comm;
	int me, n;
	const struct type *type;
	enum code code;
	int count, in_place;
	char *in, *out, *expected;
};

/* Elements from .. from + count - 1 of ranks 0 to last, combined at the begin of expected. */
static void expect(const struct run *r, int last, int from, int count)
{
	int i, k;

	for (i = 0; i < count; i++) {
		struct value v = value_of(r->type->kind, 0, from + i);

		for (k = 1; k <= last; k++)
			v = combine(r->type->kind, r->code, v,
				    value_of(r->type->kind, k, from + i));
		store(r->type, r->expected, i, v);
	}
}

/* Fills what is sent with n elements; returns what the call gets as sendbuf. */
static void *fill(const struct run *r, int n, int in_place)
{
	char *to = in_place ? r->out : r->in;
	int i;

	memset(r->out, 0x55, (size_t)n * 16);
	for (i = 0; i < n; i++)
		store(r->type, to, i, value_of(r->type->kind, r->me, i));
	return in_place ? MPI_IN_PLACE : r->in;
}

/* Zeros of both signs are equal. */
static int same_floats(const struct type *t, const char *x, const char *y)
{
	int single = t->bytes == (t->kind == COMPLEX ? 8 : 4), i;
	const float *f = (const float *)x, *g = (const float *)y;
	const double *d = (const double *)x, *e = (const double *)y;

	for (i = 0; i <= (t->kind == COMPLEX); i++)
		if (single ? f[i] != g[i] : d[i] != e[i])
			return 0;
	return 1;
}

static int same(const struct type *t, const char *x, const char *y)
{
	if (t->kind == FLOATING || t->kind == COMPLEX)
		return same_floats(t, x, y);
	/* the padding of a pair is not part of the result */
	return !memcmp(x, y, t->kind == PAIR_DOUBLE ? 12 : (size_t)t->bytes);
}

static int is_expected(const struct run *r, int count)
{
	size_t bytes = (size_t)r->type->bytes;
	int i;

	for (i = 0; i < count; i++)
		if (!same(r->type, r->out + (size_t)i * bytes, r->expected + (size_t)i * bytes)) {
			fprintf(stderr,
				"datatype %d operator %d count %d in place %d: element %d\n",
				(int)(r->type - types), r->code, r->count, r->in_place, i);
			return 0;
		}
	return 1;
}

static void all_and_one(const struct run *r)
{
	MPI_Datatype type = r->type->handle;
	MPI_Op op = op_of(r->code);
	int root;
	void *from;

	from = fill(r, r->count, r->in_place);
	EXPECT(!MPI_Allreduce(from, r->out, r->count, type, op, r->comm));
	expect(r, r->n - 1, 0, r->count);
	EXPECT(is_expected(r, r->count));
	for (root = 0; root < r->n; root++) {
		from = fill(r, r->count, r->in_place && r->me == root);
		EXPECT(!MPI_Reduce(from, r->me == root ? r->out : NULL, r->count, type, op, root,
				   r->comm));
		EXPECT(r->me != root || is_expected(r, r->count));
	}
}

static void scattered(const struct run *r)
{
	int counts[64], i, before = 0, sum = 0;
	MPI_Datatype type = r->type->handle;
	MPI_Op op = op_of(r->code);
	void *from;

	from = fill(r, r->count * r->n, r->in_place);
	EXPECT(!MPI_Reduce_scatter_block(from, r->out, r->count, type, op, r->comm));
	expect(r, r->n - 1, r->me * r->count, r->count);
	EXPECT(is_expected(r, r->count));
	for (i = 0; i < r->n; i++) {
		counts[i] = (i + 1) % 3 * r->count / 2;
		before += i < r->me ? counts[i] : 0;
		sum += counts[i];
	}
	from = fill(r, sum, r->in_place);
	EXPECT(!MPI_Reduce_scatter(from, r->out, counts, type, op, r->comm));
	expect(r, r->n - 1, before, counts[r->me]);
	EXPECT(is_expected(r, counts[r->me]));
	/* only the ranks that get something are in place, and the others have no buffer */
	if (r->count != 6)
		return;
	for (i = 0; i < r->n; i++)
		counts[i] = i ? 0 : r->count;
	from = fill(r, r->count, r->in_place && !r->me);
	EXPECT(!MPI_Reduce_scatter(from, r->me ? NULL : r->out, counts, type, op, r->comm));
	expect(r, r->n - 1, 0, counts[r->me]);
	EXPECT(is_expected(r, counts[r->me]));
}

static void scanned(const struct run *r)
{
	MPI_Datatype type = r->type->handle;
	MPI_Op op = op_of(r->code);
	int in_place = r->in_place && r->me % 2; /* each rank as it likes */
	void *from;

	from = fill(r, r->count, in_place);
	EXPECT(!MPI_Scan(from, r->out, r->count, type, op, r->comm));
	expect(r, r->me, 0, r->count);
	EXPECT(is_expected(r, r->count));
	from = fill(r, r->count, in_place);
	/* rank 0 gets nothing, and needs no buffer if it is not in place */
	EXPECT(!MPI_Exscan(from, r->me || r->code ? r->out : NULL, r->count, type, op, r->comm));
	if (!r->me)
		return;
	expect(r, r->me - 1, 0, r->count);
	EXPECT(is_expected(r, r->count));
}

static void one(struct run *r)
{
	size_t bytes = (size_t)r->count * 16 * (size_t)(r->n + 1);

	r->in = malloc(bytes);
	r->out = malloc(bytes);
	r->expected = malloc(bytes);
	EXPECT(r->in && r->out && r->expected);
	for (r->in_place = 0; r->in_place < 2; r->in_place++) {
		all_and_one(r);
		scattered(r);
		scanned(r);
	}
	free(r->in);
	free(r->out);
	free(r->expected);
}

void test_reductions(MPI_Comm comm)
{
	struct run r = {.comm = comm};
	int code;
	size_t t;

	MPI_Comm_rank(comm, &r.me);
	MPI_Comm_size(comm, &r.n);
	for (t = 0; t < NTYPES; t++)
		for (code = 0; code < NCODES; code++) {
			if (!is_defined(types[t].kind, (enum code)code))
				continue;
			r.type = &types[t];
			r.code = (enum code)code;
			r.count = 6;
			one(&r);
			/* MPICH 4.0 fails for long vectors of datatypes with gaps */
			if ((code != SUM && code != MAXLOC) || types[t].kind == PAIR_DOUBLE)
				continue;
			r.count = 5000;
			one(&r);
		}
}
