/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Collectives in the memory of one host: no unnecessary copies, and memory that is mapped and
 * unmapped at peers. test_colls.c has their results, test_node_comms.c what else can go wrong.
 */
#include "config.h"

#include "lib/base/copy.h"
#include "lib/base/hash.h"
#include "tests/mp/job.h"

#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#define COUNT 300000 /* float32 */

static int stats_of(struct mp_job *job, struct tutti_stats *s)
{
	*s = (struct tutti_stats){.size = sizeof(*s)};
	MP_OK(tutti_stats_get(job->ctx, s));
	return 0;
}

/* Buffers of the pool are pulled and reduced, and nothing else. */
static int counted(struct mp_job *job)
{
	size_t n = (size_t)job->n, bytes = COUNT * 4;
	struct tutti_stats a, b;
	float *in, *out;
	size_t i;

	MP_OK(tutti_alloc(job->ctx, n * bytes, (void **)&in));
	MP_OK(tutti_alloc(job->ctx, n * bytes, (void **)&out));
	for (i = 0; i < n * COUNT; i++)
		in[i] = (float)(job->rank + 1);
	TT_EXPECT(!stats_of(job, &a));
	MP_OK(tutti_allreduce(in, out, COUNT, TUTTI_FLOAT32, TUTTI_SUM, job->world));
	TT_EXPECT(!stats_of(job, &b));
	TT_EXPECT(out[0] == (float)(n * (n + 1) / 2) && out[COUNT - 1] == out[0]);
	TT_EXPECT(b.copied_bytes == a.copied_bytes && b.put_bytes == a.put_bytes);
	TT_EXPECT(b.pulled_bytes - a.pulled_bytes == (n - 1) * (b.reduced_bytes - a.reduced_bytes));
	TT_EXPECT(b.reduced_bytes - a.reduced_bytes >= bytes / n - 64);
	TT_EXPECT(b.reduced_bytes - a.reduced_bytes <= bytes / n + 64);
	a = b;
	MP_OK(tutti_reduce(in, out, COUNT, TUTTI_FLOAT32, TUTTI_MAX, 0, job->world));
	MP_OK(tutti_bcast(out, COUNT, TUTTI_FLOAT32, 1, job->world));
	MP_OK(tutti_reduce_scatter_block(in, out, COUNT, TUTTI_FLOAT32, TUTTI_MIN, job->world));
	MP_OK(tutti_barrier(job->world));
	TT_EXPECT(!stats_of(job, &b));
	TT_EXPECT(b.copied_bytes == a.copied_bytes && b.put_bytes == a.put_bytes);
	MP_OK(tutti_allgather(TUTTI_IN_PLACE, out, COUNT, TUTTI_FLOAT32, job->world));
	TT_EXPECT(!stats_of(job, &b));
	TT_EXPECT(b.copied_bytes == a.copied_bytes);
	MP_OK(tutti_free(in));
	MP_OK(tutti_free(out));
	return 0;
}

/* The elements that rank r combines: vectors are cut at whole cache lines. */
static size_t part(size_t count, size_t n, size_t r)
{
	size_t lines = count / 16, begin = lines / n * r + (r < lines % n ? r : lines % n);

	return r == n - 1 ? count - begin * 16 : (lines / n + (r < lines % n)) * 16;
}

/*
 * Ordinary memory: all but the own part is copied to where peers combine it, and its result back;
 * a short vector by the slot, a longer one by a ring of the pool. When the pool has no room, peers
 * reach longer ones as they are.
 */
static int ordinary(struct mp_job *job)
{
	static const size_t counts[] = {5000, 10000, 200000, 400000};
	size_t n = (size_t)job->n, k, i, own;
	struct tutti_stats a, b;
	float *in, *out;
	void *rest;

	in = malloc(400000 * 4);
	out = malloc(400000 * 4);
	for (i = 0; i < 400000; i++)
		in[i] = (float)(job->rank + 1);
	for (k = 0; k < 8; k++) {
		memset(out, 0, counts[k % 4] * 4);
		TT_EXPECT(!stats_of(job, &a));
		MP_OK(tutti_allreduce(in, out, counts[k % 4], TUTTI_FLOAT32, TUTTI_SUM,
				      job->world));
		TT_EXPECT(!stats_of(job, &b));
		for (i = 0; i < counts[k % 4]; i++)
			TT_EXPECT(out[i] == (float)(n * (n + 1) / 2));
		own = part(counts[k % 4], n, (size_t)job->rank) * 4;
		TT_EXPECT(b.reduced_bytes - a.reduced_bytes == own);
		if (k < 5)
			TT_EXPECT(b.copied_bytes - a.copied_bytes ==
					  2 * (counts[k % 4] * 4 - own) &&
				  b.pulled_bytes - a.pulled_bytes == (n - 1) * own);
		else if (k > 5)
			TT_EXPECT(b.pulled_bytes == a.pulled_bytes);
		while (k == 3 && !tutti_alloc(job->ctx, 256 << 10, &rest))
			;
	}
	free(in);
	free(out);
	return 0;
}

