/* SPDX-License-Identifier: BSD-3-Clause */
/* tutti: buffers of its pool or, with COMPARE_MALLOC=1, of malloc. */
#include <stdio.h>
#include <stdlib.h>
#include <tutti/tutti.h>

#include "perf/compare/drive.h"

#define F TUTTI_FLOAT32

static struct tutti_context *ctx;
static struct tutti_comm *world;
static struct tutti_request *requests[2 * DRIVE_WINDOW];
static int started;
static struct tutti_win *win;

static int call(enum drive_call call, const struct drive_args *a)
{
	size_t n = a ? a->count : 0;

	switch (call) {
	case DRIVE_ALLREDUCE:
		return tutti_allreduce(a->in, a->out, n, F, TUTTI_SUM, world);
	case DRIVE_REDUCE:
		return tutti_reduce(a->in, a->out, n, F, TUTTI_SUM, 0, world);
	case DRIVE_REDUCE_SCATTER:
		return tutti_reduce_scatter(a->in, a->out, a->counts, F, TUTTI_SUM, world);
	case DRIVE_REDUCE_SCATTER_BLOCK:
		return tutti_reduce_scatter_block(a->in, a->out, n, F, TUTTI_SUM, world);
	case DRIVE_SCAN:
		return tutti_scan(a->in, a->out, n, F, TUTTI_SUM, world);
	case DRIVE_EXSCAN:
		return tutti_exscan(a->in, a->out, n, F, TUTTI_SUM, world);
	case DRIVE_BCAST:
		return tutti_bcast(a->out, n, F, 0, world);
	case DRIVE_ALLGATHER:
		return tutti_allgather(a->in, a->out, n, F, world);
	case DRIVE_ALLGATHERV:
		return tutti_allgatherv(a->in, n, a->out, a->counts, a->displs, F, world);
	case DRIVE_ALLTOALL:
		return tutti_alltoall(a->in, a->out, n, F, world);
	case DRIVE_ALLTOALLV:
		return tutti_alltoallv(a->in, a->counts, a->displs, a->out, a->counts, a->displs, F,
				       world);
	case DRIVE_GATHER:
		return tutti_gather(a->in, a->out, n, F, 0, world);
	case DRIVE_SCATTER:
		return tutti_scatter(a->in, a->out, n, F, 0, world);
	default:
		return tutti_barrier(world);
	}
}

static int maximum(double *values, size_t count)
{
	return tutti_allreduce(TUTTI_IN_PLACE, values, count, TUTTI_FLOAT64, TUTTI_MAX, world);
}

static void *pool(size_t bytes)
{
	void *mem = NULL;

	return tutti_alloc(ctx, bytes, &mem) ? NULL : mem;
}

static int send_one(const void *buf, size_t bytes, int rank)
{
	return tutti_send(buf, bytes, TUTTI_UINT8, rank, 1, world);
}

static int recv_one(void *buf, size_t bytes, int rank)
{
	return tutti_recv(buf, bytes, TUTTI_UINT8, rank, 1, world, NULL);
}

static int isend(const void *buf, size_t bytes, int rank)
{
	return tutti_isend(buf, bytes, TUTTI_UINT8, rank, 1, world, &requests[started++]);
}

static int irecv(void *buf, size_t bytes, int rank)
{
	return tutti_irecv(buf, bytes, TUTTI_UINT8, rank, 1, world, NULL, &requests[started++]);
}

static int wait_all(void)
{
	int n = started;

	started = 0;
	return tutti_waitall(n, requests);
}

static int expose(size_t bytes, int shared, int accumulates, void **base)
{
	(void)shared;
	return tutti_win_allocate(world, bytes, accumulates ? TUTTI_WIN_ACCUMULATE : 0, base, &win);
}

static int put(const void *buf, size_t bytes)
{
	return tutti_put(win, 1, buf, bytes, 0);
}

static int get(void *buf, size_t bytes)
{
	return tutti_get(win, 1, buf, bytes, 0);
}

static int accumulate(const void *buf, size_t bytes)
{
	return tutti_accumulate(win, 1, buf, bytes / 4, TUTTI_UINT32, TUTTI_SUM, 0);
}

static int get_accumulate(const void *buf, void *old, size_t bytes)
{
	return tutti_get_accumulate(win, 1, buf, old, bytes / 4, TUTTI_UINT32, TUTTI_SUM, 0);
}

static int fetch_add(uint64_t value, uint64_t *old)
{
	return tutti_fetch_add(win, 1, value, 0, old);
}

static int compare_swap(uint64_t compare, uint64_t value, uint64_t *old)
{
	return tutti_compare_swap(win, 1, compare, value, 0, old);
}

static int flush(void)
{
	return tutti_win_flush(win, 1);
}

static int end_access(void)
{
	return 0;
}

static int conceal(void)
{
	return tutti_win_free(win);
}

int main(int argc, char **argv)
{
	struct peer peer = {.call = call,
			    .calls = ~0u,
			    .max = maximum,
			    .alloc = pool,
			    .send = send_one,
			    .recv = recv_one,
			    .isend = isend,
			    .irecv = irecv,
			    .wait = wait_all,
			    .expose = expose,
			    .put = put,
			    .get = get,
			    .accumulate = accumulate,
			    .get_accumulate = get_accumulate,
			    .fetch_add = fetch_add,
			    .compare_swap = compare_swap,
			    .flush = flush,
			    .close = end_access,
			    .conceal = conceal};
	const char *plain = getenv("COMPARE_MALLOC");
	int err = tutti_init(NULL, &ctx), status;

	if (err)
		return fprintf(stderr, "drive_tutti: %s\n", tutti_strerror(err)), 1;
	world = tutti_world(ctx);
	peer.rank = tutti_comm_rank(world);
	peer.ranks = tutti_comm_size(world);
	if (plain && plain[0] == '1')
		peer.alloc = NULL;
	status = drive(&peer, argc, argv);
	return status ? status : tutti_finalize(ctx) != 0;
}
