/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reinforcement learning in three shapes; rl.h lists the files. Try
 *
 *	tutti_run -n 4 rl --shape impala
 */
#include "examples/rl/rl.h"

#include <stdio.h>

static int run(struct tutti_comm *world, const struct options *o)
{
	if (o->shape == A3C)
		return a3c(world, o);
	return o->shape == IMPALA ? impala(world, o) : seed(world, o);
}

/* The text of the call that failed names ranks, hosts and numbers. */
static void tell_error(int rank, int err)
{
	struct tutti_error_info info = {.size = sizeof(info)};

	if (tutti_last_error(&info) || info.code != err)
		fprintf(stderr, "rl: rank %d: %s\n", rank, tutti_strerror(err));
	else
		fprintf(stderr, "rl: rank %d: %s\n", rank, info.text);
}

/* The world is tolerant: the death of an actor changes nothing for the others. */
int main(int argc, char **argv)
{
	struct tutti_config config = {.size = sizeof(config), .tolerant = 1};
	struct tutti_context *ctx;
	struct tutti_comm *world;
	struct options o;
	int err = options_read(&o, argc, argv), end;

	if (err)
		return err < 0 ? 2 : 0;
	err = tutti_init(&config, &ctx);
	if (err)
		return fprintf(stderr, "rl: starting: %s\n", tutti_strerror(err)), 1;
	world = tutti_world(ctx);
	if (o.shape != A3C && tutti_comm_size(world) < 2) {
		fprintf(stderr, "rl: --shape impala and seed need 2 ranks or more: a learner and "
				"actors\n");
		tutti_finalize(ctx);
		return 2;
	}
	err = run(world, &o);
	if (err < 0)
		tell_error(tutti_comm_rank(world), err);
	else if (err)
		fprintf(stderr, "rl: the goal of %g was not reached in %d steps\n", o.goal,
			o.steps);
	end = tutti_finalize(ctx);
	return err || (end && !only_death(end));
}