#define PULLS                                                                                      \
	"TUTTI_ALGO=allreduce:node_pull;reduce:node_pull;bcast:node_pull;allgather:node_pull;"     \
	"reduce_scatter_block:node_pull;barrier:node"

/* An exscan reads the vectors of all ranks before this one, as a short call and as a request. */
static int exscans(struct mp_job *job)
{
	int64_t v[16] = {0}, w[16];
	struct tutti_request *req;
	struct tutti_stats a, b;
	int i;

	for (i = 0; i < 8; i++) {
		TT_EXPECT(!stats_of(job, &a));
		if (i % 2) {
			MP_OK(tutti_exscan(v, w, 16, TUTTI_INT64, TUTTI_SUM, job->world));
		} else {
			MP_OK(tutti_iexscan(v, w, 16, TUTTI_INT64, TUTTI_SUM, job->world, &req));
			MP_OK(tutti_wait(&req));
		}
		TT_EXPECT(!stats_of(job, &b));
		TT_EXPECT(b.pulled_bytes - a.pulled_bytes == (size_t)job->rank * sizeof(v));
	}
	return 0;
}

/* Bytes that this rank copies in a bcast of ordinary memory. */
static int bcast_copies(struct mp_job *job, unsigned char *buf, size_t size, int root,
			uint64_t *bytes)
{
	struct tutti_stats a, b;
	size_t k;

	for (k = 0; k < size; k++)
		buf[k] = job->rank == root ? k % 251 : 0;
	TT_EXPECT(!stats_of(job, &a));
	MP_OK(tutti_bcast(buf, size, TUTTI_UINT8, root, job->world));
	TT_EXPECT(!stats_of(job, &b));
	for (k = 0; k < size; k++)
		TT_EXPECT(buf[k] == k % 251);
	*bytes = b.copied_bytes - a.copied_bytes;
	return 0;
}

/*
 * A bcast of ordinary memory to one rank is copied into the slot if it is short; up to a slot, into
 * the slot or by its reader, as is faster: at first 8 inputs the one way, 8 the other; else
 * streamed or by each rank one half, in the same way.
 */
static int read_directly(struct mp_job *job)
{
	size_t sizes[] = {4 << 10, 8 << 10, 20 << 10, 32 << 10, 64 << 10, 512 << 10}, size, i;
	unsigned char *buf = malloc(512 << 10);
	uint64_t bytes, expected;
	int root, k;

	for (i = 0; i < 12; i++) {
		size = sizes[i % 6];
		root = (int)i / 6;
		for (k = 0; k < 16; k++) {
			TT_EXPECT(!bcast_copies(job, buf, size, root, &bytes));
			expected = (job->rank == root) == (k < 8 || size < 8 << 10) ? size : 0;
			if (size > 32 << 10 && (k >= 8 || !tt_hands_back()))
				expected = size / 2;
			TT_EXPECT(bytes == expected);
		}
	}
	free(buf);
	return 0;
}

/* Several ranks read a bcast where it is, or a long one in the pool. */
static int read_by_several(struct mp_job *job)
{
	unsigned char *buf = malloc(512 << 10);
	uint64_t bytes;

	TT_EXPECT(!bcast_copies(job, buf, 128 << 10, 1, &bytes));
	TT_EXPECT(bytes == (job->rank == 1 ? 0 : 128 << 10));
	TT_EXPECT(!bcast_copies(job, buf, 512 << 10, 1, &bytes));
	TT_EXPECT(bytes == (job->rank == 1 ? 512 << 10 : 0));
	free(buf);
	return 0;
}

