/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Buffers that are only partly in registered memory: the begin, the end, the middle, or two regions
 * side by side. Every kind of call stages what it has to, with the right values.
 */
#include "config.h"

#include "tests/mp/job.h"

#include <stdio.h>

#define ROOM 65536 /* elements of a buffer: 256 KiB */
#define WAYS 4

struct buf {
	int32_t *v;
	struct tutti_region *region[2];
};

/* The first count elements of the buffer are used. */
static int buf_new(struct mp_job *job, int way, size_t count, struct buf *b)
{
	size_t half = count / 2 * 4, quarter = count / 4 * 4;
	char *p;

	*b = (struct buf){.v = aligned_alloc(4096, (ROOM + 1024) * 4)};
	TT_EXPECT(b->v);
	p = (char *)b->v;
	switch (way) {
	case 0:
		MP_OK(tutti_register(job->ctx, p, half, &b->region[0]));
		break;
	case 1:
		MP_OK(tutti_register(job->ctx, p + half, count * 4 - half + 16, &b->region[0]));
		break;
	case 2:
		MP_OK(tutti_register(job->ctx, p + quarter, half, &b->region[0]));
		break;
	default:
		MP_OK(tutti_register(job->ctx, p, half, &b->region[0]));
		MP_OK(tutti_register(job->ctx, p + half, count * 4 - half, &b->region[1]));
	}
	return 0;
}

static int buf_free(struct mp_job *job, struct buf *b)
{
	int i;

	for (i = 0; i < 2; i++)
		if (b->region[i])
			MP_OK(tutti_deregister(b->region[i]));
	free(b->v);
	return 0;
}

static int32_t value(int rank, size_t i)
{
	return 1000 * rank + (int32_t)(i % 1000);
}

static void fill(struct mp_job *job, int32_t *v, size_t count)
{
	size_t i;

	for (i = 0; i < count; i++)
		v[i] = value(job->rank, i);
}

static int collectives(struct mp_job *job, int32_t *a, int32_t *b, size_t count)
{
	size_t i, block = count / (size_t)job->n;
	int sum = 1000 * job->n * (job->n - 1) / 2, r;

	fill(job, a, count);
	MP_OK(tutti_allreduce(a, b, count, TUTTI_INT32, TUTTI_SUM, job->world));
	for (i = 0; i < count; i++)
		TT_EXPECT(b[i] == sum + job->n * (int32_t)(i % 1000));
	MP_OK(tutti_bcast(a, count, TUTTI_INT32, job->n - 1, job->world));
	for (i = 0; i < count; i++)
		TT_EXPECT(a[i] == value(job->n - 1, i));
	fill(job, a, count);
	MP_OK(tutti_alltoall(a, b, block, TUTTI_INT32, job->world));
	for (r = 0; r < job->n; r++)
		for (i = 0; i < block; i++)
			TT_EXPECT(b[(size_t)r * block + i] ==
				  value(r, (size_t)job->rank * block + i));
	MP_OK(tutti_allgather(a, b, block, TUTTI_INT32, job->world));
	for (r = 0; r < job->n; r++)
		for (i = 0; i < block; i++)
			TT_EXPECT(b[(size_t)r * block + i] == value(r, i));
	MP_OK(tutti_reduce_scatter_block(a, b, block, TUTTI_INT32, TUTTI_SUM, job->world));
	for (i = 0; i < block; i++)
		TT_EXPECT(b[i] == sum + job->n * (int32_t)(((size_t)job->rank * block + i) % 1000));
	return 0;
}

static int messages(struct mp_job *job, int32_t *a, int32_t *b, size_t count)
{
	int next = (job->rank + 1) % job->n, before = (job->rank + job->n - 1) % job->n;
	size_t i;

	fill(job, a, count);
	MP_OK(tutti_sendrecv(a, count, TUTTI_INT32, next, 1, b, count, TUTTI_INT32, before, 1,
			     job->world, NULL));
	for (i = 0; i < count; i++)
		TT_EXPECT(b[i] == value(before, i));
	return 0;
}

static int one_sided(struct mp_job *job, struct tutti_win *win, int32_t *a, int32_t *b,
		     size_t count)
{
	int next = (job->rank + 1) % job->n;
	size_t i;

	fill(job, a, count);
	MP_OK(tutti_barrier(job->world)); /* the last values have been read */
	MP_OK(tutti_put(win, next, a, count * 4, 0));
	MP_OK(tutti_win_flush(win, next));
	MP_OK(tutti_get(win, next, b, count * 4, 0));
	MP_OK(tutti_win_flush(win, next));
	for (i = 0; i < count; i++)
		TT_EXPECT(b[i] == value(job->rank, i));
	return 0;
}

static int partly_body(struct mp_job *job)
{
	static const size_t counts[] = {64, 3000, ROOM};
	struct tutti_win *win;
	struct buf a, b;
	void *mem;
	size_t k;
	int way;

	MP_OK(tutti_alloc(job->ctx, ROOM * 4, &mem));
	MP_OK(tutti_win_create(job->world, mem, ROOM * 4, 0, &win));
	for (way = 0; way < WAYS; way++)
		for (k = 0; k < sizeof(counts) / sizeof(counts[0]); k++) {
			/* the ranks' buffers need not be alike */
			TT_EXPECT(!buf_new(job, (way + job->rank) % WAYS, counts[k], &a));
			TT_EXPECT(!buf_new(job, way, counts[k], &b));
			TT_EXPECT(!collectives(job, a.v, b.v, counts[k]));
			TT_EXPECT(!messages(job, a.v, b.v, counts[k]));
			TT_EXPECT(!one_sided(job, win, a.v, b.v, counts[k]));
			TT_EXPECT(!buf_free(job, &a) && !buf_free(job, &b));
		}
	MP_OK(tutti_win_free(win));
	MP_OK(tutti_free(mem));
	return 0;
}

static void node(void)
{
	TT_CHECK(!MP_RUN(.n = 1, .fn = partly_body));
	TT_CHECK(!MP_RUN(.n = 3, .fn = partly_body));
}

static void shm(void)
{
	TT_CHECK(!MP_RUN(.n = 2, .fn = partly_body, .env = "TUTTI_NODE=off"));
}

static void ofi(void)
{
	if (mp_no_ofi())
		TT_SKIP("%s", mp_no_ofi());
	TT_CHECK(!MP_RUN(.n = 2, .fn = partly_body, .env = "TUTTI_TRANSPORT=ofi TUTTI_IF=lo"));
	TT_CHECK(!MP_RUN(.n = 2, .fn = partly_body,
			 .env = "TUTTI_TRANSPORT=ofi TUTTI_IF=lo TUTTI_REG_CACHE=64M"));
}

static void verbs(void)
{
	if (mp_no_verbs())
		TT_SKIP("%s", mp_no_verbs());
	TT_CHECK(!MP_RUN(.n = 2, .fn = partly_body, .env = "TUTTI_TRANSPORT=verbs"));
}

int main(int argc, char **argv)
{
	static const struct tt_test tests[] = {
		{"node", node}, {"shm", shm}, {"ofi", ofi}, {"verbs", verbs}, {NULL, NULL},
	};

	return tt_test_main("partly", tests, argc, argv);
}
