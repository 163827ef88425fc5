/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Opaque elements, moved by every kind of call and combined by operators of the caller's, and
 * tutti_reduce_local.
 */
#include "tests/mp/job.h"

#define COUNT ((size_t)301)
#define LARGE_BYTES ((size_t)100003)

static const size_t sizes[] = {1, 3, 24, 40, 1000, 8192};

static unsigned char byte_of(int rank, size_t i, size_t k)
{
	return (unsigned char)(17 * rank + 3 * (int)i + (int)k + 1);
}

static void fill(unsigned char *p, int rank, size_t count, size_t size)
{
	size_t i, k;

	for (i = 0; i < count; i++)
		for (k = 0; k < size; k++)
			p[i * size + k] = byte_of(rank, i, k);
}

static bool is_of(const unsigned char *p, int rank, size_t count, size_t size)
{
	size_t i, k;

	for (i = 0; i < count; i++)
		for (k = 0; k < size; k++)
			if (p[i * size + k] != byte_of(rank, i, k))
				return false;
	return true;
}

static int move(struct mp_job *job, size_t size, size_t count)
{
	enum tutti_datatype type = TUTTI_OPAQUE(size);
	unsigned char *mine = malloc(count * size), *all = malloc((size_t)job->n * count * size);
	int next = (job->rank + 1) % job->n, last = (job->rank + job->n - 1) % job->n, r;

	TT_EXPECT(mine && all && tutti_datatype_size(type) == size);
	fill(mine, job->rank, count, size);
	MP_OK(tutti_allgather(mine, all, count, type, job->world));
	for (r = 0; r < job->n; r++)
		TT_EXPECT(is_of(all + (size_t)r * count * size, r, count, size));
	MP_OK(tutti_sendrecv(mine, count, type, next, 1, all, count, type, last, 1, job->world,
			     NULL));
	TT_EXPECT(is_of(all, last, count, size));
	MP_OK(tutti_bcast(mine, count, type, job->n - 1, job->world));
	TT_EXPECT(is_of(mine, job->n - 1, count, size));
	free(mine);
	free(all);
	return 0;
}

/* Adds every byte of an element to the byte at its place; arg: the size of an element. */
static void add_bytes(const void *a, void *b, size_t count, enum tutti_datatype datatype, void *arg)
{
	const unsigned char *x = a;
	unsigned char *y = b;
	size_t i, bytes = count * *(size_t *)arg;

	for (i = 0; i < bytes; i++)
		y[i] = (unsigned char)(x[i] + y[i]);
}

static int combine(struct mp_job *job, size_t size, size_t count, int commutative)
{
	enum tutti_datatype type = TUTTI_OPAQUE(size);
	unsigned char *mine = malloc(count * size), *sum = malloc(count * size);
	unsigned char want;
	enum tutti_op op;
	size_t i, k;
	int r;

	TT_EXPECT(mine && sum);
	MP_OK(tutti_op_create(job->ctx, add_bytes, &size, commutative, &op));
	fill(mine, job->rank, count, size);
	MP_OK(tutti_allreduce(mine, sum, count, type, op, job->world));
	for (i = 0; i < count; i++)
		for (k = 0; k < size; k++) {
			for (want = 0, r = 0; r < job->n; r++)
				want = (unsigned char)(want + byte_of(r, i, k));
			TT_EXPECT(sum[i * size + k] == want);
		}
	memcpy(sum, mine, count * size);
	MP_OK(tutti_reduce_local(job->ctx, mine, sum, count, type, op));
	for (i = 0; i < count * size; i++)
		TT_EXPECT(sum[i] == (unsigned char)(2 * mine[i]));
	MP_OK(tutti_op_free(job->ctx, op));
	free(mine);
	free(sum);
	return 0;
}

static int all_sizes(struct mp_job *job)
{
	size_t i;

	for (i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		TT_EXPECT(!move(job, sizes[i], COUNT));
		TT_EXPECT(!move(job, sizes[i], 1));
		TT_EXPECT(!combine(job, sizes[i], COUNT, 1));
		TT_EXPECT(!combine(job, sizes[i], 2, 0));
	}
	return move(job, LARGE_BYTES, 7);
}

/* Types, sizes and roots whose numbers share bits: no call is taken for another. */
static int roots_body(struct mp_job *job)
{
	static const enum tutti_datatype type[] = {TUTTI_OPAQUE(5), TUTTI_UINT32,
						   TUTTI_OPAQUE(261)};
	static const int root[] = {0, 16, 1, 17};
	unsigned char buf[3 * 261];
	int round, i, k;

	for (round = 0; round < 3; round++)
		for (i = 0; i < 4; i++)
			for (k = 0; k < 3; k++) {
				memset(buf, 0, sizeof(buf));
				if (job->rank == root[i])
					fill(buf, root[i], 3, tutti_datatype_size(type[k]));
				MP_OK(tutti_bcast(buf, 3, type[k], root[i], job->world));
				TT_EXPECT(is_of(buf, root[i], 3, tutti_datatype_size(type[k])));
			}
	return 0;
}

