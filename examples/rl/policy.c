/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Policy and value: two perceptrons with one hidden layer of tanh each. All weights are one vector,
 * so that they travel as one table or message.
 */
#include "examples/rl/rl.h"

#include <math.h>
#include <string.h>

#include "examples/random.h"

/* Where the layers are in the vector: rows of weights, then biases. */
enum {
	SIZE1 = HIDDEN * (OBSERVED + 1), /* the hidden layer of each net */
	AT_HEAD = 2 * SIZE1,
	AT_VALUE = AT_HEAD + ACTIONS * (HIDDEN + 1)
};

static void start_layer(double *w, int rows, int columns, double size, uint64_t *random)
{
	int i;

	for (i = 0; i < rows * columns; i++)
		w[i] = size * (2 * random_uniform(random) - 1) / sqrt(columns);
	memset(w + rows * columns, 0, (size_t)rows * sizeof(*w));
}

void policy_start(double *w, uint64_t seed)
{
	start_layer(w, HIDDEN, OBSERVED, 1.7, &seed);
	start_layer(w + SIZE1, HIDDEN, OBSERVED, 1.7, &seed);
	start_layer(w + AT_HEAD, ACTIONS, HIDDEN, 0.02, &seed);
	start_layer(w + AT_VALUE, 1, HIDDEN, 0.5, &seed);
}

/* out = w in + bias */
static void layer(const double *w, int rows, int columns, const double *in, double *out)
{
	int i, j;

	for (i = 0; i < rows; i++) {
		out[i] = w[rows * columns + i];
		for (j = 0; j < columns; j++)
			out[i] += w[i * columns + j] * in[j];
	}
}

/* Adds to g the gradient of the weights, and to din that of the input (NULL: not wanted). */
static void layer_back(const double *w, int rows, int columns, const double *in, const double *dout,
		       double *g, double *din)
{
	int i, j;

	for (i = 0; i < rows; i++) {
		g[rows * columns + i] += dout[i];
		for (j = 0; j < columns; j++) {
			g[i * columns + j] += dout[i] * in[j];
			if (din)
				din[j] += dout[i] * w[i * columns + j];
		}
	}
}

void policy_forward(const double *w, const double *seen, struct policy_out *out)
{
	double logit[ACTIONS], most, sum = 0;
	int net, i;

	for (net = 0; net < 2; net++) {
		layer(w + net * SIZE1, HIDDEN, OBSERVED, seen, out->hidden[net]);
		for (i = 0; i < HIDDEN; i++)
			out->hidden[net][i] = tanh(out->hidden[net][i]);
	}
	layer(w + AT_HEAD, ACTIONS, HIDDEN, out->hidden[0], logit);
	layer(w + AT_VALUE, 1, HIDDEN, out->hidden[1], &out->value);
	most = logit[0];
	for (i = 1; i < ACTIONS; i++)
		most = logit[i] > most ? logit[i] : most;
	for (i = 0; i < ACTIONS; i++)
		sum += out->p[i] = exp(logit[i] - most);
	for (i = 0; i < ACTIONS; i++)
		out->p[i] /= sum;
}

/* Through the hidden layer of one net. */
static void hidden_back(const double *w, const double *seen, const struct policy_out *out, int net,
			double *dhidden, double *g)
{
	int i;

	for (i = 0; i < HIDDEN; i++)
		dhidden[i] *= 1 - out->hidden[net][i] * out->hidden[net][i];
	layer_back(w + net * SIZE1, HIDDEN, OBSERVED, seen, dhidden, g + net * SIZE1, NULL);
}

void policy_backward(const double *w, const double *seen, const struct policy_out *out,
		     const struct policy_loss *loss, double *g)
{
	double dlogit[ACTIONS], dvalue = loss->cost * (out->value - loss->target), entropy = 0;
	double dhidden[2][HIDDEN] = {{0}};
	int i;

	for (i = 0; i < ACTIONS; i++)
		entropy -= out->p[i] > 0 ? out->p[i] * log(out->p[i]) : 0;
	for (i = 0; i < ACTIONS; i++) {
		dlogit[i] = loss->advantage * (out->p[i] - (i == loss->action));
		if (out->p[i] > 0)
			dlogit[i] += loss->entropy * out->p[i] * (log(out->p[i]) + entropy);
	}
	layer_back(w + AT_HEAD, ACTIONS, HIDDEN, out->hidden[0], dlogit, g + AT_HEAD, dhidden[0]);
	layer_back(w + AT_VALUE, 1, HIDDEN, out->hidden[1], &dvalue, g + AT_VALUE, dhidden[1]);
	for (i = 0; i < 2; i++)
		hidden_back(w, seen, out, i, dhidden[i], g);
}

int policy_sample(const struct policy_out *out, uint64_t *random)
{
	double u = random_uniform(random);
	int i;

	for (i = 0; i < ACTIONS - 1 && u >= out->p[i]; i++)
		u -= out->p[i];
	return i;
}
