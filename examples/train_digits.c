/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Data-parallel training with tutti: a perceptron learns to read handwritten digits.
 *
 *	tutti_run -n 4 train_digits
 *
 * Every rank holds the whole model. A step takes the next batch of samples; each rank runs its
 * slice of the batch forward and backward, and an all-reduce sums the gradients, so that all ranks
 * take the same step. The result does not depend on the number of ranks.
 *
 * Communication hides behind computation: the gradient of the last layer is ready first, so its
 * all-reduce (its "bucket") starts while the layers before it are still being worked on.
 * Communication that could not be hidden is printed as exposed time.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "examples/advise.h"
#include "examples/trainer.h"

static FILE *csv; /* rank 0's */

static int failed(struct trainer *t)
{
	tutti_comm_perror(t->comm, t->doing);
	return -1;
}

static void print_epoch(const struct trainer *t, int epoch, const struct totals *totals,
			double seconds)
{
	double loss = totals->loss / t->ntrain, accuracy = totals->right / t->ntest;
	double exposed = totals->exposed / t->nranks;

	if (csv)
		fprintf(csv, "%d,%.12g,%.6f\n", epoch, loss, accuracy);
	if (t->opt.quiet && epoch < t->opt.epochs)
		return;
	printf("epoch %3d   loss %9.6f   test accuracy %6.2f %%   %8.0f samples/s   "
	       "exposed communication %7.2f ms (%4.1f %%)\n",
	       epoch, loss, 100 * accuracy, t->ntrain / seconds, 1e3 * exposed,
	       100 * exposed / seconds);
	fflush(stdout);
}

/* done: NULL, nothing is compared. */
static int run_epoch(struct trainer *t, int epoch, struct training *done)
{
	struct totals totals = {0};
	double start = trainer_now(), seconds;
	int i, n, steps = 0;

	t->exposed = 0;
	trainer_order(t, epoch);
	for (i = 0; i < t->ntrain; i += n, steps++) {
		n = t->ntrain - i < t->opt.batch ? t->ntrain - i : t->opt.batch;
		if (trainer_gradient(t, t->order + i, n, &totals.loss))
			return failed(t);
		mlp_step(&t->net, n, t->opt.rate, t->opt.momentum);
	}
	seconds = trainer_now() - start;
	trainer_test(t, &totals.right);
	totals.exposed = t->exposed;
	t->doing = "adding up the epoch";
	if (tutti_allreduce(TUTTI_IN_PLACE, &totals, sizeof(totals) / sizeof(double), TUTTI_FLOAT64,
			    TUTTI_SUM, t->comm))
		return failed(t);
	if (done)
		training_add(done, totals.right / t->ntest, steps, seconds);
	if (t->rank == 0)
		print_epoch(t, epoch, &totals, seconds);
	return 0;
}

static int open_csv(const struct trainer *t)
{
	if (!t->opt.csv)
		return 0;
	csv = fopen(t->opt.csv, "w");
	if (!csv)
		return perror(t->opt.csv), -1;
	fputs("epoch,loss,accuracy\n", csv);
	return 0;
}

/* Rank 0 reads the data; the others learn how many digits there are, or that it failed. */
static int load(struct trainer *t)
{
	int32_t n = -1;

	if (t->rank == 0 && !open_csv(t))
		n = digits_load(t->opt.data, &t->digits);
	t->doing = "sending the digits";
	if (tutti_bcast(&n, 1, TUTTI_INT32, 0, t->comm))
		return failed(t);
	if (n < 0)
		return -1;
	if (t->rank)
		t->digits = malloc((size_t)n * sizeof(*t->digits));
	if (!t->digits || trainer_take(t, n))
		return fprintf(stderr, "train_digits: no memory for %d digits\n", n), -1;
	t->doing = "sending the digits";
	if (tutti_bcast(t->digits, (size_t)n * sizeof(*t->digits), TUTTI_UINT8, 0, t->comm))
		return failed(t);
	return 0;
}

static int make_model(struct trainer *t)
{
	if (trainer_model(t))
		return fprintf(stderr, "train_digits: no memory for the model\n"), -1;
	return trainer_alloc(t) ? failed(t) : 0;
}

/* The weights and the speeds that a training begins with. */
static int begin(struct trainer *t)
{
	struct layer *layer;
	int l;

	if (t->rank == 0)
		mlp_random_weights(&t->net, t->opt.seed);
	t->doing = "sending the first weights";
	for (l = 0; l < MLP_LAYERS; l++) {
		layer = &t->net.layers[l];
		memset(layer->velocity, 0, (size_t)layer->size * sizeof(*layer->velocity));
		if (tutti_bcast(layer->weights, (size_t)layer->size, TUTTI_FLOAT64, 0, t->comm))
			return failed(t);
	}
	return 0;
}

static int run_epochs(struct trainer *t, struct training *done)
{
	struct coded_sent before = coded_sum_sent(t->ctx);
	int epoch;

	for (epoch = 1; epoch <= t->opt.epochs; epoch++)
		if (run_epoch(t, epoch, done))
			return -1;
	if (t->rank == 0)
		coded_sum_tell(t->ctx, 0, before);
	return 0;
}

/* Trains without the codec, in float32, then with it. */
static int advise(struct trainer *t)
{
	static const struct coding none;
	struct training orig, comp;
	const char *codec = t->opt.coding.codec ? t->opt.coding.codec : "PowerSGD";
	int err = training_begin(&orig, "no codec", t->opt.epochs);

	err |= training_begin(&comp, codec, t->opt.epochs);
	if (err)
		fprintf(stderr, "train_digits: no memory for the comparison\n");
	if (!err)
		err = begin(t) || (trainer_encode(t, &none) && failed(t)) || run_epochs(t, &orig);
	if (!err)
		err = begin(t) || (trainer_encode(t, &t->opt.coding) && failed(t)) ||
		      run_epochs(t, &comp);
	if (!err && t->rank == 0)
		training_compare(&orig, &comp);
	training_free(&orig);
	training_free(&comp);
	return err ? -1 : 0;
}

static int train(struct trainer *t)
{
	if (load(t) || make_model(t))
		return -1;
	if (t->rank == 0)
		printf("%d digits to learn from, %d to test; %d ranks, batches of %d, hidden "
		       "layers of %d\n",
		       t->ntrain, t->ntest, t->nranks, t->opt.batch, t->opt.hidden);
	if (t->opt.advise)
		return advise(t);
	if (begin(t))
		return -1;
	if ((t->opt.coding.codec || t->opt.coding.power_sgd) && trainer_encode(t, &t->opt.coding))
		return failed(t);
	return run_epochs(t, NULL);
}

static int clean_up(struct trainer *t)
{
	int err;

	trainer_settle(t);
	trainer_drop(t);
	trainer_free(t);
	err = csv && fclose(csv);
	if (err)
		perror(t->opt.csv);
	return tutti_finalize(t->ctx) || err;
}

int main(int argc, char **argv)
{
	struct tutti_error_info info = {.size = sizeof(info)};
	static struct trainer t;
	int err = train_options(&t.opt, &train_digits_program, argc, argv);

	if (err)
		return err > 0 ? 0 : 2;
	err = tutti_init(NULL, &t.ctx);
	if (err) { /* no communicator yet to ask: the thread's last error says more than the code */
		tutti_last_error(&info);
		fprintf(stderr, "train_digits: %s: %s\n", tutti_strerror(err), info.text);
		return 1;
	}
	trainer_use(&t, tutti_world(t.ctx));
	err = train(&t);
	err |= train_flush(&train_digits_program);
	return clean_up(&t) || err ? 1 : 0;
}
