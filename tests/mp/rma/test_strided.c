/* SPDX-License-Identifier: BSD-3-Clause */
/* Strided puts and gets against loops of copies. */
#include "config.h"

#include "tests/mp/rma/each_transport.h"

#include <stdio.h>

#define SIZE (200u << 10)

static struct tutti_strides of(size_t block, size_t count, ptrdiff_t local, ptrdiff_t there)
{
	return (struct tutti_strides){.size = sizeof(struct tutti_strides),
				      .block = block,
				      .count = count,
				      .local_stride = local,
				      .stride = there};
}

/* The oracle: block by block. */
static void copy(char *to, ptrdiff_t to_stride, const char *from, ptrdiff_t from_stride,
		 const struct tutti_strides *s)
{
	size_t i;

	for (i = 0; i < s->count; i++)
		memcpy(to + (ptrdiff_t)i * to_stride, from + (ptrdiff_t)i * from_stride, s->block);
}

/* A stride with no overlap, of either sign, so that count blocks fit into room; *first is set. */
static ptrdiff_t draw_stride(unsigned *seed, size_t block, size_t count, size_t room, size_t *first)
{
	size_t most = count > 1 ? (room - block) / (count - 1) : block, far;
	ptrdiff_t stride =
		(ptrdiff_t)(block + (most > block ? (size_t)rand_r(seed) % (most - block + 1) : 0));

	far = (count - 1) * (size_t)stride;
	*first = (size_t)rand_r(seed) % (room - block - far + 1);
	if (rand_r(seed) % 3)
		return stride;
	*first += far;
	return -stride;
}

static void fill(char *p, size_t n, unsigned seed)
{
	size_t i;

	for (i = 0; i < n; i++)
		p[i] = (char)(rand_r(&seed) >> 7);
}

/*
 * Each rank has its own room in each window. Everything is compared, also what lies between
 * blocks.
 */
static int random_shape(struct mp_job *job, struct tutti_win *win, char *local, char *image,
			char *back, unsigned *seed)
{
	size_t room = SIZE / (size_t)job->n, block, count, at, from;
	int to = rand_r(seed) % job->n;
	uint64_t base = (uint64_t)job->rank * room;
	struct tutti_request *req = NULL;
	struct tutti_strides s;

	block = 1 + (size_t)rand_r(seed) % (rand_r(seed) % 4 ? 64 : 9000);
	count = 1 + (size_t)rand_r(seed) % (room / block < 90 ? room / block : 90);
	s = of(block, count, 0, 0);
	s.local_stride = draw_stride(seed, block, count, SIZE, &from);
	s.stride = draw_stride(seed, block, count, room, &at);
	MP_OK(tutti_get(win, to, image, room, base)); /* what is there */
	MP_OK(tutti_win_flush(win, to));
	fill(local, SIZE, *seed);
	copy(image + at, s.stride, local + from, s.local_stride, &s);
	if (rand_r(seed) % 2) {
		MP_OK(tutti_put_strided(win, to, local + from, base + at, &s));
		MP_OK(tutti_win_flush(win, to));
	} else {
		MP_OK(tutti_iput_strided(win, to, local + from, base + at, &s, &req));
		MP_OK(tutti_wait(&req));
	}
	MP_OK(tutti_get(win, to, back, room, base));
	MP_OK(tutti_win_flush(win, to));
	TT_EXPECT(!memcmp(back, image, room));
	/* and back, to other places */
	s.local_stride = draw_stride(seed, block, count, SIZE, &from);
	fill(back, SIZE, *seed);
	memcpy(local, back, SIZE);
	copy(local + from, s.local_stride, image + at, s.stride, &s);
	if (rand_r(seed) % 2) {
		MP_OK(tutti_get_strided(win, to, back + from, base + at, &s));
		MP_OK(tutti_win_flush_all(win));
	} else {
		MP_OK(tutti_iget_strided(win, to, back + from, base + at, &s, &req));
		MP_OK(tutti_wait(&req));
	}
	TT_EXPECT(!memcmp(back, local, SIZE));
	return 0;
}

static int random_body(struct mp_job *job)
{
	unsigned seed = (unsigned)job->rank + 11;
	char *mine, *local, *image = malloc(SIZE), *back = malloc(SIZE);
	struct tutti_win *win;
	int i;

	MP_OK(tutti_win_allocate(job->world, SIZE, 0, (void **)&mine, &win));
	MP_OK(tutti_alloc(job->ctx, SIZE, (void **)&local));
	for (i = 0; i < 16; i++) /* back is plain memory: through the pool where that is needed */
		TT_EXPECT(!random_shape(job, win, i % 2 ? local : image, i % 2 ? image : local,
					back, &seed));
	MP_OK(tutti_win_free(win));
	MP_OK(tutti_free(local));
	free(image);
	free(back);
	return 0;
}

