/* SPDX-License-Identifier: BSD-3-Clause */
/* Puts and gets with layouts against loops over their elements. */
#include "config.h"

#include "tests/mp/layouts.h"
#include "tests/mp/rma/each_transport.h"

#include <stdio.h>
#include <string.h>

#define ROOM ((size_t)400 << 10) /* of each rank in each window */

static void fill(char *p, size_t n, unsigned seed)
{
	size_t i;

	for (i = 0; i < n; i++)
		p[i] = (char)((seed + i) * 2654435761u >> 13);
}

/* The two layouts of an operation; one may be missing. */
struct shape {
	struct mp_layout near, far;
	const struct tutti_layout *here, *there;
	size_t at, offset, bytes;
};

static void draw(unsigned *seed, struct shape *s)
{
	static const enum tutti_datatype types[] = {TUTTI_UINT8, TUTTI_INT16, TUTTI_FLOAT64,
						    TUTTI_OPAQUE(12)};
	static const size_t bytes[] = {0, 24, 480, 9600, 96000, 180000};
	enum tutti_datatype type = types[rand_r(seed) % 4];
	size_t elems = bytes[rand_r(seed) % 6] / tutti_datatype_size(type);
	int which = rand_r(seed) % 4;

	mp_layout_draw(seed, type, elems, ROOM, &s->near);
	mp_layout_draw(seed, type, elems, ROOM, &s->far);
	s->bytes = elems * tutti_datatype_size(type);
	s->here = which == 0 ? NULL : &s->near.l;
	s->there = which == 1 ? NULL : &s->far.l;
	s->at = s->here ? s->near.first : 100;
	s->offset = s->there ? s->far.first : 60;
}

static int put(struct mp_job *job, struct tutti_win *win, int to, const char *local, size_t base,
	       const struct shape *s, bool request)
{
	struct tutti_request *req = NULL;

	if (request) {
		MP_OK(tutti_iput_layout(win, to, local + s->at, s->here, base + s->offset, s->there,
					&req));
		MP_OK(tutti_wait(&req));
	} else {
		MP_OK(tutti_put_layout(win, to, local + s->at, s->here, base + s->offset,
				       s->there));
		MP_OK(tutti_win_flush(win, to));
	}
	return 0;
}

static int get(struct mp_job *job, struct tutti_win *win, int to, char *local, size_t base,
	       const struct shape *s, bool request)
{
	struct tutti_request *req = NULL;

	if (request) {
		MP_OK(tutti_iget_layout(win, to, local + s->at, s->here, base + s->offset, s->there,
					&req));
		MP_OK(tutti_wait(&req));
	} else {
		MP_OK(tutti_get_layout(win, to, local + s->at, s->here, base + s->offset,
				       s->there));
		MP_OK(tutti_win_flush_all(win));
	}
	return 0;
}

/* room: local memory, what the window should have, what it has, and scratch. */
static int random_shape(struct mp_job *job, struct tutti_win *win, char *const room[4],
			struct shape *s, unsigned *seed)
{
	size_t base = (size_t)job->rank * ROOM;
	int to = rand_r(seed) % job->n;

	draw(seed, s);
	MP_OK(tutti_get(win, to, room[1], ROOM, base)); /* what is there */
	MP_OK(tutti_win_flush(win, to));
	fill(room[0], ROOM, *seed);
	mp_layout_read(s->here, room[0] + s->at, room[3], s->bytes);
	mp_layout_write(s->there, room[1] + s->offset, room[3], s->bytes);
	TT_EXPECT(!put(job, win, to, room[0], base, s, rand_r(seed) % 2));
	MP_OK(tutti_get(win, to, room[2], ROOM, base));
	MP_OK(tutti_win_flush(win, to));
	TT_EXPECT(!memcmp(room[1], room[2], ROOM));
	/* other places of the same window, to other memory */
	draw(seed, s);
	fill(room[0], ROOM, *seed + 1);
	memcpy(room[2], room[0], ROOM);
	mp_layout_read(s->there, room[1] + s->offset, room[3], s->bytes);
	mp_layout_write(s->here, room[2] + s->at, room[3], s->bytes);
	TT_EXPECT(!get(job, win, to, room[0], base, s, rand_r(seed) % 2));
	TT_EXPECT(!memcmp(room[0], room[2], ROOM));
	return 0;
}

