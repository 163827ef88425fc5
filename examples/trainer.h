/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Data-parallel training of a perceptron on digits, shared by train_digits and train_elastic. Every
 * rank holds the whole model and runs its slice of each batch. All-reduces that overlap with the
 * computation sum the gradients.
 *
 * Functions return 0 or a negative code of tutti, and name the failed step in `doing`.
 */
#ifndef TRAINER_H
#define TRAINER_H

#include <tutti/tutti.h>

#include "examples/coded_sum.h"
#include "examples/digits.h"
#include "examples/mlp.h"
#include "examples/train_options.h"

struct trainer {
	struct train_options opt;
	struct tutti_context *ctx;
	struct tutti_comm *comm;
	int rank, nranks; /* in comm */
	const char *doing;
	struct mlp net;
	struct digit *digits;
	int *order; /* a shuffled list of digits: the training set, then the test set */
	int ntrain, ntest;
	double *input; /* this rank's slice of a batch */
	uint8_t *labels;
	struct tutti_request *pending[MLP_LAYERS];
	struct coded_sum sent[MLP_LAYERS]; /* with a codec: the gradients as float32 */
	struct tutti_power_sgd *approx;	   /* they travel as approximations, all at once */
	double exposed; /* seconds in calls of tutti while training, this epoch */
};

/* The sums of an epoch over all ranks, all-reduced as an array of doubles. */
struct totals {
	double loss, right, exposed;
};

double trainer_now(void);
/* Work with the ranks of comm from now on. */
void trainer_use(struct trainer *t, struct tutti_comm *comm);
/* Make room for the order of n digits, those of t->digits. */
int trainer_take(struct trainer *t, int n);
/*
 * The order in which an epoch, from 1, meets the digits; the same at all ranks, whatever came
 * before.
 */
void trainer_order(struct trainer *t, int epoch);
/* Memory of the model; the weights are not set. */
int trainer_model(struct trainer *t);
/*
 * Weights and gradients are in memory of t->ctx, so that nothing is copied on the way; drop it
 * before the context ends.
 */
int trainer_alloc(struct trainer *t);
void trainer_drop(struct trainer *t);
/*
 * From now on gradients travel as float32, encoded by coding->codec or approximated; neither: as
 * they are. After trainer_alloc; again, with another codec.
 */
int trainer_encode(struct trainer *t, const struct coding *coding);
/* Keep the feedback before a step, and go on with it on the ranks of comm after a failure. */
int trainer_keep(struct trainer *t);
int trainer_move(struct trainer *t, struct tutti_context *ctx, struct tutti_comm *comm);
void trainer_free(struct trainer *t);
/*
 * The gradient of the n digits at order, summed over ranks, is in the model; adds this rank's
 * loss.
 */
int trainer_gradient(struct trainer *t, const int *order, int n, double *loss);
/* After a failure: no request is left. */
void trainer_settle(struct trainer *t);
/* Adds how many of this rank's part of the test set are recognized. */
void trainer_test(struct trainer *t, double *right);

#endif