/* Each rank stores its block of a gather at the root, which has its own there, or copies it. */
static int gathered(struct mp_job *job)
{
	const size_t len = 64 << 10;
	unsigned char *in = malloc(len), *out = malloc(len * (size_t)job->n);
	struct tutti_stats a, b;
	bool root, here;
	size_t i;
	int k;

	for (k = 0; k < 4; k++) {
		root = job->rank == k % job->n;
		here = root && k % 2;
		memset(out, 0, len * (size_t)job->n);
		memset(in, job->rank + 1, len);
		memset(out + (size_t)job->rank * len, here ? job->rank + 1 : 0, len);
		TT_EXPECT(!stats_of(job, &a));
		MP_OK(tutti_gather(here ? TUTTI_IN_PLACE : in, out, len, TUTTI_UINT8, k % job->n,
				   job->world));
		TT_EXPECT(!stats_of(job, &b));
		TT_EXPECT(b.copied_bytes - a.copied_bytes == (here ? 0 : len));
		for (i = 0; root && i < len * (size_t)job->n; i++)
			TT_EXPECT(out[i] == i / len + 1);
	}
	free(in);
	free(out);
	return 0;
}

/* Two ranks that each have an input for the other choose, too. */
static int swapped(struct mp_job *job)
{
	struct tutti_stats a, b;
	char *in = calloc(1, 16 << 10), *out = malloc(32 << 10);
	size_t size;
	int k;

	for (size = 4 << 10; size <= 16 << 10; size *= 2)
		for (k = 0; k < 16; k++) {
			TT_EXPECT(!stats_of(job, &a));
			MP_OK(tutti_allgather(in, out, size, TUTTI_UINT8, job->world));
			TT_EXPECT(!stats_of(job, &b));
			TT_EXPECT(b.pulled_bytes - a.pulled_bytes ==
				  (k < 8 || size < 8 << 10 ? size : 0));
		}
	free(in);
	free(out);
	return 0;
}

static void counters(void)
{
	TT_CHECK(!MP_RUN(.n = 2, .fn = swapped, .env = PULLS));
	TT_CHECK(!MP_RUN(.n = 2, .fn = read_directly, .env = PULLS " TUTTI_WAIT=spin"));
	TT_CHECK(!MP_RUN(.n = 4, .fn = read_by_several, .env = PULLS));
	TT_CHECK(!MP_RUN(.n = 2, .fn = gathered, .env = "TUTTI_ALGO=gather:node_pull"));
	TT_CHECK(!MP_RUN(.n = 3, .fn = gathered, .env = "TUTTI_ALGO=gather:node_pull"));
	TT_CHECK(!MP_RUN(.n = 4, .env = "TUTTI_ALGO=exscan:node_slots", .fn = exscans));
	TT_CHECK(!MP_RUN(.n = 2, .fn = counted, .env = PULLS));
	TT_CHECK(!MP_RUN(.n = 4, .fn = counted, .env = PULLS));
	TT_CHECK(!MP_RUN(.n = 2, .fn = ordinary, .env = PULLS " TUTTI_POOL_LIMIT=64M"));
	/* All long results are stored around the cache. */
	TT_CHECK(!MP_RUN(.n = 2, .fn = ordinary,
			 .env = PULLS " TUTTI_POOL_LIMIT=64M TUTTI_CACHE=1"));
	TT_CHECK(!MP_RUN(.n = 3, .fn = counted, .env = PULLS " TUTTI_CACHE=1"));
	TT_CHECK(!MP_RUN(.n = 3, .fn = ordinary, .env = PULLS " TUTTI_POOL_LIMIT=64M"));
}

/*
 * Slabs of many sizes, given up and made anew between calls, on one rank more often than on
 * another.
 */
static int churn(struct mp_job *job)
{
	size_t count, i;
	int64_t *v = NULL;
	int k;

	for (k = 0; k < 60; k++) {
		count = ((size_t)k * 7919 + 13) % 200000 + (k % 10 == 9 ? 900000 : 1);
		if (!v || k % (job->rank + 2) == 0 || k % 10 > 7) {
			MP_OK(tutti_free(v));
			MP_OK(tutti_alloc(job->ctx, 1200000 * 8 + (size_t)(k % 7) * 1000000,
					  (void **)&v));
		}
		for (i = 0; i < count; i += 997)
			v[i] = (int64_t)i + k + job->rank;
		v[count - 1] = job->rank;
		MP_OK(tutti_allreduce(TUTTI_IN_PLACE, v, count, TUTTI_INT64, TUTTI_SUM,
				      job->world));
		TT_EXPECT(v[count - 1] == job->n * (job->n - 1) / 2);
		for (i = 0; i + 1 < count; i += 997)
			TT_EXPECT(v[i] == ((int64_t)i + k) * job->n + job->n * (job->n - 1) / 2);
	}
	MP_OK(tutti_free(v));
	return 0;
}