static int random_body(struct mp_job *job)
{
	unsigned seed = (unsigned)job->rank + 23;
	struct shape *s = malloc(sizeof(*s));
	char *mine, *room[4], *plain[4];
	struct tutti_win *win;
	int i;

	MP_OK(tutti_win_allocate(job->world, ROOM * (size_t)job->n, 0, (void **)&mine, &win));
	for (i = 0; i < 4; i++) {
		plain[i] = room[i] = malloc(ROOM);
		fill(room[i], ROOM, 0);
	}
	MP_OK(tutti_alloc(job->ctx, ROOM, (void **)&mine));
	for (i = 0; i < 16; i++) {
		room[0] = i % 2 ? mine : plain[0];
		TT_EXPECT(!random_shape(job, win, room, s, &seed));
	}
	MP_OK(tutti_win_free(win));
	MP_OK(tutti_free(mine));
	for (i = 0; i < 4; i++)
		free(plain[i]);
	free(s);
	return 0;
}

/* A column goes around the ring into a row; the notification comes after all of it. */
static int notify_body(struct mp_job *job)
{
	enum { ROWS = 900, COLS = 8, STEPS = 20 };
	double(*out)[COLS] = malloc(ROWS * sizeof(*out)), *mine;
	int right = (job->rank + 1) % job->n, left = (job->rank + job->n - 1) % job->n, step, i;
	struct tutti_layout column = mp_layout_vector(TUTTI_FLOAT64, ROWS, 1, COLS);
	struct tutti_win *win;

	MP_OK(tutti_win_allocate(job->world, 2 * ROWS * sizeof(double), 0, (void **)&mine, &win));
	for (step = 0; step < STEPS; step++) {
		const double *row = mine + (step % 2 ? ROWS : 0);

		for (i = 0; i < ROWS; i++)
			out[i][step % COLS] = job->rank * 1e6 + step * 1e3 + i;
		MP_OK(tutti_put_layout_notify(win, right, &out[0][step % COLS], &column,
					      (uint64_t)((const char *)row - (char *)mine), NULL,
					      step % 2 ? 40 + step : TUTTI_NOTIFY_RANK));
		if (step % 2)
			MP_OK(tutti_wait_notify_id(win, 40 + step, 1));
		else
			MP_OK(tutti_wait_notify(win, left, 1));
		for (i = 0; i < ROWS; i++)
			TT_EXPECT(row[i] == left * 1e6 + step * 1e3 + i);
		MP_OK(tutti_win_flush_all(win));
		MP_OK(tutti_barrier(job->world));
	}
	MP_OK(tutti_win_free(win));
	free(out);
	return 0;
}

/* Short blocks here that are one block there share operations, whatever the memory. */
static int copies_body(struct mp_job *job)
{
	enum { N = 50000, BLOCKS = 5, LONG = 100000 };
	struct tutti_layout odd = mp_layout_vector(TUTTI_FLOAT64, N, 1, 2);
	struct tutti_layout rows = mp_layout_vector(TUTTI_UINT8, BLOCKS, LONG, 2 * LONG);
	struct tutti_stats a = {.size = sizeof(a)}, b = a;
	struct tutti_win *win;
	double *local;
	char *mine;

	MP_OK(tutti_win_allocate(job->world, 2 * BLOCKS * LONG, 0, (void **)&mine, &win));
	MP_OK(tutti_alloc(job->ctx, 2 * BLOCKS * LONG, (void **)&local));
	MP_OK(tutti_barrier(job->world));
	MP_OK(tutti_stats_get(job->ctx, &a));
	MP_OK(tutti_put_layout(win, !job->rank, local, &odd, 0, NULL));
	MP_OK(tutti_win_flush_all(win));
	MP_OK(tutti_stats_get(job->ctx, &b));
	TT_EXPECT(b.copied_bytes - a.copied_bytes == N * sizeof(double));
	MP_OK(tutti_get_layout(win, !job->rank, local, &rows, 0, &rows));
	MP_OK(tutti_win_flush_all(win));
	MP_OK(tutti_stats_get(job->ctx, &a));
	TT_EXPECT(a.copied_bytes == b.copied_bytes);
	MP_OK(tutti_win_free(win));
	MP_OK(tutti_free(local));
	return 0;
}

