/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A transformer layer over the ranks of the tensor axis (Megatron).
 *
 *	x' = x + project(attention(qkv(norm1(x))))      y = x' + out(gelu(fc(norm2(x'))))
 *
 * Each rank has some of the heads, and some of the hidden elements between fc and out. qkv and fc
 * are divided by their outputs, so they need no communication forward; project and out are divided
 * by their inputs, so each rank has a part of a sum: an all-reduce adds them. Backward it is the
 * other way round: the gradient by the input of qkv and of fc is a sum over ranks. That makes two
 * all-reduces forward and two backward, of sequences x length x hidden elements each.
 *
 * Norms and the biases after the all-reduce are the same on all ranks, and so are their gradients.
 *
 * With --sequence-parallel each rank has a slice of the positions of x, and norms and adds biases
 * to that slice only. An all-gather of the rows precedes qkv and fc, and a reduce-scatter follows
 * project and out; backward again the other way round. They send the bytes of the all-reduces. The
 * gradients of norms and of these biases become sums over ranks, see gradients.c.
 *
 * The gathered rows are kept for the backward pass. With --gather-again they are not: a second
 * all-gather brings them back beside the other work, for a quarter more bytes.
 *
 * M. Shoeybi et al., "Megatron-LM: Training Multi-Billion Parameter Language Models Using Model
 * Parallelism", 2019.
 * V. Korthikanti et al., "Reducing Activation Recomputation in Large Transformer Models", 2022.
 */
#include "examples/gpt/math.h"

#include <string.h>

/*
 * The sum over the tensor axis of this rank's rows of x; they are moved to its beginning. All of it
 * is exposed: the next operation needs the result.
 */
static int sum_parts(struct gpt *g, real *x, int rows)
{
	size_t n = (size_t)rows * (size_t)g->o.hidden;
	double from = now();
	int err;

	if (g->o.dims[TENSOR] == 1)
		return 0;
	if (g->slices == 1)
		err = tutti_allreduce(TUTTI_IN_PLACE, x, n, REAL, TUTTI_SUM, g->comm[TENSOR]);
	else
		err = tutti_reduce_scatter_block(TUTTI_IN_PLACE, x, n, REAL, TUTTI_SUM,
						 g->comm[TENSOR]);
	g->waited[TENSOR] += now() - from;
	return err;
}

/* The place of this rank's rows among those of all slices. */
static real *own_rows(const struct gpt *g, real *all, int rows)
{
	return g->slices == 1 ? all : all + g->at[TENSOR] * rows * g->o.hidden;
}

/* The rows of the other slices. */
static int gather(struct gpt *g, real *all, int rows)
{
	double from = now();
	int err = 0;

	if (g->slices > 1)
		err = tutti_allgather(TUTTI_IN_PLACE, all, (size_t)rows * (size_t)g->o.hidden, REAL,
				      g->comm[TENSOR]);
	g->waited[TENSOR] += now() - from;
	return err;
}

/* All rows of a gradient of which this rank has its slice. */
static int gather_gradient(struct gpt *g, real *dx, int rows, real **all)
{
	*all = g->slices == 1 ? dx : g->scratch[3];
	if (g->slices > 1)
		memcpy(own_rows(g, *all, rows), dx,
		       (size_t)rows * (size_t)g->o.hidden * sizeof(*dx));
	return gather(g, *all, rows);
}

static real *weight(const struct gpt *g, int layer, enum weight w)
{
	return g->value + g->layer_at[layer][w];
}

static real *gradient(const struct gpt *g, int layer, enum weight w)
{
	return g->grad + g->layer_at[layer][w];
}

static struct attention shape(const struct gpt *g, int sequences)
{
	int heads = g->o.heads / g->o.dims[TENSOR];

	return (struct attention){.sequences = sequences,
				  .length = g->o.length,
				  .heads = heads,
				  .width = g->local / heads};
}

/* x += the sum over ranks of part, + bias */
static int add_sum(struct gpt *g, real *part, const real *bias, real *x, int rows)
{
	int err = sum_parts(g, part, rows);

	if (err)
		return err;
	add_to((size_t)rows * (size_t)g->o.hidden, part, x);
	add_row(rows, g->o.hidden, bias, x);
	return 0;
}

/* A norm, and the matrix that follows it: its outputs on this rank. */
struct entry {
	enum weight gain, bias, matrix, matrix_bias;
	int wide;
};

static struct entry attention_entry(const struct gpt *g)
{
	return (struct entry){LN1_GAIN, LN1_BIAS, QKV, QKV_BIAS, 3 * g->local};
}

static struct entry mlp_entry(const struct gpt *g)
{
	return (struct entry){LN2_GAIN, LN2_BIAS, FC, FC_BIAS, 4 * g->local};
}

/* From x through the norm and the matrix: out. */
static int entry_forward(struct gpt *g, int l, const struct entry *e, struct saved_norm *s,
			 const real *x, int rows, real *out)
{
	int all = rows * g->slices, d = g->o.hidden, err;

	norm_forward(rows, d, x, weight(g, l, e->gain), weight(g, l, e->bias), s->xhat, s->rstd,
		     own_rows(g, s->out, rows));
	err = gather(g, s->out, rows);
	if (err)
		return err;
	product_nt(all, e->wide, d, s->out, weight(g, l, e->matrix), out);
	add_row(all, e->wide, weight(g, l, e->matrix_bias), out);
	return 0;
}

/* With gather_again: starts to bring back the input of the matrix, which the forward pass had. */
static int start_again(struct gpt *g, int l, const struct entry *e, const struct saved_norm *s,
		       int rows, struct tutti_request **request)
{
	*request = NULL;
	if (!g->o.gather_again)
		return 0;
	norm_again(rows, g->o.hidden, s->xhat, weight(g, l, e->gain), weight(g, l, e->bias),
		   own_rows(g, g->gathered, rows));
	if (g->slices == 1)
		return 0;
	return tutti_iallgather(TUTTI_IN_PLACE, g->gathered, (size_t)rows * (size_t)g->o.hidden,
				REAL, g->comm[TENSOR], request);
}

static int wait_again(struct gpt *g, struct tutti_request **request)
{
	double from = now();
	int err = tutti_wait(request);

	g->waited[TENSOR] += now() - from;
	return err;
}

/* dout: the gradient by out of entry_forward. Adds the gradient by its x to dx. */
static int entry_backward(struct gpt *g, int l, const struct entry *e, const struct saved_norm *s,
			  const real *dout, int rows, real *dx, struct tutti_request **again)
{
	int all = rows * g->slices, d = g->o.hidden, err;
	real *dnorm = g->scratch[0];

	add_column_sums(all, e->wide, dout, gradient(g, l, e->matrix_bias));
	err = wait_again(g, again);
	if (err)
		return err;
	product_tn_add(e->wide, d, all, dout, s->out, gradient(g, l, e->matrix));
	product_nn(all, d, e->wide, dout, weight(g, l, e->matrix), dnorm);
	err = sum_parts(g, dnorm, rows);
	if (!err)
		norm_backward(rows, d, dnorm, s->xhat, s->rstd, weight(g, l, e->gain),
			      gradient(g, l, e->gain), gradient(g, l, e->bias), dx);
	return err;
}

int layer_forward(struct gpt *g, int l, struct saved *s, real *x, int sequences)
{
	int rows = sequences * g->positions, all = rows * g->slices, d = g->o.hidden;
	int mine = g->local, err;
	struct entry to_attention = attention_entry(g), to_mlp = mlp_entry(g);
	struct attention att = shape(g, sequences);
	real *part = g->scratch[0];

	err = entry_forward(g, l, &to_attention, &s->norm1, x, rows, s->qkv);
	if (err)
		return err;
	attention_forward(&att, s->qkv, s->att, s->y);
	product_nt(all, d, mine, s->y, weight(g, l, PROJECT), part);
	err = add_sum(g, part, weight(g, l, PROJECT_BIAS), x, rows);
	if (!err)
		err = entry_forward(g, l, &to_mlp, &s->norm2, x, rows, s->h);
	if (err)
		return err;
	gelu_forward((size_t)all * 4 * (size_t)mine, s->h, s->a);
	product_nt(all, d, 4 * mine, s->a, weight(g, l, OUT), part);
	return add_sum(g, part, weight(g, l, OUT_BIAS), x, rows);
}

/* From the output of the layer to x'. dx is the gradient by the output, then by x'. */
static int mlp_backward(struct gpt *g, int l, struct saved *s, real *dx, int rows)
{
	int all = rows * g->slices, d = g->o.hidden, err;
	struct entry to_mlp = mlp_entry(g);
	real *da = g->scratch[1], *dout;
	struct tutti_request *again;

	err = start_again(g, l, &to_mlp, &s->norm2, rows, &again);
	if (!err)
		err = gather_gradient(g, dx, rows, &dout);
	if (err)
		return err;
	add_column_sums(rows, d, dx, gradient(g, l, OUT_BIAS));
	product_tn_add(d, to_mlp.wide, all, dout, s->a, gradient(g, l, OUT));
	product_nn(all, to_mlp.wide, d, dout, weight(g, l, OUT), da);
	gelu_backward((size_t)all * (size_t)to_mlp.wide, s->h, da);
	return entry_backward(g, l, &to_mlp, &s->norm2, da, rows, dx, &again);
}

/* From x' to x, likewise. */
static int attend_backward(struct gpt *g, int l, struct saved *s, real *dx, int sequences)
{
	int rows = sequences * g->positions, all = rows * g->slices, d = g->o.hidden;
	int mine = g->local, err;
	struct entry to_attention = attention_entry(g);
	struct attention att = shape(g, sequences);
	real *dy = g->scratch[2], *dqkv = g->scratch[1], *dout;
	struct tutti_request *again;

	err = start_again(g, l, &to_attention, &s->norm1, rows, &again);
	if (!err)
		err = gather_gradient(g, dx, rows, &dout);
	if (err)
		return err;
	add_column_sums(rows, d, dx, gradient(g, l, PROJECT_BIAS));
	product_tn_add(d, mine, all, dout, s->y, gradient(g, l, PROJECT));
	product_nn(all, mine, d, dout, weight(g, l, PROJECT), dy);
	attention_backward(&att, s->qkv, s->att, dy, dqkv);
	return entry_backward(g, l, &to_attention, &s->norm1, dqkv, rows, dx, &again);
}

int layer_backward(struct gpt *g, int l, struct saved *s, real *dx, int sequences)
{
	int err = mlp_backward(g, l, s, dx, sequences * g->positions);

	return err ? err : attend_backward(g, l, s, dx, sequences);
}
