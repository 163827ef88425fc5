/* SPDX-License-Identifier: BSD-3-Clause */
/* The arithmetic of the perceptron, in plain loops. */
#include "examples/mlp.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "examples/random.h"

int mlp_init(struct mlp *net, int inputs, int hidden, int classes, int max_rows)
{
	const int width[MLP_LAYERS + 1] = {inputs, hidden, hidden, classes};
	struct layer *layer;
	int l;

	memset(net, 0, sizeof(*net));
	for (l = 0; l < MLP_LAYERS; l++) {
		layer = &net->layers[l];
		layer->in = width[l];
		layer->out = width[l + 1];
		layer->size = layer->in * layer->out + layer->out;
		layer->velocity = calloc((size_t)layer->size, sizeof(double));
		layer->output = calloc((size_t)max_rows * (size_t)layer->out, sizeof(double));
		layer->delta = calloc((size_t)max_rows * (size_t)layer->out, sizeof(double));
		if (!layer->velocity || !layer->output || !layer->delta) {
			mlp_free(net);
			return -1;
		}
	}
	return 0;
}

void mlp_free(struct mlp *net)
{
	int l;

	for (l = 0; l < MLP_LAYERS; l++) {
		free(net->layers[l].velocity);
		free(net->layers[l].output);
		free(net->layers[l].delta);
	}
}

/* Uniform, as wide as keeps the variance through ReLU (He et al., 2015); biases 0. */
void mlp_random_weights(struct mlp *net, uint64_t seed)
{
	struct layer *layer;
	double width;
	int l, i;

	for (l = 0; l < MLP_LAYERS; l++) {
		layer = &net->layers[l];
		width = sqrt(6.0 / layer->in);
		memset(layer->weights, 0, (size_t)layer->size * sizeof(double));
		for (i = 0; i < layer->in * layer->out; i++)
			layer->weights[i] = width * (2 * random_uniform(&seed) - 1);
	}
}

/* The input of layer l: the outputs of the previous layer, or the data. */
static const double *input_of(const struct mlp *net, int l)
{
	return l ? net->layers[l - 1].output : net->input;
}

void mlp_forward(struct mlp *net, const double *input, int rows)
{
	const struct layer *layer;
	const double *x, *w;
	double *y;
	int l, r, i, o;

	net->input = input;
	net->rows = rows;
	for (l = 0; l < MLP_LAYERS; l++) {
		layer = &net->layers[l];
		for (r = 0; r < rows; r++) {
			x = input_of(net, l) + r * layer->in;
			y = layer->output + r * layer->out;
			memcpy(y, layer->weights + layer->in * layer->out,
			       (size_t)layer->out * sizeof(double));
			for (i = 0; i < layer->in; i++) {
				w = layer->weights + i * layer->out;
				for (o = 0; o < layer->out; o++)
					y[o] += x[i] * w[o];
			}
			for (o = 0; o < layer->out && l < MLP_LAYERS - 1; o++)
				y[o] = y[o] > 0 ? y[o] : 0;
		}
	}
}

/* Softmax and cross entropy of one row; the derivative is softmax minus the one-hot label. */
static double row_loss(const double *y, double *delta, int n, int label, int *right)
{
	double sum = 0;
	int best = 0, o;

	for (o = 1; o < n; o++)
		if (y[o] > y[best])
			best = o;
	for (o = 0; o < n; o++)
		sum += exp(y[o] - y[best]);
	for (o = 0; o < n; o++)
		delta[o] = exp(y[o] - y[best]) / sum - (o == label);
	*right += best == label;
	return log(sum) - (y[label] - y[best]);
}

double mlp_loss(struct mlp *net, const uint8_t *labels, int *right)
{
	const struct layer *last = &net->layers[MLP_LAYERS - 1];
	double loss = 0;
	int r;

	*right = 0;
	for (r = 0; r < net->rows; r++)
		loss += row_loss(last->output + r * last->out, last->delta + r * last->out,
				 last->out, labels[r], right);
	return loss;
}

void mlp_gradient(struct mlp *net, int l)
{
	const struct layer *layer = &net->layers[l];
	double *bias = layer->gradient + layer->in * layer->out, *g;
	const double *x, *delta;
	int r, i, o;

	memset(layer->gradient, 0, (size_t)layer->size * sizeof(double));
	for (r = 0; r < net->rows; r++) {
		x = input_of(net, l) + r * layer->in;
		delta = layer->delta + r * layer->out;
		for (i = 0; i < layer->in; i++) {
			g = layer->gradient + i * layer->out;
			for (o = 0; o < layer->out; o++)
				g[o] += x[i] * delta[o];
		}
		for (o = 0; o < layer->out; o++)
			bias[o] += delta[o];
	}
}

void mlp_backward(struct mlp *net, int l)
{
	const struct layer *layer = &net->layers[l], *before = &net->layers[l - 1];
	const double *w, *delta;
	double sum;
	int r, i, o;

	for (r = 0; r < net->rows; r++) {
		delta = layer->delta + r * layer->out;
		for (i = 0; i < layer->in; i++) {
			w = layer->weights + i * layer->out;
			sum = 0;
			for (o = 0; o < layer->out; o++)
				sum += w[o] * delta[o];
			/* ReLU let this one through only if its output is positive */
			before->delta[r * layer->in + i] =
				before->output[r * layer->in + i] > 0 ? sum : 0;
		}
	}
}

void mlp_step(struct mlp *net, int samples, double rate, double momentum)
{
	struct layer *layer;
	int l, i;

	for (l = 0; l < MLP_LAYERS; l++) {
		layer = &net->layers[l];
		for (i = 0; i < layer->size; i++) {
			layer->velocity[i] =
				momentum * layer->velocity[i] - rate * layer->gradient[i] / samples;
			layer->weights[i] += layer->velocity[i];
		}
	}
}
