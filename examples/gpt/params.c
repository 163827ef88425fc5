/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The parameters of this rank. All of a rank lie in one array, layer after layer, and so do their
 * gradients. A parameter's initial value depends on its place in the whole model alone, so every
 * grid starts from the same model.
 */
#include "examples/gpt/gpt.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static size_t elements(const struct param *p)
{
	return (size_t)p->blocks * (size_t)p->nrows * (size_t)p->ncols;
}

/* A parameter of the model, and if mine, of this rank. Returns the place of this rank's part. */
static size_t add(struct gpt *g, int mine, struct param p)
{
	p.at = g->count;
	p.file_at = g->file_count;
	g->file_count += (size_t)p.blocks * (size_t)p.rows * (size_t)p.cols;
	if (mine) {
		g->params[g->nparams++] = p;
		g->count += elements(&p);
	}
	return p.at;
}

static struct param whole(int rows, int cols, double spread, real fill)
{
	return (struct param){.blocks = 1,
			      .rows = rows,
			      .cols = cols,
			      .nrows = rows,
			      .ncols = cols,
			      .spread = spread,
			      .fill = fill};
}

/* Each rank of the tensor axis has a part of the rows of each block: a part of the outputs. */
static struct param by_rows(const struct gpt *g, int blocks, int rows, int cols, double spread)
{
	struct param p = whole(rows, cols, spread, 0);

	p.blocks = blocks;
	p.nrows = rows / g->o.dims[TENSOR];
	p.first_row = p.nrows * g->at[TENSOR];
	return p;
}

/* A part of the columns: of the inputs. */
static struct param by_cols(const struct gpt *g, int rows, int cols, double spread)
{
	struct param p = whole(rows, cols, spread, 0);

	p.ncols = cols / g->o.dims[TENSOR];
	p.first_col = p.ncols * g->at[TENSOR];
	return p;
}

/* here: the layer's number on this rank, or -1 */
static void add_layer(struct gpt *g, int here)
{
	int d = g->o.hidden, i;
	double small = 0.02 / sqrt(2.0 * g->o.layers);
	struct param p[LAYER_WEIGHTS] = {
		[LN1_GAIN] = whole(1, d, 0, 1),	      [LN1_BIAS] = whole(1, d, 0, 0),
		[QKV] = by_rows(g, 3, d, d, 0.02),    [QKV_BIAS] = by_rows(g, 3, d, 1, 0),
		[PROJECT] = by_cols(g, d, d, small),  [PROJECT_BIAS] = whole(1, d, 0, 0),
		[LN2_GAIN] = whole(1, d, 0, 1),	      [LN2_BIAS] = whole(1, d, 0, 0),
		[FC] = by_rows(g, 1, 4 * d, d, 0.02), [FC_BIAS] = by_rows(g, 1, 4 * d, 1, 0),
		[OUT] = by_cols(g, d, 4 * d, small),  [OUT_BIAS] = whole(1, d, 0, 0),
	};
	size_t at;

	for (i = 0; i < LAYER_WEIGHTS; i++) {
		at = add(g, here >= 0, p[i]);
		if (here >= 0)
			g->layer_at[here][i] = at;
	}
}

/* The number here of a layer of the model: chunks follow each other. Part k is on stage k % p. */
static int layer_here(const struct gpt *g, int layer)
{
	int part = layer / g->part_layers, p = g->o.dims[PIPELINE];

	return part % p == g->at[PIPELINE] ? part / p * g->part_layers + layer % g->part_layers
					   : -1;
}

static void add_all(struct gpt *g)
{
	struct param embed = whole(VOCAB, g->o.hidden, 0.02, 0), copy = embed;
	int l;

	g->embed = g->head = add(g, g->first, embed);
	g->position = add(g, g->first, whole(g->o.length, g->o.hidden, 0.02, 0));
	for (l = 0; l < g->o.layers; l++)
		add_layer(g, layer_here(g, l));
	g->gain = add(g, g->last, whole(1, g->o.hidden, 0, 1));
	g->bias = add(g, g->last, whole(1, g->o.hidden, 0, 0));
	if (!g->last || g->first)
		return;
	copy.at = g->head = g->count; /* the last stage's copy has the same place in the model */
	g->params[g->nparams++] = copy;
	g->count += elements(&copy);
}

/* Two uniform numbers make a normal one (Box and Muller). */
static real initial(const struct gpt *g, const struct param *p, size_t place)
{
	double u, w;

	if (p->spread == 0)
		return p->fill;
	u = ((double)(text_mix((uint64_t)g->o.seed, 2 * place) >> 11) + 1) / 9007199254740993.0;
	w = (double)(text_mix((uint64_t)g->o.seed, 2 * place + 1) >> 11) / 9007199254740992.0;
	return (real)(p->spread * sqrt(-2 * log(u)) * cos(6.28318530717958647692 * w));
}

static int fill_run(struct gpt *g, const struct param *p, size_t at, size_t whole_at, size_t n,
		    void *arg)
{
	size_t i;

	for (i = 0; i < n; i++)
		g->value[at + i] = initial(g, p, whole_at + i);
	return 0;
}

int params_each_run(struct gpt *g,
		    int (*fn)(struct gpt *g, const struct param *p, size_t at, size_t whole_at,
			      size_t n, void *arg),
		    void *arg)
{
	const struct param *p;
	size_t at, row;
	int b, r, err = 0;

	for (p = g->params; p < g->params + g->nparams; p++) {
		at = p->at;
		for (b = 0; b < p->blocks; b++)
			for (r = 0; r < p->nrows && !err; r++, at += (size_t)p->ncols) {
				row = (size_t)b * (size_t)p->rows + (size_t)(p->first_row + r);
				err = fn(g, p, at,
					 p->file_at + row * (size_t)p->cols + (size_t)p->first_col,
					 (size_t)p->ncols, arg);
			}
	}
	return err;
}

int params_make(struct gpt *g)
{
	int err;

	g->doing = "allocating the parameters";
	g->params = calloc((size_t)(g->nlayers * LAYER_WEIGHTS + 5), sizeof(*g->params));
	g->layer_at = calloc((size_t)g->nlayers, sizeof(*g->layer_at));
	if (!g->params || !g->layer_at)
		return -ENOMEM;
	add_all(g);
	err = tutti_alloc(g->ctx, g->count * sizeof(real), (void **)&g->value);
	if (!err)
		err = tutti_alloc(g->ctx, g->count * sizeof(real), (void **)&g->grad);
	return err ? err : params_each_run(g, fill_run, NULL);
}