/* Columns of a matrix go around the ring; the notification comes after all blocks of it. */
static int columns_body(struct mp_job *job)
{
	enum { ROWS = 150, COLS = 8, STEPS = 20 };
	double(*mine)[COLS], out[ROWS][COLS];
	struct tutti_strides s = of(sizeof(double), ROWS, sizeof(out[0]), sizeof(out[0]));
	int right = (job->rank + 1) % job->n, left = (job->rank + job->n - 1) % job->n, step, i;
	struct tutti_win *win;

	MP_OK(tutti_win_allocate(job->world, sizeof(out), 0, (void **)&mine, &win));
	for (step = 0; step < STEPS; step++) {
		int col = step % COLS;

		for (i = 0; i < ROWS; i++)
			out[i][col] = job->rank * 1e6 + step * 1e3 + i;
		MP_OK(tutti_put_strided_notify(win, right, &out[0][col],
					       (uint64_t)col * sizeof(double), &s,
					       step % 2 ? 40 + step : TUTTI_NOTIFY_RANK));
		if (step % 2)
			MP_OK(tutti_wait_notify_id(win, 40 + step, 1));
		else
			MP_OK(tutti_wait_notify(win, left, 1));
		for (i = 0; i < ROWS; i++)
			TT_EXPECT(mine[i][col] == left * 1e6 + step * 1e3 + i);
		MP_OK(tutti_win_flush_all(win));
		if (col == COLS - 1)
			MP_OK(tutti_barrier(job->world));
	}
	MP_OK(tutti_win_free(win));
	return 0;
}

static int errors_body(struct mp_job *job)
{
	struct tutti_strides s = of(8, 10, 8, 16), bad;
	struct tutti_request *req = NULL;
	char local[256] = {0}, *mine;
	struct tutti_win *win;

	MP_OK(tutti_win_allocate(job->world, 200, job->rank ? 0 : TUTTI_WIN_READ_ONLY,
				 (void **)&mine, &win));
	MP_ERR(tutti_put_strided(win, 0, local, 0, &s), -EACCES);
	MP_OK(tutti_get_strided(win, 0, local, 48, &s)); /* to the last byte */
	MP_ERR(tutti_get_strided(win, 0, local, 49, &s), -ERANGE);
	MP_SAID("16 apart");
	MP_ERR(tutti_get_strided(win, 0, local, UINT64_MAX, &s), -ERANGE);
	bad = of(8, 10, 8, -16);
	MP_ERR(tutti_get_strided(win, 0, local, 143, &bad), -ERANGE);
	MP_OK(tutti_get_strided(win, 0, local, 144, &bad));
	bad = of(8, SIZE_MAX / 2, 8, 16);
	MP_ERR(tutti_get_strided(win, 0, local, 0, &bad), -ERANGE);
	bad = of(SIZE_MAX, 2, 8, PTRDIFF_MAX);
	MP_ERR(tutti_get_strided(win, 0, local, 0, &bad), -ERANGE);
	bad = of(8, 3, PTRDIFF_MIN, 16);
	MP_ERR(tutti_get_strided(win, 0, local, 0, &bad), -EINVAL);
	bad = of(8, 3, 7, 16);
	MP_ERR(tutti_get_strided(win, 0, local, 0, &bad), -EINVAL);
	MP_SAID("overlap");
	bad = of(8, 3, 8, 7);
	MP_ERR(tutti_put_strided(win, job->n - 1, local, 0, &bad), job->n > 1 ? -EINVAL : -EINVAL);
	MP_OK(tutti_get_strided(win, job->n - 1, local, 0, &bad)); /* reads may overlap */
	bad.size = 8;
	MP_ERR(tutti_get_strided(win, 0, local, 0, &bad), -EINVAL);
	MP_SAID("size");
	MP_ERR(tutti_get_strided(win, 0, NULL, 0, &s), -EINVAL);
	MP_ERR(tutti_get_strided(win, 0, local, 0, NULL), -EINVAL);
	MP_ERR(tutti_get_strided(win, job->n, local, 0, &s), -EINVAL);
	MP_ERR(tutti_iget_strided(win, 0, local, 0, &s, NULL), -EINVAL);
	MP_ERR(tutti_iput_strided(NULL, 0, local, 0, &s, &req), -EINVAL);
	MP_ERR(tutti_put_strided_notify(win, job->n - 1, local, 0, &s, TUTTI_NOTIFY_IDS),
	       job->n > 1 ? -EINVAL : -EACCES);
	bad = of(8, 0, 0, 0);
	MP_OK(tutti_put_strided_notify(win, 0, NULL, 0, &bad, 9)); /* only notifies */
	if (job->rank == 0)
		MP_OK(tutti_wait_notify_id(win, 9, (uint64_t)job->n));
	MP_OK(tutti_win_flush_all(win));
	MP_OK(tutti_win_free(win));
	return 0;
}

static int put_far(struct tutti_win *win, void *local, struct tutti_request **req)
{
	struct tutti_strides s = of(100, 700, 120, 250);

	return tutti_iput_strided(win, 0, local, 0, &s, req);
}

static int get_far(struct tutti_win *win, void *local, struct tutti_request **req)
{
	struct tutti_strides s = of(100, 700, 120, 250);

	return tutti_iget_strided(win, 0, local, 0, &s, req);
}

static int dead_body(struct mp_job *job)
{
	return target_dies(job, SIZE, put_far, get_far);
}

static void run(const char *env)
{
	bool few = mp_few_sizes(env);
	int n;

	for (n = few ? 3 : 1; n <= (few ? 3 : 4); n++) {
		int failed = MP_RUN(.n = n, .env = env, .fn = random_body) +
			     MP_RUN(.n = n, .env = env, .fn = columns_body) +
			     MP_RUN(.n = n, .env = env, .fn = errors_body);

		if (failed)
			fprintf(stderr, "%d ranks, %s\n", n, env);
		TT_CHECK(!failed);
	}
	TT_CHECK(!MP_RUN(.n = 3, .env = env, .fn = dead_body, .killed = 1));
}

int main(int argc, char **argv)
{
	static const struct tt_test tests[] = {{"shm", shm},
					       {"shm_fault", shm_fault},
					       {"ofi", ofi},
					       {"verbs", verbs},
					       {NULL, NULL}};

	return tt_test_main("strided", tests, argc, argv);
}
