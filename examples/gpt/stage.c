/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The part of the model that a pipeline stage has: with one chunk, neighbouring layers; with v
 * chunks, v such runs. The first part begins with the embedding, the last ends with the head.
 * libtutti_train runs the schedule: it calls forward and backward below for each micro-batch, and
 * moves activations and their gradients between stages.
 *
 * A layer keeps its results for a micro-batch from the forward to the backward step, in a slot.
 * There are as many slots as the schedule has micro-batches under way.
 */
#include "examples/gpt/math.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* The rows that this rank has outside the matrices of a layer. */
static size_t rows_of(const struct gpt *g, int sequences)
{
	return (size_t)sequences * (size_t)g->positions;
}

/* The first of this rank's positions. */
static int first_position(const struct gpt *g)
{
	return g->slices > 1 ? g->at[TENSOR] * g->positions : 0;
}

/* The i-th sequence of a micro-batch of this replica. */
static const uint8_t *sequence(const struct gpt *g, int micro, int i)
{
	int mine = g->o.batch / g->o.dims[DATA];

	return text_sequence(g, g->at[DATA] * mine + micro * g->sequences + i);
}

/* x: the first row of one of the sequences. */
static void embed(const struct gpt *g, const uint8_t *bytes, real *x, int sequences)
{
	size_t d = (size_t)g->o.hidden, first = (size_t)first_position(g), t, j;

	for (t = first; t < first + (size_t)g->positions; t++, x += (size_t)sequences * d)
		for (j = 0; j < d; j++)
			x[j] = g->value[g->embed + bytes[t] * d + j] +
			       g->value[g->position + t * d + j];
}

static void embed_backward(struct gpt *g, const uint8_t *bytes, const real *dx)
{
	size_t d = (size_t)g->o.hidden, first = (size_t)first_position(g), t;

	for (t = first; t < first + (size_t)g->positions; t++, dx += (size_t)g->sequences * d) {
		add_to(d, dx, g->grad + g->embed + bytes[t] * d);
		add_to(d, dx, g->grad + g->position + t * d);
	}
}

static void head_logits(struct gpt *g, struct saved_head *s, const real *x, int rows)
{
	norm_forward(rows, g->o.hidden, x, g->value + g->gain, g->value + g->bias, s->norm.xhat,
		     s->norm.rstd, s->norm.out);
	product_nt(rows, VOCAB, g->o.hidden, s->norm.out, g->value + g->head, s->prob);
}

/* The bytes that follow those of the sequence, of all rows of a micro-batch. */
static void targets(const struct gpt *g, int micro, uint8_t *target)
{
	const uint8_t *next;
	int i, t;

	for (i = 0; i < g->sequences; i++) {
		next = sequence(g, micro, i) + first_position(g) + 1;
		for (t = 0; t < g->positions; t++)
			target[t * g->sequences + i] = next[t];
	}
}

static int head_forward(struct gpt *g, int micro, const real *x)
{
	struct saved_head *s = &g->saved_head[micro % g->nslots];
	int rows = g->sequences * g->positions;
	uint8_t *target = malloc((size_t)rows);

	if (!target)
		return -ENOMEM;
	targets(g, micro, target);
	head_logits(g, s, x, rows);
	g->loss += softmax_loss(rows, VOCAB, s->prob, target);
	free(target);
	return 0;
}

/*
 * The loss is the mean over all bytes of the batch, so that gradients of all ranks just add up.
 * With servers that take them one by one, it is the mean over the bytes of this replica.
 */
static int head_backward(struct gpt *g, int micro, real *dx)
{
	struct saved_head *s = &g->saved_head[micro % g->nslots];
	int rows = g->sequences * g->positions, d = g->o.hidden, i;
	int replicas = g->o.servers && g->o.staleness ? g->o.dims[DATA] : 1;
	real share = (real)(replicas / ((double)g->o.batch * g->o.length));
	uint8_t *target = malloc((size_t)rows);

	if (!target)
		return -ENOMEM;
	targets(g, micro, target);
	for (i = 0; i < rows; i++)
		s->prob[(size_t)i * VOCAB + target[i]] -= 1;
	for (i = 0; i < rows * VOCAB; i++)
		s->prob[i] *= share;
	product_tn_add(VOCAB, d, rows, s->prob, s->norm.out, g->grad + g->head);
	product_nn(rows, d, VOCAB, s->prob, g->value + g->head, g->scratch[0]);
	memset(dx, 0, (size_t)rows * (size_t)d * sizeof(*dx));
	norm_backward(rows, d, g->scratch[0], s->norm.xhat, s->norm.rstd, g->value + g->gain,
		      g->grad + g->gain, g->grad + g->bias, dx);
	free(target);
	return 0;
}