static int errors_body(struct mp_job *job)
{
	static const ptrdiff_t displs[] = {9, 0, 4}, both[] = {0, 1, 4};
	struct tutti_layout l = mp_layout_vector(TUTTI_FLOAT64, 3, 1, 2), bad = l, indexed = l;
	struct tutti_request *req = NULL;
	double local[12] = {0}, *mine;
	struct tutti_win *win;

	indexed.stride = 0;
	indexed.displs = displs;
	MP_OK(tutti_win_allocate(job->world, 80, job->rank ? 0 : TUTTI_WIN_READ_ONLY,
				 (void **)&mine, &win));
	MP_ERR(tutti_put_layout(win, 0, local, &l, 0, NULL), -EACCES);
	MP_OK(tutti_get_layout(win, 0, local, NULL, 40, &l)); /* to the last byte */
	MP_ERR(tutti_get_layout(win, 0, local, NULL, 41, &l), -ERANGE);
	MP_SAID("window of 80 bytes");
	MP_OK(tutti_get_layout(win, 0, local, NULL, 0, &indexed));
	MP_ERR(tutti_get_layout(win, 0, local, NULL, 1, &indexed), -ERANGE);
	MP_ERR(tutti_get_layout(win, 0, local, &l, 57, NULL), -ERANGE);
	MP_ERR(tutti_get_layout(win, 0, local, &l, UINT64_MAX, NULL), -ERANGE);
	bad.stride = -2;
	MP_ERR(tutti_get_layout(win, 0, local, NULL, 31, &bad), -ERANGE);
	MP_OK(tutti_get_layout(win, 0, local, NULL, 32, &bad));
	bad.stride = 0;
	MP_ERR(tutti_get_layout(win, 0, local, &bad, 0, NULL), -EINVAL);
	MP_SAID("local_layout overlap");
	MP_OK(tutti_get_layout(win, 0, local, NULL, 0, &bad)); /* reads may overlap */
	indexed.displs = both;
	indexed.block = 2;
	MP_ERR(tutti_put_layout(win, 0, local, NULL, 0, &indexed), -EINVAL);
	MP_SAID("block 1 of layout");
	MP_ERR(tutti_get_layout(win, 0, local, NULL, 0, NULL), -EINVAL);
	MP_SAID("one of them is needed");
	bad = l, bad.datatype = TUTTI_INT64;
	MP_ERR(tutti_get_layout(win, 0, local, &l, 0, &bad), -EINVAL);
	MP_SAID("float64, layout of int64");
	bad = l, bad.count = 2;
	MP_ERR(tutti_get_layout(win, 0, local, &l, 0, &bad), -EINVAL);
	MP_SAID("24 bytes, layout 16");
	bad = l, bad.size = 1;
	MP_ERR(tutti_get_layout(win, 0, local, &bad, 0, &l), -EINVAL);
	MP_SAID("local_layout.size is 1");
	MP_ERR(tutti_get_layout(win, 0, NULL, &l, 0, NULL), -EINVAL);
	MP_ERR(tutti_get_layout(win, job->n, local, &l, 0, NULL), -EINVAL);
	MP_ERR(tutti_iget_layout(win, 0, local, &l, 0, NULL, NULL), -EINVAL);
	MP_ERR(tutti_iput_layout(NULL, 0, local, &l, 0, NULL, &req), -EINVAL);
	bad = l, bad.count = 0;
	MP_ERR(tutti_put_layout_notify(win, 0, NULL, &bad, 0, NULL, TUTTI_NOTIFY_IDS), -EINVAL);
	MP_OK(tutti_put_layout_notify(win, 0, NULL, &bad, 0, NULL, 9)); /* only notifies */
	if (job->rank == 0)
		MP_OK(tutti_wait_notify_id(win, 9, (uint64_t)job->n));
	MP_OK(tutti_win_flush_all(win));
	MP_OK(tutti_win_free(win));
	return 0;
}

static int put_far(struct tutti_win *win, void *local, struct tutti_request **req)
{
	struct tutti_layout l = mp_layout_vector(TUTTI_UINT8, 700, 100, 250);

	return tutti_iput_layout(win, 0, local, NULL, 0, &l, req);
}

static int get_far(struct tutti_win *win, void *local, struct tutti_request **req)
{
	struct tutti_layout l = mp_layout_vector(TUTTI_UINT8, 700, 100, 250);

	return tutti_iget_layout(win, 0, local, &l, 0, NULL, req);
}

static int dead_body(struct mp_job *job)
{
	return target_dies(job, ROOM, put_far, get_far);
}

static void run(const char *env)
{
	bool few = mp_few_sizes(env);
	int n;

	for (n = few ? 3 : 1; n <= (few ? 3 : 4); n++) {
		int failed = MP_RUN(.n = n, .env = env, .fn = random_body) +
			     MP_RUN(.n = n, .env = env, .fn = notify_body) +
			     MP_RUN(.n = n, .env = env, .fn = errors_body);

		if (failed)
			fprintf(stderr, "%d ranks, %s\n", n, env);
		TT_CHECK(!failed);
	}
	TT_CHECK(!MP_RUN(.n = 3, .env = env, .fn = dead_body, .killed = 1));
	if (!strstr(env, "=verbs") && !strstr(env, "=fault"))
		TT_CHECK(!MP_RUN(.n = 2, .env = env, .fn = copies_body));
}

int main(int argc, char **argv)
{
	static const struct tt_test tests[] = {
		{"shm", shm}, {"shm_fault", shm_fault}, {"ofi", ofi}, {"verbs", verbs},
		{NULL, NULL},
	};

	return tt_test_main("put_layout", tests, argc, argv);
}
