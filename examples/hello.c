/* SPDX-License-Identifier: BSD-3-Clause */
/* The smallest program: every rank's numbers are averaged. Run it with: tutti_run -n 4 hello */
#include <stdio.h>
#include <tutti/tutti.h>

int main(void)
{
	struct tutti_context *ctx;
	struct tutti_comm *world;
	size_t i, n = 1 << 20;
	float *grad;
	int err;

	err = tutti_init(NULL, &ctx); /* NULL: everything from the environment */
	if (err)
		return fprintf(stderr, "tutti: %s\n", tutti_strerror(err)), 1;
	world = tutti_world(ctx);
	err = tutti_alloc(ctx, n * sizeof(*grad), (void **)&grad);
	if (err)
		return tutti_comm_perror(world, "allocating"), 1;
	for (i = 0; i < n; i++)
		grad[i] = (float)tutti_comm_rank(world);
	err = tutti_allreduce(TUTTI_IN_PLACE, grad, n, TUTTI_FLOAT32, TUTTI_AVG, world);
	if (err)
		tutti_comm_perror(world, "averaging gradients"); /* which rank, where, why */
	else
		printf("rank %d of %d: the average is %g\n", tutti_comm_rank(world),
		       tutti_comm_size(world), grad[n - 1]);
	tutti_free(grad);
	return tutti_finalize(ctx) != 0 || err;
}
