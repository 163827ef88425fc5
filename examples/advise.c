/* SPDX-License-Identifier: BSD-3-Clause */
/* The verdict on a codec, from two trainings; see advise.h. */
#include "examples/advise.h"

#include <stdio.h>
#include <stdlib.h>

int training_begin(struct training *t, const char *codec, int epochs)
{
	*t = (struct training){.codec = codec};
	t->accuracy = calloc((size_t)epochs, sizeof(*t->accuracy));
	t->seconds = calloc((size_t)epochs, sizeof(*t->seconds));
	t->steps = calloc((size_t)epochs, sizeof(*t->steps));
	return t->accuracy && t->seconds && t->steps ? 0 : -1;
}

void training_add(struct training *t, double accuracy, long steps, double seconds)
{
	t->accuracy[t->epochs] = accuracy;
	t->steps[t->epochs] = steps + (t->epochs ? t->steps[t->epochs - 1] : 0);
	t->seconds[t->epochs] = seconds / (double)steps;
	t->epochs++;
}

void training_free(struct training *t)
{
	free(t->accuracy);
	free(t->seconds);
	free(t->steps);
}

static int ascending(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

/* Sorts the times of the epochs. */
static double step_time(struct training *t)
{
	qsort(t->seconds, (size_t)t->epochs, sizeof(*t->seconds), ascending);
	return t->seconds[t->epochs / 2];
}

/* Steps to this accuracy; 0: it was not reached. */
static long steps_to(const struct training *t, double accuracy)
{
	int i;

	for (i = 0; i < t->epochs; i++)
		if (t->accuracy[i] >= accuracy)
			return t->steps[i];
	return 0;
}

static void print_training(const char *which, const struct training *t, double time, long steps)
{
	printf("  %-20s T_%s %9.4f ms   ", t->codec, which, 1e3 * time);
	if (steps)
		printf("I_%s %6ld   T * I %9.4f s\n", which, steps, time * (double)steps);
	else
		printf("I_%s more than %ld\n", which, t->steps[t->epochs - 1]);
}

void training_compare(struct training *orig, struct training *comp)
{
	double target = 0, gain, t_orig = step_time(orig), t_comp = step_time(comp);
	long i_orig, i_comp;
	int i;

	for (i = 0; i < orig->epochs; i++)
		if (orig->accuracy[i] - 0.005 > target)
			target = orig->accuracy[i] - 0.005;
	i_orig = steps_to(orig, target);
	i_comp = steps_to(comp, target);
	printf("To %.2f %% of the test set, half a point below the best without a codec:\n",
	       100 * target);
	print_training("orig", orig, t_orig, i_orig);
	print_training("comp", comp, t_comp, i_comp);
	if (!i_comp || !i_orig) {
		printf("verdict: not with %s in %d epochs\n", comp->codec, comp->epochs);
		return;
	}
	gain = t_orig * (double)i_orig / (t_comp * (double)i_comp);
	printf("verdict: %s %s: training is %.2f times as fast (steps %.2f times, but %.2f times "
	       "as "
	       "many)\n",
	       comp->codec, gain > 1 ? "pays" : "loses", gain, t_orig / t_comp,
	       (double)i_comp / (double)i_orig);
}
