/* SPDX-License-Identifier: BSD-3-Clause */
/* A user's program, built against an installed tutti: C11 and C++11 alike. */
#include <stdio.h>
#include <tutti/tutti.h>

int main(void)
{
	struct tutti_context *ctx;
	struct tutti_comm *world;
	int one = 1, sum = 0, err;

	err = tutti_init(NULL, &ctx);
	if (err) {
		fprintf(stderr, "tutti_init: %s\n", tutti_strerror(err));
		return 1;
	}
	world = tutti_world(ctx);
	err = tutti_allreduce(&one, &sum, 1, TUTTI_INT32, TUTTI_SUM, world);
	if (err || sum != tutti_comm_size(world)) {
		tutti_comm_perror(world, "allreduce");
		return 1;
	}
	printf("rank %d of %d: sum %d\n", tutti_comm_rank(world), tutti_comm_size(world), sum);
	return tutti_finalize(ctx) != 0;
}
