/* SPDX-License-Identifier: BSD-3-Clause */
/* tutti: buffers of its pool or, with COMPARE_MALLOC=1, of malloc. */
#include <stdio.h>
#include <stdlib.h>
#include <tutti/tutti.h>

#include "perf/compare/drive.h"

static struct tutti_context *ctx;
static struct tutti_comm *world;

static int allreduce(const float *in, float *out, size_t count)
{
	return tutti_allreduce(in, out, count, TUTTI_FLOAT32, TUTTI_SUM, world);
}

static int barrier(void)
{
	return tutti_barrier(world);
}

static int max(double *values, size_t count)
{
	return tutti_allreduce(TUTTI_IN_PLACE, values, count, TUTTI_FLOAT64, TUTTI_MAX, world);
}

static void *pool(size_t bytes)
{
	void *mem = NULL;

	return tutti_alloc(ctx, bytes, &mem) ? NULL : mem;
}

int main(int argc, char **argv)
{
	struct peer peer = {.allreduce = allreduce, .barrier = barrier, .max = max, .alloc = pool};
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
