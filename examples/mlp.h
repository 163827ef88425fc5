/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A multilayer perceptron: fully connected layers with ReLU between them and a softmax at the end.
 * There is no communication in here. Everything is double, so that gradients summed over ranks in
 * another order differ in the last digits only.
 */
#ifndef MLP_H
#define MLP_H

#include <stdint.h>

#define MLP_LAYERS 3 /* two hidden ones and the output */

struct layer {
	int in, out;
	int size;	  /* of each of the next three: in * out weights, then out biases */
	double *weights;  /* weights[i * out + o] */
	double *gradient; /* summed over samples */
	double *velocity; /* of momentum */
	double *output;	  /* [row * out + o] */
	double *delta;	  /* derivative of the loss by the input of the layer's nonlinearity */
};

struct mlp {
	struct layer layers[MLP_LAYERS];
	const double *input; /* of the last forward pass */
	int rows;
};

/* Fill in sizes and allocate what stays on this rank; the caller sets weights and gradient. */
int mlp_init(struct mlp *net, int inputs, int hidden, int classes, int max_rows);
void mlp_free(struct mlp *net);
void mlp_random_weights(struct mlp *net, uint64_t seed);

/* Compute all outputs for rows samples. */
void mlp_forward(struct mlp *net, const double *input, int rows);
/* After forward: the summed cross entropy and the number of right answers; sets the last delta. */
double mlp_loss(struct mlp *net, const uint8_t *labels, int *right);
/* The gradient of layer l, from its delta. */
void mlp_gradient(struct mlp *net, int l);
/* The delta of layer l - 1, from that of l. */
void mlp_backward(struct mlp *net, int l);
/* One step of gradient descent; the gradient is divided by samples. */
void mlp_step(struct mlp *net, int samples, double rate, double momentum);

#endif