/* Plans of more lengths than the pool has scratch for: idle ones give theirs. */
static int lengths(struct mp_job *job)
{
	size_t count, i;
	int32_t *v = malloc(2 * 40000 * sizeof(*v));
	int k;

	for (k = 0; k < 150; k++) {
		count = 20000 + (size_t)k * 101;
		for (i = 0; i < 2 * count; i++)
			v[i] = (int32_t)i + job->rank;
		MP_OK(tutti_alltoall(TUTTI_IN_PLACE, v, count, TUTTI_INT32, job->world));
		for (i = 0; i < 2 * count; i++)
			TT_EXPECT(v[i] == (int32_t)(i % count + (size_t)job->rank * count) +
						  (int32_t)(i / count));
	}
	free(v);
	return 0;
}

static void remapped(void)
{
	TT_CHECK(!MP_RUN(.n = 2, .fn = lengths, .env = "TUTTI_POOL_LIMIT=8M"));
	TT_CHECK(!MP_RUN(.n = 3, .fn = churn, .env = "TUTTI_POOL_LIMIT=64M"));
}

/*
 * Bytes of an all-reduce of these ranks, of which each combines so many, own, of all: whether they
 * are those of rings, or of a rank of two whose peer's memory, or own memory, is accessed as it is.
 */
static bool moved(const struct mp_job *job, const struct tutti_stats *a,
		  const struct tutti_stats *b, size_t all, size_t own, bool plain, bool peer_plain)
{
	uint64_t pulled = b->pulled_bytes - a->pulled_bytes;
	uint64_t copied = b->copied_bytes - a->copied_bytes, ringed = plain ? 2 * (all - own) : 0;

	if (pulled == ((size_t)job->n - 1) * own)
		return copied == ringed || (job->n == 2 && !copied);
	return job->n == 2 && peer_plain && !pulled &&
	       (copied == 2 * own || copied == 2 * own + ringed);
}

/*
 * Short vectors in place, time and again: most calls are made without a request and some go on as
 * one, before or after the own part is combined, which must happen once. At times one rank has
 * memory that others can't map, or all have.
 */
static int short_pulls(struct mp_job *job)
{
	size_t count = 3000, i, own = part(count, (size_t)job->n, (size_t)job->rank) * 4;
	int32_t *pool, *plain = malloc(count * 4), *v;
	struct tutti_stats a, b;
	int k, straight = 0;
	bool others;

	MP_OK(tutti_alloc(job->ctx, count * 4, (void **)&pool));
	for (k = 0; k < 400; k++) {
		v = (k % 7 == 3 && job->rank == k % job->n) || k % 7 > 3 ? plain : pool;
		others = (k % 7 == 3 && job->rank != k % job->n) || k % 7 > 3;
		for (i = 0; i < count; i++)
			v[i] = (int32_t)i + k * job->rank;
		if (k % 50 == 20 && job->rank == 1)
			usleep(2000);
		TT_EXPECT(!stats_of(job, &a));
		MP_OK(tutti_allreduce(TUTTI_IN_PLACE, v, count, TUTTI_INT32, TUTTI_SUM,
				      job->world));
		TT_EXPECT(!stats_of(job, &b));
		for (i = 0; i < count; i++)
			TT_EXPECT(v[i] == (int32_t)i * job->n + k * job->n * (job->n - 1) / 2);
		TT_EXPECT(b.reduced_bytes - a.reduced_bytes == own);
		TT_EXPECT(moved(job, &a, &b, count * 4, own, v == plain, others));
		straight += b.pulled_bytes == a.pulled_bytes;
	}
	TT_EXPECT(straight || job->n > 2); /* the first trial, at least */
	MP_OK(tutti_free(pool));
	free(plain);
	return 0;
}

