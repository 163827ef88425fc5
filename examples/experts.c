/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A layer of a mixture of experts: rank j has expert j, a matrix, and every rank has tokens. A
 * router names an expert for each token. In each step
 *
 *	tokens travel to their experts, and the outputs of experts back		forward
 *	gradients by outputs travel to the experts, those by tokens back	backward
 *
 * by one tutti_alltoallv each. Ranks have different numbers of tokens for an expert, so a
 * tutti_alltoall of these numbers goes first. The experts learn a map that is the same for all
 * tokens. The router is fixed here; the gradients of one that learns stay on the token's rank.
 *
 * Each rank also computes all tokens and experts alone, and compares. Run it with:
 * tutti_run -n 4 experts
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tutti/tutti.h>

#include "examples/random.h"

enum { TOKENS = 200, DIM = 16, STEPS = 30 }; /* tokens of a rank */
static double rate; /* an expert adds up the gradients of its tokens: up to 0.3 of all */

typedef double vector[DIM];

struct expert {
	vector w[DIM], grad[DIM];
};

/* The tokens of a rank in a step, what becomes of them, and the gradients by them. */
struct batch {
	vector in[TOKENS], out[TOKENS], grad[TOKENS];
};

static struct tutti_comm *world;
static int rank, size;
static struct expert mine, *all; /* all: of this rank's own computation */
static struct batch batch, alone;

/* ---- the model ---- */

static void randomize(double *x, size_t n, uint64_t seed)
{
	while (n--)
		*x++ = 2 * random_uniform(&seed) - 1;
}

static void expert_begin(struct expert *e, int number)
{
	memset(e, 0, sizeof(*e));
	randomize(e->w[0], (size_t)DIM * DIM, (uint64_t)number + 1);
}

static void batch_begin(struct batch *b, int step, int of_rank)
{
	randomize(b->in[0], (size_t)TOKENS * DIM, ~(uint64_t)(step * size + of_rank));
}

/* Each expert looks at one element. The first ones are the more popular. */
static int route(const double *x)
{
	int i, best = 0;

	for (i = 1; i < size; i++)
		if (x[i % DIM] - 0.1 * i > x[best % DIM] - 0.1 * best)
			best = i;
	return best;
}

static void forward(const struct expert *e, const double *x, double *y)
{
	int i, j;

	for (i = 0; i < DIM; i++)
		for (y[i] = 0, j = 0; j < DIM; j++)
			y[i] += e->w[i][j] * x[j];
}

static void backward(struct expert *e, const double *x, const double *dy, double *dx)
{
	int i, j;

	memset(dx, 0, sizeof(vector));
	for (i = 0; i < DIM; i++)
		for (j = 0; j < DIM; j++) {
			e->grad[i][j] += dy[i] * x[j];
			dx[j] += e->w[i][j] * dy[i];
		}
}

static void learn(struct expert *e)
{
	int i, j;

	for (i = 0; i < DIM; i++)
		for (j = 0; j < DIM; j++)
			e->w[i][j] -= rate * e->grad[i][j];
	memset(e->grad, 0, sizeof(e->grad));
}

/* The output should be the token turned round; dy is the gradient of the loss, which is returned.
 */
static double lose(const double *x, const double *y, double *dy)
{
	double loss = 0;
	int i;

	for (i = 0; i < DIM; i++) {
		dy[i] = y[i] - x[DIM - 1 - i];
		loss += dy[i] * dy[i] / 2;
	}
	return loss;
}

/* ---- the exchange ---- */

static struct routes {
	size_t place[TOKENS];	    /* of each token in the order of experts */
	uint64_t *to, *from;	    /* tokens for each rank, and from each */
	size_t *next, *send, *recv; /* elements: those of tutti_alltoallv */
	size_t n;		    /* tokens of this rank's expert */
	vector packed[TOKENS], *in, *out;
} routes;

static int routes_begin(void)
{
	size_t n = (size_t)size;
	struct routes *r = &routes;

	r->to = malloc(n * sizeof(*r->to));
	r->from = malloc(n * sizeof(*r->from));
	r->next = malloc(n * sizeof(*r->next));
	r->send = malloc(n * sizeof(*r->send));
	r->recv = malloc(n * sizeof(*r->recv));
	r->in = malloc(n * TOKENS * sizeof(*r->in)); /* all tokens may come here */
	r->out = malloc(n * TOKENS * sizeof(*r->out));
	return r->to && r->from && r->next && r->send && r->recv && r->in && r->out;
}

static int plan(void)
{
	struct routes *r = &routes;
	int to[TOKENS], i, err;

	memset(r->to, 0, (size_t)size * sizeof(*r->to));
	for (i = 0; i < TOKENS; i++) {
		to[i] = route(batch.in[i]);
		r->to[to[i]]++;
	}
	err = tutti_alltoall(r->to, r->from, 1, TUTTI_UINT64, world);
	for (i = 0, r->n = 0; i < size && !err; i++) {
		r->next[i] = i ? r->next[i - 1] + r->to[i - 1] : 0;
		r->send[i] = r->to[i] * DIM;
		r->recv[i] = r->from[i] * DIM;
		r->n += r->from[i];
	}
	for (i = 0; i < TOKENS && !err; i++)
		r->place[i] = r->next[to[i]]++;
	return err;
}