static int run_layers(struct gpt *g, int chunk, int slot, real *x, int sequences)
{
	int first = chunk * g->part_layers, l, err = 0;

	for (l = first; l < first + g->part_layers && !err; l++) {
		err = adamw_wait(g, l);
		if (!err)
			err = layer_forward(g, l, &g->saved[l * g->nslots + slot], x, sequences);
	}
	return err;
}

/* The embedding and the head. */
static int await_ends(struct gpt *g)
{
	int err = adamw_wait(g, g->nlayers);

	return err ? err : adamw_wait(g, g->nlayers + 1);
}

static int forward(void *arg, const struct tutti_pipeline_step *step, const void *in, void *out)
{
	struct gpt *g = arg;
	size_t d = (size_t)g->o.hidden, rows = rows_of(g, g->sequences);
	real *x = out ? out : g->x;
	int i, err = in && out ? 0 : await_ends(g);

	if (err)
		return err;
	if (in)
		memcpy(x, in, rows * d * sizeof(*x));
	else
		for (i = 0; i < g->sequences; i++)
			embed(g, sequence(g, step->micro, i), x + (size_t)i * d, g->sequences);
	err = run_layers(g, step->chunk, step->micro % g->nslots, x, g->sequences);
	return err || out ? err : head_forward(g, step->micro, x);
}

/* The gradient of a layer is whole after the last micro-batch; its sum over replicas starts. */
static int backward(void *arg, const struct tutti_pipeline_step *step, const void *in,
		    const void *out_grad, void *in_grad)
{
	struct gpt *g = arg;
	size_t d = (size_t)g->o.hidden, rows = rows_of(g, g->sequences);
	real *dx = in_grad ? in_grad : g->x;
	int first = step->chunk * g->part_layers, l, i, err = 0;

	if (out_grad)
		memcpy(dx, out_grad, rows * d * sizeof(*dx));
	else
		err = head_backward(g, step->micro, dx);
	for (l = first + g->part_layers - 1; l >= first && !err; l--) {
		err = layer_backward(g, l, &g->saved[l * g->nslots + step->micro % g->nslots], dx,
				     g->sequences);
		if (!err && step->micro == g->o.micro - 1)
			err = gradients_sum_layer(g, l);
		if (!err && step->micro == g->o.micro - 1)
			err = gradients_start(g, l);
	}
	for (i = 0; i < g->sequences && !in && !err; i++)
		embed_backward(g, sequence(g, step->micro, i), dx + (size_t)i * d);
	return err;
}

int stage_run(struct gpt *g)
{
	g->doing = "running the pipeline";
	g->loss = 0;
	memset(g->grad, 0, g->count * sizeof(*g->grad));
	return tutti_pipeline_run(g->pipeline, &g->waited[PIPELINE]);
}

/* The logits of a position, from the rank that has it. */
static int give_logits(struct gpt *g, int position, real *logits)
{
	int owner = position / g->positions, at = position - first_position(g);

	if (g->slices == 1 || owner == g->at[TENSOR])
		memcpy(logits, g->saved_head->prob + at * VOCAB, VOCAB * sizeof(*logits));
	return g->slices == 1 ? 0 : tutti_bcast(logits, VOCAB, REAL, owner, g->comm[TENSOR]);
}

/* One context, padded to the length of a sequence, through all parts of the model. */
int stage_infer(struct gpt *g, const uint8_t *context, int n, real *logits)
{
	size_t d = (size_t)g->o.hidden, count = rows_of(g, 1) * d;
	int p = g->o.dims[PIPELINE], me = g->at[PIPELINE], part, err = await_ends(g);
	uint8_t *padded = calloc(1, (size_t)g->o.length);

	if (!padded)
		return -ENOMEM;
	memcpy(padded, context, (size_t)n);
	for (part = 0; part < g->parts && !err; part++) {
		if (part % p != me)
			continue;
		if (!part)
			embed(g, padded, g->x, 1);
		else if (p > 1)
			err = tutti_recv(g->x, count, REAL, (me + p - 1) % p, part,
					 g->comm[PIPELINE], NULL);
		if (!err)
			err = run_layers(g, part / p, 0, g->x, 1);
		if (!err && part < g->parts - 1 && p > 1)
			err = tutti_send(g->x, count, REAL, (me + 1) % p, part + 1,
					 g->comm[PIPELINE]);
	}
	free(padded);
	if (err || !g->last)
		return err;
	head_logits(g, g->saved_head, g->x, g->positions);
	return give_logits(g, n - 1, logits);
}