/* Element i of rank r's input is i + r + k. */
static int call_and_change(struct mp_job *job, int k, int32_t *in, int32_t *out, size_t count)
{
	size_t n = (size_t)job->n, part = count / n, own = (size_t)job->rank * part, i;
	/* what comes: so many elements of each rank, or of the root, from off on */
	size_t of_each = 0, of_root = 0, off = 0;
	struct tutti_comm *w = job->world;
	int root = k / 16 % job->n;

	if (k % 5 == 0) {
		MP_OK(tutti_alltoall(in, out, part, TUTTI_INT32, w));
		of_each = part;
		off = own;
	} else if (k % 5 == 1) {
		MP_OK(tutti_allgather(in, out, count, TUTTI_INT32, w));
		of_each = count;
	} else if (k % 5 == 2) {
		MP_OK(tutti_gather(in, out, count, TUTTI_INT32, root, w));
		of_each = job->rank == root ? count : 0;
	} else if (k % 5 == 3) {
		MP_OK(tutti_scatter(in, out, part, TUTTI_INT32, root, w));
		of_root = part;
		off = own;
	} else {
		MP_OK(tutti_bcast(job->rank == root ? in : out, count, TUTTI_INT32, root, w));
		of_root = job->rank == root ? 0 : count;
	}
	memset(in, 0xff, count * 4);
	for (i = 0; i < n * of_each; i++)
		TT_EXPECT(out[i] == (int32_t)(i % of_each + off + i / of_each) + k);
	for (i = 0; i < of_root; i++)
		TT_EXPECT(out[i] == (int32_t)(i + off) + root + k);
	return 0;
}

/* Inputs that change as soon as the call is over: other ranks have read them, or have a copy. */
static int changed_at_once(struct mp_job *job)
{
	static const size_t counts[] = {750, 2048, 4096};
	int32_t *pool, *plain = malloc(4096 * 4), *in, *out = malloc((size_t)job->n * 4096 * 4);
	size_t count, i;
	int k;

	MP_OK(tutti_alloc(job->ctx, 4096 * 4, (void **)&pool));
	for (k = 0; k < 2000; k++) {
		in = k % 2 ? pool : plain;
		count = counts[k / 2 % 3];
		for (i = 0; i < count; i++)
			in[i] = (int32_t)i + k + job->rank;
		TT_EXPECT(!call_and_change(job, k, in, out, count));
	}
	MP_OK(tutti_free(pool));
	free(plain);
	free(out);
	return 0;
}

/*
 * All variants of such calls: vectors that peers can map or not, in place or not; empty parts, and
 * parts so long that rings are in the pool; ranks that are late, or do not wait at once.
 */
static int any_pulls(struct mp_job *job)
{
	static const size_t counts[] = {1, 2, 15, 100, 3000, 9000, 20000, 60000};
	enum tutti_op ops[] = {TUTTI_SUM, TUTTI_MAX, TUTTI_AVG};
	struct tutti_request *req = NULL;
	size_t most = 60000, i, count;
	int32_t *mem[2][2], *in, *out, first, step, expected;
	int k, op, n = job->n;
	unsigned mix, mine;
	uint64_t seed = 7;

	for (k = 0; k < 2; k++) {
		mem[0][k] = malloc(most * 4);
		MP_OK(tutti_alloc(job->ctx, most * 4, (void **)&mem[1][k]));
	}
	for (k = 0; k < 300; k++) {
		mix = (unsigned)(tt_random(&seed) >> 32);
		mine = mix >> (3 * job->rank);
		count = counts[k % 8];
		op = (int)(mix >> 20) % 3;
		in = mem[mine & 1][0];
		out = k % 4 ? mem[mine >> 1 & 1][1] : in;
		for (i = 0; i < count; i++)
			in[i] = (int32_t)i * n + k * job->rank * n;
		if (k % 37 == job->rank)
			usleep(1500);
		if (mine & 4)
			MP_OK(tutti_iallreduce(out == in ? TUTTI_IN_PLACE : in, out, count,
					       TUTTI_INT32, ops[op], job->world, &req));
		else
			MP_OK(tutti_allreduce(out == in ? TUTTI_IN_PLACE : in, out, count,
					      TUTTI_INT32, ops[op], job->world));
		MP_OK(tutti_wait(&req));
		first = k * n * (op == 1 ? n - 1 : op == 0 ? n * (n - 1) / 2 : 0);
		step = op == 0 ? n * n : n;
		for (i = 0; i < count; i++) {
			expected = (int32_t)i * step + first;
			if (op == 2) /* the sum, over n */
				expected = (int32_t)i * n + k * (n * (n - 1) / 2);
			TT_EXPECT(out[i] == expected);
		}
	}
	for (k = 0; k < 2; k++) {
		free(mem[0][k]);
		MP_OK(tutti_free(mem[1][k]));
	}
	return 0;
}