/* The number of one datatype is the size of the other. */
static int differ_body(struct mp_job *job)
{
	enum tutti_datatype type = job->rank ? TUTTI_FLOAT64 : TUTTI_OPAQUE(TUTTI_FLOAT64);
	double in[4] = {0}, out[8];

	MP_ERR(tutti_allgather(in, out, 2, type, job->world), -TUTTI_EMISMATCH);
	MP_SAID("opaque of 12 bytes");
	TT_EXPECT(!mp_leave_failed(job));
	return 0;
}

static int bad(struct mp_job *job)
{
	size_t size = 8193;
	char a[4] = {0}, b[4] = {0};
	int64_t x = 7, y = 8;
	enum tutti_op op;

	TT_EXPECT(!tutti_datatype_size(TUTTI_OPAQUE(0)));
	TT_EXPECT(!tutti_datatype_size(TUTTI_OPAQUE(TUTTI_OPAQUE_MAX + 1)));
	TT_EXPECT(!tutti_datatype_size(TUTTI_OPAQUE(((size_t)1 << 28) + 8)));
	TT_EXPECT(!tutti_datatype_size(TUTTI_OPAQUE(((size_t)1 << 32) + 8)));
	TT_EXPECT(!tutti_datatype_size(TUTTI_OPAQUE(-8)));
	TT_EXPECT(tutti_datatype_size(TUTTI_OPAQUE(TUTTI_OPAQUE_MAX)) == TUTTI_OPAQUE_MAX);
	MP_ERR(tutti_bcast(a, 1, TUTTI_OPAQUE(0), 0, job->world), -EINVAL);
	MP_ERR(tutti_allreduce(a, b, 1, TUTTI_OPAQUE(4), TUTTI_SUM, job->world), -EINVAL);
	MP_SAID("sum is not defined for opaque");
	MP_ERR(tutti_allreduce(a, b, 1, TUTTI_INT32_INDEX, TUTTI_MIN, job->world), -EINVAL);
	MP_SAID("min is not defined for int32_index");
	MP_OK(tutti_op_create(job->ctx, add_bytes, &size, 1, &op));
	MP_ERR(tutti_allreduce(a, b, 1, TUTTI_OPAQUE(8193), op, job->world), -EINVAL);
	MP_SAID("at most 8192 bytes, not 8193");
	MP_OK(tutti_op_free(job->ctx, op));
	MP_ERR(tutti_reduce_local(job->ctx, &x, &y, 1, TUTTI_INT64, op), -EINVAL);
	MP_ERR(tutti_reduce_local(job->ctx, &x, &y, 1, TUTTI_INT64, TUTTI_AVG), -EINVAL);
	MP_ERR(tutti_reduce_local(job->ctx, &x, NULL, 1, TUTTI_INT64, TUTTI_SUM), -EINVAL);
	MP_ERR(tutti_reduce_local(job->ctx, &x, &y, 1, TUTTI_FLOAT64, TUTTI_BAND), -EINVAL);
	TT_EXPECT(x == 7 && y == 8);
	MP_OK(tutti_reduce_local(job->ctx, NULL, NULL, 0, TUTTI_INT64, TUTTI_SUM));
	MP_OK(tutti_reduce_local(job->ctx, &x, &y, 1, TUTTI_INT64, TUTTI_PROD));
	TT_EXPECT(x == 7 && y == 56);
	return 0;
}

static void test_self(void)
{
	TT_CHECK(!MP_RUN(.n = 1, .env = "TUTTI_IF=lo", .fn = all_sizes));
}

static void test_shm(void)
{
	TT_CHECK(!MP_RUN(.n = 3, .env = "TUTTI_IF=lo", .fn = all_sizes));
	TT_CHECK(!MP_RUN(.n = 3, .env = "TUTTI_IF=lo TUTTI_NODE=off", .fn = all_sizes));
}

static void test_ofi(void)
{
	if (mp_no_ofi())
		TT_SKIP("%s", mp_no_ofi());
	TT_CHECK(!MP_RUN(.n = 3, .env = "TUTTI_IF=lo TUTTI_TRANSPORT=ofi", .fn = all_sizes));
}

static void test_bad(void)
{
	TT_CHECK(!MP_RUN(.n = 2, .env = "TUTTI_IF=lo", .fn = bad));
}

static void test_roots(void)
{
	TT_CHECK(!MP_RUN(.n = 18, .env = "TUTTI_IF=lo", .fn = roots_body));
}

static void test_differ(void)
{
	TT_CHECK(!MP_RUN(.n = 2, .env = "TUTTI_IF=lo", .fn = differ_body));
	TT_CHECK(!MP_RUN(.n = 2, .env = "TUTTI_IF=lo TUTTI_NODE=off", .fn = differ_body));
}

static const struct tt_test tests[] = {
	{"self", test_self},   {"shm", test_shm},	{"ofi", test_ofi}, {"bad", test_bad},
	{"roots", test_roots}, {"differ", test_differ}, {NULL, NULL}};

int main(int argc, char **argv)
{
	return tt_test_main("opaque", tests, argc, argv);
}
