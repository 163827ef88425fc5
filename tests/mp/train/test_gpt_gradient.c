/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * examples/gpt: its gradients against differences of the loss, and its optimizer's first step;
 * parameters that ranks of a replica share, with servers.
 */
#include "config.h"

#include "examples/gpt/gpt.h"
#include "tests/mp/job.h"

#include <math.h>
#include <stdio.h>

#define TEXT 200
#define STEP 1e-5

#define OPTIONS                                                                                    \
	.layers = 2, .hidden = 8, .heads = 2, .length = 6, .batch = 4, .micro = 2, .chunks = 1,    \
	.seed = 5, .rate = 0.01, .decay = 0.1, .schedule = TUTTI_PIPELINE_1F1B

static int make(struct mp_job *job, struct gpt *g)
{
	int i;

	g->text = malloc(TEXT);
	g->text_len = TEXT;
	for (i = 0; i < TEXT; i++)
		g->text[i] = (uint8_t)(text_mix(1, (uint64_t)i) % 256);
	MP_OK(grid_make(g));
	MP_OK(params_make(g));
	MP_OK(stage_make(g));
	MP_OK(gradients_make(g));
	MP_OK(adamw_make(g));
	for (i = 0; i < (int)g->count; i++) /* nothing is 0 or 1, so that no error cancels */
		g->value[i] += 0.3 * ((double)(text_mix(2, (uint64_t)i) % 1000) / 1000 - 0.5);
	return 0;
}

static int loss_at(struct mp_job *job, struct gpt *g, double *loss)
{
	MP_OK(stage_run(g));
	MP_OK(gradients_finish(g));
	*loss = g->loss / (g->o.batch * g->o.length);
	return 0;
}

/* Every parameter, five of its elements. */
static int differences(struct mp_job *job, struct gpt *g, const double *grad)
{
	double above, below, slope, kept;
	const struct param *p;
	size_t n, i, k;

	for (p = g->params; p < g->params + g->nparams; p++) {
		n = (size_t)p->blocks * (size_t)p->nrows * (size_t)p->ncols;
		for (k = 0; k < 5; k++) {
			i = p->at + text_mix(3, k) % n;
			kept = g->value[i];
			g->value[i] = kept + STEP;
			TT_EXPECT(!loss_at(job, g, &above));
			g->value[i] = kept - STEP;
			TT_EXPECT(!loss_at(job, g, &below));
			g->value[i] = kept;
			slope = (above - below) / (2 * STEP);
			if (fabs(slope - grad[i]) > 1e-6 * (1e-3 + fabs(slope)))
				fprintf(stderr, "parameter %d element %zu: %.12g, slope %.12g\n",
					(int)(p - g->params), i - p->at, grad[i], slope);
			TT_EXPECT(fabs(slope - grad[i]) <= 1e-6 * (1e-3 + fabs(slope)));
		}
	}
	return 0;
}

/* From moments 0, AdamW moves by the rate against the sign, and decays. */
static int first_step(struct mp_job *job, struct gpt *g)
{
	double before[3], expected;
	size_t i, at[3] = {g->position, g->layer_at[1][FC], g->gain};

	for (i = 0; i < 3; i++)
		before[i] = g->value[at[i]];
	MP_OK(adamw_step(g));
	for (i = 0; i < 3; i++) {
		TT_EXPECT(fabs(g->grad[at[i]]) > 1e-5);
		expected = before[i] - 0.01 * copysign(1, g->grad[at[i]]) - 0.001 * before[i];
		TT_EXPECT(fabs(g->value[at[i]] - expected) < 2e-5);
	}
	return 0;
}

static int gradient_body(struct mp_job *job)
{
	struct gpt g = {.ctx = job->ctx, .world = job->world, .o = {OPTIONS, .dims = {1, 0, 1}}};
	double loss, *grad;

	TT_EXPECT(!make(job, &g));
	TT_EXPECT(!loss_at(job, &g, &loss));
	grad = malloc(g.count * sizeof(*grad));
	memcpy(grad, g.grad, g.count * sizeof(*grad));
	TT_EXPECT(!differences(job, &g, grad));
	TT_EXPECT(!loss_at(job, &g, &loss));
	TT_EXPECT(!first_step(job, &g));
	free(grad);
	gpt_free(&g);
	return 0;
}

/* Ranks of a replica have the same bits of what all of them have. */
static int same_shared(struct mp_job *job, struct gpt *g)
{
	double least[256], most[256];
	const struct param *p;
	size_t n, at, k;

	for (p = g->params; p < g->params + g->nparams; p++) {
		n = p->nrows == p->rows && p->ncols == p->cols ? (size_t)(p->rows * p->cols) : 0;
		for (at = p->at; n; at += k, n -= k) {
			k = n < 256 ? n : 256;
			MP_OK(tutti_allreduce(g->value + at, least, k, TUTTI_FLOAT64, TUTTI_MIN,
					      g->comm[TENSOR]));
			MP_OK(tutti_allreduce(g->value + at, most, k, TUTTI_FLOAT64, TUTTI_MAX,
					      g->comm[TENSOR]));
			TT_EXPECT(!memcmp(least, most, k * sizeof(*least)));
		}
	}
	if (!g->tie)
		return 0;
	MP_OK(tutti_allreduce(g->value + g->head, least, 256, TUTTI_FLOAT64, TUTTI_MIN, g->tie));
	MP_OK(tutti_allreduce(g->value + g->head, most, 256, TUTTI_FLOAT64, TUTTI_MAX, g->tie));
	TT_EXPECT(!memcmp(least, most, sizeof(least)));
	return 0;
}

/* Each rank is late at times, so tables get the pushes of replicas in different orders. */
static int shared_steps(struct mp_job *job, struct gpt *g)
{
	TT_EXPECT(!make(job, g));
	MP_OK(downpour_make(g, 0));
	for (; g->step < 10; g->step++) {
		MP_OK(stage_run(g));
		MP_OK(gradients_finish(g));
		sleep_ms((double)(text_mix((uint64_t)g->step, (uint64_t)job->rank) % 5));
		MP_OK(adamw_step(g));
		TT_EXPECT(!same_shared(job, g));
	}
	return 0;
}

static int shared_body(struct mp_job *job)
{
	struct gpt g = {.ctx = job->ctx,
			.all = job->world,
			.o = {OPTIONS, .dims = {2, 2, 2}, .servers = 1, .staleness = TUTTI_PS_ASYNC,
			      .sequence_parallel = 1}};

	MP_OK(downpour_split(&g));
	if (!g.serves)
		TT_EXPECT(!shared_steps(job, &g));
	else
		MP_OK(downpour_make(&g, 0));
	MP_OK(downpour_close(&g));
	gpt_free(&g);
	return 0;
}

static void shared(void)
{
	TT_CHECK(!MP_RUN(.n = 9, .fn = shared_body));
}

static void gradient(void)
{
	TT_CHECK(!MP_RUN(.n = 1, .fn = gradient_body));
}

int main(int argc, char **argv)
{
	static const struct tt_test tests[] = {
		{"gradient", gradient}, {"shared", shared}, {NULL, NULL}};

	return tt_test_main("gpt_gradient", tests, argc, argv);
}