/* A vector that is registered in part is staged, whether others come in time or not. */
static int partly(struct mp_job *job)
{
	static const size_t counts[] = {4, 200, 2048};
	int32_t *v = aligned_alloc(4096, 16384);
	struct tutti_region *region;
	size_t i;
	int k;

	MP_OK(tutti_register(job->ctx, v, 4096, &region));
	for (k = 0; k < 12; k++) {
		size_t count = counts[k % 3];
		int32_t *at = v + 1024 - count / 2; /* half is in it */

		if (k % 4 == 3 && job->rank == 1)
			usleep(5000);
		for (i = 0; i < count; i++)
			at[i] = (int32_t)i + job->rank;
		MP_OK(tutti_allreduce(TUTTI_IN_PLACE, at, count, TUTTI_INT32, TUTTI_SUM,
				      job->world));
		for (i = 0; i < count; i++)
			TT_EXPECT(at[i] == job->n * (int32_t)i + job->n * (job->n - 1) / 2);
		for (i = 0; i < count; i++)
			v[2048 + i] = 1;
		MP_OK(tutti_allreduce(TUTTI_IN_PLACE, v + 2048, count, TUTTI_INT32, TUTTI_SUM,
				      job->world));
		TT_EXPECT(v[2048] == job->n && v[2048 + count - 1] == job->n);
	}
	MP_OK(tutti_deregister(region));
	free(v);
	return 0;
}

static void quick(void)
{
	TT_CHECK(!MP_RUN(.n = 2, .fn = short_pulls, .env = PULLS));
	TT_CHECK(!MP_RUN(.n = 4, .fn = short_pulls, .env = PULLS));
	TT_CHECK(!MP_RUN(.n = 3, .fn = short_pulls, .env = PULLS " TUTTI_WAIT=sleep"));
	TT_CHECK(!MP_RUN(.n = 2, .fn = changed_at_once,
			 .env = "TUTTI_ALGO=allgather:node_pull;alltoall:node_pull;"
				"gather:node_pull;scatter:node_pull;bcast:node_pull"));
	TT_CHECK(!MP_RUN(.n = 2, .fn = any_pulls, .env = PULLS));
	TT_CHECK(!MP_RUN(.n = 3, .fn = any_pulls, .env = PULLS));
	TT_CHECK(!MP_RUN(.n = 3, .fn = any_pulls, .env = PULLS " TUTTI_WAIT=sleep"));
	TT_CHECK(!MP_RUN(.n = 2, .fn = any_pulls, .env = PULLS " TUTTI_PROGRESS=thread"));
}

static void registered_in_part(void)
{
	TT_CHECK(!MP_RUN(.n = 2, .fn = partly));
	TT_CHECK(!MP_RUN(.n = 3, .fn = partly, .env = PULLS));
	TT_CHECK(!MP_RUN(.n = 3, .fn = partly, .env = PULLS " TUTTI_CACHE=1"));
}

/*
 * The same sums in every size of vector: an element's bits do not depend on how the vector
 * travels.
 */
static int bits(struct mp_job *job)
{
	float *in, *out, first = 0;
	size_t count;

	MP_OK(tutti_alloc(job->ctx, COUNT * 4, (void **)&in));
	MP_OK(tutti_alloc(job->ctx, COUNT * 4, (void **)&out));
	for (count = 0; count < COUNT; count++)
		in[count] = 0.1f * (float)(job->rank * job->rank + 1) + 1e-3f;
	for (count = 1; count < COUNT; count = count * 3 + 1) {
		MP_OK(tutti_allreduce(in, out, count, TUTTI_FLOAT32, TUTTI_SUM, job->world));
		first = count == 1 ? out[0] : first;
		TT_EXPECT(!memcmp(&out[0], &first, 4) && !memcmp(&out[count - 1], &first, 4));
	}
	MP_OK(tutti_free(in));
	MP_OK(tutti_free(out));
	return 0;
}

static void same_bits(void)
{
	TT_CHECK(!MP_RUN(.n = 5, .fn = bits));
}

struct pieces {
	enum mp_kind kind;
	bool forbid; /* other ranks' ordinary memory is out of reach */
};

#define PIECE ((size_t)4 << 20)
#define BLOCK ((size_t)9 << 20)

/*
 * The progress of a request in one call of the library; other threads can take the lock between
 * two calls.
 */
