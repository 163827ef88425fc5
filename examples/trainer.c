/* SPDX-License-Identifier: BSD-3-Clause */
/* The common part of train_digits and train_elastic; see trainer.h. */
#define _POSIX_C_SOURCE 200809L
#include "examples/trainer.h"

#include "examples/random.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

double trainer_now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

void trainer_use(struct trainer *t, struct tutti_comm *comm)
{
	t->comm = comm;
	t->rank = tutti_comm_rank(comm);
	t->nranks = tutti_comm_size(comm);
}

/* The part [*first, *first + returned) of n things that is this rank's. */
static int my_slice(const struct trainer *t, int n, int *first)
{
	*first = (int)((long)n * t->rank / t->nranks);
	return (int)((long)n * (t->rank + 1) / t->nranks) - *first;
}

/* Put the n digits named by order[0..n) into input and labels. */
static void gather(struct trainer *t, const int *order, int n)
{
	const struct digit *digit;
	int r, i;

	for (r = 0; r < n; r++) {
		digit = &t->digits[order[r]];
		t->labels[r] = digit->label;
		for (i = 0; i < DIGIT_PIXELS; i++)
			t->input[r * DIGIT_PIXELS + i] = digit->pixels[i] / 16.0;
	}
}

int trainer_take(struct trainer *t, int n)
{
	t->doing = "making room for the digits";
	t->order = malloc((size_t)n * sizeof(*t->order));
	if (!t->order)
		return -ENOMEM;
	t->ntrain = n * 8 / 10;
	t->ntest = n - t->ntrain;
	return 0;
}

/* Each epoch shuffles the previous order; a rank that joins later must get the same order. */
void trainer_order(struct trainer *t, int epoch)
{
	int i, n = t->ntrain + t->ntest;

	for (i = 0; i < n; i++)
		t->order[i] = i;
	shuffle(t->order, n, t->opt.seed);
	for (i = 1; i <= epoch; i++)
		shuffle(t->order, t->ntrain, t->opt.seed + (uint64_t)i);
}

/* A rank may become the only one, so there is room for whole batches. */
int trainer_model(struct trainer *t)
{
	t->doing = "making the model";
	t->input = malloc((size_t)t->opt.batch * DIGIT_PIXELS * sizeof(double));
	t->labels = malloc((size_t)t->opt.batch);
	if (!t->input || !t->labels ||
	    mlp_init(&t->net, DIGIT_PIXELS, t->opt.hidden, DIGIT_CLASSES, t->opt.batch))
		return -ENOMEM;
	return 0;
}

int trainer_alloc(struct trainer *t)
{
	struct layer *layer;
	int l, err = 0;

	t->doing = "allocating the model";
	for (l = 0; l < MLP_LAYERS && !err; l++) {
		layer = &t->net.layers[l];
		err = tutti_alloc(t->ctx, (size_t)layer->size * sizeof(double),
				  (void **)&layer->weights);
		if (!err)
			err = tutti_alloc(t->ctx, (size_t)layer->size * sizeof(double),
					  (void **)&layer->gradient);
	}
	return err;
}

/* Of each layer the weights, in x out, and the biases, which are no matrix and travel as such. */
#define MATRICES (2 * MLP_LAYERS)

static int make_approx(struct trainer *t, int rank)
{
	size_t rows[MATRICES], cols[MATRICES];
	struct tutti_power_sgd_config config = {.size = sizeof(config),
						.n = MATRICES,
						.rows = rows,
						.cols = cols,
						.rank = rank,
						.seed = t->opt.seed};
	int l;

	for (l = 0; l < MLP_LAYERS; l++) {
		rows[2 * l] = (size_t)t->net.layers[l].in;
		rows[2 * l + 1] = 1;
		cols[2 * l] = cols[2 * l + 1] = (size_t)t->net.layers[l].out;
	}
	return tutti_power_sgd_create(t->comm, &config, &t->approx);
}

int trainer_encode(struct trainer *t, const struct coding *coding)
{
	int l, err = tutti_power_sgd_free(t->approx);

	t->approx = NULL;
	t->doing = "making the codec";
	for (l = 0; l < MLP_LAYERS && !err; l++) {
		coded_sum_close(&t->sent[l]);
		err = coded_sum_open(&t->sent[l], t->ctx, t->comm, coding,
				     (size_t)t->net.layers[l].size);
	}
	return err || !coding->power_sgd ? err : make_approx(t, coding->power_sgd);
}