/* A vector of each token goes to its expert; at an expert, vectors are in the order of ranks. */
static int to_experts(vector *tokens, vector *expert)
{
	int i;

	for (i = 0; i < TOKENS; i++)
		memcpy(routes.packed[routes.place[i]], tokens[i], sizeof(vector));
	return tutti_alltoallv(routes.packed, routes.send, NULL, expert, routes.recv, NULL,
			       TUTTI_FLOAT64, world);
}

static int from_experts(vector *expert, vector *tokens)
{
	int err, i;

	err = tutti_alltoallv(expert, routes.recv, NULL, routes.packed, routes.send, NULL,
			      TUTTI_FLOAT64, world);
	for (i = 0; i < TOKENS && !err; i++)
		memcpy(tokens[i], routes.packed[routes.place[i]], sizeof(vector));
	return err;
}

/* ---- a step ---- */

static int step_together(int step, double *loss)
{
	struct routes *r = &routes;
	vector dy[TOKENS];
	size_t i;
	int err;

	batch_begin(&batch, step, rank);
	err = plan();
	if (!err)
		err = to_experts(batch.in, r->in);
	for (i = 0; i < r->n && !err; i++)
		forward(&mine, r->in[i], r->out[i]);
	if (!err)
		err = from_experts(r->out, batch.out);
	for (i = 0, *loss = 0; i < TOKENS && !err; i++)
		*loss += lose(batch.in[i], batch.out[i], dy[i]);
	if (!err)
		err = to_experts(dy, r->out);
	for (i = 0; i < r->n && !err; i++) {
		vector dx;

		backward(&mine, r->in[i], r->out[i], dx);
		memcpy(r->out[i], dx, sizeof(dx));
	}
	if (!err)
		err = from_experts(r->out, batch.grad);
	learn(&mine);
	return err ? err
		   : tutti_allreduce(TUTTI_IN_PLACE, loss, 1, TUTTI_FLOAT64, TUTTI_SUM, world);
}

static double difference(vector *a, vector *b, int n)
{
	double most = 0, d;
	int i, j;

	for (i = 0; i < n; i++)
		for (j = 0; j < DIM; j++) {
			d = fabs(a[i][j] - b[i][j]);
			most = fmax(most, isnan(d) ? INFINITY : d);
		}
	return most;
}

/* The same without communication; returns the largest difference from this rank's results. */
static double step_alone(int step)
{
	double most = 0;
	vector dy;
	int r, i;

	for (r = 0; r < size; r++) {
		batch_begin(&alone, step, r);
		for (i = 0; i < TOKENS; i++) {
			struct expert *e = &all[route(alone.in[i])];

			forward(e, alone.in[i], alone.out[i]);
			lose(alone.in[i], alone.out[i], dy);
			backward(e, alone.in[i], dy, alone.grad[i]);
		}
		if (r == rank)
			most = fmax(difference(batch.out, alone.out, TOKENS),
				    difference(batch.grad, alone.grad, TOKENS));
	}
	for (r = 0; r < size; r++)
		learn(&all[r]);
	return fmax(most, difference(mine.w, all[rank].w, DIM));
}

static int train(void)
{
	double loss = 0, first = 0, most[2] = {0, 0}; /* difference, tokens of an expert */
	int step, err = 0;

	for (step = 0; step < STEPS && !err; step++) {
		err = step_together(step, &loss);
		first = step ? first : loss;
		most[0] = fmax(most[0], step_alone(step));
	}
	most[1] = (double)routes.n;
	if (!err)
		err = tutti_allreduce(TUTTI_IN_PLACE, most, 2, TUTTI_FLOAT64, TUTTI_MAX, world);
	if (err)
		return tutti_comm_perror(world, "exchanging tokens"), 1;
	if (!rank)
		printf("%d experts, up to %.0f of %d tokens at one; after %d steps loss %.1f, "
		       "%.1f at first; differs from a rank alone by at most %g\n",
		       size, most[1], size * TOKENS, STEPS, loss, first, most[0]);
	return !(most[0] <= 1e-12) || !(loss < first / 2);
}

int main(void)
{
	struct tutti_context *ctx;
	int i, bad;

	i = tutti_init(NULL, &ctx);
	if (i)
		return fprintf(stderr, "tutti: %s\n", tutti_strerror(i)), 1;
	world = tutti_world(ctx);
	rank = tutti_comm_rank(world);
	size = tutti_comm_size(world);
	rate = 0.04 / (size > 20 ? size : 20);
	all = malloc((size_t)size * sizeof(*all));
	if (!all || !routes_begin())
		return fprintf(stderr, "experts: out of memory\n"), 1;
	expert_begin(&mine, rank);
	for (i = 0; i < size; i++)
		expert_begin(&all[i], i);
	bad = train();
	free(routes.to);
	free(routes.from);
	free(routes.next);
	free(routes.send);
	free(routes.recv);
	free(routes.in);
	free(routes.out);
	free(all);
	return tutti_finalize(ctx) != 0 || bad;
}