static int stepwise(struct mp_job *job, struct tutti_request *req, struct tutti_stats a,
		    size_t pulls)
{
	struct tutti_stats b;
	int done = 0;

	while (!done) {
		TT_EXPECT(!stats_of(job, &b));
		TT_EXPECT(b.copied_bytes - a.copied_bytes <= PIECE);
		TT_EXPECT(b.pulled_bytes - a.pulled_bytes <= PIECE * pulls);
		a = b;
		MP_OK(tutti_test(&req, &done));
	}
	TT_EXPECT(!stats_of(job, &b));
	TT_EXPECT(b.copied_bytes - a.copied_bytes <= PIECE);
	return 0;
}

static int in_pieces(struct mp_job *job)
{
	const struct pieces *p = job->arg;
	struct tutti_config config = {0};
	size_t n = (size_t)job->n, i;
	struct tutti_request *req;
	struct tutti_stats s;
	struct mp_buf in, out;

	TT_EXPECT(!p->forbid || !mp_forbid_vm());
	MP_OK(mp_join(job, MP_ID, &config));
	MP_OK(mp_buf_new(job, p->kind, BLOCK, &in));
	MP_OK(mp_buf_new(job, p->kind, n * BLOCK, &out));
	for (i = 0; i < BLOCK; i++)
		in.p[i] = (char)(i / 1001 + (size_t)job->rank);
	memset(out.p, -1, n * BLOCK);
	TT_EXPECT(!stats_of(job, &s));
	MP_OK(tutti_iallgather(in.p, out.p, BLOCK, TUTTI_INT8, job->world, &req));
	TT_EXPECT(!stepwise(job, req, s, 1));
	for (i = 0; i < n * BLOCK; i++)
		TT_EXPECT(out.p[i] == (char)(i % BLOCK / 1001 + i / BLOCK));
	TT_EXPECT(!stats_of(job, &s));
	MP_OK(tutti_iallreduce(in.p, out.p, BLOCK, TUTTI_INT8, TUTTI_SUM, job->world, &req));
	TT_EXPECT(!stepwise(job, req, s, n));
	for (i = 0; i < BLOCK; i++)
		TT_EXPECT(out.p[i] == (char)(i / 1001 * n + n * (n - 1) / 2));
	MP_OK(mp_buf_free(&in));
	MP_OK(mp_buf_free(&out));
	MP_OK(mp_leave(job));
	return 0;
}

static void pieces(void)
{
	static const struct {
		int n;
		const char *env;
		struct pieces p;
	} runs[] = {
		{1, NULL, {MP_PLAIN, false}},
		{3, "TUTTI_ALGO=allgather:node_pull;allreduce:node_pull", {MP_POOL, false}},
		{3, "TUTTI_ALGO=allgather:node_pull;allreduce:node_pull", {MP_PLAIN, true}},
		{2, "TUTTI_ALGO=allgather:ring;allreduce:ring", {MP_POOL, false}},
	};
	size_t i;

	for (i = 0; i < sizeof(runs) / sizeof(runs[0]); i++)
		TT_CHECK(!MP_RUN(.n = runs[i].n, .env = runs[i].env, .fn = in_pieces,
				 .arg = (void *)&runs[i].p, .no_init = true));
}

/* ---- short calls, without a request ---- */

enum { ELEMS = 5, RANKS = 4 }; /* elements of a block; most ranks */

struct both_ways {
	float in[ELEMS * RANKS], blocking[ELEMS * RANKS], request[ELEMS * RANKS];
};

