/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A training step of the sharded optimizer (stochastic gradient descent, stages 1 and 2, in turn)
 * over the 161 gradients of ResNet-50: a backward pass as sleeps, the step, and a forward pass of
 * half the time, as sleeps, too, that waits for each tensor before its use. perf/buckets runs it.
 *
 *	sharded [-t BACKWARD_MS] [-d DIVISOR] [-l MBIT] [-m MTU] [-b BUCKET_KIB] [-r REPEATS]
 *
 * Exposed is the time by which communication makes backward pass, step and forward pass longer, of
 * the slowest rank: in the backward pass and the step, until the first tensor has come, and in the
 * rest of the forward pass. The options are those of backward.c; -l and -m change nothing here.
 */
#include <tutti/train.h>

#include "perf/pass.h"

#define STAGES 2

enum when { STEP, FIRST, FORWARD, ALL, WHENS };
static const char *const when_names[WHENS] = {"in backward pass and step", "until the first tensor",
					      "in the forward pass", "all"};

static int backward(const struct pass *p, struct tutti_sharded *s, double *exposed)
{
	double start = now();
	int err = 0;
	size_t i;

	for (i = TENSORS; !err && i-- > 0;) {
		pass_compute(p, start, i);
		err = tutti_sharded_ready(s, i, p->tensor[i]);
	}
	err = err ? err : tutti_sharded_step(s, NULL);
	exposed[STEP] = now() - start - p->backward_ms / 1e3;
	return err;
}

static int forward(const struct pass *p, struct tutti_sharded *s, double *exposed)
{
	double each = p->backward_ms / 2e3 / TENSORS; /* seconds of a tensor */
	const struct timespec layer = {(time_t)each, (long)((each - (double)(time_t)each) * 1e9)};
	double start;
	int err = 0;
	size_t i;

	for (i = 0; !err && i < TENSORS; i++) {
		start = now();
		err = tutti_sharded_wait(s, i);
		exposed[i ? FORWARD : FIRST] += now() - start;
		nanosleep(&layer, NULL);
	}
	return err;
}

/* Seconds of the slowest rank. */
static int step(const struct pass *p, struct tutti_comm *world, struct tutti_sharded *s,
		double *exposed)
{
	int err = tutti_barrier(world);

	err = err ? err : backward(p, s, exposed);
	err = err ? err : forward(p, s, exposed);
	exposed[ALL] = exposed[STEP] + exposed[FIRST] + exposed[FORWARD];
	return err ? err
		   : tutti_allreduce(TUTTI_IN_PLACE, exposed, WHENS, TUTTI_FLOAT64, TUTTI_MAX,
				     world);
}

static void report(const struct pass *p, double times[STAGES][WHENS][REPEATS_MAX], int n)
{
	char way[32];
	int k, w;

	printf("# %d ranks, %zu parameters in %d tensors, backward %d ms, forward %d ms\n", n,
	       p->total, TENSORS, p->backward_ms, p->backward_ms / 2);
	for (k = 0; k < STAGES; k++) {
		snprintf(way, sizeof(way), "sharded stage %d", k + 1);
		printf("%-20s %9.1f ms exposed:", way,
		       pass_median(times[k][ALL], p->repeats) * 1e3);
		for (w = 0; w < ALL; w++)
			printf("%s %.1f %s", w ? "," : "",
			       pass_median(times[k][w], p->repeats) * 1e3, when_names[w]);
		printf("\n");
	}
}

static int create(struct tutti_comm *world, struct pass *p, float *parameters, int stage,
		  struct tutti_sharded **s)
{
	struct tutti_rule rule = {.size = sizeof(rule), .rule = TUTTI_PS_SGD, .rate = 1e-3};
	void *tensor[TENSORS];
	struct tutti_sharded_config config = {.size = sizeof(config),
					      .n = TENSORS,
					      .counts = p->counts,
					      .parameters = tensor,
					      .datatype = TUTTI_FLOAT32,
					      .bucket_bytes = (size_t)p->bucket_kib * KIB /
							      (size_t)p->divisor,
					      .stage = stage,
					      .rule = &rule};
	size_t i, at = 0;

	for (i = 0; i < TENSORS; at += p->counts[i++])
		tensor[i] = parameters + at;
	return tutti_sharded_create(world, &config, s);
}

static int measure(struct tutti_comm *world, struct pass *p, float *parameters)
{
	static double times[STAGES][WHENS][REPEATS_MAX];
	struct tutti_sharded *s[STAGES] = {NULL};
	double exposed[WHENS];
	int err = 0, k, r, w;

	for (k = 0; !err && k < STAGES; k++)
		err = create(world, p, parameters, k + 1, &s[k]);
	if (err)
		return fail("tutti_sharded_create", err);
	for (r = -1; !err && r < p->repeats; r++) /* the first round is not counted */
		for (k = 0; !err && k < STAGES; k++) {
			for (w = 0; w < WHENS; w++)
				exposed[w] = 0;
			err = step(p, world, s[k], exposed);
			for (w = 0; r >= 0 && w < WHENS; w++)
				times[k][w][r] = exposed[w];
		}
	if (err)
		return fail("a step", err);
	if (!tutti_comm_rank(world))
		report(p, times, tutti_comm_size(world));
	for (k = 0; !err && k < STAGES; k++)
		err = tutti_sharded_free(s[k]);
	return err;
}

static int run(struct tutti_context *ctx, struct pass *p)
{
	float *parameters;
	int err = tutti_alloc(ctx, p->total * sizeof(float), (void **)&parameters);
	size_t i;

	if (err)
		return fail("tutti_alloc", err);
	for (i = 0; i < p->total; i++)
		parameters[i] = 0;
	err = measure(tutti_world(ctx), p, parameters);
	tutti_free(parameters);
	return err;
}

int main(int argc, char **argv)
{
	return pass_main(argc, argv, run);
}
