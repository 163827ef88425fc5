/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Data-parallel training with tutti: a perceptron learns to read handwritten digits.
 *
 *	tutti_run -n 4 train_digits
 *
 * Every rank holds a copy of the model. A step takes the next batch of samples; each rank runs its
 * slice of them forward and backward, and an all-reduce sums the gradients, so that all copies take
 * the same step. The result does not depend on the number of ranks.
 *
 * Communication hides behind computation: the gradient of the last layer is ready first, so its
 * all-reduce (its "bucket") starts while the layers before it are still being worked on. What could
 * not be hidden is printed as exposed time.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <tutti/tutti.h>

#include "examples/digits.h"
#include "examples/mlp.h"
#include "examples/train_options.h"

struct trainer {
	struct train_options opt;
	struct tutti_context *ctx;
	struct tutti_comm *world;
	int rank, nranks;
	struct mlp net;
	struct digit *digits;
	int *order; /* a shuffled list of digits: the training set, then the test set */
	int ntrain, ntest;
	double *input; /* this rank's slice of a batch */
	uint8_t *labels;
	struct tutti_request *pending[MLP_LAYERS];
	double exposed; /* seconds in calls of tutti while training, this epoch */
	FILE *csv;
};

/* What an epoch adds up to, over all ranks: all-reduced as an array of doubles. */
struct totals {
	double loss, right, exposed;
};

static double now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

static int failed(struct trainer *t, const char *what)
{
	tutti_comm_perror(t->world, what);
	return -1;
}

/* The part [*first, *first + returned) of n things that is this rank's. */
static int my_slice(const struct trainer *t, int n, int *first)
{
	*first = (int)((long)n * t->rank / t->nranks);
	return (int)((long)n * (t->rank + 1) / t->nranks) - *first;
}