/* The same call, blocking (*req NULL: the short path) or as a request. */
static int call_once(struct mp_job *job, int kind, bool place, int root, const float *in,
		     float *out, struct tutti_request **req)
{
	const void *from = place ? TUTTI_IN_PLACE : in;
	struct tutti_comm *comm = job->world;
	size_t counts[RANKS] = {1, ELEMS, 0, 2};
	bool at_root = job->rank == root;

#define EITHER(call, icall, ...) (req ? icall(__VA_ARGS__, comm, req) : call(__VA_ARGS__, comm))
	switch (kind) {
	case 0:
		return EITHER(tutti_allreduce, tutti_iallreduce, from, out, ELEMS, TUTTI_FLOAT32,
			      TUTTI_SUM);
	case 1:
		return EITHER(tutti_bcast, tutti_ibcast, out, ELEMS, TUTTI_FLOAT32, root);
	case 2:
		return EITHER(tutti_reduce, tutti_ireduce, at_root ? from : in, out, ELEMS,
			      TUTTI_FLOAT32, TUTTI_AVG, root);
	case 3:
		return EITHER(tutti_reduce_scatter_block, tutti_ireduce_scatter_block, from, out,
			      ELEMS, TUTTI_FLOAT32, TUTTI_SUM);
	case 4:
		return EITHER(tutti_reduce_scatter, tutti_ireduce_scatter, from, out, counts,
			      TUTTI_FLOAT32, TUTTI_SUM);
	case 5:
		return EITHER(tutti_allgather, tutti_iallgather, from, out, ELEMS, TUTTI_FLOAT32);
	case 6:
		return EITHER(tutti_allgatherv, tutti_iallgatherv, from, counts[job->rank], out,
			      counts, NULL, TUTTI_FLOAT32);
	case 7:
		return EITHER(tutti_gather, tutti_igather, at_root ? from : in, out, ELEMS,
			      TUTTI_FLOAT32, root);
	case 8:
		return EITHER(tutti_scatter, tutti_iscatter, in,
			      at_root && place ? TUTTI_IN_PLACE : out, ELEMS, TUTTI_FLOAT32, root);
	case 9:
		return EITHER(tutti_alltoall, tutti_ialltoall, from, out, ELEMS, TUTTI_FLOAT32);
	case 10:
		return EITHER(tutti_scan, tutti_iscan, from, out, ELEMS, TUTTI_FLOAT32, TUTTI_SUM);
	case 11:
		return EITHER(tutti_exscan, tutti_iexscan, from, out, ELEMS, TUTTI_FLOAT32,
			      TUTTI_PROD);
	default:
		return req ? tutti_ibarrier(comm, req) : tutti_barrier(comm);
	}
#undef EITHER
}

static int same_both_ways(struct mp_job *job, struct both_ways *b, int kind, bool place, int root)
{
	struct tutti_request *req = NULL;
	uint64_t state = (uint64_t)(kind * 100 + root * 10 + job->rank);
	int i;

	for (i = 0; i < ELEMS * RANKS; i++)
		b->in[i] = (float)(tt_random(&state) % 1000003) / 1e5f;
	memcpy(b->blocking, b->in, sizeof(b->in)); /* also the input in place, and of a bcast */
	memcpy(b->request, b->in, sizeof(b->in));
	MP_OK(call_once(job, kind, place, root, b->in, b->blocking, NULL));
	MP_OK(call_once(job, kind, place, root, b->in, b->request, &req));
	MP_OK(tutti_wait(&req));
	if (memcmp(b->blocking, b->request, sizeof(b->request))) {
		fprintf(stderr, "rank %d: kind %d, in place %d, root %d\n", job->rank, kind, place,
			root);
		TT_EXPECT(false);
	}
	return 0;
}

/* Every collective gives the same bits without a request as with one; twice, as slots are two. */
static int short_calls(struct mp_job *job)
{
	struct both_ways *b;
	int kind, place, turn;

	MP_OK(tutti_alloc(job->ctx, sizeof(*b), (void **)&b));
	for (turn = 0; turn < 3; turn++)
		for (kind = 0; kind <= 12; kind++)
			for (place = 0; place < 2; place++)
				TT_EXPECT(!same_both_ways(job, b, kind, place, turn % job->n));
	MP_OK(tutti_free(b));
	return 0;
}

static void short_and_long(void)
{
	static const char *const pulls = PULLS ";reduce_scatter:node_pull;gather:node_pull;"
					       "scatter:node_pull;alltoall:node_pull;"
					       "allgatherv:node_pull";
	int n;

	for (n = 2; n <= RANKS; n++) {
		TT_CHECK(!MP_RUN(.n = n, .fn = short_calls));
		TT_CHECK(!MP_RUN(.n = n, .fn = short_calls, .env = "TUTTI_WAIT=sleep"));
		TT_CHECK(!MP_RUN(.n = n, .fn = short_calls, .env = pulls));
	}
	TT_CHECK(!MP_RUN(.n = 3, .fn = short_calls, .env = "TUTTI_TRANSPORT=shm"));
	TT_CHECK(!MP_RUN(.n = 1, .fn = short_calls));
}

int main(int argc, char **argv)
{
	static const struct tt_test tests[] = {
		{"counters", counters},
		{"quick", quick},
		{"registered_in_part", registered_in_part},
		{"remapped", remapped},
		{"same_bits", same_bits},
		{"short_and_long", short_and_long},
		{"pieces", pieces},
		{NULL, NULL},
	};

	return tt_test_main("node", tests, argc, argv);
}