/* ---- memory ---- */

static real *take(real **next, size_t n)
{
	real *p = *next;

	*next = p ? p + n : NULL;
	return p;
}

/* With *next NULL nothing is set; returns the elements that one layer and slot needs. */
static size_t lay_out(const struct gpt *g, struct saved *s, real **next)
{
	size_t rows = rows_of(g, g->sequences), d = rows * (size_t)g->o.hidden;
	size_t all = rows * (size_t)g->slices, mine = all * (size_t)g->local;
	size_t att = all * (size_t)(g->o.heads / g->o.dims[TENSOR] * g->o.length);
	int again = g->o.gather_again;

	s->norm1.xhat = take(next, d);
	s->norm1.out = again ? g->gathered : take(next, d * (size_t)g->slices);
	s->norm2.xhat = take(next, d);
	s->norm2.out = again ? g->gathered : take(next, d * (size_t)g->slices);
	s->norm1.rstd = take(next, rows);
	s->norm2.rstd = take(next, rows);
	s->qkv = take(next, 3 * mine);
	s->y = take(next, mine);
	s->h = take(next, 4 * mine);
	s->a = take(next, 4 * mine);
	s->att = take(next, att);
	return 2 * (d + rows) + (again ? 0 : 2 * d * (size_t)g->slices) + 12 * mine + att;
}

static void lay_out_head(const struct gpt *g, struct saved_head *s, real **next)
{
	size_t rows = rows_of(g, g->sequences), d = rows * (size_t)g->o.hidden;

	s->norm.xhat = take(next, d);
	s->norm.out = take(next, d);
	s->norm.rstd = take(next, rows);
	s->prob = take(next, rows * VOCAB);
}

static int make_memory(struct gpt *g)
{
	size_t rows = rows_of(g, g->sequences), d = rows * (size_t)g->o.hidden, n;
	size_t all = d * (size_t)g->slices, layers = (size_t)(g->nlayers * g->nslots);
	size_t head = g->last ? (size_t)g->nslots * (2 * d + rows * (VOCAB + 1)) : 0;
	real *none = NULL, *next;
	struct saved unused;
	int i;

	n = lay_out(g, &unused, &none) * layers + head;
	g->kept = n * sizeof(real);
	g->kept_outside = (2 * (d + rows) * layers + head) * sizeof(real);
	n += d + all + 2 * 4 * all + (g->slices > 1 ? all : 0) + (g->o.gather_again ? all : 0);
	g->saved = calloc((size_t)(g->nlayers * g->nslots), sizeof(*g->saved));
	g->saved_head = calloc((size_t)g->nslots, sizeof(*g->saved_head));
	g->memory = next = calloc(n, sizeof(real));
	if (!g->saved || !g->saved_head || !g->memory)
		return -ENOMEM;
	if (g->o.gather_again)
		g->gathered = take(&next, all);
	for (i = 0; i < g->nlayers * g->nslots; i++)
		lay_out(g, &g->saved[i], &next);
	for (i = 0; i < g->nslots && g->last; i++)
		lay_out_head(g, &g->saved_head[i], &next);
	g->x = take(&next, d);
	g->scratch[0] = take(&next, all);
	g->scratch[1] = take(&next, 4 * all);
	g->scratch[2] = take(&next, 4 * all);
	if (g->slices > 1)
		g->scratch[3] = take(&next, all);
	return 0;
}

int stage_make(struct gpt *g)
{
	struct tutti_pipeline_config config = {.size = sizeof(config),
					       .schedule = g->o.schedule,
					       .stages = g->o.dims[PIPELINE],
					       .micro_batches = g->o.micro,
					       .chunks = g->o.chunks};
	struct tutti_pipeline_work work = {.size = sizeof(work),
					   .count = rows_of(g, g->sequences) * (size_t)g->o.hidden,
					   .datatype = REAL,
					   .forward = forward,
					   .backward = backward,
					   .arg = g};
	struct tutti_pipeline_counts counts = {.size = sizeof(counts)};
	int err;

	g->doing = "making the pipeline";
	err = tutti_pipeline_create(&config, &g->pipeline);
	if (!err)
		err = tutti_pipeline_count(g->pipeline, g->at[PIPELINE], &counts);
	if (!err)
		err = tutti_pipeline_attach(g->pipeline, g->comm[PIPELINE], &work);
	g->nslots = counts.live;
	return err ? err : make_memory(g);
}