static int most_rows(const struct trainer *t)
{
	return (t->opt.batch + t->nranks - 1) / t->nranks;
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

/* Start the all-reduce of a layer's gradient, and let those already under way move on. */
static int start_bucket(struct trainer *t, int l)
{
	struct layer *layer = &t->net.layers[l];
	double start = now();
	int i, done;

	if (tutti_iallreduce(TUTTI_IN_PLACE, layer->gradient, (size_t)layer->size, TUTTI_FLOAT64,
			     TUTTI_SUM, t->world, &t->pending[l]))
		return failed(t, "starting to sum gradients");
	for (i = MLP_LAYERS - 1; i >= l; i--)
		if (tutti_test(&t->pending[i], &done))
			return failed(t, "summing gradients");
	t->exposed += now() - start;
	return 0;
}

static int wait_buckets(struct trainer *t)
{
	double start = now();

	if (tutti_waitall(MLP_LAYERS, t->pending))
		return failed(t, "summing gradients");
	t->exposed += now() - start;
	return 0;
}

/*
 * One step on the n digits of order. Slices may differ by one sample, so gradients are summed, and
 * divided by n in the end.
 */
static int train_batch(struct trainer *t, const int *order, int n, struct totals *totals)
{
	int first, rows = my_slice(t, n, &first), right, l;

	gather(t, order + first, rows);
	mlp_forward(&t->net, t->input, rows);
	totals->loss += mlp_loss(&t->net, t->labels, &right);
	for (l = MLP_LAYERS - 1; l >= 0; l--) {
		mlp_gradient(&t->net, l);
		if (start_bucket(t, l))
			return -1;
		if (l)
			mlp_backward(&t->net, l);
	}
	if (wait_buckets(t))
		return -1;
	mlp_step(&t->net, n, t->opt.rate, t->opt.momentum);
	return 0;
}

static void test(struct trainer *t, struct totals *totals)
{
	int first, left = my_slice(t, t->ntest, &first), rows, right;
	const int *order = t->order + t->ntrain + first;

	for (; left > 0; left -= rows, order += rows) {
		rows = left < most_rows(t) ? left : most_rows(t);
		gather(t, order, rows);
		mlp_forward(&t->net, t->input, rows);
		mlp_loss(&t->net, t->labels, &right);
		totals->right += right;
	}
}

static void print_epoch(const struct trainer *t, int epoch, const struct totals *totals,
			double seconds)
{
	double loss = totals->loss / t->ntrain, accuracy = totals->right / t->ntest;
	double exposed = totals->exposed / t->nranks;

	if (t->csv)
		fprintf(t->csv, "%d,%.12g,%.6f\n", epoch, loss, accuracy);
	if (t->opt.quiet && epoch < t->opt.epochs)
		return;
	printf("epoch %3d   loss %9.6f   test accuracy %6.2f %%   %8.0f samples/s   "
	       "exposed communication %7.2f ms (%4.1f %%)\n",
	       epoch, loss, 100 * accuracy, t->ntrain / seconds, 1e3 * exposed,
	       100 * exposed / seconds);
	fflush(stdout);
}

static int run_epoch(struct trainer *t, int epoch)
{
	struct totals totals = {0};
	double start = now(), seconds;
	int i, n;

	t->exposed = 0;
	shuffle(t->order, t->ntrain, t->opt.seed + (uint64_t)epoch);
	for (i = 0; i < t->ntrain; i += n) {
		n = t->ntrain - i < t->opt.batch ? t->ntrain - i : t->opt.batch;
		if (train_batch(t, t->order + i, n, &totals))
			return -1;
	}
	seconds = now() - start;
	test(t, &totals);
	totals.exposed = t->exposed;
	if (tutti_allreduce(TUTTI_IN_PLACE, &totals, sizeof(totals) / sizeof(double), TUTTI_FLOAT64,
			    TUTTI_SUM, t->world))
		return failed(t, "adding up the epoch");
	if (t->rank == 0)
		print_epoch(t, epoch, &totals, seconds);
	return 0;
}

/* Rank 0 reads the data; the others learn how many digits there are, or that it failed. */
static int load(struct trainer *t)
{
	int32_t n = -1;
	int i;

	if (t->rank == 0 && t->opt.csv) {
		t->csv = fopen(t->opt.csv, "w");
		if (!t->csv)
			perror(t->opt.csv);
		else
			fputs("epoch,loss,accuracy\n", t->csv);
	}
	if (t->rank == 0 && (t->csv || !t->opt.csv))
		n = digits_load(t->opt.data, &t->digits);
	if (tutti_bcast(&n, 1, TUTTI_INT32, 0, t->world))
		return failed(t, "sending the number of digits");
	if (n < 0)
		return -1;
	if (t->rank)
		t->digits = malloc((size_t)n * sizeof(*t->digits));
	t->order = malloc((size_t)n * sizeof(*t->order));
	if (!t->digits || !t->order)
		return fprintf(stderr, "train_digits: no memory for %d digits\n", n), -1;
	if (tutti_bcast(t->digits, (size_t)n * sizeof(*t->digits), TUTTI_UINT8, 0, t->world))
		return failed(t, "sending the digits");
	for (i = 0; i < n; i++)
		t->order[i] = i;
	shuffle(t->order, n, t->opt.seed);
	t->ntrain = n * 8 / 10;
	t->ntest = n - t->ntrain;
	return 0;
}

/* Weights and gradients live in memory the transports can reach, so that nothing is copied. */
static int make_model(struct trainer *t)
{
	int rows = most_rows(t), l;
	struct layer *layer;

	t->input = malloc((size_t)rows * DIGIT_PIXELS * sizeof(double));
	t->labels = malloc((size_t)rows);
	if (!t->input || !t->labels ||
	    mlp_init(&t->net, DIGIT_PIXELS, t->opt.hidden, DIGIT_CLASSES, rows))
		return fprintf(stderr, "train_digits: no memory for the model\n"), -1;
	for (l = 0; l < MLP_LAYERS; l++) {
		layer = &t->net.layers[l];
		if (tutti_alloc(t->ctx, (size_t)layer->size * sizeof(double),
				(void **)&layer->weights) ||
		    tutti_alloc(t->ctx, (size_t)layer->size * sizeof(double),
				(void **)&layer->gradient))
			return failed(t, "allocating the model");
	}
	if (t->rank == 0)
		mlp_random_weights(&t->net, t->opt.seed);
	for (l = 0; l < MLP_LAYERS; l++) {
		layer = &t->net.layers[l];
		if (tutti_bcast(layer->weights, (size_t)layer->size, TUTTI_FLOAT64, 0, t->world))
			return failed(t, "sending the first weights");
	}
	return 0;
}

static int train(struct trainer *t)
{
	int epoch;

	if (load(t) || make_model(t))
		return -1;
	if (t->rank == 0)
		printf("%d digits to learn from, %d to test; %d ranks, batches of %d, hidden "
		       "layers of %d\n",
		       t->ntrain, t->ntest, t->nranks, t->opt.batch, t->opt.hidden);
	for (epoch = 1; epoch <= t->opt.epochs; epoch++)
		if (run_epoch(t, epoch))
			return -1;
	return 0;
}

static int clean_up(struct trainer *t)
{
	int l, err;

	for (l = 0; l < MLP_LAYERS; l++) {
		tutti_free(t->net.layers[l].weights);
		tutti_free(t->net.layers[l].gradient);
	}
	mlp_free(&t->net);
	free(t->input);
	free(t->labels);
	free(t->digits);
	free(t->order);
	err = t->csv && fclose(t->csv);
	if (err)
		perror(t->opt.csv);
	return tutti_finalize(t->ctx) || err;
}

/* Before tutti_init the launcher's variables say who we are; one rank is enough to complain. */
static int first_rank(void)
{
	const char *rank = getenv("TUTTI_RANK");

	if (!rank)
		rank = getenv("RANK");
	return !rank || !strcmp(rank, "0");
}

int main(int argc, char **argv)
{
	struct tutti_error_info info = {.size = sizeof(info)};
	static struct trainer t;
	enum train_parsed parsed;
	char message[256];
	int err;

	parsed = train_options_parse(&t.opt, argc, argv, message, sizeof(message));
	if (parsed != TRAIN_RUN) {
		if (!first_rank())
			return parsed == TRAIN_WRONG ? 2 : 0;
		if (parsed == TRAIN_WRONG)
			fprintf(stderr, "train_digits: %s\nTry 'train_digits --help'.\n", message);
		else if (parsed == TRAIN_HELP)
			fputs(train_help, stdout);
		else
			printf("train_digits (tutti) %s\n", tutti_version());
		return parsed == TRAIN_WRONG ? 2 : 0;
	}
	err = tutti_init(NULL, &t.ctx);
	if (err) { /* no communicator yet to ask: the thread's last error says more than the code */
		tutti_last_error(&info);
		fprintf(stderr, "train_digits: %s: %s\n", tutti_strerror(err), info.text);
		return 1;
	}
	t.world = tutti_world(t.ctx);
	t.rank = tutti_comm_rank(t.world);
	t.nranks = tutti_comm_size(t.world);
	err = train(&t);
	return clean_up(&t) || err ? 1 : 0;
}
