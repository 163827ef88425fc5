/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Whether a codec has paid: it has if T_comp * I_comp < T_orig * I_orig, T being the time of an
 * iteration and I how many a training takes to the same accuracy.
 */
#ifndef ADVISE_H
#define ADVISE_H

/* The course of a training. */
struct training {
	const char *codec; /* the name for the table */
	int epochs;
	double *accuracy; /* of the test set after each epoch, 0 to 1 */
	double *seconds;  /* of a step of each epoch, in the mean */
	long *steps;	  /* since the begin */
};

/* Room for epochs; 0, or -1. */
int training_begin(struct training *t, const char *codec, int epochs);
/* An epoch of so many steps in so many seconds. */
void training_add(struct training *t, double accuracy, long steps, double seconds);
void training_free(struct training *t);

/*
 * Print T, the median of the epochs, and I of both, and the verdict. The accuracy to reach is half
 * a point below the best of orig.
 */
void training_compare(struct training *orig, struct training *comp);

#endif