int trainer_keep(struct trainer *t)
{
	int l, err = 0;

	for (l = 0; l < MLP_LAYERS && t->opt.coding.codec && !err; l++)
		err = coded_sum_keep(&t->sent[l]);
	return err;
}

int trainer_move(struct trainer *t, struct tutti_context *ctx, struct tutti_comm *comm)
{
	int l, err = 0;

	for (l = 0; l < MLP_LAYERS && t->opt.coding.codec && !err; l++)
		err = coded_sum_move(&t->sent[l], ctx, comm, &t->opt.coding);
	return err;
}

void trainer_drop(struct trainer *t)
{
	int l;

	tutti_power_sgd_free(t->approx);
	t->approx = NULL;
	for (l = 0; l < MLP_LAYERS; l++) {
		coded_sum_close(&t->sent[l]);
		tutti_free(t->net.layers[l].weights);
		tutti_free(t->net.layers[l].gradient);
		t->net.layers[l].weights = t->net.layers[l].gradient = NULL;
	}
}

void trainer_free(struct trainer *t)
{
	mlp_free(&t->net);
	free(t->input);
	free(t->labels);
	free(t->digits);
	free(t->order);
}

/* The all-reduce of a layer's gradient as float32, encoded on the way. */
static int start_encoded(struct trainer *t, int l)
{
	const struct layer *layer = &t->net.layers[l];
	int i;

	for (i = 0; i < layer->size; i++)
		t->sent[l].data[i] = (float)layer->gradient[i];
	return t->approx ? 0 : coded_sum_start(&t->sent[l], &t->pending[l]);
}

static void take_encoded(struct trainer *t)
{
	int l, i;

	for (l = 0; l < MLP_LAYERS; l++)
		for (i = 0; i < t->net.layers[l].size; i++)
			t->net.layers[l].gradient[i] = (double)t->sent[l].data[i];
}

/* Start the all-reduce of a layer's gradient, and let those already under way move on. */
static int start_bucket(struct trainer *t, int l)
{
	struct layer *layer = &t->net.layers[l];
	double start = trainer_now();
	int i, done, err;

	t->doing = "summing gradients";
	if (t->sent[l].data)
		err = start_encoded(t, l);
	else
		err = tutti_iallreduce(TUTTI_IN_PLACE, layer->gradient, (size_t)layer->size,
				       TUTTI_FLOAT64, TUTTI_SUM, t->comm, &t->pending[l]);
	for (i = MLP_LAYERS - 1; i >= l && !err; i--)
		err = tutti_test(&t->pending[i], &done);
	t->exposed += trainer_now() - start;
	return err;
}

static int sum_approximated(struct trainer *t)
{
	const struct layer *layer;
	float *matrices[MATRICES];
	int l;

	for (l = 0; l < MLP_LAYERS; l++) {
		layer = &t->net.layers[l];
		matrices[2 * l] = t->sent[l].data;
		matrices[2 * l + 1] = matrices[2 * l] + layer->in * layer->out;
	}
	return tutti_power_sgd_allreduce(t->approx, matrices, TUTTI_SUM, t->comm);
}

static int wait_buckets(struct trainer *t)
{
	double start = trainer_now();
	int err = t->approx ? sum_approximated(t) : tutti_waitall(MLP_LAYERS, t->pending);

	if (!err && t->sent[0].data)
		take_encoded(t);
	t->exposed += trainer_now() - start;
	return err;
}

int trainer_gradient(struct trainer *t, const int *order, int n, double *loss)
{
	int first, rows = my_slice(t, n, &first), right, l, err;

	gather(t, order + first, rows);
	mlp_forward(&t->net, t->input, rows);
	*loss += mlp_loss(&t->net, t->labels, &right);
	for (l = MLP_LAYERS - 1; l >= 0; l--) {
		mlp_gradient(&t->net, l);
		err = start_bucket(t, l);
		if (err)
			return err;
		if (l)
			mlp_backward(&t->net, l);
	}
	return wait_buckets(t);
}

void trainer_settle(struct trainer *t)
{
	int l;

	for (l = 0; l < MLP_LAYERS; l++)
		if (t->pending[l])
			tutti_wait(&t->pending[l]);
}

void trainer_test(struct trainer *t, double *right)
{
	int first, left = my_slice(t, t->ntest, &first), rows, n;
	const int *order = t->order + t->ntrain + first;

	for (; left > 0; left -= rows, order += rows) {
		rows = left < t->opt.batch ? left : t->opt.batch;
		gather(t, order, rows);
		mlp_forward(&t->net, t->input, rows);
		mlp_loss(&t->net, t->labels, &n);
		*right += n;
	}
}
